"""Methods that rank variables: easy data, and references that know nothing of their code."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats

from diffdag import InputError, LinearSEM, Moments
from diffdag.reproduce.methods import all_node_methods, find_node_method
from diffdag.reproduce.methods.gaussian import as_mask, members
from diffdag.reproduce.methods.gnies import NoiseScore, greedy_targets, inner_search, ranked_targets
from diffdag.reproduce.methods.mechanism import Invariance
from diffdag.reproduce.methods.method import Ranking
from diffdag.reproduce.methods.utigsp import PermutationSearch, ut_igsp

NAMES = (
    "order",
    "order-listed",
    "oracle",
    "ut-igsp",
    "gnies",
    "gnies-rank",
    "sd-ratio",
    "shift",
    "baro-max",
    "baro-median",
    "cd-nod",
    "jci-pc",
    "prediter",
)
WEIGHTS = np.zeros((5, 5))
WEIGHTS[1, 0], WEIGHTS[2, 0], WEIGHTS[2, 1], WEIGHTS[3, 2], WEIGHTS[4, 3] = 0.7, 0.5, -0.6, 0.5, 0.6
PARENTS = tuple(as_mask(np.flatnonzero(row)) for row in WEIGHTS)
FIRST = LinearSEM(WEIGHTS)


def drawn(second, n=3000, first=FIRST, seed=7):
    return first.sample(n, rng=seed), second.sample(n, rng=seed + 1)


def changed(target=2, ratio=9.0, moved=3.0):
    """Noise and intercept of one variable changed, much."""
    variances, intercepts = np.ones(5), np.zeros(5)
    variances[target], intercepts[target] = ratio, moved
    return LinearSEM(WEIGHTS, variances, intercepts=intercepts)


def moments(tables):
    return tuple(map(Moments.from_array, tables))


def dags(p):
    """Parents in every DAG on a few vertices, as sets."""
    found = set()
    for order in itertools.permutations(range(p)):
        before = [as_mask(order[:k]) for k in range(p)]
        for chosen in itertools.product(range(1 << p), repeat=p):
            if all(own & ~above == 0 for own, above in zip(chosen, before, strict=True)):
                parents = [0] * p
                for y, own in zip(order, chosen, strict=True):
                    parents[y] = own
                found.add(tuple(parents))
    return sorted(found)


def test_all_are_there_and_say_what_they_are():
    methods = all_node_methods()
    assert set(methods) == set(NAMES)
    assert next(iter(methods)) == "order"
    assert all(method.about for method in methods.values())
    with pytest.raises(InputError, match="no method is called 'dci-c'"):
        find_node_method("dci-c")


@pytest.mark.parametrize("name", NAMES)
def test_one_strong_change_is_named_first(name):
    method = find_node_method(name)
    found = method.rank(*drawn(changed()), PARENTS)
    assert found.order[0] == 2
    assert (found.changed is not None) == method.claims
    assert found.changed is None or found.changed[2]


@pytest.mark.parametrize(
    "name", ["order", "oracle", "ut-igsp", "gnies", "gnies-rank", "cd-nod", "jci-pc", "prediter"]
)
def test_methods_that_look_at_causes_name_no_descendant(name):
    found = find_node_method(name).rank(*drawn(changed()), PARENTS)
    assert np.flatnonzero(found.changed).tolist() == [2]


@pytest.mark.parametrize("name", ["sd-ratio", "shift"])
def test_baselines_name_descendants_too(name):
    found = find_node_method(name).rank(*drawn(changed()), PARENTS)
    assert np.flatnonzero(found.changed).tolist() == [2, 3, 4]


@pytest.mark.parametrize("name", ["order", "oracle", "ut-igsp", "cd-nod", "prediter"])
def test_a_changed_effect_is_a_changed_mechanism(name):
    weights = WEIGHTS.copy()
    weights[2] = 0.0
    found = find_node_method(name).rank(*drawn(LinearSEM(weights)), PARENTS)
    assert found.order[0] == 2
    assert np.flatnonzero(found.changed).tolist() == [2]


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("baro")])
def test_hardly_anything_is_named_where_nothing_changed(name):
    found = find_node_method(name).rank(*drawn(FIRST, seed=11), PARENTS)
    assert found.changed.sum() == 0


def test_ties_keep_the_order_of_the_columns():
    assert Ranking(np.array([0.0, 2.0, 0.0, 2.0])).order == [1, 3, 0, 2]


def test_baro_by_hand():
    first = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 3.0], [3.0, 5.0], [4.0, 5.0]])  # medians 2, 3; IQR 2, 4
    second = np.array([[2.0, 11.0], [3.0, 3.0], [-6.0, 3.0]])
    by_largest, by_median = (
        find_node_method(name).rank(first, second, ()) for name in ("baro-max", "baro-median")
    )
    assert by_largest.scores.tolist() == [4.0, 2.0]
    assert by_median.scores.tolist() == [0.5, 0.0]
    with pytest.raises(InputError, match="interquartile"):
        find_node_method("baro-max").rank(np.ones((4, 1)), second[:, :1], ())


def test_baselines_by_scipy():
    rng = np.random.default_rng(3)
    first, second = rng.standard_normal((40, 30)), rng.standard_normal((25, 30))
    second[:, :4] = 2.5 * second[:, :4] + 2.5
    welch = stats.ttest_ind(first, second, equal_var=False).pvalue
    ratio = first.var(axis=0, ddof=1) / second.var(axis=0, ddof=1)
    fisher = 2 * np.minimum(stats.f.cdf(ratio, 39, 24), stats.f.sf(ratio, 39, 24))
    for name, pvalues in (("shift", welch), ("sd-ratio", fisher)):
        found = find_node_method(name).rank(first, second, ())
        expected = stats.false_discovery_control(pvalues) <= 0.05
        assert found.changed.tolist() == expected.tolist()
        assert found.changed.any()
    shifts = np.abs(first.mean(axis=0) - second.mean(axis=0)) / first.std(axis=0, ddof=1)
    np.testing.assert_allclose(find_node_method("shift").rank(first, second, ()).scores, shifts)
    np.testing.assert_allclose(
        find_node_method("sd-ratio").rank(first, second, ()).scores, np.abs(np.log(ratio)) / 2
    )


def squares(table, target, parents):
    design = np.column_stack([np.ones(len(table)), table[:, parents]])
    return float(np.linalg.lstsq(design, table[:, target], rcond=None)[1][0])


def test_the_regression_test_by_least_squares():
    first, second = drawn(changed(ratio=1.2, moved=0.1), n=60)
    second = second[:45]
    one, two, both = (squares(table, 2, [0, 1]) for table in (first, second, np.vstack([first, second])))
    chow = stats.f.sf((both - one - two) / 3 / ((one + two) / (105 - 6)), 3, 105 - 6)
    ratio = one / 57 / (two / 42)
    fisher = 2 * min(stats.f.cdf(ratio, 57, 42), stats.f.sf(ratio, 57, 42))
    found = Invariance(*moments((first, second))).test(2, 0b011)
    assert found.pvalue == pytest.approx(1 - (1 - min(chow, fisher)) ** 2)
    assert found.evidence == pytest.approx(-math.log(found.pvalue))


def test_pvalues_of_the_regression_test_are_uniform_where_nothing_changed():
    pvalues = []
    for seed in range(300):
        known = Invariance(*moments(drawn(FIRST, n=12, seed=100 + 2 * seed)))
        pvalues += [known.test(target, PARENTS[target]).pvalue for target in (0, 2)]
    assert stats.kstest(pvalues, "uniform").pvalue > 0.01


def test_evidence_goes_on_where_pvalues_end():
    known = Invariance(*moments(drawn(changed(ratio=40.0), n=20_000)))
    one, two = known.test(2, PARENTS[2]), known.test(2, 0)
    assert one.pvalue == 0.0
    assert 745 < one.evidence != two.evidence
    with pytest.raises(InputError, match="cannot be regressed on 4 variables in 5 rows"):
        Invariance(*moments(drawn(FIRST, n=5))).test(4, 0b1111)


@pytest.mark.parametrize("target", [0, 1, 2])
def test_ut_igsp_is_the_sparsest_of_all_permutations(target):
    """Of a chain: every permutation's independence map and targets, by tests of its own."""
    weights = np.zeros((3, 3))
    weights[1, 0], weights[2, 1] = 0.9, -0.8
    variances = np.ones(3)
    variances[target] = 4.0
    tables = drawn(LinearSEM(weights, variances), n=4000, first=LinearSEM(weights))
    best = None
    for order in itertools.permutations(range(3)):
        edges, targets = 0, set()
        for k, y in enumerate(order):
            parents = []
            for x in order[:k]:
                others = [z for z in order[:k] if z != x]
                left = [tables[0][:, v] - _fitted(tables[0], v, others) for v in (x, y)]
                parents += [x] if stats.pearsonr(*left).pvalue < 0.01 else []
            edges += len(parents)
            left = [table[:, y] - _fitted(np.vstack(tables), y, parents, table) for table in tables]
            if stats.ttest_ind(*left).pvalue < 1e-3 or stats.bartlett(*left).pvalue < 1e-3:
                targets.add(y)
        if best is None or edges + len(targets) < best[0]:
            best = edges + len(targets), targets
    found = ut_igsp(*moments(tables))
    assert set(np.flatnonzero(found.changed).tolist()) == best[1] == {target}
    known = PermutationSearch(*moments(tables))
    maps = [known.independence_map(order) for order in itertools.permutations(range(3))]
    assert min(map(known.size, maps)) == best[0]
    assert {known.size(known.search(start)) for start in maps} == {best[0]}


