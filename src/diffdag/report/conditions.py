"""A result for several conditions in words, for a terminal of about 100 columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from diffdag._base.words import plural
from diffdag.report.format import (
    WIDTH,
    NumberFormat,
    aligned,
    cut,
    delta_text,
    edge_format,
    kind_words,
    percent,
    printable,
    short_name,
    some,
    wrap,
)
from diffdag.report.words import beside_lines, evidence_lines

if TYPE_CHECKING:
    from diffdag.results.differences import Differences
    from diffdag.results.records import Edge


def headline(result: Differences) -> str:
    """Say in one sentence how much changed."""
    edges = result.by_edge
    where = f"some of {plural(len(result.pairs), 'comparison')}" if len(result.pairs) > 1 else "one comparison"
    if not edges:
        where = where.removeprefix("some of ")
        return f"No change found in {where}: 0 of {result.possible} possible edges changed"
    return f"{len(edges)} of {result.possible} possible edges changed in {where}"


def compared(result: Differences) -> str:
    """Say what was compared with what."""
    names = [printable(name) for name in result.conditions]
    what = f"{len(result.variables)} variables"
    if result.reference is None:
        return f"Each with each: {', '.join(names)}; {what}"
    others = ", ".join(
        name for name, own in zip(names, result.conditions, strict=True) if own != result.reference
    )
    return f"{printable(result.reference)} against {others}; {what}"


def summary(result: Differences) -> str:
    """Return the result as text: the matrix of changes, the order, and what to know."""
    parts = [headline(result) + "\n" + wrap(compared(result))]
    rows, heads = change_cells(result, ("->", "--"))
    if rows:
        titles = [cut(printable(head), 24) for head in heads]
        lines = [["edge", *titles]] + [[row["label"], *(cell["text"] for cell in row["cells"])] for row in rows]
        parts += _blocks(lines)
        parts.append(wrap(f"{delta_words(result)}; empty where no change was found.", ""))
    parts.append("\n".join(wrap(f"{printable(title)}: {words}", "  ") for title, words in beside(result)))
    if result.order:
        parts.append(
            wrap(
                "Order along which all were compared, causes first (not every step is settled by the data): "
                + some(result.order),
                "  ",
            )
        )
    notes = [*result.notes, *pair_notes(result)]
    parts.append("\n".join(wrap(f"Note: {printable(note)}", "  ") for note in notes))
    return "\n\n".join(part for part in parts if part)


def _blocks(lines: list[list[str]]) -> list[str]:
    """The table, cut into several that fit the width where it does not."""
    count = len(lines[0]) - 1
    while count > 1:
        starts = range(1, len(lines[0]), count)
        blocks = [aligned([[line[0], *line[k : k + count]] for line in lines], left=1) for k in starts]
        if all(len(line) <= WIDTH for block in blocks for line in block.split("\n")):
            return blocks
        count -= 1
    return [aligned([[line[0], line[k]] for line in lines], left=1) for k in range(1, len(lines[0]))]


def pair_notes(result: Differences) -> list[str]:
    """Notes of the comparisons, what several of them say said once; and which checks failed where."""
    notes: dict[str, list[str]] = {}
    failed: dict[str, list[str]] = {}
    for pair, one in result.pairs.items():
        for note in one.notes:
            if note in result.notes:
                continue
            notes.setdefault(note, []).append(result.titles[pair])
        for check in one.checks:
            if not check.passed:
                failed.setdefault(check.name, []).append(result.titles[pair])
    lines = [f"{_where(result, titles)}{note}" for note, titles in notes.items()]
    if failed:
        checks = "; ".join(f"{name} ({', '.join(titles)})" for name, titles in failed.items())
        lines.append(f"assumptions that look broken: {checks}. The report of each comparison says more")
    return lines


def _where(result: Differences, titles: list[str]) -> str:
    return "" if len(titles) == len(result.pairs) > 1 else f"{', '.join(titles)}: "


def beside(result: Differences) -> Iterator[tuple[str, str]]:
    """What changed besides effects in each comparison, and what the global test says."""
    for pair, one in result.pairs.items():
        tested = replace(one, stability=None, sensitivity=None, checks=())
        parts = [*beside_lines(one), *(f"{title}: {words}" for title, words in evidence_lines(tested))]
        if parts:
            yield result.titles[pair], ". ".join(parts)


def delta_words(result: Differences) -> str:
    """Say what is subtracted from what in the matrix of changes."""
    with_confidence = any(e.confidence is not None for row in result.by_edge.values() for e in row.values())
    extra = "with its standard error" + " and the confidence in the change" * with_confidence
    if result.reference is None:
        return f"Effect in the first condition minus effect in the second, {extra}"
    return f"Effect in {printable(result.reference)} minus effect in the other condition, {extra}"


def change_cells(result: Differences, arrows: tuple[str, str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of the matrix of changes, ready to be shown, and the heads of its columns."""
    edges = result.by_edge
    # As in the table of each comparison: a number reads the same wherever it stands.
    formats = {pair: edge_format(one.edge_list) for pair, one in result.pairs.items()}
    rows = []
    for (source, target, directed), row in edges.items():
        cells = [_cell(row.get(pair), show) for pair, show in formats.items()]
        arrow = arrows[0] if directed else arrows[1]
        label = f"{short_name(source)} {arrow} {short_name(target)}"
        rows.append({"source": source, "arrow": arrow, "target": target, "label": label, "cells": cells})
    return rows, list(result.titles.values())


def _cell(edge: Edge | None, show: NumberFormat) -> dict[str, str]:
    if edge is None:
        return {"text": "", "kind": "", "words": ""}
    sure = "" if edge.confidence is None else f", {percent(edge.confidence)}"
    words = kind_words(edge.kind)
    text = words if edge.delta is None else delta_text(edge, show)
    return {"text": text + sure, "kind": edge.kind, "words": words}
