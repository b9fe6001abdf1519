"""Does an effect run one way in one condition and the other way in the other?

The method looks for one order for both conditions. If the edge ``j -> i`` of the first condition is ``i -> j``
in the second there is none, and along any order much seems to change. Two variables i and j that follow each
other, behind the same predecessors A, can be explained in a third way besides j before i and i before j:

    i on A in both conditions, and on j in the first only;     j on A in both, and on i in the second only.

That pays for two changes, and for others where they pay. `check_reversals` compares the best order that has one
such pair with the best one that has none, in penalties of a change. Up to 12 variables all orders are
compared, by the tables of dynamic programming: least costs of the variables in A, in any order, and of all
behind the pair. Beyond, the pairs tried are those that changed, at two places in the order found, and most
reversals are missed. Intercepts are free.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from diffdag._base.arrays import FloatArray, IntArray
from diffdag.ordersearch.core import _core
from diffdag.ordersearch.search import Problem, tabulate, walk_from
from diffdag.results.records import Check

if TYPE_CHECKING:
    from diffdag.ordersearch.search import Problem
    from diffdag.trust.fits import Fit

MARGIN = 0.2  # what a reversal has to save, in penalties of a change; ordinary changes lose half of one or more
LEAST = 2.1  # penalties that a result has to pay for a reversal to be worth a look
TRIED = 300  # pairs and sets before them that are tried, the most hopeful first
FEW = 12  # up to so many variables all orders are compared, unless the order is known
MOST = 20  # pairs that are tried elsewhere
Pair = tuple[int, int]


def check_reversals(fit: Fit) -> Check | None:
    """Whether one reversed edge explains the data with fewer changes; None where orders cannot be compared."""
    first, second, names = fit.first, fit.second, fit.first.names
    few = len(names) <= FEW and not (fit.method == "order" and "order" in fit.settings.known)
    if min(first.n, second.n) <= len(names) + 2 or not (few or fit.method == "order"):
        return None
    calm = "nothing suggests that an edge is reversed between the conditions"
    # About the sum of penalties; a noise variance has 0.6 of that of a change.
    if len(fit.difference.edge_list) + 0.6 * len(fit.difference.noise_list) < LEAST:
        return Check("reversals", True, calm, None, MARGIN)
    problem = Problem.from_scatter(
        first.scatter,
        second.scatter,
        first.n,
        second.n,
        fit.equal_noise,
        np.zeros((len(names),) * 2, bool),
        len(fit.names),
        fit.settings.factor if fit.method == "order" else 1.0,
        gains=bool(fit.difference.gain_list),  # to look for them takes most of the time
    )
    saved = AllOrders(problem).saved() if few else _saved_nearby(problem, fit)
    pair = max(saved, key=lambda key: saved[key], default=None)
    most = saved[pair] / problem.unit if pair is not None else 0.0
    if pair is None or most <= MARGIN:
        return Check("reversals", True, calm, most, MARGIN)
    i, j = pair
    says = (
        f"an effect of '{names[j]}' on '{names[i]}' in the first condition seems to run the other way in the "
        "second, or to be part of more such reversals, which no common order allows for: many of the changes "
        "found may be there only for that; do not trust their list, and leave out one of the two variables"
    )
    ends = {names[i], names[j]}
    edges = tuple(str(edge) for edge in fit.difference.edge_list if {edge.source, edge.target} == ends)
    return Check("reversals", False, says, most, MARGIN, edges)


class AllOrders:
    """Least costs of all sets of variables, by dynamic programming; a number's bits say who is in a set."""

    def __init__(self, problem: Problem) -> None:
        p, sets = problem.p, 1 << problem.p
        self.problem = problem
        costs, _ = tabulate(problem)
        self.before = np.empty(sets)
        self.best = _core.best_order(costs, problem.rules.before, np.empty(p, np.int64), self.before)
        self.behind = _behind(costs)

    def saved(self) -> dict[Pair, float]:
        """What a reversal of each pair saves at most: (i, j) for j -> i in the first condition."""
        enough = self.best - MARGIN * self.problem.unit
        found: dict[Pair, float] = {}
        best = enough
        hopeful = [
            (float(bound), pair, int(members))
            for pair, (sets, least) in self._bounds(enough).items()
            for members, bound in zip(sets, least, strict=True)
        ]
        for bound, (i, j), members in sorted(hopeful)[:TRIED]:
            if bound >= best:
                break
            others = [k for k in range(self.problem.p) if members >> k & 1]
            pair_cost = block_cost(self.problem, others, i, j)
            score = self.before[members] + pair_cost + self.behind[members | 1 << i | 1 << j]
            found[i, j] = max(found.get((i, j), -math.inf), self.best - score)
            best = min(best, score)
        return found

    def _bounds(self, enough: float) -> dict[Pair, tuple[IntArray, FloatArray]]:
        """For each pair, sets before it and what a reversal there costs at least: what free fits leave."""
        rules, p = self.problem.rules, self.problem.p
        first, pooled = self.problem.first[:p, :p], self.problem.pooled[:p, :p]
        one, two, both = map(_log_determinants, (first, pooled - first, pooled))
        rows = rules.n1 + rules.n2
        sizes = np.array([bin(k).count("1") for k in range(1 << p)])
        masks = np.arange(1 << p)
        bounds = {}
        for i in range(p):
            for j in range(i):
                pair = 1 << i | 1 << j
                sets = masks[masks & pair == 0]
                gain = rules.n1 * (one[sets | pair] - one[sets]) + rules.n2 * (two[sets | pair] - two[sets])
                gain -= rows * (both[sets | pair] - both[sets])
                constant = 2 * (
                    rows * math.log(rows) - rules.n1 * math.log(rules.n1) - rules.n2 * math.log(rules.n2)
                )
                at = sizes[sets] + 2
                share = rules.table[2, at] / rows
                least = share * (gain + constant) / 2 + 2 * rules.table[0, at]
                least += self.before[sets] + self.behind[sets | pair]
                hopeful = least < enough
                bounds[i, j] = bounds[j, i] = (sets[hopeful], least[hopeful])
        return bounds


