"""One comparison as a page shows it: picture, legend, table of edges, and the same as data for the script."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from diffdag.report import format as fmt
from diffdag.report.html.websvg import Drawing, draw, swatch
from diffdag.report.layout.picture import Picture, changes_words, line_kind, line_words
from diffdag.report.layout.theme import DASHES
from diffdag.report.text import short_labels
from diffdag.report.words import (
    difference_words,
    edge_legend,
    edge_words,
    effects_words,
    gain_words,
    mean_words,
    noise_words,
)
from diffdag.results.records import Edge
from diffdag.trust.contradictions import hedged, marks

if TYPE_CHECKING:
    from diffdag.results.difference import Difference
    from diffdag.results.records import EdgeScatter

COLUMNS = [field.name for field in fields(Edge)]  # of edges.csv
JUDGED = ("interval", "confidence", "direction", "support")  # shown if some edge has them
ARROWS = ("→", "—")  # of directed and undirected edges
WIDE = 1300.0  # points; a picture that needs all the width of a page
# What ends a script element, or what old engines take for the end of a line.
UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def as_json(value: object) -> Markup:
    r"""JSON that may stand inside a script element.

    >>> as_json({"name": "</script>"})
    Markup('{"name":"\\u003c/script\\u003e"}')
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.translate(UNSAFE))  # noqa: S704 - nothing is left in it that could be markup


def comparison_context(
    result: Difference, *, picture: Picture | None = None, scatters: Sequence[EdgeScatter] | None = None
) -> dict[str, Any]:
    """Everything that the template of one comparison needs.

    Several comparisons can share a picture, and so the places of variables; `scatters` may be fewer than all.
    """
    edges = fmt.by_size(result.edge_list)
    places = picture if picture is not None else Picture(result)
    drawing = draw(places, result, shared=picture is not None)
    rows = edge_rows(result, result.edge_list)
    shown = result.scatters if scatters is None else scatters
    kinds = [kind for kind in DASHES if any(line_kind(edge) == kind for edge in edges)]
    return {
        "labels": result.labels,
        "short_labels": short_labels(result),
        "rows": rows,
        "unsure": edge_rows(result, result.left_out),
        "picture": drawing.svg,
        "wide": drawing.width > WIDE,
        "caption": _caption(result, places, len(edges)),
        "kinds": [
            (kind, swatch(kind), line_words(kind), sum(line_kind(edge) == kind for edge in edges))
            for kind in kinds
        ],
        "hollow": swatch("changed", hollow=True) if any(map(hedged, edges)) else None,
        "some_changed": bool(places.own),
        "some_unresolved": bool(result.unresolved),
        "with_size": len({edge.magnitude for edge in edges if edge.magnitude is not None}) > 1,
        "standardised": any(edge.size is not None for edge in edges),
        **{f"with_{name}": any(row[name] for row in rows) for name in JUDGED},
        "meaning": ". ".join(words[:1].upper() + words[1:] for words in edge_legend(result)),
        "with_scatters": bool(shown),
        "data": as_json(_data(result, rows, places, drawing, shown)),
    }


def _caption(result: Difference, picture: Picture, count: int) -> str:
    if not picture.names:
        return ""
    first, second = map(fmt.printable, result.labels)
    if not count:
        sure = "no change is sure enough to be listed" if result.left_out else changes_words(result)
        return f"From {first} to {second}: {sure}."
    words = f"From {first} to {second}, causes on top. The wider a line, the larger the change"
    words += " in standard deviations" if any(e.size is not None for e in result.edge_list) else ""
    words += "; the paler, the less sure." if any(e.confidence is not None for e in result.edge_list) else "."
    if len(picture.edges) < count:
        words += f" Drawn are the {len(picture.edges)} largest of {count} changes; the table has all."
    return words


