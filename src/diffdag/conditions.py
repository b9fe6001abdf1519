"""Several conditions at once: the steps are those for two, but one search finds one order for all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from diffdag.cells import shared_genes
from diffdag.conditions_result import ConditionsResult, folder_names
from diffdag.data import Places, Tables, align_tables
from diffdag.diagnostics import check_moments_only
from diffdag.estimator import DifferenceDAG
from diffdag.moments import Moments, check_comparable, choose
from diffdag.parallel import one_blas_thread
from diffdag.precision.problem import standardise
from diffdag.progress import Progress, Told, follow, show_progress
from diffdag.result import DifferenceResult
from diffdag.scatter import edge_scatters
from diffdag.validation import InputError, Missing, check_moments, check_same_columns, join_names, plural

if TYPE_CHECKING:
    from diffdag.ordersearch.answer import OrderSettings
    from diffdag.ordersearch.screen import Screened
    from diffdag.ordersearch.search import Optimum, Problem
    from diffdag.resampling import Workers
    from diffdag.trust import Wishes

Pair = tuple[str, str]
NO_SHARED_ORDER = (
    "method='paper' has no order to share: each comparison was made by itself; method='order' searches for one "
    "order for all of them"
)
GIVEN_THE_ORDER = (
    "confidence (and fdr=) is about the changes if the common order is right: resamples were fitted along it, "
    "so doubts about directions do not count"
)


def fit_conditions(
    tables: Mapping[str, Any],
    *,
    reference: str | None = None,
    model: DifferenceDAG | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    missing: Missing = "error",
    confidence: int | None = None,
    fdr: float | None = None,
    journal: str | Path | None = None,
    points: int | None = None,
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
        How to compare; the default one if left out. With more than two conditions `effective_samples` is one
        number for all, or ``"auto"``.
    columns, drop, missing
        As for `DifferenceDAG.fit`; with moments `missing` is not used.
    confidence, fdr : number, optional
        As for `DifferenceDAG.fit`; the model's own if left out. With more than one comparison resamples are
        fitted along the common order, and both are about the changes if it is right. Moments cannot be
        resampled.
    journal : path, optional
        A folder that keeps finished resamples, each comparison's in a folder of its own: an interrupted run
        continues.
    points : int, optional
        As for `DifferenceDAG.fit`.
    progress : bool or callable, optional
        As for `DifferenceDAG.fit`.

    Returns
    -------
    ConditionsResult
        One `DifferenceResult` a comparison. With two conditions it is that of `DifferenceDAG.fit`.

    Notes
    -----
    The score of an order is the sum of its scores in all comparisons, so that each of them helps to direct the
    edges of the others: on four conditions of 10 variables with 341 rows each, F1 rises from 0.92 to 0.95
    (benchmarks/conditions.py). Every comparison pays the same for a change as it would by itself. Without any
    change, 2 to 3 % of data sets of four conditions give an edge in some comparison with a reference, and
    3 to 6 % if each is compared with each; with nine conditions and a reference it is about 4 %. Where that is
    too much, give the model a larger `penalty`.

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
    parameters = _parameters(model, tables, confidence, fdr, journal, points)
    notes: list[str] = []
    if columns is None:
        columns, notes = shared_genes(list(tables.values()), drop)
        drop = drop if columns is None else None
    parts = _align(dict(tables), compared, columns, drop, missing)
    steps = {pair: _Comparison(**parameters).take(pair, *part) for pair, part in parts.items()}
    order: tuple[str, ...] = ()
    shared = parameters["method"] == "order"
    if not shared and len(compared) > 1:
        notes.append(NO_SHARED_ORDER)
    places = {
        pair: None if journal is None else Path(journal) / name for pair, name in folder_names(compared).items()
    }
    with one_blas_thread(), follow(progress, "Estimating the differences") as told:
        if shared:
            for pair, step in steps.items():
                step.check_journals(places[pair])
            order = _search(list(steps.values()), told)
        pairs = {}
        with show_progress(told if len(steps) > 1 else None, "Comparisons", len(steps)) as advance:
            for pair, step in steps.items():
                pairs[pair] = replace(step.finish(told, places[pair], points), labels=pair)
                advance()
    if any(GIVEN_THE_ORDER in one.notes for one in pairs.values()):
        notes.append(GIVEN_THE_ORDER)
    return ConditionsResult(tuple(tables), reference, pairs, order, tuple(notes))


def _parameters(
    model: DifferenceDAG | None,
    tables: Mapping[str, Any],
    confidence: int | None,
    fdr: float | None,
    journal: str | Path | None,
    points: int | None,
) -> dict[str, Any]:
    """How to compare, checked as far as the values of the tables do not matter."""
    parameters = (model or DifferenceDAG()).get_params()
    parameters |= {
        name: value for name, value in (("confidence", confidence), ("fdr", fdr)) if value is not None
    }
    DifferenceDAG(**parameters).check_parameters()
    from diffdag.trust import Plan  # noqa: PLC0415 - resamples are fitted by the estimator

    Plan.of(confidence=parameters["confidence"], fdr=parameters["fdr"], journal=journal, points=points)
    if len(tables) > 2 and isinstance(parameters["effective_samples"], (tuple, list)):
        raise InputError(
            f"effective_samples is a pair and there are {len(tables)} conditions; give one number, or 'auto'"
        )
    for name in ("confidence", "fdr"):
        if parameters[name] is not None and any(isinstance(table, Moments) for table in tables.values()):
            raise InputError(
                f"{name} needs rows to resample, and moments have none; give tables, or leave it out"
            )
    return parameters


def _comparisons(names: list[str], reference: str | None) -> list[Pair]:
    """Who is compared with whom."""
    if any(not isinstance(name, str) for name in names):
        raise InputError("the names of the conditions must be texts")
    if len(names) < 2:
        raise InputError(f"there {'is one condition' if names else 'are no conditions'}; give at least two")
    if reference is None:
        return list(itertools.combinations(names, 2))
    if reference not in names:
        raise InputError(f"reference '{reference}' is not a condition; they are {join_names(names)}")
    return [(reference, name) for name in names if name != reference]


def _align(
    tables: dict[str, Any],
    compared: list[Pair],
    columns: Sequence[str] | None,
    drop: Sequence[str] | None,
    missing: Missing,
) -> dict[Pair, tuple[Any, Any, tuple[str, ...], tuple[str, ...], Places]]:
    """First, second, names, notes and places of rows of each comparison, all over the same variables."""
    reduced = [isinstance(table, Moments) for table in tables.values()]
    if any(reduced) and not all(reduced):
        raise InputError("some conditions are moments and some are tables; give all in the same form")
    start, *others = dict.fromkeys(name for pair in compared for name in pair)
    aligned: dict[str, Any] = {}
    places: dict[str, Any] = {}
    notes: dict[str, dict[str, None]] = {name: {} for name in tables}
    names: tuple[str, ...] = ()
    for name in others:
        labels = (start, name)
        if all(reduced):
            one, two = choose(tables[start], tables[name], columns, drop)
            check_same_columns(one.names, two.names, labels)
            aligned |= {start: one, name: two.select(one.names)}
            names = one.names
        else:
            both = align_tables(
                tables[start], tables[name], columns=columns, drop=drop, missing=missing, labels=labels
            )
            aligned |= {start: both.first, name: both.second}
            places |= {start: both.places[0], name: both.places[1]}
            names = both.names
            for note in both.notes:
                notes[name if f" the {name} table" in note else start][note] = None
    return {
        (a, b): (aligned[a], aligned[b], names, (*notes[a], *notes[b]), (places.get(a), places.get(b)))
        for a, b in compared
    }


class _Comparison(DifferenceDAG):
    """One comparison in two steps, so that something can happen in between: the search for a common order."""

    labels: Pair
    names: tuple[str, ...]
    both: Any  # aligned tables, or two moments
    kept: Screened | None = None
    optimum: Optimum | None = None
    along: tuple[str, ...] = ()  # the common order, if resamples have to keep to it
    latest: tuple[tuple[int, ...] | None, tuple[Moments, Moments]] | None = None

    def take(
        self,
        labels: Pair,
        first: Any,
        second: Any,
        names: tuple[str, ...],
        notes: tuple[str, ...],
        places: Places,
    ) -> _Comparison:
        """Tables, or moments, over the same variables."""
        self.labels, self.names = labels, names
        reduced = isinstance(first, Moments)
        self.both = (first, second) if reduced else Tables(first, second, names, notes, places)
        return self

    def rank(self, progress: Told | None, *, always: bool = False) -> bool:
        """Choose which variables to keep, if all are too many; whether they are."""
        from diffdag.ordersearch.screen import screen, silent  # noqa: PLC0415

        if self.kept is None and isinstance(self.both, Tables):
            self.kept = super()._screen_rows(self.both, progress)
        if self.kept is None and (always or len(self.names) > self.most()):
            first, second = self.moments()
            self.kept = screen(standardise(first, second), first.n, second.n, progress or silent)
        return self.kept is not None

    def most(self) -> int:
        """So many variables can be ordered with the rows of this comparison."""
        first, second = self.moments()
        return self._most(first.n, second.n)

    def moments(self) -> tuple[Moments, Moments]:
        """Of the variables that are kept."""
        if isinstance(self.both, Tables):
            return self._moments(self.both, self.kept)
        chosen = [self.names[k] for k in self.members]
        return self.both[0].select(chosen), self.both[1].select(chosen)

    @property
    def members(self) -> Sequence[int]:
        """The variables that are kept."""
        return range(len(self.names)) if self.kept is None else self.kept.members

    def problem(self, settings: OrderSettings) -> Problem:
        """What is to be searched."""
        from diffdag.ordersearch.answer import problem_of  # noqa: PLC0415

        first, second = self.moments()
        for part, label in zip((first, second), self.labels, strict=True):
            check_moments(part.names, part.n, part.scatter, label, mean=part.mean)
        check_comparable(first, second, self.labels)
        known = self._knowledge(self.names)
        block = np.ix_(self.members, self.members)
        before = (
            np.zeros((len(self.members),) * 2, bool) if known is None else np.ascontiguousarray(known[block])
        )
        return problem_of(first, second, before, len(self.names), settings)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, and the common order: refits of these rows must not lose what the others know."""
        parameters = super().get_params(deep)
        if self.along:
            parameters["required"] = [*(self.required or ()), *itertools.pairwise(self.along)]
        return parameters

    def check_journals(self, journal: Path | None) -> None:
        """Refuse journals of other runs before the search."""
        if isinstance(self.both, Tables):
            from diffdag.trust import Plan, check_journals  # noqa: PLC0415

            plan = Plan.of(confidence=self.confidence, fdr=self.fdr, journal=journal)
            check_journals(self, self.both, plan, searched=True)

    def finish(self, told: Told | None, journal: Path | None, points: int | None) -> DifferenceResult:
        """The answer, along the common order if there is one, with all that `fit` adds to it."""
        if isinstance(self.both, Tables):
            from diffdag.trust import examine  # noqa: PLC0415

            wishes: Wishes = {"confidence": self.confidence, "fdr": self.fdr, "journal": journal}
            wishes["points"] = points
            workers: Workers = {"n_jobs": self.n_jobs, "client": None, "progress": told}
            result = examine(self, self.both, None, wishes, workers)
            conditional = bool(self.along) and result.stability is not None
            return replace(result, notes=(*result.notes, *[GIVEN_THE_ORDER] * conditional))
        known = self._knowledge(self.names)
        both = self.moments()
        result = self._fit_moments(self.names, *both, known, self.kept, (), told).result_
        return replace(result, checks=check_moments_only(*both, result), scatters=edge_scatters(result, *both))

    def _moments(self, tables: Tables, kept: Screened | None) -> tuple[Moments, Moments]:
        which = None if kept is None else tuple(kept.members)
        if self.latest is None or self.latest[0] != which:
            self.latest = which, super()._moments(tables, kept)
        return self.latest[1]

    def _screen_rows(self, tables: Tables, progress: Told | None) -> Screened | None:
        return super()._screen_rows(tables, progress) if self.kept is None else self.kept

    def _order_settings(self, progress: Told | None) -> OrderSettings:
        return replace(super()._order_settings(progress), optimum=self.optimum)


