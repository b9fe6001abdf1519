"""What chance gains on these rows, compared with what it gains on Gaussian ones.

Random halves of one table differ in nothing. Along some orders, the largest gain of a changed coefficient, of a
changed variance and of a changed intercept between such halves tells how far heavy tails, zeros, ties and nearly
collinear columns carry chance; the same gains between halves of Gaussian rows with the same covariances tell how
far the penalties expect it to go. Their ratio is what the penalties are multiplied by, where it is above one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from diffdag._base.arrays import BoolArray, FloatArray, IntArray
from diffdag.ordersearch.penalty import Inflation

# Random halves of each table, and orders besides those that are given.
SPLITS, ORDERS = 25, 4
# Of longer tables so many rows are taken, evenly spaced.
LONGEST = 10_000
# Rows of each half for a variable; where there are fewer, variables are left out at random.
ROWS_PER_VARIABLE = 3
# The share of splits in which chance gains less; the ratio is taken there.
QUANTILE = 0.9
# Ratios up to this are noise of the splits.
TOLERANCE = 1.15
TINY = 1e-12


class Chance(NamedTuple):
    """Largest gains by chance, [split, kind]: of coefficients, variances, intercepts."""

    rows: FloatArray
    gaussian: FloatArray

    def inflation(self) -> Inflation:
        """What the penalties are multiplied by."""
        seen, expected = (np.quantile(gains, QUANTILE, axis=0) for gains in self)
        ratios = seen / expected
        return Inflation(*np.where(ratios > TOLERANCE, ratios, 1.0).tolist())


def split_tables(
    tables: Sequence[FloatArray], orders: Sequence[Sequence[int]], rng: np.random.Generator, splits: int = SPLITS
) -> Chance:
    """Split each table at random, many times, and see what chance gains along some orders."""
    seen, expected = [], []
    for table in tables:
        rows = table[:: 1 + (len(table) - 1) // LONGEST]
        n, p = rows.shape
        places = _places(orders, p, max(2, n // ROWS_PER_VARIABLE), rng)
        rows = rows - rows.mean(axis=0)
        root = np.linalg.cholesky(rows.T @ rows / n)
        for _ in range(splits):
            alike = rng.standard_normal(rows.shape) @ root.T
            draws = [rng.multinomial(n, np.full(n, 1 / n)) for _ in range(2)]
            seen.append(largest_gains(*(_sums(rows, times) for times in draws), places))
            expected.append(largest_gains(*(_sums(alike, times) for times in draws), places))
    return Chance(np.array(seen), np.array(expected))


def _places(orders: Sequence[Sequence[int]], p: int, most: int, rng: np.random.Generator) -> IntArray:
    """Orders to look along, [order, position]; of at most so many variables."""
    chosen = [np.array(order) for order in orders] + [rng.permutation(p) for _ in range(ORDERS)]
    if p > most:
        chosen = [order[np.sort(rng.choice(p, most, replace=False))] for order in chosen]
    return np.array(chosen, dtype=np.int64)


def _sums(rows: FloatArray, times: IntArray) -> FloatArray:
    """Sums of products of the columns and, last, of a constant, with each row so many times."""
    wide = np.column_stack([rows, np.ones(len(rows))])[times > 0]
    return (wide * times[times > 0, None]).T @ wide


def largest_gains(first: FloatArray, second: FloatArray, places: IntArray) -> FloatArray:
    """The largest gain in the score of one changed coefficient, variance and intercept along any of the orders.

    Sums of products end with those of the constant, which precedes all. With the pooled sums ``R'R`` and those
    of the first condition ``S``, ``Y = R'^-1 S`` holds inner products of the residuals with the variables in the
    first condition, and a changed coefficient of k at t removes the share ``Y_tk^2 / (S_kk - sum_s<t Y_sk^2)``
    of the residual (see core/view.h).
    """
    constant = len(first) - 1
    n1, n2 = first[-1, -1], second[-1, -1]
    place = np.concatenate([np.full((len(places), 1), constant), places], axis=1)
    block = place[:, :, None], place[:, None, :]
    own, pooled = first[block], (first + second)[block]
    root = np.linalg.cholesky(pooled)
    y = np.linalg.solve(root, own)
    kept = np.diagonal(own, axis1=1, axis2=2)[:, None, :] - np.cumsum(y * y, axis=1) + y * y
    below: BoolArray = np.tril(np.ones(own.shape[1:], bool), -1)
    share = np.where(below, y * y / np.maximum(kept, TINY * kept.max()), 0.0)
    free = (n1 + n2 - 2.0 - np.arange(len(place[0])))[None, :]
    gains = -free[:, :, None] / 2 * np.log1p(-np.minimum(share, 1 - TINY))
    inner = np.diagonal(np.linalg.solve(root, y.transpose(0, 2, 1)), axis1=1, axis2=2)[:, 1:]
    inner, middle = np.clip(inner, TINY, 1 - TINY), n1 / (n1 + n2)
    apart = n1 * np.log(middle / inner) + n2 * np.log((1 - middle) / (1 - inner))
    variances = free[:, 1:] / (n1 + n2) * apart / 2
    return np.array([gains[:, :, 1:].max(), variances.max(), gains[:, :, 0].max()])
