r"""The test of "nothing changed at all": permutations of the rows among the two conditions.

If both tables come from the same distribution up to their means, it makes no difference which row is in which
table. So rows are made free of their table's mean, shuffled among the tables many times, and the difference D
of the two covariance matrices is looked at each time in three ways:

    covariance    the largest difference of two covariances, in standard errors; sees changes in sparse graphs
    regression    the largest entry of D Omega, in standard errors, for the inverse Omega of the covariance
                  matrix of all rows: how the covariance of a variable with what is left of another, after all
                  others were accounted for, differs; sees changed effects in dense graphs
    overall       tr(D Omega D Omega), Nagao's test of equal covariance matrices: sees many small changes

Standard errors and Omega come from all rows together and do not depend on who is in which table. The smallest
of the three p-values is compared with the smallest p-value of each permutation (Westfall and Young), so that
looking three times costs nothing in validity.

Rows that are nested in units, such as donors, are not exchangeable, but their units are: units change tables as
a whole, and where a unit has rows in both conditions, these are swapped. If there are no more ways to do so
than permutations are asked for, all are looked at, each once; with few units p-values cannot be small.

Subtracting the mean would make the rows of a table depend on each other, and more so in the smaller table. Here
the n rows are reflected such that one of them takes up the mean, and the other n - 1 are used. These are
uncorrelated, have the covariance matrix of the rows, and their sums of products are the scatter matrix; for
Gaussian data they are independent, and the test is exact. Covariates are taken out in the same way, one row for
each. Gaps are filled for the test as if both tables had the same covariances.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg import qr
from scipy.linalg.lapack import dormqr

from diffdag._base.arrays import FloatArray, IntArray
from diffdag._base.checks import check_fits, check_rng
from diffdag._base.errors import InputError
from diffdag._base.parallel import one_blas_thread
from diffdag._base.progress import Progress, show_progress
from diffdag.results.records import GlobalTest
from diffdag.tables.adjust import fill_alike, take_out
from diffdag.tables.align import Tables, align_tables
from diffdag.tables.design import Design
from diffdag.tables.moments import Moments
from diffdag.tables.problems import Missing

# A seed; or the units of the first condition among those of one, and the units whose rows are swapped.
Draw: TypeAlias = int | tuple[tuple[int, ...], tuple[int, ...]]

LEAST = 19  # permutations, for p-values that can be as small as 0.05
STATISTICS = ("covariance", "regression", "overall")
MOST_INVERTED = 1000  # variables; with more, only covariances are compared, a block of columns at a time
_RIDGE = 0.3  # times variables / rows is added to the variances before they are inverted
_ROWS_AT_ONCE = 1 << 16
_SAME = 1e-9  # values that differ by less, relatively, are taken for equal: they differ by rounding
_LEAST_VARIANCE = 1e-12  # of a product of two variables of variance 1; both are constant but for their signs


def global_test(
    first: Any,
    second: Any,
    *,
    permutations: int = 999,
    rng: np.random.Generator | int | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    missing: Missing = "error",
    progress: Progress = None,
) -> GlobalTest:
    """Test whether anything changed at all: effects or noise variances, but not means.

    Parameters
    ----------
    first, second : array or table
        As for `DifferenceDAG.fit`. Rows must be exchangeable within each table: not a time series, nor several
        rows of the same subject.
    permutations : int
        The smallest p-value that can come out is ``1 / (1 + permutations)``.
    rng : numpy.random.Generator or int, optional
        Source of the permutations; None gives the same ones every time.
    columns, drop, missing
        As for `DifferenceDAG.fit`.
    progress : bool or callable, optional
        True for a bar on a terminal; a function is called with the steps done, their number, and what they are.

    Returns
    -------
    GlobalTest
        With more than 1000 variables the largest difference of covariances is its only statistic.

    Notes
    -----
    The level is exact for Gaussian data, and nearly so otherwise: what is left of other rows after their mean
    is not quite exchangeable. Tables that differ in the shape of their distributions, but not in covariances,
    may be told apart more often than the level says.

    Examples
    --------
    >>> import diffdag as dd
    >>> pair = dd.simulate_pair(p=6, neighbours=3, changes=1, weights=(0.8, 1.0), rng=4)
    >>> global_test(pair.first.sample(200, rng=1), pair.second.sample(200, rng=2), permutations=99).pvalue
    0.01
    >>> bool(global_test(pair.first.sample(200, rng=1), pair.first.sample(200, rng=2)).pvalue > 0.05)
    True
    """
    check_fits("permutations", permutations, least=LEAST)
    check_rng(rng)
    if isinstance(first, Moments) or isinstance(second, Moments):
        raise InputError("moments cannot be permuted; give the two tables of rows")
    tables = align_tables(first, second, columns=columns, drop=drop, missing=missing)
    return permute_tables(tables, permutations, rng, progress=progress)


@one_blas_thread()
def permute_tables(
    tables: Tables,
    permutations: int = 999,
    rng: np.random.Generator | int | None = None,
    *,
    progress: Progress = None,
) -> GlobalTest:
    """The test for two tables that are aligned already; see `global_test`."""
    pool = _pool(tables)
    draws = pool.draws(permutations, np.random.default_rng(0 if rng is None else rng))
    p = pool.rows.shape[1]
    blocks = [slice(start, start + MOST_INVERTED) for start in range(0, p, MOST_INVERTED)]
    values = np.zeros((1 + len(draws), len(STATISTICS) if len(blocks) == 1 else 1))
    with show_progress(progress, "Permuting rows", len(blocks) * len(values)) as advance:
        for block in blocks:
            view = _view(pool.rows, block)
            for k in range(len(values)):
                chosen = pool.chosen(None if k == 0 else draws[k - 1])
                seen = _statistics(_difference(pool, view, chosen), view)
                np.maximum(values[k], seen, out=values[k])
                advance()
    pvalue, each = _combine(values)
    least = None if tables.design is None else smallest_pvalue(tables.design, permutations)
    return GlobalTest(pvalue, len(draws), dict(zip(STATISTICS, each, strict=False)), least)


def smallest_pvalue(design: Design, permutations: int) -> float | None:
    """The smallest p-value that permutations of units can give; None where rows are not nested.

    Where conditions change places as a whole, the covariances differ by as much.
    """
    if design.members is None:
        return None
    units = _UnitSwaps.of(design.members)
    mirrored = 2 if len(units.alone[0]) == len(units.alone[1]) else 1
    return max(mirrored / units.ways, 1 / (1 + permutations))


@dataclass(frozen=True, eq=False)
class _Pool:
    """The rows of both tables, one below the other, each table's free of its mean, with variances of 1."""

    rows: FloatArray
    sizes: tuple[int, int]
    units: _UnitSwaps | None = None  # None where rows are independent

    def draws(self, count: int, rng: np.random.Generator) -> Sequence[Draw]:
        """Permutations: seeds, or units that make up the first table and pairs that are swapped."""
        if self.units is None:
            seeds: list[int] = rng.integers(2**63, size=count).tolist()
            return seeds
        return self.units.draws(count, rng)

    def chosen(self, draw: Draw | None) -> IntArray:
        """Rows that make up the smaller table: those that do, or as many drawn at random, in order.

        Of rows that are nested, those of the first table.
        """
        first, second = self.sizes
        if self.units is not None:
            return self.units.rows_of(draw if isinstance(draw, tuple) else None)
        if draw is None or isinstance(draw, tuple):
            return np.arange(first) if first <= second else np.arange(first, first + second)
        lots = np.random.default_rng(draw).random(first + second)
        n = min(self.sizes)
        return np.flatnonzero(lots <= np.partition(lots, n - 1)[n - 1])


