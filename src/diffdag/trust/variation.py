"""Another specification of the same model: what a resample is varied by, beside its rows.

Resampled rows show what chance does to a result. What is wrong with the model, chance does not show: all
resamples share it. A change of a mechanism should survive it if other columns were not measured, if values far
out count for less, if rows of extreme values are missing, and if noise variances are taken for equal; what
passes for one because of a hidden cause, a heavy tail, a bend or noise that depends on a level often does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from diffdag._base.arrays import FloatArray
from diffdag.tables.align import Tables

LEFT_OUT, WINSORISED, TRIMMED, EQUAL = "columns left out", "winsorised", "range trimmed", "noise equal"
# Shares: of the columns left out, of the values beyond which others are pulled in on either side, and of a
# column's values beyond which rows are left out on either side, at most.
COLUMNS_OUT, TAILS, RANGE = (0.1, 1 / 3), (0.01, 0.05), 0.15
FEWEST = 4  # columns of which some can be left out
GRID = np.linspace(0.0, 1.0, 201)


@dataclass(frozen=True, eq=False)
class Varied:
    """Two tables to fit, what was varied about them, and which columns are to be left out."""

    tables: Tables
    how: str = ""  # empty if nothing was
    out: tuple[int, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether noise variances are to be taken for equal."""
        return self.how == EQUAL


def vary(tables: Tables, number: int, random: np.random.Generator) -> Varied:
    """Vary the specification in one of four ways, by turns."""
    ways = (LEFT_OUT, WINSORISED, TRIMMED, EQUAL)[len(tables.names) < FEWEST :]
    how = ways[number % len(ways)]
    if how == LEFT_OUT:
        return Varied(tables, how, _some_columns(len(tables.names), random))
    if how == EQUAL:
        return Varied(tables, how)
    changed = _winsorised(tables, random) if how == WINSORISED else _trimmed(tables, random)
    return Varied(changed, how)


def _some_columns(p: int, random: np.random.Generator) -> tuple[int, ...]:
    """A tenth to a third of the columns."""
    count = max(1, math.floor(random.uniform(*COLUMNS_OUT) * p))
    return tuple(sorted(random.choice(p, count, replace=False).tolist()))


def _winsorised(tables: Tables, random: np.random.Generator) -> Tables:
    """Each column of each table clipped at quantiles of its own."""
    tail, quantile = random.uniform(*TAILS), np.nanquantile if tables.gaps else np.quantile

    def clipped(table: FloatArray) -> FloatArray:
        low, high = quantile(table, [tail, 1 - tail], axis=0)
        # A column with most values the same would be constant.
        kept = low < high
        result: FloatArray = np.clip(table, np.where(kept, low, -np.inf), np.where(kept, high, np.inf))
        return result

    return replace(tables, first=clipped(tables.first), second=clipped(tables.second))


def _trimmed(tables: Tables, random: np.random.Generator) -> Tables:
    """Only rows in which a column lies between two quantiles, the same in both tables, which count alike."""
    column = int(random.integers(len(tables.names)))
    quantile = np.nanquantile if tables.gaps else np.quantile
    values = [quantile(table[:, column], GRID) for table in (tables.first, tables.second)]
    low, high = np.quantile(values, [random.uniform(0, RANGE), 1 - random.uniform(0, RANGE)])
    first, second = (  # a gap is not known to lie outside
        np.flatnonzero(~((table[:, column] < low) | (table[:, column] > high)))
        for table in (tables.first, tables.second)
    )
    return tables.take(first, second)
