"""In words: what changed besides effects, how sure it is, and whether the assumptions hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from diffdag._base.words import plural
from diffdag.report.text import NumberFormat, percent, printable, with_error

if TYPE_CHECKING:
    from diffdag.results.records import MeanChange, NoiseChange
    from diffdag.results.result import DifferenceResult

LIKELY = 0.05  # p-values up to this speak against no change


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


def evidence_lines(result: DifferenceResult) -> Iterator[tuple[str, str]]:
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
            + (f"; {plural(found.failed, 'fit')} gave no answer" if found.failed else ""),
        )
    if result.sensitivity is not None:
        known = result.sensitivity
        best = "; extended BIC agrees" if known.agrees else f"; extended BIC prefers {known.chosen:g} times"
        yield f"Other {known.axis}", known.says + best
    if result.checks:
        fine = sum(check.fine for check in result.checks)
        yield "Checks", f"{fine} of {len(result.checks)} find nothing against the assumptions"


def _false_edges(result: DifferenceResult) -> Iterator[tuple[str, str]]:
    """What a target for the share of false edges did to the list."""
    fdr, before = result.settings.get("fdr"), result.settings.get("edges_before_fdr")
    if not isinstance(fdr, float) or before == 0:
        return
    kept, goal = len(result.edge_list), f"at most {100 * fdr:g} % are expected to be false"
    if not isinstance(before, int):
        yield "False edges", f"{plural(kept, 'edge')} kept so that {goal}"
    elif kept == before:
        yield "False edges", f"all edges found ({kept}) are kept: {goal}"
    else:
        yield "False edges", f"{kept} of {plural(before, 'edge')} kept so that {goal}"


def warnings_of(result: DifferenceResult) -> list[tuple[str, str]]:
    """Names and sentences of the checks that speak against an assumption."""
    return [(check.name, check.says) for check in result.checks if not check.fine]


@dataclass(frozen=True)
class Step:
    """Something to ask for next: why, and how on the command line and in Python."""

    why: str
    option: str
    argument: str


def next_steps(result: DifferenceResult) -> list[Step]:
    """What to ask for in order to know more certainly, of what has not been asked for yet."""
    if result.samples is None:
        return []
    steps = []
    if result.edge_list and all(edge.confidence is None for edge in result.edge_list):
        steps.append(Step("How sure each change is", "--confidence 200", "fit(..., confidence=200)"))
    if result.edge_list and all(edge.low is None for edge in result.edge_list):
        why = "Intervals from rows that had no part in the search"
        steps.append(Step(why, "--intervals split", 'fit(..., intervals="split")'))
    return steps
