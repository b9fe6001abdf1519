"""Checks, number by number: limits that are just reached, and formulas against plain loops and regressions."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from diffdag.ordersearch.penalty import variance_penalty
from diffdag.ordersearch.search import Problem
from diffdag.pipeline import ModelOptions, prepare_moments, search
from diffdag.tables.align import align_tables
from diffdag.tables.moments import Moments
from diffdag.tables.nesting import Nesting
from diffdag.trust.by_unit import unit_notes
from diffdag.trust.checks import measurement_error, outliers
from diffdag.trust.checks.levels import by_level, check_levels
from diffdag.trust.checks.measurement_error import likeliest_error
from diffdag.trust.checks.moments_checks import (
    _condition,
    _variance_tests,
    check_order,
    check_size,
    effect_lower_bound,
    moment_means,
    table_means,
)
from diffdag.trust.checks.nested import check_nesting
from diffdag.trust.checks.outliers import _change, _lost, _rows_named, _variance_change, outlying
from diffdag.trust.checks.residual_view import View, _alike_last, _part
from diffdag.trust.checks.reversals import block_cost
from diffdag.trust.checks.row_checks import check_duplicates, check_normality, whitening_helps
from diffdag.trust.support import _Claim, _Estimate, _estimates, _Rows, _select, natural_spline

NAMES = tuple("abcd")


def chain(seed, n=200, p=4):
    rows = np.random.default_rng(seed).standard_normal((n, p))
    for k in range(1, p):
        rows[:, k] += 0.8 * rows[:, k - 1]
    return rows


def view_of(*tables, covariance="sample"):
    parts = [_part(table, float(len(table)), np.arange(len(table))) for table in tables]
    return View(NAMES[: tables[0].shape[1]], (parts[0], parts[1]), covariance)


def fitted(*tables, **options):
    model = ModelOptions(**options)
    return search(prepare_moments(*(Moments.from_array(t, list(NAMES)) for t in tables), model), model)


# Of moments


def test_variances_are_compared_by_what_is_left_along_the_order():
    tables = chain(1, 40), chain(2, 31) * [1.0, 2.0, 0.5, 1.0]
    found = _variance_tests(*(Moments.from_array(table) for table in tables))
    for k in range(4):
        left, free = [], []
        for table in tables:
            design = np.column_stack([np.ones(len(table)), table[:, :k]])
            left.append(np.linalg.lstsq(design, table[:, k], rcond=None)[1][0])
            free.append(len(table) - 1 - k)
        ratio, f = left[0] / free[0] / (left[1] / free[1]), stats.f(*free)
        assert found[k] == pytest.approx(2 * min(f.cdf(ratio), f.sf(ratio)))
    few = [Moments.from_array(chain(3, n)) for n in (5, 6)]
    assert _variance_tests(few[1], few[1]) is not None
    assert _variance_tests(few[0], few[1]) is None
    assert _variance_tests(few[1], few[0]) is None


def test_columns_of_the_weakest_direction_are_named():
    """Those whose share is at least a fifth of the largest."""
    table = np.random.default_rng(4).standard_normal((300, 4))
    weights = np.array([1.0, 0.3, -0.1])
    table[:, 3] = table[:, :3] @ weights + 1e-5 * table[:, 3]
    moments = Moments.from_array(table, list(NAMES))
    number, names = _condition(moments)
    scale = table.std(axis=0)
    shares = np.abs(np.append(weights, -1.0) * scale)
    assert names == tuple(np.array(list(NAMES))[shares >= 0.2 * shares.max()]) == ("a", "b", "d")
    assert number == pytest.approx(np.linalg.cond(np.corrcoef(table, rowvar=False)), rel=1e-3)
    assert _condition(replace(moments, n=4)) == (0.0, ())
    assert _condition(replace(moments, n=5))[1] == names


def test_no_more_than_two_hundred_columns_are_looked_at():
    table = np.random.default_rng(5).standard_normal((260, 203))
    table[:, 201] = table[:, 200]
    assert _condition(Moments.from_array(table))[0] < 1e4


def test_rows_have_to_exceed_four_per_variable():
    one = Moments(NAMES[:3], 12, np.zeros(3), np.eye(3))
    check = check_size(search_of(one))
    assert (check.passed, check.value, check.limit) == (False, 12, 12)
    assert "at least 12" in check.message
    assert check_size(search_of(replace(one, n=13))).passed


def search_of(moments):
    options = ModelOptions()
    return search(prepare_moments(moments, moments, options), options)


@pytest.mark.parametrize(("p", "changes", "epsilon"), [(157, 12, 0.1), (7, 9, 0.2), (40, 1, 0.05), (2, 1, 0.1)])
def test_the_bound_of_fano(p, changes, epsilon):
    strength = (2 * epsilon) ** 2 / (1 - (2 * epsilon) ** 2)
    few, many = p // 2, p - p // 2
    bounds = [
        (math.log(math.comb(few, k) * math.perm(many, k)) / 2 - math.log(2)) / (k * strength / 2)
        for k in range(1, min(changes, few) + 1)
    ]
    assert effect_lower_bound(p, changes, epsilon) == pytest.approx(max(0.0, *bounds))


def test_margins_are_slim_up_to_a_likelihood_ratio_of_about_five():
    fit = fitted(chain(6), chain(7))
    for margins, passed, value in (
        ({(1, 0): 1.5, (3, 2): 1.5}, False, 2),
        ({(1, 0): 1.5, (3, 2): 1.51}, True, 1),
        ({(1, 0): 1.51}, True, 0),
    ):
        check = check_order(replace(fit, optimum=replace(fit.optimum, margins=margins)))
        assert (check.passed, check.value, check.limit) == (passed, value, 2)
    calm = replace(fit.optimum, margins={}, starts=8)
    assert check_order(replace(fit, optimum=replace(calm, reached=2))).passed
    assert not check_order(replace(fit, optimum=replace(calm, reached=1))).passed


def test_means_and_the_rows_that_they_are_worth():
    table = chain(8, 50)
    moments = Moments.from_array(table)
    for n, mean, variance in (moment_means(moments), table_means(table, 50.4)):
        assert n == 50
        np.testing.assert_allclose(mean, table.mean(axis=0))
        np.testing.assert_allclose(variance, table.var(axis=0, ddof=1))
    for worth, rows in ((7.6, 8), (0.3, 2), (0.0, 0)):
        assert moment_means(replace(moments, mean_rows=worth))[0] == rows
    assert table_means(table, 1.2)[0] == 2


# Of rows


def test_parts_need_four_rows_more_than_variables():
    rows = chain(9, 30)
    assert _part(rows[:8], 8.0, np.arange(8)) is not None
    assert _part(rows[:7], 7.0, np.arange(7)) is None
    assert _part(rows, 7.9, np.arange(30)) is None
    rows[:, 2] = 1.0
    assert _part(rows, 30.0, np.arange(30)) is None
    for n, p, steady in ((12, 4, 3), (16, 4, 4), (30, 3, 3)):
        assert view_of(chain(9, n)[:, :p], chain(9, 99)[:, :p]).parts[0].steady == steady


def test_tails_and_skewness_are_those_of_what_is_left():
    rng = np.random.default_rng(10)
    first, second = chain(11, 4000), chain(12, 3000)
    first[:, 0] = rng.standard_t(5, 4000)
    second[:, 2] += 3 * (rng.gamma(2.0, size=3000) - 2)
    view = view_of(first, second)
    check = check_normality(view)
    skews, kurts, excess = [], [], 0.0
    for part in view.parts:
        for own in part.own:
            skews.append(stats.skewtest(own).pvalue)
            kurts.append(stats.kurtosistest(own).pvalue)
    assert check.value == pytest.approx(min(skews + kurts), rel=1e-6, abs=1e-290)
    assert check.limit == pytest.approx(0.01 / (4 * 8))
    excess = max(stats.kurtosis(own) for part in view.parts for own in (part.own[0], part.own[2]))
    assert f"the noise of 'a (first)' and 'c (second)' has heavy tails (excess kurtosis up to {excess:.2g}" in (
        check.message
    )
    short = check_normality(view_of(rng.uniform(size=(2000, 2)), rng.standard_normal((2000, 2))))
    assert not short.passed
    assert "'a (first)' and 'b (first)' is skewed or short-tailed" in short.message
    assert check_normality(view_of(chain(13, 20)[:, :2], chain(14, 99)[:, :2])) is not None
    assert check_normality(view_of(chain(13, 19)[:, :2], chain(14, 99)[:, :2])) is None
    assert "ask for confidence from resamples" in check.message
    assert "rely on the confidence from resamples" in check_normality(view, resampled=True).message


def test_levels_and_what_they_fake():
    rng = np.random.default_rng(15)
    tables = []
    for shift, n in ((0.0, 600), (1.0, 500)):
        x = shift + rng.standard_normal(n)
        y = x + np.exp(0.4 * x) * rng.standard_normal(n)
        tables.append(np.column_stack([x, y, y + rng.standard_normal(n), rng.standard_normal(n)]))
    view, faked = view_of(*tables), []
    for part, table in zip(view.parts, tables, strict=True):
        ratios, distances = by_level(part)
        for k in (1, 2, 3):
            design = np.column_stack([np.ones(len(table)), table[:, :k]])
            level = design @ np.linalg.lstsq(design, table[:, k], rcond=None)[0]
            left, high = table[:, k] - level, level > np.median(level)
            squares = [np.mean(left[own] ** 2) for own in (high, ~high)]
            fourth = np.mean(left**4) / np.mean(left**2) ** 2
            error = math.sqrt((fourth - 1) * (1 / high.sum() + 1 / (~high).sum()))
            assert ratios[k - 1] == pytest.approx(max(abs(math.log(squares[0] / squares[1])) - error, 0))
            apart = (level[high].mean() - level[~high].mean()) / table[:, k].std()
            assert distances[k - 1] == pytest.approx(apart)
        means = [abs(tables[0][:, k].mean() - tables[1][:, k].mean()) for k in (1, 2, 3)]
        errors = [math.sqrt(sum(own[:, k].var() / len(own) for own in tables)) for k in (1, 2, 3)]
        moved = np.maximum(np.array(means) - 2 * np.array(errors), 0) / table[:, 1:].std(axis=0)
        faked.append(np.mean((ratios * np.minimum(moved / distances, 2.0)) ** 2))
    check = check_levels(view, fitted(*tables))
    gain = 600 * 500 / 1100 * np.mean(faked) / 4
    assert check.value == pytest.approx(gain / variance_penalty(600, 500, 4, 4), rel=1e-6)
    assert check.passed == (check.value <= 0.25)


def test_copies_are_counted():
    first, second = chain(16, 100), chain(17, 100)
    second[[3, 50, 51]] = first[7], first[7], first[9]
    second[60] = second[61]
    check = check_duplicates(align_tables(first, second))
    assert check.value == 3 + 1 + 1  # three of one kind are three pairs
    assert check.message.startswith("4 of 200 rows are exact copies of others, 2 rows of them in both tables,")


def test_rows_of_a_series_are_whitened_where_that_is_possible():
    tables = [lfilter([1], [1, -0.8], chain(seed, 400), axis=0) for seed in (18, 19)]
    plain = align_tables(*tables)
    assert whitening_helps(plain)
    assert not whitening_helps(align_tables(chain(18, 400), chain(19, 400)))
    assert not whitening_helps(plain.whiten("ar"))
    assert not whitening_helps(replace(plain, gaps=True))
    assert not whitening_helps(replace(plain, taken=object()))
    assert not whitening_helps(replace(plain, design=object()))


# Rows that carry a change


@pytest.fixture(scope="module")
def carried():
    """Two tables, one row of the first of which adds to the effect of a on d."""
    first, second = chain(20, 150), chain(21, 120)
    first[:, 3] += first[:, 0]
    first[17, [0, 3]] = 12.0, 9.0
    return view_of(first, second)


@pytest.mark.parametrize(("side", "falls"), [(1.001, True), (0.999, False)])
def test_a_change_falls_where_its_likelihood_ratio_does_not_pay(carried, side, falls):
    rows = [outlying(part, 0, 3, 1) for part in carried.parts]
    assert [list(own) for own in rows] == [[17], []]
    none = [np.zeros(0, int)] * 2
    before, _ = _change(carried, 0, 3, [0], none)
    after, error = _change(carried, 0, 3, [0], rows)
    assert abs(1 - after / before) < 0.5
    free = 150 + 120 - 3 - 3
    ratio = free / 2 * math.log(1 + (after / error) ** 2 / free)
    found = _lost(carried, "a -> d", [0], 0, 3, 1, side * ratio)
    assert (found is not None) == falls
    if found:
        assert found.share == pytest.approx(abs(1 - after / before))
        assert [list(own) for own in found.rows] == [[17], []]


@pytest.mark.parametrize(("side", "falls"), [(1.001, True), (0.999, False)])
def test_a_noise_variance_falls_where_its_test_does_not_pay(side, falls):
    first, second = 1.6 * np.random.default_rng(22).standard_normal((150, 2)), chain(23, 120)[:, :2]
    first[17, 1] = 8.0
    view = view_of(first, second)
    rows = [outlying(part, None, 1, 1) for part in view.parts]
    assert [list(own) for own in rows] == [[17], []]
    kept = np.delete(first, 17, axis=0)
    frees, squares = [], []
    for table, own in ((kept, 149), (second, 120)):
        design = np.column_stack([np.ones(len(table)), table[:, 0]])
        squares.append(np.linalg.lstsq(design, table[:, 1], rcond=None)[1][0])
        frees.append(own - 2)
    ratio, f = squares[0] / frees[0] / (squares[1] / frees[1]), stats.f(*frees)
    log, chance = _variance_change(view, 1, rows)
    assert log == pytest.approx(math.log(ratio))
    assert chance == pytest.approx(2 * min(f.cdf(ratio), f.sf(ratio)))
    penalty = side * stats.chi2.isf(chance, 1) / 2
    assert (_lost(view, "noise of b", [], None, 1, 1, penalty) is not None) == falls


def test_influence_is_beyond_what_clean_rows_reach(monkeypatch):
    view = view_of(chain(24, 500), chain(25, 120))
    size = np.zeros(500)
    limit = math.log(500 * 3 / 0.01)
    size[[5, 6, 7, 8, 9, 10]] = limit * np.array([1.001, 0.999, 2, 3, 4, 5])
    monkeypatch.setattr(outliers, "_influence", lambda *_: size)
    assert outlying(view.parts[0], 0, 3, 3).tolist() == [5, 7, 8, 9, 10]
    size[11] = limit * 6  # no more than one in a hundred
    assert outlying(view.parts[0], 0, 3, 3).tolist() == [7, 8, 9, 10, 11]


def test_rows_are_named_from_one_on():
    rows = [np.array([0, 4, 7, 9, 10]), np.array([2])]
    assert _rows_named(rows) == "rows 1, 5, 8 and 2 more of the first table; row 3 of the second table"
    assert _rows_named([np.array([0, 4, 7]), np.array([], int)]) == "rows 1, 5, 8 of the first table"


# Reversed edges, and error in the columns


@pytest.mark.parametrize("seed", range(12))
def test_a_block_takes_other_coefficients_and_variances_where_they_pay(seed):
    """Two regressions, each with the least of four costs: with another coefficient or not, and variances."""
    rng = np.random.default_rng(seed)
    n1, n2 = 90, 70
    one, two = rng.standard_normal((n1, 3)), rng.standard_normal((n2, 3))
    one[:, 1] += one[:, 0]
    two[:, 1] += (1 - 0.15 * (seed % 4)) * two[:, 0]
    one[:, 2] += 0.5 * one[:, 0] + one[:, 1]
    two[:, 2] *= 1 + 0.12 * (seed % 3)
    moments = [Moments.from_array(table) for table in (one, two)]
    problem = Problem.from_scatter(
        moments[0].scatter, moments[1].scatter, n1, n2, False, np.zeros((3, 3), bool), 3
    )
    change, variance, free = (float(problem.rules.table[row, 3]) for row in range(3))
    total = 2 * change
    both = np.vstack([one - one.mean(axis=0), two - two.mean(axis=0)])
    side = np.repeat([1.0, 0.0], [n1, n2])
    for target, cause, there in ((1, 2, side), (2, 1, 1 - side)):
        costs = []
        for extra in (False, True):
            design = np.column_stack([both[:, 0], there * both[:, cause], *([side * both[:, 0]] * extra)])
            left = both[:, target] - design @ np.linalg.lstsq(design, both[:, target], rcond=None)[0]
            rss = left @ left
            squares = (left * side) @ left, (left * (1 - side)) @ left
            costs.append(free / 2 * math.log(rss) + change * extra)
            apart = n1 * math.log(squares[0] * (n1 + n2) / n1) + n2 * math.log(squares[1] * (n1 + n2) / n2)
            costs.append(free / 2 / (n1 + n2) * apart + change * extra + variance)
        total += min(costs[2:] if costs[2] < costs[0] else costs[:2])
    root = np.linalg.cholesky(both.T @ both)
    total -= free * math.log(root[1, 1] * root[2, 2])
    assert block_cost(problem, [0], 1, 2) == pytest.approx(total, rel=1e-9)


def test_error_grows_as_long_as_it_explains_more(monkeypatch):
    tables = [chain(seed, 400) for seed in (26, 27)]
    tables[1][:, 3] += tables[1][:, 0]
    fit = fitted(*tables)
    for values, share, gained in (
        ([0, 1, 3, 2, 9, 9, 9, 9, 9, 9], 0.2, 3.0),
        ([0, -1, 9, 9, 9, 9, 9, 9, 9, 9], 0.0, 0.0),
        (list(range(10)), 0.9, 9.0),
    ):
        said = iter(values)
        monkeypatch.setattr(measurement_error, "_log_likelihood", lambda *_, said=said: float(next(said)))
        found = likeliest_error(fit)
        assert found.gained == gained
        whole = likeliest_share(fit)
        assert found.share == pytest.approx(share * whole)
        np.testing.assert_allclose(found.variances, found.share * noise_of(tables, fit), rtol=1e-9)


def noise_of(tables, fit):
    """Residual variances along the order, in both conditions together."""
    both = np.vstack([table - table.mean(axis=0) for table in tables])
    order, found = list(fit.structure.order), np.zeros(4)
    for t, i in enumerate(order):
        design = np.column_stack([both[:, order[:t]], np.zeros(len(both))])
        left = both[:, i] - design @ np.linalg.lstsq(design, both[:, i], rcond=None)[0]
        found[i] = left @ left / len(both)
    return found


def likeliest_share(fit):
    """The largest share of the noise that leaves both scatter matrices positive definite."""
    noise = measurement_error._noise_variances(fit.structure, (fit.first, fit.second))
    root = np.diag(1 / np.sqrt(noise))
    return min(np.linalg.eigvalsh(root @ own.scatter @ root / own.n)[0] for own in (fit.first, fit.second))


# Range or mechanism


def test_splines_are_those_of_the_textbook():
    x = np.concatenate([np.linspace(0, 1, 101), np.linspace(2, 4, 101)])
    knots = [0.05, 0.65, 2.1, 2.7, 3.3, 3.9]
    knots.insert(1, 0.35)
    kept = [knots[0]]
    for knot in knots[1:]:
        if knot - kept[-1] > 0.08 * (3.9 - 0.05):
            kept.append(knot)
    t = np.array([*kept])
    if 0.95 - 0.65 > 0.08 * 3.85:
        t = np.sort(np.append(t, 0.95))

    def d(k):
        return (np.maximum(x - t[k], 0) ** 3 - np.maximum(x - t[-1], 0) ** 3) / (t[-1] - t[k])

    expected = np.column_stack([d(k) - d(len(t) - 2) for k in range(len(t) - 2)]) / (t[-1] - t[0]) ** 2
    found = natural_spline(x, 101)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=1e-12)
    # Three values give three knots, which bend once, and two give none.
    assert natural_spline(np.repeat([0.0, 1.0, 2.0], 40), 60).shape == (120, 1)
    assert natural_spline(np.repeat([0.0, 1.0], 60), 60).shape == (120, 0)


@pytest.mark.parametrize(
    ("left", "left_error", "curved", "curved_error", "stands", "falls"),
    [
        (0.7, 0.05, 0.7, 0.05, True, True),
        (0.59, 0.01, 0.7, 0.3, False, False),  # less than six tenths with the curves that rows ask for
        (0.7, 0.01, 0.59, 0.3, False, False),  # or with one of the cause
        (0.7, 0.22, 0.7, 0.3, False, False),  # not clear of its error
        (0.7, 0.2, 0.7, 0.3, True, False),
        (0.7, 0.2, 0.7, 0.36, False, False),
        (-0.7, 0.01, -0.7, 0.26, False, False),  # of another sign
        (0.1, 0.2, 0.1, 0.26, False, True),  # at most half is left
        (0.1, 0.26, 0.1, 0.26, False, False),
    ],
)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_what_stands_and_what_falls(left, left_error, curved, curved_error, stands, falls, sign):
    made = _Estimate(sign, 0.1, sign * left, left_error, sign * curved, curved_error, frozenset())
    assert (made.stands, made.falls) == (stands, falls)


def test_terms_are_chosen_by_what_they_explain_less_a_penalty():
    """Forward selection, against regressions of all remaining terms one by one."""
    rng = np.random.default_rng(28)
    for _ in range(20):
        n = 60
        fixed, terms = rng.standard_normal((n, 2)), [rng.standard_normal((n, k)) for k in (1, 2, 1, 3)]
        y = fixed[:, 0] + 0.3 * terms[0][:, 0] + 0.3 * terms[1].sum(axis=1) + rng.standard_normal(n)
        design = np.column_stack([fixed, *terms, y])
        ends = 2 + np.cumsum([0, 1, 2, 1, 3])
        places = [np.arange(a, b) for a, b in itertools.pairwise(ends)]
        for budget in (9, 3, 1):
            chosen, room = [], budget

            def squares(some, design=design, places=places, y=y):
                columns = [0, 1, *(k for g in some for k in places[g])]
                return float(np.linalg.lstsq(design[:, columns], y, rcond=None)[1][0])

            while True:
                falls = {
                    g: n * math.log(squares(chosen) / squares([*chosen, g])) - 4 * len(places[g])
                    for g in range(4)
                    if g not in chosen and len(places[g]) <= room
                }
                best = max(falls, key=lambda g, falls=falls: falls[g], default=None)
                if best is None or falls[best] <= 0:
                    break
                chosen.append(best)
                room -= len(places[best])
            assert _select(design.T @ design, 2, places, n, budget) == chosen


def hc3(design, y, count):
    """Coefficients of the first columns and their errors (MacKinnon and White 1985)."""
    inverse = np.linalg.inv(design.T @ design)
    beta = inverse @ design.T @ y
    left = (y - design @ beta) / (1 - np.einsum("ij,jk,ik->i", design, inverse, design))
    errors = np.sqrt(np.diag(inverse @ (design.T * left**2) @ design @ inverse))
    return np.column_stack([beta, errors])[:count]


def bent(seed, curve, n=(300, 240)):
    """Three causes of a fourth, of which the first may act by a square, and another slope of the second."""
    rng, parts = np.random.default_rng(seed), []
    for c, own in enumerate(n):
        x = rng.standard_normal((own, 3)) + 0.5 * c * np.eye(3)[0]
        y = x @ [0.8, 0.5 + 0.4 * c, -0.3] + curve * x[:, 0] ** 2 + (1 + c) * rng.standard_normal(own)
        parts.append(np.column_stack([x, y]))
    middle = (parts[0].mean(axis=0) + parts[1].mean(axis=0)) / 2
    scale = np.sqrt((parts[0].var(axis=0) + parts[1].var(axis=0)) / 2)
    return _Rows((np.vstack(parts) - middle) / scale, n[0], scale, 0.25)


@pytest.mark.parametrize(("curve", "seed"), [(0.0, 42), (0.6, 31)])
def test_what_is_left_of_a_change_beside_shared_curves(curve, seed):
    """By three regressions: of straight lines, with a square where rows ask for one, and with a spline."""
    rows = bent(seed, curve)
    v, half = rows.values, rows.condition
    assert half.tolist() == [-0.5] * 300 + [0.5] * 240
    claims = [_Claim((), (0,), v[:, 0]), _Claim((), (1,), v[:, 1])]
    found = _estimates(rows, 3, [2, 0, 1], claims)
    base = np.column_stack([half * v[:, 0], half * v[:, 1], np.ones(540), half, v[:, [2, 0, 1]]])
    left = v[:, 3] - base @ np.linalg.lstsq(base, v[:, 3], rcond=None)[0]
    noise = np.repeat([left[:300].std(), left[300:].std()], [300, 240])
    square, own = v[:, [0]] ** 2, [natural_spline(v[:, k], 300) for k in (0, 1)]
    asked = [square] if curve else []
    designs = [base, np.column_stack([base, *asked]), np.column_stack([base, *asked, *own])]
    three = [hc3(design / noise[:, None], v[:, 3] / noise, 2) for design in designs]
    for k, one in enumerate(found):
        for at, (value, error) in enumerate(zip(one[:6:2], one[1:6:2], strict=True)):
            assert (value, error) == pytest.approx((three[at][k, 0], three[at][k, 1] / 0.5), rel=1e-6)
        assert one.partners == frozenset()


def test_ranges_overlap_by_the_smaller_share_within_the_other():
    rng = np.random.default_rng(32)
    values = np.concatenate([rng.standard_normal(200), 1.0 + 3 * rng.standard_normal(100)])[:, None]
    rows = _Rows(values, 200, np.ones(1), 1.0)
    one, two = values[:200, 0], values[200:, 0]
    shares = [
        np.mean((own >= np.quantile(other, 0.025)) & (own <= np.quantile(other, 0.975)))
        for own, other in ((one, two), (two, one))
    ]
    assert rows.overlap(0) == min(shares) == shares[1] < 0.6
    assert rows.smaller == 100
    assert _Rows(values, 90, np.ones(1), 1.0).smaller == 90


def test_of_a_product_the_other_variable_is_a_partner():
    rng = np.random.default_rng(33)
    x = rng.standard_normal((600, 3))
    y = x @ [0.5, 0.5, 0.5] + 0.8 * x[:, 0] * x[:, 1] + rng.standard_normal(600)
    values = np.column_stack([x, y])
    rows = _Rows((values - values.mean(axis=0)) / values.std(axis=0), 300, np.ones(4), 1.0)
    one, two, three = (
        _estimates(rows, 3, [0, 1, 2], [_Claim((), (k,), rows.values[:, k])])[0].partners for k in range(3)
    )
    assert (one, two, three) == ({1}, {0}, set())


# The rest


def test_of_variables_without_an_order_the_one_most_alike_comes_last():
    """One after the other, by the ratio of what the others leave of each."""
    first, second = chain(34, 200), chain(35, 150) * [1.0, 1.5, 1.1, 0.6]
    moments = [Moments.from_array(table, list(NAMES)) for table in (first, second)]
    left, expected = list(range(1, 4)), []
    while left:
        ratios = {}
        for k in left:
            others = [0, *(j for j in left if j != k)]
            variances = []
            for table in (first, second):
                design = np.column_stack([np.ones(len(table)), table[:, others]])
                rss = np.linalg.lstsq(design, table[:, k], rcond=None)[1][0]
                variances.append(rss / (len(table) - len(others) - 1))
            ratios[k] = abs(math.log(variances[0] / variances[1]))
        last = min(ratios, key=ratios.get)
        expected.insert(0, NAMES[last])
        left.remove(last)
    assert _alike_last(["a"], ["b", "c", "d"], *moments) == expected
    assert _alike_last(["a", "b"], ["c"], *moments) == ["c"]


def test_a_small_skewness_in_many_rows_is_close_to_gaussian():
    rng = np.random.default_rng(36)
    tables = [rng.gamma(40.0, size=(20_000, 2)) for _ in range(2)]
    assert 0.2 < stats.skew(tables[0][:, 0]) < 0.45
    check = check_normality(view_of(*tables))
    assert check.passed
    assert check.value < 1e-20
    assert "close to Gaussian" in check.message
    assert "looks Gaussian" in check_normality(view_of(chain(37), chain(38))).message


def test_likelihoods_of_error_are_those_of_gaussian_rows():
    tables = [chain(seed, 60) for seed in (39, 40)]
    tables[1][:, 3] += tables[1][:, 0]
    fit = fitted(*tables)
    both, error = (fit.first, fit.second), np.array([0.1, 0.0, 0.2, 0.1])
    covariances = measurement_error._covariances(fit.structure, measurement_error.without_error(both, error))
    expected = 0.0
    for table, covariance in zip(tables, covariances, strict=True):
        rows = table - table.mean(axis=0)
        expected += stats.multivariate_normal(np.zeros(4), covariance + np.diag(error)).logpdf(rows).sum()
    constant = 120 * 4 / 2 * math.log(2 * math.pi)
    found = measurement_error._log_likelihood(fit.structure, both, error)
    assert found == pytest.approx(expected + constant, rel=1e-9)


def test_the_column_that_explains_most_is_named_and_three_others():
    def nesting(name, share, **other):
        return Nesting(name, 6, share, share, "x", 1e-9, True, True)._replace(**other)

    found = (
        *(nesting("donor", 0.3), nesting("plate", 0.5), nesting("site", 0.2)),
        *(nesting("run", 0.1), nesting("day", 0.15), nesting("never", 0.9, pvalue=0.5)),
    )
    check = check_nesting(SimpleNamespace(nesting=found))
    assert check.message.startswith("rows look nested in 'plate'")
    assert check.message.endswith("(also 'donor', 'site', 'run')")
    assert check_nesting(SimpleNamespace(nesting=found[1:2])).message.endswith("accounts for it")
    assert check_nesting(SimpleNamespace(nesting=found[5:])) is None
    for share, most, nested in ((0.05, 0.0, True), (0.049, 0.2, True), (0.049, 0.199, False)):
        assert nesting("a", share, most=most).looks_nested == nested
    assert not nesting("a", 0.5, possible=False).looks_nested
    assert not nesting("a", 0.5, pvalue=1e-3).looks_nested


@pytest.mark.parametrize(
    ("one", "two", "said"),
    [
        (range(12), range(12), "the same 12 in both conditions"),
        (range(12), range(12, 23), "12 and 11)"),
        (range(12), range(4, 15), "12 and 11, 8 of them in both"),
        (range(12), range(10), "12 and 10, 10 of them in both"),
        (range(11), range(8, 19), "11 and 11, 3 of them in both"),
    ],
)
def test_units_are_counted(one, two, said):
    members = np.repeat(list(one), 3), np.repeat(list(two), 3)
    design = SimpleNamespace(members=members, cluster="donor", single=False)
    (note,) = unit_notes(design, 99)
    assert said in note
    assert "tell little" not in note
    assert "allow p-values down to 0.01" in note
    few = SimpleNamespace(members=(members[0][:12], members[1][:27]), cluster="donor", single=False)
    assert "4 units in a condition tell little" in next(unit_notes(few, 99))
    nine = SimpleNamespace(members=(members[0], members[1][:27]), cluster="donor", single=False)
    assert "9 units in a condition tell little" in next(unit_notes(nine, 99))
    two_each = SimpleNamespace(members=(np.array([0, 0, 1]), np.array([2, 2, 3])), cluster="d", single=True)
    assert "can reach 5 %" in next(unit_notes(two_each, 99))
    assert list(unit_notes(None, 99)) == []
