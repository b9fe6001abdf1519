"""Pictures and pages: geometry that must hold, names that must stay text."""

from __future__ import annotations

import io
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.path import Path as Line
from scipy.sparse import csr_array

from diffdag.changes import CHANGES, Edge
from diffdag.report.grid import Link
from diffdag.report.layout import Curve, arrange
from diffdag.report.page import render_fragment, render_page, render_svg
from diffdag.report.plot import STYLES, plot_difference, text_width
from diffdag.report.text import printable
from diffdag.result import DifferenceResult

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    '"quo\'ted" & </script><script>alert(2)</script>',
    "$x_1$ \\alpha $",
    "😀 👩‍🔬 emoji",
    "L" * 200,
    "日本語",
    "line\nbreak\x00\u202e",
    "</svg></style><b>",
    "{{ 7 * 7 }}{% raw %}",
]


def graph(names: list[str], edges: list[Edge], **changes: Any) -> DifferenceResult:
    parts: dict[str, Any] = {
        "method": "paper",
        "variables": tuple(names),
        "invariant": (),
        "unresolved": (),
        "order": (),
        "edge_list": tuple(edges),
        "delta_entries": csr_array((len(names), len(names))),
        "samples": None,
        "settings": {},
    }
    return DifferenceResult(**(parts | changes))


def random_graph(count: int, edges: int, unresolved: int = 0, seed: int = 0) -> DifferenceResult:
    rng = np.random.default_rng(seed)
    names = [f"{'longer_' * int(rng.integers(3))}name{k}" for k in range(count)]
    pairs = list(combinations(range(count), 2))
    chosen = [pairs[k] for k in rng.permutation(len(pairs))[:edges]]
    found = [
        Edge(names[i], names[j], directed=False)
        if j < unresolved
        else Edge(names[i], names[j], change=str(rng.choice(CHANGES)), delta=float(rng.normal()))
        for i, j in chosen
    ]
    layers = tuple((name,) for name in names[unresolved:])
    return graph(names, found, unresolved=tuple(names[:unresolved]), order=layers)


def along(curve: Curve) -> np.ndarray[Any, Any]:
    """Points along a curve, close together."""
    points, codes = [curve.start], [Line.MOVETO]
    for piece in curve.pieces:
        points += piece
        codes += [Line.LINETO] if len(piece) == 1 else [Line.CURVE4] * 3
    dense = []
    here = np.array(points[0])
    for vertices, _ in Line(points, codes).iter_segments():
        handles = np.vstack([here, np.reshape(vertices, (-1, 2))])
        t = np.linspace(0, 1, 60)[:, None]
        if len(handles) == 4:
            a, b, c, d = handles
            dense.append((1 - t) ** 3 * a + 3 * t * (1 - t) ** 2 * b + 3 * t**2 * (1 - t) * c + t**3 * d)
        else:
            dense.append((1 - t) * handles[0] + t * handles[-1])
        here = handles[-1]
    return np.vstack(dense)


@st.composite
def plans(draw: st.DrawFn) -> tuple[list[tuple[float, float]], list[Link], list[int]]:
    count = draw(st.integers(1, 14))
    sizes = draw(st.lists(st.tuples(st.floats(36, 260), st.floats(26, 120)), min_size=count, max_size=count))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda p: p[0] != p[1])
    chosen = draw(st.lists(pairs, max_size=20, unique_by=frozenset)) if count > 1 else []
    links = [Link(a, b, draw(st.sampled_from([0.0, 9.0, 14.0]))) for a, b in chosen]
    return sizes, links, draw(st.lists(st.integers(0, count - 1), unique=True))


