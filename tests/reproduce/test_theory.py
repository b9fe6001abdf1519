"""The theorems' numbers: formulas against brute force, proofs against simulation, slips of the paper shown."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from studies import ROOT

from diffdag import InputError, LinearSEM, simulate_pair
from diffdag.precision.dantzig import solve_dantzig
from diffdag.precision.problem import DifferenceProblem
from diffdag.reproduce.planning import measured_text, plan
from diffdag.reproduce.theory import (
    Scale,
    conditions,
    indirect_samples,
    largest_off_diagonal,
    lower_bound,
    printed_off_diagonal,
    refined_samples,
    rows_for_deviation,
    smallest_diagonal,
    theorem3_constant,
    theorem3_samples,
)
from diffdag.trust.checks.moments_checks import effect_lower_bound

SEED = 820_000
QUICK = settings(max_examples=60, deadline=None)
sizes = st.floats(1e-3, 1e3)
tolerances = st.floats(1e-3, 0.45)
seeds = st.integers(0, 2**32 - 1)


def one_edge(weight, p=2, variances=None):
    """A model in which X1 acts on X2 and nothing else does."""
    weights = np.zeros((p, p))
    weights[1, 0] = weight
    return LinearSEM(weights, variances)


def random_covariance(p, rng, spread=1.0):
    factor = np.eye(p) + spread * rng.normal(size=(p, p)) / p
    return factor @ factor.T


def error_of(first, second, penalty, truth):
    solution = solve_dantzig(DifferenceProblem(first, second, penalty))
    assert solution.converged
    return np.abs(solution.delta.toarray() - truth).max()


# K^o_max and K^d_min


@QUICK
@given(seeds, st.integers(1, 5))
def test_both_constants_are_those_of_the_kronecker_product(seed, p):
    rng = np.random.default_rng(seed)
    first, second = random_covariance(p, rng), random_covariance(p, rng)
    product = np.kron(second, first)
    assert smallest_diagonal(first, second) == pytest.approx(np.diag(product).min())
    np.fill_diagonal(product, 0)
    assert largest_off_diagonal(first, second) == pytest.approx(np.abs(product).max())


@QUICK
@given(seeds, st.integers(2, 4))
def test_the_printed_condition_never_holds(seed, p):
    """Its maximum takes in products of variances, which exceed the product of the smallest eigenvalues."""
    rng = np.random.default_rng(seed)
    first, second = random_covariance(p, rng), random_covariance(p, rng)
    places = list(itertools.product(range(p), repeat=2))
    literal = max(abs(first[a] * second[b]) for a in places for b in places if a != b)
    assert printed_off_diagonal(first, second) == pytest.approx(literal)
    assert literal > np.linalg.eigvalsh(first)[0] * np.linalg.eigvalsh(second)[0] / 2


@QUICK
@given(seeds, st.integers(2, 5), st.floats(0.0, 0.3))
def test_incoherence_bounds_every_correlation(seed, p, spread):
    """|corr| <= 1 / (2 d) follows from the condition, whatever the units."""
    rng = np.random.default_rng(seed)
    weights = np.tril(spread * rng.normal(size=(p, p)) / p, -1)
    other = weights.copy()
    other[1, 0] += 0.05
    answer = conditions(LinearSEM(weights), LinearSEM(other), epsilon=0.1)
    assume(answer.incoherence.holds)
    for sem in (LinearSEM(weights), LinearSEM(other)):
        size = np.sqrt(np.diag(sem.covariance()))
        correlations = sem.covariance() / np.outer(size, size) - np.eye(p)
        assert np.abs(correlations).max() <= 1 / (2 * answer.nonzeros)
    if answer.incoherence.ratio * answer.densest <= answer.nonzeros:  # it holds on all sets of Assumption 3
        assert answer.epsilon_assumption <= 2 / (3 * answer.densest)


# Theorem 3


def test_the_constant_of_theorem_3_by_hand():
    scale = Scale(p=10, change=2.0, variance=1.5, entries=2.5, diagonal=0.5)
    c = 3200 * 1.5**2
    constant = math.sqrt(2 * c) * (2 + (math.sqrt(c) + 2.5) * 2.0)
    assert theorem3_constant(scale) == pytest.approx(constant)
    rows = 36 * constant**2 / (0.5 * 0.1) ** 2 * math.log(2 * 10 / 0.05)
    assert theorem3_samples(scale, 0.1, 0.05) == math.ceil(rows)


@QUICK
@given(st.integers(2, 10**4), sizes, sizes, sizes, sizes, st.floats(1e-3, 10), st.floats(1e-6, 0.5))
def test_the_rows_of_theorem_3_leave_room_for_a_penalty(p, change, variance, entries, diagonal, epsilon, delta):
    """The deviations of Lemma 1 of Ravikumar et al. then fit under lambda = K^d_min epsilon / 6."""
    scale = Scale(p, change, variance, entries, diagonal)
    n = theorem3_samples(scale, epsilon, delta)
    log = math.log(8 * p**2 / delta)
    deviation = math.sqrt(3200 * variance**2 * log / n)
    assert deviation <= 40 * variance * (1 + 1e-12)  # where the lemma holds
    needed = 2 * deviation + change * (entries * deviation + deviation**2)
    assert needed <= diagonal * epsilon / 6 * (1 + 1e-9)


@QUICK
@given(st.integers(2, 10**4), sizes, sizes, sizes, sizes, st.floats(1e-3, 10), st.floats(1e-6, 0.5))
def test_the_refined_rows_meet_the_proofs_condition_with_equality(
    p, change, variance, entries, diagonal, epsilon, delta
):
    scale = Scale(p, change, variance, entries, diagonal)
    n = refined_samples(scale, epsilon, delta)
    assert n <= theorem3_samples(scale, epsilon, delta)

    def needed(rows):
        share = math.log(2 * p * (p + 1) / delta) / rows
        deviation = variance * (2 * math.sqrt(share) + 2 * share)
        return 2 * deviation + change * (entries * deviation + deviation**2)

    assert needed(n) <= diagonal * epsilon / 6 * (1 + 1e-9)
    if n > 2:
        assert needed(n - 1) >= diagonal * epsilon / 6 * (1 - 1e-9)


@QUICK
@given(seeds, st.integers(2, 4), st.floats(0.01, 0.12), st.floats(1e-4, 0.02))
def test_the_deterministic_part_of_theorem_3(seed, p, weight, noise):
    """If lambda covers the deviations and the condition holds, the error is at most 6 lambda / K^d_min."""
    rng = np.random.default_rng(seed)
    first, second = one_edge(0.0, p), one_edge(weight, p)
    answer = conditions(first, second, epsilon=0.1)
    assume(answer.incoherence.holds)
    sigmas = first.covariance(), second.covariance()
    shifts = [noise * rng.uniform(-1, 1, size=(p, p)) for _ in sigmas]
    seen = [sigma + (shift + shift.T) / 2 for sigma, shift in zip(sigmas, shifts, strict=True)]
    target = np.abs((seen[1] - seen[0]) - (sigmas[1] - sigmas[0])).max()
    penalty = target + np.abs(np.kron(seen[1], seen[0]) - np.kron(sigmas[1], sigmas[0])).max() * answer.change
    truth = first.precision() - second.precision()
    assert error_of(*seen, penalty, truth) <= 6 * penalty / answer.incoherence.k_diagonal + 1e-6


@pytest.mark.parametrize(("p", "rows"), [(2, "refined"), (4, "refined"), (4, "theorem3"), (3, 20_000)])
def test_theorem_3_in_simulation(p, rows):
    """The estimate is within epsilon with the theorem's rows, and with far fewer."""
    first, second = one_edge(0.0, p), one_edge(0.12, p)
    answer = conditions(first, second, epsilon=0.05, delta=0.05)
    assert answer.incoherence.holds
    n = rows if isinstance(rows, int) else int(getattr(answer.rows, rows))
    penalty = answer.incoherence.k_diagonal * answer.epsilon / 6
    truth = first.precision() - second.precision()
    rng = np.random.default_rng(SEED + p)
    errors = [
        error_of(*(sem.sample_moments(n, rng).covariance() for sem in (first, second)), penalty, truth)
        for _ in range(60)
    ]
    assert max(errors) <= answer.epsilon  # 1 - delta is promised


