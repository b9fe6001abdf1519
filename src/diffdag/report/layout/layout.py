"""Where the nodes and edges of a layered graph go: pure geometry, in points, without drawing anything.

A long edge crosses a row straight down in a slot of its own, and bends only in the free bands between
rows. So no edge runs through a node.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diffdag.report.layout.grid import NODE_GAP, Grid, Link, build_grid

Point = tuple[float, float]

LINK_GAP = 22.0  # more room between neighbours that an edge joins within their row
SLOT_GAP = 10.0


@dataclass(frozen=True)
class Curve:
    """The line of an edge: a start and then straight (1 point) or Bezier (3 points) pieces; its head.

    `head` is the tip and the middle of the base of the arrowhead, None without one.
    """

    start: Point
    pieces: tuple[tuple[Point, ...], ...]
    head: tuple[Point, Point] | None


@dataclass(frozen=True)
class Layout:
    """Centres of the nodes, curves of the edges, and the rectangle that holds them from (0, 0) up."""

    centres: tuple[Point, ...]
    curves: tuple[Curve, ...]
    width: float
    height: float


def arrange(sizes: Sequence[tuple[float, float]], links: Sequence[Link], on_top: Iterable[int] = ()) -> Layout:
    """Place nodes and edges.

    Parameters
    ----------
    sizes : sequence of (width, height)
        The nodes, in the order to prefer where nothing else decides.
    links : sequence of Link
        Edges with a head should lead downwards, and do unless they form a cycle or lead into `on_top`.
    on_top : iterable of int
        Nodes that go to the first rows, without regard to the direction of their links.

    Returns
    -------
    Layout
        Centres and curves in the order of `sizes` and `links`.

    Examples
    --------
    >>> plan = arrange([(40, 20), (40, 20)], [Link(0, 1, head=9)])
    >>> plan.centres[0][1] > plan.centres[1][1]
    True
    """
    grid = build_grid(sizes, links, set(on_top))
    x = _columns(grid)
    return _Router(grid, x, links).layout()


def _columns(grid: Grid) -> NDArray[np.float64]:
    """Bring each node near what it is joined to, without changing the order or touching neighbours."""
    x = np.zeros(len(grid.widths))
    offsets = [_offsets(grid, row) for row in grid.rows]
    for row, offset in zip(grid.rows, offsets, strict=True):
        x[row] = offset - offset.mean()
    joined = grid.joined(within_rows=False)
    count = len(grid.rows)
    for sweep in range(20):
        for number in range(count) if sweep % 2 == 0 else range(count - 1, -1, -1):
            row = grid.rows[number]
            wish = np.array([np.mean(x[joined[n]]) if n in joined else x[n] for n in row])
            x[row] = _spread(wish, offsets[number])
    return _without_empty_strips(grid, x)


def _without_empty_strips(grid: Grid, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move parts of the picture that nothing joins next to each other, the first one to the left border."""
    half = np.array(grid.widths) / 2
    x = x - min(x - half, default=0.0)
    spans = [(x[n] - half[n], x[n] + half[n]) for n in range(len(x))]
    spans += [(min(x[a], x[b]), max(x[a], x[b])) for a, others in grid.joined(True).items() for b in others]
    moved, reached, saved = x.copy(), 0.0, 0.0
    for start, end in sorted(spans):
        if start - reached > NODE_GAP:
            saved += start - reached - NODE_GAP
            moved[x >= start] = x[x >= start] - saved
        reached = max(reached, end)
    return moved


def _offsets(grid: Grid, row: Sequence[int]) -> NDArray[np.float64]:
    """Places of a row's members when they are as close together as allowed."""
    flat = {frozenset(pair) for pair in grid.flat}
    steps = [0.0]
    for a, b in itertools.pairwise(row):
        gap = sum(NODE_GAP if n < grid.count else SLOT_GAP for n in (a, b)) / 2
        gap += LINK_GAP if frozenset((a, b)) in flat else 0.0
        steps.append((grid.widths[a] + grid.widths[b]) / 2 + gap)
    return np.cumsum(steps)


