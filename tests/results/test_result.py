"""The frozen result, its exchange formats, and the way back from a file."""

from __future__ import annotations

import csv
import io
import json
import pickle
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from diffdag import DifferenceDAG, LinearSEM
from diffdag.report import graphs
from diffdag.report.format import NumberFormat, printable
from diffdag.report.html import page
from diffdag.result import DifferenceResult, load
from diffdag.results import json as exchange
from diffdag.results.difference import Difference
from diffdag.results.records import (
    CHANGES,
    SUPPORTS,
    Edge,
    GainChange,
    MeanChange,
    NodeTest,
    NoiseChange,
    SwitchChange,
    classify_change,
)


def make_result(**changes: Any) -> DifferenceResult:
    """A small answer with every feature; keyword arguments replace parts of it."""
    names = tuple(changes.get("variables", ("Raf", "Mek", "Erk", "PKA", "PKC", "Akt")))
    edges = (
        Edge("Mek", "Erk", change="added", weight_first=0.0, weight_second=0.25, delta=-0.25, stderr=0.03),
        Edge("Raf", "Mek", change="weakened", weight_first=0.9, weight_second=0.4, delta=0.5, stderr=0.05),
        Edge("PKA", "PKC", directed=False),
    )
    parts: dict[str, Any] = {
        "method": "paper",
        "variables": names,
        "invariant": ("Akt",),
        "unresolved": ("PKA", "PKC"),
        "order": (("Raf",), ("Mek",), ("Erk",)),
        "edge_list": edges,
        "delta_entries": csr_array(np.eye(len(names))),
        "samples": (853, 799),
        "settings": {"penalty": 0.3, "estimator": "dantzig", "threshold": None},
        "notes": ("The noise of PKA changed too.",),
        "labels": ("baseline", "U0126"),
    }
    return DifferenceResult(**(parts | changes))


def nothing(names: tuple[str, ...] = ("a", "b", "c")) -> DifferenceResult:
    zeros = csr_array((len(names), len(names)))
    none: dict[str, Any] = {"edge_list": (), "unresolved": (), "order": (), "notes": (), "samples": None}
    return make_result(variables=names, invariant=names, delta_entries=zeros, **none)


class TestClassifyChange:
    @pytest.mark.parametrize(
        ("weights", "absent", "kind"),
        [
            ((0.0, 0.8), (True, False), "added"),
            ((0.8, 0.01), (False, True), "removed"),
            ((0.01, 0.8), (True, True), "added"),
            ((0.8, 0.01), (True, True), "removed"),
            ((0.5, -0.5), (False, False), "reversed-sign"),
            ((-0.2, -0.5), (False, False), "strengthened"),
            ((0.5, 0.2), (False, False), "weakened"),
        ],
    )
    def test_kinds(self, weights: tuple[float, float], absent: tuple[bool, bool], kind: str) -> None:
        assert classify_change(*weights, *absent) == kind

    @given(st.tuples(*[st.floats(-9, 9)] * 2).filter(lambda w: abs(w[0]) != abs(w[1])), *[st.booleans()] * 2)
    def test_swapping_the_conditions_turns_the_kind_around(
        self, weights: tuple[float, float], absent_first: bool, absent_second: bool
    ) -> None:
        turned = dict(
            zip(CHANGES, ("removed", "added", "weakened", "strengthened", "reversed-sign"), strict=True)
        )
        there = classify_change(*weights, absent_first, absent_second)
        assert classify_change(*weights[::-1], absent_second, absent_first) == turned[there]


