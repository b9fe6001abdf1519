"""Folders that cannot be written to, from whatever moment on: older files stay, one line says what is wrong."""

from __future__ import annotations

import errno
import io
import itertools
import os
import shutil
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pandas as pd
import pytest

import diffdag as dd
from diffdag import __main__ as cli
from diffdag._base.journal import Journal

pytestmark = pytest.mark.faults
PAIR = dd.simulate_pair(4, neighbours=2, changes=1, rng=880_901)
TABLES = PAIR.first.sample(200, rng=1), PAIR.second.sample(200, rng=2)


@pytest.fixture(scope="module")
def answer():
    return dd.DifferenceDAG().fit(*TABLES).result_


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@contextmanager
def failing(folder, number, error, *, forever):
    """Let one attempt to make or open something below a folder fail, and all after it or not."""
    attempts = []

    def instead(real):
        def attempt(path, *arguments, **options):
            if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(str(folder)):
                attempts.append(path)
                if len(attempts) == number or (forever and len(attempts) > number):
                    raise OSError(error, os.strerror(error), os.fspath(path))
            return real(path, *arguments, **options)

        return attempt

    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((os, "open"), (os, "mkdir"), (io, "open")):
            patch.setattr(module, name, instead(getattr(module, name)))
        yield attempts


def each_failure(folder, reset, write, *, forever):
    """Try with each attempt failing in turn; whether the work was done, time by time."""
    for number in itertools.count(1):
        reset()
        before = files(folder)
        error = (errno.EROFS, errno.EACCES)[number % 2]
        done = False
        with failing(folder, number, error, forever=forever) as attempts:
            try:
                write()
                done = True
            except OSError as raised:
                said = raised.errno, str(raised.filename).startswith(str(folder))
        assert done or said == (error, True)
        assert (files(folder) != before) == done
        if len(attempts) < number:
            assert done
            return
        yield done


@pytest.mark.parametrize("forever", [False, True], ids=["once", "from then on"])
class TestEachAttempt:
    def test_an_answer(self, tmp_path, answer, forever):
        other = replace(answer, labels=("one", "other"))
        tries = each_failure(
            tmp_path, lambda: answer.save(tmp_path), lambda: other.save(tmp_path), forever=forever
        )
        assert list(tries).count(False) >= 4  # one for each file

    def test_moments(self, tmp_path, forever):
        older, newer = (partial(dd.Moments.from_array(table).save, path=tmp_path / "m.npz") for table in TABLES)
        done = list(each_failure(tmp_path, older, newer, forever=forever))
        assert done == [not forever, False]  # the lock can be done without
        assert list(files(tmp_path)) == ["m.npz"]

    def test_a_journal(self, tmp_path, forever):
        path = tmp_path / "new" / "rows.journal"

        def write():
            with Journal(path, {"size": 1}, ("a",)).open() as journal:
                journal.append({"a": 1})

        def reset():
            shutil.rmtree(path.parent, ignore_errors=True)

        assert list(each_failure(tmp_path, reset, write, forever=forever)) == [False, False]


class TestCommandLine:
    @pytest.fixture
    def tables(self, tmp_path):
        for name, rows in zip(("first.csv", "second.csv"), TABLES, strict=True):
            pd.DataFrame(rows, columns=list("abcd")).to_csv(tmp_path / name, index=False)
        return [str(tmp_path / name) for name in ("first.csv", "second.csv")]

    def test_said_before_the_work(self, tables, tmp_path, monkeypatch, capsys):
        out = tmp_path / "out"
        out.mkdir()
        allowed = os.access
        monkeypatch.setattr(
            os, "access", lambda path, mode: not (path == out and mode & os.W_OK) and allowed(path, mode)
        )

        def never(*_, **__):
            raise AssertionError("worked out in vain")

        monkeypatch.setattr(dd.DifferenceDAG, "fit", never)
        monkeypatch.setattr("diffdag.tables.moments.stream_moments", never)
        for command in (
            ["fit", *tables, "--out", str(out)],
            ["fit", *tables, "--out", str(out / "new" / "newer")],
            ["moments", tables[0], "--out", str(out / "m.npz")],
        ):
            assert cli.run(command) == 2
            assert capsys.readouterr().err == (
                f"diffdag: error: --out '{command[-1] if command[0] == 'fit' else out}': "
                f"nothing can be written to '{out}'; give another folder\n"
            )

    def test_said_after_it(self, tables, tmp_path, capsys):
        out = tmp_path / "out"
        command = ["fit", *tables, "--jobs", "1", "--out", str(out)]
        assert cli.run(command) == 0
        before = files(out)
        kinds = set()
        for number in (1, 3, 5, 7):  # the first while it is tried whether the folder takes files
            capsys.readouterr()
            with failing(out, number, errno.EROFS, forever=True):
                assert cli.run([*command, "--noise", "equal"]) == 2
            said = capsys.readouterr().err
            early = said.startswith(f"diffdag: error: --out '{out}': nothing can be written to '{out}'")
            late = said.endswith("Read-only file system; check the path and its permissions\n")
            assert early is not (late and said.startswith(f"diffdag: error: '{out}"))
            kinds.add(early)
            assert said.count("\n") == 1
            assert files(out) == before
        assert kinds == {True, False}
        assert cli.run([*command, "--noise", "equal"]) == 0
        assert files(out) != before

    def test_no_place_for_temporary_files(self, tables, monkeypatch, capsys):
        def nowhere():
            raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

        monkeypatch.setattr("tempfile.tempdir", None)
        monkeypatch.setattr("tempfile._get_default_tempdir", nowhere)
        assert cli.run(["fit", *tables, "--jobs", "1"]) == 0
        assert cli.run(["serve", "--port", "0", "--no-browser"]) == 2
        assert capsys.readouterr().err == (
            "diffdag: error: No usable temporary directory found; check the path and its permissions\n"
        )
