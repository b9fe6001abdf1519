"""The best of all orders by dynamic programming over sets of predecessors (Silander and Myllymäki 2006).

A set of variables is a number whose bits say who is in it. There are ``p 2^(p-1)`` costs; the least score of an
order of the set ``S`` is ``F(S) = min over i in S of F(S - i) + cost(i | S - i)``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from diffdag._base.arrays import FloatArray, IntArray
from diffdag.ordersearch.core.compiled import ZERO, compiled
from diffdag.ordersearch.core.score import Rules, full_cost
from diffdag.ordersearch.core.state import CHOSEN, ORDER, Workspace, look, move

REFRESH = 1024


@compiled
def tabulate(space: Workspace, pooled: FloatArray, rules: Rules, costs: FloatArray, changes: IntArray) -> None:
    """Fill in the cost of every variable given every set of predecessors, and its change set, [set, variable].

    Bit p of a change set says that the variances differ. Sets are visited in the order of a Gray code: each
    differs from the last by one variable.
    """
    p = len(pooled)
    order = space.whole[ORDER]
    for t in range(p):
        order[t] = t
    look(space, pooled)
    members, t = ZERO, ZERO
    for count in range(1, (1 << p) + 1):
        for position in range(t, p):
            move(space, position, t)
            cost, m, separate = full_cost(space, rules, t)
            costs[members, order[t]] = cost
            changed = int(separate) << p
            for u in range(m):
                changed |= 1 << space.whole[CHOSEN, u]
            changes[members, order[t]] = changed
        changing = 0
        while not count >> changing & 1:
            changing += 1
        if changing == p:  # all sets have been visited
            break
        at = 0
        while order[at] != changing:
            at += 1
        if members >> changing & 1:
            t -= 1
        move(space, at, t)
        if not members >> changing & 1:
            t += 1
        members ^= 1 << changing
        if count % REFRESH == 0:
            look(space, pooled)


@compiled
def best_order(
    costs: FloatArray, before: NDArray[np.bool_], score: FloatArray, last: IntArray, order: IntArray
) -> float:
    """The least score of an order in which a precedes b wherever ``before[a, b]``.

    `order` becomes such an order; `score` and `last` are room for one number a set.
    """
    sets, p = costs.shape
    for members in range(sets):
        score[members] = np.inf
    score[0] = 0.0
    for members in range(sets):
        if score[members] == np.inf:
            continue
        for i in range(p):
            allowed = members >> i & 1 == 0
            for k in range(p):
                allowed = allowed and (members >> k & 1 == 1 or not before[k, i])
            if allowed:
                after = members | 1 << i
                value = score[members] + costs[members, i]
                if value < score[after]:
                    score[after] = value
                    last[after] = i
    members = sets - 1
    for position in range(p - 1, -1, -1):
        order[position] = last[members]
        members &= ~(1 << last[members])
    return float(score[sets - 1])
