"""Shared neighbourhoods of each variable, several of them, and the pairs that look changed given any of these.

A neighbourhood is a small set S of other variables that explains most of variable i in both conditions
together. What it leaves, ``e_i = X_i - b X_S``, is compared with every other variable j:

    q[i, j] = |cov(e_i, X_j)| / standard error, in both conditions together,
    t[i, j] = |cov1(e_i, X_j) - cov2(e_i, X_j)| / standard error.

Where the effect of j on i changed, and S holds the other causes of i, t is about as large as in a test that
knows them. S may hold effects of i in their place, which explain i as well, and then t is far smaller. So there
are several neighbourhoods of each variable: one as good as can be, one without the closest member of the first,
and one without the closest members of both. A change that is seen given one of them is enough to suspect it.

An effect that changed is there in one of the conditions at least, so that q is large as well, unless its sign
turned: pairs are ranked by ``t^2 + min(q, t)^2``. Where nothing is between i and j both are chance, and
independent of each other.

One look at all pairs takes a product of the tables with themselves. It gives candidates for the neighbourhoods,
of which the best are chosen one after the other (orthogonal matching pursuit), and the pairs that look changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtri

from diffdag._base.arrays import FloatArray, IntArray
from diffdag._base.progress import ProgressCallback
from diffdag.precision.problem import SparseProblem

# So many neighbourhoods of a variable, with so many members at most, chosen among so many candidates of one
# look; a member explains this share of what is left, or less, so that none is a copy.
NEIGHBOURHOODS, MOST, CANDIDATES, NEARLY_ALL = 3, 10, 12, 0.999
# So many pairs are remembered of all looks; so many would pass the first bound by chance in one.
REMEMBERED, BY_CHANCE = 20_000, 5_000.0
CHANCE_ALONE = 0.5  # so many variables look changed by themselves by chance
PART = 512  # variables whose candidates are compared together


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """One neighbourhood of each variable: its members (-1 where there are fewer), and what they leave.

    `strengths` are the members' coefficients over their standard errors.
    """

    chosen: IntArray
    coefficients: FloatArray
    strengths: FloatArray
    variances: FloatArray

    @classmethod
    def none(cls, variances: FloatArray) -> Neighbourhoods:
        """No neighbour of any variable."""
        p = len(variances)
        return cls(np.full((p, MOST), -1), np.zeros((p, MOST)), np.zeros((p, MOST)), variances)

    def of(self, variable: int) -> list[int]:
        """Neighbours of one variable, in the order of their choice."""
        return [int(k) for k in self.chosen[variable] if k >= 0]

    @property
    def residuals(self) -> csr_array:
        """``I - B``: what to multiply all variables with to get what is left of each."""
        p, there = len(self.chosen), self.chosen >= 0
        line = np.broadcast_to(np.arange(p)[:, None], there.shape)[there]
        values = np.concatenate([np.ones(p), -self.coefficients[there]])
        at = np.concatenate([np.arange(p), line]), np.concatenate([np.arange(p), self.chosen[there]])
        return csr_array((values, at), shape=(p, p))


class Suspect(NamedTuple):
    """A pair that looks changed: the effect if the set is right, the other one, how much so, and given what."""

    effect: int
    cause: int
    rank: float
    given: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Explored:
    """Neighbourhoods of all variables, the best first, and what looks changed: pairs, the clearest first."""

    around: tuple[Neighbourhoods, ...]
    suspects: tuple[Suspect, ...]
    moved: tuple[int, ...]  # variables whose noise variance or mean looks changed, the clearest first

    def near(self, variable: int) -> list[int]:
        """All neighbours of one variable, in turns from each neighbourhood."""
        turns = zip(*(own.chosen[variable].tolist() for own in self.around), strict=True)
        return [k for k in dict.fromkeys(k for turn in turns for k in turn) if k >= 0]


@dataclass
class _Remembered:
    """The pairs of the highest rank met so far; `bound` rises as they become too many."""

    bound: float
    effects: IntArray = field(default_factory=lambda: np.zeros(0, np.intp))
    causes: IntArray = field(default_factory=lambda: np.zeros(0, np.intp))
    ranks: FloatArray = field(default_factory=lambda: np.zeros(0))
    looks: IntArray = field(default_factory=lambda: np.zeros(0, np.intp))

    def add(self, effects: IntArray, causes: IntArray, ranks: FloatArray, look: int) -> None:
        """Remember those above the bound."""
        high = ranks > self.bound
        self.effects = np.concatenate([self.effects, effects[high]])
        self.causes = np.concatenate([self.causes, causes[high]])
        self.ranks = np.concatenate([self.ranks, ranks[high]])
        self.looks = np.concatenate([self.looks, np.full(int(high.sum()), look)])
        if len(self.ranks) > 2 * REMEMBERED:
            keep = np.argsort(-self.ranks, kind="stable")[:REMEMBERED]
            self.effects, self.causes, self.looks = self.effects[keep], self.causes[keep], self.looks[keep]
            self.ranks = self.ranks[keep]
            self.bound = float(self.ranks[-1])

    def suspects(self, seen: Sequence[Neighbourhoods]) -> Iterator[Suspect]:
        """Every pair once, where it ranks highest."""
        met: set[tuple[int, int]] = set()
        for k in np.argsort(-self.ranks, kind="stable")[:REMEMBERED].tolist():
            i, j = int(self.effects[k]), int(self.causes[k])
            if (min(i, j), max(i, j)) not in met:
                met.add((min(i, j), max(i, j)))
                given = tuple(m for m in seen[self.looks[k]].of(i) if m != j)
                yield Suspect(i, j, float(self.ranks[k]), given)


@dataclass(frozen=True, eq=False)
class _Explorer:
    problem: SparseProblem
    n1: int
    n2: int
    variances: FloatArray  # of all variables, in both conditions together
    difference: FloatArray  # of their means
    moves: (
        FloatArray  # of noise variances or means, over standard errors: the most that is seen given neighbours
    )

    @property
    def rows(self) -> int:
        return self.n1 + self.n2

    @property
    def penalty(self) -> float:
        """What a neighbour has to gain: ``log p + 1/2 log N`` (extended BIC)."""
        return math.log(self.problem.p) + math.log(self.rows) / 2

    @property
    def pays(self) -> float:
        """The share of what is left that it has to explain for that."""
        return -math.expm1(-2 * self.penalty / self.rows)

    def look(
        self, around: Neighbourhoods, remembered: _Remembered, number: int, those: IntArray, *, last: bool
    ) -> IntArray:
        """Compare what is left of those variables with all; remember suspects.

        Returned are candidates for neighbours, those that would explain most first; none at the last look.
        """
        p, rows = self.problem.p, self.rows
        spread, left = np.sqrt(self.variances), np.sqrt(around.variances)
        error = math.sqrt(1 / self.n1 + 1 / self.n2)
        candidates = np.full((p, CANDIDATES), -1)
        residuals = around.residuals[those]
        means = np.abs(residuals @ self.difference) / (left[those] * error)
        for start, one, two in self.problem.products_with(residuals):
            part = slice(start, start + len(one))
            own = those[part]
            apart = one - two
            terms = residuals[part].tocoo()
            noise = np.bincount(terms.row, terms.data * apart[terms.row, terms.col], minlength=len(own))
            variances = np.abs(noise) / (around.variances[own] * error * math.sqrt(2))
            self.moves[own] = np.maximum(self.moves[own], np.maximum(means[part], variances))
            i, j, t = _above(apart, left[own] * error, spread, math.sqrt(remembered.bound / 2), own)
            np.multiply(one, self.n1 / rows, out=one)
            np.multiply(two, self.n2 / rows, out=two)
            shared = np.add(one, two, out=one)
            self._put_members(shared, around, own)
            q = np.abs(shared[i, j]) * math.sqrt(rows) / (left[own[i]] * spread[j])
            remembered.add(own[i], j, t**2 + np.minimum(q, t) ** 2, number)
            if last:
                continue
            chosen = around.chosen[own]
            at, which = np.nonzero(chosen >= 0)
            shared[at, chosen[at, which]] = 0.0
            i, j, size = _above(shared, left[own], spread, math.sqrt(self.pays), own)
            _put_largest(candidates, own[i], j, np.where(size**2 < NEARLY_ALL, size, 0.0))
        return candidates

    def _put_members(self, shared: FloatArray, around: Neighbourhoods, own: IntArray) -> None:
        """Members of a neighbourhood have the evidence of their coefficients, in place of none."""
        chosen = around.chosen[own]
        at, which = np.nonzero(chosen >= 0)
        members = chosen[at, which]
        size = np.sqrt(around.variances[own[at]] * self.variances[members] / self.rows)
        shared[at, members] = around.strengths[own[at], which] * size

    def choose(self, around: Neighbourhoods, candidates: IntArray, without: IntArray) -> Neighbourhoods:
        """Add the best candidates to neighbourhoods, one after the other, while that pays; some are barred."""
        parts = [
            self._choose_some(around, candidates, without, np.arange(start, min(start + PART, self.problem.p)))
            for start in range(0, self.problem.p, PART)
        ]
        return Neighbourhoods(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _choose_some(
        self, around: Neighbourhoods, candidates: IntArray, without: IntArray, own: IntArray
    ) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
        pool = np.concatenate([around.chosen[own], candidates[own], own[:, None]], axis=1)
        barred = (pool < 0) | (pool[:, :, None] == without[own][:, None, :]).any(axis=2)
        barred[:, :MOST] |= around.chosen[own] < 0
        barred[:, -1] = True
        grams = self.problem.pooled_grams(np.maximum(pool, 0), self.n1 / self.rows, self.n2 / self.rows)
        swept = grams.copy()
        line, picked = np.arange(len(own)), np.full((len(own), MOST), -1)
        spread = np.diagonal(grams, axis1=1, axis2=2)
        count = np.zeros(len(own), int)
        for step in range(MOST):
            # Members first, in the order of their choice; then whoever explains most.
            given = (around.chosen[own, step] >= 0) & ~barred[line, step]
            free = np.diagonal(swept, axis1=1, axis2=2)
            inner = swept[:, :, -1]
            share = np.where(
                ~barred & (free > (1 - NEARLY_ALL) * spread),
                inner**2 / np.maximum(free * free[:, -1:], 1e-300),
                0.0,
            )
            share[share >= NEARLY_ALL] = 0.0
            best = np.where(given, step, share.argmax(axis=1))
            pays = given | (share[line, best] > self.pays)
            if not pays.any():
                break
            at, k = line[pays], best[pays]
            picked[at, count[at]] = k
            count[at] += 1
            barred[at, k] = True
            column = swept[at, :, k]
            swept[at] -= (
                column[:, :, None]
                * column[:, None, :]
                / np.maximum(column[np.arange(len(at)), k], 1e-12)[:, None, None]
            )
        return self._regress(pool, grams, picked, own)

    def _regress(
        self, pool: IntArray, grams: FloatArray, picked: IntArray, own: IntArray
    ) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
        """Members, their coefficients and strengths, and what they leave."""
        line, there = np.arange(len(own))[:, None], picked >= 0
        at = np.maximum(picked, 0)
        inside = grams[line[:, :, None], at[:, :, None], at[:, None, :]]
        inside = np.where(there[:, :, None] & there[:, None, :], inside, np.eye(MOST))
        right = np.where(there, grams[line, at, -1], 0.0)
        inverse = np.linalg.inv(inside)
        coefficients = np.einsum("rkl,rl->rk", inverse, right)
        whole = grams[:, -1, -1]
        left = np.maximum(whole - (coefficients * right).sum(axis=1), (1 - NEARLY_ALL) ** 2 * whole)
        errors = np.sqrt(left[:, None] * np.diagonal(inverse, axis1=1, axis2=2) / self.rows)
        chosen = np.where(there, pool[line, at], -1)
        return chosen, coefficients, np.where(there, coefficients / errors, 0.0), left


def _above(
    block: FloatArray, left: FloatArray, spread: FloatArray, bound: float, own: IntArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Rows, columns and sizes of entries above a bound, in units of row and column.

    Those of a variable with itself are left out.
    """
    least = (left * (bound * float(spread.min()))).astype(block.dtype)
    i, j = np.divmod(np.flatnonzero(np.abs(block) > least[:, None]), block.shape[1])
    size = np.abs(block[i, j]) / (left[i] * spread[j])
    there = (size > bound) & (own[i] != j)
    return i[there], j[there], size[there]


