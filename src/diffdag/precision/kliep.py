"""KLIEP: the precision difference from the ratio of the two densities, by projected Newton steps.

Liu, Quinn, Gutmann, Suzuki and Sugiyama (2014) and Liu, Suzuki, Relator, Sese, Sugiyama and Fukumizu (2017)
fit the ratio ``exp(-x' Delta x / 2) / N(Delta)`` of the two densities to the first sample; its normaliser ``N``
is the average of ``exp(-x' Delta x / 2)`` over the second. For Gaussian variables the expectation behind this
average is ``det(I + Sigma2 Delta)^(-1/2)``, so that moments are enough. Twice their objective is then

    minimise  <Delta, Sigma1> - log det(I + Sigma2^(1/2) Delta Sigma2^(1/2)) + lambda |Delta|_1

over symmetric matrices; ``lambda`` is what they charge for each of their parameters, ``Delta[i, j]`` for
``i < j`` and ``Delta[i, i] / 2``. The gradient is ``Sigma1 - W`` with the model's covariance of the first
condition, ``W = Sigma2^(1/2) (I + Sigma2^(1/2) Delta Sigma2^(1/2))^-1 Sigma2^(1/2)``, which is ``(Omega2 +
Delta)^-1`` where ``Sigma2`` has an inverse; the Hessian maps ``D`` to ``W D W``. At ``Delta = 0`` the gradient
is ``Sigma1 - Sigma2``, so `penalty_max` is that of the other estimators. Unlike the others this one does not
treat the conditions alike: swapped, they do not give ``-Delta``.

Each step is Newton's on the support and some violators, with the signs held; entries that would change sign on
the way stop at zero.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import csr_array

from diffdag._base.arrays import FloatArray, IndexArray
from diffdag.precision.problem import DifferenceProblem, Solution

MAX_STEPS = 100
MAX_HALVINGS = 50
ZERO = 1e-10  # entries on their way to zero that are this close have arrived, so as not to hold up the others
GAP = 1e-6
DESCENT = 1e-4  # share of the descent that the gradient promises, which a step has to bring
DIRECT = 1_000  # entries up to which the Newton system is written out


def solve_kliep(problem: DifferenceProblem, tolerance: float = 1e-8, max_steps: int = MAX_STEPS) -> Solution:
    """Solve by projected Newton steps; the KKT residual and the duality gap are the certificate.

    With a singular ``Sigma2`` and a small penalty the objective has no minimum. So the search ends after
    `max_steps`, or when no step brings descent.
    """
    root = _root(problem.sigma2)
    point = _evaluate(problem, root, np.zeros_like(root))
    steps = 0
    while (_kkt(problem, point) > tolerance or _gap(problem, point) > GAP) and steps < max_steps:
        steps += 1
        if (better := _step(problem, root, point)) is None:
            break
        point = better
    violation, gap = problem.violation(point.gradient), _gap(problem, point)
    converged = violation <= tolerance and gap <= GAP
    return Solution(csr_array(point.delta), point.objective, violation, gap, steps, converged)


@dataclass(frozen=True, eq=False)
class _Point:
    """An estimate, its objective, the gradient of the smooth part, and the model's ``W``."""

    delta: FloatArray
    objective: float
    gradient: FloatArray
    fitted: FloatArray


@dataclass(frozen=True, eq=False)
class _Free:
    """Entries of the upper triangle that a step may move, the signs they keep, and how often each counts."""

    rows: IndexArray
    columns: IndexArray
    signs: FloatArray

    @property
    def times(self) -> FloatArray:
        """2 off the diagonal, where an entry stands for its mirror image too."""
        return np.where(self.rows == self.columns, 1.0, 2.0)

    def keep(self, which: NDArray[np.bool_]) -> _Free:
        """Some of the entries."""
        return _Free(self.rows[which], self.columns[which], self.signs[which])

    def matrix(self, values: FloatArray, p: int) -> FloatArray:
        """The symmetric matrix with these values."""
        matrix = np.zeros((p, p))
        matrix[self.rows, self.columns] = values
        matrix[self.columns, self.rows] = values
        return matrix


def _root(sigma: FloatArray) -> FloatArray:
    """The symmetric square root; eigenvalues that rounding made negative are zero."""
    values, vectors = np.linalg.eigh(sigma)
    root: FloatArray = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root


def _evaluate(problem: DifferenceProblem, root: FloatArray, delta: FloatArray) -> _Point:
    """Objective and derivatives; LinAlgError where ``I + root Delta root`` is not positive definite."""
    inner = np.eye(len(root)) + root @ delta @ root
    factor = cho_factor((inner + inner.T) / 2)
    fitted = root @ cho_solve(factor, root)
    fitted = (fitted + fitted.T) / 2
    log_det = 2 * float(np.log(np.diag(factor[0])).sum())
    smooth = float((delta * problem.sigma1).sum()) - log_det
    objective = smooth + problem.penalty * float(np.abs(delta).sum())
    return _Point(delta, objective, problem.sigma1 - fitted, fitted)


