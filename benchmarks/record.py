"""Where and when a figure was measured, so that no table stands without it; every table is printed and kept.

A table becomes one line of ``results/<benchmark>.jsonl``: date, commit, machine, settings, columns and rows.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from measure import plain

from diffdag.reproduce.experiments.runner import made_now

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"


def where() -> str:
    return f"{made()}, {machine()}"


def made() -> str:
    """Date and commit; a plus where the code differs from it, so that the commit alone would not do."""
    return made_now() + ("+" if changed_since() else "")


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    section: str = "",
    settings: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> None:
    """Print a Markdown table, ready for the docs, and keep it.

    Parameters
    ----------
    title, columns, rows
        Floats are printed with three digits and kept with six.
    section : str
        Which of a benchmark's tables it is.
    settings : mapping, optional
        JSON values; the command's arguments if left out.
    name : str, optional
        The benchmark, by default the script that runs.
    """
    print(f"{title} ({where()})\n\n{markdown(columns, rows)}\n", flush=True)
    date, _, commit = made().partition(", commit ")
    keep(
        RESULTS / f"{name or Path(sys.argv[0]).stem}.jsonl",
        {
            "section": section,
            "title": title,
            "date": date,
            "commit": commit,
            "machine": machine(),
            "settings": dict(settings) if settings is not None else {"arguments": arguments()},
            "columns": list(columns),
            "rows": [[plain(cell) for cell in row] for row in rows],
        },
    )


def arguments() -> list[str]:
    """The command's arguments, without the folders of this machine."""
    return [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]


def markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [list(columns), ["---"] * len(columns), *([shown(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shown(cell: Any) -> str:
    cell = plain(cell)
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.0f}" if 100 <= abs(cell) < 1e6 else f"{cell:.3g}"
    return str(cell)


def fill(page: str, block: Callable[[str], str]) -> str:
    """A page of the docs with the text between ``<!-- begin NAME -->`` and ``<!-- end -->`` made anew."""

    def anew(match: re.Match[str]) -> str:
        return f"<!-- begin {match[1]} -->\n{block(match[1])}\n<!-- end -->"

    return re.sub(r"<!-- begin ([^>]+) -->\n.*?<!-- end -->", anew, page, flags=re.DOTALL)


def changed_since() -> bool:
    """Whether the code differs from the commit."""
    git = [
        "git",
        "-C",
        str(HERE.parent),
        "status",
        "--porcelain",
        "--",
        "src",
        "benchmarks/*.py",
        "benchmarks/core_fuzz",
    ]
    try:
        answer = subprocess.run(git, capture_output=True, text=True, check=False)
    except OSError:
        return False
    return bool(answer.stdout.strip())


def keep(path: Path, entry: Mapping[str, Any]) -> None:
    """Append one line in one write; a line that an earlier run left unfinished is ended first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(entry, ensure_ascii=False) + "\n"
    if path.exists() and (before := path.read_bytes()) and not before.endswith(b"\n"):
        line = "\n" + line
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(handle, line.encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def kept(path: Path) -> Iterator[dict[str, Any]]:
    """The entries of a file, oldest first, without a line that was cut off."""
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue
