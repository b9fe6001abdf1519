"""Where variables stand, by the changed edges alone."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import TopologicalSorter
from typing import Any

from diffdag.results.records import Edge


def placed(edges: Sequence[Edge], names: Sequence[str]) -> dict[str, Any]:
    """Return `invariant`, `unresolved` and `order` of a `Difference` over some variables.

    A variable's layer is the length of the longest path to it; ends of undirected edges have none.
    """
    loose = {name for edge in edges if not edge.directed for name in (edge.source, edge.target)}
    causes: dict[str, list[str]] = {}
    for edge in edges:
        if edge.directed:
            causes.setdefault(edge.target, []).append(edge.source)
    layers: dict[str, int] = {}
    for name in TopologicalSorter(causes).static_order():
        if name not in loose:
            layers[name] = max((layers.get(cause, -1) + 1 for cause in causes.get(name, ())), default=0)
    depth = range(max(layers.values(), default=-1) + 1)
    return {
        "invariant": tuple(name for name in names if name not in layers and name not in loose),
        "unresolved": tuple(name for name in names if name in loose),
        "order": tuple(tuple(name for name in names if layers.get(name) == level) for level in depth),
    }
