r"""Do confidence and direction mean what they say in worlds that break what the method assumes?

    python benchmarks/worlds.py collect --out FILE [--worlds bends tails] [--sets 40] [--seed 864100]
    python benchmarks/worlds.py explore FILE...     which worlds break pairs and arrows, which features tell
    python benchmarks/worlds.py calibrate FILE...   constants of diffdag.trust.confidence
    python benchmarks/worlds.py report FILE...      stated against right, on another seed and worlds left out

`collect` fits every data set of `broken_worlds`, with resamples, and keeps one line per data set: what is true,
what was claimed and what is known of each claim. It continues where it was interrupted. ``--resamples 0`` is
cheap. Features of a claim are numbers, by name; a new one is a line in `claim_features` or `set_features`.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from broken_worlds import MOST, WORLDS, DataSet, draw
from record import kept, print_table
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit

import diffdag as dd
from diffdag._base.journal import Journal
from diffdag._base.parallel import run_all
from diffdag.results.records import Edge, Share
from diffdag.trust.confidence import COUNTED, FORM

SEED = 864_100  # to choose constants on; reports take another
PERMUTATIONS = 199
# Named before any data set was drawn. Constants are not chosen on what these break; the report is about them;
# but the terms were chosen with each world left out in turn, these among them.
LEFT_OUT = ("multiplicative", "covariate", "feedback", "outliers")
BINS = (0.0, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99, 1.0001)
RIDGE = 0.5  # keeps slopes finite where a feature tells right from wrong in every claim
STATED = {"pair": "stated", "arrow": "stated_direction"}
Row = dict[str, Any]


# ------------------------------------------------------------------------------------------------ collect


def one_set(task: tuple[str, int], seed: int, resamples: int, most: int) -> Row:
    """Fit one data set, and note what is known of each claim."""
    world, number = task
    data = draw(world, seed, number, most)
    row: Row = {
        "world": world,
        "set": number,
        "breaks": {name: round(strength, 3) for name, strength in data.breaks.items()},
        "p": len(data.names),
        "rows": [len(data.first), len(data.second)],
        "direct": sorted(data.truth.direct),
        "through": sorted(data.truth.through),
        "lines": sorted(data.truth.lines),
        "claims": [],
        "why": "",
    }
    start = time.process_time()
    try:
        result = fit(data, number, resamples)
    except (ValueError, ArithmeticError) as refused:
        return {**row, "why": str(refused)}
    row["features"] = set_features(data, result)
    row["claims"] = [
        {
            "source": edge.source,
            "target": edge.target,
            "directed": edge.directed,
            "pair": data.truth.pair(edge.source, edge.target),
            "arrow": data.truth.changed(edge.source, edge.target) if edge.directed else None,
            "features": claim_features(data, result, edge),
        }
        for edge in result.edge_list
    ]
    return {**row, "seconds": round(time.process_time() - start, 2)}


def fit(data: DataSet, number: int, resamples: int) -> dd.DifferenceResult:
    import pandas as pd  # noqa: PLC0415

    tables = (pd.DataFrame(rows, columns=list(data.names)) for rows in (data.first, data.second))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = dd.DifferenceDAG(resamples=resamples or None, permutations=PERMUTATIONS, rng=number)
        return model.fit(*tables).result_


def set_features(data: DataSet, result: dd.DifferenceResult) -> Row:
    """What is known of a data set as a whole."""
    failed = sorted(check.name for check in result.checks if not check.passed)
    residual = [residuals(rows) for rows in (data.first, data.second)]
    return {
        "failed": failed,
        "global_p": result.global_test.pvalue if result.global_test else None,
        "levels": next((check.value for check in result.checks if check.name == "noise levels"), None),
        "edges": len(result.edge_list),
        "noises": len(result.noise_list),
        "means": len(result.mean_list),
        **{f"inflation_{kind}": rounded(by) for kind, by in result.settings["penalty_inflation"].items()},
        "kurtosis": rounded(max(stats.kurtosis(part).max() for part in residual)),
    }


def claim_features(data: DataSet, result: dd.DifferenceResult, edge: Edge) -> Row:
    """What is known of one edge, as numbers; None where something does not apply."""
    names = list(data.names)
    i, j = names.index(edge.target), names.index(edge.source)
    both = data.first, data.second
    near = np.mean([np.abs(np.corrcoef(rows, rowvar=False)) for rows in both], axis=0) - np.eye(len(names))
    kurtosis = [max(float(stats.kurtosis(residuals(rows)[:, k])) for rows in both) for k in (j, i)]
    noisy = {change.variable for change in result.noise_list}
    moved = {change.variable for change in result.mean_list}
    return {
        **share_features(result, edge),
        "stated": edge.confidence,
        "stated_direction": edge.direction,
        "z": rounded(abs(edge.delta) / edge.stderr) if edge.delta is not None and edge.stderr else None,
        "robust_z": rounded(robust_z(both, j, i)),
        "size": rounded(abs(edge.size)) if edge.size is not None else None,
        "partial": rounded(max(abs(partial(rows, j, i)) for rows in both)),
        "margin": as_number(result.settings.get("margins", {}).get(f"{edge.source} -> {edge.target}")),
        "settled": float(edge.settled),
        "gain": float(edge.gain_of is not None),
        "support": edge.support,
        "into_target": sum(other.target == edge.target for other in result.edge_list),
        "at_ends": sum(
            bool({other.source, other.target} & {edge.source, edge.target}) for other in result.edge_list
        ),
        "source_noise": float(edge.source in noisy),
        "target_noise": float(edge.target in noisy),
        "source_mean": float(edge.source in moved),
        "target_mean": float(edge.target in moved),
        "source_like": rounded(near[j].max()),
        "target_like": rounded(near[i].max()),
        "alike": rounded(near[i, j]),
        "source_kurtosis": rounded(kurtosis[0]),
        "target_kurtosis": rounded(kurtosis[1]),
        "source_moved": rounded(moved_by(both, j)),
        "target_moved": rounded(moved_by(both, i)),
        "source_spread": rounded(spread_by(both, j)),
        "target_spread": rounded(spread_by(both, i)),
    }


def share_features(result: dd.DifferenceResult, edge: Edge) -> Row:
    """Shares of fits to resamples, plain and with a varied specification, seen from the claim."""
    if result.stability is None:
        return {}
    shares = {frozenset((share.source, share.target)): share for share in result.stability.shares}
    ends = frozenset((edge.source, edge.target))
    share = shares.get(ends, Share(edge.source, edge.target, 0.0, 0.0, 0.0, 0.0))
    found: Row = {}
    for prefix, ways in (("", share), ("varied_", getattr(share, "varied", None))):
        if ways is not None:
            both = ways.directed, ways.reversed
            forward, backward = both if share.source == edge.source else both[::-1]
            values = {
                "found": ways.found,
                "forward": forward,
                "backward": backward,
                "undirected": ways.undirected,
            }
            found |= {prefix + key: rounded(value) for key, value in values.items()}
            found[prefix + "fits"] = result.stability.fits if ways is share else ways.fits
    stable = {frozenset(pair.split(" -> ")) for pair in result.stability.stable}
    return {**found, "stable": float(ends in stable)}


def residuals(rows: np.ndarray) -> np.ndarray:
    """What all other columns leave of each column."""
    x = rows - rows.mean(axis=0)
    precision = np.linalg.pinv(x.T @ x)
    return x @ precision / np.diag(precision)


def robust_z(both: tuple[np.ndarray, ...], source: int, target: int) -> float:
    """Change of a slope, given all other columns, over an error that allows any variances (White 1980)."""
    slopes, errors = [], []
    for rows in both:
        others = [k for k in range(rows.shape[1]) if k not in (source, target)]
        x = rows - rows.mean(axis=0)
        left = [
            x[:, k] - x[:, others] @ np.linalg.lstsq(x[:, others], x[:, k], rcond=None)[0]
            for k in (source, target)
        ]
        size = left[0] @ left[0]
        slope = left[0] @ left[1] / size
        slopes.append(slope)
        errors.append(np.sum((left[0] * (left[1] - slope * left[0])) ** 2) / size**2)
    return float(abs(slopes[0] - slopes[1]) / np.sqrt(sum(errors)))


def partial(rows: np.ndarray, one: int, other: int) -> float:
    """Correlation of two columns given all others."""
    precision = np.linalg.pinv(np.cov(rows, rowvar=False))
    return float(-precision[one, other] / np.sqrt(precision[one, one] * precision[other, other]))


def moved_by(both: tuple[np.ndarray, ...], k: int) -> float:
    """How far a column's mean moved, in its standard deviations."""
    first, second = (rows[:, k] for rows in both)
    return float(abs(first.mean() - second.mean()) / np.sqrt((first.var() + second.var()) / 2))


