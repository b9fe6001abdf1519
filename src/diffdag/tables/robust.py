"""Two tables to two moments, when rows or columns are not what the sample covariance expects.

**Outliers.** Each column of each table is clipped at ``median +- 3 * 1.4826 MAD`` and divided by the standard
deviation that clipping leaves of a standard normal variable. Of Gaussian values 0.3 % are touched, and next to
no precision is lost.

**Unknown scales.** If each variable is an unknown increasing function, the same in both tables, of a Gaussian
one, ranks give the correlations of the latter: ``2 sin(pi/6 rho)`` from Spearman's coefficient (Liu, Han, Yuan,
Lafferty, Wasserman 2012, the nonparanormal SKEPTIC). Ranks within a table lose its means and variances; these
come from the ranks in both tables, see `common_scores`.

**Rows that count for less.** Rank correlations are less precise than sample covariances, the more so the closer
to collinear the variables; rows in time order repeat each other. Both are passed on as a smaller number of rows
with ``scatter / n`` unchanged. For ranks it is the number of rows divided by the median over all pairs i < j of

    Var (Omega E Omega)_ij / (Omega_ii Omega_jj + Omega_ij^2),      E: one row's influence on the covariance,

the variance of an entry of the estimated precision matrix as a multiple of what Gaussian rows and their sample
covariance give (influence functions: Hampel et al. 1986; of rank correlations: Croux and Dehon 2010). Dense
models of 10 variables give 1.9. Regressions on fewer variables lose less, 1.5 on average, so tests along an
order find too little rather than too much: at a level of 5 %, 3 % of unchanged coefficients, and 11 % with the
rows as they are (`benchmarks/robust.py`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import compress
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag._base.checks import check_option
from diffdag._base.errors import DiffDagWarning, InputError
from diffdag._base.parallel import one_blas_thread
from diffdag._base.words import join_names
from diffdag.tables.effective_rows import check_table, independent_rows, mean_rows, with_effective_rows
from diffdag.tables.moments import Moments

Covariance = Literal["sample", "winsorised", "spearman"]
COVARIANCES: tuple[Covariance, ...] = get_args(Covariance)

CLIP = 3.0  # robust standard deviations
LOSS_ROWS, LOSS_COLUMNS = 1000, 100  # from which the loss of rank correlations is estimated
RARE = 0.02  # share of rows off a column's most common value up to which they are too few to estimate from
INDEPENDENT_LOSS = math.pi**2 / 9  # of the rank correlations of independent columns
APART = 3.0  # standard deviations between two means from which on ranks tell next to nothing of variances


def table_moments(
    first: ArrayLike,
    second: ArrayLike,
    names: Sequence[str],
    *,
    covariance: Covariance = "sample",
    effective_samples: float | tuple[float, float] | Literal["auto"] | None = None,
) -> tuple[Moments, Moments]:
    """Moments of two tables over the same variables.

    Parameters
    ----------
    first, second : array_like of shape (n1, p) and (n2, p)
        Finite numbers; no column constant in either table.
    names : sequence of str
        The p variables.
    covariance : {"sample", "winsorised", "spearman"}
        "winsorised" is for outliers: each column is clipped at 3 robust standard deviations from its median.
        "spearman" is for variables on unknown increasing scales, the same in both tables: a change of such a
        scale alters nothing, and outliers little. The moments are those of standardised Gaussian variables,
        and ``n`` is less than the number of rows, as ranks are less precise.
    effective_samples : None, "auto", float or (float, float)
        Effective sample sizes. None: each row is independent. "auto": rows are in
        time order and it is estimated, see `effective_rows.effective_samples`. A number for both tables or for
        each: from 3 to the number of rows. What ranks lose is taken off on top.

    Returns
    -------
    (Moments, Moments)
        ``covariance()`` is the estimate and ``n`` the rounded effective sample size.

    Raises
    ------
    InputError
        If a table cannot be used, an option is not known, or two columns have a rank correlation of 1 or -1.

    Warns
    -----
    DiffDagWarning
        If a matrix of rank correlations had to be made positive definite, or the values of a column in the
        two tables hardly overlap, so that ranks tell nothing of their variances.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> first, second = (rng.standard_normal((500, 2)) @ [[1, 0.5], [0, 1]] for _ in range(2))
    >>> first[0] = 1000, -1000
    >>> for covariance in ("sample", "winsorised", "spearman"):
    ...     moments, _ = table_moments(first, second, ["x", "y"], covariance=covariance)
    ...     (xx, xy), (_, yy) = moments.covariance()
    ...     print(covariance, moments.n, round(xy / np.sqrt(xx * yy), 1))
    sample 500 -1.0
    winsorised 500 0.4
    spearman 432 0.4
    """
    check_option("covariance", covariance, COVARIANCES)
    tables = check_table(first, names, "first"), check_table(second, names, "second")
    loss = 1.0
    series = table_scores(*tables, covariance)
    if covariance == "spearman":
        moments, loss = _rank_moments(tables, series, names)
    else:
        moments = [Moments.from_array(table, names) for table in series]
    rows = independent_rows(effective_samples, series)
    before, after = (with_effective_rows(part, count / loss) for part, count in zip(moments, rows, strict=True))
    if isinstance(effective_samples, str):  # in a series means are worth less than covariances
        before, after = (
            replace(part, mean_rows=min(mean_rows(table), part.n))
            for part, table in zip((before, after), series, strict=True)
        )
    return before, after


def table_scores(
    first: FloatArray, second: FloatArray, covariance: Covariance
) -> tuple[FloatArray, FloatArray]:
    """The tables with outliers clipped, or on the scale that ranks suggest, as `covariance` asks for."""
    if covariance == "spearman":
        return common_scores(first, second)
    return (first, second) if covariance == "sample" else (_winsorised(first), _winsorised(second))


def common_scores(first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bring each variable to the scale on which it is Gaussian in both tables, from its ranks in both.

    Normal scores of the ranks in the two tables together would do if these were Gaussian together. With a
    standard deviation twice as large in one table they show 1.78 times, and a change of variance would pass
    for a change of effects. Both tables, with equal weight, are a mixture of two Gaussians whose means and
    standard deviations are those of the scores: from normal scores on, they are recomputed until they agree.
    The scale is fixed by mean 0 and variance 1 within tables, on average.
    """
    columns = [_mixture_scores(*pair) for pair in zip(first.T, second.T, strict=True)]
    before, after = (np.column_stack(parts) for parts in zip(*columns, strict=True))
    return before, after


