"""A result for several conditions as a picture, a page and a piece of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from diffdag._base.words import plural
from diffdag.report.conditions import beside, change_cells, compared, delta_words, headline, pair_notes
from diffdag.report.html.comparison import ARROWS, comparison_context
from diffdag.report.html.page import environment, fragment_style, page_frame
from diffdag.report.html.websvg import draw
from diffdag.report.layout.picture import Picture
from diffdag.report.plots.panels import all_changes
from diffdag.report.text import samples_line

if TYPE_CHECKING:
    from diffdag.results.differences import Differences

MOST_SCATTERS = 100  # in one page


def render_page(result: Differences) -> str:
    """The report as a complete HTML page."""
    return environment().get_template("conditions.html.j2").render(_context(result))


def render_fragment(result: Differences) -> str:
    """Headline and pictures as a piece of HTML without a script, for notebooks."""
    context = {"headline": headline(result), "style": fragment_style(), "panels": _panels(result)}
    return environment().get_template("panels.html.j2").render(context)


def _panels(result: Differences) -> list[dict[str, Any]]:
    """The picture of each comparison, every variable at the same place in all."""
    whole = Picture(all_changes(result))
    return [
        {
            "first": first,
            "second": second,
            "changes": plural(len(one.edge_list), "change") if one.edge_list else "no change found",
            "picture": draw(whole, one, shared=True).svg,
        }
        for (first, second), one in result.pairs.items()
    ]


def _explorers(result: Differences) -> list[dict[str, Any]]:
    """Each comparison as the page of a single one shows it."""
    whole, folders = Picture(all_changes(result)), result.folders()
    template = environment().get_template("explorer.html.j2")
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


def _context(result: Differences) -> dict[str, Any]:
    rows, heads = change_cells(result, ARROWS)
    share = MOST_SCATTERS // len(result.pairs)
    scatters = [found for one in result.pairs.values() for found in one.scatters[:share]]
    return page_frame(scatters) | {
        "headline": headline(result),
        "compared": compared(result),
        "panels": _panels(result),
        "explorers": _explorers(result),
        "rows": rows,
        "heads": heads,
        "delta_words": delta_words(result),
        "beside": list(beside(result)),
        "order": result.order,
        "notes": [*result.notes, *pair_notes(result)],
    }
