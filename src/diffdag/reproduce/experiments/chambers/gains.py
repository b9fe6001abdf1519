"""Gains that were claimed, beside the machine's own: slopes of a sensor on its causes, before and after."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from diffdag._base.arrays import FloatArray
from diffdag.reproduce.experiments.chambers.data import REFERENCE, Machine, nominal_factor
from diffdag.results.records import GainChange

ROUNDS = 50  # of reweighting; a few are enough
COLUMNS = (
    "environment", "kind", "target", "nominal", "machine", "machine_stderr", "ratios", "claimed",
    "claimed_stderr",
)  # fmt: skip


def gains_text(gains: Iterable[GainChange]) -> str:
    """Claimed gains in words.

    >>> gains_text([GainChange("current", 4.683, 0.031), GainChange("ir_1")])
    'current x 4.68 ± 0.031; ir_1'
    """
    return "; ".join(f"{gain.variable}{factor_text(gain.factor, gain.stderr)}" for gain in gains)


def factor_text(factor: float | None, stderr: float | None) -> str:
    """A factor and its standard error, as far as they are known."""
    if factor is None:
        return ""
    return f" x {factor:.3g}" + ("" if stderr is None else f" ± {stderr:.2g}")


def gains_json(gains: Iterable[GainChange]) -> str:
    """Claimed gains as numbers: factor and standard error by variable."""
    return json.dumps({gain.variable: [gain.factor, gain.stderr] for gain in gains}, allow_nan=False)


def slopes(rows: pd.DataFrame, target: str, causes: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    """Least-squares slopes and their standard errors, for noise that may grow with the causes (White 1980)."""
    x = rows[list(causes)].to_numpy(float)
    y = rows[target].to_numpy(float)
    x, y = x - x.mean(axis=0), y - y.mean()
    inverse = np.linalg.inv(x.T @ x)
    found = inverse @ (x.T @ y)
    scores = x * (y - x @ found)[:, None]
    spread = inverse @ (scores.T @ scores) @ inverse * (len(x) / (len(x) - x.shape[1] - 1))
    return found, np.sqrt(np.diag(spread))


def pooled_factor(
    first: tuple[FloatArray, FloatArray], second: tuple[FloatArray, FloatArray]
) -> tuple[float, float]:
    """The factor between two vectors of slopes, with its standard error.

    Least squares with the inverse variances of ``b2 - s b1`` for weights, which depend on ``s``: weights and
    factor take turns.
    """
    (b1, e1), (b2, e2) = first, second
    factor = float(b1 @ b2 / (b1 @ b1))
    for _ in range(ROUNDS):
        weights = 1 / (e2**2 + (factor * e1) ** 2)
        factor = float((weights * b1) @ b2 / ((weights * b1) @ b1))
    return factor, 1 / math.sqrt(float((weights * b1) @ b1))


def gains_table(machine: Machine, claimed: pd.DataFrame) -> pd.DataFrame:
    """One row per changed sensor: nominal, the machine's own and claimed factors, and the slopes' ratios.

    `claimed` has the columns ``environment``, ``kind`` and ``factors``, as `gains_json` writes them; an empty
    cell where there was no result.
    """
    rows = []
    for row in claimed.to_dict("records"):
        factors = json.loads(row["factors"]) if isinstance(row["factors"], str) else {}
        strong = machine.edges(row["environment"], strong=True)
        for target, edges in strong.groupby("target", sort=False):
            claim = dict(zip(("claimed", "claimed_stderr"), factors.get(target, (None, None)), strict=True))
            own = own_factors(machine, row["environment"], str(target), list(edges["source"]))
            about = {"environment": row["environment"], "kind": row["kind"], "target": target}
            rows.append({**about, "nominal": nominal_factor(" ".join(edges["how"])), **own, **claim})
    return pd.DataFrame(rows, columns=list(COLUMNS))


def own_factors(machine: Machine, environment: str, target: str, causes: Sequence[str]) -> dict[str, Any]:
    """By what the slopes of a sensor differ from those in the reference: one factor, and one per cause."""
    first, second = (slopes(machine.values(name), target, causes) for name in (REFERENCE, environment))
    factor, error = pooled_factor(first, second)
    ratios = zip(causes, second[0] / first[0], strict=True)
    each = "; ".join(f"{cause} {ratio:.3g}" for cause, ratio in ratios)
    return {"machine": factor, "machine_stderr": error, "ratios": each}
