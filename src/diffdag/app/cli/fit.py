"""The commands that estimate: fit, demo, report."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffdag._base.extras import extra
from diffdag.app.cli.app import app, check_folder, print_files, refuse, resumable, say, split_names, takes
from diffdag.app.cli.inputs import Inputs
from diffdag.app.cli.model import build, model_options, refuse_rows

if TYPE_CHECKING:
    from diffdag.estimator import DifferenceDAG
    from diffdag.result import ConditionsResult, DifferenceResult
    from diffdag.tables.readers.coordinates import Coordinates

Regions = Annotated[
    Path | None,
    typer.Option(help="Table of brain regions, name,x,y,z in mm: the report then has a view of the brain."),
]
Result = Annotated[
    Path, typer.Argument(metavar="RESULT", help="A result.json or conditions.json, or its folder.")
]


@app.command()
@takes(inputs=Inputs, model=model_options)
def fit(
    inputs: Inputs,
    reference: Annotated[
        str | None,
        typer.Option(help="With --group: compare this group with each of the others, one order for all."),
    ] = None,
    pairwise: Annotated[
        bool, typer.Option("--pairwise", help="With --group: compare each group with each, one order for all.")
    ] = False,
    groups: Annotated[
        str | None,
        typer.Option(help="With --reference or --pairwise: the groups to compare: a,b,c; all if left out."),
    ] = None,
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
        int | None, typer.Option(help="Permutations to test if anything changed at all; 999 with resamples.")
    ] = None,
    intervals: Annotated[
        str | None, typer.Option(help="split: find changes on half of the rows, measure them on the others.")
    ] = None,
    controls: Annotated[
        int | None,
        typer.Option(help="Fit so many random halves of one table, 100 say, to see what chance finds."),
    ] = None,
    stored_rows: Annotated[
        int | None, typer.Option(help="Rows of each table that the result may show; 150 if left out, 0: none.")
    ] = None,
    coordinates: Regions = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for result.json, report.html, edges.csv, nodes.csv, graph.graphml."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print result.json and nothing else.")] = False,
    *,
    model: dict[str, Any],
) -> None:
    """Estimate what changed between tables A and B. Settings left out are chosen from the data."""
    check_folder(out)
    _check_roles(inputs.group, model)
    if coordinates is not None and out is None:
        refuse("--coordinates is for the report's view of the brain; say where the report goes with --out")
    places = _coordinates(coordinates)
    rows = {"resamples": resamples, "fdr": fdr, "permutations": permutations, "intervals": intervals}
    rows |= {"controls": controls, "stored_rows": stored_rows}
    kept = out if resamples or fdr else None
    if reference is not None or pairwise or groups is not None:
        two = {"first": inputs.first_group, "second": inputs.second_group, "intervals": intervals}
        _check_groups(inputs, reference, pairwise, **two, labels=labels, coordinates=coordinates)
        with resumable(kept):
            found = _fit_groups(inputs, reference, groups, build(model, **rows), out)
        _deliver(found, out, as_json=json)
        return
    only_rows = partial(refuse_rows, model, **rows)
    one, other, called = inputs.read_pair(model["missing"], model["adjust"], only_rows)
    columns = getattr(one, "column_names", None) or one.names
    if places is not None and not set(places).intersection(columns):
        refuse("--coordinates names none of the columns; its regions must have the names of the columns")
    called = _named(labels) or called
    from diffdag.tables.moments import Moments  # noqa: PLC0415 - after what fails at once

    estimator = build(model, **rows)
    if isinstance(one, Moments):
        estimator.set_params(missing="error")  # rows with gaps were left out as the moments were made
        estimator.fit_moments(one, other, labels=called, progress=True)
    else:
        with resumable(kept):
            estimator.fit(one, other, **inputs.choice, labels=called, journal=out, progress=True)
    result = estimator.result_
    if inputs.alphabetical:
        result = replace(result, notes=(*result.notes, _by_alphabet(*called)))
    _deliver(result, out, as_json=json, coordinates=places)


def _check_roles(group: str | None, model: dict[str, Any]) -> None:
    """Refuse the column that names the conditions in another role."""
    for name in ("adjust", "cluster"):
        given = model[name]
        if group is not None and group in (given if isinstance(given, list) else [given]):
            refuse(f"--{name} names '{group}', by which --group splits the rows; leave it out there")


def _by_alphabet(first: str, second: str) -> str:
    """Say which group came first, and why."""
    return (
        f"groups are in alphabetical order, so that changes are from {first} to {second}; --first and --second "
        "choose"
    )


def _check_groups(inputs: Inputs, reference: str | None, pairwise: bool, **others: object) -> None:
    """Refuse options that do not go together; `others` are those that are about two groups only, by name."""
    if inputs.group is None or inputs.second is not None:
        refuse("--reference, --pairwise and --groups compare groups of one table; give one table and --group")
    if reference is not None and pairwise:
        refuse("--reference compares one group with all others, --pairwise each with each; give one of the two")
    if reference is None and not pairwise:
        refuse(
            "--groups needs to know what to compare; give --reference or --pairwise, or --first and --second"
        )
    for name, value in others.items():
        if value is not None:
            refuse(
                f"--{name} is for two groups; leave it out, or leave out --reference, --pairwise and --groups"
            )


def _fit_groups(
    inputs: Inputs, reference: str | None, groups: str | None, model: DifferenceDAG, out: Path | None
) -> ConditionsResult:
    """Compare the groups of one table, each with the reference or, without one, each with each."""
    from diffdag.tables.groups import count_groups, find_group, split_groups  # noqa: PLC0415

    table, chosen = inputs.read_table(), split_names(groups)
    known = count_groups(table, str(inputs.group))
    reference = None if reference is None else find_group(reference, known)
    if chosen is not None:
        first = [] if reference is None else [reference]
        chosen = list(dict.fromkeys([*first, *(find_group(name, known) for name in chosen)]))
    tables = split_groups(table, str(inputs.group), chosen)
    from diffdag.conditions import fit_conditions  # noqa: PLC0415 - after what fails at once

    return fit_conditions(tables, reference=reference, model=model, journal=out, progress=True, **inputs.choice)


@app.command()
def demo(
    condition: Annotated[
        str, typer.Option(help="icam2, akt-inhibitor, g0076, psitectorigenin, u0126, ly294002, pma or b2camp.")
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
    estimator, labels = build({"n_jobs": -1}, resamples=resamples or None), ("baseline", condition.lower())
    estimator.fit(baseline, other, labels=labels, progress=True)
    print(f"Sachs et al. 2005: baseline (CD3/CD28) and {SACHS_CONDITIONS[condition.lower()]}, log10 values")
    print("Most pairs found in these data stand in the consensus network, but only about half of the arrows")
    print("agree with it: take pairs for findings, and arrows for questions.\n")
    _deliver(estimator.result_, out)


@app.command()
def report(result: Result, coordinates: Regions = None) -> None:
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
    result: DifferenceResult | ConditionsResult, out: Path | None, *, as_json: bool = False, **saved: Any
) -> None:
    """Write the files first: if that fails, nothing was said that suggests otherwise."""
    files = [] if out is None else result.save(out, **saved)
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

    places = read_coordinates(path)
    with extra("matplotlib, which draws --coordinates,", "plots"):  # a fit may take minutes
        import matplotlib  # noqa: F401, PLC0415
    return places
