"""AnnData, and the ``.h5ad`` files it writes, as tables: one row per cell, one column per gene.

Values stay where they are, sparse, in memory or in the file, until it is known which genes are compared.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from diffdag._base.arrays import BoolArray, FloatArray, IndexArray, IntArray
from diffdag._base.errors import InputError
from diffdag._base.extras import extra
from diffdag._base.words import Option, join_names, using
from diffdag.tables.problems import check_column_names

if TYPE_CHECKING:
    import pandas as pd


BLOCK = 1 << 22  # values read at a time
COPIES = 4  # of a table that a fit holds at the same time
RAW = "raw"
# How HDF5 stores a text of any length: its length, and where it is.
_TEXT = np.dtype([("length", "<u4"), ("address", "<u8"), ("number", "<u4")])
MOST_SWITCHED = 100  # genes that vary in one table only that are looked at


@dataclass(frozen=True, eq=False)
class Cells:
    """Some cells and some genes of a matrix of values."""

    names: tuple[str, ...]  # of these genes
    obs: pd.DataFrame  # what is known of each of these cells, such as its condition
    matrix: Any  # values of all cells and all genes: an array, a sparse matrix, or either in a file
    rows: IndexArray  # which cells these are, in increasing order
    columns: IndexArray  # which genes

    def take(self, chosen: BoolArray) -> Cells:
        """Some of the cells."""
        return replace(self, obs=self.obs[chosen], rows=self.rows[chosen])

    def keep(self, chosen: BoolArray) -> Cells:
        """Some of the genes."""
        return replace(self, names=tuple(compress(self.names, chosen)), columns=self.columns[chosen])

    def values(self, names: Sequence[str], label: str) -> FloatArray:
        """The values of some genes; `label` says in messages which table this is."""
        self._check_memory(len(names), label)
        array = np.empty((len(self.rows), len(names)))
        done = 0
        for block in self._blocks(names):
            array[done : done + block.shape[0]] = block.toarray() if hasattr(block, "toarray") else block
            done += block.shape[0]
        return array

    def varying(self) -> set[str]:
        """The genes that do not have the same value in all cells."""
        low, high = np.full(len(self.names), np.inf), np.full(len(self.names), -np.inf)
        for block in self._blocks(self.names):
            low, high = np.minimum(low, _along(block, "min")), np.maximum(high, _along(block, "max"))
        return set(compress(self.names, low != high))

    def expressed(self, names: Sequence[str]) -> IntArray:
        """In how many cells each of these genes is not zero."""
        counts = np.zeros(len(names), np.int64)
        for block in self._blocks(names):
            counts += np.asarray((block != 0).sum(axis=0)).ravel()
        return counts

    def _blocks(self, names: Sequence[str]) -> Iterator[Any]:
        """The rows of this table in order, some at a time, with the genes asked for."""
        place = dict(zip(self.names, self.columns, strict=True))
        columns = np.array([place[name] for name in names], dtype=np.intp)
        count, width = self.matrix.shape
        everything = np.array_equal(columns, np.arange(width))
        step = max(1, BLOCK // max(1, width))
        # Files are quick to read in one piece only, so a block is read as it lies there, and then chosen from.
        for start in range(0, count, step):
            first, last = np.searchsorted(self.rows, (start, start + step))
            if first < last:
                block = _piece(self.matrix, start, start + step)[self.rows[first:last] - start]
                yield block if everything else block[:, columns]

    def _check_memory(self, count: int, label: str) -> None:
        needed, free = 8.0 * COPIES * len(self.rows) * count, _free_memory()
        if free is not None and needed > free:
            raise InputError(
                f"the {label} table has {len(self.rows):,} cells and {count:,} genes, and comparing them takes "
                f"{needed / 2**30:.1f} GiB of memory, of which {free / 2**30:.1f} are free; choose genes ",
                using(Option("columns")),
                ", or read those that vary most ",
                using(Option("genes", "highly_variable")),
            )


def _piece(matrix: Any, start: int, end: int) -> Any:
    """Some rows as they lie in the file, which may be damaged there."""
    try:
        return _sound(matrix[start:end])
    except MemoryError:
        raise
    except Exception as error:  # the libraries below raise what they like
        raise InputError(
            f"the values of cells from the {start + 1:,}th on cannot be read ({error}); write the file again"
        ) from None


def _sound(matrix: Any) -> Any:
    """Refuse a sparse matrix with indices outside itself, which compiled code would follow; return others."""
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)
    return matrix


def _along(block: Any, what: str) -> FloatArray:
    """Smallest or largest value of each column."""
    found = getattr(block, what)(axis=0)
    return np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=np.float64).ravel()


def _free_memory() -> float | None:
    """Bytes that can still be used; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None


def is_anndata(table: object) -> bool:
    """Whether this is an AnnData object; without importing anndata, as then it is none."""
    library = sys.modules.get("anndata")
    return library is not None and isinstance(table, library.AnnData)


def as_cells(table: Any, label: str) -> Cells:
    """An AnnData object, of which the values ``X`` are used, or what was read from a file."""
    if isinstance(table, Cells):
        return table
    if table.X is None:
        raise InputError(
            f"the {label} table is an AnnData object without X; give a layer with adata.to_df(layer=...)"
        )
    return _cells([str(name) for name in table.var_names], table.obs, table.X, f"X of the {label} table")


