"""Weights of edges: least squares from moments equals least squares on the rows."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import least_squares

from diffdag import Moments
from diffdag.model.regression import regress, regress_jointly

UNITS = np.array([1.0, 1e-6, 30.0, 1e6, 0.01])


def raw_table(n: int, seed: int = 0) -> np.ndarray:
    """Correlated columns in different units, far from zero."""
    rng = np.random.default_rng(seed)
    mixing = np.tril(rng.uniform(-1, 1, (5, 5)), -1) + np.eye(5)
    return (rng.standard_normal((n, 5)) @ mixing.T + rng.uniform(-20, 20, 5)) * UNITS


def ordinary_least_squares(table: np.ndarray, target: int, on: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and textbook standard errors of a regression with intercept on the raw rows."""
    scale = np.abs(table[:, on]).max(axis=0)  # lstsq cuts off small singular values
    design = np.column_stack([np.ones(len(table)), table[:, on] / scale])
    solution, _, rank, _ = np.linalg.lstsq(design, table[:, target])
    assert rank == design.shape[1]
    residual = table[:, target] - design @ solution
    variance = residual @ residual / (len(table) - design.shape[1])
    errors = np.sqrt(variance * np.diag(np.linalg.inv(design.T @ design)))
    return solution[1:] / scale, errors[1:] / scale


@settings(max_examples=25, derandomize=True, deadline=None)
@given(n=st.integers(8, 200), columns=st.permutations(range(5)), count=st.integers(1, 4))
def test_coefficients_and_errors_equal_least_squares_on_the_rows(n, columns, count):
    target, *on = columns[: count + 1]
    table = raw_table(n, seed=n)
    fit = regress(Moments.from_array(table), target, on)
    coefficients, errors = ordinary_least_squares(table, target, on)
    # A coefficient near zero is right relative to its standard error.
    np.testing.assert_allclose((fit.coefficients - coefficients) / errors, 0, atol=1e-7)
    np.testing.assert_allclose(fit.stderrs, errors, rtol=1e-7)


def test_one_degree_of_freedom_is_enough():
    table = raw_table(4)
    fit = regress(Moments.from_array(table), 2, [0, 4])
    coefficients, errors = ordinary_least_squares(table, 2, [0, 4])
    np.testing.assert_allclose(fit.coefficients, coefficients, rtol=1e-7)
    np.testing.assert_allclose(fit.stderrs, errors, rtol=1e-6)


def test_answers_come_in_the_order_asked_for():
    moments = Moments.from_array(raw_table(50))
    one, other = regress(moments, 2, [0, 3]), regress(moments, 2, [3, 0])
    np.testing.assert_allclose(one.coefficients, other.coefficients[::-1], rtol=1e-12)
    np.testing.assert_allclose(one.stderrs, other.stderrs[::-1], rtol=1e-12)


def test_answers_are_in_the_users_units():
    table, factors = raw_table(50), np.array([1e-6, 2.0, -5.0, 1e6, 0.1])
    before = regress(Moments.from_array(table), 2, [0, 3])
    after = regress(Moments.from_array(table * factors), 2, [0, 3])
    units = factors[2] / factors[[0, 3]]
    np.testing.assert_allclose(after.coefficients, before.coefficients * units, rtol=1e-9)
    np.testing.assert_allclose(after.stderrs, before.stderrs * np.abs(units), rtol=1e-9)


def test_little_noise_keeps_its_standard_error():
    rng = np.random.default_rng(1)
    causes = rng.standard_normal((200, 2))
    table = np.column_stack([causes, causes @ [2.0, -1.0] + 1e-4 * rng.standard_normal(200)])
    fit = regress(Moments.from_array(table), 2, [0, 1])
    coefficients, errors = ordinary_least_squares(table, 2, [0, 1])
    np.testing.assert_allclose(fit.coefficients, coefficients, rtol=1e-10)
    np.testing.assert_allclose(fit.stderrs, errors, rtol=1e-5)


