"""The picture as SVG for pages and notebooks: colours and dashes come from CSS, which knows light and dark.

Every node and edge is an element of its own with a number (`data-node`, `data-edge`) by which the page's
script finds it. Names go through the template's escaping.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import dist
from typing import TYPE_CHECKING

from markupsafe import Markup

from diffdag.report.format import by_size, ends, printable
from diffdag.report.layout.layout import Curve, Point, arrowhead
from diffdag.report.layout.picture import FONT_SIZE, LINE_HEIGHT, THINNEST, Picture, line_kind, opacity, strokes
from diffdag.report.layout.theme import DASHES, THEMES, Theme
from diffdag.trust.contradictions import hedged

if TYPE_CHECKING:
    from diffdag.results.difference import Difference
    from diffdag.results.records import Edge

BORDER = 16.0  # free space around the layout, also for nodes that are dragged
EMPTY = (260.0, 60.0)  # size where there is nothing to draw
# Where a notebook says that it is dark or light; elsewhere the reader's own preference decides.
DARK_HOSTS = ('[data-jp-theme-light="false"]', ".vscode-dark", ".vscode-high-contrast", '[data-theme="dark"]')
LIGHT_HOSTS = ('[data-jp-theme-light="true"]', ".vscode-light", '[data-theme="light"]')


@dataclass(frozen=True)
class Drawing:
    """The SVG, and where its nodes and the ends of its edges are, for a script that moves them."""

    svg: Markup
    width: float
    # Centres and sizes of the boxes, in the order of the picture's names.
    nodes: tuple[tuple[float, float, float, float], ...]
    # For each edge drawn, by its number: how far from the middle of its source and of its target it is fixed,
    # and the length of its head, 0 without one.
    links: dict[int, tuple[float, float, float]]


def draw(picture: Picture, result: Difference, *, shared: bool = False) -> Drawing:
    """Draw a result; variables that take no part in it are pale where several comparisons share a picture."""
    width, height = picture.layout.width + 2 * BORDER, picture.layout.height + 2 * BORDER
    if not picture.names:
        width, height = EMPTY
    placed = zip(picture.edges, picture.layout.curves, strict=True)
    curves = {edge.key: _flipped(curve, height) for edge, curve in placed}
    drawn = {number: edge for number, edge in enumerate(by_size(result.edge_list)) if edge.key in curves}
    busy = set(ends(drawn.values()))
    pale = {name for name in picture.names if shared and name not in busy}
    lines = [
        _edge(number, edge, stroke, curves[edge.key])
        for (number, edge), stroke in zip(drawn.items(), strokes(drawn.values(), picture.edges), strict=True)
    ]
    boxes = [
        _node(
            picture,
            number,
            height,
            " open" * (name in result.unresolved)
            + " changed" * (name in result.changed_nodes)
            + " pale" * (name in pale),
        )
        for number, name in enumerate(picture.names)
    ]
    if not picture.names:
        words = Markup('<text class="nothing" x="{}" y="{}">{}</text>')
        boxes = [words.format(width / 2, 36, picture.nothing)]
    first, second = map(printable, result.labels)
    label = f"Graph of what changed from {first} to {second}; the table says the same"
    svg = Markup(
        '<svg class="graph" viewBox="0 0 {w} {h}" width="{w}" height="{h}" style="--natural:{w}" role="img" '
        'aria-label="{label}"><g class="edges">{edges}</g><g class="nodes">{nodes}</g></svg>'
    ).format(w=_n(width), h=_n(height), label=label, edges=Markup("").join(lines), nodes=Markup("").join(boxes))
    centres = dict(zip(picture.names, (_at(at, height) for at in picture.layout.centres), strict=True))
    shapes = tuple((*at, _n(w), _n(h)) for at, (w, h) in zip(centres.values(), picture.sizes, strict=True))
    links = {
        number: _link(curves[edge.key], centres[edge.source], centres[edge.target])
        for number, edge in drawn.items()
    }
    return Drawing(svg, _n(width), shapes, links)


def swatch(kind: str, *, hollow: bool = False) -> Markup:
    """A short line as edges of a look have it, for legends."""
    tip = Markup('<polygon class="head{}" points="32,7 23,3.2 23,10.8"/>').format(" hollow" * hollow)
    end = 32 if kind == "undirected" else 23
    return Markup(
        '<svg class="swatch kind-{}" viewBox="0 0 34 14" width="34" height="14" aria-hidden="true">'
        '<path class="line" d="M2 7H{}" stroke-width="{}"/>{}</svg>'
    ).format(kind, end, THINNEST if kind == "range" else 2.6, "" if kind == "undirected" else tip)


def theme_css(*, hosts: bool = False) -> Markup:
    """Colours as CSS variables of the class `diffdag`, light and dark; with `hosts`, as notebooks want them."""
    light, dark = (_variables(THEMES[name]) for name in ("light", "dark"))
    rules = [
        f".diffdag{{color-scheme:light;{light}}}",
        f"@media (prefers-color-scheme:dark){{.diffdag{{color-scheme:dark;{dark}}}}}",
    ]
    for scheme, colours, places in (("light", light, LIGHT_HOSTS), ("dark", dark, DARK_HOSTS)) if hosts else ():
        within = ",".join(f"{host} .diffdag" for host in places)
        rules += [f"{within}{{color-scheme:{scheme};{colours}}}"]
    rules += [f"@media print{{.diffdag{{color-scheme:light;{light}}}}}"]
    for kind, dashes in DASHES.items():
        dash = f";--dash:{' '.join(map(str, dashes))}" if dashes else ""
        rules.append(f".diffdag .kind-{kind}{{--kind:var(--{kind}){dash}}}")
    return Markup("\n".join(rules))  # noqa: S704 - nothing of the user's is in it


def _variables(theme: Theme) -> str:
    names = (
        "background",
        "ink",
        "soft",
        "faint",
        "box",
        "changed_box",
        "open_box",
        "border",
        "first",
        "second",
    )
    colours: dict[str, str] = {name.replace("_", "-"): getattr(theme, name) for name in names}
    return "".join(f"--{name}:{colour};" for name, colour in {**colours, **theme.kinds}.items())


def _n(value: float) -> float:
    """A number that is short when written."""
    return round(float(value), 1)


def _at(point: Point, height: float) -> Point:
    """SVG counts downwards."""
    return _n(point[0] + BORDER), _n(height - BORDER - point[1])


def _flipped(curve: Curve, height: float) -> Curve:
    head = curve.head and (_at(curve.head[0], height), _at(curve.head[1], height))
    pieces = tuple(tuple(_at(point, height) for point in piece) for piece in curve.pieces)
    return Curve(_at(curve.start, height), pieces, head)


def _link(curve: Curve, source: Point, target: Point) -> tuple[float, float, float]:
    """How far to the right of the middles of source and target the edge is fixed, and its head's length."""
    start, end = curve.start, curve.pieces[-1][-1]
    if dist(start, source) + dist(end, target) > dist(end, source) + dist(start, target):
        start, end = end, start
    return _n(start[0] - source[0]), _n(end[0] - target[0]), _n(dist(*curve.head)) if curve.head else 0.0


