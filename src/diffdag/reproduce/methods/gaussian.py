"""Sets of Gaussian variables, each worked out once: partial correlations, Fisher's z and BIC from moments.

All that PC, GES and MMHC ask of the data is the inverse of a block of the correlation matrix. The inverse over
a set gives the partial correlation of every two members given the others, and the variance of every member
given the others (Lauritzen 1996, section 5.1). A set is an integer with one bit per variable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import numpy as np

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag._base.errors import InputError
from diffdag._base.words import plural
from diffdag.reproduce.methods.method import same_variables
from diffdag.tables.degenerate import check_moments
from diffdag.tables.moments import Moments

Value = TypeVar("Value")
REMEMBERED = 100_000  # sets, some 50 MB; then all is forgotten, so that memory stays bounded
_NEARLY_ONE = 1 - np.finfo(float).eps


def members(mask: int) -> Iterator[int]:
    """The variables of a set, in increasing order.

    >>> list(members(0b1101))
    [0, 2, 3]
    """
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1


def as_mask(variables: Iterable[int]) -> int:
    """The set of these variables."""
    return sum(1 << int(variable) for variable in variables)


class Gaussian:
    """One condition of Gaussian variables, asked about sets of them; what is known is kept.

    >>> rows = np.random.default_rng(0).standard_normal((500, 3))
    >>> rows[:, 2] += rows[:, 0] + rows[:, 1]
    >>> table = Gaussian(Moments.from_array(rows), "first")
    >>> table.fisher_z(0, 1, 0) < 2, table.fisher_z(0, 1, 0b100) > 5   # a collider binds its causes
    (True, True)
    """

    def __init__(self, moments: Moments, label: str) -> None:
        self.p, self.n = len(moments.names), moments.n
        if self.p >= 2 and self.n < self.p + 2:
            raise InputError(
                f"the {label} table has {plural(self.n, 'row')}; to learn its graph over {self.p} variables at "
                f"least {self.p + 2} are needed: add rows or choose fewer columns"
            )
        check_moments(moments.names, moments.n, moments.scatter, label, mean=moments.mean)
        scale = np.sqrt(np.diag(moments.scatter))
        self.correlation: FloatArray = moments.scatter / scale[:, None] / scale[None, :]
        self._log_rows = math.log(self.n)
        self._z: dict[int, FloatArray] = {}
        self._bic: dict[int, dict[int, float]] = {}

    def fisher_z(self, x: int, y: int, given: int) -> float:
        """Size of the partial correlation in standard errors: ``sqrt(n - |S| - 3) |atanh r|`` (Fisher 1924)."""
        mask = given | 1 << x | 1 << y
        if mask not in self._z:
            _remember(self._z, mask, self._statistics(mask))
        below_x, below_y = mask & ((1 << x) - 1), mask & ((1 << y) - 1)
        return float(self._z[mask][below_x.bit_count(), below_y.bit_count()])

    def bic(self, target: int, parents: int) -> float:
        """The part of a variable in BIC: ``-n/2 log var(y | S) - (|S| + 1)/2 log n``, the larger the better.

        Up to a constant of the variable, the score of Schwarz (1978) for a Gaussian DAG.
        """
        mask = parents | 1 << target
        if mask not in self._bic:
            _remember(self._bic, mask, self._scores(mask))
        return self._bic[mask][target]

    def _precision(self, mask: int) -> FloatArray:
        index = list(members(mask))
        block = self.correlation[np.ix_(index, index)]
        return np.asarray(np.linalg.inv(block), np.float64)

    def _statistics(self, mask: int) -> FloatArray:
        """Fisher's z of every two members given the others."""
        omega = self._precision(mask)
        scale = np.sqrt(np.abs(np.diag(omega)))
        partial = np.minimum(np.abs(omega) / scale[:, None] / scale, _NEARLY_ONE)
        result: FloatArray = math.sqrt(self.n - mask.bit_count() - 1) * np.arctanh(partial)
        return result

    def _scores(self, mask: int) -> dict[int, float]:
        """BIC of every member with the others for its parents."""
        log_precision = np.log(np.abs(np.diag(self._precision(mask))))
        scores = (self.n * log_precision - mask.bit_count() * self._log_rows) / 2
        return dict(zip(members(mask), scores.tolist(), strict=True))


def _remember(known: dict[int, Value], mask: int, value: Value) -> None:
    if len(known) >= REMEMBERED:
        known.clear()
    known[mask] = value


def both_tables(first: Moments, second: Moments) -> tuple[Gaussian, Gaussian]:
    """The two conditions of a comparison, checked, over the same variables."""
    return Gaussian(first, "first"), Gaussian(same_variables(first, second), "second")


def subtract_graphs(learn: Callable[[Gaussian], BoolArray], first: Moments, second: Moments) -> BoolArray:
    """Learn a graph in each condition; what is in one of them only is a difference, as in the paper.

    ``[i, j]`` is an edge ``j -> i``, an undirected edge has both entries. So an edge that is directed in one
    graph and undirected in the other becomes a directed edge, and one that is reversed an undirected edge.
    """
    one, two = map(learn, both_tables(first, second))
    return one ^ two
