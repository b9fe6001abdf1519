"""Columns that cannot be used: linearly dependent on others, or of extreme scales for double precision."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np
import scipy.linalg

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag._base.errors import Problem, raise_problems
from diffdag._base.words import Option, join_names
from diffdag.tables.problems import by_table, check_shape, find_dependent, find_useless


def dependent_columns(n: int, scatter: FloatArray) -> list[int]:
    """Return the smallest set of columns found to be linearly dependent, empty if there is none.

    The scatter matrix is that of `n` rows, in which no column is constant.

    >>> scatter = np.array([[2.0, 0.5, 1.0], [0.5, 3.0, 6.0], [1.0, 6.0, 12.0]])
    >>> dependent_columns(9, scatter)
    [1, 2]
    """
    spread = np.sqrt(np.diag(scatter))
    correlation = scatter / spread[:, None] / spread[None, :]
    if n > len(scatter):
        return _smallest_dependence(correlation)
    # Two columns that are multiples of each other are all that can be seen.
    multiples = np.argwhere(np.triu(np.abs(correlation) >= 1 - 1e-12, k=1))
    return [int(k) for pair in multiples[:1] for k in pair]


def _smallest_dependence(correlation: FloatArray) -> list[int]:
    """Find relations of few columns in the null space.

    Any basis of the null space mixes several dependencies. Dividing it by its rows at well chosen
    pivots leaves in each vector one pivot and the columns that pivot depends on.
    """
    p = len(correlation)
    tolerance = 1e-13 * p
    try:
        # Succeeds if and only if the smallest eigenvalue exceeds the tolerance: many times
        # cheaper than the eigenvalues, and the only cost for sound data.
        scipy.linalg.cholesky(correlation - tolerance * np.eye(p), overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        pass
    else:
        return []
    values, vectors = np.linalg.eigh(correlation)
    rank_lost = max(1, int(np.sum(values < tolerance)))
    null = vectors[:, :rank_lost]
    pivots: Any = scipy.linalg.qr(null.T, mode="r", pivoting=True)[1]
    relations = np.linalg.solve(null[pivots[:rank_lost]].T, null.T)
    supports = [np.flatnonzero(np.abs(row) > 1e-6 * np.abs(row).max()) for row in relations]
    return [int(k) for k in min(supports, key=len)]


# Outside these bounds fourth powers of standard deviations, or their inverses, can overflow.
_LEAST_SPREAD, _MOST_SPREAD = 1e-60, 1e60
_FARTHEST = 1e6  # standard deviations between means; at ten times as many, intercepts come from rounding


def is_extreme(spread: FloatArray) -> BoolArray:
    """Which columns vary by too little or too much to be squared; constant ones do neither."""
    extreme: BoolArray = (spread > 0) & ~((spread >= _LEAST_SPREAD) & (spread <= _MOST_SPREAD))
    return extreme


def find_extreme_scales(
    names: Sequence[str], spreads: Sequence[FloatArray], labels: Sequence[str]
) -> list[Problem]:
    """Columns that vary by so little, or by so much, that their squares are of no use; constant ones aside."""
    odd = [
        {names[k]: float(spread[k]) for k in np.flatnonzero(is_extreme(spread)).tolist()} for spread in spreads
    ]
    size = odd[0] | odd[1]
    words = "values of {} vary by {:.0e} in {}, too far from 1"
    advice = "change the unit or look for outliers"
    return [
        Problem(
            "extreme-scale", words.format(join_names(found), size[found[0]], where), tuple(found), (), advice
        )
        for found, where in by_table(odd, labels)
        if found
    ]


def find_far_means(names: Sequence[str], ratios: FloatArray) -> list[Problem]:
    """Columns whose means differ by so many standard deviations that rounding would decide what changed."""
    found = tuple(compress(names, ratios > _FARTHEST))
    what = (
        f"the means of {join_names(found)} in the two tables are up to {ratios.max(initial=0.0):.0e} times "
        "their spread apart, more than can be compared"
    )
    advice = "check the units, or subtract an offset"
    return [Problem("extreme-scale", what, found, (Option("drop", found),), advice)] if found else []


def is_flat(n: int, scatter: FloatArray, mean: FloatArray | None = None) -> BoolArray:
    """Which columns of so many rows do not vary; with `mean`, not by more than its rounding."""
    spread = np.sqrt(np.clip(np.diag(scatter), 0.0, None))
    # A constant column such as 0.1, 0.1, ... keeps the rounding of its mean as its spread.
    rounding = 0.0 if mean is None else 16 * np.finfo(float).eps * np.abs(mean) * np.sqrt(n)
    flat: BoolArray = spread <= rounding
    return flat


def check_moments(
    names: Sequence[str], n: int, scatter: FloatArray, label: str, *, mean: FloatArray | None = None
) -> None:
    """Refuse moments of one table with too few rows or columns, or with constant or collinear columns.

    With `mean`, a constant column is told from the rounding of its mean.
    """
    check_shape(n, len(names), label)
    flat = list(compress(names, is_flat(n, scatter, mean)))
    rescale = "subtract an offset or change the unit if its values do differ"
    raise_problems(find_useless("constant", (flat, ()), (label, ""), rescale))
    found = [names[k] for k in dependent_columns(n, scatter)]
    raise_problems(find_dependent((found, ()), (label, "")))
