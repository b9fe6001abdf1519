"""Every check of user input, and its wording.

An error reads: what is wrong, where, what to do. ``label`` names the table an error speaks of: "first" or
"second", or how its file is called. A function ``find_...`` returns what is wrong, so that several things can
be said in one error; ``check_...`` raises it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import compress
from typing import Literal, NamedTuple, get_args

from diffdag._base.arrays import BoolArray
from diffdag._base.checks import is_listing
from diffdag._base.errors import InputError, Problem, raise_problems
from diffdag._base.words import NAMES_SHOWN, Option, did_you_mean, join_names, plural, table_words, using

Missing = Literal["error", "drop", "em"]

LEAST_ROWS = 3  # that a covariance needs
# With fewer rows than FEW_ROWS in one table and REFERENCE_ROWS in the other, only means are compared.
FEW_ROWS, REFERENCE_ROWS = 10, 20
# Numbers with commas, or with anything else between groups of three digits.
_COMMAS = re.compile(r"[-+]?\d+(,\d+)+(\.\d+)?|[-+]?\d{1,3}([ .'\u00a0\u202f]\d{3})+([.,]\d+)?")
# Of these, those that a decimal mark alone does not explain.
_THOUSANDS = re.compile(
    r"[-+]?\d{1,3}(([ '\u00a0\u202f]\d{3})+([.,]\d+)?|(\.\d{3})+,\d+|(,\d{3})+\.\d+|(\.\d{3}){2,})"
)
DATE = re.compile(r"\d{4}-\d\d?-\d\d?([ T].*)?|\d\d?([./-])\d\d?\2\d{2,4}( .*)?")


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
        if DATE.fullmatch(text):
            return "dates"
        return "numbers" if isinstance(self.value, str) and reads_as_number(text) else "text"


_COMMAS_WORDS = "commas or spaces within numbers"
# What is said of columns, and what to do other than to leave them out.
_KINDS = {
    "text": ("is", "not numeric", ""),
    "dates": ("holds", "dates", ""),
    "numbers": ("holds", "numbers as text", "turn text into numbers, all written the same way"),
    "commas": ("has", _COMMAS_WORDS, "write numbers with a decimal point and without thousands separators"),
    "thousands": ("has", _COMMAS_WORDS, "write numbers without thousands separators"),
}
_SEVERAL = {"is": "are", "holds": "hold", "has": "have"}


def by_table(names: Sequence[Collection[str]], labels: Sequence[str]) -> Iterator[tuple[list[str], str]]:
    """Names that concern both tables, and those that concern one, each with where that is."""
    first, second = (dict.fromkeys(found) for found in names)
    yield [name for name in first if name in second], "both tables"
    yield [name for name in first if name not in second], table_words(labels[0])
    yield [name for name in second if name not in first], table_words(labels[1])


def reads_as_number(text: str) -> bool:
    """Whether Python reads this as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


_LIKE_NUMBER = re.compile(r"[<>≤≥~=±]+\s*[-+.]?\d.*")


def looks_like_number(text: str) -> bool:
    """Whether this is a number, or meant to be one: "1,5" or "<0.1".

    >>> [looks_like_number(text) for text in ("1e3", "1,000", "<0.1", "site 3")]
    [True, True, True, False]
    """
    return reads_as_number(text) or any(form.fullmatch(text) for form in (_COMMAS, _LIKE_NUMBER))


def check_column_names(
    option: str, names: Iterable[object] | None, known: Sequence[Sequence[str]]
) -> list[str] | None:
    """Check that ``columns=`` or ``drop=`` is a list of names that the tables have, and return it as text."""
    if names is None:
        return None
    if isinstance(names, str):
        raise InputError(Option(option), f" is the text '{names}'; give a list of column names")
    if not is_listing(names):
        raise InputError(Option(option), f" is {names!r}; give a list of column names")
    chosen = [str(name) for name in names]
    repeated = [name for name, count in Counter(chosen).items() if count > 1]
    if repeated:
        raise InputError(
            f"{join_names(repeated)} appears more than once in ", Option(option), "; name each column once"
        )
    everything = dict.fromkeys(name for table in known for name in table)
    unknown = [name for name in chosen if name not in everything]
    if unknown:
        hint = did_you_mean(unknown[0], everything, f"the columns are {join_names(everything)}")
        raise InputError(Option(option), f" names {join_names(unknown)}, which no table has; {hint}")
    return chosen


def find_unmatched(lost: Sequence[Sequence[str]], labels: Sequence[str]) -> list[Problem]:
    """Columns that only one of two tables has, by the table that lacks them."""
    absent = [
        f"{join_names(names)} missing in {table_words(label)}"
        for label, names in zip(labels, lost, strict=True)
        if names
    ]
    what = f"the two tables have different columns: {', '.join(absent)}"
    names = (*lost[0], *lost[1])
    return [Problem("unmatched", what, names, (Option("drop", names),))] if absent else []


def check_same_columns(first: Sequence[str], second: Sequence[str], labels: tuple[str, str]) -> None:
    """Refuse tables over different variables."""
    have, wanted = (dict.fromkeys(names) for names in (first, second))
    lost = [name for name in wanted if name not in have], [name for name in have if name not in wanted]
    raise_problems(find_unmatched(lost, labels))


def check_missing_option(missing: object, *, pieces: bool = False) -> None:
    """Check the value of ``missing=``, where rows are at hand all at once or come in pieces."""
    if pieces and isinstance(missing, str) and missing == "em":
        raise InputError(
            Option("missing", "em"),
            " needs all rows at once, and these come in pieces; read tables whole, or drop rows with gaps ",
            using(Option("missing", "drop")),
        )
    if not isinstance(missing, str) or missing not in get_args(Missing):
        given = "missing=None" if missing is None else Option("missing", missing)
        raise InputError(given, " is not known; use 'error', 'drop' or 'em'")


