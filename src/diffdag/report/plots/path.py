"""Pictures of a path of settings: how each change comes and goes, and how often halves of the rows find it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from diffdag._base.arrays import FloatArray
from diffdag._base.errors import InputError
from diffdag.report.format import printable
from diffdag.report.layout.theme import Theme, ThemeName, theme_called
from diffdag.report.plots import chart
from diffdag.trust.sensitivity import EdgeTrajectory, SettingsPath, sensitivity_note

SIZE = (8.8, 5.6)  # inches
PANELS = (0.1, 0.1, 0.65, 0.775)  # of a new figure: left, bottom, width, height
UPPER, LOWER = 0.70, 0.24  # shares of the height
MOST_LINES = 60
NAMED = 16  # lines with a name; those found at the most settings
NAME_CHARACTERS = 30

Pair = frozenset[str]
STABILITY_SIZE, STABILITY_BOX = (8.8, 4.6), (0.09, 0.13, 0.66, 0.74)  # inches; shares of the figure
MOST_PAIRS = 80
OFTEN = 0.5  # pairs outside the default result have a name if so many halves find them at some setting
# Lines often coincide, at 0 and at 1: those below show in the gaps of those above.
LINES: tuple[Any, ...] = ("solid", (0, (4, 3)), (0, (1.5, 2.5)), (0, (6, 2, 1.5, 2)))


def plot_path(path: SettingsPath, ax: Axes | None = None, *, theme: ThemeName = "light") -> Axes:
    """Draw the change of each edge along a path; `PathResult.plot` says how to read it."""
    colours = theme_called(theme)
    ax = chart.axes_for(ax, colours, SIZE, PANELS)
    left, bottom, width, height = ax.get_position().bounds
    ax.set_position((left, bottom + (1 - UPPER) * height, width, UPPER * height))
    below = ax.figure.add_axes((left, bottom, width, LOWER * height), sharex=ax, facecolor="none")
    multiples = np.array([path.multiple(step) for step in path.line])
    _set_multiples(below, multiples, path.axis)
    if any(edge[3] is not None for step in path.line for edge in step.edges):
        _draw_edges(ax, colours, path, multiples)
    else:
        _draw_counts(ax, colours, path, multiples)
    _draw_criterion(below, colours, path, multiples)
    for panel in (ax, below):
        chart.style_axes(panel, colours)
        _mark_settings(panel, colours, path, named=panel is ax)
    ax.tick_params(labelbottom=False)
    note = sensitivity_note(path)
    words = textwrap.wrap(printable(f"{note[:1].upper()}{note[1:]}"), 105, break_on_hyphens=False, max_lines=3)
    title: dict[str, Any] = {"fontsize": chart.LABEL, "color": colours.ink, "pad": 18, "parse_math": False}
    ax.set_title("\n".join(words), loc="left", **title)
    chart.silence_missing_glyphs(ax, below)
    return ax


def _set_multiples(ax: Axes, multiples: FloatArray, axis: str) -> None:
    """Multiples of the default along the lower side."""
    ax.set_xscale("log")
    spread = float(multiples[-1] / multiples[0]) ** 0.03 if len(multiples) > 1 else 1.1
    ax.set_xlim(multiples[0] / spread, multiples[-1] * spread)
    step = max(1, len(multiples) // 14)
    shown = sorted({1.0, *multiples[::step].tolist()})
    ax.xaxis.set_major_locator(FixedLocator(shown))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticklabels([f"{value:.3g}" for value in shown])
    ax.set_xlabel(f"{axis}, as a multiple of the default")


def _mark_settings(ax: Axes, theme: Theme, path: SettingsPath, named: bool) -> None:
    """Vertical lines at the default and the choice."""
    chosen = path.multiple(path.settings[path.chosen_at])
    marks = {1.0: "default", chosen: "chosen" if chosen != 1.0 else "default, and chosen"}
    for at, words in marks.items():
        style: Any = "-" if at == chosen else (0, (2, 2))
        ax.axvline(at, color=theme.ink, linewidth=1.1, zorder=1.5, linestyle=style)
        if named:
            # Words of two close lines go to either side.
            away = "center" if len(marks) == 1 else "left" if at == max(marks) else "right"
            ax.annotate(
                words, (at, 1.0), (0, 3), xycoords=("data", "axes fraction"), textcoords="offset points",
                horizontalalignment=away, verticalalignment="bottom", fontsize=chart.SMALL, color=theme.ink,
            )  # fmt: skip


def _draw_edges(ax: Axes, theme: Theme, path: SettingsPath, multiples: FloatArray) -> None:
    default = path.settings[path.default_at].pairs
    courses = sorted(path.courses, key=lambda c: frozenset((c.source, c.target)) not in default)[:MOST_LINES]
    lines = [_heights(course) for course in courses]
    _lay_out(ax, theme, lines)
    names: list[chart.LineName] = []
    for number, (course, (heights, settled)) in enumerate(zip(courses, lines, strict=True)):
        strong = frozenset((course.source, course.target)) in default
        colour = theme.several[number % len(theme.several)] if strong else theme.grey
        width, dot, layer = (2.4, 4.5, 3.0) if strong else (1.1, 3.0, 2.0)
        plain: dict[str, Any] = {"color": colour, "zorder": layer, "clip_on": False}
        ax.plot(multiples, heights, linewidth=width, **plain)
        ax.plot(multiples[settled], heights[settled], "o", markersize=dot, **plain)
        loose = np.isfinite(heights) & ~settled
        hollow = {"markersize": dot, "markerfacecolor": theme.background, **plain}
        ax.plot(multiples[loose], heights[loose], "s", **hollow)
        last = int(np.flatnonzero(np.isfinite(heights))[-1])
        names.append(chart.LineName(float(multiples[last]), float(heights[last]), _name(course), colour))
    ax.set_ylabel("change of the effect\n(delta, first minus second)")
    chart.write_names(ax, theme, names[:NAMED])


def _heights(course: EdgeTrajectory) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Deltas along the path, NaN where not found, and where the edge has its direction.

    Where it has not, it is drawn at the delta of the closest setting where it has, if any.
    """
    heights = np.array(course.deltas, dtype=float)  # None becomes NaN
    settled = np.isfinite(heights)
    others = np.flatnonzero(settled)
    for k in [k for k, way in enumerate(course.ways) if way and not settled[k]]:
        heights[k] = heights[others[np.argmin(np.abs(others - k))]] if len(others) else 0.0
    return heights, settled


