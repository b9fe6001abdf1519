"""The estimators of the precision difference as methods: every large entry off the diagonal is an edge.

They estimate the difference of two moral graphs, without directions. That has more edges than the difference
DAG: the parents of a variable whose equation changed differ among each other, too. So the skeleton of the
result is a superset of what changed, even with exact covariances; Algorithm 1 turns it into a difference DAG.

Entries are on the scale of partial correlations (`diffdag.paper.differences`); the penalty and the threshold
are the defaults of Algorithm 1 (`diffdag.paper.defaults`). Estimators: Zhao, Cai and Li (2014) by a linear
programme, Yuan et al. (2017) for D-trace, Liu et al. (2017) for KLIEP, and the difference of the two inverses.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from diffdag._base.arrays import BoolArray
from diffdag.paper.defaults import default_penalty, default_threshold
from diffdag.paper.differences import SampleDifferences
from diffdag.precision.api import precision_difference
from diffdag.reproduce.methods.method import Method, same_variables
from diffdag.tables.moments import Moments

ABOUT = {
    "dantzig": "undirected: precision difference by a linear programme, of Zhao, Cai and Li",
    "dtrace": "undirected: precision difference by the D-trace loss, of Yuan et al.",
    "kliep": "undirected: precision difference by the density ratio (KLIEP), of Liu et al.",
    "plugin": "undirected: difference of the two inverse covariance matrices",
}


def precision_graph(first: Moments, second: Moments, *, estimator: str) -> BoolArray:
    """Undirected edges where the estimated precision difference exceeds the default threshold."""
    second = same_variables(first, second)
    penalty, _ = default_penalty(first, second)
    found = precision_difference(first, second, method=estimator, penalty=penalty)
    p = len(first.names)
    entries = SampleDifferences(first, second, found).over(range(p))
    graph: BoolArray = np.abs(entries) > default_threshold(p, min(first.n, second.n))
    np.fill_diagonal(graph, False)
    return graph


METHODS = tuple(
    Method(name, about, partial(precision_graph, estimator=name), directs=False)
    for name, about in ABOUT.items()
)
