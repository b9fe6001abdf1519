"""Worlds in which methods are compared: the paper's, and what happens when one thing about it is another.

A world gives two tables of rows, the effects that changed, and those of which it is not asked: where a gain
multiplies all effects on a variable, it is a matter of words whether one gain or several effects changed, so
these pairs count neither for nor against a method.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag.model.sem import LinearSEM
from diffdag.model.simulate import SEMPair, simulate_pair

FACTORS = 1.5, 2.5  # of a gain, or their inverses
SHIFTS = 0.3, 1.0  # of an intercept
BEND = 0.3  # share of an effect that saturates
TOUCHED = 3  # variables whose mean or gain changes besides


@dataclass(frozen=True)
class World:
    """How pairs of models are drawn, and what changes besides effects."""

    title: str
    p: int = 10
    neighbours: float = 6.0
    options: dict[str, Any] = field(default_factory=dict)  # of `simulate_pair`
    besides: str = ""  # "means" or "gains" change too
    bent: bool = False  # effects saturate


WORLDS = {
    "paper": World("the paper's models, p = 10"),
    "noise": World(
        "noise variances 0.5, 1 or 1.5",
        options={"variances": (0.5, 1.0, 1.5), "variances_drawn": "per-condition"},
    ),
    "means": World("three means moved", besides="means"),
    "gains": World("three gains changed", besides="gains"),
    "laplace": World(
        "Laplace noise, unequal variances", options={"noise": "laplace", "variances": (0.5, 1.0, 1.5)}
    ),
    "bent": World("Student noise, effects that saturate", options={"noise": "student"}, bent=True),
    "sparse 30": World("p = 30, 3 neighbours, 6 changes", 30, 3.0, {"changes": 6}),
    "sparse 100": World("p = 100, 3 neighbours, 10 changes", 100, 3.0, {"changes": 10}),
}


@dataclass(frozen=True, eq=False)
class Drawn:
    """Two tables, the truth, and the pairs that do not count."""

    rows: tuple[FloatArray, FloatArray]
    changed: BoolArray
    open: BoolArray
    order: tuple[int, ...]


@lru_cache(maxsize=8)
def draw(name: str, n: int, seed: tuple[int, ...]) -> Drawn:
    """One data set of a world, `n` rows of each condition."""
    world, rng = WORLDS[name], np.random.default_rng(seed)
    pair = simulate_pair(world.p, neighbours=world.neighbours, **world.options, rng=rng)
    unasked = np.zeros((world.p, world.p), bool)
    if world.besides:
        pair, unasked = _touched(pair, world.besides, rng)
    rows = np.random.default_rng((*seed, n))
    tables = tuple(
        _bent(model, n, rows) if world.bent else model.sample(n, rows) for model in (pair.first, pair.second)
    )
    return Drawn((tables[0], tables[1]), pair.changed & ~unasked, unasked, pair.order)


def _touched(pair: SEMPair, what: str, rng: np.random.Generator) -> tuple[SEMPair, BoolArray]:
    """Move the means of three variables of the second model, or multiply all effects on each of three."""
    p, model = len(pair.first.names), pair.second
    weights, intercepts = model.weights.copy(), np.zeros(p)
    unasked = np.zeros((p, p), bool)
    fit = [k for k in range(p) if what == "means" or np.count_nonzero(weights[k]) > 1]
    for k in rng.choice(fit, min(TOUCHED, len(fit)), replace=False).tolist():
        sign = rng.choice([-1.0, 1.0])
        if what == "means":
            intercepts[k] = sign * rng.uniform(*SHIFTS)
        else:
            unasked[k] = (weights[k] != 0) & ~pair.changed[k]
            weights[k] *= rng.uniform(*FACTORS) ** sign
    second = LinearSEM(weights, model.noise_variances, model.names, intercepts=intercepts, noise=model.noise)
    return SEMPair(pair.first, second), unasked | unasked.T


def _bent(model: LinearSEM, n: int, rng: np.random.Generator) -> FloatArray:
    """Rows of a model in which a part of every effect saturates beyond one standard deviation of the noise."""
    empty = LinearSEM(np.zeros_like(model.weights), model.noise_variances, model.names, noise=model.noise)
    rows, weights = empty.sample(n, rng), model.weights
    for k in model.order:
        rows[:, k] += ((1 - BEND) * rows + BEND * np.tanh(rows)) @ weights[k]
    return rows
