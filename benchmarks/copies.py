r"""Tables with near-copies: do four seeds of the search give the same edges? Are those that differ marked?

    python benchmarks/copies.py                      p = 100, n = 250: 20 data sets; p = 200, n = 300: 10
    python benchmarks/copies.py --only 100 --sets 40

Sparse models with four neighbours per variable and 8 changes; 30 columns are replaced by near-copies of 30
others (correlation about .94). An edge is marked if it is not settled (`unsettled` in the settings) or
undirected. Shown: data sets in which all seeds give the same edges; in which they do, or every edge that only
some give is marked wherever it is given; or the search says that it did not agree with itself; how far the
scores of the seeds lie apart, in penalties; seconds of processor time. Seed 882000 was looked at while the
search was being made.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from record import print_table

import diffdag as dd

SEED = 882_000
COPIES, NOISE = 30, 0.36
SEEDS = 4
SIZES = {100: (250, 20), 200: (300, 10)}  # rows, data sets


def draw(p: int, n: int, seed: int) -> list[np.ndarray]:
    """Two tables in which some columns nearly repeat others."""
    pair = dd.simulate_pair(p, neighbours=4, changes=8, rng=seed)
    rng = np.random.default_rng(seed + 1)
    places = rng.permutation(p)
    copies, originals = places[:COPIES], places[COPIES : 2 * COPIES]
    tables = [model.sample(n, rng) for model in (pair.first, pair.second)]
    spread = np.std(np.concatenate(tables), axis=0)
    for table in tables:
        table[:, copies] = table[:, originals] + NOISE * spread[originals] * rng.normal(size=(n, COPIES))
    return tables


def fit(tables: list[np.ndarray], seed: int) -> tuple[set[str], set[str], float, float, bool]:
    """Edges, the marked ones among them, score in penalties, seconds, whether the search agreed with itself."""
    moments = [dd.Moments.from_array(table) for table in tables]
    start = time.process_time()
    result = dd.DifferenceDAG(rng=seed).fit_moments(*moments).result_
    seconds = time.process_time() - start
    settings = result.settings
    edges = {f"{e.source} {'->' if e.directed else '--'} {e.target}" for e in result.edge_list}
    agreed = settings["starts_at_optimum"] > 1
    marked = {edge for edge in edges if " -- " in edge} | set(settings["unsettled"])
    return edges, marked, settings["score"] / settings["penalty"], seconds, agreed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", type=int, choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--sets", type=int)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    rows = []
    for p in options.only:
        n, sets = SIZES[p]
        sets = options.sets or sets
        same = covered = said = 0
        apart, seconds = [], []
        for k in range(sets):
            fits = [fit(draw(p, n, options.seed + 10 * k), seed) for seed in range(SEEDS)]
            shared = set.intersection(*(edges for edges, *_ in fits))
            alike = all(edges == shared for edges, *_ in fits)
            by_edge = all(edges - shared <= marked for edges, marked, *_ in fits)
            by_note = all(edges - shared <= marked or not agreed for edges, marked, _, _, agreed in fits)
            same, covered, said = same + alike, covered + by_edge, said + by_note
            scores = [item[2] for item in fits]
            apart.append(max(scores) - min(scores))
            seconds += [item[3] for item in fits]
            told = [len(edges) for edges, *_ in fits], [len(marked) for _, marked, *_ in fits]
            print(
                p,
                k,
                alike,
                by_edge,
                by_note,
                *told,
                f"{apart[-1]:.2f}",
                f"{max(seconds[-SEEDS:]):.2f}",
                file=sys.stderr,
                flush=True,
            )
        spread = f"{np.median(apart):.2f}, {max(apart):.2f}"
        times = f"{np.median(seconds):.2f}, {max(seconds):.2f}"
        rows.append([p, n, *(f"{count} of {sets}" for count in (same, covered, said)), spread, times])
    columns = [
        "p",
        "n",
        "same edges",
        "same or marked",
        "or said that starts disagree",
        "scores apart: median, worst",
        "s: median, worst",
    ]
    print_table(f"Four seeds on tables with {COPIES} near-copies, seed {options.seed}", columns, rows)


if __name__ == "__main__":
    main()
