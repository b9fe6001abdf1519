"""The compiled coordinate descents: against plain loops, optimality conditions, and arrays that do not fit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from differences import covariances, lasso

from diffdag.precision import _descent

# Sweeps of the lasso


def soft(value, amount):
    return np.sign(value) * max(abs(value) - amount, 0.0)


def swept(gram, target, values, penalty, count):
    """So many sweeps, each coefficient in turn at its best; after the first those that are zero stay so."""
    values = values.copy()
    for turn in range(count):
        for k in range(len(values)):
            if turn == 0 or values[k] != 0:
                others = gram[k] @ values - gram[k, k] * values[k]
                values[k] = soft(target[k] - others, penalty) / gram[k, k]
    return values


@pytest.mark.parametrize("count", [0, 1, 2, 7])
@pytest.mark.parametrize("size", [1, 2, 6, 15])
def test_sweeps_are_those_of_a_plain_loop(size, count):
    supports = set()
    for seed, penalty in itertools.product(range(880700, 880706), (0.0, 0.3, 0.8)):
        gram, target = lasso(seed, size)
        start = np.random.default_rng(seed).standard_normal(size) * (seed % 2)
        values, gradient = start.copy(), gram @ start - target
        _descent.sweep(gram, gradient, values, penalty, count)
        expected = swept(gram, target, start, penalty, count)
        np.testing.assert_allclose(values, expected, atol=1e-12)
        np.testing.assert_array_equal(values == 0, expected == 0)
        np.testing.assert_allclose(gradient, gram @ values - target, atol=1e-12)
        supports.add(np.count_nonzero(values))
    assert len(supports) > 1 or count == 0 < size < 3


def test_the_same_sweeps_give_the_same_bytes():
    gram, target = lasso(880710, 60)
    found = []
    for _ in range(2):
        values, gradient = np.zeros(60), -target
        _descent.sweep(gram, gradient, values, 0.4, 20)
        found.append(values.tobytes() + gradient.tobytes())
    assert found[0] == found[1]


# The fused lasso


def fused(seed, p=5):
    """Inner products of two tables' variables among themselves and with one more."""
    sigmas = np.array(covariances(seed, p + 1))
    return np.ascontiguousarray(sigmas[:, :p, :p]), np.ascontiguousarray(sigmas[:, :p, p])


def overlap(*intervals):
    """How much room there is between the largest lower and the smallest upper bound."""
    return min(high for _, high in intervals) - max(low for low, _ in intervals)


@pytest.mark.parametrize("seed", range(880720, 880732))
def test_the_fused_lasso_ends_where_the_conditions_hold(seed):
    """With subgradients s of |b|_1 and d of |b_1 - b_2|_1: r_1 = l1 s_1 + l2 d and r_2 = l1 s_2 - l2 d."""
    grams, cross = fused(seed)
    seen = set()
    for sparsity, fusion in itertools.product((0.02, 0.2), (0.02, 0.2)):
        slopes = np.full((2, 5), 7.0)  # where it starts does not matter
        _descent.fused_lasso(grams, cross, sparsity, fusion, 1e-13, 100_000, slopes)
        rest = cross - np.einsum("kij,kj->ki", grams, slopes)
        for j in range(5):
            (one, two), (r1, r2) = slopes[:, j], rest[:, j]
            signs = [(np.sign(x),) * 2 if x else (-1.0, 1.0) for x in (one, two)]
            first = sorted((r1 - sparsity * s) / fusion for s in signs[0])
            second = sorted((sparsity * s - r2) / fusion for s in signs[1])
            own = (np.sign(one - two),) * 2 if one != two else (-1.0, 1.0)
            assert overlap(first, second, own) > -1e-8
            seen.add((one == 0, two == 0, one == two))
    assert len(seen) > 1


def test_the_fused_lasso_keeps_to_its_sweeps_and_tolerance():
    grams, cross = fused(880720)
    found = {}
    for tolerance, sweeps in ((0.0, 0), (0.0, 1), (0.0, 2), (1e9, 50), (1e-13, 10_000)):
        slopes = np.empty((2, 5))
        _descent.fused_lasso(grams, cross, 0.02, 0.02, tolerance, sweeps, slopes)
        found[tolerance, sweeps] = slopes
    assert not found[0.0, 0].any()
    np.testing.assert_array_equal(found[1e9, 50], found[0.0, 1])  # one sweep is enough for this tolerance
    best = found[1e-13, 10_000]
    errors = [np.abs(found[0.0, sweeps] - best).max() for sweeps in (0, 1, 2)]
    assert errors[0] > errors[1] > errors[2] > 0
    assert best.any()


# Directions

OFTEN = (1e-10, 100_000, 1)  # tolerance, sweeps and widenings


def missed(grams, directions, j):
    """How far both constraints of a column are from zero: of the difference, and of the sum."""
    r1, r2 = (gram @ direction[:, j] for gram, direction in zip(grams, directions, strict=True))
    return np.abs(r1 - r2).max(), np.abs(r1 + r2 - 2 * np.eye(len(r1))[j]).max()


def variance(grams, share, directions, j):
    parts = zip(grams, share, directions, strict=True)
    return sum(direction[:, j] @ gram @ direction[:, j] / rows for gram, rows, direction in parts)