class TestResult:
    def test_edges_is_a_table_with_the_promised_columns(self) -> None:
        table = make_result().edges
        columns = [
            "source",
            "target",
            "directed",
            "change",
            "weight_first",
            "weight_second",
            "delta",
            "stderr",
            "gain_of",
            "support",
            "confidence",
            "direction",
            "low",
            "high",
            "settled",
            "stand_ins",
            "size",
            "robustness",
        ]
        assert list(table.columns) == columns
        assert table["directed"].tolist() == [True, True, False]
        assert table["change"].tolist() == ["added", "weakened", None]
        assert np.isnan(table["delta"].iloc[2])

    def test_empty_table_has_the_same_types(self) -> None:
        rich = make_result(noise_list=(NoiseChange("Raf", 1.0),), mean_list=(MeanChange("Raf", 1.0),))
        for name in ("edges", "changed_noise", "changed_mean"):
            full, empty = getattr(rich, name), getattr(nothing(), name)
            assert len(empty) == 0 < len(full)
            assert full.dtypes.to_dict() == empty.dtypes.to_dict()
        assert nothing().edges["directed"].dtype == bool
        assert list(nothing().changed_noise) == [
            "variable", "variance_first", "variance_second", "ratio", "pvalue", "confidence",
        ]  # fmt: skip

    def test_what_moved_in_any_way_is_not_invariant(self) -> None:
        assert make_result(noise_list=(NoiseChange("Akt"),)).invariant == ()
        moved = make_result(mean_list=(MeanChange("Akt"),))
        assert moved.invariant == ()
        assert replace(moved, invariant=("Akt",)).invariant == ()
        assert "Invariant" not in moved.summary()
        assert "Invariant" not in page.render_page(moved)
        assert moved.to_networkx().nodes["Akt"]["role"] == "changed"

    def test_replacing_a_part_keeps_the_renderers(self) -> None:
        facts = Difference(**{field.name: getattr(make_result(), field.name) for field in fields(Difference)})
        assert DifferenceResult.of(facts) == facts == make_result()
        assert type(replace(DifferenceResult.of(facts), notes=())) is DifferenceResult

    def test_numbers_that_are_not_finite_are_unknown(self) -> None:
        edge = Edge("a", "b", delta=float("nan"), stderr=np.inf, weight_first=np.float64(1))
        assert (edge.delta, edge.stderr) == (None, None)
        assert type(edge.weight_first) is float

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"invariant": ("nobody",)}, "not a variable"),
            ({"order": (("Raf",), ("Raf",))}, "twice"),
            ({"edge_list": (Edge("Raf", "nobody"),)}, "not a variable"),
            ({"edge_list": (Edge("Raf", "Mek"), Edge("Raf", "Mek"))}, "twice"),
            ({"labels": ("one",)}, "labels"),
            ({"delta_entries": csr_array(np.eye(2))}, "delta_entries"),
        ],
    )
    def test_parts_that_do_not_fit_are_refused(self, changes: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            make_result(**changes)

    def test_matrix_that_is_not_finite_is_refused(self) -> None:
        matrix = make_result().delta_entries.toarray()
        matrix[0, 1] = np.nan
        with pytest.raises(ValueError, match="finite"):
            make_result(delta_entries=csr_array(matrix))

    def test_bad_kind_and_loop_are_refused(self) -> None:
        with pytest.raises(ValueError, match="expected one of"):
            Edge("a", "b", change="vanished")
        with pytest.raises(ValueError, match="itself"):
            Edge("a", "a")

    def test_equality_hash_and_pickle(self) -> None:
        assert make_result() == make_result()
        assert hash(make_result()) == hash(make_result())
        assert make_result() != make_result(notes=())
        assert make_result() != make_result(delta_entries=2 * make_result().delta_entries)
        assert make_result() != 1
        assert pickle.loads(pickle.dumps(make_result())) == make_result()  # noqa: S301

    @pytest.mark.slow
    def test_importing_it_loads_no_renderer(self) -> None:
        heavy = "{'matplotlib', 'jinja2', 'networkx'}"
        code = f"import sys, diffdag.result; print(sorted({heavy} & set(sys.modules)))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"


class TestSummary:
    def test_it_says_what_changed(self) -> None:
        text = make_result().summary()
        lines = text.splitlines()
        assert lines[0] == "3 of 30 possible edges changed; strongest: Raf -> Mek weakened"
        assert "baseline (853 rows) against U0126 (799 rows)" in lines[1]
        assert lines[4].split() == ["Raf", "->", "Mek", "weakened", "0.900", "0.400", "+0.500", "±", "0.050"]
        assert lines[6].split() == ["PKA", "--", "PKC", "undirected"]
        for piece in ("Raf | Mek | Erk", "PKA, PKC", "Akt", "noise of PKA", "penalty 0.3"):
            assert piece in text
        assert str(make_result()) == text

    def test_no_change_reads_well(self) -> None:
        text = nothing().summary()
        assert text.startswith("No change found: 0 of 6 possible edges changed\n")
        assert "exact models" in text
        assert "None" not in text

    def test_only_undirected_edges(self) -> None:
        text = make_result(edge_list=(Edge("PKA", "PKC", directed=False),)).summary()
        assert text.splitlines()[0] == "1 of 30 possible edges changed: PKA -- PKC (direction open)"

    def test_an_edge_whose_ranges_hardly_overlap_says_so_in_the_headline(self) -> None:
        edge = Edge("Raf", "Mek", True, "strengthened", 0.3, 1.0, -0.7, 0.05, confidence=0.9, support="unclear")
        line = make_result(edge_list=(edge,)).summary().splitlines()[0]
        assert line.endswith(": Raf -> Mek strengthened (ranges hardly overlap, confidence 90%)")

    def test_it_stays_within_its_width(self) -> None:
        names = tuple(f"a_rather_long_name_of_a_variable_{k}" for k in range(500))
        edges = (Edge(names[0], names[1], change="added", weight_first=0, weight_second=1e-9, delta=-1e-9),)
        zeros = csr_array((len(names), len(names)))
        order = (names[:2], names[2:400])
        res = make_result(
            variables=names,
            invariant=names[400:],
            unresolved=(),
            order=order,
            edge_list=edges,
            delta_entries=zeros,
        )
        text = res.summary()
        assert max(map(len, text.splitlines())) <= 110
        assert names[1][-8:] in text
        assert "and 70 more" in " ".join(text.split())
        assert "and 368 more" in " ".join(text.split())
        assert "-1e-09" in text

    def test_hostile_names_stay_on_their_line(self) -> None:
        names = ("a\nb\x00\u202e", "日本", "c" * 200)
        edge = Edge(names[0], names[1], change="added", weight_first=0.0, weight_second=1.0, delta=-1.0)
        zeros = csr_array((len(names), len(names)))
        res = make_result(
            variables=names,
            invariant=(names[2],),
            unresolved=(),
            order=(),
            edge_list=(edge,),
            delta_entries=zeros,
        )
        assert "a\\nb\\x00\\u202e -> 日本" in res.summary()

    @given(st.lists(st.one_of(st.none(), st.floats(-1e12, 1e12)), max_size=8))
    def test_numbers_keep_their_digits(self, values: list[float | None]) -> None:
        show = NumberFormat(values)
        for value in values:
            if value is None:
                assert show(value) == ""
            else:
                assert float(show(value)) == pytest.approx(value, rel=0.6)

    @given(st.text())
    def test_printable_is_printable(self, text: str) -> None:
        assert printable(text).replace("\u200d", "").isprintable()


class TestGraph:
    def test_roles_and_edges(self) -> None:
        graph = make_result().to_networkx()
        assert graph.nodes["Akt"]["role"] == "invariant"
        assert graph.nodes["PKA"]["role"] == "unresolved"
        assert graph.nodes["Raf"]["role"] == "changed"
        assert set(graph.edges) == {("Raf", "Mek"), ("Mek", "Erk"), ("PKA", "PKC"), ("PKC", "PKA")}
        assert graph["Raf"]["Mek"]["change"] == "weakened"
        assert graph["PKA"]["PKC"] == {"directed": False, "settled": True}

    def test_variables_that_were_screened_out_did_not_change(self) -> None:
        edges = (Edge("Raf", "Mek"), Edge("PKA", "PKC", directed=False))
        result = make_result(edge_list=edges, order=(("Raf",), ("Mek",)), screened_out=("Erk", "Akt"))
        assert "Screened out (not looked at in the search): Erk, Akt" in result.summary()
        assert "Screened out <span>2 that the search did not look at" in page.render_page(result)
        graph = nx.parse_graphml(graphs.to_graphml(result))
        roles = {name: node["role"] for name, node in graph.nodes.items()}
        assert roles == {
            **dict.fromkeys(("Raf", "Mek"), "changed"),
            **dict.fromkeys(("PKA", "PKC"), "unresolved"),
            "Erk": "screened out",
            "Akt": "invariant",
        }

    def test_only_variables_can_be_screened_out(self) -> None:
        with pytest.raises(ValueError, match="screened_out names 'Wnt', which is not a variable"):
            make_result(screened_out=("Wnt",))

    def test_graphml_reads_back(self) -> None:
        text = graphs.to_graphml(make_result())
        graph = nx.parse_graphml(text)
        assert graph["Raf"]["Mek"]["delta"] == 0.5
        assert graph.nodes["PKC"]["role"] == "unresolved"

    def test_graphml_without_edges_and_with_names_that_xml_cannot_say(self) -> None:
        names = ("a\x00", "a\\x00", "<b> & 'c'", "")
        graph = nx.parse_graphml(graphs.to_graphml(nothing(names)))
        assert list(graph.nodes) == ["a\\x00", "a\\x00'", "<b> & 'c'", ""]


NAMES = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["<script>alert(1)</script>", '"', "'", "a\nb", "\r\n", "😀", "$x$", "NA", "1", "a,b", "=1+1"]
    ),
)
NUMBERS = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))
SETTINGS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.text(max_size=5), NUMBERS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def results(draw: st.DrawFn) -> DifferenceResult:
    names = tuple(draw(st.lists(NAMES, min_size=2, max_size=6, unique=True)))
    count = len(names)
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    edges = []
    for i, j in draw(st.lists(st.sampled_from(pairs), unique=True, max_size=6)):
        if draw(st.booleans()):
            kind, numbers = draw(st.sampled_from(CHANGES)), [draw(NUMBERS) for _ in range(4)]
            gain_of = draw(st.sampled_from((None, names[j])))
            support, sure = draw(st.sampled_from((None, *SUPPORTS))), draw(NUMBERS)
            edges.append(
                Edge(names[i], names[j], True, kind, *numbers, gain_of, support=support, direction=sure)
            )
        else:
            edges.append(Edge(names[i], names[j], directed=False))
    cells = draw(st.lists(st.floats(-1e300, 1e300), min_size=count**2, max_size=count**2))
    matrix = np.array(cells).reshape(count, count)
    matrix = matrix + matrix.T if draw(st.booleans()) else np.where(draw(st.booleans()), matrix, 0.0)
    cut = draw(st.integers(0, count))
    return DifferenceResult(
        method=draw(st.sampled_from(["paper", "order"])),
        variables=names,
        invariant=names[:1] if draw(st.booleans()) else (),
        unresolved=names[:cut],
        order=tuple((name,) for name in names[cut:]),
        edge_list=tuple(edges),
        delta_entries=csr_array(matrix),
        samples=draw(st.one_of(st.none(), st.tuples(st.integers(2, 10**9), st.integers(2, 10**9)))),
        settings=draw(st.dictionaries(st.text(max_size=8), SETTINGS, max_size=4)),
        notes=tuple(draw(st.lists(st.text(), max_size=2))),
        labels=draw(st.tuples(st.text(max_size=9), st.text(max_size=9))),
    )


