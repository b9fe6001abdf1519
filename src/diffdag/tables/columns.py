"""One table of any kind, seen as named columns that are numbers or are not."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv

from diffdag._base.arrays import FloatArray
from diffdag._base.checks import default_names
from diffdag._base.errors import InputError
from diffdag.tables.problems import NonNumericColumn, reads_as_number
from diffdag.tables.readers.files import MISSING
from diffdag.tables.readers.h5ad import Cells, as_cells, is_anndata
from diffdag.tables.readers.provenance import origin_of, place_of

NULLS = frozenset(MISSING)
_ROW_LABELS = ("", "Unnamed: 0")  # how R and pandas head the row labels they write


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
        """A table of any kind; `label` says in messages which one."""
        if isinstance(table, np.ndarray):
            array = (
                np.ma.filled(table.astype(float), np.nan) if np.ma.isMaskedArray(table) else np.asarray(table)
            )
            if array.ndim != 2:
                raise InputError(f"the {label} table is a {array.ndim}-d array; give rows by columns")
            labels = list(default_names(array.shape[1]))
            return cls(label, labels, list(array.T), len(array), array, named=False)
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
            return CellSource(label, list(cells.names), (), len(cells.rows), cells)
        arrow = as_arrow(table, label)
        return cls(label, list(arrow.column_names), arrow.columns, arrow.num_rows, arrow)

    def row_labels(self) -> set[str]:
        """Names of the columns that only number or name the rows."""
        found = {name for name in self.names[:1] if name in _ROW_LABELS and self.names.count(name) == 1}
        if isinstance(self.table, pa.Table):
            index = (self.table.schema.pandas_metadata or {}).get("index_columns", ())
            found |= {name for name in index if isinstance(name, str)} & set(self.names)
        return found

    def unfit(self, names: Sequence[str]) -> list[NonNumericColumn]:
        """The columns among `names` that are not numeric."""
        lookup = self._lookup
        origin = origin_of(self.table)
        decimal = "." if origin is None else origin.decimal
        found = []
        for name in names:
            if not is_numeric(lookup[name]):
                row, value = _first_misfit(lookup[name], decimal)
                place = partial(place_of, self.table, row, value)
                found.append(NonNumericColumn(self.label, name, row, value, place))
        return found

    def values(self, names: Sequence[str]) -> FloatArray:
        """The columns `names` as one array; the caller's own, seen through a view, if it will do."""
        if not self.named and self.table.dtype == np.float64 and list(names) == self.names:
            return np.asarray(self.table).view()
        lookup = self._lookup
        array = np.empty((self.rows, len(names)))
        for k, name in enumerate(names):
            array[:, k] = to_float(lookup[name])
        return array

    def column(self, name: str) -> Any:
        """One column as it is."""
        return self._lookup[name]

    def is_numeric(self, name: str) -> bool:
        """Whether a column holds numbers, or nothing at all."""
        return is_numeric(self.column(name))

    def is_date(self, name: str) -> bool:
        """Whether a column is one of dates or points of time by its type."""
        column = self.column(name)
        if isinstance(column, pa.ChunkedArray):
            return bool(pa.types.is_timestamp(column.type) or pa.types.is_date(column.type))
        return bool(column.dtype.kind == "M")

    def ordered_levels(self, name: str) -> list[Any] | None:
        """Levels of a category whose order is part of its type, lowest first; None for other columns."""
        column = self.column(name)
        levels: Any = None
        if isinstance(column, pa.ChunkedArray):
            if pa.types.is_dictionary(column.type) and column.type.ordered and column.num_chunks:
                found = [chunk.dictionary.to_pylist() for chunk in column.chunks]
                levels = found[0] if all(one == found[0] for one in found) else None
        elif isinstance(column.dtype, pd.CategoricalDtype) and column.dtype.ordered:
            levels = column.dtype.categories
        return None if levels is None else list(levels)

    @property
    def label_names(self) -> list[str]:
        """Columns of any kind that may say something about each row: all of them."""
        return self.names

    def labels(self, name: str) -> list[Any]:
        """The values of one column of any kind, as numbers or texts; missing ones as None."""
        return _labels(self._lookup[name])

    @cached_property
    def _lookup(self) -> dict[str, Any]:
        return dict(zip(self.names, self.columns, strict=True))


class CellSource(Source):
    """Cells by genes, all of them numbers; those not chosen are never unpacked."""

    def row_labels(self) -> set[str]:
        """None: cells are not named in a column."""
        return set()

    def unfit(self, names: Sequence[str]) -> list[NonNumericColumn]:
        """None."""
        return []

    def column(self, name: str) -> FloatArray:
        """One gene."""
        return self.values([name])[:, 0]

    @property
    def label_names(self) -> list[str]:
        """Columns of ``obs``."""
        return [str(name) for name in self.table.obs.columns]

    def labels(self, name: str) -> list[Any]:
        """The values of one column of ``obs``."""
        return _labels(self.table.obs.iloc[:, self.label_names.index(name)])

    def values(self, names: Sequence[str]) -> FloatArray:
        """The genes `names` as one array."""
        cells: Cells = self.table
        return cells.values(names, self.label)


