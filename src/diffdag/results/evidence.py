"""What speaks for and against an answer: resamples, a test of no change at all, checks of assumptions."""

from __future__ import annotations

from dataclasses import dataclass

from diffdag.results.changes import plain_numbers


@dataclass(frozen=True)
class Check:
    """Whether one assumption looks right on these data.

    Parameters
    ----------
    name : str
        A short name, the same for every result.
    fine : bool
        False if the data speak against it.
    says : str
        What was seen, what it means and what to do, in one sentence.
    value : float, optional
        The number that decided.
    limit : float, optional
        What it was compared with.
    """

    name: str
    fine: bool
    says: str
    value: float | None = None
    limit: float | None = None

    def __post_init__(self) -> None:
        plain_numbers(self, ("value", "limit"))


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
        Fits to bootstrap samples, drawn with replacement, that gave an answer.
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
        Fits of both kinds without an answer; they do not count.
    """

    fits: int
    shares: tuple[Share, ...]
    pairs: int
    stable: tuple[str, ...]
    cutoff: float
    expected_false: float
    failed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "shares", tuple(self.shares))
        object.__setattr__(self, "stable", tuple(self.stable))


@dataclass(frozen=True)
class Sensitivity:
    """How far the answer depends on the setting that matters most.

    Parameters
    ----------
    axis : str
        The setting: ``"penalty"``, or ``"threshold"`` for the paper's method.
    says : str
        Over which multiples of it the answer stays the same, and what is next.
    chosen : float
        The multiple with the least extended BIC among those tried.
    agrees : bool
        Whether the edges are the same there.
    """

    axis: str
    says: str
    chosen: float
    agrees: bool


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
