r"""Default fits of two versions in one run: how many times faster is this one?

    python benchmarks/versions.py OTHER/.venv/bin/python            all sizes, 5 data sets each (minutes)
    python benchmarks/versions.py OTHER/.venv/bin/python --only 100 200 --sets 10

OTHER is a checkout of the other version, installed in an environment of its own. Each version runs in a
process of its own that is warmed up; they take turns, data set by data set, so that both meet the same machine.
Shown are medians of processor time in seconds, the median, least and largest ratio, and directed F1. Sparse
models with four neighbours per variable (`--neighbours`), 8 changes (3 at 10 variables), 1,000 rows (300 at
1,000 variables).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from record import print_table

import diffdag as dd
from diffdag.reproduce.scoring import score

SEED = 887_000
ROWS = {10: 1000, 30: 1000, 50: 1000, 100: 1000, 200: 1000, 1000: 300}
# Runs in the other version, so it uses what every version has.
WORKER = """
import json, sys, time
import numpy as np
import diffdag as dd
for line in sys.stdin:
    data = np.load(line.strip())
    start = time.process_time()
    result = dd.DifferenceDAG().fit(data["first"], data["second"]).result_
    seconds = time.process_time() - start
    place = {name: k for k, name in enumerate(result.variables)}
    edges = [(place[e.source], place[e.target], bool(e.directed)) for e in result.edge_list]
    print(json.dumps({"seconds": seconds, "edges": edges}), flush=True)
"""


class Version:
    """A process that fits what it is told to."""

    def __init__(self, python: str) -> None:
        self.process = subprocess.Popen(
            [python, "-W", "ignore", "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def fit(self, path: Path) -> dict:
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def draw(p: int, neighbours: int, seed: int, path: Path):
    """Write two tables; return what they were drawn from."""
    pair = dd.simulate_pair(p, neighbours=min(neighbours, p - 1), changes=min(8, p // 3), rng=seed)
    rng = np.random.default_rng(seed + 1)
    np.savez(path, first=pair.first.sample(ROWS[p], rng), second=pair.second.sample(ROWS[p], rng))
    return pair


def f1(pair, edges) -> float:
    found = np.zeros(pair.changed.shape, bool)
    for source, target, directed in edges:
        found[target, source] = True
        if not directed:
            found[source, target] = True
    return score(pair.changed, found).f1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", help="interpreter of the other version")
    parser.add_argument("--only", nargs="+", type=int, choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--neighbours", type=int, default=4)
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    versions = [Version(options.python), Version(sys.executable)]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tables.npz")
        for p in options.only:
            draw(min(p, 200), options.neighbours, options.seed - 1, path)
            for version in versions:  # compile
                version.fit(path)
            seconds, scores = [], []
            for k in range(options.sets):
                pair = draw(p, options.neighbours, options.seed + 10 * k, path)
                found = [version.fit(path) for version in versions]
                seconds.append([item["seconds"] for item in found])
                scores.append([f1(pair, item["edges"]) for item in found])
                print(
                    p,
                    k,
                    *(f"{value:.3f}" for value in (*seconds[-1], *scores[-1])),
                    file=sys.stderr,
                    flush=True,
                )
            ratios = np.divide(*np.transpose(seconds))
            middle, quality = np.median(seconds, axis=0), np.mean(scores, axis=0)
            spread = f"{np.median(ratios):.2f} ({ratios.min():.2f} to {ratios.max():.2f})"
            rows.append(
                [
                    p,
                    ROWS[p],
                    options.sets,
                    *(f"{s:.3f}" for s in middle),
                    spread,
                    *(f"{q:.3f}" for q in quality),
                ]
            )
    columns = ["p", "n", "data sets", "other s", "this s", "times faster", "other F1", "this F1"]
    print_table(
        f"Default fits of two versions, processor time, {options.neighbours} neighbours, seed {options.seed}",
        columns,
        rows,
    )


if __name__ == "__main__":
    main()
