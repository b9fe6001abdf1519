"""What a path holds: one table, files of rows to be reduced, or saved moments."""

from __future__ import annotations

import contextlib
import glob
import zipfile
from pathlib import Path
from typing import Literal

from diffdag.tables.moments import KEYS, MORE_KEYS
from diffdag.tables.readers.files import check_file

Holds = Literal["table", "stream", "moments"]


def what_it_holds(path: Path) -> Holds:
    """Tell what a path holds, without reading it; no file, and an empty one, are refused.

    A stream is a folder or a pattern such as ``"a/*.parquet"``: files of any number of rows. Saved moments are
    told by the entries of the archive.
    """
    if path.is_dir() or (not path.exists() and glob.has_magic(str(path))):
        return "stream"
    check_file(path)
    if path.suffix.lower() == ".npz":
        with contextlib.suppress(zipfile.BadZipFile, OSError), zipfile.ZipFile(path) as archive:
            entries = {name.removesuffix(".npy") for name in archive.namelist()}
            if entries.issuperset(KEYS) and entries.issubset((*KEYS, *MORE_KEYS)):
                return "moments"
    return "table"
