"""DCI: its tests against regressions on rows, its answers against a literal version, and its limits."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from scipy import stats
from studies import moments, sample_pair

from diffdag import InputError, LinearSEM, Moments, simulate_pair
from diffdag.reproduce.methods import find_method
from diffdag.reproduce.methods.dci import ancestors, difference_graph, orient, skeleton
from diffdag.reproduce.methods.invariance import (
    coefficient_statistics,
    precision_pvalues,
    subsets,
    variance_pvalues,
)
from diffdag.reproduce.scoring import score

NAMES = ("dci-c", "dci-fc", "dci-k")


def drawn(pair, n, seed):
    return moments(*sample_pair(pair, n, seed))


def exact(pair, n=10**8):
    """Moments of which every entry is that of the models."""
    return tuple(
        Moments(sem.names, n, np.zeros(len(sem.names)), sem.covariance() * n)
        for sem in (pair.first, pair.second)
    )


def everything(p):
    return ~np.eye(p, dtype=bool), np.ones(p, bool)


def least_squares(table, target, regressors):
    """Coefficients, their covariance matrix and the residual variance, by QR on rows with an intercept."""
    design = np.column_stack([np.ones(len(table)), *(table[:, k] for k in regressors)])
    beta, rss, *_ = np.linalg.lstsq(design, table[:, target], rcond=None)
    variance = float(rss[0]) / (len(table) - design.shape[1])
    return beta[1:], variance * np.linalg.inv(design.T @ design)[1:, 1:], variance


def coefficient_pvalue(one, two, target, other, given):
    fits = [least_squares(table, target, [other, *given]) for table in (one, two)]
    statistic = (fits[0][0][0] - fits[1][0][0]) ** 2 / (fits[0][1][0, 0] + fits[1][1][0, 0])
    return statistic, stats.f.sf(statistic, 1, len(one) + len(two) - 2 * (len(given) + 2))


def variance_pvalue(one, two, target, given):
    first, second = (least_squares(table, target, given)[2] for table in (one, two))
    spare = len(given) + 1
    below = stats.f.cdf(first / second, len(one) - spare, len(two) - spare)
    return 2 * min(below, 1 - below)


def literal_skeleton(one, two, alpha, max_set_size):
    """Pair by pair, set by set, on rows."""
    p = one.shape[1]
    kept = set()
    for i, j in combinations(range(p), 2):
        rest = [k for k in range(p) if k not in (i, j)]
        sets = [given for size in range(max_set_size + 1) for given in combinations(rest, size)]
        if all(
            coefficient_pvalue(one, two, a, b, given)[1] <= alpha for given in sets for a, b in ((i, j), (j, i))
        ):
            kept.add(frozenset((i, j)))
    return kept


def literal_orientation(one, two, edges, alpha, max_set_size):
    """All sets of a size with their p-values in one list, largest first; graphs by networkx."""
    p = one.shape[1]
    graph = nx.DiGraph()
    graph.add_nodes_from(range(p))
    decided = set()
    for size in range(max_set_size + 2):
        nodes = {k for edge in edges for k in edge} - decided
        tests = [
            (variance_pvalue(one, two, i, given), i, set(given))
            for i in nodes
            for given in combinations([k for k in range(p) if k != i], size)
        ]
        for pvalue, i, given in sorted(tests, key=lambda test: -test[0]):
            near = {k for edge in edges if i in edge for k in edge} - {i}
            if pvalue <= alpha or given & nx.descendants(graph, i) or (near - given) & nx.ancestors(graph, i):
                continue
            trial = graph.copy()
            trial.add_edges_from([(k, i) if k in given else (i, k) for k in near])
            if nx.is_directed_acyclic_graph(trial):
                graph = trial
                decided.add(i)
    answer = nx.to_numpy_array(graph, nodelist=range(p)).T.astype(bool)
    for i, j in map(tuple, edges):
        if not (answer[i, j] or answer[j, i]):
            to_i, to_j = nx.has_path(graph, j, i), nx.has_path(graph, i, j)
            answer[i, j], answer[j, i] = to_i or not to_j, to_j or not to_i
    return answer


def test_coefficient_statistics_are_those_of_regressions_on_rows():
    one, two = sample_pair(simulate_pair(5, neighbours=3, rng=820_200), 60, seed=1)
    two = two[:45] + 3.0
    sets = subsets(5, 2)
    found = coefficient_statistics(Moments.from_array(one), Moments.from_array(two), sets)
    for s, given in enumerate(sets):
        for i, j in ((i, j) for i in range(5) for j in range(5) if i != j):
            if i in given or j in given:
                assert found[s, i, j] == np.inf
            else:
                assert found[s, i, j] == pytest.approx(coefficient_pvalue(one, two, i, j, given)[0], rel=1e-8)


@pytest.mark.parametrize("size", [0, 1, 3])
def test_variance_pvalues_are_those_of_regressions_on_rows(size):
    one, two = sample_pair(simulate_pair(5, neighbours=3, rng=820_201), 60, seed=1)
    two = two[:45]
    sets, nodes = subsets(5, size), np.array([1, 4])
    found = variance_pvalues(Moments.from_array(one), Moments.from_array(two), nodes, sets)
    for s, given in enumerate(sets):
        for k, node in enumerate(nodes):
            expected = 0.0 if node in given else variance_pvalue(one, two, node, given)
            assert found[s, k] == pytest.approx(expected, rel=1e-8, abs=1e-12)


def test_precision_pvalues_by_hand():
    # Precision matrices [[2, 1], [1, 2]] and the identity, 101 and 201 rows, so scatter = 100, 200 covariances.
    first = Moments(("a", "b"), 101, np.zeros(2), 100 * np.array([[2, -1], [-1, 2]]) / 3)
    second = Moments(("a", "b"), 201, np.zeros(2), 200 * np.eye(2))
    pvalues = precision_pvalues(first, second)
    assert pvalues[0, 1] == pytest.approx(stats.f.sf(1 / ((4 + 1) / 101 + 1 / 201), 1, 300))
    assert pvalues[0, 0] == pytest.approx(stats.f.sf(1 / ((4 + 4) / 101 + 2 / 201), 1, 300))


def test_pvalues_are_uniform_where_nothing_changed():
    sem = simulate_pair(4, neighbours=2, rng=820_202).first
    rng = np.random.default_rng(820_203)
    sets = np.array([[3]])
    found = []
    for _ in range(400):
        pair = sem.sample_moments(40, rng), sem.sample_moments(60, rng)
        statistic = coefficient_statistics(*pair, sets)[0, 0, 1]
        variance = variance_pvalues(*pair, np.array([0]), sets)[0, 0]
        found.append([stats.f.sf(statistic, 1, 100 - 6), variance, precision_pvalues(*pair)[0, 1]])
    for pvalues in np.array(found).T:
        assert stats.kstest(pvalues, "uniform").pvalue > 0.001


@pytest.mark.parametrize("seed", range(820_210, 820_218))
@pytest.mark.parametrize("n", [40, 400])
def test_a_literal_version_on_rows_finds_the_same(seed, n):
    one, two = sample_pair(simulate_pair(5, neighbours=3, change=0.3, rng=seed), n, seed=seed)
    first, second = Moments.from_array(one), Moments.from_array(two)
    expected = literal_skeleton(one, two, 0.3, 2)
    edges = skeleton(first, second, everything(5)[0], 0.3, 2)
    assert {frozenset(edge) for edge in np.argwhere(edges).tolist()} == expected
    found = orient(first, second, edges, 0.1, 2)
    np.testing.assert_array_equal(found, literal_orientation(one, two, expected, 0.1, 2))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(820_220, 820_225))
def test_exact_moments_give_the_exact_answer(name, seed):
    pair = simulate_pair(6, neighbours=2, changes=2, weights=(0.5, 1.0), rng=seed)
    np.testing.assert_array_equal(find_method(name).run(*exact(pair)), pair.changed)


@pytest.mark.parametrize(("name", "least"), [("dci-c", 0.95), ("dci-fc", 0.65), ("dci-k", 0.9)])
def test_easy_problems(name, least):
    """With its level of .5 ``dci-fc`` finds the changes and some more; the next test has a usual level."""
    scores, missed = [], 0
    for seed in range(820_100, 820_112):
        pair = simulate_pair(6, neighbours=2, changes=2, rng=seed)
        found = find_method(name).run(*drawn(pair, 50_000, seed))
        missed += int((pair.changed & ~found).sum())
        scores.append(score(pair.changed, found).f1)
    assert np.mean(scores) >= least
    assert missed <= 2


def test_complete_start_with_a_usual_level_is_right_on_easy_problems():
    right = 0
    for seed in range(820_100, 820_112):
        pair = simulate_pair(6, neighbours=2, changes=2, rng=seed)
        found = difference_graph(*drawn(pair, 50_000, seed), *everything(6), alpha_skeleton=0.01)
        right += bool((found == pair.changed).all())
    assert right >= 10


def test_directions_need_equal_noise():
    """A changed weight whose noise changed too: no set leaves an equal variance, so no direction."""
    before, after = np.zeros((2, 2)), np.zeros((2, 2))
    before[1, 0], after[1, 0] = 1.0, -0.5
    pair = LinearSEM(before, [1.0, 1.0]), LinearSEM(after, [3.0, 2.0])
    found = find_method("dci-c").run(*(sem.sample_moments(10_000, rng=k) for k, sem in enumerate(pair)))
    assert found.tolist() == [[False, True], [True, False]]


def test_edges_follow_directed_paths():
    # X1 -> X2 -> X3 and X1 - X3. X2 is told by the variance it keeps; X1 and X3 have other noise each time.
    before, after = np.zeros((3, 3)), np.zeros((3, 3))
    before[1, 0], before[2, 1], before[2, 0] = 1.0, 0.8, 0.7
    after[1, 0], after[2, 1], after[2, 0] = 0.3, -0.6, -0.4
    pair = LinearSEM(before, [1.0, 1.0, 1.0]), LinearSEM(after, [2.0, 1.0, 5.0])
    first, second = (Moments(sem.names, 10**6, np.zeros(3), sem.covariance() * 10**6) for sem in pair)
    found = orient(first, second, everything(3)[0], 0.1, 1)
    np.testing.assert_array_equal(found, after != 0)


def test_ancestors():
    chain = np.zeros((5, 5), bool)
    chain[[1, 2, 3, 4], [0, 1, 2, 3]] = True
    np.testing.assert_array_equal(ancestors(chain), np.tril(np.ones((5, 5), bool), -1))
    assert not ancestors(np.zeros((3, 3), bool)).any()


@pytest.mark.parametrize("name", NAMES)
def test_columns_are_matched_by_name_and_order_does_not_matter(name):
    pair = simulate_pair(6, neighbours=3, changes=3, rng=820_230)
    first, second = drawn(pair, 3_000, seed=1)
    order = [first.names[k] for k in (3, 1, 5, 0, 2, 4)]
    run = find_method(name).run
    expected = run(first, second)
    np.testing.assert_array_equal(run(first, second.select(order)), expected)
    place = [first.names.index(label) for label in order]
    np.testing.assert_array_equal(run(first.select(order), second), expected[np.ix_(place, place)])


@pytest.mark.parametrize("name", NAMES)
def test_two_variables_and_equal_tables(name):
    pair = simulate_pair(2, neighbours=1, changes=1, weights=(0.8, 1.0), rng=820_231)
    assert find_method(name).run(*drawn(pair, 5_000, seed=2)).any()
    one = drawn(pair, 5_000, seed=2)[0]
    assert not find_method(name).run(one, one).any()


@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_used_is_refused(name):
    run = find_method(name).run
    rng = np.random.default_rng(0)
    table = rng.standard_normal((50, 4))
    good = Moments.from_array(table)
    with pytest.raises(InputError, match="linearly dependent in the second table"):
        run(good, Moments.from_array(np.column_stack([table[:, :3], table[:, 0] + table[:, 1]])))
    with pytest.raises(InputError, match="constant in the first table"):
        run(Moments.from_array(np.column_stack([table[:, :3], np.ones(50)])), good)
    with pytest.raises(InputError, match="different columns"):
        run(good, Moments.from_array(table, ["a", "b", "c", "d"]))
    with pytest.raises(InputError, match=r"has 4 rows.* needs at least 5 rows"):
        run(good, Moments.from_array(table[:4]))


def test_fewer_rows_than_variables():
    rng = np.random.default_rng(1)
    first, second = (Moments.from_array(rng.standard_normal((15, 20))) for _ in range(2))
    with pytest.raises(InputError, match=r"15 rows for 20 variables.*use dci-k"):
        find_method("dci-c").run(first, second)
    for name in ("dci-fc", "dci-k"):
        assert find_method(name).run(first, second).shape == (20, 20)
