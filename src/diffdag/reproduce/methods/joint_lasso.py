"""The joint graphical lasso with a fused penalty (Danaher, Wang and Witten 2014), and the separate one.

    minimise  sum_k w_k (tr(S_k T_k) - log det T_k) + l1 sum_k sum_(i != j) |T_k[i, j]| + l2 sum |T_1 - T_2|

over the precision matrices ``T_1, T_2`` of the standardised variables; ``w_k`` is in proportion to the number
of rows, with mean one, and ``l2 = 0`` gives two separate graphical lassos. It is solved by the alternating
directions method of multipliers, as in the paper, for all penalties of a grid at once. Entries that the
penalty fuses are exactly equal in the result.

The result is undirected, a difference of two moral graphs: see `diffdag.reproduce.methods.precision_based`.

The penalties are those with the smallest AIC, the paper's rule, on a grid of multiples of ``sqrt(log p /
n)``; an entry fused to one value counts once. The lasso leaves many tiny differences, so a difference is an
edge beyond the default threshold of Algorithm 1, in units of partial correlations. Both were chosen in
docs/dev/constants.md.
"""

from __future__ import annotations

import math
import warnings
from functools import partial
from typing import NamedTuple

import numpy as np

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag._base.errors import DiffDagWarning
from diffdag.paper.defaults import default_threshold
from diffdag.paper.differences import normalise
from diffdag.precision.problem import standardise
from diffdag.reproduce.methods.method import Method, same_variables
from diffdag.tables.moments import Moments

SPARSITY = (0.001, 0.01, 0.1, 1.0)  # l1 and l2 as multiples of sqrt(log p / n)
FUSION = (0.03, 0.1, 0.2, 0.4, 0.8)
ROBUST_SPARSITY = 0.1  # no smaller multiple with fewer than twice as many rows as variables
TOLERANCE, MAX_ITERATIONS = 1e-5, 3_000
RELAXATION = 1.6  # over-relaxation, and when to change the step (Boyd et al. 2011, 3.4.1 and 3.4.3)
FIRST_STEP, STEP_EVERY, STEP_RATIO, STEP_CHANGE = 1e-2, 10, 2.0, 5.0


class JointLasso(NamedTuple):
    """Solutions for each of g penalties."""

    precisions: FloatArray  # shape (g, 2, p, p)
    converged: BoolArray  # shape (g,)
    iterations: int


def fused_graphical_lasso(
    covariances: FloatArray,
    weights: FloatArray,
    sparsity: FloatArray,
    fusion: FloatArray,
    tolerance: float = TOLERANCE,
) -> JointLasso:
    """Solve the problem above for each of g pairs of penalties, ``l1`` (`sparsity`) and ``l2`` (`fusion`).

    The tolerance bounds the residuals relative to the size of the solution and of the multipliers.
    """
    g, p = len(sparsity), covariances.shape[-1]
    state = _State(covariances, weights[:, None], sparsity, fusion)
    solutions = np.empty((g, 2, p, p))
    converged = np.zeros(g, bool)
    active = np.arange(g)
    for iteration in range(1, MAX_ITERATIONS + 1):
        primal, dual = state.iterate()
        solutions[active] = state.split
        done = (primal < tolerance) & (dual < tolerance)
        converged[active] = done
        if done.all():
            break
        if done.any():
            active, primal, dual = active[~done], primal[~done], dual[~done]
            state.keep(~done)
        if iteration % STEP_EVERY == 0:
            state.change_step(primal, dual)
    return JointLasso(solutions, converged, iteration)


