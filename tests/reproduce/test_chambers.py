"""The machine: its files and kinds of environment, how claims are counted, the experiment from end to end."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from machines import TABLE, make_machine
from scipy.sparse import csr_array

from diffdag import InputError
from diffdag import __main__ as cli
from diffdag.reproduce.experiments.chambers import data as chambers_data
from diffdag.reproduce.experiments.chambers import experiment as chambers
from diffdag.reproduce.experiments.chambers import gains as chambers_gains
from diffdag.reproduce.experiments.chambers.picture import draw_claims
from diffdag.reproduce.experiments.claims import (
    Claim,
    Claims,
    Counts,
    ancestor_pairs,
    check_methods,
    claims_of,
    count_claims,
    graph_claims,
    try_tables,
)
from diffdag.reproduce.experiments.runner import run
from diffdag.results.difference import Difference
from diffdag.results.records import Edge, GainChange

ENVIRONMENTS = {
    "t_eye": "exposure",
    "v_meter": "voltage",
    "red_mid": "range",
    "bent": "curved",
    "idle": "nothing",
    "stuck": "nothing",
}


@pytest.fixture
def folder(tmp_path):
    return make_machine(tmp_path)


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    return chambers_data.read_machine(make_machine(tmp_path_factory.mktemp("machine")))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The small version, where its output is, and its text."""
    experiment = chambers.experiment_for(make_machine(tmp_path_factory.mktemp("data")))
    out = tmp_path_factory.mktemp("out")
    files, text = run(experiment, experiment.quick, out, jobs=1)
    assert set(files) | {out / "chambers.journal"} == set(out.iterdir())
    return experiment, out, text


def made_result(variables, edges=(), gains=()):
    return Difference(
        method="order",
        variables=variables,
        invariant=(),
        unresolved=(),
        order=(variables,),
        edge_list=edges,
        delta_entries=csr_array((len(variables),) * 2),
        samples=(10, 10),
        settings={},
        gain_list=gains,
    )


# --- counting


GRAPH = {("red", "eye"), ("green", "eye"), ("blue", "eye"), ("lamp", "eye"), ("eye", "screen")}
STRONG, WEAK = {("red", "eye"), ("green", "eye"), ("blue", "eye")}, {("lamp", "eye")}


@pytest.mark.parametrize(
    ("claim", "counted"),
    [
        (Claim("red", "eye"), "found"),
        (Claim("red", "eye", False), "undirected"),
        (Claim("eye", "red", False), "undirected"),
        (Claim("eye", "red"), "reversed"),
        (Claim("lamp", "eye"), "ignored"),
        (Claim("eye", "lamp"), "ignored"),
        (Claim("lamp", "eye", False), "ignored"),
        (Claim("red", "green"), "extra"),
        (Claim("red", "screen"), "extra"),
        (Claim("screen", "eye", False), "extra"),
        (Claim("screen", "eye"), "backwards"),
        (Claim("screen", "red"), "backwards"),
    ],
)
def test_each_claim_counts_as_one_thing(claim, counted):
    counts = vars(count_claims([claim], STRONG, WEAK, ancestor_pairs(GRAPH)))
    expected = dict.fromkeys(counts, 0) | {"true": 3, counted: 1}
    if counted == "backwards":
        expected["extra"] = 1
    assert counts == expected


def test_claims_are_counted_together():
    claims = [Claim("red", "eye"), Claim("eye", "green"), Claim("blue", "eye", False), Claim("lamp", "eye")]
    claims += [Claim("screen", "red"), Claim("red", "blue", False)]
    counted = count_claims(claims, STRONG, WEAK, ancestor_pairs(GRAPH))
    assert counted == Counts(true=3, found=1, undirected=1, reversed=1, extra=2, backwards=1, ignored=1)


