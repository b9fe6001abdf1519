"""The brain experiment: its data, its picture, and that it survives interruption and tells no paths."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest

from diffdag._base.errors import InputError
from diffdag.report.plots.brain_outline import outline
from diffdag.report.plots.label_places import place_labels
from diffdag.reproduce.experiments.brain import data as brain_data
from diffdag.reproduce.experiments.brain import experiment as brain
from diffdag.reproduce.experiments.brain import invented as brain_invented
from diffdag.reproduce.experiments.brain.picture import draw_brain, edges_of, lobe_colours
from diffdag.reproduce.experiments.runner import run


@pytest.fixture(scope="module")
def regions():
    return brain_invented.invent_regions()


def make_folder(parent):
    """Two groups over six regions of which one effect differs; a note beside them."""
    rng = np.random.default_rng(820_100)
    place = parent / "secret-place"
    place.mkdir()
    names = [f"area{k}" for k in range(6)]
    for name, effect in {"group_b.csv.gz": 0.0, "group_a.csv": 0.9}.items():
        values = rng.standard_normal((400, 6))
        values[:, 3] += effect * values[:, 0] + 0.5 * values[:, 1]
        pd.DataFrame(values, columns=names).to_csv(place / name, index=False)
    spots = pd.DataFrame(60 * rng.standard_normal((6, 3)), columns=list("xyz"))
    spots.insert(0, "region", names)
    spots["lobe"] = ["Frontal", "Frontal", "Occipital", "Occipital", "Elsewhere", "Frontal"]
    spots.to_csv(place / "where.csv", index=False)
    (place / "NOTES.md").write_text("not a table")
    return place


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The experiment on such a folder, where its output is, and its text."""
    experiment = brain.experiment_for(make_folder(tmp_path_factory.mktemp("data")))
    out = tmp_path_factory.mktemp("out")
    files, text = run(experiment, experiment.full, out, jobs=1)
    assert set(files) | {out / "brain.journal"} == set(out.iterdir())
    return experiment, out, text


def rewrite(path, change):
    change(pd.read_csv(path)).to_csv(path, index=False)


# --- invented data


def test_the_invented_brain_has_the_papers_numbers(regions):
    assert len(regions) == 157
    assert not regions["region"].duplicated().any()
    assert not regions["label"].duplicated().any()
    assert {"Cerebellum", "Brainstem", "Frontal", "Parietal", "Temporal", "Occipital"} < set(regions["lobe"])


def test_left_and_right_mirror_each_other(regions):
    places = regions.set_index("region")[["x", "y", "z"]]
    left = places[places.index.str.endswith("_L")]
    right = places.loc[left.index.str.replace("_L", "_R")].to_numpy()
    assert (left.to_numpy() * (-1, 1, 1) == right).all()
    assert (left["x"] < 0).all()


@pytest.mark.parametrize("most", [None, brain.QUICK_REGIONS])
def test_twelve_occipital_regions_take_part(most):
    study = brain_invented.invent_study(n=5, seed=820_101, most=most)
    part = {name for edge in study.truth.edges for name in edge}
    assert len(part) == 12
    assert all(name.startswith("Occipital") for name in part)
    assert len(study.truth.edges) == 11
    assert study.first.shape == (5, most or 157)
    assert list(study.first.columns) == list(study.regions["region"])
    assert (study.truth.first.noise_variances == study.truth.second.noise_variances).all()
    assert study.truth.first.covariance().diagonal().max() < 10


def test_invented_data_depend_on_the_seed_only():
    one, same, other = (brain_invented.invent_study(3, seed, 30) for seed in (820_102, 820_102, 820_103))
    pd.testing.assert_frame_equal(one.first, same.first)
    assert one.truth.edges != other.truth.edges


def test_a_small_study_takes_whole_lobes_from_the_back(regions):
    some = brain_data.from_the_back(regions, 20)
    assert set(some["lobe"]) == {"Occipital"}
    assert brain_data.from_the_back(regions, None) is regions
    assert len(brain_data.from_the_back(regions, 31)) == 31


# --- a user's folder


def test_files_are_told_by_what_they_hold(folder):
    files = brain_data.find_files(folder)
    assert [path.name for path in (files.coordinates, files.first, files.second)] == [
        "where.csv",
        "group_a.csv",
        "group_b.csv.gz",
    ]
    study = brain_data.Study.read(brain_data.find_files(folder))
    assert list(study.regions["label"]) == list(study.regions["region"])  # no label column
    assert study.truth is None


