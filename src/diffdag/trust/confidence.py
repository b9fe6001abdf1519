"""From how often resamples found a change to the probability that it is right.

The share of resamples is not a probability: a change that is found in half of them is right in four of five
cases, because the search asks for much, and one that is found in a tenth of them hardly ever. How shares and
truth go together was measured on simulated data sets of many kinds (docs/dev/trust_measured.md). The log-odds
of being right rise along a straight line with the log-odds of the share; the lines differ a little by what is
claimed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from diffdag.results.difference import Difference
from diffdag.results.records import Edge, Share, Stability
from diffdag.trust.stability import expected_false_bound

if TYPE_CHECKING:
    from diffdag.trust.resampling import Resamples

# Share of halves in which a pair has to be found to count as stable.
CUTOFF = 0.75


@dataclass(frozen=True)
class Curve:
    """Log-odds of being right where half of the resamples agree, and how they rise with those of the share."""

    level: float
    slope: float

    def __call__(self, share: float, fits: int) -> float:
        """Probability that a change found in this share of some fits is right.

        Half a fit is added on either side: of few fits even all do not make certain.

        >>> [round(DIRECTED(share, 100), 2) for share in (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)]
        [0.0, 0.14, 0.36, 0.56, 0.83, 0.95, 1.0]
        """
        odds = (share * fits + 0.5) / ((1 - share) * fits + 0.5)
        return 1 / (1 + math.exp(-self.level - self.slope * math.log(odds)))


# By maximum likelihood on data sets that are not those of the report (benchmarks/confidence.py --choose). For
# directed edges 1.4 and 1.4 came out there, more than 2 on data sets that are easier: a value between.
DIRECTED = Curve(1.6, 1.6)
PAIR = Curve(2.0, 1.8)
NOISE = Curve(0.6, 1.4)
MEAN = Curve(-0.1, 1.4)
GAIN = NOISE


def add_confidence(result: Difference, bootstrap: Resamples, halves: Resamples) -> Difference:
    """Give each change a probability, and the stable pairs a bound on the false ones among them."""
    fits = bootstrap.answers
    shares = {frozenset((share.source, share.target)): share for share in bootstrap.shares}
    noise, mean, gain = (bootstrap.share_of(what) for what in ("noise", "mean", "gain"))
    return replace(
        result,
        edge_list=tuple(replace(edge, confidence=_confidence(edge, shares, fits)) for edge in result.edge_list),
        gain_list=tuple(
            replace(change, confidence=GAIN(gain.get(change.variable, 0.0), fits))
            for change in result.gain_list
        ),
        noise_list=tuple(
            replace(change, confidence=NOISE(noise.get(change.variable, 0.0), fits))
            for change in result.noise_list
        ),
        mean_list=tuple(
            replace(change, confidence=MEAN(mean.get(change.variable, 0.0), fits))
            for change in result.mean_list
        ),
        stability=_stability(bootstrap, halves),
        settings={**result.settings, "confidence_fits": fits},
    )


def _confidence(edge: Edge, shares: dict[frozenset[str], Share], fits: int) -> float:
    share = shares.get(frozenset((edge.source, edge.target)))
    if share is None:
        return PAIR(0.0, fits)
    if not edge.directed:
        return PAIR(share.found, fits)
    return DIRECTED(share.directed if edge.source == share.source else share.reversed, fits)


def _stability(bootstrap: Resamples, halves: Resamples) -> Stability:
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
    )
