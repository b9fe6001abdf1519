"""Where and when a figure was measured, so that no table stands without it."""

from __future__ import annotations

import os
import platform

from diffdag.experiments.runner import made_now


def where() -> str:
    return f"{made_now()}, {os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"


def print_table(title: str, columns: list[str], rows: list[list[object]]) -> None:
    """A Markdown table, ready for the docs."""
    print(f"{title} ({where()})\n")
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print(flush=True)
