"""Confidence, lists with few false edges, and what `fit` can be asked for besides the fit."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import diffdag as dd
from diffdag import pipeline
from diffdag.refits import resample_fits
from diffdag.report.html.page import render_page
from diffdag.result import DifferenceResult
from diffdag.results.json import from_json
from diffdag.results.records import Check, Edge, GlobalTest, MeanChange, NoiseChange, Share, Stability
from diffdag.trust import confidence as curves
from diffdag.trust.false_edges import control_false_edges
from diffdag.trust.options import Assessment
from diffdag.trust.stability import expected_false_bound

PAIR = dd.simulate_pair(p=5, neighbours=2, changes=1, weights=(0.8, 1.0), rng=3)
TABLES = PAIR.first.sample(300, rng=1), PAIR.second.sample(260, rng=2)
NAMES = tuple("abcdef")


def answer(edges, stability=None, noise=()):
    ends = {name for edge in edges for name in (edge.source, edge.target)}
    return DifferenceResult(
        method="order",
        variables=NAMES,
        invariant=tuple(name for name in NAMES if name not in ends),
        unresolved=tuple(
            name for name in NAMES if any(name in (e.source, e.target) for e in edges if not e.directed)
        ),
        order=(
            tuple(name for name in NAMES if any(name in (e.source, e.target) for e in edges if e.directed)),
        ),
        edge_list=tuple(edges),
        delta_entries=csr_array((6, 6)),
        samples=(100, 100),
        settings={},
        stability=stability,
        noise_list=noise,
    )


class TestConfidence:
    @given(st.floats(0, 1), st.floats(0, 1), st.integers(20, 1000))
    @settings(max_examples=100, derandomize=True, deadline=None)
    def test_it_is_a_probability_that_grows_with_the_share(self, one, two, fits):
        for curve in (curves.DIRECTION, curves.PAIR, curves.NOISE, curves.MEAN):
            low, high = (curve(curves.Votes.of(share, fits)) for share in sorted((one, two)))
            assert 0 <= low <= high <= 1

    def test_more_fits_that_all_agree_make_surer(self):
        few, many = (curves.PAIR(curves.Votes(fits, 0)) for fits in (10, 200))
        assert few < many < 1
        few, many = (curves.PAIR(curves.Votes(0, fits)) for fits in (10, 200))
        assert few > many > 0

    def test_what_speaks_against_an_edge_makes_less_sure(self):
        quiet = answer([Edge("a", "b"), Edge("a", "c")])
        loud = replace(
            quiet,
            edge_list=(Edge("a", "b", settled=False), Edge("a", "c")),
            noise_list=(NoiseChange("a"), NoiseChange("b")),
            mean_list=(MeanChange("a"), MeanChange("b")),
            checks=tuple(Check(name, False, "") for name in ("range", "normality")),
        )
        votes, wavering = curves.Votes(14, 1), curves.Votes(8, 7)
        for curve in (curves.PAIR, curves.DIRECTION):
            less, more = (
                curve(
                    votes, curves.Facts.about(own.edge_list[0], curves.Evidence(votes, votes, plain, 15), own)
                )
                for own, plain in ((loud, wavering), (quiet, votes))
            )
            assert less < more

    def test_an_arrow_that_a_moved_range_may_explain_is_not_judged(self):
        resamples = resample_fits(*TABLES, fits=20)
        for support in ("range", "unclear", "mechanism"):
            claimed = replace(answer([Edge("a", "b", support=support)]), variables=NAMES)
            (edge,) = curves.add_confidence(claimed, resamples, resamples, 20).edge_list
            assert edge.confidence is not None
            assert (edge.direction is None) == (support != "mechanism")
            kept = control_false_edges(replace(claimed, edge_list=(replace(edge, confidence=0.99),)), 0.05)
            assert [own.directed for own in kept.edge_list] == ([] if support == "range" else [False])

    def test_the_error_is_what_other_fits_would_have_moved_a_probability_by(self):
        rng, fits, share = np.random.default_rng(840_210), 400, 0.6
        drawn = rng.binomial(fits, share, size=2000)
        values = [curves.PAIR(curves.Votes.of(k / fits, curves.COUNTED)) for k in drawn.tolist()]
        stated = curves.PAIR.error(curves.Votes.of(share, curves.COUNTED), fits)
        assert stated == pytest.approx(np.std(values), rel=0.1)

    @pytest.mark.slow
    def test_a_fit_has_what_the_resamples_say(self):
        model = dd.DifferenceDAG(n_jobs=1, rng=7)
        result = model.set_params(resamples=60, permutations=0).fit(*TABLES).result_
        assert result.global_test is None
        again, halves = (
            resample_fits(*TABLES, fits=fits, kind=kind, varied=fits > 20, model=dd.DifferenceDAG(rng=7))
            for kind, fits in (("bootstrap", 46), ("half", 14))
        )
        stability = result.stability
        assert stability.shares == again.shares
        assert (stability.fits, stability.varied, stability.pairs, stability.asked) == (23, 23, 7, None)
        found = np.mean([len(edges) for edges in halves.found])
        assert stability.expected_false == expected_false_bound(found, 10, 0.75, 7)
        stable = {f"{s.source} -> {s.target}" for s in halves.shares if s.found >= 0.75}
        assert set(result.stability.stable) == stable
        (edge,) = result.edge_list
        assert (edge.source, edge.target) in PAIR.edges
        share = next(s for s in again.shares if (s.source, s.target) == (edge.source, edge.target))
        votes = curves.Votes.of(share.varied.found, min(share.varied.fits, curves.COUNTED))
        facts = curves.Facts.about(edge, curves.Evidence.of(edge.source, share, again.answers), result)
        assert edge.confidence == pytest.approx(curves.PAIR(votes, facts))
        assert 0.5 < edge.direction < 1
        assert result.edges["confidence"].tolist() == [edge.confidence]

    def test_of_a_direction_that_was_given_resamples_say_nothing(self):
        order = [PAIR.first.names[k] for k in PAIR.first.order]
        model = dd.DifferenceDAG(order=order, resamples=20, permutations=0, n_jobs=1)
        for edge in model.fit(*TABLES).result_.edge_list:
            assert edge.directed
            assert edge.confidence > 0.5
            assert edge.direction is None

    @pytest.mark.slow
    def test_resamples_end_when_the_numbers_have_settled(self, tmp_path):
        pair = dd.simulate_pair(p=5, neighbours=2, changes=2, weights=(0.7, 1.0), rng=840_211)
        tables = pair.first.sample(2000, rng=1), pair.second.sample(2000, rng=2)
        options = {"resamples": 400, "permutations": 0}
        one = dd.DifferenceDAG(n_jobs=1, **options).fit(*tables).result_
        two = dd.DifferenceDAG(n_jobs=2, **options).fit(*tables, journal=tmp_path).result_
        assert one == two == dd.DifferenceDAG(**options).fit(*tables, journal=tmp_path).result_
        stability = one.stability
        assert stability.asked == 400
        assert 50 <= stability.fits + stability.varied < 150
        made = stability.fits + stability.varied + 2 * stability.pairs + stability.failed
        assert one.settings["resamples"] == f"stopped after {made} of 400: the numbers had settled"
        assert one.settings["resamples"] in " ".join(one.summary().split())

    def test_an_edge_no_resample_found_is_not_believed(self):
        resamples = resample_fits(*TABLES, fits=20)
        claimed = replace(answer([Edge("a", "b")]), variables=NAMES)
        weighed = curves.add_confidence(claimed, resamples, resamples, 20)
        assert weighed.edge_list[0].confidence < 0.5

    @pytest.mark.slow
    def test_the_same_whoever_does_the_work_and_after_an_interruption(self, tmp_path):
        one = dd.DifferenceDAG(n_jobs=1, resamples=20, permutations=19).fit(*TABLES).result_
        two = dd.DifferenceDAG(n_jobs=2, resamples=20, permutations=19).fit(*TABLES, journal=tmp_path).result_
        assert one == two
        (bootstrap, half) = sorted(tmp_path.glob("*.journal"))
        lines = bootstrap.read_bytes().splitlines(keepends=True)
        bootstrap.write_bytes(b"".join(lines[:4]) + lines[4][:7])  # killed while writing
        half.unlink()
        done = []

        def told(count, total, what):
            done.append((what, count))

        model = dd.DifferenceDAG(n_jobs=1)
        assert (
            model.set_params(resamples=20, permutations=19)
            .fit(*TABLES, journal=tmp_path, progress=told)
            .result_
            == one
        )
        assert min(count for what, count in done if what.startswith("Resampling (bootstrap)")) == 3

    def test_the_settings_tell_the_target_and_resamples_ask_for_the_global_test(self):
        asked = dd.DifferenceDAG(n_jobs=1, resamples=20, fdr=0.2).fit(*TABLES).result_
        assert asked.selection.fdr == 0.2
        assert asked.global_test.permutations == 999


class TestFalseDiscoveries:
    @given(st.lists(st.floats(0, 1), max_size=5), st.floats(0.01, 0.5))
    @settings(max_examples=200, derandomize=True, deadline=None)
    def test_as_many_as_possible_within_the_target(self, confidences, fdr):
        edges = [Edge(NAMES[k], NAMES[k + 1], confidence=c) for k, c in enumerate(confidences)]
        kept = control_false_edges(answer(edges), fdr).edge_list
        doubts = sorted(1 - c for c in confidences)
        best = max((k for k in range(len(doubts) + 1) if sum(doubts[:k]) <= fdr * k + 1e-12), default=0)
        assert len(kept) <= best
        assert sum(1 - e.confidence for e in kept) <= fdr * len(kept) + 1e-12
        assert len(kept) == best or math.isclose(sum(doubts[:best]), fdr * best, abs_tol=1e-9)
        assert [e for e in edges if e in kept] == list(kept)

    def test_a_sure_pair_of_unsure_direction_stays_undirected(self):
        edges = [
            Edge("b", "a", confidence=0.99, direction=0.5, stand_ins=("e", "f")),
            Edge("c", "d", confidence=0.999, direction=0.999),
        ]
        kept = control_false_edges(answer(edges), 0.05)
        assert [edge.stand_ins for edge in kept.edge_list] == [("e", "f"), ()]
        assert [(e.source, e.target, e.directed) for e in kept.edge_list] == [
            ("a", "b", False),
            ("c", "d", True),
        ]
        assert kept.unresolved == ("a", "b")
        assert kept.order == (("c",), ("d",))
        assert "direction" in kept.notes[-1]
        assert "'b -> a'" in kept.notes[-1]

    def test_pairs_come_before_arrows(self):
        """One arrow would take what lets another pair in."""
        edges = [
            Edge("a", "b", confidence=0.9624, direction=0.95),
            Edge("c", "d", confidence=0.938, direction=0.95),
        ]
        kept = control_false_edges(answer(edges), 0.05).edge_list
        assert [(e.source, e.target, e.directed) for e in kept] == [("a", "b", False), ("c", "d", False)]
        wider = control_false_edges(answer(edges), 0.08).edge_list
        assert sum(e.directed for e in wider) == 1

    def test_nothing_sure_enough_is_not_no_change(self):
        kept = control_false_edges(answer([Edge("a", "b", confidence=0.9)]), 0.05)
        assert kept.summary().startswith("1 changed effect found, not sure enough to be listed\n")
        assert "No change found" not in kept.summary()
        assert "Found, but not sure enough" in render_page(kept)

    def test_everything_agrees_with_what_is_left(self):
        edges = [
            Edge("a", "b", confidence=0.999),
            Edge("c", "d", confidence=0.2),
            Edge("e", "f", confidence=0.1),
        ]
        kept = control_false_edges(answer(edges, noise=(NoiseChange("c"),)), 0.05)
        assert kept.invariant == ()  # what is not sure enough is not shown to be unchanged
        assert kept.left_out == tuple(edges[1:])
        assert kept.summary().startswith(
            "1 of 30 possible edges changed: a -> b changed (confidence >99%); 2 more found"
        )
        assert "Found, but not sure enough to be listed:\nc -> d" in kept.summary()
        assert kept.order == (("a",), ("b",))
        assert "2 edges left out" in kept.notes[-1]
        assert "'c -> d'" in kept.notes[-1]
        assert from_json(kept.to_json(), "kept") == kept


@pytest.mark.parametrize(
    ("wishes", "says"),
    [
        ({"resamples": 0}, "resamples must be a whole number, 20 or larger, or None; it is 0"),
        ({"resamples": 10**30}, "resamples must be at most 100,000; it is 1000000"),
        ({"controls": 100_001}, "controls must be at most 100,000; it is 100001"),
        ({"resamples": True}, "resamples must be"),
        ({"resamples": 30.5}, "resamples must be"),
        ({"fdr": 0}, "fdr must be a number between 0 and 1"),
        ({"fdr": "5%"}, "fdr must be"),
        ({"permutations": 5}, "permutations must be a whole number, 19 or larger"),
        ({"permutations": "yes"}, "permutations must be"),
        ({"stored_rows": -1}, "stored_rows must be"),
        ({"intervals": "jackknife"}, "intervals must be one of split"),
    ],
)
def test_bad_options(wishes, says):
    with pytest.raises(dd.InputError, match=says):
        dd.DifferenceDAG(**wishes).fit(*TABLES)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"journal": 5}, "journal must be the path of a folder"),
        ({"journal": __file__}, "is a file; give a folder"),
        ({"progress": "yes"}, "progress must be"),
        ({"labels": ("one",)}, "labels must be two names"),
        ({"labels": "ab"}, "labels must be two names"),
        ({"labels": ("a", "a")}, "both conditions are called 'a'"),
    ],
)
def test_bad_arguments(given, says):
    with pytest.raises(dd.InputError, match=says):
        dd.DifferenceDAG(resamples=20).fit(*TABLES, **given)


@pytest.mark.parametrize(
    "options", [{"resamples": 30}, {"fdr": 0.1}, {"permutations": 99}, {"intervals": "split"}]
)
def test_moments_cannot_be_resampled(options):
    moments = (dd.Moments.from_array(table) for table in TABLES)
    with pytest.raises(dd.InputError, match="needs rows, and only moments are known"):
        dd.DifferenceDAG(**options).fit_moments(*moments)


def test_rows_of_a_time_series_are_not_permuted():
    model = dd.DifferenceDAG(n_jobs=1, effective_samples=150.0)
    assert model.set_params(resamples=20).fit(*TABLES).result_.global_test is None
    with pytest.raises(dd.InputError, match="cannot be permuted"):
        model.set_params(permutations=99).fit(*TABLES)


def test_few_rows_have_an_answer_and_a_note_where_confidence_is_impossible():
    rng = np.random.default_rng(0)
    result = (
        dd.DifferenceDAG(n_jobs=1, resamples=20, permutations=0)
        .fit(rng.normal(size=(7, 6)), rng.normal(size=(7, 6)))
        .result_
    )
    assert result.stability is not None or "there is no confidence" in result.notes[-1]


@pytest.mark.slow
def test_more_variables_than_rows_can_be_resampled():
    rng = np.random.default_rng(1)
    tables = rng.normal(size=(36, 48)), rng.normal(size=(36, 48))
    result = dd.DifferenceDAG(n_jobs=1, resamples=20, permutations=0).fit(*tables).result_
    assert result.stability.fits >= 8
    assert np.mean([share.found for share in result.stability.shares] or [0]) < 0.5


def test_a_column_that_is_nearly_always_zero_can_be_checked():
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=(300, 6)), rng.normal(size=(300, 6))
    first[:, 0] = 0
    first[:3, 0] = 1
    checks = {check.name: check for check in dd.DifferenceDAG().fit(first, second).result_.checks}
    assert not checks["outliers"].passed


def test_intervals_are_measured_before_edges_are_left_out(monkeypatch):
    seen = []

    def spy(result, *rest):
        seen.append(len(result.edge_list))
        return measure(result, *rest)

    measure = pipeline.measure
    monkeypatch.setattr(pipeline, "measure", spy)
    monkeypatch.setattr(pipeline, "control_false_edges", lambda result, fdr: replace(result, edge_list=()))
    model = dd.DifferenceDAG(n_jobs=1)
    result = model.set_params(intervals="split", resamples=20, fdr=0.1, permutations=0).fit(*TABLES).result_
    assert seen == [1]
    assert result.edge_list == ()


def test_what_asks_for_what():
    nothing = Assessment()
    assert (nothing.fits, nothing.permuted, nothing.fits_of, nothing.rows_shown) == (0, 0, {}, 150)
    assert Assessment(fdr=0.1).fits == 200
    assert Assessment(fdr=0.1, resamples=40).fits_of == {"bootstrap": 30, "half": 10}
    assert Assessment(resamples=40).permuted == 999
    assert Assessment(resamples=40, permutations=0).permuted == 0
    assert (Assessment(permutations=99).permuted, Assessment(permutations=99).fits) == (99, 0)


RICH = replace(
    answer([Edge("a", "b", delta=0.5, stderr=0.1, confidence=0.9, low=0.3, high=0.7)]),
    noise_list=(NoiseChange("c", 2.0, 0.5, 4.0, 1e-9, 0.95),),
    mean_list=(MeanChange("d", 1.0, 2.0, -1.0, 0.1, 0.002, None),),
    checks=(
        Check("normality", False, "tails are <b>heavy</b>", 3.0, 0.5),
        Check("condition", True, "all is well"),
    ),
    stability=Stability(100, (Share("a", "b", 0.9, 0.8, 0.1, 0.0),), 50, ("a -> b",), 0.75, 0.2, failed=1),
    global_test=GlobalTest(0.001, 999, {"covariance": 0.002}),
)


class TestReport:
    def test_everything_survives_a_file(self, tmp_path):
        RICH.save(tmp_path)
        assert dd.load(tmp_path) == RICH

    @pytest.mark.parametrize("broken", ["shares", "stable", "kind", "pvalue", "passed", "variable"])
    def test_a_broken_file_is_refused(self, broken):
        value = json.loads(RICH.to_json())
        place = {
            "shares": value["stability"],
            "stable": value["stability"],
            "kind": value["stability"]["shares"][0],
            "pvalue": value["global_test"],
            "passed": value["checks"][0],
            "variable": value["changed_noise"][0],
        }[broken]
        place["found" if broken == "kind" else broken] = {"a": 1}
        with pytest.raises(dd.InputError, match="result file"):
            from_json(json.dumps(value), "broken")

    def test_the_summary_says_it(self):
        text = " ".join(RICH.summary().split())
        assert "Noise variance changed: c (2.00 to 0.50, p < 0.001, confidence 95%)" in text
        assert "Intercept changed, first minus second: d (-1.00 ± 0.10, p = 0.002)" in text
        assert "Global test: the tables differ (p = 0.001, 999 permutations of the rows)" in text
        assert "1 pair found in at least 75% of 100 fits" in text
        assert "Checks: 1 of 2 find nothing against the assumptions" in text
        assert "check of normality: tails are <b>heavy</b>" in text
        assert "+0.300 to +0.700" in text

    def test_the_page_says_it_and_escapes_it(self):
        from diffdag.report.html.page import render_page  # noqa: PLC0415

        page = render_page(RICH)
        assert "How far to trust it" in page
        assert "tails are &lt;b&gt;heavy&lt;/b&gt;" in page
        assert "<b>heavy" not in page
        assert "+0.300 to +0.700" in page

    def test_a_change_of_noise_alone_is_no_lack_of_change(self):
        noisy = replace(RICH, edge_list=(), invariant=NAMES, order=(), stability=None)
        assert noisy.summary().startswith("No effect changed, but the noise of c and the intercept of d did")
        assert noisy.invariant == tuple(name for name in NAMES if name not in "cd")
        assert {noisy.to_networkx().nodes[name]["role"] for name in "cd"} == {"changed"}
        assert "Invariant (take no part): a, b, e, f\n" in noisy.summary() + "\n"

    def test_tables(self):
        assert RICH.changed_noise.loc[0, ["variable", "ratio", "confidence"]].tolist() == ["c", 4.0, 0.95]
        assert RICH.changed_mean.loc[0, ["variable", "delta"]].tolist() == ["d", -1.0]
        assert np.isnan(RICH.changed_mean["confidence"].tolist()).all()
        assert RICH.edges.loc[0, ["low", "high"]].tolist() == [0.3, 0.7]
