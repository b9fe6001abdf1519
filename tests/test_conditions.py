"""Several conditions: one order for all comparisons, and what is made of the answer."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy.sparse import csr_array

import diffdag as dd
from diffdag.conditions import GIVEN_THE_ORDER, NO_SHARED_ORDER
from diffdag.ordersearch.search import (
    JointProblem,
    Problem,
    _walk_many,
    search_jointly,
    search_orders,
    walk_from,
)
from diffdag.results.records import Check, Edge, GlobalTest, MeanChange, NoiseChange
from diffdag.tables.groups import split_groups


def several(seed, p=8, conditions=3, changes=2):
    """A model and others that differ from it in a few effects, all with the same causal order."""
    rng = np.random.default_rng([862_000, seed])
    base = dd.simulate_pair(p, neighbours=min(4, p - 1), weights=(0.5, 1.0), rng=rng).first
    models = [base]
    for _ in range(conditions):
        weights = base.weights.copy()
        for _ in range(changes):
            later = int(rng.integers(1, p))
            i, j = base.order[later], base.order[int(rng.integers(later))]
            weights[i, j] = 0.0 if weights[i, j] else rng.choice([-1, 1]) * rng.uniform(0.5, 1.0)
        models.append(dd.LinearSEM(weights))
    return models, rng


def tables_of(models, rng, n=400):
    return {f"c{k}": model.sample(n, rng) for k, model in enumerate(models)}


def problems_of(models, rng, n=400, before=None):
    first, *others = (dd.Moments.from_array(table) for table in tables_of(models, rng, n).values())
    p = len(first.names)
    known = np.zeros((p, p), bool) if before is None else before
    return [Problem.from_scatter(first.scatter, m.scatter, n, n, False, known, p) for m in others]


# The search


def test_the_common_order_has_the_least_sum_of_scores():
    problems = problems_of(*several(1, p=5))
    sums = {
        order: sum(walk_from(problem, order).score for problem in problems)
        for order in itertools.permutations(range(5))
    }
    optima = search_jointly(problems, np.random.default_rng(0), 1)
    assert len({optimum.best.order for optimum in optima}) == 1
    assert sum(optimum.best.score for optimum in optima) == pytest.approx(min(sums.values()), abs=1e-8)
    for problem, optimum in zip(problems, optima, strict=True):
        said = walk_from(problem, optimum.best.order)
        assert (said.changed == optimum.best.changed).all()
        assert said.score == pytest.approx(optimum.best.score, abs=1e-8)
        for (i, j), margin in optimum.margins.items():
            turned = min(score for order, score in sums.items() if order.index(i) < order.index(j))
            assert margin == pytest.approx(turned - min(sums.values()), abs=1e-6)


@pytest.mark.slow
def test_walks_find_what_comparing_all_orders_finds():
    reached = 0
    for seed in range(4):
        joint = JointProblem(tuple(problems_of(*several(seed, p=9))))
        exact = search_orders(joint, np.random.default_rng(0), 1).best
        walked = _walk_many(joint, np.random.default_rng(seed), 1).best
        assert walked.score > exact.score - 1e-6
        assert walked.score == pytest.approx(
            sum(walk_from(p, walked.order).score for p in joint.pairs), abs=1e-6
        )
        reached += walked.score < exact.score + 1e-6
    assert reached == 4


def test_walks_over_many_variables_respect_what_is_known():
    models, _ = several(3, p=16)
    before = np.zeros((16, 16), bool)
    first, last = models[0].order[-1], models[0].order[0]  # against the truth
    before[first, last] = True
    free = search_jointly(problems_of(models, np.random.default_rng(5)), np.random.default_rng(0), 1)
    bound = search_jointly(
        problems_of(models, np.random.default_rng(5), before=before), np.random.default_rng(0), 1
    )
    for optimum in bound:
        assert optimum.best.order.index(first) < optimum.best.order.index(last)
    assert sum(o.best.score for o in free) <= sum(o.best.score for o in bound) + 1e-6
    apart = [
        search_orders(p, np.random.default_rng(0), 1) for p in problems_of(models, np.random.default_rng(5))
    ]
    assert sum(o.best.score for o in apart) <= sum(o.best.score for o in free) + 1.0


# fit_conditions


def test_two_conditions_are_the_usual_fit():
    models, rng = several(2, conditions=1)
    tables = {"before": models[0].sample(300, rng), "after": models[1].sample(500, rng)}
    result = dd.fit_conditions(tables, reference="before")
    usual = dd.DifferenceDAG().fit(*tables.values()).result_
    assert result.pairs["before", "after"] == replace(usual, labels=("before", "after"))
    assert list(result.order) == usual.settings["search_order"]


def test_with_the_other_one_as_reference_delta_has_the_other_sign():
    models, rng = several(2, conditions=1)
    tables = tables_of(models, rng, 2000)
    one = dd.fit_conditions(tables, reference="c0").edges.set_index(["source", "target"])["delta"]
    two = dd.fit_conditions(tables, reference="c1").edges.set_index(["source", "target"])["delta"]
    assert len(one) > 0
    pd.testing.assert_series_equal(one.sort_index(), -two.sort_index(), rtol=1e-6)


def test_moments_tables_and_another_order_of_columns_give_the_same():
    models, rng = several(4)
    tables = tables_of(models, rng)
    names = models[0].names
    frames = {name: pd.DataFrame(table, columns=names) for name, table in tables.items()}
    frames["c2"] = frames["c2"][list(reversed(names))]
    reduced = {name: dd.Moments.from_array(frame.to_numpy(), list(frame)) for name, frame in frames.items()}
    expected = dd.fit_conditions(tables, reference="c0")
    for given in (frames, reduced):
        found = dd.fit_conditions(given, reference="c0")
        assert found.order == expected.order
        pd.testing.assert_frame_equal(found.matrix, expected.matrix)


def test_pairwise_compares_each_with_each():
    models, rng = several(5)
    result = dd.fit_conditions(tables_of(models, rng, 1500))
    assert list(result.pairs) == list(itertools.combinations(["c0", "c1", "c2", "c3"], 2))
    assert result.reference is None
    assert list(result.matrix.columns[:2]) == ["c0 - c1", "c0 - c2"]
    orders = {tuple(one.settings["search_order"]) for one in result.pairs.values()}
    assert orders == {result.order}
    for (first, second), one in result.pairs.items():
        changed = models[int(first[1])].weights != models[int(second[1])].weights
        names = models[0].names
        true = {frozenset((names[j], names[i])) for i, j in np.argwhere(changed)}
        assert {frozenset((edge.source, edge.target)) for edge in one.edge_list} <= true


@pytest.mark.slow
def test_wide_tables_keep_what_any_comparison_needs():
    rng = np.random.default_rng(3)
    p, n = 130, 60
    first = np.zeros((p, p))
    tables = {"none": dd.LinearSEM(first).sample(n, rng)}
    for k, name in enumerate(("one", "two")):
        weights = first.copy()
        weights[10 * k + 1, 10 * k] = 2.0
        tables[name] = dd.LinearSEM(weights).sample(n, rng)
    result = dd.fit_conditions(tables, reference="none")
    kept = [set(result.variables) - set(one.screened_out) for one in result.pairs.values()]
    assert kept[0] == kept[1] == set(result.order)
    assert len(result.order) <= 40
    assert {"X1", "X2", "X11", "X12"} <= kept[0]
    skeletons = [{frozenset((e.source, e.target)) for e in one.edge_list} for one in result.pairs.values()]
    assert skeletons == [{frozenset(("X1", "X2"))}, {frozenset(("X11", "X12"))}]


def test_settings_of_the_model_are_used():
    models, rng = several(6, p=5)
    tables = tables_of(models, rng)
    order = list(reversed(models[0].names))
    result = dd.fit_conditions(tables, reference="c0", model=dd.DifferenceDAG(order=order, noise="equal"))
    assert list(result.order) == order
    for one in result.pairs.values():
        assert one.settings["noise"] == "equal"
        assert all(order.index(e.source) < order.index(e.target) for e in one.edge_list)


def test_the_papers_method_goes_pair_by_pair():
    models, rng = several(6, p=4, conditions=2)
    tables = tables_of(models, rng, 3000)
    model = dd.DifferenceDAG(method="paper", estimator="plugin")
    result = dd.fit_conditions(tables, reference="c0", model=model)
    assert (result.order, result.notes) == ((), (NO_SHARED_ORDER,))
    for (first, second), one in result.pairs.items():
        assert one.edge_list == model.fit(tables[first], tables[second]).result_.edge_list


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tables": {"a": np.eye(3)}}, "there is one condition; give at least two"),
        ({"reference": "z"}, "reference 'z' is not a condition; they are 'c0', 'c1' and 'c2'"),
        ({"tables": {"a": np.eye(3), 2: np.eye(3)}}, "names of the conditions must be texts"),
        ({"model": dd.DifferenceDAG(effective_samples=(20.0, 30.0))}, "effective_samples is a pair"),
        (
            {"tables": [np.eye(3), np.eye(3)]},
            "conditions need names and are a list; give a dict, {name: table}",
        ),
        ({"model": dd.DifferenceDAG(resamples=3)}, "resamples must be a whole number, 20 or larger"),
        ({"model": dd.DifferenceDAG(intervals="split")}, "split intervals are for two conditions"),
        ({"journal": 3}, "journal must be the path of a folder"),
    ],
)
def test_what_is_wrong_is_said(change, message):
    models, rng = several(7, p=4, conditions=2)
    options = {"tables": tables_of(models, rng, 50)} | change
    with pytest.raises(dd.InputError, match=re.escape(message)):
        dd.fit_conditions(options.pop("tables"), **options)


def test_a_condition_with_very_few_rows_does_not_cost_the_others_their_variables():
    models, rng = several(7, p=11, conditions=2)
    tables = tables_of(models, rng, 200) | {"tiny": models[0].sample(5, rng)}
    for reference in ("c0", None):
        with pytest.raises(dd.InputError, match="'tiny' has 5 rows, and ordering 11 variables") as caught:
            dd.fit_conditions(tables, reference=reference)
        assert "takes 17 in each condition; leave it out, or order at most 3" in str(caught.value)
        assert "max_variables=3" in str(caught.value)
    asked = dd.fit_conditions(tables, reference="c0", model=dd.DifferenceDAG(max_variables=3))
    assert len(asked.order) == 3
    del tables["tiny"]
    assert len(dd.fit_conditions(tables, reference="c0").order) == 11


def test_few_rows_everywhere_are_ordinary_screening():
    models, rng = several(7, p=11, conditions=2)
    assert len(dd.fit_conditions(tables_of(models, rng, 12), reference="c0").order) <= 8


def test_moments_are_checked_and_cannot_be_resampled():
    models, rng = several(2, p=5, conditions=1)
    reduced = {name: dd.Moments.from_array(table) for name, table in tables_of(models, rng, 300).items()}
    usual = dd.DifferenceDAG().fit_moments(*reduced.values()).result_
    assert dd.fit_conditions(reduced).pairs["c0", "c1"] == replace(usual, labels=("c0", "c1"))
    assert len(usual.checks) > 3
    for options in ({"resamples": 20}, {"fdr": 0.1}):
        with pytest.raises(dd.InputError, match="needs rows, and only moments are known"):
            dd.fit_conditions(reduced, model=dd.DifferenceDAG(**options))


def test_resamples_keep_to_the_common_order(tmp_path):
    """Alone, c0 and c2 do not tell which way the edge between X1 and X2 runs."""
    models, rng = several(2, p=6, conditions=2)
    tables = tables_of(models, rng, 300)
    model = dd.DifferenceDAG(n_jobs=1)
    (alone,) = model.fit(tables["c0"], tables["c2"]).result_.edge_list
    assert not alone.directed
    options = {"reference": "c0", "model": model.set_params(resamples=20), "journal": tmp_path}
    result = dd.fit_conditions(tables, **options)
    assert result.notes == (GIVEN_THE_ORDER,)
    place = {name: k for k, name in enumerate(result.order)}
    for one in result.pairs.values():
        assert GIVEN_THE_ORDER in one.notes
        for share in one.stability.shares:
            assert place[share.source] < place[share.target]
            assert share.directed == share.found
    (edge,) = result.pairs["c0", "c2"].edge_list
    assert {edge.source, edge.target} == {"X1", "X2"}
    assert edge.confidence > 0.9
    assert result.summary().count("if the common order is right") == 1
    kept = {path: path.read_bytes() for path in tmp_path.glob("*/*.journal")}
    assert {path.parent.name for path in kept} == {"1-c0-c1", "2-c0-c2"}
    assert dd.fit_conditions(tables, **options) == result
    assert {path: path.read_bytes() for path in tmp_path.glob("*/*.journal")} == kept


def test_resamples_of_two_conditions_are_the_usual_ones():
    models, rng = several(2, p=4, conditions=1)
    tables = tables_of(models, rng, 200)
    model = dd.DifferenceDAG(n_jobs=1, resamples=20)
    usual = model.set_params(fdr=0.2).fit(*tables.values()).result_
    result = dd.fit_conditions(tables, model=model.set_params(fdr=0.2))
    assert result.pairs["c0", "c1"] == replace(usual, labels=("c0", "c1"))
    assert result.notes == ()


def test_conditions_have_to_match():
    frames = {name: pd.DataFrame({"x": [1.0, 2, 4, 3], "y": [2.0, 1, 1, 7]}) for name in ("a", "b", "c")}
    with pytest.raises(dd.InputError, match="some conditions are moments and some are tables"):
        dd.fit_conditions({**frames, "d": dd.Moments.from_array(frames["a"].to_numpy(), ["x", "y"])})
    with pytest.raises(dd.InputError, match="'z'"):
        dd.fit_conditions({**frames, "c": frames["c"].rename(columns={"y": "z"})}, reference="a")
    constant = {**frames, "c": frames["c"].assign(y=1.0)}
    with pytest.raises(dd.InputError, match="'y' is constant in the c table"):
        dd.fit_conditions(constant, reference="a")


# The result


def one_result(labels, edges=(), names=("a<b>", "$x$", "c")):
    return dd.DifferenceResult(
        method="order",
        variables=names,
        invariant=(),
        unresolved=(),
        order=(),
        edge_list=edges,
        delta_entries=csr_array((3, 3)),
        samples=(10, 20),
        settings={"penalty": 2.0},
        notes=("the same everywhere",),
        checks=(Check("means", labels[1] != "two", "the means moved"),),
        labels=labels,
    )


@pytest.fixture
def result():
    directed = Edge("a<b>", "$x$", True, "weakened", 0.9, 0.4, 0.5, 0.1)
    larger = Edge("$x$", "c", True, "added", 0.0, 2.0, -2.0, 0.1)
    loose = Edge("a<b>", "c", directed=False)
    pairs = {
        ("base", "../<i>"): one_result(("base", "../<i>"), (directed, larger)),
        ("base", "two"): one_result(("base", "two"), (directed, loose)),
        ("base", "three"): one_result(("base", "three")),
    }
    return dd.ConditionsResult(
        ("base", "../<i>", "two", "three"), "base", pairs, ("a<b>", "$x$", "c"), ("mind",)
    )


def test_the_matrix_has_a_row_an_edge_and_a_column_a_comparison(result):
    assert list(result.matrix.index) == ["a<b> -> $x$", "$x$ -> c", "a<b> -- c"]
    expected = [[0.5, 0.5, np.nan], [-2.0, np.nan, np.nan], [np.nan] * 3]
    np.testing.assert_array_equal(result.matrix.to_numpy(), expected)
    assert result.kinds.to_numpy().tolist() == [
        ["weakened"] * 2 + [""],
        ["added", "", ""],
        ["", "undirected", ""],
    ]
    table = result.edges
    assert table[["first", "second"]].drop_duplicates().values.tolist() == [["base", "../<i>"], ["base", "two"]]
    assert list(table.columns[:7]) == [
        "first",
        "second",
        "source",
        "target",
        "directed",
        "change",
        "weight_first",
    ]
    assert len(table) == 4


def test_it_comes_back_from_its_file(result, tmp_path):
    written = result.save(tmp_path / "new")
    names = {path.relative_to(tmp_path / "new").as_posix() for path in written}
    assert {"conditions.json", "changes.csv", "matrix.csv", "picture.svg", "report.html"} <= names
    assert {"1-base-i/report.html", "2-base-two/result.json", "3-base-three/edges.csv"} <= names
    assert dd.load(tmp_path / "new") == result
    assert dd.load(tmp_path / "new" / "conditions.json").to_json() == result.to_json()
    matrix = pd.read_csv(tmp_path / "new" / "matrix.csv", index_col="edge")
    pd.testing.assert_frame_equal(matrix, result.matrix, check_names=False, check_index_type=False)
    assert len(pd.read_csv(tmp_path / "new" / "changes.csv")) == 4


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("schema", 3, "has schema 3"),
        ("comparisons", None, "expected a list"),
        ("comparisons", [3], "an entry of 'comparisons' is 3, expected an object"),
        ("comparisons", [], "nothing is compared"),
        ("reference", "nobody", "is not a condition"),
        ("conditions", ["base", "base"], "different names"),
        ("order", ["nothing"], "not a variable"),
    ],
)
def test_files_that_are_not_right_are_refused(result, tmp_path, key, value, message):
    content = json.loads(result.to_json()) | {key: value}
    (tmp_path / "conditions.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(dd.InputError, match=message):
        dd.load(tmp_path)


def test_another_file_is_refused(result, tmp_path):
    with pytest.raises(dd.InputError, match="no such file"):
        dd.load(tmp_path)
    (tmp_path / "result.json").write_text(json.dumps({"schema": 2, "conditions": ["a", "b"]}))
    with pytest.raises(dd.InputError, match="'variables' is missing"):
        dd.load(tmp_path)


def test_the_page_shows_names_as_text(result):
    from diffdag.report.html.conditions import render_page  # noqa: PLC0415

    page = render_page(result)
    assert "<i>" not in page
    assert "a<b>" not in page
    assert "a&lt;b&gt;" in page
    assert "default-src 'none'; style-src 'unsafe-inline'" in page
    assert page.count("<script>") == 1
    assert page.count('<td class="number"><span class="dot') == 4
    assert 'href="1-base-i/report.html"' in page
    assert "$x$" in page  # no mathematics made of names


def test_the_picture_has_every_variable_at_the_same_place(result):
    figure = result.plot()
    assert isinstance(figure, Figure)
    panels = [ax for ax in figure.axes if " to " in ax.get_label()]
    assert [ax.get_label() for ax in panels] == ["base to ../<i>", "base to two", "base to three"]
    places = [
        {text.get_text(): text.get_position() for text in ax.texts if text.get_text() in result.variables}
        for ax in panels
    ]
    assert set(places[0]) == set(result.variables)
    assert places[0] == places[1] == places[2]
    pale = [{t.get_text() for t in ax.texts if t.get_alpha() is not None} for ax in panels]
    assert pale == [set(), set(), set(result.variables)]
    assert "no change found" in [text.get_text() for text in panels[2].texts]


def test_the_text_fits_the_terminal(result):
    lines = result.summary().splitlines()
    assert lines[0] == "3 of 6 possible edges changed in some of 3 comparisons"
    assert max(map(len, lines)) <= 100
    assert result.summary().count("the same everywhere") == 1
    assert "Note: mind" in lines
    assert "assumptions that look broken: means (two)" in result.summary()
    many = [f"a condition with a long name, number {k}" for k in range(7)]
    pairs = {
        (many[0], name): one_result((many[0], name), result.pairs["base", "two"].edge_list) for name in many[1:]
    }
    wide = dd.ConditionsResult(many, many[0], pairs).summary()
    assert max(map(len, wide.splitlines())) <= 100
    assert wide.count("+0.500 ± 0.100") == 6


def test_confidence_noise_intercepts_and_the_test_are_shown(result):
    from diffdag.report.html.conditions import render_page  # noqa: PLC0415

    edges = result.pairs["base", "two"].edge_list
    two = replace(
        result.pairs["base", "two"],
        edge_list=(replace(edges[0], confidence=0.97), replace(edges[1], confidence=0.8)),
        noise_list=(NoiseChange("c", 0.5, 0.2, 2.5, 1e-8, 0.9),),
        mean_list=(MeanChange("$x$", 0.9, 0.5, 0.4, 0.1, 1e-4),),
        global_test=GlobalTest(0.002, 999, {}),
    )
    shown = replace(result, pairs={**result.pairs, ("base", "two"): two})
    text = " ".join(shown.summary().split())
    for words in (text, render_page(shown)):
        assert "+0.500 ± 0.100, 97%" in words
        assert "undirected, 80%" in words
        assert "and the confidence in the change" in words
        assert "Noise variance changed: c (0.500 to 0.200" in words
        assert "Intercept changed, base minus two: $x$ (" in words
        assert "Global test: the tables differ (p = 0.002" in words
    assert "two: Noise" in text
    assert "three:" not in text
    assert max(map(len, shown.summary().splitlines())) <= 100


def test_one_comparison_is_called_one(result):
    pairs = {("base", "two"): result.pairs["base", "two"]}
    one = dd.ConditionsResult(("base", "two"), "base", pairs)
    assert one.summary().startswith("2 of 6 possible edges changed in one comparison\n")
    assert "1 comparison," in repr(one)


def test_what_an_earlier_answer_left_is_removed(result, tmp_path):
    result.save(tmp_path)
    (tmp_path / "2-base-two" / "mine.txt").write_text("stays")
    (tmp_path / "3-base-three" / "resamples-half.journal").write_text("goes")
    (tmp_path / "9-other").mkdir()
    (tmp_path / "9-other" / "result.json").write_text("{}")
    first = ("base", "../<i>")
    dd.ConditionsResult(first, "base", {first: result.pairs[first]}).save(tmp_path)
    assert [path.name for path in (tmp_path / "2-base-two").iterdir()] == ["mine.txt"]
    assert not (tmp_path / "3-base-three").exists()
    assert (tmp_path / "9-other" / "result.json").exists()
    assert (tmp_path / "1-base-i" / "result.json").exists()


def test_one_reader_for_all(result, tmp_path):
    result.save(tmp_path / "several")
    two = result.pairs["base", "two"]
    two.save(tmp_path / "two")
    for place, saved in (("several", result), ("several/conditions.json", result), ("two", two)):
        found = dd.load(tmp_path / place)
        assert found == saved
        assert type(found) is type(saved)
    assert {type(one) for one in dd.load(tmp_path / "several").pairs.values()} == {dd.DifferenceResult}
    with pytest.raises(dd.InputError, match=r"none.json': no such file"):
        dd.load(tmp_path / "several" / "none.json")
    (tmp_path / "two" / "conditions.json").write_text(result.to_json(), encoding="utf-8")
    with pytest.raises(
        dd.InputError, match=r"holds result.json and conditions.json; give one of the two files"
    ):
        dd.load(tmp_path / "two")


def test_a_result_takes_the_place_of_several(result, tmp_path):
    result.save(tmp_path / "out")
    result.pairs["base", "two"].save(tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "result.json", "edges.csv", "nodes.csv", "graph.graphml", "report.html",
    }  # fmt: skip


def test_nothing_found_can_be_shown_too():
    pairs = {("a", name): one_result(("a", name)) for name in "bc"}
    empty = dd.ConditionsResult(("a", "b", "c"), "a", pairs)
    assert empty.matrix.shape == (0, 2)
    assert len(empty.edges) == 0
    full = dd.ConditionsResult(
        ("a", "b"), "a", {("a", "b"): one_result(("a", "b"), [Edge("c", "$x$", delta=1.0)])}
    )
    assert empty.edges.dtypes.to_dict() == full.edges.dtypes.to_dict()
    assert list(empty.edges.columns[-5:]) == ["high", "settled", "stand_ins", "size", "robustness"]
    assert empty.summary().startswith("No change found in 2 comparisons")
    assert "no change found" in [text.get_text() for ax in empty.plot().axes for text in ax.texts]
    assert "<svg" in empty._repr_html_()


def test_variables_that_changed_without_an_effect_are_said_everywhere():
    from diffdag.report.html.conditions import render_fragment, render_page  # noqa: PLC0415

    moved = replace(one_result(("a", "c")), mean_list=(MeanChange("$x$", 1.0, 2.0, -1.0, 0.1, 0.002),))
    result = dd.ConditionsResult(("a", "b", "c"), "a", {("a", "b"): one_result(("a", "b")), ("a", "c"): moved})
    words = "no effect changed, but variables did"
    assert result.summary().startswith("No effect changed, but variables did, in 2 comparisons: 0 of 6")
    panels = [[text.get_text() for text in ax.texts] for ax in result.plot().axes]
    assert [words in panel for panel in panels] == [False, True]
    assert f'<span class="soft">{words}</span>' in render_fragment(result)
    claimed = one_result(("a", "d"), [Edge("c", "$x$", delta=1.0)])
    more = dd.ConditionsResult(("a", "b", "c", "d"), "a", {**result.pairs, ("a", "d"): claimed})
    page = render_page(more)
    assert f"From a to c: {words}." in page
    assert "From a to b: no change found." in page
    assert "empty where there is no changed effect." in page
    assert "empty where there is no changed effect." in " ".join(more.summary().split())


def test_the_headline_says_that_dependent_rows_make_chance_changes():
    words = "; rows resemble those before them, and some of it may be chance"
    dependent = (Check("independent rows", False, "rows follow each other"),)
    edges = (Edge("c", "$x$", delta=1.0),)
    for edge_list, said in ((edges, True), ((), False)):
        pairs = {("a", name): replace(one_result(("a", name), edge_list), checks=()) for name in "bc"}
        assert words not in dd.ConditionsResult(("a", "b", "c"), "a", pairs).summary()
        pairs["a", "c"] = replace(pairs["a", "c"], checks=dependent)
        lines = dd.ConditionsResult(("a", "b", "c"), "a", pairs).summary().splitlines()
        assert lines[0].endswith(words) == said


# Groups of one table


def test_groups_of_one_table():
    frame = pd.DataFrame({"dose": ["b", "a", "b", None, "c"], "x": [1.0, 2, 3, 4, 5]})
    with pytest.raises(dd.InputError, match="'dose' names no group in 1 of 5 rows; fill it in"):
        split_groups(frame, "dose")
    parts = split_groups(frame.dropna(), "dose")
    assert {name: part["x"].tolist() for name, part in parts.items()} == {
        "b": [1.0, 3.0], "a": [2.0], "c": [5.0],
    }  # fmt: skip
    assert list(split_groups(frame, "dose", ["c", "a"])) == ["c", "a"]
    with pytest.raises(dd.InputError, match=r"no group 'z'; it holds 'a' \(1 row\), 'b' \(2 rows\)"):
        split_groups(frame, "dose", ["a", "z"])


@pytest.mark.parametrize("kind", [float, np.float32, str])
def test_whole_numbers_are_groups_without_decimals(kind):
    frame = pd.DataFrame({"dose": [kind(k) for k in (1.0, 2.0, 1.0, 3.0)], "x": [1.0, 2, 3, 4]})
    frame["dose"] = frame["dose"].astype(object)
    assert list(split_groups(frame, "dose")) == ["1", "2", "3"]
    frame.loc[3, "dose"] = None
    assert list(split_groups(frame, "dose", ["1.0", 2])) == ["1", "2"]
    assert list(split_groups(frame, "dose", ["2", "1.0"])) == ["2", "1"]
    with pytest.raises(dd.InputError, match="names no group in 1 of 3 rows"):  # which is no group
        split_groups(frame[frame["dose"] != kind(2.0)], "dose")
    versions = frame.assign(dose=["1.0", "1.1", "007", "2.0"])
    assert list(split_groups(versions, "dose")) == ["1.0", "1.1", "2.0", "007"]


def test_results_are_copied_and_sent_to_other_processes():
    rng = np.random.default_rng(3)
    tables = {name: rng.standard_normal((60, 3)) for name in "abc"}
    result = dd.fit_conditions(tables)
    for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):  # noqa: S301 - made here
        assert type(again) is type(result)
        assert again == result
        assert again.summary() == result.summary()


@pytest.mark.parametrize("call", [dd.fit_conditions, dd.settings_path])
def test_a_model_is_an_estimator(call):
    table = np.random.default_rng(4).standard_normal((50, 3))
    tables = ({"a": table, "b": table},) if call is dd.fit_conditions else (table, table)
    with pytest.raises(dd.InputError, match="model must be a DifferenceDAG; it is 'order'"):
        call(*tables, model="order")
