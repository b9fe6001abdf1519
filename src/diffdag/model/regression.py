"""Least squares of a variable on its predecessors, in one condition or in both, from moments alone.

Along a causal order a structural equation is a regression of the variable on all that precede it, so the
coefficients are the weights and their usual standard errors apply. Both are in the user's units.

Where rows are at hand, errors are those of the sandwich (Huber 1967; MacKinnon and White 1985, HC3), which hold
for any tails and for noise that grows with level; their degrees of freedom fall where few rows decide. Degrees
of freedom of variances then follow from the fourth moments of the residuals (Box 1953).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import fdtr, fdtrc, stdtr, stdtrit

from diffdag._base.arrays import FloatArray
from diffdag.model.nesting import Units
from diffdag.tables.moments import Moments

LONGEST = 20_000  # rows of a table that errors are taken from, evenly spaced
HIGHEST = 0.9  # leverage of a row
LEAST_WORTH = 1e-9  # rows that a mean is worth
LEAST_KURTOSIS = 1.8  # of residuals: that of a uniform distribution
ITERATIONS = 50  # of generalised least squares at most; a few are usual
# The angle of a gain is first sought among so many, and then moves by no more than this at a time.
ANGLES, LARGEST_TURN = 32, 0.1
# Level of the tests, together, by which a slope that a gain multiplies is not zero; and the share that it must
# have of the largest t value: curves and shared noise make small slopes where there are none.
NOT_ZERO, NOT_SMALL = 0.05, 0.15


@dataclass(frozen=True, eq=False)
class Regression:
    """Coefficients of one variable on its predecessors, and their standard errors."""

    coefficients: FloatArray
    stderrs: FloatArray


def regress(moments: Moments, target: int, predecessors: Sequence[int]) -> Regression | None:
    """Least squares with intercept; None if there are too few rows, or the predecessors are dependent.

    >>> fit = regress(Moments.from_array([[0, 1], [1, 3], [2, 5], [3, 7.5]]), 1, [0])
    >>> fit.coefficients.round(3), fit.stderrs.round(3)
    (array([2.15]), array([0.087]))
    """
    index = list(predecessors)
    freedom = moments.n - len(index) - 1
    if freedom < 1:
        return None
    scale = np.sqrt(np.diag(moments.scatter))
    gram = moments.scatter[np.ix_(index, index)] / np.outer(scale[index], scale[index])
    cross = moments.scatter[index, target] / (scale[index] * scale[target])
    try:
        factor = cho_factor(gram)
    except LinAlgError:
        return None
    beta = cho_solve(factor, cross)
    unexplained = max(0.0, 1.0 - float(cross @ beta)) / freedom
    stderrs = np.sqrt(unexplained * np.diag(cho_solve(factor, np.eye(len(index)))))
    units = scale[target] / scale[index]
    return Regression(beta * units, stderrs * units)


class Estimate(NamedTuple):
    """A number, its standard error and its degrees of freedom."""

    value: float
    stderr: float
    freedom: float

    def wider(self, times: float) -> Estimate:
        """The estimate with an error so many times as large."""
        return self._replace(stderr=self.stderr * times)

    @property
    def pvalue(self) -> float:
        """Of zero, two-sided."""
        return 2 * float(stdtr(self.freedom, -abs(self.value) / self.stderr)) if self.stderr > 0 else math.nan


@dataclass(frozen=True, eq=False)
class JointRegression:
    """One variable on its predecessors in both conditions; coefficients differ on a change set.

    With a gain those of the second condition are a factor times those of the first, but for the change set.
    Arrays are by predecessor.
    """

    first: FloatArray  # coefficients in the first condition
    second: FloatArray  # and in the second
    variance_first: float  # of the noise
    variance_second: float
    squares: tuple[float, float]  # residual sums of squares
    freedom: tuple[float, float]  # rows that the coefficients leave free, in each condition
    error_first: FloatArray  # standard errors of the coefficients
    error_second: FloatArray
    error_delta: FloatArray  # of their difference; zero where they are the same
    freedom_delta: FloatArray  # Satterthwaite's degrees of freedom of the last
    shift: Estimate  # of the intercept, first minus second, where all predecessors have their common mean,
    shifts: tuple[Estimate, Estimate]  # and where they have that of the first condition, or of the second
    gain: Estimate | None = None  # the factor
    gain_pvalue: float = math.nan  # of a factor of one
    multiplied: tuple[
        bool, ...
    ] = ()  # which coefficients, multiplied by it, are not next to zero; empty without
    worth: tuple[float, float] | None = None  # degrees of freedom of the variances, if rows tell
    ratio: Estimate | None = None  # logarithm of the ratio of the variances, where rows are nested

    @property
    def variance_pvalue(self) -> float:
        """Of equal noise variances."""
        if self.ratio is not None:
            return self.ratio.pvalue
        return float(equal_variances(self.variance_first / self.variance_second, *(self.worth or self.freedom)))

    def with_coefficients(self, other: JointRegression) -> JointRegression:
        """The regression with the coefficients of another, and what is known of their errors."""
        return replace(
            self,
            first=other.first,
            second=other.second,
            error_first=other.error_first,
            error_second=other.error_second,
            error_delta=other.error_delta,
            freedom_delta=other.freedom_delta,
        )

    def with_mean_errors(self, wide: float) -> JointRegression:
        """The regression with errors of intercepts that are so many times as large."""
        one, two = (own.wider(wide) for own in self.shifts)
        return replace(self, shift=self.shift.wider(wide), shifts=(one, two))

    def where_observed(self, own: float, pairs: FloatArray) -> JointRegression:
        """The regression with errors of so many fewer rows, by predecessor, and of its target alone."""
        if own >= 1 and (pairs >= 1).all():
            return self
        wide, root = 1 / np.sqrt(np.maximum(pairs, LEAST_WORTH)), math.sqrt(max(own, LEAST_WORTH))
        one, two = self.worth or self.freedom
        least = min(own, float(pairs.min(initial=1.0)))
        gain = None if self.gain is None else self.gain.wider(1 / math.sqrt(max(least, LEAST_WORTH)))
        return replace(
            self,
            error_first=self.error_first * wide,
            error_second=self.error_second * wide,
            error_delta=self.error_delta * wide,
            shift=self.shift.wider(1 / root),
            shifts=(self.shifts[0].wider(1 / root), self.shifts[1].wider(1 / root)),
            gain=gain,
            gain_pvalue=self.gain_pvalue if gain is None else _apart(gain).pvalue,
            worth=(max(one * own, 1.0), max(two * own, 1.0)),
            ratio=None if self.ratio is None else self.ratio.wider(1 / root),
        )

    def delta_pvalue(self, k: int) -> float:
        """Of no change of the k-th coefficient."""
        delta = float(self.first[k] - self.second[k])
        return Estimate(delta, float(self.error_delta[k]), float(self.freedom_delta[k])).pvalue


@dataclass(frozen=True, eq=False)
class JointFit:
    """A regression in both conditions, of variables divided by their scale; arrays are by condition."""

    model: _Coefficients
    scale: FloatArray  # of the predecessors and, last, the target
    counts: FloatArray  # rows
    theta: FloatArray
    variances: FloatArray  # of the noise
    squares: FloatArray  # residual sums of squares
    jacobians: FloatArray  # of the coefficients
    information: FloatArray
    covariance: FloatArray  # of the parameters, were the noise Gaussian

    @property
    def weights(self) -> FloatArray:
        """Coefficients of the scaled variables."""
        return self.model.weights(self.theta)

    @property
    def coefficients(self) -> FloatArray:
        """Coefficients in the units of the columns."""
        unit: FloatArray = self.scale[-1] / self.scale[:-1]
        return self.weights * unit

    @property
    def rest(self) -> FloatArray:
        """Residual sums of squares in the units of the target, none of them zero."""
        rest: FloatArray = np.maximum(self.squares * self.scale[-1] ** 2, np.finfo(float).tiny)
        return rest

    @property
    def freedom(self) -> FloatArray:
        """Rows that the coefficients leave free."""
        borne = (self.covariance * self.information).sum(axis=(1, 2))
        free: FloatArray = np.maximum(self.counts - 1 - borne, 1.0)
        return free


def fit_jointly(
    first: Moments,
    second: Moments,
    target: int,
    predecessors: Sequence[int],
    changed: Sequence[int],
    separate: bool,
    gain: bool = False,
) -> JointFit:
    """Fit the coefficients and noise variances of `regress_jointly`."""
    index = list(predecessors)
    scale = np.sqrt(np.diag(first.scatter) + np.diag(second.scatter))[[*index, target]]
    block = np.ix_([*index, target], [*index, target])
    scatters = np.array([moments.scatter[block] / np.outer(scale, scale) for moments in (first, second)])
    counts = np.array([first.n, second.n], float)
    model = _Coefficients(len(index), [index.index(j) for j in changed], gain)
    theta, variances, rss = _fit(model, scatters, counts, separate)
    jacobians, k = model.jacobians(theta), model.k
    information = _information(jacobians, scatters[:, :k, :k]) / variances[:, None, None]
    covariance = _inverse(information.sum(axis=0))
    return JointFit(model, scale, counts, theta, variances, rss, jacobians, information, covariance)


def regress_jointly(
    first: Moments,
    second: Moments,
    target: int,
    predecessors: Sequence[int],
    changed: Sequence[int],
    separate: bool,
    gain: bool = False,
    rows: tuple[FloatArray, FloatArray] | None = None,
    units: Units | None = None,
) -> JointRegression:
    """Generalised least squares with intercepts; `separate` if the two noise variances differ.

    There must be fewer predecessors than rows; `changed` are those of them whose coefficients differ, with a
    gain those that differ by more than the factor. With a gain coefficients are ``cos(a) b`` and ``sin(a) b``,
    and the factor is ``tan(a)``: neither condition is preferred, and effects may vanish in either. `rows` are
    those that the moments were taken of, or some of them, and `units` what all of them are nested in: errors
    are then those between units, and intercepts are compared by the levels of the units.

    >>> one = Moments.from_array([[0, 1], [1, 3], [2, 5], [3, 7.5]])
    >>> two = Moments.from_array([[0, 1], [1, 2], [2, 2.5], [3, 4]])
    >>> fit = regress_jointly(one, two, 1, [0], [0], separate=False)
    >>> fit.first.round(3), fit.second.round(3), fit.error_delta.round(3)
    (array([2.15]), array([0.95]), array([0.158]))
    """
    index = list(predecessors)
    found = fit_jointly(first, second, target, index, changed, separate, gain)
    model, scale, counts, k = found.model, found.scale, found.counts, found.model.k
    theta, variances, weights = found.theta, found.variances, found.weights
    jacobians, information, covariance = found.jacobians, found.information, found.covariance
    freedom = found.freedom
    seen = None
    if rows is not None:
        steps = [1 if units is not None else 1 + (len(table) - 1) // LONGEST for table in rows]
        tables = [table[::step, [*index, target]] / scale for table, step in zip(rows, steps, strict=True)]
        seen = [
            _Scores.of(table, *own)
            for table, *own in zip(tables, weights, jacobians, variances, counts, [covariance] * 2, strict=True)
        ]

    known = _Errors(information, covariance, freedom, variances, counts, separate, seen, units)
    unit = scale[k] / scale[:k]
    error_delta, freedom_delta = known.of(jacobians[0] - jacobians[1])
    means = np.array([first.mean, second.mean])[:, [*index, target]] / scale
    middle = np.average(means, axis=0, weights=counts)
    means -= middle
    # What the error of a mean is, in multiples of that of the mean of all rows.
    wide = np.sqrt(counts / [_mean_rows(moments) for moments in (first, second)])
    shifts = []
    for origin in (np.zeros(k), means[0, :k], means[1, :k]):
        around = means[:, :k] - origin
        reach = covariance @ (around[1] @ jacobians[1] - around[0] @ jacobians[0])
        if units is None:
            level = means[:, k] - np.einsum("ck,ck->c", weights, around)
            value, (error, own_freedom) = float(level[0] - level[1]), known.of_shift(reach, wide)
        else:
            levels = [own[:, [*index, target]] / scale - middle for own in units.nested.levels]
            left = [own[:, k] - (own[:, :k] - origin) @ beta for own, beta in zip(levels, weights, strict=True)]
            value, variance, own_freedom = units.compare_levels(left[0], left[1])
            error = math.sqrt(variance + float(np.einsum("i,cij,j->", reach, information, reach)))
        shifts.append(Estimate(value * scale[k], error * scale[k], own_freedom))
    one, two = (variances * scale[k] ** 2).tolist()
    (own_first, own_second), rest = found.coefficients, found.rest.tolist()
    return JointRegression(
        own_first,
        own_second,
        one,
        two,
        (rest[0], rest[1]),
        (float(freedom[0]), float(freedom[1])),
        known.of(jacobians[0])[0] * unit,
        known.of(jacobians[1])[0] * unit,
        error_delta * unit,
        freedom_delta,
        shifts[0],
        (shifts[1], shifts[2]),
        **(_gain(theta, k, model.extra, *known.of(np.eye(k + 1, len(theta)))) if gain else {}),
        worth=None if seen is None else _worth(seen, freedom),
        ratio=None if seen is None or units is None else _ratio(seen, variances, units),
    )


@dataclass(frozen=True, eq=False)
class _Errors:
    """What errors of linear forms of the parameters follow from: rows, units of rows, or moments alone."""

    information: FloatArray  # [condition, parameter, parameter]
    covariance: FloatArray
    freedom: FloatArray  # of each condition
    variances: FloatArray
    counts: FloatArray
    separate: bool
    seen: Sequence[_Scores] | None
    units: Units | None

    def of(self, contrasts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Standard errors of linear forms of the parameters, one a row, and their degrees of freedom."""
        reach = contrasts @ self.covariance
        if self.seen is not None and self.units is not None:
            one, two = (own.parts(reach) for own in self.seen)
            return self.units.errors(one, two, self.units.change)
        if self.seen is not None:
            return _robust(np.array([own.sums(reach) for own in self.seen]), self.freedom)
        parts = np.einsum("ui,cij,uj->cu", reach, self.information, reach)
        return np.sqrt(np.maximum(parts.sum(axis=0), 0.0)), self._freedom_of(parts)

    def of_shift(self, reach: FloatArray, wide: FloatArray) -> tuple[float, float]:
        """Of a difference of two means and a linear form; `wide` multiplies the errors of the means."""
        if self.seen is not None:
            signs = (wide * (1, -1)).tolist()
            sums = [own.sums(reach[None], sign) for own, sign in zip(self.seen, signs, strict=True)]
            error, freedom = (float(part[0]) for part in _robust(np.array(sums), self.freedom))
            return error, freedom
        parts = wide**2 * self.variances / self.counts + np.einsum("i,cij,j->c", reach, self.information, reach)
        return math.sqrt(parts.sum()), float(self._freedom_of(parts))

    def _freedom_of(self, parts: FloatArray) -> FloatArray:
        """Satterthwaite's, by what each condition contributes to a variance; one variance is known better."""
        total, freedom = parts.sum(axis=0), self.freedom
        if not self.separate:
            return np.full(parts.shape[1:], float(freedom.sum()), dtype=np.float64)
        with np.errstate(invalid="ignore"):
            own = total**2 / (parts**2 / freedom.reshape((2,) + (1,) * (parts.ndim - 1))).sum(axis=0)
        return np.asarray(np.where(total > 0, own, freedom.sum()), dtype=np.float64)


