"""The search over orders: all of them where the variables are few, annealed walks from many starts elsewhere.

The walks run in threads, in rounds of fixed size, each with random numbers of its own: the answer does not
depend on how many run at a time. Another round is walked until two walks have met at the best score; how many
did is part of the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from diffdag.ordersearch.dynamic import best_order, tabulate
from diffdag.ordersearch.penalty import penalties
from diffdag.ordersearch.score import CHANGE, EXHAUSTIVE, Rules
from diffdag.ordersearch.state import FloatArray, IntArray, new_space
from diffdag.ordersearch.walk import walk

BoolArray = NDArray[np.bool_]

# Up to so many variables all orders are compared.
DYNAMIC = 14
# Annealing: steps for each pair of positions, first and last temperature in penalties (docs/order.md).
STEPS, HOT, COLD = 100, 10.0, 0.1
# Walks in a round, and rounds at most, by number of variables; every second round takes twice as many steps.
WALKS = 4
ROUNDS = ((50, 6), (100, 4), (10**9, 2))
SWEEPS = 20
# Up to so many variables walks have to meet at the same score, and reversed directions are annealed as well.
MIDDLE = 40
# Sweeps times variables when looking for a good order with one direction reversed.
TURN_EFFORT = 300
ROUNDING = 1e-3


@dataclass(frozen=True, eq=False)
class Problem:
    """Scatter matrices of the first condition and of both together, and the rules of the score."""

    first: FloatArray
    pooled: FloatArray
    rules: Rules

    @classmethod
    def from_scatter(
        cls,
        first: FloatArray,
        second: FloatArray,
        n1: float,
        n2: float,
        equal: bool,
        before: BoolArray,
        total: int,
    ) -> Problem:
        """Scale the variables, so that units do not matter, and set the penalties."""
        scale = np.sqrt((np.diag(first) / n1 + np.diag(second) / n2) / 2)
        one, two = (matrix / np.outer(scale, scale) for matrix in (first, second))
        rules = Rules(float(n1), float(n2), penalties(n1, n2, len(first), total), equal, before)
        return cls(np.ascontiguousarray(one), np.ascontiguousarray(one + two), rules)

    @property
    def p(self) -> int:
        """Number of variables."""
        return len(self.first)


@dataclass(frozen=True, eq=False)
class Found:
    """An order and what it says: the score, changed coefficients [effect, cause], changed variances."""

    order: tuple[int, ...]
    score: float
    changed: BoolArray
    separate: BoolArray


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best order found, and how sure one can be of it."""

    best: Found
    starts: int  # 0 if all orders were compared
    reached: int  # by so many of them
    margins: dict[tuple[int, int], float]  # what the score rises by if effect i has to precede cause j


def walk_from(
    problem: Problem,
    order: Sequence[int] | IntArray,
    *,
    steps: int = 0,
    sweeps: int = 0,
    careful: bool = True,
    seed: int = 0,
) -> Found:
    """One walk; without steps and sweeps, what an order says."""
    p = problem.p
    place = np.array(order, dtype=np.int64)
    cost, changed, separate = np.empty(p), np.zeros((p, p), bool), np.zeros(p, bool)
    unit = float(problem.rules.table[CHANGE, 0])
    space = new_space(problem.first, EXHAUSTIVE)
    score = walk(
        space,
        problem.pooled,
        problem.rules,
        place,
        steps,
        HOT * unit,
        COLD * unit,
        sweeps,
        careful,
        seed,
        cost,
        changed,
        separate,
    )
    return Found(tuple(place.tolist()), float(score), changed, separate)


def search_orders(problem: Problem, rng: np.random.Generator, jobs: int) -> Optimum:
    """The order with the least score that respects what is known beforehand."""
    p, before = problem.p, problem.rules.before
    if before.sum() == p * (p - 1) // 2:  # a total order: nothing is left to search
        best = walk_from(problem, np.argsort(before.sum(axis=0)))
        return Optimum(best, 0, 0, dict.fromkeys(_edges(best), np.inf))
    return _compare_all(problem) if p <= DYNAMIC else _walk_many(problem, rng, jobs)


def _edges(found: Found) -> list[tuple[int, int]]:
    return [(int(i), int(j)) for i, j in np.argwhere(found.changed)]


