"""The command that writes a saved result in the formats of other programs: export."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from diffdag.app.cli.app import app, print_files, refuse
from diffdag.app.cli.fit import Result

if TYPE_CHECKING:
    from diffdag.result import ConditionsResult, DifferenceResult

GRAPHS = {".cyjs", ".dot", ".gv", ".graphml", ".sif"}
PICTURES = {".pdf", ".png"}
ENDINGS = (".cyjs", ".dot", ".gv", ".sif", ".graphml", ".json", ".csv", ".html", ".svg", ".pdf", ".png")


@app.command()
def export(
    result: Result,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES",
            help="What to write, the format by the ending: .cyjs (Cytoscape), .dot or .gv (Graphviz), .sif, "
            ".graphml, .json, .csv, .html; .svg, .pdf or .png (the picture; .png with 300 dots per inch).",
        ),
    ],
) -> None:
    """Write a saved result for other programs: Cytoscape, Graphviz, spreadsheets, pages, figures."""
    for path in files:
        if path.suffix.lower() not in ENDINGS:
            refuse(f"'{path}' has no ending that is known here; give one of {', '.join(ENDINGS)}")
        if path.is_dir() or not path.parent.is_dir():
            refuse(f"'{path}' is a folder, or in none that exists; give a file in a folder")
    from diffdag._base.atomic import write_all  # noqa: PLC0415
    from diffdag.result import DifferenceResult, load  # noqa: PLC0415

    saved = load(result)
    if isinstance(saved, DifferenceResult):
        contents: list[str | bytes] = [_one(saved, path.suffix.lower()) for path in files]
    else:
        contents = [_several(saved, path, result) for path in files]
    print_files(write_all(dict(zip(files, contents, strict=True))))


def _one(result: DifferenceResult, ending: str) -> str | bytes:
    """The content of a file about two conditions."""
    if ending in PICTURES:
        return _figure(result, ending)
    from diffdag.report.html import page  # noqa: PLC0415
    from diffdag.results.json import to_csv  # noqa: PLC0415

    writers: dict[str, Callable[[], str]] = {
        ".cyjs": lambda: json.dumps(result.to_cytoscape(), ensure_ascii=False, indent=1) + "\n",
        ".dot": result.to_dot,
        ".gv": result.to_dot,
        ".sif": result.to_sif,
        ".graphml": result.to_graphml,
        ".json": result.to_json,
        ".csv": lambda: to_csv(result),
        ".html": lambda: page.render_page(result),
        ".svg": lambda: page.render_svg(result),
    }
    return writers[ending]()


def _several(result: ConditionsResult, path: Path, source: Path) -> bytes:
    """The content of a file about several conditions; a graph is of one comparison."""
    from diffdag._base.words import plural  # noqa: PLC0415

    ending = path.suffix.lower()
    if ending in GRAPHS:
        folder = source if source.is_dir() else source.parent
        example = folder / next(iter(result.folders().values())) / "result.json"
        refuse(
            f"'{source}' holds {plural(len(result.pairs), 'comparison')}, and a {ending} file one graph; give "
            f"the result of one of them, such as '{example}'"
        )
    if ending == ".svg":
        from diffdag.report.plots.chart import svg_of  # noqa: PLC0415

        return svg_of(result.plot()).encode("utf-8")
    if ending in PICTURES:
        return _figure(result, ending)
    names = {".json": "conditions.json", ".csv": "changes.csv", ".html": "report.html"}
    return result.rendered()[names[ending]]


def _figure(result: DifferenceResult | ConditionsResult, ending: str) -> bytes:
    """The picture of a result, for print."""
    from diffdag.report.plots.chart import pdf_of, png_of  # noqa: PLC0415

    return (pdf_of if ending == ".pdf" else png_of)(result.plot())
