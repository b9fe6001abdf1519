"""The search over orders, part by part and in plain Python: against literal versions, and at its limits.

To compile one function by itself takes longer than to run it a few times, so nothing here is compiled.
"""

from __future__ import annotations

import importlib
import itertools
import math
import os
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from scipy.special import ndtr

import diffdag
from diffdag import InputError, LinearSEM, Moments
from diffdag.ordersearch import fit as answers
from diffdag.ordersearch import neighbourhood, screen
from diffdag.ordersearch.core import compiled
from diffdag.ordersearch.search import Found
from diffdag.precision.problem import standardise

# Whole numbers wrap around in the memory of costs.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
MODULES = ("state", "subset", "score", "walk", "dynamic", "search", "joint")


@pytest.fixture(scope="module")
def plain():
    """The modules of the search, interpreted."""
    package = "diffdag.ordersearch"
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith(package)}
    original = diffdag.ordersearch
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba.config, "DISABLE_JIT", True)
        modules = SimpleNamespace(**{name: importlib.import_module(f"{package}.{name}") for name in MODULES})
    for name in [name for name in sys.modules if name.startswith(package)]:
        del sys.modules[name]
    sys.modules.update(kept)
    diffdag.ordersearch = original
    return modules


@pytest.fixture(autouse=True)
def _random_numbers_are_left_alone():
    """Interpreted walks seed numpy's common generator."""
    state = np.random.get_state()  # noqa: NPY002
    yield
    np.random.set_state(state)  # noqa: NPY002


def two_tables(seed, p=4, n1=60, n2=90):
    """Rows whose weights and noise variances differ, in sizes around the penalty."""
    rng = np.random.default_rng(seed)
    label = rng.permutation(p)
    before = np.tril(rng.uniform(-1, 1, (p, p)), -1)
    after = before + np.tril(rng.uniform(-2, 2, (p, p)) * (rng.random((p, p)) < 0.4), -1)
    spread = np.where(rng.random(p) < 0.3, rng.uniform(1.2, 4, p), 1.0)
    return LinearSEM(before).sample(n1, rng)[:, label], LinearSEM(after, spread).sample(n2, rng)[:, label]


def problem_of(plain, seed, p=4, *, equal=False, before=None, n1=60, n2=90, second=None):
    first, other = two_tables(seed, p, n1, n2)
    other = other if second is None else two_tables(second, p, n1, n2)[1]
    known = np.zeros((p, p), bool) if before is None else before
    scatter = first.T @ first, other.T @ other
    return plain.search.Problem.from_scatter(*scatter, n1, n2, equal, known, p)


def view(plain, problem, order):
    space = plain.state.new_space(problem.first, 12)
    space.whole[plain.state.ORDER, : problem.p] = order
    plain.state.look(space, problem.pooled)
    return space


def costs(plain, problem, order, careful=False):
    """Costs along an order, each worked out afresh."""
    space = view(plain, problem, order)
    cost = plain.score.full_cost if careful else plain.score.quick_cost
    return np.array([cost(space, problem.rules, t)[0] for t in range(problem.p)])


def total(plain, problems, order, careful=False):
    return sum(float(costs(plain, problem, order, careful).sum()) for problem in problems)


def allowed(order, before):
    return not any(before[b, a] for a, b in itertools.combinations(order, 2))


def moved(order, start, end):
    order = list(order)
    order.insert(end, order.pop(start))
    return order


def some_knowledge(p):
    before = np.zeros((p, p), bool)
    before[0, 2] = before[3, 1] = True
    return before


def crowd_of(plain, problems):
    return plain.joint.JointProblem(tuple(problems))._crowd()


def pairs_of(plain, seed, p=4, count=2, before=None):
    return [problem_of(plain, seed, p, second=seed + 50 * k, before=before) for k in range(count)]


# Change sets


@pytest.mark.parametrize("rows", [0.0, 40.0])
def test_best_subsets_are_those_of_all_sets(plain, rows):
    """Against least squares by normal equations; with known variances, too."""
    state, subset = plain.state, plain.subset
    sizes = []
    for seed, turn in itertools.product(range(880300, 880305), range(4)):  # each candidate comes first once
        problem, t = problem_of(plain, seed, 5), 4
        order = np.random.default_rng(seed).permutation(5)
        order[:t] = np.roll(order[:t], turn)
        space = view(plain, problem, order)
        own, cross = space.real[state.OWN, :5], space.real[state.CROSS, :t]
        r = space.real[state.ROOT, t, order[t]]
        gain = r * space.real[state.CROSS, t]
        widths = own - cross.T @ cross
        vectors = space.real[state.VECTORS]
        vectors[subset.GAIN], vectors[subset.WIDTH] = gain, np.diag(widths)
        rss = r * r
        unit = rss if rows == 0 else 1.0
        penalty = 0.03 * unit if rows == 0 else 1.5
        share, least = (0.0, 2 * penalty) if rows == 0 else (-math.expm1(-2 * penalty / rows), 0.0)
        task = subset.Task(1.0, state.CROSS, rows, penalty, share, least)

        def left(chosen, widths=widths, gain=gain, rss=rss):
            block = widths[np.ix_(chosen, chosen)]
            return rss - gain[chosen] @ np.linalg.solve(block, gain[chosen]) if chosen else rss

        def cost(rest, size, penalty=penalty):
            return (0.5 * rows * math.log(rest) if rows else 0.5 * rest) + penalty * size

        sets = [list(chosen) for m in range(t + 1) for chosen in itertools.combinations(order[:t].tolist(), m)]
        expected = min(cost(left(chosen), len(chosen)) for chosen in sets)
        steps, m = subset.forward_backward(space, task, t, rss)
        chosen = space.whole[state.CHOSEN, :m].tolist()
        assert steps == pytest.approx(left(chosen), rel=1e-9)
        # No single candidate more, nor less, is better than where the steps end.
        near = [[k for k in chosen if k != out] for out in chosen]
        near += [[*chosen, k] for k in order[:t].tolist() if k not in chosen]
        assert cost(steps, m) <= min(cost(left(other), len(other)) for other in near) + 1e-9
        for known, size in ((steps, m), (rss, 0)):  # with an answer to begin with, and without
            best, m = subset.best_subset(space, task, t, rss, known, size)
            chosen = space.whole[state.CHOSEN, :m].tolist()
            assert best == pytest.approx(left(chosen), rel=1e-9)
            assert cost(best, m) == pytest.approx(expected, rel=1e-9)
        assert subset._left_by_all(space, t, rss) == pytest.approx(left(order[:t].tolist()), rel=1e-9)
        effects = np.linalg.solve(widths[np.ix_(chosen, chosen)], gain[chosen]) if m else np.zeros(0)
        np.testing.assert_allclose(vectors[subset.EFFECT, :m], effects, rtol=1e-6, atol=1e-9)
        rises = [left([k for k in chosen if k != out]) - best for out in chosen]
        if m:
            worst, least_rise = subset.weakest(space, m)
            assert (worst, least_rise) == (int(np.argmin(rises)), pytest.approx(min(rises), rel=1e-6))
        sizes.append(m)
    assert len(set(sizes)) > 2


def test_collinear_candidates_are_passed_over(plain):
    first, second = two_tables(880320, 4)
    first, second = (
        np.column_stack([table[:, :2], table[:, 0] + 1e-7 * table[:, 2], table[:, 3]])
        for table in (first, second)
    )
    problem = plain.search.Problem.from_scatter(
        first.T @ first, second.T @ second, 60, 90, False, np.zeros((4, 4), bool), 4
    )
    space = view(plain, problem, [0, 2, 1, 3])
    cost, m, _ = plain.score.full_cost(space, problem.rules, 3)
    assert math.isfinite(cost)
    assert not {0, 2} <= set(space.whole[plain.state.CHOSEN, :m].tolist())