def _search(steps: list[_Comparison], progress: Told | None) -> tuple[str, ...]:
    """Search for the order that suits all comparisons, and give it to each."""
    from diffdag.ordersearch.joint import search_jointly  # noqa: PLC0415

    _screen(steps, progress)
    settings = steps[0]._order_settings(progress)
    problems = [step.problem(settings) for step in steps]
    optima = search_jointly(problems, settings.rng, settings.jobs, settings.progress)
    order = tuple(steps[0].names[steps[0].members[k]] for k in optima[0].best.order)
    for step, optimum in zip(steps, optima, strict=True):
        step.optimum = optimum
        step.along = order if len(steps) > 1 and step.order is None else ()
    return order


def _screen(steps: list[_Comparison], progress: Told | None) -> None:
    """Where all variables are too many, keep what most seems to take part in some comparison."""
    if not any([step.rank(progress) for step in steps]):  # noqa: C419 - all of them have to rank
        return
    _refuse_small(steps)
    for step in steps:
        step.rank(progress, always=True)
    ranked = [step.kept.ranked for step in steps if step.kept is not None]
    turns = itertools.chain.from_iterable(itertools.zip_longest(*ranked))
    union = [k for k in dict.fromkeys(turns) if k is not None]
    chosen = tuple(union[: min(step.most() for step in steps)])
    for step in steps:
        if step.kept is not None:
            step.kept = replace(step.kept, ranked=chosen)


def _refuse_small(steps: list[_Comparison]) -> None:
    """Refuse conditions with so few rows that all comparisons would lose variables that others can order."""
    from diffdag.ordersearch.screen import ROWS_PER_VARIABLE  # noqa: PLC0415

    wanted = min(len(steps[0].names), steps[0].screen or len(steps[0].names))
    short = [step for step in steps if step.most() < wanted]
    if len(short) == len(steps):
        return
    rows = {label: part.n for step in short for label, part in zip(step.labels, step.moments(), strict=True)}
    small = {label: n for label, n in rows.items() if steps[0]._most(n, n) < wanted}
    if small:
        most = min(step.most() for step in short)
        has = ", ".join(f"'{label}' has {plural(n, 'row')}" for label, n in small.items())
        needed = math.ceil(ROWS_PER_VARIABLE * wanted)
        raise InputError(
            f"{has}, and ordering {wanted} variables, as others can, takes {needed} in each condition; "
            "leave it out (--groups; or drop it from the dict), or order at most "
            f"{most} variables in all comparisons (screen={most}, --screen {most})"
        )
