"""The report in a real browser, from a file: it explores, names stay text, no network and no mouse needed."""

from __future__ import annotations

import csv
import io
import re
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise

import numpy as np
import pytest
from browser import becomes, settles
from playwright.sync_api import expect
from scipy.sparse import csr_array

from diffdag.report.format import printable
from diffdag.report.html import conditions
from diffdag.report.html.page import render_page
from diffdag.result import ConditionsResult, DifferenceResult
from diffdag.results.records import (
    CHANGES,
    Check,
    Cloud,
    Edge,
    EdgeScatter,
    MeanChange,
    NoiseChange,
    Share,
    Stability,
)

pytestmark = pytest.mark.browser
PHONE = {"width": 390, "height": 844}
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    '"quo\'ted" & </script><script>alert(2)</script>',
    "😀 👩‍🔬",
    "L" * 200,
    "שלום עולם",
    "__proto__",
    "line\nbreak\x00\u202e",
    "</svg></style><b>=1+1",
]


def cloud(slope, rows, rng):
    x = rng.normal(size=rows).round(3)
    y = (slope * x + rng.normal(size=rows)).round(3)
    return Cloud(tuple(x), tuple(y), slope, 0.0, -2.0, 2.0, 1.0)


def answer(names, edges, rows=30, **more):
    """A result with a scatter for each edge."""
    rng = np.random.default_rng(0)
    scatters = [
        EdgeScatter(e.source, e.target, e.directed, False, cloud(0.5, rows, rng), cloud(-0.2, rows, rng))
        for e in edges
    ]
    parts = {
        "method": "order",
        "variables": tuple(names),
        "invariant": (),
        "unresolved": (),
        "order": tuple((name,) for name in names),
        "edge_list": tuple(edges),
        "delta_entries": csr_array((len(names), len(names))),
        "samples": (853, 799),
        "settings": {"penalty": 9.7},
        "labels": ("baseline", "u0126"),
        "scatters": tuple(scatters),
    }
    return DifferenceResult(**(parts | more))


SMALL = answer(
    ["Raf", "Mek", "Erk", "Akt", "PKA"],
    [
        Edge("Raf", "Mek", True, "weakened", 0.9, 0.4, 0.5, 0.05, confidence=0.97),
        Edge("Mek", "Erk", True, "added", 0.02, 0.82, -0.8, 0.04, confidence=0.99),
        Edge("Erk", "Akt", True, "removed", 0.3, 0.01, 0.29, 0.06, confidence=0.55),
        Edge("Akt", "PKA", directed=False, confidence=0.7),
    ],
    noise_list=(NoiseChange("Mek", 0.5, 0.2, 2.5, 1e-8, 0.9),),
    mean_list=(MeanChange("Akt", 1.0, 2.0, -1.0, 0.1, 0.002),),
    checks=(Check("normality", False, "tails are heavy; use something else"), Check("order", True, "clear")),
    stability=Stability(100, (Share("Raf", "Mek", 0.9, 0.8, 0.1, 0.0),), 50, ("Raf -> Mek",), 0.75, 0.2),
)


@pytest.fixture
def show(visit, tmp_path):
    """Open a result in the browser; at the end, nothing may have gone wrong and nothing been fetched."""

    def opened(result, render=render_page):
        path = tmp_path / "report.html"
        path.write_text(render(result), encoding="utf-8")
        visit.page.goto(path.as_uri())
        return visit.page

    yield opened
    assert visit.complaints == []
    assert all(url.startswith(("file:", "blob:")) for url in visit.requests)
    assert len([url for url in visit.requests if url.startswith("file:")]) == 1


def rows(page):
    """The first cells of the rows that are shown, in their order."""
    return [cell.inner_text() for cell in page.locator("table.edges tbody tr:visible td.edge").all()]


def drawn(page):
    """The numbers of the edges that the picture shows."""
    return [int(e.get_attribute("data-edge")) for e in page.locator("svg.graph g.edge:not(.gone)").all()]


def slide(page, name, value):
    page.locator(f"input[data-filter={name}]").fill(str(value))


def no_sideways_scrolling(page):
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


