"""The command line: it parses, calls and prints; the work is done elsewhere.

stdout is the answer, stderr is everything else. Commands import what they need when they run, so that
``--help`` answers at once.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from diffdag.result import DifferenceResult
    from diffdag.sem import SEMPair

BAD_INPUT = 2
INTERRUPTED = 130

# The base of all usage errors, under a public name in every release of typer (which once depended on
# click and now contains it).
_UsageError: type[Any] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="diffdag",
    help="What changed between two conditions: the difference DAG of two tables over the same variables.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a narrow terminal is no reason to lose the answer
    sys.exit(run(sys.argv[1:]))


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
        with _warnings_as_lines():
            code = app(list(arguments) or ["--help"], prog_name="diffdag", standalone_mode=False)
            sys.stdout.flush()
        return int(code or 0)
    except (KeyboardInterrupt, typer.Abort):
        _say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing left to flush at exit
        return 0
    except OSError as error:
        place = f"'{error.filename}': " if error.filename is not None else ""
        _say(f"error: {place}{error.strerror or error}; check the path and its permissions")
    except _UsageError as error:
        _say(f"error: {error.format_message().rstrip('.')}; see diffdag --help")
    except ValueError as error:
        from diffdag.validation import InputError  # noqa: PLC0415

        if not isinstance(error, InputError):
            raise
        _say(f"error: {error}")
    return BAD_INPUT


def _say(message: str) -> None:
    """Print one line for the person, never more, even where a column's name has a line break."""
    print("diffdag:", " ".join(message.split("\n")), file=sys.stderr)


