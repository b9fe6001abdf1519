"""The search over causal orders: its parts against brute force on the rows, and the whole against the truth."""

import itertools
from dataclasses import replace

import numpy as np
import orders
import pandas as pd
import pytest
from scipy import stats
from studies import study

from diffdag import DifferenceDAG, InputError, LinearSEM, Moments, load, simulate_pair
from diffdag.model.regression import regress_jointly
from diffdag.model.sem import causal_order
from diffdag.ordersearch.penalty import VARIANCE_SHARE, A, B, penalties
from diffdag.ordersearch.rules import CHANGE, FREE, INTERCEPT, VARIANCE, make_rules
from diffdag.ordersearch.search import (
    CHANCE,
    TIE,
    JointProblem,
    Problem,
    _compare_all,
    _walk_many,
    read_along,
    read_order,
    search_orders,
    tabulate,
    walk_from,
    weigh_changes,
)


def problem_of(first, second, *, equal=False, before=None, plain=False, total=None) -> Problem:
    """From rows; `plain` lets every row count, so that the score is the penalised likelihood."""
    made = orders.problem_of((first, second), equal=equal, before=before, total=total or 0)
    if plain:
        table = made.rules.table.copy()
        table[FREE] = len(first) + len(second)
        made = replace(made, rules=make_rules(len(first), len(second), table, equal, made.before))
    return made


def simulated(seed: int, p: int, n: int = 400, before=None, **options) -> Problem:
    pair = simulate_pair(p, neighbours=3, changes=4, rng=seed, **options)
    return problem_of(pair.first.sample(n, seed), pair.second.sample(n + 50, seed + 1000), before=before)