def weighted(first, second, i, causes, chosen, weights):
    """Residual sums of squares in both conditions of least squares with weights, from the rows."""
    rows = np.vstack([first, second])
    extra = np.vstack([first[:, chosen], np.zeros((len(second), len(chosen)))])
    design, root = np.hstack([rows[:, causes], extra]), np.sqrt(np.repeat(weights, (len(first), len(second))))
    beta = np.linalg.lstsq(design * root[:, None], rows[:, i] * root)[0]
    squares = (rows[:, i] - design @ beta) ** 2
    return float(squares[: len(first)].sum()), float(squares[len(first) :].sum())


@pytest.mark.parametrize("seed", range(880500, 880506))
@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.5, 2.0), (3.0, 0.7)])
def test_fits_are_least_squares_on_the_rows(plain, seed, weights):
    """With given variances the best change set of all; residuals of both conditions; also with one variance."""
    score, chosen_at = plain.score, plain.state.CHOSEN
    first, second = two_tables(seed)
    problem = problem_of(plain, seed)
    scale = np.sqrt(((first**2).mean(axis=0) + (second**2).mean(axis=0)) / 2)
    first, second = first / scale, second / scale
    order = np.random.default_rng(seed).permutation(4).tolist()
    space = view(plain, problem, order)
    u1, u2 = weights
    for t in range(1, 4):
        i, causes = order[t], order[:t]
        m = score._weighted_fit(space, problem.rules, u1, u2, t)
        chosen = space.whole[chosen_at, :m].tolist()
        expected = weighted(first, second, i, causes, chosen, weights)
        assert score._residuals(space, t, m) == pytest.approx(expected, rel=1e-6)
        change, _, free = problem.rules.table[:, t]
        penalty = change * 150 / free

        def cost(some, i=i, causes=causes, penalty=penalty):
            one, two = weighted(first, second, i, causes, list(some), weights)
            return 0.5 * (u1 * one + u2 * two) + penalty * len(some)

        sets = itertools.chain.from_iterable(itertools.combinations(causes, size) for size in range(t + 1))
        assert cost(chosen) == pytest.approx(min(map(cost, sets)), rel=1e-9)
        rss, m = score._shared_fit(space, problem.rules, t, 12)
        chosen = space.whole[chosen_at, :m].tolist()
        expected = weighted(first, second, i, causes, chosen, (1.0, 1.0))
        assert score._shared_residuals(space, t, m) == pytest.approx(expected, rel=1e-6)
        assert rss == pytest.approx(sum(expected), rel=1e-6)


@pytest.mark.parametrize("u", [(1.0, 0.0), (0.0, 1.0), (2.0, 0.5)])
def test_what_predecessors_explain(plain, u):
    problem = problem_of(plain, 880507)
    space = view(plain, problem, [2, 0, 3, 1])
    k = np.tril(space.real[plain.state.INNER, :4, :4])
    k = k + np.tril(k, -1).T
    for t in range(4):
        matrix = u[0] * k[:t, :t] + u[1] * (np.eye(t) - k[:t, :t])
        right = (u[0] - u[1]) * k[:t, t]
        expected = right @ np.linalg.solve(matrix, right) if t else 0.0
        assert plain.score._explained(space, *u, t) == pytest.approx(expected, rel=1e-9)


# Rules


@pytest.mark.parametrize(("n1", "n2"), [(60, 90), (20, 200), (15, 15)])
def test_limits_are_where_two_variances_begin_to_pay(plain, n1, n2):
    score = plain.score
    table = np.array([[8.0, 8.5, 9.0], [4.0, 4.5, 5.0], [n1 + n2 - 3.0, n1 + n2 - 4.0, n1 + n2 - 5.0]])
    rules = score.make_rules(n1, n2, table, False, np.zeros((3, 3), bool))
    rows = n1 + n2

    def gain(share):  # of two variances, if this share of the residual is in the first condition
        one, two = share * rows / n1, (1 - share) * rows / n2
        return -(n1 / 2 * math.log(one) + n2 / 2 * math.log(two))

    for k in range(3):
        change, variance, free = table[:, k]
        pays, low, high, close_low, close_high = rules.limits[:, k]
        assert free / 2 * math.log1p(-pays) + change == pytest.approx(0, abs=1e-9)
        assert 0 < low < n1 / rows < high < 1
        assert [gain(end) * free / rows for end in (low, high)] == pytest.approx([variance] * 2, rel=1e-6)
        if min(n1, n2) <= 5 * change:
            assert (close_low, close_high) == (1.0, 0.0)  # few rows are always looked at closely
        else:
            near = [gain(end) * free / rows for end in (close_low, close_high)]
            assert near == pytest.approx([variance / 4] * 2, rel=1e-6)
    equal = score.make_rules(n1, n2, table, True, np.zeros((3, 3), bool))
    assert equal.limits[1:].tolist() == [[-1.0] * 3, [2.0] * 3] * 2
    assert (equal.n1, equal.n2, equal.equal) == (n1, n2, True)
    np.testing.assert_allclose(equal.limits[0], rules.limits[0])


def test_a_table_is_small_up_to_five_penalties(plain):
    table = np.array([[8.0, 8.0 + 1e-9], [4.0, 4.0], [77.0, 76.0]])
    limits = plain.score.make_rules(40, 40, table, False, np.zeros((2, 2), bool)).limits
    assert limits[3:, 0].tolist() == [1.0, 0.0]
    limits = plain.score.make_rules(41, 41, table, False, np.zeros((2, 2), bool)).limits
    assert 0 < limits[3, 0] < limits[4, 0] < 1


def free_cost(first, second, i, causes, rules):
    """Cost of two separate regressions, from the rows."""
    n, rss = np.array([len(first), len(second)]), []
    for tables in ((first,), (second,), (first, second)):
        rows = np.vstack(tables)
        beta = np.linalg.lstsq(rows[:, causes], rows[:, i])[0]
        rss.append(((rows[:, i] - rows[:, causes] @ beta) ** 2).sum())
    base = n.sum() / 2 * math.log(rss[2] / n.sum())
    share = rules.table[2, len(causes)] / n.sum()
    two = (n / 2 * np.log(np.array(rss[:2]) / n)).sum()
    one = n.sum() / 2 * math.log((rss[0] + rss[1]) / n.sum())
    return share * (two - base), share * (one - base)


@pytest.mark.parametrize("seed", range(880330, 880334))
def test_separate_regressions_bound_the_cost(plain, seed):
    score = plain.score
    first, second = two_tables(seed)
    problem = problem_of(plain, seed)
    order = np.random.default_rng(seed).permutation(4)
    space = view(plain, problem, order)
    for t in range(1, 4):
        both = score._free_residuals(space, t)
        two, one = free_cost(first, second, order[t], order[:t], problem.rules)
        assert score._cost_of_two(space, problem.rules, both, t) == pytest.approx(two, rel=1e-6)
        assert score._cost_of_one(space, problem.rules, sum(both), t) == pytest.approx(one, rel=1e-6)
        jointly = t >= 2 and one + 2 * problem.rules.table[0, t] < 0
        assert score._jointly(space, problem.rules, t) == jointly


# Walks


def metropolis(plain, problems, order, steps, hot, unit, before):
    """Annealing read literally: every rise worked out from scratch, with the same random numbers."""
    order, p = list(order), len(order)
    ratio = (hot / 0.1) ** (1 / steps)
    for step in range(1, steps + 1):
        temperature = hot * unit / ratio**step
        t = np.random.randint(p - 1)  # noqa: NPY002
        if before[order[t], order[t + 1]]:
            continue
        other = moved(order, t, t + 1)
        rise = total(plain, problems, other) - total(plain, problems, order)
        if rise <= 1e-10 or np.random.random() < math.exp(-rise / temperature):  # noqa: NPY002
            order = other
    return order


