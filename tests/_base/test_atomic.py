"""Files are written completely or not at all."""

from __future__ import annotations

import itertools
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diffdag._base.atomic import write_atomic, write_together


class TestWriteAtomic:
    def test_replaces_and_leaves_nothing_else(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        write_atomic(path, "old")
        assert write_atomic(str(path), b"new\r\n") == path
        assert path.read_bytes() == b"new\r\n"
        assert list(tmp_path.iterdir()) == [path]

    def test_failure_keeps_the_old_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = write_atomic(tmp_path / "a.txt", "old")

        def full(descriptor: int) -> None:
            raise OSError("disk full")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="disk full"):
            write_atomic(path, "new")
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
    def test_permissions_are_the_usual_ones(self, tmp_path: Path) -> None:
        plain = tmp_path / "plain"
        plain.touch()
        written = write_atomic(tmp_path / "written", "x")
        assert stat.S_IMODE(written.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


OLD, NEW = {"a": "old", "b": "old", "sub/c": "old"}, {"a": "new", "b": "new", "d": "new"}


def held(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()
    }


class Killed(BaseException):
    pass


def fail_at(number: int, error: BaseException, real: Any) -> Callable[..., Any]:
    """A function that fails the given time that it is called."""
    calls = itertools.count(1)

    def attempt(*arguments: Any) -> Any:
        if next(calls) == number:
            raise error
        return real(*arguments)

    return attempt


@pytest.fixture
def _in_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the system cannot exchange folders in one step."""
    monkeypatch.setattr("ctypes.CDLL", lambda _: None)


class TestWriteTogether:
    @pytest.fixture
    def out(self, tmp_path: Path) -> Path:
        write_together(tmp_path / "out", OLD)
        return tmp_path / "out"

    def test_a_folder_of_its_own_is_replaced_as_a_whole(
        self, out: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "replace", fail_at(1, AssertionError("one file"), os.replace))
        journal = out / "sub" / "x.journal"
        journal.write_text("kept")
        out.chmod(0o750)
        before = journal.stat().st_ino
        assert write_together(out, NEW, stale=["sub/c"]) == [out / name for name in NEW]
        assert held(out) == {**NEW, "sub/x.journal": "kept"}
        assert journal.stat().st_ino == before  # a program that has it open goes on
        assert stat.S_IMODE(out.stat().st_mode) == 0o750
        assert list(out.parent.iterdir()) == [out]

    @pytest.mark.parametrize("step", [1, 2])
    @pytest.mark.usefixtures("_in_two_steps")
    def test_stopped_between_steps_it_holds_the_older_files(
        self, out: Path, monkeypatch: pytest.MonkeyPatch, step: int
    ) -> None:
        monkeypatch.setattr(os, "rename", fail_at(step, Killed(), os.rename))
        with pytest.raises(Killed):
            write_together(out, NEW, stale=["sub/c"])
        assert held(out) == OLD
        assert list(out.parent.iterdir()) == [out]

    @pytest.mark.parametrize("step", [1, 2, 3])
    def test_killed_between_steps_it_is_never_of_two_results(self, out: Path, step: int) -> None:
        code = (
            "import itertools, os, sys; from diffdag._base.atomic import write_together\n"
            "import ctypes; ctypes.CDLL = lambda _: None  # folders are not exchanged in one step\n"
            "calls, real = itertools.count(1), os.rename\n"
            f"os.rename = lambda *both: os._exit(9) if next(calls) == {step} else real(*both)\n"
            f"write_together(sys.argv[1], {NEW!r}, ['sub/c'])"
        )
        done = subprocess.run([sys.executable, "-c", code, str(out)], check=False)
        assert done.returncode == (0 if step == 3 else 9)
        assert held(out) == {1: OLD, 2: {}, 3: NEW}[step]
        write_together(out, NEW, stale=["sub/c"])
        assert held(out) == NEW
        assert list(out.parent.iterdir()) == [out]

    @pytest.mark.parametrize("step", [1, 2])
    @pytest.mark.usefixtures("_in_two_steps")
    def test_where_folders_cannot_be_renamed_each_file_is_replaced(
        self, out: Path, monkeypatch: pytest.MonkeyPatch, step: int
    ) -> None:
        monkeypatch.setattr(os, "rename", fail_at(step, OSError("busy"), os.rename))
        write_together(out, NEW, stale=["sub/c"])
        assert held(out) == NEW
        assert list(out.parent.iterdir()) == [out]

    @pytest.mark.parametrize("name", ["mine.txt", "sub/mine.txt", "empty/"])
    def test_a_folder_with_other_files_stays(
        self, out: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        (out / name).mkdir() if name.endswith("/") else (out / name).write_text("mine")
        monkeypatch.setattr(os, "rename", fail_at(1, AssertionError("the folder"), os.rename))
        write_together(out, NEW, stale=["sub/c"])
        assert held(out) == NEW | ({} if name.endswith("/") else {name: "mine"})
        assert (out / name).exists()

    def test_the_working_folder_and_links_stay(self, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        link = out.with_name("link")
        link.symlink_to(out)
        write_together(link, NEW, stale=["sub/c"])
        assert link.is_symlink()
        assert held(out) == NEW
        monkeypatch.chdir(out)
        number = out.stat().st_ino
        write_together(".", OLD, stale=["d"])
        assert out.stat().st_ino == number
        assert held(out) == OLD
