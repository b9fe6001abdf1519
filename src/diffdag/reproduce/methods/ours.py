"""The methods of this package in the form of the comparators: the order search and Algorithm 1 of the paper."""

from __future__ import annotations

from functools import partial
from typing import Any

from diffdag._base.arrays import BoolArray
from diffdag.pipeline import ModelOptions, prepare_moments, search
from diffdag.reproduce.methods.method import Method
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


PAPER = partial(fit, method="paper")  # with the default threshold, which falls with the number of rows
FIXED = partial(PAPER, penalty="rate:0.3", threshold=0.1)  # whatever the number of rows
METHODS = (
    Method("order", "order search by a joint score, the default of diffdag", fit),
    Method("paper", "Algorithm 1 of Ghoshal, Bello and Honorio, by its linear programme", PAPER, most=60),
    Method("paper-fixed", "Algorithm 1 with epsilon = 0.1 and a larger penalty", FIXED, most=60),
)
