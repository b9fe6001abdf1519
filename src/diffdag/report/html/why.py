"""Why did it move? One table of parts per variable, with a waterfall in it, as places for the template."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from diffdag.report.explanation import WHAT, Step, interval_words, legend, moved_words, part_format, waterfall
from diffdag.report.format import NumberFormat
from diffdag.results.explanation import UNEXPLAINED, Part, explanation_of, ranked_parts

if TYPE_CHECKING:
    from diffdag.results.difference import Difference

MOST_ROWS = 500  # of all tables
WIDTH, MARGIN = 150.0, 4.0  # of a bar's cell


def why_tables(result: Difference) -> list[dict[str, Any]]:
    """One table per variable that something moved, the one whose mean moved most first; none without parts."""
    if result.explanations is None:
        return []
    moved = sorted(result.explanations.targets, key=lambda own: -own.distance)
    tables, rows = [], 0
    for own in moved:
        if own.parts and rows + len(own.parts) <= MOST_ROWS:
            tables.append(_table(result, own.variable))
            rows += len(own.parts)
    return tables


def why_words(result: Difference) -> list[str]:
    """What the numbers are."""
    return [] if result.explanations is None else legend(result, effects=True)


def _table(result: Difference, target: str) -> dict[str, Any]:
    found = explanation_of(result, target)
    shown = [what for what in WHAT if found.moved[what] is not None]
    falls = {what: {step.mechanism: step for step in waterfall(result, target, what)} for what in shown}
    shows = {what: part_format([step.value for step in falls[what].values()]) for what in shown}
    ranges = {what: _range(list(falls[what].values())) for what in shown}
    own = [
        (m, part)
        for m, part in ranked_parts(result, target)
        if any(part.mechanism in falls[what] for what in shown)
    ]
    effects = part_format([value for _, part in own for value in (part.direct, part.total)])
    rows: list[dict[str, Any]] = []
    for name, part in [*((mechanism.name, part) for mechanism, part in own), (UNEXPLAINED, None)]:
        place = -1 if part is None else part.mechanism
        cells = [_cell(falls[what].get(place), part, what, shows[what], ranges[what]) for what in shown]
        numbers = ["", ""] if part is None else [effects(part.direct, "+"), effects(part.total, "+")]
        rows.append({"name": name, "cells": cells, "numbers": numbers, "rest": part is None})
    observed = []
    for what in shown:
        low, high = found.moved[what] or (0.0, 0.0)
        observed.append(shows[what](high - low, "+"))
    return {
        "target": target,
        "heads": shown,
        "moved": moved_words(result, target),
        "rows": rows,
        "observed": observed,
        "width": WIDTH,
    }


def _range(steps: list[Step]) -> tuple[float, float]:
    """From the least to the largest number that is drawn."""
    ends = [end for step in steps for end in (step.start, step.end, step.low, step.high) if end is not None]
    return min(ends), max(ends)


def _cell(
    step: Step | None, part: Part | None, what: str, show: NumberFormat, ends: tuple[float, float]
) -> dict[str, Any]:
    """The number, its interval, and where its bar stands."""
    if step is None:
        return {"text": show(0.0), "interval": "", "bar": None}
    wide = (ends[1] - ends[0]) or 1.0

    def place(value: float) -> float:
        return round(MARGIN + (WIDTH - 2 * MARGIN) * (value - ends[0]) / wide, 1)

    bar = {
        "x": min(place(step.start), place(step.end)),
        "width": max(0.8, round(abs(place(step.end) - place(step.start)), 1)),
        "end": place(step.end),
        "side": "rest" if part is None else "up" if step.value > 0 else "down",
        "reach": None if step.low is None or step.high is None else (place(step.low), place(step.high)),
    }
    words = "" if part is None else interval_words(part, what, show)
    return {"text": show(step.value, "+"), "interval": words, "bar": bar}
