"""A dense linear programme of hundreds to thousands of entries, by a primal-dual interior-point method.

    minimise |x|_1   subject to   |G x - b| <= lambda                                                   (P)
    maximise <b, y> - lambda |y|_1   subject to   |G'y| <= 1                                            (D)

Where a change is weak the optimum has as many entries as the sampling noise makes, and the simplex method
needs steps for each of them, on a matrix without zeros. An interior-point method needs some fifteen whatever
the size, each a dense product and a Cholesky factor. With ``x = u - v``, ``y = a - c`` and positive slacks

    z = 1 - G'y,   w = 1 + G'y,   s = lambda + (Gx - b),   t = lambda - (Gx - b)

it follows ``uz = vw = as = ct = mu`` to ``mu = 0`` by the predictor and corrector of Mehrotra (1992). All but
one block of a Newton step is eliminated, which leaves

    (G Theta G' + 1/Phi) dy = rhs,   Theta = u/z + v/w,   Phi = a/s + c/t.

It begins near an ``x`` and a ``y`` that need only nearly meet their constraints. At the end the entries that
are not zero, and the constraints that hold with equality, are told apart from the rest; where they are equally
many, they determine a vertex, and two linear systems give it exactly.

References: Mehrotra (1992), SIAM J. Optim. 2, 575-601; Wright (1997), Primal-Dual Interior-Point Methods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.linalg.lapack import dgetrf, dgetrs

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag._base.parallel import spread_products
from diffdag.precision.problem import BAND, multiply

MAX_STEPS = 60
LEAST_SLACK = 0.02  # of a constraint that the first x breaks, as a share of the penalty
SHORT = 0.995  # share of the way to the boundary
CLOSE = 1e-8  # relative gap at which active entries can be told from others
DOUBTFUL = 0.03  # see `_active`
WARM = 0.1  # share of the usual size of an entry that is added to all, where there is a y to begin with
SINGLE = 1e-3  # above this relative gap factors in single precision will do
REFINEMENTS = 2
LIFT = 10.0  # rounding errors by which a diagonal is lifted before it is factorised
STALLED = 1e-4  # steps shorter than this lead nowhere
PANEL = 384  # columns of a Cholesky factor worked out together


@dataclass(frozen=True, eq=False)
class Programme:
    """(P): a dense matrix, its right-hand side and the bound on the residual."""

    matrix: FloatArray
    target: FloatArray
    penalty: float

    @cached_property
    def single(self) -> NDArray[np.float32]:
        """The matrix in single precision."""
        return self.matrix.astype(np.float32)


@dataclass(frozen=True, eq=False)
class Answer:
    """Primal and dual values, and which constraints of (P) may be tight at the optimum."""

    primal: FloatArray
    dual: FloatArray
    tight: BoolArray


@dataclass(frozen=True, eq=False)
class _Point:
    """Positive and negative parts of x and y, and the four slacks; or a step of all of them."""

    u: FloatArray
    v: FloatArray
    s: FloatArray
    t: FloatArray
    a: FloatArray
    c: FloatArray
    z: FloatArray
    w: FloatArray

    @property
    def pairs(self) -> tuple[tuple[FloatArray, FloatArray], ...]:
        """What is complementary."""
        return (self.u, self.z), (self.v, self.w), (self.a, self.s), (self.c, self.t)

    @property
    def gap(self) -> float:
        """Sum of the products, which is the duality gap once both problems are feasible."""
        return sum(float(one @ two) for one, two in self.pairs)

    def moved(self, step: _Point, primal: float, dual: float) -> _Point:
        """Go along a step, its primal and its dual part by lengths of their own."""
        lengths = [primal] * 4 + [dual] * 4
        return _Point(
            *(
                getattr(self, part.name) + length * getattr(step, part.name)
                for part, length in zip(fields(self), lengths, strict=True)
            )
        )

    def lengths(self, step: _Point) -> tuple[float, float]:
        """How far the primal and the dual part of a step stay positive, at most 1."""
        room = [_room(getattr(self, part.name), getattr(step, part.name)) for part in fields(self)]
        return min(room[:4]), min(room[4:])


def solve_loosely(programme: Programme, x: FloatArray, y: FloatArray, tolerance: float) -> Answer:
    """Solve to a relative gap of `tolerance`, from an x within the constraints or nearly so."""
    point = _follow(programme, x, y, tolerance)
    _, tight = _active(programme, point, DOUBTFUL)
    return Answer(point.u - point.v, point.a - point.c, tight)


def solve_exactly(programme: Programme, x: FloatArray, y: FloatArray) -> Answer:
    """Solve until a vertex is known, and give that; where there is none, entries below rounding are zero."""
    point = _follow(programme, x, y, CLOSE)
    entries, tight = _active(programme, point, 1.0)
    primal, dual = np.where(entries, point.u - point.v, 0.0), np.where(tight, point.a - point.c, 0.0)
    vertex = _vertex(programme, primal, dual)
    primal, dual = vertex or (primal, dual)
    return Answer(primal, dual, tight)


def _follow(programme: Programme, x: FloatArray, y: FloatArray, tolerance: float) -> _Point:
    """Follow the path until the relative gap is at most `tolerance`, or rounding errors stop it.

    What is known of y saves steps, but may be too close to the boundary: then it begins again without it.
    """
    point = _first(programme, x, y)
    for _ in range(MAX_STEPS):
        if point.gap <= tolerance * float(point.u.sum() + point.v.sum()):
            return point
        further = _step(programme, point)
        if further is None:
            break
        point = further
    return _follow(programme, x, np.zeros(len(y)), tolerance) if y.any() else point


def _active(programme: Programme, point: _Point, share: float) -> tuple[BoolArray, BoolArray]:
    """Entries and constraints that are active: of two factors whose product goes to zero, which one does not.

    In units of the usual size of an active one; less than 1 for `share` keeps doubtful ones too.
    """
    x, y = float(np.abs(point.u - point.v).mean()), float(np.abs(point.a - point.c).mean())
    entries = np.maximum(point.u / point.z, point.v / point.w) > share * x
    tight = np.maximum(point.a / point.s, point.c / point.t) > share * y / programme.penalty
    return entries, tight


def _first(programme: Programme, x: FloatArray, y: FloatArray) -> _Point:
    """A point near x and y with products of about the same size, the smaller the better x and y are known."""
    matrix, penalty = programme.matrix, programme.penalty
    size = (WARM if y.any() else 1.0) * float(np.abs(x[x != 0]).mean())
    residual, prices = matrix @ x - programme.target, matrix.T @ y
    u, v = (np.maximum(part, 0) + size for part in (x, -x))
    a, c = (np.maximum(part, 0) + size / penalty for part in (y, -y))
    s, t = (np.maximum(penalty + part, LEAST_SLACK * penalty) for part in (residual, -residual))
    z, w = (np.maximum(1 - part, LEAST_SLACK) for part in (prices, -prices))
    return _Point(u, v, s, t, a, c, z, w)


def _step(programme: Programme, point: _Point) -> _Point | None:
    """One step of Mehrotra's method; None where rounding errors allow none."""
    try:
        direction = _newton(programme, point)
    except LinAlgError:
        return None
    products = [one * two for one, two in point.pairs]
    mu = point.gap / sum(len(part) for part in products)
    predicted = direction([-part for part in products])
    central = mu * min(1.0, (point.moved(predicted, *point.lengths(predicted)).gap / point.gap) ** 3)
    second = [one * two for one, two in predicted.pairs]
    step = direction([central - part - more for part, more in zip(products, second, strict=True)])
    primal, dual = (SHORT * length for length in point.lengths(step))
    if max(primal, dual) < STALLED or not np.isfinite(step.gap):
        return None
    return point.moved(step, primal, dual)


