"""A difference DAG over the brain: three views, its outline from the regions' coordinates, regions by lobe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, Polygon
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from diffdag.experiments.charts import save_figure
from diffdag.experiments.label_places import place_labels
from diffdag.report.plot import STYLES

FloatArray = NDArray[np.float64]

# The paper colours the visual cortex green. Names are matched by their beginning, in small letters.
LOBES = {
    "frontal": "#3b6fb6",
    "parietal": "#e0a800",
    "temporal": "#b0457b",
    "occipital": "#2e9e4f",
    "limbic": "#d1495b",
    "insula": "#5bbcd6",
    "cerebell": "#8a5a2b",
    "subcort": "#6d4bb8",
    "scgm": "#6d4bb8",
    "brainstem": "#444b54",
}
OTHER_LOBES = ("#7a9e7e", "#c97b63", "#6b7fa8", "#a88f5a", "#9a6fa0")
MARGIN = 9.0  # mm between the outermost regions and the outline
INCHES_PER_MM = 0.0262
FONT_SIZE, SMALL_FONT_SIZE, MANY_LABELS = 6.6, 5.4, 30
MOST_EDGES = 60
CURVE = 0.18  # bow of an edge, as a share of its length
INK, FAINT, SKIN = "#15202b", "#b4bcc6", "#f5f6f8"


@dataclass(frozen=True)
class View:
    """One direction to look from: the coordinates across and up, and what is written at the sides."""

    across: str
    up: str
    title: str
    left: str
    right: str


VIEWS = (
    View("x", "y", "from above", "L", "R"),
    View("y", "z", "from the right", "back", "front"),
    View("x", "z", "from behind", "L", "R"),
)


def draw_brain(
    regions: pd.DataFrame, edges: pd.DataFrame, title: str, path: Path, *, atlas: pd.DataFrame | None = None
) -> list[Path]:
    """Draw three views into one figure, as SVG and PNG.

    Parameters
    ----------
    regions : DataFrame
        ``region, label, lobe, x, y, z`` (mm; x to the right, y to the front, z up).
    edges : DataFrame
        ``source, target, directed, change, delta, stderr``. Of more than 60 the clearest 60 are drawn, and
        only their regions are named; the title then says so.
    title : str
    path : Path
        Without ending.
    atlas : DataFrame, optional
        Regions from which the outline is drawn, if there are more than `regions`.
    """
    whole, drawn = regions if atlas is None else atlas, clearest(edges, MOST_EDGES)
    outlines = [_outline(whole, view) for view in VIEWS]
    spans = [np.ptp(points, axis=0) + np.array([26.0, 18.0]) for points in outlines]
    width, height = sum(span[0] for span in spans), max(span[1] for span in spans)
    figure = Figure(figsize=(INCHES_PER_MM * width + 0.4, INCHES_PER_MM * height + 1.15), layout="constrained")
    axes = figure.subplots(1, len(VIEWS), width_ratios=[span[0] for span in spans])
    for ax, view, points in zip(axes, VIEWS, outlines, strict=True):
        _draw_outline(ax, view, points, height)
        _draw_dots(ax, view, regions, edges)
        _draw_edges(ax, view, regions, drawn)
        _draw_names(ax, view, regions, drawn)
    left_out = f" (the clearest {MOST_EDGES} are drawn)" if len(edges) > MOST_EDGES else ""
    figure.suptitle(f"{title}{left_out}", fontsize=11, color=INK)
    handles = _legend(regions, edges)
    if handles:
        figure.legend(
            handles=handles, loc="outside lower center", ncols=min(len(handles), 9), frameon=False, fontsize=8.5
        )
    else:
        figure.supxlabel("no edge found", fontsize=10, color=INK)
    return save_figure(figure, path)


def _outline(regions: pd.DataFrame, view: View) -> FloatArray:
    """The outline in one view, the same on both sides where both can be seen."""
    points = regions[[view.across, view.up]].to_numpy(float)
    return outline(np.vstack([points, points * (-1, 1)]) if view.across == "x" else points)


def outline(points: FloatArray) -> FloatArray:
    """A smooth closed curve around points: seen from their middle, how far they reach in each direction.

    >>> corners = np.array([[-50.0, -50], [-50, 50], [50, -50], [50, 50]])
    >>> curve = outline(corners)
    >>> bool(np.linalg.norm(curve, axis=1).min() > 50), bool(np.abs(curve).max() < 80)
    (True, True)
    """
    centre = (points.min(axis=0) + points.max(axis=0)) / 2
    steps = points - centre
    distance, angle = np.hypot(*steps.T), np.arctan2(steps[:, 1], steps[:, 0])
    turn = np.radians(np.arange(-180, 180))
    facing = np.clip(np.cos(turn[:, None] - angle[None]), 0, None)
    reach = gaussian_filter1d((distance * facing**2).max(axis=1), sigma=11, mode="wrap")
    there = np.interp(angle, turn, reach, period=2 * np.pi)
    reach = reach + max(0.0, float((distance - there).max())) + MARGIN
    curve: FloatArray = centre + reach[:, None] * np.column_stack([np.cos(turn), np.sin(turn)])
    return curve


def _draw_outline(ax: Axes, view: View, points: FloatArray, height: float) -> None:
    """The outline, the midline and the nose where they can be seen, and which side is which."""
    low, high = points.min(axis=0), points.max(axis=0)
    middle = (low + high) / 2
    if view.up == "y":
        tip = float(points[np.abs(points[:, 0]).argsort()[:12], 1].max())
        nose = [(-7.0, tip - 1.5), (0.0, tip + 8), (7.0, tip - 1.5)]
        ax.add_patch(Polygon(nose, closed=False, facecolor=SKIN, edgecolor=FAINT, linewidth=1.4, zorder=0))
    ax.add_patch(Polygon(points, facecolor=SKIN, edgecolor=FAINT, linewidth=1.6, zorder=0.5))
    if view.across == "x":
        ax.plot(
            [0, 0], [low[1] + 4, high[1] - 4], color=FAINT, linewidth=0.8, linestyle=(0, (5, 4)), zorder=0.6
        )
    for text, x, align in ((view.left, low[0] - 10, "left"), (view.right, high[0] + 10, "right")):
        ax.text(x, high[1] - 2, text, ha=align, va="top", fontsize=9, color="#7a8490")
    ax.set_xlim(low[0] - 13, high[0] + 13)
    ax.set_ylim(middle[1] - height / 2, middle[1] + height / 2)
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.set_title(view.title, fontsize=9, color="#48525e", y=0.0, va="top")


def clearest(edges: pd.DataFrame, most: int) -> pd.DataFrame:
    """The edges whose changes are most standard errors away from none; undirected ones are kept."""
    if len(edges) <= most:
        return edges
    errors = np.abs(edges["delta"].to_numpy(float) / edges["stderr"].to_numpy(float))
    places = np.argsort(-np.nan_to_num(errors, nan=np.inf), kind="stable")[:most]
    return edges.iloc[np.sort(places)]


def _taking_part(regions: pd.DataFrame, edges: pd.DataFrame) -> pd.DataFrame:
    return regions[regions["region"].isin({*edges["source"], *edges["target"]})]


def _draw_dots(ax: Axes, view: View, regions: pd.DataFrame, edges: pd.DataFrame) -> None:
    """Every region as a dot; those that take part larger and coloured."""
    ax.scatter(regions[view.across], regions[view.up], s=5, color=FAINT, linewidths=0, zorder=1)
    part, colours = _taking_part(regions, edges), lobe_colours(regions["lobe"])
    ax.scatter(
        part[view.across],
        part[view.up],
        s=30,
        color=[colours[lobe] for lobe in part["lobe"]],
        edgecolors="white",
        linewidths=0.7,
        zorder=4,
    )


def _draw_names(ax: Axes, view: View, regions: pd.DataFrame, edges: pd.DataFrame) -> None:
    """The names of the regions that take part, where they cover least, joined to their dots if far away."""
    part = _taking_part(regions, edges)
    if part.empty:
        return
    points = part[[view.across, view.up]].to_numpy(float)
    font = FONT_SIZE if len(part) <= MANY_LABELS else SMALL_FONT_SIZE
    point = 1 / 72 / INCHES_PER_MM  # one typographic point in mm
    sizes = np.array([[0.62 * font * point * len(label) + 1, 1.25 * font * point] for label in part["label"]])
    lines = np.vstack([_bow(*ends) for ends in _ends(view, regions, edges)])
    middle = regions[[view.across, view.up]].to_numpy(float).mean(axis=0)
    places = place_labels(points, sizes, lines, middle)
    for label, at, place, size in zip(part["label"], points, places, sizes, strict=True):
        if max(np.abs(place - at) - size / 2) > 2.5 * point:
            ax.plot(*np.column_stack([at, place]), color="#8d97a3", linewidth=0.4, zorder=2.5)
        ax.text(
            float(place[0]), float(place[1]), label,
            fontsize=font, color=INK, ha="center", va="center", zorder=5,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.4}, parse_math=False,
        )  # fmt: skip


def _draw_edges(ax: Axes, view: View, regions: pd.DataFrame, edges: pd.DataFrame) -> None:
    """Curved arrows, wider the larger the change; without a head where the direction is open."""
    for ends, kind, width, directed in zip(
        _ends(view, regions, edges), kinds(edges), widths(edges["delta"]), edges["directed"], strict=True
    ):
        ax.add_patch(
            FancyArrowPatch(
                tuple(ends[0]),
                tuple(ends[1]),
                arrowstyle="-|>" if directed else "-",
                connectionstyle=f"arc3,rad={CURVE}",
                mutation_scale=5 + 2 * width,
                shrinkA=3,
                shrinkB=3.6,
                linewidth=width,
                linestyle="solid" if directed else (0, (3, 1.5)),
                color=STYLES[kind][0],
                alpha=0.88,
                zorder=3,
            )
        )


def _ends(view: View, regions: pd.DataFrame, edges: pd.DataFrame) -> list[FloatArray]:
    """Where each edge begins and ends."""
    places = regions.set_index("region")[[view.across, view.up]]
    return [places.loc[[s, t]].to_numpy(float) for s, t in zip(edges["source"], edges["target"], strict=True)]


def _bow(start: FloatArray, end: FloatArray) -> FloatArray:
    """Points along the curve of an edge, the quadratic Bezier curve of matplotlib's arc3."""
    step = end - start
    control = (start + end) / 2 + CURVE * np.array([step[1], -step[0]])
    t = np.linspace(0.1, 0.9, 9)[:, None]
    curve: FloatArray = (1 - t) ** 2 * start + 2 * t * (1 - t) * control + t**2 * end
    return curve