def test_where_nothing_changed_every_claim_is_extra():
    claims = [Claim("red", "eye"), Claim("eye", "red"), Claim("lamp", "eye"), Claim("red", "blue", False)]
    counted = count_claims(claims, (), (), ancestor_pairs(GRAPH))
    assert counted == Counts(true=0, found=0, undirected=0, reversed=0, extra=4, backwards=1, ignored=0)


def test_claims_of_a_graph():
    graph = np.array([[0, 0, 1], [1, 0, 0], [1, 0, 0]], bool)  # a -> b, a -- c
    assert graph_claims(("a", "b", "c"), graph) == (Claim("a", "b"), Claim("a", "c", False))
    assert [str(claim) for claim in graph_claims(("a", "b", "c"), graph)] == ["a -> b", "a -- c"]


def test_claims_of_a_result_have_its_gains():
    gain = GainChange("eye", 0.126, 0.002)
    edges = (Edge("red", "eye", gain_of="eye"), Edge("lamp", "red", directed=False))
    claims = claims_of(made_result(("red", "eye", "lamp"), edges, (gain,)))
    assert claims.edges == (Claim("red", "eye"), Claim("lamp", "red", False))
    assert claims.gains == (gain,)


def test_the_default_sees_rows_and_others_see_moments(machine):
    compared = machine.compared("t_eye")
    for name in ("order", "dci-c"):
        claims = try_tables(name, compared.first, compared.second, 30.0)
        assert {Claim("red", "eye"), Claim("green", "eye")} <= set(claims.edges)
        assert claims.seconds > 0


@pytest.mark.parametrize("name", ["order", "ges"])
def test_a_method_without_a_result_says_why(name):
    rows = pd.DataFrame({"a": [1.0, 2.0, 3.0, 5.0], "b": [1.0, 1.0, 1.0, 1.0]})
    claims = try_tables(name, rows, rows, 30.0)
    assert claims.edges is None
    assert "'b'" in claims.why
    assert "again" not in claims.told({})


def test_a_method_that_is_not_installed_is_tried_again(monkeypatch):
    monkeypatch.setattr("diffdag.reproduce.methods.method.find_spec", lambda name: None)
    claims = try_tables("pc", pd.DataFrame({"a": [1.0]}), pd.DataFrame({"a": [1.0]}), 1.0)
    assert claims.told({})["again"]
    assert claims.why == "needs causallearn"


def test_methods_that_know_the_order_are_refused():
    with pytest.raises(InputError, match="'oracle' has to be told the causal order"):
        check_methods(["order", "oracle"])


# --- the folder


def test_kinds_come_from_the_truth(machine):
    assert machine.environments == ENVIRONMENTS
    other = pd.DataFrame({"what": ["edge"], "how": ["somebody turned a screw"]})
    assert chambers_data.kind_of(other) == "effects"
    assert set(ENVIRONMENTS.values()) | {"effects", "blocks"} == set(chambers_data.KINDS)


def test_strong_and_weak_changes(machine):
    strong, weak = machine.changed("t_eye")
    assert strong == STRONG
    assert weak == WEAK
    assert machine.changed("red_mid") == machine.changed("reference 3") == (frozenset(), frozenset())


def test_columns_with_one_value_are_left_out_of_both(machine):
    first, second, left_out = machine.compared("stuck")
    assert left_out == ("angle",)
    assert "angle" not in first
    assert "angle" not in second
    assert machine.compared("idle").left_out == ()


def test_blocks_are_the_reference_once(machine):
    reference = machine.values("reference")
    parts = [machine.compared("reference", block) for block in range(1, chambers_data.BLOCKS + 1)]
    pd.testing.assert_frame_equal(pd.concat([part.second for part in parts]), reference)
    for first, second, _ in parts:
        pd.testing.assert_frame_equal(pd.concat([first, second]).sort_index(), reference)


