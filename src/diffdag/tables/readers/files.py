"""Files in, tables out: Arrow tables, or cells by genes that stay in their file.

Text goes through Arrow's reader: it is strict about ragged rows and keeps repeated header names, so that
both can be reported instead of being repaired in silence.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from diffdag._base.checks import default_names
from diffdag._base.errors import InputError, raise_problems
from diffdag._base.words import Option, plural
from diffdag.tables.problems import NonNumericColumn, find_text
from diffdag.tables.readers.csv_dialect import Header, read_header
from diffdag.tables.readers.endings import ARRAYS, CELLS, FEATHER, PARQUET, TEXT, check_file_type, kind_of
from diffdag.tables.readers.h5ad import read_cells
from diffdag.tables.readers.npy import load_array, load_arrays
from diffdag.tables.readers.provenance import line_words, mark_origin

_KINDS = (*TEXT, *PARQUET, *FEATHER, *ARRAYS)
# What spreadsheets and people write where a number is missing.
MISSING = [*pa.csv.ConvertOptions().null_values, "-", "–", ".", "#NV", "#DIV/0!", "#VALUE!", "#REF!", "k.A."]


def read_table(
    path: str | Path,
    *,
    text: Sequence[str] = (),
    layer: str | None = None,
    genes: str | None = None,
    transpose: bool = False,
) -> Any:
    r"""Read one table from a file, as ``diffdag fit`` does.

    Parameters
    ----------
    path : path-like
        CSV, TSV or TXT (also with ``.gz``), Parquet (``.parquet``, ``.pq``), Feather (``.feather``,
        ``.arrow``), NPY, NPZ, or AnnData's ``.h5ad``. Text files have a header line; the delimiter of ``.csv``
        and ``.txt`` is the one of comma, semicolon, tab and ``|`` that the header uses most; where it is no
        comma, numbers may have decimal commas. An NPZ holds one 2-d array and optionally its column names as
        ``names`` or ``columns``; arrays without names get X1, ..., Xp.
    text : sequence of str, optional
        Columns of a text file to keep as written, such as the group column: "007" is not 7.
    layer : str, optional
        Of an ``.h5ad`` file: the layer to use, or ``"raw"``; ``X`` if left out.
    genes : str, optional
        Of an ``.h5ad`` file: a column of ``var`` that is true for the genes to use (``"highly_variable"``).
    transpose : bool, default False
        Whether rows are variables: the first column names them, and every other column is an observation.

    Returns
    -------
    pyarrow.Table
        Or, from an ``.h5ad`` file, `diffdag.tables.readers.h5ad.Cells`, read when genes are chosen.

    Raises
    ------
    InputError
        If the file is missing, empty or not what its name says.
    OSError
        If the file exists and cannot be opened.

    See Also
    --------
    split_groups : split a table by a column that names the group of each row.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "cells.csv"
    ...     _ = file.write_text("raf;mek\n1,5;2\n0,5;-\n")
    ...     table = read_table(file)
    >>> table.to_pydict()
    {'raf': [1.5, 0.5], 'mek': [2, None]}
    """
    path = Path(path)
    kind = kind_of(path)
    check_file(path)
    if transpose and (path.suffix.lower() == CELLS or kind in ARRAYS):
        raise InputError(
            f"'{path}' has no column that names its rows, as ",
            Option("transpose", True),
            " needs; leave it out, or transpose the array",
        )
    if path.suffix.lower() == CELLS:
        with reading(path, kind):
            return read_cells(path, layer, genes)
    if layer is not None or genes is not None:
        option = "layer" if layer is not None else "genes"
        raise InputError(Option(option), f" is about .h5ad files, and '{path}' is none; leave it out")
    if kind not in _KINDS or (path.suffix.lower() == ".gz" and kind not in TEXT):
        raise InputError(f"'{path}' has no known file type; give one of {', '.join((*_KINDS, CELLS))}")
    with reading(path, kind):
        if transpose:
            table = transposed(path, kind, text)
        else:
            table = _read_text(path, text) if kind in TEXT else _read_binary(path, kind)
        # What damage would otherwise show later, or end the program: names, offsets, texts.
        _ = table.column_names, table.schema.pandas_metadata
        table.validate(full=True)
    return table if kind in TEXT or transpose else mark_origin(table, path)


def check_file(path: Path) -> None:
    """Refuse what is not a file, holds nothing, or is a spreadsheet."""
    check_file_type(str(path))
    if not path.exists():
        raise InputError(f"file '{path}' does not exist; check the path")
    if path.is_dir():
        raise InputError(f"'{path}' is a folder; give a file")
    with path.open("rb") as file:
        if not file.read(1):
            raise InputError(f"file '{path}' is empty; check the export")


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Turn what readers raise on damaged files, which has no end, into errors that name the file."""
    try:
        yield
    except InputError:
        raise
    except MemoryError as error:
        raise InputError(
            f"memory ran out while reading '{path}'; close other programs, or take fewer rows or columns (and "
            "check the export, if the file is not large)"
        ) from error
    except Exception as error:
        if "invalid UTF8" in str(error) and kind in TEXT:
            raise InputError(f"file '{path}' is not UTF-8 text; save it as CSV (UTF-8)") from error
        reason = (str(error).splitlines() or [type(error).__name__])[0][:160]
        raise InputError(f"file '{path}' cannot be read as {kind} ({reason}); check the export") from error


def _read_text(path: Path, text: Sequence[str]) -> Any:
    header = read_header(path)
    options = text_options(header)
    options["convert_options"].column_types = dict.fromkeys(text, pa.string())
    with explaining(path, options, pa.csv.read_csv):
        table = pa.csv.read_csv(path, **options)
    named = table.rename_columns([name.strip() for name in table.column_names])
    return mark_origin(named, path, lines=True, decimal=header.decimal)


