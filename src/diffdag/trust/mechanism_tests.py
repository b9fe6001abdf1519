r"""Did anything about a variable's mechanism change? One test for each variable, along a causal order.

The mechanism of a variable is its regression on its predecessors. If it is the same in both conditions, then
with slopes fitted jointly and residual e

- no product of e with a predecessor k differs between the conditions: with z_k equal to k in the first
  condition and zero in the second, and w_k what the predecessors leave of z_k, the statistic of a changed
  effect of k is :math:`\sum_r w_{rk} e_r` over its standard error (Rao 1948), all centred within conditions;
- nor does that sum over all predecessors, weighted by their slopes: the statistic of a changed gain;
- nor does the variance of e (Fisher's F, with degrees of freedom by kurtosis: Box 1953);
- nor does the mean of the variable beyond what its predecessors account for.

Statistics of effects and gain are correlated; the distribution of the largest follows from Gaussian draws with
their correlations. The least of the p-values of the three kinds (effects and gain, variance, intercept) counts,
by Sidak's (1967) formula for independent ones. Statistics are those of moments; where rows are at hand, their
errors are multiplied by the ratio of the sandwich's error (MacKinnon and White 1985, HC2) to the usual one, and
where these are nested, by that of errors between units; so is that of the ratio of two variances. The order is
taken as given: of a variable whose place in it is open, the test speaks of the place that it was given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.special import ndtr, stdtr

from diffdag._base.arrays import FloatArray
from diffdag.model.nesting import Units
from diffdag.model.regression import HIGHEST, LEAST_KURTOSIS, equal_variances
from diffdag.ordersearch.fit import OrderFit, Rows
from diffdag.ordersearch.mechanisms import MEAN_A, MEAN_B, NOISE_A, NOISE_B
from diffdag.ordersearch.penalty import Inflation, penalties
from diffdag.ordersearch.rules import INTERCEPT, VARIANCE
from diffdag.ordersearch.search import ROUNDING, Problem, read_order, walk_near
from diffdag.results.records import NodeTest
from diffdag.tables.moments import Moments

# Draws of correlated statistics, for the distribution of the largest: so many, or with many variables fewer.
DRAWS, NUMBERS = 1_000, 60_000
# Quantiles at which the largest of some statistics is compared with one of them.
QUANTILES = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.96)
LONGEST = 5_000  # rows of a table that errors are taken from, evenly spaced; all if they are nested
RIDGE, JITTER = 1e-10, 1e-6  # of scatters, and of correlations, whose contrasts depend on each other
MOVES = 3  # of each variable to a random place
LEAST_PVALUE = 1e-290  # below which evidence is that of a likelihood ratio
LEAST_VARIANCE = 1e-12  # of a contrast, as a share of the largest


def node_tests(fit: OrderFit) -> tuple[NodeTest, ...]:
    """Test of each variable that was ordered whether its mechanism is the same in both conditions."""
    tests = {own.variable: own for part in fit.parts for own in _tests_of(part)}
    return tuple(tests[name] for name in fit.first.names if name in tests)


def _tests_of(fit: OrderFit) -> list[NodeTest]:
    """Test of each variable, all of which were ordered together."""
    order = neutral_order(fit)
    along = _Along.of(fit, order)
    seen = None if fit.rows is None else _RowsAlong.of(fit.rows, order, fit.units)
    p = len(order)
    draws = np.random.default_rng(0).standard_normal((min(DRAWS, max(NUMBERS // p, 200)), p))
    found = []
    for t, i in enumerate(order):
        kinds = list(_kinds(fit, along, seen, t, i, draws))
        if kinds:
            least = max(kinds, key=lambda own: own.evidence).times(len(kinds))
            found.append(NodeTest(fit.first.names[i], least.pvalue, least.evidence))
    return found


def neutral_order(fit: OrderFit) -> tuple[int, ...]:
    """An order for which nothing speaks but what is reported.

    The search lets variances and intercepts differ for little, and finds orders in which the chance of several
    variables comes together in one. Here they cost what they have to gain to be reported, and a random walk
    leads to another of the orders that are then as good as the best.
    """
    problem = _strict(fit)
    found, _ = walk_near(problem, [fit.optimum.best.order, *fit.optimum.others])
    rng, before = np.random.default_rng(0), problem.before
    by_name = sorted(range(problem.p), key=lambda k: fit.first.names[k])  # whatever the order of the columns
    for mover in [by_name[k] for _ in range(MOVES) for k in rng.permutation(problem.p).tolist()]:
        rest = [k for k in found.order if k != mover]
        low = max((t + 1 for t, k in enumerate(rest) if before[k, mover]), default=0)
        high = min((t for t, k in enumerate(rest) if before[mover, k]), default=len(rest))
        place = int(rng.integers(low, high + 1))
        moved = read_order(problem, [*rest[:place], mover, *rest[place:]])
        if moved.score <= found.score + ROUNDING:
            found = moved
    return found.order


def _strict(fit: OrderFit) -> Problem:
    """The problem of the search, in which variances and intercepts have to gain what reported ones have to."""
    p, total = fit.problem.p, len(fit.names)
    table = penalties(fit.first.n, fit.second.n, p, total, fit.settings.factor)
    inflation, hurdle = fit.settings.inflation, fit.structure.hurdle
    wanted = hurdle(NOISE_A, NOISE_B), hurdle(MEAN_A, MEAN_B)
    means = [max(float(table[k].mean()), 1e-100) for k in (VARIANCE, INTERCEPT)]  # a factor may vanish
    more = [max(1.0, own / mean) for own, mean in zip(wanted, means, strict=True)]
    raised = Inflation(inflation.change, inflation.variance * more[0], inflation.intercept * more[1])
    return replace(fit.settings, inflation=raised).problem(fit.first, fit.second, fit.problem.before, total)


class _Tail(NamedTuple):
    """A p-value, and minus its decimal logarithm, which does not vanish."""

    pvalue: float
    evidence: float

    @classmethod
    def of_t(cls, value: float, freedom: float) -> _Tail:
        """Two-sided, of Student's t; far out from the leading factor of its density."""
        far = freedom / 2 * math.log1p(value * value / freedom) / math.log(10)
        return cls.of(2 * float(stdtr(freedom, -abs(value))), far)

    @classmethod
    def of(cls, pvalue: float, far: float) -> _Tail:
        """A p-value, with evidence of about `far` where it is next to zero."""
        return cls(
            pvalue, -math.log10(pvalue) if pvalue > LEAST_PVALUE else max(-math.log10(LEAST_PVALUE), far)
        )

    def times(self, count: float) -> _Tail:
        """Of the least of so many independent ones (Sidak 1967)."""
        pvalue = -math.expm1(count * math.log1p(-self.pvalue)) if self.pvalue < 1 else 1.0
        return self.of(pvalue, self.evidence - math.log10(count))