def kinds(edges: pd.DataFrame) -> list[str]:
    """The kind of change of each edge, as the legend names it."""
    changes = edges["change"].astype(object).where(edges["change"].notna(), "changed")
    return [
        str(change) if directed else "undirected"
        for change, directed in zip(changes, edges["directed"], strict=True)
    ]


def widths(deltas: pd.Series) -> FloatArray:
    """Line widths from the sizes of the changes, the largest 2.8 points; unknown ones are thin."""
    sizes = np.abs(deltas.to_numpy(float, na_value=np.nan))
    largest = float(np.nanmax(sizes)) if np.isfinite(sizes).any() else 1.0
    result: FloatArray = 0.9 + 1.9 * np.nan_to_num(sizes / (largest or 1.0))
    return result


def lobe_colours(lobes: Sequence[str] | pd.Series) -> dict[str, str]:
    """One colour a lobe; the known ones always the same."""
    colours = {}
    spare = 0
    for lobe in sorted(set(lobes)):
        known = [colour for name, colour in LOBES.items() if lobe.lower().startswith(name)]
        colours[lobe] = known[0] if known else OTHER_LOBES[spare % len(OTHER_LOBES)]
        spare += not known
    return colours


def _legend(regions: pd.DataFrame, edges: pd.DataFrame) -> list[Line2D]:
    part, colours = _taking_part(regions, edges), lobe_colours(regions["lobe"])
    dots = [
        Line2D([], [], marker="o", linestyle="", color=colours[lobe], markersize=6, label=lobe)
        for lobe in dict.fromkeys(part["lobe"])
    ]
    lines = [
        Line2D([], [], color=colour, linewidth=2, label=kind, linestyle="--" if kind == "undirected" else "-")
        for kind, (colour, _) in STYLES.items()
        if kind in kinds(edges)
    ]
    return [*dots, *lines]
