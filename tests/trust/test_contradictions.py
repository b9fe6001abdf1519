"""What speaks against a result is said, at the edge that it concerns or about the whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from answers import graph

import diffdag as dd
from diffdag.results.records import Check, Edge, GlobalTest, NoiseChange, Sensitivity, SwitchChange
from diffdag.trust.contradictions import compare_remedy, contradictions, marks, opposite_arrows

NAMES = ["a", "b", "c"]
EDGE = Edge("a", "b", change="added", delta=1.0)


def said(edge: Edge, **parts: object) -> list[str]:
    return [mark.short for mark in marks(graph(NAMES, [edge], **parts), edge)]


@pytest.mark.parametrize(
    ("changed", "mark"),
    [
        ({"settled": False}, "not settled"),
        ({"support": "range"}, "range explains it"),
        ({"support": "unclear"}, "ranges hardly overlap"),
        ({"direction": 0.59}, "direction open"),
        ({"direction": 0.79}, "direction only probable"),
        ({"directed": False, "change": None, "delta": None}, "direction open"),
    ],
)
def test_an_edge_has_its_own_marks(changed: dict[str, object], mark: str) -> None:
    assert said(EDGE) == said(replace(EDGE, direction=0.8, support="mechanism")) == []
    assert said(replace(EDGE, **changed)) == [mark]  # type: ignore[arg-type]


def test_what_other_parts_say_of_an_edge_stands_at_it() -> None:
    failed = Check("outliers", False, "look at row 3", edges=("a -> b",))
    assert said(EDGE, checks=(failed,)) == ["check of outliers"]
    assert said(EDGE, checks=(replace(failed, passed=True),)) == []
    assert said(EDGE, checks=(replace(failed, edges=("a -> c",)),)) == []
    near = Sensitivity("penalty", "it goes", 1.0, True, ("a -> b",))
    assert said(EDGE, sensitivity=near) == ["goes with a slightly higher penalty"]


def test_a_global_test_that_disagrees_is_said() -> None:
    nothing, something = GlobalTest(0.4, 99, {}), GlobalTest(0.01, 99, {})
    by_range = replace(EDGE, support="range")
    noise = (NoiseChange("a", 1.0, 2.0, 0.5),)

    def words(edges: list[Edge], test: GlobalTest, **parts: object) -> str:
        return " ".join(contradictions(graph(NAMES, edges, global_test=test, **parts)))

    assert "1 edge changed, and yet the global test sees no difference (p = 0.4)" in words([EDGE], nothing)
    assert "spread over many small changes" in words([], something)
    assert "moved ranges may be all" in words([by_range], something)
    for agree in (
        words([EDGE], something), words([], nothing), words([by_range], nothing),
        words([], something, noise_list=noise),
    ):  # fmt: skip
        assert agree == ""


def test_another_penalty_that_is_preferred_is_said() -> None:
    other = Sensitivity("penalty", "whatever", 1.6, False)
    assert "extended BIC prefers 1.6 times the penalty" in next(
        contradictions(graph(NAMES, [], sensitivity=other))
    )


def test_arrows_that_differ_between_results_of_a_study_are_said() -> None:
    one, other = graph(NAMES, [EDGE]), graph(NAMES, [Edge("b", "a", change="added", delta=1.0)])
    assert opposite_arrows({"x": one, "y": one}) == []
    assert opposite_arrows({"x": one, "y": graph(NAMES, [Edge("a", "b", directed=False)])}) == []
    (words,) = opposite_arrows({"x": one, "y": other, "z": one})
    assert words.startswith("a -> b in 'x' and 'z'; b -> a in 'y': ")
    both = dd.ConditionsResult(("r", "x", "y"), "r", {("r", "x"): one, ("r", "y"): other})
    assert "a -> b in 'x'; b -> a in 'y'" in both.summary()


def test_a_remedy_is_compared_edge_by_edge() -> None:
    result = graph(NAMES, [EDGE, Edge("b", "c", change="added", delta=1.0)])
    again = graph(NAMES, [Edge("b", "a", change="added", delta=1.0), Edge("a", "c", directed=False)])
    check = compare_remedy(result, again, "covariance", "winsorised")
    assert not check.passed
    assert check.edges == ("b -> c", "a -> b")
    assert "gone: 'b -> c'; direction differs: 'a -> b'; new: 'a -- c'" in check.message
    assert compare_remedy(result, result, "covariance", "winsorised").passed


def test_advice_is_tried_where_a_fit_is_quick() -> None:
    """Heavy tails make a check advise winsorised covariances: a fit with them says what is left of a change."""
    rng = np.random.default_rng(5)
    first, second = rng.standard_t(3, size=(600, 3)), rng.standard_t(3, size=(600, 3))
    second[:, 1] += 2 * second[:, 0]
    result = dd.DifferenceDAG().fit(first, second).result_
    checks = {check.name: check for check in result.checks}
    assert result.edge_list
    assert not checks["normality"].passed
    assert checks["remedy"].passed
    assert "'winsorised'" in checks["remedy"].message
    robust = dd.DifferenceDAG(covariance="winsorised").fit(first, second).result_
    assert "remedy" not in {check.name for check in robust.checks}


def test_what_a_switched_variable_acts_on_may_have_changed_for_no_other_reason() -> None:
    off = (SwitchChange("TF", "second", 0.0, 5.0, 1.0, 1e-9),)
    noise = (NoiseChange("a", 1.0, 2.0, 1e-9),)
    assert list(contradictions(graph(NAMES, [], switch_list=off))) == []
    for parts in ({"edge_list": [EDGE]}, {"edge_list": [], "noise_list": noise}):
        (words,) = contradictions(graph(NAMES, parts.pop("edge_list"), switch_list=off, **parts))  # type: ignore[arg-type]
        assert words.startswith("'TF' varies in one condition only")
        assert "the option 'adjust' with 'TF' takes that out" in words


def test_without_a_switched_cause_its_targets_look_changed() -> None:
    """Taking it out, as the result advises, mends that."""

    def rows(n: int, seed: int, on: float) -> pd.DataFrame:
        noise = np.random.default_rng(seed).standard_normal((n, 4))
        cause = on * (5 + noise[:, 0])
        a, b = 0.8 * cause + noise[:, 1], 0.8 * cause + noise[:, 2]
        return pd.DataFrame({"TF": cause, "a": a, "b": b, "c": 0.7 * a + noise[:, 3]})

    first, second = rows(400, 1, 1.0), rows(400, 2, 0.0)
    result = dd.DifferenceDAG().fit(first, second).result_
    assert result.noise_list
    assert any("'TF' varies in one condition only" in words for words in contradictions(result))
    taken = dd.DifferenceDAG(adjust=["TF"]).fit(first, second).result_
    assert not taken.edge_list + taken.noise_list + taken.mean_list
