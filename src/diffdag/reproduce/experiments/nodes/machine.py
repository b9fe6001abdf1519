"""The machine of `chambers`: in each environment that touches one variable, where does each method rank it?

A sensor whose exposure or voltage was set otherwise has another mechanism; a light or a polariser whose range
moved was set otherwise itself, so that its own distribution, which has no causes among the columns, is what
changed. Environments that touch no column are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from diffdag._base.errors import InputError
from diffdag._base.journal import Row
from diffdag.report.format import printable
from diffdag.reproduce.experiments.chambers.data import KINDS, Machine, read_machine
from diffdag.reproduce.experiments.runner import Cell, Experiment, write_table
from diffdag.reproduce.methods import all_node_methods, find_node_method
from diffdag.reproduce.methods.attempt import timed
from diffdag.reproduce.methods.gaussian import as_mask
from diffdag.reproduce.scoring import score_nodes

NAME = "nodes-chambers"
SCORES = ("ac1", "ac3", "f1", "false", "first")


def touched(machine: Machine, environment: str) -> str | None:
    """The one variable whose mechanism is another one in an environment; None if there is none to be seen."""
    told = machine.told(environment)
    named = set(told.loc[told["what"] != "saturated", "target"]) - {""}
    return named.pop() if len(named) == 1 else None


def cells(settings: Mapping[str, Any]) -> list[Cell]:
    """One cell per environment and method, kind by kind."""
    given = settings["environments"].items()
    places = [(kind, name) for kind in KINDS for name, own in given if own == kind]
    return [
        {"kind": kind, "environment": name, "method": method}
        for kind, name in places
        for method in settings["methods"]
    ]


def work(cell: Cell, settings: Mapping[str, Any], data: Path) -> Row:
    """One method on one environment, compared with the reference."""
    machine = read_machine(data)
    first, second, _ = machine.compared(cell["environment"])
    names = [str(name) for name in first]
    place = {name: k for k, name in enumerate(names)}
    parents = [
        as_mask(place[cause] for cause, effect in machine.graph if effect == name and cause in place)
        for name in names
    ]
    variable = touched(machine, cell["environment"])
    tables = first.to_numpy(float), second.to_numpy(float)
    run = partial(find_node_method(cell["method"]).rank, *tables, tuple(parents))
    ranking, why, seconds = timed(run, settings["limit"])
    row: Row = dict.fromkeys(SCORES)
    ranked = claimed = ""
    if ranking is not None:
        truth = np.array([name == variable for name in names])
        row = vars(score_nodes(truth, ranking.order, ranking.changed))
        ranked = "; ".join(names[k] for k in ranking.order[:3])
        if ranking.changed is not None:
            claimed = "; ".join(names[k] for k in np.flatnonzero(ranking.changed))
    about = {"touched": variable, "rows_first": len(first), "rows_second": len(second), "p": len(names)}
    return {**about, **row, "ranked": ranked, "claimed": claimed, "why": why, "seconds": seconds}


def summarise_machine(table: pd.DataFrame) -> pd.DataFrame:
    """Means over all environments and over those of each kind; a method that gave up has nothing right."""
    rows = []
    parts = [("all", table), *table.groupby("kind", sort=False)]
    for kind, of_kind in parts:
        for method, part in of_kind.groupby("method", sort=False):
            row = {"kind": kind, "method": method, "environments": len(part)}
            row["gave_up"] = int(part["ac1"].isna().sum())
            row |= {name: float(part[name].fillna(0.0).mean()) for name in ("ac1", "ac3")}
            rows.append(row | {name: float(part[name].mean()) for name in ("f1", "false", "first")})
    return pd.DataFrame(rows)


def finish(table: pd.DataFrame, folder: Path, settings: Mapping[str, Any]) -> tuple[list[Path], str]:
    """Means by kind, and for the screen the place of the touched variable in each environment."""
    summary = summarise_machine(table)
    files = [write_table(folder / f"{NAME}-summary.csv", summary)]
    places = table.pivot(index="environment", columns="method", values="first")
    places = places.reindex(index=table["environment"].unique(), columns=table["method"].unique())
    means = summary[summary["kind"] == "all"].drop(columns="kind")
    text = (
        f"{means.to_string(index=False, float_format='{:.2f}'.format, na_rep='')}\n\n"
        f"place of the variable that was touched\n{places.to_string(na_rep='', float_format='{:.0f}'.format)}"
    )
    return files, "\n".join(map(printable, text.splitlines()))


def experiment_for(data: Path) -> Experiment:
    """The experiment on a folder, as `diffdag reproduce chambers` reads it."""
    machine = read_machine(data)
    environments = {name: kind for name, kind in machine.environments.items() if touched(machine, name)}
    if not environments:
        raise InputError(f"no environment in '{data}' touches exactly one variable; see its truth.csv")
    first = {kind: name for name, kind in reversed(environments.items())}
    few = {name: kind for name, kind in environments.items() if first[kind] == name}
    methods = list(all_node_methods())
    fixed: dict[str, Any] = {"data": list(machine.fingerprint), "limit": 120.0}
    return Experiment(
        name=NAME,
        title="A machine, variable by variable",
        key=("kind", "environment", "method"),
        cells=cells,
        work=partial(work, data=data),
        finish=finish,
        full={**fixed, "environments": environments, "methods": methods},
        quick={**fixed, "environments": few, "methods": methods},
        axes=("environments", "methods"),
        repeats=("environment",),
        find=find_node_method,
    )
