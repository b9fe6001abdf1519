"""Blocks of rows in, number of rows, mean and scatter out.

A block is centred at its own mean, multiplied with itself, and merged with what came before by the update of
Chan, Golub and LeVeque (1983). A rounded mean is kept together with what rounding cost it, so that a spread far
smaller than the mean loses nothing, however many blocks there are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from diffdag._base.arrays import FloatArray
from diffdag._base.parallel import spread_products

TILE = 512  # columns multiplied together: fewer would cost time, more would leave threads idle


def block_rows(p: int) -> int:
    """Rows of a block of p columns.

    So many that the p x p arrays cost little beside the product, and else so few that a block stays in the
    processor's cache, or below 64 MiB.
    """
    return max(1024, (1 << 17) // p, min(4 * p, (1 << 23) // p))


class Accumulator:
    """Number of rows, mean and scatter of the blocks of p columns added so far.

    >>> sums = Accumulator(2)
    >>> sums.add(np.array([[1.0, 2.0], [3.0, 2.0]]))
    >>> sums.add(np.array([[5.0, 8.0]]))
    >>> sums.n, sums.mean
    (3, array([3., 4.]))
    >>> sums.scatter
    array([[ 8., 12.],
           [12., 24.]])
    """

    def __init__(self, p: int) -> None:
        self.n = 0
        self.mean: FloatArray = np.zeros(p)
        self._rest: FloatArray = np.zeros(p)  # what the rounded mean lacks
        self.scatter: FloatArray = np.zeros((p, p))
        self._product: FloatArray | None = None

    def add(self, values: NDArray[np.generic], *, overwrite: bool = False) -> None:
        """Add rows of numbers, at least one; `overwrite` allows float64 values to be spoiled."""
        rows = len(values)
        mean = values.mean(axis=0, dtype=np.float64)
        block = np.subtract(values, mean, dtype=np.float64, out=values if overwrite else None, casting="unsafe")
        rest = block.sum(axis=0) / rows
        if self.n == 0:
            self.n, self.mean, self._rest, self.scatter = rows, mean, rest, gram(block)
            add_square(self.scatter, rest, -float(rows))
            return
        if self._product is None:
            self._product = np.empty_like(self.scatter)
        self.scatter += gram(block, self._product)
        add_square(self.scatter, rest, -float(rows))
        self._merge(rows, mean, rest)

    def widen(self, p: int) -> None:
        """Have p columns, of which new ones were 0 in all rows so far."""
        new = p - len(self.mean)
        if new:
            self.mean, self._rest = np.pad(self.mean, (0, new)), np.pad(self._rest, (0, new))
            self.scatter, self._product = np.pad(self.scatter, (0, new)), None

    def _merge(self, rows: int, mean: FloatArray, rest: FloatArray) -> None:
        n = self.n + rows
        shift = (mean - self.mean) + (rest - self._rest)
        add_square(self.scatter, shift, self.n * (rows / n))
        step = self._rest + shift * (rows / n)
        moved = self.mean + step
        # The sum's rounding error, exactly (Knuth).
        back = moved - self.mean
        self._rest = (self.mean - (moved - back)) + (step - back)
        self.n, self.mean = n, moved


def gram(block: FloatArray, out: FloatArray | None = None) -> FloatArray:
    """``block' block``; within `one_blas_thread` to the last bit the same on any number of threads."""
    p = block.shape[1]
    product: FloatArray = np.empty((p, p)) if out is None else out

    def multiply(corner: tuple[int, int]) -> None:
        rows, columns = (slice(start, start + TILE) for start in corner)
        np.matmul(block[:, rows].T, block[:, columns], out=product[rows, columns])
        if rows != columns:
            product[columns, rows] = product[rows, columns].T

    starts = range(0, p, TILE)
    spread_products(multiply, [(row, column) for row in starts for column in starts[row // TILE :]])
    return product


def add_square(matrix: FloatArray, vector: FloatArray, factor: float) -> None:
    """Add ``factor vector vector'`` in place: symmetric to the last bit, without another p x p array."""
    if not vector.any():
        return
    step = max(1, (1 << 18) // len(vector))
    for start in range(0, len(vector), step):
        piece = vector[start : start + step, None] * vector
        piece *= factor
        matrix[start : start + step] += piece
