"""The command line: it parses, calls and prints; the work is done elsewhere.

stdout is the answer, stderr is everything else. Commands import what they need when they run, so that
``--help`` answers at once.
"""

from __future__ import annotations

import contextlib
import csv
import glob
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

BAD_INPUT = 2
CHECK_PATH = "check the path and its permissions"
INTERRUPTED = 130

# The base of all usage errors, under a public name in every release of typer (which once depended on
# click and now contains it).
_UsageError: type[Any] = typer.BadParameter.__mro__[2]

# What every command that compares two tables takes.
FirstTable = Annotated[Path, typer.Argument(metavar="A", help="First table, in any format that fit reads.")]
SecondTable = Annotated[
    Path | None, typer.Argument(metavar="B", help="Second table, unless --group splits the first.")
]
Group = Annotated[
    str | None,
    typer.Option("--group", "--group-key", help="Column of A (of obs, in .h5ad) that names each row's group."),
]
Layer = Annotated[str | None, typer.Option(help="Of .h5ad files: the layer to use, or raw; X if left out.")]
Genes = Annotated[
    str | None, typer.Option(help="Of .h5ad files: column of var that is true for the genes to use.")
]
FirstGroup = Annotated[str | None, typer.Option("--first", help="Group to take as first.")]
SecondGroup = Annotated[str | None, typer.Option("--second", help="Group to take as second.")]
Columns = Annotated[str | None, typer.Option(help="Columns to compare: a,b,c.")]
Drop = Annotated[str | None, typer.Option(help="Columns to leave out: d,e.")]
MissingRows = Annotated[str, typer.Option(help="error, or drop the rows with missing values.")]
# What several commands tell the model.
Noise = Annotated[
    str | None, typer.Option(help="auto, or equal if no noise variance differs between the conditions.")
]
KnownOrder = Annotated[str | None, typer.Option(help="Known causal order, causes first: a,b,c.")]
CovarianceKind = Annotated[
    str | None, typer.Option(help="sample, winsorised (outliers), spearman or kendall (unknown scales).")
]
# What several commands take besides.
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Dask = Annotated[
    str | None,
    typer.Option("--dask", metavar="ADDRESS", help="Dask scheduler whose workers do it: tcp://host:8786."),
]
# Rows of a table of edges that the terminal shows.
EDGES_SHOWN = 40

