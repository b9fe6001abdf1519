"""Random pairs of models, drawn as in section 4 of the paper, and the epsilon of its Assumption 3."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from diffdag._base.arrays import FloatArray, IndexArray
from diffdag._base.checks import check_option, check_whole, generator, is_number, is_whole
from diffdag._base.errors import InputError
from diffdag._base.words import named
from diffdag.model.sem import RNG, LinearSEM, Noise, causal_order

FILTER_VARIABLES = 20  # beyond this number of variables the 2^p sets of Assumption 3 are too many
PART = 1 << 24  # numbers drawn at a time


@dataclass(frozen=True)
class SEMPair:
    """Two models over the same variables, and what changed between them."""

    first: LinearSEM
    second: LinearSEM

    @property
    def changed(self) -> NDArray[np.bool_]:
        """``[i, j]`` is true where the effect of ``j`` on ``i`` differs."""
        changed = np.zeros(self.first.effects.shape, bool)
        changed[self.changed_entries] = True
        return changed

    @property
    def changed_entries(self) -> tuple[IndexArray, IndexArray]:
        """Where `changed` is true: indices of the effects and of their causes, by effect, then by cause."""
        rows, columns = (self.first.effects - self.second.effects).nonzero()
        return rows, columns

    @property
    def order(self) -> tuple[int, ...]:
        """A causal order of both models, causes first; an error if there is none."""
        return causal_order(abs(self.first.effects) + abs(self.second.effects))

    @property
    def edges(self) -> set[tuple[str, str]]:
        """The difference DAG as (source, target) names."""
        names = self.first.names
        return {(names[j], names[i]) for i, j in zip(*self.changed_entries, strict=True)}


def simulate_pair(
    p: int,
    *,
    neighbours: float,
    change: float = 0.05,
    changes: int | None = None,
    weights: tuple[float, float] = (0.25, 1.0),
    variances: Sequence[float] = (1.0,),
    variances_drawn: Literal["shared", "per-condition"] = "shared",
    noise: Noise = "gaussian",
    min_epsilon: float | None = None,
    rng: RNG = None,
    max_tries: int = 100_000,
) -> SEMPair:
    """Draw a pair of models as in section 4 of the paper.

    An Erdős-Rényi DAG with `neighbours` neighbours per variable on average, weights uniform in
    ``[-1, -0.25] + [0.25, 1]``, labels permuted. In the second model each edge is deleted, and each
    absent edge that respects the order is added, with probability `change`; edges in both keep their weight.

    Parameters
    ----------
    p : int
        Number of variables.
    neighbours : float
        Average number of neighbours, the paper's ``N_a``.
    change : float, default 0.05
        Probability of a change per pair of variables.
    changes : int, optional
        Exact number of changes, at pairs drawn without replacement, instead of `change`.
    weights : (float, float), default (0.25, 1.0)
        Smallest and largest absolute weight.
    variances : sequence of float, default (1.0,)
        Noise variances are drawn from this set, each with the same probability. The two readings of the
        paper's unequal-noise experiment are ``(1 - g, 1, g)`` and ``(1 - g, 1, 1 + g)``.
    variances_drawn : {"shared", "per-condition"}, default "shared"
        One draw per variable, used in both models (``D1 = D2``, the paper's guarantee applies), or one
        per variable and model.
    noise : {"gaussian", "uniform", "laplace", "student"}, default "gaussian"
        Shape of the noise.
    min_epsilon : float, optional
        Draw again until the pair has a change and satisfies Assumption 3 (the finite-sample one) with this
        epsilon; see `assumption_epsilon`.
    rng : numpy.random.Generator or int, optional
        Source of randomness.
    max_tries : int, default 100000
        Give up after this many rejected pairs.

    Returns
    -------
    SEMPair
        ``.first``, ``.second`` and ``.edges``, the set of changed (source, target) names.

    See Also
    --------
    LinearSEM : each of the two models.

    Examples
    --------
    >>> from diffdag import simulate_pair
    >>> pair = simulate_pair(p=10, neighbours=6, changes=3, rng=0)
    >>> len(pair.edges)
    3
    """
    _check_simulation(p, neighbours, change, changes, weights, variances, variances_drawn)
    _check_epsilon(p, change if changes is None else changes, min_epsilon)
    check_whole("max_tries", max_tries, least=1)
    rng = generator(rng)
    for _ in range(max_tries):
        before, after = _draw_weights(p, neighbours, change, changes, weights, rng)
        one = two = rng.choice(np.asarray(variances, float), p)
        if variances_drawn == "per-condition":
            two = rng.choice(np.asarray(variances, float), p)
        pair = SEMPair(LinearSEM(before, one, noise=noise), LinearSEM(after, two, noise=noise))
        if min_epsilon is None:
            return pair
        # Stops at the first set in which a change is too small.
        if pair.edges and all(change >= 2 * min_epsilon for change in _correlation_changes(pair)):
            return pair
    raise InputError(
        f"no pair with epsilon >= {min_epsilon} in {max_tries} tries; ask for a smaller ",
        named("min_epsilon"),
        " or fewer changes",
    )


def _check_simulation(
    p: int,
    neighbours: float,
    change: float,
    changes: int | None,
    weights: tuple[float, float],
    variances: Sequence[float],
    variances_drawn: str,
) -> None:
    for name, value in {"p": p, "changes": changes}.items():
        if value is not None and not is_whole(value):
            raise InputError(named(name), f" must be a whole number; it is {value!r}")
    pairs = p * (p - 1) // 2
    if p < 2:
        raise InputError(named("p"), f" must be at least 2; it is {p}")
    if not (is_number(neighbours) and 0 <= neighbours <= p - 1):
        raise InputError(
            named("neighbours"),
            f" must be between 0 and one less than the variables, {p - 1}; it is {neighbours!r}",
        )
    if not (is_number(change) and 0 <= change <= 1):
        raise InputError(named("change"), f" is a probability, between 0 and 1; it is {change!r}")
    if changes is not None and not 0 <= changes <= pairs:
        raise InputError(
            named("changes"), f" must be between 0 and the {pairs} pairs of variables; it is {changes}"
        )
    if not (_are_positive(weights) and len(weights) == 2 and weights[0] <= weights[1]):
        raise InputError(f"weights must be two positive numbers, the smaller first; they are {weights!r}")
    if not _are_positive(variances):
        raise InputError(named("variances"), f" must be positive numbers; they are {variances!r}")
    check_option("variances_drawn", variances_drawn, ("shared", "per-condition"))


def _are_positive(values: object) -> bool:
    """Whether these are one or more positive numbers."""
    some = isinstance(values, Sequence | np.ndarray) and len(values) > 0
    return some and all(is_number(value) and value > 0 for value in values)  # type: ignore[attr-defined]


def _check_epsilon(p: int, change: float, min_epsilon: float | None) -> None:
    if min_epsilon is None:
        return
    if not (is_number(min_epsilon) and 0 < min_epsilon <= 1):
        raise InputError(named("min_epsilon"), f" must be above 0 and at most 1; it is {min_epsilon!r}")
    if not change > 0:
        raise InputError(
            named("min_epsilon"), " bounds changes from below, and no change was asked for; ask for some"
        )
    if p > FILTER_VARIABLES:
        raise InputError(
            named("min_epsilon"),
            f" needs all of 2^p sets; p = {p} is more than the {FILTER_VARIABLES} it can do",
        )


def _draw_weights(
    p: int,
    neighbours: float,
    change: float,
    changes: int | None,
    weights: tuple[float, float],
    rng: np.random.Generator,
) -> tuple[csr_array, csr_array]:
    """Both weight matrices of a random pair, labels permuted.

    One number is drawn per pair of variables, edge or not, so that pairs of models depend on the seed alone.
    There are 200 million pairs of 20,000 variables: numbers are drawn in parts, and few are kept.
    """
    pairs = p * (p - 1) // 2
    edge = np.concatenate([rng.random(part) < neighbours / (p - 1) for part in _parts(pairs)])
    if changes is None:
        flip = np.concatenate([rng.random(part) < change for part in _parts(pairs)])
    else:
        flip = np.zeros(pairs, bool)
        flip[rng.choice(pairs, changes, replace=False)] = True
    used = np.flatnonzero(edge | flip)
    sizes = _drawn_at(used, pairs, lambda count: rng.uniform(*weights, count))
    signs = _drawn_at(used, pairs, lambda count: rng.choice([-1.0, 1.0], count))
    label = rng.permutation(p)
    rows, columns = _below_diagonal(used)
    at = label[rows], label[columns]
    before, after = (
        csr_array((np.where(there, sizes * signs, 0.0), at), shape=(p, p))
        for there in (edge[used], edge[used] ^ flip[used])
    )
    return before, after


def _parts(count: int) -> list[int]:
    """A large number as a sum: random numbers are drawn in parts, so that memory stays bounded."""
    return [min(PART, count - start) for start in range(0, count, PART)]


def _drawn_at(places: IndexArray, count: int, draw: Callable[[int], FloatArray]) -> FloatArray:
    """Some of very many random numbers, all of which are drawn."""
    found, start = [], 0
    for part in _parts(count):
        first, last = np.searchsorted(places, (start, start + part))
        found.append(draw(part)[places[first:last] - start])
        start += part
    return np.concatenate(found)


def _below_diagonal(places: IndexArray) -> tuple[IndexArray, IndexArray]:
    """Row and column of entries below the diagonal, which are counted row by row."""
    rows = np.floor((1 + np.sqrt(1 + 8 * places.astype(float))) / 2).astype(np.intp)
    rows += (rows * (rows + 1) // 2 <= places).astype(np.intp)
    rows -= (rows * (rows - 1) // 2 > places).astype(np.intp)
    return rows, places - rows * (rows - 1) // 2


def assumption_epsilon(pair: SEMPair) -> float:
    """The largest epsilon with which a pair satisfies Assumption 3 (ii) of the paper.

    Half the smallest ``|corr1(i, j | S') - corr2(i, j | S')|`` over the changed edges ``(i, j)`` and the
    sets ``S`` that contain both and are closed under parents in the difference DAG. Infinite if nothing
    changed. There are up to ``2^p`` such sets: meant for small models.
    """
    return min(_correlation_changes(pair), default=math.inf) / 2


def _correlation_changes(pair: SEMPair) -> Iterator[float]:
    """For each ancestral set, the smallest change of partial correlation among its changed edges."""
    changed = pair.changed
    covariances = pair.first.covariance(), pair.second.covariance()
    for members in ancestral_sets(changed):
        block = np.ix_(members, members)
        inside = changed[block]
        if inside.any():
            first, second = (_partial_correlations(sigma[block]) for sigma in covariances)
            yield float(np.abs(first - second)[inside].min())


def ancestral_sets(changed: NDArray[np.bool_]) -> Iterator[list[int]]:
    """Every set of variables that is closed under parents in the difference DAG, large sets first."""
    order = causal_order(changed)
    parents = [frozenset(np.flatnonzero(row).tolist()) for row in changed]

    def extend(position: int, chosen: list[int]) -> Iterator[list[int]]:
        if position == len(order):
            yield chosen
            return
        node = order[position]
        if parents[node].issubset(chosen):
            yield from extend(position + 1, [*chosen, node])
        yield from extend(position + 1, chosen)

    return extend(0, [])


def _partial_correlations(covariance: FloatArray) -> FloatArray:
    """Partial correlations of each pair given all the others."""
    omega = np.linalg.inv(covariance)
    scale = np.sqrt(np.diag(omega))
    result: FloatArray = -omega / np.outer(scale, scale)
    return result