def _fitted(table, target, parents, at=None):
    design = [
        np.column_stack([np.ones(len(own)), own[:, parents]]) for own in (table, table if at is None else at)
    ]
    return design[1] @ np.linalg.lstsq(design[0], table[:, target], rcond=None)[0]


def test_the_score_of_gnies_is_a_maximum():
    """Of the likelihood over shared coefficients, by an optimiser; parameters cost half a log n each."""
    first, second = drawn(changed(ratio=5.0, moved=1.0), n=200)
    score, n = NoiseScore(*moments((first, second))), 400
    scale = math.sqrt(399 * np.var(np.vstack([first, second])[:, 2], ddof=1))

    def negative(b, separate):
        left = [table[:, 2] - table[:, :2] @ b for table in (first, second)]
        if not separate:
            left = [np.concatenate(left)]
        return sum(len(own) / 2 * math.log(np.var(own) / scale**2) for own in left)

    values = {
        kind: optimize.minimize(negative, [0.5, -0.6], args=(kind,), options={"gtol": 1e-8}).fun
        for kind in (False, True)
    }
    expected = values[False] - values[True] - math.log(n)  # two more parameters
    assert score.gain(2, 0b011) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("ratios", [(1, 1, 6), (5, 1, 1), (4, 0.2, 1)])
