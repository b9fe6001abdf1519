"""The commands that need this room: compare, reproduce, plan. `diffdag.__main__` puts them with the others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffdag.app.cli.app import (
    EDGES_SHOWN,
    Dask,
    Json,
    MissingRows,
    app,
    check_folder,
    check_workers,
    print_files,
    refuse,
    resumable,
    split_methods,
    split_names,
    takes,
    working,
)
from diffdag.app.cli.inputs import Inputs

if TYPE_CHECKING:
    from diffdag.reproduce.experiments.runner import Experiment
    from diffdag.reproduce.methods.compare import Comparison


@app.command()
@takes(inputs=Inputs)
def compare(
    inputs: Inputs,
    methods: Annotated[str | None, typer.Option(help="Some methods only: order,paper,dci-c.")] = None,
    order: Annotated[
        str | None, typer.Option(help="Known causal order, causes first: a,b,c; runs the oracle too.")
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(
            min=0.1, help="Seconds after which a method is given up; 60, but not for the default method."
        ),
    ] = None,
    missing: MissingRows = "error",
    jobs: Annotated[int | None, typer.Option(help="Methods that run at a time; 1 if left out.")] = None,
    dask: Dask = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for methods.csv, edges.csv, agreement.csv and compare.json.")
    ] = None,
    json: Json = False,
) -> None:
    """Run every available method on the same two tables, side by side."""
    check_folder(out)
    check_workers(jobs, dask)
    one, two, _ = inputs.read_pair(missing)
    from diffdag._base.parallel import use_cluster  # noqa: PLC0415
    from diffdag.reproduce.methods.compare import compare_methods  # noqa: PLC0415

    with use_cluster(dask), working("Comparing methods") as status:
        answer = compare_methods(
            one,
            two,
            methods=split_methods(methods),
            order=split_names(order),
            limit=limit,
            **inputs.choice,
            missing=missing,  # type: ignore[arg-type]  # checked there
            started=lambda name: status(f"Running {name}"),
            n_jobs=1 if jobs is None else jobs,
        )
    files = [] if out is None else _write_comparison(answer, out)
    print(answer.to_json() if json else comparison_text(answer), end="")
    if files and not json:
        print()
        print_files(files)


def _write_comparison(answer: Comparison, out: Path) -> list[Path]:
    from diffdag._base.atomic import write_together  # noqa: PLC0415

    texts = {
        "methods.csv": answer.methods.to_csv(index=False, lineterminator="\n"),
        "edges.csv": answer.edges.to_csv(index=False, lineterminator="\n"),
        "agreement.csv": answer.agreement.to_csv(lineterminator="\n", float_format="%.4f"),
        "compare.json": answer.to_json(),
    }
    return write_together(out, texts)


def comparison_text(answer: Comparison) -> str:
    """A comparison for the terminal: methods, edges, agreement, what was skipped. Methods go by numbers."""
    from diffdag.report.format import printable  # noqa: PLC0415

    number = {name: str(k) for k, name in enumerate(answer.graphs, start=1)}
    ran = answer.methods[answer.methods["skipped"] == ""].drop(columns="skipped")
    ran.insert(0, "no.", [number[name] for name in ran["method"]])
    edges = answer.edges.rename(columns=number)
    for end in ("source", "target"):
        edges[end] = edges[end].map(printable)
    shown = edges.head(EDGES_SHOWN).to_string(index=False) if len(edges) else "none"
    parts = [
        f"{len(answer.names)} variables, {answer.samples[0]:,} and {answer.samples[1]:,} rows",
        ran.astype({"edges": int, "directed": int}).to_string(index=False)
        if len(ran)
        else "No method gave an answer",
        "Edges, most often found first (-> from source to target, <- the other way, -- undirected)\n" + shown,
    ]
    if len(edges) > EDGES_SHOWN:
        parts[-1] += f"\n... and {len(edges) - EDGES_SHOWN} more; --out writes all of them"
    if len(answer.graphs) > 1:
        agreement = answer.agreement.rename(index=number, columns=number)
        matrix = agreement.to_string(float_format="{:.1f}".format)
        parts.append(f"Agreement: pairs of variables found by both among those found by either\n{matrix}")
    if answer.skipped:
        lines = [f"  {name}: {printable(why)}" for name, why in answer.skipped.items()]
        parts.append("\n".join(["Skipped", *lines]))
    return "\n\n".join(parts) + "\n"


@app.command()
def reproduce(
    experiment: Annotated[
        str, typer.Argument(metavar="WHAT", help="table1, figure2, figure3, figure4 or brain.")
    ],
    quick: Annotated[bool, typer.Option("--quick", help="A small version: a minute or two.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Processes; one per core if left out.")] = None,
    dask: Dask = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the table and the figures; reproduction/WHAT if left out.")
    ] = None,
    pairs: Annotated[int | None, typer.Option(min=1, help="Another number of pairs of models.")] = None,
    methods: Annotated[str | None, typer.Option(help="Some methods only: order,paper,dci-c.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Another seed.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="brain: folder with two tables of regions and their coordinates."),
    ] = None,
) -> None:
    """Run an experiment of the paper again; an interrupted run continues where it stopped."""
    import diffdag.reproduce.experiments as known  # noqa: PLC0415

    if experiment not in known.NAMES:
        refuse(f"no experiment is called '{experiment}'; there are {', '.join(known.NAMES)}")
    if data is not None and experiment != "brain":
        refuse(f"'{experiment}' draws its own data; --data is for brain")
    kind = f"{'-data' if data is not None else ''}{'-quick' if quick else ''}"
    folder = Path("reproduction") / f"{experiment}{kind}" if out is None else out
    check_folder(folder)
    check_workers(jobs, dask)
    chosen = known.experiment(experiment, data)
    settings = _settings(chosen, quick, {"pairs": pairs, "methods": split_methods(methods), "seed": seed})
    from diffdag._base.parallel import use_cluster  # noqa: PLC0415
    from diffdag.reproduce.experiments.runner import run  # noqa: PLC0415

    with resumable(), use_cluster(dask):
        files, text = run(chosen, settings, folder, -1 if jobs is None else jobs)
    print(text)
    print()
    print_files(files)


def _settings(chosen: Experiment, quick: bool, given: dict[str, Any]) -> dict[str, Any]:
    """The size asked for, with what the user set; refuse what the experiment has no use for."""
    from diffdag.reproduce.methods import find_method  # noqa: PLC0415

    settings = dict(chosen.quick if quick else chosen.full)
    for name, value in given.items():
        if value is not None:
            if name not in settings:
                refuse(f"'{chosen.name}' has no --{name}; leave it out")
            settings[name] = value
    for name in settings.get("methods", ()):
        find_method(name)
    return settings


@app.command()
def plan(
    p: Annotated[int, typer.Option("--p", help="Number of variables.")],
    changes: Annotated[int, typer.Option(help="Number of changed effects expected.")],
    samples: Annotated[
        int | None, typer.Option(help="Rows at hand in each table, the smaller number if they differ.")
    ] = None,
    parents: Annotated[
        int | None, typer.Option(help="Changed causes of one variable at most; from p and changes if left out.")
    ] = None,
    epsilon: Annotated[
        float, typer.Option(help="Half the smallest change of a partial correlation that has to be found.")
    ] = 0.1,
    delta: Annotated[float, typer.Option(help="Probability of failure, at most 0.5.")] = 0.05,
    json: Json = False,
) -> None:
    """Say what the paper's theorems tell about the number of rows a study needs."""
    from json import dumps  # noqa: PLC0415

    from diffdag.reproduce.experiments.figure4 import measured_text  # noqa: PLC0415
    from diffdag.reproduce.planning import plan as make_plan  # noqa: PLC0415

    answer = make_plan(
        p,
        changes,
        parents=parents,
        epsilon=epsilon,
        delta=delta,
        samples=samples,
        measured=measured_text(),
    )
    print(dumps(answer.to_dict(), indent=2) if json else answer.text())
