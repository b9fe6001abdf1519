"""The stability path: how often halves of the rows find each edge, setting by setting.

After the picture of Meinshausen and Bühlmann (2010, "Stability selection", Journal of the Royal Statistical
Society B 72): an edge that is there is found in most halves over a wide range of settings, one that is not
comes late and stays rare.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from diffdag._base.arrays import FloatArray
from diffdag._base.errors import InputError
from diffdag.report.layout.theme import Theme, ThemeName, theme_called
from diffdag.report.plots.chart import (
    LABEL,
    LineName,
    axes_for,
    short,
    silence_missing_glyphs,
    style_axes,
    write_names,
)
from diffdag.report.plots.path import mark_settings, set_multiples
from diffdag.trust.sensitivity import SettingsPath

Pair = frozenset[str]

SIZE, BOX = (8.8, 4.6), (0.09, 0.13, 0.66, 0.74)  # inches; shares of the figure
MOST_LINES, NAMED = 80, 16
OFTEN = 0.5  # pairs outside the default result have a name if so many halves find them at some setting
NAME_CHARACTERS = 30
# Lines often coincide, at 0 and at 1: those below show in the gaps of those above.
LINES: tuple[Any, ...] = ("solid", (0, (4, 3)), (0, (1.5, 2.5)), (0, (6, 2, 1.5, 2)))


def plot_stability(path: SettingsPath, ax: Axes | None = None, *, theme: ThemeName = "light") -> Axes:
    """Draw how often halves find each edge; `PathResult.plot_stability` says how to read it.

    Examples
    --------
    >>> import diffdag as dd
    >>> pair = dd.simulate_pair(p=5, neighbours=2, changes=1, weights=(0.8, 1.0), rng=3)
    >>> tables = pair.first.sample(400, rng=1), pair.second.sample(400, rng=2)
    >>> path = dd.settings_path(*tables, by="stability", penalties=[2], fits=4)
    >>> plot_stability(path).get_xlabel()
    'penalty, as a multiple of the default'
    """
    colours = theme_called(theme)
    if path.by != "stability":
        raise InputError("this path was chosen without halves of the rows; use settings_path(by='stability')")
    ax = axes_for(ax, colours, SIZE, BOX)
    multiples = np.array([path.multiple(step) for step in path.line])
    set_multiples(ax, multiples, path.axis)
    ax.set_ylim(-0.02, 1.02)
    ax.set_ylabel("share of halves of the rows that find the edge")
    names = _draw_lines(ax, colours, path, multiples)
    style_axes(ax, colours)
    mark_settings(ax, colours, path, named=True)
    write_names(ax, colours, names)
    title = "How often each edge is found; edges of the default result in colour"
    ax.set_title(title, loc="left", fontsize=LABEL, color=colours.ink, pad=18)
    silence_missing_glyphs(ax)
    return ax


def _draw_lines(ax: Axes, theme: Theme, path: SettingsPath, multiples: FloatArray) -> list[LineName]:
    """Draw the pairs, those of the default result in colour, and return the names of the important ones."""
    lines, default = _lines(path), path.settings[path.default_at].pairs
    ranked = sorted(lines, key=lambda pair: (pair not in default, -float(lines[pair].sum())))[:MOST_LINES]
    names: list[LineName] = []
    for number, pair in enumerate(ranked):
        strong, heights = pair in default, lines[pair]
        colour = theme.several[number % len(theme.several)] if strong else theme.grey
        width, alpha, dot = (2.4, 1.0, 4.5) if strong else (1.0, 0.6, 0.0)
        ax.plot(
            multiples, heights, color=colour, linewidth=width, alpha=alpha, marker="o", markersize=dot,
            linestyle=LINES[number % len(LINES)] if strong else "solid",
            zorder=3.0 if strong else 2.0, clip_on=False,
        )  # fmt: skip
        if strong or heights.max() >= OFTEN:
            last = int(np.flatnonzero(heights)[-1])
            names.append(LineName(float(multiples[last]), float(heights[last]), _name(path, pair), colour))
    return names[:NAMED]


def _lines(path: SettingsPath) -> dict[Pair, FloatArray]:
    """The shares of each pair found anywhere, step by step."""
    lines: dict[Pair, FloatArray] = {}
    for number, step in enumerate(path.line):
        for share in step.shares:
            pair = frozenset((share.source, share.target))
            lines.setdefault(pair, np.zeros(path.steps))[number] = share.found
    return lines


def _name(path: SettingsPath, pair: Pair) -> str:
    """The pair as the default setting has it; an arrow where most halves agree on the direction there."""
    steps = (path.settings[path.default_at], *path.line)
    share = next(one for step in steps for one in step.shares if {one.source, one.target} == pair)
    arrow = "→" if share.directed > share.found / 2 else "—"
    return short(f"{share.source} {arrow} {share.target}", NAME_CHARACTERS)
