"""The shared neighbourhood of each variable: a few others that explain most of it in both conditions together.

Orthogonal matching pursuit on the pooled covariance, for all variables side by side: each step adds, to each
variable, the other one that is most correlated with what is still unexplained, as long as that pays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array

from diffdag._base.arrays import FloatArray, IntArray
from diffdag._base.progress import ProgressCallback
from diffdag.precision.problem import Blocks, SparseProblem
from diffdag.precision.scan import peaks

# No more neighbours than this; one has to explain this share of what is left, or less, so that none is a copy.
MOST, NEARLY_ALL = 8, 0.999


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """For each variable its neighbours (-1 where there are fewer), their coefficients, and what they leave."""

    chosen: IntArray
    coefficients: FloatArray
    variances: FloatArray
    copies: dict[int, list[int]] = field(default_factory=dict)  # other variables that are the same

    def of(self, variable: int) -> list[int]:
        """Neighbours of one variable, the closest first."""
        return [int(k) for k in self.chosen[variable] if k >= 0]

    def residuals(self, rows: IntArray) -> csr_array:
        """``I - B`` for some variables: what to multiply all variables with to get what is left of these."""
        chosen, coefficients = self.chosen[rows], self.coefficients[rows]
        there = chosen >= 0
        line = np.broadcast_to(np.arange(len(rows))[:, None], chosen.shape)[there]
        values = np.concatenate([np.ones(len(rows)), -coefficients[there]])
        at = np.concatenate([np.arange(len(rows)), line]), np.concatenate([rows, chosen[there]])
        return csr_array((values, at), shape=(len(rows), len(self.chosen)))


def find_neighbourhoods(problem: SparseProblem, n1: int, n2: int, progress: ProgressCallback) -> Neighbourhoods:
    """Neighbourhoods of all variables; a neighbour has to gain ``log p + 1/2 log N`` (extended BIC)."""
    p, rows = problem.p, n1 + n2
    penalty = math.log(p) + math.log(rows) / 2
    weights = n1 / rows, n2 / rows
    everything = np.arange(p)
    variances = _pooled(problem, (everything, everything), weights)
    found = Neighbourhoods(np.full((p, MOST), -1), np.zeros((p, MOST)), variances.copy())
    grams = np.zeros((p, MOST, MOST))
    active = everything
    for step in range(MOST):
        progress(step, MOST, "Looking for neighbours")
        others, share = _closest(problem, found, active, variances, weights)
        pays = (-rows / 2 * np.log1p(-np.minimum(share, NEARLY_ALL)) > penalty) & (share < NEARLY_ALL)
        active, others = active[pays], others[pays]
        if len(active) == 0:
            break
        found.chosen[active, step] = others
        _fit(problem, found, grams, active, step, variances, weights)
    return found


def _pooled(
    problem: SparseProblem, entries: tuple[IntArray, IntArray], weights: tuple[float, float]
) -> FloatArray:
    one, two = problem.at(entries)
    return weights[0] * one + weights[1] * two


def _closest(
    problem: SparseProblem,
    found: Neighbourhoods,
    active: IntArray,
    variances: FloatArray,
    weights: tuple[float, float],
) -> tuple[IntArray, FloatArray]:
    """For each of some variables, the other one that explains the largest share of what is left; and that.

    Itself, its neighbours and its copies, which would explain all, are left out.
    """

    def others() -> Blocks:
        for start, block in problem.mixture_blocks(found.residuals(active), *weights):
            own = active[start : start + len(block)]
            block[np.arange(len(block)), own] = 0.0
            chosen = found.chosen[own]
            at, which = np.nonzero(chosen >= 0)
            block[at, chosen[at, which]] = 0.0
            for line, k in enumerate(own.tolist()):
                if k in found.copies:
                    block[line, found.copies[k]] = 0.0
            share = np.square(block, out=block)
            share /= found.variances[own][:, None] * variances
            for line, copy in zip(*np.nonzero(share >= NEARLY_ALL), strict=True):
                share[line, copy] = 0.0
                found.copies.setdefault(int(own[line]), []).append(int(copy))
            yield start, share

    top = peaks(others(), len(active))
    return top.columns, top.values


def _fit(
    problem: SparseProblem,
    found: Neighbourhoods,
    grams: FloatArray,
    active: IntArray,
    step: int,
    variances: FloatArray,
    weights: tuple[float, float],
) -> None:
    """Regress some variables on their neighbours, of which the one of this step is new."""
    chosen = found.chosen[active, : step + 1]
    new = np.repeat(chosen[:, step], step + 1)
    grams[active, step, : step + 1] = _pooled(problem, (new, chosen.ravel()), weights).reshape(chosen.shape)
    grams[active, : step + 1, step] = grams[active, step, : step + 1]
    own = np.repeat(active, step + 1)
    right = _pooled(problem, (own, chosen.ravel()), weights).reshape(chosen.shape)
    coefficients = np.linalg.solve(grams[active, : step + 1, : step + 1], right[:, :, None])[:, :, 0]
    found.coefficients[active, : step + 1] = coefficients
    left = variances[active] - (coefficients * right).sum(axis=1)
    found.variances[active] = np.maximum(left, (1 - NEARLY_ALL) ** 2 * variances[active])
