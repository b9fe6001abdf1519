"""Table 1 of the paper: exact recovery from exact models, and time a pair.

python benchmarks/population.py [--seed 600000]
"""

from __future__ import annotations

import argparse
import time

from record import print_table

import diffdag as dd

ROWS = [(10, 6, 0.05, 50), (50, 35, 0.05, 50), (100, 80, 0.05, 50), (10, 3, 0.2, 200), (30, 4, 0.1, 100)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=600_000)
    options = parser.parse_args()
    rows = []
    for p, neighbours, change, pairs in ROWS:
        exact, times = 0, []
        for k in range(pairs):
            pair = dd.simulate_pair(p, neighbours=neighbours, change=change, rng=options.seed + k)
            start = time.perf_counter()
            result = dd.DifferenceDAG(method="paper").fit_population(pair.first, pair.second).result_
            times.append(time.perf_counter() - start)
            found = {(edge.source, edge.target) for edge in result.edge_list if edge.directed}
            exact += found == pair.edges and len(found) == len(result.edge_list)
        rows.append(
            [p, neighbours, change, f"{exact} of {pairs}", f"{sum(times) / pairs:.2f} s", f"{max(times):.2f} s"]
        )
    columns = ["p", "N_a", "change", "exact and all directed", "mean time", "worst time"]
    print_table("Population", columns, rows)


if __name__ == "__main__":
    main()
