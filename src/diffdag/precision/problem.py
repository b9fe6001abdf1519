"""The problem every estimator of the precision difference receives, and the solution it returns.

With ``Delta = Omega1 - Omega2`` the covariances satisfy ``Sigma1 Delta Sigma2 = Sigma2 - Sigma1`` (Zhao,
Cai and Li 2014; the display in section 3.1 of the paper has a slip here). The sparse estimators bound the
residual of this identity by a penalty ``lambda``. Everything is solved on the standardised scale: each
variable is divided by its pooled scale, the square root of the mean of its two variances, so that units do
not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from diffdag.moments import Moments
from diffdag.validation import InputError

FloatArray = NDArray[np.float64]
Penalty = float | str


@dataclass(frozen=True, eq=False)
class DifferenceProblem:
    """Two standardised covariance matrices and the absolute penalty."""

    sigma1: FloatArray
    sigma2: FloatArray
    penalty: float

    @cached_property
    def target(self) -> FloatArray:
        """``Sigma2 - Sigma1``, the right-hand side of the identity."""
        target: FloatArray = self.sigma2 - self.sigma1
        return target

    @property
    def penalty_max(self) -> float:
        """The smallest penalty at which the answer is zero: the largest entry of the target."""
        return float(np.abs(self.target).max())

    def residual(self, delta: csr_array) -> FloatArray:
        """``Sigma1 Delta Sigma2 - (Sigma2 - Sigma1)`` by two thin products."""
        residual: FloatArray = sandwich(self.sigma1, delta, self.sigma2) - self.target
        return residual

    def violation(self, residual: FloatArray) -> float:
        """How far the worst constraint ``|residual| <= penalty`` is broken."""
        return max(0.0, float(np.abs(residual).max()) - self.penalty)


@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver found on the standardised scale, with its certificate."""

    delta: csr_array
    objective: float
    violation: float
    gap: float
    iterations: int
    converged: bool


def sandwich(left: FloatArray, middle: csr_array, right: FloatArray) -> FloatArray:
    """``left @ middle @ right`` for a sparse middle, touching only its non-empty rows and columns."""
    entries = middle.tocoo()
    rows, columns = np.unique(entries.row), np.unique(entries.col)
    core = middle[rows][:, columns].toarray()
    product: FloatArray = left[:, rows] @ (core @ right[columns])
    return product


def pooled_units(first: Moments, second: Moments) -> FloatArray:
    """Products of the pooled scales of each pair of variables.

    The pooled scale of a variable is the square root of the mean of its two variances.
    """
    scale = np.sqrt((np.diag(first.scatter) / first.n + np.diag(second.scatter) / second.n) / 2)
    return np.outer(scale, scale)


def standardise(first: Moments, second: Moments, penalty: float = 0.0) -> DifferenceProblem:
    """The problem for the moments of two tables, each variable divided by its pooled scale."""
    units = pooled_units(first, second)
    return DifferenceProblem(first.covariance() / units, second.covariance() / units, penalty)


def resolve_penalty(penalty: Penalty, penalty_max: float, p: int, n: int) -> float:
    """The absolute penalty meant by a fraction of `penalty_max` or by ``"rate:c"``, ``c sqrt(log p / n)``."""
    if isinstance(penalty, str):
        head, _, constant = penalty.partition(":")
        try:
            rate = float(constant)
        except ValueError:
            rate = -1.0
        if head != "rate" or not (math.isfinite(rate) and rate >= 0):
            raise InputError(
                f"penalty {penalty!r} is not understood; give a fraction such as 0.3, or 'rate:0.3'"
            )
        return rate * math.sqrt(math.log(p) / n)
    if not isinstance(penalty, (int, float, np.number)) or not 0 <= penalty < math.inf:
        raise InputError(f"penalty is a fraction of penalty_max, 0 or larger; it is {penalty!r}")
    return float(penalty) * penalty_max
