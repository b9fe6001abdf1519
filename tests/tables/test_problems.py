"""All that is wrong with two tables is said in one error, with places and with what to type."""

import pickle
import shlex
import time

import numpy as np
import pandas as pd
import pytest

from diffdag import __main__ as cli
from diffdag._base.errors import InputError
from diffdag._base.words import Option, option_words, spell, using
from diffdag.app.cli.app import split_names
from diffdag.app.serve.preview import preview_tables
from diffdag.tables.align import align_tables
from diffdag.tables.groups import split_groups
from diffdag.tables.readers.files import read_table

RNG = np.random.default_rng(9)
SOUND = [pd.DataFrame(RNG.standard_normal((30, 3)), columns=["x", "y", "z"]) for _ in range(2)]


def spoiled(frame):
    frame = frame.assign(day="2024-03-01", gain=1.5, copy=2 * frame["x"])
    frame.insert(0, "Sample ID", [f"S{k}" for k in range(30)])
    frame.loc[4, "z"] = np.nan
    return frame


def error_of(*tables, **options):
    with pytest.raises(InputError) as caught:
        align_tables(*tables, **options)
    error = caught.value
    for audience in ("python", "shell", "page"):
        assert "\n" not in error.words(audience)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - as it goes from one process to another
    assert (str(again), again.problems) == (str(error), error.problems)
    return error


def message_of(*tables, **options):
    return str(error_of(*tables, **options))


def kinds_of(*tables, **options):
    return [problem.kind for problem in error_of(*tables, **options).problems]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for frame, name in zip(SOUND, ("chow.csv", "normal.csv"), strict=True):
        spoiled(frame).to_csv(name, index=False)
    return tmp_path


def test_everything_is_said_at_once():
    error = error_of(spoiled(SOUND[0]), spoiled(SOUND[1]).assign(extra=1.0))
    kinds = [problem.kind for problem in error.problems]
    assert kinds == ["unmatched", "missing", "dependent"]  # all else is left out, with a note
    assert [problem.columns for problem in error.problems] == [("extra",), ("z",), ("x", "copy")]
    remedies = [problem.remedies for problem in error.problems]
    assert remedies == [
        (Option("drop", ("extra",)),),
        (Option("missing", "drop"), Option("missing", "em")),
        (Option("drop", ("copy",)),),
    ]
    found = (
        "3 things are in the way: the two tables have different columns: 'extra' missing in the first table; "
        "missing values: 1 in 'z' of the first table and 1 in 'z' of the second table; "
        "columns 'x' and 'copy' are linearly dependent in both tables; "
    )
    rows = "leave out rows with missing values (1 of 30 and 1 of 30 rows)"
    assert str(error) == (
        f"{found}leave columns out with drop=['extra', 'copy']; {rows} with missing='drop', or use what was "
        "observed with missing='em'"
    )
    assert error.words("shell") == (
        f"{found}leave columns out with --drop extra,copy; {rows} with --missing drop, or use what was "
        "observed with --missing em"
    )
    assert error.words("page") == (
        f"{found}leave columns out (under Checks); {rows} (under Checks), or use what was observed "
        "(under Checks)"
    )


def test_what_was_asked_for_by_name_is_refused():
    error = error_of(
        spoiled(SOUND[0]).assign(row=range(30), late=np.arange(30) + 1.7e9),
        spoiled(SOUND[1]).assign(row=range(30), late=np.arange(30) + 1.8e9),
        columns=["Sample ID", "day", "gain", "row", "late", "x", "y"],
    )
    kinds = [problem.kind for problem in error.problems]
    assert kinds == ["text", "dates", "constant", "counter", "time"]
    found = (
        "5 things are in the way: column 'Sample ID' is not numeric in both tables ('S0' in row 1 of 'Sample "
        "ID' in the first table); column 'day' holds dates in both tables ('2024-03-01' in row 1 of 'day' in "
        "the first table); column 'gain' is constant in both tables; column 'row' counts rows; column 'late' "
        "holds the time of each row; leave columns out with "
    )
    assert str(error) == f"{found}drop=['Sample ID', 'day', 'gain', 'row', 'late']"
    assert error.words("shell") == f"{found}--drop 'Sample ID,day,gain,row,late'"


