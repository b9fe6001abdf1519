"""Whether rows look nested in the values of a column, where nobody said so."""

from __future__ import annotations

from diffdag._base.words import option_words
from diffdag.results.records import Check
from diffdag.tables.align import Tables
from diffdag.tables.nesting import LEVEL

NAME = "nested rows"


def check_nesting(tables: Tables) -> Check | None:
    """Say in what rows look nested; None where they do not, or where it was said."""
    found = [own for own in tables.nesting if own.looks_nested]
    if not found:
        return None
    best = max(found, key=lambda own: own.share)
    others = [f"'{own.name}'" for own in found if own is not best]
    message = (
        f"rows look nested in '{best.name}': those with the same value of it resemble each other "
        f"({best.words}), so that they are worth fewer independent ones, and units that differ can pass for "
        f"changed effects; {option_words('cluster', best.name)} accounts for it"
    )
    if others:
        message += f" (also {', '.join(others[:3])})"
    return Check(NAME, False, message, best.pvalue, LEVEL)
