"""Pairs of models in which the mechanisms of a few variables changed, each in one way."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from diffdag._base.arrays import FloatArray
from diffdag.model.sem import LinearSEM
from diffdag.model.simulate import SEMPair, simulate_pair
from diffdag.reproduce.methods.gaussian import as_mask

NEIGHBOURS = (4, 5, 6)  # on average, in turn
MOST = 4  # changed mechanisms; from 1 on
WEIGHTS = 0.25, 1.0  # smallest and largest size of a weight, as in the paper
FACTORS = 1.5, 2.5  # of a gain, or their inverses
RATIOS = 2.0, 4.0  # of noise variances, or their inverses
SHIFTS = 0.3, 1.0  # of an intercept, in standard deviations of the noise
KINDS = ("effects", "gain", "noise", "intercept")


@dataclass(frozen=True, eq=False)
class NodePair:
    """Two models, and what changed of which variable."""

    models: SEMPair
    kinds: dict[int, str]  # one of `KINDS` for each variable that changed

    @property
    def parents(self) -> tuple[int, ...]:
        """Parents of each variable in either model, as sets."""
        either = (abs(self.models.first.effects) + abs(self.models.second.effects)).toarray()
        return tuple(as_mask(np.flatnonzero(row)) for row in either)

    def sample(self, n: int, seed: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
        """Draw `n` rows of each model."""
        rng = np.random.default_rng(seed)
        return self.models.first.sample(n, rng), self.models.second.sample(n, rng)


@lru_cache(maxsize=64)
def draw_nodes(p: int, seed: tuple[int, ...]) -> NodePair:
    """Draw a model as in section 4 of the paper, and change 1 to 4 of its mechanisms.

    The graph has 4, 5 or 6 neighbours per variable on average. Which variables change is drawn, and how: one or
    two effects on the variable are deleted or added, a gain multiplies all effects on it (two or more), its
    noise variance is multiplied or divided, or its intercept moves.
    """
    rng = np.random.default_rng(seed)
    first = simulate_pair(p, neighbours=float(rng.choice(NEIGHBOURS)), changes=0, rng=rng).first
    weights, variances, intercepts = first.weights.copy(), first.noise_variances.copy(), np.zeros(p)
    place = {variable: k for k, variable in enumerate(first.order)}
    chosen = rng.choice(p, int(rng.integers(1, MOST + 1)), replace=False).tolist()
    kinds: dict[int, str] = {}
    for variable in chosen:
        before = [other for other in range(p) if place[other] < place[variable]]
        parents = np.flatnonzero(first.weights[variable])
        possible = [
            kind for kind, can in zip(KINDS, (bool(before), len(parents) > 1, True, True), strict=True) if can
        ]
        kinds[variable] = kind = str(rng.choice(possible))
        if kind == "effects":
            count = min(int(rng.integers(1, 3)), len(before))
            for other in rng.choice(before, count, replace=False).tolist():
                drawn = rng.uniform(*WEIGHTS) * rng.choice([-1.0, 1.0])
                weights[variable, other] = 0.0 if first.weights[variable, other] else drawn
        elif kind == "gain":
            weights[variable] *= _either(rng, FACTORS)
        elif kind == "noise":
            variances[variable] *= _either(rng, RATIOS)
        else:
            moved = rng.uniform(*SHIFTS) * rng.choice([-1.0, 1.0])
            intercepts[variable] = moved * np.sqrt(variances[variable])
    second = LinearSEM(weights, variances, first.names, intercepts=intercepts)
    return NodePair(SEMPair(first, second), kinds)


def _either(rng: np.random.Generator, bounds: tuple[float, float]) -> float:
    """A factor within bounds, or its inverse."""
    return float(rng.uniform(*bounds) ** rng.choice([-1, 1]))
