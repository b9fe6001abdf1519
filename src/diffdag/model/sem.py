"""Linear structural equation models.

A model is ``X = c + B X + e`` with ``Var(e) = D`` diagonal; ``B[i, j]`` is the effect of variable ``j`` on
variable ``i`` (the edge ``i <- j`` of Ghoshal, Bello and Honorio). Its precision matrix is
``Omega = (I - B)' D^-1 (I - B)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse

from diffdag._base.arrays import FloatArray
from diffdag._base.checks import check_option, check_text, check_whole, default_names, generator
from diffdag._base.errors import InputError
from diffdag.tables.moments import Moments

Noise = Literal["gaussian", "uniform", "laplace", "student"]
RNG = np.random.Generator | int | None

STUDENT_DF = 5

# Unit-variance noise of each shape.
_NOISE: dict[str, Callable[[np.random.Generator, tuple[int, int]], FloatArray]] = {
    "gaussian": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.uniform(-math.sqrt(3), math.sqrt(3), shape),
    "laplace": lambda rng, shape: rng.laplace(scale=math.sqrt(0.5), size=shape),
    "student": lambda rng, shape: rng.standard_t(STUDENT_DF, shape) * math.sqrt((STUDENT_DF - 2) / STUDENT_DF),
}


class LinearSEM:
    """A linear structural equation model ``X = c + B X + e``.

    Parameters
    ----------
    weights : array_like or sparse array, shape (p, p)
        The matrix ``B``: ``weights[i, j]`` is the effect of variable ``j`` on variable ``i``. Its graph
        must have no cycle. Kept as `effects`, a sparse array; the attribute `weights` is dense.
    noise_variances : array_like, shape (p,), optional
        The diagonal of ``D``; all one if left out.
    names : sequence of str, optional
        Names of the variables; ``X1, ..., Xp`` if left out.
    noise : {"gaussian", "uniform", "laplace", "student"}, default "gaussian"
        Shape of the noise that `sample` draws (Student's t has 5 degrees of freedom). The theory
        uses means and second moments only.
    intercepts : array_like, shape (p,), optional
        The vector ``c``; all zero if left out. A comparison has them where causes are at their common mean.

    See Also
    --------
    simulate_pair : draws two of them that differ in a few effects.
    DifferenceDAG.fit_population : compares two of them.

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
        intercepts: ArrayLike | None = None,
    ) -> None:
        self.effects = _as_sparse(weights)
        p = self.effects.shape[0]
        if self.effects.shape != (p, p) or p == 0:
            raise InputError(f"weights must be a square matrix; it has shape {self.effects.shape}")
        variances = np.ones(p) if noise_variances is None else noise_variances
        self.noise_variances = _as_float("noise_variances", variances, 1)
        if self.noise_variances.shape != (p,) or (self.noise_variances <= 0).any():
            raise InputError(f"noise_variances must be {p} positive numbers, one for each variable")
        self.intercepts = _as_float("intercepts", np.zeros(p) if intercepts is None else intercepts, 1)
        if self.intercepts.shape != (p,):
            raise InputError(f"intercepts must be {p} numbers, one for each variable")
        self.names = default_names(p) if names is None else tuple(str(name) for name in names)
        if len(self.names) != p or len(set(self.names)) != p:
            raise InputError(f"names must be {p} different names, one for each variable")
        check_text(self.names)
        check_option("noise", noise, tuple(_NOISE))
        self.noise: Noise = noise
        self.order = causal_order(self.effects)
        for own in (self.noise_variances, self.intercepts, self.effects.data):
            own.flags.writeable = False

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

    def mean(self) -> FloatArray:
        """``(I - B)^-1 c``."""
        mean: FloatArray = self._spread(self.intercepts[None])[0]
        return mean

    def precision(self) -> FloatArray:
        """``Omega = (I - B)' D^-1 (I - B)``."""
        root = self.root_precision()
        return root.T @ root

    def covariance(self) -> FloatArray:
        """``Sigma = (I - B)^-1 D (I - B)^-T``."""
        root = self._spread(np.diag(np.sqrt(self.noise_variances)))
        return root.T @ root

    def sample(self, n: int, rng: RNG = None) -> FloatArray:
        """Draw `n` independent rows; `rng` is a generator or a seed, and None draws other rows each time."""
        check_whole("n", n, least=1)
        shape = (int(n), len(self.names))
        noise = _NOISE[self.noise](generator(rng), shape)
        return self._spread(self.intercepts + noise * np.sqrt(self.noise_variances))

    def sample_moments(self, n: int, rng: RNG = None) -> Moments:
        """Draw the moments of `n` independent rows in a time that does not depend on `n`.

        `rng` is as for `sample`. For Gaussian noise only: the mean is Gaussian, the scatter independent of it
        and Wishart (Bartlett's decomposition). Distributed as ``Moments.from_array(sem.sample(n))``.
        """
        p = len(self.names)
        check_whole("n", n, least=1)
        if self.noise != "gaussian" or n <= p:
            raise InputError("moments can be drawn for Gaussian noise and more rows than variables; use sample")
        rng = generator(rng)
        root = np.tril(rng.standard_normal((p, p)), -1)
        root[np.diag_indices(p)] = np.sqrt(rng.chisquare(n - 1 - np.arange(p)))
        scale = np.sqrt(self.noise_variances)
        half = self._spread(root.T * scale)
        mean = self._spread(self.intercepts + rng.standard_normal((1, p)) * scale / math.sqrt(n))[0]
        return Moments(self.names, n, mean, half.T @ half)

    def _spread(self, noise: FloatArray) -> FloatArray:
        """Rows of noise to rows of ``X = (I - B)^-1 e``, by substitution along the causal order."""
        values = np.array(noise.T)
        causes, sizes, starts = self.effects.indices, self.effects.data, self.effects.indptr
        for i in self.order:
            own = slice(starts[i], starts[i + 1])
            values[i] += sizes[own] @ values[causes[own]]
        return np.ascontiguousarray(values.T)


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
