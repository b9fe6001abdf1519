"""Which variables take part, where they are too many to order all of them.

Regressions along an order need more rows than variables, and the search takes hours for many variables. So
first each variable is regressed on its shared neighbourhood (see `neighbourhood`), which removes what is the
same in both conditions and with it most of the noise. Where the effect of ``j`` on ``i`` changed, the
covariance of what is left of ``i`` with ``j`` differs between the conditions,

    T[i, j] = |cov1(e_i, X_j) - cov2(e_i, X_j)| / standard error,

and where the noise of ``i`` changed, the variance of ``e_i``. Pairs with a large T are candidates. The search
gets them and, as long as there is room, their neighbourhoods: it needs those to see as sharply.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import ndtri

from diffdag._base.arrays import FloatArray
from diffdag._base.progress import ProgressCallback
from diffdag._base.words import plural
from diffdag.ordersearch.neighbourhood import Neighbourhoods, find_neighbourhoods
from diffdag.precision.problem import Blocks, SparseProblem
from diffdag.precision.scan import above

# No more variables than this are ordered unless asked for, and then no more than HIGHEST; nor ever more than
# rows / ROWS_PER_VARIABLE of the smaller table.
MOST, HIGHEST = 200, 500
ROWS_PER_VARIABLE = 1.5
# So many pairs, and so many variances, are expected to look changed by chance.
CHANCE_PAIRS, CHANCE_VARIANCES = 10.0, 1.0
CANDIDATES = 10_000


def silent(done: int, total: int | None, what: str) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Screened:
    """The columns to search on, and what to tell about the others."""

    ranked: Sequence[int]  # the most important first
    settings: dict[str, object] = field(default_factory=dict)

    @property
    def members(self) -> list[int]:
        """In the order of the columns."""
        return sorted(self.ranked)

    def at_most(self, count: int) -> Screened:
        """The most important ones."""
        return replace(self, ranked=self.ranked[:count])


def most_variables(rows: int, asked: int | None = None) -> int:
    """So many variables are ordered with so many rows in the smaller table; the user may ask for a number."""
    return min(MOST if asked is None else min(asked, HIGHEST), _allowed(rows))


def _allowed(rows: int) -> int:
    return max(2, int(rows / ROWS_PER_VARIABLE))


def screen(
    problem: SparseProblem, n1: int, n2: int, most: int, progress: ProgressCallback = silent
) -> Screened:
    """The variables that seem to take part in a change, and their neighbours, up to `most`."""
    around = find_neighbourhoods(problem, n1, n2, progress)
    progress(0, 1, "Looking for changes")
    suspects = _suspects(problem, around, n1, n2)
    return Screened(_with_neighbours(suspects, around, most), {"suspects": len(suspects)})


def screening_note(p: int, kept: int, rows: int, asked: int | None = None) -> str:
    """What a user should know about variables that were not ordered."""
    most = most_variables(rows, asked)
    reason = "you asked for" if most == asked else "the search can take"
    if most == _allowed(rows):
        reason = f"{rows} rows can order"
    return (
        f"{plural(p - kept, 'variable')} of {p} were screened out before the search, because {reason} "
        f"at most {most}. Changes there are not seen, and weights are given the variables that were kept"
    )


def _suspects(problem: SparseProblem, around: Neighbourhoods, n1: int, n2: int) -> list[int]:
    """Variables in pairs that look changed, and variables whose noise does, the clearest first."""
    p = problem.p
    seen: FloatArray = np.zeros(p)
    pairs = above(_statistics(problem, around, n1, n2, seen), _bound(CHANCE_PAIRS, p * p), CANDIDATES)
    strength = {int(k): float(seen[k]) for k in np.flatnonzero(seen > _bound(CHANCE_VARIANCES, p))}
    for i, j, value in zip(*pairs.entries, pairs.sizes, strict=True):
        for k in (int(i), int(j)):
            strength[k] = max(strength.get(k, 0.0), float(value))
    return sorted(strength, key=lambda k: -strength[k])


def _bound(chance: float, tests: int) -> float:
    """The absolute value that so many of so many standard normal variables are expected to exceed."""
    return float(-ndtri(min(0.5, chance / tests / 2)))


def _statistics(
    problem: SparseProblem, around: Neighbourhoods, n1: int, n2: int, variances: FloatArray
) -> Blocks:
    """``T``, block by block; into `variances`, the same for the variances of what is left of each variable."""
    everything = np.arange(problem.p)
    left = around.residuals(everything)
    error = math.sqrt(1 / n1 + 1 / n2)
    for start, block in problem.mixture_blocks(left, 1.0, -1.0):
        part = slice(start, start + len(block))
        line = np.arange(len(block))
        own = left[part].tocoo()
        noise = np.bincount(own.row, own.data * block[own.row, own.col], minlength=len(block))
        variances[part] = np.abs(noise) / (around.variances[part] * error * math.sqrt(2))
        block[line, everything[part]] = 0.0
        yield start, np.divide(block, (np.sqrt(around.variances[part]) * error)[:, None], out=block)


def _with_neighbours(suspects: Sequence[int], around: Neighbourhoods, most: int) -> tuple[int, ...]:
    """Suspects, then neighbours of the clearest ones, as many as there is room for; at least two."""
    members = dict.fromkeys(suspects[:most])
    for k in [*suspects, *range(len(around.chosen))]:
        if len(members) >= most or (k not in members and len(members) >= 2):
            break
        members.update(dict.fromkeys([k, *around.of(k)][: most - len(members) + 1]))
    return tuple(members)[:most]
