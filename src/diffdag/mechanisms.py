"""Which noise variances and which intercepts changed, along the order that a search over orders found.

Noise variances are those of the regressions along the order. Intercepts need one more search. Let W be the
scatter within the conditions, added up, and d the difference of the means times ``sqrt(n1 n2 / N)``. For a
variable i whose effects and noise did not change, placed behind the variables S, twice the likelihood ratio of
a changed intercept is ``2 [g(S + i) - g(S)]`` with ``g(S) = N/2 log(1 + d_S' W_SS^-1 d_S)``. A change of
variance or effect tells the order of the variables it touches; between two such variables along the order,
the covariances are the same however the others are arranged, and their sum of likelihood ratios is too. But
changes of intercepts are rare, so the arrangement that needs fewest explains best: minimal is the sum of

    min(likelihood ratio, price)

Up to `EXACT` variables in a run all arrangements are compared, by dynamic programming over subsets. In longer
runs variables move to the place that lowers the sum most: one triangular factor tells what every move of one
variable would do (`_moves`).

The price is ``1 + 2 sqrt(p)``. It stands for a level, the probability that half a chi-squared variable with
one degree of freedom is larger, which Student's t test has to reach. Without any change, the largest of all
likelihood ratios over all arrangements had these 95 and 98 % points (60 to 400 pairs of samples of one model):
p = 5: 4.7 and 5.8; p = 10: 6.4 and 7.7; p = 20: 8.8 and 10.3; p = 50: 13.3 and 14.2, with 100 rows 14.6 and
16.4, but 20 in complete graphs. Therefore the means of a run also have to differ by Hotelling's test, which
is exact for any model and number of rows (`GATE`); as a rule nothing is searched.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.linalg import solve_triangular

from diffdag.changes import MeanChange, NoiseChange
from diffdag.moments import Moments
from diffdag.weights import regress_jointly

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]

# The price of a changed intercept, A + B sqrt(p).
A, B = 1.0, 2.0
# A run is looked at if Hotelling's test of all its means rejects at this level, which the runs share.
GATE = 0.03
# Up to so many variables all arrangements are compared; of more, EFFORT / variables starts, within limits.
EXACT, EFFORT, FEWEST, MOST = 11, 300, 2, 6
# A descent goes through these shares of the price: low prices lead away from where no move pays at once.
SHARES = (0.25, 0.5, 1.0)
# What a move has to gain.
GRAIN = 1e-6


def changed_mechanisms(
    first: Moments,
    second: Moments,
    order: Sequence[int],
    causes: Mapping[int, Sequence[int]],
    separate: Collection[int],
    before: BoolArray | None = None,
) -> tuple[tuple[NoiseChange, ...], tuple[MeanChange, ...]]:
    """The variables whose noise variance changed, and those whose intercept changed.

    Parameters
    ----------
    first, second : Moments
        Of the same variables, more rows than variables in each.
    order : sequence of int
        All columns, causes first.
    causes : mapping of int to sequence of int
        Changed causes of each variable that has any.
    separate : collection of int
        Columns whose noise variances differ.
    before : ndarray of bool, shape (p, p), optional
        ``before[a, b]`` if it is known that a precedes b.

    Returns
    -------
    tuple of NoiseChange, tuple of MeanChange
        Both in the order of the columns.

    Notes
    -----
    The intercept of a variable whose effects changed depends on where its causes' scales have their zero. What
    is asked instead is whether its mean moved by more than its causes' means account for, with the effects of
    the first condition and with those of the second (Oaxaca and Blinder's decomposition, 1973): a change is
    claimed if both say so, in the same direction, and the less certain of the two is reported.

    P-values are those of one regression. They do not know of the search.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> cause = rng.normal(size=(2, 500))
    >>> effect = cause + rng.normal(size=(2, 500)) * [[1.0], [2.0]] + [[0.0], [1.0]]
    >>> one, two = (Moments.from_array(np.column_stack(part)) for part in zip(cause, effect))
    >>> noise, mean = changed_mechanisms(one, two, [0, 1], {}, {1})
    >>> [(change.variable, round(change.ratio, 2)) for change in noise]
    [('X2', 0.24)]
    >>> [(change.variable, round(change.delta, 2), round(change.stderr, 2)) for change in mean]
    [('X2', -0.82, 0.1)]
    """
    order = [int(i) for i in order]
    touched = {int(i) for i in separate} | {int(i) for i, own in causes.items() if len(own)}
    prices = _Prices(first.n + second.n, len(order))
    noise, means = {}, {}
    for i in touched:
        earlier = order[: order.index(i)]
        equation = _equation(first, second, i, earlier, causes.get(i, ()), i in separate)
        if i in separate:
            noise[i] = _noise_change(first.names[i], equation)
        shift = equation.certain()
        if shift is not None and shift.pvalue < prices.level:
            means[i] = shift
    for i, earlier in _calm_changes(first, second, order, touched, before, prices):
        means[i] = _equation(first, second, i, earlier, (), False).shifts[0]
    return (
        tuple(noise[i] for i in sorted(noise)),
        tuple(_mean_change(first, second, i, means[i]) for i in sorted(means)),
    )


def _mean_change(first: Moments, second: Moments, i: int, shift: _Shift) -> MeanChange:
    means = float(first.mean[i]), float(second.mean[i])
    return MeanChange(first.names[i], *means, shift.delta, shift.stderr, shift.pvalue)


def _noise_change(name: str, equation: _Equation) -> NoiseChange:
    one, two = equation.variances
    ratio = one / two
    tails = stats.f.cdf(ratio, *equation.free), stats.f.sf(ratio, *equation.free)
    return NoiseChange(name, one, two, ratio, min(1.0, 2 * float(min(tails))))


@dataclass(frozen=True)
class _Shift:
    """How far an intercept moved."""

    delta: float
    stderr: float
    freedom: float

    @property
    def pvalue(self) -> float:
        return 2 * float(stats.t.sf(abs(self.delta) / self.stderr, self.freedom))


@dataclass(frozen=True)
class _Equation:
    """One variable regressed on its predecessors: of each condition, noise variance and free rows.

    `shifts` of the intercept are with the effects of the second and of the first condition.
    """

    variances: tuple[float, float]
    free: tuple[float, float]
    shifts: tuple[_Shift, _Shift]

    def certain(self) -> _Shift | None:
        """The shift that both agree on: the less certain one, which is the least so of all between them too."""
        one, two = self.shifts
        if one.delta * two.delta <= 0:
            return None
        return min(one, two, key=lambda shift: abs(shift.delta) / shift.stderr)


def _equation(
    first: Moments, second: Moments, i: int, earlier: list[int], changed: Sequence[int], separate: bool
) -> _Equation:
    """Noise variances and shift of the intercept, by the regression that `regress_jointly` fits.

    Coefficients are those of the second condition and, for changed causes, what the first has in addition.
    """
    fit = regress_jointly(first, second, i, earlier, changed, separate)
    k, extra = len(earlier), [earlier.index(j) for j in changed]
    scale = np.sqrt(np.diag(first.scatter) + np.diag(second.scatter))
    block, unit = np.ix_(earlier, earlier), scale[earlier]
    variances = np.array([fit.variance_first, fit.variance_second])
    own = np.hstack([np.eye(k), np.eye(k)[:, extra]])
    shared = np.hstack([np.eye(k), np.zeros((k, len(extra)))])
    information = [
        sides.T @ (moments.scatter[block] / np.outer(unit, unit)) @ sides / variance
        for sides, moments, variance in zip((own, shared), (first, second), variances, strict=True)
    ]
    covariance = np.linalg.inv(information[0] + information[1])
    borne = [float(np.trace(covariance @ part)) for part in information]
    free = max(first.n - 1 - borne[0], 1.0), max(second.n - 1 - borne[1], 1.0)
    apart = first.mean - second.mean
    shifts = []
    for sides, slopes in ((shared, fit.second), (own, fit.first)):
        reach = covariance @ sides.T @ (apart[earlier] / unit)
        parts = variances / (first.n, second.n) + [float(reach @ part @ reach) for part in information]
        # Satterthwaite's, where each condition has a variance of its own.
        freedom = float(parts.sum() ** 2 / (parts**2 / free).sum()) if separate else sum(free)
        shifts.append(_Shift(float(apart[i] - slopes @ apart[earlier]), math.sqrt(parts.sum()), freedom))
    return _Equation((fit.variance_first, fit.variance_second), free, (shifts[0], shifts[1]))


class _Prices:
    """What a changed intercept costs, by the number of predecessors."""

    def __init__(self, rows: int, p: int) -> None:
        self.rows = rows
        self.level = float(stats.chi2.sf(2 * (A + B * math.sqrt(p)), 1))
        free = np.maximum(rows - 2.0 - np.arange(p), 1.0)
        t = stats.t.isf(self.level / 2, free)
        self.table: FloatArray = rows / 2 * np.log1p(t * t / free)


@dataclass(frozen=True, eq=False)
class _Run:
    """Variables to arrange: scatter and mean difference given what precedes them, see the header.

    `lead` is the ``d' W^-1 d`` of what precedes, `prices` are those of the run's positions, `before` what is
    known.
    """

    scatter: FloatArray
    apart: FloatArray
    lead: float
    rows: int
    prices: FloatArray
    before: BoolArray

    def ratio(self, distance: FloatArray) -> FloatArray:
        """The function g of the header."""
        ratio: FloatArray = self.rows / 2 * np.log1p(distance)
        return ratio


def _calm_changes(
    first: Moments,
    second: Moments,
    order: list[int],
    touched: set[int],
    before: BoolArray | None,
    prices: _Prices,
) -> Iterator[tuple[int, list[int]]]:
    """Variables whose intercept alone changed, each with what precedes it."""
    n1, n2 = first.n, second.n
    pooled = (first.scatter + second.scatter)[np.ix_(order, order)]
    scale = np.sqrt(np.diag(pooled))
    lower = np.linalg.cholesky(pooled / np.outer(scale, scale))
    apart = (first.mean - second.mean)[order] / scale * math.sqrt(n1 / (n1 + n2) * n2)
    parts = solve_triangular(lower, apart, lower=True)
    distance = np.concatenate([[0.0], np.cumsum(parts**2)])
    known = np.zeros((len(order), len(order)), bool) if before is None else before[np.ix_(order, order)]
    runs = list(_runs([i in touched for i in order]))
    for start, stop in runs:
        own = slice(start, stop)
        factor, table = lower[own, own], prices.table[own]
        lead = float(distance[start])
        run = _Run(factor @ factor.T, factor @ parts[own], lead, n1 + n2, table, known[own, own])
        if _means_agree(run, start, float(distance[stop]), GATE / len(runs)):
            continue
        arrangement, ratios = _arrange(run)
        columns = [order[start + t] for t in arrangement]
        for t in np.flatnonzero(ratios > table):
            yield columns[t], [*order[:start], *columns[:t]]


def _means_agree(run: _Run, preceding: int, distance: float, level: float) -> bool:
    """Whether no arrangement can show a change, or Hotelling's test given what precedes sees none."""
    m = len(run.apart)
    if float(np.diff(run.ratio(np.array([run.lead, distance])))[0]) <= run.prices.min():
        return True
    free = max(run.rows - 1 - preceding - m, 1)
    statistic = (distance - run.lead) / (1 + run.lead) * free / m
    return float(stats.f.sf(statistic, m, free)) > level


def _runs(touched: list[bool]) -> Iterator[tuple[int, int]]:
    """Start and end of each run of variables that are not touched."""
    edges = np.flatnonzero(np.diff([True, *touched, True]))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _arrange(run: _Run) -> tuple[IntArray, FloatArray]:
    """The best arrangement, and the likelihood ratio of each of its variables."""
    if len(run.apart) <= EXACT:
        arrangement = _best_of_all(run)
    else:
        rng = np.random.default_rng(0)
        starts = min(MOST, max(FEWEST, EFFORT // len(run.apart)))
        begin = [np.arange(len(run.apart)), *(_shuffled(run.before, rng) for _ in range(starts - 1))]
        ends = [_descend(run, start) for start in begin]
        arrangement = min(ends, key=lambda end: end[1])[0]
    block = np.ix_(arrangement, arrangement)
    parts = solve_triangular(np.linalg.cholesky(run.scatter[block]), run.apart[arrangement], lower=True)
    return arrangement, np.diff(run.ratio(run.lead + np.concatenate([[0.0], np.cumsum(parts**2)])))


def _best_of_all(run: _Run) -> IntArray:
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
            tried = cost[rest] + np.minimum(ratio[now] - ratio[rest], run.prices[count - 1])
            better = (tried < cost[now]) & (needs[i] & ~rest == 0)
            cost[now[better]], last[now[better]] = tried[better], i
    arrangement, left = np.zeros(m, np.intp), len(sets) - 1
    for t in reversed(range(m)):
        arrangement[t] = last[left]
        left ^= 1 << int(last[left])
    return arrangement


def _shuffled(before: BoolArray, rng: np.random.Generator) -> IntArray:
    """A random arrangement that respects what is known."""
    rank = rng.permutation(len(before))
    left, arrangement = np.ones(len(before), bool), np.zeros(len(before), np.intp)
    for t in range(len(before)):
        free = np.flatnonzero(left & ~before[left].any(axis=0))
        arrangement[t] = free[np.argmin(rank[free])]
        left[arrangement[t]] = False
    return arrangement


def _descend(run: _Run, arrangement: IntArray) -> tuple[IntArray, float]:
    """Move one variable at a time, the move that lowers the cost most; the end, and what it costs."""
    total = math.inf
    for share in SHARES:
        while True:
            change, total = _moves(run, arrangement, share)
            moves = _apart(change)
            if not moves:
                break
            for place, i in moves:
                arrangement = np.insert(np.delete(arrangement, i), place, arrangement[i])
    return arrangement, total


def _apart(change: FloatArray) -> list[tuple[int, int]]:
    """The move [to position, from position] that pays most, then the best that does not touch it, and so on."""
    best = np.argmin(change, axis=0)
    gains = change[best, np.arange(len(best))]
    used, moves = np.zeros(len(best), bool), []
    for i in np.argsort(gains, kind="stable").tolist():
        if gains[i] > -GRAIN:
            break
        span = slice(min(i, best[i]), max(i, best[i]) + 1)
        if not used[span].any():
            used[span] = True
            moves.append((int(best[i]), i))
    return moves


def _moves(run: _Run, arrangement: IntArray, share: float) -> tuple[FloatArray, float]:
    """What each move [to position, from position] adds to the cost, and the cost.

    With ``W = R'R`` along the arrangement, column i of R has the parts of variable i along its predecessors,
    so that sums from below give its variance and mean difference given the first s of them, for all s. Row i
    of the inverse of R does the same for what comes after it. With these, the distance ``d' W^-1 d`` of the
    first s variables with i added, or taken away, takes a division; costs are differences of its logarithm.
    """
    block, price = np.ix_(arrangement, arrangement), share * run.prices
    root = np.linalg.cholesky(run.scatter[block]).T
    inverse = solve_triangular(root, np.eye(len(root)))
    part = inverse.T @ run.apart[arrangement]
    distance = run.lead + np.concatenate([[0.0], np.cumsum(part**2)])
    here = run.ratio(distance)
    spent = np.concatenate([[0.0], np.cumsum(np.minimum(np.diff(here), price))])
    upper = np.tri(len(root), dtype=bool).T

    variance = np.cumsum((root**2)[::-1], axis=0)[::-1]
    mean = np.cumsum((root * part[:, None])[::-1], axis=0)[::-1]
    with_it = run.ratio(distance[:-1, None] + np.where(upper, mean**2 / np.where(upper, variance, 1.0), 0.0))
    passed = np.where(upper[1:], np.minimum(np.diff(with_it, axis=0), price[1:, None]), 0.0)
    earlier = np.minimum(with_it - here[:-1, None], price[:, None]) - spent[1:] + spent[:-1, None]
    earlier[:-1] += np.cumsum(passed[::-1], axis=0)[::-1]

    precision = np.cumsum(inverse.T**2, axis=0)
    mean = np.cumsum(inverse.T * part[:, None], axis=0)
    taken = np.where(upper.T, mean**2 / np.where(upper.T, precision, 1.0), 0.0)
    without = run.ratio(np.maximum(distance[1:, None] - taken, 0.0))
    passed = np.where(upper.T[:-1], np.minimum(np.diff(without, axis=0), price[:-1, None]), 0.0)
    later = np.minimum(here[1:, None] - without, price[:, None]) - spent[1:, None] + spent[:-1]
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
