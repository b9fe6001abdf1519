"""What a result is trusted for, number by number: draws, criteria and shares against plain formulas."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import minimize

import diffdag as dd
from diffdag.model.regression import fit_jointly
from diffdag.pipeline import ModelOptions, prepare, prepare_moments, search
from diffdag.results.records import Check, Claims, Edge, Share, Ways
from diffdag.tables.align import align_tables
from diffdag.tables.moments import Moments
from diffdag.trust import scatter
from diffdag.trust.by_unit import _left
from diffdag.trust.checks import outliers, reversals
from diffdag.trust.checks.outliers import check_outliers
from diffdag.trust.checks.residual_view import _groups, residual_view
from diffdag.trust.checks.row_checks import _chance_pairs
from diffdag.trust.confidence import COUNTED, CUTOFF, Evidence, Facts, Votes, _stability, _votes
from diffdag.trust.contradictions import compare_remedy, direction_open, hedged
from diffdag.trust.controls import MULTIPLES, control_tables
from diffdag.trust.criterion import order_criterion
from diffdag.trust.explanation import _both_signs, _Conditions, _fit_all, _Listed, _root, _starts_at_zero
from diffdag.trust.mechanism_tests import _Tail
from diffdag.trust.permutation import _difference, _Pool, _view
from diffdag.trust.resampling import Resamples
from diffdag.trust.scatter import choose_rows, edge_scatters
from diffdag.trust.sensitivity import Setting, SettingMultiples
from diffdag.trust.settings_path import BaseSettings, _Walk
from diffdag.trust.splitting import _neighbours
from diffdag.trust.stability import expected_false_bound
from diffdag.trust.support import _claims, _Rows

NAMES = tuple("abcd")
NONE = _Listed({}, (), False, False, False)


def chain(seed, n=200, p=4):
    rows = np.random.default_rng(seed).standard_normal((n, p))
    for k in range(1, p):
        rows[:, k] += 0.8 * rows[:, k - 1]
    return rows


def fitted(*tables, **options):
    model = ModelOptions(**options)
    return search(prepare(align_tables(*tables), model), model)


# What moved each variable


@pytest.fixture(scope="module")
def fit():
    second = chain(2, 150) * 1.1 + 0.3
    second[:, 3] += second[:, 0]
    return fitted(chain(1), second)


def conditions(fit, rows=True, half=3000, **options):
    order = list(fit.structure.order)
    return _Conditions(fit.first, fit.second, order, fit.rows if rows else None, None, half, **options)


def test_equations_in_which_nothing_is_listed_are_the_same_in_both(fit):
    """Slopes by rows, variances by degrees of freedom, and levels by rows over variances."""
    data = conditions(fit, half=4)
    made = _fit_all(data, fit, [NONE] * 4, exact=False)
    means, counts = data.means, np.array([200.0, 150.0])
    centre = counts @ means / 350
    for k, i in enumerate(data.order):
        before, separate = [data.order[j] for j in range(k)], i in fit.structure.separate
        own = fit_jointly(fit.first, fit.second, i, before, [], separate, i in fit.structure.gains)
        slopes = counts @ own.weights / 350
        for c in (0, 1):
            np.testing.assert_allclose(made.weights[c, 0, k, :k], slopes)
        variance = own.freedom @ own.variances / own.freedom.sum()
        np.testing.assert_allclose(made.variances[:, 0, k], variance)
        levels = (means - centre)[:, k] - (means - centre)[:, :k] @ slopes
        weight = counts / own.variances
        np.testing.assert_allclose(made.intercepts[:, 0, k], weight @ levels / weight.sum(), atol=1e-12)
    assert made.zeros == ()
    np.testing.assert_allclose(made.centre[0], centre)


@pytest.mark.parametrize("rows", [True, False])
def test_draws_move_as_far_as_errors_say(fit, rows):
    data = conditions(fit, rows)
    k = 2
    before = [data.order[j] for j in range(k)]
    for separate in (True, False):
        own = fit_jointly(fit.first, fit.second, data.order[k], before, [], separate, False)
        moves, logs = data.moves(k, list(range(k)), own, separate)
        assert (moves.shape, logs.shape) == ((2, 3000, k), (2, 3000))
        theta = own.jacobians[0] @ own.covariance @ own.jacobians[0].T
        np.testing.assert_allclose(moves[0].std(axis=0), np.sqrt(np.diag(theta)), rtol=0.2)
        freedom = own.freedom if separate else np.full(2, own.freedom.sum())
        np.testing.assert_allclose(logs.std(axis=1), np.sqrt(2 / freedom), rtol=0.2)
        together = np.corrcoef(logs)[0, 1]
        assert abs(together) < 0.1 if separate else together == pytest.approx(1.0)
    means = data.mean_draws
    for c, own in enumerate((fit.first, fit.second)):
        expected = (
            np.sqrt(np.diag(own.scatter)) / own.n / np.sqrt(np.diag(fit.first.scatter + fit.second.scatter))
        )
        np.testing.assert_allclose(means[c].std(axis=0), expected[data.order], rtol=0.1)
    # Means and slopes move by themselves, but for what they have in common: the same rows.
    if not rows:
        assert abs(np.corrcoef(means[0][:, 0], means[1][:, 0])[0, 1]) < 0.1


def test_intervals_are_students_and_wider_where_the_order_was_found(fit):
    known, found = (conditions(fit, searched=searched).reach for searched in (False, True))
    assert known == pytest.approx(1.96, abs=1e-3)
    assert found == pytest.approx(1.12 * known)
    units = SimpleNamespace(nested=SimpleNamespace(counts=(6, 5), pairs=[1, 2]))
    assert replace(conditions(fit, searched=False), units=units).reach == pytest.approx(2.3646, abs=1e-4)  # 7
    one = SimpleNamespace(nested=SimpleNamespace(counts=(2, 2), pairs=[1, 2]))
    assert replace(conditions(fit, searched=False), units=one).reach == pytest.approx(12.706, abs=1e-3)


def test_draws_come_in_pairs_and_roots_square():
    estimate, moves = np.array([[1.0], [2.0]]), np.array([[0.1, 0.2], [0.3, 0.4]])
    np.testing.assert_allclose(_both_signs(estimate, moves)[0], [1.0, 1.1, 1.2, 0.9, 0.8])
    matrix = np.cov(chain(3), rowvar=False)
    np.testing.assert_allclose(_root(matrix).T @ _root(matrix), matrix)


@pytest.mark.parametrize(
    ("here", "there", "zero"),
    [(1.0, 0.9, True), (1.0, 1.1, False), (-1.0, 0.9, True), (0.1, 0.25, True), (0.1, 0.27, False)],
)
def test_an_effect_tilts_where_levels_change_less(here, there, zero):
    """Or where their change at zero is within 2.6 standard errors, which are 0.1 here."""
    draws = np.concatenate([[0.0], np.tile([0.1, -0.1], 50)])
    level = np.array([np.zeros(101), here + draws])
    at_zero = np.array([np.zeros(101), there + draws])
    assert _starts_at_zero(level, at_zero) == zero


# Criteria


@pytest.mark.parametrize("equal", [True, False])
def test_a_gain_is_one_factor_for_all_slopes(equal):
    first, second = chain(4, 120), chain(5, 90)
    second[:, 2] = 1.7 * (0.8 * second[:, 1] + 0.5 * second[:, 0]) + 1.4 * np.random.default_rng(6).normal(
        size=90
    )
    moments = [Moments.from_array(table, list(NAMES)) for table in (first, second)]
    one, two = (table - table.mean(axis=0) for table in (first, second))

    def cost(parameters):
        beta, factor = parameters[:2], parameters[2]
        left = one[:, 2] - one[:, :2] @ beta, two[:, 2] - factor * (two[:, :2] @ beta)
        rss = [own @ own for own in left]
        if equal:
            return 210 / 2 * math.log(sum(rss) / 210)
        return 120 / 2 * math.log(rss[0] / 120) + 90 / 2 * math.log(rss[1] / 90)

    best = minimize(cost, [0.3, 0.6, 1.5], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-10}).fun
    both = np.vstack([one, two])
    rss = np.linalg.lstsq(both[:, :2], both[:, 2], rcond=None)[1][0]
    share = (210 - 3 - 2) / 210
    change, noise = math.log(210) / 2 + 3 * math.log(4), math.log(210) / 2 + 1.5 * math.log(4)
    expected = (best - 210 / 2 * math.log(rss / 210)) * share + change + (0 if equal else noise)
    options = {"equal_noise": True} if equal else {}
    with_gain = order_criterion(*moments, ["a", "b", "c"], [], gains=["c"], **options)
    without = order_criterion(*moments, ["a", "b"], [], **options)
    assert with_gain - without == pytest.approx(expected, rel=1e-5)


def test_too_few_rows_cost_everything():
    for n, cost in ((4, math.inf), (5, None)):
        moments = [Moments.from_array(chain(seed, n), list(NAMES)) for seed in (7, 8)]
        found = order_criterion(*moments, list(NAMES), [])
        assert found == cost if cost else math.isfinite(found)


# Confidence


def test_evidence_counts_no_more_fits_than_make_a_difference():
    varied = Ways(40, 0.8, 0.5, 0.2, 0.1)
    share = Share("a", "b", 0.9, 0.6, 0.1, 0.2, varied)
    own = Evidence.of("a", share, 30)
    assert own.pair == (0.8 * COUNTED, pytest.approx(0.2 * COUNTED))
    assert own.direction == (pytest.approx(0.55 / 0.8 * 15), pytest.approx(0.25 / 0.8 * 15))
    assert own.plain == (pytest.approx(0.7 / 0.9 * 15), pytest.approx(0.2 / 0.9 * 15))
    assert own.fits == 40
    back = Evidence.of("b", share, 30)
    assert back.direction == own.direction[::-1]
    few = Evidence.of("a", replace(share, varied=Ways(5, 0.4, 0.4)), 30)
    assert (few.pair, few.direction) == ((2.0, 3.0), (2.0, 0.0))
    plain = Evidence.of("a", replace(share, varied=Ways()), 10)
    assert plain.pair == (pytest.approx(9.0), pytest.approx(1.0))
    assert plain.direction == plain.plain == (pytest.approx(0.7 / 0.9 * 9), pytest.approx(0.2 / 0.9 * 9))
    assert Evidence.of("a", Share("a", "b", 0.0, 0.0, 0.0, 0.0), 10).direction == (0.0, 0.0)


def test_votes_have_half_a_fit_on_either_side():
    assert Votes(7, 2).log_odds == pytest.approx(math.log(7.5 / 2.5))
    assert Votes(7, 2).variance == pytest.approx(1 / 7.5 + 1 / 2.5)
    assert Votes.of(0.3, 10) == (pytest.approx(3), pytest.approx(7))


def test_failed_checks_of_the_form_count():
    evidence = Evidence(Votes(1, 0), Votes(1, 0), Votes(3, 1), 9)
    checks = [Check("order", False, ""), Check("range", True, ""), Check("sample size", False, "")]
    result = SimpleNamespace(checks=(*checks, Check("normality", False, "")))
    assert Facts.about(Edge("a", "b", settled=False), evidence, result) == (math.log(3.5 / 1.5), 1.0, 2.0)
    assert Facts.about(Edge("a", "b"), evidence, result).unsettled == 0.0


def test_stable_pairs_are_in_three_of_four_halves():
    found = [((0, 1, True),)] * 6 + [((2, 3, True),)] * 2
    halves = Resamples(NAMES, "half", (9, 9), tuple(found), failed={})
    some = Resamples(NAMES, "bootstrap", (9, 9), tuple(found), failed={3: "no"})
    stability = _stability(some, halves, 20)
    assert (stability.stable, stability.cutoff) == (("a -> b",), CUTOFF)
    assert (stability.fits, stability.pairs, stability.failed, stability.varied) == (7, 4, 1, 0)
    assert stability.asked == 20
    assert stability.expected_false == expected_false_bound(1.0, 6, 0.75, 4)
    assert _stability(some, halves, 16).asked is None
    fewer = Resamples(NAMES, "half", (9, 9), (*found[1:], ()), failed={})
    assert _stability(some, fewer, 20).stable == ()


# Remedies, scatters, outliers, reversals


def test_what_a_remedy_leaves():
    def result(*edges):
        return SimpleNamespace(edge_list=edges)

    ab, ba, bc, cd = Edge("a", "b"), Edge("b", "a"), Edge("b", "c"), Edge("c", "d", directed=False)
    by_range = Edge("a", "d", support="range")
    for before, after, share, gone in (
        ((ab, bc), (ab, bc), None, ()),
        ((ab, bc), (bc,), 0.5, ("a -> b",)),
        ((ab, bc), (ba, bc), 0.5, ("a -> b",)),
        ((ab, bc, cd), (Edge("d", "c"),), 2 / 3, ("a -> b", "b -> c")),
        ((), (ab,), 0.0, ()),
        ((by_range, ab), (ab,), None, ()),
        ((by_range,), (by_range,), None, ()),
    ):
        check = compare_remedy(result(*before), result(*after), "covariance", "winsorised")
        assert check.passed == (share is None)
        assert check.value == (None if share is None else pytest.approx(share))
        assert check.edges == gone
    assert "new: 'a -> b'" in compare_remedy(result(), result(ab), "noise", "equal").message


def test_the_largest_changes_are_shown(fit, monkeypatch):
    edges = [
        Edge("a", "b", weight_first=0.0, weight_second=0.1, delta=-0.1, size=0.1),
        Edge("a", "d", weight_first=0.0, weight_second=0.9, delta=-0.9, size=-0.9),
        Edge("b", "d", directed=False),
        Edge("c", "d", weight_first=0.5, weight_second=0.2, delta=0.3, size=0.3),
    ]
    names = dict(zip("abcd", fit.first.names, strict=True))
    edges = [replace(edge, source=names[edge.source], target=names[edge.target]) for edge in edges]
    for most, shown in ((1, [1]), (3, [1, 3, 0]), (9, [1, 3, 0, 2])):
        monkeypatch.setattr(scatter, "MOST_EDGES", most)
        found = edge_scatters(edges, fit, fit.first, fit.second)
        assert [(own.source, own.target) for own in found] == [
            (edges[k].source, edges[k].target) for k in shown
        ]
        assert [own.adjusted for own in found] == [k != 2 for k in shown]


def test_clouds_have_the_line_and_noise_of_their_condition(fit):
    target, source = fit.first.names[3], fit.first.names[0]
    edge = Edge(source, target, weight_first=0.2, weight_second=1.1, delta=-0.9)
    (own,) = edge_scatters([edge], fit, fit.first, fit.second, rows=(chain(1)[:5], chain(2)[:7]))
    for cloud, moments, weight, rows in ((own.first, fit.first, 0.2, 5), (own.second, fit.second, 1.1, 7)):
        assert len(cloud.x) == len(cloud.y) == rows
        assert cloud.slope == weight
        sd = math.sqrt(moments.scatter[0, 0] / moments.n)
        assert (cloud.low, cloud.high) == pytest.approx((moments.mean[0] - 2 * sd, moments.mean[0] + 2 * sd))
    assert choose_rows(np.arange(150.0)[:, None]).shape == (150, 1)
    some = choose_rows(np.arange(151.0)[:, None], 40)[:, 0]
    assert len(set(some)) == 40
    assert (np.diff(some) > 0).all()


def test_what_others_leave_of_a_column():
    table = chain(9)
    left = _left(table[:, 3], table[:, :2])
    np.testing.assert_allclose(table[:, :2].T @ left, 0, atol=1e-9)
    np.testing.assert_allclose(_left(table[:, 3], table[:, :0]), table[:, 3])


def test_changes_are_held_against_what_they_had_to_pay(fit, monkeypatch):
    asked = []
    monkeypatch.setattr(outliers, "_lost", lambda *given: asked.append((given[1], *given[5:])))
    tables = align_tables(chain(1), chain(2, 150))
    view = residual_view(tables, fit, "sample")
    edges = fit.difference.edge_list
    noisy = [change.variable for change in fit.difference.noise_list]
    count = len(edges) + len(noisy)
    assert check_outliers(view, fit).passed
    unit = fit.problem.unit
    assert asked == [
        *((str(edge), count, unit) for edge in edges),
        *((f"noise of {name}", count, 0.6 * unit) for name in noisy),
    ]
    assert edges


def test_reversals_of_a_known_order_are_looked_for_around_it(monkeypatch):
    """What each saves is the score of the order less that with the two behind the same others."""
    before = np.zeros((5, 5))
    before[2, [0, 1]], before[3, [0, 1]], before[4, [2, 3]] = [0.9, -0.7], [0.6, 0.8], [0.7, -0.5]
    after = before.copy()
    before[3, 2], after[2, 3] = 0.9, 0.9
    models = dd.LinearSEM(before), dd.LinearSEM(after)
    moments = [model.sample_moments(2000, rng=k) for k, model in enumerate(models)]
    options = dd.DifferenceDAG(order=[f"X{k}" for k in range(1, 6)]).model_options()
    fit = search(prepare_moments(*moments, options), options)
    seen = []
    nearby = reversals._saved_nearby
    monkeypatch.setattr(
        reversals, "_saved_nearby", lambda *given: seen.append((given, nearby(*given))) or seen[-1][1]
    )
    check = reversals.check_reversals(fit)
    ((problem, _), saved) = seen[0]
    assert not check.passed
    assert check.value == pytest.approx(max(saved.values()) / problem.unit)
    order = [int(name[1:]) - 1 for name in fit.search_order]
    best = reversals.walk_from(problem, order).score
    edges = {frozenset((e.source, e.target)) for e in fit.difference.edge_list}
    for (i, j), value in saved.items():
        assert frozenset((f"X{i + 1}", f"X{j + 1}")) in edges
        a, b = sorted((order.index(i), order.index(j)))
        pair, rest = [order[a], order[b]], [k for k in order if k not in (i, j)]
        tried = []
        for at in (a, b - 1):
            other = reversals.walk_from(problem, [*rest[:at], *pair, *rest[at:]])
            outside = other.score - other.costs[pair].sum()
            tried.append(best - outside - reversals.block_cost(problem, rest[:at], i, j))
        assert value == pytest.approx(max(tried))


# Splits, controls, permutations, settings


def test_changed_variables_move_past_each_other():
    """Of 3, 1 and 2, which stand in this order: the first after the second, and the second before the first."""
    found = sorted(_neighbours((3, 1, 0, 2), [1, 2, 3]))
    assert found == sorted([(3, 0, 2, 1), (3, 2, 1, 0), (1, 3, 0, 2), (1, 3, 0, 2), (1, 0, 2, 3), (2, 3, 1, 0)])


@pytest.mark.parametrize(
    ("loud", "until", "multiple", "left"),
    [
        (1, math.inf, 1.0, 1),
        (2, math.inf, MULTIPLES[-1], 2),
        (2, MULTIPLES[3], MULTIPLES[3], 0),
        (0, 9, 1.0, 0),
    ],
)
def test_penalties_rise_until_one_half_in_twenty_claims_anything(loud, until, multiple, left):
    """`loud` halves claim an edge below a multiple."""
    seeds = []

    def fit(tables, stream, times):
        key = float(tables.first.sum())
        if key not in seeds:
            seeds.append(key)
        return Claims((1,), (), (), ()) if seeds.index(key) < loud and times < until else Claims((), (), (), ())

    found = control_tables(align_tables(chain(10), chain(11)), fit, 20, 3, n_jobs=1)
    assert (found.halves, found.edges, found.multiple, found.left) == (20, loud, multiple, left)
    assert (found.gain, found.noise, found.mean, found.refused) == (0, 0, 0, 0)


def test_units_bring_other_numbers_of_rows():
    """Differences of covariances are divided by their standard error, where rows change in number."""
    rows = chain(12)
    pool = _Pool(rows, (90, 110), SimpleNamespace())
    view = _view(rows, slice(0, 1000))
    for chosen in (np.arange(90), np.arange(40)):
        n, others = len(chosen), 200 - len(chosen)
        rest = np.delete(rows, chosen, axis=0)
        own = rows[chosen]
        apart = own.T @ own / n - rest.T @ rest / others
        found = _difference(pool, view, chosen)
        np.testing.assert_allclose(found, apart / math.sqrt(1 / n + 1 / others))
        np.testing.assert_allclose(_difference(replace(pool, units=None), view, chosen), apart)


def walk(by, settings):
    """A path of settings, (multiple, instability, changes found, criterion)."""
    made = _Walk(BaseSettings.order(1.0), None, by, None, 1)
    line = [SettingMultiples(penalty=multiple) for multiple, *_ in settings]
    for at, (_, unstable, found, ebic) in zip(line, settings, strict=True):
        made.seen[at] = Setting(at, 3, (), ebic, instability=unstable, found=found)
    return made, line


@pytest.mark.parametrize(
    ("unstable", "chosen"),
    [
        ((0.2, 0.05, 0.04, 0.0), 1.0),
        ((0.2, 0.051, 0.04, 0.0), 1.5),
        ((0.0, 0.0, 0.2, 0.0), 2.0),
        ((0.0, 0.0, 0.0, 0.06), 1.0),
        ((0.0, 0.0, 0.0, 0.0), 0.5),
    ],
)
def test_the_least_severe_setting_from_which_on_halves_agree(unstable, chosen):
    made, line = walk(
        "stability", [(m, u, 1.0, 0.0) for m, u in zip((0.5, 1.0, 1.5, 2.0), unstable, strict=True)]
    )
    assert made._best_of_line(line, "penalty").penalty == chosen


@pytest.mark.parametrize(
    ("ebic", "chosen"),
    [((5.0, 3.0, 9.0), 1.0), ((2.0, 3.0, 9.0), 1.0), ((1.9, 3.0, 9.0), 0.5), ((9, 9, 1), 2.0)],
)
def test_criteria_about_the_same_leave_the_default(ebic, chosen):
    made, line = walk("ebic", [(m, None, None, own) for m, own in zip((0.5, 1.0, 2.0), ebic, strict=True)])
    assert made._best_of_line(line, "penalty").penalty == chosen
    nothing, line = walk("ebic", [(m, None, None, math.inf) for m in (0.5, 1.0, 2.0)])
    assert nothing._best_aside(line, line[0], "penalty").penalty == 1.0


def test_of_stable_settings_aside_the_richest_counts():
    made, line = walk(
        "stability", [(0.25, 0.2, 9.0, 0), (0.5, 0.1, 4.0, 0), (1.0, 0.1, 3.0, 0), (2.0, 0.0, 4.0, 0)]
    )
    assert made._best_aside(line, line[2], "penalty").penalty in (0.5, 2.0)
    assert made._best_aside(line, line[3], "penalty").penalty == 2.0
    assert made._best_aside(line, line[0], "penalty").penalty == 0.25


# Tails, chance, marks


def test_far_tails_are_those_of_students_density():
    for value, freedom in ((60.0, 1e5), (45.0, 900.0), (1e4, 300.0)):
        start = stats.t.logpdf(value, freedom)
        rest, _ = quad(lambda x, v=value, f=freedom, s=start: math.exp(stats.t.logpdf(v + x, f) - s), 0, value)
        exact = -(start + math.log(2 * rest)) / math.log(10)
        tail = _Tail.of_t(value, freedom)
        if tail.pvalue < 1e-290:
            assert tail.evidence == pytest.approx(exact, rel=0.02)
        else:
            assert tail.evidence == pytest.approx(exact, rel=1e-6)


def test_pairs_of_equal_rows_by_chance():
    """Of rounded columns: pairs of rows times the chance that each column agrees, over the root of det R."""
    rng = np.random.default_rng(13)
    rows = np.round(rng.standard_normal((60, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0.4], [0, 0, 1]]))
    expected = 60 * 59 / 2
    for column in rows.T:
        expected *= sum(a == b for a, b in itertools.permutations(column, 2)) / (60 * 59)
    expected /= math.sqrt(np.linalg.det(np.corrcoef(rows, rowvar=False)))
    assert _chance_pairs(rows) == pytest.approx(expected)
    flat = np.column_stack([rows, np.ones(60)])
    assert _chance_pairs(flat) == pytest.approx(expected)
    one = np.column_stack([rows[:, 0], np.ones(60)])
    agree = sum(a == b for a, b in itertools.permutations(rows[:, 0], 2)) / (60 * 59)
    assert _chance_pairs(one) == pytest.approx(60 * 59 / 2 * agree)
    assert _chance_pairs(rng.standard_normal((60, 3))) == 0
    assert _chance_pairs(rows[:1]) == 0


def test_variables_that_no_fit_names_have_no_votes():
    fits = Resamples(NAMES, "bootstrap", (9, 9), ((),) * 4, failed={}, noise=((1,), (1, 2), (), ()))
    votes = _votes(fits, "noise")
    assert [votes(name) for name in NAMES] == [(0.0, 4.0), (2.0, 2.0), (1.0, 3.0), (0.0, 4.0)]


@pytest.mark.parametrize(
    ("edge", "is_open", "is_hedged"),
    [
        (Edge("a", "b"), False, False),
        (Edge("a", "b", directed=False), True, False),
        (Edge("a", "b", direction=0.59), True, True),
        (Edge("a", "b", direction=0.6), False, True),
        (Edge("a", "b", direction=0.8), False, False),
        (Edge("a", "b", direction=0.79), False, True),
        (Edge("a", "b", confidence=0.9, support="unclear"), False, True),
        (Edge("a", "b", confidence=0.9), False, False),
    ],
)
def test_directions_are_open_or_hedged(edge, is_open, is_hedged):
    assert (direction_open(edge), hedged(edge)) == (is_open, is_hedged)


def test_bounds_of_reversals_are_below_their_costs():
    tables = chain(14, 80), chain(15, 60)
    moments = [Moments.from_array(table) for table in tables]
    none = np.zeros((4, 4), bool)
    problem = reversals.Problem.from_scatter(moments[0].scatter, moments[1].scatter, 80, 60, False, none, 4)
    every = reversals.AllOrders(problem)
    bounds = every._bounds(math.inf)
    assert len(bounds) == 12
    closest = math.inf
    for (i, j), (sets, least) in bounds.items():
        assert len(sets) == 4
        for members, bound in zip(sets.tolist(), least.tolist(), strict=True):
            others = [k for k in range(4) if members >> k & 1]
            cost = reversals.block_cost(problem, others, i, j)
            cost += every.before[members] + every.behind[members | 1 << i | 1 << j]
            assert bound <= cost + 1e-9
            closest = min(closest, cost - bound)
    assert closest < 6 * problem.unit
    some = every._bounds(every.best + 3.0)
    for pair, (sets, least) in some.items():
        inside = bounds[pair][1] < every.best + 3.0
        np.testing.assert_array_equal(sets, bounds[pair][0][inside])
        np.testing.assert_array_equal(least, bounds[pair][1][inside])


def test_a_gain_is_one_claim_about_all_that_causes_explain():
    rng = np.random.default_rng(16)
    values = rng.standard_normal((50, 4))
    rows = _Rows(values, 30, np.array([1.0, 2.0, 4.0, 0.5]), 1.0)
    edges = [Edge("a", "d"), Edge("b", "d", gain_of="d"), Edge("c", "d", gain_of="d")]
    slopes = np.array([0.1, -0.2, 0.3]), np.array([0.5, 0.2, 0.3])
    one, gain = _claims(rows, 3, edges, NAMES, [0, 1, 2], slopes)
    assert (one.edges, one.causes, one.gain) == ((edges[0],), (0,), False)
    np.testing.assert_array_equal(one.level, values[:, 0])
    assert (gain.edges, gain.causes, gain.gain) == ((edges[1], edges[2]), (1, 2), True)
    level = values[:, :3] @ (slopes[1] * [1.0, 2.0, 4.0] / 0.5)
    np.testing.assert_allclose(gain.level, level - level.mean())


def test_neighbours_that_nothing_orders_are_one_group():
    result = SimpleNamespace(
        edge_list=[Edge("a", "c")], unresolved=(), noise_list=[SimpleNamespace(variable="e")], invariant=("x",)
    )
    study = SimpleNamespace(difference=result, search_order=tuple("abcdefg"))
    groups = _groups(study, tuple("abcdefg"))
    assert [groups[name] for name in "abcdefg"] == [0, 0, 1, 2, 3, 4, 4]
    layers = SimpleNamespace(invariant=("x", "y"), unresolved=("u",), order=(("a",), ("b", "c")))
    groups = _groups(SimpleNamespace(difference=layers, search_order=None), tuple("xyuabc"))
    assert [groups[name] for name in "xyuabc"] == [0, 0, 1, 2, 3, 3]
