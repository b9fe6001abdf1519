"""The search over orders at its seams: costs, walks and tables against literal versions; landscapes by hand."""

from __future__ import annotations

import copy
import itertools
import math
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from orders import Literal, Undecided, allowed, closest, costs, moved, problem_of
from studies import study

import diffdag as dd
from diffdag._base.parallel import end_if_abandoned
from diffdag.ordersearch import search
from diffdag.ordersearch.rules import make_rules
from diffdag.ordersearch.search import JointProblem, search_jointly, search_orders, walk_from


def problems_of(seed, count=1, before=None):
    """Comparisons of the same first condition with several others, four variables."""
    first, _ = study(seed, 4, changed=0.4)
    others = [study(seed + 50 * k, 4, changed=0.4)[1] for k in range(count)]
    return [problem_of((first, other), before=before) for other in others]


def landscape_of(problems):
    return problems[0] if len(problems) == 1 else JointProblem(tuple(problems))


def some_knowledge():
    before = np.zeros((4, 4), bool)
    before[0, 2] = before[3, 1] = True
    return before


# Costs


def test_collinear_candidates_are_passed_over():
    tables = [
        np.column_stack([table[:, :2], table[:, 0] + 1e-7 * table[:, 2], table[:, 3]])
        for table in study(880320, 4, changed=0.4)
    ]
    problem = problem_of(tables)
    last = costs(problem, [0, 2, 1, 3], careful=True)[3]
    assert math.isfinite(last.value)
    assert not {0, 2} <= last.causes


def test_costs_of_copied_columns_are_finite():
    first, second = study(880422, 3, changed=0.4)
    first[:, 2], second[:, 2] = first[:, 0], second[:, 0]
    problem = problem_of((first, second))
    for order, careful in itertools.product(itertools.permutations(range(3)), (False, True)):
        assert all(math.isfinite(cost.value) for cost in costs(problem, order, careful=careful))


def free_costs(first, second, i, causes, rules):
    """Costs of two separate regressions with two variances and with one, from the rows, without penalties."""
    n, rss = np.array([len(first), len(second)]), []
    for tables in ((first,), (second,), (first, second)):
        rows = np.vstack(tables)
        beta = np.linalg.lstsq(rows[:, causes], rows[:, i])[0]
        rss.append(((rows[:, i] - rows[:, causes] @ beta) ** 2).sum())
    base = n.sum() / 2 * math.log(rss[2] / n.sum())
    share = rules.table[2, len(causes) + 1] / n.sum()
    two = (n / 2 * np.log(np.array(rss[:2]) / n)).sum()
    one = n.sum() / 2 * math.log((rss[0] + rss[1]) / n.sum())
    return share * (two - base), share * (one - base)


def test_separate_regressions_bound_the_cost():
    """Whatever changes, the likelihood is at most that of separate regressions."""
    gaps = []
    for seed in range(880330, 880342):
        tables = study(seed, 4, changed=0.4)
        problem = problem_of(tables)
        order = np.random.default_rng(seed).permutation(4).tolist()
        for t, found in enumerate(costs(problem, order, careful=True)):
            change, variance, *_ = problem.rules.table[:, t + 1]
            two, one = free_costs(*tables, order[t], order[:t], problem.rules)
            bound = two + variance if found.separate else one
            gaps.append(found.value - change * len(found.causes) - bound)
            if len(found.causes) == t:  # all coefficients differ: this is two regressions
                assert gaps[-1] == pytest.approx(0, abs=1e-6)
    assert min(gaps) > -1e-6
    assert np.sum(np.array(gaps) < 1e-6) > 3


@pytest.mark.parametrize(("n1", "n2"), [(60, 90), (20, 200), (15, 15)])
def test_limits_are_where_two_variances_begin_to_pay(n1, n2):
    """For a close look a quarter of the penalty is enough, with more than 14 predecessors a half."""
    before = np.arange(17)
    table = np.array([8.0 + before / 20, 4.0 + before / 20, n1 + n2 - 3.0 - before, 5.0 + before / 20])
    rules = make_rules(n1, n2, table, False, np.zeros((17, 17), bool))
    rows = n1 + n2

    def gain(share):  # of two variances, if this share of the residual is in the first condition
        one, two = share * rows / n1, (1 - share) * rows / n2
        return -(n1 / 2 * math.log(one) + n2 / 2 * math.log(two))

    for k in range(17):
        change, variance, free, intercept = table[:, k]
        pays, low, high, close_low, close_high, intercept_pays = rules.limits[:, k]
        assert free / 2 * math.log1p(-pays) + change == pytest.approx(0, abs=1e-9)
        assert free / 2 * math.log1p(-intercept_pays) + intercept == pytest.approx(0, abs=1e-9)
        assert 0 < low < n1 / rows < high < 1
        assert [gain(end) * free / rows for end in (low, high)] == pytest.approx([variance] * 2, rel=1e-6)
        if min(n1, n2) <= 5 * change:
            assert (close_low, close_high) == (1.0, 0.0)  # few rows are always looked at closely
        else:
            near = [gain(end) * free / rows for end in (close_low, close_high)]
            assert near == pytest.approx([variance / (4 if k <= 14 else 2)] * 2, rel=1e-6)
    equal = make_rules(n1, n2, table, True, np.zeros((17, 17), bool))
    assert equal.limits[1:5].tolist() == [[-1.0] * 17, [2.0] * 17] * 2
    np.testing.assert_allclose(equal.limits[[0, 5]], rules.limits[[0, 5]])


