"""The search over orders: all of them where the variables are few, annealed walks from many starts elsewhere.

The walks run side by side, in rounds of fixed size, each with random numbers of its own: the result does not
depend on how many run at a time. Rounds become longer until two walks agree on the changes of the best one; how
many did is part of the result. Where near-copies of a variable may stand for it, two walks often agree on the
same wrong place: there more of them are made, and what one found is carried into another. Then every
direction found is reversed, and every change left out, and the order adapted to that, unless it is beyond
doubt: what the score rises by shows how far directions and changes are settled.

On data much like others that were searched, such as resamples, walks begin at the orders met there: the best
one, and those with a direction reversed or a change left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Any, TypeAlias, cast

import numpy as np

from diffdag._base.arrays import BoolArray, FloatArray, IntArray
from diffdag._base.checks import default_names
from diffdag._base.parallel import count_workers, end_if_abandoned, run_all
from diffdag._base.progress import ProgressCallback
from diffdag.model.regression import regress_jointly
from diffdag.ordersearch.core import _core
from diffdag.ordersearch.penalty import NONE, Inflation, penalties
from diffdag.ordersearch.rules import CHANGE, GAIN, VARIANCE, Rules, make_rules
from diffdag.tables.moments import Moments

Edge = tuple[int, int]
# What stands for a variable in its regression, in each condition (see `adaptive`).
Responses: TypeAlias = dict[int, tuple[FloatArray, FloatArray]]

# Up to so many variables all orders are compared.
DYNAMIC = 14
# Rounds: how many walks, and annealing steps for each pair of positions (docs/dev/order_measured.md).
# From the first to the last of them, by number of variables.
ROUNDS = ((2, 3), (2, 6), (2, 12), (2, 25), (4, 40), (4, 60), (4, 60), (4, 120))
ROUNDS_USED = ((40, 2, 8), (50, 1, 8), (100, 0, 7), (10**9, 0, 6))
SWEEPS = 20
# So many neighbours at a time are put in their best order where a search ends.
WINDOW = 6
# Steps for each pair of positions with one direction reversed, up to so many variables.
TURNED, MIDDLE = 6, 40
# Walks agree if their scores differ by no more penalties than this times the variables, or than one, and both
# have the changes that either is sure of: without which its score would rise by more penalties than this.
NEAR, SETTLED = 0.02, 1.0
# Two walks with the same changes are enough, or ENOUGH of which two agree. If the best two, polished, differ by
# more penalties than SAME, which is not asked of more than LARGE variables, there are at least ENOUGH; and
# MANY, if a change is worth fewer penalties than WEAK and a column correlated by more than COPY may stand for
# its cause or effect.
SAME, LARGE, ENOUGH, MANY, WEAK, COPY = 0.1, 100, 4, 8, 1.5, 0.9
# A variable is given the predecessors that it has in another walk if it costs less there by so many penalties.
CHEAPER = 0.1
# Sweeps times variables when looking for a good order with one direction reversed.
TURN_EFFORT = 300
# Directions and changes are beyond doubt if the score rises by so many penalties when they are reversed, or
# left out, and nothing else moves. An order is looked at closely, with so many sweeps of full costs, if it is
# worse by less than DOUBT, or by up to twice that more than would settle something.
BEYOND_DOUBT, DOUBT, CLOSE_SWEEPS = 8.0, 0.4, 2
# What a move of a variable has to gain, in penalties, while walks are compared; and in the end.
GRAIN, FINEST = 0.05, 1e-7
# Rise of the score, in penalties, beyond which a variable is not moved on; and while one direction is reversed.
FAR, FAR_TURNED = 100.0, 10.0
# Variables that are correlated by more than this may stand for each other.
CLOSE = 0.7
# The order that means and covariances suggest together may be worse than another, by covariances alone, by no
# more penalties than this times the variables: about what the places of those that do not matter are worth.
OVERRULED = 0.015
ROUNDING = 1e-3
# Orders worth starting from on similar data: those met that are worse by no more penalties than BEYOND_DOUBT,
# at most so many. So many walks begin at the best of them on those data; up to MIDDLE variables all but one are
# shaken first: so many steps for each pair of positions.
MOST_OTHERS, FOLLOWED, SHAKEN = 16, 3, 3
# Up to so many variables all orders are compared on similar data, too: it takes no longer.
FEW = 7
# An edge is directed if every order found in which effect precedes cause scores worse by more than TIE, or by
# more than CHANCE where it has as many changes: of two that are both right one fits better by chance.
TIE, CHANCE = 0.5, 2.0


@dataclass(frozen=True, eq=False)
class Problem:
    """Sums of products around the common mean, in the first condition and in both, and the rules of the score.

    The last row and column belong to a constant, which precedes all variables: intercepts may change like other
    coefficients, at a penalty of their own.
    """

    first: FloatArray
    pooled: FloatArray
    rules: Rules

    @classmethod
    def from_scatter(
        cls,
        first: FloatArray,
        second: FloatArray,
        n1: float,
        n2: float,
        equal: bool,
        before: BoolArray,
        total: int,
        factor: float = 1.0,
        *,
        inflation: Inflation = NONE,
        difference: FloatArray | None = None,
        gains: bool = True,
        change: float | None = None,
    ) -> Problem:
        """Scale the variables, so that units do not matter, and set the penalties (see `penalties`).

        `difference` is the first mean minus the second; without it intercepts are free. Without `gains` no
        factor multiplies all effects on a variable. `change` is a penalty of changed effects, if not the usual.
        """
        p = len(first)
        scale = np.sqrt((np.diag(first) / n1 + np.diag(second) / n2) / 2)
        apart = np.zeros(p) if difference is None else difference / scale
        sums = []
        for scatter, n, mean in ((first, n1, apart * n2 / (n1 + n2)), (second, n2, -apart * n1 / (n1 + n2))):
            row = np.append(n * mean, n)
            own = scatter / np.outer(scale, scale) + n * np.outer(mean, mean)
            sums.append(np.block([[own, row[:-1, None]], [row]]))
        table = penalties(n1, n2, p, total, factor, inflation, change)
        table[GAIN] -= equal * table[VARIANCE]
        if not gains:
            table[GAIN] = np.inf
        # The constant precedes all, and is no predecessor as far as penalties are concerned.
        table = np.concatenate([table[:, :1], table], axis=1)
        return cls(sums[0], sums[0] + sums[1], make_rules(n1, n2, table, equal, before))

    @property
    def p(self) -> int:
        """Number of variables, without the constant."""
        return len(self.first) - 1

    @property
    def unit(self) -> float:
        """The penalty of a change."""
        return float(self.rules.table[CHANGE, 0])

    @cached_property
    def base(self) -> float:
        """The score if nothing changes, the same for all orders."""
        rows = self.rules.n1 + self.rules.n2
        return float(rows / 2 * (np.linalg.slogdet(self.pooled)[1] - len(self.pooled) * np.log(rows)))

    @property
    def before(self) -> BoolArray:
        """Who has to precede whom."""
        return self.rules.before

    def requiring(self, before: BoolArray) -> Problem:
        """Return the problem with other knowledge about the order."""
        return replace(self, rules=self.rules._replace(before=before))

    @cached_property
    def free(self) -> Problem:
        """The problem in which intercepts differ at no penalty: what the means say is left out."""
        p, n1, n2 = self.p, self.rules.n1, self.rules.n2
        sums = []
        for own, n in ((self.first, n1), (self.pooled - self.first, n2)):
            within = own - np.outer(own[p], own[p]) / n
            within[p], within[:, p], within[p, p] = 0.0, 0.0, n
            sums.append(within)
        return replace(self, first=sums[0], pooled=sums[0] + sums[1])

    @property
    def is_free(self) -> bool:
        """Whether intercepts differ at no penalty."""
        return not self.first[-1, :-1].any()

    @cached_property
    def moments(self) -> tuple[Moments, Moments]:
        """Both conditions, each around its own mean, in the units of the problem."""
        p, names, free = self.p, default_names(self.p), self.free
        one, two = (
            Moments(names, int(n), np.zeros(p), (own + own.T)[:p, :p] / 2)
            for own, n in ((free.first, self.rules.n1), (free.pooled - free.first, self.rules.n2))
        )
        return one, two

    def multiplied(self, found: Found) -> list[Edge]:
        """Effects (effect, cause) that changed gains multiply: those that are not zero."""
        edges = []
        for i in np.flatnonzero(found.gains).tolist():
            earlier, own = found.before(i), np.flatnonzero(found.changed[i]).tolist()
            changed, separate = [j for j in own if j != i], bool(found.separate[i])
            fit = regress_jointly(*self.moments, i, earlier, changed, separate, gain=True)
            edges += [(i, j) for j, counts in zip(earlier, fit.multiplied, strict=True) if counts]
        return edges

    @property
    def pairs_in_core(self) -> _core.Pairs:
        """What the core has to know."""
        rules = self.rules
        arrays = (self.first, self.pooled, np.array([rules.n1, rules.n2]), rules.table, rules.limits)
        first, pooled, rows, table, limits = (array[None] for array in arrays)
        return first, pooled, rows, table, limits, rules.equal, True


@dataclass(frozen=True, eq=False)
class JointProblem:
    """Several pairs of conditions over the same variables, with the same knowledge about their order."""

    pairs: tuple[Problem, ...]

    @property
    def p(self) -> int:
        """Number of variables."""
        return self.pairs[0].p

    @property
    def unit(self) -> float:
        """The penalty of a change."""
        return float(np.mean([pair.unit for pair in self.pairs]))

    @cached_property
    def base(self) -> float:
        """The score if nothing changes."""
        return sum(pair.base for pair in self.pairs)

    @property
    def before(self) -> BoolArray:
        """Who has to precede whom."""
        return self.pairs[0].before

    def requiring(self, before: BoolArray) -> JointProblem:
        """Return the problem with other knowledge about the order."""
        return JointProblem(tuple(pair.requiring(before) for pair in self.pairs))

    def read_along(self, order: Sequence[int]) -> list[Found]:
        """What an order says about each pair."""
        return [read_order(pair, order) for pair in self.pairs]

    @property
    def free(self) -> JointProblem:
        """The problem in which intercepts differ at no penalty."""
        return JointProblem(tuple(pair.free for pair in self.pairs))

    def multiplied(self, found: Found) -> list[Edge]:
        """Effects (effect, cause) that changed gains multiply in some pair."""
        own = zip(self.pairs, self.read_along(found.order), strict=True)
        return sorted({edge for pair, said in own for edge in pair.multiplied(said)})

    @property
    def pairs_in_core(self) -> _core.Pairs:
        """What the core has to know."""
        *parts, equal, constant = zip(*(pair.pairs_in_core for pair in self.pairs), strict=True)
        first, pooled, rows, table, limits = map(np.concatenate, parts)
        return first, pooled, rows, table, limits, all(equal), all(constant)


Landscape: TypeAlias = Problem | JointProblem


@dataclass(frozen=True, eq=False)
class Found:
    """An order and what it says."""

    order: tuple[int, ...]
    score: float
    changed: BoolArray  # coefficients [effect, cause]; on the diagonal, gains
    shifted: BoolArray  # intercepts
    separate: BoolArray  # variances
    costs: FloatArray

    @property
    def gains(self) -> BoolArray:
        """Variables all effects on which are multiplied by a factor."""
        gains: BoolArray = np.diag(self.changed)
        return gains

    @property
    def count(self) -> tuple[int, int]:
        """How many coefficients and gains, and how many variances changed."""
        return int(self.changed.sum()), int(self.separate.sum())

    def before(self, i: int) -> list[int]:
        """The variables before i."""
        return list(self.order[: self.order.index(i)])

    def changes_between(self, i: int, j: int) -> bool:
        """Whether something changes between two variables, or in the mechanism of one if they are the same."""
        if i == j:
            return bool(self.changed[i].any())
        first, second = (i, j) if self.order.index(i) < self.order.index(j) else (j, i)
        return bool(self.changed[second, first] or self.changed[second, second])


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best order found, and how sure one can be of it."""

    problem: Landscape  # of which it is; intercepts may have been set free
    best: Found
    starts: int  # 0 if all orders were compared
    reached: int  # by so many of them
    # What the score rises by if effect i has to precede cause j, for all changed effects.
    margins: dict[Edge, float]
    # What it rises by, at most, if nothing may change between i and j; if they are the same, the gain of i.
    rises: dict[Edge, float] = field(default_factory=dict)
    # Other orders that were met, with a direction reversed or without a change, and little worse.
    others: tuple[tuple[int, ...], ...] = ()
    responses: Responses = field(default_factory=dict)  # pseudo-responses by which changed effects were chosen

    def rise(self, edge: Edge, *, directed: bool = True) -> float:
        """What the score rises by, at most, without a change in this direction, or in either."""
        own = min(self.rises.get(edge, np.inf), self.rises.get((edge[0], edge[0]), np.inf))
        return min(own, self.margins.get(edge, np.inf)) if directed else own


