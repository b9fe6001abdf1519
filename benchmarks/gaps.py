"""What rows with gaps are worth: the share that EM states, and what simulations give.

OPENBLAS_NUM_THREADS=1 python benchmarks/gaps.py [--pairs 100] [--seed 770000]

Pairs of tables from one model: nothing to find. Values are missing completely at random. Shown of regression
coefficients along the true order: the mean square of their change without gaps over that with gaps ("kept"),
the share that `diffdag.tables.em` states, the share of pairs of values that are observed ("naive"), and how
many changes a z-test at 5 % finds with all rows, with those stated and with the naive ones. "Omega" is what is
kept of entries of the precision matrix, "noise" of the logarithms of noise variances.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
from record import print_table
from scipy.special import ndtri

from diffdag.tables.em import complete

LEVEL = 0.05


def model(p, strength, rng):
    """The covariance matrix of a model with half of all effects."""
    effects = np.triu(rng.uniform(0.5, 1, (p, p)) * rng.choice([-1, 1], (p, p)) * (rng.random((p, p)) < 0.5), 1)
    mixing = np.linalg.inv(np.eye(p) - strength * effects)
    return mixing.T @ mixing


def regressions(matrix):
    """Coefficients along the order, and their variances in units of 1 / degrees of freedom."""
    coefficients, variances = [], []
    for j in range(1, len(matrix)):
        inverse = np.linalg.inv(matrix[:j, :j])
        own = inverse @ matrix[:j, j]
        coefficients.append(own)
        variances.append(np.diag(inverse) * (matrix[j, j] - own @ matrix[:j, j]))
    return np.concatenate(coefficients), np.concatenate(variances)


def entries(matrix):
    return np.linalg.inv(matrix)[np.triu_indices(len(matrix), 1)]


def noise(matrix):
    return 2 * np.log(np.diag(np.linalg.cholesky(matrix)))


def observed_pairs(missing):
    count, p = (~missing).sum(axis=1), missing.shape[1]
    return float((count * (count + 1) / (p * (p + 1))).mean())


def found(matrices, rows):
    """The share of coefficients in which a z-test finds a change; the maximum likelihood divisor is n."""
    p = len(matrices[0])
    causes = np.repeat(np.arange(1, p), np.arange(1, p))
    (one, first), (other, second) = (regressions(matrix) for matrix in matrices)
    freedom = [n - causes - 1 for n in rows]
    error = np.sqrt(sum(v * n / free**2 for v, n, free in zip((first, second), rows, freedom, strict=True)))
    return float((np.abs(one - other) > -ndtri(LEVEL / 2) * error).mean())


def measure(p, n, gaps, strength, pairs, seed):
    rng = np.random.default_rng([seed, p, n, round(100 * gaps), round(10 * strength)])
    matrix = model(p, strength, rng)
    root, scale = np.linalg.cholesky(matrix).T, np.sqrt(regressions(matrix)[1])
    omega = np.diag(np.linalg.inv(matrix))
    weight = np.sqrt(np.outer(omega, omega))[np.triu_indices(p, 1)]
    squares, stated, naive, levels = np.zeros((3, 2)), [], [], []
    for _ in range(pairs):
        whole, cut = [], []
        for _ in range(2):
            rows = rng.standard_normal((n, p)) @ root
            missing = rng.random((n, p)) < gaps
            filled = complete(np.where(missing, np.nan, rows), rng=rng)
            whole.append(np.cov(rows, rowvar=False, bias=True))
            cut.append(filled.covariance)
            stated.append(filled.share)
            naive.append(observed_pairs(missing))
        for k, (one, other) in enumerate((whole, cut)):
            squares[0, k] += (((regressions(one)[0] - regressions(other)[0]) / scale) ** 2).sum()
            squares[1, k] += (((entries(one) - entries(other)) / weight) ** 2).sum()
            squares[2, k] += ((noise(one) - noise(other)) ** 2).sum()
        shares = (1.0, 1.0), stated[-2:], naive[-2:]
        levels.append([found(cut, [n * share for share in pair]) for pair in shares])
    kept = squares[:, 0] / squares[:, 1]
    level = 100 * np.mean(levels, axis=0)
    return [
        *(str(value) for value in (p, n)),
        f"{gaps:.0%}",
        f"{strength:g}",
        *(f"{value:.2f}" for value in (kept[0], np.mean(stated))),
        f"{np.std(stated):.3f}",
        *(f"{value:.2f}" for value in (np.mean(naive), kept[1], kept[2])),
        *(f"{value:.1f} %" for value in level),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=770000)
    options = parser.parse_args()
    head = ["p", "n", "gaps", "effects", "kept", "stated", "sd", "naive", "Omega", "noise"]
    head += ["all rows", "stated rows", "naive rows"]
    cases = itertools.product((5, 10), (300, 1000), (0.05, 0.2), (0.3, 1.0))
    print_table(
        "What rows with gaps are worth", head, [measure(*case, options.pairs, options.seed) for case in cases]
    )


if __name__ == "__main__":
    main()
