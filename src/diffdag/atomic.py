"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path


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
    content = data.encode("utf-8") if isinstance(data, str) else data
    temporary = target.with_name(f".{target.name[:40]}.{secrets.token_hex(6)}.tmp")
    # O_EXCL: never someone else's file; 0o666: the permissions that the user's umask allows.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    return target
