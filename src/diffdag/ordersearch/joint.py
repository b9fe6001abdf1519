"""One order for several pairs of conditions: its score is the sum of what it scores in each pair.

Conditions differ in few of their effects, so that all of them share a causal order, and each pair tells some of
it. `JointProblem` is for the search what `search.Problem` is for one pair. Where the variables are few the
tables of costs are added up; elsewhere `walk_jointly` does what `walk.walk` does, in all pairs at once: they
lie one behind the other in the arrays of a `PairBatch`, and a swap is a swap in each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from diffdag._base.arrays import BoolArray, FloatArray, IntArray
from diffdag._base.progress import ProgressCallback
from diffdag.ordersearch.core.compiled import compiled, inner, spliced
from diffdag.ordersearch.core.score import EXHAUSTIVE, Rules, full_cost, nothing_pays_after_swap, quick_cost
from diffdag.ordersearch.core.state import CHOSEN, ORDER, PLACE, Workspace, look, new_space, swap
from diffdag.ordersearch.core.walk import COLD, HOT, NEAR, REFRESH, WARM
from diffdag.ordersearch.search import DYNAMIC, Found, Optimum, Problem, read_along, search_orders, walk_from


def search_jointly(
    problems: Sequence[Problem], rng: np.random.Generator, jobs: int, progress: ProgressCallback | None = None
) -> list[Optimum]:
    """The order with the least sum of scores, and what it says about each pair.

    All answers have the same order; margins say what the sum rises by if a direction is reversed.
    """
    before = problems[0].before
    if (
        len(problems) == 1 or before.sum() == len(before) * (len(before) - 1) // 2
    ):  # nothing to share, or to search
        return [search_orders(problem, rng, jobs, progress) for problem in problems]
    joint = JointProblem(tuple(problems))
    optimum = search_orders(joint, rng, jobs, progress)
    return [_own_part(best, optimum) for best in joint.read_along(optimum.best.order)]


def _own_part(best: Found, joint: Optimum) -> Optimum:
    """What the common order says about one pair."""
    # Rounding can make a change appear here that was not worth its price there: its direction is not settled.
    margins = {(int(i), int(j)): joint.margins.get((int(i), int(j)), 0.0) for i, j in np.argwhere(best.changed)}
    return replace(joint, best=best, margins=margins)


class PairBatch(NamedTuple):
    """Room and rules of several pairs of conditions; the first axis of each array is the pair."""

    real: FloatArray
    whole: IntArray
    stack: FloatArray
    pooled: FloatArray
    rows: FloatArray  # [pair, condition]
    table: FloatArray
    limits: FloatArray
    equal: bool
    before: BoolArray
    unit: float
    counts: IntArray  # changes in each pair at the position looked at last
    differs: BoolArray  # and whether variances differ there


@dataclass(frozen=True, eq=False)
class JointProblem:
    """Several pairs of conditions over the same variables, with the same knowledge about their order."""

    pairs: tuple[Problem, ...]

    @property
    def p(self) -> int:
        """Number of variables."""
        return self.pairs[0].p

    @property
    def unit(self) -> float:
        """The price of a change."""
        return float(np.mean([pair.unit for pair in self.pairs]))

    @cached_property
    def base(self) -> float:
        """The score if nothing changes."""
        return sum(pair.base for pair in self.pairs)

    @property
    def before(self) -> BoolArray:
        """Who has to precede whom."""
        return self.pairs[0].before

    def requiring(self, before: BoolArray) -> JointProblem:
        """The same with other knowledge about the order."""
        return JointProblem(tuple(pair.requiring(before) for pair in self.pairs))

    @cached_property
    def tables(self) -> list[tuple[FloatArray, IntArray]]:
        """Costs and changes of each pair behind every set, where the variables are few."""
        return [pair.tabulate() for pair in self.pairs]

    def tabulate(self) -> tuple[FloatArray, IntArray]:
        """Cost of every variable behind every set, and what changes in some pair; see `dynamic.tabulate`."""
        costs = np.sum([own for own, _ in self.tables], axis=0)
        return costs, np.bitwise_or.reduce([changes for _, changes in self.tables])

    def read_along(self, order: Sequence[int]) -> list[Found]:
        """What an order says about each pair."""
        if self.p > DYNAMIC:
            return [walk_from(pair, order) for pair in self.pairs]
        parts = zip(self.pairs, self.tables, strict=True)
        return [read_along(order, pair.base, *tables) for pair, tables in parts]

    def walk(
        self,
        place: IntArray,
        steps: tuple[int, int],
        sweeps: int,
        careful: int,
        limits: tuple[float, float],
        seed: int,
        moving: BoolArray,
    ) -> Found:
        """One walk from `place`; changed and separate say what changes in some pair."""
        p = self.p
        cost, changed, separate = np.empty(p), np.zeros((p, p), bool), np.zeros(p, bool)
        walked = (steps, sweeps, careful, *limits, seed)
        above = walk_jointly(self._crowd(), place, *walked, moving, cost, changed, separate)
        return Found(tuple(place.tolist()), self.base + float(above), changed, separate)

    def _crowd(self) -> PairBatch:
        spaces = [new_space(pair.first, EXHAUSTIVE) for pair in self.pairs]
        rules = [pair.rules for pair in self.pairs]
        return PairBatch(
            np.stack([space.real for space in spaces]),
            np.stack([space.whole for space in spaces]),
            np.stack([space.stack for space in spaces]),
            np.stack([pair.pooled for pair in self.pairs]),
            np.array([(rule.n1, rule.n2) for rule in rules]),
            np.stack([rule.table for rule in rules]),
            np.stack([rule.limits for rule in rules]),
            rules[0].equal,
            self.before,
            self.unit,
            np.zeros(len(rules), np.int64),
            np.zeros(len(rules), bool),
        )


@compiled
def walk_jointly(
    crowd: PairBatch,
    order: IntArray,
    steps: tuple[int, int],
    sweeps: int,
    careful: int,
    grain: float,
    far: float,
    seed: int,
    to_revisit: BoolArray,
    cost: FloatArray,
    changed: BoolArray,
    separate: BoolArray,
) -> float:
    """Anneal and insert with quick costs, twice; then insert carefully, with full costs. See `walk.walk`."""
    p = len(order)
    np.random.seed(seed)  # noqa: NPY002 - numba's own generator, one a thread
    _take(crowd, order)
    best = _total(crowd, p)
    for leg in range(2):
        if steps[leg] > 0:
            to_revisit[:] = True
            _anneal(crowd, steps[leg], WARM if leg else HOT, cost)
        _insert(crowd, sweeps, False, grain, far, to_revisit, cost)
        score = _total(crowd, p)
        if score < best:
            best = score
            order[:] = crowd.whole[0, ORDER, :p]
        else:
            _take(crowd, order)
    to_revisit[:] = True
    _insert(crowd, careful, True, grain, far, to_revisit, cost)
    order[:] = crowd.whole[0, ORDER, :p]
    changed[:] = False
    separate[:] = False
    score = 0.0
    for t in range(p):
        i = order[t]
        cost[i] = _cost(crowd, t, True)
        score += cost[i]
        for k in range(len(crowd.counts)):
            separate[i] |= crowd.differs[k]
            for u in range(crowd.counts[k]):
                changed[i, crowd.whole[k, CHOSEN, u]] = True
    return score


@spliced
def _space(crowd: PairBatch, k: int) -> Workspace:
    return Workspace(crowd.real[k], crowd.whole[k], crowd.stack[k])


@spliced
def _rules(crowd: PairBatch, k: int) -> Rules:
    rows = crowd.rows[k]
    return Rules(rows[0], rows[1], crowd.table[k], crowd.limits[k], crowd.equal, crowd.before)


@inner
def _look(crowd: PairBatch) -> None:
    for k in range(len(crowd.counts)):
        look(_space(crowd, k), crowd.pooled[k])


@inner
def _swap(crowd: PairBatch, t: int) -> None:
    for k in range(len(crowd.counts)):
        swap(_space(crowd, k), t)


@inner
def _move(crowd: PairBatch, start: int, end: int) -> None:
    for t in range(start, end):
        _swap(crowd, t)
    for t in range(start - 1, end - 1, -1):
        _swap(crowd, t)


@inner
def _cost(crowd: PairBatch, t: int, careful: bool) -> float:
    """Sum of the costs at position t; what changes there is kept in the crowd."""
    total = 0.0
    for k in range(len(crowd.counts)):
        space, rules = _space(crowd, k), _rules(crowd, k)
        value, m, differs = full_cost(space, rules, t) if careful else quick_cost(space, rules, t)
        crowd.counts[k], crowd.differs[k] = m, differs
        total += value
    return total


@spliced
def _take(crowd: PairBatch, order: IntArray) -> None:
    for k in range(len(crowd.counts)):
        for t in range(len(order)):
            crowd.whole[k, ORDER, t] = order[t]
    _look(crowd)


@spliced
def _total(crowd: PairBatch, p: int) -> float:
    score = 0.0
    for t in range(p):
        score += _cost(crowd, t, False)
    return score


@spliced
def _nothing_pays_anywhere(crowd: PairBatch, t: int) -> bool:
    """Whether nothing would have to change in any pair at t and t + 1 if they were exchanged."""
    to_revisit = 0
    for k in range(len(crowd.counts)):
        to_revisit += not nothing_pays_after_swap(_space(crowd, k), _rules(crowd, k), t)
    return to_revisit == 0


@spliced
def _anneal(crowd: PairBatch, steps: int, hot: float, cost: FloatArray) -> None:
    """Simulated annealing over adjacent swaps with quick costs, as in `walk`."""
    p, swaps = len(cost), 0
    upper, lower, known = np.empty(p), np.empty(p), np.zeros(p, np.bool_)
    for t in range(p):
        cost[t] = _cost(crowd, t, False)
    heat, cooling = 1 / (hot * crowd.unit), math.exp(math.log(hot / COLD) / steps)
    for _ in range(steps):
        heat *= cooling
        t = np.random.randint(p - 1)  # noqa: NPY002
        if crowd.before[crowd.whole[0, ORDER, t], crowd.whole[0, ORDER, t + 1]]:
            continue
        swapped = False
        if not known[t]:
            known[t], upper[t], lower[t] = True, 0.0, 0.0
            if not _nothing_pays_anywhere(crowd, t):
                _swap(crowd, t)
                swapped, upper[t], lower[t] = True, _cost(crowd, t, False), _cost(crowd, t + 1, False)
        rise = upper[t] + lower[t] - cost[t] - cost[t + 1]
        if rise <= 0 or np.random.random() < math.exp(-rise * heat):  # noqa: NPY002
            if not swapped:
                _swap(crowd, t)
            upper[t], cost[t] = cost[t], upper[t]
            lower[t], cost[t + 1] = cost[t + 1], lower[t]
            known[t + 1] = False
            if t > 0:
                known[t - 1] = False
            swaps += 1
            if swaps % REFRESH == 0:
                _look(crowd)
        elif swapped:
            _swap(crowd, t)
    _look(crowd)


@spliced
def _insert(
    crowd: PairBatch,
    sweeps: int,
    careful: bool,
    grain: float,
    far: float,
    to_revisit: BoolArray,
    cost: FloatArray,
) -> None:
    """Sweep until nothing moves."""
    for _ in range(sweeps):
        moved = _sweep(crowd, careful, grain, far, to_revisit, cost)
        _look(crowd)
        if not moved:
            break


@spliced
def _sweep(
    crowd: PairBatch, careful: bool, grain: float, far: float, to_revisit: BoolArray, cost: FloatArray
) -> bool:
    """Move each restless variable, in random turns, to its best place; whether any moved."""
    moved = False
    for t in range(len(cost)):
        cost[t] = _cost(crowd, t, careful)
    for v in np.random.permutation(len(cost)):  # noqa: NPY002
        if not to_revisit[v]:
            continue
        to_revisit[v] = False
        start = crowd.whole[0, PLACE, v]
        target = _best_place(crowd, careful, grain, far, start, cost)
        _move(crowd, start, target)
        if target != start:
            moved = True
            for t in range(min(start, target), max(start, target) + 1):
                cost[t] = _renew(crowd, t, careful, cost[t], to_revisit)
    return moved


@spliced
def _renew(crowd: PairBatch, t: int, careful: bool, before: float, to_revisit: BoolArray) -> float:
    """The cost at a position; where it is another than before, those that it is about become restless."""
    value = _cost(crowd, t, careful)
    if abs(value - before) > 1e-9:
        to_revisit[crowd.whole[0, ORDER, t]] = True
        for k in range(len(crowd.counts)):
            for u in range(crowd.counts[k]):
                to_revisit[crowd.whole[k, CHOSEN, u]] = True
    return value


@spliced
def _best_place(crowd: PairBatch, careful: bool, grain: float, far: float, start: int, cost: FloatArray) -> int:
    """Where the variable at a position is best put."""
    order = crowd.whole[0, ORDER]
    p, v = len(cost), order[start]
    if careful:
        far = min(far, NEAR * crowd.unit)
    least, target = -grain, start
    for side in range(2):
        step = 1 - 2 * side
        rise, own, at = 0.0, cost[start], start
        while 0 <= at + step < p and rise < far:
            other = order[at + step]
            if crowd.before[v, other] if step > 0 else crowd.before[other, v]:
                break
            _swap(crowd, min(at, at + step))
            after = _cost(crowd, at + step, careful)
            rise += _cost(crowd, at, careful) + after - own - cost[at + step]
            own = after
            at += step
            if rise < least:
                least, target = rise, at
        _move(crowd, at, start)
    return target
