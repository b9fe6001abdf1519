"""Exact models with moved intercepts, gains and changed noise: what the search makes of them without chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from diffdag import DifferenceDAG, LinearSEM, simulate_pair

P = 6


@dataclass(frozen=True, eq=False)
class Truth:
    """Two models, and what changes between them."""

    first: LinearSEM
    second: LinearSEM
    edges: set[tuple[str, str]]  # changed weights, but for those of a gain
    gain: dict[str, float]

    @property
    def names(self):
        return self.first.names

    @property
    def multiplied(self):
        """Edges that the gain multiplies."""
        weights = self.first.weights
        return {
            (self.names[j], name) for name in self.gain for j in np.flatnonzero(weights[self.names.index(name)])
        }

    @property
    def noisy(self):
        changed = self.first.noise_variances != self.second.noise_variances
        return {name for name, differs in zip(self.names, changed, strict=True) if differs}

    @property
    def shifts(self):
        """What intercepts change by where all causes have their common mean, if they do at either mean too."""
        ends = self.first.mean(), self.second.mean()
        own = self.first.intercepts - self.second.intercepts
        delta = self.first.weights - self.second.weights
        shifts, one, two = (own + delta @ at for at in ((ends[0] + ends[1]) / 2, *ends))
        if (np.abs(shifts) > 1e-9).sum() > P / 2:
            return None  # the search may leave them out
        claimed = (np.abs(one) > 1e-9) & (np.abs(two) > 1e-9) & (one * two > 0)
        return {name: shift for name, shift, counts in zip(self.names, shifts, claimed, strict=True) if counts}


def draw(seed, *, changes=0, gain=False, moved=0, noisy=0):
    """A random pair: some weights change, all of one variable with three causes or more are multiplied."""
    rng = np.random.default_rng(seed)
    while True:
        pair = simulate_pair(P, neighbours=4, changes=changes, rng=rng)
        still = (pair.first.weights == pair.second.weights).all(axis=1)
        able = np.flatnonzero(still & ((pair.first.weights != 0).sum(axis=1) >= 3))
        if len(able) or not gain:
            break
    weights, variances, intercepts, factors = pair.second.weights.copy(), np.ones(P), np.zeros(P), {}
    if gain:
        i = int(rng.choice(able))
        factors[pair.first.names[i]] = float(rng.choice([2.0, -0.7, 0.4]))
        weights[i] *= factors[pair.first.names[i]]
    variances[rng.permutation(P)[:noisy]] = 2.5
    intercepts[rng.permutation(P)[:moved]] = rng.choice([-1.0, 1.0], moved)
    second = LinearSEM(weights, variances, intercepts=intercepts)
    return Truth(pair.first, second, set(pair.edges), factors)


def answer(truth):
    return DifferenceDAG(n_jobs=1).fit_population(truth.first, truth.second).result_


def count(edges, gains, noisy):
    """How many changes there are; a gain is one, whatever it multiplies."""
    return sum(edge.gain_of is None for edge in edges), len(gains), len(noisy)


def assert_found(result, truth):
    """The truth, or as many changes of each kind with the directions in question left open."""
    own = {(edge.source, edge.target) for edge in result.edge_list if edge.directed and edge.gain_of is None}
    multiplied = {(edge.source, edge.target) for edge in result.edge_list if edge.directed and edge.gain_of}
    if any(not edge.directed for edge in result.edge_list):
        wanted = len(truth.edges), len(truth.gain), len(truth.noisy)
        assert count(result.edge_list, result.gain_list, result.noise_list) == wanted
        assert own <= truth.edges
        return False
    assert own == truth.edges
    assert multiplied == truth.multiplied
    factors = {change.variable: change.factor for change in result.gain_list}
    assert factors == pytest.approx(truth.gain, rel=1e-6)
    assert {change.variable for change in result.noise_list} == truth.noisy
    place, names = result.settings["search_order"].index, truth.names
    for (j, i), weight in np.ndenumerate(truth.first.weights.T):
        if weight != 0 and (names[j], names[i]) in truth.edges | truth.multiplied:
            assert place(names[j]) < place(names[i])
    for edge in result.edge_list:
        cell = names.index(edge.target), names.index(edge.source)
        assert (edge.weight_first, edge.weight_second) == (
            truth.first.weights[cell],
            truth.second.weights[cell],
        )
    return True


def assert_moved(result, truth):
    """Intercepts are those of the truth, unless so many moved that they tell nothing about the order."""
    if truth.shifts is not None:
        said = {change.variable: change.delta for change in result.mean_list}
        assert said == pytest.approx(truth.shifts, rel=1e-6)


@pytest.mark.parametrize("seed", range(890000, 890010))
def test_changed_weights_are_found_where_intercepts_moved(seed):
    truth = draw(seed, changes=2, moved=2)
    result = answer(truth)
    assert not result.gain_list
    if assert_found(result, truth):
        assert_moved(result, truth)


@pytest.mark.parametrize("seed", range(890020, 890030))
def test_a_gain_is_found_for_one_change(seed):
    truth = draw(seed, gain=True)
    result = answer(truth)
    if assert_found(result, truth):
        assert result.mean_list == ()


@pytest.mark.parametrize("seed", range(890040, 890050))
def test_changed_weights_a_gain_intercepts_and_two_noise_variances_are_told_apart(seed):
    truth = draw(seed, changes=2, gain=True, moved=1, noisy=2)
    result = answer(truth)
    if assert_found(result, truth):
        assert_moved(result, truth)


@pytest.mark.parametrize("noise", [1.0, 1.0 + 1e-13])
def test_no_noise_variance_changed_where_an_effect_turns_round(noise):
    """X1 -> X2 and X2 -> X1: along either order one of the variances of the regressions differs."""
    one, two = (LinearSEM(np.eye(2, k=k), noise_variances=[noise**k, 1.0]) for k in (-1, 1))
    result = DifferenceDAG(n_jobs=1).fit_population(one, two).result_
    assert [str(edge) for edge in result.edge_list] == ["X1 -- X2"]
    assert result.noise_list == ()