def test_an_exact_relation_has_no_error():
    cause = np.random.default_rng(2).standard_normal(30)
    fit = regress(Moments.from_array(np.column_stack([cause, 3 * cause + 7])), 1, [0])
    assert fit.coefficients == pytest.approx([3], rel=1e-12)
    assert 0 <= fit.stderrs[0] < 1e-7


@pytest.mark.slow
def test_standard_errors_are_those_of_repeated_samples():
    rng = np.random.default_rng(3)
    found, stated = [], []
    for _ in range(400):
        cause = rng.standard_normal((60, 2))
        effect = cause @ [0.5, -1.0] + 2 * rng.standard_normal(60)
        fit = regress(Moments.from_array(np.column_stack([cause, effect])), 2, [0, 1])
        found.append(fit.coefficients)
        stated.append(fit.stderrs)
    np.testing.assert_allclose(np.mean(found, axis=0), [0.5, -1.0], atol=0.06)
    np.testing.assert_allclose(np.std(found, axis=0), np.mean(stated, axis=0), rtol=0.12)


# Both conditions


def two_tables(seed, factor, rows=(80, 110), *, noise=1.0, moved=0.0, extra=0.0, apart=0.0):
    """Four causes and, last, a variable on which all their effects are multiplied; one changes besides."""
    rng = np.random.default_rng(seed)
    mixing = np.tril(rng.uniform(-0.8, 0.8, (4, 4)), -1) + np.eye(4)
    b = rng.uniform(0.4, 1.2, 4) * rng.choice([-1.0, 1.0], 4)
    tables = []
    for n, slopes, scale, shift, mean in (
        (rows[0], b, 1.0, 0.0, 0.0),
        (rows[1], factor * b + [0.0, extra, 0.0, 0.0], noise, moved, apart),
    ):
        causes = rng.standard_normal((n, 4)) @ mixing.T + 5 + mean
        effect = causes @ slopes + 3 + shift + scale * rng.standard_normal(n)
        tables.append(np.column_stack([causes, effect]))
    return tables


def jointly(tables, *, changed=(), separate=False, gain=True):
    moments = [Moments.from_array(table) for table in tables]
    return regress_jointly(*moments, 4, range(4), changed, separate, gain)


class Fitted(NamedTuple):
    """Parameters of least squares on the rows, and their covariance."""

    b: np.ndarray  # slopes in the first condition
    factor: float
    shift: float
    extra: np.ndarray
    covariance: np.ndarray


def by_optimisation(tables, variances, changed=(), start=1.0):
    """Slopes, factor, two intercepts and extra slopes in the first condition, under known variances."""
    common = np.vstack(tables).mean(axis=0)
    first, second = (table - common for table in tables)

    def residuals(theta):
        b, factor, (one, two), extra = theta[:4], theta[4], theta[5:7], theta[7:]
        left = first[:, 4] - first[:, :4] @ b - one - first[:, list(changed)] @ extra
        right = second[:, 4] - second[:, :4] @ (factor * b) - two
        return np.concatenate([left / math.sqrt(variances[0]), right / math.sqrt(variances[1])])

    begin = np.concatenate([np.linalg.lstsq(first[:, :4], first[:, 4])[0], [start], np.zeros(2 + len(changed))])
    said = least_squares(residuals, begin, xtol=1e-15, ftol=1e-15, gtol=1e-15, method="lm")
    covariance = np.linalg.inv(said.jac.T @ said.jac)
    return Fitted(said.x[:4], said.x[4], said.x[5] - said.x[6], said.x[7:], covariance)


