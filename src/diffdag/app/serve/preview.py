"""What two tables hold, before anything is estimated: which columns can be compared, and why not the others."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import gt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from diffdag._base.checks import check_option
from diffdag._base.errors import InputError, raise_problems
from diffdag._base.words import join_names, plural
from diffdag.app.serve.options import MISSING
from diffdag.results.records import SwitchChange
from diffdag.tables.align import Tables, align_tables, complete_rows
from diffdag.tables.degenerate import dependent_columns
from diffdag.tables.design import read_labels
from diffdag.tables.effective_rows import without_rows
from diffdag.tables.groups import count_groups, split_groups
from diffdag.tables.inspect import ColumnReport, Inspection, inspect_columns
from diffdag.tables.moments import Moments
from diffdag.tables.nesting import Nesting, find_nesting
from diffdag.tables.problems import LEAST_ROWS, Missing, describe_text, few_condition, find_dependent
from diffdag.tables.readers.endings import TEXT, kind_of
from diffdag.tables.readers.files import read_table
from diffdag.tables.sorting import Sorted, describe_aside, find_transposed, may_group, sort_columns

_CONDITION = re.compile("condition|group|treat|diagnos|disease|genotype|^(arm|state|status)$", re.IGNORECASE)
MOST_GROUPS = 20
MOST_ASKED = 8  # columns of which the page asks what they are
SHOWN = 3  # values of such a column
COSTLY = 0.1  # share of the rows of a table from which on rows with gaps are too many to be left out
SPARSE = 0.5  # a column with a larger share of gaps would lose too many rows
WIDEST = 500  # columns of which to look at linear dependence
QUICK = 1e7  # products up to which gaps are filled for that
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
_APART = ("unmatched", "no-name", "duplicate-name")  # faults of columns that cannot be anything at all
_FLAT = ("constant", "extreme-scale")  # faults that only matter where covariances are compared
_USELESS = ("constant", "empty")  # why columns are left out of which that is true, too


class Roles(NamedTuple):
    """What the user takes columns for; others are compared, if they can be."""

    drop: Sequence[str] = ()  # left out
    adjust: Sequence[str] = ()  # covariates
    cluster: str = ""  # what rows are nested in


NO_ROLES = Roles()


class Question(NamedTuple):
    """A column of which only the user knows what it is."""

    name: str
    words: str  # what is known of it
    hint: str  # and more of that
    nested: bool = False  # whether rows look nested in it


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
        half = pa.types.is_float16(column.type)  # which not every version of Arrow can count
        values = (column.cast(pa.float32()) if half else column).drop_null()
        sizes = pc.value_counts(values).field("counts").to_numpy()
        if 2 <= len(sizes) <= MOST_GROUPS and np.sort(sizes)[-2] >= LEAST_ROWS:
            named = _CONDITION.search(name) is not None
            ranked.append((not named, _holds_numbers(column), len(sizes) != 2, place, name))
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
    names: Sequence[str],
    *,
    group: str = "",
    first: str = "",
    second: str = "",
    roles: Roles | None = None,
    missing: str = "",
    labels: Sequence[str] = (),
) -> dict[str, Any]:
    """Describe two files, or two groups of one; without a `group` the likeliest one is looked at.

    Files are called by their `names`, and conditions by `labels`, or else as their files or groups. Without
    `roles` and `missing`, what is likeliest is looked at. To what `compare` returns, a single file adds
    `candidates` for a group column, and `groups` and `choice` of the one looked at; `names` are what the
    conditions are called by themselves.
    """
    check_option("missing", missing, MISSING)
    asked = roles, missing, labels
    if len(paths) == 2:
        one, two, own = read_pair(paths, names, "", "", "")
        return {"choice": None, **_compare(one, two, own, asked, "both files")}
    table = read_table(paths[0], text=[group] if group else [])
    candidates = group_columns(table)
    if group:
        return _preview_groups(table, candidates, (group, first, second), asked)
    for likely in candidates:
        with contextlib.suppress(InputError):
            written = _as_written(table, paths[0], likely)
            return _preview_groups(written, candidates, (likely, "", ""), asked)
    raise InputError(
        f"no column of '{names[0]}' says to which of two conditions a row belongs (it would hold a few "
        "different values, each in several rows); choose a second file, one for each condition"
    )


def _as_written(table: Any, path: Path, group: str) -> Any:
    """Read a table again if its groups may have been written otherwise: 007 is not 7."""
    text = pa.types.is_string(table.column(group).type) or kind_of(path) not in TEXT
    return table if text else read_table(path, text=[group])


Asked = tuple[Roles | None, str, Sequence[str]]  # roles, missing and labels


def _preview_groups(
    table: Any, candidates: list[str], choice: tuple[str, str, str], asked: Asked
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
        **_compare(one, two, (before, after), asked, "both groups"),
    }


def _compare(first: Any, second: Any, names: tuple[str, str], asked: Asked, both: str) -> dict[str, Any]:
    roles, missing, labels = asked
    one, two = labels or names
    return {"names": names, **compare(first, second, (one, two), roles, missing, both)}


def compare(
    first: Any,
    second: Any,
    labels: tuple[str, str],
    roles: Roles | None = None,
    missing: str = "",
    both: str = "both tables",
) -> dict[str, Any]:
    """Describe two tables; `both` is what to call the two of them.

    Each of the `columns` has a role, "compare", "adjust", "cluster" or "drop", and `roles` that it could have;
    `auto` says that it would be left out by itself, with a note. `questions` are asked about some of them.
    """
    seen = inspect_columns(first, second, labels=labels)
    few = few_condition(*(source.rows for source in seen.sources))
    seen = replace(seen, columns=tuple(_excused(report, few) for report in seen.columns))
    found = sort_columns(seen, few)
    questions = _ask(seen, found, few)
    columns = [*_describe(seen, found, labels, both)]
    roles = _likely(columns, questions) if roles is None else roles
    for column in columns:
        column["role"] = _role(column, roles)
    used = [column["name"] for column in columns if column["role"] == "compare" and not column["switched"]]
    rows, lost = [source.rows for source in seen.sources], [0, 0]
    notes: Sequence[str] = ()
    without: Sequence[str] = ()  # left out although they could be compared, such as what does not vary in units
    problem = ""
    try:
        costly = any(map(gt, _rows_with_gaps(seen, used), [COSTLY * count for count in rows]))
        missing = missing or ("em" if costly and few is None else "drop")
        lost = _rows_with_gaps(seen, used, roles)
        _check_enough(used, seen)
        out = [column["name"] for column in columns if column["role"] == "drop"]
        aligned = _align((first, second), labels, roles._replace(drop=out), "em" if missing == "em" else "drop")
        notes, without = aligned.notes, [name for name in used if name not in aligned.names]
    except InputError as error:
        problem = error.words("page")
    beside = {text.note for text in seen.texts.values() if text.levels}  # said at the columns
    return {
        "labels": labels,
        "rows": rows,
        "lost": lost,
        "missing": missing or "drop",
        "columns": columns,
        "questions": [question._asdict() for question in questions],
        "without": without,
        "notes": [note for note in notes if note not in beside],
        "problem": problem or None,
    }


def _excused(report: ColumnReport, few: int | None) -> ColumnReport:
    """A report in which a column need not vary in the table of which only means are compared."""
    one, two = ("" if k == few and fault in _FLAT else fault for k, fault in enumerate(report.faults))
    return replace(report, faults=(one, two))


def _ask(seen: Inspection, found: Sorted, few: int | None) -> list[Question]:
    """Ask about columns that rows may be nested in, or that may be covariates; the former come first."""
    texts = [name for name in found.of("text") if may_group(seen.texts[name], seen)]
    compared = seen.without({*found.aside, *(own.variable for own in found.switched)})
    known = {own.name: own for own in (find_nesting(compared, texts) if few is None else ())}
    nested = sorted((own for own in known.values() if own.looks_nested), key=lambda own: -own.share)
    names = dict.fromkeys([*(own.name for own in nested), *texts])
    return [_question(seen, name, known.get(name)) for name in list(names)[:MOST_ASKED]]


def _question(seen: Inspection, name: str, nesting: Nesting | None) -> Question:
    if name in seen.texts:
        values: Sequence[object] = seen.texts[name].different
    else:
        k = seen.names.index(name)
        numbers = np.unique(np.concatenate([array[:, k] for array in seen.arrays]))
        values = [f"{value:g}" for value in numbers[~np.isnan(numbers)]]
    said, hint = f"column '{name}' has {len(values)} different values", f"such as {join_names(values[:SHOWN])}"
    if nesting is not None and nesting.inside:
        said += ", each in one condition only"
    if nesting is not None and nesting.looks_nested:
        return Question(
            name, f"{said}, and rows with the same one resemble each other", f"{hint}; {nesting.words}", True
        )
    return Question(name, said, hint)


def _describe(seen: Inspection, found: Sorted, labels: tuple[str, str], both: str) -> Iterator[dict[str, Any]]:
    """What is to be known of each column, and what it could be taken for."""
    switched = {own.variable: SwitchChange.of(own) for own in found.switched}
    aside = describe_aside(found, seen, labels)
    for report in seen.columns:
        name, auto = report.name, report.name in aside or "row-labels" in report.faults
        can = name in switched or (not auto and not any(report.faults))
        sparse = can and any(
            gaps > SPARSE * source.rows for gaps, source in zip(report.gaps, seen.sources, strict=True)
        )
        says = [] if can else [aside.get(name) or _fault_words(report, labels, both)]
        if name in switched:
            says.append(f"{switched[name].words(labels)}: a change by itself")
        if can and (text := seen.texts.get(name)) and text.levels:
            says.append(text.note.partition(" is ")[2])
        counts = zip(report.gaps, labels, strict=True)
        gaps = [f"missing in {plural(count, 'row')} of {label}" for count, label in counts if can and count]
        says += ["missing in most rows"] if sparse else [" and ".join(gaps)] if gaps else []
        useless = not name or found.aside.get(name) in _USELESS or {*_APART}.intersection(report.faults)
        others = [] if useless else ["adjust", "cluster"]
        yield {
            "name": name,
            "why": "; ".join(says),
            "roles": [*(["compare"] if can else []), *others, "drop"],
            "auto": auto,
            "switched": name in switched,
            "doubt": sparse,
            "gaps": report.gaps,
        }


def _likely(columns: Sequence[dict[str, Any]], questions: Sequence[Question]) -> Roles:
    """What columns are taken for unless the user says otherwise; nothing is a covariate by itself."""
    nested = next((question.name for question in questions if question.nested), "")
    out = [question.name for question in questions if question.name != nested]
    return Roles([*out, *(column["name"] for column in columns if column["doubt"])], (), nested)


def _role(column: dict[str, Any], roles: Roles) -> str:
    name = column["name"]
    if name and name == roles.cluster:
        return "cluster"
    if name in roles.adjust:
        return "adjust"
    return "drop" if name in roles.drop or "compare" not in column["roles"] else "compare"


def _rows_with_gaps(seen: Inspection, used: Sequence[str], roles: Roles = NO_ROLES) -> list[int]:
    """How many rows of each table lack a value of a variable, a covariate or what they are nested in."""
    said = read_labels(seen.sources, roles.adjust, roles.cluster or None)
    whole = complete_rows(seen.without(set(seen.names) - set(used)), said)
    return [
        0 if some is None else source.rows - len(some) for some, source in zip(whole, seen.sources, strict=True)
    ]


def _check_enough(used: Sequence[str], seen: Inspection) -> None:
    if len(used) < 2:
        raise_problems(find_transposed(seen))
        which = f": {join_names(used)}" if used else ""
        raise InputError(
            f"the two tables share {plural(len(used), 'column')} of numbers that can be compared{which}; "
            "at least 2 are needed"
        )


def _align(tables: tuple[Any, Any], labels: tuple[str, str], roles: Roles, missing: Missing) -> Tables:
    """Align tables as a fit would, and refuse what would stop it."""
    design: dict[str, Any] = {"adjust": list(roles.adjust), "cluster": roles.cluster or None}
    aligned = align_tables(*tables, drop=roles.drop, missing=missing, labels=labels, few=True, **design)
    p, n = len(aligned.names), len(aligned.first) + len(aligned.second)
    if aligned.few is None and p <= WIDEST and (not aligned.gaps or n * p**2 <= QUICK):
        rows = aligned.adjusted
        both = [Moments.from_array(values, rows.names) for values in (rows.first, rows.second)]
        if (taken := rows.taken) is not None:
            cost = zip(both, taken.lost, taken.mean_rows, strict=True)
            both = [without_rows(moments, moments.n, lost, worth) for moments, lost, worth in cost]
        aligned.check_left()
        dependent = [dependent_columns(moments.n, moments.scatter) for moments in both]
        raise_problems(find_dependent([[rows.names[k] for k in found] for found in dependent], labels))
    return aligned


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
