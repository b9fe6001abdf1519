"""Files of rows -> batches of rows, in bounded memory.

A thread decodes one batch while the one before it is in use. Parquet is read page by page rather than by row
groups, which can have any size in other people's files.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.csv

from diffdag._base.errors import InputError
from diffdag.tables.readers.csv_dialect import read_header
from diffdag.tables.readers.endings import PARQUET, TEXT, kind_of
from diffdag.tables.readers.files import check_file, explaining, reading, text_options

Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Kind = Literal["parquet", "text"]
Batches = Generator[Any, None, None]

_ENDINGS: dict[Kind, tuple[str, ...]] = {"parquet": PARQUET, "text": TEXT}
_ASIDE = re.compile(r"(^|/)[._]")  # how writers of data sets mark logs and unfinished files
_BATCH_BYTES = 1 << 24
_BUFFER_BYTES = 1 << 27  # of encoded columns, all together


def find_files(source: Source, kind: Kind | None = None) -> list[Path]:
    """The files that a path, a folder, a pattern such as ``"a/*.parquet"``, or a list of them stands for."""
    items = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    files = [file for item in items for file in _expand(os.fspath(item), kind)]
    if not files:
        raise InputError("no files are given; name at least one")
    seen: set[Path] = set()
    for file in files:
        if file.resolve() in seen:
            raise InputError(f"file '{file}' is given twice, so its rows would count twice; name it once")
        seen.add(file.resolve())
    return files


def _expand(text: str, kind: Kind | None) -> list[Path]:
    path = Path(text)
    if path.is_dir():
        endings = (*PARQUET, *TEXT) if kind is None else _ENDINGS[kind]
        inside = [file for file in sorted(path.rglob("*")) if kind_of(file) in endings and file.is_file()]
        files = [file for file in inside if not _ASIDE.search(file.relative_to(path).as_posix())]
        if not files:
            raise InputError(f"folder '{path}' holds no file that ends in {', '.join(endings)}; check the path")
        return files
    if path.exists() or not glob.has_magic(text):
        return [path]
    matches = sorted(glob.glob(text, recursive=True))
    if not matches:
        raise InputError(f"no file matches '{text}'; check the pattern")
    return [
        file for match in matches for file in ([Path(match)] if Path(match).is_file() else _expand(match, kind))
    ]


class Parquet:
    """A Parquet file whose footer has been read."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq  # noqa: PLC0415 - slow to load, not needed for text

        self.path = path
        with reading(path, "Parquet"), pq.ParquetFile(path) as file:
            self.rows: int | None = file.metadata.num_rows
            self.head = file.schema_arrow.empty_table()
            _ = self.head.column_names, self.head.schema.pandas_metadata

    def batches(self, names: Sequence[str]) -> Batches:
        """Batches of rows with at least these columns."""
        import pyarrow.parquet as pq  # noqa: PLC0415

        buffer = min(1 << 20, max(1 << 14, _BUFFER_BYTES // len(names)))
        rows = max(1024, _BATCH_BYTES // (8 * len(names)))
        with (
            reading(self.path, "Parquet"),
            pq.ParquetFile(self.path, buffer_size=buffer, pre_buffer=False) as file,
        ):
            for batch in file.iter_batches(batch_size=rows, columns=list(names)):
                batch.validate(full=True)  # of texts only, which are there to be shown in messages
                yield batch


class Text:
    """A text file whose first block has been read; it decides which columns are numbers."""

    rows: int | None = None

    def __init__(self, path: Path) -> None:
        self.path, self._kind = path, kind_of(path) if kind_of(path) in TEXT else ".csv"
        with reading(path, self._kind):
            self.header = read_header(path)
            options = text_options(self.header)
            with explaining(path, options, _exhaust), pa.csv.open_csv(path, **options) as reader:
                schema = reader.schema
        # Whole numbers may be followed by others, and gaps by anything.
        numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_null)
        types = [pa.float64() if any(is_a(kind) for is_a in numbers) else kind for kind in schema.types]
        stripped = [name.strip() for name in schema.names]
        self._fields = dict(zip(stripped, zip(schema.names, types, strict=True), strict=True))
        self.head = pa.schema(list(zip(stripped, types, strict=True))).empty_table()

    def batches(self, names: Sequence[str]) -> Batches:
        """Batches of rows with these columns."""
        options = text_options(self.header)
        types = dict(self._fields[name] for name in names)
        options["convert_options"].include_columns = list(types)
        options["convert_options"].column_types = types
        with (
            reading(self.path, self._kind),
            explaining(self.path, options, _exhaust, self.head.column_names),
            pa.csv.open_csv(self.path, **options) as reader,
        ):
            for batch in reader:
                yield batch.rename_columns(list(names))


Part = Parquet | Text


def open_part(path: Path, kind: Kind | None = None) -> Part:
    """A file whose columns are known; a `kind` of None goes by its ending."""
    check_file(path)
    ending = kind_of(path)
    if kind == "text" or (kind is None and ending in TEXT):
        return Text(path)
    if kind == "parquet" or (kind is None and ending in PARQUET and path.suffix.lower() != ".gz"):
        return Parquet(path)
    raise InputError(f"'{path}' cannot be read row by row; give one of {', '.join((*PARQUET, *TEXT))}")


def _exhaust(path: Path, **options: Any) -> None:
    with pa.csv.open_csv(path, **options) as reader:
        deque(reader, maxlen=0)


def ahead(batches: Batches) -> Batches:
    """Decode each batch in a thread while the one before it is in use."""
    with contextlib.closing(batches), ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = thread.submit(next, batches, None)
            yield batch
