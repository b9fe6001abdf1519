"""What two tables hold, before anything is estimated: which columns can be compared, and why not the others."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diffdag._base.arrays import FloatArray
from diffdag._base.errors import InputError, raise_problems
from diffdag._base.words import join_names, plural
from diffdag.tables.align import align_tables
from diffdag.tables.degenerate import dependent_columns
from diffdag.tables.groups import count_groups, split_groups
from diffdag.tables.inspect import ColumnReport, inspect_columns
from diffdag.tables.moments import Moments
from diffdag.tables.problems import LEAST_ROWS, describe_text, find_dependent
from diffdag.tables.readers.endings import TEXT, kind_of
from diffdag.tables.readers.files import read_table

MOST_GROUPS = 20
SPARSE = 0.5  # a column with a larger share of gaps would lose too many rows
WIDEST = 500  # columns of which to look at linear dependence
# What is the matter with a column, by its fault: with its name, or with its values in one table or both.
_NAMED = {
    "row-labels": "holds row labels",
    "no-name": "has no name",
    "duplicate-name": "the name appears more than once",
}
_FAULTS = {
    "infinite": "holds infinite values in",
    "empty": "empty in",
    "constant": "the same value in every row of",
    "extreme-scale": "varies by too little or too much to be squared in",
}


def group_columns(table: Any) -> list[str]:
    """Columns that could name the group of each row, the likeliest first.

    >>> import pyarrow as pa
    >>> rows = {"x": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], "dose": ["a", "a", "a", "b", "b", "b"]}
    >>> group_columns(pa.table(rows))
    ['dose']
    """
    ranked = []
    names = table.column_names
    counts = Counter(names)
    for place, (name, column) in enumerate(zip(names, table.columns, strict=True)):
        if counts[name] > 1 or not name or not _may_name_groups(column):
            continue
        sizes = pc.value_counts(column.drop_null()).field("counts").to_numpy()
        if 2 <= len(sizes) <= MOST_GROUPS and np.sort(sizes)[-2] >= LEAST_ROWS:
            ranked.append((_holds_numbers(column), len(sizes) != 2, place, name))
    return [name for *_, name in sorted(ranked)]


def _may_name_groups(column: Any) -> bool:
    kind = column.type
    if pa.types.is_floating(kind):  # whole numbers with gaps between them are read as such
        values = column.slice(0, 1000).drop_null().cast(pa.float64())  # half precision cannot be rounded
        return bool(pc.all(pc.equal(values, pc.round(values))).as_py())
    tests = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_string, pa.types.is_large_string)
    return pa.types.is_dictionary(kind) or any(test(kind) for test in tests)


def _holds_numbers(column: Any) -> bool:
    """Whether a column holds numbers, or texts that look like them."""
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return True
    texts = pc.unique(column.drop_null()).to_pylist()
    return all(str(text).lstrip("-").removesuffix(".0").isdecimal() for text in texts)


def read_pair(
    paths: Sequence[Path], labels: Sequence[str], group: str, first: str, second: str
) -> tuple[Any, Any, tuple[str, str]]:
    """Two tables and what to call them: two files, or two groups of one."""
    if len(paths) == 1:
        table = read_table(paths[0], text=[group])
        (one, before), (two, after) = split_groups(table, group, [first, second]).items()
        return before, after, (one, two)
    one, two = labels
    names = (one, two) if one != two else (f"{one} (first)", f"{two} (second)")
    return read_table(paths[0]), read_table(paths[1]), names


def preview_tables(
    paths: Sequence[Path],
    labels: Sequence[str],
    *,
    group: str = "",
    first: str = "",
    second: str = "",
    drop: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Describe two files, or two groups of one; without a `group` the likeliest one is looked at.

    `drop` are the columns that the user leaves out; None if that is left to what is found. To what `compare`
    returns, a single file adds `candidates` for a group column, and `groups` and `choice` of the one looked at.
    """
    if len(paths) == 2:
        one, two, names = read_pair(paths, labels, "", "", "")
        return {"choice": None, **compare(one, two, names, drop, "both files")}
    table = read_table(paths[0], text=[group] if group else [])
    candidates = group_columns(table)
    if group:
        return _preview_groups(table, candidates, (group, first, second), drop)
    for likely in candidates:
        with contextlib.suppress(InputError):
            written = _as_written(table, paths[0], likely)
            return _preview_groups(written, candidates, (likely, "", ""), drop)
    raise InputError(
        f"no column of '{labels[0]}' says to which of two conditions a row belongs (it would hold a few "
        "different values, each in several rows); choose a second file, one for each condition"
    )


def _as_written(table: Any, path: Path, group: str) -> Any:
    """Read a table again if its groups may have been written otherwise: 007 is not 7."""
    text = pa.types.is_string(table.column(group).type) or kind_of(path) not in TEXT
    return table if text else read_table(path, text=[group])


