"""Files of any number of rows -> sums, in bounded memory; `diffdag.tables.moments` makes moments of them.

Columns of all files are matched and checked before the first row is read. Of the rows, only sums are kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag._base.checks import check_names
from diffdag._base.errors import InputError, raise_problems
from diffdag._base.parallel import one_blas_thread
from diffdag._base.progress import Progress, show_progress
from diffdag._base.words import join_names, plural
from diffdag.tables.accumulator import Accumulator, block_rows
from diffdag.tables.columns import Source as Columns
from diffdag.tables.columns import to_float
from diffdag.tables.design import check_in_all
from diffdag.tables.problems import (
    Missing,
    check_column_names,
    check_missing_option,
    check_same_columns,
    find_text,
    unusable_values,
)
from diffdag.tables.readers.batches import Kind, Part, Source, Text, ahead, find_files, open_part
from diffdag.tables.readers.levels import LevelColumns
from diffdag.tables.readers.provenance import line_words, mark_origin


@one_blas_thread()
def stream_sums(
    source: Source,
    kind: Kind | None = None,
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    adjust: Sequence[str] | None = None,
    missing: Missing = "error",
    progress: Progress = None,
) -> tuple[Accumulator, LevelColumns, tuple[str, ...], tuple[str, ...]]:
    """Sums over the rows of all files, what their last columns are, names of the others, and notes.

    Variables come first, then covariates that are numbers, then levels of categories; notes are on what was
    left out. See `Moments.from_parquet`.
    """
    check_missing_option(missing, pieces=True)
    parts = [open_part(path, kind) for path in find_files(source, kind)]
    covariates = _covariates(parts, adjust)
    variables, notes = _choose(parts, columns, drop, covariates)
    categories = [name for name in covariates if any(_is_category(part, name) for part in parts)]
    names = (*variables, *(name for name in covariates if name not in categories))
    _check_types(parts, names)
    total = None if any(part.rows is None for part in parts) else sum(part.rows or 0 for part in parts)
    rows = _Rows(names, categories, missing)
    with show_progress(progress, "Reading rows", total) as advance:
        for part in parts:
            for batch in ahead(part.batches(rows.names)):
                rows.take(batch, part)
                advance(batch.num_rows)
            rows.row = 0
    return rows.sums(), rows.levels, names, (*notes, *rows.notes())


def _covariates(parts: Sequence[Part], adjust: Sequence[str] | None) -> list[str]:
    """The covariates, which all files have to have."""
    known = [part.head.column_names for part in parts]
    labels = [f"'{part.path}'" for part in parts]
    return check_in_all("adjust", adjust, known, labels, "every file needs it")


def _is_category(part: Part, name: str) -> bool:
    """Whether a covariate is no number: a text, a category or the like; truth is 0 and 1."""
    return bool(Columns.of(part.head, f"'{part.path}'").unfit([name]))


def _choose(
    parts: Sequence[Part], columns: Sequence[str] | None, drop: Sequence[str] | None, beside: Sequence[str]
) -> tuple[tuple[str, ...], list[str]]:
    """The variables, the same in all files; also say which row labels were left out."""
    known = [part.head.column_names for part in parts]
    columns, drop = check_column_names("columns", columns, known), check_column_names("drop", drop, known)
    notes: dict[str, None] = {}
    names: list[str] | None = None
    for part in parts:
        label = f"'{part.path}'"
        unwanted = {*(drop or ()), *beside}
        if columns is None:
            row_labels = Columns.of(part.head, label).row_labels() - unwanted
            unwanted |= row_labels
            notes.update((f"column '{name}' holds row labels and was left out", None) for name in row_labels)
        wanted = set(part.head.column_names if columns is None else columns) - unwanted
        own = [name for name in part.head.column_names if name in wanted]
        check_names(own, label)
        if names is None:
            names = own if columns is None else [name for name in columns if name in wanted]
        check_same_columns(names, own, (f"'{parts[0].path}'", label))
    if not names:
        raise InputError(f"no column of '{parts[0].path}' is left; choose at least one")
    return tuple(names), list(notes)


def _check_types(parts: Sequence[Part], names: Sequence[str]) -> None:
    """Refuse columns that are not numbers, with the first such value."""
    for part in parts:
        label = f"'{part.path}'"
        bad = [column.name for column in Columns.of(part.head, label).unfit(names)]
        if bad:
            with contextlib.closing(part.batches(bad)) as batches:
                first = next(batches, None)
            table = part.head if first is None else pa.Table.from_batches([first])
            if isinstance(part, Text):
                table = mark_origin(table, part.path, lines=True, decimal=part.header.decimal)
            raise_problems(find_text(Columns.of(table, label).unfit(bad)))


class _Rows:
    """Rows of all files on their way into the sums, a block at a time."""

    def __init__(self, numbers: Sequence[str], categories: Sequence[str], missing: Missing) -> None:
        self.names, self.missing = (*numbers, *categories), missing
        self.levels = LevelColumns(len(numbers), categories)
        self.row = 0  # rows of the present file taken so far
        self._numbers, self._categories = numbers, categories
        self._sums = Accumulator(len(numbers))
        self._block = np.empty((len(self.names), block_rows(len(self.names))))
        self._filled = 0
        self._seen = 0

    def take(self, batch: Any, file: Part) -> None:
        """Take all rows of a batch, whatever part of a block they fill."""
        columns = [_numbers(batch.column(name)) for name in self._numbers]
        columns += [self._codes(name, batch.column(name)) for name in self._categories]
        start = 0
        while start < batch.num_rows:
            stop = min(batch.num_rows, start + self._block.shape[1] - self._filled)
            part = self._block[:, self._filled : self._filled + stop - start]
            for line, column in zip(part, columns, strict=True):
                line[:] = column[start:stop]
            with np.errstate(all="ignore"):
                sound = np.isfinite(part.sum())
            self._filled += stop - start if sound else self._clean(part, file)
            self.row += stop - start
            self._seen += stop - start
            if self._filled == self._block.shape[1]:
                self._flush()
            start = stop

    def _codes(self, name: str, column: Any) -> FloatArray:
        """The levels of a category by their columns, NaN where it is missing."""
        if pa.types.is_dictionary(column.type):  # which may hold values that no row has
            column = column.dictionary_decode()
        try:
            coded = column.dictionary_encode()
        except pa.ArrowNotImplementedError:  # a type that is seldom met
            return self.levels.codes(name, column.to_pylist())
        codes = np.append(self.levels.codes(name, coded.dictionary.to_pylist()), np.nan)
        found: FloatArray = codes[coded.indices.fill_null(len(codes) - 1).to_numpy(zero_copy_only=False)]
        return found

    def _clean(self, part: FloatArray, file: Part) -> int:
        """Refuse infinite values; refuse or drop missing ones. How many rows stay, moved to the front."""
        _refuse("infinite", np.isinf(part), self.names, self.row, file)
        gaps = np.isnan(part)
        if self.missing == "error":
            _refuse("missing", gaps, self.names, self.row, file)
        kept = part[:, ~gaps.any(axis=0)]
        part[:, : kept.shape[1]] = kept
        return int(kept.shape[1])

    def _flush(self) -> None:
        if self._filled:
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused at the end
                for lines in self._spread(self._block[:, : self._filled]):
                    self._sums.add(lines.T, overwrite=True)
            self._filled = 0

    def _spread(self, lines: FloatArray) -> Iterator[FloatArray]:
        """Numbers as they are; with categories, pieces that do not take more memory for all their levels."""
        if not self._categories:
            yield lines
            return
        self._sums.widen(self.levels.width)
        step = block_rows(self.levels.width)
        for start in range(0, lines.shape[1], step):
            yield self.levels.spread(lines[:, start : start + step])

    def sums(self) -> Accumulator:
        """The sums over all rows taken."""
        self._flush()
        if self._sums.n == 0:
            why = "every row has missing values" if self._seen else "there are no rows"
            raise InputError(f"{why} in the files given; check the export")
        return self._sums

    def notes(self) -> tuple[str, ...]:
        """How many rows were dropped, if any."""
        dropped = self._seen - self._sums.n
        were = "was" if dropped == 1 else "were"
        note = f"{dropped} of {plural(self._seen, 'row')} with missing values {were} dropped"
        return (note,) if dropped else ()


def _numbers(column: Any) -> NDArray[Any]:
    """A column of numbers of any kind; gaps as NaN. What needs no conversion is not copied."""
    plain = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
    if plain and column.null_count == 0:
        values: NDArray[Any] = column.to_numpy()
        return values
    return to_float(pa.chunked_array([column]))


def _refuse(kind: str, bad: BoolArray, names: Sequence[str], before: int, file: Part) -> None:
    """Name the first bad value of rows that follow so many others; `bad` has a line for each column."""
    if bad.any():
        row = int(bad.any(axis=0).argmax())
        affected = tuple(compress(names, bad[:, row]))
        place = line_words(file.path, before + row + 1) if isinstance(file, Text) else ""
        place = place or f"row {before + row + 1} of '{file.path}'"
        raise_problems([unusable_values(kind, f"{kind} value of {join_names(affected)} in {place}", affected)])
