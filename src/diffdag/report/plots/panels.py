"""The picture of several comparisons: one difference DAG each, every variable at the same place in all."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from diffdag.report.format import printable
from diffdag.report.layout.picture import (
    LINE_HEIGHT,
    MARGIN,
    Picture,
    all_changes,
    changes_words,
    legend_end,
    text_width,
)
from diffdag.report.layout.theme import ThemeName, theme_called
from diffdag.report.plots.difference import Brush

if TYPE_CHECKING:
    from diffdag.results.differences import Differences

# Panels side by side, as long as they are narrower than this together.
ACROSS, WIDEST = 4, 1500.0
GAP, PAD = 18.0, 14.0  # between panels, and within their frames
PALE = 0.35  # opacity of variables that take no part in a comparison
TITLE_CHARACTERS = 40


def plot_conditions(result: Differences, *, theme: ThemeName = "light") -> Figure:
    """Draw the difference DAG of each comparison; `ConditionsResult.plot` says how to read it."""
    colours, whole = theme_called(theme), Picture(all_changes(result))
    titles = [_title(pair, changes_words(one)) for pair, one in result.pairs.items()]
    grid = _Grid(whole, titles)
    legend, foot = whole.legend_within(grid.width)
    width = max([grid.width, *map(legend_end, legend)])
    page = (width + 2 * MARGIN, grid.height + foot + 2 * MARGIN)
    figure = Figure(figsize=(page[0] / 72, page[1] / 72), facecolor=colours.background)
    for number, ((pair, one), lines) in enumerate(zip(result.pairs.items(), titles, strict=True)):
        left, bottom = grid.corner(number)
        ax = _axes(figure, (left, bottom + foot, *grid.panel), page)
        ax.set_label(" to ".join(map(printable, pair)))
        origin = ((grid.panel[0] - whole.layout.width) / 2, PAD)
        brush = Brush(ax, colours, 1.0, origin)
        _draw_frame(brush, grid.panel, lines)
        brush.graph(whole, one, idle=PALE)
    if legend:
        brush = Brush(_axes(figure, (0.0, 0.0, width, foot), page), colours, 1.0, (0.0, 0.0))
        for item in legend:
            brush.sample(item)
    return figure


class _Grid:
    """Panels of one size in rows, in points from the lower left corner up."""

    def __init__(self, whole: Picture, titles: list[list[str]]) -> None:
        head = max(len(lines) for lines in titles) * LINE_HEIGHT + 16.0
        words = [text_width(line) for lines in titles for line in lines]
        body = whole.layout.height if whole.names else 0.0
        self.panel = max([whole.layout.width, 150.0, *words]) + 2 * PAD, body + head + 2 * PAD
        most = max(1, min(ACROSS, int((WIDEST + GAP) // (self.panel[0] + GAP))))
        self.down = -(-len(titles) // most)
        self.across = -(-len(titles) // self.down)
        self.width = self.across * (self.panel[0] + GAP) - GAP
        self.height = self.down * (self.panel[1] + GAP) - GAP

    def corner(self, number: int) -> tuple[float, float]:
        """The lower left corner of a panel; the first ones are on top."""
        row, column = divmod(number, self.across)
        return column * (self.panel[0] + GAP), (self.down - 1 - row) * (self.panel[1] + GAP)


def _axes(figure: Figure, box: tuple[float, float, float, float], page: tuple[float, float]) -> Axes:
    """Axes for a rectangle of the page in points, in units of points."""
    left, bottom, width, height = box
    place = ((left + MARGIN) / page[0], (bottom + MARGIN) / page[1], width / page[0], height / page[1])
    ax = figure.add_axes(place)
    ax.set_axis_off()
    ax.set_xlim(0.0, width)
    ax.set_ylim(0.0, height)
    return ax


def _title(pair: tuple[str, str], changes: str) -> list[str]:
    first, second = map(printable, pair)
    return [*textwrap.wrap(f"From {first} to {second}", TITLE_CHARACTERS, break_on_hyphens=False), changes]


def _draw_frame(brush: Brush, size: tuple[float, float], title: list[str]) -> None:
    width, height = size
    look: dict[str, Any] = {"facecolor": "none", "edgecolor": brush.theme.faint, "clip_on": False}
    style = "round,pad=0,rounding_size=8"
    brush.ax.add_patch(FancyBboxPatch((0.0, 0.0), width, height, boxstyle=style, **look))
    for number, line in enumerate(title):
        brush.write(line, (width / 2, height - PAD - (number + 0.5) * LINE_HEIGHT))
