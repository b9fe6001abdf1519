"""What plots with axes have in common: a figure of their own where none is given, and how axes look."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text

from diffdag._base.arrays import FloatArray
from diffdag.report.format import printable
from diffdag.report.layout.layout import nondecreasing
from diffdag.report.layout.theme import Theme

if TYPE_CHECKING:
    from matplotlib.backend_bases import RendererBase

SMALL, LABEL = 8.5, 9.5  # font sizes
PRINT_DPI = 300.0  # what journals ask for at least
# Larger pictures get fewer dots per inch: 200 MB in memory, and matplotlib draws less than 2^16 dots across.
MOST_PIXELS, MOST_ACROSS = 5e7, 6e4


def axes_for(
    ax: Axes | None, theme: Theme, size: tuple[float, float], box: tuple[float, float, float, float]
) -> Axes:
    """Return the axes given, or those of a new figure that pyplot does not know about.

    The figure has this size in inches, and the axes take its `box`: left, bottom, width and height, as shares.
    """
    if ax is None:
        ax = Figure(figsize=size, facecolor=theme.background).add_axes(box, facecolor="none")
    return ax


def style_axes(ax: Axes, theme: Theme) -> None:
    """Quiet axes: two sides, light lines across."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(theme.soft)
    ax.tick_params(labelsize=SMALL, color=theme.soft, labelcolor=theme.ink)
    ax.grid(axis="y", color=theme.faint, linewidth=0.5)
    ax.set_axisbelow(True)
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set(fontsize=LABEL, color=theme.ink, parse_math=False)


class QuietText(Text):
    """Text that is quiet about characters that the font lacks; browsers have other fonts for them."""

    def _get_layout(self, renderer: RendererBase) -> Any:  # where matplotlib measures text, legends too
        with quiet_about_glyphs():
            return super()._get_layout(renderer)  # type: ignore[misc]

    def draw(self, renderer: RendererBase) -> None:
        """Draw without a warning."""
        with quiet_about_glyphs():
            super().draw(renderer)


class _QuietAnnotation(QuietText, Annotation):
    """Quiet text with a line to what it names."""


def silence_missing_glyphs(*panels: Axes | Figure) -> None:
    """Make the texts of finished axes or figures quiet about characters that the font lacks."""
    quiet = {Text: QuietText, Annotation: _QuietAnnotation}
    for text in (text for ax in panels for text in ax.findobj(Text)):
        # Titles, names of ticks and of lines are made by matplotlib, so that they have their class already.
        text.__class__ = quiet.get(type(text), type(text))


@contextmanager
def quiet_about_glyphs() -> Iterator[None]:
    """Without the warnings that a font lacks a character."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s).*(Glyph|missing from).*", category=UserWarning)
        yield


def short(text: str, most: int) -> str:
    r"""A name in at most so many characters, on one line.

    >>> short("a very long\nname", 8)
    'a very …'
    """
    plain = printable(text)
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def svg_of(drawn: Axes | Figure, *, background: bool = False) -> str:
    """Return a picture as SVG, with names as text, the same for the same content."""
    figure = _figure(drawn)
    if not background:
        figure.patch.set_alpha(0.0)
    buffer = io.StringIO()
    # Text stays text: it can be searched, and the browser has fonts for scripts that matplotlib lacks.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "diffdag"}):
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return buffer.getvalue()


def pdf_of(drawn: Axes | Figure) -> bytes:
    """Return a picture as PDF, with names as text in embedded TrueType fonts, the same for the same content."""
    buffer = io.BytesIO()
    unnamed = dict.fromkeys(("CreationDate", "Creator", "Producer"))
    # Fonts are embedded when all is drawn, and that looks for characters once more.
    with rc_context({"pdf.fonttype": 42, "pdf.use14corefonts": False}), quiet_about_glyphs():
        _figure(drawn).savefig(buffer, format="pdf", metadata=unnamed)
    return buffer.getvalue()


def png_of(drawn: Axes | Figure) -> bytes:
    """Return a picture as PNG for print, the same for the same content; very large ones are coarser."""
    figure, buffer = _figure(drawn), io.BytesIO()
    width, height = figure.get_size_inches()
    dpi = min(PRINT_DPI, float(np.sqrt(MOST_PIXELS / (width * height))), MOST_ACROSS / max(width, height))
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def _figure(drawn: Axes | Figure) -> Figure:
    figure = drawn if isinstance(drawn, Figure) else drawn.figure
    assert isinstance(figure, Figure)  # noqa: S101 - for the type checker: not a SubFigure
    return figure


class LineName(NamedTuple):
    """The name of a line, where the line ends, and its colour."""

    x: float
    y: float
    text: str
    colour: str


def write_names(ax: Axes, theme: Theme, names: Sequence[LineName]) -> None:
    """Names to the right, at the height where each line ends as far as there is room, joined to it."""
    low, high = ax.get_ylim()
    ax.set_ylim(low, high)
    gap = 1.35 * SMALL / 72 / (ax.get_window_extent().height / ax.figure.dpi)
    heights = np.array([(name.y - low) / (high - low) for name in names])
    for place, name in zip(spread(heights, gap, 0.0, 1.0), names, strict=True):
        ax.annotate(
            name.text, (name.x, name.y), (1.045, place), xycoords="data", textcoords="axes fraction",
            fontsize=SMALL, color=theme.soft if name.colour == theme.grey else name.colour,
            verticalalignment="center", annotation_clip=False, zorder=2, parse_math=False,
            arrowprops={
                "arrowstyle": "-", "color": name.colour, "linewidth": 0.6, "alpha": 0.55, "shrinkA": 1,
                "shrinkB": 3, "linestyle": (0, (1, 2)), "relpos": (0.0, 0.5),
            },
        )  # fmt: skip


def spread(heights: FloatArray, gap: float, low: float = -np.inf, high: float = np.inf) -> FloatArray:
    """Move heights apart until neighbours are `gap` apart, each as little as possible in the mean square.

    They stay between `low` and `high`, if there is room for all; otherwise some are below.

    >>> spread(np.array([0.5, 0.5, 0.9]), 0.1).round(2)
    array([0.45, 0.55, 0.9 ])
    """
    if not len(heights):
        return heights
    order, steps = np.argsort(heights, kind="stable"), gap * np.arange(len(heights))
    result: FloatArray = np.empty(len(heights))
    result[order] = np.clip(nondecreasing(heights[order] - steps), low, high - steps[-1]) + steps
    return result
