"""The options of the model, for every command that fits one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diffdag.app.cli.app import MissingRows, refuse, split_names, split_numbers

if TYPE_CHECKING:
    from diffdag.estimator import DifferenceDAG

ROWS_ONLY = ("covariance", "effective_samples", "cluster", "whiten")


def model_options(
    method: Annotated[
        str | None, typer.Option(help="order: search over causal orders (default); paper: Algorithm 1.")
    ] = None,
    estimator: Annotated[
        str | None, typer.Option(help="With --method paper: dantzig (the default), dtrace, kliep or plugin.")
    ] = None,
    penalty: Annotated[
        str | None,
        typer.Option(
            help="Penalty of a change, as a multiple of the default. With --method paper: fraction of the "
            "penalty that gives no change; or rate:C, C sqrt(log p / n)."
        ),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="With --method paper: its epsilon; smaller entries count as zero.")
    ] = None,
    noise: Annotated[
        str | None, typer.Option(help="auto (the default), or equal if no noise variance differs between them.")
    ] = None,
    order: Annotated[str | None, typer.Option(help="Known causal order, causes first: a,b,c.")] = None,
    tiers: Annotated[
        Path | None, typer.Option(help="File with one tier per line, causes first: names separated by commas.")
    ] = None,
    required: Annotated[
        list[str] | None, typer.Option(help="Direction an effect must have: 'a->b'. May be repeated.")
    ] = None,
    forbidden: Annotated[
        list[str] | None, typer.Option(help="Direction it cannot have: 'a->b'. May be repeated.")
    ] = None,
    covariance: Annotated[
        str | None, typer.Option(help="sample (the default), winsorised (outliers), spearman (unknown scales).")
    ] = None,
    effective_samples: Annotated[
        str | None, typer.Option(help="Independent rows each table is worth: N, N1,N2, or auto (time series).")
    ] = None,
    whiten: Annotated[
        str | None,
        typer.Option(help="Take the memory of a time series out: ar (an autoregression) or differences."),
    ] = None,
    max_variables: Annotated[
        int | None, typer.Option(help="Keep at most so many variables that seem to take part; 200 if left out.")
    ] = None,
    adjust: Annotated[
        str | None,
        typer.Option(help="Covariates to take out: age,sex,batch; hidden, or a number: hidden causes."),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Column that names what rows are nested in: donor, site, subject.")
    ] = None,
    missing: MissingRows = "error",
    jobs: Annotated[
        int, typer.Option(help="Workers; -1 for one per core. The result does not depend on it.")
    ] = -1,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of all randomness; the same seed gives the same result.")
    ] = None,
) -> dict[str, Any]:
    """Make parameters of `DifferenceDAG` of the options of the command line."""
    from diffdag.model.prior_knowledge import read_tiers  # noqa: PLC0415

    if adjust is not None and not split_names(adjust):
        refuse("--adjust names no column; name some, such as age,batch, or leave it out")
    return {
        "method": method,
        "estimator": estimator,
        "penalty": _number_or_text(penalty),
        "threshold": threshold,
        "noise": noise,
        "order": split_names(order),
        "tiers": None if tiers is None else read_tiers(tiers),
        "required": required or None,
        "forbidden": forbidden or None,
        "covariance": covariance,
        "effective_samples": _rows(effective_samples),
        "whiten": whiten,
        "max_variables": max_variables,
        "adjust": int(adjust) if adjust is not None and adjust.strip().isdecimal() else split_names(adjust),
        "cluster": cluster,
        "missing": missing,
        "n_jobs": jobs,
        "rng": seed,
    }


def build(model: dict[str, Any], **more: Any) -> DifferenceDAG:
    """Return the estimator; what was left out is its default."""
    from diffdag.estimator import DifferenceDAG  # noqa: PLC0415 - after what fails at once

    return DifferenceDAG(**{name: value for name, value in {**model, **more}.items() if value is not None})


def refuse_rows(model: dict[str, Any], **more: Any) -> None:
    """Refuse options that would need the rows."""
    for name, value in {**more, **{name: model[name] for name in ROWS_ONLY}}.items():
        if value is not None:
            option = "--" + name.replace("_", "-")
            refuse(f"{option} acts on rows, and only moments are known; give two tables, or leave it out")


def _rows(text: str | None) -> float | tuple[float, ...] | str | None:
    """N, N1,N2 or a word; the estimator judges the rest."""
    if text is None or text == "auto":
        return text
    numbers = split_numbers("--effective-samples", text)
    return tuple(numbers) if "," in text else numbers[0]


def _number_or_text(text: str | None) -> float | str | None:
    """Give numbers as numbers; the estimator judges the rest."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text
