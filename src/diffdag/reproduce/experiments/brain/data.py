"""Two groups of measurements over named brain regions, from a user's folder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from diffdag._base.errors import InputError
from diffdag._base.words import join_names, plural
from diffdag.model.simulate import SEMPair
from diffdag.tables.readers.coordinates import check_coordinates
from diffdag.tables.readers.files import read_table

COORDINATES = ("region", "x", "y", "z")
ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".parquet", ".pq", ".feather", ".arrow")
ROW_LABELS = ("", "Unnamed: 0")  # how R and pandas head the row labels they write
UNKNOWN = "unknown"


@dataclass(frozen=True, eq=False)
class Study:
    """Two tables, with one row per time point or subject and one column per region."""

    first: Any  # DataFrame or Arrow table
    second: Any
    regions: pd.DataFrame  # region, label, lobe, x, y, z, one row per column of the tables
    atlas: pd.DataFrame  # these columns for all regions there are: a small study looks at some of them
    truth: SEMPair | None = None  # the models behind the tables, if they are invented

    @classmethod
    def read(cls, files: Folder) -> Self:
        """The tables and regions of a folder."""
        regions = read_regions(files.coordinates)
        tables = [files.tables[path] for path in (files.first, files.second)]
        known = set(regions["region"])
        for path, table in zip((files.first, files.second), tables, strict=True):
            lost = [name for name in table.column_names if name not in ROW_LABELS and name not in known]
            if lost:
                raise InputError(
                    f"'{path.name}' has {join_names(lost)}, not among the regions of "
                    f"'{files.coordinates.name}'; add the coordinates, or remove the column"
                )
        one, two = (set(table.column_names) for table in tables)
        one_sided = [name for name in regions["region"] if (name in one) != (name in two)]
        if one_sided:
            raise InputError(f"{join_names(one_sided)} in one of the two tables only; remove it, or add it")
        measured = regions[regions["region"].isin(one)].reset_index(drop=True)
        return cls(tables[0], tables[1], measured, regions)


@dataclass(frozen=True, eq=False)
class Folder:
    """Three files of a folder: the coordinates, and the tables of the two groups in order of their names."""

    coordinates: Path
    first: Path
    second: Path
    tables: Mapping[Path, Any]

    def fingerprint(self) -> list[dict[str, Any]]:
        """What the files hold, without where they are."""
        return [
            {
                "file": path.name,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                "rows": self.tables[path].num_rows,
            }
            for path in (self.coordinates, self.first, self.second)
        ]


def find_files(folder: Path) -> Folder:
    """Tell the files of a folder by what they hold.

    The coordinates are the table with columns ``region, x, y, z`` (and, if there, ``lobe, label, hemisphere``);
    the groups are the two tables that have such regions among their columns.
    """
    if not folder.is_dir():
        raise InputError(f"'{folder}' is not a folder; give one with two tables and their regions' coordinates")
    tables, reasons = {}, ""  # in order of the names, and what could not be read
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name.lower().endswith(ENDINGS):
            try:
                tables[path] = read_table(path)
            except InputError as error:
                reasons += f" ({error})"
    places = [path for path, table in tables.items() if set(COORDINATES) <= set(table.column_names)]
    if len(places) != 1:
        raise InputError(
            f"'{folder}' has {plural(len(places), 'table')} with the columns region, x, y, z; one is needed"
            + reasons
        )
    regions = {str(name) for name in tables[places[0]]["region"].to_pylist()}
    groups = [
        path
        for path, table in tables.items()
        if path not in places and len(regions.intersection(table.column_names)) > 1
    ]
    if len(groups) != 2:
        raise InputError(
            f"'{folder}' has {plural(len(groups), 'table')} with regions of '{places[0].name}' as columns; "
            f"two are needed, one per group{reasons}"
        )
    return Folder(places[0], groups[0], groups[1], tables)


def read_regions(path: Path) -> pd.DataFrame:
    """The coordinates table, with labels and lobes filled in where the file has none."""
    table = read_table(path, text=("region", "label", "lobe")).to_pandas(ignore_metadata=True)
    places = check_coordinates(table, f"'{path.name}'")
    regions = pd.DataFrame({"region": list(places)})
    regions["label"] = table["label"].astype(str) if "label" in table else regions["region"]
    regions["lobe"] = table["lobe"].fillna(UNKNOWN).astype(str) if "lobe" in table else UNKNOWN
    regions[["x", "y", "z"]] = list(places.values())
    return regions


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table, with None where a cell is empty."""
    rows = table.to_dict("records")
    return [{str(key): None if pd.isna(value) else value for key, value in row.items()} for row in rows]


def from_the_back(regions: pd.DataFrame, most: int | None) -> pd.DataFrame:
    """At most so many regions: lobe by lobe from the back of the brain, where the paper's changes are."""
    if most is None or len(regions) <= most:
        return regions
    depth = regions.groupby("lobe")["y"].transform("mean")
    places = np.lexsort((regions["y"], regions["lobe"], depth))[:most]
    return regions.iloc[np.sort(places)].reset_index(drop=True)