# What is wrong, the kind of problem, and the message: as in Python, on the command line, on the page.
FRAME = SOUND[0]
GOLDEN = {
    "text": (
        FRAME.assign(x="low"),
        "column 'x' is not numeric ('low' in row 1 of 'x' in the first table); leave it out ",
        ("with drop=['x']", "with --drop x", "(under Checks)"),
    ),
    "dates": (
        FRAME.assign(day="2024-03-01", x="03/12/2024").drop(columns="day"),
        "column 'x' holds dates ('03/12/2024' in row 1 of 'x' in the first table); leave it out ",
        ("with drop=['x']", "with --drop x", "(under Checks)"),
    ),
    "numbers": (
        FRAME.assign(x="1.5"),
        "column 'x' holds numbers as text ('1.5' in row 1 of 'x' in the first table); turn text into numbers, "
        "all written the same way",
        ("", "", ""),
    ),
    "commas": (
        FRAME.assign(x="1,5"),
        "column 'x' has commas or spaces within numbers ('1,5' in row 1 of 'x' in the first table); write "
        "numbers with a decimal point and without thousands separators",
        ("", "", ""),
    ),
    "missing": (
        FRAME.assign(x=[np.nan, *range(29)]),
        "missing values: 1 in 'x' of the first table; leave out rows with missing values (1 of 30 and 0 of 30 "
        "rows) ",
        (
            "with missing='drop', or use what was observed with missing='em'",
            "with --missing drop, or use what was observed with --missing em",
            "(under Checks), or use what was observed (under Checks)",
        ),
    ),
    "infinite": (
        FRAME.assign(x=[np.inf, *range(29)]),
        "infinite values: 1 in 'x' of the first table; remove such values or check the export",
        ("", "", ""),
    ),
    "empty": (
        FRAME.assign(x=np.nan),
        "column 'x' is empty in the first table; leave it out ",
        (
            "with drop=['x'], or check the export",
            "with --drop x, or check the export",
            "(under Checks), or check the export",
        ),
    ),
    "constant": (
        FRAME[:4].assign(x=1.0)[["x", "y"]],
        "2 things are in the way: column 'x' is constant in the first table; the first table has 1 column to "
        "compare; check the export; at least 2 are needed",
        ("", "", ""),
    ),
    "extreme-scale": (
        FRAME.assign(x=FRAME["x"] * 1e-80),
        "values of 'x' vary by 4e-80 in the first table, too far from 1; change the unit or look for outliers",
        ("", "", ""),
    ),
    "unmatched": (
        FRAME.assign(q=FRAME["z"] ** 2),
        "the two tables have different columns: 'q' missing in the second table; leave it out ",
        ("with drop=['q']", "with --drop q", "(under Checks)"),
    ),
    "duplicate-name": (
        pd.concat([FRAME, FRAME[["x"]]], axis=1),
        "'x' appears more than once among the columns of the first table; rename or remove the copies",
        ("", "", ""),
    ),
    "no-name": (
        FRAME.assign(q=1.0).rename(columns={"q": ""}),
        "column 4 of the first table has no name; name it or remove it",
        ("", "", ""),
    ),
    "too-few-rows": (
        FRAME[:2],
        "the first table has 2 rows of data; at least 3 are needed",
        ("", "", ""),
    ),
}


@pytest.mark.parametrize("kind", GOLDEN)
def test_messages_in_three_renderings(kind):
    table, start, ends = GOLDEN[kind]
    error = error_of(table, SOUND[1][table.columns.intersection(["x", "y", "z"]).unique()])
    assert [problem.kind for problem in error.problems if problem.kind != "too-few-columns"] == [kind] or (
        kind == "too-few-rows"
    )
    for audience, end in zip(("python", "shell", "page"), ends, strict=True):
        assert error.words(audience) == start + end


def test_other_messages_speak_of_options_too():
    with pytest.raises(InputError) as caught:
        align_tables(*SOUND, drop=["xx"])
    told = "names 'xx', which no table has; did you mean 'x'?"
    assert str(caught.value) == f"drop= {told}"
    assert caught.value.words("shell") == f"--drop {told}"
    assert caught.value.words("page") == f"the columns left out {told}"
    with pytest.raises(InputError) as caught:
        align_tables(*SOUND, missing="fill")
    assert str(caught.value) == "missing='fill' is not known; use 'error', 'drop' or 'em'"
    assert caught.value.words("shell") == "--missing fill is not known; use 'error', 'drop' or 'em'"


