"""Proteins in single cells under nine conditions: what is claimed to differ, beside what is known of them.

Nobody knows which effects the conditions changed. But an effect that changed is an effect: claimed pairs should
be neighbours in the network of the literature, and arrows should not point against it. All pairs of the nine
conditions of Sachs et al. (2005) are compared, log10 values, and the claims held against `CONSENSUS`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from diffdag._base.journal import Row
from diffdag.model.datasets import SACHS_CONDITIONS, SACHS_PROTEINS, load_sachs
from diffdag.reproduce.experiments.claims import Claim, ancestor_pairs, check_methods, try_tables
from diffdag.reproduce.experiments.runner import Cell, Experiment, write_table

# The 20 edges that are usually taken for the truth: the 17 arcs of figure 3 in Sachs et al. (Science
# 308:523-529, 2005), that between Plcg and PIP3 turned the way the literature has it, as the article says, and
# the three that the article says it missed: PIP2 -> PKC, Plcg -> PKC and PIP3 -> Akt. They are also in
# cyto_target.csv of the Causal Discovery Toolbox.
CONSENSUS: Mapping[str, tuple[str, ...]] = {
    "PKC": ("PKA", "Raf", "Mek", "JNK", "P38"),
    "PKA": ("Raf", "Mek", "Erk", "Akt", "JNK", "P38"),
    "Raf": ("Mek",),
    "Mek": ("Erk",),
    "Erk": ("Akt",),
    "PIP3": ("Plcg", "PIP2", "Akt"),
    "Plcg": ("PIP2", "PKC"),
    "PIP2": ("PKC",),
}
EDGES = frozenset((cause, effect) for cause, effects in CONSENSUS.items() for effect in effects)
ABOVE = ancestor_pairs(EDGES)
POSSIBLE = len(SACHS_PROTEINS) * (len(SACHS_PROTEINS) - 1) // 2
COUNTED = ("pairs", "in_consensus", "arrows", "ordered", "agree")
QUICK = ("baseline", "akt-inhibitor", "u0126", "pma")


def count_sachs(claims: Collection[Claim]) -> dict[str, int]:
    """Claimed pairs, those in the consensus; claimed arrows, those that it orders, those that agree with it."""
    near = {frozenset(edge) for edge in EDGES}
    arrows = [claim[:2] for claim in claims if claim.directed]
    agree = sum(arrow in ABOVE for arrow in arrows)
    counts = (
        len(claims),
        sum(frozenset(claim[:2]) in near for claim in claims),
        len(arrows),
        agree + sum(arrow[::-1] in ABOVE for arrow in arrows),
        agree,
    )
    return dict(zip(COUNTED, counts, strict=True))


def cells(settings: Mapping[str, Any]) -> list[Cell]:
    """One cell per method and pair of conditions."""
    check_methods(settings["methods"])
    return [
        {"first": first, "second": second, "method": name}
        for first, second in combinations(settings["conditions"], 2)
        for name in settings["methods"]
    ]


def work(cell: Cell, settings: Mapping[str, Any]) -> Row:
    """One method on two conditions."""
    cells, proteins = load_sachs(), list(SACHS_PROTEINS)
    first, second = (
        np.log10(cells.loc[cells["condition"] == cell[name], proteins]) for name in ("first", "second")
    )
    claims = try_tables(cell["method"], first, second, settings["limit"])
    counts = dict.fromkeys(COUNTED) if claims.edges is None else count_sachs(claims.edges)
    return {"rows_first": len(first), "rows_second": len(second), **claims.told(counts)}


def summarise_sachs(table: pd.DataFrame) -> pd.DataFrame:
    """Sums over all comparisons, and shares beside those that chance would give."""
    rows = []
    for method, part in table.groupby("method", sort=False):
        sums = {name: int(part[name].fillna(0).sum()) for name in COUNTED}
        shares = {
            "share": sums["in_consensus"] / sums["pairs"] if sums["pairs"] else None,
            "share_by_chance": len(EDGES) / POSSIBLE,
            "agreeing": sums["agree"] / sums["ordered"] if sums["ordered"] else None,
            "agreeing_by_chance": 0.5,
        }
        gave_up = int(part["pairs"].isna().sum())
        rows.append({"method": method, "comparisons": len(part), "gave_up": gave_up, **sums, **shares})
    return pd.DataFrame(rows)


def finish(table: pd.DataFrame, folder: Path, settings: Mapping[str, Any]) -> tuple[list[Path], str]:
    """The sums, as a table and for the screen."""
    summary = summarise_sachs(table)
    files = [write_table(folder / "sachs-summary.csv", summary)]
    return files, summary_text(summary)


def summary_text(summary: pd.DataFrame) -> str:
    """What was claimed, for the screen."""
    shown = summary.drop(columns=["share_by_chance", "agreeing_by_chance"])
    text = shown.to_string(index=False, float_format="{:.2f}".format, na_rep="")
    return (
        f"{text}\n\nThe consensus joins {len(EDGES)} of {POSSIBLE} pairs: a share of "
        f"{len(EDGES) / POSSIBLE:.2f} by chance.\nIt orders {len(ABOVE)} of them; an arrow between such two "
        "agrees by chance in half of the cases."
    )


_SETTINGS = {"methods": ["order", "dci-c", "dci-fc"]}
EXPERIMENT = Experiment(
    name="sachs",
    title="Nine conditions of Sachs et al.",
    key=("first", "second", "method"),
    cells=cells,
    work=work,
    finish=finish,
    full={**_SETTINGS, "conditions": list(SACHS_CONDITIONS), "limit": 120.0},
    quick={**_SETTINGS, "conditions": list(QUICK), "limit": 30.0},
    axes=("methods", "conditions"),
    repeats=("first", "second"),
)
