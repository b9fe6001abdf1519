"""What chance gains on these rows, compared with what it gains on Gaussian ones.

Two samples of the rows of one table differ in nothing. Along some orders, the largest gain of a changed
coefficient, of a changed variance and of a changed intercept between such samples tells how far heavy tails,
zeros, ties and nearly collinear columns carry chance; the same gains between samples of as many Gaussian rows
with the same covariances tell how far the penalties expect it to go. The penalties are multiplied by the ratio,
where it is above one. Samples are drawn with replacement, as large as the table: halves would hide what a
single row can do among all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from diffdag._base.arrays import BoolArray, FloatArray, IntArray
from diffdag.ordersearch.penalty import Inflation

# Pairs of samples of each table, and random orders that gains are looked at along.
SPLITS, ORDERS = 25, 4
# Of longer tables so many rows are taken, evenly spaced.
LONGEST = 2_000
# Rows for a variable; where there are fewer, variables are left out at random, and so they are beyond MOST.
ROWS_PER_VARIABLE, MOST = 3, 60
# Ratios up to this, or within so many standard errors of one, are chance of the samples.
TOLERANCE, ERRORS = 1.15, 2.5
# Excess kurtosis of a column from which its tails are named as a reason.
HEAVY = 3.0
# What keeps sums of products of a sample positive definite, in units of the variance of a column.
RIDGE = 1e-9
TINY = 1e-12


class Chance(NamedTuple):
    """Largest gains by chance, [pair of samples, kind]: of coefficients, variances, intercepts."""

    rows: FloatArray
    gaussian: FloatArray

    @property
    def inflation(self) -> Inflation:
        """What the penalties are multiplied by: the ratio of the means, where it is clearly above one."""
        means = [gains.mean(axis=0) for gains in self]
        errors = [gains.var(axis=0) / len(gains) / mean**2 for gains, mean in zip(self, means, strict=True)]
        ratios = means[0] / means[1]
        clear = np.log(ratios) > ERRORS * np.sqrt(errors[0] + errors[1])
        return Inflation(*np.where(clear & (ratios > TOLERANCE), ratios, 1.0).tolist())


def see_chance(tables: Sequence[FloatArray], rng: np.random.Generator, splits: int = SPLITS) -> Chance:
    """Draw two samples of each table, many times, and see what chance gains along some orders.

    >>> rng = np.random.default_rng(0)
    >>> see_chance([rng.standard_normal((500, 5))], rng).inflation.change < 1.3
    True
    >>> see_chance([rng.standard_t(3, (500, 5))], rng).inflation.variance > 2
    True
    """
    gains = [_gains_of(table, splits, rng) for table in tables]
    return Chance(*(np.concatenate(kind) for kind in zip(*gains, strict=True)))


def _gains_of(table: FloatArray, splits: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Gains between samples of a table, and between samples of Gaussian rows."""
    rows = table[:: 1 + (len(table) - 1) // LONGEST]
    n = len(rows)
    most = max(2, min(n // ROWS_PER_VARIABLE, MOST))
    if rows.shape[1] > most:
        rows = rows[:, rng.choice(rows.shape[1], most, replace=False)]
    scale = rows.std(axis=0)
    rows = (rows - rows.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    rows *= np.where((rows**3).sum(axis=0) < 0, -1.0, 1.0)  # a column turned round is the same column
    p = rows.shape[1]
    root = np.linalg.cholesky(rows.T @ rows / n + RIDGE * np.eye(p))
    places = np.array([rng.permutation(p) for _ in range(ORDERS)])
    wide = np.column_stack([rows, np.ones(n)])
    alike = np.ones((splits, n, p + 1))
    times = np.empty((2, splits, n))
    for k in range(splits):
        alike[k, :, :-1] = rng.standard_normal(rows.shape) @ root.T
        for own in times:
            own[k] = np.bincount(rng.integers(n, size=n), minlength=n)
    seen, expected = (
        largest_gains(_sums(own, times[0]), _sums(own, times[1]), places) for own in (wide, alike)
    )
    return seen, expected


def _sums(wide: FloatArray, times: FloatArray) -> FloatArray:
    """Sums of products of columns, the last a constant, in samples that have each row so many times."""
    sums: FloatArray = np.swapaxes(wide * times[..., None], 1, 2) @ wide
    own = range(sums.shape[-1] - 1)
    sums[:, own, own] += RIDGE * times.shape[1]
    return sums


def largest_gains(first: FloatArray, second: FloatArray, places: IntArray) -> FloatArray:
    """The largest gain in the score of one changed coefficient, variance and intercept along any of the orders.

    By pair of samples. Sums of products end with those of the constant, which precedes all. With the pooled
    sums ``R'R`` and those of the first condition ``S``, ``Y = R'^-1 S`` holds inner products of the residuals
    with the variables in the first condition, and a changed coefficient of k at t removes the share
    ``Y_tk^2 / (S_kk - sum_s<t Y_sk^2)`` of the residual (see core/view.h).
    """
    constant = first.shape[-1] - 1
    n1, n2 = (sums[:, -1, -1][:, None, None] for sums in (first, second))
    place = np.concatenate([np.full((len(places), 1), constant), places], axis=1)
    block = slice(None), place[:, :, None], place[:, None, :]
    own, pooled = first[block], (first + second)[block]
    root = np.linalg.cholesky(pooled)
    y = np.linalg.solve(root, own)
    kept = np.diagonal(own, axis1=-2, axis2=-1)[..., None, :] - np.cumsum(y * y, axis=-2) + y * y
    below: BoolArray = np.tril(np.ones(own.shape[-2:], bool), -1)
    least = TINY * kept.max(axis=(1, 2, 3), keepdims=True)
    share = np.where(below, y * y / np.maximum(kept, least), 0.0)
    free = n1 + n2 - 2.0 - np.arange(place.shape[1])
    gains = -free[..., None] / 2 * np.log1p(-np.minimum(share, 1 - TINY))
    inner = np.diagonal(np.linalg.solve(root, np.swapaxes(y, -2, -1)), axis1=-2, axis2=-1)[..., 1:]
    inner, middle = np.clip(inner, TINY, 1 - TINY), n1 / (n1 + n2)
    apart = n1 * np.log(middle / inner) + n2 * np.log((1 - middle) / (1 - inner))
    variances = free[..., 1:] / (n1 + n2) * apart / 2
    largest = (gains[..., 1:].max(axis=(1, 2, 3)), variances.max(axis=(1, 2)), gains[..., 0].max(axis=(1, 2)))
    return np.stack(largest, axis=1)


def heavy_columns(tables: Sequence[FloatArray], names: Sequence[str]) -> list[str]:
    """Columns with heavy tails, or many zeros, in some table, the heaviest first."""
    worst = np.zeros(len(names))
    for table in tables:
        rows = table[:: 1 + (len(table) - 1) // LONGEST]
        apart = (rows - rows.mean(axis=0)) ** 2
        scale = np.maximum(apart.mean(axis=0), np.finfo(float).tiny)
        worst = np.maximum(worst, (apart * apart).mean(axis=0) / scale**2 - 3)
    return [names[k] for k in np.argsort(-worst, kind="stable") if worst[k] > HEAVY]
