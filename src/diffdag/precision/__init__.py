"""From two sets of moments to the difference of the precision matrices, sparse if so asked."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from diffdag.moments import Moments
from diffdag.precision.dantzig import solve_dantzig
from diffdag.precision.dtrace import solve_dtrace
from diffdag.precision.kliep import solve_kliep
from diffdag.precision.plugin import solve_plugin
from diffdag.precision.problem import (
    DifferenceProblem,
    FloatArray,
    Penalty,
    Solution,
    pooled_units,
    resolve_penalty,
    standardise,
)
from diffdag.validation import DiffDagWarning, InputError, join_names

__all__ = [
    "ESTIMATORS",
    "Penalty",
    "PrecisionDifference",
    "precision_difference",
    "symmetrise",
]

ESTIMATORS: dict[str, Callable[[DifferenceProblem], Solution]] = {
    "dantzig": solve_dantzig,
    "dtrace": solve_dtrace,
    "kliep": solve_kliep,
    "plugin": solve_plugin,
}


@dataclass(frozen=True, eq=False)
class PrecisionDifference:
    """An estimate of ``Omega1 - Omega2`` and its certificate.

    Attributes
    ----------
    matrix : ndarray, shape (p, p)
        The estimate in the user's units, symmetric.
    names : tuple of str
    method : str
    penalty : float
        Penalty used, as a fraction of `penalty_max`.
    penalty_max : float
        The smallest absolute penalty that gives zero, on the standardised scale.
    objective : float
        Optimal value on the standardised scale, before symmetrising.
    violation : float
        How far the worst constraint is broken.
    gap : float
        Relative primal-dual gap.
    iterations : int
    converged : bool
    """

    matrix: FloatArray
    names: tuple[str, ...]
    method: str
    penalty: float
    penalty_max: float
    objective: float
    violation: float
    gap: float
    iterations: int
    converged: bool


def precision_difference(
    first: Moments, second: Moments, *, method: str = "dantzig", penalty: Penalty = 0.3
) -> PrecisionDifference:
    """Estimate ``Omega1 - Omega2`` from the moments of two tables.

    Parameters
    ----------
    first, second : Moments
        Moments of the two tables, over the same variables.
    method : {"dantzig", "dtrace", "kliep", "plugin"}
        ``dantzig`` is the paper's linear programme, ``dtrace`` a lasso-type quadratic programme, ``kliep`` a
        sparse ratio of the two Gaussian densities, ``plugin`` the difference of the two inverses.
    penalty : float or str
        A fraction of the smallest penalty that gives zero, or ``"rate:c"`` for the paper's ``c sqrt(log p /
        n)`` with ``n`` the smaller number of rows. ``plugin`` does not use it.

    Returns
    -------
    PrecisionDifference
        The matrix in the user's units, with a certificate: objective, violation, gap, iterations.

    Examples
    --------
    >>> import diffdag as dd
    >>> pair = dd.simulate_pair(p=5, neighbours=2, changes=1, rng=1)
    >>> m1 = dd.Moments.from_array(pair.first.sample(2000, rng=2))
    >>> m2 = dd.Moments.from_array(pair.second.sample(2000, rng=3))
    >>> answer = dd.precision_difference(m1, m2, method="dantzig", penalty=0.3)
    >>> answer.matrix.shape, answer.violation < 1e-6, answer.gap < 1e-6
    ((5, 5), True, True)
    """
    if method not in ESTIMATORS:
        raise InputError(f"estimator must be one of {', '.join(ESTIMATORS)}; it is {method!r}")
    if first.names != second.names:
        second = second.select(first.names)
    units = pooled_units(first, second)
    constant = [name for name, size in zip(first.names, np.diag(units), strict=True) if not size > 0]
    if constant:
        raise InputError(f"constant in both tables: {join_names(constant)}; drop them or check the export")
    problem = standardise(first, second)
    largest = problem.penalty_max
    absolute = resolve_penalty(penalty, largest, len(units), min(first.n, second.n))
    solution = ESTIMATORS[method](replace(problem, penalty=absolute))
    _warn_unless_converged(method, solution)
    return PrecisionDifference(
        matrix=symmetrise(solution.delta.toarray()) / units,
        names=first.names,
        method=method,
        penalty=absolute / largest if largest > 0 else 0.0,
        penalty_max=largest,
        objective=solution.objective,
        violation=solution.violation,
        gap=solution.gap,
        iterations=solution.iterations,
        converged=solution.converged,
    )


def _warn_unless_converged(method: str, solution: Solution) -> None:
    """Tell the user when a solver stopped early, and what to do about it."""
    if not solution.converged:
        warnings.warn(
            f"{method} stopped after {solution.iterations} iterations with violation {solution.violation:.1e} "
            f"and gap {solution.gap:.1e}; use a larger penalty (with fewer rows than variables a small one "
            "allows no solution)",
            DiffDagWarning,
            stacklevel=3,
        )


def symmetrise(delta: FloatArray) -> FloatArray:
    """Of each pair of mirrored entries keep the smaller one, as Cai, Liu and Luo (2011) do for CLIME."""
    size = np.abs(delta)
    smaller: FloatArray = np.where(size < size.T, delta, delta.T)
    return np.where(size == size.T, (delta + delta.T) / 2, smaller)
