r"""Is a confidence of 80 % right in 80 % of the cases, and does fdr=0.05 keep its promise?

    python benchmarks/confidence.py                  data sets of many kinds, the paper's at p = 10 and 30
    python benchmarks/confidence.py --only mixed     some of them
    python benchmarks/confidence.py --choose --seed 864000 --only mixed    constants of diffdag.trust.confidence

For every change that any bootstrap fit found, reported or not: the stated confidence, and whether it is true.
A pair is right if something changed between the two; directions are those of pairs that are. Single results go
to ``results/confidence-<section>-<seed>.csv`` (not committed), so that an interrupted run continues.
"""

from __future__ import annotations

import argparse
import csv
import os
from itertools import pairwise
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import joblib
import numpy as np
from record import RESULTS, print_table
from scipy import stats
from scipy.optimize import minimize

import diffdag as dd
from diffdag.pipeline import ModelOptions, assess, prepare, search
from diffdag.refits import resample_fits
from diffdag.results.records import Edge
from diffdag.tables.align import align_tables
from diffdag.trust import confidence as curves
from diffdag.trust.confidence import Evidence, Facts, add_confidence
from diffdag.trust.false_edges import control_false_edges
from diffdag.trust.options import Assessment

SEED = 870_000
SPREAD = tuple(np.linspace(0.5, 2.0, 16))
# data sets, bootstrap fits (half of what confidence= asks for), and what they are
SECTIONS = {
    "mixed": (200, 100, "p = 6 to 10, n = 80 to 1500, weights, densities and noise of many kinds"),
    "p10": (200, 100, "p = 10, 6 neighbours, n = 341, the paper's changes"),
    "p30": (200, 30, "p = 30, 20 neighbours, n = 1000, 2 % changes"),
}
COLUMNS = ("set", "kind", "odds", "steady", "confidence", "reported", "in_fdr", "right", "unsettled", "failed")
LEAST = -2.2  # constants are chosen on log-odds of at least this, a tenth of the fits, and on what is reported
BINS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0001)


def mixed(rng):
    """A setting nobody chose: sizes, weights, densities and shapes of noise drawn at random."""
    p = int(rng.choice([6, 8, 10]))
    n = np.exp(rng.uniform(np.log(80), np.log(1500), 2))
    n = n.astype(int) if rng.random() < 0.3 else np.full(2, int(n[0]))
    options = {"weights": (0.1, 0.7)} if rng.random() < 0.4 else {}
    if rng.random() < 0.3:
        options["variances"] = SPREAD
    if rng.random() < 0.2:
        options["noise"] = str(rng.choice(["uniform", "laplace", "student"]))
    changes = float(rng.uniform(0.02, 0.1)) if rng.random() < 0.9 else 0.0
    pair = dd.simulate_pair(p, neighbours=float(rng.uniform(2, 0.7 * p)), change=changes, rng=rng, **options)
    return pair, n, int(rng.integers(0, 3)), int(rng.integers(0, 3))


def draw(section, rng):
    """Two tables, and what changed: edges, noise variances, intercepts."""
    if section == "mixed":
        pair, n, noisy, shifted = mixed(rng)
    elif section == "p10":
        pair, n, noisy, shifted = dd.simulate_pair(10, neighbours=6, rng=rng), (341, 341), 0, 0
    else:
        pair, n, noisy, shifted = dd.simulate_pair(30, neighbours=20, change=0.02, rng=rng), (1000, 1000), 0, 0
    p, names = len(pair.first.names), pair.first.names
    which = rng.permutation(p)
    variances = np.array(pair.second.noise_variances, float)
    variances[which[:noisy]] *= np.exp(rng.choice([-1, 1], noisy) * rng.uniform(0.3, 0.9, noisy))
    second = dd.LinearSEM(pair.second.weights, noise_variances=variances, names=names, noise=pair.second.noise)
    intercept = np.zeros(p)
    moved = which[noisy : noisy + shifted]
    intercept[moved] = rng.choice([-1, 1], shifted) * rng.uniform(0.2, 1.0, shifted) * np.sqrt(variances[moved])
    shift = np.linalg.solve(np.eye(p) - second.weights, intercept)
    tables = align_tables(pair.first.sample(n[0], rng), second.sample(n[1], rng) + shift)
    return tables, pair.edges, {names[k] for k in which[:noisy]}, {names[k] for k in moved}