def _kkt(problem: DifferenceProblem, point: _Point) -> float:
    """Largest violation of the optimality conditions."""
    on = point.delta != 0
    inside = np.abs(point.gradient + problem.penalty * np.sign(point.delta))[on]
    return float(inside.max(initial=problem.violation(point.gradient)))


def _gap(problem: DifferenceProblem, point: _Point) -> float:
    """``<Delta, gradient> + lambda |Delta|_1``: the duality gap where no constraint is broken, made relative.

    The dual looks for a covariance within ``lambda`` of ``Sigma1`` that is close to ``Sigma2``; ``W`` is one.
    """
    delta = point.delta
    gap = float((delta * point.gradient).sum()) + problem.penalty * float(np.abs(delta).sum())
    return abs(gap) / max(1e-9, abs(point.objective))


def _step(problem: DifferenceProblem, root: FloatArray, point: _Point) -> _Point | None:
    """The first sufficient of ever smaller Newton steps, or a better one behind it; None without descent.

    The first sufficient step may end close to where the objective is infinite, and to come back takes many.
    """
    free, direction = _direction(problem, point)
    slopes = free.times * (point.gradient[free.rows, free.columns] + problem.penalty * free.signs)
    before = point.delta[free.rows, free.columns]
    rounding = 1e-14 * (1.0 + abs(point.objective))
    best: _Point | None = None
    for halving in range(MAX_HALVINGS):
        values = before + 0.5**halving * direction
        values[values * free.signs < 0] = 0.0
        promised = float(slopes @ (values - before))
        try:
            after = _evaluate(problem, root, free.matrix(values, len(root)))
        except LinAlgError:
            continue
        if best is not None:
            if after.objective >= best.objective:
                break
            best = after
        elif promised < 0 and after.objective <= point.objective + DESCENT * promised + rounding:
            best = after
    return best


def _direction(problem: DifferenceProblem, point: _Point) -> tuple[_Free, FloatArray]:
    """Newton's direction on the support and on those violators that it moves the way their gradient says.

    At least one violator stays unless the support itself has to move, so there is always descent.
    """
    free = _free(problem, point)
    while True:
        slopes = point.gradient[free.rows, free.columns] + problem.penalty * free.signs
        direction = _newton(point.fitted, free, -free.times * slopes)
        wrong = (np.abs(point.delta[free.rows, free.columns]) <= ZERO) & (direction * free.signs <= 0)
        if not wrong.any():
            return free, direction
        free = free.keep(~wrong)


def _free(problem: DifferenceProblem, point: _Point) -> _Free:
    """The support and the worst violators, at most as many as double it."""
    size = np.triu(np.where(point.delta == 0, np.abs(point.gradient), 0.0))
    support = np.flatnonzero(np.triu(point.delta))
    new = np.flatnonzero(size > problem.penalty)
    most = max(20, len(support))
    if len(new) > most:
        new = new[np.argpartition(size.ravel()[new], -most)[-most:]]
    entries = np.concatenate([support, new])
    rows, columns = np.divmod(entries, len(size))
    delta, gradient = point.delta[rows, columns], point.gradient[rows, columns]
    return _Free(rows, columns, np.where(delta != 0, np.sign(delta), -np.sign(gradient)))


def _newton(fitted: FloatArray, free: _Free, right: FloatArray) -> FloatArray:
    """Solve the Newton system of some entries, written out if they are few, else by conjugate gradients."""
    if right.size == 0:
        return right
    if len(right) > DIRECT:
        return _newton_by_products(fitted, free, right)
    i, j, times = free.rows, free.columns, free.times
    hessian = fitted[np.ix_(i, i)] * fitted[np.ix_(j, j)] + fitted[np.ix_(i, j)] * fitted[np.ix_(j, i)]
    hessian *= np.outer(times, times) / 2
    scale = np.diag(hessian).copy()
    for damping in (0.0, 1e-12, 1e-9, 1e-6):
        hessian[np.diag_indices_from(hessian)] = scale * (1 + damping)
        with contextlib.suppress(LinAlgError):
            solution: FloatArray = cho_solve(cho_factor(hessian), right)
            return solution
    return right / scale


def _newton_by_products(fitted: FloatArray, free: _Free, right: FloatArray) -> FloatArray:
    """Solve the Newton system by conjugate gradients on products ``W D W``: no matrix is larger than p x p."""
    from scipy.sparse.linalg import LinearOperator, cg  # noqa: PLC0415 - takes a moment to load

    i, j, times = free.rows, free.columns, free.times
    scale = times**2 / 2 * (fitted[i, i] * fitted[j, j] + fitted[i, j] ** 2)

    def product(values: FloatArray) -> FloatArray:
        return times * (fitted @ free.matrix(values.ravel(), len(fitted)) @ fitted)[i, j]

    shape = (len(right), len(right))
    operator = LinearOperator(shape, matvec=product, dtype=np.float64)
    scaling = LinearOperator(shape, matvec=lambda values: values.ravel() / scale, dtype=np.float64)
    solution: FloatArray = cg(operator, right, rtol=1e-2, maxiter=100, M=scaling)[0]
    return solution
