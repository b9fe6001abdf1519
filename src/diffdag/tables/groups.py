"""Groups of one table: a column that names the group of each row, and the rows of each group."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from diffdag._base.arrays import BoolArray
from diffdag._base.errors import TURN, InputError
from diffdag._base.words import join_names, plural
from diffdag.tables.columns import as_arrow, is_missing, plain_categories
from diffdag.tables.readers.h5ad import Cells, is_anndata
from diffdag.tables.readers.provenance import mark_group

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
_WHOLE = re.compile(r"-?\d+\.0")
_NO_GROUP = "\0(missing)"  # which no group is called


def split_groups(frame: Any, group: str, groups: Sequence[object] | None = None) -> dict[str, Any]:
    """Split one table by a column that names the group of each row.

    Parameters
    ----------
    frame : pandas, polars or Arrow table, or AnnData
        Polars frames come back as Arrow tables.
    group : str
        The column, of AnnData one of ``obs``; it is left out of the tables returned.
    groups : sequence, optional
        The groups wanted, matched as text, in this order. Left out, all of them in alphabetical order, numbers
        by size, whichever row comes first; then no row may be without a group.

    Returns
    -------
    dict of str to frame
        The groups as text, each with its rows.

    Raises
    ------
    InputError
        If there is no such column, or no such group, or if a row belongs to no group.

    See Also
    --------
    fit_conditions : compares the tables returned.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"x": [1, 2, 3], "dose": ["none", "high", "none"]})
    >>> {name: part["x"].tolist() for name, part in split_groups(table, "dose").items()}
    {'high': [2], 'none': [1, 3]}
    >>> none, high = split_groups(table, "dose", ["none", "high"]).values()
    """
    counts, rows_of = _groups(frame, group)
    if groups is None and _NO_GROUP in counts:
        raise InputError(
            f"column '{group}' names no group in {counts[_NO_GROUP]} of {plural(counts.total(), 'row')}; fill "
            "it in, or name the groups to compare"
        )
    if isinstance(groups, str):
        raise InputError(f"the groups are the text '{groups}'; give a list of groups")
    wanted = list(counts) if groups is None else [find_group(value, counts) for value in groups]
    absent = [text for text in wanted if text not in counts]
    if absent:
        raise InputError(f"column '{group}' has no group {join_names(absent)}; it holds {counted(counts)}")
    repeated = [text for text, times in Counter(wanted).items() if times > 1]
    if repeated:
        raise InputError(f"group {join_names(repeated)} is chosen twice; choose others of {counted(counts)}")
    return {text: rows_of(text) for text in wanted}


def count_groups(frame: Any, group: str) -> dict[str, int]:
    """Count the rows of each group that a column names, in the order of `split_groups`.

    Rows that belong to no group are left out.

    >>> import pandas as pd
    >>> count_groups(pd.DataFrame({"x": [1, 2, 3], "dose": ["none", "high", "none"]}), "dose")
    {'high': 1, 'none': 2}
    """
    counts, _ = _groups(frame, group)
    return {text: rows for text, rows in counts.items() if text != _NO_GROUP}


def _groups(frame: Any, group: str) -> tuple[Counter[str], Callable[[str], Any]]:
    """How many rows each group has, and a function that gives them, without the column that names them."""
    if isinstance(frame, np.ndarray):
        raise InputError("an array has no group column; give a table with column names")
    cells = isinstance(frame, Cells) or is_anndata(frame)
    table = frame if cells or isinstance(frame, pd.DataFrame) else as_arrow(frame, "first")
    labelled = table.obs if cells else table
    arrow = isinstance(table, pa.Table)
    names = [str(name) for name in (table.column_names if arrow else labelled.columns)]
    if names.count(group) != 1:
        problem = "appears more than once" if group in names else "does not exist"
        where = "the columns of obs are" if cells else "the columns are"
        if group not in names and not cells and _names_rows(table, group):
            raise InputError(
                f"group column '{group}' does not exist, but the first column names a row so; if rows are "
                "variables, ",
                TURN,
            )
        close = [] if group in names else [name for name in names if str(name).lower() == str(group).lower()]
        hint = f"did you mean '{close[0]}'?" if close else f"{where} {join_names(names)}"
        raise InputError(f"group column '{group}' {problem}; {hint}")
    place = names.index(group)
    column = table.column(place).to_pylist() if arrow else labelled.iloc[:, place]
    texts = [group_text(value) for value in column]
    # How whole numbers are written where some are missing.
    if all(text == _NO_GROUP or _WHOLE.fullmatch(text) for text in texts):
        texts = [text.removesuffix(".0") for text in texts]

    def rows_of(label: str) -> Any:
        rows = np.array([text == label for text in texts])
        if isinstance(table, pd.DataFrame):
            return table.loc[rows, [name != group for name in names]]
        if isinstance(table, Cells):
            return table.take(rows)
        if is_anndata(table):
            return table[rows]
        return mark_group(_filtered(table, place, rows), table, rows, label)

    counts = Counter(texts)
    ordered = sorted(counts, key=lambda text: (text == _NO_GROUP, natural(text)))
    return Counter({text: counts[text] for text in ordered}), rows_of


def _names_rows(table: Any, name: str) -> bool:
    """Whether the first column of a table names one of its rows so."""
    first = table.iloc[:, :1].to_numpy().ravel().tolist() if isinstance(table, pd.DataFrame) else None
    values = first if first is not None else table.column(0).to_pylist() if table.num_columns else []
    return [value for value in values if isinstance(value, str)].count(name) == 1


@lru_cache(maxsize=4096)
def natural(text: str) -> tuple[object, ...]:
    """A key that sorts texts by alphabet, and numbers, alone or in them, by size.

    >>> sorted(["day 10", "Day 2", "10", "9.5", "-1"], key=natural)
    ['-1', '9.5', '10', 'Day 2', 'day 10']
    """
    if _NUMBER.fullmatch(text):
        return 0, float(text), text
    pieces = []
    for k, part in enumerate(re.split(r"(\d+)", text.casefold())):
        number = part.lstrip("0")
        pieces.append((len(number), number) if k % 2 else (0, part))  # digits stand at odd places
    return 1, pieces, text


def _filtered(table: Any, place: int, rows: BoolArray) -> Any:
    """Some rows of an Arrow table, without the column that names groups."""
    rest = table.remove_column(place)
    for k, kind in enumerate(rest.schema.types):
        if "view" not in str(kind):  # text as polars keeps it, of which Arrow cannot take some rows
            continue
        if pa.types.is_dictionary(kind):
            rest = rest.set_column(
                k, rest.column_names[k], plain_categories(rest.column(k), ordered=kind.ordered)
            )
        else:
            rest = rest.set_column(k, rest.column_names[k], pa.array(rest.column(k).to_pylist()))
    return rest.filter(pa.array(rows))


def group_text(value: object) -> str:
    """Text of a group; a whole number is the same group whether an integer or a float holds it."""
    if is_missing(value) or (isinstance(value, str) and not value):
        return _NO_GROUP
    return str(int(value)) if isinstance(value, (float, np.floating)) and value.is_integer() else str(value)


def find_group(value: object, groups: Iterable[str]) -> str:
    """Text of the group that a user means: the same text, else the same number, else the same in other cases.

    >>> find_group("0", ["0.0", "0.5"]), find_group(1.0, ["0", "1"]), find_group("true", ["False", "True"])
    ('0.0', '1', 'True')
    """
    text, known = group_text(value), list(groups)
    if text in known:
        return text
    number = float(text) if _NUMBER.fullmatch(text) else None
    same = [
        group for group in known if number is not None and _NUMBER.fullmatch(group) and float(group) == number
    ]
    same = same or [group for group in known if group.casefold() == text.casefold()]
    return same[0] if len(same) == 1 else text


def counted(counts: Mapping[str, int]) -> str:
    """Groups and their rows in words, at most a dozen of them."""
    named = [(text.removeprefix("\0"), rows) for text, rows in counts.items()]
    found = ", ".join(f"'{text}' ({plural(rows, 'row')})" for text, rows in named[:12])
    return found + (f" and {len(counts) - 12} more" if len(counts) > 12 else "")
