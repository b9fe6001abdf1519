"""The command that reduces tables of any number of rows: moments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from diffdag.app.cli import app as cli


@cli.app.command()
def moments(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILES", help="Parquet, CSV or TSV files of one condition, or folders of them."),
    ],
    out: Annotated[Path, typer.Option(help="The NPZ file to write; fit and compare take it as a table.")],
    columns: cli.Columns = None,
    drop: cli.Drop = None,
    adjust: Annotated[
        str | None, typer.Option(help="Covariates to carry along, for fit to take out: age,sex,batch.")
    ] = None,
    missing: cli.MissingRows = "error",
) -> None:
    """Reduce any number of rows to their number, means and covariances, in little memory."""
    if out.suffix.lower() != ".npz" or out.is_dir():
        cli.refuse(f"--out '{out}' is no name for an NPZ file; give one that ends in .npz")
    if not out.parent.is_dir():
        cli.refuse(f"--out '{out}': its folder does not exist; create it first")
    cli.check_folder(out.parent)
    from diffdag._base.words import plural  # noqa: PLC0415
    from diffdag.tables.moments import stream_moments  # noqa: PLC0415

    chosen = {"columns": columns, "drop": drop, "adjust": adjust}
    named: dict[str, Any] = {name: cli.split_names(text) for name, text in chosen.items()}
    streamed = stream_moments(files, **named, missing=missing, progress=True)
    path = streamed.moments.save(out)
    for note in streamed.notes:
        cli.say(f"note: {note}")
    carried = named["adjust"] or []
    count = len(streamed.moments.column_names()) - len(carried)
    more = f", {plural(len(carried), 'covariate')}" if carried else ""
    print(f"{streamed.moments.n:,} row{'s' * (streamed.moments.n != 1)}, {plural(count, 'variable')}{more}")
    cli.print_files([path])
