"""Autoregressions and what rows with a memory are worth, against plain loops and least squares."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.signal import lfilter

from diffdag.tables.effective_rows import mean_rows
from diffdag.tables.whiten import _Autoregression, _Lags, _with_others, make_filter


def series(n, coefficients, seed, p=1):
    """Columns of an autoregression with these coefficients."""
    noise = np.random.default_rng(seed).standard_normal((n + 200, p))
    return lfilter([1], np.append(1, -np.asarray(coefficients)), noise, axis=0)[200:]


def correlation(column, lag):
    deviations = column - column.mean()
    return float(deviations[lag:] @ deviations[:-lag]) / float(deviations @ deviations)


def loud_sum(column):
    """Autocorrelations up to the first five lags in a row within the noise."""
    n, quiet, kept = len(column), 0, []
    for lag in range(1, n):
        kept.append(correlation(column, lag))
        quiet = quiet + 1 if abs(kept[-1]) < 2 * math.sqrt(math.log10(n) / n) else 0
        if quiet == 5:
            break
    return sum(kept[: len(kept) - quiet])


@pytest.mark.parametrize(
    "columns",
    [
        [series(60, [0.3], 1)],  # too short for its lags to be told from noise: the freed coefficient counts
        [series(400, [0.1, 0.1, 0.1, 0.1, 0.1, 0.1], 2)],  # a long memory of small lags
        [series(300, [0.999], 3)],  # a memory without an end
        [series(200, [-0.6], 4)],  # worth no more than its rows
        [series(150, [0.8], 5, 2), series(150, [0.0], 6), np.full((150, 1), 3.0)],
    ],
)
def test_means_are_worth_what_kendall_and_bartlett_say(columns):
    table = np.hstack(columns)
    n, ratios = len(table), []
    for column in table.T:
        if np.ptp(column) == 0:
            ratios.append(1.0)
            continue
        rho = correlation(column, 1)
        rho = min(rho + (1 + 3 * rho) / n, 0.98) if rho > 2 / math.sqrt(n) else 0.0
        ratios.append(max(1.0, (1 + rho) / (1 - rho), 1 + 2 * loud_sum(column)))
    assert mean_rows(table) == pytest.approx(n * len(ratios) / sum(ratios), rel=1e-9)


def design(column, order, longest):
    """Steps, and what they are regressed on: minus the level before, and earlier steps; all centred."""
    y = np.array([column[t] - column[t - 1] for t in range(longest, len(column))])
    x = np.array(
        [
            [-column[t - 1], *(column[t - k] - column[t - k - 1] for k in range(1, order))]
            for t in range(longest, len(column))
        ]
    )
    return y - y.mean(), x - x.mean(axis=0)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_autoregressions_are_least_squares(order):
    table = series(80, [0.5, 0.2], 7, 3) * [1.0, 2.0, 5.0]
    lags = _Lags.of(table, 3)
    own, none = lags.fit(order), lags.fit(0)
    for j, column in enumerate(table.T):
        y, x = design(column, order, 3)
        theta, (rss,), *_ = np.linalg.lstsq(x, y, rcond=None)
        error = math.sqrt(rss / (77 - order - 1) * np.linalg.inv(x.T @ x)[0, 0])
        np.testing.assert_allclose(own.theta[:, j], theta, rtol=1e-7)
        assert (own.rss[j], own.error[j]) == pytest.approx((rss, error), rel=1e-7)
        assert lags.criterion(own)[j] == pytest.approx(77 * math.log(rss / 77) + order * math.log(77))
        level = ((column[3:] - column[3:].mean()) ** 2).sum()
        assert none.rss[j] == pytest.approx(level)
        assert lags.criterion(none)[j] == pytest.approx(77 * math.log(level / 77))


def test_common_autoregressions_are_least_squares_of_all_series_together():
    table = series(80, [0.5, 0.2], 8, 3) * [1.0, 2.0, 5.0]
    lags, weights = _Lags.of(table, 3), np.array([1.0, 0.25, 0.0])
    pooled = lags.fit(2, weights)
    parts = [design(column, 2, 3) for column in table.T]
    y = np.concatenate([math.sqrt(w) * own for w, (own, _) in zip(weights, parts, strict=True)])
    x = np.vstack([math.sqrt(w) * own for w, (_, own) in zip(weights, parts, strict=True)])
    theta = np.linalg.lstsq(x, y, rcond=None)[0]
    np.testing.assert_allclose(pooled.theta[:, 0], theta, rtol=1e-7)
    assert pooled.error == pytest.approx([math.sqrt(np.linalg.inv(x.T @ x)[0, 0])])
    rss = [((own - about @ theta) ** 2).sum() for own, about in parts]
    np.testing.assert_allclose(pooled.rss, rss, rtol=1e-7)
    expected = [77 * math.log(own / 77) + 2 * math.log(77 * 3) / 3 for own in rss]
    np.testing.assert_allclose(lags.criterion(pooled), expected)
    best = lags.best_common(np.array([1.0, 4.0, 25.0]), np.array([True, True, False]))
    fits = [lags.fit(order, np.array([1.0, 0.25, 0.0])) for order in range(4)]
    scores = [lags.criterion(fit)[:2].sum() for fit in fits]
    assert best.order == int(np.argmin(scores))


@pytest.mark.parametrize(("pooled", "bias"), [(True, 1 + 0.6), (False, 1 + 3 * 0.6)])
def test_the_gain_is_freed_of_its_bias_and_taken_low(pooled, bias):
    """A gain of 0.4 with an error of 0.1 and two coefficients of steps, as coefficients of values before."""
    fit = _Autoregression(3, np.ones(1), np.array([[0.4], [0.2], [0.05]]), np.array([0.1]), pooled)
    gain = 0.4 - bias / 50 - 0.05
    lags = [1 - gain + 0.2, 0.05 - 0.2, -0.05]
    np.testing.assert_allclose(fit.coefficients(50)[:, 0], lags)
    assert 1 - fit.coefficients(50).sum() == pytest.approx(gain)
    unit = _Autoregression(1, np.ones(1), np.array([[0.01]]), np.array([0.1]), pooled)
    assert unit.coefficients(50)[0, 0] == pytest.approx(1 - 1 / 50)  # a memory always ends
    swinging = _Autoregression(1, np.ones(1), np.array([[2.5]]), np.array([0.0]), pooled)
    assert swinging.coefficients(50)[0, 0] == pytest.approx(1 - 2.5)  # no bias that would raise it
    assert _Autoregression(0, np.ones(1), np.empty((0, 1)), np.zeros(1), pooled).coefficients(9).size == 0


def test_others_that_help_join_one_by_one():
    rng = np.random.default_rng(9)
    n = 400
    table = rng.standard_normal((n, 4))
    for t in range(2, n):
        table[t, 0] += 0.5 * table[t - 1, 0] + 0.2 * table[t - 2, 0] + 0.6 * table[t - 1, 2]
    away = np.array([0.3, 0.0, -0.7, 2.0])
    own, others, leverage = _with_others(table, 0, 2, 3, away)
    y, x = design(table[:, 0], 2, 3)
    other = table[2:-1, 2] - table[2:-1, 2].mean()
    x = np.column_stack([x, other])
    theta, (rss,), *_ = np.linalg.lstsq(x, y, rcond=None)
    inverse = np.linalg.inv(x.T @ x)
    gain = theta[0] - (1 + 3 * (1 - theta[0])) / 397 - 0.5 * math.sqrt(rss / (397 - 4) * inverse[0, 0])
    np.testing.assert_allclose(own, [1 - gain + theta[1], -theta[1], 0.0], rtol=1e-6)
    np.testing.assert_allclose(others, [0, 0, theta[2], 0], rtol=1e-6)
    distance = np.array([-0.3, 0.0, -0.7])
    assert leverage == pytest.approx(distance @ inverse @ distance, rel=1e-6)


def test_errors_of_a_common_filter_count_by_the_distance_of_means():
    first = series(300, [0.8], 10, 4)
    made = make_filter("ar", first, first + np.arange(4.0), tuple("abcd"), alike=True)
    assert made.kind == "common"
    assert made.leverage[0] == pytest.approx(0.0, abs=1e-12)
    width = np.sqrt(1 + made.leverage / (1 / 300 + 1 / 250))
    np.testing.assert_allclose(made.widths(list("abcd"), (300, 250)), width)
    np.testing.assert_allclose(made.widths(["d", "b"], (300, 250)), width[[3, 1]])
    ratios = made.leverage[1:] / np.square([1.0, 2.0, 3.0]) * first[:, 1:].var(axis=0)
    assert ratios.max() / ratios.min() < 1.3  # the same error of one gain, and noise about the same
    assert make_filter("differences", first, first, tuple("abcd")).widths(list("ab"), (9, 9)).tolist() == [1, 1]
