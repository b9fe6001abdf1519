"""Shape as evidence for directions: directed F1 and reversed edges, with and without it.

    python benchmarks/shape.py --noise laplace --rows 341 --sets 100 --seed 77
    python benchmarks/shape.py --noise laplace --rows 341 --sets 20 --rival
    python benchmarks/shape.py --noise laplace --rows 341 --sets 100 --null    both conditions from one model
    python benchmarks/shape.py --noise exponential --sets 40 --seed 5 --told           the true order is given
    python benchmarks/shape.py --noise laplace --rows 120 --sets 30 --resamples 20     is `direction` right?

Pairs are those of ``simulate_pair(p=10, neighbours=6, change=0.05)``, or with another number of variables those
of ``simulate_pair(p, neighbours=4, changes=5, weights=(0.25, 0.6))``, with noise of unit variance of the named
shape; student has 5 degrees of freedom. tanh: Gaussian rows, each column divided by its standard deviation and
bent; half: bent half as much. rows: Gaussian rows, each divided by the square root of a chi-squared variable (5
degrees of freedom) over its mean. wider: Laplace noise, of X2 to X10 wider where that of X1 is far from zero.
Sets with an alarm are those in which a change is claimed between two variables where there is none. The rival
is multi-group DirectLiNGAM of causal-learn; an edge changed if its two weights differ by more than a cutoff, of
which several are tried: the best in hindsight is its figure. With resamples: of the arrows listed with a
`direction`, between variables of which one has a changed effect on the other, how many point the right way.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import pairwise

import numpy as np

import diffdag as dd
from diffdag.pipeline import ModelOptions, prepare, search
from diffdag.reproduce.scoring import graph_of, score
from diffdag.tables.align import align_tables

P = 10
CUTOFFS = (0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6)
BINS = 0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 1.0001
DRAWN = {
    "laplace": lambda rng, shape: rng.laplace(scale=0.5**0.5, size=shape),
    "uniform": lambda rng, shape: rng.uniform(-(3**0.5), 3**0.5, shape),
    "exponential": lambda rng, shape: rng.exponential(size=shape) - 1,
    "student": lambda rng, shape: rng.standard_t(5, shape) * 0.6**0.5,
    "wider": lambda rng, shape: rng.laplace(scale=0.5**0.5, size=shape),
}


def draw(noise, n, seed, null=False, p=P):
    """A pair of models, or twice one of them, and two tables."""
    rng = np.random.default_rng(seed)
    options = {"neighbours": 6, "change": 0.05} if p == P else {"neighbours": 4, "changes": 5}
    pair = dd.simulate_pair(p=p, **options, **({} if p == P else {"weights": (0.25, 0.6)}), rng=rng)
    tables = []
    for model in (pair.first, pair.first if null else pair.second):
        own = DRAWN.get(noise, lambda rng, shape: rng.standard_normal(shape))(rng, (n, p))
        if noise == "wider":
            own[:, 1:] *= np.sqrt((0.5 + own[:, :1] ** 2) / 1.5)
        rows = np.linalg.solve(np.eye(p) - model.weights, (own * np.sqrt(model.noise_variances)).T).T
        if noise == "tanh":
            rows = np.tanh(rows / rows.std(axis=0))
        if noise == "half":
            rows = np.tanh(0.5 * rows / rows.std(axis=0))
        if noise == "rows":
            rows = rows / np.sqrt(rng.chisquare(5, (n, 1)) / 5)
        tables.append(rows)
    return pair, tables


def ours(tables, shape, order=None):
    """The graph of the default search, whether shape counted, and seconds."""
    aligned, options = align_tables(*tables), ModelOptions(order=order)
    start = time.perf_counter()
    fit = search(prepare(aligned, options), options, shape=shape)
    edges = fit.claims(()).edges
    return graph_of(fit.names, edges), fit.shaped, time.perf_counter() - start


def true_order(pair):
    """A causal order of both models."""
    parents = (pair.first.weights != 0) | (pair.second.weights != 0)
    left, order = list(range(len(parents))), []
    while left:
        order.append(next(j for j in left if not parents[j, left].any()))
        left.remove(order[-1])
    return [pair.first.names[j] for j in order]


def rival(tables):
    """Graphs of multi-group DirectLiNGAM, by cutoff."""
    from causallearn.search.FCMBased import lingam  # noqa: PLC0415

    model = lingam.MultiGroupDirectLiNGAM()
    model.fit(list(tables))
    apart = np.abs(model.adjacency_matrices_[0] - model.adjacency_matrices_[1])
    return [apart > cutoff for cutoff in CUTOFFS]


def directions(noise, n, seed, sets, resamples):
    """Print stated directions against the share that is right."""
    stated, right = [], []
    for k in range(sets):
        pair, tables = draw(noise, n, [seed, k])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dd.DiffDagWarning)
            result = dd.DifferenceDAG(resamples=resamples, rng=k).fit(*tables).result_
        for edge in result.edge_list:
            ends = edge.source, edge.target
            if edge.direction is not None and (ends in pair.edges or ends[::-1] in pair.edges):
                stated.append(edge.direction)
                right.append(ends in pair.edges)
    stated, right = np.array(stated), np.array(right)
    print(f"{noise} n={n} sets={sets} seed={seed} resamples={resamples}: {len(right)} arrows with a direction")
    for low, high in pairwise(BINS):
        own = (stated >= low) & (stated < high)
        if own.any():
            said = f"stated {stated[own].mean():.3f}, right {right[own].sum()} of {own.sum()}"
            print(f"  {low:g} to {min(high, 1):g}: {said}")


def main():
    """Print a line of means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--noise", default="laplace")
    parser.add_argument("--rows", type=int, default=341)
    parser.add_argument("--variables", type=int, default=P)
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--seed", type=int, default=77)
    parser.add_argument("--rival", action="store_true")
    parser.add_argument("--resamples", type=int, help="compare stated directions with what is right")
    parser.add_argument("--told", action="store_true", help="give the true order, with and without shape")
    parser.add_argument("--null", action="store_true", help="both conditions from one model")
    asked = parser.parse_args()
    if asked.resamples:
        directions(asked.noise, asked.rows, asked.seed, asked.sets, asked.resamples)
        return
    found, theirs = [], []
    for k in range(asked.sets):
        pair, tables = draw(asked.noise, asked.rows, [asked.seed, k], asked.null, asked.variables)
        truth, row = pair.changed & (not asked.null), []
        for shape in (False, None):
            graph, used, seconds = ours(tables, shape, true_order(pair) if asked.told else None)
            wrong = int((graph & ~graph.T & truth.T).sum())
            false = graph & ~(truth | truth.T)
            arrows = int((graph & ~graph.T & ~truth).sum())
            row += [score(truth, graph).f1, wrong, arrows, used, seconds, bool(false.any())]
        found.append(row)
        if asked.rival:
            theirs.append([score(truth, graph).f1 for graph in rival(tables)])
    kind = f"{' null' if asked.null else ''}{' told' if asked.told else ''}"
    mean, total = np.mean(found, axis=0), np.sum(found, axis=0)
    print(
        f"{asked.noise} p={asked.variables} n={asked.rows}{kind} sets={asked.sets} seed={asked.seed}: "
        f"F1 {mean[0]:.4f} -> {mean[6]:.4f}, reversed {total[1]:.0f} -> {total[7]:.0f}, "
        f"false arrows {total[2]:.0f} -> {total[8]:.0f}, sets with an alarm {total[5]:.0f} -> {total[11]:.0f}, "
        f"shape used {total[9]:.0f}, seconds {mean[4]:.2f} -> {mean[10]:.2f}"
    )
    if theirs:
        said = dict(zip(CUTOFFS, np.mean(theirs, axis=0).round(4).tolist(), strict=True))
        print(f"  multi-group DirectLiNGAM, by cutoff: {said}")


if __name__ == "__main__":
    main()
