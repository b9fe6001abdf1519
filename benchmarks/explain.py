"""How often the parts of an explanation lie within their 95 % intervals, on pairs of known models.

Each pair has changed effects, one changed noise variance and one changed intercept, on variables with means. A
mechanism that truly changed and was found has a part in every variable that it reaches; its true value is the
Shapley value in the true models. Usage:

    python benchmarks/explain.py [--pairs 200] [--seed 1] [--p 10] [--rows 341,2525]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import diffdag as dd
from diffdag.model.attribution import ChangedEquations, shapley_values
from diffdag.results.explanation import Explanations

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
    order = list(dd.model.simulate.SEMPair(one, two).order)
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
) -> list[tuple]:
    """Of each true part that was found: kind, what, the truth, estimate, its interval."""
    rows = []
    for target in found.targets:
        i = names.index(target.variable)
        for part in target.parts:
            mechanism = found.mechanisms[part.mechanism]
            for what in WHAT:
                if mechanism.name in truth and abs(true := truth[mechanism.name][what][i]) > 1e-12:
                    ends = (getattr(part, f"{what}{end}") for end in ("", "_low", "_high"))
                    rows.append((mechanism.kind, what, float(true), *ends))
    return rows


def main() -> None:
    """Print coverage by kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--p", type=int, default=10)
    parser.add_argument("--rows", default="341,2525")
    options = parser.parse_args()
    for n in map(int, options.rows.split(",")):
        rng, rows, start = np.random.default_rng([options.seed, n]), [], time.perf_counter()
        claimed = right = true = 0
        for _ in range(options.pairs):
            one, two = draw_pair(options.p, rng)
            tables = one.sample(n, rng=rng), two.sample(n, rng=rng)
            result = dd.DifferenceDAG(permutations=0).fit(*tables).result_
            truth = true_parts(one, two)
            names = {mechanism.name for mechanism in result.explanations.mechanisms}
            claimed, right, true = claimed + len(names), right + len(names & set(truth)), true + len(truth)
            rows += compare(result.explanations, truth, one.names)
        print(f"p = {options.p}, n = {n}, {options.pairs} pairs, seed {options.seed}: ", end="")
        print(f"{right} of {true} mechanisms found, {claimed} claimed; {time.perf_counter() - start:.0f} s")
        for what in WHAT:
            for kind in ("all", "effect", "noise", "intercept"):
                own = [row for row in rows if row[1] == what and kind in ("all", row[0])]
                if own:
                    inside = sum(low <= value <= high for _, _, value, _, low, high in own)
                    print(f"  {what:8}  {kind:9}  {inside} of {len(own)} = {inside / len(own):.3f}")


if __name__ == "__main__":
    main()