@pytest.mark.parametrize("seed", range(880340, 880346))
@pytest.mark.parametrize("hot", [10.0, 1.0])
def test_annealing_is_that_of_metropolis(plain, seed, hot, monkeypatch):
    monkeypatch.setattr(plain.walk, "REFRESH", 7)
    before = some_knowledge(4) if seed % 2 else np.zeros((4, 4), bool)
    problem = problem_of(plain, seed, before=before)
    order = plain.search._respect(np.random.default_rng(seed).permutation(4).tolist(), before)
    space, cost = view(plain, problem, order), np.empty(4)
    np.random.seed(seed)  # noqa: NPY002
    plain.walk._anneal(space, problem.pooled, problem.rules, 60, hot, cost)
    ended = space.whole[plain.state.ORDER, :4].tolist()
    np.testing.assert_allclose(cost, costs(plain, problem, ended), atol=1e-6)
    np.random.seed(seed)  # noqa: NPY002
    for _ in range(4):  # names of variables in the memory of costs
        np.random.randint(1 << 62)  # noqa: NPY002
    assert ended == metropolis(plain, [problem], order, 60, hot, problem.unit, before)
    assert allowed(ended, before)


@pytest.mark.parametrize("seed", range(880350, 880354))
@pytest.mark.parametrize("hot", [10.0, 1.0])
def test_joint_annealing_is_that_of_metropolis(plain, seed, hot, monkeypatch):
    monkeypatch.setattr(plain.joint, "REFRESH", 7)
    before = some_knowledge(4) if seed % 2 else np.zeros((4, 4), bool)
    problems = pairs_of(plain, seed, before=before)
    order = plain.search._respect(np.random.default_rng(seed).permutation(4).tolist(), before)
    crowd, cost = crowd_of(plain, problems), np.empty(4)
    plain.joint._take(crowd, np.array(order))
    np.random.seed(seed)  # noqa: NPY002
    plain.joint._anneal(crowd, 50, hot, cost)
    ended = crowd.whole[0, plain.state.ORDER, :4].tolist()
    assert ended == crowd.whole[1, plain.state.ORDER, :4].tolist()
    np.testing.assert_allclose(cost, sum(costs(plain, problem, ended) for problem in problems), atol=1e-6)
    np.random.seed(seed)  # noqa: NPY002
    unit = np.mean([problem.unit for problem in problems])
    assert ended == metropolis(plain, problems, order, 50, hot, unit, before)


def rises(plain, problems, order, start, before, careful):
    """By how much the score rises if the variable at a position stands elsewhere, wherever it may."""
    here = total(plain, problems, order, careful)
    orders = {end: moved(order, start, end) for end in range(len(order)) if end != start}
    return {
        end: total(plain, problems, other, careful) - here
        for end, other in orders.items()
        if allowed(other, before)
    }


def is_best(target, start, found, grain):
    """Whether a place is one of the best, by rises; where nothing gains more than the grain, the old one."""
    least = min(found.values(), default=0.0)
    return found[target] <= least + 1e-6 if least < -grain - 1e-6 else target == start


@pytest.mark.parametrize("seed", range(880360, 880364))
@pytest.mark.parametrize("careful", [False, True])
def test_the_best_place_of_a_variable(plain, seed, careful, monkeypatch):
    for module in (plain.walk, plain.joint):
        monkeypatch.setattr(module, "NEAR", 1e6)
    before = some_knowledge(4) if seed % 2 else np.zeros((4, 4), bool)
    problems = pairs_of(plain, seed, before=before)
    order = plain.search._respect(np.random.default_rng(seed).permutation(4).tolist(), before)
    crowd = crowd_of(plain, problems)
    plain.joint._take(crowd, np.array(order))
    space = view(plain, problems[0], order)
    own, both = (
        sum(costs(plain, problem, order, careful) for problem in some) for some in (problems[:1], problems)
    )
    for start in range(4):
        alone = rises(plain, problems[:1], order, start, before, careful)
        jointly = rises(plain, problems, order, start, before, careful)
        for grain in (0.0, 3.0):
            target = plain.walk._best_place(space, problems[0].rules, careful, grain, 1e9, start, own)
            assert is_best(target, start, alone, grain)
            assert space.whole[plain.state.ORDER, :4].tolist() == order
            target = plain.joint._best_place(crowd, careful, grain, 1e9, start, both)
            assert is_best(target, start, jointly, grain)
            assert crowd.whole[0, plain.state.ORDER, :4].tolist() == order


@pytest.mark.parametrize("careful", [False, True])
def test_a_variable_is_not_moved_over_a_hill(plain, careful):
    """It goes on as long as the score has risen by less than `far`; carefully, by less than three penalties."""
    stopped = 0
    for seed in range(880370, 880390):
        problem = problem_of(plain, seed, 5)
        order = np.random.default_rng(seed).permutation(5).tolist()
        space, cost = view(plain, problem, order), costs(plain, problem, order, careful)
        crowd = crowd_of(plain, [problem])
        plain.joint._take(crowd, np.array(order))
        here = float(cost.sum())
        for start, far in itertools.product(range(5), (1.0, 40.0)):
            limit = min(far, 3 * problem.unit) if careful else far
            least, expected, beyond = 0.0, start, False
            for step in (1, -1):
                end, rise = start, 0.0
                while 0 <= end + step < 5 and rise < limit:
                    end += step
                    rise = total(plain, [problem], moved(order, start, end), careful) - here
                    if rise < least - 1e-9:
                        least, expected = rise, end
                beyond |= rise >= limit
            stopped += beyond
            for found in (
                plain.walk._best_place(space, problem.rules, careful, 0.0, far, start, cost),
                plain.joint._best_place(crowd, careful, 0.0, far, start, cost),
            ):
                assert found == expected
        if stopped > 5:
            break
    assert stopped > 5


@pytest.mark.parametrize("seed", range(880390, 880394))
@pytest.mark.parametrize("careful", [False, True])
def test_insertion_ends_where_no_move_helps(plain, seed, careful, monkeypatch):
    for module in (plain.walk, plain.joint):
        monkeypatch.setattr(module, "NEAR", 1e6)
    problems = pairs_of(plain, seed, 4)
    order = np.random.default_rng(seed).permutation(4)
    sweeps = {"careful": 30} if careful else {"sweeps": 30}
    for problem, own in (
        (problems[0], problems[:1]),
        (plain.joint.JointProblem(tuple(problems)), problems),
    ):
        found = plain.search.walk_from(problem, order, far=1e6, seed=3, **sweeps)
        for start in range(4):
            gains = rises(plain, own, list(found.order), start, problem.before, careful)
            assert is_best(start, start, gains, 0.0)
        assert found.score == pytest.approx(problem.base + total(plain, own, found.order, careful=True))
        still = plain.search.walk_from(problem, order, seed=3, to_revisit=[], sweeps=30)
        assert still.order == tuple(order.tolist())


@pytest.mark.parametrize("seed", range(880400, 880404))
def test_a_walk_says_what_its_order_says(plain, seed):
    problems = pairs_of(plain, seed, 4)
    order = np.random.default_rng(seed).permutation(4)
    for problem, own in (
        (problems[0], problems[:1]),
        (plain.joint.JointProblem(tuple(problems)), problems),
    ):
        for option in ({"steps": (30, 0)}, {"steps": (0, 30)}, {"steps": (20, 20), "sweeps": 5, "careful": 5}):
            found = plain.search.walk_from(problem, order, seed=seed, **option)
            assert total(plain, own, found.order) <= total(plain, own, order) + 1e-6 or "careful" in option
            assert found.score == pytest.approx(problem.base + total(plain, own, found.order, careful=True))
            said = plain.search.read_along(found.order, problem.base, *problem.tabulate())
            assert (found.changed == said.changed).all()
            assert (found.separate == said.separate).all()
            assert said.score == pytest.approx(found.score)
    assert sorted(found.order) == [0, 1, 2, 3]


