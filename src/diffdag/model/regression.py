"""The weight of an edge in both conditions: least squares on the predecessors, from moments alone.

Along a causal order a structural equation is a regression of the variable on all that precede it, so the
coefficients are the weights and their usual standard errors apply. Both are in the user's units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from diffdag._base.arrays import FloatArray
from diffdag.tables.moments import Moments


@dataclass(frozen=True, eq=False)
class Regression:
    """Coefficients of one variable on its predecessors, and their standard errors."""

    coefficients: FloatArray
    stderrs: FloatArray


def regress(moments: Moments, target: int, predecessors: Sequence[int]) -> Regression | None:
    """Least squares with intercept; None if there are too few rows, or the predecessors are dependent.

    Examples
    --------
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
    """One variable on its predecessors in both conditions, with coefficients shared except on a change set.

    Entries of ``first`` and ``second`` are coefficients of all predecessors; errors are of the change set.
    """

    first: FloatArray
    second: FloatArray
    variance_first: float
    variance_second: float
    error_first: FloatArray
    error_second: FloatArray
    error_delta: FloatArray
    freedom_delta: FloatArray  # Satterthwaite's degrees of freedom of the errors of differences


def regress_jointly(
    first: Moments,
    second: Moments,
    target: int,
    predecessors: Sequence[int],
    changed: Sequence[int],
    separate: bool,
) -> JointRegression:
    """Generalised least squares with intercepts; `separate` if the two noise variances differ.

    Parameters
    ----------
    first, second : Moments
    target : int
        Column of the variable.
    predecessors, changed : sequence of int
        Its predecessors, fewer than rows, and those of them whose coefficients differ.
    separate : bool
        Whether each condition has a noise variance of its own.

    Examples
    --------
    >>> one = Moments.from_array([[0, 1], [1, 3], [2, 5], [3, 7.5]])
    >>> two = Moments.from_array([[0, 1], [1, 2], [2, 2.5], [3, 4]])
    >>> fit = regress_jointly(one, two, 1, [0], [0], separate=False)
    >>> fit.first.round(3), fit.second.round(3), fit.error_delta.round(3)
    (array([2.15]), array([0.95]), array([0.158]))
    """
    index = list(predecessors)
    extra = [index.index(j) for j in changed]
    k, m = len(index), len(extra)
    scale = np.sqrt(np.diag(first.scatter) + np.diag(second.scatter))
    block = np.ix_([*index, target], [*index, target])
    units = np.outer(scale[[*index, target]], scale[[*index, target]])
    one, two = first.scatter[block] / units, second.scatter[block] / units
    variances = np.ones(2)
    for _ in range(50 if separate else 1):
        weights = 1 / variances
        gram, cross = _stacked(one, two, weights, k, extra)
        inverse = np.linalg.inv(gram)
        beta = inverse @ cross
        b2, b1 = beta[:k].copy(), beta[:k].copy()
        b1[extra] += beta[k:]
        rss = np.array([_residual(one, b1), _residual(two, b2)])
        if not separate:
            variances = np.full(2, rss.sum() / max(first.n + second.n - 2 - k - m, 1))
            break
        # The first condition bears this many of the coefficients, the second the others.
        borne = float(np.trace(inverse @ _stacked(one, two, np.array([weights[0], 0.0]), k, extra)[0]))
        freedom = np.array([first.n - 1 - borne, second.n - 1 - (k + m - borne)])
        before, variances = variances, np.maximum(rss / np.maximum(freedom, 1), 1e-300)
        if np.allclose(before, variances, rtol=1e-10, atol=0.0):
            break
    gram, _ = _stacked(one, two, 1 / variances, k, extra)
    inverse = np.linalg.inv(gram)
    parts = [_stacked(one, two, side / variances, k, extra)[0] for side in np.eye(2)]
    # What each condition contributes to the variances of the differences, and how well it knows its own.
    shares = np.array([np.einsum("ui,ij,ju->u", inverse[k:], part, inverse[:, k:]) for part in parts])
    free = [n - 1 - float(np.trace(inverse @ part)) for n, part in zip((first.n, second.n), parts, strict=True)]
    freedom_delta = shares.sum(axis=0) ** 2 / (shares**2 / np.maximum(free, 1.0)[:, None]).sum(axis=0)
    spread = np.diag(inverse)
    both = inverse[extra, range(k, k + m)]
    unit = scale[target] / scale[index]
    return JointRegression(
        b1 * unit,
        b2 * unit,
        float(variances[0] * scale[target] ** 2),
        float(variances[1] * scale[target] ** 2),
        np.sqrt(np.maximum(spread[extra] + spread[k:] + 2 * both, 0)) * unit[extra],
        np.sqrt(spread[extra]) * unit[extra],
        np.sqrt(spread[k:]) * unit[extra],
        freedom_delta,
    )


def _stacked(
    one: FloatArray, two: FloatArray, weights: FloatArray, k: int, extra: list[int]
) -> tuple[FloatArray, FloatArray]:
    """Normal equations of shared coefficients and, for the first condition alone, the extra ones."""
    u1, u2 = weights
    shared = u1 * one[:k, :k] + u2 * two[:k, :k]
    own = u1 * one[:k][:, extra]
    gram = np.block([[shared, own], [own.T, own[extra]]])
    return gram, np.concatenate([u1 * one[:k, k] + u2 * two[:k, k], u1 * one[extra, k]])


def _residual(matrix: FloatArray, beta: FloatArray) -> float:
    contrast = np.append(-beta, 1.0)
    return max(float(contrast @ matrix @ contrast), 0.0)
