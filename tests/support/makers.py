"""The scripts that fill pages of the docs, as modules."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from studies import DOCS


@contextmanager
def loaded(name: str) -> Iterator[ModuleType]:
    """One of them, and what it imports from the benchmarks, forgotten afterwards."""
    before = list(sys.path)
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path[:] = before
        for part in ("record", "measure"):
            sys.modules.pop(part, None)
