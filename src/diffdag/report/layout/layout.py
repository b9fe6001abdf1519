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
HEAD_WIDTH = 0.42  # half the width of an arrowhead, in lengths


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
    """Place nodes, in the order of their `sizes` (width, height) where nothing else decides, and edges.

    Links with a head lead downwards, unless they form a cycle or lead into `on_top`: nodes for the first rows.

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
    return nondecreasing(wish - offset) + offset


def nondecreasing(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the numbers nearest to `values` in the mean square that never decrease.

    This is isotonic regression, by pooling adjacent violators (Ayer et al. 1955).

    >>> nondecreasing(np.array([1.0, 3.0, 2.0]))
    array([1. , 2.5, 2.5])
    """
    means: list[float] = []
    counts: list[int] = []
    for value in values.tolist():
        mean, count = value, 1
        while means and means[-1] > mean:
            mean, count = (mean * count + means[-1] * counts[-1]) / (count + counts[-1]), count + counts[-1]
            del means[-1], counts[-1]
        means.append(mean)
        counts.append(count)
    return np.repeat(np.array(means, dtype=np.float64), counts)


class _Router:
    """Turns rows and columns into coordinates and curves."""

    def __init__(self, grid: Grid, x: NDArray[np.float64], links: Sequence[Link]) -> None:
        self.grid, self.x, self.links = grid, x.tolist(), links
        bands = np.array([max(grid.heights[n] for n in row) for row in grid.rows])
        self.gaps = [46.0 + min(40.0, 2.5 * len(grid.segments(gap))) for gap in range(len(bands) - 1)]
        self.top_gap = 40.0 if any(map(self._over_top, range(len(links)))) else 0.0
        steps = bands + [*self.gaps, 0.0][: len(bands)]  # the last row ends at 0
        tops = np.cumsum(steps[::-1])[::-1]
        self.tops, self.bottoms = tops.tolist(), (tops - bands).tolist()
        self.middle = (tops - bands / 2).tolist()
        self.ports = self._ports()

    def layout(self) -> Layout:
        return Layout(
            centres=tuple((self.x[n], self.middle[self.grid.row_of[n]]) for n in range(self.grid.count)),
            curves=tuple(map(self._curve, range(len(self.links)))),
            width=max((x + width / 2 for x, width in zip(self.x, self.grid.widths, strict=True)), default=0.0),
            height=max(self.tops, default=0.0) + self.top_gap,
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
            sides.setdefault((first, flat), []).append((self.x[ahead], number))
            sides.setdefault((last, True), []).append((self.x[behind], number))
        ports: dict[tuple[int, int], float] = {}
        for (node, _), members in sides.items():
            step = min(16.0, 0.8 * self.grid.widths[node] / len(members))
            for k, (_, number) in enumerate(sorted(members)):
                ports[node, number] = self.x[node] + (k - (len(members) - 1) / 2) * step
        return ports

    def _curve(self, number: int) -> Curve:
        first, last, flat = self._ends(number)
        link, row = self.links[number], self.grid.row_of[first]
        heads = (link.head, 0.0) if link.target == first else (0.0, link.head)
        between: list[tuple[Point, ...]] = []
        if flat and self._neighbours(number):
            left, right = self.x[first] + self.grid.widths[first] / 2, self.x[last] - self.grid.widths[last] / 2
            tips = [(left, self.middle[row]), (right, self.middle[row])]
            away = [(1.0, 0.0), (-1.0, 0.0)]
        else:
            up = 1.0 if flat else -1.0
            tips = [(self.ports[first, number], self._border(first, up))]
            tips += [(self.ports[last, number], self._border(last, 1.0))]
            away = [(0.0, up), (0.0, 1.0)]
            between = (self._over if flat else self._down)(number, tips, heads)
        bases = [
            (x + dx * head, y + dy * head) for (x, y), (dx, dy), head in zip(tips, away, heads, strict=True)
        ]
        at = 0 if heads[0] else 1
        return Curve(bases[0], (*between, (bases[1],)), (tips[at], bases[at]) if link.head else None)

    def _border(self, node: int, side: float) -> float:
        return float(self.middle[self.grid.row_of[node]] + side * self.grid.heights[node] / 2)

    def _down(self, number: int, tips: Sequence[Point], heads: tuple[float, float]) -> list[tuple[Point, ...]]:
        """Bends in the bands between the rows, and straight lines through the slots."""
        first, *slots, last = self.grid.chains[number]
        row_of = self.grid.row_of
        here = (tips[0][0], self.bottoms[row_of[first]] - heads[0])
        pieces: list[tuple[Point, ...]] = [(here,)]
        for slot in slots:
            x, row = self.x[slot], row_of[slot]
            pieces += [_bend(here, (x, self.tops[row])), ((x, self.bottoms[row]),)]
            here = (x, self.bottoms[row])
        return [*pieces, _bend(here, (tips[1][0], self.tops[row_of[last]] + heads[1]))]

    def _over(self, number: int, tips: Sequence[Point], heads: tuple[float, float]) -> list[tuple[Point, ...]]:
        """An arc in the free band above the row."""
        row, (x0, x1) = self.grid.row_of[self.links[number].source], (x for x, _ in tips)
        free = 0.85 * (self.gaps[row - 1] if row else self.top_gap)
        # A cubic reaches 3/4 of the height of its handles.
        handle = self.tops[row] + min(free, 20.0 + 0.06 * (x1 - x0)) / 0.75
        start, end = (x0, self.tops[row] + heads[0]), (x1, self.tops[row] + heads[1])
        return [(start,), ((x0, handle), (x1, handle), end)]


def arrowhead(tip: Point, base: Point) -> list[Point]:
    """Corners of an arrowhead, from its tip and the middle of its base."""
    (x, y), (bx, by) = tip, base
    across, up = (by - y) * HEAD_WIDTH, (x - bx) * HEAD_WIDTH
    return [tip, (bx + across, by + up), (bx - across, by - up)]


def _bend(a: Point, b: Point) -> tuple[Point, Point, Point]:
    """A curve that leaves and arrives vertically."""
    middle = (a[1] + b[1]) / 2
    return (a[0], middle), (b[0], middle), b
