"""How a result is judged: by its extended BIC, or by how far fits to halves of the rows agree.

A result is an order of variables and, for each variable, the causes whose effect changed. With every variable
regressed on all that precede it, in both conditions at once, minus the log-likelihood without any change is the
same for all orders. So results are compared by what their changes alter,

    criterion = sum over variables of [ -loglik with its changes + loglik without ] * free rows / rows
                + (1/2 log N + 2 gamma log p) * changed effects and gains
                + (1/2 log N + gamma log p) * changed noise

with N rows, and p variables, in all: 0 is the result that nothing changed, less is better. A noise variance
counts as changed where that pays, and with a gain. Intercepts are free. Variables outside the order would come
last and change nothing.

Stability needs no likelihood. With xi the share of halves in which a pair of variables changed,

    instability = sum over pairs of xi (1 - xi) / max(1, sum over pairs of xi)

is the share of the changes found in one half that another does not find. Liu, Roeder and Wasserman divide by
the number of pairs and ask for 0.05; most pairs never change here, so that any setting would do.

References
----------
Chen and Chen (2008), Extended Bayesian information criteria for model selection with large model spaces.
Foygel and Drton (2010), Extended Bayesian information criteria for Gaussian graphical models: the same weights.
Liu, Roeder and Wasserman (2010), Stability approach to regularization selection (StARS) for high dimensional
graphical models.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from diffdag.model.regression import minus_loglik, regress_jointly
from diffdag.results.records import Edge
from diffdag.tables.moments import Moments
from diffdag.trust.resampling import Resamples

if TYPE_CHECKING:
    from diffdag.trust.fits import Fit

# More than the usual 1: a search over orders looks at many more regressions than there are pairs of variables.
GAMMA = 1.5
# Settings up to this instability count as stable.
STABLE = 0.05
# Two variances are fitted only where they gain this share of their penalty with the coefficients for one.
SUSPECT = 0.25


def extended_bic(fit: Fit, *, gamma: float = GAMMA) -> float:
    """Extended BIC of a fit relative to no change at all; infinite with too few rows for the regressions.

    >>> import diffdag as dd
    >>> from diffdag.pipeline import ModelOptions, prepare_moments, search
    >>> pair = dd.simulate_pair(p=5, neighbours=2, changes=1, weights=(0.8, 1.0), rng=3)
    >>> one, two = (dd.Moments.from_array(sem.sample(1000, rng=1)) for sem in (pair.first, pair.second))
    >>> options = ModelOptions()
    >>> extended_bic(search(prepare_moments(one, two, options), options)) < 0
    True
    """
    result = fit.difference
    layered = tuple(name for layer in result.order for name in layer)
    return order_criterion(
        fit.first,
        fit.second,
        fit.search_order or layered,
        result.edge_list,
        gains=[change.variable for change in result.gain_list],
        free=() if fit.search_order else result.unresolved,
        total=len(fit.names),
        equal_noise=fit.equal_noise,
        gamma=gamma,
    )


def order_criterion(
    first: Moments,
    second: Moments,
    order: Sequence[str],
    edges: Sequence[Edge],
    *,
    gains: Sequence[str] = (),
    free: Sequence[str] = (),
    total: int | None = None,
    equal_noise: bool = False,
    gamma: float = GAMMA,
) -> float:
    """Extended BIC of changed edges along an order, relative to no change at all; 0 for `gamma` is the BIC.

    `gains` are variables all effects on which are multiplied by a factor, which is one change.
    An undirected edge takes the direction that fits better. Variables in `free` come before all others; their
    order among themselves is open, and they go where they fit best. `total` counts those without moments too.
    """
    changed: dict[str, set[str]] = {name: set() for name in first.names}
    for edge in edges:
        if edge.gain_of is None and edge.target not in (gains if not edge.directed else ()):
            changed[edge.target].add(edge.source)
        if not edge.directed and edge.source not in gains:
            changed[edge.source].add(edge.target)
    rows, p = first.n + second.n, total or len(first.names)
    penalties = math.log(rows) / 2 + 2 * gamma * math.log(p), math.log(rows) / 2 + gamma * math.log(p)
    judge = _Judge(first, second, changed, frozenset(gains), penalties[0], penalties[1], equal_noise)
    left = list(free)
    cost = sum(judge.cost(name, [*free, *order[:t]]) for t, name in enumerate(order))
    while left:  # those whose order is free go where they cost least, the last one first
        costs = [judge.cost(name, [*left[:k], *left[k + 1 :]]) for k, name in enumerate(left)]
        cost += min(costs)
        del left[int(np.argmin(costs))]
    return cost


@dataclass(frozen=True, eq=False)
class _Judge:
    first: Moments
    second: Moments
    changed: dict[str, set[str]]  # causes, and ends of undirected edges, of each variable
    gains: frozenset[str]
    penalty: float
    noise_penalty: float
    equal_noise: bool

    def cost(self, name: str, earlier: Sequence[str]) -> float:
        """What the changes of one variable cost minus what they gain."""
        n, k = (self.first.n, self.second.n), len(earlier)
        share = (sum(n) - 3 - k) / sum(n)
        if min(n) <= k + 1 or share <= 0:
            return math.inf
        place = {other: j for j, other in enumerate(self.first.names)}
        about = self.first, self.second, place[name], [place[other] for other in earlier]
        changed = [place[other] for other in earlier if other in self.changed[name]]
        try:
            calm = regress_jointly(*about, (), False).squares
            if name in self.gains and k > 1:
                separate = not self.equal_noise
                own = minus_loglik(regress_jointly(*about, changed, separate, gain=True).squares, n, separate)
                penalty = self.penalty * (1 + len(changed)) + self.noise_penalty * separate
                return (own - minus_loglik(calm, n, False)) * share + penalty
            one = regress_jointly(*about, changed, False).squares if changed else calm
            base, fitted = minus_loglik(calm, n, False), minus_loglik(one, n, False)
            cost = (fitted - base) * share + self.penalty * len(changed)
            if self.equal_noise or (fitted - minus_loglik(one, n, True)) * share < SUSPECT * self.noise_penalty:
                return cost
            two = minus_loglik(regress_jointly(*about, changed, True).squares, n, True)
        except np.linalg.LinAlgError:
            return math.inf
        return min(cost, (two - base) * share + self.penalty * len(changed) + self.noise_penalty)


def instability(halves: Resamples) -> tuple[float, float]:
    """How far fits to halves of the rows disagree, and how many changes they found on average.

    >>> found = ((0, 1, True),), ((1, 0, True), (0, 2, True))
    >>> instability(Resamples(("a", "b", "c"), "half", (9, 9), found, failed={}))
    (0.16666666666666666, 1.5)
    """
    pairs = Counter(pair for edges in halves.found for pair in {(min(i, j), max(i, j)) for i, j, _ in edges})
    shares = np.array(sorted(pairs.values()), float) / halves.answers
    found = float(shares.sum())
    return float((shares * (1 - shares)).sum()) / max(1.0, found), found