def costs_along(problem: Problem, order) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Full costs, changes and separate variances from the tables, by variable."""
    values, changes = tabulate(problem)
    said = read_along(list(order), 0.0, values, changes)
    members = np.cumsum([0, *(1 << int(i) for i in order)])[:-1]
    cost = np.empty(problem.p)
    cost[list(order)] = values[members, list(order)]
    return cost, said.changed, said.separate


# Costs


def rows_of(first, second, causes, chosen, target):
    """The joint regression of one variable as a design matrix and an answer."""
    extra = np.vstack([first[:, chosen], np.zeros((len(second), len(chosen)))])
    stacked = np.vstack([first, second])
    return np.hstack([stacked[:, causes], extra]), stacked[:, target]


def residuals(design, answer, n1, weights=(1.0, 1.0)):
    """Residual sums of squares in both conditions of weighted least squares."""
    root = np.sqrt(np.repeat(weights, (n1, len(answer) - n1)))
    beta = np.linalg.lstsq(design * root[:, None], answer * root)[0]
    squares = (answer - design @ beta) ** 2
    return np.array([squares[:n1].sum(), squares[n1:].sum()])


def brute_force(first, second, rules, causes, target, barred=None, constant=None) -> float:
    """The least cost over all change sets, with one and with two variances; 0 is that of no change.

    One of the causes may be a constant; without one intercepts are free, and the rows centred.
    """
    n = np.array([len(first), len(second)])
    change, extra, free, intercept, _ = rules.table[:, len(causes) + (constant is None)]
    base = n.sum() / 2 * np.log(residuals(*rows_of(first, second, causes, [], target), n[0]).sum() / n.sum())
    share, best = free / n.sum(), np.inf
    for size in range(len(causes) + 1):
        for chosen in itertools.combinations([k for k in causes if k != barred], size):
            rows = rows_of(first, second, causes, list(chosen), target)
            penalty = sum(intercept if k == constant else change for k in chosen)
            rss = residuals(*rows, n[0])
            loss = n.sum() / 2 * np.log(rss.sum() / n.sum())
            best = min(best, share * (loss - base) + penalty)
            if not rules.equal:
                before = np.inf
                while before > (loss := (n / 2 * np.log(rss / n)).sum()) + 1e-9:
                    before, rss = loss, residuals(*rows, n[0], n / rss)
                best = min(best, share * (loss - base) + penalty + extra)
    return best


def shifted(seed: int, p: int):
    """Tables of one study whose means were moved, each by its own intercept, and the same with a constant."""
    rng = np.random.default_rng(seed)
    first, second = study(seed, p)
    first, second = first - first.mean(axis=0) + rng.normal(size=p), second - second.mean(axis=0)
    problem = orders.centred_problem((first, second))
    scale = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 2)
    middle = np.vstack([first, second]).mean(axis=0)
    return problem, [
        np.column_stack([(table - middle) / scale, np.ones(len(table))]) for table in (first, second)
    ]


def test_sums_of_products_are_those_of_rows_around_the_common_mean_with_a_constant():
    problem, (first, second) = shifted(880800, 4)
    assert problem.p == 4
    np.testing.assert_allclose(problem.first, first.T @ first, atol=1e-9)
    np.testing.assert_allclose(problem.pooled, first.T @ first + second.T @ second, atol=1e-9)
    assert problem.before.shape == (4, 4)
    assert not problem.before.any()
    assert not problem.is_free


def test_free_intercepts_leave_what_is_within_the_conditions():
    """As if no means had been given; moments of the problem are those of both conditions."""
    problem, tables = shifted(880801, 4)
    free = problem.free
    centred = [table[:, :4] - table[:, :4].mean(axis=0) for table in tables]
    expected = orders.problem_of(centred)
    assert free.is_free
    assert expected.is_free
    for which in ("first", "pooled"):
        np.testing.assert_allclose(getattr(free, which), getattr(expected, which), atol=1e-9)
    for moments, rows in zip(problem.moments, centred, strict=True):
        assert moments.n == len(rows)
        np.testing.assert_allclose(moments.scatter, rows.T @ rows, atol=1e-9)
    order = [2, 0, 3, 1]
    one, other = (read_order(which, order) for which in (free, expected))
    np.testing.assert_allclose(one.costs, other.costs, atol=1e-9)
    assert not one.shifted.any()


def test_costs_are_those_of_all_change_sets_with_intercepts_on_the_rows():
    above, intercepts = [], 0
    for seed in range(880810, 880818):
        p = 5
        problem, tables = shifted(seed, p)
        order = np.random.default_rng(seed).permutation(p).tolist()
        quick, slow = (orders.costs(problem, order, careful=careful) for careful in (False, True))
        for t, i in enumerate(order):
            expected = brute_force(*tables, problem.rules, [p, *order[:t]], i, constant=p)
            above.append(slow[t].value - expected)
            assert quick[t].value >= slow[t].value - 1e-6
            intercepts += slow[t].shifted
    assert min(above) > -1e-6
    assert np.mean(np.array(above) < 1e-6) > 0.9  # the close look at two variances may stop early
    assert 5 < intercepts < 40


def test_a_search_with_intercepts_finds_the_best_of_all_orders():
    for seed in (880820, 880821):
        problem, _ = shifted(seed, 5)
        rng = np.random.default_rng(seed)
        best = _compare_all(problem).best
        scores = [read_order(problem, order).score for order in itertools.permutations(range(5))]
        assert best.score == pytest.approx(min(scores), abs=1e-6)
        assert best.shifted.any()
        walked = _walk_many(problem, rng, 1).best
        assert walked.score == pytest.approx(min(scores), abs=1e-6)
        assert (walked.shifted == best.shifted).all()


def test_an_intercept_that_moved_is_found_where_no_covariance_changed():
    """A constant shift of one variable, which its effects pass on: one change in all."""
    pair = simulate_pair(6, neighbours=3, change=0, rng=880830)
    first, second = pair.first.sample(800, 880831), pair.first.sample(700, 880832)
    moved = pair.order[0]
    second = second + np.linalg.solve(np.eye(6) - pair.first.weights, np.eye(6)[moved])
    optimum = search_orders(orders.centred_problem((first, second)), np.random.default_rng(0), 1)
    assert np.flatnonzero(optimum.best.shifted).tolist() == [moved]
    assert not optimum.best.changed.any()
    assert not optimum.best.separate.any()
    assert optimum.margins == optimum.rises == {}


@pytest.mark.parametrize("literal", [True, False])
@pytest.mark.parametrize("equal", [True, False])
def test_costs_are_those_of_all_change_sets_on_the_rows(literal, equal):
    above, sizes, separated = [], [], 0
    for seed in range(8):
        p = 5 + seed % 2
        first, second = study(seed, p)
        scale = np.sqrt(((first**2).mean(axis=0) + (second**2).mean(axis=0)) / 2)
        first, second = first / scale, second / scale
        problem = problem_of(first, second, equal=equal, plain=literal)
        order = np.random.default_rng(seed).permutation(p).tolist()
        cost, changed, separate = costs_along(problem, order)
        quick, slow = (orders.costs(problem, order, careful=careful) for careful in (False, True))
        for t, i in enumerate(order):
            expected = brute_force(first, second, problem.rules, order[:t], i)
            above.append(cost[i] - expected)
            assert quick[t].value >= cost[i] - 1e-6
            causes = frozenset(np.flatnonzero(changed[i]).tolist())
            assert slow[t] == (pytest.approx(cost[i], abs=1e-6), causes, separate[i], False)
            sizes.append(len(causes))
        separated += separate.sum()
    assert min(above) > -1e-6
    assert max(above) < 1e-3  # rounds end when they gain no more than this
    assert (separated == 0) == equal
    assert max(sizes) > 1


@pytest.mark.parametrize("equal", [True, False])
def test_costs_without_a_change_are_those_of_all_other_change_sets(equal):
    above, rises = [], []
    for seed in range(5):
        first, second = study(seed, 5)
        scale = np.sqrt(((first**2).mean(axis=0) + (second**2).mean(axis=0)) / 2)
        first, second = first / scale, second / scale
        problem = problem_of(first, second, equal=equal)
        order = np.random.default_rng(seed).permutation(5).tolist()
        said = read_order(problem, order)
        weighed = weigh_changes(problem, said)
        assert weighed.keys() == {(i, j) for i, j in np.argwhere(said.changed).tolist()}
        for i, j in itertools.permutations(range(5), 2):
            other = read_order(problem, order, barred=(i, j))
            assert not other.changed[i, j]
            rest = np.arange(5) != i
            assert (other.costs[rest] == said.costs[rest]).all()
            assert (other.changed[rest] == said.changed[rest]).all()
            if said.changed[i, j]:
                before = order[: order.index(i)]
                above.append(other.costs[i] - brute_force(first, second, problem.rules, before, i, barred=j))
                rises.append(weighed[i, j])
                assert other.score - said.score == pytest.approx(weighed[i, j], abs=1e-9)
            else:
                assert other.costs[i] == pytest.approx(said.costs[i], abs=1e-3)
    assert min(above) > -1e-6
    assert max(above) < 1e-3  # rounds end when they gain no more than this
    assert min(rises) > -1e-3
    assert max(rises) > 1


def test_several_pairs_weigh_a_change_together():
    problems = tuple(problem_of(*study(seed, 5)) for seed in (0, 1))
    joint, order = JointProblem(problems), [3, 1, 0, 4, 2]
    said = read_order(joint, order)
    weighed = weigh_changes(joint, said)
    assert weighed
    for edge, rise in weighed.items():
        parts = [[read_order(pair, order, barred=which).score for which in (None, edge)] for pair in problems]
        assert rise == pytest.approx(sum(without - usual for usual, without in parts), abs=1e-6)
        assert rise == pytest.approx(read_order(joint, order, barred=edge).score - said.score, abs=1e-6)


def test_steps_find_the_best_change_set_nearly_always():
    gaps = []
    for seed in range(60):
        problem = problem_of(*study(seed, 7), plain=seed % 2 == 0, equal=True)
        order = np.random.default_rng(seed).permutation(7).tolist()
        quick, full = (orders.costs(problem, order, careful=careful) for careful in (False, True))
        gaps += [steps.value - best.value for steps, best in zip(quick[2:], full[2:], strict=True)]
    assert min(gaps) > -1e-9
    assert np.mean(np.array(gaps) < 1e-9) > 0.9


def changes_alone(first, second, rules, causes, target) -> bool:
    """Whether a coefficient or the variance of one variable changes by itself; from the rows."""
    n = np.array([len(first), len(second)])
    change, extra, free, *_ = rules.table[:, len(causes) + 1]
    share, none = free / n.sum(), residuals(*rows_of(first, second, causes, [], target), n[0])
    falls = [residuals(*rows_of(first, second, causes, [k], target), n[0]).sum() / none.sum() for k in causes]
    two = share * ((n / 2 * np.log(none / n)).sum() - n.sum() / 2 * np.log(none.sum() / n.sum())) + extra
    return any(free / 2 * np.log(fall) + change < 0 for fall in falls) or (not rules.equal and two < 0)


@pytest.mark.parametrize("equal", [True, False])
def test_quick_costs_are_zero_where_nothing_changes_by_itself(equal):
    seen = []
    for seed in range(20):
        first, second = study(seed, 6)
        problem = problem_of(first, second, equal=equal)
        order = np.random.default_rng(seed).permutation(6).tolist()
        for t, cost in enumerate(orders.costs(problem, order, careful=False)):
            seen.append(changes_alone(first, second, problem.rules, order[:t], order[t]))
            assert (cost == (0.0, frozenset(), False, False)) != seen[-1]
    assert 0 < sum(seen) < len(seen)


def test_nearly_collinear_predecessors_have_finite_costs():
    for seed in range(5):
        rng, tables = np.random.default_rng(seed), study(seed)
        first, second = (np.hstack([x, x[:, :1] + 1e-5 * rng.standard_normal((len(x), 1))]) for x in tables)
        for order in ([0, 5, 1, 2, 3, 4], [5, 4, 3, 2, 1, 0]):
            assert np.isfinite(costs_along(problem_of(first, second), order)[0]).all()


# All orders, and walks


@pytest.mark.parametrize("seed", range(10))
def test_the_best_order_and_margins_are_those_of_all_orders(seed):
    rng = np.random.default_rng(seed)
    before = np.zeros((5, 5), bool)
    if seed % 2:  # every second example comes with knowledge that may be wrong
        before[np.triu_indices(5, 1)] = rng.random(10) < 0.3
        before |= before @ before | before @ before @ before
    problem = problem_of(*study(seed, 5, (200, 250)), before=before)
    scores = {order: walk_from(problem, order).score for order in itertools.permutations(range(5))}
    allowed = {order: score for order, score in scores.items() if orders.allowed(order, before)}
    optimum = search_orders(problem, rng, 1)
    best = optimum.best
    assert best.order in allowed
    assert best.score == pytest.approx(min(allowed.values()), abs=1e-6)
    assert best.score == pytest.approx(scores[best.order], abs=1e-6)
    said = walk_from(problem, best.order)
    assert (said.changed == best.changed).all()
    assert (said.separate == best.separate).all()
    assert optimum.margins.keys() == {(i, j) for i, j in np.argwhere(best.changed).tolist()}
    assert optimum.margins
    for (i, j), margin in optimum.margins.items():
        turned = {o: score - best.score for o, score in allowed.items() if o.index(i) < o.index(j)}
        near = [walk_from(problem, order) for order, rise in turned.items() if rise <= CHANCE]
        rise = min(turned.values(), default=np.inf)
        tie = rise > TIE and any(other.count == said.count for other in near)
        assert margin == pytest.approx(0.0 if tie else rise, abs=1e-6)


def test_walks_end_where_all_orders_do():
    above, same, turned = [], 0, []
    for seed in range(20):
        problem = simulated(seed, 8 + seed % 3, variances=(0.5, 1, 2), variances_drawn="per-condition")
        expected = search_orders(problem, np.random.default_rng(seed), 1)
        found = _walk_many(problem, np.random.default_rng(seed), 1)
        assert 0 <= found.reached <= found.starts
        above.append(found.best.score - expected.best.score)
        same += bool((found.best.changed == expected.best.changed).all())
        common = [edge for edge in found.margins if found.margins[edge] and edge in expected.margins]
        turned += [found.margins[edge] - expected.margins[edge] + above[-1] for edge in common]
    assert min(above) > -1e-6
    assert np.sum(np.array(above) < 1e-3) >= 18
    assert same >= 19
    # What is found with effect before cause is an order like any other: never better than the best of all.
    assert min(turned) > -1e-6
    assert np.mean(np.array(turned) < 1) > 0.75


def test_walks_respect_what_is_known_and_do_not_depend_on_threads():
    rng, p = np.random.default_rng(3), 14
    known = np.zeros((p, p), bool)
    known[np.ix_(range(7), range(7, 14))] = True
    for before in (known, known.T.copy(), np.zeros((p, p), bool)):
        problem = simulated(5, p, before=before)
        one, two = (_walk_many(problem, np.random.default_rng(1), jobs) for jobs in (1, 2))
        assert (one.best.order, one.best.score, one.margins) == (two.best.order, two.best.score, two.margins)
        assert orders.allowed(one.best.order, before)
        for _ in range(20):  # no order drawn at random is better
            order = [*rng.permutation(7), *(7 + rng.permutation(7))]
            order = order if before[0, 7] else order[::-1]
            assert walk_from(problem, order).score > one.best.score


def test_a_walk_is_no_worse_than_where_it_began_and_says_what_its_order_says():
    problem, p = simulated(7, 20), 20
    start = np.random.default_rng(0).permutation(p)
    before = walk_from(problem, start)
    options = (
        {"steps": (2000, 0)},
        {"steps": (0, 2000)},
        {"sweeps": 3},
        {"careful": 3},
        {"steps": (2000, 2000), "sweeps": 20, "careful": 20, "grain": 0.05},
    )
    for option in options:
        after = walk_from(problem, start, seed=1, **option)
        assert after.score < before.score
        assert sorted(after.order) == list(range(p))
        again = walk_from(problem, after.order)
        assert again.score == pytest.approx(after.score, abs=1e-6)
        assert (again.changed == after.changed).all()
    assert walk_from(problem, start, sweeps=3, to_revisit=[]).order == tuple(start.tolist())


def test_the_score_is_the_likelihood_of_both_tables_where_nothing_changes():
    first, second = study(1, 4)
    problem, rows = problem_of(first, second), len(first) + len(second)
    pooled = problem.pooled
    expected = sum(
        rows / 2 * np.log(1 / np.linalg.inv(pooled[: t + 1, : t + 1])[t, t] / rows) for t in range(4)
    )
    assert problem.base == pytest.approx(expected)


@pytest.mark.parametrize("jobs", [1, 2])
def test_progress_is_told_walk_by_walk(jobs):
    told = []
    found = search_orders(simulated(3, 15), np.random.default_rng(0), jobs, lambda *what: told.append(what))
    walks = [(done, total) for done, total, what in told if what == "walks"]
    turns = [(done, total) for done, total, what in told if what == "directions reversed"]
    drops = [(done, total) for done, total, what in told if what == "changes left out"]
    assert len(walks) + len(turns) + len(drops) == len(told)
    assert [done for done, _ in walks] == list(range(1, found.starts + 1))
    assert walks[-1] == (found.starts, found.starts)
    assert len(turns) >= len(found.margins) > 0
    assert turns[-1][0] == turns[-1][1] == len(turns)
    assert drops == turns


# Penalties


def test_penalties_grow_with_the_variables_and_shrink_to_their_limit():
    tables = [penalties(150, 200, 5, total) for total in (5, 10, 50, 1000)]
    for smaller, larger in itertools.pairwise(tables):
        assert (larger[:2] > smaller[:2]).all()
        np.testing.assert_array_equal(larger[FREE], smaller[FREE])
    np.testing.assert_array_equal(penalties(30, 50, 20, 20)[FREE], 80 - 3 - np.arange(20))
    np.testing.assert_allclose(penalties(30, 50, 9, 9), penalties(50, 30, 9, 9), rtol=1e-9)
    assert (np.diff(penalties(40, 40, 20, 20)[VARIANCE]) > 0).all()  # few free rows make ratios large
    for total, rows in ((3, 1e9), (20, 1e9), (100, 1e6)):
        price = max(np.log(2 * rows) / 2 + 2 * np.log(total), A + B * np.log(3))
        change, variance, *_ = penalties(rows, rows, 3, total)
        np.testing.assert_allclose(change, price, rtol=1e-3)
        np.testing.assert_allclose(variance, VARIANCE_SHARE * price, rtol=1e-3)


@pytest.mark.parametrize(("n1", "n2", "p"), [(10, 12, 5), (10000, 1000, 8), (853, 1e9, 400), (9, 1e6, 2)])
def test_penalties_never_fall_as_they_are_raised(n1, n2, p):
    factors = np.union1d(np.geomspace(1e-3, 1e6, 200), np.linspace(1, 60, 100))
    for total, change in ((p, None), (1000 * p, 12.0)):
        tables = np.array([penalties(n1, n2, p, total, factor, change=change) for factor in factors])
        assert np.isfinite(tables).all()
        assert (np.diff(tables, axis=0) >= 0).all()
        assert (tables[-1, [CHANGE, VARIANCE, INTERCEPT]] > 1e5).all()


def test_few_rows_keep_the_level_of_many():
    n1, n2, k, total = 30, 45, 8, 10
    change, variance, free, *_ = penalties(n1, n2, total, total)[:, k]
    price = A + B * np.log(total)
    level, variance_level = stats.chi2.sf([2 * price, 2 * VARIANCE_SHARE * price], 1)
    t = np.sqrt(free * np.expm1(2 * change / free))  # of the coefficient at which a change just pays
    assert 2 * stats.t.sf(t, free) == pytest.approx(level, rel=1e-6)

    def gain(ratio):  # in the score, of two variances whose estimates have this ratio
        rss1, rss2, n = ratio * (n1 - 1 - k), n2 - 1 - k, n1 + n2
        one = n / 2 * np.log((rss1 + rss2) / n)
        return free / n * (one - n1 / 2 * np.log(rss1 / n1) - n2 / 2 * np.log(rss2 / n2))

    ratios = np.geomspace(1e-3, 1e3, 200_001)
    outside = ratios[gain(ratios) < variance][[0, -1]]
    f = stats.f(n1 - 1 - k, n2 - 1 - k)
    # The tail that is harder to reach has the level; the other is rarer still.
    tails = sorted([f.cdf(outside[0]), f.sf(outside[1])])
    assert tails[1] == pytest.approx(variance_level / 2, rel=0.01)


# The whole


def found_edges(result) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in result.edge_list if edge.directed}


def loose_edges(result) -> set[frozenset[str]]:
    return {frozenset((edge.source, edge.target)) for edge in result.edge_list if not edge.directed}


def example(seed: int, n: int = 5000):
    pair = simulate_pair(6, neighbours=3, changes=2, weights=(0.6, 1.0), rng=seed)
    tables = (pair.first.sample(n, seed), pair.second.sample(n - 500, seed + 99))
    return pair, *(pd.DataFrame(table, columns=pair.first.names) for table in tables)


def numbers(result) -> dict[tuple[str, str], tuple[float, ...]]:
    return {
        (e.source, e.target): (e.weight_first, e.weight_second, e.delta, e.stderr)
        for e in result.edge_list
        if e.directed
    }


def test_the_edges_of_a_pair_are_found():
    right = 0
    for seed in range(12):
        pair, first, second = example(seed)
        result = DifferenceDAG().fit(first, second).result_
        error = result.delta_precision - (pair.first.precision() - pair.second.precision())
        assert np.abs(error).to_numpy().max() < 0.3
        if found_edges(result) == pair.edges and not loose_edges(result):
            right += 1
            for (cause, effect), (*_, delta, stderr) in numbers(result).items():
                cell = first.columns.get_loc(effect), first.columns.get_loc(cause)
                assert abs(delta - pair.first.weights[cell] + pair.second.weights[cell]) < 4.5 * stderr
    assert right >= 11  # in one of them another pair of edges fits as well


@pytest.mark.parametrize("seed", range(4))
def test_names_units_and_sides_do_not_matter(seed):
    _, first, second = example(seed)
    result = DifferenceDAG(stored_rows=0).fit(first, second).result_
    assert numbers(result)
    mirrored = DifferenceDAG().fit(second, first).result_
    assert numbers(mirrored) == {
        edge: pytest.approx((w2, w1, -delta, error), rel=1e-6, abs=1e-9)
        for edge, (w1, w2, delta, error) in numbers(result).items()
    }
    np.testing.assert_allclose(mirrored.delta_precision, -result.delta_precision, atol=1e-8)

    names = list(np.random.default_rng(seed).permutation(first.columns))
    permuted = DifferenceDAG().fit(first[names], second[names]).result_
    assert numbers(permuted) == {k: pytest.approx(v, rel=1e-6, abs=1e-9) for k, v in numbers(result).items()}
    assert permuted.variables == tuple(names)

    units = pd.Series(10.0 ** np.random.default_rng(seed).uniform(-5, 5, 6), first.columns)
    scaled = DifferenceDAG().fit(first * units, second * units).result_
    assert numbers(scaled) == {
        (a, b): pytest.approx(np.array(values) * units[b] / units[a], rel=1e-6)
        for (a, b), values in numbers(result).items()
    }
    moments = (Moments.from_array(np.ascontiguousarray(table)) for table in (first, second))
    from_moments = DifferenceDAG().fit_moments(*moments).result_
    # Rows tell more of errors, and so of what is worth its penalty, but not of weights.
    assert {edge.key: edge.weight_first for edge in from_moments.edge_list} == {
        edge.key: edge.weight_first for edge in result.edge_list
    }
    assert {check.name for check in from_moments.checks} <= {check.name for check in result.checks}


def test_what_is_known_is_respected():
    pair, first, second = example(2)
    (cause, effect), *_ = sorted(pair.edges)
    right = [first.columns[k] for k in causal_order((pair.first.weights != 0) | (pair.second.weights != 0))]
    for known in (
        {"tiers": [[effect], [cause]]},
        {"tiers": {effect: 0, cause: 1}},
        {"required": [f"{effect} -> {cause}"]},
        {"forbidden": [(cause, effect)]},
        {"order": right[::-1]},
    ):
        result = DifferenceDAG(**known).fit(first, second).result_
        place = result.settings["search_order"].index
        assert place(effect) < place(cause)
        assert (cause, effect) not in found_edges(result)
        if "order" in known:
            assert result.settings["search_order"] == right[::-1]
    free = DifferenceDAG().fit(first, second).result_
    for known in ({"order": right}, {"required": sorted(pair.edges)}):
        result = DifferenceDAG(**known).fit(first, second).result_
        assert found_edges(result) == pair.edges
        assert result.settings["score"] >= free.settings["score"] - 1e-6
    with pytest.raises(InputError, match="contradict"):
        DifferenceDAG(required=["X1 -> X2"], tiers=[["X2"], ["X1"]]).fit(first, second)


@pytest.mark.parametrize(
    "options",
    [
        {"threshold": 0.1},
        {"method": "paper", "tiers": [["X1"], ["X2"]]},
        {"method": "paper", "order": ["X1", "X2"]},
        {"method": "paper", "required": ["X1 -> X2"]},
        {"method": "paper", "forbidden": ["X1 -> X2"]},
    ],
)
def test_options_of_the_other_method_are_refused(options):
    name = next(name for name in options if name != "method")
    with pytest.raises(InputError, match=f"has no {name}"):
        DifferenceDAG(**options).fit(*study(0, 2))


def false_alarms(sets: int, p: int, n1: int, n2: int) -> tuple[int, int]:
    """In how many of some data sets without a change edges, or changed noise variances, are found."""
    edges = noise = 0
    for seed in range(sets):
        model = simulate_pair(p, neighbours=3, changes=0, rng=seed).first
        result = DifferenceDAG(n_jobs=1).fit(model.sample(n1, seed), model.sample(n2, seed + 500)).result_
        edges += bool(result.edge_list)
        noise += bool(result.noise_list)
    return edges, noise


def test_nothing_is_found_where_nothing_changed():
    edges, noise = false_alarms(20, 6, 200, 200)
    assert edges <= 2
    assert noise <= 2


@pytest.mark.slow
def test_changed_noise_is_not_found_where_nothing_changed_in_tables_of_unequal_length():
    assert false_alarms(100, 10, 30, 300)[1] <= 5


@pytest.mark.parametrize("seed", range(10))
def test_exact_models_give_exact_answers(seed):
    pair = simulate_pair(8, neighbours=3, changes=3, rng=seed)
    ends = {name for edge in pair.edges for name in edge}
    names = pair.first.names
    changed = ([name for name in names if name not in ends] + sorted(ends))[:2] if seed % 2 else []
    variances = np.where([name in changed for name in names], 2.5, 1.0)
    second = LinearSEM(pair.second.weights, variances)
    result = DifferenceDAG().fit_population(pair.first, second).result_
    assert found_edges(result) == pair.edges
    assert not loose_edges(result)
    assert set(result.changed_noise["variable"]) == set(changed)
    for edge in result.edge_list:
        cell = names.index(edge.target), names.index(edge.source)
        assert (edge.weight_first, edge.weight_second) == (pair.first.weights[cell], second.weights[cell])
    np.testing.assert_array_equal(result.delta_precision, pair.first.precision() - second.precision())


def test_a_tie_is_undirected_and_equal_noise_settles_it():
    before = LinearSEM([[0, 0], [0.9, 0]])
    after = LinearSEM([[0, 0], [0.3, 0]], [2.0, 0.5])
    fits = (
        DifferenceDAG().fit_population(before, after).result_,
        DifferenceDAG().fit(before.sample(2000, 1), after.sample(2000, 2)).result_,
    )
    for result in fits:
        assert loose_edges(result) == {frozenset(("X1", "X2"))}
        assert not found_edges(result)
        assert result.unresolved == ("X1", "X2")
        assert any("or the other way round" in note for note in result.notes)
    same_noise = LinearSEM([[0, 0], [0.3, 0]])
    result = DifferenceDAG(noise="equal").fit(before.sample(2000, 1), same_noise.sample(2000, 2)).result_
    assert found_edges(result) == {("X1", "X2")}


def test_a_changed_noise_variance_is_no_edge():
    weights = [[0, 0, 0], [0.8, 0, 0], [0, -0.7, 0]]
    before, after = LinearSEM(weights), LinearSEM(weights, [1, 3, 1])
    tables = before.sample(1000, 3), after.sample(1200, 4)
    for result in (DifferenceDAG().fit(*tables).result_, DifferenceDAG().fit_population(before, after).result_):
        assert not result.edge_list
        assert result.changed_noise["variable"].tolist() == ["X2"]
        assert result.invariant == ("X1", "X3")


def test_fewer_rows_than_variables_are_screened_and_saved(tmp_path):
    pair = simulate_pair(30, neighbours=2, changes=3, rng=0)
    result = DifferenceDAG().fit(pair.first.sample(20, 1), pair.second.sample(20, 2)).result_
    assert len(result.screened_out) >= 30 - 13
    assert any("screened out" in note for note in result.notes)
    outside = set(result.variables) - set(result.settings["search_order"])
    assert outside == set(result.screened_out)
    assert not outside & {name for edge in result.edge_list for name in (edge.source, edge.target)}
    assert not outside & set(result.invariant)  # nobody looked
    _, *tables = example(0)
    for saved in (result, DifferenceDAG().fit(*tables).result_):
        saved.save(tmp_path)
        assert load(tmp_path) == saved


# Weights


def with_intercepts(first, second, causes, chosen, target):
    design, answer = rows_of(first, second, causes, chosen, target)
    side = np.repeat([[1.0, 0.0], [0.0, 1.0]], (len(first), len(second)), axis=0)
    return np.hstack([design, side]), answer


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("chosen", [[], [3], [0, 3], [4, 0, 3]])
def test_joint_weights_equal_generalised_least_squares_on_the_rows(separate, chosen):
    units = np.array([1, 1e-3, 20, 5, 0.1])
    first, second = (table * units + 7 for table in study(4, 5, (40, 70)))
    causes, target = [3, 0, 4], 2
    fit = regress_jointly(*map(Moments.from_array, (first, second)), target, causes, chosen, separate)
    design, answer = with_intercepts(first, second, causes, chosen, target)
    k, m = len(causes), len(chosen)
    variances = np.array([fit.variance_first, fit.variance_second])
    root = np.sqrt(np.repeat(1 / variances, (40, 70)))
    scaled = design * root[:, None]
    beta = np.linalg.lstsq(scaled, answer * root)[0]
    spread = np.linalg.inv(scaled.T @ scaled)
    np.testing.assert_allclose(fit.second, beta[:k], rtol=1e-6)
    own = beta[:k].copy()
    for at, j in enumerate(causes):
        delta = np.zeros(len(beta))
        if j in chosen:
            own[at] += beta[k + chosen.index(j)]
            delta[k + chosen.index(j)] = 1
        second = np.eye(len(beta))[at]
        expected = [form @ spread @ form for form in (second + delta, second, delta)]
        errors = fit.error_first[at], fit.error_second[at], fit.error_delta[at]
        np.testing.assert_allclose(np.square(errors), expected, rtol=1e-6)
    np.testing.assert_allclose(fit.first, own, rtol=1e-6)
    assert fit.gain is None
    assert fit.multiplied == ()
    squares = (answer - design @ beta) ** 2
    rss = np.array([squares[:40].sum(), squares[40:].sum()])
    shared = np.full(2, rss.sum() / (110 - 2 - k - m))
    leverage = np.einsum("ij,jk,ik->i", scaled, spread, scaled)
    free = np.array([40 - leverage[:40].sum(), 70 - leverage[40:].sum()])
    np.testing.assert_allclose(fit.squares, rss, rtol=1e-6)
    np.testing.assert_allclose(fit.freedom, free, rtol=1e-6)
    np.testing.assert_allclose(variances, rss / free if separate else shared, rtol=1e-6)


def test_joint_weights_of_many_rows_converge():
    tables = [np.random.default_rng(side).standard_normal((100, 3)) * [1, 1, 1 + 4 * side] for side in (0, 1)]
    fits = []
    for factor in (
        10**3,
        10**5,
    ):  # the same moments per row: the same estimates but for some degrees of freedom
        moments = [Moments.from_array(table) for table in tables]
        moments = [Moments(m.names, m.n * factor, m.mean, m.scatter * factor) for m in moments]
        fits.append(regress_jointly(*moments, 2, [0, 1], [], separate=True))
    few, many = fits
    np.testing.assert_allclose(many.first, few.first, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("separate", [False, True])
def test_standard_errors_cover_the_truth(separate):
    rng, hits = np.random.default_rng(8), 0
    for _ in range(200):
        one, two = rng.standard_normal((40, 3)), rng.standard_normal((25, 3))
        one[:, 2] += one[:, :2] @ [0.5, 1.0]
        two[:, 2] = two[:, :2] @ [0.5, -0.2] + (3 if separate else 1) * two[:, 2]
        fit = regress_jointly(*map(Moments.from_array, (one, two)), 2, [0, 1], [1], separate)
        hits += abs(fit.first[1] - fit.second[1] - 1.2) < stats.t.ppf(0.975, 40) * fit.error_delta[1]
    assert 180 <= hits <= 198