@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_covariances_deviate_no_more_than_the_bound_says(correlation):
    p, deviation, delta = 3, 0.2, 0.1
    weights = np.zeros((p, p))
    weights[1, 0] = correlation
    sem = LinearSEM(weights, [1, 1 - correlation**2, 1])  # unit variances
    n = int(rows_for_deviation(p, 1.0, deviation, delta))
    rng = np.random.default_rng(SEED)
    worst = [np.abs(sem.sample_moments(n, rng).covariance() - sem.covariance()).max() for _ in range(800)]
    assert np.mean(np.array(worst) > deviation) <= delta / 2  # the bound is for two tables


@QUICK
@given(st.integers(2, 10**4), sizes, sizes, tolerances, tolerances, st.floats(1.01, 10))
def test_more_is_asked_of_more_rows(p, change, variance, epsilon, delta, factor):
    for rows in (theorem3_samples, refined_samples):
        scale = Scale(p, change, variance)
        base = rows(scale, epsilon, delta)
        assert base <= rows(replace(scale, p=p + 1), epsilon, delta)
        assert base <= rows(replace(scale, change=change * factor), epsilon, delta)
        assert base <= rows(replace(scale, variance=variance * factor), epsilon, delta)
        assert base <= rows(replace(scale, entries=2 * factor), epsilon, delta)
        assert base >= rows(replace(scale, diagonal=factor), epsilon, delta)
        assert base <= rows(scale, epsilon / factor, delta)
        assert base <= rows(scale, epsilon, delta / factor)
    base = indirect_samples(p, change, variance, epsilon, delta)
    assert base <= indirect_samples(p, change * factor, variance, epsilon, delta)
    assert base <= indirect_samples(p, change, variance, epsilon / factor, delta / factor)


