"""The picture of a difference DAG: layers, causes on top.

Everything is drawn in data coordinates where one unit is one point of the natural size, so that a picture
fits any axes: names, boxes and arrowheads grow and shrink together.
"""

from __future__ import annotations

import functools
import textwrap
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon
from matplotlib.path import Path
from matplotlib.text import Text

from diffdag.report.grid import Link
from diffdag.report.layout import Curve, Layout, Point, arrange
from diffdag.report.text import by_size, printable

if TYPE_CHECKING:
    from matplotlib.backend_bases import RendererBase
    from matplotlib.transforms import Bbox

    from diffdag.changes import Edge
    from diffdag.result import DifferenceResult

# Colours of Okabe and Ito (2008), safe for colour-blind readers; the dashes say the same again.
STYLES: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "added": ("#009E73", ()),
    "removed": ("#D55E00", (7.0, 3.5)),
    "strengthened": ("#0072B2", (12.0, 2.5, 2.5, 2.5)),
    "weakened": ("#E69F00", (2.2, 2.2)),
    "reversed-sign": ("#CC79A7", (7.0, 2.5, 2.2, 2.5, 2.2, 2.5)),
    "changed": ("#48525E", ()),
    "undirected": ("#7A8490", ()),
}
FONT, FONT_SIZE, LINE_HEIGHT = "DejaVu Sans", 11.0, 14.0
NAME_CHARACTERS = 26  # longer names go on several lines
MARGIN, SAMPLE = 14.0, 34.0
MOST_EDGES = 250


def plot_difference(result: DifferenceResult, ax: Axes | None = None) -> Axes:
    """Draw the difference DAG, causes on top; only variables that take part are shown.

    Parameters
    ----------
    result : DifferenceResult
        What to draw. Of more than 250 edges, the 250 largest are drawn.
    ax : Axes, optional
        Where to draw; without it, a new figure of the size that the picture needs, which pyplot does
        not know about.

    Returns
    -------
    Axes
        The axes drawn on; `.figure.savefig` saves the picture.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from diffdag.result import DifferenceResult
    >>> empty = DifferenceResult(
    ...     method="paper", variables=("a", "b"), invariant=("a", "b"), unresolved=(), order=(),
    ...     edge_list=(), delta_entries=csr_array((2, 2)),
    ...     samples=None, settings={})
    >>> [text.get_text() for text in plot_difference(empty).texts]
    ['no change found']
    """
    return _Picture(result).draw(ax)