@pytest.mark.parametrize("seed", range(880740, 880744))
def test_directions_keep_their_constraints_wherever_they_start(seed):
    grams, share, near, far = np.array(covariances(seed)), np.array([0.8, 1.2]), 0.1, 0.2
    inverse, nothing = np.linalg.inv(grams), np.zeros((2, 4, 4))
    start = inverse.copy()
    for directions in (inverse, nothing):
        _descent.fused_directions(grams, share, near, far, *OFTEN, directions)
    np.testing.assert_allclose(inverse, nothing, atol=1e-6)
    for j in range(4):
        closeness = missed(grams, inverse, j)
        assert closeness[0] <= near * (1 + 1e-6)
        assert closeness[1] <= far * (1 + 1e-6)
        assert variance(grams, share, inverse, j) < variance(grams, share, start, j)


def test_with_hardly_any_room_directions_are_the_inverse():
    grams, share, directions = np.array(covariances(880745)), np.array([0.8, 1.2]), np.zeros((2, 4, 4))
    _descent.fused_directions(grams, share, 1e-9, 1e-9, 0.1, 200_000, 1, directions)
    np.testing.assert_allclose(directions, np.linalg.inv(grams), atol=1e-6)


def test_bounds_without_a_solution_are_doubled():
    """Both entries of the sum are the same here, and cannot be near 2 and near 0; 1 is within 1 of both."""
    grams, share = np.ones((2, 2, 2)), np.ones(2)

    def solved(near, far, widenings):
        directions = np.zeros((2, 2, 2))
        _descent.fused_directions(grams, share, near, far, 1e-3, 300, widenings, directions)
        return directions

    for wide, widenings in ((0.3, 1), (0.6, 2), (1.2, 3), (1.2, 4), (1.2, 20)):
        expected = solved(wide / 3, wide, 1)
        np.testing.assert_array_equal(solved(0.1, 0.3, widenings), expected)
        assert all(missed(grams, expected, j)[1] >= 1 - 1e-9 for j in range(2))
    assert all(missed(grams, solved(0.1, 0.3, 20), j)[1] <= 1.2 * (1 + 1e-3) for j in range(2))


# What is refused


def for_sweep():
    gram, target = lasso(880750, 4)
    return {"gram": gram, "gradient": -target, "values": np.zeros(4), "penalty": 0.1, "count": 2}


def for_lasso():
    grams, cross = fused(880751, 4)
    bounds = {"sparsity": 0.1, "fusion": 0.1, "tolerance": 1e-3, "sweeps": 10}
    return {"grams": grams, "cross": cross, **bounds, "slopes": np.zeros((2, 4))}


def for_directions():
    bounds = {"slack": 0.1, "wide": 0.1, "tolerance": 1e-3, "sweeps": 10, "widenings": 2}
    given = {"grams": np.array(covariances(880752)), "share": np.ones(2)}
    return {**given, **bounds, "directions": np.zeros((2, 4, 4))}


@pytest.mark.parametrize(
    ("function", "given", "name", "shape"),
    [
        (_descent.sweep, for_sweep, "gram", (4, 3)),
        (_descent.sweep, for_sweep, "gram", (3, 4)),
        (_descent.sweep, for_sweep, "gram", (16,)),
        (_descent.sweep, for_sweep, "gradient", (3,)),
        (_descent.sweep, for_sweep, "values", (5,)),
        (_descent.sweep, for_sweep, "values", (4, 1)),
        (_descent.fused_lasso, for_lasso, "grams", (3, 4, 4)),
        (_descent.fused_lasso, for_lasso, "grams", (2, 4, 3)),
        (_descent.fused_lasso, for_lasso, "cross", (2, 3)),
        (_descent.fused_lasso, for_lasso, "cross", (1, 4)),
        (_descent.fused_lasso, for_lasso, "slopes", (2, 5)),
        (_descent.fused_lasso, for_lasso, "slopes", (8,)),
        (_descent.fused_directions, for_directions, "grams", (2, 4, 5)),
        (_descent.fused_directions, for_directions, "share", (3,)),
        (_descent.fused_directions, for_directions, "directions", (2, 4, 3)),
        (_descent.fused_directions, for_directions, "directions", (1, 4, 4)),
    ],
)
def test_arrays_of_another_shape_are_refused(function, given, name, shape):
    function(**given())
    with pytest.raises((ValueError, TypeError)):
        function(**given() | {name: np.ones(shape)})


def spoilt(array):
    """The same numbers, but not as the code would fill them in."""
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]))
    wide[..., ::2] = array
    frozen = array.copy()
    frozen.flags.writeable = False
    ways = {
        "strided": wide[..., ::2],
        "narrow": array.astype(np.float32),
        "frozen": frozen,
        "list": array.tolist(),
    }
    return ways | ({"by columns": np.asfortranarray(array)} if array.ndim > 1 else {})


@pytest.mark.parametrize(
    ("function", "given", "names"),
    [
        (_descent.sweep, for_sweep, ["gradient", "values"]),
        (_descent.fused_lasso, for_lasso, ["slopes"]),
        (_descent.fused_directions, for_directions, ["directions"]),
    ],
    ids=["sweep", "fused_lasso", "fused_directions"],
)
def test_answers_are_never_written_to_a_copy(function, given, names):
    """An array that cannot be filled as it is would come back as it was."""
    accepted = []
    for name in names:
        for how, array in spoilt(given()[name]).items():
            try:
                function(**given() | {name: array})
            except (ValueError, TypeError):
                continue
            accepted.append((name, how))
    assert accepted == []
