"""Graphs with directed and undirected edges, and the one that stands for a class of equivalent DAGs.

Sets of vertices are integers with one bit per vertex, as in `gaussian`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diffdag._base.arrays import BoolArray
from diffdag.reproduce.methods.gaussian import members


@dataclass
class PartialGraph:
    """Directed edges as sets of parents, undirected ones as sets of neighbours, of each vertex."""

    parents: list[int]
    neighbours: list[int]

    def __post_init__(self) -> None:
        self.children = children_of(self.parents)
        self.adjacent = [
            above | below | beside
            for above, below, beside in zip(self.parents, self.children, self.neighbours, strict=True)
        ]

    def matrix(self) -> BoolArray:
        """``[i, j]`` is ``j -> i``; an undirected edge has both entries."""
        graph = np.zeros((len(self.parents), len(self.parents)), bool)
        for y, (above, beside) in enumerate(zip(self.parents, self.neighbours, strict=True)):
            graph[y, list(members(above | beside))] = True
        return graph


def children_of(parents: Sequence[int]) -> list[int]:
    """From the parents of each vertex to the children of each."""
    children = [0] * len(parents)
    for y, above in enumerate(parents):
        for x in members(above):
            children[x] |= 1 << y
    return children


def extension(graph: PartialGraph) -> list[int]:
    """Parents in a DAG with the same skeleton, directions and unshielded colliders (Dor and Tarsi 1992).

    A vertex without children, each of whose neighbours is adjacent to all else that is adjacent to it, can be
    a sink: its edges are directed into it, and it is taken out.
    """
    parents = list(graph.parents)
    left = (1 << len(parents)) - 1
    while left:
        for x in members(left):
            around = graph.adjacent[x] & left
            beside = graph.neighbours[x] & left
            if graph.children[x] & left == 0 and all(
                around & ~(graph.adjacent[y] | 1 << y) == 0 for y in members(beside)
            ):
                parents[x] |= beside
                left &= ~(1 << x)
                break
        else:
            raise AssertionError("an operator of GES left a graph that no DAG extends")
    return parents


def completed(dag: Sequence[int], known: Sequence[int] | None = None) -> PartialGraph:
    """The graph of the class of a DAG given by its parents: an edge is directed if it is so in the whole class.

    Unshielded colliders are, and what follows from them by rules 1 to 3 of Meek (1995). `known` are parents of
    which the direction is known beforehand, such as those without parents of their own.
    """
    adjacent = [above | below for above, below in zip(dag, children_of(dag), strict=True)]
    fixed = [as_colliders(above, adjacent) for above in dag]
    if known is not None:
        fixed = [above | given for above, given in zip(fixed, known, strict=True)]
    beside = [
        around & ~above & ~below
        for around, above, below in zip(adjacent, fixed, children_of(fixed), strict=True)
    ]
    settled = False
    while not settled:
        settled = True
        for y, above in enumerate(dag):
            for x in members(above & ~fixed[y]):
                if _follows(x, y, adjacent, fixed, beside):
                    fixed[y] |= 1 << x
                    beside[x] &= ~(1 << y)
                    beside[y] &= ~(1 << x)
                    settled = False
    return PartialGraph(fixed, beside)


def as_colliders(above: int, adjacent: Sequence[int]) -> int:
    """Those of the parents of a vertex that are not adjacent to all the others."""
    return sum(1 << x for x in members(above) if above & ~(adjacent[x] | 1 << x))


def _follows(x: int, y: int, adjacent: Sequence[int], fixed: Sequence[int], beside: Sequence[int]) -> bool:
    """Whether the undirected edge of `x` and `y` has to be ``x -> y`` by rules 1, 2 or 3 of Meek (1995)."""
    if fixed[x] & ~(adjacent[y] | 1 << y):  # z -> x, and z not adjacent to y
        return True
    if any(fixed[z] >> x & 1 for z in members(fixed[y])):  # x -> z -> y
        return True
    return as_colliders(fixed[y] & beside[x], adjacent) != 0  # x - z -> y and x - w -> y, z and w not adjacent
