"""Where and when a figure was measured, so that no table stands without it."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess


def where() -> str:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    today = datetime.datetime.now(tz=datetime.UTC).date()
    return (
        f"{today}, commit {commit.stdout.strip() or 'unknown'}, {os.cpu_count()} cores, "
        f"{platform.machine()}, Python {platform.python_version()}"
    )


def print_table(title: str, columns: list[str], rows: list[list[object]]) -> None:
    """A Markdown table, ready for the docs."""
    print(f"{title} ({where()})\n")
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print(flush=True)