class TestExploring:
    def test_filters_change_picture_and_table(self, show):
        page = show(SMALL)
        everything = ["Mek → Erk", "Raf → Mek", "Erk → Akt", "Akt — PKA"]
        settles(page, rows, everything)
        settles(page, drawn, [0, 1, 2, 3])
        expect(page.locator(".count")).to_have_text("4 of 4 changes shown", use_inner_text=True)
        slide(page, "size", 50)  # a size that is not known is not too small
        settles(page, rows, ["Mek → Erk", "Raf → Mek", "Akt — PKA"])
        settles(page, drawn, [0, 1, 3])
        expect(page.locator(".tools")).to_contain_text("at least 0.4", use_inner_text=True)
        slide(page, "confidence", 98)
        settles(page, rows, ["Mek → Erk"])
        settles(page, drawn, [0])
        expect(page.locator(".count")).to_have_text("1 of 4 changes shown", use_inner_text=True)
        expect(page.locator("g.node:visible")).to_have_count(2)
        page.get_by_role("button", name="Reset").click()
        settles(page, rows, everything)
        page.locator("input[data-kind=added]").uncheck()
        settles(page, rows, everything[1:])
        settles(page, drawn, [1, 2, 3])

    def test_search_finds_names(self, show):
        page = show(SMALL)
        find = page.get_by_label("Find a variable")
        find.fill("RA")
        settles(page, rows, ["Raf → Mek"])
        settles(page, drawn, [1])
        expect(page.locator("g.node.found")).to_have_text("Raf")
        find.fill("akt")
        find.press("Enter")
        expect(page.locator(".detail h3")).to_have_text("Akt", use_inner_text=True)
        expect(page.locator(".detail")).to_contain_text(
            "Intercept changed: Akt (-1.00 ± 0.1", use_inner_text=True
        )
        find.fill("no such name")
        settles(page, rows, [])
        expect(page.locator(".count")).to_have_text("0 of 4 changes shown", use_inner_text=True)

    def test_the_table_sorts(self, show):
        page = show(SMALL)
        head = page.locator("table.edges th[data-key=confidence]")
        head.get_by_role("button").click()
        settles(page, rows, ["Mek → Erk", "Raf → Mek", "Akt — PKA", "Erk → Akt"])
        expect(head).to_have_attribute("aria-sort", "descending")
        head.get_by_role("button").click()
        settles(page, rows, ["Erk → Akt", "Akt — PKA", "Raf → Mek", "Mek → Erk"])
        page.get_by_role("button", name="Edge", exact=True).click()
        settles(page, rows, ["Akt — PKA", "Erk → Akt", "Mek → Erk", "Raf → Mek"])
        expect(head).to_have_attribute("aria-sort", "none")
        page.get_by_role("button", name="baseline", exact=True).click()
        settles(page, lambda page: rows(page)[-1], "Akt — PKA")  # what is unknown comes last

    def test_reset_means_everything_as_it_was(self, show):
        page = show(SMALL)
        slider = page.locator("input[data-filter=size]")
        expect(slider).to_have_attribute("aria-valuetext", "any")
        before, panel = rows(page), page.locator(".detail h3").inner_text()
        page.get_by_role("button", name="Edge", exact=True).click()
        page.locator("table.edges tr[data-edge='2'] td.kind").click()
        slide(page, "size", 50)
        expect(slider).to_have_attribute("aria-valuetext", "at least 0.4")
        page.get_by_role("button", name="Reset").click()
        expect(slider).to_have_attribute("aria-valuetext", "any")
        settles(page, rows, before)
        expect(page.locator("th[aria-sort]:not([aria-sort=none])")).to_have_count(0)
        expect(page.locator(".detail h3")).to_have_text(panel, use_inner_text=True)

    def test_an_edge_tells_its_story(self, show):
        page = show(SMALL)
        page.locator("table.edges tr[data-edge='1'] td.kind").click()
        for words in (
            "Raf acts less strongly on Mek: 0.900 in baseline, 0.400 in u0126.",
            "+0.500 ± 0.050",
            "97%",
            "baseline: slope 0.500",
            "u0126: slope -0.200",
            "30 of 853",
            "90%",
        ):
            expect(page.locator(".detail")).to_contain_text(words, use_inner_text=True)
        expect(page.locator(".detail circle")).to_have_count(31)
        expect(page.locator(".detail polygon")).to_have_count(31)
        expect(page.locator("g.edge.selected")).to_have_attribute("data-edge", "1")
        page.locator("g.edge[data-edge='3'] .hit").click(force=True)
        expect(page.locator(".detail")).to_contain_text(
            "the data do not tell cause from effect", use_inner_text=True
        )
        page.keyboard.press("Escape")
        expect(page.locator(".selected")).to_have_count(0)
        page.get_by_text("The data behind every change").click()
        expect(page.locator(".plots figure")).to_have_count(4)

    def test_a_variable_shows_its_neighbourhood(self, show):
        page = show(SMALL)
        page.locator("g.node[data-node='0']").click()
        expect(page.locator("g.edge:not(.faded)")).to_have_attribute("data-edge", "1")
        expect(page.locator("g.node.faded")).to_have_count(3)
        expect(page.locator(".detail")).to_contain_text("1 change around this variable", use_inner_text=True)
        page.keyboard.press("Escape")
        expect(page.locator(".faded")).to_have_count(0)
        page.locator("g.node[data-node='1']").click()
        expect(page.locator(".detail")).to_contain_text("Noise variance changed: Mek", use_inner_text=True)
        page.locator(".view").click(position={"x": 5, "y": 5})
        expect(page.locator(".faded")).to_have_count(0)

    def test_edges_beyond_those_drawn_count_too(self, show):
        names = [f"v{k}" for k in range(24)]
        pairs = list(combinations(names, 2))[:270]  # the last ones are too small to be drawn
        edges = [Edge(a, b, True, "added", 0.0, 1.0, -9.0 + k / 50, 0.1) for k, (a, b) in enumerate(pairs)]
        page = show(answer(names, edges, scatters=()))
        expect(page.locator(".count")).to_have_text("270 of 270 changes shown, 250 drawn", use_inner_text=True)
        chosen = "v23"
        mine = sum(chosen in pair for pair in pairs)
        assert mine > page.locator("g.edge").evaluate_all(TOUCHING, chosen)
        node = page.locator(f"g.node[aria-label^='{chosen}:']")
        expect(node).to_have_attribute("aria-label", f"{chosen}: {mine} changes")
        node.focus()
        page.keyboard.press("Enter")
        expect(page.locator("table.edges tbody tr:not(.faded)")).to_have_count(mine)
        expect(page.locator(".detail .changes li")).to_have_count(mine)

    def test_dragging_moves_a_node_and_its_edges(self, show):
        page = show(SMALL)
        node = page.locator("g.node[data-node='0']")
        line, other = (page.locator(f"g.edge[data-edge='{k}'] .line") for k in (1, 2))
        before, kept, path = node.bounding_box(), other.get_attribute("d"), line.get_attribute("d")
        x, y = before["x"] + before["width"] / 2, before["y"] + before["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 40, y + 25, steps=4)
        page.mouse.up()
        moved = pytest.approx([before["x"] + 40, before["y"] + 25], abs=2)
        settles(page, lambda page: [node.bounding_box()[axis] for axis in "xy"], moved)
        expect(line).not_to_have_attribute("d", path)
        expect(other).to_have_attribute("d", kept)
        expect(page.locator(".faded")).to_have_count(0)  # a drag is not a click
        page.get_by_role("button", name="Reset").click()
        expect(line).to_have_attribute("d", path)

    def test_zooming(self, show):
        page = show(SMALL)
        picture = page.locator("svg.graph")
        start = picture.bounding_box()["width"]
        page.get_by_role("button", name="Zoom in").click()
        becomes(page, lambda page: picture.bounding_box()["width"] > 1.1 * start)
        larger = picture.bounding_box()["width"]
        picture.hover()
        page.keyboard.down("Control")
        page.mouse.wheel(0, -200)
        page.keyboard.up("Control")
        page.wait_for_function(
            "w => document.querySelector('svg.graph').getBoundingClientRect().width > w", arg=larger
        )
        assert page.evaluate("scrollY") == 0
        page.get_by_role("button", name="Reset").click()
        settles(page, lambda page: picture.bounding_box()["width"], pytest.approx(start))

    def test_the_keyboard_is_enough(self, show):
        page = show(SMALL)
        page.get_by_label("Find a variable").focus()
        for _ in range(12):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.matches('[data-node=\"0\"]')"):
                break
        else:
            pytest.fail("no node was reached")
        path = page.locator("g.edge[data-edge='1'] .line").get_attribute("d")
        page.keyboard.press("ArrowRight")
        expect(page.locator("g.edge[data-edge='1'] .line")).not_to_have_attribute("d", path)
        page.keyboard.press("Enter")
        expect(page.locator(".detail h3")).to_have_text("Raf", use_inner_text=True)
        expect(page.locator("g.node[data-node='0']")).to_have_attribute("aria-pressed", "true")
        page.keyboard.press("Escape")
        expect(page.locator(".faded")).to_have_count(0)
        page.locator("g.edge[data-edge='2']").focus()
        expect(page.locator("#tip")).to_contain_text("Erk acts on Akt in baseline (0.300)", use_inner_text=True)
        page.keyboard.press("Space")
        expect(page.locator(".detail h3")).to_have_text("Erk → Akt", use_inner_text=True)
        page.locator("table.edges tr[data-edge='0'] button").focus()
        page.keyboard.press("Enter")
        expect(page.locator(".detail h3")).to_have_text("Mek → Erk", use_inner_text=True)

    def test_downloads_are_what_is_shown(self, show):
        page = show(SMALL)
        page.locator("input[data-kind=undirected]").uncheck()
        page.get_by_role("button", name="Edge", exact=True).click()
        with page.expect_download() as started:
            page.get_by_role("button", name="Save table").click()
        assert started.value.suggested_filename == "changes.csv"
        table = list(csv.DictReader(io.StringIO(started.value.path().read_text(encoding="utf-8"))))
        assert [row["source"] for row in table] == ["Erk", "Mek", "Raf"]
        assert table[2] == {
            "source": "Raf", "target": "Mek", "directed": "True", "change": "weakened", "weight_first": "0.9",
            "weight_second": "0.4", "delta": "0.5", "stderr": "0.05", "gain_of": "", "support": "",
            "confidence": "0.97", "direction": "", "low": "", "high": "", "settled": "True",
            "stand_ins": "",
            "size": "",
            "robustness": "",
        }  # fmt: skip
        with page.expect_download() as started:
            page.get_by_role("button", name="Save picture").click()
        root = ET.fromstring(started.value.path().read_text(encoding="utf-8"))  # noqa: S314 - our own output
        lines = [e for e in root.iter() if e.get("class") == "line"]
        assert len(lines) == 3
        assert all(line.get("stroke", "").startswith("rgb") for line in lines)


class TestNames:
    def hostile(self, **more):
        sizes = range(len(HOSTILE), 1, -1)
        edges = [
            Edge(a, b, True, "added", 0.0, 1.0, -float(size), 0.1)
            for size, (a, b) in zip(sizes, pairwise(HOSTILE), strict=True)
        ]
        checks = (Check(HOSTILE[0], False, HOSTILE[1]),)
        return answer(HOSTILE, edges, labels=tuple(HOSTILE[:2]), notes=tuple(HOSTILE), checks=checks, **more)

    @pytest.mark.parametrize("phone", [False, True])
    def test_names_are_text_everywhere(self, show, visit, phone):
        alarms = []
        visit.page.on("dialog", lambda dialog: (alarms.append(dialog.message), dialog.dismiss()))
        visit.page.emulate_media(reduced_motion="reduce")
        if phone:
            visit.page.set_viewport_size(PHONE)
        page = show(self.hostile())
        for number in range(len(HOSTILE) - 1):
            page.locator("table.edges tbody tr").nth(number).locator("td").nth(1).click()
            expect(page.locator(".detail h3 bdi").first).to_have_text(printable(HOSTILE[number]))
        page.get_by_text("The data behind every change").click()
        page.mouse.move(0, 0)
        page.locator("g.node").first.focus()
        expect(page.locator("#tip")).to_contain_text(printable(HOSTILE[0]), use_inner_text=True)
        expect(page.locator("img, iframe, b")).to_have_count(0)
        expect(page.locator("script")).to_have_count(2)
        assert alarms == []
        becomes(page, no_sideways_scrolling)
        with page.expect_download() as started:
            page.get_by_role("button", name="Save table").click()
        text = started.value.path().read_bytes().decode("utf-8")
        table = list(csv.reader(io.StringIO(text, newline="")))
        assert {row[0] for row in table[1:]} == set(HOSTILE[:-1])

    def test_rows_that_are_not_there(self, show):
        page = show(self.hostile(rows=0))
        expect(page.locator(".detail .band")).to_have_count(2)
        expect(page.locator("main")).to_contain_text("It holds no rows of your data", use_inner_text=True)


class TestReaders:
    def test_a_frame_has_room_for_two_columns(self, show, visit):
        boxes = "document.querySelectorAll('.picture, .detail, .listing')"
        where = f"[...{boxes}].map((e) => e.getBoundingClientRect()).map((b) => [b.left, b.top, b.bottom])"
        visit.page.set_viewport_size({"width": 970, "height": 800})
        page = show(SMALL)
        picture, detail, listing = page.evaluate(where)
        assert detail[0] > picture[0]
        assert listing[1] - picture[2] < 40  # no gap, however long the panel is
        assert page.locator(".listing .scroll").evaluate("(e) => e.scrollWidth <= e.clientWidth")
        arrow_beside = page.get_by_role("button", name="Confidence").bounding_box()["height"] < 35
        assert arrow_beside
        assert page.locator("td[data-label='Delta, baseline − u0126']").count() == len(SMALL.edge_list)
        page.set_viewport_size({"width": 860, "height": 800})
        becomes(page, lambda page: page.evaluate(where)[1][0] == page.evaluate(where)[0][0])
        becomes(page, lambda page: page.locator(".detail svg.plot").first.bounding_box()["width"] <= 420)

    @pytest.mark.parametrize("width", [390, 800, 970, 1300])
    def test_each_edge_says_how_sure_it_is_and_what_speaks_against_it(self, show, visit, width):
        visit.page.set_viewport_size({"width": width, "height": 900})
        known = {"confidence": 0.93, "settled": False, "size": 0.4}
        edges = [
            Edge(
                "Raf", "Mek", True, "added", 0.0, 400.0, -400.0, 11.0, support="range", direction=0.9, **known
            ),
            Edge(
                "Mek", "Erk", True, "weakened", 0.9, 0.4, 0.5, 0.05, support="mechanism", direction=0.7, **known
            ),
            Edge("Akt", "Erk", True, "added", 0.0, 0.4, -0.4, 0.05, support="unclear", direction=0.5, **known),
        ]
        page = show(answer(["Raf", "Mek", "Erk", "Akt"], edges, labels=("baseline", "u0126")))
        assert page.locator(".listing .scroll").evaluate("(e) => e.scrollWidth <= e.clientWidth")
        rows = page.locator("table.edges tbody tr")
        for words in ("93%", "70%", "mechanism"):
            expect(rows.first).to_contain_text(words)
        expect(rows.nth(1)).to_have_text("but: direction only probable; not settled")
        if width < 1200:  # a card, whose labels are whole
            assert page.locator(".listing td").evaluate_all(CUT) == []
        expect(rows.last).to_contain_text("range explains it")
        expect(page.locator(".meaning")).to_contain_text("probability that something changed between the two")
        assert page.locator(".head.hollow").count() == 3  # two edges, and the legend
        assert page.locator("g.edge.kind-range").count() == 1
        rows.first.click()
        expect(page.locator(".detail")).to_contain_text("Probably: Mek acts less strongly on Erk")
        expect(page.locator(".detail .checks li")).to_have_count(2)
        page.locator("input[data-kind=range]").uncheck()
        expect(rows.last).to_be_hidden()

    def test_what_speaks_against_an_edge_stays_below_it(self, show):
        edges = [Edge("Raf", "Mek", delta=3.0, settled=False), Edge("Mek", "Erk", delta=1.0)]
        page = show(answer(["Raf", "Mek", "Erk"], edges))
        edges, lines = page.locator("table.edges tr[data-edge]"), page.locator("table.edges tbody tr")
        page.locator("th[data-key=delta] button").click()
        page.locator("th[data-key=delta] button").click()
        expect(edges.first).to_contain_text("Mek → Erk")
        expect(lines.last).to_have_text("but: not settled")
        lines.last.click()
        expect(page.locator(".detail h3")).to_have_text("Raf → Mek", use_inner_text=True)
        expect(edges.last).to_have_class(re.compile("selected"))
        slide(page, "size", 90)
        expect(edges.first).to_be_hidden()
        page.get_by_role("button", name="Reset").click()
        expect(lines.nth(1)).to_have_text("but: not settled")

    @pytest.mark.parametrize("width", [390, 1400])
    def test_long_names_hide_nothing_without_a_sign(self, show, visit, width):
        visit.page.set_viewport_size({"width": width, "height": 900})
        names = ["temperature_reactor", "pressure_inlet_mean", "flow_of_coolant_1"]
        known = {"confidence": 0.93, "direction": 0.7, "settled": False, "support": "unclear"}
        edges = [Edge(*names[:2], True, "strengthened", 0.56, -0.45, 1.01, 0.06, **known)]
        means = (MeanChange(names[2], 1.0, 2.0, -1.0, 0.1, 0.002, 0.9),)
        page = show(answer(names, edges, labels=("control_gaps", "treated_gaps"), mean_list=means))
        assert no_sideways_scrolling(page)
        boxes = page.locator(".scroll:visible")
        if width == 1400:
            assert boxes.evaluate_all("(all) => all.filter((e) => e.scrollWidth > e.clientWidth).length") == 0
        assert boxes.evaluate_all(SIGNS) == [True] * boxes.count()
        inside = page.locator("td bdi, th bdi").filter(visible=True).evaluate_all(BROKEN_INSIDE)
        assert inside == []

    def test_names_in_the_headline_stay_whole(self, show, visit):
        visit.page.set_viewport_size(PHONE)
        names = ["superior-temporal gyrus", "beta-catenin of the left"]
        page = show(answer(names, [Edge(*names, True, "added", 0.0, 1.0, -1.0, 0.1)]))
        lines = "(all) => all.map((e) => Math.round(e.getBoundingClientRect().height))"
        assert len(set(page.locator("h1 .whole").evaluate_all(lines))) == 1
        assert page.locator("h1 .whole").first.bounding_box()["height"] < 40
        assert no_sideways_scrolling(page)

    def test_a_phone(self, show, visit):
        visit.page.set_viewport_size(PHONE)
        page = show(SMALL)
        assert no_sideways_scrolling(page)
        card = page.locator("table.edges tr[data-edge='1']").inner_text()
        for words in ("Raf → Mek", "weakened", "0.900", "0.400", "+0.500 ± 0.050", "97%"):
            assert words in card
        page.locator("table.edges tr[data-edge='2']").click()
        page.wait_for_function("document.querySelector('.detail').getBoundingClientRect().top < innerHeight")
        expect(page.locator(".detail h3")).to_have_text("Erk → Akt", use_inner_text=True)

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_text_stands_out(self, show, visit, scheme):
        visit.page.emulate_media(color_scheme=scheme)
        page = show(SMALL)
        found = page.evaluate(CONTRASTS)
        assert len(found) > 20
        assert min(found.values()) >= 4.5, {k: v for k, v in found.items() if v < 4.5}
        ground = page.evaluate(GROUND)
        assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 24, 31)"}[scheme]

    def test_paper(self, show, visit):
        visit.page.emulate_media(color_scheme="dark")
        page = show(SMALL)
        page.emulate_media(media="print", color_scheme="dark")
        settles(page, lambda page: page.evaluate(GROUND), "rgb(255, 255, 255)")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        expect(page.locator(".tools, .buttons, .detail, input").filter(visible=True)).to_have_count(0)
        page.wait_for_selector(".plots figure")
        for words in ("tails are heavy", "ghoshal2019direct", "How often resamples"):
            expect(page.locator("main")).to_contain_text(words)
        expect(page.get_by_text("clear")).to_be_visible()  # among all checks

    def test_paper_says_what_is_left_out_and_leaves_no_trace(self, show):
        page = show(SMALL)
        left_out = page.locator(".filtered")
        page.emulate_media(media="print")
        expect(left_out).to_have_text("", use_inner_text=True)
        page.emulate_media(media="screen")
        slide(page, "confidence", 98)
        expect(page.locator(".count")).to_have_text("1 of 4 changes shown")
        expect(left_out).not_to_be_visible()
        page.get_by_text("All checks").click()
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        expect(left_out).to_have_text("1 of 4 changes shown; the others are filtered out.", use_inner_text=True)
        expect(page.locator("details:not([open])")).to_have_count(0)
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        expect(page.locator("details[open] summary")).to_have_text(["All checks"])

    def test_the_brain_suits_its_ground(self, show, visit):
        places = {name: (10.0 * k, 20.0 - 9 * k, 5.0 * k) for k, name in enumerate(SMALL.variables)}
        page = show(SMALL, lambda result: render_page(result, coordinates=places))
        for scheme, media in (("light", "screen"), ("dark", "screen"), ("dark", "print")):
            page.emulate_media(color_scheme=scheme, media=media)
            shown = page.locator(".brain:visible")
            expect(shown).to_have_attribute("class", f"brain {'light' if media == 'print' else scheme}")
            becomes(page, lambda page, shown=shown: shown.locator("svg").bounding_box()["height"] > 100)

    def test_nothing_is_cut_off_on_paper(self, show, visit):
        visit.page.set_viewport_size({"width": 670, "height": 950})  # A4 with margins
        page = show(SMALL)
        page.emulate_media(media="print")
        over = "(e) => e.scrollWidth - e.clientWidth"
        for kind in ("table", ".scroll"):
            found = page.locator(kind)
            becomes(page, lambda page, f=found: max(f.evaluate_all(f"(all) => all.map({over})")) <= 0)

    def test_a_notebook_decides_on_its_colours(self, visit):
        visit.page.emulate_media(color_scheme="light")
        colours = []
        for host in ('data-jp-theme-light="false"', 'class="vscode-dark"', 'data-jp-theme-light="true"', ""):
            visit.page.set_content(f"<body {host}><div>{SMALL._repr_html_()}</div></body>")
            colours.append(visit.page.evaluate("getComputedStyle(document.querySelector('td')).color"))
        assert colours == ["rgb(230, 235, 240)"] * 2 + ["rgb(21, 32, 43)"] * 2
        assert visit.complaints == []

    def test_without_javascript(self, chromium, tmp_path):
        path = tmp_path / "report.html"
        path.write_text(render_page(SMALL), encoding="utf-8")
        context = chromium.new_context(java_script_enabled=False)
        page = context.new_page()
        page.goto(path.as_uri())
        expect(page.locator("g.node:visible")).to_have_count(5)
        assert len(rows(page)) == 4
        expect(page.locator("button:visible, input:visible")).to_have_count(0)
        context.close()

    def test_motion_is_optional(self, show, visit):
        visit.page.emulate_media(reduced_motion="reduce")
        page = show(SMALL)
        assert page.evaluate("getComputedStyle(document.querySelector('g.node')).transitionDuration") == "0s"


