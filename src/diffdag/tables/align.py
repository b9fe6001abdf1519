"""Frames in, two aligned tables of numbers out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag._base.checks import check_names
from diffdag._base.errors import InputError
from diffdag._base.words import option_words, plural
from diffdag.tables.columns import CellSource, Source
from diffdag.tables.degenerate import dependent_columns, find_extreme_scales
from diffdag.tables.problems import (
    LEAST_ROWS,
    Missing,
    TableProblem,
    check_column_names,
    check_missing_option,
    find_counts,
    find_dependent,
    find_few,
    find_lost,
    find_text,
    find_useless,
    raise_problems,
)
from diffdag.tables.readers.h5ad import shared_genes
from diffdag.tables.readers.provenance import origin_of

Places = tuple[NDArray[np.intp] | None, NDArray[np.intp] | None]

_WIDEST = 500  # columns, and products, up to which linear dependence is looked for once there is an error
_EFFORT = 1e10


@dataclass(frozen=True, eq=False)
class Tables:
    """Two tables over the same variables in the same order, all values finite.

    Attributes
    ----------
    first, second : ndarray of shape (n1, p) and (n2, p)
        The values; read-only, and possibly a view of what the caller passed in.
    names : tuple of str
        The p variables.
    notes : tuple of str
        What was done on the way in, one sentence each.
    places : pair of ndarray or None
        Where the rows stood in what the caller passed in, counted from 0; None where all are there.
    """

    first: FloatArray
    second: FloatArray
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    places: Places = (None, None)


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

    Parameters
    ----------
    first, second : arrays or frames
        NumPy arrays, whose columns are named X1, ..., Xp and matched by position; or pandas, polars or
        Arrow tables, whose columns are matched by name and kept in the order of the first. One of each is
        an error: the names of the array would be a guess. A first column without a name, as R and pandas
        write row labels, is left out with a note. Of AnnData objects, ``X`` is used, a column a gene; genes
        that do not vary in both are left out with a note unless `columns` names them.
    columns : sequence of str, optional
        The variables to compare, in this order.
    drop : sequence of str, optional
        Columns to leave out; each has to be in at least one table.
    missing : {"error", "drop"}
        "drop" leaves out the rows with missing values and notes how many.
    labels : pair of str
        What messages call the tables.

    Returns
    -------
    Tables

    Raises
    ------
    InputError
        If names are repeated or differ, values are not numeric, missing or infinite, a table has fewer than
        3 rows or 2 columns, or a column is exactly constant; all that is found is said in one error.
        Collinearity shows in the moments: see `diffdag.tables.degenerate.check_moments`.

    Examples
    --------
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
    sources = [Source.of(table, label) for table, label in zip((first, second), labels, strict=True)]
    if sources[0].named != sources[1].named:
        raise InputError(
            "one table has column names and the other is an array without; give two arrays or two tables"
        )
    sources = _called(sources)
    words = (sources[0].label, sources[1].label)
    names, notes, found = _select(sources, columns, drop, labels)
    unfit = [column for source in sources for column in source.unfit(names)]
    found += find_text(unfit)
    bad = {column.name for column in unfit}
    fit = tuple(name for name in names if name not in bad)
    arrays = [source.values(fit) for source in sources]
    notes += [*shared, *_counts_note(sources, arrays)]
    kept, gaps = _without_gaps(arrays, fit, missing, words)
    found += gaps
    if all(len(array) >= LEAST_ROWS for array in kept):
        ranges = [_range(array) for array in kept]
        found += find_useless("constant", [_chosen(fit, spread == 0) for spread in ranges], words)
        found += find_extreme_scales(fit, ranges, words)
    left = set(names) - {name for problem in found for name in problem.drop}
    if len(left) < 2:  # to leave out more would not help
        found = [problem._replace(drop=()) for problem in found]
    found += _find_few(arrays, kept, len(left), missing, words)
    if found:
        found += _find_dependent(kept, fit, left, words)
        raise_problems(found, drop or ())
    for array in kept:
        array.flags.writeable = False
    notes += _dropped_notes(arrays, kept, labels)
    places = (_places(arrays[0], kept[0]), _places(arrays[1], kept[1]))
    return Tables(kept[0], kept[1], fit, tuple(notes), places)


def _range(array: FloatArray) -> FloatArray:
    """From the smallest value of each column to the largest; NaN where one is infinite: told of apart."""
    low, high = array.min(axis=0), array.max(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(np.isinf(low) | np.isinf(high), np.nan, high - low)


def _places(before: FloatArray, after: FloatArray) -> NDArray[np.intp] | None:
    """Where the rows that are left stood; only those with a missing value are gone."""
    return None if len(after) == len(before) else np.flatnonzero(~np.isnan(before).any(axis=1))


def _called(sources: list[Source]) -> list[Source]:
    """Call tables by their files or groups in messages, where these are known and differ."""
    origins = [origin_of(source.table) for source in sources]
    labels = [origin.label for origin in origins if origin is not None]
    if len(set(labels)) < len(sources):
        return sources
    return [replace(source, label=label) for source, label in zip(sources, labels, strict=True)]


def _chosen(names: Sequence[str], mask: Any) -> list[str]:
    return [name for name, chosen in zip(names, mask, strict=True) if chosen]


def _without_gaps(
    arrays: list[FloatArray], names: Sequence[str], missing: Missing, labels: tuple[str, str]
) -> tuple[list[FloatArray], list[TableProblem]]:
    """The rows without missing values, and what is wrong: infinite values, empty columns, missing values."""
    with np.errstate(all="ignore"):  # sound data cost one pass
        if all(np.isfinite(array.sum()) for array in arrays):
            return arrays, []
    gaps = [np.isnan(array) for array in arrays]
    empty = [mask.all(axis=0) for mask in gaps]
    some = ~(empty[0] | empty[1])
    kept = [array[~mask[:, some].any(axis=1)] for array, mask in zip(arrays, gaps, strict=True)]
    infinite = _counts([np.isinf(array) for array in arrays], names, labels)
    found = find_counts("infinite", infinite, "remove them or check the export")
    if all(len(array) for array in arrays):
        found += find_useless("empty", [_chosen(names, mask) for mask in empty], labels)
    if missing == "error":
        enough = all(len(array) >= LEAST_ROWS for array in kept)
        rows = f", or drop their rows with {option_words('missing', 'drop')}" if enough else ""
        counts = _counts([mask & some for mask in gaps], names, labels)
        found += find_counts("missing", counts, f"fill them in{rows}", rows=enough)
    return kept, found


def _counts(
    masks: Sequence[BoolArray], names: Sequence[str], labels: tuple[str, str]
) -> list[tuple[str, dict[str, int]]]:
    """How often each column of each table has something, where it has."""
    sums = [mask.sum(axis=0) for mask in masks]
    return [
        (label, {name: int(k) for name, k in zip(names, row, strict=True) if k})
        for label, row in zip(labels, sums, strict=True)
    ]


def _find_few(
    arrays: list[FloatArray], kept: list[FloatArray], columns: int, missing: Missing, labels: tuple[str, str]
) -> list[TableProblem]:
    """Whether too few columns or rows are left."""
    found: list[TableProblem] = [] if columns > 1 else find_few(LEAST_ROWS, columns, labels[0])
    for before, after, label in zip(arrays, kept, labels, strict=True):
        if missing == "drop" and len(after) < len(before):
            found += find_few(len(after), 2, label, "without missing values")
        else:
            found += find_few(len(before), 2, label)
    return found


def _find_dependent(
    arrays: list[FloatArray], names: Sequence[str], left: set[str], labels: tuple[str, str]
) -> list[TableProblem]:
    """Dependent columns among those that are left, looked for here only if there are other problems to tell."""
    places = [k for k, name in enumerate(names) if name in left]
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
        sets.append([names[places[k]] for k in dependent_columns(len(table), centred.T @ centred)])
    return find_dependent(sets, labels)


def _dropped_notes(before: list[FloatArray], after: list[FloatArray], labels: tuple[str, str]) -> list[str]:
    return [
        f"{len(array) - len(rest)} of {plural(len(array), 'row')} with missing values "
        f"{'was' if len(array) - len(rest) == 1 else 'were'} dropped from the {label} table"
        for array, rest, label in zip(before, after, labels, strict=True)
        if len(rest) < len(array)
    ]


def _counts_note(sources: list[Source], arrays: list[FloatArray]) -> list[str]:
    """Say so where values of cells look like counts, whose variance grows with their mean."""
    cells = [array for source, array in zip(sources, arrays, strict=True) if isinstance(source, CellSource)]
    some = [array[:1000] for array in cells]
    if not any(array.size and np.array_equal(array, np.rint(array)) for array in some):
        return []
    return [
        "the values are whole numbers, as counts of molecules are; normalised and log-transformed values suit "
        "a linear model better"
    ]


def _select(
    sources: list[Source],
    columns: Sequence[str] | None,
    drop: Sequence[str] | None,
    labels: tuple[str, str],
) -> tuple[tuple[str, ...], list[str], list[TableProblem]]:
    """Decide which columns are compared; also say which row labels were left out, and which are not shared."""
    known = [source.names for source in sources]
    columns = check_column_names("columns", columns, known)
    drop = check_column_names("drop", drop, known)
    notes, chosen = [], []
    for source, label in zip(sources, labels, strict=True):
        unwanted = set(drop or ())
        if columns is None:
            row_labels = source.row_labels() - unwanted
            unwanted |= row_labels
            notes += [
                f"column '{name}' of the {label} table holds row labels and was left out"
                for name in sorted(row_labels)
            ]
        wanted = set(source.names if columns is None else columns) - unwanted
        names = [name for name in source.names if name in wanted]
        check_names(names, source.label)
        chosen.append(names)
    lost = find_lost(chosen[0], chosen[1], (sources[0].label, sources[1].label))
    kept = set(chosen[0]) & set(chosen[1])
    return tuple(name for name in (columns or chosen[0]) if name in kept), notes, lost
