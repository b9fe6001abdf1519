"""Changed noise variances and intercepts, against regressions by hand and models whose changes are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from studies import moments

import diffdag as dd
from diffdag.ordersearch.intercepts import changed_mechanisms
from diffdag.tables.moments import Moments


def tables(weights, shift=0.0, variances=1.0, sizes=(600, 800), seed=0, second=None, origin=0.0):
    """Rows of a model, and of the same with other intercepts, noise variances and perhaps weights."""
    rng = np.random.default_rng(seed)
    weights = np.asarray(weights, float)
    p = len(weights)
    scale = np.sqrt(np.broadcast_to(variances, p))
    answer = []
    for n, effects, move, size in (
        (sizes[0], weights, 0.0, np.ones(p)),
        (sizes[1], weights if second is None else np.asarray(second, float), np.asarray(shift), scale),
    ):
        noise = rng.standard_normal((n, p)) * size + move + origin
        answer.append(noise @ np.linalg.inv(np.eye(p) - effects).T)
    return answer


def names(changes):
    return [change.variable for change in changes]


CHAIN = [[0, 0, 0], [0.8, 0, 0], [0, 0.8, 0]]


def test_a_calm_variable_is_tested_like_a_regression_with_a_group_indicator():
    parts = tables(CHAIN, shift=[0, 0.6, 0])
    _, means = changed_mechanisms(*moments(*parts), [0, 1, 2], {}, set())
    assert names(means) == ["X2"]
    rows, group = np.vstack(parts), np.repeat([1.0, 0.0], [len(part) for part in parts])
    design = np.column_stack([np.ones(len(rows)), rows[:, 0], group])
    beta, rss, *_ = np.linalg.lstsq(design, rows[:, 1], rcond=None)
    free = len(rows) - 3
    error = np.sqrt(rss[0] / free * np.linalg.inv(design.T @ design)[2, 2])
    found = means[0]
    assert (found.delta, found.stderr) == pytest.approx((beta[2], error))
    assert found.pvalue == pytest.approx(2 * stats.t.sf(abs(beta[2]) / error, free))
    assert (found.mean_first, found.mean_second) == pytest.approx([part[:, 1].mean() for part in parts])


def test_with_all_effects_changed_the_conditions_are_regressed_apart():
    second = [[0, 0, 0], [0.2, 0, 0], [0, 0.8, 0]]
    parts = tables(CHAIN, shift=[0.3, 2, 0], variances=[1, 3, 1], second=second)
    noise, means = changed_mechanisms(*moments(*parts), [0, 1, 2], {1: [0]}, {1})
    fits = [stats.linregress(part[:, 0], part[:, 1]) for part in parts]
    sums = [np.sum((p[:, 1] - f.slope * p[:, 0] - f.intercept) ** 2) for p, f in zip(parts, fits, strict=True)]
    variances = [rss / (len(part) - 2) for rss, part in zip(sums, parts, strict=True)]
    ratio = variances[0] / variances[1]
    found = noise[0]
    assert names(noise) == ["X2"]
    assert (found.variance_first, found.variance_second, found.ratio) == pytest.approx((*variances, ratio))
    assert found.pvalue == pytest.approx(2 * stats.f.cdf(ratio, len(parts[0]) - 2, len(parts[1]) - 2))
    cause, effect = (parts[0].mean(axis=0) - parts[1].mean(axis=0))[:2]
    base = sum(v / len(part) for v, part in zip(variances, parts, strict=True))
    shifts = [effect - fit.slope * cause for fit in fits]
    errors = [np.sqrt(base + (fit.stderr * cause) ** 2) for fit in fits]
    least = min(range(2), key=lambda k: abs(shifts[k]) / errors[k])
    change = next(change for change in means if change.variable == "X2")
    assert (change.delta, change.stderr) == pytest.approx((shifts[least], errors[least]))


def test_a_variance_without_predecessors_has_the_usual_f_test():
    parts = tables(np.zeros((2, 2)), variances=[0.5, 1])
    noise, means = changed_mechanisms(*moments(*parts), [0, 1], {}, [0])
    ratio = parts[0][:, 0].var(ddof=1) / parts[1][:, 0].var(ddof=1)
    assert noise[0].ratio == pytest.approx(ratio)
    assert noise[0].pvalue == pytest.approx(2 * stats.f.sf(ratio, 599, 799))
    assert means == ()


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
@pytest.mark.parametrize("moved", [0, 1, 2])
def test_one_intercept_explains_all_means_whatever_order_is_given(order, moved):
    shift = np.zeros(3)
    shift[moved] = 0.7
    _, means = changed_mechanisms(*moments(*tables(CHAIN, shift=shift)), order, {}, set())
    assert names(means) == [f"X{moved + 1}"]
    assert means[0].delta == pytest.approx(-0.7, abs=4 * means[0].stderr)


def test_what_is_known_of_the_order_is_kept():
    one, two = moments(*tables(CHAIN, shift=[0.7, 0, 0]))
    before = np.zeros((3, 3), bool)
    before[1, 0] = True
    assert names(changed_mechanisms(one, two, [2, 1, 0], {}, set(), before)[1]) == ["X1", "X2"]
    assert names(changed_mechanisms(one, two, [0, 1, 2], {}, set(), before.T)[1]) == ["X1"]


def test_a_variable_moves_past_one_with_changed_noise_if_the_covariances_do_not_mind():
    # X1 -> X2 -> X3; the noise of X3 changed, which leaves open where X1 stands.
    parts = tables(CHAIN, shift=[0.7, 0, 0], variances=[1, 1, 3])
    noise, means = changed_mechanisms(*moments(*parts), [1, 2, 0], {}, {2})
    assert (names(noise), names(means)) == (["X3"], ["X1"])


def test_a_variable_does_not_move_past_one_that_the_covariances_place():
    # The mean of X3 stays where it was: in front of X2 it would need no change. But where the noise of X2
    # changed, the covariances tell that X2 is the cause.
    shift = [0, 0.7, -0.56]
    one, two = moments(*tables(CHAIN, shift=shift))
    assert names(changed_mechanisms(one, two, [0, 1, 2], {}, set())[1]) == ["X2"]
    one, two = moments(*tables(CHAIN, shift=shift, variances=[1, 3, 1]))
    assert names(changed_mechanisms(one, two, [0, 1, 2], {}, {1})[1]) == ["X2", "X3"]


@pytest.mark.parametrize("seed", range(5))
def test_a_changed_effect_of_a_centred_cause_moves_no_mean(seed):
    second = [[0, 0, 0], [-0.8, 0, 0], [0, 0.8, 0]]
    one, two = moments(*tables(CHAIN, second=second, seed=seed))
    assert changed_mechanisms(one, two, [0, 1, 2], {1: [0]}, set()) == ((), ())


def test_conditions_that_disagree_about_the_direction_say_nothing():
    # The mean of X1 moves; with the first slope X2 fell short of it, with the second it went beyond.
    second = [[0, 0], [0.2, 0]]
    one, two = moments(*tables([[0, 0], [1.0, 0]], second=second, shift=[2, 0.8], seed=1))
    assert names(changed_mechanisms(one, two, [0, 1], {1: [0]}, set())[1]) == ["X1"]


@pytest.mark.slow
@given(
    seed=st.integers(0, 50),
    scale=st.lists(st.floats(1e-3, 1e3), min_size=4, max_size=4),
    shift=st.lists(st.floats(-100, 100), min_size=4, max_size=4),
)
@settings(max_examples=25, deadline=None)
def test_units_do_not_matter_and_swapping_flips_signs(seed, scale, shift):
    rng = np.random.default_rng(seed)
    weights = np.tril(rng.uniform(-1, 1, (4, 4)), -1)
    second = weights.copy()
    second[2, 0] += 0.5
    parts = tables(weights, shift=[0.4, 0, 0.5, 0], variances=[1, 1, 1, 2], second=second, seed=seed)
    order = [1, 0, 2, 3]
    one, two = moments(*parts)
    noise, means = changed_mechanisms(one, two, order, {2: [0]}, {3})
    scale, shift = np.array(scale), np.array(shift)
    again, other = changed_mechanisms(
        *moments(*(p * scale + shift * scale for p in parts)), order, {2: [0]}, {3}
    )
    assert (names(again), names(other)) == (names(noise), names(means))
    assert [c.ratio for c in again] == pytest.approx([c.ratio for c in noise], rel=1e-5)
    units = [scale[int(c.variable[1:]) - 1] for c in means]
    assert [c.delta / u for c, u in zip(other, units, strict=True)] == pytest.approx(
        [c.delta for c in means], rel=1e-4
    )
    turned, flipped = changed_mechanisms(two, one, order, {2: [0]}, {3})
    assert [c.ratio for c in turned] == pytest.approx([1 / c.ratio for c in noise], rel=1e-5)
    assert [(c.variable, c.pvalue) for c in flipped] == [(c.variable, pytest.approx(c.pvalue)) for c in means]
    assert [c.delta for c in flipped] == pytest.approx([-c.delta for c in means])


@pytest.mark.parametrize(("p", "n"), [(4, 60), (9, 60), (25, 200)])
def test_nothing_moves_without_change(p, n):
    alarms = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, p])
        sem = dd.simulate_pair(p, neighbours=min(4, p - 1), rng=rng).first
        one, two = sem.sample_moments(n, rng), sem.sample_moments(n, rng)
        alarms += bool(changed_mechanisms(one, two, rng.permutation(p), {}, set())[1])
    assert alarms <= 6  # 3 % of data sets at most: seven or more once in 300 runs


def test_many_variables_with_a_few_moves():
    rng = np.random.default_rng(5)
    sem = dd.simulate_pair(30, neighbours=3, rng=rng).first
    shift = np.zeros(30)
    shift[[3, 11, 20]] = 0.8, -0.8, 0.8
    one, two = sem.sample_moments(2000, rng), sem.sample_moments(2000, rng)
    moved = Moments(two.names, two.n, two.mean + np.linalg.solve(np.eye(30) - sem.weights, shift), two.scatter)
    _, means = changed_mechanisms(one, moved, rng.permutation(30), {}, set())
    assert names(means) == ["X4", "X12", "X21"]
