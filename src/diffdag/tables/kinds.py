"""Columns of numbers that are no measurements: constants, counters of rows, times.

A column that holds one value in all but one or two of many rows is as good as constant: every covariance with
it would be that of these rows alone. A counter increases (or decreases) by one constant step along all rows, or
is whole, strictly increasing (or decreasing) and without a value that occurs twice in both tables together, as
row numbers are when some rows were taken out; a measurement that rises with time has no such steps.
"""

from __future__ import annotations

import math
import re
from typing import Literal, NamedTuple

import numpy as np

from diffdag._base.arrays import BoolArray, FloatArray, IntArray

# "ids" are numbers of rows that are in no order; "time" is in the order of the rows, "times" are not.
Kind = Literal["", "counter", "ids", "time", "times"]

RARE = 2  # rows that may hold another value in a column that counts as constant
MANY = 20  # rows from which on that is said
BLOCK = 256  # columns that are looked at together
COUNTED = 6  # rows from which on a counter is told from a measurement

# Seconds from 1990 to 2100, counted from 1970; times are also written in thousandths and so on.
_SECONDS = 631_152_000, 4_102_444_800
_UNITS = 1.0, 1e3, 1e6, 1e9
# Names of columns that number or name something, and of times.
_ID = re.compile(r"(^|[^a-z])(id|ids|index|idx|row|rownum|nr|counter|record|barcode)([^a-z]|$)")
_TIME = re.compile(r"time|date|stamp|epoch", re.IGNORECASE)


class Common(NamedTuple):
    """Of each column: the value that all rows but a few hold, and how many these few are."""

    value: FloatArray  # NaN where there is no such value
    odd: IntArray  # rows with another value, -1 where there is no such value
    rows: IntArray  # in which the column is not missing

    @property
    def flat(self) -> BoolArray:
        """Which columns are constant, or as good as that."""
        found: BoolArray = (self.odd == 0) | ((self.odd > 0) & (self.rows >= MANY))
        return found


def common_values(array: FloatArray, gaps: IntArray) -> Common:
    """Find what nearly all rows of each column hold; `gaps` are how many values are missing.

    >>> import numpy as np
    >>> common_values(np.array([[1.0, 0.1], [1.0, 0.2], [1.0, 0.1]]), np.array([0, 0])).odd.tolist()
    [0, -1]
    """
    n, p = array.shape
    value, odd = np.full(p, np.nan), np.full(p, -1, np.int64)
    rows = n - np.asarray(gaps, np.int64)
    whole = np.flatnonzero((gaps == 0) & (n > 0))
    if len(whole):
        # Among twice as many rows and one, most hold the common value: that leaves out nearly all columns.
        head = np.sort(array[: 2 * RARE + 1, whole] if len(whole) < p else array[: 2 * RARE + 1], axis=0)
        middle = head[(len(head) - 1) // 2]
        some = (head == middle).sum(axis=0) > min(RARE, len(head) - 1)
        whole, middle = whole[some], middle[some]
        others = np.zeros(len(whole), np.int64)
        for start in range(0, len(whole), BLOCK):  # not all at once, of wide tables
            part = slice(start, start + BLOCK)
            others[part] = (array[:, whole[part]] != middle[part]).sum(axis=0)
        kept = others <= RARE
        value[whole[kept]], odd[whole[kept]] = middle[kept], others[kept]
    for k in np.flatnonzero((gaps > 0) & (gaps < n)):
        own = array[~np.isnan(array[:, k]), k][:, None]
        found = common_values(own, np.zeros(1, np.int64))
        value[k], odd[k] = found.value[0], found.odd[0]
    return Common(value, odd, rows)


def chance_of_rarity(odd: int, rows: int, other: FloatArray, value: float) -> float:
    """P-value that rows with another value are as rare in one table as in the other (Fisher's exact test).

    Of the `rows` of one table, `odd` differ from `value`; `other` are the values of the other table.
    """
    differ = int((other != value).sum()) + odd
    total = rows + len(other)
    possible = (k for k in range(odd + 1) if 0 <= differ - k <= len(other))
    logs = (_choose(rows, k) + _choose(len(other), differ - k) - _choose(total, differ) for k in possible)
    return min(1.0, 2 * sum(map(math.exp, logs)))


def _choose(n: int, k: int) -> float:
    """Logarithm of the number of ways to choose k of n."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def orderly(first: FloatArray, second: FloatArray, gaps: IntArray) -> IntArray:
    """Columns that may be counters or times: they rise or fall along a few rows of both tables."""
    if min(len(first), len(second)) < COUNTED:
        return np.zeros(0, np.int64)
    with np.errstate(all="ignore"):
        rows = [array[np.linspace(0, len(array) - 1, COUNTED).astype(int)] for array in (first, second)]
        steps = [np.diff(own, axis=0) for own in rows]
        rising = [((own >= 0).all(axis=0) | (own <= 0).all(axis=0)) & own.any(axis=0) for own in steps]
    return np.flatnonzero((rising[0] & rising[1]) | (gaps > 0))


@np.errstate(all="ignore")
def kind_of_numbers(name: str, *tables: FloatArray) -> Kind:
    """What a column of numbers is that varies in one table or both, none missing: empty for measurements.

    >>> import numpy as np
    >>> kind_of_numbers("row", np.arange(1.0, 9.0), np.arange(9.0, 20.0))
    'counter'
    >>> kind_of_numbers("x", np.arange(8.0) ** 2 / 3, np.arange(11.0))
    ''
    """
    if min(map(len, tables)) < COUNTED or not all(np.isfinite(own).all() for own in tables):
        return ""
    every, steps = np.concatenate(tables), [np.diff(own) for own in tables]
    rising = all((own >= 0).all() for own in steps)
    if (rising or _TIME.search(name)) and _are_times(every):
        return "time" if rising else "times"
    if all(map(_evenly_spaced, tables)):
        return "counter"
    if not (every == np.rint(every)).all() or len(np.unique(every)) < len(every):
        return ""
    strictly = all((own > 0).all() for own in steps) or all((own < 0).all() for own in steps)
    return "counter" if strictly else "ids" if names_ids(name) else ""


def names_ids(name: str) -> bool:
    """Whether a column is called as those are that number or name rows."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    return _ID.search(spaced.lower()) is not None


def names_rows(name: str) -> bool:
    """Whether a column is called as those are that number rows or hold their times."""
    return names_ids(name) or _TIME.search(name) is not None


def _evenly_spaced(values: FloatArray) -> bool:
    steps = np.diff(values)
    step = (values[-1] - values[0]) / len(steps)
    rounding = 8 * np.finfo(float).eps * np.abs(values).max() + 1e-6 * abs(step)
    return bool(step != 0 and (np.abs(steps - step) <= rounding).all() and rounding < abs(step) / 4)


def _are_times(values: FloatArray) -> bool:
    """Seconds since 1970, or the like, or days written as 20240131."""
    low, high = values.min(), values.max()
    if any(_SECONDS[0] * unit <= low and high <= _SECONDS[1] * unit for unit in _UNITS):
        return True
    if low < 19_000_101 or high > 21_001_231 or (values != np.rint(values)).any():
        return False
    month, day = values // 100 % 100, values % 100
    return bool(((month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)).all())
