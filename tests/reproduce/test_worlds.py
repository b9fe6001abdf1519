"""The worlds over which confidence is calibrated are what they say, and so is what they call true."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from studies import benchmark_modules

NAMES = ("broken_worlds", "record", "measure", "worlds")


@pytest.fixture(scope="module")
def modules():
    with benchmark_modules(NAMES) as found:
        yield found


@pytest.fixture(scope="module")
def made(modules):
    return modules["broken_worlds"]


def planned(made, number, rows=20_000):
    """A plan with so many rows that its sample is nearly the population."""
    return replace(made.draw_plan(np.random.default_rng([864_200, number])), rows=(rows, rows))


def broken(made, name, strength=1.0, **kinds):
    """The first plan whose models differ, with one thing broken."""
    plan = next(plan for k in range(50) if len((plan := planned(made, k, **kinds)).changed) >= 2)
    made.WORLDS[name](plan, strength)
    return plan


def population(plan, condition):
    """Covariance matrix of a linear model."""
    total = np.linalg.inv(np.eye(plan.size) - plan.weights[condition])
    return total @ np.diag(plan.scale[condition] ** 2) @ total.T


def observed(plan):
    tables = None
    for step in (*plan.observe, *plan.record):
        tables = step(tables or plain(plan))
    return tables


def plain(plan):
    return sys.modules["broken_worlds"].simulate(plan)


def test_every_world_gives_tables_whose_truth_is_about_their_columns(made):
    for world in made.WORLDS:
        for number in range(3):
            data = made.draw(world, 864_201, number)
            if number == 0:
                again = made.draw(world, 864_201, number)
                assert np.array_equal(data.first, again.first)
                assert np.array_equal(data.second, again.second)
                assert data.truth == again.truth
            for table in (data.first, data.second):
                assert np.isfinite(table).all()
                assert table.shape[1] == len(data.names)
                assert len(table) >= 140
            for cause, effect in data.truth.direct | data.truth.through:
                assert cause in data.names
                assert effect in data.names
                assert cause != effect
            assert next(iter(data.breaks)) == world
            assert len(data.breaks) <= 6
            assert world == "proxies" or not data.truth.through


def test_numbers_of_changes_and_sizes_are_as_stated(made):
    plans = [planned(made, k, 2) for k in range(200)]
    counts = np.array([len(plan.changed) for plan in plans])
    assert {0, 1, 2, 3, 4, 5, 6} <= set(counts.tolist())
    assert 0.1 < np.mean(counts == 0) < 0.35
    assert min(plan.size for plan in plans) == 6
    assert max(made.draw_plan(np.random.default_rng(k), 30).size for k in range(100)) > 20


def test_a_clean_world_has_the_covariances_of_its_models(made):
    for number in range(3):
        plan = planned(made, number, 100_000)
        for condition, table in enumerate(plain(plan)):
            expected = population(plan, condition)
            scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
            assert np.abs((np.cov(table, rowvar=False) - expected) / scale).max() < 0.03
            mean = np.linalg.solve(np.eye(plan.size) - plan.weights[condition], plan.shift[condition])
            assert np.abs((table.mean(axis=0) - mean) / np.sqrt(np.diag(expected))).max() < 0.03


def test_regressions_on_all_causes_differ_exactly_where_the_truth_says(made):
    plan = broken(made, "clean", rows=100_000)
    names = {k: str(k) for k in range(plan.size)}
    truth = made.truth_of(plan, names)
    first, second = plain(plan)
    for i in range(plan.size):
        causes = list(range(i))  # those before it in the order
        slopes = [
            np.linalg.lstsq(x[:, causes] - x[:, causes].mean(0), x[:, i] - x[:, i].mean(), rcond=None)[0]
            for x in (first, second)
        ]
        for j, gap in zip(causes, np.abs(slopes[0] - slopes[1]), strict=True):
            assert (gap > 0.05) == truth.changed(str(j), str(i))
            assert truth.pair(str(i), str(j)) == truth.changed(str(j), str(i))


@pytest.mark.parametrize(("name", "least"), [("tails", 2.0), ("skew", 5.0)])
def test_tails_are_heavy_and_have_the_stated_variance(made, name, least):
    noise = broken(made, name).noise((400_000, 1))
    assert stats.kurtosis(noise)[0] > least
    assert abs(noise.mean()) < 0.02
    assert abs(noise.std() - 1) < 0.1


def test_loops_have_settled(made):
    plan = broken(made, "feedback", rows=100_000)
    assert np.triu(plan.weights[0], 1).any()
    expected = population(plan, 1)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.abs((np.cov(plain(plan)[1], rowvar=False) - expected) / scale).max() < 0.03


def test_unmeasured_causes_are_no_columns_and_change_no_truth(made):
    plan = broken(made, "clean")
    names = {k: str(k) for k in range(30)}
    before = made.truth_of(plan, names)
    for name in ("hidden", "hidden_moves", "covariate"):
        size = plan.size
        made.WORLDS[name](plan, 0.8)
        assert plan.size > size
        assert plan.hidden >= set(range(size, plan.size))
        assert made.truth_of(plan, names) == before
    assert (plan.scale[0, size:] != plan.scale[1, size:]).all()


def test_a_proxy_stands_for_the_cause_that_has_no_column(made):
    plan = broken(made, "proxies")
    truth = made.truth_of(plan, {k: str(k) for k in range(plan.size)})
    assert plan.hidden
    assert truth.through
    hidden = {str(k) for k in plan.hidden}
    assert not hidden & {name for ends in truth.direct | truth.through for name in ends}
    for j, i in plan.changed:
        if j in plan.hidden and i not in plan.hidden:
            effects = set(np.flatnonzero(plan.weights[0, :, j])) - plan.hidden - {i}
            assert effects
            assert all(truth.changed(str(k), str(i)) for k in effects)


def test_an_effect_through_an_unmeasured_variable_joins_the_columns_at_its_ends(made):
    """a -> h -> b, where h has no column: whichever part changes, the effect of a on b does."""
    for changed in ((1, 0), (2, 1)):
        weights = np.zeros((2, 3, 3))
        weights[:, 1, 0] = weights[:, 2, 1] = 1.0
        weights[1][changed] = 0.2
        plan = made.Plan(
            np.random.default_rng(0), (9, 9), weights, np.ones((2, 3)), np.zeros((2, 3)), [0, 1, 2], {1}
        )
        truth = made.truth_of(plan, dict(enumerate("ahb")))
        assert (truth.direct, truth.through) == (frozenset(), frozenset({("a", "b")}))


def test_copies_correlate_as_stated_and_claim_nothing(made):
    plan = broken(made, "clean")
    size, truth = plan.size, made.truth_of(plan, {k: str(k) for k in range(30)})
    plan.scale[1], plan.shift[1], plan.weights[1] = plan.scale[0], 0, plan.weights[0]
    made.copies(plan, 1.0)
    for new in range(size, plan.size):
        (source,) = np.flatnonzero(plan.weights[0, new])
        assert 0.95 < np.corrcoef(plain(plan)[0], rowvar=False)[new, source] < 1
    assert not any(str(new) in ends for new in range(size, plan.size) for ends in truth.direct)


def test_selection_raises_the_mean_of_a_variable(made):
    plan = broken(made, "selection")
    with_it = plain(plan)
    plan.keep = None
    without = plain(plan)
    moved = [(a.mean(axis=0) - b.mean(axis=0)) / b.std(axis=0) for a, b in zip(with_it, without, strict=True)]
    assert moved[1].max() > 0.4
    assert [len(rows) for rows in with_it] == [20_000, 20_000]


def test_rows_of_a_series_depend_on_those_before(made):
    x = plain(broken(made, "series"))[0][:, 0]
    assert np.corrcoef(x[1:], x[:-1])[0, 1] > 0.6


def test_what_is_recorded_is_blurred_counted_tied_and_spoilt(made):
    counts = np.expm1(observed(broken(made, "counts"))[0])
    assert np.allclose(counts, np.round(counts))
    assert (counts >= 0).all()
    assert (counts == 0).mean() > 0.3
    tied = observed(broken(made, "ties"))[0]
    assert all(len(np.unique(column.round(9))) < 100 for column in tied.T)
    plan = broken(made, "outliers")
    assert stats.kurtosis(observed(plan)[0]).max() > stats.kurtosis(plain(plan)[0]).max() + 1
    plan = broken(made, "error")
    assert (observed(plan)[0].std(axis=0) / plain(plan)[0].std(axis=0)).max() > 1.03
    plan = broken(made, "donors")
    assert (observed(plan)[0].std(axis=0) / plain(plan)[0].std(axis=0)).max() > 1.05


def test_bends_and_growing_noise_are_alike_in_both_conditions(made):
    """Where no effect and no range differs, neither do the tables."""
    for name in ("bends", "multiplicative"):
        plan = broken(made, name, rows=50_000)
        for what in (plan.weights, plan.scale, plan.shift):
            what[1] = what[0]
        first, second = plain(plan)
        assert max(stats.ks_2samp(a, b).statistic for a, b in zip(first.T, second.T, strict=True)) < 0.02
        assert max(abs(stats.skew(first))) > 0.1 or max(stats.kurtosis(first)) > 0.2


# ------------------------------------------------------------------------------------------------ harness


@pytest.fixture
def worlds(modules, tmp_path, monkeypatch):
    monkeypatch.setattr(modules["record"], "RESULTS", tmp_path)
    return modules["worlds"]


def run(worlds, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["worlds.py", *map(str, words)])
    worlds.main()


def test_collecting_continues_and_notes_what_is_known(worlds, tmp_path, monkeypatch):
    out = tmp_path / "claims.jsonl"
    words = ("collect", "--out", out, "--worlds", "clean", "ties", "--resamples", 20, "--most", 6)
    run(worlds, monkeypatch, *words, "--sets", 1)
    begun = out.read_text()
    run(worlds, monkeypatch, *words, "--sets", 2)
    assert out.read_text().startswith(begun)
    rows = worlds.read_sets([out])
    assert sorted((row["world"], row["set"]) for row in rows) == [
        (world, number) for world in ("clean", "ties") for number in (0, 1)
    ]
    claims = list(worlds.claims_of(rows))
    assert claims
    for claim in claims:
        assert 0 <= claim["forward"] + claim["backward"] <= claim["found"] + 1e-3
        assert claim["fits"] > 0
        assert claim["arrow"] is None or claim["arrow"] <= claim["pair"]
    clean = [claim for claim in claims if claim["world"] == "clean"]
    assert np.mean([claim["pair"] for claim in clean]) > 0.8
    picture = tmp_path / "reliability.svg"
    run(worlds, monkeypatch, "report", out, "--worlds", "ties", "--chosen-on", out, "--plot", picture)
    assert "confidence" in picture.read_text()
    sections = {entry["section"] for entry in worlds.kept(tmp_path / "worlds.jsonl")}
    assert {"report pair", "report worlds pair"} <= sections


def test_more_fits_make_no_more_certain_than_those_that_count(worlds):
    assert worlds.odds(1.0, 10) < worlds.odds(1.0, worlds.COUNTED) == worlds.odds(1.0, 100)
    assert worlds.odds(0.5, 20) == 0
    claim = {"fits": 10, "forward": 0.2, "backward": 0.6, "undirected": 0.2, "found": 1.0}
    assert worlds.arrow_odds(claim) == pytest.approx(worlds.odds(0.3, 10))
    assert worlds.arrow_odds(claim, "varied_") == worlds.arrow_odds(claim)


def invented(worlds, count, rng):
    """Claims whose chance to be right is known: log-odds 1 + x - 2 doubt; `idle` says nothing."""
    claims = []
    for number in range(count):
        x, doubt = rng.normal(0, 2), float(rng.random() < 0.4)
        right = bool(rng.random() < 1 / (1 + np.exp(-(1 + x - 2 * doubt))))
        world = ("tails", "bends", "ties")[number % 3]
        claims.append(
            {
                "x": x,
                "doubt": doubt,
                "idle": rng.normal(),
                "pair": right,
                "world": world,
                "breaks": {world: 1.0},
            }
        )
    signs = (("x", 1), ("doubt", -1), ("idle", 1))
    terms = tuple(worlds.Term(name, sign, lambda claim, name=name: claim[name]) for name, sign in signs)
    return claims, terms


def test_a_line_recovers_how_features_and_truth_go_together(worlds):
    claims, terms = invented(worlds, 6000, np.random.default_rng(864_300))
    line = worlds.fit_line(claims, terms, "pair")
    assert np.allclose([line.level, *line.slopes], [1, 1, -2, 0], atol=0.2)
    stated = worlds.predicted_elsewhere(claims, terms, "pair")
    right = np.array([claim["pair"] for claim in claims])
    for low, high in ((0.2, 0.4), (0.7, 0.9), (0.95, 1.1)):
        own = (stated >= low) & (stated < high)
        assert abs(right[own].mean() - stated[own].mean()) < 0.05
    assert worlds.loss(stated, right) < worlds.loss(np.full(len(right), right.mean()), right) - 0.1


def test_slopes_keep_their_sign(worlds):
    claims, terms = invented(worlds, 600, np.random.default_rng(864_301))
    flipped = tuple(replace(term, sign=-term.sign) for term in terms)
    line = worlds.fit_line(claims, flipped, "pair")
    assert line.slopes[0] == 0
    assert line.slopes[1] == 0


def test_a_world_is_left_out_with_every_data_set_that_breaks_the_same(worlds):
    claims = [{"breaks": {"tails": 0.1}}, {"breaks": {"bends": 0.3, "tails": 0.2}}, {"breaks": {"bends": 0.5}}]
    assert worlds.without_world(claims, "tails") == claims[2:]
    assert worlds.without_world(claims, "clean") == claims
