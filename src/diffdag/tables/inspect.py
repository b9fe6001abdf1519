"""What two tables hold, column by column: which can be compared, and what is the matter with the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from diffdag._base.arrays import FloatArray, IntArray
from diffdag._base.checks import check_text, find_names
from diffdag._base.errors import InputError, Problem
from diffdag.tables.coding import Levels, TextColumn, check_levels, read_text
from diffdag.tables.columns import Source
from diffdag.tables.degenerate import is_extreme
from diffdag.tables.problems import (
    NonNumericColumn,
    check_column_names,
    find_counts,
    find_text,
    find_unmatched,
    find_useless,
)
from diffdag.tables.readers.provenance import origin_of


@dataclass(frozen=True)
class ColumnReport:
    """What is known of one column; pairs are for the first and the second table.

    Faults are the kinds of problems for which it cannot be compared, empty where there is none: "row-labels",
    "no-name", "unmatched" (the table lacks it), "duplicate-name", "text", "infinite", "empty", "constant" or
    "extreme-scale".
    """

    name: str
    faults: tuple[str, str] = ("", "")
    gaps: tuple[int, int] = (0, 0)  # how many values are missing
    infinite: tuple[int, int] = (0, 0)  # how many are infinite
    text: tuple[NonNumericColumn | None, NonNumericColumn | None] = (None, None)  # what is no number


@dataclass(frozen=True, eq=False)
class Inspection:
    """Reports on all columns of two tables, and the values of those that hold numbers in both."""

    sources: tuple[Source, Source]
    columns: tuple[ColumnReport, ...]  # all that are not left out by the user's choice
    names: tuple[str, ...]  # of those that hold numbers, as do arrays and measures
    arrays: tuple[FloatArray, FloatArray]
    measures: tuple[Measures, Measures]
    texts: dict[str, TextColumn] = field(default_factory=dict)  # of text; those with numbers are in `names`

    def without(self, names: Collection[str]) -> Inspection:
        """The inspection of the other columns."""
        if not names:
            return self
        kept = [k for k, name in enumerate(self.names) if name not in names]
        one, two = (array[:, kept] for array in self.arrays)
        before, after = (
            Measures(own.gaps[kept], own.infinite[kept], own.spread[kept]) for own in self.measures
        )
        return replace(
            self,
            columns=tuple(report for report in self.columns if report.name not in names),
            names=tuple(self.names[k] for k in kept),
            arrays=(one, two),
            measures=(before, after),
        )

    def at(self, arrays: Sequence[FloatArray]) -> Inspection:
        """The inspection of other rows of the same columns."""
        one, two = arrays
        return replace(self, arrays=(one, two), measures=(measure(one), measure(two)))

    @property
    def labels(self) -> tuple[str, str]:
        """What messages call the tables."""
        return self.sources[0].label, self.sources[1].label

    def at_fault(self, fault: str) -> tuple[list[str], list[str]]:
        """The columns with a fault, by table."""
        one, two = ([report.name for report in self.columns if report.faults[k] == fault] for k in (0, 1))
        return one, two

    def problems(self) -> list[Problem]:
        """What stands in the way of a comparison, whatever is done about rows with missing values."""
        wanted = {report.name for report in self.columns if "row-labels" not in report.faults}
        found = []
        for source in self.sources:
            found += find_names(source.names, source.label, wanted)
        found += find_unmatched(self.at_fault("unmatched"), self.labels)
        found += find_text([text for k in (0, 1) for report in self.columns if (text := report.text[k])])
        found += find_counts("infinite", self.counts("infinite"))
        return found + find_useless("empty", self.at_fault("empty"), self.labels)

    def counts(self, what: str) -> list[tuple[str, dict[str, int]]]:
        """How often each column of each table has gaps, or infinite values, where it has; empty ones aside."""
        reports = [report for report in self.columns if "empty" not in report.faults]
        return [
            (label, {report.name: count for report in reports if (count := getattr(report, what)[k])})
            for k, label in enumerate(self.labels)
        ]


class Measures(NamedTuple):
    """Of each column of an array: missing and infinite values, and from the smallest value to the largest."""

    gaps: IntArray
    infinite: IntArray
    spread: FloatArray  # NaN where a value is infinite, or all are missing


def measure(array: FloatArray) -> Measures:
    """Measure each column; sound data cost two passes."""
    n, p = array.shape
    gaps, infinite = np.zeros(p, np.int64), np.zeros(p, np.int64)
    if not n:
        return Measures(gaps, infinite, np.full(p, np.nan))
    low, high = array.min(axis=0), array.max(axis=0)
    if np.isnan(low).any():
        gaps = np.isnan(array).sum(axis=0)
        low, high = np.fmin.reduce(array), np.fmax.reduce(array)
    unbounded = np.isinf(low) | np.isinf(high)
    infinite[unbounded] = np.isinf(array[:, unbounded]).sum(axis=0)
    with np.errstate(over="ignore"):
        return Measures(gaps, infinite, np.where(unbounded, np.nan, high) - np.where(unbounded, np.nan, low))


def inspect_columns(
    first: Any,
    second: Any,
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    labels: tuple[str, str] = ("first", "second"),
    beside: Sequence[str] = (),
    levels: Levels | None = None,
) -> Inspection:
    """Look at every column of two tables, which `align_tables` and the page do before anything else.

    Parameters are those of `diffdag.tables.align.align_tables`; columns `beside` the variables, covariates and
    what rows are nested in, are not looked at. Only what is no table, and a choice of columns
    that is none, is refused; all else is reported. Text with two different values, or with known `levels`, is
    taken for numbers.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"x": [1, 2, 4], "day": ["Mo", "Tu", "We"]})
    >>> seen = inspect_columns(table, table.assign(x=3))
    >>> [(report.name, report.faults) for report in seen.columns]
    [('x', ('', 'constant')), ('day', ('text', 'text'))]
    """
    one, two = (Source.of(table, label) for table, label in zip((first, second), labels, strict=True))
    if one.named != two.named:
        raise InputError(
            "one table has column names and the other is an array without; give two arrays or two tables"
        )
    sources = _called(one, two)
    reports = _match(sources, columns, drop, beside)
    known = check_levels(levels, [source.names for source in sources])
    sound = [name for name, report in reports.items() if not any(report.faults)]
    before, after = ({column.name: column for column in source.unfit(sound)} for source in sources)
    texts = {}
    for name in {**before, **after, **{name: None for name in sound if name in known}}:
        found = read_text(name, sources, known.get(name))
        if found is not None:
            texts[name] = found
        if found is None or found.numbers is None:
            kinds = ("text" if name in before else "", "text" if name in after else "")
            reports[name] = ColumnReport(name, kinds, text=(before.get(name), after.get(name)))
    coded = {name: text.numbers for name, text in texts.items() if text.numbers is not None}
    names = tuple(name for name in sound if name in coded or (name not in before and name not in after))
    arrays = _values(sources[0], names, coded, 0), _values(sources[1], names, coded, 1)
    measures = measure(arrays[0]), measure(arrays[1])
    faults = _faults(measures[0], len(arrays[0])), _faults(measures[1], len(arrays[1]))
    for k, name in enumerate(names):
        gaps = int(measures[0].gaps[k]), int(measures[1].gaps[k])
        infinite = int(measures[0].infinite[k]), int(measures[1].infinite[k])
        reports[name] = ColumnReport(name, (faults[0][k], faults[1][k]), gaps, infinite)
    return Inspection(sources, tuple(reports.values()), names, arrays, measures, texts)


def _values(
    source: Source, names: Sequence[str], coded: dict[str, tuple[FloatArray, FloatArray]], which: int
) -> FloatArray:
    """The numbers of one table, those that stand for texts among them."""
    if not coded:
        return source.values(names)
    array = np.empty((source.rows, len(names)))
    numbers = [k for k, name in enumerate(names) if name not in coded]
    array[:, numbers] = source.values([names[k] for k in numbers])
    for k, name in enumerate(names):
        if name in coded:
            array[:, k] = coded[name][which]
    return array


def _called(first: Source, second: Source) -> tuple[Source, Source]:
    """Call tables by their files or groups in messages, where these are known and differ."""
    origins = origin_of(first.table), origin_of(second.table)
    if origins[0] is None or origins[1] is None or origins[0].label == origins[1].label:
        return first, second
    return replace(first, label=origins[0].label), replace(second, label=origins[1].label)


def _match(
    sources: tuple[Source, Source],
    columns: Sequence[str] | None,
    drop: Sequence[str] | None,
    beside: Sequence[str],
) -> dict[str, ColumnReport]:
    """Reports on all columns that are chosen, with the faults that their names have."""
    known = [source.names for source in sources]
    columns, drop = check_column_names("columns", columns, known), check_column_names("drop", drop, known)
    chosen = dict.fromkeys([*sources[0].names, *sources[1].names] if columns is None else columns)
    left_out = {*(drop or ()), *map(str, beside)}
    wanted = [name for name in chosen if name not in left_out]
    check_text(wanted)
    labels = [source.row_labels() if columns is None else set() for source in sources]
    counts = [Counter(source.names) for source in sources]

    def fault(name: str, k: int) -> str:
        if name in labels[0] or name in labels[1]:
            return "row-labels" if name in labels[k] else ""
        if not counts[k][name]:
            return "unmatched" if name else ""
        return "no-name" if not name else "duplicate-name" if counts[k][name] > 1 else ""

    return {name: ColumnReport(name, (fault(name, 0), fault(name, 1))) for name in wanted}


def _faults(measures: Measures, rows: int) -> list[str]:
    """For each column of one table, why its numbers cannot be used."""
    gaps, infinite, spread = measures
    empty = (gaps == rows) & (rows > 0)
    found = [infinite > 0, empty, spread == 0, is_extreme(spread)]
    faults: list[str] = np.select(found, ["infinite", "empty", "constant", "extreme-scale"], "").tolist()
    return faults
