"""Figure 4 of the paper: exact recovery against C for 5, 10 and 15 variables, and against n and n / log p.

If the number of rows needed grows with log p, the curves against ``n / log p`` (that is, against C) coincide
while those against n do not. How well they do is measured: for each number of variables, the C at which half of
the results are exact, by logistic regression; its spread over the numbers of variables, on the scale of
``log(n / log p)`` and of ``log n``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize

from diffdag._base.arrays import FloatArray
from diffdag._base.journal import Row
from diffdag.reproduce.experiments.charts import Panel, draw_panels, summarise, text_table
from diffdag.reproduce.experiments.runner import Cell, Experiment, write_table
from diffdag.reproduce.experiments.trial import KINDS, crossed, draw_data, draw_pair, try_method
from diffdag.reproduce.planning import TRIED, rows_at

DENSITY = 6 / 10  # neighbours for each variable, as at p = 10


def work(cell: Cell, settings: Mapping[str, Any]) -> Row:
    """One method on the data of one pair."""
    p, filtered = cell["p"], cell["kind"] == "filtered"
    seed = (settings["seed"], p, int(filtered), cell["pair"])
    pair = draw_pair(p, DENSITY * p, filtered, seed)
    n = rows_at(cell["C"], p)
    data = draw_data(pair, n, [*seed, round(100 * cell["C"])])
    return {"n": n, **try_method(cell["method"], pair, data, settings["limit"])}


def finish(table: pd.DataFrame, folder: Path, settings: Mapping[str, Any]) -> tuple[list[Path], str]:
    """Panels against n / log p and against n, and where half of the results are exact."""
    summary = summarise(table, ["kind", "method", "p", "C", "n"], ["exact", "f1"])
    summary["rows_by_log_p"] = summary["n"] / np.log(summary["p"])
    summary["curve"] = [f"p = {p}" for p in summary["p"]]
    halves = half_way(table)
    files = [write_table(folder / "figure4-summary.csv", summary.drop(columns="curve"))]
    files.append(write_table(folder / "figure4-half.csv", halves))
    parts = {
        f"{method}, {KINDS[str(kind)]}": part
        for (kind, method), part in summary.groupby(["kind", "method"], sort=False)
    }
    panels = [Panel(f"share exact, {title}", "exact", part) for title, part in parts.items()]
    look: dict[str, Any] = {"columns": len(settings["methods"]), "curve": "curve", "log": True}
    files += draw_panels(panels, "rows_by_log_p", "n / log p = exp(C)", folder / "figure4", **look)
    files += draw_panels(panels, "n", "n", folder / "figure4-n", **look)
    text = [f"{title}\n{text_table(part, 'p', 'C', ['exact'])}" for title, part in parts.items()]
    return files, "\n\n".join([*text, halves.to_string(index=False, float_format="{:.2f}".format)])


def half_way(table: pd.DataFrame) -> pd.DataFrame:
    """Where half, and nine in ten, of the results are exact; and the spread over the numbers of variables.

    A result that did not come within the time limit counts as not exact.
    """
    rows = []
    for (kind, method, p), part in table.fillna({"exact": 0.0}).groupby(["kind", "method", "p"], sort=False):
        half, ninety = _logistic_places(part["C"].to_numpy(float), part["exact"].to_numpy(float))
        log_n = half + math.log(math.log(float(str(p))))
        rows.append(
            {"kind": kind, "method": method, "p": p, "C_half": half, "log_n_half": log_n, "C_ninety": ninety}
        )
    halves = pd.DataFrame(rows)
    groups = halves.groupby(["kind", "method"])
    c_spread, n_spread = (groups[column].transform(_spread) for column in ("C_half", "log_n_half"))
    return halves.assign(C_spread=c_spread, log_n_spread=n_spread)


def _spread(places: pd.Series) -> float:
    return float(np.ptp(places.to_numpy(float))) if np.isfinite(places).all() else math.nan


def _logistic_places(x: FloatArray, exact: FloatArray) -> tuple[float, float]:
    """Where a logistic curve through shares of successes passes one half, and nine tenths.

    Infinite, with its sign, if that is outside the sizes looked at. A small ridge keeps the slope finite where
    all results on one side are exact and none on the other.
    """

    def loss(parameters: FloatArray) -> float:
        middle, slope = parameters
        logit = np.exp(slope) * (x - middle)
        return float(np.logaddexp(0, -logit) @ exact + np.logaddexp(0, logit) @ (1 - exact) + 0.01 * slope**2)

    middle, slope = minimize(loss, [float(x.mean()), 0.0], method="Nelder-Mead").x
    half, ninety = (
        float(place) if x.min() <= place <= x.max() else math.copysign(math.inf, place - x.mean())
        for place in (middle, middle + math.log(9) / math.exp(slope))
    )
    return half, ninety


_SIZE = {"kinds": list(KINDS), "methods": ["order", "paper"], "p": [5, 10, 15], "limit": 20.0, "seed": 833_000}
EXPERIMENT = Experiment(
    name="figure4",
    title="Figure 4: logarithmic dependence on p",
    key=("kind", "p", "C", "pair", "method"),
    cells=crossed(kind="kinds", p="p", pair="pairs", C="C", method="methods"),
    work=work,
    finish=finish,
    full={**_SIZE, "pairs": 30, "C": list(TRIED)},
    quick={**_SIZE, "pairs": 5, "C": [3, 5, 7, 9]},
    axes=("kinds", "p", "pairs", "C", "methods"),
)
