"""The report: one HTML file that needs nothing else, not even a network."""

from __future__ import annotations

import io
import platform
import re
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.figure import Figure

from diffdag.report.evidence import evidence_lines, mean_words, noise_words, warnings_of
from diffdag.report.plot import STYLES, plot_difference
from diffdag.report.text import (
    NumberFormat,
    by_size,
    delta_text,
    headline,
    interval_text,
    percent,
    printable,
    samples_line,
    setting,
    shown_settings,
)

if TYPE_CHECKING:
    from diffdag.result import DifferenceResult

SHARES_SHOWN = 30  # pairs found in resamples
PACKAGES = ("diffdag", "numpy", "scipy", "pandas")


def render_page(result: DifferenceResult) -> str:
    """Return the report as a complete HTML page."""
    return _environment().get_template("template.html.j2").render(_context(result))


def render_fragment(result: DifferenceResult) -> str:
    """Return headline, picture and edges as a piece of HTML, for notebooks."""
    context = _context(result)
    table = Markup(_environment().get_template("edges.html.j2").render(context))  # noqa: S704 - escaped there
    frame = Markup('<div><p><b>{}</b></p><div style="background:#fff;overflow-x:auto">{}</div>{}</div>')
    return str(frame.format(context["headline"], context["picture"], table if result.edge_list else ""))


def render_svg(result: DifferenceResult) -> str:
    """Return the picture as SVG, with names as text, the same for the same result."""
    # Text stays text: it can be searched, and the browser has fonts for scripts that matplotlib lacks.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "diffdag"}):
        figure = plot_difference(result).figure
        assert isinstance(figure, Figure)  # noqa: S101 - for the type checker: not a SubFigure
        figure.patch.set_alpha(0.0)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return buffer.getvalue()


def _inline(svg: str) -> Markup:
    """Make a stand-alone SVG part of a page: without prolog and without rules for the whole page."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<style\b.*?</style>", "", body, count=1, flags=re.DOTALL)
    width = re.search(r'width="([\d.]+)pt"', body)
    natural = f'style="--natural:{width[1]}pt" ' if width else ""
    body = body.replace("<svg ", f'<svg role="img" {natural}stroke-linejoin="round" ', 1)
    return Markup(body)  # noqa: S704 - matplotlib escapes the names in it; tests hold it to that


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("diffdag", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"printable": printable, "setting": setting, "percent": percent}
    return environment


def _context(result: DifferenceResult) -> dict[str, Any]:
    versions = [(package, version(package)) for package in PACKAGES]
    return {
        "headline": headline(result, ("→", "—")),
        "compared": samples_line(result),
        "picture": _inline(render_svg(result)),
        "labels": result.labels,
        "rows": _rows(result),
        "with_interval": any(edge.low is not None for edge in result.edge_list),
        "noise": [noise_words(change) for change in result.noise_list],
        "means": [mean_words(change) for change in result.mean_list],
        "evidence": list(evidence_lines(result)),
        "warnings": warnings_of(result),
        "checks": result.checks,
        "shares": [] if result.stability is None else result.stability.shares[:SHARES_SHOWN],
        "with_confidence": any(edge.confidence is not None for edge in result.edge_list),
        "colours": {kind: colour for kind, (colour, _) in STYLES.items()},
        "order": result.order,
        "unresolved": result.unresolved,
        "invariant": result.invariant,
        "notes": result.notes,
        "settings": {"method": result.method, **shown_settings(result)},
        "versions": [*versions, ("Python", platform.python_version())],
    }


def _rows(result: DifferenceResult) -> list[dict[str, str]]:
    edges = by_size(result.edge_list)
    show = NumberFormat([value for e in edges for value in (e.weight_first, e.weight_second, e.delta)])
    return [
        {
            "source": edge.source,
            "arrow": "→" if edge.directed else "—",
            "target": edge.target,
            "kind": edge.kind,
            "first": show(edge.weight_first),
            "second": show(edge.weight_second),
            "delta": delta_text(edge, show),
            "interval": interval_text(edge, show),
            "confidence": percent(edge.confidence),
        }
        for edge in edges
    ]
