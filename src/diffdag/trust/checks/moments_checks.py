"""Checks that need no rows: sample size, similar columns, one best order, noise variances and means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, cholesky
from scipy.special import gammaln, stdtr

from diffdag._base.arrays import FloatArray
from diffdag._base.words import join_names, option_words, plural
from diffdag.model.regression import equal_variances
from diffdag.results.records import Check
from diffdag.tables.moments import Moments
from diffdag.trust.checks.residual_view import LABELS, LEVEL, WIDEST, changed_noise, settled_names

if TYPE_CHECKING:
    from diffdag.trust.fits import Fit

# Half a change of partial correlation, as in the paper's experiments.
EPSILON = 0.1
# Rows a variable below which regressions on all the others have too few left.
ROWS_PER_VARIABLE = 4
# A direction in which the columns vary a million times less than in another: to see it takes four digits.
CONDITION = 1e6
# Columns whose share in that direction is at least this part of the largest are named.
SHARE = 0.2


def check_size(fit: Fit) -> Check:
    """Rows against what regressions need, and against the least that any method needs.

    The latter is the argument of the paper's Theorem 4 for changes of partial correlation 0.2: see
    `effect_lower_bound`. The theorem's own sufficient numbers are worst cases far beyond practice, and would
    call every table too short.
    """
    rows, p, ordered = min(fit.first.n, fit.second.n), len(fit.names), len(fit.kept)
    fewest = ROWS_PER_VARIABLE * ordered
    changes = max(1, len(fit.difference.edge_list))
    hopeless = effect_lower_bound(p, changes, EPSILON)
    limit = max(fewest, hopeless)
    if rows > limit:
        says = f"{rows} rows in the smaller table are not obviously too few for {p} variables"
        return Check("sample size", True, says, rows, limit)
    if rows <= hopeless:
        why = (
            f"with {int(hopeless)} or fewer no method finds changes of partial correlation {2 * EPSILON:g} "
            "reliably (the paper's Theorem 4)"
        )
    else:
        why = f"regressions on up to {plural(ordered - 1, 'variable')} want at least {fewest}"
    says = (
        f"{rows} rows in the smaller table are few for {p} variables: {why}; only strong changes can be "
        "found, so take absent ones for unknown, and get more rows or compare fewer variables"
    )
    return Check("sample size", False, says, rows, limit)


def effect_lower_bound(p: int, changes: int, epsilon: float) -> float:
    """The argument of Theorem 4 for at most so many changes, each of partial correlation ``2 epsilon``.

    Ours, not the paper's. In the first model nothing acts on anything; in the second ``k`` variables of one
    half have one cause each, all different, in the other half, with partial correlation ``2 epsilon``. A row of
    the second table then tells at most ``k w^2 / 2`` nats, ``w^2 = 4 epsilon^2 / (1 - 4 epsilon^2)``, and by
    Fano's inequality the error, averaged over the family, is at least 1/2. The best ``k <= changes`` is taken.

    >>> round(effect_lower_bound(157, 12, 0.1))
    184
    """
    few, many = p // 2, p - p // 2
    k = np.arange(1, min(changes, few) + 1)
    choices = (
        gammaln(few + 1) - gammaln(k + 1) - gammaln(few - k + 1) + gammaln(many + 1) - gammaln(many - k + 1)
    )
    strength = 4 * epsilon**2 / (1 - 4 * epsilon**2)
    return max(0.0, float(((choices / 2 - math.log(2)) / (k * strength / 2)).max()))


def check_condition(first: Moments, second: Moments) -> Check:
    """Condition number of each correlation matrix, and the columns that make it large."""
    worst, where = 0.0, LABELS[0]
    names: tuple[str, ...] = ()
    for moments, label in zip((first, second), LABELS, strict=True):
        number, columns = _condition(moments)
        if number > worst:
            worst, where, names = number, label, columns
    if worst <= CONDITION:
        says = f"no columns are close to linearly dependent (condition number {worst:.2g})"
        return Check("condition", True, says, worst, CONDITION)
    says = (
        f"columns {join_names(names)} are nearly linearly dependent in the {where} table (condition number "
        f"{worst:.1g}), so that changes among them rest on differences the size of rounding or measurement "
        "error; drop or merge some of them"
    )
    return Check("condition", False, says, worst, CONDITION)


def _condition(moments: Moments) -> tuple[float, tuple[str, ...]]:
    """Condition number of the correlations of at most 200 variables; columns that are nearly dependent."""
    scatter = moments.scatter[:WIDEST, :WIDEST]
    if moments.n <= len(scatter):
        return 0.0, ()
    scale = np.sqrt(np.diag(scatter))
    values, vectors = np.linalg.eigh(scatter / np.outer(scale, scale))
    least = np.abs(vectors[:, 0])
    columns = tuple(moments.names[k] for k in np.flatnonzero(least >= SHARE * least.max()))
    return float(values[-1] / max(values[0], 1e-300)), columns


# A direction is nearly tied if its reversal costs no more than this: a likelihood ratio of less than 5.
SLIM = 1.5
# So many near-ties make an alarm; with few rows a single one is common, and is told by the edge itself.
TIES = 2


def check_order(fit: Fit) -> Check:
    """Edges without direction, directions nearly tied, and whether the search met its optimum twice."""
    starts, reached = (fit.optimum.starts, fit.optimum.reached) if fit.method == "order" else (0, 0)
    found = fit.margins if fit.method == "order" else {}
    if starts and reached < 2:
        says = (
            f"{'only one' if reached else 'none'} of {starts} starts of the search found these changes by "
            "itself, so that a better order may exist; compare fewer variables, or give what is known (tiers, "
            "directions)"
        )
        return Check("order", False, says)
    tied = [str(edge) for edge in fit.difference.edge_list if not edge.directed]
    slim = [name for name, margin in sorted(found.items(), key=lambda item: item[1]) if margin <= SLIM]
    open_ones = max(tied, slim, key=len)
    if len(open_ones) >= TIES:
        says = (
            f"the directions of {join_names(open_ones)} are open or settled by a slim margin: other orders "
            "explain the changes about as well; take these pairs without direction, or give what is known "
            "(tiers, directions)"
        )
        return Check("order", False, says, len(open_ones), TIES)
    if open_ones:
        says = f"the direction of {open_ones[0]} is open or settled by a slim margin; all others are clearer"
        return Check("order", True, says, 1, TIES)
    weak = [str(edge) for edge in fit.difference.edge_list if not edge.settled]
    says = "no other order directs these changes otherwise and explains the data nearly as well"
    if weak:
        says += f"; orders without {join_names(weak)} do"
    return Check("order", True, says, 0, TIES)


def check_noise(fit: Fit) -> Check | None:
    """Fisher's test of equal residual variances along the order, where the method assumes them equal.

    Where it does not, only says which changed. None if there are too few rows.
    """
    if fit.method == "order" and not fit.equal_noise:
        found = changed_noise(fit.difference)
        says = (
            f"noise variances of {join_names(found)} differ between the conditions; the method allows for that"
            if found
            else "no noise variance was seen to differ between the conditions"
        )
        return Check("noise variances", True, says)
    names = settled_names(fit)
    tested = _variance_tests(fit.first.select(names), fit.second.select(names))
    if tested is None:
        return None
    limit = LEVEL / len(names)
    least = float(tested.min())
    if least > limit:
        says = "noise variances, assumed to be equal in both conditions, show no difference"
        return Check("noise variances", True, says, least, limit)
    moved = join_names(names[k] for k in np.flatnonzero(tested <= limit))
    remedy = option_words(*(("method", "order") if fit.method == "paper" else ("noise", "auto")))
    says = (
        f"noise variances of {moved} differ between the conditions, though they are assumed to be equal: "
        f"edges into or between them may be there only for that; use {remedy}, which allows for it"
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
    return equal_variances(variances[0] / variances[1], *freedoms)


def check_means(
    names: Sequence[str],
    first: tuple[int, FloatArray, FloatArray],
    second: tuple[int, FloatArray, FloatArray],
) -> Check | None:
    """Welch's t test of each variable's mean; given are rows, means and variances in each condition.

    None where rows say nothing of the means, as where they are nested.
    """
    if not (first[0] and second[0]):
        return None
    (n1, mean1, variance1), (n2, mean2, variance2) = first, second
    one, two = variance1 / n1, variance2 / n2
    error = np.sqrt(one + two)
    freedom = (one + two) ** 2 / (one**2 / (n1 - 1) + two**2 / (n2 - 1))
    shift = mean1 - mean2
    pvalues = np.asarray(2 * stdtr(freedom, -np.abs(shift) / error), dtype=np.float64)
    limit = LEVEL / len(names)
    moved = np.flatnonzero(pvalues <= limit)
    least = float(pvalues.min())
    if not len(moved):
        return Check("means", True, "no variable's mean was seen to move", least, limit)
    strongest = moved[np.argsort(pvalues[moved], kind="stable")]
    says = (
        f"the mean of {join_names(names[k] for k in strongest)} moved between the conditions; see the changed "
        "intercepts for those of them whose own mean moved, and remember that a bent effect looks changed "
        "where the range of its cause moved"
    )
    return Check("means", False, says, least, limit)


def moment_means(moments: Moments) -> tuple[int, FloatArray, FloatArray]:
    """Rows, means and variances of moments."""
    worth = (
        moments.n if moments.mean_rows is None else max(2, round(moments.mean_rows)) * (moments.mean_rows > 0)
    )
    return worth, moments.mean, np.diag(moments.scatter) / max(moments.n - 1, 1)


def table_means(table: FloatArray, worth: float) -> tuple[int, FloatArray, FloatArray]:
    """Rows, means and variances of a table that is worth so many independent rows."""
    return max(2, round(worth)), table.mean(axis=0), table.var(axis=0, ddof=1)
