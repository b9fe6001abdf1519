"""Several comparisons as text, JSON (both ways), CSV, SVG and a page."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from diffdag._base.errors import InputError
from diffdag._base.words import plural
from diffdag.report.html.comparison import ARROWS, comparison_context, picture_words
from diffdag.report.html.page import _environment, figure_svg, fragment_style, page_frame
from diffdag.report.html.websvg import draw
from diffdag.report.layout.picture import Picture
from diffdag.report.plots.panels import all_changes, plot_conditions
from diffdag.report.text import (
    WIDTH,
    NumberFormat,
    _aligned,
    _cut,
    _some,
    _wrap,
    by_size,
    delta_text,
    difference_words,
    edge_format,
    kind_words,
    percent,
    printable,
    samples_line,
    short_name,
)
from diffdag.report.words import evidence_lines, mean_words, noise_words
from diffdag.results import json as exchange
from diffdag.results.conditions_result import ConditionsResult
from diffdag.results.records import Edge

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 1
MOST_SCATTERS = 100  # in one page


def headline(result: ConditionsResult) -> str:
    """Say in one sentence how much changed."""
    edges = result.by_edge
    where = f"some of {plural(len(result.pairs), 'comparison')}" if len(result.pairs) > 1 else "one comparison"
    possible = next(iter(result.pairs.values())).possible
    if not edges:
        return f"No change found in {where.removeprefix('some of ')}: 0 of {possible} possible edges changed"
    return f"{len(edges)} of {possible} possible edges changed in {where}"


def compared(result: ConditionsResult) -> str:
    """Say what was compared with what."""
    names = [printable(name) for name in result.conditions]
    what = f"{len(result.variables)} variables"
    if result.reference is None:
        return f"Each with each: {', '.join(names)}; {what}"
    others = ", ".join(
        name for name, own in zip(names, result.conditions, strict=True) if own != result.reference
    )
    return f"{printable(result.reference)} against {others}; {what}"


def summary(result: ConditionsResult) -> str:
    """The answer as text: the matrix of changes, the order, and what to know."""
    parts = [headline(result) + "\n" + _wrap(compared(result))]
    rows, heads = _cells(result, ("->", "--"))
    if rows:
        titles = [_cut(printable(head), 24) for head in heads]
        lines = [["edge", *titles]] + [[row["label"], *(cell["text"] for cell in row["cells"])] for row in rows]
        parts += _blocks(lines)
        parts.append(_wrap(f"{_delta_words(result)}; empty where no change was found.", ""))
    parts.append("\n".join(_wrap(f"{printable(title)}: {words}", "  ") for title, words in _beside(result)))
    if result.order:
        parts.append(
            _wrap(
                "Order along which all were compared, causes first (not every step is settled by the data): "
                + _some(result.order),
                "  ",
            )
        )
    notes = [*result.notes, *_pair_notes(result)]
    parts.append("\n".join(_wrap(f"Note: {printable(note)}", "  ") for note in notes))
    return "\n\n".join(part for part in parts if part)


def _blocks(lines: list[list[str]]) -> list[str]:
    """The table, cut into several that fit the width where it does not."""
    count = len(lines[0]) - 1
    while count > 1:
        starts = range(1, len(lines[0]), count)
        blocks = [_aligned([[line[0], *line[k : k + count]] for line in lines], left=1) for k in starts]
        if all(len(line) <= WIDTH for block in blocks for line in block.split("\n")):
            return blocks
        count -= 1
    return [_aligned([[line[0], line[k]] for line in lines], left=1) for k in range(1, len(lines[0]))]


def _pair_notes(result: ConditionsResult) -> list[str]:
    """Notes of the comparisons, what several of them say said once; and which checks failed where."""
    notes: dict[str, list[str]] = {}
    failed: dict[str, list[str]] = {}
    for pair, one in result.pairs.items():
        for note in one.notes:
            if note in result.notes:
                continue
            notes.setdefault(note, []).append(result.titles[pair])
        for check in one.checks:
            if not check.fine:
                failed.setdefault(check.name, []).append(result.titles[pair])
    lines = [f"{_where(result, titles)}{note}" for note, titles in notes.items()]
    if failed:
        checks = "; ".join(f"{name} ({', '.join(titles)})" for name, titles in failed.items())
        lines.append(f"assumptions that look broken: {checks}. The report of each comparison says more")
    return lines


def _where(result: ConditionsResult, titles: list[str]) -> str:
    return "" if len(titles) == len(result.pairs) > 1 else f"{', '.join(titles)}: "


def _beside(result: ConditionsResult) -> Iterator[tuple[str, str]]:
    """What changed besides effects in each comparison, and what the global test says."""
    for pair, one in result.pairs.items():
        parts = []
        if one.noise_list:
            parts.append("noise variance changed: " + "; ".join(map(noise_words, one.noise_list)))
        if one.mean_list:
            moved = "; ".join(map(mean_words, one.mean_list))
            parts.append(f"intercept changed, {difference_words(one)}: {moved}")
        tested = replace(one, stability=None, sensitivity=None, checks=())
        parts += [f"{title}: {words}" for title, words in evidence_lines(tested)]
        if parts:
            yield result.titles[pair], ". ".join(part[0].upper() + part[1:] for part in parts)


def _delta_words(result: ConditionsResult) -> str:
    with_confidence = any(e.confidence is not None for row in result.by_edge.values() for e in row.values())
    extra = "with its standard error" + " and the confidence in the change" * with_confidence
    if result.reference is None:
        return f"Effect in the first condition minus effect in the second, {extra}"
    return f"Effect in {printable(result.reference)} minus effect in the other condition, {extra}"


def _cells(result: ConditionsResult, arrows: tuple[str, str]) -> tuple[list[dict[str, Any]], list[str]]:
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


def to_json(result: ConditionsResult) -> str:
    """The answer as JSON, one comparison after the other as `exchange.to_json` writes them."""
    heads = {
        "schema": SCHEMA,
        "diffdag": version("diffdag"),
        "conditions": result.conditions,
        "reference": result.reference,
        "order": result.order,
        "notes": result.notes,
    }
    lines = [f"{_dump(key)}: {_dump(value)}" for key, value in heads.items()]
    pairs = ",\n".join(
        f'{{"first": {_dump(first)}, "second": {_dump(second)}, "result":\n{exchange.to_json(one).rstrip()}}}'
        for (first, second), one in result.pairs.items()
    )
    return "{" + ",\n ".join([*lines, f'"comparisons": [\n{pairs}]']) + "}\n"


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def from_json(text: str | bytes, name: str) -> ConditionsResult:
    """Check and read what `to_json` wrote; `name` says in messages where the text came from."""
    reader = exchange._Reader(name)
    content = reader.parse(text)
    if "comparisons" not in content:
        reader.fail("holds no comparisons", "give a conditions.json; read a result.json with load_result")
    pairs = {}
    for item in reader.get(content, "comparisons", list):
        if not isinstance(item, dict):
            reader.fail("a comparison is not an object")
        pair = reader.get(item, "first", str), reader.get(item, "second", str)
        pairs[pair] = exchange.from_json(json.dumps(reader.get(item, "result", dict)), name)
    try:
        return ConditionsResult(
            conditions=reader.names(content, "conditions"),
            reference=reader.get(content, "reference", (str, type(None))),
            pairs=pairs,
            order=reader.names(content, "order"),
            notes=reader.names(content, "notes"),
        )
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"result file {name!r}: {error}; save the result again") from None


def render_files(result: ConditionsResult) -> dict[str, str]:
    """Everything that is about all comparisons, by the name of its file."""
    return {
        "conditions.json": to_json(result),
        "changes.csv": _csv(result, result.edges, index=False),
        "matrix.csv": _csv(result, result.matrix, index=True),
        "picture.svg": render_svg(result),
        "report.html": render_page(result),
    }


def _csv(result: ConditionsResult, table: pd.DataFrame, *, index: bool) -> str:
    """A table as CSV; unknown numbers are empty."""
    # The csv module leaves a lone carriage return unquoted, and readers take it for the end of a line.
    returns = any("\r" in name for name in (*result.variables, *result.conditions))
    quoting: Any = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
    label = "edge" if index else None
    return table.to_csv(index=index, index_label=label, lineterminator="\n", quoting=quoting)


def render_svg(result: ConditionsResult) -> str:
    """The picture as SVG, with names as text, the same for the same result."""
    return figure_svg(plot_conditions(result))


def render_page(result: ConditionsResult) -> str:
    """The report as a complete HTML page."""
    return _environment().get_template("conditions.html.j2").render(_context(result))


def render_fragment(result: ConditionsResult) -> str:
    """Headline and pictures as a piece of HTML without a script, for notebooks."""
    context = {"headline": headline(result), "style": fragment_style(), "panels": _panels(result)}
    return _environment().get_template("panels.html.j2").render(context)


def _panels(result: ConditionsResult) -> list[dict[str, Any]]:
    """The picture of each comparison, every variable at the same place in all."""
    whole = Picture(all_changes(result))
    return [
        {
            "first": first,
            "second": second,
            "changes": plural(len(one.edge_list), "change") if one.edge_list else "no change found",
            "picture": draw(whole, picture_words(one), by_size(one.edge_list), one.unresolved).svg,
        }
        for (first, second), one in result.pairs.items()
    ]


def _explorers(result: ConditionsResult) -> list[dict[str, Any]]:
    """Each comparison as the page of a single one shows it."""
    whole, folders = Picture(all_changes(result)), result.folders()
    template = _environment().get_template("explorer.html.j2")
    share = MOST_SCATTERS // len(result.pairs)
    shown = []
    for number, (pair, one) in enumerate(result.pairs.items(), start=1):
        context = comparison_context(one, picture=whole, scatters=one.scatters[:share])
        body = template.render(context | {"id": f"pair-{number}"})
        shown.append(
            {
                "id": f"pair-{number}",
                "title": result.titles[pair],
                "words": samples_line(one),
                "folder": folders[pair],
                "some": bool(one.edge_list),
                "body": Markup(body),  # noqa: S704 - escaped by the template
            }
        )
    return shown


def _context(result: ConditionsResult) -> dict[str, Any]:
    rows, heads = _cells(result, ARROWS)
    share = MOST_SCATTERS // len(result.pairs)
    scatters = [found for one in result.pairs.values() for found in one.scatters[:share]]
    return page_frame(scatters) | {
        "headline": headline(result),
        "compared": compared(result),
        "panels": _panels(result),
        "explorers": _explorers(result),
        "rows": rows,
        "heads": heads,
        "delta_words": _delta_words(result),
        "beside": list(_beside(result)),
        "order": result.order,
        "notes": [*result.notes, *_pair_notes(result)],
    }
