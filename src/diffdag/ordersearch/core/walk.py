"""Walks over orders: annealing by adjacent swaps, and insertion to a local optimum.

Several pairs of conditions can share a walk: they lie one behind the other in the arrays of a `PairBatch`, and
a swap is a swap in each. For one pair the batch is None, which numba knows when it compiles.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from diffdag._base.arrays import BoolArray, FloatArray, IntArray
from diffdag.ordersearch.core.compiled import ZERO, compiled, inner, spliced, whole
from diffdag.ordersearch.core.score import Rules, full_cost, nothing_pays_after_swap, quick_cost
from diffdag.ordersearch.core.state import CHOSEN, ORDER, PLACE, Workspace, look, swap

# Rotations lose next to nothing; after so many swaps the view is worked out afresh all the same.
REFRESH = 20_000
# Temperatures, in penalties: the first of the first and of the second annealing, and the last
# (docs/dev/order_measured.md).
HOT, WARM, COLD = 10.0, 1.0, 0.1
# Rise of the score, in penalties, beyond which a variable is not moved on with full costs, which are slow.
NEAR = 3.0
# Remembered costs in annealing.
MEMORY = 1 << 13
ODD = whole(2862933555777941757)


class PairBatch(NamedTuple):
    """Room and rules of several pairs of conditions; the first axis of each array is the pair."""

    real: FloatArray
    whole: IntArray
    stack: FloatArray
    pooled: FloatArray
    rows: FloatArray  # [pair, condition]
    table: FloatArray
    limits: FloatArray
    counts: IntArray  # changes in each pair at the position looked at last


@compiled
def walk(
    space: Workspace,
    pooled: FloatArray,
    rules: Rules,
    batch: PairBatch | None,
    unit: float,
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
    """Anneal and insert with quick costs, twice; then insert carefully, with full costs.

    With a batch, `space`, `pooled` and `rules` are those of its first pair. `unit` is the penalty of a change.
    `steps` are those of each annealing; `sweeps` and `careful` the most sweeps of an insertion. Only restless
    variables are inserted, and those that their moves concern, where that gains more than `grain`; they are
    moved on until the score has risen by `far`.

    Returned is the score, without the part that is the same for all orders. The order is changed in place;
    cost and separate are given by variable, changed as [effect, cause], all of them with full costs and, in a
    batch, of all pairs. One function, not three, because numba compiles all that a function calls with it.
    """
    p = len(order)
    np.random.seed(seed)  # noqa: NPY002 - numba's own generator, one per thread
    _take(space, pooled, batch, order)
    best = _total(space, rules, batch)
    for leg in range(2):
        if steps[leg] > 0:
            to_revisit[:] = True
            _anneal(space, pooled, rules, batch, unit, steps[leg], WARM if leg else HOT, cost)
        _insert(space, pooled, rules, batch, sweeps, False, grain, far, to_revisit, cost)
        score = _total(space, rules, batch)
        if score < best:
            best = score
            order[:] = space.whole[ORDER, :p]
        else:
            _take(space, pooled, batch, order)
    to_revisit[:] = True
    _insert(space, pooled, rules, batch, careful, True, grain, min(far, NEAR * unit), to_revisit, cost)
    order[:] = space.whole[ORDER, :p]
    changed[:] = False
    score = 0.0
    for t in range(p):
        i = order[t]
        cost[i], m, separate[i] = _cost(space, rules, batch, t, True)
        score += cost[i]
        _mark(space, batch, m, changed[i])
    return score


@spliced
def _space(batch: PairBatch, k: int) -> Workspace:
    return Workspace(batch.real[k], batch.whole[k], batch.stack[k])


@spliced
def _rules(batch: PairBatch, k: int, rules: Rules) -> Rules:
    rows = batch.rows[k]
    return Rules(rows[0], rows[1], batch.table[k], batch.limits[k], rules.equal, rules.before)


@inner
def _look(space: Workspace, pooled: FloatArray, batch: PairBatch | None) -> None:
    if batch is None:
        look(space, pooled)
    else:
        for k in range(len(batch.counts)):
            look(_space(batch, k), batch.pooled[k])


@inner
def _swap(space: Workspace, batch: PairBatch | None, t: int) -> None:
    if batch is None:
        swap(space, t)
    else:
        for k in range(len(batch.counts)):
            swap(_space(batch, k), t)


@inner
def _move(space: Workspace, batch: PairBatch | None, start: int, end: int) -> None:
    for t in range(start, end):
        _swap(space, batch, t)
    for t in range(start - 1, end - 1, -1):
        _swap(space, batch, t)


@inner
def _cost(
    space: Workspace, rules: Rules, batch: PairBatch | None, t: int, careful: bool
) -> tuple[float, int, bool]:
    """Cost at position t, number of changes (of a batch in its `counts`), whether some variances differ."""
    if batch is None:
        return full_cost(space, rules, t) if careful else quick_cost(space, rules, t)
    total, separate = 0.0, False
    for k in range(len(batch.counts)):
        own, known = _space(batch, k), _rules(batch, k, rules)
        value, m, differs = full_cost(own, known, t) if careful else quick_cost(own, known, t)
        batch.counts[k] = m
        total += value
        separate |= differs
    return total, ZERO, separate


@inner
def _mark(space: Workspace, batch: PairBatch | None, m: int, marks: BoolArray) -> None:
    """Mark the variables whose effects change at the position looked at last."""
    if batch is None:
        for u in range(m):
            marks[space.whole[CHOSEN, u]] = True
    else:
        for k in range(len(batch.counts)):
            for u in range(batch.counts[k]):
                marks[batch.whole[k, CHOSEN, u]] = True


@inner
def _nothing_pays(space: Workspace, rules: Rules, batch: PairBatch | None, t: int) -> bool:
    """Whether nothing would have to change, in any pair, at t and t + 1 if they were exchanged."""
    if batch is None:
        return nothing_pays_after_swap(space, rules, t)
    changing = 0
    for k in range(len(batch.counts)):
        changing += not nothing_pays_after_swap(_space(batch, k), _rules(batch, k, rules), t)
    return changing == 0


@spliced
def _take(space: Workspace, pooled: FloatArray, batch: PairBatch | None, order: IntArray) -> None:
    _order(space, batch, order)
    _look(space, pooled, batch)


@inner
def _order(space: Workspace, batch: PairBatch | None, order: IntArray) -> None:
    if batch is None:
        space.whole[ORDER, : len(order)] = order
    else:
        batch.whole[:, ORDER, : len(order)] = order


@spliced
def _total(space: Workspace, rules: Rules, batch: PairBatch | None) -> float:
    score = 0.0
    for t in range(space.real.shape[2]):
        score += _cost(space, rules, batch, t, False)[0]
    return score


@spliced
def _anneal(
    space: Workspace,
    pooled: FloatArray,
    rules: Rules,
    batch: PairBatch | None,
    unit: float,
    steps: int,
    hot: float,
    cost: FloatArray,
) -> None:
    """Simulated annealing over adjacent swaps with quick costs.

    The temperature falls geometrically. What costs would be after a swap is kept until a neighbour moves. Where
    it ends counts, not the best order met: many variables that hardly matter keep the score up as long as it is
    warm, and insertion puts them right.
    """
    p = len(cost)
    upper, lower, known = np.empty(p), np.empty(p), np.zeros(p, np.bool_)
    memory = _new_memory(space, batch)
    for t in range(p):
        cost[t] = _cost(space, rules, batch, t, False)[0]
    swaps = 0
    heat, cooling = 1 / (hot * unit), math.exp(math.log(hot / COLD) / steps)
    for _ in range(steps):
        heat *= cooling
        t = np.random.randint(p - 1)  # noqa: NPY002
        if rules.before[space.whole[ORDER, t], space.whole[ORDER, t + 1]]:
            continue
        swapped = False
        if not known[t]:
            known[t] = True
            swapped, upper[t], lower[t] = _try(space, rules, batch, t, memory)
        rise = upper[t] + lower[t] - cost[t] - cost[t + 1]
        if rise <= 0 or np.random.random() < math.exp(-rise * heat):  # noqa: NPY002
            if not swapped:
                _swap(space, batch, t)
            memory.sets[t + 1] = memory.sets[t] ^ memory.code[space.whole[ORDER, t]]
            upper[t], cost[t] = cost[t], upper[t]
            lower[t], cost[t + 1] = cost[t + 1], lower[t]
            known[t + 1] = False
            if t > 0:
                known[t - 1] = False
            swaps += 1
            if swaps % REFRESH == 0:
                _look(space, pooled, batch)
        elif swapped:
            _swap(space, batch, t)
    _look(space, pooled, batch)


class Memory(NamedTuple):
    """Costs by variable and set of predecessors.

    A set is known by the exclusive or of random numbers, one for each variable (Zobrist 1970).
    """

    code: IntArray
    sets: IntArray  # the predecessors of each position
    keys: IntArray
    costs: FloatArray


@inner
def _new_memory(space: Workspace, batch: PairBatch | None) -> Memory:
    p = space.real.shape[2]
    code, sets = np.zeros(p, np.int64), np.zeros(p + 1, np.int64)
    if batch is None:  # the costs of several pairs are not remembered
        for k in range(p):
            code[k] = np.random.randint(1 << 62)  # noqa: NPY002
    for t in range(p):
        sets[t + 1] = sets[t] ^ code[space.whole[ORDER, t]]
    return Memory(code, sets, np.zeros(MEMORY, np.int64), np.empty(MEMORY))


@inner
def _try(
    space: Workspace, rules: Rules, batch: PairBatch | None, t: int, memory: Memory
) -> tuple[bool, float, float]:
    """Costs at t and t + 1 if they were exchanged; and whether they now are, which is avoided if possible."""
    if _nothing_pays(space, rules, batch, t):
        return False, 0.0, 0.0
    a, b = space.whole[ORDER, t], space.whole[ORDER, t + 1]
    # The factor tells the variable from its predecessors.
    one = memory.sets[t] * ODD + memory.code[b]
    two = (memory.sets[t] ^ memory.code[b]) * ODD + memory.code[a]
    at, then = one & (MEMORY - 1), two & (MEMORY - 1)
    if batch is None and memory.keys[at] == one and memory.keys[then] == two:
        return False, memory.costs[at], memory.costs[then]
    _swap(space, batch, t)
    upper, lower = _cost(space, rules, batch, t, False)[0], _cost(space, rules, batch, t + 1, False)[0]
    memory.keys[at], memory.costs[at] = one, upper
    memory.keys[then], memory.costs[then] = two, lower
    return True, upper, lower


@spliced
def _insert(
    space: Workspace,
    pooled: FloatArray,
    rules: Rules,
    batch: PairBatch | None,
    sweeps: int,
    careful: bool,
    grain: float,
    far: float,
    to_revisit: BoolArray,
    cost: FloatArray,
) -> None:
    """Sweep until nothing moves."""
    for _ in range(sweeps):
        moved = _sweep(space, rules, batch, careful, grain, far, to_revisit, cost)
        _look(space, pooled, batch)
        if not moved:
            break


@spliced
def _sweep(
    space: Workspace,
    rules: Rules,
    batch: PairBatch | None,
    careful: bool,
    grain: float,
    far: float,
    to_revisit: BoolArray,
    cost: FloatArray,
) -> bool:
    """Move each restless variable, in random turns, to its best place; whether any moved.

    Where a move changes the cost at a position, those that it is about become restless.
    """
    moved = False
    for t in range(len(cost)):
        cost[t] = _cost(space, rules, batch, t, careful)[0]
    for v in np.random.permutation(len(cost)):  # noqa: NPY002
        if not to_revisit[v]:
            continue
        to_revisit[v] = False
        start = space.whole[PLACE, v]
        target = _best_place(space, rules, batch, careful, grain, far, start, cost)
        _move(space, batch, start, target)
        if target != start:
            moved = True
            for t in range(min(start, target), max(start, target) + 1):
                value, m, _ = _cost(space, rules, batch, t, careful)
                if abs(value - cost[t]) > 1e-9:
                    to_revisit[space.whole[ORDER, t]] = True
                    _mark(space, batch, m, to_revisit)
                cost[t] = value
    return moved


@spliced
def _best_place(
    space: Workspace,
    rules: Rules,
    batch: PairBatch | None,
    careful: bool,
    grain: float,
    far: float,
    start: int,
    cost: FloatArray,
) -> int:
    """Where the variable at a position is best put."""
    order = space.whole[ORDER]
    p, v = len(cost), order[start]
    least, target = -grain, start
    for side in range(2):
        step = 1 - 2 * side
        rise, own, at = 0.0, cost[start], start
        while 0 <= at + step < p and rise < far:
            other = order[at + step]
            if rules.before[v, other] if step > 0 else rules.before[other, v]:
                break
            _swap(space, batch, min(at, at + step))
            after = _cost(space, rules, batch, at + step, careful)[0]
            rise += _cost(space, rules, batch, at, careful)[0] + after - own - cost[at + step]
            own = after
            at += step
            if rise < least:
                least, target = rise, at
        _move(space, batch, at, start)
    return target
