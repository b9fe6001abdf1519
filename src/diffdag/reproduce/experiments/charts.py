"""Curves with intervals, drawn from tables of means: the form of the paper's figures."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats

from diffdag._base.atomic import write_atomic

LEVEL = 0.95
MISSING = 0.1  # a mean is drawn unless more than this share of the results is missing (time limits)
SHIFT = 0.03  # neighbouring curves stand aside by so much of a step, so that their intervals can be seen
# Every method of figure 2. Ours and the paper's stand out; neighbours in kind share a hue.
STYLES: dict[str, tuple[str, str]] = {
    "order": ("#c1121f", "o"),
    "oracle": ("#222222", "*"),
    "paper": ("#003f88", "s"),
    "paper-fixed": ("#6f9ceb", "s"),
    "bottom-up": ("#e08bd3", "d"),
    "listen": ("#b5179e", "D"),
    "malik": ("#3a0ca3", ">"),
    "dci-c": ("#2a9d8f", "^"),
    "dci-fc": ("#52b788", "v"),
    "dci-k": ("#95d5b2", "<"),
    "pc": ("#e76f51", "x"),
    "ges": ("#f4a261", "+"),
    "mmhc": ("#d4a017", "1"),
    "dantzig": ("#5c6770", "h"),
    "dtrace": ("#8d99a6", "p"),
    "kliep": ("#7f5539", "P"),
    "plugin": ("#adb5bd", "X"),
    "fused-lasso": ("#a98467", "2"),
    "separate-lasso": ("#c9ada7", "3"),
    "debiased": ("#4a4e69", "4"),
    "ddn": ("#606c38", "<"),
    "z-score": ("#bc6c25", "|"),
    "dgca": ("#00b4d8", "_"),
}
# Methods that rank variables, besides "order" and "oracle".
NODE_STYLES: dict[str, tuple[str, str]] = {
    "order-listed": ("#e5989b", "o"),
    "ut-igsp": ("#2a9d8f", "^"),
    "gnies": ("#003f88", "s"),
    "gnies-rank": ("#6f9ceb", "s"),
    "sd-ratio": ("#e76f51", "x"),
    "shift": ("#f4a261", "+"),
    "baro-max": ("#7f5539", "P"),
    "baro-median": ("#c9ada7", "3"),
    "cd-nod": ("#3a0ca3", ">"),
    "jci-pc": ("#606c38", "<"),
    "prediter": ("#ff006e", "H"),
}
RIVAL_STYLES = {"multigroup-lingam": ("#ff006e", "H")}  # of `rivals`, not in figure 2
SIZES = ("order", "paper-fixed", "dci-c")  # their styles, for curves of numbers of variables
OTHER = ("#555555", ".")


@dataclass(frozen=True)
class Panel:
    """One set of axes: a score against a column of the table, one curve per method."""

    title: str
    score: str
    rows: pd.DataFrame


def summarise(table: pd.DataFrame, by: Sequence[str], scores: Sequence[str]) -> pd.DataFrame:
    """Mean of each score, its 95 % interval, and how many results are behind it.

    Shares of exact results have Wilson intervals; the others Student's around the mean, cut at 0 and 1.
    """
    rows = []
    for key, part in table.groupby(list(by), sort=False):
        row = dict(zip(by, key, strict=True))
        row["answers"], row["missing"] = int(part[scores[0]].notna().sum()), int(part[scores[0]].isna().sum())
        for name in scores:
            values = part[name].dropna().to_numpy(float)
            row[name], row[f"{name}_low"], row[f"{name}_high"] = _interval(values, name)
        rows.append(row)
    return pd.DataFrame(rows)


def _interval(values: NDArray[np.float64], name: str) -> tuple[float, float, float]:
    if values.size == 0:
        return np.nan, np.nan, np.nan
    mean = float(values.mean())
    if name.endswith("exact"):
        low, high = stats.binomtest(int(values.sum()), values.size).proportion_ci(LEVEL, method="wilson")
        return mean, float(low), float(high)
    if values.size == 1:
        return mean, 0.0, 1.0
    half = float(stats.t.ppf((1 + LEVEL) / 2, values.size - 1) * stats.sem(values))
    return mean, max(0.0, mean - half), min(1.0, mean + half)


def style_of(name: str) -> tuple[str, str]:
    """Colour and marker of a curve, fixed over all figures."""
    return (STYLES | NODE_STYLES | RIVAL_STYLES).get(name, OTHER)


def draw_panels(
    panels: Sequence[Panel],
    x: str,
    xlabel: str,
    path: Path,
    *,
    columns: int,
    curve: str = "method",
    log: bool = False,
) -> list[Path]:
    """Draw all panels into one figure, as SVG and PNG."""
    height = -(-len(panels) // columns)
    figure = Figure(figsize=(4.4 * columns + 1.9, 3.4 * height + 0.3), layout="constrained")
    axes = figure.subplots(height, columns, squeeze=False, sharex=True, sharey=True).ravel()
    handles: dict[str, ErrorbarContainer] = {}
    for panel, ax in zip(panels, axes, strict=False):
        handles |= _draw_panel(ax, panel, x, curve, log)
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    for ax in axes[max(0, len(panels) - columns) : len(panels)]:
        ax.set_xlabel(xlabel)
    lines = [handle.lines[0] for handle in handles.values()]
    figure.legend(lines, list(handles), loc="outside right upper", frameon=False, fontsize=9)
    return save_figure(figure, path)


def _draw_panel(ax: Axes, panel: Panel, x: str, curve: str, log: bool) -> dict[str, ErrorbarContainer]:
    handles: dict[str, ErrorbarContainer] = {}
    if log:
        ax.set_xscale("log")
    names = list(dict.fromkeys(panel.rows[curve]))
    step = 0.0 if log else float(np.diff(np.unique(panel.rows[x].to_numpy(float))).min(initial=np.inf))
    aside = min(SHIFT, 0.5 / max(len(names), 1)) * step if np.isfinite(step) else 0.0
    for place, name in enumerate(names):
        part = panel.rows[panel.rows[curve] == name].sort_values(x)
        colour, marker = style_of(str(name) if curve == "method" else SIZES[place % len(SIZES)])
        strong = name in ("order", "paper") or curve != "method"
        shown = part[part["missing"] <= MISSING * (part["answers"] + part["missing"])]
        middle = shown[panel.score].to_numpy(float)
        bars = np.abs(shown[[f"{panel.score}_low", f"{panel.score}_high"]].to_numpy(float).T - middle)
        handles[str(name)] = ax.errorbar(
            shown[x] + aside * (place - len(names) / 2),
            middle,
            yerr=bars,
            color=colour,
            marker=marker,
            markersize=5,
            elinewidth=0.7,
            linewidth=2.2 if strong else 1.1,
            linestyle="--" if name == "oracle" else "-",
            zorder=3 if strong else 2,
        )
    ax.set_title(panel.title, fontsize=10)
    ax.set_ylim(-0.03, 1.03)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    return handles


def save_figure(figure: Figure, path: Path) -> list[Path]:
    """Write ``path.svg`` and ``path.png``, the same bytes for the same figure."""
    FigureCanvasAgg(figure)
    files = []
    for kind in ("svg", "png"):
        buffer = io.BytesIO()
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        with rc_context({"svg.hashsalt": path.name, "svg.fonttype": "none"}):
            figure.savefig(buffer, format=kind, dpi=130, metadata=metadata)
        files.append(write_atomic(path.with_suffix(f".{kind}"), buffer.getvalue()))
    return files


def text_table(table: pd.DataFrame, index: str, columns: str, values: Sequence[str]) -> str:
    """Means as plain text, one line per method."""
    parts = []
    for value in values:
        wide = table.pivot(index=index, columns=columns, values=value).reindex(table[index].unique())
        text = wide.to_string(float_format="{:.2f}".format, na_rep="", index_names=False)
        parts.append(f"{value} at {columns} =\n{text}")
    return "\n\n".join(parts)
