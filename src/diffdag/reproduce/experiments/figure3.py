"""Figure 3 of the paper: noise variances that differ, at C = 9, against their spread gamma.

The text draws each variance from {1 - gamma, 1, gamma}; for gamma up to 1 the set {1 - gamma, 1, 1 + gamma} is
the more natural one. It also leaves open whether a variable's variance is drawn once and shared by the two
conditions, so that none changes, or once for each condition. All four readings are run. LiSTEN, which rests on
equal variances, is not in the paper's figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from diffdag._base.journal import Row
from diffdag.reproduce.experiments.charts import Panel, draw_panels, summarise, text_table
from diffdag.reproduce.experiments.runner import Cell, Experiment, write_table
from diffdag.reproduce.experiments.trial import NEIGHBOURS, P, crossed, draw_data, draw_pair, try_method
from diffdag.reproduce.planning import rows_at

SETS = {"1-g,1,g": lambda g: (1 - g, 1.0, g), "1-g,1,1+g": lambda g: (1 - g, 1.0, 1 + g)}
DRAWN = {"shared": "one draw per variable", "per-condition": "one draw per condition"}
PANELS = {
    "f1": "F1",
    "exact": "share exact",
    "skeleton_f1": "F1 of the skeleton",
    "skeleton_exact": "share of exact skeletons",
}


def work(cell: Cell, settings: Mapping[str, Any]) -> Row:
    """One method on the data of one pair."""
    gamma = cell["gamma"]
    places = [list(SETS).index(cell["variances"]), list(DRAWN).index(cell["drawn"]), round(100 * gamma)]
    seed = (settings["seed"], *places, cell["pair"])
    variances = tuple(round(value, 12) for value in SETS[cell["variances"]](gamma))
    pair = draw_pair(P, NEIGHBOURS, True, seed, variances, cell["drawn"])
    n = rows_at(settings["C"], P)
    data = draw_data(pair, n, [*seed, 1])
    return {"n": n, **try_method(cell["method"], pair, data, settings["limit"])}


def finish(table: pd.DataFrame, folder: Path, settings: Mapping[str, Any]) -> tuple[list[Path], str]:
    """A line of panels for each reading: directed and skeleton scores."""
    by = ["variances", "drawn", "gamma", "method"]
    summary = summarise(table, by, list(PANELS))
    panels, text = [], []
    for (variances, drawn), part in summary.groupby(["variances", "drawn"], sort=False):
        where = f"{{{variances}}}, {DRAWN[str(drawn)]}"
        panels += [Panel(f"{title}\n{where}", name, part) for name, title in PANELS.items()]
        text.append(f"variances from {where}\n\n{text_table(part, 'method', 'gamma', list(PANELS))}")
    files = [write_table(folder / "figure3-summary.csv", summary)]
    files += draw_panels(panels, "gamma", "gamma", folder / "figure3", columns=4)
    return files, "\n\n".join(text)


_SETTINGS = {"methods": ["order", "oracle", "paper", "dci-c", "listen"], "C": 9, "limit": 60.0, "seed": 832_000}
EXPERIMENT = Experiment(
    name="figure3",
    title="Figure 3: unequal noise",
    key=("variances", "drawn", "gamma", "pair", "method"),
    cells=crossed(variances=list(SETS), drawn=list(DRAWN), pair="pairs", gamma="gamma", method="methods"),
    work=work,
    finish=finish,
    full={**_SETTINGS, "pairs": 50, "gamma": [0.1, 0.3, 0.5, 0.7, 0.9]},
    quick={**_SETTINGS, "pairs": 5, "gamma": [0.1, 0.5, 0.9]},
    axes=("pairs", "gamma", "methods"),
)