class TestRoundTrip:
    @pytest.mark.slow
    @given(results())
    @settings(max_examples=200, deadline=None)
    def test_json(self, result: DifferenceResult) -> None:
        text = result.to_json()
        assert exchange.from_json(text, "memory") == result
        assert exchange.to_json(exchange.from_json(text.encode("utf-8"), "memory")) == text

    @given(results())
    @settings(max_examples=60, deadline=None)
    def test_csv_and_graphml(self, result: DifferenceResult) -> None:
        rows = list(csv.DictReader(io.StringIO(exchange.to_csv(result), newline="")))
        assert [(row["source"], row["target"]) for row in rows] == [
            (e.source, e.target) for e in result.edge_list
        ]
        assert nx.parse_graphml(graphs.to_graphml(result)).number_of_nodes() == len(result.variables)

    def test_json_follows_the_contract(self) -> None:
        content = json.loads(make_result().to_json())
        assert content["schema"] == 2
        assert content["samples"] == {"first": 853, "second": 799}
        assert content["edges"][1] == {
            "source": "Raf", "target": "Mek", "directed": True, "change": "weakened", "weight_first": 0.9,
            "weight_second": 0.4, "delta": 0.5, "stderr": 0.05, "gain_of": None,
            "support": None, "confidence": None, "direction": None, "low": None, "high": None, "settled": True,
            "stand_ins": [],
            "size": None,
            "robustness": None,
        }  # fmt: skip
        assert content["edges"][2]["weight_first"] is None

    def test_an_edge_that_is_not_settled_is_marked_wherever_it_is_shown(self) -> None:
        edges = (
            Edge("Raf", "Mek", change="added", delta=-0.5, settled=False),
            Edge("PKA", "PKC", directed=False),
        )
        result = make_result(edge_list=edges, order=(("Raf",), ("Mek",)))
        lines = result.summary().splitlines()
        row = next(k for k, line in enumerate(lines) if line.startswith("Raf -> Mek"))
        assert lines[row + 1] == "    but: not settled"
        assert result.summary().count("not settled") == 1
        shown = page.render_page(result)
        assert ">but: not settled</td>" in shown
        assert shown.count("an order without this change, or with it the other way round") == 1
        assert [e.settled for e in exchange.from_json(result.to_json(), "memory").edge_list] == [False, True]
        assert result.edges["settled"].tolist() == [False, True]

    def test_sparse_matrix_stays_small(self) -> None:
        names = tuple(f"v{k}" for k in range(1000))
        matrix = np.zeros((1000, 1000))
        matrix[3, 4] = matrix[4, 3] = 0.1
        none: dict[str, Any] = {"edge_list": (), "unresolved": (), "order": ()}
        text = make_result(variables=names, invariant=(), delta_entries=csr_array(matrix), **none).to_json()
        assert len(text) < 180_000  # a row for each variable, and a number for each entry
        assert exchange.from_json(text, "memory").delta_precision.loc["v4", "v3"] == 0.1

    def test_settings_become_plain(self) -> None:
        given_settings = {
            "a": np.float64(0.1),
            "b": (1, 2),
            "c": float("nan"),
            "d": Path("x"),
            "e": np.arange(2),
        }
        res = make_result(settings=given_settings)
        assert res.settings == {"a": 0.1, "b": [1, 2], "c": None, "d": "x", "e": [0, 1]}
        assert exchange.from_json(res.to_json(), "memory") == res

    def test_save_and_load(self, tmp_path: Path) -> None:
        written = make_result().save(tmp_path / "deep" / "out")
        assert [path.name for path in written] == [
            "result.json",
            "edges.csv",
            "nodes.csv",
            "graph.graphml",
            "report.html",
        ]
        assert sorted(tmp_path.joinpath("deep", "out").iterdir()) == sorted(written)
        assert load(written[0]) == load(written[0].parent) == make_result()

    def test_a_renderer_that_fails_leaves_no_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(result: DifferenceResult, *, coordinates: object = None) -> str:
            raise RuntimeError("no picture today")

        monkeypatch.setattr(page, "render_page", broken)
        with pytest.raises(RuntimeError, match="no picture"):
            make_result().save(tmp_path / "out")
        assert not (tmp_path / "out").exists()


