r"""Metrics of a system before and during a fault: is the culprit first, and how often is quiet data an alarm?

    python benchmarks/incidents.py                      whitened, on 40 data sets per kind
    python benchmarks/incidents.py --how ar differences effective raw --sets 10
    python benchmarks/incidents.py --wide               200 metrics: time

30 metrics with 2 to 4 neighbours on average, 300 rows before and 100 during the fault, in one piece. Noise is
an autoregression: with coefficient 0.9 for all ("common"), or from 0.5 to 0.98 by metric ("own"). A fifth of
the metrics have heavy tails (Student, 4 degrees of freedom), two that nothing depends on are nearly constant:
rounded to steps of two standard deviations. Effects are 0.3 to 0.9 noise standard deviations of the target for
one of the source. The fault changes one metric: its intercept by 2 to 4 standard deviations of its noise, one
effect by 0.5 to 1 towards and past zero, its noise by a factor of 2 to 3, or all effects on it (two or more) by
a factor of 1.8 to 2.5 or 0 to 0.3.

Written down is in how many data sets the culprit is first in `nodes`, by kind of fault, and in how many quiet
ones anything is claimed; beside it, the metric with the largest |shift| / sd, or ratio of sds, is the culprit.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from record import print_table

import diffdag as dd
from diffdag._base.parallel import run_all

SEED = 2_251_000  # 2_231_000 was the first report; settings were chosen on 2_210_000
P, BEFORE, DURING, WARM_UP = 30, 300, 100, 500
KINDS = ("quiet", "intercept", "effect", "noise", "gain")
MEMORIES = ("common", "own")
HOW: dict[str, dict[str, Any]] = {
    "ar": {"whiten": "ar"},
    "ar, winsorised": {"whiten": "ar", "covariance": "winsorised"},
    "differences": {"whiten": "differences"},
    "effective": {"effective_samples": "auto"},
    "raw": {},
}
BASELINES = ("shift", "ratio")


def random_effects(rng: np.random.Generator, p: int) -> np.ndarray:
    """Effects along a random order, for noise with standard deviation 1."""
    order, share = rng.permutation(p), rng.uniform(2, 4) / (p - 1)
    sizes = rng.uniform(0.3, 0.9, (p, p)) * rng.choice([-1, 1], (p, p))
    lower = np.tril(rng.random((p, p)) < share, k=-1) * sizes
    effects = np.zeros((p, p))
    effects[np.ix_(order, order)] = lower
    return effects


def break_one(rng: np.random.Generator, kind: str, effects: np.ndarray, whole: list[int]) -> tuple[Any, ...]:
    """The culprit, and effects, intercepts and noise during the fault."""
    p = len(effects)
    after, moved, louder = effects.copy(), np.zeros(p), np.ones(p)
    least = {"effect": 1, "gain": 2}.get(kind, 0)
    able = [k for k in whole if np.count_nonzero(effects[k]) >= least]
    culprit = int(rng.choice(able or whole))
    if kind == "intercept":
        moved[culprit] = rng.uniform(2, 4) * rng.choice([-1, 1])
    elif kind == "noise":
        louder[culprit] = rng.uniform(2, 3)
    elif kind == "effect":
        cause = rng.choice(np.flatnonzero(effects[culprit]))
        after[culprit, cause] -= np.sign(effects[culprit, cause]) * rng.uniform(0.5, 1)
    elif kind == "gain":
        after[culprit] *= rng.uniform(1.8, 2.5) if rng.random() < 0.5 else rng.uniform(0, 0.3)
    return culprit, after, moved, louder


def incident(
    rng: np.random.Generator, kind: str, memory: str, p: int = P
) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows before and during a fault, and the culprit."""
    effects, scales = random_effects(rng, p), rng.uniform(0.5, 2, p)
    phi = np.full(p, 0.9) if memory == "common" else rng.uniform(0.5, 0.98, p)
    flat = [k for k in range(p) if not effects[:, k].any()][:2]
    heavy = rng.choice(p, p // 5, replace=False)
    culprit, after, moved, louder = break_one(rng, kind, effects, [k for k in range(p) if k not in flat])
    start = WARM_UP + BEFORE
    new = rng.standard_normal((start + DURING, p))
    new[:, heavy] = rng.standard_t(4, (len(new), len(heavy))) / np.sqrt(2)
    new *= np.sqrt(1 - phi**2)
    new[start:] *= louder
    noise = np.zeros_like(new)
    for t in range(1, len(new)):
        noise[t] = phi * noise[t - 1] + new[t]
    one, two = (
        np.linalg.solve(np.eye(p) - own, rows.T).T * scales
        for own, rows in ((effects, noise[WARM_UP:start]), (after, noise[start:] + moved))
    )
    for k in flat:
        step = 2 * one[:, k].std()
        one[:, k], two[:, k] = (
            np.round(own[:, k] / step) + 0.01 * rng.standard_normal(len(own)) for own in (one, two)
        )
    return one, two, culprit


def claimed(result: Any) -> bool:
    """Whether anything is claimed to have changed."""
    return any((result.edge_list, result.gain_list, result.noise_list, result.mean_list))


def baselines(one: np.ndarray, two: np.ndarray) -> list[int]:
    """The metric whose mean moved most, in standard deviations, and whose standard deviation changed most."""
    shift = np.abs(one.mean(axis=0) - two.mean(axis=0)) / one.std(axis=0)
    ratio = np.abs(np.log(one.std(axis=0) / two.std(axis=0)))
    return [int(shift.argmax()), int(ratio.argmax())]


def one_set(task: tuple[int, int, str, str, tuple[str, ...]]) -> list[float]:
    """For each way: is the culprit first, or anything claimed where nothing changed? Errors count -1."""
    seed, number, memory, kind, ways = task
    rng = np.random.default_rng([seed, number, KINDS.index(kind), MEMORIES.index(memory)])
    one, two, culprit = incident(rng, kind, memory)
    found = []
    for how in ways:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dd.DiffDagWarning)
            try:
                result = dd.DifferenceDAG(**HOW[how]).fit(one, two).result_
            except dd.InputError:
                found.append(-1.0)
                continue
        first = str(result.nodes.variable[0])
        found.append(float(claimed(result) if kind == "quiet" else first == f"X{culprit + 1}"))
    return found + [float(kind != "quiet" and own == culprit) for own in baselines(one, two)]


