"""What the picture of a difference DAG shows, as plain data: names, boxes, curves, strokes, legend.

Lengths are in points of the natural size, from the lower left corner up. Whoever draws it, on axes or as SVG,
decides nothing about the content.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from diffdag._base.words import plural
from diffdag.report.format import by_size, ends, kind_words, printable
from diffdag.report.layout.grid import Link
from diffdag.report.layout.layout import Layout, Point, arrange
from diffdag.report.layout.theme import DASHES
from diffdag.report.layout.widths import text_ems
from diffdag.trust.contradictions import hedged

if TYPE_CHECKING:
    from diffdag.results.difference import Difference
    from diffdag.results.differences import Differences
    from diffdag.results.records import Edge

FONT, FONT_SIZE, LINE_HEIGHT = "DejaVu Sans", 11.0, 14.0
NAME_CHARACTERS = 26  # longer names go on several lines
MARGIN, SAMPLE = 14.0, 34.0  # around the picture; length of a line in the legend
THINNEST, THICKEST = 1.3, 4.5
PALEST = 0.4  # opacity of an edge with confidence 0
FAINT = 0.6  # and of one that a moved range explains
MOST_EDGES = 250


class LegendItem(NamedTuple):
    """A sample in the legend and its words."""

    # Look of a line, or "unresolved" or "own" (boxes), "confidence" (a line that fades), "hedged" (a head).
    kind: str
    words: str
    x: float  # left end
    y: float  # bottom of its line, above the foot


class Picture:
    """What is drawn, with its size, before there is anything to draw on."""

    def __init__(self, result: Difference) -> None:
        self.edges = by_size(result.edge_list)[:MOST_EDGES]  # the largest first
        self.unresolved = set(result.unresolved)
        taking_part = set(ends(self.edges)) | self.unresolved
        self.nothing = changes_words(result)  # in place of a picture where there is nothing to draw
        self.names = [name for name in causes_first(result) if name in taking_part]
        self.own = result.changed_nodes.intersection(self.names) - self.unresolved  # changed themselves
        # Lines of text in the variables' boxes, and the boxes' widths and heights.
        self.lines = [_wrapped(name, NAME_CHARACTERS) or [" "] for name in self.names]
        self.sizes = [
            (max(36.0, max(map(text_width, lines)) + 18.0), len(lines) * LINE_HEIGHT + 12.0)
            for lines in self.lines
        ]
        self.opacities = [opacity(edge) for edge in self.edges]
        self.layout = self._arranged()  # in the order of `names` and `edges`
        self.caption = self._caption(result)  # lines of text on top
        wanted = max([self.layout.width, 260.0, *map(text_width, self.caption)])
        self.legend, foot = self.legend_within(wanted)
        self.width = max([wanted, *map(legend_end, self.legend)])  # without margins, as the height
        body = self.layout.height if self.names else 90.0
        self.height = foot + body + (len(self.caption) * LINE_HEIGHT + 16.0)
        self.origin: Point = ((self.width - self.layout.width) / 2, foot)  # lower left corner of the layout

    def _arranged(self) -> Layout:
        place = {name: number for number, name in enumerate(self.names)}
        links = [
            Link(place[edge.source], place[edge.target], head=7.0 + 1.7 * stroke if edge.directed else 0.0)
            for edge, stroke in zip(self.edges, strokes(self.edges, self.edges), strict=True)
        ]
        effects = {edge.target for edge in self.edges if edge.directed}
        return arrange(self.sizes, links, [place[name] for name in self.unresolved - effects])

    def _caption(self, result: Difference) -> list[str]:
        if not self.names:
            return []
        words = f"From {result.labels[0]} to {result.labels[1]}, causes on top"
        if len(self.edges) < len(result.edge_list):
            words += f"; the {len(self.edges)} largest of {len(result.edge_list)} changes"
        return _wrapped(words, 60)

    def legend_within(self, width: float) -> tuple[list[LegendItem], float]:
        """Place what occurs in lines no longer than `width`; return also their height with a gap above them."""
        present = {line_kind(edge) for edge in self.edges}
        words = {kind: line_words(kind) for kind in DASHES if kind in present}
        words |= {"hedged": "direction not sure"} if any(map(hedged, self.edges)) else {}
        words |= {"own": "changed itself"} if self.own else {}
        words |= {"unresolved": "unresolved"} if self.unresolved else {}
        words |= {"confidence": "paler: less sure"} if min(self.opacities, default=1.0) < 1.0 else {}
        items: list[LegendItem] = []
        x = y = 0.0
        for kind, text in words.items():
            step = SAMPLE + 8 + text_width(text) + 22
            if x and x + step > width + 22:
                x, y = 0.0, y + LINE_HEIGHT + 5
            items.append(LegendItem(kind, text, x, y))
            x += step
        foot = y + LINE_HEIGHT + 22.0 if items else 0.0
        return [item._replace(y=y - item.y) for item in items], foot


def changes_words(result: Difference) -> str:
    """How many effects changed, or whether anything else did."""
    if result.edge_list:
        return plural(len(result.edge_list), "change")
    return "no effect changed, but variables did" if result.changed_nodes else "no change found"


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(printable(text), width, break_on_hyphens=False)


def causes_first(result: Difference) -> list[str]:
    """All variables: those whose place is open, then the layers, then those that take no part."""
    ranked = [name for layer in [result.unresolved, *result.order, result.variables] for name in layer]
    return list(dict.fromkeys(ranked))


def all_changes(result: Differences) -> Difference:
    """All changes of all comparisons, each as large as it gets, in one graph."""
    some = next(iter(result.pairs.values()))
    loose = {name for one in result.pairs.values() for name in one.unresolved}
    return replace(
        some,
        unresolved=tuple(name for name in some.variables if name in loose),
        order=tuple((name,) for name in result.order),
        edge_list=tuple(by_size(tuple(row.values()))[0] for row in result.by_edge),
        scatters=(),
    )


def strokes(edges: Iterable[Edge], among: Iterable[Edge]) -> list[float]:
    """Widths of the lines of edges: the larger the change, the wider, on the scale of those in `among`."""
    largest = max(map(_claimed_size, among), default=0.0) or 1.0
    return [THINNEST + (THICKEST - THINNEST) * min(_claimed_size(edge) / largest, 1.0) for edge in edges]


def _claimed_size(edge: Edge) -> float:
    """How large a change is, none where a moved range explains it."""
    return 0.0 if edge.by_range else edge.magnitude or 0.0


def line_kind(edge: Edge) -> str:
    """How the line of an edge looks: by the kind of change, or as one that a moved range explains.

    >>> from diffdag.results.records import Edge
    >>> line_kind(Edge("a", "b", change="added")), line_kind(Edge("a", "b", change="added", support="range"))
    ('added', 'range')
    """
    return "range" if edge.by_range else edge.kind


def line_words(kind: str) -> str:
    """The look of a line in words, for legends."""
    return "range explains it" if kind == "range" else kind_words(kind)


def opacity(edge: Edge) -> float:
    """How opaque an edge is: the less sure, the paler; fully where its confidence is unknown;
    faint where a moved range explains it.

    >>> from diffdag.results.records import Edge
    >>> opacity(Edge("a", "b")), opacity(Edge("a", "b", confidence=0.0))
    (1.0, 0.4)
    """
    if edge.by_range:
        return FAINT
    return 1.0 if edge.confidence is None else PALEST + (1 - PALEST) * edge.confidence


def legend_end(item: LegendItem) -> float:
    """Where the words of an item end."""
    return item.x + SAMPLE + 8 + text_width(item.words)


def text_width(text: str) -> float:
    """Return the width of one line in points, with a guess for characters that the font lacks."""
    return FONT_SIZE * text_ems(text)
