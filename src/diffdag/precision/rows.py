"""The problem of two tables with far fewer rows than variables, which forms no p x p matrix.

With ``Z1`` and ``Z2`` the centred and standardised tables, divided by the roots of their numbers of rows,

    Sigma1 Delta Sigma2 - Sigma2 + Sigma1 = [Z1; Z2]' [Z1 + M Z2; -Z2],    M = Z1 Delta Z2'

where ``M`` has as many rows and columns as the tables have rows. The product is worked out for some rows at a
time; in single precision, twice as fast, as long as violators are looked for, and in double precision where a
certificate is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from diffdag._base.arrays import FloatArray, IndexArray
from diffdag.precision.problem import Blocks, Entries, SparseProblem, compressed, multiply
from diffdag.precision.scan import peaks

HEIGHT = 1_000  # rows of a block: enough for a fast product
PART = 1 << 12  # entries worked out together


@dataclass(frozen=True, eq=False)
class RowsProblem(SparseProblem):
    """Two standardised tables, divided by the roots of their numbers of rows, and the absolute penalty."""

    first_rows: FloatArray
    second_rows: FloatArray
    penalty: float
    rough_error: float = 1e-5

    @property
    def p(self) -> int:
        """Number of variables."""
        return int(self.first_rows.shape[1])

    @cached_property
    def penalty_max(self) -> float:
        """The largest entry of the target."""
        return peaks(self.residual_blocks(csr_array((self.p, self.p))), self.p).largest

    def first(self, rows: IndexArray, columns: IndexArray) -> FloatArray:
        """``Sigma1[k, i]`` for each of the rows k and columns i."""
        return _products(self.first_rows, rows, columns)

    def second(self, rows: IndexArray, columns: IndexArray) -> FloatArray:
        """``Sigma2[k, i]``."""
        return _products(self.second_rows, rows, columns)

    def at(self, entries: Entries) -> tuple[FloatArray, FloatArray]:
        """Some entries of ``Sigma1`` and of ``Sigma2``."""
        values = np.empty((2, len(entries[0])))
        for start in range(0, values.shape[1], PART):
            some = slice(start, start + PART)
            for k, table in enumerate((self.first_rows, self.second_rows)):
                values[k, some] = np.einsum("rk,rk->k", table[:, entries[0][some]], table[:, entries[1][some]])
        return values[0], values[1]

    def residual_blocks(self, delta: csr_array, *, rough: bool = False) -> Blocks:
        """``[Z1; Z2]' [Z1 + M Z2; -Z2]``, block by block."""
        one, two = self._single if rough else (self.first_rows, self.second_rows)
        left = np.concatenate([one, two])
        right = np.concatenate([one + self._middle(delta).astype(one.dtype) @ two, -two])
        yield from _blocks(left, right)

    def price_blocks(self, dual: csr_array) -> Blocks:
        """``Z1' M Z2``, block by block."""
        yield from _blocks(self.first_rows, self._middle(dual) @ self.second_rows)

    def products_with(self, left: csr_array) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        """``C Z1' Z1`` and ``C Z2' Z2``, block by block, in single precision."""
        one, two = self._single
        sides = [(left @ table.T).astype(np.float32).T for table in (one, two)]
        both = (_blocks(side, table) for side, table in zip(sides, (one, two), strict=True))
        for (start, first), (_, second) in zip(*both, strict=True):
            yield start, first, second

    def pooled_grams(self, columns: IndexArray, first_weight: float, second_weight: float) -> FloatArray:
        """``w1 Z1' Z1 + w2 Z2' Z2`` of the columns in each row, in single precision."""
        grams = np.zeros((*columns.shape, columns.shape[1]))
        for weight, across in zip((first_weight, second_weight), self._across, strict=True):
            some = across[columns]
            grams += weight * (some @ some.swapaxes(1, 2))
        return grams

    @cached_property
    def ranges(self) -> tuple[FloatArray, FloatArray]:
        """Right singular vectors of both tables whose singular values are more than rounding errors."""
        (_, one, first), (_, two, second) = (
            np.linalg.svd(table, full_matrices=False) for table in (self.first_rows, self.second_rows)
        )
        error = self.p * np.finfo(float).eps
        return first[one > error * one[0]].T, second[two > error * two[0]].T

    @cached_property
    def _single(self) -> tuple[Any, Any]:
        return self.first_rows.astype(np.float32), self.second_rows.astype(np.float32)

    @cached_property
    def _across(self) -> tuple[Any, Any]:
        """A row for each variable."""
        one, two = self._single
        return np.ascontiguousarray(one.T), np.ascontiguousarray(two.T)

    def _middle(self, matrix: csr_array) -> FloatArray:
        """``M``: the tables on both sides of a sparse matrix."""
        rows, columns, core = compressed(matrix)
        middle: FloatArray = self.first_rows[:, rows] @ core @ self.second_rows[:, columns].T
        return middle


def _products(table: FloatArray, rows: IndexArray, columns: IndexArray) -> FloatArray:
    """Entries of the covariance matrix; each variable enters the product once, however often asked for."""
    row, at_row = np.unique(rows, return_inverse=True)
    column, at_column = np.unique(columns, return_inverse=True)
    product = table[:, row].T @ table[:, column]
    return product[at_row[:, None], at_column]


def _blocks(left: NDArray[Any], right: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """``left' right``, block by block, in one buffer."""
    height = left.shape[1]
    room = np.empty((min(HEIGHT, height), right.shape[1]), right.dtype)
    for start in range(0, height, HEIGHT):
        part = left[:, start : start + HEIGHT]
        yield start, multiply(part.T, right, out=room[: part.shape[1]])


def standardise_rows(first: FloatArray, second: FloatArray) -> tuple[RowsProblem, FloatArray]:
    """The problem for two tables, each variable divided by its pooled scale; and these scales."""
    tables = [table - table.mean(axis=0) for table in (first, second)]
    variances = [np.einsum("rk,rk->k", table, table) / len(table) for table in tables]
    scale = np.sqrt((variances[0] + variances[1]) / 2)
    one, two = (table / (scale * np.sqrt(len(table))) for table in tables)
    return RowsProblem(one, two, 0.0), scale
