"""Intercepts, gains and noise variances beside changed edges: what they help, what they cost, false alarms.

OPENBLAS_NUM_THREADS=1 python benchmarks/mechanisms.py [accuracy means open gains alarms exact time]
    [--sets 100] [--null-sets 200] [--seed 2870000]

The paper's pairs of models. F1 is the mean over data sets; an undirected edge counts as a claim that is wrong.

accuracy  two noise variances of the second model multiplied or divided by 1.5 to 2.5, two intercepts moved by
          0.3 to 1 noise standard deviations: how well these, and the edges, are found
means     none, 30 % or all intercepts moved by Gaussian amounts; "without" has both means set to zero
open      noise variances drawn for each condition anew: how many edges stay undirected without and with means
gains     all effects on one or two variables with 3 to 8 causes times a factor of 0.2 to 3, and not between 3/4
          and 4/3; "without" is the score without gains. Every second data set has their intercepts and noise
          variances moved too. "none" has no gain but changed edges
alarms    two samples of one model: share of data sets with any claim
exact     exact models: share whose changes are found, or which tie with what is found
time      processor time of a fit over that of the score without intercepts and gains, in one run
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from record import print_table

import diffdag as dd
from diffdag import pipeline
from diffdag.model.simulate import SEMPair
from diffdag.ordersearch.fit import OrderSettings
from diffdag.pipeline import ModelOptions
from diffdag.trust.options import Assessment

ACCURACY = [(10, 2525, 6, 0.05), (10, 2525, 6, 0.0), (30, 1000, 6, 0.01), (30, 1000, 6, 0.0)]
MEANS = [(0.0, 0.0), (0.3, 0.3), (0.3, 1.0), (1.0, 0.3), (1.0, 1.0)]  # share and size
NULL = [(10, 100), (10, 341), (10, 2525), (10, 10000), (50, 100), (50, 341), (50, 2525), (50, 10000)]
TIMES = [(10, 341, None), (10, 2525, None), (30, 1000, 8), (50, 1000, 20), (100, 2000, 15)]


class WithoutGains(ModelOptions):
    """The default, but that no factor multiplies all effects on a variable."""

    def order_settings(self, *arguments: Any) -> OrderSettings:
        return replace(super().order_settings(*arguments), gains=False)


def fit(first: dd.Moments, second: dd.Moments, *, gains: bool = True) -> dd.DifferenceResult:
    options = ModelOptions() if gains else WithoutGains()
    return pipeline.fit_moments(first, second, options, Assessment())


def without_means(moments: dd.Moments) -> dd.Moments:
    return dd.Moments(moments.names, moments.n, np.zeros(len(moments.names)), moments.scatter)


def model(like: dd.LinearSEM, weights=None, variances=None, intercepts=None) -> dd.LinearSEM:
    weights = like.weights if weights is None else weights
    variances = like.noise_variances if variances is None else variances
    return dd.LinearSEM(weights, variances, like.names, intercepts=intercepts)


def f1(true: frozenset | set, claimed: set, others: int = 0) -> float:
    most = len(true) + len(claimed) + others
    return 2 * len(true & claimed) / most if most else 1.0


def edge_f1(true: set[tuple[str, str]], result: dd.DifferenceResult) -> float:
    directed = {(edge.source, edge.target) for edge in result.edge_list if edge.directed}
    return f1(true, directed, sum(not edge.directed for edge in result.edge_list))


def seeds(options: argparse.Namespace, *key: int, sets: int | None = None) -> Iterator[np.random.Generator]:
    for k in range(sets or options.sets):
        yield np.random.default_rng([options.seed, *key, k])


# ---------------------------------------------------------------------------------------------- accuracy


def accuracy(options):
    rows = []
    for p, n, neighbours, change in ACCURACY:
        found = []
        for rng in seeds(options, p, n, round(1000 * change)):
            pair = dd.simulate_pair(p, neighbours=neighbours, change=change, rng=rng)
            noisy, moved = np.split(rng.permutation(p)[:4], 2)
            variances, shift = np.ones(p), np.zeros(p)
            variances[noisy] = rng.uniform(1.5, 2.5, 2) ** rng.choice([-1.0, 1.0], 2)
            shift[moved] = rng.uniform(0.3, 1.0, 2) * rng.choice([-1.0, 1.0], 2)
            second = model(pair.second, variances=variances, intercepts=shift)
            result = fit(pair.first.sample_moments(n, rng), second.sample_moments(n, rng))
            own = [edge_f1(pair.edges, result)]
            for truth, claims in ((noisy, result.noise_list), (moved, result.mean_list)):
                true, claimed = {second.names[k] for k in truth}, {change.variable for change in claims}
                own += [f1(true, claimed), len(true - claimed), len(claimed - true)]
            found.append(own)
        edges = f"{change:.0%} of pairs" if change else "no edges"
        title = f"p = {p}, n = {n}, {neighbours:g} neighbours, {edges} changed"
        rows.append([title, *np.mean(found, axis=0).tolist()])
    heads = ["models", "edges F1", "noise F1", "missed", "false", "intercepts F1", "missed", "false"]
    title = f"2 changed noise variances, 2 changed intercepts; {options.sets} data sets, seed {options.seed}"
    print_table(title, heads, rows, section="accuracy")


# ------------------------------------------------------------------------------------------------- means


def means(options):
    rows = []
    for n in (341, 2525):
        for share, size in MEANS:
            scores = []
            for rng in seeds(options, n):  # the same models in all rows
                pair = dd.simulate_pair(10, neighbours=6, change=0.05, rng=rng)
                moves = rng.permutation(10) < round(10 * share)
                shift = np.where(moves, size * rng.normal(size=10), 0.0)
                both = (
                    pair.first.sample_moments(n, rng),
                    model(pair.second, intercepts=shift).sample_moments(n, rng),
                )
                plain = map(without_means, both)
                scores.append([edge_f1(pair.edges, fit(*plain)), edge_f1(pair.edges, fit(*both))])
            moved = "none" if not share else f"{share:.0%} by N(0, {size:g}^2)"
            rows.append([n, moved, *np.mean(scores, axis=0).tolist()])
    heads = ["n", "intercepts moved", "F1 without", "F1 with"]
    title = f"Intercepts in the score, p = 10, {options.sets} pairs, seed {options.seed}"
    print_table(title, heads, rows, section="means")


def open_directions(options):
    rows = []
    for n in (341, 2525):
        for share in (0.3, 0.6):
            counts = []
            for rng in seeds(options, n, 1):
                how = {"variances": (0.5, 1.0, 1.5), "variances_drawn": "per-condition"}
                pair = dd.simulate_pair(10, neighbours=6, change=0.05, rng=rng, **how)
                shift = np.where(rng.permutation(10) < round(10 * share), rng.normal(size=10), 0.0)
                both = (
                    pair.first.sample_moments(n, rng),
                    model(pair.second, intercepts=shift).sample_moments(n, rng),
                )
                own = []
                for first, second in ((*map(without_means, both),), both):
                    result = fit(first, second)
                    loose = sum(not edge.directed for edge in result.edge_list)
                    own += [loose, len(result.edge_list), edge_f1(pair.edges, result)]
                counts.append(own)
            total = np.sum(counts, axis=0)
            shares = [f"{total[k] / max(total[k + 1], 1):.1%}" for k in (0, 3)]
            mean = np.mean(counts, axis=0)
            rows.append([n, f"{share:.0%}", *shares, float(mean[2]), float(mean[5])])
    heads = ["n", "intercepts moved", "undirected without", "with", "F1 without", "F1 with"]
    title = f"Noise variances .5, 1 or 1.5 in each condition, p = 10, {options.sets} pairs, seed {options.seed}"
    print_table(title, heads, rows, section="open")


# ------------------------------------------------------------------------------------------------- gains


@dataclass(frozen=True)
class Planted:
    """Two models, and the factors of the variables whose gain differs."""

    first: dd.LinearSEM
    second: dd.LinearSEM
    factors: dict[str, float]

    @property
    def edges(self) -> set[tuple[str, str]]:
        names = self.first.names
        return {(names[j], names[i]) for i, j in np.argwhere(self.first.weights != self.second.weights)}


def plant(pair: SEMPair, rng: np.random.Generator, besides: bool) -> Planted | None:
    """Multiply the effects on one or two variables; None if there are none with 3 to 8 causes."""
    weights, names = pair.first.weights.copy(), pair.first.names
    causes = (weights != 0).sum(axis=1)
    chosen = rng.permutation(np.flatnonzero((causes >= 3) & (causes <= 8)))[: rng.integers(1, 3)]
    if not len(chosen):
        return None
    variances, shift, factors = np.ones(len(names)), np.zeros(len(names)), {}
    for i in chosen.tolist():
        factor = 1.0
        while 3 / 4 < factor < 4 / 3:
            factor = float(np.exp(rng.uniform(np.log(0.2), np.log(3.0))))
        factors[names[i]] = factor
        weights[i] *= factor
        if besides:
            variances[i], shift[i] = np.exp(rng.uniform(-1, 1)), rng.normal()
    return Planted(pair.first, model(pair.first, weights, variances, shift), factors)


def gains(options):
    rows = []
    for p in (10, 30):
        for n in (500, 2500):
            scores, none, found, near, wrong, planted = [], [], 0, 0, 0, 0
            for k, rng in enumerate(seeds(options, p, n)):
                drawn = None
                while drawn is None:
                    pair = dd.simulate_pair(p, neighbours=6, changes=0, rng=rng)
                    drawn = plant(pair, rng, besides=k % 2 == 1)
                both = drawn.first.sample_moments(n, rng), drawn.second.sample_moments(n, rng)
                with_gains, plain = fit(*both), fit(*both, gains=False)
                scores.append([edge_f1(drawn.edges, plain), edge_f1(drawn.edges, with_gains)])
                claimed = {change.variable: change for change in with_gains.gain_list}
                planted += len(drawn.factors)
                wrong += len(claimed.keys() - drawn.factors.keys())
                for name in claimed.keys() & drawn.factors.keys():
                    change = claimed[name]
                    found += 1
                    near += abs((change.factor or 0.0) - drawn.factors[name]) <= 2 * (change.stderr or 0.0)
                pair = dd.simulate_pair(p, neighbours=6, changes=p // 4, rng=rng)
                both = pair.first.sample_moments(n, rng), pair.second.sample_moments(n, rng)
                none.append([edge_f1(pair.edges, fit(*both, gains=False)), edge_f1(pair.edges, fit(*both))])
            shares = f"{found / planted:.1%}", f"{near / max(found, 1):.1%}"
            rows.append([p, n, planted, *shares, wrong, *np.mean(scores, axis=0), *np.mean(none, axis=0)])
    heads = ["p", "n", "gains", "found", "within 2 errors", "false", "F1 without", "with"]
    heads += ["none: F1 without", "with"]
    title = f"Planted gains, {options.sets} data sets, seed {options.seed}"
    print_table(title, heads, rows, section="gains")


# ------------------------------------------------------------------------------------------------ alarms


def alarms(options):
    rows = []
    for p, n in NULL:
        claims = []
        for rng in seeds(options, p, n, 2, sets=options.null_sets):
            sem = dd.simulate_pair(p, neighbours=4, changes=0, rng=rng).first
            result = fit(sem.sample_moments(n, rng), sem.sample_moments(n, rng))
            lists = (result.edge_list, result.gain_list, result.noise_list, result.mean_list)
            own = [bool(found) for found in lists]
            claims.append([*own, any(own)])
        rows.append([p, n, *(f"{share:.1%}" for share in np.mean(claims, axis=0))])
    heads = ["p", "n", "edges", "gains", "noise", "intercepts", "any"]
    title = (
        f"Two samples of one model, share of {options.null_sets} data sets with any claim, seed {options.seed}"
    )
    print_table(title, heads, rows, section="alarms")


# ------------------------------------------------------------------------------------------------- exact


def exact_weights(rng):
    pair = dd.simulate_pair(8, neighbours=4, changes=3, weights=(0.25, 1.0), rng=rng)
    shift = np.where(rng.permutation(8) < 3, rng.uniform(0.5, 2, 8), 0.0)
    return pair.first, model(pair.second, intercepts=shift)


def exact_gains(rng):
    planted = None
    while planted is None:
        planted = plant(dd.simulate_pair(8, neighbours=4, changes=0, rng=rng), rng, besides=False)
    return planted.first, planted.second


def exact_both(rng):
    planted = None
    while planted is None:
        planted = plant(dd.simulate_pair(8, neighbours=4, changes=0, rng=rng), rng, besides=False)
    weights, variances = planted.second.weights.copy(), np.ones(8)
    others = [k for k, name in enumerate(planted.first.names) if name not in planted.factors]
    changeable = [(i, j) for i, j in np.argwhere(planted.first.weights != 0).tolist() if i in others]
    if changeable:
        weights[tuple(changeable[rng.integers(len(changeable))])] *= -0.7
    variances[rng.permutation(8)[:2]] = rng.uniform(1.5, 3, 2)
    shift = np.where(rng.permutation(8) < 2, rng.uniform(0.5, 2, 8), 0.0)
    return planted.first, model(planted.first, weights, variances, shift)


EXACT: dict[str, Callable] = {
    "changed weights, moved intercepts": exact_weights,
    "gains": exact_gains,
    "gains, a changed weight, moved intercepts, two changed variances": exact_both,
}


def exact(options):
    rows = []
    for name, drawn in EXACT.items():
        counts = [0, 0, 0]
        for rng in seeds(options, len(name)):
            first, second = drawn(rng)
            names = first.names
            truth = {(names[j], names[i]) for i, j in np.argwhere(first.weights != second.weights)}
            result = dd.DifferenceDAG().fit_population(first, second).result_
            claimed = {(edge.source, edge.target) for edge in result.edge_list if edge.directed}
            loose = {frozenset((edge.source, edge.target)) for edge in result.edge_list if not edge.directed}
            pairs = {frozenset(edge) for edge in truth}
            if claimed == truth and not loose:
                counts[0] += 1
            elif claimed <= truth and {frozenset(edge) for edge in claimed} | loose == pairs:
                counts[1] += 1
            else:
                counts[2] += 1
        rows.append([name, *counts])
    title = f"Exact models, p = 8, {options.sets} pairs, seed {options.seed}"
    print_table(title, ["what changed", "found", "tie, listed", "otherwise"], rows, section="exact")


# -------------------------------------------------------------------------------------------------- time


def times(options):
    rows = []
    for p, n, changes in TIMES:
        ratios = []
        for rng in seeds(options, p, n, 3, sets=min(options.sets, 10)):
            how = {"change": 0.05} if changes is None else {"changes": changes}
            pair = dd.simulate_pair(p, neighbours=6, rng=rng, **how)
            both = pair.first.sample_moments(n, rng), pair.second.sample_moments(n, rng)
            taken = []
            for arguments, gains_too in (((*map(without_means, both),), False), (both, True)):
                start = time.process_time()
                fit(*arguments, gains=gains_too)
                taken.append(time.process_time() - start)
            ratios.append(taken)
        base, own = np.sum(ratios, axis=0)
        each = sorted(two / one for one, two in ratios)
        rows.append([p, n, 1000 * base / len(ratios), own / base, each[0], each[-1]])
    heads = ["p", "n", "ms without", "ratio with", "least", "most"]
    title = f"Processor time with intercepts and gains over that without, seed {options.seed}"
    print_table(title, heads, rows, section="time")


PARTS: dict[str, Callable] = {
    "accuracy": accuracy,
    "means": means,
    "open": open_directions,
    "gains": gains,
    "alarms": alarms,
    "exact": exact,
    "time": times,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--null-sets", type=int, default=200)
    parser.add_argument("--seed", type=int, default=2_870_000)
    options = parser.parse_args()
    for part in options.parts or PARTS:
        PARTS[part](options)


if __name__ == "__main__":
    main()
