"""Levels of categories as rows come in: each gets a column of 0 and 1 of its own, behind those of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from diffdag._base.arrays import FloatArray
from diffdag._base.errors import InputError
from diffdag.tables.design import MOST_LEVELS, level_name, level_text, too_many_levels
from diffdag.tables.groups import natural


class LevelColumns:
    """Which column each level of each category has, after columns of numbers.

    >>> levels = LevelColumns(1, ["batch"])
    >>> codes = levels.codes("batch", ["b", "a", None, "b"])
    >>> codes
    array([ 1.,  2., nan,  1.])
    >>> levels.spread(np.array([[0.5, 0.7], [1.0, 2.0]])).T
    array([[0.5, 1. , 0. ],
           [0.7, 0. , 1. ]])
    >>> levels.columns
    {'batch': ('batch=b', 'batch=a')}
    """

    def __init__(self, numbers: int, categories: Sequence[str]) -> None:
        self._numbers = numbers
        self._known: dict[str, dict[str, int]] = {name: {} for name in categories}
        self.width = numbers  # columns, of numbers and of levels

    def codes(self, name: str, values: Iterable[object]) -> FloatArray:
        """The column of each value's level, NaN where it is missing; new levels get new columns."""
        known = self._known[name]
        codes = []
        for value in values:
            level = level_text(value)
            if level is not None and level not in known:
                known[level], self.width = self.width, self.width + 1
                check_levels(name, len(known))
            codes.append(np.nan if level is None else float(known[level]))
        return np.array(codes, dtype=np.float64)

    def spread(self, lines: FloatArray) -> FloatArray:
        """Lines of numbers as they are, and one for each level in place of lines of codes."""
        wide = np.zeros((self.width, lines.shape[1]))
        wide[: self._numbers] = lines[: self._numbers]
        place = np.arange(lines.shape[1])
        for codes in lines[self._numbers :]:
            wide[codes.astype(np.intp), place] = 1.0
        return wide

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """Names of the columns of each category."""
        return {name: tuple(level_name(name, level) for level in own) for name, own in self._known.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of all categories, in the order of the columns."""
        every = {
            place: level_name(name, level) for name, own in self._known.items() for level, place in own.items()
        }
        return tuple(every[place] for place in sorted(every))


def in_order(name: str, columns: Iterable[str]) -> list[str]:
    """Columns of a category, by level as a person would sort them; too many are refused."""
    found = sorted(columns, key=lambda column: natural(column.removeprefix(level_name(name, ""))))
    check_levels(name, len(found))
    return found


def check_levels(name: str, count: int) -> None:
    """Refuse a category with too many levels."""
    if count > MOST_LEVELS:
        raise InputError(*too_many_levels(name, f"more than {MOST_LEVELS} different values"))
