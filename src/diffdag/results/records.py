"""The frozen records of a result: what changed, and what speaks for and against it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from diffdag._base.arrays import FloatArray
from diffdag._base.words import plural
from diffdag.model.sem import LinearSEM

if TYPE_CHECKING:
    from diffdag.tables.sorting import Switched

CHANGES = ("added", "removed", "strengthened", "weakened", "reversed-sign")
SUPPORTS = ("mechanism", "range", "unclear")
SEPARATOR = " | "  # of names in one cell of a table
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


def robustness_value(delta: float, stderr: float, freedom: float) -> float | None:
    """How strong a hidden common cause would have to be to explain a change of an effect away.

    It is the robustness value of Cinelli and Hazlett (2020), with the statistic ``t = delta / stderr`` of the
    difference and the degrees of freedom of both regressions together:

        RV = (sqrt(f^4 + 4 f^2) - f^2) / 2,     f = |t| / sqrt(freedom).

    In condition k, a cause that explains the share r of what the predecessors leave of the source, and of the
    target, moves the weight by at most ``S_k r / sqrt(1 - r)``, with S_k the residual spread of the target over
    that of the source. Both together move delta by at most ``(S_1 + S_2) r / sqrt(1 - r)``, whatever the cause
    does in either. As ``(S_1 + S_2)^2 <= (m_1 + m_2) (S_1^2 / m_1 + S_2^2 / m_2)`` with m_k degrees of freedom,
    which is ``freedom stderr^2``, no smaller share than RV suffices. None where no error is known.

    >>> round(robustness_value(0.5, 0.05, 1600), 2)
    0.22
    """
    if not (freedom > 0 and stderr > 0):
        return None
    f = abs(delta) / stderr / math.sqrt(freedom)
    # The formula above, without a difference of numbers that are nearly the same where f is large.
    return 2 / (1 + math.sqrt(1 + 4 / f**2)) if f > 0 else 0.0


def join_listed(names: Iterable[str]) -> str:
    """Several names in one cell of a table."""
    return SEPARATOR.join(names)


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

    Examples
    --------
    >>> edge = Edge("Raf", "Mek", change="weakened", weight_first=0.9, weight_second=0.4, delta=0.5)
    >>> str(edge)
    'Raf -> Mek'
    """

    source: str  #: name of a variable; for an undirected edge, the ends are in the order of the columns
    target: str  #: name of the other one
    directed: bool = True  #: False where the data do not tell cause from effect
    change: str | None = None  #: one of `CHANGES`; None for undirected edges
    weight_first: float | None = None  #: effect of source on target in the first condition, in the user's units
    weight_second: float | None = None  #: and in the second
    delta: float | None = None  #: `weight_first - weight_second`
    stderr: float | None = None  #: standard error of `delta`
    gain_of: str | None = (
        None  #: the target where its gain explains this change: all effects on it, times one factor
    )
    #: What a moved range leaves of the change: ``"mechanism"``, it stands; ``"range"``, a shared curve over
    #: another range explains it; ``"unclear"``, ranges hardly overlap. None if it was not looked at.
    support: str | None = None
    confidence: float | None = None  #: probability that something changed between the two (docs/trust.md)
    #: Probability that the arrow is right, given that something changed; none where that cannot be judged.
    direction: float | None = None
    low: float | None = None  #: lower end of the 95 % interval of `delta`, from rows not used in the search
    high: float | None = None  #: its upper end
    #: False where an order without this change, or with it in the other direction, scores within a penalty of
    #: the best; always true with the paper's method, which has no score.
    settled: bool = True
    #: Columns that explain the change about as well in place of the source, or of one end if the edge has no
    #: direction, the best first (docs/copies.md); none are known with the paper's method.
    stand_ins: tuple[str, ...] = ()
    #: `delta` in standardised units: times the standard deviation of the source over that of the target, each
    #: pooled over both conditions. Units of the columns do not matter to it.
    size: float | None = None
    #: Share of the residual variance of source and of target that a hidden common cause would at least have to
    #: explain to bring `delta` to zero; see `robustness_value`.
    robustness: float | None = None

    def __post_init__(self) -> None:
        if self.change is not None and self.change not in CHANGES:
            raise ValueError(f"change is {self.change!r}; expected one of {', '.join(CHANGES)}")
        if self.support is not None and self.support not in SUPPORTS:
            raise ValueError(f"support is {self.support!r}; expected one of {', '.join(SUPPORTS)}")
        if self.source == self.target:
            raise ValueError(f"an edge joins {self.source!r} with itself")
        if self.gain_of not in (None, self.source, self.target):
            raise ValueError(f"an edge has the gain of {self.gain_of!r}, which is not one of its ends")
        object.__setattr__(self, "directed", bool(self.directed))
        object.__setattr__(self, "stand_ins", tuple(self.stand_ins))
        super().__post_init__()

    @property
    def key(self) -> tuple[str, str, bool]:
        """What makes it the same edge in another comparison: source, target, directed."""
        return self.source, self.target, self.directed

    @property
    def known(self) -> dict[str, Any]:
        """What is known of it, by field, where there are no lists: names are joined."""
        joined = {
            key: join_listed(value) if isinstance(value, tuple) else value for key, value in vars(self).items()
        }
        return {key: value for key, value in joined.items() if value not in (None, "")}

    @property
    def kind(self) -> str:
        """The change in a word; ``"changed"`` if it is unknown, ``"undirected"`` without a direction."""
        return (self.change or "changed") if self.directed else "undirected"

    @property
    def magnitude(self) -> float | None:
        """How large the change is, whatever its sign: in standardised units, or in the user's without them."""
        value = self.delta if self.size is None else self.size
        return None if value is None else abs(value)

    @property
    def by_range(self) -> bool:
        """Whether a moved range explains the change, so that it does not count as one."""
        return self.support == "range"

    @property
    def judged(self) -> bool:
        """Whether the arrow can be judged: it says that an effect changed, which a moved range does not."""
        return self.directed and self.support not in ("range", "unclear")

    def __str__(self) -> str:
        return f"{self.source} {'->' if self.directed else '--'} {self.target}"


