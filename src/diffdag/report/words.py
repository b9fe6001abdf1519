"""Sentences about what changed, how sure it is, and whether the assumptions hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from diffdag._base.words import plural
from diffdag.report.format import NAME_WIDTH, NumberFormat, cut, percent, printable, with_error

if TYPE_CHECKING:
    from diffdag.results.difference import Difference
    from diffdag.results.records import Edge, MeanChange, NoiseChange

LIKELY = 0.05  # p-values up to this speak against no change


def edge_words(edge: Edge, labels: tuple[str, str], show: NumberFormat) -> str:
    """Say in one sentence what happened to an edge.

    >>> from diffdag.results.records import Edge
    >>> edge = Edge("Raf", "Mek", change="weakened", weight_first=0.9, weight_second=0.4, delta=0.5)
    >>> edge_words(edge, ("baseline", "u0126"), NumberFormat([0.9, 0.4, 0.5]))
    'Raf acts less strongly on Mek: 0.900 in baseline, 0.400 in u0126'
    """
    source, target = printable(edge.source), printable(edge.target)
    if not edge.directed:
        return f"Something changed between {source} and {target}; the data do not tell cause from effect"
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


def difference_words(result: Difference) -> str:
    """Say what is subtracted from what: an effect that was added has the opposite sign."""
    first, second = (cut(printable(label), NAME_WIDTH) for label in result.labels)
    return f"{first} minus {second}"


def beside_lines(result: Difference) -> Iterator[str]:
    """Sentences about what changed besides effects."""
    if result.noise_list:
        yield "Noise variance changed: " + "; ".join(map(noise_words, result.noise_list))
    if result.mean_list:
        moved = "; ".join(map(mean_words, result.mean_list))
        yield f"Intercept changed, {difference_words(result)}: {moved}"


def noise_words(change: NoiseChange) -> str:
    """One changed noise variance.

    >>> from diffdag.results.records import NoiseChange
    >>> noise_words(NoiseChange("Raf", 0.5, 0.2, 2.5, 1e-8, 0.97))
    'Raf (0.500 to 0.200, p < 0.001, confidence 97%)'
    """
    show = NumberFormat([change.variance_first, change.variance_second])
    sizes = f"{show(change.variance_first)} to {show(change.variance_second)}"
    return f"{printable(change.variable)} ({_joined(sizes, pvalue_words(change.pvalue), change.confidence)})"


def mean_words(change: MeanChange) -> str:
    """One changed intercept."""
    size = _intercept(change)
    return f"{printable(change.variable)} ({_joined(size, pvalue_words(change.pvalue), change.confidence)})"


def noise_cells(change: NoiseChange) -> dict[str, Any]:
    """One changed noise variance as cells of a table."""
    show = NumberFormat([change.variance_first, change.variance_second])
    ratio = "" if change.ratio is None else f"{change.ratio:.3g}"
    numbers = [show(change.variance_first), show(change.variance_second), ratio, _chance(change.pvalue)]
    return {"variable": change.variable, "numbers": numbers, "confidence": percent(change.confidence)}


def mean_cells(change: MeanChange) -> dict[str, Any]:
    """One changed intercept as cells of a table."""
    show = NumberFormat([change.mean_first, change.mean_second])
    means = [show(change.mean_first), show(change.mean_second)]
    numbers = [*means, _intercept(change), _chance(change.pvalue)]
    return {"variable": change.variable, "numbers": numbers, "confidence": percent(change.confidence)}


def _intercept(change: MeanChange) -> str:
    return with_error(change.delta, change.stderr, NumberFormat([change.delta]))


def _chance(pvalue: float | None) -> str:
    return pvalue_words(pvalue).removeprefix("p").removeprefix(" = ").strip()


def _joined(size: str, pvalue: str, confidence: float | None) -> str:
    sure = "" if confidence is None else f"confidence {percent(confidence)}"
    return ", ".join(part for part in (size, pvalue, sure) if part)


def pvalue_words(value: float | None) -> str:
    """A p-value, with as many digits as mean something."""
    if value is None:
        return ""
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def evidence_lines(result: Difference) -> Iterator[tuple[str, str]]:
    """Titles and sentences about what resamples and permutations say."""
    test, found = result.global_test, result.stability
    if test is not None:
        says = "the tables differ" if test.pvalue <= LIKELY else "no sign that anything changed"
        how = f"{pvalue_words(test.pvalue)}, {test.permutations} permutations of the rows"
        yield "Global test", f"{says} ({how})"
    yield from _false_edges(result)
    if found is not None:
        yield (
            "Resamples",
            f"{found.fits} bootstrap fits; {plural(len(found.stable), 'pair')} found in at least "
            f"{found.cutoff:.0%} of {2 * found.pairs} fits to halves of the rows"
            + (
                f", of which at most {found.expected_false:.2g} false are to be expected"
                if found.stable
                else ""
            )
            + (f"; {plural(found.failed, 'fit')} gave no result" if found.failed else ""),
        )
    if result.sensitivity is not None:
        known = result.sensitivity
        best = "; extended BIC agrees" if known.agrees else f"; extended BIC prefers {known.chosen:g} times"
        yield f"Other {known.axis}", known.message + best
    if result.checks:
        passed = sum(check.passed for check in result.checks)
        yield "Checks", f"{passed} of {len(result.checks)} find nothing against the assumptions"


def _false_edges(result: Difference) -> Iterator[tuple[str, str]]:
    """What a target for the share of false edges did to the list."""
    if result.selection is None or not result.selection.found:
        return
    fdr, before = result.selection.fdr, result.selection.found
    kept, goal = len(result.edge_list), f"at most {100 * fdr:g} % are expected to be false"
    if kept == before:
        yield "False edges", f"all edges found ({kept}) are kept: {goal}"
    else:
        yield "False edges", f"{kept} of {plural(before, 'edge')} kept so that {goal}"


def warnings_of(result: Difference) -> list[tuple[str, str]]:
    """Names and sentences of the checks that speak against an assumption."""
    return [(check.name, check.message) for check in result.checks if not check.passed]


@dataclass(frozen=True)
class Step:
    """Something to ask for next: why, and how on the command line and in Python."""

    why: str
    option: str
    argument: str


def next_steps(result: Difference) -> list[Step]:
    """What to ask for in order to know more certainly, of what has not been asked for yet."""
    if result.samples is None:
        return []
    steps = []
    if result.edge_list and all(edge.confidence is None for edge in result.edge_list):
        steps.append(Step("How sure each change is", "--resamples 200", "DifferenceDAG(resamples=200)"))
    if result.edge_list and all(edge.low is None for edge in result.edge_list):
        why = "Intervals from rows that had no part in the search"
        steps.append(Step(why, "--intervals split", 'DifferenceDAG(intervals="split")'))
    return steps
