"""Several conditions at once: the steps are those for two, but one search finds one order for all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffdag import pipeline
from diffdag._base.errors import InputError
from diffdag._base.parallel import one_blas_thread
from diffdag._base.progress import Progress, ProgressCallback, progress_callback, show_progress
from diffdag._base.words import Option, join_names, named, plural, using
from diffdag.estimator import ESTIMATING, DifferenceDAG, as_model
from diffdag.ordersearch.screen import ROWS_PER_VARIABLE
from diffdag.ordersearch.search import search_jointly
from diffdag.pipeline import ModelOptions, Prepared
from diffdag.result import ConditionsResult, DifferenceResult
from diffdag.results.differences import folder_names
from diffdag.tables.align import Tables, align_tables
from diffdag.tables.covariates import covariates_of_moments
from diffdag.tables.moments import Moments, choose
from diffdag.tables.problems import check_same_columns
from diffdag.trust.options import Assessment

if TYPE_CHECKING:
    from diffdag.ordersearch.screen import Screened
    from diffdag.ordersearch.search import Optimum
    from diffdag.tables.coding import Levels

Pair = tuple[str, str]
NO_SHARED_ORDER = (
    "the paper's method has no order to share: each comparison was made by itself; the order search finds one "
    "order for all of them"
)
GIVEN_THE_ORDER = (
    "confidence (and fdr) is about the changes if the common order is right: resamples were fitted along it, "
    "so doubts about directions do not count"
)


def fit_conditions(
    tables: Mapping[str, Any],
    *,
    reference: str | None = None,
    model: DifferenceDAG | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    levels: Levels | None = None,
    journal: str | PathLike[str] | None = None,
    progress: Progress = None,
) -> ConditionsResult:
    """Compare two or more conditions, with one causal order for all of them.

    Parameters
    ----------
    tables : mapping of str to array, table or Moments
        The conditions by name. Arrays, or pandas, polars or Arrow tables or AnnData matched by column name; or
        moments.
    reference : str, optional
        The condition that all others are compared with. Left out, each is compared with each.
    model : DifferenceDAG, optional
        How to compare, such as ``DifferenceDAG(whiten="ar")``; the default one if left out. With more than two
        conditions `effective_samples` is one number for all, or ``"auto"``. With more than one comparison its
        resamples are fitted along the common order, and confidence and `fdr` are about the changes if it is
        right. `intervals` is for two conditions.
    columns, drop, levels : optional
        As for `DifferenceDAG.fit`. What does not vary in some condition is left out of all comparisons, and is
        a change in those in which it varies in one of the two.
    journal : path, optional
        A folder that keeps finished resamples, each comparison's in a folder of its own: an interrupted run
        continues.
    progress : bool or callable, optional
        As for `DifferenceDAG.fit`.

    Returns
    -------
    ConditionsResult
        One `DifferenceResult` per comparison. With two conditions it is that of `DifferenceDAG.fit`.

    See Also
    --------
    DifferenceDAG : two conditions.
    split_groups : the conditions of one table, by a column.

    Notes
    -----
    The score of an order is the sum of its scores in all comparisons, so that each of them helps to direct the
    edges of the others. Every comparison has the penalties that it would have by itself; where false alarms in
    any of them are too many (docs/dev/trust_measured.md), give the model a larger `penalty`.

    Examples
    --------
    >>> import diffdag as dd
    >>> pair = dd.simulate_pair(5, neighbours=3, changes=1, weights=(0.8, 1.0), rng=4)
    >>> models = {"none": pair.first, "low": pair.first, "high": pair.second}
    >>> tables = {name: sem.sample(2000, rng=k) for k, (name, sem) in enumerate(models.items())}
    >>> {pair: len(result.edge_list) for pair, result in dd.fit_conditions(tables).pairs.items()}
    {('none', 'low'): 0, ('none', 'high'): 1, ('low', 'high'): 1}
    """
    if not isinstance(tables, Mapping):
        raise InputError(
            f"conditions need names and are a {type(tables).__name__}; give a dict, {{name: table}}"
        )
    compared = _comparisons(list(tables), reference)
    model = as_model(model)
    options, wanted = model.model_options(), model.assessment(journal)
    _check_options(options, wanted, tables)
    reduced = any(isinstance(table, Moments) for table in tables.values())
    if reduced:
        pipeline.refuse_rows(options, wanted)
    covariates = covariates_of_moments(**model.alignment()) if reduced else []
    notes: list[str] = []
    shared = options.method == "order"
    if not shared and len(compared) > 1:
        notes.append(NO_SHARED_ORDER)
    chosen = {"columns": columns, "drop": drop, "levels": levels}
    parts, left_out = _align(dict(tables), compared, {**chosen, **model.alignment()}, covariates)
    notes += left_out
    folders = folder_names(compared)
    with one_blas_thread(), progress_callback(progress, ESTIMATING) as callback:
        steps = []
        for pair, data in parts.items():
            asked = pipeline.suited(wanted, options, data if isinstance(data, Tables) else None)
            if wanted.journal is not None:
                asked = replace(asked, journal=Path(wanted.journal) / folders[pair])
            if isinstance(data, Tables):
                steps.append(_Comparison(pair, data, pipeline.prepare(data, options, callback), asked))
            else:
                prepared = pipeline.prepare_moments(*data, options, pair, covariates)
                steps.append(_Comparison(pair, None, prepared, asked))
        order: tuple[str, ...] = ()
        if shared:
            for step in steps:
                if step.tables is not None:
                    pipeline.check_journals(step.tables, options, step.wanted, searched=len(steps) > 1)
            steps, order = _search(steps, options, callback)
        pairs = {}
        with show_progress(callback if len(steps) > 1 else None, "Comparisons", len(steps)) as advance:
            for step in steps:
                pairs[step.labels] = step.result(options, callback)
                advance()
    if any(GIVEN_THE_ORDER in one.notes for one in pairs.values()):
        notes.append(GIVEN_THE_ORDER)
    return ConditionsResult(tuple(tables), reference, pairs, order, tuple(notes))


def _check_options(options: ModelOptions, wanted: Assessment, tables: Mapping[str, Any]) -> None:
    """Refuse what does not go with these conditions, as far as the values of the tables do not matter."""
    if len(tables) > 2 and isinstance(options.effective_samples, (tuple, list)):
        raise InputError(
            named("effective_samples"),
            f" is a pair and there are {len(tables)} conditions; give one number, or 'auto'",
        )
    if wanted.intervals is not None:
        raise InputError("split intervals are for two conditions; leave them out")


def _comparisons(names: list[str], reference: str | None) -> list[Pair]:
    """Who is compared with whom."""
    if any(not isinstance(name, str) for name in names):
        raise InputError("the names of the conditions must be texts")
    if len(names) < 2:
        raise InputError(f"there {'is one condition' if names else 'are no conditions'}; give at least two")
    if reference is None:
        return list(itertools.combinations(names, 2))
    if not isinstance(reference, str) or reference not in names:
        raise InputError(named("reference"), f" '{reference}' is not a condition; they are {join_names(names)}")
    return [(reference, name) for name in names if name != reference]


def _align(
    tables: dict[str, Any],
    compared: list[Pair],
    choice: dict[str, Any],
    covariates: Sequence[str],
) -> tuple[dict[Pair, Tables | tuple[Moments, Moments]], list[str]]:
    """The tables, or the moments, of each comparison, all over the same variables, and notes on the others."""
    reduced = [isinstance(table, Moments) for table in tables.values()]
    if any(reduced) and not all(reduced):
        raise InputError("some conditions are moments and some are tables; give all in the same form")
    start, *others = dict.fromkeys(name for pair in compared for name in pair)
    aligned: dict[str, Any] = {}
    if all(reduced):
        for name in others:
            one, two = choose(tables[start], tables[name], choice["columns"], choice["drop"], covariates)
            check_same_columns(one.column_names(), two.column_names(), (start, name))
            aligned |= {start: one, name: two.select(one.column_names())}
        return {(a, b): (aligned[a], aligned[b]) for a, b in compared}, []
    parts = {(a, b): align_tables(tables[a], tables[b], **choice, labels=(a, b)) for a, b in compared}
    every = dict.fromkeys(name for both in parts.values() for name in both.names)
    names = [name for name in every if all(name in both.names for both in parts.values())]
    if len(names) < 2:
        raise InputError(
            f"the conditions share {plural(len(names), 'column')} that can be compared in all of them; leave "
            "out conditions in which columns do not vary"
        )
    lost = [name for name in every if name not in names]
    notes = []
    if lost:
        were = "was" if len(lost) == 1 else "were"
        notes.append(f"{join_names(lost)} cannot be compared in all conditions and {were} left out of all")
    return {pair: both.select(names) for pair, both in parts.items()}, notes


@dataclass(frozen=True, eq=False)
class _Comparison:
    """One comparison on its way through the pipeline."""

    labels: Pair
    tables: Tables | None  # None where only moments are known
    prepared: Prepared
    wanted: Assessment
    optimum: Optimum | None = None  # of the common search
    along: tuple[str, ...] = ()  # the common order, if resamples have to keep to it

    @property
    def rows(self) -> dict[str, int]:
        """Rows of both conditions."""
        return dict(zip(self.labels, (self.prepared.first.n, self.prepared.second.n), strict=True))

    def most(self, options: ModelOptions) -> int:
        """So many variables can be ordered with the rows of this comparison."""
        return options.most_variables(self.prepared.first.n, self.prepared.second.n)

    def keeping(self, screened: Screened, options: ModelOptions) -> _Comparison:
        """The comparison over some of its variables."""
        if self.tables is None:
            return replace(self, prepared=self.prepared.keeping(screened))
        first, second = pipeline.moments_of(self.tables, options, screened.members)
        return replace(self, prepared=replace(self.prepared, first=first, second=second, screened=screened))

    def controlled(self, options: ModelOptions, callback: ProgressCallback | None) -> _Comparison:
        """The comparison with penalties that fits to random halves bear out, where these are asked for."""
        if self.tables is None:
            return self
        prepared = pipeline.controlled(self.prepared, self.tables, options, self.wanted, callback)
        return replace(self, prepared=prepared)

    def result(self, options: ModelOptions, callback: ProgressCallback | None) -> DifferenceResult:
        """The result, along the common order if there is one, with all that `fit` adds to it."""
        fit = pipeline.search(self.prepared, options, callback, optimum=self.optimum)
        if self.tables is None:
            found = pipeline.assess_moments(fit, self.prepared)
        else:
            tables, wanted, along = self.tables, self.wanted, self.along
            found = pipeline.assess(fit, self.prepared, tables, options, wanted, callback, along=along)
            if along and found.stability is not None:
                found = replace(found, notes=(*found.notes, GIVEN_THE_ORDER))
        return DifferenceResult.of(replace(found, labels=self.labels))


def _search(
    steps: list[_Comparison], options: ModelOptions, callback: ProgressCallback | None
) -> tuple[list[_Comparison], tuple[str, ...]]:
    """Search for the order that suits all comparisons, and give it to each."""
    steps = _screen(steps, options, callback)
    for step in steps:
        pipeline.validate(step.prepared, step.labels)
    steps = [step.controlled(options, callback) for step in steps]
    settings, problems = options.order_settings(callback), []
    for step in steps:
        first, second, names = step.prepared.first, step.prepared.second, step.prepared.names
        before = step.prepared.before([names.index(name) for name in first.names])
        own = replace(settings, inflation=pipeline.inflation_of(step.prepared, options))
        problems.append(own.problem(first, second, before, len(names)))
    optima = search_jointly(problems, settings.rng, settings.jobs, settings.progress)
    order = tuple(steps[0].prepared.first.names[k] for k in optima[0].best.order)
    along = order if len(steps) > 1 and options.order is None else ()
    both = zip(steps, optima, strict=True)
    return [replace(step, optimum=optimum, along=along) for step, optimum in both], order


def _screen(
    steps: list[_Comparison], options: ModelOptions, callback: ProgressCallback | None
) -> list[_Comparison]:
    """Where all variables are too many, keep what most seems to take part in some comparison."""
    names = steps[0].prepared.names
    if not any(step.prepared.screened or len(names) > step.most(options) for step in steps):
        return steps
    _refuse_small(steps, options)
    ranked = [
        step.prepared.screened or pipeline.screen_moments(step.prepared, step.most(options), callback)
        for step in steps
    ]
    turns = itertools.chain.from_iterable(itertools.zip_longest(*(own.ranked for own in ranked)))
    union = [k for k in dict.fromkeys(turns) if k is not None]
    chosen = tuple(union[: min(step.most(options) for step in steps)])
    return [
        step.keeping(replace(own, ranked=chosen, blocks=()), options)
        for step, own in zip(steps, ranked, strict=True)
    ]


def _refuse_small(steps: list[_Comparison], options: ModelOptions) -> None:
    """Refuse conditions with so few rows that all comparisons would lose variables that others can order."""
    p = len(steps[0].prepared.names)
    wanted = min(p, options.max_variables or p)
    short = [step for step in steps if step.most(options) < wanted]
    if len(short) == len(steps):
        return
    rows = {label: n for step in short for label, n in step.rows.items()}
    small = {label: n for label, n in rows.items() if options.most_variables(n, n) < wanted}
    if small:
        most = min(step.most(options) for step in short)
        has = ", ".join(f"'{label}' has {plural(n, 'row')}" for label, n in small.items())
        needed = math.ceil(ROWS_PER_VARIABLE * wanted)
        raise InputError(
            f"{has}, and ordering {wanted} variables, as others can, takes {needed} in each condition; "
            f"leave it out, or order at most {most} variables in all comparisons ",
            using(Option("max_variables", most)),
        )