def test_a_table_is_small_up_to_five_penalties():
    table = np.array([[8.0, 8.0 + 1e-9], [4.0, 4.0], [77.0, 76.0], [5.0, 5.0]])
    limits = make_rules(40, 40, table, False, np.zeros((2, 2), bool)).limits
    assert limits[3:5, 0].tolist() == [1.0, 0.0]
    limits = make_rules(41, 41, table, False, np.zeros((2, 2), bool)).limits
    assert 0 < limits[3, 0] < limits[4, 0] < 1


def test_variables_are_scaled_and_pooled():
    first, second = study(880441, 4)
    problem = problem_of((first, second))
    scale = np.sqrt(((first**2).mean(axis=0) + (second**2).mean(axis=0)) / 2)
    np.testing.assert_allclose(problem.first[:4, :4], first.T @ first / np.outer(scale, scale))
    both = first.T @ first + second.T @ second
    np.testing.assert_allclose(problem.pooled[:4, :4], both / np.outer(scale, scale))
    assert problem.unit == problem.rules.table[0, 0]
    assert problem.p == 4
    for matrix, rows in ((problem.first, len(first)), (problem.pooled, len(first) + len(second))):
        assert matrix[4].tolist() == matrix[:, 4].tolist() == [0, 0, 0, 0, rows]  # the constant, by itself


# Tables of all costs


@pytest.mark.parametrize("count", [1, 2])
def test_tables_hold_the_cost_of_every_variable_behind_every_set(count):
    problems = problems_of(880425, count)
    landscape, literal = landscape_of(problems), Literal(problems)
    values, changes = search.tabulate(landscape)
    assert (~np.isnan(values)).sum() == 4 * 8
    for members, i in itertools.product(range(16), range(4)):
        earlier = frozenset(k for k in range(4) if members >> k & 1)
        if i not in earlier:
            expected = literal.cost(i, earlier, True)
            assert values[members, i] == pytest.approx(expected.value, abs=1e-6)
            said = changes[members, i]
            assert {k for k in range(4) if said >> k & 1} == expected.causes
            assert bool(said >> 4 & 1) == expected.separate
            assert bool(said >> 5) == expected.shifted
    assert landscape.base == pytest.approx(sum(problem.base for problem in problems))
    assert landscape.unit == pytest.approx(np.mean([problem.unit for problem in problems]))
    before = some_knowledge()
    assert (landscape.requiring(before).before == before).all()


def test_each_pair_reads_the_common_order_for_itself():
    problems = problems_of(880426, 2)
    order = (2, 0, 3, 1)
    for found, problem in zip(JointProblem(tuple(problems)).read_along(order), problems, strict=True):
        said = walk_from(problem, order)
        assert found.score == pytest.approx(said.score)
        assert (found.changed == said.changed).all()


# Walks

ANNEALED = [{"steps": (60, 0)}, {"steps": (0, 60)}, {"steps": (25, 25), "sweeps": 3}]
INSERTED = [
    {"sweeps": 1},
    {"sweeps": 30},
    {"sweeps": 30, "grain": 0.4},
    {"sweeps": 30, "far": 0.1},
    {"sweeps": 1, "to_revisit": [1]},
    {"sweeps": 2, "to_revisit": [0, 3]},
    {"sweeps": 30, "to_revisit": []},
    {"careful": 1},
    {"careful": 30},
    {"careful": 30, "far": 0.1},
    {"careful": 1, "thorough": False},
    {"careful": 30, "thorough": False},
    {"steps": (20, 20), "sweeps": 20, "careful": 20, "grain": 0.05},
    {"steps": (20, 20), "sweeps": 20, "careful": 20, "thorough": False, "grain": 0.05},
    {"sweeps": 30, "barred": (1, 2)},
    {"steps": (20, 20), "sweeps": 2, "careful": 2, "barred": (0, 3)},
]


