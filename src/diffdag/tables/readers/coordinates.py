"""Where brain regions are: names and three coordinates in mm, x to the right, y to the front, z up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from diffdag._base.errors import InputError
from diffdag._base.words import join_names

if TYPE_CHECKING:
    import pandas as pd

Place: TypeAlias = tuple[float, float, float]
Coordinates: TypeAlias = "Mapping[str, Sequence[float]] | pd.DataFrame"

NAMES, AXES = ("region", "name"), ("x", "y", "z")


def read_coordinates(path: str | Path) -> dict[str, Place]:
    r"""Read the places of brain regions from a table.

    Parameters
    ----------
    path : path-like
        A CSV, TSV, Parquet or Feather file, with a row for each region and the columns
        ``region`` (or ``name``), ``x``, ``y`` and ``z`` in mm: x to the right, y to the front, z up, as in MNI
        space. More columns do no harm.

    Returns
    -------
    dict of str to (float, float, float)
        The places by name.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "regions.csv"
    ...     _ = file.write_text("region,x,y,z\nV1_L,-8,-92,2\nV1_R,8,-92,2\n")
    ...     read_coordinates(file)
    {'V1_L': (-8.0, -92.0, 2.0), 'V1_R': (8.0, -92.0, 2.0)}
    """
    from diffdag.tables.readers.files import read_table  # noqa: PLC0415

    spellings = [word for name in NAMES for word in (name, name.title(), name.upper())]
    table = read_table(path, text=spellings)
    if not hasattr(table, "to_pandas"):
        raise InputError(f"'{path}' is no table of regions; give one with the columns region, x, y, z, as CSV")
    # Damaged metadata must not matter; an index that they tell of is a column here.
    return check_coordinates(table.to_pandas(ignore_metadata=True), f"'{Path(path).name}'")


def check_coordinates(coordinates: Coordinates, label: str = "coordinates") -> dict[str, Place]:
    """Return places by name from a mapping, or from a table with names in a column or as its index.

    >>> check_coordinates({"V1": [8, -92, 2]})
    {'V1': (8.0, -92.0, 2.0)}
    """
    pairs = list(coordinates.items()) if isinstance(coordinates, Mapping) else _rows(coordinates, label)
    places: dict[str, Place] = {}
    repeated = []
    for name, values in pairs:
        if name is None or not str(name).strip() or name != name:  # noqa: PLR0124 - NaN is not itself
            raise InputError(f"a row of {label} has no name of its region; fill it in")
        repeated += [name] if str(name) in places else []
        places[str(name)] = _place(name, values, label)
    if repeated:
        raise InputError(f"{join_names(repeated)} appears more than once in {label}; name each region once")
    if not places:
        raise InputError(f"{label} has no regions; give a name and x, y, z for each")
    return places


def _place(name: object, values: Any, label: str) -> Place:
    try:
        numbers = [float(value) for value in values]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) != 3 or not all(map(math.isfinite, numbers)):
        raise InputError(f"{name!r} of {label} has not three numbers as x, y, z; fill them in, in mm")
    return numbers[0], numbers[1], numbers[2]


def _rows(table: Any, label: str) -> list[tuple[Any, Any]]:
    """Names and numbers of a table; headers in any case."""
    if not hasattr(table, "columns"):
        raise InputError(
            f"{label} is of type {type(table).__name__}; give a table with the columns region, x, y, z, "
            "or a mapping of names to (x, y, z)"
        )
    frame = table if hasattr(table, "index") else table.to_pandas()  # polars
    spelled = [str(column).strip().lower() for column in frame.columns]
    lost = [axis for axis in AXES if axis not in spelled]
    named = next((name for name in NAMES if name in spelled), None)
    if named is None and frame.index.dtype.kind in "iuf":
        lost.append("region")
    if lost:
        raise InputError(f"{label} has no column {join_names(lost)}; it needs region, x, y and z")
    repeated = [name for name in (*AXES, named or "region") if spelled.count(name) > 1]
    if repeated:
        raise InputError(f"{label} has the column {join_names(repeated)} more than once; leave one of them")
    frame = frame.set_axis(spelled, axis=1)
    names = frame.index if named is None else frame[named]
    return list(zip(names, zip(*(frame[axis] for axis in AXES), strict=True), strict=True))
