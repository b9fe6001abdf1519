"""Algorithm 1 of Ghoshal, Bello and Honorio: the difference DAG from precision differences alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from diffdag.paper.differences import Differences, ExactDifferences
from diffdag.paper.elimination import prune_by_elimination
from diffdag.paper.order import Layers, compute_order
from diffdag.paper.orient import EdgeSet, orient_edges
from diffdag.paper.prune import largest_size, prune

# Up to so many variables that take part, `prune` looks at every set of them; beyond, at a budget of small sets.
EXHAUSTIVE = 12
PRUNE_BUDGET = 500


@dataclass(frozen=True)
class DifferenceGraph:
    """What Algorithm 1 returns, in terms of column numbers."""

    invariant: tuple[int, ...]
    layers: Layers
    rest: tuple[int, ...]
    edges: EdgeSet
    prune_size: int
    complete: bool


def difference_graph(differences: Differences, threshold: float, equal_noise: bool = False) -> DifferenceGraph:
    """Run Algorithm 1 on any source of precision differences.

    Parameters
    ----------
    differences : Differences
        Precision differences over sets of variables, exact or estimated.
    threshold : float
        The paper's epsilon (Remark 1): entries up to this size, in units of partial correlations, count as
        zero.
    equal_noise : bool
        No noise variance changed.

    Returns
    -------
    DifferenceGraph
        ``complete`` is false if `prune` did not look at every set.
    """
    # Thousands of small matrices: several BLAS threads only get in each other's way.
    with threadpool_limits(1, user_api="blas"):
        return _difference_graph(differences, threshold, equal_noise)


def _difference_graph(differences: Differences, threshold: float, equal_noise: bool) -> DifferenceGraph:
    delta = differences.over(range(differences.p))
    changed = (np.abs(delta) > threshold).any(axis=1)
    invariant, variables = (tuple(np.flatnonzero(mask).tolist()) for mask in (~changed, changed))
    layers, rest = compute_order(differences, variables, threshold, equal_noise)
    edges = orient_edges(differences, variables, layers, rest, threshold)
    zero = threshold
    if isinstance(differences, ExactDifferences):
        edges = prune_by_elimination(edges, differences, variables, threshold)
        zero = differences.rounding(variables, threshold)
    # Both ends of an edge stay, so at most all other variables can be removed.
    most = max(0, len(variables) - 2)
    size = most if len(variables) <= EXHAUSTIVE else largest_size(len(variables), PRUNE_BUDGET)
    edges = prune(edges, differences, variables, layers, rest, zero, size)
    return DifferenceGraph(invariant, layers, rest, edges, size, size == most)
