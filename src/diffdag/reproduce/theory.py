"""The theorems of the paper as numbers (Ghoshal, Bello and Honorio, section 3 and appendices A and B).

For two known models `conditions` works out whether the incoherence condition of Theorem 3 holds and how many
rows Theorem 3, Corollary 2, Theorem 4 and appendix B speak of. The constants come from the proofs; where the
paper has a slip, the formula here is the corrected one. docs/theory.md derives each and says which are
worst-case.

``Delta`` is ``Omega1 - Omega2``, ``|.|_1`` the sum of absolute entries, ``d`` the number of non-zero entries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from diffdag._base.arrays import FloatArray
from diffdag._base.errors import InputError
from diffdag._base.words import named
from diffdag.model.sem import LinearSEM
from diffdag.model.simulate import SEMPair, ancestral_sets, assumption_epsilon

RAVIKUMAR = 3200.0  # 128 (1 + 4 s^2)^2 with s = 1: Lemma 1 of Ravikumar et al. (2011) for Gaussian variables
PAPER_EPSILON = 0.1
PAPER_EXPONENTS = range(5, 14)
SUBSET_VARIABLES = 12  # beyond so many variables the up to 2^p sets of Assumption 3 are not visited
ROUNDING = 1e-8  # entries of Delta below this, on the scale of partial correlations, are zero


def largest_off_diagonal(first: FloatArray, second: FloatArray) -> float:
    """``K^o_max``: the largest absolute off-diagonal entry of the Kronecker product of two covariances.

    An entry is ``Sigma1[i, k] Sigma2[j, l]``; it lies off the diagonal unless ``i = k`` and ``j = l``. The
    subscripts printed in Theorem 3 are others: see `printed_off_diagonal`.
    """
    one, two = np.abs(first), np.abs(second)
    off_one, off_two = (float((size - np.diag(np.diag(size))).max()) for size in (one, two))
    return max(off_one * float(two.max()), float(one.max()) * off_two)


def printed_off_diagonal(first: FloatArray, second: FloatArray) -> float:
    """``K^o_max`` as printed: the largest ``|Sigma1[i, j] Sigma2[k, l]|`` with ``(i, j) != (k, l)``.

    This takes in products of two variances, which is why no two models with a change satisfy the condition
    in its printed form.
    """
    one, two = np.abs(first).ravel(), np.abs(second).ravel()
    i, k = int(one.argmax()), int(two.argmax())
    if i != k:
        return float(one[i] * two[k])
    return max(
        float(one[i] * np.delete(two, k).max(initial=0)), float(np.delete(one, i).max(initial=0) * two[k])
    )


def smallest_diagonal(first: FloatArray, second: FloatArray) -> float:
    """``K^d_min``: the smallest diagonal entry of the Kronecker product of two covariances.

    That is ``min_i Sigma1[i, i] min_j Sigma2[j, j]``. As printed it is ``min_i Sigma1[i, i] Sigma2[i, i]``,
    which is larger unless one variable has the smallest variance in both models.
    """
    return float(np.diag(first).min() * np.diag(second).min())


@dataclass(frozen=True)
class Scale:
    """What the sample sizes depend on besides epsilon and delta."""

    p: int  # number of variables
    change: float  # |Delta|_1
    variance: float = 1.0  # the largest variance of a variable in either model
    entries: float = 2.0  # |Sigma1|_max + |Sigma2|_max
    diagonal: float = 1.0  # K^d_min


def theorem3_constant(scale: Scale) -> float:
    """``C = sqrt(2 c) (2 + c' |Delta|_1)`` with ``c = 3200 variance^2`` and ``c' = sqrt(c) + entries``."""
    root = math.sqrt(RAVIKUMAR) * scale.variance
    return math.sqrt(2) * root * (2 + (root + scale.entries) * scale.change)


def theorem3_samples(scale: Scale, epsilon: float, delta: float) -> float:
    """Rows per table with which Theorem 3 holds: ``36 C^2 / (K^d_min epsilon)^2 log(2 p / delta)``.

    The printed theorem lacks the 36; its proof needs ``lambda <= K^d_min epsilon / 6``. For delta up to 1/2.
    """
    if epsilon <= 0:
        return math.inf
    rows = (6 * theorem3_constant(scale) / (scale.diagonal * epsilon)) ** 2 * math.log(2 * scale.p / delta)
    return math.ceil(max(rows, 2 * math.log(8 * scale.p**2 / delta)))


def refined_samples(scale: Scale, epsilon: float, delta: float) -> float:
    """Rows with which the statement of Theorem 3 holds, by its proof without the generous steps.

    The proof asks for covariances within ``t`` of the truth, ``6 (2 t + |Delta|_1 (entries t + t^2)) =
    K^d_min epsilon``. This is solved for ``t``, and `rows_for_deviation` says how many rows that takes.
    """
    target = scale.diagonal * epsilon / 6
    linear = 2 + scale.change * scale.entries
    deviation = 2 * target / (linear + math.sqrt(linear**2 + 4 * scale.change * target))
    return rows_for_deviation(scale.p, scale.variance, deviation, delta)


def rows_for_deviation(p: int, variance: float, deviation: float, delta: float) -> float:
    """Rows of Gaussian data with which two covariance matrices are, with probability 1 - delta, that close.

    ``|S[i, j] - Sigma[i, j]| <= variance (2 sqrt(x / n) + 2 x / n)`` for all entries of both, with
    ``x = log(2 p (p + 1) / delta)``: the bound of Laurent and Massart (2000) for weighted sums of chi-squares,
    since a sample covariance is a difference of two.
    """
    if deviation <= 0:
        return math.inf
    ratio = 2 * deviation / variance
    root = ratio / (math.sqrt(1 + ratio) + 1) / 2  # of y = x / n in 2 sqrt(y) + 2 y = deviation / variance
    return math.ceil(math.log(2 * p * (p + 1) / delta) / root**2)


def indirect_samples(p: int, norm: float, variance: float, epsilon: float, delta: float) -> float:
    """Rows with which two precision matrices, estimated separately, give Delta within epsilon (appendix B).

    ``2 (C1 C / e)^2 log(2 p / sqrt(f))``, ``C1 = sqrt(3200) variance`` and ``C = 4 norm^2``, which is that
    of CLIME (Cai, Liu and Luo 2011, Theorem 6), where `norm` is the largest absolute column sum of either
    precision matrix. So that the difference is within epsilon with probability 1 - delta, ``e = epsilon / 2``
    and ``f = delta / 2``.
    """
    if epsilon <= 0:
        return math.inf
    constants = math.sqrt(RAVIKUMAR) * variance * 4 * norm**2
    rows = 2 * (constants / (epsilon / 2)) ** 2 * math.log(2 * p / math.sqrt(delta / 2))
    return math.ceil(max(rows, 2 * math.log(8 * p**2 / delta)))


def lower_bound(p: int, parents: int) -> float:
    """Theorem 4: with at most so many rows every method errs, on some pair, with probability at least 1/2.

    ``(d' / 2) log(p / (2 d')) - (2 / p) log 2`` for at most ``d'`` changed causes per variable, or 0.
    """
    if parents < 1 or 2 * parents >= p:
        return 0.0
    return max(0.0, parents / 2 * math.log(p / (2 * parents)) - 2 / p * math.log(2))


@dataclass(frozen=True)
class Incoherence:
    """The two sides of the condition of Theorem 3, ``K^o_max <= l1 l2 / (2 d)``.

    If it does not hold, Theorem 3 says nothing, whatever the number of rows.
    """

    k_off: float  # K^o_max
    k_off_printed: float  # K^o_max as printed
    k_diagonal: float  # K^d_min
    ratio: float  # K^o_max divided by what is allowed for d = |Delta|_0
    holds: bool  # whether that is at most 1


@dataclass(frozen=True)
class Rows:
    """Rows per table that suffice; those of direct estimation count only if the incoherence condition holds."""

    theorem3: float  # for Delta within epsilon
    refined: float  # by its proof without generous steps
    indirect: float  # by separate estimation (appendix B), which needs no incoherence
    indirect_refined: float
    corollary2: float | None  # on all sets of Assumption 3 at once; None beyond 12 variables


@dataclass(frozen=True)
class Conditions:
    """What the theorems say about two known models; what is over the sets of Assumption 3 may be None.

    `epsilon_entries` is half the smallest entry of Delta that Algorithm 1 has to tell from zero, diagonal
    entries included. Its threshold must be below this; Assumption 3 does not see to it.
    """

    nonzeros: int  # |Delta|_0, mirrored entries counted twice as in the proof
    densest: int | None  # the largest over the sets of Assumption 3, the paper's d; None beyond 12 variables
    change: float  # |Delta|_1
    epsilon: float  # accuracy of Delta to which the sample sizes belong
    epsilon_assumption: float | None  # the largest of Assumption 3 (ii), on partial correlations
    epsilon_entries: float | None
    incoherence: Incoherence
    rows: Rows


def conditions(
    first: LinearSEM, second: LinearSEM, *, epsilon: float | None = None, delta: float = 0.05
) -> Conditions:
    """What the theorems say about two known models, in the units the models are in.

    Parameters
    ----------
    first, second : LinearSEM
        Two models over the same variables with a common causal order.
    epsilon : float, optional
        Accuracy asked of Delta. If left out, that of Assumption 3; beyond 12 variables, where it is not worked
        out, and where nothing changed, the paper's 0.1.
    delta : float
        Probability of failure, at most 1/2.

    Examples
    --------
    >>> answer = conditions(LinearSEM([[0, 0], [0, 0]]), LinearSEM([[0, 0], [0.12, 0]]), epsilon=0.05)
    >>> answer.nonzeros, round(answer.incoherence.ratio, 2), answer.incoherence.holds
    (3, 0.81, True)
    >>> f"{answer.rows.theorem3:.1e} {answer.rows.refined:.1e}"
    '1.2e+11 2.1e+06'
    """
    check_delta(delta)
    if epsilon is not None and not 0 < epsilon < math.inf:
        raise InputError(f"epsilon must be a positive number; it is {epsilon}")
    if first.names != second.names:
        raise InputError("the two models have different variables; name and order them alike in both")
    pair = SEMPair(first, second)
    try:
        pair.order  # noqa: B018 - raises
    except InputError:
        raise InputError(
            "the two models have no common causal order, which the theorems assume; remove the reversed effects"
        ) from None
    assumed = densest = largest = smallest = None
    if len(first.names) <= SUBSET_VARIABLES:
        assumed, (densest, largest, smallest) = assumption_epsilon(pair), _over_sets(pair)
    if epsilon is None:
        epsilon = assumed if assumed is not None and math.isfinite(assumed) else PAPER_EPSILON
    difference, nonzero = _difference(first.precision(), second.precision())
    change, count = float(np.abs(difference).sum()), int(nonzero.sum())
    sigmas = first.covariance(), second.covariance()
    scale = Scale(
        p=len(first.names),
        change=change,
        variance=max(float(np.diag(sigma).max()) for sigma in sigmas),
        entries=sum(float(np.abs(sigma).max()) for sigma in sigmas),
        diagonal=smallest_diagonal(*sigmas),
    )
    widest = None if largest is None else replace(scale, change=largest)
    least = math.prod(float(np.linalg.eigvalsh(sigma)[0]) for sigma in sigmas)
    ratio = 2 * count * largest_off_diagonal(*sigmas) / least
    norm = max(float(np.abs(sem.precision()).sum(axis=0).max()) for sem in (first, second))
    return Conditions(
        nonzeros=count,
        densest=densest,
        change=change,
        epsilon=epsilon,
        epsilon_assumption=assumed,
        epsilon_entries=None if smallest is None else smallest / 2,
        incoherence=Incoherence(
            k_off=largest_off_diagonal(*sigmas),
            k_off_printed=printed_off_diagonal(*sigmas),
            k_diagonal=scale.diagonal,
            ratio=ratio,
            holds=ratio <= 1,
        ),
        rows=Rows(
            theorem3=theorem3_samples(scale, epsilon, delta),
            refined=refined_samples(scale, epsilon, delta),
            indirect=indirect_samples(scale.p, norm, scale.variance, epsilon, delta),
            indirect_refined=rows_for_deviation(scale.p, scale.variance, epsilon / (8 * norm**2), delta),
            corollary2=None if widest is None else theorem3_samples(widest, epsilon, delta),
        ),
    )


def _over_sets(pair: SEMPair) -> tuple[int, float, float]:
    """Most non-zero entries, largest ``|Delta|_1`` and smallest entry over the sets of Assumption 3."""
    changed = pair.changed
    sigmas = pair.first.covariance(), pair.second.covariance()
    nonzeros, change, smallest = 0, 0.0, math.inf
    for members in filter(None, ancestral_sets(changed)):
        block = np.ix_(members, members)
        one, two = (np.linalg.inv(sigma[block]).astype(np.float64) for sigma in sigmas)
        difference, nonzero = _difference(one, two)
        inside = changed[block]
        needed = inside | np.diag(inside.any(axis=0))  # changed edges, and the diagonal of their causes
        nonzeros = max(nonzeros, int(nonzero.sum()))
        change = max(change, float(np.abs(difference).sum()))
        smallest = min(smallest, float(np.abs(difference[needed]).min(initial=math.inf)))
    return nonzeros, change, smallest


def _difference(first: FloatArray, second: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
    """``first - second`` with rounding errors set to zero, and where it is not zero."""
    difference = first - second
    size = (np.diag(first) * np.diag(second)) ** 0.25
    nonzero = np.abs(difference) > ROUNDING * np.outer(size, size)
    return np.where(nonzero, difference, 0.0), nonzero


def check_delta(delta: float) -> None:
    """Refuse a probability of failure for which the constants do not hold."""
    if not 0 < delta <= 0.5:
        raise InputError(
            named("delta"), f" is a probability of failure, above 0 and at most 0.5; it is {delta}"
        )
