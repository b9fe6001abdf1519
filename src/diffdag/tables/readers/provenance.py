"""Which file a table was read from, and which line of it a row is, so that errors can name them.

An Arrow table carries this in the metadata of its schema, which outlive columns and rows taken from it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from diffdag._base.arrays import BoolArray

_KEY, _KEPT = b"diffdag", b"diffdag rows"


@dataclass(frozen=True)
class Origin:
    """Where a table comes from."""

    path: str  # as the user wrote it
    rows: int  # of the table: if it has others now, somebody has taken some, and nobody knows which
    lines: bool = False  # whether the file has lines
    decimal: str = "."  # what stands before decimals in it
    group: str | None = None  # whose rows these are
    turned: bool = False  # whether rows of the table are columns of the file

    @property
    def label(self) -> str:
        """What messages call the table."""
        return f"'{self.path}'" if self.group is None else f"group '{self.group}'"


def mark_origin(
    table: Any, path: Path, *, lines: bool = False, decimal: str = ".", turned: bool = False
) -> Any:
    """Let a table that was read know its file."""
    return _marked(table, Origin(str(path), table.num_rows, lines, decimal, turned=turned))


def mark_group(part: Any, whole: Any, kept: BoolArray, group: str) -> Any:
    """Let some rows of a table know their file, and which rows of it they are."""
    origin = origin_of(whole)
    if origin is None or origin.group is not None:
        return _marked(part, None)
    found = replace(origin, rows=part.num_rows, group=group)
    return _marked(part, found, np.packbits(kept).tobytes())


def _marked(table: Any, origin: Origin | None, kept: bytes | None = None) -> Any:
    metadata = {key: value for key, value in (table.schema.metadata or {}).items() if key not in (_KEY, _KEPT)}
    if origin is not None:
        metadata[_KEY] = json.dumps(asdict(origin)).encode()
    if kept is not None:
        metadata[_KEPT] = kept
    return table.replace_schema_metadata(metadata)


def origin_of(table: Any) -> Origin | None:
    """The origin of a table, None if it is not known."""
    if not isinstance(table, pa.Table) or _KEY not in (table.schema.metadata or {}):
        return None
    origin = Origin(**json.loads(table.schema.metadata[_KEY]))
    return origin if origin.rows == table.num_rows else None


def place_of(table: Any, row: int, value: object) -> str:
    """In words, which line of which file holds a value; empty if that is not known. Rows count from 1."""
    origin = origin_of(table)
    if origin is None:
        return ""
    kept = table.schema.metadata.get(_KEPT)
    if kept is not None:
        row = int(np.flatnonzero(np.unpackbits(np.frombuffer(kept, np.uint8)))[row - 1]) + 1
    if origin.turned:
        return f"column {row + 1} of '{origin.path}'"
    if not origin.lines:
        return f"row {row} of '{origin.path}'"
    return line_words(Path(origin.path), row, str(value))


def line_words(path: Path, row: int, value: str = "") -> str:
    """Line of a text file for a row of its table; empty if `value` is not there, as after sorting.

    Both are counted from 1; the header is no row, nor is a line without anything in it.
    """
    with open_text(path) as file:
        filled = ((number, line) for number, line in enumerate(file, start=1) if line != "\n")
        number, line = next(islice(filled, row, None), (0, ""))
    return f"line {number} of '{path}'" if number and value in line else ""


def open_text(path: Path) -> Any:
    """A text file, unpacked, with any line ends; bytes that are not UTF-8 become lone surrogates."""
    opener: Callable[..., Any] = gzip.open if path.suffix.lower() == ".gz" else open
    return opener(path, "rt", encoding="utf-8-sig", errors="surrogateescape")
