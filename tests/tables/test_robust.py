"""Moments from tables with outliers, from ranks, and from rows that repeat each other."""

import warnings

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import spearmanr

from diffdag import DiffDagWarning, InputError, LinearSEM, Moments, simulate_pair
from diffdag.tables.effective_rows import effective_samples
from diffdag.tables.robust import (
    COVARIANCES,
    common_scores,
    rank_correlation,
    rank_variance_inflation,
    table_moments,
)
from diffdag.tables.robust import _influences as influences

NAMES = ("a", "b", "c", "d")
MIXING = np.array([[1, 0.6, -0.4, 0.8], [0, 1, 0.7, 0], [0, 0, 1, 0.5], [0, 0, 0, 1]])


def gaussian(n, seed, p=4):
    return np.random.default_rng([seed, n]).standard_normal((n, p)) @ MIXING[:p, :p]


def autoregressive(n, p, phi, seed=0):
    noise = np.random.default_rng(seed).standard_normal((n + 200, p))
    return lfilter([1], [1, -phi], noise, axis=0)[200:]


def correlation(moments):
    scale = np.sqrt(np.diag(moments.scatter))
    return moments.scatter / np.outer(scale, scale)


def assert_same(one, other, rtol=1e-12):
    assert (one.names, one.n) == (other.names, other.n)
    np.testing.assert_allclose(one.mean, other.mean, rtol=rtol, atol=1e-12)
    np.testing.assert_allclose(one.scatter, other.scatter, rtol=rtol, atol=1e-12 * one.n)


# The estimates ---------------------------------------------------------------------------------------------


def test_sample_moments_are_those_of_the_array():
    tables = gaussian(80, 1), gaussian(50, 2)
    for moments, table in zip(table_moments(*tables, NAMES), tables, strict=True):
        direct = Moments.from_array(table, NAMES)
        assert moments.n == len(table)
        np.testing.assert_array_equal(moments.scatter, direct.scatter)
        np.testing.assert_array_equal(moments.mean, direct.mean)


@pytest.mark.parametrize("integers", [False, True])
def test_rank_correlations_are_scipys(integers):
    tables = gaussian(120, 3), gaussian(90, 4)
    if integers:
        tables = [np.round(4 * table).astype(int) for table in tables]
    rho = spearmanr(tables[0]).statistic
    moments, _ = table_moments(*tables, NAMES, covariance="spearman")
    np.testing.assert_allclose(correlation(moments), 2 * np.sin(np.pi / 6 * rho), rtol=1e-12, atol=1e-14)


def test_increasing_scales_alter_nothing():
    tables = gaussian(150, 5), 2 * gaussian(100, 6) + 1
    changed = [table.copy() for table in tables]
    for table in changed:
        table[:, 0] = np.exp(table[:, 0])
        table[:, 2] **= 3
    for one, other in zip(
        table_moments(*tables, NAMES, covariance="spearman"),
        table_moments(*changed, NAMES, covariance="spearman"),
        strict=True,
    ):
        assert_same(one, other)
    sample = table_moments(*tables, NAMES), table_moments(*changed, NAMES)
    assert np.abs(sample[0][0].covariance() - sample[1][0].covariance()).max() > 0.1


def test_ranks_recover_means_and_covariances_behind_unknown_scales():
    first, second = gaussian(20_000, 7), gaussian(10_000, 8) * [2, 1, 1.5, 0.5] + [1, 0, -0.5, 2]
    twisted = [
        np.column_stack([np.exp(x), y**3, np.sinh(z), np.arctan(w)]) for x, y, z, w in (first.T, second.T)
    ]
    moments = table_moments(*twisted, NAMES, covariance="spearman")
    truth = [Moments.from_array(table, NAMES) for table in (first, second)]
    unit = np.sqrt((np.diag(truth[0].covariance()) + np.diag(truth[1].covariance())) / 2)
    for one, other in zip(moments, truth, strict=True):
        np.testing.assert_allclose(one.covariance(), other.covariance() / np.outer(unit, unit), atol=0.05)
    shifts = [pair[1].mean - pair[0].mean for pair in (moments, truth)]
    np.testing.assert_allclose(shifts[0], shifts[1] / unit, atol=0.05)


