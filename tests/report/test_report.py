"""Pages: everything is said, and names stay text."""

from __future__ import annotations

import base64
import hashlib
import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import pytest
from answers import HOSTILE, graph, random_graph

from diffdag._base.errors import InputError
from diffdag.report.format import NumberFormat, printable
from diffdag.report.html.page import render_fragment, render_page, render_svg
from diffdag.report.words import edge_words
from diffdag.result import DifferenceResult
from diffdag.results.json import from_json
from diffdag.results.records import (
    Cloud,
    Edge,
    EdgeScatter,
    GainChange,
    GlobalTest,
    MeanChange,
    NodeTest,
    Selection,
)


class _Reader(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words = ""
        self.code: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        if self.cdata_elem is None:
            self.words += data
        elif self.cdata_elem == "script":
            self.code.append(data)


def hostile_result() -> DifferenceResult:
    edges = [Edge(a, b, change="added", delta=1.0, confidence=0.5) for a, b in pairwise(HOSTILE)]
    return graph(
        HOSTILE,
        [*edges, Edge(HOSTILE[0], HOSTILE[2], directed=False)],
        order=(tuple(HOSTILE[3:]),),
        unresolved=tuple(HOSTILE[:3]),
        notes=tuple(HOSTILE),
        settings={name: name for name in HOSTILE},
        labels=(HOSTILE[0], HOSTILE[1]),
        samples=(10, 20),
    )


class TestPage:
    @pytest.mark.parametrize("render", [render_page, render_fragment])
    def test_hostile_names_are_text(self, render: Any) -> None:
        found = _Reader(render(hostile_result()))
        assert not {"img", "iframe", "link", "object"} & set(found.tags)
        assert found.tags.count("b") == (render is render_fragment)
        assert found.attributes.count(("class", "graph")) == 1
        assert found.tags.count("script") == len(found.code) == 2 * (render is render_page)
        assert not [name for name, _ in found.attributes if name.startswith("on")]
        for name in HOSTILE:
            assert printable(name) in found.words

    def test_nothing_is_fetched_and_only_our_script_runs(self) -> None:
        page = render_page(hostile_result())
        found = _Reader(page)
        digest = base64.b64encode(hashlib.sha256(found.code[1].encode("utf-8")).digest()).decode("ascii")
        policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
        assert any(name == "content" and (value or "").startswith(policy) for name, value in found.attributes)
        addresses = [value for name, value in found.attributes if name in {"src", "href", "action"}]
        assert addresses == ["#promises", "#changes-table"]
        assert ("id", "promises") in found.attributes
        assert "What is not promised" in found.words
        assert "url(" not in page
        assert "@import" not in page

    def test_it_says_everything(self) -> None:
        edges = [
            Edge("Raf", "Mek", True, "weakened", 0.9, 0.4, 0.5, 0.05),
            Edge("Mek", "Erk", directed=False),
        ]
        page = render_page(
            graph(
                ["Raf", "Mek", "Erk", "Akt"],
                edges,
                invariant=("Akt",),
                order=(("Raf",),),
                notes=("Mind the gap.",),
            )
        )
        for words in (
            "2 of 12 possible edges changed",
            "Raf → Mek weakened",
            "Mind the gap.",
            "1906.12024",
            "+0.500 ± 0.050",
            "Delta first − second",
        ):
            assert words in _Reader(page).words
        assert page.startswith("<!DOCTYPE html>")

    def test_the_script_gets_the_names_as_they_are(self) -> None:
        text = _Reader(render_page(hostile_result())).code[0]
        assert not set("<>&\u2028\u2029") & set(text)
        data = json.loads(text)
        assert {edge["source"] for edge in data["edges"]} == set(HOSTILE[:-1])

    def test_it_says_what_happened_to_each_edge(self) -> None:
        weights = {"weakened": (0.9, 0.4), "strengthened": (0.4, 0.9), "reversed-sign": (0.5, -0.5)}
        weights |= {"added": (0.02, 0.8), "removed": (0.8, 0.02)}
        edges = [Edge("a", kind, True, kind, *w, w[0] - w[1]) for kind, w in weights.items()]
        edges += [Edge("a", "changed", True), Edge("a", "open", directed=False)]
        names = ["a", *weights, "changed", "open"]
        show = NumberFormat([0.9])
        said = {edge.target: edge_words(edge, ("before", "after"), show) for edge in edges}
        assert said == {
            "weakened": "a acts less strongly on weakened: 0.900 in before, 0.400 in after",
            "strengthened": "a acts more strongly on strengthened: 0.400 in before, 0.900 in after",
            "reversed-sign": "The effect of a on reversed-sign changes its sign: "
            "0.500 in before, -0.500 in after",
            "added": "a acts on added in after (0.800), but not visibly in before (0.020)",
            "removed": "a acts on removed in before (0.800), but not visibly in after (0.020)",
            "changed": "The effect of a on changed changed",
            "open": "Something changed between a and open; the data do not tell cause from effect",
        }
        data = json.loads(_Reader(render_page(graph(names, edges))).code[0])
        assert [edge["words"].split(" ")[0] for edge in data["edges"]].count("a") == 4

    def test_numbers_read_the_same_everywhere(self) -> None:
        cloud = Cloud((), (), 4.474, 0.0, -2.0, 2.0, 1.0)
        other = replace(cloud, slope=0.5)
        result = graph(
            ["a", "b", "c"],
            [Edge("a", "b", True, "reversed-sign", 4.474, 0.5, 3.974, 0.1), Edge("b", "c", directed=False)],
            mean_list=(MeanChange("c", 12.3, 12.122, 0.178, 0.033, 1e-4),),
            scatters=(EdgeScatter("a", "b", True, False, cloud, other),),
            labels=("baseline", "u0126"),
        )
        page = _Reader(render_page(result))
        for words in ("4.47", "+0.178 ± 0.033", "reversed sign", "baseline minus u0126"):
            assert words in page.words
            assert words in result.summary()
        assert "reversed-sign" not in page.words + result.summary()
        data = json.loads(page.code[0])["edges"][0]
        assert data["scatter"]["slopes"] == ["4.47", "0.50"]
        assert ["Delta, baseline minus u0126", "+3.97 ± 0.10"] in data["facts"]
        assert data["change"] == "reversed-sign"

    def test_the_summary_says_what_delta_is(self) -> None:
        labels = ("baseline", "a condition whose name is far too long for a table")
        edges = [Edge("a", "b", True, "added", 0.0, 1.0, -1.0, 0.1)]
        words = " ".join(graph(["a", "b"], edges, labels=labels).summary().split())
        assert "delta: baseline minus a condition w...g for a table" in words
        assert f"change: from baseline to {labels[1]}" in words
        unsized = graph(["a", "b"], [Edge("a", "b", directed=False)], labels=labels)
        assert "delta:" not in unsized.summary()

    @pytest.mark.parametrize(
        ("before", "said"),
        [
            (3, "1 of 3 edges kept so that at most 5 % are expected to be false"),
            (1, "all edges found (1) are kept: at most 5 % are expected to be false"),
        ],
    )
    def test_it_says_what_a_target_for_false_edges_did(self, before: int, said: str) -> None:
        edge = Edge("a", "b", True, "added", 0.0, 1.0, -1.0, 0.1, confidence=0.97)
        result = graph(["a", "b"], [edge], selection=Selection(0.05, before))
        for words in (" ".join(result.summary().split()), _Reader(render_page(result)).words):
            assert said in words

    @pytest.mark.parametrize(
        ("pvalue", "said"),
        [(0.001, "the tables differ (p = 0.001"), (0.4, "no sign that anything changed (p = 0.4")],
    )
    def test_it_says_what_the_global_test_found(self, pvalue: float, said: str) -> None:
        result = graph(["a", "b"], [], global_test=GlobalTest(pvalue, 999, {}))
        assert f"Global test: {said}, 999 permutations of the rows)" in result.summary()
        assert said in _Reader(render_page(result)).words

    def test_it_advises_what_has_not_been_asked_for(self) -> None:
        edge = Edge("a", "b", True, "added", 0.0, 1.0, -1.0, 0.1)
        plain = render_page(graph(["a", "b"], [edge], samples=(50, 60)))
        assert "How sure each change is: <code>--resamples 200" in plain
        assert "--intervals split" in plain
        sure = replace(edge, confidence=0.9, low=-1.2, high=-0.8)
        assert "--resamples" not in render_page(graph(["a", "b"], [sure], samples=(50, 60)))
        assert "--resamples" not in render_page(graph(["a", "b"], [edge]))  # exact models

    def test_no_change(self) -> None:
        found = _Reader(render_page(graph(["a", "b"], [], invariant=("a", "b"))))
        assert "No change found" in found.words
        assert "table" not in found.tags

    def test_the_same_result_gives_the_same_page(self) -> None:
        assert render_page(hostile_result()) == render_page(hostile_result())

    def test_svg_is_well_formed_and_its_names_are_text(self) -> None:
        root = ET.fromstring(render_svg(hostile_result()))  # noqa: S314 - our own output
        words = "".join(root.itertext())
        assert "日本語" in words
        assert words.count("L") >= 200
        assert not list(root.iter("{http://www.w3.org/2000/svg}script"))

    def test_of_very_many_edges_the_largest_are_drawn_and_all_are_listed(self) -> None:
        page = render_page(random_graph(40, 300))
        found = _Reader(page)
        assert "the 250 largest of 300 changes; the table has all" in found.words
        edges = json.loads(found.code[0])["edges"]
        assert [edge["ends"] is None for edge in edges] == [False] * 250 + [True] * 50
        assert page.count('<tr role="row" data-edge=') == 300

    def test_large_answers_stay_small_files(self) -> None:
        assert len(render_page(random_graph(200, 60))) < 3_000_000

    def test_places_in_the_brain(self) -> None:
        regions = {"a <b>": (0.0, 10.0, 20.0), "c": (-30.0, 5.0, 1.0), "d": (30.0, -40.0, 9.0)}
        result = graph(list(regions), [Edge("a <b>", "c", True, "added", 0.0, 1.0, -1.0, 0.1)])
        assert "In the brain" not in render_page(result)
        page = render_page(result, coordinates=regions)
        found = _Reader(page)
        assert "In the brain" in found.words
        assert "b" not in found.tags
        assert "<style" not in page[page.index('class="brain light"') :]
        ids = [value for name, value in found.attributes if name == "id"]
        assert len(ids) == len(set(ids)) > 10
        used = {value for name, value in found.attributes if name == "xlink:href" and value}
        assert {value.removeprefix("#") for value in used} <= set(ids)
        assert {value.split("-")[0] for value in used} == {"#light", "#dark"}

    def test_a_brain_that_cannot_be_drawn_costs_no_report(self) -> None:
        result = graph(["a", "b"], [Edge("a", "b", True, "added", 0.0, 1.0, -1.0, 0.1)])
        words = _Reader(render_page(result, coordinates={"elsewhere": (0.0, 1.0, 2.0)})).words
        assert "There is no picture: coordinates have nothing for 'a' and 'b'" in words
        assert "a → b added" in words
        with pytest.raises(InputError, match="three numbers"):
            render_page(result, coordinates={"a": (0.0, 1.0)})

    def test_repr_in_notebooks(self) -> None:
        html = random_graph(5, 4)._repr_html_()
        assert "<svg" in html
        assert "<table" in html


def gained(*names: str, **known: Any) -> DifferenceResult:
    """A result in which all effects on the last variable are multiplied by a factor."""
    *causes, sensor = names
    edges = [
        Edge(cause, sensor, True, "strengthened", 0.1, 0.47, -0.37, 0.02, gain_of=sensor) for cause in causes
    ]
    gain = GainChange(sensor, 4.687, 0.127, 1e-20, **known)
    return graph([*names, "rest"], edges, gain_list=(gain,), invariant=("rest",))


def test_a_gain_is_one_line_in_summary_and_report() -> None:
    result = gained("red", "green", "blue", "current")
    text, page = result.summary(), render_page(result)
    assert text.splitlines()[0] == "3 of 20 possible edges changed; current: all 3 effects x 4.69"
    assert "\ncurrent: all 3 effects x 4.69 ± 0.13 (p < 0.001)\n" in text
    assert text.count("strengthened by gain") == 3
    assert "current: all 3 effects x 4.69" in page
    assert "<h3>Gain " in page
    assert ">4.69 ± 0.13</td>" in page
    assert "the gain of current" in page
    assert "confidence" not in text


def test_a_gain_says_how_sure_it_is_and_escapes_its_name() -> None:
    result = gained("red", "green", "<b>\n", confidence=0.93)
    assert "<b>\\n: all 2 effects x 4.69 ± 0.13 (p < 0.001, confidence 93%)" in result.summary()
    found = _Reader(render_page(result))
    assert "b" not in found.tags
    assert result.changed_gain["factor"].tolist() == [4.687]


def test_variables_that_are_listed_with_their_q_keep_their_names() -> None:
    names = ["Temporal_Pole_Sup_Left", "Temporal_Pole_Mid_Left", "c"]
    edges = [Edge("c", name, True, "added", 0.0, 1.0, -1.0, 0.1) for name in names[:2]]
    tests = [NodeTest(name, 0.4, 0.4) for name in names[:2]]
    result = graph(names, edges, node_tests=tuple(tests), method="order")
    words = " ".join(result.summary().split())
    assert "Temporal_Pole_Sup_Left (q = 0.6), Temporal_Pole_Mid_Left (q = 0.6). A q above 0.05" in words
    sure = replace(result, node_tests=tuple(NodeTest(name, 1e-9, 9.0) for name in names[:2]))
    assert "does not bear it out" not in sure.summary()


def test_settings_that_a_note_explains_are_left_out_and_rows_say_what_they_are() -> None:
    settings = {"controls": {"halves": 40, "edges": 1}, "effective_samples": [229, 250], "noise": "auto"}
    result = graph(["a", "b"], [], samples=(229, 250), settings=settings)
    assert "Settings: noise auto\n" in result.summary() + "\n"
    assert "(229 effective rows)" in result.summary()
    assert "(229 rows)" in replace(result, settings={}).summary()


def test_a_saved_gain_comes_back() -> None:
    result = gained("red", "green", "blue", "current")
    again = from_json(result.to_json(), "memory")
    assert again.gain_list == result.gain_list
    assert [edge.gain_of for edge in again.edge_list] == ["current"] * 3
    with pytest.raises(ValueError, match="which is not one of its ends"):
        Edge("red", "current", gain_of="blue")
