"""The commands that estimate: fit, demo, report."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffdag.app.cli.app import (
    Columns,
    Drop,
    FirstGroup,
    Genes,
    Group,
    Layer,
    SecondGroup,
    SecondTable,
    app,
    check_folder,
    print_files,
    refuse,
    resumable,
    say,
    split_names,
)
from diffdag.app.cli.conditions import Groups, Pairwise, Reference, check_groups, fit_groups
from diffdag.app.cli.inputs import read_pair
from diffdag.app.cli.model import ROWS_ONLY, build, refuse_rows, takes_model

if TYPE_CHECKING:
    from diffdag.result import ConditionsResult, DifferenceResult
    from diffdag.tables.readers.coordinates import Coordinates

WORKING = "Estimating the difference (the very first time, compiling takes half a minute)"
Regions = Annotated[
    Path | None,
    typer.Option(help="Table of brain regions, name,x,y,z in mm: the report then has a view of the brain."),
]


@app.command()
@takes_model
def fit(
    first: Annotated[
        Path,
        typer.Argument(
            metavar="A", help="First table: CSV, TSV, Parquet, Feather, NPY, NPZ, H5AD; or moments."
        ),
    ],
    model: dict[str, Any],
    second: SecondTable = None,
    group: Group = None,
    first_group: FirstGroup = None,
    second_group: SecondGroup = None,
    reference: Reference = None,
    pairwise: Pairwise = False,
    groups: Groups = None,
    layer: Layer = None,
    genes: Genes = None,
    columns: Columns = None,
    drop: Drop = None,
    labels: Annotated[
        str | None, typer.Option(help="What to call the two conditions: control,treated.")
    ] = None,
    resamples: Annotated[
        int | None, typer.Option(help="Fit so many resamples, 200 say, to tell how sure each change is.")
    ] = None,
    fdr: Annotated[
        float | None, typer.Option(help="Largest expected share of false edges in the list: 0.05, say.")
    ] = None,
    permutations: Annotated[
        int | None, typer.Option(help="Permutations to test whether anything changed at all: 999, say.")
    ] = None,
    intervals: Annotated[
        str | None, typer.Option(help="split: find changes on half of the rows, measure them on the others.")
    ] = None,
    stored_rows: Annotated[
        int | None, typer.Option(help="Rows of each table that the result may show; 150 if left out, 0: none.")
    ] = None,
    coordinates: Regions = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for result.json, edges.csv, graph.graphml and report.html."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print result.json and nothing else.")] = False,
) -> None:
    """Estimate what changed between tables A and B. Settings left out are chosen from the data."""
    check_folder(out)
    if coordinates is not None and out is None:
        refuse("--coordinates is for the report's view of the brain; say where the report goes with --out")
    places = _coordinates(coordinates)
    choice: dict[str, Any] = {"columns": split_names(columns), "drop": split_names(drop)}
    rows = {"resamples": resamples, "fdr": fdr, "permutations": permutations, "intervals": intervals}
    rows["stored_rows"] = stored_rows
    kept = out is not None and bool(resamples or fdr)
    if reference is not None or pairwise or groups is not None:
        two = {"first": first_group, "second": second_group, "intervals": intervals, "labels": labels}
        check_groups(second, group, reference, pairwise, **two, coordinates=coordinates)
        estimator, chosen = build(model, **rows), split_names(groups)
        with resumable(kept):
            result = fit_groups(first, str(group), reference, chosen, estimator, choice, out, layer, genes)
        _deliver(result, out, as_json=json)
        return
    one, two_, called = read_pair(
        first, second, group, first_group, second_group, layer, genes, **choice, missing=model["missing"]
    )
    _check_places(places, getattr(one, "column_names", None) or one.names)
    called = _named(labels) or called
    from diffdag._base.progress import show_bars  # noqa: PLC0415 - after what fails at once
    from diffdag.tables.moments import Moments  # noqa: PLC0415

    if isinstance(one, Moments):
        refuse_rows({**rows, **{name: model[name] for name in ROWS_ONLY}})
    estimator = build(model, **rows)
    with resumable(kept), show_bars(WORKING) as told:
        if isinstance(one, Moments):
            estimator.fit_moments(one, two_, labels=called, progress=told)
        else:
            estimator.fit(one, two_, **choice, labels=called, journal=out, progress=told)
    _deliver(estimator.result_, out, as_json=json, coordinates=places)


@app.command()
def demo(
    condition: Annotated[
        str,
        typer.Option(help="icam2, akt-inhibitor, g0076, psitectorigenin, u0126, ly294002, pma or b2camp."),
    ] = "u0126",
    resamples: Annotated[
        int, typer.Option(help="Resamples that tell how sure each change is; 0 for none.")
    ] = 60,
    out: Annotated[Path, typer.Option(help="Folder for the result.")] = Path("diffdag-demo"),
) -> None:
    """Compare two conditions of the embedded Sachs data: 11 proteins in single cells."""
    from diffdag.model.datasets import SACHS_CONDITIONS, load_sachs_pair  # noqa: PLC0415

    check_folder(out)
    baseline, other = load_sachs_pair(condition)
    from diffdag._base.progress import show_bars  # noqa: PLC0415 - after what fails at once

    estimator, labels = build({"n_jobs": -1}, resamples=resamples or None), ("baseline", condition.lower())
    with show_bars(WORKING) as told:
        result = estimator.fit(baseline, other, labels=labels, progress=told).result_
    print(f"Sachs et al. 2005: baseline (CD3/CD28) and {SACHS_CONDITIONS[condition.lower()]}, log10 values\n")
    _deliver(result, out)


@app.command()
def report(
    result: Annotated[
        Path, typer.Argument(metavar="RESULT", help="A result.json or conditions.json, or its folder.")
    ],
    coordinates: Regions = None,
) -> None:
    """Write report.html next to a saved result."""
    from diffdag._base.atomic import write_atomic  # noqa: PLC0415
    from diffdag.report.html import conditions  # noqa: PLC0415
    from diffdag.report.html import page as pages  # noqa: PLC0415
    from diffdag.result import ConditionsResult, load  # noqa: PLC0415

    saved = load(result)
    if isinstance(saved, ConditionsResult):
        if coordinates is not None:
            refuse(
                "--coordinates is for a comparison of two conditions, and the file holds several; leave it out"
            )
        page = conditions.render_page(saved)
    else:
        page = pages.render_page(saved, coordinates=_coordinates(coordinates))
    folder = result if result.is_dir() else result.parent
    print_files([write_atomic(folder / "report.html", page)])


def _deliver(
    result: DifferenceResult | ConditionsResult,
    out: Path | None,
    *,
    as_json: bool = False,
    coordinates: Coordinates | None = None,
) -> None:
    """Write the files first: if that fails, nothing was said that suggests otherwise."""
    from diffdag.result import DifferenceResult  # noqa: PLC0415

    files: list[Path] = []
    if out is not None:
        two = isinstance(result, DifferenceResult)
        files = result.save(out, **({"coordinates": coordinates} if two else {}))
    if as_json:
        sys.stdout.write(result.to_json())
        for note in result.notes:
            say(f"note: {note}")
        return
    print(result.summary())
    if files:
        print()
        print_files(files)


def _named(labels: str | None) -> tuple[str, str] | None:
    """Two names for the conditions."""
    names = split_names(labels)
    if names is not None and len(names) != 2:
        refuse(f"--labels '{labels}' is not two names such as control,treated")
    return None if names is None else (names[0], names[1])


def _coordinates(path: Path | None) -> Coordinates | None:
    if path is None:
        return None
    from diffdag.tables.readers.coordinates import read_coordinates  # noqa: PLC0415

    return read_coordinates(path)


def _check_places(places: Coordinates | None, columns: Iterable[str]) -> None:
    """Refuse places of other regions before the work is done."""
    if places is not None and not set(places).intersection(columns):
        refuse("--coordinates names none of the columns; its regions must have the names of the columns")
