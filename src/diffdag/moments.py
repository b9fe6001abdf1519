"""From a table to its moments: number of rows, mean and scatter. All that follows uses moments only.

The scatter ``sum_r (x_r - mean)(x_r - mean)'`` is computed around the mean, never as a difference of large
sums, and two sets of moments are merged with the update of Chan, Golub and LeVeque (1983), so that values
around 1e8 with spread 1 lose nothing.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffdag.atomic import write_atomic
from diffdag.validation import InputError, default_names, join_names

FloatArray = NDArray[np.float64]
BLOCK_ROWS = 65_536
SCHEMA = 1


@dataclass(frozen=True, eq=False)
class Moments:
    """Number of rows, mean and scatter of a table.

    Moments of parts of a table add up (``m + n``) to the moments of the whole: the rows never need to be in
    memory, or to leave their owner.

    Parameters
    ----------
    names : tuple of str
        Names of the variables.
    n : int
        Number of rows.
    mean : ndarray, shape (p,)
    scatter : ndarray, shape (p, p)
        ``sum_r (x_r - mean)(x_r - mean)'``.

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

    def __post_init__(self) -> None:
        p = len(self.names)
        if len(set(self.names)) < p:
            raise InputError("moments name a variable twice; names must differ")
        for name in ("mean", "scatter"):
            array = np.array(getattr(self, name), dtype=np.float64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if self.n < 1 or self.mean.shape != (p,) or self.scatter.shape != (p, p):
            raise InputError(
                f"moments of {p} variables need n >= 1, a mean of {p} and a scatter of {p} x {p} numbers; "
                f"they have n = {self.n}, shapes {self.mean.shape} and {self.scatter.shape}"
            )
        sound = np.isfinite(self.mean) & np.isfinite(self.scatter).all(axis=0)
        if not sound.all():
            bad = join_names(name for name, fine in zip(self.names, sound, strict=True) if not fine)
            raise InputError(
                f"values of {bad} are missing, infinite, or too large to square; change their units"
            )
        if (np.diag(self.scatter) < 0).any() or not _symmetric(self.scatter):
            raise InputError("the scatter is not a symmetric matrix with a non-negative diagonal")

    @classmethod
    def from_array(cls, values: ArrayLike, names: Sequence[str] | None = None) -> Moments:
        """Moments of an array with one row an observation."""
        table = np.asarray(values)
        if table.ndim != 2 or 0 in table.shape or table.dtype.kind not in "biuf" or np.ma.is_masked(values):
            raise InputError(
                "the table must be a two-dimensional array of numbers, none masked, "
                "with at least one row and one column"
            )
        labels = default_names(table.shape[1]) if names is None else tuple(str(name) for name in names)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused at the end
            mean = table.mean(axis=0, dtype=np.float64)
            scatter = np.zeros((mean.size, mean.size))
            rest = np.zeros_like(mean)
            for start in range(0, len(table), BLOCK_ROWS):
                block = table[start : start + BLOCK_ROWS] - mean
                scatter += block.T @ block
                rest += block.sum(axis=0)
            # The mean is rounded; what that leaves over is taken out of the scatter (corrected two-pass).
            rest /= len(table)
            scatter -= len(table) * np.outer(rest, rest)
            return cls(labels, len(table), mean + rest, scatter)

    def __add__(self, other: Moments) -> Moments:
        """Moments of both tables, one below the other."""
        if not isinstance(other, Moments):
            return NotImplemented
        if set(self.names) != set(other.names):
            raise InputError("moments of different variables cannot be added; select the common ones first")
        other = other.select(self.names)
        n = self.n + other.n
        shift = other.mean - self.mean
        mean = self.mean + shift * (other.n / n)
        scatter = self.scatter + other.scatter + np.outer(shift, shift) * (self.n * other.n / n)
        return Moments(self.names, n, mean, scatter)

    def select(self, names: Sequence[str]) -> Moments:
        """The moments of some of the variables, in the order given."""
        place = {name: k for k, name in enumerate(self.names)}
        unknown = [name for name in names if name not in place]
        if unknown:
            raise InputError(f"no variable named {', '.join(map(repr, unknown))} in these moments")
        index = [place[name] for name in names]
        return Moments(tuple(names), self.n, self.mean[index], self.scatter[np.ix_(index, index)])

    def covariance(self) -> FloatArray:
        """``scatter / n``, the paper's sample covariance."""
        covariance: FloatArray = self.scatter / self.n
        return covariance

    def save(self, path: str | Path) -> Path:
        """Write an NPZ file without pickled objects."""
        buffer = io.BytesIO()
        names = np.array(self.names, dtype=np.str_)
        np.savez(buffer, schema=SCHEMA, names=names, n=self.n, mean=self.mean, scatter=self.scatter)
        return write_atomic(Path(path), buffer.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> Moments:
        """Read what `save` wrote; nothing is unpickled."""
        content = Path(path).read_bytes()
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as file:
                parts = {name: file[name] for name in ("schema", "names", "n", "mean", "scatter")}
            schema, n = int(parts["schema"]), int(parts["n"])
            names = tuple(str(name) for name in parts["names"])
            mean, scatter = (np.asarray(parts[name], dtype=np.float64) for name in ("mean", "scatter"))
        except Exception:  # the many ways in which bytes can fail to be an archive of arrays
            raise InputError(f"{path}: not a file of moments; write one with Moments.save") from None
        if schema != SCHEMA:
            raise InputError(f"{path}: moments of schema {schema}; this version reads schema {SCHEMA}")
        return cls(names, n, mean, scatter)


def _symmetric(matrix: FloatArray) -> bool:
    """Whether mirrored entries agree to rounding, on the scale of the two variables."""
    scale = np.sqrt(np.diag(matrix))
    return bool((np.abs(matrix - matrix.T) <= 1e-9 * np.outer(scale, scale)).all())
