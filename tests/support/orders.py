"""Oracles for the search over orders: costs read one by one, and the walk read literally.

Only `costs` knows how the core keeps its numbers; everything else asks it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

HOT, WARM, COLD, NEAR = 10.0, 1.0, 0.1, 3.0  # temperatures, and how far careful insertion goes, in penalties


class Cost(NamedTuple):
    """What it costs to place a variable behind its predecessors, and what changes there."""

    value: float
    causes: frozenset[int]
    separate: bool


def problem_of(
    tables: Sequence[Any], make: Callable[..., Any], *, equal: bool = False, before: Any = None, total: int = 0
) -> Any:
    """A problem from rows; `make` is `Problem.from_scatter`, compiled or interpreted."""
    first, second = tables
    p = first.shape[1]
    known = np.zeros((p, p), bool) if before is None else before
    return make(first.T @ first, second.T @ second, len(first), len(second), equal, known, total or p)


def costs(plain: SimpleNamespace, problem: Any, order: Sequence[int], *, careful: bool) -> list[Cost]:
    """Quick or full costs along an order, each worked out afresh by the interpreted core."""
    space = plain.state.new_space(problem.first, 12)
    space.whole[plain.state.ORDER, : problem.p] = order
    plain.state.look(space, problem.pooled)
    found = []
    for t in range(problem.p):
        value, m, separate = (plain.score.full_cost if careful else plain.score.quick_cost)(
            space, problem.rules, t
        )
        causes = frozenset(space.whole[plain.state.CHOSEN, :m].tolist())
        found.append(Cost(float(value), causes, bool(separate)))
    return found


def allowed(order: Sequence[int], before: Any) -> bool:
    """Whether a precedes b wherever ``before[a, b]``."""
    return not any(before[b, a] for a, b in combinations(order, 2))


def closest(order: Sequence[int], before: Any) -> list[int]:
    """The order in which, again and again, the first variable comes that may."""
    left, found = list(order), []
    while left:
        found.append(next(k for k in left if not any(before[other, k] for other in left)))
        left.remove(found[-1])
    return found


def moved(order: Sequence[int], start: int, end: int) -> list[int]:
    """An order with the variable at one position brought to another."""
    rest = list(order)
    rest.insert(end, rest.pop(start))
    return rest


class Undecided(Exception):
    """Two orders score the same but for rounding, so that a literal version may choose the other one."""


class Literal:
    """Scores of orders, and walks, from the costs of single variables; several problems add up."""

    def __init__(self, plain: SimpleNamespace, problems: Sequence[Any]) -> None:
        self.p, self.before = problems[0].p, problems[0].before
        self.unit = float(np.mean([problem.unit for problem in problems]))
        self.draws = self.p if len(problems) == 1 else 0  # before annealing: names for the memory of costs

        @cache
        def cost(i: int, earlier: frozenset[int], careful: bool) -> Cost:
            later = sorted(set(range(self.p)) - earlier - {i})
            order = [*sorted(earlier), i, *later]
            parts = [costs(plain, problem, order, careful=careful)[len(earlier)] for problem in problems]
            causes = frozenset[int]().union(*(part.causes for part in parts))
            return Cost(sum(part.value for part in parts), causes, any(part.separate for part in parts))

        self.cost = cost

    def along(self, order: Sequence[int], *, careful: bool) -> list[Cost]:
        """Costs along an order."""
        return [self.cost(int(i), frozenset(map(int, order[:t])), careful) for t, i in enumerate(order)]

    def total(self, order: Sequence[int], *, careful: bool) -> float:
        """The score of an order but for the part that all orders share."""
        return sum(cost.value for cost in self.along(order, careful=careful))

    def walk(
        self, order: Sequence[int], *, steps: tuple[int, int] = (0, 0), sweeps: int = 0, careful: int = 0,
        grain: float = 1e-7, far: float = math.inf, seed: int = 0, to_revisit: Sequence[int] | None = None,
        near: float = NEAR,
    ) -> list[int]:  # fmt: skip
        """Anneal and insert twice with quick costs, keep what is better, then insert with full ones.

        The random numbers are those of the interpreted core. `grain` and `far` are in units of the score.
        """
        np.random.seed(seed)  # noqa: NPY002
        restless = set(range(self.p) if to_revisit is None else to_revisit)
        kept = now = list(order)
        for count, hot in zip(steps, (HOT, WARM), strict=True):
            if count:
                restless, now = set(range(self.p)), self._anneal(now, count, hot)
            now = self._insert(now, sweeps, restless, grain, far, careful=False)
            gain = self.total(kept, careful=False) - self.total(now, careful=False)
            if now != kept and abs(gain) < 1e-9:
                raise Undecided
            kept = now = now if gain > 0 else kept
        return self._insert(now, careful, set(range(self.p)), grain, min(far, near * self.unit), careful=True)

    def _anneal(self, order: list[int], steps: int, hot: float) -> list[int]:
        """Metropolis over adjacent swaps, the temperature falling geometrically to a tenth of a penalty."""
        for _ in range(self.draws):
            np.random.randint(1 << 62)  # noqa: NPY002
        for step in range(1, steps + 1):
            temperature = hot * self.unit * (COLD / hot) ** (step / steps)
            t = int(np.random.randint(self.p - 1))  # noqa: NPY002
            if self.before[order[t], order[t + 1]]:
                continue
            other = moved(order, t, t + 1)
            rise = self.total(other, careful=False) - self.total(order, careful=False)
            if 0 < abs(rise) < 1e-9:
                raise Undecided
            if rise <= 0 or np.random.random() < math.exp(-rise / temperature):  # noqa: NPY002
                order = other
        return order

    def _insert(
        self, order: list[int], sweeps: int, restless: set[int], grain: float, far: float, *, careful: bool
    ) -> list[int]:
        """Bring restless variables, in random turns, to their best places until none moves."""
        for _ in range(sweeps):
            rested = True
            for v in np.random.permutation(self.p).tolist():  # noqa: NPY002
                if v not in restless:
                    continue
                restless.discard(v)
                before, order = order, self._best(order, v, grain, far, careful=careful)
                rested &= order == before
                for old, new, i in zip(
                    self.along(before, careful=careful), self.along(order, careful=careful), order, strict=True
                ):
                    if abs(new.value - old.value) > 1e-9:  # at this position, whoever stands there
                        restless |= {i, *new.causes}
            if rested:
                break
        return order

    def _best(self, order: list[int], v: int, grain: float, far: float, *, careful: bool) -> list[int]:
        """The order with v at its best place, as far as the score does not rise by `far` on the way."""
        start, here = order.index(v), self.total(order, careful=careful)
        least, best = -grain, order
        for step in (1, -1):
            end, rise = start, 0.0
            while 0 <= end + step < self.p and rise < far:
                end += step
                if not allowed(moved(order, start, end), self.before):
                    break
                rise = self.total(moved(order, start, end), careful=careful) - here
                if abs(rise - least) < 1e-9 or abs(rise - far) < 1e-9:
                    raise Undecided
                if rise < least:
                    least, best = rise, moved(order, start, end)
        return best