def _lay_out(ax: Axes, theme: Theme, lines: Sequence[tuple[FloatArray, NDArray[np.bool_]]]) -> None:
    """Set the heights; edges that never have a direction go to a strip of their own below the others."""
    known = np.concatenate([heights[settled] for heights, settled in lines])
    low, high = min(0.0, float(known.min())), max(0.0, float(known.max()))
    room = (high - low) or 1.0
    loose = [heights for heights, settled in lines if not settled.any()]
    step = min(0.075, 0.5 / max(len(loose), 1)) * room
    edge = low - 0.08 * room
    for number, heights in enumerate(loose):
        heights[np.isfinite(heights)] = edge - (number + 0.8) * step
    bottom = edge - (len(loose) + 0.6) * step if loose else edge
    ax.set_ylim(bottom, high + 0.08 * room)
    ticks = MaxNLocator(6).tick_values(low, high)
    ax.yaxis.set_major_locator(FixedLocator([tick for tick in ticks if edge <= tick <= high + 0.08 * room]))
    ax.axhline(0.0, color=theme.grey, linewidth=0.8, zorder=1)
    if loose:
        ax.axhspan(bottom, edge, color=theme.box, zorder=0)
        ax.annotate(
            "no direction", (0.0, (bottom + edge) / 2), (-6, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points", horizontalalignment="right", verticalalignment="center",
            fontsize=7.5, color=theme.ink,
        )  # fmt: skip


def _name(course: EdgeTrajectory) -> str:
    arrow = "→" if "directed" in course.ways else "—"
    return chart.short(f"{course.source} {arrow} {course.target}", NAME_CHARACTERS)


def _draw_counts(ax: Axes, theme: Theme, path: SettingsPath, multiples: FloatArray) -> None:
    counts = [len(step.edges) for step in path.line]
    ax.plot(multiples, counts, color=theme.several[0], linewidth=2.2, marker="o", markersize=4.5, zorder=3)
    ax.set_ylim(-0.3, max(counts) + 1)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_ylabel("edges")


def _draw_criterion(ax: Axes, theme: Theme, path: SettingsPath, multiples: FloatArray) -> None:
    """Extended BIC above its minimum, or the instability and its bound."""
    if path.by == "stability":
        values = np.array([step.instability for step in path.line], dtype=float)  # None becomes NaN
        ax.axhspan(0.0, path.bound, color=theme.kinds["added"], alpha=0.15, linewidth=0)
        ax.set_ylim(0.0, max(1.1 * float(np.nanmax(values, initial=0.0)), 2 * path.bound))
        ax.set_ylabel("instability")
    else:
        values = np.array([step.ebic for step in path.line])
        fine = values[np.isfinite(values)]
        values = np.where(np.isfinite(values), values - (fine.min() if len(fine) else 0.0), np.nan)
        ax.set_yscale("symlog", linthresh=1.0, linscale=0.7)
        ax.set_ylim(-0.15, max(10.0, 2.0 * float(np.nanmax(values, initial=0.0))))
        tall = [10.0**k for k in range(7) if 10.0**k <= ax.get_ylim()[1]]
        ax.yaxis.set_major_locator(FixedLocator([0.0, *tall[:: max(1, len(tall) // 3)]]))
        ax.yaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        ax.set_ylabel("extended BIC\nabove its least")
    dots: dict[str, Any] = {"marker": "o", "markersize": 3.5, "zorder": 3, "clip_on": False}
    ax.plot(multiples, values, color=theme.ink, linewidth=1.6, **dots)


def plot_stability(path: SettingsPath, ax: Axes | None = None, *, theme: ThemeName = "light") -> Axes:
    """Draw how often halves find each edge; `PathResult.plot_stability` says how to read it.

    After the picture of Meinshausen and Bühlmann (2010, "Stability selection", Journal of the Royal Statistical
    Society B 72): an edge that is there is found in most halves over a wide range of settings, one that is not
    comes late and stays rare.

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
    ax = chart.axes_for(ax, colours, STABILITY_SIZE, STABILITY_BOX)
    multiples = np.array([path.multiple(step) for step in path.line])
    _set_multiples(ax, multiples, path.axis)
    ax.set_ylim(-0.02, 1.02)
    ax.set_ylabel("share of halves of the rows that find the edge")
    names = _draw_pairs(ax, colours, path, multiples)
    chart.style_axes(ax, colours)
    _mark_settings(ax, colours, path, named=True)
    chart.write_names(ax, colours, names)
    title = "How often each edge is found; edges of the default result in colour"
    ax.set_title(title, loc="left", fontsize=chart.LABEL, color=colours.ink, pad=18)
    chart.silence_missing_glyphs(ax)
    return ax


def _draw_pairs(ax: Axes, theme: Theme, path: SettingsPath, multiples: FloatArray) -> list[chart.LineName]:
    """Draw the pairs, those of the default result in colour, and return the names of the important ones."""
    lines, default = _shares(path), path.settings[path.default_at].pairs
    ranked = sorted(lines, key=lambda pair: (pair not in default, -float(lines[pair].sum())))[:MOST_PAIRS]
    names: list[chart.LineName] = []
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
            end = float(multiples[last]), float(heights[last])
            names.append(chart.LineName(*end, _pair_name(path, pair), colour))
    return names[:NAMED]


def _shares(path: SettingsPath) -> dict[Pair, FloatArray]:
    """The shares of each pair found anywhere, step by step."""
    lines: dict[Pair, FloatArray] = {}
    for number, step in enumerate(path.line):
        for share in step.shares:
            pair = frozenset((share.source, share.target))
            lines.setdefault(pair, np.zeros(path.steps))[number] = share.found
    return lines


def _pair_name(path: SettingsPath, pair: Pair) -> str:
    """The pair as the default setting has it; an arrow where most halves agree on the direction there."""
    steps = (path.settings[path.default_at], *path.line)
    share = next(one for step in steps for one in step.shares if {one.source, one.target} == pair)
    arrow = "→" if share.directed > share.found / 2 else "—"
    return chart.short(f"{share.source} {arrow} {share.target}", NAME_CHARACTERS)
