"""Oracles for the search over orders: costs read one by one, and the walk read literally.

Only `costs` asks the core; everything else asks `costs`.
"""

from __future__ import annotations

import math
from collections.abc import MutableSequence, Sequence
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from diffdag.ordersearch.search import Problem, read_order

HOT, WARM, COLD, NEAR = 10.0, 1.0, 0.1, 3.0  # temperatures, and how far careful insertion goes, in penalties


class Cost(NamedTuple):
    """What it costs to place a variable behind its predecessors, and what changes there."""

    value: float
    causes: frozenset[int]  # and the variable itself, if its gain changes
    separate: bool
    shifted: bool = False


def problem_of(
    tables: Sequence[Any],
    *,
    equal: bool = False,
    before: Any = None,
    total: int = 0,
    difference: Any = None,
    gains: bool = False,
) -> Problem:
    """A problem from rows whose means are taken for zero; `difference` is that of the means, if it counts."""
    first, second = tables
    p = first.shape[1]
    known = np.zeros((p, p), bool) if before is None else before
    scatter = first.T @ first, second.T @ second
    rows = len(first), len(second)
    return Problem.from_scatter(*scatter, *rows, equal, known, total or p, difference=difference, gains=gains)


def centred_problem(tables: Sequence[Any], *, moved: bool = True, **options: Any) -> Problem:
    """A problem from rows around their means; unless `moved`, what the means say is left out."""
    means = [table.mean(axis=0) for table in tables]
    around = [table - mean for table, mean in zip(tables, means, strict=True)]
    return problem_of(around, difference=means[0] - means[1] if moved else None, **options)


def costs(
    problem: Problem, order: Sequence[int], *, careful: bool, barred: tuple[int, int] | None = None
) -> list[Cost]:
    """Quick or full costs along an order, worked out afresh; a barred coefficient must not change."""
    said = read_order(problem, order, careful=careful, barred=barred)
    return [
        Cost(
            float(said.costs[i]),
            frozenset(np.flatnonzero(said.changed[i]).tolist()),
            bool(said.separate[i]),
            bool(said.shifted[i]),
        )
        for i in order
    ]


class SplitMix64:
    """Random numbers of 64 bits (Steele, Lea and Flood 2014), whole numbers, real ones and shuffles of them."""

    def __init__(self, state: int) -> None:
        self.state = state

    @classmethod
    def seeded(cls, seed: int) -> SplitMix64:
        """As the core begins: from the mixed seed, so that those of neighbouring seeds do not overlap."""
        return cls(cls.mixed(seed))

    @staticmethod
    def mixed(z: int) -> int:
        """The finaliser, one to one on numbers of 64 bits."""
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31

    def bits(self) -> int:
        """The next number."""
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        return self.mixed(self.state)

    def uniform(self) -> float:
        """Between 0 and 1: the upper 53 bits."""
        return (self.bits() >> 11) / 2**53

    def below(self, n: int) -> int:
        """From 0 to n - 1: the upper 32 bits, as a share of n."""
        return (self.bits() >> 32) * n >> 32

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """In place, from the last to the second (Fisher and Yates)."""
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]


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

    def __init__(self, problems: Sequence[Problem], barred: tuple[int, int] | None = None) -> None:
        self.p, self.before = problems[0].p, problems[0].before
        self.unit = float(np.mean([problem.unit for problem in problems]))

        @cache
        def cost(i: int, earlier: frozenset[int], careful: bool) -> Cost:
            later = sorted(set(range(self.p)) - earlier - {i})
            order = [*sorted(earlier), i, *later]
            how = {"careful": careful, "barred": barred}
            parts = [costs(problem, order, **how)[len(earlier)] for problem in problems]
            causes = frozenset[int]().union(*(part.causes for part in parts))
            marks = any(part.separate for part in parts), any(part.shifted for part in parts)
            return Cost(sum(part.value for part in parts), causes, *marks)

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
        near: float = NEAR, thorough: bool = True,
    ) -> list[int]:  # fmt: skip
        """Anneal and insert twice with quick costs, keep what is better, then insert with full ones.

        `grain` and `far` are in units of the score.
        """
        self.random = SplitMix64.seeded(seed)
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
        restless = set(range(self.p)) if thorough else self._involved(now)
        return self._insert(now, careful, restless, grain, min(far, near * self.unit), careful=True)

    def _involved(self, order: list[int]) -> set[int]:
        """Variables where something changes, and the causes whose effects change."""
        costs_there = zip(order, self.along(order, careful=True), strict=True)
        return {k for i, cost in costs_there if abs(cost.value) > 1e-9 for k in (i, *cost.causes)}

    def _anneal(self, order: list[int], steps: int, hot: float) -> list[int]:
        """Metropolis over adjacent swaps, the temperature falling geometrically to a tenth of a penalty."""
        for _ in range(self.p):  # names for the memory of costs
            self.random.bits()
        for step in range(1, steps + 1):
            temperature = hot * self.unit * (COLD / hot) ** (step / steps)
            t = self.random.below(self.p - 1)
            if self.before[order[t], order[t + 1]]:
                continue
            other = moved(order, t, t + 1)
            rise = self.total(other, careful=False) - self.total(order, careful=False)
            if 0 < abs(rise) < 1e-9:
                raise Undecided
            if rise <= 0 or self.random.uniform() < math.exp(-rise / temperature):
                order = other
        return order

    def _insert(
        self, order: list[int], sweeps: int, restless: set[int], grain: float, far: float, *, careful: bool
    ) -> list[int]:
        """Bring restless variables, in random turns, to their best places until none moves."""
        for _ in range(sweeps):
            rested, turns = True, list(range(self.p))
            self.random.shuffle(turns)
            for v in turns:
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