def _put_largest(candidates: IntArray, rows: IntArray, columns: IntArray, sizes: FloatArray) -> None:
    """Fill in, for each row, the columns of the largest sizes above 0."""
    order = np.lexsort((-sizes, rows))
    order = order[sizes[order] > 0]
    rows, columns = rows[order], columns[order]
    first = np.searchsorted(rows, rows)  # where each row begins
    place = np.arange(len(rows)) - first
    few = place < candidates.shape[1]
    candidates[rows[few], place[few]] = columns[few]


def explore(
    problem: SparseProblem,
    n1: int,
    n2: int,
    progress: ProgressCallback,
    difference: FloatArray | None = None,
) -> Explored:
    """Neighbourhoods of all variables, and what looks changed given them.

    `difference` is the first mean minus the second, on the scale of the problem; without it means say nothing.
    """
    p, every = problem.p, np.arange(problem.p)
    one, two = problem.at((every, every))
    explorer = _Explorer(
        problem,
        n1,
        n2,
        (n1 * one + n2 * two) / (n1 + n2),
        np.zeros(p) if difference is None else difference,
        np.zeros(p),
    )
    remembered = _Remembered(max(1.0, 2 * math.log(p * p / BY_CHANCE)))
    looks = 1 + 2 * NEIGHBOURHOODS
    seen: list[Neighbourhoods] = []

    def look(around: Neighbourhoods, those: IntArray, *, last: bool = False) -> IntArray:
        progress(len(seen), looks, "Looking for neighbours")
        seen.append(around)
        return explorer.look(around, remembered, len(seen) - 1, those, last=last)

    alone = Neighbourhoods.none(explorer.variances)
    nearest = look(alone, every)
    around: list[Neighbourhoods] = []
    for _ in range(NEIGHBOURHOODS):
        # Neighbours that are not there bar nobody.
        without = np.stack(
            [np.full(p, -2), *(np.where(own.chosen[:, 0] < 0, -2, own.chosen[:, 0]) for own in around)], axis=1
        )
        first = explorer.choose(alone, nearest, without)
        some = np.flatnonzero(first.chosen[:, 0] >= 0)
        if not around:  # given nothing, all that a change reaches looks changed
            explorer.moves[some] = 0.0
        more = look(first, some)
        around.append(explorer.choose(first, more, without))
        look(around[-1], np.flatnonzero((around[-1].chosen != first.chosen).any(axis=1)), last=True)
    bound = -ndtri(CHANCE_ALONE / p / 2)
    moved = [k for k in np.argsort(-explorer.moves, kind="stable").tolist() if explorer.moves[k] > bound]
    return Explored(tuple(around), tuple(remembered.suspects(seen)), tuple(moved))
