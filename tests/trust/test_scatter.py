"""Scatters show the regressions that the weights come from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import diffdag as dd
from diffdag.pipeline import ModelOptions, prepare_moments, search
from diffdag.results.json import from_json, to_json
from diffdag.results.records import Cloud
from diffdag.trust.false_edges import control_false_edges
from diffdag.trust.scatter import STORED_ROWS, choose_rows, edge_scatters


@pytest.fixture(scope="module")
def tables():
    pair = dd.simulate_pair(p=8, neighbours=4, changes=2, weights=(0.6, 1.0), rng=11)
    return pair.first.sample(400, rng=1) + np.arange(8) / 8, pair.second.sample(500, rng=2) - 0.3


@pytest.fixture(scope="module")
def result(tables):
    return dd.DifferenceDAG().fit(*tables).result_


def stacked_residuals(tables, result, edge):
    """Residuals of least squares on both tables at once, written out with dummies: no moments, no shortcut."""
    names = list(result.variables)
    order = result.settings["search_order"]
    earlier = [names.index(name) for name in order[: order.index(edge.target)]]
    causes = [names.index(e.source) for e in result.edge_list if e.target == edge.target]
    one, two = tables
    zeros = np.zeros((len(two), len(causes)))
    design = np.block(
        [
            [one[:, earlier], one[:, causes], np.ones((len(one), 1)), np.zeros((len(one), 1))],
            [two[:, earlier], zeros, np.zeros((len(two), 1)), np.ones((len(two), 1))],
        ]
    )
    target = np.concatenate([t[:, names.index(edge.target)] for t in tables])
    rest = target - design @ np.linalg.lstsq(design, target, rcond=None)[0]
    return rest[: len(one)], rest[len(one) :]


def test_points_lie_around_the_line_as_rows_around_the_regression(tables, result):
    assert not result.noise_list  # so that both conditions weigh the same in the reference
    assert len(result.scatters) == len(result.edge_list) > 0
    for edge in result.edge_list:
        scatter = result.scatter_of(edge.source, edge.target)
        assert scatter.adjusted
        assert (scatter.first.slope, scatter.second.slope) == (edge.weight_first, edge.weight_second)
        residuals = stacked_residuals(tables, result, edge)
        column = result.variables.index(edge.source)
        for cloud, table, rest in zip((scatter.first, scatter.second), tables, residuals, strict=True):
            x, y = np.array(cloud.x), np.array(cloud.y)
            np.testing.assert_allclose(x, choose_rows(table)[:, column], atol=np.ptp(x) / 1000)
            np.testing.assert_allclose(
                y - cloud.intercept - cloud.slope * x, choose_rows(rest[:, None])[:, 0], atol=np.ptp(x) / 500
            )
            assert cloud.noise == pytest.approx(rest.std(), rel=1e-6)
            assert (cloud.low + cloud.high) / 2 == pytest.approx(table[:, column].mean())


def test_no_more_rows_than_asked_for(tables):
    assert all(
        len(s.first.x) == STORED_ROWS == len(s.second.y)
        for s in dd.DifferenceDAG().fit(*tables).result_.scatters
    )
    few = dd.DifferenceDAG(stored_rows=7).fit(*tables).result_.scatters
    assert {len(cloud.x) for s in few for cloud in (s.first, s.second)} == {7}
    none = dd.DifferenceDAG(stored_rows=0).fit(*tables).result_.scatters
    assert {len(cloud.x) for s in none for cloud in (s.first, s.second)} == {0}
    assert [s.first.slope for s in none] == [s.first.slope for s in few]


@pytest.mark.parametrize("points", [-1, 1.5, True, "many"])
def test_points_have_to_be_a_number_of_rows(tables, points):
    with pytest.raises(dd.InputError, match="stored_rows must be a whole number"):
        dd.DifferenceDAG(stored_rows=points).fit(*tables)


def test_moments_give_the_same_lines(tables, result):
    moments = [dd.Moments.from_array(table) for table in tables]
    found = dd.DifferenceDAG().fit_moments(*moments).result_
    assert [s.first.x for s in found.scatters] == [()] * len(found.edge_list)
    for one, two in zip(found.scatters, result.scatters, strict=True):
        assert one.first.intercept == pytest.approx(two.first.intercept)
        assert one.second.noise == pytest.approx(two.second.noise)


def test_an_undirected_edge_shows_the_rows_as_they_are():
    first, second = dd.load_sachs_pair("u0126")
    found = dd.DifferenceDAG().fit(first, second).result_
    loose = [e for e in found.edge_list if not e.directed]
    assert loose
    for edge in loose:
        scatter = found.scatter_of(edge.source, edge.target)
        assert not scatter.adjusted
        slope, level = np.polyfit(first[edge.source], first[edge.target], 1)
        assert scatter.first.slope == pytest.approx(slope)
        assert scatter.first.intercept == pytest.approx(level)


@pytest.mark.parametrize("covariance", ["winsorised", "spearman"])
def test_robust_fits_show_the_scale_they_were_made_on(tables, covariance):
    wild = tables[0].copy()
    wild[3] *= 1e3
    found = dd.DifferenceDAG(covariance=covariance).fit(wild, tables[1]).result_
    assert found.settings["covariance"] == covariance
    assert found.scatters
    assert {s.scores for s in found.scatters} == {covariance == "spearman"}
    assert max(abs(x) for s in found.scatters for x in s.first.x) < 100


def assert_lines_are_least_squares(result, tolerance=1e-2):
    """In each condition the source has a coefficient of its own, so the line fits the points shown best."""
    directed = [scatter for scatter in result.scatters if scatter.adjusted]
    for scatter in directed:
        for cloud in (scatter.first, scatter.second):
            slope, intercept = np.polyfit(cloud.x, cloud.y, 1)
            scale = np.std(cloud.y) / np.std(cloud.x)
            assert abs(slope - cloud.slope) < tolerance * scale, scatter.source
            assert abs(intercept - cloud.intercept) < tolerance * (np.std(cloud.y) + scale * abs(cloud.low))
    return len(directed)


def small(seed, n=80, p=6):
    pair = dd.simulate_pair(p=p, neighbours=4, changes=4, weights=(0.4, 1.0), rng=seed)
    return pair.first.sample(n, rng=seed + 100), pair.second.sample(n, rng=seed + 200)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [{}, {"noise": "equal"}, {"covariance": "winsorised"}, {"method": "paper", "estimator": "dtrace"}],
)
def test_lines_fit_the_points_whatever_was_fitted(settings):
    found = [
        dd.DifferenceDAG(n_jobs=1, **settings, stored_rows=80).fit(*small(seed)).result_ for seed in range(12)
    ]
    assert sum(map(assert_lines_are_least_squares, found)) > 10


@pytest.mark.parametrize("seed", [100, 143, 220])  # such answers are rare
def test_lines_fit_the_points_next_to_undirected_edges(seed):
    result = dd.DifferenceDAG(n_jobs=1, stored_rows=60).fit(*small(seed, 60, 5)).result_
    loose = {name for e in result.edge_list if not e.directed for name in (e.source, e.target)}
    assert any(e.directed and e.target in loose for e in result.edge_list)
    assert assert_lines_are_least_squares(result)


def test_lines_and_points_are_of_the_rows_that_measured():
    count = 0
    for seed in range(6):
        first, second = small(seed, 400)
        found = dd.DifferenceDAG(n_jobs=1, intervals="split", stored_rows=400).fit(first, second).result_
        count += assert_lines_are_least_squares(found)
        for scatter in found.scatters:
            assert len(scatter.first.x) == 200
    assert count


@pytest.mark.slow
@pytest.mark.parametrize("method", ["order", "paper"])
def test_edges_left_out_do_not_move_the_lines_of_others(method):
    left_out = 0
    for seed in range(8):
        options = ModelOptions(method=method)
        moments = [dd.Moments.from_array(table) for table in small(seed, 300)]
        fit = search(prepare_moments(*moments, options), options)
        whole = fit.difference
        drop = min(whole.edge_list, key=lambda e: abs(e.delta or 0), default=None)
        sure = [replace(e, confidence=float(e is not drop)) for e in whole.edge_list]
        fewer = control_false_edges(replace(whole, edge_list=tuple(sure)), 0.01)
        left_out += len(fewer.edge_list) < len(whole.edge_list)
        lines = {(s.source, s.target): s for s in edge_scatters(whole.edge_list, fit, *moments)}
        for scatter in edge_scatters(fewer.edge_list, fit, *moments):
            if scatter.adjusted:
                assert scatter == lines[scatter.source, scatter.target]
    assert left_out


@pytest.mark.slow
def test_a_list_with_few_false_edges_shows_each_of_them(tables):
    sure = dd.DifferenceDAG(resamples=20, fdr=0.2, permutations=0, n_jobs=1).fit(*tables).result_
    assert {(s.source, s.target) for s in sure.scatters} == {(e.source, e.target) for e in sure.edge_list}
    assert assert_lines_are_least_squares(
        dd.DifferenceDAG(resamples=20, fdr=0.2, permutations=0, n_jobs=1, stored_rows=1000).fit(*tables).result_
    )


def test_they_survive_a_file_and_damage_is_named(result):
    text = to_json(result)
    assert from_json(text, "r") == result
    assert from_json(text.replace('"scatters"', '"other"'), "r").scatters == ()
    for old, new, message in [
        ('"adjusted": true', '"adjusted": 3', "'adjusted' is 3, expected true or false"),
        ('"x": [', '"x": ["a", ', "'x' is 'a', expected a finite number"),
        ('"x": [', '"x": [1, ', "different numbers of x and y"),
        ('"scatters": [{"source": "', '"scatters": [{"source": "un', "not among the edges"),
    ]:
        assert old in text
        with pytest.raises(dd.InputError, match=message):
            from_json(text.replace(old, new, 1), "r")


def test_a_cloud_has_as_many_x_as_y():
    with pytest.raises(ValueError, match="different numbers"):
        Cloud((1.0,), (), 0.0, 0.0, 0.0, 1.0, 1.0)
