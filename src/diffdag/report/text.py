"""A result in words, for a terminal of about 100 columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from diffdag.report.format import (
    NAMES_SHOWN,
    aligned,
    by_size,
    cut,
    edge_format,
    interval_text,
    kind_words,
    percent,
    printable,
    setting,
    short_name,
    some,
    with_error,
    wrap,
)
from diffdag.report.words import beside_lines, difference_words, evidence_lines, warnings_of

if TYPE_CHECKING:
    from diffdag.results.difference import Difference

LABEL_WIDTH = 14  # of a condition, where it heads a column
# Settings for programs.
INTERNAL = {"margins", "tie", "search_order", "starts", "starts_at_optimum", "score", "confidence_fits"}


def headline(
    result: Difference, arrows: tuple[str, str] = ("->", "--"), name: Callable[[str], str] = short_name
) -> str:
    """Say in one sentence how much changed, and what most.

    `arrows` join directed and undirected pairs; `name` says how a variable is written.
    """
    changed, possible = len(result.edge_list), result.possible
    if not changed:
        noisy, shifted = ([c.variable for c in result.noise_list], [c.variable for c in result.mean_list])
        others = (("noise", noisy), ("mean", shifted))
        moved = [f"the {what} of {_few([name(one) for one in names])}" for what, names in others if names]
        if moved:
            return f"No effect changed, but {' and '.join(moved)} did: 0 of {possible} possible edges changed"
        return f"No change found: 0 of {possible} possible edges changed"
    strongest = by_size(result.edge_list)[0]
    words = f"{changed} of {possible} possible edges changed"
    if strongest.delta is None:
        return words
    lead, arrow = "; strongest: " if changed > 1 else ": ", arrows[not strongest.directed]
    what = kind_words(strongest.change or "changed")
    return f"{words}{lead}{name(strongest.source)} {arrow} {name(strongest.target)} {what}"


def samples_line(result: Difference) -> str:
    """Say what was compared with what."""
    first, second = map(printable, result.labels)
    what = f"{len(result.variables)} variables, method {printable(result.method)}"
    if result.samples is None:
        return f"{first} against {second}, exact models, {what}"
    return f"{first} ({result.samples[0]:,} rows) against {second} ({result.samples[1]:,} rows), {what}"


def summary(result: Difference) -> str:
    """Return the whole result as text of about 100 columns."""
    parts = [headline(result) + "\n" + wrap(samples_line(result))]
    if result.edge_list:
        parts.append(edge_table(result))
    else:
        first, second = map(printable, result.labels)
        parts.append(wrap(f"No edge between {first} and {second} stands out at these settings."))
    beside = [*beside_lines(result), *(f"{title}: {words}" for title, words in evidence_lines(result))]
    beside += [f"Check of {printable(name)}: {printable(message)}" for name, message in warnings_of(result)]
    parts.append("\n".join(wrap(line, "  ") for line in beside))
    layers = [some(layer) for layer in result.order[:NAMES_SHOWN]]
    layers += [f"and {len(result.order) - NAMES_SHOWN} more layers"] * (len(result.order) > NAMES_SHOWN)
    lists = [
        ("Order, causes first: ", " | ".join(layers)),
        ("Unresolved (place in the order not identified): ", some(result.unresolved)),
        ("Invariant (take no part): ", some(result.invariant)),
        ("Screened out (not looked at in the search): ", some(result.screened_out)),
    ]
    parts.append("\n".join(wrap(title + names, "  ") for title, names in lists if names))
    parts.append("\n".join(wrap(f"Note: {printable(note)}", "  ") for note in result.notes))
    chosen = [f"{printable(key)} {setting(value)}" for key, value in shown_settings(result).items()]
    parts.append(wrap("Settings: " + ", ".join(chosen), "  ") if chosen else "")
    return "\n\n".join(part for part in parts if part)


def _few(names: Sequence[str]) -> str:
    """Up to three names, and how many more."""
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def edge_table(result: Difference) -> str:
    """Return the edges as an aligned table, largest change first."""
    edges = by_size(result.edge_list)
    show = edge_format(edges)
    heads = ["edge", "change", *short_labels(result), "delta"]
    with_confidence = any(edge.confidence is not None for edge in edges)
    with_interval = any(edge.low is not None for edge in edges)
    rows = [heads + ["95 % interval"] * with_interval + ["confidence"] * with_confidence]
    for edge in edges:
        arrow = "->" if edge.directed else "--"
        cells = [f"{short_name(edge.source)} {arrow} {short_name(edge.target)}", kind_words(edge.kind)]
        cells += [show(edge.weight_first), show(edge.weight_second), with_error(edge.delta, edge.stderr, show)]
        cells += [interval_text(edge, show)] * with_interval
        rows.append(cells + [percent(edge.confidence)] * with_confidence)
    sized = any(edge.delta is not None for edge in edges)
    return aligned(rows, left=2) + f"\ndelta: {difference_words(result)}" * sized


def short_labels(result: Difference) -> tuple[str, str]:
    """The names of the conditions, short enough for the head of a column."""
    first, second = (cut(printable(label), LABEL_WIDTH) for label in result.labels)
    return first, second


def shown_settings(result: Difference) -> dict[str, object]:
    """The settings a person may want to see; result.json has all of them."""
    return {key: value for key, value in result.settings.items() if key not in INTERNAL and value != []}