def one(section, seed, number, fits):
    """Every change that bootstrap fits of one data set found; halves, of which there are two, do not count."""
    rng = np.random.default_rng([seed, list(SECTIONS).index(section), number])
    tables, edges, noise, mean = draw(section, rng)
    rows = tables.first, tables.second
    options = ModelOptions()
    prepared = prepare(tables, options)
    found = assess(search(prepared, options), prepared, tables, options, Assessment())
    drawn, split = (
        resample_fits(
            *rows, fits=count, kind=kind, varied=kind == "bootstrap", model=dd.DifferenceDAG(rng=number)
        )
        for count, kind in ((fits, "bootstrap"), (2, "half"))
    )
    result = add_confidence(found, drawn, split, fits)
    kept = control_false_edges(result, 0.05)
    return list(claims(number, result, kept, drawn, edges, noise, mean))


def claims(number, result, kept, drawn, edges, noise, mean):
    """Rows: kind, log-odds among fits, facts, the probability stated, and whether it is right.

    A change that is not reported has what the curves say of one that is settled, in the direction of most fits.
    """
    reported = {(e.source, e.target): e for e in result.edge_list}
    listed = {(e.source, e.target): e.directed for e in kept.edge_list}
    for share in drawn.shares:
        ends = (share.source, share.target)
        ends = ends if ends in reported or ends[::-1] not in reported else ends[::-1]
        told = ends in reported
        evidence = Evidence.of(ends[0], share, drawn.answers)
        edge = reported.get(ends, Edge(*ends))
        facts = Facts.about(edge, evidence, result)
        pair = ends in edges or ends[::-1] in edges
        low = any(e in listed for e in (ends, ends[::-1]))
        claimed = [("pair", curves.PAIR, evidence.pair, told, low, pair)]
        if pair and sum(evidence.direction) > 0:
            told, low = told and edge.judged, listed.get(ends) is True
            claimed.append(("direction", curves.DIRECTION, evidence.direction, told, low, ends in edges))
        for kind, curve, votes, *known in claimed:
            stated = curve(votes, facts)
            yield (number, kind, votes.log_odds, facts.steady, stated, *known, facts.unsettled, facts.failed)
    for kind, curve, truth, found in (
        ("noise", curves.NOISE, noise, {c.variable for c in result.noise_list}),
        ("mean", curves.MEAN, mean, {c.variable for c in result.mean_list}),
    ):
        for name, value in drawn.share_of(kind).items():
            right, votes = name in truth, curves.Votes.of(value, drawn.answers)
            yield (number, kind, votes.log_odds, 0.0, curve(votes), name in found, False, right, 0.0, 0.0)
    yield (number, "set", 0.0, 0.0, 0.0, bool(edges), False, False, 0.0, 0.0)


def collect(section, seed, sets, fits):
    """All data sets, those done before from the file."""
    path = Path(RESULTS) / f"confidence-{section}-{seed}.csv"
    rows = []
    if path.exists():
        with path.open(newline="") as file:
            rows = list(csv.reader(file))
    done = {int(row[0]) for row in rows if row[1] == "set" and len(row) == len(COLUMNS)}
    rows = [row for row in rows if len(row) == len(COLUMNS) and int(row[0]) in done]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
        file.flush()
        work = (joblib.delayed(one)(section, seed, k, fits) for k in range(sets) if k not in done)
        for new in joblib.Parallel(n_jobs=2, return_as="generator_unordered")(work):
            csv.writer(file).writerows(new)
            file.flush()
    with path.open(newline="") as file:
        rows = [row for row in csv.reader(file) if int(row[0]) < sets]
    truth = {"True": True, "False": False}
    return [
        (int(r[0]), r[1], *map(float, r[2:5]), *(truth[x] for x in r[5:8]), *map(float, r[8:])) for r in rows
    ]


