"""Which row a node of a layered graph goes to, and in what order within the row.

The steps are those of Sugiyama, Tagawa and Toda (1981, "Methods for visual understanding of hierarchical
system structures", IEEE Transactions on Systems, Man, and Cybernetics 11): rows, slots for long edges in
the rows that they cross, order within rows by barycenters.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

NODE_GAP = 26.0
SLOT_WIDTH = 8.0  # what a long edge takes in a row that it crosses
SWEEPS = 12


@dataclass(frozen=True)
class Link:
    """An edge to place."""

    source: int
    target: int
    head: float  # length of the arrowhead at the target; 0 without


@dataclass
class Grid:
    """Nodes and slots in rows. Slots are numbered after the nodes."""

    count: int  # of nodes
    widths: list[float]
    heights: list[float]
    rows: list[list[int]]
    row_of: list[int]
    chains: list[list[int]] = field(default_factory=list)  # per link: upper node, slots, lower node
    flat: list[tuple[int, int]] = field(default_factory=list)  # links within a row

    def joined(self, within_rows: bool) -> dict[int, list[int]]:
        """What each node or slot is joined to."""
        joined: dict[int, list[int]] = {}
        for chain in [*self.chains, *(map(list, self.flat) if within_rows else ())]:
            for a, b in itertools.pairwise(chain):
                joined.setdefault(a, []).append(b)
                joined.setdefault(b, []).append(a)
        return joined

    def segments(self, gap: int) -> list[tuple[int, int]]:
        """Pieces of links between row `gap` and the next one."""
        pairs = (pair for chain in self.chains for pair in itertools.pairwise(chain))
        return [pair for pair in pairs if self.row_of[pair[0]] == gap]


def build_grid(sizes: Sequence[tuple[float, float]], links: Sequence[Link], on_top: set[int]) -> Grid:
    """Put nodes and slots in ordered rows."""
    rows = _rows(sizes, links, on_top)
    place = {node: number for number, row in enumerate(rows) for node in row}
    row_of = [place[node] for node in range(len(sizes))]
    grid = Grid(len(sizes), [w for w, _ in sizes], [h for _, h in sizes], rows, row_of)
    for link in links:
        _add_chain(grid, link)
    _reorder(grid)
    return grid


class _Shelves:
    """Rows of limited width."""

    def __init__(self, sizes: Sequence[tuple[float, float]]) -> None:
        self.needs = [width + NODE_GAP for width, _ in sizes]
        tallest = max((height for _, height in sizes), default=0.0)
        # As wide as a picture of 3 : 2 wants, but not so narrow that small graphs become towers.
        self.limit: float = max(380.0, (1.5 * sum(self.needs) * (tallest + 60.0)) ** 0.5, *self.needs)
        self.rows: list[list[int]] = []
        self.row_of: dict[int, int] = {}

    def fits(self, node: int, row: int) -> bool:
        return sum(self.needs[n] for n in [*self.rows[row], node]) <= self.limit

    def put(self, node: int, row: int) -> None:
        if node in self.row_of:
            self.rows[self.row_of[node]].remove(node)
        self.rows[row].append(node)
        self.row_of[node] = row

    def put_below(self, node: int, first: int) -> None:
        """Put the node in the first row with room, from row `first` on."""
        free = (row for row in range(first, len(self.rows)) if self.fits(node, row))
        row = next(free, max(first, len(self.rows)))
        self.rows += [[] for _ in range(len(self.rows), row + 1)]
        self.put(node, row)


def _rows(sizes: Sequence[tuple[float, float]], links: Sequence[Link], on_top: set[int]) -> list[list[int]]:
    """Assign rows: each node below its causes."""
    parents: list[set[int]] = [set() for _ in sizes]
    for link in links:
        if link.head and link.target not in on_top:
            parents[link.target].add(link.source)
    shelves = _Shelves(sizes)
    for node in _topological(parents, on_top):
        above = [shelves.row_of[p] for p in parents[node] if p in shelves.row_of]
        floor = 0 if node in on_top else len({shelves.row_of[t] for t in on_top})
        shelves.put_below(node, max([floor, *(row + 1 for row in above)]))
    _lower(shelves, parents, on_top)
    return [row for row in shelves.rows if row]


def _topological(parents: Sequence[set[int]], on_top: set[int]) -> list[int]:
    """Nodes with causes first; a cycle is cut where it is met."""
    waiting = [len(p) for p in parents]
    left = set(range(len(parents)))
    order: list[int] = []
    while left:
        free = [n for n in left if waiting[n] == 0] or [min(left, key=lambda n: (waiting[n], n))]
        for node in sorted(free, key=lambda n: (n not in on_top, n)):
            order.append(node)
            left.discard(node)
            for child in left:
                waiting[child] -= node in parents[child]
    return order


def _lower(shelves: _Shelves, parents: Sequence[set[int]], on_top: set[int]) -> None:
    """Move causes down to just above their effects, where that shortens more edges than it lengthens."""
    children: dict[int, list[int]] = {}
    for node, causes in enumerate(parents):
        for cause in causes:
            children.setdefault(cause, []).append(node)
    for node in sorted(children, key=lambda n: -shelves.row_of[n]):
        if node in on_top or len(parents[node]) >= len(children[node]):
            continue
        nearest = min(shelves.row_of[child] for child in children[node]) - 1
        free = [row for row in range(nearest, shelves.row_of[node], -1) if shelves.fits(node, row)]
        if free:
            shelves.put(node, free[0])


def _add_chain(grid: Grid, link: Link) -> None:
    upper, lower = sorted((link.source, link.target), key=lambda n: grid.row_of[n])
    first, last = grid.row_of[upper], grid.row_of[lower]
    if first == last:
        grid.flat.append((upper, lower))
        grid.chains.append([])
        return
    crossed = range(first + 1, last)
    slots = range(len(grid.widths), len(grid.widths) + len(crossed))
    grid.chains.append([upper, *slots, lower])
    grid.widths += [SLOT_WIDTH] * len(crossed)
    grid.heights += [0.0] * len(crossed)
    grid.row_of += crossed
    for slot, row in zip(slots, crossed, strict=True):
        grid.rows[row].append(slot)


def _reorder(grid: Grid) -> None:
    """Order each row by the mean place of what its members are joined to; keep the best order seen."""
    joined = grid.joined(within_rows=True)
    segments = [grid.segments(gap) for gap in range(len(grid.rows) - 1)]
    best, least = grid.rows, _faults(grid, segments)
    for sweep in range(2 * SWEEPS):
        grid.rows = [list(row) for row in grid.rows]
        downwards = sweep % 2 == 0
        for number in range(len(grid.rows)) if downwards else range(len(grid.rows) - 1, -1, -1):
            _sort_row(grid, joined, number, {number, number - 1 if downwards else number + 1})
        faults = _faults(grid, segments)
        if faults < least:
            best, least = grid.rows, faults
    grid.rows = best
    _swap_neighbours(grid, segments)


def _sort_row(grid: Grid, joined: Mapping[int, list[int]], number: int, near: set[int]) -> None:
    """Order a row by the mean place of what its members are joined to in the rows `near` it."""
    place = {n: (k + 0.5) / len(row) for row in grid.rows for k, n in enumerate(row)}

    def barycenter(node: int) -> float:
        beside = [place[m] for m in joined.get(node, []) if grid.row_of[m] in near]
        return float(np.mean(beside or place[node]))

    grid.rows[number].sort(key=barycenter)


def _faults(grid: Grid, segments: Sequence[list[tuple[int, int]]]) -> int:
    """Crossings, and nodes that links within a row pass over."""
    place = {n: k for row in grid.rows for k, n in enumerate(row)}
    crossings = sum(_crossings(np.array([(place[a], place[b]) for a, b in gap])) for gap in segments if gap)
    return crossings + sum(abs(place[a] - place[b]) - 1 for a, b in grid.flat)


def _crossings(ends: NDArray[np.int64]) -> int:
    order = np.subtract.outer(ends[:, 0], ends[:, 0]) * np.subtract.outer(ends[:, 1], ends[:, 1])
    return int((order < 0).sum()) // 2


def _swap_neighbours(grid: Grid, segments: Sequence[list[tuple[int, int]]]) -> None:
    """Swap neighbours where that saves crossings; barycenters alone leave some."""
    if sum(map(len, grid.rows)) > 150:
        return
    for _ in range(3):
        before = least = _faults(grid, segments)
        for row in grid.rows:
            for k in range(len(row) - 1):
                row[k], row[k + 1] = row[k + 1], row[k]
                faults = _faults(grid, segments)
                if faults < least:
                    least = faults
                else:
                    row[k], row[k + 1] = row[k + 1], row[k]
        if least == before:
            return