class TestLayout:
    @given(plans())
    @settings(max_examples=150, deadline=None)
    def test_nothing_overlaps(self, plan: tuple[list[tuple[float, float]], list[Link], list[int]]) -> None:
        """Boxes are apart, inside the picture, and no edge runs through a box, cycles included."""
        sizes, links, on_top = plan
        found = arrange(sizes, links, on_top)
        half = np.array(sizes) / 2
        centres = np.array(found.centres)
        for a, b in combinations(range(len(sizes)), 2):
            apart = np.abs(centres[a] - centres[b]) - half[a] - half[b]
            assert apart.max() > 8
        assert (centres - half >= -1e-6).all()
        assert (centres + half <= [found.width + 1e-6, found.height + 1e-6]).all()
        for curve in found.curves:
            points = along(curve)
            assert (points >= -1e-6).all()
            assert (points <= [found.width + 1e-6, found.height + 1e-6]).all()
            for centre, size in zip(centres, half, strict=True):
                inside = (np.abs(points - centre) < size - 1e-6).all(axis=1)
                assert not inside.any()

    @given(plans())
    @settings(max_examples=100, deadline=None)
    def test_edges_end_at_the_borders_of_their_nodes(
        self, plan: tuple[list[tuple[float, float]], list[Link], list[int]]
    ) -> None:
        sizes, links, on_top = plan
        found = arrange(sizes, links, on_top)

        def on_border(point: tuple[float, float], node: int) -> bool:
            distance = np.abs(np.subtract(point, found.centres[node])) - np.array(sizes[node]) / 2
            return bool(abs(distance.max()) < 1e-6)

        for link, curve in zip(links, found.curves, strict=True):
            ends = [curve.start, curve.pieces[-1][-1]]
            assert (curve.head is not None) == bool(link.head)
            if curve.head:
                tip, base = curve.head
                assert on_border(tip, link.target)
                assert np.hypot(*np.subtract(tip, base)) == pytest.approx(link.head)
                assert min(np.hypot(*np.subtract(base, end)) for end in ends) < 1e-6
                assert any(on_border(end, link.source) for end in ends)
            else:
                assert {n for n in (link.source, link.target) if any(on_border(e, n) for e in ends)} == {
                    link.source,
                    link.target,
                }

    def test_causes_are_above_their_effects_and_the_unresolved_on_top(self) -> None:
        links = [Link(0, 1, 9), Link(1, 2, 9), Link(0, 2, 9), Link(3, 2, 9), Link(4, 5, 0)]
        y = [y for _, y in arrange([(40, 20)] * 6, links, on_top=[4, 5]).centres]
        assert y[4] == y[5] > y[0] > y[1] > y[2]
        assert y[3] == y[1]  # next to its effect, not on top

    def test_crossings_are_avoided(self) -> None:
        found = arrange([(40, 20)] * 6, [Link(0, 5, 9), Link(1, 4, 9), Link(2, 3, 9)])
        x = [x for x, _ in found.centres]
        assert np.argsort(x[:3]).tolist() == np.argsort(x[:2:-1]).tolist()

    def test_empty(self) -> None:
        assert arrange([], []).curves == ()


