r"""Algorithm 1 of Ghoshal, Bello and Honorio: the difference DAG from precision differences alone.

``computeOrder`` finds layers, sinks first; ``orientEdges`` directs the entries of the precision difference
along them; ``prune`` removes the edges that only common effects have made.

An entry ``(i, j)`` of the precision difference may be there only because ``i`` and ``j`` have common
effects. Without those variables it is zero, so the edge goes if a set ``C`` can be found such that entry
``(i, j)`` of the difference over ``V \ C`` is zero. The proof of Theorem 1 removes the common children;
they lie in layers before that of ``j``, or, where ``j`` is one of the unresolved variables ``R``, anywhere.
(The paper's pseudocode adds ``R`` for undirected edges only; then common children inside ``R`` leave
directed edges that are not there.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, combinations, takewhile
from math import comb

import numpy as np

from diffdag._base.parallel import one_blas_thread
from diffdag.paper.differences import Differences, ExactDifferences
from diffdag.paper.elimination import prune_by_elimination
from diffdag.paper.graph import DifferenceGraph, Edge, EdgeSet, Layers, layer_ranks

# Up to so many variables that take part, `prune` looks at every set of them; beyond, at a budget of small sets.
EXHAUSTIVE = 12
PRUNE_BUDGET = 500


@one_blas_thread()  # several threads on small matrices get in each other's way
def difference_graph(differences: Differences, threshold: float, equal_noise: bool = False) -> DifferenceGraph:
    """Run Algorithm 1 on any source of precision differences, exact or estimated.

    Entries up to the threshold, the paper's epsilon (Remark 1) in units of partial correlations, count as zero.
    With `equal_noise` no noise variance changed.
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
    size = most if len(variables) <= EXHAUSTIVE else largest_size(len(variables), PRUNE_BUDGET)
    edges = prune(edges, differences, variables, layers, rest, zero, size)
    return DifferenceGraph(invariant, layers, rest, edges, size, size == most)


def compute_order(
    differences: Differences, variables: Iterable[int], threshold: float, equal_noise: bool = False
) -> tuple[Layers, tuple[int, ...]]:
    """Peel off the variables of ``V`` with a zero diagonal, layer by layer.

    By Proposition 1 a variable with a zero diagonal is a sink of the difference DAG over what is left. If no
    noise variance changed some diagonal is zero, and the smallest stands for it where none is below the
    threshold. Returned are the layers ``O``, sinks first, and the variables ``R`` whose order is not identified
    because noise variances differ.
    """
    left = sorted(variables)
    layers: list[tuple[int, ...]] = []
    while len(left) > 1:
        diagonal = np.abs(np.diag(differences.over(left)))
        cut = max(threshold, float(diagonal.min())) if equal_noise else threshold
        sinks = tuple(node for node, size in zip(left, diagonal, strict=True) if size <= cut)
        if not sinks:
            return tuple(layers), tuple(left)
        layers.append(sinks)
        left = [node for node in left if node not in sinks]
    if left:
        layers.append(tuple(left))
    return tuple(layers), ()


def orient_edges(
    differences: Differences, variables: Iterable[int], layers: Layers, rest: Sequence[int], threshold: float
) -> EdgeSet:
    """Neighbours in later layers or in the unresolved rest are causes; edges inside the rest are undirected."""
    members = sorted(variables)
    present = abs(differences.over(members)) > threshold
    place = {node: k for k, node in enumerate(members)}
    rank = layer_ranks(layers, rest)
    pairs = [(i, j) for i in members for j in members if i != j and present[place[i], place[j]]]
    directed = frozenset((i, j) for i, j in pairs if rank[i] < rank[j])
    undirected = frozenset((i, j) for i, j in pairs if i < j and i in rest and j in rest)
    return EdgeSet(directed, undirected)


def prune(
    edges: EdgeSet,
    differences: Differences,
    variables: Iterable[int],
    layers: Layers,
    rest: Sequence[int],
    threshold: float,
    max_size: int,
) -> EdgeSet:
    """Test every set of at most `max_size` variables, small sets first.

    For ``i <- j`` the sets come from the layers before that of ``j``; if ``j`` is unresolved, from all
    other variables.
    """
    everything = sorted(variables)
    rank = layer_ranks(layers, rest)

    def removable(edge: Edge) -> list[int]:
        cause = edge[1]
        return [k for k in everything if k not in edge and (rank[k] < rank[cause] or cause in rest)]

    def remaining(edge: Edge, size: int) -> Iterator[list[int]]:
        for removed in combinations(removable(edge), size):
            yield [k for k in everything if k not in removed]

    alive = set(edges.directed | edges.undirected)
    for size in range(1, max_size + 1):
        differences.prefetch(members for edge in alive for members in remaining(edge, size))
        for edge in sorted(alive):
            if any(differences.entry(members, *edge) <= threshold for members in remaining(edge, size)):
                alive.remove(edge)
    return EdgeSet(edges.directed & alive, edges.undirected & alive)


def largest_size(count: int, budget: int) -> int:
    """The largest size for which all sets of up to so many of `count` variables number at most `budget`."""
    sets = accumulate(comb(count, size) for size in range(1, count + 1))
    return sum(1 for _ in takewhile(lambda total: 1 + total <= budget, sets))
