r"""Tables with far more variables than can be ordered: what is found, what is claimed falsely, time and memory.

    python benchmarks/wide.py 20000 400 16 --sets 6             p, rows per condition, changes
    python benchmarks/wide.py 1000 100 10 --least 0.5 --sets 12
    python benchmarks/wide.py 1000 400 0 --sets 100             no change: how many data sets have a claim
    python benchmarks/wide.py 500 1000 12 --neighbours 6 --all  all variables kept
    python benchmarks/wide.py 20000 400 16 --peer DIR           beside another checkout's diffdag, in turns

Sparse pairs as in section 4 of the paper, weights between `--least` and 1, which a changed effect gains or
loses. A claim is right if its direction is. "ceiling" is the F1 of tests that know all true causes, with
Bonferroni's level for all pairs. DIR has a virtual environment in .venv.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import measure
import numpy as np

import diffdag as dd

SEED = 2_321_000
EDGES, CLAIMS = ("claimed",), ("claimed", "others")


def draw(asked: argparse.Namespace, number: int) -> tuple[Any, list[np.ndarray]]:
    rng = np.random.default_rng([asked.seed, asked.p, asked.rows, asked.changes, number])
    weights = asked.least, 1.0
    pair = dd.simulate_pair(
        asked.p, neighbours=asked.neighbours, changes=asked.changes, weights=weights, rng=rng
    )
    return pair, [model.sample(asked.rows, rng) for model in (pair.first, pair.second)]


def one_set(asked: argparse.Namespace, number: int) -> dict[str, float | None]:
    pair, tables = draw(asked, number)
    edges = pair.edges
    ceiling = measure.ceiling(pair, tables) if edges else None
    del pair
    measure.forget_peak()
    options = {"max_variables": asked.p} if asked.all else {}
    start, worked = time.perf_counter(), time.process_time()
    result = dd.DifferenceDAG(**options).fit(*tables).result_
    seconds, worked = time.perf_counter() - start, time.process_time() - worked
    found = {(edge.source, edge.target) for edge in result.edge_list if edge.directed}
    lists = (result.edge_list, result.gain_list, result.noise_list, result.mean_list)
    return {
        "number": number,
        "claimed": len(result.edge_list),
        "right": len(found & edges),
        "others": sum(map(len, lists[1:])),
        "f1": 2 * len(found & edges) / max(len(result.edge_list) + len(edges), 1),
        "ceiling": ceiling,
        "seconds": seconds,
        "processor": worked,
        "memory": measure.peak_gib(),
        "kept": asked.p - len(result.screened_out),
    }


def said(name: str, rows: list[dict[str, Any]], changes: int) -> str:
    """One line for all data sets."""
    total = {key: sum(row[key] or 0 for row in rows) for key in rows[0]}
    count = len(rows)
    edges, alarms = (sum(any(row[key] for key in keys) for row in rows) for keys in (EDGES, CLAIMS))
    times = sorted(row["seconds"] for row in rows)
    words = [
        f"{name}: {count} data sets",
        f"F1 {total['f1'] / count:.3f} (ceiling {total['ceiling'] / count:.3f})" if changes else "",
        f"right {total['right']} of {changes * count}" if changes else "",
        f"edges claimed {total['claimed']}, of them false {total['claimed'] - total['right']}",
        f"noise, means, gains claimed {total['others']}",
        "" if changes else f"data sets with an edge {edges}, with a claim {alarms}",
        f"seconds {times[count // 2]:.1f}, worst {times[-1]:.1f}, processor {total['processor'] / count:.1f}",
        f"peak GiB {max(row['memory'] or 0 for row in rows):.2f}, kept {total['kept'] / count:.0f}",
    ]
    return "; ".join(filter(None, words))


def peer_set(asked: argparse.Namespace, number: int) -> dict[str, Any]:
    """The same data set fitted by another checkout."""
    python = Path(asked.peer, ".venv", "bin", "python")
    own = [argument for argument in sys.argv[1:] if argument not in ("--peer", asked.peer)]
    command = [str(python), __file__, *own, "--number", str(number)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("p", type=int)
    parser.add_argument("rows", type=int)
    parser.add_argument("changes", type=int)
    parser.add_argument("--neighbours", type=float, default=measure.NEIGHBOURS)
    parser.add_argument("--least", type=float, default=0.25)
    parser.add_argument("--sets", type=int, default=6)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--all", action="store_true", help="keep all variables")
    parser.add_argument("--peer", default="")
    parser.add_argument("--number", type=int, help="one data set alone, as JSON")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", dd.DiffDagWarning)
    if asked.number is not None:
        print(json.dumps(one_set(asked, asked.number)))
        return
    own, theirs = [], []
    for number in range(asked.sets):
        own.append(one_set(asked, number))
        if asked.peer:
            theirs.append(peer_set(asked, number))
        print(own[-1], *theirs[-1:], file=sys.stderr, flush=True)
    name = f"p = {asked.p}, n = {asked.rows}, {asked.changes} changes"
    print(said(name, own, asked.changes))
    if theirs:
        print(said(f"{name}, peer", theirs, asked.changes))
        ratio = sum(row["seconds"] for row in own) / sum(row["seconds"] for row in theirs)
        print(f"seconds over the peer's: {ratio:.2f}")


if __name__ == "__main__":
    main()