def as_arrow(table: Any, label: str) -> Any:
    """Arrow tables as they are, others (polars among them) through Arrow's stream interface."""
    if isinstance(table, pa.Table):
        return table
    if type(table).__module__.startswith("polars.") and hasattr(table, "collect"):
        table = table.collect()
    if not hasattr(table, "__arrow_c_stream__"):
        kind = type(table).__name__
        more = ", or read it with dd.read_table" if isinstance(table, str | Path) else ""
        other = {"Moments": "moments go to fit_moments", "LinearSEM": "models go to fit_population"}.get(kind)
        wanted = "give a NumPy array, a pandas, polars or Arrow table, or AnnData"
        raise InputError(f"the {label} table is a {kind}; {other or wanted + more}")
    ended = [name for name in getattr(table, "columns", ()) if isinstance(name, str) and "\0" in name]
    if ended:  # texts end there in what polars hands over, at which it ends the program
        raise InputError(f"the name {ended[0]!a} in the {label} table holds a NUL character; rename the column")
    try:
        arrow = pa.table(table)
    except (pa.ArrowInvalid, TypeError):  # one column, such as a polars Series
        raise InputError(
            f"the {label} table is a {type(table).__name__}, not a table; give one with a name for each column"
        ) from None
    for k, kind in enumerate(getattr(table, "dtypes", ())):
        if type(kind).__name__ == "Enum" and not arrow.column(k).type.ordered:  # polars before 2
            arrow = arrow.set_column(k, arrow.column_names[k], plain_categories(arrow.column(k), ordered=True))
    return arrow


def plain_categories(column: Any, *, ordered: bool) -> Any:
    """Categories of an Arrow table with levels that are plain text, in an order or in none."""
    texts = pa.string()
    chunks = [
        pa.DictionaryArray.from_arrays(
            chunk.indices, pa.array(chunk.dictionary.to_pylist(), texts), ordered=ordered
        )
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, type=pa.dictionary(column.type.index_type, texts, ordered=ordered))


def is_numeric(column: Any) -> bool:
    """Whether a column holds numbers, or nothing at all."""
    if isinstance(column, pa.ChunkedArray):
        kinds = pa.types
        tests = (kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal, kinds.is_null)
        return any(test(column.type) for test in tests)
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
        return np.array([_number(value) for value in column], dtype=np.float64)
    if isinstance(column, pd.Series):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    with np.errstate(over="ignore"):  # wider numbers that are too large become infinite, and are refused
        return np.asarray(column, dtype=np.float64)


def _number(value: Any) -> float:
    """A number of Python's, missing ones as NaN; what is too large becomes infinite, and is refused."""
    if is_missing(value) or (isinstance(value, Decimal) and value.is_nan()):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _first_misfit(column: Any, decimal: str) -> tuple[int, object]:
    """Row and value of the first entry that is not a number, or else of the first number held as text."""
    first = None
    # Entries of Arrow are unpacked one by one: the first are often enough.
    entries = (entry.as_py() for entry in column) if isinstance(column, pa.ChunkedArray) else column
    for row, value in enumerate(entries, start=1):
        if is_missing(value):
            continue
        if not _reads_as_number(value, decimal):
            return row, value
        first = first or (row, value)
    return first or (1, None)


def _is_number(value: object) -> bool:
    return isinstance(value, (numbers.Real, Decimal, np.bool_))


def is_missing(value: object) -> bool:
    """Whether this is what some library calls a missing value."""
    return (
        value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value))
    )


def _labels(column: Any) -> list[Any]:
    """Labels of rows; levels of what calls itself categorical are texts, even if they are numbers."""
    arrow = isinstance(column, pa.ChunkedArray)
    levels = pa.types.is_dictionary(column.type) if arrow else isinstance(column.dtype, pd.CategoricalDtype)
    found = [label_value(value) for value in (column.to_pylist() if arrow else column)]
    if not levels:
        return found
    return [f"{value:.15g}" if isinstance(value, float) else value for value in found]


def label_value(value: object) -> float | str | None:
    """A label of a row as a number or a text; missing ones, and empty texts, as None."""
    if is_missing(value) or (isinstance(value, str) and not value.strip()):
        return None
    if not _is_number(value):
        return str(value)
    number = _number(value)  # truth as 0 and 1, as where all columns are numbers
    return None if math.isnan(number) else number


def _reads_as_number(value: object, decimal: str) -> bool:
    if not isinstance(value, str):
        return _is_number(value)
    if decimal == ",":
        value = "a point" if "." in value else value.replace(",", ".")
    return value in NULLS or reads_as_number(value)
