"""Frames in, two aligned tables of numbers out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from diffdag._base.arrays import FloatArray, IndexArray
from diffdag._base.errors import InputError, Problem, raise_problems
from diffdag._base.words import Option, Part, join_names, named, plural, table_words, using
from diffdag.tables.adjust import Filled, Taken, fill_in, take_out
from diffdag.tables.coding import Levels
from diffdag.tables.columns import CellSource
from diffdag.tables.degenerate import dependent_columns, find_extreme_scales
from diffdag.tables.design import (
    Design,
    Labels,
    check_no_hidden_column,
    design_columns,
    make_design,
    read_labels,
    split_hidden,
)
from diffdag.tables.inspect import Inspection, inspect_columns, measure
from diffdag.tables.nesting import Nesting, find_nesting
from diffdag.tables.problems import (
    LEAST_ROWS,
    Missing,
    check_missing_option,
    few_condition,
    find_counts,
    find_dependent,
    find_few,
    find_useless,
)
from diffdag.tables.readers.h5ad import shared_genes
from diffdag.tables.sorting import Sorted, Switched, find_transposed, notes_of, refused, sort_columns
from diffdag.tables.whiten import Filter, Whitening, check_whiten, make_filter

Places = tuple[IndexArray | None, IndexArray | None]

_WIDEST = 500  # columns, and products, up to which linear dependence is looked for once there is an error
_EFFORT = 1e10
_WHICH = ("first", "second")
EXPLAINED = 1e-9  # share of its spread below which nothing is left of a column
_APART = {"row-labels", "no-name", "unmatched"}  # faults of columns that the tables do not share


@dataclass(frozen=True, eq=False)
class Tables:
    """Two tables over the same variables in the same order, all values finite, but for gaps where these are to
    be filled.

    The arrays are read-only, and possibly views of what the caller passed in.
    """

    first: FloatArray
    second: FloatArray
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()  # what was done on the way in, one sentence each
    places: Places = (None, None)  # where the rows stood, counted from 0; None where all are there
    design: Design | None = None  # covariates and units, still to be taken out; None if there are none
    gaps: bool = False  # whether values may be missing, still to be filled
    filled: Filled | None = None  # how the gaps of tables were filled of which these hold some rows
    taken: Taken | None = None  # what taking them out cost, where that was done
    switched: tuple[Switched, ...] = ()  # columns that vary in one condition only, and are not compared
    nesting: tuple[Nesting, ...] = ()  # columns in whose values rows may be nested, too
    few: int | None = None  # which table, 0 or 1, has so few rows that only means are compared; None for none
    whitened: Filter | None = None  # what the memory of rows was taken out with; None if it was not

    @cached_property
    def adjusted(self) -> Tables:
        """The rows that are compared: gaps are filled, covariates and differences between units taken out."""
        if self.design is None and not self.gaps:
            return self
        design = self.design or Design.none(len(self.first), len(self.second))
        rows = self.first, self.second
        (first, second), taken = fill_in(rows, design, self.filled) if self.gaps else take_out(rows, design)
        for array in (first, second):
            array.flags.writeable = False
        return replace(self, first=first, second=second, design=None, gaps=False, taken=taken)

    def check_left(self) -> None:
        """Refuse columns of which nothing is left once covariates and units are taken out."""
        if self.design is None:
            return
        flat = np.zeros(len(self.names), bool)
        for before, after in ((self.first, self.adjusted.first), (self.second, self.adjusted.second)):
            flat |= after.std(axis=0) <= EXPLAINED * np.nanstd(before, axis=0)
        names = [self.names[k] for k in np.flatnonzero(flat)]
        raise_problems(_find_explained(names, self.design.cluster, self.design.adjust))

    @property
    def known_gaps(self) -> Filled | None:
        """How the gaps were filled; None if there are none."""
        taken = self.adjusted.taken if self.gaps else None
        return None if taken is None else taken.filled

    def select(self, names: Sequence[str]) -> Tables:
        """The tables with some of the columns, in the order given."""
        if tuple(names) == self.names:
            return self
        columns = [self.names.index(name) for name in names]
        first, second = self.first[:, columns], self.second[:, columns]
        return replace(self, first=first, second=second, names=tuple(names), filled=None)

    def take(self, first: IndexArray, second: IndexArray, design: Design | None = None) -> Tables:
        """Some rows of either table, by number; `design` where theirs is not just that of those rows."""
        one, two = self.places
        places = first if one is None else one[first], second if two is None else two[second]
        own = design or (None if self.design is None else self.design.take(first, second))
        return replace(
            self,
            first=self.first[first],
            second=self.second[second],
            places=places,
            design=own,
            filled=self.known_gaps,
        )

    def whiten(self, how: Whitening) -> Tables:
        """The tables without the memory of their rows, each by itself; the filter is made for the first.

        Rows that do not have enough others right before them are lost. Columns of which nothing is left are
        left out with a note.
        """
        if self.gaps or (self.design is not None and self.design.cluster):
            raise InputError(*_not_whitened(self.gaps))
        made = make_filter(how, self.first, self.second, self.names, alike=self.design is not None)
        notes = (*self.notes, made.note)
        if not made.order:
            return replace(self, whitened=made, notes=notes)
        one, two = (
            _following(made, self.places[k], table, _WHICH[k], 1 if k == self.few else LEAST_ROWS)
            for k, table in enumerate((self.first, self.second))
        )
        first, second = made.apply(self.first, one), made.apply(self.second, two)
        design, unseen = None, None if made.sees_levels else Taken((0, 0), (0.0, 0.0))
        if self.design is not None:
            z1, z2 = self.design.covariates
            both = made.apply_common(z1, one), made.apply_common(z2, two)
            compared = self.design.compared and made.sees_levels
            design, unseen = replace(self.design.take(one, two), covariates=both, compared=compared), None
        flat = np.zeros(len(self.names), bool)
        for k, (before, after) in enumerate(((self.first, first), (self.second, second))):
            if k != self.few:
                flat |= after.std(axis=0) <= EXPLAINED * before.std(axis=0)
            after.flags.writeable = False
        parts: dict[str, Any] = {"first": first, "second": second, "taken": unseen, "whitened": made}
        white = replace(self.take(one, two, design), **parts)
        out = [name for name, gone in zip(self.names, flat, strict=True) if gone]
        if len(out) > len(self.names) - 2:
            less = f"{_gone_words(out)}, and fewer than two columns are left; leave "
            raise InputError(less, named("whiten"), " out")
        if out:
            white = white.select([name for name in self.names if name not in out])
            notes = (*notes, f"{_gone_words(out)}: left out")
        return replace(white, notes=notes)

    def halves(self, which: int, first: IndexArray, second: IndexArray) -> Tables:
        """Some rows of one of the tables as the first, and others of it as the second."""
        table = (self.first, self.second)[which]
        own = None if self.design is None else self.design.half(which, first, second)
        known = self.known_gaps
        return replace(
            self,
            first=table[first],
            second=table[second],
            places=(None, None),
            notes=(),
            design=own,
            filled=None if known is None else (known[which], known[which]),
            switched=(),
        )


def _following(
    made: Filter, places: IndexArray | None, table: FloatArray, label: str, least: int
) -> IndexArray:
    """The rows of a table that can be filtered; fewer than so many are refused."""
    rows = made.following(places, len(table))
    if len(rows) < least:
        raise InputError(
            f"{plural(len(rows), 'row')} of {len(table)} in the {label} table "
            f"{'has' if len(rows) == 1 else 'have'} {plural(made.order, 'row')} right before, and at least "
            f"{least} {'is' if least == 1 else 'are'} needed to whiten it; bring more rows, or use ",
            Option("effective_samples", "auto"),
            " in place of ",
            named("whiten"),
        )
    return rows


def _gone_words(names: Sequence[str]) -> str:
    """Say of which columns nothing is left."""
    do = "does" if len(names) == 1 else "do"
    return f"{join_names(names)} {do} not vary once the memory of rows is taken out"


def _check_whiten(whiten: object, cluster: object) -> None:
    """Refuse to whiten in a way that is not known, or rows that are nested."""
    check_whiten(whiten)
    if whiten is not None and cluster is not None:
        raise InputError(*_not_whitened(gaps=False))


def _whitened(tables: Tables, whiten: Whitening | None) -> Tables:
    return tables if whiten is None else tables.whiten(whiten)


def _not_whitened(gaps: bool) -> tuple[Part, ...]:
    """Words about tables whose rows are not whitened."""
    name = named("whiten")
    if gaps:
        needs = " needs values without gaps; leave rows with gaps out "
        return name, needs, using(Option("missing", "drop")), ", or leave ", name, " out"
    said = "errors are those between units, whatever rows of one have in common; leave "
    return said, name, " out where ", named("cluster"), " is given"


def align_tables(
    first: Any,
    second: Any,
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    levels: Levels | None = None,
    missing: Missing = "error",
    adjust: Sequence[str] | int | None = None,
    cluster: str | None = None,
    whiten: Whitening | None = None,
    labels: tuple[str, str] = ("first", "second"),
    few: bool = False,
) -> Tables:
    """Match two tables by column name and check that they can be used.

    NumPy arrays have columns X1, ..., Xp, matched by position; columns of pandas, polars or Arrow tables are
    matched by name and kept in the order of the first. One of each is an error: the names of the array would
    be a guess. A first column without a name, as R and pandas write row labels, is left out with a note. Of
    AnnData objects, ``X`` is used, one column per gene; genes that do not vary in both are left out with a
    note unless `columns` names them. Columns that are constant or nearly so in both, count rows, hold times or
    text are left out with a note, those that vary in one table only are `switched`; text with two different
    values is coded 0 and 1, and that with `levels`, by column and lowest first, from 0 on. `columns` are the
    variables to compare, in this order, and `drop` those to leave out; each has to be in at least one table.
    `adjust` are covariates to take out of all variables, numbers or categories, and `cluster` names what rows
    are nested in; ``"hidden"`` among the covariates, or a number in their place, asks for hidden causes of many
    variables to be taken out (see `diffdag.tables.hidden`). Covariates are no variables, and rows in which they
    are missing cannot be used; columns that do not vary within units are left out with a note. `whiten` takes
    the memory of rows out (see `Tables.whiten`);
    rows then stand in the order of time. `missing` "drop" leaves out the rows with missing values and
    notes how many. `labels` are what messages call the tables, unless these know their files or groups. `few`
    allows one of them to have few rows, down to one: see `Tables.few`.

    All that is wrong is said in one `InputError`: names that are repeated or differ, values that are not
    numeric, missing or infinite, fewer than 3 rows or 2 columns; columns named in `columns` that are constant.
    Collinearity shows in the moments: see `diffdag.tables.degenerate.check_moments`.

    >>> import pandas as pd
    >>> a = pd.DataFrame({"x": [1, 2, 4], "y": [0.5, 0.1, 0.2]})
    >>> b = pd.DataFrame({"y": [1.0, 2.0, 0.0], "x": [3, 2, 1]})
    >>> align_tables(a, b).second[0]
    array([3., 1.])
    """
    check_missing_option(missing)
    _check_whiten(whiten, cluster)
    named_ones, hidden, wanted = split_hidden(adjust)
    if hidden:
        _check_hidden(cluster, whiten, missing)
    chosen: dict[str, Any] = {"columns": columns, "drop": drop, "levels": levels, "missing": missing}
    design: dict[str, Any] = {"adjust": named_ones, "cluster": cluster, "hidden": hidden}
    made = _align(first, second, **chosen, **design, whiten=whiten, labels=labels, few=few)
    return _without_hidden(made, wanted) if hidden else made


def _align(
    first: Any,
    second: Any,
    *,
    columns: Sequence[str] | None,
    drop: Sequence[str] | None,
    levels: Levels | None,
    missing: Missing,
    adjust: Sequence[str] | None,
    hidden: bool,
    cluster: str | None,
    whiten: Whitening | None,
    labels: tuple[str, str],
    few: bool,
) -> Tables:
    """Align two tables, with covariates that have names; see `align_tables`."""
    shared: list[str] = []
    by_name = columns is not None
    if columns is None:
        columns, shared = shared_genes((first, second), drop)
        drop = drop if columns is None else None
    beside = design_columns(adjust, cluster)
    adjust = None if adjust is None else list(adjust)
    chosen: dict[str, Any] = {"columns": columns, "drop": drop, "levels": levels}
    whole = seen = inspect_columns(first, second, **chosen, labels=labels, beside=beside)
    check_no_hidden_column(hidden, seen.sources)
    said = read_labels(seen.sources, adjust, cluster)
    sparse = few_condition(*map(len, seen.arrays)) if few else None
    seen, aside, useless = _sort_out(seen, by_name, sparse)
    rows = complete_rows(seen, said) if missing != "em" else _known_rows(seen, said)
    kept = [array if some is None else array[some] for array, some in zip(seen.arrays, rows, strict=True)]
    if missing == "drop" and any(some is not None for some in rows):  # what is left may not vary any more
        sparse = few_condition(*map(len, kept)) if few else None
        fewer, also, wrong = _sort_out(seen.at(kept), by_name, sparse)
        lost = set(seen.names) - set(fewer.names)
        seen, kept, aside, useless = seen.without(lost), list(fewer.arrays), aside.and_(also), useless + wrong
    found = seen.problems() + useless
    enough = sparse is not None or all(len(array) >= LEAST_ROWS for array in kept)
    found += _find_gaps(seen, kept, said, enough, whiten) if missing == "error" else []
    found += _find_flat_or_extreme(seen, kept, sparse) if enough else []
    shared_names = {report.name for report in seen.columns if not _APART.intersection(report.faults)}
    left = shared_names - {name for problem in found for name in problem.drop}
    if len(left) < 2:  # to leave out more would not help
        found = [replace(problem, remedies=()) if problem.drop else problem for problem in found]
    found += _find_few(seen, kept, len(left), missing) if sparse is None or len(left) < 2 else []
    if found:
        raise_problems(find_transposed(whole))
        found += _find_dependent(seen, kept, left) if sparse is None else []
        raise_problems(found, () if drop is None else map(str, drop))
    _check_design(sparse, kept, labels, adjust or hidden, cluster)
    nesting = () if sparse is not None else find_nesting(seen, aside.of("text"), said)
    notes = _label_notes(whole, labels) + shared + notes_of(aside, whole, labels, nesting)
    notes += (
        _unsorted_note(aside, whiten)
        + _counts_note(seen)
        + _dropped_notes(seen.arrays, kept, labels, beside if missing == "em" else ())
    )
    design = None
    if said is not None:
        design, own = make_design(said, (rows[0], rows[1]), labels)
        flat = _flat_within(seen, kept, design)
        if by_name or len(flat) > len(seen.names) - 2:
            raise_problems(_find_explained(flat, design.cluster), () if drop is None else map(str, drop))
        seen, kept = seen.without(flat), _without(seen, kept, flat)
        notes += [f"{_explained_words(flat, design.cluster)}: left out"] * bool(flat) + own
    for array in kept:
        array.flags.writeable = False
    gaps = _gap_note(kept) if missing == "em" else []
    more: dict[str, Any] = {"design": design, "switched": aside.switched, "nesting": nesting, "few": sparse}
    made = Tables(kept[0], kept[1], seen.names, (*notes, *gaps), (rows[0], rows[1]), gaps=bool(gaps), **more)
    return _whitened(made if by_name else _without_unit_numbers(made), whiten)


def _check_hidden(cluster: object, whiten: object, missing: Missing) -> None:
    """Refuse what hidden causes are not looked for with."""
    asked = {"cluster": cluster is not None, "whiten": whiten is not None, "missing": missing == "em"}
    for name in (name for name, own in asked.items() if own):
        raise InputError(
            "hidden causes are estimated from independent rows without gaps; leave 'hidden' out of ",
            named("adjust"),
            *((", or leave ", named(name), " out") if name != "cluster" else ()),
        )


def _without_hidden(tables: Tables, wanted: int | None) -> Tables:
    """The tables with hidden causes taken out of their rows, which are those at equal covariates."""
    from diffdag.tables.hidden import without_hidden  # noqa: PLC0415 - seldom used

    rows = tables.adjusted
    found = without_hidden(rows.first, rows.second, wanted)
    if not found.count:
        note = "no hidden cause of many variables was found, and none is taken out"
        return replace(tables, notes=(*tables.notes, note))
    were = "was" if found.count == 1 else "were"
    note = (
        f"{plural(found.count, 'hidden cause')} of many variables {were} taken out, with {found.share:.0%} of "
        "the variance within conditions"
    )
    first, second = (
        own + (after - before)
        for own, after, before in zip(
            (tables.first, tables.second), found.rows, (rows.first, rows.second), strict=True
        )
    )
    for array in (first, second):
        array.flags.writeable = False
    design = tables.design or Design.none(len(first), len(second))
    design = replace(design, hidden=found.count, leverage=found.leverage)
    return replace(tables, first=first, second=second, design=design, notes=(*tables.notes, note))


def _without_unit_numbers(tables: Tables) -> Tables:
    """The tables without columns that number what rows look nested in: no measurement, as text would be."""
    out = [own.name for own in tables.nesting if own.looks_nested and own.name in tables.names]
    left = [name for name in tables.names if name not in out]
    if not out or len(left) < 2:
        return tables
    numbers = "numbers" if len(out) == 1 else "number"
    (remedy,) = (own.remedy for own in tables.nesting if own.name == out[0])
    note = (
        f"{join_names(out)} {numbers} what rows look nested in: left out; {remedy}, and the option 'columns' "
        "compares it all the same"
    )
    return replace(tables.select(left), notes=(*tables.notes, note))


def _flat_within(seen: Inspection, kept: Sequence[FloatArray], design: Design) -> list[str]:
    """Columns that do not vary within the units of a condition, such as the sex of donors."""
    if design.members is None or design.single:
        return []
    flat = np.zeros(len(seen.names), bool)
    for array, members in zip(kept, design.members, strict=True):
        order = np.argsort(members, kind="stable")
        starts = np.flatnonzero(np.diff(members[order], prepend=-1))
        low, high = (own.reduceat(array[order], starts) for own in (np.fmin, np.fmax))
        flat |= ~(high > low).any(axis=0)
    return [name for name, own in zip(seen.names, flat, strict=True) if own]


def _without(seen: Inspection, arrays: Sequence[FloatArray], names: Sequence[str]) -> list[FloatArray]:
    """Arrays over the columns that were seen, without some of them."""
    rest = [k for k, name in enumerate(seen.names) if name not in names]
    return [array[:, rest] for array in arrays] if names else list(arrays)


def _find_explained(names: Sequence[str], cluster: str, adjust: Sequence[str] = ()) -> list[Problem]:
    """Columns of which nothing is left once differences between units, and covariates, are taken out."""
    what = _explained_words(names, cluster, adjust)
    return [Problem("constant", what, tuple(names), (Option("drop", tuple(names)),))] if names else []


def _explained_words(names: Sequence[str], cluster: str, adjust: Sequence[str] = ()) -> str:
    where = [
        *([f"within '{cluster}'"] if cluster else []),
        *([f"at equal {join_names(adjust)}"] if adjust else []),
    ]
    return f"{join_names(names)} {'does' if len(names) == 1 else 'do'} not vary {' and '.join(where)}"


def _gap_note(kept: Sequence[FloatArray]) -> list[str]:
    """Say how many values are missing, if any are, and when it is right to estimate from the others."""
    shares = [float(np.isnan(array).mean()) for array in kept]
    if not any(shares):
        return []
    one, two = (f"{share:.1%}" for share in shares)
    return [
        f"{one} and {two} of the values are missing; means and covariances are estimated from all that was "
        "observed, which is right if gaps depend on nothing but observed values"
    ]


def _find_gaps(
    seen: Inspection, kept: Sequence[FloatArray], said: Labels | None, droppable: bool, whiten: object
) -> list[Problem]:
    """Missing values, where they are an error, and how many rows it would cost to drop them."""
    costs = [len(before) - len(after) for before, after in zip(seen.arrays, kept, strict=True)]
    sizes = [len(array) for array in seen.arrays]
    found = find_counts("missing", _gaps(seen, said), droppable=droppable, lost=costs, rows=sizes)
    return found if whiten is None else [replace(own, remedies=own.remedies[:droppable]) for own in found]


def _check_design(
    few: int | None,
    kept: Sequence[FloatArray],
    labels: tuple[str, str],
    adjust: object,
    cluster: str | None,
) -> None:
    """Refuse what cannot be taken out of a few rows, or filled in there."""
    if few is None:
        return
    said = f"{table_words(labels[few])} has {plural(len(kept[few]), 'row')}, of which only means are compared; "
    for name, value in (("adjust", adjust), ("cluster", cluster)):
        if value:
            raise InputError(
                said, "leave ", Option(name, bare=True), " out: take out what it stands for beforehand"
            )
    if any(np.isnan(array).any() for array in kept):
        raise InputError(said, "gaps cannot be filled then; drop rows or columns with missing values")


def _sort_out(
    seen: Inspection, named: bool, few: int | None = None
) -> tuple[Inspection, Sorted, list[Problem]]:
    """The columns to compare, those that are not, and what is wrong if these are needed.

    They are needed if they were asked for by name, and if too few are left without them.
    """
    aside = sort_columns(seen, few)
    out = {*aside.aside, *(own.variable for own in aside.switched)}
    few = sum(name not in out for name in seen.names) < 2
    wrong = out if few else set(aside.aside) if named else set()
    texts = {name for name in wrong if name in seen.texts and seen.texts[name].numbers is None}
    told = wrong - texts
    order = [report.name for report in seen.columns if report.name in told]
    return seen.without(out - texts), aside, refused(aside, order, seen.labels)


def complete_rows(seen: Inspection, said: Labels | None) -> list[IndexArray | None]:
    """Find the rows without missing values, None for all; columns that are empty in a table do not count."""
    empty = [found.gaps == len(array) for found, array in zip(seen.measures, seen.arrays, strict=True)]
    some = ~(empty[0] | empty[1])
    lacking = [np.zeros(len(array), bool) for array in seen.arrays] if said is None else said.gaps
    return [
        np.flatnonzero(~((np.isnan(array) & some).any(axis=1) | gaps))
        if found.gaps.any() or gaps.any()
        else None
        for array, found, gaps in zip(seen.arrays, seen.measures, lacking, strict=True)
    ]


def _known_rows(seen: Inspection, said: Labels | None) -> list[IndexArray | None]:
    """Which rows have any value, and all of their covariates and units; None for all."""
    lacking = [np.zeros(len(array), bool) for array in seen.arrays] if said is None else said.gaps
    out = [
        gaps | np.isnan(array).all(axis=1) if found.gaps.any() else gaps
        for array, found, gaps in zip(seen.arrays, seen.measures, lacking, strict=True)
    ]
    return [np.flatnonzero(~own) if own.any() else None for own in out]


def _gaps(seen: Inspection, said: Labels | None) -> list[tuple[str, dict[str, int]]]:
    """How many values of each column are missing, of covariates and units, too."""
    counts = seen.counts("gaps")
    if said is None:
        return counts
    every = {**said.adjust, **({said.cluster: said.units} if said.cluster else {})}
    for k, (_, own) in enumerate(counts):
        own.update({name: gaps for name, values in every.items() if (gaps := values[k].count(None))})
    return counts


def _find_flat_or_extreme(seen: Inspection, kept: list[FloatArray], few: int | None) -> list[Problem]:
    """Columns that do not vary, or vary too much or too little, within the rows that are left.

    Whether they do in the table with `few` rows does not matter.
    """
    spreads = [
        (known if array is whole else measure(array)).spread
        for array, whole, known in zip(kept, seen.arrays, seen.measures, strict=True)
    ]
    if few is not None:
        spreads[few] = np.ones(len(seen.names))
    constant = [[seen.names[k] for k in np.flatnonzero(spread == 0)] for spread in spreads]
    found = find_useless("constant", constant, seen.labels)
    return found + find_extreme_scales(seen.names, spreads, seen.labels)


def _find_few(seen: Inspection, kept: list[FloatArray], columns: int, missing: Missing) -> list[Problem]:
    """Whether too few columns or rows are left."""
    found: list[Problem] = [] if columns > 1 else find_few(LEAST_ROWS, columns, seen.labels[0])
    for before, after, label in zip(seen.arrays, kept, seen.labels, strict=True):
        dropped = missing != "error" and len(after) < len(before)
        rows = "without missing values" if dropped and missing == "drop" else "of data"
        found += find_few(len(after if dropped else before), 2, label, rows)
    return found


def _find_dependent(seen: Inspection, arrays: list[FloatArray], left: set[str]) -> list[Problem]:
    """Dependent columns among those that are left, looked for here only if there are other problems to tell."""
    places = [k for k, name in enumerate(seen.names) if name in left]
    p, n = len(places), [len(array) for array in arrays]
    if not 2 <= p <= _WIDEST or min(n) < LEAST_ROWS or max(n) * p**2 > _EFFORT:
        return []
    sets = []
    for array in arrays:
        table = array[:, places]
        if not np.isfinite(table).all():
            return []
        table = table / np.abs(table).max(axis=0)  # units do not matter here, and squares could overflow
        centred = table - table.mean(axis=0)
        sets.append([seen.names[places[k]] for k in dependent_columns(len(table), centred.T @ centred)])
    return find_dependent(sets, seen.labels)


def _label_notes(seen: Inspection, labels: tuple[str, str]) -> list[str]:
    return [
        f"column '{name}' of the {label} table holds row labels and was left out"
        for names, label in zip(seen.at_fault("row-labels"), labels, strict=True)
        for name in sorted(names)
    ]


def _dropped_notes(
    before: Sequence[FloatArray], after: list[FloatArray], labels: tuple[str, str], of: Sequence[str]
) -> list[str]:
    """How many rows were dropped; `of` are the columns whose gaps cost rows, if not all."""
    what = f"values of {join_names(of)}" if of else "values"
    return [
        f"{len(array) - len(rest)} of {plural(len(array), 'row')} with missing {what} "
        f"{'was' if len(array) - len(rest) == 1 else 'were'} dropped from the {label} table"
        for array, rest, label in zip(before, after, labels, strict=True)
        if len(rest) < len(array)
    ]


def _unsorted_note(aside: Sorted, whiten: Whitening | None) -> list[str]:
    """Say that rows are filtered in an order that is not that of a column of times or dates."""
    names = aside.of("times") + aside.of("dates")
    if whiten is None or not names:
        return []
    return [
        f"memory is taken out of rows in the order in which they stand, and not of {join_names(names)}: "
        f"sort them by {'it' if len(names) == 1 else 'the one'} that says when they were taken"
    ]


def _counts_note(seen: Inspection) -> list[str]:
    """Say so where values of cells look like counts, whose variance grows with their mean."""
    pairs = zip(seen.sources, seen.arrays, strict=True)
    some = [array[:1000] for source, array in pairs if isinstance(source, CellSource)]
    if not any(array.size and np.array_equal(array, np.rint(array)) for array in some):
        return []
    return [
        "the values are whole numbers, as counts of molecules are; normalised and log-transformed values suit "
        "a linear model better"
    ]
