"""Settings the user left open, chosen from the data.

The constants were chosen on simulated pairs (p = 10, 6 neighbours, seeds 100000 to 100039) and are reported on
others: docs/dev/settings_measured.md has the figures and the command.
"""

from __future__ import annotations

import math

from diffdag.precision.dantzig import solve_dantzig
from diffdag.precision.dtrace import Start, descend
from diffdag.precision.problem import DifferenceProblem, Penalty, standardise
from diffdag.tables.moments import Moments

PENALTY_RATE = 0.1
# The threshold is LARGE_RATE sqrt(log p / n) with many rows, at least SMALL_RATE of it with few.
LARGE_RATE, SMALL_RATE, MIDDLE = 3.5, 1.83, 0.15
# Entries of exact precision differences, in units of partial correlations, that are rounding errors.
EXACT_THRESHOLD = 1e-8

# Beyond so many variables the penalty must also keep the difference sparse, with so many entries per variable.
FEW_VARIABLES = 16
ENTRIES_PER_VARIABLE = 4
FRACTIONS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def default_penalty(first: Moments, second: Moments) -> tuple[Penalty, str]:
    """The paper's ``c sqrt(log p / n)``; more where that would not give a sparse difference.

    Many variables, or no more than twice as many rows as variables, ask for more: the smallest fraction on a
    grid at which the D-trace estimate, which is quick and close to the linear programme, has a solution with
    at most 4 entries for each variable. Also returned: a note for the user, empty if it is the paper's.
    """
    p, n = len(first.names), min(first.n, second.n)
    rate = f"rate:{PENALTY_RATE}"
    problem = standardise(first, second)
    if (p <= FEW_VARIABLES and n > 2 * p) or problem.penalty_max == 0:
        return rate, ""
    least = PENALTY_RATE * math.sqrt(math.log(p) / n) / problem.penalty_max
    sparse: list[tuple[float, Start | None]] = [(1.0, None)]
    for fraction in reversed((least, *(f for f in FRACTIONS if f > least))):
        trial = problem.at_penalty(fraction * problem.penalty_max)
        rough, start = descend(trial, sparse[-1][1], 1e-2 * trial.penalty, max_rounds=20, max_sweeps=100)
        if rough.violation > 1e-2 * trial.penalty or rough.delta.nnz > ENTRIES_PER_VARIABLE * p:
            break
        sparse.append((fraction, start))
    while n <= p and len(sparse) > 1 and not _solvable(problem, *sparse[-1]):
        sparse.pop()
    chosen = sparse[-1][0]
    if chosen == least:
        return rate, ""
    return chosen, (
        f"the penalty was raised to {chosen:g} of the one that gives no change, to keep the difference sparse; "
        "a smaller penalty finds weaker changes, but needs more time and more rows"
    )


def _solvable(problem: DifferenceProblem, fraction: float, start: Start | None) -> bool:
    """Whether there is a solution and not just almost one: singular matrices may leave none.

    Where the descent, which is quick, cannot tell, the linear programme does.
    """
    trial = problem.at_penalty(fraction * problem.penalty_max)
    return descend(trial, start)[0].converged or solve_dantzig(trial).converged


def default_threshold(p: int, n: int) -> float:
    """The paper's epsilon: a multiple of ``sqrt(log p / n)``, less with few rows to find anything at all."""
    rate = math.sqrt(math.log(p) / n)
    return max(SMALL_RATE * rate, min(MIDDLE, LARGE_RATE * rate))