@contextlib.contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Show the project's own warnings as plain lines."""
    with warnings.catch_warnings():
        default = warnings.showwarning

        def show(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
            if category.__name__ == "DiffDagWarning":
                _say(f"warning: {message}")
            else:
                default(message, category, *rest, **more)

        warnings.showwarning = show
        yield


@contextlib.contextmanager
def _working(what: str) -> Iterator[None]:
    """Show that something is going on, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # noqa: PLC0415

    with Console(stderr=True).status(what):
        yield


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


WORKING = "Estimating the difference (the very first time, compiling takes half a minute)"
Method = Annotated[
    str | None, typer.Option(help="order: search over causal orders (default); paper: Algorithm 1.")
]
Estimator = Annotated[
    str | None,
    typer.Option(help="With --method paper: dantzig (the paper's LP), dtrace or plugin."),
]
Penalty = Annotated[
    str | None,
    typer.Option(
        help="With --method paper: fraction of the penalty that gives no change; or rate:C, C sqrt(log p / n)."
    ),
]
OutFolder = Annotated[
    Path | None,
    typer.Option(help="Folder for result.json, edges.csv, graph.graphml and report.html."),
]


@app.command()
def fit(
    first: Annotated[
        Path, typer.Argument(metavar="A", help="First table: CSV, TSV, Parquet, Feather, NPY, NPZ.")
    ],
    second: Annotated[
        Path | None,
        typer.Argument(metavar="B", help="Second table, unless --group splits the first."),
    ] = None,
    group: Annotated[str | None, typer.Option(help="Column of A that names the group of each row.")] = None,
    first_group: Annotated[str | None, typer.Option("--first", help="Group to take as first.")] = None,
    second_group: Annotated[str | None, typer.Option("--second", help="Group to take as second.")] = None,
    method: Method = None,
    estimator: Estimator = None,
    penalty: Penalty = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="With --method paper: its epsilon; smaller entries count as zero."),
    ] = None,
    noise: Annotated[
        str | None,
        typer.Option(help="auto, or equal if no noise variance differs between the conditions."),
    ] = None,
    order: Annotated[str | None, typer.Option(help="Known causal order, causes first: a,b,c.")] = None,
    tiers: Annotated[
        Path | None, typer.Option(help="File with one tier a line, causes first: names separated by commas.")
    ] = None,
    required: Annotated[
        list[str] | None, typer.Option(help="Direction an effect must have: 'a->b'. May be repeated.")
    ] = None,
    forbidden: Annotated[
        list[str] | None, typer.Option(help="Direction it cannot have: 'a->b'. May be repeated.")
    ] = None,
    covariance: Annotated[
        str | None, typer.Option(help="sample, winsorised (outliers), spearman or kendall (unknown scales).")
    ] = None,
    effective_samples: Annotated[
        str | None, typer.Option(help="Independent rows each table is worth: N, N1,N2, or auto (time series).")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Threads of the search; one a core if left out.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the search.")] = None,
    columns: Annotated[str | None, typer.Option(help="Columns to compare: a,b,c.")] = None,
    drop: Annotated[str | None, typer.Option(help="Columns to leave out: d,e.")] = None,
    missing: Annotated[str, typer.Option(help="error, or drop the rows with missing values.")] = "error",
    out: OutFolder = None,
    json: Annotated[bool, typer.Option("--json", help="Print result.json and nothing else.")] = False,
) -> None:
    """Estimate what changed between tables A and B. Settings left out are chosen from the data."""
    _check_folder(out)
    one, two, labels = _read_pair(first, second, group, first_group, second_group)
    from diffdag.estimator import DifferenceDAG  # noqa: PLC0415 - after what fails at once

    settings: dict[str, Any] = {
        "method": method,
        "estimator": estimator,
        "penalty": _number_or_text(penalty),
        "threshold": threshold,
        "noise": noise,
        "order": _names(order),
        "tiers": None if tiers is None else _tiers(tiers),
        "required": required or None,
        "forbidden": forbidden or None,
        "covariance": covariance,
        "effective_samples": _rows(effective_samples),
        "n_jobs": jobs,
        "rng": seed,
    }
    model = DifferenceDAG(**{name: value for name, value in settings.items() if value is not None})
    choice: dict[str, Any] = {"columns": _names(columns), "drop": _names(drop), "missing": missing}
    with _working(WORKING):
        model.fit(one, two, **choice)
    _deliver(replace(model.result_, labels=labels), out, as_json=json)


@app.command()
def demo(
    condition: Annotated[
        str,
        typer.Option(help="icam2, akt-inhibitor, g0076, psitectorigenin, u0126, ly294002, pma or b2camp."),
    ] = "u0126",
    out: Annotated[Path, typer.Option(help="Folder for the answer.")] = Path("diffdag-demo"),
) -> None:
    """Compare two conditions of the embedded Sachs data: 11 proteins in single cells."""
    from diffdag.datasets import SACHS_CONDITIONS, load_sachs_pair  # noqa: PLC0415

    _check_folder(out)
    baseline, other = load_sachs_pair(condition)
    from diffdag.estimator import DifferenceDAG  # noqa: PLC0415

    with _working(WORKING):
        result = DifferenceDAG().fit(baseline, other).result_
    print(f"Sachs et al. 2005: baseline (CD3/CD28) and {SACHS_CONDITIONS[condition.lower()]}, log10 values\n")
    _deliver(replace(result, labels=("baseline", condition.lower())), out)


@app.command()
def simulate(
    p: Annotated[int, typer.Option("--p", min=2, help="Number of variables.")],
    neighbours: Annotated[float, typer.Option(help="Average number of neighbours of a variable.")],
    samples: Annotated[int, typer.Option(min=2, help="Rows in each table.")],
    out: Annotated[Path, typer.Option(help="Folder for first.csv, second.csv and truth.csv.")],
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same tables.")] = 0,
    change: Annotated[
        float | None,
        typer.Option(help="Probability that a pair of variables changes; 0.05 unless --changes is given."),
    ] = None,
    changes: Annotated[int | None, typer.Option(help="Exact number of changes instead.")] = None,
    noise: Annotated[str, typer.Option(help="gaussian, uniform, laplace or student.")] = "gaussian",
    variances: Annotated[str, typer.Option(help="Noise variances to draw from: 0.5,1,1.5.")] = "1",
    variances_drawn: Annotated[
        str, typer.Option(help="shared by both conditions, or per-condition.")
    ] = "shared",
    min_epsilon: Annotated[
        float | None,
        typer.Option(help="Draw until the paper's assumption for finite samples holds with this epsilon."),
    ] = None,
) -> None:
    """Draw two tables from a random pair of models, and write what really changed."""
    import numpy as np  # noqa: PLC0415

    from diffdag.sem import simulate_pair  # noqa: PLC0415

    _check_folder(out)
    if change is not None and changes is not None:
        _refuse("--change and --changes exclude each other; give one of them")
    randomness = np.random.default_rng(seed).spawn(3)
    pair = simulate_pair(
        p,
        neighbours=neighbours,
        change=0.05 if change is None else change,
        changes=changes,
        noise=noise,  # type: ignore[arg-type]  # checked there
        variances=_numbers("--variances", variances),
        variances_drawn=variances_drawn,  # type: ignore[arg-type]
        min_epsilon=min_epsilon,
        rng=randomness[0],
    )
    tables = {
        "first.csv": pair.first.sample(samples, randomness[1]),
        "second.csv": pair.second.sample(samples, randomness[2]),
    }
    files = _write_simulation(pair, tables, out)
    print(f"{p} variables, {samples} rows in each table, {len(pair.edges)} changed edges")
    _print_files(files)


@app.command()
def report(
    result: Annotated[Path, typer.Argument(metavar="RESULT", help="A result.json, or the folder it is in.")],
) -> None:
    """Write report.html next to a saved result."""
    from diffdag.atomic import write_atomic  # noqa: PLC0415
    from diffdag.report.page import render_page  # noqa: PLC0415
    from diffdag.result import load_result  # noqa: PLC0415

    page = render_page(load_result(result))
    folder = result if result.is_dir() else result.parent
    _print_files([write_atomic(folder / "report.html", page)])


def _read_pair(
    first: Path, second: Path | None, group: str | None, first_group: str | None, second_group: str | None
) -> tuple[Any, Any, tuple[str, str]]:
    """Read two files, or one file in two groups, and what to call them."""
    from diffdag.data import read_table, split_groups  # noqa: PLC0415

    if group is not None and second is None:
        one, two, *labels = split_groups(read_table(first, text=[group]), group, first_group, second_group)
        return one, two, (labels[0], labels[1])
    if group is not None or second is None:
        _refuse("the two conditions are not clear; give two tables, or one table and --group")
    if first_group is not None or second_group is not None:
        _refuse("--first and --second choose groups; say in which column with --group")
    paths = (first, second)
    stems = [path.name.split(".")[0] for path in paths]
    names = stems if stems[0] != stems[1] else [str(path) for path in paths]
    return read_table(first), read_table(second), (names[0], names[1])


def _deliver(result: DifferenceResult, out: Path | None, *, as_json: bool = False) -> None:
    """Write the files first: if that fails, nothing was said that suggests otherwise."""
    files = [] if out is None else result.save(out)
    if as_json:
        sys.stdout.write(result.to_json())
        for note in result.notes:
            _say(f"note: {note}")
        return
    print(result.summary())
    if files:
        print()
        _print_files(files)


def _print_files(files: Sequence[Path]) -> None:
    print("Written:")
    for path in files:
        print(f"  {path}")


def _write_simulation(pair: SEMPair, tables: dict[str, Any], out: Path) -> list[Path]:
    """Render everything before the first file is written."""
    import pandas as pd  # noqa: PLC0415

    from diffdag.atomic import write_atomic  # noqa: PLC0415

    names, before, after = pair.first.names, pair.first.weights, pair.second.weights
    truth = [
        (names[j], names[i], before[i, j], after[i, j])
        for i, j in sorted(zip(*pair.changed.nonzero(), strict=True))
    ]
    frames = {name: pd.DataFrame(table, columns=list(names)) for name, table in tables.items()}
    frames["truth.csv"] = pd.DataFrame(truth, columns=["source", "target", "weight_first", "weight_second"])
    texts = {name: frame.to_csv(index=False, lineterminator="\n") for name, frame in frames.items()}
    out.mkdir(parents=True, exist_ok=True)
    return [write_atomic(out / name, text) for name, text in texts.items()]


def _check_folder(out: Path | None) -> None:
    """Refuse before the work is done what could not be written after it."""
    if out is not None and out.exists() and not out.is_dir():
        _refuse(f"--out '{out}' is a file; give a folder")


def _refuse(message: str) -> NoReturn:
    from diffdag.validation import InputError  # noqa: PLC0415

    raise InputError(message)


def _names(text: str | None) -> list[str] | None:
    """Split a,b,c; a name that contains a comma goes in double quotes."""
    return (
        None if text is None else [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    )


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        _refuse(f"{option} '{text}' is not a list of numbers such as 0.5,1")


def _tiers(path: Path) -> list[list[str]]:
    from diffdag.knowledge import read_tiers  # noqa: PLC0415

    return read_tiers(path)


def _rows(text: str | None) -> float | tuple[float, ...] | str | None:
    """N, N1,N2 or a word; the estimator judges the rest."""
    if text is None or "," not in text:
        value = _number_or_text(text)
        return (
            value
            if not isinstance(value, str) or value == "auto"
            else _numbers("--effective-samples", value)[0]
        )
    return tuple(_numbers("--effective-samples", text))


def _number_or_text(text: str | None) -> float | str | None:
    """Give numbers as numbers; the estimator judges the rest."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text
