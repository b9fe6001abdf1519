"""The command that fits resamples."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffdag.app.cli.app import (
    EDGES_SHOWN,
    Columns,
    CovarianceKind,
    Dask,
    Drop,
    FirstGroup,
    FirstTable,
    Genes,
    Group,
    Json,
    KnownOrder,
    Layer,
    MissingRows,
    Noise,
    SecondGroup,
    SecondTable,
    app,
    check_folder,
    check_workers,
    print_files,
    read_pair,
    refuse,
    resumable,
    split_names,
)
from diffdag.app.cli.fit import Method

if TYPE_CHECKING:
    from diffdag.trust.resampling import Resamples


@app.command()
def resample(
    first: FirstTable,
    second: SecondTable = None,
    group: Group = None,
    first_group: FirstGroup = None,
    second_group: SecondGroup = None,
    layer: Layer = None,
    genes: Genes = None,
    fits: Annotated[int, typer.Option(min=1, help="Number of resamples.")] = 200,
    kind: Annotated[
        str, typer.Option(help="bootstrap (with replacement), or half of the rows (in complementary pairs).")
    ] = "bootstrap",
    method: Method = None,
    noise: Noise = None,
    order: KnownOrder = None,
    covariance: CovarianceKind = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same resamples.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="Processes; one a core if left out.")] = None,
    dask: Dask = None,
    columns: Columns = None,
    drop: Drop = None,
    missing: MissingRows = "error",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for resamples.csv and resamples.json; an interrupted run continues there."),
    ] = None,
    json: Json = False,
) -> None:
    """Fit many resamples of both tables: how often is each change found, and in which direction?"""
    check_folder(out)
    check_workers(jobs, dask)
    _check_tables(first, second)
    one, two, _ = read_pair(first, second, group, first_group, second_group, layer, genes)
    from diffdag._base.parallel import find_client  # noqa: PLC0415
    from diffdag.estimator import DifferenceDAG  # noqa: PLC0415
    from diffdag.trust.resampling import resample_fits  # noqa: PLC0415

    options = {"method": method, "noise": noise, "order": split_names(order), "covariance": covariance}
    settings: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    with resumable(out is not None), find_client(dask) as client:
        answer = resample_fits(
            one,
            two,
            model=DifferenceDAG(**settings),
            fits=fits,
            kind=kind,  # type: ignore[arg-type]  # checked there
            rng=seed,
            n_jobs=jobs,
            client=client,
            journal=None if out is None else out / "resamples.journal",
            progress=True,
            columns=split_names(columns),
            drop=split_names(drop),
            missing=missing,  # type: ignore[arg-type]
        )
    files = [] if out is None else _write(answer, out)
    print(answer.to_json() if json else resamples_text(answer), end="")
    if files and not json:
        print()
        print_files(files)


def _check_tables(*paths: Path | None) -> None:
    from diffdag.tables.moments import holds_moments  # noqa: PLC0415

    for path in paths:
        if path is not None and holds_moments(path):
            refuse(f"'{path}' holds moments, which cannot be resampled; give the tables")


def _write(answer: Resamples, out: Path) -> list[Path]:
    from diffdag._base.atomic import write_together  # noqa: PLC0415

    texts = {
        "resamples.csv": answer.edges.to_csv(index=False, lineterminator="\n"),
        "resamples.json": answer.to_json(),
    }
    return write_together(out, texts)


def resamples_text(answer: Resamples) -> str:
    """The shares for the terminal."""
    from diffdag.report.format import printable  # noqa: PLC0415

    edges = answer.edges
    for end in ("source", "target"):
        edges[end] = edges[end].map(printable)
    shown = edges.head(EDGES_SHOWN).to_string(index=False, float_format="{:.2f}".format)
    how = "drawn with replacement" if answer.kind == "bootstrap" else "halves in complementary pairs"
    parts = [
        f"{len(answer.names)} variables, {len(answer.found)} fits to {answer.rows[0]:,} and "
        f"{answer.rows[1]:,} rows, {how}",
        "Share of fits that found a change: in all, from source to target, reversed, undirected\n"
        + (shown if len(edges) else "none"),
    ]
    if len(edges) > EDGES_SHOWN:
        parts[-1] += f"\n... and {len(edges) - EDGES_SHOWN} more; --out writes all of them"
    if answer.failed:
        why = printable(next(iter(answer.failed.values())))
        parts.append(f"{len(answer.failed)} fits gave no answer and do not count; the first: {why}")
    return "\n\n".join(parts) + "\n"
