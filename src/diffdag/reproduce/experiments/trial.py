"""One method on one data set: draw the pair, draw its data, run, score."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from diffdag._base.journal import Row
from diffdag.model.simulate import SEMPair, simulate_pair
from diffdag.reproduce.methods import find_method
from diffdag.reproduce.methods.attempt import attempt
from diffdag.reproduce.scoring import score
from diffdag.tables.moments import Moments

P, NEIGHBOURS = 10, 6  # of the paper's experiments with samples
EPSILON = 0.1  # Assumption 3 of the filtered pairs
KINDS = {"filtered": f"pairs with epsilon >= {EPSILON}", "unfiltered": "all pairs"}
SCORES = ("f1", "exact", "skeleton_f1", "skeleton_exact", "true_edges", "claimed", "undirected")


@lru_cache(maxsize=256)
def draw_pair(
    p: int,
    neighbours: float,
    filtered: bool,
    seed: tuple[int, ...],
    variances: tuple[float, ...] = (1.0,),
    variances_drawn: str = "shared",
) -> SEMPair:
    """A pair of section 4 of the paper; `filtered` ones satisfy Assumption 3 with epsilon 0.1."""
    return simulate_pair(
        p,
        neighbours=neighbours,
        variances=variances,
        variances_drawn=variances_drawn,  # type: ignore[arg-type]
        min_epsilon=EPSILON if filtered else None,
        rng=np.random.default_rng(seed),
    )


def draw_data(pair: SEMPair, n: int, seed: Sequence[int]) -> tuple[Moments, Moments]:
    """Moments of `n` rows of each condition."""
    rng = np.random.default_rng(seed)
    return pair.first.sample_moments(n, rng), pair.second.sample_moments(n, rng)


def try_method(name: str, pair: SEMPair, data: tuple[Moments, Moments], limit: float | None) -> Row:
    """The row of one method on one data set; without scores, and with a reason, if it gave no result."""
    method = find_method(name)
    if not method.available:
        return {**dict.fromkeys(SCORES), "why": f"needs {method.needs}", "seconds": None, "again": True}
    graph, why, seconds = attempt(method, (*data, pair.order) if method.knows_order else data, limit)
    scores = dict.fromkeys(SCORES) if graph is None else vars(score(pair.changed, graph))
    numbers = {key: float(value) if isinstance(value, bool) else value for key, value in scores.items()}
    return {**numbers, "why": why, "seconds": seconds}


def crossed(**columns: str | list[Any]) -> Callable[[Mapping[str, Any]], list[dict[str, Any]]]:
    """Cells of an experiment: every combination of the columns' values, the last column running fastest.

    A column has the values listed here, or those of the setting named here; a number counts from 0.
    """

    def cells(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
        given = [settings[values] if isinstance(values, str) else values for values in columns.values()]
        axes = [range(values) if isinstance(values, int) else values for values in given]
        return [dict(zip(columns, values, strict=True)) for values in itertools.product(*axes)]

    return cells
