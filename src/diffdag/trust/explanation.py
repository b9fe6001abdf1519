"""Why variables moved: Shapley values of the changed mechanisms of a result, with intervals.

Every variable is regressed on its predecessors along the fitted order, jointly in both conditions, with the
changes that the result lists; what it does not list is the same in both, so that its part stays unexplained.
A changed effect tilts the line of a regression, and how much of the mean that moves depends on where it is
tilted: the intercept has the rest. Where all predecessors are zero, as in ``x = B x + a + e``, is right for
quantities of which zero means none; for others, such as degrees Celsius, both parts may be as large as one
likes and cancel. So an equation is tilted at zero, unless its intercept there clearly changed, and by more than
that at the common mean of its predecessors, which is the one of `MeanChange`: then there.

Intervals come from resamples in one step (multiplier bootstrap; van der Vaart and Wellner 1996, 3.6): with
random weights w of mean zero and variance one, parameters move by

    sum_r w_r IF(x_r),

where IF is the influence function, the same weights for all regressions. Residuals are those of HC3
(MacKinnon and White 1985). Where rows are nested, rows of one unit have one weight. Without rows, parameters
are drawn from their distribution under Gaussian noise. The parts of each draw are worked out as those of the
estimate, and an interval reaches 1.96 standard deviations of these to either side; somewhat farther where the
order had to be found, which may be wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from diffdag._base.arrays import FloatArray, IntArray
from diffdag.model.attribution import ChangedEquations, shapley_values, total_effects
from diffdag.model.nesting import Units, unit_factors
from diffdag.model.regression import HIGHEST, LEAST_WORTH, LONGEST, JointFit, fit_jointly
from diffdag.ordersearch.fit import OrderFit
from diffdag.results.difference import Difference
from diffdag.results.explanation import Explanation, Explanations, Mechanism, Part
from diffdag.tables.moments import Moments

DRAWS, FEWEST, NUMBERS = 400, 50, 2_000_000  # draws, of which the matrices have no more numbers than that
FEW_NODES = 4  # of the quadrature, for draws
LEVEL = 0.95
CLEAR = 2.6  # standard errors from which an intercept clearly changed
EXACT = 1e-6  # weights of exact models, in standard deviations, that are rounding errors
SEARCHED = 1.12  # times as wide are intervals along an order that had to be found (docs/dev/constants.md)
SEED = 22
WHAT = ("variance", "mean")  # the latter where means can be compared


class _Listed(NamedTuple):
    """What a result lists of one variable, by position in the order."""

    effects: dict[int, str]  # names of changed effects, by cause
    single: tuple[int, ...]  # causes whose effects differ by themselves in the regression, listed or not
    gain: bool
    noise: bool
    intercept: bool


@dataclass(frozen=True, eq=False)
class _Conditions:
    """The data of both conditions in causal order, on variables divided by their scale."""

    first: Moments
    second: Moments
    order: list[int]
    rows: tuple[FloatArray, FloatArray] | None
    units: Units | None
    half: int  # of the draws: the others have the opposite weights
    searched: bool = True  # whether the order had to be found

    @cached_property
    def scale(self) -> FloatArray:
        """Of each variable, as in the regressions."""
        squares: FloatArray = np.diag(self.first.scatter) + np.diag(self.second.scatter)
        return np.sqrt(squares)[self.order]

    @property
    def counts(self) -> tuple[int, int]:
        """Rows of both conditions, whatever they are worth."""
        if self.rows is None:
            return self.first.n, self.second.n
        return len(self.rows[0]), len(self.rows[1])

    @property
    def moments(self) -> tuple[Moments, Moments]:
        """Of both conditions."""
        return self.first, self.second

    @cached_property
    def means(self) -> FloatArray:
        """[condition, variable]."""
        return np.array([own.mean[self.order] / self.scale for own in self.moments])

    @cached_property
    def tables(self) -> list[FloatArray]:
        """Rows around their means; of long tables, some."""
        if self.rows is None:
            return []
        steps = [1 if self.units is not None else 1 + (len(table) - 1) // LONGEST for table in self.rows]
        chosen = [table[::step, self.order] / self.scale for table, step in zip(self.rows, steps, strict=True)]
        return [table - table.mean(axis=0) for table in chosen]

    @cached_property
    def unit_weights(self) -> FloatArray:
        """[draw, unit]; none where rows are independent."""
        count = 0 if self.units is None else len(self.units.nested.units)
        return np.random.default_rng(SEED).standard_normal((self.half, count))

    @cached_property
    def weights(self) -> list[FloatArray]:
        """Of the rows of each condition, [draw, row]."""
        if self.units is None:
            rng = np.random.default_rng(SEED)
            return [rng.standard_normal((self.half, len(table))) for table in self.tables]
        found = []
        for members in self.units.nested.members:
            sizes = np.bincount(members, minlength=self.unit_weights.shape[1])
            wide = np.sqrt(unit_factors(sizes / sizes.sum()))
            found.append((self.unit_weights * wide)[:, members])
        return found

    @property
    def comparable(self) -> bool:
        """Whether means can be compared."""
        if self.units is not None:
            return self.units.nested.compared
        return all(own.mean_rows != 0 for own in self.moments)

    @cached_property
    def mean_draws(self) -> FloatArray:
        """By how much means move, [condition, draw, variable]."""
        out = np.zeros((2, self.half, len(self.order)))
        rng = np.random.default_rng(SEED + 1)
        for c, own in enumerate(self.moments):
            worth = max(own.n if own.mean_rows is None else own.mean_rows, LEAST_WORTH)
            if self.units is not None:
                levels = self.units.nested.levels[c][:, self.order] / self.scale
                there = np.asarray(np.isfinite(levels).all(axis=1), dtype=np.bool_)
                apart = np.where(there[:, None], levels - np.nanmean(levels, axis=0), 0.0) / there.sum()
                out[c] = (self.unit_weights * np.sqrt(unit_factors(there / there.sum()))) @ apart
            elif self.tables:
                out[c] = self.weights[c] @ self.tables[c] / math.sqrt(len(self.tables[c]) * worth)
            else:
                block = own.scatter[np.ix_(self.order, self.order)] / np.outer(self.scale, self.scale)
                root = _root(block / own.n / worth)
                out[c] = rng.standard_normal((self.half, len(root))) @ root
        return out

    @property
    def reach(self) -> float:
        """Standard errors that intervals reach to either side."""
        freedom = math.inf
        if self.units is not None:
            one, two = self.units.nested.counts
            freedom = max(one + two - 2 - len(self.units.nested.pairs), 1)
        return float(stdtrit(min(freedom, 1e6), (1 + LEVEL) / 2)) * (SEARCHED if self.searched else 1.0)

    def moves(
        self, i: int, earlier: Sequence[int], fit: JointFit, separate: bool
    ) -> tuple[FloatArray, FloatArray]:
        """By how much coefficients [condition, draw, predecessor] and logarithms of variances move."""
        if not self.tables:
            return self._gaussian_moves(i, fit, separate)
        theta = np.zeros((self.half, len(fit.theta)))
        logs = np.zeros((2, self.half))
        for c, (table, weights) in enumerate(zip(self.tables, self.weights, strict=True)):
            x, share = table[:, earlier], math.sqrt(fit.counts[c] / len(table))
            along = x @ fit.jacobians[c]
            leverage = ((along @ fit.covariance) * along).sum(axis=1) / fit.variances[c] + 1 / fit.counts[c]
            left = (table[:, i] - x @ fit.weights[c]) / (1 - np.minimum(leverage, HIGHEST))
            theta += weights @ (along * left[:, None]) * (share / fit.variances[c])
            squares = left * left
            logs[c] = weights @ (squares / squares.mean() - 1) / (len(table) * share)
        theta = theta @ fit.covariance
        if not separate:
            logs[:] = fit.counts @ logs / fit.counts.sum()
        return np.einsum("cij,dj->cdi", fit.jacobians, theta), logs

    def _gaussian_moves(self, i: int, fit: JointFit, separate: bool) -> tuple[FloatArray, FloatArray]:
        rng = np.random.default_rng([SEED, i])
        theta = rng.standard_normal((self.half, len(fit.theta))) @ _root(fit.covariance)
        freedom = fit.freedom if separate else np.full(2, fit.freedom.sum())
        normal = rng.standard_normal((2, self.half))
        logs = (normal if separate else normal[:1]) * np.sqrt(2 / freedom)[:, None]
        return np.einsum("cij,dj->cdi", fit.jacobians, theta), logs


def _root(covariance: FloatArray) -> FloatArray:
    """A matrix whose square, as ``R' R``, is this one."""
    values, vectors = np.linalg.eigh(covariance)
    root: FloatArray = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    return root