def walk_from(
    problem: Landscape,
    order: Sequence[int] | IntArray,
    *,
    steps: tuple[int, int] = (0, 0),
    sweeps: int = 0,
    careful: int = 0,
    thorough: bool = True,
    window: int = 0,
    grain: float = 0.0,
    far: float = FAR,
    seed: int = 0,
    to_revisit: Sequence[int] | None = None,
    barred: Edge | None = None,
) -> Found:
    """Anneal and insert with quick costs, twice; then insert with full costs and reorder windows (core/walk.h).

    `steps` are those of each annealing; `sweeps` and `careful` the most sweeps of an insertion. Only variables
    to revisit are inserted at first, and those that their moves concern, where that gains more than `grain`;
    they are moved on until the score has risen by `far`, both in penalties. Carefully inserted are all, if
    `thorough`, or those that take part in changes; then so many neighbours at a time as a window has are put in
    their best order. The coefficient of a barred edge must not change, nor the gain of its effect; of one from
    a variable to itself, the gain alone.
    """
    p, unit = problem.p, problem.unit
    moving = np.zeros(p + 1, bool)
    moving[:p] = to_revisit is None
    moving[[*(to_revisit or ())]] = True
    limits = max(grain * unit, FINEST), far * unit
    place = _behind_constant(order)
    before = np.zeros((p + 1, p + 1), bool)
    before[:p, :p], before[p, :p] = problem.before, True
    how = (steps, sweeps, careful, thorough, window, *limits, seed, moving)
    _core.walk(problem.pairs_in_core, before, unit, place, *how, barred, end_if_abandoned)
    return read_order(problem, place[1:], barred=barred)