# Two models


def test_conditions_of_one_changed_edge_by_hand():
    answer = conditions(one_edge(0.0, 3), one_edge(0.12, 3))
    assert (answer.nonzeros, answer.densest) == (3, 3)
    assert answer.change == pytest.approx(2 * 0.12 + 0.12**2)
    assert answer.epsilon_assumption == answer.epsilon == pytest.approx(0.06 / math.sqrt(1 + 0.12**2))
    assert answer.epsilon_entries == pytest.approx(0.12**2 / 2)
    inner = answer.incoherence
    assert inner.k_off == pytest.approx(0.12)
    assert inner.k_diagonal == 1
    assert inner.ratio == pytest.approx(6 * 0.12 / np.linalg.eigvalsh(one_edge(0.12).covariance())[0])
    assert inner.holds
    assert answer.rows.corollary2 == answer.rows.theorem3


def test_nothing_changed():
    answer = conditions(one_edge(0.5), one_edge(0.5))
    assert (answer.nonzeros, answer.change, answer.incoherence.ratio) == (0, 0, 0)
    assert (answer.epsilon, answer.epsilon_assumption) == (0.1, math.inf)


def test_the_densest_set_is_found_by_looking_at_all_of_them():
    pair = simulate_pair(6, neighbours=3, changes=2, rng=SEED)
    answer = conditions(pair.first, pair.second)
    sigmas = pair.first.covariance(), pair.second.covariance()
    counts, sums = [], []
    for size in range(1, 7):
        for members in itertools.combinations(range(6), size):
            outside = [k for k in range(6) if k not in members]
            if not pair.changed[np.ix_(members, outside)].any():  # closed under changed causes
                block = np.ix_(members, members)
                delta = np.linalg.inv(sigmas[0][block]) - np.linalg.inv(sigmas[1][block])
                counts.append((np.abs(delta) > 1e-7).sum())
                sums.append(np.abs(delta).sum())
    assert answer.densest == max(counts)
    assert answer.densest >= answer.nonzeros
    variances, largest = zip(*((np.diag(sigma), np.abs(sigma).max()) for sigma in sigmas), strict=True)
    scale = Scale(6, max(sums), np.max(variances), sum(largest), math.prod(map(min, variances)))
    assert answer.rows.corollary2 == pytest.approx(theorem3_samples(scale, answer.epsilon, 0.05))


def test_many_variables_skip_the_sets():
    pair = simulate_pair(30, neighbours=3, changes=2, rng=SEED)
    answer = conditions(pair.first, pair.second)
    assert answer.densest is answer.epsilon_assumption is answer.rows.corollary2 is None
    assert answer.epsilon == 0.1


