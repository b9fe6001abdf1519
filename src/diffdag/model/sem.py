"""Linear structural equation models and the paper's generator of random pairs.

A model is ``X = B X + e`` with ``Var(e) = D`` diagonal; ``B[i, j]`` is the effect of variable ``j`` on
variable ``i`` (the edge ``i <- j`` of Ghoshal, Bello and Honorio). Its precision matrix is
``Omega = (I - B)' D^-1 (I - B)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from diffdag._base.arrays import FloatArray, IndexArray
from diffdag._base.checks import check_option, check_text, default_names
from diffdag._base.errors import InputError
from diffdag.model.drawing import draw_weights
from diffdag.tables.moments import Moments

Noise = Literal["gaussian", "uniform", "laplace", "student"]
RNG = np.random.Generator | int | None

STUDENT_DF = 5
FILTER_VARIABLES = 20

# Unit-variance noise of each shape.
_NOISE: dict[str, Callable[[np.random.Generator, tuple[int, int]], FloatArray]] = {
    "gaussian": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.uniform(-math.sqrt(3), math.sqrt(3), shape),
    "laplace": lambda rng, shape: rng.laplace(scale=math.sqrt(0.5), size=shape),
    "student": lambda rng, shape: rng.standard_t(STUDENT_DF, shape) * math.sqrt((STUDENT_DF - 2) / STUDENT_DF),
}


class LinearSEM:
    """A linear structural equation model ``X = B X + e``.

    Parameters
    ----------
    weights : array_like or sparse array, shape (p, p)
        The matrix ``B``: ``weights[i, j]`` is the effect of variable ``j`` on variable ``i``. Its graph
        must have no cycle. Kept as `effects`, a sparse array; the attribute `weights` is dense.
    noise_variances : array_like, shape (p,), optional
        The diagonal of ``D``; all one if left out.
    names : sequence of str, optional
        Names of the variables; ``X1, ..., Xp`` if left out.
    noise : {"gaussian", "uniform", "laplace", "student"}
        Shape of the noise that `sample` draws (Student's t has 5 degrees of freedom). The theory
        uses second moments only.

    Examples
    --------
    >>> from diffdag import LinearSEM
    >>> sem = LinearSEM([[0, 0], [2, 0]], noise_variances=[1, 0.5])   # X2 = 2 X1 + e2
    >>> sem.covariance()
    array([[1. , 2. ],
           [2. , 4.5]])
    >>> sem.sample(3, rng=0).shape
    (3, 2)
    """

    def __init__(
        self,
        weights: ArrayLike | csr_array,
        noise_variances: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        noise: Noise = "gaussian",
    ) -> None:
        self.effects = _as_sparse(weights)
        p = self.effects.shape[0]
        if self.effects.shape != (p, p) or p == 0:
            raise InputError(f"weights must be a square matrix; it has shape {self.effects.shape}")
        variances = np.ones(p) if noise_variances is None else noise_variances
        self.noise_variances = _as_float("noise_variances", variances, 1)
        if self.noise_variances.shape != (p,) or (self.noise_variances <= 0).any():
            raise InputError(f"noise_variances must be {p} positive numbers, one for each variable")
        self.names = default_names(p) if names is None else tuple(str(name) for name in names)
        if len(self.names) != p or len(set(self.names)) != p:
            raise InputError(f"names must be {p} different names, one for each variable")
        check_text(self.names)
        check_option("noise", noise, tuple(_NOISE))
        self.noise: Noise = noise
        self.order = causal_order(self.effects)
        self.noise_variances.flags.writeable = self.effects.data.flags.writeable = False

    def __repr__(self) -> str:
        return f"LinearSEM({len(self.names)} variables, {self.effects.nnz} edges)"

    @cached_property
    def weights(self) -> FloatArray:
        """The matrix ``B``."""
        weights: FloatArray = self.effects.toarray()
        weights.flags.writeable = False
        return weights

    def root_precision(self) -> FloatArray:
        """``D^-1/2 (I - B)``, whose Gram matrix is the precision matrix."""
        root: FloatArray = (np.eye(len(self.names)) - self.weights) / np.sqrt(self.noise_variances)[:, None]
        return root

    def precision(self) -> FloatArray:
        """``Omega = (I - B)' D^-1 (I - B)``."""
        root = self.root_precision()
        return root.T @ root

    def covariance(self) -> FloatArray:
        """``Sigma = (I - B)^-1 D (I - B)^-T``."""
        root = self._spread(np.diag(np.sqrt(self.noise_variances)))
        return root.T @ root

    def sample(self, n: int, rng: RNG = None) -> FloatArray:
        """Draw `n` independent rows."""
        if n < 1:
            raise InputError(f"n must be at least 1; it is {n}")
        shape = (int(n), len(self.names))
        noise = _NOISE[self.noise](np.random.default_rng(rng), shape)
        return self._spread(noise * np.sqrt(self.noise_variances))

    def sample_moments(self, n: int, rng: RNG = None) -> Moments:
        """Draw the moments of `n` independent rows without drawing the rows: the cost does not depend on `n`.

        For Gaussian noise only: the mean is Gaussian, the scatter independent of it and Wishart (Bartlett's
        decomposition). The distribution is the same as that of ``Moments.from_array(sem.sample(n))``.
        """
        p = len(self.names)
        if self.noise != "gaussian" or n <= p:
            raise InputError("moments can be drawn for Gaussian noise and more rows than variables; use sample")
        rng = np.random.default_rng(rng)
        root = np.tril(rng.standard_normal((p, p)), -1)
        root[np.diag_indices(p)] = np.sqrt(rng.chisquare(n - 1 - np.arange(p)))
        scale = np.sqrt(self.noise_variances)
        half = self._spread(root.T * scale)
        mean = self._spread(rng.standard_normal((1, p)) * scale)[0] / math.sqrt(n)
        return Moments(self.names, n, mean, half.T @ half)

    def _spread(self, noise: FloatArray) -> FloatArray:
        """Rows of noise to rows of ``X = (I - B)^-1 e``, by substitution along the causal order."""
        values = np.array(noise.T)
        causes, sizes, starts = self.effects.indices, self.effects.data, self.effects.indptr
        for i in self.order:
            own = slice(starts[i], starts[i + 1])
            values[i] += sizes[own] @ values[causes[own]]
        return np.ascontiguousarray(values.T)


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

    An Erdős-Rényi DAG with `neighbours` neighbours a variable on average, weights uniform in
    ``[-1, -0.25] + [0.25, 1]``, labels permuted. In the second model each edge is deleted, and each
    absent edge that respects the order is added, with probability `change`; edges in both keep their weight.

    Parameters
    ----------
    p : int
        Number of variables.
    neighbours : float
        Average number of neighbours, the paper's ``N_a``.
    change : float
        Probability of a change for each pair of variables.
    changes : int, optional
        Exact number of changes, at pairs drawn without replacement, instead of `change`.
    weights : (float, float)
        Smallest and largest absolute weight.
    variances : sequence of float
        Noise variances are drawn from this set, each with the same probability. The two readings of the
        paper's unequal-noise experiment are ``(1 - g, 1, g)`` and ``(1 - g, 1, 1 + g)``.
    variances_drawn : {"shared", "per-condition"}
        One draw for each variable, used in both models (``D1 = D2``, the paper's guarantee applies), or one
        for each variable and model.
    noise : {"gaussian", "uniform", "laplace", "student"}
        Shape of the noise.
    min_epsilon : float, optional
        Draw again until the pair has a change and satisfies Assumption 3 (the finite-sample one) with this
        epsilon; see `assumption_epsilon`.
    rng : numpy.random.Generator or int, optional
        Source of randomness.
    max_tries : int
        Give up after this many rejected pairs.

    Returns
    -------
    SEMPair
        ``.first``, ``.second`` and ``.edges``, the set of changed (source, target) names.

    Examples
    --------
    >>> from diffdag import simulate_pair
    >>> pair = simulate_pair(p=10, neighbours=6, changes=3, rng=0)
    >>> len(pair.edges)
    3
    """
    _check_simulation(p, neighbours, change, changes, weights, variances, variances_drawn)
    _check_epsilon(p, change if changes is None else changes, min_epsilon)
    rng = np.random.default_rng(rng)

    def draw_variances() -> FloatArray:
        return rng.choice(np.asarray(variances, float), p)

    for _ in range(max_tries):
        before, after = draw_weights(p, neighbours, change, changes, weights, rng)
        first_variances = draw_variances()
        second_variances = first_variances if variances_drawn == "shared" else draw_variances()
        pair = SEMPair(
            LinearSEM(before, first_variances, noise=noise), LinearSEM(after, second_variances, noise=noise)
        )
        if min_epsilon is None or _passes(pair, min_epsilon):
            return pair
    raise InputError(
        f"no pair with epsilon >= {min_epsilon} in {max_tries} tries; "
        "ask for a smaller min_epsilon or fewer changes"
    )


def assumption_epsilon(pair: SEMPair) -> float:
    """The largest epsilon with which a pair satisfies Assumption 3 (ii) of the paper.

    Half the smallest ``|corr1(i, j | S') - corr2(i, j | S')|`` over the changed edges ``(i, j)`` and the
    sets ``S`` that contain both and are closed under parents in the difference DAG. Infinite if nothing
    changed. There are up to ``2^p`` such sets: meant for small models.
    """
    return min(_correlation_changes(pair), default=math.inf) / 2


def _passes(pair: SEMPair, epsilon: float) -> bool:
    """Whether a pair has a change and satisfies Assumption 3 (ii); stops at the first set that does not."""
    return bool(pair.changed.any()) and all(change >= 2 * epsilon for change in _correlation_changes(pair))


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


def causal_order(edges: ArrayLike | csr_array) -> tuple[int, ...]:
    """A topological order, causes first, of the graph in which ``edges[i, j]`` means ``i <- j``."""
    graph = csr_array(edges if issparse(edges) else np.asarray(edges)).astype(bool)
    graph.eliminate_zeros()
    missing = np.diff(graph.indptr)
    by_cause = graph.tocsc()
    effects, starts = by_cause.indices, by_cause.indptr
    order: list[int] = []
    ready = [int(node) for node in np.flatnonzero(missing == 0)][::-1]
    while ready:
        node = ready.pop()
        order.append(node)
        own = np.sort(effects[starts[node] : starts[node + 1]])
        missing[own] -= 1
        ready.extend(int(i) for i in own[missing[own] == 0][::-1])
    if len(order) < len(missing):
        raise InputError("the weights have a cycle; a structural equation model here must be acyclic")
    return tuple(order)


def _as_sparse(weights: ArrayLike | csr_array) -> csr_array:
    """The weights as a sparse array of finite numbers of its own, without zeros."""
    if not issparse(weights):
        effects = csr_array(_as_float("weights", weights, 2))
    else:
        effects = csr_array(weights).astype(np.float64)
        if not np.isfinite(effects.data).all():
            raise InputError("weights must be finite numbers")
    effects.eliminate_zeros()
    effects.sort_indices()
    return effects


def _as_float(what: str, values: ArrayLike, dimensions: int) -> FloatArray:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{what} must hold numbers only") from None
    if array.ndim != dimensions or not np.isfinite(array).all():
        raise InputError(f"{what} must be a {dimensions}-dimensional array of finite numbers")
    return array


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
        if value is not None and not isinstance(value, (int, np.integer)):
            raise InputError(f"{name} must be a whole number; it is {value!r}")
    pairs = p * (p - 1) // 2
    if p < 2:
        raise InputError(f"p must be at least 2; it is {p}")
    if not 0 <= neighbours <= p - 1:
        raise InputError(f"neighbours must be between 0 and p - 1 = {p - 1}; it is {neighbours}")
    if not 0 <= change <= 1:
        raise InputError(f"change is a probability, between 0 and 1; it is {change}")
    if changes is not None and not 0 <= changes <= pairs:
        raise InputError(f"changes must be between 0 and the {pairs} pairs of variables; it is {changes}")
    if not 0 < weights[0] <= weights[1]:
        raise InputError(f"weights must be two positive numbers, the smaller first; they are {weights}")
    if len(variances) == 0 or min(variances) <= 0:
        raise InputError(f"variances must be positive numbers; they are {tuple(variances)}")
    said = f"variances_drawn must be 'shared' or 'per-condition'; it is {variances_drawn!r}"
    check_option("variances_drawn", variances_drawn, ("shared", "per-condition"), said)


def _check_epsilon(p: int, change: float, min_epsilon: float | None) -> None:
    if min_epsilon is None:
        return
    if not 0 < min_epsilon <= 1:
        raise InputError(f"min_epsilon must be above 0 and at most 1; it is {min_epsilon}")
    if not change > 0:
        raise InputError("min_epsilon bounds changes from below, and no change was asked for; ask for some")
    if p > FILTER_VARIABLES:
        raise InputError(
            f"min_epsilon needs all of 2^p sets; p = {p} is more than the {FILTER_VARIABLES} it can do"
        )
