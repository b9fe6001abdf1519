"""Error bounds of complementary pairs stability selection."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from diffdag._base.errors import InputError
from diffdag.trust.stability import _unimodal_constants, expected_false_bound, largest_tails

# Bounds that the R package stabs prints for its own tests, 50 pairs, r-concave; it looks for the maximum with a
# tolerance that shows in the third digit of the smallest.
PUBLISHED = [
    (1, 100, 0.6, 0.006971364),
    (2, 100, 0.6, 0.03342845),
    (3, 100, 0.6, 0.08691176),
    (5, 100, 0.6, 0.2605329),
    (7, 100, 0.6, 0.5295188),
    (10, 100, 0.6, 1.141338),
    (6, 200, 0.6, 0.174),
    (7, 200, 0.6, 0.248),
    (7, 200, 0.61, 0.219),
    (7, 200, 0.62, 0.196),
]


@pytest.mark.parametrize(("q", "candidates", "cutoff", "bound"), PUBLISHED)
def test_published_bounds(q, candidates, cutoff, bound):
    assert expected_false_bound(q, candidates, cutoff, 50) == pytest.approx(bound, rel=4e-3)


def test_published_tail():
    # 30 of 100 candidates at 0.6, where the first of the two tails decides there
    assert 100 * largest_tails(0.09, 50, -1 / 2)[10] == pytest.approx(16.24975, rel=1e-6)
    assert expected_false_bound(30, 100, 0.6, 50) <= 16.24975


def test_published_cutoff():
    assert expected_false_bound(7, 200, 0.62, 50) <= 0.2 < expected_false_bound(7, 200, 0.61, 50)


def largest_tail_by_search(mean, at, steps, r):
    """The largest tail over all r-concave masses, by a general optimiser from many starts.

    In terms of the logarithms of f ** r: its second differences must not be negative. Masses that vanish behind
    some place are tried apart, because their powers are infinite.
    """
    rng = np.random.default_rng(0)
    best = 0.0
    for last in range(at, steps + 1):
        place = np.arange(last + 1)

        def masses(logs):
            weights = np.exp((logs - logs.min()) / r)
            return weights / weights.sum()

        def convexity(logs):
            powers = np.exp(logs - logs.max())
            return (powers[2:] + powers[:-2] - 2 * powers[1:-1]) / powers[1:-1]

        for _ in range(12):  # on some processors the optimiser stops early from most of them
            slope = rng.uniform(0.05, 4)
            start = np.log(np.cumsum(np.r_[rng.uniform(0.05, 1), slope + np.sort(rng.uniform(0, 0.1, last))]))
            limits = [
                {"type": "ineq", "fun": lambda logs, place=place: mean * steps - masses(logs) @ place},
                {"type": "ineq", "fun": convexity},
            ]
            found = minimize(
                lambda logs, place=place: -masses(logs)[place >= at].sum(),
                start,
                constraints=limits,
                method="SLSQP",
                options={"maxiter": 400, "ftol": 1e-13},
            )
            if all(np.min(limit["fun"](found.x)) > -1e-8 for limit in limits):
                best = max(best, 0.0 if found.fun is None else -found.fun)  # no such mode with that mean
    return best


@pytest.mark.filterwarnings(
    "ignore:Values in x were outside bounds", "ignore:overflow", "ignore:invalid value", "ignore:divide"
)
@pytest.mark.parametrize(
    ("mean", "at", "steps", "r"),
    [(0.1, 3, 4, -0.5), (0.25, 2, 4, -0.5), (0.1, 2, 5, -0.25), (0.25, 3, 5, -0.25), (0.4, 2, 4, -0.5)],
)
def test_tails_are_the_largest(mean, at, steps, r):
    assert largest_tails(mean, steps, r)[at] == pytest.approx(
        largest_tail_by_search(mean, at, steps, r), rel=2e-3
    )


@st.composite
def concave_masses(draw):
    """Any r-concave masses on 0, ..., steps: one over a power of a convex sequence, cut off at both ends."""
    steps = draw(st.integers(2, 12))
    power = draw(st.sampled_from([2.0, 4.0]))
    slopes = np.sort(draw(st.lists(st.floats(-3, 3), min_size=steps, max_size=steps)))
    line = np.r_[0.0, np.cumsum(slopes)]
    line += draw(st.floats(0.01, 2)) - line.min()
    first = draw(st.integers(0, steps))
    last = draw(st.integers(first, steps))
    masses = line**-power
    masses[:first] = 0
    masses[last + 1 :] = 0
    return masses / masses.sum(), -1 / power


@settings(max_examples=150, deadline=None)
@given(concave_masses())
def test_no_concave_masses_have_a_larger_tail(drawn):
    masses, r = drawn
    steps = len(masses) - 1
    mean = float(masses @ np.arange(steps + 1)) / steps
    tails = np.cumsum(masses[::-1])[::-1]
    assert (tails <= largest_tails(mean, steps, r) * (1 + 1e-7) + 1e-12).all()


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-12, 0.99), st.integers(1, 40), st.sampled_from([-0.5, -0.25]))
def test_tails_obey_what_theory_says(mean, steps, r):
    tails = largest_tails(mean, steps, r)
    place = np.arange(steps + 1) / steps
    assert tails[0] == 1
    assert (np.diff(tails) <= 1e-12).all()
    assert (tails[1:] <= np.minimum(1, mean / place[1:]) + 1e-9).all()  # Markov
    assert (tails <= largest_tails(min(1.0, mean * 1.1), steps, r) + 1e-9).all()
    assert (largest_tails(mean, steps, -0.25) <= largest_tails(mean, steps, -0.5) + 1e-9).all()  # fewer masses
    some = largest_tails(mean, steps, r, steps // 2 + 1)
    assert some[steps // 2 + 1 :] == pytest.approx(tails[steps // 2 + 1 :], rel=1e-8)


def test_hardly_anything_found():
    assert (largest_tails(0.0, 10, -0.5) == np.r_[1, np.zeros(10)]).all()
    assert 0 < largest_tails(1e-20, 10, -0.5)[5] <= 2e-20
    assert expected_false_bound(0, 45, 0.6, 50) == 0


def largest_unimodal_tail(mean, at, steps):
    """By linear programming, for each place of the mode."""
    place = np.arange(steps + 1)
    best = 0.0
    for mode in range(steps + 1):
        rises = np.where(place[:-1] < mode, 1.0, -1.0)[:, None] * (
            np.eye(steps + 1)[:-1] - np.eye(steps + 1)[1:]
        )
        found = linprog(
            -(place >= at).astype(float),
            A_ub=np.vstack([rises, place]),
            b_ub=np.r_[np.zeros(steps), mean * steps],
            A_eq=np.ones((1, steps + 1)),
            b_eq=[1.0],
        )
        best = max(best, 0.0 if found.fun is None else -found.fun)  # no such mode with that mean
    return best


@pytest.mark.parametrize("theta", [0.05, 0.2, 0.4])
def test_unimodal_constants_bound_unimodal_tails(theta):
    pairs = 10
    constants = _unimodal_constants(theta, pairs)
    assert not np.isfinite(constants[0])  # the theorem starts one step later
    tails = np.array([largest_unimodal_tail(theta**2, at, pairs) for at in range(1, pairs + 1)])
    assert (tails <= constants * theta**2 + 1e-9).all()
    covered = np.isfinite(constants)
    assert covered[3:].all()
    assert (constants * theta**2)[covered] == pytest.approx(tails[covered], rel=0.35)


@given(st.integers(1, 60), st.floats(0.01, 1), st.integers(2, 60), st.floats(0.51, 1))
@settings(max_examples=60, deadline=None)
def test_the_bound_is_never_above_theorem_one(candidates, share, pairs, cutoff):
    q = candidates * share
    bound = expected_false_bound(q, candidates, cutoff, pairs)
    assert 0 <= bound <= min(candidates, q * share / (2 * cutoff - 1)) * (1 + 1e-9)
    assert expected_false_bound(q, candidates, 1.0, pairs) <= bound + 1e-12
    on_grid = math.ceil(2 * pairs * cutoff - 1e-9) / (2 * pairs)
    assert expected_false_bound(q, candidates, on_grid, pairs) == bound


def test_halves_that_choose_at_random_keep_to_the_bound():
    """Candidates chosen independently with probability theta: the expected number follows from the binomial."""
    candidates, pairs, q = 40, 20, 6.0
    theta = q / candidates
    fits = np.arange(2 * pairs + 1)
    chances = np.array([math.comb(2 * pairs, k) * theta**k * (1 - theta) ** (2 * pairs - k) for k in fits])
    for cutoff in (0.525, 0.6, 0.75, 0.9):
        expected = candidates * chances[fits >= 2 * pairs * cutoff - 1e-9].sum()
        assert expected <= expected_false_bound(q, candidates, cutoff, pairs)


def test_errors():
    with pytest.raises(InputError, match=r"cutoff must be above 0\.5"):
        expected_false_bound(1, 10, 0.5, 50)
    with pytest.raises(InputError, match="q must be between 0 and the number of candidates, 10"):
        expected_false_bound(11, 10, 0.6, 50)
    with pytest.raises(InputError, match="pairs must be a whole number"):
        expected_false_bound(1, 10, 0.6, 2.5)
    with pytest.raises(InputError, match="candidates must be a whole number"):
        expected_false_bound(1, 0, 0.6, 50)
