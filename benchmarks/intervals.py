r"""Do 95 % intervals from sample splitting cover 95 %?

    python benchmarks/intervals.py

Covered is asked of two values: the true change of the effect, for edges that are right; and, for all directed
edges, the coefficient that the regression along the order found would have with infinitely many rows, which is
what the interval is for. "as found" is delta plus or minus 1.96 standard errors of an ordinary fit to all rows.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import joblib
import numpy as np
from record import print_table
from scipy import stats

import diffdag as dd
from diffdag.pipeline import ModelOptions, prepare, search
from diffdag.tables.align import align_tables
from diffdag.tables.moments import Moments
from diffdag.trust.splitting import split_rows

SEED = 2_870_000
ROWS = 10**9
SETTINGS = [
    (10, 6, 341, {}),
    (10, 6, 2525, {}),
    (10, 6, 2525, {"variances": (0.7, 1.0, 1.3), "variances_drawn": "per-condition"}),
    (10, 6, 2525, {"noise": "student"}),
    (10, 6, 18658, {}),
    (30, 20, 5000, {"change": 0.02}),
]


def one(setting, seed, number):
    """For each directed edge: right, true change covered, coefficient covered; and the same as found."""
    p, neighbours, n, options = setting
    rng = np.random.default_rng([seed, SETTINGS.index(setting), number])
    pair = dd.simulate_pair(p, neighbours=neighbours, rng=rng, **options)
    samples = pair.first.sample(n, rng), pair.second.sample(n, rng)
    exact = [
        Moments(pair.first.names, ROWS, np.zeros(p), s.covariance() * ROWS) for s in (pair.first, pair.second)
    ]
    model, tables = ModelOptions(rng=number, n_jobs=1), align_tables(*samples)
    answers = []
    for intervals, rows in (("split", split_rows(tables, number)[0]), (None, tables)):
        result = dd.DifferenceDAG(n_jobs=1, rng=number, intervals=intervals).fit(*samples).result_
        structure = search(prepare(rows, model), model).structure
        answers.append(list(covered(result, structure, pair, exact)))
    return answers


def covered(result, structure, pair, exact):
    """Right, true change covered, coefficient covered, of each directed edge."""
    limits = {
        (edge.source, edge.target): edge.delta
        for i in structure.touched
        for edge in structure.edges(i, *[structure.regression(*exact, i)] * 2)
    }
    for edge in result.edge_list:
        if not edge.directed:
            continue
        ends = edge.source, edge.target
        i, j = pair.first.names.index(edge.target), pair.first.names.index(edge.source)
        true = float(pair.first.weights[i, j] - pair.second.weights[i, j])
        low = edge.delta - 1.96 * edge.stderr if edge.low is None else edge.low
        high = edge.delta + 1.96 * edge.stderr if edge.high is None else edge.high
        yield ends in pair.edges, low <= true <= high, low <= limits[ends] <= high


def share(flags):
    flags = np.asarray(flags, bool)
    if not len(flags):
        return ""
    interval = stats.binomtest(int(flags.sum()), len(flags)).proportion_ci(0.95, "wilson")
    return f"{flags.mean():.3f} ({interval.low:.3f} to {interval.high:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--sets", type=int, default=200)
    options = parser.parse_args()
    table = []
    for setting in SETTINGS:
        p, neighbours, n, more = setting
        sets = options.sets if p <= 10 else options.sets // 4
        work = (joblib.delayed(one)(setting, options.seed, k) for k in range(sets))
        answers = joblib.Parallel(n_jobs=2)(work)
        for name, place in (("split", 0), ("as found", 1)):
            rows = np.array([row for answer in answers for row in answer[place]], bool).reshape(-1, 3)
            right = rows[rows[:, 0]]
            what = ", ".join(f"{key} {value}" for key, value in more.items() if key != "variances_drawn")
            table.append(
                [
                    p,
                    neighbours,
                    n,
                    what,
                    sets,
                    name,
                    len(rows),
                    len(right),
                    share(rows[:, 2]),
                    share(right[:, 1]),
                ]
            )
            print(*table[-1], flush=True)
    columns = [
        "p",
        "N_a",
        "n",
        "",
        "sets",
        "interval",
        "edges",
        "right",
        "covers its coefficient",
        "true change",
    ]
    print_table("95 % intervals of delta", columns, table, settings={"seed": options.seed})


if __name__ == "__main__":
    main()
