"""What the checks look at: the variables along the fit's order, and each one's residual in every row.

Along an order, causes first, a variable's residual is what regression on those before it leaves: for the right
order its noise. With ``L`` the Cholesky factor of the scatter along the order they are the rows
of ``L^-1 X'``: orthogonal to each other and, times the root of the number of rows, of mean square 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from diffdag._base.arrays import FloatArray
from diffdag._base.words import option_words
from diffdag.results.difference import Difference
from diffdag.tables.align import Tables
from diffdag.tables.moments import Moments
from diffdag.tables.robust import Covariance, table_scores

if TYPE_CHECKING:
    from diffdag.trust.fits import Fit

LABELS = ("first", "second")
# Variables and rows that are looked at.
WIDEST, LONGEST = 200, 100_000
# The rate of false alarms of a check on data with nothing to find, over all its tests together.
LEVEL = 0.01


@dataclass(frozen=True, eq=False)
class Part:
    """One table along the order; a row of `values` and `own` is a variable."""

    values: FloatArray  # deviations from the means, each variable divided by its standard deviation
    own: FloatArray  # residuals, with mean 0 and mean square 1
    root: FloatArray  # lower triangular: ``values = root @ own``
    scale: FloatArray  # standard deviations
    worth: float  # effective sample size of the rows shown
    places: NDArray[np.intp]  # where each of them stands in the user's table, from 0

    @property
    def n(self) -> int:
        """Rows."""
        return int(self.values.shape[1])

    @property
    def steady(self) -> int:
        """So many variables, the first ones, leave at least three quarters of the rows free."""
        return max(1, min(len(self.values), self.n // 4))


@dataclass(frozen=True, eq=False)
class View:
    """Both tables along the order, and the names of the variables in that order."""

    names: tuple[str, ...]
    parts: tuple[Part, Part]
    covariance: Covariance = "sample"

    @property
    def remedy(self) -> str:
        """What helps against outliers and heavy tails, if it was not done already."""
        return f"use {option_words('covariance', 'winsorised')}, or " if self.covariance == "sample" else ""


def causal_names(fit: Fit) -> tuple[str, ...]:
    """Variables along the fit's order, causes first, at most 200: those that take part come first in line.

    Invariant variables stand before all others where there is no total order: given them, the residuals of the
    others change no more than before.
    """
    result = fit.difference
    if fit.search_order is not None:
        names = fit.search_order
    else:
        placed = [name for layer in result.order for name in layer]
        names = tuple(dict.fromkeys([*result.invariant, *result.unresolved, *placed]))
    if len(names) <= WIDEST:
        return names
    still = set(result.invariant)
    wanted = [name for name in names if name not in still] + [name for name in names if name in still]
    kept = set(wanted[:WIDEST])
    return tuple(name for name in names if name in kept)


def settled_names(fit: Fit) -> tuple[str, ...]:
    """`causal_names`, with what the fit leaves open settled by the moments, not by the order of the columns.

    Of variables without an order among themselves that one comes last whose variance, given the others, is most
    alike in both conditions: were all noise variances equal, it would be a sink of what changed.
    """
    names, first, second = causal_names(fit), fit.first, fit.second
    known = fit.method == "order" and bool(fit.settings.known)
    if known or min(first.n, second.n) < len(names) + 2:
        return names
    settled: list[str] = []
    for _, group in groupby(names, _groups(fit, names).__getitem__):
        settled += _alike_last(settled, list(group), first, second)
    return tuple(settled)


def _groups(fit: Fit, names: tuple[str, ...]) -> dict[str, int]:
    """A number for each variable, the same for neighbours of which the fit does not tell who comes first."""
    result = fit.difference
    if fit.search_order is None:
        layers = (result.invariant, result.unresolved, *result.order)
        return {name: k for k, layer in enumerate(layers) for name in layer}
    touched = {edge.target for edge in result.edge_list}.union(result.unresolved, changed_noise(result))
    new = [name in touched or (k > 0 and names[k - 1] in touched) for k, name in enumerate(names)]
    return dict(zip(names, np.cumsum(new).tolist(), strict=True))


def _alike_last(before: list[str], group: list[str], first: Moments, second: Moments) -> list[str]:
    """The variables of a group in the order that `settled_names` says, behind those before them."""
    left, ordered = [*before, *group], list[str]()
    if len(group) == 1:
        return group
    parts = first.select(left), second.select(left)
    scale = np.sqrt(np.diag(parts[0].scatter) + np.diag(parts[1].scatter))
    try:
        omegas = [np.linalg.inv(part.scatter / np.outer(scale, scale)) for part in parts]
    except np.linalg.LinAlgError:
        return group
    while len(left) > len(before):
        precisions = [np.maximum(np.diag(omega), 1e-300)[len(before) :] for omega in omegas]
        free = [part.n - len(left) for part in parts]
        last = len(before) + int(np.argmin(np.abs(np.log(precisions[0] * free[0] / (precisions[1] * free[1])))))
        others = np.delete(np.arange(len(left)), last)
        omegas = [
            omega[np.ix_(others, others)]
            - np.outer(omega[others, last], omega[last, others] / omega[last, last])
            for omega in omegas
        ]
        ordered.append(left.pop(last))
    return ordered[::-1]


def residual_view(tables: Tables, fit: Fit, covariance: Covariance) -> View | None:
    """Both tables along the fit's order, on the scale of `covariance`; None if the rows are too few for it.

    Of tables longer than 100,000 rows so many at most are used, evenly spaced.
    """
    names = settled_names(fit)
    place = {name: k for k, name in enumerate(tables.names)}
    columns = [place[name] for name in names]
    steps = [-(-len(table) // LONGEST) for table in (tables.first, tables.second)]
    rows = [table[::step, columns] for table, step in zip((tables.first, tables.second), steps, strict=True)]
    scores = table_scores(rows[0], rows[1], covariance)
    parts = []
    for k, n in enumerate((len(tables.first), len(tables.second))):
        places, worth = tables.places[k], min(1.0, (fit.first, fit.second)[k].n / n)
        numbers = np.arange(n) if places is None else places
        parts.append(_part(scores[k], len(scores[k]) * worth, numbers[:: steps[k]]))
    one, two = parts
    return None if one is None or two is None else View(names, (one, two), covariance)


def changed_noise(result: Difference) -> list[str]:
    """Variables whose noise variance changed."""
    return [change.variable for change in result.noise_list]


def _part(table: FloatArray, worth: float, places: NDArray[np.intp]) -> Part | None:
    n, p = table.shape
    if min(n, worth) < p + 4:
        return None
    values = np.array(table.T, dtype=np.float64, order="C")
    values -= values.mean(axis=1, keepdims=True)
    scale = np.sqrt(np.einsum("ij,ij->i", values, values) / n)
    if not (scale > 0).all():
        return None
    values /= scale[:, None]
    try:
        root = cholesky(values @ values.T / n, lower=True)
    except LinAlgError:
        return None
    own = solve_triangular(root, values, lower=True, check_finite=False)
    return Part(values, own, root, scale, worth, places)
