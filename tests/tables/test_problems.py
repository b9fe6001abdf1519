"""All that is wrong with two tables is said in one error, with places and with what to type."""

import shlex
import time

import numpy as np
import pandas as pd
import pytest

from diffdag import __main__ as cli
from diffdag._base.errors import InputError
from diffdag._base.words import at_command_line, drop_words, option_words
from diffdag.app.cli.app import split_names
from diffdag.app.serve.preview import look
from diffdag.tables.align import align_tables, read_table
from diffdag.tables.groups import split_groups

RNG = np.random.default_rng(9)
SOUND = [pd.DataFrame(RNG.standard_normal((30, 3)), columns=["x", "y", "z"]) for _ in range(2)]


def spoiled(frame):
    frame = frame.assign(day="2024-03-01", gain=1.5, copy=2 * frame["x"])
    frame.insert(0, "Sample ID", [f"S{k}" for k in range(30)])
    frame.loc[4, "z"] = np.nan
    return frame


def message_of(*tables, **options):
    with pytest.raises(InputError) as caught:
        align_tables(*tables, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for frame, name in zip(SOUND, ("chow.csv", "normal.csv"), strict=True):
        spoiled(frame).to_csv(name, index=False)
    return tmp_path


def test_everything_is_said_at_once():
    message = message_of(spoiled(SOUND[0]), spoiled(SOUND[1]).assign(extra=1.0))
    assert message == (
        "6 things are in the way: the two tables have different columns: 'extra' missing in the first table; "
        "column 'Sample ID' is not numeric in both tables ('S0' in row 1 of 'Sample ID' in the first table); "
        "column 'day' holds dates in both tables ('2024-03-01' in row 1 of 'day' in the first table); "
        "missing values: 1 in 'z' of the first table and 1 in 'z' of the second table; "
        "column 'gain' is constant in both tables; "
        "columns 'x' and 'copy' are linearly dependent in both tables; "
        "leave columns out with drop=['extra', 'Sample ID', 'day', 'gain', 'copy'] "
        "(--drop 'extra,Sample ID,day,gain,copy') "
        "and rows with missing values with missing='drop' (--missing drop)"
    )


def test_what_the_error_says_to_do_suffices():
    first, second = spoiled(SOUND[0]), spoiled(SOUND[1])
    tables = align_tables(first, second, drop=["Sample ID", "day", "gain", "copy"], missing="drop")
    assert tables.names == ("x", "y", "z")
    assert len(tables.first) == 29
    again = message_of(first, second, drop=["Sample ID"], missing="drop")
    assert again.startswith("3 things")
    assert again.endswith(
        "leave columns out with drop=['Sample ID', 'day', 'gain', 'copy'] (--drop 'Sample ID,day,gain,copy')"
    )


def test_the_command_line_names_files_and_lines_and_options(files, capsys):
    assert cli.run(["fit", "chow.csv", "normal.csv"]) == 2
    said = capsys.readouterr().err
    assert "'Sample ID' is not numeric in both tables ('S0' in line 2 of 'chow.csv')" in said
    assert "1 in 'z' of 'chow.csv' and 1 in 'z' of 'normal.csv'" in said
    typed = said.partition("leave columns out with ")[2].replace(" and rows with missing values with", "")
    assert "=" not in typed
    assert cli.run(["fit", "chow.csv", "normal.csv", *shlex.split(typed)]) == 0
    capsys.readouterr()


def test_lines_are_those_of_the_file(files):
    frame = pd.concat([SOUND[0].assign(g="a"), SOUND[1].assign(g="b")]).sample(frac=1, random_state=1)
    frame["y"] = frame["y"].astype(object)
    place = int(np.flatnonzero(frame["g"] == "b")[12])
    frame.iloc[place, 1] = "oops"
    frame.to_csv("both.csv", index=False)
    first, second, *_ = split_groups(read_table("both.csv"), "g", "a", "b")
    assert f"('oops' in line {place + 2} of 'both.csv')" in message_of(first, second, columns=["x", "y", "z"])
    seen = {column["name"]: column["why"] for column in look([files / "both.csv"], ["both"])["columns"]}
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
    "ids": ("S1", "is not numeric", "leave it out with drop=['x'] (--drop x)"),
    "decimal commas": ("1,5", "has commas or spaces within numbers", "write numbers with a decimal point"),
    "thousands": ("1,234.5", "has commas or spaces within numbers", "without thousands separators"),
    "thousands and comma": ("1.234,5", "has commas or spaces within numbers", "without thousands separators"),
    "French thousands": ("1\u202f234,5", "has commas or spaces within numbers", "without thousands separators"),
    "dates": ("03/12/2024", "holds dates", "leave it out"),
    "times": (pd.Timestamp("2024-01-01"), "holds dates", "leave it out"),
    "numbers": ("1.5", "holds numbers as text", "turn text into numbers"),
}


