"""A result in words, for a terminal of about 100 columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from diffdag._base.words import plural
from diffdag.report import format as fmt
from diffdag.report.words import (
    DEPENDENT,
    against,
    beside_lines,
    difference_words,
    edge_legend,
    effects_words,
    evidence_lines,
    gain_effects,
)
from diffdag.trust.contradictions import UNCLEAR, direction_open, hedged, marks

if TYPE_CHECKING:
    from diffdag.results.difference import Difference
    from diffdag.results.records import Edge

BY_RANGE = "Explained by a moved range, not counted:"
NOT_SURE = "Found, but not sure enough to be listed:"
RANKED = 5  # variables that are named, where only means were compared
SMALL = 1e-4  # p-value below which its size does not matter
LABEL_WIDTH = 14  # of a condition, where it heads a column
# Settings for programs; what controls found, and how many rows are effective, are in notes.
INTERNAL = {"margins", "unsettled", "tie", "search_order", "starts", "starts_at_optimum", "score"}
INTERNAL |= {"confidence_fits", "penalty_inflation", "controls", "effective_samples"}


def headline(
    result: Difference, arrows: tuple[str, str] = ("->", "--"), name: Callable[[str], str] = fmt.short_name
) -> str:
    """Say in one sentence how much changed, and what most.

    `arrows` join directed and undirected pairs; `name` says how a variable is written.
    """
    claimed = [edge for edge in result.edge_list if not edge.by_range]
    words, by_range = _claims(result, claimed, arrows, name), len(result.edge_list) - len(claimed)
    if by_range:
        more = "more " if claimed else ""
        words += f"; {by_range} {more}{'is' if by_range == 1 else 'are'} explained by a moved range"
    if result.left_out and claimed:
        words += f"; {len(result.left_out)} more found, not sure enough to be listed"
    dependent = any(own.name == "independent rows" and not own.passed for own in result.checks)
    if dependent and not words.startswith("No change"):
        words += f"; {DEPENDENT}"
    if not result.switch_list:
        return words
    off = [f"{name(own.variable)} {fmt.printable(own.words(result.labels))}" for own in result.switch_list]
    for start, after in (("No change", "no other change"), ("No effect", "no effect")):
        words = after + words.removeprefix(start) if words.startswith(start) else words
    return f"{_few(off, 2)}; {words}"


def _claims(
    result: Difference, claimed: Sequence[Edge], arrows: tuple[str, str], name: Callable[[str], str]
) -> str:
    """What changed, apart from what moved ranges explain."""
    if means_only(result):
        moved = [name(change.variable) for change in result.mean_list]
        ranked = [name(node.variable) for node in result.node_list[:1]]
        most = f"; most evidence: {ranked[0]}" if ranked else ""
        return f"Moved by itself: {_few(moved)}" if moved else f"No change found{most}"
    changed, possible = len(claimed), result.possible
    if not changed:
        return _nothing_listed(result, name)
    strongest = fmt.by_size(claimed)[0]
    words = f"{changed} of {possible} possible edges changed"
    by_gain = [(gain_effects(result, change), change) for change in result.gain_list]
    effects, gain = max(by_gain, key=lambda item: item[0], default=(0, None))
    if effects > 1 and gain is not None and gain.factor is not None:
        more = f", and {plural(len(by_gain) - 1, 'more gain')}" if len(by_gain) > 1 else ""
        return f"{words}; {name(gain.variable)}: {effects_words(result, gain)} x {gain.factor:.3g}{more}"
    if strongest.delta is None and changed > 1:
        return words
    lead, arrow = "; strongest: " if changed > 1 else ": ", arrows[direction_open(strongest)]
    what, doubts = fmt.kind_words(strongest.change or "changed"), []
    if direction_open(strongest):
        what, doubts = "", ["direction open"]
    elif strongest.support == "unclear":
        doubts = [UNCLEAR.short]
    elif hedged(strongest):
        doubts = [f"direction {fmt.percent(strongest.direction)}"]
    if strongest.confidence is not None:
        doubts.append(f"confidence {fmt.percent(strongest.confidence)}")
    ends = f"{name(strongest.source)} {arrow} {name(strongest.target)}"
    return words + lead + " ".join(filter(None, (ends, what, f"({', '.join(doubts)})" if doubts else "")))


def _nothing_listed(result: Difference, name: Callable[[str], str]) -> str:
    """What changed where no edge did, or none is sure enough."""
    kinds = {
        "gain": [own.variable for own in result.gain_list],
        "noise": [own.variable for own in result.noise_list],
        "intercept": [own.variable for own in result.mean_list],
    }
    moved = " and ".join(f"the {what} of {_few(list(map(name, own)))}" for what, own in kinds.items() if own)
    if result.left_out:
        found = f"{plural(len(result.left_out), 'changed effect')} found, not sure enough to be listed"
        return f"{found}; {moved} changed" if moved else found
    none = f"0 of {result.possible} possible edges changed"
    return f"No effect changed, but {moved} did: {none}" if moved else f"No change found: {none}"


def samples_line(result: Difference) -> str:
    """Say what was compared with what."""
    first, second = map(fmt.printable, result.labels)
    what = f"{len(result.variables)} variables, method {fmt.printable(result.method)}"
    if result.samples is None:
        return f"{first} against {second}, exact models, {what}"
    worth = "effective " * ("effective_samples" in result.settings)
    one, two = (f"{n:,} {worth}row{'s' * (n != 1)}" for n in result.samples)
    return f"{first} ({one}) against {second} ({two}), {what}"


def summary(result: Difference) -> str:
    """Return the whole result as text of about 100 columns."""
    parts = [headline(result) + "\n" + fmt.wrap(samples_line(result))]
    if result.edge_list or result.left_out:
        parts.append(edge_table(result))
    elif means_only(result):
        parts.append(fmt.wrap(ranking_line(result), "  "))
    else:
        first, second = map(fmt.printable, result.labels)
        parts.append(fmt.wrap(f"No edge between {first} and {second} stands out at these settings."))
    beside = [*beside_lines(result), *(f"{title}: {words}" for title, words in evidence_lines(result))]
    parts.append("\n".join(fmt.wrap(line, "  ") for line in beside))
    contrary = [fmt.wrap(fmt.printable(f"- {title}: {words}"), "  ") for title, words in against(result)]
    parts.append("\n".join(["What speaks against it", *contrary] if contrary else []))
    layers = [fmt.some(layer) for layer in result.order[: fmt.NAMES_SHOWN]]
    layers += [f"and {len(result.order) - fmt.NAMES_SHOWN} more layers"] * (len(result.order) > fmt.NAMES_SHOWN)
    lists = [
        ("Order, causes first: ", " | ".join(layers)),
        ("Unresolved (place in the order not identified): ", fmt.some(result.unresolved)),
        ("Invariant (take no part): ", fmt.some(result.invariant)),
        ("Screened out (not looked at in the search): ", fmt.some(result.screened_out)),
    ]
    parts.append("\n".join(fmt.wrap(title + names, "  ") for title, names in lists if names))
    parts.append("\n".join(fmt.wrap(f"Note: {fmt.printable(note)}", "  ") for note in result.notes))
    chosen = [f"{fmt.printable(key)} {fmt.setting(value)}" for key, value in shown_settings(result).items()]
    parts.append(fmt.wrap("Settings: " + ", ".join(chosen), "  ") if chosen else "")
    return "\n\n".join(part for part in parts if part)


def _few(names: Sequence[str], most: int = 3) -> str:
    """Up to three names, or so many, and how many more."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def means_only(result: Difference) -> bool:
    """Whether one condition had so few rows that only means were compared, and there can be no edges."""
    return result.method == "means"


