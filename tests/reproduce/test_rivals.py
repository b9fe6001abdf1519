"""Rivals on easy data, and against references that know nothing of their code."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from diffdag import InputError, LinearSEM, Moments, simulate_pair
from diffdag import __main__ as cli
from diffdag.reproduce.experiments.rivals import EXPERIMENT
from diffdag.reproduce.experiments.rivals.worlds import WORLDS, draw
from diffdag.reproduce.methods import find_method, find_node_method, find_rival
from diffdag.reproduce.methods.correlations import dgca, z_score
from diffdag.reproduce.methods.ddn import joint_neighbourhoods
from diffdag.reproduce.methods.gaussian import Gaussian, members
from diffdag.reproduce.methods.jci import with_condition
from diffdag.reproduce.methods.lingam import joint_order, multigroup_lingam, penalties
from diffdag.reproduce.methods.malik import malik
from diffdag.reproduce.methods.skeleton import skeleton
from diffdag.reproduce.scoring import score

CHAIN = np.zeros((4, 4))
CHAIN[1, 0], CHAIN[2, 1], CHAIN[3, 2] = 0.8, 0.8, 0.8


def pair_of_moments(first, second, n=20_000):
    return Moments.from_array(first.sample(n, rng=1)), Moments.from_array(second.sample(n, rng=2))


def edges(graph):
    """As (source, target)."""
    return {(int(j), int(i)) for i, j in np.argwhere(graph)}


def without(*pairs):
    weights = CHAIN.copy()
    for source, target in pairs:
        weights[target, source] = 0.0
    return LinearSEM(weights)


def test_malik_finds_one_changed_effect_and_its_direction():
    found = malik(*pair_of_moments(LinearSEM(CHAIN), without((2, 3))))
    assert edges(found) == {(2, 3)}


def test_malik_takes_layers_away_one_after_the_other():
    found = malik(*pair_of_moments(LinearSEM(CHAIN), without((1, 2), (2, 3))))
    assert edges(found) == {(1, 2), (2, 3)}


def test_malik_errs_where_a_layer_is_none_of_the_union_of_the_graphs():
    """X1 is terminal, but X2 depends on it: without X1 the effect of X0 on X2 differs."""
    found = malik(*pair_of_moments(LinearSEM(CHAIN), without((0, 1), (2, 3))))
    assert edges(found) == {(0, 1), (0, 2), (2, 3)}


def test_malik_is_right_on_sparse_graphs_with_many_rows():
    scores = []
    for seed in range(6):
        pair = simulate_pair(8, neighbours=1, changes=2, weights=(0.6, 1.0), rng=seed)
        scores.append(score(pair.changed, malik(*pair_of_moments(pair.first, pair.second))).f1)
    assert np.mean(scores) > 0.7


def test_z_score_is_fishers_test():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(60, 2)), rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 80)
    tables = Moments.from_array(first), Moments.from_array(second)
    r1, r2 = (np.corrcoef(rows, rowvar=False)[0, 1] for rows in (first, second))
    z = (np.arctanh(r1) - np.arctanh(r2)) / np.sqrt(1 / 57 + 1 / 77)
    assert z_score(*tables)[0, 1] == (2 * stats.norm.sf(abs(z)) < 0.05)
    assert z_score(*tables).any()


def test_correlations_differ_downstream_and_classes_only_where_one_vanishes():
    tables = pair_of_moments(LinearSEM(CHAIN), without((0, 1)))
    assert {(0, 1), (0, 2), (0, 3)} <= edges(z_score(*tables))
    assert (1, 2) in edges(z_score(*tables))  # another correlation, of the same sign
    assert (1, 2) not in edges(dgca(*tables))
    assert (0, 1) in edges(dgca(*tables))


def test_joint_neighbourhoods_are_the_changed_moral_graph():
    found = joint_neighbourhoods(*pair_of_moments(LinearSEM(CHAIN), without((2, 3))))
    assert (2, 3) in edges(found)
    assert found.sum() < 2 * 4  # of 6 pairs, both ways
    np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize("name", ["malik", "z-score", "dgca", "ddn"])
def test_too_few_rows_are_refused_in_words(name):
    few = Moments.from_array(np.random.default_rng(0).normal(size=(2, 3)))
    with pytest.raises(InputError, match=r"2 rows"):
        find_method(name).run(few, few)


def test_skeleton_keeps_what_no_set_separates():
    weights = np.zeros((5, 5))
    weights[2, 0], weights[2, 1], weights[3, 2], weights[4, 3], weights[4, 0] = 0.7, 0.7, 0.7, 0.7, 0.7
    table = Gaussian(Moments.from_array(LinearSEM(weights).sample(20_000, rng=3)), "first")
    found = skeleton(5, lambda x, y, given: table.fisher_z(x, y, given) < 3.5)
    expected = (weights + weights.T) != 0
    assert [sorted(members(own)) for own in found] == [np.flatnonzero(row).tolist() for row in expected]


def test_moments_with_the_condition_are_those_of_the_stacked_rows():
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(30, 3)), rng.normal(1.0, 1.0, size=(50, 3))
    stacked = np.column_stack([np.vstack([first, second]), np.repeat([0.0, 1.0], [30, 50])])
    found = with_condition(Moments.from_array(first), Moments.from_array(second))
    expected = Moments.from_array(stacked)
    np.testing.assert_allclose(found.scatter, expected.scatter, atol=1e-10)
    np.testing.assert_allclose(found.mean, expected.mean)


def test_only_tests_of_mechanisms_see_a_changed_variance():
    first = LinearSEM(CHAIN)
    second = LinearSEM(CHAIN, [1.0, 4.0, 1.0, 1.0])
    tables = first.sample(3000, rng=5), second.sample(3000, rng=6)
    found = {
        name: find_node_method(name).rank(*tables, ()).changed for name in ("jci-pc", "cd-nod", "prediter")
    }
    assert not found["jci-pc"].any()
    assert np.flatnonzero(found["cd-nod"]).tolist() == [1]
    assert np.flatnonzero(found["prediter"]).tolist() == [1]


def non_gaussian(seed, weights, n=4000):
    noise = np.random.default_rng(seed).uniform(-1.7, 1.7, (n, len(weights)))
    return noise @ np.linalg.inv(np.eye(len(weights)) - weights).T


def test_lingam_finds_the_order_of_non_gaussian_noise_in_any_columns():
    for columns in itertools.islice(itertools.permutations(range(4)), 0, 24, 5):
        tables = tuple(non_gaussian(seed, CHAIN)[:, columns] for seed in (1, 2))
        assert [columns[k] for k in joint_order(tables)] == [0, 1, 2, 3]
    changed = multigroup_lingam(non_gaussian(1, CHAIN), non_gaussian(2, without((1, 2)).weights))
    assert edges(changed) == {(1, 2)}
    assert find_rival("multigroup-lingam").run is multigroup_lingam


def test_lingam_prefers_the_cause_of_a_pair():
    rng = np.random.default_rng(4)
    cause = rng.laplace(size=5000)
    both = np.array([cause, 0.8 * cause + rng.laplace(size=5000)])
    assert np.argmin(penalties(both)) == 0
    assert np.argmin(penalties(both[::-1])) == 1


def test_prediter_agrees_with_a_search_over_all_sets():
    """Targets are the variables that no set leaves the same residual variance."""
    pair = simulate_pair(5, neighbours=2, changes=1, weights=(0.7, 1.0), rng=12)
    first, second = pair.first.sample(20_000, rng=1), pair.second.sample(20_000, rng=2)

    def residual(rows, target, given):
        design = np.column_stack([np.ones(len(rows)), rows[:, given]])
        left = rows[:, target] - design @ optimize.lsq_linear(design, rows[:, target]).x
        return left.var()

    expected = []
    for target in range(5):
        others = [k for k in range(5) if k != target]
        sets = [s for size in range(5) for s in itertools.combinations(others, size)]
        ratios = [
            abs(np.log(residual(first, target, list(s)) / residual(second, target, list(s)))) for s in sets
        ]
        if min(ratios) > 3.3 * np.sqrt(4 / 20_000):
            expected.append(target)
    found = find_node_method("prediter").rank(first, second, ())
    assert set(np.flatnonzero(found.changed).tolist()) >= set(expected)


# The experiments


@pytest.mark.parametrize("name", list(WORLDS))
def test_worlds_have_changes_and_rows_that_show_them(name):
    data = draw(name, 300, (1, 2))
    assert data.changed.any()
    assert not (data.changed & data.open).any()
    assert all(rows.shape == (300, WORLDS[name].p) for rows in data.rows)
    again = draw.__wrapped__(name, 300, (1, 2))
    np.testing.assert_array_equal(again.rows[0], data.rows[0])
    place = {variable: k for k, variable in enumerate(data.order)}
    assert all(place[j] < place[i] for i, j in np.argwhere(data.changed))


def test_what_a_world_changes_besides_is_seen_in_its_rows():
    means = draw("means", 20_000, (1, 2))
    moved = np.abs(means.rows[0].mean(axis=0) - means.rows[1].mean(axis=0))
    assert moved.max() > 0.25
    assert not means.open.any()
    gains = draw("gains", 100, (1, 2))
    assert gains.open.any()
    np.testing.assert_array_equal(gains.open, gains.open.T)


def test_rivals_from_end_to_end(tmp_path, capsys):
    small = ["reproduce", "rivals", "--quick", "--pairs", "1", "--methods", "order,multigroup-lingam,z-score"]
    assert cli.run([*small, "--jobs", "1", "--out", str(tmp_path)]) == 0
    assert "the paper's models" in capsys.readouterr().out
    table = pd.read_csv(tmp_path / "rivals.csv")
    assert table["f1"].notna().all()
    assert set(table["method"]) == {"order", "multigroup-lingam", "z-score"}
    assert (tmp_path / "rivals-skeleton.svg").exists()
    assert cli.run(["reproduce", "rivals", "--methods", "magic", "--out", str(tmp_path / "no")]) == 2


def test_slow_methods_have_no_cells_of_many_variables():
    found = {(cell["world"], cell["method"]) for cell in EXPERIMENT.cells(EXPERIMENT.full)}
    assert ("sparse 100", "order") in found
    assert ("sparse 30", "malik") in found
    assert ("sparse 100", "malik") not in found


def test_wide_from_end_to_end(tmp_path, capsys):
    small = ["reproduce", "wide", "--quick", "--methods", "dtrace,z-score", "--jobs", "1"]
    assert cli.run([*small, "--out", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "wide.csv").set_index("method")
    assert (table["right"] <= table["claimed"]).all()
    assert table.loc["dtrace", "skeleton_f1"] > 0.3
    assert (table["f1"] == 0).all()  # undirected
    assert cli.run(["reproduce", "wide", "--methods", "malik", "--out", str(tmp_path / "no")]) == 2
    assert "wide tables have order" in capsys.readouterr().err
