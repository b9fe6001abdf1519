"""The picture of a difference DAG, on matplotlib's axes: layers, causes on top.

Everything is drawn in data coordinates where one unit is one point of the natural size, so that a picture
fits any axes: names, boxes and arrowheads grow and shrink together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon
from matplotlib.path import Path

from diffdag.report.format import ends
from diffdag.report.layout.layout import Curve, Point, arrowhead
from diffdag.report.layout.picture import (
    FONT,
    FONT_SIZE,
    LINE_HEIGHT,
    MARGIN,
    PALEST,
    SAMPLE,
    THINNEST,
    LegendItem,
    Picture,
    line_kind,
    opacity,
    strokes,
)
from diffdag.report.layout.theme import DASHES, Theme, ThemeName, theme_called
from diffdag.report.plots.chart import QuietText, axes_for
from diffdag.trust.contradictions import hedged

if TYPE_CHECKING:
    from matplotlib.backend_bases import RendererBase
    from matplotlib.transforms import Bbox

    from diffdag.results.difference import Difference


def plot_difference(result: Difference, ax: Axes | None = None, *, theme: ThemeName = "light") -> Axes:
    """Draw the difference DAG, causes on top; `DifferenceResult.plot` says how to read it.

    >>> from scipy.sparse import csr_array
    >>> from diffdag.results.difference import Difference
    >>> empty = Difference(
    ...     method="paper", variables=("a", "b"), invariant=("a", "b"), unresolved=(), order=(),
    ...     edge_list=(), delta_entries=csr_array((2, 2)),
    ...     samples=None, settings={})
    >>> [text.get_text() for text in plot_difference(empty).texts]
    ['no change found']
    """
    colours, picture = theme_called(theme), Picture(result)
    wide, high = picture.width + 2 * MARGIN, picture.height + 2 * MARGIN
    ax = axes_for(ax, colours, (wide / 72, high / 72), (0.0, 0.0, 1.0, 1.0))
    ax.set_axis_off()
    ax.set_xlim(-MARGIN, picture.width + MARGIN)
    ax.set_ylim(-MARGIN, picture.height + MARGIN)
    ax.set_aspect("equal", adjustable="box")
    box = ax.get_window_extent()
    scale = min(box.width / wide, box.height / high) * 72 / ax.figure.dpi
    brush, middle = Brush(ax, colours, scale, picture.origin), picture.width / 2
    if not picture.names:
        brush.write(picture.nothing, (middle, picture.height / 2))
    for number, line in enumerate(picture.caption):
        brush.write(line, (middle, picture.height - (number + 0.5) * LINE_HEIGHT))
    brush.graph(picture, result)
    for item in picture.legend:
        brush.sample(item)
    return ax


@dataclass(frozen=True)
class Brush:
    """Draws the parts of a picture; those of the layout from `origin` on."""

    ax: Axes
    theme: Theme
    scale: float  # what one point of the natural size is on the page, in points
    origin: Point

    def _at(self, point: Point) -> Point:
        return point[0] + self.origin[0], point[1] + self.origin[1]

    def graph(self, picture: Picture, result: Difference, *, idle: float = 1.0) -> None:
        """The edges and variables of a result, at the places that it may share with other comparisons.

        `idle` is the opacity of variables that no edge joins.
        """
        own = {edge.key: edge for edge in result.edge_list}
        placed = zip(picture.edges, picture.layout.curves, strict=True)
        curves = {edge.key: curve for edge, curve in placed if edge.key in own}
        drawn = [own[key] for key in curves]
        for edge, stroke in zip(drawn, strokes(drawn, picture.edges), strict=True):
            self._edge(line_kind(edge), stroke, opacity(edge), curves[edge.key], hollow=hedged(edge))
        busy = set(ends(drawn))
        boxes = zip(picture.names, picture.lines, picture.sizes, picture.layout.centres, strict=True)
        for name, lines, size, centre in boxes:
            seen, (x, y) = 1.0 if name in busy else idle, self._at(centre)
            kind = "unresolved" if name in result.unresolved else "own" if name in result.changed_nodes else ""
            self._box((x, y), size, kind, seen)
            for k, line in enumerate(lines):
                self.write(line, (x, y + ((len(lines) - 1) / 2 - k) * LINE_HEIGHT), opacity=seen)

    def _edge(self, kind: str, width: float, opacity: float, curve: Curve, *, hollow: bool) -> None:
        """An edge along its curve, with its head if it has one."""
        points, codes = [self._at(curve.start)], [Path.MOVETO]
        for piece in curve.pieces:
            points += map(self._at, piece)
            codes += [Path.LINETO] if len(piece) == 1 else [Path.CURVE4] * 3
        self._line(kind, width, opacity, Path(points, codes))
        if curve.head:
            self._head(kind, opacity, *map(self._at, curve.head), hollow=hollow)

    def _line(self, kind: str, width: float, opacity: float, path: Path) -> None:
        width *= self.scale
        # matplotlib counts dashes in line widths; here they keep their length whatever the width.
        pattern = tuple(max(dash * self.scale / width, 0.7) for dash in DASHES[kind])
        self.ax.add_patch(
            PathPatch(
                path, edgecolor=self.theme.kinds[kind], facecolor="none", linewidth=width, alpha=opacity,
                linestyle=(0, pattern) if pattern else "solid", zorder=1, capstyle="butt", clip_on=False,
            )
        )  # fmt: skip

    def _head(self, kind: str, opacity: float, tip: Point, base: Point, *, hollow: bool = False) -> None:
        """The head of an arrow; a hollow one where the direction is not sure."""
        colour, outline = self.theme.kinds[kind], 1.3 * self.scale * hollow
        drawn: dict[str, Any] = {"edgecolor": colour, "alpha": opacity, "linewidth": outline, "zorder": 3}
        drawn["facecolor"] = self.theme.background if hollow else colour
        self.ax.add_patch(Polygon(arrowhead(tip, base), clip_on=False, joinstyle="miter", **drawn))

    def _box(self, centre: Point, size: tuple[float, float], kind: str, opacity: float = 1.0) -> None:
        """The box of a variable, of kind "unresolved", "own" (its own mechanism changed), or neither."""
        colours = {"unresolved": self.theme.open_box, "own": self.theme.changed_box}
        width, height = size
        corner = (centre[0] - width / 2, centre[1] - height / 2)
        style = f"round,pad=0,rounding_size={min(6.0, height / 3)}"
        self.ax.add_patch(
            FancyBboxPatch(
                corner, width, height, boxstyle=style, edgecolor=self.theme.border, alpha=opacity,
                facecolor=colours.get(kind, self.theme.box),
                linestyle=(0, (3, 2)) if kind == "unresolved" else "solid",
                linewidth=1.1 * self.scale, zorder=2, clip_on=False,
            )
        )  # fmt: skip

    def sample(self, item: LegendItem) -> None:
        """One item of the legend."""
        x, y = item.x, item.y + LINE_HEIGHT / 2
        if item.kind in ("unresolved", "own"):
            self._box((x + SAMPLE / 2, y), (SAMPLE - 6, LINE_HEIGHT - 2), item.kind)
        elif item.kind == "confidence":
            for k, opacity in enumerate((1.0, (1 + PALEST) / 2, PALEST)):
                ends = [(x + k * SAMPLE / 3, y), (x + (k + 1) * SAMPLE / 3, y)]
                self._line("changed", 2.6, opacity, Path(ends))
        else:
            headed, hollow = item.kind != "undirected", item.kind == "hedged"
            kind, end = "changed" if hollow else item.kind, x + SAMPLE - 9.0 * headed
            self._line(kind, THINNEST if kind == "range" else 2.6, 1.0, Path([(x, y), (end, y)]))
            if headed:
                self._head(kind, 1.0, (x + SAMPLE, y), (end, y), hollow=hollow)
        self.write(item.words, (x + SAMPLE + 8, y), align="left")

    def write(
        self, text: str, at: Point, *, align: Literal["left", "center"] = "center", opacity: float = 1.0
    ) -> None:
        """One line of text in the size of the picture."""
        placed: dict[str, Any] = {"ha": align, "va": "center_baseline", "clip_on": False, "zorder": 4}
        plain: dict[str, Any] = {"parse_math": False, "usetex": False, "family": FONT, "color": self.theme.ink}
        plain["alpha"] = None if opacity == 1.0 else opacity
        self.ax.add_artist(_Name(at[0], at[1], text, **placed, **plain))


class _Name(QuietText):
    """Text whose size is in data units."""

    def _fit(self) -> None:
        if self.axes is not None and self.figure is not None:
            (_, low), (_, high) = self.axes.transData.transform([(0.0, 0.0), (0.0, 1.0)])
            self.set_fontsize(FONT_SIZE * abs(high - low) * 72 / self.figure.dpi)

    def draw(self, renderer: RendererBase) -> None:
        self._fit()
        super().draw(renderer)

    def get_window_extent(self, renderer: RendererBase | None = None, dpi: float | None = None) -> Bbox:
        self._fit()
        return super().get_window_extent(renderer, dpi)
