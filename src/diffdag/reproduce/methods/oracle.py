"""The ceiling: what tests of coefficients find when a causal order is known.

Along a causal order every structural equation is a regression of a variable on all that precede it. An oracle
that is told such an order fits these regressions in each table and reports the coefficients whose difference is
significant at 5 % after Bonferroni's correction for all pairs of variables.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from diffdag._base.arrays import BoolArray
from diffdag._base.errors import InputError
from diffdag.model.regression import Regression, regress
from diffdag.reproduce.methods.method import Method, same_variables
from diffdag.tables.moments import Moments

LEVEL = 0.05


def oracle(first: Moments, second: Moments, order: Sequence[int]) -> BoolArray:
    """Changed coefficients along a causal order of the columns of the first, which holds in both conditions."""
    second = same_variables(first, second)
    p = len(first.names)
    graph = np.zeros((p, p), bool)
    if sorted(order) != list(range(p)):
        raise InputError(f"order must name each of the {p} columns once, by its number; it is {list(order)}")
    pairs = p * (p - 1) / 2
    for k, target in enumerate(order[1:], start=1):
        before, after = (
            _fit(moments, target, order[:k], label) for moments, label in ((first, "first"), (second, "second"))
        )
        z = (before.coefficients - after.coefficients) / np.hypot(before.stderrs, after.stderrs)
        graph[target, list(order[:k])] = 2 * ndtr(-np.abs(z)) * pairs < LEVEL
    return graph


def _fit(moments: Moments, target: int, predecessors: Sequence[int], label: str) -> Regression:
    fit = regress(moments, target, predecessors)
    if fit is None:
        raise InputError(
            f"'{moments.names[target]}' cannot be regressed on its {len(predecessors)} predecessors in the "
            f"{label} table of {moments.n} rows; use more rows, or drop columns that depend on others"
        )
    return fit


ABOUT = "z-tests of coefficients along the true causal order, the ceiling"
METHODS = (Method("oracle", ABOUT, oracle, knows_order=True),)
