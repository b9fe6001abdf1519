"""Resamples of rows that are nested in units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffdag._base.errors import InputError
from diffdag.tables.align import align_tables
from diffdag.trust.resampling import Drawing, draw
from diffdag.trust.unit_draws import draw_units, half_units
from diffdag.trust.variation import vary

FEW = settings(max_examples=25)


def tables(one, two, pairs, seed=0, cells=(2, 6)):
    """Rows whose first variable names their donor, and whose second counts them; pairs are the last donors."""
    rng = np.random.default_rng(seed)
    donors = [*range(one), *range(100, 100 + pairs)], [*range(50, 50 + two), *range(100, 100 + pairs)]
    frames = []
    for own in donors:
        labels = rng.permutation(np.repeat(own, rng.integers(*cells, len(own))))
        rows = {
            "unit": labels + np.linspace(0, 0.4, len(labels)),  # what does not vary within donors is left out
            "row": np.sqrt(np.arange(len(labels)) + 0.5),
            "x": rng.random(len(labels)),
        }
        frame = pd.DataFrame(rows | {"x": rng.random(len(labels))})
        frames.append(frame.assign(donor=[f"d{k}" for k in labels], age=100.25 + labels))
    whole = align_tables(*frames, cluster="donor", adjust=["age"])
    first, second = (np.column_stack([np.rint(own[:, 0]), own[:, 1:]]) for own in (whole.first, whole.second))
    return replace(whole, first=first, second=second)


def conditions(drawn):
    """Rows, and the number of the unit that each belongs to, of both conditions."""
    return zip((drawn.first, drawn.second), drawn.design.members, strict=True)


counts = st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)).filter(
    lambda drawn: min(drawn[0], drawn[1]) + drawn[2] >= 2
)


@FEW
@given(counts, st.integers(0, 1000))
def test_bootstrap_samples_hold_whole_donors_each_of_them_one_of_its_own(count, seed):
    whole = tables(*count, seed)
    drawn = draw_units(whole, False, False, np.random.default_rng(seed))
    for (rows, members), all_rows in zip(conditions(drawn), (whole.first, whole.second), strict=True):
        assert len(np.unique(members)) == len(np.unique(all_rows[:, 0]))  # as many as there were
        assert len(np.unique(rows[:, 0])) >= 2
        for number in np.unique(members):
            own = rows[members == number]
            donor = own[0, 0]
            known = all_rows[all_rows[:, 0] == donor]
            np.testing.assert_array_equal(np.sort(own[:, 1]), np.sort(known[:, 1]))
    one, two = drawn.design.members
    for number in np.intersect1d(one, two):  # a pair is the same donor in both conditions
        donors = {*drawn.first[one == number, 0], *drawn.second[two == number, 0]}
        assert len(donors) == 1
        assert donors.pop() >= 100
    assert len(np.intersect1d(one, two)) == count[2]
    assert len(drawn.design.units) == 1 + max(one.max(), two.max())


@FEW
@given(counts, st.integers(0, 1000))
def test_rows_keep_their_covariates_and_places(count, seed):
    whole = tables(*count, seed)
    drawn = draw_units(whole, False, False, np.random.default_rng(seed))
    for k, rows in enumerate((drawn.first, drawn.second)):
        np.testing.assert_array_equal(drawn.design.covariates[k][:, 0], 100.25 + rows[:, 0])
        np.testing.assert_array_equal((whole.first, whole.second)[k][drawn.places[k]], rows)


@FEW
@given(counts, st.integers(0, 1000))
def test_halves_are_complementary_and_have_two_donors_of_each_condition(count, seed):
    whole = tables(*count, seed)
    one, two = (draw_units(whole, True, turn, np.random.default_rng(seed)) for turn in (False, True))
    by_rows = min(count[0], count[1]) + count[2] < 4
    for k in (0, 1):
        parts = [(half.first, half.second)[k] for half in (one, two)]
        every = (whole.first, whole.second)[k]
        np.testing.assert_array_equal(np.sort(np.concatenate(parts)[:, 1]), np.sort(every[:, 1]))
        donors = [set(part[:, 0]) for part in parts]
        assert min(map(len, donors)) >= 2
        if by_rows:
            assert abs(len(parts[0]) - len(parts[1])) <= 1
        else:
            assert not donors[0] & donors[1]
            assert abs(len(donors[0]) - len(donors[1])) <= 1
    if not by_rows:
        for half in (one, two):
            shared = np.intersect1d(*half.design.members)
            assert len(shared) == len(set(half.first[:, 0]) & set(half.second[:, 0]))


def test_rows_that_are_not_nested_have_no_units_to_draw():
    rows = np.random.default_rng(0).random((9, 2))
    with pytest.raises(ValueError, match="not nested"):
        draw_units(align_tables(rows, rows + 1), False, False, np.random.default_rng(0))


@pytest.mark.parametrize("which", [0, 1])
def test_where_nothing_is_to_differ_units_of_one_condition_are_compared(which):
    whole = tables(4, 6, 0)
    halves = half_units(whole, which, np.random.default_rng(1))
    donors = [set(table[:, 0]) for table in (halves.first, halves.second)]
    assert donors[0] | donors[1] == set((whole.first, whole.second)[which][:, 0])
    assert not donors[0] & donors[1]
    assert len(donors[0]) == len(donors[1])


def test_the_condition_that_has_units_enough_is_halved():
    whole = tables(3, 4, 0)
    halves = half_units(whole, 0, np.random.default_rng(1))
    assert {*halves.first[:, 0], *halves.second[:, 0]} == set(whole.second[:, 0])
    with pytest.raises(InputError, match="halves of one condition need 4 'donor' of it; leave controls out"):
        half_units(tables(3, 3, 0), 0, np.random.default_rng(1))


def test_every_second_pair_is_swapped():
    whole = tables(0, 0, 6)
    swapped = half_units(whole, 0, np.random.default_rng(1))
    moved = 0
    for donor in np.unique(whole.first[:, 0]):
        before, after = (np.sort(one.first[one.first[:, 0] == donor, 2]) for one in (whole, swapped))
        other = np.sort(whole.second[whole.second[:, 0] == donor, 2])
        moved += np.array_equal(after, other)
        assert np.array_equal(after, before) or np.array_equal(after, other)
    assert moved == 3


@pytest.mark.parametrize("kind", ["bootstrap", "half"])
def test_a_draw_depends_on_its_number_alone(kind):
    whole = tables(4, 5, 0, cells=(5, 9))
    drawing = Drawing.of(whole.names, kind, (len(whole.first), len(whole.second)), 3)
    drawn = [draw(number, whole, drawing)[0] for number in (6, 7, 6)]
    np.testing.assert_array_equal(drawn[0].first, drawn[2].first)
    assert not np.array_equal(drawn[0].first, drawn[1].first)
    if kind == "half":  # the next one takes the donors that this one did not
        assert not set(drawn[0].first[:, 0]) & set(drawn[1].first[:, 0])


def test_donors_are_drawn_alike_whichever_comes_first():
    """Means over many draws: each donor as often as any other."""
    whole = tables(4, 4, 0)
    rng = np.random.default_rng(2)
    times = np.zeros(4)
    for _ in range(500):
        drawn = draw_units(whole, False, False, rng)
        for number in np.unique(drawn.design.members[0]):
            times[int(drawn.first[drawn.design.members[0] == number][0, 0])] += 1
    assert times.sum() == 2000
    assert np.abs(times - 500).max() < 4 * np.sqrt(2000 * 0.25 * 0.75)


@pytest.mark.parametrize("number", range(4))
def test_specifications_are_varied_where_values_are_missing(number):
    rng = np.random.default_rng(4)
    first, second = (
        np.where(rng.random((80, 4)) < 0.1, np.nan, rng.standard_normal((80, 4))) for _ in range(2)
    )
    whole = align_tables(first, second, missing="em")
    varied = vary(whole, number, np.random.default_rng(0))
    changed = varied.tables
    assert len(changed.first) > 40
    assert np.isfinite(changed.adjusted.first).all()
    assert (varied.how in ("winsorised", "range trimmed")) == (
        not np.array_equal(changed.first, whole.first, equal_nan=True)
    )
