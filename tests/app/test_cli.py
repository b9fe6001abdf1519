import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.main import get_command

from diffdag import __main__ as cli
from diffdag._base.errors import DiffDagWarning
from diffdag.estimator import DifferenceDAG
from diffdag.model.sem import LinearSEM
from diffdag.model.simulate import SEMPair, simulate_pair
from diffdag.tables.readers.files import read_table

RNG = np.random.default_rng(11)
SIMULATE = ["simulate", "--p", "5", "--neighbours", "2", "--samples", "9", "--out", "o"]
GOOD = pd.DataFrame(RNG.standard_normal((60, 3)), columns=["a", "b", "c"])


def text(frame):
    return frame.to_csv(index=False).encode()


def with_cell(value):
    frame = GOOD.astype(object)
    frame.iloc[4, 1] = value
    return text(frame)


BAD = {
    "missing file": (None, "does not exist"),
    "empty file": (b"", "is empty"),
    "header only": (b"a,b,c\n", "has 0 rows"),
    "binary junk": (RNG.bytes(4096), "not UTF-8 text"),
    "ragged rows": (text(GOOD) + b"1,2\n", "line 62 of"),
    "text": (with_cell("oops"), "column 'b' is not numeric ('oops' in line 6 of"),
    "NaN": (with_cell("NaN"), "missing values: 1 in 'b' of '"),
    "empty field": (with_cell(""), "missing values: 1 in 'b' of '"),
    "inf": (with_cell("inf"), "infinite values: 1 in 'b'"),
    "duplicate names": (text(GOOD).replace(b"a,b,c", b"a,b,b"), "'b' appears more than once"),
    "different columns": (text(GOOD).replace(b"a,b,c", b"a,b,d"), "'c' missing in '"),
    "constant columns": (text(GOOD.assign(b=0.1, c=1.0)), "columns 'b' and 'c' are constant in '"),
    "no row": (text(GOOD.iloc[:0]), "has 0 rows of data; at least 3 are needed"),
    "one column": (text(GOOD[["a"]]), "has 1 column to compare; at least 2 are needed"),
    "collinear columns": (
        text(GOOD.assign(c=GOOD["a"] + 2 * GOOD["b"])),
        "columns 'a', 'b' and 'c' are linearly dependent in the second table",
    ),
}


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "good.csv"
    GOOD.to_csv(path, index=False)
    return str(path)


