"""LiSTEN (Ghoshal and Honorio 2018): each DAG from terminal vertices, under equal noise variances; subtracted.

With noise of one variance ``s`` the precision matrix has diagonal ``(1 + sum of squared effects) / s``: it is
smallest at variables that act on nothing. Such a terminal vertex ``i`` has its weights in its row, ``B[i, j]
= -Omega[i, j] / Omega[i, i]``. It is removed, and so on with the others. Standardising would destroy the
assumption, so the given units stay; tables are scaled by one number for all columns.

`listen` estimates the precision matrix by CLIME. After a removal the programmes of the neighbours of the
removed vertex are solved again over the variables left, and the other columns stay: this is read off the
running time in the paper's abstract. `bottom_up` inverts the covariance matrix, for which removing a vertex is
a Schur complement, and tests partial correlations.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtri

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag.precision.api import symmetrise
from diffdag.reproduce.methods.clime import clime_columns
from diffdag.reproduce.methods.method import Method, same_variables
from diffdag.tables.moments import Moments

# Chosen in docs/dev/constants.md: the penalty, and below which weights count as zero, as multiples of
# sqrt(log p / n) and at most LARGEST; the level of the tests.
PENALTY_RATE = 0.3
WEIGHT_RATE, LARGEST = 5.0, 0.15
LEVEL = 0.05
TINY = 1e-9  # entries of CLIME's result that are zero


def listen(first: Moments, second: Moments) -> BoolArray:
    """Both DAGs by CLIME, subtracted."""
    one, two = _tables(first, second)
    return _adjacency(*one) ^ _adjacency(*two)


def bottom_up(first: Moments, second: Moments) -> BoolArray:
    """Both DAGs by the inverse covariance matrix and z-tests, subtracted."""
    p = len(first.names)
    why = f" for {p} variables; 'bottom-up' inverts its covariance matrix and needs {p + 3} or more"
    one, two = _tables(first, second, p + 3, f"{why}: add rows or drop columns")
    return _tested_adjacency(*one) ^ _tested_adjacency(*two)


def _tables(first: Moments, second: Moments, least: int = 0, why: str = "") -> list[tuple[FloatArray, int]]:
    """Covariance matrices and numbers of rows, all columns of both tables divided by one number."""
    second = same_variables(first, second, least, why)
    covariances = first.covariance(), second.covariance()
    unit = float(np.mean([np.trace(covariance) for covariance in covariances])) / len(first.names)
    return [(matrix / unit, m.n) for matrix, m in zip(covariances, (first, second), strict=True)]


def _adjacency(covariance: FloatArray, n: int) -> BoolArray:
    rate = math.sqrt(math.log(len(covariance)) / n)
    weights = terminal_weights(covariance, PENALTY_RATE * rate)
    return np.abs(weights) > min(LARGEST, WEIGHT_RATE * rate)


def terminal_weights(covariance: FloatArray, penalty: float) -> FloatArray:
    """LiSTEN's weights before small ones are cut off: ``[i, j]`` is the effect of ``j`` on ``i``."""
    p = len(covariance)
    weights = np.zeros((p, p))
    rest = np.arange(p)
    columns = clime_columns(covariance, penalty, range(p))
    while len(rest) > 1:
        omega = symmetrise(csr_array(columns)).toarray()
        diagonal = np.diag(omega)
        sink = int(np.argmin(np.where(diagonal > 0, diagonal, np.inf)))
        others = np.delete(np.arange(len(rest)), sink)
        row = omega[sink, others]
        if diagonal[sink] > 0:
            weights[rest[sink], rest[others]] = -row / diagonal[sink]
        rest, columns = rest[others], columns[np.ix_(others, others)]
        again = np.flatnonzero(np.abs(row) > TINY)
        columns[:, again] = clime_columns(covariance[np.ix_(rest, rest)], penalty, again)
    return weights


def _tested_adjacency(covariance: FloatArray, n: int) -> BoolArray:
    """Terminal vertices by the inverse; partial correlations by Fisher's z, Bonferroni over all pairs."""
    p = len(covariance)
    adjacency = np.zeros((p, p), bool)
    critical = -ndtri(LEVEL / (p * (p - 1)))
    rest = np.arange(p)
    omega = np.linalg.inv(covariance)
    while len(rest) > 1:
        diagonal = np.diag(omega)
        sink = int(np.argmin(diagonal))
        others = np.delete(np.arange(len(rest)), sink)
        row = omega[sink, others]
        partial = -row / np.sqrt(diagonal[sink] * diagonal[others])
        z = np.arctanh(np.clip(partial, -1 + 1e-15, 1 - 1e-15)) * math.sqrt(n - len(rest) - 1)
        adjacency[rest[sink], rest[others]] = np.abs(z) > critical
        omega = omega[np.ix_(others, others)] - np.outer(row, row) / diagonal[sink]
        rest = rest[others]
    return adjacency


LISTEN = "LiSTEN with CLIME, equal noise variances, of Ghoshal and Honorio; subtracted"
BOTTOM_UP = "terminal vertices by inverses and tests, equal noise variances; subtracted"
METHODS = (Method("listen", LISTEN, listen, most=60), Method("bottom-up", BOTTOM_UP, bottom_up))
