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


@dataclass(frozen=True)
class NodeScore:
    """A ranking of variables, and perhaps a set of them, against those whose mechanisms changed.

    Attributes
    ----------
    ac1, ac3 : float
        ``AC@k``, of the literature on root causes: changed variables among the first k over min(k, changed).
    f1 : float or None
        Of the set; None where there is none.
    false : float or None
        Share of the set that did not change, 0 if it is empty: its mean is the false-discovery rate.
    first : int
        Place of the first changed variable in the ranking, from 1 on.
    """

    ac1: float
    ac3: float
    f1: float | None
    false: float | None
    first: int


def score_nodes(truth: BoolArray, order: Sequence[int], claimed: BoolArray | None) -> NodeScore:
    """Compare a ranking, most evidence first, and a set with the variables that changed, one or more.

    Examples
    --------
    >>> truth = np.array([False, True, True, False])
    >>> score_nodes(truth, [3, 1, 0, 2], np.array([False, True, False, True]))
    NodeScore(ac1=0.0, ac3=0.5, f1=0.5, false=0.5, first=2)
    """
    changed = int(truth.sum())
    ranked = truth[list(order)]
    f1 = false = None
    if claimed is not None:
        right, named = int((truth & claimed).sum()), int(claimed.sum())
        f1, false = _f1(right, changed, named), (named - right) / max(named, 1)
    return NodeScore(
        ac1=float(ranked[0]),
        ac3=int(ranked[:3].sum()) / min(3, changed),
        f1=f1,
        false=false,
        first=int(np.argmax(ranked)) + 1,
    )


def graph_of(names: Sequence[str], edges: Iterable[tuple[str, str, bool]]) -> BoolArray:
    """The matrix of (source, target, directed) triples."""
    place = {name: k for k, name in enumerate(names)}
    graph = np.zeros((len(place), len(place)), bool)
    for source, target, directed in edges:
        graph[place[target], place[source]] = True
        graph[place[source], place[target]] |= not directed
    return graph