@pytest.mark.parametrize(("value", "what", "remedy"), KINDS.values(), ids=KINDS)
def test_text_is_told_by_kind(value, what, remedy):
    message = message_of(SOUND[0].assign(x=value), SOUND[1])
    assert message.startswith(f"column 'x' {what} (")
    assert remedy in message.partition("; ")[2]


def test_an_empty_column_is_no_reason_to_drop_every_row():
    first = SOUND[0].assign(e=np.nan)
    first.loc[0, "x"] = np.nan
    second = SOUND[1].assign(e=SOUND[0]["z"])
    alone = message_of(first.assign(x=SOUND[0]["x"]), second, missing="drop")
    assert alone.startswith("column 'e' is empty in the first table; leave it out with drop=['e'] (--drop e)")
    message = message_of(first, second)
    assert "missing values: 1 in 'x' of the first table;" in message
    assert "drop=['e']" in message


def test_rows_are_not_to_be_dropped_if_too_few_would_be_left():
    first = SOUND[0].copy()
    first.iloc[:15, 0] = np.nan
    first.iloc[14:, 1] = np.nan
    assert message_of(first, SOUND[1]).endswith("; fill them in")
    assert message_of(first, SOUND[1], missing="drop") == (
        "the first table has 0 rows without missing values; at least 3 are needed"
    )


def test_no_column_is_to_be_left_out_if_too_few_would_be_left():
    message = message_of(SOUND[0].assign(x="a", y="b"), SOUND[1])
    assert "the first table has 1 column to compare" in message
    assert message.endswith("; at least 2 are needed")


def test_thousands_of_columns_are_counted_and_quick(tmp_path):
    p = 20_000
    rows = "\n".join(";".join([f"s{k}"] * (p // 2) + [str(k % 7)] * (p // 2)) for k in range(9))
    (tmp_path / "t.csv").write_text(";".join(f"v{k}" for k in range(p)) + "\n" + rows + "\n")
    table = read_table(tmp_path / "t.csv")
    start = time.process_time()
    message = message_of(table, table)
    assert time.process_time() - start < 5
    assert "columns 'v0', 'v1', 'v2', 'v3', 'v4', 'v5' and 9994 more are not numeric" in message
    assert "choose columns with columns= (--columns)" in message
    assert len(message) < 600


AWKWARD = ["Sample ID", "it's", 'a "b"', "IL-6 (pg/ml) day 1", "a,b", "x]", "x=1 (--y)", "--z", "ü"]


@pytest.mark.parametrize("name", AWKWARD)
def test_options_are_spelled_for_the_shell(name):
    words = at_command_line(f"leave it out with {drop_words([name, 'q'])} and more")
    assert words.startswith("leave it out with --drop ")
    assert words.endswith(" and more")
    typed = shlex.split(words.removeprefix("leave it out with ").removesuffix(" and more"))
    assert typed[0] == "--drop"
    assert split_names(typed[1]) == [name, "q"]


def test_only_options_are_spelled_otherwise():
    assert at_command_line("column 'drop=' is constant") == "column 'drop=' is constant"
    assert at_command_line(option_words("missing", "drop")) == "--missing drop"
    assert at_command_line("choose with first= and second=: 'a'") == "choose with --first and --second: 'a'"


def test_a_name_with_a_space_asks_for_quotes(files, capsys):
    assert cli.run(["fit", "chow.csv", "normal.csv", "--drop", "Sample", "ID"]) == 2
    assert "names with spaces need quotes: --drop 'Sample ID'" in capsys.readouterr().err
    assert cli.run(["fit", "chow.csv", "--nonsense"]) == 2
    assert "quotes" not in capsys.readouterr().err


def test_checks_of_the_page_say_what_holds_for_both(files):
    seen = look([files / "chow.csv", files / "normal.csv"], ["chow", "normal"])
    why = {column["name"]: column["why"] for column in seen["columns"]}
    assert why["Sample ID"].startswith("is not numeric in both files ('S0' in line 2 of '")
    assert why["gain"] == "the same value in every row of both files"
    assert seen["problem"].startswith("columns 'x' and 'copy' are linearly dependent in both tables; ")
    pd.concat([spoiled(frame).assign(g=k) for k, frame in enumerate(SOUND)]).to_csv("g.csv", index=False)
    why = {column["name"]: column["why"] for column in look([files / "g.csv"], ["g"], group="g")["columns"]}
    assert why["gain"] == "the same value in every row of both groups"