def _apart(gain: Estimate) -> Estimate:
    """How far the angle of a factor is from that of one."""
    angle = math.atan(gain.value) - math.pi / 4
    return Estimate(angle, gain.stderr / (1 + gain.value**2), gain.freedom)


def _mean_rows(moments: Moments) -> float:
    """Rows that a mean is worth; hardly any where it says nothing."""
    return float(moments.n) if moments.mean_rows is None else max(moments.mean_rows, LEAST_WORTH)


def _ratio(seen: Sequence[_Scores], variances: FloatArray, units: Units) -> Estimate:
    """The logarithm of the ratio of two noise variances, with its error between units."""
    parts = []
    for scores, variance, sign in zip(seen, variances, (1, -1), strict=True):
        own = np.square(scores.residuals * scores.share * len(scores.residuals))
        parts.append(sign * (own - own.mean())[:, None] / (len(own) * variance))
    error, freedom = units.errors(parts[0], parts[1], units.variance)
    return Estimate(math.log(variances[0] / variances[1]), float(error[0]), float(freedom[0]))


@dataclass(frozen=True, eq=False)
class _Scores:
    """What each row of a condition contributes to the parameters, and to the mean of the residual."""

    scores: FloatArray  # [row, parameter]
    residuals: FloatArray
    share: float  # what the condition counts for each row

    @classmethod
    def of(
        cls,
        table: FloatArray,
        weights: FloatArray,
        jacobian: FloatArray,
        variance: float,
        count: float,
        covariance: FloatArray,
    ) -> _Scores:
        """Of rows of the predecessors and, last, the target; residuals are those without the row itself."""
        table = table - table.mean(axis=0)
        along = table[:, :-1] @ jacobian
        share = count / len(table)
        leverage = np.einsum("ri,ij,rj->r", along, covariance, along) / variance + 1 / count
        residuals = (table[:, -1] - table[:, :-1] @ weights) / (1 - np.minimum(leverage, HIGHEST))
        return cls(along * (residuals / variance)[:, None], residuals / count, share)

    def parts(self, reach: FloatArray) -> FloatArray:
        """What rows contribute to linear forms of the parameters, [row, form]."""
        parts: FloatArray = self.scores @ reach.T
        return parts

    def sums(self, reach: FloatArray, sign: float = 0.0) -> FloatArray:
        """Sums of squares and of fourth powers of what rows contribute, [power, form].

        The mean of the residual counts besides, `sign` times.
        """
        parts = self.parts(reach) + sign * self.residuals[:, None]
        squares = parts * parts
        return self.share * np.array([squares.sum(axis=0), (squares * squares).sum(axis=0)])