def _behind_constant(order: Sequence[int] | IntArray) -> IntArray:
    """An order as the core knows it."""
    return np.array([len(order), *order], dtype=np.int64)


def read_order(
    problem: Landscape, order: Sequence[int] | IntArray, *, careful: bool = True, barred: Edge | None = None
) -> Found:
    """What an order says, with full or quick costs, where the coefficient of a barred edge must not change."""
    p, place = problem.p, _behind_constant(order)
    costs, changed, separate = np.empty(p + 1), np.zeros((p + 1, p + 1), bool), np.zeros(p + 1, bool)
    score = _core.read(problem.pairs_in_core, place, careful, barred, costs, changed, separate)
    said = changed[:p, :p].copy(), changed[:p, p].copy(), separate[:p], costs[:p]
    return Found(tuple(place[1:].tolist()), problem.base + score, *said)


def tabulate(problem: Landscape) -> tuple[FloatArray, IntArray]:
    """Cost of every variable behind every set, and what changes there, in some pair (core/dynamic.h)."""
    sets, p = 1 << problem.p, problem.p
    costs, changes = np.full((sets, p), np.nan), np.zeros((sets, p), np.int64)
    _core.tabulate(problem.pairs_in_core, costs, changes, end_if_abandoned)
    return costs, changes


