"""Pictures: geometry that must hold, colours that can be told apart, names that stay text."""

from __future__ import annotations

import io
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from answers import HOSTILE, graph, random_graph
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import same_color, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon
from matplotlib.path import Path as Line
from matplotlib.textpath import TextPath
from scipy.optimize import isotonic_regression
from scipy.sparse import csr_array
from scipy.spatial import ConvexHull

from diffdag._base.errors import InputError
from diffdag.report.format import printable
from diffdag.report.layout.grid import Link
from diffdag.report.layout.layout import Curve, arrange, nondecreasing
from diffdag.report.layout.picture import FONT, FONT_SIZE, PALEST, Picture, text_width
from diffdag.report.layout.theme import DASHES, THEMES
from diffdag.report.plots.brain import CLEAR, clearest, plot_brain
from diffdag.report.plots.brain_outline import VIEWS, outline_of
from diffdag.report.plots.difference import plot_difference
from diffdag.report.plots.edge import plot_edge
from diffdag.report.plots.heatmap import plot_precision
from diffdag.result import DifferenceResult
from diffdag.results.records import CHANGES, Cloud, Edge, EdgeScatter


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
    @pytest.mark.slow
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

    @pytest.mark.slow
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
        figure = Figure(figsize=(14, 14))
        FigureCanvasAgg(figure)
        big, small = figure.add_subplot(3, 3, (1, 6)), figure.add_subplot(3, 3, 9)
        result = random_graph(8, 9)
        assert plot_difference(result, big) is big
        plot_difference(result, small)
        figure.canvas.draw()
        width = {
            ax: sum(text.get_window_extent().width for text in ax.texts) / ax.get_window_extent().width
            for ax in (big, small)
        }
        assert width[big] == pytest.approx(width[small], rel=0.1)

    def test_legend_names_the_kinds_that_occur(self) -> None:
        edges = [
            Edge("a", "b", change="added", delta=1.0),
            Edge("b", "c", change="reversed-sign", delta=-2.0),
        ]
        shown = {text.get_text() for text in plot_difference(graph(["a", "b", "c"], edges)).texts}
        legend = {"added", "reversed sign", "changed itself"}
        assert shown == {"a", "b", "c", *legend, "From first to second, causes on top"}

    def test_the_less_sure_the_paler(self) -> None:
        edges = [
            Edge("a", "b", change="added", delta=1.0, confidence=1.0),
            Edge("b", "c", change="added", delta=2.0, confidence=0.0),
            Edge("a", "c", change="added", delta=3.0),
        ]
        result = graph(["a", "b", "c"], edges)
        assert Picture(result).opacities == [1.0, PALEST, 1.0]  # the largest first
        ax = plot_difference(result)
        drawn = [p.get_alpha() for p in ax.patches if isinstance(p, PathPatch)][:3]
        assert drawn == [1.0, PALEST, 1.0]
        assert "paler: less sure" in {text.get_text() for text in ax.texts}
        certain = Picture(graph(["a", "b", "c"], [edges[2]]))
        assert [item.kind for item in certain.legend] == ["added", "own"]

    def test_width_says_the_size_and_heads_the_direction(self) -> None:
        edges = [Edge("a", "b", change="added", delta=-2.0), Edge("a", "c", directed=False)]
        ax = plot_difference(graph(["a", "b", "c"], edges, unresolved=("a", "c")))
        lines = [p for p in ax.patches if isinstance(p, PathPatch)]
        assert lines[0].get_linewidth() > 3 * lines[1].get_linewidth()
        assert [curve.head is None for curve in Picture(graph(["a", "b", "c"], edges)).layout.curves] == [
            False,
            True,
        ]

    def test_themes(self) -> None:
        result = random_graph(5, 4)
        for name, theme in THEMES.items():
            ax = plot_difference(result, theme=name)  # type: ignore[arg-type]
            assert same_color(ax.figure.get_facecolor(), theme.background)
            assert all(same_color(text.get_color(), theme.ink) for text in ax.texts)
        with pytest.raises(InputError, match="theme is 'pink'; expected one of light, dark"):
            plot_difference(result, theme="pink")  # type: ignore[arg-type]

    def test_a_given_figure_keeps_its_background(self) -> None:
        figure = Figure(facecolor="#ABCDEF")
        plot_difference(random_graph(5, 4), figure.add_subplot(), theme="dark")
        assert same_color(figure.get_facecolor(), "#ABCDEF")

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

    @pytest.mark.slow
    def test_pyplot_does_not_know(self) -> None:
        code = (
            "import sys; from scipy.sparse import csr_array;"
            "from diffdag.result import DifferenceResult as R;"
            "from diffdag.results.records import Edge;"
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

    def test_text_is_as_wide_as_matplotlib_draws_it(self) -> None:
        font = get_font(findfont(FONT))
        font.set_size(FONT_SIZE, 72.0)
        codes = [*range(0x20, 0x7F), *range(0xA0, 0x530), *range(0x1E00, 0x2300)]
        known = [code for code in codes if font.get_char_index(code)]
        assert len(known) > 2000
        for code in known:
            assert text_width(chr(code)) == pytest.approx(
                font.load_char(code).linearHoriAdvance / 65536, abs=1e-9
            )
        for words in ("Interleukin-6 (IL6), log₂ µg/ml", "Größe → Ärger", "Έλλειψη Δ ≤ β", "Уровень «А»"):
            drawn = TextPath((0, 0), words, size=100, prop=FontProperties(family=FONT)).get_extents().width
            assert text_width(words) == pytest.approx(drawn * FONT_SIZE / 100, rel=0.04)  # no bearings, kerned

    @pytest.mark.parametrize("seed", range(5))
    def test_boxes_are_moved_as_little_as_scipy_moves_them(self, seed: int) -> None:
        wish = np.random.default_rng(seed).normal(size=10 * seed).round(1)
        assert nondecreasing(wish) == pytest.approx(isotonic_regression(wish).x if seed else [], abs=1e-12)

    def test_other_characters_get_room(self) -> None:
        assert text_width("脑🧠") == 2 * 1.3 * FONT_SIZE
        assert text_width("e\u0301\u200d") == text_width("e")


# What a reader without red, or without green, cones sees: Machado, Oliveira and Fernandes (2009),
# "A physiologically-based model for simulation of color vision deficiency".
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def linear(colour: str) -> np.ndarray[Any, Any]:
    values = np.array(to_rgb(colour))
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """As in WCAG 2.2."""
    dark, light = sorted(float(linear(colour) @ TO_XYZ[1]) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def seen_apart(one: str, other: str, vision: str) -> float:
    """Distance in CIELAB; about 2 is the least that can be seen."""
    labs = []
    for colour in (one, other):
        xyz = TO_XYZ @ np.clip(VISION[vision] @ linear(colour), 0, 1) / [0.95047, 1.0, 1.08883]
        f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
        labs.append(np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])]))
    return float(np.linalg.norm(labs[0] - labs[1]))