def test_the_small_version_has_one_environment_of_each_kind(machine):
    settings = chambers.settings_for(machine, "quick")
    assert settings == json.loads(json.dumps(settings))
    assert settings["environments"] == {k: v for k, v in ENVIRONMENTS.items() if k != "stuck"}
    assert settings["blocks"] == [1, 6, 11, 16]
    full = chambers.settings_for(machine, "full")
    assert len(chambers.cells(full)) == (len(ENVIRONMENTS) + 20) * 6
    keys = [tuple(cell[name] for name in ("kind", "environment", "method")) for cell in chambers.cells(full)]
    assert len(set(keys)) == len(keys)


def rewrite(path, change):
    change(pd.read_csv(path)).to_csv(path, index=False)


REWRITTEN = {
    "no environment": (TABLE, lambda rows: rows.drop(columns="environment")),
    "no reference": (TABLE, lambda rows: rows[rows["environment"] != "reference"]),
    "unnamed rows": (TABLE, lambda rows: rows.replace({"environment": {"idle": None}})),
    "words": (TABLE, lambda rows: rows.assign(day="Monday")),
    "no column": (TABLE, lambda rows: rows.drop(columns="lamp")),
    "no visibility": ("truth.csv", lambda told: told.drop(columns="visibility")),
    "no target": ("graph.csv", lambda edges: edges.drop(columns="target")),
    "cycle": ("graph.csv", lambda edges: pd.concat([edges, edges[:1].set_axis(["target", "source"], axis=1)])),
    "foreign edge": ("graph.csv", lambda edges: edges[1:]),
}


def damage(folder, what):
    match what:
        case "no folder":
            return folder / "nowhere"
        case "no rows":
            (folder / TABLE).unlink()
        case "two tables":
            (folder / "light_tunnel_2.csv.gz").write_bytes((folder / TABLE).read_bytes())
        case "no truth":
            (folder / "truth.csv").unlink()
            (folder / "graph.csv").unlink()
        case _:
            name, change = REWRITTEN[what]
            rewrite(folder / name, change)
    return folder


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("no folder", "is not a folder; give a folder with one file light_tunnel*.csv.gz"),
        ("no rows", "has 0 files light_tunnel*.csv.gz; give"),
        ("two tables", "has 2 files light_tunnel*.csv.gz; give"),
        ("no truth", "has no 'truth.csv' and 'graph.csv'; give"),
        ("no environment", "has no column 'environment' with rows of the 'reference'; give"),
        ("no reference", "has no column 'environment' with rows of the 'reference'; give"),
        ("unnamed rows", "has rows without an environment; name it, or remove them"),
        ("words", "has something other than numbers in 'day'; remove it"),
        ("no visibility", "'truth.csv' has no column 'visibility'; give"),
        ("no target", "'graph.csv' has no column 'target'; give"),
        ("no column", "'truth.csv' names 'lamp', no column of 'light_tunnel_small.csv.gz'"),
        ("cycle", "'graph.csv' has a cycle"),
        ("foreign edge", "'truth.csv' has 'red -> eye', not in 'graph.csv'; add it there"),
    ],
)
def test_unusable_folders_are_refused_at_once(folder, tmp_path, what, says, capsys):
    arguments = ["reproduce", "chambers", "--data", str(damage(folder, what)), "--out", str(tmp_path / "out")]
    assert cli.run(arguments) == 2
    message = capsys.readouterr().err
    assert says in message
    assert message.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_without_a_folder_it_says_where_such_data_come_from(tmp_path, capsys):
    assert cli.run(["reproduce", "chambers", "--out", str(tmp_path / "out")]) == 2
    message = capsys.readouterr().err
    for part in ("needs --data", "truth.csv", "lt_interventions_standard_v1", "10.1038/s42256-024-00964-x"):
        assert part in message
    assert not (tmp_path / "out").exists()


# --- gains


