"""Run the sessions on the pages of docs/, and write what they say now in place of what they said.

Run with ``.venv/bin/python docs/make_sessions.py [page.md ...]`` after outputs changed on purpose, and read the
difference before you commit it; ``tests/test_docs.py`` compares.
"""

from __future__ import annotations

import contextlib
import doctest
import os
import re
import sys
import tempfile
from pathlib import Path

from diffdag._base.atomic import write_atomic

HERE = Path(__file__).resolve().parent
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Rewriter(doctest.DocTestRunner):
    """Keeps what each example printed, if it is not what the page shows."""

    def __init__(self) -> None:
        super().__init__(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
        self.said: dict[int, str] = {}

    def report_failure(self, out: object, test: object, example: doctest.Example, got: str) -> None:
        """An example that now says something else."""
        self.said[id(example)] = got


def shown(said: str, before: str) -> str:
    """An output as a page has it; where it was cut short, after as many paragraphs."""
    parts = said.split("\n\n")
    if before.endswith("\n...\n"):
        parts = [*parts[: before.count("<BLANKLINE>")], parts[before.count("<BLANKLINE>")] + "\n...\n"]
    return "\n<BLANKLINE>\n".join(parts)


def rewritten(text: str, name: str) -> str:
    """The text of a page with outputs as they are now."""
    blocks = [block[1] for block in PYTHON.finditer(text) if ">>>" in block[1]]
    shared: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        test = doctest.DocTestParser().get_doctest(block, shared, name, name, 0)
        test.globs = shared  # sessions go on from block to block
        runner = Rewriter()
        runner.run(test, clear_globs=False)
        fresh = block
        for example in test.examples:
            if id(example) in runner.said:
                fresh = fresh.replace(example.want, shown(runner.said[id(example)], example.want), 1)
        text = text.replace(block, fresh, 1)
    return text


def main() -> None:
    names = sys.argv[1:] or sorted(path.relative_to(HERE).as_posix() for path in HERE.rglob("*.md"))
    for name in names:
        path = HERE / name
        text = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            fresh = rewritten(text, name)
        if fresh != text:
            print(write_atomic(path, fresh))


if __name__ == "__main__":
    os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")
    main()