@pytest.mark.parametrize("option", [*ANNEALED, *INSERTED], ids=str)
@pytest.mark.parametrize("count", [1, 2])
def test_a_walk_is_that_of_its_description(option, count):
    """Annealing, insertion, what is restless, what is given up: the same order as read literally.

    From the best order, from the worst and from a random one, with and without knowledge.
    """
    decided, ends = 0, set()
    for seed in range(880340, 880352):
        before = some_knowledge() if seed % 2 else np.zeros((4, 4), bool)
        problems = problems_of(seed, count, before)
        literal, landscape = Literal(problems, option.get("barred")), landscape_of(problems)
        orders = [order for order in itertools.permutations(range(4)) if allowed(order, before)]
        orders.sort(key=lambda order: literal.total(order, careful=False))
        for start in (orders[0], orders[-1], orders[seed % len(orders)]):
            found = walk_from(landscape, start, seed=seed, **option)
            assert allowed(found.order, before)
            full = literal.along(found.order, careful=True)
            assert found.score == pytest.approx(landscape.base + sum(cost.value for cost in full))
            for i, cost in zip(found.order, full, strict=True):
                assert set(np.flatnonzero(found.changed[i])) == cost.causes
                assert found.separate[i] == cost.separate
            units = {name: option[name] * landscape.unit for name in ("grain", "far") if name in option}
            how = {"far": 100 * landscape.unit, **option, **units}
            how.pop("barred", None)
            try:
                expected = literal.walk(start, seed=seed, **how)
            except Undecided:
                continue
            decided += 1
            ends.add((start == found.order, found.order))
            assert list(found.order) == expected
    assert decided > 16
    if option.get("to_revisit") != []:
        assert {stayed for stayed, _ in ends} == {True, False}  # some starts are left, others are not


def test_careful_insertion_crosses_hills_of_less_than_three_penalties():
    crossed = 0
    for seed in (880428, 880430, 880447):
        problem = problem_of(study(seed, 5, (120, 120), changed=0.6))
        literal, rng = Literal([problem]), np.random.default_rng(seed)
        for _ in range(30):
            start = rng.permutation(5).tolist()
            lower, expected = (literal.walk(start, seed=seed, careful=1, near=near) for near in (2, 3))
            assert list(walk_from(problem, start, seed=seed, careful=1).order) == expected
            crossed += lower != expected
    assert crossed > 10  # with a lower limit these walks would have ended elsewhere


def test_only_who_takes_part_is_inserted_carefully_unless_asked():
    differ = 0
    for seed in (880461, 880491, 880501):
        problem = problem_of(study(seed, 5, (120, 120), changed=0.6))
        literal, rng = Literal([problem]), np.random.default_rng(seed)
        for _ in range(30):
            start, ends = rng.permutation(5).tolist(), []
            for thorough in (False, True):
                option = {"seed": seed, "careful": 1, "thorough": thorough}
                try:
                    ends.append(literal.walk(start, **option))
                except Undecided:
                    break
                assert list(walk_from(problem, start, **option).order) == ends[-1]
            differ += len(ends) == 2 and ends[0] != ends[1]
    assert differ > 5


@pytest.mark.parametrize("count", [1, 2])
def test_insertion_ends_where_no_move_helps(count):
    for seed in range(880390, 880396):
        problems = problems_of(seed, count)
        literal, start = Literal(problems), np.random.default_rng(seed).permutation(4)
        found = walk_from(landscape_of(problems), start, far=1e6, seed=3, sweeps=30)
        here = literal.total(found.order, careful=False)
        for at, end in itertools.permutations(range(4), 2):
            assert literal.total(moved(found.order, at, end), careful=False) > here - 1e-6


@pytest.mark.parametrize("seed", [880460, 880461, 880462])
def test_a_long_walk_loses_no_accuracy(seed):
    """Tens of thousands of swaps, each from the last: every step is what it is with costs worked out afresh."""
    problem = problem_of(study(seed, 5, changed=0.4))
    start = np.random.default_rng(seed).permutation(5).tolist()
    found = walk_from(problem, start, steps=(60_000, 0), seed=seed)
    assert list(found.order) != start
    assert list(found.order) == Literal([problem]).walk(start, steps=(60_000, 0), seed=seed)


# The joint search


def test_the_joint_search_finds_the_best_common_order():
    problems = problems_of(880427, 2)
    literal, rng = Literal(problems), np.random.default_rng(0)
    optima = search_jointly(problems, rng, 1)
    assert optima[0].best.order == optima[1].best.order
    scores = {order: literal.total(order, careful=True) for order in itertools.permutations(range(4))}
    assert scores[optima[0].best.order] == pytest.approx(min(scores.values()))
    for optimum in optima:
        assert optimum.margins.keys() == {(int(i), int(j)) for i, j in np.argwhere(optimum.best.changed)}
        for (i, j), margin in optimum.margins.items():
            turned = min(s for order, s in scores.items() if order.index(i) < order.index(j))
            assert margin == pytest.approx(turned - min(scores.values()), abs=1e-6)
    assert {(optimum.starts, optimum.reached) for optimum in optima} == {(0, 0)}
    (alone,) = search_jointly(problems[:1], rng, 1)
    assert alone.best.score == pytest.approx(search_orders(problems[0], rng, 1).best.score)
    line = np.tril(np.ones((4, 4), bool), -1)  # the last first
    given = search_jointly([problem.requiring(line) for problem in problems], rng, 1)
    assert all(allowed(optimum.best.order, line) and not optimum.starts for optimum in given)