def spread_by(both: tuple[np.ndarray, ...], k: int) -> float:
    """Log ratio of a column's standard deviations."""
    first, second = (rows[:, k] for rows in both)
    return float(abs(np.log(first.std() / second.std())))


def as_number(value: Any) -> float | None:
    """A number that can be stored."""
    return rounded(float(value)) if isinstance(value, int | float) and np.isfinite(value) else None


def rounded(value: float) -> float | None:
    return round(float(value), 4) if np.isfinite(value) else None


def collect(options: argparse.Namespace) -> None:
    about = {"run": "worlds", "seed": options.seed, "resamples": options.resamples, "most": options.most}
    with Journal(Path(options.out), about, ("world", "set")).open() as journal:
        tasks = [(world, k) for k in range(options.sets) for world in options.worlds]
        todo = [task for task in tasks if task not in journal.rows]
        work = run_all(one_set, todo, shared=(options.seed, options.resamples, options.most), jobs=options.jobs)
        for done, (_, row) in enumerate(work, 1):
            journal.append(row)
            if done % 20 == 0:
                print(f"{done} of {len(todo)}", flush=True)


# ------------------------------------------------------------------------------------------------- claims


def read_sets(paths: Iterable[str]) -> list[Row]:
    """Data sets of some journals, those that no fit refused."""
    rows = [row for path in paths for row in kept(Path(path)) if "world" in row]
    return [row for row in rows if not row["why"]]