class _Picture:
    """What is drawn, with its size, before there are axes to draw on."""

    def __init__(self, result: DifferenceResult) -> None:
        self.edges = by_size(result.edge_list)[:MOST_EDGES]
        self.unresolved = set(result.unresolved)
        taking_part = {name for edge in self.edges for name in (edge.source, edge.target)} | self.unresolved
        ranked = [name for layer in [result.unresolved, *result.order, result.variables] for name in layer]
        self.names = [name for name in dict.fromkeys(ranked) if name in taking_part]
        self.lines = [_lines(name) for name in self.names]
        self.caption = self._caption(result)
        sizes = [_box_size(lines) for lines in self.lines]
        place = {name: number for number, name in enumerate(self.names)}
        largest = max((abs(edge.delta or 0.0) for edge in self.edges), default=0.0) or 1.0
        self.strokes = [1.3 + 3.2 * abs(edge.delta or 0.0) / largest for edge in self.edges]
        links = [
            Link(place[edge.source], place[edge.target], head=7.0 + 1.7 * stroke if edge.directed else 0.0)
            for edge, stroke in zip(self.edges, self.strokes, strict=True)
        ]
        effects = {edge.target for edge in self.edges if edge.directed}
        self.layout: Layout = arrange(sizes, links, [place[name] for name in self.unresolved - effects])
        self.sizes = sizes
        wanted = max([self.layout.width, 260.0, *map(text_width, self.caption)])
        self.legend, legend_height = self._legend(wanted)
        self.width = max([wanted, *(x + SAMPLE + 8 + text_width(kind) for kind, x, _ in self.legend)])
        self.foot = legend_height + 22.0 if self.legend else 0.0
        self.body = self.layout.height if self.names else 90.0
        self.height = self.foot + self.body + (len(self.caption) * LINE_HEIGHT + 16.0)

    def _caption(self, result: DifferenceResult) -> list[str]:
        if not self.names:
            return []
        first, second = map(printable, result.labels)
        words = f"From {first} to {second}, causes on top"
        if len(self.edges) < len(result.edge_list):
            words += f"; the {len(self.edges)} largest of {len(result.edge_list)} changes"
        return textwrap.wrap(words, 60, break_on_hyphens=False)

    def _legend(self, width: float) -> tuple[list[tuple[str, float, float]], float]:
        """Place the kinds that occur in lines no longer than `width`: kind, x, height above the foot."""
        present = {edge.kind for edge in self.edges}
        kinds = [kind for kind in STYLES if kind in present] + ["unresolved"] * bool(self.unresolved)
        items: list[tuple[str, float, float]] = []
        x = y = 0.0
        for kind in kinds:
            step = SAMPLE + 8 + text_width(kind) + 22
            if x and x + step > width + 22:
                x, y = 0.0, y + LINE_HEIGHT + 5
            items.append((kind, x, y))
            x += step
        return [(kind, x, y_last - y) for kind, x, y in items for y_last in [items[-1][2]]], y + LINE_HEIGHT

    def draw(self, ax: Axes | None) -> Axes:
        wide, high = self.width + 2 * MARGIN, self.height + 2 * MARGIN
        if ax is None:
            ax = Figure(figsize=(wide / 72, high / 72)).add_axes((0.0, 0.0, 1.0, 1.0))
        ax.set_axis_off()
        ax.set_xlim(-MARGIN, self.width + MARGIN)
        ax.set_ylim(-MARGIN, self.height + MARGIN)
        ax.set_aspect("equal", adjustable="box")
        box = ax.get_window_extent()
        self.scale = min(box.width / wide, box.height / high) * 72 / ax.figure.dpi
        self.origin = ((self.width - self.layout.width) / 2, self.foot)
        if not self.names:
            _write(ax, "no change found", (self.width / 2, self.height / 2), rcParams["text.color"])
            return ax
        for number, line in enumerate(self.caption):
            y = self.height - (number + 0.5) * LINE_HEIGHT
            _write(ax, line, (self.width / 2, y), rcParams["text.color"])
        for edge, stroke, curve in zip(self.edges, self.strokes, self.layout.curves, strict=True):
            self._draw_edge(ax, edge, stroke, curve)
        for number in range(len(self.names)):
            self._draw_node(ax, number)
        for kind, x, y in self.legend:
            self._draw_sample(ax, kind, (x, y + LINE_HEIGHT / 2))
        return ax

    def _at(self, point: Point) -> Point:
        return point[0] + self.origin[0], point[1] + self.origin[1]

    def _stroke(self, kind: str, width: float) -> dict[str, Any]:
        colour, dashes = STYLES[kind]
        width *= self.scale
        # matplotlib counts dashes in line widths; here they keep their length whatever the width.
        pattern = tuple(max(dash * self.scale / width, 0.7) for dash in dashes)
        style = (0, pattern) if pattern else "solid"
        return {
            "edgecolor": colour,
            "linewidth": width,
            "linestyle": style,
            "facecolor": "none",
            "clip_on": False,
        }

    def _draw_edge(self, ax: Axes, edge: Edge, width: float, curve: Curve) -> None:
        points, codes = [self._at(curve.start)], [Path.MOVETO]
        for piece in curve.pieces:
            points += map(self._at, piece)
            codes += [Path.LINETO] if len(piece) == 1 else [Path.CURVE4] * 3
        stroke = self._stroke(edge.kind, width)
        ax.add_patch(PathPatch(Path(points, codes), zorder=1, capstyle="butt", **stroke))
        if curve.head:
            tip, base = map(self._at, curve.head)
            ax.add_patch(
                Polygon(_triangle(tip, base), zorder=3, color=stroke["edgecolor"], linewidth=0, clip_on=False)
            )

    def _draw_node(self, ax: Axes, number: int) -> None:
        x, y = self._at(self.layout.centres[number])
        _draw_box(ax, (x, y), self.sizes[number], self.names[number] in self.unresolved, self.scale)
        lines = self.lines[number]
        for k, line in enumerate(lines):
            _write(ax, line, (x, y + ((len(lines) - 1) / 2 - k) * LINE_HEIGHT), "#15202B")

    def _draw_sample(self, ax: Axes, kind: str, at: Point) -> None:
        x, y = at
        if kind == "unresolved":
            _draw_box(ax, (x + SAMPLE / 2, y), (SAMPLE - 6, LINE_HEIGHT - 2), True, self.scale)
        else:
            stroke = self._stroke(kind, 2.6)
            end = x + SAMPLE - (0.0 if kind == "undirected" else 9.0)
            ax.add_patch(PathPatch(Path([(x, y), (end, y)]), capstyle="butt", **stroke))
            if kind != "undirected":
                corners = _triangle((x + SAMPLE, y), (end, y))
                ax.add_patch(Polygon(corners, color=stroke["edgecolor"], linewidth=0, clip_on=False))
        _write(ax, kind, (x + SAMPLE + 8, y), rcParams["text.color"], align="left")


