"""Each check fires on data made to break its assumption, and stays silent on clean data.

OPENBLAS_NUM_THREADS=1 python benchmarks/diagnostics.py [--sets 100] [--seed 2870000] [--only broken|clean|cost]

Clean data are Gaussian, with and without changed edges (6 neighbours a variable on average, changes drawn with
probability 5 % a pair at p = 10 and 1 % at p = 30). Data made to break a check have p = 10 and n = 2525 unless
said otherwise. Counts are data sets with an alarm, of those with the check.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from order_checks import reverse
from record import print_table
from scipy.signal import lfilter

import diffdag as dd
from diffdag.pipeline import ModelOptions, prepare, search
from diffdag.tables.align import align_tables
from diffdag.trust.checks.suite import check_tables

N = 2525
CLEAN = [(10, 100), (10, 341), (10, 2525), (30, 1000)]  # variables, rows


def checks_of(first, second, **options):
    """The checks of a fit to two tables, by name."""
    return {check.name: check for check in dd.DifferenceDAG(**options).fit(first, second).result_.checks}


def drawn(rng, p=10, n=N, changes=None, **options):
    """A pair of models and rows of both."""
    change = 0.05 if p == 10 else 0.01
    pair = dd.simulate_pair(p, neighbours=6, change=change, changes=changes, rng=rng, **options)
    return pair, [model.sample(n, rng) for model in (pair.first, pair.second)]


def plain(**options):
    return lambda rng: drawn(rng, **options)[1]


def collinear(rng):
    _, samples = drawn(rng)
    for table in samples:
        table[:, 3] = table[:, 1] + table[:, 2] + 1e-4 * rng.standard_normal(N)
    return samples


def variances(factor):
    def draw(rng):
        pair, (first, _) = drawn(rng)
        noise = np.ones(10)
        noise[rng.choice(10, 3, replace=False)] = factor
        return first, dd.LinearSEM(pair.second.weights, noise).sample(N, rng)

    return draw


def moved(rng):
    _, (first, second) = drawn(rng)
    return first, second + rng.normal(0, 1, 10)


def autoregressive(phi):
    def draw(rng):
        _, samples = drawn(rng, n=N + 200)
        return [lfilter([1], [1, -phi], table, axis=0)[200:] for table in samples]

    return draw


def ordered(rng):
    """The rows of one table sorted by one of its columns."""
    _, (first, second) = drawn(rng)
    return first[np.argsort(first[:, rng.integers(10)])], second


def copied(count):
    def draw(rng):
        _, (first, second) = drawn(rng)
        second[-count:] = second[:count]
        return first, second

    return draw


def in_both(rng):
    _, (first, second) = drawn(rng)
    second[:20] = first[rng.choice(N, 20, replace=False)]
    return first, second


def stray(count, size):
    """A few rows far out in two variables where nothing changed, so that an edge appears."""

    def draw(rng):
        _, (first, second) = drawn(rng, changes=0)
        i, j = rng.choice(10, 2, replace=False)
        first[rng.choice(N, count, replace=False)[:, None], [i, j]] += (
            size * np.sqrt(first.var(axis=0)[[i, j]]) * (1 + 0.1 * rng.standard_normal((count, 2)))
        )
        return first, second

    return draw


def symmetric(rng):
    """Five pairs become correlated and keep their variances: neither direction needs less."""
    first, second = (rng.standard_normal((N, 10)) for _ in range(2))
    second[:, 1::2] = 0.6 * second[:, ::2] + 0.8 * second[:, 1::2]
    return first, second


def turned(**options):
    def draw(rng):
        pair, (first, _) = drawn(rng, **options)
        return first, reverse(pair, rng).sample(N, rng)

    return draw


BROKEN = [  # check, what is broken, how to draw it, options of the fit
    ("sample size", "n = 30", plain(n=30), {}),
    ("condition", "X4 = X2 + X3 + 0.0001 noise", collinear, {}),
    ("normality", "Student noise, 5 degrees of freedom", plain(noise="student"), {}),
    ("normality", "Laplace noise", plain(noise="laplace"), {}),
    ("normality", "uniform noise", plain(noise="uniform"), {}),
    ("normality", "Student noise, n = 341", plain(noise="student", n=341), {}),
    ("noise variances", "three variances times 2, noise='equal'", variances(2.0), {"noise": "equal"}),
    ("noise variances", "three variances times 2, method='paper'", variances(2.0), {"method": "paper"}),
    ("means", "means moved by N(0, 1)", moved, {}),
    ("independent rows", "autoregression 0.5", autoregressive(0.5), {}),
    ("independent rows", "autoregression 0.3", autoregressive(0.3), {}),
    ("independent rows", "one table sorted by a column", ordered, {}),
    ("duplicated rows", "1 copied row", copied(1), {}),
    ("duplicated rows", "20 rows in both tables", in_both, {}),
    ("outliers", "5 rows, 12 standard deviations out in two variables, no change", stray(5, 12), {}),
    ("outliers", "20 rows, 8 standard deviations out in two variables, no change", stray(20, 8), {}),
    ("order", "five correlations appear, variances stay", symmetric, {}),
    ("reversals", "two edges reversed", turned(), {}),
    ("reversals", "two edges reversed, nothing else changed", turned(changes=0), {}),
]


def broken(options):
    rows = []
    for number, (name, what, draw, settings) in enumerate(BROKEN):
        if options.check and options.check != name:
            continue
        fired = there = 0
        for k in range(options.sets):
            rng = np.random.default_rng([options.seed, number, k])
            check = checks_of(*draw(rng), **settings).get(name)
            there += check is not None
            fired += check is not None and not check.passed
        rows.append([name, what, f"{fired} of {there}"])
    title = f"Data made to break a check, {options.sets} data sets, seed {options.seed}"
    print_table(title, ["check", "data", "fires"], rows, section="broken")


def clean(options):
    columns, silent = ["check"], {}
    for p, n in CLEAN:
        for changes in (0, None):
            columns.append(f"p = {p}, n = {n}, {'no change' if changes == 0 else 'changes'}")
            for k in range(options.sets):
                rng = np.random.default_rng([options.seed, p, n, changes is None, k])
                found = checks_of(*drawn(rng, p=p, n=n, changes=changes)[1])
                equal = checks_of(*drawn(rng, p=p, n=n, changes=changes)[1], noise="equal")
                found["noise variances"] = equal["noise variances"]
                for name, check in found.items():
                    silent.setdefault(name, {}).setdefault(columns[-1], []).append(check.passed)
                everything = all(check.passed for check in found.values())
                silent.setdefault("all of them", {}).setdefault(columns[-1], []).append(everything)
    last = silent.pop("all of them")
    silent["all of them"] = last
    rows = [
        [name, *(f"{sum(found.get(at, []))} of {len(found.get(at, []))}" for at in columns[1:])]
        for name, found in silent.items()
    ]
    what = "Clean data: silent checks (noise variances with noise='equal')"
    title = f"{what}, {options.sets} data sets, seed {options.seed}"
    print_table(title, columns, rows, section="clean")


def cost(options):
    rows = []
    for p, n in ((10, 1000), (30, 1000), (50, 10_000), (10, 1_000_000)):
        rng = np.random.default_rng([options.seed, p, n])
        tables = align_tables(*drawn(rng, p=p, n=n, changes=2)[1])
        prepared = prepare(tables, ModelOptions())
        start = time.perf_counter()
        found = search(prepared, ModelOptions())
        changes = len(found.difference.edge_list)
        fit = time.perf_counter() - start
        taken = []
        for _ in range(5):
            start = time.perf_counter()
            check_tables(tables, found)
            taken.append(time.perf_counter() - start)
        rows.append([p, n, changes, fit, 1000 * min(taken)])
    print_table("Time of all checks", ["p", "n", "edges", "fit, s", "checks, ms"], rows, section="cost")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--seed", type=int, default=2_870_000)
    parser.add_argument("--only", choices=("broken", "clean", "cost"))
    parser.add_argument("--check", help="only data made to break this check")
    options = parser.parse_args()
    warnings.simplefilter("ignore", dd.DiffDagWarning)
    for name, part in {"broken": broken, "clean": clean, "cost": cost}.items():
        if options.only in (None, name):
            part(options)


if __name__ == "__main__":
    main()