def fails(capsys, arguments, message):
    assert cli.run([str(argument) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("diffdag: error: ")
    assert message in lines[0]


@pytest.mark.parametrize(("content", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line_and_no_files(tmp_path, capsys, good, content, message):
    bad = tmp_path / "bad.csv"
    if content is not None:
        bad.write_bytes(content)
    out = tmp_path / "out"
    fails(capsys, ["fit", good, bad, "--out", out], message)
    assert not out.exists()


def test_two_tables_of_one_column(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("a\n1\n2\n3\n")
    fails(capsys, ["fit", tmp_path / "t.csv", tmp_path / "t.csv"], "has 1 column")


@pytest.mark.parametrize("name", ["missing file", "binary junk", "constant columns", "collinear columns"])
@pytest.mark.slow
def test_a_fresh_process_shows_no_traceback(tmp_path, good, name):
    content, message = BAD[name]
    if content is not None:
        (tmp_path / "bad.csv").write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-m", "diffdag", "fit", good, "bad.csv", "--out", "out"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


USAGE = {
    "no table": (["fit"], "Missing argument"),
    "unknown option": (["fit", "GOOD", "GOOD", "--bogus"], "No such option"),
    "unknown command": (["bogus"], "No such command"),
    "one table": (["fit", "GOOD"], "give two tables"),
    "two tables and groups": (["fit", "GOOD", "GOOD", "--group", "a"], "give two tables"),
    "groups without column": (["fit", "GOOD", "GOOD", "--first", "x"], "with --group"),
    "out is a file": (["fit", "GOOD", "GOOD", "--out", "GOOD"], "is a file"),
    "unknown method": (["fit", "GOOD", "GOOD", "--method", "bogus"], "bogus"),
    "unknown estimator": (["fit", "GOOD", "GOOD", "--estimator", "bogus"], "bogus"),
    "unknown penalty": (["fit", "GOOD", "GOOD", "--method", "paper", "--penalty", "bogus"], "bogus"),
    "unknown missing": (["fit", "GOOD", "GOOD", "--missing", "bogus"], "bogus"),
    "unknown column": (["fit", "GOOD", "GOOD", "--drop", "z"], "'z'"),
    "unknown condition": (["demo", "--condition", "bogus"], "choose one of icam2"),
    "unknown noise": (
        [*SIMULATE, "--noise", "x"],
        "'x'",
    ),
    "both changes": (
        [*SIMULATE, "--change", "0.1", "--changes", "2"],
        "exclude each other",
    ),
    "no result": (["report", "nowhere.json"], "nowhere.json"),
}


@pytest.mark.parametrize(("arguments", "message"), USAGE.values(), ids=USAGE)
def test_wrong_usage_is_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    GOOD.to_csv("good.csv", index=False)
    fails(capsys, ["good.csv" if argument == "GOOD" else argument for argument in arguments], message)
    assert [path.name for path in tmp_path.iterdir()] == ["good.csv"]


PAIR = ["simulate", "--p", "8", "--neighbours", "2", "--samples", "400", "--changes", "2"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    assert cli.run([*PAIR, "--seed", "3", "--out", str(folder)]) == 0
    return folder


def test_simulate_writes_two_tables_and_the_truth(pair, tmp_path, capsys):
    assert sorted(path.name for path in pair.iterdir()) == ["first.csv", "second.csv", "truth.csv"]
    assert read_table(pair / "first.csv").shape == (400, 8)
    truth = pd.read_csv(pair / "truth.csv")
    assert list(truth.columns) == ["source", "target", "weight_first", "weight_second"]
    assert len(truth) == 2
    assert (truth["weight_first"] != truth["weight_second"]).all()
    again = [*PAIR, "--out", str(tmp_path)]
    assert cli.run([*again, "--seed", "3"]) == 0
    assert "2 changed edges" in capsys.readouterr().out
    assert (tmp_path / "second.csv").read_bytes() == (pair / "second.csv").read_bytes()
    assert cli.run([*again, "--seed", "4"]) == 0
    assert (tmp_path / "second.csv").read_bytes() != (pair / "second.csv").read_bytes()


@pytest.mark.parametrize("changes", [0, 3])
def test_simulate_writes_the_truth_without_dense_matrices(changes, tmp_path, monkeypatch):
    drawn = np.random.default_rng(840_302).spawn(3)[0]
    pair = simulate_pair(9, neighbours=2, changes=changes, rng=drawn)
    before, after, names = pair.first.weights, pair.second.weights, pair.first.names
    rows = [
        f"{names[j]},{names[i]},{float(before[i, j])!r},{float(after[i, j])!r}\n"
        for i, j in zip(*np.nonzero(before != after), strict=True)
    ]
    monkeypatch.setattr(LinearSEM, "weights", property(lambda sem: pytest.fail("dense weights")))
    monkeypatch.setattr(SEMPair, "changed", property(lambda pair: pytest.fail("dense changes")))
    options = ["--p", "9", "--neighbours", "2", "--samples", "3", "--changes", str(changes)]
    assert cli.run(["simulate", *options, "--seed", "840302", "--out", str(tmp_path)]) == 0
    assert len(rows) == changes
    header = "source,target,weight_first,weight_second\n"
    assert (tmp_path / "truth.csv").read_bytes() == (header + "".join(rows)).encode()


def test_fit_prints_the_summary_and_writes_nothing(pair, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["fit", str(pair / "first.csv"), str(pair / "second.csv")]) == 0
    assert "edges changed" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_fit_takes_one_row_as_second_table(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 4))
    rows[:, 1] += rows[:, 0]
    paths = [tmp_path / "before.csv", tmp_path / "during.csv"]
    pd.DataFrame(rows, columns=list("abcd")).to_csv(paths[0], index=False)
    pd.DataFrame([[0.0, 9.0, 0.0, 0.0]], columns=list("abcd")).to_csv(paths[1], index=False)
    assert cli.run(["fit", *map(str, paths), "--out", str(tmp_path / "out")]) == 0
    assert "Moved by itself: b" in capsys.readouterr().out
    assert pd.read_csv(tmp_path / "out" / "nodes.csv")["variable"][0] == "b"
    assert cli.run(["fit", *map(str, paths), "--resamples", "50"]) == 2
    assert "leave --resamples out" in capsys.readouterr().err


def test_json_is_the_only_output_and_equals_the_file(pair, tmp_path, capsys):
    tables = [str(pair / "first.csv"), str(pair / "second.csv")]
    assert cli.run(["fit", *tables, "--json", "--out", str(tmp_path / "out")]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "out" / "result.json").read_text())
    assert printed["schema"] == 2
    assert printed["samples"] == {"first": 400, "second": 400}
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["edges.csv", "graph.graphml", "nodes.csv", "report.html", "result.json"]


def test_one_file_in_two_groups_gives_the_same_edges(pair, tmp_path, capsys):
    tables = [
        pd.read_csv(pair / name, dtype=str).assign(g=k)  # every digit stays
        for k, name in enumerate(["first.csv", "second.csv"])
    ]
    pd.concat(tables).to_csv(tmp_path / "both.csv", index=False)
    assert cli.run(["fit", str(pair / "first.csv"), str(pair / "second.csv"), "--json"]) == 0
    apart = json.loads(capsys.readouterr().out)
    options = ["--group", "g", "--first", "0", "--second", "1", "--json"]
    assert cli.run(["fit", str(tmp_path / "both.csv"), *options]) == 0
    assert json.loads(capsys.readouterr().out)["edges"] == apart["edges"]


def test_groups_are_in_alphabetical_order_and_that_is_said(pair, tmp_path, capsys):
    tables = [
        pd.read_csv(pair / "first.csv").assign(g="treated"),
        pd.read_csv(pair / "second.csv").assign(g="control"),
    ]
    for place, order in enumerate((tables, tables[::-1])):
        pd.concat(order).to_csv(tmp_path / f"{place}.csv", index=False)
    said = []
    for place in (0, 1):
        assert cli.run(["fit", str(tmp_path / f"{place}.csv"), "--group", "g"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert "control (400 rows) against treated (400 rows)" in said[0]
    assert "groups are in alphabetical order" in said[0]
    chosen = ["--group", "g", "--first", "treated", "--second", "control"]
    assert cli.run(["fit", str(tmp_path / "0.csv"), *chosen]) == 0
    assert "alphabetical" not in capsys.readouterr().out


def test_columns_and_missing_are_passed_on(tmp_path, capsys, good):
    (tmp_path / "gaps.csv").write_bytes(with_cell("") + b"1,2,3\n")
    arguments = ["fit", good, str(tmp_path / "gaps.csv"), "--missing", "drop", "--columns", "c, b", "--json"]
    assert cli.run(arguments) == 0
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    assert answer["variables"] == ["c", "b"]
    assert answer["samples"] == {"first": 60, "second": 60}
    assert "1 of 61 rows with missing values was dropped from the gaps table" in captured.err


@pytest.mark.slow
def test_demo_prints_the_edges_and_where_the_files_are(tmp_path, capsys):
    assert cli.run(["demo", "--out", str(tmp_path / "demo")]) == 0
    printed = capsys.readouterr().out
    assert "+U0126 (inhibits Mek)" in printed
    assert str(tmp_path / "demo" / "report.html") in printed
    page = (tmp_path / "demo" / "report.html").read_text()
    (tmp_path / "demo" / "report.html").unlink()
    assert cli.run(["report", str(tmp_path / "demo" / "result.json")]) == 0
    assert (tmp_path / "demo" / "report.html").read_text() == page


def test_unwritable_folder_is_one_line(pair, capsys):
    arguments = ["simulate", "--p", "4", "--neighbours", "1", "--samples", "5", "--out", "/dev/null/out"]
    fails(capsys, arguments, "check the path")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="a folder that takes no files, not even of root")
@pytest.mark.parametrize("out", ["/proc/out", "/proc/out/deep", "x" * 300])
def test_a_folder_that_takes_no_files_is_refused_before_the_work(pair, capsys, monkeypatch, out):
    def never(*_, **__):
        raise AssertionError("worked out in vain")

    monkeypatch.setattr("diffdag.estimator.DifferenceDAG.fit", never)
    tables = [pair / "first.csv", pair / "second.csv"]
    fails(
        capsys, ["fit", *tables, "--out", out], f"{out}': " if len(out) == 300 else "can be written to '/proc'"
    )


def test_interruption_is_130(monkeypatch, capsys):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("diffdag.app.cli.simulate.check_folder", interrupt)
    assert cli.run(SIMULATE) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_programming_error_is_not_hidden(monkeypatch):
    def fail(*_, **__):
        raise ValueError("a slip of ours")

    monkeypatch.setattr("diffdag.app.cli.simulate.check_folder", fail)
    with pytest.raises(ValueError, match="a slip of ours"):
        cli.run(SIMULATE)


def test_own_warnings_are_lines(monkeypatch, capsys):
    def warn(*_, **__):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("tables are small", DiffDagWarning, stacklevel=1)
        raise KeyboardInterrupt

    monkeypatch.setattr("diffdag.app.cli.simulate.check_folder", warn)
    cli.run(SIMULATE)
    assert "diffdag: warning: tables are small" in capsys.readouterr().err.splitlines()


def test_help_is_quick_and_names_the_commands():
    probe = "import sys; from diffdag.__main__ import run; run(['--help']); sys.exit('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    assert done.returncode == 0, "--help loads numpy"
    assert all(
        command in done.stdout
        for command in ("demo", "fit", "simulate", "report", "compare", "reproduce", "plan")
    )


def test_fit_has_an_option_for_every_parameter():
    parameters = {{"rng": "seed", "n_jobs": "jobs"}.get(name, name) for name in DifferenceDAG().get_params()}
    known = {option.name for option in get_command(cli.commands()).commands["fit"].params}
    assert parameters - known == set()


# What is known beforehand, and rows that count for less


def test_tiers_settle_directions(pair, tmp_path, capsys):
    names = list(read_table(pair / "first.csv").column_names)
    tiers = tmp_path / "tiers.txt"
    tiers.write_text("# causes first\n" + "\n".join(reversed(names)))
    assert (
        cli.run(["fit", str(pair / "first.csv"), str(pair / "second.csv"), "--tiers", str(tiers), "--json"])
        == 0
    )
    by_tiers = json.loads(capsys.readouterr().out)
    assert by_tiers["settings"]["search_order"] == names[::-1]
    order = ["--order", ",".join(reversed(names))]
    assert cli.run(["fit", str(pair / "first.csv"), str(pair / "second.csv"), *order, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["edges"] == by_tiers["edges"]


def test_directions_that_contradict_each_other_are_one_line(capsys, good):
    fails(capsys, ["fit", good, good, "--required", "a->b", "--forbidden", "a -> b"], "contradict each other")
    fails(capsys, ["fit", good, good, "--required", "a->z"], "'z'")
    fails(capsys, ["fit", good, good, "--tiers", good + ".no"], "does not exist")
    fails(capsys, ["fit", good, good, "--effective-samples", "few"], "--effective-samples 'few'")
    fails(capsys, ["fit", good, good, "--covariance", "best"], "covariance must be one of sample")


@pytest.mark.parametrize("rows", ["20", "20,30", "auto"])
def test_rows_that_count_for_less_are_noted(capsys, good, rows):
    arguments = ["fit", good, good, "--effective-samples", rows, "--covariance", "winsorised", "--json"]
    assert cli.run(arguments) == 0
    samples = json.loads(capsys.readouterr().out)["samples"]
    expected = {"20": (20, 20), "20,30": (20, 30)}
    assert tuple(samples.values()) == expected.get(rows, tuple(samples.values()))
    assert max(samples.values()) <= 60


def test_a_brain_view_from_the_places_of_some_regions(pair, tmp_path, capsys):
    regions = tmp_path / "regions.csv"
    regions.write_text("region,x,y,z\n" + "".join(f"X{k},{10 * k - 40},{-5 * k},3\n" for k in range(1, 9)))
    tables = [str(pair / "first.csv"), str(pair / "second.csv")]
    out = tmp_path / "out"
    assert cli.run(["fit", *tables, "--coordinates", str(regions), "--out", str(out)]) == 0
    assert "seen from above" in (out / "report.html").read_text(encoding="utf-8")
    assert cli.run(["report", str(out)]) == 0
    assert "seen from above" not in (out / "report.html").read_text(encoding="utf-8")
    assert cli.run(["report", str(out), "--coordinates", str(regions)]) == 0
    assert "seen from above" in (out / "report.html").read_text(encoding="utf-8")
    capsys.readouterr()
    regions.write_text("region,x,y,z\nV1,1,2,3\n")
    assert cli.run(["fit", *tables, "--coordinates", str(regions), "--out", str(tmp_path / "other")]) == 2
    assert "names none of the columns" in capsys.readouterr().err
    assert cli.run(["fit", *tables, "--coordinates", str(regions)]) == 2
    assert "say where the report goes with --out" in capsys.readouterr().err


def test_a_brain_that_nothing_can_draw_is_refused_before_the_fit(pair, tmp_path, capsys, monkeypatch):
    regions = tmp_path / "regions.csv"
    regions.write_text("region,x,y,z\nX1,1,2,3\n")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    out = tmp_path / "out"
    tables = [str(pair / "first.csv"), str(pair / "second.csv")]
    assert cli.run(["fit", *tables, "--coordinates", str(regions), "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert "matplotlib, which draws --coordinates, is not installed; pip install 'diffdag[plots]'" in said
    assert not out.exists()


def test_an_answer_is_delivered_though_its_regions_have_no_place(pair, tmp_path, capsys):
    tables = [str(pair / "first.csv"), str(pair / "second.csv")]
    assert cli.run(["fit", *tables, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    changed = {end for edge in answer["edges"] for end in (edge["source"], edge["target"])}
    still = next(name for name in answer["variables"] if name not in changed)
    regions = tmp_path / "regions.csv"
    regions.write_text(f"region,x,y,z\n{still},1,2,3\n")
    assert cli.run(["fit", *tables, "--coordinates", str(regions), "--out", str(tmp_path / "out")]) == 0
    assert "coordinates have nothing for" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
