"""Undirected methods: precision differences, joint graphical lasso, debiased tests."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from sklearn.covariance import graphical_lasso

import diffdag as dd
from diffdag.model.regression import regress
from diffdag.precision import _descent
from diffdag.reproduce.methods import belilovsky, joint_lasso, precision_based
from diffdag.reproduce.methods.belilovsky import difference_tests
from diffdag.reproduce.methods.joint_lasso import fused_graphical_lasso

METHODS = (*precision_based.METHODS, *joint_lasso.METHODS, *belilovsky.METHODS)
OFF = ~np.eye(6, dtype=bool)


def easy_pair():
    """X1 -> X3 vanishes and X4 -> X5 appears; X2 -> X3 stays, so the parents X1 and X2 of X3 differ, too."""
    first, second = np.zeros((6, 6)), np.zeros((6, 6))
    first[2, 0], first[2, 1], first[5, 4] = 0.8, 0.7, 0.6
    second[2, 1], second[4, 3], second[5, 4] = 0.7, 0.8, 0.6
    return dd.LinearSEM(first), dd.LinearSEM(second)


EXPECTED = {(0, 2), (0, 1), (3, 4)}


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
@pytest.mark.parametrize("seed", range(4))
def test_finds_the_changes_and_the_parents_they_join(method, seed):
    rng = np.random.default_rng([823_000, seed])
    models = easy_pair()
    change = models[0].precision() - models[1].precision()
    assert {(i, j) for i, j in np.argwhere(np.abs(change) > 1e-9).tolist() if i < j} == EXPECTED
    found = method.run(*(sem.sample_moments(50_000, rng) for sem in models))
    assert (found == found.T).all()
    edges = {(i, j) for i, j in np.argwhere(found).tolist() if i < j}
    assert edges >= EXPECTED
    assert len(edges - EXPECTED) <= (method.name == "debiased")  # its tests have a level of 5 %
    assert not method.directs


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_units_do_not_matter(method):
    rng = np.random.default_rng(823_100)
    tables = [sem.sample(1_000, rng) for sem in easy_pair()]
    scale = np.array([1e-4, 1, 10, 1e5, 3, 0.2])
    plain = method.run(*(dd.Moments.from_array(table) for table in tables))
    assert (plain == method.run(*(dd.Moments.from_array(table * scale) for table in tables))).all()


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_refuses_collinear_columns(method):
    rng = np.random.default_rng(823_200)
    table = rng.standard_normal((100, 6))
    table[:, 3] = table[:, 0] + table[:, 1]
    with pytest.raises(dd.InputError, match="linearly dependent in the second table"):
        method.run(easy_pair()[0].sample_moments(100, rng), dd.Moments.from_array(table))


@pytest.mark.filterwarnings("ignore::diffdag.DiffDagWarning")
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_fewer_rows_than_variables_give_an_answer_or_a_reason(method):
    rng = np.random.default_rng(823_300)
    few = [dd.Moments.from_array(rng.standard_normal((12, 20))) for _ in range(2)]
    if method.name == "plugin":
        with pytest.raises(dd.InputError, match="fewer rows than variables"):
            method.run(*few)
    else:
        assert method.run(*few).sum() <= 20


def covariances(seed, p=6, n=100):
    rng = np.random.default_rng([823_400, seed])
    pair = dd.simulate_pair(p, neighbours=min(3, p - 1), changes=min(3, p - 1), rng=rng)
    both = [sem.sample_moments(n, rng).covariance() for sem in (pair.first, pair.second)]
    return np.array([sigma / np.sqrt(np.outer(np.diag(sigma), np.diag(sigma))) for sigma in both])


@pytest.mark.parametrize("penalty", [0.3, 0.1, 0.02])
def test_without_fusion_it_is_the_graphical_lasso(penalty):
    sigmas = covariances(0)
    answer = fused_graphical_lasso(sigmas, np.ones(2), np.array([penalty]), np.zeros(1), tolerance=1e-8)
    assert answer.converged.all()
    for sigma, found in zip(sigmas, answer.precisions[0], strict=True):
        reference = graphical_lasso(sigma, penalty, tol=1e-8, enet_tol=1e-8, max_iter=500)[1]
        assert found == pytest.approx(reference, abs=2e-4)


def test_optimality_of_the_fused_lasso():
    """0 is a subgradient: what the penalties have to give is within what they can."""
    sigmas, weights = covariances(1), np.array([1.2, 0.8])
    sparsity, fusion = np.array([0.02, 0.1, 0.1]), np.array([0.05, 0.02, 0.3])
    answer = fused_graphical_lasso(sigmas, weights, sparsity, fusion, tolerance=1e-9)
    for l1, l2, (one, two) in zip(sparsity, fusion, answer.precisions, strict=True):
        force = [w * (np.linalg.inv(t) - s) for w, t, s in zip(weights, (one, two), sigmas, strict=True)]
        assert np.abs((force[0] + force[1])[OFF]).max() <= 2 * l1 + 1e-5
        assert np.diag(force[0] + force[1]) == pytest.approx(np.zeros(6), abs=1e-5)
        assert np.abs(force[0] - force[1]).max() <= 2 * (l1 + l2) + 1e-5
        pulls = l1 * np.sign(one) * OFF, l1 * np.sign(two) * OFF
        fixed = (one != two) & ((one != 0) & (two != 0) | ~OFF)
        assert (force[0] - pulls[0])[fixed] == pytest.approx(l2 * np.sign(one - two)[fixed], abs=1e-5)
        assert (force[1] - pulls[1])[fixed] == pytest.approx(l2 * np.sign(two - one)[fixed], abs=1e-5)
    assert (answer.precisions[2, 0] == answer.precisions[2, 1])[OFF].any()


def test_fused_lasso_against_a_general_solver():
    sigmas, l1, l2 = covariances(2, p=2, n=30), 0.1, 0.05
    answer = fused_graphical_lasso(sigmas, np.ones(2), np.array([l1]), np.array([l2]), tolerance=1e-9)

    def cost(precisions):
        smooth = sum(np.sum(s * t) - np.linalg.slogdet(t)[1] for s, t in zip(sigmas, precisions, strict=True))
        sparse = 2 * l1 * sum(abs(t[0, 1]) for t in precisions)
        return smooth + sparse + l2 * np.abs(precisions[0] - precisions[1]).sum()

    def unpack(x):
        return [np.array([[np.exp(a), b], [b, (np.exp(c) + b * b) / np.exp(a)]]) for a, b, c in (x[:3], x[3:])]

    options = {"xatol": 1e-9, "fatol": 1e-13, "maxiter": 20_000, "maxfev": 20_000, "adaptive": True}
    best = min(
        (minimize(lambda x: cost(unpack(x)), start, method="Nelder-Mead", options=options) for start in
         (np.zeros(6), np.array([0.3, -0.5, 0.1, 0.2, 0.4, 0.0]))), key=lambda run: run.fun
    )  # fmt: skip
    assert cost(answer.precisions[0]) <= best.fun + 1e-7
    assert cost(answer.precisions[0]) == pytest.approx(best.fun, abs=1e-4)


def test_debiased_tests_without_penalties_are_those_of_least_squares():
    rng = np.random.default_rng(823_500)
    pair = dd.simulate_pair(6, neighbours=3, changes=2, rng=rng)
    first, second = pair.first.sample_moments(500, rng), pair.second.sample_moments(800, rng)
    tests = difference_tests(first, second, sparsity=1e-7, fusion=1e-7, slack=(1e-7, 1e-7))
    for i in range(6):
        others = [j for j in range(6) if j != i]
        one, two = regress(first, i, others), regress(second, i, others)
        assert tests.differences[i, others] == pytest.approx(one.coefficients - two.coefficients, abs=1e-4)
        assert tests.stderrs[i, others] == pytest.approx(np.hypot(one.stderrs, two.stderrs), rel=1e-3)


def test_directions_are_optimal():
    """Against a general solver of the quadratic programme, within the tolerance of the coordinate descent."""
    sigmas, rows = covariances(3, p=4), np.array([100.0, 150.0])
    near, far, j = 0.1, 0.2, 1
    directions = np.linalg.inv(sigmas)
    how = belilovsky.COLUMN_TOLERANCE, belilovsky.COLUMN_SWEEPS, belilovsky.WIDENINGS
    _descent.fused_directions(sigmas, rows / rows.mean(), near, far, *how, directions)
    found = directions[:, :, j]

    def spread(m):
        return sum(
            part @ sigma @ part / n for part, sigma, n in zip(m.reshape(2, 4), sigmas, rows, strict=True)
        )

    def room(m):
        r1, r2 = (sigma @ part for sigma, part in zip(sigmas, m.reshape(2, 4), strict=True))
        sums = r1 + r2 - 2 * np.eye(4)[j]
        return np.concatenate([near - (r1 - r2), near + (r1 - r2), far - sums, far + sums])

    start = np.linalg.inv(sigmas)[:, :, j].ravel()
    best = minimize(spread, start, method="SLSQP", constraints={"type": "ineq", "fun": room}, tol=1e-12)
    assert best.success
    assert room(found.ravel()).min() >= -0.1 * near
    assert spread(found.ravel()) == pytest.approx(best.fun, rel=0.1)
    assert spread(found.ravel()) < 0.95 * spread(start)


@pytest.mark.parametrize(("p", "n", "sets"), [(6, 300, 60), (20, 60, 8)])
def test_p_values_of_null_data_are_uniform(p, n, sets):
    values = []
    for k in range(sets):
        rng = np.random.default_rng([823_600, p, k])
        sem = dd.simulate_pair(p, neighbours=2, rng=rng).first
        tests = difference_tests(*(sem.sample_moments(n, rng) for _ in range(2)))
        values.append(tests.p_values[~np.eye(p, dtype=bool)])
    found = np.concatenate(values)
    for level in (0.01, 0.05, 0.2, 0.5):
        share = (found < level).mean()
        # Tests of one data set depend on each other: the bounds are generous.
        assert abs(share - level) < 0.4 * level + 0.005, (level, share)


@pytest.mark.parametrize("rows", [(60, 600), (600, 60), (341, 3000)])
def test_tables_of_different_length_keep_the_level(rows):
    rejected = []
    for k in range(40):
        rng = np.random.default_rng([823_650, *rows, k])
        sem = dd.simulate_pair(8, neighbours=4, rng=rng).first
        tests = difference_tests(*(sem.sample_moments(n, rng) for n in rows))
        rejected.append((tests.p_values[~np.eye(8, dtype=bool)] < 0.05).mean())
    assert 0.02 < np.mean(rejected) < 0.08


def test_power_where_there_are_more_variables_than_rows():
    rng = np.random.default_rng(823_700)
    first, second = np.zeros((40, 40)), np.zeros((40, 40))
    first[1, 0] = first[3, 2] = second[3, 2] = 1.2
    moments = [dd.Moments.from_array(dd.LinearSEM(weights).sample(38, rng)) for weights in (first, second)]
    values = difference_tests(*moments).pair_p_values
    values[np.tril_indices(40)] = 1.0
    assert np.unravel_index(np.argmin(values), values.shape) == (0, 1)
    assert values[0, 1] < 1e-3
    assert values[2, 3] > 1e-2


def test_pairs_take_the_larger_p_value():
    rng = np.random.default_rng(823_800)
    tests = difference_tests(*(sem.sample_moments(200, rng) for sem in easy_pair()))
    assert (tests.pair_p_values == np.maximum(tests.p_values, tests.p_values.T)).all()
    z = tests.differences[OFF] / tests.stderrs[OFF]
    assert tests.p_values[OFF] == pytest.approx(2 * stats.norm.sf(np.abs(z)))
    with pytest.raises(dd.InputError, match="need 5 or more"):
        difference_tests(*(dd.Moments.from_array(rng.standard_normal((4, 3))) for _ in range(2)))
