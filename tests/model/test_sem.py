"""Linear structural equation models and the generator of random pairs."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from diffdag import InputError, LinearSEM, simulate_pair
from diffdag.model.sem import causal_order
from diffdag.model.simulate import assumption_epsilon


def random_sem(seed: int, p: int = 6, noise: str = "gaussian") -> LinearSEM:
    """A dense model with unequal noise variances, labels permuted."""
    rng = np.random.default_rng(seed)
    label = rng.permutation(p)
    weights = np.zeros((p, p))
    weights[np.ix_(label, label)] = np.tril(rng.uniform(-1, 1, (p, p)), -1)
    return LinearSEM(weights, rng.uniform(0.3, 2.0, p), noise=noise)


def partial_correlation(sigma: np.ndarray, i: int, j: int, given: list[int]) -> float:
    """Correlation of what is left of i and j after regression on the variables given."""
    left = sigma[np.ix_([i, j], [i, j])]
    if given:
        on = sigma[np.ix_([i, j], given)]
        left = left - on @ np.linalg.solve(sigma[np.ix_(given, given)], on.T)
    return left[0, 1] / np.sqrt(left[0, 0] * left[1, 1])


def brute_force_epsilon(pair) -> float:
    """Assumption 3 (ii) of the paper, word for word, over all subsets; 0 if nothing changed."""
    first, second = pair.first, pair.second
    p = len(first.names)
    changes = [(i, j) for i in range(p) for j in range(p) if first.weights[i, j] != second.weights[i, j]]
    sigmas = []
    for sem in (first, second):
        total = np.linalg.inv(np.eye(p) - sem.weights)
        sigmas.append(total @ np.diag(sem.noise_variances) @ total.T)
    smallest = np.inf if changes else 0.0
    for size in range(2, p + 1):
        for members in combinations(range(p), size):
            if any(i in members and j not in members for i, j in changes):
                continue  # not closed under parents in the difference DAG
            for i, j in changes:
                if i in members and j in members:
                    given = [k for k in members if k not in (i, j)]
                    before, after = (partial_correlation(sigma, i, j, given) for sigma in sigmas)
                    smallest = min(smallest, abs(before - after) / 2)
    return smallest


def same_pair(a, b) -> bool:
    return all(
        np.array_equal(x.weights, y.weights) and np.array_equal(x.noise_variances, y.noise_variances)
        for x, y in ((a.first, b.first), (a.second, b.second))
    )


# LinearSEM


def test_precision_and_covariance_follow_their_definitions():
    sem = random_sem(0, p=7)
    rest, noise = np.eye(7) - sem.weights, np.diag(sem.noise_variances)
    np.testing.assert_allclose(sem.precision(), rest.T @ np.linalg.inv(noise) @ rest, atol=1e-12)
    total = np.linalg.inv(rest)
    np.testing.assert_allclose(sem.covariance(), total @ noise @ total.T, atol=1e-12)
    np.testing.assert_allclose(sem.root_precision().T @ sem.root_precision(), sem.precision(), atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_covariance_is_the_inverse_of_the_precision(seed):
    sem = random_sem(seed, p=8)
    np.testing.assert_allclose(sem.covariance() @ sem.precision(), np.eye(8), atol=1e-10)


def test_weights_are_effects_of_columns_on_rows():
    sem = LinearSEM([[0, 0], [3, 0]], noise_variances=[2, 5])  # X2 = 3 X1 + e2
    np.testing.assert_allclose(sem.covariance(), [[2, 6], [6, 23]])
    np.testing.assert_allclose(sem.precision(), [[0.5 + 9 / 5, -3 / 5], [-3 / 5, 1 / 5]])


def test_samples_have_the_covariance_of_the_model():
    sem, n = random_sem(1), 200_000
    sample = sem.sample(n, rng=5)
    sigma = sem.covariance()
    variance = np.diag(sigma)
    assert (np.abs(sample.mean(axis=0)) < 5 * np.sqrt(variance / n)).all()
    error = np.sqrt((np.outer(variance, variance) + sigma**2) / n)  # of a Gaussian sample covariance
    assert (np.abs(np.cov(sample, rowvar=False) - sigma) < 5 * error).all()


def with_intercepts(seed: int) -> LinearSEM:
    sem = random_sem(seed)
    return LinearSEM(sem.weights, sem.noise_variances, intercepts=np.random.default_rng(seed).normal(size=6))


def test_the_mean_follows_from_the_intercepts():
    sem = with_intercepts(11)
    mean = sem.mean()
    np.testing.assert_allclose(mean, sem.intercepts + sem.weights @ mean, atol=1e-12)
    assert np.abs(mean).max() > 0.5
    plain = LinearSEM(sem.weights, sem.noise_variances)
    assert plain.intercepts.tolist() == plain.mean().tolist() == [0.0] * 6
    np.testing.assert_array_equal(sem.covariance(), plain.covariance())


def test_samples_and_their_moments_have_the_mean_of_the_model():
    sem = with_intercepts(12)
    n = 40_000
    error = np.sqrt(np.diag(sem.covariance()) / n)
    assert (np.abs(sem.sample(n, 5).mean(axis=0) - sem.mean()) < 4.5 * error).all()
    assert (np.abs(sem.sample_moments(n, 5).mean - sem.mean()) < 4.5 * error).all()
    plain = LinearSEM(sem.weights, sem.noise_variances)
    np.testing.assert_allclose(sem.sample(50, 6), plain.sample(50, 6) + sem.mean(), atol=1e-12)
    one, other = (model.sample_moments(50, 6) for model in (sem, plain))
    np.testing.assert_allclose(one.mean, other.mean + sem.mean(), atol=1e-12)
    np.testing.assert_allclose(one.scatter, other.scatter)


def test_what_the_causes_leave_is_independent_noise():
    sem, n = random_sem(2), 100_000
    sample = sem.sample(n, rng=6)
    noise = sample - sample @ sem.weights.T
    expected = np.diag(sem.noise_variances)
    error = np.sqrt((np.outer(sem.noise_variances, sem.noise_variances) + expected**2) / n)
    assert (np.abs(np.cov(noise, rowvar=False) - expected) < 5 * error).all()


def test_samples_are_reproducible():
    sem = random_sem(3)
    sample = sem.sample(20, rng=9)
    np.testing.assert_array_equal(sample, sem.sample(20, rng=9))
    np.testing.assert_array_equal(sample, sem.sample(20, rng=np.random.default_rng(9)))
    assert not np.array_equal(sample, sem.sample(20, rng=10))
    generator = np.random.default_rng(9)
    assert not np.array_equal(sem.sample(20, rng=generator), sem.sample(20, rng=generator))


@pytest.mark.parametrize(
    ("noise", "law", "kurtosis"),
    [
        ("gaussian", stats.norm(), 0.0),
        ("uniform", stats.uniform(-np.sqrt(3), 2 * np.sqrt(3)), -1.2),
        ("laplace", stats.laplace(scale=np.sqrt(0.5)), 3.0),
        ("student", stats.t(5, scale=np.sqrt(3 / 5)), 6.0),
    ],
)
def test_noise_has_unit_variance_and_the_right_shape(noise, law, kurtosis):
    assert law.var() == pytest.approx(1)
    assert law.stats(moments="k") == pytest.approx(kurtosis)
    values = LinearSEM(np.zeros((1, 1)), noise=noise).sample(200_000, rng=11)[:, 0]
    assert np.var(values) == pytest.approx(1, abs=0.03)
    # The fourth moment of Student's t with 5 degrees of freedom converges too slowly to ask for more.
    assert stats.kurtosis(values) == pytest.approx(kurtosis, abs=0.15 if noise != "student" else 3.5)
    assert stats.kstest(values, law.cdf).pvalue > 1e-3


def test_noise_variances_scale_every_shape():
    for noise in ("gaussian", "uniform", "laplace", "student"):
        values = LinearSEM(np.zeros((2, 2)), [4, 0.25], noise=noise).sample(100_000, rng=3)
        np.testing.assert_allclose(values.var(axis=0), [4, 0.25], rtol=0.06)


@pytest.mark.parametrize("seed", range(3))
def test_precision_over_a_subset_is_a_schur_complement(seed):
    # Lemma 1 of the paper: leaving out variables leaves a Gaussian with this precision.
    sem = random_sem(seed)
    omega, sigma = sem.precision(), sem.covariance()
    for size in range(1, 6):
        for kept in combinations(range(6), size):
            out = [k for k in range(6) if k not in kept]
            cross = omega[np.ix_(kept, out)]
            schur = omega[np.ix_(kept, kept)] - cross @ np.linalg.solve(omega[np.ix_(out, out)], cross.T)
            np.testing.assert_allclose(schur, np.linalg.inv(sigma[np.ix_(kept, kept)]), atol=1e-9)


def test_leaving_out_a_sink_leaves_the_other_equations():
    sem = random_sem(4)
    kept = sorted(sem.order[:-1])
    rest = LinearSEM(sem.weights[np.ix_(kept, kept)], sem.noise_variances[kept])
    np.testing.assert_allclose(rest.covariance(), sem.covariance()[np.ix_(kept, kept)], atol=1e-12)


def test_causal_order_puts_causes_first():
    for seed in range(20):
        sem = random_sem(seed, p=9)
        place = {node: k for k, node in enumerate(sem.order)}
        assert sorted(place) == list(range(9))
        assert all(place[j] < place[i] for i, j in np.argwhere(sem.weights))
    assert causal_order(np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], bool)) == (2, 1, 0)


def test_names_are_the_users_or_numbered():
    assert LinearSEM(np.zeros((3, 3))).names == ("X1", "X2", "X3")
    assert LinearSEM(np.zeros((2, 2)), names=["Raf", "Mek"]).names == ("Raf", "Mek")


def test_the_model_keeps_its_own_copy():
    weights, variances = np.array([[0.0, 0.0], [0.5, 0.0]]), np.array([1.0, 2.0])
    intercepts = np.array([1.0, 2.0])
    sem = LinearSEM(weights, variances, intercepts=intercepts)
    weights[1, 0] = variances[0] = intercepts[0] = 7.0
    assert sem.weights[1, 0] == 0.5
    assert sem.noise_variances[0] == 1.0
    assert sem.intercepts[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        sem.intercepts[0] = 3.0
    with pytest.raises(ValueError, match="read-only"):
        sem.weights[1, 0] = 3.0
    with pytest.raises(ValueError, match="read-only"):
        sem.effects.data[0] = 3.0
    with pytest.raises(ValueError, match="read-only"):
        sem.effects[1, 0] = 3.0


def test_changed_entries_are_the_places_where_the_weights_differ():
    pair = simulate_pair(p=12, neighbours=4, change=0.3, rng=840_301)
    expected = np.nonzero(pair.first.weights != pair.second.weights)
    assert len(expected[0]) > 5
    for found, wanted in zip(pair.changed_entries, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


ZEROS = np.zeros((2, 2))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"weights": [[0, 1], [1, 0]]}, "cycle"),
        ({"weights": [[0.5, 0], [0, 0]]}, "cycle"),
        ({"weights": [[0, 1, 0], [0, 0, 1], [1, 0, 0]]}, "cycle"),
        ({"weights": np.zeros((2, 3))}, r"square.*\(2, 3\)"),
        ({"weights": np.zeros((0, 0))}, "square"),
        ({"weights": np.zeros(4)}, "2-dimensional"),
        ({"weights": [[0, 1], [0]]}, "numbers"),
        ({"weights": [["0", "x"], ["0", "0"]]}, "numbers"),
        ({"weights": [[0, np.nan], [0, 0]]}, "finite"),
        ({"weights": ZEROS, "noise_variances": [1, 0]}, "2 positive"),
        ({"weights": ZEROS, "noise_variances": [1, -1]}, "2 positive"),
        ({"weights": ZEROS, "noise_variances": [1, np.inf]}, "finite"),
        ({"weights": ZEROS, "noise_variances": [1, 1, 1]}, "2 positive"),
        ({"weights": ZEROS, "noise_variances": [[1, 1]]}, "1-dimensional"),
        ({"weights": ZEROS, "intercepts": [1, 1, 1]}, "2 numbers"),
        ({"weights": ZEROS, "intercepts": [1, np.nan]}, "finite"),
        ({"weights": ZEROS, "intercepts": [[1, 1]]}, "1-dimensional"),
        ({"weights": ZEROS, "names": ["a"]}, "2 different names"),
        ({"weights": ZEROS, "names": ["a", "a"]}, "2 different names"),
        ({"weights": ZEROS, "noise": "cauchy"}, "'cauchy'"),
    ],
)
def test_bad_models_are_refused(arguments, says):
    with pytest.raises(InputError, match=says):
        LinearSEM(**arguments)


@pytest.mark.parametrize("n", [0, -3])
def test_at_least_one_row_is_drawn(n):
    with pytest.raises(InputError, match=str(n)):
        LinearSEM(ZEROS).sample(n)


# simulate_pair


def test_pairs_are_reproducible():
    def draw(rng):
        return simulate_pair(
            8, neighbours=3, change=0.2, variances=(0.5, 2.0), variances_drawn="per-condition", rng=rng
        )

    assert same_pair(draw(4), draw(4))
    assert same_pair(draw(4), draw(np.random.default_rng(4)))
    assert not same_pair(draw(4), draw(5))
    generator = np.random.default_rng(4)
    assert not same_pair(draw(generator), draw(generator))


def test_numbers_of_edges_and_changes_are_as_asked():
    p, neighbours, change, draws = 20, 6, 0.05, 200
    rng = np.random.default_rng(0)
    pairs = [simulate_pair(p, neighbours=neighbours, change=change, rng=rng) for _ in range(draws)]
    possible, share = p * (p - 1) / 2, neighbours / (p - 1)
    after = share * (1 - change) + (1 - share) * change
    for counts, probability in [
        ([np.count_nonzero(pair.first.weights) for pair in pairs], share),
        ([np.count_nonzero(pair.second.weights) for pair in pairs], after),
        ([len(pair.edges) for pair in pairs], change),
    ]:
        error = np.sqrt(possible * probability * (1 - probability) / draws)
        assert abs(np.mean(counts) - possible * probability) < 4 * error
        assert np.std(counts) == pytest.approx(error * np.sqrt(draws), rel=0.25)


@pytest.mark.parametrize("changes", [0, 1, 5, 28])
def test_an_exact_number_of_changes(changes):
    for seed in range(5):
        pair = simulate_pair(8, neighbours=3, changes=changes, rng=seed)
        assert len(pair.edges) == np.count_nonzero(pair.first.weights - pair.second.weights) == changes


def test_edges_of_a_pair_name_source_and_target():
    pair = simulate_pair(6, neighbours=2, changes=3, rng=1)
    names = pair.first.names
    for source, target in pair.edges:
        i, j = names.index(target), names.index(source)
        assert pair.first.weights[i, j] != pair.second.weights[i, j]
    assert len(pair.edges) == 3


def test_weights_lie_in_the_range_with_both_signs():
    rng = np.random.default_rng(1)
    for low, high, options in [(0.25, 1.0, {}), (2.0, 3.0, {"weights": (2.0, 3.0)})]:
        pairs = [simulate_pair(10, neighbours=6, change=0.3, rng=rng, **options) for _ in range(40)]
        values = np.concatenate([s.weights[s.weights != 0] for q in pairs for s in (q.first, q.second)])
        size = np.abs(values)
        assert low <= size.min() < low + 0.05 * (high - low)
        assert high - 0.05 * (high - low) < size.max() <= high
        assert size.mean() == pytest.approx((low + high) / 2, abs=0.03)
        assert np.mean(values > 0) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("seed", range(10))
def test_changes_add_or_delete_edges_and_keep_the_union_acyclic(seed):
    pair = simulate_pair(10, neighbours=5, change=0.3, rng=seed)
    first, second = pair.first.weights, pair.second.weights
    both = (first != 0) & (second != 0)
    assert both.any()
    np.testing.assert_array_equal(first[both], second[both])
    assert ((first == 0) & (second != 0)).any()
    assert ((first != 0) & (second == 0)).any()
    union = ((first != 0) | (second != 0)).astype(int)
    assert not np.linalg.matrix_power(union, 10).any()


def test_labels_are_permuted():
    rng = np.random.default_rng(2)
    pairs = [simulate_pair(10, neighbours=6, rng=rng) for _ in range(200)]
    upward = [np.mean(np.subtract(*np.nonzero(pair.first.weights)) > 0) for pair in pairs]
    assert np.mean(upward) == pytest.approx(0.5, abs=0.05)
    assert np.std(upward) > 0.1


def test_variances_are_shared_or_drawn_for_each_condition():
    allowed = (0.7, 1.0, 1.3)
    rng = np.random.default_rng(3)
    for drawn, agree in [("shared", 1.0), ("per-condition", 1 / 3)]:
        pairs = [
            simulate_pair(10, neighbours=2, variances=allowed, variances_drawn=drawn, rng=rng)
            for _ in range(100)
        ]
        first = np.array([pair.first.noise_variances for pair in pairs])
        second = np.array([pair.second.noise_variances for pair in pairs])
        for values in (first, second):
            assert set(np.unique(values)) == set(allowed)
            assert [np.mean(values == v) for v in allowed] == pytest.approx([1 / 3] * 3, abs=0.06)
        assert np.mean(first == second) == pytest.approx(agree, abs=0.06 if agree < 1 else 0)


def test_noise_is_equal_and_gaussian_unless_asked():
    pair = simulate_pair(4, neighbours=2, rng=0)
    assert (pair.first.noise_variances == 1).all()
    assert (pair.second.noise_variances == 1).all()
    assert pair.first.noise == pair.second.noise == "gaussian"
    pair = simulate_pair(4, neighbours=2, noise="laplace", rng=0)
    assert pair.first.noise == pair.second.noise == "laplace"


@pytest.mark.parametrize("seed", range(12))
def test_epsilon_of_assumption_3_against_brute_force(seed):
    pair = simulate_pair(
        6, neighbours=3, changes=1 + seed % 4, variances=(0.5, 1, 2), variances_drawn="per-condition", rng=seed
    )
    assert assumption_epsilon(pair) == pytest.approx(brute_force_epsilon(pair), rel=1e-8)


def test_without_changes_epsilon_is_infinite():
    assert assumption_epsilon(simulate_pair(4, neighbours=2, changes=0, rng=0)) == np.inf


def test_the_filter_returns_the_first_pair_that_satisfies_assumption_3():
    options = {"neighbours": 4, "change": 0.3}
    rejected = 0
    for seed in range(5):
        unfiltered = np.random.default_rng(seed)
        pairs = (simulate_pair(6, rng=unfiltered, **options) for _ in range(40))
        tries, expected = next((k, pair) for k, pair in enumerate(pairs) if brute_force_epsilon(pair) >= 0.1)
        filtered = simulate_pair(6, min_epsilon=0.1, rng=seed, max_tries=40, **options)
        assert same_pair(filtered, expected)
        rejected += tries
        assert expected.edges
    assert rejected > 10


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"min_epsilon": 0.99}, ">= 0.99 in 30 tries"),
        ({"min_epsilon": 1.01}, "at most 1; it is 1.01"),
        ({"min_epsilon": float("nan")}, "at most 1; it is nan"),
        ({"min_epsilon": 0.01, "changes": 0}, "no change was asked for"),
        ({"min_epsilon": 0.01, "p": 21}, "p = 21 is more than"),
    ],
)
def test_an_impossible_filter_gives_up(options, says):
    with pytest.raises(InputError, match=says):
        simulate_pair(**({"p": 5, "neighbours": 2, "rng": 0, "max_tries": 30} | options))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"p": 1}, "p must be at least 2; it is 1"),
        ({"p": 2.5}, "p must be a whole number; it is 2.5"),
        ({"changes": 1.5}, "changes must be a whole number; it is 1.5"),
        ({"neighbours": 5}, "neighbours.*4; it is 5"),
        ({"neighbours": -1}, "neighbours.*it is -1"),
        ({"change": 1.5}, "change.*1.5"),
        ({"change": np.nan}, "change.*nan"),
        ({"changes": 11}, "changes.*10 pairs.*it is 11"),
        ({"changes": -1}, "changes.*it is -1"),
        ({"weights": (0.0, 1.0)}, "weights"),
        ({"weights": (1.0, 0.5)}, "weights"),
        ({"variances": ()}, "variances"),
        ({"variances": (1.0, 0.0)}, "variances"),
        ({"variances_drawn": "both"}, "'both'"),
        ({"noise": "cauchy"}, "'cauchy'"),
    ],
)
def test_bad_simulations_are_refused(options, says):
    with pytest.raises(InputError, match=says):
        simulate_pair(**({"p": 5, "neighbours": 2, "rng": 0} | options))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"neighbours": "x"}, "neighbours"),
        ({"neighbours": 2, "change": "x"}, "change"),
        ({"neighbours": 2, "weights": 3}, "weights"),
        ({"neighbours": 2, "weights": (0.1, 0.2, 0.3)}, "weights"),
        ({"neighbours": 2, "variances": 0}, "variances"),
        ({"neighbours": 2, "min_epsilon": "x"}, "min_epsilon"),
        ({"neighbours": 2, "max_tries": "x"}, "max_tries"),
        ({"neighbours": 2, "rng": "x"}, "rng"),
    ],
)
def test_options_of_any_kind_are_refused_in_words(options, says):
    with pytest.raises(InputError, match=says):
        simulate_pair(4, **options)


@pytest.mark.parametrize(("n", "rng", "says"), [("5", 0, "n"), (2.5, 0, "n"), (True, 0, "n"), (5, "x", "rng")])
def test_rows_are_a_whole_number_and_seeds_are_seeds(n, rng, says):
    model = LinearSEM([[0, 0], [1, 0]])
    for draw in (model.sample, model.sample_moments):
        with pytest.raises(InputError, match=f"^{says}"):
            draw(n, rng=rng)
