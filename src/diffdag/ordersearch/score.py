"""What it costs to place a variable behind its predecessors.

The variable is regressed on all its predecessors in both conditions at once, with shared coefficients except
on a change set C, and a shared noise variance unless it pays to let it differ:

    cost = min over C of [ -loglik + penalty |C| (+ a penalty if the variances differ) ]

Up to a constant ``-loglik`` is ``N/2 log(rss / N)`` with one variance, ``n1/2 log(rss1 / n1) + n2/2 log(rss2
/ n2)`` with two. What changes gain over no change at all counts by the share of the N rows that the
coefficients leave free, so that few rows do not favour orders that put changed variables last; the rest of
the score is the pooled likelihood, which is the same for all orders. `quick_cost` chooses C as if the
variances were equal and then asks whether two fit better: O(k) where nothing changed. `full_cost` also looks
at all sets C where the predecessors are few and, with two variances, weights the conditions by them: each
round minimises a bound that touches the cost at the last solution.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffdag.ordersearch.compiled import ZERO, inner, whole
from diffdag.ordersearch.state import (
    BASIS,
    CHOSEN,
    CROSS,
    FACTOR,
    INNER,
    KEPT,
    ORDER,
    OWN,
    ROOT,
    SPENT,
    TRIANGLE,
    VECTORS,
    FloatArray,
    Space,
)
from diffdag.ordersearch.subset import (
    ALONG,
    EFFECT,
    FLOOR,
    GAIN,
    SHIFT,
    SOLVED,
    WIDTH,
    best_subset,
    forward_backward,
)

# Up to so many predecessors all change sets are looked at.
EXHAUSTIVE = whole(12)
ROUNDS = 20
# Only if two variances gain this share of their penalty at the solution for one are they looked at closely.
SUSPECT = 0.25
# Rows, in penalties, below which that is not enough.
SMALL_TABLE = 5.0
# Differences of costs up to this are not worth another round.
NEGLIGIBLE = 1e-3
# Rows of `Rules.table`: penalty of a changed coefficient, of a changed variance, and free rows.
CHANGE, VARIANCE, FREE = 0, 1, 2


class Rules(NamedTuple):
    """What the score is made of: rows, a table by number of predecessors, and what is known beforehand."""

    n1: float
    n2: float
    table: FloatArray
    equal: bool
    before: NDArray[np.bool_]  # before[a, b]: a has to precede b


@inner
def quick_cost(space: Space, rules: Rules, t: int) -> tuple[float, int, bool]:
    """Cost of the variable at position t, number of changes (in ``CHOSEN``), whether variances differ."""
    penalty = rules.table[CHANGE, t]
    rss, m = _shared_fit(space, rules, t, ZERO)
    base, share = _base(space, rules, t)
    one = base + 0.5 * rules.table[FREE, t] * _log_fall(space, rss, t) + penalty * m
    if rules.equal:
        return one, m, False
    rss1, rss2 = _shared_residuals(space, t, m)
    two = base + share * (_cost_of_two(rss1, rss2, rules) - base) + penalty * m + rules.table[VARIANCE, t]
    return min(one, two), m, two < one


@inner
def full_cost(space: Space, rules: Rules, t: int) -> tuple[float, int, bool]:
    """The same, with a closer look."""
    penalty, extra = rules.table[CHANGE, t], rules.table[VARIANCE, t]
    rss, m = _shared_fit(space, rules, t, EXHAUSTIVE)
    base, share = _base(space, rules, t)
    best, size, separate = base + 0.5 * rules.table[FREE, t] * _log_fall(space, rss, t) + penalty * m, m, False
    if rules.equal:
        return best, size, separate
    rss1, rss2 = _shared_residuals(space, t, m)
    if base + share * (_cost_of_two(rss1, rss2, rules) - base) + penalty * m > best - SUSPECT * extra:
        # In a small table a large change can pass for noise: then the bound by separate regressions decides.
        if min(rules.n1, rules.n2) > SMALL_TABLE * penalty:
            return best, size, separate
        rss1, rss2 = _free_residuals(space, t)
        if base + share * (_cost_of_two(rss1, rss2, rules) - base) + extra > best:
            return best, size, separate
    chosen, kept = space.whole[CHOSEN], space.whole[KEPT]
    for u in range(m):
        kept[u] = chosen[u]
    for start in range(2):
        if start == 1:
            rss1, rss2 = _free_residuals(space, t)
        before = math.inf
        for _ in range(ROUNDS):
            m = _weighted_fit(space, rules.n1 / rss1, rules.n2 / rss2, penalty / share, t)
            rss1, rss2 = _residuals(space, t, m)
            cost = base + share * (_cost_of_two(rss1, rss2, rules) - base) + penalty * m + extra
            if cost < best:
                best, size, separate = cost, m, True
                for u in range(m):
                    kept[u] = chosen[u]
            if cost > before - NEGLIGIBLE:
                break
            before = cost
    for u in range(size):
        chosen[u] = kept[u]
    return best, size, separate


@inner
def _base(space: Space, rules: Rules, t: int) -> tuple[float, float]:
    """Cost if nothing changes, and the share of the rows that is free."""
    r, rows = space.real[ROOT, t, space.whole[ORDER, t]], rules.n1 + rules.n2
    return 0.5 * rows * math.log(r * r / rows), rules.table[FREE, t] / rows


@inner
def _log_fall(space: Space, rss: float, t: int) -> float:
    """How far rss is below its value without changes."""
    r = space.real[ROOT, t, space.whole[ORDER, t]]
    return math.log(rss / (r * r))


@inner
def _cost_of_two(rss1: float, rss2: float, rules: Rules) -> float:
    return 0.5 * rules.n1 * math.log(rss1 / rules.n1) + 0.5 * rules.n2 * math.log(rss2 / rules.n2)


@inner
def _shared_fit(space: Space, rules: Rules, t: int, exhaustive: int) -> tuple[float, int]:
    """Residual sum of squares and number of changes with one variance; see `state` for the formulas."""
    own, cross, spent, vectors = space.real[OWN], space.real[CROSS], space.real[SPENT], space.real[VECTORS]
    r = space.real[ROOT, t, space.whole[ORDER, t]]
    for k in range(own.shape[1]):
        vectors[GAIN, k] = r * cross[t, k]
        vectors[WIDTH, k] = own[k, k] - spent[t, k]
    free, penalty = rules.table[FREE, t], rules.table[CHANGE, t]
    return _select(space, 1.0, CROSS, t, r * r, free, penalty, exhaustive)


@inner
def _select(
    space: Space, scale: float, which: int, t: int, rss: float, rows: float, penalty: float, exhaustive: int
) -> tuple[float, int]:
    left, m = forward_backward(space, scale, which, t, rss, rows, penalty)
    if 2 <= t <= exhaustive:
        return best_subset(space, scale, which, t, rss, rows, penalty, left, m)
    return left, m


@inner
def _shared_residuals(space: Space, t: int, m: int) -> tuple[float, float]:
    """Residual sums of squares in each condition after `_shared_fit`."""
    cross, vectors, chosen = space.real[CROSS], space.real[VECTORS], space.whole[CHOSEN]
    _effects(space, m)
    for s in range(t):
        value = 0.0
        for u in range(m):
            value -= vectors[EFFECT, u] * cross[s, chosen[u]]
        vectors[SHIFT, s] = value
    return _residuals(space, t, m)


@inner
def _effects(space: Space, m: int) -> None:
    """Coefficients of the change set, by back substitution in the basis."""
    basis, vectors, chosen = space.real[BASIS], space.real[VECTORS], space.whole[CHOSEN]
    for u in range(m - 1, -1, -1):
        value = vectors[ALONG, u]
        for v in range(u + 1, m):
            value -= basis[u, chosen[v]] * vectors[EFFECT, v]
        vectors[EFFECT, u] = value / basis[u, chosen[u]]


@inner
def _residuals(space: Space, t: int, m: int) -> tuple[float, float]:
    """Squared lengths of ``r q_t - sum b_s q_s - sum c_j X_j`` in the first condition, without c in the second.

    b is ``SHIFT`` and c ``EFFECT``; ``K`` and ``I - K`` are the inner products of q in the two conditions.
    """
    own, cross, inner = space.real[OWN], space.real[CROSS], space.real[INNER]
    b, c, chosen = space.real[VECTORS, SHIFT], space.real[VECTORS, EFFECT], space.whole[CHOSEN]
    r = space.real[ROOT, t, space.whole[ORDER, t]]
    first, second = r * r * inner[t, t], r * r * (1.0 - inner[t, t])
    for s in range(t):
        if b[s] != 0.0:
            along = -2 * r * inner[t, s]
            for u in range(t):
                along += b[u] * inner[s, u]
            first += b[s] * along
            second += b[s] * (b[s] - along)
    for u in range(m):
        j = chosen[u]
        along = -2 * r * cross[t, j]
        for s in range(t):
            along += 2 * b[s] * cross[s, j]
        for v in range(m):
            along += c[v] * own[j, chosen[v]]
        first += c[u] * along
    return max(first, FLOOR * r * r), max(second, FLOOR * r * r)


@inner
def _free_residuals(space: Space, t: int) -> tuple[float, float]:
    """Residual sums of squares when every coefficient differs: two separate regressions."""
    r, k = space.real[ROOT, t, space.whole[ORDER, t]], space.real[INNER, t, t]
    first = max(k - _explained(space, 1.0, 0.0, t), FLOOR)
    second = max(1.0 - k - _explained(space, 0.0, 1.0, t), FLOOR)
    return r * r * first, r * r * second


@inner
def _explained(space: Space, u1: float, u2: float, t: int) -> float:
    """Factorise ``u1 K + u2 (I - K)`` over the predecessors (``TRIANGLE``), solve for ``(u1 - u2) K[:, t]``.

    The solution is ``SOLVED``; returned is its squared length.
    """
    inner, lower, solved = space.real[INNER], space.real[TRIANGLE], space.real[VECTORS, SOLVED]
    total = 0.0
    for s in range(t):
        for u in range(s + 1):
            value = (u1 - u2) * inner[s, u] + (u2 if s == u else 0.0)
            whole = value
            for v in range(u):
                value -= lower[s, v] * lower[u, v]
            lower[s, u] = math.sqrt(max(value, 1e-13 * whole)) if s == u else value / lower[u, u]
        value = (u1 - u2) * inner[t, s]
        for u in range(s):
            value -= lower[s, u] * solved[u]
        value /= lower[s, s]
        solved[s] = value
        total += value * value
    return total


@inner
def _weighted_fit(space: Space, u1: float, u2: float, penalty: float, t: int) -> int:
    """Best change set when the conditions have weights u1, u2 (inverse variances); sets effects and shift."""
    own, cross, factor, lower = space.real[OWN], space.real[CROSS], space.real[FACTOR], space.real[TRIANGLE]
    vectors, chosen = space.real[VECTORS], space.whole[CHOSEN]
    r, k_tt = space.real[ROOT, t, space.whole[ORDER, t]], space.real[INNER, t, t]
    p = own.shape[1]
    rss = r * r * (u1 * k_tt + u2 * (1.0 - k_tt) - _explained(space, u1, u2, t))
    for k in range(p):
        vectors[GAIN, k] = u1 * r * cross[t, k]
        vectors[WIDTH, k] = u1 * own[k, k]
    for s in range(t):
        for k in range(p):
            factor[s, k] = u1 * cross[s, k]
        for u in range(s):
            f = lower[s, u]
            for k in range(p):
                factor[s, k] -= f * factor[u, k]
        h = r * vectors[SOLVED, s]
        for k in range(p):
            x = factor[s, k] / lower[s, s]
            factor[s, k] = x
            vectors[GAIN, k] -= h * x
            vectors[WIDTH, k] -= x * x
    m = _select(space, u1, FACTOR, t, rss, 0.0, penalty, EXHAUSTIVE)[1]
    _effects(space, m)
    for s in range(t - 1, -1, -1):
        value = r * vectors[SOLVED, s]
        for u in range(m):
            value -= vectors[EFFECT, u] * factor[s, chosen[u]]
        for v in range(s + 1, t):
            value -= lower[v, s] * vectors[SHIFT, v]
        vectors[SHIFT, s] = value / lower[s, s]
    return m
