"""Frames in, two aligned tables of numbers out."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from diffdag.cells import Cells, as_cells, is_anndata, shared_genes
from diffdag.files import read_table
from diffdag.validation import (
    InputError,
    Missing,
    Unfit,
    check_choice,
    check_counts,
    check_missing_option,
    check_names,
    check_numeric,
    check_same_columns,
    check_shape,
    check_varies,
    default_names,
    plural,
)

__all__ = ["Tables", "align_tables", "read_table"]

FloatArray = NDArray[np.float64]

_NULLS = frozenset(pa.csv.ConvertOptions().null_values)
_ROW_LABELS = ("", "Unnamed: 0")  # how R and pandas head the row labels they write


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
    """

    first: FloatArray
    second: FloatArray
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


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
        2 rows or columns, or a column is exactly constant. Collinearity shows in the moments: see
        `diffdag.validation.check_moments`.

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
    names, notes = _select(sources, columns, drop, labels)
    unfit = [column for source in sources for column in source.unfit(names)]
    check_numeric(unfit)
    arrays = [source.values(names) for source in sources]
    notes += [*shared, *_counts_note(sources, arrays)]
    arrays, dropped = _handle_gaps(arrays, names, missing, labels)
    for array, label in zip(arrays, labels, strict=True):
        check_shape(len(array), len(names), label)
        check_varies(names, array.min(axis=0) == array.max(axis=0), label)
        array.flags.writeable = False
    return Tables(arrays[0], arrays[1], names, (*notes, *dropped))


def _counts_note(sources: list[Source], arrays: list[FloatArray]) -> list[str]:
    """Say so where values of cells look like counts, whose variance grows with their mean."""
    cells = [array for source, array in zip(sources, arrays, strict=True) if isinstance(source, _CellSource)]
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
) -> tuple[tuple[str, ...], list[str]]:
    """Decide which columns are compared; also say which row labels were left out."""
    known = [source.names for source in sources]
    columns = check_choice("columns", columns, known)
    drop = check_choice("drop", drop, known)
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
        check_names(names, label)
        chosen.append(names)
    check_same_columns(chosen[0], chosen[1], labels)
    kept = set(chosen[0])
    return tuple(name for name in (columns or chosen[0]) if name in kept), notes


def _handle_gaps(
    arrays: list[FloatArray], names: Sequence[str], missing: Missing, labels: tuple[str, str]
) -> tuple[list[FloatArray], list[str]]:
    """Refuse infinite values; refuse or drop missing ones."""
    with np.errstate(all="ignore"):  # sound data cost one pass
        suspects = [None if np.isfinite(array.sum()) else array for array in arrays]
    if all(array is None for array in suspects):
        return arrays, []

    def count(test: Any) -> list[tuple[str, dict[str, int]]]:
        counts = [(() if array is None else test(array).sum(axis=0)) for array in suspects]
        return [
            (label, {name: int(k) for name, k in zip(names, row, strict=False) if k})
            for label, row in zip(labels, counts, strict=True)
        ]

    check_counts("infinite", count(np.isinf), "remove them or check the export")
    if missing == "error":
        check_counts(
            "missing",
            count(np.isnan),
            "fill them in, or drop their rows with missing='drop' (--missing drop)",
        )
    kept = [array[~np.isnan(array).any(axis=1)] for array in arrays]
    notes = [
        f"{len(array) - len(rest)} of {plural(len(array), 'row')} with missing values "
        f"{'was' if len(array) - len(rest) == 1 else 'were'} dropped from the {label} table"
        for array, rest, label in zip(arrays, kept, labels, strict=True)
        if len(rest) < len(array)
    ]
    return kept, notes