def edge_rows(result: Difference, listed: Sequence[Edge]) -> list[dict[str, str]]:
    """Edges in words and formatted numbers, largest change first."""
    edges = fmt.by_size(listed)
    show = fmt.edge_format(edges)
    return [
        {
            "source": edge.source,
            "arrow": ARROWS[not edge.directed],
            "target": edge.target,
            "kind": line_kind(edge),
            "change": fmt.change_words(edge),
            "against": "; ".join(mark.short for mark in marks(result, edge)),
            "first": show(edge.weight_first),
            "second": show(edge.weight_second),
            "delta": fmt.with_error(edge.delta, edge.stderr, show),
            "interval": fmt.interval_text(edge, show),
            "confidence": fmt.percent(edge.confidence),
            "direction": fmt.percent(edge.direction) if edge.directed else "",
            "support": edge.support or "",
            "words": edge_words(edge, result.labels, show),
        }
        for edge in edges
    ]


def _data(
    result: Difference,
    rows: Sequence[dict[str, str]],
    picture: Picture,
    drawing: Drawing,
    scatters: Sequence[EdgeScatter],
) -> dict[str, Any]:
    edges, place = fmt.by_size(result.edge_list), {name: number for number, name in enumerate(picture.names)}
    known = {(found.source, found.target): found for found in scatters}
    show = fmt.edge_format(edges)
    names = {*fmt.ends(edges), *picture.names}
    return {
        "labels": [fmt.printable(label) for label in result.labels],
        "samples": result.samples,
        "columns": COLUMNS,
        "shown": sorted((name, fmt.printable(name)) for name in names if fmt.printable(name) != name),
        "nodes": [
            {"name": name, "box": box, "notes": _notes(result, name)}
            for name, box in zip(picture.names, drawing.nodes, strict=True)
        ],
        "edges": [
            {
                **edge.known,
                "kind": line_kind(edge),
                "said": row["change"],
                "against": [(mark.short, mark.words) for mark in marks(result, edge)],
                "ends": [place[edge.source], place[edge.target]] if number in drawing.links else None,
                "link": drawing.links.get(number),
                "words": row["words"],
                "facts": _facts(result, edge, row),
                "scatter": _scatter(known.get((edge.source, edge.target)), show),
            }
            for number, (edge, row) in enumerate(zip(edges, rows, strict=True))
        ],
    }


def _notes(result: Difference, name: str) -> list[str]:
    """What else is known of a variable."""
    notes = [gain_words(c, effects_words(result, c)) for c in result.gain_list if c.variable == name]
    notes += [f"Noise variance changed: {noise_words(c)}" for c in result.noise_list if c.variable == name]
    notes += [f"Intercept changed: {mean_words(c)}" for c in result.mean_list if c.variable == name]
    if name in result.unresolved:
        notes.append("Its place in the causal order is not identified")
    return notes


def _facts(result: Difference, edge: Edge, row: dict[str, str]) -> list[tuple[str, str]]:
    """What is known of an edge, title and value."""
    first, second = map(fmt.printable, result.labels)
    facts = [
        (f"Effect in {first}", row["first"]),
        (f"Effect in {second}", row["second"]),
        (f"Delta, {difference_words(result)}", row["delta"]),
        ("95 % interval", row["interval"]),
        ("Size, in standard deviations", "" if edge.size is None else f"{edge.size:+.2f}"),
        ("Explained by", "" if edge.gain_of is None else f"the gain of {fmt.printable(edge.gain_of)}"),
        ("Confidence that something changed", row["confidence"]),
        ("Direction: the arrow is right, if so", row["direction"]),
        ("Support", row["support"]),
        ("Robustness: share that a hidden common cause would have to explain", fmt.percent(edge.robustness)),
    ]
    facts += [
        ("Found in resamples", fmt.percent(share.found))
        for share in (result.stability.shares if result.stability is not None else ())
        if {share.source, share.target} == {edge.source, edge.target}
    ]
    return [fact for fact in facts if fact[1]]


def _scatter(found: EdgeScatter | None, show: fmt.NumberFormat) -> dict[str, Any] | None:
    """What the script needs to draw; slopes that are weights read like the weights in the table."""
    if found is None:
        return None
    clouds = [asdict(found.first), asdict(found.second)]
    style = show if found.adjusted else fmt.NumberFormat([cloud["slope"] for cloud in clouds])
    slopes = [style(cloud["slope"]) for cloud in clouds]
    return {"adjusted": found.adjusted, "scores": found.scores, "clouds": clouds, "slopes": slopes}
