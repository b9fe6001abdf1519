"""A result for several conditions in words, for a terminal of about 100 columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from diffdag._base.words import plural
from diffdag.report import format as fmt
from diffdag.report.layout.picture import line_kind
from diffdag.report.words import DEPENDENT, beside_lines, evidence_lines, warnings_of
from diffdag.trust.contradictions import contradictions, opposite_arrows

if TYPE_CHECKING:
    from diffdag.results.differences import Differences
    from diffdag.results.records import Edge


def headline(result: Differences) -> str:
    """Say in one sentence how much changed."""
    several = len(result.pairs) > 1
    edges = [row for row in result.by_edge if not all(edge.by_range for edge in row.values())]
    where = plural(len(result.pairs), "comparison") if several else "one comparison"
    moved = any(one.changed_nodes for one in result.pairs.values())
    words = f"{len(edges)} of {result.possible} possible edges changed in {'some of ' * several}{where}"
    if not edges:
        none = "No effect changed, but variables did," if moved else "No change found"
        words = f"{none} in {where}: 0 of {result.possible} possible edges changed"
    failed = {name for one in result.pairs.values() for name, _ in warnings_of(one)}
    if "independent rows" in failed and (edges or moved):
        words += f"; {DEPENDENT}"
    return words


def compared(result: Differences) -> str:
    """Say what was compared with what."""
    others = ", ".join(fmt.printable(name) for name in result.conditions if name != result.reference)
    lead = "Each with each:" if result.reference is None else f"{fmt.printable(result.reference)} against"
    return f"{lead} {others}; {len(result.variables)} variables"


def summary(result: Differences) -> str:
    """Return the result as text of about 100 columns: matrix of changes, order, and what to know."""
    parts = [headline(result) + "\n" + fmt.wrap(compared(result))]
    rows, heads = change_cells(result, ("->", "--"))
    if rows:
        lines = [["edge", *(fmt.cut(fmt.printable(head), 24) for head in heads)]]
        for row in rows:
            label = f"{fmt.short_name(row['source'])} {row['arrow']} {fmt.short_name(row['target'])}"
            lines.append([label, *(cell["text"] for cell in row["cells"])])
        parts += _blocks(lines)
        parts.append(fmt.wrap(f"{delta_words(result)}; empty where there is no changed effect.", ""))
    parts.append(
        "\n".join(fmt.wrap(f"{fmt.printable(title)}: {words}", "  ") for title, words in beside(result))
    )
    if result.order:
        lead = "Order along which all were compared, causes first (not every step is settled by the data): "
        parts.append(fmt.wrap(lead + fmt.some(result.order), "  "))
    notes = [*result.notes, *pair_notes(result)]
    contrary = [fmt.wrap(fmt.printable(f"- {words}"), "  ") for words in against(result)]
    parts.append("\n".join(["What speaks against it", *contrary] if contrary else []))
    parts.append("\n".join(fmt.wrap(f"Note: {fmt.printable(note)}", "  ") for note in notes))
    return "\n\n".join(part for part in parts if part)


def _blocks(lines: list[list[str]]) -> list[str]:
    """The table, cut into several that fit the width where it does not."""
    blocks: list[str] = []
    for count in range(len(lines[0]) - 1, 0, -1):
        starts = range(1, len(lines[0]), count)
        blocks = [fmt.aligned([[line[0], *line[k : k + count]] for line in lines], left=1) for k in starts]
        if all(len(line) <= fmt.WIDTH for block in blocks for line in block.split("\n")):
            break
    return blocks


def against(result: Differences) -> list[str]:
    """Arrows that differ between comparisons, and what contradicts itself within one."""
    named = dict(zip(result.titles.values(), result.pairs.values(), strict=True))
    within = [f"{title}: {words}" for title, one in named.items() for words in contradictions(one)]
    return [*opposite_arrows(named), *within]


def pair_notes(result: Differences) -> list[str]:
    """Notes of the comparisons, what several of them say said once; and which checks failed where."""
    notes: dict[str, list[str]] = {}
    failed: dict[str, list[str]] = {}
    for title, one in zip(result.titles.values(), result.pairs.values(), strict=True):
        for note in one.notes:
            notes.setdefault(note, []).append(title)
        for name, _ in warnings_of(one):
            failed.setdefault(name, []).append(title)
    everywhere = len(result.pairs) if len(result.pairs) > 1 else 0
    lines = [
        note if len(titles) == everywhere else f"{', '.join(titles)}: {note}"
        for note, titles in notes.items()
        if note not in result.notes
    ]
    if failed:
        checks = "; ".join(f"{name} ({', '.join(titles)})" for name, titles in failed.items())
        lines.append(f"assumptions that look broken: {checks}. The report of each comparison says more")
    return lines


def beside(result: Differences) -> Iterator[tuple[str, str]]:
    """What changed besides effects in each comparison, and what the global test says."""
    for pair, one in result.pairs.items():
        tested = replace(one, stability=None, sensitivity=None, checks=())
        parts = [*beside_lines(one), *(f"{title}: {words}" for title, words in evidence_lines(tested))]
        if parts:
            yield result.titles[pair], ". ".join(parts)


def delta_words(result: Differences) -> str:
    """Say what is subtracted from what in the matrix of changes."""
    edges = [edge for row in result.by_edge for edge in row.values()]
    extra = "with its standard error"
    extra += " and the confidence in the change" * any(edge.confidence is not None for edge in edges)
    extra += " and in its direction" * any(edge.direction is not None for edge in edges)
    ends = ("the first condition", "the second")
    if result.reference is not None:
        ends = (fmt.printable(result.reference), "the other condition")
    return f"Effect in {ends[0]} minus effect in {ends[1]}, {extra}"


def change_cells(result: Differences, arrows: tuple[str, str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of the matrix of changes, ready to be shown, and the heads of its columns."""
    # As in the table of each comparison: a number reads the same wherever it stands.
    formats = {pair: fmt.edge_format(one.edge_list) for pair, one in result.pairs.items()}
    rows = []
    for row in result.by_edge:
        source, target, directed = next(iter(row.values())).key
        cells = [_cell(row.get(pair), show) for pair, show in formats.items()]
        rows.append({"source": source, "arrow": arrows[not directed], "target": target, "cells": cells})
    return rows, list(result.titles.values())


def _cell(edge: Edge | None, show: fmt.NumberFormat) -> dict[str, str]:
    if edge is None:
        return {"text": "", "kind": "", "words": ""}
    words = fmt.change_words(edge)
    text = words if edge.delta is None else fmt.with_error(edge.delta, edge.stderr, show)
    both = map(fmt.percent, (edge.confidence, edge.direction if edge.directed else None))
    sure = "".join(f", {share}" for share in both if share)
    by_range = ", range" if edge.by_range else ""
    return {"text": text + sure + by_range, "kind": line_kind(edge), "words": words}
