"""Maximum likelihood from a table with gaps: Gaussian EM, when values are missing at random.

Row r of one condition is ``x_r = C' w_r + e_r`` with ``e_r ~ N(0, Sigma)`` and ``w_r = (1, design_r)``: what
is known of every row, such as covariates and donors. Some of ``x_r`` is missing, depending on nothing but what
was observed. With Omega the inverse of Sigma, O what was observed of a row and M its gaps, EM repeats

    E:  e_M = -inv(Omega_MM) Omega_MO (x_O - C_O' w)              expected residuals, 0 added for O
        V_r =  inv(Omega_MM)                                      their covariance, zero outside of M x M
    M:  C from the regression of the filled rows on w,   Sigma = (sum of e_r e_r' + V_r) / n

(Dempster, Laird, Rubin 1977; Little and Rubin 2019, chapters 8 and 11). Rows with as many gaps are worked on
together, each pattern of gaps once; rows without gaps are summed beforehand. Every two steps are extrapolated
(SQUAREM, Varadhan and Roland 2008), and the leap is taken only if the likelihood does not fall by it. Columns
are divided by the spread of their residuals, so that units do not matter, and Sigma is kept off singularity by
a prior of independent columns, worth 1e-8 of the rows. It is worth a tenth of them where rows are fewer than
the parameters of a column, or where EM comes to no end because gaps leave too little of them.

**What is left of the rows.** The information that row r carries about Omega is

    tr(B_r E B_r E') / 2   for directions E and E',   B_r = Sigma_:O inv(Sigma_OO) Sigma_O: = Sigma - V_r

and the inverse of its sum over rows is the asymptotic covariance of the estimated Omega, hence of all that is
computed from it. For regressions of each column on those before it in an order, the variance of a coefficient
over that without gaps is what gaps cost it; the mean over coefficients and random orders, each at most 20, is
the inverse of `Completed.share`. All orders give nearly the same. Entries of Omega itself lose more where
correlations are strong, pairs of values less: with 10 columns and a fifth missing at random, coefficients
keep 55 to 60 % of the rows, entries of Omega 37 to 55 %, and 67 % of the pairs are observed.

References
----------
Dempster, Laird, Rubin (1977), Maximum likelihood from incomplete data via the EM algorithm, JRSS B 39.
Little, Rubin (2019), Statistical analysis with missing data, third edition, Wiley.
Varadhan, Roland (2008), Simple and globally convergent methods for accelerating the convergence of any EM
algorithm, Scandinavian Journal of Statistics 35.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from diffdag._base.arrays import BoolArray, FloatArray, IndexArray
from diffdag._base.errors import DiffDagWarning
from diffdag._base.parallel import one_blas_thread

TOLERANCE = 1e-6  # largest change by one step, in standard deviations that the other columns leave
STEPS = 500  # of EM, at most
RIDGE = 1e-8  # what a prior of independent columns is worth, as a share of the rows
WIDE_RIDGE = 0.1  # the same, where rows are too few to tell the covariance matrix
FIRST_ROUNDS = 20  # of filling gaps from the design alone, before EM
BLOCK = 2**21  # numbers that are worked on together
SHARE_COLUMNS = 40  # from which the share is estimated, at most
SHARE_EFFECTS = 200  # coefficients from which it is estimated, at least
MOST_INFLATION = 20.0  # of the variance of one coefficient, in the mean over all


@dataclass(frozen=True, eq=False)
class Completed:
    """A table whose gaps are filled, and the Gaussian model that fills them."""

    rows: FloatArray  # gaps filled by one draw from the model, given what was observed
    expected: FloatArray  # gaps filled by what the model expects, given what was observed
    coefficients: FloatArray  # (1 + q) x p: intercepts, and effects of the design
    covariance: FloatArray  # p x p, of the residuals: maximum likelihood, so the divisor is n
    share: float  # in (0, 1]: the effective sample size is this share of the rows
    iterations: int  # steps of EM


@dataclass(frozen=True, eq=False)
class _Design:
    """Constant and design of some rows as columns that are orthogonal, with mean square 1."""

    basis: FloatArray  # n x k, the first column is constant
    center: FloatArray  # q
    turn: FloatArray  # q x (k - 1): centred design times it = basis without the constant

    @classmethod
    def of(cls, design: FloatArray) -> _Design:
        root = math.sqrt(len(design))
        center = design.mean(axis=0)
        centred = design - center
        spread = np.sqrt((centred**2).mean(axis=0))
        spread[spread <= 1e-12 * np.abs(center)] = np.inf  # constant: no effect
        left, sizes, right = np.linalg.svd(centred / spread, full_matrices=False)
        kept = sizes > 1e-10 * max(1.0, sizes.max(initial=0.0))
        turn = right[kept].T * (root / sizes[kept]) / spread[:, None]
        return cls(np.column_stack([np.ones(len(design)), left[:, kept] * root]), center, turn)

    def fit(self, rows: FloatArray) -> FloatArray:
        """Coefficients of the basis, by least squares."""
        result: FloatArray = self.basis.T @ rows / len(rows)
        return result

    def effects(self, coefficients: FloatArray) -> FloatArray:
        """Intercepts and effects of the design; the smallest ones where its columns depend on each other."""
        effects = self.turn @ coefficients[1:]
        return np.vstack([coefficients[0] - self.center @ effects, effects])


@dataclass(frozen=True, eq=False)
class _Block:
    """Patterns with as many gaps each, and about as many rows each."""

    rows: IndexArray  # patterns x rows of each; where there are fewer, the row after the last, which is zero
    gaps: IndexArray  # patterns x columns that are missing
    counts: IndexArray  # rows of each pattern

    @property
    def cells(self) -> tuple[IndexArray, IndexArray]:
        """Indices of the missing cells: patterns x rows of each x gaps."""
        return self.rows[:, :, None], self.gaps[:, None, :]

    @property
    def squares(self) -> tuple[IndexArray, IndexArray]:
        """Indices of M x M for each pattern: patterns x gaps x gaps."""
        return self.gaps[:, :, None], self.gaps[:, None, :]


@dataclass(frozen=True, eq=False)
class _Problem:
    """Standardised rows, those with gaps apart from the sums of the others."""

    n: int
    ridge: float
    rows: FloatArray  # rows with gaps, zero where missing, and a row of zeros
    missing: BoolArray
    basis: FloatArray  # their design
    blocks: list[_Block]
    cross: FloatArray  # p x p: products of rows without gaps
    moments: FloatArray  # k x p: products of these with their design
    gram: FloatArray  # k x k: products of their design

    @classmethod
    def of(cls, rows: FloatArray, missing: BoolArray, basis: FloatArray) -> _Problem:
        gapped = missing.any(axis=1)
        whole, known = rows[~gapped], basis[~gapped]
        gaps = _and_zeros(missing[gapped])
        filled = np.where(gaps, 0.0, _and_zeros(rows[gapped]))
        sums = whole.T @ whole, known.T @ whole, known.T @ known
        ridge = RIDGE if len(rows) > rows.shape[1] + basis.shape[1] else WIDE_RIDGE
        return cls(
            len(rows), ridge, filled, gaps, _and_zeros(basis[gapped]), list(_blocks(missing[gapped])), *sums
        )


def complete(
    rows: FloatArray,
    design: FloatArray | None = None,
    *,
    rng: np.random.Generator,
    start: Completed | None = None,
    share: float | None = None,
    tolerance: float = TOLERANCE,
) -> Completed:
    """Fill the gaps of one condition's table by the Gaussian model that makes what was observed most likely.

    Parameters
    ----------
    rows : array of shape (n, p)
        One row per observation, NaN where missing. Rows in which all is missing tell nothing and are filled.
    design : array of shape (n, q), optional
        What is known of every row and acts on it, without the constant: covariates, donors as 0 and 1. Columns
        may depend on each other.
    rng : Generator
        For the draws that fill gaps, and for the columns from which `share` is estimated if there are many.
    start : Completed, optional
        The result for a similar table, to begin with. Its coefficients serve if they are as many.
    share : float, optional
        The effective sample size as a share of the rows, if it is known. By default it is estimated.
    tolerance : float
        EM ends when a step changes no parameter by more, in coordinates in which the covariance is the
        identity. Sampling errors are about 1 over the root of the rows; 1e-3 does for resamples.

    Returns
    -------
    Completed
        Filled rows, coefficients, covariance of the residuals, and what the rows are worth.

    Warns
    -----
    DiffDagWarning
        If 500 steps did not suffice: correlations are then shrunk by 9 %, until 500 more do.

    Examples
    --------
    Where x is large y is missing: the mean of the others is too small, and the model knows better.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal(2000)
    >>> rows = np.column_stack([x, x + rng.standard_normal(2000)])
    >>> rows[x > 0.5, 1] = np.nan
    >>> filled = complete(rows, rng=rng)
    >>> print(f"{np.nanmean(rows[:, 1]):.2f} {filled.coefficients[0, 1]:.2f}")
    -0.52 -0.03
    >>> filled.covariance.round(1)
    array([[1., 1.],
           [1., 2.]])
    """
    missing = np.isnan(rows)
    known = np.zeros((len(rows), 0)) if design is None else np.asarray(design, np.float64)
    if not missing.any():
        return _without_gaps(rows, _Design.of(known))
    with one_blas_thread():  # many small products: threads would only wait for each other
        return _with_gaps(rows, missing, known, rng, start, share, tolerance)


def _without_gaps(rows: FloatArray, design: _Design) -> Completed:
    """Least squares."""
    center = rows.mean(axis=0)
    coefficients = design.fit(rows - center)
    residuals = rows - center - design.basis @ coefficients
    coefficients[0] += center
    return Completed(rows, rows, design.effects(coefficients), residuals.T @ residuals / len(rows), 1.0, 0)


def _with_gaps(
    rows: FloatArray,
    missing: BoolArray,
    known: FloatArray,
    rng: np.random.Generator,
    start: Completed | None,
    share: float | None,
    tolerance: float,
) -> Completed:
    """Standardise, climb, and go back to the units of the columns; rows without any value are left out."""
    used = ~missing.all(axis=1)
    used |= not used.any()
    design = _Design.of(known[used])
    center, scale, base, residuals = _standardised(rows[used], missing[used], design)
    problem = _Problem.of(residuals, missing[used], design.basis)
    if start is None:
        first = _step(problem, np.vstack([0 * base, np.eye(len(scale))]))[0]
    else:
        own = design.fit(_values(start.coefficients, known[used]) - center) / scale - base
        first = np.vstack([own, start.covariance / np.outer(scale, scale) + problem.ridge * np.eye(len(scale))])
    parameters, iterations = _climb(problem, first, tolerance)
    own, matrix = _split(parameters)
    effects = design.effects((own + base) * scale)
    effects[0] += center
    fitted = effects[0] + known @ effects[1:]
    levels = np.where(missing, 0.0, (rows - fitted) / scale)
    expected, drawn = _filled(levels, missing, matrix, rng)
    if share is None:
        share = information_left(matrix, missing[used], rng) * float(used.mean())
    return Completed(
        np.where(missing, fitted + drawn * scale, rows),
        np.where(missing, fitted + expected * scale, rows),
        effects,
        matrix * np.outer(scale, scale),
        share,
        iterations,
    )


def _standardised(
    rows: FloatArray, missing: BoolArray, design: _Design
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Centers, scales, first coefficients in these units, and the residuals that they leave, 0 in gaps.

    Each column is regressed on the design by itself: gaps are filled by what was fitted, again and again.
    """
    count = np.maximum(1, (~missing).sum(axis=0))
    center = np.where(missing, 0.0, rows).sum(axis=0) / count
    centred = np.where(missing, 0.0, rows - center)
    coefficients = design.fit(centred)
    for _ in range(FIRST_ROUNDS if coefficients.shape[0] > 1 else 0):
        coefficients = design.fit(np.where(missing, design.basis @ coefficients, centred))
    residuals = np.where(missing, 0.0, centred - design.basis @ coefficients)
    scale = np.sqrt((residuals**2).sum(axis=0) / count)
    scale[scale <= 1e-12 * np.sqrt(center**2 + (centred**2).sum(axis=0) / count)] = 1.0
    return center, scale, coefficients / scale, residuals / scale


