"""Run one comparator, within a time limit; an error in it leaves the others running."""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import math
import queue
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from types import FrameType
from typing import Any, TypeVar, cast

import numpy as np

from diffdag._base.arrays import BoolArray
from diffdag._base.checks import default_names
from diffdag._base.errors import InputError
from diffdag._base.parallel import one_blas_thread
from diffdag.reproduce.methods.method import Method
from diffdag.tables.moments import Moments

T = TypeVar("T")

AGAIN = 0.5  # seconds until the alarm rings again, should the first have been lost in a callback of the method
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
        with _undisturbed():
            graph = within(limit, partial(method.run, *arguments))
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
    with contextlib.suppress(Exception, TimeUp), _undisturbed():
        within(WARMING, partial(method.run, *arguments))


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Without warnings, on one core."""
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        yield


def within(seconds: float | None, work: Callable[[], T]) -> T:
    """The answer of ``work()``, or `TimeUp` once it has taken so much processor time.

    In the main thread of a process by an alarm signal; in other threads, as on a Dask worker, by an exception
    sent to a thread of its own. Where the system has neither there is no limit. Compiled code that never
    returns to Python is not stopped before it does.
    """
    if seconds is None or math.isinf(seconds):
        return work()
    if threading.current_thread() is threading.main_thread():
        with _alarm(seconds):
            return work()
    return _in_a_thread(seconds, work) if hasattr(time, "pthread_getcpuclockid") else work()


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    if not hasattr(signal, "setitimer"):
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


def _in_a_thread(seconds: float, work: Callable[[], T]) -> T:
    """Work in a new thread, so that an exception that comes late hits nothing else."""
    clocks: queue.SimpleQueue[int] = queue.SimpleQueue()
    outcome: list[tuple[T | None, BaseException | None]] = []
    context = contextvars.copy_context()

    def body() -> None:
        with contextlib.suppress(TimeUp):
            # Asked from inside: the clock of a thread that has ended is undefined.
            clocks.put(time.pthread_getcpuclockid(threading.get_ident()))
            try:
                outcome.append((context.run(work), None))
            except TimeUp:
                pass
            except BaseException as error:  # handed on to the caller
                outcome.append((None, error))

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    clock = clocks.get()
    while thread.is_alive():
        left = seconds - _time_of(clock)
        if left <= 0:
            _send(thread, TimeUp)
        thread.join(left if left > 0 else AGAIN)
    if not outcome:
        raise TimeUp
    answer, error = outcome[0]
    if error is not None:
        raise error
    return cast(T, answer)


def _time_of(clock: int) -> float:
    """Processor time of a thread, 0 once it has ended."""
    try:
        return time.clock_gettime(clock)
    except OSError:
        return 0.0


def _send(thread: threading.Thread, error: type[BaseException]) -> None:
    """Raise an exception in another thread, as soon as it is back in Python code."""
    number = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(error))
