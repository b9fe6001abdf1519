"""The frozen records of a result: what changed, and what speaks for and against it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields

from diffdag.model.sem import LinearSEM

CHANGES = ("added", "removed", "strengthened", "weakened", "reversed-sign")
# A weight within so many standard errors of zero counts as absent (two-sided 1 %).
ABSENT_ERRORS = 2.576


def classify_change(weight_first: float, weight_second: float, absent_first: bool, absent_second: bool) -> str:
    """Name the kind of change of one directed edge, from its weights and where these count as absent.

    If a weight counts as absent in both conditions although the edge changed, the weaker one is taken to be.

    >>> classify_change(0.0, 0.8, True, False)
    'added'
    >>> classify_change(0.9, 0.4, False, False)
    'weakened'
    >>> classify_change(0.5, -0.4, False, False)
    'reversed-sign'
    """
    grows = abs(weight_second) > abs(weight_first)
    if absent_first and (grows or not absent_second):
        return "added"
    if absent_second:
        return "removed"
    if weight_first * weight_second < 0:
        return "reversed-sign"
    return "strengthened" if grows else "weakened"


@dataclass(frozen=True)
class _Record:
    """A record whose numbers may be unknown: what is not finite is stored as None."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.type == "float | None":
                value = getattr(self, field.name)
                known = value is not None and math.isfinite(value)
                object.__setattr__(self, field.name, float(value) if known else None)


@dataclass(frozen=True)
class Edge(_Record):
    """One changed edge; a number that is not finite is stored as None, unknown.

    Parameters
    ----------
    source, target : str
        Names of the variables; for an undirected edge, in the order of the columns.
    directed : bool
        False where the data do not tell cause from effect.
    change : str, optional
        One of `CHANGES`; None for undirected edges.
    weight_first, weight_second : float, optional
        Effect of source on target in each condition, in the user's units.
    delta : float, optional
        `weight_first - weight_second`.
    stderr : float, optional
        Standard error of `delta`.
    confidence : float, optional
        Probability that the claim is right, 0 to 1, worked out from resamples (docs/trust.md).
    low, high : float, optional
        95 % interval for `delta`, from rows that had no part in finding the edge.

    Examples
    --------
    >>> edge = Edge("Raf", "Mek", change="weakened", weight_first=0.9, weight_second=0.4, delta=0.5)
    >>> str(edge)
    'Raf -> Mek'
    """

    source: str
    target: str
    directed: bool = True
    change: str | None = None
    weight_first: float | None = None
    weight_second: float | None = None
    delta: float | None = None
    stderr: float | None = None
    confidence: float | None = None
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if self.change is not None and self.change not in CHANGES:
            raise ValueError(f"change is {self.change!r}; expected one of {', '.join(CHANGES)}")
        if self.source == self.target:
            raise ValueError(f"an edge joins {self.source!r} with itself")
        object.__setattr__(self, "directed", bool(self.directed))
        super().__post_init__()

    @property
    def key(self) -> tuple[str, str, bool]:
        """What makes it the same edge in another comparison: source, target, directed."""
        return self.source, self.target, self.directed

    @property
    def kind(self) -> str:
        """The change in a word; ``"changed"`` if it is unknown, ``"undirected"`` without a direction."""
        return (self.change or "changed") if self.directed else "undirected"

    def __str__(self) -> str:
        return f"{self.source} {'->' if self.directed else '--'} {self.target}"


@dataclass(frozen=True)
class NoiseChange(_Record):
    """A variable whose noise variance changed: its own part, which its causes do not explain.

    Parameters
    ----------
    variable : str
    variance_first, variance_second : float, optional
        Noise variance in each condition, in the user's units.
    ratio : float, optional
        `variance_first / variance_second`.
    pvalue : float, optional
        Of equal variances, for this variable alone; it does not know of the search.
    confidence : float, optional
        Probability that the claim is right, worked out from resamples.
    """

    variable: str
    variance_first: float | None = None
    variance_second: float | None = None
    ratio: float | None = None
    pvalue: float | None = None
    confidence: float | None = None


