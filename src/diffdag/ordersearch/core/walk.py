"""Walks over orders: annealing by adjacent swaps, and insertion to a local optimum."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffdag._base.arrays import FloatArray, IntArray
from diffdag.ordersearch.core.compiled import compiled, spliced, whole
from diffdag.ordersearch.core.score import CHANGE, Rules, full_cost, nothing_pays_after_swap, quick_cost
from diffdag.ordersearch.core.state import CHOSEN, ORDER, PLACE, Workspace, look, move, swap

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


@compiled
def walk(
    space: Workspace,
    pooled: FloatArray,
    rules: Rules,
    order: IntArray,
    steps: tuple[int, int],
    sweeps: int,
    careful: int,
    grain: float,
    far: float,
    seed: int,
    to_revisit: NDArray[np.bool_],
    cost: FloatArray,
    changed: NDArray[np.bool_],
    separate: NDArray[np.bool_],
) -> float:
    """Anneal and insert with quick costs, twice; then insert carefully, with full costs.

    `steps` are those of each annealing; `sweeps` and `careful` the most sweeps of an insertion. Only restless
    variables are inserted, and those that their moves concern, where that gains more than `grain`; they are
    moved on until the score has risen by `far`.

    Returned is the score, without the part that is the same for all orders. The order is changed in place;
    cost and separate are given by variable, changed as [effect, cause], all of them with full costs. One
    function, not three, because numba compiles all that a function calls with it.
    """
    p = len(order)
    np.random.seed(seed)  # noqa: NPY002 - numba's own generator, one a thread
    _take(space, pooled, order)
    best = _total(space, rules)
    for leg in range(2):
        if steps[leg] > 0:
            to_revisit[:] = True
            _anneal(space, pooled, rules, steps[leg], WARM if leg else HOT, cost)
        _insert(space, pooled, rules, sweeps, False, grain, far, to_revisit, cost)
        score = _total(space, rules)
        if score < best:
            best = score
            order[:] = space.whole[ORDER, :p]
        else:
            _take(space, pooled, order)
    to_revisit[:] = True
    _insert(space, pooled, rules, careful, True, grain, far, to_revisit, cost)
    order[:] = space.whole[ORDER, :p]
    score = 0.0
    for t in range(p):
        i = order[t]
        value, m, differs = full_cost(space, rules, t)
        score += value
        cost[i] = value
        separate[i] = differs
        for k in range(p):
            changed[i, k] = False
        for u in range(m):
            changed[i, space.whole[CHOSEN, u]] = True
    return score


@spliced
def _take(space: Workspace, pooled: FloatArray, order: IntArray) -> None:
    for t in range(len(order)):
        space.whole[ORDER, t] = order[t]
    look(space, pooled)


@spliced
def _total(space: Workspace, rules: Rules) -> float:
    score = 0.0
    for t in range(space.real.shape[2]):
        score += quick_cost(space, rules, t)[0]
    return score


@spliced
def _anneal(
    space: Workspace, pooled: FloatArray, rules: Rules, steps: int, hot: float, cost: FloatArray
) -> None:
    """Simulated annealing over adjacent swaps with quick costs.

    The temperature falls geometrically. What costs would be after a swap is kept until a neighbour moves. Where
    it ends counts, not the best order met: many variables that hardly matter keep the score up as long as it is
    warm, and insertion puts them right.
    """
    p = len(cost)
    upper, lower, known = np.empty(p), np.empty(p), np.zeros(p, np.bool_)
    memory = _new_memory(space)
    for t in range(p):
        cost[t] = quick_cost(space, rules, t)[0]
    swaps = 0
    heat, cooling = 1 / (hot * rules.table[CHANGE, 0]), math.exp(math.log(hot / COLD) / steps)
    for _ in range(steps):
        heat *= cooling
        t = np.random.randint(p - 1)  # noqa: NPY002
        if rules.before[space.whole[ORDER, t], space.whole[ORDER, t + 1]]:
            continue
        swapped = False
        if not known[t]:
            known[t] = True
            swapped, upper[t], lower[t] = _try(space, rules, t, memory)
        rise = upper[t] + lower[t] - cost[t] - cost[t + 1]
        if rise <= 0 or np.random.random() < math.exp(-rise * heat):  # noqa: NPY002
            if not swapped:
                swap(space, t)
            memory.sets[t + 1] = memory.sets[t] ^ memory.code[space.whole[ORDER, t]]
            upper[t], cost[t] = cost[t], upper[t]
            lower[t], cost[t + 1] = cost[t + 1], lower[t]
            known[t + 1] = False
            if t > 0:
                known[t - 1] = False
            swaps += 1
            if swaps % REFRESH == 0:
                look(space, pooled)
        elif swapped:
            swap(space, t)
    look(space, pooled)


class Memory(NamedTuple):
    """Costs by variable and set of predecessors.

    A set is known by the exclusive or of random numbers, one for each variable (Zobrist 1970).
    """

    code: IntArray
    sets: IntArray  # the predecessors of each position
    keys: IntArray
    costs: FloatArray


@spliced
def _new_memory(space: Workspace) -> Memory:
    p = space.real.shape[2]
    code, sets = np.empty(p, np.int64), np.zeros(p + 1, np.int64)
    for k in range(p):
        code[k] = np.random.randint(1 << 62)  # noqa: NPY002
    for t in range(p):
        sets[t + 1] = sets[t] ^ code[space.whole[ORDER, t]]
    return Memory(code, sets, np.zeros(MEMORY, np.int64), np.empty(MEMORY))


@spliced
def _try(space: Workspace, rules: Rules, t: int, memory: Memory) -> tuple[bool, float, float]:
    """Costs at t and t + 1 if they were exchanged; and whether they now are, which is avoided if possible."""
    if nothing_pays_after_swap(space, rules, t):
        return False, 0.0, 0.0
    a, b = space.whole[ORDER, t], space.whole[ORDER, t + 1]
    # The factor tells the variable from its predecessors.
    one = memory.sets[t] * ODD + memory.code[b]
    two = (memory.sets[t] ^ memory.code[b]) * ODD + memory.code[a]
    at, then = one & (MEMORY - 1), two & (MEMORY - 1)
    if memory.keys[at] == one and memory.keys[then] == two:
        return False, memory.costs[at], memory.costs[then]
    swap(space, t)
    upper, lower = quick_cost(space, rules, t)[0], quick_cost(space, rules, t + 1)[0]
    memory.keys[at], memory.costs[at] = one, upper
    memory.keys[then], memory.costs[then] = two, lower
    return True, upper, lower


@spliced
def _cost(space: Workspace, rules: Rules, t: int, careful: bool) -> tuple[float, int, bool]:
    return full_cost(space, rules, t) if careful else quick_cost(space, rules, t)


@spliced
def _insert(
    space: Workspace,
    pooled: FloatArray,
    rules: Rules,
    sweeps: int,
    careful: bool,
    grain: float,
    far: float,
    to_revisit: NDArray[np.bool_],
    cost: FloatArray,
) -> None:
    """Sweep until nothing moves."""
    for _ in range(sweeps):
        moved = _sweep(space, rules, careful, grain, far, to_revisit, cost)
        look(space, pooled)
        if not moved:
            break


@spliced
def _sweep(
    space: Workspace,
    rules: Rules,
    careful: bool,
    grain: float,
    far: float,
    to_revisit: NDArray[np.bool_],
    cost: FloatArray,
) -> bool:
    """Move each restless variable, in random turns, to its best place; whether any moved."""
    moved = False
    for t in range(len(cost)):
        cost[t] = _cost(space, rules, t, careful)[0]
    for v in np.random.permutation(len(cost)):  # noqa: NPY002
        if not to_revisit[v]:
            continue
        to_revisit[v] = False
        start = space.whole[PLACE, v]
        target = _best_place(space, rules, careful, grain, far, start, cost)
        move(space, start, target)
        if target != start:
            moved = True
            for t in range(min(start, target), max(start, target) + 1):
                cost[t] = _renew(space, rules, t, careful, cost[t], to_revisit)
    return moved


@spliced
def _renew(
    space: Workspace, rules: Rules, t: int, careful: bool, before: float, to_revisit: NDArray[np.bool_]
) -> float:
    """The cost at a position; where it is another than before, those that it is about become restless."""
    value, m, _ = _cost(space, rules, t, careful)
    if abs(value - before) > 1e-9:
        to_revisit[space.whole[ORDER, t]] = True
        for u in range(m):
            to_revisit[space.whole[CHOSEN, u]] = True
    return value


@spliced
def _best_place(
    space: Workspace, rules: Rules, careful: bool, grain: float, far: float, start: int, cost: FloatArray
) -> int:
    """Where the variable at a position is best put."""
    order = space.whole[ORDER]
    p, v = len(cost), order[start]
    if careful:
        far = min(far, NEAR * rules.table[CHANGE, 0])
    least, target = -grain, start
    for side in range(2):
        step = 1 - 2 * side
        rise, own, at = 0.0, cost[start], start
        while 0 <= at + step < p and rise < far:
            other = order[at + step]
            if rules.before[v, other] if step > 0 else rules.before[other, v]:
                break
            swap(space, min(at, at + step))
            after = _cost(space, rules, at + step, careful)[0]
            rise += _cost(space, rules, at, careful)[0] + after - own - cost[at + step]
            own = after
            at += step
            if rise < least:
                least, target = rise, at
        move(space, at, start)
    return target
