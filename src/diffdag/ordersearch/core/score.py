"""What it costs to place a variable behind its predecessors.

The variable is regressed on all its predecessors in both conditions at once, with shared coefficients except
on a change set C, and a shared noise variance unless it pays to let it differ:

    cost = min over C of [ -loglik + penalty |C| (+ a penalty if the variances differ) ]

Up to a constant ``-loglik`` is ``N/2 log(rss / N)`` with one variance, ``n1/2 log(rss1 / n1) + n2/2 log(rss2
/ n2)`` with two. What changes gain over no change at all counts by the share of the N rows that the
coefficients leave free, so that few rows do not favour orders that put changed variables last; the rest of
the score is the pooled likelihood, which is the same for all orders and left out here: a cost is what changes
cost minus what they gain, 0 where nothing changed. `quick_cost` chooses C as if the variances were equal and
then asks whether two fit better. `full_cost` also looks at all sets C where the predecessors are few and, with
two variances, weights the conditions by them: each round minimises a bound that touches the cost at the last
solution. Nearly always nothing has to change; that is seen at a glance, `nothing_pays`, by comparing two rows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffdag._base.arrays import FloatArray
from diffdag.ordersearch.core.compiled import ZERO, inner, spliced, whole
from diffdag.ordersearch.core.state import (
    CHOSEN,
    CROSS,
    FACTOR,
    INNER,
    KEPT,
    ORDER,
    OWN,
    PLACE,
    ROOT,
    TRIANGLE,
    VECTORS,
    WIDTHS,
    Workspace,
    rotation,
)
from diffdag.ordersearch.core.subset import (
    EFFECT,
    FLOOR,
    GAIN,
    SHIFT,
    SOLVED,
    WIDTH,
    Task,
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
# Rows of `Rules.limits`: the share of rss that a change has to remove; between which shares of the residual
# in the first condition one variance does for both, and between which two are not worth a close look.
PAYS, LOW, HIGH, CLOSE_LOW, CLOSE_HIGH = map(whole, range(5))


class Rules(NamedTuple):
    """What the score is made of: rows, tables by number of predecessors, and what is known beforehand."""

    n1: float
    n2: float
    table: FloatArray
    limits: FloatArray
    equal: bool
    before: NDArray[np.bool_]  # before[a, b]: a has to precede b


def make_rules(n1: float, n2: float, table: FloatArray, equal: bool, before: NDArray[np.bool_]) -> Rules:
    """The rules with the limits that follow from a table of penalties."""
    n1, n2 = float(n1), float(n2)
    pays = -np.expm1(-2 * table[CHANGE] / table[FREE])
    if equal:
        low, high = np.full((2, 2, len(pays)), [[[-1.0]], [[2.0]]])
    else:
        gain = table[VARIANCE] / table[FREE] * (n1 + n2)
        low, high = _variance_limits(n1, n2, np.array([gain, SUSPECT * gain]))
        small = min(n1, n2) <= SMALL_TABLE * table[CHANGE]
        low[1, small], high[1, small] = 1.0, 0.0
    limits = np.array([pays, low[0], high[0], low[1], high[1]])
    return Rules(n1, n2, table, limits, equal, before)


def _variance_limits(n1: float, n2: float, gain: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Between which shares of the residual in the first condition two variances gain less, by bisection."""
    middle = n1 / (n1 + n2)
    ends = []
    for end in (0.0, 1.0):
        outside, inside = np.full(gain.shape, end), np.full(gain.shape, middle)
        for _ in range(50):
            half = (outside + inside) / 2
            less = n1 / 2 * np.log(middle / half) + n2 / 2 * np.log((1 - middle) / (1 - half)) < gain
            inside, outside = np.where(less, half, inside), np.where(less, outside, half)
        ends.append(inside)
    return ends[0], ends[1]


@inner
def nothing_pays(space: Workspace, rules: Rules, t: int, low: int) -> bool:
    """Whether nothing has to change at position t: no coefficient by itself, nor the variance."""
    if not rules.limits[low, t] < space.real[INNER, t, t] < rules.limits[low + 1, t]:
        return False
    place, cross, widths = space.whole[PLACE], space.real[CROSS], space.real[WIDTHS]
    pays, count = rules.limits[PAYS, t], 0
    for k in range(cross.shape[1]):
        count += (place[k] < t) & (cross[t, k] * cross[t, k] > pays * widths[t, k])
    return count == 0


