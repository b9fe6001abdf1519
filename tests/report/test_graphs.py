"""The answer as a graph for other programs, read back by programs that are not ours."""

from __future__ import annotations

import builtins
import json
import re
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from diffdag.__main__ import run
from diffdag._base.errors import InputError
from diffdag.report import graphs
from diffdag.result import ConditionsResult, DifferenceResult, load
from diffdag.results.records import Edge

IMAGE, QUOTES, SLASHES, LINES = "<img src=x onerror=alert(1)>", "quo\"te's", "back\\slash\\", "new\nline\ttab"
ENTITY, LONG, EMOJI = "&lt;b&gt; &amp;", "x" * 200, "emoji 🧠👩‍🔬"
NAMES = (IMAGE, QUOTES, SLASHES, LINES, ENTITY, LONG, EMOJI, "new\\nline\\ttab", "edge 1")
EDGES = (
    Edge(IMAGE, QUOTES, True, "added", 0.0, 1.0, -1.0, 0.1, confidence=0.9),
    Edge(QUOTES, SLASHES, True, "removed", 1.0, 0.0, 1.0),
    Edge(SLASHES, LINES, True, "strengthened", delta=0.5),
    Edge(LINES, ENTITY, True, "reversed-sign", delta=0.25),
    Edge(LONG, EMOJI, directed=False),
)


def answer(names: tuple[str, ...] = NAMES, edges: tuple[Edge, ...] = EDGES, **more: Any) -> DifferenceResult:
    return DifferenceResult(
        method="order", variables=names, invariant=(), unresolved=(), order=tuple((name,) for name in names),
        edge_list=edges, delta_entries=csr_array((len(names),) * 2), samples=(10, 20), settings={}, **more,
    )  # fmt: skip


def unquoted(text: str) -> str:
    """What Graphviz makes of a quoted identifier, and then of a text to be shown."""
    plain = re.sub(r"\\(.)", r"\1", text[1:-1])
    return plain.replace("&amp;", "&")


class TestCytoscape:
    def test_networkx_reads_every_name_and_number(self) -> None:
        graph = nx.cytoscape_graph(json.loads(json.dumps(answer().to_cytoscape())))
        assert set(graph.nodes) == set(NAMES)
        assert graph.edges[IMAGE, QUOTES]["delta"] == -1.0
        assert graph.edges[IMAGE, QUOTES]["confidence"] == 0.9
        assert graph.edges[LONG, EMOJI]["interaction"] == "undirected"
        assert len(graph.edges) == len(EDGES)

    def test_identifiers_are_unique_among_nodes_and_edges(self) -> None:
        elements = answer().to_cytoscape()["elements"]
        identifiers = [item["data"]["id"] for item in (*elements["nodes"], *elements["edges"])]
        assert len(set(identifiers)) == len(identifiers) == len(NAMES) + len(EDGES)

    def test_causes_are_above_effects_and_nobody_is_on_top_of_another(self) -> None:
        nodes = answer().to_cytoscape()["elements"]["nodes"]
        place = {node["data"]["name"]: (node["position"]["x"], node["position"]["y"]) for node in nodes}
        assert all(place[edge.source][1] < place[edge.target][1] for edge in EDGES if edge.directed)
        assert len(set(place.values())) == len(NAMES)

    def test_many_edges_are_left_to_programs_that_lay_out_graphs(self) -> None:
        names = tuple(f"v{k}" for k in range(30))
        edges = tuple(Edge(a, b) for k, a in enumerate(names) for b in names[k + 1 :])
        nodes = answer(names, edges).to_cytoscape()["elements"]["nodes"]
        assert not any("position" in node for node in nodes)


