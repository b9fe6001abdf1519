"""The plug-in difference: invert both covariance matrices and subtract. Needs more rows than variables."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import csr_array

from diffdag._base.arrays import FloatArray
from diffdag._base.errors import InputError
from diffdag.precision.problem import DifferenceProblem, Solution
from diffdag.precision.scan import peaks


def solve_plugin(problem: DifferenceProblem) -> Solution:
    """``Sigma1^-1 - Sigma2^-1``; the penalty is not used."""
    delta = csr_array(_inverse(problem.sigma1, "first") - _inverse(problem.sigma2, "second"))
    worst = peaks(problem.residual_blocks(delta), problem.p).largest
    return Solution(delta, float(np.abs(delta.data).sum()), worst, 0.0, 1, True)


def _inverse(sigma: FloatArray, label: str) -> FloatArray:
    try:
        inverse: FloatArray = cho_solve(cho_factor(sigma), np.eye(len(sigma)))
    except LinAlgError:
        raise InputError(
            f"the covariance matrix of the {label} table is singular (fewer rows than variables, or "
            "dependent columns); use the estimator 'dantzig' or 'dtrace'"
        ) from None
    return (inverse + inverse.T) / 2
