"""Tables far wider than long: F1, time and memory of the default and of what else can be run, against p.

Sparse pairs as in section 4 of the paper, with two neighbours per variable on average, weights of 0.5 to 1 and
16 changed effects, 400 rows of each. Undirected methods are scored by the skeleton; those that form a p x p
matrix are left out beyond the number of variables that stands beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from diffdag._base.arrays import FloatArray
from diffdag._base.errors import InputError
from diffdag._base.journal import Row
from diffdag.estimator import DifferenceDAG
from diffdag.model.simulate import simulate_pair
from diffdag.precision.api import precision_difference
from diffdag.reproduce.experiments.charts import Panel, draw_panels, summarise, text_table
from diffdag.reproduce.experiments.runner import Cell, Experiment, write_table
from diffdag.reproduce.methods import find_method
from diffdag.reproduce.methods.attempt import timed
from diffdag.tables.moments import Moments

NEIGHBOURS, WEIGHTS, CHANGES, ROWS = 2.0, (0.5, 1.0), 16, 400
SHOWN = ("f1", "skeleton_f1")
Pairs = set[tuple[int, int]]  # changed effects as (source, target); both ways if undirected


@lru_cache(maxsize=1)
def draw(p: int, seed: tuple[int, ...]) -> tuple[FloatArray, FloatArray, Pairs]:
    """Two tables, and the changed effects."""
    rng = np.random.default_rng(seed)
    pair = simulate_pair(p, neighbours=NEIGHBOURS, weights=WEIGHTS, changes=CHANGES, rng=rng)
    targets, sources = pair.changed_entries
    edges = set(zip(sources.tolist(), targets.tolist(), strict=True))
    return pair.first.sample(ROWS, rng), pair.second.sample(ROWS, rng), edges


def default(first: FloatArray, second: FloatArray) -> Pairs:
    """The default fit of two tables."""
    result = DifferenceDAG().fit(first, second).result_
    place = {name: k for k, name in enumerate(result.variables)}
    found = {(place[edge.source], place[edge.target]) for edge in result.edge_list}
    return found | {(place[edge.target], place[edge.source]) for edge in result.edge_list if not edge.directed}


def dtrace(first: FloatArray, second: FloatArray) -> Pairs:
    """The support of the sparse precision difference, at half of the smallest penalty that gives none."""
    entries = precision_difference(first, second, method="dtrace", penalty=0.5).entries.tocoo()
    return {(int(i), int(j)) for i, j in zip(entries.row, entries.col, strict=True) if i != j}


def from_moments(name: str, first: FloatArray, second: FloatArray) -> Pairs:
    """A method that asks for covariance matrices."""
    graph = find_method(name).run(Moments.from_array(first), Moments.from_array(second))
    return {(int(j), int(i)) for i, j in np.argwhere(graph)}


# What is run, and up to how many variables.
METHODS: dict[str, tuple[Callable[[FloatArray, FloatArray], Pairs], int]] = {
    "order": (default, 20_000),
    "dtrace": (dtrace, 20_000),
    "z-score": (lambda first, second: from_moments("z-score", first, second), 5_000),
    "dgca": (lambda first, second: from_moments("dgca", first, second), 5_000),
    "ddn": (lambda first, second: from_moments("ddn", first, second), 200),
}


def known(name: str) -> str:
    """A name of `METHODS`, or an error that lists them."""
    if name not in METHODS:
        raise InputError(f"no method is called '{name}'; wide tables have {', '.join(METHODS)}")
    return name


def cells(settings: Mapping[str, Any]) -> list[Cell]:
    """Every method on every pair of as many variables as it can take."""
    return [
        {"p": p, "pair": pair, "method": name}
        for p in settings["p"]
        for pair in range(min(settings["pairs"], settings["few"].get(str(p), settings["pairs"])))
        for name in settings["methods"]
        if p <= METHODS[name][1]
    ]


def work(cell: Cell, settings: Mapping[str, Any]) -> Row:
    """One method on one pair of tables."""
    first, second, truth = draw(cell["p"], (settings["seed"], cell["p"], cell["pair"]))
    found, why, seconds = timed(lambda: METHODS[cell["method"]][0](first, second), settings["limit"])
    row: Row = dict.fromkeys(("f1", "skeleton_f1", "claimed", "right"))
    if found is not None:
        directed = {edge for edge in found if edge[::-1] not in found}
        pairs = {frozenset(edge) for edge in found}
        right = len(pairs & {frozenset(edge) for edge in truth})
        total = len(pairs) + len(truth)
        row = {"f1": 2 * len(directed & truth) / total, "skeleton_f1": 2 * right / total}
        row |= {"claimed": len(pairs), "right": right}
    return {**row, "why": why, "seconds": seconds}


def finish(table: pd.DataFrame, folder: Path, settings: Mapping[str, Any]) -> tuple[list[Path], str]:
    """Means, and two panels: directed F1 and that of the skeleton."""
    summary = summarise(table, ["p", "method"], list(SHOWN))
    files = [write_table(folder / "wide-summary.csv", summary)]
    panels = [
        Panel("F1", "f1", summary[summary["method"] == "order"]),
        Panel("F1 of the skeleton", "skeleton_f1", summary),
    ]
    files += draw_panels(
        panels, "p", f"variables, {ROWS} rows per condition", folder / "wide", columns=2, log=True
    )
    return files, text_table(summary, "method", "p", list(SHOWN))


_SETTINGS = {"methods": list(METHODS), "limit": 300.0, "seed": 848_000}
EXPERIMENT = Experiment(
    name="wide",
    title="Tables far wider than long",
    key=("p", "pair", "method"),
    cells=cells,
    work=work,
    finish=finish,
    full={**_SETTINGS, "p": [200, 1000, 5000, 20_000], "pairs": 3, "few": {"5000": 1, "20000": 1}},
    quick={**_SETTINGS, "p": [200], "pairs": 1, "few": {}},
    axes=("methods", "p", "pairs", "few"),
    find=known,
)
