r"""Malik et al. (2024), ours: directed F1 by penalty and fraction, on pairs of the paper's models.

    python benchmarks/malik.py                       the default, and the best of the grid
    python benchmarks/malik.py --seed 846001 --all   the tuning seed: every setting

Pairs are those of ``simulate_pair(p=10, neighbours=6, change=0.05)``, unit noise; rows are ``exp(C) log p`` for
C = 5, 7, 9, 11, as in the paper. The best of the grid is picked with the truth, for each number of rows by
itself. Errors are standard errors over the pairs.
"""

from __future__ import annotations

import argparse

import numpy as np

import diffdag as dd
from diffdag.reproduce.methods.malik import FRACTION, PENALTY, malik
from diffdag.reproduce.scoring import score

ROWS = 341, 2_525, 18_658, 137_863
PENALTIES = "rate:0.1", "rate:0.3", "rate:1", "rate:2"
FRACTIONS = 0.05, 0.1, 0.2, 0.3, 0.4, 0.5


def draw(seed, number):
    """What changed, and moments of both conditions, by number of rows."""
    rng = np.random.default_rng([seed, number])
    pair = dd.simulate_pair(p=10, neighbours=6, change=0.05, rng=rng)
    models = pair.first, pair.second
    return pair.changed, [[dd.Moments.from_array(own.sample(n, rng)) for own in models] for n in ROWS]


def main():
    """Print a line of means per setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=846_100)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--all", action="store_true", help="print every setting")
    asked = parser.parse_args()
    data = [draw(asked.seed, k) for k in range(asked.pairs)]
    found = {
        (penalty, fraction): np.array(
            [[score(truth, malik(*own, penalty, fraction)).f1 for own in rows] for truth, rows in data]
        )
        for penalty in PENALTIES
        for fraction in FRACTIONS
    }
    print(f"seed={asked.seed} pairs={asked.pairs}, directed F1 at {', '.join(f'{n:,}' for n in ROWS)} rows")
    for setting, values in found.items() if asked.all else ():
        print(f"  {setting}: {values.mean(axis=0).round(3)}, mean {values.mean():.3f}")
    own = found[PENALTY, FRACTION]
    error = own.std(axis=0, ddof=1) / len(own) ** 0.5
    print(f"default {PENALTY, FRACTION}: {own.mean(axis=0).round(3)}, errors {error.round(3)}")
    best = np.max([values.mean(axis=0) for values in found.values()], axis=0)
    print(f"best of {len(found)} for each: {best.round(3)}")


if __name__ == "__main__":
    main()
