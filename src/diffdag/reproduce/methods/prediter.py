"""PreDITEr: targets of an intervention from differences of precision matrices.

Varıcı, Shanmugam, Sattigeri and Tajer (NeurIPS 2021), *Scalable intervention target estimation in linear
models*. Where a variable's mechanism is the same in both conditions, some set of others leaves it the same
residual variance; that is, the diagonal entry of the precision difference over the set and itself is zero.

1. Candidates are the variables with an entry in the sparse precision difference of all variables (D-trace).
2. Those with the same marginal variance, ``J0``, are no targets.
3. The other candidates are put in groups by which of ``J0`` are their ancestors: those with which the pair's
   precision difference is not zero. Groups with fewer come first.
4. Within a group, with ``M`` the ancestors of the group and all members of groups whose ancestors are among
   them: a candidate is no target if its residual variance on ``M`` and a subset of its group is the same.

Where this differs from the authors' code (read, not taken over): step 1 is solved to its optimum on
standardised variables; in the steps 2 to 4, on few variables, tests take the place of penalties and
thresholds, all at one level; subsets of a group have at most 4 members. Means play no part.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from scipy.special import ndtri

from diffdag.precision.api import precision_difference
from diffdag.reproduce.methods.gaussian import as_mask
from diffdag.reproduce.methods.invariance import precision_pvalues
from diffdag.reproduce.methods.mechanism import Invariance
from diffdag.reproduce.methods.method import NodeMethod, Ranking, same_variables
from diffdag.tables.moments import Moments

PENALTY = "rate:0.5"
ALPHA = 0.001  # of every test
MOST = 4  # members of a group that are tried together


class Residuals:
    """How far the residual variances of a variable on a set differ between the conditions."""

    def __init__(self, first: Moments, second: Moments) -> None:
        self._known = Invariance(first, second)
        self._rows = first.n, second.n
        self.least = np.full(len(first.names), np.inf)  # the smallest difference that any set left
        self.limit = float(-ndtri(ALPHA / 2))

    def same(self, target: int, given: int) -> bool:
        """Whether they are the same: ``log(s1^2 / s2^2)`` in standard errors, normal for many rows."""
        one, two, _ = self._known.residual_squares(target, given)
        free = [n - 1 - given.bit_count() for n in self._rows]
        size = abs(math.log(one / free[0]) - math.log(two / free[1]))
        size /= math.sqrt(2 / free[0] + 2 / free[1])
        self.least[target] = min(self.least[target], size)
        return size <= self.limit


def prediter(first: Moments, second: Moments) -> Ranking:
    """The targets; all variables by the least difference of residual variances, 0 if they are no candidates."""
    p = len(first.names)
    second = same_variables(first, second, p + 2, f" for {p} variables, and PreDITEr regresses on most of them")
    found = precision_difference(first, second, method="dtrace", penalty=PENALTY).matrix != 0
    residuals, targets = Residuals(first, second), np.zeros(p, bool)
    candidates = [k for k in range(p) if found[k].any()]
    unmoved = [k for k in candidates if residuals.same(k, 0)]
    groups: dict[frozenset[int], list[int]] = {}
    for k in candidates:
        if k not in unmoved:
            above = frozenset(j for j in unmoved if _related(first, second, j, k))
            groups.setdefault(above, []).append(k)
    for above, group in groups.items():
        earlier = [k for other, own in groups.items() if other < above for k in own]
        known = as_mask([*above, *earlier])
        for size in range(1, min(len(group), MOST) + 1):
            for chosen in combinations(group, size):
                sets = known | as_mask(chosen)
                for k in chosen:
                    residuals.same(k, sets & ~(1 << k))
        targets[[k for k in group if residuals.least[k] > residuals.limit]] = True
    return Ranking(np.where(np.isfinite(residuals.least), residuals.least, 0.0), targets)


def _related(first: Moments, second: Moments, j: int, k: int) -> bool:
    """Whether the precision difference of the pair is not zero off the diagonal."""
    names = [first.names[j], first.names[k]]
    return bool(precision_pvalues(first.select(names), second.select(names))[0, 1] < ALPHA)


NODE_METHODS = (NodeMethod("prediter", "targets from precision differences, Varıcı et al. 2021", prediter),)