def _preview_groups(
    table: Any, candidates: list[str], choice: tuple[str, str, str], drop: Sequence[str] | None
) -> dict[str, Any]:
    """Describe two groups of one table: those that are chosen, or else the first that have rows enough."""
    group, first, second = choice
    groups = count_groups(table, group)
    if not (first and second):
        enough = [name for name, rows in groups.items() if rows >= LEAST_ROWS]
        if len(enough) < 2:
            raise InputError(
                f"column '{group}' does not name two groups of {LEAST_ROWS} rows or more; choose another column"
            )
        first, second = enough[:2]
    (before, one), (after, two) = split_groups(table, group, [first, second]).items()
    return {
        "candidates": candidates if group in candidates else [group, *candidates],
        "groups": [{"name": name, "rows": rows} for name, rows in groups.items()],
        "choice": {"group": group, "first": before, "second": after},
        **compare(one, two, (before, after), drop, "both groups"),
    }


def compare(
    first: Any,
    second: Any,
    labels: tuple[str, str],
    drop: Sequence[str] | None = None,
    both: str = "both tables",
) -> dict[str, Any]:
    """Describe two tables; `both` is what to call the two of them."""
    seen = inspect_columns(first, second, labels=labels)
    place = {name: k for k, name in enumerate(seen.names)}
    columns: list[dict[str, Any]] = []
    unwanted = None if drop is None else set(drop)
    for report in seen.columns:
        fault = _fault_words(report, labels, both)
        k = place.get(report.name)
        doubt = "" if fault or k is None else _doubt(report, [array[:, k] for array in seen.arrays])
        can = not any(report.faults)
        use = can and (not doubt if unwanted is None else report.name not in unwanted)
        found = zip(report.gaps, labels, strict=True)
        gaps = [f"missing in {plural(count, 'row')} of {label}" for count, label in found if count]
        why = fault or doubt or " and ".join(gaps)
        columns.append({"name": report.name, "why": why, "use": use, "can": can, "gaps": report.gaps})
    used = [place[column["name"]] for column in columns if column["use"]]
    return {
        "labels": labels,
        "rows": [source.rows for source in seen.sources],
        "complete": [int((~np.isnan(array[:, used]).any(axis=1)).sum()) for array in seen.arrays],
        "columns": columns,
        "problem": _problem(first, second, columns, labels),
    }


def _fault_words(report: ColumnReport, labels: tuple[str, str], both: str) -> str:
    """Why a column cannot be compared."""
    text = [column for column in report.text if column is not None]
    if text:  # one word makes all numbers of a file's column texts: that word is the fault
        text.sort(key=lambda column: column.kind == "numbers")
        return "; ".join(filter(None, describe_text(text, both)))
    if "unmatched" in report.faults:
        return f"only in {labels[report.faults[0] == 'unmatched']}"
    faults = [fault for fault in report.faults if fault]
    if faults and faults[0] in _NAMED:
        return _NAMED[faults[0]]
    if len(faults) == 2 and faults[0] == faults[1]:
        return f"{_FAULTS[faults[0]]} {both}"
    found = zip(report.faults, labels, strict=True)
    return " and ".join(f"{_FAULTS[fault]} {label}" for fault, label in found if fault)


def _doubt(report: ColumnReport, values: Sequence[FloatArray]) -> str:
    """Why a column should be left out unless the user says otherwise."""
    present = [table[~np.isnan(table)] for table in values]
    if all(len(numbers) > 2 and (np.diff(numbers) == 1).all() for numbers in present):
        return "counts the rows"
    sparse = any(gaps > SPARSE * len(table) for gaps, table in zip(report.gaps, values, strict=True))
    return "missing in most rows" if sparse else ""


def _problem(first: Any, second: Any, columns: Sequence[dict[str, Any]], labels: tuple[str, str]) -> str | None:
    """What would stop the estimation, in words."""
    drop = [column["name"] for column in columns if not column["use"]]
    used = [column["name"] for column in columns if column["use"]]
    if len(used) < 2:
        which = f": {join_names(used)}" if used else ""
        return (
            f"the two tables share {plural(len(used), 'column')} of numbers that can be compared{which}; "
            "at least 2 are needed"
        )
    try:
        tables = align_tables(first, second, drop=drop, missing="drop", labels=labels)
        if len(used) <= WIDEST:
            both = [Moments.from_array(values, tables.names) for values in (tables.first, tables.second)]
            dependent = [dependent_columns(moments.n, moments.scatter) for moments in both]
            raise_problems(find_dependent([[tables.names[k] for k in found] for found in dependent], labels))
    except InputError as error:
        return error.words("page")
    return None
