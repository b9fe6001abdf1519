"""Screening: shared neighbourhoods, statistics of change, and what the search is given."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import norm

from diffdag import DifferenceDAG, InputError, Moments, simulate_pair
from diffdag.ordersearch import screen as module
from diffdag.ordersearch.neighbourhood import MOST, Neighbourhoods, find_neighbourhoods
from diffdag.ordersearch.screen import most_variables, screen, screening_note, silent
from diffdag.precision.problem import standardise
from diffdag.precision.rows import standardise_rows

NAMES = tuple(f"X{k + 1}" for k in range(600))


def wide_pair(p=600, n=300, changes=6, seed=1):
    pair = simulate_pair(p, neighbours=3, changes=changes, weights=(0.6, 1.0), rng=seed)
    return pair, pair.first.sample(n, seed + 1), pair.second.sample(n, seed + 2)


def pursuit(tables, i):
    """Orthogonal matching pursuit of one variable, by least squares on the rows."""
    stacked = np.vstack([table - table.mean(axis=0) for table in tables])
    stacked = stacked / stacked.std(axis=0)
    rows, p = stacked.shape
    price = math.log(p) + math.log(rows) / 2
    chosen, left = [], stacked[:, i]
    while len(chosen) < MOST:
        correlation = np.abs(stacked.T @ left) / rows / left.std()
        correlation[[i, *chosen]] = 0
        best = int(correlation.argmax())
        if -rows / 2 * math.log1p(-(correlation[best] ** 2)) <= price:
            break
        chosen.append(best)
        left = stacked[:, i] - stacked[:, chosen] @ np.linalg.lstsq(stacked[:, chosen], stacked[:, i])[0]
    return chosen, float((left**2).mean())


@pytest.mark.parametrize("make", ["rows", "moments"])
def test_neighbourhoods_are_those_of_matching_pursuit(make):
    _, *tables = wide_pair(p=80, n=60)
    if make == "rows":
        problem = standardise_rows(*tables)[0]
    else:
        problem = standardise(*(Moments.from_array(table) for table in tables))
    found = find_neighbourhoods(problem, 60, 60, silent)
    assert any(found.of(i) for i in range(80))
    pooled = np.vstack([table - table.mean(axis=0) for table in tables])
    for i in range(80):
        chosen, variance = pursuit(tables, i)
        assert found.of(i) == chosen
        scale = (problem.at((np.array([i]),) * 2)[0] + problem.at((np.array([i]),) * 2)[1])[0] / 2
        assert found.variances[i] == pytest.approx(variance * scale, rel=1e-4)
    assert pooled.shape == (120, 80)


def test_statistics_are_standard_normal_without_a_change_and_large_with_one():
    pair, first, second = wide_pair(p=400, n=500, changes=3)
    problem = standardise_rows(first, second)[0]
    around = find_neighbourhoods(problem, 500, 500, silent)
    noise = np.zeros(400)
    values = np.vstack([block.copy() for _, block in module._statistics(problem, around, 500, 500, noise)])
    changed = pair.changed | pair.changed.T
    np.fill_diagonal(changed, True)
    assert np.abs(values)[pair.changed].min() > 4
    assert 0.85 < values[~changed].std() < 1.15
    assert np.diag(values).max() == 0
    assert 0.3 < np.median(noise) < 1.1  # 0.67 for absolute values of standard normal variables


def test_what_changed_is_kept_with_its_neighbours():
    pair, first, second = wide_pair()
    kept = screen(standardise_rows(first, second)[0], 300, 300, most_variables(300))
    assert 2 <= len(kept.members) <= most_variables(300) == 200
    members = {NAMES[k] for k in kept.members}
    assert {name for edge in pair.edges for name in edge} <= members
    parents = {
        NAMES[j] for i in np.flatnonzero(pair.changed.any(axis=1)) for j in pair.first.effects[[i]].indices
    }
    assert len(parents & members) >= 0.8 * len(parents)


@pytest.mark.slow
def test_a_wide_table_is_fitted_from_its_rows_as_from_its_moments():
    pair, first, second = wide_pair()
    seen = []
    model = DifferenceDAG().fit(first, second, progress=lambda *step: seen.append(step))
    result = model.result_
    assert {(edge.source, edge.target) for edge in result.edge_list} == pair.edges
    assert result.variables == NAMES
    assert result.delta_entries.shape == (600, 600)
    assert result.delta_precision.shape == (600, 600)
    assert len(result.screened_out) >= 400
    assert "were screened out" in " ".join(result.notes)
    assert {"Looking for neighbours", "Looking for changes"} <= {what for _, _, what in seen}
    moments = [Moments.from_array(table) for table in (first, second)]
    again = DifferenceDAG().fit_moments(*moments).result_
    assert again.edges.drop(columns="stderr").equals(result.edges.drop(columns="stderr")) or np.allclose(
        again.edges["delta"], result.edges["delta"], rtol=1e-6
    )
    assert again.screened_out == result.screened_out


@pytest.mark.slow
def test_no_change_in_a_wide_table_gives_no_edges():
    for seed in range(3):
        pair = simulate_pair(500, neighbours=3, changes=0, rng=seed)
        tables = pair.first.sample(200, seed + 10), pair.first.sample(200, seed + 20)
        assert not DifferenceDAG().fit(*tables).result_.edge_list


@pytest.mark.slow
def test_what_is_known_beforehand_holds_in_wide_tables_too():
    pair, first, second = wide_pair()
    source, target = sorted(pair.edges)[0]
    result = DifferenceDAG(forbidden=[(source, target)]).fit(first, second).result_
    assert (source, target) not in {(edge.source, edge.target) for edge in result.edge_list if edge.directed}
    with pytest.raises(InputError, match="nobody"):
        DifferenceDAG(required=["nobody -> X1"]).fit(first, second)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the spearman correlations:diffdag.DiffDagWarning")
@pytest.mark.parametrize("covariance", ["winsorised", "spearman"])
def test_robust_covariances_screen_on_what_they_see(covariance):
    pair, first, second = wide_pair(p=300, n=140, changes=3, seed=4)
    first[0, :5] = 1e6  # a few cells that would hide everything
    result = DifferenceDAG(covariance=covariance).fit(first, second).result_
    found = {(edge.source, edge.target) for edge in result.edge_list}
    assert len(found & pair.edges) >= 2
    assert len(found - pair.edges) <= 1


def test_a_copy_of_a_column_is_no_neighbour_and_hides_none():
    _, first, second = wide_pair(p=300, n=60)
    alone = find_neighbourhoods(standardise_rows(first, second)[0], 60, 60, silent)
    first, second = (np.column_stack([table, table[:, 0]]) for table in (first, second))
    found = find_neighbourhoods(standardise_rows(first, second)[0], 60, 60, silent)
    assert alone.of(0)
    assert found.of(0) == alone.of(0)


@pytest.mark.filterwarnings("ignore:the spearman correlations:diffdag.DiffDagWarning")
def test_no_more_is_kept_than_what_ranks_are_worth():
    _, first, second = wide_pair(p=200, n=60, changes=2)
    result = DifferenceDAG(covariance="spearman").fit(first, second).result_
    kept = 200 - len(result.screened_out)
    assert kept <= most_variables(min(result.samples)) < most_variables(60)
    assert f"{min(result.samples)} rows can order at most" in " ".join(result.notes)


def test_so_many_variables_can_be_ordered():
    counts = [most_variables(rows) for rows in (2, 3, 4, 5, 9, 299, 300, 10_000)]
    assert counts == [2, 2, 2, 3, 6, 199, 200, 200]
    assert [most_variables(rows, 300) for rows in (9, 450, 10_000)] == [6, 300, 300]
    assert [most_variables(10_000, asked) for asked in (2, 499, 501, 10_000)] == [2, 499, 500, 500]


def test_notes_give_the_reason_for_screening():
    assert "7 variables of 10 were screened out before the search, because 5 rows can order at most 3." in (
        screening_note(10, 3, 5)
    )
    assert "1 variable of 201 were screened" in screening_note(201, 200, 400)
    assert "because the search can take at most 200." in screening_note(400, 200, 400)
    assert "because you asked for at most 2." in screening_note(10, 2, 5, 2)
    assert "because 5 rows can order at most 3." in screening_note(10, 3, 5, 3)
    assert "because you asked for at most 250." in screening_note(400, 250, 1000, 250)
    assert "because the search can take at most 500." in screening_note(600, 500, 1000, 600)
    assert "because 600 rows can order at most 400." in screening_note(600, 400, 600, 450)


def test_residuals_subtract_neighbours():
    near = Neighbourhoods(
        np.array([[1, 2], [-1, -1], [0, -1]]), np.array([[0.5, 0.25], [9.0, 9.0], [2.0, 9.0]]), np.ones(3)
    )
    expected = [[-2.0, 0.0, 1.0], [1.0, -0.5, -0.25]]
    assert near.residuals(np.array([2, 0])).toarray().tolist() == expected


def tables_with_a_change(seed, p=6, n=(80, 120)):
    rng = np.random.default_rng(seed)
    tables = [rng.standard_normal((rows, p)) for rows in n]
    for table, weight, noise in zip(tables, (1.0, -0.6), (1.0, 2.5), strict=True):
        table[:, 1] += weight * table[:, 0]
        table[:, 3] = noise * table[:, 3] + 0.8 * table[:, 2]
    return tables


def suspects_of(problem, near, n1, n2):
    """By how many standard errors covariances or variances given neighbours changed, where beyond chance."""
    p = problem.p
    left = near.residuals(np.arange(p)).toarray()
    change = left @ (problem.sigma1 - problem.sigma2)
    error = math.sqrt(1 / n1 + 1 / n2)
    pairs = np.abs(change) / (np.sqrt(near.variances) * error)[:, None]
    noise = np.abs(np.diag(change @ left.T)) / (near.variances * error * math.sqrt(2))
    np.fill_diagonal(pairs, 0.0)
    # Ten pairs and one variance are expected beyond these by chance.
    bounds = norm.isf(np.minimum(0.25, np.array([10 / p**2, 1 / p]) / 2))
    pairs[pairs <= bounds[0]] = 0.0
    strength = np.maximum.reduce([pairs.max(axis=0), pairs.max(axis=1), np.where(noise > bounds[1], noise, 0)])
    return {int(k): strength[k] for k in np.flatnonzero(strength)}


@pytest.mark.parametrize(
    ("seed", "p", "n"), [(880460, 6, (80, 120)), (880462, 30, (80, 120)), (880463, 30, (20, 25))]
)
def test_suspects_bring_their_neighbours_as_far_as_there_is_room(seed, p, n):
    tables = tables_with_a_change(seed, p, n)
    problem = standardise(*(Moments.from_array(table) for table in tables))
    near = find_neighbourhoods(problem, *n, silent)
    told, most = [], most_variables(min(n))
    kept = screen(problem, *n, most, lambda *what: told.append(what))
    suspects = suspects_of(problem, near, *n)
    assert {0, 1} <= set(suspects)
    first = kept.ranked[: len(suspects)]
    assert all(suspects[a] >= suspects[b] - 1e-9 for a, b in pairwise(first))  # the clearest first
    assert all(suspects[first[-1]] >= suspects[k] - 1e-9 for k in suspects.keys() - set(first))
    assert len(first) == min(len(suspects), most)
    assert kept.settings == {"suspects": len(suspects)}
    assert kept.members == sorted(kept.ranked)
    assert len(set(kept.ranked)) == len(kept.ranked) <= most
    around = [k for suspect in kept.ranked for k in near.of(suspect)]
    rest = kept.ranked[len(suspects) :]
    assert set(rest) <= set(around)
    if len(kept.ranked) < most:
        assert {k for suspect in suspects for k in near.of(suspect)} <= set(kept.ranked)
    else:  # neighbours of the clearest ones come first
        assert list(rest) == list(dict.fromkeys(k for k in around if k not in suspects))[: len(rest)]
    assert kept.at_most(2).ranked == kept.ranked[:2]
    assert told[-1] == (0, 1, "Looking for changes")
    assert told[:-1] == [(k, 8, "Looking for neighbours") for k in range(len(told) - 1)]


def test_a_copy_is_no_neighbour():
    rng = np.random.default_rng(880461)
    tables = [rng.standard_normal((60, 4)) for _ in range(2)]
    for table in tables:
        table[:, 2] = table[:, 0] + 1e-4 * table[:, 3]
        table[:, 1] += 0.9 * table[:, 0]
    problem = standardise(*(Moments.from_array(table) for table in tables))
    near = find_neighbourhoods(problem, 60, 60, silent)
    assert near.copies == {0: [2], 2: [0]}
    assert near.of(0) == [1]
    assert near.of(2) == [1]
    assert near.of(1) in ([0], [2])
