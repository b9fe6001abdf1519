"""The command line: it parses, calls and prints; the work is done elsewhere.

stdout is the result, stderr is everything else. Commands import what they need when they run, so that
``--help`` answers at once.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import inspect
import itertools
import os
import sys
import tempfile
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

# What several commands take.
Columns = Annotated[str | None, typer.Option(help="Columns to use: a,b,c.")]
Drop = Annotated[str | None, typer.Option(help="Columns to leave out: d,e.")]
MissingRows = Annotated[str, typer.Option(help="Missing values: error, drop their rows, or em (use the rest).")]
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
    """Run one command line, and return 0 done, 2 bad input or usage, 130 interrupted."""
    try:
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
        command = error.ctx.command_path if error.ctx else "diffdag"
        say(f"error: {message}; {hint}see {command} --help")
    except MemoryError:
        say("error: memory ran out; close other programs, or take fewer rows or columns (--columns, --drop)")
    except ValueError as error:
        from diffdag._base.errors import InputError  # noqa: PLC0415

        if not isinstance(error, InputError):
            raise
        say(f"error: {error.words('shell')}")
    return BAD_INPUT


def _unread() -> int:
    """Whoever reads the result has seen enough, as ``| head`` has: all is well."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing left to flush at exit
    return 0


def say(message: str) -> None:
    """Print one line for the person, never more, whatever a column's name contains."""
    from diffdag.report.format import printable  # noqa: PLC0415

    with contextlib.suppress(OSError):  # nobody listens; the exit code still tells
        print("diffdag:", printable(" ".join(message.split("\n"))), file=sys.stderr)


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


def takes(**shared: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of others: it receives what they make of them as one argument each."""

    def give(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        taken = {name: inspect.signature(make, eval_str=True).parameters for name, make in shared.items()}

        @functools.wraps(command)
        def run(**given: Any) -> None:
            made = {
                name: shared[name](**{option: given.pop(option) for option in taken[name]}) for name in taken
            }
            command(**made, **given)

        parts = (taken.get(name, {name: one}).values() for name, one in own.parameters.items())
        every = [one.replace(kind=one.KEYWORD_ONLY) for one in itertools.chain.from_iterable(parts)]
        run.__signature__ = own.replace(parameters=every)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in every}
        return run

    return give


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


@contextlib.contextmanager
def resumable(folder: Path | None) -> Iterator[None]:
    """Say, on an interruption, that finished work is kept, where a folder has a journal of it."""
    try:
        yield
    except KeyboardInterrupt:
        if folder is not None and any(folder.rglob("*.journal")):
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
    place = out.absolute()
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        place.stat()  # says what exists() may not, such as that a name is too long
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        refuse(f"--out '{out}': '{place}' is a file; give a folder, or check the path")
    try:
        writable = os.access(place, os.W_OK | os.X_OK)
        tempfile.TemporaryDirectory(dir=place).cleanup()  # to an administrator everything looks writable
    except OSError:
        writable = False
    if not writable:
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
    if text is None:
        return None
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]


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
