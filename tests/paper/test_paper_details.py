"""Algorithm 1, part by part: limits that are just reached, formulas against their definitions, words."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from studies import sample_pair

from diffdag import DifferenceDAG, LinearSEM, Moments, precision_difference, simulate_pair
from diffdag.model.regression import regress
from diffdag.paper import differences as module
from diffdag.paper import elimination
from diffdag.paper import fit as answers
from diffdag.paper.algorithm1 import compute_order, difference_graph, largest_size, orient_edges, prune
from diffdag.paper.defaults import default_threshold
from diffdag.paper.differences import Differences, ExactDifferences, SampleDifferences
from diffdag.paper.elimination import _root, entries_after, leave_out, prune_by_elimination, refine
from diffdag.paper.graph import DifferenceGraph, EdgeSet
from diffdag.precision.problem import standardise
from diffdag.results.records import ABSENT_ERRORS, Edge

NONE: frozenset = frozenset()


class Table(Differences):
    """Differences looked up by their members; the identity where there is none."""

    def __init__(self, p, table=()):
        super().__init__(p)
        self.table = {tuple(members): np.array(matrix, float) for members, matrix in dict(table).items()}

    def _compute(self, members):
        return self.table.get(members, np.eye(len(members)))


def graph_of(directed=(), undirected=(), layers=(), rest=(), invariant=(), size=1, complete=True):
    return DifferenceGraph(
        tuple(invariant),
        tuple(layers),
        tuple(rest),
        EdgeSet(frozenset(directed), frozenset(undirected)),
        size,
        complete,
    )


def tables(seed, p, n1, n2, **options):
    pair = simulate_pair(p, neighbours=2, changes=2, rng=seed, **options)
    return sample_pair(pair, (n1, n2), seed + 1)


# Limits that are just reached


@pytest.mark.parametrize(("p", "size", "complete"), [(1, 0, True), (2, 0, True), (3, 1, True), (12, 10, True)])
def test_every_set_is_looked_at_where_few_take_part(p, size, complete):
    graph = difference_graph(Table(p), 0.5)
    assert (graph.prune_size, graph.complete) == (size, complete)


def test_small_sets_are_looked_at_where_many_take_part():
    graph = difference_graph(Table(13), 0.5)
    assert (graph.prune_size, graph.complete) == (3, False)  # 1 + 13 + 78 + 286 sets are at most 500
    assert (graph.rest, graph.invariant, graph.layers) == (tuple(range(13)), (), ())
    sizes = [difference_graph(Table(p), 0.5).prune_size for p in (499, 500)]
    assert sizes == [1, 0]  # at most 500 sets, that of none counted
    # 12 variables of 13 take part: those that do count.
    delta = np.diag([0.0, *[1.0] * 12])
    graph = difference_graph(Table(13, {range(13): delta}), 0.5)
    assert (graph.prune_size, graph.complete, graph.invariant) == (10, True, (0,))


def test_nothing_takes_part_where_nothing_exceeds_the_threshold():
    graph = difference_graph(Table(3, {range(3): np.full((3, 3), -0.5)}), 0.5)
    assert graph == graph_of(invariant=(0, 1, 2), size=0)
    assert difference_graph(Table(3, {range(3): np.full((3, 3), -0.5)}), 0.499).invariant == ()


def test_entries_of_the_size_of_the_threshold_are_zero():
    assert compute_order(Table(2, {(0, 1): np.diag([-0.5, 0.6])}), [1, 0], 0.5) == (((0,), (1,)), ())
    # With equal noise the smallest diagonal is taken for zero; the threshold, where it is larger.
    source = Table(3, {range(3): np.diag([0.6, -0.7, 0.9])})
    assert compute_order(source, range(3), 0.5) == ((), (0, 1, 2))
    assert compute_order(source, range(3), 0.5, equal_noise=True)[0][0] == (0,)
    assert compute_order(source, range(3), 0.8, equal_noise=True)[0][0] == (0, 1)
    source = Table(2, {(0, 1): [[0.0, -0.5], [-0.5, 1.0]]})
    assert orient_edges(source, [0, 1], ((0,), (1,)), (), 0.5) == EdgeSet(NONE, NONE)
    assert orient_edges(source, [0, 1], ((0,), (1,)), (), 0.4).directed == {(0, 1)}


@pytest.mark.parametrize(("value", "kept"), [(-0.5, False), (0.500001, True)])
def test_an_edge_goes_if_its_entry_vanishes_without_some_others(value, kept):
    # Only over {2, 3, 4}, without both 0 and 1, may entry (2, 4) vanish; 3 may not be left out.
    matrices = {members: np.ones((len(members),) * 2) for members in ((1, 2, 3, 4), (0, 2, 3, 4), (2, 3, 4))}
    matrices[2, 3, 4][0, 2] = matrices[2, 3, 4][2, 0] = value
    edges = EdgeSet(frozenset({(2, 4)}), NONE)
    layers = ((0, 1), (2,), (3, 4))
    source = Table(5, matrices)
    assert bool(prune(edges, source, range(5), layers, (), 0.5, 2).directed) == kept
    assert source.worked_out == 3
    assert prune(edges, Table(5, matrices), range(5), layers, (), 0.5, 1) == edges


def test_edges_of_unresolved_causes_may_lose_any_variable():
    matrices = {(0, 1): np.eye(2), (1, 2): np.ones((2, 2)), (0, 2): np.ones((2, 2))}
    edges = EdgeSet(frozenset({(0, 1)}), frozenset({(1, 2)}))
    kept = prune(edges, Table(3, matrices), range(3), ((0,),), (1, 2), 0.5, 1)
    assert kept == EdgeSet(NONE, frozenset({(1, 2)}))  # without 2, entry (0, 1) vanishes


@pytest.mark.parametrize("count", range(7))
def test_the_largest_size_within_a_budget(count):
    for budget in range(1, 70):
        fits = [s for s in range(count + 1) if sum(math.comb(count, k) for k in range(s + 1)) <= budget]
        assert largest_size(count, budget) == max(fits, default=0)


# Differences


def test_differences_are_looked_up_in_any_order_and_counted():
    source = Table(4, {(0, 2, 3): [[1, -2, 3], [-2, 4, 5], [3, 5, 6]]})
    assert source.worked_out == 0
    assert source.over([]).shape == (0, 0)
    assert [source.entry([3, 0, 2], *at) for at in ((0, 2), (2, 0), (3, 2), (3, 3))] == [2, 2, 5, 6]
    assert source.worked_out == 1
    source.prefetch([[0, 1]])
    assert (source.worked_out, source.unfinished) == (1, 0)


@pytest.mark.parametrize(
    ("entries", "threshold", "expected"),
    [
        ((0.5, 1e-9, 0.3), 1e-4, 3e-8),  # thirty times the largest entry that is zero
        ((0.5, 0.0, 0.3), 1e-4, 1e-12),
        ((0.5, 1e-5, 1e-9), 1e-4, 1e-4),  # never more than the threshold
        ((0.5, 1e-4, 0.3), 1e-4, 1e-4),
        ((0.5, 0.4, 0.3), 1e-4, 1e-12),
    ],
)
def test_rounding_errors_are_read_off_entries_that_are_zero(entries, threshold, expected):
    a, b, c = entries

    class Fixed(ExactDifferences):
        def _compute(self, members):
            return np.array([[a, -b], [-b, c]])

    exact = Fixed(LinearSEM(np.zeros((2, 2))), LinearSEM(np.zeros((2, 2))))
    assert exact.rounding((0, 1), threshold) == pytest.approx(expected, rel=1e-12)


def shrunk(sigma, n):
    """Chen, Wiesel, Eldar and Hero (2010), equation 23."""
    p, trace, square = len(sigma), sigma.trace(), (sigma @ sigma).trace()
    share = ((1 - 2 / p) * square + trace**2) / ((n + 1 - 2 / p) * (square - trace**2 / p))
    return (1 - min(1, share)) * sigma + min(1, share) * trace / p * np.eye(p)


@pytest.mark.parametrize("n", [2, 4, 5])
def test_few_rows_are_shrunk(n):
    rows = np.random.default_rng(880100).standard_normal((6, 4)) * [1, 2, 3, 9]
    sigma = rows.T @ rows / 6
    expected = np.diag(np.linalg.inv(shrunk(sigma, n)))
    np.testing.assert_allclose(module._conditional_precision(sigma, n), expected, rtol=1e-10)


def test_shrinking_has_limits():
    sigma = np.array([[2.0, 0.1, 0.0], [0.1, 2.0, 0.0], [0.0, 0.0, 2.0]])  # so round that all is shrunk
    np.testing.assert_allclose(module._conditional_precision(sigma, 3), 0.5)
    np.testing.assert_allclose(module._conditional_precision(np.eye(3) * 4, 3), 0.25)
    # One row more than is needed for an inverse that has an expectation: corrected for its bias.
    expected = np.diag(np.linalg.inv(sigma)) / 5
    np.testing.assert_allclose(module._conditional_precision(sigma, 5), expected)
    np.testing.assert_allclose(module._conditional_precision(sigma, 4), 0.5)


def test_sample_differences_are_in_units_of_partial_correlations():
    rows = tables(880101, 4, 60, 90)
    first, second = (Moments.from_array(table * [1, 10, 1, 0.1]) for table in rows)
    answer = precision_difference(first, second, method="plugin", penalty=0.0)
    source = SampleDifferences(first, second, answer)
    omegas = [np.linalg.inv(moments.scatter / moments.n) for moments in (first, second)]
    known = [np.diag(omega) * (n - 5) / n for omega, n in zip(omegas, (60, 90), strict=True)]
    scale = (known[0] * known[1]) ** 0.25
    expected = (omegas[0] - omegas[1]) / np.outer(scale, scale)
    np.testing.assert_allclose(source.over(range(4)), expected, atol=1e-10)
    part = [3, 1]
    omegas = [np.linalg.inv(moments.scatter[np.ix_([1, 3], [1, 3])] / moments.n) for moments in (first, second)]
    known = [np.diag(omega) * (n - 3) / n for omega, n in zip(omegas, (60, 90), strict=True)]
    scale = (known[0] * known[1]) ** 0.25
    np.testing.assert_allclose(source.over(part), (omegas[0] - omegas[1]) / np.outer(scale, scale), atol=1e-10)
    assert (source.worked_out, source.unfinished, source.p) == (2, 0, 4)


def test_parts_are_solved_at_the_penalty_of_the_whole():
    first, second = (Moments.from_array(table) for table in tables(880102, 5, 80, 80))
    answer = precision_difference(first, second, method="dtrace", penalty=0.4)
    source = SampleDifferences(first, second, answer)
    problem = standardise(first, second)
    absolute = 0.4 * problem.penalty_max
    assert source.problem.penalty == pytest.approx(absolute)
    part = (0, 2, 4)
    block = np.ix_(part, part)
    wanted = module.ESTIMATORS["dtrace"](
        replace(problem, sigma1=problem.sigma1[block], sigma2=problem.sigma2[block], penalty=absolute)
    ).delta.toarray()
    kept = np.where(np.abs(wanted) < np.abs(wanted.T), wanted, wanted.T)
    assert ((source.over(part) != 0) == (kept != 0)).all()
    assert kept.any()


def one_after_the_other(work, tasks, *, shared, jobs):
    """In place of processes; what is done last comes first."""
    assert jobs == 2
    return reversed([(k, work(task, *shared)) for k, task in enumerate(tasks)])


def test_sets_are_worked_out_beforehand_only_in_several_processes(monkeypatch):
    monkeypatch.setattr(module, "run_all", one_after_the_other)
    first, second = (Moments.from_array(table) for table in tables(880103, 4, 80, 80))
    answer = precision_difference(first, second, method="plugin", penalty=0.0)
    for jobs, known in ((None, 1), (1, 1), (2, 3)):
        source = SampleDifferences(first, second, answer, jobs)
        source.prefetch([[2, 0], (0, 2), [3, 1, 0], range(4)])
        assert source.worked_out == known
        alone = SampleDifferences(first, second, answer)
        for members in ([0, 2], [0, 1, 3]):
            np.testing.assert_array_equal(source.over(members), alone.over(members))
        assert source.worked_out == 3


def test_unfinished_sets_are_counted(monkeypatch):
    monkeypatch.setattr(module, "run_all", one_after_the_other)
    moments = [Moments.from_array(table) for table in tables(880103, 4, 80, 80)]
    answer = precision_difference(*moments, method="plugin", penalty=0.0)

    def never(problem):
        return replace(module.ESTIMATORS["plugin"](problem), converged=False)

    monkeypatch.setitem(module.ESTIMATORS, "never", never)
    source = SampleDifferences(*moments, replace(answer, method="never", converged=False), 2)
    assert source.unfinished == 1
    source.over([0, 1])
    assert source.unfinished == 2
    source.prefetch([[0, 2], [0, 3]])
    assert (source.unfinished, source.worked_out) == (4, 4)
    assert SampleDifferences(*moments, answer).unfinished == 0


# Elimination


def two_precisions(seed, p=5):
    pair = simulate_pair(p, neighbours=2, changes=2, rng=seed, variances=(0.5, 2.0))
    return pair.first.precision(), pair.second.precision()


def without(omega, k):
    keep = [i for i in range(len(omega)) if i != k]
    return np.linalg.inv(np.linalg.inv(omega)[np.ix_(keep, keep)])


def entries_left(omegas, k, threshold):
    """How many entries differ over the others, in units of before."""
    scale = (np.diag(omegas[0]) * np.diag(omegas[1])) ** 0.25
    units = np.delete(scale, k)
    return int(
        (np.abs(without(omegas[0], k) - without(omegas[1], k)) > threshold * np.outer(units, units)).sum()
    )


@pytest.mark.parametrize("seed", range(880110, 880116))
def test_entries_after_a_removal_are_counted(seed):
    omegas = two_precisions(seed)
    for threshold in (1e-8, 0.1, 0.4):
        found = entries_after(*omegas, np.array([3, 0, 4]), threshold)
        assert found.tolist() == [entries_left(omegas, k, threshold) for k in (3, 0, 4)]


@pytest.mark.parametrize("sign", [1, -1])
def test_leaving_out_a_column_of_either_sign(sign):
    root = np.random.default_rng(880120).standard_normal((4, 4))
    root[0, 1] = sign * abs(root[0, 1])
    reduced = leave_out(root, 1)
    assert reduced.shape == (3, 3)
    np.testing.assert_allclose(reduced.T @ reduced, without(root.T @ root, 1), atol=1e-10)
    # Where the column is nearly along the first axis already, the other sign would cancel.
    root[:, 1] = [sign, 1e-9, 0, 0]
    reduced = leave_out(root, 1)
    expected = root[1:, [0, 2, 3]]
    np.testing.assert_allclose(reduced.T @ reduced, expected.T @ expected, rtol=1e-7)


def test_elimination_strikes_out_what_vanishes_only():
    # X1 -> X3 <- X2 with both effects changed: X1 - X2 is there only because of X3.
    before = np.zeros((3, 3))
    before[2, :2] = 0.8, 0.7
    exact = ExactDifferences(LinearSEM(before), LinearSEM(np.zeros((3, 3))))
    everything = EdgeSet(frozenset({(2, 0), (2, 1), (1, 0)}), frozenset({(0, 1), (0, 2)}))
    kept = prune_by_elimination(everything, exact, (0, 1, 2), 1e-8)
    assert kept == EdgeSet(frozenset({(2, 0), (2, 1)}), frozenset({(0, 2)}))
    members = (0, 2)
    assert prune_by_elimination(everything, exact, members, 1e-8).directed >= {(2, 0), (2, 1), (1, 0)}


def test_sinks_are_eliminated_by_net_fill_and_chance(monkeypatch):
    """Which variables go, one after another, by entries over inverses of covariance blocks."""
    pair = simulate_pair(6, neighbours=3, changes=3, rng=880121)
    sigmas, members, gone = (pair.first.covariance(), pair.second.covariance()), tuple(range(6)), []
    monkeypatch.setattr(elimination, "leave_out", lambda root, k: gone.append(k) or leave_out(root, k))
    exact = ExactDifferences(pair.first, pair.second)
    prune_by_elimination(EdgeSet(NONE, NONE), exact, members, 1e-8)
    rng, expected = np.random.default_rng(0), []
    for _ in range(8):
        left = list(members)
        while left:
            omegas = [np.linalg.inv(sigma[np.ix_(left, left)]) for sigma in sigmas]
            units = (np.diag(omegas[0]) * np.diag(omegas[1])) ** 0.25
            present = np.abs(omegas[0] - omegas[1]) / np.outer(units, units) > 1e-8
            sinks = np.flatnonzero(~np.diag(present))
            if len(sinks) == 0:
                break
            row = present[sinks].sum(axis=1)
            after = np.array([entries_left(omegas, k, 1e-8) for k in sinks])
            rank = after + 2 * row + row / (len(left) + 1) + rng.random(len(sinks))
            expected.append(sinks[rank.argmin()])
            del left[expected[-1]]
    assert gone[::2] == gone[1::2] == expected


# A total order


def peeled(sigmas, graph, threshold):
    """The rule of `refine`, on inverses of covariance blocks: who leaves the fewest entries goes first."""
    left, order = sorted(k for layer in (*graph.layers, graph.rest) for k in layer), []
    while len(left) > len(graph.rest):
        omegas = [np.linalg.inv(sigma[np.ix_(left, left)]) for sigma in sigmas]
        units = (np.diag(omegas[0]) * np.diag(omegas[1])) ** 0.25
        change = np.abs(omegas[0] - omegas[1]) / np.outer(units, units)
        ranks = {}
        for k, node in enumerate(left):
            if node not in graph.rest and not any(j == node and i in left for i, j in graph.edges.directed):
                row = int((change[k] > threshold).sum())
                ranks[node] = entries_left(omegas, k, threshold) + 2 * row, row, change[k].sum()
        order.append(min(ranks, key=ranks.__getitem__))
        left.remove(order[-1])
    return tuple((node,) for node in order)


@pytest.mark.parametrize("seed", range(880130, 880140))
@pytest.mark.parametrize("threshold", [0.15, 0.4, 9.0])
def test_layers_are_refined_by_what_is_left_of_the_changes(seed, threshold):
    first, second = (Moments.from_array(table) for table in tables(seed, 6, 60, 70))
    problem = standardise(first, second)
    rest = (4, 1) if seed % 2 else ()
    layers = ((0, 5), (2, 3)) if rest else ((0, 5), (2, 3, 4))
    graph = graph_of(directed={(0, 2), (5, 3)}, layers=layers, rest=rest, invariant=() if rest else (1,))
    expected = peeled((problem.sigma1, problem.sigma2), graph, threshold)
    assert refine(graph, first, second, threshold) == replace(graph, layers=expected)


def test_layers_stay_where_rows_are_too_few():
    first, second = tables(880141, 4, 30, 30)
    graph = graph_of(directed={(0, 1)}, layers=((0, 2), (1,)), invariant=(3,))
    few, enough = (Moments.from_array(first[:n]) for n in (4, 5))
    many = Moments.from_array(second)
    assert refine(graph, few, many, 0.5) is graph
    assert refine(graph, many, few, 0.5) is graph
    assert len(refine(graph, enough, many, 0.5).layers) == 3
    same = Moments.from_array(first[:, [0, 0, 1, 2]])
    assert refine(graph, same, many, 0.5) is graph  # no inverse


def test_the_root_of_an_inverse():
    sigma = np.array([[2.0, 0.5], [0.5, 1.0]])
    np.testing.assert_allclose(_root(sigma).T @ _root(sigma), np.linalg.inv(sigma))


# The answer


def least_squares(table, target, causes):
    """Weights and their standard errors from rows."""
    design = np.column_stack([table[:, causes], np.ones(len(table))])
    beta = np.linalg.lstsq(design, table[:, target])[0]
    error = ((table[:, target] - design @ beta) ** 2).sum() / (len(table) - design.shape[1])
    return beta[:-1], np.sqrt(error * np.diag(np.linalg.inv(design.T @ design)))[:-1]


def fit_of(graph, first, second):
    settings = answers.PaperSettings("dtrace", 0.1, 0.1, False, 1)
    return answers.PaperFit(first, second, None, None, graph, 0.1, settings, 0.1)


def test_weights_are_regressions_on_all_that_precede():
    rows = tables(880150, 5, 40, 50)
    moments = [Moments.from_array(table) for table in rows]
    # Sinks first: 3 has the causes 0 and 4, and 1 precedes it, too; 2 does not take part.
    graph = graph_of({(3, 0), (3, 4)}, {(0, 4)}, layers=((3,), (1,)), rest=(0, 4), invariant=(2,))
    edges, notes = answers._edges_from_samples(fit_of(graph, *moments))
    assert notes == []
    assert [str(edge) for edge in edges] == ["X1 -> X4", "X5 -> X4", "X1 -- X5"]
    fits = [least_squares(table, 3, [0, 1, 4]) for table in rows]
    for edge, k in zip(edges, (0, 2), strict=False):
        (before, error1), (after, error2) = ((beta[k], error[k]) for beta, error in fits)
        assert (edge.weight_first, edge.weight_second) == pytest.approx((before, after))
        assert edge.delta == pytest.approx(before - after)
        assert edge.stderr == pytest.approx(math.hypot(error1, error2))
        share = (edge.delta / edge.stderr) ** 2 / ((40 - 4) + (50 - 4))
        assert edge.robustness == pytest.approx((math.sqrt(share**2 + 4 * share) - share) / 2)
    assert edges[2].delta is None


def test_few_rows_give_weights_on_the_causes_or_none_and_say_so():
    rows = tables(880151, 5, 4, 50)
    moments = [Moments.from_array(table) for table in rows]
    graph = graph_of({(3, 0), (2, 0), (2, 4), (2, 1)}, layers=((3,), (2,), (1,), (0, 4)))
    edges, (note,) = answers._edges_from_samples(fit_of(graph, *moments))
    assert [str(edge) for edge in edges] == ["X1 -> X3", "X2 -> X3", "X5 -> X3", "X1 -> X4"]
    assert [edge.delta is None for edge in edges] == [True, True, True, False]
    assert edges[3].weight_first == pytest.approx(least_squares(rows[0], 3, [0])[0][0])
    assert note.startswith(
        "too few rows for all predecessors of 'X3' and 'X4': their weights, if any, are given"
    )
    assert regress(moments[0], 3, (0, 1, 2, 4)) is None


def test_weak_edges_and_unfinished_solvers_are_named():
    edges = (
        Edge("a", "b", True, "weakened", 1.0, 0.5, -2 * ABSENT_ERRORS, 2.0),
        Edge("a", "c", True, "weakened", 1.0, 0.5, 2.6 * 2, 2.0),
        Edge("a", "d", directed=False),
    )
    counted = SimpleNamespace(unfinished=2, worked_out=7)
    weak, unfinished = answers._sample_notes(edges, counted)
    assert weak == "smaller than 2.576 standard errors, so that chance can explain it: 'a -> b'"
    assert unfinished.startswith("2 of 7 subproblems did not converge")
    assert list(answers._sample_notes(edges[1:], SimpleNamespace(unfinished=0, worked_out=7))) == []


NAMES = ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (graph_of(), []),
        (graph_of({(0, 1)}, layers=((0,), (1,))), []),
        (graph_of(rest=(0, 2)), ["something changed at 'a' and 'c', but it could not be pinned to an edge"]),
        (
            graph_of({(0, 1)}, rest=(1, 2), layers=((0,),)),
            ["noise variances seem to differ: the order of 'b' and"],
        ),
        (
            graph_of(undirected={(1, 2)}, rest=(1, 2)),
            ["noise variances seem to differ: the order of 'b' and 'c'"],
        ),
        (graph_of(size=2, complete=False), []),
        (
            graph_of({(0, 1)}, layers=((0,), (1, 2)), invariant=(3,), size=2, complete=False),
            ["3 variables take part: edges were tested with up to 2 of them left out"],
        ),
        (
            graph_of(undirected={(0, 1)}, rest=(0, 1), invariant=(2, 3), complete=False),
            ["noise variances seem to differ", "2 variables take part: edges were tested with up to 1 of them"],
        ),
    ],
)
def test_notes_say_how_far_an_answer_goes(graph, said):
    notes = answers._notes(graph, NAMES)
    assert len(notes) == len(said)
    assert all(note.startswith(start) for note, start in zip(notes, said, strict=True))


def test_settings_tell_what_was_given_and_what_was_chosen():
    first, second = tables(880160, 4, 300, 200)
    default = DifferenceDAG(method="paper").fit(first, second).result_
    assert default.settings["noise"] == "auto"
    assert default.settings["threshold_chosen"] == "default"
    assert default.settings["threshold"] == pytest.approx(default_threshold(4, 200))
    assert default.settings["penalty_given"] == "rate:0.1 (default)"
    assert default.samples == (300, 200)
    options = {"penalty": 0.25, "threshold": 0.2, "noise": "equal", "estimator": "dtrace"}
    given = DifferenceDAG(method="paper", **options).fit(first, second).result_
    assert given.settings["noise"] == "equal"
    assert given.settings["threshold_chosen"] == "given"
    assert (given.settings["threshold"], given.settings["penalty_given"]) == (0.2, 0.25)
    assert given.settings["penalty"] == pytest.approx(0.25)
    assert given.settings["estimator"] == "dtrace"
    plugin = DifferenceDAG(method="paper", estimator="plugin").fit(first, second).result_
    assert plugin.settings["penalty_given"] == "0.0 (default)"
    assert plugin.settings["penalty"] == 0.0


def test_the_answer_for_models_names_places():
    # d -> a changes; b hangs on c, unchanged.
    before = np.zeros((4, 4))
    before[0, 3], before[1, 2] = 0.9, 0.5
    after = before.copy()
    after[0, 3] = 0.2
    models = [LinearSEM(weights, names=NAMES) for weights in (before, after)]
    result = DifferenceDAG(method="paper").fit_population(*models).result_
    (edge,) = result.edge_list
    assert (str(edge), edge.weight_first, edge.weight_second) == ("d -> a", 0.9, 0.2)
    assert (result.order, result.invariant, result.unresolved) == ((("d",), ("a",)), ("b", "c"), ())
    told = {"noise": "auto", "threshold": 1e-8, "threshold_chosen": "default", "prune_size": 0}
    assert told.items() <= result.settings.items()
    expected = models[0].precision() - models[1].precision()
    np.testing.assert_allclose(result.delta_entries.toarray(), expected, atol=1e-12)
    assert result.notes == ()
