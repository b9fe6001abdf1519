"""Which coefficients have to differ: the best set of changes for one variable given its predecessors.

Given are the candidates' inner products ``W`` (outside the shared regressors), their inner products ``g`` with
the residual, and the residual's squared length ``rss``. A change set C leaves ``rss - g_C' W_CC^-1 g_C`` and
costs

    fit(what is left) + penalty |C|,    fit(x) = free/2 log x  (one unknown variance)  or  x / 2  (known ones).

`forward_backward` adds the best candidate while that pays and drops what no longer pays; `best_subset` looks at
all sets. The first needs the diagonal of W and the columns of what it chooses, no more:
``W[:, l] = scale A1[:, l] - sum over s < t of G[s, :] G[s, l]``, with G one of the matrices in `Workspace`.

A change pays if rss falls from x by more than ``(1 - exp(-2 penalty / free)) x``, or twice the penalty where
variances are known.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from diffdag.ordersearch.core.compiled import NONE, ZERO, inner, spliced
from diffdag.ordersearch.core.state import (
    BASIS,
    CHOSEN,
    INVERSE,
    ORDER,
    OWN,
    PLACE,
    TRAIL,
    VECTORS,
    Workspace,
    subtract,
)

# Vectors: g and the diagonal of W; the same outside what is chosen; the residual along each basis vector;
# coefficients of the change set and squared lengths of the rows of the triangle's inverse; room; and, for
# `score`, shared coefficients and a solution in progress.
GAIN, WIDTH, GAIN_LEFT, WIDTH_LEFT, ALONG, EFFECT, LENGTH, SHIFT, SOLVED = range(9)
# A candidate whose part outside the others is smaller than this share of it is collinear with them.
COLLINEAR = 1e-9
# No fit is better than this.
FLOOR = 1e-12


class Task(NamedTuple):
    """What `forward_backward` and `best_subset` are asked."""

    scale: float  # of A1 in W
    which: int  # the matrix G
    rows: float  # free rows; 0 where variances are known
    penalty: float
    share: float  # a change pays if it lowers rss by more than this share of it ...
    least: float  # ... plus this


@spliced
def fit_cost(rss: float, rows: float) -> float:
    """``N/2 log(rss)``; or ``rss / 2`` where rows is 0, for known variances."""
    return 0.5 * rows * math.log(rss) if rows > 0 else 0.5 * rss


@inner
def include(space: Workspace, task: Task, t: int, m: int, best: int) -> float:
    """Make variable `best` the m-th chosen one; return by how much that lowers rss."""
    own, factor, basis, vectors = (
        space.real[OWN],
        space.real[task.which],
        space.real[BASIS],
        space.real[VECTORS],
    )
    p = basis.shape[1]
    for k in range(p):
        basis[m, k] = task.scale * own[best, k]
    subtract(basis, m, factor, best, factor, t)
    subtract(basis, m, basis, best, basis, m)
    length = 1.0 / math.sqrt(vectors[WIDTH_LEFT, best])
    a = float(vectors[GAIN_LEFT, best] * length)
    for k in range(p):
        basis[m, k] *= length
    for k in range(p):
        vectors[GAIN_LEFT, k] -= a * basis[m, k]
        vectors[WIDTH_LEFT, k] -= basis[m, k] * basis[m, k]
    vectors[GAIN_LEFT, best] = 0.0
    vectors[WIDTH_LEFT, best] = 0.0
    vectors[ALONG, m] = a
    space.whole[CHOSEN, m] = best
    _invert(space, m)
    return a * a


@spliced
def _invert(space: Workspace, m: int) -> None:
    """Column m of the inverse of the basis' triangle T at the change set; coefficients are ``T^-1 along``."""
    basis, inverse, vectors, chosen = (
        space.real[BASIS],
        space.real[INVERSE],
        space.real[VECTORS],
        space.whole[CHOSEN],
    )
    best = chosen[m]
    vectors[EFFECT, m] = vectors[LENGTH, m] = 0.0
    for row in range(m + 1):
        x = 1.0 if row == m else 0.0
        for u in range(row, m):
            x -= inverse[row, u] * basis[u, best]
        x /= basis[m, best]
        inverse[row, m] = x
        vectors[EFFECT, row] += x * vectors[ALONG, m]
        vectors[LENGTH, row] += x * x


@inner
def include_all(space: Workspace, task: Task, t: int, m: int) -> float:
    """Bring the basis in line with the first m of the change set; return by how much they lower rss."""
    vectors = space.real[VECTORS]
    for k in range(vectors.shape[1]):
        vectors[GAIN_LEFT, k] = vectors[GAIN, k]
        vectors[WIDTH_LEFT, k] = vectors[WIDTH, k]
    lowers = 0.0
    for u in range(m):
        lowers += include(space, task, t, u, space.whole[CHOSEN, u])
    return lowers


