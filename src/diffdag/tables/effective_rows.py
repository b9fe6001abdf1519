"""Effective sample sizes: the number of independent rows that the rows of a table are worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from diffdag._base.arrays import FloatArray
from diffdag._base.checks import default_names, is_number
from diffdag._base.errors import InputError
from diffdag._base.words import Option, join_names
from diffdag.tables.moments import Moments
from diffdag.tables.problems import LEAST_ROWS, check_shape, check_varies

PAIRS = 1_000  # columns whose pairs with all others are looked at together
LONGEST_MEMORY = 0.98  # coefficient of an autoregression
QUIET_LAGS = 5  # so many small autocorrelations in a row end a column's sum


def effective_samples(values: ArrayLike) -> float:
    """Estimate the effective sample size of a time series, for estimating covariances.

    Bartlett's ``n / (1 + 2 sum_k rho_i(k) rho_j(k))`` for the covariance of columns i and j, with the mean of
    the denominators over all pairs and none of them below 1. The autocorrelations of a column end before the
    first 5 lags in a row that are all below ``2 sqrt(log10(n) / n)`` (Politis 2003): products of pure noise
    do not add up, while an oscillation goes on through its zeros. Short series are overrated: 200 rows of an
    autoregression with coefficient 0.8 are worth 44 and look like 52, 1000 are worth 220 and look like 229.

    The rows of `values` are in time order, equally spaced.

    >>> import numpy as np
    >>> from scipy.signal import lfilter
    >>> noise = np.random.default_rng(0).standard_normal((5000, 3))
    >>> round(effective_samples(noise))
    5000
    >>> echoes = lfilter([1], [1, -0.8], noise, axis=0)  # in theory 0.22 = (1 - 0.64) / (1 + 0.64)
    >>> round(effective_samples(echoes) / 5000, 2)
    0.21
    """
    shape = np.shape(values)
    table = check_table(values, default_names(shape[-1] if shape else 0), "given")
    columns = [_autocorrelations(column) for column in table.T]
    correlations = np.zeros((max(map(len, columns)), len(columns)))
    for j, column in enumerate(columns):
        correlations[: len(column), j] = column
    total = 0.0
    for start in range(0, len(columns), PAIRS):  # all pairs of many columns do not fit into memory
        repeats = 1 + 2 * correlations[:, start : start + PAIRS].T @ correlations
        total += float(np.maximum(1.0, repeats).sum())
    return len(table) * len(columns) ** 2 / total


def _autocorrelations(column: FloatArray) -> FloatArray:
    """Autocorrelations of a column from lag 1 to the last that stands out of the noise."""
    n = len(column)
    deviations = column - column.mean()
    power = np.abs(np.fft.rfft(deviations / deviations.std(), 2 * n)) ** 2
    correlations: FloatArray = np.fft.irfft(power)[1:n] / n
    loud = np.abs(correlations) >= 2 * math.sqrt(math.log10(n) / n)
    padded = np.append(loud, np.zeros(QUIET_LAGS, bool))
    return correlations[: np.argmin(sliding_window_view(padded, QUIET_LAGS).any(axis=1))]


def mean_rows(table: FloatArray) -> float:
    """So many independent rows the means of a time series are worth: fewer than its covariances.

    ``n / (1 + 2 sum_k rho_k)``, with the mean of the denominators over columns. Each is the larger one of
    that with the autocorrelations that stand out of the noise, and of that of an autoregression of first order
    whose coefficient is freed of its bias, ``-(1 + 3 rho) / n`` (Kendall 1954).

    >>> import numpy as np
    >>> from scipy.signal import lfilter
    >>> noise = np.random.default_rng(0).standard_normal((2000, 3))
    >>> mean_rows(noise) > 1500, 70 < mean_rows(lfilter([1], [1, -0.9], noise, axis=0)) < 140
    (True, True)
    """
    n = len(table)
    ratios = []
    for column in table.T:
        deviations = column - column.mean()
        power = float(deviations @ deviations)
        rho = float(deviations[1:] @ deviations[:-1]) / power if power > 0 else 0.0
        rho = min(rho + (1 + 3 * rho) / n, LONGEST_MEMORY) if rho > 2 / math.sqrt(n) else 0.0
        lags = _autocorrelations(column) if power > 0 else np.zeros(0)
        ratios.append(max(1.0, (1 + rho) / (1 - rho), 1 + 2 * float(lags.sum())))
    return n / float(np.mean(ratios))


def independent_rows(option: Any, series: Sequence[FloatArray]) -> list[float]:
    """The value of ``effective_samples=`` as one number for each table.

    Estimated ones are never less than 3, however long the memory of rows: so few compare two variables, and
    nearly nothing passes for change.
    """
    rows = [len(table) for table in series]
    if option is None:
        return [float(n) for n in rows]
    if isinstance(option, str) and option == "auto":
        return [max(float(LEAST_ROWS), effective_samples(table)) for table in series]
    listed = isinstance(option, Sequence | np.ndarray) and getattr(option, "ndim", 1) != 0
    counts = list(option) if listed else [option, option]
    remedy = "give 'auto', a number, or one number for each table, from 3 to the number of rows"
    if len(counts) != 2 or not all(is_number(count) for count in counts):
        raise InputError(Option("effective_samples", option), " is not understood; ", remedy)
    for count, n, label in zip(counts, rows, ("first", "second"), strict=True):
        if not LEAST_ROWS <= count <= n:
            raise InputError(
                f"{count:g} effective samples for the {n} rows of the {label} table are not possible; ", remedy
            )
    return [float(count) for count in counts]


def with_effective_rows(moments: Moments, count: float) -> Moments:
    """Set the effective sample size of moments, with their mean and covariance as they are."""
    n = max(LEAST_ROWS, round(count))
    worth = None if moments.mean_rows is None else moments.mean_rows * n / moments.n
    return replace(moments, n=n, scatter=moments.scatter * (n / moments.n), mean_rows=worth)


def without_rows(moments: Moments, rows: int, lost: int, mean_rows: float) -> Moments:
    """Moments of so many rows of residuals that have lost some degrees of freedom besides that of the mean."""
    if rows - lost < LEAST_ROWS:
        raise InputError(
            f"covariates, and what rows are nested in, leave {max(rows - lost, 0)} of {rows} rows of a table "
            f"to compare, and at least {LEAST_ROWS} are needed; leave some out of ",
            Option("adjust"),
            ", or bring more rows",
        )
    n = max(LEAST_ROWS, round(moments.n * (rows - lost) / rows))
    return replace(moments, n=n, mean_rows=mean_rows * moments.n / rows)


def check_table(values: ArrayLike, names: Sequence[str], label: str) -> FloatArray:
    """Refuse what is not a table of finite numbers whose columns all vary."""
    table = np.asarray(values)
    if table.ndim != 2 or table.dtype.kind not in "biuf" or np.ma.is_masked(values):
        raise InputError(f"the {label} table must be a two-dimensional array of numbers, none masked")
    if table.shape[1] != len(names):
        raise InputError(
            f"the {label} table has {table.shape[1]} columns and there are {len(names)} names; name each column"
        )
    check_shape(len(table), len(names), label)
    unsound = ~np.isfinite(table).all(axis=0)
    if unsound.any():
        bad = join_names(compress(names, unsound))
        raise InputError(f"values of {bad} in the {label} table are missing or infinite; remove their rows")
    check_varies(names, table.min(axis=0) == table.max(axis=0), label)
    return table.astype(np.float64, copy=False)
