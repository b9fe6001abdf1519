"""Every check of user input, and its wording.

An error reads: what is wrong, where, what to do. ``label`` is "first" or "second" throughout and
names the table an error speaks of.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Missing = Literal["error", "drop"]

_SHOWN = 6  # names shown in one message; wide tables would otherwise fill the screen
_CHOOSE = "choose columns with columns= or leave some out with drop= (--columns, --drop)"


class InputError(ValueError):
    """Input that cannot be used; the message says what, where and what to do, in one line."""


class DiffDagWarning(UserWarning):
    """The answer stands, but the user should know something about it."""


class Unfit(NamedTuple):
    """A column that holds something else than numbers, and the first such value."""

    label: str
    name: str
    row: int  # counted from 1, without the header
    value: object


def join_names(names: Iterable[object]) -> str:
    """Quote names and join them as a person would, cutting long lists short.

    >>> join_names(["a", "b", "c"])
    "'a', 'b' and 'c'"
    """
    quoted = [f"'{name}'" for name in names]
    if len(quoted) > _SHOWN + 1:
        return f"{', '.join(quoted[:_SHOWN])} and {len(quoted) - _SHOWN} more"
    return " and ".join(filter(None, [", ".join(quoted[:-1]), *quoted[-1:]]))


def plural(count: int, noun: str) -> str:
    """Count things.

    >>> plural(1, "row"), plural(2, "row")
    ('1 row', '2 rows')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def option_words(name: str, value: str) -> str:
    """An option as it is written in Python and on the command line.

    >>> option_words("effective_samples", "auto")
    "effective_samples='auto' (--effective-samples auto)"
    """
    return f"{name}={value!r} (--{name.replace('_', '-')} {value})"


def default_names(p: int) -> tuple[str, ...]:
    """Names for variables that came without: X1, ..., Xp."""
    return tuple(f"X{k}" for k in range(1, p + 1))


def check_names(names: Sequence[str], label: str) -> None:
    """Refuse columns that cannot be told apart by name."""
    if "" in names:
        where = names.index("") + 1
        raise InputError(f"column {where} of the {label} table has no name; name it or remove it")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        verb = "appears" if len(repeated) == 1 else "appear"
        raise InputError(
            f"{join_names(repeated)} {verb} more than once among the columns of the {label} table; "
            "rename or remove the copies"
        )


