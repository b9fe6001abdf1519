"""Which variables may be the parents of which, as one table tells: probabilities of sets of parents.

Given a causal order, the parents of a variable are some of its predecessors, and the sets of parents of
different variables are independent of each other. So (Friedman and Koller 2003, "Being Bayesian about network
structure", Machine Learning 50) an order is as likely as

    P(order | rows)  is proportional to  prod_i  sum over S within the predecessors of i of  w_i(S),

    w_i(S) = prior(S) x marginal likelihood of the regression of i on S,

here with Zellner's g-prior, g the number of rows (Liang et al. 2008, JASA 103, equation 6), and the same prior
probability for every number of parents. Sets are taken from a few candidates per variable, so that all sums
over subsets are read from a table. Orders are drawn by Gibbs steps that take a variable out and put it back at
a place drawn given the order of the others; several chains run side by side. What is kept is the probability of
each set of parents of each variable, averaged over the orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln, logsumexp

from diffdag._base.arrays import BoolArray, FloatArray, IndexArray
from diffdag._base.progress import ProgressCallback
from diffdag.ordersearch.screen import silent

MOST_CANDIDATES, LEAST_CANDIDATES = 10, 6  # for a variable's parents
SETS = 30_000  # of candidates of all variables; beyond it there are fewer candidates
CHAINS, SWEEPS = 48, 36  # walks over orders, and sweeps over all variables, of which a third does not count
ROUNDS = 3  # in which candidates are chosen again, by a third of the sweeps each
LOOKED_AT = 8  # orders along which other candidates are looked for
CELLS = 15_000_000  # chains x sweeps x variables squared; beyond it there are fewer chains and sweeps
LEAST_CHAINS, LEAST_SWEEPS = 12, 12
UNLIKELY = -16.0  # logarithm of the probability below which a set of parents is left out
SMALLEST = 1e-9  # share of its variance that is left of a variable at least


@dataclass(frozen=True, eq=False)
class Regressions:
    """Regressions of one variable on sets of others, from centred rows divided by their standard deviations."""

    target: int
    candidates: IndexArray
    members: BoolArray  # one row per set, one column per candidate
    inverses: FloatArray  # of the scatter of each set, zero elsewhere
    coefficients: FloatArray
    residual: FloatArray  # sums of squares
    rows: int

    @property
    def sizes(self) -> IndexArray:
        """Numbers of parents."""
        sizes: IndexArray = self.members.sum(axis=1)
        return sizes

    @property
    def freedom(self) -> FloatArray:
        """Degrees of freedom of the residual variance."""
        return np.asarray(self.rows - 1 - self.sizes, dtype=np.float64)

    def take(self, some: IndexArray) -> Regressions:
        """The regressions on some of the sets."""
        own = (self.members[some], self.inverses[some], self.coefficients[some], self.residual[some])
        return Regressions(self.target, self.candidates, *own, self.rows)


@dataclass(frozen=True, eq=False)
class ParentSets:
    """Sets of parents that one variable may have, and how likely they are."""

    regressions: Regressions
    log_probabilities: FloatArray

    @classmethod
    def none(cls, target: int, rows: int) -> ParentSets:
        """A variable that has no parents."""
        own = (np.zeros(0, np.intp), np.zeros((1, 0), bool), np.zeros((1, 0, 0)), np.zeros((1, 0)))
        return cls(Regressions(target, *own, np.array([float(rows)]), rows), np.zeros(1))

    def among(self, columns: IndexArray) -> ParentSets:
        """The sets as sets of columns of a table of which the variables are some."""
        own = self.regressions
        named = replace(own, target=int(columns[own.target]), candidates=columns[own.candidates])
        return replace(self, regressions=named)


@dataclass(frozen=True, eq=False)
class DrawnOrders:
    """Causal orders that one table allows, by which candidates of each variable precede it."""

    families: tuple[Family, ...]
    masks: IndexArray  # one row per order, one column per variable; bits stand for candidates

    def parents(self, log_weights: FloatArray | None = None) -> list[ParentSets]:
        """Sets of parents, averaged over the orders, each with the same weight unless weights are given."""
        count = len(self.masks)
        weights = np.zeros(count) if log_weights is None else log_weights
        weights = weights - logsumexp(weights)
        return [family.likely(self.masks[:, i], weights) for i, family in enumerate(self.families)]

    def log_means(self, i: int, log_values: FloatArray) -> FloatArray:
        """For each order, the logarithm of the mean of values that depend on the parents of variable i.

        There is one value for each of the sets of ``families[i].regressions``.
        """
        own = self.families[i]
        means: FloatArray = (_over_subsets(own.weights + log_values) - own.sums)[self.masks[:, i]]
        return means


def draw_orders(
    scatter: FloatArray,
    rows: int,
    rng: np.random.Generator,
    before: BoolArray | None = None,
    progress: ProgressCallback = silent,
) -> DrawnOrders:
    """Draw causal orders, and with them the likely sets of parents of each variable.

    Parameters
    ----------
    scatter : ndarray of shape (p, p)
        Sums of products of centred rows, each variable divided by its standard deviation.
    rows : int
        Their number.
    rng : numpy.random.Generator
        Draws the orders.
    before : ndarray of bool, optional
        ``before[a, b]`` if variable a has to precede b.
    progress : callable
        Is told how far it is.
    """
    p = len(scatter)
    known = np.zeros((p, p), bool) if before is None else before
    few = int(np.clip(np.log2(SETS / p), LEAST_CANDIDATES, MOST_CANDIDATES))
    most = min(few, p - 1, max(1, rows // 4))
    chains, sweeps = _effort(p)
    adjacency = first_adjacency(scatter / rows, rows)
    orders = np.array([_random_order(known, rng) for _ in range(chains)])
    for done in range(ROUNDS + 1):
        progress(done, ROUNDS + 1, "Looking for causal orders")
        chosen = _most_adjacent(adjacency, most, known)
        families = [Family.of(scatter, rows, i, own) for i, own in enumerate(chosen)]
        last = done == ROUNDS
        masks, orders = sample_orders(families, orders, known, rng, sweeps if last else sweeps // 3)
        if not last:
            adjacency = _next_adjacency(families, masks, orders, scatter, known)
    return DrawnOrders(tuple(families), masks)


def first_adjacency(correlations: FloatArray, rows: int) -> FloatArray:
    """Guess which variables are adjacent; larger is likelier.

    Adjacent variables stay correlated whatever they are conditioned on; so the least absolute partial
    correlation counts, given nothing, any single other variable, or, with rows enough, all others.
    """
    p = len(correlations)
    least: FloatArray = np.abs(correlations)
    for k in range(p):
        own = correlations[k]
        left = np.sqrt(np.maximum(1 - own**2, SMALLEST))
        partial = np.abs((correlations - np.outer(own, own)) / np.outer(left, left))
        partial[k] = partial[:, k] = np.inf
        least = np.minimum(least, partial)
    if rows > 2 * p:
        precision = np.linalg.pinv(correlations, hermitian=True)
        scale = np.sqrt(np.maximum(np.diag(precision), SMALLEST))
        least = np.minimum(least, np.abs(precision / np.outer(scale, scale)))
    return least


def _most_adjacent(adjacency: FloatArray, most: int, before: BoolArray) -> list[IndexArray]:
    """The candidates of each variable; what has to come later is none."""
    found = []
    for i, own in enumerate(adjacency):
        ranked = np.argsort(-own, kind="stable")
        possible = ~before[i, ranked] & (ranked != i)
        found.append(ranked[possible][:most])
    return found


def _next_adjacency(
    families: Sequence[Family], masks: IndexArray, orders: IndexArray, scatter: FloatArray, before: BoolArray
) -> FloatArray:
    """Which variables are adjacent, as drawn orders tell: logarithms of odds, the larger of both directions.

    Of a candidate, the probability that it is a parent; of another predecessor, what it would add to the
    likeliest parents, averaged over some orders.
    """
    p = len(families)
    odds: FloatArray = np.full((p, p), -np.inf)
    places = np.argsort(orders[:LOOKED_AT], axis=1)
    ends = masks[-len(orders) :]
    for i, family in enumerate(families):
        gains = np.full((len(places), p), -np.inf)
        for k, place in enumerate(places):
            gains[k] = family.gains(int(ends[k, i]), scatter, place < place[i])
        odds[i] = np.logaddexp.reduce(gains, axis=0) - np.log(len(places))
        likely = family.likely(masks[:, i], np.full(len(masks), -np.log(len(masks))))
        shares = np.exp(likely.log_probabilities) @ likely.regressions.members
        odds[i, family.candidates] = np.log(np.maximum(shares, np.exp(UNLIKELY)))
    return np.maximum(odds, odds.T)


@dataclass(frozen=True, eq=False)
class Family:
    """Regressions of a variable on all sets of its candidates, and what they weigh."""

    regressions: Regressions
    weights: FloatArray  # log w(S)
    sums: FloatArray  # the logarithm of the sum of w over the subsets of each set

    @classmethod
    def of(cls, scatter: FloatArray, rows: int, target: int, candidates: IndexArray) -> Family:
        """Regress a variable on all sets of its candidates."""
        regressions = _regressions(scatter, rows, target, candidates)
        weights = _log_weights(regressions, len(scatter), scatter[target, target])
        return cls(regressions, weights, _over_subsets(weights))

    @property
    def candidates(self) -> IndexArray:
        """The variables that may be its parents."""
        return self.regressions.candidates

    def likely(self, masks: IndexArray, log_shares: FloatArray) -> ParentSets:
        """Average the probabilities of sets over orders: ``w(S) / sum`` for each order that allows S."""
        over: FloatArray = np.full(len(self.weights), -np.inf)
        np.logaddexp.at(over, masks, log_shares - self.sums[masks])
        for half in 2 ** np.arange(len(self.candidates)):
            pairs = over.reshape(-1, 2, half)
            np.logaddexp(pairs[:, 0], pairs[:, 1], out=pairs[:, 0])
        log_probabilities = over + self.weights
        some = np.flatnonzero(log_probabilities > UNLIKELY)
        return ParentSets(self.regressions.take(some), log_probabilities[some])

    def gains(self, mask: int, scatter: FloatArray, earlier: BoolArray) -> FloatArray:
        """What each predecessor that is no candidate would add to the log weight of the likeliest parents."""
        own, p = self.regressions, len(scatter)
        allowed = (np.arange(len(self.weights)) & ~mask) == 0
        best = int(np.argmax(np.where(allowed, self.weights, -np.inf)))
        size, n = int(own.sizes[best]), own.rows
        with_all = scatter[own.candidates]
        left = scatter[own.target] - own.coefficients[best] @ with_all
        spread = np.diag(scatter) - np.einsum("kp,kl,lp->p", with_all, own.inverses[best], with_all)
        shared = left**2 / np.maximum(spread, SMALLEST * n) / own.residual[best]
        more = -(n - 1) / 2 * np.log1p(-np.minimum(shared, 1 - SMALLEST)) - np.log1p(n) / 2
        more -= np.log(max(p - 1 - size, 1) / (size + 1))
        more[~earlier] = -np.inf
        more[own.candidates] = -np.inf
        more[own.target] = -np.inf
        gains: FloatArray = np.minimum(more, 0.0) if size >= n // 4 else more
        return gains


def _regressions(scatter: FloatArray, rows: int, target: int, candidates: IndexArray) -> Regressions:
    """Regress a variable on every subset of its candidates."""
    k = len(candidates)
    members = (np.arange(2**k)[:, None] >> np.arange(k) & 1).astype(bool)
    both = members[:, :, None] & members[:, None, :]
    among = np.where(both, scatter[np.ix_(candidates, candidates)], 0.0)
    ridge = SMALLEST * rows  # columns may be linearly dependent
    inverses = np.where(both, np.linalg.inv(among + (~members * 1.0 + ridge)[:, :, None] * np.eye(k)), 0.0)
    with_target = scatter[candidates, target]
    coefficients = inverses @ with_target
    residual = scatter[target, target] - coefficients @ with_target
    residual = np.maximum(residual, SMALLEST * scatter[target, target])
    return Regressions(target, candidates, members, inverses, coefficients, residual, rows)


def _log_weights(family: Regressions, p: int, total: float) -> FloatArray:
    """``log w_i(S)``: the g-prior's marginal likelihood, and the prior of sets (see the module header)."""
    n, k = family.rows, family.sizes
    likelihood = (n - 1 - k) / 2 * np.log1p(n) - (n - 1) / 2 * np.log1p(n * family.residual / total)
    weights: FloatArray = likelihood - (gammaln(p) - gammaln(k + 1) - gammaln(p - k))
    return weights


