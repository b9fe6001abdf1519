"""Resamples of rows that are nested in units: whole units are drawn, and each that is drawn is one of its own.

Units that occur in both conditions are drawn for both at once. At least two different units of each condition
are drawn: one tells nothing of others. Halves are halves of the units; where a condition has fewer than four of
them, they are halves of the rows of each unit.

Where nothing is to differ, halves of the units of one condition are compared. Of units that occur in both
conditions every second one has them swapped: what changed cancels, and what is special about a unit, too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from diffdag._base.arrays import IntArray
from diffdag._base.errors import InputError
from diffdag._base.words import named
from diffdag.tables.align import Tables
from diffdag.tables.design import LEAST_UNITS, Design

TRIES = 100


def draw_units(tables: Tables, half: bool, turn: bool, random: np.random.Generator) -> Tables:
    """A bootstrap sample of units, or, `turn` about, one of two complementary halves."""
    design, members = tables.design, None if tables.design is None else tables.design.members
    if design is None or members is None:
        raise ValueError("rows are not nested in units")
    if half and min(len(np.unique(own)) for own in members) < 2 * LEAST_UNITS:
        first, second = (_half_of_rows(own, turn, random) for own in members)
        return tables.take(first, second)
    chosen = _half(members, turn, random) if half else _bootstrap(members, random)
    return _take_units(tables, design, members, *chosen)


def half_units(tables: Tables, which: int, random: np.random.Generator) -> Tables:
    """Two tables in which nothing differs, from units: halves of one condition, or pairs of which half swap."""
    design, members = tables.design, None if tables.design is None else tables.design.members
    if design is None or members is None:
        raise ValueError("rows are not nested in units")
    pairs = np.intersect1d(*members)
    if len(pairs) >= 2 * LEAST_UNITS:
        return _swapped(tables, design, members, random.permutation(pairs))
    enough = [k for k in (0, 1) if len(np.unique(members[k])) >= 2 * LEAST_UNITS]
    if not enough:
        raise InputError(
            f"halves of one condition need {2 * LEAST_UNITS} '{design.cluster}' of it; leave ",
            named("controls"),
            " out",
        )
    own = members[which if which in enough else enough[0]]
    units = random.permutation(np.unique(own))
    first = np.isin(own, units[: len(units) // 2])
    return tables.halves(which if which in enough else enough[0], np.flatnonzero(first), np.flatnonzero(~first))


def _swapped(tables: Tables, design: Design, members: tuple[IntArray, IntArray], pairs: IntArray) -> Tables:
    """The rows of pairs, those of every second one swapped."""
    rows = np.concatenate([tables.first, tables.second])
    about = np.concatenate(design.covariates)
    unit = np.concatenate(members)
    side = np.repeat([0, 1], [len(own) for own in members])
    kept = np.isin(unit, pairs)
    side = np.where(np.isin(unit, pairs[::2]), 1 - side, side)
    parts = [np.flatnonzero(kept & (side == k)) for k in (0, 1)]
    own = replace(
        design, covariates=(about[parts[0]], about[parts[1]]), members=(unit[parts[0]], unit[parts[1]])
    )
    both = replace(tables, first=rows[parts[0]], second=rows[parts[1]], design=own)
    return replace(both, places=(None, None), notes=(), filled=tables.known_gaps)


def _groups(members: tuple[IntArray, IntArray]) -> list[IntArray]:
    """Units that occur in the first condition only, in the second only, and in both."""
    one, two = (np.unique(own) for own in members)
    return [np.setdiff1d(one, two), np.setdiff1d(two, one), np.intersect1d(one, two)]


def _bootstrap(members: tuple[IntArray, IntArray], random: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Units of each condition, drawn with replacement."""
    groups = _groups(members)
    for _ in range(TRIES):
        drawn = [random.choice(own, len(own)) if len(own) else own for own in groups]
        both = np.concatenate([drawn[0], drawn[2]]), np.concatenate([drawn[1], drawn[2]])
        if min(len(np.unique(own)) for own in both) >= LEAST_UNITS:
            break
    return both


def _half(
    members: tuple[IntArray, IntArray], turn: bool, random: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Every second unit of a random order, of each condition.

    Where units are odd, the larger part of the pairs goes with the smaller part of the others.
    """
    turns = int(turn), int(turn), int(not turn)
    drawn = [random.permutation(own)[begin::2] for own, begin in zip(_groups(members), turns, strict=True)]
    return np.concatenate([drawn[0], drawn[2]]), np.concatenate([drawn[1], drawn[2]])


def _half_of_rows(members: IntArray, turn: bool, random: np.random.Generator) -> IntArray:
    """Every second row of a random order of the rows of each unit."""
    order = random.permutation(len(members))
    by_unit = order[np.argsort(members[order], kind="stable")]
    return np.sort(by_unit[int(turn) :: 2])


def _take_units(
    tables: Tables, design: Design, members: tuple[IntArray, IntArray], first: IntArray, second: IntArray
) -> Tables:
    """The rows of some units, each time that one is drawn as a unit of its own; pairs stay pairs."""
    rows, numbers = [], []
    pairs = min(len(first), len(second)) if len(_groups(members)[2]) else 0
    for own, drawn in zip(members, (first, second), strict=True):
        order, sizes = np.argsort(own, kind="stable"), np.bincount(own, minlength=len(design.units))
        by_unit = np.split(order, np.cumsum(sizes)[:-1])
        places = [by_unit[unit] for unit in drawn]
        rows.append(np.concatenate(places))
        numbers.append([len(place) for place in places])
    shared = int(np.isin(first, np.intersect1d(*members)).sum()) if pairs else 0
    # Pairs come last in both, in the same order: they get the first numbers.
    alone = len(first) - shared
    labels_first = [*range(shared, shared + alone), *range(shared)]
    labels_second = [*range(shared + alone, alone + len(second)), *range(shared)]
    codes = [
        np.repeat(np.array(labels, dtype=np.int64), counts)
        for labels, counts in zip((labels_first, labels_second), numbers, strict=True)
    ]
    units = tuple(str(k) for k in range(alone + len(second)))
    taken = replace(design.take(rows[0], rows[1]), units=units, members=(codes[0], codes[1]))
    return tables.take(rows[0], rows[1], taken)
