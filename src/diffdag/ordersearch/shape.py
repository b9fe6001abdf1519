"""The shape of residuals as evidence for an order, where it is clearly not Gaussian.

Second moments give all orders along which nothing changes the same likelihood. If noise is not Gaussian, the
residuals of a linear model are independent along its causal orders, and dependent along others (Shimizu, Hoyer,
Hyvarinen and Kerminen 2006, JMLR 7). Residuals u_i along an order, of variance one, are uncorrelated; so

    sum_i J(u_i) = constant - mutual information of all u_i,     J the negentropy:

the logarithm of the likelihood grows by ``N J`` for each variable. J is approximated by two bounded functions
(Hyvarinen 1998, NIPS 10), k1 and k2 such that each term is ``1 / 2N`` on average over Gaussian samples,

    J(u) = k1 (E u exp(-u^2 / 2))^2 + k2 (E exp(-u^2 / 2) - sqrt(1 / 2))^2,

and counts beyond ``log N``, as two more parameters have to earn (Schwarz 1978). Residuals are those of each
condition with coefficients of its own, each divided by its own standard deviation: right whatever changed.

That is evidence only if the model holds. Bent scales, gross errors and rows that are wide or narrow as a whole
give shapes, too, and point anywhere. So shape counts if

1. residuals along the order that second moments favour are clearly not Gaussian, all variables together: of
   Gaussian ones ``2 N sum J`` has a chi-squared distribution with two degrees of freedom per variable; and
2. residuals along the order that is best with shape look independent: for the functions above, less their
   regressions on u, of u_i, and the residuals u_k and the second function of later ones, the squares of all
   correlations, times N, have a mean of one, and the largest is no larger than chance makes it among so many.

If either fails, all stays as it was: for Gaussian rows, byte by byte. If not, changed effects are chosen, and
estimated, with the shape of the noise as well (see `adaptive`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import chdtrc

from diffdag._base.arrays import BoolArray, FloatArray, IntArray
from diffdag._base.parallel import end_if_abandoned
from diffdag.ordersearch.adaptive import Sharpened, sharpen
from diffdag.ordersearch.core import _core
from diffdag.ordersearch.search import (
    DYNAMIC,
    Found,
    Optimum,
    Problem,
    changed_edges,
    is_total,
    read_along,
    read_order,
    respect_known,
    tabulate,
    worth_trying,
)

# Of Gaussian samples the two terms have these multiples and means.
ODD, EVEN = 36 / (8 * math.sqrt(3) - 9), 24 / (16 * math.sqrt(3) - 27)
MIDDLE = math.sqrt(0.5)
# Chosen in docs/dev/order_measured.md: the p-value from which residuals are clearly not Gaussian, how many
# standard deviations the sum of squared correlations may be above what independent residuals have, and the
# p-value of the largest of them.
CLEAR, DEPENDENT, LARGEST = 1e-6, 2.0, 0.01
# Rows of each condition for a variable, at least, and the share of the values of a column that have to differ.
ROWS_PER_VARIABLE, DISTINCT = 10, 0.5
# All orders are compared up to so many variables, and values of residuals; elsewhere those that were met.
MOST_VALUES = 1e8
# Beyond that, the best of those is improved by moving one variable at a time, in so many sweeps at most, if a
# sweep looks at no more values of residuals than this; a move has to gain more than rounding.
SWEEPS, MOST_MOVED, WORTH_MOVING = 20, 3e7, 1e-6
# Times that the best order found is looked at with its directions reversed.
ROUNDS = 5


def settle_by_shape(
    optimum: Optimum,
    rows: Sequence[FloatArray],
    *,
    decided: bool | None = None,
    starts: Sequence[Sequence[int]] = (),
) -> Optimum | None:
    """The best order by second moments and shape; None where shape does not count.

    Parameters
    ----------
    optimum : Optimum
        The outcome of a search by second moments.
    rows : two ndarrays
        Rows of both conditions.
    decided : bool, optional
        Whether shape counts, if that was decided on much the same rows; else these rows decide.
    starts : sequence of orders
        Orders that are good on much the same rows; with them, only these and those near them are compared.
    """
    problem = optimum.problem
    if decided is False or not isinstance(problem, Problem):
        return None
    shape = Shape.of(rows, problem.rules.n1 + problem.rules.n2)
    if decided is None and not (shape.enough and shape.is_clear(optimum.best.order)):
        return None
    values = float(shape.rows) * problem.p * 2.0 ** (problem.p - 1)
    if is_total(problem.before):
        known = shape.sharpened(problem, optimum.best)
        found = _settled(
            problem, optimum, known, dict.fromkeys(changed_edges(problem, known.found), math.inf), ()
        )
    elif starts or problem.p > DYNAMIC or values > MOST_VALUES:
        found = _compare_near(problem, optimum, shape, starts)
    else:
        found = _compare_all(problem, optimum, shape)
    return found if decided or shape.independent(found.best.order) else None


@dataclass(frozen=True, eq=False)
class Shape:
    """Centred rows of both conditions, a row per variable, and what they count for."""

    tables: tuple[FloatArray, ...]
    worth: float  # independent rows that all rows are worth

    @classmethod
    def of(cls, rows: Sequence[FloatArray], worth: float) -> Shape:
        """Centre the rows; they may be worth fewer."""
        tables = tuple(np.ascontiguousarray((table - table.mean(axis=0)).T) for table in rows)
        return cls(tables, min(worth, sum(len(table) for table in rows)))

    @cached_property
    def rows(self) -> int:
        """Number of rows of both conditions."""
        return sum(table.shape[1] for table in self.tables)

    @property
    def enough(self) -> bool:
        """Whether rows are many enough, and values of a column mostly differ, so that it has a density."""
        p = len(self.tables[0])
        if min(table.shape[1] for table in self.tables) < ROWS_PER_VARIABLE * p:
            return False
        return all(
            len(np.unique(column)) >= DISTINCT * table.shape[1] for table in self.tables for column in table
        )

    def residuals(self, order: Sequence[int]) -> FloatArray:
        """Residuals of variance one along an order, a column per variable in that order."""
        parts = []
        for table in self.tables:
            root, factor = np.linalg.qr(table[list(order)].T)
            parts.append(root * np.where(np.diag(factor) < 0, -1.0, 1.0) * math.sqrt(table.shape[1]))
        return np.concatenate(parts)

    def evidence(self, negentropy: FloatArray) -> FloatArray:
        """What the logarithm of the likelihood grows by, less what two parameters have to earn."""
        gained: FloatArray = np.maximum(self.worth * negentropy - math.log(self.worth), 0.0)
        return gained

    def along(self, order: Sequence[int]) -> float:
        """The evidence of all variables along an order."""
        return float(self.evidence(negentropies(self.residuals(order))).sum())

    def is_clear(self, order: Sequence[int]) -> bool:
        """Whether residuals along an order are clearly not Gaussian."""
        total = 2 * self.worth * float(negentropies(self.residuals(order)).sum())
        return bool(chdtrc(2 * len(order), total) < CLEAR)

    def independent(self, order: Sequence[int]) -> bool:
        """Whether residuals along an order look independent."""
        total, largest = dependence(self.residuals(order))
        return total <= DEPENDENT and largest >= LARGEST

    def improved(self, order: Sequence[int], before: BoolArray) -> tuple[int, ...]:
        """An order with more evidence: each variable is moved to its best place, until none gains by that."""
        path = _Path(self, list(order))
        for _ in range(SWEEPS):
            moved = [path.settle(node, before) for node in list(path.order)]
            if not any(moved):
                break
            end_if_abandoned()
        return tuple(path.order)

    def sharpened(self, problem: Problem, found: Found) -> Sharpened:
        """What an order says if effects on variables with noise that is not Gaussian are estimated with it."""
        evidence = self.evidence(negentropies(self.residuals(found.order)))
        clear = [i for i, own in zip(found.order, evidence.tolist(), strict=True) if own > 0]
        return sharpen(problem, found, self.tables, clear)

    def tabulate(self) -> FloatArray:
        """The evidence of every variable behind every set."""
        p = len(self.tables[0])
        found = np.zeros((1 << p, p))
        for members, others, sums in _sets(self.tables):
            odd, even = sums / self.rows
            found[members, others] = self.evidence(_negentropy(odd, even))
        return found


class _Path:
    """Residuals of variance one along an order, that neighbours are swapped in by rotations."""

    def __init__(self, shape: Shape, order: list[int]) -> None:
        self.shape, self.order = shape, order
        self.u = np.ascontiguousarray(shape.residuals(order).T)
        first = shape.tables[0].shape[1]
        self.parts = self.u[:, :first], self.u[:, first:]
        self.factors = []  # the variables in units of the residuals, along the order
        for table, own in zip(shape.tables, self.parts, strict=True):
            self.factors.append(np.triu(own @ table[order].T / table.shape[1]))
        self.gained = self.evidence(slice(None))

    def settle(self, node: int, before: BoolArray) -> bool:
        """Move a variable to where all of them together have the most evidence; whether it moved."""
        start = self.order.index(node)
        totals = {start: float(self.gained.sum())}
        for end, step in ((-1, -1), (len(self.order), 1)):
            while (at := self.order.index(node)) + step != end:
                other = self.order[at + step]
                if before[(other, node) if step < 0 else (node, other)]:
                    break
                self.swap(min(at, at + step))
                totals[at + step] = float(self.gained.sum())
        best = max(totals, key=lambda place: totals[place])
        if totals[best] <= totals[start] + WORTH_MOVING:
            best = start
        while (at := self.order.index(node)) != best:
            self.swap(at if at < best else at - 1)
        return best != start

    def swap(self, t: int) -> None:
        """Swap the variables at t and t + 1."""
        pair = slice(t, t + 2)
        for own, factor in zip(self.parts, self.factors, strict=True):
            one, two = factor[t, t + 1], factor[t + 1, t + 1]
            turn = np.array([[one, two], [two, -one]]) / math.hypot(one, two)
            own[pair], factor[pair] = turn @ own[pair], turn @ factor[pair]
            factor[:, [t, t + 1]] = factor[:, [t + 1, t]]
        self.order[t], self.order[t + 1] = self.order[t + 1], self.order[t]
        self.gained[pair] = self.evidence(pair)

    def evidence(self, which: slice) -> FloatArray:
        """The evidence of the variables at some places."""
        u = self.u[which]
        bell = np.exp(-0.5 * u * u)
        odd, even = np.einsum("ij,ij->i", u, bell) / u.shape[1], bell.sum(axis=1) / u.shape[1]
        return self.shape.evidence(_negentropy(odd, even))


def _sets(tables: Sequence[FloatArray]) -> list[tuple[int, IntArray, FloatArray]]:
    """For each set: its bits, other variables, and sums of both functions of their residuals on the set.

    Each set is one with a variable less, and this variable taken out of the residuals.
    """
    found: list[tuple[int, IntArray, FloatArray]] = []

    def go_on(members: int, least: int, others: IntArray, left: Sequence[FloatArray]) -> None:
        found.append((members, others, np.sum([_sums(own) for own in left], axis=0)))
        for k in np.flatnonzero(others >= least).tolist():
            if len(others) > 1:
                kept = np.delete(np.arange(len(others)), k)
                node = int(others[k])
                go_on(members | 1 << node, node + 1, others[kept], [_without(own, k, kept) for own in left])
        end_if_abandoned()

    go_on(0, 0, np.arange(len(tables[0])), tables)
    return found


def _without(left: FloatArray, k: int, kept: IntArray) -> FloatArray:
    """Residuals less their regressions on the k-th."""
    own = left[k]
    rest: FloatArray = left[kept]
    rest -= np.outer(rest @ own / (own @ own), own)
    return rest


def _sums(left: FloatArray) -> FloatArray:
    """Sums of both functions of residuals, a row per variable, divided by their standard deviations."""
    scale = np.sqrt(np.einsum("ij,ij->i", left, left) / left.shape[1])
    u = left / scale[:, None]
    bell = np.exp(-0.5 * u * u)
    return np.array([np.einsum("ij,ij->i", u, bell), bell.sum(axis=1)])


def negentropies(u: FloatArray) -> FloatArray:
    """Approximate negentropies of columns of variance one.

    >>> rng = np.random.default_rng(0)
    >>> plain, peaked = rng.standard_normal((1000, 1)), rng.laplace(size=(1000, 1)) / 2**0.5
    >>> bool(negentropies(plain)[0] < 0.01 < negentropies(peaked)[0])
    True
    """
    bell = np.exp(-0.5 * u * u)
    return _negentropy((u * bell).mean(axis=0), bell.mean(axis=0))


def _negentropy(odd: FloatArray, even: FloatArray) -> FloatArray:
    """The approximation, by the means of both functions."""
    found: FloatArray = ODD * odd**2 + EVEN * (even - MIDDLE) ** 2
    return found


def dependence(u: FloatArray) -> tuple[float, float]:
    """By how many standard deviations residuals in causal order are more dependent than independent ones.

    Besides, the p-value of the largest dependence, of so many that were looked at: where effects are few and
    weak, a sum over all pairs does not tell. Functions of earlier residuals are compared with later residuals
    and their second function, but not with their first: errors of coefficients, which are larger than they need
    be where noise is not Gaussian, make that depend on earlier ones.
    """
    n, p = u.shape
    bell = np.exp(-0.5 * u * u)
    odd, even = (_apart(own, u) for own in (u * bell, bell))
    pairs = np.triu_indices(p, 1)
    squares = np.concatenate([(a.T @ b)[pairs] ** 2 / n for a, b in ((odd, u), (even, u), (even, even))])
    total = float((squares.sum() - len(squares)) / math.sqrt(2 * max(len(squares), 1)))
    return total, len(squares) * float(chdtrc(1, squares.max(initial=0.0)))


def _apart(function: FloatArray, u: FloatArray) -> FloatArray:
    """A function of residuals less its regression on them, of variance one."""
    own = function - function.mean(axis=0)
    own = own - u * (own * u).mean(axis=0)
    apart: FloatArray = own / np.maximum(own.std(axis=0), np.finfo(float).tiny)
    return apart


def _compare_all(problem: Problem, optimum: Optimum, shape: Shape) -> Optimum:
    """The best of all orders, by dynamic programming."""
    (costs, changes), p, before = tabulate(problem), problem.p, problem.before
    total = costs - shape.tabulate()

    def order_of(required: BoolArray) -> tuple[float, tuple[int, ...]]:
        order, scores = np.empty(p, np.int64), np.empty(len(costs))
        score = _core.best_order(total, required, order, scores)
        return float(score), tuple(order.tolist())

    least, order = order_of(before)
    known = shape.sharpened(problem, read_along(order, problem.base, costs, changes))
    best = known.found
    margins, turned = {}, []
    for i, j in changed_edges(problem, best):
        reverse = before.copy()
        reverse[i, j] = True
        other, how = (math.inf, order) if before[j, i] else order_of(reverse)
        margins[i, j] = other - least
        turned.append(replace(best, order=how, score=best.score + other - least))
    return _settled(problem, optimum, known, margins, turned)


def _compare_near(problem: Problem, optimum: Optimum, shape: Shape, starts: Sequence[Sequence[int]]) -> Optimum:
    """The best of orders that were met, and of those with a direction reversed."""
    met: dict[tuple[int, ...], tuple[float, Found]] = {}

    def look(order: Sequence[int]) -> None:
        own = tuple(order)
        if own not in met:
            said = read_order(problem, own)
            met[own] = said.score - shape.along(own), said

    for order in (optimum.best.order, *optimum.others, *starts):
        look(respect_known(list(order), problem.before))
    if not starts and shape.rows * problem.p**2 <= MOST_MOVED:
        look(shape.improved(min(met.values(), key=_first)[1].order, problem.before))
    for _ in range(ROUNDS):
        total, said = min(met.values(), key=_first)
        known = shape.sharpened(problem, said)
        for edge in changed_edges(problem, known.found):
            for order in _reversed(problem, said.order, *edge):
                look(order)
        if min(met.values(), key=_first)[1] is said:
            break
    else:
        total, said = min(met.values(), key=_first)
        known = shape.sharpened(problem, said)
    margins, best = {}, known.found
    for i, j in changed_edges(problem, best):
        others = [score for score, own in met.values() if own.order.index(i) < own.order.index(j)]
        margins[i, j] = min(others, default=math.inf) - total
    turned = [replace(own, score=best.score + score - total) for score, own in met.values()]
    return _settled(problem, optimum, known, margins, turned)


_first: Callable[[tuple[float, Found]], float] = lambda item: item[0]  # noqa: E731


def _reversed(problem: Problem, order: Sequence[int], effect: int, cause: int) -> list[list[int]]:
    """Orders near this one in which an effect precedes its cause."""
    if problem.before[cause, effect]:
        return []
    reverse = problem.before.copy()
    reverse[effect, cause] = True
    found = []
    for mover, pivot, after in ((effect, cause, 0), (cause, effect, 1)):
        moved = [node for node in order if node != mover]
        moved.insert(moved.index(pivot) + after, mover)
        found.append(respect_known(moved, reverse))
    return found


def _settled(
    problem: Problem,
    optimum: Optimum,
    known: Sharpened,
    margins: dict[tuple[int, int], float],
    turned: Sequence[Found],
) -> Optimum:
    """An outcome with another best order; what the score rises by without a change is read along it."""
    return replace(
        optimum,
        best=known.found,
        margins=margins,
        rises=known.rises,
        others=worth_trying(problem, known.found, turned),
        responses=known.responses,
    )
