"""Which lines of C++ the tests reach, from what a build with DIFFDAG_COVERAGE left: `make coverage`.

python benchmarks/core_lines.py FOLDER

FOLDER is the build's; its .gcda files are read with gcov. A line counts as reached if any of its instances was.
"""

from __future__ import annotations

import collections
import json
import subprocess
import sys
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

SOURCE = "src/diffdag/"
Counts = dict[str, dict[int, int]]


def read(folder: Path) -> list[dict[str, Any]]:
    """What gcov says about each compiled file."""
    data = sorted(folder.rglob("*.gcda"))
    if not data:
        raise SystemExit(f"No .gcda files in {folder}: run `make coverage`.")
    said = subprocess.run(
        ["gcov", "--json-format", "--stdout", *data], capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in said.stdout.splitlines()]


def merged(units: Iterable[dict[str, Any]]) -> Counts:
    """How often each line of our sources was reached."""
    counts: Counts = collections.defaultdict(dict)
    for unit in units:
        for file in unit["files"]:
            _, ours, name = file["file"].rpartition(SOURCE)
            for line in file["lines"] if ours else ():
                number = line["line_number"]
                counts[name][number] = counts[name].get(number, 0) + line["count"]
    return dict(counts)


def runs(numbers: Iterable[int]) -> str:
    """Line numbers as "3, 7-9"."""
    found = []
    for _, group in groupby(enumerate(sorted(numbers)), lambda item: item[1] - item[0]):
        first, *rest = (number for _, number in group)
        found.append(f"{first}-{rest[-1]}" if rest else str(first))
    return ", ".join(found)


def rows(counts: Counts) -> list[list[Any]]:
    """File, lines, lines reached, percent, and those not reached; last, all files."""
    table = []
    for name, lines in sorted(counts.items()):
        missed = [number for number, count in lines.items() if count == 0]
        table.append([name, len(lines), len(lines) - len(missed), runs(missed)])
    table.append(["all", sum(row[1] for row in table), sum(row[2] for row in table), ""])
    return [[*row[:3], round(100 * row[2] / row[1], 1), row[3]] for row in table]


if __name__ == "__main__":
    from record import print_table

    columns = ["file", "lines", "reached", "%", "not reached"]
    table = rows(merged(read(Path(sys.argv[1]))))
    print_table("Lines of C++ that tests reach", columns, table, section="core_lines", settings={})
