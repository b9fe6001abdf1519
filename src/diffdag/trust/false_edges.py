"""A list of edges with few false ones: the surest, as many as a target for the false-discovery rate allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from diffdag._base.words import join_names, plural
from diffdag.results.difference import Difference
from diffdag.results.places import placed
from diffdag.results.records import Edge, Selection


def control_false_edges(result: Difference, fdr: float) -> Difference:
    """Keep edges of which no more than a share `fdr` is expected to be false.

    The expected share is the mean of one minus the probability that all is right that an edge claims. First
    come as many pairs as the target allows, the surest first; then as many of their arrows as it allows beside
    them; the others stay without direction. Without confidence nothing is kept, and never an edge that a moved
    range explains.
    """
    claims = [list(_claims(edge)) for edge in result.edge_list if edge.support != "range"]
    claims.sort(key=lambda own: _doubt(own[-1]))
    doubts = list(accumulate(_doubt(own[-1]) for own in claims))
    count = max((k for k, doubt in enumerate(doubts, start=1) if doubt <= fdr * k), default=0)
    kept, left = [own[-1] for own in claims[:count]], fdr * count - (doubts[count - 1] if count else 0.0)
    for k in sorted(range(count), key=lambda k: _doubt(claims[k][0]) - _doubt(kept[k])):
        more = _doubt(claims[k][0]) - _doubt(kept[k])
        if more <= left:
            kept[k], left = claims[k][0], left - more
    place = {(edge.source, edge.target): k for k, edge in enumerate(result.edge_list)}
    kept.sort(key=lambda edge: place.get((edge.source, edge.target), place.get((edge.target, edge.source), 0)))
    return _with_edges(result, kept, fdr)


def _doubt(edge: Edge) -> float:
    return 1 - chance_right(edge)


def chance_right(edge: Edge) -> float:
    """Probability that an edge is right: that something changed, in this direction if it has one.

    A direction without a probability was known beforehand, or cannot be judged and is not claimed.
    """
    direction = 1.0 if edge.direction is None else edge.direction
    return (edge.confidence or 0.0) * direction


def _claims(edge: Edge) -> Iterator[Edge]:
    """The edge, if its arrow can be judged, and what remains of it if its direction is not claimed."""
    if edge.judged or not edge.directed:
        yield edge
    if edge.directed and (edge.direction is not None or not edge.judged):
        yield Edge(
            edge.source,
            edge.target,
            directed=False,
            confidence=edge.confidence,
            support=edge.support,
            settled=edge.settled,
            stand_ins=edge.stand_ins,
        )


def _with_edges(result: Difference, edges: Sequence[Edge], fdr: float) -> Difference:
    """Leave out edges, and bring everything else in accord with that."""
    position = {name: k for k, name in enumerate(result.variables)}
    edges = [
        edge
        if edge.directed or position[edge.source] < position[edge.target]
        else replace(edge, source=edge.target, target=edge.source)
        for edge in edges
    ]
    shown = {(edge.source, edge.target, edge.directed) for edge in edges}
    kept = [name for name in result.variables if name not in set(result.screened_out)]
    return replace(
        result,
        edge_list=tuple(edges),
        **placed(edges, kept),
        selection=Selection(fdr, len(result.edge_list), tuple(_gone(result.edge_list, edges))),
        notes=(*result.notes, *_left_out(result.edge_list, edges, fdr)),
        scatters=tuple(s for s in result.scatters if (s.source, s.target, s.adjusted) in shown),
    )


def _gone(before: Sequence[Edge], after: Sequence[Edge]) -> list[Edge]:
    """Edges that are not sure enough, in either direction or without one."""
    left = {frozenset((edge.source, edge.target)) for edge in after}
    return [e for e in before if frozenset((e.source, e.target)) not in left and e.support != "range"]


def _left_out(before: Sequence[Edge], after: Sequence[Edge], fdr: float) -> Iterator[str]:
    """What a target for false edges took away."""
    left = {frozenset((edge.source, edge.target)): edge for edge in after}
    moved = [str(e) for e in before if e.support == "range"]
    gone = list(map(str, _gone(before, after)))
    turned = [
        str(e)
        for e in before
        if e.directed and str(e) not in (*gone, *moved) and not left[frozenset((e.source, e.target))].directed
    ]
    if moved:
        yield f"{plural(len(moved), 'edge')} left out because a moved range explains them: {join_names(moved)}"
    if gone:
        yield (
            f"{plural(len(gone), 'edge')} left out to keep the expected share of false ones at {fdr:g}: "
            f"{join_names(gone)}; notes and checks are about the list before that"
        )
    if turned:
        yield f"not sure enough of their direction for a share of false edges of {fdr:g}: {join_names(turned)}"