def test_what_the_error_says_to_do_suffices():
    first, second = spoiled(SOUND[0]), spoiled(SOUND[1])
    tables = align_tables(first, second, drop=["Sample ID", "day", "gain", "copy"], missing="drop")
    assert tables.names == ("x", "y", "z")
    assert len(tables.first) == 29
    tables = align_tables(first, second, drop=["copy"], missing="drop")
    assert tables.names == ("x", "y", "z")
    assert tables.notes[0] == "columns 'day' and 'gain' are constant: left out"
    assert tables.notes[1] == "'Sample ID' holds text: left out"


def test_faults_of_one_table_do_not_hide_those_of_the_other():
    first = SOUND[0].assign(x=np.inf, y=1.0, q=0.0)
    assert kinds_of(first, SOUND[1].assign(x="a")) == ["unmatched", "text", "constant", "too-few-columns"]
    assert kinds_of(first, SOUND[1].assign(y=np.nan, q=SOUND[1]["x"] ** 2)) == ["infinite", "empty", "constant"]


def test_the_command_line_names_files_and_lines_and_options(files, capsys):
    assert cli.run(["fit", "chow.csv", "normal.csv"]) == 2
    said = capsys.readouterr().err
    assert "1 in 'z' of 'chow.csv' and 1 in 'z' of 'normal.csv'" in said
    columns, rows = said.partition("leave columns out with ")[2].split(";")
    typed = (
        f"{columns} {rows.partition(' with --')[1].strip('with ')}{rows.partition(' with --')[2].split(',')[0]}"
    )
    assert shlex.split(typed) == ["--drop", "copy", "--missing", "drop"]
    assert cli.run(["fit", "chow.csv", "normal.csv", *shlex.split(typed)]) == 0
    capsys.readouterr()
    assert cli.run(["fit", "chow.csv", "normal.csv", "--columns", "Sample ID,x,y"]) == 2
    said = capsys.readouterr().err
    assert "'Sample ID' is not numeric in both tables ('S0' in line 2 of 'chow.csv')" in said


def test_lines_are_those_of_the_file(files):
    frame = pd.concat([SOUND[0].assign(g="a"), SOUND[1].assign(g="b")]).sample(frac=1, random_state=1)
    frame["y"] = frame["y"].astype(object)
    place = int(np.flatnonzero(frame["g"] == "b")[12])
    frame.iloc[place, 1] = "oops"
    frame.to_csv("both.csv", index=False)
    first, second = split_groups(read_table("both.csv"), "g", ["a", "b"]).values()
    assert f"('oops' in line {place + 2} of 'both.csv')" in message_of(first, second, columns=["x", "y", "z"])
    seen = {
        column["name"]: column["why"] for column in preview_tables([files / "both.csv"], ["both"])["columns"]
    }
    assert f"('oops' in line {place + 2} of '" in seen["y"]
    assert "constant in group 'a'" in message_of(
        first.set_column(0, "x", [[1.0] * 30]), second, columns=["x", "z"]
    )


def test_rows_that_somebody_else_took_have_no_line(files):
    table = read_table("chow.csv")
    for taken in (table.slice(3), table.sort_by([("Sample ID", "descending")])):
        message = message_of(taken, spoiled(SOUND[1]), columns=["Sample ID", "x", "y"])
        assert "'Sample ID' is not numeric in both tables ('S" in message
        assert "in row 1 of 'Sample ID' in the first table" in message


def test_parquet_has_rows(files):
    spoiled(SOUND[0]).to_parquet("t.parquet", index=False)
    message = message_of(read_table("t.parquet"), read_table("chow.csv"), columns=["Sample ID", "x", "y"])
    assert "('S0' in row 1 of 't.parquet')" in message


KINDS = {
    "ids": ("S1", "text"),
    "decimal commas": ("1,5", "commas"),
    "thousands": ("1,234.5", "thousands"),
    "thousands and comma": ("1.234,5", "thousands"),
    "French thousands": ("1\u202f234,5", "thousands"),
    "dates": ("03/12/2024", "dates"),
    "times": (pd.Timestamp("2024-01-01"), "dates"),
    "numbers": ("1.5", "numbers"),
}


@pytest.mark.parametrize(("value", "kind"), KINDS.values(), ids=KINDS)
def test_text_is_told_by_kind(value, kind):
    assert kinds_of(SOUND[0].assign(x=value), SOUND[1]) == [kind]


def test_an_empty_column_is_no_reason_to_drop_every_row():
    first = SOUND[0].assign(e=np.nan)
    first.loc[0, "x"] = np.nan
    second = SOUND[1].assign(e=SOUND[0]["z"])
    assert kinds_of(first.assign(x=SOUND[0]["x"]), second, missing="drop") == ["empty"]
    error = error_of(first, second)
    assert [(problem.kind, problem.columns) for problem in error.problems] == [
        ("empty", ("e",)),
        ("missing", ("x",)),
    ]
    assert "missing values: 1 in 'x' of the first table;" in str(error)
    assert "drop=['e']" in str(error)