def test_no_change_of_a_pair_is_more_settled_than_the_sum_says():
    problems = problems_of(880475, 2)
    together = search_orders(JointProblem(tuple(problems)), np.random.default_rng(0), 1)
    seen = 0
    for problem, optimum in zip(problems, search_jointly(problems, np.random.default_rng(0), 1), strict=True):
        alone = search.weigh_changes(problem, optimum.best)
        for edge, rise in optimum.rises.items():
            assert rise == pytest.approx(min(alone[edge], together.rises[edge]), abs=1e-6)
            assert optimum.rise(edge) <= together.margins[edge] + 1e-6
            seen += 1
    assert seen > 1


def test_a_given_order_is_not_searched():
    (problem,) = problems_of(880440)
    order = [2, 0, 3, 1]
    before = np.zeros((4, 4), bool)
    for a, b in itertools.combinations(order, 2):
        before[a, b] = True
    optimum = search_orders(problem.requiring(before), np.random.default_rng(0), 1)
    assert optimum.best.order == tuple(order)
    assert (optimum.starts, optimum.reached) == (0, 0)
    assert set(optimum.margins.values()) <= {math.inf}
    assert optimum.margins.keys() == {(int(i), int(j)) for i, j in np.argwhere(optimum.best.changed)}


# Windows


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("known", [False, True])
def test_a_window_of_all_variables_ends_in_the_best_of_all_orders(count, known):
    before = some_knowledge() if known else None
    problems = problems_of(880470, count, before)
    landscape = landscape_of(problems)
    rng = np.random.default_rng(880470)
    best = search_orders(landscape, rng, 1).best
    for _ in range(5):
        start = closest(rng.permutation(4).tolist(), landscape.before)
        found = walk_from(landscape, start, careful=1, window=4)
        assert found.score == pytest.approx(best.score, abs=1e-6)
        assert allowed(found.order, landscape.before)


def test_windows_reach_every_position_and_never_make_an_order_worse():
    tables = study(880480, 9, (200, 300), changed=0.4)
    before = np.zeros((9, 9), bool)
    before[8, 0] = before[4, 5] = True
    problem = problem_of(tables, before=before)
    rng, gains = np.random.default_rng(880480), 0
    for _ in range(20):
        start = closest(rng.permutation(9).tolist(), before)
        there = walk_from(problem, start, careful=20)  # no single variable gains by a move
        found = walk_from(problem, start, careful=20, window=4)
        assert found.score <= there.score + 1e-9
        assert allowed(found.order, before)
        gains += found.score < there.score - 1e-6
        for first in (0, 2, 4, 5):  # nor do four neighbours by any order
            for four in itertools.permutations(found.order[first : first + 4]):
                other = (*found.order[:first], *four, *found.order[first + 4 :])
                if allowed(other, before):
                    assert search.read_order(problem, other).score >= found.score - 1e-5
    assert gains > 0


def test_a_window_is_not_too_wide():
    with pytest.raises(ValueError, match="at most 16"):
        walk_from(problems_of(880441)[0], range(4), careful=1, window=17)


# The search around the walks, on a landscape made by hand


class Hills:
    """Scores looked up by order, 100 elsewhere, 200 without a change; remembers which walks it was asked for.

    Walks do not move. Annealed ones end in the natural order, or as close to it as is allowed, with the
    scores and the missing changes of `ends` in turn. The score of an order rises by `worth` if a change that it
    has must not be, and by 50 if there is no such entry. `alike` are variables that are strongly correlated.
    """

    def __init__(
        self, p=15, scores=(), edges=(), ends=(), before=None, worth=(), without=(), alike=(), gains=()
    ):
        self.p, self.scores, self.edges, self.unit, self.base = p, dict(scores), tuple(edges), 10.0, 0.0
        self.before = np.zeros((p, p), bool) if before is None else before
        self.worth, self.without, self.alike, self.gains = dict(worth), dict(without), alike, dict(gains)
        self.ends, self.asked, self.read, self.barred = iter(ends), [], [], []
        self.end = threading.local()  # of the last walk, which is read by the thread that walked

    @property
    def pairs_in_core(self):
        return self

    @property
    def walks(self):
        """Walks that annealed from a random order."""
        return [asked for asked in self.asked if asked[1][0]]

    @property
    def polishes(self):
        """Those that put windows in order from where another ended."""
        return [asked for asked in self.asked if not asked[1][0] and asked[-1][1]]

    @property
    def turns(self):
        """Those of an order with a direction reversed."""
        return [asked for asked in self.asked if not asked[1][0] and not asked[-1][1]]

    def __getitem__(self, part):
        """The pooled scatter matrix of the only pair."""
        assert part == 1
        pooled = 4.0 * np.eye(self.p + 1)
        for a, b, correlation in self.alike:
            pooled[a, b] = pooled[b, a] = 4.0 * correlation
        return pooled[None]

    def requiring(self, before):
        other = copy.copy(self)
        other.before = before
        return other

    def with_free_intercepts(self, found):
        assert not found.shifted.any()

    def multiplied(self, found):
        """Effects that gains multiply: those given, of the variables whose gain changed."""
        return [(i, j) for i in np.flatnonzero(found.gains) for j in self.gains[i]]