@pytest.mark.parametrize("name", THEMES)
class TestColours:
    def test_everything_stands_out_from_its_background(self, name: str) -> None:
        theme = THEMES[name]
        for colour in (*theme.kinds.values(), *theme.several, theme.first, theme.second, theme.grey):
            for behind in (theme.background, theme.box):
                assert contrast(colour, behind) >= 3, (colour, behind)
        for colour in (theme.ink, theme.soft):
            for behind in (theme.background, theme.box):
                assert contrast(colour, behind) >= 4.5, (colour, behind)

    @pytest.mark.parametrize("vision", VISION)
    def test_kinds_can_be_told_apart(self, name: str, vision: str) -> None:
        """Where the dashes are the same, clearly by colour; elsewhere at least a little by colour too."""
        kinds = THEMES[name].kinds
        assert list(kinds) == list(DASHES)
        for one, other in combinations(kinds, 2):
            apart = seen_apart(kinds[one], kinds[other], vision)
            assert apart > (15 if DASHES[one] == DASHES[other] else 8), (one, other)
        assert len({DASHES[kind] for kind in CHANGES}) == len(CHANGES)

    @pytest.mark.parametrize("vision", VISION)
    def test_conditions_and_signs_can_be_told_apart(self, name: str, vision: str) -> None:
        theme = THEMES[name]
        assert seen_apart(theme.first, theme.second, vision) > 30
        low, middle, high = theme.diverging[0], theme.diverging[2], theme.diverging[-1]
        for one, other in ((low, high), (low, middle), (middle, high)):
            assert seen_apart(one, other, vision) > 30


