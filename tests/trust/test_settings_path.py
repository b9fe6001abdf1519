"""Settings from the data: the criterion, the path, the choice, the picture."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import same_color
from matplotlib.figure import Figure
from scipy.sparse import csr_array

import diffdag as dd
from diffdag import __main__ as cli
from diffdag.pipeline import ModelOptions, prepare_moments, search
from diffdag.refits import resample_fits, settings_path
from diffdag.report.layout.theme import THEMES
from diffdag.report.plots.chart import spread, svg_of
from diffdag.report.plots.path import plot_path, plot_stability
from diffdag.result import DifferenceResult, PathResult
from diffdag.results.records import Edge, Share
from diffdag.trust.criterion import extended_bic, instability, order_criterion
from diffdag.trust.resampling import Resamples
from diffdag.trust.sensitivity import Setting, SettingMultiples, lost_above, sensitivity_note
from diffdag.trust.settings_path import ALONG, ASIDE, BaseSettings, _times, sorted_multiples

PAIR = dd.simulate_pair(p=5, neighbours=2, changes=2, weights=(0.7, 1.0), rng=862_500)
TABLES = PAIR.first.sample(400, rng=1), PAIR.second.sample(351, rng=2)
MOMENTS = tuple(dd.Moments.from_array(table) for table in TABLES)


@pytest.fixture(scope="module")
def path():
    return settings_path(*TABLES, penalties=[0.3, 0.6, 2, 6], model=dd.DifferenceDAG(n_jobs=1))


def bic(order, edges, moments=MOMENTS, **options):
    """The criterion of these (source, target, directed) edges along an order."""
    return order_criterion(*moments, order, [Edge(*edge) for edge in edges], **options)


def by_rows(order, edges, gamma, equal=True):
    """The criterion from the rows: least squares in the stacked table, one variance."""
    first, second = (table - table.mean(axis=0) for table in TABLES)
    rows, p = len(first) + len(second), first.shape[1]
    place = {name: k for k, name in enumerate(PAIR.first.names)}
    total = 0.0
    for t, name in enumerate(order):
        earlier = [place[other] for other in order[:t]]
        changed = [place[source] for source, target, _ in edges if target == name]
        shared = np.vstack([first[:, earlier], second[:, earlier]])
        extra = np.vstack([first[:, changed], np.zeros((len(second), len(changed)))])
        y = np.concatenate([first[:, place[name]], second[:, place[name]]])

        def squares(design, y=y):
            left = y - design @ np.linalg.lstsq(design, y, rcond=None)[0] if design.shape[1] else y
            return left @ left

        gain = rows / 2 * math.log(squares(shared) / squares(np.hstack([shared, extra])))
        price = math.log(rows) / 2 + 2 * gamma * math.log(p)
        total += price * len(changed) - gain * (rows - 3 - t) / rows
    return total


@given(st.permutations(PAIR.first.names), st.floats(0, 2))
def test_criterion_is_that_of_least_squares_on_the_rows(order, gamma):
    edges = [(order[0], order[2], True), (order[1], order[4], True), (order[0], order[4], True)]
    found = bic(order, edges, equal_noise=True, gamma=gamma)
    assert found == pytest.approx(by_rows(order, edges, gamma), rel=1e-8, abs=1e-8)


def test_criterion_of_no_change_is_zero():
    assert bic(PAIR.first.names, [], equal_noise=True) == 0


def test_orders_differ_by_as_much_as_in_the_search_where_a_change_costs_the_same():
    """With many rows a change costs 1/2 log N + 2 log p there."""
    models = [
        dd.Moments(PAIR.first.names, 10**7, np.zeros(5), sem.covariance() * 1e7)
        for sem in (PAIR.first, PAIR.second)
    ]
    scores, ours = [], []
    for order in (PAIR.first.names, PAIR.first.names[::-1]):
        options = ModelOptions(noise="equal", order=order)
        fit = search(prepare_moments(*models, options), options)
        scores.append(fit.optimum.best.score)
        ours.append(extended_bic(fit, gamma=1.0))
    assert abs(scores[0] - scores[1]) > 100
    assert ours[0] - ours[1] == pytest.approx(scores[0] - scores[1], rel=1e-6)


def test_changed_noise_pays_once():
    rng = np.random.default_rng(862_501)
    one, two = rng.standard_normal((500, 3)), rng.standard_normal((700, 3)) * [1, 1, 3]
    moments = [dd.Moments.from_array(table) for table in (one, two)]
    names = moments[0].names
    assert bic(names, [], moments, equal_noise=True) == 0
    # the last variable is regressed on the others; its variances differ by 9
    design = [np.hstack([table[:, :2], np.ones((len(table), 1))]) for table in (one, two)]

    def minus_loglik(weights):
        x = np.vstack([d * w for d, w in zip(design, weights, strict=True)])
        own = np.zeros((1200, 1))
        own[:500] = design[0][:, 2:] * weights[0]  # an intercept for each table
        y = np.concatenate([one[:, 2] * weights[0], two[:, 2] * weights[1]])
        slopes = np.linalg.lstsq(np.hstack([x, own]), y, rcond=None)[0]
        left = y - np.hstack([x, own]) @ slopes
        s1, s2 = (left[:500] @ left[:500]) / weights[0] ** 2, (left[500:] @ left[500:]) / weights[1] ** 2
        return 250 * math.log(s1 / 500) + 350 * math.log(s2 / 700), 600 * math.log((s1 + s2) / 1200)

    gain = minus_loglik((1.0, 1.0))[1] - minus_loglik((3.0, 1.0))[0]
    price = math.log(1200) / 2 + 1.5 * math.log(3)
    assert bic(names, [], moments) == pytest.approx(price - gain * (1200 - 5) / 1200, abs=0.05)


def test_undirected_edges_take_the_better_direction():
    """Of unresolved variables, as the paper's method leaves them."""
    names = PAIR.first.names
    for a, b in itertools.combinations(names, 2):
        ways = [bic(pair, [(*pair, True)], equal_noise=True) for pair in ((a, b), (b, a))]
        loose = bic([], [(a, b, False)], free=(a, b), equal_noise=True)
        assert loose == pytest.approx(min(ways), abs=1e-9)


