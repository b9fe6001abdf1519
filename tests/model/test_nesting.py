"""Errors between units, against slow sums, simulations, and what is known of moderated variances."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from diffdag.model.nesting import NO_PRIOR, Prior, Units, see_nesting, spread_of, unit_sums
from diffdag.model.regression import regress_jointly
from diffdag.tables.adjust import Nested, take_out
from diffdag.tables.design import Design
from diffdag.tables.effective_rows import without_rows
from diffdag.tables.moments import Moments


def nested_in(members, p=1):
    """Units of rows, without levels."""
    count = 1 + max(int(own.max()) for own in members)
    levels = np.zeros((count, p)), np.zeros((count, p))
    return Nested("donor", tuple(map(str, range(count))), members, levels)


def slow_spread(first, second, members):
    """Variance and degrees of freedom of one estimate: unit by unit."""
    own = [Counter(numbers.tolist()) for numbers in members]
    kinds: dict[str, list[tuple[float, float]]] = {"first": [], "second": [], "both": []}
    for unit in set(own[0]) | set(own[1]):
        total, most = 0.0, 0.0
        for rows, numbers, there in zip((first, second), members, own, strict=True):
            sums = sum(value for value, number in zip(rows, numbers, strict=True) if number == unit)
            shares = {key: count / there.total() for key, count in there.items()}
            share = shares.get(unit, 0.0)
            left = min(1 - 2 * share + sum(other**2 for other in shares.values()), 1 - share)
            total += sums / math.sqrt(left)
            most = max(most, share)
        kind = "both" if unit in own[0] and unit in own[1] else "first" if unit in own[0] else "second"
        kinds[kind].append((total**2, most))
    variance, below = 0.0, 0.0
    for values in kinds.values():
        part = sum(square for square, _ in values)
        weights = [share**2 for _, share in values]
        effective = sum(weights) ** 2 / sum(weight**2 for weight in weights) if values else 1.0
        variance += part
        below += part**2 / max(effective * (1 - 1 / max(len(values), 1)), 1.0)
    return variance, variance**2 / below


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(2, 6), st.integers(0, 6))
def test_spread_is_the_sum_of_squares_of_what_units_contribute(seed, one, two, pairs):
    rng = np.random.default_rng(seed)
    start = max(one - pairs, 0)
    members = (
        rng.permutation(np.resize(np.arange(one), 30)),
        rng.permutation(np.resize(np.arange(start, start + two), 25)),
    )
    first, second = rng.standard_normal((30, 2)), rng.standard_normal((25, 2))
    variance, freedom = Units(nested_in(members)).spread(first, second)
    for k in (0, 1):
        known = slow_spread(first[:, k], second[:, k], members)
        assert (variance[k], freedom[k]) == pytest.approx(known)


def test_a_large_unit_does_not_hide_behind_its_own_estimate():
    """Means of units of other sizes, each with a level of its own: the stated variance is that of the mean."""
    rng = np.random.default_rng(11)
    sizes = np.array([60, 5, 5, 5])
    members = np.repeat(np.arange(4), sizes)
    none = np.zeros((1, 1)), np.array([4])
    means, stated = [], []
    for _ in range(2000):
        rows = rng.standard_normal(4)[members] + 0.3 * rng.standard_normal(len(members))
        apart = (rows - rows.mean())[:, None] / len(rows)
        variance, freedom = spread_of(
            unit_sums(apart, members, 5), unit_sums(none[0], none[1], 5), (members, none[1])
        )
        means.append(rows.mean())
        stated.append(variance[0])
    assert freedom[0] == pytest.approx(1.0)
    assert np.mean(stated) == pytest.approx(np.var(means), rel=0.15)


def test_sums_of_units_without_rows_are_zero():
    sums = unit_sums(np.array([[1.0], [2.0], [4.0]]), np.array([3, 1, 3]), 5)
    np.testing.assert_array_equal(sums.ravel(), [0, 2, 0, 5, 0])


def test_pairs_cancel_what_is_common_to_both_conditions():
    """What is special about a donor is there in both conditions, with the other sign in a difference."""
    rng = np.random.default_rng(3)
    special = rng.standard_normal((6, 1))
    numbers = np.arange(6)
    apart, _ = spread_of(
        np.vstack([special, 0 * special]), np.vstack([0 * special, -special]), (numbers, numbers + 6)
    )
    paired, _ = spread_of(special, -special, (numbers, numbers))
    assert paired[0] == pytest.approx(0)
    assert apart[0] == pytest.approx(2 * 6 / 5 * float((special**2).sum()))


def test_variances_of_means_of_units_are_those_of_the_t_test():
    rng = np.random.default_rng(4)
    first, second = np.full(9, np.nan), np.full(9, np.nan)
    first[:4], second[4:] = rng.standard_normal(4), 1 + rng.standard_normal(5)
    units = Units(nested_in((np.arange(4), np.arange(4, 9))))
    value, variance, freedom = units.compare_levels(first, second)
    known = stats.ttest_ind(first[:4], second[4:], equal_var=False)
    assert value / math.sqrt(variance) == pytest.approx(known.statistic)
    assert freedom == pytest.approx(known.df)


def test_variances_of_means_of_pairs_are_those_of_the_paired_t_test():
    rng = np.random.default_rng(5)
    first = rng.normal(0, 5, 6)
    second = first + rng.standard_normal(6)
    units = Units(nested_in((np.arange(6), np.arange(6))))
    value, variance, freedom = units.compare_levels(first, second)
    known = stats.ttest_rel(first, second)
    assert value / math.sqrt(variance) == pytest.approx(known.statistic)
    assert freedom == pytest.approx(known.df)


# What all estimates know


@pytest.mark.parametrize(("freedom", "own"), [(6, 4.0), (6, 20.0), (3, 8.0)])
def test_a_prior_is_recovered_from_scaled_f_samples(freedom, own):
    ratios = 1.7 * np.random.default_rng(6).f(freedom, own, 20_000)
    prior = Prior.of(ratios, freedom)
    assert prior.ratio == pytest.approx(1.7, rel=0.05)
    assert prior.freedom == pytest.approx(own, rel=0.15)


def test_multiples_that_are_all_alike_are_known_as_well_as_is_said():
    ratios = 2.5 * np.random.default_rng(7).chisquare(5, 4000) / 5
    prior = Prior.of(ratios, 5, most=30)
    assert prior.ratio == pytest.approx(2.5, rel=0.05)
    assert prior.freedom == 30


def test_too_few_multiples_tell_nothing():
    assert Prior.of(np.array([3.0, np.nan]), 4) == NO_PRIOR


def test_moderated_multiples_lie_between_their_own_and_that_of_all():
    multiples, freedom = Prior(2.0, 6.0).moderate(np.array([1.0, 8.0]), np.array([3.0, 6.0]))
    np.testing.assert_allclose(multiples, [(3 * 1 + 6 * 2) / 9, (6 * 8 + 6 * 2) / 12])
    np.testing.assert_array_equal(freedom, [9, 12])


def test_moderated_t_values_keep_their_level():
    """4 against 4 donors, two thousand estimates whose spread between donors differs."""
    rng = np.random.default_rng(8)
    estimates, cells = 2000, 25
    members = np.repeat(np.arange(4), cells), np.repeat(np.arange(4, 8), cells)
    between = 0.3 * np.sqrt(8 / rng.chisquare(8, estimates))  # of donors; rows have 1
    parts = []
    for own in members:
        rows = rng.standard_normal((len(own), estimates)) + (between * rng.standard_normal((8, estimates)))[own]
        parts.append(rows / len(own))
    value = parts[0].sum(axis=0) - parts[1].sum(axis=0)
    centred = [sign * (part - part.mean(axis=0)) for sign, part in zip((1, -1), parts, strict=True)]
    units = Units(nested_in(members))
    plain, freedom = units.spread(*centred)
    rows = sum((part**2).sum(axis=0) for part in centred)
    prior = Prior.of(plain / rows, 6)
    error, known = units.errors(centred[0], centred[1], prior)
    rejected = np.mean(2 * stats.t.sf(np.abs(value) / error, known) < 0.05)
    assert abs(rejected - 0.05) < 4 * math.sqrt(0.05 * 0.95 / estimates)
    as_if_independent = np.mean(np.abs(value) / np.sqrt(rows) > 1.96)
    assert as_if_independent > 0.2
    assert (known > freedom).all()


# Regressions


def donors(rng, count, cells, slope, first, level=0.0):
    """Rows of x and y, their donors, and what is left once these are taken out; slopes differ by donor."""
    members = np.repeat(np.arange(first, first + count), cells)
    x = rng.standard_normal(len(members)) + level * rng.standard_normal(count)[members - first]
    own = 0.8 + slope * rng.standard_normal(count)
    y = (
        own[members - first] * x
        + rng.standard_normal(len(members))
        + level * rng.standard_normal(count)[members - first]
    )
    return np.column_stack([x, y]), members


def compared(rng, slope, prior=NO_PRIOR, level=0.0, counts=(4, 4), cells=30):
    """The joint regression of y on x in two conditions, each with donors of its own."""
    one, two = (
        donors(rng, counts[0], cells, slope, 0, level),
        donors(rng, counts[1], cells, slope, counts[0], level),
    )
    design = Design.none(len(one[0]), len(two[0]))
    units = tuple(map(str, range(sum(counts))))
    design = Design(covariates=design.covariates, cluster="donor", units=units, members=(one[1], two[1]))
    rows, taken = take_out((one[0], two[0]), design)
    moments = [
        without_rows(Moments.from_array(table), len(table), lost, 0.0)
        for table, lost in zip(rows, taken.lost, strict=True)
    ]
    known = Units(taken.nested, prior)
    return regress_jointly(*moments, 1, [0], [0], True, rows=rows, units=known)


def test_variances_of_slope_differences_are_those_of_simulations():
    rng = np.random.default_rng(9)
    fits = [compared(rng, 0.3, counts=(6, 9)) for _ in range(200)]
    deltas = np.array([float(fit.first[0] - fit.second[0]) for fit in fits])
    said = np.mean([float(fit.error_delta[0]) ** 2 for fit in fits])
    # The variance of so many values is known to within sqrt(2 / 199) = 10 %; donors to a few.
    assert said == pytest.approx(deltas.var(), rel=0.3)
    assert said == pytest.approx(0.3**2 * (1 / 6 + 1 / 9) + (1 / 180 + 1 / 270), rel=0.15)


@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_slope_differences_are_called_changed_as_often_as_the_level_says(slope):
    rng = np.random.default_rng(10)
    pvalues = [compared(rng, slope).delta_pvalue(0) for _ in range(250)]
    rejected = np.mean(np.array(pvalues) < 0.05)
    assert rejected < 0.05 + 4 * math.sqrt(0.05 * 0.95 / 250)


def test_intercepts_are_compared_by_donors():
    rng = np.random.default_rng(11)
    pvalues = [compared(rng, 0.0, level=0.5).shift.pvalue for _ in range(250)]
    rejected = np.mean(np.array(pvalues) < 0.05)
    assert abs(rejected - 0.05) < 4 * math.sqrt(0.05 * 0.95 / 250)


def test_ratios_of_variances_know_donors():
    """Noise whose variance differs between donors: errors of the log ratio are those of simulations."""
    rng = np.random.default_rng(12)
    found = []
    for _ in range(200):
        rows, members = [], []
        for k in (0, 1):
            own = np.repeat(np.arange(6 * k, 6 * k + 6), 40)
            scale = np.exp(0.15 * rng.standard_normal(12))[own]
            rows.append(rng.standard_normal((240, 2)) * np.column_stack([np.ones(240), scale]))
            members.append(own)
        units = Units(nested_in((members[0], members[1]), 2))
        rows = [table - table.mean(axis=0) for table in rows]
        fit = regress_jointly(*map(Moments.from_array, rows), 1, [0], [], True, rows=tuple(rows), units=units)
        found.append(fit.ratio)
    values, errors = np.array([one.value for one in found]), np.array([one.stderr for one in found])
    assert np.mean(errors**2) == pytest.approx(values.var(), rel=0.3)


def test_nesting_is_seen_where_it_is():
    rng = np.random.default_rng(13)

    def seen(slope):
        members = np.repeat(np.arange(5), 60), np.repeat(np.arange(5, 10), 60)
        rows = []
        for own in members:
            x = rng.standard_normal((300, 6))
            for k in range(1, 6):
                x[:, k] += (0.5 + slope * rng.standard_normal(10))[own] * x[:, k - 1]
            x -= np.array([x[own == unit].mean(axis=0) for unit in range(10) if (own == unit).any()])[
                own - own.min()
            ]
            rows.append(x)
        return see_nesting(rows, nested_in(members, 6), np.random.default_rng(0))

    alike, apart = seen(0.0), seen(0.5)
    assert 0.7 < alike.multiples[0] < 1.3
    assert 0.7 < alike.multiples[1] < 1.3
    assert apart.multiples[0] > 1.5
    assert apart.change.ratio > alike.change.ratio


def test_priors_of_regressions_do_not_depend_on_the_units_of_variables():
    rng = np.random.default_rng(14)
    members = np.repeat(np.arange(4), 30), np.repeat(np.arange(4, 8), 30)
    rows = [rng.standard_normal((120, 4)) for _ in members]
    scaled = [table * [1e-3, 1.0, 50.0, 1e4] for table in rows]
    one, two = (see_nesting(both, nested_in(members, 4), np.random.default_rng(0)) for both in (rows, scaled))
    assert one.multiples == pytest.approx(two.multiples)
    assert tuple(one.change) == pytest.approx(tuple(two.change))
    assert tuple(one.variance) == pytest.approx(tuple(two.variance))


def test_means_that_are_worth_fewer_rows_have_larger_errors():
    rng = np.random.default_rng(15)
    one, two = (Moments.from_array(rng.standard_normal((100, 2))) for _ in range(2))
    fewer = [Moments(own.names, own.n, own.mean, own.scatter, 25.0) for own in (one, two)]
    plain, wide = (regress_jointly(*both, 0, [], [], False).shift for both in ((one, two), fewer))
    assert wide.value == pytest.approx(plain.value)
    assert wide.stderr == pytest.approx(2 * plain.stderr)
