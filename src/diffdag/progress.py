"""How far a long piece of work has come: a bar on a terminal, or a function of the caller's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from diffdag.validation import InputError

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

Told = Callable[[int, int | None, str], object]  # steps done, their number, what is being done
Progress = bool | Told | None


class Advance(Protocol):
    """Says that some steps more are done."""

    def __call__(self, steps: int = 1, /) -> None:
        """Count them."""


@contextmanager
def show_progress(
    progress: Progress, title: str, total: int | None = None, done: int = 0, *, quick: bool = False
) -> Iterator[Advance]:
    """Show how much of some work is done.

    Parameters
    ----------
    progress : bool, callable or None
        True for a bar with the time left, on a terminal only; a function that is called with the steps done,
        their total and the title after each advance; None or False for silence.
    title : str
        What is being done.
    total, done : int
        Number of steps, None if not known, and those done before.
    quick : bool
        Whether steps are many and quick, such as rows of a file, rather than few and slow.

    Yields
    ------
    callable
        ``advance(steps=1)``.

    Examples
    --------
    >>> with show_progress(lambda *told: print(*told), "work", 3, done=1) as advance:
    ...     advance()
    ...     advance()
    2 3 work
    3 3 work
    """
    if progress is True:
        with _bar(title, total, done, quick) as advance:
            yield advance
    elif progress is None or progress is False:
        yield _nothing
    elif callable(progress):
        report = progress

        def tell(steps: int = 1, /) -> None:
            nonlocal done
            done += steps
            report(done, total, title)

        yield tell
    else:
        raise InputError(f"progress must be True, False, None or a function; it is {progress!r}")


def _nothing(steps: int = 1, /) -> None:
    pass


@contextmanager
def show_bars(title: str) -> Iterator[Told | None]:
    """A function that draws one bar for each kind of work it is told of, on a terminal; None elsewhere.

    Parameters
    ----------
    title : str
        What is going on before anything is told.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as rich  # noqa: PLC0415 - only on a terminal
    from rich.console import Console  # noqa: PLC0415

    with rich.Progress(*_columns(), console=Console(stderr=True), speed_estimate_period=120) as bars:
        tasks = {"": bars.add_task(title, total=None)}

        def tell(done: int, total: int | None, what: str) -> None:
            bars.update(tasks[""], visible=False)
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield tell


def _columns(quick: bool = False, total: int | None = 1) -> list[ProgressColumn]:
    from rich import progress as rich  # noqa: PLC0415 - only on a terminal

    count = (
        rich.TextColumn("{task.completed:,.0f} rows") if quick and total is None else rich.MofNCompleteColumn()
    )
    return [
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        count,
        rich.TextColumn("elapsed"),
        rich.TimeElapsedColumn(),
        rich.TextColumn("left"),
        rich.TimeRemainingColumn(),
    ]


@contextmanager
def _bar(title: str, total: int | None, done: int, quick: bool) -> Iterator[Advance]:
    if not sys.stderr.isatty():
        yield _nothing
        return
    from rich import progress as rich  # noqa: PLC0415 - only on a terminal
    from rich.console import Console  # noqa: PLC0415

    period = 10 if quick else 120  # seconds from which the speed is estimated
    with rich.Progress(
        *_columns(quick, total), console=Console(stderr=True), speed_estimate_period=period
    ) as bar:
        task = bar.add_task(title, total=total, completed=done)

        def advance(steps: int = 1, /) -> None:
            bar.advance(task, steps)

        yield advance