def test_criterion_without_enough_rows_is_infinite():
    few = [dd.Moments.from_array(table[:4]) for table in TABLES]
    assert math.isinf(bic(PAIR.first.names, [], few))


def test_instability_is_the_chance_that_a_change_is_not_found_again():
    found = [((0, 1, True),), ((1, 0, False), (0, 2, True)), ((0, 1, True),), ()]
    disagree = np.mean(
        [len({frozenset(e[:2]) for e in a} ^ {frozenset(e[:2]) for e in b}) for a in found for b in found]
    )
    halves = Resamples(("a", "b", "c"), "half", (9, 9), tuple(found), {})
    assert instability(halves) == (pytest.approx(disagree / 2 / 1.0), 1.0)
    assert instability(Resamples(("a", "b"), "half", (9, 9), ((), ()), {})) == (0.0, 0.0)


def test_path_finds_the_truth_and_says_from_where_to_where(path):
    assert path.chosen == {"penalty": 1.0}
    assert path.default == {"penalty": 1.0}
    assert path.agrees
    assert {(e.source, e.target) for e in path.result.edge_list} == PAIR.edges
    table = path.table
    assert list(table.columns) == ["penalty", "edges", "ebic", "chosen"]
    assert table["penalty"].tolist() == [0.3, 0.6, 1.0, 2.0, 6.0]
    assert table.loc[table["chosen"], "ebic"].item() == table["ebic"].min()
    edges = path.edges
    for row in edges.itertuples():
        inside = [
            step.at.penalty
            for step in path.line
            if {row.source, row.target} in [set(e[:2]) for e in step.edges]
        ]
        assert (row._3, row.to, row.share) == (min(inside), max(inside), len(inside) / 5)
    assert set(zip(edges["source"], edges["target"], strict=True)) >= PAIR.edges
    assert edges["in_default"].sum() == len(PAIR.edges)


