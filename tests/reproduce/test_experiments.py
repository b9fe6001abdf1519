"""Experiments: rows survive anything, tables do not depend on how they came about, figures come from tables."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from diffdag import InputError, Moments, simulate_pair
from diffdag import __main__ as cli
from diffdag._base.journal import Journal
from diffdag.model.simulate import assumption_epsilon
from diffdag.reproduce.experiments import NAMES, NEED_DATA, experiment
from diffdag.reproduce.experiments.charts import summarise
from diffdag.reproduce.experiments.figure4 import half_way
from diffdag.reproduce.experiments.runner import run
from diffdag.reproduce.experiments.trial import crossed, draw_data, draw_pair, try_method
from diffdag.reproduce.methods.method import Method
from diffdag.reproduce.planning import rows_at

SMALL = ["reproduce", "figure2", "--quick", "--pairs", "1", "--methods", "dtrace,oracle,plugin", "--jobs", "1"]


# Many pairs: it does not end before it is stopped. Rows are the same, so that SMALL can take them over.
LONG = ["50" if part == "1" and SMALL[k - 1] == "--pairs" else part for k, part in enumerate(SMALL)]


def reproduce(folder, arguments=LONG):
    return subprocess.Popen(
        [sys.executable, "-m", "diffdag", *arguments, "--out", str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def rows_in(journal):
    return max(0, journal.read_bytes().count(b"\n") - 1) if journal.exists() else 0


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    assert cli.run([*SMALL, "--out", str(folder)]) == 0
    return folder


@pytest.mark.faults
def test_a_killed_run_continues_and_ends_the_same(undisturbed, tmp_path):
    wanted = (undisturbed / "figure2.csv").read_bytes()
    journal = tmp_path / "figure2.journal"
    moments = random.Random(time.time_ns())  # noqa: S311 - a different moment each time, on purpose
    process = reproduce(tmp_path)
    while rows_in(journal) <= 3 and process.poll() is None:
        time.sleep(0.01)
    time.sleep(moments.uniform(0, 0.3))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert rows_in(journal) > 0, "nothing was kept"
    with journal.open("ab") as file:
        file.write(b'{"kind": "filtered", "C": 5, "pai')  # a row in flight
    process = reproduce(tmp_path, SMALL)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert (tmp_path / "figure2.csv").read_bytes() == wanted
    for name in ("figure2-summary.csv", "figure2.svg", "figure2.png"):
        assert (tmp_path / name).read_bytes() == (undisturbed / name).read_bytes()


@pytest.mark.slow
def test_the_number_of_processes_does_not_matter(undisturbed, tmp_path):
    assert cli.run([*SMALL[:-1], "2", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "figure2.csv").read_bytes() == (undisturbed / "figure2.csv").read_bytes()


@pytest.mark.slow
def test_a_finished_run_is_not_done_again(undisturbed):
    before = (undisturbed / "figure2.journal").read_bytes()
    assert cli.run([*SMALL, "--out", str(undisturbed)]) == 0
    assert (undisturbed / "figure2.journal").read_bytes() == before


def test_other_settings_are_refused(undisturbed, capsys):
    assert cli.run([*SMALL, "--seed", "5", "--out", str(undisturbed)]) == 2
    assert "other settings" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_can_grow(undisturbed, tmp_path):
    small = [*SMALL[:4], "1", "--methods", "oracle", "--jobs", "1", "--out", str(tmp_path)]
    assert cli.run(small) == 0
    one = pd.read_csv(tmp_path / "figure2.csv")
    assert set(one["method"]) == {"oracle"}
    assert cli.run([*SMALL, "--out", str(tmp_path)]) == 0
    assert (tmp_path / "figure2.csv").read_bytes() == (undisturbed / "figure2.csv").read_bytes()


def test_outputs_name_no_place_of_this_machine(undisturbed):
    for path in undisturbed.iterdir():
        if path.suffix in {".csv", ".json", ".journal", ".svg"}:
            assert str(Path.home()) not in path.read_text(encoding="utf-8")
            assert str(undisturbed) not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["figure9"], "no experiment is called 'figure9'"),
        (["table1", "--methods", "order"], "'table1' has no --methods"),
        (["figure2", "--methods", "magic"], "no method is called 'magic'"),
        (["figure2", "--data", "somewhere"], "--data is for brain"),
        (["figure2", "--jobs", "0"], "--jobs 0"),
        (["figure2", "--methods", ""], "--methods names none"),
    ],
)
def test_bad_requests(arguments, says, tmp_path, capsys):
    assert cli.run(["reproduce", *arguments, "--out", str(tmp_path / "out")]) == 2
    message = capsys.readouterr().err
    assert says in message
    assert message.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_journal_keeps_whole_rows_only(tmp_path):
    path = tmp_path / "rows.journal"
    with Journal(path, {"size": 1}, ("a",)).open() as journal:
        journal.append({"a": 1, "value": 0.5})
    with path.open("ab") as file:
        file.write(b'{"a": 2, "val')
    with Journal(path, {"size": 1}, ("a",)).open() as journal:
        assert journal.rows == {(1,): {"a": 1, "value": 0.5}}
        journal.append({"a": 2, "value": None})
    assert [json.loads(line) for line in path.read_text().splitlines()[1:]] == [
        {"a": 1, "value": 0.5},
        {"a": 2, "value": None},
    ]


@pytest.mark.skipif(os.name == "nt", reason="no locks there")
def test_two_runs_do_not_write_one_journal(tmp_path):
    path = tmp_path / "rows.journal"
    with (
        Journal(path, {}, ("a",)).open(),
        pytest.raises(InputError, match="another run"),
        Journal(path, {}, ("a",)).open(),
    ):
        pass


@pytest.mark.parametrize(
    "content", ["holiday pictures", "holiday pictures\n", '{"experiment": "x"}\n{"b": 1}\n']
)
def test_a_file_of_another_kind_is_left_alone(tmp_path, content):
    path = tmp_path / "rows.journal"
    path.write_text(content)
    with pytest.raises(InputError, match=r"not a journal"), Journal(path, {}, ("a",)).open():
        pass
    assert path.read_text() == content


@pytest.mark.faults
def test_an_interrupted_run_says_so_and_goes_on(undisturbed, tmp_path):
    process = reproduce(tmp_path, [*LONG[:-1], "2"])
    while rows_in(tmp_path / "figure2.journal") < 3 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "the same command continues" in errors
    assert "Traceback" not in errors
    assert cli.run([*SMALL, "--out", str(tmp_path)]) == 0
    assert (tmp_path / "figure2.csv").read_bytes() == (undisturbed / "figure2.csv").read_bytes()


@pytest.mark.slow
def test_moments_are_drawn_as_if_from_rows():
    sem = simulate_pair(4, neighbours=2, variances=(0.5, 2.0), rng=1).first
    n, draws = 12, 3000
    direct = [sem.sample_moments(n, [1, k]) for k in range(draws)]
    rows = [Moments.from_array(sem.sample(n, [2, k])) for k in range(draws)]
    for one, two in [
        ([m.scatter for m in direct], [m.scatter for m in rows]),
        ([m.mean for m in direct], [m.mean for m in rows]),
        ([np.linalg.slogdet(m.scatter)[1] for m in direct], [np.linalg.slogdet(m.scatter)[1] for m in rows]),
    ]:
        error = np.sqrt((np.var(one, axis=0) + np.var(two, axis=0)) / draws)
        assert np.all(np.abs(np.mean(one, axis=0) - np.mean(two, axis=0)) < 5 * error)
        assert np.allclose(np.std(one, axis=0), np.std(two, axis=0), rtol=0.12)


def test_moments_need_gaussian_noise_and_rows():
    pair = simulate_pair(4, neighbours=2, noise="uniform", rng=1)
    with pytest.raises(InputError, match="Gaussian"):
        pair.first.sample_moments(100)
    with pytest.raises(InputError, match="more rows"):
        simulate_pair(4, neighbours=2, rng=1).first.sample_moments(4)


def test_a_slow_method_leaves_an_empty_cell(monkeypatch):
    def slow(first, second):
        while first.n == 100:  # not when it is warmed up
            sum(range(1000))

    monkeypatch.setattr(
        "diffdag.reproduce.experiments.trial.find_method", lambda name: Method("slow", "", slow)
    )
    pair = draw_pair(5, 2, False, (0,))
    row = try_method("slow", pair, draw_data(pair, 100, [1]), 0.2)
    assert row["f1"] is None
    assert row["why"] == "longer than 0.2 s"
    assert row["seconds"] >= 0.2


def test_what_a_method_raises_is_its_answer(monkeypatch):
    def broken(first, second):
        raise ZeroDivisionError("oh\nno")

    monkeypatch.setattr(
        "diffdag.reproduce.experiments.trial.find_method", lambda name: Method("broken", "", broken)
    )
    pair = draw_pair(5, 2, False, (0,))
    assert try_method("broken", pair, draw_data(pair, 100, [1]), 1)["why"] == "ZeroDivisionError: oh no"


def test_a_method_that_is_not_installed_is_tried_again_later(monkeypatch):
    absent = Method("absent", "", lambda first, second: None, needs="no_such_module")
    monkeypatch.setattr("diffdag.reproduce.experiments.trial.find_method", lambda name: absent)
    pair = draw_pair(5, 2, False, (0,))
    row = try_method("absent", pair, draw_data(pair, 100, [1]), 1)
    assert row["why"] == "needs no_such_module"
    assert row["again"]


def test_filtered_pairs_satisfy_the_assumption():
    assert assumption_epsilon(draw_pair(8, 4, True, (3, 1))) >= 0.1


def test_summary_by_hand():
    values = {"f1": [0.6, 0.5, 0.5, 0.4, None], "exact": [1, 0, 0, 0, None]}
    table = pd.DataFrame({"method": ["m"] * 5, **values})
    row = summarise(table, ["method"], ["f1", "exact"]).iloc[0]
    assert (row["answers"], row["missing"]) == (4, 1)
    # mean 0.5, standard error 0.040825, t(0.975, 3) = 3.18245
    assert row["f1"] == pytest.approx(0.5)
    assert row["f1_low"] == pytest.approx(0.5 - 0.12992, abs=1e-4)
    assert row["f1_high"] == pytest.approx(0.5 + 0.12992, abs=1e-4)
    # Wilson, 1 of 4
    assert row["exact_low"] == pytest.approx(0.0456, abs=1e-3)
    assert row["exact_high"] == pytest.approx(0.6994, abs=1e-3)
    table["f1"] = [1.0, 1.0, 1.0, 0.0, None]
    cut = summarise(table, ["method"], ["f1"]).iloc[0]
    assert (cut["f1_low"], cut["f1_high"]) == (0.0, 1.0)


def test_half_way_of_known_curves():
    rng = np.random.default_rng(0)
    C = np.repeat(np.arange(3, 13), 400)
    rows = []
    for p, middle in ((5, 6.0), (10, 7.0)):
        exact = rng.random(C.size) < 1 / (1 + np.exp(-2 * (C - middle)))
        rows.append(pd.DataFrame({"kind": "all", "method": "m", "p": p, "C": C, "exact": exact.astype(float)}))
    halves = half_way(pd.concat(rows))
    assert halves["C_half"].to_numpy() == pytest.approx([6, 7], abs=0.15)
    assert halves["C_spread"].to_numpy() == pytest.approx([1, 1], abs=0.2)
    assert halves["log_n_spread"].iloc[0] > halves["C_spread"].iloc[0]


def test_cells_are_all_combinations():
    cells = crossed(a="pairs", b="letters", c=[None])({"pairs": 3, "letters": ["x", "y"]})
    assert len(cells) == 6
    assert cells[1] == {"a": 0, "b": "y", "c": None}
    assert rows_at(5, 10) == 341


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NEED_DATA])
def test_every_experiment_has_two_sizes_and_distinct_cells(name):
    chosen = experiment(name)
    for settings in (chosen.full, chosen.quick):
        cells = chosen.cells(settings)
        keys = {tuple(cell[column] for column in chosen.key) for cell in cells}
        assert len(keys) == len(cells) > 0
        json.dumps(dict(settings))
    assert len(chosen.cells(chosen.quick)) <= len(chosen.cells(chosen.full))


def test_table1_is_exact_in_small(tmp_path):
    chosen = experiment("table1")
    settings = {**chosen.quick, "p": [10], "pairs": 3}
    files, text = run(chosen, settings, tmp_path, jobs=1)
    table = pd.read_csv(tmp_path / "table1.csv")
    assert (table["exact"] == 1).all()
    assert "1.0" in text
    assert all(path.exists() for path in files)
