"""Every check of user input, and its wording.

An error reads: what is wrong, where, what to do. ``label`` names the table an error speaks of: "first" or
"second", or how its file is called. A function ``find_...`` returns what is wrong, so that several things can
be said in one error; ``check_...`` raises it.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffdag._base.checks import check_option
from diffdag._base.errors import InputError
from diffdag._base.words import NAMES_SHOWN, drop_words, join_names, option_words, plural, table_words

Missing = Literal["error", "drop"]

CHOOSE = "choose columns with columns= (--columns) or leave some out with drop= (--drop)"
LEAST_ROWS = 3  # that a covariance needs
# Numbers with commas, or with anything else between groups of three digits.
_COMMAS = re.compile(r"[-+]?\d+(,\d+)+(\.\d+)?|[-+]?\d{1,3}([ .'\u00a0\u202f]\d{3})+([.,]\d+)?")
# Of these, those that a decimal mark alone does not explain.
_THOUSANDS = re.compile(
    r"[-+]?\d{1,3}(([ '\u00a0\u202f]\d{3})+([.,]\d+)?|(\.\d{3})+,\d+|(,\d{3})+\.\d+|(\.\d{3}){2,})"
)
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?([ T].*)?|\d\d?([./-])\d\d?\2\d{2,4}( .*)?")


class NonNumericColumn(NamedTuple):
    """A column that holds something else than numbers, and the first such value."""

    label: str
    name: str
    row: int  # counted from 1, without the header
    value: object
    place: Callable[[], str] = str  # finds the line of the file that holds it; empty if nobody knows

    @property
    def shown(self) -> str:
        """The value, cut short."""
        text = str(self.value)
        return text if len(text) <= 40 else f"{text[:40]}..."

    @property
    def kind(self) -> str:
        """What it looks like: a key of `_KINDS`."""
        text = str(self.value)
        if _COMMAS.fullmatch(text):
            return "thousands" if _THOUSANDS.fullmatch(text) else "commas"
        if _DATE.fullmatch(text):
            return "dates"
        return "numbers" if isinstance(self.value, str) and _reads_as_number(text) else "text"


class TableProblem(NamedTuple):
    """Something that is wrong with the tables, and what can be done about it."""

    what: str
    drop: tuple[str, ...] = ()  # leave these columns out
    them: str = ""  # what to call them
    fix: str = ""  # or do this
    rows: bool = False  # or leave out the rows with missing values


# What is said of one column, of several, and what to do other than to leave them out.
_KINDS = {
    "text": ("column {} is not numeric", "columns {} are not numeric", ""),
    "dates": ("column {} holds dates", "columns {} hold dates", ""),
    "numbers": (
        "column {} holds numbers as text",
        "columns {} hold numbers as text",
        "turn text into numbers, all written the same way",
    ),
    "commas": (
        "column {} has commas or spaces within numbers",
        "columns {} have commas or spaces within numbers",
        "write numbers with a decimal point and without thousands separators",
    ),
    "thousands": (
        "column {} has commas or spaces within numbers",
        "columns {} have commas or spaces within numbers",
        "write numbers without thousands separators",
    ),
}


def raise_problems(problems: Sequence[TableProblem], dropped: Iterable[str] = ()) -> None:
    """Raise one error that says all that is wrong; `dropped` are columns that are left out already."""
    if not problems:
        return
    new = list(dict.fromkeys(name for problem in problems for name in problem.drop))
    out = CHOOSE if len(new) > NAMES_SHOWN else f"leave {{}} out with {drop_words([*dropped, *new])}"
    if len(problems) == 1:
        (problem,) = problems
        ways = [out.replace("{}", problem.them or ("it" if len(new) == 1 else "them"), 1)] if new else []
        raise InputError(f"{problem.what}; {', or '.join([*ways, *filter(None, [problem.fix])])}")
    fixes = dict.fromkeys(problem.fix for problem in problems if not problem.drop and not problem.rows)
    rows = f"rows with missing values with {option_words('missing', 'drop')}"
    ways = [out.replace("{}", "columns", 1)] if new else []
    ways += [rows if new else f"leave out {rows}"] if any(problem.rows for problem in problems) else []
    remedy = "; ".join(filter(None, [*fixes, " and ".join(ways)]))
    found = "; ".join(problem.what for problem in problems)
    raise InputError(f"{len(problems)} things are in the way: {found}; {remedy}")


def by_table(names: Sequence[Collection[str]], labels: Sequence[str]) -> Iterator[tuple[list[str], str]]:
    """Names that concern both tables, and those that concern one, each with where that is."""
    first, second = (dict.fromkeys(found) for found in names)
    yield [name for name in first if name in second], "both tables"
    yield [name for name in first if name not in second], table_words(labels[0])
    yield [name for name in second if name not in first], table_words(labels[1])


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_column_names(
    option: str, names: Iterable[object] | None, known: Sequence[Sequence[str]]
) -> list[str] | None:
    """Check that ``columns=`` or ``drop=`` is a list of names that the tables have, and return it as text."""
    if names is None:
        return None
    if isinstance(names, str):
        raise InputError(f"{option}= is the text '{names}'; give a list of column names")
    if not isinstance(names, Iterable):
        raise InputError(f"{option}= is {names!r}; give a list of column names")
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


def find_lost(first: Sequence[str], second: Sequence[str], labels: tuple[str, str]) -> list[TableProblem]:
    """Columns that only one of two tables has."""
    have, wanted = (dict.fromkeys(names) for names in (first, second))
    lost = ([name for name in wanted if name not in have], [name for name in have if name not in wanted])
    absent = [
        f"{join_names(names)} missing in {table_words(label)}"
        for label, names in zip(labels, lost, strict=True)
        if names
    ]
    what = f"the two tables have different columns: {', '.join(absent)}"
    return [TableProblem(what, (*lost[0], *lost[1]))] if absent else []


def check_same_columns(first: Sequence[str], second: Sequence[str], labels: tuple[str, str]) -> None:
    """Refuse tables over different variables."""
    raise_problems(find_lost(first, second, labels))


def check_missing_option(missing: str) -> None:
    """Check the value of ``missing=``."""
    check_option(
        "missing", missing, ("error", "drop"), f"missing='{missing}' is not known; use 'error' or 'drop'"
    )


def find_text(unfit: Sequence[NonNumericColumn]) -> list[TableProblem]:
    """Columns that hold something else than numbers, by what they hold."""
    problems = []
    labels = {column.label for column in unfit}
    for kind, (one, several, fix) in _KINDS.items():
        found = [column for column in unfit if column.kind == kind]
        names = tuple(dict.fromkeys(column.name for column in found))
        if names:
            both = " in both tables" if len(labels) == 2 and len(found) == 2 * len(names) else ""
            what = (one if len(names) == 1 else several).format(join_names(names))
            problems.append(
                TableProblem(f"{what}{both} ({_example(found[0], names)})", () if fix else names, fix=fix)
            )
    return problems


def _example(column: NonNumericColumn, names: Sequence[str]) -> str:
    place = column.place()
    if not place:
        return f"{column.shown!r} in row {column.row} of '{column.name}' in {table_words(column.label)}"
    which = f" of '{column.name}'" if len(names) > 1 else ""
    return f"{column.shown!r}{which} in {place}"


def check_numeric(unfit: Sequence[NonNumericColumn]) -> None:
    """Refuse columns that hold something else than numbers, all of them in one message."""
    raise_problems(find_text(unfit))


def find_few(n: int, p: int, label: str, rows: str = "of data") -> list[TableProblem]:
    """Whether a table is too small to estimate a covariance from."""
    if p < 2:
        return [
            TableProblem(
                f"{table_words(label)} has {plural(p, 'column')} to compare", fix="at least 2 are needed"
            )
        ]
    if n < LEAST_ROWS:
        return [
            TableProblem(
                f"{table_words(label)} has {plural(n, 'row')} {rows}", fix=f"at least {LEAST_ROWS} are needed"
            )
        ]
    return []


def check_shape(n: int, p: int, label: str) -> None:
    """Refuse a table that is too small to estimate a covariance from."""
    raise_problems(find_few(n, p, label))


def find_counts(
    what: str, counts: Sequence[tuple[str, dict[str, int]]], fix: str, *, rows: bool = False
) -> list[TableProblem]:
    """Values of one unusable kind, counted per column of each table."""
    found = [
        f"{', '.join(f'{count} in {name!r}' for name, count in list(columns.items())[:NAMES_SHOWN])}"
        f"{f' and {len(columns) - NAMES_SHOWN} more' if len(columns) > NAMES_SHOWN else ''} "
        f"of {table_words(label)}"
        for label, columns in counts
        if columns
    ]
    return [TableProblem(f"{what} values: {' and '.join(found)}", fix=fix, rows=rows)] if found else []


def check_counts(what: str, counts: Sequence[tuple[str, dict[str, int]]], remedy: str) -> None:
    """Refuse values of one unusable kind, counted per column of each table."""
    raise_problems(find_counts(what, counts, remedy))


def find_useless(what: str, names: Sequence[Collection[str]], labels: Sequence[str]) -> list[TableProblem]:
    """Columns that are constant or empty, given by table."""
    return [
        TableProblem(
            f"{'column' if len(found) == 1 else 'columns'} {join_names(found)} "
            f"{'is' if len(found) == 1 else 'are'} {what} in {where}",
            tuple(found),
            fix="check the export",
        )
        for found, where in by_table(names, labels)
        if found
    ]


def check_varies(names: Sequence[str], constant: NDArray[np.bool_], label: str) -> None:
    """Refuse columns that never change within one table."""
    flat = [name for name, is_flat in zip(names, constant, strict=True) if is_flat]
    raise_problems(find_useless("constant", (flat, ()), (label, "")))


def find_dependent(names: Sequence[Sequence[str]], labels: Sequence[str]) -> list[TableProblem]:
    """Columns that depend on each other: a set in each table, possibly empty."""
    first, second = names
    both = [(first, "both tables")] if first == second else [*zip(names, map(table_words, labels), strict=True)]
    return [
        TableProblem(
            f"columns {join_names(found)} are linearly dependent in {where}", (found[-1],), "one of them"
        )
        for found, where in both
        if found
    ]
