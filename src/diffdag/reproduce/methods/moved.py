"""Which variables moved, each by itself: shifts of means and ratios of standard deviations.

No causes are looked at, so that everything downstream of a change moves as well. Such baselines win
surprisingly often where root causes are sought. Means are compared by the test of Welch (1947), variances by
Fisher's F test, and the set of moved variables has a false-discovery rate of 5 % (Benjamini and Hochberg 1995).
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtr

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag.model.regression import equal_variances
from diffdag.reproduce.methods.method import NodeMethod, Ranking, same_variables
from diffdag.tables.moments import Moments

RATE = 0.05  # of false discoveries


def shift(first: Moments, second: Moments) -> Ranking:
    """``|mean2 - mean1| / sd1``, with sd of the first condition; the set by Welch's test of equal means."""
    second = same_variables(first, second, 2, ", and a variance needs at least 2")
    one, two = _variances(first), _variances(second)
    moved = np.abs(second.mean - first.mean)
    parts = one / first.n, two / second.n
    error = parts[0] + parts[1]
    freedom = error**2 / (parts[0] ** 2 / (first.n - 1) + parts[1] ** 2 / (second.n - 1))
    pvalues = 2 * stdtr(freedom, -moved / np.sqrt(error))
    return Ranking(moved / np.sqrt(one), discoveries(pvalues))


def sd_ratio(first: Moments, second: Moments) -> Ranking:
    """``|log(sd2 / sd1)|``; the set by the F test of equal variances."""
    second = same_variables(first, second, 2, ", and a variance needs at least 2")
    ratio = _variances(second) / _variances(first)
    pvalues = equal_variances(ratio, second.n - 1, first.n - 1)
    return Ranking(np.abs(np.log(ratio)) / 2, discoveries(pvalues))


def discoveries(pvalues: FloatArray) -> BoolArray:
    """The variables whose tests are rejected at a false-discovery rate of 5 % (Benjamini and Hochberg 1995).

    The k smallest p-values are, for the largest k whose p-value is at most 5 % times k over their number.
    """
    ordered = np.sort(pvalues)
    low = np.flatnonzero(ordered <= RATE * np.arange(1, len(pvalues) + 1) / len(pvalues))
    return np.asarray(pvalues <= (ordered[low[-1]] if low.size else -1.0))


def _variances(moments: Moments) -> FloatArray:
    variances: FloatArray = np.diag(moments.scatter) / (moments.n - 1)
    return variances


NODE_METHODS = (
    NodeMethod("shift", "|shift of the mean| / sd, each variable by itself", shift),
    NodeMethod("sd-ratio", "|log ratio of the sds|, each variable by itself", sd_ratio),
)
