"""Few rows in the second condition: is the variable whose intercept moved ranked first, and are p-values right?

    python benchmarks/few_rows.py ranking --sets 300 --rows 1
    python benchmarks/few_rows.py null --sets 30 --rows 1 --noise student
    python benchmarks/few_rows.py real
    python benchmarks/few_rows.py time

ranking: models of `simulate_pair` with 2 to 6 neighbours; one intercept moved by 3 to 6 standard deviations of
its noise, divided by the square root of the number of rows. Beside diffdag: the largest |shift| / sd, and an
oracle that is told the parents of each variable and regresses on them. null: nothing moved; 20 second tables
against each first. real: benign samples of scikit-learn's breast cancer data, some rows against others.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import diffdag as dd
from diffdag.ordersearch.few_rows import Reference, compare_means
from diffdag.results.nodes import false_discovery_rates

P, N = 20, 200


def draw(seed: int, rows: int, noise: str, moved: bool):
    """A model, a first table, a few rows, and the variable that moved."""
    rng = np.random.default_rng(seed)
    model = dd.simulate_pair(p=P, neighbours=int(rng.integers(2, 7)), changes=0, noise=noise, rng=rng).first
    culprit = int(rng.integers(P))
    size = rng.uniform(3, 6) * rng.choice([-1, 1]) / np.sqrt(rows) * np.sqrt(model.noise_variances[culprit])
    spread = np.linalg.solve(np.eye(P) - model.weights, np.eye(P)[culprit] * size * moved)
    return model, model.sample(N, rng=rng), model.sample(rows, rng=rng) + spread, culprit


def oracle(first, few, parents):
    """Studentised residuals given the true parents."""
    found, n, point = np.zeros(P), len(first), few.mean(axis=0)
    for i in range(P):
        own = np.flatnonzero(parents[i])
        x, at = np.c_[np.ones(n), first[:, own]], np.r_[1.0, point[own]]
        beta, *_ = np.linalg.lstsq(x, first[:, i])
        left = first[:, i] - x @ beta
        error = left @ left / (n - x.shape[1]) * (1 / len(few) + at @ np.linalg.solve(x.T @ x, at))
        found[i] = abs(point[i] - at @ beta) / np.sqrt(error)
    return found


def ranking(sets: int, rows: int, noise: str, seed: int) -> None:
    """Share of data sets in which the culprit is first."""
    hits, spreading, claimed, false = [], [], [], 0
    for k in range(sets):
        model, first, few, culprit = draw(seed + k, rows, noise, moved=True)
        found = compare_means(first, few, np.random.default_rng(0))
        shift = np.abs(few.mean(axis=0) - first.mean(axis=0)) / first.std(axis=0)
        best = np.argmin(found.pvalues), np.argmax(shift), np.argmax(oracle(first, few, model.weights != 0))
        hits.append([own == culprit for own in best])
        spreading.append(bool((model.weights[:, culprit] != 0).any()))
        sure = np.array(false_discovery_rates(found.pvalues.tolist()), dtype=float) <= 0.05
        claimed.append(sure[culprit])
        false += int(sure.sum() - sure[culprit])
    table, some = np.array(hits), np.array(spreading)
    for words, own in (("all", some | True), ("culprit has effects", some)):
        shares = " ".join(f"{share:.3f}" for share in table[own].mean(axis=0))
        print(f"{rows} rows, {noise}, {words} ({own.sum()}): diffdag, |shift| / sd, oracle first in {shares}")
    print(f"  q <= .05: culprit {np.mean(claimed):.3f}, others per data set {false / sets:.3f}", flush=True)


def null_line(words: str, pvalues) -> None:
    """Shares of small p-values."""
    table = np.array(pvalues)
    small = [f"p < {level}: {(table < level).mean():.4f}" for level in (0.05, 0.01, 0.001)]
    anything = np.mean([min(false_discovery_rates(list(own))) <= 0.05 for own in table])
    lowest = np.mean(table.min(axis=1) <= 0.05 / table.shape[1])
    print(
        f"{words}: {', '.join(small)}; any q <= .05 {anything:.3f}, any p <= .05 / p {lowest:.3f}", flush=True
    )


def null(sets: int, rows: int, noise: str, seed: int) -> None:
    """p-values where nothing moved."""
    pvalues = []
    for k in range(sets):
        model, first, few, _ = draw(seed + k, rows, noise, moved=False)
        rng = np.random.default_rng(k)
        reference = Reference.of(first, few.mean(axis=0), rng)
        pvalues += [reference.compare(model.sample(rows, rng=rng), rng).pvalues for _ in range(20)]
    null_line(f"null, {rows} rows, {noise}", pvalues)


def real(seed: int) -> None:
    """p-values of rows left out of a real table with heavy tails."""
    from sklearn.datasets import load_breast_cancer  # noqa: PLC0415

    data = load_breast_cancer()
    benign = data.data[data.target == 1]
    for rows in (1, 5):
        pvalues = []
        for k in range(2):
            rng = np.random.default_rng(seed + k)
            mixed = rng.permutation(benign)
            first, rest = mixed[:200], mixed[200:]
            reference = Reference.of(first, first.mean(axis=0), rng)
            pvalues += [
                reference.compare(rest[at : at + rows], rng).pvalues
                for at in range(0, len(rest) - rows + 1, 2 * rows)
            ]
        null_line(f"breast cancer, benign, {rows} rows", pvalues)


def seconds() -> None:
    """Processor time of one comparison."""
    rng = np.random.default_rng(0)
    for n, p in ((200, 20), (200, 100), (300, 200), (100, 300)):
        start = time.process_time()
        compare_means(rng.normal(size=(n, p)), rng.normal(size=(1, p)), rng)
        print(f"n = {n}, p = {p}: {time.process_time() - start:.1f} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("ranking", "null", "real", "time"))
    parser.add_argument("--sets", type=int, default=300)
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--noise", default="gaussian")
    parser.add_argument("--seed", type=int, default=90_000)
    args = parser.parse_args()
    if args.what in ("ranking", "null"):
        globals()[args.what](args.sets, args.rows, args.noise, args.seed)
    elif args.what == "real":
        real(args.seed)
    else:
        seconds()