def _behind(costs: FloatArray) -> FloatArray:
    """The least cost of all variables that are not in a set, placed behind it."""
    sets, p = costs.shape
    sizes = np.array([bin(k).count("1") for k in range(sets)])
    masks = np.arange(sets)
    least = np.full(sets, math.inf)
    least[-1] = 0.0
    for size in range(p - 1, -1, -1):
        these = masks[sizes == size]
        for v in range(p):
            free = these[these >> v & 1 == 0]
            least[free] = np.minimum(least[free], costs[free, v] + least[free | 1 << v])
    return least


def _log_determinants(matrix: FloatArray) -> FloatArray:
    """Of the block of every set of variables; 0 for the empty one."""
    p = len(matrix)
    masks = np.arange(1 << p)
    members = (masks[:, None] >> np.arange(p) & 1).astype(bool)
    sizes = members.sum(axis=1)
    result = np.zeros(1 << p)
    for size in range(1, p + 1):
        these = masks[sizes == size]
        index = np.nonzero(members[these])[1].reshape(-1, size)
        result[these] = np.linalg.slogdet(matrix[index[:, :, None], index[:, None, :]])[1]
    return result


def block_cost(problem: Problem, others: list[int], i: int, j: int) -> float:
    """Cost of i and j behind the same others, with j -> i in the first condition only and i -> j in the second.

    It is what it pays minus what it gains on both with nothing changed, as in `ordersearch.score`.
    """
    index = [*others, i, j]
    root = np.linalg.cholesky(problem.pooled[np.ix_(index, index)])
    reference = float(root[-1, -1] * root[-2, -2])
    ends = ((i, j, 1), (j, i, 0))  # and the condition in which the second does not act on the first
    costs = [_node_cost(problem, others, *end, reference) for end in ends]
    return 2 * float(problem.rules.table[0, len(others) + 2]) + sum(costs)


