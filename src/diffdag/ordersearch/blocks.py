"""Orders searched block by block, where variables are too many for one search.

Screening makes blocks of variables that hang together (see `screen`). In each of them orders are searched as
elsewhere, with a low penalty of changed effects. What is found is then judged by regressions on few variables:
of all that precede an effect, many have nothing to do with it, and a search finds those that make chance look
like a change. So each effect is regressed on its causes that changed and, among what precedes it, on what
explains it in both conditions together, chosen one after the other while that pays. There, the evidence for a
change of the effect of j on i is

    g / f + min(q / f, g / f, most_of_effect),

where g is minus the log-likelihood that the change gains, q what the effect gains that is the same in both
conditions, each taken from the p-value of Student's t, and f what penalties are multiplied by. Of all changes
in all blocks, sorted by evidence, the first K are claimed: K is the largest number for which the K-th has
evidence of at least `wide_penalty` - log K. Where nothing changed this is Bonferroni's bound for the clearest;
where much did, a false one has to be among many true ones (Benjamini and Hochberg 1995).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import chdtri, stdtr

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag._base.progress import show_progress
from diffdag.model.regression import regress_jointly
from diffdag.ordersearch.penalty import most_of_effect, wide_penalty
from diffdag.ordersearch.search import (
    GRAIN,
    SWEEPS,
    Edge,
    Found,
    Optimum,
    margins_near,
    read_order,
    respect_known,
    search_orders,
    walk_from,
    weigh_changes,
)
from diffdag.tables.moments import Moments

if TYPE_CHECKING:
    from diffdag.ordersearch.fit import OrderSettings

SEARCHED = 0.7  # the penalty in a search, as a share of what evidence of a change has to be beside an effect
MOST_EVIDENCE = 700.0  # of what a p-value can tell


@dataclass(frozen=True, eq=False)
class Judged:
    """A change that a search in a block found, by column: of an effect, or of the gain of a variable."""

    effect: int
    cause: int  # itself, of a gain
    evidence: float


@dataclass(frozen=True, eq=False)
class BlockFit:
    """What was found in one block: columns, the outcome of the search, and its changes with their evidence.

    `regressors` are those of every column, in the order found.
    """

    columns: tuple[int, ...]
    optimum: Optimum
    judged: tuple[Judged, ...]
    regressors: dict[int, tuple[int, ...]]

    @property
    def moved(self) -> list[int]:
        """Columns whose noise variance or intercept the search let differ."""
        best = self.optimum.best
        return [self.columns[k] for k in np.flatnonzero(best.separate | best.shifted).tolist()]


def search_penalty(total: int) -> float:
    """The penalty of changed effects in a block."""
    return SEARCHED * (wide_penalty(total) - most_of_effect(total))


def search_blocks(
    first: Moments,
    second: Moments,
    before: BoolArray,
    settings: OrderSettings,
    blocks: Sequence[Sequence[int]],
    total: int,
) -> list[BlockFit]:
    """Search every block; columns are those of the moments."""
    fits = []
    with show_progress(settings.progress, "blocks searched", len(blocks)) as advance:
        for block, rng in zip(blocks, settings.rng.spawn(len(blocks)), strict=True):
            fits.append(_search_block(first, second, before, replace(settings, rng=rng), sorted(block), total))
            advance()
    return fits


def _search_block(
    first: Moments,
    second: Moments,
    before: BoolArray,
    settings: OrderSettings,
    block: Sequence[int],
    total: int,
) -> BlockFit:
    own, other = (moments.select([moments.names[k] for k in block]) for moments in (first, second))
    known = np.ascontiguousarray(before[np.ix_(block, block)])
    problem = settings.problem(own, other, known, total, change=search_penalty(total))
    optimum = search_orders(problem, settings.rng, settings.jobs)
    return _judged(own, other, settings, block, optimum, total)


def search_together(
    first: Moments,
    second: Moments,
    before: BoolArray,
    settings: OrderSettings,
    fits: Sequence[BlockFit],
    total: int,
) -> BlockFit:
    """Search once more, all variables together, from the orders of the blocks one after the other.

    What hangs together in several blocks comes together here. The penalty is higher, and the walk ends at the
    first optimum: with nearly as many variables as rows, a longer search fits the order to chance.
    """
    along = respect_known([fit.columns[k] for fit in fits for k in fit.optimum.best.order], before)
    known = np.ascontiguousarray(before)
    strict, problem = (
        settings.problem(first, second, known, total, change=change)
        for change in (wide_penalty(total), search_penalty(total))
    )
    walked = walk_from(strict, along, sweeps=SWEEPS, careful=SWEEPS, thorough=False, grain=GRAIN)
    best = read_order(problem, walked.order)
    margins, rises = margins_near(problem, best), weigh_changes(problem, best)
    optimum = Optimum(problem, best, len(fits), len(fits), margins, rises)
    return _judged(first, second, settings, range(total), optimum, total)


def _judged(
    first: Moments,
    second: Moments,
    settings: OrderSettings,
    block: Sequence[int],
    optimum: Optimum,
    total: int,
) -> BlockFit:
    """What a search found among some columns, with evidence."""
    judge = _Judge(first, second, settings.factor * settings.inflation.change, most_of_effect(total))
    best = optimum.best
    regressors = {i: judge.regressors(best, i, [j for k, j in optimum.margins if k == i]) for i in best.order}
    changes = dict.fromkeys((i, j if best.changed[i, j] else i) for i, j in optimum.margins)  # a gain once
    judged = [Judged(block[i], block[j], judge.evidence(best, (i, j), regressors[i])) for i, j in changes]
    by_column = {block[i]: tuple(block[k] for k in own) for i, own in regressors.items()}
    return BlockFit(tuple(block), optimum, tuple(judged), by_column)


def claimed(judged: Sequence[Judged], total: int) -> list[Judged]:
    """Those with evidence enough, the clearest first."""
    ranked = sorted(judged, key=lambda own: -own.evidence)
    bound = wide_penalty(total)
    passing = [k for k, own in enumerate(ranked, 1) if own.evidence >= bound - math.log(k)]
    return ranked[: passing[-1] if passing else 0]


@dataclass(frozen=True, eq=False)
class _Judge:
    """Evidence of changes from moments."""

    first: Moments
    second: Moments
    multiple: float  # of penalties
    most: float  # that an effect counts for its change

    def regressors(self, found: Found, i: int, causes: Sequence[int]) -> tuple[int, ...]:
        """Changed causes of a variable, and what explains it besides, in the order found."""
        earlier = found.before(i)
        chosen = {*self.relevant(i, earlier, causes), *causes}
        return tuple(k for k in earlier if k in chosen)

    def evidence(self, found: Found, change: Edge, regressors: Sequence[int]) -> float:
        """Of a changed effect, or of the gain of a variable, whose effects are there."""
        i, j = change
        own = [k for k in regressors if found.changed[i, k]]
        separate, gain = bool(found.separate[i]), bool(found.gains[i])
        fit = regress_jointly(self.first, self.second, i, regressors, own, separate, gain)
        if i == j:
            alone = gained(fit.gain_pvalue) / self.multiple
            return alone + min(alone, self.most)
        alone = gained(fit.delta_pvalue(regressors.index(j))) / self.multiple
        return alone + min(alone, self.most, self.effect(i, j, regressors) / self.multiple)

    def effect(self, i: int, j: int, regressors: Sequence[int]) -> float:
        """What the effect of j gains in both conditions together."""
        inside, right, whole = self._pooled(i, regressors)
        inverse = cho_solve(cho_factor(inside), np.eye(len(regressors)))
        beta, k = inverse @ right, list(regressors).index(j)
        free = self.rows - 2 - len(regressors)
        left = max(whole - float(beta @ right), 1e-12 * whole) / free
        return gained(2 * float(stdtr(free, -abs(beta[k]) / math.sqrt(left * inverse[k, k]))))

    def relevant(self, i: int, earlier: Sequence[int], causes: Sequence[int]) -> list[int]:
        """What explains i in both conditions together, besides its changed causes, one after the other."""
        others = [k for k in earlier if k not in causes]
        if not others:
            return []
        inside, right, whole = self._pooled(i, [*causes, *others])
        rows, penalty = self.rows, math.log(max(len(others), 2)) + math.log(self.rows) / 2
        swept = np.block([[inside, right[:, None]], [right, np.array([[whole]])]])
        spread = np.diag(swept).copy()
        chosen: list[int] = []
        for k in range(len(causes)):
            _sweep(swept, k)
        while len(chosen) < len(others):
            free = np.diag(swept)[len(causes) : -1]
            share = swept[len(causes) : -1, -1] ** 2 / np.maximum(free * swept[-1, -1], 1e-300)
            share[free < 1e-6 * spread[len(causes) : -1]] = 0.0
            share[chosen] = 0.0
            best = int(share.argmax())
            if -rows / 2 * math.log1p(-min(float(share[best]), 1 - 1e-12)) <= penalty:
                break
            chosen.append(best)
            _sweep(swept, len(causes) + best)
        return [others[k] for k in chosen]

    @property
    def rows(self) -> float:
        return self.first.n + self.second.n

    def _pooled(self, i: int, columns: Sequence[int]) -> tuple[FloatArray, FloatArray, float]:
        """Scatter of some columns in both conditions, with that of a variable, and its own."""
        scatter = self.first.scatter + self.second.scatter
        at = list(columns)
        return scatter[np.ix_(at, at)], scatter[at, i], float(scatter[i, i])


def _sweep(matrix: FloatArray, k: int) -> None:
    """Take out what a variable explains of all."""
    column = matrix[:, k].copy()
    if column[k] > 0:
        matrix -= np.outer(column, column) / column[k]


def gained(pvalue: float) -> float:
    """The gain in minus the log-likelihood at which a likelihood ratio has this p-value."""
    if not pvalue < 1:
        return 0.0
    return min(float(chdtri(1, pvalue)) / 2, MOST_EVIDENCE) if pvalue > 0 else MOST_EVIDENCE


@dataclass(frozen=True, eq=False)
class Merged:
    """Blocks put together: which columns are kept, the order of these and its changes, and regressors of each.

    All other numbers are places among the columns kept.
    """

    kept: list[int]
    found: Found
    margins: dict[Edge, float]
    rises: dict[Edge, float]
    regressors: tuple[tuple[int, ...], ...]
    blocks: tuple[tuple[int, ...], ...]


def merge(
    fits: Sequence[BlockFit],
    blocks: Sequence[Sequence[int]],
    total: int,
    before: BoolArray,
    most: int,
    *,
    fill: bool,
) -> Merged:
    """Keep at most so many columns: what takes part in changes and what explains it; more only to `fill`."""
    claims = claimed([own for fit in fits for own in fit.judged], total)
    regressors = {i: own for fit in fits for i, own in fit.regressors.items()}
    ends = dict.fromkeys(k for own in claims for k in (own.effect, own.cause))
    moved = dict.fromkeys(k for fit in fits for k in fit.moved)
    wanted = [
        *ends,
        *(m for k in ends for m in regressors[k]),
        *moved,
        *(m for k in moved for m in regressors[k]),
    ]
    others = [k for fit in fits for k in fit.columns]
    wanted = list(dict.fromkeys([*wanted, *(others if fill else ())]))
    kept = sorted(list(dict.fromkeys([*wanted, *others]))[:2] if len(wanted) < 2 else wanted[:most])
    place = {k: at for at, k in enumerate(kept)}
    known = before[np.ix_(kept, kept)]
    along = [place[fit.columns[k]] for fit in fits for k in fit.optimum.best.order if fit.columns[k] in place]
    listed = {(own.effect, own.cause) for own in claims}
    k = len(kept)
    found = Found(
        order=tuple(respect_known(along, known)),
        score=sum(fit.optimum.best.score - fit.optimum.problem.base for fit in fits),
        changed=np.zeros((k, k), bool),
        shifted=np.zeros(k, bool),
        separate=np.zeros(k, bool),
        costs=np.zeros(k),
    )
    margins: dict[Edge, float] = {}
    rises: dict[Edge, float] = {}
    for fit in fits:
        best = fit.optimum.best
        for a, i in enumerate(fit.columns):
            if i not in place:
                continue
            found.separate[place[i]], found.shifted[place[i]] = best.separate[a], best.shifted[a]
            found.changed[place[i], place[i]] = (i, i) in listed
            for b, j in enumerate(fit.columns):
                single = bool(best.changed[a, b])
                if j in place and (a, b) in fit.optimum.margins and (i, j if single else i) in listed:
                    edge = place[i], place[j]
                    found.changed[edge] = single
                    margins[edge] = fit.optimum.margins[a, b]
                    rises[edge] = fit.optimum.rise((a, b), directed=False)
    used = tuple(tuple(place[m] for m in regressors[k] if m in place) for k in kept)
    parts = (tuple(sorted(place[k] for k in block if k in place)) for block in blocks)
    return Merged(kept, found, margins, rises, used, tuple(filter(None, parts)))
