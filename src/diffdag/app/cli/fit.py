"""The commands that estimate: fit, demo, report."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffdag.app.cli.app import (
    Columns,
    CovarianceKind,
    Drop,
    FirstGroup,
    Genes,
    Group,
    KnownOrder,
    Layer,
    MissingRows,
    Noise,
    SecondGroup,
    SecondTable,
    app,
    check_folder,
    print_files,
    read_pair,
    refuse,
    resumable,
    say,
    split_names,
    split_numbers,
)
from diffdag.app.cli.conditions import Groups, Pairwise, Reference, check_groups, fit_groups

if TYPE_CHECKING:
    from diffdag.result import DifferenceResult
    from diffdag.tables.readers.coordinates import Coordinates

WORKING = "Estimating the difference (the very first time, compiling takes half a minute)"
Method = Annotated[
    str | None, typer.Option(help="order: search over causal orders (default); paper: Algorithm 1.")
]
Estimator = Annotated[
    str | None,
    typer.Option(help="With --method paper: dantzig (the paper's LP), dtrace, kliep or plugin."),
]
Penalty = Annotated[
    str | None,
    typer.Option(
        help="What a change has to pay, as a multiple of the default. With --method paper: fraction of the "
        "penalty that gives no change; or rate:C, C sqrt(log p / n)."
    ),
]
Regions = Annotated[
    Path | None,
    typer.Option(help="Table of brain regions, name,x,y,z in mm: the report then has a view of the brain."),
]
OutFolder = Annotated[
    Path | None,
    typer.Option(help="Folder for result.json, edges.csv, graph.graphml and report.html."),
]


@app.command()
def fit(
    first: Annotated[
        Path,
        typer.Argument(
            metavar="A", help="First table: CSV, TSV, Parquet, Feather, NPY, NPZ, H5AD; or moments."
        ),
    ],
    second: SecondTable = None,
    group: Group = None,
    first_group: FirstGroup = None,
    second_group: SecondGroup = None,
    layer: Layer = None,
    genes: Genes = None,
    reference: Reference = None,
    pairwise: Pairwise = False,
    groups: Groups = None,
    method: Method = None,
    estimator: Estimator = None,
    penalty: Penalty = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="With --method paper: its epsilon; smaller entries count as zero."),
    ] = None,
    noise: Noise = None,
    order: KnownOrder = None,
    tiers: Annotated[
        Path | None, typer.Option(help="File with one tier a line, causes first: names separated by commas.")
    ] = None,
    required: Annotated[
        list[str] | None, typer.Option(help="Direction an effect must have: 'a->b'. May be repeated.")
    ] = None,
    forbidden: Annotated[
        list[str] | None, typer.Option(help="Direction it cannot have: 'a->b'. May be repeated.")
    ] = None,
    covariance: CovarianceKind = None,
    effective_samples: Annotated[
        str | None, typer.Option(help="Independent rows each table is worth: N, N1,N2, or auto (time series).")
    ] = None,
    screen: Annotated[
        int | None, typer.Option(help="Order at most so many variables, those that most seem to take part.")
    ] = None,
    confidence: Annotated[
        int | None, typer.Option(help="Fit so many resamples, 200 say, to tell how sure each change is.")
    ] = None,
    fdr: Annotated[
        float | None, typer.Option(help="Largest expected share of false edges in the list: 0.05, say.")
    ] = None,
    cutoff: Annotated[
        float | None,
        typer.Option(help="Share of halves in which a pair is found if it is stable; 0.75 if left out."),
    ] = None,
    test: Annotated[
        int | None, typer.Option(help="Permutations to test whether anything changed at all: 999, say.")
    ] = None,
    intervals: Annotated[
        str | None, typer.Option(help="split: find changes on half of the rows, measure them on the others.")
    ] = None,
    points: Annotated[
        int | None, typer.Option(help="Rows of each table that the answer may show; 150 if left out, 0: none.")
    ] = None,
    coordinates: Regions = None,
    jobs: Annotated[int | None, typer.Option(help="Threads of the search; one a core if left out.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the search.")] = None,
    columns: Columns = None,
    drop: Drop = None,
    missing: MissingRows = "error",
    out: OutFolder = None,
    json: Annotated[bool, typer.Option("--json", help="Print result.json and nothing else.")] = False,
) -> None:
    """Estimate what changed between tables A and B. Settings left out are chosen from the data."""
    check_folder(out)
    if coordinates is not None and out is None:
        refuse("--coordinates is for the report's view of the brain; say where the report goes with --out")
    places = _coordinates(coordinates)
    choice: dict[str, Any] = {"columns": split_names(columns), "drop": split_names(drop), "missing": missing}
    several = reference is not None or pairwise or groups is not None
    if several:
        about_two: dict[str, object] = {"first": first_group, "second": second_group, "cutoff": cutoff}
        about_two |= {"test": test, "coordinates": coordinates}
        check_groups(second, group, reference, pairwise, intervals=intervals, **about_two)
    else:
        one, two, labels = read_pair(first, second, group, first_group, second_group, layer, genes, **choice)
        _check_places(places, getattr(one, "column_names", None) or one.names)
    from diffdag._base.progress import show_bars  # noqa: PLC0415
    from diffdag.estimator import DifferenceDAG  # noqa: PLC0415 - after what fails at once
    from diffdag.tables.moments import Moments  # noqa: PLC0415

    settings: dict[str, Any] = {
        "method": method,
        "estimator": estimator,
        "penalty": _number_or_text(penalty),
        "threshold": threshold,
        "noise": noise,
        "order": split_names(order),
        "tiers": None if tiers is None else _tiers(tiers),
        "required": required or None,
        "forbidden": forbidden or None,
        "covariance": covariance,
        "effective_samples": _rows(effective_samples),
        "screen": screen,
        "n_jobs": jobs,
        "rng": seed,
    }
    model = DifferenceDAG(**{name: value for name, value in settings.items() if value is not None})
    if several:
        model.set_params(confidence=confidence, fdr=fdr)
        fit_groups(
            first, str(group), reference=reference, groups=split_names(groups), model=model, choice=choice,
            points=points, out=out, as_json=json, layer=layer, genes=genes,
        )  # fmt: skip
        return
    wishes: dict[str, Any] = {
        "confidence": confidence,
        "fdr": fdr,
        "cutoff": cutoff,
        "test": test,
        "intervals": intervals,
        "points": points,
    }
    if isinstance(one, Moments):
        _refuse_rows(covariance=covariance, effective_samples=effective_samples, **wishes)
    with resumable(out is not None and bool(confidence or fdr)), show_bars(WORKING) as told:
        if isinstance(one, Moments):
            model.fit_moments(one, two, progress=told)
        else:
            model.fit(one, two, **choice, **wishes, journal=out, progress=told)
    _deliver(replace(model.result_, labels=labels), out, as_json=json, coordinates=places)


@app.command()
def demo(
    condition: Annotated[
        str,
        typer.Option(help="icam2, akt-inhibitor, g0076, psitectorigenin, u0126, ly294002, pma or b2camp."),
    ] = "u0126",
    confidence: Annotated[
        int, typer.Option(help="Resamples that tell how sure each change is; 0 for none.")
    ] = 60,
    out: Annotated[Path, typer.Option(help="Folder for the answer.")] = Path("diffdag-demo"),
) -> None:
    """Compare two conditions of the embedded Sachs data: 11 proteins in single cells."""
    from diffdag.model.datasets import SACHS_CONDITIONS, load_sachs_pair  # noqa: PLC0415

    check_folder(out)
    baseline, other = load_sachs_pair(condition)
    from diffdag._base.progress import show_bars  # noqa: PLC0415
    from diffdag.estimator import DifferenceDAG  # noqa: PLC0415

    with show_bars(WORKING) as told:
        result = DifferenceDAG().fit(baseline, other, confidence=confidence or None, progress=told).result_
    print(f"Sachs et al. 2005: baseline (CD3/CD28) and {SACHS_CONDITIONS[condition.lower()]}, log10 values\n")
    _deliver(replace(result, labels=("baseline", condition.lower())), out)


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
    result: DifferenceResult,
    out: Path | None,
    *,
    as_json: bool = False,
    coordinates: Coordinates | None = None,
) -> None:
    """Write the files first: if that fails, nothing was said that suggests otherwise."""
    files = [] if out is None else result.save(out, coordinates=coordinates)
    if as_json:
        sys.stdout.write(result.to_json())
        for note in result.notes:
            say(f"note: {note}")
        return
    print(result.summary())
    if files:
        print()
        print_files(files)


def _coordinates(path: Path | None) -> Coordinates | None:
    if path is None:
        return None
    from diffdag.tables.readers.coordinates import read_coordinates  # noqa: PLC0415

    return read_coordinates(path)


def _check_places(places: Coordinates | None, columns: Iterable[str]) -> None:
    """Refuse places of other regions before the work is done."""
    if places is not None and not set(places).intersection(columns):
        refuse("--coordinates names none of the columns; its regions must have the names of the columns")


def _refuse_rows(**given: object) -> None:
    """Refuse options that would need the rows."""
    for name, value in given.items():
        if value is not None:
            option = "--" + name.replace("_", "-")
            refuse(f"{option} acts on rows, and only moments are known; give two tables, or leave it out")


def _tiers(path: Path) -> list[list[str]]:
    from diffdag.model.prior_knowledge import read_tiers  # noqa: PLC0415

    return read_tiers(path)


def _rows(text: str | None) -> float | tuple[float, ...] | str | None:
    """N, N1,N2 or a word; the estimator judges the rest."""
    if text is None or "," not in text:
        value = _number_or_text(text)
        return (
            value
            if not isinstance(value, str) or value == "auto"
            else split_numbers("--effective-samples", value)[0]
        )
    return tuple(split_numbers("--effective-samples", text))


def _number_or_text(text: str | None) -> float | str | None:
    """Give numbers as numbers; the estimator judges the rest."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text