def search_orders(
    problem: Landscape,
    rng: np.random.Generator,
    jobs: int | None,
    progress: ProgressCallback | None = None,
) -> Optimum:
    """The order with the least score that respects what is known beforehand.

    Means may settle what covariances leave open, and do not overrule them: where many intercepts changed, an
    order that hides a few of them is no evidence. If that order is clearly worse by the covariances alone,
    intercepts are free. `progress` is called with walks done, walks begun or done, and what they are, whenever
    one ends.
    """
    optimum = _search(problem, rng, jobs, progress)
    if not optimum.best.shifted.any():
        return optimum
    free = _search(problem.free, rng, jobs, progress)
    lost = read_order(problem.free, optimum.best.order).score - free.best.score
    return optimum if lost <= OVERRULED * problem.p * problem.unit else free


def _search(
    problem: Landscape, rng: np.random.Generator, jobs: int | None, progress: ProgressCallback | None
) -> Optimum:
    if is_total(problem.before):
        best = read_order(problem, np.argsort(problem.before.sum(axis=0)))
        edges = changed_edges(problem, best)
        return Optimum(problem, best, 0, 0, dict.fromkeys(edges, np.inf), weigh_changes(problem, best))
    return _compare_all(problem) if problem.p <= DYNAMIC else _walk_many(problem, rng, jobs, progress)


def search_jointly(
    problems: Sequence[Problem],
    rng: np.random.Generator,
    jobs: int | None,
    progress: ProgressCallback | None = None,
) -> list[Optimum]:
    """The order with the least sum of scores, and what it says about each pair.

    All results have the same order; margins say what the sum rises by if a direction is reversed, and rises are
    no larger than those of the sum.
    """
    if len(problems) == 1 or is_total(problems[0].before):  # nothing to share, or to search
        return [search_orders(problem, rng, jobs, progress) for problem in problems]
    optimum = search_orders(JointProblem(tuple(problems)), rng, jobs, progress)
    joint = cast(JointProblem, optimum.problem)
    # Rounding can make a change appear here that was not worth its penalty there: its direction is not settled.
    return [
        replace(
            optimum,
            problem=pair,
            best=best,
            margins={edge: optimum.margins.get(edge, 0.0) for edge in changed_edges(pair, best)},
            rises={
                change: min(rise, optimum.rises.get(change, 0.0))
                for change, rise in weigh_changes(pair, best).items()
            },
        )
        for pair, best in zip(joint.pairs, joint.read_along(optimum.best.order), strict=True)
    ]


