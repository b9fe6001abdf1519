"""Rows of time series as rows that are new each time: differences, or what an autoregression does not foresee.

Where noise has a memory, ``e_t = phi_1 e_{t-1} + ... + phi_q e_{t-q} + u_t``, the filter
``phi(L) = 1 - phi_1 L - ... - phi_q L^q`` takes it out (Cochrane and Orcutt 1949). If it is the same for all
variables it commutes with the model: from ``X = B X + a + e`` follows

    phi(L) X = B phi(L) X + phi(1) a + u,

with the same effects, noise that is white, and intercepts times ``phi(1)``, the filter's gain. Filters of each
variable's own do not commute with effects between variables whose memories differ. But with a diagonal matrix
``F`` of coefficients of the noise, ``e_t = F e_{t-1} + u_t``, follows

    X_t = A X_{t-1} + w_t,     A = (I - B)^-1 F (I - B),     w = B w + (I - F) a + u:

what a vector autoregression does not foresee has the same effects again (Swanson and Granger 1997), and the
diagonal of A is that of F. So where one filter leaves variables with a memory, each has its own lags and those
values of others in the row before that help; where one does for most variables, only the rest have such.

The autoregression is fitted to the first table alone, so that what changed has no part in it, as

    x_t - x_{t-1} = c - g x_{t-1} + sum_k d_k (x_{t-k} - x_{t-k-1}) + u_t,     g = phi(1)

(Dickey and Fuller 1979). Least squares overrate g, for one series by ``(1 + 3 phi) / n`` (Kendall 1954), for
many with a common g by ``(1 + phi) / n`` (Nickell 1981). A memory that is not quite taken out makes means seem
surer than they are: g is taken half a standard error below its estimate, and errors of differences of means
account for those of the filter, by the leverage that the distance between the two means has in its regression,
and for what is left of a memory in residuals (`diffdag.model.memory`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from diffdag._base.arrays import BoolArray, FloatArray, IndexArray
from diffdag._base.errors import InputError
from diffdag._base.words import Option, join_names, named, plural

Whitening: TypeAlias = Literal["ar", "differences"]
Kind: TypeAlias = Literal["differences", "common", "own"]

WHITENINGS = ("ar", "differences")
LONGEST = 3  # lags of an autoregression
FEWEST = 20  # rows of the first table that it can be fitted to
ALIKE = 0.01  # level of the tests that one autoregression does for a variable, and for all of them
MOST = 0.7  # share of the variables that it has to do for
ROUNDS = 5
OUTLIERS = 0.7  # share of the standard deviation below which clipped values are steps, and no outliers
MOST_OTHERS = 20  # variables in the row before that take part in the autoregression of another
RANK = 1e-9  # share of a column's sum of squares that is as good as nothing
CAUTION = 0.5  # standard errors that the gain is taken below its estimate


@dataclass(frozen=True, eq=False)
class Filter:
    """A filter for each variable: what is taken off a value are so many times the values before it."""

    kind: Kind
    names: tuple[str, ...]
    coefficients: FloatArray  # [lag, variable]
    apart: tuple[str, ...] = ()  # variables that have one of their own beside a common one
    others: FloatArray | None = None  # coefficients of other variables in the row before, [other, variable]
    # What errors of the coefficients add to the variance of a difference of means, over that of a row.
    leverage: FloatArray | None = None

    @property
    def order(self) -> int:
        """How many rows before a row take part."""
        return len(self.coefficients)

    @property
    def gains(self) -> dict[str, float]:
        """What levels are multiplied by, for each variable; zero for differences."""
        gains = 1.0 - self.coefficients.sum(axis=0)
        return dict(zip(self.names, gains.tolist(), strict=True))

    @property
    def sees_levels(self) -> bool:
        """Whether a moved level shows in the rows."""
        return self.kind != "differences"

    def widths(self, names: Sequence[str], rows: tuple[int, int]) -> FloatArray:
        """What errors of the filter multiply those of differences of means by, for some variables."""
        if self.leverage is None:
            return np.ones(len(names))
        place = {name: k for k, name in enumerate(self.names)}
        own = self.leverage[[place[name] for name in names]]
        widths: FloatArray = np.sqrt(1 + own / (1 / rows[0] + 1 / rows[1]))
        return widths

    def following(self, places: IndexArray | None, rows: int) -> IndexArray:
        """The rows of a table with enough rows right before them; `places` are where rows stood."""
        if places is None:
            return np.arange(self.order, rows)
        reach = places[self.order :] - places[: len(places) - self.order]
        return np.asarray(np.flatnonzero(reach == self.order) + self.order)

    def apply(self, table: FloatArray, rows: IndexArray) -> FloatArray:
        """Filter some rows of a table with a column for each variable.

        >>> ramp = np.array([[1.0], [2.0], [4.0], [8.0]])
        >>> Filter("differences", ("x",), np.ones((1, 1))).apply(ramp, np.arange(1, 4)).ravel()
        array([1., 2., 4.])
        """
        new: FloatArray = table[rows].astype(np.float64)
        for lag, own in enumerate(self.coefficients, start=1):
            new -= own * table[rows - lag]
        if self.others is not None:
            new -= table[rows - 1] @ self.others
        return new

    def apply_common(self, table: FloatArray, rows: IndexArray) -> FloatArray:
        """Filter some rows of any columns, by a filter that is the same for all."""
        width = table.shape[1]
        alike = Filter(self.kind, ("",) * width, np.repeat(self.coefficients[:, :1], width, axis=1))
        return alike.apply(table, rows)

    @property
    def note(self) -> str:
        """Say what was done, and what that means for what is reported."""
        if self.kind == "differences":
            return (
                "rows are compared as differences from the row before: effects are the same, noise is that of "
                "the differences, and levels are gone, so that moved intercepts are not looked for"
            )
        if not self.order:
            return (
                "rows were to be whitened, and those of the first table have no memory: they are as they were"
            )
        lags = plural(self.order, "row")
        if self.kind == "common":
            sums = next(1 - gain for name, gain in self.gains.items() if name not in self.apart)
            but = (
                f", and by one of their own for {join_names(self.apart)}, whose memory differs"
                if self.apart
                else ""
            )
            how = f"one autoregression on up to {lags} before (coefficients add up to {sums:.2g}){but}"
        else:
            gains = list(self.gains.values())
            how = (
                f"an autoregression of each variable on up to {lags} before (own coefficients add up to "
                f"{1 - max(gains):.2g} to {1 - min(gains):.2g}), with others that help"
            )
        rough = "" if self.kind == "common" else "; memories differ, and effects are approximate"
        return (
            f"rows are whitened by {how}, fitted to the first table and taken out of both: noise is what is "
            f"new in each row, and intercepts are told as levels{rough}"
        )


def check_whiten(whiten: object) -> None:
    """Refuse a value of ``whiten=`` that is not known."""
    if whiten is not None and (not isinstance(whiten, str) or whiten not in WHITENINGS):
        known = " is not known; use 'ar' or 'differences', or leave "
        raise InputError(Option("whiten", whiten), known, named("whiten"), " out")


def make_filter(
    how: Whitening, first: FloatArray, second: FloatArray, names: tuple[str, ...], *, alike: bool = False
) -> Filter:
    """The filter that whitens tables like the first; `alike` if it has to be the same for all variables.

    Of the second table nothing counts but how far its means are from the first: errors of coefficients times
    that distance are errors of differences between the means of filtered rows.
    """
    if how == "differences":
        return Filter("differences", names, np.ones((1, len(names))))
    if len(first) < FEWEST:
        raise InputError(
            f"an autoregression needs at least {FEWEST} rows of the first table, which has {len(first)}; use ",
            Option("whiten", "differences"),
            ", or leave ",
            named("whiten"),
            " out",
        )
    from scipy.special import chdtrc  # noqa: PLC0415 - bad input is answered before SciPy is loaded

    from diffdag.tables.robust import table_scores  # noqa: PLC0415

    clipped, _ = table_scores(first, first, "winsorised")
    clipped = np.where(clipped.std(axis=0) < OUTLIERS * first.std(axis=0), first, clipped)
    scale = clipped.std(axis=0)
    clipped, away = clipped / scale, (second.mean(axis=0) - first.mean(axis=0)) / scale
    lags = _Lags.of(clipped, min(LONGEST, len(first) // 10))
    own = [lags.fit(order) for order in range(lags.longest + 1)]
    scales = own[1].rss / lags.rows
    among = np.ones(len(names), bool)
    pooled = lags.best_common(scales, among)
    if not alike:
        for _ in range(ROUNDS):
            order = max(pooled.order, 1)
            ratios = lags.rows * np.log(pooled.rss / np.minimum(own[order].rss, pooled.rss))
            among, before = chdtrc(order, ratios) > ALIKE, among
            if among.mean() < MOST or np.array_equal(among, before):
                break
            pooled = lags.best_common(scales, among)
        freedom = max((int(among.sum()) - 1) * order, 1)
        if among.mean() < MOST or float(chdtrc(freedom, float(ratios[among].sum()))) <= ALIKE:
            among = np.zeros(len(names), bool)
    every = np.zeros((lags.longest, len(names)))
    every[: pooled.order, among] = pooled.coefficients(lags.rows)
    taken = np.zeros((len(names), len(names)))
    chosen = np.argmin([lags.criterion(fit) for fit in own], axis=0)
    leverage = (away * pooled.error[0]) ** 2 / scales
    for j in np.flatnonzero(~among).tolist():
        order = max(int(chosen[j]), 1)
        every[:, j], taken[:, j], leverage[j] = _with_others(clipped, j, order, lags.longest, away)
    others = taken * scale / scale[:, None] if taken.any() else None
    order = int(np.flatnonzero(every.any(axis=1)).max(initial=-1)) + 1
    apart = tuple(name for name, shared in zip(names, among, strict=True) if not shared) if among.any() else ()
    kind: Kind = "common" if among.any() else "own"
    return Filter(kind, names, every[:order], apart, others, leverage)


def _with_others(
    table: FloatArray, j: int, order: int, longest: int, away: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """Coefficients of a variable's own lags, and of the values of others in the row before, where these help.

    Others are added one by one, the one that explains most first, as long as each gains more than
    ``log n + log p`` (Chen and Chen 2008, with gamma 1/2). Last comes the leverage of a point so far `away`.
    """
    n, p = len(table), table.shape[1]
    steps, level = np.diff(table[:, j]), table[:, j]
    own = [-level[longest - 1 : n - 1], *(steps[longest - 1 - k : n - 1 - k] for k in range(1, order))]
    y, x = steps[longest - 1 :], np.column_stack(own)
    y, x, z = y - y.mean(), x - x.mean(axis=0), table[longest - 1 : n - 1]
    z = z - z.mean(axis=0)
    rows = len(y)
    basis = np.linalg.qr(x)[0]
    left, rest = y - basis @ (basis.T @ y), z - basis @ (basis.T @ z)
    sizes = np.einsum("tp,tp->p", z, z)
    added: list[int] = []
    while len(added) < min(p - 1, MOST_OTHERS, rows // 10):
        norms = np.einsum("tp,tp->p", rest, rest)
        gains = np.where(norms > RANK * sizes, (left @ rest) ** 2 / np.maximum(norms, RANK * sizes), 0.0)
        best, rss = int(np.argmax(gains)), float(left @ left)
        share = min(gains[best] / max(rss, np.finfo(float).tiny), 0.999)
        if -rows * np.log1p(-share) <= np.log(rows) + np.log(p):
            break
        added.append(best)
        way = rest[:, best] / np.sqrt(norms[best])
        left, rest = left - way * (way @ left), rest - np.outer(way, way @ rest)
    design = np.column_stack([x, z[:, added]])
    inverse = np.linalg.pinv(design.T @ design, hermitian=True)
    theta = inverse @ (design.T @ y)
    error = np.sqrt(left @ left / (rows - len(theta) - 1) * inverse[0, 0])
    fit = _Autoregression(order, np.zeros(1), theta[:order, None], np.array([error]), pooled=False)
    coefficients, others = np.zeros(longest), np.zeros(p)
    coefficients[:order], others[added] = fit.coefficients(rows)[:, 0], theta[order:]
    distance = np.concatenate([[-away[j]], np.zeros(order - 1), away[added]])
    return coefficients, others, float(distance @ inverse @ distance)


@dataclass(frozen=True, eq=False)
class _Lags:
    """Steps of several series, and what they are regressed on, as sums of products."""

    rows: int
    longest: int
    level: FloatArray  # sum of squares of each series around its mean
    steps: FloatArray  # sum of squares of its steps
    products: FloatArray  # [variable, regressor, regressor]: minus the level before, and the steps before
    effects: FloatArray  # [variable, regressor]: products of these with the step

    @classmethod
    def of(cls, table: FloatArray, longest: int) -> _Lags:
        steps, n = np.diff(table, axis=0), len(table)
        before = [-table[longest - 1 : n - 1]]
        before += [steps[longest - 1 - k : n - 1 - k] for k in range(1, longest)]
        x = np.stack(before, axis=2)
        x, y, level = x - x.mean(axis=0), steps[longest - 1 :], table[longest:]
        y, level = y - y.mean(axis=0), level - level.mean(axis=0)
        products, effects = np.einsum("tpi,tpj->pij", x, x), np.einsum("tpi,tp->pi", x, y)
        squares = [np.einsum("tp,tp->p", own, own) for own in (level, y)]
        return cls(n - longest, longest, squares[0], squares[1], products, effects)

    def fit(self, order: int, weights: FloatArray | None = None) -> _Autoregression:
        """Least squares, for each series, or with the same coefficients for all and so much weight of each."""
        pooled = weights is not None
        if not order:
            return _Autoregression(0, self.level, np.empty((0, 1)), np.zeros(1), pooled)
        g, h = self.products[:, :order, :order], self.effects[:, :order]
        total, sums = g, h
        if weights is not None:
            total, sums = np.tensordot(weights, g, 1)[None], (weights @ h)[None]
        inverse = np.linalg.pinv(total, hermitian=True)
        theta = np.einsum("pij,pj->pi", inverse, sums)
        every = np.broadcast_to(theta, h.shape)
        quadratic = np.einsum("pi,pij,pj->p", every, g, every)
        rss = self.steps - 2 * np.einsum("pi,pi->p", every, h) + quadratic
        rss = np.maximum(rss, np.finfo(float).eps * self.level)
        noise = np.ones(1) if pooled else rss / (self.rows - order - 1)
        return _Autoregression(order, rss, theta.T, np.sqrt(noise * inverse[:, 0, 0]), pooled)

    def best_common(self, scales: FloatArray, among: BoolArray) -> _Autoregression:
        """Common coefficients of some series, of the best order; the residuals are those of all."""
        weights = np.where(among, 1 / scales, 0.0)
        fits = [self.fit(order, weights) for order in range(self.longest + 1)]
        return min(fits, key=lambda fit: float(self.criterion(fit)[among].sum()))

    def criterion(self, fit: _Autoregression) -> FloatArray:
        """Schwarz's criterion (1978), for each series; for common coefficients the sum counts."""
        many = len(fit.rss) if fit.pooled else 1
        penalty = fit.order * np.log(self.rows * many) / many
        criterion: FloatArray = self.rows * np.log(fit.rss / self.rows) + penalty
        return criterion


@dataclass(frozen=True, eq=False)
class _Autoregression:
    """Steps regressed on the level before and on earlier steps, for each series or for all."""

    order: int
    rss: FloatArray  # of each series
    theta: FloatArray  # [regressor, series, or one for all]: the gain, and coefficients of steps
    error: FloatArray  # of the gain
    pooled: bool

    def coefficients(self, rows: int) -> FloatArray:
        """Coefficients of the values before, [lag, series], with a gain that is rather too small."""
        if not self.order:
            return self.theta
        phi = 1 - self.theta[0]
        bias = (1 + phi if self.pooled else 1 + 3 * phi) / rows
        gain = np.maximum(self.theta[0] - np.maximum(bias, 0) - CAUTION * self.error, 1 / rows)
        # x_t = x_{t-1} - g x_{t-1} + sum_k d_k (x_{t-k} - x_{t-k-1})
        steps = np.vstack([self.theta[1:], np.zeros_like(gain)[None]])
        lags: FloatArray = np.vstack([1 - gain + steps[0], np.diff(steps, axis=0)])
        return lags
