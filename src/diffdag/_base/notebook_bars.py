"""Bars in a notebook, as HTML that is replaced in place; nothing but IPython is needed."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from html import escape
from types import TracebackType
from typing import Any, Self

from IPython import display

PAUSE = 0.1  # seconds between two drawings of a bar


@dataclass
class _Bar:
    """One piece of work, and the place in the notebook that shows it."""

    title: str
    done: int = 0
    total: int | None = None
    counted: bool = False  # whether steps are told at all
    start: float = field(init=False)
    before: int = 0  # steps that were done when it began
    drawn: float = 0.0
    handle: Any = None

    def __post_init__(self) -> None:
        self.start = time.monotonic()

    @property
    def complete(self) -> bool:
        return self.counted and self.total is not None and self.done >= self.total

    def draw(self, *, stopped: bool = False) -> None:
        """Show it as a bar; as a line with the time it took once it is complete, or stopped."""
        self.drawn = time.monotonic()
        words = self._words(stopped)
        line = escape(f"{self.title}: {words}")
        value = "" if not self.total else f' max="{self.total}" value="{min(self.done, self.total)}"'
        bar = "" if stopped or self.complete else f' <progress{value} style="width:16em"></progress>'
        html = f'<div style="font-size:.9em;opacity:.85;font-variant-numeric:tabular-nums">{line}{bar}</div>'
        content = {"text/plain": f"{self.title}: {words}", "text/html": html}
        if self.handle is None:
            self.handle = display.display(content, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self.handle.update(content, raw=True)

    def _words(self, stopped: bool) -> str:
        elapsed = self.drawn - self.start
        if not self.counted:
            return _duration(elapsed) if stopped else "..."
        if self.complete:
            return f"{self.done:,} in {_duration(elapsed)}"
        steps = f"{self.done:,}" if self.total is None else f"{self.done:,} of {self.total:,}"
        if stopped:
            return f"{steps} in {_duration(elapsed)}"
        new = self.done - self.before
        left = "" if self.total is None or not new else _duration(elapsed / new * (self.total - self.done))
        return f"{steps}, {_duration(elapsed)}{f', {left} left' if left else ''}"


class NotebookBars:
    """A bar for each kind of work that is told; finished ones stay as a line with the time they took.

    Parameters
    ----------
    title : str
        What is going on before anything is told.
    """

    def __init__(self, title: str) -> None:
        self.waiting: _Bar | None = _Bar(title)
        self.bars: dict[str, _Bar] = {}

    def __enter__(self) -> Self:
        if self.waiting is not None:
            self.waiting.draw()
        return self

    def tell(self, done: int, total: int | None, what: str) -> None:
        """Show that so many steps of something are done."""
        bar = self.bars.get(what)
        if bar is None or (bar.complete and done < bar.done):
            bar = _Bar(what, before=done, counted=True)
            if self.waiting is not None:
                bar.handle, self.waiting = self.waiting.handle, None
            self.bars[what] = bar
        bar.done, bar.total = done, total
        if bar.complete or time.monotonic() - bar.drawn >= PAUSE:
            bar.draw()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for bar in [*([self.waiting] if self.waiting else []), *self.bars.values()]:
            if not bar.complete:
                bar.draw(stopped=True)


def _duration(seconds: float) -> str:
    """A time as a person says it.

    >>> _duration(0.31), _duration(42.4), _duration(125)
    ('0.3 s', '42 s', '2 min 5 s')
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"