@inner
def nothing_pays_after_swap(space: Workspace, rules: Rules, t: int) -> bool:
    """Whether nothing would have to change at positions t and t + 1 if they were exchanged."""
    c, s, k11, _, k22 = rotation(space, t)
    limits = rules.limits
    if not (limits[LOW, t] < k11 < limits[HIGH, t] and limits[LOW, t + 1] < k22 < limits[HIGH, t + 1]):
        return False
    place, cross, widths = space.whole[PLACE], space.real[CROSS], space.real[WIDTHS]
    upper, lower, last, count = limits[PAYS, t], limits[PAYS, t + 1], space.whole[ORDER, t + 1], 0
    for k in range(cross.shape[1]):
        x, y, width = cross[t, k], cross[t + 1, k], widths[t, k]
        new, old = c * x + s * y, s * x - c * y
        after = old * old > lower * (width - new * new)
        count += ((place[k] < t) & ((new * new > upper * width) | after)) | ((k == last) & after)
    return count == 0


@inner
def quick_cost(space: Workspace, rules: Rules, t: int) -> tuple[float, int, bool]:
    """Cost of the variable at position t, number of changes (in ``CHOSEN``), whether variances differ."""
    if nothing_pays(space, rules, t, LOW):
        return 0.0, ZERO, False
    penalty = rules.table[CHANGE, t]
    rss, m = _shared_fit(space, rules, t, ZERO)
    one = _cost_of_one(space, rules, rss, t) + penalty * m
    if rules.equal:
        return one, m, False
    two = _cost_of_two(space, rules, _shared_residuals(space, t, m), t) + penalty * m + rules.table[VARIANCE, t]
    return min(one, two), m, two < one


@inner
def full_cost(space: Workspace, rules: Rules, t: int) -> tuple[float, int, bool]:
    """What `quick_cost` returns, with a closer look at change sets and variances."""
    penalty, extra = rules.table[CHANGE, t], rules.table[VARIANCE, t]
    if nothing_pays(space, rules, t, CLOSE_LOW) and not _jointly(space, rules, t):
        return 0.0, ZERO, False
    rss, m = _shared_fit(space, rules, t, EXHAUSTIVE)
    best, size, separate = _cost_of_one(space, rules, rss, t) + penalty * m, m, False
    if rules.equal:
        return best, size, separate
    both = _shared_residuals(space, t, m)
    if _cost_of_two(space, rules, both, t) + penalty * m > best - SUSPECT * extra:
        # In a small table a large change can pass for noise: then the bound by separate regressions decides.
        if min(rules.n1, rules.n2) > SMALL_TABLE * penalty:
            return best, size, separate
        both = _free_residuals(space, t)
        if _cost_of_two(space, rules, both, t) + extra > best:
            return best, size, separate
    chosen, kept = space.whole[CHOSEN], space.whole[KEPT]
    kept[:m] = chosen[:m]
    for start in range(2):
        if start == 1:
            both = _free_residuals(space, t)
        before = math.inf
        for _ in range(ROUNDS):
            m = _weighted_fit(space, rules, rules.n1 / both[0], rules.n2 / both[1], t)
            both = _residuals(space, t, m)
            cost = _cost_of_two(space, rules, both, t) + penalty * m + extra
            if cost < best:
                best, size, separate = cost, m, True
                kept[:m] = chosen[:m]
            if cost > before - NEGLIGIBLE:
                break
            before = cost
    chosen[:size] = kept[:size]
    return best, size, separate


@spliced
def _jointly(space: Workspace, rules: Rules, t: int) -> bool:
    """Whether two changes may pay that do not pay one by one; looked at where all change sets are."""
    if not 2 <= t <= EXHAUSTIVE:
        return False
    first, second = _free_residuals(space, t)
    return bool(_cost_of_one(space, rules, first + second, t) + 2 * rules.table[CHANGE, t] < 0)


@spliced
def _cost_of_one(space: Workspace, rules: Rules, rss: float, t: int) -> float:
    """What is gained if changes leave rss, with one variance."""
    r = space.real[ROOT, t, space.whole[ORDER, t]]
    return float(0.5 * rules.table[FREE, t] * math.log(rss / (r * r)))


