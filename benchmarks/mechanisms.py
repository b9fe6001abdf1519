"""How well changed noise variances and changed intercepts are found, next to changed edges; and false alarms.

OPENBLAS_NUM_THREADS=1 python benchmarks/mechanisms.py [--sets 100] [--null-sets 200] [--seed 870000]

The paper's pairs of models; in some variables the noise variance of the second is multiplied or divided by 1.5
to 2.5, in others the intercept moves by 0.3 to 1 noise standard deviations. F1 is the mean over data sets.
"with true order" has the order, the changed effects and the changed variances from the truth: what is lost
there is not the search's fault. Null data are two samples of one model: the share of data sets with any claim.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
from record import print_table

import diffdag as dd
from diffdag.model.simulate import SEMPair
from diffdag.ordersearch.intercepts import changed_mechanisms
from diffdag.reproduce.scoring import graph_of, score


@dataclass(frozen=True)
class Case:
    p: int
    n: int
    neighbours: float
    change: float
    noise: int = 2
    means: int = 2

    def __str__(self):
        edges = f"{self.change:.0%} of pairs" if self.change else "no edges"
        return f"p = {self.p}, n = {self.n}, {self.neighbours:g} neighbours, {edges} changed"


CASES = [Case(10, 2525, 6, 0.05), Case(10, 2525, 6, 0.0), Case(30, 1000, 6, 0.01), Case(30, 1000, 6, 0.0)]
NULL = [
    Case(p, n, 4, 0.0, 0, 0) for p, n in ((5, 100), (10, 100), (10, 2525), (30, 100), (30, 1000), (50, 1000))
]


@dataclass(frozen=True)
class Drawn:
    pair: SEMPair
    first: dd.Moments
    second: dd.Moments
    noise: frozenset
    means: frozenset


def draw(case, rng):
    pair = dd.simulate_pair(case.p, neighbours=case.neighbours, change=case.change, rng=rng)
    chosen = rng.permutation(case.p)[: case.noise + case.means]
    noisy, moved = chosen[: case.noise], chosen[case.noise :]
    variances, shift = np.ones(case.p), np.zeros(case.p)
    variances[noisy] = rng.uniform(1.5, 2.5, len(noisy)) ** rng.choice([-1.0, 1.0], len(noisy))
    shift[moved] = rng.uniform(0.3, 1.0, len(moved)) * rng.choice([-1.0, 1.0], len(moved))
    second = dd.LinearSEM(pair.second.weights, variances)
    before, after = pair.first.sample_moments(case.n, rng), second.sample_moments(case.n, rng)
    mean = after.mean + np.linalg.solve(np.eye(case.p) - second.weights, shift)
    after = dd.Moments(after.names, after.n, mean, after.scatter)
    return Drawn(pair, before, after, frozenset(noisy.tolist()), frozenset(moved.tolist()))


def found(data):
    """Edges, and what the search says of order, causes and variances."""
    result = dd.DifferenceDAG().fit_moments(data.first, data.second).result_
    place = {name: k for k, name in enumerate(result.variables)}
    order = [place[name] for name in result.settings["search_order"]]
    causes = {}
    for edge in result.edge_list:
        cause, effect = sorted((place[edge.source], place[edge.target]), key=order.index)
        causes.setdefault(effect, []).append(cause)
    edges = [(e.source, e.target, e.directed) for e in result.edge_list]
    return graph_of(result.variables, edges), (
        order,
        causes,
        [place[change.variable] for change in result.noise_list],
    )


def truth(data):
    changed = data.pair.changed
    causes = {i: np.flatnonzero(row).tolist() for i, row in enumerate(changed) if row.any()}
    return list(data.pair.order), causes, sorted(data.noise)


def columns_of(changes):
    return frozenset(int(change.variable[1:]) - 1 for change in changes)


def f1(true, claimed):
    return 2 * len(true & claimed) / (len(true) + len(claimed)) if true or claimed else 1.0


def one(case, seed, k):
    data = draw(case, np.random.default_rng([seed, case.p, case.n, round(1000 * case.change), k]))
    graph, said = found(data)
    start = time.process_time()
    noise, means = map(columns_of, changed_mechanisms(data.first, data.second, *said))
    taken = time.process_time() - start
    known = columns_of(changed_mechanisms(data.first, data.second, *truth(data))[1])
    return {
        "edges": score(data.pair.changed, graph).f1,
        "noise": f1(data.noise, noise),
        "noise_missed": len(data.noise - noise),
        "noise_false": len(noise - data.noise),
        "means": f1(data.means, means),
        "means_missed": len(data.means - means),
        "means_false": len(means - data.means),
        "means_true_order": f1(data.means, known),
        "alarms": (bool(graph.any()), bool(noise), bool(means)),
        "milliseconds": 1000 * taken,
    }


def accuracy(options):
    keys = {
        "edges": "edges F1",
        "noise": "noise F1",
        "noise_missed": "missed",
        "noise_false": "false",
        "means": "intercepts F1",
        "means_missed": "missed",
        "means_false": "false",
        "means_true_order": "with true order F1",
        "milliseconds": "ms",
    }
    rows = []
    for case in CASES:
        runs = [one(case, options.seed, k) for k in range(options.sets)]
        rows.append([str(case), *(float(np.mean([run[key] for run in runs])) for key in keys)])
    title = f"2 changed noise variances, 2 changed intercepts; {options.sets} data sets, seed {options.seed}"
    print_table(title, ["models", *keys.values()], rows, section="accuracy")


def alarms(options):
    rows = []
    for case in NULL:
        runs = [one(case, options.seed, k) for k in range(options.null_sets)]
        shares = np.mean([run["alarms"] for run in runs], axis=0)
        rows.append(
            [case.p, case.n, *(f"{share:.1%}" for share in shares), max(r["milliseconds"] for r in runs)]
        )
    title = (
        f"Two samples of one model, share of {options.null_sets} data sets with any claim, seed {options.seed}"
    )
    print_table(title, ["p", "n", "edges", "noise", "intercepts", "most ms"], rows, section="alarms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--null-sets", type=int, default=200)
    parser.add_argument("--seed", type=int, default=870_000)
    options = parser.parse_args()
    accuracy(options)
    alarms(options)


if __name__ == "__main__":
    main()
