"""One changed edge in both conditions: rows as points, and the two lines whose slopes differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes

from diffdag._base.errors import InputError
from diffdag.report.format import NumberFormat, by_size, kind_words
from diffdag.report.layout.theme import ThemeName, theme_called
from diffdag.report.plots.chart import LABEL, SMALL, axes_for, short, silence_missing_glyphs, style_axes

if TYPE_CHECKING:
    from diffdag.results.difference import Difference
    from diffdag.results.records import Cloud, Edge, EdgeScatter

SIZE = (5.6, 4.4)  # inches
NAME_CHARACTERS = 30
LISTED = 12  # edges that an error names
MARKERS = ("o", "^")
LINES = ("solid", (0, (5, 2)))


def plot_edge(
    result: Difference, source: str, target: str, ax: Axes | None = None, *, theme: ThemeName = "light"
) -> Axes:
    """Draw one changed edge in both conditions; `DifferenceResult.plot_edge` says how to read it.

    >>> import diffdag as dd
    >>> pair = dd.simulate_pair(p=5, neighbours=2, changes=1, weights=(0.8, 1.0), rng=3)
    >>> tables = pair.first.sample(500, rng=1), pair.second.sample(500, rng=2)
    >>> result = dd.DifferenceDAG().fit(*tables).result_
    >>> (edge,) = result.edge_list
    >>> plot_edge(result, edge.source, edge.target).get_xlabel() == edge.source
    True
    """
    colours = theme_called(theme)
    edge = _edge(result, source, target)
    scatter = result.scatter_of(edge.source, edge.target)
    if scatter is None:
        raise InputError(
            f"the result has the edge {edge}, but not what it looks like in the rows, which is stored for the "
            "largest changes of a fit to data; fit again with this version"
        )
    ax = axes_for(ax, colours, SIZE, (0.13, 0.13, 0.83, 0.77))
    clouds, looks = (scatter.first, scatter.second), (colours.first, colours.second)
    show = NumberFormat([cloud.slope for cloud in clouds])
    for number, cloud in enumerate(clouds):
        label = short(result.labels[number], NAME_CHARACTERS)
        _draw_cloud(ax, cloud, looks[number], f"{label}: slope {show(cloud.slope)}", number)
    _label(ax, scatter)
    style_axes(ax, colours)
    start, end = (short(name, NAME_CHARACTERS) for name in (edge.source, edge.target))
    title = f"{start} {'→' if edge.directed else '—'} {end}: {kind_words(edge.kind)}"
    ax.set_title(title, loc="left", fontsize=LABEL + 1, color=colours.ink, parse_math=False)
    legend = ax.legend(fontsize=SMALL, labelcolor=colours.ink, framealpha=0.85, facecolor=colours.background)
    legend.get_frame().set_edgecolor(colours.faint)
    for text in legend.get_texts():
        text.set_parse_math(False)
    silence_missing_glyphs(ax)
    return ax


def _edge(result: Difference, source: str, target: str) -> Edge:
    """The edge with these ends; undirected ones have them in either order."""
    for edge in result.edge_list:
        ends = (edge.source, edge.target)
        if ends == (source, target) or (not edge.directed and ends == (target, source)):
            return edge
    listed = [str(edge) for edge in by_size(result.edge_list)]
    more = f" and {len(listed) - LISTED} more" if len(listed) > LISTED else ""
    known = f"changed are {', '.join(listed[:LISTED])}{more}" if listed else "no edge changed"
    raise InputError(f"the edge {source} -> {target} is not among the changed ones; {known}")


def _draw_cloud(ax: Axes, cloud: Cloud, colour: str, label: str, number: int) -> None:
    """Points, or a band in their place, and the line; the second condition differs in shape as well."""
    ends = np.array([cloud.low, cloud.high])
    heights = cloud.intercept + cloud.slope * ends
    marker, fill = MARKERS[number] if cloud.x else None, "none" if number == 0 else colour
    if cloud.x:
        points: dict[str, Any] = {"facecolors": fill, "edgecolors": colour, "linewidths": 0.8}
        ax.scatter(cloud.x, cloud.y, s=16, marker=marker, alpha=0.55, zorder=2, **points)
    else:
        ax.fill_between(
            ends, heights - cloud.noise, heights + cloud.noise, color=colour, alpha=0.18, linewidth=0, zorder=1
        )
    ax.plot(
        ends, heights, color=colour, linewidth=2.4, linestyle=LINES[number], zorder=3,
        label=f" {label}" if label.startswith("_") else label,  # matplotlib hides names that start so
        marker=marker, markevery=[], markerfacecolor=fill,
    )  # fmt: skip


def _label(ax: Axes, scatter: EdgeScatter) -> None:
    unit = ", as scores of ranks" if scatter.scores else ""
    less = ",\nless the effect of its other causes" if scatter.adjusted else ""
    ax.set_xlabel(f"{short(scatter.source, NAME_CHARACTERS)}{unit}")
    ax.set_ylabel(f"{short(scatter.target, NAME_CHARACTERS)}{unit}{less}")