def test_units_scale_delta_as_they_should():
    """In units half as large variances are times 4, Delta and epsilon over 4, and rows are the same."""
    small = conditions(one_edge(0.0), one_edge(0.12), epsilon=0.05)
    variances = [4, 4]
    large = conditions(one_edge(0.0, 2, variances), one_edge(0.12, 2, variances), epsilon=0.05 / 4)
    assert large.incoherence.ratio == pytest.approx(small.incoherence.ratio)
    assert large.rows.refined == pytest.approx(small.rows.refined, rel=1e-6)
    assert large.rows.indirect == pytest.approx(small.rows.indirect, rel=1e-6)


def test_which_of_direct_and_indirect_needs_fewer_rows_depends_on_the_models():
    """The paper's Proposition 2 says direct, always; with the constants it is so only for large |Omega|_1."""
    near_identity = conditions(one_edge(0.0), one_edge(0.12), epsilon=0.05)
    assert near_identity.incoherence.holds
    assert near_identity.rows.indirect < near_identity.rows.theorem3
    assert near_identity.rows.indirect_refined < near_identity.rows.refined
    hub = np.zeros((200, 200))
    hub[1:, 0] = 0.03
    other = hub.copy()
    other[1, 0] = 0.0
    with_hub = conditions(LinearSEM(hub), LinearSEM(other), epsilon=0.01)
    assert with_hub.incoherence.holds
    assert with_hub.rows.indirect > with_hub.rows.theorem3
    assert with_hub.rows.indirect_refined > with_hub.rows.refined


def test_theorem_2_needs_more_than_assumption_3():
    """Cut at the epsilon of Assumption 3, even the exact Delta of one changed edge has no diagonal left."""
    first, second = one_edge(0.0), one_edge(0.3)
    answer = conditions(first, second)
    delta = first.precision() - second.precision()
    assert np.abs(delta[0, 1]) > answer.epsilon_assumption > np.abs(delta[0, 0]) > 0
    assert answer.epsilon_entries < answer.epsilon_assumption


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a positive"),
        ({"epsilon": math.nan}, "epsilon must be a positive"),
        ({"delta": 0.6}, "delta is a probability"),
        ({"second": one_edge(0.1, 3)}, "different variables"),
        ({"second": LinearSEM([[0, 1], [0, 0]])}, "no common causal order"),
    ],
)
def test_conditions_refuse(arguments, message):
    models = {"first": one_edge(0.1), "second": one_edge(0.2)} | arguments
    with pytest.raises(InputError, match=message):
        conditions(models.pop("first"), models.pop("second"), **models)


# Theorem 4


def test_lower_bound_by_hand():
    assert lower_bound(100, 2) == pytest.approx(math.log(25) - 0.02 * math.log(2))
    assert lower_bound(10, 5) == lower_bound(10, 0) == lower_bound(2, 1) == 0


@QUICK
@given(st.integers(2, 2000), st.integers(1, 50))
def test_lower_bound_follows_from_fano_when_p_is_even(half, parents):
    """The proof's family: entropy of the difference, at most n p / 2 nats in n rows of each table."""
    p = 2 * half
    assume(2 * parents < p)
    entropy = half * math.log(math.comb(half, parents))
    fano = (entropy / 2 - math.log(2)) / (p / 2)
    assert lower_bound(p, parents) <= max(fano, 0) + 1e-9
    # what two tables tell in nats, a row of each: the trace is at most p
    assert p * math.log(1.5) < p / 2


@QUICK
@given(st.integers(4, 3000), st.integers(1, 40), tolerances, st.floats(1.1, 5))
def test_lower_bounds_grow_with_what_is_to_be_told_apart(p, changes, epsilon, factor):
    base = effect_lower_bound(p, changes, epsilon)
    assert base <= effect_lower_bound(p, changes + 1, epsilon)
    assert base <= effect_lower_bound(p + 2, changes, epsilon) + 1e-9
    assert base <= effect_lower_bound(p, changes, epsilon / factor)
    if changes < p / (2 * math.e):
        assert lower_bound(p, changes) <= lower_bound(p + 1, changes) + 1e-12