def claims_of(rows: Iterable[Row]) -> Iterator[Row]:
    """All claims, each with what is known of it and of its data set in one place."""
    for row in rows:
        whole = {key: value for key, value in row["features"].items() if key != "failed"}
        whole |= {f"fails_{name}": 1.0 for name in row["features"]["failed"]}
        about = {"world": row["world"], "breaks": row["breaks"], "p": row["p"], "n": min(row["rows"])}
        for claim in row["claims"]:
            yield {**about, **whole, **claim["features"], **{k: v for k, v in claim.items() if k != "features"}}


def odds(share: float, fits: int) -> float:
    """Log-odds of a share; half a fit is added on either side, so that even all fits do not make certain.

    No more than `COUNTED` fits count: more of them make a share exact, but a wrong model no less wrong.
    """
    counted = min(fits, COUNTED)
    return float(np.log((share * counted + 0.5) / ((1 - share) * counted + 0.5)))


def pair_odds(claim: Row, kind: str = "") -> float:
    """Log-odds of the pair, in plain fits or in those that vary the specification, ``"varied_"``."""
    kind = kind if claim.get(kind + "fits") else ""
    return odds(claim[kind + "found"], claim[kind + "fits"])


def arrow_odds(claim: Row, kind: str = "") -> float:
    """Log-odds of the claimed direction against the other one, among fits that have the pair."""
    kind = kind if claim.get(kind + "fits") else ""
    ways = [claim[kind + way] + claim[kind + "undirected"] / 2 for way in ("forward", "backward")]
    return odds(ways[0] / (sum(ways) or 1.0), round(sum(ways) * claim[kind + "fits"]))


def other_targets(claim: Row) -> float:
    """Edges into other variables than this one's: broken assumptions show as many changes in many places."""
    return float(np.log1p(claim["edges"] - claim["into_target"]))


def failed_form(claim: Row) -> float:
    """How many checks of the model's form fail."""
    return float(sum(claim.get(f"fails_{name}", 0.0) for name in FORM))


# ------------------------------------------------------------------------------------------------ explore