@dataclass(frozen=True, eq=False)
class _UnitSwaps:
    """Which units may change tables: some are in one condition alone, others in both."""

    members: tuple[IntArray, IntArray]  # the unit of each row
    alone: tuple[IntArray, IntArray]  # units of the first condition only, and of the second only
    pairs: IntArray  # units of both

    @classmethod
    def of(cls, members: tuple[IntArray, IntArray]) -> _UnitSwaps:
        one, two = (np.unique(own) for own in members)
        return cls(members, (np.setdiff1d(one, two), np.setdiff1d(two, one)), np.intersect1d(one, two))

    @property
    def ways(self) -> int:
        """How many different permutations there are, that of the data included."""
        counts = [len(own) for own in self.alone]
        return int(math.comb(sum(counts), counts[0]) * 2 ** len(self.pairs))

    def draws(self, count: int, rng: np.random.Generator) -> Sequence[Draw]:
        """All permutations but that of the data, or so many at random."""
        every, k = np.concatenate(self.alone), len(self.alone[0])
        if self.ways <= count + 1:
            sets = itertools.combinations(every.tolist(), k)
            swaps = [
                tuple(itertools.compress(self.pairs.tolist(), flips))
                for flips in itertools.product((0, 1), repeat=len(self.pairs))
            ]
            return list(itertools.product(sets, swaps))[1:]
        return [
            (
                tuple(rng.permutation(every)[:k].tolist()),
                tuple(self.pairs[rng.random(len(self.pairs)) < 0.5].tolist()),
            )
            for _ in range(count)
        ]

    def rows_of(self, draw: tuple[tuple[int, ...], tuple[int, ...]] | None) -> IntArray:
        """Rows that make up the first table."""
        first, second = self.members
        if draw is None:
            return np.arange(len(first))
        chosen, swapped = draw
        stay = np.isin(first, chosen) | (np.isin(first, self.pairs) & ~np.isin(first, swapped))
        come = np.isin(second, chosen) | np.isin(second, swapped)
        return np.concatenate([np.flatnonzero(stay), len(first) + np.flatnonzero(come)])


