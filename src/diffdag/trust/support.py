"""Range or mechanism: does a moved range of its causes explain a changed effect?

A bend that both conditions share gives straight lines other slopes where a cause has another range, and so does
a product of two causes, one of which moved. A claimed change of the effect of j on i is therefore looked at
again, in the rows of both conditions together:

    x_i = a_c + sum_k b_k x_k + sum_m s_m(x_k, x_l) + d c x_j + noise,

with ``c`` the condition, ``k`` the predecessors of i, ``a_c`` an intercept per condition and ``s_m`` curves and
products *shared* by the conditions: those that the rows ask for, by forward selection beside the claimed
change, and then a curve of j in any case. What is left of ``d``, with a standard error that allows noise of any
size in any row (HC3 of MacKinnon and White 1985), is held against the slope difference of straight lines:

- ``mechanism``: it keeps its sign and a good part of its size, and stands clear of its error;
- ``range``: it does not, and its error is small enough to say so;
- ``unclear``: its error is not, or the ranges of j hardly overlap.

An arrow the wrong way round has no shared curve, though the right one may have: a change of which the other
way round is explained by a moved range is not a ``mechanism`` either. A gain is one claim: a factor of what all
causes contribute, beside shared curves and products with that contribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from diffdag._base.arrays import FloatArray, IndexArray
from diffdag._base.words import join_names
from diffdag.results.records import Check, Edge
from diffdag.tables.align import Tables
from diffdag.tables.robust import Covariance, table_scores

if TYPE_CHECKING:
    from diffdag.trust.fits import Fit

ROWS_NEEDED = "whether a moved range explains a change can be told from rows only, not from moments"

LONGEST = 10_000  # rows of each table that are looked at, evenly spaced
# All constants were chosen on simulations (benchmarks/support.py with other seeds than it reports).
CLEAR, CLEAR_CURVED = 3.3, 2.0  # standard errors: with the curves that rows ask for, and with one of the cause
KEPT = 0.6  # share of the change that has to be left
VISIBLE = 3.0  # standard errors of a change the other way round that a shared curve may explain
SURE = 0.25  # standard error, as a share of the change, up to which what is not there is taken for absent
LEAST_OVERLAP = 0.1  # share of the rows of one table within the central range of the other
CENTRAL = (0.025, 0.975)
KNOTS = (0.05, 0.35, 0.65, 0.95)  # quantiles of each table
APART = 0.08  # of the range: the least distance of two knots
PENALTY = 4.0  # fall of twice the negative log likelihood, per column, that admits a curve or a product
MOST_CURVED, ROWS_PER_CURVED, ROWS_PER_COLUMN = 8, 40, 8
COLLINEAR = 1e-7  # share of a column's square that is as good as nothing


@dataclass(frozen=True)
class Reading:
    """One changed edge, looked at with shared curves."""

    source: str
    target: str
    support: str  # one of `SUPPORTS`
    overlap: float  # of the ranges of the source, and of what its effect depends on: a share of rows
    left: float  # share of the change that is left with shared curves
    stderr: float  # and its robust standard error
    apart: str = ""  # a column on which the effect depends, not the source, whose ranges hardly overlap


def with_support(edges: Sequence[Edge], readings: Sequence[Reading]) -> tuple[Edge, ...]:
    """Edges with the verdicts of their readings; None for those that have none."""
    support = {(reading.source, reading.target): reading.support for reading in readings}
    return tuple(
        replace(edge, support=support.get((edge.source, edge.target)) if edge.directed else None)
        for edge in edges
    )


def read_edges(fit: Fit, tables: Tables, covariance: Covariance) -> tuple[Reading, ...]:
    """Look at every directed edge of a fit, in rows on the scale on which they were compared."""
    edges = [edge for edge in fit.difference.edge_list if edge.directed and edge.weight_first is not None]
    if not edges:
        return ()
    rows = _Rows.of(tables, fit, covariance)
    found: list[Reading] = []
    for target, group in groupby(sorted(edges, key=lambda edge: edge.target), lambda edge: edge.target):
        found += _read_target(fit, rows, fit.first.names.index(target), list(group))
    return tuple(found)


def check_range(readings: Sequence[Reading]) -> Check | None:
    """Name the edges that a moved range explains, or may explain; None if there is no edge to look at."""
    doubtful = {
        support: [f"{r.source} -> {r.target}" for r in readings if r.support == support]
        for support in ("range", "unclear")
    }
    count = sum(map(len, doubtful.values()))
    if not readings:
        return None
    if not count:
        return Check("range", True, "no change is explained by a moved range of its causes", 0.0)
    parts = []
    if doubtful["range"]:
        parts.append(
            "a curve, or noise, that both conditions share explains over another range what is claimed of "
            f"{join_names(doubtful['range'])}: do not take it for a changed effect"
        )
    if doubtful["unclear"]:
        apart = list(dict.fromkeys(r.apart for r in readings if r.apart))
        also = f" (here also of {join_names(apart)}, on which effects depend)" if apart else ""
        parts.append(
            f"of {join_names(doubtful['unclear'])} the rows do not tell a changed effect from a shared curve, "
            f"as ranges hardly overlap{also} or rows are few: compare rows in which causes have the same range"
        )
    return Check("range", False, "; ".join(parts), float(count), 0.0)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of both tables, standardised: means in the middle and mean variances one."""

    values: FloatArray
    n1: int
    scale: FloatArray
    worth: float  # of a row, in independent ones

    @classmethod
    def of(cls, tables: Tables, fit: Fit, covariance: Covariance) -> _Rows:
        """Rows, evenly spaced, on the scale of a covariance."""
        both = [table[:: -(-len(table) // LONGEST), fit.kept] for table in (tables.first, tables.second)]
        one, two = table_scores(both[0], both[1], covariance)
        scale = np.sqrt((one.var(axis=0) + two.var(axis=0)) / 2)
        middle = (one.mean(axis=0) + two.mean(axis=0)) / 2
        worth = min(1.0, fit.first.n / len(one), fit.second.n / len(two))
        if fit.method == "order" and fit.units is not None:
            worth /= max(1.0, fit.units.multiples[0])
        return cls((np.vstack([one, two]) - middle) / scale, len(one), scale, worth)

    @property
    def smaller(self) -> int:
        """Rows of the smaller table."""
        return min(self.n1, len(self.values) - self.n1)

    @property
    def condition(self) -> FloatArray:
        """Minus and plus one half."""
        return np.where(np.arange(len(self.values)) < self.n1, -0.5, 0.5)

    def overlap(self, column: int) -> float:
        """Share of the rows of each table within the central 95 % of the other; the smaller of the two."""
        parts = self.values[: self.n1, column], self.values[self.n1 :, column]
        shares = []
        for own, other in (parts, parts[::-1]):
            low, high = np.quantile(other, CENTRAL)
            shares.append(float(np.mean((own >= low) & (own <= high))))
        return min(shares)


class _Claim(NamedTuple):
    """A change of the effect of one cause, or of a factor for those of several."""

    edges: tuple[Edge, ...]
    causes: tuple[int, ...]
    level: FloatArray  # what has another slope in the second condition, row by row

    @property
    def gain(self) -> bool:
        """Whether it is a factor."""
        return any(edge.gain_of is not None for edge in self.edges)


class _Estimate(NamedTuple):
    """A slope difference with straight lines, with curves that rows ask for, and with one of the cause too."""

    straight: float
    straight_error: float
    left: float
    left_error: float
    curved: float
    curved_error: float
    partners: frozenset[int]  # columns on which the effect depends by a product that rows ask for

    @property
    def stands(self) -> bool:
        """Whether enough is left of it, clear of its error."""
        limits = ((self.left, self.left_error, CLEAR), (self.curved, self.curved_error, CLEAR_CURVED))
        sign = math.copysign(1.0, self.straight)
        return all(sign * left > max(KEPT * abs(self.straight), clear * error) for left, error, clear in limits)

    @property
    def falls(self) -> bool:
        """Whether the rows tell that not enough is left."""
        most = min(abs(self.left) + 2 * self.left_error, abs(self.curved) + 2 * self.curved_error)
        return most < KEPT * abs(self.straight) or self.curved_error < SURE * abs(self.straight)


def _read_target(fit: Fit, rows: _Rows, target: int, edges: list[Edge]) -> Iterator[Reading]:
    equation = fit.equation(target, fit.first, fit.second)
    if equation is None:
        return
    before = equation.regressors
    claims = list(_claims(rows, target, edges, fit.first.names, before, equation.coefficients))
    for claim, found in zip(claims, _estimates(rows, target, before, claims), strict=True):
        overlap, least = min((rows.overlap(k), k) for k in {*claim.causes, *found.partners})
        support = "range" if found.falls else "unclear"
        if overlap < LEAST_OVERLAP:
            support = "unclear"
        elif found.stands:
            support = "range" if _explained_reversed(fit, rows, target, claim.causes) else "mechanism"
        share = found.curved / found.straight if found.straight else math.nan
        error = abs(found.curved_error / found.straight) if found.straight else math.nan
        apart = fit.first.names[least] if overlap < LEAST_OVERLAP and least not in claim.causes else ""
        for edge in claim.edges:
            yield Reading(edge.source, edge.target, support, overlap, share, error, apart)


def _claims(
    rows: _Rows,
    target: int,
    edges: list[Edge],
    names: tuple[str, ...],
    before: list[int],
    coefficients: tuple[FloatArray, FloatArray],
) -> Iterator[_Claim]:
    """Each changed effect; and all that a gain multiplies, as one: what the causes explain of the target."""
    for edge in edges:
        if edge.gain_of is None:
            j = names.index(edge.source)
            yield _Claim((edge,), (j,), rows.values[:, j])
    multiplied = tuple(edge for edge in edges if edge.gain_of is not None)
    if multiplied:
        larger = max(coefficients, key=lambda slopes: float(np.abs(slopes * rows.scale[before]).sum()))
        level = rows.values[:, before] @ (larger * rows.scale[before] / rows.scale[target])
        causes = tuple(names.index(edge.source) for edge in multiplied)
        yield _Claim(multiplied, causes, level - level.mean())


def _explained_reversed(fit: Fit, rows: _Rows, target: int, causes: Sequence[int]) -> bool:
    """Whether changes of the effects of the target on its causes are there, and shared curves explain them.

    Without an overlap of the target's ranges a curve explains anything, and that is no evidence.
    """
    if rows.overlap(target) < LEAST_OVERLAP:
        return False
    left = straight = 0.0
    for j in causes:
        equation = fit.equation(j, fit.first, fit.second)
        before = [*(k for k in (equation.regressors if equation else ()) if k != target), target]
        claim = _Claim((), (target,), rows.values[:, target])
        found = _estimates(rows, j, before, [claim])[0]
        if abs(found.straight) > VISIBLE * found.straight_error:
            left += found.curved**2 + found.curved_error**2
            straight += found.straight**2
    return left < KEPT**2 * straight


def _estimates(rows: _Rows, target: int, before: list[int], claims: Sequence[_Claim]) -> list[_Estimate]:
    """What is left of each claim beside shared curves and products."""
    half, values, count = rows.condition, rows.values, len(claims)
    changes = [half * claim.level for claim in claims]
    base = np.column_stack([*changes, np.ones(len(half)), half, values[:, before]])
    y = values[:, target]
    beta = np.linalg.lstsq(base, y, rcond=None)[0]
    residuals = y - base @ beta
    noise = [max(float(np.std(part)), 1e-9) for part in (residuals[: rows.n1], residuals[rows.n1 :])]
    lead = list(dict.fromkeys(j for claim in claims for j in claim.causes))
    others = [before[k] for k in np.argsort(-np.abs(beta[count + 2 :]), kind="stable")]
    spare = rows.smaller - len(before)
    bent = [*lead, *(j for j in others if j not in lead)][: min(MOST_CURVED, max(1, spare // ROWS_PER_CURVED))]
    terms = list(_terms(rows, bent, lead, claims))
    design = np.column_stack([base, *(term.columns for term in terms), y])
    design /= np.where(half < 0, noise[0], noise[1])[:, None]
    width = base.shape[1]
    ends = width + np.cumsum([0, *(term.columns.shape[1] for term in terms)])
    places = [np.arange(*pair) for pair in pairwise(ends)]
    gram = design.T @ design
    chosen = _select(gram, width, places, len(half), max(spare // ROWS_PER_COLUMN, 0))
    own = [g for g, term in enumerate(terms) if term.spline and term.of[0] in lead and g not in chosen]
    three = [
        _robust(design, gram, [*range(width), *(k for g in some for k in places[g])], count)
        for some in ([], chosen, [*chosen, *own])
    ]
    found, unit = [], math.sqrt(rows.worth)
    for k, claim in enumerate(claims):
        a, b, c = ((float(slopes[k]), float(errors[k] / unit)) for slopes, errors in three)
        found.append(_Estimate(*a, *b, *c, _partners(claim, terms, chosen)))
    return found


class _Term(NamedTuple):
    """A curve, or a product, that both conditions share."""

    columns: FloatArray
    of: tuple[int, ...]  # variables
    spline: bool = False
    gain: bool = False  # whether it is a product with what a gain multiplies


def _terms(rows: _Rows, bent: list[int], lead: list[int], claims: Sequence[_Claim]) -> Iterator[_Term]:
    """Squares and splines of variables, and products of two, one of them a cause whose effect changed."""
    values = rows.values
    for j in bent:
        spline = natural_spline(values[:, j], rows.n1)
        if spline.shape[1]:
            yield _Term(values[:, [j]] ** 2, (j,))
            yield _Term(spline, (j,), spline=True)
    for k, j in enumerate(bent):
        for other in bent[:k]:
            if j in lead or other in lead:
                yield _Term(values[:, [j]] * values[:, [other]], (j, other))
    for claim in claims:
        if claim.gain:
            for j in bent:
                yield _Term(claim.level[:, None] * values[:, [j]], (j,), gain=True)


def _partners(claim: _Claim, terms: list[_Term], chosen: list[int]) -> frozenset[int]:
    """Other variables on which the claimed effects depend, by products that the rows ask for."""
    products = [terms[g] for g in chosen if terms[g].gain or len(terms[g].of) > 1]
    own = [term for term in products if (claim.gain if term.gain else set(term.of) & set(claim.causes))]
    return frozenset(j for term in own for j in term.of if j not in claim.causes)


def natural_spline(x: FloatArray, n1: int) -> FloatArray:
    """The curved columns of a natural cubic spline (Hastie, Tibshirani and Friedman 2009, eq. 5.4 and 5.5).

    Knots are quantiles of the first `n1` values and of the others, so that each table has its own; without
    those too close to another. No column if fewer than three are left.
    """
    knots = list[float]()
    marks = np.sort(np.concatenate([np.quantile(part, KNOTS) for part in (x[:n1], x[n1:])]))
    for mark in marks.tolist():
        if not knots or mark - knots[-1] > APART * (marks[-1] - marks[0]):
            knots.append(mark)
    if len(knots) < 3:
        return np.empty((len(x), 0))
    t = np.array(knots)
    cubes = np.maximum(x[:, None] - t, 0.0) ** 3 / (t[-1] - t[0]) ** 2
    slopes = (cubes[:, :-1] - cubes[:, -1:]) / (t[-1] - t[:-1])
    return np.asarray(slopes[:, :-1] - slopes[:, -1:])


def _select(gram: FloatArray, width: int, places: list[IndexArray], n: int, budget: int) -> list[int]:
    """Forward selection of terms beside the first columns, by what they explain of the last, less a penalty."""
    start = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    left = _swept(gram / np.outer(start, start), np.arange(width))
    chosen: list[int] = []
    while left[-1, -1] > COLLINEAR:
        best, gain = -1, 0.0
        for g, place in enumerate(places):
            if g in chosen or len(place) > budget:
                continue
            directions = _directions(left, place)
            explained = float(((directions.T @ left[place, -1]) ** 2).sum())
            fall = -n * math.log(max(1 - explained / left[-1, -1], COLLINEAR)) - PENALTY * directions.shape[1]
            if directions.shape[1] and fall > gain:
                best, gain = g, fall
        if best < 0:
            break
        chosen.append(best)
        budget -= len(places[best])
        left = _swept(left, places[best])
    return chosen


def _directions(gram: FloatArray, place: IndexArray) -> FloatArray:
    """Orthogonal combinations of some columns, of length one, without those of next to no length."""
    values, vectors = np.linalg.eigh(gram[np.ix_(place, place)])
    steady = values > COLLINEAR
    return np.asarray(vectors[:, steady] / np.sqrt(values[steady]))


def _swept(gram: FloatArray, place: IndexArray) -> FloatArray:
    """Products of all columns after regression on some of them."""
    along = _directions(gram, place).T @ gram[place]
    return np.asarray(gram - along.T @ along)


def _robust(
    design: FloatArray, gram: FloatArray, columns: list[int], count: int
) -> tuple[FloatArray, FloatArray]:
    """Coefficients of the first `count` columns and their HC3 errors; the last column of `design` is explained.

    Columns that depend on those before them are left out. Infinite errors if the first depend on others.
    """
    scale = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    scaled = gram / np.outer(scale, scale)
    kept = [*columns[count:], *columns[:count]]
    try:
        root = cholesky(scaled[np.ix_(kept, kept)], lower=True)
    except LinAlgError:
        root = np.zeros((1, 1))
    if np.diag(root).min() ** 2 < COLLINEAR:
        kept, root = _independent(scaled, kept)
    if len(kept) < count or kept[-count:] != columns[:count] or len(design) <= len(kept):
        return np.zeros(count), np.full(count, np.inf)
    own = solve_triangular(root, (design[:, kept] / scale[kept]).T, lower=True, check_finite=False)
    y = design[:, -1]
    residuals = (y - (own @ y) @ own) / np.maximum(1 - np.einsum("ij,ij->j", own, own), COLLINEAR)
    back = solve_triangular(root, np.eye(len(kept))[:, -count:], lower=True, check_finite=False)
    weights = back.T @ own / scale[columns[:count], None]
    return weights @ y, np.sqrt(((weights * residuals) ** 2).sum(axis=1))


def _independent(gram: FloatArray, columns: list[int]) -> tuple[list[int], FloatArray]:
    """Columns without those that depend on earlier ones, and the Cholesky factor of the rest."""
    kept: list[int] = []
    root = np.zeros((0, 0))
    for k in columns:
        row = solve_triangular(root, gram[kept, k], lower=True) if kept else np.zeros(0)
        rest = float(gram[k, k] - row @ row)
        if rest > COLLINEAR:
            below = np.append(row, math.sqrt(rest))
            root = np.block([[root, np.zeros((len(kept), 1))], [below[None, :]]])
            kept.append(k)
    return kept, root
