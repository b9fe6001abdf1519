"""What speaks for and against an answer: resamples, a test of no change at all, checks of assumptions."""

from __future__ import annotations

from dataclasses import dataclass

from diffdag.changes import plain_numbers


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
    kind : str
        ``"bootstrap"`` or ``"half"``.
    fits : int
        Fits with an answer.
    failed : int
        Fits without one; they do not count.
    shares : tuple of Share
        Every pair found in some resample, most often found first.
    cutoff : float, optional
        Pairs in at least this share of the resamples count as stable.
    expected_false : float, optional
        Bound on the expected number of stable pairs that a single fit would hardly ever find (Shah and
        Samworth 2013); for halves only.
    """

    kind: str
    fits: int
    failed: int = 0
    shares: tuple[Share, ...] = ()
    cutoff: float | None = None
    expected_false: float | None = None

    def __post_init__(self) -> None:
        plain_numbers(self, ("cutoff", "expected_false"))
        object.__setattr__(self, "shares", tuple(self.shares))


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