def test_gnies_finds_the_best_graph_and_targets(ratios):
    """Among all sets of targets and all DAGs on three variables."""
    weights = np.zeros((3, 3))
    weights[1, 0], weights[2, 1], weights[2, 0] = 0.9, -0.8, 0.5
    tables = drawn(LinearSEM(weights, ratios), n=1500, first=LinearSEM(weights))
    score = NoiseScore(*moments(tables))
    best = {}
    for targets in range(8):
        best[targets] = max(
            sum(score(y, own | (targets >> y & 1) << 3 + y) for y, own in enumerate(dag)) for dag in dags(3)
        )
        value, dag = inner_search(score, targets)
        assert value <= best[targets] + 1e-6
        assert all(set(members(own >> 3)) == ({y} if targets >> y & 1 else set()) for y, own in enumerate(dag))
    wanted = sum(1 << k for k, ratio in enumerate(ratios) if ratio != 1)
    assert max(best, key=best.__getitem__) == wanted
    assert inner_search(score, wanted)[0] == pytest.approx(best[wanted], abs=1e-6)
    assert greedy_targets(score)[0] == ranked_targets(score)[0] == wanted


def test_methods_refuse_tables_that_do_not_match():
    one, two = Moments.from_array(np.eye(4)[:, :2]), Moments.from_array(np.eye(4)[:, :3])
    for name in ("shift", "oracle", "ut-igsp", "gnies"):
        with pytest.raises(InputError):
            find_node_method(name).run(one, two, *([(0, 0)] if name == "oracle" else []))
