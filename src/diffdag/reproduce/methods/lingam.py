"""Joint estimation of linear non-Gaussian models (Shimizu 2012): one causal order for both conditions.

DirectLiNGAM (Shimizu et al. 2011) finds an exogenous variable, takes it out of the others by regression, and
goes on. With the sign convention that a larger value speaks for ``i -> j``, the pair's likelihood ratio is

    R[i, j] = H(x_j) + H(r_ij / sd) - H(x_i) - H(r_ji / sd),    r_ij = x_i - b x_j,

on standardised variables, with the entropy approximation of Hyvärinen (1998); the next variable is the one
with the smallest ``sum_j min(0, R[i, j])^2`` (Hyvärinen and Smith 2013), added over conditions in proportion
to their rows. Along the order that comes out, changed effects are those of `oracle`: tests of coefficients.
The authors' package regresses by an adaptive lasso in each condition instead, and leaves the comparison to
the user.

Gaussian noise tells nothing about the order; then it is close to drawn at random. It needs rows.
"""

from __future__ import annotations

import math

import numpy as np

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag.reproduce.methods.method import Method
from diffdag.reproduce.methods.oracle import oracle
from diffdag.tables.moments import Moments

K1, K2, GAMMA = 79.047, 7.4129, 0.37457  # of the entropy approximation
LOG2 = math.log(2)


def entropy(values: FloatArray) -> FloatArray:
    """Approximate entropies of standardised variables, one per entry of all axes but the last."""
    size = np.abs(values)
    log_cosh = (size + np.log1p(np.exp(-2 * size)) - LOG2).mean(axis=-1)
    skewed = (values * np.exp(-(values**2) / 2)).mean(axis=-1)
    found: FloatArray = (1 + math.log(2 * math.pi)) / 2 - K1 * (log_cosh - GAMMA) ** 2 - K2 * skewed**2
    return found


def penalties(rows: FloatArray) -> FloatArray:
    """``sum_j min(0, R[i, j])^2`` for each variable of a table, one variable per row; small is exogenous."""
    x = (rows - rows.mean(axis=1, keepdims=True)) / rows.std(axis=1, keepdims=True)
    own, correlation = entropy(x), x @ x.T / x.shape[1]
    left = np.empty_like(correlation)  # [i, j] the entropy of what j leaves of i
    for i, row in enumerate(correlation):
        scale = np.sqrt(np.maximum(1 - row**2, 1e-12))
        left[i] = entropy((x[i] - row[:, None] * x) / scale[:, None])
    ratio = own[None, :] + left - own[:, None] - left.T
    np.fill_diagonal(ratio, 0.0)
    found: FloatArray = (np.minimum(ratio, 0.0) ** 2).sum(axis=1)
    return found


def joint_order(tables: tuple[FloatArray, FloatArray]) -> tuple[int, ...]:
    """The causal order of the columns, causes first, from the rows of both conditions."""
    parts = [table.T - table.mean(axis=0)[:, None] for table in tables]
    total = sum(part.shape[1] for part in parts)
    left, order = list(range(len(parts[0]))), []
    while len(left) > 1:
        badness = sum((part.shape[1] / total) * penalties(part) for part in parts)
        k = int(np.argmin(badness))
        order.append(left.pop(k))
        for which, part in enumerate(parts):
            others = np.delete(part, k, axis=0)
            parts[which] = others - np.outer(others @ part[k] / (part[k] @ part[k]), part[k])
    return (*order, *left)


def multigroup_lingam(first: FloatArray, second: FloatArray) -> BoolArray:
    """Changed effects along the joint order, by tests, from two tables of rows."""
    order = joint_order((first, second))
    return oracle(Moments.from_array(first), Moments.from_array(second), order)


ROW_METHODS = (
    Method(
        "multigroup-lingam",
        "one order from non-Gaussian noise (Shimizu 2012), then tests",
        multigroup_lingam,
        most=60,
    ),
)
