"""Bars that rich keeps: drawn by it on a terminal, and in a notebook as HTML, for which IPython is enough."""

from __future__ import annotations

import math
from html import escape
from typing import Any

from rich import progress as rich
from rich.console import Console
from rich.text import Text

PAUSE = 0.1  # seconds between two drawings in a notebook
PERIOD = 120  # seconds from which the speed is estimated


class _Count(rich.ProgressColumn):
    """Steps done, and of how many; only rows are of unknown number."""

    def render(self, task: rich.Task) -> Text:
        done = f"{task.completed:,.0f}"
        if task.total is None:
            return Text(f"{done} rows" if task.completed else "...")
        return Text(f"{done}/{task.total:,.0f}")


def open_bars(*, notebook: bool) -> rich.Progress:
    """Bars in a notebook, or on the terminal that standard error goes to."""
    columns = (
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        _Count(),
        rich.TextColumn("elapsed"),
        rich.TimeElapsedColumn(),
        rich.TextColumn("left"),
        rich.TimeRemainingColumn(),
    )
    kind = NotebookBars if notebook else rich.Progress
    return kind(*columns, console=Console(stderr=True), speed_estimate_period=PERIOD)


class NotebookBars(rich.Progress):
    """Bars in a notebook, all in one place that is replaced; work that has ended stays as a line."""

    _handle: Any = None
    _drawn = -math.inf

    def start(self) -> None:
        """Wait for the first piece of work."""

    def refresh(self) -> None:
        """Draw, unless it was done just now."""
        if self.get_time() - self._drawn >= PAUSE:
            self._draw()

    def stop(self) -> None:
        """Draw what was reached."""
        self._draw(stopped=True)

    def _draw(self, *, stopped: bool = False) -> None:
        from IPython import display  # noqa: PLC0415 - not installed everywhere

        self._drawn = self.get_time()
        plain, html = [], []
        for task in self.tasks:
            if task.visible:
                ended = stopped or task.finished
                columns = self.columns[:-2] if ended else self.columns
                cells = [column.render(task) for column in columns if isinstance(column, rich.ProgressColumn)]
                texts = [str(cell) if isinstance(cell, Text) else "" for cell in cells]
                plain.append(" ".join(filter(None, texts)))
                steps = f' max="{task.total}" value="{task.completed}"' if task.total else ""
                texts = [escape(text) for text in texts]
                texts[1] = "" if ended else f'<progress{steps} style="width:16em"></progress>'
                html.append(f"<div>{' '.join(filter(None, texts))}</div>")
        style = "font-size:.9em;opacity:.85;font-variant-numeric:tabular-nums"
        content = {"text/plain": "\n".join(plain), "text/html": f'<div style="{style}">{"".join(html)}</div>'}
        if self._handle is None:
            self._handle = display.display(content, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(content, raw=True)
