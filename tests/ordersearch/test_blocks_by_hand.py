"""Blocks of variables, what is put together from them, and what a fit says, by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from diffdag.ordersearch import blocks, fit, screen
from diffdag.ordersearch.blocks import BlockFit, Judged, claimed, gained, merge
from diffdag.ordersearch.neighbourhood import Suspect
from diffdag.ordersearch.penalty import Inflation, most_of_effect, penalties, wide_penalty
from diffdag.ordersearch.search import Found, Optimum
from diffdag.tables.moments import Moments

# Which variables go together


def explored(suspects=(), moved=(), near=None, p=12):
    own = near or {}
    return SimpleNamespace(
        suspects=[Suspect(i, j, 9.0 - k, given) for k, (i, j, given) in enumerate(suspects)],
        moved=moved,
        near=lambda k: own.get(k, []),
        around=[SimpleNamespace(chosen=np.zeros((p, 1)))],
    )


def test_suspects_bring_what_they_are_given_and_their_neighbours():
    seen = explored([(0, 1, (2,)), (4, 5, ())], near={0: [3, 6], 1: [7], 4: [8], 5: [9, 10]})
    assert screen.make_blocks(seen, 4, 6) == ((0, 1, 2, 3), (4, 5, 8, 9))
    assert screen.make_blocks(seen, 2, 3) == ((0, 1, 2), (4, 5))
    assert screen.make_blocks(seen, 2, 2) == ((0, 1), (4, 5))
    assert screen.make_blocks(seen, 8, 12) == ((0, 1, 2, 3, 6, 7), (4, 5, 8, 9, 10))
    many = explored([(0, 1, ())], near={0: list(range(2, 12))})
    assert screen.make_blocks(many, 12, 12) == ((0, 1, 2, 3, 4, 5, 6, 7),)  # six neighbours of each


def test_blocks_that_a_pair_joins_become_one_if_they_have_space():
    pairs = [(0, 1, ()), (2, 3, ()), (1, 2, (7,)), (4, 0, ())]
    assert screen.make_blocks(explored(pairs), 4, 6) == ((0, 1, 2, 3, 7, 4),)
    assert screen.make_blocks(explored(pairs), 3, 5) == ((0, 1, 2, 3, 7),)
    assert screen.make_blocks(explored(pairs), 3, 4) == ((0, 1, 2, 3),)
    assert screen.make_blocks(explored(pairs), 3, 3) == ((0, 1, 7), (2, 3))


def test_variables_that_look_changed_by_themselves_join_their_neighbours():
    seen = explored([(0, 1, ()), (2, 3, ())], moved=(6, 9), near={6: [3, 2, 0], 9: [8]})
    assert screen.make_blocks(seen, 4, 6) == ((0, 1), (2, 3, 6), (9, 8))
    assert screen.make_blocks(seen, 2, 6) == ((0, 1), (2, 3), (9, 8))  # 6 is alone
    every = screen.make_blocks(replace_near(seen, p=12), 3, 6, every=True)
    assert sorted(k for own in every for k in own) == list(range(12))
    assert every[:3] == ((0, 1), (2, 3, 6), (9, 8))
    assert every[3:] == ((4, 5, 7), (10, 11))


def replace_near(seen, p):
    return SimpleNamespace(**{**vars(seen), "around": [SimpleNamespace(chosen=np.zeros((p, 1)))]})


def test_what_is_kept_of_so_many_rows():
    assert [screen.most_variables(rows) for rows in (3, 30, 301, 3000)] == [2, 20, 200, 200]
    assert [screen.most_variables(3000, 50), screen.most_variables(30, 50)] == [50, 20]
    assert [screen.most_together(rows) for rows in (30, 700, 9000)] == [20, 466, 500]
    assert "2 variables of 9 were screened out before the search, because 30 rows can order at most 20" in (
        screen.screening_note(9, 7, 30)
    )
    assert "because you asked for at most 5" in screen.screening_note(9, 5, 3000, 5)
    assert "because the search can take at most 200" in screen.screening_note(300, 200, 3000)
    assert screen.blocks_note(9, 8).startswith("1 variable of 9 were screened out")
    seen = screen.Screened([5, 2, 8, 1], {}, ((5, 2), (8,), (1, 4)))
    assert (seen.members, screen.Screened([5, 2]).members) == ([1, 2, 4, 5, 8], [2, 5])
    less = seen.without([8, 2])
    assert (list(less.ranked), less.blocks) == ([5, 1], ((5,), (1, 4)))


# What is put together


def test_evidence_counts_by_its_rank():
    """The bound falls by the logarithm of how many are claimed, and all above the last that passes are."""
    bound = wide_penalty(100)
    levels = [bound + 1, bound - 0.5, bound - math.log(3), bound - 1.5, bound - 2]
    judged = [Judged(k, k + 1, level) for k, level in enumerate(levels)]
    assert [own.effect for own in claimed(judged[::-1], 100)] == [0, 1, 2]
    assert claimed(judged[1:2], 100) == []
    assert len(claimed([Judged(0, 1, bound)], 100)) == 1
    assert claimed([], 100) == []
    assert gained(stats.chi2.sf(2 * 3.7, 1)) == pytest.approx(3.7)
    assert [gained(own) for own in (1.0, math.nan, 0.0, 5e-324)] == [0.0, 0.0, 700.0, 700.0]
    assert blocks.search_penalty(100) == pytest.approx(0.7 * (wide_penalty(100) - most_of_effect(100)))
    assert most_of_effect(4) == 0
    assert most_of_effect(100) == pytest.approx(math.log(100) - 1.6)


def block_fit(columns, order, changed, margins, judged, regressors, moved=(), separate=()):
    k = len(columns)
    marks = [np.isin(np.arange(k), own) for own in (moved, separate)]
    found = np.zeros((k, k), bool)
    for at in changed:
        found[at] = True
    best = Found(tuple(order), 5.0 + k, found, *marks, np.zeros(k))
    optimum = Optimum(SimpleNamespace(base=2.0), best, 1, 1, margins, {edge: 3.0 + edge[0] for edge in margins})
    return BlockFit(tuple(columns), optimum, tuple(Judged(*own) for own in judged), regressors)


def merged(most, fill=False, before=(), moved=(1,)):
    """Columns 1, 4, 6, 7 and 2, 3, 9 of ten; an effect on 6, and one without evidence on 9; 4 moved."""
    one = block_fit(
        (1, 4, 6, 7),
        (3, 0, 2, 1),
        [(2, 0), (2, 3)],
        {(2, 0): 4.0, (2, 3): 9.0},
        [(6, 1, 99.0), (6, 7, 0.5)],
        {1: (7,), 4: (6,), 6: (7, 1), 7: ()},
        moved=moved,
    )
    two = block_fit(
        (2, 3, 9),
        (1, 0, 2),
        [(2, 1)],
        {(2, 1): 1.0},
        [(9, 3, 1.0)],
        {2: (3,), 3: (), 9: (3,)},
        separate=moved[1:],
    )
    known = np.zeros((10, 10), bool)
    for a, b in before:
        known[a, b] = True
    return merge([one, two], [(1, 4, 6, 7), (2, 3, 9)], 10, known, most, fill=fill)


def test_what_takes_part_in_changes_is_kept_and_what_explains_it():
    found = merged(9)
    assert found.kept == [1, 4, 6, 7]  # the claimed change, 7 that explains 6, and 4, which moved
    assert found.found.order == (3, 0, 2, 1)
    assert found.found.score == pytest.approx(9 + 8 - 4)
    assert found.margins == {(2, 0): 4.0}
    assert found.rises == {(2, 0): 5.0}
    assert np.argwhere(found.found.changed).tolist() == [[2, 0]]
    assert found.found.shifted.tolist() == [False, True, False, False]
    assert not found.found.separate.any()
    assert found.regressors == ((3,), (2,), (3, 0), ())
    assert found.blocks == ((0, 1, 2, 3),)
    assert merged(2).kept == [1, 6]
    assert merged(3).kept == [1, 6, 7]
    assert merged(9, moved=()).kept == [1, 6, 7]
    assert merged(9, fill=True).kept == [1, 2, 3, 4, 6, 7, 9]
    assert merged(4, fill=True).kept == [1, 4, 6, 7]
    other = merged(9, fill=True, before=((9, 7),), moved=(1, 2))
    assert other.blocks == ((0, 3, 4, 5), (1, 2, 6))
    assert other.found.order.index(6) < other.found.order.index(5)
    assert other.found.separate.tolist() == [False] * 6 + [True]


def test_without_a_claim_two_columns_are_kept():
    none = block_fit((3, 5, 8), (1, 2, 0), [], {}, [], {3: (), 5: (), 8: ()})
    assert merge([none], [(3, 5, 8)], 10, np.zeros((10, 10), bool), 9, fill=False).kept == [3, 5]


# Penalties and what a fit says


def test_inflation_multiplies_by_kind():
    base = penalties(200, 150, 4, 9)
    found = penalties(200, 150, 4, 9, inflation=Inflation(1.5, 2.0, 3.0))
    for row, times in ((0, 1.5), (1, 2.0), (2, 1.0), (3, 3.0)):
        np.testing.assert_allclose(found[row], times * base[row])
    np.testing.assert_allclose(base[4], base[0] + base[1] + base[3])
    assert Inflation(1.0, 2.0, 3.0).times(2) == (2.0, 4.0, 6.0)
    assert Inflation(1.0, 2.0, 3.0).for_units(0.5, 4.0) == (1.0, 8.0, 3.0)
    assert Inflation(1.0, 2.0, 3.0).for_units(5.0, 0.4) == (5.0, 2.0, 3.0)
    for factor in (1.0, 1.3):
        wide = penalties(1e7, 1e7, 4, 9, factor, change=5.0)
        np.testing.assert_allclose(wide[0], 5.0 * factor, rtol=1e-4)
        ample = factor * max(math.log(2e7) / 2 + 2 * math.log(9), 0.9 + 3.65 * math.log(4))
        np.testing.assert_allclose(wide[1], 0.6 * ample, rtol=1e-3)
        np.testing.assert_allclose(wide[3], 0.5 * ample, rtol=1e-3)
    few = max(math.log(40) / 2 + 2 * math.log(16), 0.9 + 3.65 * math.log(16))
    assert few == pytest.approx(0.9 + 3.65 * math.log(16))
    level = stats.chi2.sf(2 * few, 1)
    t, free = stats.t.isf(level / 2, 40 - 3 - 5), 40 - 3 - 5
    assert penalties(20, 20, 16, 16)[0, 5] == pytest.approx(free / 2 * math.log1p(t**2 / free))


def plain_fit(p=4, n=(300, 250), seed=1):
    rng = np.random.default_rng(seed)
    tables = []
    for k, own in enumerate(n):
        table = rng.standard_normal((own, p))
        for j in range(1, p):
            table[:, j] += (0.8 + 0.9 * k * (j == 2)) * table[:, j - 1]
        tables.append(table + np.array([0.0, 0.8 * k, 0.0, 0.0]))
    one, two = (Moments.from_array(table, tuple("abcd")) for table in tables)
    settings = fit.OrderSettings(equal_noise=False, rng=np.random.default_rng(0), jobs=1)
    free = np.zeros((p, p), bool)
    rows = tuple(table - table.mean(axis=0) for table in tables)
    return fit.fit_samples(one.names, one, two, free, settings, screen.Screened(range(p)), rows=rows)


@pytest.fixture(scope="module")
def found():
    return plain_fit()


def test_what_chance_multiplies_penalties_by_is_said(found):
    settings = replace(found.settings, inflation=Inflation(1.5, 1.04, 2.0))
    said = fit._inflation(replace(found, settings=settings))
    assert "because of how these rows are spread: penalties are 1.5 times for effects and 2 times for" in said
    assert "noise variances" not in said
    heavy = [own.copy() for own in found.rows]
    heavy[0][:3, 1] = 90.0
    said = fit._inflation(replace(found, settings=settings, rows=tuple(heavy)))
    assert "because of heavy tails or many zeros in 'b': " in said
    assert said.endswith("a rare yes or no, leaving it out would find more")
    units = SimpleNamespace(multiples=(1.0, 1.2), nested=SimpleNamespace(name="donor"))
    assert "differences between 'donor'" in fit._inflation(replace(found, settings=settings, units=units))
    units.multiples = (1.0, 1.0)
    assert "how these rows" in fit._inflation(replace(found, settings=settings, units=units))
    notes = [
        list(fit._notes(replace(found, settings=replace(settings, inflation=own))))
        for own in (Inflation(1.04, 1.0, 1.0), Inflation(1.0, 1.0, 1.05))
    ]
    assert [any("chance goes further" in note for note in own) for own in notes] == [False, True]


def test_how_starts_agreed_is_said(found):
    for starts, reached, said in (
        (5, 0, "none of 5 starts found these changes by itself"),
        (1, 0, "none of 1 start found these changes by itself"),
        (5, 3, "3 of 5 starts found these changes"),
    ):
        other = replace(found, optimum=replace(found.optimum, starts=starts, reached=reached))
        assert fit._agreement(other) == said + ", but for those not settled" * bool(other.unsettled and reached)
        assert fit._described(other)["search"] == fit._agreement(other)
        assert any("did not agree with itself" in note for note in fit._notes(other)) == (reached < 2)
    none = replace(found, optimum=replace(found.optimum, starts=0))
    assert fit._described(none)["search"] == "all admissible orders compared"
    given = replace(none, settings=replace(found.settings, known=("order",)))
    assert fit._described(given)["search"] == "order given"


def test_claims_are_about_some_or_all(found):
    every, some = found.claims(), found.claims({"c", "d"})
    assert [edge[:2] for edge in every.edges] == [("b", "c")]
    assert some.edges == every.edges
    assert "b" in every.mean
    assert "b" not in some.mean
    assert every.noise == found.claims({"a", "b", "c", "d"}).noise
    noisy = replace(
        found, optimum=replace(found.optimum, best=replace(found.optimum.best, separate=np.ones(4, bool)))
    )
    wide = replace(noisy, first=replace(found.first, scatter=9 * found.first.scatter))
    assert set(wide.claims().noise) == set("abcd")
    assert set(wide.claims({"a", "d"}).noise) == {"a", "d"}


def test_gains_are_claimed_of_those_asked_about(found):
    changed = np.zeros((4, 4), bool)
    changed[3, 3] = True
    gains = Found((0, 1, 2, 3), 0.0, changed, np.zeros(4, bool), np.zeros(4, bool), np.zeros(4))
    other = replace(found, optimum=replace(found.optimum, best=gains, margins={(3, 0): 9.0, (3, 2): 9.0}))
    assert other.claims().gain == ("d",)
    assert other.claims({"a", "b"}).gain == ()
    assert [own.variable for own in other.difference.gain_list] == ["d"] * bool(other.difference.edge_list)


def test_gains_are_effects_if_there_is_one():
    changed = np.zeros((4, 4), bool)
    changed[3, 3] = changed[2, 2] = changed[3, 0] = True
    best = Found(
        (0, 1, 2, 3), 0.0, changed, np.array([1, 0, 0, 0], bool), np.array([0, 1, 0, 0], bool), np.zeros(4)
    )
    own = fit.Structure.of(tuple("abcd"), best, [(2, 1), (3, 0), (3, 1), (3, 2)])
    assert own.causes == {3: (0,), 2: (1,)}
    assert own.multiplied == {3: (1, 2)}
    assert (own.gains, own.separate, own.shifted) == ({3}, {1}, {0, 2, 3})
    assert own.touched == [0, 1, 2, 3]
    assert own.predecessors(2) == [0, 1]
    assert own.hurdle(1.0, 2.0) == 1 + 2 * 2
    blocked = replace(own, in_blocks=fit.InBlocks(((), (0,), (1,), ()), ((0, 1), (2, 3)), 9, 90))
    assert blocked.predecessors(2) == [1]
    assert blocked.hurdle(1.0, 2.0) == pytest.approx(1 + 2 * 3 + math.log(10))


def test_what_was_observed_less_often_has_larger_errors(found):
    known = np.full((4, 4), 0.5)
    other = replace(found, known_cells=known)
    plain, wide = found.regression(2), other.regression(2)
    np.testing.assert_allclose(wide.error_delta, math.sqrt(2) * plain.error_delta, rtol=0.01)
    np.testing.assert_allclose(wide.first, plain.first)
    assert (found._observed(1, 2), other._observed(1, 2)) == (1.0, 0.5)
    assert found.levels(3) is found.regression(3)
    assert set(found.regressions) == set(found.structure.touched)
