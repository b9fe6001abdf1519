"""The benchmark suite runs at small sizes, measures what it says, and records it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog
from studies import ROOT, benchmark_modules

import diffdag as dd
from diffdag.precision.problem import standardise

NAMES = (
    "admm", "cells", "contest", "core_fuzz", "core_lines", "growth", "measure", "peers", "record",
    "scale", "tables",
)  # fmt: skip
TINY = {
    "p": (20, 40),
    "n": (1000,),
    "p_middle": 20,
    "changes": (2,),
    "lp_p": (5,),
    "admm": ((15, 1, 1.0),),
    "lasso_p": (15,),
    "order_p": (5, 6),
    "order_middle": 5,
    "graphs_p": 8,
    "sets": 1,
    "sets_large": 1,
}


@pytest.fixture(scope="module")
def suite():
    """The modules of the folder, which import each other by their plain names."""
    with benchmark_modules(NAMES) as found:
        yield found


@pytest.fixture
def results(suite, tmp_path, monkeypatch):
    monkeypatch.setattr(suite["record"], "RESULTS", tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def problem():
    pair = dd.simulate_pair(6, neighbours=2, changes=2, rng=840_100)
    moments = [dd.Moments.from_array(model.sample(500, 840_100)) for model in (pair.first, pair.second)]
    problem = standardise(*moments)
    return replace(problem, penalty=0.3 * problem.penalty_max)


def test_a_table_is_printed_and_kept(suite, results, capsys):
    rows = [["a", 1 / 3, np.int64(2), None], ["b", 12345.678, 3, True]]
    suite["record"].print_table(
        "Title", ["name", "x", "k", "y"], rows, section="s", settings={"q": 1}, name="t"
    )
    assert "| a | 0.333 | 2 |  |\n| b | 12346 | 3 | True |" in capsys.readouterr().out
    (entry,) = suite["record"].kept(results / "t.jsonl")
    assert entry["rows"] == [["a", 0.333333, 2, None], ["b", 12345.7, 3, True]]
    assert {"date", "commit", "machine", "title"} <= set(entry)
    assert (entry["section"], entry["settings"]) == ("s", {"q": 1})


def test_a_line_that_was_cut_off_costs_no_other(suite, tmp_path):
    path = tmp_path / "t.jsonl"
    suite["record"].keep(path, {"run": 1})
    path.write_text(path.read_text(encoding="utf-8") + '{"run": 2, "rows": [[', encoding="utf-8")
    suite["record"].keep(path, {"run": 3})
    assert [entry["run"] for entry in suite["record"].kept(path)] == [1, 3]


def test_arguments_are_kept_without_folders_of_this_machine(suite, results, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(results / "some.py"), "--folder", str(results), "--gib=3"])
    suite["record"].print_table("Title", ["x"], [[1]])
    (entry,) = suite["record"].kept(results / "some.jsonl")
    assert entry["settings"] == {"arguments": ["--folder", results.name, "--gib=3"]}


def test_exponent_of_a_power(suite):
    x = np.array([10, 20, 50, 100])
    slope, error = suite["measure"].exponent(x, 3 * x**2.3)
    assert slope == pytest.approx(2.3)
    assert error == pytest.approx(0, abs=1e-9)
    assert suite["measure"].exponent([1, 2], [1, 4]) == (pytest.approx(2), None)


def test_the_full_programme_and_ours_agree(suite, problem):
    optimum = suite["peers"].full_programme(problem.sigma1, problem.sigma2, problem.penalty)
    assert suite["admm"].run(
        "dantzig", problem.sigma1, problem.sigma2, problem.penalty, optimum, limit=20
    )[-1].error <= 1e-6  # fmt: skip
    # The same programme written entry by entry, without the Kronecker product.
    p = len(problem.sigma1)
    rows = np.einsum("ik,lj->ijkl", problem.sigma1, problem.sigma2).reshape(p * p, p * p)
    split, target = np.hstack([rows, -rows]), problem.target.ravel()
    answer = linprog(
        np.ones(2 * p * p),
        A_ub=np.vstack([split, -split]),
        b_ub=np.concatenate([problem.penalty + target, problem.penalty - target]),
    )
    assert optimum == pytest.approx(answer.fun, rel=1e-9)


def test_admm_of_dtrace_meets_the_optimality_conditions(suite, problem):
    pair = problem.sigma1, problem.sigma2
    steps, objective = suite["admm"].METHODS["dtrace"]
    delta = next(iterates[0] for k, iterates in steps(*pair, problem.penalty) if k >= 3000)
    image = pair[0] @ delta @ pair[1]
    gradient = image - problem.target
    assert np.abs(gradient).max() <= problem.penalty * (1 + 1e-6)
    on = delta != 0
    assert on.any()
    np.testing.assert_allclose(gradient[on], -problem.penalty * np.sign(delta[on]), atol=1e-7)
    optimum = objective(delta, image, problem.target, problem.penalty)
    reached = suite["admm"].run("dtrace", *pair, problem.penalty, optimum, limit=20)
    assert [state.error <= level for state, level in zip(reached, (1e-3, 1e-6), strict=True)] == [True, True]


def test_admm_stops_at_its_limit(suite, problem):
    (state,) = suite["admm"].run(
        "dantzig", problem.sigma1, problem.sigma2, problem.penalty, 1.0, levels=(0.0,), limit=0.0
    )
    assert state.iterations == suite["admm"].LOOK_EVERY
    assert state.error > 0


def test_best_threshold(suite):
    truth = np.zeros((3, 3), bool)
    truth[0, 1] = truth[1, 0] = True
    matrix = np.array([[9, 2, 0.1], [1, 9, 0.2], [0.1, 0, 9]])
    assert suite["peers"].best_f1(truth, matrix) == 1
    assert suite["peers"].support_f1(truth, matrix) == 0.5
    assert suite["peers"].best_f1(truth, np.zeros((3, 3))) == 0


def test_as_many_edges_added_as_deleted(suite):
    pair = suite["peers"].balanced_pair(30, 6, 0.05, np.random.default_rng(840_200))
    before, after = pair.first.weights != 0, pair.second.weights != 0
    deleted, added = (before & ~after).sum(), (after & ~before).sum()
    assert deleted == added == round(0.05 * before.sum())
    assert len(pair.order) == 30  # an error if there were a cycle
    both = before & after
    assert (pair.first.weights[both] == pair.second.weights[both]).all()


@pytest.mark.slow
def test_a_cell_has_a_process_of_its_own(suite, capsys):
    run_cell = suite["measure"].run_cell
    cell = {"p": 12, "n": 200, "changes": 2, "method": "dtrace", "sets": 2, "seed": 840_400}
    rows, why = run_cell("precision", 120, **cell)
    assert ([row["k"] for row in rows], why) == ([0, 1], "")
    for row in rows:
        assert max(row["violation"], row["gap"]) <= 1e-6
        assert row["memory"] is None or 0.02 < row["memory"] < 1
    assert run_cell("precision", 0.01, **cell) == ([], "stopped after 0.01 s")
    rows, why = run_cell("precision", 60, p=10)
    assert rows == []
    assert "missing" in why
    assert "missing" in capsys.readouterr().err


@pytest.fixture
def in_this_process(suite, monkeypatch):
    """Cells without starting processes and without warming up."""

    def run_cell(kind, timeout, /, **settings):
        work = getattr(suite["cells"], kind, None) or getattr(suite["peers"], kind)
        return list(work(**settings)), ""

    monkeypatch.setattr(suite["tables"], "run_cell", run_cell)
    for module in ("measure", "peers"):
        for name in ("warm_up", "warm_up_fit"):
            monkeypatch.setattr(suite[module], name, lambda *_: None)


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.slow
def test_sections_run_and_are_recorded(suite, results, capsys):
    size = replace(suite["tables"].QUICK, **TINY)
    for name in suite["scale"].SECTIONS:
        suite["scale"].run_section(name, size, 840_300)
    runs = {entry["section"]: entry for entry in suite["record"].kept(results / "scale.jsonl")}
    assert set(suite["scale"].SECTIONS) <= set(runs)
    for entry in runs.values():
        assert entry["settings"]["quick"]
        assert all(len(row) == len(entry["columns"]) for row in entry["rows"])
    table = [dict(zip(runs["p"]["columns"], row, strict=True)) for row in runs["p"]["rows"]]
    assert [(row["method"], row["p"]) for row in table] == [
        (method, p) for method in ("dantzig", "dtrace") for p in (20, 40)
    ]
    for row in table:
        assert row["certified to 1e-6"] == "1 of 1"
        assert row["time / floor"] == pytest.approx(row["time (s)"] / row["floor (s)"], rel=1e-4)
    assert runs["lp"]["rows"][0][5] < 1e-6
    assert "| dantzig | 20 |" in capsys.readouterr().out


# The compiled code


def test_figures_of_a_fuzzer_are_read_from_its_last_line(suite):
    log = (
        "INFO: Seed: 1\n#2\tINITED cov: 140 ft: 141 corp: 1/1b exec/s: 0 rss: 31Mb\n"
        "#37\tNEW    cov: 1723 ft: 8857 corp: 74/59Kb lim: 512 exec/s: 104 rss: 94Mb L: 79/453 MS: 2 X-\n"
        "#4000\tDONE   cov: 1790 ft: 9001 corp: 80/60Kb lim: 512 exec/s: 200 rss: 95Mb\nDone 4000 runs\n"
    )
    assert suite["core_fuzz"].figures(log) == [4000, 80, 1790, 9001]
    broken = log.partition("#4000")[0] + "ERROR: AddressSanitizer"
    assert suite["core_fuzz"].figures(broken) == [37, 74, 1723, 8857]


def test_lines_count_as_reached_if_one_instance_was(suite):
    lines = [{"line_number": n, "count": c} for n, c in [(3, 0), (3, 2), (4, 0), (5, 0), (7, 0), (8, 1)]]
    again = [{"line_number": 7, "count": 0}, {"line_number": 4, "count": 9}]
    units = [
        {"files": [{"file": "/a/src/diffdag/x/a.h", "lines": lines}, {"file": "/usr/b.h", "lines": lines}]},
        {"files": [{"file": "src/diffdag/x/a.h", "lines": again}]},
    ]
    module = suite["core_lines"]
    assert module.rows(module.merged(units)) == [["x/a.h", 5, 3, 60.0, "5, 7"], ["all", 5, 3, 60.0, ""]]
    assert module.runs([9, 1, 2, 3, 5]) == "1-3, 5, 9"


@pytest.fixture(scope="module")
def harness(suite, tmp_path_factory):
    """What the fuzzer runs, with sanitizers, fed with random bytes."""
    program = tmp_path_factory.mktemp("core") / "harness"
    sources = [*suite["core_fuzz"].SOURCES, "benchmarks/core_fuzz/random_bytes.cpp"]
    options = [
        "-std=c++17",
        "-D_GLIBCXX_ASSERTIONS",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
    ]
    built = subprocess.run(["c++", *options, *sources, "-o", program], cwd=ROOT, check=False)
    if built.returncode:
        pytest.skip("the compiler has no sanitizers")
    return program


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None, reason="no compiler")
def test_random_bytes_do_not_break_the_compiled_code(suite, harness):
    """A bounded set of what benchmarks/core_fuzz.py does."""
    for target in suite["core_fuzz"].TARGETS:
        done = subprocess.run(
            [harness, "970001", "300"],
            env=os.environ | {"DIFFDAG_TARGET": target},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{target}: {done.stderr[-2000:]}"
    unknown = subprocess.run([harness, "1", "1"], env={"DIFFDAG_TARGET": "x"}, capture_output=True, check=False)
    assert unknown.returncode == 2
    assert unknown.stderr.decode().split("one of ")[1].split() == list(suite["core_fuzz"].TARGETS)
