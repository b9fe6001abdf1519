"""With fewer rows than variables a small penalty leaves no solution: from any rounding, solvers prove it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array

from diffdag import DiffDagWarning, Moments, precision_difference, simulate_pair
from diffdag._base.errors import NoSolutionWarning
from diffdag.paper.defaults import default_penalty
from diffdag.precision import dantzig
from diffdag.precision.dantzig import solve_dantzig
from diffdag.precision.dtrace import solve_dtrace
from diffdag.precision.problem import DifferenceProblem, standardise
from diffdag.precision.rows import standardise_rows

SEEDS = range(10)
ROUNDINGS = (0.0, 1e-15, 1e-12)  # relative changes of all values: more than processors differ by


def few_rows(seed, rounding=0.0, p=None):
    """Two tables with at most as many rows as variables, so that no covariance matrix has an inverse."""
    rng = np.random.default_rng(930_000 + seed)
    p = 3 + seed % 5 if p is None else p
    pair = simulate_pair(p, neighbours=2, changes=1, rng=seed)
    tables = [sem.sample(max(2, p - seed % 3), rng=rng) for sem in (pair.first, pair.second)]
    return [table * (1 + rounding * rng.uniform(-1, 1, table.shape)) for table in tables]


def problem_of(tables):
    return standardise(*(Moments.from_array(table) for table in tables))


def smallest_residual(problem):
    """The smallest penalty with a solution: phase 1 of the full linear programme."""
    m = problem.p**2
    product, b = np.kron(problem.sigma1, problem.sigma2), problem.target.ravel()
    slack = -np.ones((m, 1))
    answer = linprog(
        np.append(np.zeros(m), 1.0),
        np.block([[product, slack], [-product, slack]]),
        np.concatenate([b, -b]),
        bounds=[(None, None)] * m + [(0, None)],
    )
    assert answer.status == 0
    return answer.fun


def smallest_norm(problem):
    """The full linear programme, in the positive and the negative part of the difference."""
    product, b = np.kron(problem.sigma1, problem.sigma2), problem.target.ravel()
    above, below = problem.penalty + b, problem.penalty - b
    answer = linprog(
        np.ones(2 * len(b)),
        np.block([[product, -product], [-product, product]]),
        np.concatenate([above, below]),
    )
    assert answer.status == 0
    return answer.fun


@pytest.mark.parametrize("seed", SEEDS)
def test_solved_or_refuted_from_any_rounding(seed):
    least = smallest_residual(problem_of(few_rows(seed)))
    for rounding in ROUNDINGS:
        tables = few_rows(seed, rounding)
        dense, (wide, _) = problem_of(tables), standardise_rows(*tables)
        assert smallest_residual(dense) == pytest.approx(least, rel=1e-7)
        for problem in (dense, wide):
            for share in (0.1, 0.9, 0.9999):
                refuted = solve_dantzig(problem.at_penalty(share * least))
                assert not refuted.converged
                assert share * least < refuted.least_penalty < (1 + 1e-6) * least
            for share in (1.0001, 1.1):
                solved = solve_dantzig(problem.at_penalty(share * least))
                assert solved.converged
                assert max(solved.violation, solved.gap) <= 1e-7
                assert solved.least_penalty == 0.0
                if problem is dense:
                    expected = smallest_norm(dense.at_penalty(share * least))
                    assert solved.objective == pytest.approx(expected, rel=1e-5, abs=1e-9)


@pytest.mark.slow
def test_many_variables_are_refuted_by_a_few_entries():
    tables = [table[:9] for table in few_rows(1, p=18)]
    for problem in (problem_of(tables), standardise_rows(*tables)[0]):
        least = solve_dantzig(problem.at_penalty(0.1 * problem.penalty_max)).least_penalty
        assert 0.1 * problem.penalty_max < least <= problem.penalty_max
        # To go where the proof points proves more, until there is a solution.
        for _ in range(30):
            found = solve_dantzig(problem.at_penalty(1.02 * least))
            if found.converged:
                break
            assert found.least_penalty > 1.02 * least
            least = found.least_penalty
        assert found.converged
        assert max(found.violation, found.gap) <= 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_descent_proves_nothing_false(seed):
    problem = problem_of(few_rows(seed))
    least = smallest_residual(problem)
    for share in (0.3, 0.8):
        found = solve_dtrace(problem.at_penalty(share * least))
        assert not found.converged
        assert share * least < found.least_penalty < (1 + 1e-6) * least
    assert solve_dtrace(problem.at_penalty(1.2 * least)).least_penalty == 0.0


def test_a_proof_by_hand():
    """The second variable has no variance in the first table: its own residual is one half, come what may."""
    problem = DifferenceProblem(np.diag([1.0, 0.0]), np.diag([1.0, 0.5]), 0.2)
    ray = np.zeros((2, 2))
    ray[1, 1] = 3.0
    assert problem.refute(csr_array(ray)) == pytest.approx(0.5)
    assert problem.at_penalty(0.5).refute(csr_array(ray)) == 0.0
    assert problem.refute(csr_array(-ray)) == 0.0
    ray[0, 0] = 1e4  # which the covariances do not annul, and which the proof leaves out
    assert problem.refute(csr_array(ray)) == pytest.approx(0.5)
    ray[0, 0] = 1e8  # beside which the rest might be a rounding error
    assert problem.refute(csr_array(ray)) == 0.0
    solution = solve_dantzig(problem)
    assert (solution.converged, solution.least_penalty) == (False, pytest.approx(0.5))


def test_the_target_refutes_many_variables_before_highs_is_asked(monkeypatch):
    tables = [table[:30] for table in few_rows(3, p=60)]
    rows, dense = standardise_rows(*tables)[0], problem_of(tables)
    expected = dense.refute(csr_array(dense.target))
    monkeypatch.setattr(dantzig._Master, "start", lambda master: pytest.fail("HiGHS was asked"))
    for problem in (dense, rows):
        found = solve_dantzig(problem.at_penalty(0.1 * problem.penalty_max))
        assert (found.converged, found.violation > 0) == (False, True)
        assert found.least_penalty == pytest.approx(expected, rel=1e-9)
        assert found.least_penalty > 0.1 * problem.penalty_max
        assert problem.at_penalty(1.001 * expected).refute_by_target() == 0.0
        residual = max(np.abs(block).max() for _, block in problem.residual_blocks(found.delta))
        assert found.violation == pytest.approx(residual - 0.1 * problem.penalty_max)


def test_the_bound_by_the_target_is_never_above_the_smallest_residual():
    for seed in SEEDS:
        problem = problem_of(few_rows(seed))
        bound = problem.refute_by_target()
        assert 0 < bound <= (1 + 1e-6) * smallest_residual(problem)


def test_matrices_with_an_inverse_are_never_refuted():
    rng = np.random.default_rng(930_100)
    problem = problem_of([rng.standard_normal((9, 6)) for _ in range(2)])
    assert problem.refute(csr_array(rng.standard_normal((6, 6)))) == 0.0
    assert problem.refute_by_target() == 0.0
    assert solve_dantzig(problem.at_penalty(1e-6)).converged


@pytest.mark.parametrize("method", ["dantzig", "dtrace"])
def test_users_hear_which_penalty_is_needed_at_least(method):
    tables = few_rows(4)
    problem = problem_of(tables)
    least = smallest_residual(problem) / problem.penalty_max
    with pytest.warns(NoSolutionWarning, match="use a larger penalty, at least") as caught:
        answer = precision_difference(*tables, method=method, penalty=0.9 * least)
    assert issubclass(NoSolutionWarning, DiffDagWarning)
    assert caught[0].filename == __file__
    said = float(re.search(r"at least (\S+) of", str(caught[0].message))[1])
    assert 0.9 * least < answer.least_penalty <= said <= answer.least_penalty + 1e-4
    assert answer.least_penalty < (1 + 1e-6) * least
    solved = precision_difference(*tables, penalty=1.001 * least)  # warnings are errors
    assert (solved.converged, solved.least_penalty) == (True, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*SEEDS, 930_200])
def test_the_default_penalty_has_a_solution(seed):
    for rounding in ROUNDINGS:
        tables = few_rows(seed, rounding) if seed < 900_000 else close_call(rounding)
        moments = [Moments.from_array(table) for table in tables]
        assert precision_difference(*moments, penalty=default_penalty(*moments)[0]).converged


def close_call(rounding):
    """At half the largest penalty the constraints are broken by half a percent at least: almost a solution."""
    rng = np.random.default_rng(930_200)
    pair = simulate_pair(10, neighbours=3, changes=4, rng=0)
    tables = pair.first.sample(8, rng=100), pair.second.sample(8, rng=200)
    return [table * (1 + rounding * rng.uniform(-1, 1, table.shape)) for table in tables]
