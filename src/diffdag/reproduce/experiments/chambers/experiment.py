"""What each method finds on a machine: every environment against the reference, and blocks of the reference.

The light tunnel (Gamella, Peters and Bühlmann, Nature Machine Intelligence 2025) is a physical machine. Its
graph is known by construction, and so is what was done to it in each environment. Where an exposure or a
voltage was set otherwise, effects on one sensor changed and must be found; where only the range of a cause
moved, or nothing that a column sees, every claim is false. No constant of any method was chosen on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from diffdag._base.errors import InputError
from diffdag._base.journal import Row
from diffdag._base.words import Option
from diffdag.report.format import printable
from diffdag.reproduce.experiments.chambers.data import (
    BLOCKS,
    EXPECTED,
    KINDS,
    REFERENCE,
    SOURCE,
    Machine,
    read_machine,
)
from diffdag.reproduce.experiments.chambers.gains import factor_text, gains_json, gains_table, gains_text
from diffdag.reproduce.experiments.chambers.picture import draw_claims
from diffdag.reproduce.experiments.claims import ROWS, Counts, check_methods, count_claims, try_tables
from diffdag.reproduce.experiments.runner import Cell, Experiment, write_table

METHODS = {"full": ["order", "dci-c", "dci-fc", "listen", "pc", "ges"], "quick": ["order", "dci-c", "ges"]}
LIMIT = {"full": 120.0, "quick": 30.0}
QUICK_BLOCKS = 4
COUNTED = tuple(field.name for field in fields(Counts))
SHOWN = (
    "method", "found", "undirected", "reversed", "extra", "backwards", "fits_with_extra", "extra_gains",
    "gave_up",
)  # fmt: skip


def settings_for(machine: Machine, size: str) -> dict[str, Any]:
    """Settings of one size; of a folder only names and contents of its files, never its place."""
    environments, blocks = machine.environments, list(range(1, BLOCKS + 1))
    if size == "quick":
        first = {kind: name for name, kind in reversed(environments.items())}
        environments = {name: kind for name, kind in environments.items() if first[kind] == name}
        blocks = blocks[:: BLOCKS // QUICK_BLOCKS]
    sizes = {"blocks": blocks, "methods": METHODS[size], "limit": LIMIT[size]}
    return {"data": list(machine.fingerprint), "environments": environments, **sizes}


def cells(settings: Mapping[str, Any]) -> list[Cell]:
    """One cell per method and environment, kind by kind, and then per block."""
    check_methods(settings["methods"])
    given = settings["environments"].items()
    places = [(kind, name, None) for kind in KINDS for name, own in given if own == kind]
    places += [("blocks", f"{REFERENCE} {block}", block) for block in settings["blocks"]]
    keys = ("kind", "environment", "block", "method")
    return [dict(zip(keys, (*place, name), strict=True)) for place in places for name in settings["methods"]]


def work(cell: Cell, settings: Mapping[str, Any], data: Path) -> Row:
    """One method on one environment or block."""
    machine = read_machine(data)
    compared, changed = (
        machine.compared(cell["environment"], cell["block"]),
        machine.changed(cell["environment"]),
    )
    claims = try_tables(cell["method"], compared.first, compared.second, settings["limit"])
    counts: dict[str, Any] = {**dict.fromkeys(COUNTED), "true": len(changed.strong)}
    gains: dict[str, Any] = dict.fromkeys(("extra_gains", "gains", "factors"))
    if claims.edges is not None:
        counts = asdict(count_claims(claims.edges, changed.strong, changed.weak, machine.above))
        sensors = {target for _, target in changed.strong}
        extra = sum(gain.variable not in sensors for gain in claims.gains)
        told = gains_text(claims.gains), gains_json(claims.gains)
        gains = dict(zip(gains, (extra, *told), strict=True))
    about = {
        "rows_first": len(compared.first),
        "rows_second": len(compared.second),
        "left_out": "; ".join(compared.left_out),
    }
    return {**about, **claims.told({**counts, **gains})}


def summarise_claims(table: pd.DataFrame) -> pd.DataFrame:
    """Sums over the environments of each kind; a method that gave up there has found none of the true edges."""
    rows = []
    for (kind, method), part in table.groupby(["kind", "method"], sort=False):
        sums = {name: int(part[name].fillna(0).sum()) for name in (*COUNTED, "extra_gains")}
        fits = {"fits": len(part), "gave_up": int(part["extra"].isna().sum())}
        with_extra = int((part["extra"] > 0).sum())
        rows.append({"kind": kind, "method": method, **fits, **sums, "fits_with_extra": with_extra})
    return pd.DataFrame(rows)


def finish(
    table: pd.DataFrame, folder: Path, settings: Mapping[str, Any], data: Path
) -> tuple[list[Path], str]:
    """Sums by kind and method, claimed gains beside the machine's own slopes, and a picture."""
    summary = summarise_claims(table)
    gains = gains_table(read_machine(data), table[table["method"] == ROWS])
    files = [write_table(folder / "chambers-summary.csv", summary)]
    files.append(write_table(folder / "chambers-gains.csv", gains))
    files += draw_claims(summary, folder / "chambers")
    lines = f"{summary_text(summary)}\n\n{gains_summary(gains)}".splitlines()
    return files, "\n".join(map(printable, lines))


def summary_text(summary: pd.DataFrame) -> str:
    """One table per kind of environment, for the screen."""
    parts = []
    for kind, part in summary.groupby("kind", sort=False):
        fits, true = part["fits"].iloc[0], part["true"].iloc[0]
        head = f"{kind} ({KINDS[str(kind)]}): {fits} compared, {true} edges changed"
        parts.append(f"{head}\n{part[list(SHOWN)].to_string(index=False)}")
    return "\n\n".join(parts)


def gains_summary(gains: pd.DataFrame) -> str:
    """A line per changed sensor: what its slopes were multiplied by, and what the default method says."""
    lines = ["gains: nominal, by the machine's own slopes, claimed"]
    for row in gains.astype(object).where(gains.notna(), None).to_dict("records"):
        claimed = factor_text(row["claimed"], row["claimed_stderr"]) or " none"
        nominal = "" if row["nominal"] is None else f" x {row['nominal']:.3g},"
        own = factor_text(row["machine"], row["machine_stderr"])
        lines.append(f"  {row['environment']}, {row['target']}:{nominal}{own} ({row['ratios']}),{claimed}")
    return "\n".join(lines)


def experiment_for(data: Path | None) -> Experiment:
    """The experiment on a folder. The folder is known to the functions only: no table or journal names it."""
    if data is None:
        raise InputError("'chambers' needs ", Option("data"), f": {EXPECTED}; {SOURCE}")
    machine = read_machine(data)
    return Experiment(
        name="chambers",
        title="A machine",
        key=("kind", "environment", "method"),
        cells=cells,
        work=partial(work, data=data),
        finish=partial(finish, data=data),
        full=settings_for(machine, "full"),
        quick=settings_for(machine, "quick"),
        axes=("environments", "blocks", "methods"),
        repeats=("environment",),
    )
