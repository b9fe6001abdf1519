"""Do two checkouts give the same results? Fits 300 data sets (order, paper, several conditions) and compares.

    PYTHONPATH=OLD/src python same_results.py --write old.jsonl
    PYTHONPATH=NEW/src python same_results.py --write new.jsonl
    python same_results.py --compare old.jsonl new.jsonl

Edges, directions and layers have to be equal; scores, weights and standard errors agree to 1e-9, relative to
the larger of 1 and the value. Invariant variables are left out: from 0.2 on none has a changed intercept.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

TOLERANCE = 1e-9
ORDER, PAPER, CONDITIONS = 160, 80, 60


def studies() -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Name, kind, how to draw and how to fit."""
    ways: list[dict[str, Any]] = [
        {},
        {"noise": "equal"},
        {"covariance": "winsorised"},
        {"covariance": "spearman"},
        {"penalty": 0.7},
    ]
    for k in range(ORDER):
        p = (5, 8, 11, 16, 20)[k % 5] if k % 16 else 40
        drawn = {"p": p, "neighbours": p / 2, "rows": (120, 341, 1500, 5000)[k // 5 % 4], "seed": 70_000 + k}
        yield f"order-{k}", "order", drawn, ways[k // 3 % len(ways)]
    for k in range(PAPER):
        way = {
            "estimator": ("dantzig", "dtrace", "kliep", "plugin")[k % 4],
            "noise": ("auto", "equal")[k // 4 % 2],
        }
        drawn = {"p": 4 + k % 5, "neighbours": 3, "rows": (341, 2525)[k // 5 % 2], "seed": 71_000 + k}
        yield f"paper-{k}", "paper", drawn, {"method": "paper", **way}
    for k in range(CONDITIONS):
        drawn = {"p": (5, 9, 16)[k % 3], "neighbours": 4, "rows": (300, 2000)[k // 3 % 2], "seed": 72_000 + k}
        yield f"conditions-{k}", "conditions", drawn, ways[k // 6 % 2]


def described(result: Any) -> dict[str, Any]:
    """All numbers and names of a result that must not change."""
    edges = [
        [e.source, e.target, e.directed, e.change, e.weight_first, e.weight_second, e.delta, e.stderr]
        for e in result.edge_list
    ]
    return {
        "edges": sorted(edges, key=lambda edge: edge[:2]),
        "score": result.settings.get("score"),
        "order": result.order,
        "noise": [[c.variable, c.variance_first, c.variance_second] for c in result.noise_list],
        "mean": [[c.variable, c.delta] for c in result.mean_list],
    }


def fitted(kind: str, drawn: dict[str, Any], way: dict[str, Any]) -> Any:
    """The result of one study."""
    import diffdag as dd  # noqa: PLC0415

    pair = dd.simulate_pair(drawn["p"], neighbours=drawn["neighbours"], rng=drawn["seed"])
    tables = [
        sem.sample(drawn["rows"] + 7 * k, rng=drawn["seed"] + k)
        for k, sem in enumerate((pair.first, pair.second, pair.first, pair.second))
    ]
    tables[1][:, ::3] += 0.5  # some means move
    if kind != "conditions":
        return described(dd.DifferenceDAG(n_jobs=1, **way).fit(*tables[:2]).result_)
    named = dict(zip("abcd", tables, strict=True))
    if drawn["seed"] % 2:
        del named["d"]
    model = dd.DifferenceDAG(n_jobs=1, **way)
    result = dd.fit_conditions(named, reference=None if drawn["seed"] % 3 else "a", model=model)
    return {f"{a}-{b}": described(part) for (a, b), part in result.pairs.items()}


def write(path: Path) -> None:
    """Fit all studies, one line each; lines that are there already are kept."""
    import diffdag as dd  # noqa: PLC0415

    print(f"diffdag from {Path(dd.__file__).parent}", file=sys.stderr)
    done = {json.loads(line)["name"] for line in path.read_text().splitlines()} if path.exists() else set()
    with path.open("a", encoding="utf-8") as file:
        for name, kind, drawn, way in studies():
            if name in done:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    value = fitted(kind, drawn, way)
                except ValueError as error:
                    value = {"refused": type(error).__name__}
            file.write(json.dumps({"name": name, "result": value}) + "\n")
            file.flush()


def differences(one: Any, two: Any, where: str = "") -> Iterator[str]:
    """Places at which two results differ."""
    if isinstance(one, dict) and isinstance(two, dict) and one.keys() == two.keys():
        for key in one:
            yield from differences(one[key], two[key], f"{where}/{key}")
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for k, parts in enumerate(zip(one, two, strict=True)):
            yield from differences(*parts, f"{where}/{k}")
    elif isinstance(one, float) and isinstance(two, float):
        if not np.isclose(one, two, rtol=TOLERANCE, atol=TOLERANCE):
            yield f"{where}: {one} and {two}"
    elif one != two:
        yield f"{where}: {one} and {two}"


def compare(old: Path, new: Path) -> int:
    """Print what differs and how many results are equal."""
    both = [
        {row["name"]: row["result"] for row in map(json.loads, path.read_text().splitlines())}
        for path in (old, new)
    ]
    names = list(both[0].keys() & both[1].keys())
    apart = {name: found for name in names if (found := list(differences(both[0][name], both[1][name])))}
    for name, found in sorted(apart.items()):
        print(f"{name}: {found[0]}" + (f" and {len(found) - 1} more" if len(found) > 1 else ""))
    refused = sum("refused" in both[0][name] for name in names)
    only = len(both[0].keys() ^ both[1].keys())
    print(f"{len(names) - len(apart)} of {len(names)} the same ({refused} refused, {only} in one file only)")
    return 1 if apart or only else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--compare", type=Path, nargs=2)
    given = parser.parse_args()
    if given.write:
        write(given.write)
    return compare(*given.compare) if given.compare else 0


if __name__ == "__main__":
    sys.exit(main())