def test_only_restless_variables_are_moved_at_first(plain):
    """One alone goes to its best place; then those whose costs it changed are restless, and their causes."""
    told = 0
    for seed in range(880410, 880416):
        problem = problem_of(plain, seed)
        order = np.random.default_rng(seed).permutation(4).tolist()
        stale = costs(plain, problem, order)
        np.random.seed(1)  # noqa: NPY002
        mover = int(np.random.permutation(4)[-1])  # noqa: NPY002 - the last in turn, so that none follows
        start = order.index(mover)
        space, cost, to_revisit = view(plain, problem, order), np.empty(4), np.arange(4) == mover
        np.random.seed(1)  # noqa: NPY002
        again = plain.walk._sweep(space, problem.rules, False, 0.0, 1e6, to_revisit, cost)
        ended = space.whole[plain.state.ORDER, :4].tolist()
        target = ended.index(mover)
        assert ended == moved(order, start, target)
        assert is_best(target, start, rises(plain, [problem], order, start, problem.before, False), 0.0)
        assert again == (ended != order)
        fresh, concerned = costs(plain, problem, ended), set()
        np.testing.assert_allclose(cost, fresh, atol=1e-6)
        for t in range(4):
            if abs(fresh[t] - stale[t]) > 1e-9:
                _, m, _ = plain.score.quick_cost(space, problem.rules, t)
                concerned |= {ended[t], *space.whole[plain.state.CHOSEN, :m].tolist()}
        assert set(np.flatnonzero(to_revisit)) == concerned
        told += bool(concerned)
    assert told


@pytest.mark.parametrize("jointly", [False, True])
def test_the_first_annealing_is_hot_and_the_second_warm(plain, jointly, monkeypatch):
    """Both begin with all variables restless; an order that became worse is given up."""
    module = plain.joint if jointly else plain.walk
    problem = problem_of(plain, 880420)
    asked = plain.joint.JointProblem((problem,)) if jointly else problem
    orders = list(itertools.permutations(range(4)))
    scores = {order: total(plain, [problem], order) for order in orders}
    best, worst = min(orders, key=scores.__getitem__), max(orders, key=scores.__getitem__)
    assert scores[best] < scores[worst] - 1
    heats, cares = [], []
    insert = module._insert
    monkeypatch.setattr(
        module, "_insert", lambda *given: cares.append((given[-5], given[-6])) or insert(*given)
    )

    def ends_at(order):
        def anneal(space, *given):
            steps, hot, _ = given[-3:]
            heats.append((steps, hot))
            if jointly:
                module._take(space, np.array(order))
            else:
                module._take(space, problem.pooled, np.array(order))

        return anneal

    monkeypatch.setattr(module, "_anneal", ends_at(worst))
    found = plain.search.walk_from(asked, best, steps=(7, 9))
    assert found.order == best
    assert heats == [(7, 10.0), (9, 1.0)]
    assert cares == [(False, 0), (False, 0), (True, 0)]  # quick, quick, careful
    cares.clear()
    plain.search.walk_from(asked, best, sweeps=3, careful=2)
    assert cares == [(False, 3), (False, 3), (True, 2)]
    monkeypatch.setattr(module, "_anneal", ends_at(best))
    assert plain.search.walk_from(asked, worst, steps=(1, 0)).order == best
    assert plain.search.walk_from(asked, worst, steps=(0, 1)).order == best
    assert plain.search.walk_from(asked, worst).order == worst
    assert len(heats) == 4


def test_costs_are_remembered_for_the_same_predecessors_only(plain):
    """What exchanging two neighbours would cost, asked twice: from memory, and the same."""
    problem = problem_of(plain, 880421)
    for order in itertools.permutations(range(4)):
        space = view(plain, problem, order)
        np.random.seed(5)  # noqa: NPY002
        memory = plain.walk._new_memory(space)
        for t in range(3):
            expected = costs(plain, problem, moved(order, t, t + 1))[t : t + 2]
            for _ in range(2):
                swapped, *found = plain.walk._try(space, problem.rules, t, memory)
                assert found == pytest.approx(expected.tolist(), abs=1e-6)
                if swapped:
                    plain.state.swap(space, t)
            assert not swapped  # the second time it was known
            assert space.whole[plain.state.ORDER, :4].tolist() == list(order)


def test_predecessors_are_known_by_the_exclusive_or_of_their_names(plain):
    space = view(plain, problem_of(plain, 880423), [2, 0, 3, 1])
    memory = plain.walk._new_memory(space)
    assert len(set(memory.code.tolist())) == 4
    for t in (1, 0, 2, 1):
        plain.state.swap(space, t)
        plain.walk._note_swap(space, t, memory)
        names = memory.code[space.whole[plain.state.ORDER, :4]]
        assert memory.sets[1:].tolist() == np.bitwise_xor.accumulate(names).tolist()
        assert memory.sets[0] == 0


def test_collinear_columns_leave_something_positive(plain):
    first, second = two_tables(880422, 3)
    first[:, 2], second[:, 2] = first[:, 0], second[:, 0]
    both = first.T @ first + second.T @ second
    space = plain.state.new_space(first.T @ first, 12)
    space.whole[plain.state.ORDER, :3] = [0, 1, 2]
    plain.state.look(space, both)
    assert space.real[plain.state.ROOT, 2, 2] ** 2 <= 1.1e-14 * both[2, 2]
    assert space.real[plain.state.ROOT, 2, 2] > 0
    assert np.isfinite(space.real).all()


def test_room_for_every_size(plain):
    for p, exhaustive, deep in ((3, 12, 5), (12, 12, 14), (20, 12, 14)):
        space = plain.state.new_space(np.eye(p), exhaustive)
        assert space.real.shape == (10, max(p + 1, 9), p)
        assert (space.whole.shape, space.stack.shape) == ((5, p + 2), (deep,) * 3)
        np.testing.assert_array_equal(space.real[plain.state.OWN, :p], np.eye(p))


# Dynamic programming


def test_tables_do_not_depend_on_how_often_the_view_is_worked_out(plain, monkeypatch):
    problem = problem_of(plain, 880425)
    costs_seldom, changes_seldom = problem.tabulate()
    monkeypatch.setattr(plain.dynamic, "REFRESH", 2)
    costs_often, changes_often = problem.tabulate()
    inside = ~np.isnan(costs_seldom)
    assert inside.sum() == 4 * 8
    np.testing.assert_allclose(costs_often[inside], costs_seldom[inside], atol=1e-9)
    assert (changes_often == changes_seldom).all()
    for members in range(16):
        earlier = [k for k in range(4) if members >> k & 1]
        for i in set(range(4)) - set(earlier):
            order = [*earlier, i, *sorted(set(range(4)) - {*earlier, i})]
            expected = costs(plain, problem, order, careful=True)[len(earlier)]
            assert costs_seldom[members, i] == pytest.approx(expected, abs=1e-6)


def test_joint_tables_are_sums(plain):
    problems = pairs_of(plain, 880426)
    joint = plain.joint.JointProblem(tuple(problems))
    costs_joint, changes = joint.tabulate()
    (one, first), (two, second) = (problem.tabulate() for problem in problems)
    np.testing.assert_allclose(costs_joint, one + two)
    assert (changes == first | second).all()
    assert joint.base == pytest.approx(problems[0].base + problems[1].base)
    assert joint.unit == pytest.approx((problems[0].unit + problems[1].unit) / 2)
    before = some_knowledge(4)
    assert (joint.requiring(before).before == before).all()
    order = (2, 0, 3, 1)
    for found, problem in zip(joint.read_along(order), problems, strict=True):
        said = plain.search.walk_from(problem, order)
        assert found.score == pytest.approx(said.score)
        assert (found.changed == said.changed).all()


