"""Why a variable moved, as text, picture and part of the page."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from scipy.sparse import csr_array

import diffdag as dd
from diffdag.report.explanation import WHAT, explanation_text, waterfall
from diffdag.report.html.page import render_page
from diffdag.report.plots.chart import png_of, svg_of
from diffdag.report.text import headline
from diffdag.results.explanation import Explanation, Explanations, Mechanism, Part
from diffdag.results.records import Check, Edge, MeanChange

NAMES = ("spend", "visits", "<b>&\"'", "漢字")
EFFECT = Part(0, 1.5, 1.0, 2.0, 3.0, 2.5, 3.5, 0.0, 0.6)
MECHANISMS = (
    Mechanism("spend -> visits", "effect", "visits", "spend"),
    Mechanism("intercept of spend", "intercept", "spend"),
    Mechanism("noise of <b>&\"'", "noise", "<b>&\"'"),
)


def result(*, many: int = 0) -> dd.DifferenceResult:
    more = tuple(Mechanism(f"{k} -> visits", "effect", "visits", "spend") for k in range(many))
    parts = (EFFECT, Part(1, -0.5, -0.7, -0.3, 0.0, 0.0, 0.0), Part(2, 0.0, 0.0, 0.0, 0.4, 0.1, 0.7))
    parts += tuple(Part(3 + k, 0.1, 0.0, 0.2, 0.1, 0.0, 0.2, 0.0, 0.1) for k in range(many))
    targets = (
        Explanation("visits", 5.0, 6.2, 2.0, 5.5, parts),
        Explanation("<b>&\"'", None, None, 2.0, 2.4, (Part(2, variance=0.4),)),
        Explanation("漢字", 1.0, 9.0, 1.0, 1.0, (EFFECT,)),
        Explanation("spend", 1.0, 1.0, 1.0, 1.0),
    )
    return dd.DifferenceResult(
        method="order", variables=NAMES, invariant=(), unresolved=(), order=(), edge_list=(),
        delta_entries=csr_array((4, 4)), samples=(10, 20), settings={}, labels=("March", "April"),
        explanations=Explanations(MECHANISMS + more, targets, ("visits",)),
    )  # fmt: skip


def test_a_waterfall_begins_and_ends_at_what_was_observed():
    for what, ends in zip(WHAT, ((5.0, 6.2), (2.0, 5.5)), strict=True):
        steps = waterfall(result(), "visits", what)
        assert (steps[0].start, steps[-1].end) == ends
        assert all(one.end == two.start for one, two in pairwise(steps))
        assert len(steps) == 3  # without what has no part in it, with what is unexplained
    assert waterfall(result(), "<b>&\"'", "mean") == []


def test_the_text_says_which_way_and_adds_up():
    text = explanation_text(result(), "visits")
    assert text.startswith("Why did visits move from March to April?")
    assert "mean: from 5.00 in March to 6.20 in April, +1.20" in text
    assert "Parts are April minus March" in text
    assert re.search(r"^spend -> visits +\+1\.50 +\+1\.00 to \+2\.00 +\+3\.00", text, re.MULTILINE)
    assert re.search(r"^observed +\+1\.20 +\+3\.50$", text, re.MULTILINE)
    assert "the intercept is that at zero" in " ".join(text.split())
    assert max(map(len, text.split("\n"))) <= 110
    assert "cannot be compared" in explanation_text(result(), "<b>&\"'")


@pytest.mark.parametrize("passed", [True, False])
def test_of_dependent_rows_it_is_said_that_chance_goes_further(passed):
    checked = replace(result(), checks=(Check("independent rows", passed, "..."),))
    assert ("Intervals are too narrow" in explanation_text(checked, "visits")) is not passed
    edge, moved = Edge("spend", "visits", change="added", delta=1.0), MeanChange("spend", 2.0)
    found = replace(checked, mean_list=(moved,), edge_list=(edge,))
    for own, some in ((found, True), (replace(found, edge_list=()), True), (checked, False)):
        assert ("some of it may be chance" in headline(own)) is (some and not passed)


@pytest.mark.parametrize("target", ["visits", "<b>&\"'", "漢字", "spend"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures_are_drawn(target, theme):
    figure = result().plot_explanation(target, theme=theme)
    assert len(figure.axes) == (1 if target.startswith("<") else 2)
    assert len(png_of(figure)) > 1000


def test_many_small_parts_are_drawn_as_one():
    svg = svg_of(result(many=40).plot_explanation("visits"))
    assert "others" in svg


class TestPage:
    def test_the_variable_that_moved_most_comes_first_and_alone(self):
        page = render_page(result())
        section = page[page.index('<section class="why"') :].split("</section>")[0]
        assert re.findall(r"<h3><bdi>(.*?)</bdi></h3>", section)[0] == "漢字"
        assert section.count('<div class="moved">') == 1
        assert section.count('<div class="moved" hidden>') == 2  # nothing moved "spend"
        assert section.count("<option") == 3

    def test_names_are_escaped_and_numbers_stand_in_rows(self):
        page = render_page(result())
        assert "<b>&\"'" not in page
        assert "intercept of spend" in page
        assert "+1.00 to +2.00" in page

    def test_there_is_no_panel_where_nothing_moved(self):
        same = replace(result(), explanations=Explanations((), (Explanation("spend", 1.0, 1.0, 1.0, 1.0),)))
        assert 'class="why"' not in render_page(same)

    def test_tables_of_very_many_variables_end_somewhere(self):
        assert len(render_page(result(many=400))) < 1_500_000
