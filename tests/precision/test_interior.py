"""Weak changes, whose linear programmes have many entries: the interior-point method against others."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.linalg import LinAlgError
from scipy.optimize import linprog

from diffdag import Moments, precision_difference, simulate_pair
from diffdag._base.parallel import one_blas_thread
from diffdag.precision import dantzig, interior
from diffdag.precision.interior import Programme
from diffdag.precision.problem import standardise, times_core


@pytest.fixture(autouse=True)
def _one_thread():
    """As `precision_difference` does."""
    with one_blas_thread():
        yield


def weak_problem(seed, p=24, n=60, share=0.3):
    """Two samples of models with one change at most: the target is sampling noise, and a third of it counts."""
    pair = simulate_pair(p, neighbours=3, changes=1, rng=seed)
    rng = np.random.default_rng([7, seed])
    problem = standardise(*(Moments.from_array(sem.sample(n, rng)) for sem in (pair.first, pair.second)))
    return problem.at_penalty(share * problem.penalty_max)


def full_programme(problem):
    """The optimum of all p^2 entries and 2 p^2 constraints, by linprog."""
    product, b = np.kron(problem.sigma1, problem.sigma2), problem.target.ravel()
    answer = linprog(
        np.ones(2 * len(b)),
        np.block([[product, -product], [-product, product]]),
        np.concatenate([problem.penalty + b, problem.penalty - b]),
        method="highs-ds",
    )
    assert answer.status == 0
    return answer.fun


def some_programme(seed, height=30, width=40):
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((height, width))
    return Programme(matrix, matrix @ rng.standard_normal(width), 0.5), rng


@pytest.mark.parametrize("seed", range(6))
def test_weak_changes_agree_with_the_full_programme(seed, monkeypatch):
    monkeypatch.setattr(dantzig, "DENSE", 0)
    monkeypatch.setattr(dantzig._Master, "solve", None)  # the simplex method is not asked
    problem = weak_problem(seed, p=18)
    solution = dantzig.solve_dantzig(problem)
    assert solution.converged
    assert solution.objective == pytest.approx(full_programme(problem), rel=1e-8)
    residual = problem.sigma1 @ solution.delta.toarray() @ problem.sigma2 - problem.target
    assert np.abs(residual).max() <= problem.penalty + 1e-9
    # A vertex: as many constraints hold with equality as there are entries.
    tight = np.abs(np.abs(residual) - problem.penalty) < 1e-9
    assert tight.sum() >= solution.delta.nnz > 20


@pytest.mark.parametrize(("seed", "share"), [(0, 0.5), (1, 0.4), (2, 0.3)])
def test_both_methods_give_the_same(seed, share, monkeypatch):
    problem = weak_problem(seed, p=30, n=200, share=share)
    answers = []
    for least in (0, 10**9):
        monkeypatch.setattr(dantzig, "DENSE", least)
        answers.append(dantzig.solve_dantzig(problem))
    dense, sparse = answers
    assert dense.converged
    assert sparse.converged
    assert dense.objective == pytest.approx(sparse.objective, rel=1e-9)
    np.testing.assert_allclose(dense.delta.toarray(), sparse.delta.toarray(), atol=1e-7)


def test_many_entries_take_the_interior_point_method(monkeypatch):
    asked, solve = [], dantzig.solve_exactly
    monkeypatch.setattr(dantzig, "solve_exactly", lambda *given: asked.append(given) or solve(*given))
    weak = weak_problem(3, p=60, n=150)
    assert dantzig.solve_dantzig(weak).delta.nnz > dantzig.DENSE
    assert asked
    asked.clear()
    strong = weak.at_penalty(0.9 * weak.penalty_max)
    assert dantzig.solve_dantzig(strong).converged
    assert not asked


def test_a_weak_change_is_certified_for_users():
    pair = simulate_pair(60, neighbours=4, changes=1, rng=5)
    tables = [sem.sample(150, rng=k) for k, sem in enumerate((pair.first, pair.second))]
    answer = precision_difference(*(Moments.from_array(table) for table in tables), penalty=0.3)
    assert answer.converged
    assert max(answer.gap, answer.violation) <= 1e-6


def test_without_a_start_within_the_constraints_the_simplex_method_goes_on(monkeypatch):
    problem = weak_problem(4, p=20)
    expected = dantzig.solve_dantzig(problem)
    monkeypatch.setattr(dantzig, "DENSE", 0)
    monkeypatch.setattr(dantzig, "_solve_dense", lambda *_: None)
    solution = dantzig.solve_dantzig(problem)
    assert solution.converged
    assert solution.objective == pytest.approx(expected.objective, rel=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_a_programme_is_solved_exactly(seed):
    programme, rng = some_programme(seed)
    height, width = programme.matrix.shape
    answer = interior.solve_exactly(programme, rng.standard_normal(width), np.zeros(height))
    stacked = np.hstack([programme.matrix, -programme.matrix])
    expected = linprog(
        np.ones(2 * width),
        np.vstack([stacked, -stacked]),
        np.concatenate([programme.penalty + programme.target, programme.penalty - programme.target]),
    )
    assert np.abs(answer.primal).sum() == pytest.approx(expected.fun, rel=1e-9)
    value = programme.target @ answer.dual - programme.penalty * np.abs(answer.dual).sum()
    assert value == pytest.approx(expected.fun, rel=1e-9)
    assert np.abs(programme.matrix @ answer.primal - programme.target).max() <= programme.penalty + 1e-9
    assert np.abs(programme.matrix.T @ answer.dual).max() <= 1 + 1e-9
    assert (answer.primal != 0).sum() == (answer.dual != 0).sum() == answer.tight.sum()


def test_a_loose_solution_keeps_what_may_be_tight():
    programme, rng = some_programme(9)
    start = rng.standard_normal(40), np.zeros(30)
    loose = interior.solve_loosely(programme, *start, 3e-2)
    exact = interior.solve_exactly(programme, *start)
    assert (loose.tight >= exact.tight).all()
    assert np.abs(loose.primal).sum() == pytest.approx(np.abs(exact.primal).sum(), rel=0.1)


def test_a_start_too_close_to_the_boundary_is_given_up(monkeypatch):
    programme, rng = some_programme(2)
    x, y = rng.standard_normal(40), rng.standard_normal(30)
    first, starts = interior._first, []
    monkeypatch.setattr(interior, "_first", lambda *given: starts.append(given[2]) or first(*given))
    step = interior._step
    monkeypatch.setattr(interior, "_step", lambda *given: step(*given) if len(starts) > 1 else None)
    answer = interior.solve_exactly(programme, x, y)
    assert [start.any() for start in starts] == [True, False]
    assert np.abs(programme.matrix @ answer.primal - programme.target).max() <= programme.penalty + 1e-9


@pytest.fixture
def point():
    """A programme and a point well within its constraints."""
    programme, rng = some_programme(11)
    return programme, interior._first(programme, rng.standard_normal(40), np.zeros(30))


@pytest.mark.parametrize("known", [False, True])
def test_the_first_point_keeps_its_distance_from_all_bounds(known):
    """By the usual size of an entry, or a tenth of it where there is a dual to begin with."""
    programme, rng = some_programme(12)
    x, y = rng.standard_normal(40) * (rng.random(40) < 0.5), known * rng.standard_normal(30)
    own = interior._first(programme, x, y)
    size = np.abs(x).sum() / np.count_nonzero(x) * (0.1 if known else 1.0)
    np.testing.assert_allclose(own.u, np.where(x > 0, x, 0) + size)
    np.testing.assert_allclose(own.v, np.where(x < 0, -x, 0) + size)
    np.testing.assert_allclose(own.a, np.where(y > 0, y, 0) + size / 0.5)
    np.testing.assert_allclose(own.c, np.where(y < 0, -y, 0) + size / 0.5)
    residual, price = programme.matrix @ x - programme.target, programme.matrix.T @ y
    for slack, exact, least in (
        *((own.s, 0.5 + residual, 0.02 * 0.5), (own.t, 0.5 - residual, 0.02 * 0.5)),
        *((own.z, 1 - price, 0.02), (own.w, 1 + price, 0.02)),
    ):
        np.testing.assert_allclose(slack, np.where(exact > least, exact, least))


def test_steps_are_predicted_and_centred_as_by_mehrotra(point, monkeypatch):
    programme, start = point
    newton, asked = interior._newton, []

    def watched(*given):
        direction = newton(*given)
        return lambda changes: asked.append((changes, direction(changes))) or asked[-1][1]

    monkeypatch.setattr(interior, "_newton", watched)
    assert interior._step(programme, start) is not None
    (first, predicted), (second, _) = asked
    products = [one * two for one, two in start.pairs]
    total = sum(map(np.sum, products))
    left = start.moved(predicted, *start.lengths(predicted)).gap / total
    assert 1e-3 < left < 0.999
    for own, aim, change, (one, two) in zip(products, first, second, predicted.pairs, strict=True):
        np.testing.assert_array_equal(aim, -own)
        np.testing.assert_allclose(change, total / (2 * (40 + 30)) * left**3 - own - one * two)


@pytest.mark.parametrize(("size", "further"), [(-1e-3, True), (-1e30, False), (np.inf, False)])
def test_steps_that_lead_nowhere_end_the_path(point, monkeypatch, size, further):
    programme, start = point
    parts = [np.full(len(getattr(start, part.name)), size) for part in fields(start)]
    monkeypatch.setattr(interior, "_newton", lambda *_: lambda _: interior._Point(*parts))
    assert (interior._step(programme, start) is not None) == further


@pytest.mark.parametrize(
    ("gap", "violation", "rounds", "loose"),
    [
        (1.0, 0.0, 4, [3e-2, 3e-3, 3e-3, 3e-3]),
        (0.0, 1.0, 3, [3e-2, 3e-3, 3e-3]),
        (0.05, 0.05, 4, [3e-2, 3e-3]),
        (1.0, 0.0, 1, [3e-2]),
    ],
)
def test_problems_are_solved_loosely_until_they_are_nearly_solved(monkeypatch, gap, violation, rounds, loose):
    """Two rounds by two gaps, and by the second as long as little is reached; then exactly."""
    problem = weak_problem(4, p=20)
    certify, solve, scan, gaps, looks = dantzig._certify, dantzig.solve_loosely, dantzig.above, [], []
    monkeypatch.setattr(dantzig, "DENSE_ROUNDS", rounds)
    monkeypatch.setattr(
        dantzig,
        "_certify",
        lambda *given: replace(
            certify(*given), gap=gap, violation=violation * problem.penalty, converged=False
        ),
    )
    monkeypatch.setattr(dantzig, "solve_loosely", lambda *given: gaps.append(given[3]) or solve(*given))
    monkeypatch.setattr(dantzig, "above", lambda *given: looks.append(given[1]) or scan(*given))
    assert dantzig._solve_dense(problem, dantzig._rough_start(problem), 1e-7) is None
    assert gaps == loose
    bounds = np.array(looks[1:]).reshape(rounds, 2) / (problem.penalty, 1.0)
    assert ((bounds > 1) & (bounds < 1 + 1e-8)).all()  # what is at its bound, up to rounding, does not join


def test_a_singular_basis_is_no_vertex():
    programme = Programme(np.ones((2, 2)), np.ones(2), 0.1)
    assert interior._vertex(programme, np.ones(2), np.ones(2)) is None
    assert interior._vertex(programme, np.ones(2), np.array([1.0, 0.0])) is None


@pytest.mark.parametrize("size", [1, 5, interior.PANEL, interior.PANEL + 1, 2 * interior.PANEL + 7])
def test_factors_are_those_of_cholesky(size):
    rng = np.random.default_rng(size)
    matrix, weights = rng.standard_normal((size, size + 3)), rng.uniform(0.1, 2, size + 3)
    diagonal, right = rng.uniform(1, 2, size), rng.standard_normal(size)
    whole = (matrix * weights) @ matrix.T + np.diag(diagonal)
    factor = interior.factorise(interior.weighted_gram(matrix, weights, diagonal))
    solution = interior.solve_factorised(factor, right)
    np.testing.assert_allclose(whole @ solution, right, atol=1e-8)
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(whole), rtol=1e-8, atol=1e-8)


def test_factors_in_single_precision_are_refined(monkeypatch):
    programme, rng = some_programme(3)
    theta, phi, right = rng.uniform(0.1, 2, 40), rng.uniform(0.1, 2, 30), rng.standard_normal(30)
    whole = (programme.matrix * theta) @ programme.matrix.T + np.diag(1 / phi)
    expected = np.linalg.solve(whole, right)
    np.testing.assert_allclose(
        interior._refined_solver(programme, theta, phi, single=True)(right), expected, rtol=1e-9
    )

    solver = interior._solver

    def fail_in_single(matrix, *rest):
        if matrix.dtype == np.float32:
            raise LinAlgError
        return solver(matrix, *rest)

    monkeypatch.setattr(interior, "_solver", fail_in_single)
    np.testing.assert_allclose(
        interior._refined_solver(programme, theta, phi, single=True)(right), expected, rtol=1e-9
    )


def test_scattered_entries_are_multiplied_one_by_one():
    rng = np.random.default_rng(0)
    left, core = rng.standard_normal((7, 100)), np.zeros((100, 100))
    core[np.arange(100), np.arange(100)[::-1]] = rng.standard_normal(100)
    np.testing.assert_allclose(times_core(left, core), left @ core, atol=1e-14)