def _pool(tables: Tables) -> _Pool:
    design = tables.design
    both = fill_alike((tables.first, tables.second), design) if tables.gaps else (tables.first, tables.second)
    units = None if design is None or design.members is None else _UnitSwaps.of(design.members)
    if design is not None and units is not None:
        parts = [
            _unit_rows(part, own) for part, own in zip(take_out(both, design)[0], units.members, strict=True)
        ]
    elif design is not None:
        parts = [_without(table, z) for table, z in zip(both, design.covariates, strict=True)]
    else:
        parts = [_without_mean(table) for table in both]
    rows = np.concatenate(parts)
    rows /= np.sqrt(np.mean(np.square(rows), axis=0))
    return _Pool(rows, (len(parts[0]), len(parts[1])), units)


def _unit_rows(table: FloatArray, members: IntArray) -> FloatArray:
    """Rows around their mean, those of each unit such that its mean, taken out, costs them no variance."""
    counts = np.bincount(members)[members]
    rows: FloatArray = (table - table.mean(axis=0)) * np.sqrt(counts / np.maximum(counts - 1, 1))[:, None]
    return rows


def _without_mean(table: FloatArray) -> FloatArray:
    """Uncorrelated rows, one fewer, whose sums of products are the scatter matrix of the table.

    The reflection that takes the unit vector along (1, ..., 1) to one along the first axis, without its first
    row.
    """
    rows = table - table.mean(axis=0)
    rest: FloatArray = rows[1:] - rows[0] / (math.sqrt(len(rows)) + 1)
    return rest


def _without(table: FloatArray, covariates: FloatArray) -> FloatArray:
    """Uncorrelated rows, fewer by one for the mean and by one for each covariate, of what these leave."""
    rows, centred = _without_mean(table), _without_mean(covariates)
    centred = centred / np.maximum(np.sqrt(np.square(centred).mean(axis=0)), np.finfo(float).tiny)
    if not centred.shape[1]:
        return rows
    (reflections, factors), r, _ = qr(centred, mode="raw", pivoting=True)
    turned, _, _ = dormqr("L", "T", reflections, factors, rows, 64 * rows.shape[1])
    rank = int((np.abs(np.diag(r)) > _SAME * math.sqrt(len(rows))).sum())
    rest: FloatArray = turned[rank:]
    return rest


@dataclass(frozen=True, eq=False)
class _View:
    """What does not depend on who is in which table, for the covariances of some variables with all."""

    block: slice
    products: FloatArray  # sums over all rows
    weights: FloatArray  # one over standard errors, but for the number of rows
    inverse: FloatArray | None  # Omega; None if there are too many variables
    inverse_weights: FloatArray | None


def _view(rows: FloatArray, block: slice) -> _View:
    n, p = rows.shape
    products = rows[:, block].T @ rows
    weights = _weights(rows[:, block], rows, products / n)
    if p > MOST_INVERTED:
        return _View(block, products, weights, None, None)
    inverse = np.linalg.inv(products / n + _RIDGE * p / n * np.eye(p))
    left = rows @ inverse
    return _View(block, products, weights, inverse, _weights(rows, left, products @ inverse / n))


def _weights(first: FloatArray, second: FloatArray, means: FloatArray) -> FloatArray:
    """One over the standard deviations of products of two variables, whatever their distributions."""
    scale = np.mean(np.square(second), axis=0)
    variances = np.square(first).T @ np.square(second) / len(first) - np.square(means)
    weights: FloatArray = 1 / np.sqrt(np.maximum(variances, _LEAST_VARIANCE * scale))
    return weights


def _difference(pool: _Pool, view: _View, chosen: IntArray) -> FloatArray:
    """Covariances in the chosen rows less those in the others; all means are zero."""
    n, others = len(chosen), len(pool.rows) - len(chosen)
    products = np.zeros_like(view.products)
    for start in range(0, n, _ROWS_AT_ONCE):
        rows = pool.rows.take(chosen[start : start + _ROWS_AT_ONCE], axis=0)
        products += rows[:, view.block].T @ rows
    difference: FloatArray = products * (1 / n + 1 / others) - view.products / others
    if pool.units is not None:  # units bring other numbers of rows with them
        difference /= math.sqrt(1 / n + 1 / others)
    return difference


def _statistics(difference: FloatArray, view: _View) -> list[float]:
    covariance = _largest(difference * view.weights)
    if view.inverse is None or view.inverse_weights is None:
        return [covariance]
    turned = difference @ view.inverse
    return [covariance, _largest(turned * view.inverse_weights), float(np.vdot(turned, turned.T))]


def _largest(values: FloatArray) -> float:
    return max(float(values.max()), -float(values.min()))


def _combine(values: FloatArray) -> tuple[float, list[float]]:
    """P-values of the first row among all: of all statistics together, and of each.

    Rows are ordered by their smallest p-value; ties, of which there are many, by how far the statistic that
    stands out most lies from its mean.
    """
    # How many values of its column are at least as large as each.
    counts = len(values) - np.array([np.searchsorted(np.sort(v), v * (1 - _SAME)) for v in values.T])
    smallest = counts.min(axis=0)
    spread = values.std(axis=0)
    apart = ((values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)).max(axis=1)
    beyond = apart >= apart[0] - _SAME * (1 + abs(apart[0]))
    more = (smallest < smallest[0]) | ((smallest == smallest[0]) & beyond)
    return float(more.mean()), [float(count[0] / len(values)) for count in counts]
