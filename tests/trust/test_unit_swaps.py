"""Permutations of units: which there are, the rows that they move, and what units cost."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from diffdag.tables.align import Tables
from diffdag.trust.permutation import (
    _pool,
    _unit_rows,
    _UnitSwaps,
    _without,
    permute_tables,
    smallest_pvalue,
)
from diffdag.trust.resampling import _at_most, _stops


def members(first, second):
    return np.repeat(first, 2), np.repeat(second, 3)


def test_all_ways_are_there_once():
    """Units 0 and 1 are in the first condition only, 2 in the second, 3 and 4 in both."""
    units = _UnitSwaps.of(members([0, 1, 3, 4], [2, 3, 4]))
    assert units.ways == 3 * 4
    draws = units.draws(11, np.random.default_rng(0))
    assert len(draws) == 11
    own = ((0, 1), ())
    every = {
        (chosen, swapped)
        for chosen in itertools.combinations((0, 1, 2), 2)
        for swapped in ((), (3,), (4,), (3, 4))
    }
    assert {*draws, own} == every
    drawn = units.draws(10, np.random.default_rng(0))  # one fewer than all: at random
    assert len(drawn) == 10
    assert all(len(chosen) == 2 and set(chosen) <= {0, 1, 2} and set(s) <= {3, 4} for chosen, s in drawn)
    many = _UnitSwaps.of(members(range(6), range(6))).draws(400, np.random.default_rng(1))
    assert np.mean([len(swapped) for _, swapped in many]) == pytest.approx(3.0, abs=0.25)


@pytest.mark.parametrize(
    ("draw", "first", "second"),
    [
        (((0, 1), ()), [0, 1, 3, 4], []),
        (((0, 2), ()), [0, 3, 4], [2]),
        (((1, 2), (3,)), [1, 4], [2, 3]),
        (((0, 1), (3, 4)), [0, 1], [3, 4]),
    ],
)
def test_rows_go_with_their_units(draw, first, second):
    one, two = members([0, 1, 3, 4], [2, 3, 4])
    rows = _UnitSwaps.of((one, two)).rows_of(draw)
    expected = [*np.flatnonzero(np.isin(one, first)), *(len(one) + np.flatnonzero(np.isin(two, second)))]
    assert rows.tolist() == expected
    assert _UnitSwaps.of((one, two)).rows_of(None).tolist() == list(range(8))


@pytest.mark.parametrize(
    ("one", "two", "permutations", "least"),
    [
        ([0, 1, 2], [3, 4, 5], 999, 2 / 20),  # conditions that change places differ by as much
        ([0, 1, 2], [3, 4], 999, 1 / 10),
        (range(4), range(4), 999, 2 / 16),
        (range(8), range(8, 16), 99, 1 / 100),
        ([0, 1, 2, 5], [3, 4, 5], 999, 1 / 20),
    ],
)
def test_the_smallest_p_value_is_one_over_the_ways(one, two, permutations, least):
    design = SimpleNamespace(members=members(list(one), list(two)))
    assert smallest_pvalue(design, permutations) == pytest.approx(least)
    assert smallest_pvalue(SimpleNamespace(members=None), 99) is None


def test_means_of_units_cost_no_variance():
    rng = np.random.default_rng(2)
    own = np.repeat([0, 1, 2, 3], [1, 2, 5, 5])
    table = rng.standard_normal((13, 3))
    for unit in range(4):
        table[own == unit] -= table[own == unit].mean(axis=0)
    rows = _unit_rows(table + 7.0, own)
    for unit, size in enumerate((1, 2, 5, 5)):
        factor = np.sqrt(size / max(size - 1, 1))
        np.testing.assert_allclose(rows[own == unit], factor * table[own == unit], atol=1e-12)


@pytest.mark.parametrize("copied", [False, True])
def test_covariates_cost_a_row_each(copied):
    """What is left has the scatter of residuals, and as many rows as these have degrees of freedom."""
    rng = np.random.default_rng(3)
    z, table = rng.standard_normal((20, 2)) * [1.0, 1e6] + 5.0, rng.standard_normal((20, 4))
    if copied:
        z[:, 1] = 3.0 * z[:, 0]
    design = np.column_stack([np.ones(20), z])
    left = table - design @ np.linalg.lstsq(design, table, rcond=None)[0]
    rows = _without(table, z)
    assert len(rows) == 20 - 1 - (1 if copied else 2)
    np.testing.assert_allclose(rows.T @ rows, left.T @ left, atol=1e-9)
    assert len(_without(table, z[:, :0])) == 19


def test_rows_of_both_tables_have_unit_variance_and_are_permuted():
    rng = np.random.default_rng(4)
    tables = Tables(rng.standard_normal((30, 3)) * 5 + 2, rng.standard_normal((20, 3)), tuple("abc"))
    pool = _pool(tables)
    assert (pool.sizes, pool.units) == ((29, 19), None)
    np.testing.assert_allclose(np.mean(pool.rows**2, axis=0), 1)
    assert pool.chosen(None).tolist() == list(range(29, 48))
    shares = permute_tables(tables, 39, 1).statistics.values()
    assert all((40 * share) % 1 == pytest.approx(0, abs=1e-9) for share in shares)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (4.9, ""),
        (5.1, ", at most 5 s"),
        (89.0, ", at most 89 s"),
        (91.0, ", at most 2 minutes"),
        (3600, ", at most 60 minutes"),
    ],
)
def test_how_long_resamples_take_is_said_where_it_is_long(seconds, said):
    assert _at_most(seconds) == said


def test_it_is_asked_after_fifty_fits_and_every_twenty():
    assert _stops(100, early=True) == [50, 70, 90, 100]
    assert _stops(90, early=True) == [50, 70, 90]
    assert _stops(50, early=True) == [50]
    assert _stops(100, early=False) == [100]
