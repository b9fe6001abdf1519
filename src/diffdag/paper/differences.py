"""What Algorithm 1 asks again and again: the precision difference over a set of variables.

Entries are returned as ``Delta[i, j] / (w_i w_j)`` with ``w_i^2 = sqrt(Omega1[i, i] Omega2[i, i])`` over
the same set. This has no units, and is the scale of partial correlations, on which Assumption 3 of the
paper bounds the changes from below: where the diagonals agree, it is the difference of two partial
correlations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from diffdag._base.arrays import FloatArray
from diffdag._base.parallel import collect, run_all
from diffdag.model.sem import LinearSEM
from diffdag.precision.api import ESTIMATORS, PrecisionDifference, symmetrise
from diffdag.precision.problem import DifferenceProblem, pooled_scale, standardise
from diffdag.tables.moments import Moments

Members = tuple[int, ...]


class Differences(ABC):
    """Precision differences over sets of variables, each worked out once."""

    def __init__(self, p: int) -> None:
        self.p = p
        self.unfinished = 0  # number of sets for which a solver stopped early
        self._known: dict[Members, FloatArray] = {(): np.zeros((0, 0))}

    @property
    def worked_out(self) -> int:
        """Number of sets worked out so far."""
        return len(self._known) - 1

    def over(self, members: Iterable[int]) -> FloatArray:
        """The normalised difference over `members`, in ascending order of the members."""
        key = tuple(sorted(members))
        if key not in self._known:
            self._known[key] = self._compute(key)
        return self._known[key]

    def entry(self, members: Iterable[int], i: int, j: int) -> float:
        """Absolute entry ``(i, j)`` of the normalised difference over `members`."""
        key = sorted(members)
        return abs(float(self.over(key)[key.index(i), key.index(j)]))

    def prefetch(self, sets: Iterable[Iterable[int]]) -> None:  # noqa: B027 - one by one will do
        """Work out several sets at once, where that is quicker than one by one."""

    @abstractmethod
    def _compute(self, members: Members) -> FloatArray:
        """The normalised difference over sorted `members`."""


class ExactDifferences(Differences):
    """Differences of two known models.

    The precision over a set ``S`` is ``R' R``, where ``R`` is the last block of a QR factorisation of
    ``D^-1/2 (I - B)`` with the columns of ``S`` last. Working with this square root instead of ``Sigma`` or
    ``Omega`` keeps twice the digits: at p = 100 with 80 neighbours per variable ``Sigma`` has a condition
    number up to 1e16.
    """

    def __init__(self, first: LinearSEM, second: LinearSEM) -> None:
        super().__init__(len(first.names))
        self.roots = first.root_precision(), second.root_precision()

    def root_over(self, members: Members) -> tuple[FloatArray, FloatArray]:
        """Square roots of both precision matrices over `members`."""
        outside = sorted(set(range(self.p)) - set(members))
        order, start = [*outside, *members], len(outside)

        first, second = (np.asarray(np.linalg.qr(root[:, order], mode="r")) for root in self.roots)
        return first[start:, start:], second[start:, start:]

    def rounding(self, members: Members, threshold: float) -> float:
        """A bound on rounding errors over large subsets of `members`: from the entries that are zero over all.

        The search in `prune` looks at so many entries that some lie below a generous threshold by chance.
        """
        size = np.abs(self.over(members))
        return min(threshold, max(1e-12, 30 * float(size[size <= threshold].max(initial=0.0))))

    def _compute(self, members: Members) -> FloatArray:
        first, second = (root.T @ root for root in self.root_over(members))
        return normalise(first - second, np.diag(first), np.diag(second))


class SampleDifferences(Differences):
    """Differences estimated from moments, with estimator and absolute penalty of a result for all variables."""

    def __init__(
        self, first: Moments, second: Moments, found: PrecisionDifference, n_jobs: int | None = None
    ) -> None:
        super().__init__(len(first.names))
        self.problem = standardise(first, second, found.penalty * found.penalty_max)
        self.samples, self.estimator, self.n_jobs = (first.n, second.n), found.method, n_jobs
        scale = _conditional_scale(self.problem, self.samples) / pooled_scale(first, second)
        self._known[tuple(range(self.p))] = found.matrix / np.outer(scale, scale)
        self.unfinished += not found.converged

    def prefetch(self, sets: Iterable[Iterable[int]]) -> None:
        """Work out several sets in parallel, where the user allows more than one process."""
        if self.n_jobs in (None, 1):
            return
        missing = sorted({tuple(sorted(members)) for members in sets} - self._known.keys())
        problems = [self._block(key) for key in missing]
        shared = (self.samples, self.estimator)
        found = collect(run_all(_estimate, problems, shared=shared, jobs=self.n_jobs))
        for key, (difference, finished) in zip(missing, found, strict=True):
            self._known[key] = difference
            self.unfinished += not finished

    def _compute(self, members: Members) -> FloatArray:
        difference, finished = _estimate(self._block(members), self.samples, self.estimator)
        self.unfinished += not finished
        return difference

    def _block(self, members: Members) -> DifferenceProblem:
        block = np.ix_(members, members)
        return replace(self.problem, sigma1=self.problem.sigma1[block], sigma2=self.problem.sigma2[block])


def _estimate(problem: DifferenceProblem, samples: tuple[int, int], estimator: str) -> tuple[FloatArray, bool]:
    """The normalised difference of one problem, and whether the solver finished."""
    solution = ESTIMATORS[estimator](problem)
    scale = _conditional_scale(problem, samples)
    return symmetrise(solution.delta).toarray() / np.outer(scale, scale), solution.converged


def _conditional_scale(problem: DifferenceProblem, samples: tuple[int, int]) -> FloatArray:
    sigmas = (problem.sigma1, problem.sigma2)
    return scales(*(_conditional_precision(sigma, n) for sigma, n in zip(sigmas, samples, strict=True)))


def normalise(delta: FloatArray, precision1: FloatArray, precision2: FloatArray) -> FloatArray:
    """``Delta[i, j] / (w_i w_j)``."""
    scale = scales(precision1, precision2)
    return delta / np.outer(scale, scale)


def scales(precision1: FloatArray, precision2: FloatArray) -> FloatArray:
    """``w_i``: its square is the geometric mean of the two conditional precisions."""
    return (precision1 * precision2) ** 0.25


def _conditional_precision(sigma: FloatArray, samples: int) -> FloatArray:
    """Diagonal of the inverse; with too few rows, after shrinking as Chen et al. (2010, OAS) do."""
    p = len(sigma)
    if samples > p + 1:
        # The inverse of a sample covariance is too large by n / (n - p - 1) on average.
        return np.diag(np.linalg.inv(sigma)) * ((samples - p - 1) / samples)
    mean, square = np.trace(sigma) / p, float(np.sum(sigma**2))
    spread = (samples + 1 - 2 / p) * (square - p * mean**2)
    share = min(1.0, ((1 - 2 / p) * square + (p * mean) ** 2) / spread) if spread > 0 else 1.0
    return np.diag(np.linalg.inv((1 - share) * sigma + share * mean * np.eye(p)))
