"""From two sets of moments to the difference of the precision matrices, sparse if so asked."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scipy.sparse import csr_array

from diffdag._base.arrays import FloatArray
from diffdag._base.checks import check_option
from diffdag._base.errors import DiffDagWarning, InputError, NoSolutionWarning
from diffdag._base.parallel import one_blas_thread
from diffdag.precision.dantzig import solve_dantzig
from diffdag.precision.dtrace import solve_dtrace
from diffdag.precision.kliep import solve_kliep
from diffdag.precision.plugin import solve_plugin
from diffdag.precision.problem import (
    Penalty,
    Solution,
    SparseProblem,
    pooled_scale,
    resolve_penalty,
    standardise,
)
from diffdag.precision.rows import standardise_rows
from diffdag.tables.align import align_tables
from diffdag.tables.moments import Moments, check_comparable
from diffdag.tables.problems import check_varies

__all__ = ["ESTIMATORS", "Penalty", "PrecisionDifference", "precision_difference", "symmetrise"]

ESTIMATORS: dict[str, Callable[[Any], Solution]] = {
    "dantzig": solve_dantzig,
    "dtrace": solve_dtrace,
    "kliep": solve_kliep,
    "plugin": solve_plugin,
}
SPARSE = ("dantzig", "dtrace")  # those that see a problem through `SparseProblem` only


@dataclass(frozen=True, eq=False)
class PrecisionDifference:
    """An estimate of ``Omega1 - Omega2``, with the certificate of the solution that it was made from.

    `entries` and `matrix` are symmetrised (see `symmetrise`) and in the user's units; `objective`, `violation`
    and `gap` are of the solution before that, on the standardised scale, and do not follow from the matrix.
    """

    entries: csr_array  # in the user's units, symmetric
    names: tuple[str, ...]
    method: str
    penalty: float  # used, as a fraction of the next
    penalty_max: float  # the smallest absolute penalty that gives zero
    objective: float  # optimal value
    violation: float  # how far the worst constraint is broken
    gap: float  # relative, primal-dual
    iterations: int
    converged: bool
    # Where it was proved that the constraints contradict each other, so that there is no estimate: a fraction
    # of `penalty_max` below which that is so. 0 where there is an estimate, or nothing was proved.
    least_penalty: float = 0.0

    @cached_property
    def matrix(self) -> FloatArray:
        """The estimate with its zeros."""
        matrix: FloatArray = self.entries.toarray()
        return matrix


def precision_difference(
    first: Moments | FloatArray,
    second: Moments | FloatArray,
    *,
    method: str = "dantzig",
    penalty: Penalty = 0.3,
) -> PrecisionDifference:
    """Estimate ``Omega1 - Omega2`` from the moments of two tables, or from tables wider than long.

    Parameters
    ----------
    first, second : Moments, or arrays of shape (n1, p) and (n2, p)
        Moments of the two tables, over the same variables; or the tables. If they have fewer rows, together,
        than variables, no p x p matrix is formed (``dantzig`` and ``dtrace``): use `entries` of the estimate.
    method : {"dantzig", "dtrace", "kliep", "plugin"}, default "dantzig"
        ``dantzig`` is the paper's linear programme, ``dtrace`` a lasso-type quadratic programme, ``kliep`` a
        sparse ratio of the two Gaussian densities, ``plugin`` the difference of the two inverses. With the
        tables swapped the estimate has the other sign; not so for ``kliep``, which takes the second density as
        known.
    penalty : float or str, default 0.3
        A fraction of the smallest penalty that gives zero, or ``"rate:c"`` for the paper's ``c sqrt(log p /
        n)`` with ``n`` the smaller number of rows. ``plugin`` does not use it.

    Returns
    -------
    PrecisionDifference
        The matrix in the user's units, symmetrised after solving, with a certificate of the solution before
        that, on standardised variables: objective, violation, gap, iterations.

    See Also
    --------
    DifferenceDAG : with ``method="paper"`` reads a difference DAG off such estimates.

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
    check_option("estimator", method, tuple(ESTIMATORS))
    with one_blas_thread():
        problem, names, scale, rows = _problem(first, second, method)
        largest = problem.penalty_max
        absolute = resolve_penalty(penalty, largest, len(scale), rows)
        solution = ESTIMATORS[method](problem.at_penalty(absolute))
    share = 1 / largest if largest > 0 else 0.0
    _warn_unless_converged(method, solution, share)
    found = symmetrise(solution.delta).tocoo()
    found.data /= scale[found.row] * scale[found.col]
    return PrecisionDifference(
        entries=csr_array(found),
        names=names,
        method=method,
        penalty=absolute * share,
        penalty_max=largest,
        objective=solution.objective,
        violation=solution.violation,
        gap=solution.gap,
        iterations=solution.iterations,
        converged=solution.converged,
        least_penalty=solution.least_penalty * share,
    )


def _problem(
    first: Moments | FloatArray, second: Moments | FloatArray, method: str
) -> tuple[SparseProblem, tuple[str, ...], FloatArray, int]:
    """The problem, the names, their pooled scales, and the smaller number of rows."""
    if isinstance(first, Moments) != isinstance(second, Moments):
        raise InputError("one of the two is a table and the other moments; give two of a kind")
    if not isinstance(first, Moments) or not isinstance(second, Moments):
        tables = align_tables(first, second)
        n1, n2 = len(tables.first), len(tables.second)
        if method in SPARSE and n1 + n2 < len(tables.names):
            wide, scale = standardise_rows(tables.first, tables.second)
            return wide, tables.names, scale, min(n1, n2)
        first, second = (Moments.from_array(table, tables.names) for table in (tables.first, tables.second))
    if first.names != second.names:
        second = second.select(first.names)
    scale = pooled_scale(first, second)
    for moments, label in ((first, "first"), (second, "second")):
        check_varies(moments.names, ~(moments.scatter.diagonal() > 0), label)
    check_comparable(first, second)
    return standardise(first, second), first.names, scale, min(first.n, second.n)


def _warn_unless_converged(method: str, solution: Solution, share: float) -> None:
    """Warn where there is no solution, or a solver stopped early; `share` is the inverse of `penalty_max`."""
    if solution.least_penalty:
        least = math.ceil(1e4 * solution.least_penalty * share) / 1e4
        warnings.warn(
            f"no difference meets the constraints of {method} at this penalty, which is proved: with fewer "
            "rows than variables, or dependent columns, a small one allows no solution; use a larger penalty, "
            f"at least {least:g} of the one that gives no change",
            NoSolutionWarning,
            stacklevel=3,
        )
    elif not solution.converged:
        warnings.warn(
            f"{method} stopped after {solution.iterations} iterations with violation {solution.violation:.1e} "
            f"and gap {solution.gap:.1e}; use a larger penalty (with fewer rows than variables a small one "
            "allows no solution)",
            DiffDagWarning,
            stacklevel=3,
        )


def symmetrise(delta: csr_array) -> csr_array:
    """Of each pair of mirrored entries keep the smaller one, as Cai, Liu and Luo (2011) do for CLIME."""
    mirrored = csr_array(delta.T)
    less, more = abs(delta) < abs(mirrored), abs(delta) > abs(mirrored)
    mean = (delta + mirrored) / 2
    result = csr_array(delta.multiply(less) + mirrored.multiply(more) + mean - mean.multiply(less + more))
    result.eliminate_zeros()
    return result
