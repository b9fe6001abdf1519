"""Which coefficients have to differ: the best set of changes for one variable given its predecessors.

Given are the candidates' inner products ``W`` (outside the shared regressors), their inner products ``g`` with
the residual, and the residual's squared length ``rss``. A change set C leaves ``rss - g_C' W_CC^-1 g_C`` and
costs

    fit(what is left) + penalty |C|,    fit(x) = free/2 log x  (one unknown variance)  or  x / 2  (known ones).

`forward_backward` adds the best candidate while that pays and drops what no longer pays; `best_subset` looks at
all sets. The first needs the diagonal of W and the columns of what it chooses, no more:
``W[:, l] = scale A1[:, l] - sum over s < t of G[s, :] G[s, l]``, with G one of the matrices in `Space`.
"""

from __future__ import annotations

import math

from diffdag.ordersearch.compiled import NONE, ZERO, inner
from diffdag.ordersearch.state import BASIS, CHOSEN, INVERSE, ORDER, OWN, TRAIL, VECTORS, Space

# Vectors: g and the diagonal of W; the same outside what is chosen; the residual along each basis vector;
# coefficients of the change set; and, for `score`, shared coefficients and a solution in progress.
GAIN, WIDTH, GAIN_LEFT, WIDTH_LEFT, ALONG, EFFECT, SHIFT, SOLVED = range(8)
# A candidate whose part outside the others is smaller than this share of it is collinear with them.
COLLINEAR = 1e-9
# No fit is better than this.
FLOOR = 1e-12


@inner
def fit_cost(rss: float, rows: float) -> float:
    """``N/2 log(rss)``; or ``rss / 2`` where rows is 0, for known variances."""
    return 0.5 * rows * math.log(rss) if rows > 0 else 0.5 * rss


@inner
def include(space: Space, scale: float, which: int, t: int, m: int, best: int) -> float:
    """Make variable `best` the m-th chosen one; return by how much that lowers rss."""
    own, factor, basis, vectors = space.real[OWN], space.real[which], space.real[BASIS], space.real[VECTORS]
    p = basis.shape[1]
    for k in range(p):
        basis[m, k] = scale * own[best, k]
    for s in range(t):
        f = factor[s, best]
        for k in range(p):
            basis[m, k] -= f * factor[s, k]
    for u in range(m):
        f = basis[u, best]
        for k in range(p):
            basis[m, k] -= f * basis[u, k]
    length = 1.0 / math.sqrt(vectors[WIDTH_LEFT, best])
    a = float(vectors[GAIN_LEFT, best] * length)
    for k in range(p):
        v = basis[m, k] * length
        basis[m, k] = v
        vectors[GAIN_LEFT, k] -= a * v
        vectors[WIDTH_LEFT, k] -= v * v
    vectors[GAIN_LEFT, best] = 0.0
    vectors[WIDTH_LEFT, best] = 0.0
    vectors[ALONG, m] = a
    space.whole[CHOSEN, m] = best
    return a * a


@inner
def include_all(space: Space, scale: float, which: int, t: int, m: int) -> float:
    """Bring the basis in line with the first m of the change set; return by how much they lower rss."""
    vectors = space.real[VECTORS]
    for k in range(vectors.shape[1]):
        vectors[GAIN_LEFT, k] = vectors[GAIN, k]
        vectors[WIDTH_LEFT, k] = vectors[WIDTH, k]
    lowers = 0.0
    for u in range(m):
        lowers += include(space, scale, which, t, u, space.whole[CHOSEN, u])
    return lowers


@inner
def weakest(space: Space, m: int) -> tuple[int, float]:
    """Which member of the change set adds least, and by how much rss would rise without it.

    With T the triangle of the basis at the change set, the coefficients are ``T^-1 along``, and leaving out the
    k-th costs its square over the squared length of the k-th row of ``T^-1``.
    """
    basis, inverse, along = space.real[BASIS], space.real[INVERSE], space.real[VECTORS, ALONG]
    chosen = space.whole[CHOSEN]
    worst, least = -1, math.inf
    for row in range(m):
        value, norm = 0.0, 0.0
        for col in range(row, m):
            x = 1.0 if col == row else 0.0
            for u in range(row, col):
                x -= inverse[row, u] * basis[u, chosen[col]]
            x /= basis[col, chosen[col]]
            inverse[row, col] = x
            value += x * along[col]
            norm += x * x
        rise = value * value / norm
        if rise < least:
            worst, least = row, rise
    return worst, least


@inner
def forward_backward(
    space: Space, scale: float, which: int, t: int, rss: float, rows: float, penalty: float
) -> tuple[float, int]:
    """What rss falls to and the number of changes, which are the first in ``CHOSEN``."""
    order, vectors, chosen = space.whole[ORDER], space.real[VECTORS], space.whole[CHOSEN]
    include_all(space, scale, which, t, ZERO)
    m, now = ZERO, rss
    for _ in range(4 * t + 4):  # every step lowers the cost; the bound is for rounding errors
        best, most = NONE, 0.0
        for s in range(t):
            k = order[s]
            if vectors[WIDTH_LEFT, k] > COLLINEAR * vectors[WIDTH, k]:
                lowers = vectors[GAIN_LEFT, k] * vectors[GAIN_LEFT, k] / vectors[WIDTH_LEFT, k]
                if lowers > most:
                    best, most = k, lowers
        grows = best >= 0 and fit_cost(now, rows) - fit_cost(max(now - most, FLOOR * rss), rows) > penalty
        if grows:
            now = max(now - include(space, scale, which, t, m, best), FLOOR * rss)
            m += 1
        shrinks = False
        if m > 1:
            worst, rise = weakest(space, m)
            shrinks = fit_cost(now + rise, rows) - fit_cost(now, rows) < penalty
            if shrinks:
                m -= 1
                for u in range(worst, m):
                    chosen[u] = chosen[u + 1]
                now = max(rss - include_all(space, scale, which, t, m), FLOOR * rss)
        if not grows and not shrinks:
            break
    return now, m


@inner
def best_subset(
    space: Space,
    scale: float,
    which: int,
    t: int,
    rss: float,
    rows: float,
    penalty: float,
    known: float,
    size: int,
) -> tuple[float, int]:
    """The same for the best of all sets, given the answer of `forward_backward`: `size` changes leave `known`.

    Sets are visited depth first; each step eliminates one candidate from the rest (Furnival and Wilson 1974).
    """
    stack, trail, order, chosen = space.stack, space.whole[TRAIL], space.whole[ORDER], space.whole[CHOSEN]
    own, factor, vectors = space.real[OWN], space.real[which], space.real[VECTORS]
    for k in range(t):
        for n in range(k + 1):
            value = scale * own[order[k], order[n]]
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
    include_all(space, scale, which, t, best_size)
    return reached, best_size


@inner
def _left_by_all(space: Space, t: int, rss: float) -> float:
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