def test_regions_without_data_are_left_out(folder):
    for name in ("group_a.csv", "group_b.csv.gz"):
        rewrite(folder / name, lambda table: table.drop(columns="area5"))
    study = brain_data.Study.read(brain_data.find_files(folder))
    assert len(study.regions) == 5
    assert len(study.atlas) == 6


def damage(folder, what):
    where, group = folder / "where.csv", folder / "group_a.csv"
    match what:
        case "no folder":
            return folder / "nowhere"
        case "no coordinates":
            where.unlink()
        case "one group":
            group.unlink()
        case "three groups":
            (folder / "group_c.csv").write_bytes(group.read_bytes())
        case "unknown region":
            rewrite(group, lambda table: table.assign(time=range(len(table))))
        case "lost region":
            rewrite(group, lambda table: table.drop(columns="area2"))
        case "no number":
            rewrite(where, lambda table: table.assign(x=[*table["x"][:5], None]))
        case "twice":
            rewrite(where, lambda table: pd.concat([table, table[:1]]))
        case "empty":
            group.write_bytes(b"")
    return folder


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("no folder", "is not a folder; give one"),
        ("no coordinates", "has 0 tables with the columns region, x, y, z; one is needed"),
        ("one group", "has 1 table with regions of 'where.csv' as columns; two are needed"),
        ("three groups", "has 3 tables with regions"),
        ("unknown region", "'group_a.csv' has 'time', not among the regions of 'where.csv'; add"),
        ("lost region", "'area2' in one of the two tables only"),
        ("no number", "'area5' of 'where.csv' has not three numbers as x, y, z; fill them in"),
        ("twice", "'area0' appears more than once in 'where.csv'"),
        ("empty", "two are needed, one per group.*group_a.csv' is empty"),
    ],
)
def test_unusable_folders_are_refused_at_once(folder, what, message):
    with pytest.raises(InputError, match=message):
        brain.experiment_for(damage(folder, what))


# --- the experiment


def test_a_folder_from_end_to_end(finished):
    _, out, text = finished
    pictures = {f"brain-{method}.{kind}" for method in ("order", "paper") for kind in ("svg", "png")}
    assert {"brain.csv", "brain-edges.csv", *pictures} <= {path.name for path in out.iterdir()}
    table = pd.read_csv(out / "brain.csv")
    assert list(table["method"]) == ["order", "paper"]
    assert list(table["rows_first"]) == [400, 400]
    assert (table["worth_first"] <= 400).all()
    edges = pd.read_csv(out / "brain-edges.csv")
    ours = edges[edges["method"] == "order"]
    assert [{*pair} for pair in ours[["source", "target"]].to_numpy().tolist()] == [{"area0", "area3"}]
    assert "no finding about the brain" in text.replace("\n", " ")
    assert "joined by more than one method" in text


def test_where_the_data_are_is_not_told(finished):
    for path in finished[1].iterdir():
        assert b"secret-place" not in path.read_bytes(), path.name


def test_the_fingerprint_notices_other_data(folder):
    before = brain.settings_for(brain_data.find_files(folder), quick=False)
    assert before == brain.experiment_for(folder).full == json.loads(json.dumps(before))
    rewrite(folder / "group_a.csv", lambda table: table + 1)
    after = brain.settings_for(brain_data.find_files(folder), quick=False)
    assert [one["file"] for one in before["data"]] == [one["file"] for one in after["data"]]
    assert before["data"] != after["data"]


