"""What it costs to place a variable behind its predecessors (METHOD 3d).

The variable is regressed on all its predecessors in both conditions at once, with shared coefficients except on
a change set C, and a shared noise variance unless it pays to let it differ:

    cost = min over C of [ -loglik + penalty |C| (+ a penalty if the variances differ) ]

Up to a constant ``-loglik`` is ``N/2 log(rss / N)`` with one variance, ``n1/2 log(rss1 / n1) + n2/2 log(rss2 / n2)``
with two. `quick_cost` chooses C as if the variances were equal and then asks whether two fit better: O(k) where
nothing changed. `full_cost` also looks at all sets C where the predecessors are few and, with two variances,
weights the conditions by them: each round minimises a bound that touches the cost at the last solution.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffdag.ordersearch.compiled import compiled
from diffdag.ordersearch.state import FloatArray, View
from diffdag.ordersearch.subset import Work, best_subset, forward_backward, include_all

# Up to so many predecessors all change sets are looked at.
EXHAUSTIVE = 12
ROUNDS = 20
# Only if two variances gain this share of their penalty at the solution for one are they looked at closely.
SUSPECT = 0.25
# Differences of costs up to this are not worth another round.
NEGLIGIBLE = 1e-3


class Rules(NamedTuple):
    """What the score is made of: rows, penalties by number of predecessors, and what is known beforehand."""

    n1: float
    n2: float
    change: FloatArray
    variance: FloatArray
    equal: bool
    before: NDArray[np.bool_]  # before[a, b]: a has to precede b


@compiled
def quick_cost(view: View, work: Work, rules: Rules, t: int) -> tuple[float, int, bool]:
    """Cost of the variable at position t, number of changes (in ``work.chosen``), whether variances differ."""
    rss, m = _shared_fit(view, work, rules, t, False)
    one = _cost_of_one(rss, rules) + rules.change[t] * m
    if rules.equal:
        return one, m, False
    rss1, rss2 = _shared_residuals(view, work, t, m)
    two = _cost_of_two(rss1, rss2, rules) + rules.change[t] * m + rules.variance[t]
    return (two, m, True) if two < one else (one, m, False)


@compiled
def full_cost(view: View, work: Work, rules: Rules, t: int) -> tuple[float, int, bool]:
    """The same, not taking short cuts."""
    rss, m = _shared_fit(view, work, rules, t, True)
    one = _cost_of_one(rss, rules) + rules.change[t] * m
    if rules.equal:
        return one, m, False
    rss1, rss2 = _shared_residuals(view, work, t, m)
    two = _cost_of_two(rss1, rss2, rules) + rules.change[t] * m
    if two > one - SUSPECT * rules.variance[t]:
        return one, m, False
    best, m_best, separate = one, m, False
    work.kept[:m] = work.chosen[:m]
    for start in range(2):
        if start == 1:
            rss1, rss2 = _free_residuals(view, work, t)
        before = math.inf
        for _ in range(ROUNDS):
            m = _weighted_fit(view, work, rules.n1 / rss1, rules.n2 / rss2, rules.change[t], t)
            rss1, rss2 = _residuals(view, work, t, m)
            cost = _cost_of_two(rss1, rss2, rules) + rules.change[t] * m + rules.variance[t]
            if cost < best:
                best, m_best, separate = cost, m, True
                work.kept[:m] = work.chosen[:m]
            if cost > before - NEGLIGIBLE:
                break
            before = cost
    work.chosen[:m_best] = work.kept[:m_best]
    return best, m_best, separate


@compiled
def _cost_of_one(rss: float, rules: Rules) -> float:
    rows = rules.n1 + rules.n2
    return 0.5 * rows * math.log(rss / rows)


@compiled
def _cost_of_two(rss1: float, rss2: float, rules: Rules) -> float:
    return 0.5 * rules.n1 * math.log(rss1 / rules.n1) + 0.5 * rules.n2 * math.log(rss2 / rules.n2)


@compiled
def _shared_fit(view: View, work: Work, rules: Rules, t: int, full: bool) -> tuple[float, int]:
    """Residual sum of squares and number of changes with one variance; see `state` for the formulas."""
    order, own, cross = view.order, view.own, view.cross
    r = view.root[t, order[t]]
    for k in range(len(order)):
        work.g[k] = r * cross[t, k]
        work.w[k] = own[k, k] - view.spent[t, k]
    rows, penalty = rules.n1 + rules.n2, rules.change[t]
    rss, m = forward_backward(work, own, 1.0, cross, order, t, r * r, rows, penalty)
    if full and 2 <= t <= EXHAUSTIVE:
        rss, m = best_subset(work, own, 1.0, cross, order, t, r * r, rows, penalty, rss, m)
        include_all(work, own, 1.0, cross, order, t, m)
    return rss, m


@compiled
def _shared_residuals(view: View, work: Work, t: int, m: int) -> tuple[float, float]:
    """Residual sums of squares in each condition after `_shared_fit`."""
    _effects(work, m)
    for s in range(t):
        work.shift[s] = 0.0
        for u in range(m):
            work.shift[s] -= work.effect[u] * view.cross[s, work.chosen[u]]
    return _residuals(view, work, t, m)


@compiled
def _effects(work: Work, m: int) -> None:
    """Coefficients of the change set, by back substitution in the basis."""
    for u in range(m - 1, -1, -1):
        value = work.along[u]
        for v in range(u + 1, m):
            value -= work.basis[u, work.chosen[v]] * work.effect[v]
        work.effect[u] = value / work.basis[u, work.chosen[u]]


@compiled
def _residuals(view: View, work: Work, t: int, m: int) -> tuple[float, float]:
    """Squared lengths of ``r q_t - sum_s b_s q_s - sum_j c_j X_j`` in the first and of the same without c in the second.

    b is ``work.shift`` and c ``work.effect``; ``K`` and ``I - K`` are the inner products of q in the conditions.
    """
    order, cross, inner = view.order, view.cross, view.inner
    r, b = view.root[t, order[t]], work.shift
    first, second = r * r * inner[t, t], r * r * (1.0 - inner[t, t])
    if m > 0 or t > 0:
        for s in range(t):
            if b[s] != 0.0:
                along = -2 * r * inner[s, t]
                for u in range(t):
                    along += b[u] * inner[s, u]
                first += b[s] * along
                second += b[s] * (b[s] - along)
        for u in range(m):
            j, c = work.chosen[u], work.effect[u]
            along = -2 * r * cross[t, j]
            for s in range(t):
                along += 2 * b[s] * cross[s, j]
            for v in range(m):
                along += work.effect[v] * view.own[j, work.chosen[v]]
            first += c * along
    least = 1e-12 * r * r
    return max(first, least), max(second, least)


@compiled
def _free_residuals(view: View, work: Work, t: int) -> tuple[float, float]:
    """Residual sums of squares when every coefficient differs: two separate regressions."""
    inner = view.inner
    r = view.root[t, view.order[t]]
    least = 1e-12 * r * r
    for s in range(t):
        work.shift[s] = inner[s, t]
    _factorise(view, work, 1.0, 0.0, t)
    _solve_lower(work, t)
    explained1 = 0.0
    for s in range(t):
        explained1 += work.solved[s] ** 2
    _factorise(view, work, 0.0, 1.0, t)
    _solve_lower(work, t)
    explained2 = 0.0
    for s in range(t):
        explained2 += work.solved[s] ** 2
    return (
        max(r * r * (inner[t, t] - explained1), least),
        max(r * r * (1.0 - inner[t, t] - explained2), least),
    )


@compiled
def _factorise(view: View, work: Work, first: float, second: float, t: int) -> None:
    """Cholesky factor of ``first K + second (I - K)`` over the predecessors."""
    inner, lower = view.inner, work.triangle
    for s in range(t):
        for u in range(s + 1):
            value = (first - second) * inner[s, u]
            if s == u:
                value += second
                floor = 1e-13 * value
            for v in range(u):
                value -= lower[s, v] * lower[u, v]
            lower[s, u] = math.sqrt(max(value, floor)) if s == u else value / lower[u, u]


@compiled
def _solve_lower(work: Work, t: int) -> None:
    """``work.solved`` is the factor's inverse times ``work.shift``."""
    for s in range(t):
        value = work.shift[s]
        for u in range(s):
            value -= work.triangle[s, u] * work.solved[u]
        work.solved[s] = value / work.triangle[s, s]