@spliced
def _cost_of_two(space: Workspace, rules: Rules, both: tuple[float, float], t: int) -> float:
    """What is gained if changes leave this much in each condition, with two variances."""
    r, rows = space.real[ROOT, t, space.whole[ORDER, t]], rules.n1 + rules.n2
    one, two = rows * both[0] / (r * r * rules.n1), rows * both[1] / (r * r * rules.n2)
    share = rules.table[FREE, t] / rows
    return float(0.5 * share * (rules.n1 * math.log(one) + rules.n2 * math.log(two)))


@spliced
def _shared_fit(space: Workspace, rules: Rules, t: int, exhaustive: int) -> tuple[float, int]:
    """Residual sum of squares and number of changes with one variance; see `state` for the formulas."""
    cross, widths, vectors = space.real[CROSS], space.real[WIDTHS], space.real[VECTORS]
    r = space.real[ROOT, t, space.whole[ORDER, t]]
    for k in range(cross.shape[1]):
        vectors[GAIN, k] = r * cross[t, k]
        vectors[WIDTH, k] = widths[t, k]
    task = Task(1.0, CROSS, rules.table[FREE, t], rules.table[CHANGE, t], rules.limits[PAYS, t], 0.0)
    return _select(space, task, t, r * r, exhaustive)


@spliced
def _select(space: Workspace, task: Task, t: int, rss: float, exhaustive: int) -> tuple[float, int]:
    left, m = forward_backward(space, task, t, rss)
    if 2 <= t <= exhaustive:
        return best_subset(space, task, t, rss, left, m)
    return left, m


@spliced
def _shared_residuals(space: Workspace, t: int, m: int) -> tuple[float, float]:
    """Residual sums of squares in each condition after `_shared_fit`."""
    cross, vectors, chosen = space.real[CROSS], space.real[VECTORS], space.whole[CHOSEN]
    for s in range(t):
        value = 0.0
        for u in range(m):
            value -= vectors[EFFECT, u] * cross[s, chosen[u]]
        vectors[SHIFT, s] = value
    return _residuals(space, t, m)


@inner
def _residuals(space: Workspace, t: int, m: int) -> tuple[float, float]:
    """Squared lengths of ``r q_t - sum b_s q_s - sum c_j X_j`` in the first condition, without c in the second.

    b is ``SHIFT`` and c ``EFFECT``; ``K`` and ``I - K`` are the inner products of q in the two conditions.
    """
    own, cross, inner = space.real[OWN], space.real[CROSS], space.real[INNER]
    b, c, chosen = space.real[VECTORS, SHIFT], space.real[VECTORS, EFFECT], space.whole[CHOSEN]
    r = space.real[ROOT, t, space.whole[ORDER, t]]
    first, second = r * r * inner[t, t], r * r * (1.0 - inner[t, t])
    for s in range(t):
        if b[s] != 0.0:
            along = b[s] * inner[s, s] - 2 * r * inner[t, s]
            for u in range(s):
                along += 2 * b[u] * inner[s, u]
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


@spliced
def _free_residuals(space: Workspace, t: int) -> tuple[float, float]:
    """Residual sums of squares when every coefficient differs: two separate regressions."""
    r, k = space.real[ROOT, t, space.whole[ORDER, t]], space.real[INNER, t, t]
    first = max(k - _explained(space, 1.0, 0.0, t), FLOOR)
    second = max(1.0 - k - _explained(space, 0.0, 1.0, t), FLOOR)
    return r * r * first, r * r * second


@inner
def _explained(space: Workspace, u1: float, u2: float, t: int) -> float:
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


@spliced
def _weighted_fit(space: Workspace, rules: Rules, u1: float, u2: float, t: int) -> int:
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
    penalty = rules.table[CHANGE, t] * (rules.n1 + rules.n2) / rules.table[FREE, t]
    m = _select(space, Task(u1, FACTOR, 0.0, penalty, 0.0, 2 * penalty), t, rss, EXHAUSTIVE)[1]
    for s in range(t - 1, -1, -1):
        value = r * vectors[SOLVED, s]
        for u in range(m):
            value -= vectors[EFFECT, u] * factor[s, chosen[u]]
        for v in range(s + 1, t):
            value -= lower[v, s] * vectors[SHIFT, v]
        vectors[SHIFT, s] = value / lower[s, s]
    return m
