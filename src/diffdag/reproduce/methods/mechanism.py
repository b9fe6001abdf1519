"""Has a variable the same regression on given parents in both conditions? And the ceiling: the true parents.

Two exact tests, for Gaussian noise. Coefficients and intercept together: with ``k`` of them in each condition
and residual sums of squares of the conditions, RSS1 and RSS2, and of both together, RSS,

    F = (RSS - RSS1 - RSS2) / k  /  ((RSS1 + RSS2) / (n1 + n2 - 2 k))         (Chow 1960),

which follows an F distribution with ``k`` and ``n1 + n2 - 2 k`` degrees of freedom; and the ratio of the two
residual variances (Fisher). If nothing changed the ratio is independent of the sum of RSS1 and RSS2 (Lukacs
1955), and so of F: the smaller of the two p-values, p, makes the p-value ``1 - (1 - p)^2`` of both (Tippett
1931).

`oracle` takes the parents from the true graph, as the mechanism change test of DoWhy takes them from a graph
that it is given, and names variables at a false-discovery rate of 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError
from scipy.special import fdtrc

from diffdag._base.errors import InputError
from diffdag._base.words import plural
from diffdag.model.regression import equal_variances
from diffdag.reproduce.methods.gaussian import REMEMBERED, members
from diffdag.reproduce.methods.method import NodeMethod, Ranking, same_variables
from diffdag.reproduce.methods.moved import discoveries
from diffdag.tables.moments import Moments


class Tested(NamedTuple):
    """A test of the same regression in both conditions."""

    pvalue: float
    evidence: (
        float  # minus its logarithm; half of the likelihood ratio's where the p-value is below all numbers
    )


class Invariance:
    """Two conditions, asked whether a variable has the same regression on a set of others in both.

    Sets are integers with one bit per variable; what is known is kept.
    """

    def __init__(self, first: Moments, second: Moments) -> None:
        second = same_variables(first, second)
        self.names = first.names
        self.tables = (first, second, first + second)
        scale = np.sqrt(np.diag(self.tables[2].scatter))
        self._scatters = [moments.scatter / scale[:, None] / scale for moments in self.tables]
        self.test = lru_cache(REMEMBERED)(self._test)

    def residual_squares(self, target: int, parents: int) -> tuple[float, ...]:
        """Residual sums of squares in the first, the second and both conditions, of a scale of the variable's.

        Both have one intercept and one set of coefficients.
        """
        index = list(members(parents))
        block = np.ix_(index, index)
        try:
            explained = [
                float(own[index, target] @ np.linalg.solve(own[block], own[index, target]))
                for own in self._scatters
            ]
        except LinAlgError:
            raise InputError("some columns are linearly dependent, so there are no regressions") from None
        tiny = np.finfo(float).tiny
        return tuple(
            max(float(own[target, target]) - part, tiny)
            for own, part in zip(self._scatters, explained, strict=True)
        )

    def _test(self, target: int, parents: int) -> Tested:
        k = parents.bit_count() + 1
        counts = [moments.n for moments in self.tables]
        if min(counts) <= k:
            name = self.names[target]
            raise InputError(
                f"'{name}' cannot be regressed on {k - 1} variables in {plural(min(counts), 'row')}"
            )
        one, two, both = self.residual_squares(target, parents)
        chow = max(both - one - two, 0.0) / k / ((one + two) / (counts[2] - 2 * k))
        coefficients = float(fdtrc(k, counts[2] - 2 * k, chow))
        free = counts[0] - k, counts[1] - k
        variances = float(equal_variances(one / free[0] / (two / free[1]), *free))
        least = min(coefficients, variances)
        pvalue = least * (2 - least)
        if pvalue > 0:
            return Tested(pvalue, -math.log(pvalue))
        squares = zip(counts, (one, two, both), (-1, -1, 1), strict=True)
        return Tested(0.0, sum(sign * n / 2 * math.log(rest / n) for n, rest, sign in squares))


def oracle(first: Moments, second: Moments, parents: Sequence[int]) -> Ranking:
    """Test each variable's regression on its parents in the true graph, which are those of either condition."""
    known = Invariance(first, second)
    tests = [known.test(target, above) for target, above in enumerate(parents)]
    scores = np.array([test.evidence for test in tests])
    return Ranking(scores, discoveries(np.array([test.pvalue for test in tests])))


ABOUT = "regression test of each mechanism given the true graph, the ceiling"
NODE_METHODS = (NodeMethod("oracle", ABOUT, oracle, knows_graph=True),)