@dataclass(frozen=True)
class GainChange(_Record):
    """A variable whose gain changed: all effects on it are multiplied by one factor."""

    variable: str  #: its name
    factor: float | None = None  #: effects in the second condition, in multiples of those in the first
    stderr: float | None = None  #: standard error of `factor`
    pvalue: float | None = None  #: of a factor of one, for this variable alone; it does not know of the search
    confidence: float | None = None  #: probability that the claim is right, worked out from resamples


@dataclass(frozen=True)
class NoiseChange(_Record):
    """A variable whose noise variance changed: its own part, which its causes do not explain."""

    variable: str  #: its name
    variance_first: float | None = None  #: noise variance in the first condition, in the user's units
    variance_second: float | None = None  #: and in the second
    ratio: float | None = None  #: `variance_first / variance_second`
    pvalue: float | None = None  #: of equal variances, for this variable alone; it does not know of the search
    confidence: float | None = None  #: probability that the claim is right, worked out from resamples


@dataclass(frozen=True)
class MeanChange(_Record):
    """A variable whose intercept changed: its mean moved by more than its causes explain."""

    variable: str  #: its name
    mean_first: float | None = None  #: mean in the first condition
    mean_second: float | None = None  #: and in the second
    #: Change of the intercept at the common mean of the causes, first minus second: what is left of the
    #: difference of the means after what the variables before it in the causal order account for.
    delta: float | None = None
    stderr: float | None = None  #: standard error of `delta`
    pvalue: float | None = None  #: of no change, for this variable alone
    confidence: float | None = None  #: probability that the claim is right, worked out from resamples

    def divided(self, gain: float) -> MeanChange:
        """The change in other units: means and what follows from them divided by a number."""
        numbers = (self.mean_first, self.mean_second, self.delta, self.stderr)
        one, two, delta, stderr = (None if own is None else own / gain for own in numbers)
        return replace(self, mean_first=one, mean_second=two, delta=delta, stderr=stderr)


@dataclass(frozen=True)
class SwitchChange(_Record):
    """A variable that varies in one condition only; the others are compared without it.

    Examples
    --------
    >>> SwitchChange("Mek", "second", value=0.0).words(("control", "knock-out"))
    'switched off in knock-out'
    """

    variable: str  #: its name; it is not among the variables that are compared
    constant: str  #: the condition in which it does not vary, ``"first"`` or ``"second"``
    value: float | None = None  #: what it holds there
    mean: float | None = None  #: mean in the other condition
    spread: float | None = None  #: standard deviation there
    pvalue: float | None = None  #: of rows with another value being as rare in both (Fisher's exact test)
    odd: int = 0  #: rows of the condition in which it does not vary that hold another value after all
    held: str = ""  #: the text that the value stands for, if it does

    def __post_init__(self) -> None:
        if self.constant not in ("first", "second"):
            raise ValueError(f"constant is {self.constant!r}; expected 'first' or 'second'")
        super().__post_init__()

    @classmethod
    def of(cls, own: Switched) -> Self:
        """A column of two tables that was found to be one."""
        return cls(**{**own._asdict(), "constant": ("first", "second")[own.constant]})

    def words(self, labels: tuple[str, str]) -> str:
        """What happened to it between the conditions, given what to call these."""
        here, other = labels if self.constant == "first" else labels[::-1]
        if self.held:
            said = f"does not vary in {here}, where it is '{self.held}'"
        elif self.value == 0:
            said = f"switched off in {here}" if self.constant == "second" else f"switched on in {other}"
        else:
            said = f"does not vary in {here}"
        return f"{said} (but for {plural(self.odd, 'row')})" if self.odd else said


