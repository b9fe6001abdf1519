"""From two tables to a result, step by step. Start reading here.

    prepare   aligned tables -> moments, once; where the variables are too many, of those that matter
    search    moments -> a fit: `OrderFit` (the search over causal orders) or `PaperFit` (Algorithm 1)
    assess    a fit and its rows -> confidence, the global test, checks, scatters
    result    all of that, frozen

Every step is a plain function over frozen values. `DifferenceDAG` is a thin door to `fit_tables` and its
siblings; `fit_conditions` uses the same steps with one search for all comparisons; resamples repeat `prepare`
and `search` on other rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.sparse import csr_array

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag._base.checks import check_jobs, check_number, check_option, check_rng, check_whole
from diffdag._base.errors import InputError
from diffdag._base.parallel import one_blas_thread
from diffdag._base.progress import ProgressCallback, show_progress
from diffdag._base.words import Option, named, option_words, plural
from diffdag.model.nesting import Units, see_nesting
from diffdag.model.prior_knowledge import Direction, Tiers, precedence
from diffdag.model.sem import LinearSEM
from diffdag.ordersearch import fit as ordersearch
from diffdag.ordersearch.few_rows import compare_means
from diffdag.ordersearch.fit import OrderSettings
from diffdag.ordersearch.null_splits import see_chance
from diffdag.ordersearch.penalty import NONE, Inflation
from diffdag.ordersearch.screen import MOST, Screened, most_variables, screen, silent
from diffdag.ordersearch.stand_ins import add_stand_ins
from diffdag.paper import fit as paper
from diffdag.precision.api import ESTIMATORS, Penalty
from diffdag.precision.problem import pooled_scale, standardise
from diffdag.precision.rows import standardise_rows
from diffdag.result import DifferenceResult
from diffdag.results.difference import Difference, as_text
from diffdag.results.nodes import false_discovery_rates
from diffdag.results.records import Check, Claims, MeanChange, NodeTest, Sensitivity, SwitchChange
from diffdag.tables.adjust import Nested
from diffdag.tables.align import Tables
from diffdag.tables.covariates import adjust_moments
from diffdag.tables.degenerate import check_moments
from diffdag.tables.effective_rows import independent_rows, with_effective_rows, without_rows
from diffdag.tables.em import Completed
from diffdag.tables.moments import Moments, check_comparable, check_no_categories
from diffdag.tables.problems import check_same_columns
from diffdag.tables.robust import COVARIANCES, Covariance, table_moments, table_scores
from diffdag.tables.sorting import Switched
from diffdag.tables.whiten import Filter
from diffdag.trust.by_unit import effects_by_unit, unit_notes
from diffdag.trust.checks.row_checks import check_reference, whitening_helps
from diffdag.trust.checks.suite import check_moments_only, check_tables
from diffdag.trust.confidence import add_confidence, settled
from diffdag.trust.contradictions import compare_remedy
from diffdag.trust.controls import Controls, control_tables
from diffdag.trust.explanation import explain_changes
from diffdag.trust.false_edges import control_false_edges
from diffdag.trust.mechanism_tests import node_tests
from diffdag.trust.options import Assessment
from diffdag.trust.permutation import permute_tables
from diffdag.trust.resampling import Drawing, Kind, NoneFitted, Resamples, check_journal, resample_tables
from diffdag.trust.scatter import edge_scatters, rows_to_show
from diffdag.trust.sensitivity import lost_above, sensitivity_note
from diffdag.trust.settings_path import BaseSettings, follow_path
from diffdag.trust.splitting import check_columns, check_held_out, measure, split_rows
from diffdag.trust.support import ROWS_NEEDED, read_edges, with_support

if TYPE_CHECKING:
    from diffdag.ordersearch.search import Optimum
    from diffdag.trust.fits import Fit

METHODS = ("order", "paper")
MEANS = "means"  # how a result says that only means were compared
MOVED = 0.05  # false-discovery rate up to which a mean is said to have moved
LEAST_PVALUE = 1e-300
KNOWLEDGE = ("order", "tiers", "required", "forbidden")
UNCALIBRATED = "confidence is calibrated for the order search; for the paper's method take it as a rank"
NEARBY = (0.6, 0.8, 1.25, 1.6)  # multiples of the penalty at which the fit is looked at again
LABELS = ("first", "second")
FEW_ROWS = 20  # effective ones, below which it is said that they tell little
SAID = 0.98  # share of the rows above which it is not said what covariates and units cost
QUICK = 14  # variables up to which fits take so little time that remedies are tried
MEMORY = {"independent rows"}  # one of its two remedies is advised
# Options that checks advise: name, value, and the checks.
REMEDIES = (
    ("covariance", "winsorised", {"outliers", "normality"}),
    ("effective_samples", "auto", MEMORY),
    ("whiten", "ar", MEMORY),
)


@dataclass(frozen=True)
class ModelOptions:
    """How two conditions are compared, checked; see `DifferenceDAG` for the meaning of each option."""

    method: Literal["order", "paper"] = "order"
    estimator: str = "dantzig"
    penalty: Penalty | None = None
    threshold: float | None = None
    noise: Literal["auto", "equal"] = "auto"
    order: Sequence[str] | None = None
    tiers: Tiers | None = None
    required: Sequence[Direction] | None = None
    forbidden: Sequence[Direction] | None = None
    covariance: Covariance = "sample"
    effective_samples: float | tuple[float, float] | Literal["auto"] | None = None
    max_variables: int | None = None
    rng: np.random.Generator | int | None = None
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        check_option("method", self.method, METHODS)
        check_option("estimator", self.estimator, tuple(ESTIMATORS))
        check_option("noise", self.noise, ("auto", "equal"))
        check_option("covariance", self.covariance, COVARIANCES)
        foreign = {"order": ("threshold",), "paper": (*KNOWLEDGE, "max_variables")}
        for name in foreign[self.method]:
            if getattr(self, name) is not None:
                own = Option("method", self.method)
                other = Option("method", "paper" if self.method == "order" else "order")
                raise InputError(own, " has no ", named(name), "; leave it out, or use ", other)
        if self.method == "order":
            said = ", a multiple of the default,"
            check_number("penalty", self.penalty, above=0, none_ok=True, apposition=said)
        if self.threshold != 0:
            check_number("threshold", self.threshold, above=0, none_ok=True)
        check_rng(self.rng)
        check_whole("max_variables", self.max_variables, least=2, none_ok=True)
        check_jobs(self.n_jobs)

    @property
    def knowledge(self) -> dict[str, Any]:
        """What is known of the causal order, by kind."""
        return {name: getattr(self, name) for name in KNOWLEDGE if getattr(self, name) is not None}

    @property
    def seed(self) -> np.random.Generator | int:
        """Where randomness comes from; the same every time unless the user says otherwise."""
        return 0 if self.rng is None else self.rng

    def precedence(self, names: tuple[str, ...]) -> BoolArray | None:
        """Who has to precede whom; None if nothing is known."""
        return precedence(names, **self.knowledge) if self.knowledge else None

    def most_variables(self, n1: int, n2: int) -> int:
        """So many variables can be ordered with these numbers of rows."""
        return most_variables(min(n1, n2), self.max_variables)

    def order_settings(self, callback: ProgressCallback | None, inflation: Inflation = NONE) -> OrderSettings:
        """What the order search is asked for."""
        return OrderSettings(
            self.noise == "equal",
            np.random.default_rng(self.seed),
            self.n_jobs,
            tuple(self.knowledge),
            callback or silent,
            1.0 if self.penalty is None else float(self.penalty),
            self.max_variables,
            inflation=inflation,
        )

    def paper_settings(self) -> paper.PaperSettings:
        """What Algorithm 1 is asked for."""
        equal = self.noise == "equal"
        return paper.PaperSettings(self.estimator, self.penalty, self.threshold, equal, self.n_jobs)


# ---------------------------------------------------------------------------------------------- prepare


@dataclass(frozen=True, eq=False)
class Prepared:
    """Two conditions as moments, ready for a search."""

    names: tuple[str, ...]  # of all variables
    first: Moments  # of all variables, or of those that `screened` kept
    second: Moments
    screened: Screened | None = None  # which columns were kept; None for all
    known: BoolArray | None = None  # known[a, b] if variable a has to precede b; None if nothing is known
    notes: tuple[str, ...] = ()  # what a user should know about the rows
    tables: tuple[FloatArray, FloatArray] | None = None  # rows of all variables, as the moments see them
    inflation: Inflation | None = None  # of penalties, by what chance gains on the rows; None if not yet seen
    controls: Controls | None = None  # what fits to random halves of one table found
    nested: Nested | None = None  # what the rows are nested in; None if they are independent
    # Shares of rows in which two variables were observed, over what the rows count for; None without gaps.
    known_cells: FloatArray | None = None
    widths: FloatArray | None = None  # what errors of each variable's intercept are multiplied by
    samples: tuple[int, int] | None = None  # rows, where the moments are worth fewer for what was taken out
    adjust: tuple[str, ...] = ()  # covariates that were taken out of moments; those of rows are in their design

    @property
    def rows(self) -> tuple[FloatArray, FloatArray] | None:
        """Rows of the variables that were kept."""
        if self.tables is None or self.screened is None or len(self.screened.members) == len(self.names):
            return self.tables
        first, second = self.tables
        return first[:, self.screened.members], second[:, self.screened.members]

    def before(self, members: Sequence[int]) -> BoolArray:
        """Who has to precede whom among some columns."""
        if self.known is None:
            return np.zeros((len(members), len(members)), bool)
        return np.ascontiguousarray(self.known[np.ix_(members, members)])

    def leaving_out(self, columns: Sequence[int]) -> Prepared:
        """The moments without those of some columns, as if these had been screened out."""
        screened = self.screened or Screened(range(len(self.names)))
        return self.keeping(screened.without(columns))

    def keeping(self, screened: Screened) -> Prepared:
        """The moments of some variables."""
        chosen = [self.names[k] for k in screened.members]
        return replace(
            self, first=self.first.select(chosen), second=self.second.select(chosen), screened=screened
        )


def prepare(
    tables: Tables,
    options: ModelOptions,
    callback: ProgressCallback | None = None,
    *,
    inflation: Inflation | None = None,
) -> Prepared:
    """Reduce two aligned tables to moments.

    Tables with fewer rows than variables are screened first, straight from the rows: nothing of the size of a
    covariance matrix is formed.
    """
    known, tables = options.precedence(tables.names), tables.adjusted
    screened = _screen_rows(tables, options, callback)
    first, second = moments_of(tables, options, None if screened is None else screened.members)
    notes = (*tables.notes, *_counted(tables, options, first, second))
    sizes = len(tables.first), len(tables.second)
    samples = None if tables.taken is None else sizes
    widths = None if tables.whitened is None else tables.whitened.widths(tables.names, sizes)
    prepared = Prepared(tables.names, first, second, screened, known, notes, samples=samples, widths=widths)
    if options.method != "order":
        return prepared
    rows = table_scores(tables.first, tables.second, options.covariance)
    if tables.taken is None:
        return replace(prepared, tables=rows, inflation=inflation)
    taken = tables.taken
    one, two = (_widened(table, lost) for table, lost in zip(rows, taken.lost, strict=True))
    rows_of: dict[str, Any] = {"tables": (one, two), "nested": taken.nested, "known_cells": taken.known}
    return replace(prepared, inflation=inflation, **rows_of)


def _widened(rows: FloatArray, lost: int) -> FloatArray:
    """Rows of residuals with the variance that they would have had there been nothing to take out."""
    if not lost:
        return rows
    mean = rows.mean(axis=0)
    wide: FloatArray = mean + (rows - mean) * math.sqrt(len(rows) / max(len(rows) - lost, 1))
    return wide


def _counted(tables: Tables, options: ModelOptions, first: Moments, second: Moments) -> Iterator[str]:
    """Say how many independent rows the rows are worth, if not all, and why."""
    n1, n2, taken = len(tables.first), len(tables.second), tables.taken
    if (n1, n2) == (first.n, second.n):
        return
    why = []
    if taken is not None and taken.filled is not None:
        why.append("missing values")
    if taken is not None and any(taken.lost):
        why.append("what is taken out")
    if options.covariance == "spearman":
        why.append("ranks in place of values")
    if options.effective_samples is not None:
        why.append("the option 'effective samples'")
    if first.n + second.n < SAID * (n1 + n2) or not taken:
        yield (
            f"because of {' and '.join(why)}, the {n1} and {n2} rows are worth {first.n} and {second.n} "
            "complete and independent ones"
        )
    if options.effective_samples == "auto" and min(first.n, second.n) < FEW_ROWS:
        rest = "" if tables.whitened is not None else f"; {option_words('whiten', 'ar')} may leave more"
        yield f"rows with so long a memory tell next to nothing, and only large changes can be seen{rest}"


def prepare_moments(
    first: Moments,
    second: Moments,
    options: ModelOptions,
    labels: tuple[str, str] = LABELS,
    adjust: Sequence[str] = (),
) -> Prepared:
    """Take moments as they are, but for covariates, which are taken out."""
    notes: tuple[str, ...] = ()
    samples = (first.n, second.n) if adjust else None
    if adjust:
        first, second, notes, adjust = adjust_moments(first, second, adjust, labels)
    check_no_categories(first, second)
    check_same_columns(first.names, second.names, labels)
    known = options.precedence(first.names)
    second = second.select(first.names)
    taken: dict[str, Any] = {"adjust": tuple(adjust), "samples": samples}
    return Prepared(first.names, first, second, known=known, notes=notes, **taken)


def moments_of(
    tables: Tables, options: ModelOptions, columns: Sequence[int] | None = None
) -> tuple[Moments, Moments]:
    """Moments of two tables, or of some of their columns, as the options say."""
    tables = tables.adjusted
    how: dict[str, Any] = {"covariance": options.covariance, "effective_samples": options.effective_samples}
    chosen = list(range(len(tables.names)) if columns is None else columns)
    rows = [table if columns is None else table[:, columns] for table in (tables.first, tables.second)]
    both = table_moments(rows[0], rows[1], [tables.names[k] for k in chosen], **how)
    taken = tables.taken
    if taken is None:
        return both
    lost, worth, filled, means = taken.lost, taken.mean_rows, taken.filled, taken.means
    one, two = (without_rows(both[k], len(rows[k]), lost[k], worth[k]) for k in (0, 1))
    if filled is None:
        return one, two
    one, two = (
        with_effective_rows(own, own.n * known.share) for own, known in zip((one, two), filled, strict=True)
    )
    if options.covariance != "sample" or means is None:
        return one, two
    one, two = (
        Moments(own.names, own.n, means[k][chosen], _scatter_of(known, lost[k], own.n, chosen), own.mean_rows)
        for k, (own, known) in enumerate(zip((one, two), filled, strict=True))
    )
    return one, two


def _scatter_of(filled: Completed, lost: int, worth: int, columns: Sequence[int]) -> FloatArray:
    """The scatter of so many rows with a covariance of maximum likelihood, free of its bias."""
    n = len(filled.rows)
    scatter: FloatArray = filled.covariance[np.ix_(columns, columns)] * (n / (n - 1 - lost) * (worth - 1))
    return scatter


def _screen_rows(tables: Tables, options: ModelOptions, callback: ProgressCallback | None) -> Screened | None:
    """Which variables to keep of tables with too many of them and fewer rows."""
    if options.method != "order" or len(tables.first) + len(tables.second) >= len(tables.names):
        return None
    scores = table_scores(tables.first, tables.second, options.covariance)
    n1, n2 = (int(rows) for rows in independent_rows(options.effective_samples, scores))
    if len(tables.names) <= min(most := options.most_variables(n1, n2), MOST):
        return None
    problem, scale = standardise_rows(*scores)
    apart = (scores[0].mean(axis=0) - scores[1].mean(axis=0)) / scale
    return screen(problem, n1, n2, most, callback or silent, apart)


def screen_moments(prepared: Prepared, most: int, callback: ProgressCallback | None) -> Screened:
    """Rank the variables by how much they seem to take part in a change; the first of them, at most so many."""
    first, second = prepared.first, prepared.second
    apart = ordersearch.mean_difference(first, second)
    scaled = None if apart is None else apart / pooled_scale(first, second)
    return screen(standardise(first, second), first.n, second.n, most, callback or silent, scaled)


def screened_to_fit(
    prepared: Prepared, options: ModelOptions, callback: ProgressCallback | None = None
) -> Prepared:
    """Screen the variables if the order search cannot take all."""
    most = options.most_variables(prepared.first.n, prepared.second.n)
    if options.method != "order" or prepared.screened is not None or len(prepared.names) <= min(most, MOST):
        return prepared
    return prepared.keeping(screen_moments(prepared, most, callback))


# ----------------------------------------------------------------------------------------------- search


def validate(prepared: Prepared, labels: tuple[str, str] = LABELS) -> None:
    """Refuse moments that no search can use: too few rows, columns that are constant or linearly dependent.

    Where orders are searched block by block, each block is looked at by itself.
    """
    blocks = () if prepared.screened is None else prepared.screened.blocks
    searched = [tuple(prepared.names[k] for k in block) for block in blocks] or [prepared.first.names]
    for moments, label in zip((prepared.first, prepared.second), labels, strict=True):
        for names in searched:
            own = moments.select(names)
            check_moments(own.names, own.n, own.scatter, label, mean=own.mean)
    check_comparable(prepared.first, prepared.second, labels)


def inflation_of(prepared: Prepared, options: ModelOptions, units: Units | None = None) -> Inflation:
    """What penalties are multiplied by: what chance gains on the rows, over what it gains on Gaussian ones."""
    if prepared.inflation is not None or prepared.rows is None:
        return prepared.inflation or NONE
    found = see_chance(prepared.rows, np.random.default_rng(options.seed).spawn(1)[0]).inflation
    units = units or units_of(prepared, options)
    return found if units is None else found.for_units(*units.multiples)


def units_of(prepared: Prepared, options: ModelOptions) -> Units | None:
    """What the rows of the variables that were kept are nested in, and what that multiplies variances by."""
    if prepared.nested is None or prepared.rows is None:
        return None
    members = range(len(prepared.names)) if prepared.screened is None else prepared.screened.members
    rng = np.random.default_rng(options.seed).spawn(3)[2]
    return see_nesting(prepared.rows, prepared.nested.among(members), rng)


def controlled(
    prepared: Prepared,
    tables: Tables,
    options: ModelOptions,
    wanted: Assessment,
    callback: ProgressCallback | None = None,
) -> Prepared:
    """See what fits to random halves of one table find, and raise penalties where that is too much."""
    if wanted.controls is None:
        return prepared
    validate(prepared)
    inflation = inflation_of(screened_to_fit(prepared, options), options)
    refit = replace(Refit.of(options), inflation=inflation)
    seed = np.random.default_rng(options.seed).spawn(2)[1]
    controls = control_tables(tables, refit.at, wanted.controls, seed, options.n_jobs, callback)
    notes, inflation = (*prepared.notes, controls.note), inflation.times(controls.multiple)
    return replace(prepared, notes=notes, inflation=inflation, controls=controls)


def search(
    prepared: Prepared,
    options: ModelOptions,
    callback: ProgressCallback | None = None,
    *,
    optimum: Optimum | None = None,
    starts: Sequence[Sequence[str]] = (),
    shape: bool | None = None,
) -> Fit:
    """Fit the moments of two conditions by the chosen method.

    `optimum` is the outcome of a search that was done, and validated, together with other comparisons; `starts`
    are orders that a fit to much the same rows met, near which to search, and `shape` says whether the shape of
    residuals counted there; None to let these rows decide.
    """
    if optimum is None:
        validate(prepared)
    if options.method == "paper":
        return paper.fit_samples(prepared.first, prepared.second, options.paper_settings())
    prepared = screened_to_fit(prepared, options, callback)
    names, first, second = prepared.names, prepared.first, prepared.second
    screened = prepared.screened or Screened(range(len(names)))
    units, kept = units_of(prepared, options), screened.members
    before = prepared.before(kept)
    settings = replace(
        options.order_settings(callback, inflation_of(prepared, options, units)),
        shape=shape if options.covariance == "sample" else False,  # scores have shapes of their own
    )
    return ordersearch.fit_samples(
        names,
        first,
        second,
        before,
        settings,
        screened,
        optimum,
        prepared.rows,
        starts,
        units,
        None if prepared.known_cells is None else prepared.known_cells[np.ix_(kept, kept)],
        None if prepared.widths is None else prepared.widths[kept],
    )


@dataclass(frozen=True)
class Refit:
    """A model to be fitted to other rows: what resamples are fitted with."""

    options: ModelOptions
    starts: tuple[tuple[str, ...], ...] = ()  # orders that the fit to all rows met; none for a search from anew
    inflation: Inflation | None = None  # of penalties, by what chance gains on all rows; None to see anew
    # Variables whose gains, noise variances and intercepts are asked for; None for all.
    moved: frozenset[str] | None = None
    shape: bool | None = None  # whether the shape of all residuals counts; None to let the rows decide
    controls: int | None = None  # fits to random halves of one table, by which penalties may have been raised

    @classmethod
    def of(
        cls,
        options: ModelOptions,
        along: Sequence[str] = (),
        fit: Fit | None = None,
        moved: Collection[str] | None = None,
        controls: int | None = None,
    ) -> Refit:
        """Rows are taken for independent; `along` is an order that refits have to keep to.

        Searches begin near what the `fit` to all rows met, with its penalties. Which gains, noise variances and
        intercepts changed takes long to tell, and is told of the variables in `moved`, or of all.
        """
        required = [*(options.required or ()), *itertools.pairwise(along)] if along else options.required
        starts, inflation = (
            (fit.starts, fit.settings.inflation) if fit is not None and fit.method == "order" else ((), None)
        )
        options = replace(options, required=required, effective_samples=None, rng=None, n_jobs=1)
        shape = fit.shaped if fit is not None and fit.method == "order" else None
        return cls(options, starts, inflation, None if moved is None else frozenset(moved), shape, controls)

    @property
    def about(self) -> dict[str, str]:
        """What the fit depends on, besides rows and random numbers; they decide where searches begin, too."""
        return {
            "model": repr(replace(self.options, required=None)),
            "required": repr(self.options.required),
            "moved": "all" if self.moved is None else "claimed",
            "controls": str(self.controls),
        }

    def __call__(
        self, tables: Tables, rng: np.random.Generator, out: Sequence[int] = (), *, equal: bool = False
    ) -> Claims:
        """Fit two aligned tables, with some columns left out, or noise variances taken for equal."""
        options = replace(self.options, rng=rng, noise="equal" if equal else self.options.noise)
        prepared = prepare(tables, options, inflation=self.inflation)
        if out:
            prepared = screened_to_fit(prepared, options).leaving_out(out)
        return search(prepared, options, starts=self.starts, shape=self.shape).claims(self.moved)

    def at(self, tables: Tables, rng: np.random.Generator, multiple: float) -> Claims:
        """Fit two aligned tables with penalties times a multiple."""
        return replace(self, inflation=(self.inflation or NONE).times(multiple))(tables, rng)


def effective_rows(tables: Tables, options: ModelOptions) -> tuple[int, int]:
    """How many independent rows each table is worth."""
    if options.effective_samples is None:
        return len(tables.first), len(tables.second)
    covariance: Covariance = "sample" if options.covariance == "sample" else "winsorised"
    scores = table_scores(tables.adjusted.first, tables.adjusted.second, covariance)
    first, second = independent_rows(options.effective_samples, scores)
    return round(first), round(second)


# ----------------------------------------------------------------------------------------------- assess


def assess(
    fit: Fit,
    prepared: Prepared,
    tables: Tables,
    options: ModelOptions,
    wanted: Assessment,
    callback: ProgressCallback | None = None,
    *,
    held_out: Tables | None = None,
    whole: Tables | None = None,
    along: Sequence[str] = (),
) -> Difference:
    """Add to a fit all that was asked for, and the checks.

    `held_out` are rows that had no part in the fit, to measure the changes on, and `whole` are these and those
    of the fit; `along` is an order that refits have to keep to.
    """
    found = add_stand_ins(fit.difference, fit) if fit.method == "order" else fit.difference
    rows = tables.adjusted
    design = {} if tables.design is None else tables.design.said
    covariance = {} if options.covariance == "sample" else {"covariance": options.covariance}
    controls = {} if prepared.controls is None else {"controls": prepared.controls._asdict()}
    white = {} if tables.whitened is None else {"whiten": tables.whitened.kind}
    counted = prepared.samples is None and options.effective_samples is not None
    worth = {"effective_samples": list(found.samples or ())} if counted else {}
    settings = {**found.settings, **options.knowledge, **design, **white, **covariance, **controls, **worth}
    readings = read_edges(fit, rows, options.covariance)
    result = replace(
        found,
        edge_list=with_support(found.edge_list, readings),
        notes=(*prepared.notes, *unit_notes(tables.design, wanted.permuted, options.method), *found.notes),
        settings=settings,
        unit_effects=effects_by_unit(fit) if fit.method == "order" else (),
        mean_list=as_levels(found.mean_list, tables.whitened),
        node_tests=node_tests(fit) if fit.method == "order" else (),
        samples=(len(whole.first), len(whole.second)) if whole else prepared.samples or found.samples,
        switch_list=switch_changes(tables.switched),
    )
    if wanted.permuted:
        tested = permute_tables(whole or tables, wanted.permuted, options.seed, progress=callback)
        result = replace(result, global_test=tested)
    with show_progress(callback, "Checking assumptions", 1) as advance:
        known = {"effective": options.effective_samples is not None, "resampled": bool(wanted.fits)}
        checks = check_tables(rows, fit, readings, covariance=options.covariance, **known)
        if len(fit.kept) <= QUICK and result.edge_list:
            checks = (*checks, *_remedies(checks, result, tables, options, along))
        result = replace(result, checks=checks)
        advance()
    if wanted.fits:
        result = _with_resamples(result, fit, prepared, tables, options, wanted, callback, along)
    first, second = fit.first, fit.second
    if held_out is not None and fit.method == "order":
        first, second = moments_of(held_out, options, fit.kept)
        result = measure(result, fit, first, second, prepared.before(fit.kept))
    if wanted.fdr is not None:
        result = control_false_edges(result, wanted.fdr)
    if fit.method == "order" and tables.whitened is None:  # filtered rows have other means and variances
        measured = None if held_out is None else (first, second)
        result = replace(result, explanations=explain_changes(result, fit, measured))
    if not result.edge_list:
        return result
    shown = rows_to_show((held_out or tables).adjusted, fit.kept, options.covariance, wanted.rows_shown)
    ranked = options.covariance == "spearman"
    return replace(result, scatters=edge_scatters(result.edge_list, fit, first, second, shown, scores=ranked))


def as_levels(means: Sequence[MeanChange], whitened: Filter | None) -> tuple[MeanChange, ...]:
    """Changed intercepts in units of the variables, where those of filtered rows are a share of them."""
    if whitened is None:
        return tuple(means)
    gains = whitened.gains
    return tuple(own.divided(gains[own.variable]) for own in means)


def switch_changes(switched: Sequence[Switched]) -> tuple[SwitchChange, ...]:
    """Columns that vary in one condition only, as part of a result."""
    return tuple(SwitchChange.of(own._replace(held=as_text(own.held))) for own in switched)


def _remedies(
    checks: Sequence[Check], result: Difference, tables: Tables, options: ModelOptions, along: Sequence[str]
) -> Iterator[Check]:
    """Fit again with what failed checks advise, and say what is left of the result."""
    failed = {check.name for check in checks if not check.passed}
    helps = bool(failed & MEMORY) and whitening_helps(tables)
    for name, value, against in REMEDIES:
        if not failed & against or getattr(options, name, None) not in ("sample", None):
            continue
        if against == MEMORY and helps != (name == "whiten"):
            continue
        if name == "covariance" and tables.whitened is not None:
            continue
        seed = 0 if isinstance(options.rng, np.random.Generator) else options.rng
        changed: dict[str, Any] = {"effective_samples": options.effective_samples, "rng": seed}
        rows = tables
        if name == "whiten":
            rows = tables.whiten("ar")
        else:
            changed[name] = value
        model = replace(Refit.of(options, along).options, **changed)
        again = search(prepare(rows, model), model).difference
        yield compare_remedy(result, again, name, value)


def assess_moments(fit: Fit, prepared: Prepared) -> Difference:
    """Add to a fit the checks that need no rows, and the lines that changed."""
    found = fit.difference
    if fit.method == "order":
        found = replace(add_stand_ins(found, fit), explanations=explain_changes(found, fit))
    return replace(
        found,
        notes=(*prepared.notes, *found.notes, *([ROWS_NEEDED] if found.edge_list else [])),
        samples=prepared.samples or found.samples,
        settings={**found.settings, **({"adjust": list(prepared.adjust)} if prepared.adjust else {})},
        checks=check_moments_only(fit),
        scatters=edge_scatters(found.edge_list, fit, fit.first, fit.second),
        node_tests=node_tests(fit) if fit.method == "order" else (),
    )


def _drawings(tables: Tables, options: ModelOptions, wanted: Assessment) -> dict[Kind, Drawing]:
    effective = effective_rows(tables, options) if wanted.fits else (0, 0)
    names, seed = tables.names, options.seed
    return {kind: Drawing.of(names, kind, effective, seed, kind == "bootstrap") for kind in wanted.fits_of}


def check_journals(
    tables: Tables, options: ModelOptions, wanted: Assessment, *, searched: bool = False
) -> None:
    """Refuse journals of other runs, as far as that can be told before a search for a common order."""
    if isinstance(options.rng, np.random.Generator) or wanted.journal is None:
        return  # a Generator would be another one after this
    refit = Refit.of(options, moved=(), controls=wanted.controls)
    for kind, drawing in _drawings(tables, options, wanted).items():
        check_journal(tables, refit, drawing, wanted.journal_of(kind), searched=searched)


def _with_resamples(
    result: Difference,
    fit: Fit,
    prepared: Prepared,
    tables: Tables,
    options: ModelOptions,
    wanted: Assessment,
    callback: ProgressCallback | None,
    along: Sequence[str],
) -> Difference:
    """Add confidence, stability and sensitivity."""
    moved = {
        change.variable for own in (result.gain_list, result.noise_list, result.mean_list) for change in own
    }
    refit = Refit.of(options, along, fit, moved, wanted.controls)
    drawings, fits = _drawings(tables, options, wanted), wanted.fits_of
    how: dict[str, Any] = {"n_jobs": options.n_jobs, "progress": callback}

    def enough(drawn: Resamples) -> bool:
        return settled(result, drawn)

    try:
        bootstrap = resample_tables(
            tables,
            refit,
            fits["bootstrap"],
            drawings["bootstrap"],
            journal=wanted.journal_of("bootstrap"),
            settled=enough,
            **how,
        )
        pairs = math.ceil(fits["half"] / 2 * len(bootstrap.found) / fits["bootstrap"])
        journal = wanted.journal_of("half")
        halves = resample_tables(tables, refit, 2 * pairs, drawings["half"], journal=journal, **how)
    except NoneFitted as error:
        return replace(result, notes=(*result.notes, f"there is no confidence: {error}"))
    known = refit.options.precedence(tables.names)
    result = add_confidence(result, bootstrap, halves, wanted.fits, known)
    if options.method == "paper":
        result = replace(result, notes=(*result.notes, UNCALIBRATED))
    return replace(result, sensitivity=_sensitivity(fit, prepared, options, callback, along))


def _sensitivity(
    fit: Fit, prepared: Prepared, options: ModelOptions, callback: ProgressCallback | None, along: Sequence[str]
) -> Sensitivity:
    """How far the result depends on the penalty or the threshold."""
    seed = int(options.rng.integers(2**63)) if isinstance(options.rng, np.random.Generator) else options.rng
    refit = Refit.of(options, along, fit)
    model = replace(refit.options, rng=seed)
    prepared = replace(prepared, known=model.precedence(prepared.names), inflation=refit.inflation)
    base = base_settings(prepared, options)
    main = "threshold" if options.method == "paper" else "penalty"
    path = follow_path(
        base,
        lambda values: search(prepared, replace(model, **values), starts=refit.starts),
        multiples={main: NEARBY, **({"penalty": (1.0,)} if main == "threshold" else {})},
        n_jobs=options.n_jobs,
        progress=callback,
    )
    multiple = path.multiple(path.settings[path.chosen_at])
    return Sensitivity(path.axis, sensitivity_note(path), multiple, path.agrees, lost_above(path))


def base_settings(prepared: Prepared, options: ModelOptions) -> BaseSettings:
    """The settings that a path takes multiples of."""
    if options.method == "order":
        return BaseSettings.order(options.penalty)
    moments = prepared.first, prepared.second
    return BaseSettings.paper(*moments, options.estimator, options.penalty, options.threshold)


# ----------------------------------------------------------------------------------------------- result


@one_blas_thread()
def fit_tables(
    tables: Tables, options: ModelOptions, wanted: Assessment, callback: ProgressCallback | None = None
) -> DifferenceResult:
    """The whole chain for two aligned tables."""
    if tables.few is not None:
        return DifferenceResult.of(fit_means(tables, options, wanted, callback))
    wanted = suited(wanted, options, tables)
    held_out = whole = None
    if wanted.intervals is not None:
        whole = tables
        tables, held_out = split_rows(whole, options.rng)
        most = options.most_variables(len(held_out.first), len(held_out.second))
        if len(tables.names) <= min(most, MOST):  # none will be screened out
            check_columns(held_out)
            check_held_out(*moments_of(held_out, options))
    check_journals(tables, options, wanted)
    prepared = prepare(tables, options, callback)
    tables.check_left()
    prepared = controlled(prepared, tables, options, wanted, callback)
    fit = search(prepared, options, callback)
    assessed = assess(fit, prepared, tables, options, wanted, callback, held_out=held_out, whole=whole)
    return DifferenceResult.of(assessed)


def fit_means(
    tables: Tables, options: ModelOptions, wanted: Assessment, callback: ProgressCallback | None = None
) -> Difference:
    """Compare the means of few rows with a table of many: which variables' own residuals moved."""
    few = 1 if tables.few is None else tables.few
    check_means_only(options, wanted, (len(tables.first), len(tables.second))[few])
    reference, rows = (tables.first, tables.second) if few == 1 else (tables.second, tables.first)
    in_sequence = options.effective_samples is not None
    check = check_reference(reference, len(rows), whitened=tables.whitened is not None, in_sequence=in_sequence)
    found = compare_means(
        reference,
        rows,
        np.random.default_rng(options.seed),
        options.precedence(tables.names),
        in_sequence=in_sequence,
        most=options.max_variables or MOST,
        progress=callback or silent,
    )
    sign = -1.0 if few == 1 else 1.0  # differences are first minus second
    rates = false_discovery_rates(found.pvalues.tolist())
    means = tables.first.mean(axis=0), tables.second.mean(axis=0)
    moved = [k for k, rate in enumerate(rates) if rate is not None and rate <= MOVED]
    names, p = tables.names, len(tables.names)
    return Difference(
        method=MEANS,
        variables=names,
        invariant=(),
        unresolved=(),
        order=(),
        edge_list=(),
        delta_entries=csr_array((p, p)),
        samples=(len(tables.first), len(tables.second)),
        settings={"rate": MOVED, **options.knowledge},
        checks=() if check is None else (check,),
        notes=(*tables.notes, means_note(len(rows), LABELS[few])),
        mean_list=tuple(
            MeanChange(
                names[k],
                float(means[0][k]),
                float(means[1][k]),
                sign * float(found.shifts[k]),
                float(found.errors[k]),
                float(found.pvalues[k]),
            )
            for k in sorted(moved, key=lambda k: found.pvalues[k])
        ),
        node_tests=tuple(
            NodeTest(name, float(value), -math.log10(max(float(value), LEAST_PVALUE)))
            for name, value in zip(names, found.pvalues, strict=True)
        ),
        switch_list=switch_changes(tables.switched),
    )