def test_slopes_and_their_errors():
    rng = np.random.default_rng(840_102)
    n, found, errors = 400, [], []
    for _ in range(300):
        rows = pd.DataFrame(rng.uniform(0, 1, (n, 2)), columns=["a", "b"])
        rows["y"] = 1 + 2 * rows["a"] - rows["b"] + rows["a"] * rng.standard_normal(n)  # noise grows with a
        slope, error = chambers_gains.slopes(rows, "y", ["a", "b"])
        found.append(slope)
        errors.append(error)
    design = np.column_stack([np.ones(n), rows["a"], rows["b"]])
    assert found[-1] == pytest.approx(np.linalg.lstsq(design, rows["y"], rcond=None)[0][1:])
    assert np.mean(found, axis=0) == pytest.approx([2, -1], abs=0.05)
    assert np.mean(errors, axis=0) == pytest.approx(np.std(found, axis=0), rel=0.12)


def test_the_pooled_factor():
    b1, e1 = np.array([1.0, 2.0, -3.0]), np.array([0.02, 0.01, 0.03])
    exact, _ = chambers_gains.pooled_factor((b1, e1), (4.7 * b1, e1))
    assert exact == pytest.approx(4.7)
    rng = np.random.default_rng(840_103)
    e2 = np.array([0.1, 0.3, 0.05])
    draws = [
        chambers_gains.pooled_factor(
            (b1 + e1 * rng.standard_normal(3), e1), (0.125 * b1 + e2 * rng.standard_normal(3), e2)
        )
        for _ in range(2000)
    ]
    factors, errors = np.array(draws).T
    assert factors.mean() == pytest.approx(0.125, abs=0.002)
    assert errors.mean() == pytest.approx(factors.std(), rel=0.1)


def test_claimed_gains_stand_beside_the_machines_own(machine):
    claimed = pd.DataFrame(
        {
            "environment": ["t_eye", "v_meter", "red_mid"],
            "kind": ["exposure", "voltage", "range"],
            "factors": [
                chambers_gains.gains_json([GainChange("eye", 0.12, 0.01), GainChange("red", 2.0)]),
                None,
                "{}",
            ],
        }
    )
    table = chambers_gains.gains_table(machine, claimed)
    assert list(table["target"]) == ["eye", "meter"]
    assert list(table["nominal"]) == [0.125, 4.7]
    assert (np.abs(table["machine"] - [0.125, 4.7]) < 4 * table["machine_stderr"]).all()
    assert (table["machine_stderr"] < 0.05 * table["nominal"]).all()
    assert table.loc[0, "claimed"] == 0.12
    assert table.loc[1, ["claimed", "claimed_stderr"]].isna().all()
    assert table.loc[1, "ratios"].startswith("red 4.")
    text = chambers.gains_summary(table)
    assert "t_eye, eye: x 0.125, x 0.12" in text
    assert "x 0.12 ± 0.01" in text
    assert text.endswith(" none")


def test_a_gain_of_another_variable_is_extra(folder, monkeypatch):
    gains = (GainChange("eye", 0.1257, 0.0021), GainChange("meter", 1.1, None))
    made = claims_of(made_result(("red", "eye", "meter"), (Edge("red", "eye", gain_of="eye"),), gains))
    monkeypatch.setattr(chambers, "try_tables", lambda *given: made)
    cell = {"kind": "exposure", "environment": "t_eye", "block": None, "method": "order"}
    row = chambers.work(cell, {"limit": 1.0}, folder)
    assert (row["true"], row["found"], row["extra"], row["extra_gains"]) == (3, 1, 0, 1)
    assert row["gains"] == "eye x 0.126 ± 0.0021; meter x 1.1"
    assert json.loads(row["factors"]) == {"eye": [0.1257, 0.0021], "meter": [1.1, None]}
    assert row["edges"] == "red -> eye"


# --- the experiment


