"""The test of no change at all."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import diffdag as dd
from diffdag.tables.align import Tables
from diffdag.trust import permutation
from diffdag.trust.permutation import (
    STATISTICS,
    _combine,
    _pool,
    _statistics,
    _view,
    _without_mean,
    global_test,
    permute_tables,
)

PAIR = dd.simulate_pair(p=6, neighbours=3, changes=1, weights=(0.8, 1.0), rng=862_001)


def two_tables(rows=(60, 45), seed=862_002, pair=None, p=5):
    rng = np.random.default_rng(seed)
    if pair is None:
        mix = rng.standard_normal((p, p))
        first, second = (rng.standard_normal((n, p)) @ mix for n in rows)
    else:
        first, second = pair.first.sample(rows[0], rng), pair.second.sample(rows[1], rng)
    return Tables(first, second, tuple(f"X{k}" for k in range(first.shape[1])))


@pytest.mark.parametrize("n", [3, 4, 17])
def test_rows_without_mean_are_a_rotation(n):
    turned = _without_mean(np.eye(n))
    assert turned.shape == (n - 1, n)
    assert turned @ turned.T == pytest.approx(np.eye(n - 1), abs=1e-13)
    assert turned @ np.ones(n) == pytest.approx(np.zeros(n - 1), abs=1e-13)
    table = np.random.default_rng(862_003).standard_normal((n, 2)) + 1e6
    rows = _without_mean(table)
    assert rows.T @ rows == pytest.approx(np.cov(table, rowvar=False) * (n - 1), abs=1e-8)


def test_statistics_of_the_tables_are_what_they_say():
    tables = two_tables((60, 45))
    pool = _pool(tables)
    view = _view(pool.rows, slice(0, 1000))
    values = _statistics(permutation._difference(pool, view, pool.chosen(None)), view)
    # the same from the tables, by formulas of one line each
    scatters = [np.cov(table, rowvar=False) * (len(table) - 1) for table in (tables.first, tables.second)]
    pooled = sum(scatters) / 103
    scale = np.sqrt(np.diag(pooled))
    covariances = [
        scatter / rows / np.outer(scale, scale) for scatter, rows in zip(scatters, (59, 44), strict=True)
    ]
    change = covariances[0] - covariances[1]
    rows = np.vstack([_without_mean(table) for table in (tables.first, tables.second)]) / scale
    spread = np.array([[np.std(rows[:, i] * rows[:, j]) for j in range(5)] for i in range(5)])
    omega = np.linalg.inv(pooled / np.outer(scale, scale) + 0.3 * 5 / 103 * np.eye(5))
    left = rows @ omega
    mixed = np.array([[np.std(rows[:, i] * left[:, j]) for j in range(5)] for i in range(5)])
    wanted = [
        np.abs(change / spread).max(),
        np.abs(change @ omega / mixed).max(),
        np.trace(change @ omega @ change @ omega),
    ]
    assert values == pytest.approx(wanted, rel=1e-9)


def test_all_permutations_of_few_rows():
    tables = two_tables((6, 5), p=2)
    pool = _pool(tables)
    view = _view(pool.rows, slice(0, 1000))
    every = np.array(
        [
            _statistics(permutation._difference(pool, view, np.array(chosen)), view)
            for chosen in combinations(range(9), 4)
        ]
    )
    own = _statistics(permutation._difference(pool, view, pool.chosen(None)), view)
    exact = (every >= np.array(own) * (1 - 1e-9)).mean(axis=0)
    test = permute_tables(tables, 4000, 1)
    assert list(test.statistics) == list(STATISTICS)
    assert list(test.statistics.values()) == pytest.approx(exact, abs=4 * 0.5 / np.sqrt(4000))
    for seed in range(20):
        assert len(pool.chosen(seed)) == 4


def test_every_row_is_drawn_alike():
    pool = _pool(two_tables((31, 11)))
    counts = np.bincount(np.concatenate([pool.chosen(seed) for seed in range(2000)]), minlength=40)
    assert np.abs(counts - 500).max() < 5 * np.sqrt(2000 * 0.25 * 0.75)


@settings(max_examples=15, deadline=None)
@given(arrays(float, 5, elements=st.floats(-1e3, 1e3)), arrays(float, 5, elements=st.floats(0.01, 100)))
def test_neither_means_nor_units_matter(shift, units):
    tables = two_tables()
    other = Tables(tables.first * units + shift, tables.second * units, tables.names)
    before, after = permute_tables(tables, 39, 2), permute_tables(other, 39, 2)
    assert after == before


def test_the_order_of_the_columns_does_not_matter():
    tables = two_tables()
    turned = Tables(tables.first[:, ::-1], tables.second[:, ::-1], tables.names[::-1])
    assert permute_tables(turned, 99, 2) == permute_tables(tables, 99, 2)


def test_a_changed_effect_is_seen_and_a_moved_mean_is_not():
    tables = two_tables((150, 120), pair=PAIR)
    found = global_test(tables.first, tables.second, permutations=199)
    assert found.pvalue == 1 / 200
    assert found.permutations == 199
    moved = global_test(tables.first[:75], tables.first[75:] + 5.0, permutations=199)
    assert moved.pvalue > 0.05


def test_a_changed_noise_variance_is_seen():
    rng = np.random.default_rng(862_004)
    first, second = rng.standard_normal((2, 200, 6))
    second[:, 3] *= 1.6
    assert global_test(first, second, permutations=199).pvalue <= 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "rows"), [("gaussian", (30, 12)), ("student", (30, 30))])
def test_level(noise, rows):
    model = dd.simulate_pair(4, neighbours=2, change=0.0, noise=noise, rng=862_005).first
    sets = 400
    rejected = 0
    for k in range(sets):
        rng = np.random.default_rng([862_006, k])
        tables = Tables(model.sample(rows[0], rng), model.sample(rows[1], rng), model.names)
        rejected += permute_tables(tables, 19, rng).pvalue <= 0.1 + 1e-12
    assert abs(rejected / sets - 0.1) < 3 * np.sqrt(0.1 * 0.9 / sets)


@settings(max_examples=60, deadline=None)
@given(arrays(float, (12, 3), elements=st.floats(0, 5) | st.sampled_from([1.0, 2.0])))
def test_combined_p_values_are_valid(values):
    """Were each of the rows as likely to be the tables, p <= a would come out with probability a at most."""
    pvalues = []
    for k in range(12):
        rows = np.r_[k, np.delete(np.arange(12), k)]
        combined, each = _combine(values[rows])
        pvalues.append(combined)
        assert combined <= min(1.0, 3 * min(each)) + 1e-12
        assert each == pytest.approx([(column >= column[k] * (1 - 1e-9)).mean() for column in values.T])
    for level in np.arange(1, 13) / 12:
        assert np.mean(np.array(pvalues) <= level + 1e-12) <= level + 1e-12


def test_combined_p_values_are_exact_without_ties():
    values = np.random.default_rng(862_007).random((50, 3))
    answers = [_combine(values[np.r_[k, np.delete(np.arange(50), k)]]) for k in range(50)]
    assert sorted(combined for combined, _ in answers) == pytest.approx(np.arange(1, 51) / 50)
    assert all(combined >= min(each) - 1e-12 for combined, each in answers)


def test_wide_tables_compare_covariances_block_by_block(monkeypatch):
    tables = two_tables(p=7)
    whole = permute_tables(tables, 99, 3)
    monkeypatch.setattr(permutation, "MOST_INVERTED", 3)
    steps = []
    wide = permute_tables(tables, 99, 3, progress=lambda *told: steps.append(told[:2]))
    assert wide.statistics == {"covariance": whole.statistics["covariance"]}
    assert wide.pvalue == wide.statistics["covariance"]
    assert steps[-1] == (300, 300)


def test_long_tables_are_added_up_in_parts(monkeypatch):
    tables = two_tables()
    whole = permute_tables(tables, 49, 3)
    monkeypatch.setattr(permutation, "_ROWS_AT_ONCE", 7)
    assert permute_tables(tables, 49, 3) == whole


def test_more_variables_than_rows():
    test = permute_tables(two_tables((8, 9), p=40), 49, 3)
    assert set(test.statistics) == set(STATISTICS)
    assert 0 < test.pvalue <= 1


def test_equal_tables_and_signs_only():
    table = two_tables().first
    assert permute_tables(Tables(table, table.copy(), ("a", "b", "c", "d", "e")), 39).pvalue == 1
    rng = np.random.default_rng(862_008)
    signs = [pd.DataFrame(rng.choice([-1, 1], (40, 3)), columns=list("abc")) for _ in range(2)]
    assert 0 < global_test(*signs, permutations=39).pvalue <= 1


def test_the_same_answer_every_time():
    tables = two_tables()
    assert permute_tables(tables, 59) == permute_tables(tables, 59, 0)
    draws = {permute_tables(tables, 59, seed).pvalue for seed in range(6)}
    assert len(draws) > 1
    generator = np.random.default_rng(0)
    assert permute_tables(tables, 59, generator) == permute_tables(tables, 59, 0)


def test_columns_are_matched_by_name():
    first = pd.DataFrame(two_tables().first, columns=list("abcde"))
    second = pd.DataFrame(two_tables().second, columns=list("abcde"))
    plain = global_test(first, second, permutations=39, columns=["a", "c"])
    assert global_test(first, second[list("ecadb")], permutations=39, drop=["b", "d", "e"]) == plain


def test_errors():
    tables = two_tables()
    moments = dd.Moments.from_array(tables.first)
    with pytest.raises(dd.InputError, match="moments cannot be permuted; give the two tables"):
        global_test(moments, moments)
    for wrong in (0, 9.5, True):
        with pytest.raises(dd.InputError, match="permutations must be a whole number"):
            global_test(tables.first, tables.second, permutations=wrong)
    with pytest.raises(dd.InputError, match="rng must be a whole number"):
        global_test(tables.first, tables.second, rng="today")