def check_choice(
    option: str, names: Iterable[object] | None, known: Sequence[Sequence[str]]
) -> list[str] | None:
    """Check that ``columns=`` or ``drop=`` is a list of names that the tables have, and return it as text."""
    if names is None:
        return None
    if isinstance(names, str):
        raise InputError(f"{option}= is the text '{names}'; give a list of column names")
    chosen = [str(name) for name in names]
    repeated = [name for name, count in Counter(chosen).items() if count > 1]
    if repeated:
        raise InputError(f"{join_names(repeated)} appears more than once in {option}=; name each column once")
    everything = dict.fromkeys(name for table in known for name in table)
    unknown = [name for name in chosen if name not in everything]
    if unknown:
        close = difflib.get_close_matches(unknown[0], everything, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"the columns are {join_names(everything)}"
        raise InputError(f"{option}= names {join_names(unknown)}, which no table has; {hint}")
    return chosen


def check_same_columns(first: Sequence[str], second: Sequence[str], labels: tuple[str, str]) -> None:
    """Refuse tables over different variables."""
    have, wanted = (dict.fromkeys(names) for names in (first, second))
    lost = ([name for name in wanted if name not in have], [name for name in have if name not in wanted])
    absent = [
        f"{join_names(names)} missing in the {label} table"
        for label, names in zip(labels, lost, strict=True)
        if names
    ]
    if absent:
        raise InputError(f"the two tables have different columns: {', '.join(absent)}; {_CHOOSE}")


def check_missing_option(missing: str) -> None:
    """Check the value of ``missing=``."""
    if missing not in ("error", "drop"):
        raise InputError(f"missing='{missing}' is not known; use 'error' or 'drop'")


def check_numeric(unfit: Sequence[Unfit]) -> None:
    """Refuse columns that hold something else than numbers, all of them in one message."""
    if unfit:
        names = list(dict.fromkeys(column.name for column in unfit))
        verb = "column {} is" if len(names) == 1 else "columns {} are"
        label, name, row, value = unfit[0]
        text = str(value)
        shown = repr(text if len(text) <= 40 else f"{text[:40]}...")
        commas = re.fullmatch(r"[-+]?\d+(,\d+)+(\.\d+)?", text)
        remedy = "write numbers with a decimal point and without thousands separators" if commas else _CHOOSE
        raise InputError(
            f"{verb.format(join_names(names))} not numeric "
            f"({shown} in row {row} of '{name}' in the {label} table); {remedy}"
        )


def check_shape(n: int, p: int, label: str) -> None:
    """Refuse a table that is too small to estimate a covariance from."""
    if p < 2:
        raise InputError(f"the {label} table has {plural(p, 'column')} to compare; at least 2 are needed")
    if n < 3:
        raise InputError(f"the {label} table has {plural(n, 'row')} of data; at least 3 are needed")


def check_counts(what: str, counts: Sequence[tuple[str, dict[str, int]]], remedy: str) -> None:
    """Refuse values of one unusable kind, counted per column of each table."""
    found = [
        f"{', '.join(f'{count} in {name!r}' for name, count in list(columns.items())[:_SHOWN])}"
        f"{f' and {len(columns) - _SHOWN} more' if len(columns) > _SHOWN else ''} of the {label} table"
        for label, columns in counts
        if columns
    ]
    if found:
        raise InputError(f"{what} values: {'; '.join(found)}; {remedy}")


def check_varies(names: Sequence[str], constant: NDArray[np.bool_], label: str) -> None:
    """Refuse columns that never change within one table."""
    flat = [name for name, is_flat in zip(names, constant, strict=True) if is_flat]
    if flat:
        is_flat = "column {} is constant" if len(flat) == 1 else "columns {} are constant"
        them = "it" if len(flat) == 1 else "them"
        raise InputError(
            f"{is_flat.format(join_names(flat))} in the {label} table; drop {them} or check the export"
        )


def check_moments(
    names: Sequence[str], n: int, scatter: FloatArray, label: str, *, mean: FloatArray | None = None
) -> None:
    """Check the moments of one table: enough rows and columns, none constant, none collinear.

    Parameters
    ----------
    names : sequence of str
        The p variables.
    n : int
        Number of rows behind the moments.
    scatter : ndarray of shape (p, p)
        Centred sums of products.
    label : str
        "first" or "second".
    mean : ndarray of shape (p,), optional
        Lets a constant column be told from the rounding of its mean.

    Raises
    ------
    InputError
        With the names of the columns at fault.
    """
    check_shape(n, len(names), label)
    spread = np.sqrt(np.clip(np.diag(scatter), 0.0, None))
    # A constant column such as 0.1, 0.1, ... keeps the rounding of its mean as its spread.
    rounding = 0.0 if mean is None else 16 * np.finfo(float).eps * np.abs(mean) * np.sqrt(n)
    check_varies(names, spread <= rounding, label)
    correlation = scatter / spread[:, None] / spread[None, :]
    dependent = _dependent_columns(correlation) if n > len(names) else _duplicate_pair(correlation)
    if dependent:
        raise InputError(
            f"columns {join_names(names[k] for k in dependent)} are linearly dependent "
            f"in the {label} table; drop one of them"
        )


def _duplicate_pair(correlation: FloatArray) -> list[int]:
    """Two columns that are multiples of each other: all that can be seen when n <= p."""
    close = np.triu(np.abs(correlation) >= 1 - 1e-12, k=1)
    if not close.any():
        return []
    i, j = np.argwhere(close)[0]
    return [int(i), int(j)]


def _dependent_columns(correlation: FloatArray) -> list[int]:
    """Return the smallest set of columns found to be linearly dependent, empty if there is none.

    Any basis of the null space mixes several dependencies. Dividing it by its rows at well chosen
    pivots leaves in each vector one pivot and the columns that pivot depends on.
    """
    p = len(correlation)
    tolerance = 1e-13 * p
    try:
        # Succeeds if and only if the smallest eigenvalue exceeds the tolerance: many times
        # cheaper than the eigenvalues, and the only cost for sound data.
        scipy.linalg.cholesky(correlation - tolerance * np.eye(p), overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        pass
    else:
        return []
    values, vectors = np.linalg.eigh(correlation)
    rank_lost = max(1, int(np.sum(values < tolerance)))
    null = vectors[:, :rank_lost]
    pivots: Any = scipy.linalg.qr(null.T, mode="r", pivoting=True)[1]
    relations = np.linalg.solve(null[pivots[:rank_lost]].T, null.T)
    supports = [np.flatnonzero(np.abs(row) > 1e-6 * np.abs(row).max()) for row in relations]
    return [int(k) for k in min(supports, key=len)]
