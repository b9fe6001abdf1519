"""Algorithm 1 of Ghoshal, Bello and Honorio: the difference DAG from precision differences alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diffdag.paper.differences import Differences, ExactDifferences
from diffdag.paper.elimination import prune_by_elimination
from diffdag.paper.order import Layers, compute_order
from diffdag.paper.orient import EdgeSet, orient_edges
from diffdag.paper.prune import largest_size, prune

# Sets that `prune` may look at; all of them for up to 12 variables that take part.
PRUNE_BUDGET = 5_000


@dataclass(frozen=True)
class DifferenceGraph:
    """What Algorithm 1 returns, in terms of column numbers."""

    invariant: tuple[int, ...]
    layers: Layers
    rest: tuple[int, ...]
    edges: EdgeSet
    prune_size: int
    complete: bool


def difference_graph(
    differences: Differences, threshold: float, equal_noise: bool = False, budget: int = PRUNE_BUDGET
) -> DifferenceGraph:
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
    budget : int
        Number of sets that the search in `prune` may look at. If it does not suffice for all sets, the
        search ends at a smaller size, and ``complete`` is false.

    Returns
    -------
    DifferenceGraph
    """
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
    size = min(most, largest_size(len(variables), budget))
    edges = prune(edges, differences, variables, layers, rest, zero, size)
    return DifferenceGraph(invariant, layers, rest, edges, size, size == most)
