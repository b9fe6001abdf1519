"""The precision difference as a heat map, causes first.

Entries have the units of both variables. Scaled as `DifferenceResult.plot_precision` says, they can share
colours, which compare a change with the largest changes of the two variables that it joins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.image import AxesImage

from diffdag._base.arrays import FloatArray
from diffdag._base.errors import InputError
from diffdag._base.words import join_names
from diffdag.report.layout.picture import causes_first
from diffdag.report.layout.theme import Theme, ThemeName, theme_called
from diffdag.report.plots.chart import LABEL, SMALL, axes_for, short, silence_missing_glyphs

if TYPE_CHECKING:
    from diffdag.results.difference import Difference


CELL = 15.0  # points
NAME_CHARACTERS = 24
BAR = 9.0  # width of the colour bar, points


def plot_precision(
    result: Difference,
    ax: Axes | None = None,
    *,
    most: int = 60,
    scales: Mapping[str, float] | None = None,
    theme: ThemeName = "light",
) -> Axes:
    """Draw the difference of the precision matrices; `DifferenceResult.plot_precision` says how.

    >>> import diffdag as dd
    >>> pair = dd.simulate_pair(p=5, neighbours=2, changes=1, weights=(0.8, 1.0), rng=3)
    >>> ax = plot_precision(dd.DifferenceDAG().fit_population(pair.first, pair.second).result_)
    >>> ax.images[0].get_clim()
    (-1.0, 1.0)
    """
    colours = theme_called(theme)
    if isinstance(most, bool) or not isinstance(most, int | np.integer) or most < 1:
        raise InputError(f"most must be a whole number, 1 or larger; it is {most!r}")
    names, values, left_out = _scaled(result, int(most), scales)
    shown = [short(name, NAME_CHARACTERS) for name in names]
    ax = _axes(ax, colours, shown)
    first, second = (short(label, NAME_CHARACTERS) for label in result.labels)
    if not names:
        ax.set_axis_off()
        ax.text(0.5, 0.5, "no difference found", ha="center", va="center", color=colours.ink)
        return ax
    shades = LinearSegmentedColormap.from_list("difference", colours.diverging)
    image = ax.imshow(values, cmap=shades, vmin=-1.0, vmax=1.0, interpolation="nearest")
    _write_names(ax, colours, shown)
    _draw_bar(ax, colours, image, f"precision, {first} minus {second}, scaled")
    title = "Difference of the precision matrices, causes first"
    if left_out:
        title += f"\nthe strongest {len(names)} of {len(names) + left_out} variables with a difference"
    ax.set_title(title, loc="left", fontsize=LABEL, color=colours.ink, parse_math=False)
    silence_missing_glyphs(ax)
    return ax


def _scaled(
    result: Difference, most: int, scales: Mapping[str, float] | None
) -> tuple[list[str], FloatArray, int]:
    """Variables to show, their scaled entries, and how many variables with a difference are left out."""
    entries = result.delta_entries
    if scales is not None:
        factors = _factors(result, scales)
        entries = entries.multiply(factors[:, None]).multiply(factors[None, :]).tocsr()
    largest = abs(entries).max(axis=1).toarray().ravel()
    present = np.flatnonzero(largest)
    kept = set(present[np.argsort(-largest[present], kind="stable")][:most].tolist())
    place = {name: number for number, name in enumerate(result.variables)}
    names = [name for name in causes_first(result) if place[name] in kept]
    index = np.array([place[name] for name in names], dtype=np.intp)
    root = np.sqrt(largest[index])
    values: FloatArray = entries[index][:, index].toarray() / np.outer(root, root)
    return names, values, len(present) - len(names)


def _factors(result: Difference, scales: Mapping[str, float]) -> FloatArray:
    lost = [name for name in result.variables if name not in scales]
    if lost:
        raise InputError(f"scales has nothing for {join_names(lost)}; give a standard deviation for each")
    factors: FloatArray = np.array([float(scales[name]) for name in result.variables])
    wrong = [name for name, value in zip(result.variables, factors, strict=True) if not 0 < value < np.inf]
    if wrong:
        raise InputError(f"scales of {join_names(wrong)} must be larger than 0; give standard deviations")
    return factors


def _axes(ax: Axes | None, theme: Theme, names: list[str]) -> Axes:
    """Axes with room for the names in a new figure; room for at least a few cells."""
    side = CELL * max(len(names), 14)
    words = 0.62 * SMALL * max(map(len, names), default=0) + 14
    wide, high = side + words + 95, side + words + 40
    box = (words / wide, words / high, side / wide, side / high)
    return axes_for(ax, theme, (wide / 72, high / 72), box)


def _write_names(ax: Axes, theme: Theme, names: list[str]) -> None:
    """Names on both axes, smaller where given axes have little room."""
    room = ax.get_window_extent().height * 72 / ax.figure.dpi / len(names)
    style: dict[str, Any] = {"fontsize": max(3.0, min(SMALL, 0.78 * room)), "parse_math": False}
    ax.set_xticks(range(len(names)), names, rotation=90, color=theme.ink, **style)
    ax.set_yticks(range(len(names)), names, color=theme.ink, **style)
    ax.spines[:].set_color(theme.faint)
    # Thin lines between the cells lead the eye from a cell to its names.
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks(np.arange(0.5, len(names) - 1), minor=True)
    ax.grid(which="minor", color=theme.faint, linewidth=0.4)
    ax.tick_params(which="both", length=0)


def _draw_bar(ax: Axes, theme: Theme, image: AxesImage, words: str) -> None:
    """The colour bar, beside the axes without moving them."""
    width = BAR / (ax.get_window_extent().width * 72 / ax.figure.dpi)
    place = ax.inset_axes((1 + width, 0.0, width, 1.0))
    bar = ax.figure.colorbar(image, cax=place, ticks=[-1, -0.5, 0, 0.5, 1])
    bar.outline.set_edgecolor(theme.faint)
    bar.ax.tick_params(labelsize=SMALL, color=theme.soft, labelcolor=theme.ink)
    bar.set_label(words, fontsize=SMALL, color=theme.ink, parse_math=False)
