"""The condition as a variable: joint causal inference by PC, and CD-NOD with linear tests.

Mooij, Magliacane and Claassen (2020) pool the conditions, add the condition ``C`` as a variable that nothing
else causes, and run any algorithm: variables that stay adjacent to ``C`` are those whose mechanisms changed.
``jci-pc`` runs PC with Fisher's z on the pooled correlations, ``C`` being 0 or 1. So it sees means that moved;
a changed effect or noise variance leaves the correlation with ``C`` at zero.

CD-NOD (Huang et al. 2020) does the same with kernel tests, to which any change of a distribution shows.
``cd-nod`` has linear ones: ``X`` and ``C`` given ``S`` by the tests of `mechanism`, of coefficients, intercept
and residual variance; ``X`` and ``Y`` given ``S`` and ``C`` by the partial correlations within each condition,
``z1^2 + z2^2`` against chi-squared with two degrees of freedom. The authors' second step, which directs edges
between variables by how independently they change, is left out: here variables are asked for.

Sets have at most 3 variables, and variables are ranked by the least evidence that any set left.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import chdtrc, ndtri

from diffdag._base.arrays import FloatArray
from diffdag.reproduce.methods.gaussian import Gaussian, both_tables
from diffdag.reproduce.methods.mechanism import Invariance
from diffdag.reproduce.methods.method import NodeMethod, Ranking, same_variables
from diffdag.reproduce.methods.skeleton import skeleton
from diffdag.tables.moments import Moments

ALPHA = 0.01  # of all tests, as for `pc`


def jci_pc(first: Moments, second: Moments) -> Ranking:
    """Variables adjacent to the condition in the skeleton of PC on both tables together."""
    p = len(first.names)
    table = Gaussian(with_condition(first, same_variables(first, second)), "pooled")
    limit = float(-ndtri(ALPHA / 2))
    least = np.full(p, np.inf)

    def separates(x: int, y: int, given: int) -> bool:
        value = table.fisher_z(x, y, given)
        if y == p:
            least[x] = min(least[x], value)
        return value <= limit

    return _children(skeleton(p + 1, separates), least)


def cd_nod(first: Moments, second: Moments) -> Ranking:
    """Variables that no set of others makes the same in both conditions."""
    p = len(first.names)
    invariance, within = Invariance(first, second), both_tables(first, second)
    least = np.full(p, np.inf)

    def separates(x: int, y: int, given: int) -> bool:
        if y == p:
            test = invariance.test(x, given)
            least[x] = min(least[x], test.evidence)
            return test.pvalue > ALPHA
        if given >> p & 1:
            given &= ~(1 << p)
        squares = math.fsum(table.fisher_z(x, y, given) ** 2 for table in within)
        return float(chdtrc(2, squares)) > ALPHA

    return _children(skeleton(p + 1, separates), least)


def with_condition(first: Moments, second: Moments) -> Moments:
    """Moments of both tables together and of the condition, 0 or 1, as the last variable."""
    both, p = first + second, len(first.names)
    weight = first.n * second.n / both.n
    scatter = np.zeros((p + 1, p + 1))
    scatter[:p, :p] = both.scatter
    scatter[:p, p] = scatter[p, :p] = weight * (second.mean - first.mean)
    scatter[p, p] = weight
    names = tuple(f"X{k}" for k in range(p))  # none of them the condition's
    return Moments((*names, "condition"), both.n, np.append(both.mean, second.n / both.n), scatter)


def _children(adjacent: list[int], least: FloatArray) -> Ranking:
    return Ranking(least, np.array([bool(own >> len(least) & 1) for own in adjacent[:-1]]))


NODE_METHODS = (
    NodeMethod("jci-pc", "PC with the condition as a variable, Mooij et al. 2020", jci_pc),
    NodeMethod("cd-nod", "the condition as a variable, linear tests, after Huang et al. 2020", cd_nod),
)
