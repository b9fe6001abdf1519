"""Run somebody's method: whatever it does, the others go on."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from types import FrameType

from diffdag.scoring import BoolArray


class TimeUpError(Exception):
    """The time limit was reached."""


def attempt(run: Callable[[], BoolArray], limit: float | None) -> tuple[BoolArray | None, str, float]:
    """The graph, or None and why there is none; and the seconds it took."""
    start = time.perf_counter()
    graph, why = None, ""
    try:
        with warnings.catch_warnings(), deadline(limit):
            warnings.simplefilter("ignore")
            graph = run()
    except TimeUpError:
        why = f"longer than {limit:g} s"
    except Exception as error:  # whatever a method raises is its answer
        why = f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
    return graph, why, time.perf_counter() - start


@contextlib.contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Raise `TimeUpError` in the block once it has run for so long.

    By an alarm signal, so in the main thread of a process and where the system has one; elsewhere there is no
    limit. Compiled code that never returns to Python is not stopped before it does.
    """
    main = threading.current_thread() is threading.main_thread()
    if seconds is None or not main or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeUpError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
