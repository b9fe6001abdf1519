"""Run one comparator, within a time limit; an error in it leaves the others running."""

from __future__ import annotations

import atexit
import contextlib
import math
import operator
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from types import FrameType
from typing import Any, TypeVar

import numpy as np

from diffdag._base.arrays import BoolArray
from diffdag._base.checks import default_names
from diffdag._base.errors import InputError
from diffdag._base.parallel import exit_with_parent, one_blas_thread, run_all
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

    The limit is on processor time, so that a busy machine changes no result. Compiling does not count.
    """
    run = partial(_attempt, method, arguments, limit)
    return run() if _limitless(limit) else in_main_thread(run)


def _attempt(
    method: Method, arguments: tuple[Any, ...], limit: float | None
) -> tuple[BoolArray | None, str, float]:
    warm_up(method, min(len(arguments[0].names), COMPILED), None if _limitless(limit) else WARMING)
    return timed(partial(method.run, *arguments), limit)


def timed(work: Callable[[], T], limit: float | None) -> tuple[T | None, str, float]:
    """What a method gives, or None and why there is nothing; and the seconds it took.

    The limit is on processor time.
    """
    start = time.perf_counter()
    found, why = None, ""
    try:
        with _undisturbed():
            found = within(limit, work)
    except TimeUp:
        found, why = None, f"longer than {limit:g} s"
    except InputError as error:
        why = str(error)
    except Exception as error:  # whatever a method raises is its result
        why = f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
    return found, why, time.perf_counter() - start


@cache
def warm_up(method: Method, p: int, limit: float | None = WARMING) -> None:
    """Let a method import and compile what it needs, once per process, on variables that do not change."""
    rng = np.random.default_rng(p)
    rows = 20 * p + 100
    arguments: list[Any] = [Moments.from_array(rng.standard_normal((rows, p)), default_names(p)) for _ in "12"]
    if method.knows_order:
        arguments.append(tuple(range(p)))
    with contextlib.suppress(Exception, TimeUp), _undisturbed():
        within(limit, partial(method.run, *arguments))


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Without warnings, on one core."""
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        yield


def within(seconds: float | None, work: Callable[[], T]) -> T:
    """The result of ``work()``, or `TimeUp` once it has taken so much processor time.

    An alarm signal keeps the limit, which only the main thread of a process gets: from other threads, such as
    those of a Dask worker, the work is sent to a process of its own. Where the system has no such signal there
    is no limit. Compiled code that never returns to Python is not stopped before it does.
    """
    if seconds is None or _limitless(seconds):
        return work()
    return in_main_thread(partial(_with_alarm, seconds, work))


def _limitless(seconds: float | None) -> bool:
    return seconds is None or math.isinf(seconds) or not hasattr(signal, "setitimer")


def _with_alarm(seconds: float, work: Callable[[], T]) -> T:
    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds, AGAIN)
    try:
        return work()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


_idle: list[subprocess.Popen[bytes]] = []  # children that wait for work


def in_main_thread(work: Callable[[], T]) -> T:
    """Work in the main thread of a process: of this one if that is where the caller is, else of a child."""
    if threading.current_thread() is threading.main_thread():
        return work()
    from joblib import wrap_non_picklable_objects  # noqa: PLC0415

    request = pickle.dumps(wrap_non_picklable_objects(work))
    try:
        child = _idle.pop()
    except IndexError:
        child = _start_child()
    try:
        child.stdin.write(request)  # type: ignore[union-attr]
        child.stdin.flush()  # type: ignore[union-attr]
        result, error = pickle.load(child.stdout)  # type: ignore[arg-type]  # noqa: S301 - from our own child
    except (EOFError, BrokenPipeError):
        _end(child)
        raise InputError(
            "a process was killed, most likely because memory ran out; use fewer workers"
        ) from None
    except BaseException:
        _end(child)
        raise
    _idle.append(child)
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


def _start_child() -> subprocess.Popen[bytes]:
    code = f"from {__name__} import serve; serve({os.getpid()})"
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", code], env=paths, start_new_session=True, **pipes)  # type: ignore[call-overload,no-any-return]  # noqa: S603


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.communicate()


@atexit.register
def _end_all() -> None:
    while _idle:
        _end(_idle.pop())


def serve(parent: int) -> None:
    """Do, in a child process, one piece of work after the other until the parent has gone."""
    exit_with_parent(parent)
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a method prints is no result
    while True:
        try:
            work = pickle.load(sys.stdin.buffer)  # noqa: S301 - from our own parent
        except EOFError:
            return
        try:
            ((_, result),) = run_all(operator.call, [work], jobs=1)
            outcome = pickle.dumps((result, None))
        except BaseException as error:  # handed on to the parent
            outcome = pickle.dumps((None, error))
        results.write(outcome)
        results.flush()
