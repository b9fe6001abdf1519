"""The folder of a session, for this user's eyes only; folders of servers that were killed are removed.

A server holds a lock in its folder. The system lets go of it when the server ends in whatever way, so a folder
whose lock is free belongs to nobody.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import shutil
import stat
import tempfile
import time
from pathlib import Path

from diffdag._base.atomic import folder_lock

PREFIX = "diffdag-serve-"
LOCK = "lock"
NEW = 60.0  # seconds within which a server has taken the lock of its folder


class Folder:
    """A new temporary folder that lives until `close`."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        fresh = self.path / "new lock"
        self._lock = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        _locked(self._lock)
        fresh.rename(self.path / LOCK)  # so that nobody ever finds it free

    def close(self) -> None:
        """Remove the folder; once is enough, more does no harm."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_abandoned() -> None:
    """Remove the folders of this user's servers that are gone."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            found = path.lstat()  # not what a link points to
            ours = stat.S_ISDIR(found.st_mode) and hasattr(os, "getuid") and found.st_uid == os.getuid()
            if ours and _is_abandoned(path, found.st_mtime):
                shutil.rmtree(path, ignore_errors=True)


def _is_abandoned(path: Path, changed: float) -> bool:
    try:
        handle = os.open(path / LOCK, os.O_RDWR)
    except FileNotFoundError:  # killed before it had one, or about to take it
        return time.time() - changed > NEW
    try:
        return _locked(handle)
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    """Take a lock; whether that went well."""
    try:
        import fcntl  # noqa: PLC0415 - not on Windows, where nothing is cleared up
    except ImportError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def next_place(out: Path) -> Path:
    """The first of answer-1, answer-2, ... that is not there yet."""
    return next(place for k in itertools.count(1) if not (place := out / f"answer-{k}").exists())


def keep_answer(answer: Path, out: Path) -> Path:
    """Copy a result into a folder of its own, completely or not at all."""
    part = out / f".answer-{secrets.token_hex(6)}.part"
    with folder_lock(out) as alone:
        for left in out.glob(".answer-*.part") if alone else ():  # by servers that were killed
            shutil.rmtree(left, ignore_errors=True)
        try:
            shutil.copytree(answer, part)
            return part.rename(next_place(out))
        finally:
            shutil.rmtree(part, ignore_errors=True)
