"""DCI: differences of causal graphs by tests of invariance, from three starts.

Wang, Squires, Belyaeva and Uhler (2018), independent of the order of the variables as in Belyaeva, Squires and
Uhler (2021). A start says which pairs may have changed and which variables regressions may condition on:
``dci-c`` starts from the entries of the precision matrices that differ by a test, ``dci-fc`` from all pairs,
``dci-k`` from KLIEP.

1. Skeleton: a pair stays if, given each set of up to 3 of these variables, the coefficients of both directions
   differ between the conditions.
2. Orientation: the right parents leave the same residual variance in both conditions. Sets are tried by size,
   and among those of one size the largest p-value first. A set that is accepted makes its members parents, and
   the other neighbours children. Edges that are left follow directed paths.

Where this differs from the authors' package (causaldag):

- The difference of a coefficient is divided by its variance. The package multiplies it by the entry of the
  inverse of the covariance matrix of all differences, which is never smaller, so that it rejects too often.
- Degrees of freedom count the intercept.
- An orientation that would close a cycle through a new parent and a new child is refused.
- KLIEP is solved to its optimum, with the exact Gaussian normaliser, on standardised variables. The package's
  penalty and its subgradient steps hardly leave a pair out.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError

from diffdag._base.arrays import BoolArray
from diffdag._base.errors import InputError
from diffdag._base.words import plural
from diffdag.precision.api import precision_difference
from diffdag.reproduce.methods.invariance import (
    invariant_pairs,
    membership,
    precision_pvalues,
    subsets,
    variance_pvalues,
)
from diffdag.reproduce.methods.method import Method, same_variables
from diffdag.tables.moments import Moments

# Chosen in docs/dev/constants.md. P-values above a level count as invariance; ALPHA_COMPLETE is that of the
# skeleton of dci-fc.
ALPHA_START, ALPHA_SKELETON, ALPHA_COMPLETE, ALPHA_ORIENT = 0.01, 0.1, 0.5, 0.1
MAX_SET_SIZE = 3
KLIEP_PENALTY = "rate:3"


def dci_c(first: Moments, second: Moments) -> BoolArray:
    """DCI from the entries of the precision matrices that differ by a test."""
    p = len(first.names)
    why = f" for {p} variables, and dci-c inverts its covariance matrix; use dci-k or fewer variables"
    second = same_variables(first, _checked(first, second), p + 1, why)
    pairs: BoolArray = precision_pvalues(first, second) <= ALPHA_START
    np.fill_diagonal(pairs, False)
    return difference_graph(first, second, pairs, np.asarray(pairs.any(axis=1)))


def dci_fc(first: Moments, second: Moments) -> BoolArray:
    """DCI from the complete graph."""
    second = _checked(first, second)
    pairs = ~np.eye(len(first.names), dtype=bool)
    return difference_graph(first, second, pairs, np.ones(len(pairs), bool), ALPHA_COMPLETE)


def dci_k(first: Moments, second: Moments) -> BoolArray:
    """DCI from the support of KLIEP; variables of which only the diagonal changed are conditioned on too."""
    second = _checked(first, second)
    pairs = precision_difference(first, second, method="kliep", penalty=KLIEP_PENALTY).matrix != 0
    nodes = np.asarray(pairs.any(axis=1))
    np.fill_diagonal(pairs, False)
    return difference_graph(first, second, pairs, nodes)


def difference_graph(
    first: Moments, second: Moments, pairs: BoolArray, nodes: BoolArray, alpha_skeleton: float = ALPHA_SKELETON
) -> BoolArray:
    """Difference graph of DCI, skeleton and orientation, from any start.

    `pairs` may have changed; `nodes` are conditioned on, and contain those of the pairs.
    """
    graph = np.zeros_like(pairs)
    if not pairs.any():
        return graph
    one, two = (moments.select([first.names[k] for k in np.flatnonzero(nodes)]) for moments in (first, second))
    block = np.ix_(nodes, nodes)
    try:
        edges = skeleton(one, two, pairs[block], alpha_skeleton)
        graph[block] = orient(one, two, edges, ALPHA_ORIENT, MAX_SET_SIZE)
    except LinAlgError:
        raise InputError("some columns are linearly dependent, so DCI has no regressions; drop one") from None
    return graph


def skeleton(
    first: Moments, second: Moments, pairs: BoolArray, alpha: float, max_set_size: int = MAX_SET_SIZE
) -> BoolArray:
    """The pairs without an invariant coefficient, given all sets of up to `max_set_size` variables."""
    kept = pairs.copy()
    for size in range(min(max_set_size, len(pairs) - 2) + 1):
        for same in invariant_pairs(first, second, size, alpha):
            kept &= ~same
            if not kept.any():
                return kept
    return kept


def orient(first: Moments, second: Moments, edges: BoolArray, alpha: float, max_set_size: int) -> BoolArray:
    """Direct the edges of a skeleton: ``[i, j]`` for ``i <- j``; both entries where no direction was found.

    Sets of up to one more than `max_set_size` are tried, as here no variable of the pair comes on top.
    """
    arrows = np.zeros_like(edges)
    for size in range(min(max_set_size + 2, len(edges))):
        if not _undirected(edges, arrows).any():
            break
        arrows = _try_sets(first, second, edges, arrows, size, alpha)
    arrows = arrows | (_undirected(edges, arrows) & ancestors(arrows))
    return arrows | _undirected(edges, arrows)


def ancestors(arrows: BoolArray) -> BoolArray:
    """``[i, j]`` is true if a directed path leads from ``j`` to ``i``."""
    above = arrows
    for _ in range(len(arrows).bit_length()):
        above = above | (above @ above)
    return above


def _undirected(edges: BoolArray, arrows: BoolArray) -> BoolArray:
    return edges & ~arrows & ~arrows.T


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


def _checked(first: Moments, second: Moments) -> Moments:
    """The second moments, columns as in the first; refuse too few rows for the regressions of DCI."""
    most = min(MAX_SET_SIZE + 1, len(first.names) - 1)
    why = f"; DCI regresses on up to {plural(most, 'variable')} and needs at least {most + 2} rows"
    return same_variables(first, second, most + 2, why)


METHODS = (
    Method("dci-c", "DCI of Wang et al. 2018 from tests of the precision matrices", dci_c, most=60),
    Method("dci-fc", "DCI of Wang et al. 2018 from the complete graph", dci_fc, most=60),
    Method("dci-k", "DCI of Wang et al. 2018 from KLIEP", dci_k, most=60),
)
