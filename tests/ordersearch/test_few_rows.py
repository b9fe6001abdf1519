"""Few rows in one condition: which variables' own residuals moved."""

import itertools
from math import comb, log, log1p

import numpy as np
import pandas as pd
import pytest

import diffdag as dd
from diffdag._base.errors import InputError
from diffdag.ordersearch import parent_sets
from diffdag.ordersearch.few_rows import Reference, compare_means, draw_means, moved, moved_inside, tail_pvalues
from diffdag.ordersearch.parent_sets import draw_orders


def chain(n, shift=0.0, rows=1, seed=0):
    """Rows of X1 -> X2 -> X3 -> X4 -> X5, and a few in which the intercept of X3 moved."""
    rng = np.random.default_rng(seed)
    weights = np.diag([1.0, 1.2, -0.9, 1.1], -1)
    model = dd.LinearSEM(weights, noise_variances=np.ones(5))
    moved_by = np.linalg.solve(np.eye(5) - weights, shift * np.eye(5)[2])
    return model.sample(n, rng=rng), model.sample(rows, rng=rng) + moved_by


def test_sets_of_parents_agree_with_all_orders():
    """At p = 5 the probabilities are those of an average over all 120 orders."""
    rows, _ = chain(60)
    n, p = rows.shape
    table = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    scatter = table.T @ table

    def weight(i, some):
        left = n
        if some:
            own = scatter[np.ix_(some, some)]
            left = n - scatter[i, some] @ np.linalg.solve(own, scatter[some, i])
        fit = (n - 1 - len(some)) / 2 * log1p(n) - (n - 1) / 2 * log1p(left)
        return fit - log(comb(p - 1, len(some)))

    def subsets(of):
        return [list(s) for k in range(len(of) + 1) for s in itertools.combinations(sorted(of), k)]

    total, exact = 0.0, {}
    for order in itertools.permutations(range(p)):
        sums = [[(i, tuple(s), weight(i, s)) for s in subsets(order[:k])] for k, i in enumerate(order)]
        scores = [np.logaddexp.reduce([w for *_, w in own]) for own in sums]
        likely = np.exp(sum(scores))
        total += likely
        for own, score in zip(sums, scores, strict=True):
            for i, some, w in own:
                exact[i, some] = exact.get((i, some), 0.0) + likely * np.exp(w - score)
    for i, found in enumerate(draw_orders(scatter, n, np.random.default_rng(0)).parents()):
        own = found.regressions
        seen = {
            tuple(sorted(own.candidates[row].tolist())): np.exp(value)
            for row, value in zip(own.members, found.log_probabilities, strict=True)
        }
        for some, value in seen.items():
            assert value == pytest.approx(exact[i, some] / total, abs=0.05)


def test_t_of_rows_inside_is_that_of_a_regression_without_them():
    """Deleting a row and predicting it gives the same t as the formula for rows inside."""
    rows, _ = chain(40)
    rng = np.random.default_rng(0)
    ref = Reference.of(rows, rows.mean(axis=0), rng)
    own = ref.parents()[2].regressions
    inside, _ = moved_inside(own, ref.rows[:1], 1)
    rest = Reference.of(rows[1:], rows.mean(axis=0), rng)
    for k, members in enumerate(own.members):
        x = np.c_[np.ones(39), rest.rows[:, own.candidates[members]]]
        y = rest.rows[:, 2]
        new = (rows[0] - rest.mean) / rest.scale
        at = np.r_[1.0, new[own.candidates[members]]]
        beta, *_ = np.linalg.lstsq(x, y)
        left = y - x @ beta
        spread = left @ left / (39 - x.shape[1]) * (1 + at @ np.linalg.solve(x.T @ x, at))
        assert inside[k, 0] == pytest.approx((new[2] - at @ beta) ** 2 / spread, rel=1e-6)


def test_the_culprit_is_first_and_alone():
    rows, few = chain(200, shift=6.0)
    found = compare_means(rows, few, np.random.default_rng(0))
    assert np.argmin(found.pvalues) == 2
    assert found.pvalues[2] < 0.002
    assert (np.delete(found.pvalues, 2) > 0.005).all()
    assert abs(found.shifts[2] - 6.0) < 3 * found.errors[2]


def test_units_do_not_matter():
    rows, few = chain(120, shift=5.0)
    scale, start = np.array([1e-3, 5.0, 200.0, 1.0, 1e4]), np.array([3.0, -2.0, 1e3, 0.0, 5.0])
    plain = compare_means(rows, few, np.random.default_rng(0))
    scaled = compare_means(rows * scale + start, few * scale + start, np.random.default_rng(0))
    np.testing.assert_allclose(scaled.pvalues, plain.pvalues, rtol=1e-6)
    np.testing.assert_allclose(scaled.shifts, plain.shifts * scale, rtol=1e-6)