def _over_subsets(values: FloatArray) -> FloatArray:
    """For each set, the logarithm of the sum of the exponentials over its subsets."""
    sums = values.copy()
    for half in 2 ** np.arange(round(np.log2(len(values)))):
        pairs = sums.reshape(-1, 2, half)
        np.logaddexp(pairs[:, 1], pairs[:, 0], out=pairs[:, 1])
    return sums


def sample_orders(
    families: Sequence[Family],
    orders: IndexArray,
    before: BoolArray,
    rng: np.random.Generator,
    sweeps: int,
) -> tuple[IndexArray, IndexArray]:
    """Draw orders, from given ones on, one per chain.

    Returns which candidates of each variable precede it, as bits, one row per order that was drawn, and the
    last orders.
    """
    p, chains = len(families), len(orders)
    table = np.full((p, max(len(own.sums) for own in families)), -np.inf)
    bit = np.zeros((p, p), dtype=np.int64)  # bit[i, j] stands for j among the candidates of i
    for i, family in enumerate(families):
        table[i, : len(family.sums)] = family.sums
        bit[i, family.candidates] = 1 << np.arange(len(family.candidates))
    orders = orders.copy()
    place = np.argsort(orders, axis=1)
    masks = ((place[:, None, :] < place[:, :, None]) * bit).sum(axis=2)
    every, gaps, drawn = np.arange(chains)[:, None], np.arange(p - 1), []
    known = before.any()
    for sweep in range(sweeps):
        for _ in range(p):
            moved = rng.integers(p, size=(chains, 1))
            others = orders[orders != moved].reshape(chains, p - 1)
            seen, own = np.take_along_axis(masks, others, axis=1), bit[others, moved]
            earlier, later = seen & ~own, seen | own  # than the others, once it is put somewhere
            after = np.cumsum((table[others, later] - table[others, earlier])[:, ::-1], axis=1)[:, ::-1]
            reached = np.zeros((chains, p), np.int64)
            np.cumsum(bit[moved, others], axis=1, out=reached[:, 1:])
            score = table[moved, reached]
            score[:, :-1] += after
            if known:
                score[~_allowed(before[others, moved], before[moved, others])] = -np.inf
            put = np.argmax(score + rng.gumbel(size=score.shape), axis=1)[:, None]
            behind = gaps >= put
            orders[every, gaps + behind] = others
            orders[every, put] = moved
            masks[every, others] = np.where(behind, later, earlier)
            masks[every, moved] = np.take_along_axis(reached, put, axis=1)
        if sweep >= sweeps // 3:
            drawn.append(masks.copy())
    return np.concatenate(drawn), orders


