"""From how often resamples found a change to the probability that it is right.

The share of resamples is not a probability: a change that is found in half of them is right in four of five
cases, because the search asks for much, and one that is found in a tenth of them hardly ever. How shares and
truth go together was measured on simulated data sets of many kinds (docs/trust.md). The log-odds of being
right rise along a straight line with the log-odds of the share; the lines differ a little by
what is claimed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Curve:
    """Log-odds of being right where half of the resamples agree, and how they rise with those of the share."""

    level: float
    slope: float

    def __call__(self, share: float, fits: int) -> float:
        """Probability that a change found in this share of some fits is right.

        Half a fit is added on either side: of few fits even all do not make certain.

        Examples
        --------
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
