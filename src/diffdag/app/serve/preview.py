"""What two tables hold, before anything is estimated: which columns can be compared, and why not the others."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diffdag._base.arrays import FloatArray
from diffdag._base.errors import InputError
from diffdag._base.words import join_names, plural
from diffdag.tables.align import align_tables
from diffdag.tables.columns import Source
from diffdag.tables.degenerate import dependent_columns
from diffdag.tables.groups import count_groups, split_groups
from diffdag.tables.moments import Moments
from diffdag.tables.problems import LEAST_ROWS, find_dependent, find_text, raise_problems
from diffdag.tables.readers.endings import TEXT, kind_of
from diffdag.tables.readers.files import read_table

MOST_GROUPS = 20
SPARSE = 0.5  # a column with a larger share of gaps would cost too many rows
WIDEST = 500  # columns of which to look at linear dependence


@dataclass
class Column:
    """One column of the two tables, and whether to compare it."""

    name: str
    why: str = ""  # what is the matter with it
    use: bool = True
    can: bool = True  # whether the user may decide otherwise
    gaps: tuple[int, int] = (0, 0)

    def refuse(self, why: str) -> None:
        """Leave it out for good."""
        self.use, self.can, self.why = False, False, why

    def doubt(self, why: str) -> None:
        """Leave it out unless the user says otherwise."""
        self.use, self.why = False, why


def group_columns(table: Any) -> list[str]:
    """Columns that could name the group of each row, the likeliest first.

    Examples
    --------
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
    same = labels[0] == labels[1]
    names = [f"{label} ({place})" for label, place in zip(labels, ("first", "second"), strict=True)]
    chosen = names if same else labels
    return read_table(paths[0]), read_table(paths[1]), (chosen[0], chosen[1])