class _State:
    """The iterates of those penalties that have not converged yet; arrays begin with one axis for penalties."""

    def __init__(
        self, covariances: FloatArray, weights: FloatArray, sparsity: FloatArray, fusion: FloatArray
    ) -> None:
        g, p = len(sparsity), covariances.shape[-1]
        self.weights = weights
        self.pull = weights[..., None] * covariances
        self.sparsity, self.fusion = sparsity, fusion
        self.off = ~np.eye(p, dtype=bool)
        self.step = np.full(g, FIRST_STEP)
        pooled = covariances.mean(axis=0)
        start = np.linalg.inv(pooled + 1e-3 * np.trace(pooled) / p * np.eye(p))
        self.split = np.broadcast_to(start, (g, 2, p, p)).copy()
        self.multiplier = np.zeros_like(self.split)

    def iterate(self) -> tuple[FloatArray, FloatArray]:
        """One iteration; the relative primal and dual residuals after it."""
        step = self.step[:, None, None, None]
        values, vectors = np.linalg.eigh(step * (self.split - self.multiplier) - self.pull)
        roots = (values + np.sqrt(values**2 + 4 * self.weights * step[..., 0])) / (2 * step[..., 0])
        smooth = (vectors * roots[..., None, :]) @ vectors.swapaxes(-1, -2)
        relaxed = RELAXATION * smooth + (1 - RELAXATION) * self.split
        before, self.split = self.split, self._penalise(relaxed + self.multiplier)
        self.multiplier = self.multiplier + relaxed - self.split
        scale = np.maximum(_norm(self.split), 1e-300)
        force = np.maximum(_norm(self.multiplier), 1e-300)
        return _norm(smooth - self.split) / scale, _norm(self.split - before) / force

    def _penalise(self, target: FloatArray) -> FloatArray:
        """The closest matrices under both penalties: fuse, then shrink (Friedman et al. 2007)."""
        middle = target.mean(axis=1)
        half = _shrink((target[:, 0] - target[:, 1]) / 2, (self.fusion / self.step)[:, None, None])
        fused = np.stack([middle + half, middle - half], axis=1)
        return _shrink(fused, (self.sparsity / self.step)[:, None, None, None] * self.off)

    def keep(self, chosen: BoolArray) -> None:
        """Go on with some of the penalties."""
        self.sparsity, self.fusion, self.step = self.sparsity[chosen], self.fusion[chosen], self.step[chosen]
        self.split, self.multiplier = self.split[chosen], self.multiplier[chosen]

    def change_step(self, primal: FloatArray, dual: FloatArray) -> None:
        """Balance the two residuals."""
        ratio = np.sqrt(np.maximum(primal, 1e-300) / np.maximum(dual, 1e-300))
        factor = np.clip(ratio, 1 / STEP_CHANGE, STEP_CHANGE)
        factor[(ratio < STEP_RATIO) & (ratio > 1 / STEP_RATIO)] = 1.0
        self.step = self.step * factor
        self.multiplier = self.multiplier / factor[:, None, None, None]


def _norm(matrices: FloatArray) -> FloatArray:
    norm: FloatArray = np.sqrt(np.sum(matrices**2, axis=(1, 2, 3)))
    return norm


def _shrink(values: FloatArray, amount: FloatArray) -> FloatArray:
    return np.sign(values) * np.maximum(np.abs(values) - amount, 0.0)


def information(covariances: FloatArray, rows: FloatArray, precisions: FloatArray) -> FloatArray:
    """AIC of each solution (section 4 of the paper); an entry with one value in both matrices counts once."""
    fit = np.einsum("kij,gkij->gk", covariances, precisions) - np.linalg.slogdet(precisions)[1]
    i, j = np.triu_indices(covariances.shape[-1])
    first, second = precisions[:, 0, i, j], precisions[:, 1, i, j]
    free = (first != 0).sum(axis=1) + ((second != 0) & (first != second)).sum(axis=1)
    criterion: FloatArray = fit @ rows + 2 * free
    return criterion


def joint_lasso_graph(first: Moments, second: Moments, fusion: tuple[float, ...]) -> BoolArray:
    """Undirected edges where the two matrices of the solution with the smallest AIC differ.

    Without fusion these are two graphical lassos with one penalty.
    """
    second = same_variables(first, second)
    problem = standardise(first, second)
    covariances, rows = np.array([problem.sigma1, problem.sigma2]), np.array([first.n, second.n], float)
    p, n = len(first.names), min(first.n, second.n)
    rate = math.sqrt(math.log(p) / n)
    sparsity = [c * rate for c in SPARSITY if n > 2 * p or c >= ROBUST_SPARSITY]
    grid = np.array([(one, two * rate) for one in sparsity for two in fusion])
    found = fused_graphical_lasso(covariances, rows / rows.mean(), grid[:, 0], grid[:, 1])
    best = int(np.argmin(information(covariances, rows, found.precisions)))
    if not found.converged[best]:
        warnings.warn(
            f"the joint graphical lasso stopped after {found.iterations} iterations; its result is "
            "approximate; more rows or fewer variables would help",
            DiffDagWarning,
            stacklevel=2,
        )
    one, two = found.precisions[best]
    graph: BoolArray = np.abs(normalise(one - two, np.diag(one), np.diag(two))) > default_threshold(p, n)
    np.fill_diagonal(graph, False)
    return graph


FUSED = "undirected: joint graphical lasso with a fused penalty, of Danaher, Wang and Witten"
SEPARATE = "undirected: two graphical lassos, subtracted"
METHODS = (
    Method("fused-lasso", FUSED, partial(joint_lasso_graph, fusion=FUSION), directs=False, most=60),
    Method("separate-lasso", SEPARATE, partial(joint_lasso_graph, fusion=(0.0,)), directs=False, most=60),
)
