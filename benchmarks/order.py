r"""The order search on samples: directed F1, share of exact answers, and time, against an oracle.

    python benchmarks/order.py                      all settings of the table (about an hour)
    python benchmarks/order.py --only p10 noise     some of them
    python benchmarks/order.py --only null          false alarms on data without any change

Pairs come from the paper's generator without the epsilon filter. An undirected edge counts as claimed and never
as found. The oracle (`diffdag.reproduce.methods.oracle`) knows a causal order. Seed 760000 was looked at while
the price of a changed variance was being set; 790000 was run once, on the finished code.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from record import print_table
from scipy import stats

import diffdag as dd
from diffdag.reproduce.methods.oracle import oracle
from diffdag.reproduce.methods.ours import result_graph
from diffdag.reproduce.scoring import score

SEED = 760_000
SPREAD = tuple(np.linspace(0.5, 2.0, 16))
# name, pairs, p, neighbours, rows, options of simulate_pair
SETTINGS = [
    ("p10", 200, 10, 6, 341, {}),
    ("p10", 200, 10, 6, 2525, {}),
    ("p10", 200, 10, 6, 18658, {}),
    ("spread", 100, 10, 6, 2525, {"variances": SPREAD}),
    *(
        ("noise", 100, 10, 6, 18658, {"variances": (1 - g, 1, 1 + g), "variances_drawn": "per-condition"})
        for g in (0.1, 0.3, 0.5)
    ),
    ("p30", 20, 30, 20, 1000, {"change": 0.02}),
    ("p30", 20, 30, 20, 10000, {"change": 0.02}),
    ("p50", 10, 50, 35, 5000, {"change": 0.02}),
    ("p100", 5, 100, 40, 5000, {"change": 0.005, "weights": (0.15, 0.6)}),
    ("p200", 3, 200, 10, 300, {"changes": 8}),
    ("p200", 4, 200, 10, 1000, {"changes": 8}),
]
NULL = [(10, 6, n, 400) for n in (100, 300, 1000, 10000)] + [(50, 30, n, 100) for n in (100, 300, 1000, 10000)]


def run(setting, seed):
    name, pairs, p, neighbours, n, options = setting
    rows = []
    for k in range(pairs):
        rng = np.random.default_rng([seed, k])
        pair = dd.simulate_pair(p, neighbours=neighbours, rng=rng, **options)
        moments = [dd.Moments.from_array(sem.sample(n, rng)) for sem in (pair.first, pair.second)]
        start = time.perf_counter()
        result = dd.DifferenceDAG().fit_moments(*moments).result_
        seconds = time.perf_counter() - start
        found = score(pair.changed, result_graph(result))
        order = pair.order
        known = score(pair.changed, oracle(*moments, order))
        rows.append(
            (
                found.f1,
                found.exact,
                known.f1,
                known.exact,
                found.undirected,
                seconds,
                result.settings["starts"],
                result.settings["starts_at_optimum"],
            )
        )
        print(name, p, n, k, *(f"{value:.2f}" for value in rows[-1]), flush=True)
    return np.array(rows, float)


def false_alarms(p, neighbours, n, sets, seed):
    alarms = 0
    for k in range(sets):
        rng = np.random.default_rng([seed, p, n, k])
        sem = dd.simulate_pair(p, neighbours=neighbours, change=0, rng=rng).first
        moments = [dd.Moments.from_array(sem.sample(n, rng)) for _ in range(2)]
        alarms += bool(dd.DifferenceDAG().fit_moments(*moments).result_.edge_list)
    return alarms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    pair = dd.simulate_pair(15, neighbours=3, rng=0)
    for p in (5, 15):  # compile
        names = pair.first.names[:p]
        moments = [dd.Moments.from_array(pair.first.sample(200, k)).select(names) for k in range(2)]
        dd.DifferenceDAG().fit_moments(*moments)
    table = []
    for setting in SETTINGS:
        if options.only and setting[0] not in options.only:
            continue
        rows = run(setting, options.seed)
        _, pairs, p, neighbours, n, more = setting
        what = ", ".join(f"{key} {value}" for key, value in more.items() if key != "variances_drawn")
        what = what.replace(str(SPREAD), "0.5 to 2")
        mean = rows.mean(axis=0)
        table.append(
            [
                p,
                neighbours,
                n,
                what,
                pairs,
                f"{mean[0]:.3f}",
                f"{mean[1]:.2f}",
                f"{mean[2]:.3f} / {mean[3]:.2f}",
                f"{np.median(rows[:, 5]):.2f} s",
                f"{rows[:, 5].max():.2f} s",
            ]
        )
    if table:
        columns = [
            "p",
            "N_a",
            "n",
            "",
            "pairs",
            "F1",
            "exact",
            "oracle F1 / exact",
            "median time",
            "worst time",
        ]
        print_table(f"method='order', seed {options.seed}", columns, table)
    if not options.only or "null" in options.only:
        rows = []
        for p, neighbours, n, sets in NULL:
            alarms = false_alarms(p, neighbours, n, sets, options.seed)
            low, high = stats.binomtest(alarms, sets).proportion_ci(0.95)
            rows.append(
                [p, neighbours, n, f"{alarms} of {sets}", f"{alarms / sets:.3f}", f"{low:.3f} to {high:.3f}"]
            )
            print(*rows[-1], flush=True)
        print_table("no change at all", ["p", "N_a", "n", "alarms", "share", "95 % interval"], rows)


if __name__ == "__main__":
    main()
