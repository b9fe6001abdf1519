"""Parts of the search and of its fit against regressions written out, and limits that are just reached."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from diffdag import DifferenceDAG, LinearSEM
from diffdag._base.errors import InputError
from diffdag.model.regression import regress_jointly
from diffdag.ordersearch import neighbourhood
from diffdag.ordersearch import screen as screening
from diffdag.ordersearch import search as search_module
from diffdag.ordersearch import shape as shape_module
from diffdag.ordersearch.adaptive import _with_response, pseudo_responses
from diffdag.ordersearch.blocks import _Judge
from diffdag.ordersearch.few_rows import SPREAD, Reference, log_bayes_factor, moved
from diffdag.ordersearch.fit import InBlocks, _columns, _order_among, mean_difference
from diffdag.ordersearch.mechanisms import changed_means, changed_noise
from diffdag.ordersearch.neighbourhood import (
    Explored,
    Neighbourhoods,
    _above,
    _put_largest,
    _Remembered,
    explore,
)
from diffdag.ordersearch.null_splits import heavy_columns
from diffdag.ordersearch.parent_sets import Family, first_adjacency
from diffdag.ordersearch.penalty import Inflation, penalties
from diffdag.ordersearch.search import (
    Problem,
    _exchanged,
    changed_edges,
    margins_near,
    read_order,
    search_near,
    search_orders,
)
from diffdag.ordersearch.shape import _reversed, negentropies, settle_by_shape
from diffdag.pipeline import ModelOptions, prepare, search
from diffdag.precision.problem import standardise
from diffdag.tables.align import align_tables
from diffdag.tables.moments import Moments


def rows(seed, n=(120, 90), p=7):
    """Two tables of a chain with shortcuts; the effect of the first on the third differs."""
    rng = np.random.default_rng(seed)
    found = []
    for k, own in enumerate(n):
        table = rng.standard_normal((own, p))
        for j in range(1, p):
            table[:, j] += 0.7 * table[:, j - 1]
        table[:, 2] += k * table[:, 0]
        found.append(table)
    return found


def centred(tables):
    return np.vstack([table - table.mean(axis=0) for table in tables])


@pytest.mark.parametrize(("target", "source", "others"), [(3, 2, [0, 1]), (5, 0, [4]), (6, 5, [])])
def test_an_effect_gains_what_its_t_test_says(target, source, others):
    tables = rows(1)
    judge = _Judge(*(Moments.from_array(table) for table in tables), multiple=1.0, most=9.0)
    both = centred(tables)
    regressors = [*others, source]
    design = both[:, regressors]
    inverse = np.linalg.inv(design.T @ design)
    beta = inverse @ design.T @ both[:, target]
    left = both[:, target] - design @ beta
    free = 210 - 2 - len(regressors)
    pvalue = 2 * stats.t.sf(abs(beta[-1]) / math.sqrt(left @ left / free * inverse[-1, -1]), free)
    gain = stats.chi2.isf(pvalue, 1) / 2
    assert judge.effect(target, source, regressors) == pytest.approx(gain, rel=1e-6)


@pytest.mark.parametrize(
    ("target", "causes", "earlier"),
    [(6, (0,), range(6)), (4, (), [0, 1, 2, 5]), (3, (1, 2), range(3)), (1, (0,), [0])],
)
def test_what_explains_a_variable_besides_its_causes_joins_one_by_one(target, causes, earlier):
    tables = rows(2)
    judge = _Judge(*(Moments.from_array(table) for table in tables), multiple=1.0, most=9.0)
    both, earlier = centred(tables), list(earlier)
    others = [k for k in earlier if k not in causes]

    def squares(some):
        design = both[:, [*causes, *some]]
        if not design.shape[1]:
            return float(both[:, target] @ both[:, target])
        return float(np.linalg.lstsq(design, both[:, target], rcond=None)[1][0])

    chosen, penalty = [], math.log(max(len(others), 2)) + math.log(210) / 2
    while rest := [k for k in others if k not in chosen]:
        best = min(rest, key=lambda k: squares([*chosen, k]))
        if 210 / 2 * math.log(squares(chosen) / squares([*chosen, best])) <= penalty:
            break
        chosen.append(best)
    assert judge.relevant(target, earlier, causes) == chosen


@pytest.mark.parametrize("mask", [0b111, 0b101, 0b000])
def test_a_predecessor_that_is_no_candidate_adds_what_a_larger_set_weighs(mask):
    table = centred([rows(3)[0]])
    n, p = table.shape
    table /= table.std(axis=0)
    scatter, target, candidates = table.T @ table, 4, [1, 3, 5]

    def weight(some, one=0.0):
        beta = np.linalg.solve(scatter[np.ix_(some, some)], scatter[some, target])
        left = scatter[target, target] - beta @ scatter[some, target]
        fit = (n - 1 - len(some)) / 2 * math.log1p(n) - (n - 1) / 2 * math.log(one + left)
        return fit - math.log(math.comb(p - 1, len(some)))

    family = Family.of(scatter, n, target, np.array(candidates))
    allowed = [k for at, k in enumerate(candidates) if mask >> at & 1]
    sets = [[k for at, k in enumerate(allowed) if bits >> at & 1] for bits in range(2 ** len(allowed))]
    best = max(sets, key=lambda some: weight(some, 1.0))
    earlier = np.array([k in (0, 1, 3, 6) for k in range(p)])
    gains = family.gains(mask, scatter, earlier)
    for k in range(p):
        if k in (0, 6):
            assert gains[k] == pytest.approx(weight([*best, k]) - weight(best), abs=1e-6)
        else:
            assert gains[k] == -math.inf


@pytest.fixture(scope="module")
def fit():
    options = ModelOptions()
    made = search(prepare(align_tables(*rows(4, (400, 300))), options), options)
    assert (2, 0) in made.optimum.margins
    return made


@pytest.mark.parametrize(("share", "observed"), [(0.5, 1.0), (1.0, 0.9)])
def test_what_the_rows_do_not_bear_out_falls(fit, share, observed):
    """Half a penalty is enough where all was observed, and a whole one where not."""
    inflation = fit.settings.inflation.change
    level = stats.chi2.sf(2 * share * fit.problem.unit / inflation, 1)
    known = None if observed == 1 else np.full((7, 7), observed)
    for pvalue, fallen in ((1.001 * level, True), (0.999 * level, False), (math.nan, True)):
        other = replace(fit, known_cells=known)
        for i, _ in fit.optimum.margins:
            other._regressed[i] = SimpleNamespace(
                delta_pvalue=lambda _, value=pvalue: value, gain_pvalue=pvalue
            )
        assert other.fallen == (frozenset(fit.optimum.margins) if fallen else frozenset())
    assert replace(fit, rows=None).fallen == frozenset()
    assert fit.fallen == frozenset()


def test_edges_of_a_result_are_found_where_margins_are_finite(fit):
    names, margins = fit.first.names, fit.optimum.margins
    finite = {edge: round(margin, 3) for edge, margin in margins.items() if math.isfinite(margin)}
    assert fit.margins == {f"{names[j]} -> {names[i]}": margin for (i, j), margin in finite.items()}


# Orders near others


def problem_of(tables, equal=False):
    one, two = (Moments.from_array(table) for table in tables)
    none = np.zeros((len(one.names),) * 2, bool)
    return Problem.from_scatter(one.scatter, two.scatter, one.n, two.n, equal, none, len(one.names))


def every_order(problem):
    """All orders of a few variables as they are read, by order."""
    return {order: read_order(problem, order) for order in itertools.permutations(range(problem.p))}


@pytest.fixture(scope="module")
def small():
    tables = rows(5, (300, 250), p=4)
    tables[1][:, 3] -= 0.9 * tables[1][:, 1]
    return problem_of(tables)


def test_a_search_near_an_order_turns_every_direction(small):
    orders = every_order(small)
    least = min(orders.values(), key=lambda own: own.score)
    for start in ((3, 2, 1, 0), (0, 1, 2, 3), (1, 3, 0, 2)):
        found = search_near(small, [start])
        assert found.best.score == pytest.approx(least.score, abs=0.05)
        assert set(found.margins) == set(changed_edges(small, found.best))
        for (i, j), margin in found.margins.items():
            rises = [
                own.score - found.best.score for order, own in orders.items() if order.index(i) < order.index(j)
            ]
            assert np.abs(np.array(rises) - margin).min() < 1e-6  # there is such an order
        assert found.reached == 1


def test_margins_nearby_move_one_end_past_the_other(small):
    best = search_orders(small, np.random.default_rng(0), 1).best
    found = margins_near(small, best)
    assert set(found) == set(changed_edges(small, best))
    for (i, j), margin in found.items():
        scores = []
        for mover, pivot, after in ((i, j, 0), (j, i, 1)):
            order = [k for k in best.order if k != mover]
            order.insert(order.index(pivot) + after, mover)
            scores.append(read_order(small, order).score)
        assert margin == pytest.approx(max(0.0, min(scores) - best.score))
    before = np.zeros((4, 4), bool)
    before[0, [1, 2, 3]] = True
    known = small.requiring(before)
    best = search_orders(known, np.random.default_rng(0), 1).best
    assert all((margin == math.inf) == (j == 0) for (_, j), margin in margins_near(known, best).items())


def test_ends_are_exchanged_next_to_each_other(small):
    best = read_order(small, (0, 1, 2, 3))
    found = _exchanged(3, 0, small, best, np.zeros((4, 4), bool))
    assert [own.order for own in found] == [(3, 0, 1, 2), (1, 2, 3, 0)]
    assert _reversed(small, best.order, 3, 0) == [[3, 0, 1, 2], [1, 2, 3, 0]]
    before = np.zeros((4, 4), bool)
    before[0, 3] = True
    assert _reversed(small.requiring(before), best.order, 3, 0) == []


@pytest.mark.parametrize(("worth", "share"), [((None, None), 1.0), ((60.0, None), 0.81), ((500.0, None), 1.0)])
def test_means_that_are_worth_fewer_rows_differ_by_less(worth, share):
    one, two = (Moments.from_array(table) for table in rows(6))
    one, two = replace(one, mean_rows=worth[0]), replace(two, mean_rows=worth[1])
    n1 = worth[0] or 120
    expected = math.sqrt(min((1 / 120 + 1 / 90) / (1 / n1 + 1 / 90), 1.0))
    np.testing.assert_allclose(mean_difference(one, two), (one.mean - two.mean) * expected)
    assert share == pytest.approx(expected**2, abs=0.12)
    assert mean_difference(replace(one, mean_rows=0.0), two) is None
    assert mean_difference(one, replace(two, mean_rows=0.0)) is None
    assert mean_difference(one, replace(two, mean_rows=0.5)) is not None


# What is reported, and what it has to gain


@pytest.mark.parametrize(("share", "fallen"), [(0.99, False), (1.01, True)])
def test_with_units_a_change_has_to_gain_its_whole_penalty(fit, share, fallen):
    level = share * stats.chi2.sf(2 * fit.problem.unit / fit.settings.inflation.change, 1)
    other = replace(fit, units=SimpleNamespace())
    for i, _ in fit.optimum.margins:
        other._regressed[i] = SimpleNamespace(delta_pvalue=lambda _, value=level: value, gain_pvalue=level)
    assert other.fallen == (frozenset(fit.optimum.margins) if fallen else frozenset())


@pytest.mark.parametrize(("share", "listed"), [(0.99, True), (1.01, False)])
def test_hurdles_of_variances_grow_with_the_root_of_variables(fit, share, listed):
    structure = replace(fit.structure, separate=frozenset({1}))
    pvalue = share * stats.chi2.sf(2 * (2.0 + 2.4 * math.sqrt(7)), 1)
    known = SimpleNamespace(variance_first=2.0, variance_second=0.5, variance_pvalue=pvalue)
    found = list(changed_noise(structure, {1: known}))
    assert bool(found) == listed
    for own in found:
        assert (own.variable, own.ratio, own.pvalue) == (fit.first.names[1], 4.0, pvalue)
    assert structure.hurdle(1.0, 2.0) == pytest.approx(1 + 2 * math.sqrt(7))


def test_units_raise_penalties_and_never_lower_them():
    assert Inflation(2.0, 3.0, 4.0).for_units(1.5, 0.5) == (3.0, 3.0, 4.0)
    assert Inflation(2.0, 3.0, 4.0).for_units(0.5, 2.0) == (2.0, 6.0, 4.0)
    assert Inflation(2.0, 3.0, 4.0).times(1.5) == (3.0, 4.5, 6.0)


def test_evidence_of_blocks_is_that_of_a_change_and_of_its_effect():
    tables = rows(7)
    judge = _Judge(*(Moments.from_array(table) for table in tables), multiple=1.5, most=4.0)
    found = SimpleNamespace(changed=np.zeros((7, 7), bool), separate=np.ones(7, bool), gains=np.zeros(7, bool))
    found.changed[2, 0] = True
    made = regress_jointly(judge.first, judge.second, 2, (0, 1), [0], True, False)
    alone = stats.chi2.isf(made.delta_pvalue(0), 1) / 2 / 1.5
    effect = judge.effect(2, 0, (0, 1)) / 1.5
    assert judge.evidence(found, (2, 0), (0, 1)) == pytest.approx(alone + min(alone, 4.0, effect))
    found.gains[3], found.changed[2, 0] = True, False
    made = regress_jointly(judge.first, judge.second, 3, (1, 2), [], True, True)
    alone = stats.chi2.isf(made.gain_pvalue, 1) / 2 / 1.5
    assert judge.evidence(found, (3, 3), (1, 2)) == pytest.approx(alone + min(alone, 4.0))


# Families of parents, and shape


def test_sets_of_parents_weigh_what_the_g_prior_says():
    table = centred([rows(8)[0]]) * 3.0
    n, p = table.shape
    scatter, target, candidates = table.T @ table, 4, [1, 3, 5]
    family = Family.of(scatter, n, target, np.array(candidates))
    weights = []
    for bits in range(8):
        some = [k for at, k in enumerate(candidates) if bits >> at & 1]
        left = scatter[target, target]
        if some:
            left -= scatter[some, target] @ np.linalg.solve(scatter[np.ix_(some, some)], scatter[some, target])
        fit = (n - 1 - len(some)) / 2 * math.log1p(n)
        fit -= (n - 1) / 2 * math.log1p(n * left / scatter[target, target])
        weights.append(fit - math.log(math.comb(p - 1, len(some))))
    np.testing.assert_allclose(family.weights, weights, rtol=1e-8)
    inside = [[k for k in range(8) if k & bits == k] for bits in range(8)]
    np.testing.assert_allclose(family.sums, [np.logaddexp.reduce([weights[k] for k in own]) for own in inside])
    # Averaged over two orders, of which one allows all sets and the other those of the first two.
    found = family.likely(np.array([7, 3]), np.log([0.25, 0.75]))
    for row, value in zip(found.regressions.members, found.log_probabilities, strict=True):
        bits = int(row @ [1, 2, 4])
        exact = sum(
            share * math.exp(weights[bits] - family.sums[mask])
            for mask, share in ((7, 0.25), (3, 0.75))
            if bits & mask == bits
        )
        assert math.exp(value) == pytest.approx(exact)


def test_negentropies_are_those_of_hyvarinen():
    """Two functions, over what they come to by chance: their variances beside moments up to the second."""
    rng = np.random.default_rng(9)
    u = rng.laplace(size=(400, 3))
    u = (u - u.mean(axis=0)) / u.std(axis=0)
    odd = (u * np.exp(-(u**2) / 2)).mean(axis=0)
    even = np.exp(-(u**2) / 2).mean(axis=0) - 1 / math.sqrt(2)
    z, weight = np.polynomial.hermite_e.hermegauss(80)
    weight = weight / weight.sum()

    def left(values, *others):
        for other in others:
            values = values - other * (weight @ (values * other)) / (weight @ other**2)
        return weight @ values**2

    one = np.ones_like(z)
    bell = np.exp(-(z**2) / 2)
    odds, evens = left(z * bell, z), left(bell, one, z**2 - 1)
    np.testing.assert_allclose(negentropies(u), odd**2 / odds / 2 + even**2 / evens / 2, rtol=1e-6)


# Neighbours and blocks


def test_entries_above_a_bound_are_in_units_of_row_and_column():
    rng = np.random.default_rng(10)
    block, left, spread = rng.standard_normal((3, 6)), np.array([0.5, 1.0, 2.0]), rng.uniform(0.5, 2.0, 6)
    own = np.array([4, 0, 2])
    size = np.abs(block) / np.outer(left, spread)
    i, j, found = _above(block, left, spread, 0.7, own)
    expected = [(a, b) for a in range(3) for b in range(6) if size[a, b] > 0.7 and own[a] != b]
    assert list(zip(i.tolist(), j.tolist(), strict=True)) == expected
    np.testing.assert_allclose(found, [size[at] for at in expected])


def test_the_largest_come_first_and_no_more_than_there_is_space_for():
    candidates = np.full((4, 2), -1)
    _put_largest(
        candidates,
        np.array([2, 0, 2, 2, 0, 3]),
        np.array([5, 6, 7, 8, 9, 1]),
        np.array([0.1, 0.5, 0.3, 0.2, 0.6, 0.0]),
    )
    assert candidates.tolist() == [[9, 6], [-1, -1], [7, 8], [-1, -1]]


def test_pairs_are_remembered_where_they_rank_highest(monkeypatch):
    monkeypatch.setattr(neighbourhood, "REMEMBERED", 3)
    none = Neighbourhoods.none(np.ones(9))
    chosen = none.chosen.copy()
    chosen[1, :2] = [4, 2]
    seen = (none, replace(none, chosen=chosen))
    kept = _Remembered(5.0)
    kept.add(np.array([0, 1, 2]), np.array([3, 2, 1]), np.array([9.0, 5.0, 6.0]), 0)
    assert kept.ranks.tolist() == [9.0, 6.0]
    kept.add(np.array([1, 5, 6]), np.array([2, 6, 5]), np.array([8.0, 5.5, 5.7]), 1)
    assert kept.bound == 5.0
    assert [tuple(own) for own in kept.suspects(seen)] == [(0, 3, 9.0, ()), (1, 2, 8.0, (4,))]
    kept.add(np.array([7, 7]), np.array([8, 0]), np.array([7.0, 10.0]), 0)
    assert kept.ranks.tolist() == [10.0, 9.0, 8.0]
    assert kept.bound == 8.0
    assert [tuple(own) for own in kept.suspects(seen)] == [(7, 0, 10.0, ()), (0, 3, 9.0, ()), (1, 2, 8.0, (4,))]


@pytest.mark.parametrize(
    ("n", "most", "size", "largest"),
    [(100, 60, 25, 37), (20, 60, 8, 12), (300, 100, 40, 60), (300, 30, 30, 30), (12, 60, 8, 8), (9, 60, 6, 6)],
)
def test_blocks_have_rows_enough(monkeypatch, n, most, size, largest):
    asked = []
    monkeypatch.setattr(screening, "explore", lambda *_: SimpleNamespace(suspects=()))
    monkeypatch.setattr(
        screening, "make_blocks", lambda _, *sizes, every: asked.append((*sizes, every)) or ((0, 1),)
    )
    screening.screen(SimpleNamespace(p=500), n, n + 50, most)
    assert asked == [(size, largest, False)]
    screening.screen(SimpleNamespace(p=most), n, n + 50, most)
    assert asked[-1][-1]


def test_without_a_suspect_the_first_two_columns_are_a_block():
    around = Neighbourhoods.none(np.ones(5))
    found = Explored((around,), (), ())
    assert screening.make_blocks(found, 3, 4) == ((0, 1),)
    assert screening.make_blocks(found, 3, 4, every=True) == ((0, 1, 2), (3, 4))
    chosen = around.chosen.copy()
    chosen[3, 0] = 1
    found = Explored((replace(around, chosen=chosen), around), (), (3,))
    assert screening.make_blocks(found, 3, 4) == ((3, 1),)


# Means, and what few rows say


@pytest.mark.parametrize(("share", "listed"), [(0.99, True), (1.01, False)])
@pytest.mark.parametrize("which", range(3))
def test_hurdles_of_intercepts_are_passed_by_all_three_tests(fit, share, listed, which):
    level = stats.chi2.sf(2 * (2.0 + 2.1 * math.sqrt(7)), 1)
    pvalues = [1e-30, 1e-30, 1e-30]
    pvalues[which] = share * level
    one, two, both = (SimpleNamespace(value=0.5, stderr=0.1, pvalue=own) for own in pvalues)
    known = SimpleNamespace(shifts=(one, two), shift=both)
    study = SimpleNamespace(
        structure=replace(fit.structure, shifted=frozenset({1})),
        first=fit.first,
        second=fit.second,
        units=None,
        problem=SimpleNamespace(is_free=False),
        levels=lambda _: known,
    )
    found = list(changed_means(study))
    assert [own.variable for own in found] == ([fit.first.names[1]] if listed else [])
    assert all(own.pvalue == pvalues[which] for own in found)
    assert list(changed_means(study, among=[0])) == []
    assert (
        list(changed_means(SimpleNamespace(**{**vars(study), "first": replace(fit.first, mean_rows=0.0)})))
        == []
    )
    free = SimpleNamespace(**{**vars(study), "problem": SimpleNamespace(is_free=True)})
    assert len(list(changed_means(free))) == 7 * listed
    one.value = -0.5
    assert list(changed_means(study)) == []


@pytest.mark.parametrize("factor", [1.0, 1.7])
def test_penalties_of_a_change_are_those_of_its_t_test(factor):
    made = penalties(40.0, 50.0, 4, 9, factor, change=6.0)
    for k in range(4):
        free = 90 - 3 - k
        t = stats.t.isf(stats.chi2.sf(2 * factor * 6.0, 1) / 2, free)
        assert made[0, k] == pytest.approx(free / 2 * math.log(1 + t * t / free))
    usual = penalties(40.0, 50.0, 4, 9, factor)
    np.testing.assert_allclose(made[1:4], usual[1:4])


def test_bayes_factors_are_ratios_of_student_densities():
    t, free = np.array([[0.1, 1.0, 4.0]]), np.array([[5.0], [30.0]])
    narrow, wide = stats.t.logpdf(t, free), stats.t.logpdf(t, free, scale=math.sqrt(1 + SPREAD))
    np.testing.assert_allclose(log_bayes_factor(t**2, free), wide - narrow)


@pytest.mark.parametrize("n", [12, 200])
def test_adjacent_variables_stay_correlated_whatever_is_given(n):
    table = centred([rows(11, (n, 9))[0]])
    correlations = np.corrcoef(table, rowvar=False)
    least = np.abs(correlations)
    for i, j in itertools.permutations(range(7), 2):
        for k in set(range(7)) - {i, j}:
            left = [
                table[:, a] - table[:, k] * (table[:, a] @ table[:, k]) / (table[:, k] ** 2).sum()
                for a in (i, j)
            ]
            least[i, j] = min(least[i, j], abs(np.corrcoef(left)[0, 1]))
    found = first_adjacency(correlations, n)
    assert (found <= least + 1e-9).all()
    if n < 20:
        off = ~np.eye(7, dtype=bool)
        np.testing.assert_allclose(found[off], least[off], atol=1e-9)
    else:
        omega = np.linalg.inv(correlations)
        every = np.abs(omega) / np.sqrt(np.outer(np.diag(omega), np.diag(omega)))
        off = ~np.eye(7, dtype=bool)
        np.testing.assert_allclose(found[off], np.minimum(least, every)[off], atol=1e-9)


def test_columns_with_an_excess_of_more_than_three_are_heavy():
    """The kurtosis of a column that is 1 or -1 in a share of the rows, and else 0, is one over the share."""
    table = np.zeros((600, 2))
    for column, count in ((0, 102), (1, 98)):
        table[:count, column] = np.tile([1.0, -1.0], count // 2)
    for level in (0.0, 5.0):
        assert heavy_columns([table + level, table], ["a", "b"]) == ["b"]


@pytest.mark.parametrize(("most", "free"), [(1e9, False), (-1e9, True)])
def test_means_settle_an_order_unless_covariances_lose_too_much(monkeypatch, most, free):
    tables = rows(12, (300, 250), p=4)
    tables[1][:, 1:] += 2.0
    options = ModelOptions()
    problem = search(prepare(align_tables(*tables), options), options).problem
    assert not problem.is_free
    monkeypatch.setattr(search_module, "OVERRULED", most)
    found = search_near(problem, [(3, 2, 1, 0)])
    assert found.problem.is_free == free


def test_widths_of_whitened_means_are_those_of_the_filter(fit):
    assert fit.mean_width(1) == 1.0
    assert replace(fit, mean_widths=np.arange(1.0, 8.0), rows=None).mean_width(2) == 3.0
    ratio = replace(fit, mean_widths=np.ones(7)).mean_width(2)
    assert replace(fit, mean_widths=np.arange(1.0, 8.0)).mean_width(2) == pytest.approx(3.0 * ratio)


def newton_by_hand(before, target, steps=3):
    """Pseudo-responses, written out: the score that is linear in residuals and two functions of them."""
    slopes = [np.linalg.lstsq(x, y, rcond=None)[0] for x, y in zip(before, target, strict=True)]
    n, k = [len(y) for y in target], before[0].shape[1]
    for _ in range(steps):
        left = [y - x @ b for x, y, b in zip(before, target, slopes, strict=True)]
        scales = [math.sqrt(own @ own / (len(own) - k - 1)) for own in left]
        u = np.concatenate([own / s for own, s in zip(left, scales, strict=True)])
        bell = np.exp(-(u**2) / 2)
        h = np.column_stack([u, u * bell, bell])
        h = h - h.mean(axis=0)
        derivatives = np.column_stack([np.ones_like(u), (1 - u**2) * bell, -u * bell])
        a = np.linalg.solve(h.T @ h, derivatives.sum(axis=0))
        psi, slope = h @ a, derivatives @ a
        parts = [s * own / slope.mean() for s, own in zip(scales, np.split(psi, [n[0]]), strict=True)]
        parts = [own - own.mean() for own in parts]
        moves = [np.linalg.lstsq(x, own, rcond=None)[0] for x, own in zip(before, parts, strict=True)]
        slopes = [b + move for b, move in zip(slopes, moves, strict=True)]
    wide = [1 + k / own * slope.var() / slope.mean() ** 2 for own in n]
    return [
        x @ b + (own - x @ move) * more
        for x, b, own, move, more in zip(before, slopes, parts, moves, wide, strict=True)
    ]


def test_pseudo_responses_are_three_newton_steps():
    rng = np.random.default_rng(13)
    before = [rng.standard_normal((n, 3)) for n in (120, 90)]
    before = [x - x.mean(axis=0) for x in before]
    target = [x @ [1.0, -0.5, 0.0] + rng.exponential(size=len(x)) - 1 for x in before]
    target = [y - y.mean() for y in target]
    for own, expected in zip(pseudo_responses(before, target), newton_by_hand(before, target), strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("column", [0, 2, 3])
def test_a_problem_is_free_where_no_column_has_a_mean(small, column):
    assert small.is_free
    first = small.first.copy()
    first[-1, column] = first[column, -1] = 5.0
    pooled = small.pooled.copy()
    other = replace(small, first=first, pooled=pooled)
    assert not other.is_free
    assert other.free.is_free
    for own, n in ((other.free.first, 300), (other.free.pooled - other.free.first, 250)):
        assert own[-1, -1] == n
        assert not own[-1, :-1].any()
    within = first[:4, :4] - np.outer(first[4, :4], first[4, :4]) / 300
    np.testing.assert_allclose(other.free.first[:4, :4], within)


def test_what_a_fit_knows_of_rows_is_that_of_its_columns():
    tables, known, widths = rows(14), np.arange(49.0).reshape(7, 7), np.arange(7.0)
    nested = SimpleNamespace(among=lambda chosen: ("among", chosen))

    @dataclass(frozen=True)
    class Units:
        nested: object

    made = _columns([4, 1], tuple(tables), Units(nested), known, widths)
    for own, table in zip(made["rows"], tables, strict=True):
        np.testing.assert_array_equal(own, table[:, [4, 1]])
    assert made["units"].nested == ("among", [4, 1])
    np.testing.assert_array_equal(made["known_cells"], [[32, 29], [11, 8]])
    np.testing.assert_array_equal(made["mean_widths"], [4, 1])
    assert set(_columns([0], None, None, None, None).values()) == {None}


def test_an_order_among_some_leaves_the_others_last():
    assert _order_among(["c", "x", "a"], ["a", "b", "c", "d"]) == [2, 0, 1, 3]


def test_a_part_of_a_fit_has_its_own_changes(fit):
    """Margins and rises are those of changes with both ends in it."""
    blocks = InBlocks(tuple(() for _ in range(7)), ((0, 1, 2), (3, 4, 5, 6)), 4, 7)
    told = {(2, 0): 1.5, (3, 0): 2.5, (5, 4): 3.5, (1, 6): 4.5}
    other = replace(fit, in_blocks=blocks, optimum=replace(fit.optimum, margins=told, rises=told))
    one, two = other.parts
    assert (one.optimum.margins, one.optimum.rises) == ({(2, 0): 1.5}, {(2, 0): 1.5})
    assert two.optimum.margins == {(2, 1): 3.5}
    assert [own.first.names for own in (one, two)] == [fit.first.names[:3], fit.first.names[3:]]
    order = [k for k in fit.optimum.best.order if k > 2]
    assert two.optimum.best.order == tuple(k - 3 for k in order)
    assert (
        replace(fit, in_blocks=blocks._replace(blocks=((0, 1, 2, 3, 4, 5, 6),))).parts[0].optimum is fit.optimum
    )
    assert fit.parts == [fit]


def test_models_too_close_to_singular_are_refused():
    def chain_of(noise):
        return LinearSEM(np.diag(np.full(4, 1e3), -1), np.full(5, noise))

    with pytest.raises(InputError, match="too close to singular"):
        DifferenceDAG().fit_population(chain_of(1.0), chain_of(2.0))
    weights = np.diag(np.full(4, 0.8), -1)
    other = weights.copy()
    other[2, 1] = 0.5
    result = DifferenceDAG().fit_population(LinearSEM(weights), LinearSEM(other)).result_
    assert [str(edge) for edge in result.edge_list] == ["X2 -> X3"]


def test_intercepts_of_whitened_rows_have_wider_errors(fit):
    plain = fit.regression(2).shift
    wide = replace(fit, mean_widths=np.full(7, 3.0), rows=None)
    narrow = replace(fit, mean_widths=np.full(7, 1.0), rows=None)
    assert wide.regression(2).shift.stderr == pytest.approx(3 * narrow.regression(2).shift.stderr)
    assert wide.regression(2).shift.value == pytest.approx(plain.value, rel=1e-6)


def test_a_moved_mean_is_averaged_over_sets_of_parents():
    table = centred([rows(15)[0]])
    scale = table.std(axis=0)
    scatter = (table / scale).T @ (table / scale)
    family = Family.of(scatter, 120, 4, np.array([1, 3, 5]))
    sets = family.likely(np.array([7]), np.zeros(1))
    point = np.array([[0.4, -1.0, 0.3, 0.8, 2.5, 0.1, -0.2]]) / scale
    study = SimpleNamespace(scale=scale)
    shift, error = Reference._shift(study, sets, point, 3)
    squares, freedom = moved(sets.regressions, point, 3)
    weights = np.exp(sets.log_probabilities) * np.exp(log_bayes_factor(squares, freedom)[:, 0])
    weights /= weights.sum()
    found, errors = [], []
    for row, square in zip(sets.regressions.members, squares[:, 0], strict=True):
        some = sets.regressions.candidates[row]
        beta = np.linalg.lstsq(table[:, some], table[:, 4], rcond=None)[0]
        left = point[0, 4] * scale[4] - (point[0, some] * scale[some]) @ beta
        found.append(left)
        errors.append(abs(left) / math.sqrt(square))
    mean = weights @ found
    assert shift == pytest.approx(mean, rel=1e-4)
    spread = np.square(errors) + np.square(np.array(found) - mean)
    assert error == pytest.approx(math.sqrt(weights @ spread), rel=1e-4)


def test_exact_models_have_no_errors():
    weights = np.diag(np.full(3, 0.8), -1)
    weights[3, 0] = 0.5
    gain = weights.copy()
    gain[3] *= 1.5
    one = LinearSEM(weights, intercepts=np.zeros(4))
    two = LinearSEM(gain, intercepts=np.array([0.0, 2.0, 0.0, 0.0]))
    result = DifferenceDAG().fit_population(one, two).result_
    (change,), (mean,) = result.gain_list, result.mean_list
    assert (change.variable, change.stderr, change.pvalue) == ("X4", 0.0, None)
    assert (mean.variable, mean.stderr, mean.pvalue) == ("X2", 0.0, None)


@pytest.mark.parametrize(("more", "every"), [(1, True), (-1, False)])
def test_all_orders_are_compared_while_that_is_little_work(small, monkeypatch, more, every):
    asked = []
    for name in ("_compare_all", "_compare_near"):
        monkeypatch.setattr(shape_module, name, lambda *_, name=name: asked.append(name))
    tables = rows(16, (300, 250), p=4)
    monkeypatch.setattr(shape_module, "MOST_VALUES", 550 * 4 * 2**3 + more)
    optimum = search_orders(small, np.random.default_rng(0), 1)
    settle_by_shape(optimum, tables, decided=True)
    settle_by_shape(optimum, tables, decided=True, starts=[(0, 1, 2, 3)])
    assert asked == ["_compare_all" if every else "_compare_near", "_compare_near"]
    assert settle_by_shape(optimum, tables, decided=False) is None


@pytest.mark.parametrize("separate", [True, False])
def test_responses_are_weighted_for_one_variance(small, separate):
    tables = [(table - table.mean(axis=0)).T for table in rows(17, (300, 250), p=4)]
    found = read_order(small, (0, 1, 2, 3))
    found = replace(found, separate=np.full(4, separate))
    made = [1.5 * tables[0][3] + 0.1 * tables[0][0], 0.7 * tables[1][3]]
    other = _with_response(small, found, tables, 3, made)
    scale = np.sqrt(sum((own**2).mean(axis=1) for own in tables) / 2)
    parts = [other.first, other.pooled - other.first]
    for own, response, part, n in zip(tables, made, parts, (300, 250), strict=True):
        lines = np.vstack([own[:3], response]) / scale[:, None]
        sums = lines @ lines.T
        left = sums[3, 3] - sums[3, :3] @ np.linalg.solve(sums[:3, :3], sums[:3, 3])
        unit = left / (n - 3 - 1) if separate else 1.0
        np.testing.assert_allclose(part[:4, :4], sums / unit, rtol=1e-7, atol=1e-9)
        assert part[4, 4] == pytest.approx(n / unit)
    assert other.rules.equal
    assert np.isinf(other.rules.table[4]).all()
    np.testing.assert_array_equal(other.rules.table[:4], small.rules.table[:4])


def test_strengths_of_neighbours_are_t_values():
    tables = rows(18, (150, 150))
    problem = standardise(*(Moments.from_array(table) for table in tables))
    around = explore(problem, 150, 150, screening.silent).around[0]
    both = [table - table.mean(axis=0) for table in tables]
    scale = np.sqrt(sum((own**2).mean(axis=0) for own in both) / 2)
    both = np.vstack(both) / scale
    for i in range(7):
        members = around.of(i)
        assert members
        x = both[:, members]
        inverse = np.linalg.inv(x.T @ x / 300)
        beta = inverse @ x.T @ both[:, i] / 300
        left = ((both[:, i] - x @ beta) ** 2).mean()
        t = beta / np.sqrt(left * np.diag(inverse) / 300)
        np.testing.assert_allclose(around.strengths[i, : len(members)], t, rtol=1e-3)
        assert around.variances[i] == pytest.approx(left, rel=1e-4)