def test_a_machine_from_end_to_end(finished):
    _, out, text = finished
    table = pd.read_csv(out / "chambers.csv")
    assert len(table) == (5 + 4) * 3
    ours = table[table["method"] == "order"].set_index("environment")
    assert ours.loc["t_eye", ["true", "found"]].tolist() == [3, 3]
    assert ours.loc["reference 6", ["rows_first", "rows_second", "true"]].tolist() == [760, 40, 0]
    summary = pd.read_csv(out / "chambers-summary.csv").set_index(["kind", "method"])
    assert summary.loc[("blocks", "order"), ["fits", "true", "gave_up"]].tolist() == [4, 0, 0]
    by_hand = table[(table["kind"] == "blocks") & (table["method"] == "ges")]["extra"]
    assert summary.loc[("blocks", "ges"), "extra"] == by_hand.sum()
    assert summary.loc[("blocks", "ges"), "fits_with_extra"] == (by_hand > 0).sum()
    gains = pd.read_csv(out / "chambers-gains.csv")
    assert list(gains["environment"]) == ["t_eye", "v_meter"]
    assert "exposure (exposure time of a sensor): 1 compared, 3 edges changed" in text
    assert set(pd.read_csv(out / "chambers-times.csv")["kind"]) == set(table["kind"])


def test_where_the_data_are_is_not_told(finished):
    for path in finished[1].iterdir():
        assert b"secret-place" not in path.read_bytes(), path.name


def test_an_interrupted_run_ends_the_same(finished, tmp_path):
    experiment, whole, _ = finished
    lines = (whole / "chambers.journal").read_bytes().splitlines(keepends=True)
    (tmp_path / "chambers.journal").write_bytes(b"".join(lines[:-2]) + lines[-2][:50])
    run(experiment, experiment.quick, tmp_path, jobs=1)
    for name in ("chambers.csv", "chambers-summary.csv", "chambers-gains.csv", "chambers.svg", "chambers.png"):
        assert (whole / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_other_data_are_other_settings(folder):
    before = chambers.experiment_for(folder)
    rewrite(folder / "graph.csv", lambda edges: edges.iloc[::-1])
    after = chambers.experiment_for(folder)
    assert before.full["data"] != after.full["data"]
    assert "data" not in before.axes


def test_other_processes_can_be_sent_the_work(folder):
    work = chambers.experiment_for(folder).work
    assert pickle.loads(pickle.dumps(work)).keywords == {"data": folder}  # noqa: S301


def test_the_command_line_runs_it(folder, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["--data", str(folder), "--quick", "--methods", "dci-c", "--jobs", "1", "--out", str(out)]
    assert cli.run(["reproduce", "chambers", *arguments]) == 0
    assert "gains: nominal, by the machine's own slopes, claimed" in capsys.readouterr().out
    assert pd.read_csv(out / "chambers-gains.csv").empty  # only the default claims gains


def test_a_method_that_gives_up_has_found_nothing(folder, tmp_path, monkeypatch):
    gave_up = Claims(None, why="longer than 30 s", seconds=30.0)
    monkeypatch.setattr(chambers, "try_tables", lambda *given: gave_up)
    experiment = chambers.experiment_for(folder)
    settings = {**experiment.quick, "methods": ["order"], "blocks": [1]}
    run(experiment, settings, tmp_path / "out", jobs=1)
    table = pd.read_csv(tmp_path / "out" / "chambers.csv")
    assert set(table["why"]) == {"longer than 30 s"}
    assert table["extra"].isna().all()
    row = chambers.summarise_claims(table).iloc[0]
    assert row[["kind", "fits", "gave_up", "true", "found", "extra"]].tolist() == ["exposure", 1, 1, 3, 0, 0]
    assert "gave up 1" in (tmp_path / "out" / "chambers.svg").read_text()


def test_the_picture_has_a_panel_per_kind(finished, tmp_path):
    summary = pd.read_csv(finished[1] / "chambers-summary.csv")
    picture = draw_claims(summary[summary["kind"] != "range"], tmp_path / "some")[0].read_text()
    assert chambers_data.KINDS["curved"] in picture
    assert chambers_data.KINDS["range"] not in picture
