"""Checks that need rows: Gaussian residuals, independent rows, none of them there twice.

Skewness and kurtosis of each variable's residuals are tested by the transformations of D'Agostino (1970) and
Anscombe and Glynn (1983), good from 20 rows on. Many rows find trifles: a departure has to have some size as
well.

Autocorrelations of independent rows have variance ``1 / n`` whatever their distribution; those of the
residuals, orthogonal to each other, at the first lags add up to a chi-squared statistic (Box and Pierce 1970,
with the weights of Ljung and Box 1978).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.linalg import solve_triangular

from diffdag._base.arrays import FloatArray
from diffdag._base.errors import InputError
from diffdag._base.words import join_names, option_words, plural
from diffdag.results.records import Check
from diffdag.tables.align import Tables
from diffdag.tables.effective_rows import effective_samples
from diffdag.trust.checks.residual_view import LABELS, LEVEL, LONGEST, Part, View

FEWEST = 20  # rows for which the transformations are good
SKEWNESS, KURTOSIS = 0.5, 0.5  # departures, of excess kurtosis, that matter


def check_normality(view: View, resampled: bool = False) -> Check | None:
    """Skewness and kurtosis of own parts in each table; None with fewer than 20 rows.

    `resampled` is whether the result has confidence from resamples already.
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
            "0): edges rest on second moments and stay valid, and errors know the tails, but weak changes go "
            f"unseen and directions are less certain; {remedy}{sure}"
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


LAGS = 5
# Rows that are worth this share of independent ones, or more, are as good as independent.
WORTH = 0.95
# Whitened rows of which this share counts are nearly independent.
WHITE = 0.9
WIDEST = 200  # columns that are looked at
# Values held by this share of the rows are common: a row made of nothing else may repeat.
COMMON = 0.05
# Repeats have to be this much more frequent than chance explains, and that unlikely.
TIMES, UNLIKELY = 10.0, 1e-3


def check_independence(view: View, tables: Tables, *, effective: bool) -> Check:
    """Autocorrelation of rows, and how many independent ones they are worth.

    Of more than 100,000 rows the first so many count, as they stand next to each other.
    """
    name = "independent rows"
    if effective:
        return Check(name, True, "rows count as the number of independent ones given by effective_samples")
    nested = None if tables.taken is None else tables.taken.nested
    if nested is not None and 2 * sum(nested.counts) <= len(tables.first) + len(tables.second):
        return Check(name, True, f"rows of one '{nested.name}' may be alike: all errors are between them")
    limit = LEVEL / 2
    found = []
    for part, table, label in zip(view.parts, (tables.first, tables.second), LABELS, strict=True):
        own = part.own[: part.steady]
        if len(table) > LONGEST:
            own = _own_of_first(part, table, view, tables)
        chance = autocorrelation_test(own)
        share = effective_samples(own.T) / own.shape[1] if chance <= limit and len(own) > 1 else 1.0
        found.append((chance, share, label, len(table)))
    chance, share, label, n = min(found, key=lambda item: (item[1], item[0]))
    if share >= WORTH:
        chance = min(item[0] for item in found)
        much = "hardly any" if chance <= limit else "no"
        return Check(name, True, f"rows show {much} memory of the rows before them", chance, limit)
    remedy = "whiten", "ar"
    if not whitening_helps(tables):
        remedy = "effective_samples", "auto"
    still = "" if tables.whitened is None else " still"
    says = (
        f"rows of the {label} table{still} resemble the rows before them, as in a time series or a sorted "
        f"table: its {n} rows are worth about {share * n:.0f} independent ones, so that chance passes for "
        f"change more often; use {option_words(*remedy)}, or shuffle rows that were merely sorted"
    )
    return Check(name, False, says, share, WORTH)