@dataclass(frozen=True)
class Node(_Record):
    """What changed of one variable."""

    variable: str  #: its name
    changed: bool  #: whether anything did
    effects: tuple[str, ...] = ()  #: variables whose effect on it changed; or may have, where direction is open
    gain: float | None = None  #: factor of all effects on it, second condition over first
    noise: float | None = None  #: ratio of its noise variances, first over second
    intercept: float | None = None  #: change of its intercept, first minus second; see `MeanChange`
    #: Of "nothing about its mechanism changed", given the causal order that was found; see `NodeTest`.
    pvalue: float | None = None
    #: Smallest false-discovery rate at which it is among the changed variables (Benjamini and Yekutieli 2001).
    qvalue: float | None = None
    confidence: float | None = None  #: probability that its mechanism changed, worked out from resamples
    note: str = ""  #: what else is known of it, such as "switched off in knock-out"


@dataclass(frozen=True)
class NodeTest(_Record):
    """A test of "nothing about this variable's mechanism changed": effects on it, noise, intercept.

    Examples
    --------
    >>> NodeTest("Mek", pvalue=0.002, evidence=2.7).pvalue
    0.002
    """

    variable: str  #: its name
    pvalue: float | None = None  #: given the causal order that was found; it does not know of other variables
    #: Minus its decimal logarithm, also where the p-value is too small for a number.
    evidence: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= (self.pvalue or 0.0) <= 1 or (self.evidence or 0.0) < 0:
            raise ValueError(f"the test of {self.variable!r} has the p-value {self.pvalue!r}")


class Claims(NamedTuple):
    """What a fit claims to have changed, by name and without estimates."""

    edges: tuple[tuple[str, str, bool], ...]  #: source, target, and whether directed
    noise: tuple[str, ...] = ()  #: variables whose noise variance changed
    mean: tuple[str, ...] = ()  #: variables whose intercept changed
    gain: tuple[str, ...] = ()  #: variables whose gain changed


def estimated_edge(
    source: str,
    target: str,
    weights: tuple[float, float],
    errors: tuple[float, float],
    stderr: float,
    freedom: float,
) -> Edge:
    """A directed edge with weights in both conditions, their standard errors and that of their difference.

    `freedom` are the degrees of freedom of both regressions together.
    """
    (before, after), (error1, error2) = weights, errors
    absent = abs(before) <= ABSENT_ERRORS * error1, abs(after) <= ABSENT_ERRORS * error2
    change = classify_change(before, after, *absent)
    robustness = robustness_value(before - after, stderr, freedom)
    return Edge(source, target, True, change, before, after, before - after, stderr, robustness=robustness)


def with_sizes(edges: Iterable[Edge], names: Sequence[str], scales: FloatArray) -> tuple[Edge, ...]:
    """Give edges their size, from the pooled standard deviation of each variable.

    >>> import numpy as np
    >>> with_sizes([Edge("Raf", "Mek", delta=0.5)], ["Raf", "Mek"], np.array([2.0, 4.0]))[0].size
    0.25
    """
    scale = dict(zip(names, scales.tolist(), strict=True))
    return tuple(
        edge
        if edge.delta is None
        else replace(edge, size=edge.delta * (scale[edge.source] / scale[edge.target]))
        for edge in edges
    )


def model_edges(directed: Iterable[tuple[int, int]], first: LinearSEM, second: LinearSEM) -> tuple[Edge, ...]:
    """Directed edges (effect, cause) with the weights of two models."""
    edges = []
    for i, j in sorted(directed):
        before, after = float(first.weights[i, j]), float(second.weights[i, j])
        change = classify_change(before, after, before == 0, after == 0) if before != after else None
        edges.append(Edge(first.names[j], first.names[i], True, change, before, after, before - after, 0.0))
    return tuple(edges)


@dataclass(frozen=True)
class UnitEffect(_Record):
    """A changed effect within one unit that rows are nested in, such as a donor."""

    source: str  #: where the edge starts
    target: str  #: where it ends
    condition: int  #: 1 for the first condition, 2 for the second
    nested_in: str  #: what the units are: the column that names them
    unit: str  #: which unit
    rows: int  #: that it has in this condition
    weight: float | None = None  #: effect of source on target in its rows, in the user's units
    stderr: float | None = None  #: standard error of `weight`, from its rows alone


