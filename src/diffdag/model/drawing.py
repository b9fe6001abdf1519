"""Random weights of a pair of models, for any number of variables.

One number is drawn for each pair of variables, edge or not, so that pairs of models depend on the seed alone.
There are 200 million pairs of 20,000 variables: numbers are drawn in parts, and few are kept.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array

from diffdag._base.arrays import FloatArray, IndexArray

PART = 1 << 24  # numbers drawn at a time


def draw_weights(
    p: int,
    neighbours: float,
    change: float,
    changes: int | None,
    weights: tuple[float, float],
    rng: np.random.Generator,
) -> tuple[csr_array, csr_array]:
    """Both weight matrices of a random pair, labels permuted; see `diffdag.simulate_pair`."""
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
