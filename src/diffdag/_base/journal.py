"""The rows of a long run, kept as they come: an interrupted run loses at most the row in flight.

One JSON object per line. The first line says what the run is; another with other settings is refused. Every
row is on the disk before the next one is asked for. What a killed run left of its last line is cut off.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from diffdag._base.atomic import attach_path
from diffdag._base.errors import InputError
from diffdag._base.words import Option

Row = dict[str, Any]


class Journal:
    """A file of rows that only grows.

    The rows belong to the settings in `about`, JSON values only; the columns in `key` tell them apart.
    """

    def __init__(self, path: Path, about: Mapping[str, Any], key: tuple[str, ...]) -> None:
        self.path = path
        self.key = key
        self._about = json.loads(json.dumps(dict(about)))
        self._file: IO[bytes] | None = None
        self.rows: dict[tuple[Any, ...], Row] = {}

    @contextlib.contextmanager
    def open(self) -> Iterator[Journal]:
        """Read what is there, and hold the file for appending."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b", buffering=0) as file:
            _lock(file, self.path)
            file.seek(0)
            whole = self._parse(file.read())
            file.truncate(whole)
            if not whole:
                self._write(file, self._about)
            self._file = file
            try:
                yield self
            finally:
                self._file = None

    def check(self, unknown: Collection[str] = ()) -> None:
        """Refuse what `open` would refuse, as far as it is known yet, before work is done in vain."""
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            _lock(file, self.path)
            self._parse(file.read(), unknown)

    def append(self, row: Row) -> None:
        """Write one row and wait until it is on the disk."""
        if self._file is None:
            raise ValueError("the journal is not open")
        self._write(self._file, row)
        self.rows[self.key_of(row)] = row

    def key_of(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """What tells this row from the others."""
        return tuple(row[name] for name in self.key)

    def _parse(self, content: bytes, unknown: Collection[str] = ()) -> int:
        """Take over the rows; how many bytes are whole lines."""
        whole = content.rfind(b"\n") + 1
        if not whole and (unknown or _line(self._about).startswith(content)):
            return 0  # nothing, or killed while the first line was written
        try:
            about, *rows = (json.loads(line) for line in content[:whole].splitlines())
            self.rows = {self.key_of(row): row for row in rows}
            same = {**about, **{name: self._about[name] for name in unknown}} == self._about
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{self.path}: not a journal of this program; give another ",
                Option("journal"),
                ", or remove it",
            ) from None
        if not same:
            raise InputError(
                f"{self.path}: a run with other settings, or on other data, was kept here; give another ",
                Option("journal"),
                ", or remove the journals in this folder to begin anew",
            )
        return whole

    def _write(self, file: IO[bytes], value: Mapping[str, Any]) -> None:
        before, rest = os.fstat(file.fileno()).st_size, _line(value)
        try:
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        except OSError as error:
            attach_path(error, self.path)
            with contextlib.suppress(OSError):
                file.truncate(before)
            raise


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, allow_nan=False).encode() + b"\n"


def _lock(file: IO[bytes], path: Path) -> None:
    """Refuse to share the file with another running program (where the system can tell)."""
    try:
        import fcntl  # noqa: PLC0415 - not on Windows
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InputError(
            f"{path}: another run is writing here; wait for it, or give another ", Option("journal")
        ) from None
