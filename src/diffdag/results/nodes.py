"""Variable by variable: what changed of each, those with most evidence first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from diffdag._base.arrays import FloatArray
from diffdag.results.records import Edge, GainChange, MeanChange, Node, NodeTest, NoiseChange

if TYPE_CHECKING:
    from diffdag.results.difference import Difference

LIKELY = 0.05  # p-values up to this, and rates of false discoveries, speak against no change
SCREENED = "not looked at, because the variables were too many"
BY_RANGE = "a moved range of a cause explains it"
EITHER = "or {}: direction open"


def list_nodes(result: Difference) -> tuple[Node, ...]:
    """Say of each variable what changed: switched ones, then changed ones, then the others, clearest first.

    An effect counts for its target; a change without direction for both ends; what a moved range explains for
    none. Evidence is that of the test of the whole mechanism; where there is none, the largest number of
    standard errors, or what a p-value is worth in them, of any change.
    """
    tests = _tests(result)
    off = sorted(result.switch_list, key=lambda change: 1.0 if change.pvalue is None else change.pvalue)
    values = {change.variable: change.pvalue for change in off}
    values |= {name: test.pvalue for name, test in tests.items()}
    rates = dict(
        zip(values, false_discovery_rates(list(values.values()), len(result.screened_out)), strict=True)
    )
    switched = [
        Node(
            change.variable,
            True,
            pvalue=change.pvalue,
            qvalue=rates[change.variable],
            note=change.words(result.labels),
        )
        for change in off
    ]
    gains = {change.variable: change for change in result.gain_list}
    noises = {change.variable: change for change in result.noise_list}
    means = {change.variable: change for change in result.mean_list}
    on: dict[str, list[tuple[str, Edge]]] = {}
    for edge in result.edge_list:
        for target, source in _ends(edge):
            on.setdefault(target, []).append((source, edge))
    moved = {*on, *gains, *noises, *means}
    notes = {edge.target: BY_RANGE for edge in result.edge_list if edge.by_range and edge.target not in moved}
    notes |= dict.fromkeys(result.screened_out, SCREENED)
    for one, two in either_of(result):
        notes |= {one: EITHER.format(two), two: EITHER.format(one)}
    ranked = []
    for name in result.variables:
        edges = on.get(name, [])
        gain, noise, mean = gains.get(name), noises.get(name), means.get(name)
        others = [change for change in (gain, noise, mean) if change is not None]
        node = Node(
            name,
            bool(edges or others),
            tuple(source for source, _ in edges),
            None if gain is None else gain.factor,
            None if noise is None else noise.ratio,
            None if mean is None else mean.delta,
            tests[name].pvalue if name in tests else None,
            rates.get(name),
            _confidence([edge for _, edge in edges], others),
            notes.get(name, ""),
        )
        sure = tests[name].evidence if name in tests else None
        errors = _most_errors([edge for _, edge in edges], others)
        ranked.append(((not node.changed, -(sure or 0.0), -errors, -len(edges) - len(others)), node))
    ranked.sort(key=lambda item: item[0])
    return (*switched, *(node for _, node in ranked))


def false_discovery_rates(pvalues: Sequence[float | None], screened: int = 0) -> list[float | None]:
    """Adjusted p-values of Benjamini and Yekutieli (2001), which hold however tests depend on each other.

    What has no p-value is not among the tests, but for so many that were screened out because nothing was seen.

    >>> [rate and round(rate, 3) for rate in false_discovery_rates([0.01, 0.04, None, 0.03])]
    [0.055, 0.073, None, 0.073]
    """
    known = [k for k, value in enumerate(pvalues) if value is not None]
    values: FloatArray = np.array([pvalues[k] for k in known], dtype=np.float64)
    order = np.argsort(-values, kind="stable")
    ranks, tests = np.arange(len(values), 0, -1), len(values) + screened
    harmonic = float((1 / np.arange(1, tests + 1)).sum())
    rates = np.minimum.accumulate(values[order] * (harmonic * tests) / ranks)
    found: list[float | None] = [None] * len(pvalues)
    for place, rate in zip(order.tolist(), rates.tolist(), strict=True):
        found[known[place]] = min(rate, 1.0)
    return found


def _tests(result: Difference) -> Mapping[str, NodeTest]:
    """The test of each variable; what is known of a change without direction goes to both of its ends.

    Unless one of them has other changes of its own: then it is the one that explains most.
    """
    tests = {test.variable: test for test in result.node_tests}
    for ends in either_of(result):
        if tests.keys() >= {*ends}:
            best = max((tests[name] for name in ends), key=lambda test: test.evidence or 0.0)
            tests |= {name: NodeTest(name, best.pvalue, best.evidence) for name in ends}
    return tests


def either_of(result: Difference) -> list[tuple[str, str]]:
    """Two variables at a time of which one changed and it is open which: nothing else of them is claimed."""
    own = {
        change.variable for kind in (result.gain_list, result.noise_list, result.mean_list) for change in kind
    }
    own |= {edge.target for edge in result.edge_list if edge.directed and not edge.by_range}
    ends = [(edge.source, edge.target) for edge in result.edge_list if not edge.directed]
    return [pair for pair in ends if not own.intersection(pair)]


def _ends(edge: Edge) -> Iterator[tuple[str, str]]:
    """Whose mechanism an edge says changed, and from which variable."""
    if edge.by_range:
        return
    yield edge.target, edge.source
    if not edge.directed:
        yield edge.source, edge.target


def _confidence(edges: Sequence[Edge], others: Sequence[GainChange | NoiseChange | MeanChange]) -> float | None:
    """The largest probability of any change of a variable: of an edge, that it is one and points here.

    Where the direction cannot be judged, one end is as likely as the other.
    """
    known = [change.confidence for change in others]
    for edge in edges:
        toward = 0.5 if edge.direction is None or not edge.directed else edge.direction
        known.append(None if edge.confidence is None else edge.confidence * toward)
    return max((value for value in known if value is not None), default=None)


def _most_errors(edges: Sequence[Edge], others: Sequence[GainChange | NoiseChange | MeanChange]) -> float:
    """The largest number of standard errors of any change, or what its p-value is worth in them."""
    sure = [_errors(change.pvalue) for change in others]
    sure += [abs(edge.delta) / edge.stderr for edge in edges if edge.delta is not None and edge.stderr]
    return max(sure, default=0.0)


def _errors(pvalue: float | None) -> float:
    """So many standard errors have this two-sided p-value."""
    return 0.0 if pvalue is None else math.inf if pvalue <= 0 else -float(special.ndtri(min(pvalue, 1.0) / 2))
