"""Figure 2 of the paper: F1 and share of exact recovery against C, n = floor(e^C log p), for every method.

Once on pairs that satisfy Assumption 3 with epsilon 0.1, as the paper does, and once on all pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from diffdag._base.journal import Row
from diffdag.reproduce.experiments.charts import STYLES, Panel, draw_panels, summarise, text_table
from diffdag.reproduce.experiments.runner import Cell, Experiment, write_table
from diffdag.reproduce.experiments.trial import KINDS, NEIGHBOURS, P, crossed, draw_data, draw_pair, try_method
from diffdag.reproduce.methods import find_method
from diffdag.reproduce.planning import rows_at


def work(cell: Cell, settings: Mapping[str, Any]) -> Row:
    """One method on the data of one pair."""
    filtered = cell["kind"] == "filtered"
    seed = (settings["seed"], int(filtered), cell["pair"])
    pair = draw_pair(P, NEIGHBOURS, filtered, seed)
    n = rows_at(cell["C"], P)
    data = draw_data(pair, n, [*seed, round(100 * cell["C"])])
    return {"n": n, **try_method(cell["method"], pair, data, settings["limit"])}


def finish(table: pd.DataFrame, folder: Path, settings: Mapping[str, Any]) -> tuple[list[Path], str]:
    """The paper's two panels for both kinds of pairs, and a third for skeletons."""
    scores = ["f1", "exact", "skeleton_f1"]
    summary = summarise(table, ["kind", "C", "method"], scores)
    directs = summary[[find_method(name).directs for name in summary["method"]]]
    panels = []
    for kind in settings["kinds"]:
        for name, title in {"f1": "F1", "exact": "share exact", "skeleton_f1": "F1 of the skeleton"}.items():
            rows = summary if name == "skeleton_f1" else directs
            panels.append(Panel(f"{title}, {KINDS[kind]}", name, rows[rows["kind"] == kind]))
    files = [write_table(folder / "figure2-summary.csv", summary)]
    label = "C, with floor(exp(C) log 10) rows in each table"
    files += draw_panels(panels, "C", label, folder / "figure2", columns=3)
    text = [
        f"{KINDS[kind]}\n\n{text_table(directs[directs['kind'] == kind], 'method', 'C', ['f1', 'exact'])}"
        for kind in settings["kinds"]
    ]
    return files, "\n\n".join(text)


_SETTINGS = {"kinds": list(KINDS), "methods": list(STYLES), "limit": 60.0, "seed": 831_000}
EXPERIMENT = Experiment(
    name="figure2",
    title="Figure 2: every method",
    key=("kind", "C", "pair", "method"),
    cells=crossed(kind="kinds", pair="pairs", C="C", method="methods"),
    work=work,
    finish=finish,
    full={**_SETTINGS, "pairs": 50, "C": [5, 6, 7, 8, 9, 10, 11, 12, 13]},
    quick={**_SETTINGS, "pairs": 5, "C": [5, 7, 9, 11]},
    axes=("kinds", "pairs", "C", "methods"),
)
