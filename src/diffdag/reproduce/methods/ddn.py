"""Joint neighbourhoods: each variable on all others in both conditions at once, by a fused lasso.

Differential dependency networks (Zhang et al. 2009; ddn3 of Fu et al. 2024) regress each variable ``i``,

    minimise  sum_k (b_k' S_k b_k / 2 - s_k' b_k) + l1 (|b_1|_1 + |b_2|_1) + l2 |b_1 - b_2|_1

on standardised variables; a neighbour whose coefficient is not the same in both is an edge. Here the pair
has to differ in both of its regressions, which lets fewer through; the penalties are multiples of ``sqrt(log p
/ n)``, the best of a grid on tuning seeds (docs/neighbours.md).
What is estimated is the difference of two moral graphs: see
`diffdag.reproduce.methods.precision_based`.
"""

from __future__ import annotations

import math

import numpy as np

from diffdag._base.arrays import BoolArray
from diffdag.precision import _descent
from diffdag.precision.problem import standardise
from diffdag.reproduce.methods.method import Method, same_variables
from diffdag.tables.moments import Moments

SPARSITY, FUSION = 0.3, 0.8  # l1 and l2 as multiples of sqrt(log p / n)
TOLERANCE, SWEEPS = 1e-3, 2_000
SAME = 1e-6  # coefficients that differ by less are fused


def joint_neighbourhoods(first: Moments, second: Moments) -> BoolArray:
    """Pairs whose coefficients differ in both of their regressions."""
    second = same_variables(first, second, 5, "; joint neighbourhoods need 5 or more")
    p = len(first.names)
    rate = math.sqrt(math.log(max(p, 2)) / min(first.n, second.n))
    problem = standardise(first, second)
    sigmas = np.array([problem.sigma1, problem.sigma2])
    graph = np.zeros((p, p), bool)
    for target in range(p):
        others = np.delete(np.arange(p), target)
        grams = np.ascontiguousarray(sigmas[:, others[:, None], others])
        cross = np.ascontiguousarray(sigmas[:, others, target])
        slopes = np.zeros_like(cross)
        _descent.fused_lasso(grams, cross, SPARSITY * rate, FUSION * rate, TOLERANCE * rate, SWEEPS, slopes)
        graph[target, others] = np.abs(slopes[0] - slopes[1]) > SAME
    return np.logical_and(graph, graph.T)


ABOUT = "undirected: joint neighbourhoods by a fused lasso, as ddn3 of Fu et al. 2024"
METHODS = (Method("ddn", ABOUT, joint_neighbourhoods, directs=False, most=300),)
