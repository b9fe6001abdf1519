"""A result in words, for a terminal of about 100 columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from diffdag._base.words import plural
from diffdag.report import format as fmt
from diffdag.report.words import beside_lines, difference_words, evidence_lines, gain_effects, warnings_of

if TYPE_CHECKING:
    from diffdag.results.difference import Difference

LABEL_WIDTH = 14  # of a condition, where it heads a column
# Settings for programs.
INTERNAL = {
    "margins",
    "unsettled",
    "tie",
    "search_order",
    "starts",
    "starts_at_optimum",
    "score",
    "confidence_fits",
}


def headline(
    result: Difference, arrows: tuple[str, str] = ("->", "--"), name: Callable[[str], str] = fmt.short_name
) -> str:
    """Say in one sentence how much changed, and what most.

    `arrows` join directed and undirected pairs; `name` says how a variable is written.
    """
    changed, possible = len(result.edge_list), result.possible
    if not changed:
        noisy, shifted = ([c.variable for c in result.noise_list], [c.variable for c in result.mean_list])
        gained = [c.variable for c in result.gain_list]
        others = (("gain", gained), ("noise", noisy), ("mean", shifted))
        moved = [f"the {what} of {_few([name(one) for one in names])}" for what, names in others if names]
        if moved:
            return f"No effect changed, but {' and '.join(moved)} did: 0 of {possible} possible edges changed"
        return f"No change found: 0 of {possible} possible edges changed"
    strongest = fmt.by_size(result.edge_list)[0]
    words = f"{changed} of {possible} possible edges changed"
    by_gain = [(gain_effects(result, change), change) for change in result.gain_list]
    effects, gain = max(by_gain, key=lambda item: item[0], default=(0, None))
    if effects > 1 and gain is not None and gain.factor is not None:
        more = f", and {plural(len(by_gain) - 1, 'more gain')}" if len(by_gain) > 1 else ""
        return f"{words}; {name(gain.variable)}: all {effects} effects x {gain.factor:.3g}{more}"
    if strongest.delta is None:
        return words
    lead, arrow = "; strongest: " if changed > 1 else ": ", arrows[not strongest.directed]
    what = fmt.kind_words(strongest.change or "changed")
    return f"{words}{lead}{name(strongest.source)} {arrow} {name(strongest.target)} {what}"


def samples_line(result: Difference) -> str:
    """Say what was compared with what."""
    first, second = map(fmt.printable, result.labels)
    what = f"{len(result.variables)} variables, method {fmt.printable(result.method)}"
    if result.samples is None:
        return f"{first} against {second}, exact models, {what}"
    return f"{first} ({result.samples[0]:,} rows) against {second} ({result.samples[1]:,} rows), {what}"


def summary(result: Difference) -> str:
    """Return the whole result as text of about 100 columns."""
    parts = [headline(result) + "\n" + fmt.wrap(samples_line(result))]
    if result.edge_list:
        parts.append(edge_table(result))
    else:
        first, second = map(fmt.printable, result.labels)
        parts.append(fmt.wrap(f"No edge between {first} and {second} stands out at these settings."))
    beside = [*beside_lines(result), *(f"{title}: {words}" for title, words in evidence_lines(result))]
    beside += [
        f"Check of {fmt.printable(name)}: {fmt.printable(message)}" for name, message in warnings_of(result)
    ]
    parts.append("\n".join(fmt.wrap(line, "  ") for line in beside))
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


def _few(names: Sequence[str]) -> str:
    """Up to three names, and how many more."""
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def edge_table(result: Difference) -> str:
    """Return the edges as an aligned table, largest change first."""
    edges = fmt.by_size(result.edge_list)
    show = fmt.edge_format(edges)
    heads = ["edge", "change", *short_labels(result), "delta"]
    with_confidence = any(edge.confidence is not None for edge in edges)
    with_interval = any(edge.low is not None for edge in edges)
    rows = [heads + ["95 % interval"] * with_interval + ["confidence"] * with_confidence]
    for edge in edges:
        ends = f"{fmt.short_name(edge.source)} {'->' if edge.directed else '--'} {fmt.short_name(edge.target)}"
        delta = fmt.with_error(edge.delta, edge.stderr, show)
        cells = [ends, fmt.change_words(edge), show(edge.weight_first), show(edge.weight_second), delta]
        cells += [fmt.interval_text(edge, show)] * with_interval
        rows.append(cells + [fmt.percent(edge.confidence)] * with_confidence)
    sized = any(edge.delta is not None for edge in edges)
    return fmt.aligned(rows, left=2) + f"\ndelta: {difference_words(result)}" * sized


def short_labels(result: Difference) -> tuple[str, str]:
    """The names of the conditions, short enough for the head of a column."""
    first, second = (fmt.cut(fmt.printable(label), LABEL_WIDTH) for label in result.labels)
    return first, second


def shown_settings(result: Difference) -> dict[str, object]:
    """The settings a person may want to see; result.json has all of them."""
    return {key: value for key, value in result.settings.items() if key not in INTERNAL and value != []}
