"""What exact models tell and what they do not, as docs/order.md states it: all orders are compared."""

from __future__ import annotations

import numpy as np
import pytest

from diffdag import DifferenceDAG, LinearSEM


def found(first: LinearSEM, second: LinearSEM):
    """Directed edges, undirected ones, and factors of changed gains."""
    result = DifferenceDAG().fit_population(first, second).result_
    directed = {(e.source, e.target) for e in result.edge_list if e.directed}
    loose = {(e.source, e.target) for e in result.edge_list if not e.directed}
    gains = {change.variable: change.factor for change in result.gain_list}
    for edge in result.edge_list:
        assert edge.gain_of in (None, edge.target)
        assert (edge.gain_of is None) or edge.target in gains
    return directed, loose, gains


def one_effect(weight, variances=(1.0, 1.0), intercepts=(0.0, 0.0)):
    return LinearSEM([[0, 0], [weight, 0]], variances, intercepts=intercepts)


def sink(effects, variance=1.0, intercept=0.0):
    """A variable on which all others act, of which the second also acts on the third."""
    k = len(effects)
    weights = np.zeros((k + 1, k + 1))
    weights[1, 0] = 0.5
    weights[k, :k] = effects
    return LinearSEM(weights, np.append(np.ones(k), variance), intercepts=np.append(np.zeros(k), intercept))


EFFECTS = np.array([0.8, 0.6, -0.7, 0.5, 0.9])
INTO = {(f"X{k}", "X6") for k in range(1, 6)}


def test_an_effect_and_an_intercept_of_its_cause_are_directed():
    directed, loose, gains = found(one_effect(0.8), one_effect(0.3, intercepts=(1.0, 0.0)))
    assert (directed, loose, gains) == ({("X1", "X2")}, set(), {})


@pytest.mark.parametrize("intercepts", [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)])
def test_an_effect_and_both_variances_are_a_tie_whatever_the_means(intercepts):
    directed, loose, _ = found(one_effect(0.8), one_effect(0.3, (2.0, 3.0), intercepts))
    assert (directed, loose) == (set(), {("X1", "X2")})


def test_moved_intercepts_alone_are_no_edge():
    assert found(one_effect(0.8), one_effect(0.8, intercepts=(1.0, 1.0))) == (set(), set(), {})


def test_a_rescaled_effect_of_one_cause_is_a_tie_and_of_two_is_not():
    assert found(one_effect(0.8), one_effect(1.6, (1.0, 4.0)))[:2] == (set(), {("X1", "X2")})
    directed, loose, gains = found(sink([0.8, 0.6]), sink([1.6, 1.2], 4.0))
    assert (directed, loose) == ({("X1", "X3"), ("X2", "X3")}, set())
    assert gains == {"X3": pytest.approx(2.0)}


def test_two_effects_that_alone_are_multiplied_are_two_changed_effects():
    directed, loose, gains = found(sink([0.8, 0.6]), sink([1.6, 1.2]))
    assert (directed, loose, gains) == ({("X1", "X3"), ("X2", "X3")}, set(), {})


@pytest.mark.parametrize("variance", [1.0, 0.3])
@pytest.mark.parametrize("intercept", [0.0, 2.0])
@pytest.mark.parametrize("factor", [0.125, 4.7, -1.0, -0.4])
def test_a_gain_is_one_change_with_its_factor(factor, intercept, variance):
    directed, loose, gains = found(sink(EFFECTS), sink(factor * EFFECTS, variance, intercept))
    assert (directed, loose) == (INTO, set())
    assert gains == {"X6": pytest.approx(factor, rel=1e-4)}


def test_effects_that_all_vanish_are_removed_one_by_one():
    directed, loose, gains = found(sink(EFFECTS), sink(0 * EFFECTS))
    assert (directed, loose, gains) == (INTO, set(), {})


def test_effects_may_change_besides_a_gain():
    changed = 3 * EFFECTS
    changed[0] = -0.2
    result = DifferenceDAG().fit_population(sink(EFFECTS), sink(changed, 2.0, 1.0)).result_
    assert {(e.source, e.target) for e in result.edge_list} == INTO
    assert {e.source for e in result.edge_list if e.gain_of is None} == {"X1"}
    assert result.gain_list[0].factor == pytest.approx(3.0, rel=1e-4)
    assert [change.variable for change in result.noise_list] == ["X6"]


def test_equal_noise_is_assumed_with_gains_too():
    result = DifferenceDAG(noise="equal").fit_population(sink(EFFECTS), sink(0.2 * EFFECTS)).result_
    assert result.gain_list[0].factor == pytest.approx(0.2, rel=1e-4)
    assert not result.noise_list


@pytest.mark.parametrize("rows", [400, 2000])
def test_a_tie_stays_one_in_samples(rows):
    """Intercepts that are the same in both conditions tell orders apart by chance only."""
    first, second = one_effect(0.8), one_effect(-0.3, (2.2, 0.4))
    for seed in range(15):
        tables = first.sample(rows, rng=2 * seed), second.sample(rows, rng=2 * seed + 1)
        (edge,) = DifferenceDAG().fit(*tables).result_.edge_list
        assert not edge.directed


@pytest.mark.parametrize("rows", [400, 2000])
def test_ties_among_other_variables_stay_ties_in_samples(rows):
    """What orders that tie make of the other variables differs by chance, as it does of intercepts."""
    ends = [(0, 1), (2, 3)]
    weights = [np.zeros((8, 8)), np.zeros((8, 8))]
    weights[0][[1, 3], [0, 2]], weights[1][[1, 3], [0, 2]] = [0.8, 0.6], [-0.3, -0.7]
    for own in weights:
        own[[4, 5, 6, 7, 7], [0, 3, 4, 5, 1]] = [0.7, -0.6, 0.5, 0.6, 0.5]
    first = LinearSEM(weights[0], np.ones(8))
    second = LinearSEM(weights[1], [2.2, 3.1, 4.2, 2.6, 1, 1, 1, 1])
    pairs = {frozenset(first.names[k] for k in pair) for pair in ends}
    assert found(first, second)[0] == set()
    seen = directed = 0
    for seed in range(12):
        tables = first.sample(rows, rng=2 * seed), second.sample(rows, rng=2 * seed + 1)
        edges = [e for e in DifferenceDAG().fit(*tables).result_.edge_list if {e.source, e.target} in pairs]
        seen, directed = seen + len(edges), directed + sum(e.directed for e in edges)
    assert seen >= 20
    assert directed <= seen / 8
