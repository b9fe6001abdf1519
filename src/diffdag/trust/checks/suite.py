"""Whether what the method assumes looks right on these data: one check an assumption, each a `Check`.

Every check keeps its rate of false alarms on data that are as assumed at about 1 %, over all variables.
"""

from __future__ import annotations

from collections.abc import Mapping

from diffdag.results.difference import Difference
from diffdag.results.records import Check
from diffdag.tables.align import Tables
from diffdag.tables.moments import Moments
from diffdag.tables.robust import RANKED
from diffdag.trust.checks.moments_checks import (
    check_condition,
    check_means,
    check_noise,
    check_order,
    check_size,
    moment_means,
    table_means,
)
from diffdag.trust.checks.outliers import check_outliers
from diffdag.trust.checks.residual_view import chosen_covariance, look
from diffdag.trust.checks.reversals import check_reversals
from diffdag.trust.checks.row_checks import (
    check_duplicates,
    check_independence,
    check_linearity,
    check_normality,
)

__all__ = ["check_moments_only", "check_tables"]


def check_tables(
    tables: Tables,
    first: Moments,
    second: Moments,
    result: Difference,
    *,
    given: Mapping[str, object] | None = None,
) -> tuple[Check, ...]:
    """All checks of an answer from two tables.

    Parameters
    ----------
    tables : Tables
        The rows behind the answer.
    first, second : Moments
        Moments that the answer was made from; of the variables that were ordered, where some were screened out.
    result : Difference
        The answer.
    given : mapping, optional
        Options that were used: ``covariance`` and ``effective_samples`` as in `diffdag.DifferenceDAG`.

    Returns
    -------
    tuple of Check
        Those that apply, the same order for every answer.

    Notes
    -----
    Checks of rows look at no more than 100,000 of each table, evenly spaced (the first ones for autocorrelation
    and copies), and at no more than 200 variables. Nothing of size p x p is formed beyond these.

    Examples
    --------
    >>> import diffdag as dd
    >>> from diffdag.tables.align import align_tables
    >>> pair = dd.simulate_pair(p=6, neighbours=3, changes=1, weights=(0.8, 1.0), rng=4)
    >>> tables = align_tables(pair.first.sample(900, rng=1) + 5, pair.second.sample(900, rng=2))
    >>> one, two = (dd.Moments.from_array(table) for table in (tables.first, tables.second))
    >>> result = dd.DifferenceDAG().fit_moments(one, two).result_
    >>> [check.name for check in check_tables(tables, one, two, result) if not check.passed]
    ['means']
    """
    options = given or {}
    checks = check_moments_only(first, second, result)
    if chosen_covariance(options) not in RANKED and len(tables.names) > len(first.names):
        whole = _all_means(tables, first, second)
        checks = tuple(whole if check.name == "means" else check for check in checks)
    view = look(tables, first, second, result, options)
    if view is None:
        return (*checks, check_duplicates(tables))
    found = (
        check_normality(view, resampled=result.stability is not None),
        check_linearity(view),
        check_independence(view, tables, options),
        check_duplicates(tables),
        check_outliers(view, result),
    )
    return (*checks, *(check for check in found if check is not None))


def check_moments_only(first: Moments, second: Moments, result: Difference) -> tuple[Check, ...]:
    """The checks of an answer that need no rows; parameters as for `check_tables`.

    Examples
    --------
    >>> import diffdag as dd
    >>> pair = dd.simulate_pair(p=6, neighbours=3, changes=1, weights=(0.8, 1.0), rng=4)
    >>> one, two = pair.first.sample_moments(900, rng=1), pair.second.sample_moments(900, rng=2)
    >>> checks = check_moments_only(one, two, dd.DifferenceDAG().fit_moments(one, two).result_)
    >>> [check.name for check in checks]
    ['sample size', 'condition', 'noise variances', 'means', 'order', 'reversals']
    >>> all(check.passed for check in checks)
    True
    """
    found = (
        check_size(first, second, result),
        check_condition(first, second),
        check_noise(first, second, result),
        check_means(first.names, moment_means(first), moment_means(second)),
        check_order(result),
        check_reversals(first, second, result),
    )
    return tuple(check for check in found if check is not None)


def _all_means(tables: Tables, first: Moments, second: Moments) -> Check:
    """The check of means for all variables, those that were screened out too."""
    return check_means(tables.names, table_means(tables.first, first.n), table_means(tables.second, second.n))
