"""How many false changes to expect among those that turn up in most of many halves of the tables.

Complementary pairs stability selection (Shah and Samworth 2013, Journal of the Royal Statistical Society B
75, 55-80) fits both halves of the rows for B random ways of halving them, and keeps what is found in a share
of at least tau of the 2B fits. Candidates that a single fit to half of the rows finds with probability at
most theta should not be kept. Whatever the method, the expected number of those that are is bounded, the
tighter the more regular the distribution of their shares may be taken to be:

    no assumption    q theta / (2 tau - 1)                                     their Theorem 1
    unimodal         q theta C(tau, B)                                         their Theorem 2
    r-concave        p min{D(theta^2, 2 tau - 1, B, -1/2), D(theta, tau, 2B, -1/4)}    their equation (8)

for p candidates of which a fit finds q on average, and theta = q / p. ``D(eta, t, B, r)`` is the largest
``P(X >= t)`` of a variable on ``0, 1/B, ..., 1`` with a mean of at most eta and an r-concave mass function f,
that is, one with ``f ** r`` convex (r < 0). Its maximum is attained where ``f ** r`` is linear from 0 up to
some k and f vanishes behind it: two constraints, total mass and mean, leave no room for a kink.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from diffdag._base.arrays import FloatArray
from diffdag._base.checks import check_whole
from diffdag._base.errors import InputError

_ROUNDING = 1e-9  # a share of k out of 2B may come as a decimal number a little above it
_TINY = 1e-15
_CLOSE = 1e-10
_MOST_STEPS = 60  # seven are enough as a rule


def expected_false_bound(q: float, candidates: int, cutoff: float, pairs: int) -> float:
    """Bound on the expected number of stable candidates that a single fit would hardly ever find.

    A fit to half of the rows finds `q` of the `candidates` on average; stable are those that a share of at
    least `cutoff`, above 1/2, of the fits to so many `pairs` of halves finds. "Hardly ever" means with a
    probability of at most ``q / candidates``. It is the smallest of the three bounds of the module's header,
    and supposes that the shares of such candidates have an r-concave distribution, which Shah and Samworth
    found in all their examples.

    >>> round(expected_false_bound(q=10, candidates=100, cutoff=0.6, pairs=50), 3)
    1.141
    """
    check_whole("candidates", candidates, least=1)
    check_whole("pairs", pairs, least=1)
    if not 0 <= q <= candidates:
        raise InputError(f"q must be between 0 and the number of candidates, {candidates}; it is {q!r}")
    if not 0.5 < cutoff <= 1:
        raise InputError(f"cutoff must be above 0.5 and at most 1; it is {cutoff!r}")
    found = math.ceil(2 * pairs * cutoff - _ROUNDING)  # fits that it takes
    return float(_bounds(float(q), int(candidates), int(pairs))[found - pairs - 1])


@lru_cache(maxsize=64)
def _bounds(q: float, candidates: int, pairs: int) -> FloatArray:
    """The bound for each cutoff, from ``1/2 + 1/(2 pairs)`` to 1 in steps of ``1/(2 pairs)``."""
    theta = q / candidates
    found = np.arange(pairs + 1, 2 * pairs + 1)
    excess = (found - pairs) / pairs  # 2 tau - 1
    both = largest_tails(theta**2, pairs, -1 / 2)[found - pairs]
    either = largest_tails(theta, 2 * pairs, -1 / 4, least=pairs + 1)[found]
    bounds: FloatArray = np.minimum(candidates * np.minimum(both, either), q * theta / excess)
    if q > 0:
        bounds = np.minimum(bounds, q * theta * _unimodal_constants(theta, pairs))
    bounds.flags.writeable = False
    return bounds


def _unimodal_constants(theta: float, pairs: int) -> FloatArray:
    """C(tau, B) of Theorem 2, infinite where the theorem says nothing."""
    tau = np.arange(pairs + 1, 2 * pairs + 1) / (2 * pairs)
    least = min(0.5 + theta**2, 0.5 + 1 / (2 * pairs) + 0.75 * theta**2)
    # The theorem starts at tau = 1/2 + 1/B.
    covered = (np.arange(1, pairs + 1) >= 2) & (tau > least) & (theta <= 1 / math.sqrt(3))
    low = 2 * (2 * tau - 1 - 1 / (2 * pairs))
    high = (1 + 1 / pairs) / (4 * (1 - tau + 1 / (2 * pairs)))
    constants: FloatArray = np.where(covered, 1 / np.where(tau <= 0.75, low, high), np.inf)
    return constants


def largest_tails(mean: float, steps: int, r: float, least: int = 1) -> FloatArray:
    """``D(mean, t, steps, r)`` for ``t = 0, 1/steps, ..., 1``; below ``least / steps`` not worked out, but 1.

    >>> largest_tails(0.25, 4, -1 / 2).round(3)
    array([1.   , 1.   , 0.333, 0.148, 0.061])
    """
    if mean < _TINY:  # Markov's inequality
        return np.append(1.0, mean * steps / np.arange(1, steps + 1))
    all_there = math.floor(mean * steps + _ROUNDING)  # where the whole mass can be
    last = np.arange(max(least, all_there + 1), steps + 1)
    tails: FloatArray = np.ones(steps + 1)
    if last.size:
        beyond = np.cumsum(_linear_masses(mean * steps, last, -1 / r)[:, ::-1], axis=1)[:, ::-1]
        tails[last] = beyond.max(axis=0)[last]
    return tails


def _linear_masses(mean: float, last: NDArray[np.int64], power: float) -> FloatArray:
    """For each k in `last`, the masses ``c (a + i) ** -power`` on i = 0, ..., k with that mean.

    A mean above k / 2 is that of the same masses in reversed order. The logit of 2 mean / k is an increasing
    concave function of log a, with a slope between 1 and `power`: Newton's method cannot fail.
    """
    place = np.arange(int(last[-1]) + 1)
    k = last[:, None]
    inside = place <= k
    wanted = np.minimum(mean, last - mean)
    share = np.clip(2 * wanted / last, None, 1 - _TINY * 10)
    goal = np.log(share) - np.log1p(-share)
    log_a = np.log(last) + np.minimum(goal, 0.0) / power
    for _ in range(_MOST_STEPS):
        a = np.exp(log_a)[:, None]
        weights = np.where(inside, (1 + place / a) ** -power, 0.0)
        weights /= weights.sum(axis=1, keepdims=True)
        now = weights @ place
        part = place / (a + place)
        slope = power * ((weights * part) @ place - now * (weights * part).sum(axis=1))
        left = last / 2 - now
        gap = goal - np.log(now / left)
        if np.max(np.abs(gap)) < _CLOSE:
            break
        log_a += gap * now * left / (slope * last / 2)
    turned = np.where(inside, np.take_along_axis(weights, np.maximum(k - place, 0), axis=1), 0.0)
    return np.where((mean <= last / 2)[:, None], weights, turned)
