"""Sizes of the benchmarks of scale, and what their tables have in common."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from measure import run_cell

N, CHANGES = 1000, 8
APART = (2000, 5000)  # sizes at which each data set has a process and a time limit of its own
Cells = list[tuple[dict[str, Any], list[dict[str, Any]]]]


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    quick: bool
    p: tuple[int, ...] = (125, 250, 500, 1000, 2000, 5000)
    p_middle: int = 500
    n: tuple[int, ...] = (500, 1000, 2000, 4000, 8000, 16000)
    changes: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    order_p: tuple[int, ...] = (10, 20, 30, 50, 70, 100)
    order_middle: int = 30
    lp_p: tuple[int, ...] = (8, 12, 16, 20, 25, 30)
    # p, data sets, seconds for each
    admm: tuple[tuple[int, int, float], ...] = ((100, 2, 10.0), (500, 1, 60.0))
    lasso_p: tuple[int, ...] = (50, 100, 200)
    graphs_p: int = 50
    sets: int = 5
    sets_large: int = 3  # from p = 2000 on, and for what is slow
    limit: float = 120.0  # seconds for a cell


QUICK = Size(
    quick=True,
    p=(60, 120),
    p_middle=60,
    n=(1000, 2000),
    changes=(1, 4),
    order_p=(8, 12),
    order_middle=8,
    lp_p=(6, 10),
    admm=((30, 1, 2.0),),
    lasso_p=(30,),
    graphs_p=12,
    sets=2,
    sets_large=1,
    limit=60.0,
)


@dataclass(frozen=True)
class Table:
    """One table of a section."""

    section: str
    title: str
    columns: list[str]
    rows: list[list[Any]]
    settings: dict[str, Any] = field(default_factory=dict)


def run_cells(kind: str, limit: float, grid: Iterable[dict[str, Any]]) -> Cells:
    cells = []
    for settings in grid:
        start = time.perf_counter()
        if settings.get("p", 0) in APART and kind == "precision":  # a hard data set stops no other
            sets = range(settings["sets"])
            rows = [
                row for k in sets for row in run_cell(kind, limit, **settings | {"first": k, "sets": k + 1})[0]
            ]
        else:
            rows, _ = run_cell(kind, limit, **settings)
        taken = time.perf_counter() - start
        print(f"{kind} {settings}: {len(rows)} rows, {taken:.0f} s", file=sys.stderr, flush=True)
        cells.append((settings, rows))
    return cells


def spread(values: Sequence[float], worst: Callable[..., float] = max) -> list[float | None]:
    """Median and worst."""
    return [float(np.median(values)), worst(values)] if len(values) else [None, None]


def column(rows: Sequence[dict[str, Any]], name: str, over: str | None = None) -> list[float]:
    return [row[name] / row[over] if over else row[name] for row in rows if row[name] is not None]


def done(settings: dict[str, Any], rows: Sequence[Any]) -> str:
    return f"{len(rows)} of {settings['sets']}"


def certified(rows: Sequence[dict[str, Any]]) -> str:
    return f"{sum(max(row['gap'], row['violation']) <= 1e-6 for row in rows)} of {len(rows)}"
