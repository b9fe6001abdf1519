"""Tests for differences of Gaussian graphical models (Belilovsky, Varoquaux and Blaschko 2016).

Each variable is regressed on all others in both tables at once, by the multi-task fused lasso:

    minimise  sum_k (b_k' S_k b_k / 2 - s_k' b_k) + l1 (|b_1|_1 + |b_2|_1) + l2 |b_1 - b_2|_1

on standardised variables. The penalties bias the difference of the coefficients; the bias is taken out by

    d = b_1 - b_2 + M_1' (s_1 - S_1 b_1) - M_2' (s_2 - S_2 b_2),

whose error is Gaussian up to ``(M_1' S_1 - I) e_1 - (M_2' S_2 - I) e_2``, with ``e_k`` the error of ``b_k``.
The sum of these errors may be large; their difference is kept small by the fused penalty. What they
contribute is bounded (worked out here, after the paper's idea) by ``max |M_1' S_1 - M_2' S_2|`` and ``max
|M_1' S_1 + M_2' S_2 - 2 I|``. So column by column

    minimise  m_1' S_1 m_1 / n_1 + m_2' S_2 m_2 / n_2
    subject to  max |S_1 m_1 - S_2 m_2| <= u1,   max |S_1 m_1 + S_2 m_2 - 2 e_j| <= u2

(for one table: Javanmard and Montanari 2014), by coordinate descent on the dual, a lasso. With all penalties
zero this is the z-test of the difference of two least squares coefficients. An edge is reported if the
coefficients in both of its regressions differ, at 5 % after Bonferroni's correction for all pairs.

All four bounds are ``sqrt(log p / n)``. For tables of different length ``u1`` is multiplied by the smaller
number of rows over the larger: otherwise the direction of the smaller table alone is shrunk, and the biases no
longer cancel. The test is made for tables of about the same length.

The result is undirected, a difference of two moral graphs: see `diffdag.reproduce.methods.precision_based`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag.precision import _descent
from diffdag.precision.problem import standardise
from diffdag.reproduce.methods.method import Method, same_variables
from diffdag.tables.moments import Moments

# Chosen in docs/dev/constants.md.
LEVEL = 0.05
SPARSITY, FUSION = 1.0, 1.0  # l1 and l2 as multiples of sqrt(log p / n)
NEAR, WIDE = 1.0, 1.0  # u1 and u2 likewise
TOLERANCE, SWEEPS = 1e-3, 2_000
COLUMN_TOLERANCE, COLUMN_SWEEPS, WIDENINGS = 0.1, 200, 20


@dataclass(frozen=True, eq=False)
class DifferenceTests:
    """Debiased differences of the coefficients of all regressions, first minus second, and their tests.

    ``[i, j]`` is for variable ``j`` in the regression of ``i`` on all others, in the user's units.
    """

    differences: FloatArray
    stderrs: FloatArray
    p_values: FloatArray  # two-sided; one on the diagonal

    @property
    def pair_p_values(self) -> FloatArray:
        """The larger one of the two p-values of each pair: both of its regressions have to differ."""
        return np.maximum(self.p_values, self.p_values.T)


def difference_tests(
    first: Moments,
    second: Moments,
    *,
    sparsity: float = SPARSITY,
    fusion: float = FUSION,
    slack: tuple[float, float] = (NEAR, WIDE),
) -> DifferenceTests:
    """Test each coefficient of the regressions of each variable on all others for a difference.

    There may be fewer rows than variables. `sparsity`, `fusion` and `slack` are ``l1``, ``l2`` and ``u1, u2``
    above as multiples of ``sqrt(log p / n)``; the last are widened where they leave no solution.
    """
    second = same_variables(first, second, 5, "; tests of differences need 5 or more")
    p = len(first.names)
    rate = math.sqrt(math.log(p) / min(first.n, second.n))
    balance = min(first.n, second.n) / max(first.n, second.n)
    problem = standardise(first, second)
    sigmas, rows = np.array([problem.sigma1, problem.sigma2]), np.array([first.n, second.n], float)
    differences, stderrs = np.zeros((p, p)), np.ones((p, p))
    for target in range(p):
        others = np.delete(np.arange(p), target)
        grams = np.ascontiguousarray(sigmas[:, others[:, None], others])
        cross = np.ascontiguousarray(sigmas[:, others, target])
        slopes = np.zeros_like(cross)
        _descent.fused_lasso(grams, cross, sparsity * rate, fusion * rate, TOLERANCE * rate, SWEEPS, slopes)
        noise = _noise(grams, cross, sigmas[:, target, target], slopes, rows)
        directions = np.linalg.inv(grams) if min(rows) > p else np.zeros_like(grams)
        near, wide = slack[0] * balance * rate, slack[1] * rate
        how = COLUMN_TOLERANCE, COLUMN_SWEEPS, WIDENINGS
        _descent.fused_directions(grams, rows / rows.mean(), near, wide, *how, directions)
        residual = cross - np.einsum("kij,kj->ki", grams, slopes)
        single = slopes + np.einsum("kij,ki->kj", directions, residual)
        spread = np.einsum("kij,kil,klj->kj", directions, grams, directions)
        differences[target, others] = single[0] - single[1]
        stderrs[target, others] = np.sqrt((noise / rows) @ spread)
    # A direction of length zero tells nothing.
    ratio = np.divide(np.abs(differences), stderrs, out=np.zeros((p, p)), where=stderrs > 0)
    scale = np.sqrt((np.diag(first.covariance()) + np.diag(second.covariance())) / 2)
    units = scale[:, None] / scale
    return DifferenceTests(differences * units, stderrs * units, 2 * ndtr(-ratio))


def _noise(
    grams: FloatArray, cross: FloatArray, totals: FloatArray, slopes: FloatArray, rows: FloatArray
) -> FloatArray:
    """Noise variances: of least squares on the coefficients that are not zero, else of the lasso."""
    variances = np.empty(2)
    for k in range(2):
        chosen = np.flatnonzero(slopes[k])
        beta, gram = slopes[k, chosen], grams[k][np.ix_(chosen, chosen)]
        freedom = rows[k] - 1 - chosen.size
        if freedom > chosen.size:
            beta = np.linalg.solve(gram, cross[k, chosen])
        left = float(totals[k] - 2 * beta @ cross[k, chosen] + beta @ gram @ beta)
        variances[k] = max(left, 1e-12 * totals[k]) * rows[k] / max(freedom, 1.0)
    return variances


def belilovsky(first: Moments, second: Moments) -> BoolArray:
    """Undirected edges where both tests of a pair reject, at 5 % after Bonferroni's correction."""
    tests = difference_tests(first, second)
    p = len(tests.p_values)
    graph: BoolArray = tests.pair_p_values * (p * (p - 1) / 2) < LEVEL
    np.fill_diagonal(graph, False)
    return graph


ABOUT = "undirected: tests of debiased lasso differences, of Belilovsky, Varoquaux and Blaschko"
METHODS = (Method("debiased", ABOUT, belilovsky, directs=False, most=100),)