def means_note(rows: int, label: str) -> str:
    """Why there are no edges."""
    return (
        f"there are no edges, because {plural(rows, 'row')} in the {label} condition "
        f"{'tells' if rows == 1 else 'tell'} nothing of how variables depend on each other: means are "
        "compared, and variables are ranked by the evidence that their own residual moved, over the causal "
        "orders that the other condition allows"
    )


def check_means_only(options: ModelOptions, wanted: Assessment, rows: int) -> None:
    """Refuse what takes rows of both conditions, where one has few."""
    said = f"with {plural(rows, 'row')} in one condition only means are compared; leave "
    given = wanted.of_rows + [name for name in ("penalty", "threshold") if getattr(options, name) is not None]
    if given:
        raise InputError(said, named(given[0]), " out")


@one_blas_thread()
def fit_moments(
    first: Moments,
    second: Moments,
    options: ModelOptions,
    wanted: Assessment,
    callback: ProgressCallback | None = None,
    labels: tuple[str, str] = LABELS,
    adjust: Sequence[str] = (),
) -> DifferenceResult:
    """The chain for moments, as far as it needs no rows."""
    if not (isinstance(first, Moments) and isinstance(second, Moments)):
        raise InputError("fit_moments takes two Moments, as Moments.from_array makes them; fit takes tables")
    refuse_rows(options, wanted)
    prepared = prepare_moments(first, second, options, labels, adjust)
    return DifferenceResult.of(assess_moments(search(prepared, options, callback), prepared))


