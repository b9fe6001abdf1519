"""KLIEP against a general optimiser, against its literal form on rows, and at its limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from diffdag import DiffDagWarning, DifferenceDAG, Moments, precision_difference, simulate_pair
from diffdag.precision import kliep
from diffdag.precision.kliep import solve_kliep
from diffdag.precision.problem import DifferenceProblem, standardise


def problem_of(p, n, seed, fraction, neighbours=None):
    pair = simulate_pair(p, neighbours=neighbours or min(6, p - 1), rng=seed)
    tables = (
        Moments.from_array(sem.sample(n, rng=seed + k)) for k, sem in enumerate((pair.first, pair.second))
    )
    problem = standardise(*tables)
    return DifferenceProblem(problem.sigma1, problem.sigma2, fraction * problem.penalty_max)


def minimise_l1(smooth, size, charge):
    """A smooth function (value, gradient) plus `charge` times absolute values, by splitting these in two."""

    def split(both):
        value, gradient = smooth(both[:size] - both[size:])
        return value + charge @ (both[:size] + both[size:]), np.concatenate(
            [gradient + charge, charge - gradient]
        )

    options = {"maxiter": 5000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-9}
    answer = minimize(
        split, np.zeros(2 * size), jac=True, method="L-BFGS-B", bounds=[(0, None)] * (2 * size), options=options
    )
    return answer.x[:size] - answer.x[size:], answer.fun


@pytest.mark.parametrize("fraction", [0.6, 0.2, 0.05])
def test_a_general_optimiser_finds_the_same(fraction):
    problem = problem_of(4, 500, seed=820_001, fraction=fraction)

    def smooth(entries):
        # det(I + Sigma2 Delta), which needs no square root
        delta = entries.reshape(4, 4)
        inner = np.eye(4) + problem.sigma2 @ (delta + delta.T) / 2
        sign, log_det = np.linalg.slogdet(inner)
        if sign <= 0 or (np.linalg.eigvals(inner).real <= 0).any():
            return 1e6, np.zeros(16)
        gradient = problem.sigma1 - np.linalg.solve(inner, problem.sigma2)
        return float((delta * problem.sigma1).sum() - log_det), ((gradient + gradient.T) / 2).ravel()

    expected, value = minimise_l1(smooth, 16, np.full(16, problem.penalty))
    solution = solve_kliep(problem)
    assert solution.converged
    assert solution.objective == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(solution.delta.toarray(), expected.reshape(4, 4), atol=2e-3)


def test_averages_over_rows_come_to_the_same():
    """The objective of Liu et al. as they write it: features ``x_i x_j`` for ``i <= j``, averages over rows."""
    rng = np.random.default_rng(820_002)
    n, penalty = 150_000, 0.05
    second = rng.standard_normal((n, 3))
    first = rng.standard_normal((n, 3))
    first[:, 2] += 0.5 * first[:, 0]
    upper = np.triu_indices(3)
    features = [table[:, upper[0]] * table[:, upper[1]] for table in (first, second)]

    def smooth(theta):
        exponent = features[1] @ theta
        normaliser = logsumexp(exponent)
        gradient = np.exp(exponent - normaliser) @ features[1] - features[0].mean(axis=0)
        return float(normaliser - np.log(n) - features[0].mean(axis=0) @ theta), gradient

    theta, _ = minimise_l1(smooth, 6, np.full(6, penalty))
    expected = np.zeros((3, 3))
    expected[upper] = -theta
    expected = expected + expected.T  # Delta[i, j] = -theta[i, j] off the diagonal, -2 theta[i, i] on it
    sigma1, sigma2 = (table.T @ table / n for table in (first, second))
    delta = solve_kliep(DifferenceProblem(sigma1, sigma2, penalty)).delta.toarray()
    np.testing.assert_array_equal(delta != 0, expected != 0)
    np.testing.assert_allclose(delta, expected, atol=0.02)
    assert delta[0, 2] < -0.2


@pytest.mark.parametrize(("p", "n", "fraction"), [(10, 100, 0.05), (40, 200, 0.3), (60, 40, 0.6)])
def test_optimality_conditions_hold(p, n, fraction):
    problem = problem_of(p, n, seed=820_003, fraction=fraction, neighbours=4)
    solution = solve_kliep(problem)
    delta = solution.delta.toarray()
    np.testing.assert_array_equal(delta, delta.T)
    inner = np.eye(p) + problem.sigma2 @ delta
    gradient = problem.sigma1 - np.linalg.solve(inner, problem.sigma2)
    assert solution.converged
    assert np.abs(gradient).max() <= problem.penalty + 1e-7
    support = delta != 0
    assert 0 < support.sum() < p * p
    np.testing.assert_allclose(gradient[support], -problem.penalty * np.sign(delta[support]), atol=1e-6)


def test_without_penalty_it_is_the_difference_of_the_inverses():
    problem = problem_of(6, 300, seed=820_004, fraction=0.0)
    expected = np.linalg.inv(problem.sigma1) - np.linalg.inv(problem.sigma2)
    np.testing.assert_allclose(solve_kliep(problem).delta.toarray(), expected, rtol=1e-5, atol=1e-6)


def test_products_instead_of_the_newton_matrix_find_the_same(monkeypatch):
    problem = problem_of(20, 200, seed=820_005, fraction=0.2, neighbours=4)
    expected = solve_kliep(problem)
    monkeypatch.setattr(kliep, "DIRECT", 0)
    solution = solve_kliep(problem)
    assert solution.converged
    assert solution.objective == pytest.approx(expected.objective, rel=1e-9)


@pytest.mark.parametrize("fraction", [1.0, 0.999999, 0.99])
def test_penalties_around_the_largest(fraction):
    solution = solve_kliep(problem_of(8, 100, seed=820_006, fraction=fraction))
    assert solution.converged
    assert bool(solution.delta.nnz) == (fraction < 1)


def test_equal_tables_have_no_difference():
    sigma = problem_of(5, 50, seed=820_007, fraction=0.1).sigma1
    solution = solve_kliep(DifferenceProblem(sigma, sigma, 0.0))
    assert solution.converged
    assert solution.delta.nnz == 0


def test_without_a_minimum_it_ends_with_a_warning():
    pair = simulate_pair(12, neighbours=3, rng=820_008)
    tables = (Moments.from_array(sem.sample(6, rng=k)) for k, sem in enumerate((pair.first, pair.second)))
    with pytest.warns(DiffDagWarning, match="use a larger penalty"):
        answer = precision_difference(*tables, method="kliep", penalty=0.05)
    assert not answer.converged
    assert np.isfinite(answer.matrix).all()


def test_algorithm_1_runs_on_it():
    pair = simulate_pair(6, neighbours=2, changes=1, weights=(0.8, 1.0), rng=820_009)
    tables = (pair.first.sample(20_000, rng=1), pair.second.sample(20_000, rng=2))
    result = DifferenceDAG(method="paper", estimator="kliep").fit(*tables).result_
    assert {(edge.source, edge.target) for edge in result.edge_list} == pair.edges
    assert result.settings["estimator"] == "kliep"