def _spread(wish: NDArray[np.float64], offset: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the places nearest to `wish` that keep order and distances: an isotonic regression."""
    from scipy.optimize import isotonic_regression  # noqa: PLC0415

    return np.asarray(isotonic_regression(wish - offset).x + offset, dtype=np.float64)


class _Router:
    """Turns rows and columns into coordinates and curves."""

    def __init__(self, grid: Grid, x: NDArray[np.float64], links: Sequence[Link]) -> None:
        self.grid, self.x, self.links = grid, x, links
        bands = [max((grid.heights[n] for n in row), default=0.0) for row in grid.rows]
        crowd = [len(grid.segments(gap)) for gap in range(len(grid.rows) - 1)]
        self.gaps = [46.0 + min(40.0, 2.5 * number) for number in crowd]
        self.top_gap = 40.0 if any(map(self._over_top, range(len(links)))) else 0.0
        self.tops: list[float] = []
        y = 0.0
        for number, band in enumerate(bands):
            self.tops.append(y)
            y -= band + (self.gaps[number] if number < len(self.gaps) else 0.0)
        self.bottoms = [top - band for top, band in zip(self.tops, bands, strict=True)]
        self.middle = [(t + b) / 2 for t, b in zip(self.tops, self.bottoms, strict=True)]
        self.ports = self._ports()

    def layout(self) -> Layout:
        lift = -self.bottoms[-1] if self.bottoms else 0.0
        curves = [self._curve(number) for number in range(len(self.links))]
        return Layout(
            centres=tuple(
                (float(self.x[n]), self.middle[self.grid.row_of[n]] + lift) for n in range(self.grid.count)
            ),
            curves=tuple(_raised(curve, lift) for curve in curves),
            width=float(max((self.x[n] + self.grid.widths[n] / 2 for n in range(len(self.x))), default=0.0)),
            height=lift + self.top_gap,
        )

    def _neighbours(self, number: int) -> bool:
        """Whether the link joins two nodes of one row with no node between them."""
        link = self.links[number]
        a, b = sorted((self.x[link.source], self.x[link.target]))
        row = self.grid.rows[self.grid.row_of[link.source]]
        return not any(a < self.x[n] < b and self.grid.heights[n] for n in row)

    def _over_top(self, number: int) -> bool:
        """Whether the link is an arc over the first row."""
        in_first_row = self.grid.row_of[self.links[number].source] == 0 and not self.grid.chains[number]
        return in_first_row and not self._neighbours(number)

    def _ends(self, number: int) -> tuple[int, int, bool]:
        """Upper (or left) and lower (or right) end of a link, and whether it stays in its row."""
        link, chain = self.links[number], self.grid.chains[number]
        if chain:
            return chain[0], chain[-1], False
        left, right = sorted((link.source, link.target), key=lambda n: self.x[n])
        return left, right, True

    def _ports(self) -> dict[tuple[int, int], float]:
        """Where on the border of a node each link is fixed: side by side, in the order of the other ends."""
        sides: dict[tuple[int, bool], list[tuple[float, int]]] = {}
        for number, chain in enumerate(self.grid.chains):
            first, last, flat = self._ends(number)
            if flat and self._neighbours(number):
                continue
            ahead, behind = (last, first) if flat else (chain[1], chain[-2])
            sides.setdefault((first, flat), []).append((float(self.x[ahead]), number))
            sides.setdefault((last, True), []).append((float(self.x[behind]), number))
        ports: dict[tuple[int, int], float] = {}
        for (node, _), members in sides.items():
            step = min(16.0, 0.8 * self.grid.widths[node] / len(members))
            for k, (_, number) in enumerate(sorted(members)):
                ports[node, number] = float(self.x[node]) + (k - (len(members) - 1) / 2) * step
        return ports

    def _curve(self, number: int) -> Curve:
        first, last, flat = self._ends(number)
        if not flat:
            return self._down(number, first, last)
        return (
            self._across(number, first, last) if self._neighbours(number) else self._over(number, first, last)
        )

    def _border(self, node: int, side: int) -> float:
        return self.middle[self.grid.row_of[node]] + side * self.grid.heights[node] / 2

    def _heads(self, number: int, first: int) -> tuple[float, float]:
        """Room for the arrowhead at the first and at the last end."""
        link = self.links[number]
        return (link.head, 0.0) if link.target == first else (0.0, link.head)

    def _down(self, number: int, first: int, last: int) -> Curve:
        row_of = self.grid.row_of
        at_first, at_last = self._heads(number, first)
        x0, x1 = self.ports[first, number], self.ports[last, number]
        y0, y1 = self._border(first, -1), self._border(last, 1)
        here = (x0, self.bottoms[row_of[first]] - at_first)
        pieces: list[tuple[Point, ...]] = [(here,)]
        for slot in self.grid.chains[number][1:-1]:
            x, row = float(self.x[slot]), row_of[slot]
            pieces += [_bend(here, (x, self.tops[row])), ((x, self.bottoms[row]),)]
            here = (x, self.bottoms[row])
        pieces += [_bend(here, (x1, self.tops[row_of[last]] + at_last)), ((x1, y1 + at_last),)]
        head = ((x1, y1), (x1, y1 + at_last)) if at_last else None
        head = ((x0, y0), (x0, y0 - at_first)) if at_first else head
        return Curve((x0, y0 - at_first), tuple(pieces), head)

    def _across(self, number: int, left: int, right: int) -> Curve:
        at_left, at_right = self._heads(number, left)
        y = self.middle[self.grid.row_of[left]]
        x0 = float(self.x[left]) + self.grid.widths[left] / 2
        x1 = float(self.x[right]) - self.grid.widths[right] / 2
        head = ((x1, y), (x1 - at_right, y)) if at_right else None
        head = ((x0, y), (x0 + at_left, y)) if at_left else head
        return Curve((x0 + at_left, y), (((x1 - at_right, y),),), head)

    def _over(self, number: int, left: int, right: int) -> Curve:
        """An arc in the free band above the row."""
        row = self.grid.row_of[left]
        at_left, at_right = self._heads(number, left)
        x0, x1 = self.ports[left, number], self.ports[right, number]
        y0, y1 = self._border(left, 1), self._border(right, 1)
        free = 0.85 * (self.gaps[row - 1] if row else self.top_gap)
        # A cubic reaches 3/4 of the height of its handles.
        handle = self.tops[row] + min(free, 20.0 + 0.06 * (x1 - x0)) / 0.75
        start, end = (x0, self.tops[row] + at_left), (x1, self.tops[row] + at_right)
        arc = ((x0, handle), (x1, handle), end)
        head = ((x1, y1), (x1, y1 + at_right)) if at_right else None
        head = ((x0, y0), (x0, y0 + at_left)) if at_left else head
        return Curve((x0, y0 + at_left), ((start,), arc, ((x1, y1 + at_right),)), head)


def _bend(a: Point, b: Point) -> tuple[Point, Point, Point]:
    """A curve that leaves and arrives vertically."""
    middle = (a[1] + b[1]) / 2
    return (a[0], middle), (b[0], middle), b


def _raised(curve: Curve, lift: float) -> Curve:
    def up(point: Point) -> Point:
        return point[0], point[1] + lift

    head = curve.head and (up(curve.head[0]), up(curve.head[1]))
    return Curve(up(curve.start), tuple(tuple(map(up, piece)) for piece in curve.pieces), head)
