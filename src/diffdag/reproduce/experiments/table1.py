"""Table 1 of the paper: exact models in, the exact difference DAG out, up to 100 variables."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from diffdag._base.journal import Row
from diffdag.estimator import DifferenceDAG
from diffdag.model.simulate import simulate_pair
from diffdag.reproduce.experiments.charts import summarise
from diffdag.reproduce.experiments.runner import Cell, Experiment, write_table
from diffdag.reproduce.experiments.trial import crossed
from diffdag.reproduce.methods.ours import result_graph
from diffdag.reproduce.scoring import score

NEIGHBOURS = {10: 6, 50: 35, 100: 80}


def work(cell: Cell, settings: Mapping[str, Any]) -> Row:
    """Algorithm 1 on one pair of exact models."""
    p = cell["p"]
    rng = np.random.default_rng([settings["seed"], p, cell["pair"]])
    pair = simulate_pair(p, neighbours=NEIGHBOURS[p], rng=rng)
    start = time.perf_counter()
    result = DifferenceDAG(method="paper").fit_population(pair.first, pair.second).result_
    seconds = time.perf_counter() - start
    found = score(pair.changed, result_graph(result))
    return {
        "neighbours": NEIGHBOURS[p],
        "edges_first": int(np.count_nonzero(pair.first.weights)),
        "true_edges": found.true_edges,
        "claimed": found.claimed,
        "exact": float(found.exact),
        "seconds": seconds,
    }


def finish(table: pd.DataFrame, folder: Path, settings: Mapping[str, Any]) -> tuple[list[Path], str]:
    """The paper's table: the share of exact results for each number of variables."""
    summary = summarise(table, ["p", "neighbours"], ["exact"])
    means = table.groupby("p", sort=False)[["edges_first", "true_edges"]].mean().round(1).reset_index()
    summary = summary.merge(means, on="p")
    return [write_table(folder / "table1-summary.csv", summary)], summary.to_string(index=False)


EXPERIMENT = Experiment(
    name="table1",
    title="Table 1: exact models",
    key=("p", "pair"),
    cells=crossed(p="p", pair="pairs"),
    work=work,
    finish=finish,
    full={"p": [10, 50, 100], "pairs": 50, "seed": 830_000},
    quick={"p": [10, 50, 100], "pairs": 10, "seed": 830_000},
    axes=("p", "pairs"),
)
