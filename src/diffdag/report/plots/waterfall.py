"""Why a variable moved: waterfalls of its mean and of its variance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from diffdag.report.explanation import WHAT, Step, moved_words, part_format, waterfall
from diffdag.report.format import printable
from diffdag.report.layout.theme import Theme, ThemeName, theme_called
from diffdag.report.plots.chart import LABEL, SMALL, short, silence_missing_glyphs, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from diffdag.results.difference import Difference

WIDTH, LINE, AROUND = 5.2, 0.34, 1.25  # inches: of a panel, of a bar, and above and below all of them
BAR = 0.62  # of the height of a line
MOST = 14  # bars; smaller parts are drawn as one
NAME_CHARACTERS = 26


def plot_explanation(result: Difference, target: str, *, theme: ThemeName = "light") -> Figure:
    """Draw why a variable moved; `DifferenceResult.plot_explanation` says how to read it."""
    colours = theme_called(theme)
    panels = {what: _fewer(waterfall(result, target, what)) for what in WHAT}
    panels = {what: steps for what, steps in panels.items() if steps}
    lines = 2 + max(len(steps) for steps in panels.values())
    figure = Figure(figsize=(WIDTH * len(panels), AROUND + LINE * lines), facecolor=colours.background)
    title = f"{short(target, 40)}: from {short(result.labels[0], 24)} to {short(result.labels[1], 24)}"
    figure.suptitle(title, x=0.02, ha="left", fontsize=LABEL + 1.5, color=colours.ink, parse_math=False)
    said = dict(zip(WHAT, moved_words(result, target), strict=True))
    whole, left, room = 1 / len(panels), 0.36 / len(panels), 0.58 / len(panels)
    height = LINE * lines / (AROUND + LINE * lines)
    for k, (what, steps) in enumerate(panels.items()):
        box = (k * whole + left, 0.5 / (AROUND + LINE * lines), room, height)
        ax = figure.add_axes(box, facecolor="none")
        _draw(ax, steps, (printable(result.labels[0]), printable(result.labels[1])), colours)
        ax.set_title(said[what], loc="left", x=-0.3, fontsize=LABEL, color=colours.ink, parse_math=False)
    silence_missing_glyphs(figure)
    return figure


def _fewer(steps: list[Step]) -> list[Step]:
    """Steps, of which those that are many and small are taken together."""
    if len(steps) <= MOST:
        return steps
    kept, rest = steps[: MOST - 2], steps[MOST - 2 : -1]
    together = Step(f"{len(rest)} others", "", rest[0].start, rest[-1].end)
    return [*kept, together, steps[-1]]


def _draw(ax: Axes, steps: list[Step], labels: tuple[str, str], colours: Theme) -> None:
    """Bars from top to bottom, each from where the one before it ends."""
    show = part_format([step.value for step in steps])
    ends = steps[0].start, steps[-1].end
    last = len(steps) + 1
    rise, fall = colours.diverging[-2], colours.diverging[1]
    for k, step in enumerate(steps, start=1):
        colour = colours.faint if step.kind == "unexplained" else rise if step.value > 0 else fall
        ax.barh(
            k, step.value, BAR, left=step.start, color=colour, edgecolor=colours.soft, linewidth=0.6, zorder=2
        )
        ax.plot([step.end] * 2, [k - BAR / 2, k + 1 + BAR / 2], color=colours.grey, linewidth=0.7, zorder=1)
        if step.low is not None and step.high is not None:
            ax.plot(
                [step.low, step.high], [k, k], color=colours.ink, linewidth=1.3, solid_capstyle="butt", zorder=3
            )
            ax.plot([step.low, step.high], [k, k], "|", color=colours.ink, markersize=6, zorder=3)
    ax.plot([ends[0]] * 2, [-BAR / 2, 1 + BAR / 2], color=colours.grey, linewidth=0.7, zorder=1)
    for place, value, colour in ((0, ends[0], colours.first), (last, ends[1], colours.second)):
        ax.plot([value] * 2, [place - BAR / 2, place + BAR / 2], color=colour, linewidth=3.0, zorder=4)
    names = [f"{short(step.name, NAME_CHARACTERS)}  {show(step.value, '+')}" for step in steps]
    both = [short(label, NAME_CHARACTERS) for label in labels]
    ax.set_yticks(range(last + 1), [both[0], *names, both[1]])
    for text in ax.get_yticklabels():
        text.set_parse_math(False)
    ax.set_ylim(last + 0.7, -0.7)
    ax.use_sticky_edges = False
    ax.margins(x=0.06)
    style_axes(ax, colours)
    ax.grid(visible=False, axis="y")
    ax.grid(axis="x", color=colours.faint, linewidth=0.5)
    ax.tick_params(axis="y", length=0, labelsize=SMALL)
