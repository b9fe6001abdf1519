"""Shapley values in closed form against all subsets of mechanisms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffdag.model.attribution import ChangedEquations, shapley_values, total_effects


def draw(seed: int, p: int, m: int) -> ChangedEquations:
    """Random equations; the effects that mechanisms of one row move do not overlap."""
    rng = np.random.default_rng(seed)
    rows, taken = rng.integers(0, p, m), set()
    delta = rng.normal(size=(m, p)) * (np.arange(p) < rows[:, None])
    for k, j in zip(*np.nonzero(delta), strict=True):
        delta[k, j] *= (rows[k], j) not in taken
        taken.add((rows[k], j))
    weights = np.tril(rng.normal(size=(p, p)), -1)
    numbers = rng.normal(size=p), rng.uniform(1, 2, p)
    return ChangedEquations(weights, *numbers, rows, delta, rng.normal(size=m), rng.uniform(-0.5, 1, m) / m)


def moments(changed: ChangedEquations, chosen: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances with some mechanisms as in the second condition."""
    weights, intercepts, noise = changed.weights.copy(), changed.intercepts.copy(), changed.variances.copy()
    for k in chosen:
        weights[changed.rows[k]] += changed.delta_weights[k]
        intercepts[changed.rows[k]] += changed.delta_intercepts[k]
        noise[changed.rows[k]] += changed.delta_variances[k]
    total = np.linalg.inv(np.eye(len(weights)) - weights)
    return total @ intercepts, np.diag(total @ np.diag(noise) @ total.T)


def all_subsets(changed: ChangedEquations) -> tuple[np.ndarray, np.ndarray]:
    """Shapley values by their definition."""
    m, p = changed.delta_weights.shape
    parts = np.zeros((2, m, p))
    for k in range(m):
        others = [other for other in range(m) if other != k]
        for size in range(m):
            share = math.factorial(size) * math.factorial(m - 1 - size) / math.factorial(m)
            for chosen in itertools.combinations(others, size):
                after, before = moments(changed, (*chosen, k)), moments(changed, chosen)
                parts[:, k] += share * (np.array(after) - np.array(before))
    return parts[0], parts[1]


class TestShapleyValues:
    @given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6))
    def test_they_are_those_over_all_subsets(self, seed, p, m):
        changed = draw(seed, p, m)
        for own, expected in zip(shapley_values(changed), all_subsets(changed), strict=True):
            np.testing.assert_allclose(own, expected, rtol=1e-9, atol=1e-9)

    @given(st.integers(0, 10**6), st.integers(2, 12), st.integers(1, 25))
    def test_they_add_up_to_the_change(self, seed, p, m):
        changed = draw(seed, p, m)
        first, second = moments(changed, ()), moments(changed, tuple(range(m)))
        for own, before, after in zip(shapley_values(changed), first, second, strict=True):
            np.testing.assert_allclose(
                own.sum(axis=0), after - before, rtol=1e-7, atol=1e-7 * np.abs(after).max()
            )

    def test_what_does_not_reach_a_variable_has_exactly_nothing(self):
        changed = draw(3, 6, 5)
        for own in shapley_values(changed):
            for k, row in enumerate(changed.rows):
                assert (own[k, :row] == 0).all()

    def test_versions_side_by_side_are_those_one_by_one(self):
        versions = [draw(7, 5, 4) for _ in range(3)]
        scaled = [
            ChangedEquations(v.weights * f, v.intercepts, v.variances, v.rows, *rest(v))
            for v, f in zip(versions, (1.0, 0.5, 0.2), strict=True)
        ]
        stacked = ChangedEquations(
            np.stack([v.weights for v in scaled]),
            np.stack([v.intercepts for v in scaled]),
            np.stack([v.variances for v in scaled]),
            scaled[0].rows,
            *(np.stack(parts) for parts in zip(*map(rest, scaled), strict=True)),
        )
        for together, alone in zip(
            shapley_values(stacked), zip(*map(shapley_values, scaled), strict=True), strict=True
        ):
            np.testing.assert_allclose(together, np.array(alone), atol=1e-12)

    def test_without_mechanisms_there_is_nothing(self):
        changed = draw(1, 4, 1)
        none = ChangedEquations(
            changed.weights, changed.intercepts, changed.variances, np.zeros(0, int), np.zeros((0, 4)),
            np.zeros(0), np.zeros(0),
        )  # fmt: skip
        assert [own.shape for own in shapley_values(none)] == [(0, 4), (0, 4)]


def rest(changed: ChangedEquations) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return changed.delta_weights, changed.delta_intercepts, changed.delta_variances


@pytest.mark.parametrize("size", [0.5, 50.0])
def test_no_effect_reaches_its_causes(size):
    weights = np.tril(np.random.default_rng(0).normal(0, size, (8, 8)), -1)
    assert (np.triu(total_effects(weights), 1) == 0).all()
