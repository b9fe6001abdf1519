r"""Range or mechanism: is the verdict `support` of an edge right where the truth is known?

    python benchmarks/support.py                        all simulated worlds, 40 data sets each
    python benchmarks/support.py --data FOLDER          and the machine of `diffdag reproduce chambers`
    python benchmarks/support.py --sets 10 --only tanh

Worlds have p = 10 variables and 4 neighbours per variable. In the worlds of a moved root no mechanism changes:
one variable without causes moves by 1 to 3 standard deviations, in half of the data sets with half or twice the
spread, and effects are bent, or the noise grows with the level. Shown: edges that are true, and false, and how
many of each have support ``mechanism``, ``range`` or ``unclear``; seconds of the verdicts and of the fits.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from record import print_table

import diffdag as dd
from diffdag.pipeline import ModelOptions, prepare, search
from diffdag.results.records import SUPPORTS
from diffdag.tables.align import Tables, align_tables
from diffdag.trust.support import read_edges

SEED = 2_870_000
P, NEIGHBOURS = 10, 4
CONSTANTS = 20_000  # rows from which the level and the spread of each variable are taken
BENDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "linear": lambda z: z,
    "tanh": np.tanh,
    "quadratic": lambda z: z + 0.3 * np.clip(z, -4, 4) ** 2,
    "exponential": lambda z: np.exp(np.clip(z, -8, 8) / 2),
    "mild": lambda z: z + 0.1 * np.clip(z, -4, 4) ** 2,
}


class World:
    """A pair of models whose effects pass through a bend, and whose noise may grow with the level."""

    def __init__(self, rng: np.random.Generator, bend: str, changes: int, growth: float = 0.0) -> None:
        self.pair = dd.simulate_pair(P, neighbours=NEIGHBOURS, changes=changes, rng=rng)
        self.bend, self.growth = BENDS[bend], growth
        self.level, self.spread = np.zeros(P), np.ones(P)
        self.levels = {}  # of the part that causes explain
        start = self.sample(CONSTANTS, rng, self.pair.first, learn=True)
        assert np.isfinite(start).all()

    def sample(self, n, rng, model, moved=None, learn=False):
        """Rows of a model; `moved` is (variable, shift, spread) of a root."""
        noise = rng.standard_normal((n, P))
        if moved is not None:
            root, shift, factor = moved
            noise[:, root] = shift + factor * noise[:, root]
        x = np.zeros((n, P))
        weights = np.asarray(model.weights)
        for i in self.pair.order:
            own = sum(
                (
                    weights[i, j] * self.bend((x[:, j] - self.level[j]) / self.spread[j])
                    for j in np.flatnonzero(weights[i])
                ),
                np.zeros(n),
            )
            if learn:
                self.levels[i] = own.mean(), max(own.std(), 1e-9) if own.any() else 1.0
            height = (own - self.levels[i][0]) / self.levels[i][1]
            x[:, i] = own + np.exp(np.clip(self.growth * height, -3, 3)) * noise[:, i]
            if learn:
                self.level[i], self.spread[i] = x[:, i].mean(), x[:, i].std()
        return x

    def root(self, rng):
        """A variable without causes that has effects."""
        weights = np.asarray(abs(self.pair.first.weights)) + np.asarray(abs(self.pair.second.weights))
        roots = [i for i in range(P) if not weights[i].any() and weights[:, i].any()]
        return int(rng.choice(roots))


def moved_root(bend: str, changes: int = 0, growth: float = 0.0):
    def draw(n, rng):
        world = World(rng, bend, changes, growth)
        moved = world.root(rng), rng.choice([-1, 1]) * rng.uniform(1, 3), rng.choice([1, 1, 0.5, 2])
        first = world.sample(n, rng, world.pair.first)
        return first, world.sample(n, rng, world.pair.second, moved), world.pair.edges

    return draw


def paper(share: float):
    """The paper's generator, a share of the intercepts moved by N(0, 1)."""

    def draw(n, rng):
        pair = dd.simulate_pair(P, neighbours=6, change=0.05, rng=rng)
        shift = rng.standard_normal(P) * (rng.random(P) < share)
        means = np.linalg.solve(np.eye(P) - np.asarray(pair.second.weights), shift)
        return pair.first.sample(n, rng), pair.second.sample(n, rng) + means, pair.edges

    return draw


