"""What rank-based and winsorised moments cost, and whether the rows they are said to be worth keep the level.

OPENBLAS_NUM_THREADS=1 python benchmarks/robust.py [--pairs 60] [--seed 760000]

Two tables from models with the same effects (p = 10, dense unless said otherwise): nothing to find. Shown of
the regression coefficients along the true order: the variance of their change, as a multiple of that from the
sample covariance; how many rows are said to be worth one; how many changes a z-test at 5 % finds, with as many
rows as there are and with as many as the moments claim; and the share of pairs in which it finds any after
Bonferroni, 5 % at best. "normal scores" are the sample moments of the common scores, for comparison.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from record import print_table
from scipy.signal import lfilter
from scipy.stats import norm

import diffdag as dd
from diffdag.tables.effective_rows import effective_samples
from diffdag.tables.robust import COVARIANCES, common_scores, table_moments

DENSE, SPARSE = 6, 2  # neighbours
CASES = [  # title, rows, neighbours, factor of three noise variances, autocorrelation of the rows
    ("Dense", (100, 100), DENSE, 1.0, 0.0),
    ("Dense", (500, 500), DENSE, 1.0, 0.0),
    ("Dense", (2000, 2000), DENSE, 1.0, 0.0),
    ("Dense", (200, 1000), DENSE, 1.0, 0.0),
    ("Sparse (2 neighbours)", (500, 500), SPARSE, 1.0, 0.0),
    ("Three noise variances times 4", (2000, 2000), DENSE, 4.0, 0.0),
    ("Rows autoregressive with 0.8, effective_samples='auto'", (2000, 2000), DENSE, 1.0, 0.8),
]
LEVEL = 0.05


def regressions(covariance, order):
    """Coefficients along an order, and their variances in units of 1 / degrees of freedom."""
    slopes, variances, regressors = [], [], []
    for t in range(1, len(order)):
        causes, effect = list(order[:t]), order[t]
        inverse = np.linalg.inv(covariance[np.ix_(causes, causes)])
        slope = inverse @ covariance[causes, effect]
        slopes.append(slope)
        variances.append((covariance[effect, effect] - slope @ covariance[causes, effect]) * np.diag(inverse))
        regressors += [t] * t
    return np.concatenate(slopes), np.concatenate(variances), np.array(regressors)


def statistics(moments, order, rows):
    """z-statistics of the changes between two moments that are worth so many rows."""
    change, variance = 0.0, 0.0
    for sign, part, n in zip((1, -1), moments, rows, strict=True):
        slopes, own, regressors = regressions(part.covariance(), order)
        change, variance = change + sign * slopes, variance + own / np.maximum(n - regressors, 1)
    return change / np.sqrt(variance)


def autoregressive(values, phi):
    """Rows from independent rows; the first 200 are left out."""
    return lfilter([1], [1, -phi], values, axis=0)[200:]


def draw(case, seed, k):
    _, sizes, neighbours, factor, phi = case
    rng = np.random.default_rng([seed, k])
    sem = dd.simulate_pair(10, neighbours=neighbours, rng=rng).first
    variances = np.ones(10)
    variances[rng.choice(10, 3, replace=False)] = factor
    models = sem, dd.LinearSEM(sem.weights, variances)
    return sem, [autoregressive(m.sample(n + 200, rng), phi) for m, n in zip(models, sizes, strict=True)]


def estimates(tables, names, worth):
    for covariance in COVARIANCES:
        yield covariance, table_moments(*tables, names, covariance=covariance, effective_samples=worth)
    scores = common_scores(*tables)
    yield "normal scores", table_moments(*scores, names, effective_samples=worth)


def levels(options):
    critical = norm.isf(LEVEL / 2)
    for case in CASES:
        found = {}
        for k in range(options.pairs):
            sem, tables = draw(case, options.seed, k)
            real = [len(table) for table in tables]
            for name, moments in estimates(tables, sem.names, "auto" if case[-1] else None):
                worth = [part.n for part in moments]
                tests = statistics(moments, sem.order, real), statistics(moments, sem.order, worth)
                found.setdefault(name, []).append((*tests, real[0] / worth[0]))
        rows = []
        for name, runs in found.items():
            plain, honest = np.array([run[0] for run in runs]), np.array([run[1] for run in runs])
            loss = [run[2] for run in runs]
            squares = [np.mean(np.square([run[0] for run in found[key]]), axis=0) for key in (name, "sample")]
            anywhere = np.abs(honest).max(axis=1) > norm.isf(LEVEL / 2 / honest.shape[1])
            rows.append(
                [
                    name,
                    f"{np.mean(squares[0]) / np.mean(squares[1]):.2f}",
                    f"{np.median(loss):.2f} ({min(loss):.2f} to {max(loss):.2f})",
                    f"{np.mean(np.abs(plain) > critical):.1%}",
                    f"{np.mean(np.abs(honest) > critical):.1%}",
                    f"{anywhere.mean():.1%}",
                ]
            )
        title = f"{case[0]}, {case[1][0]} and {case[1][1]} rows, {options.pairs} pairs, seed {options.seed}"
        columns = ["covariance", "variance of changes", "rows / n", "found with all rows", "found with n"]
        print_table(title, [*columns, "any after Bonferroni"], rows)


def series(options):
    """Effective samples of autoregressions, as a share of the rows."""
    rows = []
    for phi in (0.0, 0.3, 0.8, -0.8, 0.95):
        cells = []
        for n in (200, 1000, 5000):
            shares = []
            for k in range(options.pairs):
                noise = np.random.default_rng([options.seed, n, k]).standard_normal((n + 200, 4))
                shares.append(effective_samples(autoregressive(noise, phi)) / n)
            cells.append(f"{np.mean(shares):.3f} +- {np.std(shares):.3f}")
        rows.append([phi, f"{(1 - phi**2) / (1 + phi**2):.3f}", *cells])
    title = f"Effective samples / rows of autoregressions, 4 columns, {options.pairs} series"
    print_table(title, ["coefficient", "theory", "n = 200", "n = 1000", "n = 5000"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=760_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore", dd.DiffDagWarning)
    levels(options)
    series(options)


if __name__ == "__main__":
    main()