class HillsCore:
    """What the search asks of the compiled core, answered by hills."""

    best_order = staticmethod(search._core.best_order)

    @staticmethod
    def tabulate(hills, costs, changes, report):
        costs[:] = 0.0

    @staticmethod
    def walk(
        hills,
        before,
        unit,
        place,
        steps,
        sweeps,
        careful,
        thorough,
        window,
        grain,
        far,
        seed,
        moving,
        barred,
        report,
    ):
        constant, *order = place.tolist()
        order = tuple(order)
        assert constant == hills.p
        assert (before[:constant, :constant] == hills.before).all()
        assert before[constant].tolist() == [True] * constant + [False]
        assert not before[:, constant].any()
        before = hills.before
        assert unit == hills.unit
        assert report is end_if_abandoned
        assert allowed(order, before)
        restless = tuple(np.flatnonzero(moving).tolist())
        assert constant not in restless
        asked = order, steps, sweeps, careful, (grain, far), restless, (thorough, window)
        if barred is None:
            hills.asked.append(asked)
        else:
            hills.barred.append((barred, *asked))
        if steps[0]:
            end = next(hills.ends, 1000.0)
            hills.end.score, hills.end.missing = end if isinstance(end, tuple) else (end, 0)
            place[1:] = closest(range(hills.p), before)

    @staticmethod
    def read(hills, place, careful, barred, costs, changed, separate):
        order, told = tuple(place.tolist()[1:]), vars(hills.end)
        assert place[0] == hills.p == len(order)
        assert careful
        hills.read.append(order)
        for i, j in hills.edges[told.pop("missing", 0) :]:
            gone = barred == (i, j) or (barred is not None and i == j == barred[0])
            changed[i, j] = not gone and (i == j or order.index(j) < order.index(i))
        costs[:] = 0.0
        if barred is not None:
            return hills.without.get(barred, 200.0)
        return told.pop("score", hills.scores.get(order, 100.0))

    @staticmethod
    def weigh(hills, order, edges, rises):
        assert sorted(order.tolist()) == list(range(hills.p + 1))
        assert order[0] == hills.p
        rises[:] = [hills.worth.get(edge, 50.0) for edge in map(tuple, edges.tolist())]