def _mixture_scores(
    first: FloatArray, second: FloatArray, rounds: int = 50, tolerance: float = 1e-6
) -> list[FloatArray]:
    """Scores of one variable in the two tables."""
    ordered = np.sort(first), np.sort(second)
    levels = [_level(column, ordered) for column in (first, second)]
    steps = np.linspace(-8, 8, 1001)[:, None]
    scores, shape = _standardised([ndtri(level) for level in levels])
    for _ in range(rounds):
        old, (center, scale) = shape, shape
        grid = np.sort((center + scale * steps).ravel())
        mixture = ndtr((grid[:, None] - center) / scale).mean(axis=1)
        scores, shape = _standardised([np.interp(level, mixture, grid) for level in levels])
        if np.abs(shape - old).max() < tolerance or np.ptp(shape[0]) > APART:
            break
    return scores


def _level(values: FloatArray, ordered: Sequence[FloatArray]) -> FloatArray:
    """The share of each of some sorted columns below given values, equal ones counting half; their mean."""
    ranks = [np.searchsorted(part, values, "left") + np.searchsorted(part, values, "right") for part in ordered]
    shares = [rank / (2 * len(part)) for rank, part in zip(ranks, ordered, strict=True)]
    level: FloatArray = np.mean(shares, axis=0)
    return level


def _standardised(scores: list[FloatArray]) -> tuple[list[FloatArray], FloatArray]:
    """Scores with mean 0 and variance 1 within tables on average; means and standard deviations in each."""
    center = np.array([part.mean() for part in scores])
    scale = np.array([part.std() for part in scores])
    middle, unit = center.mean(), math.sqrt((scale**2).mean())
    return [(part - middle) / unit for part in scores], np.array([center - middle, scale]) / unit


def mean_ranks(table: FloatArray) -> FloatArray:
    """Ranks from 1 within each column; equal values share the mean of theirs.

    >>> mean_ranks(np.array([[3.0], [1.0], [3.0]])).ravel()
    array([2.5, 1. , 2.5])
    """
    ranks: FloatArray = np.empty(table.shape)
    for column, own in zip(table.T, ranks.T, strict=True):
        _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
        own[:] = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return ranks


def rank_correlation(table: FloatArray) -> FloatArray:
    """Correlations of the Gaussian variables behind a table, from Spearman's coefficients."""
    matrix: FloatArray = 2 * np.sin(np.pi / 6 * np.corrcoef(mean_ranks(table), rowvar=False))
    np.fill_diagonal(matrix, 1.0)
    return matrix


def _rank_moments(
    tables: Sequence[FloatArray], series: Sequence[FloatArray], names: Sequence[str]
) -> tuple[list[Moments], float]:
    """Moments of two tables with correlations from ranks, and the rows that replace one Gaussian row."""
    moments, losses = [], []
    for table, scores, label in zip(tables, series, ("first", "second"), strict=True):
        matrix = rank_correlation(table)
        _check_distinct(matrix, names, label)
        own = Moments.from_array(scores, names)
        scale = np.sqrt(np.diag(own.scatter))
        losses.append(rank_variance_inflation(table, scores, matrix))
        # The scores know better how much there is in each direction; much less than that is noise.
        least = np.linalg.eigvalsh(own.scatter / np.outer(scale, scale))[0]
        what = f"spearman correlations of the {label} table"
        matrix = _positive_definite(matrix, max(least / 4, 0.1 / own.n), what)
        moments.append(Moments(own.names, own.n, own.mean, matrix * np.outer(scale, scale)))
    _warn_if_apart(names, np.abs(moments[0].mean - moments[1].mean) > APART)
    return moments, max(1.0, sum(losses) / 2)


