"""The commands that need this room: compare, reproduce, plan. `diffdag.__main__` puts them with the others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffdag.app.cli import app as cli
from diffdag.app.cli.inputs import Inputs

if TYPE_CHECKING:
    from diffdag.reproduce.experiments.runner import Experiment
    from diffdag.reproduce.methods.compare import Comparison


@cli.app.command()
@cli.takes(inputs=Inputs)
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
    missing: cli.MissingRows = "error",
    jobs: Annotated[int | None, typer.Option(help="Methods that run at a time; 1 if left out.")] = None,
    dask: cli.Dask = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for methods.csv, edges.csv, agreement.csv and compare.json.")
    ] = None,
    json: cli.Json = False,
) -> None:
    """Run every available method on the same two tables, side by side."""
    cli.check_folder(out)
    cli.check_workers(jobs, dask)
    one, two, _ = inputs.read_pair(missing)
    from diffdag._base.atomic import write_together  # noqa: PLC0415
    from diffdag._base.parallel import use_cluster  # noqa: PLC0415
    from diffdag.reproduce.methods.compare import compare_methods  # noqa: PLC0415

    with use_cluster(dask), cli.working("Comparing methods") as status:
        found = compare_methods(
            one,
            two,
            methods=cli.split_methods(methods),
            order=cli.split_names(order),
            limit=limit,
            **inputs.choice,
            missing=missing,  # type: ignore[arg-type]  # checked there
            started=lambda name: status(f"Running {name}"),
            n_jobs=1 if jobs is None else jobs,
        )
    files = []
    if out is not None:
        contents = {
            "methods.csv": found.methods.to_csv(index=False, lineterminator="\n"),
            "edges.csv": found.edges.to_csv(index=False, lineterminator="\n"),
            "agreement.csv": found.agreement.to_csv(lineterminator="\n", float_format="%.4f"),
            "compare.json": found.to_json(),
        }
        files = write_together(out, contents)
    print(found.to_json() if json else comparison_text(found), end="")
    if files and not json:
        print()
        cli.print_files(files)


def comparison_text(found: Comparison) -> str:
    """A comparison for the terminal: methods, edges, agreement, what was skipped. Methods go by numbers."""
    from diffdag.report.format import printable  # noqa: PLC0415

    number = {name: str(k) for k, name in enumerate(found.graphs, start=1)}
    ran = found.methods[found.methods["skipped"] == ""].drop(columns="skipped")
    ran.insert(0, "no.", [number[name] for name in ran["method"]])
    edges = found.edges.rename(columns=number)
    for end in ("source", "target"):
        edges[end] = edges[end].map(printable)
    shown = edges.head(cli.EDGES_SHOWN).to_string(index=False) if len(edges) else "none"
    parts = [
        f"{len(found.names)} variables, {found.samples[0]:,} and {found.samples[1]:,} rows",
        ran.astype({"edges": int, "directed": int}).to_string(index=False),
        "Edges, most often found first (-> from source to target, <- the other way, -- undirected)\n" + shown,
    ]
    if len(edges) > cli.EDGES_SHOWN:
        parts[-1] += f"\n... and {len(edges) - cli.EDGES_SHOWN} more; --out writes all of them"
    if len(found.graphs) > 1:
        agreement = found.agreement.rename(index=number, columns=number)
        matrix = agreement.to_string(float_format="{:.1f}".format)
        parts.append(f"Agreement: pairs of variables found by both among those found by either\n{matrix}")
    if found.skipped:
        lines = [f"  {name}: {printable(why)}" for name, why in found.skipped.items()]
        parts.append("\n".join(["Skipped", *lines]))
    return "\n\n".join(parts) + "\n"


@cli.app.command()
def reproduce(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="table1, figure2, figure3, figure4, brain, chambers, sachs, nodes, rivals or wide.",
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="A small version: a minute or two.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Processes; one per core if left out.")] = None,
    dask: cli.Dask = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the table and the figures; reproduction/WHAT if left out.")
    ] = None,
    pairs: Annotated[int | None, typer.Option(min=1, help="Another number of pairs of models.")] = None,
    methods: Annotated[str | None, typer.Option(help="Some methods only: order,paper,dci-c.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Another seed.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="brain: folder with two tables of regions and their coordinates. "
            "chambers and nodes: folder with light_tunnel*.csv.gz, truth.csv and graph.csv."
        ),
    ] = None,
) -> None:
    """Run an experiment, of the paper or on real data; an interrupted run continues where it stopped."""
    import diffdag.reproduce.experiments as known  # noqa: PLC0415

    if experiment not in known.NAMES:
        cli.refuse(f"no experiment is called '{experiment}'; there are {', '.join(known.NAMES)}")
    if data is not None and experiment not in known.WITH_DATA:
        cli.refuse(f"'{experiment}' has its own data; --data is for {', '.join(known.WITH_DATA)}")
    given = data is not None and experiment not in known.NEED_DATA
    kind = f"{'-data' if given else ''}{'-quick' if quick else ''}"
    folder = Path("reproduction") / f"{experiment}{kind}" if out is None else out
    cli.check_folder(folder)
    cli.check_workers(jobs, dask)
    chosen = known.experiment(experiment, data)
    settings = _settings(chosen, quick, {"pairs": pairs, "methods": cli.split_methods(methods), "seed": seed})
    from diffdag._base.parallel import use_cluster  # noqa: PLC0415
    from diffdag.reproduce.experiments.runner import run  # noqa: PLC0415

    with cli.resumable(folder), use_cluster(dask):
        files, text = run(chosen, settings, folder, -1 if jobs is None else jobs)
    print(text)
    print()
    cli.print_files(files)


def _settings(chosen: Experiment, quick: bool, given: dict[str, Any]) -> dict[str, Any]:
    """The size asked for, with what the user set; cli.refuse what the experiment has no use for."""
    settings = dict(chosen.quick if quick else chosen.full)
    for name, value in given.items():
        if value is not None:
            if name not in settings:
                cli.refuse(f"'{chosen.name}' has no --{name}; leave it out")
            settings[name] = value
    for name in settings.get("methods", ()):
        chosen.find(name)
    return settings


@cli.app.command()
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
    json: cli.Json = False,
) -> None:
    """Say what the paper's theorems tell about the number of rows a study needs."""
    from dataclasses import asdict  # noqa: PLC0415
    from json import dumps  # noqa: PLC0415

    from diffdag.reproduce.planning import measured_text  # noqa: PLC0415
    from diffdag.reproduce.planning import plan as make_plan  # noqa: PLC0415

    known: dict[str, Any] = {"parents": parents, "epsilon": epsilon, "delta": delta, "samples": samples}
    found = make_plan(p, changes, **known, measured=measured_text())
    print(dumps(asdict(found), indent=2) if json else found.text())
