"""Screening: shared neighbourhoods, pairs that look changed, blocks, and what is claimed of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from diffdag import DifferenceDAG, InputError, Moments, simulate_pair
from diffdag.ordersearch.blocks import Judged, claimed, gained
from diffdag.ordersearch.neighbourhood import MOST, NEIGHBOURHOODS, Explored, Neighbourhoods, Suspect, explore
from diffdag.ordersearch.penalty import most_of_effect, wide_penalty
from diffdag.ordersearch.screen import Screened, make_blocks, most_variables, screen, screening_note, silent
from diffdag.precision.problem import standardise
from diffdag.precision.rows import standardise_rows

NAMES = tuple(f"X{k + 1}" for k in range(600))


def wide_pair(p=600, n=300, changes=6, seed=1):
    pair = simulate_pair(p, neighbours=3, changes=changes, weights=(0.6, 1.0), rng=seed)
    return pair, pair.first.sample(n, seed + 1), pair.second.sample(n, seed + 2)


def problem_of(tables, make):
    if make == "rows":
        return standardise_rows(*tables)[0]
    return standardise(*(Moments.from_array(table) for table in tables))


def scaled(tables):
    """Rows on the scale of the problem, each condition around its mean."""
    centred = [table - table.mean(axis=0) for table in tables]
    scale = np.sqrt(sum((table**2).mean(axis=0) for table in centred) / 2)
    return [table / scale for table in centred]


@pytest.mark.parametrize("make", ["rows", "moments"])
def test_neighbourhoods_are_regressions_on_what_pays(make):
    _, *tables = wide_pair(p=80, n=60)
    found = explore(problem_of(tables, make), 60, 60, silent)
    rows = np.vstack(scaled(tables))
    pays = math.log(80) + math.log(120) / 2
    correlation = np.abs(np.corrcoef(rows, rowvar=False)) - np.eye(80)
    assert len(found.around) == NEIGHBOURHOODS
    for i in range(80):
        chosen = found.around[0].of(i)
        closest = int(correlation[i].argmax())
        if -60 * math.log1p(-(correlation[i, closest] ** 2)) > pays:
            assert chosen[0] == closest
        for own in found.around:
            members = own.of(i)
            assert i not in members
            assert len(set(members)) == len(members) <= MOST
            coefficients = np.linalg.lstsq(rows[:, members], rows[:, i])[0]
            left = rows[:, i] - rows[:, members] @ coefficients
            np.testing.assert_allclose(own.coefficients[i, : len(members)], coefficients, atol=1e-4)
            assert own.variances[i] == pytest.approx((left**2).mean(), rel=1e-4)
            if members:  # the last one paid
                before = (
                    rows[:, i] - rows[:, members[:-1]] @ np.linalg.lstsq(rows[:, members[:-1]], rows[:, i])[0]
                )
                assert 60 * math.log((before**2).sum() / (left**2).sum()) > pays - 1e-3
    assert any(found.around[0].of(i) for i in range(80))


def test_other_neighbourhoods_do_without_the_closest_ones():
    _, *tables = wide_pair(p=120, n=200)
    around = explore(problem_of(tables, "rows"), 200, 200, silent).around
    several = [i for i in range(120) if around[0].of(i) and around[1].of(i)]
    assert len(several) > 20
    for i in several:
        assert around[0].of(i)[0] not in around[1].of(i) + around[2].of(i)
        assert around[1].of(i)[0] not in around[2].of(i)


def rank_of(tables, effect, cause, given):
    """``t^2 + min(q, t)^2`` by least squares on the rows."""
    one, two = scaled(tables)
    rows, n = np.vstack([one, two]), len(one)
    weights = np.linalg.lstsq(rows[:, given], rows[:, effect])[0]
    left = [table[:, effect] - table[:, given] @ weights for table in (one, two)]
    inner = [own @ table[:, cause] / n for own, table in zip(left, (one, two), strict=True)]
    spread = math.sqrt((np.concatenate(left) ** 2).mean() * (rows[:, cause] ** 2).mean())
    t, q = abs(inner[0] - inner[1]) / spread * math.sqrt(n / 2), abs(sum(inner)) / 2 / spread * math.sqrt(2 * n)
    return t * t + min(q, t) ** 2


@pytest.mark.parametrize("make", ["rows", "moments"])
def test_suspects_are_ranked_by_changes_and_effects(make):
    pair, *tables = wide_pair(p=200, n=250, changes=5)
    found = explore(problem_of(tables, make), 250, 250, silent)
    changed = {frozenset(edge) for edge in np.argwhere(pair.changed).tolist()}
    assert changed <= {frozenset((own.effect, own.cause)) for own in found.suspects[:40]}
    ranks = [own.rank for own in found.suspects]
    assert ranks == sorted(ranks, reverse=True)
    pairs = [frozenset((own.effect, own.cause)) for own in found.suspects]
    assert len(set(pairs)) == len(pairs)
    looked = 0
    for own in found.suspects[:60]:
        sets = [around.of(own.effect) for around in found.around]
        if any(list(own.given) == chosen for chosen in sets) and all(
            own.cause not in chosen for chosen in sets
        ):
            assert own.rank == pytest.approx(rank_of(tables, own.effect, own.cause, list(own.given)), rel=1e-3)
            looked += 1
    assert looked >= 3


def test_a_change_is_seen_though_an_effect_explains_its_target_best():
    """A child, and the other cause of that, explain the target better than its causes do."""
    rng = np.random.default_rng(3)
    tables = [rng.standard_normal((150, 300)) for _ in range(2)]
    for table, weight in zip(tables, (0.0, 0.9), strict=True):
        table[:, 2] += weight * table[:, 0] + 1.5 * table[:, 1]
        table[:, 3] += 2.0 * table[:, 2] + table[:, 4]
    found = explore(problem_of(tables, "rows"), 150, 150, silent)
    assert found.around[0].of(2)[0] == 3
    assert 3 not in found.around[1].of(2)
    seen = next(own for own in found.suspects if {own.effect, own.cause} == {0, 2})
    assert found.suspects.index(seen) < 3
    assert 3 not in seen.given
    result = DifferenceDAG().fit(*tables).result_
    assert [(edge.source, edge.target) for edge in result.edge_list] == [("X1", "X3")]


def test_variables_whose_noise_or_mean_changed_are_suspects_by_themselves():
    rng = np.random.default_rng(4)
    first, second = rng.standard_normal((2, 200, 300))
    for table in (first, second):
        table[:, 1] += table[:, 0]
    second[:, 1] += 1.2
    second[:, 7] *= 2
    problem, scale = standardise_rows(first, second)
    moved = explore(problem, 200, 200, silent, (first.mean(axis=0) - second.mean(axis=0)) / scale).moved
    assert {1, 7} <= set(moved[:3])
    assert 1 not in explore(problem, 200, 200, silent).moved  # nothing is known of means
    result = DifferenceDAG().fit(first, second).result_
    assert result.changed_noise["variable"].tolist() == ["X8"]
    assert result.changed_mean["variable"].tolist() == ["X2"]
    assert not result.edge_list


def explored(p, suspects, members=None):
    """Neighbours and suspects as told."""
    chosen = np.full((p, MOST), -1)
    for k, own in (members or {}).items():
        chosen[k, : len(own)] = own
    around = Neighbourhoods(chosen, np.zeros((p, MOST)), np.zeros((p, MOST)), np.ones(p))
    return Explored((around,), tuple(Suspect(*own) for own in suspects), ())


def test_pairs_that_share_a_variable_share_a_block():
    found = explored(
        40, [(0, 1, 9.0, (2, 3)), (5, 6, 8.0, ()), (1, 7, 7.0, (8,)), (6, 0, 6.0, ())], {5: [9, 10]}
    )
    assert make_blocks(found, 8, 12) == ((5, 6, 9, 10, 0, 1, 2, 3, 7, 8),)  # joined by the last pair
    apart = make_blocks(found, 4, 6)
    assert apart == ((0, 1, 2, 3, 7, 8), (5, 6, 9, 10))


@given(st.data())
def test_blocks_are_apart_and_not_too_large(data):
    p = 30
    ends = st.tuples(st.integers(0, p - 1), st.integers(0, p - 1)).filter(lambda own: own[0] != own[1])
    pairs = data.draw(st.lists(ends, max_size=25))
    given_ = [tuple(data.draw(st.lists(st.integers(0, p - 1), max_size=4))) for _ in pairs]
    near = data.draw(st.dictionaries(st.integers(0, p - 1), st.lists(st.integers(0, p - 1), max_size=5)))
    size = data.draw(st.integers(2, 12))
    largest = data.draw(st.integers(size, 2 * size))
    suspects = [(*own, 9.0, given) for own, given in zip(pairs, given_, strict=True)]
    found = explored(p, suspects, near)
    for every in (False, True):
        blocks = make_blocks(found, size, largest, every=every)
        members = [k for block in blocks for k in block]
        assert len(set(members)) == len(members)
        assert all(2 <= len(block) <= largest for block in blocks)
        if every:
            assert len(members) >= p - 1
        if pairs:
            assert any(set(pairs[0]) <= set(block) for block in blocks)


def test_columns_are_left_out_of_blocks_too():
    screened = Screened((4, 1, 2, 7), blocks=((4, 1), (2, 7)))
    assert screened.members == [1, 2, 4, 7]
    assert screened.without([2, 7]).blocks == ((4, 1),)


def test_what_changed_is_in_a_block_with_what_explains_it():
    pair, first, second = wide_pair()
    kept = screen(standardise_rows(first, second)[0], 300, 300, most_variables(300))
    block = {k: number for number, members in enumerate(kept.blocks) for k in members}
    for i, j in np.argwhere(pair.changed).tolist():
        assert block[i] == block[j]
    causes = [(i, j) for i in np.flatnonzero(pair.changed.any(axis=1)) for j in pair.first.effects[[i]].indices]
    together = sum(block.get(int(i)) == block.get(int(j), -1) for i, j in causes)
    assert together >= 0.8 * len(causes)


@given(st.lists(st.floats(0, 60), max_size=12))
def test_a_claim_needs_less_evidence_the_more_there_are(evidence):
    found = claimed([Judged(k, k + 1, own) for k, own in enumerate(evidence)], 1000)
    bound = wide_penalty(1000)
    assert [own.evidence for own in found] == sorted(evidence, reverse=True)[: len(found)]
    assert all(own.evidence >= bound - math.log(len(found)) for own in found)
    rest = sorted(evidence, reverse=True)[len(found) :]
    assert all(own < bound - math.log(k) for k, own in enumerate(rest, len(found) + 1))


def test_gains_are_those_of_likelihood_ratios():
    for gain in (0.5, 3.0, 12.0, 40.0):
        assert gained(chi2.sf(2 * gain, 1)) == pytest.approx(gain, rel=1e-6)
    assert gained(1.0) == gained(math.nan) == 0.0
    assert gained(0.0) == gained(1e-320) == 700.0
    assert most_of_effect(2) == 0.0


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
    assert {"Looking for neighbours", "blocks searched"} <= {what for _, _, what in seen}
    moments = [Moments.from_array(table) for table in (first, second)]
    again = DifferenceDAG().fit_moments(*moments).result_
    assert again.edges[["source", "target"]].equals(result.edges[["source", "target"]])
    np.testing.assert_allclose(again.edges["delta"], result.edges["delta"], rtol=1e-6)
    tested = result.nodes.dropna(subset="pvalue")["variable"]
    assert set(tested) == set(result.variables) - set(result.screened_out)
    assert result.checks


@pytest.mark.slow
def test_no_change_in_a_wide_table_gives_no_claims():
    for seed in range(3):
        pair = simulate_pair(500, neighbours=3, changes=0, rng=seed)
        tables = pair.first.sample(200, seed + 10), pair.first.sample(200, seed + 20)
        result = DifferenceDAG().fit(*tables).result_
        assert not result.edge_list
        assert not result.noise_list
        assert not result.mean_list


@pytest.mark.slow
def test_all_variables_can_be_ordered_in_blocks():
    pair = simulate_pair(260, neighbours=4, changes=6, weights=(0.5, 1.0), rng=8)
    tables = pair.first.sample(600, 9), pair.second.sample(600, 10)
    result = DifferenceDAG(max_variables=260).fit(*tables).result_
    assert not result.screened_out
    assert len(result.settings["search_order"]) == 260
    found = {(edge.source, edge.target) for edge in result.edge_list if edge.directed}
    assert len(found & pair.edges) >= 5
    assert len(found - pair.edges) <= 1


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


@pytest.mark.filterwarnings("ignore:the spearman correlations:diffdag.DiffDagWarning")
def test_no_more_is_kept_than_what_ranks_are_worth():
    _, first, second = wide_pair(p=200, n=60, changes=2)
    result = DifferenceDAG(covariance="spearman").fit(first, second).result_
    kept = 200 - len(result.screened_out)
    assert kept <= most_variables(min(result.samples)) < most_variables(60)
    assert f"{200 - kept} variables of 200 were screened out: " in " ".join(result.notes)


def test_so_many_variables_can_be_kept():
    counts = [most_variables(rows) for rows in (2, 3, 4, 5, 9, 299, 300, 10_000)]
    assert counts == [2, 2, 2, 3, 6, 199, 200, 200]
    assert [most_variables(rows, 300) for rows in (9, 450, 10_000)] == [6, 300, 300]
    assert [most_variables(10_000, asked) for asked in (2, 499, 1_000, 10_000)] == [2, 499, 1_000, 6_666]


def test_notes_give_the_reason_for_screening():
    assert "7 variables of 10 were screened out before the search, because 5 rows can order at most 3." in (
        screening_note(10, 3, 5)
    )
    assert "1 variable of 201 were screened" in screening_note(201, 200, 400)
    assert "because the search can take at most 200." in screening_note(400, 200, 400)
    assert "because you asked for at most 2." in screening_note(10, 2, 5, 2)
    assert "because 5 rows can order at most 3." in screening_note(10, 3, 5, 3)
    assert "because you asked for at most 250." in screening_note(400, 250, 1000, 250)
    assert "because you asked for at most 600." in screening_note(700, 600, 1000, 600)
    assert "because 600 rows can order at most 400." in screening_note(600, 400, 600, 450)


def test_residuals_subtract_neighbours():
    chosen, weights = np.full((3, MOST), -1), np.full((3, MOST), 9.0)
    chosen[0, :2], chosen[2, 0] = [1, 2], 0
    weights[0, :2], weights[2, 0] = [0.5, 0.25], 2.0
    near = Neighbourhoods(chosen, weights, weights, np.ones(3))
    assert near.residuals.toarray().tolist() == [[1.0, -0.5, -0.25], [0.0, 1.0, 0.0], [-2.0, 0.0, 1.0]]


def test_a_copy_is_no_neighbour_and_hides_none():
    rng = np.random.default_rng(880461)
    tables = [rng.standard_normal((60, 4)) for _ in range(2)]
    for table in tables:
        table[:, 2] = table[:, 0] + 1e-4 * table[:, 3]
        table[:, 1] += 0.9 * table[:, 0]
    near = explore(problem_of(tables, "moments"), 60, 60, silent).around[0]
    assert near.of(0) == [1]
    assert near.of(2) == [1]
    assert near.of(1) in ([0], [2])
