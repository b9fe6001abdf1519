"""How often the parts of an explanation lie within their 95 % intervals, on pairs of known models.

Each pair has changed effects, one changed noise variance and one changed intercept, on variables with means. A
mechanism that truly changed and was found has a part in every variable that it reaches; its true value is the
Shapley value in the true models, where effects tilt equations as trust/explanation.py says. A part is absent
where the fitted order has the variable before the mechanism; the last line counts these as outside. Usage:

    python benchmarks/explain.py [--pairs 200] [--seed 1] [--p 10] [--rows 341,2525]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np

import diffdag as dd
from diffdag.model.attribution import ChangedEquations, shapley_values
from diffdag.model.simulate import SEMPair
from diffdag.pipeline import ModelOptions, prepare, search
from diffdag.results.explanation import Explanations, Part
from diffdag.tables.align import align_tables
from diffdag.trust.explanation import explain_changes

WHAT = ("mean", "variance")


def draw_pair(p: int, rng: np.random.Generator) -> tuple[dd.LinearSEM, dd.LinearSEM]:
    """Two models: two effects, one noise variance and one intercept differ."""
    pair = dd.simulate_pair(p, neighbours=4, changes=2, weights=(0.4, 1.0), rng=rng)
    intercepts, noise = [rng.normal(0, 1, p)] * 2, [np.ones(p)] * 2
    intercepts[1], noise[1] = intercepts[0].copy(), noise[0].copy()
    intercepts[1][rng.integers(p)] += rng.choice([-1, 1]) * rng.uniform(0.5, 1.5)
    noise[1][rng.integers(p)] *= rng.choice([0.4, 2.5])
    one, two = (
        dd.LinearSEM(model.weights, own, intercepts=level)
        for model, own, level in zip((pair.first, pair.second), noise, intercepts, strict=True)
    )
    return one, two


def true_parts(one: dd.LinearSEM, two: dd.LinearSEM) -> dict[str, dict[str, np.ndarray]]:
    """What each changed mechanism accounts for, by name: [variable] of means and of variances."""
    p, names = len(one.names), one.names
    order = list(SEMPair(one, two).order)
    centre = (one.mean() + two.mean()) / 2
    delta = (two.weights - one.weights)[np.ix_(order, order)]
    level = (two.intercepts - one.intercepts)[order]
    centre = centre[order]
    found: list[tuple[str, int, np.ndarray, float, float]] = []
    tilted = delta @ centre
    for k, i in enumerate(order):
        at_mean = level[k] + tilted[k]
        zero = abs(level[k]) < abs(at_mean)
        for j in np.flatnonzero(delta[k]):
            row = np.where(np.arange(p) == j, delta[k], 0.0)
            # Around the common mean an effect moves the intercept at zero, too.
            found.append((f"{names[order[j]]} -> {names[i]}", k, row, 0.0 if zero else -row @ centre, 0.0))
        change = level[k] if zero or not delta[k].any() else at_mean
        if change:
            found.append((f"intercept of {names[i]}", k, np.zeros(p), change, 0.0))
        if one.noise_variances[i] != two.noise_variances[i]:
            noise = float(two.noise_variances[i] - one.noise_variances[i])
            found.append((f"noise of {names[i]}", k, np.zeros(p), 0.0, noise))
    called, rows, weights, intercepts, variances = zip(*found, strict=True)
    first = one.weights[np.ix_(order, order)], one.intercepts[order], one.noise_variances[order]
    changed = ChangedEquations(
        *first, np.array(rows), np.array(weights), np.array(intercepts), np.array(variances)
    )
    back = np.argsort(order)
    parts = [own[:, back] for own in shapley_values(changed)]
    return {name: dict(zip(WHAT, (own[k] for own in parts), strict=True)) for k, name in enumerate(called)}


def compare(
    found: Explanations, truth: dict[str, dict[str, np.ndarray]], names: tuple[str, ...]
) -> Iterator[tuple[str, str, float, Part | None]]:
    """Of each true part of a mechanism that was found: kind, what, the truth, the part if there is one."""
    for target in found.targets:
        i, own = names.index(target.variable), {part.mechanism: part for part in target.parts}
        for k, mechanism in enumerate(found.mechanisms):
            for what in WHAT:
                if mechanism.name in truth and abs(true := truth[mechanism.name][what][i]) > 1e-12:
                    yield mechanism.kind, what, float(true), own.get(k)


def within(what: str, true: float, part: Part | None) -> bool:
    """Whether the interval of a part holds the truth."""
    ends = None if part is None else (getattr(part, f"{what}_low"), getattr(part, f"{what}_high"))
    return ends is not None and ends[0] <= true <= ends[1]


def main() -> None:
    """Print coverage by kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--p", type=int, default=10)
    parser.add_argument("--rows", default="341,2525")
    options, model = parser.parse_args(), ModelOptions()
    for n in map(int, options.rows.split(",")):
        rng, parts, taken = np.random.default_rng([options.seed, n]), [], []
        claimed = right = true = 0
        for _ in range(options.pairs):
            one, two = draw_pair(options.p, rng)
            fit = search(prepare(align_tables(one.sample(n, rng=rng), two.sample(n, rng=rng)), model), model)
            start = time.process_time()
            found = explain_changes(fit.difference, fit)
            taken.append(time.process_time() - start)
            truth, names = true_parts(one, two), {mechanism.name for mechanism in found.mechanisms}
            claimed, right, true = claimed + len(names), right + len(names & set(truth)), true + len(truth)
            parts += [(len(set(truth) - names), *part) for part in compare(found, truth, one.names)]
        print(f"p = {options.p}, n = {n}, {options.pairs} pairs, seed {options.seed}: ", end="")
        print(f"{right} of {true} mechanisms found, {claimed} claimed, ", end="")
        print(f"{1000 * np.median(taken):.0f} ms of processor time per explanation")
        chosen = {
            "all": lambda own: own[4] is not None,
            "all, nothing missed": lambda own: own[4] is not None and own[0] == 0,
            "effect": lambda own: own[4] is not None and own[1] == "effect",
            "noise": lambda own: own[4] is not None and own[1] == "noise",
            "intercept": lambda own: own[4] is not None and own[1] == "intercept",
            "all, absent count": lambda own: True,
        }
        for what in WHAT:
            for label, choose in chosen.items():
                own = [part for part in parts if part[2] == what and choose(part)]
                if own:
                    inside = sum(within(what, part[3], part[4]) for part in own)
                    print(f"  {what:8}  {label:19}  {inside} of {len(own)} = {inside / len(own):.3f}")


if __name__ == "__main__":
    main()