@pytest.mark.parametrize("changed", [(), (1,)])
@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("factor", [2.5, -0.8, 0.3])
def test_a_gain_and_its_errors_are_those_of_least_squares_on_the_rows(factor, separate, changed):
    tables = two_tables(
        891000, factor, noise=2.0 if separate else 1.0, moved=1.0, extra=1.5 if changed else 0.0, apart=0.5
    )
    fit = jointly(tables, changed=changed, separate=separate)
    variances = fit.variance_first, fit.variance_second
    expected = by_optimisation(tables, variances, changed, factor)
    spread = expected.covariance
    assert fit.gain.value == pytest.approx(expected.factor, rel=1e-6)
    assert fit.gain.stderr == pytest.approx(math.sqrt(spread[4, 4]), rel=1e-5)
    own = expected.b.copy()
    own[list(changed)] += expected.extra
    np.testing.assert_allclose(fit.first, own, rtol=1e-6)
    np.testing.assert_allclose(fit.second, expected.factor * expected.b, rtol=1e-6)
    # Derivatives of the coefficients by slopes, factor, intercepts and extra slopes.
    one, two = np.zeros((2, 4, len(spread)))
    one[range(4), range(4)], two[range(4), range(4)] = 1.0, expected.factor
    two[:, 4] = expected.b
    one[list(changed), range(7, 7 + len(changed))] = 1.0
    for error, forms in ((fit.error_first, one), (fit.error_second, two), (fit.error_delta, one - two)):
        np.testing.assert_allclose(error**2, np.einsum("ki,ij,kj->k", forms, spread, forms), rtol=1e-5)
    assert fit.shift.value == pytest.approx(expected.shift, rel=1e-6)
    assert fit.shift.stderr**2 == pytest.approx(spread[5, 5] + spread[6, 6] - 2 * spread[5, 6], rel=1e-5)
    assert len(fit.multiplied) == 4
    if not separate:
        freedom = sum(map(len, tables)) - 7 - len(changed)
        assert variances == pytest.approx([sum(fit.squares) / freedom] * 2, rel=1e-6)
        assert fit.gain.freedom == pytest.approx(freedom, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("factor", "separate"), [(2.0, False), (2.0, True), (-0.7, True), (0.0, False)], ids=str
)
def test_two_standard_errors_cover_the_factor_in_nineteen_of_twenty_tables(factor, separate):
    hits = 0
    for seed in range(891100, 891180):
        noise = 2.0 if separate else 1.0
        gain = jointly(two_tables(seed, factor, (60, 60), noise=noise), separate=separate).gain
        hits += abs(gain.value - factor) < 2 * gain.stderr
    assert 71 <= hits <= 80


@pytest.mark.parametrize("changed", [(), (1,)])
@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("seed", range(891300, 891305))
def test_swapping_the_conditions_inverts_the_factor(seed, separate, changed):
    factor = (2.5, -0.8, 0.3, 6.0, -1.5)[seed % 5]
    tables = two_tables(seed, factor, noise=1.5, moved=1.0, extra=1.0 if changed else 0.0)
    fit, other = (jointly(sides, changed=changed, separate=separate) for sides in (tables, tables[::-1]))
    assert other.gain.value == pytest.approx(1 / fit.gain.value, rel=1e-6)
    assert other.gain.stderr == pytest.approx(fit.gain.stderr / fit.gain.value**2, rel=1e-5)
    assert other.gain.freedom == pytest.approx(fit.gain.freedom, rel=1e-5)
    assert other.gain_pvalue == pytest.approx(fit.gain_pvalue, rel=1e-4)
    np.testing.assert_allclose(other.first, fit.second, rtol=1e-6)
    np.testing.assert_allclose(other.second, fit.first, rtol=1e-6)
    np.testing.assert_allclose(other.error_first, fit.error_second, rtol=1e-5)
    np.testing.assert_allclose(other.error_delta, fit.error_delta, rtol=1e-5)
    assert other.shift.value == pytest.approx(-fit.shift.value, rel=1e-6)
    assert other.shift.stderr == pytest.approx(fit.shift.stderr, rel=1e-6)
    alone = [k for k in range(4) if k not in changed]
    assert [other.multiplied[k] for k in alone] == [fit.multiplied[k] for k in alone]
    assert other.squares == pytest.approx(fit.squares[::-1], rel=1e-6)


