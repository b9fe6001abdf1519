"""Sets of Gaussian variables, each worked out once: partial correlations, Fisher's z and BIC from moments.

All that PC, GES and MMHC ask of the data is the inverse of a block of the correlation matrix. The inverse over
a set gives the partial correlation of every two members given the others, and the variance of every member
given the others (Lauritzen 1996, section 5.1). A set is an integer with one bit per variable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import numpy as np

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag._base.errors import InputError
from diffdag._base.words import plural
from diffdag.reproduce.methods.method import same_variables
from diffdag.tables.moments import Moments

REMEMBERED = 100_000  # sets, some 50 MB
_NEARLY_ONE = 1 - np.finfo(float).eps


def members(mask: int) -> Iterator[int]:
    """The variables of a set, in increasing order."""
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1


def as_mask(variables: Iterable[int]) -> int:
    """The set of these variables."""
    return sum(1 << int(variable) for variable in variables)


class Gaussian:
    """One condition of Gaussian variables, asked about sets of them; what is known is kept."""

    def __init__(self, moments: Moments, label: str) -> None:
        self.p, self.n = len(moments.names), moments.n
        if self.p >= 2 and self.n < self.p + 2:
            raise InputError(
                f"the {label} table has {plural(self.n, 'row')}; to learn its graph over {self.p} variables at "
                f"least {self.p + 2} are needed: add rows or choose fewer columns"
            )
        scale = np.sqrt(np.diag(moments.scatter))
        self.correlation: FloatArray = moments.scatter / scale[:, None] / scale[None, :]
        self._log_rows = math.log(self.n)
        self._z = lru_cache(REMEMBERED)(self._statistics)
        self._bic = lru_cache(REMEMBERED)(self._scores)

    def fisher_z(self, x: int, y: int, given: int) -> float:
        """Size of the partial correlation in standard errors: ``sqrt(n - |S| - 3) |atanh r|`` (Fisher 1924)."""
        mask = given | 1 << x | 1 << y
        below_x, below_y = mask & ((1 << x) - 1), mask & ((1 << y) - 1)
        return float(self._z(mask)[below_x.bit_count(), below_y.bit_count()])

    def bic(self, target: int, parents: int) -> float:
        """The part of a variable in BIC: ``-n/2 log var(y | S) - (|S| + 1)/2 log n``, the larger the better.

        Up to a constant of the variable, the score of Schwarz (1978) for a Gaussian DAG.
        """
        return self._bic(parents | 1 << target)[target]

    def _precision(self, mask: int) -> FloatArray:
        index = list(members(mask))
        block = self.correlation[np.ix_(index, index)]
        return np.asarray(np.linalg.inv(block), np.float64)

    def _statistics(self, mask: int) -> FloatArray:
        """Fisher's z of every two members given the others."""
        omega = self._precision(mask)
        scale = np.sqrt(np.abs(np.diag(omega)))
        partial = np.minimum(np.abs(omega) / scale[:, None] / scale, _NEARLY_ONE)
        return math.sqrt(self.n - mask.bit_count() - 1) * np.arctanh(partial)

    def _scores(self, mask: int) -> dict[int, float]:
        """BIC of every member with the others for its parents."""
        log_precision = np.log(np.abs(np.diag(self._precision(mask))))
        scores = (self.n * log_precision - mask.bit_count() * self._log_rows) / 2
        return dict(zip(members(mask), scores.tolist(), strict=True))


def both_tables(first: Moments, second: Moments) -> tuple[Gaussian, Gaussian]:
    """The two conditions of a comparison, checked, over the same variables."""
    second = same_variables(first, second)
    return Gaussian(first, "first"), Gaussian(second, "second")


def subtract_graphs(learn: Callable[[Gaussian], BoolArray], first: Moments, second: Moments) -> BoolArray:
    """Learn a graph in each condition; what is in one of them only is a difference, as in the paper.

    ``[i, j]`` is an edge ``j -> i``, an undirected edge has both entries. So an edge that is directed in one
    graph and undirected in the other becomes a directed edge, and one that is reversed an undirected edge.
    """
    one, two = map(learn, both_tables(first, second))
    return one ^ two
