r"""Do confidence and direction mean what they say on real data?

    python benchmarks/real_confidence.py sachs --out FILE
    python benchmarks/real_confidence.py chambers --data DIR --out FILE

`sachs` fits all pairs of the nine conditions of Sachs et al., log10 values, with resamples, and holds what is
stated against the consensus network: the share of claimed pairs that are in it, and of arrows that agree with
it where it orders their ends. Being in it is not the same as having changed, and it has errors of its own.
`chambers` fits every environment of the light tunnel, and counts which edges with both numbers at least 0.9 are
right. No constant was chosen on either. Finished fits are kept in FILE, and so that they need not be repeated
when the curves change, what is stated is worked out again from what is kept of each claim.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from broken_worlds import DataSet, Truth
from record import print_table
from worlds import TERMS, claim_features, claims_of, fit, set_features

from diffdag._base.journal import Journal
from diffdag._base.parallel import run_all
from diffdag.model.datasets import SACHS_CONDITIONS, SACHS_PROTEINS, load_sachs
from diffdag.reproduce.experiments.chambers.data import read_machine
from diffdag.reproduce.experiments.sachs import ABOVE, EDGES
from diffdag.trust.confidence import DIRECTION, PAIR, Curve

SURE = 0.9
Row = dict[str, Any]


def fitted(world: str, name: str, data: DataSet, resamples: int) -> Row:
    """What is known of each claim of one comparison."""
    result = fit(data, 0, resamples)
    claims = [
        {
            "source": edge.source,
            "target": edge.target,
            "directed": edge.directed,
            "features": claim_features(data, result, edge),
        }
        for edge in result.edge_list
    ]
    return {"world": world, "set": name, "features": set_features(data, result), "claims": claims, "why": ""}


def sachs(task: tuple[str, str], resamples: int) -> Row:
    cells, names = load_sachs(), list(SACHS_PROTEINS)
    first, second = (np.log10(cells.loc[cells["condition"] == one, names].to_numpy(float)) for one in task)
    data = DataSet("sachs", first, second, tuple(names), Truth(frozenset(), frozenset()), {})
    return known(fitted("sachs", " and ".join(task), data, resamples), data)


def chambers(task: str, resamples: int, folder: str) -> Row:
    compared = read_machine(Path(folder)).compared(task)
    first, second = (table.to_numpy(float) for table in (compared.first, compared.second))
    data = DataSet("chambers", first, second, tuple(compared.first), Truth(frozenset(), frozenset()), {})
    return known(fitted("chambers", task, data, resamples), data)


def known(row: Row, data: DataSet) -> Row:
    return {**row, "breaks": {}, "p": len(data.names), "rows": [len(data.first), len(data.second)]}


def stated(claim: Row, what: str) -> float | None:
    """What today's curves state of a claim."""
    if what == "arrow" and (not claim["directed"] or claim["support"] != "mechanism"):
        return None
    curve: Curve = PAIR if what == "pair" else DIRECTION
    slopes = (curve.slope, *curve.rises.values())
    odds = curve.level + sum(slope * term.value(claim) for slope, term in zip(slopes, TERMS[what], strict=True))
    return float(1 / (1 + np.exp(-odds)))


def judged_sachs(rows: list[Row]) -> Iterator[Row]:
    """Claims with whether the consensus has their pair, and their arrow if it orders its ends."""
    near = {frozenset(edge) for edge in EDGES}
    for claim in claims_of(rows):
        ends = claim["source"], claim["target"]
        ordered = claim["directed"] and (ends in ABOVE or ends[::-1] in ABOVE)
        yield {**claim, "pair": frozenset(ends) in near, "arrow": ends in ABOVE if ordered else None}


def judged_chambers(rows: list[Row], folder: str) -> Iterator[Row]:
    """Claims with whether the machine's effects changed so; weak changes of the truth are not counted."""
    machine = read_machine(Path(folder))
    for row in rows:
        strong, weak = machine.changed(row["set"])
        for claim in claims_of([row]):
            ends = claim["source"], claim["target"]
            if ends not in weak:
                pair = ends in strong or ends[::-1] in strong
                kind = machine.environments[row["set"]]
                yield {**claim, "set": row["set"], "kind": kind, "pair": pair, "arrow": ends in strong}


def told_sachs(rows: list[Row]) -> None:
    claims = list(judged_sachs(rows))
    table = []
    for name, what in (("pairs", "pair"), ("arrows", "arrow")):
        told = [(stated(claim, what), claim[what]) for claim in claims if claim[what] is not None]
        own = [both for both in told if both[0] is not None]
        mean, right = np.mean(own, axis=0).tolist()
        table.append([name, len(own), mean, right, mean - right])
    heads = ["what", "claims", "mean stated", "in the consensus", "apart"]
    print_table("Sachs et al., all pairs of conditions", heads, table, section="sachs")


def told_chambers(rows: list[Row], folder: str) -> None:
    table = []
    claims = list(judged_chambers(rows, folder))
    for kind in ("all", *dict.fromkeys(claim["kind"] for claim in claims)):
        own = [claim for claim in claims if kind in ("all", claim["kind"])]
        sure = [c for c in own if all((stated(c, what) or 0) >= SURE for what in ("pair", "arrow"))]
        mechanism = sum(c["support"] == "mechanism" for c in own)
        right = sum(c["arrow"] for c in sure)
        table.append([kind, len(own), sum(c["arrow"] for c in own), len(sure), right, mechanism])
    heads = ["environments", "edges", "right", f"both at least {SURE:g}", "of these right", "support mechanism"]
    print_table("The light tunnel, each environment against the reference", heads, table, section="chambers")
    for c in claims:
        told = [stated(c, what) for what in ("pair", "arrow")]
        numbers = ", ".join("none" if number is None else f"{number:.2f}" for number in told)
        arrow = f"{c['set']} {c['source']} -> {c['target']}"
        print(f"{arrow}: {numbers}, {c['support']}, {'right' if c['arrow'] else 'wrong'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["sachs", "chambers"])
    parser.add_argument("--data", help="folder of the light tunnel")
    parser.add_argument("--out", required=True)
    parser.add_argument("--resamples", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    about = {"run": f"real {options.what}", "resamples": options.resamples}
    with Journal(Path(options.out), about, ("set",)).open() as journal:
        if options.what == "sachs":
            tasks = {" and ".join(pair): pair for pair in combinations(SACHS_CONDITIONS, 2)}
            work, shared = sachs, (options.resamples,)
        else:
            tasks = {name: name for name in read_machine(Path(options.data)).environments}
            work, shared = chambers, (options.resamples, options.data)
        todo = [task for name, task in tasks.items() if (name,) not in journal.rows]
        for _, row in run_all(work, todo, shared=shared, jobs=options.jobs):
            journal.append(row)
        rows = [journal.rows[name,] for name in tasks]
    if options.what == "sachs":
        told_sachs(rows)
    else:
        told_chambers(rows, options.data)


if __name__ == "__main__":
    main()
