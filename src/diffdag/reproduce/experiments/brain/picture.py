"""A difference DAG over the brain: three views side by side, regions coloured by lobe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from diffdag.report.layout.theme import THEMES
from diffdag.report.plots.brain import INCHES_PER_MM, MOST_EDGES, BrainLook, draw_regions, edge_samples
from diffdag.report.plots.brain_outline import AROUND, VIEWS, draw_outline, outline_of
from diffdag.reproduce.experiments.brain.data import records
from diffdag.reproduce.experiments.charts import save_figure
from diffdag.results.records import Edge

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
SIDES = ("top", "right", "back")
THEME = THEMES["light"]


def draw_brain(
    regions: pd.DataFrame, edges: pd.DataFrame, title: str, path: Path, *, atlas: pd.DataFrame | None = None
) -> list[Path]:
    """Draw three views into one figure, as SVG and PNG; `path` has no ending.

    Coordinates are in mm: x to the right, y to the front, z up. Of many edges the clearest are drawn, and the
    title says so. The outline is that of the `atlas`, which may have more than the `regions`.
    """
    axes, names, lobes = ["x", "y", "z"], regions["region"], regions["lobe"]
    colours = lobe_colours(lobes)
    places = dict(zip(names, regions[axes].to_numpy(float), strict=True))
    shown = {name: colours[lobe] for name, lobe in zip(names, lobes, strict=True)}
    labels = dict(zip(names, regions["label"], strict=True))
    whole, found = (regions if atlas is None else atlas)[axes].to_numpy(float), edges_of(edges)
    views = [VIEWS[side] for side in SIDES]
    outlines = [outline_of(whole, view) for view in views]
    spans = [np.ptp(points, axis=0) + np.array(AROUND) for points in outlines]
    width, height = sum(span[0] for span in spans), max(span[1] for span in spans)
    figure = Figure(figsize=(INCHES_PER_MM * width + 0.4, INCHES_PER_MM * height + 1.3))
    left, foot, inches = 0.2, 0.85, figure.get_size_inches()
    for view, points, span in zip(views, outlines, spans, strict=True):
        box = np.array([left, foot, INCHES_PER_MM * span[0], INCHES_PER_MM * height])
        ax = figure.add_axes(tuple(box / [*inches, *inches]))
        left += INCHES_PER_MM * span[0]
        draw_outline(ax, THEME, view, points, height)
        draw_regions(ax, BrainLook(THEME, view, places=places, colours=shown, labels=labels), found)
        ax.set_title(view.title, fontsize=9, color=THEME.soft, y=0.0, va="top")
    left_out = f" (the clearest {MOST_EDGES} are drawn)" if len(found) > MOST_EDGES else ""
    figure.suptitle(f"{title}{left_out}", fontsize=11, color=THEME.ink, y=1 - 0.15 / inches[1], va="top")
    _write_legend(figure, regions, found)
    return save_figure(figure, path)


def edges_of(table: pd.DataFrame) -> list[Edge]:
    """The rows of a table of edges."""
    fields = ["source", "target", "directed", "change", "delta", "stderr"]
    return [Edge(**row) for row in records(table.filter(fields))]


def lobe_colours(lobes: Sequence[str] | pd.Series) -> dict[str, str]:
    """One colour per lobe; the known ones always the same."""
    colours = {}
    spare = 0
    for lobe in sorted(set(lobes)):
        known = [colour for name, colour in LOBES.items() if lobe.lower().startswith(name)]
        colours[lobe] = known[0] if known else OTHER_LOBES[spare % len(OTHER_LOBES)]
        spare += not known
    return colours


def _write_legend(figure: Figure, regions: pd.DataFrame, edges: Sequence[Edge]) -> None:
    if not edges:
        figure.supxlabel("no edge found", fontsize=10, color=THEME.ink)
        return
    part = {name for edge in edges for name in (edge.source, edge.target)}
    colours = lobe_colours(regions["lobe"])
    dots = [
        Line2D([], [], marker="o", linestyle="", color=colours[lobe], markersize=6, label=lobe)
        for lobe in dict.fromkeys(regions.loc[regions["region"].isin(part), "lobe"])
    ]
    handles = [*dots, *edge_samples(THEME, edges)]
    look: dict[str, Any] = {"frameon": False, "fontsize": 8.5, "handlelength": 3}
    figure.legend(handles=handles, loc="lower center", ncols=min(len(handles), 8), **look)
