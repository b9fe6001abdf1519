"""The textbook peer of the sparse solvers: the alternating direction method of multipliers (ADMM).

With ``S(D) = Sigma1 D Sigma2`` and ``B = Sigma2 - Sigma1``:

    dantzig   minimise |D|_1   subject to   |S(D) - B|_max <= lambda
    dtrace    minimise 1/2 <D, S(D)> - <D, B> + lambda |D|_1          (Yuan, Xi, Chen and Deng 2017)

The linear programme is in graph form (Parikh and Boyd 2014): a sparse copy A of D and a copy Z of S(D) inside
the box, both updated entry by entry; D is the exact projection on ``A = D, Z = S(D)``, by the eigenvectors of
the two matrices. D-trace has the copy A only. Over-relaxation and the balancing of residuals are those of Boyd
et al. (2011, 3.4.3 and 3.4.1).

The peer is told the optimum and stops as soon as one of its iterates is close enough. Looking at them does not
count in its time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

RELAXATION = 1.6
LOOK_EVERY = 10
FIRST_RHO = 10.0
BALANCED, MOST = 2.0, 5.0  # rho changes by the root of the residuals' ratio, from a factor of 2, at most by 5
SETTLED = 1_000  # iterations after which rho stays: without that there is no proof of convergence


@dataclass(frozen=True, eq=False)
class Reached:
    """One run when it was looked at.

    Attributes
    ----------
    seconds, iterations : float, int
    error : float
        The larger of the relative error of the objective and the violation in units of lambda.
    delta : ndarray, shape (p, p)
    """

    seconds: float
    iterations: int
    error: float
    delta: np.ndarray


def run(
    method: str,
    sigma1: np.ndarray,
    sigma2: np.ndarray,
    penalty: float,
    optimum: float,
    *,
    levels: tuple[float, ...] = (1e-3, 1e-6),
    limit: float = math.inf,
) -> list[Reached]:
    """The first iterate within each level, coarse to fine; where the time was up, the last one instead.

    Parameters
    ----------
    method : {"dantzig", "dtrace"}
    sigma1, sigma2 : ndarray, shape (p, p)
    penalty, optimum : float
        lambda, and the optimal objective.
    levels : tuple of float
    limit : float
        Seconds.
    """
    steps, objective = METHODS[method]
    target, reached, outside = sigma2 - sigma1, [], 0.0
    start = time.perf_counter()
    for iteration, iterates in steps(sigma1, sigma2, penalty):
        paused = time.perf_counter()
        errors = []
        for delta in iterates:
            image = sigma1 @ delta @ sigma2
            violation = max(0.0, np.abs(image - target).max() / penalty - 1)
            errors.append(max(abs(objective(delta, image, target, penalty) / optimum - 1), violation))
        best = int(np.argmin(errors))
        now = Reached(paused - start - outside, iteration, float(errors[best]), iterates[best].copy())
        while len(reached) < len(levels) and now.error <= levels[len(reached)]:
            reached.append(now)
        if len(reached) == len(levels) or now.seconds > limit:
            break
        outside += time.perf_counter() - paused
    return reached if len(reached) == len(levels) else [*reached, now]


def dantzig_steps(
    sigma1: np.ndarray, sigma2: np.ndarray, penalty: float
) -> Iterator[tuple[int, tuple[np.ndarray, ...]]]:
    """Iterates of the linear programme, every so often."""
    target, basis = sigma2 - sigma1, Basis(sigma1, sigma2)
    # D and Z are to be of one size; of the multiples tried (1, 1 / largest, median or mean and the means of
    # these, p = 50 and 100, seeds [840000, p]) this one needed the fewest iterations.
    scale = 1 / math.sqrt(basis.products.max() * np.median(basis.products))
    spectrum = scale * basis.products
    low, high = (target - penalty) * scale, (target + penalty) * scale
    sparse, inside, u, w = (np.zeros_like(target) for _ in range(4))
    rho = FIRST_RHO
    for iteration in count(1):
        middle = (basis.into(sparse - u) + spectrum * basis.into(inside - w)) / (1 + spectrum**2)
        delta, image = basis.back(middle), basis.back(spectrum * middle)
        before = sparse, inside
        soft, boxed = relax(delta, sparse), relax(image, inside)
        sparse, inside = shrink(soft + u, 1 / rho), np.clip(boxed + w, low, high)
        u, w = u + soft - sparse, w + boxed - inside
        if iteration % LOOK_EVERY == 0:
            yield iteration, (sparse, delta)
            primal = norm(delta - sparse, image - inside) / norm(sparse, inside)
            dual = norm(sparse - before[0], inside - before[1]) / norm(u, w)
            factor = balance(primal, dual, iteration)
            rho, u, w = rho * factor, u / factor, w / factor


def dtrace_steps(
    sigma1: np.ndarray, sigma2: np.ndarray, penalty: float
) -> Iterator[tuple[int, tuple[np.ndarray, ...]]]:
    """Iterates of D-trace, every so often."""
    target, basis = sigma2 - sigma1, Basis(sigma1, sigma2)
    sparse, u = np.zeros_like(target), np.zeros_like(target)
    pull, rho = basis.into(target), FIRST_RHO
    for iteration in count(1):
        delta = basis.back((pull + rho * basis.into(sparse - u)) / (basis.products + rho))
        before, soft = sparse, relax(delta, sparse)
        sparse = shrink(soft + u, penalty / rho)
        u = u + soft - sparse
        if iteration % LOOK_EVERY == 0:
            yield iteration, (sparse,)
            primal, dual = norm(delta - sparse) / norm(sparse), norm(sparse - before) / norm(u)
            factor = balance(primal, dual, iteration)
            rho, u = rho * factor, u / factor


def dantzig_objective(delta: np.ndarray, image: np.ndarray, target: np.ndarray, penalty: float) -> float:
    return float(np.abs(delta).sum())


def dtrace_objective(delta: np.ndarray, image: np.ndarray, target: np.ndarray, penalty: float) -> float:
    return float(np.sum(delta * (image / 2 - target)) + penalty * np.abs(delta).sum())


METHODS = {"dantzig": (dantzig_steps, dantzig_objective), "dtrace": (dtrace_steps, dtrace_objective)}


class Basis:
    """The eigenvectors of the two matrices, in which S multiplies entry by entry."""

    def __init__(self, sigma1: np.ndarray, sigma2: np.ndarray) -> None:
        (first, self._left), (second, self._right) = np.linalg.eigh(sigma1), np.linalg.eigh(sigma2)
        self.products = np.outer(first.clip(0), second.clip(0))

    def into(self, matrix: np.ndarray) -> np.ndarray:
        return self._left.T @ matrix @ self._right

    def back(self, matrix: np.ndarray) -> np.ndarray:
        return self._left @ matrix @ self._right.T


def relax(new: np.ndarray, old: np.ndarray) -> np.ndarray:
    return RELAXATION * new + (1 - RELAXATION) * old


def shrink(values: np.ndarray, amount: float) -> np.ndarray:
    return values - np.clip(values, -amount, amount)


def norm(*matrices: np.ndarray) -> float:
    return max(math.hypot(*(np.linalg.norm(matrix) for matrix in matrices)), 1e-300)


def balance(primal: float, dual: float, iteration: int) -> float:
    """By how much to change rho, given the relative residuals."""
    factor = math.sqrt(primal / dual)
    if iteration > SETTLED or 1 / BALANCED < factor < BALANCED:
        return 1.0
    return min(max(factor, 1 / MOST), MOST)