def test_no_method_beats_the_lower_bound_for_effects():
    """With one change the best decoder takes the likeliest edge; at the bound it errs half the time or more."""
    p, epsilon = 40, 0.1
    n = math.floor(effect_lower_bound(p, 1, epsilon))
    weight = 2 * epsilon / math.sqrt(1 - 4 * epsilon**2)
    sem = one_edge(weight, p)
    rng = np.random.default_rng(SEED)
    right = 0
    for _ in range(200):
        scatter = sem.sample_moments(n, rng).scatter
        right += np.unravel_index(_likelihoods(scatter, weight, p).argmax(), (p // 2, p // 2)) == (0, 0)
    assert right / 200 <= 0.5


def _likelihoods(scatter, weight, p):
    """Log-likelihood of each edge from an even to an odd variable, up to a constant; X1 -> X2 comes first."""
    causes, effects = np.arange(0, p, 2), np.arange(1, p, 2)
    return weight * scatter[np.ix_(effects, causes)] - weight**2 / 2 * np.diag(scatter)[causes]


# The plan


def test_plan_of_the_papers_brain_data():
    answer = plan(157, 12, samples=1128)
    assert (answer.nonzeros, answer.parents, answer.entry) == (25, 1, 0.2)
    assert answer.lower_theorem4 == pytest.approx(lower_bound(157, 1))
    assert answer.scale[5] == math.floor(math.exp(5) * math.log(157))
    assert list(answer.scale) == list(range(5, 14))
    assert math.exp(answer.exponent) * math.log(157) == pytest.approx(1128)
    text = answer.text()
    assert "157 variables, 12 changes, 1128 rows" in text
    assert "above both" in text
    assert "worst-case" in text
    assert "the theorem is silent here" in text
    assert "No measurement" in text
    assert max(map(len, text.splitlines())) <= 100
    assert json.loads(json.dumps(asdict(answer)))["nonzeros"] == 25


def test_the_verdict_follows_the_rows():
    assert "too few, by Theorem 4" in plan(1000, 500, parents=20, samples=10).text()
    assert "too few if changes" in plan(157, 12, samples=100).text()
    assert "above both" not in plan(157, 12).text()
    assert "C = 5.4" in plan(157, 12, samples=1128).text()


def test_what_was_measured_is_said_as_given():
    text = plan(10, 2, measured="F1 0.99 from 2,525 rows on (table1.csv).").text()
    assert "  F1 0.99 from 2,525 rows on (table1.csv)." in text
    assert "No measurement" not in text


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_every_plan_can_be_told(data):
    p = data.draw(st.integers(2, 5000))
    changes = data.draw(st.integers(1, min(p * (p - 1) // 2, 10**4)))
    samples = data.draw(st.none() | st.integers(2, 10**9))
    epsilon, delta = data.draw(st.floats(1e-4, 0.499)), data.draw(st.floats(1e-9, 0.5))
    answer = plan(p, changes, samples=samples, epsilon=epsilon, delta=delta)
    assert answer.text()
    json.dumps(asdict(answer), allow_nan=False)
    assert 0 <= answer.lower_theorem4 < answer.upper_refined <= answer.upper_theorem3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"p": 1}, "from 2 to 1,000,000"),
        ({"p": 10**8}, "from 2 to 1,000,000"),
        ({"epsilon": 1e-200}, "1e-06 to below 0.5"),
        ({"p": 10.5}, "whole number"),
        ({"changes": 0}, "between 1 and the 45 pairs"),
        ({"changes": True}, "whole number"),
        ({"parents": 4}, "between 1 and 3 here"),
        ({"samples": 1}, "at least 2"),
        ({"epsilon": 0.5}, "below 0.5"),
        ({"epsilon": math.nan}, "below 0.5"),
        ({"delta": 0}, "delta is a probability"),
        ({"nonzeros": 6}, "between 2 changes"),
        ({"entry": -1.0}, "entry must be a positive"),
    ],
)
def test_plan_refuses(arguments, message):
    with pytest.raises(InputError, match=message):
        plan(**({"p": 10, "changes": 3} | arguments))


@pytest.mark.slow
def test_the_page_shows_what_is_printed():
    """Every `>>>` of docs/theory.md is run, and its plan is the one that the command prints."""
    page = ROOT / "docs" / "theory.md"
    content = page.read_text(encoding="utf-8")
    assert plan(157, 12, samples=1128, measured=measured_text()).text() in content
    assert content.count(">>>") > 5
    subprocess.run([sys.executable, "-m", "doctest", str(page)], check=True, capture_output=True, text=True)
