"""The command that chooses settings from the data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffdag.app.cli.app import (
    EDGES_SHOWN,
    Columns,
    Drop,
    FirstGroup,
    FirstTable,
    Genes,
    Group,
    Json,
    Layer,
    MissingRows,
    Noise,
    SecondGroup,
    SecondTable,
    app,
    check_folder,
    print_files,
    read_pair,
    resumable,
    split_names,
    split_numbers,
)
from diffdag.app.cli.fit import Method

if TYPE_CHECKING:
    from diffdag.trust.sensitivity import SettingsPath


@app.command()
def path(
    first: FirstTable,
    second: SecondTable = None,
    group: Group = None,
    first_group: FirstGroup = None,
    second_group: SecondGroup = None,
    layer: Layer = None,
    genes: Genes = None,
    by: Annotated[
        str, typer.Option(help="ebic (extended BIC), or stability of fits to halves of the rows (slower).")
    ] = "ebic",
    method: Method = None,
    penalties: Annotated[str | None, typer.Option(help="Multiples of the default to try: 0.5,1,2.")] = None,
    thresholds: Annotated[
        str | None, typer.Option(help="With --method paper: multiples of the default threshold.")
    ] = None,
    sizes: Annotated[
        str | None, typer.Option(help="Multiples of the number of variables that are ordered: 0.25,0.5,1.")
    ] = None,
    fits: Annotated[int, typer.Option(min=2, help="Halves a setting, with --by stability.")] = 50,
    noise: Noise = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same answer.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="Fits at a time; one a core if left out.")] = None,
    columns: Columns = None,
    drop: Drop = None,
    missing: MissingRows = "error",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for path.csv, path.json and pictures; an interrupted run continues there."),
    ] = None,
    json: Json = False,
) -> None:
    """Fit along a path of settings: which one suits the data, and what depends on it?"""
    check_folder(out)
    choice: dict[str, Any] = {"columns": split_names(columns), "drop": split_names(drop), "missing": missing}
    one, two, _ = read_pair(first, second, group, first_group, second_group, layer, genes, **choice)
    from diffdag.estimator import DifferenceDAG  # noqa: PLC0415
    from diffdag.tables.moments import Moments  # noqa: PLC0415
    from diffdag.trust.settings_path import settings_path  # noqa: PLC0415

    lists = {"penalties": penalties, "thresholds": thresholds, "sizes": sizes}
    tried: dict[str, Any] = {
        name: None if text is None else split_numbers(f"--{name}", text) for name, text in lists.items()
    }
    model: dict[str, Any] = {"method": method or "order", "noise": noise or "auto"}
    with resumable(out is not None and by == "stability"):
        answer = settings_path(
            one,
            two,
            model=DifferenceDAG(**model),
            by=by,  # type: ignore[arg-type]  # checked there
            **tried,
            fits=fits,
            rng=seed,
            n_jobs=jobs,
            journal=out / "path.journals" if out is not None and by == "stability" else None,
            progress=True,
            **({} if isinstance(one, Moments) else choice),
        )
    files = [] if out is None else answer.save(out)
    print(answer.to_json() if json else path_text(answer), end="")
    if files and not json:
        print()
        print_files(files)


def path_text(answer: SettingsPath) -> str:
    """The path for the terminal."""
    from diffdag.report.format import printable  # noqa: PLC0415

    table, edges = answer.table, answer.edges
    table["chosen"] = ["<- chosen" if chosen else "" for chosen in table["chosen"]]
    for end in ("source", "target"):
        edges[end] = edges[end].map(printable)
    for mark in ("in_default", "in_chosen"):
        edges[mark] = edges[mark].map({True: "yes", False: ""})
    way = "extended BIC" if answer.by == "ebic" else "stability"
    shown = edges.head(EDGES_SHOWN).to_string(index=False, float_format="{:.2f}".format)
    parts = [
        f"Settings, as multiples of the default, and the one chosen by {way}\n"
        + table.rename(columns={"chosen": ""}).to_string(index=False, float_format="{:.4g}".format),
        f"Edges along the {answer.axis}: the least and the largest multiple with the edge, share of the path,\n"
        f"share with this direction\n{shown if len(edges) else 'none'}",
        printable(answer.summary()),
    ]
    if len(edges) > EDGES_SHOWN:
        parts[1] += f"\n... and {len(edges) - EDGES_SHOWN} more; --out writes all of them"
    return "\n\n".join(parts) + "\n"