@contextmanager
def by_hand():
    """The search asks hills instead of the core."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_core", HillsCore)
        yield


def searched(hills, jobs=1, seed=1, told=None):
    with by_hand():
        return search_orders(hills, np.random.default_rng(seed), jobs, told)


def front(*first, p=15):
    """An order that begins with some variables."""
    return (*first, *(k for k in range(p) if k not in first))


def test_options_of_a_walk_are_given_in_penalties():
    hills = Hills(3)
    with by_hand():
        walk_from(hills, [2, 0, 1])
        assert hills.asked.pop() == ((2, 0, 1), (0, 0), 0, 0, (1e-7, 1000.0), (0, 1, 2), (True, 0))
        options = {"steps": (0, 2), "sweeps": 3, "careful": 4, "thorough": False, "grain": 0.5, "far": 2.0}
        walk_from(hills, [2, 0, 1], **options, window=5, to_revisit=[0, 2])
    assert hills.asked.pop() == ((2, 0, 1), (0, 2), 3, 4, (5.0, 20.0), (0, 2), (False, 5))


def test_all_orders_are_compared_up_to_fourteen_variables():
    for p in (2, 14):
        hills = Hills(p)
        assert searched(hills).starts == 0
        assert not hills.asked
    assert searched(Hills(15, ends=[5.0, 5.0])).starts == 2


def test_a_given_order_of_many_variables_is_only_read():
    line = np.tril(np.ones((15, 15), bool), -1)  # the last first
    hills = Hills(edges=[(0, 14)], before=line)
    optimum = searched(hills)
    assert hills.asked == []
    assert hills.read == [tuple(range(14, -1, -1))]
    assert (optimum.starts, optimum.reached, optimum.margins) == (0, 0, {(0, 14): math.inf})


def test_walks_begin_at_random_and_as_knowledge_asks():
    for seed in range(10):
        rng = np.random.default_rng(880430 + seed)
        label = rng.permutation(15)
        before = np.triu(rng.random((15, 15)) < 0.2, 1)[np.ix_(label, label)]
        hills = Hills(ends=[5.0, 5.0], before=before)
        searched(hills, seed=seed)
        draws = np.random.default_rng(seed)
        for start, *_ in hills.asked[:2]:
            assert list(start) == closest(draws.permutation(15).tolist(), before)
            draws.integers(2**31)


def test_walks_are_polished():
    """From where they ended, without crossing hills; the better counts."""
    hills = Hills(scores={front(): 6.0}, ends=[5.0, 5.5])
    assert searched(hills).best.score == 5.0
    everyone = tuple(range(15))
    assert [asked[1:] for asked in hills.walks] == [
        ((2700, 2700), 20, 20, (0.5, 1000.0), everyone, (False, 0))
    ] * 2
    assert hills.polishes == [(front(), (0, 0), 20, 20, (1e-7, 1000.0), everyone, (True, 6))] * 2
    assert not hills.turns
    assert searched(Hills(scores={front(): 4.0}, ends=[5.0, 5.5])).best.score == 4.0


def test_more_walks_are_made_if_the_polished_ones_differ():
    """Of one variable more than a hundred this is not asked, and only the best walk is polished."""
    for p, ends, walks, polished in ((15, [5.0, 5.9], 2, 2), (15, [5.0, 6.1], 4, 3), (101, [5.0, 6.1], 2, 1)):
        hills = Hills(p, ends=ends)
        assert searched(hills).starts == len(hills.walks) == walks
        assert len(hills.polishes) == polished
        assert [asked[-1] for asked in hills.walks] == [(False, 0)] * 2 + [(True, 6)] * (walks - 2)


def apart(count):
    """Ends of walks, each with other changes and worse than the last."""
    return [(5.0 + 40 * k, k) for k in range(count)]


def some_edges(p, count=40):
    return list(itertools.islice(((i, j) for i in range(1, p) for j in range(i)), count))


@pytest.mark.parametrize(
    ("p", "ends", "reached", "efforts"),
    [
        (15, [5.0, 5.5], 2, [12, 12]),
        (15, [5.0, 50.0], 1, [12, 12, 12, 12]),  # the same changes in the first round, but one much worse
        (15, [5.0, (50.0, 1), 5.0, (60.0, 2)], 2, [12, 12, 25, 25]),
        (41, [5.0, 5.5], 2, [6, 6]),
        (51, [*apart(5), 6.0], 2, [3, 3, 6, 6, 12, 12]),
        (101, apart(16), 1, [3, 3, 6, 6, 12, 12, 25, 25, *[40] * 4, *[60] * 4]),
        (100, apart(20), 1, [3, 3, 6, 6, 12, 12, 25, 25, *[40] * 4, *[60] * 8]),
        (50, apart(22), 1, [6, 6, 12, 12, 25, 25, *[40] * 4, *[60] * 8, *[120] * 4]),
        (40, apart(20), 1, [12, 12, 25, 25, *[40] * 4, *[60] * 8, *[120] * 4]),
    ],
)
def test_rounds_of_walks_go_on_until_two_agree(p, ends, reached, efforts):
    hills, told, walks = Hills(p, ends=ends, edges=some_edges(p, 25)), [], len(efforts)
    optimum = searched(hills, told=lambda *what: told.append(what))
    assert (optimum.starts, optimum.reached) == (walks, reached)
    assert [asked[1] for asked in hills.walks] == [(effort * p**2,) * 2 for effort in efforts]
    assert len({order for order, *_ in hills.walks}) == walks
    assert [done for done, _, what in told if what == "walks"] == list(range(1, walks + 1))
    assert list(dict.fromkeys(what for *_, what in told)) == [
        "walks",
        "directions reversed",
        "changes left out",
    ]
    assert optimum.best.score == 5.0


@pytest.mark.parametrize(
    ("p", "ends", "starts", "reached"),
    [
        # 10 * 60 * 0.02 = 12; the first two changes are worth no more than a penalty, the third is.
        (60, [100.0, (111.9, 2)], 4, 2),
        (60, [100.0, (112.0, 2)], 4, 1),
        (60, [100.0, (111.9, 3)], 4, 1),
        (60, [(100.0, 2), (111.9, 0), (500.0, 2)], 4, 2),
        (60, [(100.0, 3), (111.9, 0), (500.0, 3)], 4, 1),  # the other is sure of a change that the best lacks
        (20, [100.0, 109.9], 4, 2),  # at least one penalty
        (20, [100.0, 110.0], 4, 1),
        (20, [100.0, (150.0, 4), (101.0, 1), (160.0, 5)], 4, 2),  # of four walks two agree
        (20, [100.0, (150.0, 4), (101.0, 3), (160.0, 5)], 8, 1),
    ],
)
def test_walks_agree_if_little_sets_them_apart(p, ends, starts, reached):
    """Ends that are not given have all changes, and a score of 1000."""
    edges = some_edges(p)
    worth = {edges[0]: 10.0, edges[1]: 9.0, edges[2]: 10.1}
    optimum = searched(Hills(p, edges=edges, ends=ends, worth=worth, scores={front(p=p): 2000.0}))
    assert (optimum.starts, optimum.reached) == (starts, reached)


def test_a_direction_is_turned_from_three_starts():
    hills = Hills(edges=[(3, 1), (4, 0)], ends=[50.0, 50.0])
    optimum = searched(hills)
    turns = hills.turns[:3]
    # 3 goes before 1; 1 goes behind 3; and 1 waits for 3 where it stands.
    assert [asked[0] for asked in turns] == [front(0, 3, 1, 2), front(0, 2, 3, 1), front(0, 2, 3, 1)]
    # Only those between that take part are restless: 1 and 3.
    assert turns[0][1:] == turns[1][1:] == ((0, 0), 20, 0, (0.5, 100.0), (1, 3), (True, 0))
    assert turns[2][1:] == ((0, 6 * 15**2), 20, 0, (0.5, 1000.0), tuple(range(15)), (True, 0))
    assert optimum.margins == {(3, 1): 50.0, (4, 0): 50.0}


@pytest.mark.parametrize(
    ("rise", "looked_at"), [(3.9, True), (4.1, False), (9.9, False), (10.1, True), (17.9, True), (18.1, False)]
)
def test_a_turned_order_is_looked_at_closely_if_it_may_be_better_or_settles_something(rise, looked_at):
    hills = Hills(edges=[(1, 0)], ends=[50.0, 50.0], scores={front(1, 0): 50 + rise})
    assert searched(hills).margins == {(1, 0): pytest.approx(rise)}
    assert [asked[2:4] for asked in hills.turns] == [(20, 0)] * 3 + [(0, 2)] * looked_at


def test_a_direction_beyond_doubt_is_not_walked_from():
    for score, walks in ((129.9, 3), (130.1, 0)):
        hills = Hills(edges=[(1, 0)], ends=[50.0, 50.0], scores={front(1, 0): score})
        assert searched(hills).margins == {(1, 0): pytest.approx(score - 50)}
        assert len(hills.turns) == walks


def test_every_change_is_left_out_once():
    """From the best order; restless are those that take part, or are much like effect or cause."""
    alike = [(1, 7, 0.71), (8, 3, -0.9), (3, 9, 0.69), (2, 10, 0.9)]
    without = {(3, 1): 75.0, (4, 0): 110.0}
    hills = Hills(edges=[(3, 1), (4, 0)], ends=[50.0, 50.0], without=without, alike=alike, worth={(4, 0): 9.0})
    optimum = searched(hills)
    options = (front(), (0, 0), 20, 0, (0.5, 100.0))
    assert hills.barred == [
        ((3, 1), *options, (0, 1, 3, 4, 7, 8), (True, 0)),
        ((4, 0), *options, (0, 1, 3, 4), (True, 0)),
    ]
    # What it is worth along the best order, or by the orders met that do without, whichever is less.
    assert optimum.rises == {(3, 1): 25.0, (4, 0): 9.0}
    assert [optimum.rise(edge) for edge in optimum.rises] == [25.0, 9.0]
    assert optimum.margins == {(3, 1): 50.0, (4, 0): 50.0}


def test_an_order_with_a_change_the_other_way_round_is_one_with_a_change():
    """Without a direction the score rises by its margin at most; without either, that does not count."""
    edges = [(1, 0), (0, 1)]
    hills = Hills(edges=edges, ends=[50.0, 50.0], scores={front(1, 0): 52.0}, without={(1, 0): 90.0})
    optimum = searched(hills)
    assert optimum.margins == {(1, 0): 2.0}
    assert optimum.rises == {(1, 0): 40.0}
    assert optimum.rise((1, 0)) == 2.0
    assert optimum.rise((1, 0), directed=False) == 40.0


def test_a_gain_is_left_out_as_one_and_the_effects_it_multiplies_are_turned_one_by_one():
    hills = Hills(
        edges=[(3, 3), (4, 0)],
        gains={3: [1, 2]},
        ends=[50.0, 50.0],
        scores={front(0, 2, 3, 1): 57.0},
        without={(3, 3): 75.0, (4, 0): 110.0},
    )
    optimum = searched(hills)
    assert optimum.best.gains.tolist() == [k == 3 for k in range(15)]
    assert optimum.margins == {(3, 1): 7.0, (3, 2): 50.0, (4, 0): 50.0}
    assert optimum.rises == {(3, 3): 25.0, (4, 0): 50.0}
    assert [barred for barred, *_ in hills.barred] == [(3, 3), (4, 0)]
    # Without the gain none of its effects would have changed; a direction may be reversed for less.
    assert optimum.rise((3, 1)) == 7.0
    assert optimum.rise((3, 1), directed=False) == optimum.rise((3, 2)) == 25.0
    assert optimum.rise((3, 3)) == 25.0


def test_between_two_variables_something_changes_if_the_gain_of_the_later_one_does():
    changed = np.zeros((4, 4), bool)
    changed[2, 2] = changed[3, 0] = True
    found = search.Found((1, 2, 0, 3), 0.0, changed, *np.zeros((2, 4), bool), np.zeros(4))
    pairs = {frozenset(pair) for pair in itertools.combinations(range(4), 2) if found.changes_between(*pair)}
    assert pairs == {frozenset((1, 2)), frozenset((0, 3))}
    assert all(
        found.changes_between(i, j) == found.changes_between(j, i)
        for i, j in itertools.product(range(4), repeat=2)
    )
    assert [found.changes_between(k, k) for k in range(4)] == [False, False, True, True]
    assert found.before(0) == [1, 2]
    assert found.gains.tolist() == [False, False, True, False]


def test_a_change_beyond_doubt_is_not_walked_from():
    hills = Hills(edges=[(3, 1)], ends=[50.0, 50.0], without={(3, 1): 130.1})
    assert searched(hills).rises == {(3, 1): 50.0}
    assert hills.barred == []


@pytest.mark.parametrize(
    ("worth", "correlation", "walks"), [(14.9, 0.91, 8), (15.1, 0.91, 2), (14.9, 0.89, 2), (14.9, -0.91, 8)]
)
def test_more_walks_are_made_where_a_copy_may_stand_for_a_cause_of_a_weak_change(worth, correlation, walks):
    """All of them end finely; those of the first round are polished."""
    hills = Hills(edges=[(3, 1)], ends=[50.0] * 8, worth={(3, 1): worth}, alike=[(1, 7, correlation)])
    optimum = searched(hills)
    assert (optimum.starts, optimum.reached) == (walks, walks)
    if walks == 8:
        assert len(hills.polishes) == 3  # two of the first round, and the best of all
        assert [asked[1:4] for asked in hills.walks] == [((2700, 2700), 20, 20)] * 8
        assert {asked[-1] for asked in hills.walks[2:]} == {(True, 6)}


@pytest.mark.parametrize("known", [False, True])
def test_a_variable_gets_the_predecessors_that_it_has_where_it_costs_less(known):
    """Of two walks one is better as a whole, the other at one variable; together they are best."""
    p, before = 15, np.zeros((15, 15), bool)
    before[6, 7] = known  # then 7 has to wait for 6
    both, score = (front(), 10.0) if known else (front(0, 1, 2, 3, 7, 4), 7.0)
    hills = Hills(p, scores={front(): 10.0, front(7, 3): 20.0, front(0, 1, 2, 3, 7, 4): 7.0}, before=before)

    def ended(order, cheap):
        changed, costs = np.zeros((p, p), bool), -30.0 * np.eye(p)[cheap]
        marks = np.zeros((2, p), bool)
        return search.Found(order, hills.scores[order], changed, *marks, costs)

    with by_hand():
        best, tried = search._combine(hills, [ended(front(7, 3), 4), ended(front(), 5)])
    assert [item.order for item in tried] == [both]  # before 4 those that are before it there
    assert (best.order, best.score) == (both, score)


def test_an_order_that_is_better_without_a_change_becomes_the_best():
    hills = Hills(edges=[(1, 0), (2, 1)], ends=[5.0, 5.0], without={(1, 0): 3.0})
    optimum = searched(hills)
    assert optimum.best.score == 3.0
    assert optimum.best.changed.sum() == 1
    assert optimum.rises.keys() == optimum.margins.keys() == {(2, 1)}


def test_many_variables_are_turned_from_two_starts():
    for p, starts, sweeps in ((40, 3, 7), (41, 2, 7), (10**2, 2, 3)):
        hills = Hills(p, edges=[(1, 0)], ends=[50.0, 50.0])
        searched(hills)
        assert [asked[2] for asked in hills.turns[:2]] == [sweeps] * 2
        assert len(hills.turns) == starts


def test_a_direction_that_is_known_is_not_turned():
    before = np.zeros((15, 15), bool)
    before[0, 1] = True
    hills = Hills(edges=[(1, 0)], ends=[5.0, 5.0], before=before)
    assert searched(hills).margins == {(1, 0): math.inf}
    assert not hills.turns


def test_an_order_that_is_better_turned_becomes_the_best():
    hills = Hills(edges=[(1, 0), (2, 1)], ends=[5.0, 5.0], scores={front(): 5.0, front(1, 0): 3.0})
    optimum = searched(hills)
    assert optimum.best.order == front(1, 0)
    assert optimum.best.score == 3.0
    # There 1 has no changed cause; what is found behind 1 stays, and turning it costs 97.
    assert optimum.margins == {(2, 1): 97.0}
    assert (optimum.starts, optimum.reached) == (2, 0)


@pytest.mark.parametrize("jobs", [2, 3])
def test_many_turns_come_back_in_order_from_several_threads(jobs):
    edges = [(i, j) for i in range(1, 8) for j in range(i)]
    scores = {front(): 5.0} | {front(*range(k), k + 1, k): 20.0 + k for k in range(7)}
    counts = []
    one, several = (
        searched(Hills(edges=edges, ends=[5.0, 5.0], scores=scores), n, told=lambda *what: counts.append(what))
        for n in (1, jobs)
    )
    assert one.margins == several.margins
    assert len(set(one.margins.values())) > 5
    assert sorted(counts[: len(counts) // 2]) == sorted(counts[len(counts) // 2 :])
    assert (one.best.order, one.best.score) == (several.best.order, several.best.score)


def test_where_nothing_changed_workers_have_nothing_to_do():
    rows = np.random.default_rng(3).standard_normal((400, 18))
    result = dd.DifferenceDAG(n_jobs=2).fit(rows[:200], rows[200:]).result_
    assert result.edge_list == ()