def _cells(names: Sequence[str], obs: pd.DataFrame, matrix: Any, what: str) -> Cells:
    if np.dtype(matrix.dtype).kind not in "biuf":
        raise InputError(f"{what} holds {matrix.dtype}; give numbers")
    kind = getattr(matrix, "format", None)
    if kind is not None and kind != "csr":
        # Rows of such a matrix are scattered all over it.
        matrix = _sound(matrix.to_memory() if hasattr(matrix, "to_memory") else matrix).tocsr()
    return Cells(tuple(names), obs, matrix, np.arange(matrix.shape[0]), np.arange(matrix.shape[1]))


def read_cells(path: Path, layer: str | None = None, genes: str | None = None) -> Cells:
    """Read what is needed of an ``.h5ad`` file: names, what is known of the cells, and where the values are.

    `diffdag.tables.readers.files.read_table` explains the options.
    """
    with extra(f"anndata, which reads '{path}',", "cells"):
        import h5py  # type: ignore[import-untyped]  # noqa: PLC0415
        from anndata.io import read_elem, sparse_dataset  # noqa: PLC0415
    file = h5py.File(path, "r")  # closed when the last reference to its values is gone
    if "var" not in file or "obs" not in file:
        raise InputError(f"file '{path}' was not written by AnnData; check the export")
    place = _place(file, layer, path)
    for group in ("var", "obs", "raw/var"):
        if group in file:
            _check_texts(file[group], path)
    var = read_elem(file["var"])
    names = read_elem(file["raw/var"]).index if place == "raw/X" else var.index
    stored = file[place]
    values = stored if isinstance(stored, h5py.Dataset) else sparse_dataset(stored)
    cells = _cells([str(name) for name in names], read_elem(file["obs"]), values, f"{place} of '{path}'")
    if genes is None:
        return cells
    chosen = _marked(var, genes, path)
    return cells.keep(np.array([name in chosen for name in cells.names], dtype=bool))


def _check_texts(group: Any, path: Path) -> None:
    """Refuse texts that claim to be longer than the file: HDF5 would take the memory before it finds out."""
    size = path.stat().st_size
    for item in group.values():
        if hasattr(item, "values"):
            _check_texts(item, path)
        elif (item.dtype.metadata or {}).get("vlen") is str and (start := item.id.get_offset()) is not None:
            with path.open("rb") as file:
                file.seek(start)
                heads = np.frombuffer(file.read(item.id.get_storage_size()), _TEXT)
            if int(heads["length"].sum(dtype=np.int64)) > size:
                raise InputError(
                    f"'{item.name}' of '{path}' claims more text than the file holds; check the export"
                )


def _place(file: Any, layer: str | None, path: Path) -> str:
    """Where in the file the values are."""
    layers = list(file.get("layers", ()))
    if layer is not None and layer not in layers and not (layer == RAW and "raw/X" in file):
        known = [*layers, *([RAW] if "raw/X" in file else [])]
        has = f"it has {join_names(known)}" if known else "it has none, leave the option out"
        raise InputError(f"'{path}' has no layer '{layer}'; {has}")
    if layer is None and "X" not in file:
        has = join_names(layers) or "there is none"
        raise InputError(f"'{path}' has no X; choose a layer ", using(Option("layer")), f": {has}")
    return "X" if layer is None else f"layers/{layer}" if layer in layers else "raw/X"


def _marked(var: pd.DataFrame, column: str, path: Path) -> set[str]:
    """The genes for which a column of `var` is true."""
    marks = [str(name) for name in var.columns if var[name].dtype in (bool, "boolean")]
    if column not in marks:
        told = f"'{path}' has no column '{column}' in var that is true or false; there are "
        if marks:
            raise InputError(f"{told}{join_names(marks)}")
        raise InputError(f"{told}none; choose genes ", using(Option("columns")))
    return {str(name) for name in var.index[var[column].fillna(value=False).astype(bool)]}


def shared_genes(tables: Sequence[Any], drop: Sequence[str] | None) -> tuple[list[str] | None, list[str]]:
    """Genes that vary in all tables of cells, and a note on the others; None where all do.

    A gene that no cell of one condition expresses is no fault of the data, and there may be thousands. Of those
    that vary in one of two tables only, the ones most cells of it express are kept: they may be switched.
    """
    if not all(is_anndata(table) or isinstance(table, Cells) for table in tables):
        return None, []
    try:
        cells = [as_cells(table, "first") for table in tables]
    except InputError:  # said again where it is known which table this is
        return None, []
    if any(len(set(one.names)) < len(one.names) for one in cells):
        return None, []
    dropped = set(check_column_names("drop", drop, [one.names for one in cells]) or ())
    vary = [one.varying() for one in cells]
    kept = set.intersection(*vary) - dropped
    if len(kept) < 2:
        return None, []
    if len(cells) == 2:
        kept |= _switched(cells, vary, dropped)
    lost = set().union(*(one.names for one in cells)) - kept - dropped
    if not lost:
        return None, []
    were = "was" if len(lost) == 1 else "were"
    note = f"{len(lost):,} of {len(lost) + len(kept):,} genes {were} left out: missing or constant in a table"
    return [name for name in cells[0].names if name in kept], [note]


def _switched(cells: Sequence[Cells], vary: Sequence[set[str]], dropped: set[str]) -> set[str]:
    """Genes of two tables that vary in one of them only, those that most of its cells express; not too many."""
    found: list[tuple[int, str]] = []
    for k, one in enumerate(cells):
        own = (vary[k] - vary[1 - k] - dropped).intersection(cells[1 - k].names)
        names = [name for name in one.names if name in own]
        if names:
            found += zip(one.expressed(names).tolist(), names, strict=True)
    return {name for _, name in sorted(found, key=lambda own: -own[0])[:MOST_SWITCHED]}