def explore(options: argparse.Namespace) -> None:
    """Which worlds break pairs and arrows, and which features tell it where resamples are sure."""
    rows = read_sets(options.files)
    claims = list(claims_of(rows))
    table = []
    for world in WORLDS:
        own = [claim for claim in claims if claim["world"] == world]
        sets = [row for row in rows if row["world"] == world]
        null = [row for row in sets if not row["direct"] and not row["through"]]
        arrows = [claim for claim in own if claim["pair"] and claim["directed"]]
        sure = [claim for claim in own if claim.get("found", 0) >= 0.95]
        sure_arrows = [claim for claim in arrows if "found" in claim and arrow_odds(claim) >= np.log(19)]
        alarms = sum(bool(row["claims"]) for row in null)
        counts = (
            share_right(part, what)
            for part, what in ((own, "pair"), (sure, "pair"), (arrows, "arrow"), (sure_arrows, "arrow"))
        )
        table.append([world, len(sets), f"{alarms} of {len(null)}", *counts])
    heads = ["world", "data sets", "alarms", "pairs right", "found in 95 %", "arrows right", "19 to 1"]
    print_table("What was claimed", heads, table, section="explore")
    for what, of in (("pair", claims), ("arrow", [c for c in claims if c["pair"] and c["directed"]])):
        print_table(
            f"Features that tell a wrong {what}",
            ["feature", "claims", "AUC", "AUC where sure"],
            list(telling(of, what)),
            section=f"telling {what}",
        )


def share_right(claims: list[Row], what: str) -> str:
    right = sum(bool(claim[what]) for claim in claims)
    return f"{right / len(claims):.2f} of {len(claims)}" if claims else "none"


def telling(claims: list[Row], what: str) -> Iterator[list[Any]]:
    """How far each feature alone tells right from wrong claims: chance that a right one has more of it."""
    known = {"world", "breaks", "source", "target", "directed", "pair", "arrow", "support"}
    measure = pair_odds if what == "pair" else arrow_odds
    sure = [claim for claim in claims if "found" in claim and measure(claim) > np.log(12)]
    for name in sorted({key for claim in claims for key in claim} - known):
        yield [name, len(claims), auc(claims, name, what), auc(sure, name, what)]


def auc(claims: list[Row], name: str, what: str) -> float | None:
    values = np.array([float(claim.get(name, 0.0) or 0.0) for claim in claims])
    right = np.array([bool(claim[what]) for claim in claims])
    if len(claims) == 0 or right.all() or not right.any():
        return None
    ranks = stats.rankdata(values)[right].sum() - right.sum() * (right.sum() + 1) / 2
    return float(ranks / (right.sum() * (~right).sum()))


# ---------------------------------------------------------------------------------------------- calibrate


@dataclass(frozen=True)
class Term:
    """A number known of a claim, and whether more of it speaks for the claim (1) or against it (-1)."""

    name: str
    sign: int
    value: Callable[[Row], float]


# Chosen one after the other (seed 864500, each world left out in turn); then the fewest whose loss is within
# a standard error of the least, by data sets.
TERMS = {
    "pair": (
        Term("odds of the pair in varied fits", 1, lambda claim: pair_odds(claim, "varied_")),
        Term("odds of the arrow in plain fits", 1, arrow_odds),
    ),
    "arrow": (
        Term("odds of the arrow in varied fits", 1, lambda claim: arrow_odds(claim, "varied_")),
        Term("checks of the form that fail", -1, failed_form),
        Term("not settled", -1, lambda claim: 1.0 - claim["settled"]),
    ),
}


@dataclass(frozen=True, eq=False)
class Line:
    """Log-odds of being right, a line in some terms."""

    terms: tuple[Term, ...]
    level: float
    slopes: tuple[float, ...]

    def __call__(self, claims: Sequence[Row]) -> np.ndarray:
        return expit(self.level + design(claims, self.terms) @ np.array(self.slopes))

    def __str__(self) -> str:
        parts = (f"{slope:+.2f} {term.name}" for term, slope in zip(self.terms, self.slopes, strict=True))
        return f"{self.level:.2f} {' '.join(parts)}"


def design(claims: Sequence[Row], terms: Sequence[Term]) -> np.ndarray:
    return np.array([[term.value(claim) for term in terms] for claim in claims]).reshape(
        len(claims), len(terms)
    )


