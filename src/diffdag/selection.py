"""Settings the user left open, chosen from the size of the data.

The constants were chosen on simulated pairs (p = 10, 6 neighbours, seeds 100000 to 100039; see
docs/settings.md) and are reported on others.
"""

from __future__ import annotations

import math

from diffdag.precision import Penalty

PENALTY_RATE = 0.1
THRESHOLD_RATE = 3.5
LARGEST_THRESHOLD = 0.15
# Entries of exact precision differences, in units of partial correlations, that are rounding errors.
EXACT_THRESHOLD = 1e-8


def default_penalty() -> Penalty:
    """The paper's ``c sqrt(log p / n)``."""
    return f"rate:{PENALTY_RATE}"


def default_threshold(p: int, n: int) -> float:
    """The paper's epsilon: a multiple of ``sqrt(log p / n)``, but not so large that nothing is found.

    >>> default_threshold(10, 341), round(default_threshold(10, 18658), 4)
    (0.15, 0.0389)
    """
    return min(LARGEST_THRESHOLD, THRESHOLD_RATE * math.sqrt(math.log(p) / n))
