"""The weight of an edge in both conditions: least squares on the predecessors, from moments alone.

Along a causal order a structural equation is a regression of the variable on all that precede it, so the
coefficients are the weights and their usual standard errors apply. Both are in the user's units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from diffdag.moments import Moments

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Regression:
    """Coefficients of one variable on its predecessors, and their standard errors."""

    coefficients: FloatArray
    stderrs: FloatArray


def regress(moments: Moments, target: int, predecessors: Sequence[int]) -> Regression:
    """Least squares with intercept; needs more rows than predecessors + 1.

    Examples
    --------
    >>> fit = regress(Moments.from_array([[0, 1], [1, 3], [2, 5], [3, 7.5]]), 1, [0])
    >>> fit.coefficients.round(3), fit.stderrs.round(3)
    (array([2.15]), array([0.087]))
    """
    index = list(predecessors)
    scale = np.sqrt(np.diag(moments.scatter))
    gram = moments.scatter[np.ix_(index, index)] / np.outer(scale[index], scale[index])
    cross = moments.scatter[index, target] / (scale[index] * scale[target])
    factor = cho_factor(gram)
    beta = cho_solve(factor, cross)
    freedom = moments.n - len(index) - 1
    unexplained = max(0.0, 1.0 - float(cross @ beta)) / freedom
    stderrs = np.sqrt(unexplained * np.diag(cho_solve(factor, np.eye(len(index)))))
    units = scale[target] / scale[index]
    return Regression(beta * units, stderrs * units)
