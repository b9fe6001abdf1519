r"""Cost of the precision difference and of the order search, against a floor and against named peers.

    python benchmarks/scale.py                     everything (under 20 minutes on two cores)
    python benchmarks/scale.py --only p admm       some sections
    python benchmarks/scale.py --quick             small sizes, a minute; the docs do not show such runs

p, n, changes: `precision_difference` from moments, as a multiple of the two covariance matrices in the same
run. order, order-changes: the default fit (`wide.py` has tables far wider than long). lp, admm, lasso, graphs:
peers on the same data. Sparse models with four neighbours a variable, 1000 rows and 8 changes unless said
otherwise. docs/make_benchmarks.py draws the results.
"""

from __future__ import annotations

import argparse
import sys
import time

import contest
import growth
from measure import SEED
from record import print_table
from tables import QUICK, Size
from threadpoolctl import threadpool_info

SECTIONS = {
    "p": growth.against_p,
    "n": growth.against_n,
    "changes": growth.against_changes,
    "order": growth.order_against_p,
    "order-changes": growth.order_against_changes,
    "lp": contest.full_programme,
    "admm": contest.admm,
    "lasso": contest.lasso,
    "graphs": contest.graphs,
}


def run_section(name: str, size: Size, seed: int) -> None:
    """Measure, print and keep one section."""
    start = time.perf_counter()
    tables = SECTIONS[name](size, seed)
    threads = max((pool["num_threads"] for pool in threadpool_info()), default=None)
    for table in tables:
        settings = {"quick": size.quick, "seed": seed, "BLAS threads": threads, **table.settings}
        print_table(
            table.title, table.columns, table.rows, section=table.section, settings=settings, name="scale"
        )
    print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    for name in options.only:
        run_section(name, QUICK if options.quick else Size(quick=False), options.seed)


if __name__ == "__main__":
    main()
