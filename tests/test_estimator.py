"""DifferenceDAG: from two tables, two sets of moments or two models to the answer."""

import functools
import inspect
import itertools
import pickle
import pydoc
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from diffdag import DifferenceDAG, InputError, LinearSEM, Moments, simulate_pair
from diffdag._base.errors import NotFittedError
from diffdag.paper.fit import PaperFit, PaperSettings, _edges_from_samples
from diffdag.paper.graph import DifferenceGraph, EdgeSet
from diffdag.results.records import CHANGES

# Most of what is tested here, the way from tables to the answer, shows best with the paper's method.
Paper = functools.partial(DifferenceDAG, method="paper")
P = 5
NAMES = [f"X{k + 1}" for k in range(P)]
EXAMPLES = 8
MIRRORED = {"added": "removed", "strengthened": "weakened", "reversed-sign": "reversed-sign"}
MIRRORED |= {after: before for before, after in MIRRORED.items()}

seeds = st.integers(0, EXAMPLES - 1)
estimators = st.sampled_from(["plugin", "dantzig"])
few = settings(max_examples=12, derandomize=True, deadline=None)


def two_tables(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Samples of two models; two weights differ, in every third example noise variances too."""
    rng = np.random.default_rng(seed)
    label = rng.permutation(P)
    rows, columns = np.tril_indices(P, -1)
    size = rng.uniform(0.5, 1, rows.size) * rng.choice([-1, 1], rows.size) * (rng.random(rows.size) < 0.7)
    before, after = np.zeros((P, P)), np.zeros((P, P))
    before[label[rows], label[columns]] = size
    changed = rng.choice(rows.size, 2, replace=False)
    factor = [0.0, -1.0, 0.2, 2.0][seed % 4]
    size[changed] = np.where(size[changed] == 0, 0.8, factor * size[changed])
    after[label[rows], label[columns]] = size
    variances = rng.choice([0.5, 1.0, 2.0], P) if seed % 3 == 2 else np.ones(P)
    return LinearSEM(before).sample(3000, rng), LinearSEM(after, variances).sample(2500, rng)


def directed(result):
    return {(edge.source, edge.target): edge for edge in result.edge_list if edge.directed}


def undirected(result):
    return {frozenset((edge.source, edge.target)) for edge in result.edge_list if not edge.directed}


def places(result):
    return set(result.invariant), set(result.unresolved), [set(layer) for layer in result.order]


def assert_same_edge(edge, expected, factor=1.0):
    """Same kind of change, and weights that differ by a factor of units only."""
    tolerance = 1e-6 * expected.stderr * abs(factor)
    assert edge.change == expected.change
    for name in ("weight_first", "weight_second", "delta"):
        assert getattr(edge, name) == pytest.approx(getattr(expected, name) * factor, abs=tolerance)
    assert edge.stderr == pytest.approx(expected.stderr * abs(factor), rel=1e-6)


def assert_same_answer(result, expected):
    assert places(result) == places(expected)
    assert undirected(result) == undirected(expected)
    assert directed(result).keys() == directed(expected).keys()
    for pair, edge in directed(result).items():
        assert_same_edge(edge, directed(expected)[pair])


def test_the_examples_and_their_mirrors_show_every_kind_of_change():
    results = [Paper(estimator="plugin").fit(*two_tables(seed)).result_ for seed in range(EXAMPLES)]
    changes = {edge.change for result in results for edge in result.edge_list if edge.directed}
    assert changes | {MIRRORED[change] for change in changes} == set(CHANGES)
    assert sum(bool(directed(result)) for result in results) > EXAMPLES / 2
    assert any(undirected(result) for result in results)
    assert any(result.invariant for result in results)


# What must not matter


@pytest.mark.slow
@few
@given(seed=seeds, estimator=estimators)
def test_swapping_the_tables_mirrors_the_answer(seed, estimator):
    first, second = two_tables(seed)
    result = Paper(estimator=estimator).fit(first, second).result_
    swapped = Paper(estimator=estimator).fit(second, first).result_
    assert places(swapped) == places(result)
    assert undirected(swapped) == undirected(result)
    assert directed(swapped).keys() == directed(result).keys()
    for pair, edge in directed(swapped).items():
        mirror = directed(result)[pair]
        assert edge.change == MIRRORED[mirror.change]
        assert (edge.weight_first, edge.weight_second) == (mirror.weight_second, mirror.weight_first)
        assert (edge.delta, edge.stderr) == (-mirror.delta, mirror.stderr)
    np.testing.assert_allclose(swapped.delta_precision, -result.delta_precision, atol=1e-6)
    assert swapped.samples == result.samples[::-1]


@pytest.mark.slow
@few
@given(seed=seeds, estimator=estimators, order=st.permutations(range(P)))
def test_permuting_the_columns_permutes_the_answer(seed, estimator, order):
    frames = [pd.DataFrame(table, columns=NAMES) for table in two_tables(seed)]
    permuted = [frame.iloc[:, order] for frame in frames]
    expected = Paper(estimator=estimator).fit(*frames).result_
    result = Paper(estimator=estimator).fit(*permuted).result_
    assert result.variables == tuple(NAMES[k] for k in order)
    assert_same_answer(result, expected)
    np.testing.assert_allclose(result.delta_precision.loc[NAMES, NAMES], expected.delta_precision, atol=1e-6)
    place = result.variables.index
    assert all(place(edge.source) < place(edge.target) for edge in result.edge_list if not edge.directed)


@pytest.mark.slow
@few
@given(
    seed=seeds,
    estimator=estimators,
    exponents=st.lists(st.floats(-6, 6), min_size=P, max_size=P),
    signs=st.lists(st.sampled_from([1, -1]), min_size=P, max_size=P),
)
def test_rescaling_a_variable_in_both_tables_changes_only_units(seed, estimator, exponents, signs):
    factors = np.array(signs) * 10.0 ** np.array(exponents)
    first, second = two_tables(seed)
    expected = Paper(estimator=estimator).fit(first, second).result_
    result = Paper(estimator=estimator).fit(first * factors, second * factors).result_
    assert places(result) == places(expected)
    assert undirected(result) == undirected(expected)
    assert directed(result).keys() == directed(expected).keys()
    unit = dict(zip(NAMES, factors, strict=True))
    for (source, target), edge in directed(result).items():
        assert_same_edge(edge, directed(expected)[source, target], unit[target] / unit[source])
    in_old_units = result.delta_precision * np.outer(factors, factors)
    np.testing.assert_allclose(in_old_units, expected.delta_precision, atol=1e-6)


@pytest.mark.slow
@few
@given(
    seed=seeds,
    estimator=estimators,
    shifts=st.lists(st.floats(-1e4, 1e4), min_size=2 * P, max_size=2 * P),
)
def test_adding_constants_to_columns_changes_nothing(seed, estimator, shifts):
    first, second = two_tables(seed)
    expected = Paper(estimator=estimator).fit(first, second).result_
    result = Paper(estimator=estimator).fit(first + shifts[:P], second + shifts[P:]).result_
    assert_same_answer(result, expected)
    np.testing.assert_allclose(result.delta_precision, expected.delta_precision, atol=1e-6)


@pytest.mark.parametrize("estimator", ["plugin", "dantzig", "dtrace"])
def test_moments_are_enough(estimator):
    first, second = two_tables(0)
    expected = Paper(estimator=estimator).set_params(stored_rows=0).fit(first, second).result_
    moments = Moments.from_array(first), Moments.from_array(second)
    from_moments = Paper(estimator=estimator).fit_moments(*moments).result_
    # Rows alone tell whether a moved range explains a change.
    edges = tuple(replace(edge, support=None) for edge in expected.edge_list)
    assert replace(from_moments, checks=(), notes=()) == replace(expected, checks=(), notes=(), edge_list=edges)
    merged = Moments.from_array(first[:700]) + Moments.from_array(first[700:])
    shuffled = moments[1].select(NAMES[::-1])
    assert_same_answer(Paper(estimator=estimator).fit_moments(merged, shuffled).result_, expected)


def test_columns_of_frames_are_matched_by_name():
    first, second = two_tables(1)
    frame = pd.DataFrame(second, columns=NAMES)[["X3", "X1", "X5", "X2", "X4"]]
    result = Paper().fit(pd.DataFrame(first, columns=NAMES), frame).result_
    assert result == Paper().fit(first, second).result_
    assert result.edge_list


@pytest.mark.slow
def test_several_processes_give_the_same_answer():
    tables = two_tables(5)
    expected = Paper(n_jobs=None).fit(*tables).result_
    assert expected.edge_list
    assert Paper(n_jobs=2).fit(*tables).result_ == expected


def test_a_second_fit_gives_the_same_answer():
    est = Paper()
    before = est.fit(*two_tables(2)).result_
    est.fit(*two_tables(3))
    assert est.fit(*two_tables(2)).result_ == before


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, pd.DataFrame])
def test_the_callers_tables_stay_as_they_are(kind):
    tables = [kind(table) for table in two_tables(0)]
    copies = [np.array(table) for table in tables]
    Paper(estimator="plugin").fit(*tables)
    for table, copy in zip(tables, copies, strict=True):
        np.testing.assert_array_equal(table, copy)
        if isinstance(table, np.ndarray):
            table[0, 0] = 5.0  # still the caller's to change


# The answer on samples


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_weights_are_regressions_on_the_predecessors(seed):
    tables = two_tables(seed)
    result = Paper(estimator="plugin").fit(*tables).result_
    for (source, target), edge in directed(result).items():
        layer = next(k for k, names in enumerate(result.order) if target in names)
        before = [*result.unresolved, *itertools.chain(*result.order[:layer])]
        assert source in before
        weights, errors = [], []
        for table in tables:
            on = [NAMES.index(name) for name in (source, *(name for name in before if name != source))]
            design = np.column_stack([np.ones(len(table)), table[:, on]])
            response = table[:, NAMES.index(target)]
            solution, rss, _, _ = np.linalg.lstsq(design, response)
            variance = rss[0] / (len(table) - design.shape[1])
            weights.append(solution[1])
            errors.append(np.sqrt(variance * np.linalg.inv(design.T @ design)[1, 1]))
        assert (edge.weight_first, edge.weight_second) == pytest.approx(weights, abs=1e-9)
        assert edge.delta == pytest.approx(weights[0] - weights[1], abs=1e-9)
        assert edge.stderr == pytest.approx(np.hypot(*errors), rel=1e-8)


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_plugin_reports_the_difference_of_the_inverses(seed):
    first, second = two_tables(seed)
    result = Paper(estimator="plugin").fit(first * 100, second * 100).result_
    before, after = (np.linalg.inv(np.cov(table * 100, rowvar=False, bias=True)) for table in (first, second))
    np.testing.assert_allclose(result.delta_precision, before - after, atol=1e-12)


@pytest.mark.parametrize("estimator", ["plugin", "dantzig"])
def test_every_variable_has_one_place_and_causes_come_first(estimator):
    for seed in range(EXAMPLES):
        result = Paper(estimator=estimator).fit(*two_tables(seed)).result_
        everywhere = [*result.invariant, *result.unresolved, *itertools.chain(*result.order)]
        assert sorted(everywhere) == NAMES
        rank = {name: k for k, layer in enumerate(result.order) for name in layer}
        rank |= dict.fromkeys(result.unresolved, -1)
        assert all(rank[source] < rank[target] for source, target in directed(result))
        assert all(rank[name] == -1 for pair in undirected(result) for name in pair)


def test_strong_changes_are_found():
    before = np.zeros((4, 4))
    before[1, 0], before[2, 1], before[3, 2] = 0.8, 0.7, 0.6
    after = before.copy()
    after[2, 1] = -0.5
    first, second = LinearSEM(before).sample(3000, rng=1), LinearSEM(after).sample(3000, rng=2)
    for estimator in ("plugin", "dantzig", "dtrace"):
        result = Paper(estimator=estimator).fit(first, second).result_
        assert [str(edge) for edge in result.edge_list] == ["X2 -> X3"]
        edge = result.edge_list[0]
        assert edge.change == "reversed-sign"
        assert abs(edge.delta - 1.2) < 4 * edge.stderr < 0.2
        assert {"X1", "X4"} == set(result.invariant)
        assert result.samples == (3000, 3000)


@pytest.mark.parametrize("estimator", ["plugin", "dantzig"])
def test_two_samples_of_one_model_mostly_show_no_change(estimator):
    alarms = 0
    for seed in range(15):
        sem = simulate_pair(6, neighbours=3, changes=0, rng=seed).first
        tables = sem.sample(5000, rng=100 + seed), sem.sample(5000, rng=200 + seed)
        alarms += bool(Paper(estimator=estimator).fit(*tables).result_.edge_list)
    assert alarms <= 2


@pytest.mark.parametrize("p", [5, 20])
@pytest.mark.parametrize("estimator", ["plugin", "dantzig", "dtrace"])
def test_the_same_table_twice_shows_no_change(estimator, p):
    table = np.random.default_rng(0).standard_normal((100, p))
    result = Paper(estimator=estimator).fit(table, table.copy()).result_
    assert result.edge_list == ()
    assert len(result.invariant) == p
    assert not result.delta_precision.to_numpy().any()


def test_equal_noise_leaves_nothing_unresolved():
    left = 0
    for seed in range(EXAMPLES):
        tables = two_tables(seed)
        left += len(Paper(estimator="plugin").fit(*tables).result_.unresolved)
        result = Paper(estimator="plugin", noise="equal").fit(*tables).result_
        assert result.unresolved == ()
        assert undirected(result) == set()
    assert left > 0


@pytest.mark.parametrize(("p", "n"), [(10, 8), (30, 20)])
def test_fewer_rows_than_variables(p, n):
    pair = simulate_pair(p, neighbours=3, changes=4, rng=0)
    result = Paper().fit(pair.first.sample(n, rng=100), pair.second.sample(n, rng=200)).result_
    assert np.isfinite(result.delta_precision).to_numpy().all()
    assert result.settings["violation"] < 1e-6


def test_edges_found_from_fewer_rows_than_variables_have_weights():
    pair = simulate_pair(30, neighbours=3, changes=6, weights=(0.8, 1.0), rng=6)
    tables = pair.first.sample(20, rng=101), pair.second.sample(20, rng=201)
    result = Paper(penalty=0.6, threshold=0.1).fit(*tables).result_
    assert len(directed(result)) > 0
    for edge in directed(result).values():
        assert edge.delta == edge.weight_first - edge.weight_second
        assert 0 < edge.stderr < 1


def test_with_too_few_rows_for_all_predecessors_only_the_causes_count():
    tables = [np.random.default_rng(k).standard_normal((6, 6)) for k in range(2)]
    edges = EdgeSet(directed=frozenset({(0, 1), (0, 3)}), undirected=frozenset())
    graph = DifferenceGraph((), ((0,), (1, 2, 3, 4, 5)), (), edges, prune_size=0, complete=True)
    moments = (Moments.from_array(table) for table in tables)
    fit = PaperFit(*moments, None, None, graph, 0.1, PaperSettings("dtrace", 0.1, 0.1, False, 1), 0.1)
    found, notes = _edges_from_samples(fit)
    weights = [np.linalg.lstsq(np.insert(t[:, [1, 3]], 0, 1, axis=1), t[:, 0])[0][1:] for t in tables]
    assert [str(edge) for edge in found] == ["X2 -> X1", "X4 -> X1"]
    assert [edge.weight_first for edge in found] == pytest.approx(list(weights[0]))
    assert [edge.weight_second for edge in found] == pytest.approx(list(weights[1]))
    assert len(notes) == 1
    assert "too few rows for all predecessors of 'X1'" in notes[0]


def test_plugin_says_when_rows_are_too_few():
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="fewer rows than variables"):
        Paper(estimator="plugin").fit(rng.standard_normal((5, 8)), rng.standard_normal((50, 8)))


def test_choices_made_for_the_user_are_reported():
    chosen = Paper().fit(*two_tables(0)).result_.settings
    assert chosen["threshold"] > 0
    assert chosen["threshold_chosen"] == "default"
    assert chosen["penalty"] > 0
    assert "default" in chosen["penalty_given"]
    given = Paper(threshold=0.07, penalty=0.2).fit(*two_tables(0)).result_.settings
    assert (given["threshold"], given["threshold_chosen"]) == (0.07, "given")
    assert given["penalty"] == pytest.approx(0.2)
    assert given["penalty_given"] == 0.2


def test_a_penalty_rate_is_the_papers():
    first, second = two_tables(0)
    scale = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 2)
    gap = np.cov(first / scale, rowvar=False, bias=True) - np.cov(second / scale, rowvar=False, bias=True)
    result = Paper(penalty="rate:0.4").fit(first, second).result_
    expected = 0.4 * np.sqrt(np.log(P) / 2500) / np.abs(gap).max()
    assert result.settings["penalty"] == pytest.approx(expected)


def test_a_large_penalty_or_threshold_finds_nothing():
    for options in ({"penalty": 1.0}, {"threshold": 100.0}):
        result = Paper(**options).fit(*two_tables(0)).result_
        assert result.edge_list == ()
        assert result.invariant == tuple(NAMES)


# The answer on known models


def models(changes, p, first_variances=None, second_variances=None):
    """Two models from {(source, target): (weight in the first, weight in the second)}."""
    before, after = np.zeros((p, p)), np.zeros((p, p))
    for (source, target), pair in changes.items():
        before[target, source], after[target, source] = pair
    names = [chr(ord("a") + k) for k in range(p)]
    return LinearSEM(before, first_variances, names), LinearSEM(after, second_variances, names)


def test_population_names_every_kind_of_change():
    changes = {
        (0, 5): (0.0, 0.8),
        (6, 1): (0.7, 0.0),
        (7, 2): (0.4, 0.9),
        (3, 8): (0.9, 0.4),
        (4, 9): (0.6, -0.5),
    }
    unchanged = {(0, 6): (0.5, 0.5), (5, 3): (-0.7, -0.7), (7, 4): (0.3, 0.3), (6, 9): (0.6, 0.6)}
    result = Paper().fit_population(*models(changes | unchanged, 10)).result_
    found = {
        pair: (edge.change, edge.weight_first, edge.weight_second) for pair, edge in directed(result).items()
    }
    assert found == {
        ("a", "f"): ("added", 0.0, 0.8),
        ("g", "b"): ("removed", 0.7, 0.0),
        ("h", "c"): ("strengthened", 0.4, 0.9),
        ("d", "i"): ("weakened", 0.9, 0.4),
        ("e", "j"): ("reversed-sign", 0.6, -0.5),
    }
    assert undirected(result) == set()
    assert result.unresolved == ()
    assert all(edge.delta == edge.weight_first - edge.weight_second for edge in result.edge_list)
    assert result.samples is None


@pytest.mark.parametrize("seed", range(8))
def test_population_finds_the_changes_and_their_weights(seed):
    pair = simulate_pair(8, neighbours=4, change=0.15, variances=(0.5, 1, 2), rng=seed)
    result = Paper().fit_population(pair.first, pair.second).result_
    assert set(directed(result)) == pair.edges
    assert len(result.edge_list) == len(pair.edges) > 0
    place = pair.first.names.index
    for (source, target), edge in directed(result).items():
        at = place(target), place(source)
        assert (edge.weight_first, edge.weight_second) == (pair.first.weights[at], pair.second.weights[at])
    before, after = (np.linalg.inv(sem.covariance()) for sem in (pair.first, pair.second))
    np.testing.assert_allclose(result.delta_precision, before - after, atol=1e-9)


def test_population_order_has_causes_first():
    chain = {(2, 0): (0.5, 0.9), (0, 3): (0.8, 0.0), (3, 1): (0.0, -0.6)}
    result = Paper().fit_population(*models(chain, 5)).result_
    assert result.order == (("c",), ("a",), ("d",), ("b",))
    assert result.invariant == ("e",)
    assert result.unresolved == ()


def test_population_without_change():
    first, _ = models({(0, 1): (0.5, 0.5), (1, 2): (0.7, 0.7)}, 3)
    result = Paper().fit_population(first, first).result_
    assert result.edge_list == result.order == result.unresolved == ()
    assert result.invariant == ("a", "b", "c")


def test_population_swap_mirrors_the_answer():
    pair = simulate_pair(7, neighbours=3, changes=3, rng=2)
    result = Paper().fit_population(pair.first, pair.second).result_
    swapped = Paper().fit_population(pair.second, pair.first).result_
    assert places(swapped) == places(result)
    assert {pair: edge.delta for pair, edge in directed(swapped).items()} == {
        pair: -edge.delta for pair, edge in directed(result).items()
    }
    assert len(result.edge_list) == 3


def test_a_changed_noise_variance_gives_an_edge_that_is_not_there():
    # Theorem 1 of the paper claims the right skeleton when noise variances differ. This pair shows that it
    # does not hold: X2 = 0.8 X1 + e2 in both models and only Var(e2) differs, so nothing is to be found.
    # Entry (1, 2) of the precision difference is -b (1/s1 - 1/s2), and there is no other variable to leave out,
    # so Algorithm 1 keeps the edge. What the answer must do is to leave it undirected and say why.
    b, before, after = 0.8, 1.0, 2.0
    first = LinearSEM([[0, 0], [b, 0]], [1, before])
    second = LinearSEM([[0, 0], [b, 0]], [1, after])
    result = Paper().fit_population(first, second).result_
    assert result.delta_precision.loc["X1", "X2"] == pytest.approx(-b * (1 / before - 1 / after))
    assert [(e.source, e.target, e.directed) for e in result.edge_list] == [("X1", "X2", False)]
    assert set(result.unresolved) == {"X1", "X2"}
    assert result.order == ()
    edge = result.edge_list[0]
    assert edge.change is edge.weight_first is edge.weight_second is edge.delta is None
    assert any("noise variance" in note for note in result.notes)
    tables = first.sample(5000, rng=1), second.sample(5000, rng=2)
    for estimator in ("plugin", "dantzig"):
        sampled = Paper(estimator=estimator).fit(*tables).result_
        assert undirected(sampled) == {frozenset(("X1", "X2"))}
        assert set(sampled.unresolved) == {"X1", "X2"}


def test_a_changed_noise_variance_of_a_root_alone_is_no_edge():
    # With b changed too: the sink is seen (its noise did not change), and what is left is one variable.
    first, second = models({(0, 1): (0.8, 0.3)}, 2, [1, 1], [2, 1])
    result = Paper().fit_population(first, second).result_
    assert [str(edge) for edge in result.edge_list] == ["a -> b"]
    assert result.order == (("a",), ("b",))
    first, second = models({(0, 1): (0.8, 0.8)}, 2, [1, 1], [2, 1])
    assert Paper().fit_population(first, second).result_.edge_list == ()


def test_population_needs_the_same_variables():
    sem = LinearSEM(np.zeros((2, 2)), names=["a", "b"])
    for names in (["b", "a"], ["a", "c"]):
        with pytest.raises(InputError, match="different variables"):
            Paper().fit_population(sem, LinearSEM(np.zeros((2, 2)), names=names))


# Parameters


def test_parameters_are_stored_and_read_back():
    given = {
        "method": "paper",
        "estimator": "dtrace",
        "penalty": 0.2,
        "threshold": 0.05,
        "noise": "equal",
        "order": ["a", "b"],
        "tiers": [["a"], ["b"]],
        "required": ["a->b"],
        "forbidden": [("b", "a")],
        "covariance": "spearman",
        "effective_samples": 20.0,
        "whiten": "ar",
        "max_variables": 7,
        "adjust": ["age"],
        "cluster": "donor",
        "missing": "drop",
        "resamples": 40,
        "fdr": 0.1,
        "permutations": 99,
        "intervals": "split",
        "controls": 20,
        "stored_rows": 3,
        "rng": 3,
        "n_jobs": 2,
    }
    est = DifferenceDAG(**given)
    assert est.get_params() == given
    assert all(getattr(est, name) == value for name, value in given.items())
    assert not hasattr(est, "result_")
    assert DifferenceDAG().set_params(**given).get_params() == given


def test_scikit_learn_knows_whether_it_is_fitted():
    est = DifferenceDAG()
    with pytest.raises(ValueError, match="not fitted yet"):
        check_is_fitted(est)
    pair = simulate_pair(3, neighbours=1, changes=1, rng=0)
    check_is_fitted(est.fit_population(pair.first, pair.second))


@pytest.mark.parametrize(
    "option",
    [
        {"resamples": 20}, {"fdr": 0.1}, {"adjust": ["X1"]}, {"cluster": "donor"}, {"covariance": "winsorised"},
        {"effective_samples": 50.0}, {"missing": "em"}, {"missing": "drop"}, {"max_variables": 3},
    ],
)  # fmt: skip
def test_models_have_no_rows(option):
    pair = simulate_pair(3, neighbours=1, changes=1, rng=0)
    with pytest.raises(InputError, match=f"{next(iter(option))} needs rows, and models have none"):
        DifferenceDAG(**option).fit_population(pair.first, pair.second)


def test_changed_parameters_are_those_of_other_values():
    given = {"penalty": np.array([1.0, 2.0]), "order": ["X1", "X2"], "resamples": 20}
    for est in (DifferenceDAG(**given), pickle.loads(pickle.dumps(DifferenceDAG(**given)))):  # noqa: S301 - our own
        assert list(est.changed_params()) == list(given)
    again = pickle.loads(pickle.dumps(DifferenceDAG(noise="".join(["au", "to"]))))  # noqa: S301 - our own
    assert again.changed_params() == {}
    assert repr(again) == "DifferenceDAG()"


def test_clone_copies_parameters_and_not_the_answer():
    est = Paper(estimator="plugin", threshold=0.2)
    before = est.get_params()
    assert est.fit(*two_tables(0)) is est
    assert est.get_params() == before
    copy = clone(est)
    assert copy is not est
    assert copy.get_params() == before
    assert not hasattr(copy, "result_")
    assert copy.fit(*two_tables(0)).result_ == est.result_


def test_unknown_parameters_are_refused():
    with pytest.raises(InputError, match=r"'treshold'.*'threshold'"):
        DifferenceDAG().set_params(treshold=1)
    with pytest.raises(TypeError):
        DifferenceDAG("paper")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("method", "papre", "'papre'"),
        ("method", None, "None"),
        ("estimator", "lasso", "'lasso'"),
        ("noise", "unequal", "'unequal'"),
        ("threshold", -0.1, "-0.1"),
        ("threshold", np.nan, "nan"),
        ("threshold", np.inf, "inf"),
        ("threshold", "small", "small"),
        ("penalty", -1, "-1"),
        ("penalty", np.inf, "inf"),
        ("penalty", "small", "'small'"),
        ("penalty", "rate:x", "'rate:x'"),
        ("penalty", "rate:-1", "'rate:-1'"),
        ("penalty", "rate:", "'rate:'"),
    ],
)
def test_values_that_are_refused(name, value, says):
    with pytest.raises(InputError, match=f"{name}.*{says}"):
        Paper(**{name: value}).fit(*two_tables(0))


def test_manners_of_an_estimator(tmp_path):
    """What scikit-learn's checks ask for, as far as an estimator of two tables can have it."""
    first, second = two_tables(0)
    copies = first.copy(), second.copy()
    est = DifferenceDAG(rng=3)
    assert set(vars(est)) == set(est.get_params())  # nothing but parameters before fit
    assert repr(est) == "DifferenceDAG(rng=3)"
    for name in ("result_", "feature_names_in_", "n_features_in_"):
        with pytest.raises(NotFittedError, match=rf"no {name} yet; call fit\(first, second\)"):
            getattr(est, name)
    with pytest.raises(AttributeError, match="no attribute 'results'"):
        est.results  # noqa: B018
    names = [f"v{k}" for k in range(first.shape[1])]
    est.fit(pd.DataFrame(first, columns=names), pd.DataFrame(second, columns=names), labels=("x", "y"))
    assert list(est.feature_names_in_) == names
    assert est.n_features_in_ == len(names)
    assert est.result_.labels == ("x", "y")
    np.testing.assert_array_equal(first, copies[0])
    np.testing.assert_array_equal(second, copies[1])
    again = pickle.loads(pickle.dumps(est))  # noqa: S301 - our own
    assert again.result_ == est.result_
    assert again.fit(first, second).result_.edge_list == est.fit(first, second).result_.edge_list
    assert list(est.feature_names_in_) == [f"X{k + 1}" for k in range(len(names))]


def test_every_option_is_visible():
    shown = pydoc.plain(pydoc.render_doc(DifferenceDAG))
    for name, parameter in inspect.signature(DifferenceDAG).parameters.items():
        assert parameter.kind is parameter.KEYWORD_ONLY
        assert re.search(rf"^ \|  (\w+, )?{name}(, \w+)? : ", shown, re.MULTILINE), name


def test_a_bad_value_is_no_reason_to_lose_the_last_answer():
    est = Paper().fit(*two_tables(0))
    answer = est.result_
    with pytest.raises(InputError):
        est.set_params(threshold=-1).fit(*two_tables(1))
    assert est.result_ is answer


# Moments that cannot be used


def test_moments_of_different_variables_are_refused():
    table = np.random.default_rng(0).standard_normal((50, 2))
    with pytest.raises(InputError, match="'c' missing in the first table, 'b' missing in the second"):
        DifferenceDAG().fit_moments(
            Moments.from_array(table, ["a", "b"]), Moments.from_array(table, ["a", "c"])
        )


def test_constant_and_dependent_columns_are_named():
    good = np.random.default_rng(0).standard_normal((50, 3))
    constant, dependent = good.copy(), good.copy()
    constant[:, 1] = 0.1
    dependent[:, 2] = 2 * good[:, 0] - 3 * good[:, 1]
    for bad, says in [
        (constant, "'X2' is constant"),
        (dependent, "'X1', 'X2' and 'X3' are linearly dependent"),
    ]:
        moments = [Moments.from_array(table) for table in (good, bad)]
        with pytest.raises(InputError, match=f"{says} in the second table"):
            DifferenceDAG().fit_moments(*moments)
        with pytest.raises(InputError, match=f"{says} in the first table"):
            DifferenceDAG().fit_moments(*moments[::-1])


@pytest.mark.parametrize("kind", [str, Path])
def test_of_the_path_of_a_file_it_is_said_how_to_read_it(kind):
    with pytest.raises(InputError, match=r"or AnnData, or read it with dd\.read_table$"):
        DifferenceDAG().fit(kind("before.csv"), kind("after.csv"))
