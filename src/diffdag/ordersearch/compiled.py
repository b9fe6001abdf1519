"""One way to compile: numba, cached on disk, without the interpreter's lock so that threads run side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile on first use; later processes read the result from the cache."""
    # Sums may be reordered (so that they are vectorised); nothing is assumed about infinities.
    loose = {"reassoc", "contract"}
    return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=loose)(function))
