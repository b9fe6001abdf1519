"""Text files as people have them: decimal commas, other encodings, spreadsheets."""

import gzip

import numpy as np
import pandas as pd
import pytest

from diffdag import __main__ as cli
from diffdag._base.errors import InputError
from diffdag.app.serve.preview import preview_tables
from diffdag.tables.align import align_tables
from diffdag.tables.moments import Moments
from diffdag.tables.readers.csv_dialect import read_header
from diffdag.tables.readers.files import read_table

RNG = np.random.default_rng(8)
FRAMES = [pd.DataFrame(np.round(RNG.standard_normal((40, 3)), 4), columns=["a", "b", "c"]) for _ in range(2)]
EXCEL = {"sep": ";", "decimal": ",", "encoding": "utf-8-sig", "lineterminator": "\r\n", "index": False}
WAYS = {
    "excel.csv": EXCEL,
    "excel.csv.gz": EXCEL,
    "tab.tsv": {"sep": "\t", "decimal": ",", "index": False},
    "quoted.txt": {**EXCEL, "quoting": 1},
    "small.csv": {**EXCEL, "float_format": "%.3e"},
    "point.csv": {**EXCEL, "decimal": "."},
}


@pytest.mark.parametrize("name", WAYS)
def test_numbers_are_read_as_they_are_written(tmp_path, name):
    FRAMES[0].to_csv(tmp_path / name, **WAYS[name])
    table = read_table(tmp_path / name)
    np.testing.assert_allclose(table.to_pandas(), FRAMES[0], rtol=1e-3)
    np.testing.assert_allclose(Moments.from_csv(tmp_path / name).mean, FRAMES[0].mean(), rtol=1e-3)


def test_decimal_commas_everywhere(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for frame, name in zip(FRAMES, ("one.csv", "two.csv"), strict=True):
        frame.assign(day="x").to_csv(name, **EXCEL)
    seen = preview_tables([tmp_path / "one.csv", tmp_path / "two.csv"], ["one", "two"])
    assert seen["problem"] is None
    assert [column["role"] for column in seen["columns"]] == ["compare", "compare", "compare", "drop"]
    assert cli.run(["moments", "one.csv", "--drop", "day", "--out", "m.npz"]) == 0
    np.testing.assert_allclose(Moments.load("m.npz").mean, FRAMES[0].mean())
    both = pd.concat([frame.assign(g=k + 0.5) for k, frame in enumerate(FRAMES)])
    both.to_csv("both.csv", **EXCEL)
    seen = preview_tables([tmp_path / "both.csv"], ["both"], group="g")
    assert seen["labels"] == ("0,5", "1,5")
    capsys.readouterr()


NUMBERS = {
    "comma": ("1,5;2", ","),
    "no whole part": (",5;2", ","),
    "three decimals": ("1,234;0,999", ","),
    "three decimals, all above one": ("1,234;2\n5,678;3", ","),
    "text with commas": ("1.5;x, y", "."),
    "a list": ("1;2,3,4", "."),
    "dates": ("1,5;01.02.2024", ","),
    "whole numbers": ("1;2", "."),
    "mixed": ("7;1,5\n\n2.5;3", "decimal commas .'1,5' in line 2. and decimal points .'2.5' in line 4."),
    "thousands": ("1;2\n3;1,500\n4;999", "'1,500' in line 3 of .* seems to have a thousands separator"),
    "millions": ("1,234,567;2\n3;4", "'1,234,567' in line 2 of .* seems to have a thousands separator"),
}


@pytest.mark.parametrize(("rows", "expected"), NUMBERS.values(), ids=NUMBERS)
def test_the_decimal_mark_is_seen_in_the_first_lines(tmp_path, rows, expected):
    (tmp_path / "t.csv").write_text(f"a;b\n{rows}\n")
    if len(expected) == 1:
        assert read_header(tmp_path / "t.csv").decimal == expected
        return
    with pytest.raises(InputError, match=expected):
        read_table(tmp_path / "t.csv")
    with pytest.raises(InputError, match=expected):
        Moments.from_csv(tmp_path / "t.csv")


def test_a_point_far_down_a_file_with_commas_is_named(tmp_path):
    FRAMES[0].to_csv(tmp_path / "t.csv", **EXCEL)
    lines = "1,5;2,5;3,5\n" * 40_000
    with (tmp_path / "t.csv").open("a") as file:
        file.write(lines + "1,5;2.5;3,5\n")
    place = "'2.5' in line 40042 of '.*t.csv'"
    with pytest.raises(InputError, match=f"column 'b' holds numbers as text .{place}.; .* the same way"):
        align_tables(read_table(tmp_path / "t.csv"), FRAMES[1])
    with pytest.raises(InputError, match=place):
        Moments.from_csv(tmp_path / "t.csv")


def test_commas_between_fields_stay_commas(tmp_path):
    (tmp_path / "t.csv").write_text('a,b\n"1,5",2\n3,4\n')
    assert read_header(tmp_path / "t.csv").decimal == "."
    with pytest.raises(InputError, match=r"'1,5' in line 2 of .*; write numbers with a decimal point"):
        align_tables(read_table(tmp_path / "t.csv"), FRAMES[0][["a", "b"]])


def test_a_file_without_names_is_seen_in_spite_of_commas(tmp_path):
    (tmp_path / "t.csv").write_text("1,5;2,5\n3,5;4,5\n")
    with pytest.raises(InputError, match="put a header line"):
        read_table(tmp_path / "t.csv")


ENCODINGS = {
    "latin names": ("Größe;b\n1;2\n", "latin-1", "Windows or Latin-1 text: 'Größe' in line 1.; save it as CSV"),
    "latin values": ("a;b\n1;2\nMüller;2\n", "cp1252", "'Müller' in line 3"),
    "utf-16": ("a\tb\n1\t2\n", "utf-16", "is UTF-16 text; save it as CSV .UTF-8."),
    "utf-16 of others": ("a\tb\n1\t2\n", "utf-16-be", "is not a text table; save it as CSV .UTF-8."),
}


@pytest.mark.parametrize(("content", "encoding", "message"), ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("packed", [False, True])
def test_other_encodings_are_told(tmp_path, content, encoding, message, packed):
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    raw = content.encode(encoding)
    path.write_bytes(gzip.compress(raw) if packed else raw)
    for read in (read_table, Moments.from_csv):
        with pytest.raises(InputError, match=message):
            read(path)


def test_a_group_that_is_not_utf8_far_down_is_told(tmp_path):
    rows = b"a,1\n" * 200_000
    (tmp_path / "t.csv").write_bytes(b"g,x\n" + rows + b"M\xfcller,2\n")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        read_table(tmp_path / "t.csv", text=["g"])


def test_spreadsheets_are_refused_with_a_way_out(tmp_path, capsys):
    for name in ("t.xlsx", "t.xls", "t.ods"):
        (tmp_path / name).write_bytes(b"PK")
        for command in (
            ["fit", str(tmp_path / name), "x.csv"],
            ["moments", str(tmp_path / name), "--out", "m.npz"],
        ):
            assert cli.run(command) == 2
            assert (
                "is a spreadsheet, which is not read; save the sheet as CSV (UTF-8)" in capsys.readouterr().err
            )


def test_a_wide_line_is_cut_between_fields(tmp_path):
    p = 30_000
    names, row = ";".join(f"v{k}" for k in range(p)), ";".join(["-1,2500000"] * p)
    (tmp_path / "t.csv").write_text(f"{names}\n{row}\n{row}\n")
    assert read_header(tmp_path / "t.csv").decimal == ","
