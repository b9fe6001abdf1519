"""A total order that refines the recovered layers, for the regressions behind the weights.

Layers order the *changes*. An unchanged cause of a variable often lies in the same layer, an unchanged
effect in a later one, and a regression without the one or with the other does not give structural weights.
So the changes are followed to a total order by the rule of `elimination`: take out sinks of the difference
DAG one at a time, always the one that leaves the fewest changed entries among the others. Taking a variable
out before its effects, or after its causes, would spread its change to them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from diffdag._base.arrays import FloatArray
from diffdag.paper.algorithm import DifferenceGraph
from diffdag.paper.differences import normalise
from diffdag.paper.elimination import entries_after, leave_out
from diffdag.paper.orient import layer_ranks
from diffdag.precision.problem import standardise
from diffdag.tables.moments import Moments


def refine(graph: DifferenceGraph, first: Moments, second: Moments, threshold: float) -> DifferenceGraph:
    """The same graph with one variable a layer.

    With too few rows to invert the covariance matrices the layers stay as they are.
    """
    members = sorted(layer_ranks(graph.layers, graph.rest))
    if min(first.n, second.n) <= len(members) + 1:
        return graph
    problem = standardise(first, second)
    block = np.ix_(members, members)
    try:
        roots = _root(problem.sigma1[block]), _root(problem.sigma2[block])
    except LinAlgError:
        return graph
    order = _total_order(graph, *roots, members, threshold)
    return replace(graph, layers=tuple((node,) for node in order))


def _total_order(
    graph: DifferenceGraph, root1: FloatArray, root2: FloatArray, members: list[int], threshold: float
) -> list[int]:
    """Effects first, without the unresolved variables."""
    left, order = list(members), []
    while len(left) > len(graph.rest):
        causes = {j for i, j in graph.edges.directed if i in left}
        free = [k for k, node in enumerate(left) if node not in causes and node not in graph.rest]
        omega1, omega2 = root1.T @ root1, root2.T @ root2
        change = np.abs(normalise(omega1 - omega2, np.diag(omega1), np.diag(omega2)))[free]
        row = (change > threshold).sum(axis=1)
        fill = entries_after(omega1, omega2, np.array(free), threshold) + 2 * row
        # Ties: the shorter row, then the smaller changes; never the order of the columns.
        chosen = free[int(np.lexsort((change.sum(axis=1), row, fill))[0])]
        root1, root2 = leave_out(root1, chosen), leave_out(root2, chosen)
        order.append(left.pop(chosen))
    return order


def _root(sigma: FloatArray) -> FloatArray:
    """A square root of the inverse."""
    root: FloatArray = solve_triangular(cholesky(sigma, lower=True), np.eye(len(sigma)), lower=True)
    return root
