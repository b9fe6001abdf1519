"""Intervals from rows that had no part in finding the changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import diffdag as dd
from diffdag.model.regression import regress_jointly
from diffdag.pipeline import ModelOptions, moments_of, prepare, search
from diffdag.report.explanation import explanation_text
from diffdag.tables.align import align_tables
from diffdag.tables.moments import Moments
from diffdag.trust.permutation import permute_tables
from diffdag.trust.splitting import measure, split_rows

PAIR = dd.simulate_pair(p=6, neighbours=3, changes=2, weights=(0.7, 1.0), rng=8)
TABLES = align_tables(PAIR.first.sample(801, rng=1), PAIR.second.sample(600, rng=2))


def test_every_row_is_in_one_part():
    found, held = split_rows(TABLES, 3)
    for whole, one, other in (
        (TABLES.first, found.first, held.first),
        (TABLES.second, found.second, held.second),
    ):
        assert abs(len(one) - len(other)) <= 1
        both = np.vstack([one, other])
        assert sorted(map(tuple, both)) == sorted(map(tuple, whole))
    again, _ = split_rows(TABLES, 3)
    np.testing.assert_array_equal(again.first, found.first)
    assert not np.array_equal(split_rows(TABLES, 4)[0].first, found.first)


def test_the_interval_is_students_of_least_squares_on_the_other_rows():
    """With one cause and no noise change: ordinary least squares of the effect on everything before it."""
    found, held = split_rows(TABLES, 0)
    options = ModelOptions()
    fit = search(prepare(found, options), options)
    measured = measure(fit.difference, fit, *moments_of(held, options), np.zeros((6, 6), bool))
    structure = fit.structure
    assert {(e.source, e.target) for e in measured.edge_list} == PAIR.edges
    for edge in measured.edge_list:
        i, j = structure.names.index(edge.target), structure.names.index(edge.source)
        earlier = list(structure.order[: structure.order.index(i)])
        group = np.repeat([1.0, 0.0], [len(held.first), len(held.second)])
        rows = np.vstack([held.first, held.second])
        extra = [rows[:, k] * group for k in structure.causes[i]]
        design = np.column_stack([np.ones(len(rows)), group, rows[:, earlier], *extra])
        beta, rss, *_ = np.linalg.lstsq(design, rows[:, i])
        free = len(rows) - design.shape[1]
        error = np.sqrt(rss[0] / free * np.linalg.inv(design.T @ design).diagonal())
        k = 2 + len(earlier) + structure.causes[i].index(j)
        assert edge.delta == pytest.approx(beta[k])
        assert edge.stderr == pytest.approx(error[k])
        reach = stats.t.ppf(0.975, free) * error[k]
        assert edge.low <= beta[k] - reach + 1e-9
        assert edge.high >= beta[k] + reach - 1e-9


def test_what_is_not_measured_stays_as_the_search_found_it():
    found, held = split_rows(TABLES, 0)
    options = ModelOptions()
    fit = search(prepare(found, options), options)
    told = fit.difference
    for settled in (False, True):
        own = {
            "settled": settled,
            "stand_ins": ("X9",),
            "support": "unclear",
            "confidence": 0.7,
            "direction": 0.6,
        }
        edges = tuple(replace(edge, **own) for edge in told.edge_list)
        given = replace(told, edge_list=edges)
        measured = measure(given, fit, *moments_of(held, options), np.zeros((6, 6), bool))
        for edge, before in zip(measured.edge_list, edges, strict=True):
            assert {name: getattr(edge, name) for name in own} == own
            assert edge.delta != before.delta
            assert edge.robustness != before.robustness


def test_fit_splits_and_says_so():
    model = dd.DifferenceDAG(n_jobs=1, intervals="split", permutations=99)
    result = model.fit(TABLES.first, TABLES.second).result_
    assert result.samples == (801, 600)
    assert result.global_test == permute_tables(TABLES, 99)
    assert "no part in finding the changes" in explanation_text(result, result.edge_list[0].target)
    assert "401 and 300 rows" in result.notes[-1]
    assert "400 and 300" in result.notes[-1]
    assert (result.edges["low"] < result.edges["delta"]).all()
    assert (result.edges["delta"] < result.edges["high"]).all()


def test_two_effects_of_one_cause_have_intervals_for_either_order():
    """X1 -> X2 and X1 -> X3 change, X2 -> X3 does not: X2 before X3 or after, there are two changes."""
    before = np.array([[0, 0, 0], [0.9, 0, 0], [0.2, 0.8, 0]])
    after = np.array([[0, 0, 0], [0.5, 0, 0], [0.9, 0.8, 0]])
    one, two = dd.LinearSEM(before), dd.LinearSEM(after)
    result = dd.DifferenceDAG(n_jobs=1, intervals="split").fit(one.sample(4000, 1), two.sample(4000, 2)).result_
    edges = {(e.source, e.target): e for e in result.edge_list}
    for (source, target), change in {("X1", "X2"): 0.4, ("X1", "X3"): -0.7}.items():
        edge = edges[source, target]
        assert edge.low <= change <= edge.high
    assert edges["X1", "X3"].high > -0.38  # what reaches X3 in all, if X2 comes after it


def test_only_orders_that_agree_with_what_is_known_are_looked_at():
    before = np.array([[0, 0, 0], [0.9, 0, 0], [0.2, 0.8, 0]])
    after = np.array([[0, 0, 0], [0.5, 0, 0], [0.9, 0.8, 0]])
    tables = dd.LinearSEM(before).sample(4000, 1), dd.LinearSEM(after).sample(4000, 2)
    known = dd.DifferenceDAG(n_jobs=1, order=["X1", "X2", "X3"], intervals="split").fit(*tables).result_
    for edge in known.edge_list:
        assert edge.high - edge.low == pytest.approx(2 * 1.96 * edge.stderr, rel=0.01)


def test_few_rows_of_one_noisy_condition_give_wide_intervals():
    """With two variances the few rows of one table count, not all rows: Welch's interval for one cause."""
    rng = np.random.default_rng(0)
    tables = []
    for n, slope, noise in ((14, 2.0, 3.0), (2000, 0.0, 1.0)):
        x = rng.normal(size=n)
        tables.append(np.column_stack([x, slope * x + noise * rng.normal(size=n)]))
    fit = regress_jointly(*(Moments.from_array(table) for table in tables), 1, [0], [0], separate=True)
    assert 11 < fit.freedom_delta[0] < 14


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"method": "paper"}, "need method='order'"),
        ({"effective_samples": 100.0}, "time series cannot be split"),
    ],
)
def test_what_cannot_be_split(options, says):
    with pytest.raises(dd.InputError, match=says):
        dd.DifferenceDAG(**options, intervals="split").fit(TABLES.first, TABLES.second)


def test_a_held_out_half_without_a_rare_value_is_refused_before_anything_is_fitted(tmp_path):
    """The only rows of the second table with another value are among those that changes are found on."""
    first, second = TABLES.first.copy(), TABLES.second.copy()
    rows = np.zeros((len(second), 1))
    rows[np.flatnonzero(np.isin(second[:, 0], split_rows(TABLES, 0)[0].second[:, 0]))[:40]] = 1.0
    first = np.column_stack([first, np.arange(len(first)) % 2])
    model = dd.DifferenceDAG(n_jobs=1, intervals="split", resamples=20)
    with pytest.raises(dd.InputError, match=r"'X7' is constant in the held-out half of the second table"):
        model.fit(first, np.column_stack([second, rows]), journal=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
