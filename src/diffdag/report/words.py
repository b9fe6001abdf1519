"""Sentences about what changed, how sure it is, and whether the assumptions hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from diffdag._base.words import plural
from diffdag.report.format import NumberFormat, listed, percent, printable, short_name, some, with_error
from diffdag.results.nodes import LIKELY, either_of
from diffdag.trust.confidence import settled_words
from diffdag.trust.contradictions import contradictions, direction_open, hedged

if TYPE_CHECKING:
    from diffdag.results.difference import Difference
    from diffdag.results.records import Edge, GainChange, MeanChange, Node, NoiseChange, SwitchChange

CONFIDENCE = "confidence: probability that something changed between the two"
DIRECTION = "direction: that the arrow is right, if so"
DEPENDENT = "rows resemble those before them, and some of it may be chance"
WEAK = f". A q above {LIKELY} does not bear it out: it is about all of a variable, which is harder to see"
NODES_SHOWN = 40  # variables in the table of those that changed
SUPPORT = {
    "mechanism": "mechanism, the effect itself changed",
    "range": "range, a moved range explains it as well",
    "unclear": "unclear, ranges hardly overlap",
}


def edge_words(edge: Edge, labels: tuple[str, str], show: NumberFormat) -> str:
    """Say in one sentence what happened to an edge.

    >>> from diffdag.results.records import Edge
    >>> edge = Edge("Raf", "Mek", change="weakened", weight_first=0.9, weight_second=0.4, delta=0.5)
    >>> edge_words(edge, ("baseline", "u0126"), NumberFormat([0.9, 0.4, 0.5]))
    'Raf acts less strongly on Mek: 0.900 in baseline, 0.400 in u0126'
    """
    source, target = printable(edge.source), printable(edge.target)
    if direction_open(edge):
        between = f"Something changed between {source} and {target}; the data do not tell cause from effect"
        if not edge.directed:
            return between
        return f"{between}. If {source} is the cause: {_effect_words(edge, labels, show)}"
    words = _effect_words(edge, labels, show)
    return f"Probably: {words}" if hedged(edge) else words


def _effect_words(edge: Edge, labels: tuple[str, str], show: NumberFormat) -> str:
    """What happened to the effect of an edge, taken for what its arrow says."""
    source, target = printable(edge.source), printable(edge.target)
    first, second = map(printable, labels)
    here, there = (f" ({show(w)})" if w is not None else "" for w in (edge.weight_first, edge.weight_second))
    if edge.change == "added":
        return f"{source} acts on {target} in {second}{there}, but not visibly in {first}{here}"
    if edge.change == "removed":
        return f"{source} acts on {target} in {first}{here}, but not visibly in {second}{there}"
    said = {
        "strengthened": f"{source} acts more strongly on {target}",
        "weakened": f"{source} acts less strongly on {target}",
        "reversed-sign": f"The effect of {source} on {target} changes its sign",
    }.get(edge.change or "", f"The effect of {source} on {target} changed")
    if edge.weight_first is None or edge.weight_second is None:
        return said
    return f"{said}: {show(edge.weight_first)} in {first}, {show(edge.weight_second)} in {second}"


def stand_in_words(edge: Edge) -> str:
    """Name an edge, and the columns that may stand in for its source.

    >>> from diffdag.results.records import Edge
    >>> stand_in_words(Edge("Raf", "Mek", stand_ins=("PKC", "Jnk")))
    'Raf -> Mek (or PKC, Jnk in place of Raf)'
    """
    said = f"{printable(edge.source)} {'->' if edge.directed else '--'} {printable(edge.target)}"
    named = printable(edge.source) if edge.directed else "one of them"
    return f"{said} (or {some(edge.stand_ins)} in place of {named})" if edge.stand_ins else said


def edge_legend(result: Difference) -> Iterator[str]:
    """Sentences that say what the numbers beside the edges mean, as far as there are any."""
    edges = (*result.edge_list, *result.left_out)
    if any(edge.confidence is not None for edge in edges):
        known = any(edge.direction is not None for edge in edges)
        yield f"{CONFIDENCE}; {DIRECTION}" if known else CONFIDENCE
    present = {edge.support for edge in edges}
    if present != {None}:
        yield "support: " + "; ".join(words for name, words in SUPPORT.items() if name in present)


def difference_words(result: Difference) -> str:
    """Say what is subtracted from what: an effect that was added has the opposite sign."""
    first, second = map(short_name, result.labels)
    return f"{first} minus {second}"


def beside_lines(result: Difference) -> Iterator[str]:
    """Sentences about variables that changed, what else did, and which columns may stand in for others."""
    rows = [row for row in node_rows(result) if row["variable"] in result.changed_nodes]
    if rows:
        shown = [f"{short_name(row['variable'])} (q {_equals(row['qvalue'])})" for row in rows]
        weak = any(node.changed and (node.qvalue or 0.0) > LIKELY for node in result.node_list)
        yield f"Variables that changed themselves, most evidence first: {listed(shown)}{WEAK * weak}"
    if pairs := [f"{short_name(a)} or {short_name(b)}" for a, b in either_of(result)]:
        yield f"One of two changed, and it is open which: {listed(pairs)}"
    if likely := result.likely_nodes:
        shown = [f"{short_name(node.variable)} (q {_equals(_chance(node.qvalue))})" for node in likely]
        yield f"Of others something changed, and it cannot be told what: {listed(shown)}"
    if result.switch_list:
        said = "; ".join(switch_words(change, result.labels) for change in result.switch_list)
        yield f"Varies in one condition only: {said}"
    doubtful = [stand_in_words(edge) for edge in result.edge_list if edge.stand_ins]
    if doubtful:
        yield f"Columns too alike to tell apart: {'; '.join(doubtful)}"
    for gain in result.gain_list:
        yield gain_words(gain, effects_words(result, gain))
    if result.noise_list:
        yield "Noise variance changed: " + "; ".join(map(noise_words, result.noise_list))
    if result.mean_list:
        moved = "; ".join(map(mean_words, result.mean_list))
        yield f"Intercept changed, {difference_words(result)}: {moved}"


def switch_words(change: SwitchChange, labels: tuple[str, str]) -> str:
    """One variable that varies in one condition only.

    >>> from diffdag.results.records import SwitchChange
    >>> switch_words(SwitchChange("Mek", "second", 0.0, 2.5, 0.4), ("control", "knock-out"))
    'Mek (switched off in knock-out; 2.500 ± 0.400 in control)'
    """
    said = printable(change.words(labels))
    if change.mean is not None and change.spread is not None and not change.held:
        other = labels[1] if change.constant == "first" else labels[0]
        show = NumberFormat([change.spread])
        said += f"; {show(change.mean)} ± {show(change.spread)} in {printable(other)}"
    return f"{printable(change.variable)} ({said})"


def switch_cells(change: SwitchChange, labels: tuple[str, str]) -> dict[str, Any]:
    """One variable that varies in one condition only as cells of a table."""
    show = NumberFormat([change.spread])
    other = f"{show(change.mean)} ± {show(change.spread)}"
    held = f"'{change.held}'" if change.held else "" if change.value is None else f"{change.value:g}"
    numbers = [held, other] if change.constant == "first" else [other, held]
    chance = pvalue_words(change.pvalue).removeprefix("p").removeprefix(" = ").strip()
    return {"variable": change.variable, "said": change.words(labels), "numbers": [*numbers, chance]}


def gain_effects(result: Difference, change: GainChange) -> int:
    """How many effects a gain multiplies."""
    return sum(edge.gain_of == change.variable for edge in result.edge_list)


def effects_words(result: Difference, change: GainChange) -> str:
    """Which effects a gain multiplies; others on the variable may have changed besides."""
    effects = gain_effects(result, change)
    listed = sum(edge.directed and edge.target == change.variable for edge in result.edge_list)
    if listed > effects > 0:
        return f"{effects} of {listed} changed effects"
    return {0: "all effects", 1: "its one effect"}.get(effects, f"all {effects} effects")


def gain_words(change: GainChange, effects: str) -> str:
    """One changed gain.

    >>> from diffdag.results.records import GainChange
    >>> gain_words(GainChange("current", 4.687, 0.127, 1e-8), "all 3 effects")
    'current: all 3 effects x 4.69 ± 0.13 (p < 0.001)'
    """
    sure = "" if change.confidence is None else f"confidence {percent(change.confidence)}"
    beside = ", ".join(part for part in (pvalue_words(change.pvalue), sure) if part)
    said = f"{printable(change.variable)}: {effects} x {factor_words(change)}"
    return f"{said} ({beside})" if beside else said


def factor_words(change: GainChange) -> str:
    """A factor, with as many digits as its standard error allows."""
    if change.factor is None:
        return "an unknown factor"
    if not change.stderr:
        return f"{change.factor:.3g}"
    digits = min(max(1 - math.floor(math.log10(change.stderr)), 0), 4)
    return f"{change.factor:.{digits}f} ± {change.stderr:.{digits}f}"


def gain_cells(result: Difference, change: GainChange) -> dict[str, Any]:
    """One changed gain as cells of a table."""
    return _cells(change, str(gain_effects(result, change)), factor_words(change))


def noise_words(change: NoiseChange) -> str:
    """One changed noise variance.

    >>> from diffdag.results.records import NoiseChange
    >>> noise_words(NoiseChange("Raf", 0.5, 0.2, 2.5, 1e-8, 0.97))
    'Raf (0.500 to 0.200, p < 0.001, confidence 97%)'
    """
    show = NumberFormat([change.variance_first, change.variance_second])
    sizes = f"{show(change.variance_first)} to {show(change.variance_second)}"
    return _claim(change, sizes)


def mean_words(change: MeanChange) -> str:
    """One changed intercept."""
    return _claim(change, _intercept(change))


def noise_cells(change: NoiseChange) -> dict[str, Any]:
    """One changed noise variance as cells of a table."""
    show = NumberFormat([change.variance_first, change.variance_second])
    ratio = "" if change.ratio is None else f"{change.ratio:.3g}"
    return _cells(change, show(change.variance_first), show(change.variance_second), ratio)


def mean_cells(change: MeanChange) -> dict[str, Any]:
    """One changed intercept as cells of a table."""
    show = NumberFormat([change.mean_first, change.mean_second])
    return _cells(change, show(change.mean_first), show(change.mean_second), _intercept(change))


def _intercept(change: MeanChange) -> str:
    return with_error(change.delta, change.stderr, NumberFormat([change.delta]))


def _cells(change: GainChange | NoiseChange | MeanChange, *sizes: str) -> dict[str, Any]:
    chance = pvalue_words(change.pvalue).removeprefix("p").removeprefix(" = ").strip()
    return {"variable": change.variable, "numbers": [*sizes, chance], "confidence": percent(change.confidence)}


def _claim(change: NoiseChange | MeanChange, size: str) -> str:
    sure = "" if change.confidence is None else f"confidence {percent(change.confidence)}"
    words = ", ".join(part for part in (size, pvalue_words(change.pvalue), sure) if part)
    return f"{printable(change.variable)} ({words})"


def pvalue_words(value: float | None) -> str:
    """A p-value, with as many digits as mean something."""
    if value is None:
        return ""
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def node_rows(result: Difference) -> list[dict[str, str]]:
    """Variables that changed, or may have, as cells of a table, most evidence first; none without tests.

    Where the ranking is all there is, because one condition has few rows, others follow.
    """
    if not result.node_tests:
        return []
    ranked = result.method == "means"
    some = [node for node in result.node_list if ranked or node.changed or (node.qvalue or 1.0) <= LIKELY]
    return [
        {
            "variable": node.variable,
            "said": node_words(node),
            "pvalue": _chance(node.pvalue),
            "qvalue": _chance(node.qvalue),
            "confidence": percent(node.confidence),
        }
        for node in some[:NODES_SHOWN]
    ]


def node_words(node: Node) -> str:
    """What changed of a variable.

    >>> from diffdag.results.records import Node
    >>> node_words(Node("Mek", True, ("Raf", "PKA"), gain=0.5))
    'effects of Raf, PKA; gain'
    """
    said = [node.note] if node.note else []
    if node.effects:
        said.append(f"effect{'s' * (len(node.effects) > 1)} of {some(node.effects)}")
    said += [what for what in ("gain", "noise", "intercept") if getattr(node, what) is not None]
    if not said and (node.qvalue or 0.0) <= LIKELY:
        return "something: it cannot be told what"
    return "; ".join(said)


def _chance(value: float | None) -> str:
    """A probability in a table."""
    return "" if value is None else "< 0.001" if value < 0.001 else f"{value:.2g}"


def _equals(value: str) -> str:
    """A probability of a table in a sentence."""
    return value if value.startswith("<") else f"= {value}" if value else "unknown"


def evidence_lines(result: Difference) -> Iterator[tuple[str, str]]:
    """Titles and sentences about what resamples and permutations say."""
    test, found = result.global_test, result.stability
    if test is not None:
        says = "the tables differ" if test.pvalue <= LIKELY else "no sign that anything changed"
        if test.least is not None and test.least > LIKELY:
            says = f"cannot tell, as so few units allow no p-value below {test.least:.2g}"
        of = "the rows" if test.least is None else "what rows are nested in"
        how = f"{pvalue_words(test.pvalue)}, {test.permutations} permutations of {of}"
        yield "Global test", f"{says} ({how})"
    if result.selection is not None and result.selection.found:
        kept, before = len(result.edge_list), result.selection.found
        which = (
            f"all edges found ({kept}) are kept:"
            if kept == before
            else f"{kept} of {plural(before, 'edge')} kept so that"
        )
        yield "False edges", f"{which} at most {100 * result.selection.fdr:g} % are expected to be false"
    if found is not None:
        words = f"{found.fits} bootstrap fits"
        if found.varied:
            words += f" and {found.varied} with a varied specification"
        if found.asked:
            words += f", {settled_words(found)}"
        words += f"; {plural(len(found.stable), 'pair')} found in at least "
        words += f"{found.cutoff:.0%} of {2 * found.pairs} fits to halves of the rows"
        if found.stable:
            words += f", of which at most {found.expected_false:.2g} false are to be expected"
        if found.failed:
            words += f"; {plural(found.failed, 'fit')} gave no result"
        yield "Resamples", words
    if result.sensitivity is not None:
        known = result.sensitivity
        yield f"Other {known.axis}", known.message + ("; extended BIC agrees" if known.agrees else "")
    if result.checks:
        passed = sum(check.passed for check in result.checks)
        yield "Checks", f"{passed} of {len(result.checks)} find nothing against the assumptions"


def warnings_of(result: Difference) -> list[tuple[str, str]]:
    """Names and sentences of the checks that speak against an assumption."""
    return [(check.name, check.message) for check in result.checks if not check.passed]


def against(result: Difference) -> Iterator[tuple[str, str]]:
    """What speaks against the result as a whole, title and sentence: contradictions, then failed checks."""
    yield from (("contradiction", words) for words in contradictions(result))
    yield from ((f"check of {name}", message) for name, message in warnings_of(result))


def next_steps(result: Difference) -> list[tuple[str, str, str]]:
    """What to ask for to know more certainly: why, and how on the command line and in Python."""
    if result.samples is None:
        return []
    steps = []
    if result.edge_list and all(edge.confidence is None for edge in result.edge_list):
        steps.append(("How sure each change is", "--resamples 200", "DifferenceDAG(resamples=200)"))
    if result.edge_list and not result.unit_effects and all(edge.low is None for edge in result.edge_list):
        why = "Intervals from rows that had no part in the search"
        steps.append((why, "--intervals split", 'DifferenceDAG(intervals="split")'))
    return steps