class TestNodes:
    """What changed of each variable."""

    @staticmethod
    def result(**parts: Any) -> DifferenceResult:
        edges = (
            Edge("a", "b", change="weakened", weight_first=1.0, weight_second=0.5, delta=0.5, stderr=0.1),
            Edge("c", "b", change="added", weight_first=0.0, weight_second=0.5, delta=-0.5, stderr=0.05),
            Edge("c", "d", directed=False),
            Edge("b", "e", change="added", delta=1.0, stderr=0.01, support="range"),
        )
        known: dict[str, Any] = {
            "method": "order",
            "variables": ("a", "b", "c", "d", "e", "f", "g"),
            "invariant": ("f",),
            "unresolved": (),
            "order": (),
            "edge_list": edges,
            "delta_entries": csr_array((7, 7)),
            "samples": (50, 60),
            "settings": {},
            "labels": ("control", "knock-out"),
            "gain_list": (GainChange("b", 0.5, 0.1, 1e-6),),
            "noise_list": (NoiseChange("g", 2.0, 1.0, 2.0, 1e-30),),
            "mean_list": (MeanChange("a", 1.0, 2.0, -1.0, 0.4, 0.01),),
            "switch_list": (
                SwitchChange("h\r", "second", 1.0, 2.0, 3.0, 1e-5),
                SwitchChange("k", "second", 0.0, 2.0, 3.0, 1e-9),
            ),
        }
        return DifferenceResult(**{**known, **parts})

    def test_of_two_ends_one_may_be_unchanged(self) -> None:
        edge = Edge("c", "d", directed=False, confidence=0.9)
        result = self.result(edge_list=(edge,), noise_list=())
        notes = result.nodes.set_index("variable")["note"]
        assert (notes["c"], notes["d"]) == ("or d: direction open", "or c: direction open")
        assert "One of two changed, and it is open which: c or d" in result.summary().replace("\n  ", " ")
        moved = self.result(edge_list=(edge,), noise_list=(NoiseChange("d", 2.0, 1.0, 2.0, 1e-30),))
        assert set(moved.nodes.set_index("variable").loc[["c", "d"], "note"]) == {""}

    def test_an_arrow_that_cannot_be_judged_may_point_either_way(self) -> None:
        edges = (
            Edge("a", "b", confidence=0.9, direction=0.8, change="added", delta=1.0),
            Edge("c", "d", confidence=0.9, change="added", delta=1.0),
        )
        result = self.result(edge_list=edges, gain_list=(), noise_list=(), mean_list=())
        known = result.nodes.set_index("variable")["confidence"]
        assert known["b"] == pytest.approx(0.72)
        assert known["d"] == pytest.approx(0.45)

    def test_most_evidence_comes_first(self) -> None:
        nodes = self.result().nodes
        assert list(nodes.columns) == [
            *("variable", "changed", "effects", "gain", "noise", "intercept"),
            *("pvalue", "qvalue", "confidence", "note"),
        ]
        assert nodes["variable"].tolist() == ["k", "h\r", "g", "b", "a", "c", "d", "e", "f"]
        assert nodes["changed"].tolist() == [True] * 7 + [False] * 2
        by_name = nodes.set_index("variable")
        assert by_name.loc["k", "note"] == "switched off in knock-out"
        assert by_name.loc["h\r", "note"] == "does not vary in knock-out"
        assert by_name.loc["b", "effects"] == ("a", "c")
        assert by_name.loc["b", "gain"] == 0.5
        assert by_name.loc["c", "effects"] == ("d",)
        assert by_name.loc["d", "effects"] == ("c",)
        assert by_name.loc["e", "effects"] == ()  # what a moved range explains does not count
        assert by_name.loc["g", "noise"] == 2.0
        assert by_name.loc["a", "intercept"] == -1.0
        assert np.isnan(by_name.loc["f", "gain"])

    def test_tests_of_mechanisms_rank_and_have_false_discovery_rates(self) -> None:
        tests = [
            NodeTest(name, 10.0**-k, float(k)) for name, k in zip("abcdefg", (9, 2, 1, 4, 3, 0, 5), strict=True)
        ]
        nodes = self.result(node_tests=tests).nodes.set_index("variable")
        # What is known of c -- d goes to both; changed ones come first, whatever their evidence.
        assert nodes.index.tolist() == ["k", "h\r", "a", "g", "c", "d", "b", "e", "f"]
        assert nodes.loc["c", "pvalue"] == nodes.loc["d", "pvalue"] == 1e-4
        assert nodes.loc["f", "qvalue"] == 1.0
        assert nodes.loc["a", "qvalue"] == pytest.approx(
            1e-9 * 9 / 2 * (1 / np.arange(1, 10)).sum()
        )  # of nine, with switched ones
        assert (nodes["qvalue"] >= nodes["pvalue"]).all()

    def test_confidence_of_a_variable_is_that_of_its_surest_change(self) -> None:
        edges = (
            Edge("a", "b", delta=1.0, confidence=0.9, direction=0.5),
            Edge("c", "d", False, confidence=0.8),
        )
        noise = (NoiseChange("b", 2.0, 1.0, 2.0, 1e-30, 0.6),)
        nodes = self.result(edge_list=edges, noise_list=noise).nodes.set_index("variable")["confidence"]
        assert nodes["b"] == 0.6
        assert nodes["c"] == nodes["d"] == 0.4
        assert np.isnan(nodes["a"])

    def test_files(self, tmp_path: Path) -> None:
        result = self.result(node_tests=[NodeTest("g", 1e-3, 3.0), NodeTest("b")])
        result.save(tmp_path / "out")
        assert load(tmp_path / "out") == result
        content = json.loads((tmp_path / "out" / "result.json").read_text(encoding="utf-8"))
        assert [node["variable"] for node in content["nodes"]] == result.nodes["variable"].tolist()
        assert content["nodes"][3]["effects"] == ["a", "c"]
        assert content["switched"][1]["variable"] == "k"
        table = pd.read_csv(tmp_path / "out" / "nodes.csv", keep_default_na=False)
        assert table["variable"].tolist() == result.nodes["variable"].tolist()
        assert table["effects"].tolist()[3] == "a | c"
        content["nodes"] = []
        again = exchange.from_json(json.dumps(content), "memory")
        assert again.node_list == result.node_list
        page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
        assert "varies in one condition only" in page
        assert "switched off in knock-out" in page

    def test_a_switched_variable_is_not_compared(self) -> None:
        with pytest.raises(ValueError, match="switched names a variable twice, or one that is compared"):
            self.result(switch_list=(SwitchChange("a", "first"),))
        with pytest.raises(ValueError, match="expected 'first' or 'second'"):
            SwitchChange("k", "third")

    def test_without_any_change(self) -> None:
        none = self.result(edge_list=(), gain_list=(), noise_list=(), mean_list=(), switch_list=())
        assert none.nodes["variable"].tolist() == list(none.variables)
        assert not none.nodes["changed"].any()


def test_changing_a_table_of_a_result_leaves_the_result():
    models = [LinearSEM(np.eye(2, k=-1) * weight) for weight in (1, 2)]
    result = DifferenceDAG(n_jobs=1).fit_population(*models).result_
    for name in ("delta_precision", "edges", "nodes"):
        table = getattr(result, name)
        table.iloc[0, 0] = 99
        assert getattr(result, name).iloc[0, 0] != 99
