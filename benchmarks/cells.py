"""One cell of the benchmarks of scale, in a process of its own; `scale.py` starts it.

    python benchmarks/cells.py precision '{"p": 500, "n": 1000, "changes": 8, "method": "dtrace", "sets": 2}'

Prints a JSON object for each data set as soon as it is done.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import measure

import diffdag as dd

Row = dict[str, Any]


def precision(
    p: int, n: int, changes: int, method: str, sets: int, first: int = 0, seed: int = measure.SEED
) -> Iterator[Row]:
    """Seconds of the precision difference from moments, with the peak of memory from the tables on."""
    measure.warm_up(method)
    for k in range(first, sets):
        _, tables = measure.draw(p, n, changes, [seed, k])
        floor = measure.floor_seconds(tables)
        measure.forget_peak()
        taken, moments = measure.seconds(lambda t=tables: [dd.Moments.from_array(table) for table in t])
        solved, answer = measure.seconds(lambda m=moments: measure.ours(m, method))
        yield {
            "k": k,
            "floor": floor,
            "moments": taken,
            "seconds": solved,
            "memory": measure.peak_gib(),
            "violation": answer.violation,
            "gap": answer.gap,
            "entries": int((answer.matrix != 0).sum()),
        }


def order(
    p: Sequence[int], changes: Sequence[int], n: int, sets: int, seed: int = measure.SEED
) -> Iterator[Row]:
    """Seconds of the default fit from moments, all sizes in one process: what is compiled loads slowly."""
    measure.warm_up_fit()
    for size, count, k in itertools.product(p, changes, range(sets)):
        pair, tables = measure.draw(size, n, count, [seed, k])
        floor = measure.floor_seconds(tables)
        moments = [dd.Moments.from_array(table) for table in tables]
        taken, f1 = measure.default_fit(pair, moments)
        yield {"p": size, "changes": count, "k": k, "floor": floor, "seconds": taken, "f1": f1}


def main() -> None:
    # A hard data set that is not solved shows in the gap; the table says so.
    warnings.simplefilter("ignore", dd.DiffDagWarning)
    name = sys.argv[1]
    # The peers bring libraries of their own, which would count in the memory of ours.
    own = {"precision": precision, "order": order}
    work = own.get(name) or getattr(importlib.import_module("peers"), name)
    for row in work(**json.loads(sys.argv[2])):
        print(json.dumps({key: measure.plain(value) for key, value in row.items()}), flush=True)


if __name__ == "__main__":
    main()
