"""Run somebody's method: whatever it does, the others go on."""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from functools import cache
from types import FrameType
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from diffdag.comparators.method import Method
from diffdag.moments import Moments
from diffdag.scoring import BoolArray
from diffdag.validation import InputError, default_names

AGAIN = 0.5  # seconds until the alarm rings again, should the first have been lost in somebody's callback


WARMING = 300.0  # seconds that importing and compiling may take
COMPILED = 16  # so many variables take every compiled path that more would take


class TimeUp(BaseException):
    """The time limit was reached; not an `Exception`, which libraries catch."""


def attempt(
    method: Method, arguments: tuple[Any, ...], limit: float | None
) -> tuple[BoolArray | None, str, float]:
    """The graph, or None and why there is none; and the seconds it took.

    The limit is on processor time, so that a busy machine changes no answer. Compiling does not count.
    """
    warm_up(method, min(len(arguments[0].names), COMPILED))
    start = time.perf_counter()
    graph, why = None, ""
    try:
        with _undisturbed(), deadline(limit):
            graph = method.run(*arguments)
    except TimeUp:
        graph, why = None, f"longer than {limit:g} s"
    except InputError as error:
        why = str(error)
    except Exception as error:  # whatever a method raises is its answer
        why = f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
    return graph, why, time.perf_counter() - start


@cache
def warm_up(method: Method, p: int) -> None:
    """Let a method import and compile what it needs, once a process, on variables that do not change."""
    rng = np.random.default_rng(p)
    rows = 20 * p + 100
    arguments: list[Any] = [Moments.from_array(rng.standard_normal((rows, p)), default_names(p)) for _ in "12"]
    if method.knows_order:
        arguments.append(tuple(range(p)))
    with contextlib.suppress(Exception, TimeUp), _undisturbed(), deadline(WARMING):
        method.run(*arguments)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Without warnings, on one core."""
    with warnings.catch_warnings(), threadpool_limits(limits=1):
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Raise `TimeUp` in the block once it has taken so much processor time.

    By an alarm signal, so in the main thread of a process and where the system has one; elsewhere there is no
    limit. Compiled code that never returns to Python is not stopped before it does.
    """
    main = threading.current_thread() is threading.main_thread()
    if seconds is None or math.isinf(seconds) or not main or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