app = typer.Typer(
    name="diffdag",
    help="What changed between two conditions: the difference DAG of two tables over the same variables.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def run(arguments: Sequence[str]) -> int:
    """Run one command line.

    Parameters
    ----------
    arguments : sequence of str
        What follows the program's name.

    Returns
    -------
    int
        0 done, 2 bad input or usage, 130 interrupted.
    """
    try:
        _check_spellings(arguments)
        with _warnings_as_lines():
            code = app(list(arguments) or ["--help"], prog_name="diffdag", standalone_mode=False)
            sys.stdout.flush()
        if code == INTERRUPTED:  # some releases of typer turn the interruption into its exit code
            say("interrupted")
        return int(code or 0)
    except (KeyboardInterrupt, typer.Abort):
        say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        return _unread()
    except SystemExit as end:
        if not isinstance(end.__context__, BrokenPipeError):  # which some releases of typer turn into it
            raise
        return _unread()
    except OSError as error:
        from diffdag._base.errors import FULL  # noqa: PLC0415

        place = f"'{error.filename}': " if error.filename is not None else ""
        full = "make room on the disk, then give the same command again"
        say(f"error: {place}{error.strerror or error}; {full if error.errno in FULL else CHECK_PATH}")
    except _UsageError as error:
        message = error.format_message().rstrip(".")
        hint = "names with spaces need quotes: --drop 'Sample ID'; " if "extra argument" in message else ""
        say(f"error: {message}; {hint}see diffdag --help")
    except MemoryError:
        say("error: memory ran out; close other programs, or take fewer rows or columns (--columns, --drop)")
    except ValueError as error:
        from diffdag._base.errors import InputError  # noqa: PLC0415

        if not isinstance(error, InputError):
            raise
        say(f"error: {error}")
    return BAD_INPUT


def _check_spellings(arguments: Sequence[str]) -> None:
    """Refuse an option that is given under both of its names: the second would silently win."""
    given = {word.split("=")[0] for word in arguments}
    if {"--group", "--group-key"} <= given:
        refuse("--group and --group-key are the same option; give one of them")


def _unread() -> int:
    """Whoever reads the answer has seen enough, as ``| head`` has: all is well."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing left to flush at exit
    return 0


def say(message: str) -> None:
    """Print one line for the person, never more, whatever a column's name contains."""
    from diffdag._base.words import at_command_line  # noqa: PLC0415
    from diffdag.report.format import printable  # noqa: PLC0415

    with contextlib.suppress(OSError):  # nobody listens; the exit code still tells
        print("diffdag:", printable(" ".join(at_command_line(message).split("\n"))), file=sys.stderr)


@contextlib.contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Show the project's own warnings as plain lines."""
    with warnings.catch_warnings():
        default = warnings.showwarning

        def show(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
            if category.__name__ == "DiffDagWarning":
                say(f"warning: {message}")
            else:
                default(message, category, *rest, **more)

        warnings.showwarning = show
        yield


@contextlib.contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Show that something is going on, on a terminal only; what is given can change the words."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console  # noqa: PLC0415

    with Console(stderr=True).status(what) as status:
        yield status.update


def _version(wanted: bool) -> None:
    if wanted:
        from diffdag import __version__  # noqa: PLC0415

        print(f"diffdag {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


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

    Tables come back as they are. With a `choice` (columns, drop, missing), for commands that do without rows,
    files of moments, folders and patterns come back as the moments of what is chosen.
    """
    from diffdag.tables.align import read_table  # noqa: PLC0415
    from diffdag.tables.groups import split_groups  # noqa: PLC0415

    if group is not None and second is None:
        if choice and _reduced(first):
            refuse(f"--group splits the rows of one table, which '{first}' is not; give two sets of moments")
        table = read_table(first, text=[group], layer=layer, genes=genes)
        one, two, *labels = split_groups(table, group, first_group, second_group)
        return one, two, (labels[0], labels[1])
    if group is not None or second is None:
        refuse("the two conditions are not clear; give two tables, or one table and --group")
    if first_group is not None or second_group is not None:
        refuse("--first and --second choose groups; say in which column with --group")
    paths = (first, second)
    stems = [path.name.split(".")[0] for path in paths]
    names = stems if stems[0] != stems[1] and "*" not in "".join(stems) else [str(path) for path in paths]
    if choice and any(_reduced(path) for path in paths):
        if layer is not None or genes is not None:
            refuse("--layer and --genes are about .h5ad files, not about moments; leave them out")
        return *_read_moments(paths, **choice), (names[0], names[1])
    one, two = (read_table(path, layer=layer, genes=genes) for path in paths)
    return one, two, (names[0], names[1])


def _reduced(path: Path) -> bool:
    """Whether only moments will be known: of a file of them, or of too many rows to hold."""
    from diffdag.tables.moments import holds_moments  # noqa: PLC0415

    return path.is_dir() or (not path.exists() and glob.has_magic(str(path))) or holds_moments(path)


def _read_moments(
    paths: Sequence[Path],
    *,
    columns: list[str] | None = None,
    drop: list[str] | None = None,
    missing: str = "error",
) -> tuple[Any, Any]:
    """Load files of moments, and reduce what is given as rows."""
    from diffdag.tables.moments import Moments, choose, holds_moments  # noqa: PLC0415
    from diffdag.tables.readers.files import check_file  # noqa: PLC0415
    from diffdag.tables.readers.streaming import stream_moments  # noqa: PLC0415

    saved = [path for path in paths if holds_moments(path)]
    tables = [path for path in paths if not _reduced(path)]
    for path in tables:
        check_file(path)
    if saved and tables:
        refuse(f"'{saved[0]}' holds moments and '{tables[0]}' is a table; reduce it with diffdag moments first")
    if saved and missing != "error":
        refuse(f"--missing acts on rows, and '{saved[0]}' holds moments; leave it out")
    loaded = {path: Moments.load(path) for path in saved}
    held = {name for moments in loaded.values() for name in moments.names}
    # What no file of moments has must go before the rows are read: it need not be numbers.
    early = [name for name in drop or () if name not in held] if saved else drop
    both = []
    for path in paths:
        if path in loaded:
            both.append(loaded[path])
            continue
        streamed = stream_moments(path, columns=columns, drop=early, missing=missing, progress=True)  # type: ignore[arg-type]
        for note in streamed.notes:
            say(f"note: {note}")
        both.append(streamed.moments)
    if not saved:
        return both[0], both[1]
    late = drop if len(saved) == len(paths) else [name for name in drop or () if name in held]
    return choose(both[0], both[1], columns, late)


@contextlib.contextmanager
def resumable(kept: bool = True) -> Iterator[None]:
    """Say, on an interruption, that finished work is kept, where it is."""
    try:
        yield
    except KeyboardInterrupt:
        if kept:
            say("what is finished is kept; the same command continues")
        raise


def print_files(files: Sequence[Path]) -> None:
    """Say which files were written."""
    print("Written:")
    for path in files:
        print(f"  {path}" + ("  (open it in a browser)" if path.suffix == ".html" else ""))


def check_folder(out: Path | None) -> None:
    """Refuse before the work is done what could not be written after it."""
    if out is None:
        return
    if out.exists() and not out.is_dir():
        refuse(f"--out '{out}' is a file; give a folder")
    place = out.absolute()
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        refuse(f"--out '{out}': '{place}' is a file; check the path, or give another folder")
    if not os.access(place, os.W_OK | os.X_OK):
        refuse(f"--out '{out}': nothing can be written to '{place}'; give another folder")


def check_workers(jobs: int | None, dask: str | None) -> None:
    """Refuse a choice of workers that contradicts itself."""
    if jobs == 0:
        refuse("--jobs 0 leaves nobody to work; give 1 or more")
    if jobs is not None and dask is not None:
        refuse("--jobs counts workers of this machine and --dask takes those of a cluster; give one of them")


def refuse(message: str) -> NoReturn:
    """End with an error in one line."""
    from diffdag._base.errors import InputError  # noqa: PLC0415

    raise InputError(message)


def split_names(text: str | None) -> list[str] | None:
    """Split a,b,c; a name that contains a comma goes in double quotes."""
    return (
        None if text is None else [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    )


def split_methods(text: str | None) -> list[str] | None:
    """Split a,b,c into names of methods, each once."""
    names = split_names(text)
    if names is not None and not any(names):
        refuse("--methods names none; give some, such as order,paper, or leave it out")
    return None if names is None else list(dict.fromkeys(filter(None, names)))


def split_numbers(option: str, text: str) -> list[float]:
    """Split 0.5,1,2."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        refuse(f"{option} '{text}' is not a list of numbers such as 0.5,1")
