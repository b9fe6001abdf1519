"""Files are written completely or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from diffdag._base.atomic import write_atomic


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
