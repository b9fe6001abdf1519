"""D-trace difference: a lasso-type quadratic programme solved on working sets.

    minimise  1/2 <Delta, Sigma1 Delta Sigma2> - <Delta, Sigma2 - Sigma1> + lambda |Delta|_1

(Yuan, Xi, Chen and Deng 2017, before symmetrising.) The gradient of the smooth part is the residual of the
identity, so at the optimum ``|residual| <= lambda`` everywhere, with equality and opposite sign on the
support. Only a working set of entries is optimised at a time; its Gram matrix holds products of two
covariances, and the full gradient is two thin products.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import csr_array

from diffdag.precision.problem import DifferenceProblem, FloatArray, Solution

IntArray = NDArray[np.intp]
MAX_ROUNDS = 200
MAX_SWEEPS = 2_000
GAP = 1e-6


def solve_dtrace(
    problem: DifferenceProblem,
    tolerance: float = 1e-8,
    max_rounds: int = MAX_ROUNDS,
    max_sweeps: int = MAX_SWEEPS,
    patience: int = 2,
) -> Solution:
    """Solve by working sets; the KKT residual is the certificate.

    With singular matrices and a small penalty the objective has no minimum. So the search ends when `patience`
    working sets one after another could not be solved.
    """
    p = len(problem.sigma1)
    rows: IntArray = np.zeros(0, np.intp)
    columns: IntArray = np.zeros(0, np.intp)
    values: FloatArray = np.zeros(0)
    delta = csr_array((p, p))
    residual: FloatArray = -problem.target
    rounds = 0
    stalled = 0
    while problem.violation(residual) > tolerance and rounds < max_rounds and stalled < patience:
        rounds += 1
        rows, columns, values = _grow(problem, residual, rows, columns, values)
        values, solved = _solve_on(problem, rows, columns, values, tolerance / 10, max_sweeps)
        stalled = 0 if solved else stalled + 1
        delta = csr_array((values, (rows, columns)), shape=(p, p))
        delta.eliminate_zeros()
        residual = problem.residual(delta)
    violation = problem.violation(residual)
    objective = _objective(problem, delta, residual)
    gap = _gap(problem, delta, residual) / max(1e-9, abs(objective))
    return Solution(delta, objective, violation, gap, rounds, violation <= tolerance and gap <= GAP)


def _objective(problem: DifferenceProblem, delta: csr_array, residual: FloatArray) -> float:
    """``1/2 <Delta, H Delta> - <Delta, b> + lambda |Delta|_1`` with ``H Delta = residual + b``."""
    smooth = 0.5 * float(delta.multiply(residual - problem.target).sum())
    return smooth + problem.penalty * float(np.abs(delta.data).sum())


def _gap(problem: DifferenceProblem, delta: csr_array, residual: FloatArray) -> float:
    """``<Delta, residual> + lambda |Delta|_1``: the duality gap where no constraint is broken."""
    return abs(float(delta.multiply(residual).sum()) + problem.penalty * float(np.abs(delta.data).sum()))


def _grow(
    problem: DifferenceProblem, residual: FloatArray, rows: IntArray, columns: IntArray, values: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Keep the support and add the worst violators, at most as many as doubles the set."""
    keep = values != 0
    rows, columns, values = rows[keep], columns[keep], values[keep]
    new = _violators(residual, problem.penalty, max(20, len(values)), exclude=(rows, columns))
    rows, columns = np.concatenate([rows, new[0]]), np.concatenate([columns, new[1]])
    return rows, columns, np.concatenate([values, np.zeros(len(new[0]))])


def _violators(
    matrix: FloatArray, bound: float, most: int, exclude: tuple[IntArray, IntArray]
) -> tuple[IntArray, IntArray]:
    """Positions of the largest absolute entries above `bound`, at most `most`, leaving out `exclude`."""
    size = np.abs(matrix)
    size[exclude] = 0.0
    candidates = np.flatnonzero(size > bound)
    if candidates.size > most:
        order = np.argpartition(size.ravel()[candidates], -most)[-most:]
        candidates = candidates[order]
    rows, columns = np.divmod(candidates, matrix.shape[1])
    return rows, columns


def _solve_on(
    problem: DifferenceProblem,
    rows: IntArray,
    columns: IntArray,
    values: FloatArray,
    tolerance: float,
    max_sweeps: int,
) -> tuple[FloatArray, bool]:
    """Optimise a working set by coordinate descent and Newton steps on the support; also, whether it ended."""
    gram = problem.sigma1[np.ix_(rows, rows)] * problem.sigma2[np.ix_(columns, columns)]
    target = problem.target[rows, columns]
    gradient = gram @ values - target
    for sweep in range(max_sweeps):
        _sweep(gram, gradient, values, problem.penalty)
        if sweep % 5 == 4:
            values = _newton(gram, target, values, problem.penalty)
            gradient = gram @ values - target
            if _kkt(gradient, values, problem.penalty) <= tolerance:
                return values, True
    return values, False


def _sweep(gram: FloatArray, gradient: FloatArray, values: FloatArray, penalty: float) -> None:
    """One pass of coordinate descent, in place."""
    curvature = np.diag(gram)
    for k in range(len(values)):
        move = curvature[k] * values[k] - gradient[k]
        new = np.sign(move) * max(abs(move) - penalty, 0.0) / curvature[k]
        step = new - values[k]
        if step != 0.0:
            gradient += step * gram[k]
            values[k] = new


def _newton(gram: FloatArray, target: FloatArray, values: FloatArray, penalty: float) -> FloatArray:
    """The exact optimum for the present support and signs, as far as no sign changes on the way."""
    active = np.flatnonzero(values)
    if active.size == 0:
        return values
    signs = np.sign(values[active])
    try:
        factor = cho_factor(gram[np.ix_(active, active)])
    except LinAlgError:
        return values
    step = cho_solve(factor, target[active] - penalty * signs) - values[active]
    crossing = signs * step < 0
    room = np.min(-values[active][crossing] / step[crossing], initial=1.0)
    result = values.copy()
    result[active] += room * step
    if room < 1.0:
        result[active[np.argmin(np.abs(result[active]))]] = 0.0
    return result


def _kkt(gradient: FloatArray, values: FloatArray, penalty: float) -> float:
    """Largest violation of the optimality conditions inside the working set."""
    on, off = values != 0, values == 0
    inside = np.abs(gradient[on] + penalty * np.sign(values[on])).max(initial=0.0)
    outside = (np.abs(gradient[off]) - penalty).max(initial=0.0)
    return float(max(inside, outside))
