"""Range or mechanism: bends over moved ranges are told from changed effects, on any table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import diffdag as dd
from diffdag.pipeline import ModelOptions, prepare, search
from diffdag.results.records import SUPPORTS, Edge
from diffdag.tables.align import align_tables
from diffdag.trust.false_edges import control_false_edges
from diffdag.trust.support import (
    ROWS_NEEDED,
    Reading,
    _robust,
    check_range,
    natural_spline,
    read_edges,
    with_support,
)

ALONG = {"order": ["X1", "X2", "X3"]}


def tables(effect, *, shift=0.0, change=0.0, n=2000, noise=lambda x: 0.5, seed=1, width=1.0):
    """Columns x, y and u, each with an effect on the next; x has another range in the second table."""
    rng = np.random.default_rng(seed)
    found = []
    for c in (0, 1):
        x = shift * c + width**c * rng.standard_normal(n)
        y = effect(x) + c * change * x + noise(x) * rng.standard_normal(n)
        found.append(np.column_stack([x, y, 0.5 * y + rng.standard_normal(n)]))
    return found


def supports(first, second, **options):
    result = dd.DifferenceDAG(**options).fit(first, second).result_
    return result, {(edge.source, edge.target): edge.support for edge in result.edge_list}


@pytest.mark.parametrize("effect", [np.tanh, lambda x: x + 0.3 * x**2, lambda x: np.exp(x / 2)])
def test_a_bend_over_a_moved_range_is_no_mechanism(effect):
    result, found = supports(*tables(effect, shift=1.5), **ALONG)
    assert found["X1", "X2"] == "range"
    check = next(check for check in result.checks if check.name == "range")
    assert not check.passed
    assert "'X1 -> X2'" in check.message


def test_noise_that_grows_is_no_mechanism():
    grown = [
        supports(*tables(lambda x: x, shift=1.5, noise=lambda x: np.exp(0.7 * x), n=500, seed=seed), **ALONG)[1]
        for seed in range(10)
    ]
    assert not [found for found in grown if "mechanism" in found.values()]


@pytest.mark.parametrize("shift", [0.0, 1.5])
@pytest.mark.parametrize("effect", [lambda x: 0.8 * x, lambda x: 0.8 * x + 0.1 * x**2])
def test_a_changed_effect_is_a_mechanism(shift, effect):
    result, found = supports(*tables(effect, shift=shift, change=-0.6), **ALONG)
    assert found["X1", "X2"] == "mechanism"
    assert shift or all(check.passed for check in result.checks if check.name == "range")


def test_without_overlap_nothing_can_be_told():
    _, found = supports(*tables(lambda x: np.maximum(x - 2, 0), shift=6.0), **ALONG)
    assert found == {("X1", "X2"): "unclear"}


def test_a_product_with_a_cause_that_moved_explains_other_slopes():
    rng = np.random.default_rng(3)
    both = []
    for shift in (0.0, 1.0):
        a, b = rng.standard_normal((2, 2000))
        a += shift
        both.append(np.column_stack([a, b, b * (1 + 0.5 * a) + 0.5 * rng.standard_normal(2000)]))
    _, found = supports(*both, **ALONG)
    assert found["X2", "X3"] == "range"


def test_an_arrow_the_wrong_way_round_is_explained_by_the_right_one():
    _, found = supports(*tables(np.tanh, shift=1.5, n=5000), order=["X2", "X1", "X3"])
    assert found["X2", "X1"] == "range"


def test_edges_of_a_gain_are_judged_together():
    rng = np.random.default_rng(5)
    both = []
    for factor in (1.0, 0.2):
        causes = rng.standard_normal((2000, 4)) + np.array([1 - factor, 0, 0, 0])
        y = factor * causes.sum(axis=1) + 0.3 * rng.standard_normal(2000)
        both.append(np.column_stack([causes, y]))
    result, found = supports(*both)
    assert {edge.gain_of for edge in result.edge_list} == {"X5"}
    assert set(found.values()) == {"mechanism"}
    assert len(found) == 4


def test_units_and_the_paper_s_method():
    first, second = tables(np.tanh, shift=1.5)
    _, found = supports(first, second, **ALONG)
    scale, zero = np.array([1e4, 1e-3, 5.0]), np.array([3.0, 2.0, -7.0])
    assert supports(first * scale + zero, second * scale + zero, **ALONG)[1] == found
    _, steady = supports(*tables(lambda x: 0.8 * x, change=-0.8), method="paper")
    assert set(steady.values()) <= {*SUPPORTS, None}
    assert steady.get(("X1", "X2")) == "mechanism"


def test_moments_say_that_rows_are_needed():
    moments = [dd.Moments.from_array(table) for table in tables(np.tanh, shift=1.5)]
    result = dd.DifferenceDAG().fit_moments(*moments).result_
    assert result.edge_list
    assert {edge.support for edge in result.edge_list} == {None}
    assert ROWS_NEEDED in result.notes


def test_fdr_keeps_no_edge_that_a_range_explains():
    result, _ = supports(*tables(lambda x: 0.8 * x, change=-0.6), **ALONG)
    sure = [
        replace(edge, confidence=1.0, support=support) for edge in result.edge_list for support in ("range",)
    ]
    again = control_false_edges(replace(result, edge_list=tuple(sure)), 0.05)
    assert not again.edge_list
    assert any("a moved range explains" in note for note in again.notes)
    kept = [replace(edge, support="unclear") for edge in sure]
    assert len(control_false_edges(replace(result, edge_list=tuple(kept)), 0.05).edge_list) == len(kept)


def rounded(table):
    return np.round(table)


def mostly_zero(table):
    return np.where(np.abs(table) > np.quantile(np.abs(table), 0.9, axis=0), table, 0.0)


def two_values(table):
    return (table > 0) + 1e-3 * np.random.default_rng(0).standard_normal(table.shape) * [0, 1, 1]


@pytest.mark.parametrize("made", [rounded, mostly_zero, two_values])
@pytest.mark.parametrize("covariance", ["sample", "winsorised", "spearman"])
def test_odd_columns_get_a_verdict(made, covariance):
    first, second = (made(table) for table in tables(np.tanh, shift=1.0, change=-0.8))
    _, found = supports(first, second, covariance=covariance, **ALONG)
    assert set(found.values()) <= set(SUPPORTS)


def test_rows_worth_a_quarter_double_the_error():
    both = align_tables(*tables(lambda x: 0.8 * x, change=-0.6, n=400))
    errors = []
    for rows in (None, 100):
        options = ModelOptions(effective_samples=rows, **ALONG)
        (reading,) = read_edges(search(prepare(both, options), options), both, "sample")
        errors.append(reading.stderr)
    assert errors[1] == pytest.approx(2 * errors[0])


@pytest.mark.parametrize(("p", "n"), [(40, 60), (60, 180)])
def test_many_columns_and_few_rows(p, n):
    pair = dd.simulate_pair(p, neighbours=2, changes=6, weights=(0.8, 1.0), rng=4)
    _, found = supports(pair.first.sample(n, 1), pair.second.sample(n, 2) + 1.0)
    assert found
    assert set(found.values()) <= {*SUPPORTS, None}


def test_robust_errors_are_those_of_the_textbook():
    rng = np.random.default_rng(6)
    x = rng.standard_normal((60, 4))
    y = x @ [1.0, 0.5, 0, -1] + x[:, 0] ** 2 * rng.standard_normal(60)
    design = np.column_stack([x, x[:, 2] + x[:, 3], y])
    slopes, errors = _robust(design, design.T @ design, [0, 1, 2, 3, 4], 2)
    inverse = np.linalg.inv(x.T @ x)
    residuals = (y - x @ inverse @ x.T @ y) / (1 - np.diag(x @ inverse @ x.T))
    expected = np.sqrt(np.diag(inverse @ (x.T * residuals**2) @ x @ inverse))
    np.testing.assert_allclose(slopes, (inverse @ x.T @ y)[:2])
    np.testing.assert_allclose(errors, expected[:2])
    assert np.isinf(_robust(design, design.T @ design, [4, 2, 3], 1)[1]).all()


def test_natural_splines_are_straight_beyond_their_knots_and_bend_between():
    x = np.concatenate([np.linspace(0, 4, 500), np.linspace(3, 7, 500)])
    columns = natural_spline(x, 500)
    assert columns.shape[1] > 2
    np.testing.assert_allclose(columns[x < 0.19], 0, atol=1e-12)
    np.testing.assert_allclose(np.diff(columns[x > 6.81], n=2, axis=0), 0, atol=1e-9)
    assert np.abs(np.diff(columns[500:900], n=2, axis=0)).max() > 1e-6
    line = np.column_stack([np.ones(1000), x])
    fits = [np.linalg.lstsq(d, np.sin(x), rcond=None)[1][0] for d in (line, np.column_stack([line, columns]))]
    assert fits[1] < 0.02 * fits[0]
    assert natural_spline(np.repeat([0.0, 1.0], 50), 50).shape == (100, 0)


def test_the_check_names_what_is_doubtful():
    readings = [Reading("a", "b", "range", 0.5, 0.1, 0.1), Reading("c", "b", "unclear", 0.0, 0.1, 3.0)]
    check = check_range(readings)
    assert not check.passed
    assert check.message.index("'a -> b'") < check.message.index("'c -> b'")
    assert check_range([]) is None
    assert check_range([replace(readings[0], support="mechanism")]).passed
    edges = with_support([Edge("a", "b"), Edge("b", "c", directed=False), Edge("c", "d")], readings)
    assert [edge.support for edge in edges] == ["range", None, None]


def test_a_moved_column_that_is_not_the_cause_is_named():
    readings = [Reading("x", "y", "unclear", 0.0, 1.0, 0.1, "P"), Reading("z", "y", "unclear", 0.9, 1.0, 2.0)]
    assert "(here also of 'P', on which effects depend)" in check_range(readings).message
    assert "here also" not in check_range([readings[1]]).message
