"""Errors of estimates from rows that are nested in units, such as cells in donors.

An estimate is a sum of what single rows contribute. Rows of one unit share what is special about it, so that
the contributions of units, not of rows, are independent (Liang and Zeger 1986):

    V = sum_u f_u (sum_{r in u} c_r)^2.

Contributions of a condition are those around its estimate, which a large unit draws towards itself: with shares
w of the rows, that of a unit which differs from others has the variance ``1 - 2 w_u + sum w^2`` times its own,
and ``1 - w_u`` if it does not, so that f is one over the smaller of these; for K units of the same size it is
``K / (K - 1)``. Degrees of freedom are those of so many units as sizes leave effective. Units that occur in
both conditions contribute what they contribute to both: what is special about them, and alike, cancels.

With few units V is hardly known. What it is in multiples of the variance that independent rows would have is
much the same for many estimates of one kind. As in linear models of gene expression (Smyth 2004), the multiple
of one estimate is drawn towards that of all, the more so the less they differ; degrees of freedom grow by what
all of them know.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.special import digamma, polygamma

from diffdag._base.arrays import FloatArray, IntArray
from diffdag.tables.adjust import Nested

ORDERS = 4  # random orders that multiples are seen along
MOST, ROWS_PER_VARIABLE = 60, 3  # variables that are looked at, and rows for each of them
RIDGE = 1e-10  # of a column's square, so that columns that depend on each other do no harm
LEAST_RATIO = 1e-6
LEAST_OWN = 1e-3  # what is left of a unit's own part in its contribution
MOST_TIMES = 3  # degrees of freedom that what all estimates share adds to those of one, in multiples of these
LARGEST = 5e7  # numbers of products of all units that are kept
MOST_FREEDOM = 1e4


class Prior(NamedTuple):
    """A multiple that many estimates share, and how many degrees of freedom knowing it is worth."""

    ratio: float = 1.0
    freedom: float = 0.0

    @classmethod
    def of(cls, ratios: FloatArray, freedom: float, most: float = math.inf) -> Prior:
        """From multiples that have so many degrees of freedom each, by the moments of their logarithms.

        It is worth no more than `most`: how alike they are is not known better than from so many.

        >>> rng = np.random.default_rng(0)
        >>> alike = Prior.of(2 * rng.chisquare(6, 5000) / 6, 6)
        >>> round(alike.ratio, 1), alike.freedom > 50
        (2.0, True)
        """
        kept = np.maximum(ratios[np.isfinite(ratios)], LEAST_RATIO)
        if len(kept) < 2:
            return cls()
        logs = np.log(kept) - digamma(freedom / 2) + math.log(freedom / 2)
        spread = float(logs.var(ddof=1)) - float(polygamma(1, freedom / 2))
        if spread <= 0:
            return cls(math.exp(logs.mean()), min(most, MOST_FREEDOM))
        own = min(2 * _trigamma_inverse(spread), MOST_FREEDOM)
        return cls(math.exp(logs.mean() + float(digamma(own / 2)) - math.log(own / 2)), min(own, most))

    def moderate(self, ratios: FloatArray, freedom: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Multiples drawn towards this one, and their degrees of freedom."""
        known = freedom + self.freedom
        return (freedom * ratios + self.freedom * self.ratio) / known, np.minimum(known, MOST_FREEDOM)


NO_PRIOR = Prior()


def _trigamma_inverse(value: float) -> float:
    """Newton's method on one over the trigamma function, which is nearly a straight line (Smyth 2004)."""
    x = 0.5 + 1 / value
    for _ in range(50):
        tri = float(polygamma(1, x))
        step = tri * (1 - tri / value) / float(polygamma(2, x))
        x += step
        if abs(step) < 1e-9 * x:
            break
    return x