def _values(effects: FloatArray, known: FloatArray) -> FloatArray:
    """What intercepts and effects of the design give for each row; intercepts alone for another design."""
    if len(effects) != 1 + known.shape[1]:
        return np.repeat(effects[:1], len(known), axis=0)
    result: FloatArray = effects[0] + known @ effects[1:]
    return result


def _and_zeros(rows: NDArray[Any]) -> NDArray[Any]:
    """The rows, and one of zeros."""
    return np.vstack([rows, np.zeros_like(rows, shape=(1, rows.shape[1]))])


def _blocks(missing: BoolArray) -> Iterator[_Block]:
    """Group rows by their patterns of gaps, and patterns by how many gaps and rows (up to 1, 4, 16 ...)."""
    if not len(missing):
        return
    _, first, pattern, counts = np.unique(
        np.packbits(missing, axis=1), axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.append(np.argsort(pattern.ravel(), kind="stable"), len(missing))
    starts = np.cumsum(counts) - counts
    patterns = missing[first]
    sizes, levels = patterns.sum(axis=1), np.ceil(np.log2(counts) / 2).astype(int)
    for size, level in np.unique(np.column_stack([sizes, levels]), axis=0):
        alike = np.flatnonzero((sizes == size) & (levels == level))
        most = counts[alike].max()
        together = max(1, BLOCK // max(1, size * max(size, most)))
        for begin in range(0, len(alike), together):
            part = alike[begin : begin + together]
            gaps = np.nonzero(patterns[part])[1].reshape(len(part), size)
            step = np.arange(most)
            places = np.where(step < counts[part][:, None], starts[part][:, None] + step, len(missing))
            yield _Block(order[places], gaps, counts[part])


# The steps -------------------------------------------------------------------------------------------------


def _split(parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Coefficients and covariance: parameters are one above the other."""
    k = parameters.shape[0] - parameters.shape[1]
    return parameters[:k], parameters[k:]


def _climb(problem: _Problem, start: FloatArray, tolerance: float) -> tuple[FloatArray, int]:
    """The most likely parameters and the number of steps; with a strong prior where steps come to no end."""
    parameters, steps, change = _top(problem, start, tolerance)
    if change > tolerance and problem.ridge < WIDE_RIDGE:
        _warn(steps, change, tolerance, f"correlations were shrunk by {1 - 1 / (1 + WIDE_RIDGE):.0%} instead")
        parameters, more, change = _top(replace(problem, ridge=WIDE_RIDGE), parameters, tolerance)
        steps += more
    if change > tolerance:
        _warn(steps, change, tolerance, "the result is that of the last step")
    return parameters, steps


def _warn(steps: int, change: float, tolerance: float, then: str) -> None:
    """Say that EM did not converge, what was done, and what can be done."""
    warnings.warn(
        f"EM for missing values has not converged: step {steps} changed parameters by {change:.1g} standard "
        f"deviations, where {tolerance:g} is asked for; {then}; leave out columns with many gaps or that "
        "nearly repeat others, or take more rows",
        DiffDagWarning,
        stacklevel=5,
    )


def _top(problem: _Problem, parameters: FloatArray, tolerance: float) -> tuple[FloatArray, int, float]:
    """Cycles until a step hardly changes anything; parameters, number of steps, and what the last changed."""
    steps, change = 0, math.inf
    cycles = _cycles(problem, parameters, tolerance)
    while change > tolerance and steps < STEPS:
        parameters, _, change, steps = next(cycles)
    return parameters, steps, change


def _cycles(
    problem: _Problem, parameters: FloatArray, tolerance: float
) -> Iterator[tuple[FloatArray, float, float, int]]:
    """Parameters after each cycle, log-likelihood before it, largest change by a step, and steps in all.

    A cycle is two steps, and a third from where they point to, if that is at least as likely as the first.
    """
    steps = 0
    while True:
        first, likely = _step(problem, parameters)
        change, steps = _change(parameters, first), steps + 1
        if change <= tolerance:
            yield first, likely, change, steps
            return
        second, better = _step(problem, first)
        change, steps = _change(first, second), steps + 1
        if change <= tolerance:
            yield second, likely, change, steps
            return
        parameters, steps = _leap(problem, parameters, first, second, better), steps + 1
        yield parameters, likely, change, steps


def _leap(
    problem: _Problem, start: FloatArray, first: FloatArray, second: FloatArray, likely: float
) -> FloatArray:
    """A step from where two steps point to; the second of these, if less likely than the first is there."""
    try:
        third, there = _step(problem, _extrapolated(start, first, second))
    except np.linalg.LinAlgError:  # beyond the positive definite matrices
        return second
    return third if there >= likely else second


def _extrapolated(start: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Where two steps point to (Varadhan and Roland 2008, SqS3)."""
    velocity = first - start
    acceleration = second - first - velocity
    length = max(1.0, math.sqrt((velocity**2).sum() / max((acceleration**2).sum(), 1e-300)))
    result: FloatArray = start + 2 * length * velocity + length**2 * acceleration
    return result


def _change(old: FloatArray, new: FloatArray) -> float:
    """The largest change of a parameter, in coordinates in which the old covariance is the identity."""
    root = np.linalg.cholesky(_split(old)[1])
    coefficients, matrix = _split(new - old)
    inner = solve_triangular(root, matrix, lower=True)
    changes = np.vstack(
        [
            solve_triangular(root, inner.T, lower=True),
            solve_triangular(root, coefficients.T, lower=True).T,
        ]
    )
    return float(np.abs(changes).max())


def _step(problem: _Problem, parameters: FloatArray) -> tuple[FloatArray, float]:
    """One step of EM, and the log-likelihood (up to a constant, with the prior) of the parameters before it."""
    n, p = problem.n, parameters.shape[1]
    coefficients, matrix = _split(parameters)
    root = np.linalg.cholesky(matrix)
    omega = _inverse(root)
    fitted = problem.basis @ coefficients
    residuals = np.where(problem.missing, 0.0, problem.rows - fitted)
    spread, volume = _expect(residuals, omega, problem.blocks)
    left = problem.moments.T @ coefficients
    whole = problem.cross - left - left.T + coefficients.T @ problem.gram @ coefficients
    found = whole + residuals.T @ residuals
    likelihood = -0.5 * (volume + ((found + n * problem.ridge * np.eye(p)) * omega).sum())
    likelihood -= n * (1 + problem.ridge) * float(np.log(np.diag(root)).sum())
    # The regression of the residuals on the design moves the coefficients.
    move = (problem.moments - problem.gram @ coefficients + problem.basis.T @ residuals) / n
    after = ((found + spread) / n - move.T @ move + problem.ridge * np.eye(p)) / (1 + problem.ridge)
    return np.vstack([coefficients + move, (after + after.T) / 2]), float(likelihood)


def _inverse(root: NDArray[np.floating[Any]]) -> FloatArray:
    """The inverse of a matrix from its Cholesky factor."""
    half = solve_triangular(root, np.eye(len(root)), lower=True)
    result: FloatArray = half.T @ half
    return result


def _expect(residuals: FloatArray, omega: FloatArray, blocks: list[_Block]) -> tuple[FloatArray, float]:
    """Fill gaps in residuals, in place; sums over rows of V_r and of the log determinants of Omega_MM."""
    p = len(omega)
    pulls = residuals @ omega
    spread, volume = np.zeros(p * p), 0.0
    for block in blocks:
        roots = np.linalg.cholesky(omega[block.squares])
        halves = np.linalg.inv(roots)
        inverses = halves.swapaxes(1, 2) @ halves
        residuals[block.cells] = -pulls[block.cells] @ inverses
        upper, lower = block.squares
        weighted = block.counts[:, None, None] * inverses
        spread += np.bincount((upper * p + lower).ravel(), weighted.ravel(), p * p)
        volume += 2 * float(block.counts @ np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1))
    return spread.reshape(p, p), volume


def _filled(
    residuals: FloatArray, missing: BoolArray, matrix: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Residuals with expectations in their gaps, and with draws."""
    omega = _inverse(np.linalg.cholesky(matrix))
    gapped = missing.any(axis=1)
    blocks = list(_blocks(missing[gapped]))
    noise = _and_zeros(missing[gapped]).astype(np.float64)
    noise[noise > 0] = rng.standard_normal(int(missing.sum()))
    for block in blocks:
        noise[block.cells] @= np.linalg.inv(np.linalg.cholesky(omega[block.squares]))
    filled = _and_zeros(residuals[gapped])
    _expect(filled, omega, blocks)
    expected, drawn = residuals.copy(), residuals.copy()
    expected[gapped], drawn[gapped] = filled[:-1], (filled + noise)[:-1]
    return expected, drawn


# What the rows are worth -----------------------------------------------------------------------------------


def information_left(covariance: FloatArray, missing: BoolArray, rng: np.random.Generator) -> float:
    """The effective sample size of rows with gaps as a share of their number, see the module header.

    From at most 40 columns, drawn at random if there are more, and from orders drawn at random.

    >>> missing = np.zeros((100, 2), bool)
    >>> missing[:30, 0] = missing[20:50, 1] = True  # both are known in 50 rows
    >>> print(f"{information_left(np.eye(2), missing, np.random.default_rng(0)):.2f}")
    0.50
    """
    p = len(covariance)
    if p < 2 or not missing.any():
        return 1.0
    count = min(p, SHARE_COLUMNS)
    columns = rng.permutation(p)[:count]
    orders = [rng.permutation(count) for _ in range(math.ceil(SHARE_EFFECTS / (count * (count - 1) / 2)))]
    inflation = variance_inflation(covariance[np.ix_(columns, columns)], missing[:, columns], orders)
    return 1 / float(np.clip(inflation, 1.0, MOST_INFLATION).mean())


def variance_inflation(covariance: FloatArray, missing: BoolArray, orders: list[IndexArray]) -> FloatArray:
    """Variances of regression coefficients along orders, over those that rows without gaps would give."""
    p = len(covariance)
    white = np.asarray(np.linalg.cholesky(covariance), np.float64)
    upper, lower = np.triu_indices(p)
    weights = np.where(upper == lower, 0.5, 1.0)
    root = np.linalg.cholesky(_information(white, missing))
    found = []
    for order in orders:
        for k in range(1, p):
            left, right, variances = _influences(covariance, order[:k], int(order[k]))
            left, right = left @ white, right @ white
            slopes = weights * (left[:, upper] * right[lower] + left[:, lower] * right[upper])
            squares = solve_triangular(root, slopes.T, lower=True) ** 2
            found.append(squares.sum(axis=0) * len(missing) / variances)
    return np.concatenate(found)


def _influences(
    covariance: FloatArray, causes: IndexArray, target: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """How coefficients of a regression depend on Sigma: ``db_i = u_i' dSigma v``; all u, v, and variances.

    ``v`` takes the residual of the target, ``u_i`` that of cause i given the others, divided by its variance.
    """
    p = len(covariance)
    inverse = np.linalg.inv(covariance[np.ix_(causes, causes)])
    left, right = np.zeros((len(causes), p)), np.zeros(p)
    left[:, causes] = inverse
    right[causes], right[target] = -inverse @ covariance[causes, target], 1.0
    return left, right, np.diag(inverse) * (right @ covariance @ right)


def _information(white: FloatArray, missing: BoolArray) -> FloatArray:
    """The information in all rows about the entries i <= j of ``L' Omega L``, where ``L L' = Sigma``.

    In these coordinates B is the identity for rows without gaps, however close to collinear the columns are.
    With a <= b and c <= d, and 1/2 in place of 1 for the directions a = b and c = d, the information is the sum
    over rows of ``B_ac B_bd + B_ad B_bc``. A millionth of complete rows is added for pairs never seen together.
    """
    p = len(white)
    upper, lower = np.triu_indices(p)
    place = np.zeros((p, p), np.intp)
    place[upper, lower] = place[lower, upper] = np.arange(len(upper))
    own = np.eye(p)[upper, lower]
    whole = np.count_nonzero(~missing.any(axis=1)) + 1e-6 * len(missing)
    products = whole * np.outer(own, own)
    for vectors in _known_parts(white, missing):
        products += vectors.T @ vectors
    across = products[place[np.ix_(upper, upper)], place[np.ix_(lower, lower)]]
    across += products[place[np.ix_(upper, lower)], place[np.ix_(lower, upper)]]
    weights = np.where(upper == lower, 0.5, 1.0)
    result: FloatArray = across * np.outer(weights, weights)
    return result


def _known_parts(white: FloatArray, missing: BoolArray) -> Iterator[FloatArray]:
    """B_r of some patterns with gaps, as vectors of entries i <= j, times the root of their number of rows."""
    p = len(white)
    inverse = solve_triangular(white, np.eye(p), lower=True)
    omega = inverse.T @ inverse
    upper, lower = np.triu_indices(p)
    together = max(1, BLOCK // p**2)
    for block in _blocks(missing[missing.any(axis=1)]):
        for begin in range(0, len(block.gaps), together):
            gaps = block.gaps[begin : begin + together]
            roots = np.linalg.cholesky(omega[gaps[:, :, None], gaps[:, None, :]])
            unknown = np.linalg.solve(roots, inverse.T[gaps])  # patterns x gaps x p
            known = np.eye(p) - unknown.swapaxes(1, 2) @ unknown
            yield known[:, upper, lower] * np.sqrt(block.counts[begin : begin + together, None])
