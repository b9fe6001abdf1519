"""Tail probabilities and quantiles are taken from `scipy.special`; `scipy.stats` gives the same numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from diffdag.model.regression import Estimate
from diffdag.ordersearch import penalty
from diffdag.tables.robust import mean_ranks
from diffdag.trust.checks.moments_checks import check_means
from diffdag.trust.checks.row_checks import autocorrelation_test

LEVELS = np.array([1e-12, 1e-6, 1e-3, 0.025, 0.3, 0.5, 0.975])[:, None]
VALUES = np.array([0.0, 1e-3, 0.4, 1.0, 2.5, 9.0, 40.0])[:, None]
FREEDOM = np.array([1.0, 2.5, 7.0, 60.0, 997.0, 1e6])


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (special.chdtrc(FREEDOM, VALUES), stats.chi2.sf(VALUES, FREEDOM)),
        (special.stdtr(FREEDOM, -VALUES), stats.t.sf(VALUES, FREEDOM)),
        (-special.stdtrit(FREEDOM, LEVELS), stats.t.isf(LEVELS, FREEDOM)),
        (special.fdtrc(3, FREEDOM, VALUES), stats.f.sf(VALUES, 3, FREEDOM)),
        (special.fdtri(FREEDOM, 9, LEVELS), stats.f.ppf(LEVELS, FREEDOM, 9)),
        (special.fdtri(FREEDOM, 9, 1 - LEVELS), stats.f.isf(LEVELS, FREEDOM, 9)),
        (special.pdtrc(np.arange(5), VALUES), stats.poisson.sf(np.arange(5), VALUES)),
        (special.ndtr(-VALUES), stats.norm.sf(VALUES)),
        (-special.ndtri(LEVELS), stats.norm.isf(LEVELS)),
    ],
    ids=["chi2.sf", "t.sf", "t.isf", "f.sf", "f.ppf", "f.isf", "poisson.sf", "norm.sf", "norm.isf"],
)
def test_tails_are_those_of_the_distributions(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize(("n1", "n2", "p"), [(30, 45, 8), (500, 500, 10), (1e6, 2e5, 40)])
def test_penalties_are_where_the_tests_reach_their_level(n1, n2, p):
    change, variance, free, intercept, gain = penalty.penalties(n1, n2, p, p)
    np.testing.assert_allclose(gain, change + variance + intercept, rtol=1e-12)
    rows, k = n1 + n2, np.arange(p)
    ample = max(math.log(rows) / 2 + penalty.G * math.log(p), penalty.A + penalty.B * math.log(p))
    shares = (1.0, penalty.INTERCEPT_SHARE, penalty.VARIANCE_SHARE)
    *levels, other = (stats.chi2.sf(2 * share * ample, 1) for share in shares)
    for found, level in zip((change, intercept), levels, strict=True):
        t = stats.t.isf(level / 2, free)
        np.testing.assert_allclose(found, free / 2 * np.log1p(t**2 / free), rtol=1e-12)
    free1, free2 = n1 - 1 - k, n2 - 1 - k
    ratios = []
    for quantile in (stats.f.isf, stats.f.ppf):
        one, two = quantile(other / 2, free1, free2) * free1, free2
        both = rows / 2 * np.log((one + two) / rows)
        ratios.append(free / rows * (both - n1 / 2 * np.log(one / n1) - n2 / 2 * np.log(two / n2)))
    # With a million rows, logarithms of likelihoods that cancel leave so many digits.
    np.testing.assert_allclose(variance, np.maximum(*ratios), rtol=1e-9)


def test_p_values():
    assert Estimate(-0.7, 0.2, 31.5).pvalue == pytest.approx(2 * stats.t.sf(3.5, 31.5), rel=1e-12)
    rng = np.random.default_rng(1)
    one, two = rng.normal(size=(40, 3)), rng.normal(0.2, 2.0, size=(70, 3))
    moments = [(len(rows), rows.mean(axis=0), rows.var(axis=0, ddof=1)) for rows in (one, two)]
    expected = stats.ttest_ind(one, two, equal_var=False).pvalue.min()
    assert check_means(["a", "b", "c"], *moments).value == pytest.approx(expected, rel=1e-12)
    own = np.array([[1.0, -1.0] * 30])
    squares = sum(60 * 62 / (60 - lag) * ((60 - lag) / 60) ** 2 for lag in range(1, 6))
    assert autocorrelation_test(own) == pytest.approx(stats.chi2.sf(squares, 5), rel=1e-12)


def test_ranks_are_those_of_scipy():
    rng = np.random.default_rng(2)
    for table in (rng.normal(size=(50, 4)), rng.integers(0, 6, (50, 4)).astype(float), np.ones((3, 1))):
        np.testing.assert_array_equal(mean_ranks(table), stats.rankdata(table, axis=0))
