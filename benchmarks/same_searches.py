"""Do two versions of the core find the same? Searches 500 data sets with each, and compares scores.

    PYTHONPATH=OLD/src python same_searches.py --write old.jsonl
    PYTHONPATH=NEW/src python same_searches.py --write new.jsonl
    python same_searches.py --compare old.jsonl new.jsonl

3 to 100 variables, equal and unequal noise, prior knowledge, one pair of conditions or two. Where all orders
are compared, scores have to agree to 1e-9, relative. Elsewhere searches are random: printed are the shares of
those that are worse, or better, by more than some part of a penalty.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

COUNT = 500
SIZES = (3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 20, 20, 25, 30, 30, 40, 50, 100)
DYNAMIC = 14


def problems(k: int):
    import diffdag as dd  # noqa: PLC0415 - the version that is asked
    from diffdag.ordersearch.search import Problem  # noqa: PLC0415

    rng = np.random.default_rng([930_000, k])
    p, equal = SIZES[k % len(SIZES)], bool(k // 20 % 2)
    before = np.zeros((p, p), bool)
    if k // 40 % 3 == 2:  # two tiers
        early = rng.random(p) < 0.3
        before |= early[:, None] & ~early
    for j in range(1 + (k // 120 % 2)):
        seed = 930_000 + 10 * k + 2 * j
        pair = dd.simulate_pair(p, neighbours=min(4, p - 1), changes=1 + p // 10, rng=seed)
        rows = int(rng.choice([60 + p, 300 + p, 1500]))
        first, second = pair.first.sample(rows, rng=seed), pair.second.sample(rows // 2 + p, rng=seed + 1)
        if not equal:
            second[:, rng.integers(p)] *= 1.5
        scatter = [dd.Moments.from_array(table).scatter for table in (first, second)]
        yield Problem.from_scatter(*scatter, len(first) - 1, len(second) - 1, equal, before, p)


def write(path: Path) -> None:
    from diffdag.ordersearch.search import search_jointly  # noqa: PLC0415

    with path.open("w", encoding="utf-8") as file:
        for k in range(COUNT):
            pairs = list(problems(k))
            start = time.process_time()
            found = search_jointly(pairs, np.random.default_rng(k), 1)
            line = {
                "k": k,
                "p": pairs[0].p,
                "unit": pairs[0].unit,
                "score": sum(item.best.score for item in found),
                "seconds": round(time.process_time() - start, 4),
            }
            file.write(json.dumps(line) + "\n")
            file.flush()


def compare(old: Path, new: Path) -> None:
    lines = [[json.loads(line) for line in path.read_text().splitlines()] for path in (old, new)]
    exact, rises, seconds = [], [], np.zeros(2)
    for one, other in zip(*lines, strict=True):
        seconds += one["seconds"], other["seconds"]
        difference = other["score"] - one["score"]
        if one["p"] <= DYNAMIC:
            exact.append(abs(difference) / max(1.0, abs(one["score"])))
        else:
            rises.append(difference / one["unit"])
    rises = np.array(rises)
    print(f"all orders compared: {len(exact)} data sets, scores agree to {max(exact):.1e}")
    print(
        f"walks: {len(rises)} data sets; mean {rises.mean():+.3f}, worst {rises.max():+.2f} penalties; "
        + "; ".join(
            f"by more than {part}: better {(rises < -part).mean():.3f}, worse {(rises > part).mean():.3f}"
            for part in (0.1, 0.5, 1.0)
        )
    )
    print(f"processor seconds: {seconds[0]:.1f} and {seconds[1]:.1f}, ratio {seconds[0] / seconds[1]:.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--compare", type=Path, nargs=2)
    asked = parser.parse_args()
    if asked.write:
        write(asked.write)
    else:
        compare(*asked.compare)
