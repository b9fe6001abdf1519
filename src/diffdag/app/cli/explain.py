"""The command that says why a variable moved: explain."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from diffdag.app.cli.app import Json, app, print_files, refuse
from diffdag.app.cli.fit import Result

if TYPE_CHECKING:
    from diffdag.result import DifferenceResult

ENDINGS = (".svg", ".pdf", ".png")


@app.command()
def explain(
    result: Result,
    target: Annotated[str, typer.Option(help="The variable that moved.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A figure of it to write: .svg, .pdf or .png.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say why a variable moved: which changed mechanisms moved its mean and its variance, and by how much."""
    if out is not None and out.suffix.lower() not in ENDINGS:
        refuse(f"--out '{out}' has no ending that is known here; give one of {', '.join(ENDINGS)}")
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        refuse(f"--out '{out}' is a folder, or in none that exists; give a file in a folder")
    from diffdag.report.explanation import explanation_json, explanation_text  # noqa: PLC0415
    from diffdag.result import DifferenceResult, load  # noqa: PLC0415

    saved = load(result)
    single = isinstance(saved, DifferenceResult)
    if out is not None and not isinstance(saved, DifferenceResult):
        refuse(
            f"'{result}' holds several comparisons, and a figure shows one; leave --out out, or give one result"
        )
    ones = [saved] if isinstance(saved, DifferenceResult) else list(saved.pairs.values())
    said = [explanation_json(one, target) for one in ones]
    if as_json:
        text = json.dumps(said[0] if single else said, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    else:
        text = "\n\n".join(explanation_text(one, target) for one in ones) + "\n"
    written = [] if out is None else [_figure(ones[0], target, out)]
    sys.stdout.write(text)
    if written and not as_json:
        print()
        print_files(written)


def _figure(result: DifferenceResult, target: str, out: Path) -> Path:
    """Write the waterfalls."""
    from diffdag._base.atomic import write_atomic  # noqa: PLC0415
    from diffdag.report.plots.chart import pdf_of, png_of, svg_of  # noqa: PLC0415

    drawn, ending = result.plot_explanation(target), out.suffix.lower()
    if ending == ".svg":
        return write_atomic(out, svg_of(drawn))
    return write_atomic(out, (pdf_of if ending == ".pdf" else png_of)(drawn))
