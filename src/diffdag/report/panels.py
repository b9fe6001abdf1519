"""The picture of several comparisons: one difference DAG each, every variable at the same place in all."""

from __future__ import annotations

import copy
import textwrap
from typing import TYPE_CHECKING

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from diffdag.report.plot import LINE_HEIGHT, MARGIN, SAMPLE, _Picture, _write, text_width
from diffdag.report.text import printable
from diffdag.result import DifferenceResult

if TYPE_CHECKING:
    from diffdag.changes import Edge
    from diffdag.conditions_result import ConditionsResult

# Panels side by side, as long as they are narrower than this together.
ACROSS, WIDEST = 4, 1500.0
GAP, PAD = 18.0, 14.0  # between panels, and within their frames
FRAME = "#DDE3E9"
TITLE_CHARACTERS = 40
Key = tuple[str, str, bool]


def plot_conditions(result: ConditionsResult) -> Figure:
    """Draw the difference DAG of each comparison, causes on top.

    Only variables that take part in some comparison are shown, and those that take no part in a comparison are
    pale there. Lines are as thick as changes are large, on one scale for all.

    Parameters
    ----------
    result : ConditionsResult
        What to draw.

    Returns
    -------
    Figure
        Of the size that the picture needs; pyplot does not know about it.
    """
    whole = _Picture(_union(result))
    titles = [_title(pair, len(one.edge_list)) for pair, one in result.pairs.items()]
    grid = _Grid(whole, titles)
    legend, foot = whole._legend(grid.width)
    foot = foot + 22.0 if legend else 0.0
    width = max([grid.width, *(x + SAMPLE + 8 + text_width(kind) for kind, x, _ in legend)])
    page = (width + 2 * MARGIN, grid.height + foot + 2 * MARGIN)
    figure = Figure(figsize=(page[0] / 72, page[1] / 72))
    for number, ((pair, one), lines) in enumerate(zip(result.pairs.items(), titles, strict=True)):
        left, bottom = grid.corner(number)
        ax = _axes(figure, (left, bottom + foot, *grid.panel), page)
        ax.set_label(" to ".join(map(printable, pair)))
        _Panel(whole, one, lines, grid.panel).draw_on(ax)
    if legend:
        ax = _axes(figure, (0.0, 0.0, width, foot), page)
        whole.scale = 1.0
        for kind, x, y in legend:
            whole._draw_sample(ax, kind, (x, y + LINE_HEIGHT / 2))
    return figure


class _Grid:
    """Panels of one size in rows, in points from the lower left corner up."""

    def __init__(self, whole: _Picture, titles: list[list[str]]) -> None:
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


def _title(pair: tuple[str, str], changes: int) -> list[str]:
    first, second = map(printable, pair)
    count = f"{changes} change{'' if changes == 1 else 's'}" if changes else "no change found"
    words = f"From {first} to {second}"
    return [*textwrap.wrap(words, TITLE_CHARACTERS, break_on_hyphens=False), count]


def _key(edge: Edge) -> Key:
    return edge.source, edge.target, edge.directed


def _union(result: ConditionsResult) -> DifferenceResult:
    """All changes of all comparisons, each as large as it gets, in one graph."""
    largest: dict[Key, Edge] = {}
    for row in result.by_edge.values():
        for edge in row.values():
            known = largest.setdefault(_key(edge), edge)
            if abs(edge.delta or 0.0) > abs(known.delta or 0.0):
                largest[_key(edge)] = edge
    some = next(iter(result.pairs.values()))
    loose = {name for one in result.pairs.values() for name in one.unresolved}
    return DifferenceResult(
        method=some.method,
        variables=some.variables,
        invariant=(),
        unresolved=tuple(name for name in some.variables if name in loose),
        order=tuple((name,) for name in result.order),
        edge_list=tuple(largest.values()),
        delta_entries=some.delta_entries,
        samples=None,
        settings={},
    )


class _Panel(_Picture):
    """One comparison, drawn at the places that all comparisons share."""

    def __init__(
        self,
        whole: _Picture,
        result: DifferenceResult,
        title: list[str],
        size: tuple[float, float],
    ) -> None:
        self.__dict__.update(copy.copy(whole.__dict__))
        own = {_key(edge): edge for edge in result.edge_list}
        drawn = [
            (own[_key(edge)], curve)
            for edge, curve in zip(whole.edges, whole.layout.curves, strict=True)
            if _key(edge) in own
        ]
        largest = max((abs(edge.delta or 0.0) for edge in whole.edges), default=0.0) or 1.0
        self.drawn = [(edge, 1.3 + 3.2 * abs(edge.delta or 0.0) / largest, curve) for edge, curve in drawn]
        self.busy = {name for edge, _ in drawn for name in (edge.source, edge.target)}
        self.unresolved = set(result.unresolved)
        self.title = title
        self.width, self.height = size

    def draw_on(self, ax: Axes) -> None:
        """Draw frame, title, edges and variables."""
        self.scale, self.origin = 1.0, ((self.width - self.layout.width) / 2, PAD)
        style = "round,pad=0,rounding_size=8"
        frame = FancyBboxPatch(
            (0.0, 0.0), self.width, self.height, boxstyle=style, facecolor="none", edgecolor=FRAME
        )
        ax.add_patch(frame).set_clip_on(False)
        for number, line in enumerate(self.title):
            y = self.height - PAD - (number + 0.5) * LINE_HEIGHT
            _write(ax, line, (self.width / 2, y), rcParams["text.color"])
        for edge, stroke, curve in self.drawn:
            self._draw_edge(ax, edge, stroke, curve)
        for number, name in enumerate(self.names):
            before = len(ax.patches), len(ax.texts)
            self._draw_node(ax, number)
            if name not in self.busy:
                for artist in (*ax.patches[before[0] :], *ax.texts[before[1] :]):
                    artist.set_alpha(0.35)