@dataclass(frozen=True)
class MeanChange(_Record):
    """A variable whose intercept changed: its mean moved by more than its causes explain.

    Parameters
    ----------
    variable : str
    mean_first, mean_second : float, optional
        Mean in each condition.
    delta : float, optional
        Change of the intercept, first minus second: what is left of the difference of the means after what the
        variables before it in the causal order account for.
    stderr : float, optional
        Standard error of `delta`.
    pvalue : float, optional
        Of no change, for this variable alone.
    confidence : float, optional
        Probability that the claim is right, worked out from resamples.
    """

    variable: str
    mean_first: float | None = None
    mean_second: float | None = None
    delta: float | None = None
    stderr: float | None = None
    pvalue: float | None = None
    confidence: float | None = None


def estimated_edge(
    source: str, target: str, weights: tuple[float, float], errors: tuple[float, float], stderr: float
) -> Edge:
    """A directed edge with weights in both conditions, their standard errors and that of their difference."""
    (before, after), (error1, error2) = weights, errors
    absent = abs(before) <= ABSENT_ERRORS * error1, abs(after) <= ABSENT_ERRORS * error2
    change = classify_change(before, after, *absent)
    return Edge(source, target, True, change, before, after, before - after, stderr)


def model_edges(directed: Iterable[tuple[int, int]], first: LinearSEM, second: LinearSEM) -> tuple[Edge, ...]:
    """Directed edges (effect, cause) with the weights of two models."""
    edges = []
    for i, j in sorted(directed):
        before, after = float(first.weights[i, j]), float(second.weights[i, j])
        change = classify_change(before, after, before == 0, after == 0) if before != after else None
        edges.append(Edge(first.names[j], first.names[i], True, change, before, after, before - after, 0.0))
    return tuple(edges)


@dataclass(frozen=True)
class Check(_Record):
    """Whether one assumption looks right on these data.

    Parameters
    ----------
    name : str
        A short name, the same for every result.
    passed : bool
        False if the data speak against it.
    message : str
        What was seen, what it means and what to do, in one sentence.
    value : float, optional
        The number that decided.
    limit : float, optional
        What it was compared with.
    """

    name: str
    passed: bool
    message: str
    value: float | None = None
    limit: float | None = None


@dataclass(frozen=True)
class Share:
    """How often a pair of variables changed in resamples; `found` is the sum of the three ways after it.

    Parameters
    ----------
    source, target : str
        The source is the cause in most of the resamples that direct the pair.
    found : float
        Share of resamples with the pair.
    directed, reversed, undirected : float
        Shares with an edge from source to target, from target to source, and without direction.
    """

    source: str
    target: str
    found: float
    directed: float
    reversed: float
    undirected: float


@dataclass(frozen=True)
class Stability:
    """What fits to resamples of both tables found.

    Parameters
    ----------
    fits : int
        Fits to bootstrap samples, drawn with replacement, that gave a result.
    shares : tuple of Share
        Every pair found in some of them, most often found first.
    pairs : int
        Complementary pairs of halves of the rows that were fitted too.
    stable : tuple of str
        Pairs found in at least `cutoff` of the halves, as ``"source -> target"``.
    cutoff : float
    expected_false : float
        Bound on the expected number of pairs among the stable ones that a fit to half of the rows finds no
        more often than a pair taken at random (Shah and Samworth 2013).
    failed : int
        Fits of both kinds without a result; they do not count.
    """

    fits: int
    shares: tuple[Share, ...]
    pairs: int
    stable: tuple[str, ...]
    cutoff: float
    expected_false: float
    failed: int = 0


@dataclass(frozen=True)
class Sensitivity:
    """How far the result depends on the setting that matters most.

    Parameters
    ----------
    axis : str
        The setting: ``"penalty"``, or ``"threshold"`` for the paper's method.
    message : str
        Over which multiples of it the result stays the same, and what is next.
    chosen : float
        The multiple with the least extended BIC among those tried.
    agrees : bool
        Whether the edges are the same there.
    """

    axis: str
    message: str
    chosen: float
    agrees: bool


@dataclass(frozen=True)
class Selection:
    """How a target for the share of false edges shortened the list.

    Parameters
    ----------
    fdr : float
        Largest expected share of false edges.
    found : int
        Edges before that.
    """

    fdr: float
    found: int


@dataclass(frozen=True)
class GlobalTest:
    """A test of "nothing changed": the covariances of both conditions are the same.

    Parameters
    ----------
    pvalue : float
    permutations : int
        Permutations of the rows among the conditions that it rests on.
    statistics : dict of str to float
        P-value of each statistic that it combines.
    """

    pvalue: float
    permutations: int
    statistics: dict[str, float]


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
