"""Two groups of measurements over named brain regions: a user's folder, or invented ones of the paper's size.

The appendix of Ghoshal, Bello and Honorio has 157 regions left and right (cerebrum, cerebellum, brainstem), of
which 12, most of them visual, take part in the difference DAG. The invented brain has the same numbers: its
connections are between neighbours and mirror images, and only effects between 12 occipital regions change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffdag.files import read_table
from diffdag.sem import LinearSEM, SEMPair
from diffdag.validation import InputError, join_names, plural

FloatArray = NDArray[np.float64]

COORDINATES = ("region", "x", "y", "z")
ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".parquet", ".pq", ".feather", ".arrow")
ROW_LABELS = ("", "Unnamed: 0")  # how R and pandas head the row labels they write
UNKNOWN = "unknown"

# The right half of the invented brain: letters of the labels, regions, centre and half axes (mm, MNI-like).
LOBES: dict[str, tuple[str, int, tuple[float, float, float], tuple[float, float, float]]] = {
    "Frontal": ("Fr", 20, (27, 24, 25), (21, 38, 37)),
    "Parietal": ("Pa", 13, (29, -36, 48), (25, 28, 21)),
    "Temporal": ("Te", 14, (50, -22, -12), (11, 35, 15)),
    "Occipital": ("Oc", 10, (21, -83, 8), (15, 13, 24)),
    "Subcortical": ("Su", 9, (15, -6, 3), (10, 20, 11)),
    "Cerebellum": ("Ce", 11, (24, -62, -38), (18, 16, 10)),
}
BRAINSTEM = ((0.0, -25.0, -12.0), (0.0, -29.0, -27.0), (0.0, -34.0, -43.0))
WHERE = "Occipital"
TAKE_PART = 12
NEAREST = 5
WEIGHTS, CHANGED_WEIGHTS = (0.15, 0.35), (0.4, 0.7)


@dataclass(frozen=True, eq=False)
class Study:
    """Two tables over the same regions.

    Attributes
    ----------
    first, second : DataFrame or Arrow table
        One row a time point or subject, one column a region.
    regions : DataFrame
        ``region, label, lobe, x, y, z``, one row a column of the tables.
    atlas : DataFrame
        The same of all regions there are: a small study looks at some of them.
    truth : SEMPair, optional
        The models behind the tables, if they are invented.
    """

    first: Any
    second: Any
    regions: pd.DataFrame
    atlas: pd.DataFrame
    truth: SEMPair | None = None


# --- a user's folder ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Folder:
    """Three files of a folder: the coordinates, and the tables of the two groups in order of their names."""

    coordinates: Path
    first: Path
    second: Path

    def fingerprint(self) -> list[dict[str, Any]]:
        """What the files hold, without where they are."""
        return [
            {
                "file": path.name,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                "rows": read_table(path).num_rows,
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
    tables, reasons = _read_all(folder)
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
            f"two are needed, one a group{reasons}"
        )
    return Folder(places[0], groups[0], groups[1])


def _read_all(folder: Path) -> tuple[dict[Path, Any], str]:
    """Every table in order of the names, and what could not be read."""
    tables, reasons = {}, []
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name.lower().endswith(ENDINGS):
            try:
                tables[path] = read_table(path)
            except InputError as error:
                reasons.append(str(error))
    return tables, "".join(f" ({reason})" for reason in reasons)


def read_study(folder: Path) -> Study:
    """The tables and regions of a folder."""
    files = find_files(folder)
    regions = read_regions(files.coordinates)
    tables = [read_table(path) for path in (files.first, files.second)]
    known = set(regions["region"])
    for path, table in zip((files.first, files.second), tables, strict=True):
        names = [name for name in table.column_names if name not in ROW_LABELS]
        lost = [name for name in names if name not in known]
        if lost:
            raise InputError(
                f"'{path.name}' has {join_names(lost)}, not among the regions of '{files.coordinates.name}'; "
                "add the coordinates, or remove the column"
            )
    shared = [set(table.column_names) for table in tables]
    one_sided = [name for name in regions["region"] if (name in shared[0]) != (name in shared[1])]
    if one_sided:
        raise InputError(f"{join_names(one_sided)} in one of the two tables only; remove it, or add it")
    measured = regions[regions["region"].isin(shared[0])].reset_index(drop=True)
    return Study(tables[0], tables[1], measured, regions)


def read_regions(path: Path) -> pd.DataFrame:
    """The coordinates table, with labels and lobes filled in where the file has none."""
    table = read_table(path, text=("region", "label", "lobe")).to_pandas()
    regions = pd.DataFrame({"region": table["region"].astype(str)})
    regions["label"] = table["label"].astype(str) if "label" in table else regions["region"]
    regions["lobe"] = table["lobe"].fillna(UNKNOWN).astype(str) if "lobe" in table else UNKNOWN
    for axis in "xyz":
        regions[axis] = pd.to_numeric(table[axis], errors="coerce").astype(float)
        wrong = regions.loc[~np.isfinite(regions[axis]), "region"]
        if len(wrong):
            raise InputError(f"{join_names(wrong)} of '{path.name}' has no number as {axis}; fill it in")
    repeated = regions.loc[regions["region"].duplicated(), "region"]
    if len(repeated):
        raise InputError(
            f"{join_names(repeated)} appears more than once in '{path.name}'; name each region once"
        )
    return regions


def from_the_back(regions: pd.DataFrame, most: int | None) -> pd.DataFrame:
    """At most so many regions: lobe by lobe from the back of the brain, where the paper's changes are."""
    if most is None or len(regions) <= most:
        return regions
    depth = regions.groupby("lobe")["y"].transform("mean")
    places = np.lexsort((regions["y"], regions["lobe"], depth))[:most]
    return regions.iloc[np.sort(places)].reset_index(drop=True)