def _compare_all(problem: Problem) -> Optimum:
    p, before = problem.p, problem.rules.before
    sets = 1 << p
    costs, changes = np.full((sets, p), np.nan), np.zeros((sets, p), np.int64)
    tabulate(new_space(problem.first, EXHAUSTIVE), problem.pooled, problem.rules, costs, changes)
    order, scores, last = np.empty(p, np.int64), np.empty(sets), np.empty(sets, np.int64)
    score = float(best_order(costs, before, scores, last, order))
    changed, separate, members = np.zeros((p, p), bool), np.zeros(p, bool), 0
    for i in order.tolist():
        bits = [bool(changes[members, i] >> k & 1) for k in range(p + 1)]
        changed[i], separate[i] = bits[:p], bits[p]
        members |= 1 << i
    best = Found(tuple(order.tolist()), score, changed, separate)
    margins = {}
    for i, j in _edges(best):
        reverse = before.copy()
        reverse[i, j] = True
        turned = np.inf if before[j, i] else float(best_order(costs, reverse, scores, last, order))
        margins[i, j] = turned - score
    return Optimum(best, 0, 0, margins)


def _walk_many(problem: Problem, rng: np.random.Generator, jobs: int) -> Optimum:
    found: list[Found] = []
    rounds = next(count for most, count in ROUNDS if problem.p <= most)
    for round_ in range(rounds):
        steps = STEPS * problem.p**2 * 2 ** (round_ // 2)
        starts = [(rng.permutation(problem.p), int(rng.integers(2**31))) for _ in range(WALKS)]
        found += _in_threads(jobs, (delayed(_descend)(problem, order, steps, seed) for order, seed in starts))
        best = min(found, key=lambda item: item.score)
        reached = sum(_agree(problem, item, best) for item in found)
        if reached > 1:
            break
    while True:
        edges = _edges(best)
        turned: list[Found] = _in_threads(jobs, (delayed(_turn)(problem, best, i, j) for i, j in edges))
        better = min(turned, key=lambda item: item.score, default=best)
        if better.score > best.score - ROUNDING:
            break
        best = walk_from(problem, better.order, sweeps=SWEEPS)
        reached = max(1, sum(_agree(problem, item, best) for item in found))
    margins = {edge: item.score - best.score for edge, item in zip(edges, turned, strict=True)}
    return Optimum(best, len(found), reached, margins)


def _agree(problem: Problem, found: Found, best: Found) -> bool:
    """Whether two walks found the same changes and scores.

    Of many variables, scores are near enough if they differ by less than half the price of a change.
    """
    near = ROUNDING if problem.p <= MIDDLE else problem.rules.table[CHANGE, 0] / 2
    return bool(found.score < best.score + near and (found.changed == best.changed).all())


def _in_threads(jobs: int, tasks: Iterable[object]) -> list[Found]:
    todo = list(tasks)
    found: list[Found] = Parallel(n_jobs=max(1, min(jobs, len(todo))), prefer="threads")(todo)
    return found


def _descend(problem: Problem, order: IntArray, steps: int, seed: int) -> Found:
    """Anneal, insert with quick costs, then with full ones."""
    start = _respect(order.tolist(), problem.rules.before)
    rough = walk_from(problem, start, steps=steps, sweeps=SWEEPS, careful=False, seed=seed)
    return walk_from(problem, rough.order, sweeps=SWEEPS, seed=seed)


def _turn(problem: Problem, best: Found, i: int, j: int) -> Found:
    """The best order found near the best one in which effect i precedes cause j."""
    before = problem.rules.before
    if before[j, i]:
        return replace(best, score=np.inf)
    reverse = before.copy()
    reverse[i, j] = True
    turned = replace(problem, rules=problem.rules._replace(before=reverse))
    found = []
    for mover, pivot, after in ((i, j, 0), (j, i, 1)):
        order = [node for node in best.order if node != mover]
        order.insert(order.index(pivot) + after, mover)
        sweeps = max(1, min(SWEEPS, TURN_EFFORT // problem.p))
        found.append(walk_from(turned, _respect(order, reverse), sweeps=sweeps, careful=False))
    if problem.p <= MIDDLE:
        steps, start = STEPS * problem.p**2 // 2, _respect(best.order, reverse)
        found.append(walk_from(turned, start, steps=steps, sweeps=SWEEPS, careful=False))
    return min(found, key=lambda item: item.score)


def _respect(order: Sequence[int], before: BoolArray) -> list[int]:
    """The order closest to the given one in which a precedes b wherever ``before[a, b]``."""
    left, result = list(order), []
    while left:
        free = next(node for node in left if not before[left, node].any())
        left.remove(free)
        result.append(free)
    return result
