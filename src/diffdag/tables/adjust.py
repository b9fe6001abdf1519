"""Rows with covariates taken out, and differences between the units that rows are nested in.

In each condition every variable is regressed on the covariates, with coefficients of that condition's own, and
on the units, one mean each; what is left are effects within units at equal covariates (Frisch and Waugh 1933).
The residuals are put back around the mean that the condition would have if its covariates had the mean of both.
Such a mean is worth fewer rows, the farther its own covariates lie from there:

    Var(mean) = sigma^2 (1 / n + d' (Z'Z)^-1 d),     d: distance of the covariates' mean from the common one.

Where rows are nested, means of conditions differ by chance of units, not of rows: rows then say nothing of
them, and the means of the units do. Units that have one row in each condition, such as patients before and
after, are pairs: effects are those between units, and there are no differences within them to be taken out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from diffdag._base.arrays import FloatArray, IntArray
from diffdag.tables.design import Design
from diffdag.tables.em import TOLERANCE, Completed, complete

Filled: TypeAlias = tuple[Completed, Completed]

ROUGH = 1e-3  # tolerance of EM for some of the rows of tables whose gaps were filled before
RANK = 1e-9  # share of a covariate's scale that is as good as nothing


@dataclass(frozen=True, eq=False)
class Nested:
    """Rows of two conditions that are nested in units, such as cells in donors."""

    name: str  # what the units are
    units: tuple[str, ...]
    members: tuple[IntArray, IntArray]  # the unit of each row
    levels: tuple[FloatArray, FloatArray]  # means of units, [unit, variable]; NaN where a unit has no rows
    compared: bool = True  # whether covariates leave these comparable

    def among(self, columns: Sequence[int]) -> Nested:
        """Units, with the levels of some of the variables."""
        one, two = (own[:, list(columns)] for own in self.levels)
        return replace(self, levels=(one, two))

    @property
    def counts(self) -> tuple[int, int]:
        """Units in each condition."""
        return len(np.unique(self.members[0])), len(np.unique(self.members[1]))

    @property
    def pairs(self) -> IntArray:
        """Units that occur in both conditions."""
        return np.intersect1d(*self.members)


@dataclass(frozen=True, eq=False)
class Taken:
    """What taking out covariates and units cost."""

    lost: tuple[int, int]  # degrees of freedom of each condition, besides its mean
    mean_rows: tuple[float, float]  # rows that its mean is worth, compared with the other's; 0 if it is not
    nested: Nested | None = None
    filled: Filled | None = None  # how gaps were filled, and what that says of the covariances
    means: tuple[FloatArray, FloatArray] | None = None  # and of the means
    # Shares of rows in which two variables were observed, over what rows count for, at most 1: by how much less
    # their relation is known than others.
    known: FloatArray | None = None


def take_out(
    tables: tuple[FloatArray, FloatArray], design: Design
) -> tuple[tuple[FloatArray, FloatArray], Taken]:
    """Take covariates and differences between units out of the rows of two conditions.

    >>> age = np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> rows = 5 * age + [[0.1], [-0.1], [-0.1], [0.1]], 2 * age + [[0.2], [-0.2], [-0.2], [0.2]]
    >>> both, taken = take_out(rows, Design(("age",), ("age",), (age, age)))
    >>> both[0].ravel().round(2), taken.lost
    (array([12.6, 12.4, 12.4, 12.6]), (1, 1))
    """
    n = [len(table) for table in tables]
    sums = [z.sum(axis=0) for z in design.covariates]
    centre = (sums[0] + sums[1]) / (n[0] + n[1])
    left, lost, worth, levels = [], [], [], []
    for k in (0, 1):
        members = None if design.members is None else design.members[k]
        z = design.covariates[k] - centre
        own = _Units.of(None if design.single else members, len(design.units), n[k])
        slopes, rank, leverage = _slopes(tables[k], z, own)
        level = tables[k] - z @ slopes
        mean = own.means(level)
        average = np.nanmean(mean, axis=0)
        left.append(level - mean[own.members] + average)
        lost.append(rank + own.count - 1 + design.hidden)
        worth.append(1 / (1 / n[k] + leverage + design.leverage[k]))
        levels.append(_Units.of(members, len(design.units), n[k]).means(level) if design.single else mean)
    nested = None
    if design.members is not None:
        means_of = levels[0], levels[1]
        nested = Nested(design.cluster, design.units, design.members, means_of, design.compared)
    comparable = design.compared and (nested is None or design.single)
    means = (worth[0], worth[1]) if comparable else (0.0, 0.0)
    return (left[0], left[1]), Taken((lost[0], lost[1]), means, nested)


def fill_in(
    tables: tuple[FloatArray, FloatArray], design: Design, start: Filled | None = None
) -> tuple[tuple[FloatArray, FloatArray], Taken]:
    """Fill the gaps of two tables, and take covariates and differences between units out of them.

    Gaps are filled by a draw from what a Gaussian model expects there, given what was observed; means, and the
    levels of units, are those of what it expects. `start` is how gaps of much the same rows were filled.
    """
    filled = []
    for k in (0, 1):
        rng, before = np.random.default_rng(k), None if start is None else start[k]
        share, tolerance = (None, TOLERANCE) if before is None else (before.share, ROUGH)
        about = _known(design, k)
        filled.append(complete(tables[k], about, rng=rng, start=before, share=share, tolerance=tolerance))
    expected, known_taken = take_out((filled[0].expected, filled[1].expected), design)
    drawn, _ = take_out((filled[0].rows, filled[1].rows), design)
    worth = [own.share * rows for own, rows in zip(filled, known_taken.mean_rows, strict=True)]
    means = expected[0].mean(axis=0), expected[1].mean(axis=0)
    seen = [(~np.isnan(table)).astype(float) for table in tables]
    shares = [own.T @ own / len(own) / done.share for own, done in zip(seen, filled, strict=True)]
    known = np.minimum(np.minimum(shares[0], shares[1]), 1.0)
    taken = replace(known_taken, mean_rows=(worth[0], worth[1]), filled=(filled[0], filled[1]))
    return drawn, replace(taken, means=means, known=known)


def fill_alike(rows: tuple[FloatArray, FloatArray], design: Design | None) -> tuple[FloatArray, FloatArray]:
    """Fill the gaps of two tables as if both had the same covariances, around what their designs explain."""
    sizes = [len(table) for table in rows]
    own = design or Design.none(*sizes)
    known = [_known(own, k) for k in (0, 1)]
    widths = [part.shape[1] for part in known]
    about = np.zeros((sum(sizes), 1 + sum(widths)))
    about[sizes[0] :, 0] = 1.0
    about[: sizes[0], 1 : 1 + widths[0]] = known[0]
    about[sizes[0] :, 1 + widths[0] :] = known[1]
    filled = complete(np.vstack(rows), about, rng=np.random.default_rng(2), share=1.0).rows
    return filled[: sizes[0]], filled[sizes[0] :]


def _known(design: Design, which: int) -> FloatArray:
    """What is known of every row of a condition: covariates, and its units as 0 and 1, but for one."""
    if design.members is None or design.single:
        return design.covariates[which]
    own = design.members[which]
    return np.hstack([design.covariates[which], (own[:, None] == np.unique(own)[1:]).astype(float)])


@dataclass(frozen=True, eq=False)
class _Units:
    """Which unit each row belongs to; all to one where rows are not nested."""

    members: IntArray
    sizes: FloatArray  # rows of each unit

    @classmethod
    def of(cls, members: IntArray | None, units: int, rows: int) -> _Units:
        own = np.zeros(rows, np.int64) if members is None else members
        return cls(own, np.bincount(own, minlength=1 if members is None else units).astype(float))

    @property
    def count(self) -> int:
        """Units that have rows."""
        return int((self.sizes > 0).sum())

    def means(self, table: FloatArray) -> FloatArray:
        """Means of the rows of each unit; NaN where there are none."""
        sums = np.zeros((len(self.sizes), table.shape[1]))
        np.add.at(sums, self.members, table)
        with np.errstate(invalid="ignore"):
            means: FloatArray = sums / self.sizes[:, None]
        return means


def _slopes(table: FloatArray, z: FloatArray, units: _Units) -> tuple[FloatArray, int, float]:
    """Coefficients of covariates within units, their rank, and the leverage of the point where z is zero."""
    within = z - units.means(z)[units.members]
    scale = np.sqrt((z * z).mean(axis=0))
    scale = np.where(scale > 0, scale, 1.0)
    u, values, vt = np.linalg.svd(within / scale, full_matrices=False)
    kept = values > RANK * max(np.sqrt(len(z)), 1.0)
    u, values, vt = u[:, kept], values[kept], vt[kept]
    slopes = (vt.T / values) @ (u.T @ table) / scale[:, None]
    distance = (vt @ (z.mean(axis=0) / scale)) / values
    return slopes, int(kept.sum()), float(distance @ distance)
