"""What the order search promises, measured on samples; benchmarks/order.py measures larger settings too."""

import numpy as np
import pytest

from diffdag import DifferenceDAG, InputError, LinearSEM, Moments, simulate_pair
from diffdag.pipeline import ModelOptions, prepare_moments, search

pytestmark = pytest.mark.slow
SEED = 780_000


def draw(k, p, neighbours, n, **options):
    rng = np.random.default_rng([SEED, p, n, k])
    pair = simulate_pair(p, neighbours=neighbours, rng=rng, **options)
    return pair, [Moments.from_array(model.sample(n, rng)) for model in (pair.first, pair.second)]


def edges_of(moments):
    """The edges of a fit, without the checks, which take as long as the search."""
    options = ModelOptions()
    return search(prepare_moments(*moments, options), options).difference.edge_list


def accuracy(pairs, *setting, **options):
    """Mean directed F1 and share of exact answers; an undirected edge is claimed, and never found."""
    scores = []
    for k in range(pairs):
        pair, moments = draw(k, *setting, **options)
        edges = edges_of(moments)
        found = {(edge.source, edge.target) for edge in edges if edge.directed} & pair.edges
        total = len(pair.edges) + len(edges)
        scores.append((2 * len(found) / total if total else 1.0, len(found) == len(pair.edges) == len(edges)))
    return np.mean(scores, axis=0)


@pytest.mark.parametrize(
    ("n", "pairs", "f1", "exact"), [(341, 150, 0.88, 0.65), (2525, 30, 0.98, 0.9), (18658, 30, 0.995, 0.97)]
)
def test_dense_models_of_ten_variables(n, pairs, f1, exact):
    assert (accuracy(pairs, 10, 6, n) >= (f1, exact)).all()


@pytest.mark.parametrize("spread", [0.1, 0.3, 0.5])
def test_noise_variances_may_differ(spread):
    variances = (1 - spread, 1, 1 + spread)
    assert accuracy(12, 8, 5, 18658, variances=variances, variances_drawn="per-condition")[0] >= 0.93


def test_thirty_variables():
    assert accuracy(4, 30, 20, 1000, change=0.02)[0] >= 0.95


@pytest.mark.parametrize("n", [100, 1000])
def test_nothing_changed_nothing_found(n):
    alarms = 0
    for k in range(120):
        _, moments = draw(k, 10, 6, n, change=0)
        alarms += bool(edges_of(moments))
    assert alarms <= 12  # 5 %, and chance


# Corners in which it once failed


def test_a_large_change_in_a_small_table_is_not_taken_for_noise():
    missed = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        small, large = rng.standard_normal((12, 4)), rng.standard_normal((400, 4))
        small[:, 1] = small[:, 0] + 0.05 * small[:, 1]
        missed += not DifferenceDAG().fit(small, large).result_.edge_list
    assert missed == 0


@pytest.mark.parametrize(("n", "p"), [(20, 60), (4, 100)])
def test_screening_always_leaves_something_to_order(n, p):
    rng = np.random.default_rng(1)
    table = rng.standard_normal((n, p))
    assert DifferenceDAG().fit(table, table).result_.edge_list == ()
    result = DifferenceDAG().fit(table, rng.standard_normal((n, p))).result_
    assert len(result.settings["search_order"]) >= 2


def test_models_too_close_to_singular_are_refused():
    weights = np.diag(np.full(7, 10.0), -1)
    other = weights.copy()
    other[3, 2] = 5
    with pytest.raises(InputError, match="too close to singular"):
        DifferenceDAG().fit_population(LinearSEM(weights), LinearSEM(other))


def test_a_given_order_against_the_models_gives_weights_of_regressions():
    first, second = (LinearSEM([[0, 0], [weight, 0]], names=["a", "b"]) for weight in (1.0, 0.2))
    (edge,) = DifferenceDAG(order=["b", "a"]).fit_population(first, second).result_.edge_list
    assert (edge.source, edge.target, edge.change) == ("b", "a", "weakened")
    assert (edge.weight_first, edge.weight_second) == pytest.approx((0.5, 0.2 / 1.04), rel=1e-6)


@pytest.mark.parametrize("rng", [-1, "a", 1.5, True])
def test_a_seed_that_is_none_is_refused(rng):
    table = np.random.default_rng(0).standard_normal((30, 3))
    with pytest.raises(InputError, match="rng must be"):
        DifferenceDAG(rng=rng).fit(table, table[::-1])
