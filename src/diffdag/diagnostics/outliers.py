"""Is an edge carried by a few rows?

A row moves the coefficient of a cause by the product of two numbers: what is left of the cause after regression
on the other variables before the effect, and what is left of the effect. For Gaussian rows the product of the two,
each with variance 1, exceeds x in absolute value with probability less than ``exp(-x)``. Rows whose product no
clean table of that length would have, at most 1 % of a table, are left out, and the change is estimated again.
Residuals are those of the fit without them, found by repeating; otherwise a few rows hide by bending it.

All regressions are in the basis of own parts (see `view`), where they take the scatter of few rows.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from diffdag.changes import ABSENT_ERRORS
from diffdag.diagnostics.view import LABELS, LEVEL, Part, View
from diffdag.evidence import Check
from diffdag.moments import Moments
from diffdag.result import DifferenceResult
from diffdag.validation import join_names, plural
from diffdag.weights import regress_jointly

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
MOST = 0.01  # share of a table's rows that are left out at most, but one at least
ROUNDS = 4
NORMAL = 0.6745  # median of the absolute value of a standard normal variable
MOVED = 0.5  # share of a change that may not go with those rows


def check_outliers(view: View, result: DifferenceResult) -> Check:
    """Whether some edge falls, or changes by more than half, without a few outlying rows."""
    place = {name: k for k, name in enumerate(view.names)}
    edges = [edge for edge in result.edge_list if edge.source in place and edge.target in place]
    causes: dict[int, list[int]] = {}
    for edge in edges:
        s, t = sorted((place[edge.source], place[edge.target]))
        causes.setdefault(t, []).append(s)
    price = result.settings.get("penalty") if result.method == "order" else None
    carried: list[tuple[float, str, str]] = []
    for edge in edges:
        s, t = sorted((place[edge.source], place[edge.target]))
        lost = _lost(view, s, t, causes[t], len(edges), price if isinstance(price, float) else None)
        if lost is not None:
            carried.append((lost[0], f"{edge}", _rows_named(lost[1])))
    if not carried:
        says = (
            "no edge is carried by a few outlying rows" if edges else "there is no edge that rows could carry"
        )
        return Check("outliers", True, says, None, MOVED)
    share, _, rows = max(carried)
    says = (
        f"{plural(len(carried), 'edge')} ({join_names(item[1] for item in carried)}) would go or change by more "
        f"than half without a few outlying rows (of {max(carried)[1]}: {rows}); look at these rows, or use "
        "covariance='winsorised'"
    )
    return Check("outliers", False, says, share, MOVED)


def _rows_named(rows: list[IntArray]) -> str:
    parts = []
    for label, out in zip(LABELS, rows, strict=True):
        if len(out):
            shown = ", ".join(str(k + 1) for k in out[:3])
            more = f" and {len(out) - 3} more" if len(out) > 3 else ""
            parts.append(f"{shown}{more} of the {label} table")
    return "; ".join(parts)


def _lost(
    view: View, s: int, t: int, causes: list[int], edges: int, price: float | None
) -> tuple[float, list[IntArray]] | None:
    """Share of a change that goes with outlying rows, and the rows, if the edge does not stand without them."""
    rows = [outlying(part, s, t, edges) for part in view.parts]
    if not any(len(out) for out in rows):
        return None
    none: IntArray = np.zeros(0, np.intp)
    with_them, _ = _change(view, s, t, causes, [none, none])
    without, error = _change(view, s, t, causes, rows)
    lost = 1 - without / with_them if with_them else 0.0
    free = sum(part.worth for part in view.parts) - 3 - t
    score = (without / error) ** 2 if error > 0 else math.inf
    if price is None:
        falls = score < ABSENT_ERRORS**2
    else:
        falls = free / 2 * math.log1p(score / free) < price
    if falls or abs(lost) > MOVED:
        return abs(lost), rows
    return None


def outlying(part: Part, s: int, t: int, edges: int) -> IntArray:
    """Rows whose influence on the coefficient of s in the regression of t is beyond that of clean rows."""
    n = part.n
    limit = math.log(n * edges / LEVEL)
    most = max(1, int(MOST * n))
    weight = np.zeros(t + 1)
    weight[:t] = solve_triangular(part.root[:t, :t], np.eye(t)[s], lower=True, trans=1)
    out: IntArray = np.zeros(0, np.intp)
    for step in range(ROUNDS):
        before = out
        size = _influence(part, weight[:t], t, out)
        if step == 0:
            out = np.sort(np.argpartition(-size, most - 1)[:most])  # a start that masks nothing
            continue
        out = np.flatnonzero(size > limit)
        if len(out) > most:
            out = np.sort(out[np.argsort(-size[out], kind="stable")[:most]])
        if np.array_equal(before, out):
            break
    return out


def _influence(part: Part, weight: FloatArray, t: int, out: IntArray) -> FloatArray:
    """Absolute product of both residuals of every row, each in robust standard deviations, fitted without some."""
    own = part.own[: t + 1]
    mean, scatter = _without(own, out)
    beta = np.linalg.solve(scatter[:t, :t], np.column_stack([scatter[:t, t], weight]))
    effect = own[t] - mean[t] - (beta[:, 0] @ own[:t] - beta[:, 0] @ mean[:t])
    cause = beta[:, 1] @ own[:t] - beta[:, 1] @ mean[:t]
    product: FloatArray = np.abs(effect * cause) / (_spread(effect) * _spread(cause))
    return product


def _spread(values: FloatArray) -> float:
    """Robust standard deviation around 0."""
    return max(float(np.median(np.abs(values))) / NORMAL, 1e-12)


def _without(own: FloatArray, out: IntArray) -> tuple[FloatArray, FloatArray]:
    """Mean and scatter of own parts when some rows are left out; those of all rows are 0 and n I."""
    n = own.shape[1]
    gone = own[:, out]
    left = n - len(out)
    mean = -gone.sum(axis=1) / left
    scatter = n * np.eye(len(own)) - gone @ gone.T - left * np.outer(mean, mean)
    return mean, scatter


def _change(view: View, s: int, t: int, causes: list[int], rows: list[IntArray]) -> tuple[float, float]:
    """Change of the coefficient of s in the regression of t when some rows are left out, and its error."""
    moments = []
    for part, out in zip(view.parts, rows, strict=True):
        _, scatter = _without(part.own[: t + 1], out)
        root = part.root[: t + 1, : t + 1] * part.scale[: t + 1, None]
        n = max(t + 4, round(part.worth * (1 - len(out) / part.n)))
        values = root @ scatter @ root.T * (n / (part.n - len(out)))
        moments.append(Moments(view.names[: t + 1], n, np.zeros(t + 1), (values + values.T) / 2))
    joint = regress_jointly(moments[0], moments[1], t, range(t), sorted(causes), separate=True)
    at = sorted(causes).index(s)
    return float(joint.first[s] - joint.second[s]), float(joint.error_delta[at])
