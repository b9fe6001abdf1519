"""What a change has to pay, by the number of predecessors.

With many rows a change costs ``1/2 log(n1 + n2) + g log p`` (METHOD 3d). That is a level: the probability that
twice a likelihood ratio of one true null hypothesis, chi-squared with one degree of freedom, is larger. With few
rows likelihood ratios are larger by chance, the more so the more predecessors there are: the penalty is the value
that the likelihood ratio takes where Student's t test (for a coefficient) or Fisher's F test (for a ratio of
variances) reaches that level. docs/order.md has the simulations in which g was chosen.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from diffdag.ordersearch.state import FloatArray

G = 2.0


def penalties(n1: float, n2: float, p: int, total: int) -> FloatArray:
    """Penalties for a changed coefficient and for a changed variance, [which, number of predecessors].

    Parameters
    ----------
    n1, n2 : float
        Rows.
    p : int
        Variables that are ordered; more than n1 - 2 or n2 - 2 make no sense.
    total : int
        Variables there were before screening.

    Examples
    --------
    >>> penalties(1e6, 1e6, 3, 10).round(2)
    array([[11.86, 11.86, 11.86],
           [11.86, 11.86, 11.86]])
    >>> penalties(100, 100, 30, 30)[:, [0, -1]].round(2)
    array([[ 9.51, 10.95],
           [ 9.6 , 14.04]])
    """
    rows, k = n1 + n2, np.arange(p)
    level = stats.chi2.sf(math.log(rows) + 2 * G * math.log(total), 1)
    freedom = rows - 3 - k
    t = stats.t.isf(level / 2, freedom)
    change = rows / 2 * np.log1p(t * t / freedom)
    ratios = [_variance_ratio(n1, n2, k, tail(level / 2, n1 - 1 - k, n2 - 1 - k)) for tail in (stats.f.isf, stats.f.ppf)]
    result: FloatArray = np.array([change, np.minimum(*ratios)])
    return result


def _variance_ratio(n1: float, n2: float, k: FloatArray, f: FloatArray) -> FloatArray:
    """Likelihood ratio of two variances against one where Fisher's statistic is f."""
    rss1, rss2, rows = f * (n1 - 1 - k), n2 - 1 - k, n1 + n2
    ratio: FloatArray = (
        rows / 2 * np.log((rss1 + rss2) / rows) - n1 / 2 * np.log(rss1 / n1) - n2 / 2 * np.log(rss2 / n2)
    )
    return ratio
