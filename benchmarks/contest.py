"""Tables of the peers: how many times longer they take than we do, and how good the answers are."""

from __future__ import annotations

from typing import Any

from tables import CHANGES, N, Size, Table, certified, column, done, run_cells, spread

LP_CHANGES = 4
NEIGHBOURS, SHARE = 6, 0.05  # of the difference graphs


def full_programme(size: Size, seed: int) -> list[Table]:
    base = {"n": N, "changes": LP_CHANGES, "sets": size.sets_large, "seed": seed}
    rows = []
    for cell, runs in run_cells("lp", size.limit, [{"p": p, **base} for p in size.lp_p]):
        ratios = spread(column(runs, "peer", "seconds"), min)
        times = [spread(column(runs, name))[0] for name in ("peer", "seconds")]
        rows.append(
            [cell["p"], *ratios, *times, max(column(runs, "difference"), default=None), done(cell, runs)]
        )
    columns = ["p", "peer / ours", "least", "peer (s)", "ours (s)", "objectives differ by", "data sets"]
    title = f"The full linear programme by HiGHS (scipy.optimize.linprog), n = {N}, {LP_CHANGES} changes"
    return [Table("lp", title, columns, rows, {"n": N, "changes": LP_CHANGES})]


def admm(size: Size, seed: int) -> list[Table]:
    grid = [
        {"p": p, "n": N, "changes": CHANGES, "method": method, "sets": sets, "limit": limit, "seed": seed}
        for method in ("dantzig", "dtrace")
        for p, sets, limit in size.admm
    ]
    rows = []
    for cell in grid:
        # The peer's own limit ends it; the other is for what surrounds it.
        ((_, runs),) = run_cells("admm", cell["sets"] * (2 * cell["limit"] + 60), [cell])
        fine = [run for run in runs if run["error_fine"] <= 1e-6]
        rows.append(
            [
                cell["method"],
                cell["p"],
                *spread(column(runs, "peer", "seconds"), min),
                f"{sum(run['reached'] for run in runs)} of {len(runs)}",
                *spread(column(runs, "iterations"))[:1],
                *spread(column(runs, "peer_fine", "seconds"))[:1],
                f"{len(fine)} of {len(runs)}",
                *spread(column(runs, "seconds", "floor"))[:1],
                certified(runs),
                *(spread(column(runs, name))[0] for name in ("f1", "peer_f1")),
                cell["limit"],
            ]
        )
    columns = ["method", "p", "peer / ours", "least", "within 1e-3", "iterations", "peer / ours for 1e-6"]
    columns += ["within 1e-6", "ours / floor", "ours certified to 1e-6", "F1 ours", "F1 peer", "limit (s)"]
    title = f"Textbook ADMM until objective and feasibility are within 1e-3, n = {N}, {CHANGES} changes"
    return [Table("admm", title, columns, rows, {"n": N, "changes": CHANGES})]


def lasso(size: Size, seed: int) -> list[Table]:
    base = {"n": N, "changes": CHANGES, "sets": size.sets_large, "seed": seed}
    rows = []
    for cell, runs in run_cells("lasso", size.limit, [{"p": p, **base} for p in size.lasso_p]):
        ratios = [
            value
            for method in ("dantzig", "dtrace")
            for value in spread(column(runs, "peer", f"{method}_seconds"), min)
        ]
        names = [f"{who}_{kind}" for kind in ("f1", "best_f1") for who in ("dantzig", "dtrace", "peer")]
        rows.append([cell["p"], *ratios, *(spread(column(runs, name))[0] for name in names), done(cell, runs)])
    columns = ["p", "peer / dantzig", "least", "peer / dtrace", "least of these", "F1 dantzig", "F1 dtrace"]
    columns += ["F1 peer", "best F1 dantzig", "best F1 dtrace", "best F1 peer", "data sets"]
    title = f"scikit-learn's graphical lasso on each table, subtracted, n = {N}, {CHANGES} changes"
    return [Table("lasso", title, columns, rows, {"n": N, "changes": CHANGES})]


def graphs(size: Size, seed: int) -> list[Table]:
    settings: dict[str, Any] = {"p": size.graphs_p, "n": N, "neighbours": NEIGHBOURS, "share": SHARE}
    methods = ("pc", "dci-c")
    cell = {**settings, "methods": methods, "sets": size.sets_large, "limit": size.limit, "seed": seed}
    ((_, runs),) = run_cells("graphs", 2 * size.limit, [cell])
    rows = []
    for name in methods:
        mine = [run for run in runs if run["method"] == name]
        f1 = [spread(column(mine, key))[0] for key in ("f1", "peer_f1")]
        times = [spread(column(mine, key))[0] for key in ("seconds", "peer")]
        rows.append([name, *spread(column(mine, "peer", "seconds"), min), *times, *f1, done(cell, mine)])
    columns = ["peer", "peer / ours", "least", "ours (s)", "peer (s)", "F1 ours", "F1 peer", "data sets"]
    title = f"Difference graphs, p = {size.graphs_p}, n = {N}, {NEIGHBOURS} neighbours, "
    title += f"{SHARE:.0%} of the edges deleted and as many added"
    return [Table("graphs", title, columns, rows, settings)]
