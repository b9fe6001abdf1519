"""What a changed edge looks like in the rows: points and a line in each condition.

A weight is a coefficient of a regression on all predecessors, so that target against source alone would show
another slope. We plot partial residuals: the target minus the fitted, centred contribution of its other
predecessors. The lines have the edge's weights as slopes, and what is left around them is the noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from diffdag._base.arrays import FloatArray
from diffdag.results.records import Cloud, Edge, EdgeScatter
from diffdag.tables.align import Tables
from diffdag.tables.moments import Moments
from diffdag.tables.robust import Covariance, table_scores
from diffdag.trust.options import STORED_ROWS

if TYPE_CHECKING:
    from diffdag.trust.fits import Fit

Rows = tuple[FloatArray, FloatArray]

MOST_EDGES = 100
DIGITS = 4  # of the spread of a variable: more cannot be seen


def edge_scatters(
    edges: Sequence[Edge],
    fit: Fit,
    first: Moments,
    second: Moments,
    rows: Rows | None = None,
    *,
    scores: bool = False,
) -> tuple[EdgeScatter, ...]:
    """Return the scatters of the largest changes.

    The moments are those from which the weights were estimated, of the variables that were kept; along the
    order of the fit the others' contributions are estimated. `rows` to show have a column per variable;
    `scores` says that they are on the scale that ranks suggest.
    """
    place = {name: k for k, name in enumerate(first.names)}
    shown = rows or (np.empty((0, len(place))), np.empty((0, len(place))))
    found = []
    for edge in sorted(edges, key=lambda edge: -(edge.magnitude or 0.0))[:MOST_EDGES]:
        parts = _parts(fit, edge, first, second, place)
        clouds = [
            _cloud(moments, values, place[edge.source], place[edge.target], part)
            for moments, values, part in zip((first, second), shown, parts, strict=True)
        ]
        adjusted = edge.weight_first is not None
        found.append(EdgeScatter(edge.source, edge.target, adjusted, scores, clouds[0], clouds[1]))
    return tuple(found)


def choose_rows(table: FloatArray, count: int = STORED_ROWS) -> FloatArray:
    """Some rows of a table, in their order; the same ones every time."""
    if len(table) <= count:
        return table
    chosen = np.random.default_rng(0).choice(len(table), size=count, replace=False)
    return table[np.sort(chosen)]


def rows_to_show(
    tables: Tables, columns: Sequence[int], covariance: Covariance, count: int
) -> tuple[FloatArray, FloatArray]:
    """Some rows of both tables, on the scale they were compared on."""
    both = (tables.first, tables.second)
    if covariance == "sample":  # the other scales take all rows to find
        both = (choose_rows(both[0], count), choose_rows(both[1], count))
    both = (both[0][:, columns], both[1][:, columns])
    one, two = table_scores(*both, covariance) if count else both
    return choose_rows(one, count), choose_rows(two, count)


@dataclass(frozen=True)
class _Part:
    """One condition: the slope, the other predecessors, their coefficients, and where those are centred."""

    slope: float
    index: list[int]
    beta: FloatArray
    centre: FloatArray


def _parts(fit: Fit, edge: Edge, first: Moments, second: Moments, place: dict[str, int]) -> tuple[_Part, _Part]:
    source, target = place[edge.source], place[edge.target]
    equation = None
    if edge.weight_first is None or edge.weight_second is None:
        one, two = (float(m.scatter[source, target] / m.scatter[source, source]) for m in (first, second))
    else:
        one, two, equation = edge.weight_first, edge.weight_second, fit.equation(target, first, second)
    none = np.empty(0)
    if equation is None:
        return _Part(one, [], none, none), _Part(two, [], none, none)
    others = [k for k, j in enumerate(equation.regressors) if j != source]
    index = [equation.regressors[k] for k in others]
    centre, betas = (first.mean[index] + second.mean[index]) / 2, equation.coefficients
    return _Part(one, index, betas[0][others], centre), _Part(two, index, betas[1][others], centre)


def _cloud(moments: Moments, rows: FloatArray, source: int, target: int, part: _Part) -> Cloud:
    mean, index = moments.mean, part.index
    level = float(mean[target] - (mean[index] - part.centre) @ part.beta)
    contrast = np.zeros(len(mean))
    contrast[index], contrast[source], contrast[target] = -part.beta, -part.slope, 1.0
    noise = math.sqrt(max(float(contrast @ moments.scatter @ contrast), 0.0) / moments.n)
    spread = math.sqrt(moments.scatter[source, source] / moments.n)
    return Cloud(
        tuple(_rounded(rows[:, source])),
        tuple(_rounded(rows[:, target] - (rows[:, index] - part.centre) @ part.beta)),
        part.slope,
        level - part.slope * float(mean[source]),
        float(mean[source]) - 2 * spread,
        float(mean[source]) + 2 * spread,
        noise,
    )


def _rounded(values: Sequence[float] | FloatArray) -> Iterator[float]:
    """Values with as many digits as can be seen."""
    spread = float(np.ptp(values)) if len(values) else 0.0
    if not spread > 0 or not math.isfinite(spread):
        return iter([float(value) for value in values])
    digits = DIGITS - 1 - math.floor(math.log10(spread))
    return iter([round(float(value), digits) for value in values])
