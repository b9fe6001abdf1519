"""Least squares of a variable on its predecessors, in one condition or in both, from moments alone.

Along a causal order a structural equation is a regression of the variable on all that precede it, so the
coefficients are the weights and their usual standard errors apply. Both are in the user's units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import fdtr, fdtrc

from diffdag._base.arrays import FloatArray
from diffdag.tables.moments import Moments

ITERATIONS = 50  # of generalised least squares at most; a few are usual


@dataclass(frozen=True, eq=False)
class Regression:
    """Coefficients of one variable on its predecessors, and their standard errors."""

    coefficients: FloatArray
    stderrs: FloatArray


def regress(moments: Moments, target: int, predecessors: Sequence[int]) -> Regression | None:
    """Least squares with intercept; None if there are too few rows, or the predecessors are dependent.

    >>> fit = regress(Moments.from_array([[0, 1], [1, 3], [2, 5], [3, 7.5]]), 1, [0])
    >>> fit.coefficients.round(3), fit.stderrs.round(3)
    (array([2.15]), array([0.087]))
    """
    index = list(predecessors)
    freedom = moments.n - len(index) - 1
    if freedom < 1:
        return None
    scale = np.sqrt(np.diag(moments.scatter))
    gram = moments.scatter[np.ix_(index, index)] / np.outer(scale[index], scale[index])
    cross = moments.scatter[index, target] / (scale[index] * scale[target])
    try:
        factor = cho_factor(gram)
    except LinAlgError:
        return None
    beta = cho_solve(factor, cross)
    unexplained = max(0.0, 1.0 - float(cross @ beta)) / freedom
    stderrs = np.sqrt(unexplained * np.diag(cho_solve(factor, np.eye(len(index)))))
    units = scale[target] / scale[index]
    return Regression(beta * units, stderrs * units)


@dataclass(frozen=True, eq=False)
class JointRegression:
    """One variable on its k predecessors in both conditions; coefficients differ on a change set of m.

    `covariance` is that of the estimates: coefficients of the second condition, then what the first adds to
    those of the change set.
    """

    first: FloatArray  # coefficients of all predecessors in each condition, shape (k,)
    second: FloatArray
    variance_first: float  # of the noise
    variance_second: float
    squares: tuple[float, float]  # residual sums of squares of each condition, above zero
    freedom: tuple[float, float]  # residual degrees of freedom of each condition, at least 1
    covariance: FloatArray  # shape (k + m, k + m)
    error_first: FloatArray  # standard errors of the coefficients of the change set, shape (m,)
    error_second: FloatArray
    error_delta: FloatArray  # of their difference
    freedom_delta: FloatArray  # Satterthwaite's degrees of freedom of the last


def regress_jointly(
    first: Moments,
    second: Moments,
    target: int,
    predecessors: Sequence[int],
    changed: Sequence[int],
    separate: bool,
) -> JointRegression:
    """Generalised least squares with intercepts; `separate` if the two noise variances differ.

    There must be fewer predecessors than rows; `changed` are those of them whose coefficients differ.

    >>> one = Moments.from_array([[0, 1], [1, 3], [2, 5], [3, 7.5]])
    >>> two = Moments.from_array([[0, 1], [1, 2], [2, 2.5], [3, 4]])
    >>> fit = regress_jointly(one, two, 1, [0], [0], separate=False)
    >>> fit.first.round(3), fit.second.round(3), fit.error_delta.round(3)
    (array([2.15]), array([0.95]), array([0.158]))
    """
    index = list(predecessors)
    extra = [index.index(j) for j in changed]
    k, m = len(index), len(extra)
    rows = np.array([first.n, second.n])
    scale = np.sqrt(np.diag(first.scatter) + np.diag(second.scatter))[[*index, target]]
    block = np.ix_([*index, target], [*index, target])
    scatters = [moments.scatter[block] / np.outer(scale, scale) for moments in (first, second)]
    # Normal equations of each condition: shared coefficients and, for the first alone, the extra ones.
    own = [*range(k), *extra]
    grams, crosses = np.zeros((2, k + m, k + m)), np.zeros((2, k + m))
    grams[0], crosses[0] = scatters[0][np.ix_(own, own)], scatters[0][own, k]
    grams[1, :k, :k], crosses[1, :k] = scatters[1][:k, :k], scatters[1][:k, k]
    variances = np.ones(2)
    for _ in range(ITERATIONS if separate else 1):
        weighted = grams / variances[:, None, None]
        inverse = np.linalg.inv(weighted.sum(axis=0))
        beta = inverse @ (crosses / variances[:, None]).sum(axis=0)
        b1, b2 = beta[:k].copy(), beta[:k]
        b1[extra] += beta[k:]
        rss = np.array([residual_squares(*pair) for pair in zip(scatters, (b1, b2), strict=True)])
        if not separate:
            variances = np.full(2, rss.sum() / max(rows.sum() - 2 - k - m, 1))
            break
        # The first condition bears this many of the coefficients, the second the others.
        borne = float((inverse * weighted[0]).sum())  # the trace of their product
        freedom = rows - 1 - np.array([borne, k + m - borne])
        before, variances = variances, np.maximum(rss / np.maximum(freedom, 1), 1e-300)
        if np.allclose(before, variances, rtol=1e-10, atol=0.0):
            break
    information = grams / variances[:, None, None]
    covariance = np.linalg.inv(information.sum(axis=0))
    # What each condition contributes to the variances of the differences, and how well it knows its own.
    shares = np.einsum("ui,cij,ju->cu", covariance[k:], information, covariance[:, k:])
    freedom = np.maximum(rows - 1 - (covariance * information).sum(axis=(1, 2)), 1.0)
    unit = scale[k] / np.concatenate([scale[:k], scale[extra]])
    covariance *= np.outer(unit, unit)
    spread, both = np.diag(covariance), covariance[extra, range(k, k + m)]
    one, two = (variances * scale[k] ** 2).tolist()
    left, right = np.maximum(rss * scale[k] ** 2, np.finfo(float).tiny).tolist()
    return JointRegression(
        b1 * unit[:k],
        b2 * unit[:k],
        one,
        two,
        (left, right),
        (float(freedom[0]), float(freedom[1])),
        covariance,
        np.sqrt(np.maximum(spread[extra] + spread[k:] + 2 * both, 0)),
        np.sqrt(spread[extra]),
        np.sqrt(spread[k:]),
        shares.sum(axis=0) ** 2 / (shares**2 / freedom[:, None]).sum(axis=0),
    )


def residual_squares(scatter: FloatArray, coefficients: FloatArray) -> float:
    """Residual sum of squares, from the scatter matrix of the predecessors and, last, the target.

    >>> residual_squares(np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([0.5]))
    2.5
    """
    contrast = np.append(-coefficients, 1.0)
    return max(float(contrast @ scatter @ contrast), 0.0)


def minus_loglik(squares: tuple[float, float], rows: tuple[int, int], separate: bool) -> float:
    """Minus the log-likelihood with one noise variance or, if separate, two; up to a constant."""
    parts = zip(squares, rows, strict=True) if separate else [(sum(squares), sum(rows))]
    return sum(n / 2 * math.log(total / n) for total, n in parts)


def equal_variances(ratio: Any, free1: Any, free2: Any) -> FloatArray:
    """Two-sided p-values of Fisher's test of a ratio of variances, given their degrees of freedom."""
    tails = np.minimum(fdtr(free1, free2, ratio), fdtrc(free1, free2, ratio))
    return np.asarray(np.minimum(1.0, 2 * tails), dtype=np.float64)