def ranking_line(result: Difference) -> str:
    """The variables with most evidence, with their p-values and false-discovery rates."""
    shown = [
        f"{fmt.short_name(node.variable)} (p {_chance(node.pvalue)}, q {_chance(node.qvalue)})"
        for node in result.node_list[:RANKED]
    ]
    return f"Ranked by evidence: {', '.join(shown)}"


def _chance(value: float | None) -> str:
    return "unknown" if value is None else "< 0.0001" if value < SMALL else f"= {value:.2g}"


def edge_table(result: Difference) -> str:
    """Return the edges as an aligned table, largest change first, with what speaks against each below it."""
    edges = [*fmt.by_size(result.edge_list), *fmt.by_size(result.left_out)]
    show = fmt.edge_format(edges)
    columns: dict[str, Callable[[Edge], str]] = {
        "95 % interval": lambda edge: fmt.interval_text(edge, show),
        "confidence": lambda edge: fmt.percent(edge.confidence),
        "direction": lambda edge: fmt.percent(edge.direction) if edge.directed else "",
        "support": lambda edge: edge.support or "",
    }
    present = [cell for cell in columns.values() if any(map(cell, edges))]
    known = [head for head, cell in columns.items() if cell in present]
    rows = [["edge", "change", *short_labels(result), "delta", *known]]
    for edge in edges:
        ends = f"{fmt.short_name(edge.source)} {'->' if edge.directed else '--'} {fmt.short_name(edge.target)}"
        delta = fmt.with_error(edge.delta, edge.stderr, show)
        cells = [ends, fmt.change_words(edge), show(edge.weight_first), show(edge.weight_second), delta]
        rows.append(cells + [cell(edge) for cell in present])
    head, *body = fmt.aligned(rows, left=2).split("\n")
    lines = [head]
    unsure = {edge.key for edge in result.left_out}
    for edge, line in zip(edges, body, strict=True):
        for title, own in ((BY_RANGE, edge.by_range), (NOT_SURE, edge.key in unsure)):
            if own and title not in lines:
                lines.append(title)
        lines.append(line)
        if contrary := "; ".join(mark.short for mark in marks(result, edge)):
            lines.append(fmt.wrap(f"    but: {contrary}", "      "))
    return "\n".join([*lines, *(fmt.wrap(line, "  ") for line in _table_legend(result))])


def _table_legend(result: Difference) -> Iterator[str]:
    """Sentences below the table: what its words and numbers mean."""
    first, second = map(fmt.printable, result.labels)
    edges = (*result.edge_list, *result.left_out)
    if any(edge.delta is not None for edge in edges):
        largest = ", largest first in standard deviations" if len(edges) > 1 else ""
        yield f"change: from {first} to {second}; delta: {difference_words(result)}{largest}"
    yield from edge_legend(result)


def short_labels(result: Difference) -> tuple[str, str]:
    """The names of the conditions, short enough for the head of a column."""
    first, second = (fmt.cut(fmt.printable(label), LABEL_WIDTH) for label in result.labels)
    return first, second


def shown_settings(result: Difference) -> dict[str, object]:
    """The settings a person may want to see; result.json has all of them."""
    return {key: value for key, value in result.settings.items() if key not in INTERNAL and value != []}