@dataclass(frozen=True, eq=False)
class Source:
    """One table as the user gave it, seen as named columns of any kind."""

    label: str
    names: list[str]
    columns: Sequence[Any]  # pandas Series, Arrow chunked arrays, or the columns of an array
    rows: int
    table: Any
    named: bool = True

    @classmethod
    def of(cls, table: Any, label: str) -> Source:
        if isinstance(table, np.ndarray):
            return cls._of_array(table, label)
        if isinstance(table, pd.DataFrame):
            names = [str(name) for name in table.columns]
            if all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in table.dtypes):
                # Ten times quicker than one by one.
                columns: list[Any] = list(table.to_numpy(dtype=np.float64).T)
            else:
                columns = [table.iloc[:, k] for k in range(len(names))]
            return cls(label, names, columns, len(table), table)
        if isinstance(table, Cells) or is_anndata(table):
            cells = as_cells(table, label)
            return _CellSource(label, list(cells.names), (), len(cells.rows), cells)
        arrow = as_arrow(table, label)
        return cls(label, list(arrow.column_names), arrow.columns, arrow.num_rows, arrow)

    @classmethod
    def _of_array(cls, array: NDArray[Any], label: str) -> Source:
        if isinstance(array, np.ma.MaskedArray):
            array = np.ma.filled(array.astype(float), np.nan)
        array = np.asarray(array)
        if array.ndim != 2:
            raise InputError(f"the {label} table is a {array.ndim}-d array; give rows by columns")
        return cls(label, list(default_names(array.shape[1])), list(array.T), len(array), array, named=False)

    def row_labels(self) -> set[str]:
        """Names of the columns that only number or name the rows."""
        found = {name for name in self.names[:1] if name in _ROW_LABELS and self.names.count(name) == 1}
        if isinstance(self.table, pa.Table):
            index = (self.table.schema.pandas_metadata or {}).get("index_columns", ())
            found |= {name for name in index if isinstance(name, str)} & set(self.names)
        return found

    def unfit(self, names: Sequence[str]) -> list[Unfit]:
        """The columns among `names` that are not numeric."""
        lookup = self._lookup()
        return [
            Unfit(self.label, name, *_first_misfit(lookup[name]))
            for name in names
            if not _is_numeric(lookup[name])
        ]

    def values(self, names: Sequence[str]) -> FloatArray:
        """The columns `names` as one array; the caller's own, seen through a view, if it will do."""
        if not self.named and self.table.dtype == np.float64 and list(names) == self.names:
            return np.asarray(self.table).view()
        lookup = self._lookup()
        array = np.empty((self.rows, len(names)))
        for k, name in enumerate(names):
            array[:, k] = to_float(lookup[name])
        return array

    def _lookup(self) -> dict[str, Any]:
        return dict(zip(self.names, self.columns, strict=True))


class _CellSource(Source):
    """Cells by genes, all of them numbers; those not chosen are never unpacked."""

    def row_labels(self) -> set[str]:
        return set()

    def unfit(self, names: Sequence[str]) -> list[Unfit]:
        return []

    def values(self, names: Sequence[str]) -> FloatArray:
        cells: Cells = self.table
        return cells.values(names, self.label)


def as_arrow(table: Any, label: str) -> Any:
    """Arrow tables as they are, others (polars among them) through Arrow's stream interface."""
    if isinstance(table, pa.Table):
        return table
    if type(table).__module__.startswith("polars.") and hasattr(table, "collect"):
        table = table.collect()
    if not hasattr(table, "__arrow_c_stream__"):
        raise InputError(
            f"the {label} table is a {type(table).__name__}; "
            "give a NumPy array, a pandas, polars or Arrow table, or AnnData"
        )
    return pa.table(table)


def _is_numeric(column: Any) -> bool:
    if isinstance(column, pa.ChunkedArray):
        kind = column.type
        tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
        return pa.types.is_null(kind) or any(test(kind) for test in tests)
    if column.dtype == object:
        return all(_is_number(value) or is_missing(value) for value in column)
    if isinstance(column, np.ndarray):
        return column.dtype.kind in "biuf"
    return pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype)


def to_float(column: Any) -> FloatArray:
    """A numeric column of any kind as floats, missing values as NaN."""
    if isinstance(column, pa.ChunkedArray):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    if column.dtype == object:
        return np.array([np.nan if is_missing(value) else float(value) for value in column])
    if isinstance(column, pd.Series):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray(column, dtype=np.float64)


def _first_misfit(column: Any) -> tuple[int, object]:
    """Row and value of the first entry that is not a number, or else of the first number held as text."""
    values = column.to_pylist() if isinstance(column, pa.ChunkedArray) else list(column)
    present = [(row, value) for row, value in enumerate(values, start=1) if not is_missing(value)]
    worst = (entry for entry in present if not _reads_as_number(entry[1]))
    return next(worst, present[0] if present else (1, None))


def _is_number(value: object) -> bool:
    return isinstance(value, (numbers.Real, Decimal, np.bool_))


def is_missing(value: object) -> bool:
    return (
        value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value))
    )


def _reads_as_number(value: object) -> bool:
    if not isinstance(value, str):
        return _is_number(value)
    try:
        float(value)
    except ValueError:
        return value in _NULLS
    return True