@dataclass(frozen=True)
class Check(_Record):
    """Whether one assumption looks right on these data."""

    name: str  #: a short name, the same for every result
    passed: bool  #: False if the data speak against it
    message: str  #: what was seen, what it means and what to do, in one sentence
    value: float | None = None  #: the number that decided
    limit: float | None = None  #: what it was compared with
    edges: tuple[str, ...] = ()  #: the edges that it speaks against, as ``"source -> target"``; none: the whole


@dataclass(frozen=True)
class Ways:
    """In what share of some fits a pair of variables changed; `found` is the sum of the three ways after it."""

    fits: int = 0  #: fits in which both variables took part: what the shares are shares of
    found: float = 0.0  #: share with the pair
    directed: float = 0.0  #: share with an edge from source to target
    reversed: float = 0.0  #: from target to source
    undirected: float = 0.0  #: without direction


@dataclass(frozen=True)
class Share:
    """How often a pair of variables changed in resamples; `found` is the sum of the three ways after it."""

    source: str  #: the cause in most of the resamples that direct the pair
    target: str  #: the other variable
    found: float  #: share of resamples, of those that leave the specification as it is, with the pair
    directed: float  #: share with an edge from source to target
    reversed: float  #: from target to source
    undirected: float  #: without direction
    varied: Ways = Ways()  #: among the resamples that vary the specification as well


@dataclass(frozen=True)
class Stability:
    """What fits to resamples of both tables found."""

    fits: int  #: fits to bootstrap samples, drawn with replacement, that gave a result
    shares: tuple[Share, ...]  #: every pair found in some of them, most often found first
    pairs: int  #: complementary pairs of halves of the rows that were fitted too
    stable: tuple[str, ...]  #: pairs found in at least `cutoff` of the halves, as ``"source -> target"``
    cutoff: float  #: a share of the halves
    #: Bound on the expected number of pairs among the stable ones that a fit to half of the rows finds no more
    #: often than a pair taken at random (Shah and Samworth 2013).
    expected_false: float
    failed: int = 0  #: fits of both kinds without a result; they do not count
    #: Fits to bootstrap samples that varied the specification as well (columns left out, values winsorised,
    #: rows outside a range left out), and gave a result; `fits` does not count them.
    varied: int = 0
    asked: int | None = None  #: fits of all kinds that were asked for, if the numbers had settled before


@dataclass(frozen=True)
class Sensitivity:
    """How far the result depends on the setting that matters most."""

    axis: str  #: the setting: ``"penalty"``, or ``"threshold"`` for the paper's method
    message: str  #: over which multiples of it the result stays the same, and what is next
    chosen: float  #: the multiple with the least extended BIC among those tried
    agrees: bool  #: whether the edges are the same there
    gone: tuple[str, ...] = ()  #: edges whose pair is not found at the next larger setting tried


@dataclass(frozen=True)
class Selection:
    """How a target for the share of false edges shortened the list."""

    fdr: float  #: largest expected share of false edges
    found: int  #: edges before that
    left_out: tuple[Edge, ...] = ()  #: edges that were found, and are not sure enough to be listed


@dataclass(frozen=True)
class GlobalTest:
    """A test of "nothing changed": the covariances of both conditions are the same."""

    pvalue: float  #: of no change at all
    permutations: int  #: permutations of the rows among the conditions that it rests on
    statistics: dict[str, float]  #: p-value of each statistic that it combines
    least: float | None = None  #: the smallest p-value that so few units of nested rows allow


@dataclass(frozen=True)
class Cloud:
    """One condition: points, possibly none, and the line through them."""

    x: tuple[float, ...]  #: the source in some of the rows
    y: tuple[float, ...]  #: the target in them
    slope: float  #: of the line
    intercept: float  #: of the line
    low: float  #: where the line starts: two standard deviations of the source below its mean
    high: float  #: where it ends, as far above
    noise: float  #: standard deviation of the target around the line

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError("a scatter has different numbers of x and y")


@dataclass(frozen=True)
class EdgeScatter:
    """A changed edge in both conditions."""

    source: str  #: where the edge starts
    target: str  #: where it ends
    adjusted: bool  #: whether the target is shown less what its other predecessors contribute
    scores: bool  #: whether both are on the scale that ranks suggest, not in the units of the columns
    first: Cloud  #: the first condition
    second: Cloud  #: the second condition
