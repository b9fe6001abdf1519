r"""What the order search finds with exact covariances, whether it finds its optimum, and what breaks it.

    python benchmarks/order_checks.py [population] [optimum] [subsets] [broken]

population: exact models; the paper's changes alone, with two changed noise variances, with all of them changed.
optimum: walks against dynamic programming over all orders. subsets: forward-backward choice of changes against
all subsets. broken: assumptions that do not hold. Seeds: 770000; nothing was chosen on them.
"""

from __future__ import annotations

import sys

import numpy as np
from record import print_table

import diffdag as dd
from diffdag.model.sem import causal_order
from diffdag.ordersearch.search import Problem, _compare_all, _walk_many, read_order
from diffdag.reproduce.methods.ours import result_graph
from diffdag.reproduce.scoring import score

SEED = 770_000
PAIRS = 100


def population() -> None:
    rows = []
    for p, neighbours, change in ((8, 4, 0.05), (8, 4, 0.1), (10, 6, 0.05), (10, 3, 0.05)):
        for kind in ("none", "two", "all"):
            exact = ties = skeletons = 0
            for k in range(PAIRS):
                rng = np.random.default_rng([SEED, p, k])
                pair = dd.simulate_pair(p, neighbours=neighbours, change=change, rng=rng)
                second = pair.second
                if kind != "none":
                    variances = rng.uniform(0.5, 2, p)
                    if kind == "two":
                        variances[rng.choice(p, p - 2, replace=False)] = 1
                    second = dd.LinearSEM(pair.second.weights, variances)
                result = dd.DifferenceDAG().fit_population(pair.first, second).result_
                found = score(pair.changed, result_graph(result))
                exact += found.exact
                ties += bool(found.undirected)
                skeletons += found.skeleton_exact
            rows.append([p, neighbours, change, kind, f"{exact} of {PAIRS}", ties, f"{skeletons} of {PAIRS}"])
    columns = ["p", "N_a", "change", "noise variances changed", "exact and directed", "ties", "right skeleton"]
    print_table("Exact covariances", columns, rows)


def draw(p, neighbours, n, k, *, equal=False, **options):
    rng = np.random.default_rng([SEED, p, n, k])
    pair = dd.simulate_pair(p, neighbours=neighbours, rng=rng, **options)
    scatter = [dd.Moments.from_array(sem.sample(n, rng)).scatter for sem in (pair.first, pair.second)]
    return pair, Problem.from_scatter(*scatter, n, n, equal, np.zeros((p, p), bool), p)


def optimum() -> None:
    rows = []
    for n in (341, 2525, 18658):
        same = agree = 0
        for k in range(50):
            _, problem = draw(10, 6, n, k)
            exact, walks = _compare_all(problem), _walk_many(problem, np.random.default_rng(k), 2)
            same += abs(exact.best.score - walks.best.score) < 1e-3
            agree += bool((exact.best.changed == walks.best.changed).all())
        rows.append([n, f"{same} of 50", f"{agree} of 50"])
    print_table("Walks against all orders, p = 10", ["n", "same score", "same changes"], rows)


def subsets() -> None:
    """At true and at random orders, variables with 2 to 12 predecessors, one noise variance.

    Quick costs choose changes forward and backward, full ones look at all subsets.
    """
    rows = []
    for what in ("true", "random"):
        gaps = []
        for k in range(50):
            pair, problem = draw(13, 8, 1000, k, equal=True)
            order = np.array(pair.order) if what == "true" else np.random.default_rng(k).permutation(13)
            steps, best = (read_order(problem, order, careful=careful) for careful in (False, True))
            gaps += (steps.costs - best.costs)[order[2:]].tolist()
        gaps = np.array(gaps)
        wrong = gaps > 1e-6
        rows.append(
            [
                what,
                len(gaps),
                f"{1 - wrong.mean():.4f}",
                f"{gaps.max():.1f}",
                f"{gaps[wrong].mean():.1f}" if wrong.any() else "-",
            ]
        )
    print_table(
        "Forward-backward against all subsets, p = 13, n = 1000",
        ["order", "variables", "share equal", "largest gap", "mean gap where not"],
        rows,
    )


def bent(table, rng):
    """Mild curvature in every variable."""
    scale = table.std(axis=0)
    return table + 0.1 * scale * ((table / scale) ** 2 - 1)


def broken() -> None:
    cases = {
        "nothing": {},
        "uniform noise": {"noise": "uniform"},
        "Laplace noise": {"noise": "laplace"},
        "Student noise, 5 degrees of freedom": {"noise": "student"},
        "all observed variables mildly bent": {},
        "means changed": {},
        "two edges reversed as well": {},
        "a hidden common cause of three variables": {},
    }
    rows = []
    for case, options in cases.items():
        scores, alarms = [], 0
        for k in range(PAIRS):
            for changes in (None, 0):
                rng = np.random.default_rng([SEED, k, 1])
                pair = dd.simulate_pair(10, neighbours=6, changes=changes, rng=rng, **options)
                result = dd.DifferenceDAG().fit(*tables(case, pair, rng)).result_
                found = score(pair.changed, result_graph(result))
                if changes == 0:
                    alarms += bool(found.claimed)
                else:
                    scores.append((found.f1, found.exact))
        f1, exact = np.mean(scores, axis=0)
        rows.append([case, f"{f1:.3f}", f"{exact:.2f}", f"{alarms} of {PAIRS}"])
    print_table(
        "Assumptions that do not hold, p = 10, N_a = 6, n = 2525",
        ["what is broken", "F1", "exact", "any edge where nothing changed"],
        rows,
    )


def tables(case, pair, rng, n=2525):
    models = [pair.first, pair.second]
    if case.startswith("two edges"):
        models[1] = reverse(pair, rng)
    samples = [model.sample(n, rng) for model in models]
    if "bent" in case:
        return [bent(table, rng) for table in samples]
    if "means" in case:
        samples[1] = samples[1] + rng.normal(0, 1, 10)
    if "hidden" in case:
        loads = np.zeros(10)
        loads[rng.choice(10, 3, replace=False)] = rng.uniform(0.5, 1, 3)
        samples = [table + np.outer(rng.standard_normal(n), loads) for table in samples]
    return samples


def reverse(pair, rng):
    """The second model with two of its unchanged edges reversed, where that leaves no cycle."""
    weights = pair.second.weights.copy()
    candidates = rng.permutation(np.argwhere((weights != 0) & ~pair.changed))
    done = 0
    for i, j in candidates:
        trial = weights.copy()
        trial[j, i], trial[i, j] = trial[i, j], 0.0
        try:
            causal_order(trial != 0)
        except dd.InputError:
            continue
        weights, done = trial, done + 1
        if done == 2:
            break
    return dd.LinearSEM(weights)


def main() -> None:
    parts = {"population": population, "optimum": optimum, "subsets": subsets, "broken": broken}
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