def fit_models(first: LinearSEM, second: LinearSEM, options: ModelOptions) -> DifferenceResult:
    """Compare two known models: what the method finds with infinitely many rows."""
    if not (isinstance(first, LinearSEM) and isinstance(second, LinearSEM)):
        raise InputError("fit_population takes two LinearSEM; fit takes tables")
    if first.names != second.names:
        raise InputError("the two models have different variables, or the same in another order")
    if options.method == "paper":
        return DifferenceResult.of(paper.fit_models(first, second, options.paper_settings()))
    known = options.precedence(first.names)
    before = np.zeros((len(first.names),) * 2, bool) if known is None else known
    fit = ordersearch.fit_exactly(first, second, before, options.order_settings(None))
    found = ordersearch.compare_models(fit, first, second)
    return DifferenceResult.of(replace(found, explanations=explain_changes(found, fit, exact=True)))


def refuse_rows(
    options: ModelOptions,
    wanted: Assessment,
    known: str = "only moments are known",
    others: Sequence[str] = (),
) -> None:
    """Refuse options that act on rows, where there are none; `others` are names of more that were given."""
    given = [*wanted.of_rows, *others, *["covariance"] * (options.covariance != "sample")]
    for name in [*given, *["effective_samples"] * (options.effective_samples is not None)]:
        raise InputError(named(name), f" needs rows, and {known}; leave it out")