def find_text(unfit: Sequence[NonNumericColumn]) -> list[Problem]:
    """Columns that hold something else than numbers, by what they hold."""
    problems = []
    for kind in _KINDS:
        found = [column for column in unfit if column.kind == kind]
        names = tuple(dict.fromkeys(column.name for column in found))
        if names:
            what, advice = describe_text(found)
            which = f"{'column' if len(names) == 1 else 'columns'} {join_names(names)}"
            remedies = () if advice else (Option("drop", names),)
            problems.append(Problem(kind, f"{which} {what}", names, remedies, advice))
    return problems


def describe_text(found: Sequence[NonNumericColumn], both: str = "both tables") -> tuple[str, str]:
    """What columns of one kind hold, with an example, and what to do; `both` is what to call the two tables."""
    names = {column.name for column in found}
    alone = len(names) == 1
    verb, words, advice = _KINDS[found[0].kind]
    where = f" in {both}" if len(found) == 2 * len(names) else ""
    return f"{verb if alone else _SEVERAL[verb]} {words}{where} ({_example(found[0], alone=alone)})", advice


def _example(column: NonNumericColumn, *, alone: bool) -> str:
    place = column.place()
    if not place:
        return f"{column.shown!r} in row {column.row} of '{column.name}' in {table_words(column.label)}"
    which = "" if alone else f" of '{column.name}'"
    return f"{column.shown!r}{which} in {place}"


def find_few(n: int, p: int, label: str, rows: str = "of data") -> list[Problem]:
    """Whether a table is too small to estimate a covariance from."""
    table = table_words(label)
    if p < 2:
        what = f"{table} has {plural(p, 'column')} to compare"
        return [Problem("too-few-columns", what, advice="at least 2 are needed")]
    if n < LEAST_ROWS:
        what = f"{table} has {plural(n, 'row')} {rows}"
        return [Problem("too-few-rows", what, advice=f"at least {LEAST_ROWS} are needed")]
    return []


def few_condition(n1: int, n2: int) -> int | None:
    """Which of two tables, 0 or 1, has so few rows that only means are compared; None if neither has.

    >>> few_condition(200, 1), few_condition(5, 50), few_condition(200, 10), few_condition(5, 5)
    (1, 0, None, None)
    """
    few = 0 if n1 < n2 else 1
    least, most = sorted((n1, n2))
    return few if 1 <= least < FEW_ROWS and most >= REFERENCE_ROWS else None


def check_shape(n: int, p: int, label: str) -> None:
    """Refuse a table that is too small to estimate a covariance from."""
    raise_problems(find_few(n, p, label))


def find_counts(
    kind: Literal["infinite", "missing"],
    counts: Sequence[tuple[str, dict[str, int]]],
    *,
    droppable: bool = True,
    lost: Sequence[int] = (),
    rows: Sequence[int] = (),
) -> list[Problem]:
    """Values of one unusable kind, counted per column of each table; can rows with missing ones be dropped?

    `lost` of the `rows` of each table would go, where that is known.
    """
    found = [
        f"{', '.join(f'{count} in {name!r}' for name, count in list(columns.items())[:NAMES_SHOWN])}"
        f"{f' and {len(columns) - NAMES_SHOWN} more' if len(columns) > NAMES_SHOWN else ''} "
        f"of {table_words(label)}"
        for label, columns in counts
        if columns
    ]
    names = tuple(dict.fromkeys(name for _, columns in counts for name in columns))
    costs = " and ".join(f"{gone} of {total}" for gone, total in zip(lost, rows, strict=True))
    cost = f" ({costs} rows)" if costs else ""
    said = f"{kind} values: {' and '.join(found)}"
    return [unusable_values(kind, said, names, droppable, cost)] if found else []


def unusable_values(
    kind: str, what: str, names: tuple[str, ...], droppable: bool = True, cost: str = ""
) -> Problem:
    """A problem of missing or infinite values, and what to do about it.

    `cost` says how many rows would go; where it is not known, rows are not all at hand for anything else.
    """
    if kind == "infinite":
        return Problem(kind, what, names, advice="remove such values or check the export")
    remedies = [Option("missing", "drop")] if droppable else []
    remedies += [Option("missing", "em")] if cost else []
    advice = "" if cost else "fill in the gaps"
    return Problem(kind, what, names, tuple(remedies), advice, f"rows with missing values{cost}")


def find_useless(
    kind: Literal["constant", "empty"],
    names: Sequence[Collection[str]],
    labels: Sequence[str],
    advice: str = "check the export",
) -> list[Problem]:
    """Columns that are constant or empty, given by table."""
    return [
        Problem(
            kind,
            f"{'column' if len(found) == 1 else 'columns'} {join_names(found)} "
            f"{'is' if len(found) == 1 else 'are'} {kind} in {where}",
            tuple(found),
            (Option("drop", tuple(found)),),
            advice,
        )
        for found, where in by_table(names, labels)
        if found
    ]


def check_varies(names: Sequence[str], constant: BoolArray, label: str) -> None:
    """Refuse columns that never change within one table."""
    raise_problems(find_useless("constant", (list(compress(names, constant)), ()), (label, "")))


def find_dependent(names: Sequence[Sequence[str]], labels: Sequence[str]) -> list[Problem]:
    """Columns that depend on each other: a set in each table, possibly empty."""
    first, second = names
    both = [(first, "both tables")] if first == second else [*zip(names, map(table_words, labels), strict=True)]
    return [
        Problem(
            "dependent",
            f"columns {join_names(found)} are linearly dependent in {where}",
            tuple(found),
            (Option("drop", (found[-1],)),),
            them="one of them",
        )
        for found, where in both
        if found
    ]