def test_rows_are_not_to_be_dropped_if_too_few_would_be_left():
    first = SOUND[0].copy()
    first.iloc[:15, 0] = np.nan
    first.iloc[14:, 1] = np.nan
    assert error_of(first, SOUND[1]).problems[0].remedies == (Option("missing", "em"),)
    assert message_of(first, SOUND[1]).endswith("; use what was observed with missing='em'")
    assert message_of(first, SOUND[1], missing="drop") == (
        "the first table has 0 rows without missing values; at least 3 are needed"
    )


def test_no_column_is_to_be_left_out_if_too_few_would_be_left():
    message = message_of(SOUND[0].assign(x="a", y="b"), SOUND[1])
    assert "the first table has 1 column to compare" in message
    assert message.endswith("; at least 2 are needed")


@pytest.mark.slow
def test_thousands_of_columns_are_counted_and_quick(tmp_path):
    p = 20_000
    rows = "\n".join(";".join([f"s{k}"] * (p // 2) + [str(k % 7)] * (p // 2)) for k in range(9))
    (tmp_path / "t.csv").write_text(";".join(f"v{k}" for k in range(p)) + "\n" + rows + "\n")
    table = read_table(tmp_path / "t.csv")
    start = time.process_time()
    notes = align_tables(table, table).notes
    assert time.process_time() - start < 8
    assert notes[-1] == "'v0', 'v1', 'v2', 'v3', 'v4', 'v5' and 9994 more hold text: left out"
    start = time.process_time()
    message = message_of(table, table, columns=table.column_names)
    assert time.process_time() - start < 8
    assert "columns 'v0', 'v1', 'v2', 'v3', 'v4', 'v5' and 9994 more are not numeric" in message
    assert message.endswith("choose columns with columns= or leave some out with drop=")
    assert len(message) < 600
    error = error_of(table, table, columns=table.column_names)
    assert error.words("page").endswith("; leave out these columns (under Checks)")


AWKWARD = ["Sample ID", "it's", 'a "b"', "IL-6 (pg/ml) day 1", "a,b", "x]", "x=1 (--y)", "--z", "ü"]


@pytest.mark.parametrize("name", AWKWARD)
def test_options_are_spelled_for_the_shell(name):
    typed = shlex.split(Option("drop", (name, "q")).spell("shell"))
    assert typed[0] == "--drop"
    assert split_names(typed[1]) == [name, "q"]


def test_only_options_are_spelled_otherwise():
    text = ["column 'drop=' is constant; use ", Option("effective_samples", "auto"), " or ", Option("n_jobs")]
    assert spell(text, "python") == "column 'drop=' is constant; use effective_samples='auto' or n_jobs="
    assert spell(text, "shell") == "column 'drop=' is constant; use --effective-samples auto or --jobs"
    assert spell(["few ", using(Option("n_jobs", 2))], "page") == "few (on the command line)"
    assert option_words("missing", "drop") == "the option 'missing' with 'drop'"


def test_a_name_with_a_space_asks_for_quotes(files, capsys):
    assert cli.run(["fit", "chow.csv", "normal.csv", "--drop", "Sample", "ID"]) == 2
    assert "names with spaces need quotes: --drop 'Sample ID'" in capsys.readouterr().err
    assert cli.run(["fit", "chow.csv", "--nonsense"]) == 2
    assert "quotes" not in capsys.readouterr().err


def test_checks_of_the_page_say_what_holds_for_both(files):
    seen = preview_tables([files / "chow.csv", files / "normal.csv"], ["chow", "normal"])
    why = {column["name"]: column["why"] for column in seen["columns"]}
    assert why["Sample ID"] == "holds text (30 different values)"
    assert why["gain"] == "is constant"
    assert seen["problem"].startswith("columns 'x' and 'copy' are linearly dependent in both tables; ")
    far = [spoiled(frame).assign(g=k, far=np.inf) for k, frame in enumerate(SOUND)]
    pd.concat(far).to_csv("g.csv", index=False)
    why = {
        column["name"]: column["why"]
        for column in preview_tables([files / "g.csv"], ["g"], group="g")["columns"]
    }
    assert why["far"] == "holds infinite values in both groups"
