"""Fill the tables of docs/reproduction.md from the files of finished runs in docs/reproduction/.

    .venv/bin/python docs/make_reproduction.py                 fill the page
    .venv/bin/python docs/make_reproduction.py FOLDER ...      first take over finished runs
    .venv/bin/python docs/make_reproduction.py --begin FOLDER NAME --again METHOD,METHOD [--late] [--data DATA]

Only text between ``<!-- begin NAME -->`` and ``<!-- end -->`` is replaced. Rows of a run are kept compressed.

The last form begins a run in FOLDER with the stored rows of all methods but those named, whose code changed:
``diffdag reproduce NAME --out FOLDER`` then runs these (and methods that have no rows yet) and nothing else.
Rows that stay keep the date and commit of the stored run, and their times are those of the stored table.
With ``--late`` rows of any method that passed the time limit are run again, too.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import shutil
import sys
from collections.abc import Collection
from pathlib import Path

import pandas as pd

from diffdag._base.journal import Journal
from diffdag.reproduce.experiments import experiment
from diffdag.reproduce.experiments.runner import MADE, TIME, Experiment
from diffdag.reproduce.methods import all_methods, find_method

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "benchmarks"))
from record import fill  # noqa: E402

RUNS = HERE / "reproduction"
PAGE = HERE / "reproduction.md"
KEPT = ("-summary.csv", "-half.csv", "-edges.csv", "-gains.csv", "-kinds.csv", "-times.csv", ".json", ".svg")


def take_over(folder: Path) -> None:
    """Copy the small files of a finished run, and its rows compressed; runs on given data go aside."""
    target = RUNS / "given" if _given(folder) else RUNS
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.iterdir()):
        if path.name.endswith("-times.csv") and (target / path.name).exists():
            whole_times(path, target / path.name).to_csv(target / path.name, index=False, float_format="%.6g")
        elif path.name.endswith(KEPT):
            shutil.copyfile(path, target / path.name)
            if path.name == "figure4-half.csv":  # `diffdag plan` quotes it
                shutil.copyfile(path, HERE.parent / "src" / "diffdag" / "reproduce" / "experiments" / path.name)
        elif path.suffix == ".csv":
            (target / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))


def whole_times(path: Path, stored: Path) -> pd.DataFrame:
    """Times of a run; where it took rows over, which have no times, those of the stored table."""
    times, before = pd.read_csv(path), pd.read_csv(stored)
    measured = ["median", "max"]
    by = [name for name in times if name not in measured]
    journal = path.with_name(path.name.replace("-times.csv", ".journal")).read_text(encoding="utf-8")
    rows = map(json.loads, journal.splitlines()[1:])
    taken = {tuple(row[name] for name in by) for row in rows if TIME not in row}
    place = [key in taken for key in times[by].itertuples(index=False, name=None)]
    times.loc[place, measured] = times[by].merge(before, on=by, how="left")[measured]
    return times


def begin(
    folder: Path, chosen: Experiment, again: Collection[str], runs: Path = RUNS, late: bool = False
) -> int:
    """Begin a run with the stored rows of all methods but those in `again`; how many rows were taken over.

    Rows of the stored run that the experiment no longer has are left out; with `late` also those that passed
    the time limit.
    """
    about = json.loads((runs / f"{chosen.name}.json").read_text(encoding="utf-8"))
    fixed = {name: value for name, value in chosen.full.items() if name not in chosen.axes}
    if any(about["settings"].get(name) != value for name, value in fixed.items()):
        raise SystemExit(f"the stored run of {chosen.name} has other settings, or other data")
    table = pd.read_csv(runs / f"{chosen.name}.csv.gz", keep_default_na=False, na_values=[""], low_memory=False)
    unknown = set(again) - set(table["method"])
    if unknown:
        raise SystemExit(f"the stored run of {chosen.name} has no rows of {', '.join(sorted(unknown))}")
    run_again = table["method"].isin(again)
    if late:
        run_again |= table["why"].str.startswith("longer than", na=False)
    kept = table[~run_again].astype(object)
    journal = Journal(folder / f"{chosen.name}.journal", {**fixed, "experiment": chosen.name}, chosen.key)
    cells = {journal.key_of(cell): cell for cell in chosen.cells(chosen.full)}
    with journal.open():
        for row in kept.where(kept.notna(), None).to_dict("records"):
            key = journal.key_of(row)
            if key in cells and key not in journal.rows:
                journal.append({**row, **cells[key], MADE: "; ".join(about["made"])})
    return len(journal.rows)


def _given(folder: Path) -> bool:
    about = folder / "brain.json"
    return about.exists() and json.loads(about.read_text(encoding="utf-8"))["settings"]["data"] is not None


def made(name: str) -> str:
    about = json.loads((RUNS / f"{name}.json").read_text(encoding="utf-8"))
    where = f"{about['cores']} cores, {about['machine']}, Python {about['python']}"
    seed = about["settings"].get("seed")
    runs = "; ".join(dict.fromkeys("; ".join(about["made"]).split("; ")))
    return f"({runs}; {f'seed {seed}; ' if seed else ''}{where})"


def brain(name: str) -> str:
    table = pd.read_csv(RUNS / Path(name).parent / "brain.csv.gz")
    times = pd.read_csv(RUNS / Path(name).parent / "brain-times.csv").set_index("method")["median"]
    known = table["f1"].notna().all()
    head = [
        "method",
        "regions",
        "of these in edges",
        "edges",
        "directed",
        *(["F1"] if known else []),
        "seconds",
    ]
    rows = [head]
    for row in table.to_dict("records"):
        counts = [f"{row[key]:.0f}" for key in ("p", "regions", "edges", "directed")]
        scores = [f"{row['f1']:.2f}"] if known else []
        rows.append([row["method"], *counts, *scores, f"{times[row['method']]:.0f}"])
    return f"{made(name)}\n\n{markdown(rows)}"


def markdown(rows: list[list[str]]) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(row: pd.Series, names: list[str]) -> str:
    if not row["answers"]:
        return ""
    text = " / ".join(f"{row[name]:.2f}" for name in names)
    return f"{text} ({row['answers']:.0f})" if row["missing"] else text


def wide(table: pd.DataFrame, index: str, column: str, names: list[str]) -> str:
    """One line for each value of `index`, one column for each of `column`."""
    columns = list(dict.fromkeys(table[column]))
    rows = [[index, *(f"{column} = {value:g}" for value in columns)]]
    for value in dict.fromkeys(table[index]):
        part = table[table[index] == value].set_index(column)
        rows.append([str(value), *(cell(part.loc[c], names) if c in part.index else "" for c in columns)])
    return markdown(rows)


def table1() -> str:
    table = pd.read_csv(RUNS / "table1-summary.csv")
    rows = [
        ["p", "N_a", "edges of the first DAG", "changed edges", "pairs", "exact here", "exact in the paper"]
    ]
    for row in table.itertuples():
        cells = [row.p, row.neighbours, row.edges_first, row.true_edges, row.answers]
        rows.append([*(f"{value:g}" for value in cells), f"{row.exact:.2f}", "1.0"])
    return f"{made('table1')}\n\n{markdown(rows)}"


def figure2(kind: str) -> str:
    table = pd.read_csv(RUNS / "figure2-summary.csv")
    directs = table["method"].map(lambda name: find_method(name).directs)
    part = table[(table["kind"] == kind) & directs]
    return f"{made('figure2')}\n\n{wide(part, 'method', 'C', ['f1', 'exact'])}"


def figure2_skeleton() -> str:
    table = pd.read_csv(RUNS / "figure2-summary.csv")
    return wide(table[table["kind"] == "unfiltered"], "method", "C", ["skeleton_f1"])


def figure2_times() -> str:
    table = pd.read_csv(RUNS / "figure2-times.csv")
    table = table[(table["kind"] == "unfiltered") & table["C"].isin([5, 9, 13])]
    rows = [["method", *(f"C = {c}: median, worst" for c in (5, 9, 13))]]
    for name in dict.fromkeys(table["method"]):
        part = table[table["method"] == name].set_index("C")
        times = [f"{part.loc[c, 'median']:.3f} s, {part.loc[c, 'max']:.2f} s" for c in (5, 9, 13)]
        rows.append([name, *times])
    return markdown(rows)


def figure3(variances: str, drawn: str) -> str:
    table = pd.read_csv(RUNS / "figure3-summary.csv")
    part = table[(table["variances"] == variances) & (table["drawn"] == drawn)]
    scores = ["f1", "exact", "skeleton_f1", "skeleton_exact"]
    return f"{made('figure3')}\n\n{wide(part, 'method', 'gamma', scores)}"


def figure4(kind: str) -> str:
    table = pd.read_csv(RUNS / "figure4-summary.csv")
    part = table[table["kind"] == kind].copy()
    part["method, p"] = [f"{method}, {p}" for method, p in zip(part["method"], part["p"], strict=True)]
    part = part.sort_values(["method", "p", "C"])
    return f"{made('figure4')}\n\n{wide(part, 'method, p', 'C', ['exact'])}"


def figure4_half() -> str:
    table = pd.read_csv(RUNS / "figure4-half.csv").sort_values(["kind", "method", "p"])
    rows = [["pairs", "method", "p = 5", "p = 10", "p = 15", "spread of C", "spread of log n"]]
    for (kind, method), part in table.groupby(["kind", "method"], sort=False):
        halves = [{-math.inf: "< 3", math.inf: "> 12"}.get(value, f"{value:.1f}") for value in part["C_half"]]
        spreads = [part["C_spread"].iloc[0], part["log_n_spread"].iloc[0]]
        rows.append([str(kind), str(method), *halves, *("" if pd.isna(x) else f"{x:.1f}" for x in spreads)])
    return markdown(rows)


def methods() -> str:
    rows = [["method", "what it is", "directs", "variables"]]
    for method in all_methods().values():
        most = f"up to {method.most}" if method.most else ""
        rows.append([f"`{method.name}`", method.about, "yes" if method.directs else "no", most])
    return markdown(rows)


BLOCKS = {
    "methods": methods,
    "table1": table1,
    "figure2 filtered": lambda: figure2("filtered"),
    "figure2 unfiltered": lambda: figure2("unfiltered"),
    "figure2 skeleton": figure2_skeleton,
    "figure2 times": figure2_times,
    "figure3 1-g,1,g shared": lambda: figure3("1-g,1,g", "shared"),
    "figure3 1-g,1,g per-condition": lambda: figure3("1-g,1,g", "per-condition"),
    "figure3 1-g,1,1+g shared": lambda: figure3("1-g,1,1+g", "shared"),
    "figure3 1-g,1,1+g per-condition": lambda: figure3("1-g,1,1+g", "per-condition"),
    "figure4 filtered": lambda: figure4("filtered"),
    "figure4 unfiltered": lambda: figure4("unfiltered"),
    "figure4 half": figure4_half,
    "brain": lambda: brain("brain"),
    "brain given": lambda: brain("given/brain"),
}


def filled(page: str) -> str:
    """The page with every block made anew."""
    return fill(page, lambda name: BLOCKS[name]())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--begin", nargs=2, metavar=("FOLDER", "NAME"))
    parser.add_argument("--again", default="")
    parser.add_argument("--late", action="store_true")
    parser.add_argument("--data", type=Path)
    given = parser.parse_args()
    if given.begin:
        place, name = given.begin
        runs = RUNS / "given" if name == "brain" and given.data else RUNS
        again = [method for method in given.again.split(",") if method]
        print(begin(Path(place), experiment(name, given.data), again, runs, given.late), "rows taken over")
        sys.exit()
    for folder in given.folders:
        take_over(folder)
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
