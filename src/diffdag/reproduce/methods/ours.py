"""The methods of this package in the form of the comparators: the order search and Algorithm 1 of the paper."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag.estimator import DifferenceDAG
from diffdag.pipeline import ModelOptions, prepare_moments, search
from diffdag.reproduce.methods.method import Method, NodeMethod, Ranking
from diffdag.reproduce.scoring import graph_of
from diffdag.results.difference import Difference
from diffdag.tables.moments import Moments


def result_graph(result: Difference) -> BoolArray:
    """The edges of a result as a matrix."""
    edges = ((edge.source, edge.target, edge.directed) for edge in result.edge_list)
    return graph_of(result.variables, edges)


def fit(first: Moments, second: Moments, **parameters: Any) -> BoolArray:
    """`DifferenceDAG` with these parameters, on one core."""
    options = ModelOptions(**parameters)
    return result_graph(search(prepare_moments(first, second, options), options).difference)


def nodes(first: FloatArray, second: FloatArray, *, listed: bool = False) -> Ranking:
    """`DifferenceResult.nodes` of two tables: its order, and the variables with a q-value of at most 5 %.

    With `listed` the set is that of the variables of which the result lists a change.
    """
    result = DifferenceDAG().fit(first, second).result_
    place = {name: k for k, name in enumerate(result.variables)}
    ranked = [node for node in result.node_list if node.variable in place]
    scores, changed = np.zeros(len(place)), np.zeros(len(place), bool)
    for k, node in enumerate(ranked):
        sure = node.qvalue is not None and node.qvalue <= RATE
        scores[place[node.variable]] = len(ranked) - k
        changed[place[node.variable]] = node.changed if listed else sure
    return Ranking(scores, changed)


RATE = 0.05  # of false discoveries among variables
PAPER = partial(fit, method="paper")  # with the default threshold, which falls with the number of rows
FIXED = partial(PAPER, penalty="rate:0.3", threshold=0.1)  # whatever the number of rows
METHODS = (
    Method("order", "order search by a joint score, the default of diffdag", fit),
    Method("paper", "Algorithm 1 of Ghoshal, Bello and Honorio, by its linear programme", PAPER, most=60),
    Method("paper-fixed", "Algorithm 1 with epsilon = 0.1 and a larger penalty", FIXED, most=60),
)
NODE_METHODS = (
    NodeMethod(
        "order", "variables of `result.nodes` with a q-value of at most 5 %, the default", nodes, "rows"
    ),
    NodeMethod(
        "order-listed", "variables of which the result lists a change", partial(nodes, listed=True), "rows"
    ),
)
