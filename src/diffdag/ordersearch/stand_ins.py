"""Columns that may stand in for the source of a changed effect.

Two columns that are nearly the same leave open which of them acts. For each claimed change j -> i, and each
column k that is correlated with j, the score is read along orders in which k precedes i, where the effect of k
on i changes and that of j does not. Those within `MARGIN` of the best score are listed: if k is right, the
likelihood of a given other model is ``exp(MARGIN)`` times as large with a probability of at most
``exp(-MARGIN)`` (Royall 1997, *Statistical Evidence*, chapter 1); the margin is wider than that asks for,
because the named one was chosen among many, and the order too. Where chance gains more on the rows at hand, the
margin grows as penalties do. Where a factor multiplies all effects on i, j may be left out of its causes for k
instead, at no more than that. Of the target no copies are listed: each of them would have to change too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from diffdag._base.arrays import FloatArray
from diffdag.model.regression import minus_loglik, regress_jointly
from diffdag.ordersearch.rules import CHANGE, FREE, INTERCEPT, VARIANCE
from diffdag.ordersearch.search import CLOSE, Edge, Found, Problem, correlations, read_order, respect_known
from diffdag.results.difference import Difference

if TYPE_CHECKING:
    from diffdag.ordersearch.fit import OrderFit

# Chosen in docs/dev/constants.md.
MARGIN = 6.0
# Rounds of weighted least squares with two variances, at most, and what they may leave to be changed.
ROUNDS, SAME = 20, 1e-9
SLACK = 3.0  # by which a given change may cost less than what the search takes for best


def add_stand_ins(result: Difference, fit: OrderFit) -> Difference:
    """Name the stand-ins of each edge; the edges may be fewer than those of the fit."""
    names, margin = fit.first.names, MARGIN * fit.settings.inflation.change
    found = find_stand_ins(fit.problem, fit.optimum.best, list(fit.optimum.margins), margin)
    by_ends = {(names[j], names[i]): tuple(names[k] for k in those) for (i, j), those in found.items()}
    # Without direction the ends are in the order of the columns.
    by_ends |= {
        (edge.source, edge.target): by_ends.get((edge.target, edge.source), ())
        for edge in result.edge_list
        if not edge.directed and (edge.source, edge.target) not in by_ends
    }
    edges = [replace(edge, stand_ins=by_ends.get((edge.source, edge.target), ())) for edge in result.edge_list]
    return replace(result, edge_list=tuple(edges))


def find_stand_ins(
    problem: Problem, best: Found, edges: Sequence[Edge], margin: float = MARGIN
) -> dict[Edge, list[int]]:
    """Stand-ins for the cause of each changed effect (effect, cause), the best first."""
    close = np.abs(correlations(problem)) > CLOSE
    found = {}
    for i, j in edges:
        others = [k for k in np.flatnonzero(close[j]).tolist() if k not in (i, j)]
        if best.gains[i] and not best.changed[i, j]:
            rises = {k: _rise_of_gain(problem, best, (i, j), (i, k)) for k in others}
        else:
            read = lru_cache(partial(read_order, problem, barred=(i, j)))
            rises = {k: _rise(problem, best, (i, j), (i, k), read, margin + SLACK) for k in others}
        found[i, j] = [k for k in sorted(rises, key=lambda k: rises[k]) if rises[k] <= margin]
    return found


def _rise(
    problem: Problem,
    best: Found,
    claimed: Edge,
    other: Edge,
    read: Callable[[tuple[int, ...]], Found],
    enough: float,
) -> float:
    """What the score rises by, at most, if another effect changes in place of the claimed one.

    `read` reads an order without the claimed change. What is best then costs no more than a given other
    change: where that alone rises by more than `enough`, no closer look is taken.
    """
    read_orders = [read(order) for order in _orders(problem, best, other)]
    scores = [
        _score(problem, best, said, claimed, other) if said.score - best.score <= enough else said.score
        for said in read_orders
    ]
    return min(scores, default=np.inf) - best.score


def _orders(problem: Problem, best: Found, other: Edge) -> Iterator[tuple[int, ...]]:
    """Orders near the best one in which the cause of another change precedes its effect."""
    effect, cause = other
    if best.order.index(cause) < best.order.index(effect):
        yield best.order
        return
    if problem.before[effect, cause]:
        return
    before = problem.before.copy()
    before[cause, effect] = True
    for mover, pivot, after in ((cause, effect, 0), (effect, cause, 1)):
        order = [node for node in best.order if node != mover]
        order.insert(order.index(pivot) + after, mover)
        yield tuple(respect_known(order, before))


def _score(problem: Problem, best: Found, said: Found, claimed: Edge, other: Edge) -> float:
    """The least score found along an order that was read if one effect changes in place of another."""
    effect, cause = other
    if said.changed[effect, cause]:
        return said.score
    constant, earlier = problem.p, said.before(effect)
    model = Node(problem, effect, earlier)
    sets = []
    for source in (best.changed[claimed[0]], said.changed[effect]):
        beside = [
            k for k in np.flatnonzero(source).tolist() if k in earlier and other != (effect, k) != claimed
        ]
        sets += [[cause, *beside], *([cause, *(k for k in beside if k != out)] for out in beside)]
    if best.shifted[claimed[0]] or said.shifted[effect]:
        sets += [[*own, constant] for own in sets]
    separate = (False,) if problem.rules.equal else (False, True)
    return (
        said.score - float(said.costs[effect]) + min(model.cost(own, two) for own in sets for two in separate)
    )


@dataclass(frozen=True, eq=False)
class Node:
    """A variable behind others, and what changes of its regression on them cost, as in core/node.h."""

    problem: Problem
    effect: int
    earlier: Sequence[int]

    def cost(self, changed: Sequence[int], separate: bool) -> float:
        """What these changed coefficients cost, minus what they gain; if `separate`, with two variances."""
        rules, constant = self.problem.rules, self.problem.p
        table = rules.table[:, len(self.earlier) + 1]
        rows = np.array([rules.n1, rules.n2])
        left = self._squares(changed, np.ones(2))
        penalty = sum(table[INTERCEPT if k == constant else CHANGE] for k in changed)
        if not separate:
            return float(table[FREE] / 2 * np.log(left.sum() / self.unchanged) + penalty)
        for _ in range(ROUNDS):
            before, left = left, self._squares(changed, rows / left)
            if np.allclose(left, before, rtol=SAME, atol=0):
                break
        gained = rows @ np.log(left * rows.sum() / (rows * self.unchanged))
        return float(table[FREE] / rows.sum() / 2 * gained + penalty + table[VARIANCE])

    @cached_property
    def unchanged(self) -> float:
        """What is left of the squares if nothing changes."""
        return float(self._squares([], np.ones(2)).sum())

    @cached_property
    def _sums(self) -> tuple[list[int], FloatArray]:
        """The constant, the predecessors and the variable itself; their sums of products, by condition."""
        index = [self.problem.p, *self.earlier, self.effect]
        first, pooled = (own[np.ix_(index, index)] for own in (self.problem.first, self.problem.pooled))
        return index[:-1], np.array([first, pooled - first])

    def _squares(self, changed: Sequence[int], weights: FloatArray) -> FloatArray:
        """Residual sums of squares in both conditions, with weights for the conditions."""
        index, sums = self._sums
        k, own = len(index), [index.index(j) for j in changed]
        wide = np.empty((k + len(own), k + len(own) + 1))
        first, second = weights[:, None, None] * sums[:, :k]
        wide[:k, :k], wide[:k, -1] = (first + second)[:, :k], (first + second)[:, k]
        wide[:k, k:-1], wide[k:, :k], wide[k:, -1] = first[:, own], first[own, :k], first[own, k]
        wide[k:, k:-1] = first[np.ix_(own, own)]
        solution = np.linalg.solve(wide[:, :-1], wide[:, -1])
        both = np.full((2, k + 1), -1.0)
        both[:, :k] = solution[:k]
        both[0, own] += solution[k:]
        left = np.einsum("ci,cij,cj->c", both, sums, both)
        return np.asarray(np.maximum(left, np.finfo(float).tiny), dtype=np.float64)


def _rise_of_gain(problem: Problem, best: Found, claimed: Edge, other: Edge) -> float:
    """What the score rises by if a variable whose gain changed has one cause in place of another."""
    (effect, left_out), (_, cause) = claimed, other
    earlier = [*best.before(effect), *({cause} - {*best.before(effect)})]
    changed = [k for k in np.flatnonzero(best.changed[effect]).tolist() if k != effect]
    separate = bool(best.separate[effect])
    rows = problem.rules.n1, problem.rules.n2
    with_it, without = (
        minus_loglik(
            regress_jointly(*problem.moments, effect, those, changed, separate, gain=True).squares,
            rows,
            separate,
        )
        for those in (earlier, [k for k in earlier if k != left_out])
    )
    return without - with_it