@spliced
def weakest(space: Workspace, m: int) -> tuple[int, float]:
    """Which member of the change set adds least, and by how much rss would rise without it."""
    vectors = space.real[VECTORS]
    worst, least = -1, math.inf
    for row in range(m):
        rise = vectors[EFFECT, row] * vectors[EFFECT, row] / vectors[LENGTH, row]
        if rise < least:
            worst, least = row, rise
    return worst, least


@spliced
def _strongest(space: Workspace, t: int) -> tuple[int, float]:
    """Which candidate lowers rss most, and by how much."""
    place, vectors = space.whole[PLACE], space.real[VECTORS]
    best, most = NONE, 0.0
    for k in range(vectors.shape[1]):
        gain, width = vectors[GAIN_LEFT, k], vectors[WIDTH_LEFT, k]
        # Multiplied out: a division a candidate would take most of the time.
        if (place[k] < t) & (gain * gain > most * width) & (width > COLLINEAR * vectors[WIDTH, k]):
            best, most = k, gain * gain / width
    return best, most


@inner
def forward_backward(space: Workspace, task: Task, t: int, rss: float) -> tuple[float, int]:
    """What rss falls to and the number of changes, which are the first in ``CHOSEN``."""
    chosen = space.whole[CHOSEN]
    include_all(space, task, t, ZERO)
    m, now = ZERO, rss
    for _ in range(4 * t + 4):  # every step lowers the cost; the bound is for rounding errors
        best, most = _strongest(space, t)
        grows = best >= 0 and most > task.share * now + task.least
        if grows:
            now = max(now - include(space, task, t, m, best), FLOOR * rss)
            m += 1
        shrinks = False
        if m > 1:
            worst, rise = weakest(space, m)
            shrinks = rise < task.share * (now + rise) + task.least
            if shrinks:
                m -= 1
                for u in range(worst, m):
                    chosen[u] = chosen[u + 1]
                now = max(rss - include_all(space, task, t, m), FLOOR * rss)
        if not grows and not shrinks:
            break
    return now, m


@inner
def best_subset(space: Workspace, task: Task, t: int, rss: float, known: float, size: int) -> tuple[float, int]:
    """What the best of all sets leaves, and its size; `forward_backward` left `known` with `size` changes.

    Sets are visited depth first; each step eliminates one candidate from the rest (Furnival and Wilson 1974).
    """
    stack, trail, order, chosen = space.stack, space.whole[TRAIL], space.whole[ORDER], space.whole[CHOSEN]
    own, factor, vectors = space.real[OWN], space.real[task.which], space.real[VECTORS]
    rows, penalty = task.rows, task.penalty
    for k in range(t):
        for n in range(k + 1):
            value = task.scale * own[order[k], order[n]]
            for s in range(t):
                value -= factor[s, order[k]] * factor[s, order[n]]
            stack[0, k, n] = value
            stack[0, n, k] = value
        stack[0, k, t] = vectors[GAIN, order[k]]
        stack[0, t, k] = vectors[GAIN, order[k]]
    stack[0, t, t] = rss
    # What all changes together leave bounds what any set can leave.
    everything = fit_cost(max(_left_by_all(space, t, rss), FLOOR * rss), rows)
    best, best_size, reached = fit_cost(known, rows) + penalty * size, size, known
    depth = 0
    trail[1] = -1
    while depth >= 0:
        c = max(trail[depth + 1], trail[depth] if depth > 0 else -1) + 1
        if c >= t or everything + penalty * (depth + 1) >= best:
            depth -= 1
            continue
        trail[depth + 1] = c
        pivot = stack[depth, c, c]
        if pivot <= COLLINEAR * stack[0, c, c]:
            continue
        for k in range(c + 1, t + 1):
            f = stack[depth, k, c] / pivot
            for n in range(c + 1, t + 1):
                stack[depth + 1, k, n] = stack[depth, k, n] - f * stack[depth, c, n]
        left = max(stack[depth + 1, t, t], FLOOR * rss)
        cost = fit_cost(left, rows) + penalty * (depth + 1)
        if cost < best - 1e-12 * abs(best):
            best, best_size, reached = cost, depth + 1, left
            for u in range(best_size):
                chosen[u] = order[trail[u + 1]]
        if c + 1 < t:
            depth += 1
            trail[depth + 1] = -1
    include_all(space, task, t, best_size)
    return reached, best_size


@spliced
def _left_by_all(space: Workspace, t: int, rss: float) -> float:
    """What is left of rss when every coefficient differs; from the first matrix of the stack."""
    stack = space.stack
    for k in range(t + 1):
        for n in range(t + 1):
            stack[t, k, n] = stack[0, k, n]
    for c in range(t):
        pivot = stack[t, c, c]
        if pivot > COLLINEAR * stack[0, c, c]:
            for k in range(c + 1, t + 1):
                f = stack[t, k, c] / pivot
                for n in range(c + 1, t + 1):
                    stack[t, k, n] -= f * stack[t, c, n]
    return float(stack[t, t, t])