def _robust(sums: FloatArray, freedom: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Standard errors, and degrees of freedom: three if a single row decides, a third of the rows if all do."""
    squares, fourth = sums.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        few = 3 * squares**2 / fourth
    return np.sqrt(squares), np.where(fourth > 0, np.minimum(few, freedom.sum()), freedom.sum())


def _worth(seen: Sequence[_Scores], freedom: FloatArray) -> tuple[float, float]:
    """Degrees of freedom of two variances, by the kurtosis of the residuals of both, as if they were one."""
    both = np.concatenate([scores.residuals * scores.share * len(scores.residuals) for scores in seen])
    squares = both * both
    kurtosis = max(
        float(np.mean(squares * squares) / max(float(np.mean(squares)), 1e-150) ** 2), LEAST_KURTOSIS
    )
    one, two = (2 * freedom / (kurtosis - 1)).tolist()
    return one, two


def _gain(
    theta: FloatArray, k: int, extra: list[int], stderrs: FloatArray, freedoms: FloatArray
) -> dict[str, Any]:
    """What the angle and the slopes say about a gain."""
    angle, error, freedom = float(theta[k]), float(stderrs[k]), float(freedoms[k])
    factor = math.tan(angle)
    apart = (angle - math.pi / 4 + math.pi / 2) % math.pi - math.pi / 2
    sizes = np.abs(theta[:k]) / stderrs[:k]
    sizes[extra] = 0.0
    least = np.maximum(stdtrit(freedoms[:k], 1 - NOT_ZERO / 2 / k), NOT_SMALL * sizes.max())
    return {
        "gain": Estimate(factor, error * (1 + factor**2), freedom),
        "gain_pvalue": Estimate(apart, error, freedom).pvalue,
        "multiplied": tuple((sizes > least).tolist()),
    }


@dataclass(frozen=True, eq=False)
class _Coefficients:
    """How coefficients in both conditions follow from parameters: b, then the angle of a gain, then changes."""

    k: int
    extra: list[int]
    gain: bool

    def multiples(self, theta: FloatArray) -> FloatArray:
        """Of b, in the two conditions."""
        angle = float(theta[self.k]) if self.gain else None
        return np.ones(2) if angle is None else np.array([math.cos(angle), math.sin(angle)])

    def weights(self, theta: FloatArray) -> FloatArray:
        """Coefficients in the two conditions."""
        both: FloatArray = np.outer(self.multiples(theta), theta[: self.k])
        if self.gain:  # they are free in both, so that others may vanish in either
            both[0, self.extra], both[1, self.extra] = theta[self.extra], theta[self.k + 1 :]
        else:
            both[0, self.extra] += theta[self.k :]
        return both

    def jacobians(self, theta: FloatArray) -> FloatArray:
        """Their derivatives, [condition, coefficient, parameter]."""
        k, (c, s) = self.k, self.multiples(theta)
        out = np.zeros((2, k, len(theta)))
        out[0, range(k), range(k)], out[1, range(k), range(k)] = c, s
        if self.gain:
            out[:, :, k] = np.outer([-s, c], theta[:k])
            out[:, self.extra] = 0.0
            out[0, self.extra, self.extra] = 1.0
        out[int(self.gain), self.extra, range(k + self.gain, len(theta))] = 1.0
        return out

    def at(self, angle: float, scatters: FloatArray, variances: FloatArray) -> FloatArray:
        """The parameters at an angle, given the variances of the noise."""
        k, extra = self.k, self.extra
        fixed = np.zeros(k + 1 + len(extra))
        fixed[k] = angle
        jacobians = np.delete(self.jacobians(fixed), k, axis=2)
        information = (_information(jacobians, scatters[:, :k, :k]) / variances[:, None, None]).sum(axis=0)
        cross = np.einsum("cji,cj->i", jacobians, scatters[:, :k, k] / variances[:, None])
        try:
            solution = np.linalg.solve(information, cross)
        except LinAlgError:
            solution = _inverse(information) @ cross
        return np.insert(solution, k, angle)

    def start(self, scatters: FloatArray, rows: FloatArray, separate: bool) -> FloatArray:
        """Parameters to begin with: with a gain, at the best of some angles."""
        best, theta = math.inf, np.zeros(self.k + self.gain + len(self.extra))
        for angle in (np.arange(ANGLES) + 0.5) * math.pi / ANGLES if self.gain else ():
            variances = np.ones(2)
            for _ in range(3 if separate else 1):
                tried = self.at(float(angle), scatters, variances)
                squares = _squares(self.weights(tried), scatters)
                variances = np.maximum(squares / rows, 1e-300)
            loss = minus_loglik((squares[0], squares[1]), (rows[0], rows[1]), separate)
            if loss < best:
                best, theta = loss, tried
        return theta


def _information(jacobians: FloatArray, grams: FloatArray) -> FloatArray:
    information: FloatArray = np.swapaxes(jacobians, 1, 2) @ grams @ jacobians
    return information


def _inverse(matrix: FloatArray) -> FloatArray:
    """The inverse; where effects vanish and the angle of a gain means nothing, the pseudo-inverse."""
    try:
        inverse = np.linalg.inv(matrix)
    except LinAlgError:
        inverse = np.linalg.pinv(matrix, hermitian=True)
    return np.asarray(inverse, dtype=np.float64)


def _squares(weights: FloatArray, scatters: FloatArray) -> FloatArray:
    return np.array([residual_squares(*pair) for pair in zip(scatters, weights, strict=True)])


def _fit(
    model: _Coefficients, scatters: FloatArray, rows: FloatArray, separate: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Parameters, variances and residual sums of squares.

    Steps are those of Gauss and Newton, of which one is enough without a gain; between them the variances
    follow the residuals.
    """
    k, theta, variances = model.k, model.start(scatters, rows, separate), np.ones(2)
    grams = scatters[:, :k, :k]
    if model.gain:
        variances = np.maximum(_squares(model.weights(theta), scatters) / rows, 1e-300)
    for _ in range(ITERATIONS if separate or model.gain else 1):
        jacobians = model.jacobians(theta)
        weighted = _information(jacobians, grams) / variances[:, None, None]
        left = scatters[:, :k, k] - np.einsum("cij,cj->ci", grams, model.weights(theta))
        inverse = _inverse(weighted.sum(axis=0))
        step = inverse @ np.einsum("cji,cj->i", jacobians, left / variances[:, None])
        if model.gain:
            step *= min(1.0, LARGEST_TURN / max(abs(float(step[k])), 1e-300))
        theta = theta + step
        rss, before = _squares(model.weights(theta), scatters), variances
        if separate:
            # The first condition bears this many of the parameters, the second the others.
            borne = float((inverse * weighted[0]).sum())  # the trace of their product
            freedom = rows - 1 - np.array([borne, len(theta) - borne])
            variances = np.maximum(rss / np.maximum(freedom, 1), 1e-300)
        else:
            variances = np.full(2, rss.sum() / max(rows.sum() - 2 - len(theta), 1))
        still = not model.gain or np.abs(step).max() <= 1e-9 * np.abs(theta).max()
        if still and (np.abs(before - variances) <= 1e-10 * variances).all():
            break
    return theta, variances, rss


def residual_squares(scatter: FloatArray, coefficients: FloatArray) -> float:
    """Residual sum of squares, from the scatter matrix of the predecessors and, last, the target.

    >>> residual_squares(np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([0.5]))
    2.5
    """
    contrast = np.append(-coefficients, 1.0)
    return max(float(contrast @ scatter @ contrast), 0.0)


def minus_loglik(squares: tuple[float, float], rows: tuple[float, float], separate: bool) -> float:
    """Minus the log-likelihood with one noise variance or, if separate, two; up to a constant."""
    parts = zip(squares, rows, strict=True) if separate else [(sum(squares), sum(rows))]
    return sum(n / 2 * math.log(total / n) for total, n in parts)


def equal_variances(ratio: Any, free1: Any, free2: Any) -> FloatArray:
    """Two-sided p-values of Fisher's test of a ratio of variances, given their degrees of freedom."""
    tails = np.minimum(fdtr(free1, free2, ratio), fdtrc(free1, free2, ratio))
    return np.asarray(np.minimum(1.0, 2 * tails), dtype=np.float64)
