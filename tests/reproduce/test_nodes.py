"""The experiment nodes: models, scores, the table from end to end, and the same on a machine."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from machines import make_machine

from diffdag import InputError
from diffdag import __main__ as cli
from diffdag.reproduce.experiments import experiment
from diffdag.reproduce.experiments.chambers.data import read_machine
from diffdag.reproduce.experiments.charts import OTHER, style_of
from diffdag.reproduce.experiments.nodes.experiment import SIMULATED, cells, recall_by_kind
from diffdag.reproduce.experiments.nodes.machine import experiment_for, summarise_machine, touched
from diffdag.reproduce.experiments.nodes.models import KINDS, draw_nodes
from diffdag.reproduce.experiments.runner import run
from diffdag.reproduce.methods import all_methods, all_node_methods
from diffdag.reproduce.scoring import score_nodes

SMALL = {
    **SIMULATED.quick,
    "sizes": [[7, 100], [7, 400]],
    "pairs": 2,
    "methods": ["oracle", "shift", "baro-max"],
    "slow": {"shift 7": 1},
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    files, text = run(SIMULATED, SMALL, out, jobs=1)
    return out, files, text


def test_models_differ_in_the_mechanisms_that_are_said_to():
    seen = set()
    for seed in range(60):
        pair = draw_nodes(8, (1, seed))
        first, second = pair.models.first, pair.models.second
        assert 1 <= len(pair.kinds) <= 4
        for k in range(8):
            differs = {
                "weights": not np.array_equal(first.weights[k], second.weights[k]),
                "noise": first.noise_variances[k] != second.noise_variances[k],
                "intercept": first.intercepts[k] != second.intercepts[k],
            }
            kind = pair.kinds.get(k)
            expected = "weights" if kind in ("effects", "gain") else kind
            assert {name for name, own in differs.items() if own} == ({expected} - {None})
            if kind == "gain":
                used = first.weights[k] != 0
                ratios = second.weights[k, used] / first.weights[k, used]
                assert len(ratios) > 1
                assert np.ptp(ratios) < 1e-12
        either = (first.weights != 0) | (second.weights != 0)
        assert [sorted(np.flatnonzero(row)) for row in either] == [
            [j for j in range(8) if above >> j & 1] for above in pair.parents
        ]
        seen |= set(pair.kinds.values())
    assert seen == set(KINDS)


def test_scores_by_hand():
    one = np.array([False, True, False, False, False])
    found = score_nodes(one, [1, 0, 2, 3, 4], one)
    assert (found.ac1, found.ac3, found.f1, found.false, found.first) == (1.0, 1.0, 1.0, 0.0, 1)
    four = np.array([True, True, True, True, False])
    found = score_nodes(four, [4, 0, 1, 2, 3], np.zeros(5, bool))
    assert (found.ac1, found.f1, found.false, found.first) == (0.0, 0.0, 0.0, 2)
    assert found.ac3 == pytest.approx(2 / 3)
    assert score_nodes(one, [0, 1, 2, 3, 4], None).f1 is None


def test_slow_methods_have_fewer_pairs():
    table = pd.DataFrame(cells(SMALL))
    assert table.groupby("method").size().to_dict() == {"oracle": 4, "shift": 2, "baro-max": 4}
    assert set(SIMULATED.full["methods"]) == set(all_node_methods())


def test_the_table_and_its_figures(finished):
    out, files, text = finished
    assert {path.name for path in files} == {
        "nodes.csv", "nodes-times.csv", "nodes.json", "nodes-summary.csv", "nodes-kinds.csv", "nodes.svg",
        "nodes.png",
    }  # fmt: skip
    table = pd.read_csv(out / "nodes.csv")
    assert len(table) == 10
    assert table.loc[table["method"] == "baro-max", "f1"].isna().all()
    assert table["ac1"].notna().all()
    assert "ac3 at n" in text


def test_an_interrupted_run_ends_the_same(finished, tmp_path):
    whole, *_ = finished
    lines = (whole / "nodes.journal").read_bytes().splitlines(keepends=True)
    (tmp_path / "nodes.journal").write_bytes(b"".join(lines[:-2]) + lines[-1][:40])
    run(SIMULATED, SMALL, tmp_path, jobs=1)
    for name in ("nodes.csv", "nodes-summary.csv", "nodes-kinds.csv", "nodes.svg"):
        assert (whole / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_shares_found_of_each_kind_by_hand():
    rows = {
        "p": [5] * 3, "n": [9] * 3, "method": ["m"] * 3, "f1": [1.0, 0.5, None],
        "changed": ["1:gain 4:noise", "0:gain", "0:noise"], "claimed": ["1 4", "3", ""],
    }  # fmt: skip
    row = recall_by_kind(pd.DataFrame(rows)).iloc[0]
    assert (row["gain"], row["noise"]) == (0.5, 1.0)
    assert pd.isna(row["effects"])


def test_what_was_touched_on_a_machine(tmp_path):
    machine = read_machine(make_machine(tmp_path))
    assert {name: touched(machine, name) for name in machine.environments} == {
        "t_eye": "eye", "v_meter": "meter", "red_mid": "red", "bent": "blue", "idle": None, "stuck": None,
    }  # fmt: skip


def test_a_machine_from_end_to_end(tmp_path):
    chosen = experiment("nodes", make_machine(tmp_path))
    settings = {**chosen.full, "methods": ["oracle", "sd-ratio", "baro-median"]}
    out = tmp_path / "out"
    files, text = run(chosen, settings, out, jobs=1)
    assert {path.name for path in files} >= {"nodes-chambers.csv", "nodes-chambers-summary.csv"}
    table = pd.read_csv(out / "nodes-chambers.csv")
    assert len(table) == 4 * 3
    assert (table.loc[table["method"] == "oracle", "first"] == 1).all()
    assert "place of the variable that was touched" in text
    for path in files:
        assert "secret-place" not in path.read_text(encoding="utf-8")


def test_a_method_that_gave_up_has_nothing_right():
    rows = {
        "kind": ["range"] * 2, "method": ["m"] * 2, "ac1": [1.0, None], "ac3": [1.0, None], "f1": [0.5, None],
        "false": [0.0, None], "first": [1, None],
    }  # fmt: skip
    summary = summarise_machine(pd.DataFrame(rows))
    assert summary[["kind", "environments", "gave_up", "ac1", "f1"]].values.tolist() == [
        ["all", 2, 1, 0.5, 0.5],
        ["range", 2, 1, 0.5, 0.5],
    ]


def test_a_machine_of_which_nothing_was_touched_is_refused(tmp_path):
    place = make_machine(tmp_path)
    truth = pd.read_csv(place / "truth.csv")
    truth[truth["environment"] == "stuck"].to_csv(place / "truth.csv", index=False)
    with pytest.raises(InputError, match="touches exactly one variable"):
        experiment_for(place)


def test_names_of_methods_are_those_that_rank(tmp_path, capsys):
    assert cli.run(["reproduce", "nodes", "--methods", "dci-c", "--out", str(tmp_path / "out")]) == 2
    assert "no method is called 'dci-c'; there are order, " in capsys.readouterr().err


def test_methods_that_rank_have_styles_and_are_not_in_figure_2():
    assert OTHER not in {style_of(name) for name in all_node_methods()}
    assert set(experiment("figure2").full["methods"]) <= set(all_methods())