def hostile_plots() -> list[tuple[str, Any]]:
    """Each kind of plot with axes, with names and labels that nobody should use."""
    cloud = Cloud((0.0, 1.0), (0.0, 1.0), 1.0, 0.0, 0.0, 1.0, 0.1)
    edges = [Edge(a, b, change="added", delta=1.0, stderr=0.1) for a, b in pairwise(HOSTILE)]
    result = graph(
        HOSTILE,
        edges,
        delta_entries=csr_array(np.ones((len(HOSTILE),) * 2)),
        labels=(HOSTILE[2], HOSTILE[5]),
        scatters=[EdgeScatter(edge.source, edge.target, True, False, cloud, cloud) for edge in edges],
    )
    rng = np.random.default_rng(872_003)
    places = {name: tuple(rng.uniform(-60, 60, 3)) for name in HOSTILE}
    return [
        ("precision", lambda: plot_precision(result)),
        *((f"edge {k}", lambda e=edge: plot_edge(result, e.source, e.target)) for k, edge in enumerate(edges)),
        ("brain", lambda: plot_brain(result, places)),
    ]


@pytest.mark.parametrize(
    ("name", "draw"), hostile_plots(), ids=lambda value: value if type(value) is str else ""
)
def test_hostile_names_are_plain_text_without_warnings(name: str, draw: Any) -> None:
    figure = draw().figure
    figure.savefig(io.BytesIO(), format="png", bbox_inches="tight")
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg")
    root = ET.fromstring(buffer.getvalue())  # noqa: S314 - our own output
    assert not {"script", "img", "b"} & {element.tag.rpartition("}")[2] for element in root.iter()}
    words = "".join(root.itertext())
    assert "日本語" in words
    assert "$x_1$" in words


def with_differences(entries: list[list[float]], **changes: Any) -> DifferenceResult:
    names = [f"v{k}" for k in range(len(entries))]
    return graph(names, [], delta_entries=csr_array(np.array(entries)), **changes)


class TestHeatmap:
    ENTRIES = ([4.0, -2.0, 0.0, 0.0], [-2.0, 1.0, 0.5, 0.0], [0.0, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0])

    def test_scaled_entries_in_causal_order(self) -> None:
        result = with_differences(list(self.ENTRIES), order=(("v2",), ("v0", "v1")))
        ax = plot_precision(result)
        assert [label.get_text() for label in ax.get_xticklabels()] == [
            "v2",
            "v0",
            "v1",
        ]  # v3 has no difference
        shown = np.asarray(ax.images[0].get_array())
        # by hand: the largest entries of v2, v0, v1 are 0.5, 4 and 2
        expected = [
            [0.0, 0.0, 0.5 / np.sqrt(0.5 * 2)],
            [0.0, 4 / 4, -2 / np.sqrt(4 * 2)],
            [0.5 / np.sqrt(0.5 * 2), -2 / np.sqrt(4 * 2), 1 / 2],
        ]
        assert shown == pytest.approx(np.array(expected))
        assert ax.images[0].get_clim() == (-1.0, 1.0)

    def test_the_strongest_are_shown_and_the_rest_is_mentioned(self) -> None:
        ax = plot_precision(with_differences(list(self.ENTRIES)), most=2)
        assert [label.get_text() for label in ax.get_yticklabels()] == ["v0", "v1"]
        assert "the strongest 2 of 3 variables with a difference" in ax.get_title(loc="left")

    def test_units_do_not_matter_with_scales(self) -> None:
        plain = with_differences(list(self.ENTRIES))
        units = np.array([1.0, 1000.0, 0.01, 1.0])
        other = with_differences((np.array(self.ENTRIES) / np.outer(units, units)).tolist())
        scales = dict(zip(plain.variables, units, strict=True))
        one, two = plot_precision(plain), plot_precision(other, scales=scales)
        assert np.allclose(one.images[0].get_array(), two.images[0].get_array())
        assert not np.allclose(one.images[0].get_array(), plot_precision(other).images[0].get_array())

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"most": 0}, "most must be a whole number, 1 or larger; it is 0"),
            ({"most": True}, "most must be a whole number"),
            ({"scales": {"v0": 1.0}}, "scales has nothing for 'v1', 'v2' and 'v3'"),
            ({"scales": {"v0": 1.0, "v1": 0.0, "v2": 1.0, "v3": 1.0}}, "scales of 'v1' must be larger than 0"),
            ({"theme": "pink"}, "theme is 'pink'"),
        ],
    )
    def test_options_that_make_no_sense(self, options: dict[str, Any], words: str) -> None:
        with pytest.raises(InputError, match=words):
            plot_precision(with_differences(list(self.ENTRIES)), **options)

    def test_names_do_not_overlap(self) -> None:
        rng = np.random.default_rng(872_001)
        entries = rng.standard_normal((60, 60))
        ax = plot_precision(with_differences((entries + entries.T).tolist()))
        FigureCanvasAgg(ax.figure).draw()
        tall = [label.get_window_extent() for label in ax.get_yticklabels()]
        assert all(above.y0 >= below.y1 - 0.5 for above, below in pairwise(tall))
        assert min(box.x0 for box in tall) >= 0

    def test_given_axes_stay_where_they_are(self) -> None:
        ax = Figure(figsize=(6, 5)).add_axes((0.2, 0.2, 0.5, 0.6))
        assert plot_precision(with_differences(list(self.ENTRIES)), ax, theme="dark") is ax
        assert ax.get_position(original=True).bounds == pytest.approx((0.2, 0.2, 0.5, 0.6))

    def test_nothing_to_show(self) -> None:
        ax = plot_precision(with_differences([[0.0, 0.0], [0.0, 0.0]]))
        assert [text.get_text() for text in ax.texts] == ["no difference found"]


