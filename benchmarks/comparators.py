r"""Directed and skeleton F1 of methods on the pairs on which their settings were chosen (or on others).

    python benchmarks/comparators.py listen bottom-up                       its settings
    python benchmarks/comparators.py listen --set listen.LARGEST=0.05       another value of a constant
    python benchmarks/comparators.py dci-c dci-fc dci-k --pairs 100

Unfiltered pairs of the paper's generator, p = 10, 6 neighbours. Settings were chosen on seeds 820000 to 829999,
docs/dev/constants.md says on which and what was tried; reports (`diffdag reproduce`) use others.
"""

from __future__ import annotations

import argparse
import ast
import importlib

import numpy as np
from record import print_table

from diffdag.reproduce.experiments.trial import NEIGHBOURS, P, draw_data, draw_pair, try_method
from diffdag.reproduce.methods import find_method
from diffdag.reproduce.planning import rows_at


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="+")
    parser.add_argument("--seed", type=int, default=820_000)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--C", type=float, nargs="+", default=[5, 7, 9, 11])
    parser.add_argument("--set", nargs="+", default=[], metavar="FILE.NAME=VALUE")
    options = parser.parse_args()
    for change in options.set:
        place, _, value = change.partition("=")
        file, name = place.split(".")
        setattr(importlib.import_module(f"diffdag.reproduce.methods.{file}"), name, ast.literal_eval(value))
    rows = []
    for name in options.methods:
        find_method(name)
        cells = []
        for C in options.C:
            trials = []
            for k in range(options.pairs):
                pair = draw_pair(P, NEIGHBOURS, False, (options.seed, k))
                data = draw_data(pair, rows_at(C, P), [options.seed, k, round(100 * C)])
                trials.append(try_method(name, pair, data, None))
            scores = [np.mean([row[column] for row in trials]) for column in ("f1", "skeleton_f1")]
            cells.append(f"{scores[0]:.2f} / {scores[1]:.2f}")
        rows.append([name, *cells])
    title = f"F1 / F1 of the skeleton, {options.pairs} pairs, seed {options.seed} {' '.join(options.set)}"
    print_table(title, ["method", *(f"C = {C:g}" for C in options.C)], rows)


if __name__ == "__main__":
    main()
