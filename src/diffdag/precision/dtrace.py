"""D-trace difference: a lasso-type quadratic programme solved on working sets.

    minimise  1/2 <Delta, Sigma1 Delta Sigma2> - <Delta, Sigma2 - Sigma1> + lambda |Delta|_1

(Yuan, Xi, Chen and Deng 2017, before symmetrising.) The gradient of the smooth part is the residual of the
identity, so at the optimum ``|residual| <= lambda`` everywhere, with equality and opposite sign on the
support. All entries are looked at only to see whether that holds. A look also keeps a pool of entries that
come near ``lambda`` (the strong rule of Tibshirani et al. 2012), and until the next look only the pool is
worked on: its violators join a working set, whose Gram matrix holds products of two covariances.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from diffdag._base.arrays import FloatArray
from diffdag.precision.descent import minimise
from diffdag.precision.problem import Entries, Solution, SparseProblem
from diffdag.precision.scan import Scan, above

MAX_ROUNDS = 200
MAX_SWEEPS = 2_000
GAP = 1e-6
NEAR, POOL = 0.8, 20_000  # the pool: entries above this share of the penalty, at most so many
MOST = 8_000  # entries of a working set: its Gram matrix takes half a gibibyte
LOOSE = 0.05  # a working set that is about to grow is solved to this share of what it leaves out


@dataclass(frozen=True, eq=False)
class Start:
    """Where to begin: an estimate, and what a look at all entries of its residual showed."""

    delta: csr_array
    seen: Scan


def solve_dtrace(
    problem: SparseProblem,
    tolerance: float = 1e-8,
    max_rounds: int = MAX_ROUNDS,
    max_sweeps: int = MAX_SWEEPS,
    patience: int = 2,
) -> Solution:
    """Solve by working sets; the KKT residual is the certificate.

    With singular matrices and a small penalty the objective has no minimum, or one with more entries than are
    of use. So the search ends when `patience` working sets one after another could not be solved. Without a
    minimum ``Delta`` grows along a ray that proves it.
    """
    solution, _ = descend(problem, None, tolerance, max_rounds, max_sweeps, patience)
    if solution.converged:
        return solution
    return replace(solution, least_penalty=problem.refute(solution.delta))


def descend(
    problem: SparseProblem,
    start: Start | None,
    tolerance: float = 1e-8,
    max_rounds: int = MAX_ROUNDS,
    max_sweeps: int = MAX_SWEEPS,
    patience: int = 2,
) -> tuple[Solution, Start]:
    """Solve by working sets from where a descent for a larger penalty ended; also where this one ended."""
    error = problem.rough_error
    delta = csr_array((problem.p, problem.p)) if start is None else start.delta
    seen = _look(problem, delta, rough=True) if start is None else start.seen
    rounds, stalled = 0, 0
    while rounds < max_rounds and stalled < patience:
        if seen.largest <= problem.penalty + max(tolerance, error):
            if error <= tolerance:
                break
            error = 0.0  # from here on looks have to be exact
            seen = _look(problem, delta, rough=False)
            continue
        rounds += 1
        delta, solved = _solve_on_pool(problem, delta, seen.entries, tolerance / 10, max_sweeps)
        stalled = 0 if solved else stalled + 1
        seen = _look(problem, delta, rough=error > 0)
    if error > tolerance:  # it gave up while looks were rough
        seen = _look(problem, delta, rough=False)
    return _certified(problem, delta, seen, rounds, tolerance), Start(delta, seen)


def _look(problem: SparseProblem, delta: csr_array, *, rough: bool) -> Scan:
    return above(problem.residual_blocks(delta, rough=rough), NEAR * problem.penalty, POOL)


def _certified(problem: SparseProblem, delta: csr_array, seen: Scan, rounds: int, tolerance: float) -> Solution:
    """Add the objective, in which ``H Delta`` is the residual plus ``b``, the violation and the gap.

    The gap ``<Delta, residual> + lambda |Delta|_1`` is the duality gap where no constraint is broken.
    """
    support, values = _entries(delta)
    residual = problem.residual_at(delta, support)
    size = problem.penalty * float(np.abs(values).sum())
    objective = 0.5 * float(values @ (residual - problem.target_at(support))) + size
    gap = abs(float(values @ residual) + size) / max(1e-9, abs(objective))
    violation = max(0.0, seen.largest - problem.penalty)
    return Solution(delta, objective, violation, gap, rounds, violation <= tolerance and gap <= GAP)


def _entries(delta: csr_array) -> tuple[Entries, FloatArray]:
    found = delta.tocoo()
    return (found.row.astype(np.intp), found.col.astype(np.intp)), found.data


def _solve_on_pool(
    problem: SparseProblem, delta: csr_array, pool: Entries, tolerance: float, max_sweeps: int
) -> tuple[csr_array, bool]:
    """Optimise over the support and the pool; also, whether the last working set could be solved."""
    reached = np.inf
    for _ in range(MAX_ROUNDS):
        support, values = _entries(delta)
        most = max(1, min(max(20, len(values)), MOST - len(values)))
        new, excess = _violators(problem, delta, pool, tolerance, most)
        count = len(new[0])
        if count == 0 and reached <= tolerance:
            return delta, True
        if len(values) + count > MOST:
            return delta, False
        reached = max(tolerance, LOOSE * excess)
        chosen = np.concatenate([support[0], new[0]]), np.concatenate([support[1], new[1]])
        values, solved = minimise(
            problem.products(chosen, chosen),
            problem.target_at(chosen),
            np.concatenate([values, np.zeros(count)]),
            problem.penalty,
            reached,
            max_sweeps,
        )
        delta = csr_array((values, chosen), shape=delta.shape)
        delta.eliminate_zeros()
        if not solved:
            break
    return delta, False


def _violators(
    problem: SparseProblem, delta: csr_array, pool: Entries, tolerance: float, most: int
) -> tuple[Entries, float]:
    """Entries of the pool, outside the support, whose residual exceeds the penalty: the `most` largest.

    Also, by how much the largest does.
    """
    size = np.abs(problem.residual_at(delta, pool))
    support = _entries(delta)[0]
    size[np.isin(pool[0] * problem.p + pool[1], support[0] * problem.p + support[1])] = 0.0
    found = np.flatnonzero(size > problem.penalty + tolerance)
    if len(found) > most:
        found = found[np.argpartition(size[found], -most)[-most:]]
    return (pool[0][found], pool[1][found]), float(size.max(initial=0.0)) - problem.penalty
