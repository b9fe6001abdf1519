"""The skeleton of PC in its order-independent form (Colombo and Maathuis 2014), with any test.

Two vertices stay adjacent unless they are independent given a set of up to `most` neighbours of one of them.
Neighbours are those at the start of a round, so that the order of the vertices does not matter. Sets are
integers with one bit per vertex, as in `gaussian`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

from diffdag.reproduce.methods.gaussian import as_mask, members

MOST = 3  # size of a set


def skeleton(p: int, separates: Callable[[int, int, int], bool], most: int = MOST) -> list[int]:
    """Neighbours of each vertex; ``separates(x, y, given)`` with ``x < y`` says whether a set separates."""
    adjacent = [((1 << p) - 1) & ~(1 << x) for x in range(p)]
    for size in range(most + 1):
        before = list(adjacent)
        for x, y in combinations(range(p), 2):
            if before[x] >> y & 1 and _separated(x, y, before, size, separates):
                adjacent[x] &= ~(1 << y)
                adjacent[y] &= ~(1 << x)
    return adjacent


def _separated(
    x: int, y: int, adjacent: list[int], size: int, separates: Callable[[int, int, int], bool]
) -> bool:
    sets = {
        as_mask(chosen)
        for end, other in ((x, y), (y, x))
        for chosen in combinations(members(adjacent[end] & ~(1 << other)), size)
    }
    return any(separates(x, y, given) for given in sorted(sets))