# Cells of which something does not show.
CUT = "(all) => all.filter((e) => e.scrollWidth > e.clientWidth && e.clientWidth).map((e) => e.textContent)"
# Whether what scrolls has shadows at its sides, which its ends cover.
SIGNS = (
    """(all) => all.map((e) => getComputedStyle(e).backgroundAttachment === "local, local, scroll, scroll")"""
)
# Words between underscores that go on in another line.
BROKEN_INSIDE = """(all) => all.flatMap((e) => [...e.childNodes].filter((node) => {
  const range = document.createRange();
  range.selectNodeContents(node);
  return node.nodeType === Node.TEXT_NODE && !/\\s/.test(node.data) && range.getClientRects().length > 1;
}).map((node) => node.textContent))"""
GROUND = "getComputedStyle(document.body).backgroundColor"
TOUCHING = "(lines, name) => lines.filter((e) => e.getAttribute('aria-label').includes(name)).length"
CONTRASTS = """() => {
  const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$/.test(c)) return c; } };
  const found = {};
  const kinds = "h1, h2, h3, p, td, th, dt, dd, li, label, button, figcaption, summary, a";
  for (const e of document.querySelectorAll(kinds)) {
    if (!e.checkVisibility() || !e.textContent.trim()) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
    found[e.tagName + ": " + e.textContent.trim().slice(0, 40)] = (a + 0.05) / (b + 0.05);
  }
  return found;
}"""


