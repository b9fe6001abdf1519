"""The rows of a machine in many environments, what was done to it in each, and its graph, from a folder."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from diffdag._base.errors import InputError
from diffdag._base.words import join_names, plural
from diffdag.reproduce.experiments.claims import Pair, ancestor_pairs
from diffdag.tables.readers.files import read_table

TABLE, TRUTH, GRAPH = "light_tunnel*.csv.gz", "truth.csv", "graph.csv"
COLUMNS = {TRUTH: ("environment", "what", "source", "target", "how", "visibility"), GRAPH: ("source", "target")}
WHERE, REFERENCE = "environment", "reference"
EXPECTED = (
    f"a folder with one file {TABLE} (a column '{WHERE}', '{REFERENCE}' among its values, and a column of "
    f"numbers per variable), {TRUTH} (columns {', '.join(COLUMNS[TRUTH])}) and {GRAPH} (source, target)"
)
SOURCE = (
    "the rows are those of lt_interventions_standard_v1 of the Causal Chambers (Gamella, Peters and Bühlmann, "
    "doi 10.1038/s42256-024-00964-x)"
)
BLOCKS = 20  # consecutive blocks of the reference, which differ in nothing
# What was done to the machine; `kind_of` says how the truth tells. No edge changed in the last four.
KINDS = {
    "exposure": "exposure time of a sensor",
    "voltage": "reference voltage of a sensor",
    "effects": "other changed effects",
    "range": "range of a cause moved",
    "curved": "range moved, curved response",
    "nothing": "nothing that a column sees",
    "blocks": "blocks of the reference",
}


class Compared(NamedTuple):
    """Two tables to be compared, and the columns that are in neither because one of them has one value."""

    first: pd.DataFrame
    second: pd.DataFrame
    left_out: tuple[str, ...]


class Changed(NamedTuple):
    """Edges that changed in an environment: those that must be found, and those too weak to count."""

    strong: frozenset[Pair]
    weak: frozenset[Pair]


@dataclass(frozen=True, eq=False)
class Machine:
    """All rows, the truth and the graph."""

    rows: pd.DataFrame  # the environment of each row, and the variables
    truth: pd.DataFrame  # of the environments there are
    graph: frozenset[Pair]
    fingerprint: tuple[dict[str, Any], ...]  # what the files hold, without where they are

    @cached_property
    def above(self) -> frozenset[Pair]:
        """Ancestors and descendants."""
        return ancestor_pairs(self.graph)

    @property
    def environments(self) -> dict[str, str]:
        """The kind of each environment but the reference, in the order of the file."""
        names = [name for name in dict.fromkeys(self.rows[WHERE]) if name != REFERENCE]
        return {name: kind_of(self.told(name)) for name in names}

    def told(self, environment: str) -> pd.DataFrame:
        """The rows of the truth about an environment."""
        return self.truth[self.truth[WHERE] == environment]

    def edges(self, environment: str, *, strong: bool) -> pd.DataFrame:
        """The rows of the truth about changed edges: those that must be found, or those too weak to count."""
        told = self.told(environment)
        return told[(told["what"] == "edge") & ((told["visibility"] == "strong") == strong)]

    def changed(self, environment: str) -> Changed:
        """The edges that changed in an environment; in a block of the reference none did."""
        return Changed(*(pairs_of(self.edges(environment, strong=strong)) for strong in (True, False)))

    def values(self, environment: str) -> pd.DataFrame:
        """The variables in an environment."""
        return self.rows[self.rows[WHERE] == environment].drop(columns=WHERE)

    def compared(self, environment: str, block: int | None = None) -> Compared:
        """The reference and an environment, or the rest of the reference and a block of it, from 1 on."""
        reference = self.values(REFERENCE)
        if block is None:
            first, second = reference, self.values(environment)
        else:
            inside = np.array_split(np.arange(len(reference)), BLOCKS)[block - 1]
            first, second = reference.drop(index=reference.index[inside]), reference.iloc[inside]
        constant = [str(name) for name in first if first[name].nunique() < 2 or second[name].nunique() < 2]
        return Compared(first.drop(columns=constant), second.drop(columns=constant), tuple(constant))


def kind_of(told: pd.DataFrame) -> str:
    """What kind of thing was done in an environment, from its rows of the truth; a key of `KINDS`."""
    edges, what = told[told["what"] == "edge"], " ".join(told["what"])
    if len(edges):
        how = " ".join(edges["how"])
        return next((kind for kind in ("exposure", "voltage") if kind in how), "effects")
    if "source distribution" in what:
        return "curved" if "curved" in what else "range"
    return "nothing"


def pairs_of(table: pd.DataFrame) -> frozenset[Pair]:
    """The edges of a table with the columns source and target."""
    return frozenset(zip(table["source"], table["target"], strict=True))


def nominal_factor(how: str) -> float | None:
    """The factor by which slopes were meant to change, from words of the truth.

    >>> nominal_factor("slope / ~8 (exposure time 3 -> 0)"), nominal_factor("slope x ~4.7"), nominal_factor("")
    (0.125, 4.7, None)
    """
    found = re.search(r"slope ([x/]) ~?([\d.]*\d)", how)
    if found is None:
        return None
    return float(found[2]) if found[1] == "x" else 1 / float(found[2])


def read_machine(folder: Path) -> Machine:
    """Read a folder, or say what is missing from it and what is expected."""
    if not folder.is_dir():
        raise InputError(f"'{folder}' is not a folder; give {EXPECTED}; {SOURCE}")
    tables = sorted(folder.glob(TABLE))
    if len(tables) != 1:
        raise InputError(f"'{folder}' has {plural(len(tables), 'file')} {TABLE}; give {EXPECTED}")
    files = {name: folder / name for name in COLUMNS}
    if lost := [name for name, path in files.items() if not path.is_file()]:
        raise InputError(f"'{folder}' has no {join_names(lost)}; give {EXPECTED}")
    rows = read_rows(tables[0])
    truth, graph = (read_words(path, COLUMNS[name]) for name, path in files.items())
    truth = truth[truth[WHERE].isin(set(rows[WHERE]))]
    for name, part in ((TRUTH, truth), (GRAPH, graph)):
        ends = dict.fromkeys([*part["source"], *part["target"]])
        if unknown := [end for end in ends if end and end not in rows]:
            raise InputError(f"'{name}' names {join_names(unknown)}, no column of '{tables[0].name}'")
    edges = pairs_of(graph)
    if any(above == below for above, below in ancestor_pairs(edges)):
        raise InputError(f"'{GRAPH}' has a cycle; a machine's graph has none")
    if foreign := sorted(pairs_of(truth[truth["what"] == "edge"]) - edges):
        raise InputError(
            f"'{TRUTH}' has {join_names(map(' -> '.join, foreign))}, not in '{GRAPH}'; add it there"
        )
    return Machine(rows, truth, edges, fingerprint([tables[0], *files.values()]))


def read_rows(path: Path) -> pd.DataFrame:
    """The table of all environments."""
    rows: pd.DataFrame = read_table(path, text=(WHERE,)).to_pandas(ignore_metadata=True)
    if WHERE not in rows or REFERENCE not in set(rows[WHERE]):
        raise InputError(
            f"'{path.name}' has no column '{WHERE}' with rows of the '{REFERENCE}'; give {EXPECTED}"
        )
    if (rows[WHERE].fillna("") == "").any():
        raise InputError(f"'{path.name}' has rows without an {WHERE}; name it, or remove them")
    numbers = rows.drop(columns=WHERE).select_dtypes("number").dropna(axis="columns")
    if wrong := [name for name in rows if name not in numbers and name != WHERE]:
        raise InputError(f"'{path.name}' has something other than numbers in {join_names(wrong)}; remove it")
    return rows


def read_words(path: Path, columns: Iterable[str]) -> pd.DataFrame:
    """A table of text, empty where a cell is."""
    words: pd.DataFrame = read_table(path, text=tuple(columns)).to_pandas(ignore_metadata=True)
    if lost := [name for name in columns if name not in words]:
        raise InputError(f"'{path.name}' has no column {join_names(lost)}; give {EXPECTED}")
    return words.fillna("").astype(str)


def fingerprint(paths: Iterable[Path]) -> tuple[dict[str, Any], ...]:
    """Names and contents of files."""
    return tuple({"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()} for path in paths)
