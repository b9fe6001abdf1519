"""How the rows of two tables came about: covariates to take out of every variable, and what rows are nested in.

A covariate is coded as numbers: a number as it is, a category by one column per level but the most common one.
Whole numbers with few different values are taken for categories, such as batches 1 to 3: that includes every
straight line through them. Rows are nested in units, such as donors; a unit may occur in both conditions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeAlias

import numpy as np

from diffdag._base.arrays import BoolArray, FloatArray, IndexArray, IntArray
from diffdag._base.checks import check_whole, is_listing, is_whole
from diffdag._base.errors import InputError
from diffdag._base.words import Option, Part, Way, join_names, plural, table_words
from diffdag.tables.columns import Source, label_value
from diffdag.tables.groups import group_text, natural
from diffdag.tables.problems import check_column_names

Rows: TypeAlias = IndexArray | IntArray

FEW_LEVELS = 10  # different whole numbers that are taken for levels of a category
MOST_LEVELS = 200  # of a category
LEAST_UNITS = 2  # in each condition: one tells nothing of what others would show
MOST_ALONE = 0.5  # share of the rows of a condition that may have a unit of their own
# Share of the variance of a covariate that the condition explains, from which on it nearly coincides with it.
COINCIDES = 0.9
HIDDEN = "hidden"  # what asks for hidden causes among covariates
# What the page says that a column is to be, by option.
_AS = {"adjust": "is to be a covariate", "cluster": "is to be what rows are nested in"}
# What to do about a column that is no covariate, or in which rows are not nested.
_NO_COVARIATE = Way(("leave it out of ", Option("adjust")), "leave it out (under Checks)")
_NO_UNITS = Way(("leave ", Option("cluster"), " out"), "leave it out (under Checks)")


@dataclass(frozen=True, eq=False)
class Design:
    """Coded covariates of each row of two tables, and the unit that it belongs to."""

    adjust: tuple[str, ...] = ()  # covariates, as the user named them, without those that never vary
    columns: tuple[str, ...] = ()  # what the coded columns are, such as "batch=b"
    covariates: tuple[FloatArray, FloatArray] = (np.empty((0, 0)), np.empty((0, 0)))  # [row, coded column]
    cluster: str = ""  # column that names the units; empty if rows are independent
    units: tuple[str, ...] = ()
    members: tuple[IntArray, IntArray] | None = None  # number of the unit that each row belongs to
    compared: bool = True  # whether covariates leave the means of the conditions comparable
    single: bool = (
        False  # whether most units have one row in a condition: they are pairs, and nothing is within
    )

    hidden: int = 0  # hidden causes that were taken out of the rows already
    leverage: tuple[float, float] = (0.0, 0.0)  # what that adds to the errors of means

    @classmethod
    def none(cls, first: int, second: int) -> Design:
        """No covariates and no units, for so many rows."""
        return cls(covariates=(np.empty((first, 0)), np.empty((second, 0))))

    def take(self, first: Rows, second: Rows) -> Design:
        """The design of some rows of either table."""
        one, two = self.covariates
        members = None if self.members is None else (self.members[0][first], self.members[1][second])
        return replace(self, covariates=(one[first], two[second]), members=members)

    def half(self, which: int, first: Rows, second: Rows) -> Design:
        """The design of rows of one table, some as the first and some as the second."""
        own = None if self.members is None else self.members[which]
        members = None if own is None else (own[first], own[second])
        covariates = self.covariates[which][first], self.covariates[which][second]
        return replace(self, covariates=covariates, members=members)

    @property
    def pairs(self) -> IntArray:
        """Units that occur in both conditions."""
        if self.members is None:
            return np.zeros(0, np.int64)
        return np.intersect1d(self.members[0], self.members[1])

    @property
    def said(self) -> dict[str, object]:
        """What was taken out, for people to read."""
        adjust: dict[str, object] = {"adjust": list(self.adjust)} if self.adjust else {}
        if self.hidden:
            adjust["hidden_causes"] = self.hidden
        return {**adjust, **({"cluster": self.cluster} if self.cluster else {})}


@dataclass(frozen=True, eq=False)
class Labels:
    """The columns of a design as they were found: values of each row of both tables, missing ones as None."""

    adjust: dict[str, tuple[list[Any], list[Any]]]
    cluster: str = ""
    units: tuple[list[Any], list[Any]] = ((), ())  # type: ignore[assignment]

    @property
    def gaps(self) -> tuple[BoolArray, BoolArray]:
        """Rows of each table in which some of them are missing."""
        every = [*self.adjust.values(), *([self.units] if self.cluster else [])]
        one, two = (
            np.array([None in row for row in zip(*(own[k] for own in every), strict=True)], dtype=bool)
            for k in (0, 1)
        )
        return one, two


def split_hidden(adjust: object) -> tuple[object, bool, int | None]:
    """The covariates that have names, whether hidden causes are asked for, and how many if that was said.

    ``"hidden"``, alone or among names, and a whole number stand for hidden causes.

    >>> split_hidden(["age", "hidden"]), split_hidden(3), split_hidden(["age"])
    ((['age'], True, None), (None, True, 3), (['age'], False, None))
    """
    if is_whole(adjust):
        check_whole("adjust", adjust, least=1)
        return None, True, int(str(adjust))
    names: object = [adjust] if isinstance(adjust, str) and adjust == HIDDEN else adjust
    if not isinstance(names, (list, tuple)) or HIDDEN not in names:
        return adjust, False, None
    return [name for name in names if name != HIDDEN] or None, True, None


def check_no_hidden_column(asked: bool, sources: Sequence[Source]) -> None:
    """Refuse to guess what is meant where hidden causes are asked for, and a column has their name."""
    if asked and any(HIDDEN in source.label_names for source in sources):
        raise InputError(
            f"'{HIDDEN}' is a column, and asks for hidden causes in ", Option("adjust"), "; rename the column"
        )


def design_columns(adjust: object, cluster: object) -> list[str]:
    """Names of the columns of a design, as the user gave them."""
    if adjust is not None and not is_listing(adjust):
        example = Option("adjust", ("age",))
        raise InputError(Option("adjust"), f" is {_cut(adjust)}; give a list of column names: ", example)
    if cluster is not None and not isinstance(cluster, str):
        raise InputError(Option("cluster"), f" is {_cut(cluster)}; give the name of one column")
    covariates: Iterable[object] = () if adjust is None else adjust
    return [*map(str, covariates), *([] if cluster is None else [cluster])]


def _cut(value: object) -> str:
    """A wrong value, cut short."""
    text = repr(value)
    return text if len(text) <= 40 and "\n" not in text else f"a {type(value).__name__}"


def check_in_all(
    option: str,
    names: Sequence[str] | None,
    known: Sequence[Sequence[str]],
    labels: Sequence[str],
    who: str = "both tables need it",
) -> list[str]:
    """The columns that an option names, which both tables, or all files, need to have."""
    found = check_column_names(option, names, known) or []
    for name in found:
        lacking = [label for label, own in zip(labels, known, strict=True) if name not in own]
        if lacking:
            raise InputError(
                f"{table_words(lacking[0])} has no column '{name}', which ",
                Way((Option(option), " names"), _AS[option]),
                f"; {who}",
            )
        twice = [label for label, own in zip(labels, known, strict=True) if own.count(name) > 1]
        if twice:
            raise InputError(f"'{name}' appears more than once in {table_words(twice[0])}; rename one of them")
    return found


def read_labels(
    sources: tuple[Source, Source], adjust: Sequence[str] | None, cluster: str | None
) -> Labels | None:
    """Find the columns of a design in two tables; None where none is asked for."""
    known, labels = [source.label_names for source in sources], [source.label for source in sources]
    covariates = check_in_all("adjust", adjust, known, labels)
    units = check_in_all("cluster", None if cluster is None else [cluster], known, labels)
    both = [name for name in covariates if name in units]
    if both:
        raise InputError(
            f"'{both[0]}' is a covariate and names what rows are nested in; ",
            Way(("leave it out of ", Option("adjust")), "choose the latter (under Checks)"),
            ": differences between units are taken out anyway",
        )
    if not covariates and not units:
        return None
    values = {name: (sources[0].labels(name), sources[1].labels(name)) for name in covariates}
    if not units:
        return Labels(values)
    return Labels(values, units[0], (sources[0].labels(units[0]), sources[1].labels(units[0])))


def make_design(
    labels: Labels, rows: tuple[IndexArray | None, IndexArray | None], names: tuple[str, str]
) -> tuple[Design, list[str]]:
    """Code the covariates and units of the rows that are used, and say what a user should know of them.

    `names` are what messages call the conditions.
    """
    notes: list[str] = []
    coded: list[_Coded] = []
    for name, values in labels.adjust.items():
        one, two = (
            list(own) if some is None else [own[k] for k in some]
            for own, some in zip(values, rows, strict=True)
        )
        found = _code(name, (one, two), names, notes)
        if found is not None:
            coded.append(found)
    sizes = [_count(labels, k, rows[k]) for k in (0, 1)]
    stacked = [
        np.column_stack([own.values[k] for own in coded]) if coded else np.empty((sizes[k], 0)) for k in (0, 1)
    ]
    design = Design(
        tuple(own.name for own in coded),
        tuple(column for own in coded for column in own.columns),
        (stacked[0], stacked[1]),
        compared=all(own.compared for own in coded),
    )
    if not labels.cluster:
        return design, notes
    units = [
        [group_text(own[k]) for k in (range(len(own)) if some is None else some)]
        for own, some in zip(labels.units, rows, strict=True)
    ]
    every = sorted({*units[0], *units[1]}, key=natural)
    place = {unit: k for k, unit in enumerate(every)}
    members = [np.array([place[unit] for unit in own], dtype=np.int64) for own in units]
    design = replace(design, cluster=labels.cluster, units=tuple(every), members=(members[0], members[1]))
    design = replace(design, single=any(_alone(own) > MOST_ALONE for own in members))
    _check_units(design, names)
    if design.single:
        return design, notes
    shared = [own.name for own in coded if not _varies_within(own, design)]
    if shared:
        several = len(shared) > 1
        notes.append(
            f"{'covariates' if several else 'covariate'} {join_names(shared)} never "
            f"{'vary' if several else 'varies'} within a '{design.cluster}': effects within them are free of "
            "that, but their means are not, and intercepts cannot be compared"
        )
    return replace(design, compared=design.compared and not shared), notes


def _alone(members: IntArray) -> float:
    """Share of the rows whose unit has no other."""
    return float((np.bincount(members)[members] == 1).mean())


def _count(labels: Labels, which: int, rows: IndexArray | None) -> int:
    if rows is not None:
        return len(rows)
    own = labels.units if labels.cluster else next(iter(labels.adjust.values()))
    return len(own[which])


@dataclass(frozen=True, eq=False)
class _Coded:
    """One covariate as numbers."""

    name: str
    columns: tuple[str, ...]
    values: tuple[FloatArray, FloatArray]
    compared: bool = True


def _code(
    name: str, values: tuple[list[Any], list[Any]], names: tuple[str, str], notes: list[str]
) -> _Coded | None:
    """A covariate as numbers; None if it never varies. One that is the condition itself is refused."""
    numeric = all(isinstance(value, (int, float)) for value in (*values[0], *values[1]))
    if not numeric:  # a level is the same whether a number or a text holds it
        values = [group_text(value) for value in values[0]], [group_text(value) for value in values[1]]
    own = set(values[0]), set(values[1])
    different = own[0] | own[1]
    if len(different) < 2:
        notes.append(never_varies(name))
        return None
    if len(own[0]) == len(own[1]) == 1:
        refuse_condition(name, (next(iter(own[0])), next(iter(own[1]))), names)
    whole = numeric and all(float(value).is_integer() for value in different)
    if numeric and not (whole and 2 < len(different) <= FEW_LEVELS):
        return _number(name, values, names, notes)
    if numeric:
        notes.append(f"covariate '{name}' has {len(different)} different whole numbers, taken for categories")
    return _category(name, values, names, notes)


def _number(name: str, values: tuple[list[Any], list[Any]], names: tuple[str, str], notes: list[str]) -> _Coded:
    one, two = (np.array(own, dtype=np.float64) for own in values)
    if not (np.isfinite(one).all() and np.isfinite(two).all()):
        raise InputError(f"covariate '{name}' holds infinite values; remove such rows or check the export")
    means, variances = (one.mean(), two.mean()), (one.var(), two.var())
    apart = one.min() > two.max() or two.min() > one.max()
    compared = judge_number(name, means, variances, names, notes, apart=apart)
    return _Coded(name, (name,), (one[:, None], two[:, None]), compared)


def _category(
    name: str, values: tuple[list[Any], list[Any]], names: tuple[str, str], notes: list[str]
) -> _Coded:
    one, two = ([group_text(value) for value in own] for own in values)
    rest, compared = judge_category(name, (Counter(one), Counter(two)), names, notes)
    coded = [
        np.array([[own == level for level in rest] for own in part], dtype=np.float64) for part in (one, two)
    ]
    return _Coded(name, tuple(level_name(name, level) for level in rest), (coded[0], coded[1]), compared)


# What can be said of a covariate, whether its values are known or only their moments ------------------------


def level_name(name: str, level: str) -> str:
    """The name of the column that is 1 where a category has this level."""
    return f"{name}={level}"


def level_text(value: object) -> str | None:
    """The level that a value of a category stands for; None if it is missing."""
    label = label_value(value)
    return None if label is None else group_text(label)


def never_varies(name: str) -> str:
    """Say that a covariate was left out."""
    return f"covariate '{name}' has the same value in every row and was left out"


def refuse_condition(name: str, values: tuple[object, object], names: tuple[str, str]) -> NoReturn:
    """Refuse a covariate that has one value in one condition, and another in the other."""
    raise InputError(
        f"covariate '{name}' coincides with the condition ('{group_text(values[0])}' in {names[0]}, "
        f"'{group_text(values[1])}' in {names[1]}): what it changes cannot be told from what the condition "
        "changes; ",
        _NO_COVARIATE,
        ", and take the result for that of both together",
    )


def judge_number(
    name: str,
    means: tuple[float, float],
    variances: tuple[float, float],
    names: tuple[str, str],
    notes: list[str],
    *,
    apart: bool = False,
) -> bool:
    """Whether a covariate leaves means comparable; `apart` if its values in the conditions do not overlap."""
    between = (means[0] - means[1]) ** 2 / 4
    within = (variances[0] + variances[1]) / 2
    if not apart and between <= COINCIDES * (between + within):
        return True
    notes.append(
        f"covariate '{name}' nearly coincides with the condition: its values hardly overlap between "
        f"{names[0]} and {names[1]}; effects are compared within each, but intercepts cannot be"
    )
    return False


def judge_category(
    name: str, counts: tuple[Counter[str], Counter[str]], names: tuple[str, str], notes: list[str]
) -> tuple[list[str], bool]:
    """The levels of a category but the most common one, and whether it leaves means comparable.

    `counts` are rows of each level in each condition.
    """
    both = counts[0] + counts[1]
    levels = sorted(both, key=natural)
    if len(levels) > MOST_LEVELS or len(levels) > both.total() / 3:
        raise InputError(
            *too_many_levels(name, f"{len(levels)} different values in {plural(both.total(), 'row')}"),
            ", or, if it names what rows are nested in, ",
            Way(("give it with ", Option("cluster", name)), "say so"),
        )
    shared = [level for level in levels if counts[0][level] and counts[1][level]]
    for k in (0, 1):
        alone = [level for level in levels if counts[k][level] and not counts[1 - k][level]]
        if alone:
            several = len(alone) > 1
            notes.append(
                f"{'levels' if several else 'level'} {join_names(alone)} of covariate '{name}' "
                f"{'occur' if several else 'occurs'} in {names[k]} only: effects are compared within levels, "
                "but intercepts cannot be compared"
                + ("" if shared else f"; if rows are nested in '{name}', name it with the option 'cluster'")
            )
    base = max(shared or levels, key=lambda level: both[level])
    return [level for level in levels if level != base], len(shared) == len(levels)


def too_many_levels(name: str, values: str) -> tuple[Part, ...]:
    """Words about a covariate that has too many values for a category."""
    return f"covariate '{name}' has {values}, too many for a category; ", _NO_COVARIATE


def _varies_within(coded: _Coded, design: Design) -> bool:
    """Whether a covariate differs between rows of one unit, in any of them."""
    for values, members in zip(coded.values, design.members or (), strict=True):
        order = np.argsort(members, kind="stable")
        same = np.diff(members[order]) == 0
        if np.diff(values[order], axis=0)[same].any():
            return True
    return False


def _check_units(design: Design, names: tuple[str, str]) -> None:
    """Refuse what tells nothing of other units: a condition with one, or units with one row each."""
    if design.members is None:
        return
    for own, name in zip(design.members, names, strict=True):
        counts = np.bincount(own)
        units = int((counts > 0).sum())
        if units < LEAST_UNITS:
            raise InputError(
                f"all rows of {name} belong to one '{design.cluster}': they tell nothing of what others would "
                "show, and a change cannot be told from a difference of individuals; ",
                _NO_UNITS,
                ", and take the result for one about these individuals",
            )
        if design.single and len(design.pairs) < LEAST_UNITS:
            raise InputError(
                f"nearly every row of {name} is a '{design.cluster}' of its own, and none occurs in both "
                "conditions: there is nothing to compare within them; ",
                _NO_UNITS,
            )
