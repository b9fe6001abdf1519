"""The problem every estimator of the precision difference receives, and the solution it returns.

With ``Delta = Omega1 - Omega2`` the covariances satisfy ``Sigma1 Delta Sigma2 = Sigma2 - Sigma1`` (Zhao,
Cai and Li 2014; the display in section 3.1 of the paper has a slip here). The sparse estimators bound the
residual of this identity by a penalty ``lambda``. Everything is solved on the standardised scale: each
variable is divided by its pooled scale, the square root of the mean of its two variances, so that units do
not matter.

The sparse solvers see a problem through the few methods of `SparseProblem`: products of covariances at some
entries, and the residual of all entries, block by block. `DifferenceProblem` holds two covariance matrices;
`rows.RowsProblem` holds two tables, and forms no p x p matrix.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from diffdag._base.arrays import FloatArray, IndexArray
from diffdag._base.errors import InputError
from diffdag._base.parallel import spread_products
from diffdag._base.words import named
from diffdag.tables.moments import Moments

Entries = tuple[IndexArray, IndexArray]
# A row to begin with, and so many rows of a p x p matrix as go into a block.
Blocks = Iterator[tuple[int, FloatArray]]
Penalty = float | str
BLOCK = 1 << 21  # numbers in a block
PART = 1 << 11  # entries looked at together
LEAST_REST = 1e-6  # a share of a matrix that is more than rounding errors
MARGIN = 1e-9  # share by which a penalty is too small, not by rounding errors
SCATTERED = 50  # a sparse matrix with fewer entries than one in so many, within its rows and columns
BAND = 256  # rows multiplied together


class SparseProblem(ABC):
    """What the sparse solvers ask of a problem."""

    penalty: float
    rough_error: float = 0.0  # how far rough residuals may be off; 0 if there are none

    @property
    @abstractmethod
    def p(self) -> int:
        """Number of variables."""

    @property
    @abstractmethod
    def penalty_max(self) -> float:
        """The smallest penalty at which the estimate is zero: the largest entry of the target."""

    def at_penalty(self, penalty: float) -> Self:
        """Return this problem with another penalty, and with what was worked out already."""
        other = copy.copy(self)
        vars(other)["penalty"] = penalty  # no cached property depends on it
        return other

    @abstractmethod
    def first(self, rows: IndexArray, columns: IndexArray) -> FloatArray:
        """``Sigma1[k, i]`` for each of the rows k and columns i."""

    @abstractmethod
    def second(self, rows: IndexArray, columns: IndexArray) -> FloatArray:
        """``Sigma2[k, i]``."""

    @abstractmethod
    def at(self, entries: Entries) -> tuple[FloatArray, FloatArray]:
        """Some entries of ``Sigma1`` and of ``Sigma2``."""

    def target_at(self, entries: Entries) -> FloatArray:
        """Some entries of ``Sigma2 - Sigma1``, the right-hand side of the identity."""
        one, two = self.at(entries)
        return two - one

    @abstractmethod
    def residual_blocks(self, delta: csr_array, *, rough: bool = False) -> Blocks:
        """``Sigma1 Delta Sigma2 - (Sigma2 - Sigma1)``, block by block; who receives a block may change it.

        Rough ones may have errors of `rough_error`.
        """

    @abstractmethod
    def price_blocks(self, dual: csr_array) -> Blocks:
        """``Sigma1 Y Sigma2``, block by block."""

    @abstractmethod
    def products_with(self, left: csr_array) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        """``C Sigma1`` and ``C Sigma2`` for a sparse ``C``, block by block; may be rough.

        Who receives a block may change it.
        """

    @abstractmethod
    def pooled_grams(self, columns: IndexArray, first_weight: float, second_weight: float) -> FloatArray:
        """``w1 Sigma1 + w2 Sigma2`` of the columns in each row; may be rough."""

    @property
    @abstractmethod
    def ranges(self) -> tuple[FloatArray, FloatArray]:
        """Orthonormal bases of what the covariance matrices span, up to rounding."""

    def singular(self) -> bool:
        """Whether one of the covariance matrices has no inverse, up to rounding."""
        return any(basis.shape[1] < self.p for basis in self.ranges)

    def refute(self, ray: csr_array) -> float:
        """A penalty below which no ``Delta`` meets the constraints, if ``Y`` proves that this one is below it.

        0 if it does not prove that. If ``Sigma1 Z Sigma2 = 0``, the residual of every ``Delta`` has the same
        product with ``Z``, minus ``<b, Z>``, so that its largest entry is at least ``<b, Z> / |Z|_1`` (the
        lemma of Farkas for this problem). ``Z`` is ``Y`` without what lies in the ranges of both matrices: for
        an invertible pair, nothing.
        """
        if not self.singular():
            return 0.0
        first, second = self.ranges
        rows, columns, core = compressed(ray)
        left, right = first @ (first[rows].T @ core @ second[columns]), np.ascontiguousarray(second.T)
        value = size = 0.0
        for start, block in self.residual_blocks(csr_array(ray.shape)):
            some = slice(start, start + len(block))
            rest = ray[some].toarray() - multiply(left[some], right)
            value -= float(np.vdot(block, rest))
            size += float(np.abs(rest).sum())
        return self._proved(value, size, float(np.abs(core).sum()))

    def refute_by_target(self) -> float:
        """What `refute` says of the ray ``b``, at every entry, without forming a p x p matrix.

        Of all ``Z`` with ``Sigma1 Z Sigma2 = 0`` this is the one with the largest ``<b, Z> / |Z|_F``: seldom
        the best proof, but one at the cost of two looks at ``b``.
        """
        if not self.singular():
            return 0.0
        first, second = self.ranges
        zero = csr_array((self.p, self.p))
        core = np.zeros((first.shape[1], second.shape[1]))
        whole = 0.0
        for start, block in self.residual_blocks(zero):  # which is -b
            core -= first[start : start + len(block)].T @ (block @ second)
            whole += float(np.abs(block).sum())
        left, right = first @ core, np.ascontiguousarray(second.T)
        value = size = 0.0
        for start, block in self.residual_blocks(zero):
            rest = -block - multiply(left[start : start + len(block)], right)
            value -= float(np.vdot(block, rest))
            size += float(np.abs(rest).sum())
        return self._proved(value, size, whole)

    def _proved(self, value: float, size: float, whole: float) -> float:
        """``<b, Z> / |Z|_1`` if it is above the penalty, and ``Z`` more than rounding errors of `whole`."""
        proved = size > LEAST_REST * whole and value > (1 + MARGIN) * self.penalty * size
        return value / size if proved else 0.0

    def products(self, left: Entries, right: Entries) -> FloatArray:
        """``Sigma1[k, i] Sigma2[j, l]`` for entries ``(k, l)`` and ``(i, j)``: of the Kronecker product."""
        product: FloatArray = self.first(left[0], right[0])
        product *= self.second(left[1], right[1])
        return product

    def residual_at(self, delta: csr_array, entries: Entries) -> FloatArray:
        """Some entries of the residual."""
        rows, columns, core = compressed(delta)
        row, at_row = np.unique(entries[0], return_inverse=True)
        column, at_column = np.unique(entries[1], return_inverse=True)
        left, right = times_core(self.first(row, rows), core), self.second(column, columns)
        values = -self.target_at(entries)
        for part in range(0, len(values), PART):
            some = slice(part, part + PART)
            values[some] += np.einsum("ek,ek->e", left[at_row[some]], right[at_column[some]])
        return values


@dataclass(frozen=True, eq=False)
class DifferenceProblem(SparseProblem):
    """Two standardised covariance matrices and the absolute penalty."""

    sigma1: FloatArray
    sigma2: FloatArray
    penalty: float

    @property
    def p(self) -> int:
        """Number of variables."""
        return len(self.sigma1)

    @cached_property
    def target(self) -> FloatArray:
        """``Sigma2 - Sigma1``, the right-hand side of the identity."""
        target: FloatArray = self.sigma2 - self.sigma1
        return target

    @cached_property
    def penalty_max(self) -> float:
        """The smallest penalty at which the estimate is zero: the largest entry of the target."""
        return float(max(self.target.max(), -self.target.min()))

    def first(self, rows: IndexArray, columns: IndexArray) -> FloatArray:
        """``Sigma1[k, i]`` for each of the rows k and columns i."""
        return self.sigma1[rows[:, None], columns]

    def second(self, rows: IndexArray, columns: IndexArray) -> FloatArray:
        """``Sigma2[k, i]``."""
        return self.sigma2[rows[:, None], columns]

    def at(self, entries: Entries) -> tuple[FloatArray, FloatArray]:
        """Some entries of ``Sigma1`` and of ``Sigma2``."""
        return self.sigma1[entries], self.sigma2[entries]

    def residual_blocks(self, delta: csr_array, *, rough: bool = False) -> Blocks:
        """``Sigma1 Delta Sigma2 - (Sigma2 - Sigma1)`` by two thin products."""
        for start, block in self.price_blocks(delta):
            yield start, np.subtract(block, self.target[start : start + len(block)], out=block)

    def price_blocks(self, dual: csr_array) -> Blocks:
        """``Sigma1 Y Sigma2``, touching only the non-empty rows and columns of ``Y``."""
        rows, columns, core = compressed(dual)
        left, right = times_core(self.sigma1[:, rows], core), self.sigma2[columns]
        for part in row_blocks(self.p, self.p):
            yield part.start, multiply(left[part], right)

    def products_with(self, left: csr_array) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        """``C Sigma1`` and ``C Sigma2`` by products of a sparse matrix."""
        for part in row_blocks(left.shape[0], self.p):
            some = left[part]
            yield part.start, some @ self.sigma1, some @ self.sigma2

    def pooled_grams(self, columns: IndexArray, first_weight: float, second_weight: float) -> FloatArray:
        """``w1 Sigma1 + w2 Sigma2`` of the columns in each row."""
        block = columns[:, :, None], columns[:, None, :]
        grams: FloatArray = first_weight * self.sigma1[block] + second_weight * self.sigma2[block]
        return grams

    @cached_property
    def ranges(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvectors of both covariance matrices whose eigenvalues are more than rounding errors."""
        (one, first), (two, second) = (np.linalg.eigh(sigma) for sigma in (self.sigma1, self.sigma2))
        error = self.p * np.finfo(float).eps
        return first[:, one > error * one[-1]], second[:, two > error * two[-1]]

    def violation(self, residual: FloatArray) -> float:
        """How far the worst constraint ``|residual| <= penalty`` is broken."""
        return max(0.0, float(np.abs(residual).max()) - self.penalty)


