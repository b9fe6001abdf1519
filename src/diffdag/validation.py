"""Every check of user input, and its wording.

An error reads: what is wrong, where, what to do. ``label`` names the table an error speaks of: "first" or
"second", or how its file is called. A function ``find_...`` returns what is wrong, so that several things can
be said in one error; ``check_...`` raises it.
"""

from __future__ import annotations

import csv
import difflib
import io
import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffdag.dependence import dependent_columns

FloatArray = NDArray[np.float64]
Missing = Literal["error", "drop"]

_SHOWN = 6  # names shown in one message; wide tables would otherwise fill the screen
CHOOSE = "choose columns with columns= (--columns) or leave some out with drop= (--drop)"
_EXCEL = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods")
# Numbers with commas, or with anything else between groups of three digits.
_COMMAS = re.compile(r"[-+]?\d+(,\d+)+(\.\d+)?|[-+]?\d{1,3}([ .'\u00a0\u202f]\d{3})+([.,]\d+)?")
# Of these, those that a decimal mark alone does not explain.
_THOUSANDS = re.compile(
    r"[-+]?\d{1,3}(([ '\u00a0\u202f]\d{3})+([.,]\d+)?|(\.\d{3})+,\d+|(,\d{3})+\.\d+|(\.\d{3}){2,})"
)
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?([ T].*)?|\d\d?([./-])\d\d?\2\d{2,4}( .*)?")
# An option as `option_words` and `drop_words` write it, quotes respected.
OPTION = re.compile(
    r"""\b\w+=(?:\[(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^]'"])*\]|'[^']*')? """
    r"""\((?P<shell>--[\w-]+(?: (?:'[^']*'|"[^"]*"|[^\s'"()])+)?)\)"""
)
_BARE = re.compile(r"(?<![\w'\"])(columns|drop|missing|first|second)=(?=[ ,;:]|$)")


class InputError(ValueError):
    """Input that cannot be used; the message says what, where and what to do, in one line."""


class DiffDagWarning(UserWarning):
    """The answer stands, but the user should know something about it."""


class NoSolutionWarning(DiffDagWarning):
    """It was proved that no difference meets the constraints at this penalty: what is given breaks some."""


class Unfit(NamedTuple):
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


class Problem(NamedTuple):
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


def drop_words(names: Sequence[str]) -> str:
    """How to leave out columns, in Python and on the command line.

    >>> drop_words(["Sample ID", "day"])
    "drop=['Sample ID', 'day'] (--drop 'Sample ID,day')"
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return f"drop={list(names)} (--drop {shlex.quote(line.getvalue())})"


def at_command_line(message: str) -> str:
    """A message whose options are written as on the command line, and only so.

    >>> at_command_line("drop= names 'x'; use missing='drop' (--missing drop)")
    "--drop names 'x'; use --missing drop"
    """
    return _BARE.sub(r"--\1", OPTION.sub(lambda match: match["shell"], message))


def table_words(label: str) -> str:
    """What to call a table: files and groups by their names, others by their place.

    >>> table_words("first"), table_words("'chow.csv'")
    ('the first table', "'chow.csv'")
    """
    return label if label.startswith(("'", "group '")) else f"the {label} table"


def refuse(problems: Sequence[Problem], dropped: Iterable[str] = ()) -> None:
    """Raise one error that says all that is wrong; `dropped` are columns that are left out already."""
    if not problems:
        return
    new = list(dict.fromkeys(name for problem in problems for name in problem.drop))
    out = CHOOSE if len(new) > _SHOWN else f"leave {{}} out with {drop_words([*dropped, *new])}"
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


def default_names(p: int) -> tuple[str, ...]:
    """Names for variables that came without: X1, ..., Xp."""
    return tuple(f"X{k}" for k in range(1, p + 1))


def check_names(names: Sequence[str], label: str) -> None:
    """Refuse columns that cannot be told apart by name."""
    if "" in names:
        where = names.index("") + 1
        raise InputError(f"column {where} of {table_words(label)} has no name; name it or remove it")
    check_text(names)
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        verb = "appears" if len(repeated) == 1 else "appear"
        raise InputError(
            f"{join_names(repeated)} {verb} more than once among the columns of {table_words(label)}; "
            "rename or remove the copies"
        )


def check_text(names: Sequence[str]) -> None:
    """Refuse names that no file could hold, such as half of a surrogate pair."""
    for name in names:
        if (said := name.encode("utf-8", "replace").decode()) != name:
            raise InputError(f"the name {name!a} is not valid text; call it '{said}' or the like")


def check_choice(
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


def find_lost(first: Sequence[str], second: Sequence[str], labels: tuple[str, str]) -> list[Problem]:
    """Columns that only one of two tables has."""
    have, wanted = (dict.fromkeys(names) for names in (first, second))
    lost = ([name for name in wanted if name not in have], [name for name in have if name not in wanted])
    absent = [
        f"{join_names(names)} missing in {table_words(label)}"
        for label, names in zip(labels, lost, strict=True)
        if names
    ]
    what = f"the two tables have different columns: {', '.join(absent)}"
    return [Problem(what, (*lost[0], *lost[1]))] if absent else []


def check_same_columns(first: Sequence[str], second: Sequence[str], labels: tuple[str, str]) -> None:
    """Refuse tables over different variables."""
    refuse(find_lost(first, second, labels))


def check_file_type(name: str) -> None:
    """Refuse a spreadsheet with what to do instead."""
    if name.lower().endswith(_EXCEL):
        raise InputError(f"'{name}' is a spreadsheet, which is not read; save the sheet as CSV (UTF-8)")


def check_missing_option(missing: str) -> None:
    """Check the value of ``missing=``."""
    check_word(
        "missing", missing, ("error", "drop"), f"missing='{missing}' is not known; use 'error' or 'drop'"
    )


def check_word(option: str, value: object, allowed: Sequence[str], said: str = "") -> None:
    """Check an option that is one of a few words, whatever else it is."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(said or f"{option} must be one of {', '.join(allowed)}; it is {value!r}")


