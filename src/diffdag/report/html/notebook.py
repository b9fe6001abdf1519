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
    """Return the settings of an estimator, and its result in a sentence, as HTML.

    Parameters
    ----------
    name : str
        What the estimator is called.
    parameters : mapping of str to object
        Its parameters that differ from the defaults.
    result : Difference or None
        What was found; None before the fit.
    """
    state = "not fitted yet" if result is None else "fitted"
    lines = [Markup("<div><b>{}</b> {}</div>").format(name, state)]
    lines += [
        Markup("<div><code>{}</code> {}</div>").format(key, _shown(value)) for key, value in parameters.items()
    ]
    if not parameters:
        lines.append(Markup('<div style="opacity:.75">all settings at their defaults</div>'))
    if result is not None:
        words = headline(result, ("→", "—"))
        lines.append(
            Markup('<div style="margin-top:.4em">{}</div><div style="opacity:.75">{}</div>').format(
                words, samples_line(result)
            )
        )
        lines.append(Markup('<div style="opacity:.75">the whole result: <code>.result_</code></div>'))
    return str(FRAME.format(Markup("").join(lines)))


def _shown(value: object) -> str:
    text = printable(repr(value))
    return text if len(text) <= VALUE_CHARACTERS else f"{text[:VALUE_CHARACTERS]}..."
