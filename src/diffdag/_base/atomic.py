"""Writing files so that a reader never sees half of one, nor, in one folder, files of two results."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import secrets
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

PATIENCE = 10.0  # seconds to wait for another program that writes to the same folder
PAUSE = 0.02
_KINDS = ("new", "old")  # of temporary folders
_HERE, _EXCHANGE = -100, 2  # what Linux calls AT_FDCWD and RENAME_EXCHANGE
JOURNAL = ".journal"  # ending of files that programs append to, kept beside a result


def write_atomic(path: str | os.PathLike[str], data: str | bytes) -> Path:
    """Write a file completely or not at all; its folder must exist.

    The data goes to a temporary file in the same folder, is flushed to disk, and then takes the
    place of `path` in one step. On failure the temporary file is removed and an older `path` stays
    as it was. Text is stored as UTF-8, with line ends as they are.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomic(Path(folder) / "note.txt", "done").read_text()
    'done'
    """
    return write_all({Path(path): data})[0]


def write_all(contents: Mapping[Path, str | bytes]) -> list[Path]:
    """Write all of some files or none, each as `write_atomic` does; their folders must exist."""
    _replace(next(iter(contents)).parent, contents)
    return list(contents)


def write_together(
    folder: str | os.PathLike[str], contents: Mapping[str, str | bytes], stale: Collection[str] = ()
) -> list[Path]:
    """Write the files of one result: where one cannot be written, all older ones stay as they were.

    If the folder is new, or holds nothing but files that are written now, `stale` ones and journals, a folder
    with the new files takes its place, on Linux in one step; elsewhere it is not there for an instant.
    Otherwise, or where the system does not let folders be renamed, all older files are put aside before the
    first new one comes: killed in between, some are missing. So a folder never holds files of two results.
    Programs that write to the same folder at the same time take turns.

    `contents` is what each file is to hold, by its name in the folder; folders are created where missing.
    `stale` are files of an earlier result, which go.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    real = place.resolve()
    targets = {place / name: data for name, data in contents.items()}
    with folder_lock(real.parent) as alone:
        if not (alone and _swap(real, contents, stale)):
            for parent in dict.fromkeys(target.parent for target in targets):
                parent.mkdir(parents=True, exist_ok=True)
            _replace(place, targets, [place / name for name in stale if name not in contents])
    return list(targets)


def _swap(place: Path, contents: Mapping[str, str | bytes], stale: Collection[str]) -> bool:
    """Let a folder with the new files take the place of the older one; whether that can be done."""
    if place in (Path.cwd(), *Path.cwd().parents):
        return False
    mark = secrets.token_hex(6)
    new, old = (place.with_name(f"{place.name}.{mark}{kind}.tmp") for kind in _KINDS)
    try:
        if not _prepare(place, new, {*contents, *stale}):
            return False
        for name, data in contents.items():
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            _write_new(new / name, data, place / name)
        return _exchange(place, new, old)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _prepare(place: Path, new: Path, own: Collection[str]) -> bool:
    """Make a folder to replace another, with its journals; whether all else in that one is `own` files."""
    with contextlib.suppress(OSError):  # the folder around it cannot be written to, or there are no links
        for left in _leftovers(place.parent, place.name, *_KINDS):
            shutil.rmtree(left, ignore_errors=True)
        new.mkdir()
        before, after = place.stat(), new.stat()
        new.chmod(before.st_mode)
        if (before.st_uid, before.st_gid) != (after.st_uid, after.st_gid):
            return False
        for path in place.rglob("*"):
            name = path.relative_to(place)
            if path.is_dir() and not path.is_symlink():
                if not any(path.iterdir()):
                    return False
            elif name.as_posix() not in own:
                if path.suffix != JOURNAL:
                    return False
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                os.link(path, new / name)  # not a copy: another program may be writing to it
        return True
    return False


def _exchange(place: Path, new: Path, old: Path) -> bool:
    """Move a folder out of the way, and another one into its place; whether the system allows that."""
    import ctypes  # noqa: PLC0415 - seldom used

    with contextlib.suppress(AttributeError, OSError, TypeError):  # as other systems say that there is no such
        both = [os.fsencode(path) for path in (place, new)]
        if ctypes.CDLL(None).renameat2(_HERE, both[0], _HERE, both[1], _EXCHANGE) == 0:
            return True
    try:
        os.rename(place, old)
        os.rename(new, place)
    except OSError:  # a mount point, say
        return False
    finally:
        if not place.exists():
            os.rename(old, place)
    shutil.rmtree(old, ignore_errors=True)
    return True


def _replace(place: Path, targets: Mapping[Path, str | bytes], stale: Collection[Path] = ()) -> None:
    """Write all files next to those that they replace, then put them in place of these and of `stale` ones."""
    temporary = {target: _hidden(target) for target in targets}
    aside: dict[Path, Path] = {}
    put: list[Path] = []
    with folder_lock(place) as alone:
        for path in (*targets, *stale) if alone else ():
            with contextlib.suppress(OSError):
                for left in _leftovers(path.parent, f".{path.name[:40]}", ""):
                    left.unlink()
        try:
            for target, data in targets.items():
                _write_new(temporary[target], data, target)
            for target in targets:
                if target.is_dir():
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
            if len(targets) + len(stale) > 1:  # of one file, the older one is there until the new one is
                older = [path for path in (*targets, *stale) if path.is_file() or path.is_symlink()]
                aside = {path: _hidden(path) for path in older}
            for path, hidden in aside.items():
                os.replace(path, hidden)
            for target, written in temporary.items():
                put.append(target)
                os.replace(written, target)
        except BaseException:
            _remove([*(put if len(targets) > 1 else ()), *temporary.values()])
            for path, hidden in aside.items():
                with contextlib.suppress(OSError):  # it was not put aside yet
                    os.replace(hidden, path)
            raise
        _remove(aside.values())
        for folder in {path.parent for path in stale} - {place}:
            with contextlib.suppress(OSError):  # something of somebody else's is in it
                folder.rmdir()


def _hidden(path: Path) -> Path:
    """A name beside a file that nobody else uses."""
    return path.with_name(f".{path.name[:40]}.{secrets.token_hex(6)}.tmp")


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()


def _leftovers(folder: Path, start: str, *ends: str) -> list[Path]:
    """What programs that were killed while they wrote the same files have left behind."""
    mark = f"{glob.escape(start)}.{'[0-9a-f]' * 12}"
    return [left for end in ends for left in folder.glob(f"{mark}{end}.tmp")]


def _write_new(path: Path, data: str | bytes, target: Path) -> None:
    """Write a temporary file; an error names the one that it is to become."""
    try:
        with path.open("xb") as stream:  # never someone else's file
            stream.write(data.encode("utf-8") if isinstance(data, str) else data)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        if error.errno is not None:
            error.filename = str(target)
        raise


def attach_path(error: OSError, place: Path) -> None:
    """Let an error say where a write failed, which those of the system do not."""
    if error.errno is not None and error.filename is None:
        error.filename = str(place)


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
