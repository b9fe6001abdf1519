"""The report: one HTML file that needs nothing else, not even a network."""

from __future__ import annotations

import base64
import hashlib
import platform
import re
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from diffdag._base.errors import InputError
from diffdag.report import words
from diffdag.report.format import kind_words, percent, printable, setting, short_name
from diffdag.report.html.comparison import ARROWS, comparison_context
from diffdag.report.html.units import unit_charts
from diffdag.report.html.websvg import theme_css
from diffdag.report.html.why import why_tables, why_words
from diffdag.report.text import headline, samples_line, shown_settings
from diffdag.tables.readers.coordinates import check_coordinates

if TYPE_CHECKING:
    from diffdag.report.layout.theme import ThemeName
    from diffdag.results.difference import Difference
    from diffdag.results.records import EdgeScatter
    from diffdag.tables.readers.coordinates import Coordinates

SHARES_SHOWN = 30  # pairs found in resamples
PACKAGES = ("diffdag", "numpy", "scipy", "pandas")
SCRIPTS = ("explorer_base", "explorer_scatter", "explorer_graph", "explorer_table", "explorer")


def render_page(result: Difference, *, coordinates: Coordinates | None = None) -> str:
    """Return the report as a complete HTML page; coordinates of brain regions (mm) add a view of the brain."""
    context = _context(result) | page_frame(result.scatters, nested=bool(result.unit_effects))
    context["brain"] = None if coordinates is None else _brain(result, coordinates)
    return environment().get_template("template.html.j2").render(context)


def render_fragment(result: Difference) -> str:
    """Return headline, picture and edges as a piece of HTML without a script, for notebooks."""
    context = comparison_context(result, scatters=())
    context |= {"headline": _headline(result), "style": fragment_style()}
    return environment().get_template("fragment.html.j2").render(context)


def render_svg(result: Difference) -> str:
    """Return the picture as SVG that stands alone, with names as text, the same for the same result."""
    from diffdag.report.plots.chart import svg_of  # noqa: PLC0415 - pages need no matplotlib
    from diffdag.report.plots.difference import plot_difference  # noqa: PLC0415

    return svg_of(plot_difference(result))


def page_frame(scatters: Iterable[EdgeScatter], *, nested: bool = False) -> dict[str, Any]:
    """What all pages have: style, script and its hash for the content policy, versions, what is in the file."""
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    versions = [(package, version(package)) for package in PACKAGES]
    return {
        "style": theme_css() + Markup("\n") + _own("graph.css") + _own("report.css"),
        "script": Markup(script),  # noqa: S704 - our own files
        "script_hash": f"sha256-{digest}",
        "versions": [*versions, ("Python", platform.python_version())],
        "contents": _contents(scatters, nested),
    }


def fragment_style() -> Markup:
    """Rules for a piece of HTML in a notebook."""
    return theme_css(hosts=True) + Markup("\n") + _own("graph.css")


def _contents(scatters: Iterable[EdgeScatter], nested: bool) -> str:
    """Whether the user's rows are in the file: who passes it on should know."""
    most = max((len(cloud.x) for one in scatters for cloud in (one.first, one.second)), default=0)
    rest = ", and settings. It holds no rows of your data, and loads nothing from anywhere."
    if most:
        rest = (
            f", settings, and for the scatter plots values of up to {most} rows of each condition: pass it on "
            "only to those who may see such values. It loads nothing from anywhere."
        )
    units = ", of what rows are nested in" if nested else ""
    return f"Names of variables and conditions{units}, the estimates{rest}"


@cache
def _own(name: str) -> Markup:
    text = files("diffdag.report.html").joinpath(name).read_text(encoding="utf-8")
    return Markup(text)  # noqa: S704 - our own files


@cache
def _script() -> str:
    return '"use strict";\n{\n' + "\n".join(_own(f"{name}.js") for name in SCRIPTS) + "}\n"


def _headline(result: Difference) -> Markup:
    """The headline with every name in an element of its own, in which lines need not break."""
    pieces = headline(result, ARROWS, lambda name: f"\0{short_name(name)}\0").split("\0")
    whole = Markup('<bdi class="whole">{}</bdi>')
    return Markup("").join(whole.format(text) if k % 2 else escape(text) for k, text in enumerate(pieces))


def _brain(result: Difference, coordinates: Coordinates) -> dict[str, Any]:
    """The view of the brain on light and on dark ground, or why there is none."""
    places = check_coordinates(coordinates)
    themes: tuple[ThemeName, ...] = ("light", "dark")
    pictures = []
    try:
        from diffdag.report.plots.brain import plot_brain  # noqa: PLC0415 - few pages have it
        from diffdag.report.plots.chart import svg_of  # noqa: PLC0415

        for theme in themes:
            drawn = plot_brain(result, places, theme=theme)
            pictures.append((theme, _inline(svg_of(drawn), f"{theme}-")))
    except InputError as error:  # the rest of the report is worth having
        return {"pictures": [], "problem": str(error)}
    return {"pictures": pictures, "problem": ""}


def _inline(svg: str, prefix: str) -> Markup:
    """Make a stand-alone SVG part of a page: no prolog, no rules for the whole page, ids of its own."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<style\b.*?</style>", "", body, count=1, flags=re.DOTALL)
    # In tags alone: a name may read like an id.
    body = re.sub(r"<[a-z][^>]*>", lambda tag: re.sub(r'( id="|"#|url\(#)', rf"\1{prefix}", tag[0]), body)
    body = body.replace("<svg ", '<svg role="img" stroke-linejoin="round" ', 1)
    return Markup(body)  # noqa: S704 - matplotlib escapes the names in it; tests hold it to that


@cache
def environment() -> Environment:
    """The templates of pages."""
    made = Environment(
        loader=PackageLoader("diffdag", "report/html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"printable": printable, "setting": setting, "percent": percent, "kind": kind_words}
    return made


def _context(result: Difference) -> dict[str, Any]:
    return comparison_context(result) | {
        "id": "changes",
        "headline": _headline(result),
        "difference": words.difference_words(result),
        "compared": samples_line(result),
        "nodes": words.node_rows(result),
        "nodes_sure": any(node.confidence is not None for node in result.node_list),
        "switched": [words.switch_cells(change, result.labels) for change in result.switch_list],
        "gains": [words.gain_cells(result, change) for change in result.gain_list],
        "gains_sure": any(change.confidence is not None for change in result.gain_list),
        "noise": [words.noise_cells(change) for change in result.noise_list],
        "noise_sure": any(change.confidence is not None for change in result.noise_list),
        "means": [words.mean_cells(change) for change in result.mean_list],
        "means_sure": any(change.confidence is not None for change in result.mean_list),
        "unit_charts": unit_charts(result),
        "why": why_tables(result),
        "why_words": why_words(result),
        "nested_in": next((effect.nested_in for effect in result.unit_effects), ""),
        "evidence": list(words.evidence_lines(result)),
        "against": list(words.against(result)),
        "steps": words.next_steps(result),
        "checks": result.checks,
        "shares": [] if result.stability is None else result.stability.shares[:SHARES_SHOWN],
        **{
            name: getattr(result, name)
            for name in ("order", "unresolved", "invariant", "screened_out", "notes")
        },
        "settings": {"method": result.method, **shown_settings(result)},
    }
