"""F1 of the changed effects against the number of rows, in every world, for every method.

Directed methods are compared by directed F1, in which an undirected edge counts as claimed and never as found;
all by the F1 of the skeleton. Where a method is made for fewer variables than a world has, it is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from diffdag._base.journal import Row
from diffdag.reproduce.experiments.charts import Panel, draw_panels, summarise, text_table
from diffdag.reproduce.experiments.rivals.worlds import WORLDS, draw
from diffdag.reproduce.experiments.runner import Cell, Experiment, write_table
from diffdag.reproduce.experiments.trial import SCORES
from diffdag.reproduce.methods import all_row_methods, find_rival
from diffdag.reproduce.methods.attempt import attempt, timed
from diffdag.reproduce.scoring import score
from diffdag.tables.moments import Moments

SHOWN = ("f1", "exact", "skeleton_f1")


def cells(settings: Mapping[str, Any]) -> list[Cell]:
    """Every method on every data set of the worlds whose number of variables it is made for."""
    return [
        {"world": name, "n": n, "pair": pair, "method": method}
        for name, sizes in settings["worlds"].items()
        for n in sizes
        for pair in range(min(settings["pairs"], settings["few"].get(name, settings["pairs"])))
        for method in settings["methods"]
        if WORLDS[name].p <= (find_rival(method).most or WORLDS[name].p)
    ]


def work(cell: Cell, settings: Mapping[str, Any]) -> Row:
    """One method on one data set; pairs that are a matter of words count neither way."""
    place = list(WORLDS).index(cell["world"])
    data = draw(cell["world"], cell["n"], (settings["seed"], place, cell["pair"]))
    method = find_rival(cell["method"])
    empty: Row = dict.fromkeys(SCORES)
    if not method.available:
        return {**empty, "why": f"needs {method.needs}", "seconds": None, "again": True}
    if method.name in all_row_methods():
        graph, why, seconds = timed(lambda: method.run(*data.rows), settings["limit"])
    else:
        moments = tuple(map(Moments.from_array, data.rows))
        told = (*moments, data.order) if method.knows_order else moments
        graph, why, seconds = attempt(method, told, settings["limit"])
    if graph is None:
        return {**empty, "why": why, "seconds": seconds}
    found = vars(score(data.changed, np.logical_and(graph, ~data.open)))
    numbers = {key: float(value) if isinstance(value, bool) else value for key, value in found.items()}
    return {**numbers, "why": why, "seconds": seconds}


def finish(table: pd.DataFrame, folder: Path, settings: Mapping[str, Any]) -> tuple[list[Path], str]:
    """A panel per world, directed F1; the same for skeletons, with the methods that direct nothing."""
    summary = summarise(table, ["world", "n", "method"], list(SHOWN))
    files = [write_table(folder / "rivals-summary.csv", summary)]
    directs = summary[[find_rival(name).directs for name in summary["method"]]]
    for kind, name, rows in (("rivals", "f1", directs), ("rivals-skeleton", "skeleton_f1", summary)):
        panels = [
            Panel(WORLDS[world].title, name, rows[rows["world"] == world]) for world in settings["worlds"]
        ]
        files += draw_panels(panels, "n", "rows per condition", folder / kind, columns=4, log=True)
    text = [
        f"{WORLDS[world].title}\n\n{text_table(directs[directs['world'] == world], 'method', 'n', ['f1'])}"
        for world in settings["worlds"]
    ]
    return files, "\n\n".join(text)


_METHODS = [
    "order", "oracle", "paper", "malik", "dci-c", "dci-fc", "dci-k", "listen", "bottom-up", "multigroup-lingam",
    "pc", "ges", "mmhc", "kliep", "dtrace", "debiased", "ddn", "z-score", "dgca",
]  # fmt: skip
_SIZES = {
    "paper": [341, 2525, 18658, 137863],
    "noise": [341, 2525],
    "means": [341, 2525],
    "gains": [341, 2525],
    "laplace": [341, 2525],
    "bent": [341, 2525],
    "sparse 30": [300, 1000],
    "sparse 100": [500],
}
_SETTINGS = {"methods": _METHODS, "limit": 30.0, "seed": 847_000}
EXPERIMENT = Experiment(
    name="rivals",
    title="Every method, in worlds of many kinds",
    key=("world", "n", "pair", "method"),
    cells=cells,
    work=work,
    finish=finish,
    full={**_SETTINGS, "worlds": _SIZES, "pairs": 12, "few": {"sparse 30": 8, "sparse 100": 4}},
    quick={**_SETTINGS, "worlds": {"paper": [341, 2525], "noise": [341]}, "pairs": 3, "few": {}},
    axes=("methods", "worlds", "pairs", "few"),
    find=find_rival,
)