def test_a_change_that_rounding_made_is_not_settled(plain):
    best = SimpleNamespace(changed=np.array([[False, True], [True, False]]))
    joint = plain.search.Optimum(None, 3, 2, {(0, 1): 4.0})
    own = plain.joint._own_part(best, joint)
    assert (own.best, own.margins) == (best, {(0, 1): 4.0, (1, 0): 0.0})
    assert (own.starts, own.reached) == (3, 2)


def test_the_joint_search_looks_at_what_there_is_to_share(plain):
    problems = pairs_of(plain, 880427)
    rng = np.random.default_rng(0)
    optima = plain.joint.search_jointly(problems, rng, 1)
    assert optima[0].best.order == optima[1].best.order
    scores = {order: total(plain, problems, order, careful=True) for order in itertools.permutations(range(4))}
    assert scores[optima[0].best.order] == pytest.approx(min(scores.values()))
    for optimum in optima:
        assert optimum.margins.keys() == {(int(i), int(j)) for i, j in np.argwhere(optimum.best.changed)}
        for (i, j), margin in optimum.margins.items():
            turned = min(s for order, s in scores.items() if order.index(i) < order.index(j))
            assert margin == pytest.approx(turned - min(scores.values()), abs=1e-6)
    assert {(optimum.starts, optimum.reached) for optimum in optima} == {(0, 0)}
    (alone,) = plain.joint.search_jointly(problems[:1], rng, 1)
    assert alone.best.score == pytest.approx(plain.search.search_orders(problems[0], rng, 1).best.score)
    line = np.triu(np.ones((4, 4), bool), 1)[::-1, ::-1].T  # 3 before 2 before 1 before 0, or the other way
    given = plain.joint.search_jointly([problem.requiring(line) for problem in problems], rng, 1)
    assert all(allowed(optimum.best.order, line) and not optimum.starts for optimum in given)


# The search around the walks, on a landscape made by hand


class Hills:
    """Scores looked up by order; remembers what it was asked."""

    def __init__(self, plain, scores, p=3, before=None, changed=(), unit=10.0):
        self.plain, self.scores, self.p, self.unit, self.base = plain, dict(scores), p, unit, 0.0
        self.before = np.zeros((p, p), bool) if before is None else before
        self.edges, self.asked = changed, []

    def requiring(self, before):
        other = Hills(self.plain, self.scores, self.p, before, self.edges, self.unit)
        other.asked = self.asked
        return other

    def found(self, order):
        changed = np.zeros((self.p, self.p), bool)
        for i, j in self.edges:
            changed[i, j] = order.index(j) < order.index(i)
        return self.plain.search.Found(order, self.scores.get(order, 100.0), changed, np.zeros(self.p, bool))

    def walk(self, place, steps, sweeps, careful, limits, seed, moving):
        order = tuple(place.tolist())
        self.asked.append((order, steps, sweeps, careful, limits, seed, tuple(moving.tolist())))
        return self.found(order)


def test_what_a_walk_is_asked(plain):
    hills = Hills(plain, {})
    plain.search.walk_from(hills, [2, 0, 1])
    assert hills.asked.pop() == ((2, 0, 1), (0, 0), 0, 0, (1e-7, 1000.0), 0, (True,) * 3)
    options = {
        "steps": (1, 2),
        "sweeps": 3,
        "careful": 4,
        "grain": 0.5,
        "far": 2.0,
        "seed": 9,
        "restless": [0, 2],
    }
    plain.search.walk_from(hills, [2, 0, 1], **options)
    assert hills.asked.pop() == ((2, 0, 1), (1, 2), 3, 4, (5.0, 20.0), 9, (True, False, True))
    plain.search._descend(np.array([2, 0, 1]), 45, 7, hills)
    assert hills.asked.pop() == ((2, 0, 1), (45, 45), 20, 20, (0.5, 1000.0), 7, (True,) * 3)
    best = hills.found((2, 0, 1))
    assert plain.search._polish(hills, best, 20) is best
    assert hills.asked.pop() == ((2, 0, 1), (0, 180), 20, 20, (1e-7, 1000.0), 0, (True,) * 3)


def test_polish_keeps_the_better(plain):
    hills = Hills(plain, {(2, 0, 1): 5.0})
    worse = replace(hills.found((2, 0, 1)), score=6.0)
    assert plain.search._polish(hills, worse).score == 5.0
    better = replace(worse, score=4.0)
    assert plain.search._polish(hills, better) is better


def test_orders_are_changed_as_little_as_knowledge_asks(plain):
    for seed in range(20):
        rng = np.random.default_rng(880430 + seed)
        before = np.triu(rng.random((5, 5)) < 0.3, 1)
        label = rng.permutation(5)
        before = before[np.ix_(label, label)]
        order = rng.permutation(5).tolist()
        found = plain.search._respect(order, before)
        assert sorted(found) == list(range(5))
        assert allowed(found, before)
        if allowed(order, before):
            assert found == order
        # The first that can stand in front does: it is the first of the order without predecessors.
        assert found[0] == next(k for k in order if not before[:, k].any())


def test_walks_agree_if_little_sets_them_apart(plain):
    p = 60
    hills = SimpleNamespace(unit=10.0, p=p)
    changed = np.zeros((p, p), bool)
    changed[1:41, 0] = True  # 40 changes: two may differ
    best = plain.search.Found((), 100.0, changed, None)

    def agrees(score, differing, problem=hills):
        other = changed.copy()
        other[1 : 1 + differing, 0] = False
        return plain.search._agree(problem, plain.search.Found((), score, other, None), best)

    assert agrees(111.9, 2)  # 10 * 60 * 0.02 = 12
    assert not agrees(112.0, 2)
    assert not agrees(111.9, 3)
    few = SimpleNamespace(unit=10.0, p=20)
    assert agrees(109.9, 0, few)  # at least one penalty
    assert not agrees(110.0, 0, few)


def test_margins_are_by_the_best_order_met_that_is_turned(plain):
    found = [
        plain.search.Found(order, score, None, None)
        for order, score in (((0, 1, 2), 7.0), ((2, 1, 0), 9.0), ((1, 2, 0), 8.0))
    ]
    best = plain.search.Found((0, 1, 2), 5.0, None, None)
    assert plain.search._margin((1, 0), found, best) == 3.0
    assert plain.search._margin((2, 0), found, best) == 3.0
    assert plain.search._margin((2, 1), found, best) == 4.0
    assert plain.search._margin((0, 2), found, best) == 2.0
    assert plain.search._margin((1, 0), found[:1], best) == math.inf
    assert plain.search._margin((1, 0), found, replace(best, score=20.0)) == 0.0


def test_a_direction_is_turned_from_three_starts(plain):
    p = 5
    hills = Hills(plain, {}, p, changed=[(3, 1), (4, 0)])
    best = replace(hills.found((0, 1, 2, 3, 4)), score=50.0)
    found = plain.search._turn(3, 1, hills, best)
    orders = [asked[0] for asked in hills.asked]
    # 3 goes before 1; 1 goes behind 3; and 1 waits for 3 where it stands.
    assert orders == [(0, 3, 1, 2, 4), (0, 2, 3, 1, 4), (0, 2, 3, 1, 4)]
    (one, two, three) = (asked[1:] for asked in hills.asked)
    # Only those between that take part are restless: 1 and 3.
    assert one == two == ((0, 0), 20, 0, (0.5, 100.0), 0, (False, True, False, True, False))
    assert three == ((0, 150), 20, 0, (0.5, 1000.0), 0, (True,) * 5)
    assert found.score == 100.0


def test_a_turned_order_that_is_close_is_polished(plain):
    for score, polished in ((59.9, True), (60.0, False)):
        hills = Hills(plain, {(1, 0, 2): score, (1, 2, 0): 70.0}, changed=[(1, 0)])
        found = plain.search._turn(1, 0, hills, replace(hills.found((0, 1, 2)), score=50.0))
        assert found.order == (1, 0, 2)
        assert (len(hills.asked) == 4) == polished
        assert hills.asked[-1][1] == ((0, 0) if polished else (0, 54))


