"""Two conditions made up for tests, and where the repository is."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np

from diffdag._base.arrays import FloatArray
from diffdag.model.sem import LinearSEM
from diffdag.model.simulate import SEMPair
from diffdag.tables.moments import Moments

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


@contextmanager
def benchmark_modules(names: Sequence[str]) -> Iterator[dict[str, ModuleType]]:
    """Modules of the folder of benchmarks, which import each other by their plain names."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
        for name in names:
            sys.modules.pop(name, None)


def study(
    seed: int, p: int = 5, n: tuple[int, int] = (60, 90), *, changed: float = 0.3
) -> tuple[FloatArray, FloatArray]:
    """Rows of two dense models, the columns shuffled.

    A share `changed` of the weights differs, and so do some noise variances, by amounts around the penalty.
    """
    rng = np.random.default_rng(seed)
    label = rng.permutation(p)
    before = np.tril(rng.uniform(-1, 1, (p, p)), -1)
    after = before + np.tril(rng.uniform(-2, 2, (p, p)) * (rng.random((p, p)) < changed), -1)
    variances = np.where(rng.random(p) < 0.3, rng.uniform(1.2, 4, p), 1.0)
    return LinearSEM(before).sample(n[0], rng)[:, label], LinearSEM(after, variances).sample(n[1], rng)[
        :, label
    ]


def sample_pair(pair: SEMPair, n: int | tuple[int, int], seed: int) -> tuple[FloatArray, FloatArray]:
    """Rows of both models of a pair, the second ones with the next seed."""
    rows = (n, n) if isinstance(n, int) else n
    return pair.first.sample(rows[0], rng=seed), pair.second.sample(rows[1], rng=seed + 1)


def moments(*tables: FloatArray, names: tuple[str, ...] | None = None) -> list[Moments]:
    """Moments of each table."""
    return [Moments.from_array(table, names) for table in tables]
