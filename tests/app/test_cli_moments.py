"""The command `moments`, and moments, folders and patterns where a command takes two tables."""

import json

import numpy as np
import pandas as pd
import pytest

from diffdag import Moments, simulate_pair
from diffdag import __main__ as cli

PAIR = simulate_pair(p=4, neighbours=2, changes=1, weights=(0.8, 1.0), rng=840020)
TABLES = {
    side: pd.DataFrame(sem.sample(900, rng=840021 + k), columns=PAIR.first.names)
    for k, (side, sem) in enumerate([("first", PAIR.first), ("second", PAIR.second)])
}
GAPS = TABLES["first"].copy()
GAPS.iloc[:5, 2] = np.nan
A, B, C, D = PAIR.first.names


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Each table as one CSV, a folder of Parquet files, and moments."""
    monkeypatch.chdir(tmp_path)
    for side, table in TABLES.items():
        table.to_csv(f"{side}.csv", index=False)
        (tmp_path / side).mkdir()
        for k in range(3):
            table.iloc[300 * k : 300 * (k + 1)].to_parquet(tmp_path / side / f"{k}.parquet")
        Moments.from_array(table.to_numpy(), list(table.columns)).save(f"{side}.npz")
    return tmp_path


def run(capsys, *arguments):
    code = cli.run([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def fails(capsys, message, *arguments):
    code, out, error = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert len(error.splitlines()) == 1
    assert message in error


def answer(capsys, *arguments):
    code, out, error = run(capsys, *arguments, "--json")
    assert code == 0, error
    found = json.loads(out)
    return found["variables"], found["samples"], [(e["source"], e["target"]) for e in found["edges"]]


@pytest.mark.parametrize(
    "files", [["first"], ["first.csv"], ["first/*.parquet"], ["first/0.parquet", "first/1.parquet"]]
)
def test_files_are_reduced(folder, capsys, files):
    code, out, error = run(capsys, "moments", *files, "--out", "m.npz")
    assert (code, error) == (0, "")
    rows = 600 if len(files) == 2 else 900
    assert out == f"{rows} rows, 4 variables\nWritten:\n  m.npz\n"
    expected = Moments.from_array(TABLES["first"].to_numpy()[:rows], list(TABLES["first"].columns))
    moments = Moments.load("m.npz")
    assert (moments.names, moments.n) == (expected.names, rows)
    np.testing.assert_allclose(moments.scatter, expected.scatter, rtol=1e-10, atol=1e-10)


def test_columns_and_rows_can_be_left_out(folder, capsys):
    GAPS.to_csv("gaps.csv", index=False)
    code, _, error = run(capsys, "moments", "gaps.csv", "--out", "m.npz", "--drop", B, "--missing", "drop")
    assert code == 0
    assert error == "diffdag: note: 5 of 900 rows with missing values were dropped\n"
    assert Moments.load("m.npz").names == (A, C, D)
    run(capsys, "moments", "first.csv", "--out", "m.npz", "--columns", f"{D},{A}")
    assert Moments.load("m.npz").names == (D, A)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone.csv", "--out", "m.npz"], "'gone.csv' does not exist"),
        (["first.csv"], "Missing option '--out'"),
        (["--out", "m.npz"], "Missing argument"),
        (["first.csv", "--out", "m.csv"], "ends in .npz"),
        (["first.csv", "--out", "no/m.npz"], "its folder does not exist"),
        (["first.npz", "--out", "m.npz"], "cannot be read row by row"),
        (["first.csv", "--out", "m.npz", "--missing", "fill"], "--missing fill is not known"),
        (["first.csv", "--out", "m.npz", "--columns", "q"], "names 'q'"),
    ],
)
def test_what_moments_refuses(folder, capsys, arguments, message):
    fails(capsys, message, "moments", *arguments)
    assert not (folder / "m.npz").exists()


@pytest.mark.parametrize(
    "pair",
    [
        ("first.npz", "second.npz"),
        ("first", "second"),
        ("first/*.parquet", "second/*.parquet"),
        ("first", "second.npz"),
        ("first", "second.csv"),
    ],
)
def test_moments_folders_and_patterns_give_the_answer_of_the_tables(folder, capsys, pair):
    expected = answer(capsys, "fit", "first.csv", "second.csv")
    assert len(expected[2]) >= 1
    assert answer(capsys, "fit", *pair) == expected


@pytest.mark.parametrize("pair", [("first.npz", "second.npz"), ("first", "second")])
def test_compare_reads_moments_too(folder, capsys, pair):
    arguments = ("--methods", "dtrace,plugin", "--drop", B, "--json")
    found, expected = (
        json.loads(run(capsys, "compare", *files, *arguments)[1])
        for files in (pair, ("first.csv", "second.csv"))
    )
    assert found["variables"] == expected["variables"] == [A, C, D]
    assert found["edges"] == expected["edges"]


@pytest.mark.parametrize("pair", [("first.npz", "second.npz"), ("first", "second"), ("first", "second.npz")])
def test_columns_of_moments_can_be_chosen(folder, capsys, pair):
    assert answer(capsys, "fit", *pair, "--columns", f"{C},{A}")[0] == [C, A]
    assert answer(capsys, "fit", *pair, "--drop", B)[0] == [A, C, D]
    fails(capsys, "names 'q'", "fit", *pair, "--columns", f"{A},q")


@pytest.mark.parametrize("pair", [("first", "second.npz"), ("first.npz", "second")])
def test_a_text_column_of_a_folder_is_dropped_beside_moments(folder, capsys, pair):
    for side, table in TABLES.items():
        for k, file in enumerate(sorted((folder / side).iterdir())):
            table.iloc[300 * k : 300 * (k + 1)].assign(id="x").to_parquet(file)
    expected = answer(capsys, "fit", "first.csv", "second.csv", "--drop", B)
    assert answer(capsys, "fit", *pair, "--drop", f"id,{B}") == expected
    assert answer(capsys, "fit", *pair, "--columns", f"{A},{C},{D}") == expected
    fails(capsys, "--drop names 'q'", "fit", *pair, "--drop", "id,q")


def test_what_only_the_moments_have_can_be_dropped(folder, capsys):
    expected = answer(capsys, "fit", "first.csv", "second.csv", "--drop", B)
    for file in (folder / "first").iterdir():
        pd.read_parquet(file).drop(columns=B).to_parquet(file)
    assert answer(capsys, "fit", "first", "second.npz", "--drop", B) == expected
    fails(capsys, "--drop names 'q'", "fit", "first.npz", "second.npz", "--drop", "q")


def test_a_pattern_may_be_in_the_name_of_a_folder(folder, capsys):
    expected = answer(capsys, "fit", "first.csv", "second.csv")
    for side in TABLES:
        for file in (folder / side).iterdir():
            (folder / f"{side}-{file.stem}").mkdir()
            file.rename(folder / f"{side}-{file.stem}" / "table.parquet")
    assert answer(capsys, "fit", "first-?/table.parquet", "second-[0-2]/table.parquet") == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["first.npz", "second.csv"], "'first.npz' holds moments and 'second.csv' is a table"),
        (["first.csv", "second.npz"], "'second.npz' holds moments and 'first.csv' is a table"),
        (["first.npz", "second.npz", "--covariance", "spearman"], "--covariance acts on rows"),
        (["first", "second", "--effective-samples", "auto"], "--effective-samples acts on rows"),
        (["first.npz", "second.npz", "--missing", "drop"], "--missing acts on rows"),
        (["first.npz", "--group", A], "--group splits the rows of one table"),
        (["first", "--group", A], "--group splits the rows of one table"),
        (["none/*.parquet", "second"], "no file matches 'none/*.parquet'"),
        (["first.npz", "gone.npz"], "'gone.npz' does not exist"),
    ],
)
def test_what_does_not_go_with_moments(folder, capsys, arguments, message):
    fails(capsys, message, "fit", *arguments)


def test_missing_rows_of_a_folder_are_dropped_with_a_note(folder, capsys):
    GAPS.to_csv(folder / "first" / "more.csv", index=False)
    fails(capsys, "missing value of", "fit", "first", "second")
    code, out, error = run(capsys, "fit", "first", "second", "--missing", "drop", "--json")
    assert code == 0
    assert json.loads(out)["samples"]["first"] == 900 + 895
    assert "note: 5 of 1800 rows with missing values were dropped" in error
    assert run(capsys, "path", "first", "second", "--missing", "drop", "--penalties", "2")[0] == 0


def test_an_npz_with_a_table_is_still_a_table(folder, capsys):
    for side, table in TABLES.items():
        np.savez(f"{side}-table.npz", values=table.to_numpy(), names=list(table.columns))
    expected = answer(capsys, "fit", "first.csv", "second.csv")
    assert answer(capsys, "fit", "first-table.npz", "second-table.npz") == expected


# Covariates


@pytest.fixture
def adjusted(folder, capsys):
    """The tables with covariates, as CSV files, folders of Parquet files, and moments."""
    rng = np.random.default_rng(840022)
    for k, (side, table) in enumerate(TABLES.items()):
        age, batch = rng.normal(50 + 5 * k, 10, 900), rng.choice(list("abc"), 900)
        moved = table.add(0.1 * age + (batch == "b"), axis=0).assign(age=age, batch=batch, donor="d")
        moved.to_csv(f"{side}.csv", index=False)
        for file in range(3):
            moved.iloc[300 * file : 300 * (file + 1)].to_parquet(folder / side / f"{file}.parquet")
        arguments = (side, "--drop", "donor", "--adjust", "age,batch", "--out", f"{side}.npz")
        code, out, error = run(capsys, "moments", *arguments)
        assert (code, error) == (0, "")
        assert out.startswith("900 rows, 4 variables, 2 covariates\n")
    return folder


@pytest.mark.parametrize(
    ("pair", "drop"),
    [
        (("first.npz", "second.npz"), ""),
        (("first", "second/*.parquet"), "donor"),
        (("first", "second.npz"), "donor"),
        (("first.npz", "second.npz"), B),
        (("first.npz", "second"), f"donor,{B}"),
    ],
)
def test_covariates_are_taken_out_of_moments_and_folders(adjusted, capsys, pair, drop):
    arguments = ("--adjust", "age,batch", *(("--drop", drop) if drop else ()))
    left = (A, C, D) if B in drop else (A, B, C, D)
    expected = answer(
        capsys, "fit", "first.csv", "second.csv", "--columns", ",".join(left), "--adjust", "age,batch"
    )
    assert answer(capsys, "fit", *pair, *arguments) == expected
    assert expected[:2] == (list(left), {"first": 900, "second": 900})
    code, out, _ = run(capsys, "fit", *pair, *arguments, "--columns", f"{C},{A},batch", "--json")
    assert (code, json.loads(out)["variables"]) == (0, [C, A])
    assert json.loads(out)["settings"]["adjust"] == ["age", "batch"]


def test_paths_and_comparisons_of_moments_with_covariates(adjusted, capsys):
    code, out, _ = run(capsys, "path", "first.npz", "second.npz", "--adjust", "age,batch", "--penalties", "1,2")
    assert code == 0
    assert "batch" not in out
    code, out, _ = run(
        capsys, "compare", "first.npz", "second.npz", "--drop", "age,batch", "--methods", "plugin", "--json"
    )
    assert (code, json.loads(out)["variables"]) == (0, [A, B, C, D])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["fit", "first.npz", "second.npz", "--cluster", "donor"],
            "--cluster acts on rows, and only moments are",
        ),
        (
            ["fit", "first", "second", "--cluster", "donor"],
            "--cluster acts on rows, and only moments are known",
        ),
        (
            ["path", "first", "second", "--cluster", "donor"],
            "--cluster acts on rows, and only moments are known",
        ),
        (
            ["fit", "first", "second", "--missing", "em"],
            "read tables whole, or drop rows with gaps with --missing drop",
        ),
        (["fit", "first.npz", "second.npz", "--missing", "em"], "--missing acts on rows"),
        (
            ["fit", "first.npz", "second.npz"],
            "'batch' is a category, no variable; leave it out with --drop batch",
        ),
        (["compare", "first.npz", "second.npz"], "'batch' is a category, no variable"),
        (["fit", "first.npz", "second.npz", "--adjust", "dose"], "--adjust names 'dose', which no table has"),
        (["fit", "first", "second", "--adjust", "dose"], "--adjust names 'dose', which no table has"),
        (["moments", "first", "--out", "m.npz", "--adjust", "dose"], "--adjust names 'dose'"),
        (
            ["moments", "first", "--out", "m.npz", "--missing", "em"],
            "--missing em needs all rows at once",
        ),
    ],
)
def test_what_does_not_go_with_covariates_of_moments(adjusted, capsys, arguments, message):
    fails(capsys, message, *arguments)