def fit_line(claims: Sequence[Row], terms: tuple[Term, ...], what: str) -> Line:
    """The line of greatest likelihood whose slopes have the signs that they should have."""
    x, right = design(claims, terms), np.array([bool(claim[what]) for claim in claims])
    sign = np.where(right, -1.0, 1.0)

    def unlikely(line: np.ndarray) -> tuple[float, np.ndarray]:
        value = line[0] + x @ line[1:]
        slope = sign * expit(sign * value)
        gradient = np.concatenate([[slope.sum()], slope @ x]) + RIDGE * np.concatenate([[0.0], line[1:]])
        return float(np.logaddexp(0, sign * value).sum() + RIDGE / 2 * line[1:] @ line[1:]), gradient

    bounds = [(None, None), *((0, None) if term.sign > 0 else (None, 0) for term in terms)]
    best = minimize(unlikely, np.zeros(1 + len(terms)), jac=True, method="L-BFGS-B", bounds=bounds).x
    return Line(terms, float(best[0]), tuple(float(slope) for slope in best[1:]))


def without_world(claims: Iterable[Row], *worlds: str) -> list[Row]:
    """Claims of data sets in which nothing is broken that some worlds break."""
    return [claim for claim in claims if not set(worlds) & claim["breaks"].keys()]


def predicted_elsewhere(claims: Sequence[Row], terms: tuple[Term, ...], what: str) -> np.ndarray:
    """The probability of each claim, by a line that never saw what its world breaks."""
    stated = np.zeros(len(claims))
    for world in {claim["world"] for claim in claims}:
        own = [k for k, claim in enumerate(claims) if claim["world"] == world]
        line = fit_line(without_world(claims, world), terms, what)
        stated[own] = line([claims[k] for k in own])
    return stated


def loss(stated: np.ndarray, right: np.ndarray) -> float:
    """Mean negative log-likelihood, with probabilities kept from 0 and 1."""
    safe = np.clip(stated, 0.005, 0.995)
    return float(-np.mean(np.where(right, np.log(safe), np.log(1 - safe))))


def claims_about(claims: Iterable[Row], what: str) -> list[Row]:
    """Claims that say something of a pair, or of an arrow that is judged and whose pair is right."""
    known = [claim for claim in claims if "found" in claim]
    if what == "pair":
        return known
    return [claim for claim in known if claim["pair"] and claim["directed"] and claim["support"] == "mechanism"]


def calibrate(options: argparse.Namespace) -> None:
    """Constants from all worlds, and how they do on worlds that they have not seen."""
    claims = list(claims_of(read_sets(options.files)))
    for what, terms in TERMS.items():
        own = claims_about(claims, what)
        right = np.array([bool(claim[what]) for claim in own])
        for name, part in (("all worlds", own), ("without those left out", without_world(own, *LEFT_OUT))):
            print(f"{what}, {name}, {len(part)} claims: {fit_line(part, terms, what)}\n")
        table = []
        for count in range(len(terms) + 1):
            stated = predicted_elsewhere(own, terms[:count], what)
            sure = stated >= 0.95
            share = right[sure].mean() if sure.any() else None
            name = terms[count - 1].name if count else "nothing"
            table.append([name, loss(stated, right), share, int(sure.sum()), judged(stated, right)])
        heads = ["with", "loss", "right of 95 % and more", "claims", "stated 80 %"]
        print_table(
            f"{what}: term after term, each world left out in turn", heads, table, section=f"terms {what}"
        )
        stated = predicted_elsewhere(own, terms, what)
        print_reliability(
            f"{what}, each world left out in turn", own, stated, right, section=f"left out {what}"
        )
        by_world(own, stated, right, what, f"worlds {what}")


# ------------------------------------------------------------------------------------------------- report


def judged(stated: np.ndarray, right: np.ndarray, low: float = 0.7, high: float = 0.9) -> str:
    own = (stated >= low) & (stated < high)
    return f"{right[own].mean():.2f} of {own.sum()}" if own.any() else "none"


def print_reliability(
    title: str, claims: list[Row], stated: np.ndarray, right: np.ndarray, section: str
) -> None:
    table = []
    for low, high in pairwise(BINS):
        own = (stated >= low) & (stated < high)
        if own.any():
            count, good = int(own.sum()), int(right[own].sum())
            interval = stats.binomtest(good, count).proportion_ci(0.95, "wilson")
            of = f"{interval.low:.2f} to {interval.high:.2f}"
            table.append([f"{low:g} to {min(high, 1):g}", float(stated[own].mean()), good / count, of, count])
    print_table(
        f"Reliability: {title}", ["stated", "mean", "right", "95 % interval", "claims"], table, section=section
    )