def _effort(p: int) -> tuple[int, int]:
    """How many chains and sweeps so many variables allow."""
    share = min(1.0, (CELLS / (CHAINS * SWEEPS * p**2)) ** 0.5)
    return max(LEAST_CHAINS, round(CHAINS * share)), max(LEAST_SWEEPS, round(SWEEPS * share))


def _allowed(first: BoolArray, last: BoolArray) -> BoolArray:
    """At which places a variable may be put: after all in `first`, before all in `last`, of the others."""
    end = np.zeros((len(first), 1), bool)
    not_yet = np.concatenate([np.logical_or.accumulate(first[:, ::-1], axis=1)[:, ::-1], end], axis=1)
    too_late = np.concatenate([end, np.logical_or.accumulate(last, axis=1)], axis=1)
    allowed: BoolArray = ~(not_yet | too_late)
    return allowed


def _random_order(before: BoolArray, rng: np.random.Generator) -> IndexArray:
    """A random order in which all precede whom they have to."""
    drawn = rng.permutation(len(before))
    if not before.any():
        return drawn
    waiting, found = before.sum(axis=0), []
    left = list(drawn)
    while left:
        k = next(j for j in left if waiting[j] == 0)
        left.remove(k)
        found.append(k)
        waiting = waiting - before[k]
    return np.array(found)