def check_reference(table: FloatArray, few: int, *, whitened: bool, in_sequence: bool) -> Check | None:
    """Autocorrelation of the condition that a few rows are compared with; a single row has no neighbours.

    `in_sequence` is whether rows that follow each other stand in for the few, so that memory is accounted for.
    """
    name, limit = "independent rows", LEVEL
    if in_sequence:
        return Check(name, True, "the few are held against rows of the other condition that follow each other")
    if few == 1:
        return None
    own = table[:LONGEST, : max(1, min(WIDEST, len(table) // 4))]
    chance = autocorrelation_test(np.linalg.qr(own - own.mean(axis=0))[0].T * math.sqrt(len(own)))
    if chance > limit:
        return Check(name, True, "rows show no memory of the rows before them", chance, limit)
    remedy = option_words("effective_samples", "auto")
    if not whitened:
        remedy = f"{option_words('whiten', 'ar')}, or {remedy} where rows are too few for that"
    says = (
        f"rows{' still' * whitened} resemble the rows before them, as in a time series: {few} that follow each "
        f"other lie together on one side, so that chance passes for change more often; use {remedy}"
    )
    return Check(name, False, says, chance, limit)


def whitening_helps(tables: Tables) -> bool:
    """Whether an autoregression, fitted to the first table, would leave hardly any memory in either.

    Not where rows are whitened already, or nested, or where gaps were filled or covariates taken out: their
    residuals are not what would be whitened. Of more than 200 columns the first 200 count.
    """
    if tables.whitened is not None or tables.design is not None or tables.gaps or tables.taken is not None:
        return False
    try:
        white = tables.select(tables.names[:WIDEST]).whiten("ar")
    except InputError:
        return False
    before, after = (min(_worth(own.first), _worth(own.second)) for own in (tables, white))
    return after >= WHITE and after > before


def _worth(table: FloatArray) -> float:
    """Share of the rows that are worth as much as independent ones."""
    return effective_samples(table[:LONGEST, :WIDEST]) / min(len(table), LONGEST)


def _own_of_first(part: Part, table: FloatArray, view: View, tables: Tables) -> FloatArray:
    """Own parts of the first rows of a long table, by the regressions of the rows that were looked at."""
    place = {name: k for k, name in enumerate(tables.names)}
    rows = np.array(table[:LONGEST, [place[name] for name in view.names]].T)
    rows -= rows.mean(axis=1, keepdims=True)
    own = solve_triangular(part.root, rows / part.scale[:, None], lower=True, check_finite=False)
    own -= own.mean(axis=1, keepdims=True)
    return np.asarray(own / np.sqrt(np.mean(own * own, axis=1, keepdims=True)))


def autocorrelation_test(own: FloatArray) -> float:
    """P-value of no autocorrelation at lags 1 to 5 in any of some orthogonal series with mean square 1."""
    p, n = own.shape
    lags = np.arange(1, min(LAGS, n - 2) + 1)
    total = 0.0
    for lag in lags:
        correlations = np.einsum("ij,ij->i", own[:, lag:], own[:, :-lag]) / n
        total += n * (n + 2) / (n - lag) * float(correlations @ correlations)
    return float(special.chdtrc(p * len(lags), total))


def check_duplicates(tables: Tables) -> Check:
    """Rows that are there twice, within a table or in both, beyond what few different values explain.

    Two Gaussian rows, rounded, agree by chance with probability ``prod c_j / sqrt(det R)``: ``c_j`` the chance
    that two values of column j agree, ``R`` the correlations. Rows of common values only do not count. Of more
    than 200,000 rows the first 100,000 of each table are looked at, of more than 200 columns the first 200.
    """
    both = [table[:LONGEST, :200] for table in (tables.first, tables.second)]
    rows = np.concatenate(both) + 0.0  # makes -0 a 0
    repeated = _repeated(rows)
    name = "duplicated rows"
    if not len(repeated):
        return Check(name, True, "no row is there twice", 0.0)
    _, group, size = np.unique(rows[repeated], axis=0, return_inverse=True, return_counts=True)
    group = group.ravel()
    keep = np.ones(len(rows), bool)
    keep[repeated] = False
    keep[repeated[np.unique(group, return_index=True)[1]]] = True
    single = rows[keep]
    odd = ~_made_of_common(rows[repeated], single)
    pairs = float(sum(size[k] * (size[k] - 1) / 2 for k in np.unique(group[odd])))
    copies = int(sum(size[k] - 1 for k in np.unique(group[odd])))
    expected = TIMES * _chance_pairs(single)
    if pairs == 0 or special.pdtrc(pairs - 1, expected) > UNLIKELY:
        says = "rows that are there twice are no more than few different values explain"
        return Check(name, True, says, pairs, expected)
    in_first = repeated < len(both[0])
    shared = np.intersect1d(group[odd & in_first], group[odd & ~in_first]).size
    where = f", {plural(shared, 'row')} of them in both tables," if shared else ""
    says = (
        f"{copies} of {plural(len(rows), 'row')} are exact copies of others{where} which chance does not "
        "explain: each counts as a row of its own; remove them, or check how the tables were put together"
    )
    return Check(name, False, says, pairs, expected)


def _repeated(rows: FloatArray) -> NDArray[np.intp]:
    """Rows that are equal to another, by a hash that differs for most others, then by comparison."""
    bits = np.ascontiguousarray(rows).view(np.uint64)
    odd = np.random.default_rng(0).integers(1, 2**63, rows.shape[1], dtype=np.uint64) * np.uint64(2)
    mixed = (bits ^ (bits >> np.uint64(29))) * (odd + np.uint64(1))
    mixed ^= mixed >> np.uint64(32)
    key = mixed.sum(axis=1, dtype=np.uint64)
    order = np.argsort(key, kind="stable")
    same = key[order[1:]] == key[order[:-1]]
    if not same.any():
        return np.zeros(0, np.intp)
    suspects = np.sort(order[np.append(same, False) | np.append(False, same)])
    _, group, size = np.unique(rows[suspects], axis=0, return_inverse=True, return_counts=True)
    return np.asarray(suspects[size[group.ravel()] > 1], dtype=np.intp)


def _made_of_common(repeated: FloatArray, single: FloatArray) -> NDArray[np.bool_]:
    """Whether a repeated row has nothing but values that many rows have, not counting copies."""
    common = np.ones(len(repeated), bool)
    for column, all_of_it in zip(repeated.T, single.T, strict=True):
        values, counts = np.unique(all_of_it, return_counts=True)
        common &= np.isin(column, values[counts > max(2, COMMON * len(single))])
    return common


def _chance_pairs(single: FloatArray) -> float:
    """How many pairs of equal rows are expected, from all rows without their copies."""
    n = len(single)
    if n < 2:
        return 0.0
    total = np.log(n / 2 * (n - 1.0))
    for column in single.T:
        counts = np.unique(column, return_counts=True)[1].astype(float)
        agree = float(counts @ (counts - 1))
        if agree == 0:
            return 0.0
        total += np.log(agree / (n * (n - 1.0)))
    varying = single[:, np.ptp(single, axis=0) > 0]
    determinant = np.linalg.slogdet(np.corrcoef(varying, rowvar=False))[1] if n > varying.shape[1] > 1 else 0.0
    return float(np.exp(min(total - determinant / 2, 50.0)))