def test_plain_normal_scores_would_understate_a_change_of_variance():
    first, second = np.random.default_rng(0).standard_normal((2, 20_000, 1))
    scores = common_scores(first, 2 * second)
    assert scores[1].std() / scores[0].std() == pytest.approx(2, abs=0.05)  # they give 1.78
    assert (scores[0].var() + scores[1].var()) / 2 == pytest.approx(1)
    assert scores[0].mean() + scores[1].mean() == pytest.approx(0, abs=1e-12)


def test_winsorised_moments_follow_units_and_origin():
    tables = gaussian(200, 9), gaussian(150, 10)
    units, origin = np.array([1e-6, 3, 1e5, -2]), np.array([5, 0, -1e3, 1])
    plain = table_moments(*tables, NAMES, covariance="winsorised")
    moved = table_moments(*(table * units + origin for table in tables), NAMES, covariance="winsorised")
    for one, other in zip(plain, moved, strict=True):
        np.testing.assert_allclose(other.mean, one.mean * units + origin, rtol=1e-9)
        np.testing.assert_allclose(other.scatter, one.scatter * np.outer(units, units), rtol=1e-8)


def test_winsorised_variances_of_gaussian_data_are_unbiased():
    table = np.random.default_rng(11).standard_normal((200_000, 4))
    moments, _ = table_moments(table, table, NAMES, covariance="winsorised")
    # Clipping at 3 takes 0.5 % off a variance; the errors shared with the sample variance cancel.
    np.testing.assert_allclose(np.diag(moments.covariance()) / table.var(axis=0), 1, atol=0.002)


@pytest.mark.parametrize("covariance", ["winsorised", "spearman"])
def test_a_few_outliers_matter_little(covariance):
    tables = gaussian(1000, 12), gaussian(1000, 13)
    spoilt = tables[0].copy()
    spoilt[::100] *= 100
    clean, _ = table_moments(*tables, NAMES, covariance=covariance)
    robust, _ = table_moments(spoilt, tables[1], NAMES, covariance=covariance)
    np.testing.assert_allclose(correlation(robust), correlation(clean), atol=0.08)
    np.testing.assert_allclose(np.diag(robust.covariance()) / np.diag(clean.covariance()), 1, atol=0.12)
    sample, _ = table_moments(spoilt, tables[1], NAMES)
    assert (np.diag(sample.covariance()) > 20 * np.diag(robust.covariance())).all()


def test_columns_that_are_mostly_one_value_are_clipped_among_the_others():
    rng = np.random.default_rng(14)
    counts = rng.poisson(0.3, 500).astype(float)  # its median absolute deviation is 0
    counts[0] = 1e6
    table = np.column_stack([counts, rng.random(500) < 0.1, rng.standard_normal(500)])
    moments, _ = table_moments(table, table, NAMES[:3], covariance="winsorised")
    variances = np.diag(moments.covariance())
    assert 0.2 < variances[0] < 0.5
    assert variances[1] == pytest.approx(table[:, 1].var(), rel=0.01)  # a 0/1 column has no outliers


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_tables_are_left_alone(covariance):
    tables = gaussian(60, 15), gaussian(40, 16)
    copies = [table.copy() for table in tables]
    for table in tables:
        table.flags.writeable = False
    again = [table_moments(*tables, NAMES, covariance=covariance, effective_samples="auto") for _ in range(2)]
    for table, copy in zip(tables, copies, strict=True):
        np.testing.assert_array_equal(table, copy)
    for one, other in zip(*again, strict=True):
        np.testing.assert_array_equal(one.scatter, other.scatter)


# Hard tables -----------------------------------------------------------------------------------------------


def test_matrices_are_positive_definite_and_it_is_said_when_that_took_a_change():
    rng = np.random.default_rng(170)
    tables = rng.standard_normal((2, 8, 12))  # n < p
    names = [f"v{k}" for k in range(12)]
    with pytest.warns(DiffDagWarning, match="the spearman correlations of the .* table .* raised"):
        moments = table_moments(*tables, names, covariance="spearman")
    for part in moments:
        assert np.linalg.eigvalsh(correlation(part))[0] > 1e-4
        assert 3 <= part.n <= 8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table_moments(*rng.standard_normal((2, 300, 12)), names, covariance="spearman")