def _newton(programme: Programme, point: _Point) -> Callable[[list[FloatArray]], _Point]:
    """The Newton steps from a point, for given changes of the four products."""
    matrix, penalty = programme.matrix, programme.penalty
    u, v, s, t, a, c, z, w = (getattr(point, part.name) for part in fields(point))
    prices, residual = matrix.T @ (a - c), matrix @ (u - v) - programme.target
    # What rounding errors left of the equations of the slacks.
    off_z, off_w = 1 - prices - z, 1 + prices - w
    off_s, off_t = penalty + residual - s, penalty - residual - t
    theta, phi = u / z + v / w, a / s + c / t
    lower = a / s < c / t
    single = point.gap > SINGLE * float(u.sum() + v.sum())
    solve = _refined_solver(programme, theta, phi, single=single)

    def direction(changes: list[FloatArray]) -> _Point:
        at_u, at_v = changes[0] - u * off_z, changes[1] - v * off_w
        at_a, at_c = changes[2] - a * off_s, changes[3] - c * off_t
        right = (at_a / s - at_c / t) / phi - matrix @ (at_u / z - at_v / w)
        dual = solve(right)
        price = matrix.T @ dual
        du, dv = (at_u + u * price) / z, (at_v - v * price) / w
        change = matrix @ (du - dv)
        da, dc = (at_a - a * change) / s, (at_c + c * change) / t
        # Of the two the one with the larger factor has lost digits; their difference is known.
        da, dc = np.where(lower, da, dc + dual), np.where(lower, da - dual, dc)
        return _Point(du, dv, off_s + change, off_t - change, da, dc, off_z - price, off_w + price)

    return direction


