"""computeOrder of Algorithm 1: layers of the difference DAG, sinks first."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from diffdag.paper.differences import Differences

Layers = tuple[tuple[int, ...], ...]


def compute_order(
    differences: Differences, variables: Iterable[int], threshold: float, equal_noise: bool = False
) -> tuple[Layers, tuple[int, ...]]:
    """Peel off the variables with a zero diagonal, layer by layer.

    By Proposition 1 a variable with a zero diagonal is a sink of the difference DAG over what is left.

    Parameters
    ----------
    differences : Differences
    variables : iterable of int
        The variables that take part, ``V``.
    threshold : float
        Entries up to this size count as zero.
    equal_noise : bool
        The user knows that no noise variance changed: then some diagonal is zero, and the smallest stands
        for it where none is below the threshold.

    Returns
    -------
    layers : tuple of tuples
        ``O``, sinks first.
    rest : tuple of int
        ``R``, the variables whose order is not identified because noise variances differ.
    """
    left = sorted(variables)
    layers: list[tuple[int, ...]] = []
    while len(left) > 1:
        diagonal = np.abs(np.diag(differences.over(left)))
        cut = max(threshold, float(diagonal.min())) if equal_noise else threshold
        sinks = tuple(node for node, size in zip(left, diagonal, strict=True) if size <= cut)
        if not sinks:
            return tuple(layers), tuple(left)
        layers.append(sinks)
        left = [node for node in left if node not in sinks]
    if left:
        layers.append(tuple(left))
    return tuple(layers), ()
