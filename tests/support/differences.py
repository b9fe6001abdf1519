"""Problems made up for tests of the solvers of the precision difference, and what KLIEP's formulas come to."""

from __future__ import annotations

import math

import numpy as np

from diffdag._base.arrays import FloatArray
from diffdag.precision import kliep
from diffdag.precision.problem import DifferenceProblem, Entries


def covariances(seed: int, p: int = 4, n: int = 30) -> list[FloatArray]:
    """Two covariance matrices of rows that depend on each other."""
    rng = np.random.default_rng(seed)
    mix = np.eye(p) + 0.4 * rng.standard_normal((p, p))
    other = mix + 0.5 * (rng.random((p, p)) < 0.3)
    return [np.cov(rng.standard_normal((n, p)) @ root, rowvar=False) for root in (mix, other)]


def problem_of(seed: int, p: int = 4, fraction: float = 0.3, n: int = 30) -> DifferenceProblem:
    """A small problem with a fraction of the largest penalty."""
    one, two = covariances(seed, p, n)
    return DifferenceProblem(one, two, fraction * float(np.abs(two - one).max()))


def some_matrix(seed: int, p: int = 4, count: int = 5) -> FloatArray:
    rng = np.random.default_rng(seed)
    matrix = np.zeros(p * p)
    matrix[rng.choice(p * p, count, replace=False)] = rng.standard_normal(count)
    return matrix.reshape(p, p)


def every(p: int) -> Entries:
    """All entries of a p x p matrix."""
    rows, columns = np.divmod(np.arange(p * p), p)
    return rows, columns


def lasso(seed: int, m: int = 6) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((20, m))
    return rows.T @ rows / 20, rng.standard_normal(m)


def kliep_point(problem: DifferenceProblem, delta: FloatArray) -> kliep._Point:
    return kliep._evaluate(problem, kliep._root(problem.sigma2), delta)


def symmetric(seed: int, p: int = 4) -> FloatArray:
    matrix = some_matrix(seed, p, 4) * 0.04
    return matrix + matrix.T


def dense_hessian(fitted: FloatArray, free: kliep._Free) -> FloatArray:
    """Second derivatives along the symmetric unit matrices of the free entries."""
    p, units = len(fitted), []
    for i, j in zip(free.rows, free.columns, strict=True):
        unit = np.zeros((p, p))
        unit[i, j] = unit[j, i] = 1.0
        units.append(unit)
    return np.array([[np.trace(a @ fitted @ b @ fitted) for b in units] for a in units])


def tight(p: int, seed: int = 880300, fraction: float = 0.5) -> DifferenceProblem:
    """A problem with many variables of which few changed."""
    rng = np.random.default_rng(seed)
    one = np.cov(rng.standard_normal((200, p)), rowvar=False)
    two = np.cov(rng.standard_normal((200, p)), rowvar=False)
    two[0, 1] = two[1, 0] = 0.9 * math.sqrt(two[0, 0] * two[1, 1])
    two[2, 2] *= 2.5
    return DifferenceProblem(one, two, fraction * float(np.abs(two - one).max()))