def test_each_step_is_the_fit_with_that_penalty(path):
    for step in path.line:
        result = dd.DifferenceDAG(penalty=step.at.penalty, n_jobs=1).fit_moments(*MOMENTS).result_
        assert [(e.source, e.target, e.directed) for e in result.edge_list] == [e[:3] for e in step.edges]
        edges = [(e.source, e.target, e.directed) for e in result.edge_list]
        assert step.ebic == pytest.approx(bic(result.settings["search_order"], edges), abs=1e-6)


def test_moments_and_rows_give_the_same_path(path):
    again = settings_path(
        *MOMENTS, penalties=[0.3, 0.6, 2, 6], model=dd.DifferenceDAG(n_jobs=2, rng=np.random.default_rng(3))
    )
    assert again.rows == path.rows
    assert again.table["ebic"].tolist() == pytest.approx(path.table["ebic"].tolist())


def test_own_penalty_is_the_default_that_is_multiplied():
    path = settings_path(*TABLES, model=dd.DifferenceDAG(penalty=2.0, n_jobs=1), penalties=[0.5])
    assert path.default == {"penalty": 2.0}
    assert path.result.settings["penalty_factor"] in (1.0, 2.0)
    assert [step.at.penalty for step in path.line] == [0.5, 1.0]


def test_paper_varies_the_threshold_and_then_the_penalty():
    model = dd.DifferenceDAG(method="paper")
    path = settings_path(*TABLES, model=model, thresholds=[0.5, 2], penalties=[0.5])
    table = path.table
    assert list(table.columns[:2]) == ["penalty", "threshold"]
    assert table["threshold"].tolist()[:3] == [0.5, 1.0, 2.0]
    assert path.default == {
        "penalty": "rate:0.1",
        "threshold": pytest.approx(model.fit_moments(*MOMENTS).result_.settings["threshold"]),
    }
    assert len(table) == 4
    assert table["penalty"].tolist()[3] == 0.5
    best = table["threshold"][:3].tolist().index(table["threshold"][3])
    assert table["ebic"][best] <= table["ebic"][:3].min() + 1
    again = dd.DifferenceDAG(method="paper", **path.chosen).fit_moments(*MOMENTS).result_
    assert again.edge_list == path.result.edge_list


def test_stability_takes_the_least_severe_stable_setting(tmp_path):
    seen = []
    path = settings_path(
        *TABLES,
        by="stability",
        penalties=[0.3, 6],
        fits=6,
        journal=tmp_path,
        progress=lambda *told: seen.append(told[:2]),
        model=dd.DifferenceDAG(rng=1, n_jobs=1),
    )
    assert seen[-1] == (21, 21)
    table = path.table
    for number, penalty in enumerate((0.3, 1.0, 6.0)):
        halves = resample_fits(
            *TABLES, model=dd.DifferenceDAG(penalty=penalty, rng=1, n_jobs=1), fits=6, kind="half"
        )
        assert table["instability"][number] == pytest.approx(instability(halves)[0])
        assert path.line[number].shares == halves.shares
        written = json.loads(path.to_json())["settings"][number]["shares"]
        assert all(not share.pop("varied")["fits"] for share in written)
        assert written == halves.edges.to_dict("records")
    stable = [bool(value <= path.bound) for value in table["instability"]]
    least = 2
    while least > 0 and stable[least] and stable[least - 1]:
        least -= 1
    assert path.chosen_at == (least if stable[2] else 1)
    assert len(list(tmp_path.glob("*.journal"))) == 3


def test_at_most_so_many_variables_are_ordered():
    result = dd.DifferenceDAG(max_variables=3, n_jobs=1).fit_moments(*MOMENTS).result_
    assert len(result.settings["search_order"]) == 3
    assert len(result.screened_out) == 2
    assert set(result.settings["search_order"]) == {name for edge in PAIR.edges for name in edge}