def test_a_repair_goes_up_to_a_quarter_of_what_the_scores_leave():
    rng = np.random.default_rng(167)
    first, second = rng.standard_normal((2, 30, 3))
    for table in (first, second):
        table[:, 2] = table[:, 0] + table[:, 1] + 0.02 * table[:, 2]
    with pytest.warns(DiffDagWarning, match="smallest eigenvalue"):
        moments, _ = table_moments(first, second, NAMES[:3], covariance="spearman")
    least = np.linalg.eigvalsh(np.corrcoef(common_scores(first, second)[0], rowvar=False))[0]
    assert np.linalg.eigvalsh(rank_correlation(first))[0] < least / 10
    assert least / 6 < np.linalg.eigvalsh(correlation(moments))[0] < least / 2


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_integers_with_ties(covariance):
    rng = np.random.default_rng(19)
    tables = [np.column_stack([rng.poisson(rate, 300) for rate in (0.4, 2, 5)]) for _ in range(2)]
    for table in tables:
        table[:, 2] += table[:, 1]
    moments = table_moments(*tables, NAMES[:3], covariance=covariance)
    assert all(np.linalg.eigvalsh(correlation(part))[0] > 0.1 for part in moments)
    assert all(150 < part.n <= 300 for part in moments)


def test_it_is_said_when_ranks_know_nothing_of_a_variance():
    first, second = gaussian(300, 20), gaussian(100, 21)
    second[:, 1] = 20 + 3 * second[:, 1]
    with pytest.warns(DiffDagWarning, match="values of 'b' hardly overlap"):
        before, after = table_moments(first, second, NAMES, covariance="spearman")
    ratio = np.diag(after.covariance()) / np.diag(before.covariance())
    assert 0.5 < ratio[1] < 2  # whatever it was, it is close to no change


def test_scores_of_tables_without_overlap_stay_close():
    scores = common_scores(np.array([[1.0], [2], [4]]), np.array([[10.0], [11], [13], [14]]))
    assert 3 < scores[1].mean() - scores[0].mean() < 6
    assert all(0.5 < part.std() < 1.5 for part in scores)


# How many rows ranks are worth -----------------------------------------------------------------------------


def delete_one(table, scores):
    """Jackknife: what each row contributes to the covariance on the scale of given scores, times n."""

    def estimate(keep):
        spread = scores[keep].std(axis=0) / scores.std(axis=0)
        return rank_correlation(table[keep]) * np.outer(spread, spread)

    n = len(table)
    whole = estimate(np.arange(n))
    return np.array([(n - 1) * (whole - estimate(np.delete(np.arange(n), r))) for r in range(n)])


def test_influences_are_those_of_the_jackknife():
    table = gaussian(200, 22)
    matrix = rank_correlation(table)
    found = np.array(list(influences(table, table, matrix)))
    found -= found.mean(axis=0)
    expected = delete_one(table, table)
    np.testing.assert_allclose(found.std(axis=0), expected.std(axis=0), rtol=0.03)
    for i, j in zip(*np.triu_indices(4), strict=True):
        assert np.corrcoef(found[:, i, j], expected[:, i, j])[0, 1] > 0.995


def test_independent_columns_lose_what_theory_says():
    table = np.random.default_rng(23).standard_normal((1000, 8))
    found = rank_variance_inflation(table, table, rank_correlation(table))
    assert found == pytest.approx(np.pi**2 / 9, rel=0.04)


def test_the_loss_is_the_variance_of_precision_entries():
    rng = np.random.default_rng(24)
    reference = gaussian(1000, 25)
    expected = np.empty((2, 300, 6))
    for k in range(300):
        table = rng.standard_normal((300, 4)) @ MIXING
        spread = table.std(axis=0)
        ranked = rank_correlation(table) * np.outer(spread, spread)
        for row, matrix in zip(expected, (np.cov(table, rowvar=False), ranked), strict=True):
            row[k] = np.linalg.inv(matrix)[np.triu_indices(4, k=1)]
    variances = expected.var(axis=1)
    found = rank_variance_inflation(reference, reference, rank_correlation(reference))
    assert found > 1.2
    assert found == pytest.approx(np.median(variances[1] / variances[0]), rel=0.12)


def test_columns_that_hardly_ever_vary_do_not_spoil_the_loss():
    tables = [gaussian(3000, seed) for seed in (40, 41)]
    others = [table[:, [0, 2, 3]] for table in tables]
    for table in tables:  # every third row enters the loss, and in two of these the column is 1
        table[:, 1] = 0
        table[[3, 30], 1] = 1
    rare, _ = table_moments(*tables, NAMES, covariance="spearman")
    without, _ = table_moments(*others, [*"acd"], covariance="spearman")
    assert rare.n == without.n < 2700


