"""NPY and NPZ files: no pickles, and no memory for what a damaged header only claims to hold."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

_TIGHTEST = 1032  # no deflated byte stands for more


def load_array(path: Path) -> NDArray[Any]:
    """Read an NPY file; a ValueError says that it is none, is cut off, or holds Python objects."""
    with path.open("rb") as file:
        _check_claim(file, path.stat().st_size)
        file.seek(0)
        array: NDArray[Any] = np.load(file, allow_pickle=False)
    return array


def load_arrays(path: Path, names: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
    """Read the arrays of an NPZ file, all or some; errors as for `load_array`, or those of the archive."""
    size = path.stat().st_size
    with zipfile.ZipFile(path) as members:
        for info in members.infolist():
            with members.open(info) as member:
                _check_claim(member, min(info.file_size, _TIGHTEST * size))
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return {name: archive[name] for name in (archive.files if names is None else names)}


def _check_claim(stream: IO[bytes], size: int) -> None:
    """Refuse an array that cannot be in so many bytes."""
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(stream)
    # Texts of no length take no bytes in the file, but do so in memory.
    if any(length < 0 for length in shape) or math.prod(shape) * max(1, dtype.itemsize) > size:
        raise ValueError(f"its header speaks of {' x '.join(map(str, shape))} values, which it does not hold")
