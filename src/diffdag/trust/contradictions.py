"""What in a result speaks against it: marks at single edges, sentences about the whole and about several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from diffdag._base.words import join_names, option_words, plural
from diffdag.results.difference import Difference
from diffdag.results.nodes import LIKELY
from diffdag.results.records import Check, Edge

SURE = 0.8  # a direction less probable than this is not shown as a plain arrow
OPEN = 0.6  # and below this it is called open


class Mark(NamedTuple):
    """One thing that speaks against an edge."""

    short: str  # beside the edge
    words: str  # what it means, in a sentence


NOT_SETTLED = Mark(
    "not settled", "an order without this change, or with it the other way round, scores nearly as well"
)
BY_RANGE = Mark("range explains it", "one curve for both conditions, over another range, explains it as well")
UNCLEAR = Mark("ranges hardly overlap", "a bend cannot be told from a changed effect here")
DIRECTION_OPEN = Mark("direction open", "the data do not tell cause from effect")
PROBABLE = Mark("direction only probable", "the arrow may well point the other way")


def direction_open(edge: Edge) -> bool:
    """Whether the data hardly tell cause from effect.

    >>> direction_open(Edge("a", "b")), direction_open(Edge("a", "b", direction=0.55))
    (False, True)
    """
    return not edge.directed or (edge.direction is not None and edge.direction < OPEN)


def hedged(edge: Edge) -> bool:
    """Whether the arrow of a directed edge is not to be shown as a plain one."""
    if edge.direction is None:
        return edge.directed and edge.confidence is not None and not edge.judged
    return edge.directed and edge.direction < SURE


def marks(result: Difference, edge: Edge) -> Iterator[Mark]:
    """What speaks against one edge of a result, the weightiest first."""
    if edge.by_range:
        yield BY_RANGE
    if edge.support == "unclear":
        yield UNCLEAR
    if direction_open(edge):
        yield DIRECTION_OPEN
    elif hedged(edge) and edge.judged:
        yield PROBABLE
    if not edge.settled:
        yield NOT_SETTLED
    known = result.sensitivity
    if known is not None and str(edge) in known.gone:
        yield Mark(f"goes with a slightly higher {known.axis}", "no change is found between the two there")
    for check in result.checks:
        if not check.passed and str(edge) in check.edges:
            yield Mark(f"check of {check.name}", check.message)


def contradictions(result: Difference) -> Iterator[str]:
    """Parts of a result that do not go together, each in a sentence."""
    claimed = [edge for edge in result.edge_list if not edge.by_range]
    test, known = result.global_test, result.sensitivity
    able = test is not None and (test.least is None or test.least <= LIKELY)  # few units cannot tell
    if test is not None and able and test.pvalue > LIKELY and claimed:
        yield (
            f"{plural(len(claimed), 'edge')} changed, and yet the global test sees no difference "
            f"(p = {test.pvalue:.2g}): chance may explain {'it' if len(claimed) == 1 else 'them'}"
        )
    beside = (*result.gain_list, *result.noise_list, *result.mean_list)
    if test is not None and test.pvalue <= LIKELY and not claimed and not beside:
        why = "moved ranges may be all" if result.edge_list else "it may be spread over many small changes"
        yield f"the global test sees a difference (p = {test.pvalue:.2g}), and no change was found: {why}"
    silent = [node for node in result.node_list if node.changed and (node.pvalue or 0.0) > LIKELY]
    if silent:
        shown = join_names([f"{node.variable} (p = {node.pvalue:.2g})" for node in silent])
        yield (
            f"listed as changed, and yet the test of each variable by itself sees nothing: {shown}; "
            "another order explains the data without"
        )
    off, it = [own.variable for own in result.switch_list], "it" if len(result.switch_list) == 1 else "them"
    if off and (claimed or beside):
        yield (
            f"{join_names(off)} var{'ies' if it == 'it' else 'y'} in one condition only, and what depends on "
            f"{it} has a cause in common there: changed noise, intercepts, and effects between such variables "
            f"may have no other reason; where no other variable acts on '{off[0]}', "
            f"{option_words('adjust', off[0])} takes that out"
        )
    if known is not None and not known.agrees:
        yield (
            f"extended BIC prefers {known.chosen:g} times the {known.axis}, at which other edges are found: "
            "trust those that both find"
        )


def opposite_arrows(results: Mapping[str, Difference]) -> list[str]:
    """Arrows between the same two variables that point one way in some results and the other way in others.

    Parameters
    ----------
    results : mapping of str to Difference
        Results of one study by what to call them, also loaded ones.

    Returns
    -------
    list of str
        A sentence for each such pair of variables.
    """
    ways: dict[frozenset[str], dict[str, list[str]]] = {}
    for title, result in results.items():
        for edge in result.edge_list:
            if edge.directed and not edge.by_range:
                found = ways.setdefault(frozenset((edge.source, edge.target)), {})
                found.setdefault(str(edge), []).append(title)
    return [
        "; ".join(f"{arrow} in {join_names(titles)}" for arrow, titles in found.items())
        + ": if causes are the same in all of them, one of the arrows is wrong"
        for found in ways.values()
        if len(found) > 1
    ]


def compare_remedy(result: Difference, again: Difference, name: str, value: str) -> Check:
    """What is left of the edges in a fit with an option that a failed check advises."""
    claimed = [edge for edge in result.edge_list if not edge.by_range]
    found = {frozenset((edge.source, edge.target)): edge for edge in again.edge_list}
    pair = {edge: frozenset((edge.source, edge.target)) for edge in claimed}
    gone = [str(edge) for edge in claimed if pair[edge] not in found]
    turned = [
        str(edge)
        for edge in claimed
        if edge.directed and pair[edge] in found and found[pair[edge]].key != edge.key
    ]
    known = {frozenset((edge.source, edge.target)) for edge in result.edge_list}
    new = [str(edge) for ends, edge in found.items() if ends not in known]
    parts = [
        f"{what} {join_names(edges)}"
        for what, edges in (("gone:", gone), ("direction differs:", turned), ("new:", new))
        if edges
    ]
    used = f"with {option_words(name, value)}, as a check advises,"
    if not parts:
        return Check("remedy", True, f"{used} the same edges are found")
    share = len(gone + turned) / max(len(claimed), 1)
    says = f"{used} the edges are not the same ({'; '.join(parts)}); trust what both fits find"
    return Check("remedy", False, says, share, 0.0, (*gone, *turned))
