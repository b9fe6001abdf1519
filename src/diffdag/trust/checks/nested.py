"""Whether rows look nested in the values of a column of which nobody said so."""

from __future__ import annotations

from diffdag.results.records import Check
from diffdag.tables.align import Tables
from diffdag.tables.nesting import LEVEL

NAME = "nested rows"


def check_nesting(tables: Tables) -> Check | None:
    """Say in what rows look nested, beside what was said; None where they do not."""
    found = [own for own in tables.nesting if own.looks_nested]
    if not found:
        return None
    best = max(found, key=lambda own: (own.inside, own.share))  # values of one condition are units
    others = [f"'{own.name}'" for own in found if own is not best]
    rows = f"rows look nested in '{best.name}': those with the same value of it resemble each other"
    harm = "they are worth fewer independent ones, and units that differ can pass for changed effects"
    if best.within:
        rows = f"rows with the same '{best.name}' resemble each other within '{best.within}'"
        harm = "it passes for effects between the variables that it moves"
    message = f"{rows} ({best.words}), so that {harm}; {best.remedy}"
    if others:
        message += f" (also {', '.join(others[:3])})"
    return Check(NAME, False, message, best.pvalue, LEVEL)
