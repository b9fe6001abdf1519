"""From an optimum of the search to the result: places, edges, weights, words; and exact models."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from studies import moments, study

from diffdag import InputError, LinearSEM
from diffdag.model.regression import regress_jointly
from diffdag.ordersearch import fit, screen
from diffdag.ordersearch.search import Found, Optimum, search_orders

NAMES = tuple("abcd")
ONE, TWO = study(880451, 4, changed=0.4)
TWO[:, 1] += 5 * np.random.default_rng(880453).standard_normal(len(TWO))  # b is noisier there
FIRST, SECOND = moments(ONE, TWO, names=NAMES)


def settings_of(**options):
    given = {"equal_noise": False, "rng": np.random.default_rng(0), "jobs": 1}
    return fit.OrderSettings(**(given | options))


def problem_of(settings, first=FIRST, second=SECOND):
    p = len(first.names)
    return settings.problem(first, second, np.zeros((p, p), bool), p)


def optimum_of(problem, order, margins, separate=(), starts=0, reached=0, gains=(), shifted=()):
    """As if the search had found these changes, by (effect, cause); those of a gain are no changes."""
    p = len(order)
    changed = np.zeros((p, p), bool)
    for i, j in margins:
        changed[i, j] = i not in gains
    changed[gains, gains] = True
    marks = (np.isin(np.arange(p), some) for some in (shifted, separate))
    best = Found(tuple(order), 7.0, changed, *marks, np.zeros(p))
    return Optimum(problem, best, starts, reached, dict(margins))


def result_of(order, margins, separate=(), starts=0, reached=0, gains=(), shifted=(), **options):
    """The result for variables a to d whose search found this."""
    settings, everyone = settings_of(**options), screen.Screened(range(4))
    said = (separate, starts, reached, list(gains), shifted)
    found, free = optimum_of(problem_of(settings), order, margins, *said), np.zeros((4, 4), bool)
    return fit.fit_samples(NAMES, FIRST, SECOND, free, settings, everyone, found).difference


def test_two_units_of_likelihood_settle_no_direction():
    result = result_of([2, 0, 3, 1], {(0, 2): 2.0, (3, 0): 2.1, (1, 0): math.inf})
    assert {str(edge) for edge in result.edge_list if edge.directed} == {"a -> d", "a -> b"}
    (loose,) = [edge for edge in result.edge_list if not edge.directed]
    assert (loose.source, loose.target) == ("a", "c")
    assert list(result.notes) == ["the data do not tell whether c acts on a or the other way round"]


def test_where_variables_stand():
    def places(margins, separate=()):
        result = result_of([2, 0, 3, 1], margins, separate)
        noisy = {change.variable for change in result.noise_list}
        assert noisy == {NAMES[k] for k in separate}
        return result.order, result.unresolved, result.invariant

    # c -> a -> d; b takes part if its noise changed.
    assert places({(0, 2): 5.0, (3, 0): 5.0}) == ((("c",), ("a",), ("d",)), (), ("b",))
    assert places({(0, 2): 5.0, (3, 0): 5.0}, [1]) == ((("c",), ("a",), ("d",)), (), ())
    assert places({(0, 2): 5.0, (3, 0): 0.1}) == ((("c",),), ("a", "d"), ("b",))
    assert places({(3, 2): 5.0, (3, 0): 5.0, (0, 2): 5.0})[0] == (("c",), ("a",), ("d",))
    assert places({}) == ((), (), NAMES)


@pytest.mark.parametrize(("starts", "reached", "said"), [(0, 0, 0), (4, 2, 0), (4, 1, 1), (1, 0, 1)])
def test_a_search_that_found_an_order_once_says_so(starts, reached, said):
    notes = result_of([0, 1, 2, 3], {}, starts=starts, reached=reached).notes
    assert len(notes) == said
    if said:
        how = (
            "1 of 4 starts found these changes" if reached else "none of 1 start found these changes by itself"
        )
        assert notes[0].startswith(f"the search did not agree with itself ({how}), so a better order may exist")


def test_changes_that_an_order_can_do_without_are_told():
    margins, free = {(0, 2): 500.0, (3, 0): 500.0, (1, 0): 500.0}, np.zeros((4, 4), bool)
    problem, everyone = problem_of(settings_of()), screen.Screened(range(4))
    for shares, names, said in (
        ((1.01, 2.0, 3.0), [], None),
        (
            (2.0, 1.0, 3.0),
            ["a -> d"],
            "'a -> d' is not settled: orders without it, or the other way round, score within",
        ),
        (
            (0.5, 0.1, 3.0),
            ["a -> d", "c -> a"],
            "are not settled: orders without them, or the other way round, score within",
        ),
    ):
        rises = dict(zip(margins, (share * problem.unit for share in shares), strict=True))
        found = replace(optimum_of(problem, [2, 0, 3, 1], margins, starts=4, reached=3), rises=rises)
        result = fit.fit_samples(NAMES, FIRST, SECOND, free, settings_of(), everyone, found).difference
        assert list(result.settings["unsettled"]) == names
        assert len(result.notes) == (said is not None)
        assert said is None or said in result.notes[0]
        assert result.settings["search"].endswith("but for those not settled") == bool(names)
        assert [str(edge) for edge in result.edge_list if not edge.settled] == sorted(names, reverse=True)


def test_a_direction_that_may_be_reversed_is_not_settled_and_an_open_one_may_be():
    """Of a directed edge its margin counts too; of an undirected one whether anything changed."""
    free, everyone = np.zeros((4, 4), bool), screen.Screened(range(4))
    problem = problem_of(settings_of())
    unit = problem.unit
    margins = {(0, 2): 0.99 * unit, (3, 0): 1.01 * unit, (1, 0): 0.1}
    for rises, marked in ((2.0, ["c -> a"]), (0.9, ["c -> a", "a -> d", "a -- b"])):
        found = replace(optimum_of(problem, [2, 0, 3, 1], margins), rises=dict.fromkeys(margins, rises * unit))
        result = fit.fit_samples(NAMES, FIRST, SECOND, free, settings_of(), everyone, found).difference
        assert {str(edge) for edge in result.edge_list} == {"c -> a", "a -> d", "a -- b"}
        assert {str(edge) for edge in result.edge_list if not edge.settled} == set(marked)
        assert set(result.settings["unsettled"]) == set(marked)


def test_settings_say_how_the_search_went():
    margins = {(0, 2): 1.23456, (3, 0): math.inf}
    asked = {"equal_noise": True, "known": ("tiers",), "factor": 2.0}
    said = result_of([2, 0, 3, 1], margins, starts=4, reached=3, **asked).settings
    assert (said["noise"], said["penalty_factor"], said["score"], said["tie"]) == ("equal", 2.0, 7.0, 2.0)
    assert said["search"] == "3 of 4 starts found these changes"
    assert said["known_beforehand"] == ["tiers"]
    assert (said["starts"], said["starts_at_optimum"]) == (4, 3)
    assert said["search_order"] == ["c", "a", "d", "b"]
    assert said["margins"] == {"c -> a": 1.235}
    alone = result_of([0, 1, 2, 3], {}).settings
    assert (alone["noise"], alone["search"]) == ("auto", "all admissible orders compared")
    assert said["penalty"] == problem_of(settings_of(**asked)).unit > alone["penalty"]
    assert result_of([0, 1, 2, 3], {}, known=("order",)).settings["search"] == "order given"


def test_edges_and_the_precision_difference_are_those_of_regressions_along_the_order():
    result = result_of([2, 0, 3, 1], {(0, 2): 5.0, (1, 0): 5.0, (1, 3): 5.0}, separate=[1])
    fits = {
        0: ([2], regress_jointly(FIRST, SECOND, 0, [2], (2,), False)),
        1: ([2, 0, 3], regress_jointly(FIRST, SECOND, 1, [2, 0, 3], (0, 3), True)),
    }
    expected = np.zeros((4, 4))
    for i, (earlier, own) in fits.items():
        for sign, weights, variance in (
            (1, own.first, own.variance_first),
            (-1, own.second, own.variance_second),
        ):
            row = np.eye(4)[i]
            row[earlier] -= weights
            expected += sign * np.outer(row, row) / variance
    np.testing.assert_allclose(result.delta_entries.toarray(), expected)
    assert expected[3, 2] != 0
    edges = result.edge_list
    assert [str(edge) for edge in edges] == ["c -> a", "a -> b", "d -> b"]
    own = fits[1][1]
    assert (edges[1].weight_first, edges[1].weight_second) == (own.first[1], own.second[1])
    assert (edges[2].weight_first, edges[2].weight_second) == (own.first[2], own.second[2])
    assert [edge.stderr for edge in edges[1:]] == own.error_delta[1:].tolist()


def test_the_result_covers_variables_that_were_not_ordered():
    rng = np.random.default_rng(880452)
    tables = [rng.standard_normal((n, 3)) for n in (90, 70)]
    tables[0][:, 2] += 0.9 * tables[0][:, 0]
    names, some = ("a", "b", "c", "d", "e"), ("a", "c", "e")
    first, second = moments(*tables, names=some)
    free, kept = np.zeros((3, 3), bool), screen.Screened([4, 0, 2], {"suspects": 2})
    result = fit.fit_samples(names, first, second, free, settings_of(max_variables=3), kept).difference
    (edge,) = result.edge_list
    assert {edge.source, edge.target} == {"a", "e"}
    assert result.variables == names
    assert result.samples == (90, 70)
    assert (result.screened_out, result.settings["suspects"]) == (("b", "d"), 2)
    assert any("2 variables of 5 were screened out" in note and "at most 3" in note for note in result.notes)
    rows, columns = result.delta_entries.nonzero()
    assert {*rows.tolist(), *columns.tolist()} == {0, 4}
    everyone = screen.Screened([0, 1, 2])
    again = fit.fit_samples(some, first, second, free, settings_of(), everyone)
    assert again.difference.screened_out == ()
    assert not any("screened" in note for note in again.difference.notes)
    problem = problem_of(settings_of(), first, second)
    best = search_orders(problem, np.random.default_rng(0), 1).best
    assert again.optimum.best.score == pytest.approx(best.score)
    found = optimum_of(problem, [0, 1, 2], {})
    given = fit.fit_samples(some, first, second, free, settings_of(), everyone, found)
    assert given.difference.edge_list == ()


def condition(model):
    """Condition number of the correlation matrix, which does not depend on units."""
    sigma = model.covariance()
    scale = np.sqrt(np.diag(sigma))
    return np.linalg.cond(sigma / np.outer(scale, scale))


def test_exact_models_are_taken_for_many_rows():
    before = np.zeros((3, 3))
    before[1, 0], before[2, 1] = 0.8, 0.5
    after = before.copy()
    after[2, 1] = -0.4
    models = LinearSEM(before), LinearSEM(after, [1.0, 2.0, 1.0])
    free = np.zeros((3, 3), bool)
    result = fit.fit_models(*models, free, settings_of())
    (edge,) = [edge for edge in result.edge_list if edge.directed]
    assert (str(edge), edge.weight_first, edge.weight_second) == ("X2 -> X3", 0.5, -0.4)
    (noise,) = result.noise_list
    assert (noise.variable, noise.variance_first, noise.variance_second, noise.ratio) == ("X2", 1.0, 2.0, 0.5)
    assert result.samples is None
    worst = max(condition(model) for model in models)
    assert result.settings["rows"] == pytest.approx(min(1e10, 1e-3 / np.finfo(float).eps / worst))
    expected = models[0].precision() - models[1].precision()
    np.testing.assert_allclose(result.delta_entries.toarray(), expected, atol=1e-12)
    # Along an order that is not theirs the edges are those of regressions.
    backwards = np.tril(np.ones((3, 3), bool), -1)
    result = fit.fit_models(*models, backwards, settings_of(known=("order",)))
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
        fit.fit_models(chain(1e6), chain(1.0), free, settings_of())
    assert fit.fit_models(chain(1e3), chain(1e3), free, settings_of()).edge_list == ()
