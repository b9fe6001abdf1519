"""The order search as a value: moments in, `OrderFit` out, from which the difference is read off."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
from scipy.sparse import csr_array
from scipy.special import chdtrc

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag._base.errors import InputError, raise_problems
from diffdag._base.progress import ProgressCallback
from diffdag._base.words import join_names, plural
from diffdag.model.memory import long_run_ratio
from diffdag.model.nesting import Units
from diffdag.model.regression import JointFit, JointRegression, fit_jointly, regress_jointly
from diffdag.model.sem import LinearSEM
from diffdag.ordersearch import mechanisms
from diffdag.ordersearch.blocks import merge, search_blocks, search_penalty, search_together
from diffdag.ordersearch.null_splits import heavy_columns
from diffdag.ordersearch.penalty import NONE, Inflation
from diffdag.ordersearch.screen import (
    Screened,
    blocks_note,
    most_together,
    most_variables,
    screening_note,
    silent,
)
from diffdag.ordersearch.search import (
    FEW,
    SETTLED,
    TIE,
    Found,
    Optimum,
    Problem,
    is_total,
    search_near,
    search_orders,
)
from diffdag.ordersearch.shape import settle_by_shape
from diffdag.precision.problem import pooled_scale
from diffdag.results.difference import Difference
from diffdag.results.places import placed
from diffdag.results.records import (
    Claims,
    Edge,
    NoiseChange,
    estimated_edge,
    model_edges,
    robustness_value,
    with_sizes,
)
from diffdag.tables.degenerate import find_extreme_scales, find_far_means
from diffdag.tables.moments import Moments

Rows: TypeAlias = tuple[FloatArray, FloatArray]

# An edge has to reach this share of the penalty by errors that know the rows, and by errors between units where
# rows are nested.
BORNE_OUT, BORNE_OUT_BY_UNITS = 0.5, 1.0
VISIBLE = 1.05  # from which it is said what penalties are multiplied by
# Exact models are taken for samples of so many rows, as far as rounding allows.
EXACT_ROWS = 1e10
ROUNDING = 1e-3
LEAST_ROWS = 100  # per variable


@dataclass(frozen=True)
class OrderSettings:
    """What the user asked for."""

    equal_noise: bool
    rng: np.random.Generator
    jobs: int | None
    known: tuple[str, ...] = ()  # which kinds of prior knowledge were given
    progress: ProgressCallback = silent
    factor: float = 1.0  # of the penalty
    max_variables: int | None = None  # at most so many variables are ordered
    gains: bool = True  # whether a factor may multiply all effects on a variable
    inflation: Inflation = NONE  # of each kind of penalty, by what chance gains on the rows
    shape: bool | None = None  # whether the shape of residuals counts; None to let the rows decide

    def problem(
        self, first: Moments, second: Moments, before: BoolArray, total: int, change: float | None = None
    ) -> Problem:
        """The search problem of the moments of what was kept of `total` variables.

        `change` is a penalty of changed effects, if not the usual.
        """
        return Problem.from_scatter(
            first.scatter,
            second.scatter,
            first.n,
            second.n,
            self.equal_noise,
            before,
            total,
            self.factor,
            inflation=self.inflation,
            difference=mean_difference(first, second),
            gains=self.gains,
            change=change,
        )


def mean_difference(first: Moments, second: Moments) -> FloatArray | None:
    """First mean minus second, as it would be were both worth all of their rows; None if they say nothing.

    A difference that is worth fewer rows is smaller by the ratio of the errors: what it gains is then right.
    Means that are so far apart that rounding would decide are refused.
    """
    worth = [own.n if own.mean_rows is None else own.mean_rows for own in (first, second)]
    if min(worth) <= 0:
        return None
    share = (1 / first.n + 1 / second.n) / (1 / worth[0] + 1 / worth[1])
    difference: FloatArray = (first.mean - second.mean) * math.sqrt(min(share, 1.0))
    raise_problems(find_far_means(first.names, np.abs(difference) / pooled_scale(first, second)))
    return difference


class InBlocks(NamedTuple):
    """What is particular to orders that were searched block by block."""

    regressors: tuple[tuple[int, ...], ...]  # of each variable that was kept
    blocks: tuple[tuple[int, ...], ...]  # of these variables
    largest: int  # variables of the largest block, before some were left out
    total: int  # variables that were screened


@dataclass(frozen=True, eq=False)
class Structure:
    """An order of the kept variables, by column, and what changes along it."""

    names: tuple[str, ...]
    order: tuple[int, ...]  # causes first
    causes: dict[int, tuple[int, ...]]  # changed causes of each variable that has any, beside its gain
    separate: frozenset[int]  # variables whose noise variances differ
    # Causes of each variable all effects on which are multiplied by a factor: those that are not next to zero.
    multiplied: dict[int, tuple[int, ...]] = field(default_factory=dict)
    shifted: frozenset[int] = frozenset()  # variables whose intercept the search let differ
    in_blocks: InBlocks | None = None  # None if all orders of all variables were searched

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        found: Found,
        edges: Collection[tuple[int, int]],
        in_blocks: InBlocks | None = None,
    ) -> Structure:
        """Read it off what the search found, and the changed effects (effect, cause).

        A factor for a single effect is a changed effect.
        """
        single = found.changed & ~np.eye(len(names), dtype=bool)
        causes = {int(i): tuple(np.flatnonzero(single[i]).tolist()) for i in np.flatnonzero(single.any(axis=1))}
        multiplied = {}
        for i in np.flatnonzero(found.gains).tolist():
            own = tuple(j for k, j in edges if k == i and not single[i, j])
            if len(own) > 1:
                multiplied[i] = own
            elif own:
                causes[i] = (*causes.get(i, ()), *own)
        separate, shifted = (
            frozenset(np.flatnonzero(mark).tolist()) for mark in (found.separate, found.shifted | found.gains)
        )
        return cls(names, tuple(found.order), causes, separate, multiplied, shifted, in_blocks)

    @property
    def gains(self) -> frozenset[int]:
        """Variables all effects on which are multiplied by a factor."""
        return frozenset(self.multiplied)

    @property
    def touched(self) -> list[int]:
        """Variables whose mechanism changed in some way."""
        return sorted(self.separate.union(self.causes, self.gains, self.shifted))

    def predecessors(self, i: int) -> list[int]:
        """The variables before i; where orders were searched block by block, those that explain it."""
        return list(
            self.order[: self.order.index(i)] if self.in_blocks is None else self.in_blocks.regressors[i]
        )

    def hurdle(self, a: float, b: float) -> float:
        """``a + b sqrt(p)`` for p variables searched together; more if these are the clearest of many."""
        if self.in_blocks is None:
            return a + b * math.sqrt(len(self.names))
        together = self.in_blocks.largest
        return a + b * math.sqrt(together) + math.log(self.in_blocks.total / together)

    def regression(
        self, first: Moments, second: Moments, i: int, rows: Rows | None = None, units: Units | None = None
    ) -> JointRegression:
        """Regress i on its predecessors, jointly, with its changes."""
        return regress_jointly(first, second, *self._joint(i), rows, units)

    def joint_fit(self, first: Moments, second: Moments, i: int) -> JointFit:
        """The joint regression of a variable, without standard errors, which take longer than the fit."""
        return fit_jointly(first, second, *self._joint(i))

    def _joint(self, i: int) -> tuple[int, list[int], tuple[int, ...], bool, bool]:
        return i, self.predecessors(i), self.causes.get(i, ()), i in self.separate, i in self.gains

    def edges(self, i: int, fit: JointRegression, plain: JointRegression) -> Iterator[Edge]:
        """The changed edges to i, with weights and standard errors of its regression.

        Robustness values are algebra of the plain regression: least squares with errors of Gaussian rows.
        """
        single, multiplied = self.causes.get(i, ()), self.multiplied.get(i, ())
        place = {j: k for k, j in enumerate(self.predecessors(i))}
        for j, k in sorted(place.items()):
            if j in single or j in multiplied:
                weights = float(fit.first[k]), float(fit.second[k])
                errors = float(fit.error_first[k]), float(fit.error_second[k])
                stderr, freedom = float(fit.error_delta[k]), sum(fit.freedom)
                edge = estimated_edge(self.names[j], self.names[i], weights, errors, stderr, freedom)
                change, spread = float(plain.first[k] - plain.second[k]), float(plain.error_delta[k])
                robustness = robustness_value(change, spread, sum(plain.freedom))
                yield replace(edge, robustness=robustness, gain_of=None if j in single else self.names[i])


class Equation(NamedTuple):
    """Regressors of one variable, and their coefficients in each condition."""

    regressors: list[int]
    coefficients: tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class OrderFit:
    """What the search over causal orders found on the moments of two conditions."""

    names: tuple[str, ...]  # all variables
    first: Moments  # of the variables that were kept, in the order of the columns
    second: Moments
    optimum: Optimum
    settings: OrderSettings
    screened: Screened
    rows: Rows | None = None  # of the variables that were kept, if there are rows
    units: Units | None = None  # what these are nested in; None if they are independent
    # By how much less than others two variables were observed together, at most 1; None where none has gaps.
    known_cells: FloatArray | None = None
    mean_widths: FloatArray | None = None  # what errors of intercepts are multiplied by; None for nothing
    shaped: bool = False  # whether the shape of residuals counted as evidence for the order
    in_blocks: InBlocks | None = None  # None if all orders of all variables were searched
    method: Literal["order"] = "order"

    @property
    def problem(self) -> Problem:
        """What the search solved."""
        return cast(Problem, self.optimum.problem)

    @property
    def kept(self) -> list[int]:
        """Columns of the variables that were ordered."""
        return self.screened.members

    @property
    def equal_noise(self) -> bool:
        """Whether noise variances were taken for equal in both conditions."""
        return self.settings.equal_noise

    @cached_property
    def structure(self) -> Structure:
        """The order and the changes along it."""
        return Structure.of(self.first.names, self.optimum.best, self.optimum.margins, self.in_blocks)

    @property
    def search_order(self) -> tuple[str, ...]:
        """The variables that were ordered, causes first."""
        return tuple(self.first.names[k] for k in self.structure.order)

    @property
    def starts(self) -> tuple[tuple[str, ...], ...]:
        """Orders to start from on data much like these: the best, and others that were met."""
        orders = self.optimum.best.order, *self.optimum.others
        return tuple(tuple(self.first.names[k] for k in order) for order in orders)

    @property
    def tied(self) -> set[tuple[int, int]]:
        """Edges (effect, cause) whose direction is not settled."""
        return {edge for edge, margin in self.optimum.margins.items() if margin <= TIE}

    @property
    def margins(self) -> dict[str, float]:
        """What the score rises by, at most, if the direction of an edge is reversed, where it can be."""
        names = self.first.names
        return {
            f"{names[j]} -> {names[i]}": round(margin, 3)
            for (i, j), margin in self.optimum.margins.items()
            if math.isfinite(margin)
        }

    @cached_property
    def fallen(self) -> frozenset[tuple[int, int]]:
        """Edges (effect, cause) that the search found and the rows do not bear out: few of them carry these."""
        if self.rows is None:
            return frozenset()
        share = BORNE_OUT if self.units is None else BORNE_OUT_BY_UNITS
        level = float(chdtrc(1, 2 * share * self.problem.unit / self.settings.inflation.change))
        strict = float(chdtrc(1, 2 * self.problem.unit / self.settings.inflation.change))
        fallen = set()
        for i, j in self.optimum.margins:
            if i in self.structure.gains and j in self.structure.multiplied[i]:
                pvalue = self.regression(i).gain_pvalue
            else:
                pvalue = self.regression(i).delta_pvalue(self.structure.predecessors(i).index(j))
            if not pvalue <= (level if self._observed(i, j) >= 1 else strict):
                fallen.add((i, j))
        return frozenset(fallen)

    @property
    def parts(self) -> list[OrderFit]:
        """Fits of the blocks that were searched apart; this one, if all variables were searched together."""
        if self.in_blocks is None or len(self.in_blocks.blocks) == 1:
            return [self]
        return [self._part(list(block), self.in_blocks) for block in self.in_blocks.blocks]

    def _part(self, own: list[int], in_blocks: InBlocks) -> OrderFit:
        place, best = {k: at for at, k in enumerate(own)}, self.optimum.best
        first, second = (
            moments.select([moments.names[k] for k in own]) for moments in (self.first, self.second)
        )
        known = np.ascontiguousarray(self.problem.before[np.ix_(own, own)])
        found = Found(
            order=tuple(place[k] for k in best.order if k in place),
            score=best.score,
            changed=best.changed[np.ix_(own, own)],
            shifted=best.shifted[own],
            separate=best.separate[own],
            costs=best.costs[own],
        )
        margins, rises = (
            {(place[i], place[j]): value for (i, j), value in told.items() if i in place and j in place}
            for told in (self.optimum.margins, self.optimum.rises)
        )
        total = in_blocks.total
        problem = self.settings.problem(first, second, known, total, change=search_penalty(total))
        regressors = tuple(tuple(place[j] for j in in_blocks.regressors[k] if j in place) for k in own)
        return replace(
            self,
            first=first,
            second=second,
            optimum=replace(self.optimum, problem=problem, best=found, margins=margins, rises=rises, others=()),
            screened=replace(self.screened, ranked=[self.kept[k] for k in own]),
            in_blocks=in_blocks._replace(regressors=regressors, blocks=(tuple(range(len(own))),)),
            **_columns(own, self.rows, self.units, self.known_cells, self.mean_widths),
        )

    def settled(self, edge: tuple[int, int]) -> bool:
        """Whether every order that was met without this change, as it is claimed, is clearly worse."""
        return self.optimum.rise(edge, directed=edge not in self.tied) > SETTLED * self.problem.unit

    @property
    def unsettled(self) -> dict[str, float]:
        """Changes that are not settled; what the score rises by without them, in penalties, the least first."""
        names, tied = self.first.names, self.tied
        found = {
            f"{names[j]} {'--' if (i, j) in tied else '->'} {names[i]}": round(
                self.optimum.rise((i, j), directed=(i, j) not in tied) / self.problem.unit, 3
            )
            for i, j in sorted(self.optimum.margins)
            if {(i, j), (i, i)} & self.optimum.rises.keys() and not self.settled((i, j))
        }
        return dict(sorted(found.items(), key=lambda item: item[1]))

    @cached_property
    def regressions(self) -> dict[int, JointRegression]:
        """For each variable of which something changed, its regression on its predecessors."""
        return {i: self.regression(i) for i in self.structure.touched}

    def levels(self, i: int) -> JointRegression:
        """Regress a variable on its predecessors to compare its intercepts; units of rows say all of these."""
        if self.units is None or i in self._regressed or i in self.structure.touched:
            return self.regression(i)
        made = self.structure.regression(self.first, self.second, i, None, self.units)
        return self._where_observed(i, made)

    def regression(self, i: int) -> JointRegression:
        """Regress a variable on its predecessors, with its changes."""
        if i not in self._regressed:
            made = self.structure.regression(self.first, self.second, i, self.rows, self.units)
            self._regressed[i] = self._where_observed(i, self._by_response(i, made))
        return self._regressed[i]

    def _by_response(self, i: int, made: JointRegression) -> JointRegression:
        """The regression with coefficients by pseudo-responses, where there are any."""
        if i not in self.optimum.responses or self.rows is None:
            return made
        moments, tables = [], []
        for own, table, response in zip(
            (self.first, self.second), self.rows, self.optimum.responses[i], strict=True
        ):
            rows = table - table.mean(axis=0)
            rows[:, i] = response
            scatter = own.scatter.copy()
            scatter[i] = scatter[:, i] = rows.T @ response * (own.n / len(rows))
            moments.append(replace(own, scatter=scatter))
            tables.append(rows)
        first, second = moments
        return made.with_coefficients(self.structure.regression(first, second, i, (tables[0], tables[1])))

    def mean_width(self, i: int) -> float:
        """What errors of the intercept of a variable are multiplied by.

        Where rows were whitened, that is what errors of the filter add, and what is left of a memory in the
        residual of the variable.
        """
        if self.mean_widths is None:
            return 1.0
        if i not in self._memories:
            memory = 1.0 if self.rows is None else long_run_ratio(self.rows, i, self.structure.predecessors(i))
            self._memories[i] = float(self.mean_widths[i]) * math.sqrt(memory)
        return self._memories[i]

    def _where_observed(self, i: int, made: JointRegression) -> JointRegression:
        if self.mean_widths is not None:
            made = made.with_mean_errors(self.mean_width(i))
        if self.known_cells is None:
            return made
        return made.where_observed(self._observed(i, i), self.known_cells[i, self.structure.predecessors(i)])

    def _observed(self, i: int, j: int) -> float:
        """By how much less than others two variables were observed together."""
        return 1.0 if self.known_cells is None else float(self.known_cells[i, j])

    @cached_property
    def _memories(self) -> dict[int, float]:
        return {}

    @cached_property
    def _regressed(self) -> dict[int, JointRegression]:
        return {}

    def equation(self, target: int, first: Moments, second: Moments) -> Equation:
        """Regressors of a variable, by column of the kept ones, and their coefficients in each condition."""
        fit = self.structure.regression(first, second, target)
        return Equation(self.structure.predecessors(target), (fit.first, fit.second))

    def claims(self, about: Collection[str] | None = None) -> Claims:
        """What changed, without estimates; gains, noise and intercepts of some variables alone, or of all."""
        names, tied, structure = self.first.names, self.tied, self.structure
        among = {k for k, name in enumerate(names) if about is None or name in about}
        regressions = {i: self.regression(i) for i in among & (structure.separate | structure.gains)}
        edges = (
            (names[min(edge)], names[max(edge)], False)
            if edge in tied
            else (names[edge[1]], names[edge[0]], True)
            for edge in sorted(self.optimum.margins.keys() - self.fallen)
        )
        lists = (
            mechanisms.changed_noise(structure, regressions),
            mechanisms.changed_means(self, among),
            mechanisms.changed_gains(structure, regressions),
        )
        return Claims(tuple(edges), *(tuple(change.variable for change in changes) for changes in lists))

    @cached_property
    def difference(self) -> Difference:
        """Edges, changed gains, noise variances and intercepts, and what a user should know."""
        scales = pooled_scale(self.first, self.second)
        edges, members = with_sizes(_estimated_edges(self), self.first.names, scales), self.kept
        out = [name for k, name in enumerate(self.names) if k not in set(members)]
        rows = min(self.first.n, self.second.n)
        note = screening_note(len(self.names), len(members), rows, self.settings.max_variables)
        if self.in_blocks is not None:
            note = blocks_note(len(self.names), len(members))
        return Difference(
            edge_list=edges,
            variables=self.names,
            delta_entries=_among_all(_precision_difference(self), members, len(self.names)),
            samples=(self.first.n, self.second.n),
            settings={**_described(self), **self.screened.settings},
            screened_out=tuple(out),
            notes=(*([note] if out else []), *_notes(self)),
            gain_list=tuple(
                gain
                for gain in mechanisms.changed_gains(self.structure, self.regressions)
                if any(edge.gain_of == gain.variable for edge in edges)
            ),
            noise_list=tuple(mechanisms.changed_noise(self.structure, self.regressions)),
            mean_list=tuple(mechanisms.changed_means(self)),
            method="order",
            **placed(edges, self.first.names),
        )


def fit_samples(
    names: tuple[str, ...],
    first: Moments,
    second: Moments,
    before: BoolArray,
    settings: OrderSettings,
    screened: Screened,
    optimum: Optimum | None = None,
    rows: Rows | None = None,
    starts: Sequence[Sequence[str]] = (),
    units: Units | None = None,
    known_cells: FloatArray | None = None,
    mean_widths: FloatArray | None = None,
) -> OrderFit:
    """Search over orders of the variables that were kept, of which the moments are.

    ``before[a, b]`` if it is known that a precedes b, of those; `optimum` is the outcome of a search that was
    done already, together with other pairs of conditions; `starts` are good orders on much the same data.
    """
    if screened.blocks and optimum is None:
        return _fit_blocks(
            names, first, second, before, settings, screened, rows, units, known_cells, mean_widths
        )
    problem, given = settings.problem(first, second, before, len(names)), optimum
    near = [_order_among(start, first.names) for start in starts] if problem.p > FEW else []
    if optimum is None and near and not is_total(before):
        optimum = search_near(problem, near)
    found = optimum or search_orders(problem, settings.rng, settings.jobs, settings.progress)
    settled = None
    if given is None and rows is not None and units is None and known_cells is None:
        settled = settle_by_shape(found, rows, decided=settings.shape, starts=near)
    fit = OrderFit(names, first, second, settled or found, settings, screened, rows, units, known_cells)
    return replace(fit, mean_widths=mean_widths, shaped=settled is not None)


def _fit_blocks(
    names: tuple[str, ...],
    first: Moments,
    second: Moments,
    before: BoolArray,
    settings: OrderSettings,
    screened: Screened,
    rows: Rows | None,
    units: Units | None,
    known_cells: FloatArray | None,
    mean_widths: FloatArray | None,
) -> OrderFit:
    """Search block by block, and keep what takes part in changes."""
    members, total = screened.members, len(names)
    place = {column: k for k, column in enumerate(members)}
    blocks = [[place[column] for column in block] for block in screened.blocks]
    fits = search_blocks(first, second, before, settings, blocks, total)
    if len(members) == total <= most_together(min(first.n, second.n)):
        fits = [search_together(first, second, before, settings, fits, total)]
    most = most_variables(min(first.n, second.n), settings.max_variables)
    found = merge(fits, blocks, total, before, most, fill=settings.max_variables is not None)
    kept = found.kept
    first, second = (moments.select([moments.names[k] for k in kept]) for moments in (first, second))
    known = np.ascontiguousarray(before[np.ix_(kept, kept)])
    problem = settings.problem(first, second, known, total, change=search_penalty(total))
    starts = sum(fit.optimum.starts for fit in fits)
    return OrderFit(
        names,
        first,
        second,
        Optimum(problem, found.found, starts, starts, found.margins, found.rises),
        settings,
        replace(screened, ranked=[members[k] for k in kept], blocks=()),
        **_columns(kept, rows, units, known_cells, mean_widths),
        in_blocks=InBlocks(found.regressors, found.blocks, max(map(len, blocks)), total),
    )


def _columns(
    chosen: list[int],
    rows: Rows | None,
    units: Units | None,
    known_cells: FloatArray | None,
    mean_widths: FloatArray | None,
) -> dict[str, Any]:
    """What an `OrderFit` knows of rows, for some of the variables."""
    return {
        "rows": None if rows is None else (rows[0][:, chosen], rows[1][:, chosen]),
        "units": None if units is None else replace(units, nested=units.nested.among(chosen)),
        "known_cells": None if known_cells is None else known_cells[np.ix_(chosen, chosen)],
        "mean_widths": None if mean_widths is None else mean_widths[chosen],
    }


def _order_among(order: Sequence[str], names: Sequence[str]) -> list[int]:
    """An order of some variables as one of others, by number: what it says nothing of comes last."""
    place = {name: k for k, name in enumerate(order)}
    return sorted(range(len(names)), key=lambda k: place.get(names[k], len(place)))


def _among_all(block: FloatArray, members: Sequence[int], p: int) -> csr_array:
    """A matrix over some of the variables as one over all."""
    entries = csr_array(block).tocoo()
    place = np.array(members, dtype=np.intp)
    return csr_array((entries.data, (place[entries.row], place[entries.col])), shape=(p, p))


def fit_models(first: LinearSEM, second: LinearSEM, before: BoolArray, settings: OrderSettings) -> Difference:
    """Compare exact models: what is found with as many rows as rounding errors allow to tell apart."""
    return compare_models(fit_exactly(first, second, before, settings), first, second)


def fit_exactly(first: LinearSEM, second: LinearSEM, before: BoolArray, settings: OrderSettings) -> OrderFit:
    """Search over orders of exact models, taken for samples of so many rows."""
    with np.errstate(over="ignore", invalid="ignore"):  # refused in words
        sigma1, sigma2 = first.covariance(), second.covariance()
    spreads = [np.nan_to_num(np.sqrt(np.diag(sigma)), nan=np.inf) for sigma in (sigma1, sigma2)]
    raise_problems(find_extreme_scales(first.names, spreads, ("first", "second")))
    p = len(first.names)
    rows = min(EXACT_ROWS, ROUNDING / np.finfo(float).eps / max(_condition(sigma1), _condition(sigma2)))
    if rows < LEAST_ROWS * p:
        raise InputError(
            "the covariance matrices of these models are too close to singular to compare orders in double "
            "precision; use method='paper', which works with square roots, or smaller weights"
        )
    one, two = (
        Moments(first.names, int(rows), sem.mean(), sigma * int(rows))
        for sem, sigma in ((first, sigma1), (second, sigma2))
    )
    return fit_samples(first.names, one, two, before, settings, Screened(range(p)))


def compare_models(fit: OrderFit, first: LinearSEM, second: LinearSEM) -> Difference:
    """The difference of exact models, with their weights where the fit found their changes."""
    changed = first.weights != second.weights
    # Of exact models every effect that a gain multiplies is known, however small.
    multiplied = {(i, j) for i in fit.structure.gains for j in fit.structure.predecessors(i) if changed[i, j]}
    directed = (set(fit.optimum.margins) | multiplied) - fit.tied
    # Along a given order that is not the models' own, edges are those of regressions.
    structural = all(changed[edge] for edge in directed)
    edges: Iterable[Edge] = _estimated_edges(fit)
    if structural:
        single = {(first.names[j], first.names[i]) for i, js in fit.structure.causes.items() for j in js}
        exact = (
            edge if (edge.source, edge.target) in single else replace(edge, gain_of=edge.target)
            for edge in model_edges(directed, first, second)
        )
        edges = *exact, *_undirected(fit)
    edges = with_sizes(edges, first.names, pooled_scale(fit.first, fit.second))
    own = list(zip(first.names, first.noise_variances.tolist(), second.noise_variances.tolist(), strict=True))
    # With a gain, or along an order that is not the models' own, variances may be separate and the same.
    noise = [
        (*own[k], own[k][1] / own[k][2])
        for k in sorted(fit.structure.separate)
        if not math.isclose(own[k][1], own[k][2])
    ]
    return Difference(
        method="order",
        edge_list=edges,
        variables=first.names,
        delta_entries=csr_array(first.precision() - second.precision()),
        samples=None,
        settings={**_described(fit), "rows": float(fit.first.n)},
        notes=tuple(_notes(fit)),
        gain_list=tuple(
            replace(gain, stderr=0.0, pvalue=None)
            for gain in mechanisms.changed_gains(fit.structure, fit.regressions)
        ),
        noise_list=tuple(NoiseChange(*change) for change in noise),
        mean_list=tuple(replace(change, stderr=0.0, pvalue=None) for change in mechanisms.changed_means(fit)),
        **placed(edges, first.names),
    )


def _condition(sigma: FloatArray) -> float:
    scale = np.sqrt(np.diag(sigma))
    return float(np.linalg.cond(sigma / np.outer(scale, scale)))


def _estimated_edges(fit: OrderFit) -> Iterator[Edge]:
    place = {name: k for k, name in enumerate(fit.first.names)}
    for i in sorted(fit.structure.gains.union(fit.structure.causes)):
        plain = fit.structure.regression(fit.first, fit.second, i)
        for edge in fit.structure.edges(i, fit.regressions[i], plain):
            ends = i, place[edge.source]
            if ends not in fit.tied | fit.fallen:
                yield replace(edge, settled=fit.settled(ends))
    yield from _undirected(fit)


def _undirected(fit: OrderFit) -> list[Edge]:
    names, tied = fit.first.names, sorted(fit.tied - fit.fallen, key=sorted)
    return [
        Edge(names[min(edge)], names[max(edge)], directed=False, settled=fit.settled(edge)) for edge in tied
    ]


def _precision_difference(fit: OrderFit) -> FloatArray:
    """Of the fitted models: only rows of the structural equations that changed differ."""
    p = len(fit.first.names)
    delta: FloatArray = np.zeros((p, p))
    for i, found in fit.regressions.items():
        earlier = fit.structure.predecessors(i)
        for sign, weights, variance in (
            (1, found.first, found.variance_first),
            (-1, found.second, found.variance_second),
        ):
            row = np.zeros(p)
            row[i] = 1.0
            row[earlier] = -weights
            delta += sign * np.outer(row, row) / variance
    return delta


def _described(fit: OrderFit) -> dict[str, object]:
    """The settings as people read them."""
    optimum = fit.optimum
    how = "order given" if "order" in fit.settings.known else "all admissible orders compared"
    if optimum.starts:
        how = _agreement(fit)
    return {
        "noise": "equal" if fit.equal_noise else "auto",
        "penalty": fit.problem.unit,
        "penalty_factor": fit.settings.factor,
        "penalty_inflation": fit.settings.inflation._asdict(),
        "score": optimum.best.score,
        "search": how,
        "known_beforehand": list(fit.settings.known),
        "starts": optimum.starts,
        "starts_at_optimum": optimum.reached,
        "tie": TIE,
        "search_order": list(fit.search_order),
        "margins": fit.margins,
        "unsettled": fit.unsettled,
        **(
            {"shape": "of residuals counts as evidence for the order, and in estimates of effects"}
            if fit.shaped
            else {}
        ),
    }


def _inflation(fit: OrderFit) -> str:
    """What chance in the rows multiplies penalties by, and why."""
    kinds = zip(("effects", "noise variances", "intercepts"), fit.settings.inflation, strict=True)
    said = " and ".join(f"{times:.2g} times for {what}" for what, times in kinds if times >= VISIBLE)
    heavy = [] if fit.rows is None else heavy_columns(fit.rows, fit.first.names)
    spread = "how these rows are spread"
    if fit.units is not None and max(fit.units.multiples) > 1:
        spread = f"differences between '{fit.units.nested.name}'"
    why = f"heavy tails or many zeros in {join_names(heavy)}" if heavy else spread
    remedy = "; a logarithm, covariance 'winsorised' or, of a rare yes or no, leaving it out would find more"
    said += remedy * bool(heavy)
    return f"chance goes further here than among Gaussian rows, because of {why}: penalties are {said}"


def _agreement(fit: OrderFit) -> str:
    """How many starts of the search found the changes."""
    optimum = fit.optimum
    if not optimum.reached:
        return f"none of {plural(optimum.starts, 'start')} found these changes by itself"
    but = ", but for those not settled" if fit.unsettled else ""
    return f"{optimum.reached} of {optimum.starts} starts found these changes{but}"


def _notes(fit: OrderFit) -> Iterator[str]:
    """What a user should know about how far this result goes."""
    optimum, names = fit.optimum, fit.first.names
    if optimum.starts and optimum.reached < 2:
        yield (
            f"the search did not agree with itself ({_agreement(fit)}), so a better order may exist; drop "
            "variables, or give what you know (tiers, directions)"
        )
    if fit.unsettled:
        several = len(fit.unsettled) > 1
        yield (
            f"{join_names(list(fit.unsettled))} {'are' if several else 'is'} not settled: orders without "
            f"{'them' if several else 'it'}, or the other way round, score within a penalty of this one"
        )
    if fit.shaped and optimum.margins:
        yield (
            "residuals are clearly not Gaussian, and independent along this order: their shape counted as "
            "evidence for directions, and effects are estimated with it"
        )
    if max(fit.settings.inflation) >= VISIBLE:
        yield _inflation(fit)
    if fit.fallen:
        said = join_names(f"{names[j]} -> {names[i]}" for i, j in sorted(fit.fallen))
        why = (
            "a few rows carry such a change"
            if fit.units is None
            else f"such a change differs too much by '{fit.units.nested.name}'"
        )
        are, them = ("are", "them") if len(fit.fallen) > 1 else ("is", "it")
        yield f"{said} {are} not listed: the search found {them}, but {why}"
    for i, j in sorted(fit.tied - fit.fallen):
        yield f"the data do not tell whether {names[j]} acts on {names[i]} or the other way round"
