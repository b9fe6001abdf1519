"""Files that the browser sends: to disk under names of our own, as far as the limit allows."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from diffdag._base.errors import InputError
from diffdag.report.format import printable
from diffdag.tables.readers.endings import ARRAYS, FEATHER, PARQUET, TEXT, check_file_type

ENDINGS = (*TEXT, *(f"{ending}.gz" for ending in TEXT), *PARQUET, *FEATHER, *ARRAYS)
MEGABYTE = 1_000_000
MOST = 24  # files kept at a time; what was not used for longest goes first
ROOM = 4  # times the limit of one file: what all of them may take
AT_ONCE = 4  # files on their way
LONGEST = 200  # characters of a name that are shown


class TooLargeError(InputError):
    """A file beyond the limit."""


class UnknownError(InputError):
    """Something that was asked for and is not, or no longer, here."""


@dataclass(frozen=True)
class Upload:
    """A file of the user's, in a folder of ours."""

    key: str
    name: str  # as the user's computer calls it, for people only
    path: Path
    size: int
    label: str  # what to call its condition


class Uploads:
    """The files of one session, of `limit` megabytes at most, each in a folder with a random name."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self.limit = folder, limit
        self._files: dict[str, Upload] = {}  # the one used last comes last
        self._arriving = 0
        self._lock = threading.Lock()

    async def receive(self, name: str, chunks: AsyncIterator[bytes], length: int | None) -> Upload:
        """Store what comes; nothing of it stays if it is too long or breaks off.

        `length` is what the browser says; the `name` has to end in one of `ENDINGS`.
        """
        path = self._place(name)
        if length is not None:
            self._check_size(name, length)
        if self._arriving >= AT_ONCE:
            raise InputError(f"{AT_ONCE} files are on their way; wait until one of them is here")
        path.parent.mkdir()
        self._arriving += 1
        try:
            size = await self._write(name, path, chunks)
        except BaseException as error:
            shutil.rmtree(path.parent, ignore_errors=True)
            if not isinstance(error, OSError):
                raise
            why = (error.strerror or str(error)).lower()
            raise InputError(f"{_quoted(name)} cannot be stored ({why}); make room on the disk") from None
        finally:
            self._arriving -= 1
        return self.add(name, path, size)

    async def _write(self, name: str, path: Path, chunks: AsyncIterator[bytes]) -> int:
        size, buffer = 0, bytearray()
        with path.open("xb") as file:
            async for chunk in chunks:
                size += len(chunk)
                self._check_size(name, size)
                buffer += chunk
                if len(buffer) >= MEGABYTE:
                    await run_in_threadpool(file.write, bytes(buffer))
                    buffer.clear()
            await run_in_threadpool(file.write, bytes(buffer))
        return size

    def _place(self, name: str) -> Path:
        """Where to put a file: nothing of the user's name but its ending, one of ours, is in it."""
        check_file_type(printable(name)[:LONGEST])
        ending = _ending(name)
        if not ending:
            raise InputError(f"{_quoted(name)} has no known file type; give one of {', '.join(ENDINGS)}")
        return self.folder / secrets.token_hex(16) / f"table{ending}"

    def _check_size(self, name: str, size: int) -> None:
        if size > self.limit * MEGABYTE:
            raise TooLargeError(
                f"{_quoted(name)} is larger than {self.limit} MB, the limit of this page; start "
                "diffdag serve with a larger --limit, or use the command line: diffdag moments reduces files "
                "of any size, and diffdag fit compares them"
            )

    def add(self, name: str, path: Path, size: int) -> Upload:
        """Take a complete file in."""
        upload = Upload(path.parent.name, printable(name)[:LONGEST], path, size, label_of(name)[:LONGEST])
        with self._lock:
            self._files[upload.key] = upload
            surplus = self._surplus()
        for key in surplus:
            self.forget(key)
        return upload

    def _surplus(self) -> list[str]:
        """Files for which there is no room, next to those that were used since."""
        room = ROOM * self.limit * MEGABYTE
        surplus = []
        for place, (key, upload) in enumerate(reversed(self._files.items())):
            room -= upload.size
            if place >= MOST or room < 0:
                surplus.append(key)
        return surplus

    def find(self, key: str) -> Upload:
        """Find one of the files."""
        with self._lock:
            upload = self._files.pop(key, None)
            if upload is None:
                raise UnknownError("this file is not here any more; choose it again")
            self._files[key] = upload
        return upload

    def forget(self, key: str) -> None:
        """Remove a file, if it is there."""
        with self._lock:
            upload = self._files.pop(key, None)
        if upload is not None:
            shutil.rmtree(upload.path.parent, ignore_errors=True)


def _quoted(name: str) -> str:
    return f"'{printable(name)[:LONGEST]}'"


def _ending(name: str) -> str:
    """The ending of a name, if it is one of ours; else nothing."""
    return max((ending for ending in ENDINGS if name.lower().endswith(ending)), key=len, default="")


def label_of(name: str) -> str:
    r"""What to call the condition in a file.

    >>> label_of("C:\\study\\week.2.csv.gz")
    'week.2'
    """
    last = re.split(r"[/\\]", name)[-1]
    return printable(last[: len(last) - len(_ending(last))] or last)


def link(source: Path, target: Path) -> None:
    """Give a file a second name, so that it stays while somebody needs it."""
    with contextlib.suppress(OSError):
        os.link(source, target)
        return
    shutil.copyfile(source, target)