def choose(rows):
    """Constants of the curves by maximum likelihood."""
    for kind, curve in {"pair": curves.PAIR, "direction": curves.DIRECTION, **curves.OTHERS}.items():
        chosen = [row for row in rows if row[1] == kind and (row[2] >= LEAST or row[5])]
        if not chosen:
            continue
        places = [COLUMNS.index(name) for name in ("odds", *curve.rises)]
        features = np.array([[row[place] for place in places] for row in chosen])
        right = np.array([row[7] for row in chosen])

        def unlikely(line, features=features, right=right):
            value = line[0] + features @ line[1:]
            return np.sum(np.logaddexp(0, np.where(right, -value, value)))

        best = minimize(unlikely, np.ones(1 + len(places)), method="Nelder-Mead").x
        rises = {name: round(float(rise), 2) for name, rise in zip(curve.rises, best[2:], strict=True)}
        print(f"{kind.upper()} = Curve({best[0]:.2f}, {best[1]:.2f}, {rises})    # {len(chosen)} claims")


def reliability(section, rows, seed):
    """Stated confidence against the share that is right."""
    table = []
    for kind in ("pair", "direction", "noise", "mean")[: 4 if section == "mixed" else 2]:
        for low, high in pairwise(BINS):
            chosen = [row for row in rows if row[1] == kind and low <= row[4] < high]
            if not chosen:
                continue
            right = sum(row[7] for row in chosen)
            interval = stats.binomtest(right, len(chosen)).proportion_ci(0.95, "wilson")
            told = [row for row in chosen if row[5]]
            stated = float(np.mean([row[4] for row in chosen]))
            table.append(
                [
                    kind,
                    f"{low:g} to {min(high, 1):g}",
                    stated,
                    right / len(chosen),
                    f"{interval.low:.2f} to {interval.high:.2f}",
                    len(chosen),
                    f"{sum(row[7] for row in told)} of {len(told)}",
                ]
            )
    columns = ["claim", "confidence", "mean stated", "right", "95 % interval", "claims", "of those reported"]
    title = f"Reliability, {SECTIONS[section][2]}"
    print_table(title, columns, table, section=section, settings={"seed": seed})


def false_edges(section, rows, seed):
    """The share of pairs, and of arrows, that are false in the lists, with and without a target."""
    table = []
    sets = sorted({row[0] for row in rows})
    for name, column in (("default", 5), ("fdr=0.05", 6)):
        pairs = [row for row in rows if row[1] == "pair" and row[column]]
        arrows = [row for row in rows if row[1] == "direction" and row[column]]
        shares = [
            np.mean([not r[7] for r in pairs if r[0] == k]) if any(r[0] == k for r in pairs) else 0.0
            for k in sets
        ]
        wrong = [sum(not row[7] for row in some) / max(len(some), 1) for some in (pairs, arrows)]
        table.append([name, len(sets), len(pairs), wrong[0], float(np.mean(shares)), len(arrows), wrong[1]])
    columns = ["list", "data sets", "pairs", "false", "mean of sets", "arrows at true pairs", "reversed"]
    title = f"False edges, {SECTIONS[section][2]}"
    print_table(title, columns, table, section=f"{section} fdr", settings={"seed": seed})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(SECTIONS), choices=list(SECTIONS))
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--sets", type=int, help="data sets; as many as the table asks for if left out")
    parser.add_argument("--fits", type=int)
    parser.add_argument("--choose", action="store_true", help="choose the constants, report nothing")
    options = parser.parse_args()
    for section in options.only:
        sets, fits, _ = SECTIONS[section]
        rows = collect(section, options.seed, options.sets or sets, options.fits or fits)
        if options.choose:
            choose(rows)
            continue
        reliability(section, rows, options.seed)
        false_edges(section, rows, options.seed)


if __name__ == "__main__":
    main()