def test_with_less_than_two_columns_to_learn_from_the_loss_is_that_of_independent_ones():
    tables = [gaussian(3000, seed) for seed in (42, 43)]
    for table in tables:
        table[:, 1:] = 0
        table[[1, 2, 4, 5], [1, 2, 3, 1]] = 1
    moments, _ = table_moments(*tables, NAMES, covariance="spearman")
    assert moments.n == round(3000 / (np.pi**2 / 9))


def coefficient_tests(moments, order):
    """z-statistics of the changes of regression coefficients along an order."""
    found = []
    for t in range(1, len(order)):
        cause, effect = list(order[:t]), order[t]
        change, variance = 0.0, 0.0
        for sign, part in zip((1, -1), moments, strict=True):
            sigma = part.covariance()
            inverse = np.linalg.inv(sigma[np.ix_(cause, cause)])
            slope = inverse @ sigma[cause, effect]
            rest = sigma[effect, effect] - slope @ sigma[cause, effect]
            change, variance = change + sign * slope, variance + rest * np.diag(inverse) / (part.n - t)
        found.append(change / np.sqrt(variance))
    return np.concatenate(found)


@pytest.mark.slow
def test_rows_that_ranks_are_worth_keep_the_level_where_nothing_changed():
    found, naive = [], []
    for k in range(40):
        rng = np.random.default_rng([26, k])
        sem = simulate_pair(10, neighbours=6, rng=rng).first
        other = LinearSEM(sem.weights, rng.choice([1.0, 4.0], 10), names=sem.names)  # effects are the same
        tables = sem.sample(400, rng), other.sample(400, rng)
        moments = table_moments(*tables, sem.names, covariance="spearman")
        full = [Moments(part.names, 400, part.mean, part.covariance() * 400) for part in moments]
        found.append(coefficient_tests(moments, sem.order))
        naive.append(coefficient_tests(full, sem.order))
        assert 100 < moments[0].n == moments[1].n < 350
    assert np.mean(np.abs(naive) > 1.96) > 0.08
    assert 0.005 < np.mean(np.abs(found) > 1.96) < 0.05


# Rows that repeat each other -------------------------------------------------------------------------------


@pytest.mark.parametrize("phi", [0.8, -0.8, 0.3])
def test_autoregressions_are_worth_what_bartlett_says(phi):
    expected = (1 - phi**2) / (1 + phi**2)
    found = np.mean([effective_samples(autoregressive(4000, 3, phi, seed)) for seed in range(5)]) / 4000
    assert found == pytest.approx(expected, rel=0.05)


def test_an_oscillation_counts_beyond_its_first_zero():
    angle, decay = np.pi / 2, 0.97  # every other autocorrelation is 0, the first of them too
    filter_ = [1, -2 * decay * np.cos(angle), decay**2]
    series = lfilter([1], filter_, np.random.default_rng(27).standard_normal((20_500, 2)), axis=0)[500:]
    impulse = lfilter([1], filter_, np.r_[1, np.zeros(2000)])
    rho = np.correlate(impulse, impulse, "full")[2000:]
    assert effective_samples(series) / 20_000 == pytest.approx(1 / (2 * (rho / rho[0]) ** 2).sum(), rel=0.15)


def test_white_noise_is_worth_its_rows():
    for seed in range(20):
        rows = effective_samples(np.random.default_rng(seed).standard_normal((500, 4)))
        assert 485 <= rows <= 500


