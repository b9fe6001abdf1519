"""Pruning without a search over sets: eliminate sinks one at a time and see which entries vanish.

The sets over which `prune` looks are exponentially many, and Table 1 of the paper (p = 100, 4000 edges)
cannot be run that way. But every elimination of one sink after another visits a chain of sets over which
the entry of a changed edge is not zero (Assumption 1), so any entry that vanishes on the way is not a
change. Among the sinks the one is taken whose removal adds the fewest and removes the most entries between
other variables (net fill). Chance, and the length of its row, decide between sinks that are about as good:
a few eliminations then find what one has missed.

Each elimination acts on square roots ``M`` of the precision matrices, ``Omega = M' M``: leaving out a
variable projects the other columns of ``M`` on the complement of its own, by a Householder reflection.

`refine` gives a total order that refines the recovered layers, for the regressions behind the weights. Layers
order the *changes*. An unchanged cause of a variable often lies in the same layer, an unchanged
effect in a later one, and a regression without the one or with the other does not give structural weights.
So the changes are followed to a total order by the rule above: take out sinks of the difference
DAG one at a time, always the one that leaves the fewest changed entries among the others. Taking a variable
out before its effects, or after its causes, would spread its change to them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from diffdag._base.arrays import FloatArray
from diffdag.paper.differences import ExactDifferences, Members, normalise
from diffdag.paper.graph import DifferenceGraph, EdgeSet, layer_ranks
from diffdag.precision.problem import standardise
from diffdag.tables.moments import Moments

REPEATS = 8


def prune_by_elimination(
    edges: EdgeSet, differences: ExactDifferences, members: Members, threshold: float
) -> EdgeSet:
    """Drop the edges whose entry vanishes in one of several eliminations of `members`."""
    rng = np.random.default_rng(0)
    alive = np.ones((differences.p, differences.p), bool)
    for _ in range(REPEATS):
        _eliminate(*differences.root_over(members), list(members), threshold, alive, rng)
    return EdgeSet(
        frozenset(edge for edge in edges.directed if alive[edge]),
        frozenset(edge for edge in edges.undirected if alive[edge]),
    )


def _eliminate(
    root1: FloatArray,
    root2: FloatArray,
    left: list[int],
    threshold: float,
    alive: NDArray[np.bool_],
    rng: np.random.Generator,
) -> None:
    """Eliminate sinks until none is left; strike out in `alive` what vanishes on the way."""
    while left:
        omega1, omega2 = root1.T @ root1, root2.T @ root2
        delta = normalise(omega1 - omega2, np.diag(omega1), np.diag(omega2))
        present = np.abs(delta) > threshold
        alive[np.ix_(left, left)] &= present
        sinks = np.flatnonzero(~np.diag(present))
        if sinks.size == 0:
            return
        row = present[sinks].sum(axis=1)
        # Entries that appear minus entries that vanish between other variables, up to a constant.
        fill = entries_after(omega1, omega2, sinks, threshold) + 2 * row
        chosen = int(sinks[np.argmin(fill + row / (len(left) + 1) + rng.random(sinks.size))])
        root1, root2 = leave_out(root1, chosen), leave_out(root2, chosen)
        del left[chosen]


def entries_after(
    omega1: FloatArray, omega2: FloatArray, sinks: NDArray[np.intp], threshold: float
) -> NDArray[np.intp]:
    """For each sink, the number of entries between other variables that its removal leaves."""
    scale = (np.diag(omega1) * np.diag(omega2)) ** 0.25
    rows1, rows2 = (omega[sinks] / np.sqrt(omega[sinks, sinks])[:, None] for omega in (omega1, omega2))
    change = rows1[:, :, None] * rows1[:, None, :] - rows2[:, :, None] * rows2[:, None, :]
    after = np.abs((omega1 - omega2) - change) > threshold * np.outer(scale, scale)
    own = np.arange(len(sinks))
    after[own, sinks, :] = after[own, :, sinks] = False
    counts: NDArray[np.intp] = after.sum(axis=(1, 2))
    return counts


def leave_out(root: FloatArray, column: int) -> FloatArray:
    """The square root of the precision matrix of the other variables."""
    reflector = root[:, column].copy()
    reflector[0] += np.copysign(np.linalg.norm(reflector), reflector[0])
    others = np.delete(root, column, axis=1)
    others -= np.outer(reflector, (2 / (reflector @ reflector)) * (reflector @ others))
    return others[1:]


def refine(graph: DifferenceGraph, first: Moments, second: Moments, threshold: float) -> DifferenceGraph:
    """Split the layers of a graph until each holds one variable.

    With too few rows to invert the covariance matrices the layers stay as they are.
    """
    members = sorted(layer_ranks(graph.layers, graph.rest))
    if min(first.n, second.n) <= len(members) + 1:
        return graph
    problem = standardise(first, second)
    block = np.ix_(members, members)
    try:
        root1, root2 = _root(problem.sigma1[block]), _root(problem.sigma2[block])
    except LinAlgError:
        return graph
    left, layers = members, []  # effects first, without the unresolved variables
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
        layers.append((left.pop(chosen),))
    return replace(graph, layers=tuple(layers))


def _root(sigma: FloatArray) -> FloatArray:
    """A square root of the inverse."""
    return solve_triangular(cholesky(sigma, lower=True), np.eye(len(sigma)), lower=True)
