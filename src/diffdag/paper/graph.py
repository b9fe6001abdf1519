"""The difference graph that Algorithm 1 returns, in terms of column numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class DifferenceGraph:
    """What Algorithm 1 returns, in terms of column numbers."""

    invariant: tuple[int, ...]
    layers: Layers
    rest: tuple[int, ...]
    edges: EdgeSet
    prune_size: int
    complete: bool  # whether `prune` looked at every set


Layers = tuple[tuple[int, ...], ...]
Edge = tuple[int, int]


@dataclass(frozen=True)
class EdgeSet:
    """Edges of a partially directed difference graph.

    ``(i, j)`` in `directed` is the paper's ``i <- j``; in `undirected` it is ``i - j`` with ``i < j``.
    """

    directed: frozenset[Edge]
    undirected: frozenset[Edge]


def layer_ranks(layers: Layers, rest: Sequence[int]) -> dict[int, int]:
    """The number of each variable's layer, sinks first; the unresolved rest, which precedes all, comes last."""
    rank = {node: k for k, layer in enumerate(layers) for node in layer}
    return rank | dict.fromkeys(rest, len(layers))
