r"""Random halves of real tables: nothing differs. How often is a change claimed?

    python benchmarks/null_halves.py --tunnel FILE               100 splits of each table
    python benchmarks/null_halves.py --only wine diabetes --splits 20

Shown: the share of splits with any edge, gain, noise variance and intercept; what penalties are multiplied by
(medians); seconds of a fit. Tables: those of scikit-learn, the baseline of Sachs et al. (log10 and raw), rows
of the light tunnel's reference environment (its file is not part of the project), and simulated columns with 60
to 95 % zeros. Columns of one table that are constant in a half are left out.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from record import print_table
from scipy.special import ndtri

import diffdag as dd
from diffdag.model.datasets import SACHS_PROTEINS, load_sachs

SEED = 991_000


def zeros(share: float) -> np.ndarray:
    """Correlated columns of which a share is zero, and the rest is skewed."""
    rng = np.random.default_rng(SEED)
    p = 12
    root = np.linalg.cholesky(0.7 * np.eye(p) + 0.3)
    latent = rng.standard_normal((1200, p)) @ root.T
    return np.maximum(latent - ndtri(share), 0) * np.exp(0.5 * rng.standard_normal(latent.shape))


def tables(tunnel: Path | None) -> dict[str, Callable[[], np.ndarray]]:
    """The tables by name."""
    from sklearn import datasets  # noqa: PLC0415

    def tumours(benign: int) -> np.ndarray:
        data = datasets.load_breast_cancer()
        return np.asarray(data.data[data.target == benign])

    def baseline() -> np.ndarray:
        frame = load_sachs()
        return frame.loc[frame["condition"] == "baseline", list(SACHS_PROTEINS)].to_numpy(float)

    found: dict[str, Callable[[], np.ndarray]] = {
        "benign": lambda: tumours(1),
        "malignant": lambda: tumours(0),
        "wine": lambda: np.asarray(datasets.load_wine().data),
        "diabetes": lambda: np.asarray(datasets.load_diabetes(scaled=False).data),
        "sachs": lambda: np.log10(baseline()),
        "sachs-raw": baseline,
        **{f"zeros-{share}": lambda share=share: zeros(share / 100) for share in (60, 80, 95)},
    }
    if tunnel is not None:
        frame = pd.read_csv(tunnel)
        rows = frame[frame["environment"] == "reference"].drop(columns="environment")
        found["tunnel"] = lambda: rows.to_numpy(float)
    return found


def split(table: np.ndarray, splits: int, seed: int) -> list[float]:
    """A row of the table: what is claimed between random halves."""
    rng = np.random.default_rng(seed)
    claims, times, seconds = [], [], []
    for _ in range(splits):
        place = rng.permutation(len(table))
        halves = [table[part] for part in np.array_split(place, 2)]
        varies = np.all([np.ptp(half, axis=0) > 0 for half in halves], axis=0)
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dd.DiffDagWarning)
            result = dd.DifferenceDAG().fit(*(half[:, varies] for half in halves)).result_
        seconds.append(time.process_time() - start)
        lists = result.edge_list, result.gain_list, result.noise_list, result.mean_list
        claims.append([bool(found) for found in lists])
        times.append(list(result.settings["penalty_inflation"].values()))
    shares = 100 * np.mean(claims, axis=0)
    return [*shares.tolist(), *np.median(times, axis=0).tolist(), float(np.median(seconds))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--tunnel", type=Path, help="light_tunnel_ir.csv.gz")
    parser.add_argument("--seed", type=int, default=SEED)
    arguments = parser.parse_args()
    found = tables(arguments.tunnel)
    heads = ["table", "rows", "columns", "edge %", "gain %", "noise %", "intercept %"]
    heads += ["effects x", "variances x", "intercepts x", "seconds"]
    rows = []
    for name in arguments.only or found:
        table = found[name]()
        rows.append([name, *table.shape, *split(table, arguments.splits, arguments.seed)])
        print(*rows[-1], file=sys.stderr, flush=True)
    title = f"Claims between random halves of a table, % of {arguments.splits} splits, seed {arguments.seed}"
    print_table(title, heads, rows)


if __name__ == "__main__":
    main()
