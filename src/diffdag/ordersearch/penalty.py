"""What a change has to pay, by the number of predecessors.

With many rows a change costs ``1/2 log(n1 + n2) + g log p`` (METHOD 3d). That is a level: the probability that
twice a likelihood ratio of one true null hypothesis, chi-squared with one degree of freedom, is larger. With few
rows, and many predecessors, likelihood ratios are larger by chance: the penalty is the value that the gain in the
score (see `score`) takes where Student's t test, for a coefficient, or Fisher's F test, for a ratio of variances,
reaches that level. docs/order.md has the simulations in which g was chosen.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from diffdag.ordersearch.state import FloatArray

G = 2.25


def penalties(n1: float, n2: float, p: int, total: int) -> FloatArray:
    """The table of `score.Rules`: penalty of a changed coefficient, of a changed variance, free rows.

    Parameters
    ----------
    n1, n2 : float
        Rows.
    p : int
        Variables that are ordered, fewer than each of n1 - 1 and n2 - 1.
    total : int
        Variables there were before screening.

    Returns
    -------
    ndarray
        [which, number of predecessors].

    Examples
    --------
    >>> penalties(1e6, 1e6, 3, 10).round(2)[:2]
    array([[12.43, 12.43, 12.43],
           [12.43, 12.43, 12.43]])
    >>> penalties(100, 100, 30, 30)[:, [0, -1]].round(1)
    array([[ 10.3,  10.2],
           [ 10.3,  12.3],
           [197. , 168. ]])
    """
    rows, k = n1 + n2, np.arange(p)
    level = stats.chi2.sf(math.log(rows) + 2 * G * math.log(total), 1)
    free = rows - 3.0 - k
    t = stats.t.isf(level / 2, free)
    free1, free2 = n1 - 1 - k, n2 - 1 - k
    ratios = [_variance_ratio(n1, n2, tail(level / 2, free1, free2) * free1, free2) for tail in (stats.f.isf, stats.f.ppf)]
    table: FloatArray = np.array(
        [free / 2 * np.log1p(t * t / free), free / rows * np.minimum(*ratios), free]
    )
    return table


def _variance_ratio(n1: float, n2: float, rss1: FloatArray, rss2: FloatArray) -> FloatArray:
    """Likelihood ratio of two variances against one."""
    rows = n1 + n2
    ratio: FloatArray = (
        rows / 2 * np.log((rss1 + rss2) / rows) - n1 / 2 * np.log(rss1 / n1) - n2 / 2 * np.log(rss2 / n2)
    )
    return ratio