# --- invented data -----------------------------------------------------------------------------------------


def invent_study(n: int, seed: int, most: int | None = None) -> Study:
    """Tables of `n` independent rows each, drawn from two known models over invented regions."""
    atlas = invent_regions()
    regions = from_the_back(atlas, most)
    rng = np.random.default_rng(seed)
    pair = invent_models(regions, rng)
    first, second = (
        pd.DataFrame(model.sample(n, rng), columns=list(model.names)) for model in (pair.first, pair.second)
    )
    return Study(first, second, regions, atlas, pair)


def invent_regions() -> pd.DataFrame:
    """157 regions: 77 left, their mirror images right, three of the brainstem in the middle.

    >>> invent_regions()["lobe"].value_counts()["Occipital"]
    np.int64(20)
    """
    return pd.DataFrame(_invented(), columns=["region", "label", "lobe", "x", "y", "z"])


def _invented() -> Iterator[tuple[str, str, str, float, float, float]]:
    for lobe, (letters, count, centre, axes) in LOBES.items():
        points = np.asarray(centre) + np.asarray(axes) * _spiral(count)
        for k, (x, y, z) in enumerate(points.round(1), start=1):
            for side, sign in (("L", -1), ("R", 1)):
                yield (
                    f"{lobe}_{k:02d}_{side}",
                    f"{letters}{k}.{side}",
                    lobe,
                    float(sign * x),
                    float(y),
                    float(z),
                )
    for k, (x, y, z) in enumerate(BRAINSTEM, start=1):
        yield f"Brainstem_{k:02d}", f"Bs{k}", "Brainstem", x, y, z


def _spiral(count: int) -> FloatArray:
    """Points spread evenly over the unit sphere, along a spiral with the golden angle."""
    k = np.arange(count) + 0.5
    height = 1 - 2 * k / count
    turn = np.pi * (1 + 5**0.5) * k
    radius = np.sqrt(1 - height**2)
    return np.column_stack([radius * np.cos(turn), radius * np.sin(turn), height])


def invent_models(regions: pd.DataFrame, rng: np.random.Generator) -> SEMPair:
    """Effects between neighbours and mirror images, along a random order; some occipital ones change.

    The changed effects form a tree over 12 occipital regions: each but the first in the order has one changed
    effect, of the nearest before it. Half of them are there in the first model only, half in the second only.
    Noise variances are one in both.
    """
    names, p = tuple(regions["region"]), len(regions)
    rank = rng.permutation(p)
    distance = _distances(regions)
    shared = np.zeros((p, p))
    for i, j in _neighbours(regions, distance):
        effect, cause = (i, j) if rank[i] > rank[j] else (j, i)
        shared[effect, cause] = rng.uniform(*WEIGHTS) * rng.choice([1, 1, 1, -1])
    first, second = shared.copy(), shared.copy()
    visual = np.flatnonzero(regions["lobe"] == WHERE)
    chosen = rng.choice(visual, TAKE_PART, replace=False)
    chosen = chosen[np.argsort(rank[chosen])]
    for k, effect in enumerate(chosen[1:], start=1):
        cause = min(chosen[:k], key=lambda j: float(distance[effect, j]))
        weight = rng.uniform(*CHANGED_WEIGHTS) * rng.choice([-1, 1])
        first[effect, cause], second[effect, cause] = (weight, 0.0) if k % 2 else (0.0, weight)
    return SEMPair(LinearSEM(first, names=names), LinearSEM(second, names=names))


def _distances(regions: pd.DataFrame) -> FloatArray:
    places = regions[["x", "y", "z"]].to_numpy(float)
    return np.asarray(np.linalg.norm(places[:, None] - places[None, :], axis=2))


def _neighbours(regions: pd.DataFrame, distance: FloatArray) -> list[tuple[int, int]]:
    """Pairs i < j: each region with the nearest others and with its mirror image."""
    pairs = set()
    place = {name: k for k, name in enumerate(regions["region"])}
    for i, name in enumerate(regions["region"]):
        others = list(np.argsort(distance[i], kind="stable")[1 : NEAREST + 1])
        mirror = place.get(f"{name[:-1]}R") if name.endswith("_L") else None
        if mirror is not None:
            others.append(mirror)
        pairs |= {(min(i, int(j)), max(i, int(j))) for j in others}
    return sorted(pairs)


def load_study(folder: Path | None, settings: Mapping[str, Any]) -> Study:
    """The data of an experiment with these settings."""
    if folder is None:
        return invent_study(settings["n"], settings["seed"], settings["most"])
    study = read_study(folder)
    return replace(study, regions=from_the_back(study.regions, settings["most"]))
