"""PC, GES and MMHC: each graph learned on its own, and what the two do not share."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from diffdag import LinearSEM, Moments, simulate_pair
from diffdag._base.errors import InputError
from diffdag.reproduce.methods import find_method
from diffdag.reproduce.methods.cpdag import PartialGraph, completed, extension
from diffdag.reproduce.methods.gaussian import Gaussian, as_mask, members
from diffdag.reproduce.methods.ges import ges_graph
from diffdag.reproduce.methods.mmhc import ALPHA, climb, mmhc_graph, parents_and_children
from diffdag.reproduce.methods.pc import pc_graph
from diffdag.reproduce.scoring import score

RUNS = {name: find_method(name).run for name in ("pc", "ges", "mmhc") if find_method(name).available}
# Every edge is directed in the whole class of each of the two DAGs, so the difference can be found.
BEFORE = [(0, 2), (1, 2), (2, 3), (3, 4)]
AFTER = [(0, 2), (1, 2), (2, 3), (5, 3)]


def rows(seed, p=6, neighbours=2.5, n=400):
    rng = np.random.default_rng(seed)
    return simulate_pair(p, neighbours=neighbours, rng=rng).first.sample(n, rng)


def table(seed, **options):
    return Gaussian(Moments.from_array(rows(seed, **options)), "first")


def arrows_and_lines(marks):
    """The endpoint matrix of causal-learn as a graph of ours."""
    return (marks == 1) | ((marks == -1) & (marks.T == -1))


def easy_pair(seed):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 1.0, (6, 6)) * rng.choice([-1, 1], (6, 6))
    sems = []
    for edges in (BEFORE, AFTER):
        present = np.zeros((6, 6))
        for j, i in edges:
            present[i, j] = weights[i, j]
        sems.append(LinearSEM(present))
    return sems, rng


@pytest.mark.parametrize("name", RUNS)
def test_an_easy_difference_is_found(name):
    right = 0
    for seed in range(820_600, 820_620):
        (first, second), rng = easy_pair(seed)
        found = RUNS[name](first.sample_moments(50_000, rng), second.sample_moments(50_000, rng))
        right += score(first.weights != second.weights, found).exact
    assert right >= 18


@pytest.mark.parametrize("name", RUNS)
def test_the_same_table_twice_has_no_difference(name):
    moments = Moments.from_array(rows(1, p=8, neighbours=4))
    assert not RUNS[name](moments, moments).any()


@pytest.mark.parametrize("name", RUNS)
def test_units_and_the_order_of_columns_of_the_second_table_do_not_matter(name):
    first, second = rows(2), rows(3)
    names = [f"X{k}" for k in range(1, 7)]
    found = RUNS[name](Moments.from_array(first), Moments.from_array(second))
    turned = Moments.from_array(second[:, ::-1] * [1e-6, 1, 1e5, 1, 3, 1], names[::-1])
    assert (RUNS[name](Moments.from_array(first * 1e4), turned) == found).all()


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda x: x[:7], "first table has 7 rows; .* at least 8"),
        (lambda x: np.column_stack([x[:, :5], x[:, 0] - 2 * x[:, 3]]), "'X1', 'X4' and 'X6' are linearly dep"),
        (lambda x: np.column_stack([x[:, :5], np.full(len(x), 0.1)]), "column 'X6' is constant in the first"),
    ],
)
def test_what_cannot_be_used_is_refused(name, spoil, message):
    good = rows(4)
    with pytest.raises(InputError, match=message):
        RUNS[name](Moments.from_array(spoil(good)), Moments.from_array(good))
    with pytest.raises(InputError, match=message.replace("first", "second")):
        RUNS[name](Moments.from_array(good), Moments.from_array(spoil(good)))


@pytest.mark.parametrize("name", RUNS)
def test_as_few_rows_as_allowed_and_nearly_collinear_columns(name):
    few = Moments.from_array(rows(5)[:8])
    close = rows(6)
    close[:, 5] = close[:, 0] + 1e-5 * close[:, 5]
    found = RUNS[name](few, Moments.from_array(close))
    assert found.shape == (6, 6)
    assert not found.diagonal().any()


def test_fisher_z_and_bic_against_regressions_on_rows():
    data = rows(7)
    ours = Gaussian(Moments.from_array(data), "first")
    centred = data - data.mean(axis=0)
    given = [1, 4, 5]
    beta, *_ = np.linalg.lstsq(centred[:, given], centred[:, [0, 3]], rcond=None)
    rest = centred[:, [0, 3]] - centred[:, given] @ beta
    z = abs(math.atanh(np.corrcoef(rest.T)[0, 1])) * math.sqrt(len(data) - 3 - 3)
    assert ours.fisher_z(0, 3, as_mask(given)) == pytest.approx(z)
    assert ours.fisher_z(3, 0, as_mask(given)) == pytest.approx(z)
    gain = -len(data) / 2 * math.log(rest[:, 0].var() / data[:, 0].var()) - 3 / 2 * math.log(len(data))
    assert ours.bic(0, as_mask(given)) - ours.bic(0, 0) == pytest.approx(gain)


def test_what_was_forgotten_is_worked_out_again(monkeypatch):
    monkeypatch.setattr("diffdag.reproduce.methods.gaussian.REMEMBERED", 5)
    few = table(8)
    forgetful = ges_graph(few), mmhc_graph(few)
    monkeypatch.undo()
    assert (forgetful[0] == ges_graph(table(8))).all()
    assert (forgetful[1] == mmhc_graph(table(8))).all()


# PC


@pytest.mark.parametrize(("neighbours", "n", "alpha"), [(2, 200, 0.05), (3.5, 200, 0.01), (5, 2000, 0.05)])
def test_pc_from_moments_is_pc_of_causal_learn_on_rows(neighbours, n, alpha):
    causal_learn = pytest.importorskip("causallearn.search.ConstraintBased.PC")
    for seed in range(820_620, 820_628):
        data = rows(seed, p=7, neighbours=neighbours, n=n)
        theirs = causal_learn.pc(data, alpha, "fisherz", show_progress=False).G.graph
        ours = pc_graph(Gaussian(Moments.from_array(data), "first"), alpha)
        assert (ours == arrows_and_lines(theirs)).all()


# GES


@pytest.mark.parametrize(("p", "neighbours", "n"), [(5, 2, 50), (7, 3, 400), (7, 5, 5000), (8, 2, 20_000)])
def test_ges_is_ges_of_causal_learn(p, neighbours, n):
    causal_learn = pytest.importorskip("causallearn.search.ScoreBased.GES")
    for seed in range(820_630, 820_638):
        moments = Moments.from_array(rows(seed, p=p, neighbours=neighbours, n=n))
        theirs = causal_learn.ges(cov=moments.covariance(), n=n)["G"].graph
        ours = ges_graph(Gaussian(moments, "first"))
        assert (ours == arrows_and_lines(theirs)).all()


def dags(p):
    """Every DAG over p vertices, as parents."""
    sets = [[mask for mask in range(2**p) if not mask >> y & 1] for y in range(p)]
    return [parents for parents in itertools.product(*sets) if acyclic(parents)]


def acyclic(parents):
    left = set(range(len(parents)))
    while sinks := {y for y in left if not any(parents[y] >> x & 1 for x in left)}:
        left -= sinks
    return not left


def class_of(parents):
    """Skeleton and unshielded colliders (Verma and Pearl 1990)."""
    edges = {frozenset((x, y)) for y, above in enumerate(parents) for x in members(above)}
    colliders = {
        (frozenset(pair), y)
        for y, above in enumerate(parents)
        for pair in itertools.combinations(members(above), 2)
        if frozenset(pair) not in edges
    }
    return frozenset(edges), frozenset(colliders)


def test_classes_of_all_dags_of_four_vertices():
    classes = {}
    for parents in dags(4):
        classes.setdefault(class_of(parents), []).append(PartialGraph(list(parents), [0] * 4).matrix())
    assert (sum(map(len, classes.values())), len(classes)) == (543, 185)
    for graphs in classes.values():
        union = np.any(graphs, axis=0)
        for graph in graphs:
            complete = completed([as_mask(np.flatnonzero(row)) for row in graph])
            assert (complete.matrix() == union).all()
            extended = PartialGraph(extension(complete), [0] * 4).matrix()
            assert any((extended == member).all() for member in graphs)


def test_the_third_rule_of_meek():
    # 0 - 1 -> 3 <- 2 - 0 and 0 - 3: the last has to be 0 -> 3.
    graph = completed([0, 0b0001, 0b0001, 0b0111])
    assert graph.parents == [0, 0, 0, 0b0111]
    assert graph.neighbours == [0b0110, 0b0001, 0b0001, 0]


def test_ges_finds_the_best_of_all_dags_on_many_rows():
    everything = dags(4)
    for seed in range(820_640, 820_650):
        data = table(seed, p=4, neighbours=2, n=100_000)
        best = max(everything, key=lambda parents: total(data, parents))
        assert (ges_graph(data) == completed(best).matrix()).all()


def total(data, parents):
    return sum(data.bic(y, above) for y, above in enumerate(parents))


# MMHC


def max_min_by_the_book(data, target):
    """Parents and children from rows, with p-values of partial correlations and no shortcut."""
    centred = data - data.mean(axis=0)
    n, p = data.shape

    def log_p(x, given):
        ends = centred[:, [target, x]]
        if given:
            ends = ends - centred[:, given] @ np.linalg.lstsq(centred[:, given], ends, rcond=None)[0]
        z = abs(math.atanh(np.corrcoef(ends.T)[0, 1])) * math.sqrt(n - len(given) - 3)
        return math.log(2) + stats.norm.logsf(z)

    def weakest(x, among):
        sets = itertools.chain.from_iterable(itertools.combinations(among, k) for k in range(len(among) + 1))
        return max(log_p(x, list(given)) for given in sets)

    near = []
    while len(near) < p - 1:
        rest = {x: weakest(x, near) for x in range(p) if x not in (target, *near)}
        x = min(rest, key=lambda x: rest[x])
        if rest[x] >= math.log(ALPHA):
            break
        near.append(x)
    for x in list(near):
        others = [y for y in near if y != x]
        if weakest(x, others) >= math.log(ALPHA):
            near = others
    return as_mask(near)


def test_parents_and_children_against_the_book():
    for seed in range(820_650, 820_656):
        data = rows(seed, n=300)
        ours = Gaussian(Moments.from_array(data), "first")
        for target in range(6):
            assert parents_and_children(ours, target) == max_min_by_the_book(data, target)


def test_a_cap_on_sets_lets_more_variables_through():
    dense = table(9, p=9, neighbours=7, n=3000)
    for target in range(9):
        without = parents_and_children(dense, target)
        assert parents_and_children(dense, target, 7) == without
        assert parents_and_children(dense, target, 0).bit_count() >= without.bit_count()


def test_climbing_reaches_the_best_of_all_dags():
    everything = dags(4)
    for seed in range(820_660, 820_670):
        data = table(seed, p=4, neighbours=2.5, n=500)
        best = max(total(data, parents) for parents in everything)
        reached = climb(data, [0b1110, 0b1101, 0b1011, 0b0111])
        assert acyclic(reached)
        assert total(data, reached) == pytest.approx(best, abs=1e-6)


def test_climbing_keeps_to_the_edges_it_may_use():
    data = table(10, p=6, neighbours=4)
    allowed = [0b111110, 0b000001, 0b000001, 0b000001, 0b100001, 0b010001]
    reached = climb(data, allowed)
    assert acyclic(reached)
    assert all(above & ~near == 0 for above, near in zip(reached, allowed, strict=True))
