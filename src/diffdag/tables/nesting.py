"""Whether rows look nested: whether those with the same text, or number of a unit, resemble each other.

A one-way analysis of variance within each condition: what share of the variance of the variables do the values
of a column explain, beyond what chance would? Shares are Kelley's (1935) epsilon squared, which is 0 on average
where nothing is explained.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from diffdag._base.arrays import FloatArray, IntArray
from diffdag._base.words import option_words
from diffdag.tables.columns import CellSource
from diffdag.tables.design import LEAST_UNITS, MOST_LEVELS, Labels
from diffdag.tables.groups import group_text
from diffdag.tables.inspect import Inspection

LEVEL = 1e-3  # over all variables
MUCH = 0.05  # share of the variance, on average over the variables
MOST = 0.2  # or of one of them
ROWS_EACH = 3  # rows that a unit has on average, at least
WIDEST = 200  # variables that are looked at
MOST_TEXTS = 50  # columns of text that are
# Names of columns whose numbers are those of units.
_UNITS = re.compile(
    r"(^|[^a-z])(donor|subject|patient|participant|person|individual|animal|mouse|rat|litter|cage|family|"
    r"household|batch|plate|chip|lane|slide|run|site|cent(er|re)|hospital|clinic|school|class|country|region|"
    r"replicate|sample|id)s?([^a-z]|$)"
)


class Nesting(NamedTuple):
    """A column whose values may be what rows are nested in."""

    name: str
    levels: int  # different values
    share: float  # of the variance that they explain within conditions, on average over the variables
    most: float  # and of the variable of which they explain most
    variable: str  # which that is
    pvalue: float  # of nothing being explained
    inside: bool  # whether each value occurs in one condition only
    possible: bool  # whether each condition has two or more of them, with rows enough in each
    within: str = ""  # the column of units that rows are known to be nested in, whose levels are taken out

    @property
    def looks_nested(self) -> bool:
        """Whether rows with the same value resemble each other clearly."""
        much = self.share >= MUCH or self.most >= MOST
        return self.possible and self.pvalue < LEVEL and much

    @property
    def words(self) -> str:
        """What its values explain."""
        return (
            f"{self.levels} values explain {self.share:.0%} of the variance of the variables on average, and "
            f"{self.most:.0%} of that of '{self.variable}'"
        )

    @property
    def remedy(self) -> str:
        """Which option accounts for it: values in both conditions may be batches, others are units."""
        adjust, cluster = (option_words(option, self.name) for option in ("adjust", "cluster"))
        if self.within or self.inside:
            return f"{adjust} takes it out of all variables" if self.within else f"{cluster} accounts for it"
        return f"{adjust} takes it out if its values are batches, {cluster} accounts for it if they are units"


def find_nesting(seen: Inspection, texts: Sequence[str], said: Labels | None = None) -> tuple[Nesting, ...]:
    """Look at columns of text that were left out, and at those that number units.

    `seen` are the columns that are compared; `texts` the columns of text, which are not among them. Where units
    are `said`, columns are looked at within them.
    """
    units = said if said is not None and said.cluster else None
    taken = said.adjust if said is not None else {}  # cells have covariates among their columns
    every = [_explained(*own, seen, units) for own in _columns(seen, texts) if own[0] not in taken]
    return tuple(own for own in every if own is not None)


def _columns(seen: Inspection, texts: Sequence[str]) -> Iterator[tuple[str, tuple[list[Any], list[Any]]]]:
    one, two = seen.sources
    for name in texts[:MOST_TEXTS]:
        yield name, (one.labels(name), two.labels(name))
    if isinstance(one, CellSource) and isinstance(two, CellSource):
        for name in one.label_names:
            if names_units(name) and name in two.label_names:
                yield name, (one.labels(name), two.labels(name))
        return
    for k, name in enumerate(seen.names):
        if name in seen.texts or not names_units(name):
            continue
        arrays = [array[:, k] for array in seen.arrays]
        every = np.concatenate(arrays)
        every = every[~np.isnan(every)]
        if (every == np.rint(every)).all() and 2 < len(np.unique(every)) <= MOST_LEVELS:
            before, after = ([None if np.isnan(v) else float(v) for v in array] for array in arrays)
            yield name, (before, after)


def names_units(name: str) -> bool:
    """Whether a column is called as units are, such as donors.

    >>> [names_units(name) for name in ("donor", "Patient ID", "plateNr", "age", "rational")]
    [True, True, True, False, False]
    """
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    return _UNITS.search(spaced.lower()) is not None


@np.errstate(all="ignore")
def _explained(name: str, values: Sequence[list[Any]], seen: Inspection, said: Labels | None) -> Nesting | None:
    """What the values of a column explain; None where they are too many, or all the same."""
    texts = [[None if value is None else group_text(value) for value in own] for own in values]
    levels = [{text for text in own if text is not None} for own in texts]
    every = levels[0] | levels[1]
    known = sum(text is not None for own in texts for text in own)
    if len(every) < 3 or len(every) > MOST_LEVELS or known < ROWS_EACH * len(every):
        return None
    place = {text: k for k, text in enumerate(sorted(every))}
    names = [other for other in seen.names if other != name]
    chosen = [seen.names.index(other) for other in names[:WIDEST]]
    sizes = [np.nan_to_num(np.abs(array[:, chosen])).max(axis=0, initial=0.0) for array in seen.arrays]
    scale = np.maximum(sizes[0], sizes[1])
    between, within, free1, free2 = np.zeros(len(chosen)), np.zeros(len(chosen)), 0, 0
    for k, (own, array) in enumerate(zip(texts, seen.arrays, strict=True)):
        table = array[:, chosen] / np.where(scale > 0, scale, 1.0)
        numbers = np.array([-1 if text is None else place[text] for text in own], np.int64)
        some = (numbers >= 0) & np.isfinite(table).all(axis=1)
        members, table = numbers[some], table[some]
        if said is not None:
            units = np.array(["" if unit is None else group_text(unit) for unit in said.units[k]])
            table = table - pd.DataFrame(table).groupby(units[some]).transform("mean").to_numpy()
        explained, rest, count = _sums(table, members)
        between, within = between + explained, within + rest
        free1, free2 = free1 + max(count - 1, 0), free2 + len(members) - count
    if not chosen or free1 < 1 or free2 < 1:
        return None
    from scipy import special  # noqa: PLC0415 - after what fails at once

    total = between + within
    ratio = (between / free1) / (within / free2)
    share = np.nan_to_num((between - free1 * within / free2) / total)
    chance = np.nan_to_num(special.fdtrc(free1, free2, ratio), nan=1.0)
    best = int(np.argmax(share))
    return Nesting(
        name,
        len(every),
        float(share.mean()),
        float(share[best]),
        names[best],
        float(min(1.0, len(chosen) * chance.min())),
        not levels[0] & levels[1],
        min(map(len, levels)) >= LEAST_UNITS,
        "" if said is None else said.cluster,
    )


def _sums(table: FloatArray, members: IntArray) -> tuple[FloatArray, FloatArray, int]:
    """Sums of squares between units and within them, and the number of units."""
    if not len(table):
        return np.zeros(table.shape[1]), np.zeros(table.shape[1]), 0
    table = table - table.mean(axis=0)
    units, own = np.unique(members, return_inverse=True)
    sums = np.zeros((len(units), table.shape[1]))
    np.add.at(sums, own, table)
    counts = np.bincount(own)[:, None]
    between = (sums**2 / counts).sum(axis=0)
    return between, np.maximum((table**2).sum(axis=0) - between, 0.0), len(units)