def look(
    paths: Sequence[Path],
    labels: Sequence[str],
    *,
    group: str = "",
    first: str = "",
    second: str = "",
    drop: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Describe two files, or two groups of one; without a `group` the likeliest one is looked at.

    `drop` are the columns that the user leaves out; None if that is left to what is found.

    Returns
    -------
    dict
        ``columns``, ``rows`` of both tables and how many have no ``gaps``, their ``labels``, a ``problem`` in
        words if there is one; of a single file also the ``candidates`` for a group column, the ``groups`` of
        the one that was looked at, and the ``choice``.
    """
    if len(paths) == 2:
        one, two, names = read_pair(paths, labels, "", "", "")
        return {"choice": None, **compare(one, two, names, drop, both="both files")}
    table = read_table(paths[0], text=[group] if group else [])
    candidates = group_columns(table)
    if group:
        return _look_at_groups(table, candidates, (group, first, second), drop)
    for likely in candidates:
        with contextlib.suppress(InputError):
            written = _as_written(table, paths[0], likely)
            return _look_at_groups(written, candidates, (likely, "", ""), drop)
    raise InputError(
        f"no column of '{labels[0]}' says to which of two conditions a row belongs (it would hold a few "
        "different values, each in several rows); choose a second file, one for each condition"
    )


def _as_written(table: Any, path: Path, group: str) -> Any:
    """Read a table again if its groups may have been written otherwise: 007 is not 7."""
    text = pa.types.is_string(table.column(group).type) or kind_of(path) not in TEXT
    return table if text else read_table(path, text=[group])


def _look_at_groups(
    table: Any, candidates: list[str], choice: tuple[str, str, str], drop: Sequence[str] | None
) -> dict[str, Any]:
    """Describe two groups of one table: those that are chosen, or else the usual ones."""
    group, first, second = choice
    groups = count_groups(table, group)
    if not (first and second):
        first, second = _usual(groups, group)
    (before, one), (after, two) = split_groups(table, group, [first, second]).items()
    return {
        "candidates": candidates if group in candidates else [group, *candidates],
        "groups": [{"name": name, "rows": rows} for name, rows in groups.items()],
        "choice": {"group": group, "first": before, "second": after},
        **compare(one, two, (before, after), drop, both="both groups"),
    }


def _usual(groups: dict[str, int], group: str) -> tuple[str, str]:
    """The first two groups that have rows enough."""
    enough = [name for name, rows in groups.items() if rows >= LEAST_ROWS]
    if len(enough) < 2:
        raise InputError(
            f"column '{group}' does not name two groups of {LEAST_ROWS} rows or more; choose another column"
        )
    return enough[0], enough[1]


def compare(
    first: Any,
    second: Any,
    labels: tuple[str, str],
    drop: Sequence[str] | None = None,
    *,
    both: str = "both tables",
) -> dict[str, Any]:
    """Describe two tables; `both` is what to call the two of them."""
    sources = [Source.of(table, label) for table, label in zip((first, second), labels, strict=True)]
    columns = {name: Column(name) for source in sources for name in source.names}
    _match(columns, sources)
    open_ones = [column for column in columns.values() if column.use]
    _refuse_text(open_ones, sources, both)
    open_ones = [column for column in open_ones if column.use]
    names = [column.name for column in open_ones]
    values = [source.values(names) for source in sources]
    for k, column in enumerate(open_ones):
        _judge(column, [table[:, k] for table in values], labels, both)
    if drop is not None:
        unwanted = set(drop)
        for column in open_ones:
            column.use = column.can and column.name not in unwanted
    used = [k for k, column in enumerate(open_ones) if column.use]
    return {
        "labels": labels,
        "rows": [source.rows for source in sources],
        "complete": [int((~np.isnan(table[:, used]).any(axis=1)).sum()) for table in values],
        "columns": [asdict(column) for column in columns.values()],
        "problem": _problem(first, second, columns.values(), labels),
    }


def _match(columns: dict[str, Column], sources: Sequence[Source]) -> None:
    """Refuse columns that the two tables do not share, or that cannot be told from others."""
    counts = [Counter(source.names) for source in sources]
    row_labels = set().union(*(source.row_labels() for source in sources))
    for name, column in columns.items():
        present = [source.label for source, count in zip(sources, counts, strict=True) if count[name]]
        if name in row_labels:
            column.refuse("holds row labels")
        elif not name:
            column.refuse("has no name")
        elif len(present) == 1:
            column.refuse(f"only in {present[0]}")
        elif max(count[name] for count in counts) > 1:
            column.refuse("the name appears more than once")


def _refuse_text(columns: Sequence[Column], sources: Sequence[Source], both: str) -> None:
    """Refuse columns of text, in the words in which `align_tables` would."""
    lookup = {column.name: column for column in columns}
    unfit = [column for source in sources for column in source.unfit(list(lookup))]
    for name, found in groupby(sorted(unfit, key=lambda column: column.name), lambda column: column.name):
        problem = find_text([*found])[0]
        why = problem.what.removeprefix(f"column '{name}' ").replace(" in both tables (", f" in {both} (", 1)
        lookup[name].refuse("; ".join(filter(None, [why, problem.fix])))


def _judge(column: Column, values: Sequence[FloatArray], labels: tuple[str, str], both: str) -> None:
    """See whether the numbers of a column can be used."""
    present = [table[~np.isnan(table)] for table in values]
    column.gaps = (len(values[0]) - len(present[0]), len(values[1]) - len(present[1]))
    first, second = (_useless(numbers) for numbers in present)
    if first or second:
        apart = [f"{why}{label}" for why, label in zip((first, second), labels, strict=True) if why]
        column.refuse(f"{first}{both}" if first == second else " and ".join(apart))
        return
    if all(len(numbers) > 2 and (np.diff(numbers) == 1).all() for numbers in present):
        column.doubt("counts the rows")
    elif any(gaps > SPARSE * len(table) for gaps, table in zip(column.gaps, values, strict=True)):
        column.doubt("missing in most rows")
    elif any(column.gaps):
        column.why = " and ".join(_gap_words(column.gaps, labels))


def _useless(numbers: FloatArray) -> str:
    """Why the numbers of one table cannot be used, up to the table's name."""
    if np.isinf(numbers).any():
        return "holds infinite values in "
    if not len(numbers):
        return "empty in "
    return "the same value in every row of " if numbers.min() == numbers.max() else ""


def _gap_words(gaps: tuple[int, int], labels: tuple[str, str]) -> Iterator[str]:
    for count, label in zip(gaps, labels, strict=True):
        if count:
            yield f"missing in {plural(count, 'row')} of {label}"


def _problem(first: Any, second: Any, columns: Any, labels: tuple[str, str]) -> str | None:
    """What would stop the estimation, in words."""
    drop = [column.name for column in columns if not column.use]
    used = [column.name for column in columns if column.use]
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
        return str(error)
    return None