def test_pairs_of_columns_enter_as_a_mean():
    slow, fast = autoregressive(20_000, 1, 0.8), autoregressive(20_000, 1, 0.0, seed=1)
    zigzag = autoregressive(20_000, 1, -0.8, seed=2)
    pairs = (slow, fast), (slow, -slow), (slow, zigzag)
    repeats = [20_000 / effective_samples(np.hstack(pair)) for pair in pairs]
    own = 1.64 / 0.36
    assert repeats[0] == pytest.approx((own + 3) / 4, rel=0.06)
    assert repeats[1] == pytest.approx(own, rel=0.06)
    assert repeats[2] == pytest.approx((own + 1) / 2, rel=0.06)  # no pair is worth more than its rows


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_effective_samples_change_the_rows_and_not_the_covariance(covariance):
    tables = gaussian(200, 28), gaussian(300, 29)
    plain = table_moments(*tables, NAMES, covariance=covariance)
    for option, shares in (
        (100, (1 / 2, 1 / 3)),
        ((50.2, 300), (50.2 / 200, 1)),
        (np.array([20, 30]), (0.1, 0.1)),
    ):
        fewer = table_moments(*tables, NAMES, covariance=covariance, effective_samples=option)
        for one, other, share in zip(plain, fewer, shares, strict=True):
            assert other.n == pytest.approx(one.n * share, abs=0.8)
            np.testing.assert_allclose(other.covariance(), one.covariance(), rtol=1e-12)
            np.testing.assert_array_equal(other.mean, one.mean)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_auto_estimates_from_what_the_moments_are_made_of(covariance):
    tables = [autoregressive(1000, 4, 0.8, seed) @ MIXING for seed in (1, 2)]
    plain = table_moments(*tables, NAMES, covariance=covariance)
    auto = table_moments(*tables, NAMES, covariance=covariance, effective_samples="auto")
    for one, other in zip(plain, auto, strict=True):
        assert other.n / one.n == pytest.approx(0.36 / 1.64, rel=0.2)
    tables[0][::50] *= 1000  # outliers hide autocorrelation from the sample covariance only
    spoilt, _ = table_moments(*tables, NAMES, covariance=covariance, effective_samples="auto")
    assert (spoilt.n > 800) == (covariance == "sample")


# What is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (2.9, "2.9 effective samples for the 50 rows of the first table"),
        ((10, 41), "41 effective samples for the 40 rows of the second table"),
        (np.nan, "effective_samples=nan is not understood"),
        (np.inf, "inf effective samples"),
        ("automatic", "effective_samples='automatic' is not understood"),
        ((10, 10, 10), "is not understood; give 'auto', a number"),
        ((10, "ten"), "is not understood"),
        (True, "is not understood"),
    ],
)
def test_impossible_effective_samples(option, message):
    with pytest.raises(InputError, match=message):
        table_moments(gaussian(50, 30), gaussian(40, 31), NAMES, effective_samples=option)


def test_series_worth_less_than_three_rows():
    cycle = np.resize([1, -1], 100)[:, None] + 1e-3 * gaussian(100, 32)
    assert effective_samples(cycle) < 3
    for moments in table_moments(cycle, cycle, NAMES, effective_samples="auto"):
        assert moments.n == 3


def test_unknown_covariance():
    with pytest.raises(
        InputError, match=r"covariance must be one of sample, winsorised, spearman.*; it is 'tau'"
    ):
        table_moments(gaussian(50, 33), gaussian(40, 34), NAMES, covariance="tau")


def spoil(change):
    table = gaussian(40, 35)
    return change(table)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table[:, 0], "second table must be a two-dimensional array of numbers"),
        (lambda table: table.astype(str), "second table must be a two-dimensional array of numbers"),
        (lambda table: np.ma.masked_less(table, 0), "none masked"),
        (lambda table: table[:, :3], "second table has 3 columns and there are 4 names"),
        (lambda table: table[:2], "second table has 2 rows of data; at least 3"),
        (
            lambda table: np.where(table == table[3, 1], np.nan, table),
            "values of 'b' in the second table are missing",
        ),
        (lambda table: table * [1, 0, 1, 0], "columns 'b' and 'd' are constant in the second table"),
    ],
)
@pytest.mark.parametrize("covariance", ["sample", "spearman"])
def test_tables_that_cannot_be_used(covariance, change, message):
    with pytest.raises(InputError, match=message):
        table_moments(gaussian(50, 36), spoil(change), NAMES, covariance=covariance)


def test_columns_that_ranks_cannot_tell_apart():
    first, second = gaussian(50, 37), gaussian(40, 38)
    second[:, 3] = -np.exp(second[:, 1])
    with pytest.raises(InputError, match="columns 'b' and 'd' order the rows of the second table"):
        table_moments(first, second, NAMES, covariance="spearman")


def test_a_series_that_cannot_be_used():
    with pytest.raises(InputError, match="given table must be a two-dimensional"):
        effective_samples(3.0)
    with pytest.raises(InputError, match="'X2' is constant in the given table"):
        effective_samples([[1, 1], [2, 1], [3, 1]])