@dataclass(frozen=True, eq=False)
class Units:
    """Which unit each row of both conditions belongs to, and what nesting multiplies variances by."""

    nested: Nested
    change: Prior = NO_PRIOR  # of coefficients
    variance: Prior = NO_PRIOR  # of noise variances
    multiples: tuple[float, float] = (1.0, 1.0)  # means of both kinds

    def spread(self, first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Variances of sums of contributions, [row, estimate], and their degrees of freedom."""
        members, count = self.nested.members, len(self.nested.units)
        return spread_of(unit_sums(first, members[0], count), unit_sums(second, members[1], count), members)

    def errors(self, first: FloatArray, second: FloatArray, prior: Prior) -> tuple[FloatArray, FloatArray]:
        """Standard errors of sums of contributions, and degrees of freedom, with what all estimates know."""
        rows = (first * first).sum(axis=0) + (second * second).sum(axis=0)
        own, freedom = self.spread(first, second)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = np.where(rows > 0, own / rows, 1.0)
        multiples, known = prior.moderate(ratios, freedom)
        return np.sqrt(rows * multiples), known

    def compare_levels(self, first: FloatArray, second: FloatArray) -> tuple[float, float, float]:
        """First mean of units minus second, its variance, and its degrees of freedom; NaN for absent units."""
        parts, value = [], 0.0
        for sign, levels in zip((1.0, -1.0), (first, second), strict=True):
            mean = float(np.nanmean(levels))
            value += sign * mean
            apart = sign * (levels - mean) / np.isfinite(levels).sum()
            parts.append(np.where(np.isfinite(apart), apart, 0.0)[:, None])
        variance, freedom = spread_of(parts[0], parts[1], self.nested.members, alike=True)
        return value, float(variance[0]), float(freedom[0])


def unit_sums(rows: FloatArray, members: IntArray, units: int) -> FloatArray:
    """Sums over the rows of each unit, [unit, column]."""
    order = np.argsort(members, kind="stable")
    present, starts = np.unique(members[order], return_index=True)
    sums = np.zeros((units, *rows.shape[1:]))
    sums[present] = np.add.reduceat(rows[order], starts, axis=0)
    return sums


def spread_of(
    first: FloatArray, second: FloatArray, members: tuple[IntArray, IntArray], *, alike: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Variance of the sum of what units contribute, and Satterthwaite's degrees of freedom.

    Units count by their rows, or `alike`.
    """
    shares = []
    for own in members:
        rows = np.bincount(own, minlength=len(first)).astype(float)
        rows = (rows > 0).astype(float) if alike else rows
        shares.append(rows / rows.sum())
    one, two = (
        sums * np.sqrt(unit_factors(own)).reshape((-1,) + (1,) * (sums.ndim - 1))
        for sums, own in zip((first, second), shares, strict=True)
    )
    both = one + two
    there = [own > 0 for own in shares]
    weight = np.maximum(shares[0], shares[1])
    total, freedom = np.zeros(first.shape[1:]), np.zeros(first.shape[1:])
    for group in (there[0] & ~there[1], there[1] & ~there[0], there[0] & there[1]):
        part = (both[group] ** 2).sum(axis=0)
        total += part
        freedom += part**2 / _freedom(weight[group])
    with np.errstate(invalid="ignore", divide="ignore"):
        return total, np.where(freedom > 0, total**2 / freedom, 1.0)


def unit_factors(shares: FloatArray) -> FloatArray:
    """What squares of contributions are multiplied by, for the pull of a unit on the estimate."""
    own = np.minimum(1 - 2 * shares + float(shares @ shares), 1 - shares)
    factors: FloatArray = 1 / np.maximum(own, LEAST_OWN)
    return factors


def _freedom(weights: FloatArray) -> float:
    """Degrees of freedom of a sum of squares of units: one fewer than are effective, and one at least."""
    if len(weights) < 2:
        return 1.0
    squares = weights**2
    effective = float(squares.sum() ** 2 / (squares @ squares))
    return max(effective * (1 - 1 / len(weights)), 1.0)


def see_nesting(rows: Sequence[FloatArray], nested: Nested, rng: np.random.Generator) -> Units:
    """See by how much more changes vary between units than between rows, along some orders.

    A changed coefficient of k at i shows in the products of k with what is left of i after its predecessors,
    a changed variance in the squares of that.
    """
    p, n = rows[0].shape[1], min(map(len, rows))
    most = max(2, min(p, n // ROWS_PER_VARIABLE, MOST, int(math.sqrt(LARGEST / len(nested.units)))))
    columns = np.sort(rng.choice(p, most, replace=False)) if most < p else np.arange(p)
    tables = [table[:, columns] - table[:, columns].mean(axis=0) for table in rows]
    scale = np.sqrt(sum(np.square(table).mean(axis=0) for table in tables))
    tables = [table / np.where(scale > 0, scale, 1.0) for table in tables]
    members, count = nested.members, len(nested.units)
    changes: list[FloatArray] = []
    variances: list[FloatArray] = []
    freedoms: list[FloatArray] = []
    below = np.tril_indices(most, -1)
    for _ in range(ORDERS):
        order = rng.permutation(most)
        sums: list[list[FloatArray]] = []
        squares: list[list[FloatArray]] = []
        for sign, table, own in zip((1.0, -1.0), tables, members, strict=True):
            x = table[:, order]
            left = _residuals(x)
            left /= np.sqrt(np.square(left).mean(axis=0))
            size = sign / len(x)
            apart = np.square(left) - 1.0
            sums.append([_products(x, left, own, count) * size, unit_sums(apart * size, own, count)])
            squares.append([(x * x).T @ (left * left) * size**2, (apart * apart).sum(axis=0) * size**2])
        for kind, found in enumerate((changes, variances)):
            spread, own_freedom = spread_of(sums[0][kind], sums[1][kind], members)
            ratio = spread / (squares[0][kind] + squares[1][kind])
            found.append(ratio.T[below] if kind == 0 else ratio)
            freedoms.append(np.ravel(own_freedom))
    freedom = float(np.median(np.concatenate(freedoms)))
    change, variance = np.concatenate(changes), np.concatenate(variances)
    means = float(change.mean()), float(variance.mean())
    # Multiples of coefficients are much the same for all predecessors of a variable: they are few, too; and all
    # of them come from the same units.
    known = MOST_TIMES * freedom
    priors = Prior.of(change, freedom, min(2 * most, known)), Prior.of(variance, freedom, min(most, known))
    return Units(nested, *priors, means)


def _products(x: FloatArray, left: FloatArray, members: IntArray, units: int) -> FloatArray:
    """Sums of products of two tables over the rows of each unit, [unit, column, column]."""
    products = np.zeros((units, x.shape[1], left.shape[1]))
    order = np.argsort(members, kind="stable")
    ends = np.cumsum(np.bincount(members, minlength=units))
    for unit, rows in enumerate(np.split(order, ends[:-1])):
        products[unit] = x[rows].T @ left[rows]
    return products


def _residuals(x: FloatArray) -> FloatArray:
    """What is left of each column after those before it."""
    gram = x.T @ x
    root = cholesky(gram + RIDGE * np.diag(np.diag(gram)), lower=True)
    own = solve_triangular(root, x.T, lower=True, check_finite=False)
    residuals: FloatArray = own.T * np.diag(root)
    return residuals
