"""Which variables' mechanisms changed: methods that rank variables, against the number of rows.

Simulated pairs have 1 to 4 changed mechanisms of mixed kinds (`models`). A ranking is scored by AC@1 and AC@3,
a set of variables by F1 and by the share of it that did not change. On a folder of data the machine of
`machine` takes the place of the simulations.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from diffdag._base.journal import Row
from diffdag.reproduce.experiments.charts import Panel, draw_panels, summarise, text_table
from diffdag.reproduce.experiments.nodes import machine
from diffdag.reproduce.experiments.nodes.models import KINDS, draw_nodes
from diffdag.reproduce.experiments.runner import Cell, Experiment, write_table
from diffdag.reproduce.methods import find_node_method
from diffdag.reproduce.methods.attempt import timed
from diffdag.reproduce.scoring import score_nodes

SCORES = ("ac1", "ac3", "f1", "false")
TITLES = {"ac1": "AC@1", "ac3": "AC@3", "f1": "F1 of the set", "false": "false-discovery rate"}


def cells(settings: Mapping[str, Any]) -> list[Cell]:
    """One cell per method and data set; slow methods have fewer pairs of many variables."""
    return [
        {"p": p, "n": n, "pair": pair, "method": name}
        for p, n in settings["sizes"]
        for pair in range(settings["pairs"])
        for name in settings["methods"]
        if pair < settings["slow"].get(f"{name} {p}", settings["pairs"])
    ]


def work(cell: Cell, settings: Mapping[str, Any]) -> Row:
    """One method on the rows of one pair."""
    p, n = cell["p"], cell["n"]
    seed = (settings["seed"], p, cell["pair"])
    pair = draw_nodes(p, seed)
    first, second = pair.sample(n, (*seed, n))
    run = partial(find_node_method(cell["method"]).rank, first, second, pair.parents)
    ranking, why, seconds = timed(run, settings["limit"])
    row: Row = dict.fromkeys((*SCORES, "first"))
    claimed = ""
    if ranking is not None:
        truth = np.isin(np.arange(p), list(pair.kinds))
        row = vars(score_nodes(truth, ranking.order, ranking.changed))
        claimed = " ".join(
            str(k) for k in np.flatnonzero(ranking.changed if ranking.changed is not None else ())
        )
    changed = " ".join(f"{k}:{kind}" for k, kind in sorted(pair.kinds.items()))
    return {**row, "changed": changed, "claimed": claimed, "why": why, "seconds": seconds}


def recall_by_kind(table: pd.DataFrame) -> pd.DataFrame:
    """Share of the changed mechanisms of each kind that are in the set, by method and size."""
    rows = []
    for (p, n, method), part in table[table["f1"].notna()].groupby(["p", "n", "method"], sort=False):
        found = {kind: [] for kind in KINDS}  # type: dict[str, list[bool]]
        for changed, claimed in zip(part["changed"], part["claimed"].fillna("").astype(str), strict=True):
            named = {name.removesuffix(".0") for name in claimed.split()}
            for item in changed.split():
                variable, kind = item.split(":")
                found[kind].append(variable in named)
        shares = {kind: float(np.mean(own)) if own else None for kind, own in found.items()}
        rows.append({"p": p, "n": n, "method": method, **shares})
    return pd.DataFrame(rows, columns=["p", "n", "method", *KINDS])


def finish(table: pd.DataFrame, folder: Path, settings: Mapping[str, Any]) -> tuple[list[Path], str]:
    """Means of all scores, the share found of each kind, and a line of panels for each number of variables."""
    summary = summarise(table, ["p", "n", "method"], list(SCORES))
    files = [write_table(folder / "nodes-summary.csv", summary)]
    files.append(write_table(folder / "nodes-kinds.csv", recall_by_kind(table)))
    panels, text = [], []
    for p, part in summary.groupby("p", sort=False):
        panels += [Panel(f"{title}, p = {p}", name, part) for name, title in TITLES.items()]
        text.append(f"p = {p}\n\n{text_table(part, 'method', 'n', list(SCORES))}")
    files += draw_panels(panels, "n", "rows per condition", folder / "nodes", columns=len(TITLES), log=True)
    return files, "\n\n".join(text)


_METHODS = [
    "order", "order-listed", "oracle", "ut-igsp", "gnies", "gnies-rank", "sd-ratio", "shift", "baro-max",
    "baro-median", "cd-nod", "jci-pc", "prediter",
]  # fmt: skip
_SETTINGS = {"methods": _METHODS, "limit": 120.0, "seed": 845_000}
SIMULATED = Experiment(
    name="nodes",
    title="Changed mechanisms",
    key=("p", "n", "pair", "method"),
    cells=cells,
    work=work,
    finish=finish,
    full={
        **_SETTINGS,
        "sizes": [[10, 100], [10, 341], [10, 1000], [10, 2525], [10, 10000], [30, 341], [30, 2525]],
        "pairs": 60,
        "slow": {
            "order-listed 10": 30,
            "order-listed 30": 20,
            "gnies 10": 20,
            "gnies 30": 0,
            "gnies-rank 10": 30,
            "gnies-rank 30": 10,
        },
    },
    quick={
        **_SETTINGS,
        "sizes": [[10, 341], [10, 2525]],
        "pairs": 5,
        "slow": {},
    },
    axes=("methods", "sizes", "pairs", "slow"),
    find=find_node_method,
)


def experiment_for(data: Path | None) -> Experiment:
    """Simulations, or the machine in a folder."""
    return SIMULATED if data is None else machine.experiment_for(data)