def test_a_direction_that_is_known_is_not_turned(plain):
    before = np.zeros((3, 3), bool)
    before[0, 1] = True
    hills = Hills(plain, {}, before=before, changed=[(1, 0)])
    found = plain.search._turn(1, 0, hills, hills.found((0, 1, 2)))
    assert found.score == math.inf
    assert not hills.asked


def test_many_variables_are_turned_from_two_starts(plain):
    p = 41
    hills = Hills(plain, {}, p, changed=[(1, 0)])
    plain.search._turn(1, 0, hills, replace(hills.found(tuple(range(p))), score=0.0))
    assert len(hills.asked) == 2
    assert hills.asked[0][2] == 300 // 41
    hills = Hills(plain, {}, 40, changed=[(1, 0)])
    plain.search._turn(1, 0, hills, replace(hills.found(tuple(range(40))), score=0.0))
    assert len(hills.asked) == 3


class Lucky(Hills):
    """Every walk ends in one place, as good as the seed says."""

    def __init__(self, plain, ends, **options):
        super().__init__(plain, {}, **options)
        self.ends = iter(ends)

    def requiring(self, before):
        return Hills(self.plain, self.scores, self.p, before, self.edges, self.unit)

    def walk(self, place, steps, sweeps, careful, limits, seed, moving):
        self.asked.append((tuple(place.tolist()), steps))
        return (
            self.found(tuple(range(self.p)))
            if steps[0] == 0
            else replace(self.found(tuple(range(self.p))), score=next(self.ends))
        )


@pytest.mark.parametrize(
    ("p", "ends", "walks", "efforts"),
    [
        (15, [5.0, 5.0], 2, [12, 12]),  # the first round is enough
        (15, [5.0, 50.0, 5.0, 60.0], 4, [12, 12, 25, 25]),
        (41, [5.0, 6.0], 2, [6, 6]),
        (51, [5.0, 50.0, 70.0, 80.0, 90.0, 6.0], 6, [6, 6, 12, 12, 25, 25]),
        (101, [5.0 + 40 * k for k in range(14)], 14, [6, 6, 12, 12, 25, 25, *[40] * 4, *[60] * 4]),
        (100, [5.0 + 40 * k for k in range(18)], 18, [6, 6, 12, 12, 25, 25, *[40] * 4, *[60] * 8]),
        (50, [5.0 + 40 * k for k in range(22)], 22, [6, 6, 12, 12, 25, 25, *[40] * 4, *[60] * 8, *[120] * 4]),
        (40, [5.0 + 40 * k for k in range(20)], 20, [12, 12, 25, 25, *[40] * 4, *[60] * 8, *[120] * 4]),
    ],
)
def test_rounds_of_walks_go_on_until_two_agree(plain, p, ends, walks, efforts):
    hills = Lucky(plain, ends, p=p)
    hills.scores[tuple(range(p))] = 100.0
    told = []
    optimum = plain.search._walk_many(hills, np.random.default_rng(1), 1, lambda *what: told.append(what))
    assert optimum.starts == walks
    assert [steps for _, steps in hills.asked[:walks]] == [(effort * p**2,) * 2 for effort in efforts]
    assert hills.asked[walks][1] == (0, 20 * p**2)  # from the best once more
    assert len({order for order, _ in hills.asked[:walks]}) == walks
    assert optimum.reached == sum(end < 5.0 + 10 * max(1, 0.02 * p) for end in ends)
    assert [done for done, *_ in told] == list(range(1, walks + 1))
    assert {what for *_, what in told} == {"walks"}
    assert optimum.best.score == 5.0
    assert optimum.margins == {}


def test_an_order_that_is_better_turned_becomes_the_best(plain):
    scores = {(0, 1, 2): 5.0, (1, 0, 2): 3.0}
    hills = Lucky(plain, [5.0, 5.0], p=3, changed=[(1, 0), (2, 1)])
    hills.scores = scores
    optimum = plain.search._walk_many(hills, np.random.default_rng(1), 1)
    assert optimum.best.order == (1, 0, 2)
    assert optimum.best.score == 3.0
    # There 1 has no changed cause; what is found behind 1 stays, and turning it costs 97.
    assert optimum.margins == {(2, 1): 97.0}
    assert (optimum.starts, optimum.reached) == (2, 0)


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_tasks_are_spread_and_come_back_in_order(plain, jobs):
    for count in (1, 7, 30):
        done: list[int] = []
        tasks = [(k, 2 * k) for k in range(count)]
        counted = partial(done.append, 1)
        found = plain.search._spread(lambda a, b, c: (a, b, c), tasks, (5,), jobs, counted)
        assert found == [(k, 2 * k, 5) for k in range(count)]
        assert len(done) == count


def test_a_given_order_is_not_searched(plain):
    problem = problem_of(plain, 880440)
    order = [2, 0, 3, 1]
    before = np.zeros((4, 4), bool)
    for a, b in itertools.combinations(order, 2):
        before[a, b] = True
    optimum = plain.search.search_orders(problem.requiring(before), np.random.default_rng(0), 1)
    assert optimum.best.order == tuple(order)
    assert (optimum.starts, optimum.reached) == (0, 0)
    assert set(optimum.margins.values()) <= {math.inf}
    assert optimum.margins.keys() == {(int(i), int(j)) for i, j in np.argwhere(optimum.best.changed)}


def test_a_given_order_of_many_variables_is_only_read(plain):
    line = np.tril(np.ones((15, 15), bool), -1)  # the last first
    hills = Hills(plain, {}, 15, line, changed=[(0, 14)])
    optimum = plain.search.search_orders(hills, np.random.default_rng(0), 1)
    assert [asked[:4] for asked in hills.asked] == [(tuple(range(14, -1, -1)), (0, 0), 0, 0)]
    assert (optimum.starts, optimum.reached, optimum.margins) == (0, 0, {(0, 14): math.inf})


def test_all_orders_are_compared_up_to_fourteen_variables(plain, monkeypatch):
    monkeypatch.setattr(plain.search, "_compare_all", lambda problem: "all")
    monkeypatch.setattr(plain.search, "_walk_many", lambda *given: "walks")
    for p, how in ((2, "all"), (14, "all"), (15, "walks")):
        assert plain.search.search_orders(Hills(plain, {}, p), np.random.default_rng(0), 1) == how


def test_variables_are_scaled_and_pooled(plain):
    first, second = two_tables(880441)
    problem = problem_of(plain, 880441)
    scale = np.sqrt(((first**2).mean(axis=0) + (second**2).mean(axis=0)) / 2)
    np.testing.assert_allclose(problem.first, first.T @ first / np.outer(scale, scale))
    both = first.T @ first + second.T @ second
    np.testing.assert_allclose(problem.pooled, both / np.outer(scale, scale))
    assert problem.unit == problem.rules.table[0, 0]


# The answer


def found(order, edges, separate=(), score=7.0, p=4):
    changed = np.zeros((p, p), bool)
    for i, j in edges:
        changed[i, j] = True
    return Found(tuple(order), score, changed, np.isin(np.arange(p), separate))


def answer_of(order, margins, separate=(), starts=0, reached=0, names="abcd"):
    best = found(order, margins, separate, p=len(names))
    return answers.Answer(tuple(names), answers.Optimum(best, starts, reached, dict(margins)))


def test_what_an_optimum_says(plain):
    answer = answer_of([2, 0, 3, 1], {(0, 2): 0.5, (3, 0): 0.6, (1, 0): math.inf}, separate=[1])
    assert answer.order == [2, 0, 3, 1]
    assert answer.causes == {0: (2,), 3: (0,), 1: (0,)}
    assert answer.separate() == {1}
    assert answer.tied() == {(0, 2)}  # half a unit of likelihood settles nothing
    (edge,) = answers._undirected(answer)
    assert (edge.source, edge.target, edge.directed) == ("a", "c", False)
    assert list(answers._notes(answer)) == ["the data do not tell whether c acts on a or the other way round"]


