"""What a change has to gain, by the number of predecessors.

With many rows a change costs the larger of ``1/2 log(n1 + n2) + g log p`` and ``a + b log k``, with p all
variables and k those that are ordered. The first makes false alarms vanish as rows grow; the second keeps them
below 5 % of data sets without any change, however few the rows: a search over orders looks at many more
regressions than there are pairs of variables, but their number grows with k alone. That is a level: the
probability that twice a likelihood ratio of one true null hypothesis, chi-squared with one degree of freedom,
is larger. With few rows, and many predecessors, likelihood ratios are larger by chance: the penalty is the
value that the gain in the score (see `score`) takes where Student's t test, for a coefficient, or Fisher's F
test, for a ratio of variances, reaches that level. docs/dev/order_measured.md has the simulations in which
the constants were chosen.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, fdtri, stdtrit

from diffdag._base.arrays import FloatArray, IntArray

G, A, B = 2.0, 0.9, 3.65
# A changed variance, and a changed intercept, have these shares of the penalty of a changed coefficient: there
# are p of either and p^2 of those. A changed gain sets intercept and
# variance free too, and has the penalties of all three: no changed effect is cheaper called a gain.
VARIANCE_SHARE, INTERCEPT_SHARE = 0.6, 0.5
WIDE, LINKED = 6.6, 1.6  # see `wide_penalty`
# Penalties follow from levels up to this; beyond, where levels are next to zero, they grow in proportion.
FARTHEST = 100.0


class Inflation(NamedTuple):
    """What the penalties of changed coefficients, variances and intercepts are multiplied by."""

    change: float = 1.0
    variance: float = 1.0
    intercept: float = 1.0

    def times(self, multiple: float) -> Inflation:
        """All of them once more, by the same."""
        return Inflation(*(multiple * own for own in self))

    def for_units(self, change: float, variance: float) -> Inflation:
        """Where rows are nested: as many times more as effects, and variances, vary between units."""
        return Inflation(self.change * max(change, 1.0), self.variance * max(variance, 1.0), self.intercept)


NONE = Inflation()


def penalties(
    n1: float,
    n2: float,
    p: int,
    total: int,
    factor: float = 1.0,
    inflation: Inflation = NONE,
    change: float | None = None,
) -> FloatArray:
    """The table of `Rules`: penalties of changed coefficients and variances, free rows, intercepts and gains.

    It is indexed by [which, number of predecessors]. Of `total` variables p are ordered, fewer than each of
    n1 - 1 and n2 - 1. `change` is the penalty of a coefficient with many rows, if not the usual one.

    >>> penalties(1e6, 1e6, 3, 10).round(2)[:2]
    array([[11.86, 11.86, 11.86],
           [ 7.12,  7.12,  7.12]])
    >>> penalties(100, 100, 30, 30)[:, [0, -1]].round(1)
    array([[ 13.3,  13.4],
           [  8. ,   9.7],
           [197. , 168. ],
           [  6.7,   6.7],
           [ 28. ,  29.7]])
    """
    rows, k = n1 + n2, np.arange(p)
    ample = factor * max(math.log(rows) / 2 + G * math.log(total), A + B * math.log(p))
    asked = np.array(
        [ample if change is None else factor * change, VARIANCE_SHARE * ample, INTERCEPT_SHARE * ample]
    )
    level, variance_level, intercept_level = chdtrc(1, 2 * np.minimum(asked, FARTHEST))
    farther = np.maximum(asked / FARTHEST, 1.0)
    free = rows - 3.0 - k
    effect, intercept = (
        free / 2 * np.log1p(stdtrit(free, tail / 2) ** 2 / free) for tail in (level, intercept_level)
    )
    # The quantiles in the upper tail are those in the lower one of the conditions swapped, without rounding.
    ratio = np.maximum(
        _variance_ratio(n1, n2, k, variance_level / 2), _variance_ratio(n2, n1, k, variance_level / 2)
    )
    effect, variance, intercept = (
        times * own
        for times, own in zip(inflation * farther, (effect, free / rows * ratio, intercept), strict=True)
    )
    table: FloatArray = np.array([effect, variance, free, intercept, effect])
    table[4] += table[1] + table[3]
    return table


def wide_penalty(p: int) -> float:
    """What a changed effect has to gain, together with what the effect itself does, among p variables.

    Where variables are so many that they were screened, each has few causes, and an effect that changed is
    there in one of the conditions at least. What the coefficient gains, the same in both conditions, counts for
    the change: no more than the change gains itself, nor than `most_of_effect`. Pairs without any effect have
    to pass this bound by chance twice; pairs with one, of which there are some p, only the rest of it.

    >>> round(wide_penalty(1000), 1), round(most_of_effect(1000), 1)
    (20.4, 5.3)
    """
    return WIDE + 2 * math.log(p)


def most_of_effect(p: int) -> float:
    """What a coefficient that is the same in both conditions counts for its change, at most."""
    return max(0.0, math.log(p) - LINKED)


def variance_penalty(n1: float, n2: float, p: int, total: int) -> float:
    """The mean penalty of a changed variance, over numbers of predecessors.

    >>> round(variance_penalty(1e6, 1e6, 3, 10), 2)
    7.12
    """
    return float(penalties(n1, n2, p, total)[1].mean())


def _variance_ratio(n1: float, n2: float, k: IntArray, tail: float) -> FloatArray:
    """Likelihood ratio of two variances against one where the first is as small as at a level of one tail."""
    rows, free1, free2 = n1 + n2, n1 - 1.0 - k, n2 - 1.0 - k
    rss1, rss2 = np.asarray(fdtri(free1, free2, tail) * free1, float), free2
    ratio: FloatArray = (
        rows / 2 * np.log((rss1 + rss2) / rows) - n1 / 2 * np.log(rss1 / n1) - n2 / 2 * np.log(rss2 / n2)
    )
    return ratio
