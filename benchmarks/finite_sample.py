"""How the defaults of Algorithm 1 on samples were chosen: F1 and share of exact answers on a grid of settings.

    python benchmarks/finite_sample.py

What the defaults reach on other seeds is `diffdag reproduce figure2`. A rate of 0 is the plug-in inverse.
Scores are `diffdag.reproduce.scoring.score`: an undirected edge counts as claimed and never as found.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from record import print_table

import diffdag as dd
from diffdag.paper.algorithm1 import difference_graph
from diffdag.paper.defaults import MIDDLE, SMALL_RATE
from diffdag.paper.differences import SampleDifferences
from diffdag.reproduce.planning import rows_at
from diffdag.reproduce.scoring import graph_of, score


def triples(edges):
    """(source, target, directed) of (effect, cause) pairs."""
    return [(j, i, (i, j) in edges.directed) for i, j in edges.directed | edges.undirected]


def run_cell(options, C, rate):
    """Scores of every threshold for one sample size and penalty; the subproblems are shared."""
    p, n = options.p, rows_at(C, options.p)
    sampling = math.sqrt(math.log(p) / n)
    scores = {threshold: [] for threshold in options.thresholds}
    for k in range(options.pairs):
        rng = np.random.default_rng([options.seed, k])
        epsilon = None if options.unfiltered else 0.1
        pair = dd.simulate_pair(p, neighbours=options.neighbours, min_epsilon=epsilon, rng=rng)
        rng = np.random.default_rng([options.seed, k, int(10 * C)])
        moments = [dd.Moments.from_array(sem.sample(n, rng)) for sem in (pair.first, pair.second)]
        method = "dantzig" if rate else "plugin"
        answer = dd.precision_difference(*moments, method=method, penalty=f"rate:{rate}")
        differences = SampleDifferences(*moments, answer)
        for threshold in options.thresholds:
            epsilon = max(SMALL_RATE * sampling, min(MIDDLE, threshold * sampling))
            found = score(
                pair.changed, graph_of(range(p), triples(difference_graph(differences, epsilon).edges))
            )
            scores[threshold].append((found.f1, found.exact))
    return n, {threshold: np.mean(values, axis=0) for threshold, values in scores.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=100_000)
    parser.add_argument("--p", type=int, default=10)
    parser.add_argument("--neighbours", type=float, default=6)
    parser.add_argument("--C", type=float, nargs="+", default=[5, 7, 9, 11, 13])
    parser.add_argument("--rates", type=float, nargs="+", default=[0, 0.05, 0.1, 0.2, 0.3])
    parser.add_argument("--thresholds", type=float, nargs="+", default=[2, 3, 3.5, 4, 5])
    parser.add_argument(
        "--unfiltered", action="store_true", help="all pairs, not only those with epsilon >= 0.1"
    )
    options = parser.parse_args()
    rows = []
    for C in options.C:
        for rate in options.rates:
            n, means = run_cell(options, C, rate)
            cells = [f"{f1:.2f} / {exact:.2f}" for f1, exact in means.values()]
            rows.append([f"{C:g}", n, rate, *cells])
    kind = "unfiltered" if options.unfiltered else "epsilon >= 0.1"
    title = f"method='paper', {options.pairs} pairs, p = {options.p}, {kind}, seed {options.seed}: F1 / exact"
    print_table(title, ["C", "n", "penalty rate", *(f"threshold rate {t:g}" for t in options.thresholds)], rows)


if __name__ == "__main__":
    main()
