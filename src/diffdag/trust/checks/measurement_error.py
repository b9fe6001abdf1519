"""Would the changes stand if the columns were measured with error?

Error in the columns blurs what acts on what: a changed effect spreads to neighbours of its cause, and looks
like several. Suppose that a share of each column's noise variance, the same for all, is error of its own. Taken
off the diagonals of both scatter matrices, it leaves those of what was meant to be measured; the regressions
along the order are fitted to these, with the changes that were found, and with the error added back they give
the covariance matrices of the columns as they are (Fuller 1987, *Measurement Error Models*, chapter 2). Their
Gaussian likelihood, as a function of the share, has its maximum near zero where nothing is measured with error.
The check compares the maximum with the likelihood at zero; if it is clearly larger, the search goes on from the
order found, on the corrected moments, and what it no longer finds is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, eigh, solve_triangular

from diffdag._base.arrays import FloatArray
from diffdag._base.words import join_names
from diffdag.ordersearch.search import SWEEPS, WINDOW, changed_edges, walk_from
from diffdag.results.records import Check
from diffdag.tables.moments import Moments
from diffdag.trust.checks.residual_view import WIDEST

if TYPE_CHECKING:
    from diffdag.ordersearch.fit import OrderFit, Structure
    from diffdag.trust.fits import Fit

LIMIT = 4.0  # of log-likelihood; chi-squared with one degree of freedom exceeds twice that in 0.5 %
# Shares that are tried in turn, of the largest that leaves the scatter matrices positive definite.
TRIED = tuple(k / 10 for k in range(1, 10))
Pair = tuple[Moments, Moments]


class Error(NamedTuple):
    """Error in the columns that explains the data best."""

    share: float  # of the noise variance of each column
    variances: FloatArray
    gained: float  # of log-likelihood, against none


def check_error(fit: Fit) -> Check | None:
    """Whether error in the columns explains the data better, and which changes would go."""
    if fit.method != "order" or len(fit.kept) > WIDEST:
        return None
    limit = LIMIT * fit.settings.inflation.change  # where chance gains more on these rows, as penalties are
    if not fit.optimum.margins:
        return Check(
            "measurement error", True, "there is no change for error in the columns to blur", None, LIMIT
        )
    try:
        error = likeliest_error(fit)
    except LinAlgError:
        return None
    if error.gained <= limit:
        says = "nothing suggests that the columns are measured with error"
        return Check("measurement error", True, says, error.gained, limit)
    gone = _edges_that_go(fit, error)
    which = f"{join_names(gone)} would then not be claimed" if gone else "all of them would be claimed then too"
    says = (
        f"the data are explained better if about {100 * error.share:.2g} % of each column's noise variance is "
        f"measurement error, or something like it: {which}; average repeated measurements, or leave out "
        "columns that are measured badly"
    )
    return Check("measurement error", False, says, error.gained, limit)


def likeliest_error(fit: OrderFit) -> Error:
    """The error up to which the data are explained better and better, given the order and the changes found."""
    both = fit.first, fit.second
    noise = _noise_variances(fit.structure, both)
    largest = min(
        float(eigh(moments.scatter / moments.n, np.diag(noise), eigvals_only=True, subset_by_index=(0, 0))[0])
        for moments in both
    )
    none = _log_likelihood(fit.structure, both, np.zeros(len(noise)))
    best = Error(0.0, np.zeros(len(noise)), 0.0)
    for share in (part * largest for part in TRIED):
        gained = _log_likelihood(fit.structure, both, share * noise) - none
        if gained < best.gained:
            break
        best = Error(share, share * noise, gained)
    return best


def without_error(both: Pair, variances: FloatArray) -> Pair:
    """Moments of what was meant to be measured."""
    first, second = (
        Moments(moments.names, moments.n, moments.mean, moments.scatter - moments.n * np.diag(variances))
        for moments in both
    )
    return first, second


def _edges_that_go(fit: OrderFit, error: Error) -> list[str]:
    """Edges that a search from the order found does not find on corrected moments, either way round."""
    moments = without_error((fit.first, fit.second), error.variances)
    problem = fit.settings.problem(*moments, fit.problem.before, len(fit.names))
    if fit.problem.is_free:
        problem = problem.free
    found = walk_from(problem, fit.structure.order, sweeps=SWEEPS, careful=SWEEPS, window=WINDOW)
    names = fit.first.names
    there = {frozenset((names[i], names[j])) for i, j in changed_edges(problem, found)}
    return [
        str(edge) for edge in fit.difference.edge_list if frozenset((edge.source, edge.target)) not in there
    ]


def _noise_variances(structure: Structure, both: Pair) -> FloatArray:
    """Residual variances along the order in both conditions together."""
    order = list(structure.order)
    root = np.linalg.cholesky(_pooled(both)[np.ix_(order, order)])
    variances: FloatArray = np.empty(len(order))
    variances[order] = np.diag(root) ** 2
    return variances


def _pooled(both: Pair) -> FloatArray:
    first, second = both
    pooled: FloatArray = (first.scatter + second.scatter) / (first.n + second.n)
    return pooled


def _log_likelihood(structure: Structure, both: Pair, error: FloatArray) -> float:
    """Of the moments as they are, up to a constant, if the columns have error of these variances."""
    total = 0.0
    for moments, covariance in zip(both, _covariances(structure, without_error(both, error)), strict=True):
        implied = covariance + np.diag(error)
        fitted = np.trace(np.linalg.solve(implied, moments.scatter))
        total -= (moments.n * np.linalg.slogdet(implied)[1] + fitted) / 2
    return float(total)


def _covariances(structure: Structure, both: Pair) -> list[FloatArray]:
    """Covariance matrices that the regressions along the order imply, in each condition."""
    order, rows = list(structure.order), sum(moments.n for moments in both)
    root = np.linalg.cholesky(_pooled(both)[np.ix_(order, order)])
    p, own = len(order), np.diag(root)
    # Rows of the inverse of the factor, scaled, are one minus the coefficients.
    shared = solve_triangular(root / own, np.eye(p), lower=True, unit_diagonal=True)
    residuals, variances = np.array([shared, shared]), np.array([own**2, own**2])
    for i in structure.separate.union(structure.causes, structure.gains):
        place, fit = order.index(i), structure.joint_fit(*both, i)
        residuals[:, place, :place] = 0.0
        residuals[:, place, [order.index(j) for j in structure.predecessors(i)]] = -fit.coefficients
        free = i in structure.separate or i in structure.gains
        variances[:, place] = fit.rest / fit.counts if free else fit.rest.sum() / rows
    back, found = np.argsort(order), []
    for residual, variance in zip(residuals, variances, strict=True):
        effects = solve_triangular(residual, np.eye(p), lower=True, unit_diagonal=True)
        found.append((effects * variance @ effects.T)[np.ix_(back, back)])
    return found