@dataclass(frozen=True, eq=False)
class _Along:
    """Moments of both conditions along the order, in orthonormal residuals."""

    first: FloatArray  # scatter of the first condition, variables in causal order and standardised
    root: FloatArray  # Cholesky factor of the scatter of both
    inner: FloatArray  # inner products of normalised residuals with variables, in the first condition
    own: FloatArray  # share of each residual's squares that the first condition has
    means: FloatArray  # differences of the means, in normalised residuals
    rows: tuple[float, float]
    apart: float  # variance of a difference of means, over that of a row; infinite if they are not compared

    @classmethod
    def of(cls, fit: OrderFit, along: Sequence[int]) -> _Along:
        order = list(along)
        scale = np.sqrt(np.diag(fit.first.scatter) + np.diag(fit.second.scatter))[order]
        block = np.ix_(order, order)
        one, two = (own.scatter[block] / np.outer(scale, scale) for own in (fit.first, fit.second))
        apart = sum(_over(own) for own in (fit.first, fit.second))
        means = (fit.first.mean - fit.second.mean)[order] / scale
        return cls.from_scatters(one, two, means, (fit.first.n, fit.second.n), apart)

    @classmethod
    def from_scatters(
        cls, one: FloatArray, two: FloatArray, means: FloatArray, rows: tuple[float, float], apart: float
    ) -> _Along:
        both = one + two
        root = cholesky(both + RIDGE * np.eye(len(both)), lower=True)
        inner = solve_triangular(root, one, lower=True)
        own = np.einsum("st,ts->s", inner, solve_triangular(root, np.eye(len(root)), lower=True).T)
        return cls(one, root, inner, own, solve_triangular(root, means, lower=True), rows, apart)

    def freedom(self, t: int) -> float:
        """Rows that t predecessors, and the means, leave free."""
        return max(sum(self.rows) - 3.0 - t, 1.0)

    def contrasts(self, t: int) -> FloatArray:
        """Changed effects of single predecessors of the t-th variable, and all in proportion to its slopes."""
        slopes = solve_triangular(self.root[:t, :t].T, self.root[t, :t])
        return np.vstack([np.eye(t), slopes]) if t > 1 else np.eye(t)

    def kept(self, t: int) -> FloatArray:
        """What the predecessors leave of the scatter of the variables in the first condition."""
        kept: FloatArray = self.first[:t, :t] - self.inner[:t, :t].T @ self.inner[:t, :t]
        return kept

    def variances(self, t: int) -> tuple[float, float, float]:
        """The ratio of the two variances of the t-th residual, and their degrees of freedom."""
        borne = float(self.own[:t].sum())
        free = max(self.rows[0] - 1 - borne, 1.0), max(self.rows[1] - 1 - (t - borne), 1.0)
        share = float(np.clip(self.own[t], 1e-12, 1 - 1e-12))
        return share / free[0] / ((1 - share) / free[1]), *free

    def mean_error(self, t: int) -> float:
        """The variance of the t-th difference of means, over that of a row, for the slopes being estimated."""
        return self.apart + float(self.means[:t] @ self.means[:t])