def check_rng(rng: object) -> None:
    """Check where randomness comes from."""
    whole = isinstance(rng, (int, np.integer)) and not isinstance(rng, bool) and rng >= 0
    if rng is not None and not whole and not isinstance(rng, np.random.Generator):
        raise InputError(f"rng must be a whole number, 0 or larger, a Generator or None; it is {rng!r}")


def find_text(unfit: Sequence[Unfit]) -> list[Problem]:
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
                Problem(f"{what}{both} ({_example(found[0], names)})", () if fix else names, fix=fix)
            )
    return problems


def _example(column: Unfit, names: Sequence[str]) -> str:
    place = column.place()
    if not place:
        return f"{column.shown!r} in row {column.row} of '{column.name}' in {table_words(column.label)}"
    which = f" of '{column.name}'" if len(names) > 1 else ""
    return f"{column.shown!r}{which} in {place}"


def check_numeric(unfit: Sequence[Unfit]) -> None:
    """Refuse columns that hold something else than numbers, all of them in one message."""
    refuse(find_text(unfit))


def find_few(n: int, p: int, label: str, rows: str = "of data") -> list[Problem]:
    """Whether a table is too small to estimate a covariance from."""
    if p < 2:
        return [
            Problem(f"{table_words(label)} has {plural(p, 'column')} to compare", fix="at least 2 are needed")
        ]
    if n < 3:
        return [Problem(f"{table_words(label)} has {plural(n, 'row')} {rows}", fix="at least 3 are needed")]
    return []


def check_shape(n: int, p: int, label: str) -> None:
    """Refuse a table that is too small to estimate a covariance from."""
    refuse(find_few(n, p, label))


def find_counts(
    what: str, counts: Sequence[tuple[str, dict[str, int]]], fix: str, *, rows: bool = False
) -> list[Problem]:
    """Values of one unusable kind, counted per column of each table."""
    found = [
        f"{', '.join(f'{count} in {name!r}' for name, count in list(columns.items())[:_SHOWN])}"
        f"{f' and {len(columns) - _SHOWN} more' if len(columns) > _SHOWN else ''} of {table_words(label)}"
        for label, columns in counts
        if columns
    ]
    return [Problem(f"{what} values: {' and '.join(found)}", fix=fix, rows=rows)] if found else []


def check_counts(what: str, counts: Sequence[tuple[str, dict[str, int]]], remedy: str) -> None:
    """Refuse values of one unusable kind, counted per column of each table."""
    refuse(find_counts(what, counts, remedy))


def find_useless(what: str, names: Sequence[Collection[str]], labels: Sequence[str]) -> list[Problem]:
    """Columns that are constant or empty, given by table."""
    return [
        Problem(
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
    refuse(find_useless("constant", (flat, ()), (label, "")))


def find_dependent(names: Sequence[Sequence[str]], labels: Sequence[str]) -> list[Problem]:
    """Columns that depend on each other: a set in each table, possibly empty."""
    first, second = names
    both = [(first, "both tables")] if first == second else [*zip(names, map(table_words, labels), strict=True)]
    return [
        Problem(f"columns {join_names(found)} are linearly dependent in {where}", (found[-1],), "one of them")
        for found, where in both
        if found
    ]


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
    flat = [name for name, is_flat in zip(names, spread <= rounding, strict=True) if is_flat]
    rescale = "subtract an offset or change the unit if its values do differ"
    refuse([problem._replace(fix=rescale) for problem in find_useless("constant", (flat, ()), (label, ""))])
    found = [names[k] for k in dependent_columns(n, scatter)]
    refuse(find_dependent((found, ()), (label, "")))
