"""Sample splitting: select on one half, estimate on the other.

Standard errors of changes that were found on the same rows do not account for the search, which picks what
looks large. Here each table is split at random. One part is fitted; along its order, and with its changes, the
other part is regressed. Given what was found, those rows are a fresh sample, and Student's interval covers the
coefficient of that regression at its level, whether the edge is right or not.

Often several orders explain the changes equally well: two effects of one changed cause can stand in either
order, and how much of the change reaches the second directly depends on it. An interval then reaches from the
least to the largest value along any of these orders.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

import numpy as np
from scipy.special import stdtrit

from diffdag._base.arrays import BoolArray
from diffdag._base.errors import InputError
from diffdag._base.words import Option, using
from diffdag.ordersearch.fit import OrderFit, Structure
from diffdag.ordersearch.search import Found, changed_edges, walk_from
from diffdag.precision.problem import pooled_scale
from diffdag.results.difference import Difference
from diffdag.results.records import Edge, with_sizes
from diffdag.tables.align import Tables
from diffdag.tables.degenerate import check_moments
from diffdag.tables.moments import Moments, check_comparable
from diffdag.tables.problems import check_varies

LEVEL = 0.95
HELD_OUT = "held-out half of the first", "held-out half of the second"
MEASURED = ("change", "weight_first", "weight_second", "delta", "stderr", "low", "high", "robustness")
# Orders whose score is larger by no more than this explain the rows about as well: odds of 20 to 1.
AS_GOOD = 3.0
MOST_ORDERS = 24  # that are looked at besides the one found


def split_rows(tables: Tables, rng: np.random.Generator | int | None) -> tuple[Tables, Tables]:
    """Each table in two parts of the same size, at random: one to find changes, one to measure them."""
    source = np.random.default_rng(0 if rng is None else rng)
    shuffled = [source.permutation(len(table)) for table in (tables.first, tables.second)]
    find = [np.sort(rows[: (len(rows) + 1) // 2]) for rows in shuffled]
    test = [np.sort(rows[(len(rows) + 1) // 2 :]) for rows in shuffled]
    return tables.take(find[0], find[1]), tables.take(test[0], test[1])


def check_columns(held_out: Tables) -> None:
    """Refuse columns that vary among the rows of the other half only."""
    for rows, label in zip((held_out.adjusted.first, held_out.adjusted.second), HELD_OUT, strict=True):
        check_varies(held_out.names, rows.min(axis=0) == rows.max(axis=0), label)


def check_held_out(first: Moments, second: Moments) -> None:
    """Refuse rows that nothing can be measured on: a wild row may be among these only."""
    for moments, label in zip((first, second), HELD_OUT, strict=True):
        check_moments(moments.names, moments.n, moments.scatter, label, mean=moments.mean)
    check_comparable(first, second, HELD_OUT)


def measure(
    result: Difference, fit: OrderFit, first: Moments, second: Moments, before: BoolArray
) -> Difference:
    """Give the changes weights and intervals from rows that had no part in finding them.

    The moments are of those rows, over the variables that were kept; `fit` is on the others. ``before[a, b]``
    if it is known that a precedes b.
    """
    check_held_out(first, second)
    measured = _measured_edges(fit.structure, first, second)
    for other in _equivalent(fit, before):
        for ends, edge in _measured_edges(other, first, second).items():
            if ends in measured:
                measured[ends] = _wider(measured[ends], edge)
    numbers = {ends: {name: getattr(edge, name) for name in MEASURED} for ends, edge in measured.items()}
    kept = (replace(e, **numbers[e.source, e.target]) if e.directed else e for e in result.edge_list)
    edges = with_sizes(kept, first.names, pooled_scale(first, second))
    note = (
        f"changes were found on {fit.first.n:,} and {fit.second.n:,} rows; weights, {LEVEL:.0%} intervals "
        f"and explanations are from the other {first.n:,} and {second.n:,}, so that they account for the search"
    )
    return replace(result, edge_list=edges, notes=(*result.notes, note))


def _wider(edge: Edge, other: Edge) -> Edge:
    """The edge with an interval that holds both."""
    if edge.low is None or edge.high is None or other.low is None or other.high is None:
        return edge
    return replace(edge, low=min(edge.low, other.low), high=max(edge.high, other.high))


def _equivalent(fit: OrderFit, before: BoolArray) -> list[Structure]:
    """Other orders that explain the rows about as well, by moving changed variables past each other."""
    problem = fit.problem.requiring(np.zeros((fit.problem.p,) * 2, bool))
    best = walk_from(problem, fit.structure.order)
    limit = best.score + AS_GOOD
    seen, waiting = {best.order}, [best]
    found: list[Found] = []
    while waiting and len(found) < MOST_ORDERS:
        current = waiting.pop(0)
        for order in _neighbours(current.order, np.flatnonzero(current.changed.any(axis=1)).tolist()):
            if order in seen or len(found) == MOST_ORDERS or np.tril(before[np.ix_(order, order)]).any():
                continue
            seen.add(order)
            other = walk_from(problem, order)
            if other.score <= limit:
                waiting.append(other)
                found.append(other)
    return [Structure.of(fit.first.names, item, changed_edges(problem, item)) for item in found]


def _neighbours(order: tuple[int, ...], changed: list[int]) -> Iterator[tuple[int, ...]]:
    """The order with one of two changed variables moved past the other, one way and the other way."""
    place = {node: k for k, node in enumerate(order)}
    for a, b in permutations(changed, 2):
        if place[a] > place[b]:
            continue
        for mover, pivot, after in ((a, b, 1), (b, a, 0)):
            moved = [node for node in order if node != mover]
            moved.insert(moved.index(pivot) + after, mover)
            yield tuple(moved)


def _measured_edges(structure: Structure, first: Moments, second: Moments) -> dict[tuple[str, str], Edge]:
    """Edges with Student's intervals from regressions along an order."""
    edges = {}
    for i in sorted(structure.gains.union(structure.causes)):
        earlier = structure.predecessors(i)
        if min(first.n, second.n) <= len(earlier) + 2:
            raise InputError(
                f"{min(first.n, second.n)} rows are too few to measure changes on, with {len(earlier)} "
                "predecessors; leave split intervals out, or keep fewer variables ",
                using(Option("max_variables")),
            )
        fit = structure.regression(first, second, i)
        freedoms = dict(zip((structure.names[j] for j in earlier), fit.freedom_delta.tolist(), strict=True))
        for edge in structure.edges(i, fit, fit):
            delta, stderr = edge.delta or 0.0, edge.stderr or 0.0
            reach = float(stdtrit(freedoms[edge.source], (1 + LEVEL) / 2)) * stderr
            edges[edge.source, edge.target] = replace(edge, low=delta - reach, high=delta + reach)
    return edges
