"""Gaps filled by the most likely Gaussian model."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffdag import DiffDagWarning
from diffdag.tables import em
from diffdag.tables.em import complete, information_left, variance_inflation


def covariance_of(p, seed=0, strength=0.8):
    rng = np.random.default_rng([seed, p])
    effects = np.triu(rng.uniform(0.4, 1, (p, p)) * rng.choice([-1, 1], (p, p)) * (rng.random((p, p)) < 0.5), 1)
    mixing = np.linalg.inv(np.eye(p) - strength * effects)
    return mixing.T @ mixing


def gaussian(n, matrix, rng):
    return rng.standard_normal((n, len(matrix))) @ np.linalg.cholesky(matrix).T


def cut(rows, share, rng):
    return np.where(rng.random(rows.shape) < share, np.nan, rows)


def table(n=200, p=4, share=0.2, seed=0):
    rng = np.random.default_rng([seed, n, p])
    return cut(gaussian(n, covariance_of(p, seed), rng) + np.arange(p), share, rng)


def fitted(rows, design=None, **options):
    return complete(rows, design, rng=np.random.default_rng(7), **options)


def close(one, other, tolerance=1e-5):
    np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def with_constant(n, design):
    return np.column_stack([np.ones(n), *([] if design is None else [design])])


def plain_em(rows, design=None, steps=3000):
    """One row after the other, as in Little and Rubin, until nothing changes."""
    n, p = rows.shape
    known = with_constant(n, design)
    coefficients = np.zeros((known.shape[1], p))
    coefficients[0] = np.nanmean(rows, axis=0)
    matrix = np.diag(np.nanvar(rows, axis=0))
    for _ in range(steps):
        filled, extra = np.empty((n, p)), np.zeros((p, p))
        for r in range(n):
            gone = np.isnan(rows[r])
            mean = known[r] @ coefficients
            filled[r] = np.where(gone, mean, rows[r])
            slopes = matrix[np.ix_(gone, ~gone)] @ np.linalg.inv(matrix[np.ix_(~gone, ~gone)])
            filled[r, gone] += slopes @ (rows[r] - mean)[~gone]
            extra[np.ix_(gone, gone)] += matrix[np.ix_(gone, gone)] - slopes @ matrix[np.ix_(~gone, gone)]
        coefficients = np.linalg.lstsq(known, filled, rcond=None)[0]
        residuals = filled - known @ coefficients
        before, matrix = matrix, (residuals.T @ residuals + extra) / n
        if np.abs(matrix - before).max() < 1e-9:
            break
    return coefficients, matrix, filled


def log_likelihood(rows, design, found):
    means = with_constant(len(rows), design) @ found.coefficients
    total = 0.0
    for row, mean in zip(rows, means, strict=True):
        seen = ~np.isnan(row)
        part, off = found.covariance[np.ix_(seen, seen)], (row - mean)[seen]
        total -= 0.5 * (np.linalg.slogdet(part)[1] + off @ np.linalg.solve(part, off))
    return total


# Without gaps ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [None, 0, 2])
def test_without_gaps_it_is_least_squares(columns):
    rng = np.random.default_rng(0)
    rows = gaussian(50, covariance_of(3), rng) + 5
    design = None if columns is None else rng.standard_normal((50, columns)) * 10 + 3
    found = fitted(rows, design)
    known = with_constant(50, design)
    coefficients = np.linalg.lstsq(known, rows, rcond=None)[0]
    residuals = rows - known @ coefficients
    close(found.coefficients, coefficients, 1e-10)
    close(found.covariance, residuals.T @ residuals / 50, 1e-12)
    assert found.rows is rows
    assert (found.share, found.iterations) == (1.0, 0)


def test_a_single_gap_hardly_changes_the_covariance():
    rows = table(500, share=0.0)
    whole = fitted(rows)
    rows = rows.copy()
    rows[3, 1] = np.nan
    close(fitted(rows).covariance, whole.covariance, 0.05)
    assert 0.99 < fitted(rows).share < 1


# Against plain EM ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.05, 0.3])
@pytest.mark.parametrize("kind", ["none", "covariate", "donors"])
def test_plain_em_finds_the_same(share, kind):
    rng = np.random.default_rng(3)
    rows = table(60, 3, share)
    rows = rows[~np.isnan(rows).all(axis=1)]
    design = {
        "none": None,
        "covariate": rng.standard_normal((len(rows), 1)),
        "donors": np.eye(4)[np.arange(len(rows)) % 4][:, 1:],
    }[kind]
    if design is not None:
        rows = rows + design @ rng.standard_normal((design.shape[1], 3)) * 3
    found = fitted(rows, design)
    coefficients, matrix, filled = plain_em(rows, design)
    close(found.coefficients, coefficients)
    close(found.covariance, matrix)
    close(found.expected, filled)


@given(seed=st.integers(0, 10**6), n=st.integers(30, 120), p=st.integers(1, 6), share=st.floats(0.05, 0.5))
@settings(max_examples=25, deadline=None)
def test_the_likelihood_never_falls(seed, n, p, share):
    rows = table(n, p, share, seed)
    missing = np.isnan(rows)
    used = ~missing.all(axis=1)
    design = em._Design.of(np.random.default_rng(seed).standard_normal((used.sum(), 1)))
    residuals = em._standardised(rows[used], missing[used], design)[3]
    problem = em._Problem.of(residuals, missing[used], design.basis)
    start = np.vstack([np.zeros((2, p)), np.eye(p)])
    values = [value for (_, value, _, _), _ in zip(em._cycles(problem, start, 1e-6), range(100), strict=False)]
    assert (np.diff(values) >= -1e-6).all()  # of numbers of the size of n


def test_nothing_near_is_more_likely():
    rows = table(80, 3)
    found = fitted(rows)
    best = log_likelihood(rows, None, found)
    rng = np.random.default_rng(0)
    for _ in range(10):
        nudge = np.eye(3) + 0.02 * rng.standard_normal((3, 3))
        other = em.Completed(
            rows,
            rows,
            found.coefficients + 0.02 * rng.standard_normal((1, 3)),
            nudge @ found.covariance @ nudge.T,
            1.0,
            0,
        )
        assert log_likelihood(rows, None, other) < best


# What must not matter --------------------------------------------------------------------------------------


def test_the_order_of_rows_and_columns_does_not_matter():
    rows = table(150, 5)
    design = np.random.default_rng(1).standard_normal((150, 2))
    found = fitted(rows, design)
    order, columns = np.random.default_rng(2).permutation(150), np.array([3, 0, 4, 1, 2])
    mixed = fitted(rows[order][:, columns], design[order])
    close(mixed.expected, found.expected[order][:, columns])
    close(mixed.covariance, found.covariance[np.ix_(columns, columns)])
    assert mixed.share == pytest.approx(found.share, rel=0.05)


def test_units_do_not_matter():
    rows = table(150, 4)
    design = np.random.default_rng(1).standard_normal((150, 2))
    units, shifts = np.array([1e-6, 1.0, 1e5, 300.0]), np.array([0.0, 1e3, 1e7, -5.0])
    found = fitted(rows, design)
    other = fitted(rows * units + shifts, design * [1e-4, 1e6] + [3.0, 1e8])
    assert other.iterations == found.iterations
    assert other.share == pytest.approx(found.share, rel=1e-4)
    close(other.covariance / np.outer(units, units), found.covariance)
    close((other.expected - shifts) / units, found.expected)
    close((other.rows - shifts) / units, found.rows)
    close(other.coefficients[1:] * np.array([[1e-4], [1e6]]) / units, found.coefficients[1:])


def test_what_was_observed_stays_as_it_is():
    rows = table()
    before = rows.copy()
    found = fitted(rows)
    seen = ~np.isnan(rows)
    np.testing.assert_array_equal(rows, before)
    for filled in (found.rows, found.expected):
        np.testing.assert_array_equal(filled[seen], rows[seen])
        assert np.isfinite(filled).all()


def test_the_seed_decides():
    rows = table()
    np.testing.assert_array_equal(fitted(rows).rows, fitted(rows).rows)
    assert (complete(rows, rng=np.random.default_rng(8)).rows != fitted(rows).rows).any()


def test_rows_without_any_value_tell_nothing():
    rows = table(100, 4)
    rows = rows[~np.isnan(rows).all(axis=1)]
    padded = np.vstack([rows, np.full((len(rows), 4), np.nan)])
    found, other = fitted(rows), fitted(padded)
    close(other.covariance, found.covariance, 1e-12)
    assert other.share == pytest.approx(found.share / 2, rel=0.05)
    close(other.expected[len(rows) :], np.tile(found.coefficients, (len(rows), 1)))
    assert np.std(other.rows[len(rows) :], axis=0) == pytest.approx(np.sqrt(np.diag(found.covariance)), rel=0.4)


# What it is good for ---------------------------------------------------------------------------------------


def test_gaps_that_depend_on_what_is_observed_do_no_harm():
    rng = np.random.default_rng(0)
    matrix = np.array([[1.0, 0.8, 0.5], [0.8, 2.0, 0.3], [0.5, 0.3, 1.0]])
    rows = gaussian(20_000, matrix, rng)
    rows[rows[:, 0] + 0.5 * rng.standard_normal(20_000) > 0.3, 1] = np.nan
    found = fitted(rows)
    close(found.coefficients, 0, 0.04)
    close(found.covariance, matrix, 0.05)
    close(np.cov(found.rows, rowvar=False), matrix, 0.06)  # draws have the spread that expectations lack
    whole = rows[~np.isnan(rows).any(axis=1)]
    assert whole[:, 1].mean() < -0.3
    assert np.cov(found.expected, rowvar=False)[1, 1] < 1.7


def test_donors_leave_the_covariance_within_donors():
    rng = np.random.default_rng(0)
    donor = rng.integers(0, 8, 4000)
    matrix = covariance_of(4)
    levels = 20 * rng.standard_normal((8, 4))
    rows = cut(gaussian(4000, matrix, rng) + levels[donor], 0.15, rng)
    all_dummies = np.eye(8)[donor]  # and the constant: they depend on each other
    found, fewer = fitted(rows, all_dummies), fitted(rows, all_dummies[:, 1:])
    close(found.covariance, matrix, 0.12)
    close(found.covariance, fewer.covariance)
    close(found.expected, fewer.expected)
    close(found.coefficients[0] + found.coefficients[1:], levels, 0.3)


def test_draws_come_from_the_distribution_given_what_is_observed():
    rng = np.random.default_rng(0)
    rows = gaussian(30_000, np.array([[1.0, 0.6], [0.6, 1.0]]), rng)
    rows[:15_000, 1] = np.nan
    found = fitted(rows)
    off = (found.rows - found.expected)[:15_000, 1]
    assert off.var() == pytest.approx(0.64, rel=0.05)
    assert abs(np.corrcoef(off, rows[:15_000, 0])[0, 1]) < 0.03


# Where it begins and ends ----------------------------------------------------------------------------------


@pytest.mark.parametrize("donors", [False, True])
def test_a_warm_start_gives_the_same_in_fewer_steps(donors):
    rows = table(400, 6, 0.3)
    design = np.eye(5)[np.arange(400) % 5] if donors else None
    cold = fitted(rows, design)
    warm = fitted(rows, design, start=cold, share=0.5)
    assert warm.iterations < cold.iterations / 3
    assert warm.share == 0.5
    close(warm.covariance, cold.covariance)
    close(warm.coefficients[0], cold.coefficients[0])
    again = np.random.default_rng(0).integers(0, 400, 400)  # a resample
    known = None if design is None else design[again][:, :4]  # with other donors
    warm, cold = fitted(rows[again], known, start=cold), fitted(rows[again], known)
    close(warm.covariance, cold.covariance, 1e-4)


def test_a_start_from_singular_matrices_is_possible():
    rows = table(100, 3)
    singular = em.Completed(rows, rows, np.zeros((1, 3)), np.ones((3, 3)), 1.0, 0)
    close(fitted(rows, start=singular).covariance, fitted(rows).covariance, 1e-4)


def test_it_says_when_it_has_not_converged(monkeypatch):
    monkeypatch.setattr(em, "STEPS", 3)
    with pytest.warns(DiffDagWarning) as found:
        fitted(table(100, 4, 0.4))
    first, second = (str(warning.message) for warning in found)
    assert "step 3 changed parameters by" in first
    assert "where 1e-06 is asked for; correlations were shrunk by 9% instead; leave out columns" in first
    assert "step 6 changed" in second


def test_correlations_are_shrunk_where_gaps_leave_too_little():
    rows = table(100, 20, 0.35)
    with pytest.warns(DiffDagWarning, match="shrunk"):
        found = fitted(rows)
    assert np.linalg.eigvalsh(found.covariance / np.nanvar(rows))[0] > 0.001


def test_it_does_not_take_many_steps():
    rows = table(1000, 10, 0.2)
    found, rough = fitted(rows), fitted(rows, tolerance=1e-3)
    assert found.iterations < 40
    assert rough.iterations < 0.7 * found.iterations
    close(rough.covariance, found.covariance, 0.01)


# Strange tables --------------------------------------------------------------------------------------------


def strange_tables():
    rng = np.random.default_rng(0)
    rows = table(60, 4)
    twin = np.column_stack([rows, rows[:, 0] * 2 + 1])
    constant = rows.copy()
    constant[~np.isnan(constant[:, 1]), 1] = 3.0
    unseen = rows.copy()
    unseen[:, 2] = np.nan
    rare = unseen.copy()
    rare[:2, 2] = 1.0, 2.0
    apart = rng.standard_normal((60, 2))
    apart[:30, 0] = apart[30:, 1] = np.nan
    return {
        "wide": (table(12, 20, 0.2), None),
        "one row": (np.array([[1.0, np.nan, 2.0]]), None),
        "nothing": (np.full((5, 2), np.nan), np.ones((5, 1))),
        "one column": (rows[:, :1], None),
        "twins": (twin, None),
        "constant": (constant, None),
        "unseen": (unseen, None),
        "rare": (rare, None),
        "never together": (apart, None),
        "constant design": (rows, np.ones((60, 2))),
        "more design than rows": (rows[:10], rng.standard_normal((10, 15))),
        "a donor per row": (rows, np.eye(60)),
    }


@pytest.mark.parametrize("name", strange_tables())
def test_strange_tables_give_finite_numbers(name):
    rows, design = strange_tables()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiffDagWarning)
        found = fitted(rows, design)
    for part in (found.rows, found.expected, found.coefficients, found.covariance):
        assert np.isfinite(part).all()
    assert 0 < found.share <= 1
    assert np.linalg.eigvalsh(found.covariance)[0] >= 0


# What rows are worth ---------------------------------------------------------------------------------------


def test_a_column_of_gaps_costs_its_regression():
    """Where y is missing a row tells nothing of the regression of y on x."""
    missing = np.zeros((1000, 2), bool)
    missing[:400, 1] = True
    order = [np.array([0, 1])]
    assert variance_inflation(np.array([[1.0, 0.7], [0.7, 2.0]]), missing, order) == pytest.approx(
        [1 / 0.6], rel=1e-5
    )


@pytest.mark.parametrize("strength", [0.3, 1.0])
def test_the_share_is_that_of_simulations(strength):
    """The squared errors of coefficients without gaps, over those with gaps on the same rows."""
    matrix = covariance_of(5, 1, strength)
    rng = np.random.default_rng(0)
    truth, sums, shares = _regressions(matrix), np.zeros(2), []
    for _ in range(60):
        rows = gaussian(300, matrix, rng)
        found = complete(cut(rows, 0.2, rng), rng=rng)
        shares.append(found.share)
        for k, estimate in enumerate((np.cov(rows, rowvar=False), found.covariance)):
            sums[k] += ((_regressions(estimate) - truth) ** 2).sum()
    assert np.mean(shares) == pytest.approx(sums[0] / sums[1], rel=0.15)
    assert np.std(shares) < 0.05 * np.mean(shares)


def _regressions(matrix):
    """Coefficients along the order, in standard deviations of their estimates."""
    found = []
    for j in range(1, len(matrix)):
        inverse = np.linalg.inv(matrix[:j, :j])
        found.append(inverse @ matrix[:j, j] / np.sqrt(np.diag(inverse)))
    return np.concatenate(found)


def test_the_share_falls_with_the_gaps():
    rng = np.random.default_rng(0)
    level = rng.random((300, 60))
    shares = [information_left(covariance_of(60, 0, 0.3), level < gaps, rng) for gaps in (0, 0.05, 0.2, 0.5)]
    assert shares[0] == 1
    assert (np.diff(shares) < 0).all()
    assert 0 < shares[-1] < 0.25


def test_blocks_of_any_size_give_the_same(monkeypatch):
    rows = table(120, 6, 0.3)
    found = fitted(rows)
    monkeypatch.setattr(em, "BLOCK", 50)
    small = fitted(rows)
    close(small.covariance, found.covariance, 1e-10)
    assert small.share == pytest.approx(found.share)
