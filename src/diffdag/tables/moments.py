"""From a table to its moments: number of rows, mean and scatter. All that follows uses moments only.

The scatter ``sum_r (x_r - mean)(x_r - mean)'`` is computed around the mean, never as a difference of large
sums, so that values around 1e8 with spread 1 lose nothing (`diffdag.tables.accumulator`).
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag._base.atomic import write_atomic
from diffdag._base.checks import check_text, default_names
from diffdag._base.errors import InputError, Problem, raise_problems
from diffdag._base.parallel import one_blas_thread
from diffdag._base.progress import Progress
from diffdag._base.words import Option, join_names, plural, table_words
from diffdag.tables.accumulator import Accumulator, add_square, block_rows
from diffdag.tables.degenerate import find_extreme_scales
from diffdag.tables.problems import Missing, check_column_names
from diffdag.tables.readers.npy import load_arrays

if TYPE_CHECKING:
    from diffdag.tables.readers.batches import Kind, Source

SCHEMA = 1
MOST_ROWS = 2**53  # beyond, doubles skip whole numbers
KEYS = ("schema", "names", "n", "mean", "scatter")  # entries of a saved file
MORE_KEYS = ("categories", "mean_rows")  # those that it has where there is something to say
# From about a million on, sums over both tables keep too few digits of the one that varies less.
_MOST_RATIO = 1e5
_PIECE = 1 << 18  # numbers looked at in one go; p x p temporaries would multiply the memory needed


@dataclass(frozen=True, eq=False)
class Moments:
    """Number of rows, mean and scatter of a table.

    Moments of parts of a table add up (``m + n``) to the moments of the whole: the rows never need to be in
    memory, or to leave their owner. Covariates, such as age or batch, can be carried along and taken out later:
    numbers as further variables, a category as one column of 0 and 1 per level, named ``batch=a``.

    Parameters
    ----------
    names : tuple of str
        Names of the variables.
    n : int
        Number of rows.
    mean : ndarray, shape (p,)
    scatter : ndarray, shape (p, p)
        ``sum_r (x_r - mean)(x_r - mean)'``.
    mean_rows : float, optional
        Rows that the mean is worth; `n` if left out.
    categories : mapping of str to sequence of str, optional
        Categories that are carried, each with the names of its columns, one per level:
        ``{"batch": ("batch=a", "batch=b")}``.

    See Also
    --------
    DifferenceDAG.fit_moments : compares those of two tables.

    Examples
    --------
    >>> from diffdag import Moments
    >>> m = Moments.from_array([[1, 2], [3, 2], [5, 8]])
    >>> m.n, m.mean
    (3, array([3., 4.]))
    >>> whole = Moments.from_array([[1, 2], [3, 2]]) + Moments.from_array([[5, 8]])
    >>> bool((whole.scatter == m.scatter).all())
    True
    """

    names: tuple[str, ...]
    n: int
    mean: FloatArray
    scatter: FloatArray
    #: Rows that the mean is worth where another one is compared with it, if that is not `n`: fewer where
    #: covariates were taken out, and 0 where it says nothing of the condition.
    mean_rows: float | None = None
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "categories", _checked_categories(self.names, self.categories))
        p = len(self.names)
        for name in ("mean", "scatter"):
            object.__setattr__(self, name, _frozen(getattr(self, name)))
        if not 1 <= self.n <= MOST_ROWS or self.mean.shape != (p,) or self.scatter.shape != (p, p):
            raise InputError(
                f"moments of {p} variables need n >= 1 (at most {MOST_ROWS:,}), a mean of {p} and a scatter of "
                f"{p} x {p} numbers; they have n = {self.n}, shapes {self.mean.shape} and {self.scatter.shape}"
            )
        if self.mean_rows is not None and not 0 <= self.mean_rows < np.inf:
            raise InputError(f"a mean cannot be worth {self.mean_rows:g} rows; give 0 or more")
        low, high = self.scatter.min(axis=0, initial=0.0), self.scatter.max(axis=0, initial=0.0)
        _check(self.names, np.isfinite(self.mean) & np.isfinite(low) & np.isfinite(high))
        if (np.diag(self.scatter) < 0).any() or not _symmetric(self.scatter):
            raise InputError("the scatter is not a symmetric matrix with a non-negative diagonal")

    @classmethod
    def from_array(cls, values: ArrayLike, names: Sequence[str] | None = None) -> Moments:
        """Moments of `values`, one row per observation; `names` of columns are X1, ..., Xp if left out."""
        table = np.asarray(values)
        if table.ndim != 2 or 0 in table.shape or table.dtype.kind not in "biuf" or np.ma.is_masked(values):
            raise InputError(
                "the table must be a two-dimensional array of numbers, none masked, "
                "with at least one row and one column"
            )
        labels = default_names(table.shape[1]) if names is None else tuple(str(name) for name in names)
        if len(labels) != table.shape[1]:
            raise InputError(f"{len(labels)} names for {table.shape[1]} columns; name each")
        sums = Accumulator(len(labels))
        step = block_rows(len(labels))
        # What is not finite is refused at the end.
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(table), step):
                sums.add(table[start : start + step])
        return moments_of_sums(labels, sums.n, sums.mean, sums.scatter)

    @classmethod
    def from_parquet(
        cls,
        source: Source,
        *,
        columns: Sequence[str] | None = None,
        drop: Sequence[str] | None = None,
        adjust: Sequence[str] | None = None,
        missing: Missing = "error",
        progress: Progress = None,
    ) -> Moments:
        """Moments of the rows of Parquet files, read in bounded memory.

        Parameters
        ----------
        source : path, folder, pattern, or a list of them
            A pattern such as ``"a/*.parquet"`` stands for the files that match, a folder for those in it and
            below. Files must have the same columns, in any order.
        columns : sequence of str, optional
            The variables, in this order; left out, all columns of the first file but row labels.
        drop : sequence of str, optional
            Columns to leave out.
        adjust : sequence of str, optional
            Covariates to carry along, besides the variables, so that they can be taken out later: numbers as
            they are, truth as 0 and 1, texts as categories (`categories`) of at most 200 levels. Whole numbers
            count as numbers, however few there are; write batches 1 to 3 as texts.
        missing : {"error", "drop"}, default "error"
            What to do about rows with missing values. Filling them in (``"em"``) takes all rows at once.
        progress : bool or callable, optional
            True for a bar on a terminal; or a function that is called with the number of rows done, of all, and
            what is being done.

        Raises
        ------
        InputError
            If a file cannot be read, columns differ or are not numeric, or values are missing or infinite:
            with the file, and the column and row where there is one.

        Examples
        --------
        >>> import tempfile, pandas as pd
        >>> table = pd.DataFrame({"a": [1, 3, 5], "b": [2, 2, 8]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     table[:2].to_parquet(f"{folder}/1.parquet")
        ...     table[2:].to_parquet(f"{folder}/2.parquet")
        ...     m = Moments.from_parquet(f"{folder}/*.parquet")
        >>> m.n, m.mean
        (3, array([3., 4.]))
        """
        choice = {"columns": columns, "drop": drop, "adjust": adjust, "missing": missing, "progress": progress}
        return stream_moments(source, "parquet", **choice).moments

    @classmethod
    def from_csv(
        cls,
        source: Source,
        *,
        columns: Sequence[str] | None = None,
        drop: Sequence[str] | None = None,
        adjust: Sequence[str] | None = None,
        missing: Missing = "error",
        progress: Progress = None,
    ) -> Moments:
        r"""Moments of the rows of text files (CSV, TSV, also with ``.gz``), read in bounded memory.

        Files have a header line; the delimiter is the one of comma, semicolon, tab and ``|`` that it uses most,
        and the tab in ``.tsv``. The first megabyte decides which columns are numbers. `progress` is given None
        for the rows of all. `source`, `columns`, `drop`, `adjust` and `missing` are as for `from_parquet`.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "table.csv")
        ...     _ = path.write_text("a;b\n1;2\n3;2\n5;8\n")
        ...     m = Moments.from_csv(path, columns=["b"])
        >>> m.n, m.mean
        (3, array([4.]))
        """
        choice = {"columns": columns, "drop": drop, "adjust": adjust, "missing": missing, "progress": progress}
        return stream_moments(source, "text", **choice).moments

    @classmethod
    def from_dask(
        cls,
        collection: Any,
        names: Sequence[str] | None = None,
        *,
        adjust: Sequence[str] | None = None,
        missing: Missing = "error",
        progress: Progress = None,
    ) -> Moments:
        """Moments of a Dask array or dataframe, chunk by chunk where the chunks are.

        Chunks are reduced and their moments added up by Dask: on the cluster of the active client, or else in
        threads of this process. Only moments travel.

        Parameters
        ----------
        collection : dask array or dask dataframe
            One row per observation, chunked in any way.
        names : sequence of str, optional
            Names of an array's columns (X1, ..., Xp if left out), or the columns of a dataframe to use.
        adjust : sequence of str, optional
            Covariates to carry along, as for `from_parquet`; those of an array are among its columns.
        missing : {"error", "drop"}, default "error"
            What to do about rows with missing values.
        progress : bool or callable, optional
            As for `from_parquet`, counted in chunks.

        Raises
        ------
        InputError
            If Dask is not installed, or as for `from_parquet`, with the chunk in place of the file.
        """
        from diffdag.tables.readers.dask_moments import dask_moments  # noqa: PLC0415

        choice: dict[str, Any] = {"adjust": adjust, "missing": missing, "progress": progress}
        return _in_order(dask_moments(collection, _with_categories, names, **choice))

    def __repr__(self) -> str:
        count = len(self.names) - sum(map(len, self.categories.values()))
        carried = [f", '{name}' with {plural(len(own), 'level')}" for name, own in self.categories.items()]
        return f"<Moments: {self.n:,} rows, {count:,} variables{''.join(carried)}>"

    def __add__(self, other: Moments) -> Moments:
        """Moments of both tables, one below the other; a level that one of them lacks has no rows there."""
        if not isinstance(other, Moments):
            return NotImplemented
        if self.mean_rows is not None or other.mean_rows is not None:
            raise InputError("moments do not add up once covariates were taken out of them; add them before")
        one, two = with_all_levels(self, other)
        if set(one.names) != set(two.names) or one.categories.keys() != two.categories.keys():
            raise InputError("moments of different variables cannot be added; select the common ones first")
        two = two.select(one.names)
        n = one.n + two.n
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused at the end
            shift = two.mean - one.mean
            scatter = one.scatter + two.scatter
            add_square(scatter, shift, one.n * (two.n / n))
            mean = one.mean + shift * (two.n / n)
            return moments_of_sums(one.names, n, mean, scatter, categories=one.categories)

    def select(self, names: Sequence[str]) -> Moments:
        """The moments of the variables `names`, in this order; a category stands for all of its levels.

        Where levels that have rows are left out, those that stay are numbers like any others.
        """
        names = tuple(own for name in names for own in self.categories.get(name, (name,)))
        if names == self.names:
            return self
        place = {name: k for k, name in enumerate(self.names)}
        unknown = [name for name in names if name not in place]
        if unknown:
            raise InputError(f"no variable named {', '.join(map(repr, unknown))} in these moments")
        index = [place[name] for name in names]
        chosen = self.mean[index], self.scatter[np.ix_(index, index)]
        left_out = set(self.names).difference(names)
        kept = {
            category: tuple(sorted(left_in, key=names.index))
            for category, own in self.categories.items()
            if (left_in := [name for name in own if name not in left_out])
            and not self.mean[[place[name] for name in own if name in left_out]].any()
        }
        return moments_of_sums(names, self.n, *chosen, self.mean_rows, kept)

    def adjusted(self, covariates: Sequence[str]) -> Moments:
        """The moments of all other variables with covariates taken out of them, as regressions on them would.

        `n` is then the number of rows less the degrees of freedom lost. Means are those at this table's mean of
        the covariates, and so are not compared with others' (`mean_rows` is 0): that takes the covariates of
        both conditions, as in ``DifferenceDAG(adjust=covariates).fit_moments(first, second)``.

        Parameters
        ----------
        covariates : sequence of str
            Names of variables, or of categories that are carried.

        Examples
        --------
        >>> age = [20, 30, 40, 50]
        >>> rows = [[2 * a + b, a] for a, b in zip(age, [1, -1, -1, 1])]
        >>> m = Moments.from_array(rows, ["pressure", "age"]).adjusted(["age"])
        >>> m.names, m.n, m.scatter.round(9)
        (('pressure',), 3, array([[4.]]))
        """
        from diffdag.tables.covariates import adjust_alone  # noqa: PLC0415 - seldom used

        return adjust_alone(self, covariates)

    def column_names(self) -> list[str]:
        """Names of the variables and of the categories, without those of levels."""
        levels = {name for own in self.categories.values() for name in own}
        return [*(name for name in self.names if name not in levels), *self.categories]

    def covariance(self) -> FloatArray:
        """``scatter / n``, the paper's sample covariance."""
        covariance: FloatArray = self.scatter / self.n
        return covariance

    def save(self, path: str | Path) -> Path:
        """Write an NPZ file to `path`, without pickled objects, and return where it is."""
        buffer = io.BytesIO()
        more: dict[str, Any] = {} if self.mean_rows is None else {"mean_rows": self.mean_rows}
        if self.categories:
            category = {name: category for category, own in self.categories.items() for name in own}
            more["categories"] = _as_array([category.get(name, "") for name in self.names])
        names = _as_array(self.names)
        np.savez(buffer, schema=SCHEMA, names=names, n=self.n, mean=self.mean, scatter=self.scatter, **more)
        return write_atomic(Path(path), buffer.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> Moments:
        """Read what `save` wrote to `path`; nothing is unpickled."""
        place = Path(path)
        try:
            parts = load_arrays(place)
            schema, n = int(parts["schema"]), int(parts["n"])
            names = tuple(str(name) for name in parts["names"])
            mean, scatter = (np.asarray(parts[name], dtype=np.float64) for name in ("mean", "scatter"))
            worth = float(parts["mean_rows"]) if "mean_rows" in parts else None
            categories: dict[str, tuple[str, ...]] = {}
            for name, category in zip(names, parts.get("categories", [""] * len(names)), strict=True):
                if category:
                    categories[str(category)] = (*categories.get(str(category), ()), name)
        except Exception:  # the many ways in which bytes can fail to be an archive of arrays
            raise InputError(f"{path}: not a file of moments; write one with Moments.save") from None
        if schema != SCHEMA:
            raise InputError(f"{path}: moments of schema {schema}; this version reads schema {SCHEMA}")
        mean.flags.writeable = scatter.flags.writeable = False  # nobody else's: no need to copy them
        return cls(names, n, mean, scatter, worth, categories)


def moments_of_sums(
    names: tuple[str, ...],
    n: int,
    mean: FloatArray,
    scatter: FloatArray,
    mean_rows: float | None = None,
    categories: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> Moments:
    """Moments that take over arrays just made: nothing is copied, and the scatter is known to be symmetric.

    Where the diagonal is finite, so is all of it, by the inequality of Cauchy and Schwarz.
    """
    diagonal = np.einsum("ii->i", scatter)
    _check(names, np.isfinite(mean) & np.isfinite(diagonal))
    np.maximum(diagonal, 0.0, out=diagonal)  # constant columns, whose rounding errors may be negative
    moments = object.__new__(Moments)
    for array in (mean, scatter):
        array.flags.writeable = False
    values = {"names": names, "n": n, "mean": mean, "scatter": scatter, "mean_rows": mean_rows}
    for name, value in (values | {"categories": dict(categories)}).items():
        object.__setattr__(moments, name, value)
    return moments


@dataclass(frozen=True, eq=False)
class Streamed:
    """Moments of all rows, and what was left out on the way, one sentence each."""

    moments: Moments
    notes: tuple[str, ...]


def stream_moments(source: Source, kind: Kind | None = None, **choice: Any) -> Streamed:
    """Moments of the rows of all files; see `Moments.from_parquet`. A `kind` of None goes by their endings."""
    from diffdag.tables.readers.streaming import stream_sums  # noqa: PLC0415 - Arrow takes long to import

    sums, levels, names, notes = stream_sums(source, kind, **choice)
    every = (*names, *levels.names)
    categories = _checked_categories(every, levels.columns)
    moments = moments_of_sums(every, sums.n, sums.mean, sums.scatter, categories=categories)
    return Streamed(_in_order(moments), notes)


def _in_order(moments: Moments) -> Moments:
    """Moments with the levels of each category in order, without those of which no row was kept."""
    if not moments.categories:
        return moments
    from diffdag.tables.readers.levels import in_order  # noqa: PLC0415

    used = {name for name, mean in zip(moments.names, moments.mean, strict=True) if mean > 0}
    levels = [
        name
        for category, own in moments.categories.items()
        for name in in_order(category, used.intersection(own))
    ]
    every = set().union(*moments.categories.values())
    return moments.select([*(name for name in moments.names if name not in every), *levels])


def with_all_levels(first: Moments, second: Moments) -> tuple[Moments, Moments]:
    """Moments of two tables, both with all levels of the categories that both carry."""
    shared = first.categories.keys() & second.categories.keys()
    one, two = (
        _with_levels(own, {name: other.categories[name] for name in own.categories if name in shared})
        for own, other in ((first, second), (second, first))
    )
    return one, two


def _with_levels(moments: Moments, levels: Mapping[str, tuple[str, ...]]) -> Moments:
    """Moments with further levels of its categories, of which it has no rows."""
    new = {name: [own for own in of if own not in moments.categories[name]] for name, of in levels.items()}
    names = (*moments.names, *(name for own in new.values() for name in own))
    if names == moments.names:
        return moments
    p = len(moments.names)
    mean, scatter = np.zeros(len(names)), np.zeros((len(names), len(names)))
    mean[:p], scatter[:p, :p] = moments.mean, moments.scatter
    categories = {name: (*own, *new.get(name, ())) for name, own in moments.categories.items()}
    return moments_of_sums(names, moments.n, mean, scatter, moments.mean_rows, categories)


def check_no_categories(first: Moments, second: Moments) -> None:
    """Refuse to compare categories: they can only be taken out of the variables."""
    found = tuple(dict.fromkeys([*first.categories, *second.categories]))
    if found:
        what = f"{join_names(found)} {'is a category' if len(found) == 1 else 'are categories'}, no variable"
        advice = f"take {'it' if len(found) == 1 else 'them'} out of the variables (option adjust)"
        raise_problems([Problem("text", what, found, (Option("drop", found),), advice)])


def check_comparable(first: Moments, second: Moments, labels: tuple[str, str] = ("first", "second")) -> None:
    """Refuse two tables over the same variables whose units or outliers leave nothing to compare."""
    one, two = (np.sqrt(np.diag(moments.scatter) / moments.n) for moments in (first, second))
    raise_problems(find_extreme_scales(first.names, (one, two), labels))
    ratios = np.maximum(one / two, two / one)
    found = tuple(compress(first.names, ratios > _MOST_RATIO))
    if found:
        worst = int(ratios.argmax())
        what = (
            f"the spread of {join_names(found)} differs between the tables by a factor of up to "
            f"{ratios[worst]:.0e}, more than can be compared"
        )
        advice = f"check the units and look for outliers in {table_words(labels[int(two[worst] > one[worst])])}"
        raise_problems([Problem("extreme-scale", what, found, (Option("drop", found),), advice)])


def choose(
    first: Moments,
    second: Moments,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    beside: Sequence[str] | None = None,
) -> tuple[Moments, Moments]:
    """Two moments of the variables in `columns`, without those in `drop`; covariates `beside` them stay."""
    known = [first.column_names(), second.column_names()]
    columns, drop = check_column_names("columns", columns, known), check_column_names("drop", drop, known)
    covariates = [str(name) for name in beside or ()]
    left_out = {*(drop or ()), *covariates}
    one, two = (
        [name for name in columns or own if name not in left_out] + [name for name in covariates if name in own]
        for own in known
    )
    return first.select(one), second.select(two)


def _frozen(values: ArrayLike) -> FloatArray:
    """A read-only array; a copy, unless nobody can change the values."""
    array = np.asarray(values)
    kept = array is values and array.flags.owndata and not array.flags.writeable
    if not kept or array.dtype != np.float64 or not array.flags.c_contiguous:
        array = np.array(values, dtype=np.float64, order="C")
        array.flags.writeable = False
    return array


def _with_categories(
    values: FloatArray, names: Sequence[str], categories: Mapping[str, tuple[str, ...]]
) -> Moments:
    """Moments of rows, some columns of which are levels of categories."""
    return replace(Moments.from_array(values, names), categories=categories)


def _as_array(texts: Sequence[str]) -> NDArray[np.str_]:
    """Texts as a file keeps them; those that it would not are refused."""
    array = np.array(texts, dtype=np.str_)
    lost = [text for text, kept in zip(texts, array, strict=True) if text != kept]
    if lost:
        raise InputError(f"the name {lost[0]!a} ends with a NUL character, which no file keeps; rename it")
    return array


def _checked_categories(
    names: Sequence[str], categories: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Categories and the names of their columns; what is not of this form is refused."""
    found = {name: tuple(own) for name, own in categories.items()}
    levels = [level for own in found.values() for level in own]
    if len({*levels}) < len(levels) or not {*levels} <= {*names} or not {*found}.isdisjoint(names):
        raise InputError(
            "categories do not go with the names of the moments; name each, and the column of each of its "
            "levels, once"
        )
    wrong = [level for name, own in found.items() for level in own if not level.startswith(f"{name}=")]
    if wrong:
        raise InputError(f"the column {wrong[0]!r} of a category is not called by it and its level: 'batch=a'")
    return found


def _check(names: tuple[str, ...], sound: BoolArray) -> None:
    """Refuse repeated names, and variables whose moments are not finite."""
    if len(set(names)) < len(names):
        repeated = [name for name, count in Counter(names).items() if count > 1]
        raise InputError(f"moments have the name {join_names(repeated)} twice; names must differ")
    check_text(names)
    if not sound.all():
        bad = join_names(compress(names, ~sound))
        raise InputError(f"values of {bad} are missing, infinite, or too large to square; change their units")


def _symmetric(matrix: FloatArray) -> bool:
    """Whether mirrored entries agree to rounding, on the scale of the two variables."""
    scale = np.sqrt(np.diag(matrix))
    step = max(1, _PIECE // max(1, len(matrix)))
    for start in range(0, len(matrix), step):
        stop = start + step
        apart = np.abs(matrix[start:stop, start:] - matrix[start:, start:stop].T)
        if (apart > 1e-9 * np.outer(scale[start:stop], scale[start:])).any():
            return False
    return True
