"""Whether what the method assumes looks right on these data: one check per assumption, each a `Check`.

Every check keeps its rate of false alarms on data that are as assumed at about 1 %, over all variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from diffdag.results.records import Check
from diffdag.tables.align import Tables
from diffdag.tables.robust import Covariance
from diffdag.trust.checks.levels import check_levels
from diffdag.trust.checks.measurement_error import check_error
from diffdag.trust.checks.moments_checks import (
    check_condition,
    check_means,
    check_noise,
    check_order,
    check_size,
    moment_means,
    table_means,
)
from diffdag.trust.checks.nested import check_nesting
from diffdag.trust.checks.outliers import check_outliers
from diffdag.trust.checks.residual_view import residual_view
from diffdag.trust.checks.reversals import check_reversals
from diffdag.trust.checks.row_checks import (
    check_duplicates,
    check_independence,
    check_normality,
)
from diffdag.trust.support import Reading, check_range

if TYPE_CHECKING:
    from diffdag.trust.fits import Fit

__all__ = ["check_moments_only", "check_tables"]


def check_tables(
    tables: Tables,
    fit: Fit,
    readings: Sequence[Reading] = (),
    *,
    covariance: Covariance = "sample",
    effective: bool = False,
    resampled: bool = False,
) -> tuple[Check, ...]:
    """Run all checks of a fit to two tables; those that apply are returned, always in the same order.

    `readings` are those of the edges with shared curves, `effective` is whether an effective sample size was
    given or estimated, `resampled` whether the result has confidence from resamples. Checks of rows look at no
    more than 100,000 of each table, evenly spaced (the first ones for autocorrelation and copies), and at no
    more than 200 variables. Nothing of size p x p is formed beyond these.
    """
    checks = check_moments_only(fit)
    if covariance != "spearman" and len(tables.names) > len(fit.kept):
        both = table_means(tables.first, fit.first.n), table_means(tables.second, fit.second.n)
        whole = check_means(tables.names, *both)
        if whole is not None and fit.first.mean_rows is None:
            checks = tuple(whole if check.name == "means" else check for check in checks)
    nested = check_nesting(tables)  # which says more than that rows resemble those before them
    view = residual_view(tables, fit, covariance)
    if view is None:
        few = check_range(readings), check_duplicates(tables)
        return tuple(check for check in (nested, *checks, *few) if check is not None)
    found = (
        check_normality(view, resampled=resampled),
        check_levels(view, fit),
        check_range(readings),
        None if nested is not None else check_independence(view, tables, effective=effective),
        check_duplicates(tables),
        check_outliers(view, fit),
    )
    return tuple(check for check in (nested, *checks, *found) if check is not None)


def check_moments_only(fit: Fit) -> tuple[Check, ...]:
    """Run the checks of a fit that need no rows."""
    first, second = fit.first, fit.second
    found = (
        check_size(fit),
        check_condition(first, second),
        check_noise(fit),
        check_means(first.names, moment_means(first), moment_means(second)),
        check_order(fit),
        check_reversals(fit),
        check_error(fit),
    )
    return tuple(check for check in found if check is not None)
