"""What the score is made of: rows, penalties by number of predecessors, and what is known beforehand."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from diffdag._base.arrays import BoolArray, FloatArray

# Only if two variances gain this share of their penalty at the solution for one are they looked at closely: the
# first up to so many predecessors, the second beyond, where a look takes long.
SUSPECT, MANY = (0.25, 0.5), 14
# Rows, in penalties, below which that is not enough.
SMALL_TABLE = 5.0
# Rows of `Rules.table`: penalty of a changed coefficient, of a changed variance, free rows, and penalties of a
# changed intercept and of a changed gain.
CHANGE, VARIANCE, FREE, INTERCEPT, GAIN = range(5)


class Rules(NamedTuple):
    """Rows, tables by number of predecessors, and what is known beforehand.

    Rows of `limits`: the share of rss that a change has to remove; between which shares of the residual in the
    first condition one variance does for both (two rows), and between which two are not worth a close look;
    the share of rss that a changed intercept has to remove.
    """

    n1: float
    n2: float
    table: FloatArray
    limits: FloatArray
    equal: bool
    before: BoolArray  # before[a, b]: a has to precede b


def make_rules(n1: float, n2: float, table: FloatArray, equal: bool, before: BoolArray) -> Rules:
    """The rules with the limits that follow from a table of penalties."""
    n1, n2 = float(n1), float(n2)
    pays, intercept = -np.expm1(-2 * table[[CHANGE, INTERCEPT]] / table[FREE])
    if equal:
        low, high = np.full((2, 2, len(pays)), [[[-1.0]], [[2.0]]])
    else:
        gain = table[VARIANCE] / table[FREE] * (n1 + n2)
        suspect = np.where(np.arange(len(gain)) <= MANY, *SUSPECT)
        low, high = _variance_limits(n1, n2, np.array([gain, suspect * gain]).tobytes())
        small = min(n1, n2) <= SMALL_TABLE * table[CHANGE]
        low, high = low.reshape(2, -1).copy(), high.reshape(2, -1).copy()
        low[1, small], high[1, small] = 1.0, 0.0
    limits = np.array([pays, low[0], high[0], low[1], high[1], intercept])
    return Rules(n1, n2, table, limits, equal, before)


@lru_cache(maxsize=8)  # resamples ask again and again
def _variance_limits(n1: float, n2: float, gains: bytes) -> tuple[FloatArray, FloatArray]:
    """Between which shares of the residual in the first condition two variances gain less, by bisection."""
    middle, gain = n1 / (n1 + n2), np.frombuffer(gains)
    ends = []
    for end in (0.0, 1.0):
        outside, inside = np.full(gain.shape, end), np.full(gain.shape, middle)
        for _ in range(50):
            half = (outside + inside) / 2
            less = n1 / 2 * np.log(middle / half) + n2 / 2 * np.log((1 - middle) / (1 - half)) < gain
            inside, outside = np.where(less, half, inside), np.where(less, outside, half)
        ends.append(inside)
    return ends[0], ends[1]
