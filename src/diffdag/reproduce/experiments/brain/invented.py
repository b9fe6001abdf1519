"""An invented brain of the paper's size, for those who have no data: the truth is known.

The appendix of Ghoshal, Bello and Honorio has 157 regions left and right (cerebrum, cerebellum, brainstem), of
which 12, most of them visual, take part in the difference DAG. The invented brain has the same numbers: its
connections are between neighbours and mirror images, and only effects between 12 occipital regions change.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffdag._base.arrays import FloatArray
from diffdag.model.sem import LinearSEM
from diffdag.model.simulate import SEMPair
from diffdag.reproduce.experiments.brain.data import Study, from_the_back

# The right half of the invented brain: letters of the labels, regions, centre and half axes (mm, MNI-like).
LOBES: dict[str, tuple[str, int, tuple[float, float, float], tuple[float, float, float]]] = {
    "Frontal": ("Fr", 20, (27, 24, 25), (21, 38, 37)),
    "Parietal": ("Pa", 13, (29, -36, 48), (25, 28, 21)),
    "Temporal": ("Te", 14, (50, -22, -12), (11, 35, 15)),
    "Occipital": ("Oc", 10, (21, -83, 8), (15, 13, 24)),
    "Subcortical": ("Su", 9, (15, -6, 3), (10, 20, 11)),
    "Cerebellum": ("Ce", 11, (24, -62, -38), (18, 16, 10)),
}
BRAINSTEM = ((0.0, -25.0, -12.0), (0.0, -29.0, -27.0), (0.0, -34.0, -43.0))
WHERE = "Occipital"
TAKE_PART = 12
NEAREST = 5
WEIGHTS, CHANGED_WEIGHTS = (0.15, 0.35), (0.4, 0.7)


def invent_study(n: int, seed: int, most: int | None = None) -> Study:
    """Tables of `n` independent rows each, drawn from two known models over invented regions."""
    atlas = invent_regions()
    regions = from_the_back(atlas, most)
    rng = np.random.default_rng(seed)
    pair = invent_models(regions, rng)
    first, second = (
        pd.DataFrame(model.sample(n, rng), columns=list(model.names)) for model in (pair.first, pair.second)
    )
    return Study(first, second, regions, atlas, pair)


def invent_regions() -> pd.DataFrame:
    """157 regions: 77 left, their mirror images right, three of the brainstem in the middle."""
    return pd.DataFrame(_invented(), columns=["region", "label", "lobe", "x", "y", "z"])


def _invented() -> Iterator[tuple[str, str, str, float, float, float]]:
    for lobe, (letters, count, centre, axes) in LOBES.items():
        points = np.asarray(centre) + np.asarray(axes) * _spiral(count)
        for k, (x, y, z) in enumerate(points.round(1).tolist(), start=1):
            for side, sign in (("L", -1), ("R", 1)):
                yield f"{lobe}_{k:02d}_{side}", f"{letters}{k}.{side}", lobe, sign * x, y, z
    for k, (x, y, z) in enumerate(BRAINSTEM, start=1):
        yield f"Brainstem_{k:02d}", f"Bs{k}", "Brainstem", x, y, z


def _spiral(count: int) -> FloatArray:
    """Points spread evenly over the unit sphere, along a spiral with the golden angle."""
    k = np.arange(count) + 0.5
    height = 1 - 2 * k / count
    turn = np.pi * (1 + 5**0.5) * k
    radius = np.sqrt(1 - height**2)
    return np.column_stack([radius * np.cos(turn), radius * np.sin(turn), height])


def invent_models(regions: pd.DataFrame, rng: np.random.Generator) -> SEMPair:
    """Effects between neighbours and mirror images, along a random order; some occipital ones change.

    The changed effects form a tree over 12 occipital regions: each but the first in the order has one changed
    effect, of the nearest before it. Half of them are there in the first model only, half in the second only.
    Noise variances are one in both.
    """
    names, p = tuple(regions["region"]), len(regions)
    rank = rng.permutation(p)
    places = regions[["x", "y", "z"]].to_numpy(float)
    distance = np.linalg.norm(places[:, None] - places, axis=2)
    shared = np.zeros((p, p))
    for i, j in _neighbours(regions, distance):
        effect, cause = (i, j) if rank[i] > rank[j] else (j, i)
        shared[effect, cause] = rng.uniform(*WEIGHTS) * rng.choice([1, 1, 1, -1])
    first, second = shared.copy(), shared.copy()
    visual = np.flatnonzero(regions["lobe"] == WHERE)
    chosen = rng.choice(visual, TAKE_PART, replace=False)
    chosen = chosen[np.argsort(rank[chosen])]
    for k, effect in enumerate(chosen[1:], start=1):
        cause = min(chosen[:k], key=lambda j: float(distance[effect, j]))
        weight = rng.uniform(*CHANGED_WEIGHTS) * rng.choice([-1, 1])
        first[effect, cause], second[effect, cause] = (weight, 0.0) if k % 2 else (0.0, weight)
    return SEMPair(LinearSEM(first, names=names), LinearSEM(second, names=names))


def _neighbours(regions: pd.DataFrame, distance: NDArray[np.floating]) -> list[tuple[int, int]]:
    """Pairs i < j: each region with the nearest others and with its mirror image."""
    pairs = set()
    place = {name: k for k, name in enumerate(regions["region"])}
    for i, name in enumerate(regions["region"]):
        others = list(np.argsort(distance[i], kind="stable")[1 : NEAREST + 1])
        mirror = place.get(f"{name[:-1]}R") if name.endswith("_L") else None
        if mirror is not None:
            others.append(mirror)
        pairs |= {(min(i, int(j)), max(i, int(j))) for j in others}
    return sorted(pairs)
