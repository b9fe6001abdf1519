"""The real-world experiment of the paper's appendix: what differs between two groups of brain measurements.

The paper compares resting-state fMRI with eyes open and closed over 157 regions, at epsilon = 0.1, and finds 12
regions in the difference DAG. Its data cannot be passed on. Here a user brings a folder with two groups and the
regions' coordinates, or an invented brain of the same size takes its place, of which the truth is known.

The paper gives neither the number of rows nor the penalty: the invented groups have 1,000 independent rows
each, and the penalty is the default of `diffdag.paper.defaults`. Rows of a folder are taken for time series.
"""

from __future__ import annotations

import json
import textwrap
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from diffdag._base.errors import InputError
from diffdag._base.journal import Row
from diffdag._base.parallel import one_blas_thread
from diffdag._base.words import join_names, plural
from diffdag.pipeline import ModelOptions, prepare, search
from diffdag.report.format import printable
from diffdag.reproduce.experiments.brain.data import Folder, Study, find_files, from_the_back, records
from diffdag.reproduce.experiments.brain.invented import invent_study
from diffdag.reproduce.experiments.brain.picture import draw_brain
from diffdag.reproduce.experiments.runner import Cell, Experiment, write_table
from diffdag.reproduce.experiments.trial import EPSILON, SCORES
from diffdag.reproduce.methods.attempt import TimeUp, within
from diffdag.reproduce.methods.ours import result_graph
from diffdag.reproduce.scoring import score
from diffdag.tables.align import align_tables
from diffdag.trust.fits import Fit

METHODS: dict[str, dict[str, Any]] = {"order": {}, "paper": {"method": "paper", "threshold": EPSILON}}
TITLES = {"order": "order search", "paper": f"Algorithm 1 of the paper, epsilon = {EPSILON}"}
EDGE = ("source", "target", "directed", "change", "weight_first", "weight_second", "delta", "stderr")
COUNTS = ("worth_first", "worth_second", "regions", "edges", "directed", "noise_changed", "penalty")
INVENTED = {"n": 1_000, "seed": 834_000}
QUICK_REGIONS = 30
LIMIT = 7_200.0
CAUTION = (
    "A group may pool the time points of several subjects: differences between subjects, their motion and the "
    "scanners are then mixed in with the difference of interest. The edges show what the methods do with such "
    "data; they are no finding about the brain."
)


def settings_for(data: Folder | None, quick: bool) -> dict[str, Any]:
    """Settings of one size; of a folder only names, contents and rows of its files, never its place."""
    size: dict[str, Any] = {"most": QUICK_REGIONS if quick else None, "limit": LIMIT, "methods": list(METHODS)}
    if data is None:
        return {"data": None, **size, **INVENTED}
    return {"data": data.fingerprint(), **size}


def load_study(folder: Path | None, settings: Mapping[str, Any]) -> Study:
    """The data of an experiment with these settings."""
    if folder is None:
        return invent_study(settings["n"], settings["seed"], settings["most"])
    study = Study.read(find_files(folder))
    return replace(study, regions=from_the_back(study.regions, settings["most"]))


def cells(settings: Mapping[str, Any]) -> list[Cell]:
    """One cell per method."""
    unknown = [name for name in settings["methods"] if name not in METHODS]
    if unknown:
        raise InputError(
            f"the brain experiment has no method {join_names(unknown)}; it has {join_names(METHODS)}"
        )
    data = "invented" if settings["data"] is None else "given"
    return [{"data": data, "method": name} for name in settings["methods"]]


def work(cell: Cell, settings: Mapping[str, Any], data: Path | None = None) -> Row:
    """One method on the two groups."""
    study = load_study(data, settings)
    rows = {"p": len(study.regions), "rows_first": len(study.first), "rows_second": len(study.second)}
    start = time.perf_counter()
    try:
        found = within(settings["limit"], lambda: describe(*fit(study, cell["method"]), study))
    except TimeUp:
        found = {**dict.fromkeys((*COUNTS, *SCORES)), "notes": "", "found": "[]"}
        found["why"] = f"longer than {settings['limit']:g} s"
    return {**rows, **found, "seconds": time.perf_counter() - start}


@one_blas_thread()
def fit(study: Study, method: str) -> tuple[Fit, tuple[str, ...]]:
    """Fit by one method, with notes on the rows: given ones are time series, invented ones are not."""
    worth: Any = "auto" if study.truth is None else None
    options = ModelOptions(**METHODS[method], effective_samples=worth, n_jobs=1)
    prepared = prepare(align_tables(study.first, study.second, columns=list(study.regions["region"])), options)
    return search(prepared, options), prepared.notes