def _refined_solver(
    programme: Programme, theta: FloatArray, phi: FloatArray, *, single: bool
) -> Callable[[FloatArray], FloatArray]:
    """Solve with ``G Theta G' + 1/Phi`` by a factor, in single precision in half the time, and refinement."""
    matrix = programme.matrix
    try:
        rough = _solver(programme.single if single else matrix, theta, phi)
    except LinAlgError:
        if not single:
            raise
        return _refined_solver(programme, theta, phi, single=False)

    def refined(right: FloatArray) -> FloatArray:
        solution = rough(right)
        for _ in range(REFINEMENTS):
            solution = solution + rough(right - matrix @ (theta * (matrix.T @ solution)) - solution / phi)
        return solution

    return refined


def _solver(matrix: NDArray[Any], theta: FloatArray, phi: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Solve by a factor in the precision of the matrix."""
    dtype = matrix.dtype
    diagonal = (1 / phi).astype(dtype)
    gram = weighted_gram(matrix, theta.astype(dtype), diagonal)
    gram[np.diag_indices_from(gram)] *= 1 + LIFT * np.finfo(dtype).eps
    factor = factorise(gram)
    return lambda right: solve_factorised(factor, right.astype(dtype)).astype(float)


def _vertex(programme: Programme, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """The vertex with the support and signs of x and y, if they determine one."""
    entries, tight = x != 0, y != 0
    if entries.sum() != tight.sum() or not entries.any():
        return None
    factor, pivots, singular = dgetrf(programme.matrix[np.ix_(tight, entries)])
    if singular:
        return None
    primal, dual = np.zeros(len(x)), np.zeros(len(y))
    right = programme.target[tight] - programme.penalty * np.sign(y[tight])
    primal[entries] = dgetrs(factor, pivots, right)[0]
    dual[tight] = dgetrs(factor, pivots, np.sign(x[entries]), trans=1)[0]
    return (primal, dual) if (primal * x >= 0).all() and (dual * y >= 0).all() else None


def _room(value: FloatArray, change: FloatArray) -> float:
    """The largest step, at most 1, that leaves every value positive."""
    falling = change < 0
    return min(1.0, float((value[falling] / -change[falling]).min(initial=np.inf)))


def weighted_gram(matrix: NDArray[Any], weights: NDArray[Any], diagonal: NDArray[Any]) -> NDArray[Any]:
    """The lower triangle of ``G diag(weights) G' + diag(diagonal)``."""
    gram = np.zeros((len(matrix), len(matrix)), matrix.dtype)

    def band(start: int) -> None:
        end = start + BAND
        np.matmul(matrix[start:end] * weights, matrix[:end].T, out=gram[start:end, :end])

    # The longest first, so that threads end together.
    spread_products(band, range(0, len(matrix), BAND)[::-1])
    gram[np.diag_indices_from(gram)] += diagonal
    return gram


def factorise(gram: NDArray[Any]) -> NDArray[Any]:
    """The Cholesky factor in the lower triangle, in place: the same on any number of threads."""
    size = len(gram)
    for start in range(0, size, PANEL):
        end = min(start + PANEL, size)
        gram[start:, start:end] -= multiply(gram[start:, :start], gram[start:end, :start].T)
        corner = cholesky(gram[start:end, start:end], lower=True, check_finite=False)
        gram[start:end, start:end] = corner
        if end < size:
            below = solve_triangular(corner, gram[end:, start:end].T, lower=True, check_finite=False)
            gram[end:, start:end] = below.T
    return gram


def solve_factorised(factor: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Solve ``L L' x = right``."""
    half = solve_triangular(factor, right, lower=True, check_finite=False)
    solution: NDArray[Any] = solve_triangular(factor, half, lower=True, trans=1, check_finite=False)
    return solution
