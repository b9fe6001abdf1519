"""How close a result is to the truth: one function for every method and every experiment.

A difference graph is a boolean matrix: ``[i, j]`` is true where the effect of ``j`` on ``i`` changed. Where
both ``[i, j]`` and ``[j, i]`` are true the edge is undirected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from diffdag._base.arrays import BoolArray


@dataclass(frozen=True)
class Score:
    """One result against the truth.

    Attributes
    ----------
    f1 : float
        Directed: an undirected edge counts as claimed and never as found.
    exact : bool
        Every edge right, directed, and none besides.
    skeleton_f1 : float
        Directions do not count.
    skeleton_exact : bool
    true_edges, claimed, undirected : int
        Edges of the truth, edges claimed, and the undirected among the claimed.
    """

    f1: float
    exact: bool
    skeleton_f1: float
    skeleton_exact: bool
    true_edges: int
    claimed: int
    undirected: int


def score(truth: BoolArray, found: BoolArray) -> Score:
    """Compare a result with the truth.

    Nothing claimed where nothing changed is a perfect result (F1 of 1); nothing claimed where something did, or
    something claimed where nothing did, has an F1 of 0.

    Parameters
    ----------
    truth, found : ndarray of bool, shape (p, p)
        The true difference DAG, and the result, in which an edge may be undirected (both entries true).

    Examples
    --------
    >>> truth = np.array([[0, 0, 0], [1, 0, 0], [1, 0, 0]], bool)   # X1 -> X2, X1 -> X3
    >>> found = np.array([[0, 0, 1], [1, 0, 0], [1, 0, 0]], bool)   # X1 -> X2, X1 -- X3
    >>> answer = score(truth, found)
    >>> answer.f1, answer.exact, answer.skeleton_f1, answer.skeleton_exact
    (0.5, False, 1.0, True)
    """
    directed = found & ~found.T
    skeletons = [np.triu(graph | graph.T, 1) for graph in (truth, found)]
    true_edges, claimed = (int(skeleton.sum()) for skeleton in skeletons)
    return Score(
        f1=_f1(int((truth & directed).sum()), true_edges, claimed),
        exact=bool((truth == found).all()),
        skeleton_f1=_f1(int((skeletons[0] & skeletons[1]).sum()), true_edges, claimed),
        skeleton_exact=bool((skeletons[0] == skeletons[1]).all()),
        true_edges=true_edges,
        claimed=claimed,
        undirected=claimed - int(directed.sum()),
    )


def _f1(right: int, true_edges: int, claimed: int) -> float:
    return 2 * right / (true_edges + claimed) if true_edges + claimed else 1.0


def graph_of(names: Sequence[str], edges: Iterable[tuple[str, str, bool]]) -> BoolArray:
    """The matrix of (source, target, directed) triples."""
    place = {name: k for k, name in enumerate(names)}
    graph = np.zeros((len(place), len(place)), bool)
    for source, target, directed in edges:
        graph[place[target], place[source]] = True
        graph[place[source], place[target]] |= not directed
    return graph