def by_world(claims: list[Row], stated: np.ndarray, right: np.ndarray, what: str, section: str) -> None:
    table = []
    for world in WORLDS:
        own = np.array([claim["world"] == world for claim in claims], bool)
        if own.any():
            s, r = stated[own], right[own]
            table.append(
                [world, int(own.sum()), float(s.mean()), float(r.mean()), judged(s, r), judged(s, r, 0.95, 2)]
            )
    heads = ["world", "claims", "mean stated", "right", "stated 80 %", "95 % and more"]
    print_table(f"{what}, world by world", heads, table, section=section)


def report(options: argparse.Namespace) -> None:
    """Stated against right: what results say, or lines chosen on other data sets would."""
    rows = [row for row in read_sets(options.files) if row["world"] in options.worlds]
    claims = list(claims_of(rows))
    before = list(claims_of(read_sets(options.chosen_on or [])))
    curves = {}
    for what, terms in TERMS.items():
        own = claims_about(claims, what)
        if before:
            stated = fit_line(claims_about(without_world(before, *options.worlds), what), terms, what)(own)
        else:
            own = [claim for claim in own if claim[STATED[what]] is not None]
            stated = np.array([claim[STATED[what]] for claim in own], float)
        right = np.array([bool(claim[what]) for claim in own], bool)
        if own:
            print_reliability(
                f"{what}, worlds {', '.join(options.worlds)}", own, stated, right, section=f"report {what}"
            )
            by_world(own, stated, right, what, f"report worlds {what}")
            curves[what] = stated, right
    if options.plot:
        plot(curves, Path(options.plot))


def plot(curves: dict[str, tuple[np.ndarray, np.ndarray]], path: Path) -> None:
    """Stated against right, with intervals, for pairs and arrows."""
    import matplotlib  # noqa: PLC0415

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(1, len(curves), figsize=(4 * len(curves), 4), squeeze=False)
    titles = {"pair": "confidence", "arrow": "direction"}
    for axis, (what, (stated, right)) in zip(axes[0], curves.items(), strict=True):
        axis.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        for low, high in pairwise(BINS):
            own = (stated >= low) & (stated < high)
            if own.any():
                count, good = int(own.sum()), int(right[own].sum())
                interval = stats.binomtest(good, count).proportion_ci(0.95, "wilson")
                x, y = stated[own].mean(), good / count
                axis.errorbar(
                    [x], [y], [[max(y - interval.low, 0)], [max(interval.high - y, 0)]], fmt="o", color="C0"
                )
                axis.annotate(str(count), (x, y), xytext=(5, -10), textcoords="offset points", fontsize=7)
        axis.set(
            title=titles[what], xlabel="stated", ylabel="right", xlim=(0, 1.02), ylim=(0, 1.02), aspect="equal"
        )
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("collect")
    run.add_argument("--out", required=True)
    run.add_argument("--worlds", nargs="+", choices=list(WORLDS), default=list(WORLDS))
    run.add_argument("--sets", type=int, default=40)
    run.add_argument("--seed", type=int, default=SEED)
    run.add_argument("--resamples", type=int, default=40)
    run.add_argument("--most", type=int, default=MOST, help="variables of the largest data sets")
    run.add_argument("--jobs", type=int, default=1)
    look = commands.add_parser("explore")
    look.add_argument("files", nargs="+")
    choose = commands.add_parser("calibrate")
    choose.add_argument("files", nargs="+")
    tell = commands.add_parser("report")
    tell.add_argument("files", nargs="+")
    tell.add_argument("--worlds", nargs="+", choices=list(WORLDS), default=list(LEFT_OUT))
    tell.add_argument(
        "--chosen-on", nargs="+", help="journals to choose lines on; what results state if left out"
    )
    tell.add_argument("--plot", help="a file for the reliability plot")
    options = parser.parse_args()
    {"collect": collect, "explore": explore, "calibrate": calibrate, "report": report}[options.command](options)


if __name__ == "__main__":
    main()
