"""The test of "nothing changed at all": how often it rejects at 5 %, without and with changes.

    python benchmarks/null_test.py                    both tables (about 10 minutes on two cores)
    python benchmarks/null_test.py --only null        data without any change
    python benchmarks/null_test.py --only power       data with changes

Models come from the paper's generator, without the epsilon filter; Student's noise has 5 degrees of freedom.
Both tables of a set come from models with the same effects and noise variances, and have different means.
Seeds 862000 to 862999 were looked at while the statistics were being chosen; 2870000 is for the report.
"""

from __future__ import annotations

import argparse
import time

import joblib
import numpy as np
from record import print_table
from scipy import stats

import diffdag as dd
from diffdag.trust.permutation import STATISTICS, global_test

LEVEL = 0.05
PERMUTATIONS = 199
NOISE = ("gaussian", "student")
SIZES = ((100, 100), (1000, 1000), (10_000, 10_000), (100, 400), (1000, 300))
NULL = [
    (p, neighbours, rows, noise) for p, neighbours in ((10, 6), (50, 30)) for rows in SIZES for noise in NOISE
]
DOWN_TO = {"weights": (0.25, 1.0)}
OWN = {"change": 0.0, "variances": (0.8, 1.0, 1.2), "variances_drawn": "per-condition"}
POWER = [  # what changes, p, neighbours, rows, options of simulate_pair
    ("the paper's changes", 10, 6, 341, {}),
    ("the paper's changes", 10, 6, 100, {}),
    ("one edge", 10, 6, 150, {"changes": 1, **DOWN_TO}),
    ("one edge, Student's noise", 10, 6, 150, {"changes": 1, "noise": "student", **DOWN_TO}),
    ("one edge", 30, 20, 250, {"changes": 1, **DOWN_TO}),
    ("one edge", 30, 4, 150, {"changes": 1, **DOWN_TO}),
    ("one edge", 50, 35, 300, {"changes": 1, **DOWN_TO}),
    ("one edge", 50, 4, 150, {"changes": 1, **DOWN_TO}),
    ("five edges, few rows", 50, 4, 60, {"changes": 5}),
    ("noise variances, by a fifth", 10, 6, 150, OWN),
]


def pvalues(pair, rows, rng):
    """Of the test, and of each of its statistics."""
    tables = [model.sample(n, rng) for model, n in zip((pair.first, pair.second), rows, strict=True)]
    tables[1] += rng.standard_normal(tables[1].shape[1])
    test = global_test(*tables, permutations=PERMUTATIONS, rng=rng)
    return [test.pvalue, *(test.statistics[name] for name in STATISTICS)]


def one(p, neighbours, rows, options, seed):
    """One data set; its seed says all about it."""
    rng = np.random.default_rng(seed)
    return pvalues(dd.simulate_pair(p, neighbours=neighbours, rng=rng, **options), rows, rng)


def rejected(p, neighbours, rows, options, seed, sets):
    """Sets in which the test, and each statistic alone, rejects."""
    work = (joblib.delayed(one)(p, neighbours, rows, options, [*seed, k]) for k in range(sets))
    return (np.array(joblib.Parallel(n_jobs=2)(work)) <= LEVEL + 1e-12).sum(axis=0)


def share(count, sets):
    low, high = stats.binomtest(int(count), sets).proportion_ci(0.95)
    return [f"{count / sets:.1%}", f"{low:.1%} to {high:.1%}"]


def null(sets, seed):
    rows = []
    for p, neighbours, sizes, noise in NULL:
        start = time.perf_counter()
        options = {"change": 0.0, "noise": noise}
        own = [seed, p, *sizes, NOISE.index(noise)]
        counts = rejected(p, neighbours, sizes, options, own, sets)
        alone = " / ".join(f"{count / sets:.1%}" for count in counts[1:])
        rows.append([p, sizes[0], sizes[1], noise, *share(counts[0], sets), alone])
        print(*rows[-1], f"{time.perf_counter() - start:.0f} s", flush=True)
    columns = ["p", "first rows", "second rows", "noise", "rejected", "95 % interval", " / ".join(STATISTICS)]
    print_table(f"Nothing changed, {sets} sets each, seed {seed}", columns, rows, section="null")


def power(sets, seed):
    rows = []
    for number, (what, p, neighbours, n, options) in enumerate(POWER):
        start = time.perf_counter()
        counts = rejected(p, neighbours, (n, n), options, [seed, 1, number], sets)
        alone = [f"{count / sets:.1%}" for count in counts[1:]]
        rows.append([what, p, neighbours, n, *share(counts[0], sets), *alone])
        print(*rows[-1], f"{time.perf_counter() - start:.0f} s", flush=True)
    columns = ["change", "p", "N_a", "rows of each", "rejected", "95 % interval", *STATISTICS]
    print_table(f"Something changed, {sets} sets each, seed {seed}", columns, rows, section="power")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("null", "power"))
    parser.add_argument("--seed", type=int, default=2_870_000)
    parser.add_argument("--sets", type=int, default=500, help="without changes; two fifths of it with changes")
    options = parser.parse_args()
    if options.only != "power":
        null(options.sets, options.seed)
    if options.only != "null":
        power(max(1, options.sets * 2 // 5), options.seed)


if __name__ == "__main__":
    main()