def _edge(number: int, edge: Edge, stroke: float, curve: Curve) -> Markup:
    path = f"M{curve.start[0]} {curve.start[1]}"
    for piece in curve.pieces:
        path += ("L" if len(piece) == 1 else "C") + " ".join(f"{x} {y}" for x, y in piece)
    head = Markup("")
    if curve.head:
        corners = " ".join(f"{_n(x)},{_n(y)}" for x, y in arrowhead(*curve.head))
        head = Markup('<polygon class="head{}" points="{}"/>').format(" hollow" * hedged(edge), corners)
    return Markup(
        '<g class="edge kind-{kind}" data-edge="{number}" opacity="{opacity}"><path class="hit" d="{path}"/>'
        '<path class="line" d="{path}" stroke-width="{width}"/>{head}</g>'
    ).format(
        kind=line_kind(edge),
        number=number,
        opacity=round(opacity(edge), 2),
        path=path,
        width=_n(stroke),
        head=head,
    )


def _node(picture: Picture, number: int, height: float, look: str) -> Markup:
    (x, y), (w, h) = _at(picture.layout.centres[number], height), picture.sizes[number]
    lines = picture.lines[number]
    first = -(len(lines) - 1) / 2 * LINE_HEIGHT + 0.36 * FONT_SIZE
    words = Markup("").join(
        Markup('<tspan x="0" y="{}">{}</tspan>').format(_n(first + k * LINE_HEIGHT), line)
        for k, line in enumerate(lines)
    )
    return Markup(
        '<g class="node{}" data-node="{}" transform="translate({} {})">'
        '<rect x="{}" y="{}" width="{}" height="{}" rx="6"/><text>{}</text></g>'
    ).format(look, number, x, y, _n(-w / 2), _n(-h / 2), _n(w), _n(h), words)
