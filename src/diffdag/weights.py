"""The weight of an edge in both conditions: least squares on the predecessors, from moments alone.

Along a causal order a structural equation is a regression of the variable on all that precede it, so the
coefficients are the weights and their usual standard errors apply. Both are in the user's units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from diffdag.moments import Moments

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Regression:
    """Coefficients of one variable on its predecessors, and their standard errors."""

    coefficients: FloatArray
    stderrs: FloatArray


def regress(moments: Moments, target: int, predecessors: Sequence[int]) -> Regression | None:
    """Least squares with intercept; None if there are too few rows, or the predecessors are dependent.

    Examples
    --------
    >>> fit = regress(Moments.from_array([[0, 1], [1, 3], [2, 5], [3, 7.5]]), 1, [0])
    >>> fit.coefficients.round(3), fit.stderrs.round(3)
    (array([2.15]), array([0.087]))
    """
    index = list(predecessors)
    freedom = moments.n - len(index) - 1
    if freedom < 1:
        return None
    scale = np.sqrt(np.diag(moments.scatter))
    gram = moments.scatter[np.ix_(index, index)] / np.outer(scale[index], scale[index])
    cross = moments.scatter[index, target] / (scale[index] * scale[target])
    try:
        factor = cho_factor(gram)
    except LinAlgError:
        return None
    beta = cho_solve(factor, cross)
    unexplained = max(0.0, 1.0 - float(cross @ beta)) / freedom
    stderrs = np.sqrt(unexplained * np.diag(cho_solve(factor, np.eye(len(index)))))
    units = scale[target] / scale[index]
    return Regression(beta * units, stderrs * units)
