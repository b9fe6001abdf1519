"""Walks over orders: annealing by adjacent swaps, and insertion to a local optimum."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from diffdag.ordersearch.compiled import compiled, inner
from diffdag.ordersearch.score import Rules, full_cost, quick_cost
from diffdag.ordersearch.state import CHOSEN, ORDER, FloatArray, IntArray, Space, look, move, swap

# Rotations lose next to nothing; after so many swaps the view is worked out afresh all the same.
REFRESH = 20_000


@compiled
def walk(
    space: Space,
    pooled: FloatArray,
    rules: Rules,
    order: IntArray,
    steps: int,
    hot: float,
    cold: float,
    sweeps: int,
    careful: bool,
    seed: int,
    cost: FloatArray,
    changed: NDArray[np.bool_],
    separate: NDArray[np.bool_],
) -> float:
    """Anneal for some steps, then insert for up to some sweeps, then say what the order says; return its score.

    Insertion uses full costs if it is to be careful, and the answer always does.

    The order is changed in place; cost and separate are given by variable, changed as [effect, cause]. One
    function, not three, because numba compiles all that a function calls with it.
    """
    p = len(order)
    np.random.seed(seed)  # noqa: NPY002 - numba's own generator, one a thread
    for t in range(p):
        space.whole[ORDER, t] = order[t]
    look(space, pooled)
    if steps > 0:
        _anneal(space, pooled, rules, order, steps, hot, cold, cost)
        for t in range(p):
            space.whole[ORDER, t] = order[t]
        look(space, pooled)
    for _ in range(sweeps):
        moved = _sweep(space, rules, careful, cost)
        look(space, pooled)
        if not moved:
            break
    score = 0.0
    for t in range(p):
        i = space.whole[ORDER, t]
        order[t] = i
        value, m, differs = full_cost(space, rules, t)
        score += value
        cost[i] = value
        separate[i] = differs
        for k in range(p):
            changed[i, k] = False
        for u in range(m):
            changed[i, space.whole[CHOSEN, u]] = True
    return score


@inner
def _anneal(
    space: Space,
    pooled: FloatArray,
    rules: Rules,
    order: IntArray,
    steps: int,
    hot: float,
    cold: float,
    cost: FloatArray,
) -> None:
    """Simulated annealing over adjacent swaps with quick costs; `order` becomes the best order met.

    The temperature falls geometrically. What costs would be after a swap is kept until a neighbour moves.
    """
    p = len(order)
    upper, lower, known = np.empty(p), np.empty(p), np.zeros(p, np.bool_)
    for t in range(p):
        cost[t] = quick_cost(space, rules, t)[0]
    score, best, swaps = 0.0, 0.0, 0
    cooling = math.log(cold / hot) / steps
    for step in range(steps):
        t = np.random.randint(p - 1)  # noqa: NPY002
        if rules.before[space.whole[ORDER, t], space.whole[ORDER, t + 1]]:
            continue
        fresh = not known[t]
        if fresh:
            swap(space, t)
            upper[t] = quick_cost(space, rules, t)[0]
            lower[t] = quick_cost(space, rules, t + 1)[0]
            known[t] = True
        rise = upper[t] + lower[t] - cost[t] - cost[t + 1]
        if rise <= 0 or np.random.random() < math.exp(-rise / (hot * math.exp(cooling * step))):  # noqa: NPY002
            if not fresh:
                swap(space, t)
            upper[t], cost[t] = cost[t], upper[t]
            lower[t], cost[t + 1] = cost[t + 1], lower[t]
            known[t + 1] = False
            if t > 0:
                known[t - 1] = False
            score += rise
            if score < best - 1e-9:
                best = score
                for k in range(p):
                    order[k] = space.whole[ORDER, k]
            swaps += 1
            if swaps % REFRESH == 0:
                look(space, pooled)
        elif fresh:
            swap(space, t)


@inner
def _cost(space: Space, rules: Rules, t: int, careful: bool) -> float:
    return full_cost(space, rules, t)[0] if careful else quick_cost(space, rules, t)[0]


@inner
def _sweep(space: Space, rules: Rules, careful: bool, cost: FloatArray) -> bool:
    """Move each variable, in random turns, to its best place; whether any moved."""
    order = space.whole[ORDER]
    p = len(cost)
    for t in range(p):
        cost[t] = _cost(space, rules, t, careful)
    moved = False
    for v in np.random.permutation(p):  # noqa: NPY002
        start = 0
        while order[start] != v:
            start += 1
        least, target = -1e-7, start
        for side in range(2):
            step = 1 - 2 * side
            rise, own, at = 0.0, cost[start], start
            while 0 <= at + step < p:
                other = order[at + step]
                if rules.before[v, other] if step > 0 else rules.before[other, v]:
                    break
                swap(space, min(at, at + step))
                passed = _cost(space, rules, at, careful)
                after = _cost(space, rules, at + step, careful)
                rise += passed + after - own - cost[at + step]
                own = after
                at += step
                if rise < least:
                    least, target = rise, at
            move(space, at, start)
        move(space, start, target)
        if target != start:
            moved = True
            for t in range(min(start, target), max(start, target) + 1):
                cost[t] = _cost(space, rules, t, careful)
    return moved
