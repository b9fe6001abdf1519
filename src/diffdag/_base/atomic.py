"""Writing files so that a reader never sees half of one, nor files of two answers side by side."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PATIENCE = 10.0  # seconds to wait for another program that writes to the same folder
PAUSE = 0.02


def write_atomic(path: str | os.PathLike[str], data: str | bytes) -> Path:
    """Write a file completely or not at all.

    The data goes to a temporary file in the same folder, is flushed to disk, and then takes the
    place of `path` in one step. On failure the temporary file is removed and an older `path` stays
    as it was.

    Parameters
    ----------
    path : path-like
        The file to write; its folder must exist.
    data : str or bytes
        Text is stored as UTF-8, with line ends as they are.

    Returns
    -------
    Path
        The path written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomic(Path(folder) / "note.txt", "done").read_text()
    'done'
    """
    target = Path(path)
    return _write(target.parent, {target: data})[0]


def write_together(folder: str | os.PathLike[str], contents: Mapping[str, str | bytes]) -> list[Path]:
    """Write the files of one answer: where one cannot be written, all older ones stay as they were.

    Programs that write to the same folder at the same time take turns, so that all files are of one of them.

    Parameters
    ----------
    folder : path-like
        Created where missing, as are the folders in the names.
    contents : mapping of str to str or bytes
        What each file is to hold, by its name in the folder.

    Returns
    -------
    list of Path
        The paths written.
    """
    place = Path(folder)
    targets = {place / name: data for name, data in contents.items()}
    for parent in dict.fromkeys([place, *(target.parent for target in targets)]):
        parent.mkdir(parents=True, exist_ok=True)
    return _write(place, targets)


def _write(place: Path, targets: Mapping[Path, str | bytes]) -> list[Path]:
    temporary = {target: target.with_name(_temporary_name(target, secrets.token_hex(6))) for target in targets}
    with folder_lock(place) as alone:
        if alone:
            _remove_leftovers(list(targets))
        try:
            for target, data in targets.items():
                _write_new(temporary[target], data.encode("utf-8") if isinstance(data, str) else data)
            for target in targets:
                if target.is_dir():
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
            for target, written in temporary.items():
                os.replace(written, target)
        except BaseException:
            for path in temporary.values():
                with contextlib.suppress(OSError):
                    path.unlink()
            raise
    return list(targets)


def _temporary_name(target: Path, mark: str) -> str:
    return f".{target.name[:40]}.{mark}.tmp"


def _write_new(path: Path, content: bytes) -> None:
    # O_EXCL: never someone else's file; 0o666: the permissions that the user's umask allows.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        attach_path(error, path.parent)
        raise


def attach_path(error: OSError, place: Path) -> None:
    """Let an error say where a write failed, which those of the system do not."""
    if error.errno is not None and error.filename is None:
        error.filename = str(place)


def _remove_leftovers(targets: Sequence[Path]) -> None:
    """Remove the temporary files of earlier programs that were killed while they wrote the same files."""
    for parent in {target.parent for target in targets}:
        names = {re.escape(target.name[:40]) for target in targets if target.parent == parent}
        ours = re.compile(rf"\.({'|'.join(sorted(names))})\.[0-9a-f]{{12}}\.tmp")
        with contextlib.suppress(OSError):
            for name in os.listdir(parent):
                if ours.fullmatch(name):
                    (parent / name).unlink()


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[bool]:
    """Hold a lock on a folder; whether that went well, which not every file system offers.

    The system lets go of it when the program ends in whatever way, and no file stays behind.
    """
    try:
        import fcntl  # noqa: PLC0415 - not on Windows

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        yield False
        return
    try:
        until, alone = time.monotonic() + PATIENCE, False
        while not alone and time.monotonic() < until:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                alone = True
            except BlockingIOError:
                time.sleep(PAUSE)
            except OSError:
                break
        yield alone
    finally:
        os.close(handle)