@compiled
def _weighted_fit(view: View, work: Work, u1: float, u2: float, penalty: float, t: int) -> int:
    """Best change set when the conditions have weights u1, u2 (inverse variances); sets effects and shift."""
    order, own, cross, inner = view.order, view.own, view.cross, view.inner
    factor, lower, p = work.factor, work.triangle, len(order)
    r = view.root[t, order[t]]
    _factorise(view, work, u1, u2, t)
    for s in range(t):
        work.shift[s] = (u1 - u2) * r * inner[s, t]
    _solve_lower(work, t)
    rss = r * r * (u1 * inner[t, t] + u2 * (1.0 - inner[t, t]))
    for s in range(t):
        rss -= work.solved[s] ** 2
        row = factor[s]
        for k in range(p):
            row[k] = u1 * cross[s, k]
        for u in range(s):
            f = lower[s, u]
            for k in range(p):
                row[k] -= f * factor[u, k]
        for k in range(p):
            row[k] /= lower[s, s]
    for k in range(p):
        work.g[k], work.w[k] = u1 * r * cross[t, k], u1 * own[k, k]
    for s in range(t):
        for k in range(p):
            work.g[k] -= factor[s, k] * work.solved[s]
            work.w[k] -= factor[s, k] ** 2
    rest, m = forward_backward(work, own, u1, factor, order, t, rss, 0.0, penalty)
    if 2 <= t <= EXHAUSTIVE:
        rest, m = best_subset(work, own, u1, factor, order, t, rss, 0.0, penalty, rest, m)
        include_all(work, own, u1, factor, order, t, m)
    _effects(work, m)
    for s in range(t - 1, -1, -1):
        value = work.solved[s]
        for u in range(m):
            value -= work.effect[u] * factor[s, work.chosen[u]]
        for v in range(s + 1, t):
            value -= lower[v, s] * work.shift[v]
        work.shift[s] = value / lower[s, s]
    return m
