"""Is a change carried by a few rows?

A row moves the coefficient of a cause by the product of two numbers: what is left of the cause after regression
on the other variables before the effect, and what is left of the effect. For Gaussian rows the product, of two
numbers with variance 1, exceeds x in absolute value with probability less than ``exp(-x)``; and so does half
the square of one of them, by which a row moves a noise variance. Rows beyond what any clean table of that
length would have, at most 1 % of a table, are left out, and the change is estimated again. Residuals are those
of the fit without them, found by repeating; otherwise a few rows hide by bending it.

All regressions are in the basis of own parts (see `view`), where they take the scatter of few rows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import chdtrc

from diffdag._base.arrays import FloatArray, IndexArray
from diffdag._base.words import join_names
from diffdag.model.regression import equal_variances, regress_jointly
from diffdag.results.records import ABSENT_ERRORS, Check
from diffdag.tables.moments import Moments
from diffdag.trust.checks.residual_view import LABELS, LEVEL, Part, View, changed_noise

if TYPE_CHECKING:
    from diffdag.trust.fits import Fit

MOST = 0.01  # share of a table's rows that are left out at most, but one at least
ROUNDS = 4
NORMAL = 0.6745  # median of the absolute value of a standard normal variable
NOTHING = 1e-12  # a share of variance that is rounding error
MOVED = 0.5  # share of a change that may not go with those rows
NOISE_PENALTY = 0.6  # of a changed noise variance, in penalties of a changed effect


class Carried(NamedTuple):
    """A change that does not stand without some rows of each table, and the share of it that goes with them."""

    share: float
    what: str
    rows: list[IndexArray]


def check_outliers(view: View, fit: Fit) -> Check:
    """Whether some change falls, or changes by more than half, without a few outlying rows."""
    result = fit.difference
    place = {name: k for k, name in enumerate(view.names)}
    pairs = {
        str(edge): (min(at), max(at))
        for edge in result.edge_list
        if len(at := [place[name] for name in (edge.source, edge.target) if name in place]) == 2
    }
    noisy = [place[name] for name in changed_noise(result) if name in place]
    count = len(pairs) + len(noisy)
    if not count:
        return Check("outliers", True, "there is no change for rows to carry", None, MOVED)
    least = fit.problem.unit if fit.method == "order" else ABSENT_ERRORS**2 / 2
    causes = {t: sorted(s for s, effect in pairs.values() if effect == t) for _, t in pairs.values()}
    carried = [_lost(view, name, causes[t], s, t, count, least) for name, (s, t) in pairs.items()]
    carried += [
        _lost(view, f"noise of {view.names[t]}", [], None, t, count, NOISE_PENALTY * least) for t in noisy
    ]
    lost = [item for item in carried if item is not None]
    if not lost:
        return Check("outliers", True, "no change is carried by a few outlying rows", None, MOVED)
    worst = max(lost, key=lambda item: item.share)
    says = (
        f"{join_names(item.what for item in lost)} would go or change by more than half without a few "
        f"outlying rows (for {worst.what}: {_rows_named(worst.rows)}); {view.remedy}look at these rows and "
        "leave out those that are errors"
    )
    edges = tuple(item.what for item in lost if item.what in pairs)
    return Check("outliers", False, says, worst.share, MOVED, edges)


def _rows_named(rows: list[IndexArray]) -> str:
    parts = []
    for label, out in zip(LABELS, rows, strict=True):
        if len(out):
            shown = ", ".join(str(k + 1) for k in out[:3])
            more = f" and {len(out) - 3} more" if len(out) > 3 else ""
            parts.append(f"{'row' if len(out) == 1 else 'rows'} {shown}{more} of the {label} table")
    return "; ".join(parts)


def _lost(
    view: View, name: str, causes: list[int], s: int | None, t: int, count: int, penalty: float
) -> Carried | None:
    """Whether the change of the effect of s on t, or of the noise variance of t, stands without some rows."""
    rows = [outlying(part, s, t, count) for part in view.parts]
    if not any(len(out) for out in rows):
        return None
    none: list[IndexArray] = [np.zeros(0, np.intp)] * 2
    if s is None:
        with_them, _ = _variance_change(view, t, none)
        without, chance = _variance_change(view, t, rows)
        falls = chance > float(chdtrc(1, 2 * penalty))
    else:
        with_them, _ = _change(view, s, t, causes, none)
        without, error = _change(view, s, t, causes, rows)
        free = sum(part.worth for part in view.parts) - 3 - t
        score = (without / error) ** 2 if error > 0 else math.inf
        falls = free / 2 * math.log1p(score / free) < penalty
    lost = abs(1 - without / with_them) if with_them else 0.0
    if not (falls or lost > MOVED):
        return None
    return Carried(lost, name, [part.places[out] for part, out in zip(view.parts, rows, strict=True)])


def outlying(part: Part, s: int | None, t: int, count: int) -> IndexArray:
    """Rows whose influence on the coefficient of s in the regression of t is beyond that of clean rows.

    On its noise variance if s is None. `count` changes are looked at in all.
    """
    limit = math.log(part.n * count / LEVEL)
    most = max(1, int(MOST * part.n))
    weight = None
    if s is not None:
        weight = solve_triangular(part.root[:t, :t], np.eye(t)[s], lower=True, trans=1)
    out: IndexArray = np.zeros(0, np.intp)
    for step in range(ROUNDS):
        before = out
        size = _influence(part, weight, t, out)
        if step == 0:
            out = np.sort(np.argpartition(-size, most - 1)[:most])  # a start that masks nothing
            continue
        out = np.flatnonzero(size > limit)
        if len(out) > most:
            out = np.sort(out[np.argsort(-size[out], kind="stable")[:most]])
        if np.array_equal(before, out):
            break
    return out


def _influence(part: Part, weight: FloatArray | None, t: int, out: IndexArray) -> FloatArray:
    """Influence of every row in units in which clean ones fall off as ``exp(-x)``, by the fit without some."""
    own = part.own[: t + 1]
    mean, scatter = _without(own, out)
    effect = own[t] - mean[t]
    if t:
        beta = np.linalg.solve(scatter[:t, :t], scatter[:t, t])
        effect -= beta @ own[:t] - beta @ mean[:t]
    effect /= _spread(effect)
    if weight is None:
        return np.asarray(effect * effect / 2)
    along = np.linalg.solve(scatter[:t, :t], weight)
    cause = along @ own[:t] - along @ mean[:t]
    return np.asarray(np.abs(effect * cause) / _spread(cause))


def _spread(values: FloatArray) -> float:
    """Robust standard deviation around 0."""
    return max(float(np.median(np.abs(values))) / NORMAL, 1e-12)


def _without(own: FloatArray, out: IndexArray) -> tuple[FloatArray, FloatArray]:
    """Mean and scatter of own parts when some rows are left out; those of all rows are 0 and n I."""
    n = own.shape[1]
    gone = own[:, out]
    left = n - len(out)
    mean = -gone.sum(axis=1) / left
    scatter = n * np.eye(len(own)) - gone @ gone.T - left * np.outer(mean, mean)
    return mean, scatter


def _change(view: View, s: int, t: int, causes: list[int], rows: list[IndexArray]) -> tuple[float, float]:
    """Change of the coefficient of s in the regression of t when some rows are left out, and its error."""
    moments = []
    for part, out in zip(view.parts, rows, strict=True):
        _, scatter = _without(part.own[: t + 1], out)
        root = part.root[: t + 1, : t + 1] * part.scale[: t + 1, None]
        n = max(t + 4, round(part.worth * (1 - len(out) / part.n)))
        values = root @ scatter @ root.T * (n / (part.n - len(out)))
        moments.append(Moments(view.names[: t + 1], n, np.zeros(t + 1), (values + values.T) / 2))
    joint = regress_jointly(moments[0], moments[1], t, range(t), causes, separate=True)
    return float(joint.first[s] - joint.second[s]), float(joint.error_delta[causes.index(s)])


def _variance_change(view: View, t: int, rows: list[IndexArray]) -> tuple[float, float]:
    """Logarithm of the ratio of two noise variances when some rows are left out, and its p-value."""
    variances, freedoms = [], []
    for part, out in zip(view.parts, rows, strict=True):
        _, scatter = _without(part.own[: t + 1], out)
        beta = np.linalg.solve(scatter[:t, :t], scatter[:t, t])
        left = float(scatter[t, t] - beta @ scatter[:t, t]) / (part.n - len(out))
        unit = float(part.root[t, t] * part.scale[t]) ** 2
        worth = part.worth * (1 - len(out) / part.n)
        freedoms.append(max(worth - 1 - t, 1.0))
        variances.append(left * unit * worth / freedoms[-1])
    if min(variances) <= NOTHING * max(variances):  # without these rows the variable is constant
        return 0.0, 1.0
    ratio = variances[0] / variances[1]
    return math.log(ratio), float(equal_variances(ratio, *freedoms))
