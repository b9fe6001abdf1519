"""All estimators of the precision difference solve one problem; exact references decide."""

from __future__ import annotations

import highspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import csr_array
from sklearn.linear_model import Lasso

from diffdag import DiffDagWarning, InputError, Moments, precision_difference, simulate_pair
from diffdag.precision import dantzig
from diffdag.precision.api import symmetrise
from diffdag.precision.dtrace import solve_dtrace
from diffdag.precision.problem import resolve_penalty, standardise


def sample_moments(p, n, seed, neighbours=None, **options):
    pair = simulate_pair(p, neighbours=neighbours or min(6, p - 1), rng=seed, **options)
    return tuple(Moments.from_array(sem.sample(n, rng=seed + k)) for k, sem in enumerate(pair_of(pair)))


def pair_of(pair):
    return pair.first, pair.second


def standardised(first, second, fraction):
    problem = standardise(first, second)
    return problem.at_penalty(fraction * problem.penalty_max)


def residual_of(problem, delta):
    return np.vstack([block for _, block in problem.residual_blocks(delta)])


def full_linear_programme(problem):
    """The paper's problem with its Kronecker matrix written out, by SciPy."""
    p = len(problem.sigma1)
    kron = np.kron(problem.sigma2, problem.sigma1)
    target = problem.target.T.ravel()
    signed = np.hstack([kron, -kron])
    answer = linprog(
        np.ones(2 * p * p),
        A_ub=np.vstack([signed, -signed]),
        b_ub=np.concatenate([problem.penalty + target, problem.penalty - target]),
        bounds=(0, None),
        method="highs",
    )
    return answer.fun


@pytest.mark.parametrize("fraction", [0.6, 0.3, 0.1])
@pytest.mark.parametrize(("p", "n"), [(2, 50), (5, 200), (8, 2000), (10, 200), (14, 200), (14, 2000)])
@pytest.mark.parametrize("small", [dantzig.SMALL, 0])
def test_dantzig_equals_the_full_linear_programme(monkeypatch, p, n, fraction, small):
    monkeypatch.setattr(dantzig, "SMALL", small)  # 0: generate columns and rows even where all would fit
    first, second = sample_moments(p, n, seed=p + n)
    answer = precision_difference(first, second, method="dantzig", penalty=fraction)
    assert answer.objective == pytest.approx(
        full_linear_programme(standardised(first, second, fraction)), rel=1e-6
    )
    assert answer.violation <= 1e-7
    assert answer.gap <= 1e-7
    assert answer.penalty == pytest.approx(fraction)


def test_dantzig_certificate_holds_for_the_matrix_returned():
    first, second = sample_moments(60, 300, seed=5, neighbours=4)
    problem = standardised(first, second, 0.3)
    solution = dantzig.solve_dantzig(problem)
    delta = solution.delta.toarray()
    residual = problem.sigma1 @ delta @ problem.sigma2 - (problem.sigma2 - problem.sigma1)
    assert solution.converged
    assert np.abs(residual).max() <= problem.penalty + 1e-7
    assert np.abs(delta).sum() == pytest.approx(solution.objective, rel=1e-12)


def test_dantzig_goes_on_where_primal_simplex_gives_up(monkeypatch):
    problem = standardised(*sample_moments(20, 300, seed=3, neighbours=4), 0.3)
    expected = dantzig.solve_dantzig(problem).objective

    class GivesUp(highspy.Highs):
        def getModelStatus(self):
            return highspy.HighsModelStatus.kUnknown

    monkeypatch.setattr(highspy, "Highs", GivesUp)
    assert dantzig.solve_dantzig(problem).objective == pytest.approx(expected, rel=1e-9)


def test_bounds_on_the_dual_are_widened_when_they_hold(monkeypatch):
    problem = standardised(*sample_moments(20, 300, seed=3, neighbours=4), 0.1)
    expected = dantzig.solve_dantzig(problem)
    monkeypatch.setattr(dantzig, "FIRST_BOUND", 1e-2)
    tight = dantzig.solve_dantzig(problem)
    assert tight.converged
    assert tight.objective == pytest.approx(expected.objective, rel=1e-9)


@pytest.mark.parametrize("fraction", [0.6, 0.3, 0.1])
def test_dtrace_equals_a_lasso_on_the_square_root_of_the_kronecker_matrix(fraction):
    problem = standardised(*sample_moments(6, 300, seed=11), fraction)
    root = np.linalg.cholesky(np.kron(problem.sigma2, problem.sigma1)).T
    response = np.linalg.solve(root.T, problem.target.T.ravel())
    lasso = Lasso(alpha=problem.penalty / len(response), fit_intercept=False, tol=1e-12, max_iter=1_000_000)
    expected = lasso.fit(root, response).coef_.reshape(6, 6).T
    solution = solve_dtrace(problem)
    assert solution.converged
    np.testing.assert_allclose(solution.delta.toarray(), expected, atol=1e-6)


def test_dtrace_is_feasible_for_the_linear_programme_and_tight_on_its_support():
    problem = standardised(*sample_moments(40, 200, seed=7, neighbours=4), 0.3)
    solution = solve_dtrace(problem)
    residual = residual_of(problem, solution.delta)
    assert np.abs(residual).max() <= problem.penalty + 1e-8
    support = solution.delta.toarray() != 0
    np.testing.assert_allclose(
        residual[support], -problem.penalty * np.sign(solution.delta.toarray()[support]), atol=1e-7
    )
    assert solution.gap <= 1e-7