def transposed(path: Path, kind: str, text: Sequence[str]) -> Any:
    """A table whose rows are variables, named in the first column, turned round."""
    table, decimal = (
        (_read_text(path, ()), read_header(path).decimal) if kind in TEXT else (_read_binary(path, kind), ".")
    )
    if table.num_columns < 2 or not table.num_rows:
        raise InputError(
            f"'{path}' has nothing to turn round: a column of names and one per observation are needed"
        )
    label = table.column_names[0]
    names = ["" if name is None else str(name).strip() for name in table.column(0).to_pylist()]
    if "" in names:
        raise InputError(
            f"row {names.index('') + 1} of '{path}' has no name in its first column, '{label}'; name it"
        )
    rest = table.columns[1:]
    tests = (pa.types.is_integer, pa.types.is_floating)
    if not text and all(any(test(column.type) for test in tests) for column in rest):
        values = np.array([column.cast(pa.float64(), safe=False).to_numpy() for column in rest])
        turned = pa.table(
            [pa.array(own, from_pandas=True) for own in np.ascontiguousarray(values.T)], names=names
        )
    else:
        turned = _turned_text(path, kind, table, names, decimal, text)
    return mark_origin(turned, path, turned=True)


def _turned_text(
    path: Path, kind: str, table: Any, names: Sequence[str], decimal: str, text: Sequence[str]
) -> Any:
    """Rows of numbers and of text as columns: they are written as text in memory, and read again."""
    if kind in TEXT:  # as written: "007" is not 7
        options = text_options(read_header(path))
        options["convert_options"].column_types = dict.fromkeys(table.column_names, pa.string())
        options["convert_options"].strings_can_be_null = False
        table = pa.csv.read_csv(path, **options)
    written = io.StringIO()
    lines = csv.writer(written, lineterminator="\n")
    lines.writerow(names)
    for column in table.columns[1:]:
        lines.writerow(["" if value is None else value for value in column.to_pylist()])
    content = written.getvalue().encode()
    size = max(1 << 20, 16 * max(map(len, content.split(b"\n"))))
    return pa.csv.read_csv(
        io.BytesIO(content),
        read_options=pa.csv.ReadOptions(block_size=size),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            decimal_point=decimal, null_values=MISSING, column_types=dict.fromkeys(text, pa.string())
        ),
    )


def text_options(header: Header) -> dict[str, Any]:
    """Options with which Arrow reads a text file: how it is written, and blocks into which its lines fit."""
    return {
        # A line of a wide table has to fit into one block.
        "read_options": pa.csv.ReadOptions(block_size=max(1 << 20, 16 * header.size)),
        "parse_options": pa.csv.ParseOptions(delimiter=header.delimiter),
        "convert_options": pa.csv.ConvertOptions(decimal_point=header.decimal, null_values=MISSING),
    }


@contextmanager
def explaining(
    path: Path, options: dict[str, Any], read: Callable[..., object], names: Sequence[str] = ()
) -> Iterator[None]:
    """Read again for the number of the row that Arrow refused: with threads rows are not counted.

    `names` are those of the columns, where `read` may also find fields that are not of the type asked for.
    """
    try:
        yield
    except pa.ArrowInvalid:
        options["read_options"].use_threads = False
        _explain(path, partial(read, path, **options), names)
        raise


def _explain(path: Path, read: Callable[[], object], names: Sequence[str]) -> None:
    try:
        read()
    except pa.ArrowInvalid as error:
        ragged = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", str(error))
        if ragged:
            row, expected, found = (int(number) for number in ragged.groups())
            place = line_words(path, row - 1) or f"row {row - 1} of '{path}'"
            raise InputError(
                f"{place} has {plural(found, 'field')} and the header has {expected}; check the export"
            ) from error
        misfit = re.search(r"column #(\d+): Row #(\d+): .* invalid value '(.*)'", str(error), re.DOTALL)
        if misfit and names:
            column, row = int(misfit[1]), int(misfit[2]) - 1
            find = partial(line_words, path, row, misfit[3])
            unfit = NonNumericColumn(f"'{path}'", names[column], row, misfit[3], find)
            raise_problems(find_text([unfit]))


def _read_binary(path: Path, kind: str) -> Any:
    if kind in PARQUET:
        import pyarrow.parquet as pq  # noqa: PLC0415 - slow to load, seldom needed

        with pq.ParquetFile(path) as file:
            return file.read()
    if kind in FEATHER:
        from pyarrow import feather  # noqa: PLC0415

        return feather.read_table(path)
    if kind == ".npy":
        return _table_from_array(load_array(path), None, path)
    arrays = load_arrays(path)
    names = arrays.pop("names", arrays.pop("columns", None))
    if len(arrays) != 1:
        raise InputError(
            f"'{path}' holds {plural(len(arrays), 'array')}; give one table, with its names as 'names'"
        )
    return _table_from_array(next(iter(arrays.values())), names, path)


def _table_from_array(array: NDArray[Any], names: NDArray[Any] | None, path: Path) -> Any:
    if array.ndim != 2 or array.dtype.kind not in "biufSU":
        raise InputError(f"the array in '{path}' is {array.ndim}-d {array.dtype}; give a 2-d array of numbers")
    given = default_names(array.shape[1]) if names is None else tuple(str(name) for name in names.ravel())
    if len(given) != array.shape[1]:
        raise InputError(
            f"'{path}' has {plural(len(given), 'name')} for {plural(array.shape[1], 'column')}; name each"
        )
    numeric = array.dtype.kind in "iuf"
    columns = np.ascontiguousarray(array.T, dtype=np.float64 if numeric else None)  # any byte order and width
    return pa.table([pa.array(column) for column in columns], names=list(given))
