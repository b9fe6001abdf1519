"""Named peers on the same data: full linear programme, ADMM, graphical lasso, PC and DCI-C. A row a data set.

Times are from moments on, the peers' too; graphs by `diffdag.reproduce.scoring`, supports as skeletons. The
lasso leaves small differences everywhere, so its support is also scored at the threshold that suits it best in
hindsight.
"""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import admm as textbook
import measure
import numpy as np
from measure import default_fit, ours, warm_up, warm_up_fit

import diffdag as dd
from diffdag.model.simulate import SEMPair
from diffdag.precision.problem import standardise
from diffdag.reproduce.methods import Method, attempt, find_method
from diffdag.reproduce.scoring import score

Row = dict[str, Any]


def lp(p: int, n: int, changes: int, sets: int, seed: int = measure.SEED) -> Iterator[Row]:
    """The linear programme of all entries and constraints at once, by HiGHS."""
    warm_up("dantzig")
    full_programme(np.eye(2), 2 * np.eye(2), 0.5)  # imports
    for k in range(sets):
        _, tables = measure.draw(p, n, changes, [seed, k])
        moments = [dd.Moments.from_array(table) for table in tables]
        taken, answer = measure.seconds(lambda m=moments: ours(m, "dantzig"), repeats=3)
        problem = standardise(*moments, penalty=measure.PENALTY * answer.penalty_max)
        theirs, optimum = measure.seconds(lambda q=problem: full_programme(q.sigma1, q.sigma2, q.penalty))
        yield {"k": k, "seconds": taken, "peer": theirs, "difference": abs(answer.objective / optimum - 1)}


def full_programme(sigma1: np.ndarray, sigma2: np.ndarray, penalty: float) -> float:
    """The optimum of ``min |D|_1`` subject to ``|Sigma1 D Sigma2 - (Sigma2 - Sigma1)| <= penalty``."""
    from scipy.optimize import linprog  # noqa: PLC0415

    system = np.kron(sigma1, sigma2)  # of the rows of D one after another
    target = (sigma2 - sigma1).ravel()
    both = np.block([[system, -system], [-system, system]])
    bounds = np.concatenate([target + penalty, penalty - target])
    answer = linprog(np.ones(both.shape[1]), A_ub=both, b_ub=bounds, method="highs")
    if not answer.success:
        raise RuntimeError(f"HiGHS: {answer.message}")
    return float(answer.fun)


def admm(
    p: int, n: int, changes: int, method: str, sets: int, limit: float, seed: int = measure.SEED
) -> Iterator[Row]:
    """ADMM until it is within 1e-3, and 1e-6, of the optimum that ours has certified."""
    warm_up(method)
    for k in range(sets):
        pair, tables = measure.draw(p, n, changes, [seed, k])
        floor = measure.floor_seconds(tables)
        moments = [dd.Moments.from_array(table) for table in tables]
        taken, answer = measure.seconds(lambda m=moments: ours(m, method), repeats=3)
        problem = standardise(*moments, penalty=measure.PENALTY * answer.penalty_max)
        reached = textbook.run(
            method, problem.sigma1, problem.sigma2, problem.penalty, answer.objective, limit=limit
        )
        coarse, last = reached[0], reached[-1]
        truth = true_support(pair)
        yield {
            "k": k,
            "floor": floor,
            "seconds": taken,
            "violation": answer.violation / problem.penalty,
            "gap": answer.gap,
            "f1": best_f1(truth, answer.matrix),
            "peer": coarse.seconds,
            "iterations": coarse.iterations,
            "error": coarse.error,
            "reached": coarse.error <= 1e-3,
            "peer_f1": best_f1(truth, coarse.delta),
            "peer_fine": last.seconds,
            "error_fine": last.error,
        }


