"""Walks over orders: annealing by adjacent swaps, and insertion to a local optimum."""

from __future__ import annotations

import math

import numpy as np

from diffdag.ordersearch.compiled import compiled
from diffdag.ordersearch.score import EXHAUSTIVE, Rules, full_cost, quick_cost
from diffdag.ordersearch.state import FloatArray, IntArray, View, look, move, new_view, swap
from diffdag.ordersearch.subset import Work, new_work

# Rotations lose next to nothing; after so many swaps the view is worked out afresh all the same.
REFRESH = 20_000


@compiled
def node_cost(view: View, work: Work, rules: Rules, t: int, full: bool) -> float:
    """Cost of the variable at position t."""
    if full:
        return full_cost(view, work, rules, t)[0]
    return quick_cost(view, work, rules, t)[0]


@compiled
def anneal(
    first: FloatArray,
    pooled: FloatArray,
    rules: Rules,
    order: IntArray,
    steps: int,
    hot: float,
    cold: float,
    seed: int,
    full: bool,
) -> tuple[float, IntArray]:
    """Simulated annealing over adjacent swaps, two costs a step; the best order met and its score.

    The temperature falls geometrically. Costs after a swap are kept until a neighbour moves: most steps read
    them.
    """
    p = len(order)
    np.random.seed(seed)
    view, work = new_view(first), new_work(p, EXHAUSTIVE)
    look(view, pooled, order)
    cost = np.empty(p)
    for t in range(p):
        cost[t] = node_cost(view, work, rules, t, full)
    # What the costs at t and t + 1 would be after a swap.
    upper, lower, known = np.empty(p), np.empty(p), np.zeros(p, np.bool_)
    score = cost.sum()
    best, best_order = score, order.copy()
    swaps = 0
    cooling = math.log(cold / hot)
    for step in range(steps):
        t = np.random.randint(p - 1)
        if rules.before[view.order[t], view.order[t + 1]]:
            continue
        here = not known[t]
        if here:
            swap(view, t)
            upper[t] = node_cost(view, work, rules, t, full)
            lower[t] = node_cost(view, work, rules, t + 1, full)
            known[t] = True
        rise = upper[t] + lower[t] - cost[t] - cost[t + 1]
        if rise <= 0 or np.random.random() < math.exp(-rise / (hot * math.exp(cooling * step / steps))):
            if not here:
                swap(view, t)
            upper[t], cost[t] = cost[t], upper[t]
            lower[t], cost[t + 1] = cost[t + 1], lower[t]
            if t > 0:
                known[t - 1] = False
            known[t + 1] = False
            score += rise
            if score < best - 1e-9:
                best = score
                best_order[:] = view.order
            swaps += 1
            if swaps % REFRESH == 0:
                look(view, pooled, view.order.copy())
        elif here:
            swap(view, t)
    return best, best_order


@compiled
def insert(
    first: FloatArray, pooled: FloatArray, rules: Rules, order: IntArray, sweeps: int, seed: int, full: bool
) -> tuple[float, IntArray]:
    """Move one variable at a time to its best place until no move helps."""
    p = len(order)
    np.random.seed(seed)
    view, work = new_view(first), new_work(p, EXHAUSTIVE)
    look(view, pooled, order)
    cost = np.empty(p)
    for t in range(p):
        cost[t] = node_cost(view, work, rules, t, full)
    for _ in range(sweeps):
        moved = False
        for v in np.random.permutation(p):
            start = 0
            while view.order[start] != v:
                start += 1
            least, target = -1e-7, start
            rise, own, at = 0.0, cost[start], start
            while at < p - 1 and not rules.before[v, view.order[at + 1]]:
                swap(view, at)
                other = node_cost(view, work, rules, at, full)
                after = node_cost(view, work, rules, at + 1, full)
                rise += other + after - own - cost[at + 1]
                own = after
                at += 1
                if rise < least:
                    least, target = rise, at
            move(view, at, start)
            rise, own, at = 0.0, cost[start], start
            while at > 0 and not rules.before[view.order[at - 1], v]:
                swap(view, at - 1)
                other = node_cost(view, work, rules, at, full)
                after = node_cost(view, work, rules, at - 1, full)
                rise += other + after - own - cost[at - 1]
                own = after
                at -= 1
                if rise < least:
                    least, target = rise, at
            move(view, at, target)
            if target != start:
                moved = True
                for t in range(min(start, target), max(start, target) + 1):
                    cost[t] = node_cost(view, work, rules, t, full)
        look(view, pooled, view.order.copy())
        if not moved:
            break
    return cost.sum(), view.order.copy()


@compiled
def evaluate(
    first: FloatArray, pooled: FloatArray, rules: Rules, order: IntArray, full: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Costs by variable; changed coefficients as a matrix [effect, cause]; whose variances differ."""
    p = len(order)
    view, work = new_view(first), new_work(p, EXHAUSTIVE)
    look(view, pooled, order)
    cost, changed, variance = np.empty(p), np.zeros((p, p)), np.zeros(p)
    for t in range(p):
        i = order[t]
        cost[i], m, separate = full_cost(view, work, rules, t) if full else quick_cost(view, work, rules, t)
        variance[i] = 1.0 if separate else 0.0
        for u in range(m):
            changed[i, work.chosen[u]] = 1.0
    return cost, changed, variance
