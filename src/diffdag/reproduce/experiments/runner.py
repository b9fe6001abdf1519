"""Run an experiment cell by cell, in processes or on a cluster, from wherever the last run stopped.

A cell is one row of the table to be: a method on one data set. Cells depend on nothing but their own columns
and the seed, so the finished table does not depend on interruptions, on the number of processes, or on the
order in which they end. Times are kept in the journal and in a table of their own.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from diffdag._base.atomic import write_atomic
from diffdag._base.journal import Journal, Row
from diffdag._base.parallel import run_all
from diffdag._base.progress import show_progress
from diffdag.reproduce.methods import find_method

Cell = dict[str, Any]
TIME = "seconds"
AGAIN = "again"  # a row that says what was missing, to be filled by a later run
MADE = "made"  # date and commit of each row


@dataclass(frozen=True)
class Experiment:
    """One table or figure, of the paper or of ours.

    ``cells(settings)`` gives all cells, in the order of the finished table; ``work(cell, settings)`` fills one
    row, in another process; ``finish(table, folder, settings)`` draws from the table and nothing else, and
    returns the files written and a text for the screen.
    """

    name: str
    title: str
    key: tuple[str, ...]  # columns that tell cells apart
    cells: Callable[[Mapping[str, Any]], list[Cell]]
    work: Callable[[Cell, Mapping[str, Any]], Row]
    finish: Callable[[pd.DataFrame, Path, Mapping[str, Any]], tuple[list[Path], str]]
    full: Mapping[str, Any]  # settings of the two sizes, JSON values only
    quick: Mapping[str, Any]
    axes: tuple[str, ...] = ()  # settings that only say which cells there are; a later run may add to them
    repeats: tuple[str, ...] = ("pair",)  # columns of the key over which times are taken together
    find: Callable[[str], object] = find_method  # refuses a name that is none of a method


def run(
    experiment: Experiment, settings: Mapping[str, Any], folder: Path, jobs: int | None = None
) -> tuple[list[Path], str]:
    """Fill the table, draw from it, and return the files and a text for the screen.

    A folder that was begun with another seed or time limit is refused.
    """
    cells = experiment.cells(settings)
    about = {name: value for name, value in settings.items() if name not in experiment.axes}
    about["experiment"] = experiment.name
    journal = Journal(folder / f"{experiment.name}.journal", about, experiment.key)
    with journal.open():
        done = {key for key, row in journal.rows.items() if not row.get(AGAIN)}
        open_cells = [cell for cell in cells if journal.key_of(cell) not in done]
        shared = (experiment.work, dict(settings))
        with show_progress(True, experiment.title, len(cells), len(cells) - len(open_cells)) as advance:
            now = made_now()
            for _, row in run_all(_row, open_cells, shared=shared, jobs=jobs):
                journal.append({**row, MADE: now})
                advance()
        # While the journal is held, so that no other run writes the same files.
        return _finish(experiment, [journal.rows[journal.key_of(cell)] for cell in cells], settings, folder)


def _finish(
    experiment: Experiment, rows: list[Row], settings: Mapping[str, Any], folder: Path
) -> tuple[list[Path], str]:
    table = pd.DataFrame(rows)
    plain = table.drop(columns=[TIME, AGAIN, MADE], errors="ignore")
    files = [write_table(folder / f"{experiment.name}.csv", plain)]
    if TIME in table:
        by = [name for name in experiment.key if name not in experiment.repeats]
        times = table.groupby(by, sort=False)[TIME].agg(["median", "max"]).round(4).reset_index()
        files.append(write_table(folder / f"{experiment.name}-times.csv", times))
    about = {
        "experiment": experiment.name,
        "settings": dict(settings),
        "made": sorted(set(table[MADE])),
        "diffdag": version("diffdag"),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    files.append(write_atomic(folder / f"{experiment.name}.json", json.dumps(about, indent=1) + "\n"))
    written = pd.read_csv(files[0], keep_default_na=False, na_values=[""])
    drawn, text = experiment.finish(written, folder, settings)
    return [*files, *drawn], text


def _row(cell: Cell, work: Callable[[Cell, Mapping[str, Any]], Row], settings: Mapping[str, Any]) -> Row:
    return {**cell, **work(cell, settings)}


def write_table(path: Path, table: pd.DataFrame) -> Path:
    """Write a table as CSV."""
    return write_atomic(path, table.to_csv(index=False, lineterminator="\n", float_format="%.6g"))


def made_now() -> str:
    """Date and commit of what is being measured."""
    git = ["git", "-C", str(Path(__file__).resolve().parent), "rev-parse", "--short", "HEAD"]
    try:
        commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    except OSError:
        commit = ""
    return f"{datetime.datetime.now(tz=datetime.UTC).date()}, commit {commit or 'unknown'}"
