"""Figures for print: what `export` writes as PDF and PNG."""

from __future__ import annotations

import errno
import os
import re
import struct
import subprocess
import sys
from itertools import pairwise

import pytest
from matplotlib import rc_context
from matplotlib.figure import Figure
from scipy.sparse import csr_array

from diffdag.__main__ import run
from diffdag.report.plots.chart import MOST_PIXELS, png_of
from diffdag.result import ConditionsResult, DifferenceResult
from diffdag.results.records import Edge

# A script that the font lacks, an emoji, formulas, right to left, marks that combine, controls.
ODD = ("漢字", "🧬 gene", r"$\alpha_1^{$", "مرحبا", "x\u0301\u200b", "a\x00b\nc", "<b>&\"'", "\U0001d54f", "")
FILES = ("figure.pdf", "figure.png")


def answer(names=ODD):
    edges = tuple(Edge(a, b, True, "added", 0.0, 1.0, -1.0) for a, b in pairwise(names))
    return DifferenceResult(
        method="order", variables=names, invariant=(), unresolved=(), order=tuple((name,) for name in names),
        edge_list=edges, delta_entries=csr_array((len(names),) * 2), samples=(10, 20), settings={},
    )  # fmt: skip


@pytest.fixture(params=["two", "several"])
def saved(request, tmp_path):
    """A saved result, and the size of its picture in inches."""
    one = answer()
    three = ConditionsResult(("漢", "🧬", "$x$"), "漢", {("漢", "🧬"): one, ("漢", "$x$"): one})
    result = one if request.param == "two" else three
    result.save(tmp_path / "answer")
    figure = result.plot() if request.param == "several" else result.plot().figure
    return tmp_path / "answer", figure.get_size_inches()


def exported(folder, *names):
    """What the command writes; warnings are errors here."""
    files = [folder.parent / name for name in names]
    assert run(["export", str(folder), *map(str, files)]) == 0
    return [path.read_bytes() for path in files]


def chunks(png):
    """The parts of a PNG file by their kinds."""
    found, at = {}, 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        found.setdefault(png[at + 4 : at + 8], png[at + 8 : at + 8 + length])
        at += 12 + length
    return found


def test_png_has_the_resolution_of_print(saved, capsys):
    folder, inches = saved
    (png,) = exported(folder, "figure.PNG")
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    parts = chunks(png)
    assert struct.unpack(">II", parts[b"IHDR"][:8]) == pytest.approx(inches * 300, abs=1.0)
    assert struct.unpack(">IIB", parts[b"pHYs"]) == (11811, 11811, 1)  # dots per metre
    assert b"tEXt" not in parts
    said = capsys.readouterr()
    assert "figure.PNG" in said.out
    assert said.err == ""


def test_pdf_has_its_fonts_with_it(saved, capsys):
    folder, inches = saved
    (pdf,) = exported(folder, "figure.pdf")
    assert pdf.startswith(b"%PDF-")
    box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", pdf)
    assert [float(side) for side in box.groups()] == pytest.approx(inches * 72, abs=0.01)
    assert b"/FontFile2" in pdf  # TrueType, which editors of figures can edit, and no outlines of Type 3
    assert capsys.readouterr().err == ""


def test_the_same_result_gives_the_same_bytes(saved):
    folder, _ = saved
    here = exported(folder, *FILES)
    assert not re.search(rb"/(CreationDate|ModDate|Creator|Producer)\b", here[0])
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    command = [sys.executable, "-m", "diffdag", "export", str(folder), *FILES]
    seeded = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"}
    subprocess.run(command, cwd=elsewhere, env=seeded, check=True, capture_output=True)
    assert [(elsewhere / name).read_bytes() for name in FILES] == here


def test_settings_of_the_user_change_no_font(saved):
    folder, _ = saved
    with rc_context({"pdf.fonttype": 3, "pdf.use14corefonts": True}):
        (pdf,) = exported(folder, "figure.pdf")
    assert b"/FontFile2" in pdf


def test_an_older_figure_stays_if_another_file_cannot_be_made(saved, capsys):
    folder, _ = saved
    exported(folder, *FILES)
    before = {path: path.read_bytes() for path in folder.parent.iterdir() if path.is_file()}
    assert run(["export", str(folder), *(str(folder.parent / name) for name in FILES), "no/figure.pdf"]) == 2
    assert "none that exists" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.parent.iterdir() if path.is_file()} == before


def test_nothing_found_is_a_figure_too(tmp_path):
    names = ("a", "b")
    result = DifferenceResult(
        method="order", variables=names, invariant=names, unresolved=(), order=(), edge_list=(),
        delta_entries=csr_array((2, 2)), samples=(10, 20), settings={},
    )  # fmt: skip
    result.save(tmp_path / "answer")
    assert all(exported(tmp_path / "answer", *FILES))


@pytest.mark.parametrize("inches", [(60.0, 40.0), (400.0, 0.5)])
def test_very_large_pictures_are_coarser(inches):
    width, height = struct.unpack(">II", chunks(png_of(Figure(figsize=inches)))[b"IHDR"][:8])
    assert width * height <= 1.001 * MOST_PIXELS
    assert width < 2**16
    assert width / height == pytest.approx(inches[0] / inches[1], rel=0.02)


def test_all_files_of_a_call_are_written_or_none(tmp_path, capsys):
    answer(("a", "b")).save(tmp_path / "answer")
    (tmp_path / "older.csv").write_text("older")
    wanted = [tmp_path / "a.dot", tmp_path / "older.csv", tmp_path / f"{'x' * 251}.dot"]
    before = sorted(tmp_path.iterdir())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", failing_at(3, os.fsync))
        assert run(["export", str(tmp_path / "answer"), *map(str, wanted)]) == 2
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "older.csv").read_text() == "older"
    said = capsys.readouterr()
    assert said.out == ""
    assert f"'{wanted[2]}': " in said.err
    assert run(["export", str(tmp_path / "answer"), *map(str, wanted)]) == 0
    assert all(path.stat().st_size for path in wanted)


def failing_at(number, real):
    """A function of the system that fails the third time, say."""
    calls = []

    def call(*given):
        calls.append(given)
        if len(calls) == number:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(*given)

    return call
