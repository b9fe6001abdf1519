"""Two scatter matrices seen along an order of the variables, and how that view changes when two swap.

Let ``A1``, ``A2`` be the scatter matrices of the two conditions and ``A1 + A2 = R'R`` the Cholesky
factorisation along the order. Row ``s`` of ``R`` belongs to ``q_s``, the part of the s-th variable that its
predecessors do not explain in the pooled data, scaled to length 1. All that a score needs are inner products
within the first condition, which we write with ``D1``, the projection on its rows:

    Y[s, l] = q_s' D1 X_l        K[s, u] = q_s' D1 q_u        W[t, l] = A1[l, l] - sum over s < t of Y[s, l]^2

For the variable at position ``t`` regressed on all before it, with shared coefficients, the residual is ``e =
R[t, t] q_t``; letting the coefficient of ``X_l`` differ adds the regressor ``D1 X_l``, whose part outside the
predecessors has squared length ``W[t, l]`` and inner product ``R[t, t] Y[t, l]`` with ``e``. So the first step
of a search for changes reads two rows; nothing is solved.

Swapping the variables at positions ``t`` and ``t + 1`` rotates ``q_t`` and ``q_{t+1}``: O(p), and as stable
as rotations are. Rows of all matrices are positions; columns are variables, but positions for ``K``, of which
only the lower triangle is kept.

Compiled code keeps its numbers in three arrays with named slots (`Workspace`): numba takes ten times longer to
compile functions that hand around many arrays.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from diffdag._base.arrays import FloatArray, IntArray
from diffdag.ordersearch.core.compiled import inner, spliced, whole

# Matrices: A1, R, Y, K, W; for `subset` an orthonormal basis and the inverse of its triangle; for `score` the
# factors where conditions have different weights; and vectors.
OWN, ROOT, CROSS, INNER, WIDTHS, BASIS, INVERSE, FACTOR, TRIANGLE, VECTORS = map(whole, range(10))
# Lists of variables: the order, the change set, the best change set so far, the path of `best_subset`; and the
# position of each variable.
ORDER, CHOSEN, KEPT, TRAIL, PLACE = range(5)


class Workspace(NamedTuple):
    """Room to compute in, allocated once a search."""

    real: FloatArray
    whole: IntArray
    stack: FloatArray


def new_space(first: FloatArray, exhaustive: int) -> Workspace:
    """Room for the variables of a scatter matrix, and for best subsets of up to `exhaustive` of them."""
    p = len(first)
    deep = min(p, exhaustive) + 2
    space = Workspace(
        np.zeros((10, max(p + 1, 9), p)), np.zeros((5, p + 2), np.int64), np.zeros((deep, deep, deep))
    )
    space.real[OWN, :p] = first
    return space


@inner
def look(space: Workspace, pooled: FloatArray) -> None:
    """Work out the view from scratch along the order in `space`: O(p^3)."""
    p = len(pooled)
    order = space.whole[ORDER]
    own, root, cross, widths = space.real[OWN], space.real[ROOT], space.real[CROSS], space.real[WIDTHS]
    for k in range(p):
        widths[0, k] = own[k, k]
    for s in range(p):
        a = order[s]
        space.whole[PLACE, a] = s
        for k in range(p):
            root[s, k] = pooled[a, k]
            cross[s, k] = own[a, k]
        subtract(root, s, root, a, root, s)
        subtract(cross, s, root, a, cross, s)
        # Validation refuses collinear columns; what rounding leaves of a nearly collinear one stays positive.
        length = math.sqrt(max(root[s, a], 1e-14 * pooled[a, a]))
        for k in range(p):
            root[s, k] /= length
            cross[s, k] /= length
        for u in range(s):
            root[s, order[u]] = 0.0
        root[s, a] = length
        _narrow(space, s)
    _inner_products(space)


@inner
def subtract(to: FloatArray, row: int, factors: FloatArray, column: int, rows: FloatArray, end: int) -> None:
    """Subtract the first rows of a matrix, times factors, from one row; four at a time, to store less often."""
    p = to.shape[1]
    for s in range(0, end - 3, 4):
        a, b, c, d = factors[s, column], factors[s + 1, column], factors[s + 2, column], factors[s + 3, column]
        for k in range(p):
            to[row, k] -= a * rows[s, k] + b * rows[s + 1, k] + c * rows[s + 2, k] + d * rows[s + 3, k]
    for s in range(end - end % 4, end):
        a = factors[s, column]
        for k in range(p):
            to[row, k] -= a * rows[s, k]


@spliced
def _narrow(space: Workspace, t: int) -> None:
    """Row t + 1 of W from the one before."""
    cross, widths = space.real[CROSS], space.real[WIDTHS]
    for k in range(cross.shape[1]):
        widths[t + 1, k] = widths[t, k] - cross[t, k] * cross[t, k]


@spliced
def _inner_products(space: Workspace) -> None:
    """``K = Y R^-1``, row by row."""
    order, root, cross, inner = space.whole[ORDER], space.real[ROOT], space.real[CROSS], space.real[INNER]
    left, p = space.real[VECTORS, 0], cross.shape[1]
    for s in range(p):
        for k in range(p):
            left[k] = cross[s, k]
        for u in range(s + 1):
            f = left[order[u]] / root[u, order[u]]
            inner[s, u] = f
            for k in range(p):
                left[k] -= f * root[u, k]


@spliced
def rotation(space: Workspace, t: int) -> tuple[float, float, float, float, float]:
    """What exchanging positions t and t + 1 does: cosine, sine, and the new block of K there (11, 21, 22)."""
    root, inner, b = space.real[ROOT], space.real[INNER], space.whole[ORDER, t + 1]
    x, y = root[t, b], root[t + 1, b]
    length = math.sqrt(x * x + y * y)
    c, s = x / length, y / length
    k11, k21, k22 = inner[t, t], inner[t + 1, t], inner[t + 1, t + 1]
    both = 2 * c * s * k21
    return (
        c,
        s,
        c * c * k11 + both + s * s * k22,
        c * s * (k11 - k22) + (s * s - c * c) * k21,
        s * s * k11 - both + c * c * k22,
    )


@spliced
def _rotate(rows: FloatArray, t: int, c: float, s: float, end: int) -> None:
    for k in range(end):
        x, y = rows[t, k], rows[t + 1, k]
        rows[t, k] = c * x + s * y
        rows[t + 1, k] = s * x - c * y


@inner
def swap(space: Workspace, t: int) -> None:
    """Exchange the variables at positions t and t + 1."""
    order, place = space.whole[ORDER], space.whole[PLACE]
    root, inner = space.real[ROOT], space.real[INNER]
    p = root.shape[1]
    a, b = order[t], order[t + 1]
    c, s, k11, k21, k22 = rotation(space, t)
    # One loop a matrix: with more rows at a time the compiler cannot tell that they are apart.
    _rotate(root, t, c, s, p)
    root[t + 1, b] = 0.0
    _rotate(space.real[CROSS], t, c, s, p)
    _narrow(space, t)
    _rotate(inner, t, c, s, t)
    inner[t, t], inner[t + 1, t], inner[t + 1, t + 1] = k11, k21, k22
    for k in range(t + 2, p):
        x, y = inner[k, t], inner[k, t + 1]
        inner[k, t] = c * x + s * y
        inner[k, t + 1] = s * x - c * y
    order[t], order[t + 1] = b, a
    place[a], place[b] = t + 1, t


@inner
def move(space: Workspace, start: int, end: int) -> None:
    """Bring the variable at one position to another; those between make room."""
    for t in range(start, end):
        swap(space, t)
    for t in range(start - 1, end - 1, -1):
        swap(space, t)