def describe(fitted: Fit, notes: tuple[str, ...], study: Study) -> Row:
    """Counts, scores where the truth is known, notes, and the edges themselves as JSON."""
    result = fitted.difference
    edges = [{name: _short(getattr(edge, name)) for name in EDGE} for edge in result.edge_list]
    truth = None if study.truth is None else vars(score(study.truth.changed, result_graph(result)))
    scores = dict.fromkeys(SCORES) if truth is None else {name: float(truth[name]) for name in SCORES}
    return {
        "worth_first": fitted.first.n,
        "worth_second": fitted.second.n,
        "regions": len({name for edge in result.edge_list for name in (edge.source, edge.target)}),
        "edges": len(edges),
        "directed": sum(edge.directed for edge in result.edge_list),
        "noise_changed": len(result.noise_list) if fitted.method == "order" else None,
        "penalty": fitted.problem.unit if fitted.method == "order" else fitted.precision.penalty,
        **scores,
        "why": "",
        "notes": " | ".join((*notes, *result.notes)),
        "found": json.dumps(edges, allow_nan=False),
    }


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def finish(
    table: pd.DataFrame, folder: Path, settings: Mapping[str, Any], data: Path | None = None
) -> tuple[list[Path], str]:
    """The edges as a table, and one picture per method; coordinates are those of the regions in the data."""
    study = load_study(data, settings)
    edges = edges_of(table)
    files = [write_table(folder / "brain-edges.csv", edges)]
    for row in records(table):
        if not row["why"]:
            name, title = row["method"], f"{TITLES[row['method']]}: {_counted(row)}"
            own = edges[edges["method"] == name]
            files += draw_brain(study.regions, own, title, folder / f"brain-{name}", atlas=study.atlas)
    return files, summary(table, edges)


def edges_of(table: pd.DataFrame) -> pd.DataFrame:
    """All edges, one per row; `shared` where another method joins the two regions, in whatever direction."""
    rows = [{"method": row["method"], **edge} for row in records(table) for edge in json.loads(row["found"])]
    edges = pd.DataFrame(rows, columns=["method", *EDGE])
    pairs = [frozenset(pair) for pair in zip(edges["source"], edges["target"], strict=True)]
    edges["shared"] = edges.groupby(pairs)["method"].transform("nunique") > 1 if pairs else False
    return edges


def summary(table: pd.DataFrame, edges: pd.DataFrame) -> str:
    """What was found, for the screen."""
    lines = [line for row in records(table) for line in _method_lines(row)]
    found = edges[edges["shared"].astype(bool)]
    pairs = dict.fromkeys(tuple(sorted(pair)) for pair in zip(found["source"], found["target"], strict=True))
    lines.append(f"{plural(len(pairs), 'pair')} of regions joined by more than one method")
    lines += [f"  {one} - {other}" for one, other in pairs]
    if (table["data"] == "given").any():
        lines += ["", *textwrap.wrap(CAUTION, 100)]
    return "\n".join(map(printable, lines))


def _method_lines(row: Mapping[str, Any]) -> Iterator[str]:
    if row["why"]:
        yield f"{row['method']}: no result, {row['why']}"
        return
    yield f"{row['method']}: {_counted(row)}"
    yield (
        f"  rows {row['rows_first']} and {row['rows_second']}, worth {row['worth_first']:.0f} and "
        f"{row['worth_second']:.0f} independent ones; penalty {row['penalty']:.4g}"
    )
    if row["f1"] is not None:
        yield (
            f"  the truth has {row['true_edges']:.0f} edges: "
            f"F1 {row['f1']:.2f}, of the skeleton {row['skeleton_f1']:.2f}"
        )
    yield from (f"  note: {note}" for note in (row["notes"] or "").split(" | ") if note)


def _counted(row: Mapping[str, Any]) -> str:
    return (
        f"{row['regions']:.0f} of {row['p']:.0f} regions take part, "
        f"{plural(int(row['edges']), 'edge')}, {row['directed']:.0f} of them directed"
    )


def experiment_for(data: Path | None) -> Experiment:
    """The experiment on a folder of two groups and coordinates, or on invented ones.

    The folder is known to the functions only: no table, journal or figure names it.
    """
    files = None if data is None else find_files(data)
    if files is not None:
        Study.read(files)  # refuses what cannot be used
    return Experiment(
        name="brain",
        title="Brain regions",
        key=("data", "method"),
        cells=cells,
        work=partial(work, data=data),
        finish=partial(finish, data=data),
        full=settings_for(files, quick=False),
        quick=settings_for(files, quick=True),
        axes=("methods",),
    )


EXPERIMENT = experiment_for(None)
