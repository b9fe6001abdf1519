"""Tests of what two conditions share: precision matrices, regression coefficients, residual variances.

The three tests behind DCI (Wang, Squires, Belyaeva and Uhler 2018), for all sets of regressors of one size at
a time. Let ``C = Sigma - Sigma[:, S] Sigma[S, S]^-1 Sigma[S, :]``, the covariance given a set ``S``. The
coefficient of ``j`` in the regression of ``i`` on ``j`` and ``S`` is ``C[i, j] / C[j, j]``, the residual
variance ``C[i, i] - C[i, j]^2 / C[j, j]``, and the coefficient's variance is that over ``n C[j, j]``. So one
small system for each ``S`` serves all pairs. Regressions have an intercept; degrees of freedom count it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import comb

import numpy as np
from scipy.special import fdtr, fdtrc, fdtri

from diffdag._base.arrays import BoolArray, FloatArray, IndexArray
from diffdag.tables.moments import Moments

BLOCK = 500_000  # numbers in one block of conditional covariances


def subsets(p: int, size: int) -> IndexArray:
    """All sets of `size` of the numbers below `p`, one per row."""
    return np.array(list(combinations(range(p), size)), np.intp).reshape(comb(p, size), size)


def membership(sets: IndexArray, p: int) -> BoolArray:
    """``[s, i]`` is true if ``i`` is in set ``s``."""
    inside = np.zeros((len(sets), p), bool)
    inside[np.arange(len(sets))[:, None], sets] = True
    return inside


def precision_pvalues(first: Moments, second: Moments) -> FloatArray:
    """P-values of equal entries of the two precision matrices, by the asymptotic variances of the entries."""
    p = len(first.names)
    difference, spread = np.zeros((p, p)), np.zeros((p, p))
    for sign, moments in ((1, first), (-1, second)):
        omega = np.linalg.inv(moments.scatter / (moments.n - 1))
        difference += sign * omega
        spread += (np.outer(np.diag(omega), np.diag(omega)) + omega**2) / moments.n
    return fdtrc(1, first.n + second.n - 2 * p + 2, difference**2 / spread)


def coefficient_statistics(first: Moments, second: Moments, sets: IndexArray) -> FloatArray:
    """Squared differences of coefficients over the sum of their variances, shape (sets, p, p).

    Entry ``[s, i, j]`` is for the coefficient of ``j`` in the regression of ``i`` on ``j`` and the set ``s``;
    it is infinite where ``i`` or ``j`` is in the set. Where the coefficients are equal it follows, for many
    rows, an F distribution with 1 and ``n1 + n2 - 2 (size + 2)`` degrees of freedom.
    """
    difference: FloatArray = np.zeros(1)
    spread: FloatArray = np.zeros(1)
    with np.errstate(divide="ignore", invalid="ignore"):  # members of the sets, and the diagonal
        for sign, moments in ((1, first), (-1, second)):
            left = _conditional_scatter(moments.scatter, sets)
            own = np.diagonal(left, axis1=1, axis2=2)
            slope = left / own[:, None, :]
            residual = np.maximum(own[:, :, None] - slope * left, 0.0) / (moments.n - sets.shape[1] - 2)
            difference = difference + sign * slope
            spread = spread + residual / own[:, None, :]
        statistics: FloatArray = difference**2 / spread
    inside = membership(sets, statistics.shape[1])
    statistics[inside[:, :, None] | inside[:, None, :]] = np.inf
    return statistics


def invariant_pairs(first: Moments, second: Moments, size: int, alpha: float) -> Iterator[BoolArray]:
    """Pairs with a coefficient that is the same (p-value above `alpha`) given a set of this size.

    In either direction; one matrix per block of sets.
    """
    p = len(first.names)
    limit = float(fdtri(1, first.n + second.n - 2 * (size + 2), 1 - alpha))
    sets = subsets(p, size)
    for block in np.array_split(sets, 1 + len(sets) * p * p // BLOCK):
        same = np.asarray((coefficient_statistics(first, second, block) < limit).any(axis=0))
        yield np.logical_or(same, same.T)


def variance_pvalues(first: Moments, second: Moments, nodes: IndexArray, sets: IndexArray) -> FloatArray:
    """Two-sided p-values of equal residual variances of some variables on each set, shape (sets, nodes).

    The ratio of two residual variances follows an F distribution. A variable of the set itself has 0.
    """
    one, two = (_residual_scatter(moments.scatter, nodes, sets) for moments in (first, second))
    freedom = first.n - 1 - sets.shape[1], second.n - 1 - sets.shape[1]
    inside = membership(sets, len(first.names))[:, nodes]
    ratio = np.where(inside, 0.0, one / freedom[0]) / np.where(inside, 1.0, two / freedom[1])
    below = fdtr(*freedom, ratio)
    pvalues: FloatArray = 2 * np.minimum(below, 1 - below)
    return pvalues


def _conditional_scatter(scatter: FloatArray, sets: IndexArray) -> FloatArray:
    """``n C`` given each of the sets, shape (sets, p, p)."""
    across = scatter[sets]
    return scatter - np.swapaxes(across, 1, 2) @ np.linalg.solve(_blocks(scatter, sets), across)


def _residual_scatter(scatter: FloatArray, nodes: IndexArray, sets: IndexArray) -> FloatArray:
    """The residual sum of squares of some variables on each of the sets, shape (sets, nodes)."""
    across = scatter[sets[:, :, None], nodes]
    explained = (across * np.linalg.solve(_blocks(scatter, sets), across)).sum(axis=1)
    left: FloatArray = scatter[nodes, nodes] - explained
    return left


def _blocks(scatter: FloatArray, sets: IndexArray) -> FloatArray:
    return scatter[sets[:, :, None], sets[:, None, :]]
