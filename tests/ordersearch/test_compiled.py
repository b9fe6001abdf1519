"""Compiled functions are forgotten when a source that they were made from changes."""

from __future__ import annotations

import os

from diffdag.ordersearch.core import compiled


def test_caches_older_than_a_source_are_dropped(monkeypatch, tmp_path):
    """Those of the core and of the room around it, by the newest source of the core."""
    room = tmp_path / "ordersearch"
    core = room / "core"
    files = {core / "a.py": 100, core / "b.py": 300, core / "c.txt": 900, room / "search.py": 900}
    for folder in (core / "__pycache__", room / "__pycache__"):
        folder.mkdir(parents=True)
        files |= {
            folder / "old.nbi": 299,
            folder / "same.nbi": 300,
            folder / "new.nbi": 301,
            folder / "old.nbc": 1,
        }
    for file, made in files.items():
        file.touch()
        os.utime(file, (made, made))
    monkeypatch.setattr(compiled, "__file__", str(core / "compiled.py"))
    compiled._forget_stale_caches()
    for folder in (core / "__pycache__", room / "__pycache__"):
        assert {file.name for file in folder.iterdir()} == {"same.nbi", "new.nbi", "old.nbc"}