def finite(fit):
    """Whether all numbers of a fit are."""
    parts = (fit.first, fit.second, fit.error_first, fit.error_second, fit.error_delta, fit.freedom_delta)
    return all(np.isfinite(part).all() for part in (*parts, fit.squares, fit.shift, fit.gain))


@pytest.mark.parametrize("changed", [(), (1,), (0, 2)])
@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("factor", [0.0, 1e-6, 1.0, 1e3, 1e6])
def test_effects_may_vanish_in_either_condition(factor, separate, changed):
    """With effects that change besides, too, which stay where the others vanish."""
    tables = two_tables(891400, factor, noise=2.0, extra=1.5)
    for sides in (tables, tables[::-1]):
        fit = jointly(sides, changed=changed, separate=separate)
        assert finite(fit)
        if changed == (1,) and (sides is tables) == (factor <= 1):  # where the factor is no larger than one
            assert abs(fit.gain.value - min(factor, 1 / max(factor, 1))) < 4 * fit.gain.stderr


def test_a_factor_of_exactly_zero_or_without_end_is_fitted():
    """From moments of a model in which nothing acts on the variable in one condition."""
    sigma = np.eye(5)
    acted_on = sigma.copy()
    acted_on[4, :4] = acted_on[:4, 4] = 0.5
    acted_on[4, 4] = 2.0
    calm, moved = (Moments(tuple("abcde"), 1000, np.zeros(5), 1000 * s) for s in (sigma, acted_on))
    there, gone = (
        regress_jointly(*pair, 4, range(4), (), True, True) for pair in ((moved, calm), (calm, moved))
    )
    assert there.gain.value == pytest.approx(0.0, abs=1e-6)
    assert abs(gone.gain.value) > 1e6
    assert finite(there)
    assert finite(gone)
    assert there.gain_pvalue < 1e-50
    assert gone.gain_pvalue == pytest.approx(there.gain_pvalue, rel=1e-3)


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("swapped", [False, True])
def test_an_effect_that_changes_besides_may_stay_where_all_others_vanish(swapped, separate):
    """From exact moments, so that the factor is zero and no number of an optimum without end."""

    def moments(slopes):
        sigma = np.eye(5)
        sigma[4, :4] = sigma[:4, 4] = slopes
        sigma[4, 4] = 1 + np.square(slopes).sum()
        return Moments(tuple("abcde"), 20_000, np.zeros(5), 20_000 * sigma)

    whole, little = [0.8, 0.85, -0.2, -0.55], [0.0, 0.5, 0.0, 0.0]
    sides = (little, whole) if swapped else (whole, little)
    fit = regress_jointly(*map(moments, sides), 4, range(4), (0, 1), separate, True)
    assert finite(fit)
    np.testing.assert_allclose(fit.first, sides[0], atol=1e-6)
    np.testing.assert_allclose(fit.second, sides[1], atol=1e-6)
    assert (1 / fit.gain.value if swapped else fit.gain.value) == pytest.approx(0.0, abs=1e-6)
    assert (fit.error_first < 0.1).all()
    assert (fit.error_second < 0.1).all()


def test_a_slope_of_zero_is_not_multiplied():
    rng = np.random.default_rng(891500)
    tables = [rng.standard_normal((400, 5)) for _ in "12"]
    for table, factor in zip(tables, (1.0, 3.0), strict=True):
        table[:, 4] += factor * table[:, :4] @ [1.0, -0.8, 0.0, 0.0]
    assert jointly(tables).multiplied == (True, True, False, False)


