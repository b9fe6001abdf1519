"""The largest entries of a matrix that comes block by block and is never held whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diffdag._base.arrays import FloatArray, IndexArray
from diffdag.precision.problem import Blocks, Entries


@dataclass(frozen=True, eq=False)
class Scan:
    """The largest absolute entry of all, and the entries above a bound."""

    largest: float
    entries: Entries
    sizes: FloatArray


def above(blocks: Blocks, bound: float, most: int) -> Scan:
    """Entries of absolute value above `bound`; the `most` largest if there are more."""
    largest = 0.0
    rows: IndexArray = np.zeros(0, np.intp)
    columns: IndexArray = np.zeros(0, np.intp)
    sizes: FloatArray = np.zeros(0)
    for start, block in blocks:
        size = np.abs(block, out=block)
        largest = max(largest, float(size.max()))
        found = np.flatnonzero(size.ravel() > bound)
        row, column = np.divmod(found, block.shape[1])
        rows, columns = np.concatenate([rows, row + start]), np.concatenate([columns, column])
        sizes = np.concatenate([sizes, size.ravel()[found]])
        if len(sizes) > most:
            keep = np.sort(np.argpartition(sizes, -most)[-most:])
            rows, columns, sizes = rows[keep], columns[keep], sizes[keep]
            bound = float(sizes.min())
    return Scan(largest, (rows, columns), sizes)


@dataclass(frozen=True, eq=False)
class Peaks:
    """Column and value of the entry of each row that is largest in absolute value."""

    columns: IndexArray
    values: FloatArray

    @property
    def largest(self) -> float:
        """The largest absolute value of all."""
        return float(np.abs(self.values).max())


def peaks(blocks: Blocks, p: int) -> Peaks:
    """The largest entry of each row."""
    columns, values = np.zeros(p, np.intp), np.zeros(p)
    for start, block in blocks:
        part = slice(start, start + len(block))
        columns[part] = np.abs(block).argmax(axis=1)
        values[part] = block[np.arange(len(block)), columns[part]]
    return Peaks(columns, values)
