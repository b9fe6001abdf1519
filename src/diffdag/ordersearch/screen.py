"""Which variables take part, where they are too many to order all of them, and which of them together.

Regressions along an order need more rows than variables, and the search takes hours for many variables. So
first pairs are found that look changed given what explains each variable (see `neighbourhood`), and variables
whose noise or mean does. What hangs together goes into a block: the two of a pair, what they were compared
given, and their neighbours. Orders are searched block by block (see `blocks`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from diffdag._base.arrays import FloatArray
from diffdag._base.progress import ProgressCallback
from diffdag._base.words import plural
from diffdag.ordersearch.neighbourhood import Explored, explore
from diffdag.precision.problem import SparseProblem

# No more variables than this are ordered in one search; nor ever more than rows / ROWS_PER_VARIABLE of the
# smaller table.
MOST = 200
ROWS_PER_VARIABLE = 1.5
# Up to so many variables are searched once more together, from the orders of their blocks.
TOGETHER = 500
# So many pairs go into blocks, the clearest first, and so many variables that look changed by themselves.
MOST_PAIRS, MOST_ALONE = 150, 20
# Rows per variable of a block, and least and most variables; suspects may make them SPACE times as large, and
# two become one if it is no larger than that.
BLOCK_ROWS, LEAST_BLOCK, MOST_BLOCK, SPACE = 4, 8, 40, 1.5
NEAREST = 6  # neighbours of each variable of a pair that are asked for


def silent(done: int, total: int | None, what: str) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Screened:
    """The columns to search on, together or block by block, and what to tell about the others."""

    ranked: Sequence[int]  # the most important first
    settings: dict[str, object] = field(default_factory=dict)
    blocks: tuple[tuple[int, ...], ...] = ()  # of which orders are searched apart; none for one search

    @property
    def members(self) -> list[int]:
        """In the order of the columns."""
        return sorted(k for block in self.blocks for k in block) if self.blocks else sorted(self.ranked)

    def without(self, columns: Collection[int]) -> Screened:
        """All but some columns."""
        blocks = tuple(tuple(k for k in block if k not in columns) for block in self.blocks)
        return replace(
            self, ranked=[k for k in self.ranked if k not in columns], blocks=tuple(filter(None, blocks))
        )


def most_variables(rows: int, asked: int | None = None) -> int:
    """So many variables are kept with so many rows in the smaller table; the user may ask for a number."""
    return min(MOST if asked is None else asked, _allowed(rows))


def most_together(rows: int) -> int:
    """So many variables are all put into blocks, and searched together from there."""
    return min(TOGETHER, _allowed(rows))


def _allowed(rows: int) -> int:
    return max(2, int(rows / ROWS_PER_VARIABLE))


def screen(
    problem: SparseProblem,
    n1: int,
    n2: int,
    most: int,
    progress: ProgressCallback = silent,
    difference: FloatArray | None = None,
) -> Screened:
    """The variables that seem to take part in a change, and their neighbours, in blocks.

    `difference` is the first mean minus the second, on the scale of the problem. At most so many variables are
    ranked.
    """
    explored = explore(problem, n1, n2, progress, difference)
    limit = max(2, min(most, _allowed(min(n1, n2))))
    size = min(MOST_BLOCK, max(LEAST_BLOCK, min(n1, n2) // BLOCK_ROWS), limit)
    blocks = make_blocks(
        explored, size, min(int(SPACE * size), limit), every=problem.p <= max(most, most_together(min(n1, n2)))
    )
    there = {k for block in blocks for k in block}
    ends = (k for pair in explored.suspects[:MOST_PAIRS] for k in (pair.effect, pair.cause) if k in there)
    ranked = tuple(dict.fromkeys([*ends, *(k for block in blocks for k in block)]))[:most]
    return Screened(ranked, {"suspects": len(blocks)}, blocks)


def screening_note(p: int, kept: int, rows: int, asked: int | None = None) -> str:
    """What a user should know about variables that were not ordered."""
    most = most_variables(rows, asked)
    reason = "you asked for" if most == asked else "the search can take"
    if most == _allowed(rows):
        reason = f"{rows} rows can order"
    return (
        f"{plural(p - kept, 'variable')} of {p} were screened out before the search, because {reason} "
        f"at most {most}. Changes there are not seen, and weights are given the variables that were kept"
    )


def blocks_note(p: int, kept: int) -> str:
    """What a user should know about variables that were left out after a search in blocks."""
    return (
        f"{plural(p - kept, 'variable')} of {p} were screened out: given what explains them nothing about "
        "them looked changed enough. Small changes there are not seen, and weights are given the variables "
        "that were kept"
    )


def make_blocks(
    explored: Explored, size: int, largest: int, *, every: bool = False
) -> tuple[tuple[int, ...], ...]:
    """Blocks of variables, none in two of them, those of the clearest suspects first.

    Neighbours go in up to `size` variables, suspects and what they are seen given up to `largest`. If every
    variable is to be in a block, those that nothing points to come last.
    """
    blocks = _Blocks(size, largest)
    for pair in explored.suspects[:MOST_PAIRS]:
        near = (explored.near(k)[:NEAREST] for k in (pair.effect, pair.cause))
        blocks.put((pair.effect, pair.cause), pair.given, (k for own in near for k in own))
    for k in explored.moved[:MOST_ALONE]:
        blocks.put((k,), (), explored.near(k))
    for k in range(len(explored.around[0].chosen)) if every else ():
        if k not in blocks.block:
            blocks.put((k,), (), explored.near(k))
    alone = [k for own in blocks.members.values() if len(own) == 1 for k in own]
    parts = [alone[k : k + size] for k in range(0, len(alone), size)] if every else []
    several = [
        *(own for own in blocks.members.values() if len(own) > 1),
        *(own for own in parts if len(own) > 1),
    ]
    return tuple(map(tuple, several)) or ((0, 1),)


class _Blocks:
    """Variables in blocks, none in two of them."""

    def __init__(self, size: int, largest: int) -> None:
        self.size, self.largest = size, largest
        self.members: dict[int, list[int]] = {}
        self.block: dict[int, int] = {}

    def put(self, suspects: Sequence[int], given: Sequence[int], near: Iterable[int]) -> None:
        """Suspects into one block, if it has space; what they are seen given, and their neighbours."""
        wanted = list(dict.fromkeys([*suspects, *given, *near]))
        own = self._joined(list(dict.fromkeys(self.block[k] for k in suspects if k in self.block)))
        if own is None:
            own = self._nearest(wanted)
        for k in wanted:
            size = self.largest if k in suspects or k in given else self.size
            if k not in self.block and len(self.members[own]) < size:
                self.members[own].append(k)
                self.block[k] = own

    def _joined(self, found: list[int]) -> int | None:
        """The block that suspects are in; two become one if they have space."""
        if len(found) > 1 and sum(len(self.members[b]) for b in found) <= self.largest:
            first, *others = found
            for other in others:
                for k in self.members.pop(other):
                    self.members[first].append(k)
                    self.block[k] = first
        return found[0] if found else None

    def _nearest(self, wanted: Sequence[int]) -> int:
        """The block with most of what is wanted that has space for the rest, or a new one."""
        free = sum(k not in self.block for k in wanted)
        there = [self.block[k] for k in wanted if k in self.block]
        for own in sorted(set(there), key=lambda b: (-there.count(b), b)):
            if len(self.members[own]) + free <= self.size:
                return own
        own = max(self.members, default=-1) + 1
        self.members[own] = []
        return own
