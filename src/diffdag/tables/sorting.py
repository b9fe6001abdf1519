"""Columns that are no variables to compare: left out with a note, or switched off or on between the conditions.

A column that is as good as constant in one condition and varies in the other cannot be compared by
covariances; it is a change by itself if chance does not explain it: by Fisher's exact test of how many rows
hold another value than the common one. All that is left out is said in notes; it is refused if the user asked
for it by name, or if nothing is left without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag._base.errors import Problem
from diffdag._base.words import NAMES_SHOWN, Option, join_names, option_words
from diffdag.tables import kinds
from diffdag.tables.coding import TextColumn
from diffdag.tables.columns import CellSource
from diffdag.tables.degenerate import is_extreme
from diffdag.tables.design import FEW_LEVELS, MOST_LEVELS
from diffdag.tables.inspect import Inspection
from diffdag.tables.nesting import Nesting
from diffdag.tables.problems import LEAST_ROWS, find_useless

SURE = 0.001  # p-value below which a column that varies in one condition only is a change
NESTED_SHOWN = 3  # columns in which rows look nested that are named one by one
MOST_SWITCHES = 20  # that are named; of cells there may be thousands

# What is said of columns that were left out: of one, of several.
_SAID = {
    "constant": ("is constant", "are constant"),
    "rare": (f"hardly varies (in at most {kinds.RARE} rows)", f"hardly vary (in at most {kinds.RARE} rows)"),
    "empty": ("is empty", "are empty"),
    "counter": ("counts rows", "count rows"),
    "ids": ("numbers rows", "number rows"),
    "times": ("holds the time of each row", "hold the time of each row"),
    "dates": ("holds dates", "hold dates"),
}


class Switched(NamedTuple):
    """A column that varies in one condition only."""

    variable: str
    constant: int  # the condition in which it does not vary, 0 or 1
    value: float  # that it holds there
    mean: float  # in the other condition
    spread: float  # standard deviation there
    pvalue: float  # of rows with another value being as rare in both
    odd: int = 0  # rows of the condition in which it does not vary that hold another value after all
    held: str = ""  # the text that the value stands for, if it does


@dataclass(frozen=True)
class Sorted:
    """Which columns are not compared, and why."""

    aside: dict[str, str]  # reasons by name: keys of `_SAID`, "apart", "time", "text", "first" or "second"
    switched: tuple[Switched, ...] = ()
    more: int = 0  # switched ones that are left out because they are too many

    def of(self, why: str) -> list[str]:
        """The columns left out for one reason."""
        return [name for name, reason in self.aside.items() if reason == why]

    def and_(self, other: Sorted) -> Sorted:
        """These columns and others."""
        both = self.aside | other.aside, (*self.switched, *other.switched)
        return Sorted(*both, self.more + other.more)


def sort_columns(seen: Inspection, few: int | None = None) -> Sorted:
    """Find the columns that cannot be compared although nothing is wrong with them.

    `few` is the table, 0 or 1, of which only means are compared, if there is one: it may be constant.
    """
    aside = {name: _text_reason(text) for name, text in seen.texts.items() if text.numbers is None}
    rows = [len(array) for array in seen.arrays]
    if few is not None and seen.names:
        aside |= _flat_reference(seen, 1 - few)
        return Sorted({report.name: aside[report.name] for report in seen.columns if report.name in aside})
    if min(rows) < LEAST_ROWS or not seen.names:
        return Sorted(aside)
    one, two = seen.measures
    empty = [one.gaps == rows[0], two.gaps == rows[1]]
    sound = (one.infinite == 0) & (two.infinite == 0) & ~empty[0] & ~empty[1]
    common = [kinds.common_values(own, m.gaps) for own, m in zip(seen.arrays, seen.measures, strict=True)]
    flat = [own.flat & sound for own in common]
    aside |= {seen.names[k]: "empty" for k in np.flatnonzero(empty[0] & empty[1])}
    for k in np.flatnonzero(flat[0] & flat[1]):
        rare = max(common[0].odd[k], common[1].odd[k]) > 0
        apart = common[0].value[k] != common[1].value[k]
        aside[seen.names[k]] = "apart" if apart else "rare" if rare else "constant"
    found = []
    for k in np.flatnonzero(flat[0] ^ flat[1]):
        which = 0 if flat[0][k] else 1
        if not is_extreme(seen.measures[1 - which].spread[k : k + 1])[0]:
            found.append(_switched(seen, int(k), which, common[which]))
    aside |= {own.variable: ("first", "second")[own.constant] for own in found if own.pvalue >= SURE}
    sure = sorted((own for own in found if own.pvalue < SURE), key=lambda own: own.pvalue)
    aside |= {own.variable: "" for own in sure[MOST_SWITCHES:]}
    aside |= _counters(seen, sound & ~flat[0] & ~flat[1])
    kept = {own.variable for own in sure[:MOST_SWITCHES]}
    aside = {report.name: aside[report.name] for report in seen.columns if report.name in aside}
    return Sorted(aside, tuple(own for own in found if own.variable in kept), len(sure) - len(kept))


def _flat_reference(seen: Inspection, which: int) -> dict[str, str]:
    """Columns that do not vary in the table that others are compared with, count its rows or hold times."""
    array, own = seen.arrays[which], seen.measures[which]
    empty = own.gaps == len(array)
    flat = kinds.common_values(array, own.gaps).flat & (own.infinite == 0) & ~empty
    found = {seen.names[k]: "empty" for k in np.flatnonzero(empty)}
    for k in np.flatnonzero(flat).tolist():
        values = np.unique(_present(seen.arrays[1 - which], k))
        same = np.array_equal(np.unique(_present(array, k)), values)
        found[seen.names[k]] = (
            "constant" if same else "apart" if len(values) == 1 else ("first", "second")[which]
        )
    some = {*kinds.orderly(array, array, own.gaps).tolist()}
    some |= {k for k, name in enumerate(seen.names) if kinds.names_rows(name)}
    for k in some:
        name = seen.names[k]
        if name not in found and name not in seen.texts:
            kind = kinds.kind_of_numbers(name, _present(array, k))
            found |= {name: kind} if kind else {}
    return found


def _counters(seen: Inspection, varying: BoolArray) -> dict[str, str]:
    """Columns that count rows, or hold times, among those that vary in both tables."""
    gaps = seen.measures[0].gaps + seen.measures[1].gaps
    some = {*kinds.orderly(*seen.arrays, gaps).tolist()}
    some |= {k for k, name in enumerate(seen.names) if kinds.names_rows(name)}
    found: dict[str, str] = {}
    for k in sorted(some):
        name = seen.names[k]
        if varying[k] and name not in seen.texts:
            kind = kinds.kind_of_numbers(name, *(_present(array, k) for array in seen.arrays))
            found |= {name: kind} if kind else {}
    return found


def _text_reason(text: TextColumn) -> str:
    """Why a column of text is left out."""
    one, two = text.values
    if not one and not two:
        return "empty"
    if len(one) == len(two) == 1:
        return "constant" if one == two else "apart"
    return ("time" if text.rising else "dates") if text.dates else "text"


def _present(array: FloatArray, k: int) -> FloatArray:
    found: FloatArray = array[~np.isnan(array[:, k]), k]
    return found


def _switched(seen: Inspection, k: int, which: int, common: kinds.Common) -> Switched:
    other = _present(seen.arrays[1 - which], k)
    value, odd = float(common.value[k]), int(common.odd[k])
    chance = kinds.chance_of_rarity(odd, int(common.rows[k]), other, value)
    text = seen.texts.get(seen.names[k])
    held = "" if text is None else text.levels[int(value)]
    with np.errstate(all="ignore"):
        mean, spread = float(other.mean()), float(other.std(ddof=1))
    return Switched(seen.names[k], which, value, mean, spread, chance, odd, held)


def refused(found: Sorted, names: Iterable[str], labels: tuple[str, str]) -> list[Problem]:
    """Why these columns cannot be compared, as errors; texts are told of elsewhere."""
    reasons = {own.variable: ("first", "second")[own.constant] for own in found.switched} | found.aside
    aside = {name: reasons[name] for name in names}
    one, two = (
        [name for name, why in aside.items() if why in ("constant", "apart", which)]
        for which in ("first", "second")
    )
    empty = [name for name, why in aside.items() if why == "empty"]
    problems = find_useless("empty", (empty, empty), labels) + find_useless("constant", (one, two), labels)
    kinds_of = {"rare": "constant", "counter": "counter", "ids": "counter", "time": "time", "times": "time"}
    for why, kind in kinds_of.items():
        own = tuple(name for name, reason in aside.items() if reason == why)
        if own:
            said = f"{'column' if len(own) == 1 else 'columns'} {join_names(own)} {_verb(why, len(own))}"
            problems.append(Problem(kind, said, own, (Option("drop", own),)))
    return problems


def find_transposed(seen: Inspection) -> list[Problem]:
    """Whether rows look like variables: the first column names them alike in both, and other columns differ."""
    one, two = seen.sources
    lacking = sum("unmatched" in report.faults for report in seen.columns)
    if not (one.named and two.named and one.names and two.names) or lacking < max(2, len(seen.columns) / 2):
        return []
    if isinstance(one, CellSource) or isinstance(two, CellSource) or one.names[0] != two.names[0]:
        return []
    label = one.names[0]
    names = [source.labels(label) for source in seen.sources]
    alike = set(names[0]) == set(names[1]) and len(set(names[0])) == len(names[0]) > 1
    if not alike or not all(isinstance(name, str) for name in names[0]):
        return []
    what = (
        f"the tables look transposed: their first column, '{label}', names the rows of both alike "
        f"({join_names(names[0][:2])} and so on), and their other columns differ"
    )
    return [Problem("transposed", what, (), (Option("transpose", True),))]


def _verb(why: str, count: int) -> str:
    return _SAID["times" if why == "time" else why][count > 1]


def notes_of(
    found: Sorted, seen: Inspection, labels: tuple[str, str], nesting: Sequence[Nesting] = ()
) -> list[str]:
    """Say what was left out by itself, how text was coded, and what to do about it.

    `seen` are all columns, `nesting` is what is known of those of text.
    """
    by_reason: dict[str, list[str]] = {}
    for name, why in found.aside.items():
        by_reason.setdefault(why, []).append(name)
    clauses = [
        f"{join_names(by_reason[why])} {said[len(by_reason[why]) > 1]}"
        for why, said in _SAID.items()
        if why in by_reason
    ]
    apart = by_reason.get("apart", [])
    clauses += (
        [f"'{name}' {_apart_words(name, seen, labels)}" for name in apart]
        if len(apart) <= 3
        else [f"{join_names(apart)} are constant in each table, at different values"]
    )
    notes = []
    if clauses:
        head = (
            "column" if sum(why in _SAID or why == "apart" for why in found.aside.values()) == 1 else "columns"
        )
        joined = " and ".join(filter(None, [", ".join(clauses[:-1]), clauses[-1]]))
        notes.append(f"{head} {joined}: left out")
    if "time" in by_reason:
        names = by_reason["time"]
        notes.append(
            f"{join_names(names)} {_SAID['times'][len(names) > 1]}: left out; rows are in the order of time, "
            "and the check of independent rows says whether neighbours resemble each other"
        )
    for which, label in zip(("first", "second"), labels, strict=True):
        if which in by_reason:
            names = by_reason[which]
            notes.append(f"{join_names(names)} {_flat_words(label, len(names))}: left out")
    if found.more:
        notes.append(
            f"{found.more:,} more columns vary in one condition only and were left out; those named are the "
            "ones with the most evidence"
        )
    kept = [text for name, text in seen.texts.items() if text.numbers is not None and name not in found.aside]
    notes += [text.note for text in kept[:NAMES_SHOWN]]
    if len(kept) > NAMES_SHOWN:
        notes.append(f"{join_names(text.name for text in kept[NAMES_SHOWN:])}: texts are coded in the same way")
    return notes + _text_notes([seen.texts[name] for name in by_reason.get("text", ())], seen, nesting)


def _text_notes(texts: Sequence[TextColumn], seen: Inspection, nesting: Sequence[Nesting]) -> list[str]:
    """Say which text was left out, and what it may be good for."""
    known = {own.name: own for own in nesting}
    few = {text.name for text in texts if may_group(text, seen)}
    useful = [text for text in texts if text.name in few]
    nested = [text for text in useful if text.name in known and known[text.name].looks_nested][:NESTED_SHOWN]
    others = [text for text in useful if text not in nested]
    notes = []
    for text in nested:
        notes.append(
            f"{_held(text)}: left out; rows with the same one resemble each other; {known[text.name].remedy}"
        )
    if len(others) == 1:
        text, own = others[0], known.get(others[0].name)
        adjust, cluster = (option_words(option, text.name) for option in ("adjust", "cluster"))
        offers = [
            f"{adjust} takes it out of all variables",
            f"if rows are nested in it, {cluster} accounts for that",
        ]
        if own is not None and own.inside and own.possible:
            offers = ["each value occurs in one condition only", offers[1]]
        elif len(text.different) <= FEW_LEVELS:
            offers.append("if its values have an order, 'levels' gives it")
        notes.append(f"{_held(text)}: left out; {'; '.join(offers)}")
    elif others:
        names = join_names(text.name for text in others)
        notes.append(
            f"{names} hold text: left out; the option 'adjust' takes such columns out of all variables, the "
            "option 'cluster' accounts for rows that are nested in one, and 'levels' gives values an order"
        )
    plain = [text.name for text in texts if text.name not in few]
    if plain:
        notes.append(f"{join_names(plain)} {'holds' if len(plain) == 1 else 'hold'} text: left out")
    return notes


def may_group(text: TextColumn, seen: Inspection) -> bool:
    """Whether a column of text may be a covariate, or what rows are nested in: if its values recur."""
    return len(text.different) <= min(MOST_LEVELS, sum(len(array) for array in seen.arrays) / 3)


def describe_aside(found: Sorted, seen: Inspection, labels: tuple[str, str]) -> dict[str, str]:
    """Say in a few words why each column is not compared, one by one, as `notes_of` does for all of them."""
    said = {}
    for name, why in found.aside.items():
        if why == "apart":
            said[name] = _apart_words(name, seen, labels)
        elif why in ("first", "second"):
            said[name] = _flat_words(labels[why == "second"])
        elif why == "text":
            said[name] = _text_words(seen.texts[name])
        elif why:
            said[name] = _verb(why, 1)
        else:
            said[name] = "varies in one condition only, as do others with more evidence"
    return said


def _held(text: TextColumn) -> str:
    return f"'{text.name}' {_text_words(text)}"


def _text_words(text: TextColumn) -> str:
    return f"holds text ({len(text.different)} different values)"


def _flat_words(label: str, count: int = 1) -> str:
    varies = f"{'does' if count == 1 else 'do'} not vary in {label}"
    return f"{varies}, and not enough in the other condition to tell a change from chance"


def _apart_words(name: str, seen: Inspection, labels: tuple[str, str]) -> str:
    """What is said of a column that holds one value in each table, another one in the other."""
    text = seen.texts.get(name)
    if text is not None and text.numbers is None:
        values = [f"'{own[0]}'" for own in text.values]
    else:
        arrays = [_present(array, seen.names.index(name)) for array in seen.arrays]
        found = [kinds.common_values(own[:, None], np.zeros(1, np.int64)).value[0] for own in arrays]
        values = [f"{value:g}" for value in found]
    return f"is {values[0]} in {labels[0]} and {values[1]} in {labels[1]}"
