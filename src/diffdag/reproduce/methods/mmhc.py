"""Max-min hill climbing (Tsamardinos, Brown and Aliferis 2006) in each condition; the difference of the DAGs.

First the possible parents and children of each variable, by tests (Fisher's z in place of G2); then, among the
edges that are possible from both ends, hill climbing on BIC (in place of BDeu) with a list of graphs not to
visit again. Both from moments.

The result is a DAG, and DAGs are what is subtracted, as the text of Ghoshal, Bello and Honorio has it: a
direction that the data leave open may differ between the conditions, and then counts as a difference. Ties
between equivalent DAGs are broken in the same way in both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations

from scipy.special import ndtri

from diffdag._base.arrays import BoolArray
from diffdag.reproduce.methods.cpdag import PartialGraph, children_of
from diffdag.reproduce.methods.gaussian import Gaussian, as_mask, members, subtract_graphs
from diffdag.reproduce.methods.method import Method

# Chosen in docs/dev/constants.md.
ALPHA = 0.05
LARGEST_SET = 8
TABU, PATIENCE = 100, 15
_TIE = 1e-9  # for each row: gains of equivalent changes differ by rounding


def mmhc_graph(table: Gaussian, largest: int = LARGEST_SET) -> BoolArray:
    """The DAG for one condition: ``[i, j]`` is ``j -> i``."""
    found = [parents_and_children(table, target, largest) for target in range(table.p)]
    both_ways = [as_mask(x for x in members(near) if found[x] >> y & 1) for y, near in enumerate(found)]
    return PartialGraph(climb(table, both_ways), [0] * table.p).matrix()


def parents_and_children(table: Gaussian, target: int, largest: int = LARGEST_SET) -> int:
    """The max-min heuristic: possible parents and children of one variable, before the check from both ends.

    The association of two variables given a set is Fisher's z: it orders as p-values do and never underflows.
    The number of sets to condition on is exponential in the size of the `largest`.
    """
    critical = float(-ndtri(ALPHA / 2))
    near: list[int] = []
    weakest = {x: table.fisher_z(target, x, 0) for x in range(table.p) if x != target}
    weakest = {x: z for x, z in weakest.items() if z > critical}
    while weakest:
        newest = max(weakest, key=lambda x: weakest[x])
        del weakest[newest]
        for x in list(weakest):
            for given in _subsets(near, largest - 1):
                z = table.fisher_z(target, x, given | 1 << newest)
                weakest[x] = min(weakest[x], z)
                if z <= critical:  # independent: out for good
                    del weakest[x]
                    break
        near.append(newest)
    for x in list(near):
        others = [y for y in near if y != x]
        if any(table.fisher_z(target, x, given) <= critical for given in _subsets(others, largest)):
            near = others
    return as_mask(near)


def _subsets(variables: Sequence[int], largest: int) -> Iterator[int]:
    """Every set of up to so many of the variables, small ones first."""
    bits = [1 << x for x in variables]
    for size in range(min(largest, len(bits)) + 1):
        for chosen in combinations(bits, size):
            yield sum(chosen)


def climb(table: Gaussian, allowed: Sequence[int]) -> list[int]:
    """Hill climbing on BIC from the empty graph; the best DAG met, as the parents of each variable.

    Each variable may have edges with those `allowed`. Each step is the best addition, deletion or reversal that
    does not lead back to one of the last `TABU` graphs, even if it lowers the score; the search ends after
    `PATIENCE` steps without a new best.
    """
    tie = _TIE * table.n
    current = best = (0,) * table.p
    above_best = 0.0  # what the current graph scores more than the best
    visited = deque([current], maxlen=TABU)
    idle = 0
    while idle < PATIENCE:
        chosen, gain = None, -float("inf")
        for candidate, change in neighbourhood(table, current, allowed):
            if change > gain + tie and candidate not in visited:
                chosen, gain = candidate, change
        if chosen is None:
            break
        current = chosen
        visited.append(current)
        above_best += gain
        idle += 1
        if above_best > tie:
            best, above_best, idle = current, 0.0, 0
    return list(best)


def neighbourhood(
    table: Gaussian, graph: tuple[int, ...], allowed: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every DAG one addition, deletion or reversal of an edge away, and its gain."""
    score = table.bic
    children = children_of(graph)
    below = descendants(children)
    for y, parents in enumerate(graph):
        now = score(y, parents)
        for x in members(allowed[y] & ~parents & ~children[y] & ~below[y]):
            yield _with(graph, y, parents | 1 << x), score(y, parents | 1 << x) - now
        for x in members(parents):
            without = parents & ~(1 << x)
            change = score(y, without) - now
            shorter = _with(graph, y, without)
            yield shorter, change
            detour = any(below[z] >> y & 1 for z in members(children[x] & ~(1 << y)))
            if not detour:
                turned = graph[x] | 1 << y
                yield _with(shorter, x, turned), change + score(x, turned) - score(x, graph[x])


def descendants(children: Sequence[int]) -> list[int]:
    """What can be reached from each vertex of a DAG along its edges."""
    below = list(children)
    for z in range(len(below)):  # Warshall's closure
        below = [set_ | below[z] if set_ >> z & 1 else set_ for set_ in below]
    return below


def _with(graph: tuple[int, ...], y: int, parents: int) -> tuple[int, ...]:
    return (*graph[:y], parents, *graph[y + 1 :])


ABOUT = "max-min hill climbing in each condition, DAGs subtracted"
METHODS = (Method("mmhc", ABOUT, partial(subtract_graphs, mmhc_graph), most=30),)
