"""The folder of a session, for this user's eyes only; folders of servers that were killed are removed.

A server holds a lock in its folder. The system lets go of it when the server ends in whatever way, so a folder
whose lock is free belongs to nobody.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

PREFIX = "diffdag-serve-"
LOCK = "lock"


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
            if _is_ours(path) and _is_free(path / LOCK):
                shutil.rmtree(path, ignore_errors=True)


def _is_ours(path: Path) -> bool:
    found = path.lstat()  # not what a link points to
    return stat.S_ISDIR(found.st_mode) and hasattr(os, "getuid") and found.st_uid == os.getuid()


def _is_free(lock: Path) -> bool:
    handle = os.open(lock, os.O_RDWR)
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
