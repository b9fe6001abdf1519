"""The estimator as a notebook shows it: what was set, and what came out."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from markupsafe import Markup

from diffdag.report.text import headline, printable, samples_line

if TYPE_CHECKING:
    from diffdag.estimator import DifferenceDAG

VALUE_CHARACTERS = 200
# Colours come from the notebook: it may be light or dark.
FRAME = Markup(
    '<div style="border:1px solid;border-color:color-mix(in srgb,currentColor 35%,transparent);'
    'border-radius:6px;padding:.5em .9em;max-width:46em;overflow-wrap:anywhere;line-height:1.5">{}</div>'
)


def estimator_html(model: DifferenceDAG) -> str:
    """Return the settings that differ from the defaults, and the answer in a sentence, as HTML."""
    lines = [Markup("<div><b>{}</b> {}</div>").format(type(model).__name__, _state(model))]
    given = changed_parameters(model)
    lines += [
        Markup("<div><code>{}</code> {}</div>").format(name, _shown(value)) for name, value in given.items()
    ]
    if not given:
        lines.append(Markup('<div style="opacity:.75">all settings at their defaults</div>'))
    result = getattr(model, "result_", None)
    if result is not None:
        words = headline(result, ("→", "—"))
        lines.append(
            Markup('<div style="margin-top:.4em">{}</div><div style="opacity:.75">{}</div>').format(
                words, samples_line(result)
            )
        )
        lines.append(Markup('<div style="opacity:.75">the whole answer: <code>.result_</code></div>'))
    return str(FRAME.format(Markup("").join(lines)))


def _state(model: DifferenceDAG) -> str:
    return "fitted" if hasattr(model, "result_") else "not fitted yet"


def changed_parameters(model: DifferenceDAG) -> dict[str, object]:
    """The parameters that are not what they are by default.

    >>> from diffdag.estimator import DifferenceDAG
    >>> changed_parameters(DifferenceDAG(penalty=2.0, noise="auto"))
    {'penalty': 2.0}
    """
    defaults = {name: known.default for name, known in inspect.signature(type(model)).parameters.items()}
    # Compared as text: what a user gave may be an array, which has no single answer to ==.
    return {
        name: value for name, value in model.get_params().items() if repr(value) != repr(defaults.get(name))
    }


def _shown(value: object) -> str:
    text = printable(repr(value))
    return text if len(text) <= VALUE_CHARACTERS else f"{text[:VALUE_CHARACTERS]}..."
