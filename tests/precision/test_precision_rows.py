"""The problem of two wide tables is the problem of their covariance matrices, which are never formed."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array

from diffdag import InputError, Moments, precision_difference, simulate_pair
from diffdag.precision.dantzig import solve_dantzig
from diffdag.precision.descent import minimise
from diffdag.precision.dtrace import descend, solve_dtrace
from diffdag.precision.problem import standardise
from diffdag.precision.rows import standardise_rows
from diffdag.precision.scan import above, peaks


def wide_tables(p=60, n=(25, 30), seed=5, **options):
    pair = simulate_pair(p, neighbours=3, changes=5, weights=(0.8, 1.0), rng=seed, **options)
    return pair.first.sample(n[0], seed + 1), pair.second.sample(n[1], seed + 2)


def both_problems(fraction=0.6, **options):
    tables = wide_tables(**options)
    dense = standardise(*(Moments.from_array(table) for table in tables))
    penalty = fraction * dense.penalty_max
    return dense.at_penalty(penalty), standardise_rows(*tables)[0].at_penalty(penalty)


def whole(blocks):
    return np.vstack([block.copy() for _, block in blocks])


def test_every_question_has_the_same_answer():
    dense, rows = both_problems()
    rng = np.random.default_rng(0)
    entries = tuple(rng.integers(60, size=(2, 40)))
    some, others = rng.integers(60, size=(2, 7))
    sparse = csr_array(np.where(rng.random((60, 60)) < 0.01, rng.normal(size=(60, 60)), 0.0))
    assert rows.p == dense.p == 60
    assert rows.penalty_max == pytest.approx(dense.penalty_max)
    for mine, theirs in [
        (rows.first(some, others), dense.first(some, others)),
        (rows.second(some, others), dense.second(some, others)),
        (rows.at(entries), dense.at(entries)),
        (rows.target_at(entries), dense.target[entries]),
        (rows.residual_at(sparse, entries), dense.residual_at(sparse, entries)),
        (whole(rows.residual_blocks(sparse)), whole(dense.residual_blocks(sparse))),
        (whole(rows.price_blocks(sparse)), dense.sigma1 @ sparse.toarray() @ dense.sigma2),
    ]:
        np.testing.assert_allclose(mine, theirs, atol=1e-12)
    rough = whole(rows.residual_blocks(sparse, rough=True))
    np.testing.assert_allclose(rough, whole(dense.residual_blocks(sparse)), atol=rows.rough_error)
    for problem, error in ((rows, rows.rough_error), (dense, 1e-12)):
        blocks = [(one.copy(), two.copy()) for _, one, two in problem.products_with(sparse[:20])]
        for found, sigma in zip(zip(*blocks, strict=True), (dense.sigma1, dense.sigma2), strict=True):
            np.testing.assert_allclose(np.vstack(found), sparse[:20].toarray() @ sigma, atol=error)
    assert rows.singular()
    assert dense.singular()


@pytest.mark.parametrize("solve", [solve_dantzig, solve_dtrace])
def test_solvers_find_the_same_optimum(solve):
    dense, rows = (solve(problem) for problem in both_problems())
    assert dense.converged
    assert rows.converged
    assert rows.violation <= 1e-7
    assert rows.objective == pytest.approx(dense.objective, rel=1e-7)
    if solve is solve_dtrace:
        np.testing.assert_allclose(rows.delta.toarray(), dense.delta.toarray(), atol=1e-6)


@pytest.mark.parametrize("method", ["dantzig", "dtrace"])
def test_tables_give_what_their_moments_give(method):
    first, second = (table * np.geomspace(0.01, 100, 60) for table in wide_tables())
    from_rows = precision_difference(first, second, method=method, penalty=0.5)
    moments = [Moments.from_array(table) for table in (first, second)]
    expected = precision_difference(*moments, method=method, penalty=0.5)
    assert from_rows.names == expected.names
    assert from_rows.objective == pytest.approx(expected.objective, rel=1e-7)
    scale = np.sqrt(np.outer(*[moments[0].scatter.diagonal()] * 2))
    np.testing.assert_allclose(from_rows.matrix * scale, expected.matrix * scale, atol=1e-3)


def test_long_tables_and_other_estimators_go_through_moments():
    first, second = wide_tables(p=6, n=(200, 300))
    moments = [Moments.from_array(table) for table in (first, second)]
    for method in ("dtrace", "plugin"):
        np.testing.assert_array_equal(
            precision_difference(first, second, method=method).matrix,
            precision_difference(*moments, method=method).matrix,
        )
    with pytest.raises(InputError, match="two of a kind"):
        precision_difference(first, moments[1])


@pytest.mark.slow
def test_no_matrix_of_all_pairs_is_formed():
    p = 4000
    tables = wide_tables(p=p, n=(40, 40))
    precision_difference(*(table[:, :300] for table in tables), method="dtrace", penalty=0.9)  # import
    tracemalloc.start()
    try:
        answer = precision_difference(*tables, method="dtrace", penalty=0.9)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert answer.converged
    assert answer.entries.nnz > 0
    assert peak < 0.75 * 8 * p * p


def test_a_warm_start_leads_to_the_same_optimum_in_fewer_rounds():
    dense, _ = both_problems(fraction=0.5)
    _, start = descend(dense.at_penalty(1.1 * dense.penalty), None)
    warm, _ = descend(dense, start)
    cold = solve_dtrace(dense)
    assert warm.converged
    assert warm.iterations <= cold.iterations
    np.testing.assert_allclose(warm.delta.toarray(), cold.delta.toarray(), atol=1e-7)


@pytest.mark.parametrize("size", [40, 400])
def test_coordinate_descent_ends_where_the_conditions_hold(size):
    rng = np.random.default_rng(size)
    root = rng.standard_normal((size + 50, size)) / np.sqrt(size + 50)
    gram, target, penalty = root.T @ root, rng.standard_normal(size), 0.8
    values, solved = minimise(gram, target, np.zeros(size), penalty, 1e-9, 2000)
    gradient = gram @ values - target
    assert solved
    assert 0 < np.count_nonzero(values) < size
    assert np.abs(gradient).max() <= penalty + 1e-9
    np.testing.assert_allclose(gradient[values != 0], -penalty * np.sign(values[values != 0]), atol=1e-8)


def test_scans_find_the_largest_entries():
    matrix = np.random.default_rng(3).standard_normal((50, 40))

    def blocks():
        return ((start, matrix[start : start + 7].copy()) for start in range(0, 50, 7))

    scan = above(blocks(), 0.5, 30)
    largest = np.sort(np.abs(matrix).ravel())[-30:]
    assert scan.largest == np.abs(matrix).max()
    np.testing.assert_array_equal(np.sort(np.abs(matrix)[scan.entries]), largest)
    np.testing.assert_array_equal(np.sort(scan.sizes), largest)
    assert len(above(blocks(), 10.0, 30).sizes) == 0
    top = peaks(blocks(), 50)
    np.testing.assert_array_equal(top.columns, np.abs(matrix).argmax(axis=1))
    np.testing.assert_array_equal(top.values, matrix[np.arange(50), top.columns])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_copies_of_columns_do_not_keep_the_solver_busy_for_ever(seed):
    rng = np.random.default_rng(seed)
    tables = [rng.standard_normal((25, 60)) for _ in range(2)]
    tables = [np.column_stack([table, table[:, :30], -table[:, 30:40]]) for table in tables]
    answer = precision_difference(*tables, method="dtrace", penalty=0.6)
    assert answer.violation <= 1e-8


@pytest.mark.parametrize("penalty", [0.95, 0.975, 0.99, 0.999])
def test_penalties_just_below_the_largest_have_an_answer(penalty):
    first, second = (Moments.from_array(table) for table in wide_tables(p=20, n=(200, 200)))
    answer = precision_difference(first, second, method="dantzig", penalty=penalty)
    assert answer.converged
    assert 0 < answer.objective < 1


def test_a_variable_that_is_constant_in_one_table_is_refused():
    first, second = wide_tables(p=20, n=(200, 200))
    second[:, 3] = 1.0
    with pytest.raises(InputError, match=r"'X4'.*constant in the second table"):
        precision_difference(Moments.from_array(first), Moments.from_array(second), method="dtrace")
