"""Frames in, two aligned tables of numbers out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from diffdag._base.arrays import FloatArray, IndexArray
from diffdag._base.errors import Problem, raise_problems
from diffdag._base.words import plural
from diffdag.tables.columns import CellSource
from diffdag.tables.degenerate import dependent_columns, find_extreme_scales
from diffdag.tables.inspect import Inspection, inspect_columns, measure
from diffdag.tables.problems import (
    LEAST_ROWS,
    Missing,
    check_missing_option,
    find_counts,
    find_dependent,
    find_few,
    find_useless,
)
from diffdag.tables.readers.h5ad import shared_genes

Places = tuple[IndexArray | None, IndexArray | None]

_WIDEST = 500  # columns, and products, up to which linear dependence is looked for once there is an error
_EFFORT = 1e10
_APART = {"row-labels", "no-name", "unmatched"}  # faults of columns that the tables do not share


@dataclass(frozen=True, eq=False)
class Tables:
    """Two tables over the same variables in the same order, all values finite.

    The arrays are read-only, and possibly views of what the caller passed in.
    """

    first: FloatArray
    second: FloatArray
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()  # what was done on the way in, one sentence each
    places: Places = (None, None)  # where the rows stood, counted from 0; None where all are there


def align_tables(
    first: Any,
    second: Any,
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    missing: Missing = "error",
    labels: tuple[str, str] = ("first", "second"),
) -> Tables:
    """Match two tables by column name and check that they can be used.

    NumPy arrays have columns X1, ..., Xp, matched by position; columns of pandas, polars or Arrow tables are
    matched by name and kept in the order of the first. One of each is an error: the names of the array would
    be a guess. A first column without a name, as R and pandas write row labels, is left out with a note. Of
    AnnData objects, ``X`` is used, one column per gene; genes that do not vary in both are left out with a
    note unless `columns` names them. `columns` are the variables to compare, in this order, and `drop` those
    to leave out; each has to be in at least one table. `missing` "drop" leaves out the rows with missing
    values and notes how many. `labels` are what messages call the tables, unless these know their files or
    groups.

    All that is wrong is said in one `InputError`: names that are repeated or differ, values that are not
    numeric, missing or infinite, fewer than 3 rows or 2 columns, columns that are exactly constant.
    Collinearity shows in the moments: see `diffdag.tables.degenerate.check_moments`.

    >>> import pandas as pd
    >>> a = pd.DataFrame({"x": [1, 2, 4], "y": [0.5, 0.1, 0.2]})
    >>> b = pd.DataFrame({"y": [1.0, 2.0, 0.0], "x": [3, 2, 1]})
    >>> align_tables(a, b).second[0]
    array([3., 1.])
    """
    check_missing_option(missing)
    shared: list[str] = []
    if columns is None:
        columns, shared = shared_genes((first, second), drop)
        drop = drop if columns is None else None
    seen = inspect_columns(first, second, columns=columns, drop=drop, labels=labels)
    rows = _complete_rows(seen)
    kept = [array if some is None else array[some] for array, some in zip(seen.arrays, rows, strict=True)]
    found = seen.problems()
    enough = all(len(array) >= LEAST_ROWS for array in kept)
    if missing == "error":
        found += find_counts("missing", seen.counts("gaps"), droppable=enough)
    found += _find_flat_or_extreme(seen, kept) if enough else []
    shared_names = {report.name for report in seen.columns if not _APART.intersection(report.faults)}
    left = shared_names - {name for problem in found for name in problem.drop}
    if len(left) < 2:  # to leave out more would not help
        found = [replace(problem, remedies=()) if problem.drop else problem for problem in found]
    found += _find_few(seen, kept, len(left), missing)
    if found:
        found += _find_dependent(seen, kept, left)
        raise_problems(found, () if drop is None else map(str, drop))
    for array in kept:
        array.flags.writeable = False
    notes = _label_notes(seen, labels) + shared + _counts_note(seen) + _dropped_notes(seen.arrays, kept, labels)
    return Tables(kept[0], kept[1], seen.names, tuple(notes), (rows[0], rows[1]))


def _complete_rows(seen: Inspection) -> list[IndexArray | None]:
    """Which rows have no missing values, None for all; columns that are empty in a table do not count."""
    empty = [found.gaps == len(array) for found, array in zip(seen.measures, seen.arrays, strict=True)]
    some = ~(empty[0] | empty[1])
    return [
        np.flatnonzero(~(np.isnan(array) & some).any(axis=1)) if found.gaps.any() else None
        for array, found in zip(seen.arrays, seen.measures, strict=True)
    ]


def _find_flat_or_extreme(seen: Inspection, kept: list[FloatArray]) -> list[Problem]:
    """Columns that do not vary, or vary too much or too little, within the rows that are left."""
    spreads = [
        (known if array is whole else measure(array)).spread
        for array, whole, known in zip(kept, seen.arrays, seen.measures, strict=True)
    ]
    constant = [[seen.names[k] for k in np.flatnonzero(spread == 0)] for spread in spreads]
    found = find_useless("constant", constant, seen.labels)
    return found + find_extreme_scales(seen.names, spreads, seen.labels)


def _find_few(seen: Inspection, kept: list[FloatArray], columns: int, missing: Missing) -> list[Problem]:
    """Whether too few columns or rows are left."""
    found: list[Problem] = [] if columns > 1 else find_few(LEAST_ROWS, columns, seen.labels[0])
    for before, after, label in zip(seen.arrays, kept, seen.labels, strict=True):
        dropped = missing == "drop" and len(after) < len(before)
        rows = "without missing values" if dropped else "of data"
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


def _dropped_notes(before: Sequence[FloatArray], after: list[FloatArray], labels: tuple[str, str]) -> list[str]:
    return [
        f"{len(array) - len(rest)} of {plural(len(array), 'row')} with missing values "
        f"{'was' if len(array) - len(rest) == 1 else 'were'} dropped from the {label} table"
        for array, rest, label in zip(before, after, labels, strict=True)
        if len(rest) < len(array)
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
