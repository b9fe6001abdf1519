"""The arrangement of variables along which fewest intercepts change.

Let W be the scatter within the conditions, added up, and d the difference of the means times
``sqrt(n1 n2 / N)``. For a variable i whose effects and noise did not change, placed behind the variables S, the
likelihood ratio of a changed intercept is ``g(S + i) - g(S)`` with ``g(S) = N/2 log(1 + d_S' W_SS^-1 d_S)``.
The sum of all is the same for all arrangements; but changed intercepts are rare, so the arrangement that needs
fewest explains best. Minimal is the sum of

    min(likelihood ratio, penalty)

Arrangements that differ in the order of changed variables only cost the same. Of these the one counts whose
likelihood ratios are least alike, so that the order of the columns does not decide.

Up to `EXACT` variables all arrangements are compared, by dynamic programming over subsets. With more, variables
move to the place that lowers the sum most: one triangular factor tells what every move of one variable would do
(`moves`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from diffdag._base.arrays import BoolArray, FloatArray, IndexArray

# Up to so many variables all arrangements are compared; of more, EFFORT / variables starts, within limits.
EXACT, EFFORT, FEWEST, MOST = 11, 90, 1, 4
# A descent goes through these shares of the penalty: low penalties lead away from where no move pays at once.
SHARES = (0.25, 0.5, 1.0)
# What a move has to gain.
GRAIN = 1e-6
# The part of a likelihood ratio's root in the cost: above rounding, and too small for anything but ties.
TIE = 1e-7


@dataclass(frozen=True, eq=False)
class Run:
    """Variables to arrange: scatter and mean difference given what precedes them, see the header.

    `lead` is the ``d' W^-1 d`` of what precedes, `penalties` are those of the run's positions, `before` what is
    known.
    """

    scatter: FloatArray
    apart: FloatArray
    lead: float
    rows: int
    penalties: FloatArray
    before: BoolArray

    def ratio(self, distance: FloatArray) -> FloatArray:
        """The function g of the header."""
        ratio: FloatArray = self.rows / 2 * np.log1p(distance)
        return ratio


def arrange(run: Run) -> tuple[IndexArray, FloatArray]:
    """The best arrangement, and the likelihood ratio of each of its variables.

    >>> known = np.zeros((2, 2), bool)
    >>> scatter, apart = np.array([[1.0, 0.7], [0.7, 1.0]]), np.array([0.5, 0.35])
    >>> arrangement, ratios = arrange(Run(scatter, apart, 0.0, 100, np.array([3.0, 3.0]), known))
    >>> arrangement, ratios.round(3)  # a cause that moved, and took its effect along
    (array([0, 1]), array([11.157,  0.   ]))
    """
    m = len(run.apart)
    if m <= EXACT:
        arrangement = _best_of_all(run)
    else:
        rng, given = np.random.default_rng(0), np.arange(m)
        starts = min(MOST, max(FEWEST, EFFORT // m))
        shuffled = (np.argsort(rng.permutation(m)).tolist() for _ in range(starts - 1))
        begin = [given, *(np.array(respect_known(order, run.before)) for order in shuffled)]
        ends = [(given, moves(run, given, 1.0)[1]), *(_descend(run, start) for start in begin)]
        arrangement = min(ends, key=lambda end: end[1])[0]
    block = np.ix_(arrangement, arrangement)
    parts = solve_triangular(np.linalg.cholesky(run.scatter[block]), run.apart[arrangement], lower=True)
    return arrangement, np.diff(run.ratio(run.lead + np.concatenate([[0.0], np.cumsum(parts**2)])))


def _best_of_all(run: Run) -> IndexArray:
    """Dynamic programming: the least a set can cost in front of all others, from sets smaller by one."""
    m = len(run.apart)
    sets = np.arange(1 << m)
    inside = (sets[:, None] >> np.arange(m) & 1).astype(bool)
    blocks = np.where(inside[:, :, None] & inside[:, None, :], run.scatter, np.eye(m))
    apart = np.where(inside, run.apart, 0.0)
    solved = np.linalg.solve(blocks, apart[..., None])[..., 0]
    ratio = run.ratio(run.lead + np.einsum("si,si->s", apart, solved))
    needs = (run.before.T @ (1 << np.arange(m))).tolist()
    size = inside.sum(axis=1)
    cost, last = np.where(size == 0, 0.0, np.inf), np.zeros(len(sets), np.intp)
    for count in range(1, m + 1):
        for i in range(m):
            now = sets[(size == count) & inside[:, i]]
            rest = now ^ (1 << i)
            own = np.maximum(ratio[now] - ratio[rest], 0.0)
            tried = cost[rest] + np.minimum(own, run.penalties[count - 1]) + TIE * np.sqrt(own)
            better = (tried < cost[now]) & (needs[i] & ~rest == 0)
            cost[now[better]], last[now[better]] = tried[better], i
    arrangement, left = np.zeros(m, np.intp), len(sets) - 1
    for t in reversed(range(m)):
        arrangement[t] = last[left]
        left ^= 1 << int(last[left])
    return arrangement


def respect_known(order: Sequence[int], before: BoolArray) -> list[int]:
    """The order closest to the given one in which a precedes b wherever ``before[a, b]``."""
    left, result = list(order), []
    while left:
        free = next(node for node in left if not before[left, node].any())
        left.remove(free)
        result.append(free)
    return result


def _descend(run: Run, arrangement: IndexArray) -> tuple[IndexArray, float]:
    """Move one variable at a time, the move that lowers the cost most; the end, and what it costs."""
    total = math.inf
    for share in SHARES:
        while True:
            change, total = moves(run, arrangement, share)
            chosen = _apart(change)
            if not chosen:
                break
            for place, i in chosen:
                arrangement = np.insert(np.delete(arrangement, i), place, arrangement[i])
    return arrangement, total


def _apart(change: FloatArray) -> list[tuple[int, int]]:
    """The move [to position, from position] that pays most, then the best that does not touch it, and so on."""
    best = np.argmin(change, axis=0)
    gains = change[best, np.arange(len(best))]
    used, chosen = np.zeros(len(best), bool), []
    for i in np.argsort(gains, kind="stable").tolist():
        if gains[i] > -GRAIN:
            break
        span = slice(min(i, best[i]), max(i, best[i]) + 1)
        if not used[span].any():
            used[span] = True
            chosen.append((int(best[i]), i))
    return chosen


def moves(run: Run, arrangement: IndexArray, share: float) -> tuple[FloatArray, float]:
    """What each move [to position, from position] adds to the cost, and the cost.

    With ``W = R'R`` along the arrangement, column i of R has the parts of variable i along its predecessors,
    so that sums from below give its variance and mean difference given the first s of them, for all s. Row i
    of the inverse of R does the same for what comes after it. With these, the distance ``d' W^-1 d`` of the
    first s variables with i added, or taken away, takes a division; costs are differences of its logarithm.
    """
    block, penalty = np.ix_(arrangement, arrangement), share * run.penalties
    root = np.linalg.cholesky(run.scatter[block]).T
    inverse = solve_triangular(root, np.eye(len(root)))
    part = inverse.T @ run.apart[arrangement]
    distance = run.lead + np.concatenate([[0.0], np.cumsum(part**2)])
    here = run.ratio(distance)
    spent = np.concatenate([[0.0], np.cumsum(np.minimum(np.diff(here), penalty))])
    upper = np.tri(len(root), dtype=bool).T

    variance = np.cumsum((root**2)[::-1], axis=0)[::-1]
    mean = np.cumsum((root * part[:, None])[::-1], axis=0)[::-1]
    with_it = run.ratio(distance[:-1, None] + np.where(upper, mean**2 / np.where(upper, variance, 1.0), 0.0))
    passed = np.where(upper[1:], np.minimum(np.diff(with_it, axis=0), penalty[1:, None]), 0.0)
    earlier = np.minimum(with_it - here[:-1, None], penalty[:, None]) - spent[1:] + spent[:-1, None]
    earlier[:-1] += np.cumsum(passed[::-1], axis=0)[::-1]

    precision = np.cumsum(inverse.T**2, axis=0)
    mean = np.cumsum(inverse.T * part[:, None], axis=0)
    taken = np.where(upper.T, mean**2 / np.where(upper.T, precision, 1.0), 0.0)
    without = run.ratio(np.maximum(distance[1:, None] - taken, 0.0))
    passed = np.where(upper.T[:-1], np.minimum(np.diff(without, axis=0), penalty[:-1, None]), 0.0)
    later = np.minimum(here[1:, None] - without, penalty[:, None]) - spent[1:, None] + spent[:-1]
    later[1:] += np.cumsum(passed, axis=0)

    change = np.where(upper, earlier, later)
    change[_barred(run.before[block])] = np.inf
    return change, float(spent[-1])


def _barred(before: BoolArray) -> BoolArray:
    """Moves [to, from] that would put a variable in front of one it has to follow, or behind the opposite."""
    if not before.any():
        return np.zeros_like(before)
    ahead = np.logical_or.accumulate(np.triu(before, 1)[::-1], axis=0)[::-1]
    behind = np.logical_or.accumulate(np.tril(before.T, -1), axis=0)
    barred: BoolArray = ahead | behind
    return barred
