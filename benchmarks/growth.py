"""Cost of the precision difference and of the default fit against p, n and the number of changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from measure import exponent
from tables import CHANGES, Cells, N, Size, Table, certified, column, done, run_cells, spread

METHODS = ("dantzig", "dtrace")
LARGE = 500  # exponents are given for all sizes, and from here on, where fixed costs are small


def precision_grid(size: Size, seed: int, axis: str, values: Sequence[int]) -> list[dict[str, Any]]:
    grid = []
    for method in METHODS:
        for value in values:
            cell = {"p": size.p_middle, "n": N, "changes": CHANGES, "method": method, "seed": seed, axis: value}
            cell["sets"] = size.sets_large if cell["p"] >= 2000 or axis == "n" else size.sets
            grid.append(cell)
    return grid


def against_p(size: Size, seed: int) -> list[Table]:
    cells = run_cells("precision", size.limit, precision_grid(size, seed, "p", size.p))
    rows = []
    for cell, runs in cells:
        memory = max(column(runs, "memory"), default=None)
        rows.append(
            [
                cell["method"],
                cell["p"],
                *spread(column(runs, "seconds", "floor")),
                certified(runs),
                *spread(column(runs, "seconds"))[:1],
                *spread(column(runs, "floor"))[:1],
                memory,
                memory and memory * 2**30 / 8 / cell["p"] ** 2,
                done(cell, runs),
            ]
        )
    columns = ["method", "p", "time / floor", "worst", "certified to 1e-6", "time (s)", "floor (s)"]
    columns += ["peak memory (GiB)", "in p x p matrices", "data sets"]
    title = f"Precision difference against p, n = {N}, {CHANGES} changes"
    settings = {"n": N, "changes": CHANGES}
    return [
        Table("p", title, columns, rows, settings),
        exponents("p", cells, ("seconds", "floor", "memory"), settings),
    ]


def against_n(size: Size, seed: int) -> list[Table]:
    cells = run_cells("precision", size.limit, precision_grid(size, seed, "n", size.n))
    units = {cell["method"]: np.median(column(runs, "floor")) for cell, runs in cells if cell["n"] == N}
    rows = []
    for cell, runs in cells:
        times = [taken / units[cell["method"]] for taken in column(runs, "seconds")]
        ratios = spread(column(runs, "seconds", "floor"))
        moments = spread(column(runs, "moments", "floor"))[:1]
        rows.append(
            [cell["method"], cell["n"], *spread(times), *ratios, *moments, certified(runs), done(cell, runs)]
        )
    columns = ["method", "n", f"time / floor at n = {N}", "worst", "time / floor at this n", "worst of these"]
    columns += ["moments / floor", "certified to 1e-6", "data sets"]
    settings = {"p": size.p_middle, "changes": CHANGES}
    title = f"Precision difference against n, p = {size.p_middle}, {CHANGES} changes"
    return [
        Table("n", title, columns, rows, settings),
        exponents("n", cells, ("seconds", "moments", "floor"), settings),
    ]


def against_changes(size: Size, seed: int) -> list[Table]:
    cells = run_cells("precision", size.limit, precision_grid(size, seed, "changes", size.changes))
    rows = []
    for cell, runs in cells:
        entries = spread(column(runs, "entries"))[:1]
        ratios = spread(column(runs, "seconds", "floor"))
        rows.append([cell["method"], cell["changes"], *ratios, *entries, certified(runs), done(cell, runs)])
    columns = ["method", "changes", "time / floor", "worst", "entries found", "certified to 1e-6", "data sets"]
    title = f"Precision difference against the number of changes, p = {size.p_middle}, n = {N}"
    settings = {"p": size.p_middle, "n": N}
    return [
        Table("changes", title, columns, rows, settings),
        exponents("changes", cells, ("seconds",), settings),
    ]


def exponents(axis: str, cells: Cells, names: Sequence[str], settings: dict[str, Any]) -> Table:
    """How the medians grow along the axis."""
    rows = []
    for method in dict.fromkeys(cell.get("method", "order") for cell, _ in cells):
        mine = [(c[axis], runs) for c, runs in cells if c.get("method", "order") == method and runs]
        for name in names:
            points = [(x, float(np.median(values))) for x, runs in mine if (values := column(runs, name))]
            for start in (0, LARGE) if axis == "p" and points[-1][0] > LARGE else (0,):
                some = [point for point in points if point[0] >= start]
                if len(some) > 1:
                    rows.append([method, name, some[0][0], some[-1][0], *exponent(*zip(*some, strict=True))])
    columns = ["method", "of", "from", "to", "exponent", "standard error"]
    return Table(f"{axis} exponents", f"Growth with {axis}: slopes in logarithms", columns, rows, settings)


def order_cost(size: Size, seed: int, axis: str, p: Sequence[int], changes: Sequence[int]) -> Table:
    settings = {"p": p, "changes": changes, "n": N, "sets": size.sets_large, "seed": seed}
    ((_, runs),) = run_cells("order", 2 * size.limit, [settings])
    rows, cells = [], []
    for value in settings[axis]:
        mine = [run for run in runs if run[axis] == value]
        cells.append(({axis: value}, mine))
        times, f1 = spread(column(mine, "seconds")), spread(column(mine, "f1"))[:1]
        rows.append([value, *spread(column(mine, "seconds", "floor")), *times, *f1, done(settings, mine)])
    columns = [axis, "time / floor", "worst", "time (s)", "worst (s)", "F1", "data sets"]
    other, fixed = ("changes", changes[0]) if axis == "p" else ("p", p[0])
    growth = exponents(axis, cells, ("seconds",), {})
    slope = f"; exponent of the time {growth.rows[0][4]:.2f}" if growth.rows else ""
    section = "order" if axis == "p" else f"order-{axis}"
    title = f"Default fit against {axis}, n = {N}, {other} = {fixed}{slope}"
    return Table(section, title, columns, rows, {"n": N, other: fixed})


def order_against_p(size: Size, seed: int) -> list[Table]:
    return [order_cost(size, seed, "p", size.order_p, (CHANGES,))]


def order_against_changes(size: Size, seed: int) -> list[Table]:
    return [order_cost(size, seed, "changes", (size.order_middle,), size.changes)]