def test_where_variables_stand():
    # c -> a -> d, a -> b; the last one is tied.
    answer = answer_of([2, 0, 3, 1], {(0, 2): 5.0, (3, 0): 5.0}, separate=[1])
    places = answers._places(answer, {"b"})
    assert places == {"method": "order", "invariant": (), "unresolved": (), "order": (("c",), ("a",), ("d",))}
    places = answers._places(answer, set())
    assert places["invariant"] == ("b",)
    tied = answer_of([2, 0, 3, 1], {(0, 2): 5.0, (3, 0): 0.1})
    places = answers._places(tied, set())
    assert (places["unresolved"], places["order"], places["invariant"]) == (("a", "d"), (("c",),), ("b",))
    two = answer_of([2, 0, 3, 1], {(3, 2): 5.0, (3, 0): 5.0, (0, 2): 5.0})
    assert answers._places(two, set())["order"] == (("c",), ("a",), ("d",))
    nothing = answer_of([0, 1, 2, 3], {})
    assert answers._places(nothing, set())["order"] == ()


@pytest.mark.parametrize(
    ("starts", "reached", "said"),
    [(0, 0, 0), (4, 2, 0), (4, 1, 1), (1, 0, 1)],
)
def test_a_search_that_found_an_order_once_says_so(starts, reached, said):
    notes = list(answers._notes(answer_of([0, 1, 2, 3], {}, starts=starts, reached=reached)))
    assert len(notes) == said
    if said:
        plural = "start" if starts == 1 else "starts"
        assert notes[0].startswith(f"{reached} of {starts} {plural} of the search found these changes")


def settings_of(**options):
    given = {"equal_noise": False, "rng": np.random.default_rng(0), "jobs": 1}
    return answers.OrderSettings(**(given | options))


def test_settings_of_a_search(plain):
    answer = answer_of([2, 0, 3, 1], {(0, 2): 1.23456, (3, 0): math.inf}, starts=4, reached=3)
    problem = problem_of(plain, 880450)
    said = answers._settings(answer, problem, settings_of(equal_noise=True, known=("tiers",), factor=2.0))
    assert said["noise"] == "equal"
    assert said["penalty"] == problem.rules.table[0, 0]
    assert (said["penalty_factor"], said["score"], said["tie"]) == (2.0, 7.0, 0.5)
    assert said["search"] == "3 of 4 starts found these changes"
    assert said["known_beforehand"] == ["tiers"]
    assert (said["starts"], said["starts_at_optimum"]) == (4, 3)
    assert said["search_order"] == ["c", "a", "d", "b"]
    assert said["margins"] == {"c -> a": 1.235}
    alone = answer_of([0, 1, 2, 3], {})
    assert answers._settings(alone, problem, settings_of())["noise"] == "auto"
    assert answers._how(alone.optimum, settings_of()) == "all admissible orders compared"
    assert answers._how(alone.optimum, settings_of(known=("order",))) == "order given"


def test_the_precision_difference_is_that_of_the_fitted_models():
    tables = two_tables(880451)
    first, second = (Moments.from_array(table, tuple("abcd")) for table in tables)
    answer = answer_of([2, 0, 3, 1], {(0, 2): 5.0, (1, 0): 5.0, (1, 3): 5.0}, separate=[1])
    fits = answers._regressions(answer, first, second)
    assert {i: earlier for i, (earlier, _) in fits.items()} == {0: [2], 1: [2, 0, 3]}
    delta = answers._precision_difference(answer, fits)
    expected = np.zeros((4, 4))
    for i, (earlier, fit) in fits.items():
        for sign, weights, variance in (
            (1, fit.first, fit.variance_first),
            (-1, fit.second, fit.variance_second),
        ):
            row = np.eye(4)[i]
            row[earlier] -= weights
            expected += sign * np.outer(row, row) / variance
    np.testing.assert_allclose(delta, expected)
    assert delta[3, 2] != 0
    edges = list(answers._estimated_edges(answer, fits))
    assert [str(edge) for edge in edges] == ["c -> a", "a -> b", "d -> b"]
    fit = fits[1][1]
    assert (edges[1].weight_first, edges[1].weight_second) == (fit.first[1], fit.second[1])
    assert (edges[2].weight_first, edges[2].weight_second) == (fit.first[2], fit.second[2])
    assert [edge.stderr for edge in edges[1:]] == fit.error_delta.tolist()
    whole = answers._among_all(delta, [1, 2, 4, 5], 7).toarray()
    np.testing.assert_array_equal(whole[np.ix_([1, 2, 4, 5], [1, 2, 4, 5])], delta)
    assert np.count_nonzero(whole) == np.count_nonzero(delta)
    assert whole.shape == (7, 7)


def test_the_answer_covers_variables_that_were_not_ordered():
    rng = np.random.default_rng(880452)
    tables = [rng.standard_normal((n, 3)) for n in (90, 70)]
    tables[0][:, 2] += 0.9 * tables[0][:, 0]
    names = ("a", "b", "c", "d", "e")
    first, second = (Moments.from_array(table, ("a", "c", "e")) for table in tables)
    free, kept = np.zeros((3, 3), bool), screen.Screened([4, 0, 2], {"suspects": 2})
    result = answers.fit_samples(names, first, second, free, settings_of(screen=3), kept)
    (edge,) = result.edge_list
    assert {edge.source, edge.target} == {"a", "e"}
    assert result.variables == names
    assert result.samples == (90, 70)
    assert (result.settings["screened_out"], result.settings["suspects"]) == (["b", "d"], 2)
    assert any(
        "2 variables of 5 were screened out" in note and "screen= allows at most 3" in note
        for note in result.notes
    )
    rows, columns = result.delta_entries.nonzero()
    assert {*rows.tolist(), *columns.tolist()} == {0, 4}
    again = answers.fit_samples(("a", "c", "e"), first, second, free, settings_of(), screen.Screened([0, 1, 2]))
    assert again.settings["screened_out"] == []
    assert not any("screened" in note for note in again.notes)
    assert again.settings["score"] == pytest.approx(
        answers.search_orders(
            answers.problem_of(first, second, free, 3, settings_of()), np.random.default_rng(0), 1
        ).best.score
    )
    given = answers.fit_samples(
        ("a", "c", "e"),
        first,
        second,
        free,
        settings_of(optimum=answer_of([0, 1, 2], {}, names="ace").optimum),
        screen.Screened([0, 1, 2]),
    )
    assert given.edge_list == ()


def test_exact_models_are_taken_for_many_rows():
    before = np.zeros((3, 3))
    before[1, 0], before[2, 1] = 0.8, 0.5
    after = before.copy()
    after[2, 1] = -0.4
    models = LinearSEM(before), LinearSEM(after, [1.0, 2.0, 1.0])
    free = np.zeros((3, 3), bool)
    result = answers.fit_models(*models, free, settings_of())
    (edge,) = [edge for edge in result.edge_list if edge.directed]
    assert (str(edge), edge.weight_first, edge.weight_second) == ("X2 -> X3", 0.5, -0.4)
    (noise,) = result.noise_list
    assert (noise.variable, noise.variance_first, noise.variance_second, noise.ratio) == ("X2", 1.0, 2.0, 0.5)
    assert result.samples is None
    worst = max(answers._condition(model.covariance()) for model in models)
    assert result.settings["rows"] == pytest.approx(min(1e10, 1e-3 / np.finfo(float).eps / worst))
    expected = models[0].precision() - models[1].precision()
    np.testing.assert_allclose(result.delta_entries.toarray(), expected, atol=1e-12)
    # Along an order that is not theirs the edges are those of regressions.
    backwards = np.tril(np.ones((3, 3), bool), -1)
    result = answers.fit_models(*models, backwards, settings_of(known=("order",)))
    sigma1, sigma2 = (model.covariance() for model in models)
    for edge in result.edge_list:
        i, j = (int(name[1]) - 1 for name in (edge.target, edge.source))
        earlier = list(range(i + 1, 3))
        weights = [
            np.linalg.solve(s[np.ix_(earlier, earlier)], s[earlier, i])[earlier.index(j)]
            for s in (sigma1, sigma2)
        ]
        assert [edge.weight_first, edge.weight_second] == pytest.approx(weights, abs=1e-3)


