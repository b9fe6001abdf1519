"""How far a long piece of work has come: a bar on a terminal or in a notebook, or a function to be told."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from diffdag._base.errors import InputError

ProgressCallback = Callable[[int, int | None, str], object]  # steps done, their number, what is being done
Progress = bool | ProgressCallback | None

TOLD = 100  # times a function is told of one piece of work, about
SECONDS = 1.0  # between one time and the next, where the number of steps is not known


class Advance(Protocol):
    """Says that some steps more are done."""

    def __call__(self, steps: int = 1, /) -> None:
        """Count them."""


@contextmanager
def show_progress(progress: Progress, title: str, total: int | None = None, done: int = 0) -> Iterator[Advance]:
    """Show how much of some work is done.

    `progress` is True for a bar with the time left, on a terminal and in notebooks; a function that is called
    with the steps done, their total and the title, about 100 times and when all is done; None or False for
    silence. `total` is None if not known; `done` counts steps done before. Yields ``advance(steps=1)``.

    >>> with show_progress(lambda *told: print(*told), "work", 3, done=1) as advance:
    ...     advance()
    ...     advance()
    1 3 work
    2 3 work
    3 3 work
    """
    with progress_callback(progress, title) as callback:

        def advance(steps: int = 1, /) -> None:
            nonlocal done
            done += steps
            if callback is not None:
                callback(done, total, title)

        advance(0)  # that it has begun: starting workers takes seconds
        yield advance


@contextmanager
def progress_callback(progress: Progress, title: str) -> Iterator[ProgressCallback | None]:
    """One function to tell of all the pieces of some work; None where nobody wants to know.

    See `show_progress`; True gives one bar per piece, and `title` is shown before anything is told.
    """
    if progress is True:
        with show_bars(title) as callback:
            yield callback
    elif progress is None or progress is False:
        yield None
    elif isinstance(progress, Unthrottled):
        yield progress
    elif callable(progress):
        throttled = progress if isinstance(progress, _Throttled) else _Throttled(progress)
        yield throttled
        throttled.finish()
    else:
        raise InputError(f"progress must be True, False, None or a function; it is {progress!r}")


class Unthrottled:
    """A function that is told of every step, such as one that counts them."""

    def __init__(self, told: ProgressCallback) -> None:
        self.told = told

    def __call__(self, done: int, total: int | None, what: str, /) -> None:
        """Pass it on."""
        self.told(done, total, what)


class _Throttled:
    """A function of the caller's that is not told of every step: ``progress=print`` should stay readable."""

    def __init__(self, told: ProgressCallback) -> None:
        self.told = told
        self.said: dict[str, tuple[int, float]] = {}  # steps and time when it was told, by what is being done
        self.unsaid: dict[str, tuple[int, int | None]] = {}  # steps since

    def __call__(self, done: int, total: int | None, what: str, /) -> None:
        before, when = self.said.get(what, (-1, -math.inf))
        if total is None:
            due = time.monotonic() - when >= SECONDS
        else:
            due = total <= TOLD or done >= total or done * TOLD // total != before * TOLD // total
        self.unsaid[what] = done, total
        if due:
            self._say(what)

    def _say(self, what: str) -> None:
        done, total = self.unsaid.pop(what)
        self.said[what] = done, time.monotonic()
        self.told(done, total, what)

    def finish(self) -> None:
        """Tell the last step of each piece of work, if it was not told."""
        for what in list(self.unsaid):
            self._say(what)


@contextmanager
def show_bars(title: str) -> Iterator[ProgressCallback | None]:
    """A function that draws one bar for each kind of work it is told of; None where bars cannot be drawn."""
    notebook = in_notebook()
    if not notebook and not sys.stderr.isatty():
        yield None
        return
    from diffdag._base.bars import open_bars  # noqa: PLC0415 - only where they are drawn

    with open_bars(notebook=notebook) as bars:
        tasks = {"": bars.add_task(title, total=None)}

        def tell(done: int, total: int | None, what: str) -> None:
            bars.update(tasks[""], visible=False)
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total, completed=done)
            if done < bars.tasks[tasks[what]].completed:
                bars.reset(tasks[what])  # the same work for the next comparison
            bars.update(tasks[what], completed=done, total=total, refresh=notebook)

        yield Unthrottled(tell)


def in_notebook() -> bool:
    """Whether what is shown goes to a notebook: to a kernel of IPython, not to its terminal."""
    library = sys.modules.get("IPython")
    shell = None if library is None else library.get_ipython()
    return getattr(shell, "kernel", None) is not None
