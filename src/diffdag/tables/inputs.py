"""What a path holds: one table, files of rows to be reduced, or saved moments."""

from __future__ import annotations

import glob
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from diffdag.tables.moments import Moments, Streamed, holds_moments, stream_moments
from diffdag.tables.readers.files import check_file, read_table


@dataclass(frozen=True)
class Stream:
    """A folder or a pattern such as ``"a/*.parquet"``: files of any number of rows, read in bounded memory."""

    path: Path

    def reduce(self, **choice: Any) -> Streamed:
        """Moments of all rows; see `Moments.from_parquet` for the `choice` of columns and rows."""
        return stream_moments(self.path, **choice)


@dataclass(frozen=True)
class Rows(Stream):
    """One file with a table; it can be reduced as well."""

    def read(self, **options: Any) -> Any:
        """Read the table; see `read_table` for the options."""
        return read_table(self.path, **options)


@dataclass(frozen=True)
class SavedMoments:
    """A file that `Moments.save` wrote."""

    path: Path

    def load(self) -> Moments:
        """Read the moments."""
        return Moments.load(self.path)


Input: TypeAlias = Stream | SavedMoments  # rows are a stream of one file


def open_input(path: Path) -> Input:
    """Tell what a path holds, without reading it; no file, and an empty one, are refused."""
    if path.is_dir() or (not path.exists() and glob.has_magic(str(path))):
        return Stream(path)
    check_file(path)
    return SavedMoments(path) if holds_moments(path) else Rows(path)
