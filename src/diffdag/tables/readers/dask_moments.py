"""A Dask collection -> moments: each chunk is reduced where it is, and moments are added up in a tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from diffdag._base.arrays import FloatArray
from diffdag._base.checks import check_names, default_names
from diffdag._base.errors import InputError, raise_problems
from diffdag._base.extras import extra
from diffdag._base.progress import Advance, Progress, show_progress
from diffdag._base.words import plural
from diffdag.tables.columns import Source
from diffdag.tables.problems import Missing, check_column_names, check_missing_option, find_counts, find_text
from diffdag.tables.readers.levels import LevelColumns

M = TypeVar("M")  # moments, which add up with +
MomentsOf: TypeAlias = Callable[[FloatArray, Sequence[str], Mapping[str, tuple[str, ...]]], M]
_BRANCHES = 8  # moments added up by one task


def dask_moments(
    collection: Any,
    moments_of: MomentsOf[M],
    names: Sequence[str] | None = None,
    *,
    adjust: Sequence[str] | None = None,
    missing: Missing = "error",
    progress: Progress = None,
) -> M:
    """Moments of a Dask array or dataframe; see `Moments.from_dask`.

    `moments_of` makes those of one chunk of its rows, the names of columns, and those of categories.
    """
    check_missing_option(missing, pieces=True)
    with extra("Dask", "dask"):
        import dask  # noqa: PLC0415
        import dask.array  # noqa: PLC0415
        import dask.dataframe  # noqa: PLC0415
    if isinstance(collection, dask.array.Array):
        labels, blocks = _array_blocks(collection, names)
        check_column_names("adjust", adjust, [labels])
        categories: tuple[str, ...] = ()
    elif isinstance(collection, dask.dataframe.DataFrame):
        labels, categories, blocks = _frame_blocks(collection, names, adjust)
    else:
        raise InputError(f"a {type(collection).__name__} is no Dask collection; give a Dask array or dataframe")
    reduce = dask.delayed(_reduce, pure=False)
    leaves = [
        reduce(block, moments_of, labels, categories, missing, k) for k, block in enumerate(blocks, start=1)
    ]
    with show_progress(progress, "Reducing chunks", len(leaves)) as advance:
        moments: M | None = _compute(leaves, advance)
    if moments is None:
        raise InputError(
            "the Dask collection has no rows, or none without missing values; check where it is from"
        )
    return moments


def _array_blocks(array: Any, names: Sequence[str] | None) -> tuple[tuple[str, ...], list[Any]]:
    """Names and delayed blocks of an array; a block has all columns."""
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise InputError(f"the Dask array is {array.ndim}-d {array.dtype}; give a 2-d array of numbers")
    p = array.shape[1]
    if np.isnan(p) or p == 0:
        raise InputError("the number of columns of the Dask array is unknown or 0; compute_chunk_sizes() tells")
    labels = default_names(p) if names is None else tuple(str(name) for name in names)
    if len(labels) != p:
        raise InputError(
            f"{plural(len(labels), 'name')} for {plural(p, 'column')} of the Dask array; name each"
        )
    check_names(labels, "Dask")
    if array.numblocks[1] > 1:
        known = not any(np.isnan(rows) for rows in array.chunks[0])
        # Chunks of whole rows could be far larger than the memory that the user's chunks are meant for.
        array = array.rechunk({0: "auto", 1: -1} if known else {1: -1})
    return labels, list(array.to_delayed().ravel())


def _frame_blocks(
    frame: Any, names: Sequence[str] | None, adjust: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...], list[Any]]:
    """Names of columns of numbers, those of categories, and delayed partitions of a dataframe."""
    have = [str(name) for name in frame.columns]
    chosen = check_column_names("names", names, [have])
    covariates = check_column_names("adjust", adjust, [have]) or []
    if chosen is None:
        labels = Source.of(frame._meta, "Dask").row_labels()
        chosen = [name for name in have if name not in labels]
    chosen = [name for name in chosen if name not in covariates]
    if not chosen:
        raise InputError("the Dask dataframe has no columns; give a table with at least one")
    check_names([name for name in have if name in {*chosen, *covariates}], "Dask")
    kinds = dict(zip(have, frame.dtypes, strict=True))
    numbers = [name for name in covariates if is_numeric_dtype(kinds[name])]
    categories = tuple(name for name in covariates if name not in numbers)
    return (*chosen, *numbers), categories, list(frame.to_delayed())


def _reduce(
    block: Any,
    moments_of: MomentsOf[M],
    names: tuple[str, ...],
    categories: tuple[str, ...],
    missing: Missing,
    number: int,
) -> M | None:
    """The moments of one chunk, None if it has no rows."""
    label = f"Dask (chunk {number})"
    levels = LevelColumns(len(names), categories)
    if isinstance(block, pd.DataFrame):
        source = Source.of(block, label)
        raise_problems(find_text(source.unfit(names)))
        codes = [levels.codes(name, block.iloc[:, source.names.index(name)]) for name in categories]
        block = np.column_stack([source.values(names), *codes])
    values = np.asarray(block)
    if not values.size:
        return None
    with np.errstate(all="ignore"):
        sound = np.isfinite(values.sum(dtype=np.float64))
    if not sound:
        values = _without_gaps(values, (*names, *categories), missing, label)
    if not len(values):
        return None
    if categories:
        values = levels.spread(values.T).T
    return moments_of(values, (*names, *levels.names), levels.columns)


def _without_gaps(values: FloatArray, names: tuple[str, ...], missing: Missing, label: str) -> FloatArray:
    """Refuse infinite values; refuse or drop missing ones."""

    def count(bad: Any) -> list[tuple[str, dict[str, int]]]:
        return [(label, {name: int(k) for name, k in zip(names, bad.sum(axis=0), strict=True) if k})]

    raise_problems(find_counts("infinite", count(np.isinf(values))))
    gaps = np.isnan(values)
    if missing == "error":
        raise_problems(find_counts("missing", count(gaps)))
    return values[~gaps.any(axis=1)]


def _merge(parts: Sequence[Any]) -> Any:
    present = [part for part in parts if part is not None]
    return sum(present[1:], start=present[0]) if present else None


def _compute(leaves: list[Any], advance: Advance) -> Any:
    """Add up by tasks of a few each, so that no worker ever holds many, wherever Dask computes now."""
    import dask  # noqa: PLC0415
    from dask.callbacks import Callback  # noqa: PLC0415

    waiting = {leaf.key for leaf in leaves}

    def after(key: Any, *rest: Any) -> None:
        if key in waiting:
            waiting.remove(key)
            advance()

    merge = dask.delayed(_merge, pure=False)
    parts = leaves
    while len(parts) > 1:
        parts = [merge(parts[k : k + _BRANCHES]) for k in range(0, len(parts), _BRANCHES)]
    with Callback(posttask=after):
        (moments,) = dask.compute(parts[0], optimize_graph=False)
    if waiting:  # a cluster calls nobody back
        advance(len(waiting))
    return moments