def test_a_large_answer_opens_and_answers_at_once(show):
    rng = np.random.default_rng(1)
    names = [f"region {k} with a name" for k in range(200)]
    pairs = list(combinations(range(200), 2))
    edges = [
        Edge(
            names[i],
            names[j],
            True,
            str(rng.choice(CHANGES)),
            0.5,
            0.1,
            float(rng.normal()),
            0.1,
            confidence=0.9,
        )
        for i, j in (pairs[k] for k in rng.permutation(len(pairs))[:60])
    ]
    result = answer(names, edges, rows=150)
    assert len(render_page(result).encode("utf-8")) < 3_000_000
    page = show(result)
    assert page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd") < 2000
    settles(page, lambda page: len(drawn(page)), 60)
    taken = page.evaluate("""() => {
      const slider = document.querySelector("input[data-filter=size]");
      const time = (act) => { const start = performance.now(); act(); document.body.offsetHeight;
        return performance.now() - start; };
      const node = document.querySelector("g.node");
      node.focus();
      const key = new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true });
      return [time(() => { slider.value = 40; slider.dispatchEvent(new Event("input")); }),
              time(() => node.dispatchEvent(key))];
    }""")
    assert max(taken) < 100
    becomes(page, lambda page: 0 < len(drawn(page)) < 60)


