"""Neighbourhoods, tails, drawn orders, stand-ins and shape against versions written out in loops."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from diffdag.ordersearch import few_rows, neighbourhood, null_splits, parent_sets, screen, shape, stand_ins
from diffdag.ordersearch.adaptive import sharpen
from diffdag.ordersearch.parent_sets import Family
from diffdag.ordersearch.search import (
    JointProblem,
    Problem,
    correlations,
    read_order,
    search_orders,
    weigh_changes,
)
from diffdag.precision.problem import standardise
from diffdag.tables.moments import Moments


def chains(seed, n=(150, 110), p=9):
    """Two tables of a chain with shortcuts; one effect, one mean and one noise variance differ."""
    rng = np.random.default_rng(seed)
    found = []
    for k, own in enumerate(n):
        table = rng.standard_normal((own, p))
        table[:, min(5, p - 1)] *= 1 + 0.8 * k
        for j in range(1, p):
            table[:, j] += 0.8 * table[:, j - 1] + 0.4 * table[:, max(j - 3, 0)] * (j > 2)
        table[:, 2] += k * table[:, 0]
        found.append(table + 0.5 * k)
    return found


class Exploration:
    """What `explore` does, one variable and one pair at a time."""

    def __init__(self, one, two, n1, n2, difference):
        self.one, self.two, self.n1, self.n2, self.difference = one, two, n1, n2, difference
        self.both, self.p = (n1 * one + n2 * two) / (n1 + n2), len(one)
        self.least = 1 - math.exp(-(2 * math.log(self.p) + math.log(n1 + n2)) / (n1 + n2))
        self.error = math.sqrt(1 / n1 + 1 / n2)
        self.ranks, self.given, self.moves = {}, {}, np.zeros(self.p)

    def regress(self, i, members):
        s = self.both
        beta = np.linalg.solve(s[np.ix_(members, members)], s[members, i])
        weights = np.eye(self.p)[i]
        weights[members] -= beta
        left = weights @ s @ weights
        inverse = np.linalg.inv(s[np.ix_(members, members)])
        return weights, left, beta / np.sqrt(left * np.diag(inverse) / (self.n1 + self.n2))

    def share(self, i, members, j):
        """The share of what is left of i that j explains besides."""
        before, after = self.regress(i, members)[1], self.regress(i, [*members, j])[1]
        return 1 - after / before

    def look(self, i, members):
        """Remember suspects; what would explain more than its share if it alone were added as it is."""
        weights, left, strengths = self.regress(i, members)
        self.moves[i] = max(
            self.moves[i],
            abs(weights @ self.difference) / math.sqrt(left) / self.error,
            abs(weights @ (self.one - self.two) @ weights) / left / self.error / math.sqrt(2),
        )
        found = []
        for j in set(range(self.p)) - {i}:
            unit = math.sqrt(left * self.both[j, j])
            t = abs(weights @ (self.one - self.two)[:, j]) / unit / self.error
            q = abs(weights @ self.both[:, j]) / unit
            if j not in members and q**2 > self.least:
                found.append((q, j))
            q = abs(strengths[members.index(j)]) if j in members else q * math.sqrt(self.n1 + self.n2)
            rank, pair = t**2 + min(q, t) ** 2, (min(i, j), max(i, j))
            if rank > 1 and t > math.sqrt(0.5) and rank > self.ranks.get(pair, 0) * (1 + 1e-4):
                self.ranks[pair], self.given[pair] = rank, (i, j, tuple(k for k in members if k != j))
        return [j for _, j in sorted(found, reverse=True)]

    def choose(self, i, members, candidates, without):
        chosen, left = [], [j for j in candidates if j not in without]
        for _ in range(10):
            if len(chosen) < len(members):
                chosen.append(members[len(chosen)])
                continue
            shares = {j: self.share(i, chosen, j) for j in left if j not in chosen}
            best = max(shares, key=shares.get, default=None)
            if best is None or shares[best] <= self.least:
                break
            chosen.append(best)
        return chosen


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_neighbourhoods_are_those_of_loops(seed):
    tables = chains(seed)
    difference = np.linspace(-0.4, 0.5, 9)
    problem = standardise(*(Moments.from_array(table) for table in tables))
    every = np.arange(9)
    one, two = (np.asarray(own, float) for own in problem.at((np.repeat(every, 9), np.tile(every, 9))))
    plain = Exploration(one.reshape(9, 9), two.reshape(9, 9), 150, 110, difference)
    found = neighbourhood.explore(problem, 150, 110, screen.silent, difference)
    nearest = [plain.look(i, []) for i in range(9)]
    around = [[] for _ in range(9)]
    for turn in range(3):
        for i in range(9):
            without = [own[0] for own in around[i] if own]
            first = plain.choose(i, [], nearest[i], without)
            last = first
            if first:
                if turn == 0:
                    plain.moves[i] = 0.0
                last = plain.choose(i, first, plain.look(i, first), without)
            if last != first:
                plain.look(i, last)
            around[i].append(last)
    for i in range(9):
        assert [own.of(i) for own in found.around] == around[i]
        assert found.near(i) == list(
            dict.fromkeys(k for turn in itertools.zip_longest(*around[i]) for k in turn if k is not None)
        )
    assert {
        (min(own[:2]), max(own[:2])): pytest.approx(own.rank, rel=1e-3) for own in found.suspects
    } == plain.ranks
    clear = [pair for pair, rank in plain.ranks.items() if rank > 4]
    told = {(min(own[:2]), max(own[:2])): (own.effect, own.cause, own.given) for own in found.suspects}
    for pair in clear:
        one, two = told[pair], plain.given[pair]
        assert one == two or (one[2] == two[2] == () and one[:2] == two[1::-1])  # given nothing both rank alike
    bound = stats.norm.isf(0.25 / 9)
    assert list(found.moved) == [k for k in np.argsort(-plain.moves) if plain.moves[k] > bound]
    assert found.suspects[0].rank == max(own.rank for own in found.suspects)


def test_a_copy_is_no_neighbour():
    tables = chains(4)
    for table in tables:
        table[:, 8] = table[:, 0] + 1e-3 * table[:, 8]
    problem = standardise(*(Moments.from_array(table) for table in tables))
    found = neighbourhood.explore(problem, 150, 110, screen.silent)
    assert all(8 not in own.of(0) and 0 not in own.of(8) for own in found.around)
    assert all({0, 8} - set(own.of(k)) for own in found.around for k in range(9))


# Few rows


def pareto_tail(observed, null, excesses, shape):
    """The tail beyond the largest values of one column."""
    start = sorted(null)[-excesses - 1]
    if observed <= start:
        return (1 + sum(value >= observed for value in null)) / (len(null) + 1)
    scale = np.mean(sorted(null)[-excesses:] - start) * (1 - shape)
    return excesses / (len(null) + 1) * (1 + shape * (observed - start) / scale) ** (-1 / shape)


@pytest.mark.parametrize(("count", "excesses"), [(400, 40), (1000, 60), (90, 9), (30, 8), (8, 7)])
def test_tails_are_those_of_pareto_distributions(count, excesses):
    rng = np.random.default_rng(5)
    null = np.column_stack(
        [rng.exponential(size=count), rng.standard_t(3, count) ** 2, rng.uniform(size=count)]
    )
    shapes = []
    for column in null.T:
        ranked = np.sort(column)[::-1]
        excess = ranked[:excesses] - ranked[excesses]
        above = (np.arange(excesses) + 0.35) / excesses
        weighted = np.mean(above * excess)
        own = 2 - excess.mean() / max(excess.mean() - 2 * weighted, 1e-9)
        shapes.append(float(np.clip(own, -few_rows.HEAVIEST, few_rows.HEAVIEST)))
    common = max(np.mean(shapes), 0.0)
    for value in (0.1, 0.9, 3.0, 30.0):
        found = few_rows.tail_pvalues(np.full(3, value), null)
        for pvalue, column, own in zip(found, null.T, shapes, strict=True):
            wide = min(max(common, (own + common) / 2) + few_rows.CAUTION / excesses, few_rows.HEAVIEST)
            assert pvalue == pytest.approx(pareto_tail(value, column, excesses, wide))


def test_means_of_rows_that_are_drawn():
    rows = np.arange(40.0)[:, None] ** 2
    rng = np.random.default_rng(6)
    np.testing.assert_array_equal(few_rows.draw_means(rows, 1, rng), rows)
    in_turn = few_rows.draw_means(rows, 4, rng, in_sequence=True)
    np.testing.assert_allclose(in_turn[:, 0], [rows[k : k + 4].mean() for k in range(37)])
    drawn = few_rows.draw_means(rows, 40, rng)
    np.testing.assert_allclose(drawn, rows.mean())  # each row once
    assert len(drawn) == few_rows.LEAST_DRAWN
    long = np.arange(5.0 + few_rows.MOST_DRAWN)[:, None]
    assert len(few_rows.draw_means(long, 2, rng)) == few_rows.MOST_DRAWN
    some = few_rows.draw_means(long, 1, rng)[:, 0]
    assert len(some) == few_rows.MOST_DRAWN
    assert (np.diff(some) > 0).all()
    assert len(few_rows.draw_means(long, 6, rng, in_sequence=True)) == few_rows.MOST_DRAWN


def test_the_variables_that_moved_most_are_ordered():
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((50, 6)) * 10.0 ** np.arange(6) + 3.0
    few = rows.mean(axis=0) + rows.std(axis=0) * [0.1, -3.0, 0.2, 2.0, -0.5, 0.0]
    before = np.zeros((6, 6), bool)
    before[4, 1] = True
    found = few_rows.Reference.of(rows, few, rng, before, most=3)
    assert found.kept.tolist() == [1, 3, 4]
    bit = found.orders.families[2].candidates.tolist()
    assert 0 not in bit  # the second of them may not come before the last
    assert [own.regressions.target for own in found.parents()] == list(range(6))
    assert found.parents()[0].regressions.members.shape == (1, 0)


# Orders that are drawn


def families(seed, before, most=3, p=5):
    table = chains(seed, (60, 10), p)[0]
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    scatter = table.T @ table
    chosen = parent_sets._most_adjacent(parent_sets.first_adjacency(scatter / 60, 60), most, before)
    return scatter, [Family.of(scatter, 60, i, own) for i, own in enumerate(chosen)]


def test_candidates_are_the_most_adjacent_that_may_come_before():
    adjacency = np.array(
        [[0.0, 3.0, 1.0, 2.0], [3.0, 9.0, 5.0, 4.0], [1.0, 5.0, 0.0, 6.0], [2.0, 4.0, 6.0, 7.0]]
    )
    before = np.zeros((4, 4), bool)
    before[1, 2] = True  # so that 2 is no candidate of 1
    found = parent_sets._most_adjacent(adjacency, 2, before)
    assert [own.tolist() for own in found] == [[1, 3], [3, 0], [3, 1], [2, 1]]


@pytest.mark.parametrize("known", [(), ((3, 0),), ((3, 0), (0, 2), (4, 1))])
def test_orders_are_drawn_as_they_weigh(known):
    """As often as what sets of parents weigh says, of all orders that agree with what is known."""
    before = np.zeros((5, 5), bool)
    for a, b in known:
        before[a, b] = True
    _, own = families(8, before)
    rng = np.random.default_rng(9)
    start = np.array([parent_sets._random_order(before, rng) for _ in range(300)])
    masks, orders = parent_sets.sample_orders(own, start, before, rng, 24)

    def mask(family, earlier):
        return sum(1 << k for k, other in enumerate(family.candidates.tolist()) if other in earlier)

    for order, last in zip(orders, masks[-300:], strict=True):
        assert [mask(family, order[: order.tolist().index(i)]) for i, family in enumerate(own)] == last.tolist()
    assert len(masks) == 300 * 16  # a third is left out
    weights = {}
    for order in itertools.permutations(range(5)):
        if all(order.index(a) < order.index(b) for a, b in known):
            sums = [family.sums[mask(family, order[: order.index(i)])] for i, family in enumerate(own)]
            weights[order] = math.exp(sum(sums) - sum(family.sums[-1] for family in own))
    total = sum(weights.values())
    for i, family in enumerate(own):
        for k in range(len(family.candidates)):
            exact = sum(
                weight
                for order, weight in weights.items()
                if order.index(family.candidates[k]) < order.index(i)
            )
            assert np.mean(masks[:, i] >> k & 1) == pytest.approx(exact / total, abs=0.05)


def test_odds_of_adjacent_variables_are_those_of_drawn_orders():
    before = np.zeros((5, 5), bool)
    scatter, own = families(10, before, most=2)
    rng = np.random.default_rng(11)
    start = np.array([rng.permutation(5) for _ in range(10)])
    masks, orders = parent_sets.sample_orders(own, start, before, rng, 6)
    odds = np.full((5, 5), -np.inf)
    for i, family in enumerate(own):
        gains = []
        for order, last in zip(orders[:8].tolist(), masks[-10:], strict=False):
            earlier = np.isin(np.arange(5), order[: order.index(i)])
            gains.append(np.exp(family.gains(int(last[i]), scatter, earlier)))
        odds[i] = np.log(np.maximum(np.mean(gains, axis=0), 1e-300))
        share = np.zeros(len(family.candidates))
        for mask in masks[:, i]:
            inside = [k for k in range(len(family.sums)) if k & mask == k]
            for k in inside:
                share += math.exp(family.weights[k] - family.sums[mask]) * family.regressions.members[k]
        odds[i, family.candidates] = np.log(np.maximum(share / len(masks), math.exp(parent_sets.UNLIKELY)))
    odds = np.maximum(odds, odds.T)
    found = parent_sets._next_adjacency(own, masks, orders, scatter, before)
    likely = odds > -12
    np.testing.assert_allclose(found[likely], odds[likely], atol=1e-4)
    assert likely.sum() > 8


@pytest.mark.parametrize(("rows", "most"), [(3, 1), (8, 2), (11, 2), (12, 3), (100, 4)])
def test_there_are_four_rows_for_each_candidate(rows, most):
    table = np.random.default_rng(19).standard_normal((rows, 5))
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    drawn = parent_sets.draw_orders(table.T @ table, rows, np.random.default_rng(20))
    assert {len(family.candidates) for family in drawn.families} == {most}
    assert drawn.masks.shape[1] == 5


def test_places_that_are_allowed():
    rng = np.random.default_rng(12)
    first, last = rng.random((2, 200, 4)) < 0.25
    found = parent_sets._allowed(first, last)
    for one, two, own in zip(first, last, found, strict=True):
        assert own.tolist() == [not one[k:].any() and not two[:k].any() for k in range(5)]


def test_many_parents_add_nothing_where_rows_are_few():
    rng = np.random.default_rng(13)
    table = rng.standard_normal((12, 6))
    table[:, 0] = table[:, 1:].sum(axis=1) + 0.05 * table[:, 0]
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    scatter, earlier = table.T @ table, np.ones(6, bool)
    for count in (2, 3):
        family = Family.of(scatter, 12, 0, np.arange(1, 1 + count))
        sized = family.regressions.sizes[int(np.argmax(family.weights))]
        gains = family.gains(2**count - 1, scatter, earlier)
        assert (gains.max() <= 0) == (sized >= 3)
        assert np.isneginf(gains[: count + 1]).all()


# Chance, stand-ins and shape


def test_sums_of_samples_count_rows():
    rng = np.random.default_rng(14)
    wide = np.column_stack([rng.standard_normal((20, 2)), np.ones(20)])
    times = rng.integers(0, 3, (4, 20)).astype(float)
    for own, found in zip(times, null_splits._sums(wide, times), strict=True):
        sample = np.repeat(wide, own.astype(int), axis=0)
        np.testing.assert_allclose(found, sample.T @ sample + 20e-9 * np.diag([1, 1, 0]), rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("ratio", "spread", "inflated"), [(2.0, 0.1, True), (1.1, 0.01, False), (1.5, 1.0, False)]
)
def test_penalties_are_inflated_where_rows_clearly_gain_more(ratio, spread, inflated):
    swing = np.tile([1 - spread, 1 + spread], 8)[:, None] * np.ones(3)
    found = null_splits.Chance(ratio * swing, swing).inflation
    assert list(found) == pytest.approx([ratio if inflated else 1.0] * 3)
    assert list(null_splits.Chance(swing / ratio, swing).inflation) == [1.0] * 3


def problem_of(seed, p=5, n=(300, 250)):
    tables = chains(seed, n, p)
    one, two = (Moments.from_array(table) for table in tables)
    return Problem.from_scatter(
        one.scatter, two.scatter, *n, False, np.zeros((p, p), bool), p, gains=False
    ), tables


def test_sets_that_may_change_in_place_of_an_effect(monkeypatch):
    """The cause alone, and with what else changes, or all of that but one; with the intercept if it moved."""
    asked = []
    monkeypatch.setattr(
        stand_ins.Node, "cost", lambda _, own, two: asked.append((tuple(own), two)) or 10.0 + len(asked)
    )
    changed, other = np.zeros((2, 6, 6), bool)
    changed[4, [0, 1, 2]] = True
    other[3, [1]] = True
    best = SimpleNamespace(changed=changed, shifted=np.array([0, 0, 0, 0, 1, 0], bool))
    said = SimpleNamespace(
        changed=other,
        shifted=np.zeros(6, bool),
        score=100.0,
        costs=np.arange(6.0),
        before=lambda _: [5, 0, 1, 2],
    )
    problem = SimpleNamespace(p=6, rules=SimpleNamespace(equal=True))
    assert stand_ins._score(problem, best, said, (4, 0), (4, 1)) == 100.0 - 4.0 + 11.0
    assert {own for own, _ in asked} == {(1, 2), (1,), (1, 2, 6), (1, 6)}
    assert not any(two for _, two in asked)
    asked.clear()
    problem.rules.equal, best.shifted = False, np.zeros(6, bool)
    assert stand_ins._score(problem, best, said, (4, 0), (3, 5)) == 100.0 - 3.0 + 11.0
    sets = {(5, 0, 1, 2), (5, 1, 2), (5, 0, 2), (5, 0, 1), (5, 1), (5,)}
    assert {own for own, _ in asked} == sets
    assert {two for _, two in asked} == {False, True}
    assert stand_ins._score(problem, best, said, (4, 0), (3, 1)) == 100.0


def test_orders_in_which_another_cause_comes_first():
    before = np.zeros((5, 5), bool)
    before[3, 4] = True
    problem, best = SimpleNamespace(before=before), SimpleNamespace(order=(0, 1, 2, 3, 4))
    assert list(stand_ins._orders(problem, best, (2, 1))) == [(0, 1, 2, 3, 4)]
    assert list(stand_ins._orders(problem, best, (1, 3))) == [(0, 3, 1, 2, 4), (0, 2, 3, 1, 4)]
    assert list(stand_ins._orders(problem, best, (3, 4))) == []
    for order in stand_ins._orders(problem, best, (1, 4)):
        assert order.index(4) < order.index(1)
        assert order.index(3) < order.index(4)


def test_reversed_orders_keep_what_is_known():
    before = np.zeros((4, 4), bool)
    before[1, 2] = True
    found = shape._reversed(SimpleNamespace(before=before), (0, 1, 2, 3), 2, 0)
    assert len(found) == 2
    for order in found:
        assert order.index(2) < order.index(0)
        assert order.index(1) < order.index(2)
    assert shape._reversed(SimpleNamespace(before=before), (0, 1, 2, 3), 2, 1) == []


def test_residuals_along_an_order_are_those_of_regressions_in_each_table():
    tables = chains(15, (90, 40), 4)
    own, order = shape.Shape.of(tables, 1000), [2, 0, 3, 1]
    assert (own.worth, own.rows) == (130, 130)
    assert shape.Shape.of(tables, 70).worth == 70
    expected = []
    for table in (own - own.mean(axis=0) for own in tables):
        columns = []
        for t, i in enumerate(order):
            x = table[:, order[:t]]
            left = table[:, i] - x @ np.linalg.lstsq(x, table[:, i], rcond=None)[0]
            columns.append(left / left.std())
        expected.append(np.column_stack(columns))
    np.testing.assert_allclose(own.residuals(order), np.vstack(expected), rtol=1e-8, atol=1e-9)
    path = shape._Path(own, order.copy())
    for place in (1, 0, 2, 1):
        path.swap(place)
        assert path.gained == pytest.approx(own.evidence(shape.negentropies(own.residuals(path.order))))


def test_shape_needs_rows_enough_and_values_that_differ():
    rng = np.random.default_rng(16)
    least = shape.ROWS_PER_VARIABLE * 3
    table = rng.standard_normal((least, 3))
    assert shape.Shape.of([table, table], 10).enough
    assert not shape.Shape.of([table, table[1:]], 10).enough
    different = math.ceil(shape.DISTINCT * least)
    table[different:, 1] = table[0, 1]
    assert shape.Shape.of([table, table], 10).enough
    table[different - 1, 1] = table[0, 1]
    assert not shape.Shape.of([table, table], 10).enough


@pytest.mark.parametrize(("more", "moved"), [(0, 1), (-1, 0)])
def test_variables_are_moved_while_that_is_little_work(monkeypatch, more, moved):
    problem, tables = problem_of(21)
    optimum, asked = search_orders(problem, np.random.default_rng(0), 1), []
    monkeypatch.setattr(shape, "MOST_MOVED", 550 * 5**2 + more)
    monkeypatch.setattr(shape, "MOST_VALUES", 1)
    monkeypatch.setattr(shape.Shape, "improved", lambda _, order, before: asked.append(order) or order)
    shape.settle_by_shape(optimum, tables, decided=True)
    assert len(asked) == moved
    shape.settle_by_shape(optimum, tables, decided=True, starts=[(4, 3, 2, 1, 0)])
    assert len(asked) == moved


def test_problems_are_in_units_of_both_tables():
    """Sums around the common mean; without what the means say, around those of each table."""
    tables = chains(22, (80, 50), 3)
    one, two = (Moments.from_array(table) for table in tables)
    before, apart = np.zeros((3, 3), bool), tables[0].mean(axis=0) - tables[1].mean(axis=0)
    problem = Problem.from_scatter(one.scatter, two.scatter, 80, 50, False, before, 3, difference=apart)
    scale = np.sqrt((tables[0].var(axis=0) + tables[1].var(axis=0)) / 2)
    middle = np.vstack(tables).mean(axis=0)
    wide = [np.column_stack([(table - middle) / scale, np.ones(len(table))]) for table in tables]
    sums = [own.T @ own for own in wide]
    np.testing.assert_allclose(problem.first, sums[0], atol=1e-9)
    np.testing.assert_allclose(problem.pooled, sums[0] + sums[1], atol=1e-9)
    determinant = np.linalg.slogdet((sums[0] + sums[1]) / 130)[1]
    assert problem.base == pytest.approx(130 / 2 * determinant)
    for own, table in zip(problem.moments, tables, strict=True):
        np.testing.assert_allclose(own.covariance(), np.cov(table / scale, rowvar=False, bias=True), rtol=1e-9)
        assert own.n == len(table)
    equal = Problem.from_scatter(one.scatter, two.scatter, 80, 50, True, before, 3, difference=apart)
    table = problem.rules.table
    np.testing.assert_allclose(equal.rules.table[4], table[4] - table[1])
    np.testing.assert_array_equal(table[:, 0], table[:, 1])  # the constant is no predecessor
    assert table.shape[1] == 4
    assert np.isinf(problem_of(23)[0].rules.table[4]).all()


def test_correlations_of_several_pairs_are_those_of_the_first():
    one, two = problem_of(24)[0], problem_of(25)[0]
    pooled = one.pooled[:5, :5]
    expected = pooled / np.sqrt(np.outer(np.diag(pooled), np.diag(pooled)))
    np.testing.assert_allclose(correlations(JointProblem((one, two))), expected)
    joint = JointProblem((one, two))
    assert (joint.p, joint.base) == (5, pytest.approx(one.base + two.base))
    assert joint.unit == pytest.approx((one.unit + two.unit) / 2)
    order = (4, 2, 0, 1, 3)
    both = [read_order(own, order) for own in (one, two)]
    said = read_order(joint, order)
    assert said.score == pytest.approx(sum(own.score for own in both))
    np.testing.assert_array_equal(said.changed, both[0].changed | both[1].changed)
    assert [own.score for own in joint.read_along(order)] == [own.score for own in both]


def test_among_all_orders_those_that_were_met_have_the_same_margins():
    """With all orders as starts, comparing what was met is comparing all."""
    rng = np.random.default_rng(17)
    tables = []
    for k, n in enumerate((400, 300)):
        table = rng.laplace(size=(n, 4))
        for j in range(1, 4):
            table[:, j] += (0.8 + 0.5 * k * (j == 2)) * table[:, j - 1]
        tables.append(table)
    one, two = (Moments.from_array(table) for table in tables)
    problem = Problem.from_scatter(
        one.scatter, two.scatter, 400, 300, False, np.zeros((4, 4), bool), 4, gains=False
    )
    optimum = search_orders(problem, rng, 1)
    every = shape.settle_by_shape(optimum, tables, decided=True)
    met = shape.settle_by_shape(optimum, tables, decided=True, starts=list(itertools.permutations(range(4))))
    assert every.best.order == met.best.order
    assert met.margins == pytest.approx(every.margins, rel=1e-5, abs=1e-5)
    assert met.rises == pytest.approx(every.rises, rel=1e-5)


def test_effects_on_sharpened_variables_are_weighed_by_their_responses():
    problem, tables = problem_of(18)
    found = read_order(problem, (0, 1, 2, 3, 4))
    centred = [(table - table.mean(axis=0)).T for table in tables]
    plain = weigh_changes(problem, found)
    assert {edge[0] for edge in plain} == {2, 3}
    none = sharpen(problem, found, centred, [])
    assert (none.rises, none.responses) == (plain, {})
    np.testing.assert_array_equal(none.found.changed, found.changed)
    assert set(sharpen(problem, found, centred, [4, 0]).responses) == {4}
    own = sharpen(problem, found, centred, [2])
    assert [edge for edge in plain if own.rises.get(edge) == plain[edge]] == [e for e in plain if e[0] == 3]
    assert own.rises[2, 0] == pytest.approx(plain[2, 0], rel=0.2)
