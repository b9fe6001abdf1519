"""What changed besides effects: noise variances, where the method takes them for equal, and means."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats
from scipy.linalg import LinAlgError, cholesky

from diffdag._base.arrays import FloatArray
from diffdag._base.words import join_names, option_words
from diffdag.results.evidence import Check
from diffdag.results.result import DifferenceResult
from diffdag.tables.moments import Moments
from diffdag.trust.checks.residual_view import LEVEL, changed_noise, settled_names


def check_noise(first: Moments, second: Moments, result: DifferenceResult) -> Check | None:
    """Fisher's test of equal residual variances along the order, where the method assumes them equal.

    Where it does not, only says which changed. None if there are too few rows.
    """
    assumed = result.method == "paper" or result.settings.get("noise") == "equal"
    if not assumed:
        found = changed_noise(result)
        says = (
            f"noise variances of {join_names(found)} differ between the conditions; the method allows for that"
            if found
            else "no noise variance was seen to differ between the conditions"
        )
        return Check("noise variances", True, says)
    names = settled_names(result, first, second)
    tested = _variance_tests(first.select(names), second.select(names))
    if tested is None:
        return None
    limit = LEVEL / len(names)
    least = float(tested.min())
    if least > limit:
        says = "noise variances, assumed to be equal in both conditions, show no difference"
        return Check("noise variances", True, says, least, limit)
    moved = join_names(names[k] for k in np.flatnonzero(tested <= limit))
    remedy = (
        f"use {option_words('method', 'order')}, which allows for it"
        if result.method == "paper"
        else f"use {option_words('noise', 'auto')}, which allows for it"
    )
    says = (
        f"noise variances of {moved} differ between the conditions, though they are assumed to be equal: "
        f"edges into or between them may be there only for that; {remedy}"
    )
    return Check("noise variances", False, says, least, limit)


def _variance_tests(first: Moments, second: Moments) -> FloatArray | None:
    """P-values of equal variances of each variable's own part, along the order of the moments."""
    p = len(first.names)
    if min(first.n, second.n) < p + 2:
        return None
    variances, freedoms = [], []
    for moments in (first, second):
        scale = np.sqrt(np.diag(moments.scatter))
        try:
            root = cholesky(moments.scatter / np.outer(scale, scale), lower=True)
        except LinAlgError:
            return None
        freedom = moments.n - 1.0 - np.arange(p)
        variances.append((np.diag(root) * scale) ** 2 / freedom)
        freedoms.append(freedom)
    ratio = variances[0] / variances[1]
    tails = np.minimum(stats.f.sf(ratio, *freedoms), stats.f.cdf(ratio, *freedoms))
    return np.asarray(np.minimum(1.0, 2 * tails), dtype=np.float64)


def check_means(
    names: Sequence[str],
    first: tuple[int, FloatArray, FloatArray],
    second: tuple[int, FloatArray, FloatArray],
) -> Check:
    """Welch's t test of each variable's mean; given are rows, means and variances in each condition."""
    (n1, mean1, variance1), (n2, mean2, variance2) = first, second
    one, two = variance1 / n1, variance2 / n2
    error = np.sqrt(one + two)
    freedom = (one + two) ** 2 / (one**2 / (n1 - 1) + two**2 / (n2 - 1))
    shift = mean1 - mean2
    pvalues = np.asarray(2 * stats.t.sf(np.abs(shift) / error, freedom), dtype=np.float64)
    limit = LEVEL / len(names)
    moved = np.flatnonzero(pvalues <= limit)
    least = float(pvalues.min())
    if not len(moved):
        return Check("means", True, "no variable's mean was seen to move", least, limit)
    strongest = moved[np.argsort(pvalues[moved], kind="stable")]
    says = (
        f"the mean of {join_names(names[k] for k in strongest)} moved between the conditions, which effects "
        "and covariances do not show; see the changed intercepts for those of them whose own mean moved"
    )
    return Check("means", False, says, least, limit)


def moment_means(moments: Moments) -> tuple[int, FloatArray, FloatArray]:
    """Rows, means and variances of moments."""
    return moments.n, moments.mean, np.diag(moments.scatter) / max(moments.n - 1, 1)


def table_means(table: FloatArray, worth: float) -> tuple[int, FloatArray, FloatArray]:
    """The same of the rows of a table, which are worth so many independent ones."""
    return max(2, round(worth)), table.mean(axis=0), table.var(axis=0, ddof=1)