def suited(wanted: Assessment, options: ModelOptions, tables: Tables | None = None) -> Assessment:
    """Refuse what does not go with the model, or with the tables; leave out what was not asked for by name."""
    if tables is not None and tables.design is not None and tables.design.cluster:
        name = tables.design.cluster
        if wanted.intervals is not None:
            raise InputError(
                "split intervals would take rows of one ",
                f"'{name}' for independent; leave ",
                named("intervals"),
                " out",
            )
        if options.effective_samples is not None:
            raise InputError(
                f"errors are those between '{name}', whatever rows of one have in common; leave ",
                named("effective_samples"),
                " out",
            )
    if tables is not None and tables.whitened is not None and options.covariance != "sample":
        raise InputError(
            Option("covariance", options.covariance),
            " would cut off, or rank, what the filter leaves of rows, and false changes appear; leave it, or ",
            named("whiten"),
            ", out",
        )
    if wanted.intervals is not None:
        if options.method != "order":
            raise InputError("split intervals need ", Option("method", "order"), "; leave them out")
        if options.effective_samples is not None:
            raise InputError("the rows of a time series cannot be split at random; leave split intervals out")
    if wanted.controls is not None:
        if options.method != "order":
            raise InputError(named("controls"), " need ", Option("method", "order"), "; leave them out")
        if options.effective_samples is not None:
            raise InputError(
                "the rows of a time series cannot be split at random; leave ", named("controls"), " out"
            )
    if options.effective_samples is not None and wanted.permuted:
        if wanted.permutations:
            raise InputError(
                "rows of a time series cannot be permuted; leave ",
                named("permutations"),
                " out where ",
                named("effective_samples"),
                " is given",
            )
        return replace(wanted, permutations=0)
    return wanted
