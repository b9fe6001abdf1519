"""orientEdges of Algorithm 1: direct the entries of the precision difference along the layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from diffdag.paper.differences import Differences
from diffdag.paper.order import Layers

Edge = tuple[int, int]


@dataclass(frozen=True)
class EdgeSet:
    """Edges of a partially directed difference graph.

    ``(i, j)`` in `directed` is the paper's ``i <- j``; in `undirected` it is ``i - j`` with ``i < j``.
    """

    directed: frozenset[Edge]
    undirected: frozenset[Edge]


def orient_edges(
    differences: Differences,
    variables: Iterable[int],
    layers: Layers,
    rest: Sequence[int],
    threshold: float,
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


def layer_ranks(layers: Layers, rest: Sequence[int]) -> dict[int, int]:
    """The number of each variable's layer, sinks first; the unresolved rest, which precedes all, comes last."""
    rank = {node: k for k, layer in enumerate(layers) for node in layer}
    return rank | dict.fromkeys(rest, len(layers))