def lasso(p: int, n: int, changes: int, sets: int, seed: int = measure.SEED) -> Iterator[Row]:
    """scikit-learn's graphical lasso on each table, subtracted, penalty sqrt(log p / n)."""
    from sklearn.covariance import graphical_lasso  # noqa: PLC0415
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415

    warnings.simplefilter("ignore", ConvergenceWarning)
    for method in ("dantzig", "dtrace"):
        warm_up(method)
    for k in range(sets):
        pair, tables = measure.draw(p, n, changes, [seed, k])
        moments = [dd.Moments.from_array(table) for table in tables]
        problem, alpha = standardise(*moments), math.sqrt(math.log(p) / n)
        theirs, (one, two) = measure.seconds(
            lambda q=problem, a=alpha: [graphical_lasso(s, a)[1] for s in (q.sigma1, q.sigma2)]
        )
        truth = true_support(pair)
        row = {"k": k, "peer": theirs, "peer_f1": support_f1(truth, one - two)}
        row["peer_best_f1"] = best_f1(truth, one - two)
        for method in ("dantzig", "dtrace"):
            taken, answer = measure.seconds(lambda m=moments, name=method: ours(m, name), repeats=3)
            row |= {f"{method}_seconds": taken, f"{method}_f1": support_f1(truth, answer.matrix)}
            row[f"{method}_best_f1"] = best_f1(truth, answer.matrix)
        yield row


def graphs(
    p: int,
    n: int,
    neighbours: float,
    share: float,
    methods: Sequence[str],
    sets: int,
    limit: float,
    seed: int = measure.SEED,
) -> Iterator[Row]:
    """Difference graphs of other methods, against the default fit."""
    warm_up_fit()
    for k in range(sets):
        rng = np.random.default_rng([seed, k, p, n])
        pair = balanced_pair(p, neighbours, share, rng)
        moments = [dd.Moments.from_array(model.sample(n, rng)) for model in (pair.first, pair.second)]
        taken, f1 = default_fit(pair, moments)
        for name in methods:
            theirs, peer_f1 = timed_graph(find_method(name), pair, moments, limit)
            row = {"k": k, "method": name, "changes": len(pair.edges), "seconds": taken, "f1": f1}
            yield row | {"peer": theirs, "peer_f1": peer_f1}


def timed_graph(
    method: Method, pair: SEMPair, moments: Sequence[dd.Moments], limit: float
) -> tuple[float, float | None]:
    """Seconds and F1; no F1 where the time was up. With the user's threads, unlike `attempt.attempt`."""
    attempt.warm_up(method, attempt.COMPILED)
    start, f1 = time.perf_counter(), None
    with contextlib.suppress(attempt.TimeUp):
        f1 = score(pair.changed, attempt.within(limit, lambda: method.run(*moments))).f1
    return time.perf_counter() - start, f1


def balanced_pair(p: int, neighbours: float, share: float, rng: np.random.Generator) -> SEMPair:
    """A share of the edges is deleted, and as many are added at pairs without one that respect the order."""
    first = dd.simulate_pair(p, neighbours=neighbours, change=0, rng=rng).first
    place = np.argsort(SEMPair(first, first).order)
    edges = np.argwhere(first.weights != 0)
    absent = np.argwhere((first.weights == 0) & (place[:, None] > place[None, :]))
    count = max(1, round(share * len(edges)))
    after = first.weights.copy()
    after[tuple(rng.choice(edges, count, replace=False).T)] = 0
    sizes = rng.uniform(0.25, 1, count) * rng.choice([-1, 1], count)
    after[tuple(rng.choice(absent, count, replace=False).T)] = sizes
    return SEMPair(first, dd.LinearSEM(after, first.noise_variances))


def true_support(pair: SEMPair) -> np.ndarray:
    difference = pair.first.precision() - pair.second.precision()
    return support(difference, 1e-9)


def support(matrix: np.ndarray, threshold: float = 0.0) -> np.ndarray:
    """Entries off the diagonal beyond a threshold, in either of two mirrored places."""
    found = np.abs(matrix) > threshold
    found = found | found.T
    np.fill_diagonal(found, False)
    return found


def support_f1(truth: np.ndarray, matrix: np.ndarray) -> float:
    return score(truth, support(matrix)).skeleton_f1


def best_f1(truth: np.ndarray, matrix: np.ndarray) -> float:
    """F1 of the support at the best of all thresholds."""
    size = np.maximum(np.abs(matrix), np.abs(matrix.T))[np.triu_indices(len(matrix), 1)]
    right = truth[np.triu_indices(len(matrix), 1)]
    ranked = np.argsort(-size, kind="stable")
    ranked = ranked[size[ranked] > 0]
    claimed = np.arange(1, len(ranked) + 1)
    f1 = 2 * np.cumsum(right[ranked]) / (claimed + right.sum())
    return float(f1.max(initial=0.0))