def test_models_too_close_to_singular_are_refused():
    def chain(weight):
        weights = np.zeros((2, 2))
        weights[1, 0] = weight
        return LinearSEM(weights)

    free = np.zeros((2, 2), bool)
    with pytest.raises(InputError, match="too close to singular"):
        answers.fit_models(chain(1e6), chain(1.0), free, settings_of())
    assert answers.fit_models(chain(1e3), chain(1e3), free, settings_of()).edge_list == ()


def test_conditions_do_not_depend_on_units():
    sigma = np.array([[4.0, 1.0], [1.0, 1.0]])
    assert answers._condition(sigma) == pytest.approx(3.0)  # correlation 1/2: eigenvalues 3/2 and 1/2
    assert answers._condition(sigma * np.outer([10, 1], [10, 1])) == pytest.approx(3.0)


# Screening


def test_so_many_variables_can_be_ordered():
    assert [screen.most_variables(rows) for rows in (2, 3, 4, 5, 9, 299, 300, 10_000)] == [
        2,
        2,
        2,
        3,
        6,
        199,
        200,
        200,
    ]


def test_notes_give_the_reason_for_screening():
    assert "7 variables of 10 were screened out before the search, because 5 rows can order at most 3." in (
        screen.screening_note(10, 3, 5)
    )
    assert "1 variable of 201 were screened" in screen.screening_note(201, 200, 400)
    assert "because the search can take at most 200." in screen.screening_note(400, 200, 400)
    assert "because screen= allows at most 2." in screen.screening_note(10, 2, 5, 2)
    assert "because 5 rows can order at most 3." in screen.screening_note(10, 3, 5, 3)


@pytest.mark.parametrize(("chance", "tests"), [(10.0, 400), (1.0, 20), (1.0, 3)])
def test_bounds_let_so_many_through_by_chance(chance, tests):
    assert 2 * ndtr(-screen._bound(chance, tests)) * tests == pytest.approx(chance)


def test_bounds_of_few_tests():
    assert screen._bound(10.0, 4) == 0.0
    assert screen._bound(1.0, 1) == 0.0


def around(*chosen):
    width = max(map(len, chosen))
    table = np.array([[*own, *[-1] * (width - len(own))] for own in chosen])
    return neighbourhood.Neighbourhoods(table, np.ones(table.shape), np.ones(len(table)))


def test_suspects_bring_their_neighbours_as_far_as_there_is_room():
    near = around([1, 2], [0], [4], [], [2, 0], [3])
    keep = screen._with_neighbours
    assert keep([0, 5], near, 2) == (0, 5)
    assert keep([0, 5, 4], near, 2) == (0, 5)
    assert keep([0, 5], near, 3) == (0, 5, 1)
    assert keep([0, 5], near, 4) == (0, 5, 1, 2)
    assert keep([0, 5], near, 9) == (0, 5, 1, 2, 3, 4)  # 4 is a neighbour of 2, which is one of 0
    assert keep([5], near, 9) == (5, 3)
    assert keep([3], near, 9) == (3, 0, 1, 2, 4)  # one is too few to order
    assert keep([], near, 9) == (0, 1, 2, 4)
    assert near.of(4) == [2, 0]


def test_residuals_subtract_neighbours():
    near = neighbourhood.Neighbourhoods(
        np.array([[1, 2], [-1, -1], [0, -1]]), np.array([[0.5, 0.25], [9.0, 9.0], [2.0, 9.0]]), np.ones(3)
    )
    expected = [[-2.0, 0.0, 1.0], [1.0, -0.5, -0.25]]
    assert near.residuals(np.array([2, 0])).toarray().tolist() == expected


def tables_with_a_change(seed, p=6, n=(80, 120)):
    rng = np.random.default_rng(seed)
    tables = [rng.standard_normal((rows, p)) for rows in n]
    for table, weight, noise in zip(tables, (1.0, -0.6), (1.0, 2.5), strict=True):
        table[:, 1] += weight * table[:, 0]
        table[:, 3] = noise * table[:, 3] + 0.8 * table[:, 2]
    return tables


def test_statistics_of_change_are_those_of_rows():
    tables = tables_with_a_change(880460)
    first, second = (Moments.from_array(table) for table in tables)
    problem = standardise(first, second)
    near = neighbourhood.find_neighbourhoods(problem, 80, 120, screen.silent)
    seen = np.zeros(6)
    found = np.vstack([block.copy() for _, block in screen._statistics(problem, near, 80, 120, seen)])
    left = near.residuals(np.arange(6)).toarray()
    change = left @ (problem.sigma1 - problem.sigma2)
    error = math.sqrt(1 / 80 + 1 / 120)
    expected = change / (np.sqrt(near.variances) * error)[:, None]
    np.fill_diagonal(expected, 0.0)
    np.testing.assert_allclose(found, expected, atol=1e-8)
    noise = np.abs(np.diag(left @ (problem.sigma1 - problem.sigma2) @ left.T))
    np.testing.assert_allclose(seen, noise / (near.variances * error * math.sqrt(2)), atol=1e-8)
    suspects = screen._suspects(problem, near, 80, 120)
    assert set(suspects[:2]) <= {0, 1, 3}
    strength = {}
    for i, j in itertools.permutations(range(6), 2):
        if abs(expected[i, j]) > screen._bound(10.0, 36):
            for k in (i, j):
                strength[k] = max(strength.get(k, 0), abs(expected[i, j]))
    for k in range(6):
        if seen[k] > screen._bound(1.0, 6):
            strength[k] = max(strength.get(k, 0), seen[k])
    assert set(suspects) == set(strength)
    assert all(strength[a] >= strength[b] - 1e-9 for a, b in itertools.pairwise(suspects))
    told = []
    kept = screen.screen(problem, 80, 120, lambda *what: told.append(what))
    assert kept.settings == {"suspects": len(suspects)}
    assert kept.members == sorted(kept.ranked)
    assert kept.at_most(2).ranked == kept.ranked[:2]
    assert told[-1] == (0, 1, "Looking for changes")
    assert told[:-1] == [(k, 8, "Looking for neighbours") for k in range(len(told) - 1)]


def test_a_copy_is_no_neighbour():
    rng = np.random.default_rng(880461)
    tables = [rng.standard_normal((60, 4)) for _ in range(2)]
    for table in tables:
        table[:, 2] = table[:, 0] + 1e-4 * table[:, 3]
        table[:, 1] += 0.9 * table[:, 0]
    problem = standardise(*(Moments.from_array(table) for table in tables))
    near = neighbourhood.find_neighbourhoods(problem, 60, 60, screen.silent)
    assert near.copies == {0: [2], 2: [0]}
    assert near.of(0) == [1]
    assert near.of(2) == [1]
    assert near.of(1) in ([0], [2])


# Compiled functions


def test_caches_older_than_a_source_are_dropped(monkeypatch, tmp_path):
    caches = tmp_path / "__pycache__"
    caches.mkdir()
    files = {tmp_path / "a.py": 100, tmp_path / "b.py": 300, tmp_path / "c.txt": 900}
    files |= {caches / "old.nbi": 299, caches / "same.nbi": 300, caches / "new.nbi": 301, caches / "old.nbc": 1}
    for file, made in files.items():
        file.touch()
        os.utime(file, (made, made))
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "compiled.py"))
    compiled._forget_stale_caches()
    assert {file.name for file in caches.iterdir()} == {"same.nbi", "new.nbi", "old.nbc"}
