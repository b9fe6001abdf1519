"""The changed effects unit by unit, where rows are nested: one chart per edge, as places for the template."""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING, Any

from diffdag.report.format import cut
from diffdag.report.html.comparison import ARROWS

if TYPE_CHECKING:
    from diffdag.results.difference import Difference
    from diffdag.results.records import Edge, UnitEffect

EDGES_SHOWN = 12
WIDTH, LEFT, RIGHT, TOP, BOTTOM = 300.0, 76.0, 12.0, 6.0, 22.0
LINE, LEAST_LINE, TALLEST = 15.0, 3.0, 620.0
ERRORS = 2  # standard errors that lines reach to either side
LETTERS = 12  # of the name of a unit
FARTHEST = 1e150  # that is drawn


def unit_charts(result: Difference) -> list[dict[str, Any]]:
    """One chart per changed effect, the largest first; none where rows are not nested."""
    edges = {(edge.source, edge.target): edge for edge in result.edge_list}
    charts = []
    for ends, group in groupby(result.unit_effects, lambda effect: (effect.source, effect.target)):
        effects = [effect for effect in group if effect.weight is not None]
        if ends in edges and effects:
            charts.append((edges[ends], _chart(edges[ends], effects)))
    charts.sort(key=lambda item: -(item[0].magnitude or 0.0))
    return [chart for _, chart in charts[:EDGES_SHOWN]]


def _chart(edge: Edge, effects: list[UnitEffect]) -> dict[str, Any]:
    """Places of points and lines; conditions one below the other."""
    weights = [_bounded(effect.weight) for effect in effects]
    reach = [ERRORS * _bounded(effect.stderr) for effect in effects]
    known = [_bounded(weight) for weight in (edge.weight_first, edge.weight_second) if weight is not None]
    low = min(*known, *(w - r for w, r in zip(weights, reach, strict=True)), 0.0)
    high = max(*known, *(w + r for w, r in zip(weights, reach, strict=True)), 0.0)
    wide = high - low if high - low > 1 / FARTHEST else 1.0

    def place(value: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / wide, 1)

    line = max(LEAST_LINE, min(LINE, TALLEST / len(effects)))
    marks = [
        {
            "side": "first" if effect.condition == 1 else "second",
            "y": round(TOP + line * (k + 0.5), 1),
            "x": place(weight),
            "from": place(weight - error),
            "to": place(weight + error),
            "name": cut(effect.unit, LETTERS) if line >= LINE else "",
            "says": f"{effect.unit}: {weight:.3g} ± {effect.stderr or 0.0:.2g}, {effect.rows} rows",
        }
        for k, (effect, weight, error) in enumerate(zip(effects, weights, reach, strict=True))
    ]
    bottom = round(TOP + line * len(effects), 1)
    return {
        "edge": f"{edge.source} {ARROWS[0]} {edge.target}",
        "marks": marks,
        "width": WIDTH,
        "height": bottom + BOTTOM,
        "bottom": bottom,
        "ticks": [{"x": place(value), "says": f"{value:.3g}"} for value in _ticks(low, low + wide)],
        "means": [
            {"side": side, "x": place(_bounded(weight))}
            for side, weight in (("first", edge.weight_first), ("second", edge.weight_second))
            if weight is not None
        ],
    }


def _bounded(value: float | None) -> float:
    """A number of which sums and differences are finite; nothing is zero."""
    return max(-FARTHEST, min(FARTHEST, value or 0.0))


def _ticks(low: float, high: float) -> list[float]:
    """Three to six round numbers between two."""
    step = 10.0 ** math.floor(math.log10(high - low))
    for part in (1.0, 0.5, 0.2, 0.1):
        start = math.ceil(low / (step * part) - 1e-9)
        stop = math.floor(high / (step * part) + 1e-9)
        if stop - start >= 2:
            break
    return [k * step * part for k in range(start, stop + 1)]
