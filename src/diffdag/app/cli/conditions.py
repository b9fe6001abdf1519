"""fit on more than two groups of one table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffdag.app.cli.app import print_files, refuse, resumable, say

if TYPE_CHECKING:
    from diffdag.estimator import DifferenceDAG

Reference = Annotated[
    str | None,
    typer.Option(help="With --group: compare this group with each of the others, one order for all."),
]
Pairwise = Annotated[
    bool, typer.Option("--pairwise", help="With --group: compare each group with each, one order for all.")
]
Groups = Annotated[
    str | None,
    typer.Option(help="With --reference or --pairwise: the groups to compare: a,b,c; all if left out."),
]
WORKING = "Estimating the differences (the very first time, compiling takes a minute)"


def check_groups(
    second: Path | None,
    group: str | None,
    reference: str | None,
    pairwise: bool,
    /,
    **others: object,
) -> None:
    """Refuse options that do not go together; `others` are those that are about two groups only, by name."""
    if group is None or second is not None:
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


def fit_groups(
    path: Path,
    group: str,
    *,
    reference: str | None,
    groups: Sequence[str] | None,
    model: DifferenceDAG,
    choice: dict[str, Any],
    points: int | None,
    out: Path | None,
    as_json: bool,
    layer: str | None = None,
    genes: str | None = None,
) -> None:
    """Compare the groups of one table, each with the reference or, without one, each with each."""
    from diffdag.tables.align import read_table  # noqa: PLC0415
    from diffdag.tables.groups import split_all_groups  # noqa: PLC0415

    chosen = None if groups is None else list(dict.fromkeys([*([reference] if reference else []), *groups]))
    tables = split_all_groups(read_table(path, text=[group], layer=layer, genes=genes), group, chosen)
    from diffdag._base.progress import show_bars  # noqa: PLC0415
    from diffdag.conditions import fit_conditions  # noqa: PLC0415 - after what fails at once

    options: dict[str, Any] = {
        "reference": reference,
        "model": model,
        "journal": out,
        "points": points,
        **choice,
    }
    with resumable(out is not None and bool(model.confidence or model.fdr)), show_bars(WORKING) as told:
        result = fit_conditions(tables, progress=told, **options)
    files = [] if out is None else result.save(out)
    if as_json:
        sys.stdout.write(result.to_json())
        for note in result.notes:
            say(f"note: {note}")
        return
    print(result.summary())
    if files:
        print()
        print_files(files)
