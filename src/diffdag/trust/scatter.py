"""What a changed edge looks like in the rows: points and a line in each condition.

A weight is a coefficient of a regression on all predecessors, so that target against source alone would show
another slope. Shown is the target less what its other predecessors contribute beyond their mean (a partial
residual plot): the lines have the edge's weights as slopes, and what is left around them is the noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from diffdag._base.arrays import FloatArray
from diffdag.model.regression import JointRegression, regress_jointly
from diffdag.results.difference import Difference
from diffdag.results.records import Cloud, Edge, EdgeScatter
from diffdag.tables.moments import Moments

Rows = tuple[FloatArray, FloatArray]

POINTS = 150  # rows of each condition that are kept
MOST_EDGES = 100
DIGITS = 4  # of the spread of a variable: more cannot be seen


def edge_scatters(
    result: Difference,
    first: Moments,
    second: Moments,
    rows: Rows | None = None,
    *,
    scores: bool = False,
    fitted: Difference | None = None,
) -> tuple[EdgeScatter, ...]:
    """The scatters of the largest changes.

    Parameters
    ----------
    result : Difference
        An answer from these moments.
    first, second : Moments
        Of the variables that were ordered.
    rows : pair of arrays, optional
        Rows to show, with a column for each of those variables.
    scores : bool
        Whether these are on the scale that ranks suggest.
    fitted : Difference, optional
        The answer as it was fitted, if edges were left out since: the weights come from its regressions.

    Examples
    --------
    >>> import diffdag as dd
    >>> pair = dd.simulate_pair(p=6, neighbours=3, changes=1, weights=(0.8, 1.0), rng=4)
    >>> one, two = pair.first.sample_moments(900, rng=1), pair.second.sample_moments(900, rng=2)
    >>> result = dd.DifferenceDAG().fit_moments(one, two).result_
    >>> (scatter,) = edge_scatters(result, one, two)
    >>> round(scatter.first.slope, 2), round(scatter.second.slope, 2), round(scatter.first.noise, 1)
    (-0.02, -0.85, 1.0)
    """
    place = {name: k for k, name in enumerate(first.names)}
    edges = sorted(result.edge_list, key=lambda edge: -abs(edge.delta or 0.0))[:MOST_EDGES]
    shown = rows or (np.empty((0, len(place))), np.empty((0, len(place))))
    found = []
    for edge in edges:
        parts = _parts(fitted or result, edge, first, second, place)
        clouds = [
            _cloud(moments, values, place[edge.source], place[edge.target], part)
            for moments, values, part in zip((first, second), shown, parts, strict=True)
        ]
        adjusted = edge.weight_first is not None
        found.append(EdgeScatter(edge.source, edge.target, adjusted, scores, clouds[0], clouds[1]))
    return tuple(found)


def choose_rows(table: FloatArray, points: int = POINTS) -> FloatArray:
    """Some rows of a table, in their order; the same ones every time."""
    if len(table) <= points:
        return table
    chosen = np.random.default_rng(0).choice(len(table), size=points, replace=False)
    return table[np.sort(chosen)]


@dataclass(frozen=True)
class _Part:
    """One condition: the slope, the other predecessors, their coefficients, and where those are centred."""

    slope: float
    index: list[int]
    beta: FloatArray
    centre: FloatArray


def _parts(
    result: Difference, edge: Edge, first: Moments, second: Moments, place: dict[str, int]
) -> list[_Part]:
    source, target = place[edge.source], place[edge.target]
    none = np.empty(0)
    if edge.weight_first is None or edge.weight_second is None:
        slopes = [float(m.scatter[source, target] / m.scatter[source, source]) for m in (first, second)]
        return [_Part(slope, [], none, none) for slope in slopes]
    weights = edge.weight_first, edge.weight_second
    rest = (_without(first, source, target, weights[0]), _without(second, source, target, weights[1]))
    shared = "search_order" in result.settings
    causes = _causes(result, edge.target, place)
    for earlier in (_predecessors(result, edge.target, place), causes):
        index = [k for k in earlier if k != source]
        if source not in earlier or min(first.n, second.n) < len(earlier) + 2:
            continue
        changed = [k for k in index if k in causes] if shared else index
        try:
            fits = [regress_jointly(*rest, target, index, changed, separate) for separate in (False, True)]
        except np.linalg.LinAlgError:
            continue
        # An answer does not say which noise variances the search held for equal; the right fit leaves nothing
        # that the source explains.
        fit = min(fits, key=lambda fit: _left(rest, fit, source, target, index))
        centre = (first.mean[index] + second.mean[index]) / 2
        return [_Part(w, index, beta, centre) for w, beta in zip(weights, (fit.first, fit.second), strict=True)]
    return [_Part(weight, [], none, none) for weight in weights]


def _left(
    both: tuple[Moments, Moments], fit: JointRegression, source: int, target: int, index: list[int]
) -> float:
    """How much of the target's residual the source still explains, as a slope, in both conditions."""
    slopes = [
        (m.scatter[source, target] - m.scatter[source, index] @ beta) / m.scatter[source, source]
        for m, beta in zip(both, (fit.first, fit.second), strict=True)
    ]
    return float(np.abs(slopes).sum())


def _without(moments: Moments, source: int, target: int, weight: float) -> Moments:
    """Moments of the target less what the source contributes: with the edge's weight, the rest follows."""
    turn = np.eye(len(moments.names))
    turn[target, source] = -weight
    return Moments(moments.names, moments.n, turn @ moments.mean, turn @ moments.scatter @ turn.T)


def _causes(result: Difference, target: str, place: dict[str, int]) -> list[int]:
    """Those whose effects on the target changed; along a search's order, undirected edges have a cause too."""
    found = result.settings.get("search_order")
    rank = {name: k for k, name in enumerate(found)} if isinstance(found, list) else {}
    causes = []
    for edge in result.edge_list:
        ends = edge.source, edge.target
        if not edge.directed and rank.get(ends[0], 0) > rank.get(ends[1], 0):
            ends = ends[1], ends[0]
        if ends[1] == target and (edge.directed or rank):
            causes.append(place[ends[0]])
    return causes


def _predecessors(result: Difference, target: str, place: dict[str, int]) -> list[int]:
    """What the target was regressed on: all that precede it in the best order, or in the layers."""
    found = result.settings.get("search_order")
    if isinstance(found, list):
        return [place[name] for name in found[: found.index(target)]] if target in found else []
    depth = next((number for number, layer in enumerate(result.order) if target in layer), 0)
    earlier = {name for layer in result.order[:depth] for name in layer}.union(result.unresolved) - {target}
    return [place[name] for name in result.variables if name in earlier]


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
