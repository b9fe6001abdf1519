"""What a changed edge looks like in the rows: points and a line in each condition.

A weight is a coefficient of a regression on all predecessors, so that target against source alone would show
another slope. Shown is the target less what its other predecessors contribute beyond their mean (a partial
residual plot): the lines have the edge's weights as slopes, and what is left around them is the noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from diffdag.changes import Edge
from diffdag.moments import Moments
from diffdag.weights import regress_jointly

if TYPE_CHECKING:
    from diffdag.result import DifferenceResult

FloatArray = NDArray[np.float64]
Rows = tuple[FloatArray, FloatArray]

POINTS = 150  # rows of each condition that are kept
MOST_EDGES = 100
DIGITS = 4  # of the spread of a variable: more cannot be seen


@dataclass(frozen=True)
class Cloud:
    """One condition: points, possibly none, and the line through them.

    Parameters
    ----------
    x, y : tuple of float
        Source and target in some of the rows.
    slope, intercept : float
        The line.
    low, high : float
        Where the line ends: two standard deviations of the source from its mean.
    noise : float
        Standard deviation of the target around the line.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    slope: float
    intercept: float
    low: float
    high: float
    noise: float

    def __post_init__(self) -> None:
        for name in ("x", "y"):
            object.__setattr__(self, name, tuple(float(value) for value in getattr(self, name)))
        if len(self.x) != len(self.y):
            raise ValueError("a scatter has different numbers of x and y")


@dataclass(frozen=True)
class EdgeScatter:
    """A changed edge in both conditions.

    Parameters
    ----------
    source, target : str
        The edge.
    adjusted : bool
        Whether the target is shown less what its other predecessors contribute; otherwise as it is.
    scores : bool
        Whether both are on the scale that ranks suggest, not in the units of the columns.
    first, second : Cloud
        The two conditions.
    """

    source: str
    target: str
    adjusted: bool
    scores: bool
    first: Cloud
    second: Cloud


def edge_scatters(
    result: DifferenceResult,
    first: Moments,
    second: Moments,
    rows: Rows | None = None,
    *,
    scores: bool = False,
) -> tuple[EdgeScatter, ...]:
    """The scatters of the largest changes.

    Parameters
    ----------
    result : DifferenceResult
        An answer from these moments.
    first, second : Moments
        Of the variables that were ordered.
    rows : pair of arrays, optional
        Rows to show, with a column for each of those variables.
    scores : bool
        Whether these are on the scale that ranks suggest.

    Examples
    --------
    >>> import diffdag as dd
    >>> pair = dd.simulate_pair(p=6, neighbours=3, changes=1, weights=(0.8, 1.0), rng=4)
    >>> one, two = pair.first.sample_moments(900, rng=1), pair.second.sample_moments(900, rng=2)
    >>> result = dd.DifferenceDAG().fit_moments(one, two).result_
    >>> (scatter,) = edge_scatters(result, one, two)
    >>> scatter.first.slope == result.edge_list[0].weight_first
    True
    """
    place = {name: k for k, name in enumerate(first.names)}
    edges = sorted(result.edge_list, key=lambda edge: -abs(edge.delta or 0.0))[:MOST_EDGES]
    shown = rows or (np.empty((0, len(place))), np.empty((0, len(place))))
    found = []
    for edge in edges:
        parts = _coefficients(result, edge, first, second, place)
        clouds = [
            _cloud(moments, values, place[edge.source], place[edge.target], slope, others, centre)
            for moments, values, (slope, others, centre) in zip((first, second), shown, parts, strict=True)
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


Part = tuple[float, dict[int, float], dict[int, float]]


def _coefficients(
    result: DifferenceResult, edge: Edge, first: Moments, second: Moments, place: dict[str, int]
) -> tuple[Part, Part]:
    """For each condition the slope, the coefficients of the other predecessors, and where those are centred."""
    source, target = place[edge.source], place[edge.target]
    if edge.weight_first is None or edge.weight_second is None:
        return tuple((_slope(m, source, target), {}, {}) for m in (first, second))  # type: ignore[return-value]
    causes = [place[e.source] for e in result.edge_list if e.directed and e.target == edge.target]
    for earlier in (_predecessors(result, edge.target, place), causes):
        shared = "search_order" in result.settings
        changed = [k for k in causes if k in earlier] if shared else earlier
        if source not in earlier or min(first.n, second.n) <= len(earlier) + 2:
            continue
        noisy = any(change.variable == edge.target for change in result.noise_list)
        try:
            fit = regress_jointly(first, second, target, earlier, changed, noisy)
        except np.linalg.LinAlgError:
            continue
        centre = {k: float(first.mean[k] + second.mean[k]) / 2 for k in earlier if k != source}
        pair = [
            {k: float(b) for k, b in zip(earlier, beta, strict=True) if k != source}
            for beta in (fit.first, fit.second)
        ]
        return (edge.weight_first, pair[0], centre), (edge.weight_second, pair[1], centre)
    return (edge.weight_first, {}, {}), (edge.weight_second, {}, {})


def _predecessors(result: DifferenceResult, target: str, place: dict[str, int]) -> list[int]:
    """What the target was regressed on: all that precede it in the best order, or in the layers."""
    found = result.settings.get("search_order")
    if isinstance(found, list):
        return [place[name] for name in found[: found.index(target)]] if target in found else []
    layers = [*result.order]
    depth = next((number for number, layer in enumerate(layers) if target in layer), 0)
    earlier = {name for layer in layers[:depth] for name in layer}.union(result.unresolved) - {target}
    return [place[name] for name in result.variables if name in earlier]


def _slope(moments: Moments, source: int, target: int) -> float:
    return float(moments.scatter[source, target] / moments.scatter[source, source])


def _cloud(
    moments: Moments,
    rows: FloatArray,
    source: int,
    target: int,
    slope: float,
    others: dict[int, float],
    centre: dict[int, float],
) -> Cloud:
    index, beta = list(others), np.array(list(others.values()))
    middle = np.array([centre[k] for k in index])
    mean = moments.mean
    level = float(mean[target] - (mean[index] - middle) @ beta) if index else float(mean[target])
    contrast = np.zeros(len(mean))
    contrast[index], contrast[source], contrast[target] = -beta, -slope, 1.0
    noise = math.sqrt(max(float(contrast @ moments.scatter @ contrast), 0.0) / moments.n)
    spread = math.sqrt(moments.scatter[source, source] / moments.n)
    y = rows[:, target] - (rows[:, index] - middle) @ beta if index else rows[:, target]
    x = rows[:, source]
    return Cloud(
        tuple(_rounded(x)),
        tuple(_rounded(y)),
        slope,
        level - slope * float(mean[source]),
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
