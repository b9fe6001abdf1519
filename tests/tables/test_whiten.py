"""Whitening: filters, what they are fitted to, and what they leave."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter

import diffdag as dd
from diffdag._base.errors import InputError
from diffdag.tables.align import Tables, align_tables
from diffdag.tables.effective_rows import effective_samples
from diffdag.tables.whiten import Filter, make_filter

NAMES = tuple("abcde")


def series(n, seed, phi=0.9, p=5):
    noise = np.random.default_rng(seed).standard_normal((n + 300, p))
    phi = np.broadcast_to(phi, p)
    return np.column_stack([lfilter([1], [1, -own], noise[:, k])[300:] for k, own in enumerate(phi)])


def frames(first, second):
    return tuple(pd.DataFrame(table, columns=list(NAMES)) for table in (first, second))


def test_differences_stay_within_each_table():
    first, second = series(50, 0), 1000 + series(40, 1)
    white = align_tables(first, second, whiten="differences")
    np.testing.assert_allclose(white.first, np.diff(first, axis=0))
    np.testing.assert_allclose(white.second, np.diff(second, axis=0))


def test_a_common_autoregression_is_found():
    found = make_filter("ar", series(2000, 2), series(500, 3), NAMES)
    assert found.kind == "common"
    np.testing.assert_allclose(found.coefficients.sum(axis=0), 0.9, atol=0.03)


def test_each_variable_has_its_own_where_memories_differ():
    phi = np.array([0.3, 0.5, 0.7, 0.9, 0.95])
    found = make_filter("ar", series(2000, 4, phi), series(500, 5, phi), NAMES)
    assert found.kind == "own"
    np.testing.assert_allclose([found.gains[name] for name in NAMES], 1 - phi, atol=0.06)


def test_the_second_table_has_no_part_in_the_filter():
    first = series(300, 6)
    one, two = (make_filter("ar", first, second, NAMES) for second in (series(100, 7), 9 * series(90, 8)))
    np.testing.assert_array_equal(one.coefficients, two.coefficients)


def test_units_and_levels_do_not_matter():
    first, second = series(300, 9), series(100, 10)
    scale, level = np.array([1e-6, 3, 1, 2e4, 7]), np.array([5, 0, -1e3, 2, 1.0])
    plain = align_tables(first, second, whiten="ar")
    other = align_tables(first * scale + level, second * scale + level, whiten="ar")
    gains = np.array(list(other.whitened.gains.values()))
    np.testing.assert_allclose((other.second - gains * level) / scale, plain.second, atol=1e-6)


def test_what_is_left_is_white():
    phi = np.array([0.5, 0.6, 0.8, 0.9, 0.95])
    white = align_tables(series(400, 11, phi), series(300, 12, phi), whiten="ar")
    assert effective_samples(white.first) > 0.9 * len(white.first)
    assert effective_samples(white.second) > 0.8 * len(white.second)


def test_rows_after_a_gap_are_lost():
    first, second = frames(series(100, 13), series(60, 14))
    second.iloc[20, 1] = np.nan
    white = align_tables(first, second, whiten="differences", missing="drop")
    assert len(white.second) == 57  # the first row, that of the gap, and the one after it
    np.testing.assert_allclose(white.second[:19], np.diff(second.iloc[:20], axis=0))


def test_rows_without_memory_are_left_as_they_are():
    rows = np.random.default_rng(15).standard_normal((400, 5))
    white = align_tables(rows, rows[:100] + 0.0, whiten="ar")
    np.testing.assert_array_equal(white.first, rows)
    assert "no memory" in white.notes[-1]


def test_columns_of_which_nothing_is_left_are_left_out():
    both = series(100, 16), series(60, 17)
    first, second = (np.column_stack([own, 0.25 + 2.5 * np.arange(len(own))]) for own in both)
    white = Tables(first, second, (*NAMES, "uptime")).whiten("differences")
    assert white.names == NAMES
    assert "'uptime' does not vary once" in white.notes[-1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"whiten": "fourier"}, "whiten='fourier' is not known"),
        ({"whiten": 1}, "whiten=1 is not known"),
        ({"whiten": "ar", "cluster": "e"}, "leave whiten out where cluster is given"),
        ({"whiten": "ar", "missing": "em"}, "whiten needs values without gaps"),
    ],
)
def test_refusals(options, words):
    first, second = frames(series(100, 18), series(60, 19))
    first.iloc[3, 1] = np.nan
    with pytest.raises(InputError, match=words):
        align_tables(first, second, **{"missing": "drop", **options})


def test_short_tables_are_refused_in_words():
    with pytest.raises(InputError, match="at least 20 rows of the first table, which has 12"):
        align_tables(series(12, 20), series(60, 21), whiten="ar")
    moments = dd.Moments.from_array(series(50, 22), NAMES)
    with pytest.raises(InputError, match="whiten needs rows, and only moments are known"):
        dd.DifferenceDAG(whiten="ar").fit_moments(moments, moments)


def test_a_common_filter_goes_with_covariates():
    first, second = frames(series(300, 23), series(200, 24))
    for k, table in enumerate((first, second)):
        table["load"] = series(len(table), 25 + k, p=1)[:, 0]
        table[list(NAMES)] += 2 * table[["load"]].to_numpy()
    white = align_tables(first, second, adjust=["load"], whiten="ar")
    assert white.whitened.kind == "common"
    left = white.adjusted.first
    assert np.abs(np.corrcoef(left.T, white.design.covariates[0].T)[-1, :-1]).max() < 1e-8


def test_intercepts_are_told_as_levels_and_resamples_see_whitened_rows():
    first, second = series(600, 27), series(400, 28)
    second[:, 2] += 12.0
    result = dd.DifferenceDAG(whiten="ar", resamples=20, n_jobs=1).fit(*frames(first, second)).result_
    (moved,) = result.mean_list
    assert moved.variable == "c"
    assert moved.delta == pytest.approx(-12, abs=4)
    assert moved.confidence > 0.5
    assert result.settings["whiten"] == "common"
    assert result.nodes.variable[0] == "c"


def test_differences_say_nothing_of_levels():
    first, second = series(300, 29), 50 + series(200, 30)
    result = dd.DifferenceDAG(whiten="differences").fit(first, second).result_
    assert not result.mean_list
    assert any("levels are gone" in note for note in result.notes)


def test_a_filter_applies_to_rows_after_others():
    made = Filter("differences", ("x",), np.ones((1, 1)))
    np.testing.assert_array_equal(made.following(np.array([0, 1, 3, 4]), 4), [1, 3])


def test_what_does_not_go_with_filtered_rows_is_said():
    first, second = frames(series(120, 40), series(100, 41))
    with pytest.raises(InputError, match="covariance='winsorised' would cut off"):
        dd.DifferenceDAG(whiten="ar", covariance="winsorised").fit(first, second)
    result = dd.DifferenceDAG(whiten="ar").fit(first, second).result_
    with pytest.raises(InputError, match=r"none does of filtered rows .* in nodes\.csv"):
        result.explain("a")
    first.iloc[3, 0] = np.nan
    with pytest.raises(InputError, match="missing='drop'") as caught:
        dd.DifferenceDAG(whiten="ar").fit(first, second)
    assert "missing='em'" not in str(caught.value)


def test_the_order_of_rows_that_are_filtered_is_questioned():
    first, second = frames(series(60, 42), series(50, 43))
    days = pd.date_range("2024-01-01", periods=60, freq="min")
    for times, said in ((days, False), (days[::-1], True)):
        tables = align_tables(first.assign(when=times), second.assign(when=times[:50]), whiten="ar")
        assert any("sort them by it" in note for note in tables.notes) is said
    tables = align_tables(first.assign(when=days[::-1]), second.assign(when=days[:50]))
    assert not any("sort" in note for note in tables.notes)


@pytest.mark.parametrize("rows", [2, 3, 5])
def test_a_few_rows_are_filtered_as_far_as_they_have_others_before_them(rows):
    model = dd.DifferenceDAG(whiten="ar")
    alarms = 0
    for seed in range(10):
        first, second = frames(series(400, 2 * seed + 50), series(rows, 2 * seed + 51))
        alarms += len(model.fit(first, second).result_.mean_list) > 0
    assert alarms <= 2


def test_a_single_row_cannot_be_filtered():
    first, second = frames(series(400, 70), series(1, 71))
    with pytest.raises(InputError, match="effective_samples='auto' in place of whiten"):
        dd.DifferenceDAG(whiten="ar").fit(first, second)
    assert dd.DifferenceDAG(effective_samples="auto").fit(first, second).result_.checks[0].passed


def test_memory_of_rows_is_looked_at_where_the_other_condition_has_few():
    """Rows that follow each other lie on one side of the mean: without a filter that looks like a change."""
    failed = np.zeros(3, int)
    for seed in range(10):
        first, second = frames(series(400, 3 * seed + 80), series(5, 3 * seed + 81))
        plain = dd.DifferenceDAG().fit(first, second).result_
        (check,) = plain.checks
        assert not check.passed
        assert "'whiten' with 'ar'" in check.message
        white = dd.DifferenceDAG(whiten="ar").fit(first, second).result_
        new = dd.DifferenceDAG().fit(*frames(series(400, seed, 0.0), series(5, seed + 1, 0.0))).result_
        failed += bool(plain.mean_list), not white.checks[0].passed, not new.checks[0].passed
        if plain.mean_list:
            assert "some of it may be chance" in plain.summary().splitlines()[0]
    assert failed[0] >= 4
    assert max(failed[1:]) <= 1
    assert dd.DifferenceDAG().fit(first, second.iloc[:1]).result_.checks == ()
