"""What the commands compare: two files, two groups of one file, or the moments of both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffdag.app.cli.app import refuse, say

if TYPE_CHECKING:
    from diffdag.tables.inputs import Input
    from diffdag.tables.moments import Moments


def read_pair(
    first: Path,
    second: Path | None,
    group: str | None,
    first_group: str | None,
    second_group: str | None,
    layer: str | None = None,
    genes: str | None = None,
    **choice: Any,
) -> tuple[Any, Any, tuple[str, str]]:
    """Read two files, or one file in two groups, and what to call them.

    Tables come back as they are; files of moments, folders and patterns as the moments of what is chosen.
    """
    from diffdag.tables.inputs import Rows, open_input  # noqa: PLC0415

    if (group is None) == (second is None):
        refuse("the two conditions are not clear; give two tables, or one table and --group")
    if group is not None:
        source = open_input(first)
        if not isinstance(source, Rows):
            refuse(f"--group splits the rows of one table, which '{first}' is not; give a table")
        table = source.read(text=[group], layer=layer, genes=genes)
        return _two_groups(table, group, first_group, second_group)
    if first_group is not None or second_group is not None:
        refuse("--first and --second choose groups; say in which column with --group")
    inputs = [open_input(path) for path in (first, second) if path is not None]
    tables = [source for source in inputs if isinstance(source, Rows)]
    one, two = _labels([source.path for source in inputs])
    if len(tables) == len(inputs):
        before, after = (table.read(layer=layer, genes=genes) for table in tables)
        return before, after, (one, two)
    if layer is not None or genes is not None:
        refuse("--layer and --genes are about .h5ad files, not about moments; leave them out")
    return *_read_moments(inputs, **choice), (one, two)


def _labels(paths: Sequence[Path]) -> list[str]:
    """What to call two files: by their stems if these tell them apart; the same file twice by its places."""
    stems = [path.name.split(".")[0] for path in paths]
    names = stems if stems[0] != stems[1] and "*" not in "".join(stems) else [str(path) for path in paths]
    return names if names[0] != names[1] else [f"{names[0]} ({place})" for place in ("first", "second")]


def _two_groups(
    table: Any, group: str, first: str | None, second: str | None
) -> tuple[Any, Any, tuple[str, str]]:
    """The rows of two groups, those named or the only ones there are."""
    from diffdag.tables.groups import count_groups, counted, split_groups  # noqa: PLC0415

    named = [name for name in (first, second) if name is not None]
    counts = count_groups(table, group)
    if len(named) == 1:
        refuse(
            f"only one group of column '{group}' is given; give --first and --second, two of {counted(counts)}"
        )
    if not named and len(counts) != 2:
        refuse(
            f"column '{group}' holds {len(counts)} groups: {counted(counts)}; choose two with --first and "
            "--second, or compare all with --reference or --pairwise"
        )
    (one, before), (two, after) = split_groups(table, group, named or None).items()
    return before, after, (one, two)


def _read_moments(
    inputs: Sequence[Input],
    *,
    columns: list[str] | None = None,
    drop: list[str] | None = None,
    missing: str = "error",
) -> tuple[Moments, Moments]:
    """Load files of moments, and reduce what is given as rows."""
    from diffdag.tables.inputs import Rows, SavedMoments  # noqa: PLC0415
    from diffdag.tables.moments import choose  # noqa: PLC0415

    saved = [source for source in inputs if isinstance(source, SavedMoments)]
    if saved and (rows := [source.path for source in inputs if isinstance(source, Rows)]):
        refuse(
            f"'{saved[0].path}' holds moments and '{rows[0]}' is a table; reduce it with diffdag moments first"
        )
    if saved and missing != "error":
        refuse(f"--missing acts on rows, and '{saved[0].path}' holds moments; leave it out")
    loaded = {source: source.load() for source in saved}
    names = {name for moments in loaded.values() for name in moments.names}
    # What no file of moments has must go before the rows are read: it need not be numbers.
    early = [name for name in drop or () if name not in names] if saved else drop
    both = []
    for source in inputs:
        if isinstance(source, SavedMoments):
            both.append(loaded[source])
            continue
        streamed = source.reduce(columns=columns, drop=early, missing=missing, progress=True)
        for note in streamed.notes:
            say(f"note: {note}")
        both.append(streamed.moments)
    if not saved:
        return both[0], both[1]
    late = drop if len(saved) == len(inputs) else [name for name in drop or () if name in names]
    return choose(both[0], both[1], columns, late)
