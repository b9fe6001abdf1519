"""Are the rows independent of each other, and none of them there twice?

Autocorrelations of independent rows have variance ``1 / n`` whatever their distribution; those of the own
parts, orthogonal to each other, at the first lags add up to a chi-squared statistic (Box and Pierce 1970, with
the weights of Ljung and Box 1978).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.linalg import solve_triangular

from diffdag._base.arrays import FloatArray
from diffdag._base.words import option_words, plural
from diffdag.results.evidence import Check
from diffdag.tables.align import Tables
from diffdag.tables.robust import effective_samples
from diffdag.trust.checks.residual_view import LABELS, LEVEL, LONGEST, Part, View

LAGS = 5
# Rows that are worth this share of independent ones, or more, are as good as independent.
WORTH = 0.95
# Values held by this share of the rows are common: a row made of nothing else may repeat.
COMMON = 0.05
# Repeats have to be this much more frequent than chance explains, and that unlikely.
TIMES, UNLIKELY = 10.0, 1e-3


def check_independence(view: View, tables: Tables, given: Mapping[str, object]) -> Check:
    """Autocorrelation of rows, and how many independent ones they are worth.

    Of more than 100,000 rows the first so many count, as they stand next to each other.
    """
    name = "independent rows"
    if given.get("effective_samples") is not None:
        return Check(name, True, "rows count as the number of independent ones given by effective_samples")
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
    says = (
        f"rows of the {label} table resemble the rows before them, as in a time series or a sorted table: its "
        f"{n} rows are worth about {share * n:.0f} independent ones, so that chance passes for change more "
        f"often; use {option_words('effective_samples', 'auto')}, or shuffle rows that were merely sorted"
    )
    return Check(name, False, says, share, WORTH)


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
    return float(stats.chi2.sf(total, p * len(lags)))


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
    if pairs == 0 or stats.poisson.sf(pairs - 1, expected) > UNLIKELY:
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
