"""Are the rows enough, and the columns different enough, to tell changes from chance?"""

from __future__ import annotations

import numpy as np

from diffdag._base.words import join_names
from diffdag.reproduce.planning import effect_lower_bound
from diffdag.results.evidence import Check
from diffdag.results.result import DifferenceResult
from diffdag.tables.moments import Moments
from diffdag.trust.checks.residual_view import LABELS, WIDEST

# Half a change of partial correlation, as in the paper's experiments.
EPSILON = 0.1
# Rows a variable below which regressions on all the others have too few left.
ROWS_PER_VARIABLE = 4
# A direction in which the columns vary a million times less than in another: to see it takes four digits.
CONDITION = 1e6
# Columns whose share in that direction is at least this part of the largest are named.
SHARE = 0.2


def check_size(first: Moments, second: Moments, result: DifferenceResult) -> Check:
    """Rows against what regressions need, and against the least that any method needs.

    The latter is the argument of the paper's Theorem 4 for changes of partial correlation 0.2: see
    `diffdag.reproduce.planning.effect_lower_bound`. The theorem's own sufficient numbers are worst cases far
    beyond practice, and would call every table too short.
    """
    rows, p = min(first.n, second.n), len(result.variables)
    ordered = p - len(_screened_out(result))
    fewest = ROWS_PER_VARIABLE * ordered
    changes = max(1, len(result.edge_list))
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
        why = f"regressions on up to {ordered - 1} variables want at least {fewest}"
    says = (
        f"{rows} rows in the smaller table are few for {p} variables: {why}; only strong changes can be "
        "found, so take absent ones for unknown, and get more rows or compare fewer variables"
    )
    return Check("sample size", False, says, rows, limit)


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


def _screened_out(result: DifferenceResult) -> list[object]:
    out = result.settings.get("screened_out")
    return out if isinstance(out, list) else []
