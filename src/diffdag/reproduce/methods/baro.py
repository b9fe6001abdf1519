"""The robust score of BARO: deviations from the median of the first table, over its interquartile range.

Pham, Ha and Zhang (2024), *BARO: Robust root cause analysis for microservices via multivariate Bayesian online
change point detection*, their second step (RobustScorer): metrics are ranked by the largest
``|x_t - median| / IQR`` over the rows after the failure, median and IQR being those of the rows before. Their
first step finds when the failure began; here the two tables say so. ``baro-median`` takes the median over the
rows in place of the largest. BARO ranks; it names no set.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from diffdag._base.arrays import FloatArray
from diffdag._base.errors import InputError
from diffdag.reproduce.methods.method import NodeMethod, Ranking


def robust_score(over_rows: Callable[..., Any], first: FloatArray, second: FloatArray) -> Ranking:
    """The largest, or median, deviation of the second table's rows from the first's median, over its IQR."""
    low, middle, high = np.quantile(first, (0.25, 0.5, 0.75), axis=0)
    if (high == low).any():
        raise InputError("half of the rows of a column are the same, so that it has no interquartile range")
    return Ranking(np.asarray(over_rows(np.abs(second - middle), axis=0) / (high - low), np.float64))


_ABOUT = "deviation from the first median over its IQR, as BARO of Pham et al. 2024"
NODE_METHODS = (
    NodeMethod("baro-max", f"largest {_ABOUT}", partial(robust_score, np.max), "rows", claims=False),
    NodeMethod("baro-median", f"median {_ABOUT}", partial(robust_score, np.median), "rows", claims=False),
)