def test_the_order_of_columns_hardly_matters():
    """Orders are drawn at random, so only up to that."""
    rows, few = chain(200, shift=6.0)
    turned = [3, 0, 4, 2, 1]
    plain = compare_means(rows, few, np.random.default_rng(0)).evidence
    other = compare_means(rows[:, turned], few[:, turned], np.random.default_rng(0)).evidence
    np.testing.assert_allclose(other, plain[turned], atol=0.7)


def test_known_directions_are_kept():
    rows, _ = chain(100)
    table = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    before = np.zeros((5, 5), bool)
    before[np.triu_indices(5, 1)] = True  # the order of the columns
    for i, found in enumerate(draw_orders(table.T @ table, 100, np.random.default_rng(0), before).parents()):
        assert (found.regressions.candidates < i).all()


def test_pvalues_are_uniform_where_nothing_moved():
    pvalues = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        values = rng.standard_t(4, size=(200, 10))
        pvalues.append(tail_pvalues(values[0], values[1:]))
    values = np.concatenate(pvalues)
    assert 0.02 < (values < 0.1).mean() < 0.2
    assert 0.4 < values.mean() < 0.6


def test_a_tail_goes_on_beyond_the_largest_value():
    null = np.random.default_rng(0).exponential(size=(200, 3))
    near, far = (tail_pvalues(np.full(3, value), null) for value in (8.0, 16.0))
    assert (far < near).all()
    assert (near < 0.005).all()
    assert (far > 0).all()


def test_rows_that_stand_in():
    rows = np.arange(30.0)[:, None]
    assert draw_means(rows, 1, np.random.default_rng(0)).shape == (30, 1)
    np.testing.assert_allclose(draw_means(rows, 3, np.random.default_rng(0), in_sequence=True)[0], [1.0])


def test_more_rows_than_variables_are_not_needed():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 60))
    few = rng.normal(size=(2, 60))
    few[:, 7] += 9.0
    found = compare_means(rows, few, rng, most=30)
    assert np.argmin(found.pvalues) == 7


@pytest.mark.parametrize("rows", [1, 2, 9])
def test_fit_of_few_rows(rows):
    first, second = chain(150, shift=7.0, rows=rows)
    result = dd.DifferenceDAG().fit(first, second).result_
    assert result.samples == (150, rows)
    assert result.edges.empty
    assert result.nodes["variable"].iloc[0] == "X3"
    assert result.nodes["pvalue"].notna().all()
    assert result.mean_list[0].variable == "X3"
    assert result.mean_list[0].delta < 0  # first minus second
    assert sum("there are no edges" in note for note in result.notes) == 1
    assert "Ranked by evidence: X3 (p" in result.summary()


def test_few_rows_may_come_first():
    first, second = chain(150, shift=7.0)
    plain = dd.DifferenceDAG().fit(first, second).result_.changed_mean
    turned = dd.DifferenceDAG().fit(second, first).result_.changed_mean
    assert turned["delta"].iloc[0] == pytest.approx(-plain["delta"].iloc[0])


def test_a_saved_result_comes_back(tmp_path):
    first, second = chain(150, shift=7.0)
    result = dd.DifferenceDAG().fit(first, second, labels=("before", "during")).result_
    result.save(tmp_path)
    assert dd.load(tmp_path / "result.json") == result
    assert "there are no edges" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"resamples": 50}, "leave resamples out"),
        ({"fdr": 0.05}, "leave fdr out"),
        ({"controls": 50}, "leave controls out"),
        ({"intervals": "split"}, "leave intervals out"),
        ({"permutations": 99}, "leave permutations out"),
        ({"method": "paper"}, "at least 3 are needed"),
        ({"covariance": "winsorised"}, "at least 3 are needed"),
        ({"adjust": ["a"]}, "leave adjust out"),
    ],
)
def test_options_that_need_rows_are_refused(options, words):
    first, second = (pd.DataFrame(table, columns=list("abcde")) for table in chain(60))
    with pytest.raises(InputError, match=words):
        dd.DifferenceDAG(**options).fit(first, second)


def test_constant_columns_of_the_many_rows_are_left_out():
    first, second = (pd.DataFrame(table, columns=list("abcde")) for table in chain(60, shift=6.0))
    first["f"], second["f"] = 1.0, 2.0
    first["g"], second["g"] = 1.0, 1.0
    result = dd.DifferenceDAG().fit(first, second).result_
    assert result.variables == tuple("abcde")
    assert any("'f'" in note and "left out" in note for note in result.notes)


def test_too_few_rows_in_both_are_refused():
    with pytest.raises(InputError, match="at least 3 are needed"):
        dd.DifferenceDAG().fit(np.random.default_rng(0).normal(size=(12, 3)), np.ones((1, 3)))


def test_effort_shrinks_with_many_variables():
    few, many = parent_sets._effort(20), parent_sets._effort(400)
    assert many[0] < few[0]
    assert many[1] < few[1]
    squares, freedom = moved(parent_sets.ParentSets.none(0, 30).regressions, np.array([[2.0]]), 1)
    assert squares[0, 0] == pytest.approx(4.0 / (30 / 29 * (1 + 1 / 30)))
    assert freedom[0, 0] == 29
