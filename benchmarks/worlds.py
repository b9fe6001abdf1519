r"""Do confidence and direction mean what they say in worlds that break what the method assumes?

    python benchmarks/worlds.py collect --out FILE [--worlds bends tails] [--sets 40] [--seed 864100]
    python benchmarks/worlds.py explore FILE...     which worlds break pairs and arrows, which features tell
    python benchmarks/worlds.py calibrate FILE...   constants of diffdag.trust.confidence
    python benchmarks/worlds.py report FILE...      stated against right, on another seed

`collect` fits every data set of `broken_worlds`, with resamples, and keeps one line per data set: what is true,
what was claimed and what is known of each claim. It continues where it was interrupted. ``--resamples 0`` is
cheap. Features of a claim are numbers, by name; a new one is a line in `claim_features` or `set_features`.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from broken_worlds import MOST, WORLDS, DataSet, draw
from record import kept, print_table
from scipy import stats

import diffdag as dd
from diffdag._base.journal import Journal
from diffdag._base.parallel import run_all
from diffdag.results.records import Edge, Share

SEED = 864_100  # to choose constants on; reports take another
REPORT_SEED = 870_000
PERMUTATIONS = 199
LEFT_OUT = ("multiplicative", "covariate", "feedback", "outliers")
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
            "arrow": data.truth.arrow(edge.source, edge.target) if edge.directed else None,
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
        "edges": len(result.edge_list),
        "noises": len(result.noise_list),
        "means": len(result.mean_list),
        "fits": result.stability.fits if result.stability else 0,
        "penalty_factor": as_number(result.settings.get("penalty_factor")),
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
    """Shares of the fits to resamples, seen from the claim's own direction; of every kind that a result has."""
    if result.stability is None:
        return {}
    found: Row = {}
    for prefix, name in (("", "shares"), ("varied_", "varied")):
        shares: Iterable[Share] | None = getattr(result.stability, name, None)
        if shares is None:
            continue
        own = [s for s in shares if {s.source, s.target} == {edge.source, edge.target}]
        if not own:
            found |= {prefix + key: 0.0 for key in ("found", "forward", "backward", "undirected")}
            continue
        ways = own[0].directed, own[0].reversed
        forward, backward = ways if own[0].source == edge.source else ways[::-1]
        values = own[0].found, forward, backward, own[0].undirected
        keys = ("found", "forward", "backward", "undirected")
        found |= {prefix + key: rounded(value) for key, value in zip(keys, values, strict=True)}
    stable = {frozenset(pair.split(" -> ")) for pair in result.stability.stable}
    return {**found, "stable": float(frozenset((edge.source, edge.target)) in stable)}


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
    """Log-odds of a share; half a fit is added on either side, so that even all fits do not make certain."""
    return float(np.log((share * fits + 0.5) / ((1 - share) * fits + 0.5)))


def pair_odds(claim: Row) -> float:
    return odds(claim["found"], claim["fits"])


def arrow_odds(claim: Row) -> float:
    """Log-odds of the claimed direction against the other one, among fits that have the pair."""
    ways = claim["forward"] + claim["undirected"] / 2, claim["backward"] + claim["undirected"] / 2
    return odds(ways[0] / (sum(ways) or 1.0), round(sum(ways) * claim["fits"]))


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
    options = parser.parse_args()
    {"collect": collect, "explore": explore}[options.command](options)


if __name__ == "__main__":
    main()
