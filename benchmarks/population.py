"""Table 1 of the paper and its unequal-noise case: what exact models give, and time a pair.

python benchmarks/population.py [--seed 600000]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from record import print_table

import diffdag as dd
from diffdag.reproduce.methods.ours import result_graph
from diffdag.reproduce.scoring import score

ROWS = [(10, 6, 0.05, 50), (50, 35, 0.05, 50), (100, 80, 0.05, 50), (10, 3, 0.2, 200), (30, 4, 0.1, 100)]


def fit(first, second):
    """The difference graph, and seconds."""
    start = time.perf_counter()
    result = dd.DifferenceDAG(method="paper").fit_population(first, second).result_
    return result_graph(result), time.perf_counter() - start


def equal_noise(seed):
    rows = []
    for p, neighbours, change, pairs in ROWS:
        exact, times = 0, []
        for k in range(pairs):
            pair = dd.simulate_pair(p, neighbours=neighbours, change=change, rng=seed + k)
            found, taken = fit(pair.first, pair.second)
            exact += score(pair.changed, found).exact
            times.append(taken)
        cells = [f"{exact} of {pairs}", f"{np.mean(times):.2f} s", f"{max(times):.2f} s"]
        rows.append([p, neighbours, change, *cells])
    columns = ["p", "N_a", "change", "exact and all directed", "mean time", "worst time"]
    print_table("Exact models, the same noise variances", columns, rows)


def changed_noise(seed, pairs=200):
    lost = wrong = superfluous = touching = skeletons = 0
    for k in range(pairs):
        rng = np.random.default_rng([seed, k])
        pair = dd.simulate_pair(10, neighbours=6, rng=rng)
        variances, noisy = np.ones(10), rng.choice(10, 2, replace=False)
        variances[noisy] = rng.uniform(0.4, 0.8, 2) ** rng.choice([-1, 1], 2)
        found, _ = fit(pair.first, dd.LinearSEM(pair.second.weights, variances))
        skeleton, truth = (np.triu(graph | graph.T) for graph in (found, pair.changed))
        more = np.argwhere(skeleton & ~truth)
        lost += (truth & ~skeleton).sum()
        wrong += (found & ~found.T & ~pair.changed).sum()
        superfluous += len(more)
        touching += np.isin(more, noisy).any(axis=1).sum()
        skeletons += score(pair.changed, found).skeleton_exact
    columns = ["pairs", "changed edges lost", "directed edges wrong", "superfluous edges"]
    row = [pairs, lost, wrong, superfluous, f"{touching / superfluous:.1%}", skeletons]
    title = "Exact models, p = 10, N_a = 6, two noise variances changed"
    print_table(title, [*columns, "of these at a changed variance", "skeleton right"], [row])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=600_000)
    options = parser.parse_args()
    equal_noise(options.seed)
    changed_noise(options.seed)


if __name__ == "__main__":
    main()