def edge_result(adjusted: bool = True, points: bool = True, scores: bool = False) -> DifferenceResult:
    edge = Edge("a$", "b", adjusted, "weakened" if adjusted else None, delta=0.5 if adjusted else None)
    x = (0.0, 1.0, 2.0) if points else ()
    first = Cloud(x, tuple(0.9 * value + 1 for value in x), 0.9, 1.0, -1.0, 3.0, 0.2)
    second = Cloud(x, tuple(0.4 * value for value in x), 0.4, 0.0, -2.0, 4.0, 0.3)
    return graph(
        ["a$", "b", "c"],
        [edge, Edge("b", "c", delta=0.1)],
        scatters=(EdgeScatter("a$", "b", adjusted, scores, first, second),),
        labels=("base$", "drug"),
    )


class TestEdge:
    def test_points_lines_and_words(self) -> None:
        ax = plot_edge(edge_result(), "a$", "b")
        clouds = [np.asarray(found.get_offsets()).tolist() for found in ax.collections]
        assert clouds == [[[0.0, 1.0], [1.0, 1.9], [2.0, 2.8]], [[0.0, 0.0], [1.0, 0.4], [2.0, 0.8]]]
        ends = [line.get_xydata() for line in ax.lines]
        assert np.asarray(ends[0]) == pytest.approx(np.array([[-1.0, 0.1], [3.0, 3.7]]))
        assert np.asarray(ends[1]) == pytest.approx(np.array([[-2.0, -0.8], [4.0, 1.6]]))
        assert [text.get_text() for text in ax.get_legend().get_texts()] == [
            "base$: slope 0.900",
            "drug: slope 0.400",
        ]
        assert ax.get_title(loc="left") == "a$ → b: weakened"
        assert ax.get_xlabel() == "a$"
        assert ax.get_ylabel() == "b,\nless the effect of its other causes"
        assert ax.lines[0].get_linestyle() != ax.lines[1].get_linestyle()
        ax.figure.savefig(io.BytesIO(), format="png")  # a single $ is no mathematics

    def test_bands_where_no_rows_are_stored(self) -> None:
        ax = plot_edge(edge_result(points=False), "a$", "b")
        heights = ax.collections[0].get_paths()[0].vertices[:, 1]
        assert (heights.min(), heights.max()) == (pytest.approx(0.1 - 0.2), pytest.approx(3.7 + 0.2))

    def test_an_undirected_edge_has_its_ends_in_either_order(self) -> None:
        result = edge_result(adjusted=False)
        for ends in (("a$", "b"), ("b", "a$")):
            ax = plot_edge(result, *ends)
            assert (ax.get_xlabel(), ax.get_ylabel()) == ("a$", "b")
            assert ax.get_title(loc="left") == "a$ — b: undirected"

    def test_scores_of_ranks_are_called_so(self) -> None:
        assert "scores of ranks" in plot_edge(edge_result(scores=True), "a$", "b").get_xlabel()

    def test_unknown_edges_are_refused_with_those_there_are(self) -> None:
        with pytest.raises(
            InputError, match=r"b -> a\$ is not among the changed ones; changed are a\$ -> b, b -> c"
        ):
            plot_edge(edge_result(), "b", "a$")
        with pytest.raises(InputError, match="a -> b is not among the changed ones; no edge changed"):
            plot_edge(graph(["a", "b"], []), "a", "b")
        many = plot_edge, random_graph(40, 30)
        with pytest.raises(InputError, match="and 18 more"):
            many[0](many[1], "x", "y")

    def test_an_edge_without_a_scatter_says_why(self) -> None:
        with pytest.raises(InputError, match="has the edge b -> c, but not what it looks like in the rows"):
            plot_edge(edge_result(), "b", "c")

    def test_given_axes_and_dark(self) -> None:
        ax = Figure().add_subplot()
        assert plot_edge(edge_result(), "a$", "b", ax, theme="dark") is ax
        assert same_color(ax.lines[0].get_color(), THEMES["dark"].first)


