"""The command that draws tables whose differences are known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffdag._base.words import plural
from diffdag.app.cli.app import app, check_folder, print_files, refuse, split_numbers

if TYPE_CHECKING:
    import pandas as pd

    from diffdag.model.simulate import SEMPair


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
    import pandas as pd  # noqa: PLC0415

    from diffdag._base.atomic import write_together  # noqa: PLC0415
    from diffdag.model.simulate import simulate_pair  # noqa: PLC0415

    check_folder(out)
    if change is not None and changes is not None:
        refuse("--change and --changes exclude each other; give one of them")
    randomness = np.random.default_rng(seed).spawn(3)
    pair = simulate_pair(
        p,
        neighbours=neighbours,
        change=0.05 if change is None else change,
        changes=changes,
        noise=noise,  # type: ignore[arg-type]  # checked there
        variances=split_numbers("--variances", variances),
        variances_drawn=variances_drawn,  # type: ignore[arg-type]
        min_epsilon=min_epsilon,
        rng=randomness[0],
    )
    names, frames = list(pair.first.names), {}
    for side, rng in zip(("first", "second"), randomness[1:], strict=True):
        frames[f"{side}.csv"] = pd.DataFrame(getattr(pair, side).sample(samples, rng), columns=names)
    frames["truth.csv"] = _truth(pair)
    texts = {name: frame.to_csv(index=False, lineterminator="\n") for name, frame in frames.items()}
    files = write_together(out, texts)
    print(f"{p} variables, {plural(samples, 'row')} in each table, {plural(len(pair.edges), 'changed edge')}")
    print_files(files)


def _truth(pair: SEMPair) -> pd.DataFrame:
    """The changed edges and their weights, without any p x p array."""
    import pandas as pd  # noqa: PLC0415

    effects, causes = pair.changed_entries
    names = pair.first.names
    columns: dict[str, Any] = {"source": [names[j] for j in causes], "target": [names[i] for i in effects]}
    for side in ("first", "second"):
        weights = getattr(pair, side).effects
        # SciPy returns a sparse array where no entry is asked for.
        columns[f"weight_{side}"] = weights[effects, causes] if len(effects) else []
    return pd.DataFrame(columns)
