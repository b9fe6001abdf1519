"""Which variables take part, where they are too many to order all of them.

Regressions along an order need more rows than variables. Where there are not enough, or so many variables
that the search would take hours, the D-trace estimate of the precision difference, which is sparse and quick,
says which variables take part: those with an entry in their row. Its penalty is the smallest on a grid that
leaves no more variables than the search can take: a variable lost here is lost for good, one too many only
costs time. Variables outside have the same precision entries in both conditions, and leaving those out of
both tables leaves the difference among the others as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from diffdag.moments import Moments
from diffdag.precision.dtrace import solve_dtrace
from diffdag.precision.problem import standardise
from diffdag.validation import plural

# No more variables than this are ordered, nor more than rows / ROWS_PER_VARIABLE of the smaller table.
MOST = 200
ROWS_PER_VARIABLE = 1.5
FRACTIONS = tuple(np.geomspace(0.95, 0.05, 40))
# The screen needs the support only.
TOLERANCE = 1e-2


@dataclass(frozen=True)
class Screened:
    """The columns to search on, and what to tell about the others."""

    members: tuple[int, ...]
    settings: dict[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def screen(first: Moments, second: Moments) -> Screened:
    """All variables if rows and time allow, else those that take part in the D-trace difference."""
    p = len(first.names)
    most = max(2, min(MOST, int(min(first.n, second.n) / ROWS_PER_VARIABLE)))
    if p <= most:
        return Screened(tuple(range(p)), {"screened_out": []})
    fraction, members = _smallest_penalty(first, second, most)
    reason = f"{min(first.n, second.n)} rows can order" if most < MOST else "the search can take"
    note = (
        f"{plural(p - len(members), 'variable')} of {p} were screened out before the search, because {reason} "
        f"at most {most}. Changes there are not seen, and weights are given the variables that were kept"
    )
    kept = set(members)
    out = [name for k, name in enumerate(first.names) if k not in kept]
    return Screened(members, {"screened_out": out, "screening_penalty": fraction}, (note,))


def _smallest_penalty(first: Moments, second: Moments, most: int) -> tuple[float, tuple[int, ...]]:
    problem = standardise(first, second)
    # Where no penalty does, the variables of which the covariances differ most.
    largest = np.argsort(-np.abs(problem.target).max(axis=1), kind="stable")[:most]
    chosen: tuple[float, tuple[int, ...]] = (1.0, tuple(sorted(largest.tolist())))
    for fraction in FRACTIONS:
        trial = replace(problem, penalty=fraction * problem.penalty_max)
        answer = solve_dtrace(trial, TOLERANCE * trial.penalty, max_rounds=20, max_sweeps=100)
        if answer.violation > TOLERANCE * trial.penalty:
            break
        rows, columns = answer.delta.nonzero()
        members = tuple(np.union1d(rows, columns).tolist())
        if len(members) > most:
            break
        if len(members) < 2:
            continue
        chosen = (float(fraction), members)
    return chosen
