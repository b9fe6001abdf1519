"""Variable by variable: what changed of each, those with most evidence first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from scipy import special

from diffdag.results.records import Edge, Node

if TYPE_CHECKING:
    from diffdag.results.difference import Difference

SCREENED = "not looked at, because the variables were too many"


def list_nodes(result: Difference) -> tuple[Node, ...]:
    """Say of each variable what changed: switched ones, then changed ones, clearest first, then the others.

    An effect counts for its target; a change without direction for both ends; what a moved range explains for
    none. Evidence is the largest number of standard errors, or what a p-value is worth in them, of any change.
    """
    off = sorted(result.switch_list, key=lambda change: 1.0 if change.pvalue is None else change.pvalue)
    switched = [Node(change.variable, True, note=change.words(result.labels)) for change in off]
    gains = {change.variable: change for change in result.gain_list}
    noises = {change.variable: change for change in result.noise_list}
    means = {change.variable: change for change in result.mean_list}
    on: dict[str, list[tuple[str, Edge]]] = {}
    for edge in result.edge_list:
        for target, source in _ends(edge):
            on.setdefault(target, []).append((source, edge))
    ranked, same = [], []
    for name in result.variables:
        own = on.get(name, [])
        gain, noise, mean = gains.get(name), noises.get(name), means.get(name)
        changed = bool(own or gain or noise or mean)
        node = Node(
            name,
            changed,
            tuple(source for source, _ in own),
            None if gain is None else gain.factor,
            None if noise is None else noise.ratio,
            None if mean is None else mean.delta,
            SCREENED if name in result.screened_out else "",
        )
        if not changed:
            same.append(node)
            continue
        sure = [_errors(change.pvalue) for change in (gain, noise, mean) if change is not None]
        sure += [abs(edge.delta) / edge.stderr for _, edge in own if edge.delta is not None and edge.stderr]
        ranked.append((-max(sure, default=0.0), -len(own) - len(sure), node))
    ranked.sort(key=lambda item: item[:2])
    return (*switched, *(node for *_, node in ranked), *same)


def _ends(edge: Edge) -> Iterator[tuple[str, str]]:
    """Whose mechanism an edge says changed, and from which variable."""
    if edge.by_range:
        return
    yield edge.target, edge.source
    if not edge.directed:
        yield edge.source, edge.target


def _errors(pvalue: float | None) -> float:
    """So many standard errors have this two-sided p-value."""
    return 0.0 if pvalue is None else math.inf if pvalue <= 0 else -float(special.ndtri(min(pvalue, 1.0) / 2))