def culprits(sets: int, ways: tuple[str, ...], seed: int, memories: list[str]) -> None:
    """In how many data sets the culprit is first, by kind."""
    for memory in memories:
        tasks = [(seed, number, memory, kind, ways) for kind in KINDS for number in range(sets)]
        each = dict(run_all(one_set, tasks, jobs=2))
        found = np.array([each[k] for k in range(len(tasks))]).reshape(len(KINDS), sets, -1)
        heads = ["how", "quiet: any claim", *KINDS[1:], "all kinds", "errors"]
        rows = []
        for k, how in enumerate((*ways, *BASELINES)):
            own = found[:, :, k]
            shares = [f"{100 * (own[i] > 0).mean():.0f} %" for i in range(len(KINDS))]
            every = f"{100 * (own[1:] > 0).mean():.0f} %"
            quiet = "" if how in BASELINES else shares[0]
            rows.append([how, quiet, *shares[1:], every, int((own < 0).sum())])
        print_table(f"Memory: {memory}, {sets} data sets per kind, seed {seed}", heads, rows)


def wide(seed: int) -> None:
    """Seconds for 200 metrics."""
    rows = []
    for memory in MEMORIES:
        for number, kind in enumerate(KINDS):
            one, two, culprit = incident(np.random.default_rng([seed, number]), kind, memory, p=200)
            for how in ("ar", "effective"):
                start = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", dd.DiffDagWarning)
                    result = dd.DifferenceDAG(**HOW[how]).fit(one, two).result_
                seconds = time.perf_counter() - start
                hit = result.nodes.variable[0] == f"X{culprit + 1}"
                rows.append([memory, kind, how, f"{seconds:.1f}", claimed(result), hit])
    print_table("200 metrics", ["memory", "kind", "how", "seconds", "any claim", "culprit first"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=40)
    parser.add_argument("--how", nargs="+", default=["ar"], choices=list(HOW))
    parser.add_argument("--memory", nargs="+", default=list(MEMORIES), choices=MEMORIES)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--wide", action="store_true")
    given = parser.parse_args()
    if given.wide:
        wide(given.seed)
    else:
        culprits(given.sets, tuple(given.how), given.seed, given.memory)


if __name__ == "__main__":
    main()
