"""Changed effects along an order, by estimates that know the shape of the noise.

Where the noise of a variable is not Gaussian, least squares waste information: with a density f of u, noise of
variance one, coefficients can be known as well as from ``I = E (f'/f)^2`` times as many rows. Estimates reach
that if they solve ``sum x psi(u) = 0`` with ``psi = -f'/f`` estimated from the residuals (Bickel 1982, Ann.
Statist. 10; Kreiss 1987). Among the functions of the negentropy in `shape` and u itself,

    psi = a'h,   h = (u, u exp(-u^2 / 2), exp(-u^2 / 2)),   a = (E hh')^-1 E h'   minimises   E (a'h + f'/f)^2

(Cox 1985, Ann. Statist. 13), and then ``E psi' = E psi^2 <= I``. A Newton step from coefficients b is least
squares of the pseudo-response ``X b + s psi(u) / E psi'`` on X, with s the standard deviation of the noise: all
that least squares are used for, choosing changes, weights and their errors, can then be done with pseudo-
responses in place of a variable. Their residuals are multiplied by ``1 + k/n Var(psi') / (E psi')^2`` (Huber
1973, Ann. Statist. 1), for the k coefficients that psi was solved for.

Consistency asks for noise that is independent of the predecessors, not for a right psi: `shape` sees to that.
Gains, noise variances and intercepts stay those of least squares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from diffdag._base.arrays import FloatArray
from diffdag.ordersearch.rules import GAIN, make_rules
from diffdag.ordersearch.search import Edge, Found, Problem, Responses, read_order, weigh_changes

STEPS = 3  # Newton steps from least squares


def pseudo_responses(before: Sequence[FloatArray], target: Sequence[FloatArray]) -> tuple[FloatArray, ...]:
    """What stands for a variable in its regression on those before it, by condition.

    Parameters
    ----------
    before : two ndarrays of shape (n, k)
        Centred rows of the predecessors.
    target : two ndarrays of shape (n,)
        Centred rows of the variable.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, noise = rng.standard_normal((2, 500, 1)), rng.exponential(size=(2, 500)) - 1
    >>> made = pseudo_responses(x, noise)
    >>> bool(np.var(made) < 0.4 * np.var(noise))
    True
    """
    roots = [np.linalg.qr(own)[0] for own in before]
    fitted = [root @ (root.T @ y) for root, y in zip(roots, target, strict=True)]
    k, first = before[0].shape[1], len(target[0])
    for _ in range(STEPS):
        left = [y - own for y, own in zip(target, fitted, strict=True)]
        scales = [math.sqrt(float(own @ own) / max(len(own) - k - 1, 1)) for own in left]
        psi, slope = _score_function(np.concatenate([own / s for own, s in zip(left, scales, strict=True)]))
        noise = [s * own / slope.mean() for s, own in zip(scales, np.split(psi, [first]), strict=True)]
        noise = [own - own.mean() for own in noise]
        along = [root @ (root.T @ own) for root, own in zip(roots, noise, strict=True)]
        fitted = [own + step for own, step in zip(fitted, along, strict=True)]
    uneven = float(slope.var() / slope.mean() ** 2)
    return tuple(
        own + (rest - step) * (1 + k / len(rest) * uneven)
        for own, rest, step in zip(fitted, noise, along, strict=True)
    )


def _score_function(u: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The function psi of residuals of variance one, and its derivative."""
    bell = np.exp(-0.5 * u * u)
    h = np.column_stack([u, u * bell, bell])
    slopes = np.column_stack([np.ones_like(u), (1 - u * u) * bell, -u * bell])
    h -= h.mean(axis=0)
    a = np.linalg.lstsq(h.T @ h, slopes.sum(axis=0), rcond=None)[0]
    return h @ a, slopes @ a


@dataclass(frozen=True, eq=False)
class Sharpened:
    """What an order says if effects are estimated with pseudo-responses, and these, by variable."""

    found: Found
    rises: dict[Edge, float]  # what the score rises by without a change
    responses: Responses


def sharpen(
    problem: Problem, found: Found, tables: Sequence[FloatArray], variables: Sequence[int]
) -> Sharpened:
    """Choose the changed effects on some variables anew, by pseudo-responses.

    `tables` are centred rows, a row per variable. Whether noise variances differ, and gains, stay as found.
    """
    changed, rises = found.changed.copy(), weigh_changes(problem, found)
    responses = {}
    for i in variables:
        earlier = found.before(i)
        if not earlier or found.gains[i]:
            continue
        made = pseudo_responses([own[earlier].T for own in tables], [own[i] for own in tables])
        along = _with_response(problem, found, tables, i, made)
        changed[i] = read_order(along, found.order).changed[i]
        only = np.zeros_like(changed)
        only[i] = changed[i]
        rises = {edge: rise for edge, rise in rises.items() if edge[0] != i}
        rises |= weigh_changes(along, replace(found, changed=only))
        responses[i] = made[0], made[1]
    return Sharpened(replace(found, changed=changed), rises, responses)


def _with_response(
    problem: Problem, found: Found, tables: Sequence[FloatArray], i: int, made: Sequence[FloatArray]
) -> Problem:
    """The problem with pseudo-responses of a variable, weighted so that one noise variance does for both."""
    p, rules = problem.p, problem.rules
    scale = np.sqrt(np.mean([np.einsum("ij,ij->i", own, own) / own.shape[1] for own in tables], axis=0))
    earlier, parts = found.before(i), []
    for own, response, worth in zip(tables, made, (rules.n1, rules.n2), strict=True):
        rows = own / scale[:, None]
        rows[i] = response / scale[i]
        sums = np.zeros((p + 1, p + 1))
        sums[:p, :p] = rows @ rows.T * (worth / rows.shape[1])
        sums[p, p] = worth
        if found.separate[i]:
            slopes = np.linalg.lstsq(sums[np.ix_(earlier, earlier)], sums[earlier, i], rcond=None)[0]
            sums /= (sums[i, i] - sums[i, earlier] @ slopes) / (worth - len(earlier) - 1)
        parts.append(sums)
    table = rules.table.copy()
    table[GAIN] = np.inf
    one_variance = make_rules(rules.n1, rules.n2, table, True, rules.before)
    return replace(problem, first=parts[0], pooled=parts[0] + parts[1], rules=one_variance)
