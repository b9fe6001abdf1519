"""Which noise variances and which intercepts changed, along the order that a search over orders found.

Noise variances are those of the regressions along the order. Intercepts need more: a search that sees
covariances alone settles the order only where an effect or a noise variance changed. Between two variables it
"touched" in this way, the likelihood of the covariances is the same however the others are arranged, and the
arrangement in which fewest intercepts change is taken (`arrangement`). A variable also moves past a touched one
if that saves more than the covariances lose by it (`_crossing`).

The penalty of a changed intercept is ``A + B sqrt(p)``. It stands for a level, the probability that half a
chi-squared variable with one degree of freedom is larger, which Student's t test has to reach. The means of all
that stand between two touched variables also have to differ by Hotelling's test, which is exact for any model
and number of rows (`GATE`); as a rule nothing is searched.

The constants were chosen in docs/dev/constants.md.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import chdtrc, fdtrc, stdtr, stdtrit

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag.model.regression import equal_variances, minus_loglik, regress_jointly
from diffdag.ordersearch.intercept_order import GRAIN, Run, arrange, moves
from diffdag.results.records import MeanChange, NoiseChange
from diffdag.tables.moments import Moments

A, B = 1.0, 2.0
# The search lets a variance differ for little, because edges would be wrong otherwise. Reported is one whose
# test, taken for a likelihood ratio, passes NOISE_A + NOISE_B log(p).
NOISE_A, NOISE_B = 2.0, 2.9
# A run is looked at if Hotelling's test of all its means rejects at this level, which the runs share.
GATE = 0.03
# Moves past touched variables; one or two are usual.
ROUNDS = 20


def changed_mechanisms(
    first: Moments,
    second: Moments,
    order: Sequence[int],
    causes: Mapping[int, Sequence[int]],
    separate: Collection[int],
    before: BoolArray | None = None,
) -> tuple[tuple[NoiseChange, ...], tuple[MeanChange, ...]]:
    """Variables whose noise variance changed, and those whose intercept changed, by column number.

    `causes` are the changed causes of each variable that has any, `separate` the columns whose noise variances
    differ, and ``before[a, b]`` says that a is known to precede b. Rows have to outnumber variables.

    The intercept of a variable whose effects changed depends on where its causes' scales have their zero. What
    is asked instead is whether its mean moved by more than its causes' means account for, with the effects of
    the first condition and with those of the second (Oaxaca and Blinder's decomposition, 1973): a change is
    claimed if both say so, in the same direction, and the less certain of the two is reported.

    P-values are those of one regression. They do not know of the search.

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
    p = len(order)
    level = float(chdtrc(1, 2 * (A + B * math.sqrt(p))))
    noise_level = float(chdtrc(1, 2 * (NOISE_A + NOISE_B * math.log(p))))
    noise, shifts = {}, {}
    for i in touched:
        earlier = order[: order.index(i)]
        equation = _equation(first, second, i, earlier, causes.get(i, ()), i in separate)
        if i in separate:
            one, two = equation.variances
            pvalue = float(equal_variances(one / two, *equation.free))
            if pvalue <= noise_level:
                noise[i] = NoiseChange(first.names[i], one, two, one / two, pvalue)
        shift = equation.certain()
        if shift is not None and shift.pvalue < level:
            shifts[i] = shift
    model = _Model(first, second, causes, frozenset(separate), touched)
    known = np.zeros((p, p), bool) if before is None else before
    # What a changed intercept has to gain, by the number of predecessors.
    free = np.maximum(first.n + second.n - 2.0 - np.arange(p), 1.0)
    penalties = (first.n + second.n) / 2 * np.log1p(stdtrit(free, level / 2) ** 2 / free)
    for i, earlier in _calm_changes(model, order, known, penalties):
        shifts[i] = _equation(first, second, i, earlier, (), False).shifts[0]
    means = [
        MeanChange(
            first.names[i], float(first.mean[i]), float(second.mean[i]), shift.delta, shift.stderr, shift.pvalue
        )
        for i, shift in sorted(shifts.items())
    ]
    return tuple(noise[i] for i in sorted(noise)), tuple(means)


@dataclass(frozen=True)
class _Shift:
    """How far an intercept moved."""

    delta: float
    stderr: float
    freedom: float

    @property
    def pvalue(self) -> float:
        return 2 * float(stdtr(self.freedom, -abs(self.delta) / self.stderr))


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
    block, variances = np.ix_(earlier, earlier), np.array([fit.variance_first, fit.variance_second])
    apart = first.mean - second.mean
    shifts = []
    for own, slopes in ((np.zeros(len(extra)), fit.second), (apart[list(changed)], fit.first)):
        reach = fit.covariance @ np.concatenate([apart[earlier], own])
        one, two = reach[:k].copy(), reach[:k]
        one[extra] += reach[k:]
        squares = [v @ m.scatter[block] @ v for m, v in ((first, one), (second, two))]
        parts = variances / (first.n, second.n) + squares / variances
        # Satterthwaite's, where each condition has a variance of its own.
        freedom = float(parts.sum() ** 2 / (parts**2 / fit.freedom).sum()) if separate else sum(fit.freedom)
        shifts.append(_Shift(float(apart[i] - slopes @ apart[earlier]), math.sqrt(parts.sum()), freedom))
    return _Equation((fit.variance_first, fit.variance_second), fit.freedom, (shifts[0], shifts[1]))


@dataclass(frozen=True, eq=False)
class _Model:
    """What the search said: changed causes, changed variances, the variables touched by either."""

    first: Moments
    second: Moments
    causes: Mapping[int, Sequence[int]]
    separate: frozenset[int]
    touched: set[int]
    seen: dict[tuple[int, frozenset[int]], float] = field(default_factory=dict)

    def misfit(self, i: int, earlier: Collection[int]) -> float:
        """Minus log-likelihood of a touched variable behind others, less that of one without changes.

        Summed over touched variables, up to a constant, this is minus the log-likelihood of an order.
        """
        changed, key = self.causes.get(i, ()), (i, frozenset(earlier))
        if not set(changed) <= set(earlier):
            return math.inf
        if key not in self.seen:
            about = self.first, self.second, i, sorted(earlier)
            fit = regress_jointly(*about, changed, i in self.separate)
            without = regress_jointly(*about, (), False)
            rows = self.first.n, self.second.n
            own = minus_loglik(fit.squares, rows, i in self.separate)
            self.seen[key] = own - minus_loglik(without.squares, rows, False)
        return self.seen[key]


def _calm_changes(
    model: _Model, order: list[int], before: BoolArray, penalties: FloatArray
) -> list[tuple[int, list[int]]]:
    """Variables whose intercept alone changed, each with what precedes it."""
    n1, n2 = model.first.n, model.second.n
    pooled = model.first.scatter + model.second.scatter
    scale = np.sqrt(np.diag(pooled))
    pooled = pooled / np.outer(scale, scale)
    apart: FloatArray = (model.first.mean - model.second.mean) / scale * math.sqrt(n1 / (n1 + n2) * n2)
    everything = Run(pooled, apart, 0.0, n1 + n2, penalties, before)
    order, places = _arranged(everything, order, model.touched)
    for _ in range(ROUNDS):
        crossed = _crossing(model, everything, order) if places and model.touched else None
        if crossed is None:
            break
        order, places = _arranged(everything, crossed, model.touched)
    return [(order[t], order[:t]) for t in places]


def _arranged(everything: Run, order: list[int], touched: set[int]) -> tuple[list[int], list[int]]:
    """The best order that leaves touched variables where they are, and the places of changed intercepts."""
    pooled = everything.scatter[np.ix_(order, order)]
    lower = np.linalg.cholesky(pooled)
    parts: FloatArray = solve_triangular(lower, everything.apart[order], lower=True)
    distance = np.concatenate([[0.0], np.cumsum(parts**2)])
    known = everything.before[np.ix_(order, order)]
    # Runs of variables that are not touched, between those that are.
    edges = np.flatnonzero(np.diff([True, *(i in touched for i in order), True])).tolist()
    runs, best, places = list(zip(edges[::2], edges[1::2], strict=True)), list(order), []
    for start, stop in runs:
        own = slice(start, stop)
        factor, table = lower[own, own], everything.penalties[own]
        lead = float(distance[start])
        run = Run(factor @ factor.T, factor @ parts[own], lead, everything.rows, table, known[own, own])
        if not _means_agree(run, start, float(distance[stop]), GATE / len(runs)):
            arrangement, ratios = arrange(run)
            best[own] = [order[start + t] for t in arrangement]
            places += [start + int(t) for t in np.flatnonzero(ratios > table)]
    return best, places


def _crossing(model: _Model, everything: Run, order: list[int]) -> list[int] | None:
    """The order after the move past touched variables, or of one, that gains most; None if none gains."""
    change = moves(everything, np.array(order), 1.0)[0]
    best, result = -GRAIN, None
    for flat in np.argsort(change, axis=None):
        place, start = (int(t) for t in np.unravel_index(flat, change.shape))
        # What the covariances gain in return would be chance, and is left out.
        if change[place, start] > best:
            break
        moved = order[:start] + order[start + 1 :]
        moved.insert(place, order[start])
        total = float(change[place, start]) + _lost(model, order, moved)
        if total < best:
            best, result = total, moved
    return result


def _lost(model: _Model, order: list[int], moved: list[int]) -> float:
    """What the covariances lose by a move; without end if touched variables change their order."""
    touched = [i for i in order if i in model.touched]
    if touched != [i for i in moved if i in model.touched]:
        return math.inf
    lost = 0.0
    for i in touched:
        earlier, after = order[: order.index(i)], moved[: moved.index(i)]
        if set(earlier) != set(after):
            lost += max(model.misfit(i, after) - model.misfit(i, earlier), 0.0)
    return lost


def _means_agree(run: Run, preceding: int, distance: float, level: float) -> bool:
    """Whether no arrangement can show a change, or Hotelling's test given what precedes sees none."""
    m = len(run.apart)
    if float(np.diff(run.ratio(np.array([run.lead, distance])))[0]) <= run.penalties.min():
        return True
    free = max(run.rows - 1 - preceding - m, 1)
    statistic = (distance - run.lead) / (1 + run.lead) * free / m
    return float(fdtrc(m, free, statistic)) > level
