"""From how often resamples found a change to the probability that it is right.

An edge has two: that something changed between its two variables (`confidence`), and, given that, that the
arrow is right: that the effect of its source on its target is what changed (`direction`). The second is given
where `support` says that the effect changed; a moved range has no arrow. The share of resamples is neither: a
wrong model is found again in every bootstrap sample. How both go together with what is true was measured over a
population of worlds most of which break what the method assumes (benchmarks/broken_worlds.py, docs/trust.md):
the log-odds of being right rise with those of the share of fits that vary the specification, and fall with what
speaks against the claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from diffdag._base.arrays import BoolArray
from diffdag.results.difference import Difference
from diffdag.results.records import Edge, Share, Stability, Ways
from diffdag.trust.stability import expected_false_bound

if TYPE_CHECKING:
    from diffdag.trust.resampling import Resamples

Other = Literal["noise", "mean", "gain"]

# Share of halves in which a pair has to be found to count as stable.
CUTOFF = 0.75
# More fits than this make a share exact, but a wrong model no less wrong.
COUNTED = 15
# Checks of which it matters that they fail: they speak of the form of the model.
FORM = frozenset(
    {
        *("independent rows", "measurement error", "noise levels", "normality"),
        *("order", "outliers", "range", "remedy", "reversals"),
    }
)
# The numbers have settled when the Monte-Carlo error of each, one standard deviation, is no larger than this.
SETTLED = 0.015


class Votes(NamedTuple):
    """Fits for something, and against it."""

    ayes: float
    noes: float

    @classmethod
    def of(cls, share: float, fits: int) -> Votes:
        """A share of some fits, and the others."""
        return cls(share * fits, (1 - share) * fits)

    @property
    def log_odds(self) -> float:
        """Half a fit is added on either side: of few fits even all do not make certain."""
        return math.log((self.ayes + 0.5) / (self.noes + 0.5))

    @property
    def variance(self) -> float:
        """Of the log-odds, by which fits happened to be made (Gart and Zweifel 1967)."""
        return 1 / (self.ayes + 0.5) + 1 / (self.noes + 0.5)


@dataclass(frozen=True)
class Curve:
    """Log-odds of being right where fits are divided, and how they rise with those of fits and with facts."""

    level: float
    slope: float
    rises: Mapping[str, float] = field(default_factory=dict)  # by the name of a fact

    def __call__(self, votes: Votes, facts: Facts | None = None) -> float:
        """Probability of being right.

        >>> [round(NOISE(Votes.of(share, 100)), 2) for share in (0.0, 0.1, 0.3, 0.5, 0.7, 1.0)]
        [0.0, 0.08, 0.36, 0.65, 0.85, 1.0]
        """
        odds = self.level + self.slope * votes.log_odds
        if facts is not None:
            odds += sum(rise * getattr(facts, name) for name, rise in self.rises.items())
        return 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0

    def error(self, votes: Votes, fits: int, facts: Facts | None = None) -> float:
        """Standard deviation of the probability, by which of so many fits happened to be made."""
        chance, counted = self(votes, facts), votes.ayes + votes.noes
        return chance * (1 - chance) * self.slope * math.sqrt(votes.variance * counted / max(fits, 1))


# By maximum likelihood (benchmarks/worlds.py calibrate), over worlds that are not those of the report.
PAIR = Curve(-0.51, 0.69, {"steady": 0.59})
DIRECTION = Curve(2.30, 0.73, {"failed": -0.51, "unsettled": -1.44})
# Of plain fits alone.
NOISE = Curve(0.6, 1.4)
MEAN = Curve(-0.1, 1.4)
GAIN = NOISE
OTHERS: dict[Other, Curve] = {"noise": NOISE, "mean": MEAN, "gain": GAIN}


class Evidence(NamedTuple):
    """What resamples say about an edge; of those that vary the specification at most `COUNTED` count."""

    pair: Votes  # varied fits with the pair, and without it
    direction: Votes  # varied fits with the pair: in this direction, and in the other
    plain: Votes  # plain fits with the pair: in this direction, and in the other
    fits: int

    @classmethod
    def of(cls, source: str, share: Share, fits: int) -> Evidence:
        """The evidence for an edge with this source; where no fit varies anything, plain ones count."""
        plain = Ways(fits, share.found, share.directed, share.reversed, share.undirected)
        ways = share.varied if share.varied.fits else plain
        turned = source != share.source
        found = Votes.of(ways.found, min(ways.fits, COUNTED))
        return cls(found, _directions(ways, turned), _directions(plain, turned), ways.fits)


def _directions(ways: Ways, turned: bool) -> Votes:
    """Fits with one direction and with the other, as if they were at most `COUNTED`."""
    both = [way + ways.undirected / 2 for way in (ways.directed, ways.reversed)]
    ahead, back = both[::-1] if turned else both
    counted = min(round(ways.fits * (ahead + back)), COUNTED)
    return Votes.of(ahead / (ahead + back) if ahead + back else 0.5, counted)


class Facts(NamedTuple):
    """What is known of an edge besides varied fits, as numbers that log-odds are lines in."""

    steady: float  # log-odds of its direction, or of either if it has none, among plain fits with the pair
    unsettled: float  # 1 if another order does about as well without it, or the other way round
    failed: float  # checks of the model's form that fail

    @classmethod
    def about(cls, edge: Edge, evidence: Evidence, result: Difference) -> Facts:
        """What is known of an edge of a result."""
        failed = sum(check.name in FORM and not check.passed for check in result.checks)
        steady = evidence.plain.log_odds
        return cls(steady if edge.directed else abs(steady), float(not edge.settled), float(failed))


def add_confidence(
    result: Difference, bootstrap: Resamples, halves: Resamples, asked: int, known: BoolArray | None = None
) -> Difference:
    """Give each change a probability, and the stable pairs a bound on the false ones among them.

    So many fits were `asked` for. ``known[a, b]`` if a had to precede b in all fits: of such a direction they
    say nothing.
    """
    place = {name: k for k, name in enumerate(result.variables)}

    def judged(edge: Edge, evidence: Evidence) -> Edge:
        free = known is None or not known[place[edge.source], place[edge.target]]
        facts = Facts.about(edge, evidence, result)
        direction = DIRECTION(evidence.direction, facts) if edge.judged and free else None
        return replace(edge, confidence=PAIR(evidence.pair, facts), direction=direction)

    lists: dict[str, Any] = {}
    for what, curve in OTHERS.items():
        votes = _votes(bootstrap, what)
        changes = getattr(result, f"{what}_list")
        lists[f"{what}_list"] = tuple(replace(c, confidence=curve(votes(c.variable))) for c in changes)
    stability = _stability(bootstrap, halves, asked)
    settings = {**result.settings, "confidence_fits": stability.fits + stability.varied}
    if stability.asked:
        settings["resamples"] = settled_words(stability)
    return replace(
        result,
        edge_list=tuple(judged(edge, evidence) for edge, evidence in _evidence(result, bootstrap)),
        **lists,
        stability=stability,
        settings=settings,
    )


def settled(result: Difference, bootstrap: Resamples) -> bool:
    """Whether more fits would hardly move any of the probabilities of a result."""
    errors = []
    for edge, evidence in _evidence(result, bootstrap):
        facts = Facts.about(edge, evidence, result)
        errors.append(PAIR.error(evidence.pair, evidence.fits, facts))
        if edge.judged:
            errors.append(DIRECTION.error(evidence.direction, evidence.fits, facts))
    for what, curve in OTHERS.items():
        votes = _votes(bootstrap, what)
        fits = bootstrap.answers
        errors += [curve.error(votes(change.variable), fits) for change in getattr(result, f"{what}_list")]
    return max(errors, default=0.0) <= SETTLED


def settled_words(stability: Stability) -> str:
    """That resamples ended early, and why."""
    made = stability.fits + stability.varied + 2 * stability.pairs + stability.failed
    return f"stopped after {made} of {stability.asked}: the numbers had settled"


def _evidence(result: Difference, bootstrap: Resamples) -> Iterator[tuple[Edge, Evidence]]:
    """Every edge with what resamples say about it."""
    shares = {frozenset((share.source, share.target)): share for share in bootstrap.shares}
    for edge in result.edge_list:
        nowhere = Share(edge.source, edge.target, 0.0, 0.0, 0.0, 0.0, Ways(len(bootstrap.changed)))
        share = shares.get(frozenset((edge.source, edge.target)), nowhere)
        yield edge, Evidence.of(edge.source, share, bootstrap.answers)


def _votes(bootstrap: Resamples, what: Other) -> Callable[[str], Votes]:
    """Plain fits in which the noise variance, intercept or gain of a variable changed, and the others."""
    shares = bootstrap.share_of(what)
    return lambda name: Votes.of(shares.get(name, 0.0), bootstrap.answers)


def _stability(bootstrap: Resamples, halves: Resamples, asked: int) -> Stability:
    p, pairs = len(bootstrap.names), halves.answers // 2
    found = sum(len(edges) for edges in halves.found) / halves.answers
    stable = [share for share in halves.shares if share.found >= CUTOFF]
    return Stability(
        fits=bootstrap.answers,
        shares=bootstrap.shares,
        pairs=pairs,
        stable=tuple(f"{share.source} -> {share.target}" for share in stable),
        cutoff=CUTOFF,
        expected_false=expected_false_bound(found, p * (p - 1) // 2, CUTOFF, pairs),
        failed=len(bootstrap.failed) + len(halves.failed),
        varied=len(bootstrap.changed),
        asked=asked if len(bootstrap.found) + len(halves.found) < asked else None,
    )
