"""Are the own parts Gaussian, and the effects straight lines?

Skewness and kurtosis of each variable's own part are tested by the transformations of D'Agostino (1970) and
Anscombe and Glynn (1983), good from 20 rows on. Curvature is tested by regressing each own part on the square
of each variable before it, next to all of these variables: Student's t test, exact for Gaussian own parts. Many
rows find trifles: a departure has to have some size as well.
"""

from __future__ import annotations

import numpy as np
from scipy import special, stats

from diffdag._base.arrays import FloatArray
from diffdag._base.words import join_names, option_words
from diffdag.results.evidence import Check
from diffdag.trust.checks.residual_view import LABELS, LEVEL, Part, View

FEWEST = 20  # rows for which the transformations are good
SKEWNESS, KURTOSIS = 0.5, 0.5  # departures, of excess kurtosis, that matter
EXPLAINED = 0.004  # share of an own part's variance that a square has to explain to matter


def check_normality(view: View, resampled: bool = False) -> Check | None:
    """Skewness and kurtosis of own parts in each table; None with fewer than 20 rows.

    `resampled` is whether the answer has confidence from resamples already.
    """
    parts = view.parts
    if min(part.worth for part in parts) < FEWEST:
        return None
    count = sum(part.steady for part in parts)
    limit = LEVEL / (4 * count)  # half of Bonferroni's: so far out the transformations promise too little
    least, tails = 1.0, 0.0
    heavy: list[str] = []
    odd: list[str] = []
    for part, label in zip(parts, LABELS, strict=True):
        own = part.own[: part.steady]
        squares = own * own
        skew, kurt = np.mean(squares * own, axis=1), np.mean(squares * squares, axis=1)
        chance_skew, chance_kurt = skewness_test(skew, part.worth), kurtosis_test(kurt, part.worth)
        uneven = (chance_skew <= limit) & (np.abs(skew) > SKEWNESS)
        off = (chance_kurt <= limit) & (np.abs(kurt - 3) > KURTOSIS)
        least = min(least, float(chance_skew.min()), float(chance_kurt.min()))
        for k in np.flatnonzero(uneven | off):
            fat = off[k] and kurt[k] > 3
            (heavy if fat else odd).append(f"{view.names[k]} ({label})")
            tails = max(tails, float(kurt[k] - 3)) if fat else tails
    if not heavy and not odd:
        near = "close to Gaussian" if least <= limit else "Gaussian"
        return Check("normality", True, f"the noise of each variable looks {near}", least, limit)
    return Check("normality", False, _not_normal(heavy, odd, tails, view.remedy, resampled), least, limit)


def _not_normal(heavy: list[str], odd: list[str], tails: float, remedy: str, resampled: bool) -> str:
    sure = f"{'rely on the' if resampled else 'ask for'} confidence from resamples"
    if heavy:
        return (
            f"the noise of {join_names(heavy)} has heavy tails (excess kurtosis up to {tails:.2g}, Gaussian "
            "0): edges rest on second moments and stay valid, but standard errors are too small and false "
            f"alarms more frequent; {remedy}{sure}"
        )
    return (
        f"the noise of {join_names(odd)} is skewed or short-tailed: edges rest on second moments and stay "
        "valid, but standard errors and p-values of variances are approximate; a transformation such as the "
        f"logarithm may help, or {sure}"
    )


def skewness_test(skewness: FloatArray, n: float) -> FloatArray:
    """Two-sided p-values of sample skewness (third moment over the variance to the 1.5), D'Agostino 1970."""
    y = skewness * np.sqrt((n + 1) * (n + 3) / (6.0 * (n - 2)))
    beta = 3.0 * (n * n + 27 * n - 70) * (n + 1) * (n + 3) / ((n - 2.0) * (n + 5) * (n + 7) * (n + 9))
    squared = np.sqrt(2 * (beta - 1)) - 1
    z = np.arcsinh(y / np.sqrt(2 / (squared - 1))) / np.sqrt(0.5 * np.log(squared))
    return np.asarray(2 * special.ndtr(-np.abs(z)))


def kurtosis_test(kurtosis: FloatArray, n: float) -> FloatArray:
    """Two-sided p-values of kurtosis (fourth moment over the squared variance), Anscombe and Glynn 1983."""
    mean = 3.0 * (n - 1) / (n + 1)
    variance = 24.0 * n * (n - 2) * (n - 3) / ((n + 1) ** 2 * (n + 3.0) * (n + 5))
    x = (kurtosis - mean) / np.sqrt(variance)
    skew = 6.0 * (n * n - 5 * n + 2) / ((n + 7) * (n + 9))
    skew *= np.sqrt(6.0 * (n + 3) * (n + 5) / (n * (n - 2.0) * (n - 3)))
    a = 6 + 8 / skew * (2 / skew + np.sqrt(1 + 4 / skew**2))
    base = 1 + x * np.sqrt(2 / (a - 4))
    root = np.cbrt((1 - 2 / a) / np.where(base > 0, base, np.inf))
    z = (1 - 2 / (9 * a) - root) / np.sqrt(2 / (9 * a))
    return np.asarray(2 * special.ndtr(-np.abs(z)))


def check_linearity(view: View) -> Check | None:
    """Squares of the variables before each one, in each table and in both together."""
    p = min(part.steady for part in view.parts)
    if p < 2:
        return None
    signs = [_curvature(part, p) for part in view.parts]
    together = (signs[0] + signs[1]) / np.sqrt(2)
    rows = [part.worth for part in view.parts]
    tests = [(signs[0], rows[0]), (signs[1], rows[1]), (together, sum(rows))]
    below = np.tril(np.ones((p, p), bool), -1)
    limit = LEVEL / (3 * below.sum())
    least, bent = 1.0, np.zeros((p, p), bool)
    for z, n in tests:
        chance = 2 * special.ndtr(-np.abs(z))
        bent |= below & (chance <= limit) & (z * z > EXPLAINED * n)
        least = min(least, float(chance[below].min()))
    if not bent.any():
        much = "no effect is curved by much" if least <= limit else "no effect is visibly curved"
        return Check("linearity", True, much, least, limit)
    strength = np.where(bent, np.abs(together), -1.0).max(axis=1)
    names = [view.names[k] for k in np.argsort(-strength, kind="stable") if bent[k].any()]
    says = (
        f"effects on {join_names(names)} are curved, or their scale is: changed covariances can then come from "
        "another range of the causes and not from a changed effect; transform the columns (logarithm), or use "
        f"{option_words('covariance', 'spearman')} if scales alone are bent"
    )
    return Check("linearity", False, says, least, limit)


def _curvature(part: Part, p: int) -> FloatArray:
    """Normal scores of t tests, [t, s]: the own part of t on the square of s, given all before t."""
    values, own = part.values[:p], part.own[:p]
    squares = values * values
    squares -= squares.mean(axis=1, keepdims=True)
    along = squares @ own.T / part.n  # [s, t]
    left = np.mean(squares * squares, axis=1)[:, None] - np.cumsum(along**2, axis=1) + along**2
    shares = (along / np.sqrt(np.maximum(left, 1e-12))).T
    freedom = np.maximum(part.worth - 2.0 - np.arange(p), 1)[:, None]
    rest = np.maximum(1 - shares**2, 1e-12)
    t = shares * np.sqrt(freedom / rest)
    scores = special.ndtri(np.maximum(stats.t.sf(np.abs(t), freedom), 1e-300))
    return np.asarray(-np.sign(t) * scores)
