"""Covariates taken out of moments: what `diffdag.tables.adjust.take_out` does to rows, without the rows.

With variables Y and covariates Z, their joint scatter S around the means, and r columns Z H of unit scatter
that span the covariates (``H' S_zz H = I``), regressions of Y on Z leave

    S_yy - T'T,     T = H' S_zy,

of n - r rows. The columns of H are eigenvectors of ``S_zz``, on a scale on which covariates vary by about 1,
without those along which they do not vary: constant columns, and all levels of a category.

A covariate that is a number is judged by its means and variances. That its values do not overlap at all between
conditions shows in rows alone, and so does that it has few different values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from diffdag._base.arrays import FloatArray
from diffdag._base.errors import InputError
from diffdag._base.words import Option, named, table_words
from diffdag.tables.accumulator import gram
from diffdag.tables.degenerate import is_flat
from diffdag.tables.design import (
    check_in_all,
    design_columns,
    judge_category,
    judge_number,
    level_name,
    never_varies,
    refuse_condition,
    split_hidden,
)
from diffdag.tables.effective_rows import without_rows
from diffdag.tables.moments import Moments, moments_of_sums, with_all_levels
from diffdag.tables.problems import Missing

LEAST = 1e-13  # share of a sum of squares that may be its rounding error


class Adjusted(NamedTuple):
    """Moments of two conditions with covariates taken out, and what a user should know about that."""

    first: Moments
    second: Moments
    notes: tuple[str, ...]
    adjust: tuple[str, ...]  # the covariates, without those that never vary


def covariates_of_moments(
    *, adjust: object, cluster: object, missing: Missing, whiten: object = None
) -> list[str]:
    """The covariates that moments are to be adjusted for; what acts on rows is refused."""
    if split_hidden(adjust)[1]:
        raise InputError("hidden causes are estimated from rows, and only moments are known; leave them in")
    found = design_columns(adjust, None)
    for name, value in (("cluster", cluster), ("whiten", whiten)):
        if value is not None:
            raise InputError(named(name), " needs rows, and only moments are known; leave it out")
    if missing != "error":
        raise InputError(
            Option("missing", missing),
            " needs rows, and only moments are known; leave it out, or fit the tables themselves",
        )
    return found


def adjust_moments(
    first: Moments, second: Moments, covariates: Sequence[str], labels: tuple[str, str] = ("first", "second")
) -> Adjusted:
    """Take covariates out of the moments of two conditions, with coefficients that may differ between them.

    Means are those that the conditions would have if their covariates had the mean of both. `labels` are what
    messages call the conditions.
    """
    names = check_in_all("adjust", covariates, [first.column_names(), second.column_names()], labels)
    for name in names:
        kinds = ["a category" if name in own.categories else "a number" for own in (first, second)]
        if kinds[0] != kinds[1]:
            raise InputError(
                f"covariate '{name}' is {kinds[0]} in {table_words(labels[0])} and {kinds[1]} in "
                f"{table_words(labels[1])}; write it as text in both, and reduce them again"
            )
    both = with_all_levels(first, second)
    notes: list[str] = []
    used, columns, compared = [], [], True
    for name in names:
        judge = _category if name in first.categories else _number
        found = judge(name, both, labels, notes)
        if found is None:
            notes.append(never_varies(name))
        else:
            used.append(name)
            columns += found[0]
            compared = compared and found[1]
    own = [moments.select(columns) for moments in both]
    rows = both[0].n + both[1].n
    # How far the mean of each lies from that of both, without sums that are larger than what differs.
    apart = own[0].mean - own[1].mean
    distances = apart * (both[1].n / rows), -apart * (both[0].n / rows)
    one, two = (
        _take_out(moments, names, z, distance, compared)
        for moments, z, distance in zip(both, own, distances, strict=True)
    )
    return Adjusted(one, two, tuple(notes), tuple(used))


def adjust_alone(moments: Moments, covariates: Sequence[str]) -> Moments:
    """Take covariates out of the moments of one table; see `Moments.adjusted`."""
    names = check_in_all("adjust", covariates, [moments.column_names()], ["given"])
    z = moments.select(names)
    return _take_out(moments, names, z, np.zeros(len(z.names)), compared=False)


def _take_out(
    moments: Moments, covariates: Sequence[str], z: Moments, distance: FloatArray, compared: bool
) -> Moments:
    """The moments of all but covariates, with these, coded as z, taken out, at a distance from their mean."""
    out = set(covariates)
    y = moments.select([name for name in moments.column_names() if name not in out])
    place = {name: k for k, name in enumerate(moments.names)}
    cross = moments.scatter[np.ix_([place[name] for name in z.names], [place[name] for name in y.names])]
    scale = np.sqrt(np.diag(z.scatter) / z.n + distance**2)
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(z.scatter / scale / scale[:, None])
    kept = values > LEAST * max(1, len(values)) * z.n
    half = vectors[:, kept] / np.sqrt(values[kept]) / scale[:, None]
    explained = half.T @ cross
    scatter = y.scatter - gram(explained)
    # A variable that follows from the covariates does not vary beside them, but for rounding errors.
    flat = np.diag(scatter) <= LEAST * np.diag(y.scatter)
    scatter[flat] = scatter[:, flat] = 0.0
    away = half.T @ distance
    mean = y.mean - away @ explained
    worth = 1 / (1 / y.n + float(away @ away)) if compared else 0.0
    left = moments_of_sums(y.names, y.n, mean, scatter, categories=y.categories)
    return without_rows(left, y.n, int(kept.sum()), worth)


def _number(
    name: str, both: tuple[Moments, Moments], labels: tuple[str, str], notes: list[str]
) -> tuple[list[str], bool] | None:
    """The column of a covariate, and whether it leaves means comparable; None if it never varies."""
    own = [moments.select([name]) for moments in both]
    means = [float(moments.mean[0]) for moments in own]
    if all(is_flat(moments.n, moments.scatter, moments.mean).all() for moments in own):
        values = [float(f"{mean:.12g}") for mean in means]  # without the rounding of the mean
        if values[0] == values[1]:
            return None
        refuse_condition(name, (values[0], values[1]), labels)
    variances = [float(moments.scatter[0, 0]) / moments.n for moments in own]
    return [name], judge_number(name, (means[0], means[1]), (variances[0], variances[1]), labels, notes)


def _category(
    name: str, both: tuple[Moments, Moments], labels: tuple[str, str], notes: list[str]
) -> tuple[list[str], bool] | None:
    """The columns of all levels but one, and whether means are comparable; None if there is one level."""
    one, two = (_rows_of_levels(name, moments) for moments in both)
    if len(one | two) < 2:
        return None
    if len(one) == len(two) == 1:
        refuse_condition(name, (next(iter(one)), next(iter(two))), labels)
    rest, compared = judge_category(name, (one, two), labels, notes)
    return [level_name(name, level) for level in rest], compared


def _rows_of_levels(name: str, moments: Moments) -> Counter[str]:
    """How many rows each level has, of those that have any."""
    own = moments.select([name])
    counts = {
        column.removeprefix(level_name(name, "")): round(float(mean) * own.n)
        for column, mean in zip(own.names, own.mean, strict=True)
    }
    return Counter({level: rows for level, rows in counts.items() if rows > 0})