class TestSeveralConditions:
    def several(self):
        other = answer(
            SMALL.variables,
            [Edge("Raf", "Akt", True, "added", 0.0, 1.0, -1.0, 0.1)],
            labels=("baseline", "x" * 120),
        )
        none = answer(SMALL.variables, [], labels=("baseline", "<b>third</b>"))
        pairs = {result.labels: result for result in (SMALL, other, none)}
        return ConditionsResult(("baseline", "u0126", "x" * 120, "<b>third</b>"), "baseline", pairs)

    @pytest.mark.parametrize("phone", [False, True])
    def test_one_comparison_at_a_time(self, show, visit, phone):
        if phone:
            visit.page.set_viewport_size(PHONE)
        page = show(self.several(), conditions.render_page)
        assert no_sideways_scrolling(page)
        expect(page.locator(".panels svg")).to_have_count(3)
        scales = page.evaluate("[...document.querySelectorAll('.panels svg')].map((e) => e.getScreenCTM().a)")
        assert min(scales) > 0.7
        expect(page.locator("[role=tabpanel]:visible")).to_have_attribute("id", "pair-1")
        page.get_by_role("tab", name="<b>third</b>").click()
        expect(page.locator("#pair-3")).to_contain_text("From baseline to <b>third</b>: no change found.")
        page.keyboard.press("ArrowLeft")
        expect(page.locator("[role=tabpanel]:visible")).to_have_attribute("id", "pair-2")
        expect(page.locator("#pair-2 .detail h3")).to_have_text("Raf → Akt", use_inner_text=True)
        page.locator(".panels a").first.click()
        expect(page.locator("[role=tabpanel]:visible")).to_have_attribute("id", "pair-1")
        expect(page.locator("#pair-1 g.edge:not(.gone)")).to_have_count(4)
        page.get_by_role("tab", name="<b>third</b>").click()
        page.evaluate("scrollTo(0, 0)")
        page.locator(".panels a").first.click()  # the address is that of the link already
        expect(page.locator("[role=tabpanel]:visible")).to_have_attribute("id", "pair-1")
        becomes(page, lambda page: page.evaluate("scrollY") > 100)
