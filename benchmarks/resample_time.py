r"""How many times as long as the fit itself does `resamples=200` take?

    OPENBLAS_NUM_THREADS=1 python benchmarks/resample_time.py                    p = 10, 30, 100 (an hour)
    OPENBLAS_NUM_THREADS=1 python benchmarks/resample_time.py --only 10 --sets 5
    OPENBLAS_NUM_THREADS=1 python benchmarks/resample_time.py --agree            near searches against full ones

The paper's generator, 500 and 2,500 rows, one process. Processor time, so that other programs do not count;
resamples include the permutations and the settings nearby that come with them. With `--all` they do not stop
when the numbers have settled. Bar: 60 times. With `--agree`: shares of the edges that
the fit found, in the same plain resamples, with searches near the orders of the fit and with full ones.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import numpy as np
from record import print_table

import diffdag as dd
from diffdag.pipeline import ModelOptions, Refit, prepare, search
from diffdag.tables.align import align_tables
from diffdag.trust import resampling
from diffdag.trust.resampling import Drawing, resample_tables

SEED, BAR, FITS = 890_000, 60, 200
# Variables: neighbours, probability of a change, data sets.
SIZES = {10: (6, 0.05, 10), 30: (20, 0.02, 5), 100: (20, 0.002, 2)}
ROWS = (500, 2500)
SMALL = {10: 150, 30: 300}  # rows with which directions are hardly told apart


def draw(p: int, n: int, seed: int):
    neighbours, change, _ = SIZES[p]
    pair = dd.simulate_pair(p, neighbours=neighbours, change=change, rng=seed)
    rng = np.random.default_rng(seed + 1)
    return pair.first.sample(n, rng), pair.second.sample(n, rng)


def seconds(function) -> tuple[float, object]:
    start = time.process_time()
    value = function()
    return time.process_time() - start, value


def times(sizes: list[int], sets: int | None, seed: int) -> None:
    rows = []
    for p in sizes:
        for n in ROWS:
            measured = []
            for k in range(sets or SIZES[p][2]):
                tables = draw(p, n, seed + 10 * k)
                model, sure = dd.DifferenceDAG(), dd.DifferenceDAG(resamples=FITS)
                alone = min(seconds(lambda m=model, t=tables: m.fit(*t))[0] for _ in range(2))
                taken, fitted = seconds(lambda m=sure, t=tables: m.fit(*t))
                found = fitted.result_.stability
                made = found.fits + found.varied + 2 * found.pairs + found.failed
                measured.append((alone, taken / alone, made))
                print(p, n, k, *(f"{value:.3g}" for value in measured[-1]), file=sys.stderr, flush=True)
            fit, ratio, made = np.transpose(measured)
            spread = f"{np.median(ratio):.0f} ({ratio.min():.0f} to {ratio.max():.0f})"
            within = f"{int((ratio <= BAR).sum())} of {len(ratio)}"
            rows.append([p, n, len(ratio), float(np.median(fit)), spread, int(np.median(made)), within])
    columns = ["p", "n", "data sets", "fit s", "times the fit", "fits made", f"within {BAR}"]
    print_table(
        f"resamples={FITS} against the fit itself, one process, seed {seed}", columns, rows, section="time"
    )


def agree(sizes: list[int], sets: int | None, seed: int, fits: int) -> None:
    rows = []
    for p in sizes:
        for n in (SMALL[p], *ROWS[:1]):
            apart, means = [], []
            for k in range(sets or SIZES[p][2]):
                tables = align_tables(*draw(p, n, seed + 10 * k))
                options = ModelOptions()
                fit = search(prepare(tables, options), options)
                drawing = Drawing.of(tables.names, "bootstrap", (n, n), 0)
                near, full = (
                    resample_tables(tables, Refit.of(options, fit=start), fits, drawing)
                    for start in (fit, None)
                )
                for edge in fit.difference.edge_list:
                    one, two = (_ways(drawn, edge) for drawn in (near, full))
                    apart.append(np.abs(one - two))
                    means.append((one, two))
                print(
                    p,
                    n,
                    k,
                    len(apart),
                    np.round(np.mean(apart or [[0]], axis=0), 4),
                    file=sys.stderr,
                    flush=True,
                )
            one, two = np.mean(means, axis=0)
            shown = [f"{a:.3f} / {b:.3f}" for a, b in zip(one, two, strict=True)]
            rows.append([p, n, len(apart), *(float(x) for x in np.mean(apart, axis=0)[:2]), *shown])
    columns = ["p", "n", "edges", "pair apart", "as fitted apart", "pair, near / full", "as fitted", "reversed"]
    title = f"Shares of {fits} resamples, searched near the fit's orders and in full, seed {seed}"
    print_table(title, columns, rows, section="agree")


def _ways(drawn: resampling.Resamples, edge) -> np.ndarray:
    """Shares with the pair, as the fit has it, and the other way round."""
    for share in drawn.shares:
        if {share.source, share.target} == {edge.source, edge.target}:
            as_fitted = share.source == edge.source
            ways = (share.directed, share.reversed) if as_fitted else (share.reversed, share.directed)
            return np.array([share.found, *ways])
    return np.zeros(3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", type=int, choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--sets", type=int)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--all", action="store_true", help="do not stop early")
    parser.add_argument("--agree", action="store_true")
    parser.add_argument("--fits", type=int, default=40, help="resamples, with --agree")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.all:
        resampling.LEAST_FITS = FITS
    if options.agree:
        agree([p for p in options.only if p in SMALL], options.sets, options.seed, options.fits)
    else:
        times(options.only, options.sets, options.seed)


if __name__ == "__main__":
    main()
