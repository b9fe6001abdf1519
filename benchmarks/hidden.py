r"""Hidden causes of many variables: what `adjust="hidden"` claims where nothing changed, finds, and costs.

    python benchmarks/hidden.py --sets 20                 fresh seeds
    python benchmarks/hidden.py --sets 10 --seed 100      the seeds on which the method was chosen
    python benchmarks/hidden.py --null --sets 100         false alarms of `adjust="hidden"` alone

100 variables in 300 rows of each condition, two neighbours on average, weights from 0.5 to 1, six changed
effects or none. Three factors act on half of the variables each, with loadings of 0.4 to 1 in units of the
noise; their variances are 1 in the first condition, and 2, 0.5 and 2 in the second. A false alarm is any claim:
an edge, a gain, a noise variance or an intercept. Data without factors have the same noise. "known" is a fit
that is given the factors themselves as covariates: more than `adjust="hidden"` can know.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd

import diffdag as dd

SEED, P, ROWS, CHANGES, FACTORS = 2_330_000, 100, 300, 6, 3
VARIANCES = 2.0, 0.5, 2.0


def draw(
    seed: int, *, factors: bool, changes: int, neighbours: float, known: bool = False
) -> tuple[list[Any], Any]:
    """Rows of two conditions, if wanted with the factors as columns, and the models behind them."""
    rng = np.random.default_rng(seed)
    pair = dd.simulate_pair(P, neighbours=neighbours, changes=changes, weights=(0.5, 1.0), rng=rng)
    loadings = np.zeros((P, FACTORS))
    for k in range(FACTORS):
        on = rng.choice(P, P // 2, replace=False)
        loadings[on, k] = rng.uniform(0.4, 1.0, P // 2) * rng.choice([-1, 1], P // 2)
    noise = [rng.standard_normal((ROWS, P)) for _ in range(2)]
    causes = rng.standard_normal((ROWS, FACTORS)), rng.standard_normal((ROWS, FACTORS)) * np.sqrt(VARIANCES)
    rows = []
    for sem, own, cause in zip((pair.first, pair.second), noise, causes, strict=True):
        every = own * np.sqrt(sem.noise_variances) + (cause @ loadings.T if factors else 0.0)
        table = every @ np.linalg.inv(np.eye(P) - sem.weights).T
        named = {f"factor {k}": cause[:, k] for k in range(FACTORS)}
        rows.append(pd.DataFrame(table, columns=list(sem.names)).assign(**named) if known else table)
    return rows, pair


def fit(rows: list[Any], **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dd.DiffDagWarning)
        return dd.DifferenceDAG(**options).fit(*rows).result_


def f1_of(result: Any, truth: set[tuple[str, str]]) -> float:
    found = {(e.source, e.target) for e in result.edge_list if e.directed}
    return 2 * len(found & truth) / max(len(result.edge_list) + len(truth), 1)


def alarm(result: Any) -> bool:
    return bool(result.edge_list or result.gain_list or result.noise_list or result.mean_list)


def one_set(seed: int, neighbours: float) -> dict[str, float]:
    """All columns of the table for one seed."""
    how: dict[str, Any] = {"neighbours": neighbours}
    clean, pair = draw(seed, factors=False, changes=CHANGES, **how)
    mixed, _ = draw(seed, factors=True, changes=CHANGES, **how)
    told, _ = draw(seed, factors=True, changes=CHANGES, known=True, **how)
    null, _ = draw(seed, factors=True, changes=0, **how)
    taken = fit(mixed, adjust="hidden")
    return {
        "F1 no factors": f1_of(fit(clean), pair.edges),
        "F1 no factors, hidden": f1_of(fit(clean, adjust="hidden"), pair.edges),
        "F1 factors": f1_of(fit(mixed), pair.edges),
        "F1 factors, hidden": f1_of(taken, pair.edges),
        "F1 factors, known": f1_of(fit(told, adjust=[f"factor {k}" for k in range(FACTORS)]), pair.edges),
        "factors taken out": float(taken.settings.get("hidden_causes", 0)),
        "alarm factors": float(alarm(fit(null))),
        "alarm factors, hidden": float(alarm(fit(null, adjust="hidden"))),
    }


def null_set(seed: int, neighbours: float) -> dict[str, float]:
    """Whether anything is claimed where only factors changed, with these taken out."""
    null, _ = draw(seed, factors=True, changes=0, neighbours=neighbours)
    return {"alarm factors, hidden": float(alarm(fit(null, adjust="hidden")))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--neighbours", type=float, default=2.0)
    parser.add_argument("--null", action="store_true", help="only false alarms with factors taken out")
    chosen = parser.parse_args()
    one = null_set if chosen.null else one_set
    rows: list[dict[str, float]] = []
    for k in range(chosen.sets):
        rows.append(one(chosen.seed + k, chosen.neighbours))
        means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
        said = "  ".join(f"{name} {value:.3f}" for name, value in means.items())
        print(f"{len(rows)} sets: {said}", flush=True, file=sys.stdout if k + 1 == chosen.sets else sys.stderr)


if __name__ == "__main__":
    main()
