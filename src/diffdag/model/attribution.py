"""Shapley values of changed mechanisms: how much of a change of means and variances each of them accounts for.

Along a causal order two conditions follow equations

    x_i = a_i + sum_j B_ij x_j + e_i,     Var e_i = D_i,

of which some mechanisms differ. A mechanism belongs to one equation, and moves parts of its row of B, its
intercept or its noise variance that no other moves. With mechanisms S as in the second condition and all others
as in the first, v(S) is the mean, or the variance, of a variable. What a mechanism accounts for is its Shapley
value (Shapley 1953), the average of ``v(S + k) - v(S)`` over all orders in which mechanisms may be changed.

That average over 2^m sets is an integral (Owen 1972): if every other mechanism is as in the second condition
with probability t, independently,

    phi_k = int_0^1 E[v(with k) - v(without k)] dt,

and the integrand is the derivative of ``E v`` by the probability of k. Given the mechanisms, means and
covariances are products of rows of B, each row once on either side, so that expectations are those of
independent rows: with T the inverse of ``I - E B``,

    E mean = T E a,     E Cov = T diag(w) T',     w_i = E D_i + t (1 - t) sum_l delta_l E Cov delta_l',

where l runs through the mechanisms of row i and ``delta_l`` is what l adds to the row. The derivatives are sums
of such products, and polynomials in t of a degree below m: Gauss and Legendre's rule with ``m / 2`` nodes gives
the Shapley values of any number of mechanisms, for all variables, at the cost of as many matrix inverses.

References: L. S. Shapley, A value for n-person games (1953); G. Owen, Multilinear extensions of games,
Management Science 18 (1972).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from diffdag._base.arrays import FloatArray, IntArray

MOST_NODES = 24
LARGEST = 2_000_000  # numbers of the matrices that are inverted at a time


@dataclass(frozen=True, eq=False)
class ChangedEquations:
    """The equations of the first condition, in causal order, and what mechanisms add to them in the second.

    A leading axis of all arrays but `rows` may count several versions of the equations, such as resamples.
    """

    weights: FloatArray  # [..., i, j], nothing on and above the diagonal
    intercepts: FloatArray  # [..., i]
    variances: FloatArray  # [..., i], of the noise
    rows: IntArray  # [k], the equation that each mechanism belongs to
    delta_weights: FloatArray  # [..., k, j], what it adds to the weights of that equation,
    delta_intercepts: FloatArray  # [..., k], to its intercept,
    delta_variances: FloatArray  # [..., k], and to its noise variance

    def __getitem__(self, which: slice) -> ChangedEquations:
        """Some of the versions."""
        return ChangedEquations(
            self.weights[which],
            self.intercepts[which],
            self.variances[which],
            self.rows,
            self.delta_weights[which],
            self.delta_intercepts[which],
            self.delta_variances[which],
        )


def total_effects(weights: FloatArray) -> FloatArray:
    """Total effect of each variable on each other, [..., effect, cause]: the inverse of ``I - B``."""
    # Rounding must not let an effect reach its causes.
    return np.asarray(np.tril(np.linalg.inv(np.eye(weights.shape[-1]) - weights)), dtype=np.float64)


def shapley_values(changed: ChangedEquations, nodes: int | None = None) -> tuple[FloatArray, FloatArray]:
    """Attribute the changes of all means and all variances, second minus first, to the mechanisms.

    Parameters
    ----------
    changed : ChangedEquations
        Both conditions.
    nodes : int, optional
        Nodes of the quadrature; left out, as many as make it exact.

    Returns
    -------
    means, variances : array [..., mechanism, variable]
        What each mechanism accounts for; a mechanism that does not reach a variable has zero.

    Examples
    --------
    Y = X becomes Y = 2 X + 1, where X has mean 3 and variance 1:

    >>> changed = ChangedEquations(
    ...     np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([3.0, 0.0]), np.array([1.0, 1.0]), np.array([1, 1]),
    ...     np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([0.0, 1.0]), np.zeros(2))
    >>> means, variances = shapley_values(changed)
    >>> means[:, 1], variances[:, 1]
    (array([3., 1.]), array([3., 0.]))
    """
    if changed.weights.ndim > 2:
        size = max(1, LARGEST // changed.weights.shape[-1] ** 2)
        starts = range(0, max(1, len(changed.weights)), size)
        parts = [_integrate(changed[k : k + size], nodes) for k in starts]
        return np.concatenate([means for means, _ in parts]), np.concatenate([own for _, own in parts])
    return _integrate(changed, nodes)


def _integrate(changed: ChangedEquations, nodes: int | None) -> tuple[FloatArray, FloatArray]:
    """Gauss and Legendre's rule between 0 and 1."""
    shape = (*changed.delta_weights.shape[:-1], changed.weights.shape[-1])
    means, variances = np.zeros(shape), np.zeros(shape)
    count = nodes or max(1, min(math.ceil(len(changed.rows) / 2), MOST_NODES))
    places, sizes = np.polynomial.legendre.leggauss(count)
    for place, size in zip(places.tolist() if len(changed.rows) else (), sizes.tolist(), strict=False):
        at_mean, at_variance = _derivatives(changed, (place + 1) / 2)
        means += size / 2 * at_mean
        variances += size / 2 * at_variance
    return means, variances


def _derivatives(changed: ChangedEquations, t: float) -> tuple[FloatArray, FloatArray]:
    """Of expected means and variances, by the probability of each mechanism, where all of these are t."""
    rows, delta = changed.rows, changed.delta_weights
    weights, intercepts, variances = changed.weights.copy(), changed.intercepts.copy(), changed.variances.copy()
    for k, i in enumerate(rows.tolist()):
        weights[..., i, :] += t * delta[..., k, :]
        intercepts[..., i] += t * changed.delta_intercepts[..., k]
        variances[..., i] += t * changed.delta_variances[..., k]
    total = total_effects(weights)
    # [..., k, i]: what the noise of i contributes to the row of mechanism k, and on which way from there.
    along = delta @ total
    onward = np.swapaxes(total[..., rows], -1, -2)
    step = changed.delta_intercepts + (along @ intercepts[..., None])[..., 0]
    spread = t * (1 - t)
    for k in np.argsort(rows, kind="stable").tolist():
        variances[..., rows[k]] += spread * (along[..., k, :] ** 2 * variances).sum(axis=-1)
    weighted = along * variances[..., None, :]
    both = weighted @ np.swapaxes(along, -1, -2)  # delta_k E Cov delta_l'
    beside = weighted @ np.swapaxes(total, -1, -2)  # delta_k E Cov
    # What a mechanism adds to the variances w, its own row first, then those of later mechanisms.
    added = np.zeros_like(along)
    for k, i in enumerate(rows.tolist()):
        added[..., k, i] = changed.delta_variances[..., k] + (1 - 2 * t) * both[..., k, k]
    for m in np.argsort(rows, kind="stable").tolist():
        reached = along[..., m, :][..., rows]  # [..., k], of the row of k
        moved = 2 * reached * both[..., m, :] + (added @ (along[..., m, :] ** 2)[..., None])[..., 0]
        added[..., rows[m]] += spread * moved * (rows < rows[m])
    means = onward * step[..., None]
    return means, 2 * onward * beside + added @ np.swapaxes(total**2, -1, -2)
