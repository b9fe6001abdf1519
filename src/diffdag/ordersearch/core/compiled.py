"""One way to compile: numba, without the interpreter's lock so that threads run side by side.

Entry points (`compiled`) are cached on disk; what they call (`inner`) is compiled into them. A function takes
as long to compile as all that it calls, once more, so that every step in a chain of calls costs seconds: where
one serves few callers it is copied into them (`spliced`) before anything is compiled. numba notices a change of
the file an entry point is in, but not of the files it calls: those caches are dropped here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be reordered, so that they are vectorised; nothing is assumed about infinities.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}
# Nobody calls these from Python.
UNWRAPPED: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def compiled(function: Function) -> Function:
    """Compile on first use; later processes read the result from the cache, where there can be one."""
    try:
        made = numba.njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # no folder for it can be written to
        made = numba.njit(**OPTIONS)(function)
    _forgive(getattr(made, "_cache", None))
    return cast(Function, made)


def _forgive(cache: Any) -> None:
    """Let a cache that is damaged, or that a full disk cannot take, cost time and nothing else."""
    if not hasattr(cache, "load_overload"):
        return
    load, save = cache.load_overload, cache.save_overload

    def load_what_is_sound(*about: Any) -> Any:
        try:
            return load(*about)
        except Exception:  # the many ways in which bytes can fail to be what was written
            with contextlib.suppress(OSError):
                cache.flush()
            return None

    def save_if_there_is_room(*about: Any) -> None:
        with contextlib.suppress(OSError):
            save(*about)

    cache.load_overload, cache.save_overload = load_what_is_sound, save_if_there_is_room


def inner(function: Function) -> Function:
    """Compile as a part of entry points, without a cache of its own."""
    return cast(Function, numba.njit(**OPTIONS, **UNWRAPPED)(function))


def spliced(function: Function) -> Function:
    """Copy into the functions that call it, and compile there."""
    return cast(Function, numba.njit(inline="always", **OPTIONS)(function))


def whole(value: int) -> int:
    """A number that numba takes for any whole number; it compiles a version for each literal."""
    return cast(int, np.int64(value))


ZERO, NONE = whole(0), whole(-1)


def _forget_stale_caches() -> None:
    folder = Path(__file__).parent
    with contextlib.suppress(OSError):  # a folder that cannot be written to has no caches of ours
        newest = max(file.stat().st_mtime for file in folder.glob("*.py"))
        # Entry points stand here and in the room above.
        for index in (*folder.glob("__pycache__/*.nbi"), *folder.parent.glob("__pycache__/*.nbi")):
            if index.stat().st_mtime < newest:
                index.unlink(missing_ok=True)


_forget_stale_caches()
