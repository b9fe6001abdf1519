"""Columns that depend linearly on others, found in a correlation matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from diffdag._base.arrays import FloatArray


def dependent_columns(n: int, scatter: FloatArray) -> list[int]:
    """Return the smallest set of columns found to be linearly dependent, empty if there is none.

    Parameters
    ----------
    n : int
        Number of rows behind the scatter matrix.
    scatter : ndarray of shape (p, p)
        Centred sums of products of columns none of which is constant.

    Examples
    --------
    >>> scatter = np.array([[2.0, 0.5, 1.0], [0.5, 3.0, 6.0], [1.0, 6.0, 12.0]])
    >>> dependent_columns(9, scatter)
    [1, 2]
    """
    spread = np.sqrt(np.diag(scatter))
    correlation = scatter / spread[:, None] / spread[None, :]
    return _smallest_dependence(correlation) if n > len(scatter) else _duplicate_pair(correlation)


def _duplicate_pair(correlation: FloatArray) -> list[int]:
    """Two columns that are multiples of each other: all that can be seen when n <= p."""
    close = np.triu(np.abs(correlation) >= 1 - 1e-12, k=1)
    if not close.any():
        return []
    i, j = np.argwhere(close)[0]
    return [int(i), int(j)]


def _smallest_dependence(correlation: FloatArray) -> list[int]:
    """Find relations of few columns in the null space.

    Any basis of the null space mixes several dependencies. Dividing it by its rows at well chosen
    pivots leaves in each vector one pivot and the columns that pivot depends on.
    """
    p = len(correlation)
    tolerance = 1e-13 * p
    try:
        # Succeeds if and only if the smallest eigenvalue exceeds the tolerance: many times
        # cheaper than the eigenvalues, and the only cost for sound data.
        scipy.linalg.cholesky(correlation - tolerance * np.eye(p), overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        pass
    else:
        return []
    values, vectors = np.linalg.eigh(correlation)
    rank_lost = max(1, int(np.sum(values < tolerance)))
    null = vectors[:, :rank_lost]
    pivots: Any = scipy.linalg.qr(null.T, mode="r", pivoting=True)[1]
    relations = np.linalg.solve(null[pivots[:rank_lost]].T, null.T)
    supports = [np.flatnonzero(np.abs(row) > 1e-6 * np.abs(row).max()) for row in relations]
    return [int(k) for k in min(supports, key=len)]
