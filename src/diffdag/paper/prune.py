r"""prune of Algorithm 1: remove the edges that only common effects have made.

An entry ``(i, j)`` of the precision difference may be there only because ``i`` and ``j`` have common
effects. Without those variables it is zero, so the edge goes if a set ``C`` can be found such that entry
``(i, j)`` of the difference over ``V \ C`` is zero. The proof of Theorem 1 removes the common children;
they lie in layers before that of ``j``, or, where ``j`` is one of the unresolved variables ``R``, anywhere.
(The paper's pseudocode adds ``R`` for undirected edges only; then common children inside ``R`` leave
directed edges that are not there.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from math import comb

from diffdag.paper.differences import Differences
from diffdag.paper.order import Layers
from diffdag.paper.orient import Edge, EdgeSet, layer_ranks


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
    """The largest size for which all sets of up to so many of `count` variables number at most `budget`.

    >>> largest_size(8, 500), largest_size(30, 500), largest_size(100, 500)
    (8, 2, 1)
    """
    size, sets = 0, 1
    while size < count and sets + comb(count, size + 1) <= budget:
        size += 1
        sets += comb(count, size)
    return size