def _warn_if_apart(names: Sequence[str], apart: BoolArray) -> None:
    """Say of which variables the ranks cannot tell whether the variance changed."""
    if apart.any():
        warnings.warn(
            f"values of {join_names(compress(names, apart))} hardly overlap between the tables: ranks do not "
            "tell whether their variances differ; use another covariance, or take changes next to them with "
            "caution",
            DiffDagWarning,
            stacklevel=4,
        )


def _positive_definite(matrix: FloatArray, floor: float, what: str) -> FloatArray:
    """Raise the eigenvalues of a correlation matrix to a floor, bring its diagonal back to 1, and say so."""
    values, vectors = np.linalg.eigh(matrix)
    if values[0] >= floor:
        return matrix
    warnings.warn(
        f"the {what} are close to collinear or contradictory: their smallest eigenvalue {values[0]:.2g} was "
        f"raised to {floor:.2g}; use more rows, fewer columns or another covariance",
        DiffDagWarning,
        stacklevel=4,
    )
    raised = (vectors * np.maximum(values, floor)) @ vectors.T
    scale = np.sqrt(np.diag(raised))
    raised /= np.outer(scale, scale)
    result: FloatArray = (raised + raised.T) / 2
    return result


def rank_variance_inflation(table: FloatArray, scores: FloatArray, matrix: FloatArray) -> float:
    """Variance of precision entries from ranks over that from Gaussian rows: the median of the module header.

    From at most 1000 rows, and from at most 100 columns and a fifth as many as rows, evenly spaced. Columns
    that hardly ever vary are left out, as a handful of rows would decide.
    """
    rows = slice(None, None, math.ceil(len(table) / LOSS_ROWS))
    most = [np.unique(column, return_counts=True)[1].max() for column in table[rows].T]
    varying = np.flatnonzero(np.array(most) < (1 - RARE) * len(table[rows]))
    if len(varying) < 2:
        return INDEPENDENT_LOSS
    count = min(len(varying), LOSS_COLUMNS, max(2, len(table) // 5))
    columns = varying[np.linspace(0, len(varying) - 1, count).astype(int)]
    chosen, scores = table[rows, columns], scores[:, columns]
    omega = np.linalg.pinv(np.corrcoef(scores, rowvar=False), rcond=1e-10, hermitian=True)
    total, squares = np.zeros((count, count)), np.zeros((count, count))
    with one_blas_thread():  # many small products: threads would only wait for each other
        for influence in _influences(chosen, scores[rows], matrix[np.ix_(columns, columns)]):
            effect = omega @ influence @ omega
            total += effect
            squares += effect**2
    variance = squares / len(chosen) - (total / len(chosen)) ** 2
    diagonal = np.diag(omega)
    ratio = variance / (np.outer(diagonal, diagonal) + omega**2)
    return float(np.median(ratio[np.triu_indices(count, k=1)]))


def _influences(table: FloatArray, scores: FloatArray, matrix: FloatArray) -> Iterator[FloatArray]:
    """For each row, its influence on the covariance matrix, up to a constant, with all variances 1.

    Spearman's coefficient is the mean product of ``F(x_r)`` and ``G(y_r)``, each centred and scaled; a row
    takes part as r and in the two distribution functions.
    """
    n = len(table)
    ranks = (2 * mean_ranks(table) - n - 1) / n
    spread = ranks.std(axis=0)
    levels = ranks / spread
    slope = np.pi / 3 * np.sqrt(1 - matrix**2 / 4)
    variances = ((scores - scores.mean(axis=0)) / scores.std(axis=0)) ** 2 / 2
    for row, level, variance in zip(table, levels, variances, strict=True):
        signs = np.sign(row - table)
        shift = signs.T @ levels / (n * spread[:, None])
        own = np.outer(level, level) - shift - shift.T
        yield slope * own + matrix * (variance[:, None] + variance)


def _winsorised(table: FloatArray) -> FloatArray:
    """Clip each column at 3 robust standard deviations; Gaussian columns keep their variance on average.

    Where more than half of a column is one value, the median deviation of the other values is used.
    """
    center = np.median(table, axis=0)
    deviations = np.abs(table - center)
    scale = np.median(deviations, axis=0)
    for j in np.flatnonzero(scale == 0):
        scale[j] = np.median(deviations[deviations[:, j] > 0, j])
    limit = CLIP * 1.4826 * scale
    density = math.exp(-(CLIP**2) / 2) / math.sqrt(2 * math.pi)
    kept = 1 - 2 * CLIP * density + 2 * (CLIP**2 - 1) * float(ndtr(-CLIP))  # variance of a clipped normal
    result: FloatArray = center + np.clip(table - center, -limit, limit) / math.sqrt(kept)
    return result


def _check_distinct(matrix: FloatArray, names: Sequence[str], label: str) -> None:
    """Refuse two columns that order the rows alike: to ranks they are one variable."""
    alike = np.argwhere(np.triu(np.abs(matrix) >= 1 - 1e-12, k=1))
    if alike.size:
        raise InputError(
            f"columns {join_names(names[k] for k in alike[0])} order the rows of the {label} table in the same "
            "or the opposite way; drop one of them"
        )
