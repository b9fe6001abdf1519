"""Columns of text as numbers: two different texts, or levels in a known order.

A column is text if nearly none of its values reads as a number; numbers among which some text stands are a
fault of the table, and are refused elsewhere.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffdag._base.arrays import FloatArray
from diffdag._base.errors import InputError
from diffdag._base.words import Option, join_names, table_words
from diffdag.tables.columns import NULLS, Source
from diffdag.tables.groups import group_text, natural
from diffdag.tables.problems import DATE, check_column_names, looks_like_number

MOSTLY_TEXT = 0.1  # share of values that may read as numbers in a column of text

Texts = tuple[list[str | None], list[str | None]]
Levels = Mapping[str, Sequence[object]]


@dataclass(frozen=True, eq=False)
class TextColumn:
    """A column of text in both tables: its different values, and the numbers that stand for them, if any."""

    name: str
    values: tuple[tuple[str, ...], tuple[str, ...]]  # different ones in each table, in natural order
    numbers: tuple[FloatArray, FloatArray] | None = None  # place among the levels; None if it cannot be coded
    levels: tuple[str, ...] = ()
    dates: bool = False
    rising: bool = False  # whether dates are in the order of the rows

    @property
    def different(self) -> tuple[str, ...]:
        """All different values."""
        return tuple(dict.fromkeys((*self.values[0], *self.values[1])))

    @property
    def note(self) -> str:
        """Say which numbers stand for which texts."""
        if len(self.levels) == 2:
            return f"'{self.name}' is coded 0 for '{self.levels[0]}' and 1 for '{self.levels[1]}'"
        return f"'{self.name}' is coded 0 to {len(self.levels) - 1} for {join_names(self.levels)}"


def check_levels(levels: object, known: Sequence[Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Check that ``levels=`` gives the values of columns, lowest first, and return them as texts."""
    if levels is None:
        return {}
    if not isinstance(levels, Mapping):
        raise InputError(
            Option("levels"), f" is {levels!r}; give a dict of columns and their levels, lowest first"
        )
    check_column_names("levels", list(levels), known)
    found = {}
    for name, given in levels.items():
        if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
            raise InputError(Option("levels"), f" of '{name}' are {given!r}; give a list of them, lowest first")
        texts = tuple(group_text(value) for value in given)
        if len(set(texts)) < len(texts) or len(texts) < 2:
            raise InputError(
                Option("levels"), f" of '{name}' are {join_names(texts)}; give two or more different ones"
            )
        found[str(name)] = texts
    return found


def read_text(name: str, sources: tuple[Source, Source], levels: Sequence[str] | None) -> TextColumn | None:
    """Look at a column that is no numbers in some table; None where it is not text, but faulty numbers."""
    texts = _texts(sources[0].column(name)), _texts(sources[1].column(name))
    labels = [source.label for source in sources]
    own = [source.ordered_levels(name) for source in sources]
    if levels is None and own[0] is not None and own[0] == own[1]:
        levels = list(map(group_text, own[0]))
    if levels is not None:
        return _coded(name, texts, tuple(levels), labels)
    known = [[text for text in given if text is not None] for given in texts]
    numeric = any(source.is_numeric(name) and given for source, given in zip(sources, known, strict=True))
    dates = all(source.is_date(name) for source in sources)
    if numeric or not (dates or _is_text([*known[0], *known[1]])):
        return None
    one, two = (tuple(sorted(set(given), key=natural)) for given in known)
    if dates or all(DATE.fullmatch(text) for text in (*one, *two)):
        return TextColumn(name, (one, two), dates=True, rising=_rise(known[0]) and _rise(known[1]))
    both = {*one, *two}
    if len(both) == 2 and max(len(one), len(two)) == 2:
        ordered = sorted(both, key=lambda text: (text == "+", natural(text)))
        return _coded(name, texts, tuple(ordered), labels)
    return TextColumn(name, (one, two))


def _texts(column: Any) -> list[str | None]:
    """Values as text, missing ones as None; "-" is a value beside "+"."""
    values = column.to_pylist() if hasattr(column, "to_pylist") else list(column)
    raw = [group_text(value) for value in values]
    stripped = [text.strip() for text in raw]
    signs = "+" in stripped
    return [
        None if text.startswith("\0") or (text in NULLS and not (signs and text == "-")) or not text else text
        for text in stripped
    ]


def _is_text(values: Sequence[str]) -> bool:
    """Whether nearly no value reads as a number, or nearly does, as "<0.1" or "1,5"."""
    numbers = sum(map(looks_like_number, values))
    return len(values) > 0 and numbers <= MOSTLY_TEXT * len(values)


_ISO = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d.*)?")


def _rise(dates: Sequence[str]) -> bool:
    """Whether dates are in order, where that is seen from how they are written."""
    written = all(map(_ISO.fullmatch, dates)) and len(set(map(len, dates))) < 3
    return written and all(a <= b for a, b in itertools.pairwise(dates))


def _coded(name: str, texts: Texts, levels: tuple[str, ...], labels: Sequence[str]) -> TextColumn:
    """Texts as their places among the levels."""
    place = {level: float(k) for k, level in enumerate(levels)}
    arrays = []
    for given, label in zip(texts, labels, strict=True):
        strange = [text for text in dict.fromkeys(given) if text is not None and text not in place]
        if strange:
            raise InputError(
                f"column '{name}' of {table_words(label)} holds {join_names(strange)}, which is none of its ",
                Option("levels"),
                f" {join_names(levels)}; name all of them, lowest first",
            )
        arrays.append(np.array([np.nan if text is None else place[text] for text in given], dtype=np.float64))
    values = [tuple(level for level in levels if level in set(given)) for given in texts]
    return TextColumn(name, (values[0], values[1]), (arrays[0], arrays[1]), levels)
