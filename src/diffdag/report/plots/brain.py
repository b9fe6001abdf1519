"""The changed edges between brain regions, over the outline of the brain.

Many edges at once show nothing. So the clearest ones are drawn as everywhere else, and the ends of these alone
have names; the others are thin and pale below them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch, Polygon
from matplotlib.path import Path

from diffdag._base.arrays import FloatArray
from diffdag._base.checks import check_option
from diffdag._base.errors import InputError
from diffdag._base.words import join_names, plural
from diffdag.report.format import ends, kind_words
from diffdag.report.layout.picture import FONT_SIZE, changes_words, line_kind, opacity, strokes, text_width
from diffdag.report.layout.theme import DASHES, Theme, ThemeName, theme_called
from diffdag.report.plots.brain_outline import AROUND, VIEWS, View, draw_outline, outline_of
from diffdag.report.plots.chart import LABEL, SMALL, axes_for, short, silence_missing_glyphs
from diffdag.report.plots.label_places import place_labels
from diffdag.tables.readers.coordinates import Place, check_coordinates

if TYPE_CHECKING:
    from diffdag.results.difference import Difference
    from diffdag.results.records import Edge
    from diffdag.tables.readers.coordinates import Coordinates

ViewName = Literal["top", "left", "right", "front", "back"]

INCHES_PER_MM = 0.034
HEAD, FOOT = 0.5, 0.65  # inches for title and legend
MOST_EDGES, CLEAR = 60, 20  # edges drawn at all, and those of them that stand out
PALE, THIN = 0.45, 0.8  # opacity and width of the others
WIDER = 0.6  # widths compared with those of the difference DAG: brains are crowded
CURVE = 0.18  # bow of an edge, as a share of its length
NAME_CHARACTERS = 20
SMALLEST, USUAL, LARGEST = 60.0, 170.0, 300.0  # mm between the outermost regions
SAMPLE, ITEM = 1.8, 125.0  # in the legend: width of a line, length of an item, in points
FONTS = (7.0, 6.0)  # few names, many names
MANY_NAMES = 24


def plot_brain(
    result: Difference,
    coordinates: Coordinates,
    ax: Axes | None = None,
    *,
    view: ViewName = "top",
    theme: ThemeName = "light",
) -> Axes:
    """Draw the changed edges between brain regions; `DifferenceResult.plot_brain` says how.

    >>> import diffdag as dd
    >>> pair = dd.simulate_pair(p=4, neighbours=2, changes=1, rng=3)
    >>> result = dd.DifferenceDAG().fit_population(pair.first, pair.second).result_
    >>> places = {"X1": (-30, 40, 0), "X2": (30, 40, 10), "X3": (-20, -90, 5), "X4": (20, -90, 5)}
    >>> plot_brain(result, places).get_title()
    'From first to second, seen from above'
    """
    check_option("view", view, tuple(VIEWS), f"view is {view!r}; expected one of {', '.join(VIEWS)}")
    colours, side = theme_called(theme), VIEWS[view]
    places = _life_size(check_coordinates(coordinates))
    edges = [edge for edge in result.edge_list if edge.source in places and edge.target in places]
    if result.edge_list and not edges:
        bare = [name for name in ends(result.edge_list) if name not in places]
        raise InputError(f"coordinates have nothing for {join_names(bare)}, where something changed; add them")
    curve = outline_of(np.array(list(places.values())), side)
    if ax is None:
        wide, high = INCHES_PER_MM * (np.ptp(curve, axis=0) + AROUND)
        whole = HEAD + high + FOOT
        ax = axes_for(None, colours, (wide, whole), (0.0, FOOT / whole, 1.0, high / whole))
    draw_outline(ax, colours, side, curve)
    draw_regions(ax, BrainLook(colours, side, places), edges)
    first, second = (short(label, NAME_CHARACTERS) for label in result.labels)
    title = f"From {first} to {second}, seen {side.title}"
    if len(edges) > MOST_EDGES:
        title += f";\nthe clearest {MOST_EDGES} of {len(edges)} changes"
    if lost := len(result.edge_list) - len(edges):
        title += f";\n{plural(lost, 'change')} at regions without a place not drawn"
    ax.set_title(title, fontsize=LABEL, color=colours.ink, parse_math=False)
    _write_legend(ax, colours, edges, changes_words(result))
    silence_missing_glyphs(ax)
    return ax


def _life_size(places: dict[str, Place]) -> dict[str, Place]:
    """Places in a human brain, whose size the picture is made for: those of a mouse, or in cm, are scaled."""
    values = np.array(list(places.values()))
    extent = float(np.ptp(values, axis=0).max())
    if not extent or SMALLEST < extent < LARGEST:
        return places
    grown = (values * (USUAL / extent)).tolist()
    return {name: (x, y, z) for name, (x, y, z) in zip(places, grown, strict=True)}


def clearest(edges: Sequence[Edge], most: int) -> list[Edge]:
    """The edges whose changes are most standard errors away from none; undirected ones first.

    Without standard errors, those of exact models, the largest.
    """

    def clarity(edge: Edge) -> float:
        return np.inf if edge.delta is None else abs(edge.delta) / (edge.stderr or 1.0)

    return sorted(edges, key=clarity, reverse=True)[:most]


@dataclass(frozen=True)
class BrainLook:
    """What all parts of a picture of the brain need."""

    theme: Theme
    view: View
    places: Mapping[str, Sequence[float]]  # where the regions are
    colours: Mapping[str, str] = field(default_factory=dict)  # of regions that take part
    labels: Mapping[str, str] = field(default_factory=dict)  # to be written instead of names

    def at(self, names: Sequence[str]) -> FloatArray:
        """Where regions are in this view."""
        return self.view.project(np.array([self.places[name] for name in names], float).reshape(-1, 3))


def draw_regions(ax: Axes, look: BrainLook, edges: Sequence[Edge]) -> None:
    """Regions, edges and names, on axes that have their limits already."""
    drawn = clearest(edges, MOST_EDGES)
    clear = drawn if len(drawn) <= CLEAR + 4 else drawn[:CLEAR]
    x, y = look.at(list(look.places)).T
    ax.scatter(x, y, s=4, color=look.theme.grey, alpha=0.6, linewidths=0, zorder=1)
    _draw_dots(ax, look, ends(drawn[len(clear) :]), size=14)
    _draw_dots(ax, look, ends(clear), size=28)
    point = _point(ax)
    for edge in drawn[len(clear) :]:
        _draw_edge(ax, look, edge, THIN, point, alpha=PALE * opacity(edge), zorder=2.0)
    for edge, width in zip(clear, strokes(clear, clear), strict=True):
        _draw_edge(ax, look, edge, WIDER * width, point, alpha=opacity(edge), zorder=3.0)
    _write_names(ax, look, clear, point)


def _point(ax: Axes) -> float:
    """One typographic point in mm on the brain."""
    box, (left, right), (low, high) = ax.get_window_extent(), ax.get_xlim(), ax.get_ylim()
    pixels = min(box.width / (right - left), box.height / (high - low))
    return float(ax.figure.dpi / 72 / pixels)


def _draw_dots(ax: Axes, look: BrainLook, names: Sequence[str], size: float) -> None:
    colours = [look.colours.get(name, look.theme.border) for name in names]
    x, y = look.at(names).T
    ax.scatter(x, y, s=size, color=colours, edgecolors=look.theme.background, linewidths=0.7, zorder=4)


def _draw_edge(ax: Axes, look: BrainLook, edge: Edge, width: float, point: float, **plain: Any) -> None:
    """A curved arrow; without a head where the direction is open."""
    curve = bow(*look.at([edge.source, edge.target]))
    # Off the dots at both ends, and a head's length off the tip; the head leaves room for the line.
    gap, length = 3.0 * point, float(np.linalg.norm(curve[-1] - curve[0]))
    head = min((4.0 + 2.0 * width) * point, 0.6 * (length - 2 * gap)) if edge.directed else 0.0
    from_start, from_end = (np.linalg.norm(curve - end, axis=1) for end in (curve[0], curve[-1]))
    inner = curve[(from_start >= gap) & (from_end >= gap + 0.8 * head)]
    if length < 2 * gap or len(inner) < 2:
        return  # one region hides the other
    kind = line_kind(edge)
    colour, line = look.theme.kinds[kind], {"linewidth": width, "linestyle": _dashes(kind, width)}
    ax.add_patch(PathPatch(Path(inner), facecolor="none", edgecolor=colour, capstyle="butt", **line, **plain))
    if edge.directed:
        ax.add_patch(Polygon(_head(curve, gap, head), color=colour, linewidth=0, **plain))


def _dashes(kind: str, width: float) -> Any:
    """Dashes as matplotlib counts them, in widths; shorter than in the difference DAG, as edges are."""
    return (0, tuple(0.75 * dash / width for dash in DASHES[kind])) if DASHES[kind] else "solid"


def bow(start: FloatArray, end: FloatArray) -> FloatArray:
    """Points along the curve of an edge, a quadratic Bezier curve that bends to one side."""
    step = end - start
    control = (start + end) / 2 + CURVE * np.array([step[1], -step[0]])
    t = np.linspace(0.0, 1.0, 61)[:, None]
    curve: FloatArray = (1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end
    return curve


def _head(curve: FloatArray, gap: float, length: float) -> FloatArray:
    """The triangle at the end of a curve."""
    far = curve[np.linalg.norm(curve - curve[-1], axis=1) >= gap + length]
    back = curve[-1] - far[-1:].sum(axis=0)
    along = back / (float(np.linalg.norm(back)) or 1.0)
    across = 0.4 * length * np.array([-along[1], along[0]])
    tip = curve[-1] - gap * along
    base = tip - length * along
    return np.array([tip, base + across, base - across])


def _write_names(ax: Axes, look: BrainLook, edges: Sequence[Edge], point: float) -> None:
    """The names of the regions that edges join, where they cover least, joined to their dots if far away."""
    names = ends(edges)
    if not names:
        return
    at = look.at(names)
    font = FONTS[len(names) > MANY_NAMES]
    words = [short(look.labels.get(name, name), NAME_CHARACTERS) for name in names]
    unit = point * font / FONT_SIZE
    sizes = np.array([[text_width(text) * unit + point, 1.25 * font * point] for text in words])
    lines = np.vstack([bow(*look.at([edge.source, edge.target]))[6:-6:5] for edge in edges])
    places = place_labels(at, sizes, lines, look.at(list(look.places)).mean(axis=0))
    paper = {"facecolor": look.theme.box, "edgecolor": "none", "alpha": 0.8, "pad": 0.4}
    for text, start, place, size in zip(words, at, places, sizes, strict=True):
        if max(np.abs(place - start) - size / 2) > 2.5 * point:
            ax.plot(*np.column_stack([start, place]), color=look.theme.grey, linewidth=0.5, zorder=2.5)
        ax.text(
            float(place[0]), float(place[1]), text, fontsize=font, color=look.theme.ink, ha="center",
            va="center", zorder=5, bbox=paper, parse_math=False,
        )  # fmt: skip


def edge_samples(theme: Theme, edges: Sequence[Edge]) -> list[Line2D]:
    """Lines for a legend: the kinds of change that occur, and what thin and pale lines mean."""
    present = {edge.kind for edge in edges}
    looks: dict[str, dict[str, Any]] = {
        kind_words(kind): {"color": theme.kinds[kind], "linewidth": SAMPLE, "linestyle": _dashes(kind, SAMPLE)}
        for kind in DASHES
        if kind in present
    }
    if any(edge.confidence is not None for edge in edges):
        looks["paler: less sure"] = {"color": theme.ink, "linewidth": SAMPLE, "alpha": PALE}
    if len(edges) > CLEAR + 4:
        looks["thin: less clear"] = {"color": theme.ink, "linewidth": THIN, "alpha": PALE}
    return [Line2D([], [], label=words, **look) for words, look in looks.items()]


def _write_legend(ax: Axes, theme: Theme, edges: Sequence[Edge], nothing: str) -> None:
    if not edges:
        ax.text(0.5, 0.0, nothing, ha="center", va="top", color=theme.ink, transform=ax.transAxes)
        return
    columns = int(ax.get_window_extent().width * 72 / ax.figure.dpi / ITEM)
    ax.legend(
        handles=edge_samples(theme, edges), loc="upper center", bbox_to_anchor=(0.5, 0.02),
        ncols=min(max(columns, 1), 3),
        frameon=False, fontsize=SMALL, labelcolor=theme.ink, handlelength=3.2, borderaxespad=0.0,
    )  # fmt: skip
