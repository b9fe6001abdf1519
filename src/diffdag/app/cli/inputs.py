"""What the commands compare: two files, two groups of one file, or the moments of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffdag.app.cli.app import Columns, Drop, refuse, say, split_names

if TYPE_CHECKING:
    from diffdag.tables.inputs import Holds
    from diffdag.tables.moments import Moments


@dataclass(frozen=True)
class Inputs:
    """Two files, or one in groups, and what to take from them; the fields are options of the commands."""

    first: Annotated[
        Path,
        typer.Argument(
            metavar="A", help="First table: CSV, TSV, Parquet, Feather, NPY, NPZ, H5AD; or moments."
        ),
    ]
    second: Annotated[
        Path | None, typer.Argument(metavar="B", help="Second table, unless --group splits the first.")
    ] = None
    group: Annotated[
        str | None, typer.Option(help="Column of A (of obs, in .h5ad) that names each row's group.")
    ] = None
    first_group: Annotated[
        str | None, typer.Option("--first", help="Group to take as first; alphabetical if left out.")
    ] = None
    second_group: Annotated[str | None, typer.Option("--second", help="Group to take as second.")] = None
    layer: Annotated[
        str | None, typer.Option(help="Of .h5ad files: the layer to use, or raw; X if left out.")
    ] = None
    genes: Annotated[
        str | None, typer.Option(help="Of .h5ad files: column of var that is true for the genes to use.")
    ] = None
    transpose: Annotated[
        bool, typer.Option("--transpose", help="Tables have variables in rows: the first column names them.")
    ] = False
    columns: Columns = None
    drop: Drop = None
    levels: Annotated[
        list[str] | None,
        typer.Option(help="Ordered categories, lowest first: severity=mild,moderate,severe. May be repeated."),
    ] = None

    @property
    def alphabetical(self) -> bool:
        """Whether two groups are compared in an order that the user did not give."""
        return self.group is not None and self.first_group is None

    @property
    def choice(self) -> dict[str, Any]:
        """Which columns to compare, and what their texts stand for."""
        chosen = {"columns": split_names(self.columns), "drop": split_names(self.drop)}
        return {**chosen, "levels": _split_levels(self.levels)}

    @property
    def reading(self) -> dict[str, Any]:
        """How files are read."""
        return {"layer": self.layer, "genes": self.genes, "transpose": self.transpose}

    def read_table(self) -> Any:
        """Read the one table whose rows are in groups."""
        from diffdag.tables.readers.files import read_table  # noqa: PLC0415

        return read_table(self.first, text=[str(self.group)], **self.reading)

    def read_pair(
        self, missing: str, adjust: list[str] | int | None = None, check: Callable[[], None] = lambda: None
    ) -> tuple[Any, Any, tuple[str, str]]:
        """Read two files, or two groups of one, and what to call them.

        Tables come back as they are; files of moments, folders and patterns as the moments of what is chosen,
        with the covariates to `adjust` for. What only goes with tables is refused by `check`, before any are
        read.
        """
        from diffdag.tables.inputs import what_it_holds  # noqa: PLC0415
        from diffdag.tables.readers.files import read_table  # noqa: PLC0415

        if (self.group is None) == (self.second is None):
            given = "a table is given" if self.second is None else "two tables and --group are given"
            refuse(f"{given}; give two tables, or one table and --group, the column that names the conditions")
        paths = [path for path in (self.first, self.second) if path is not None]
        inputs = [(path, what_it_holds(path)) for path in paths]
        tables = all(kind == "table" for _, kind in inputs)
        if self.group is not None:
            if not tables:
                refuse(f"--group splits the rows of one table, which '{self.first}' is not; give a table")
            return _two_groups(self.read_table(), self.group, self.first_group, self.second_group)
        if self.first_group is not None or self.second_group is not None:
            refuse("--first and --second choose groups; say in which column with --group")
        one, two = _labels(paths)
        if tables:
            before, after = (read_table(path, **self.reading) for path in paths)
            return before, after, (one, two)
        if self.layer is not None or self.genes is not None:
            refuse("--layer and --genes are about .h5ad files, not about moments; leave them out")
        if self.transpose or self.levels:
            refuse("--transpose and --levels are about tables, not about moments; leave them out")
        check()
        if isinstance(adjust, int) or "hidden" in (adjust or ()):
            refuse("hidden causes are estimated from rows, and these are moments; leave --adjust hidden out")
        chosen = {"columns": self.choice["columns"], "drop": self.choice["drop"]}
        return *_read_moments(inputs, **chosen, adjust=adjust, missing=missing), (one, two)


def _split_levels(given: Sequence[str] | None) -> dict[str, list[str]] | None:
    """Split severity=mild,moderate,severe; also with < between the levels."""
    found: dict[str, list[str]] = {}
    for text in given or ():
        name, equals, levels = text.partition("=")
        if not equals or not name.strip():
            refuse(f"--levels '{text}' is not a column and its levels, such as severity=mild,moderate,severe")
        split = levels.split("<") if "<" in levels else split_names(levels) or []
        found[name.strip()] = [level.strip() for level in split]
    return found or None


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
            f"only one group of column '{group}', {named[0]!r}, is given; give --first and --second, two of "
            f"{counted(counts)}"
        )
    if not named and len(counts) != 2:
        refuse(
            f"column '{group}' holds {len(counts)} groups: {counted(counts)}; choose two with --first and "
            "--second, or compare all with --reference or --pairwise"
        )
    (one, before), (two, after) = split_groups(table, group, named or None).items()
    return before, after, (one, two)


def _read_moments(
    inputs: Sequence[tuple[Path, Holds]],
    *,
    columns: list[str] | None,
    drop: list[str] | None,
    adjust: list[str] | None,
    missing: str,
) -> tuple[Moments, Moments]:
    """Load files of moments, and reduce what is given as rows."""
    from diffdag.tables.moments import Moments, choose, stream_moments  # noqa: PLC0415

    saved = [path for path, kind in inputs if kind == "moments"]
    if saved and (rows := [path for path, kind in inputs if kind == "table"]):
        refuse(f"'{saved[0]}' holds moments and '{rows[0]}' is a table; reduce it with diffdag moments first")
    if saved and missing != "error":
        refuse(f"--missing acts on rows, and '{saved[0]}' holds moments; leave it out")
    loaded = {path: Moments.load(path) for path in saved}
    names = {name for moments in loaded.values() for name in moments.column_names()}
    # What no file of moments has must go before the rows are read: it need not be numbers.
    early = [name for name in drop or () if name not in names] if saved else drop
    both = []
    for path, kind in inputs:
        if kind == "moments":
            both.append(loaded[path])
            continue
        chosen: dict[str, Any] = {"columns": columns, "drop": early, "adjust": adjust}
        streamed = stream_moments(path, **chosen, missing=missing, progress=True)
        for note in streamed.notes:
            say(f"note: {note}")
        both.append(streamed.moments)
    if not saved:
        return both[0], both[1]
    late = drop if len(saved) == len(inputs) else [name for name in drop or () if name in names]
    return choose(both[0], both[1], columns, late, adjust)