def _over(moments: Moments) -> float:
    """One over the rows that a mean is worth."""
    worth = moments.n if moments.mean_rows is None else moments.mean_rows
    return 1 / worth if worth > 0 else math.inf


class _RowsAlong:
    """Rows of both conditions along the order: what errors are, in multiples of those of Gaussian rows."""

    def __init__(self, tables: Sequence[FloatArray], units: Units | None) -> None:
        self.units, self.counts = units, (len(tables[0]), len(tables[1]))
        centred = [table - table.mean(axis=0) for table in tables]
        means = tables[0].mean(axis=0) - tables[1].mean(axis=0)
        one, two = (table.T @ table for table in centred)
        apart = 1 / self.counts[0] + 1 / self.counts[1]
        self.along = _Along.from_scatters(one, two, means, self.counts, apart)
        stacked = np.vstack(centred)
        self.residuals = solve_triangular(self.along.root, stacked.T, lower=True).T  # orthonormal
        self.left = np.vstack([centred[0], np.zeros_like(centred[1])])
        sides = np.repeat([1.0, -1.0], self.counts) / np.repeat(self.counts, self.counts)
        self.sides = sides
        self.leverage = np.abs(sides)
        self.place = 0

    @classmethod
    def of(cls, rows: Rows, order: Sequence[int], units: Units | None) -> _RowsAlong:
        steps = [1 if units else 1 + (len(table) - 1) // LONGEST for table in rows]
        tables = [table[::step][:, list(order)] for table, step in zip(rows, steps, strict=True)]
        scale = np.sqrt(sum(np.square(table - table.mean(axis=0)).sum(axis=0) for table in tables))
        return cls([table / np.where(scale > 0, scale, 1.0) for table in tables], units)

    def advance(self) -> None:
        """Go on to the next variable of the order."""
        t = self.place
        self.left -= np.outer(self.residuals[:, t], self.along.inner[t])
        self.sides = self.sides - self.residuals[:, t] * self.along.means[t]
        self.leverage = self.leverage + self.residuals[:, t] ** 2
        self.place += 1

    @property
    def residual(self) -> FloatArray:
        """Of the variable at hand, as it would be had its row no leverage."""
        own: FloatArray = self.residuals[:, self.place] / np.sqrt(1 - np.minimum(self.leverage, HIGHEST))
        return own

    def errors(self, parts: FloatArray, usual: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Errors of sums of what rows contribute, over the `usual` ones, and degrees of freedom."""
        if self.units is not None:
            n = self.counts[0]
            errors, freedom = self.units.errors(parts[:n], parts[n:], self.units.change)
        else:
            squares = parts * parts
            total, fourth = squares.sum(axis=0), (squares * squares).sum(axis=0)
            most = self.along.freedom(self.place)
            errors = np.sqrt(total)
            freedom = np.minimum(3 * total**2 / np.maximum(fourth, 1e-300), most)
        return errors / np.maximum(usual, 1e-150), freedom

    def of_effects(self, contrasts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Multiples of errors of changed effects, and degrees of freedom."""
        t = self.place
        kept = np.einsum("ck,kl,cl->c", contrasts, self.along.kept(t), contrasts)
        parts = (self.left[:, :t] @ contrasts.T) * self.residual[:, None]
        return self.errors(parts, np.sqrt(np.maximum(kept, 0) / self.along.freedom(t)))

    def of_mean(self) -> tuple[float, float]:
        """Multiple of the error of a changed intercept, and degrees of freedom."""
        t = self.place
        usual = np.sqrt([self.along.mean_error(t) / self.along.freedom(t)])
        errors, freedom = self.errors((self.sides * self.residual)[:, None], usual)
        return float(errors[0]), float(freedom[0])

    def of_ratio(self, units: Units) -> tuple[float, float]:
        """Error of the logarithm of the ratio of two variances between units, and degrees of freedom."""
        squares = self.residual**2
        parts = [own / own.sum() - 1 / len(own) for own in np.split(squares, [self.counts[0]])]
        errors, freedom = units.errors(parts[0][:, None], -parts[1][:, None], units.variance)
        return float(errors[0]), float(freedom[0])

    @property
    def kurtosis(self) -> float:
        """Of the residuals, at least that of a uniform distribution."""
        squares = self.residual**2
        return max(float(np.mean(squares * squares) / np.mean(squares) ** 2), LEAST_KURTOSIS)


def _kinds(
    fit: OrderFit, along: _Along, seen: _RowsAlong | None, t: int, i: int, draws: FloatArray
) -> Iterator[_Tail]:
    """The tails of changed effects, a changed variance and a changed intercept of i, the t-th variable."""
    free = along.freedom(t)
    if t:
        contrasts, kept = along.contrasts(t), along.kept(t)
        correlations = contrasts @ kept @ contrasts.T
        spread = np.diag(correlations)
        usable = spread > LEAST_VARIANCE * spread.max()
        contrasts, spread = contrasts[usable], spread[usable]
        correlations = correlations[np.ix_(usable, usable)] / np.sqrt(np.outer(spread, spread))
        shares = np.minimum((contrasts @ along.inner[t, :t]) ** 2 / spread, 1 - 1e-12)
        values = np.sqrt(shares * free / (1 - shares))
        wide, freedoms = np.ones(len(values)), np.full(len(values), free)
        if seen is not None:
            wide, freedoms = seen.of_effects(contrasts)
        tails = [_Tail.of_t(*pair) for pair in zip((values / wide).tolist(), freedoms.tolist(), strict=True)]
        best = max(tails, key=lambda own: own.evidence)
        yield best.times(_effective_number(correlations, best.pvalue, draws))
    if not fit.equal_noise:
        ratio, free1, free2 = along.variances(t)
    if not fit.equal_noise and seen is not None and seen.units is not None:
        error, freedom = seen.of_ratio(seen.units)
        yield _Tail.of_t(math.log(ratio) / error, freedom)
    elif not fit.equal_noise:
        times = 1.0 if seen is None else 2 / (seen.kurtosis - 1)
        pvalue = float(equal_variances(ratio, free1 * times, free2 * times))
        # The likelihood ratio of two variances and one.
        pooled = math.log((free1 * ratio + free2) / (free1 + free2))
        far = times * ((free1 + free2) * pooled - free1 * math.log(ratio)) / 2 / math.log(10)
        yield _Tail.of(pvalue, far)
    if math.isfinite(along.apart):
        value = along.means[t] * math.sqrt(free / along.mean_error(t))
        wide_mean, free_mean = (1.0, free) if seen is None else seen.of_mean()
        yield _Tail.of_t(value / wide_mean / fit.mean_width(i), free_mean)
    if seen is not None:
        seen.advance()


def _effective_number(correlations: FloatArray, pvalue: float, draws: FloatArray) -> float:
    """So many independent statistics have a largest one like these, as far out as this p-value of one is.

    They are as many as `draws` has columns of independent numbers, or fewer.
    """
    count = len(correlations)
    if count == 1:
        return 1.0
    root = cholesky(correlations + JITTER * np.eye(count), lower=True, check_finite=False)
    largest = np.abs(draws[:, :count] @ root.T).max(axis=1)
    levels = np.quantile(largest, QUANTILES)
    single = np.log1p(-2 * ndtr(-levels))
    numbers = np.clip(np.log(QUANTILES) / single, 1.0, count)
    return float(np.interp(-pvalue, 2 * -ndtr(-levels), numbers))