def test_an_interrupted_run_ends_the_same(finished, tmp_path):
    experiment, whole, _ = finished
    lines = (whole / "brain.journal").read_bytes().splitlines(keepends=True)
    (tmp_path / "brain.journal").write_bytes(b"".join(lines[:2]) + lines[2][:50])
    run(experiment, experiment.full, tmp_path, jobs=1)
    for name in ("brain.csv", "brain-edges.csv", "brain-order.svg", "brain-paper.png"):
        assert (whole / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_other_processes_can_be_sent_the_work(folder):
    for data in (None, folder):
        assert pickle.loads(pickle.dumps(brain.experiment_for(data).work)).keywords == {"data": data}  # noqa: S301


def test_the_truth_is_scored_where_it_is_known(monkeypatch):
    monkeypatch.setattr(brain_invented, "TAKE_PART", 3)
    settings = {**brain.settings_for(None, quick=True), "most": 8, "n": 4000, "seed": 820_104}
    row = brain.work({"data": "invented", "method": "order"}, settings)
    assert row["true_edges"] == 2
    assert row["f1"] == 1
    assert (row["worth_first"], row["rows_first"]) == (4000, 4000)


def test_a_method_that_takes_too_long_leaves_a_row(tmp_path):
    settings = {**brain.settings_for(None, quick=True), "limit": 1e-3, "methods": ["paper"]}
    files, text = run(brain.EXPERIMENT, settings, tmp_path, jobs=1)
    assert "paper: no result, longer than 0.001 s" in text
    assert not [path for path in files if path.suffix == ".svg"]
    assert pd.read_csv(tmp_path / "brain-edges.csv").empty


def test_other_methods_are_refused():
    with pytest.raises(InputError, match="no method 'pc'; it has 'order' and 'paper'"):
        brain.cells({**brain.EXPERIMENT.quick, "methods": ["order", "pc"]})


def test_shared_edges_ignore_directions():
    edge = dict.fromkeys(brain.EDGE)
    rows = {
        "order": [{**edge, "source": "a", "target": "b"}, {**edge, "source": "a", "target": "c"}],
        "paper": [{**edge, "source": "b", "target": "a"}],
    }
    table = pd.DataFrame({"method": list(rows), "found": [json.dumps(found) for found in rows.values()]})
    assert list(brain.edges_of(table)["shared"]) == [True, False, True]


# --- the picture


def test_the_outline_holds_all_regions(regions):
    from matplotlib.path import Path as Shape  # noqa: PLC0415

    for axes in (["x", "y"], ["y", "z"], ["x", "z"]):
        points = regions[axes].to_numpy()
        assert Shape(outline(points)).contains_points(points).all()
    assert np.isfinite(outline(np.zeros((1, 2)))).all()


def test_names_do_not_cover_each_other_where_there_is_room():
    rng = np.random.default_rng(820_105)
    points = rng.uniform(-60, 60, (25, 2))
    sizes = np.tile([12.0, 3.0], (25, 1))
    places = place_labels(points, sizes, np.empty((0, 2)), np.zeros(2))
    gaps = np.abs(places[:, None] - places[None]) - sizes[0]
    assert not ((gaps < -1e-9).all(axis=2) & ~np.eye(25, dtype=bool)).any()
    assert np.abs(places - points).max() < 30


def test_edges_of_a_table():
    table = pd.DataFrame(
        {
            "source": ["a", "a", "b"], "target": ["b", "c", "c"], "directed": [True, False, True],
            "change": ["added", None, None], "delta": [-0.4, np.nan, 0.2], "shared": [True, False, False],
        }
    )  # fmt: skip
    edges = edges_of(table)
    assert [edge.kind for edge in edges] == ["added", "undirected", "changed"]
    assert [edge.delta for edge in edges] == [-0.4, None, 0.2]


@pytest.mark.slow
def test_of_many_edges_the_clearest_are_drawn(regions, tmp_path):
    names = list(regions["region"])
    edges = pd.DataFrame({"source": names[:-1], "target": names[1:], "directed": True, "change": "added"})
    edges["delta"], edges["stderr"] = 0.5, np.linspace(0.1, 1, len(edges))
    edges.loc[100, ["directed", "delta", "stderr"]] = [False, np.nan, np.nan]
    picture = draw_brain(regions, edges, "many", tmp_path / "many")[0].read_text()
    assert "the clearest 60 are drawn" in picture
    assert picture.count(">Su1.L<") == 0  # its edges are among the less clear ones
    assert picture.count(">Fr1.L<") == 3


def test_every_lobe_has_a_colour():
    colours = lobe_colours(["Frontal", "Moon", "Mars", "frontal"])
    assert colours["Frontal"] == colours["frontal"]
    assert len({colours["Frontal"], colours["Moon"], colours["Mars"]}) == 3


def test_a_picture_without_edges(regions, tmp_path):
    none = pd.DataFrame(columns=["source", "target", "directed", "change", "delta"])
    files = draw_brain(regions, none, "nothing", tmp_path / "empty")
    assert [path.suffix for path in files] == [".svg", ".png"]
    assert "Occipital" not in files[0].read_text()