class TestDot:
    def test_names_are_quoted_so_that_nothing_escapes(self) -> None:
        text = answer(labels=('a "b" \\', "<c>")).to_dot()
        quoted = r'"(?:[^"\\]|\\.)*"'
        nodes = re.findall(rf"^  ({quoted}) \[label=({quoted}), role=", text, re.MULTILINE)
        assert [unquoted(label) for _, label in nodes] == [
            *(IMAGE, QUOTES, SLASHES, "new\\nline\\ttab", ENTITY, LONG, EMOJI)
        ]
        edges = re.findall(rf"^  ({quoted}) -> ({quoted}) \[", text, re.MULTILINE)
        assert {name for pair in edges for name in pair} == {name for name, _ in nodes}
        rest = re.sub(quoted, "", text)
        assert '"' not in rest
        assert "\\" not in rest
        assert "<" not in rest

    def test_each_kind_has_its_look(self) -> None:
        kinds = ("added", "removed", "strengthened", "weakened", "reversed-sign")
        names = tuple("abcdef")
        edges = (*(Edge("a", b, True, kind, delta=1.0) for b, kind in zip("bcdef", kinds, strict=True)),)
        lines = [line for line in answer(names, edges).to_dot().splitlines() if "->" in line]
        looks = {re.sub(r"color=\S+|tooltip=.*?,|kind=.*?,|\"\w\"", "", line) for line in lines}
        assert len(looks) == len(kinds)  # told apart without their colours
        assert "dir=none" in answer().to_dot().splitlines()[-2]
        assert all("dir=none" not in line for line in lines)


class TestSif:
    def test_edges_first_then_the_others(self) -> None:
        lines = answer().to_sif().splitlines()
        assert lines[0].split("\t") == [IMAGE, "added", QUOTES]
        assert [line.count("\t") for line in lines] == [2] * len(EDGES) + [0, 0]
        assert lines[-1] == "edge 1"

    def test_names_that_look_alike_stay_apart(self) -> None:
        assert "new\\nline\\ttab'" in answer().to_sif().splitlines()
        assert graphs.to_sif(answer(("a", "b"), ())) == "a\nb\n"


class TestPython:
    def test_causallearn_has_the_same_edges(self) -> None:
        graph = answer().to_causallearn()
        seen = {str(edge) for edge in graph.get_graph_edges()}
        assert seen == {f"{e.source} {'-->' if e.directed else '---'} {e.target}" for e in EDGES}
        assert graph.get_node_names() == list(NAMES)
        parents = graph.get_parents(graph.get_node(QUOTES))
        assert [node.get_name() for node in parents] == [IMAGE]

    def test_without_causallearn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = builtins.__import__

        def refuse(name: str, *rest: Any) -> Any:
            if name.startswith("causallearn"):
                raise ImportError(name)
            return real(name, *rest)

        monkeypatch.setattr(builtins, "__import__", refuse)
        with pytest.raises(InputError, match=r"pip install 'diffdag\[compare\]'"):
            answer().to_causallearn()

    def test_two_edges_between_the_same_variables_are_too_many_for_causallearn(self) -> None:
        twice = answer(("a", "b"), (Edge("a", "b"), Edge("b", "a")))
        with pytest.raises(InputError, match="'b' and 'a' are joined twice"):
            twice.to_causallearn()
        with pytest.raises(InputError, match="form a cycle"):
            twice.to_dowhy()

    def test_dowhy_gets_no_edge_without_a_direction(self) -> None:
        with pytest.raises(InputError, match=r"has no direction.*undirected='drop'"):
            answer().to_dowhy()
        graph = answer().to_dowhy(undirected="drop")
        assert set(graph.edges) == {(e.source, e.target) for e in EDGES if e.directed}
        assert list(graph.nodes) == list(NAMES)
        with pytest.raises(InputError, match="must be 'error' or 'drop'"):
            answer().to_dowhy("keep")  # type: ignore[arg-type]


