"""Which coefficients have to differ: best subsets of changes for one variable given its predecessors.

Given are the candidates' inner products ``W`` (after the shared regressors), their inner products ``g`` with the
residual, and the residual's squared length ``rss``. A change set C leaves ``rss - g_C' W_CC^-1 g_C`` and costs

    fit(rss_C) + penalty |C|,        fit(x) = N/2 log x  (one variance),  or  x / 2  (known variances).

`forward_backward` adds the best candidate while that pays and drops what no longer pays; `best_subset` looks at
all sets. ``W`` is never formed for the first: ``W[:, l] = scale A1[:, l] - sum_s G[s, :] G[s, l]``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from diffdag.ordersearch.compiled import compiled
from diffdag.ordersearch.state import FloatArray, IntArray

# A candidate whose part outside the others is smaller than this share of it is collinear with them.
COLLINEAR = 1e-9


class Work(NamedTuple):
    """Room to compute in, allocated once. Candidates are named by variable."""

    gain: FloatArray  # g outside what is chosen
    left: FloatArray  # the diagonal of W outside what is chosen
    basis: FloatArray  # orthonormalised columns of W, one row a chosen candidate
    along: FloatArray  # inner product of the residual with each of them
    chosen: IntArray  # the change set
    kept: IntArray  # the best change set so far
    effect: FloatArray  # coefficients of the change set
    inverse: FloatArray  # of the triangle of the basis at the chosen candidates
    g: FloatArray  # g
    w: FloatArray  # the diagonal of W
    shift: FloatArray  # shared coefficients, in terms of q
    solved: FloatArray
    factor: FloatArray  # G where the conditions have different weights
    triangle: FloatArray  # a Cholesky factor
    stack: FloatArray  # matrices of the search over all subsets
    trail: IntArray


@compiled
def new_work(p: int, exhaustive: int) -> Work:
    """Room for p variables and for best subsets of up to `exhaustive` candidates."""
    size = min(p, exhaustive) + 1
    return Work(
        np.empty(p),
        np.empty(p),
        np.empty((p, p)),
        np.empty(p),
        np.empty(p, np.int64),
        np.empty(p, np.int64),
        np.empty(p),
        np.empty((p, p)),
        np.empty(p),
        np.empty(p),
        np.empty(p),
        np.empty(p),
        np.empty((p, p)),
        np.empty((p, p)),
        np.empty((size, size, size)),
        np.empty(size + 1, np.int64),
    )


@compiled
def fit_cost(rss: float, rows: float) -> float:
    """``N/2 log(rss)``, or ``rss / 2`` where rows is 0: the variances are known."""
    return 0.5 * rows * math.log(rss) if rows > 0 else 0.5 * rss


@compiled
def include(
    work: Work, own: FloatArray, scale: float, factor: FloatArray, order: IntArray, t: int, m: int, best: int
) -> float:
    """Make variable `best` the m-th chosen one; return by how much that lowers rss."""
    gain, left, basis = work.gain, work.left, work.basis
    p = len(order)
    row = basis[m]
    for k in range(p):
        row[k] = scale * own[best, k]
    for s in range(t):
        f = factor[s, best]
        for k in range(p):
            row[k] -= f * factor[s, k]
    for u in range(m):
        f = basis[u, best]
        for k in range(p):
            row[k] -= f * basis[u, k]
    length = 1.0 / math.sqrt(left[best])
    a = gain[best] * length
    for k in range(p):
        v = row[k] * length
        row[k] = v
        gain[k] -= a * v
        left[k] -= v * v
    left[best] = 0.0
    gain[best] = 0.0
    work.along[m] = a
    work.chosen[m] = best
    return a * a


@compiled
def include_all(
    work: Work, own: FloatArray, scale: float, factor: FloatArray, order: IntArray, t: int, m: int
) -> float:
    """Bring the basis in line with the first m of ``work.chosen``; return by how much they lower rss."""
    for k in range(len(order)):
        work.gain[k] = work.g[k]
        work.left[k] = work.w[k]
    lowers = 0.0
    for u in range(m):
        lowers += include(work, own, scale, factor, order, t, u, work.chosen[u])
    return lowers


@compiled
def weakest(work: Work, m: int) -> tuple[int, float]:
    """Which of the chosen candidates adds least, and what rss would be without it: its rise."""
    basis, chosen, inverse = work.basis, work.chosen, work.inverse
    worst, least = -1, math.inf
    for row in range(m):
        # Row of the inverse of the triangle basis[u, chosen[v]], v >= u.
        value, norm = 0.0, 0.0
        for col in range(row, m):
            x = 1.0 if col == row else 0.0
            for u in range(row, col):
                x -= inverse[row, u] * basis[u, chosen[col]]
            x /= basis[col, chosen[col]]
            inverse[row, col] = x
            value += x * work.along[col]
            norm += x * x
        rise = value * value / norm
        if rise < least:
            worst, least = row, rise
    return worst, least


@compiled
def forward_backward(
    work: Work,
    own: FloatArray,
    scale: float,
    factor: FloatArray,
    order: IntArray,
    t: int,
    rss: float,
    rows: float,
    penalty: float,
) -> tuple[float, int]:
    """What rss falls to and the number of changes; the changes are in ``work.chosen``."""
    now = rss - include_all(work, own, scale, factor, order, t, 0)
    m = 0
    for _ in range(4 * t + 4):  # every step lowers the cost, so this bound is for rounding errors alone
        best, most = -1, 0.0
        for s in range(t):
            k = order[s]
            if work.left[k] > COLLINEAR * work.w[k]:
                lowers = work.gain[k] ** 2 / work.left[k]
                if lowers > most:
                    best, most = k, lowers
        if best >= 0:
            after = max(now - most, 1e-12 * rss)
            if fit_cost(now, rows) - fit_cost(after, rows) > penalty:
                now = max(now - include(work, own, scale, factor, order, t, m, best), 1e-12 * rss)
                m += 1
                if m < 2:
                    continue
            else:
                best = -1
        if m < 2 and best < 0:
            break
        worst, rise = weakest(work, m)
        if fit_cost(now + rise, rows) - fit_cost(now, rows) < penalty:
            for u in range(worst, m - 1):
                work.chosen[u] = work.chosen[u + 1]
            m -= 1
            now = max(rss - include_all(work, own, scale, factor, order, t, m), 1e-12 * rss)
        elif best < 0:
            break
    return now, m


@compiled
def best_subset(
    work: Work,
    own: FloatArray,
    scale: float,
    factor: FloatArray,
    order: IntArray,
    t: int,
    rss: float,
    rows: float,
    penalty: float,
    known: float,
    m_known: int,
) -> tuple[float, int]:
    """The same for the best of all sets, given that of `forward_backward`: m_known changes that leave `known`.

    Sets are visited depth first; each step eliminates one candidate from the rest (Furnival and Wilson 1974).
    """
    stack, trail = work.stack, work.trail
    top = stack[0]
    for k in range(t):
        for l in range(k + 1):
            value = scale * own[order[k], order[l]]
            for s in range(t):
                value -= factor[s, order[k]] * factor[s, order[l]]
            top[k, l] = value
            top[l, k] = value
        top[k, t] = work.g[order[k]]
        top[t, k] = top[k, t]
    top[t, t] = rss
    # What all changes together reach bounds what any set can: no set larger than `most` can win.
    deep = stack[t]
    deep[: t + 1, : t + 1] = top[: t + 1, : t + 1]
    for c in range(t):
        if deep[c, c] > COLLINEAR * top[c, c]:
            for k in range(c + 1, t + 1):
                f = deep[k, c] / deep[c, c]
                for l in range(c + 1, t + 1):
                    deep[k, l] -= f * deep[c, l]
    least = fit_cost(max(deep[t, t], 1e-12 * rss), rows)
    best, m_best, reached = fit_cost(known, rows) + penalty * m_known, m_known, known
    depth = 0
    trail[0] = -1
    trail[1] = -1
    while depth >= 0:
        c = trail[depth + 1] + 1
        if depth > 0 and c <= trail[depth]:
            c = trail[depth] + 1
        if c >= t or least + penalty * (depth + 1) >= best:
            depth -= 1
            continue
        trail[depth + 1] = c
        here = stack[depth]
        if here[c, c] <= COLLINEAR * top[c, c]:
            continue
        below = stack[depth + 1]
        for k in range(c + 1, t + 1):
            f = here[k, c] / here[c, c]
            for l in range(c + 1, t + 1):
                below[k, l] = here[k, l] - f * here[c, l]
        rest = max(below[t, t], 1e-12 * rss)
        cost = fit_cost(rest, rows) + penalty * (depth + 1)
        if cost < best - 1e-12 * abs(best):
            best, m_best, reached = cost, depth + 1, rest
            for u in range(m_best):
                work.chosen[u] = order[trail[u + 1]]
        if c + 1 < t:
            depth += 1
            trail[depth + 1] = -1
    return reached, m_best