@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver found on the standardised scale, with its certificate.

    `least_penalty` is not zero where the solver proved that its constraints contradict each other: at a smaller
    penalty than this there is no solution. What it gives in place of one breaks some of them.
    """

    delta: csr_array
    objective: float
    violation: float
    gap: float
    iterations: int
    converged: bool
    least_penalty: float = 0.0


def compressed(matrix: csr_array) -> tuple[IndexArray, IndexArray, FloatArray]:
    """The rows and columns of a sparse matrix that are not empty, and what is in them."""
    entries = matrix.tocoo()
    rows, row = np.unique(entries.row, return_inverse=True)
    columns, column = np.unique(entries.col, return_inverse=True)
    core = np.zeros((len(rows), len(columns)))
    core[row, column] = entries.data
    return rows.astype(np.intp), columns.astype(np.intp), core


def times_core(left: FloatArray, core: FloatArray) -> FloatArray:
    """``left @ core``, by the entries of the core if these are few and scattered."""
    few = np.count_nonzero(core) * SCATTERED < core.size
    product: FloatArray = np.asarray(csr_array(core.T) @ left.T).T if few else left @ core
    return product


def row_blocks(rows: int, columns: int) -> Iterator[slice]:
    """The rows of a matrix in parts that fit the processor's cache."""
    height = max(1, BLOCK // columns)
    for start in range(0, rows, height):
        yield slice(start, min(rows, start + height))


def multiply(left: NDArray[Any], right: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
    """``left @ right`` in bands of rows; within `one_blas_thread` the same on any number of threads."""
    product: NDArray[Any] = np.empty((len(left), right.shape[1]), right.dtype) if out is None else out

    def band(start: int) -> None:
        rows = slice(start, start + BAND)
        np.matmul(left[rows], right, out=product[rows])

    spread_products(band, range(0, len(left), BAND))
    return product


def pooled_scale(first: Moments, second: Moments) -> FloatArray:
    """The square root of the mean of each variable's two variances."""
    variances = (np.diag(moments.scatter) / moments.n for moments in (first, second))
    return np.sqrt(sum(variances) / 2)


def standardise(first: Moments, second: Moments, penalty: float = 0.0) -> DifferenceProblem:
    """The problem for the moments of two tables, each variable divided by its pooled scale."""
    scale = pooled_scale(first, second)
    units = np.outer(scale, scale)
    return DifferenceProblem(first.scatter / units / first.n, second.scatter / units / second.n, penalty)


def resolve_penalty(penalty: Penalty, penalty_max: float, p: int, n: int) -> float:
    """The absolute penalty meant by a fraction of `penalty_max` or by ``"rate:c"``, ``c sqrt(log p / n)``."""
    if isinstance(penalty, str):
        try:
            rate = float(penalty.removeprefix("rate:"))
        except ValueError:
            rate = -1.0
        if not (penalty.startswith("rate:") and 0 <= rate < math.inf):
            raise InputError(
                named("penalty"),
                f" {penalty!r} is not understood; give a fraction such as 0.3, or 'rate:0.3'",
            )
        return rate * math.sqrt(math.log(p) / n)
    if not isinstance(penalty, (int, float, np.number)) or not 0 <= penalty < math.inf:
        raise InputError(
            named("penalty"),
            f" is a fraction of the penalty that gives no change, 0 or larger; it is {penalty!r}",
        )
    return float(penalty) * penalty_max
