"""The call path of a fit, from two files to the report: it enters each room once, in the order of the rooms."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import pandas as pd
from studies import ROOT, study

from diffdag.__main__ import run

SOURCE = ROOT / "src" / "diffdag"
# Files that lead from room to room: the command, and what stands beside the rooms.
SPINE = ("app/cli/", "pipeline.py", "estimator.py", "result.py", "__main__.py")
# Rooms that any file may ask for a tool or a value, without going there to work.
TOOLS = {"_base", "model", "precision"}


def file_of(frame: FrameType) -> str | None:
    """The file of diffdag in which the code of a frame stands."""
    path = Path(frame.f_code.co_filename)
    return path.relative_to(SOURCE).as_posix() if path.is_relative_to(SOURCE) else None


def callers(frame: FrameType) -> Iterator[str]:
    """Files of diffdag up the stack, the nearest first."""
    above = frame.f_back
    while above is not None:
        if (file := file_of(above)) is not None:
            yield file
        above = above.f_back


def rooms_entered(work: Callable[[], Any]) -> list[str]:
    """Do some work; return the rooms that the spine called into, one after the other.

    A visit is a call of a plain function of a room by a file of the spine. What the room does meanwhile,
    wherever it asks others for help, belongs to that visit; visits to the same room that follow each other
    count once. Methods and properties of values are no visits, nor is importing a module.
    """
    visits: list[str] = []
    inside: list[FrameType] = []  # the call that is a visit, until it returns

    def note(frame: FrameType, event: str, _: object) -> None:
        if inside:
            if event == "return" and frame is inside[-1]:
                inside.pop()
        elif event == "call" and frame.f_code.co_qualname.isidentifier():  # no method, no lambda, no module
            file = file_of(frame)
            if file is None or file.startswith(SPINE) or "/" not in file:
                return
            if next(callers(frame), "").startswith(SPINE) and (room := file.split("/")[0]) not in TOOLS:
                visits.append(room)
                inside.append(frame)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return [room for room, _ in groupby(visits)]


def test_a_fit_enters_each_room_once(tmp_path):
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path, table in zip(paths, study(880_950, 5, (200, 250)), strict=True):
        pd.DataFrame(table, columns=list("abcde")).to_csv(path, index=False)
    command = ["fit", *map(str, paths), "--out", str(tmp_path / "out")]
    entered = rooms_entered(lambda: run(command))
    assert (tmp_path / "out" / "report.html").exists()
    assert entered == ["tables", "ordersearch", "trust", "results", "report"]


def test_visits_are_calls_from_the_spine_into_rooms():
    """Nested calls, tools, values and imports are not counted."""
    assert rooms_entered(lambda: run(["--version"])) == []
