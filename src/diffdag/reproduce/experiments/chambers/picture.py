"""Claims on a machine as bars: what each method found, and what it claimed besides, kind by kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from diffdag._base.words import plural
from diffdag.report.layout.theme import THEMES
from diffdag.reproduce.experiments.chambers.data import KINDS
from diffdag.reproduce.experiments.charts import save_figure

THEME = THEMES["light"]
# Name, colour and hatch of each part of a bar.
PARTS = {
    "found": ("found", THEME.kinds["added"], ""),
    "undirected": ("found without direction", THEME.kinds["weakened"], "///"),
    "reversed": ("found the wrong way round", THEME.kinds["reversed-sign"], "\\\\\\"),
    "extra": ("false", THEME.kinds["removed"], ""),
}
LINE: dict[str, Any] = {"color": THEME.ink, "linewidth": 1, "linestyle": (0, (4, 2))}
LABEL: dict[str, Any] = {
    "textcoords": "offset points", "va": "center", "fontsize": 8,
    "bbox": {"facecolor": THEME.background, "edgecolor": "none", "pad": 0.5},
}  # fmt: skip
COLUMNS = 3


def draw_claims(summary: pd.DataFrame, path: Path) -> list[Path]:
    """Draw one panel per kind, a bar per method, in claims per comparison; as SVG and PNG."""
    kinds = list(dict.fromkeys(summary["kind"]))
    lines = -(-len(kinds) // COLUMNS)
    bars = summary["method"].nunique()
    figure = Figure(figsize=(10.5, lines * (0.27 * bars + 1.1) + 0.7), layout="constrained")
    axes = figure.subplots(lines, COLUMNS, squeeze=False, sharey=True, sharex=True).ravel()
    for kind, ax in zip(kinds, axes, strict=False):
        _draw_kind(ax, str(kind), summary[summary["kind"] == kind])
    axes[0].invert_yaxis()  # of all of them: they share it
    for ax in axes[len(kinds) :]:
        ax.set_visible(False)
    for ax in axes[max(0, len(kinds) - COLUMNS) : len(kinds)]:
        ax.tick_params(labelbottom=True)
        ax.set_xlabel("claimed edges per comparison", color=THEME.soft, fontsize=9)
    handles: list[Artist] = [
        Patch(facecolor=colour, hatch=hatch, edgecolor=THEME.background, label=name)
        for name, colour, hatch in PARTS.values()
    ]
    handles.append(Line2D([], [], label="edges that changed", **LINE))
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False, fontsize=9)
    return save_figure(figure, path)


def _draw_kind(ax: Axes, kind: str, rows: pd.DataFrame) -> None:
    fits = int(rows["fits"].iloc[0])
    left = pd.Series(0.0, index=rows.index)
    answered = (rows["fits"] - rows["gave_up"]).clip(lower=1)
    for name, (_, colour, hatch) in PARTS.items():
        width = rows[name] / answered
        ax.barh(
            rows["method"], width, left=left, color=colour, hatch=hatch, edgecolor=THEME.background, height=0.7
        )
        left += width
    for method, end, gave_up in zip(rows["method"], left, rows["gave_up"], strict=True):
        words = f"{end:.1f}" + (f", gave up {gave_up}" if gave_up else "")
        ax.annotate(words, (end, method), (3, 0), **LABEL)
    true = rows["true"].iloc[0] / fits
    if true:
        ax.axvline(true, **LINE)
    ax.set_title(f"{KINDS[kind]}\n{plural(fits, 'comparison')}", fontsize=9.5, color=THEME.ink)
    ax.spines[["top", "right"]].set_visible(False)
    ax.margins(x=0.12)
