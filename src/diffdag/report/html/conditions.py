"""A result for several conditions as a picture, a page and a piece of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from diffdag.report.conditions import against, beside, change_cells, compared, delta_words, headline, pair_notes
from diffdag.report.html.comparison import ARROWS, comparison_context
from diffdag.report.html.page import environment, fragment_style, page_frame
from diffdag.report.layout.picture import Picture, all_changes, changes_words
from diffdag.report.text import samples_line

if TYPE_CHECKING:
    from diffdag.results.differences import Differences

MOST_SCATTERS = 100  # in one page


def render_page(result: Differences) -> str:
    """The report as a complete HTML page."""
    comparisons, (rows, heads) = _comparisons(result), change_cells(result, ARROWS)
    explorer = environment().get_template("explorer.html.j2")
    for one in comparisons:
        one["body"] = Markup(explorer.render(one))  # noqa: S704 - escaped by the template
    context = page_frame(found for one in comparisons for found in one["scatters"]) | {
        "headline": headline(result),
        "compared": compared(result),
        "comparisons": comparisons,
        "rows": rows,
        "heads": heads,
        "delta_words": delta_words(result),
        "beside": list(beside(result)),
        "order": result.order,
        "against": against(result),
        "notes": [*result.notes, *pair_notes(result)],
    }
    return environment().get_template("conditions.html.j2").render(context)


def render_fragment(result: Differences) -> str:
    """Headline and pictures as a piece of HTML without a script, for notebooks."""
    context = {"headline": headline(result), "style": fragment_style(), "comparisons": _comparisons(result)}
    return environment().get_template("panels.html.j2").render(context)


def _comparisons(result: Differences) -> list[dict[str, Any]]:
    """Each comparison as the page of a single one shows it, every variable at the same place in all."""
    whole, folders = Picture(all_changes(result)), result.folders()
    share = MOST_SCATTERS // len(result.pairs)
    return [
        comparison_context(one, picture=whole, scatters=one.scatters[:share])
        | {
            "id": f"pair-{number}",
            "title": result.titles[pair],
            "pair": pair,
            "words": samples_line(one),
            "folder": folders[pair],
            "changes": changes_words(one),
            "scatters": one.scatters[:share],
        }
        for number, (pair, one) in enumerate(result.pairs.items(), start=1)
    ]
