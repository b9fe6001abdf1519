"""Studies as users have them: sound tables with one or two things about them, and options that suit those.

Covariates, units, gaps, memory, ordered categories, columns that stop to vary, few rows, noise of other shapes
and many variables: without them most of what `fit` can do would never be reached. Oddness comes on top, as in
all inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from hostile import EXTREMES, Dice, choices, names, options

STAGES = ("low", "mid", "high")
KNOWN: dict[str, tuple[Any, ...]] = {
    "order": (["a", "b", "c"], ["a", "b"]),
    "tiers": ([["a"], ["b", "c"]], {"a": 1, "b": 2}),
    "required": (["a -> b"], [("a", "b")]),
    "forbidden": (["a -> b"], [("b", "a")]),
}
# Every option of `DifferenceDAG`, with values that suit it; those that take long are few.
MODEL: dict[str, tuple[Any, ...]] = KNOWN | {
    "method": ("order", "paper"),
    "estimator": ("dantzig", "dtrace", "kliep", "plugin"),
    "penalty": (0.3, 1, "rate:1", 2.0),
    "threshold": (0.1, 0.0),
    "noise": ("auto", "equal"),
    "covariance": ("sample", "winsorised", "spearman"),
    "effective_samples": (10, (10, 12), "auto"),
    "whiten": ("ar", "differences"),
    "max_variables": (2, 3),
    "adjust": (["c"], ["a", "b"], "hidden", 1, ["a", "hidden"], []),
    "cluster": ("a", "b"),
    "missing": ("drop", "error", "em"),
    "rng": (0, 7),
    "n_jobs": (1,),
    "intervals": ("split",),
    "stored_rows": (0, 5),
    "permutations": (0, 19),
}
COSTLY: dict[str, tuple[Any, ...]] = {"controls": (20,), "resamples": (20,), "fdr": (0.1,)}
TRAITS = ("covariates", "units", "gaps", "memory", "switched", "stages", "few", "shape", "hidden")


@dataclass
class Study:
    """Two tables, and what suits them: options of `DifferenceDAG` and of its `fit`."""

    first: pd.DataFrame
    second: pd.DataFrame
    model: dict[str, Any] = field(default_factory=dict)
    wishes: dict[str, Any] = field(default_factory=dict)


def noise(dice: Dice, kind: str, rng: np.random.Generator, rows: int, p: int) -> np.ndarray:
    """Noise of variance one; with memory, of a time series."""
    if kind == "shape":
        made: np.ndarray = dice.pick((rng.exponential(size=(rows, p)) - 1, rng.uniform(-1.7, 1.7, (rows, p))))
        return made
    made = rng.standard_normal((rows, p))
    for k in range(1, rows if kind == "memory" else 0):
        made[k] = 0.6 * made[k - 1] + 0.8 * made[k]
    return made


def study(
    dice: Dice,
    p: int | None = None,
    rows: tuple[int, int] | None = None,
    traits: Sequence[str] | None = None,
) -> Study:
    """Two tables with something about them, options that suit, and perhaps one that does not."""
    traits = dice.some(TRAITS, 2) if traits is None else traits
    count = p or (16 if "hidden" in traits else dice.number(2, 4))
    one, two = rows or (dice.pick((24, 40)), dice.pick((20, 32)))
    if "shape" in traits and p is None:
        one, two = one + 40, two + 40
    if "few" in traits:
        one = dice.number(1, 10)
    if dice.flip():
        one, two = two, one
    rng = np.random.default_rng(dice.fresh())
    before = np.triu(rng.uniform(-1.5, 1.5, (count, count)) * (rng.random((count, count)) < 3 / count), 1)
    after = np.where(rng.random((count, count)) < 0.7, before, 0.0)
    after *= rng.choice([1.0, 1.0, 1.8], count)  # gains
    kind = "memory" if "memory" in traits else "shape" if "shape" in traits else "plain"
    chosen = names(dice, count)
    frames = []
    for rows_, weights, scales in ((one, before, np.ones(count)), (two, after, rng.choice([1, 1, 3], count))):
        own = noise(dice, kind, rng, rows_, count) * scales + rng.choice([0, 0, 2], count)
        if "hidden" in traits:
            own = own + 2 * rng.standard_normal((rows_, 1)) * rng.uniform(0.5, 1, count)
        frames.append(pd.DataFrame(own @ np.linalg.inv(np.eye(count) - weights), columns=chosen))
    made = Study(*frames)
    for trait in traits:
        _give(dice, rng, made, trait)
    if dice.odd(0.6):
        made.model |= options(dice, MODEL, 1)
    if dice.odd(0.2):
        made.wishes |= choices(dice) | options(dice, {"labels": (("x", "y"), ("x", "x"), "xy")}, 1)
        made.wishes.pop("missing", None)
    for frame in (made.first, made.second):
        if dice.odd(0.2) and len(frame):
            frame.iloc[dice.number(0, len(frame) - 1), 0] = dice.pick(EXTREMES)
    return made


def _give(dice: Dice, rng: np.random.Generator, made: Study, trait: str) -> None:
    """Give both tables a trait, and what asks for it."""
    frames = made.first, made.second
    if trait == "covariates":
        for frame in frames:
            frame["age"] = np.rint(rng.uniform(20, 80, len(frame)))
            frame["batch"] = rng.choice(["p", "q", "r"][: dice.number(1, 3)], len(frame))
        made.model["adjust"] = dice.pick((["age"], ["age", "batch"], ["batch"]))
    elif trait == "units":
        kind = "{}" if dice.odd(0.3) else dice.pick(("d{}", "own"))
        for k, frame in enumerate(frames):
            own = f"d{k}.{{}}" if kind == "own" else kind
            units = rng.integers(0, dice.pick((1, 5, 8)), len(frame))
            frame["donor"] = [own.format(unit) for unit in units]
            frame.iloc[:, 0] += units
        made.model["cluster"] = "donor"
    elif trait == "gaps":
        for frame in frames:
            gaps = rng.random(frame.shape) < dice.pick((0.03, 0.03, 0.03, 0.3))
            for k in range(frame.shape[1]):
                frame.isetitem(k, frame.iloc[:, k].mask(gaps[:, k]))
        made.model["missing"] = dice.pick(("em", "em", "drop"))
    elif trait == "memory":
        made.model |= dice.pick(({"whiten": "ar"}, {"whiten": "differences"}, {"effective_samples": "auto"}))
    elif trait == "switched":
        dice.pick(frames).iloc[:, -1] = dice.pick((0.0, 7.0))
    elif trait == "stages":
        for frame in frames:
            drawn = rng.choice(STAGES, len(frame))
            frame["stage"] = pd.Categorical(drawn, STAGES, ordered=True) if dice.flip() else drawn
        made.wishes["levels"] = {"stage": list(STAGES)} if not dice.odd(0.3) else dice.pick(ODD_LEVELS)
    elif trait == "hidden":
        made.model["adjust"] = dice.pick(("hidden", "hidden", 1, 2, 9))


ODD_LEVELS: tuple[Any, ...] = (
    {}, {"stage": []}, {"stage": ["low", "low"]}, {"stage": "low"}, {"nope": ["a", "b"]}, {"a": [1, 2]}, 3, "a",
    {"stage": [None, "low"]}, {3: [1]}, {"stage": 5}, ["stage"], {"stage": ["low", "mid", "high", "no"]},
)  # fmt: skip


def wide(dice: Dice) -> Study:
    """Many variables and few rows, so that some are left out before the search."""
    rows = dice.pick((20, 26, 40)), dice.pick((18, 30))
    made = study(dice, dice.pick((30, 36, 44, 60)), rows)
    if not dice.odd(0.3):
        made.model["max_variables"] = dice.pick((3, 6, 9))
    return made


def costly(dice: Dice) -> Study:
    """A study with something that takes many fits."""
    made = study(dice)
    made.model |= options(dice, COSTLY, 1) or {"controls": 20}
    if "fdr" in made.model:
        made.model["resamples"] = 20
    return made