def is_total(before: BoolArray) -> bool:
    """Whether the order is known, so that nothing is left to search."""
    return bool(before.sum() == len(before) * (len(before) - 1) // 2)


def correlations(problem: Landscape) -> FloatArray:
    """In both conditions together; of several pairs, in the first."""
    pooled = problem.pairs_in_core[1][0]
    scale = np.sqrt(np.diag(pooled))
    correlations: FloatArray = (pooled / np.outer(scale, scale))[:-1, :-1]
    return correlations


def _changes(found: Found) -> list[Edge]:
    """Changed coefficients (effect, cause), and changed gains as (effect, effect)."""
    return [(int(i), int(j)) for i, j in np.argwhere(found.changed)]


def changed_edges(problem: Landscape, found: Found) -> list[Edge]:
    """Effects (effect, cause) that changed, by themselves or by a gain."""
    return sorted(
        {*(change for change in _changes(found) if change[0] != change[1]), *problem.multiplied(found)}
    )


def weigh_changes(problem: Landscape, found: Found) -> dict[Edge, float]:
    """What the score of an order rises by if an effect, or a gain, must not change; others may in its place."""
    changes = _changes(found)
    rises = np.empty(len(changes))
    pairs = np.array(changes, dtype=np.int64).reshape(-1, 2)
    _core.weigh(problem.pairs_in_core, _behind_constant(found.order), pairs, rises)
    return dict(zip(changes, rises.tolist(), strict=True))


def _compare_all(problem: Landscape) -> Optimum:
    p, before = problem.p, problem.before
    costs, changes = tabulate(problem)
    order, scores = np.empty(p, np.int64), np.empty(len(costs))
    score = problem.base + _core.best_order(costs, before, order, scores)
    best = replace(read_along(order.tolist(), problem.base, costs, changes), score=score)
    turned = []
    for i, j in changed_edges(problem, best):
        reverse = before.copy()
        reverse[i, j] = True
        other = np.inf if before[j, i] else _core.best_order(costs, reverse, order, scores)
        turned.append(replace(best, order=tuple(order.tolist()), score=problem.base + other))
    others = worth_trying(problem, best, turned)
    return Optimum(problem, best, 0, 0, _margins(problem, turned, best), weigh_changes(problem, best), others)


def worth_trying(problem: Landscape, best: Found, met: Sequence[Found]) -> tuple[tuple[int, ...], ...]:
    """Orders that may be the best on similar data, beside the one that is here."""
    near = best.score + BEYOND_DOUBT * problem.unit
    orders = dict.fromkeys(item.order for item in sorted(met, key=_score) if item.score <= near)
    return tuple(order for order in orders if order != best.order)[:MOST_OTHERS]


def read_along(order: Sequence[int], base: float, costs: FloatArray, changes: IntArray) -> Found:
    """What tables of costs and changes say about an order."""
    p, members = len(order), 0
    bits, own = np.zeros((p, p + 2), bool), np.zeros(p)
    for i in order:
        bits[i], own[i] = changes[members, i] >> np.arange(p + 2) & 1, costs[members, i]
        members |= 1 << i
    return Found(tuple(order), base + float(own.sum()), bits[:, :p], bits[:, p + 1], bits[:, p], own)


def _walk_many(
    problem: Landscape,
    rng: np.random.Generator,
    jobs: int | None,
    progress: ProgressCallback | None = None,
) -> Optimum:
    walks = Walks(problem, rng, jobs, progress)
    walks.until_two_agree()
    best, met = walks.end()
    turned: dict[Edge, Found] = {}
    without: dict[Edge, Found] = {}
    while True:
        new = [edge for edge in changed_edges(problem, best) if edge not in turned]
        others = _spread(_turn, new, (problem, best), jobs, progress, len(turned), "directions reversed")
        turned |= zip(new, others, strict=True)
        new = [change for change in _changes(best) if change not in without]
        others = _spread(_drop, new, (problem, best), jobs, progress, len(without), "changes left out")
        without |= zip(new, others, strict=True)
        better = min((*turned.values(), *without.values()), key=_score, default=best)
        if better.score > best.score - ROUNDING:
            break
        met.append(best)
        best = _polish(problem, better)
    orders = [*walks.found, *met, *turned.values(), *without.values()]
    return Optimum(
        problem,
        best,
        len(walks.found),
        _count_agreeing(problem, walks.found, best),
        _margins(problem, orders, best),
        {
            change: min(rise, _rise(change, orders, best))
            for change, rise in weigh_changes(problem, best).items()
        },
        worth_trying(problem, best, [*turned.values(), *without.values()]),
    )


def search_near(problem: Landscape, starts: Sequence[Sequence[int]]) -> Optimum:
    """The best order found near some that are good on much the same data.

    Every direction found is reversed, as in `search_orders`: where the walks begin does not decide it. What the
    means say counts as there.
    """
    best, met = walk_near(problem, starts)
    optimum = _reverse_near(problem, best, met)
    if not optimum.best.shifted.any():
        return optimum
    best, met = walk_near(problem.free, (optimum.best.order, *starts))
    lost = read_order(problem.free, optimum.best.order).score - best.score
    return optimum if lost <= OVERRULED * problem.p * problem.unit else _reverse_near(problem.free, best, met)


def walk_near(problem: Landscape, starts: Sequence[Sequence[int]]) -> tuple[Found, list[Found]]:
    """The best order near those of some orders that are best here, and all orders met."""
    orders = dict.fromkeys(tuple(respect_known(start, problem.before)) for start in starts)
    met = sorted((read_order(problem, order, careful=False) for order in orders), key=_score)
    how: dict[str, Any] = {"sweeps": SWEEPS, "careful": SWEEPS, "thorough": False, "grain": GRAIN}
    if problem.p > MIDDLE:
        ends = [walk_from(problem, item.order, **how) for item in met[:FOLLOWED]]
        return min(ends, key=_score), ends
    ends, steps = [walk_from(problem, met[0].order, **how)], (0, SHAKEN * problem.p**2)
    for seed in range(FOLLOWED - 1):
        item = met[seed % len(met)]
        ends.append(walk_from(problem, item.order, steps=steps, seed=seed, **how))
    return min(ends, key=_score), ends


def _reverse_near(problem: Landscape, best: Found, met: list[Found]) -> Optimum:
    """Reverse every direction of an order; a better one takes its place."""
    turned: dict[Edge, Found] = {}
    while True:
        for i, j in changed_edges(problem, best):
            if (i, j) not in turned:
                turned[i, j] = _turn(i, j, problem, best, quick=True)
        better = min(turned.values(), key=_score, default=best)
        if better.score > best.score - ROUNDING:
            break
        met, best = [*met, best], better
    orders = [*met, *turned.values()]
    return Optimum(problem, best, len(met), 1, _margins(problem, orders, best))


def margins_near(problem: Landscape, best: Found) -> dict[Edge, float]:
    """What the score rises by if one end of each changed effect is moved to the other side of the other end.

    Nothing else moves. Where variables are nearly as many as rows, orders that are adapted to a reversed edge
    fit chance better than the best one does, whatever the edge.
    """
    margins = {}
    for i, j in changed_edges(problem, best):
        if problem.before[j, i]:
            margins[i, j] = np.inf
            continue
        reverse = problem.before.copy()
        reverse[i, j] = True
        turned = min(_exchanged(i, j, problem, best, reverse), key=_score)
        margins[i, j] = max(0.0, turned.score - best.score)
    return margins


@dataclass
class Walks:
    """Walks from random orders, and where they ended."""

    problem: Landscape
    rng: np.random.Generator
    jobs: int | None
    progress: ProgressCallback | None
    found: list[Found] = field(default_factory=list)

    @property
    def best(self) -> Found:
        """The walk that ended lowest."""
        return min(self.found, key=_score)

    @property
    def rounds(self) -> Sequence[tuple[int, int]]:
        """How many walks of which effort, one round after the other."""
        first, last = next(used for most, *used in ROUNDS_USED if self.problem.p <= most)
        return ROUNDS[first:last]

    def walk(self, count: int, effort: int, fine: bool = False) -> None:
        """Walk some more."""
        p, rng = self.problem.p, self.rng
        tasks = [(rng.permutation(p), effort * p**2, int(rng.integers(2**31)), fine) for _ in range(count)]
        shared, before = (self.problem,), len(self.found)
        self.found += _spread(_descend, tasks, shared, self.jobs, self.progress, before, "walks")

    def until_two_agree(self) -> None:
        """Walk in rounds of growing effort until two agree on the changes of the best."""
        for walks, effort in self.rounds:
            self.walk(walks, effort)
            same = sum(bool((item.changed == self.best.changed).all()) for item in self.found)
            enough = len(self.found) >= ENOUGH
            if same > 1 or (enough and _count_agreeing(self.problem, self.found, self.best) > 1):
                break

    def end(self) -> tuple[Found, list[Found]]:
        """Polish the best walks, and make more if they still differ; the best order, and others tried."""
        self.found.sort(key=_score)
        polished = ENOUGH if self.problem.p <= LARGE else 1
        self.found[:polished] = [_polish(self.problem, item) for item in self.found[:polished]]
        copies = _copies_in_doubt(self.problem, self.best)
        best, *others = sorted(item.score for item in self.found[:polished])
        if not copies and all(score - best < SAME * self.problem.unit for score in others[:1]):
            return self.best, []
        wanted = (MANY if copies else ENOUGH) - len(self.found)
        if wanted > 0:
            self.walk(wanted, self.rounds[0][1], fine=True)
        return _combine(self.problem, self.found)


def _score(found: Found) -> float:
    return found.score


def _copies_in_doubt(problem: Landscape, best: Found) -> bool:
    """Whether a change is hardly worth its penalty, and a near-copy may stand for its cause or effect."""
    weak = [edge for edge, rise in weigh_changes(problem, best).items() if rise < WEAK * problem.unit]
    rows = np.unique(np.array(weak, dtype=np.intp))
    copies = np.abs(correlations(problem)[rows]) > COPY
    return bool((copies.sum(axis=1) > 1).any())  # each is correlated with itself


def _combine(problem: Landscape, found: list[Found]) -> tuple[Found, list[Found]]:
    """The best walk, improved by what others found; and the orders that were tried.

    A variable that costs less in another walk gets the predecessors it has there; otherwise the order stays.
    """
    best, *others = sorted(found, key=_score)
    tried = []
    for other in others:
        for i in np.argsort(other.costs - best.costs, kind="stable").tolist():
            if other.costs[i] > best.costs[i] - CHEAPER * problem.unit:
                continue
            earlier = set(other.order[: other.order.index(i)])
            order = sorted(best.order, key=lambda k: 0 if k in earlier else 1 if k == i else 2)
            start = respect_known(order, problem.before)
            tried.append(walk_from(problem, start, sweeps=3, careful=SWEEPS, thorough=False, grain=GRAIN))
            best = min(best, tried[-1], key=_score)
    return _polish(problem, best), tried


def respect_known(order: Sequence[int], before: BoolArray) -> list[int]:
    """The order closest to the given one in which a precedes b wherever ``before[a, b]``."""
    if not before.any():
        return list(order)
    required: dict[int, set[int]] = defaultdict(set)  # who has to come before each
    for earlier, later in np.argwhere(before).tolist():
        required[later].add(earlier)
    left, result = dict.fromkeys(order), []
    while left:
        free = next(node for node in left if not (node in required and required[node] & left.keys()))
        del left[free]
        result.append(free)
    return result


def _margins(problem: Landscape, orders: list[Found], best: Found) -> dict[Edge, float]:
    """What the score rises by, at most, if effect precedes cause, for all changed effects.

    Nothing where no more has to change then, and chance may be all.
    """
    margins = {edge: _margin(edge, orders, best) for edge in changed_edges(problem, best)}
    weak = [edge for edge, margin in margins.items() if TIE < margin <= CHANCE]
    if not weak:
        return margins
    close = {item.order for item in orders if item.score <= best.score + CHANCE}
    own = read_order(problem, best.order).count
    alike = [replace(best, order=order) for order in close if read_order(problem, order).count == own]
    return margins | {edge: min(margins[edge], _margin(edge, alike, best)) for edge in weak}


def _margin(edge: Edge, orders: list[Found], best: Found) -> float:
    """What the score rises by, at most, if effect precedes cause: by the orders met in which it does."""
    i, j = edge
    scores = (item.score for item in orders if item.order.index(i) < item.order.index(j))
    return max(0.0, min(scores, default=np.inf) - best.score)


def _rise(edge: Edge, orders: list[Found], best: Found) -> float:
    """What the score rises by, at most, if nothing changes between two: by the orders met like that."""
    scores = (item.score for item in orders if not item.changes_between(*edge))
    return max(0.0, min(scores, default=np.inf) - best.score)


def _count_agreeing(problem: Landscape, found: list[Found], best: Found) -> int:
    """How many walks found what the best one did, but for what is a matter of chance.

    Where the variables that do not take part stand changes the score a little, by more the more there are; and
    some changes are hardly worth their penalty, or another may stand for them.
    """
    near = best.score + problem.unit * max(1.0, problem.p * NEAR)
    sure = _sure(problem, best)
    return sum(
        bool(item.score < near and item.changed[sure].all() and best.changed[_sure(problem, item)].all())
        for item in found
    )


def _sure(problem: Landscape, found: Found) -> BoolArray:
    """The changes that an order is sure of."""
    sure = np.zeros_like(found.changed)
    for edge, rise in weigh_changes(problem, found).items():
        sure[edge] = rise > SETTLED * problem.unit
    return sure


def _spread(
    function: Callable[..., Found],
    tasks: Sequence[tuple[Any, ...]],
    shared: tuple[Any, ...],
    jobs: int | None,
    progress: ProgressCallback | None,
    before: int,
    what: str,
) -> list[Found]:
    """Results of a function for some tasks, side by side if there are threads or a cluster for that.

    `progress` counts on from those done before.
    """
    workers = count_workers(jobs)
    alone = workers == 1
    # Several tasks in a parcel, because to send one takes some milliseconds.
    size = 1 if alone or not tasks else 1 + (len(tasks) - 1) // (4 * workers)
    parcels = [(function, tasks[k : k + size]) for k in range(0, len(tasks), size)]
    done = (
        ((k, _do_parcel(parcel, *shared)) for k, parcel in enumerate(parcels))
        if alone
        else run_all(_do_parcel, parcels, shared=shared, jobs=jobs, prefer="threads")
    )
    parts, counter = {}, count(before + 1)
    for number, part in done:
        parts[number] = part
        if progress is not None:
            for _ in part:
                progress(next(counter), before + len(tasks), what)
    return [item for number in range(len(parcels)) for item in parts[number]]


def _do_parcel(parcel: tuple[Callable[..., Found], Sequence[tuple[Any, ...]]], *shared: Any) -> list[Found]:
    function, tasks = parcel
    return [function(*task, *shared) for task in tasks]


def _descend(order: IntArray, steps: int, seed: int, fine: bool, problem: Landscape) -> Found:
    """Anneal, insert with quick costs, then with full ones: those that take part in changes, or finely all."""
    how: dict[str, Any] = {"window": WINDOW} if fine else {"thorough": False, "grain": GRAIN}
    start = respect_known(order.tolist(), problem.before)
    return walk_from(problem, start, steps=(steps, steps), sweeps=SWEEPS, careful=SWEEPS, seed=seed, **how)


def _polish(problem: Landscape, found: Found) -> Found:
    """Once more from where a walk ended, without crossing hills."""
    fine = walk_from(problem, found.order, sweeps=SWEEPS, careful=SWEEPS, window=WINDOW)
    return min(found, fine, key=_score)


def _look_closely(problem: Landscape, found: Found, best: Found, barred: Edge | None = None) -> Found:
    """Polish an order, if that may make it better than the best or show that it settles nothing."""
    rise = (found.score - best.score) / problem.unit
    if not (rise < DOUBT or SETTLED < rise < SETTLED + 2 * DOUBT):
        return found
    fine = walk_from(problem, found.order, careful=CLOSE_SWEEPS, barred=barred)
    return min(found, fine, key=_score)


def _drop(i: int, j: int, problem: Landscape, best: Found) -> Found:
    """The best order found near the best one if the effect of j on i must not change."""
    barred = (i, j)
    there = read_order(problem, best.order, barred=barred)
    if there.score > best.score + BEYOND_DOUBT * problem.unit:
        return there
    close = np.abs(correlations(problem)[[i, j]]).max(axis=0) > CLOSE
    involved = close | best.separate | best.changed.any(axis=0) | best.changed.any(axis=1)
    nearest = walk_from(
        problem,
        best.order,
        sweeps=max(1, min(SWEEPS, TURN_EFFORT // problem.p)),
        grain=GRAIN,
        far=FAR_TURNED,
        to_revisit=np.flatnonzero(involved).tolist(),
        barred=barred,
    )
    return _look_closely(problem, nearest, best, barred)


def _exchanged(i: int, j: int, problem: Landscape, best: Found, reverse: BoolArray) -> list[Found]:
    """Orders with effect i just before cause j, or cause j just after effect i."""
    found = []
    for mover, pivot, after in ((i, j, 0), (j, i, 1)):
        order = [node for node in best.order if node != mover]
        order.insert(order.index(pivot) + after, mover)
        found.append(read_order(problem, respect_known(order, reverse)))
    return found


def _turn(i: int, j: int, problem: Landscape, best: Found, *, quick: bool = False) -> Found:
    """The best order found near the best one in which effect i precedes cause j; quickly, if it will do."""
    before = problem.before
    if before[j, i]:
        return replace(best, score=np.inf)
    reverse = before.copy()
    reverse[i, j] = True
    turned = problem.requiring(reverse)
    starts = _exchanged(i, j, problem, best, reverse)
    nearest = min(starts, key=_score)
    if nearest.score > best.score + BEYOND_DOUBT * problem.unit:
        return nearest
    between = best.order[best.order.index(j) : best.order.index(i) + 1]
    involved = best.separate | best.changed.any(axis=0) | best.changed.any(axis=1)
    to_revisit = [node for node in between if involved[node]]
    sweeps = max(1, min(SWEEPS, TURN_EFFORT // problem.p))
    found = [
        walk_from(turned, start.order, sweeps=sweeps, grain=GRAIN, far=FAR_TURNED, to_revisit=to_revisit)
        for start in ([nearest] if quick else starts)
    ]
    if not quick and problem.p <= MIDDLE:
        steps, start = (0, TURNED * problem.p**2), respect_known(best.order, reverse)
        found.append(walk_from(turned, start, steps=steps, sweeps=SWEEPS, grain=GRAIN))
    nearest = min(found, key=_score)
    return _look_closely(turned, nearest, best)
