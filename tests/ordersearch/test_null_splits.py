"""What chance gains on rows is seen, and claims between halves of a table that differ in nothing are rare."""

import numpy as np
import pytest
from scipy.special import ndtri

import diffdag as dd
from diffdag.ordersearch.null_splits import heavy_columns, largest_gains, see_chance
from diffdag.ordersearch.penalty import NONE, Inflation, penalties


def sums(rows):
    wide = np.column_stack([rows, np.ones(len(rows))])
    return wide.T @ wide


def squares(target, columns):
    """Residual sum of squares of a regression."""
    left = target - columns @ np.linalg.lstsq(columns, target, rcond=None)[0]
    return left @ left


def test_gains_are_likelihood_ratios_of_regressions_on_rows():
    rng = np.random.default_rng(1)
    first, second = rng.standard_normal((40, 3)), rng.standard_normal((60, 3))
    order = np.array([2, 0, 1])
    both, one = np.vstack([first, second]), np.repeat([1.0, 0.0], [40, 60])
    effects, variances, intercepts = [], [], []
    for t, i in enumerate(order):
        shared = np.column_stack([np.ones(100), both[:, order[:t]]])
        rss, free = squares(both[:, i], shared), 97 - t

        def gain(column, shared=shared, rss=rss, free=free, i=i):
            left = squares(both[:, i], np.column_stack([shared, column]))
            return free / 2 * np.log(rss / left)

        effects += [gain(one * both[:, j]) for j in order[:t]]
        intercepts.append(gain(one))
        residual = both[:, i] - shared @ np.linalg.lstsq(shared, both[:, i], rcond=None)[0]
        parts = [np.mean(residual[one == k] ** 2) for k in (1, 0)]
        variances.append(
            free / 100 * (100 * np.log(rss / 100) - 40 * np.log(parts[0]) - 60 * np.log(parts[1])) / 2
        )
    found = largest_gains(sums(first)[None], sums(second)[None], order[None])[0]
    np.testing.assert_allclose(found, [max(effects), max(variances), max(intercepts)], rtol=1e-6)


def test_gaussian_rows_inflate_nothing_and_heavy_tails_do():
    quiet = loud = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        root = np.linalg.cholesky(0.5 * np.eye(6) + 0.5)
        normal = [rng.standard_normal((300, 6)) @ root.T for _ in "12"]
        heavy = [rng.standard_t(2.5, (300, 6)) @ root.T for _ in "12"]
        quiet += see_chance(normal, rng).inflation.change < 1.3
        loud += see_chance(heavy, rng).inflation.variance > 2
    assert (quiet, loud) == (6, 6)


def test_more_variables_than_rows_and_columns_that_hardly_vary_are_no_trouble():
    rng = np.random.default_rng(3)
    wide = rng.standard_normal((30, 200))
    rare = (rng.random((200, 5)) < 0.02) * rng.standard_normal((200, 5))
    for table in (wide, rare):
        assert all(1 <= times < np.inf for times in see_chance([table, table], rng).inflation)


def test_heavy_columns_are_named_the_heaviest_first():
    rng = np.random.default_rng(4)
    table = rng.standard_normal((500, 3))
    table[0, 2], table[0, 0] = 40, 15
    assert heavy_columns([table], ["a", "b", "c"]) == ["c", "a"]


def test_penalties_are_multiplied_by_kind():
    plain, times = penalties(100, 200, 5, 5), penalties(100, 200, 5, 5, inflation=Inflation(2, 3, 4))
    np.testing.assert_allclose(times[[0, 1, 3]], plain[[0, 1, 3]] * [[2], [3], [4]])
    np.testing.assert_allclose(times[4], times[0] + times[1] + times[3])


def test_moments_are_taken_for_gaussian_rows():
    pair = dd.simulate_pair(4, neighbours=2, rng=1)
    moments = [dd.Moments.from_array(sem.sample(200, rng=k)) for k, sem in enumerate((pair.first, pair.second))]
    result = dd.DifferenceDAG().fit_moments(*moments).result_
    assert result.settings["penalty_inflation"] == NONE._asdict()


def zeros(rng, n):
    latent = rng.standard_normal((n, 8)) @ np.linalg.cholesky(0.6 * np.eye(8) + 0.4).T
    return np.maximum(latent - ndtri(0.8), 0) * np.exp(0.5 * rng.standard_normal((n, 8)))


@pytest.mark.slow
@pytest.mark.parametrize("draw", [zeros, lambda rng, n: rng.standard_t(3, (n, 8)) @ np.tri(8)])
def test_halves_that_differ_in_nothing_show_nothing(draw):
    claims = 0
    for seed in range(30):
        rng = np.random.default_rng([61, seed])
        result = dd.DifferenceDAG().fit(draw(rng, 300), draw(rng, 300)).result_
        lists = result.edge_list, result.gain_list, result.noise_list, result.mean_list
        claims += any(map(bool, lists))
    assert claims <= 4  # 7 %, and chance


def test_a_rare_answer_is_advised_to_be_left_out():
    rng = np.random.default_rng(0)
    tables = [np.column_stack([rng.standard_normal((600, 3)), rng.random(600) < rare]) for rare in (0.02, 0.03)]
    notes = dd.DifferenceDAG().fit(*tables).result_.notes
    assert any("many zeros in 'X4'" in note and "of a rare yes or no, leaving it out" in note for note in notes)
