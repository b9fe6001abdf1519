"""What has to hold of every output: it is whole, or it is not there."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

from diffdag.result import load
from diffdag.tables.moments import Moments


class Partial(Exception):
    """An output that is there and not whole, or a message or an exit code that does not fit."""


def hold(true: object, what: str) -> None:
    if not true:
        raise Partial(what)


def whole(paths: list[Path]) -> None:
    """Refuse outputs that are not complete."""
    for path in paths:
        hold(not path.name.endswith(".tmp"), f"{path.name} is left over")
        check = WHOLE.get(path.suffix)
        try:
            if check is not None:
                check(path)
        except Exception as error:  # whatever a reader says
            raise Partial(f"{path.name} is not whole: {error!r}"[:300]) from error


def _whole_json(path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda constant: 1 / 0)
    if isinstance(content, dict) and ("comparisons" in content or "delta_precision" in content):
        load(path)


def _whole_csv(path: Path) -> None:
    with path.open(encoding="utf-8", newline="") as file:
        lengths = {len(row) for row in csv.reader(file)}
    hold(len(lengths) == 1, "ragged rows")


def _whole_page(path: Path) -> None:
    hold(path.read_text(encoding="utf-8").rstrip().endswith("</html>"), "half a page")


WHOLE: dict[str, Callable[[Path], Any]] = {
    ".json": _whole_json, ".csv": _whole_csv, ".html": _whole_page, ".graphml": ET.parse, ".svg": ET.parse,
    ".npz": Moments.load,
}  # fmt: skip