class TestPlot:
    @pytest.mark.parametrize(("count", "edges", "unresolved"), [(3, 2, 0), (12, 16, 5), (40, 55, 12)])
    def test_names_fit_their_boxes(self, count: int, edges: int, unresolved: int) -> None:
        result = random_graph(count, edges, unresolved)
        ax = plot_difference(result)
        canvas = FigureCanvasAgg(ax.figure)
        canvas.draw()
        boxes = [p for p in ax.patches if isinstance(p, FancyBboxPatch)]
        extents = {t.get_text(): t.get_window_extent() for t in ax.texts}
        part = {name for edge in result.edge_list for name in (edge.source, edge.target)} | set(
            result.unresolved
        )
        for name in part:
            text = extents[name]
            assert any(
                (b := box.get_window_extent()).x0 <= text.x0
                and text.x1 <= b.x1
                and b.y0 <= text.y0 <= text.y1 <= b.y1
                for box in boxes
            )
        assert set(result.variables) - part == set(result.variables) - set(extents)

    def test_names_shrink_with_small_axes(self) -> None:
        figure = Figure(figsize=(9, 9))
        FigureCanvasAgg(figure)
        big, small = figure.add_subplot(3, 3, (1, 6)), figure.add_subplot(3, 3, 9)
        result = random_graph(8, 9)
        assert plot_difference(result, big) is big
        plot_difference(result, small)
        figure.canvas.draw()
        width = {
            ax: ax.texts[2].get_window_extent().width / ax.get_window_extent().width for ax in (big, small)
        }
        assert width[big] == pytest.approx(width[small], rel=0.1)

    def test_legend_names_the_kinds_that_occur(self) -> None:
        edges = [
            Edge("a", "b", change="added", delta=1.0),
            Edge("b", "c", change="reversed-sign", delta=-2.0),
        ]
        shown = {text.get_text() for text in plot_difference(graph(["a", "b", "c"], edges)).texts}
        assert shown == {"a", "b", "c", "added", "reversed-sign", "From first to second, causes on top"}

    def test_each_kind_has_its_colour_and_its_dashes(self) -> None:
        assert len({STYLES[kind][0] for kind in CHANGES}) == len({STYLES[kind][1] for kind in CHANGES}) == 5

    def test_no_change(self) -> None:
        ax = plot_difference(graph(["a", "b"], []))
        assert [text.get_text() for text in ax.texts] == ["no change found"]

    def test_many_edges_are_cut_with_a_word(self) -> None:
        ax = plot_difference(random_graph(40, 300))
        assert "the 250 largest of 300 changes" in " ".join(text.get_text() for text in ax.texts)

    def test_hostile_names_draw_without_warnings(self) -> None:
        edges = [Edge(a, b, change="added", delta=1.0) for a, b in pairwise(HOSTILE)]
        ax = plot_difference(graph(HOSTILE, edges))
        ax.figure.savefig(io.BytesIO(), format="png", bbox_inches="tight")
        assert "".join(t.get_text() for t in ax.texts).count("L") == 200

    def test_a_user_with_tex_and_other_fonts_gets_the_same(self) -> None:
        with rc_context({"font.family": "serif", "text.color": "white"}):
            FigureCanvasAgg(plot_difference(graph(["a_b", "$"], [Edge("a_b", "$", delta=1.0)])).figure).draw()

    def test_pyplot_does_not_know(self) -> None:
        code = (
            "import sys; from scipy.sparse import csr_array;"
            "from diffdag.result import DifferenceResult as R; from diffdag.changes import Edge;"
            "z = csr_array((2, 2));"
            "R(method='m', variables=('a', 'b'), invariant=(), unresolved=(), order=(), samples=None,"
            "  edge_list=(Edge('a', 'b', delta=1.0),), delta_entries=z, settings={})._repr_html_();"
            "print('matplotlib.pyplot' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "False"

    @given(st.text())
    @settings(deadline=None)
    def test_every_text_has_a_width(self, text: str) -> None:
        assert text_width(printable(text)) >= 0


class _Reader(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.words += data


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
        assert not {"img", "script", "iframe", "link", "object"} & set(found.tags)
        assert found.tags.count("b") == (render is render_fragment)
        assert found.tags.count("svg") == 1
        assert not [name for name, _ in found.attributes if name.startswith("on")]
        for name in HOSTILE:
            assert printable(name) in found.words

    def test_nothing_is_fetched(self) -> None:
        page = render_page(hostile_result())
        found = _Reader(page)
        assert "default-src 'none'" in page
        assert not [name for name, _ in found.attributes if name in {"src", "href", "action"}]
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
        ):
            assert words in page
        assert page.startswith("<!DOCTYPE html>")

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

    def test_large_answers_stay_small_files(self) -> None:
        assert len(render_page(random_graph(200, 60))) < 3_000_000

    def test_repr_in_notebooks(self) -> None:
        html = random_graph(5, 4)._repr_html_()
        assert "<svg" in html
        assert "<table" in html
