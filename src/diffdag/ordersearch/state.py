"""Two scatter matrices seen along an order of the variables, and how that view changes when two swap.

Let ``A1``, ``A2`` be the scatter matrices of the two conditions and ``A1 + A2 = R'R`` the Cholesky
factorisation along the order. Row ``s`` of ``R`` belongs to ``q_s``, the part of the s-th variable that its
predecessors do not explain in the pooled data, scaled to length 1. All that a score needs are inner products
within the first condition, which we write with ``D1``, the projection on its rows:

    Y[s, l] = q_s' D1 X_l        K[s, u] = q_s' D1 q_u        U[t, l] = sum over s < t of Y[s, l]^2

For the variable at position ``t`` regressed on all before it, with shared coefficients, the residual is ``e =
R[t, t] q_t``; letting the coefficient of ``X_l`` differ adds the regressor ``D1 X_l``, whose part outside the
predecessors has squared length ``W[l, l] = A1[l, l] - U[t, l]`` and inner product ``R[t, t] Y[t, l]`` with
``e``. So the first step of a search for changes reads one row; nothing is solved.

Swapping the variables at positions ``t`` and ``t + 1`` rotates ``q_t`` and ``q_{t+1}``: O(p), and as stable
as rotations are. Rows of all matrices are positions; columns are variables, but positions for ``K``.

Compiled code keeps its numbers in three arrays with named slots (`Space`): numba takes ten times longer to
compile functions that hand around many arrays.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffdag.ordersearch.compiled import inner, whole

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Matrices: A1, R, Y, K, U; for `subset` an orthonormal basis and the inverse of its triangle; for `score` the
# factors where conditions have different weights; and vectors.
OWN, ROOT, CROSS, INNER, SPENT, BASIS, INVERSE, FACTOR, TRIANGLE, VECTORS = map(whole, range(10))
# Lists of variables: the order, the change set, the best change set so far, the path of `best_subset`.
ORDER, CHOSEN, KEPT, TRAIL = range(4)


class Space(NamedTuple):
    """Room to compute in, allocated once a search."""

    real: FloatArray
    whole: IntArray
    stack: FloatArray


def new_space(first: FloatArray, exhaustive: int) -> Space:
    """Room for the variables of a scatter matrix, and for best subsets of up to `exhaustive` of them."""
    p = len(first)
    deep = min(p, exhaustive) + 2
    space = Space(
        np.zeros((10, max(p + 1, 8), p)), np.zeros((4, p + 2), np.int64), np.zeros((deep, deep, deep))
    )
    space.real[OWN, :p] = first
    return space


@inner
def look(space: Space, pooled: FloatArray) -> None:
    """Work out the view from scratch along the order in `space`: O(p^3)."""
    p = len(pooled)
    order = space.whole[ORDER]
    own, root, cross, inner = space.real[OWN], space.real[ROOT], space.real[CROSS], space.real[INNER]
    for s in range(p):
        a = order[s]
        for k in range(p):
            root[s, k] = pooled[a, k]
            cross[s, k] = own[a, k]
        for u in range(s):
            f = root[u, a]
            for k in range(p):
                root[s, k] -= f * root[u, k]
                cross[s, k] -= f * cross[u, k]
        # Validation refuses collinear columns; what rounding leaves of a nearly collinear one stays positive.
        length = math.sqrt(max(root[s, a], 1e-14 * pooled[a, a]))
        for k in range(p):
            root[s, k] /= length
            cross[s, k] /= length
        for u in range(s):
            root[s, order[u]] = 0.0
        root[s, a] = length
    spent = space.real[SPENT]
    for s in range(p):
        for t in range(p):
            a = order[t]
            value = cross[s, a]
            for u in range(t):
                value -= root[u, a] * inner[s, u]
            inner[s, t] = value / root[t, a]
        for k in range(p):
            spent[s + 1, k] = spent[s, k] + cross[s, k] * cross[s, k]


@inner
def swap(space: Space, t: int) -> None:
    """Exchange the variables at positions t and t + 1."""
    order = space.whole[ORDER]
    root, cross, inner, spent = space.real[ROOT], space.real[CROSS], space.real[INNER], space.real[SPENT]
    p = root.shape[1]
    a, b = order[t], order[t + 1]
    length = math.hypot(root[t, b], root[t + 1, b])
    c, s = root[t, b] / length, root[t + 1, b] / length
    for k in range(p):
        x, y = root[t, k], root[t + 1, k]
        root[t, k] = c * x + s * y
        root[t + 1, k] = s * x - c * y
        x, y = inner[t, k], inner[t + 1, k]
        inner[t, k] = c * x + s * y
        inner[t + 1, k] = s * x - c * y
        x, y = cross[t, k], cross[t + 1, k]
        z = c * x + s * y
        cross[t, k] = z
        cross[t + 1, k] = s * x - c * y
        spent[t + 1, k] = spent[t, k] + z * z
    root[t, b] = length
    root[t + 1, b] = 0.0
    for k in range(p):
        x, y = inner[k, t], inner[k, t + 1]
        inner[k, t] = c * x + s * y
        inner[k, t + 1] = s * x - c * y
    order[t] = b
    order[t + 1] = a


@inner
def move(space: Space, start: int, end: int) -> None:
    """Bring the variable at one position to another; those between make room."""
    for t in range(start, end):
        swap(space, t)
    for t in range(start - 1, end - 1, -1):
        swap(space, t)