def _node_cost(
    problem: Problem, others: list[int], target: int, cause: int, absent: int, reference: float
) -> float:
    """Cost of a variable on others in both conditions and on a cause that is constant in one of them.

    Coefficients of others differ between the conditions where that pays, as seen one at a time.
    """
    rules, at, k = problem.rules, len(others) + 2, len(others)  # the constant precedes all
    penalty, variance, free = (float(rules.table[row, at]) for row in range(3))
    both = [problem.first.copy(), problem.pooled - problem.first]
    both[absent][cause] = both[absent][:, cause] = 0.0
    one, pooled, index = both[0], both[0] + both[1], [*others, cause]
    gram = np.block(
        [
            [pooled[np.ix_(index, index)], one[np.ix_(index, others)]],
            [one[np.ix_(others, index)], one[np.ix_(others, others)]],
        ]
    )
    cross = np.append(pooled[index, target], one[others, target])
    chosen = list(range(k + 1))
    solution = np.linalg.solve(gram[: k + 1, : k + 1], cross[: k + 1])
    rss = float(pooled[target, target] - cross[: k + 1] @ solution)
    while len(chosen) < 2 * k + 1:
        rest = [c for c in range(k + 1, 2 * k + 1) if c not in chosen]
        solved = np.linalg.solve(gram[np.ix_(chosen, chosen)], gram[np.ix_(chosen, rest)])
        width = gram[rest, rest] - np.einsum("ij,ij->j", gram[np.ix_(chosen, rest)], solved)
        gain = (cross[rest] - cross[chosen] @ solved) ** 2 / np.maximum(width, 1e-9 * gram[rest, rest])
        best = int(np.argmax(gain))
        if gain[best] <= -math.expm1(-2 * penalty / free) * rss:
            break
        chosen.append(rest[best])
        rss -= float(gain[best])
    changes = len(chosen) - k - 1
    cost = free / 2 * math.log(rss / reference) + penalty * changes
    if rules.equal:
        return cost
    rows, solution = rules.n1 + rules.n2, np.zeros(2 * k + 1)
    solution[chosen] = np.linalg.solve(gram[np.ix_(chosen, chosen)], cross[chosen])
    contrast = np.append(-solution[: k + 1], 1.0)
    contrast[:k] -= solution[k + 1 :]
    block = np.ix_([*index, target], [*index, target])
    first = max(float(contrast @ one[block] @ contrast), 1e-12 * float(one[target, target]))
    second = max(rss - first, 1e-12 * rss)
    two = rules.n1 * math.log(rows * first / (rules.n1 * reference))
    two += rules.n2 * math.log(rows * second / (rules.n2 * reference))
    return min(cost, free / rows / 2 * two + penalty * changes + variance)


def _saved_nearby(problem: Problem, fit: Fit) -> dict[Pair, float]:
    """What a reversal of each changed pair saves at most, where the rest of the order is that of the fit."""
    place, result = {name: k for k, name in enumerate(fit.first.names)}, fit.difference
    order = [place[name] for name in fit.search_order or fit.first.names]
    strength = {edge: abs(edge.delta or 0.0) / (edge.stderr or 1.0) for edge in result.edge_list}
    edges = sorted(result.edge_list, key=lambda edge: -strength[edge])[:MOST]
    best = walk_from(problem, order).score
    found: dict[Pair, float] = {}
    for edge in edges:
        a, b = sorted((order.index(place[edge.source]), order.index(place[edge.target])))
        pair = order[a], order[b]
        rest = [k for k in order if k not in pair]
        for position in {a, b - 1}:
            other = walk_from(problem, [*rest[:position], *pair, *rest[position:]])
            outside = other.score - float(other.costs[list(pair)].sum())
            for i, j in (pair, pair[::-1]):
                saved = best - outside - block_cost(problem, rest[:position], i, j)
                found[i, j] = max(found.get((i, j), -math.inf), saved)
    return found