def many_regions(edges: int, seed: int = 872_002) -> tuple[DifferenceResult, dict[str, tuple[float, ...]]]:
    rng = np.random.default_rng(seed)
    names = [f"region{k:02d}" for k in range(50)]
    places = {name: tuple(rng.uniform((-60, -90, -40), (60, 70, 70))) for name in names}
    pairs = [list(combinations(range(50), 2))[k] for k in rng.permutation(1225)[:edges]]
    found = [
        Edge(names[i], names[j], change=str(rng.choice(CHANGES)), delta=1.0, stderr=float(rng.uniform(0.1, 1)))
        for i, j in pairs
    ]
    return graph(names, found), places


class TestBrain:
    @pytest.mark.parametrize("view", ["top", "left", "right", "front", "back"])
    def test_everything_is_inside(self, view: Any) -> None:
        result, places = many_regions(5)
        ax = plot_brain(result, places, view=view)
        (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
        dots = np.vstack([np.asarray(found.get_offsets()) for found in ax.collections])
        assert ((dots > (left, low)) & (dots < (right, high))).all()
        FigureCanvasAgg(ax.figure).draw()
        page = ax.figure.bbox
        for text in ax.texts:
            box = text.get_window_extent()
            assert box.x0 >= page.x0 - 1, text.get_text()
            assert box.x1 <= page.x1 + 1, text.get_text()
        title = ax.title.get_window_extent()
        assert title.y1 <= page.y1

    def test_sides_are_where_they_belong(self) -> None:
        places = {"l": (-40.0, 30.0, 10.0), "r": (40.0, -30.0, 0.0)}
        result = graph(["l", "r"], [Edge("l", "r", change="added", delta=1.0)])
        first = {}
        for view in ("top", "left", "right", "front", "back"):
            ax = plot_brain(result, places, view=view)  # type: ignore[arg-type]
            first[view] = np.asarray(ax.collections[0].get_offsets())[0].tolist()
        assert first == {
            "top": [-40, 30], "left": [-30, 10], "right": [30, 10], "front": [40, 10], "back": [-40, 10],
        }  # fmt: skip

    def test_of_many_edges_the_clearest_stand_out_and_have_names(self) -> None:
        result, places = many_regions(90)
        ax = plot_brain(result, places)
        lines = [p for p in ax.patches if isinstance(p, PathPatch)]
        assert len(lines) == 60
        assert sum(line.get_alpha() == 1.0 for line in lines) == CLEAR
        strong = {name for edge in clearest(result.edge_list, CLEAR) for name in (edge.source, edge.target)}
        written = {text.get_text() for text in ax.texts} & set(places)
        assert written == strong
        assert "the clearest 60 of 90 changes" in ax.get_title()
        assert "thin: less clear" in [text.get_text() for text in ax.get_legend().get_texts()]

    def test_clarity_is_in_standard_errors(self) -> None:
        edges = [
            Edge("a", "b", delta=1.0, stderr=0.5),
            Edge("a", "c", delta=-0.5, stderr=0.1),
            Edge("b", "c", directed=False),
        ]
        assert clearest(edges, 2) == [edges[2], edges[1]]
        exact = [Edge("a", "b", delta=0.1), Edge("a", "c", delta=-0.5)]
        assert clearest(exact, 1) == [exact[1]]

    def test_arrows_point_at_the_effect(self) -> None:
        result = graph(["a", "b"], [Edge("a", "b", change="added", delta=1.0)])
        ax = plot_brain(result, {"a": (-50, 0, 0), "b": (50, 20, 0)})
        head = next(p for p in ax.patches[::-1] if isinstance(p, Polygon)).get_xy()
        assert np.hypot(*(head[0] - (50, 20))) < np.hypot(*(head[1] - (50, 20))) < 20

    @pytest.mark.parametrize("apart", [4.5, 6.0, 10.0, 20.0])
    def test_a_head_touches_its_line(self, apart: float) -> None:
        places = {"a": (0, 0, 0), "b": (apart, 0, 0), "c": (-60, -90, 0), "d": (60, 80, 0)}
        ax = plot_brain(graph(list("abcd"), [Edge("a", "b", change="added", delta=1.0)]), places)
        lines = [p.get_path().vertices for p in ax.patches if isinstance(p, PathPatch)]
        heads = [p for p in ax.patches if isinstance(p, Polygon)][2:]  # after nose and outline
        assert len(lines) == len(heads) == 1
        for line, head in zip(lines, heads, strict=True):
            assert head.get_path().contains_point(line[-1], radius=0.5)
            assert np.linalg.norm(line[0] - line[-1]) > 0.3 * (apart - 2 * np.linalg.norm(line[0]))

    def test_few_regions_make_no_dents(self) -> None:
        curve = outline_of(np.array([(-30, 40, 0), (30, 40, 10), (-20, -90, 5), (20, -90, 5)]), VIEWS["top"])
        x, y = curve.T
        area = abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)) / 2
        assert area > 0.98 * ConvexHull(curve).volume

    def test_undirected_edges_have_no_head(self) -> None:
        places = {"a": (-50, 0, 0), "b": (50, 20, 0)}
        counts = [
            sum(isinstance(p, Polygon) for p in plot_brain(graph(["a", "b"], [edge]), places).patches)
            for edge in (Edge("a", "b", delta=1.0), Edge("a", "b", directed=False))
        ]
        assert counts[0] == counts[1] + 1

    def test_of_regions_that_hide_each_other_no_edge_is_seen(self) -> None:
        result = graph(["a", "b"], [Edge("a", "b", delta=1.0)])
        places = {"a": (10, 0, 0), "b": (10, 0, 30)}
        ax = plot_brain(result, places, theme="dark")
        assert not [p for p in ax.patches if isinstance(p, PathPatch)]
        assert [p for p in plot_brain(result, places, view="left").patches if isinstance(p, PathPatch)]
        ax.figure.savefig(io.BytesIO(), format="png")
        assert same_color(ax.figure.get_facecolor(), THEMES["dark"].background)

    def test_changes_at_regions_without_a_place_are_counted(self) -> None:
        result = graph(["a", "b", "c"], [Edge("a", "b", delta=1.0), Edge("b", "c", delta=1.0)])
        ax = plot_brain(result, {"a": (0, 0, 0), "b": (60, 90, 1)})
        assert "1 change at regions without a place not drawn" in ax.get_title()
        assert len([p for p in ax.patches if isinstance(p, PathPatch)]) == 1

    @pytest.mark.parametrize("unit", [1e-3, 0.1, 1e3])
    def test_units_do_not_matter(self, unit: float) -> None:
        result = graph(["a", "b"], [Edge("a", "b", delta=1.0)])
        places = {"a": (-60, -90, 0), "b": (60, 90, 30), "c": (0, -80, 60)}
        usual = plot_brain(result, places).figure.get_size_inches()
        other = plot_brain(result, {name: tuple(unit * v for v in at) for name, at in places.items()})
        np.testing.assert_allclose(other.figure.get_size_inches(), usual, rtol=0.15)
        assert [p for p in other.patches if isinstance(p, PathPatch)]

    def test_regions_without_a_place_are_refused(self) -> None:
        result = graph(["a", "b", "c"], [Edge("a", "b", delta=1.0)])
        with pytest.raises(InputError, match="coordinates have nothing for 'b', where something changed; add"):
            plot_brain(result, {"a": (0, 0, 0)})
        with pytest.raises(InputError, match="view is 'below'; expected one of top, left"):
            plot_brain(result, {"a": (0, 0, 0), "b": (1, 1, 1)}, view="below")  # type: ignore[arg-type]

    def test_no_change(self) -> None:
        ax = plot_brain(graph(["a"], []), {"a": (0, 0, 0)})
        assert "no change found" in [text.get_text() for text in ax.texts]
