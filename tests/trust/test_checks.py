"""Checks agree with SciPy and brute force, fire on data made to break them, and stay silent on clean data."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.signal import lfilter

import diffdag as dd
from diffdag.model.regression import regress_jointly
from diffdag.ordersearch.search import Problem, walk_from
from diffdag.pipeline import REMEDIES, ModelOptions, prepare, prepare_moments, search
from diffdag.tables.align import align_tables
from diffdag.trust.checks.levels import by_level
from diffdag.trust.checks.moments_checks import (
    check_condition,
    check_means,
    check_order,
    check_size,
    moment_means,
)
from diffdag.trust.checks.outliers import _change, outlying
from diffdag.trust.checks.residual_view import View, _part, causal_names
from diffdag.trust.checks.reversals import AllOrders, block_cost, check_reversals
from diffdag.trust.checks.row_checks import (
    _repeated,
    autocorrelation_test,
    check_duplicates,
    kurtosis_test,
    skewness_test,
)
from diffdag.trust.checks.suite import check_moments_only, check_tables
from diffdag.trust.confidence import FORM
from diffdag.trust.splitting import split_rows

MOMENTS_ONLY = [
    "sample size",
    "condition",
    "noise variances",
    "means",
    "order",
    "reversals",
    "measurement error",
]
ROWS = ["normality", "noise levels", "range", "independent rows", "duplicated rows", "outliers"]
SOMETIMES = ["nested rows", "remedy"]


def checked(first, second, **options):
    return {check.name: check for check in dd.DifferenceDAG(**options).fit(first, second).result_.checks}


def fitted(one, two, **options):
    model = ModelOptions(**options)
    return search(prepare_moments(one, two, model), model)


def draw(seed=1, n=1500, p=6, changes=1, **options):
    pair = dd.simulate_pair(p, neighbours=3, changes=changes, weights=(0.5, 1.0), rng=seed, **options)
    return pair, [pair.first.sample(n, rng=seed + 100), pair.second.sample(n, rng=seed + 200)]


@pytest.fixture(scope="module")
def clean():
    pair, tables = draw()
    return pair, tables, checked(*tables)


def test_what_acts_on_a_check_and_what_tells_of_it_know_its_name():
    names = {*MOMENTS_ONLY, *ROWS, *SOMETIMES}
    assert names >= FORM
    assert all(names >= against for _, _, against in REMEDIES)
    page = Path(__file__).parents[2].joinpath("docs", "limits.md").read_text(encoding="utf-8")
    assert [name for name in sorted(names) if f'"{name}"' not in page] == []


def test_clean_data_pass_every_check(clean):
    checks = clean[2]
    assert list(checks) == [*MOMENTS_ONLY, *ROWS]
    assert [name for name, check in checks.items() if not check.passed] == []
    assert all(check.message and not check.message.endswith(".") for check in checks.values())


def test_checks_are_those_of_moments_where_there_are_no_rows(clean):
    pair = clean[0]
    one, two = pair.first.sample_moments(800, rng=1), pair.second.sample_moments(800, rng=2)
    checks = check_moments_only(fitted(one, two))
    assert [check.name for check in checks] == MOMENTS_ONLY


def test_units_do_not_matter(clean):
    _, (first, second), checks = clean
    scale, shift = 10.0 ** np.arange(-3, 3), np.arange(6) * 100.0
    again = checked(first * scale + shift, second * scale + shift)
    for name, check in checks.items():
        assert again[name].passed == check.passed
        if check.value is not None:
            assert again[name].value == pytest.approx(check.value, rel=1e-4, abs=1e-9), name


def test_few_rows_are_told_from_hopelessly_few():
    one, two = (
        dd.simulate_pair(10, neighbours=3, changes=0, rng=0).first.sample_moments(n, 1) for n in (45, 30)
    )
    assert not check_size(fitted(two, two)).passed
    assert "Theorem 4" in check_size(fitted(one, two)).message
    small = dd.Moments(("a", "b", "c"), 11, np.zeros(3), np.eye(3))
    assert "regressions on up to 2 variables" in check_size(fitted(small, small)).message
    assert check_size(fitted(replace(small, n=100), replace(small, n=100))).passed


def test_nearly_dependent_columns_are_named():
    rng = np.random.default_rng(0)
    table = rng.standard_normal((500, 5))
    fine = dd.Moments.from_array(table, list("abcde"))
    correlation = np.corrcoef(table, rowvar=False)
    assert check_condition(fine, fine).value == pytest.approx(np.linalg.cond(correlation))
    table[:, 3] = table[:, 0] - table[:, 1] + 1e-4 * rng.standard_normal(500)
    check = check_condition(fine, dd.Moments.from_array(table, list("abcde")))
    assert not check.passed
    assert "'a', 'b' and 'd' are nearly linearly dependent in the second table" in check.message


def test_means_are_compared_as_by_welch():
    rng = np.random.default_rng(1)
    first, second = rng.standard_normal((200, 4)), 2 * rng.standard_normal((90, 4))
    second[:, 2] += 1.5
    one, two = dd.Moments.from_array(first), dd.Moments.from_array(second)
    check = check_means(one.names, moment_means(one), moment_means(two))
    assert check.value == pytest.approx(stats.ttest_ind(first, second, equal_var=False).pvalue.min())
    assert not check.passed
    assert "'X3' moved" in check.message


@pytest.mark.parametrize(
    ("options", "remedy"),
    [({"noise": "equal"}, "'noise' with 'auto'"), ({"method": "paper"}, "'method' with 'order'")],
)
def test_noise_variances_matter_where_they_are_taken_for_equal(options, remedy):
    pair, (first, _) = draw()
    second = dd.LinearSEM(pair.second.weights, [1, 1, 3, 1, 1, 1]).sample(1500, rng=5)
    check = checked(first, second, **options)["noise variances"]
    assert not check.passed
    assert "'X3'" in check.message
    assert remedy in check.message
    allowed = checked(first, second)["noise variances"]
    assert allowed.passed
    assert "'X3'" in allowed.message


@given(n=st.integers(25, 400), seed=st.integers(0, 2**20))
@settings(max_examples=20, deadline=None)
def test_skewness_and_kurtosis_are_tested_as_by_scipy(n, seed):
    values = np.random.default_rng(seed).gamma(5.0, size=(3, n))
    values -= values.mean(axis=1, keepdims=True)
    values /= values.std(axis=1, keepdims=True)
    skew, kurt = (values**3).mean(axis=1), (values**4).mean(axis=1)
    np.testing.assert_allclose(skewness_test(skew, n), stats.skewtest(values, axis=1).pvalue, rtol=1e-8)
    np.testing.assert_allclose(kurtosis_test(kurt, n), stats.kurtosistest(values, axis=1).pvalue, rtol=1e-8)


def test_heavy_tails_and_skewness_are_seen():
    heavy = checked(*draw(noise="student")[1])["normality"]
    assert "heavy tails" in heavy.message
    assert not heavy.passed
    light = checked(*draw(noise="uniform")[1])["normality"]
    assert not light.passed
    assert "winsorised" not in light.message
    assert checked(*draw(noise="student")[1], covariance="winsorised")["normality"].value > heavy.value


def levels(moved: float, uneven: float, seed: int, n: int = 800):
    """Two tables of a chain whose noise grows with the level of its variables, which moved."""
    rng = np.random.default_rng(seed)
    tables = []
    for shift in (0.0, moved):
        rows = np.zeros((n, 4))
        for k in range(4):
            level = shift * (k == 0) + (rows[:, k - 1] if k else 0.0)
            rows[:, k] = level + np.exp(uneven * np.clip(level, -3, 3)) * rng.standard_normal(n) * (
                1 - 0.3 * (k > 0)
            )
        tables.append(rows)
    return tables


def test_noise_that_depends_on_moved_levels_is_seen():
    fires = sum(not checked(*levels(1.5, 0.4, seed))["noise levels"].passed for seed in range(10))
    assert fires >= 9
    for moved, uneven in ((1.5, 0.0), (0.0, 0.4), (0.0, 0.0)):
        assert all(checked(*levels(moved, uneven, seed))["noise levels"].passed for seed in range(10))


def test_a_level_fakes_the_ratio_of_variances_that_it_has():
    first, _ = levels(0.0, 0.4, 1, n=200_000)
    part = _part(first, len(first), np.arange(len(first)))
    ratio, distance = by_level(part)
    x, y = first[:, 0] - first[:, 0].mean(), first[:, 1] - first[:, 1].mean()
    left, high = y - x * (x @ y) / (x @ x), x > np.median(x)
    assert ratio[0] == pytest.approx(np.log(left[high].var() / left[~high].var()), abs=0.05)
    level = x * (x @ y) / (x @ x) / y.std()
    assert distance[0] == pytest.approx(level[high].mean() - level[~high].mean(), rel=1e-6)


def test_a_trifle_in_many_rows_is_no_alarm():
    rng = np.random.default_rng(3)
    tables = [rng.standard_t(40, (300_000, 3)) for _ in range(2)]
    checks = checked(*tables)
    assert stats.kurtosistest(tables[0][:, 0]).pvalue < 1e-6
    assert checks["normality"].passed


def test_autocorrelation_is_tested_as_by_ljung_and_box():
    rng = np.random.default_rng(4)
    series = rng.standard_normal(200)
    series = (series - series.mean()) / series.std()
    r = [series[lag:] @ series[:-lag] / 200 for lag in range(1, 6)]
    box = 200 * 202 * sum(x * x / (200 - lag) for lag, x in enumerate(r, 1))
    assert autocorrelation_test(series[None]) == pytest.approx(stats.chi2.sf(box, 5))


def test_series_are_told_from_independent_rows():
    _, tables = draw(n=1700)
    series = [lfilter([1], [1, -0.5], table, axis=0)[200:] for table in tables]
    check = checked(*series)["independent rows"]
    assert not check.passed
    assert check.value == pytest.approx(0.6, abs=0.12)  # (1 - 0.25) / (1 + 0.25)
    assert checked(*series, effective_samples="auto")["independent rows"].passed
    assert "whiten" in check.message
    assert checked(*series, whiten="ar")["independent rows"].passed
    ordered = [table[np.argsort(table[:, 5])] for table in tables]
    assert not checked(*ordered)["independent rows"].passed


def test_series_of_units_are_as_alike_as_they_like():
    rng = np.random.default_rng(6)
    series = [lfilter([1], [1, -0.6], rng.standard_normal((900, 4)), axis=0) for _ in range(2)]
    frames = [pd.DataFrame(own, columns=list("abcd")) for own in series]
    assert not checked(*frames)["independent rows"].passed
    people = [f"p{row // 90}" for row in range(900)]
    check = checked(*(own.assign(who=people) for own in frames), cluster="who")["independent rows"]
    assert check.passed
    assert "'who'" in check.message


def test_copies_are_seen_where_chance_does_not_explain_them():
    _, (first, second) = draw(n=400)
    copied = second.copy()
    copied[7] = copied[11]
    check = check_duplicates(align_tables(first, copied))
    assert not check.passed
    assert check.value == 1
    shared = second.copy()
    shared[:3] = first[5:8]
    assert "3 rows of them in both tables" in check_duplicates(align_tables(first, shared)).message
    rounded = [np.round(table / table.std(axis=0)) for table in (first, second)]
    assert check_duplicates(align_tables(*rounded)).passed
    assert check_duplicates(align_tables(*rounded)).value > 0


@given(seed=st.integers(0, 2**20), values=st.integers(2, 6))
@settings(max_examples=20, deadline=None)
def test_copies_are_counted_as_by_brute_force(seed, values):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, values, (40, 3)).astype(float) - 1
    table[0, 0] = -0.0
    table[:, 1] += rng.standard_normal(40)[rng.integers(0, 30, 40)]
    twice = [k for k in range(40) if any(np.array_equal(table[k], table[m]) for m in range(40) if m != k)]
    assert list(_repeated(table + 0.0)) == twice


def test_what_is_left_without_rows_is_what_a_fit_without_them_gives():
    _, (first, second) = draw(n=300)
    first[17, [0, 4]] = 30, 30
    names = tuple("abcdef")
    view = View(names, tuple(_part(table, 300.0, np.arange(len(table))) for table in (first, second)))
    out = outlying(view.parts[0], 0, 4, 1)
    assert list(out) == [17]
    none = np.zeros(0, int)
    without, error = _change(view, 0, 4, [0], [out, none])
    one = dd.Moments.from_array(np.delete(first, 17, axis=0), names)
    two = dd.Moments.from_array(second, names)
    joint = regress_jointly(one, two, 4, range(4), [0], separate=True)
    assert without == pytest.approx(joint.first[0] - joint.second[0], rel=1e-6)
    assert error == pytest.approx(joint.error_delta[0], rel=1e-6)


def test_rows_that_carry_a_change_are_named():
    _, (first, second) = draw(changes=0)
    spread = first.std(axis=0)
    first[[3, 500, 900], 0] += 14 * spread[0]
    first[[3, 500, 900], 5] += 14 * spread[5]
    fit = fitted(
        *(dd.Moments.from_array(table, list(align_tables(first, second).names)) for table in (first, second))
    )
    tables = align_tables(first, second)
    check = {check.name: check for check in check_tables(tables, fit)}["outliers"]
    assert not check.passed
    assert "4, 501, 901 of the first table" in check.message
    assert "winsorised" in check.message


def test_changes_that_a_few_rows_carry_are_not_listed_but_said():
    _, (first, second) = draw(changes=0)
    spread = first.std(axis=0)
    for column in (0, 5):
        first[[3, 500, 900], column] += 14 * spread[column]
    result = dd.DifferenceDAG().fit(first, second).result_
    assert result.edge_list == ()
    assert not result.noise_list


def test_near_ties_and_lonely_starts_are_told():
    fit = fitted(*(dd.Moments.from_array(table, list("abcdef")) for table in draw()[1]))
    assert check_order(fit).passed
    ties = replace(fit.optimum, margins={(1, 0): 0.7, (3, 2): 1.1, (5, 4): 9.0})
    check = check_order(replace(fit, optimum=ties))
    assert not check.passed
    assert "'a -> b' and 'c -> d'" in check.message
    for reached, said in ((0, "none of 8 starts"), (1, "only one of 8 starts")):
        lonely = replace(fit.optimum, starts=8, reached=reached)
        assert said in check_order(replace(fit, optimum=lonely)).message


def reversed_pair(n):
    """X3 -> X4 in the first condition, X4 -> X3 in the second, behind common causes X1 and X2."""
    before = np.zeros((5, 5))
    before[2, [0, 1]], before[3, [0, 1]], before[4, [2, 3]] = [0.9, -0.7], [0.6, 0.8], [0.7, -0.5]
    after = before.copy()
    before[3, 2], after[2, 3] = 0.9, 0.9
    models = dd.LinearSEM(before), dd.LinearSEM(after)
    return [model.sample_moments(n, rng=k) for k, model in enumerate(models)]


def problem_of(one, two):
    p = len(one.names)
    none = np.zeros((p, p), bool)
    return Problem.from_scatter(one.scatter, two.scatter, one.n, two.n, False, none, p)


def test_a_reversed_edge_is_seen_and_named():
    one, two = reversed_pair(2000)
    check = check_reversals(fitted(one, two))
    assert not check.passed
    assert "'X3' on 'X4' in the first condition" in check.message
    back = check_reversals(fitted(two, one))
    assert "'X4' on 'X3' in the first condition" in back.message


def test_ordinary_changes_are_no_reversal():
    for seed in range(3):
        pair = dd.simulate_pair(6, neighbours=4, changes=4, rng=seed)
        one, two = pair.first.sample_moments(2000, rng=seed), pair.second.sample_moments(2000, rng=seed + 50)
        assert check_reversals(fitted(one, two)).passed


def test_a_block_costs_what_least_squares_says():
    one, two = reversed_pair(2000)
    problem = problem_of(one, two)
    first, second = problem.first, problem.pooled - problem.first
    total = 2 * problem.rules.table[0, 4]  # the constant counts as the first
    for target, cause, where in ((3, 2, first), (2, 3, second)):
        gram = np.zeros((3, 3))
        gram[:2, :2] = problem.pooled[:2, :2]
        gram[2, :2] = gram[:2, 2] = where[:2, cause]
        gram[2, 2] = where[cause, cause]
        cross = np.append(problem.pooled[:2, target], where[cause, target])
        rss = problem.pooled[target, target] - cross @ np.linalg.solve(gram, cross)
        total += problem.rules.table[2, 4] / 2 * math.log(rss)
    root = np.diag(np.linalg.cholesky(problem.pooled[:4, :4]))
    total -= problem.rules.table[2, 4] * math.log(root[2] * root[3])
    assert block_cost(problem, [0, 1], 3, 2) == pytest.approx(total, rel=1e-9)


def test_dynamic_programming_agrees_with_all_orders():
    one, two = reversed_pair(300)
    problem = problem_of(one, two)
    everything = AllOrders(problem)
    walked = {order: walk_from(problem, order) for order in itertools.permutations(range(5))}
    costs = {order: (found.score - problem.base, found.costs) for order, found in walked.items()}
    assert everything.best == pytest.approx(min(total for total, _ in costs.values()), abs=1e-6)
    for members in ((0,), (0, 1), (1, 2, 4)):
        rest = [k for k in range(5) if k not in members]
        bits = sum(1 << k for k in members)
        ahead = min(
            sum(c[k] for k in members) for o, (_, c) in costs.items() if set(o[: len(members)]) == set(members)
        )
        behind = min(
            sum(c[k] for k in rest) for o, (_, c) in costs.items() if set(o[: len(members)]) == set(members)
        )
        assert everything.before[bits] == pytest.approx(ahead, abs=1e-6)
        assert everything.behind[bits] == pytest.approx(behind, abs=1e-6)
    best = max(everything.saved().items(), key=lambda item: item[1])
    assert best[0] == (3, 2)


def test_wide_tables_are_looked_at_through_what_was_kept():
    rng = np.random.default_rng(5)
    first, second = rng.standard_normal((60, 1500)), rng.standard_normal((60, 1500))
    second[:, 1] = second[:, 0] + 0.3 * second[:, 1]
    second[:, 1400] += 3
    tables = align_tables(first, second)
    options = ModelOptions()
    fit = search(prepare(tables, options), options)
    checks = {check.name: check for check in check_tables(tables, fit)}
    assert len(fit.kept) < 60
    assert set(causal_names(fit)) == {tables.names[k] for k in fit.kept}
    assert "'X1401'" in checks["means"].message
    assert not checks["sample size"].passed


def test_outlying_rows_are_named_as_in_the_users_table():
    _, (first, second) = draw(changes=0)
    spread = first.std(axis=0)
    first[[30, 500, 900], 0] += 14 * spread[0]
    first[[30, 500, 900], 5] += 14 * spread[5]
    first[:10, 2] = np.nan
    tables = align_tables(first, second, missing="drop")
    fit = fitted(*(dd.Moments.from_array(table, list(tables.names)) for table in (tables.first, tables.second)))
    check = {check.name: check for check in check_tables(tables, fit)}["outliers"]
    assert "31, 501, 901 of the first table" in check.message
    for half in split_rows(tables, 0):
        np.testing.assert_array_equal(half.first, first[half.places[0]])
        np.testing.assert_array_equal(half.second, second[half.places[1]])
