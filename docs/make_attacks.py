"""Fill docs/dev/attacks.md from the newest runs in benchmarks/results/.

    .venv/bin/python docs/make_attacks.py

A block ``<!-- begin kills -->`` holds the newest table of benchmarks/kills.py; a second word names one of a
benchmark's sections.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from diffdag._base.atomic import write_atomic

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "benchmarks"))
from record import RESULTS, fill, kept, markdown  # noqa: E402

PAGE = HERE / "dev" / "attacks.md"
Run = dict[str, Any]


def newest(name: str, folder: Path = RESULTS) -> Run:
    """The newest run of a benchmark, or of one of its sections."""
    benchmark, _, section = name.partition(" ")
    wanted = {section or benchmark, section}
    return [run for run in kept(folder / f"{benchmark}.jsonl") if run["section"] in wanted][-1]


def table(run: Run) -> str:
    made = f"{run['date']}, commit {run['commit']}, {run['machine']}"
    return f"{run['title']} ({made}):\n\n{markdown(run['columns'], run['rows'])}"


def filled(page: str) -> str:
    """The page with every block made anew."""
    return fill(page, lambda name: table(newest(name)))


if __name__ == "__main__":
    write_atomic(PAGE, filled(PAGE.read_text(encoding="utf-8")))
