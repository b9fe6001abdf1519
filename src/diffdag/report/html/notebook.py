"""The estimator as a notebook shows it: what was set, and what came out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from markupsafe import Markup

from diffdag.report.format import printable
from diffdag.report.text import headline, samples_line

if TYPE_CHECKING:
    from diffdag.results.difference import Difference

VALUE_CHARACTERS = 200
# Colours come from the notebook: it may be light or dark.
FRAME = Markup(
    '<div style="border:1px solid;border-color:color-mix(in srgb,currentColor 35%,transparent);'
    'border-radius:6px;padding:.5em .9em;max-width:46em;overflow-wrap:anywhere;line-height:1.5">{}</div>'
)


def estimator_html(name: str, parameters: Mapping[str, object], result: Difference | None) -> str:
    """Return the parameters that differ from the defaults, and the result in a sentence, as HTML."""
    state = "not fitted yet" if result is None else "fitted"
    lines = [Markup("<div><b>{}</b> {}</div>").format(name, state)]
    lines += [
        Markup("<div><code>{}</code> {}</div>").format(key, _shown(value)) for key, value in parameters.items()
    ]
    if not parameters:
        lines.append(Markup('<div style="opacity:.75">all settings at their defaults</div>'))
    if result is not None:
        words = Markup(
            '<div style="margin-top:.4em">{}</div><div style="opacity:.75">{}</div>'
            '<div style="opacity:.75">the whole result: <code>.result_</code></div>'
        )
        lines.append(words.format(headline(result, ("→", "—")), samples_line(result)))
    return str(FRAME.format(Markup("").join(lines)))


def _shown(value: object) -> str:
    text = printable(repr(value))
    return text if len(text) <= VALUE_CHARACTERS else f"{text[:VALUE_CHARACTERS]}..."