@pytest.mark.parametrize("wrong", [1, 2.5, True, "3"])
def test_a_screen_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(dd.InputError, match="max_variables must be a whole number, 2 or larger"):
        dd.DifferenceDAG(max_variables=wrong).fit_moments(*MOMENTS)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": "luck"}, "by must be one of ebic, stability"),
        ({"fits": 1}, "fits must be a whole number, 2 or larger"),
        ({"penalties": [0.5, -1]}, "penalties must be numbers larger than 0"),
        ({"penalties": "abc"}, "multiples of the default"),
        ({"thresholds": [0.5]}, "method='order' has no thresholds"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, words):
    with pytest.raises(dd.InputError, match=words):
        settings_path(*TABLES, **options)


def test_moments_cannot_be_halved():
    with pytest.raises(dd.InputError, match="moments cannot be resampled"):
        settings_path(*MOMENTS, by="stability")


def test_multiples_of_the_papers_penalty():
    assert _times("rate:0.1", 2.5) == "rate:0.25"
    assert _times(0.4, 0.5) == 0.2
    assert _times(0.4, 4.0) == 1.0


def nothing(names):
    """A result without any change."""
    return DifferenceResult(
        method="order", variables=names, invariant=names, unresolved=(), order=(), edge_list=(),
        delta_entries=csr_array((len(names),) * 2), samples=(400, 351), settings={},
    )  # fmt: skip


def made(steps, chosen=1, default=1, names=("a", "b", "c")):
    """A path with these edges at 0.5, 1, 2, 4 times the default penalty."""
    settings = tuple(
        Setting(SettingMultiples(penalty=0.5 * 2.0**k), 3, tuple(edges), float(k))
        for k, edges in enumerate(steps)
    )
    return PathResult(
        method="order", by="ebic", axis="penalty", settings=settings, steps=len(settings), chosen_at=chosen,
        default_at=default, chosen={"penalty": 1.0}, default={"penalty": 1.0}, gamma=1.0, bound=0.05,
        result=nothing(names),
    )  # fmt: skip


AB, BA, BC = ("a", "b", True, 0.5), ("b", "a", True, 0.4), ("b", "c", True, -1.0)
LOOSE = ("a", "b", False, None)


@pytest.mark.parametrize(
    ("steps", "where", "tail"),
    [
        ([[AB], [AB], [AB]], "the same edge is found from 0.5 to 2 times", ", at every one tried"),
        ([[AB, BC], [AB], [AB]], "the same edge is found from 1 to 2 times", "; at 0.5 times b -> c appears"),
        (
            [[AB, BC], [AB, BC], []],
            "the same 2 edges are found from 0.5 to 1 times",
            "; at 2 times a -> b and b -> c go",
        ),
        (
            [[AB], [LOOSE], [LOOSE]],
            "the same edge is found from 0.5 to 2 times",
            " (1 in another direction at some), at every one tried",
        ),
        ([[AB], [], []], "no change is found from 1 to 2 times", "; at 0.5 times a -> b appears"),
        (
            [[BC], [AB], []],
            "the same edge is found only at",
            "; at 0.5 times b -> c appears and a -> b goes, at 2 times a -> b goes",
        ),
    ],
)
def test_sensitivity_in_a_sentence(steps, where, tail):
    assert sensitivity_note(made(steps)) == f"{where} the default penalty{tail}"


def test_edges_are_pairs_with_the_direction_they_mostly_have():
    path = made([[AB, BC], [AB], [BA], [LOOSE]])
    assert path.edges.drop(columns=["in_default", "in_chosen"]).to_numpy().tolist() == [
        ["a", "b", 0.5, 4.0, 1.0, 0.5],
        ["b", "c", 0.5, 0.5, 0.25, 0.25],
    ]
    assert path.edges["in_default"].tolist() == path.edges["in_chosen"].tolist() == [True, False]
    assert path.rows[0] == (0.5, (("a", "b", True), ("b", "c", True)))
    assert made([[AB], [AB], [BA]], chosen=2).agrees is False


