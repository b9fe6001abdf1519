"""How often the weights of correctly found edges, and the kind of change, are those of the model.

python benchmarks/weights.py [--pairs 60]
"""

from __future__ import annotations

import argparse

import numpy as np
from record import print_table

import diffdag as dd


def measure(method, p, neighbours, n, pairs):
    found = wrong_kind = far = 0
    for k in range(pairs):
        rng = np.random.default_rng([730_000, p, n, k])
        pair = dd.simulate_pair(p, neighbours=neighbours, changes=3, rng=rng)
        result = (
            dd.DifferenceDAG(method=method).fit(pair.first.sample(n, rng), pair.second.sample(n, rng)).result_
        )
        place = {name: k for k, name in enumerate(pair.first.names)}
        for edge in result.edge_list:
            if edge.directed and (edge.source, edge.target) in pair.edges:
                at = place[edge.target], place[edge.source]
                before, after = pair.first.weights[at], pair.second.weights[at]
                found += 1
                wrong_kind += edge.change != ("added" if before == 0 else "removed")
                far += abs(edge.delta - (before - after)) > 4 * edge.stderr
    return [method, p, neighbours, n, found, f"{wrong_kind / found:.0%}", f"{far / found:.0%}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=60)
    options = parser.parse_args()
    cells = [(8, 4, 2000), (8, 4, 20_000), (10, 6, 2000), (10, 6, 20_000)]
    cells = [(method, *cell) for method in ("paper", "order") for cell in cells]
    columns = [
        "method",
        "p",
        "N_a",
        "rows",
        "edges found",
        "wrong kind of change",
        "delta off by more than 4 standard errors",
    ]
    print_table(f"Weights, {options.pairs} pairs", columns, [measure(*cell, options.pairs) for cell in cells])


if __name__ == "__main__":
    main()
