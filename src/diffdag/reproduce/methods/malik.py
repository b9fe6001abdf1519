"""Differences of linear models layer by layer (Malik, Bello, Ghoshal and Honorio, UAI 2024).

*Identifying causal changes between linear structural equation models.* A variable none of whose effects on
others changed has the same diagonal entry in both precision matrices. Over the variables that are left:

1. estimate the precision difference ``D``, by the D-trace loss;
2. those with a zero ``D[i, i]`` are terminal: ``i <- j`` for each other ``j`` with ``D[i, j]`` not zero;
3. take all terminal variables away at once, and go on with the rest.

Two terminal variables have no edge. This gives the difference DAG with exact covariances if the layers of the
difference DAG are layers of the union of both graphs as well, and noise variances are those of the other
condition; dense graphs break the first. Where no variable is terminal it stops.

Written from the abstract and from a public implementation by others; the paper's own text was not to be had.
Where this differs from that implementation: D-trace is solved to its optimum, on standardised variables, and
zero is a fraction of the largest entry met so far, not of the round's: the last rounds are all noise. Penalty
and fraction are the best of a
grid on tuning seeds (docs/neighbours.md).
"""

from __future__ import annotations

import numpy as np

from diffdag._base.arrays import BoolArray
from diffdag.precision.api import precision_difference
from diffdag.reproduce.methods.method import Method, same_variables
from diffdag.tables.moments import Moments

PENALTY = "rate:0.1"
FRACTION = 0.1  # of the largest entry: what is smaller counts as zero


def malik(first: Moments, second: Moments, penalty: str = PENALTY, fraction: float = FRACTION) -> BoolArray:
    """The difference DAG, terminal variables first; edges among those that are left stay unknown."""
    second = same_variables(first, second, 3, "; precision differences need 3 or more")
    scale = np.sqrt(np.diag(first.covariance()) + np.diag(second.covariance()))
    graph = np.zeros((len(scale),) * 2, bool)
    left, zero = np.arange(len(scale)), 0.0
    while len(left) > 1:
        names = [first.names[k] for k in left]
        found = precision_difference(
            first.select(names), second.select(names), method="dtrace", penalty=penalty
        )
        size = np.abs(found.matrix) * scale[left, None] * scale[left]
        zero = max(zero, fraction * float(size.max()))  # of all rounds, or the last ones would find noise
        terminal = np.diag(size) <= zero
        if not terminal.any() or not zero:
            break
        edges = (size > zero) & terminal[:, None] & ~terminal
        graph[np.ix_(left, left)] |= edges
        left = left[~terminal]
    return graph


METHODS = (Method("malik", "terminal layers of the precision difference, Malik et al. 2024", malik, most=60),)