@pytest.mark.parametrize("changed", [(), (1,), (0, 3)])
def test_a_shift_is_that_of_least_squares_with_indicators_of_the_condition(changed):
    """Where all predecessors have their common mean; of equal noise."""
    units = np.array([1.0, 1e-3, 30.0, 1e3, 0.1])
    tables = [table * units for table in two_tables(891600, 1.0, moved=0.7, extra=1.0, apart=0.8)]
    fit = jointly(tables, changed=changed, gain=False)
    rows = np.vstack(tables)
    around = (rows - rows.mean(axis=0))[:, :4] / units[:4]
    group = np.repeat([1.0, 0.0], [len(table) for table in tables])
    own = around[:, list(changed)] * group[:, None]
    design = np.column_stack([group, np.ones(len(rows)), around, own])
    beta, rss, *_ = np.linalg.lstsq(design, rows[:, 4])
    freedom = len(rows) - design.shape[1]
    error = math.sqrt(rss[0] / freedom * np.linalg.inv(design.T @ design)[0, 0])
    assert fit.shift.value == pytest.approx(beta[0], rel=1e-9)
    assert fit.shift.stderr == pytest.approx(error, rel=1e-9)
    assert fit.shift.freedom == pytest.approx(freedom)
    assert fit.shift.pvalue == pytest.approx(2 * stats.t.sf(abs(beta[0]) / error, freedom), rel=1e-9)
    assert fit.gain is None


def test_without_predecessors_a_shift_is_the_difference_of_the_means():
    one, two = (table[:, 4:] for table in two_tables(891700, 1.0, noise=3.0, moved=2.0))
    moments = Moments.from_array(one), Moments.from_array(two)
    expected = one.mean() - two.mean()
    for separate in (False, True):
        shift = regress_jointly(*moments, 0, [], [], separate).shift
        welch = stats.ttest_ind(one[:, 0], two[:, 0], equal_var=not separate)
        assert shift.value == pytest.approx(expected)
        assert shift.value / shift.stderr == pytest.approx(welch.statistic)
        assert shift.pvalue == pytest.approx(welch.pvalue)


def heavy_halves(seed, n=200, p=4):
    rng = np.random.default_rng([892000, seed])
    noise = rng.standard_t(3, (2 * n, p)) * np.exp(0.5 * rng.standard_normal((2 * n, 1)))
    rows = noise @ np.linalg.inv(np.eye(p) - np.tri(p, k=-1) * 0.5).T
    return rows[:n], rows[n:]


@pytest.mark.slow
def test_with_rows_p_values_are_uniform_whatever_the_tails():
    found = []
    for seed in range(300):
        tables = heavy_halves(seed)
        moments = [Moments.from_array(table) for table in tables]
        plain, robust = (
            regress_jointly(*moments, 3, [0, 1, 2], [1], separate=True, rows=rows) for rows in (None, tables)
        )
        found.append(
            [fit_pvalue for fit in (plain, robust) for fit_pvalue in (fit.delta_pvalue(1), fit.variance_pvalue)]
            + [robust.shift.pvalue]
        )
    delta, variance, robust_delta, robust_variance, shift = (np.array(found) < 0.05).mean(axis=0)
    assert delta > 0.1  # what errors without rows make of it
    assert variance > 0.3
    assert max(robust_delta, robust_variance, shift) < 0.085  # 5 %, and chance


def test_with_gaussian_rows_errors_hardly_differ():
    rng = np.random.default_rng(7)
    tables = [rng.standard_normal((2000, 4)) @ np.tri(4).T for _ in "12"]
    moments = [Moments.from_array(table) for table in tables]
    for gain in (False, True):
        plain, robust = (
            regress_jointly(*moments, 3, [0, 1, 2], [] if gain else [1], True, gain, rows)
            for rows in (None, tables)
        )
        np.testing.assert_allclose(robust.error_first, plain.error_first, rtol=0.12)
        np.testing.assert_allclose(robust.error_delta, plain.error_delta, rtol=0.12)
        assert robust.shift.stderr == pytest.approx(plain.shift.stderr, rel=0.1)
        np.testing.assert_allclose(robust.first, plain.first)
        if gain:
            assert robust.gain.stderr == pytest.approx(plain.gain.stderr, rel=0.12)
