"""Walks over orders that several pairs of conditions share: what `walk` does, in all pairs at once.

The pairs lie one behind the other in the arrays of a `PairBatch`, and a swap is a swap in each. A walk over a
batch of one pair would replace `walk`, but takes up to a quarter longer there (20 variables).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from diffdag._base.arrays import BoolArray, FloatArray, IntArray
from diffdag.ordersearch.core.compiled import compiled, inner, spliced
from diffdag.ordersearch.core.score import Rules, full_cost, nothing_pays_after_swap, quick_cost
from diffdag.ordersearch.core.state import CHOSEN, ORDER, PLACE, Workspace, look, swap
from diffdag.ordersearch.core.walk import COLD, HOT, NEAR, REFRESH, WARM


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


@compiled
def walk_jointly(
    batch: PairBatch,
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
    _take(batch, order)
    best = _total(batch, p)
    for leg in range(2):
        if steps[leg] > 0:
            to_revisit[:] = True
            _anneal(batch, steps[leg], WARM if leg else HOT, cost)
        _insert(batch, sweeps, False, grain, far, to_revisit, cost)
        score = _total(batch, p)
        if score < best:
            best = score
            order[:] = batch.whole[0, ORDER, :p]
        else:
            _take(batch, order)
    to_revisit[:] = True
    _insert(batch, careful, True, grain, far, to_revisit, cost)
    order[:] = batch.whole[0, ORDER, :p]
    changed[:] = False
    separate[:] = False
    score = 0.0
    for t in range(p):
        i = order[t]
        cost[i] = _cost(batch, t, True)
        score += cost[i]
        for k in range(len(batch.counts)):
            separate[i] |= batch.differs[k]
            for u in range(batch.counts[k]):
                changed[i, batch.whole[k, CHOSEN, u]] = True
    return score


@spliced
def _space(batch: PairBatch, k: int) -> Workspace:
    return Workspace(batch.real[k], batch.whole[k], batch.stack[k])


@spliced
def _rules(batch: PairBatch, k: int) -> Rules:
    rows = batch.rows[k]
    return Rules(rows[0], rows[1], batch.table[k], batch.limits[k], batch.equal, batch.before)


@inner
def _look(batch: PairBatch) -> None:
    for k in range(len(batch.counts)):
        look(_space(batch, k), batch.pooled[k])


@inner
def _swap(batch: PairBatch, t: int) -> None:
    for k in range(len(batch.counts)):
        swap(_space(batch, k), t)


@inner
def _move(batch: PairBatch, start: int, end: int) -> None:
    for t in range(start, end):
        _swap(batch, t)
    for t in range(start - 1, end - 1, -1):
        _swap(batch, t)


@inner
def _cost(batch: PairBatch, t: int, careful: bool) -> float:
    """Sum of the costs at position t; what changes there is kept in the batch."""
    total = 0.0
    for k in range(len(batch.counts)):
        space, rules = _space(batch, k), _rules(batch, k)
        value, m, differs = full_cost(space, rules, t) if careful else quick_cost(space, rules, t)
        batch.counts[k], batch.differs[k] = m, differs
        total += value
    return total


@spliced
def _take(batch: PairBatch, order: IntArray) -> None:
    for k in range(len(batch.counts)):
        for t in range(len(order)):
            batch.whole[k, ORDER, t] = order[t]
    _look(batch)


@spliced
def _total(batch: PairBatch, p: int) -> float:
    score = 0.0
    for t in range(p):
        score += _cost(batch, t, False)
    return score


@spliced
def _nothing_pays_anywhere(batch: PairBatch, t: int) -> bool:
    """Whether nothing would have to change in any pair at t and t + 1 if they were exchanged."""
    to_revisit = 0
    for k in range(len(batch.counts)):
        to_revisit += not nothing_pays_after_swap(_space(batch, k), _rules(batch, k), t)
    return to_revisit == 0


@spliced
def _anneal(batch: PairBatch, steps: int, hot: float, cost: FloatArray) -> None:
    """Simulated annealing over adjacent swaps with quick costs, as in `walk`."""
    p, swaps = len(cost), 0
    upper, lower, known = np.empty(p), np.empty(p), np.zeros(p, np.bool_)
    for t in range(p):
        cost[t] = _cost(batch, t, False)
    heat, cooling = 1 / (hot * batch.unit), math.exp(math.log(hot / COLD) / steps)
    for _ in range(steps):
        heat *= cooling
        t = np.random.randint(p - 1)  # noqa: NPY002
        if batch.before[batch.whole[0, ORDER, t], batch.whole[0, ORDER, t + 1]]:
            continue
        swapped = False
        if not known[t]:
            known[t], upper[t], lower[t] = True, 0.0, 0.0
            if not _nothing_pays_anywhere(batch, t):
                _swap(batch, t)
                swapped, upper[t], lower[t] = True, _cost(batch, t, False), _cost(batch, t + 1, False)
        rise = upper[t] + lower[t] - cost[t] - cost[t + 1]
        if rise <= 0 or np.random.random() < math.exp(-rise * heat):  # noqa: NPY002
            if not swapped:
                _swap(batch, t)
            upper[t], cost[t] = cost[t], upper[t]
            lower[t], cost[t + 1] = cost[t + 1], lower[t]
            known[t + 1] = False
            if t > 0:
                known[t - 1] = False
            swaps += 1
            if swaps % REFRESH == 0:
                _look(batch)
        elif swapped:
            _swap(batch, t)
    _look(batch)


@spliced
def _insert(
    batch: PairBatch,
    sweeps: int,
    careful: bool,
    grain: float,
    far: float,
    to_revisit: BoolArray,
    cost: FloatArray,
) -> None:
    """Sweep until nothing moves."""
    for _ in range(sweeps):
        moved = _sweep(batch, careful, grain, far, to_revisit, cost)
        _look(batch)
        if not moved:
            break


@spliced
def _sweep(
    batch: PairBatch, careful: bool, grain: float, far: float, to_revisit: BoolArray, cost: FloatArray
) -> bool:
    """Move each restless variable, in random turns, to its best place; whether any moved."""
    moved = False
    for t in range(len(cost)):
        cost[t] = _cost(batch, t, careful)
    for v in np.random.permutation(len(cost)):  # noqa: NPY002
        if not to_revisit[v]:
            continue
        to_revisit[v] = False
        start = batch.whole[0, PLACE, v]
        target = _best_place(batch, careful, grain, far, start, cost)
        _move(batch, start, target)
        if target != start:
            moved = True
            for t in range(min(start, target), max(start, target) + 1):
                cost[t] = _renew(batch, t, careful, cost[t], to_revisit)
    return moved


@spliced
def _renew(batch: PairBatch, t: int, careful: bool, before: float, to_revisit: BoolArray) -> float:
    """The cost at a position; where it is another than before, those that it is about become restless."""
    value = _cost(batch, t, careful)
    if abs(value - before) > 1e-9:
        to_revisit[batch.whole[0, ORDER, t]] = True
        for k in range(len(batch.counts)):
            for u in range(batch.counts[k]):
                to_revisit[batch.whole[k, CHOSEN, u]] = True
    return value


@spliced
def _best_place(batch: PairBatch, careful: bool, grain: float, far: float, start: int, cost: FloatArray) -> int:
    """Where the variable at a position is best put."""
    order = batch.whole[0, ORDER]
    p, v = len(cost), order[start]
    if careful:
        far = min(far, NEAR * batch.unit)
    least, target = -grain, start
    for side in range(2):
        step = 1 - 2 * side
        rise, own, at = 0.0, cost[start], start
        while 0 <= at + step < p and rise < far:
            other = order[at + step]
            if batch.before[v, other] if step > 0 else batch.before[other, v]:
                break
            _swap(batch, min(at, at + step))
            after = _cost(batch, at + step, careful)
            rise += _cost(batch, at, careful) + after - own - cost[at + step]
            own = after
            at += step
            if rise < least:
                least, target = rise, at
        _move(batch, at, start)
    return target
