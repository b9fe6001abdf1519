"""Which variables' own residuals moved, where one condition has too few rows for a covariance, down to one.

The other condition, the reference, has rows enough for means and regressions. Let ``x`` be the mean of the few
rows, m of them, less the mean of the n reference rows. Along a causal order, what is left of ``x_i`` given the
parents S of variable i is ``e_i(S) = x_i - beta(S) x_S``; if only the intercept of one variable moved, it
is large there and nowhere else, however far the effects of that variable spread (Li, Chu, Ting and Maathuis
2025, "Root cause discovery via permutations and Cholesky decomposition", JRSSB). In numbers of standard errors,

    t_i(S) = e_i(S) / (s(S) sqrt(1 / m + h(S))),     h(S) = 1 / n + x_S' scatter(S)^-1 x_S,

the studentised error of a prediction. Which S are the parents is not known, but the reference says how likely
each set is (`parent_sets`). The evidence is the Bayes factor of a moved intercept, averaged over these sets:

    evidence_i = log sum_S P(S | reference) BF(t_i(S)),

BF the ratio of Student densities with scale ``sqrt(1 + SPREAD)`` and 1. For Gaussian noise and a single order
the logarithm of BF is close to ``t^2 / 2``, so this is a soft version of the largest standardised residual over
the orders that the reference allows.

What the evidence is worth is told by the reference itself: m of its rows at a time are taken for the few. For
rows inside the regression, the same t is that of a shift of their mean (Cook and Weisberg 1982, "Residuals and
influence in regression", section 2.2.2), with the residual variance of the others,

    t_i(S)^2 = q / s'^2,     q = m e^2 / (1 - m h),     s'^2 = (residual sum of squares - q) / (n - |S| - 2).

The p-value is the share of such rows with as much evidence; beyond nearly all of them, that of a generalised
Pareto tail fitted to the largest tenth (`tail_pvalues`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from diffdag._base.arrays import BoolArray, FloatArray, IndexArray
from diffdag._base.progress import ProgressCallback
from diffdag.ordersearch.parent_sets import SMALLEST, DrawnOrders, ParentSets, Regressions, draw_orders
from diffdag.ordersearch.screen import silent

CLEAR, MOST_STEPS = 0.01, 4  # p-value of a residual that moved, and how many explain others away
SPREAD = 10.0  # variance of a moved residual over that of one that did not move
MOST_DRAWN = 1000  # samples of the reference that stand in for the few rows
LEAST_DRAWN = 400  # where several rows are drawn at a time
TAIL, LEAST_TAIL, MOST_TAIL = (
    0.1,
    8,
    60,
)  # share of them beyond which a tail is fitted, and least and most numbers
HEAVIEST = 0.7  # shape of that tail
CAUTION = 1.0  # is added to that shape, divided by their number


@dataclass(frozen=True, eq=False)
class MovedMeans:
    """What the means of few rows say of each variable, against a reference."""

    pvalues: FloatArray  # of the variable's own residual not having moved
    shifts: FloatArray  # by so much it moved: the few less the reference, less what moved parents account for
    errors: FloatArray  # standard errors of that
    evidence: FloatArray  # logarithms of Bayes factors


def compare_means(
    reference: FloatArray,
    few: FloatArray,
    rng: np.random.Generator,
    before: BoolArray | None = None,
    *,
    in_sequence: bool = False,
    most: int = 200,
    progress: ProgressCallback = silent,
) -> MovedMeans:
    """Test of each variable whether its own residual moved.

    Parameters
    ----------
    reference, few : ndarray
        Rows of the two conditions; no column of the reference is constant.
    rng : numpy.random.Generator
        Draws causal orders, and rows of the reference.
    before : ndarray of bool, optional
        ``before[a, b]`` if variable a has to precede b.
    in_sequence : bool
        Whether rows are a time series: consecutive rows of the reference then stand in for the few.
    most : int
        Parents are looked for among so many variables, those whose means moved most.
    progress : callable
        Is told how far it is.
    """
    return Reference.of(reference, few.mean(axis=0), rng, before, most, progress).compare(
        few, rng, in_sequence=in_sequence
    )


@dataclass(frozen=True, eq=False)
class Reference:
    """The condition with rows enough: its rows, standardised, and the causal orders that they allow."""

    mean: FloatArray
    scale: FloatArray
    rows: FloatArray
    kept: IndexArray  # the variables that are ordered
    orders: DrawnOrders

    @classmethod
    def of(
        cls,
        rows: FloatArray,
        few: FloatArray,
        rng: np.random.Generator,
        before: BoolArray | None = None,
        most: int = 200,
        progress: ProgressCallback = silent,
    ) -> Reference:
        """Draw causal orders of the variables that moved most towards the mean of `few`."""
        mean, scale = rows.mean(axis=0), rows.std(axis=0)
        table = (rows - mean) / scale
        kept = np.sort(np.argsort(-np.abs((few - mean) / scale), kind="stable")[:most])
        known = None if before is None else before[np.ix_(kept, kept)]
        scatter = table[:, kept].T @ table[:, kept]
        return cls(mean, scale, table, kept, draw_orders(scatter, len(rows), rng, known, progress))

    def parents(self, log_weights: FloatArray | None = None) -> tuple[ParentSets, ...]:
        """The likely parents of each variable, with orders weighted or not; others have none."""
        found = {
            int(k): own.among(self.kept)
            for k, own in zip(self.kept, self.orders.parents(log_weights), strict=True)
        }
        return tuple(found.get(i) or ParentSets.none(i, len(self.rows)) for i in range(len(self.mean)))

    def compare(self, few: FloatArray, rng: np.random.Generator, *, in_sequence: bool = False) -> MovedMeans:
        """Test of each variable whether its own residual moved in `few` rows.

        Where one clearly did, orders in which its residual is large are the likelier ones, and what they do
        not allow is explained away: other variables are tested again along the orders so weighted, and keep the
        larger p-value.
        """
        point = ((few.mean(axis=0) - self.mean) / self.scale)[None]
        drawn = draw_means(self.rows, len(few), rng, in_sequence=in_sequence)
        everything = range(len(self.mean))
        parents = list(self.parents())
        evidence, pvalues = _test(parents, everything, point, drawn, len(few))
        weights, left = np.zeros(len(self.orders.masks)), set(everything)
        for _ in range(MOST_STEPS):
            clear = [i for i in left if pvalues[i] <= CLEAR and i in self.kept]
            if not clear or len(left) == 1:
                break
            best = max(clear, key=lambda i: evidence[i])
            left.discard(best)
            weights += self._support(best, point, len(few))
            again, others = self.parents(weights), sorted(left)
            found, values = _test(again, others, point, drawn, len(few))
            for i, own, value in zip(others, found, values, strict=True):
                if value > pvalues[i]:
                    parents[i], evidence[i], pvalues[i] = again[i], own, value
        shifts = np.array([self._shift(sets, point, len(few)) for sets in parents])
        return MovedMeans(pvalues, shifts[:, 0], shifts[:, 1], evidence)

    def _support(self, variable: int, point: FloatArray, m: int) -> FloatArray:
        """Logarithms of the Bayes factors of a moved residual along each order."""
        i = int(np.searchsorted(self.kept, variable))
        every = ParentSets(self.orders.families[i].regressions, np.zeros(0)).among(self.kept)
        return self.orders.log_means(i, log_bayes_factor(*moved(every.regressions, point, m))[:, 0])

    def _shift(self, sets: ParentSets, point: FloatArray, m: int) -> tuple[float, float]:
        """By how much the residual moved, and the standard error, averaged over sets given that it did."""
        squares, freedom = moved(sets.regressions, point, m)
        weights = sets.log_probabilities + log_bayes_factor(squares, freedom)[:, 0]
        weights = np.exp(weights - logsumexp(weights))
        left = residuals(sets.regressions, point)[:, 0]
        errors = np.abs(left) / np.sqrt(np.maximum(squares[:, 0], SMALLEST))
        shift, unit = weights @ left, self.scale[sets.regressions.target]
        error = np.sqrt(weights @ (errors**2 + (left - shift) ** 2))
        return float(shift * unit), float(error * unit)


def _test(
    parents: Sequence[ParentSets], variables: Sequence[int], point: FloatArray, drawn: FloatArray, m: int
) -> tuple[FloatArray, FloatArray]:
    """Evidence and p-values of some variables."""
    chosen = [parents[i] for i in variables]
    evidence = np.array([averaged(sets, *moved(sets.regressions, point, m))[0] for sets in chosen])
    null = np.array([averaged(sets, *moved_inside(sets.regressions, drawn, m)) for sets in chosen])
    return evidence, tail_pvalues(evidence, null.T)


def draw_means(rows: FloatArray, m: int, rng: np.random.Generator, *, in_sequence: bool = False) -> FloatArray:
    """Means of m rows at a time: of each row if m is 1, else of rows drawn at random, or consecutive ones."""
    n = len(rows)
    if m == 1 or in_sequence:
        starts = np.arange(n - m + 1)
        if len(starts) > MOST_DRAWN:
            starts = np.sort(rng.choice(starts, MOST_DRAWN, replace=False))
        chosen = starts[:, None] + np.arange(m)
    else:
        count = min(MOST_DRAWN, max(LEAST_DRAWN, n))
        chosen = np.array([rng.choice(n, m, replace=False) for _ in range(count)])
    means: FloatArray = rows[chosen].mean(axis=1)
    return means


def residuals(own: Regressions, points: FloatArray) -> FloatArray:
    """``e(S)`` of centred points, one row per set of parents and one column per point."""
    left: FloatArray = points[:, own.target] - own.coefficients @ points[:, own.candidates].T
    return left


def leverages(own: Regressions, points: FloatArray) -> FloatArray:
    """``h(S)`` of centred points."""
    some = points[:, own.candidates]
    found: FloatArray = 1 / own.rows + ((some @ own.inverses) * some).sum(axis=2)
    return found


def moved(own: Regressions, points: FloatArray, m: int) -> tuple[FloatArray, FloatArray]:
    """Squared t of means of m new rows, and degrees of freedom (see the module header)."""
    freedom = own.freedom[:, None]
    variance = own.residual[:, None] / freedom
    return residuals(own, points) ** 2 / (variance * (1 / m + leverages(own, points))), freedom


def moved_inside(own: Regressions, points: FloatArray, m: int) -> tuple[FloatArray, FloatArray]:
    """Squared t of means of m rows that the regression was fitted to, and degrees of freedom."""
    freedom = own.freedom[:, None] - 1
    outside = np.maximum(1 - m * leverages(own, points), SMALLEST)
    explained = m * residuals(own, points) ** 2 / outside
    left = np.maximum(own.residual[:, None] - explained, SMALLEST * own.rows)
    return explained / left * freedom, freedom


def log_bayes_factor(squares: FloatArray, freedom: FloatArray) -> FloatArray:
    """Logarithm of the ratio of Student densities of t with scale ``sqrt(1 + SPREAD)`` and with scale 1."""
    wide, narrow = np.log1p(squares / freedom / (1 + SPREAD)), np.log1p(squares / freedom)
    factor: FloatArray = (freedom + 1) / 2 * (narrow - wide) - np.log1p(SPREAD) / 2
    return factor


def averaged(sets: ParentSets, squares: FloatArray, freedom: FloatArray) -> FloatArray:
    """Evidence: the logarithm of the Bayes factor, averaged over sets of parents."""
    found: FloatArray = logsumexp(sets.log_probabilities[:, None] + log_bayes_factor(squares, freedom), axis=0)
    return found


def tail_pvalues(observed: FloatArray, null: FloatArray) -> FloatArray:
    """p-values of one observation per column among null values, with a tail beyond the largest of these.

    Up to the largest tenth it is the share of null values that are as large. Beyond, it is the tail of a
    generalised Pareto distribution (Pickands 1975) whose mean is that of the excesses. Its shape is found by
    probability-weighted moments (Hosking and Wallis 1987) over all columns, or half of the way towards that of
    a column with a heavier tail; what is added makes it the predictive distribution of an exponential variable
    of which so many were seen.
    """
    count = len(null)
    k = int(np.clip(round(TAIL * count), min(LEAST_TAIL, count - 1), MOST_TAIL))
    ranked = -np.sort(-null, axis=0)
    start = ranked[k]
    excess = ranked[:k] - start  # largest first
    mean = np.maximum(excess.mean(axis=0), SMALLEST)
    above = (np.arange(1, k + 1) - 0.65) / k  # shares of the excesses that are larger
    weighted = above @ excess / k
    shapes = np.clip(2 - mean / np.maximum(mean - 2 * weighted, SMALLEST), -HEAVIEST, HEAVIEST)
    common = max(float(shapes.mean()), 0.0)
    shape = np.minimum(np.maximum(common, (shapes + common) / 2) + CAUTION / k, HEAVIEST)
    scale = mean * (1 - shape)
    beyond = k / (count + 1) * (1 + shape * np.maximum(observed - start, 0.0) / scale) ** (-1 / shape)
    share = (1 + (null >= observed).sum(axis=0)) / (count + 1)
    pvalues: FloatArray = np.where(observed > start, beyond, share)
    return pvalues