def test_json_and_files_say_the_same(path, tmp_path):
    files = path.save(tmp_path / "out")
    assert [file.name for file in files] == ["path.csv", "path.json", "path.svg"]
    value = json.loads(files[1].read_text())
    assert [row["penalty"] for row in value["settings"]] == path.table["penalty"].tolist()
    assert [row["chosen"] for row in value["settings"]] == path.table["chosen"].tolist()
    assert value["sensitivity"] == sensitivity_note(path)
    assert value["edges"] == path.edges.to_dict("records")
    assert files[2].read_text() == svg_of(plot_path(path), background=True)


def test_infinite_criteria_are_null_in_json():
    path = made([[AB], [AB]])
    worst = Setting(SettingMultiples(penalty=0.5), 3, (AB,), math.inf)
    path = PathResult(**{**vars(path), "settings": (worst, path.settings[1])})
    assert json.loads(path.to_json())["settings"][0]["ebic"] is None
    assert path.plot().figure is not None


def test_picture_shows_names_default_and_choice():
    odd = ("a$x", "b", True, 0.5)
    steps = [[odd, ("a$x", "c", False, None)], [(*odd[:3], 0.4)], []]
    path = made(steps, chosen=2, names=("a$x", "b", "c"))
    ax = plot_path(path)
    words = [text.get_text() for text in ax.texts]
    assert {"default", "chosen", "a$x → b", "a$x — c"} <= set(words)
    lines = [np.round(line.get_ydata(), 3).tolist()[:2] for line in ax.lines if len(line.get_xdata()) == 3]
    assert [0.5, 0.4] in lines
    svg = svg_of(plot_path(path), background=True)
    assert svg == svg_of(plot_path(path), background=True)
    assert "a$x → b" in svg


def test_picture_without_sizes_counts_edges():
    ax = plot_path(made([[LOOSE], [LOOSE], []]))
    assert ax.get_ylabel() == "edges"
    assert [1, 1, 0] in [list(line.get_ydata()) for line in ax.lines]


def stable(shares):
    """A path with these shares of pairs at 0.5, 1, 2 times the default; the default answer is a -> b."""
    plain = made([[AB]] * len(shares))
    settings = tuple(
        replace(
            step, instability=0.0, shares=tuple(Share(*pair, found, found, 0.0, 0.0) for pair, found in some)
        )
        for step, some in zip(plain.settings, shares, strict=True)
    )
    return replace(plain, by="stability", settings=settings)


def test_stability_picture_has_the_share_of_halves_along_the_path(tmp_path):
    ab, ac, bc = ("a", "b"), ("a", "c"), ("b", "c")
    path = stable([[(ab, 1.0), (ac, 0.6), (bc, 0.1)], [(ab, 0.9)], [(ab, 0.7), (ac, 0.2)]])
    ax = path.plot_stability()
    drawn = {tuple(line.get_ydata()): line for line in ax.lines if len(line.get_xdata()) == 3}
    assert set(drawn) == {(1.0, 0.9, 0.7), (0.6, 0.0, 0.2), (0.1, 0.0, 0.0)}
    assert list(drawn[1.0, 0.9, 0.7].get_xdata()) == [0.5, 1.0, 2.0]
    assert drawn[1.0, 0.9, 0.7].get_color() != drawn[0.6, 0.0, 0.2].get_color()
    words = {text.get_text() for text in ax.texts}
    assert {"a → b", "a → c", "default, and chosen"} <= words
    assert "b → c" not in words  # rare, and not in the default answer
    files = path.save(tmp_path)
    assert [file.name for file in files] == ["path.csv", "path.json", "path.svg", "stability.svg"]
    assert files[3].read_text() == svg_of(plot_stability(path), background=True)
    assert "a → b" in files[3].read_text()


def test_stability_picture_where_no_half_finds_anything():
    ax = plot_stability(stable([[], [], []]), Figure().add_subplot(), theme="dark")
    assert not [line for line in ax.lines if len(line.get_xdata()) == 3]


def test_stability_picture_needs_halves(path):
    with pytest.raises(dd.InputError, match="without halves of the rows; use settings_path"):
        path.plot_stability()


def test_path_picture_in_the_dark():
    figure = made([[AB], [AB, BC], []]).plot(theme="dark").figure
    assert same_color(figure.get_facecolor(), THEMES["dark"].background)


