"""Numbers, names and tables as text: the pieces of which summaries and pages are made."""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diffdag.results.records import Edge

WIDTH = 100
NAME_WIDTH = 30
NAMES_SHOWN = 30


def printable(text: str) -> str:
    r"""Show control characters, line ends and the like as escapes; they would break a table or a page.

    >>> printable("a\nb")
    'a\\nb'
    """
    joiner = "\u200d"  # holds many emoji together
    return "".join(c if c.isprintable() or c == joiner else ascii(c)[1:-1] for c in text)


def by_size(edges: Sequence[Edge]) -> list[Edge]:
    """Sort by standardised size, largest first; unknown sizes, then what a moved range explains, last."""
    return sorted(edges, key=lambda edge: (edge.by_range, edge.magnitude is None, -(edge.magnitude or 0.0)))


def ends(edges: Iterable[Edge]) -> list[str]:
    """Variables that edges join, each once."""
    return list(dict.fromkeys(name for edge in edges for name in (edge.source, edge.target)))


def kind_words(kind: str) -> str:
    """A kind of change as people read it; files have it with hyphens.

    >>> kind_words("reversed-sign")
    'reversed sign'
    """
    return kind.replace("-", " ")


def change_words(edge: Edge) -> str:
    """The change of an edge as people read it, and whether a gain explains it.

    >>> from diffdag.results.records import Edge
    >>> change_words(Edge("a", "b", change="reversed-sign"))
    'reversed sign'
    """
    return kind_words(edge.kind) + ("" if edge.gain_of is None else " by gain")


class NumberFormat:
    """Format numbers of one table alike: with decimals that fit the largest, or with three digits.

    >>> show = NumberFormat([0.8312, -0.05])
    >>> show(0.8312), show(-0.05), show(None)
    ('0.831', '-0.050', '')
    """

    def __init__(self, values: Sequence[float | None]) -> None:
        sizes = [abs(value) for value in values if value]
        largest, smallest = (math.floor(math.log10(pick(sizes, default=1.0))) for pick in (max, min))
        usual = max(0, 2 - largest)
        self.decimals = min(max(usual, -smallest), usual + 2)
        self.fixed = self.decimals <= 7 and largest <= 6 and -smallest <= self.decimals

    def __call__(self, value: float | None, sign: str = "") -> str:
        """Format one number; None gives nothing."""
        if value is None:
            return ""
        return format(value, f"{sign}.{self.decimals}f" if self.fixed else f"{sign}.3g")


def edge_format(edges: Sequence[Edge]) -> NumberFormat:
    """The format of all weights and deltas of these edges."""
    return NumberFormat([value for e in edges for value in (e.weight_first, e.weight_second, e.delta)])


def with_error(value: float | None, stderr: float | None, show: NumberFormat) -> str:
    """Format a difference with its standard error.

    >>> with_error(-0.278, 0.03, NumberFormat([-0.278]))
    '-0.278 ± 0.030'
    """
    if stderr is None:
        return show(value, "+")
    # An error too small for the column's decimals must not read as exactly zero.
    seen = not stderr or stderr >= 0.5 * 10.0**-show.decimals
    return f"{show(value, '+')} ± {show(stderr) if seen else format(stderr, '.1g')}"


def interval_text(edge: Edge, show: NumberFormat) -> str:
    """Format the interval of delta."""
    return "" if edge.low is None or edge.high is None else f"{show(edge.low, '+')} to {show(edge.high, '+')}"


def percent(share: float | None) -> str:
    """Format a share of 1; what is not quite all of it must not read as all.

    >>> percent(0.47), percent(0.9991), percent(1.0)
    ('47%', '>99%', '100%')
    """
    if share is None:
        return ""
    return ">99%" if 0.995 <= share < 1 else f"{share:.0%}"


def setting(value: object) -> str:
    """Format the value of a setting."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return format(value, ".4g")
    return cut(printable(str(value)), 80)


def short_name(name: str) -> str:
    """The name of a variable as a table has room for."""
    return cut(printable(name), NAME_WIDTH)


def _columns(text: str) -> int:
    """Columns a text takes in a terminal: East Asian characters and emoji take two."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 or c in "\u200d\ufe0f" for c in text)


def cut(text: str, width: int) -> str:
    """Shorten in the middle: names often differ only at their end."""
    half = (width - 3) // 2
    return text if len(text) <= width else f"{text[:half]}...{text[-half:]}"


def wrap(text: str, indent: str = "") -> str:
    """Break a text into lines; all but the first one are indented."""
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def some(items: Sequence[str]) -> str:
    """Join names; of many, the first ones and a count of the others."""
    return listed([short_name(item) for item in items])


def listed(words: Sequence[str]) -> str:
    """Join words as they are; of many, the first ones and a count of the others."""
    left_out = len(words) - NAMES_SHOWN
    return ", ".join(words[:NAMES_SHOWN]) + (f" and {left_out} more" if left_out > 0 else "")


def aligned(rows: Sequence[Sequence[str]], left: int) -> str:
    """Align cells in columns: the first `left` to the left, the others to the right."""
    widths = [max(_columns(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = []
    for row in rows:
        pads = [" " * (width - _columns(cell)) for width, cell in zip(widths, row, strict=True)]
        cells = [row[k] + pads[k] if k < left else pads[k] + row[k] for k in range(len(row))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
