"""Two scatter matrices seen along an order of the variables, and how that view changes when two swap.

Let ``A1``, ``A2`` be the scatter matrices of the two conditions and ``A1 + A2 = R'R`` the Cholesky factorisation
along the order. Row ``s`` of ``R`` belongs to ``q_s``, the part of the s-th variable that its predecessors do not
explain in the pooled data, scaled to length 1. All that a score needs are inner products within the first
condition, which we write with ``D1``, the projection on its rows:

    Y[s, l] = q_s' D1 X_l        K[s, u] = q_s' D1 q_u        U[t, l] = sum over s < t of Y[s, l]^2

For the variable at position ``t`` regressed on all before it, with shared coefficients, the residual is
``e = R[t, t] q_t``; letting the coefficient of ``X_l`` differ adds the regressor ``D1 X_l``, whose part outside
the predecessors has length ``W[l, l] = A1[l, l] - U[t, l]`` (squared) and inner product ``R[t, t] Y[t, l]`` with
``e``. So the first step of a search for changes reads one row; nothing is solved.

Swapping the variables at positions ``t`` and ``t + 1`` rotates ``q_t`` and ``q_{t+1}``: O(p), and as stable as
rotations are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffdag.ordersearch.compiled import compiled

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class View(NamedTuple):
    """Rows of ``root``, ``cross``, ``inner`` and ``spent`` are positions; columns of all but ``inner`` variables."""

    order: IntArray
    own: FloatArray  # A1
    root: FloatArray  # R
    cross: FloatArray  # Y
    inner: FloatArray  # K
    spent: FloatArray  # U


@compiled
def new_view(first: FloatArray) -> View:
    """Room for a view; `look` fills it."""
    p = len(first)
    square = (p, p)
    return View(
        np.arange(p), first, np.zeros(square), np.zeros(square), np.zeros(square), np.zeros((p + 1, p))
    )


@compiled
def look(view: View, pooled: FloatArray, order: IntArray) -> None:
    """Fill a view from scratch along an order: O(p^3)."""
    p = len(order)
    view.order[:] = order
    root, cross, inner = view.root, view.cross, view.inner
    root[:] = 0.0
    for s in range(p):
        a = order[s]
        row = pooled[a].copy()
        own = view.own[a].copy()
        for u in range(s):
            factor = root[u, a]
            for k in range(p):
                row[k] -= factor * root[u, k]
                own[k] -= factor * cross[u, k]
        # Validation refuses collinear columns; what rounding leaves of a nearly collinear one must stay positive.
        length = math.sqrt(max(row[a], 1e-14 * pooled[a, a]))
        for k in range(s, p):
            root[s, order[k]] = row[order[k]] / length
        root[s, a] = length
        for k in range(p):
            cross[s, k] = own[k] / length
    for s in range(p):
        for t in range(p):
            a = order[t]
            value = cross[s, a]
            for u in range(t):
                value -= root[u, a] * inner[s, u]
            inner[s, t] = value / root[t, a]
    for s in range(p):
        for k in range(p):
            view.spent[s + 1, k] = view.spent[s, k] + cross[s, k] ** 2


@compiled
def swap(view: View, t: int) -> None:
    """Exchange the variables at positions t and t + 1."""
    order, root, cross, inner = view.order, view.root, view.cross, view.inner
    p = len(order)
    a, b = order[t], order[t + 1]
    length = math.hypot(root[t, b], root[t + 1, b])
    c, s = root[t, b] / length, root[t + 1, b] / length
    for k in range(p):
        x, y = root[t, k], root[t + 1, k]
        root[t, k], root[t + 1, k] = c * x + s * y, s * x - c * y
        x, y = cross[t, k], cross[t + 1, k]
        cross[t, k], cross[t + 1, k] = c * x + s * y, s * x - c * y
        view.spent[t + 1, k] = view.spent[t, k] + cross[t, k] ** 2
    root[t, b], root[t + 1, b] = length, 0.0
    for k in range(p):
        x, y = inner[t, k], inner[t + 1, k]
        inner[t, k], inner[t + 1, k] = c * x + s * y, s * x - c * y
    for k in range(p):
        x, y = inner[k, t], inner[k, t + 1]
        inner[k, t], inner[k, t + 1] = c * x + s * y, s * x - c * y
    order[t], order[t + 1] = b, a


@compiled
def move(view: View, start: int, end: int) -> None:
    """Bring the variable at one position to another; those between move up by one."""
    for t in range(start, end):
        swap(view, t)
    for t in range(start - 1, end - 1, -1):
        swap(view, t)
