"""Orientation of DCI: the right parents leave the same residual variance in both conditions.

Second step of Wang, Squires, Belyaeva and Uhler (2018), independent of the order of the variables as in
Belyaeva, Squires and Uhler (2021): sets of one size after the other, and among the sets of a size the largest
p-value first. A set that is accepted makes its members parents, and the other neighbours children. Edges that
are left follow directed paths.
"""

from __future__ import annotations

import numpy as np

from diffdag._base.arrays import BoolArray
from diffdag.reproduce.methods.invariance import membership, subsets, variance_pvalues
from diffdag.tables.moments import Moments


def orient(first: Moments, second: Moments, edges: BoolArray, alpha: float, max_set_size: int) -> BoolArray:
    """Direct the edges of a skeleton.

    Parameters
    ----------
    first, second : Moments
        Of the conditioning variables.
    edges : ndarray of bool, shape (p, p)
        The skeleton, symmetric.
    alpha : float
        A residual variance is the same if its p-value is above.
    max_set_size : int
        Sets of up to one more are tried, as here no variable of the pair comes on top.

    Returns
    -------
    ndarray of bool, shape (p, p)
        ``[i, j]`` for ``i <- j``; both entries where no direction was found.
    """
    arrows = np.zeros_like(edges)
    for size in range(min(max_set_size + 2, len(edges))):
        if not _undirected(edges, arrows).any():
            break
        arrows = _try_sets(first, second, edges, arrows, size, alpha)
    above = ancestors(arrows)
    arrows = arrows | (_undirected(edges, arrows) & above)
    return arrows | _undirected(edges, arrows)


def ancestors(arrows: BoolArray) -> BoolArray:
    """``[i, j]`` is true if a directed path leads from ``j`` to ``i``."""
    above = arrows
    for _ in range(len(arrows).bit_length()):
        above = above | (above @ above)
    return above


def _undirected(edges: BoolArray, arrows: BoolArray) -> BoolArray:
    rest: BoolArray = edges & ~arrows & ~arrows.T
    return rest


def _try_sets(
    first: Moments, second: Moments, edges: BoolArray, arrows: BoolArray, size: int, alpha: float
) -> BoolArray:
    """Add the arrows of all variables for which a set of this size is accepted, largest p-value first.

    Arrows only ever rule out more sets, so the best p-value of a variable at an earlier time bounds the one it
    has now, and only the variable in the lead has to be looked at again.
    """
    sets = subsets(len(edges), size)
    inside = membership(sets, len(edges))
    nodes = np.flatnonzero(_undirected(edges, arrows).any(axis=1))
    pvalues = dict(zip(nodes.tolist(), variance_pvalues(first, second, nodes, sets).T, strict=True))
    bound = dict.fromkeys(pvalues, 1.0)
    arrows, above = arrows.copy(), ancestors(arrows)
    while bound:
        node = max(bound, key=bound.__getitem__)
        fit = _fits(node, inside, edges, above) & (pvalues[node] > alpha)
        if not fit.any():
            del bound[node]
            continue
        best = int(np.argmax(np.where(fit, pvalues[node], 0.0)))
        bound[node] = float(pvalues[node][best])
        if bound[node] == max(bound.values()):
            arrows[node] |= inside[best] & edges[node]
            arrows[:, node] |= ~inside[best] & edges[node]
            above = ancestors(arrows)
            del bound[node]
    return arrows


def _fits(node: int, inside: BoolArray, edges: BoolArray, above: BoolArray) -> BoolArray:
    """Which sets, as the parents of a variable, contradict no arrow and close no cycle."""
    near = np.flatnonzero(edges[node])
    parents = inside[:, near]
    descendant_in_set = inside[:, above[:, node]].any(axis=1)
    ancestor_outside = (~parents & above[node, near]).any(axis=1)
    child_above_parent = ((parents @ above[np.ix_(near, near)]) & ~parents).any(axis=1)
    fits: BoolArray = ~(descendant_in_set | ancestor_outside | child_above_parent)
    return fits