def test_plugin_is_the_difference_of_the_inverses():
    first, second = sample_moments(7, 100, seed=1)
    answer = precision_difference(first, second, method="plugin")
    expected = np.linalg.inv(first.covariance()) - np.linalg.inv(second.covariance())
    np.testing.assert_allclose(answer.matrix, expected, rtol=1e-8, atol=1e-10)


def test_plugin_with_fewer_rows_than_variables_says_what_to_do():
    first, second = sample_moments(10, 8, seed=1)
    with pytest.raises(InputError, match="use the estimator 'dantzig' or 'dtrace'"):
        precision_difference(first, second, method="plugin")


@pytest.mark.parametrize("method", ["dantzig", "dtrace", "kliep"])
def test_penalty_of_one_gives_zero_and_a_little_less_does_not(method):
    first, second = sample_moments(8, 100, seed=2)
    assert not precision_difference(first, second, method=method, penalty=1.0).matrix.any()
    assert precision_difference(first, second, method=method, penalty=0.95).objective != 0


@pytest.mark.slow
@pytest.mark.parametrize("method", ["dantzig", "dtrace", "kliep", "plugin"])
@settings(max_examples=10, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), factor=st.floats(1e-6, 1e6))
def test_symmetries(method, seed, factor):
    first, second = sample_moments(5, 400, seed=seed, changes=2)
    answer = precision_difference(first, second, method=method, penalty=0.2).matrix
    size = np.abs(answer).max() + 1e-12
    np.testing.assert_array_equal(answer, answer.T)
    if method != "kliep":  # which takes the second table for the known one
        swapped = precision_difference(second, first, method=method, penalty=0.2).matrix
        np.testing.assert_allclose(swapped, -answer, atol=1e-6 * size)
    order = list(reversed(first.names))
    permuted = precision_difference(
        first.select(order), second.select(order), method=method, penalty=0.2
    ).matrix
    np.testing.assert_allclose(permuted, answer[::-1, ::-1], atol=1e-6 * size)
    units = np.array([factor, 1, 1, 1, 1])
    scaled = (
        Moments(m.names, m.n, m.mean * units, m.scatter * np.outer(units, units)) for m in (first, second)
    )
    rescaled = precision_difference(*scaled, method=method, penalty=0.2).matrix
    np.testing.assert_allclose(rescaled * np.outer(units, units), answer, atol=1e-6 * size)


def test_the_rate_is_the_papers():
    first, second = sample_moments(10, 500, seed=3)
    answer = precision_difference(first, second, penalty="rate:0.5")
    assert answer.penalty * answer.penalty_max == pytest.approx(0.5 * np.sqrt(np.log(10) / 500))


@pytest.mark.parametrize(
    "penalty", ["0.3", "rate", "rate:", "rate:-1", "rate:nan", "speed:1", -0.1, float("nan"), [0.3]]
)
def test_penalties_that_make_no_sense_are_refused(penalty):
    with pytest.raises(InputError, match="penalty"):
        resolve_penalty(penalty, 1.0, 10, 100)


def test_unknown_estimator_is_refused():
    with pytest.raises(InputError, match="'magic'"):
        precision_difference(*sample_moments(3, 50, seed=0), method="magic")


def test_columns_are_matched_by_name():
    first, second = sample_moments(5, 100, seed=4)
    shuffled = second.select([second.names[k] for k in (3, 1, 4, 0, 2)])
    np.testing.assert_array_equal(
        precision_difference(first, second).matrix, precision_difference(first, shuffled).matrix
    )


def test_stopping_early_is_a_warning_with_a_remedy(monkeypatch):
    monkeypatch.setattr(dantzig, "MAX_ROUNDS", 1)
    first, second = sample_moments(30, 100, seed=8, neighbours=4)
    with pytest.warns(DiffDagWarning, match="1 iterations .* use a larger penalty"):
        answer = precision_difference(first, second, penalty=0.1)
    assert not answer.converged


def test_symmetrise_keeps_the_smaller_of_two_mirrored_entries():
    given_matrix = np.array([[1.0, 2.0, 0.0], [-0.5, 3.0, 1.0], [4.0, -1.0, 0.0]])
    expected = np.array([[1.0, -0.5, 0.0], [-0.5, 3.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(symmetrise(csr_array(given_matrix)).toarray(), expected)


def test_more_variables_than_rows():
    first, second = sample_moments(50, 30, seed=6, neighbours=3)
    answer = precision_difference(first, second, penalty=0.8)
    assert answer.converged
    assert np.isfinite(answer.matrix).all()
    assert answer.violation <= 1e-7


@pytest.mark.slow
def test_a_penalty_too_small_for_singular_covariances_is_a_warning_and_ends_soon():
    first, second = sample_moments(24, 12, seed=6, neighbours=3)
    with pytest.warns(DiffDagWarning, match="fewer rows than variables"):
        answer = precision_difference(first, second, penalty=0.2)
    assert not answer.converged
    assert np.isfinite(answer.matrix).all()


def test_dtrace_gives_up_where_its_objective_has_no_minimum():
    first, second = sample_moments(12, 6, seed=6, neighbours=3)
    with pytest.warns(DiffDagWarning, match="use a larger penalty"):
        assert not precision_difference(first, second, method="dtrace", penalty=0.1).converged
