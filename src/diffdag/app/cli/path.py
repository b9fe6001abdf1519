"""The command that chooses settings from the data."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffdag.app.cli import app as cli
from diffdag.app.cli.inputs import Inputs
from diffdag.app.cli.model import build, model_options, refuse_rows

if TYPE_CHECKING:
    from diffdag.trust.sensitivity import SettingsPath


@cli.app.command()
@cli.takes(inputs=Inputs, model=model_options)
def path(
    inputs: Inputs,
    by: Annotated[
        str, typer.Option(help="ebic (extended BIC), or stability of fits to halves of the rows (slower).")
    ] = "ebic",
    penalties: Annotated[str | None, typer.Option(help="Multiples of the default to try: 0.5,1,2.")] = None,
    thresholds: Annotated[
        str | None, typer.Option(help="With --method paper: multiples of the default threshold.")
    ] = None,
    fits: Annotated[int, typer.Option(min=2, help="Halves per setting, with --by stability.")] = 50,
    dask: cli.Dask = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for path.csv, path.json and pictures; an interrupted run continues there."),
    ] = None,
    json: cli.Json = False,
    *,
    model: dict[str, Any],
) -> None:
    """Fit along a path of settings: which one suits the data, and what depends on it?"""
    cli.check_folder(out)
    one, two, _ = inputs.read_pair(model["missing"], model["adjust"], partial(refuse_rows, model))
    from diffdag._base.parallel import use_cluster  # noqa: PLC0415 - after what fails at once
    from diffdag.refits import settings_path  # noqa: PLC0415
    from diffdag.tables.moments import Moments  # noqa: PLC0415

    lists = {"penalties": penalties, "thresholds": thresholds}
    tried: dict[str, Any] = {
        name: None if text is None else cli.split_numbers(f"--{name}", text) for name, text in lists.items()
    }
    kept = out / "path.journals" if out is not None and by == "stability" else None
    with cli.resumable(kept), use_cluster(dask):
        found = settings_path(
            one,
            two,
            model=build(model | {"missing": None} if isinstance(one, Moments) else model),
            by=by,  # type: ignore[arg-type]  # checked there
            **tried,
            fits=fits,
            journal=kept,
            progress=True,
            **({} if isinstance(one, Moments) else inputs.choice),
        )
    files = [] if out is None else found.save(out)
    print(found.to_json() if json else path_text(found), end="")
    if files and not json:
        print()
        cli.print_files(files)


def path_text(path: SettingsPath) -> str:
    """The path for the terminal."""
    from diffdag.report.format import printable  # noqa: PLC0415

    table, edges = path.table, path.edges
    table["chosen"] = ["<- chosen" if chosen else "" for chosen in table["chosen"]]
    for end in ("source", "target"):
        edges[end] = edges[end].map(printable)
    for mark in ("in_default", "in_chosen"):
        edges[mark] = edges[mark].map({True: "yes", False: ""})
    way = "extended BIC" if path.by == "ebic" else "stability"
    shown = edges.head(cli.EDGES_SHOWN).to_string(index=False, float_format="{:.2f}".format)
    parts = [
        f"Settings, as multiples of the default, and the one chosen by {way}\n"
        + table.rename(columns={"chosen": ""}).to_string(index=False, float_format="{:.4g}".format),
        f"Edges along the {path.axis}: the least and the largest multiple with the edge, share of the path,\n"
        f"share with this direction\n{shown if len(edges) else 'none'}",
        printable(path.summary()),
    ]
    if len(edges) > cli.EDGES_SHOWN:
        parts[1] += f"\n... and {len(edges) - cli.EDGES_SHOWN} more; --out writes all of them"
    return "\n\n".join(parts) + "\n"