WORLDS = {
    "paper's generator": (paper(0.0), (341, 2525)),
    "paper's generator, 30 % of intercepts moved": (paper(0.3), (341, 2525)),
    "paper's generator, all intercepts moved": (paper(1.0), (341, 2525)),
    "tanh, moved root": (moved_root("tanh"), (500, 5000)),
    "quadratic, moved root": (moved_root("quadratic"), (500, 5000)),
    "exponential, moved root": (moved_root("exponential"), (500, 5000)),
    "noise grows with the level, moved root": (moved_root("linear", growth=0.4), (500, 5000)),
    "mild bend, moved root, 3 changes": (moved_root("mild", changes=3), (500, 5000)),
}


def fitted(tables: Tables):
    """A fit with default options, and its seconds of processor time."""
    options = ModelOptions()
    start = time.process_time()
    fit = search(prepare(tables, options), options)
    return fit, time.process_time() - start


def judge(fit, tables, true, counts) -> float:
    """Count the verdicts of a fit; seconds of processor time."""
    start = time.process_time()
    readings = read_edges(fit, tables, "sample")
    seconds = time.process_time() - start
    for reading in readings:
        counts[(reading.source, reading.target) in true, reading.support] += 1
    return seconds


def row(counts: Counter, seconds: list[float], fits: list[float]) -> list:
    kinds = []
    for true in (True, False):
        found = [counts[true, support] for support in SUPPORTS]
        kinds += [sum(found), *(found if sum(found) else ["", "", ""])]
    return [*kinds, float(np.median(seconds)), float(np.median(fits))]


COLUMNS = [
    "true edges", "mechanism", "range", "unclear", "false edges", "mechanism", "range", "unclear",
    "s: verdicts, median", "s: fit, median",
]  # fmt: skip


def simulated(sets: int, seed: int, only: str) -> list[list]:
    rows = []
    for name, (draw, sizes) in WORLDS.items():
        for n in sizes if only in name else ():
            counts, seconds, fits = Counter(), [], []
            for k in range(sets):
                first, second, true = draw(n, np.random.default_rng([seed, k]))
                tables = align_tables(first, second)
                fit, took = fitted(tables)
                fits.append(took)
                seconds.append(judge(fit, tables, true, counts))
            rows.append([name, n, *row(counts, seconds, fits)])
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def machine(folder: Path) -> list[list]:
    """By kind of environment; edges whose change is too weak to count are true."""
    from diffdag.reproduce.experiments.chambers.data import KINDS, read_machine  # noqa: PLC0415

    rows, data = [], read_machine(folder)
    for kind, words in KINDS.items():
        counts, seconds, fits = Counter(), [], []
        for name in [name for name, own in data.environments.items() if own == kind]:
            compared, changed = data.compared(name), data.changed(name)
            tables = align_tables(compared.first, compared.second)
            fit, took = fitted(tables)
            fits.append(took)
            seconds.append(judge(fit, tables, changed.strong | changed.weak, counts))
        if fits:
            rows.append([words, len(fits), *row(counts, seconds, fits)])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=40)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", default="")
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    settings = {"sets": options.sets, "seed": options.seed, "only": options.only}
    warnings.simplefilter("ignore", dd.DiffDagWarning)
    rows = simulated(options.sets, options.seed, options.only)
    title = f"Verdicts, p = {P}, {options.sets} data sets each"
    print_table(title, ["world", "n", *COLUMNS], rows, section="worlds", settings=settings)
    if options.data:
        columns = ["what was done to the machine", "environments", *COLUMNS]
        print_table(
            "Verdicts on the light tunnel", columns, machine(options.data), section="machine", settings={}
        )


if __name__ == "__main__":
    main()