def _triangle(tip: Point, base: Point) -> list[Point]:
    (x, y), (bx, by) = tip, base
    across = ((by - y) * 0.42, (x - bx) * 0.42)
    return [tip, (bx + across[0], by + across[1]), (bx - across[0], by - across[1])]


def _draw_box(ax: Axes, centre: Point, size: tuple[float, float], unresolved: bool, scale: float) -> None:
    width, height = size
    corner = (centre[0] - width / 2, centre[1] - height / 2)
    style = f"round,pad=0,rounding_size={min(6.0, height / 3)}"
    fill, line = ("#FFFFFF", (0, (3, 2))) if unresolved else ("#EEF2F6", "solid")
    ax.add_patch(
        FancyBboxPatch(
            corner, width, height, boxstyle=style, facecolor=fill, edgecolor="#48525E",
            linestyle=line, linewidth=1.1 * scale, zorder=2, clip_on=False,
        )
    )  # fmt: skip


# Names are the user's text: no mathematics in them, any script, any length.


def _lines(name: str) -> list[str]:
    wrapped = textwrap.wrap(printable(name), NAME_CHARACTERS, break_on_hyphens=False)
    return wrapped or [" "]


def _box_size(lines: Sequence[str]) -> tuple[float, float]:
    return max(36.0, max(map(text_width, lines)) + 18.0), len(lines) * LINE_HEIGHT + 12.0


@functools.lru_cache(maxsize=4096)
def text_width(text: str) -> float:
    """Return the width of one line in points, with a guess for characters that the font lacks."""
    font = get_font(findfont(FONT))
    font.set_size(FONT_SIZE, 72.0)
    width = 0.0
    for character in text:
        code = ord(character)
        if font.get_char_index(code):
            width += font.load_char(code).linearHoriAdvance / 65536
        elif not unicodedata.combining(character):
            width += FONT_SIZE * (1.3 if unicodedata.east_asian_width(character) in "WF" else 0.8)
    return width


class _Name(Text):
    """Text whose size is in data units, and which is quiet about characters that the font lacks."""

    def _fit(self) -> None:
        if self.axes is not None and self.figure is not None:
            (_, low), (_, high) = self.axes.transData.transform([(0.0, 0.0), (0.0, 1.0)])
            self.set_fontsize(FONT_SIZE * abs(high - low) * 72 / self.figure.dpi)

    def draw(self, renderer: RendererBase) -> None:
        self._fit()
        with _quiet():
            super().draw(renderer)

    def get_window_extent(self, renderer: RendererBase | None = None, dpi: float | None = None) -> Bbox:
        self._fit()
        with _quiet():
            return super().get_window_extent(renderer, dpi)


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s).*(Glyph|missing from).*", category=UserWarning)
        yield


def _write(ax: Axes, text: str, at: Point, colour: str, align: Literal["left", "center"] = "center") -> None:
    x, y = at
    placed: dict[str, Any] = {
        "horizontalalignment": align,
        "verticalalignment": "center_baseline",
        "clip_on": False,
    }
    plain: dict[str, Any] = {"parse_math": False, "usetex": False, "family": FONT, "color": colour}
    ax.add_artist(_Name(x, y, text, zorder=4, **placed, **plain))