@given(st.lists(st.text(max_size=8), min_size=2, max_size=5, unique=True))
@settings(max_examples=60, deadline=None)
def test_any_names_survive(names: list[str]) -> None:
    told = {"gain_of": names[1], "stand_ins": names[2:]}
    result = answer(tuple(names), (Edge(names[0], names[1], change="added", delta=1.0, **told),))
    read = nx.cytoscape_graph(result.to_cytoscape())
    assert set(read.nodes) == set(names)
    assert nx.parse_graphml(result.to_graphml()).number_of_nodes() == len(names)
    assert len(result.to_sif().split("\n")) == len(names)
    assert len(result.to_dot().split("\n")) == 8


def test_graphml_tells_stand_ins_apart() -> None:
    names = ("a", "b", "a\x00", "a\\x00")
    edges = (Edge("a", "b", gain_of="b", stand_ins=names[2:]), Edge("b", "a\x00", gain_of="a\x00"))
    read = nx.parse_graphml(answer(names, edges).to_graphml())
    assert read.edges["a", "b"]["stand_ins"] == "a\\x00 | a\\x00'"
    assert read.edges["b", "a\\x00"]["gain_of"] == "a\\x00"


def test_graphml_says_what_networkx_has() -> None:
    names = ("a", "b", "c")
    edges = (Edge("a", "b", True, "added", 0.0, 1.0, -1.0, 0.1), Edge("b", "c", directed=False), Edge("c", "b"))
    result = answer(names, edges)
    read, made = nx.parse_graphml(result.to_graphml()), result.to_networkx()
    assert read.graph == made.graph | {"node_default": {}, "edge_default": {}}
    assert dict(read.nodes(data=True)) == dict(made.nodes(data=True))
    assert read.adj == made.adj
    assert result.to_graphml().startswith("<graphml xmlns=")


class TestCommand:
    @pytest.fixture
    def saved(self, tmp_path: Path) -> Path:
        (tmp_path / "result.json").write_text(answer().to_json(), encoding="utf-8")
        return tmp_path / "result.json"

    def test_all_formats_at_once(self, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
        endings = ("cyjs", "dot", "gv", "sif", "graphml", "json", "csv", "html", "svg")
        files = [str(saved.with_name(f"graph.{ending}")) for ending in endings]
        assert run(["export", str(saved), *files]) == 0
        said = capsys.readouterr().out
        assert all(path in said for path in files)
        read = {ending: saved.with_name(f"graph.{ending}").read_text(encoding="utf-8") for ending in endings}
        assert load(saved.with_name("graph.json")) == answer()
        assert read["dot"] == read["gv"] == answer().to_dot()
        assert json.loads(read["cyjs"]) == answer().to_cytoscape()
        assert read["csv"].startswith("source,target,directed")
        assert nx.parse_graphml(read["graphml"]).number_of_nodes() == len(NAMES)
        assert "<svg" in read["svg"]
        assert "<html" in read["html"]
        assert IMAGE not in read["html"]

    @pytest.mark.parametrize(
        ("file", "message"), [("g.jpg", "no ending that is known"), ("no/g.dot", "none that exists")]
    )
    def test_nothing_is_written_if_one_file_cannot_be(
        self, saved: Path, capsys: pytest.CaptureFixture[str], file: str, message: str
    ) -> None:
        before = sorted(saved.parent.iterdir())
        assert run(["export", str(saved), str(saved.with_name("g.dot")), str(saved.parent / file)]) == 2
        assert message in capsys.readouterr().err
        assert sorted(saved.parent.iterdir()) == before

    def test_several_comparisons(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        several = ConditionsResult(("a", "b"), "a", {("a", "b"): answer()})
        several.save(tmp_path)
        assert run(["export", str(tmp_path), str(tmp_path / "all.csv"), str(tmp_path / "all.json")]) == 0
        assert (tmp_path / "all.csv").read_text(encoding="utf-8").startswith("first,second,source,target")
        assert run(["export", str(tmp_path), str(tmp_path / "all.dot")]) == 2
        assert re.search(r"holds 1 comparison,.*1-a-b/result.json", capsys.readouterr().err)
        assert run(["export", str(tmp_path / "1-a-b"), str(tmp_path / "one.dot")]) == 0
