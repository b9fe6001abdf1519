"""Settings the user left open, chosen from the data.

The constants were chosen on simulated pairs (p = 10, 6 neighbours, seeds 100000 to 100039) and are reported on
others: docs/settings.md has the figures and the command.
"""

from __future__ import annotations

import math
from dataclasses import replace

from diffdag.moments import Moments
from diffdag.precision.dtrace import solve_dtrace
from diffdag.precision.problem import Penalty, standardise

PENALTY_RATE = 0.1
THRESHOLD_RATE = 3.5
LARGEST_THRESHOLD = 0.15
# Entries of exact precision differences, in units of partial correlations, that are rounding errors.
EXACT_THRESHOLD = 1e-8

# Beyond so many variables the penalty must also keep the difference sparse, with so many entries a variable.
FEW_VARIABLES = 16
ENTRIES_PER_VARIABLE = 4
FRACTIONS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def default_penalty(first: Moments, second: Moments) -> Penalty:
    """The paper's ``c sqrt(log p / n)``; for many variables more, until the difference is sparse.

    Sparse means that the D-trace estimate, which is quick and close to the linear programme, has at most 4
    entries for each variable. With fewer rows than variables smaller penalties allow no solution at all.
    """
    p = len(first.names)
    rate = f"rate:{PENALTY_RATE}"
    if p <= FEW_VARIABLES:
        return rate
    problem = standardise(first, second)
    least = PENALTY_RATE * math.sqrt(math.log(p) / min(first.n, second.n)) / problem.penalty_max
    chosen = 1.0
    for fraction in reversed((least, *(f for f in FRACTIONS if f > least))):
        rough = solve_dtrace(replace(problem, penalty=fraction * problem.penalty_max), 1e-3, max_rounds=20)
        if rough.delta.nnz > ENTRIES_PER_VARIABLE * p:
            break
        chosen = fraction
    return rate if chosen == least else chosen


def default_threshold(p: int, n: int) -> float:
    """The paper's epsilon: a multiple of ``sqrt(log p / n)``, but not so large that nothing is found.

    >>> default_threshold(10, 341), round(default_threshold(10, 18658), 4)
    (0.15, 0.0389)
    """
    return min(LARGEST_THRESHOLD, THRESHOLD_RATE * math.sqrt(math.log(p) / n))