def test_names_stay_within_the_picture_if_there_is_room():
    assert spread(np.array([0.0, 0.0, 1.0]), 0.1, 0.0, 1.0) == pytest.approx([0.0, 0.1, 1.0])
    assert spread(np.array([1.0, 1.0]), 0.2, 0.0, 1.0) == pytest.approx([0.8, 1.0])
    assert spread(np.array([]), 0.2).size == 0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.01, 0.2))
def test_names_are_spread_without_changing_their_order(heights, gap):
    values = np.array(heights)
    placed = spread(values, gap)
    order = np.argsort(values, kind="stable")
    assert (np.diff(placed[order]) >= gap - 1e-9).all()
    assert placed.mean() == pytest.approx(values.mean(), abs=1e-9)


def test_command(tmp_path, capsys):
    for name, table in zip("ab", TABLES, strict=True):
        np.savetxt(tmp_path / f"{name}.csv", table, delimiter=",", header="v,w,x,y,z", comments="")
    files = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    out = tmp_path / "out"
    assert cli.run(["path", *files, "--penalties", "0.5,2", "--jobs", "1", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "<- chosen" in text
    assert "times the default penalty" in text
    assert sorted(file.name for file in out.iterdir()) == ["path.csv", "path.json", "path.svg"]
    assert cli.run(["path", *files, "--penalties", "0.5,2", "--jobs", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((out / "path.json").read_text())
    assert cli.run(["path", *files, "--by", "luck"]) == 2
    assert "by must be one of" in capsys.readouterr().err


def test_edges_that_the_next_setting_loses():
    assert lost_above(made([[AB], [AB, BC, LOOSE], [BA], []])) == ("b -> c",)
    assert lost_above(made([[AB], [LOOSE, BC], []])) == ("a -- b", "b -> c")
    assert lost_above(made([[AB], [AB]])) == ()  # there is none beyond


@pytest.mark.parametrize(("half", "share"), [(False, 0.1), (True, 0.15)])
def test_settings_are_multiples_of_what_was_chosen(half, share):
    base = BaseSettings("paper", 0.2, 0.1, 0.15)
    at = base.at(SettingMultiples(penalty=3.0, threshold=0.4), half)
    assert at == {"penalty": pytest.approx(0.6), "threshold": pytest.approx(0.4 * share)}
    exact = replace(base, threshold=None, half_threshold=None)
    assert exact.at(SettingMultiples(), half)["threshold"] is None
    assert BaseSettings.order(None).at(SettingMultiples(penalty=2.5)) == {"penalty": 2.5}
    assert BaseSettings.order(0.8).at(SettingMultiples(penalty=2.5)) == {"penalty": pytest.approx(2.0)}


@pytest.mark.parametrize(("grid", "ends"), [(ALONG, (0.4, 2.5)), (ASIDE, (0.25, 4.0))])
def test_grids_rise_through_the_default_in_steps_of_at_most_two(grid, ends):
    assert (grid[0], grid[-1]) == ends
    assert sorted_multiples("penalty", grid) == grid
    assert 1.0 in grid
    ratios = [b / a for a, b in itertools.pairwise(grid)]
    assert min(ratios) > 1.1
    assert max(ratios) <= (2.0 if grid is ASIDE else 1.25)
    if grid is ASIDE:
        assert set(ratios) == {2.0}


def test_a_choice_in_two_sentences():
    path = made([[AB], [AB], [AB, BC]], chosen=2)
    assert path.summary() == (
        "Chosen by extended BIC: 2 times the default penalty, with 2 edges, not the same as the default. "
        "The same edge is found from 0.5 to 1 times the default penalty; at 2 times b -> c appears."
    )
    stable = replace(
        path, by="stability", settings=tuple(replace(own, instability=0.05) for own in path.settings)
    )
    assert stable.summary().startswith("Chosen by stability: 2 times")
    wild = replace(stable, settings=tuple(replace(own, instability=0.051) for own in path.settings))
    assert wild.summary().startswith(
        "Even the most severe setting tried is not stable, so the default stays. The"
    )