@dataclass(frozen=True, eq=False)
class _Fitted:
    """Equations of both conditions, [condition, version, ...]: the estimate first, then draws."""

    weights: FloatArray
    intercepts: FloatArray  # around the common mean
    variances: FloatArray
    centre: FloatArray  # the common mean, [version, variable]
    zeros: tuple[int, ...]  # variables whose intercepts change less at zero than at the common mean


def explain_changes(
    result: Difference, fit: OrderFit, held_out: tuple[Moments, Moments] | None = None, *, exact: bool = False
) -> Explanations:
    """Say of every variable what moved it.

    `held_out` are moments of rows that the search did not see, to estimate on; exact models have no intervals.
    """
    p, structure = len(fit.first.names), fit.structure
    half = max(FEWEST, min(DRAWS, NUMBERS // p**2)) // 2
    first, second = held_out or (fit.first, fit.second)
    rows, units = (fit.rows, fit.units) if held_out is None else (None, None)
    searched = "order" not in fit.settings.known
    data = _Conditions(first, second, list(structure.order), rows, units, half, searched)
    listed = [_listed(result, fit, i) for i in structure.order]
    fitted = _fit_all(data, fit, listed, exact=exact)
    mechanisms, changed = _players(fit, listed, fitted, data)
    at_zero = [fit.first.names[structure.order[k]] for k in fitted.zeros]
    if exact:
        return _explanations(data, mechanisms, changed[:1], at_zero)
    return _explanations(data, mechanisms, changed, at_zero)


def _listed(result: Difference, fit: OrderFit, i: int) -> _Listed:
    """What the result lists of one variable."""
    names, structure = fit.first.names, fit.structure
    place = {j: k for k, j in enumerate(structure.order)}
    single = structure.causes.get(i, ())
    effects = {}
    for j in single:
        for edge in result.edge_list:
            ends = edge.source, edge.target
            if ends == (names[j], names[i]) or (not edge.directed and ends == (names[i], names[j])):
                effects[place[j]] = str(edge)
    lists = (result.gain_list, result.noise_list, result.mean_list)
    gain, noise, intercept = (any(own.variable == names[i] for own in one) for one in lists)
    return _Listed(effects, tuple(place[j] for j in single), gain and i in structure.gains, noise, intercept)


def _fit_all(data: _Conditions, fit: OrderFit, listed: list[_Listed], *, exact: bool) -> _Fitted:
    """Regress every variable on its predecessors, and draw what the regressions might have been."""
    p, structure, half = len(data.order), fit.structure, data.half
    weights = np.zeros((2, 1 + 2 * half, p, p))
    variances = np.zeros((2, 1 + 2 * half, p))
    intercepts = np.zeros((2, 1 + 2 * half, p))
    means = _both_signs(data.means[:, None], data.mean_draws)
    counts = np.array([data.first.n, data.second.n], float)
    centre = np.average(means, axis=0, weights=counts)
    around = means - centre
    zeros = []
    for k, (i, own) in enumerate(zip(structure.order, listed, strict=True)):
        separate = i in structure.separate
        causes = [structure.order[j] for j in own.single]
        before = set(structure.predecessors(i))
        earlier = [j for j in range(k) if structure.order[j] in before]
        regressors = [data.order[j] for j in earlier]
        found = fit_jointly(data.first, data.second, i, regressors, causes, separate, i in structure.gains)
        moves, logs = data.moves(k, earlier, found, separate)
        if fit.known_cells is not None:
            known = np.maximum(fit.known_cells[i, [*regressors, i]], LEAST_WORTH)
            moves, logs = moves / np.sqrt(known[:-1]), logs / math.sqrt(known[-1])
        slopes = _both_signs(found.weights[:, None], moves)
        if exact:
            slopes = np.where(np.abs(slopes) < EXACT, 0.0, slopes)
        noise = found.variances[:, None] * np.exp(_both_signs(np.zeros((2, 1)), logs))
        same = [
            at for at, j in enumerate(earlier) if not (j in own.effects or (own.gain and j not in own.single))
        ]
        slopes[..., same] = np.average(slopes[..., same], axis=0, weights=counts)
        if not own.noise:
            noise[:] = np.average(noise, axis=0, weights=found.freedom)
        level = around[..., k] - (slopes * around[..., earlier]).sum(axis=-1)
        # From the common mean to zero the levels change by so much.
        lower = (slopes * centre[:, earlier]).sum(axis=-1)
        if at_zero := (own.effects or own.gain) and _starts_at_zero(level, level - lower):
            zeros.append(k)
        if not own.intercept:
            start = lower if at_zero else 0.0
            level = start + np.average(level - start, axis=0, weights=counts / found.variances)
        weights[..., k, earlier], variances[..., k], intercepts[..., k] = slopes, noise, level
    return _Fitted(weights, intercepts, variances, centre, tuple(zeros))


def _starts_at_zero(level: FloatArray, at_zero: FloatArray) -> bool:
    """Whether the intercept at zero changes less than that at the common mean, or not clearly at all."""
    here, there = level[1] - level[0], at_zero[1] - at_zero[0]
    return bool(abs(there[0]) < max(abs(here[0]), CLEAR * there[1:].std()))


def _both_signs(estimate: FloatArray, moves: FloatArray) -> FloatArray:
    """The estimate, and what it might have been: draws come in pairs of opposite signs."""
    return np.concatenate([estimate, estimate + moves, estimate - moves], axis=1)


def _players(
    fit: OrderFit, listed: list[_Listed], fitted: _Fitted, data: _Conditions
) -> tuple[list[Mechanism], ChangedEquations]:
    """The mechanisms that changed, and what they add to the equations."""
    names = [fit.first.names[i] for i in fit.structure.order]
    mechanisms: list[Mechanism] = []
    rows: list[int] = []
    added: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    apart = fitted.weights[1] - fitted.weights[0]
    nothing, none = np.zeros_like(apart[:, 0]), np.zeros_like(fitted.intercepts[0, :, 0])
    for k, own in enumerate(listed):
        name, delta = names[k], apart[:, k]
        level = fitted.intercepts[1, :, k] - fitted.intercepts[0, :, k]
        moved = (delta * fitted.centre).sum(axis=-1)
        at_zero = k in fitted.zeros
        for mechanism, columns in _slopes_of(own, name, names, k):
            part = nothing.copy()
            part[:, columns] = delta[:, columns]
            mechanisms.append(mechanism)
            added.append((part, (part * fitted.centre).sum(axis=-1) if at_zero else none, none))
        if own.intercept and data.comparable:
            mechanisms.append(Mechanism(f"intercept of {name}", "intercept", name))
            added.append((nothing, level - moved if at_zero else level, none))
        if own.noise:
            mechanisms.append(Mechanism(f"noise of {name}", "noise", name))
            added.append((nothing, none, fitted.variances[1, :, k] - fitted.variances[0, :, k]))
        rows += [k] * (len(mechanisms) - len(rows))
    shapes = (len(apart), 0, len(names)), (len(apart), 0), (len(apart), 0)
    parts = [np.stack(one, axis=1) for one in zip(*added, strict=True)] or [np.zeros(shape) for shape in shapes]
    place: IntArray = np.array(rows, dtype=np.int64)
    first = fitted.weights[0], fitted.intercepts[0], fitted.variances[0]
    return mechanisms, ChangedEquations(*first, place, parts[0], parts[1], parts[2])


def _slopes_of(own: _Listed, name: str, names: list[str], k: int) -> Iterator[tuple[Mechanism, list[int]]]:
    """Changed effects on a variable, and its gain, with the coefficients that they move."""
    if own.gain:
        yield Mechanism(f"gain of {name}", "gain", name), [j for j in range(k) if j not in own.single]
    for j, said in own.effects.items():
        yield Mechanism(said, "effect", name, names[j]), [j]


def _explanations(
    data: _Conditions,
    mechanisms: list[Mechanism],
    changed: ChangedEquations,
    at_zero: list[str],
) -> Explanations:
    """Work out the parts, and put them in the user's units."""
    names, (one, two) = data.first.names, data.moments
    estimates = shapley_values(changed[:1])
    draws = shapley_values(changed[1:], min(FEW_NODES, max(1, math.ceil(len(mechanisms) / 2))))
    errors = [data.reach * own.std(axis=0) if len(own) else np.full(own.shape[1:], math.nan) for own in draws]
    total = total_effects(changed.weights[0])
    targets = []
    for i, k in sorted(zip(data.order, range(len(data.order)), strict=True)):
        parts = []
        for m in np.flatnonzero(changed.rows <= k).tolist():
            numbers: dict[str, float] = {}
            for power, what in enumerate(WHAT[: 2 if data.comparable else 1]):
                unit = float(data.scale[k]) ** (2 - power)
                value, wide = (float(own[1 - power][m, k]) * unit for own in (_only(estimates), errors))
                numbers |= {what: value, f"{what}_low": value - wide, f"{what}_high": value + wide}
            if mechanisms[m].kind == "effect":
                row, j = int(changed.rows[m]), data.order.index(names.index(mechanisms[m].source or ""))
                delta = float(changed.delta_weights[0, m, j] * data.scale[k] / data.scale[j])
                numbers |= {"direct": delta if row == k else 0.0, "total": delta * float(total[k, row])}
            # What rounding leaves out is unexplained.
            parts.append(Part(m, **{name: float(f"{value:.7g}") for name, value in numbers.items()}))
        # Effective sample sizes scale scatters; the variance is that of the rows.
        first, second = (
            float(own.scatter[i, i]) / own.n * (rows / max(rows - 1, 1))
            for own, rows in zip((one, two), data.counts, strict=True)
        )
        moved = Explanation(names[i], variance_first=first, variance_second=second, parts=tuple(parts))
        if data.comparable:
            moved = replace(moved, mean_first=float(one.mean[i]), mean_second=float(two.mean[i]))
        targets.append(moved)
    return Explanations(tuple(mechanisms), tuple(targets), tuple(at_zero))


def _only(estimates: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    return estimates[0][0], estimates[1][0]
