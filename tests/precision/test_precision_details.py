"""Estimators of the precision difference, part by part: formulas written out, blocks of any size, limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from differences import (
    covariances,
    dense_hessian,
    every,
    kliep_point,
    lasso,
    problem_of,
    some_matrix,
    symmetric,
    tight,
)
from scipy.optimize import linprog
from scipy.sparse import csr_array

from diffdag import DiffDagWarning, InputError, Moments, precision_difference
from diffdag.precision import _descent, dantzig, descent, dtrace, kliep
from diffdag.precision import problem as problems
from diffdag.precision import rows as wide
from diffdag.precision.api import ESTIMATORS, _warn_unless_converged, solve_plugin, symmetrise
from diffdag.precision.problem import DifferenceProblem, Solution, pooled_scale, resolve_penalty, standardise
from diffdag.precision.scan import Peaks, above, peaks
from diffdag.reproduce.methods import clime


def whole(blocks):
    parts = [(start, block.copy()) for start, block in blocks]
    assert [start for start, _ in parts] == list(np.cumsum([0, *(len(block) for _, block in parts)])[:-1])
    return np.vstack([block for _, block in parts])


def both(blocks):
    """Two matrices that come together, block by block."""
    one, two = zip(*((first.copy(), second.copy()) for _, first, second in blocks), strict=True)
    return np.vstack(one), np.vstack(two)


# The problem


@pytest.mark.parametrize("room", [1, 5, 9, 13, 1000])
def test_blocks_of_any_size_make_the_whole(monkeypatch, room):
    monkeypatch.setattr(problems, "BLOCK", room)
    monkeypatch.setattr(problems, "PART", max(1, room // 3))
    problem, p = problem_of(880200), 4
    one, two, delta = problem.sigma1, problem.sigma2, some_matrix(880201)
    price = one @ delta @ two
    residual = price - (two - one)
    sparse = csr_array(delta)
    np.testing.assert_allclose(whole(problem.price_blocks(sparse)), price, atol=1e-12)
    np.testing.assert_allclose(whole(problem.residual_blocks(sparse)), residual, atol=1e-12)
    np.testing.assert_allclose(problem.residual_at(sparse, every(p)), residual.ravel(), atol=1e-12)
    rows, columns = np.array([3, 0, 3, 1, 3]), np.array([2, 2, 2, 0, 1])
    np.testing.assert_allclose(
        problem.residual_at(sparse, (rows, columns)), residual[rows, columns], atol=1e-12
    )
    left = some_matrix(880202, 5, 7)[:, :4]
    first, second = both(problem.products_with(csr_array(left)))
    np.testing.assert_allclose(first, left @ one, atol=1e-12)
    np.testing.assert_allclose(second, left @ two, atol=1e-12)
    columns = np.array([[0, 3, 1], [2, 2, 0]])
    grams = problem.pooled_grams(columns, 0.3, 0.7)
    for own, gram in zip(columns, grams, strict=True):
        np.testing.assert_allclose(gram, (0.3 * one + 0.7 * two)[np.ix_(own, own)], atol=1e-12)
    heights = {len(block) for _, block in problem.price_blocks(sparse)}
    assert max(heights) == min(4, max(1, room // 4))


def test_entries_of_the_kronecker_product():
    problem = problem_of(880203)
    left, right = (np.array([0, 2, 3]), np.array([1, 1, 0])), (np.array([3, 1]), np.array([2, 0]))
    big = np.kron(problem.sigma1, problem.sigma2)  # [(k, l), (i, j)] is Sigma1[k, i] Sigma2[l, j]
    expected = big[np.ix_(left[0] * 4 + left[1], right[0] * 4 + right[1])]
    np.testing.assert_allclose(problem.products(left, right), expected)
    np.testing.assert_array_equal(problem.target_at(left), (problem.sigma2 - problem.sigma1)[left])
    for found, sigma in zip(problem.at(left), (problem.sigma1, problem.sigma2), strict=True):
        np.testing.assert_array_equal(found, sigma[left])


def test_another_penalty_keeps_what_was_worked_out():
    problem = problem_of(880204)
    largest, target = problem.penalty_max, problem.target
    assert largest == np.abs(problem.sigma2 - problem.sigma1).max()
    other = problem.at_penalty(0.125)
    assert other.penalty == 0.125
    assert other.target is target
    assert vars(other)["penalty_max"] == largest
    assert DifferenceProblem(problem.sigma2, problem.sigma1, 0.0).penalty_max == largest


@pytest.mark.parametrize(("least", "singular"), [(0.0, True), (2 * np.finfo(float).eps, True), (1e-15, False)])
def test_a_matrix_is_singular_up_to_rounding(least, singular):
    almost = np.diag([least, 1.0])
    assert DifferenceProblem(almost, np.eye(2), 0.0).singular() == singular
    assert DifferenceProblem(np.eye(2), almost, 0.0).singular() == singular


def test_violations():
    problem = DifferenceProblem(np.eye(2), np.eye(2), 0.5)
    assert problem.violation(np.array([[0.1, -0.75], [0.2, 0.3]])) == 0.25
    assert problem.violation(np.array([[0.1, -0.25], [0.2, 0.3]])) == 0.0


def test_variables_are_divided_by_the_root_of_the_mean_variance():
    rng = np.random.default_rng(880205)
    tables = [rng.standard_normal((n, 3)) * [1, 5, 0.1] + 7 for n in (12, 20)]
    first, second = (Moments.from_array(table) for table in tables)
    variances = [table.var(axis=0) for table in tables]
    scale = np.sqrt((variances[0] + variances[1]) / 2)
    np.testing.assert_allclose(pooled_scale(first, second), scale)
    problem = standardise(first, second, 0.75)
    assert (problem.penalty, problem.p) == (0.75, 3)
    assert standardise(first, second).penalty == 0.0
    for sigma, table in ((problem.sigma1, tables[0]), (problem.sigma2, tables[1])):
        np.testing.assert_allclose(sigma, np.cov(table / scale, rowvar=False, bias=True), atol=1e-12)


@pytest.mark.parametrize(
    ("penalty", "expected"),
    [
        (0, 0.0),
        (0.5, 2.0),
        (2, 8.0),
        (np.float64(0.25), 1.0),
        ("rate:0", 0.0),
        ("rate:2", 2 * math.sqrt(math.log(9) / 50)),
    ],
)
def test_penalties_as_they_are_meant(penalty, expected):
    assert resolve_penalty(penalty, 4.0, 9, 50) == pytest.approx(expected)


@pytest.mark.parametrize(
    "penalty", [-1e-9, math.inf, math.nan, None, [0.1], "rate:-0.1", "rate:inf", "rate:", "0.3", "race:1"]
)
def test_penalties_without_a_meaning(penalty):
    with pytest.raises(InputError, match="penalty"):
        resolve_penalty(penalty, 4.0, 9, 50)


def test_what_a_sparse_matrix_consists_of():
    matrix = np.zeros((4, 4))
    matrix[3, 0], matrix[1, 2], matrix[1, 0] = 5.0, -2.0, 1.0
    rows, columns, core = problems.compressed(csr_array(matrix))
    assert (rows.tolist(), columns.tolist()) == ([1, 3], [0, 2])
    assert core.tolist() == [[1.0, -2.0], [5.0, 0.0]]


# Scans


@pytest.mark.parametrize("most", [1, 2, 3, 100])
@pytest.mark.parametrize("height", [1, 2, 5])
def test_the_largest_entries_of_blocks(height, most):
    matrix = np.random.default_rng(880210).permutation(np.arange(1, 26) * (-1.0) ** np.arange(25)).reshape(5, 5)
    blocks = [(start, matrix[start : start + height].copy()) for start in range(0, 5, height)]
    found = above(iter(blocks), 20.0, most)
    expected = sorted(np.abs(matrix)[np.abs(matrix) > 20])[-most:]
    assert found.largest == 25
    assert sorted(found.sizes) == expected
    np.testing.assert_array_equal(np.abs(matrix[found.entries]), found.sizes)
    large = np.random.default_rng(880211).standard_normal((40, 50))
    assert sorted(above(iter([(0, large.copy())]), 0.0, most).sizes) == sorted(np.abs(large).ravel())[-most:]
    blocks = [(start, matrix[start : start + height]) for start in range(0, 5, height)]
    tops = peaks(iter(blocks), 5)
    assert tops.columns.tolist() == np.abs(matrix).argmax(axis=1).tolist()
    assert tops.values.tolist() == [row[np.abs(row).argmax()] for row in matrix]
    assert tops.largest == 25


def test_a_scan_of_little():
    found = above(iter([(0, np.array([[0.5, -0.25]]))]), 1.0, 3)
    assert (found.largest, len(found.sizes), len(found.entries[0])) == (0.5, 0, 0)


# Wide tables


@pytest.mark.parametrize("room", [1, 3, 1000])
def test_wide_tables_in_blocks_of_any_size(monkeypatch, room):
    monkeypatch.setattr(wide, "HEIGHT", room)
    monkeypatch.setattr(wide, "PART", room)
    rng = np.random.default_rng(880220)
    tables = rng.standard_normal((4, 5)) + 3, rng.standard_normal((3, 5)) * 2
    problem, scale = wide.standardise_rows(*tables)
    one, two = (np.cov(table / scale, rowvar=False, bias=True) for table in tables)
    np.testing.assert_allclose((np.diag(one) + np.diag(two)) / 2, 1)
    delta = some_matrix(880221, 5)
    price, sparse = one @ delta @ two, csr_array(delta)
    np.testing.assert_allclose(whole(problem.price_blocks(sparse)), price, atol=1e-10)
    np.testing.assert_allclose(whole(problem.residual_blocks(sparse)), price - two + one, atol=1e-10)
    rough = whole(problem.residual_blocks(sparse, rough=True))
    assert rough.dtype == np.float32
    np.testing.assert_allclose(rough, price - two + one, atol=1e-4)
    left = some_matrix(880222, 5)
    first, second = both(problem.products_with(csr_array(left)))
    np.testing.assert_allclose(first, left @ one, atol=1e-4)
    np.testing.assert_allclose(second, left @ two, atol=1e-4)
    gram = problem.pooled_grams(np.array([[4, 0, 2]]), 0.4, 0.6)[0]
    np.testing.assert_allclose(gram, (0.4 * one + 0.6 * two)[np.ix_([4, 0, 2], [4, 0, 2])], atol=1e-4)
    for found, sigma in zip(problem.at(every(5)), (one, two), strict=True):
        np.testing.assert_allclose(found, sigma.ravel(), atol=1e-10)
    again = np.array([4, 0, 4]), np.array([1, 1])
    np.testing.assert_allclose(problem.first(*again), one[np.ix_(*again)], atol=1e-10)
    np.testing.assert_allclose(problem.second(*again), two[np.ix_(*again)], atol=1e-10)
    assert problem.penalty_max == pytest.approx(np.abs(two - one).max())
    other = problem.at_penalty(0.5)
    assert (other.penalty, problem.penalty, other.p) == (0.5, 0.0, 5)
    assert vars(other).keys() >= {"penalty_max", "_single"}


@pytest.mark.parametrize(("n", "singular"), [((5, 9), True), ((9, 5), True), ((6, 6), False)])
def test_rows_decide_whether_wide_tables_have_an_inverse(n, singular):
    rng = np.random.default_rng(880223)
    problem, _ = wide.standardise_rows(*(rng.standard_normal((rows, 5)) for rows in n))
    assert problem.singular() == singular


# The estimate


def test_mirrored_entries_are_made_equal():
    delta = np.array([[1.0, 2.0, -3.0], [-1.0, 0.0, 5.0], [3.0, 5.0, 2.0]])
    expected = [[1, -1, 0], [-1, 0, 5], [0, 5, 2]]  # the smaller one; the mean of 3 and -3
    found = symmetrise(csr_array(delta))
    assert found.toarray().tolist() == expected
    assert found.nnz == 6


def test_the_certificate_is_handed_on():
    rng = np.random.default_rng(880230)
    tables = [rng.standard_normal((n, 3)) @ (np.eye(3) + k) for k, n in ((0.1, 40), (0.3, 60))]
    first, second = (Moments.from_array(table, ("a", "b", "c")) for table in tables)
    answer = precision_difference(first, second.select(("c", "a", "b")), method="dtrace", penalty=0.25)
    problem = standardise(first, second)
    solution = dtrace.solve_dtrace(problem.at_penalty(0.25 * problem.penalty_max))
    assert (answer.penalty, answer.penalty_max) == (pytest.approx(0.25), pytest.approx(problem.penalty_max))
    told = (answer.objective, answer.violation, answer.gap, answer.iterations, answer.converged)
    assert told == pytest.approx(
        (solution.objective, solution.violation, solution.gap, solution.iterations, True), abs=1e-12
    )
    scale = pooled_scale(first, second)
    expected = symmetrise(solution.delta).toarray() / np.outer(scale, scale)
    np.testing.assert_allclose(answer.matrix, expected, atol=1e-12)
    assert (answer.names, answer.method) == (("a", "b", "c"), "dtrace")
    assert answer.matrix is answer.matrix


def test_equal_tables_differ_nowhere():
    table = np.random.default_rng(880231).standard_normal((20, 3))
    answer = precision_difference(table, table, penalty=0.3)
    assert (answer.entries.nnz, answer.penalty, answer.penalty_max) == (0, 0.0, 0.0)


@pytest.mark.parametrize(("rows", "formed"), [((3, 3), False), ((3, 4), True)])
def test_tables_with_as_many_rows_as_variables_go_through_moments(monkeypatch, rows, formed):
    rng = np.random.default_rng(880232)
    tables = [rng.standard_normal((n, 7)) for n in rows]
    seen = []
    monkeypatch.setattr(
        "diffdag.precision.api.standardise_rows",
        lambda *given: seen.append(given) or wide.standardise_rows(*given),
    )
    precision_difference(*tables, method="dtrace", penalty=0.99)
    assert (not seen) == formed


def test_the_smaller_number_of_rows_sets_the_rate():
    rng = np.random.default_rng(880233)
    for rows in ((3, 5), (5, 3), (30, 40), (40, 30)):
        tables = [rng.standard_normal((n, 9)) for n in rows]
        answer = precision_difference(*tables, method="dtrace", penalty="rate:5")
        assert answer.penalty * answer.penalty_max == pytest.approx(5 * math.sqrt(math.log(9) / min(rows)))


def test_constant_columns_and_mixed_input_are_refused():
    table = np.random.default_rng(880234).standard_normal((20, 3))
    constant = table.copy()
    constant[:, 1] = 2.0
    for pair, label in (((constant, table), "first"), ((table, constant), "second")):
        moments = [Moments(("a", "b", "c"), 20, t.mean(axis=0), 19 * np.cov(t, rowvar=False)) for t in pair]
        with pytest.raises(InputError, match=rf"(?s)b.*{label}|{label}.*b"):
            precision_difference(*moments)
    with pytest.raises(InputError, match="two of a kind"):
        precision_difference(table, Moments.from_array(table))


def test_stopping_early_is_told_with_its_figures():
    said = r"dtrace stopped after 7 iterations with violation 2\.5e-01 and gap 5\.0e-01; use a larger penalty"
    with pytest.warns(DiffDagWarning, match=said):
        _warn_unless_converged("dtrace", Solution(csr_array((2, 2)), 0.0, 0.25, 0.5, 7, False), 1.0)
    _warn_unless_converged("dtrace", Solution(csr_array((2, 2)), 0.0, 0.25, 0.5, 7, True), 1.0)


def test_plugin_says_how_good_its_inverse_is():
    problem = problem_of(880235)
    solution = solve_plugin(problem)
    expected = np.linalg.inv(problem.sigma1) - np.linalg.inv(problem.sigma2)
    np.testing.assert_allclose(solution.delta.toarray(), expected, atol=1e-10)
    assert solution.objective == pytest.approx(np.abs(expected).sum())
    assert (solution.gap, solution.iterations, solution.converged) == (0.0, 1, True)
    assert solution.violation < 1e-12
    assert (solution.delta != solution.delta.T).nnz == 0


# CLIME


def column_by_scipy(sigma, penalty, j):
    p, unit = len(sigma), np.eye(len(sigma))[j]
    signed = np.hstack([sigma, -sigma])
    answer = linprog(
        np.ones(2 * p),
        np.vstack([signed, -signed]),
        np.concatenate([unit + penalty, penalty - unit]),
        bounds=(0, None),
    )
    return answer.fun


@pytest.mark.parametrize("penalty", [0.05, 0.3])
def test_clime_columns_are_optimal(penalty):
    sigma = covariances(880240)[0]
    sigma = sigma / np.sqrt(np.outer(np.diag(sigma), np.diag(sigma)))
    found = clime.clime_columns(sigma, penalty, [2, 0])
    assert found.shape == (4, 2)
    for column, j in zip(found.T, (2, 0), strict=True):
        assert np.abs(sigma @ column - np.eye(4)[j]).max() <= penalty + 1e-8
        assert np.abs(column).sum() == pytest.approx(column_by_scipy(sigma, penalty, j), rel=1e-7)
    assert clime.clime_columns(sigma, penalty, []).shape == (4, 0)


def test_clime_without_a_solution_says_so():
    with pytest.raises(InputError, match=r"penalty of 0\.2 \(Infeasible\)"):
        clime.clime_columns(np.array([[1.0, 1.0], [1.0, 1.0]]), 0.2, [0])


# Dantzig


def test_the_certificate_of_the_linear_programme():
    problem = problem_of(880250, fraction=0.5)
    delta, dual = some_matrix(880251), some_matrix(880252)
    one, two, b = problem.sigma1, problem.sigma2, problem.sigma2 - problem.sigma1
    residual, price = one @ delta @ two - b, one @ dual @ two
    for factor in (
        1.0,
        0.5 / np.abs(price).max(),
    ):  # a dual point that has to be scaled, and one that is feasible
        tops = [peaks(iter([(0, matrix.copy())]), 4) for matrix in (residual, factor * price)]
        found = dantzig._certify(problem, csr_array(delta), csr_array(factor * dual), *tops, 9, 1e-7)
        value = ((b * dual).sum() - problem.penalty * np.abs(dual).sum()) * factor
        value /= max(1.0, np.abs(factor * price).max())
        primal = np.abs(delta).sum()
        assert found.objective == pytest.approx(primal)
        assert found.violation == pytest.approx(np.abs(residual).max() - problem.penalty)
        assert found.gap == pytest.approx(abs(primal - value) / primal)
        assert (found.iterations, found.converged) == (9, False)


@pytest.mark.parametrize(
    ("largest", "primal", "done"),
    [(0.6, 1.0, True), (0.7, 1.0, False), (0.6, 1.2, False), (0.5, 1.0, True), (0.4, 1.0, True)],
)
def test_both_violation_and_gap_have_to_be_small(largest, primal, done):
    problem = DifferenceProblem(np.eye(2), np.eye(2) * 2, 0.5)
    delta = csr_array(np.array([[primal, 0.0], [0.0, 0.0]]))
    dual = csr_array(np.array([[2.0, 0.0], [0.0, 0.0]]))  # its value is 2 - 0.5 * 2 = 1
    tops = Peaks(np.zeros(2, int), np.array([0.1, -largest])), Peaks(np.zeros(2, int), np.array([1.0, 0.5]))
    solution = dantzig._certify(problem, delta, dual, *tops, 1, 0.1 + 1e-12)
    assert solution.converged == done
    assert solution.violation == pytest.approx(max(0, largest - 0.5))
    assert solution.gap == pytest.approx((primal - 1) / primal)


def test_the_worst_entries_wait_for_no_small_ones():
    found = Peaks(np.array([4, 3, 2, 1, 0]), np.array([0.5, -2.0, 1.0, 1.1, -1.6]))
    # Above the bound 1, and by more than a tenth of the largest excess.
    assert [part.tolist() for part in dantzig.worst_entries(found, 1.0, 9)] == [[1, 4], [3, 0]]
    rows, columns = dantzig.worst_entries(found, 0.9, 9)
    assert (rows.tolist(), columns.tolist()) == ([1, 3, 4], [3, 1, 0])
    assert dantzig.worst_entries(found, 0.9, 1)[0].tolist() == [1]
    assert sorted(dantzig.worst_entries(found, 0.9, 2)[0].tolist()) == [1, 4]
    assert len(dantzig.worst_entries(found, 2.0, 9)[0]) == 0
    assert len(dantzig.worst_entries(found, 3.0, 9)[0]) == 0
    many = Peaks(np.arange(30), np.random.default_rng(880251).permutation(30) / 100 + 2.0)
    worst = dantzig.worst_entries(many, 1.0, 3)[0]
    assert sorted(many.values[worst]) == pytest.approx([2.27, 2.28, 2.29])


def test_coefficients_are_brought_to_about_one():
    for one, two, unit in ((1.0, 1.0, 1.0), (3.0, 1.5, 4.0), (0.25, 0.5, 0.125)):
        problem = DifferenceProblem(np.diag([one - 0.1, one + 0.1]), np.diag([two, two]), 0.0)
        assert dantzig._unit(problem) == unit


def test_the_master_is_the_dual_on_some_entries():
    problem = problem_of(880253, fraction=0.4)
    master = dantzig._Master(problem)
    constraints, variables = (np.array([0, 1, 3]), np.array([1, 2, 3])), (np.array([2, 0]), np.array([2, 1]))
    b, signs = problem.target, np.sign(problem.target[variables])
    master._add_constraints(constraints)
    master._add_variables(variables, signs)
    delta, dual = master.solve()
    products = problem.products(constraints, variables) * signs
    cost = problem.penalty - np.abs(b[variables])
    answer = linprog(cost, np.vstack([products, -products]), np.ones(6), bounds=(0, dantzig.FIRST_BOUND))
    np.testing.assert_allclose(dual.toarray()[variables], signs * answer.x, atol=1e-7)
    assert np.abs(delta.data).sum() == pytest.approx(-answer.fun, rel=1e-6) or answer.x.max() > 999
    assert set(zip(*delta.nonzero(), strict=True)) <= set(zip(*constraints, strict=True))


def test_bounds_of_the_master(monkeypatch):
    monkeypatch.setattr(dantzig, "SMALL", 1)
    problem = problem_of(880254, fraction=0.4)
    master = dantzig._Master(problem)
    assert master.bound == 1e3
    master.sizes = np.array([1.0, 999.9])
    assert not master._at_bound()
    assert not master._relax_bounds()
    assert not master.unbounded()
    master.sizes = np.array([1.0, 1e3])
    assert master._at_bound()
    assert master.unbounded()
    assert master._relax_bounds()
    assert master.bound == 1e4
    assert not master.unbounded()
    master.bound, master.sizes = 1e9, np.array([1e9])
    assert not master._relax_bounds()
    master.sizes = np.array([3.0, 2.0])
    master.tighten_bounds()
    assert master.bound == 4.5
    master.sizes = np.array([4.5])
    assert not master.unbounded()  # bounds that were drawn closer say nothing
    master.sizes = np.zeros(2)
    master.tighten_bounds()
    assert master.bound == 4.5


def test_signed_entries_have_numbers_of_their_own():
    master = dantzig._Master(problem_of(880255))
    codes = [
        int(master._code((np.array([i]), np.array([j])), np.array([sign]))[0])
        for i in range(4)
        for j in range(4)
        for sign in (-1.0, 1.0)
    ]
    assert codes == list(range(32))
    assert master._code((np.array([1]), np.array([2])))[0] == 12


def test_what_the_master_knows_is_not_added_again():
    problem = problem_of(880256, fraction=0.4)
    master = dantzig._Master(problem)
    master.start()
    assert (len(master.signs), len(master.constraints[0])) == (32, 16)
    master.solve()
    worst = Peaks(np.array([1, 2, 3, 0]), np.array([5.0, -5.0, 5.0, 5.0]))
    assert not master.grow(worst, worst)  # all entries are there, and no bound holds
    assert (len(master.signs), len(master.constraints[0])) == (32, 16)


def test_violators_join_the_master(monkeypatch):
    monkeypatch.setattr(dantzig, "SMALL", 0)
    problem = problem_of(880257, fraction=0.4)
    master = dantzig._Master(problem)
    entry = np.array([0]), np.array([3])
    master._add_constraints(entry)
    master._add_variables(entry, np.array([1.0]))
    master.solve()
    within = problem.penalty / 2
    residual = Peaks(np.array([1, 2, 0, 0]), np.array([0.9 * problem.penalty, -3.0, within, within]))
    price = Peaks(np.array([0, 3, 0, 0]), np.array([1.5, -1.4, 1.0, 0.5]))
    assert master.grow(residual, price)
    # A residual that is too low needs more of the entry: the sign is the other one.
    assert [part.tolist() for part in master.variables] == [[0, 1], [3, 2]]
    assert master.signs.tolist() == [1.0, 1.0]
    assert [part.tolist() for part in master.constraints] == [[0, 0, 1], [3, 0, 3]]


@pytest.mark.parametrize("rounds", [1, 2])
def test_the_linear_programme_ends_after_so_many_rounds(monkeypatch, rounds):
    monkeypatch.setattr(dantzig, "SMALL", 0)
    monkeypatch.setattr(dantzig, "MAX_ROUNDS", rounds)
    solution = dantzig.solve_dantzig(problem_of(880258, 8, fraction=0.02))
    assert (solution.iterations, solution.converged) == (rounds, False)


def test_a_penalty_at_the_largest_leaves_nothing():
    problem = problem_of(880259, fraction=1.0)
    solution = dantzig.solve_dantzig(problem)
    assert (solution.delta.nnz, solution.objective, solution.violation, solution.gap) == (0, 0.0, 0.0, 0.0)
    assert (solution.iterations, solution.converged) == (0, True)


# D-trace and its descent


def test_optimality_conditions_of_a_lasso():
    gradient, values = np.array([-0.4, 0.7, 0.2, -0.9]), np.array([2.0, -1.0, 0.0, 0.0])
    assert descent._kkt(gradient, values, 0.5) == pytest.approx(0.4)  # |-0.9| - 0.5
    assert descent._kkt(gradient[:3], values[:3], 0.5) == pytest.approx(0.2)  # 0.7 - 0.5, on the support
    assert descent._kkt(gradient[2:3], values[2:3], 0.5) == 0.0
    assert descent._kkt(np.array([0.7]), np.array([-1.0]), 0.7) == 0.0


def test_one_sweep_of_coordinate_descent():
    gram, target = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([3.0, -0.4])
    values = np.array([0.0, 1.0])
    gradient = gram @ values - target
    _descent.sweep(gram, gradient, values, 0.5, 1)
    # x1 = (3 - 0.5 - 0.5) / 2 = 1; then x2 = soft(-0.4 - 0.5, 0.5) = -0.4.
    np.testing.assert_allclose(values, [1.0, -0.4])
    np.testing.assert_allclose(gradient, gram @ values - target)
    values = np.array([0.0, 1.0])
    gradient = gram @ values - target
    _descent.sweep(gram, gradient, values, 5.0, 1)
    np.testing.assert_allclose(values, 0.0)
    np.testing.assert_allclose(gradient, -target)


def test_later_sweeps_pass_over_zeros():
    # After the first sweep x1 is zero; only x2 then moves, although x1 could.
    gram, target = np.array([[1.0, 0.9], [0.9, 1.0]]), np.array([1.0, 2.0])
    values = np.array([0.0, 1.0])
    gradient = gram @ values - target
    _descent.sweep(gram, gradient, values, 0.2, 3)
    np.testing.assert_allclose(values, [0.0, 1.8])


def test_a_newton_step_solves_the_piece_or_stops_at_zero():
    gram, target = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([3.0, -0.4])
    start = np.array([0.5, -0.1])
    expected = np.linalg.solve(gram, target - 0.5 * np.sign(start))
    np.testing.assert_allclose(descent._newton(gram, target, start, 0.5), expected)
    # From the wrong sign of the second, which the full step would change, it stops at zero.
    found = descent._newton(gram, target, np.array([0.5, 0.1]), 0.5)
    assert found[1] == 0.0
    assert descent._value(gram, target - 0.5, found) <= descent._value(gram, target - 0.5, np.array([0.5, 0.1]))
    # What is zero stays so; a singular matrix leaves everything.
    assert descent._newton(gram, target, np.array([0.5, 0.0]), 0.5) == pytest.approx([1.25, 0.0])
    same = np.array([1.0, 2.0])
    assert descent._newton(np.ones((2, 2)), target, same, 0.5) is same


def test_the_value_of_a_piece():
    block, slope, values = np.array([[2.0, 1.0], [1.0, 4.0]]), np.array([1.0, -1.0]), np.array([3.0, 2.0])
    assert descent._value(block, slope, values) == 0.5 * (18 + 12 + 16) - 3 + 2


@pytest.mark.parametrize("seed", range(880260, 880266))
def test_descent_ends_at_the_minimum(seed):
    gram, target = lasso(seed)
    start = np.random.default_rng(seed).standard_normal(6)
    kept = start.copy()
    values, solved = descent.minimise(gram, target, start, 0.3, 1e-10, 500)
    assert solved
    assert descent._kkt(gram @ values - target, values, 0.3) <= 1e-10
    np.testing.assert_array_equal(start, kept)
    assert ((gram @ values - target)[values != 0] * values[values != 0] < 0).all()
    values, solved = descent.minimise(gram, target, start, 0.3, 1e-10, 9)  # less than one turn
    assert not solved
    np.testing.assert_array_equal(values, kept)
    assert not descent.minimise(gram, target, start, 0.3, -1.0, 20)[1]


def test_the_certificate_of_dtrace():
    problem = problem_of(880270, fraction=0.4)
    delta = some_matrix(880271)
    one, two, b = problem.sigma1, problem.sigma2, problem.target
    residual = one @ delta @ two - b
    seen = above(iter([(0, residual.copy())]), 0.1, 100)
    found = dtrace._certified(problem, csr_array(delta), seen, 3, 1e-8)
    size = problem.penalty * np.abs(delta).sum()
    objective = 0.5 * (delta * (one @ delta @ two)).sum() - (delta * b).sum() + size
    assert found.objective == pytest.approx(objective)
    assert found.gap == pytest.approx(abs((delta * residual).sum() + size) / abs(objective))
    assert found.violation == pytest.approx(np.abs(residual).max() - problem.penalty)
    assert (found.iterations, found.converged) == (3, False)
    # At the optimum both vanish; a slightly broken constraint is one within the tolerance only.
    best = dtrace.solve_dtrace(problem)
    assert best.converged
    assert best.gap < 1e-6
    residual = one @ best.delta.toarray() @ two - b
    for factor, done in ((1.0, True), (1.1, False)):
        seen = above(iter([(0, factor * residual)]), 0.1, 100)
        assert dtrace._certified(problem, best.delta, seen, 3, 1e-8).converged == done


def test_violators_of_the_pool():
    problem = problem_of(880272, fraction=0.2)
    delta = some_matrix(880273)
    residual = np.abs(problem.sigma1 @ delta @ problem.sigma2 - problem.target)
    residual[delta != 0] = 0.0
    pool = every(4)
    (rows, columns), excess = dtrace._violators(problem, csr_array(delta), pool, 0.01, 100)
    expected = np.flatnonzero(residual.ravel() > problem.penalty + 0.01)
    assert sorted(rows * 4 + columns) == expected.tolist()
    assert excess == pytest.approx(residual.max() - problem.penalty)
    nothing = csr_array((4, 4))
    (rows, columns), _ = dtrace._violators(problem.at_penalty(0.0), nothing, pool, 0.0, 3)
    assert sorted(rows * 4 + columns) == sorted(np.argsort(np.abs(problem.target).ravel())[-3:])
    (rows, columns), _ = dtrace._violators(problem, csr_array(delta), pool, 0.01, 2)
    assert sorted(rows * 4 + columns) == sorted(np.argsort(residual.ravel())[-2:])


def test_dtrace_ends_after_so_many_rounds_or_stalls(monkeypatch):
    problem = problem_of(880274, 6, fraction=0.1)
    full = dtrace.solve_dtrace(problem)
    assert full.converged
    none = dtrace.solve_dtrace(problem, max_rounds=0)
    assert (none.iterations, none.delta.nnz, none.converged) == (0, 0, False)
    assert none.violation == pytest.approx(problem.penalty_max - problem.penalty)
    short = dtrace.solve_dtrace(problem, max_sweeps=5)  # less than a turn: no working set is solved
    assert (short.iterations, short.converged) == (2, False)
    assert dtrace.solve_dtrace(problem, max_sweeps=5, patience=3).iterations == 3
    monkeypatch.setattr(dtrace, "MOST", 3)
    small = dtrace.solve_dtrace(problem)
    assert (small.converged, small.iterations) == (False, 2)
    monkeypatch.setattr(dtrace, "MOST", 8000)
    monkeypatch.setattr(dtrace, "POOL", 2)
    assert dtrace.solve_dtrace(problem).objective == pytest.approx(full.objective, rel=1e-6)


def test_a_pool_holds_what_comes_near_the_penalty():
    problem = problem_of(880275, fraction=0.5)
    seen = dtrace._look(problem, csr_array((4, 4)), rough=False)
    assert sorted(seen.sizes) == sorted(np.abs(problem.target)[np.abs(problem.target) > 0.8 * problem.penalty])


# KLIEP


def test_a_point_of_kliep():
    problem, delta = problem_of(880280), symmetric(880281)
    root = kliep._root(problem.sigma2)
    np.testing.assert_allclose(root @ root, problem.sigma2, atol=1e-12)
    np.testing.assert_allclose(root, root.T, atol=1e-12)
    point = kliep_point(problem, delta)
    fitted = np.linalg.inv(np.linalg.inv(problem.sigma2) + delta)
    np.testing.assert_allclose(point.fitted, fitted, atol=1e-9)
    np.testing.assert_allclose(point.gradient, problem.sigma1 - fitted, atol=1e-9)
    log_det = np.linalg.slogdet(np.eye(4) + problem.sigma2 @ delta)[1]
    size = problem.penalty * np.abs(delta).sum()
    assert point.objective == pytest.approx((delta * problem.sigma1).sum() - log_det + size)
    gap = (delta * point.gradient).sum() + size
    assert kliep._gap(problem, point) == pytest.approx(abs(gap) / abs(point.objective))
    inside = np.abs(point.gradient + problem.penalty * np.sign(delta))[delta != 0].max()
    outside = np.abs(point.gradient).max() - problem.penalty
    assert kliep._kkt(problem, point) == pytest.approx(max(inside, outside))


def test_entries_that_a_step_may_move():
    problem, delta = problem_of(880282, fraction=0.2), symmetric(880283)
    point = kliep_point(problem, delta)
    free = kliep._free(problem, point)
    upper = np.triu(np.ones((4, 4), bool))
    expected = upper & ((delta != 0) | (np.abs(point.gradient) > problem.penalty))
    assert set(zip(free.rows, free.columns, strict=True)) == set(zip(*np.nonzero(expected), strict=True))
    own = delta[free.rows, free.columns]
    wanted = np.where(own != 0, np.sign(own), -np.sign(point.gradient[free.rows, free.columns]))
    assert free.signs.tolist() == wanted.tolist()
    assert free.times.tolist() == [1.0 if i == j else 2.0 for i, j in zip(free.rows, free.columns, strict=True)]
    some = free.keep(free.rows == free.columns)
    assert (some.rows == some.columns).all()
    assert len(some.signs) == (free.rows == free.columns).sum()


def test_no_more_violators_join_than_double_the_support():
    p = 9
    problem = DifferenceProblem(np.eye(p) + 0.5, np.eye(p), 0.01)
    point = kliep_point(problem, np.zeros((p, p)))
    assert len(kliep._free(problem, point).rows) == 20  # of 45
    gradient = np.zeros((p, p))
    gradient[0] = gradient[:, 0] = 3.0
    gradient[np.triu_indices(p, 1)] = gradient.T[np.triu_indices(p, 1)] = np.arange(36) / 10 + 0.1
    free = kliep._free(problem, kliep._Point(np.zeros((p, p)), 0.0, gradient, np.eye(p)))
    sizes = np.abs(gradient[np.triu_indices(p)])
    assert sorted(np.abs(gradient[free.rows, free.columns])) == sorted(sizes)[-20:]


def test_newton_systems_of_kliep(monkeypatch):
    problem, delta = problem_of(880284, fraction=0.1), symmetric(880285)
    point = kliep_point(problem, delta)
    free = kliep._free(problem, point)
    right = np.arange(1.0, len(free.rows) + 1)
    expected = np.linalg.solve(dense_hessian(point.fitted, free), right)
    np.testing.assert_allclose(kliep._newton(point.fitted, free, right), expected, rtol=1e-6)
    monkeypatch.setattr(kliep, "DIRECT", len(right))
    np.testing.assert_allclose(kliep._newton(point.fitted, free, right), expected, rtol=1e-6)
    monkeypatch.setattr(kliep, "DIRECT", 0)
    rough = kliep._newton(point.fitted, free, right)
    left = dense_hessian(point.fitted, free) @ rough - right
    assert np.linalg.norm(left) <= 0.011 * np.linalg.norm(right)
    nothing = free.keep(np.zeros(len(right), bool))
    assert kliep._newton(point.fitted, nothing, right[:0]).size == 0


def test_a_singular_newton_system_is_damped():
    free = kliep._Free(np.array([0, 0]), np.array([0, 1]), np.ones(2))
    fitted = np.ones((2, 2))
    found = kliep._newton(fitted, free, np.array([1.0, 2.0]))
    hessian = dense_hessian(fitted, free)
    np.testing.assert_allclose(hessian @ found, [1.0, 2.0], rtol=1e-5)


@pytest.mark.parametrize("fraction", [0.5, 0.1])
def test_steps_of_kliep_go_down_to_the_optimum(fraction):
    problem = problem_of(880286, 5, fraction)
    solution = kliep.solve_kliep(problem)
    assert solution.converged
    assert solution.gap <= 1e-6
    last, rounding = None, 8 * np.finfo(float).eps  # at the optimum the last step gains no more than this
    for steps in range(solution.iterations + 1):
        found = kliep.solve_kliep(problem, max_steps=steps)
        assert found.iterations == steps
        least = rounding if steps == solution.iterations else 0.0
        assert last is None or found.objective < last + least
        assert found.converged == (steps == solution.iterations)
        last = found.objective
    point = kliep_point(problem, solution.delta.toarray())
    assert kliep._kkt(problem, point) <= 1e-8
    assert kliep._step(problem, kliep._root(problem.sigma2), point) is None or solution.iterations > 0


def test_solvers_are_quiet(capfd):
    dantzig.solve_dantzig(problem_of(880290, 5, 0.2))
    clime.clime_columns(np.eye(3) + 0.2, 0.1, [0, 1])
    assert capfd.readouterr() == ("", "")


# Where a solver begins, and when it ends


@pytest.mark.parametrize("seed", range(880301, 880305))
def test_with_all_entries_one_round_is_enough(seed):
    for p in (2, 5):
        solution = dantzig.solve_dantzig(problem_of(seed, p, 0.3))
        assert (solution.iterations, solution.converged) == (1, True)


def test_few_variables_begin_with_all_entries():
    for p, small in ((16, True), (17, False)):
        master = dantzig._Master(tight(p))
        master.start()
        assert (len(master.signs) == 2 * p * p) == small
        assert (len(master.constraints[0]) == p * p) == small
        if small:
            codes = master._code(master.variables, master.signs)
            assert sorted(codes) == list(range(2 * p * p))


def test_many_variables_begin_with_the_support_of_dtrace():
    problem = tight(17)
    master = dantzig._Master(problem)
    master.start()
    near = dtrace.solve_dtrace(problem.at_penalty(0.98 * problem.penalty)).delta.tocoo()
    expected = {
        (int(i), int(j)): float(np.sign(v)) for i, j, v in zip(near.row, near.col, near.data, strict=True)
    }
    begun = zip(*(part.tolist() for part in master.variables), master.signs.tolist(), strict=True)
    assert {(i, j): sign for i, j, sign in begun} == expected
    assert [part.tolist() for part in master.constraints] == [part.tolist() for part in master.variables]
    assert len(expected) > 2
    solution = dantzig.solve_dantzig(problem)
    assert solution.converged
    assert solution.iterations < 12


def test_just_below_the_largest_penalty_it_begins_with_the_largest_entry(monkeypatch):
    monkeypatch.setattr(dantzig, "SMALL", 0)
    monkeypatch.setattr(dantzig, "START_TOLERANCE", 1.0)  # so rough that D-trace finds nothing
    for sign in (1, -1):
        one, two = (np.eye(3), np.eye(3) + sign * np.diag([0.1, 0.5], 1) + sign * np.diag([0.1, 0.5], -1))
        master = dantzig._Master(DifferenceProblem(one, two, 0.49))
        master.start()
        assert [part.tolist() for part in master.variables] == [[1], [2]]
        assert [part.tolist() for part in master.constraints] == [[1], [2]]
        assert master.signs.tolist() == [float(sign)]


def test_no_more_violators_join_than_a_quarter_of_the_constraints(monkeypatch):
    monkeypatch.setattr(dantzig, "SMALL", 0)
    p = 40
    problem = DifferenceProblem(np.eye(p), 2 * np.eye(p), 0.5)
    master = dantzig._Master(problem)
    empty = np.zeros(0, np.intp)
    master._add_constraints((empty, empty))
    every_row = np.arange(p)
    worst = Peaks(every_row[::-1].copy(), 2.0 + every_row / 100)
    assert master.grow(worst, Peaks(every_row, np.full(p, 0.5)))
    assert sorted(master.variables[0].tolist()) == list(range(20, 40))  # twenty, and those are the worst
    assert master.grow(Peaks(every_row, np.full(p, 0.1)), worst)
    assert sorted(master.constraints[0].tolist()) == list(range(20, 40))
    master._add_constraints(every_of_rows := (np.repeat(np.arange(8), 10), np.tile(np.arange(10), 8)))
    assert len(every_of_rows[0]) + 20 == len(master.constraints[0]) == 100
    assert master.grow(Peaks(every_row, -worst.values), Peaks(every_row, np.full(p, 0.5)))
    assert len(master.signs) == 20 + 25
    assert set(master.signs[20:]) == {1.0}
    assert set(master.signs[:20]) == {-1.0}


def test_small_violations_are_none(monkeypatch):
    monkeypatch.setattr(dantzig, "SMALL", 0)
    master = dantzig._Master(DifferenceProblem(np.eye(2), 2 * np.eye(2), 0.5))
    entry = np.array([0]), np.array([0])
    master._add_constraints(entry)
    master._add_variables(entry, np.array([1.0]))
    master.solve()
    at = np.array([1, 1])
    assert not master.grow(Peaks(at, np.array([0.1, 0.5 + 5e-11])), Peaks(at, np.array([0.1, 1 + 5e-9])))
    assert master.grow(Peaks(at, np.array([0.1, 0.5 + 2e-10])), Peaks(at, np.array([0.1, 1 + 5e-9])))
    assert (len(master.signs), len(master.constraints[0])) == (2, 1)
    assert master.grow(Peaks(at, np.array([0.1, 0.1])), Peaks(at, np.array([0.1, 1 + 2e-8])))
    assert (len(master.signs), len(master.constraints[0])) == (2, 2)


def test_highs_runs_on_one_thread_and_is_exact():
    for highs in (dantzig._Master(problem_of(880306)).highs, clime._model(np.eye(2))):
        said = {name: highs.getOptionValue(name)[1] for name in ("threads", "presolve", "output_flag")}
        assert said == {"threads": 1, "presolve": "off", "output_flag": False}
        for name in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
            assert highs.getOptionValue(name)[1] == pytest.approx(1e-9)


def test_gaps_are_relative_however_small_the_difference():
    b = np.array([[0.0, 1e-3], [1e-3, 0.0]])
    problem = DifferenceProblem(np.eye(2), np.eye(2) + b, 0.25e-3)
    delta = csr_array(b)  # an objective of 2e-3 in the linear programme
    none = Peaks(np.zeros(2, int), np.zeros(2))
    assert dantzig._certify(problem, delta, csr_array((2, 2)), none, none, 1, 1.0).gap == pytest.approx(1.0)
    seen = above(iter([(0, np.zeros((2, 2)))]), 1.0, 1)
    found = dtrace._certified(problem, delta, seen, 1, 1.0)
    price = b @ problem.sigma2
    objective = 0.5 * (b * price).sum() - (b * b).sum() + problem.penalty * 2e-3
    gap = (b * (price - b)).sum() + problem.penalty * 2e-3
    assert found.objective == pytest.approx(objective)
    assert found.gap == pytest.approx(abs(gap) / abs(objective))
    point = kliep._Point(b, 1e-5, np.zeros((2, 2)), np.eye(2))
    assert kliep._gap(problem, point) == pytest.approx(problem.penalty * 2e-3 / 1e-5)
    nothing = kliep._Point(b, 0.0, np.zeros((2, 2)), np.eye(2))
    assert kliep._gap(problem, nothing) == pytest.approx(0.5e-6 / 1e-9)
    assert dantzig._certify(problem, csr_array((2, 2)), delta, none, none, 1, 1.0).gap == pytest.approx(
        1.5e-6 / 1e-9
    )


def test_a_gap_is_not_overlooked():
    problem = problem_of(880307, fraction=0.4)
    best = dtrace.solve_dtrace(problem)
    inside = above(iter([(0, np.zeros((4, 4)))]), 1.0, 1)
    assert dtrace._certified(problem, best.delta, inside, 1, 1e-8).converged
    off = dtrace._certified(problem, csr_array(best.delta * 1.001), inside, 1, 1e-8)
    assert 1e-6 < off.gap < 0.1
    assert not off.converged


def test_descents_end_alike():
    problem = problem_of(880308, 6, fraction=0.1)
    solution, end = dtrace.descend(problem, None, max_sweeps=5)
    assert (solution.iterations, solution.converged) == (2, False)
    assert (end.delta != solution.delta).nnz == 0
    whole_one, end = dtrace.descend(problem, None)
    assert whole_one.converged
    again, _ = dtrace.descend(problem, end)
    assert (again.iterations, again.converged) == (0, True)
    assert again.objective == whole_one.objective


def test_a_working_set_may_be_as_large_as_allowed(monkeypatch):
    one, two = np.eye(3), np.eye(3)
    two[0, 1] = two[1, 0] = 0.5
    problem = DifferenceProblem(one, two, 0.2)
    for most, solved in ((2, True), (1, False)):
        monkeypatch.setattr(dtrace, "MOST", most)
        assert dtrace.solve_dtrace(problem).converged == solved


@pytest.mark.parametrize("rounds", [0, 1])
def test_rough_looks_are_made_good_at_the_end(rounds):
    rng = np.random.default_rng(880309)
    problem, _ = wide.standardise_rows(rng.standard_normal((5, 12)), rng.standard_normal((6, 12)))
    problem = problem.at_penalty(0.2 * problem.penalty_max)
    solution = dtrace.solve_dtrace(problem, max_rounds=rounds)
    exact = np.abs(np.vstack([block for _, block in problem.residual_blocks(solution.delta)])).max()
    assert solution.violation == pytest.approx(exact - problem.penalty, abs=1e-12)
    assert solution.iterations == rounds


def test_a_turn_is_ten_sweeps():
    gram, target = lasso(880310)
    start = np.zeros(6)
    values, solved = descent.minimise(gram, target, start, 0.3, -1.0, 10)
    assert not solved
    assert values.any()
    expected, gradient = start.copy(), -target.copy()
    _descent.sweep(gram, gradient, expected, 0.3, 10)
    support = expected != 0
    free = np.ix_(support, support)
    exact = np.linalg.solve(gram[free], target[support] - 0.3 * np.sign(expected[support]))
    assert min(np.abs(values - expected).max(), np.abs(values[support] - exact).max()) < 1e-9


def test_newton_steps_never_go_up():
    """However far the full step overshoots a change of sign, some shorter one goes down."""
    rng, shortened = np.random.default_rng(880311), 0
    for _ in range(300):
        rows = rng.standard_normal((4, 3))
        gram, target, start = rows.T @ rows, 3 * rng.standard_normal(3), rng.standard_normal(3)
        signs = np.sign(start)
        slope = target - 0.5 * signs
        found = descent._newton(gram, target, start, 0.5)
        assert descent._value(gram, slope, found) <= descent._value(gram, slope, start)
        assert not (found * signs < 0).any()
        full = np.linalg.solve(gram, slope)
        full[full * signs < 0] = 0.0
        if descent._value(gram, slope, full) <= descent._value(gram, slope, start):
            np.testing.assert_allclose(found, full, atol=1e-6)
        else:
            shortened += 1
            steps = [start + 0.5**k * (np.linalg.solve(gram, slope) - start) for k in range(1, 12)]
            steps = [np.where(step * signs < 0, 0.0, step) for step in steps]
            assert min(np.abs(found - step).max() for step in steps) < 1e-6
    assert shortened > 3


def test_roots_of_matrices_that_rounding_made_indefinite():
    np.testing.assert_allclose(kliep._root(np.diag([4.0, -1e-17])), np.diag([2.0, 0.0]), atol=1e-12)


@pytest.mark.parametrize("seed", range(880312, 880318))
def test_directions_of_kliep_are_newtons(seed):
    problem, delta = problem_of(seed, 5, 0.15), np.zeros((5, 5))
    delta[:4, :4] = symmetric(seed + 30)
    point = kliep_point(problem, delta)
    free, direction = kliep._direction(problem, point)
    slopes = free.times * (point.gradient[free.rows, free.columns] + problem.penalty * free.signs)
    np.testing.assert_allclose(dense_hessian(point.fitted, free) @ direction, -slopes, atol=1e-8)
    at_zero = delta[free.rows, free.columns] == 0
    assert (direction[at_zero] * free.signs[at_zero] > 0).all()
    started = kliep._free(problem, point)
    support = set(zip(*np.nonzero(np.triu(delta)), strict=True))
    chosen = set(zip(free.rows, free.columns, strict=True))
    assert support <= chosen <= set(zip(started.rows, started.columns, strict=True))


@pytest.mark.parametrize("seed", range(880320, 880326))
def test_steps_of_kliep_are_the_first_sufficient_ones_or_better(seed):
    problem, delta = problem_of(seed, 4, 0.05), symmetric(seed + 30)
    point = kliep_point(problem, delta)
    found = kliep._step(problem, kliep._root(problem.sigma2), point)
    free, direction = kliep._direction(problem, point)
    slopes = free.times * (point.gradient[free.rows, free.columns] + problem.penalty * free.signs)
    before, objectives, sufficient = delta[free.rows, free.columns], [], []
    for halving in range(20):
        values = before + direction / 2**halving
        values = np.where(values * free.signs < 0, 0.0, values)
        matrix = np.zeros((4, 4))
        matrix[free.rows, free.columns] = matrix[free.columns, free.rows] = values
        inside = np.linalg.eigvals(np.eye(4) + problem.sigma2 @ matrix).real.min() > 0
        objectives.append(kliep_point(problem, matrix).objective if inside else math.inf)
        promised = slopes @ (values - before)
        sufficient.append(promised < 0 and objectives[-1] <= point.objective + 1e-4 * promised + 1e-13)
    first = sufficient.index(True)
    while objectives[first + 1] < objectives[first]:
        first += 1
    assert found.objective == pytest.approx(objectives[first], rel=1e-9)
    assert found.objective < point.objective


@pytest.mark.parametrize(("error", "fraction"), [(0.5, 0.8), (0.5, 0.5), (0.05, 0.5), (1e-5, 0.5)])
def test_however_rough_the_first_looks_are_the_end_is_exact(error, fraction):
    rng = np.random.default_rng(880330)
    problem, _ = wide.standardise_rows(rng.standard_normal((9, 12)), 1.5 * rng.standard_normal((9, 12)))
    penalty = fraction * problem.penalty_max
    rough = replace(problem.at_penalty(penalty), rough_error=error * penalty)
    solution = dtrace.solve_dtrace(rough)
    exact = np.vstack([block.copy() for _, block in rough.residual_blocks(solution.delta)])
    assert solution.converged
    assert np.abs(exact).max() <= penalty + 1e-8
    assert solution.delta.nnz > 0


def test_a_pool_is_solved_or_not():
    problem = problem_of(880331, 5, 0.2)
    delta, solved = dtrace._solve_on_pool(problem, csr_array((5, 5)), every(5), 1e-9, 2000)
    assert solved
    assert dtrace._certified(problem, delta, dtrace._look(problem, delta, rough=False), 1, 1e-8).converged
    assert not dtrace._solve_on_pool(problem, csr_array((5, 5)), every(5), 1e-9, 5)[1]
    some = np.array([0, 1]), np.array([0, 1])  # a pool that leaves out what else is wrong
    delta, solved = dtrace._solve_on_pool(problem, csr_array((5, 5)), some, 1e-9, 2000)
    assert solved
    assert set(zip(*delta.nonzero(), strict=True)) <= {(0, 0), (1, 1)}


def test_the_warning_points_to_the_caller(monkeypatch):
    table = np.random.default_rng(880332).standard_normal((20, 3))
    monkeypatch.setitem(
        ESTIMATORS, "plugin", lambda problem: Solution(csr_array((3, 3)), 0.0, 1.0, 1.0, 1, False)
    )
    with pytest.warns(DiffDagWarning, match="plugin stopped") as caught:
        precision_difference(table, 2 * table, method="plugin")
    assert caught[0].filename == __file__


def test_beyond_the_largest_penalty_no_constraint_is_broken():
    for solve in (dtrace.solve_dtrace, dantzig.solve_dantzig, kliep.solve_kliep):
        solution = solve(problem_of(880333, fraction=2.0))
        assert (solution.delta.nnz, solution.violation, solution.converged) == (0, 0.0, True)
