"""diffdag: what changed between two conditions, as a difference DAG."""

from __future__ import annotations

import importlib

# Public names and their homes, imported on first use: `import diffdag` stays quick. Types: __init__.pyi.
_HOME = {
    "ConditionsResult": "result",
    "DiffDagWarning": "_base.errors",
    "DifferenceDAG": "estimator",
    "DifferenceResult": "result",
    "InputError": "_base.errors",
    "LinearSEM": "model.sem",
    "Moments": "tables.moments",
    "compare_methods": "reproduce.methods.compare",
    "fit_conditions": "conditions",
    "load": "result",
    "load_sachs_pair": "model.datasets",
    "precision_difference": "precision.api",
    "read_table": "tables.readers.files",
    "settings_path": "refits",
    "simulate_pair": "model.simulate",
    "split_groups": "tables.groups",
}

__all__ = sorted(_HOME)  # noqa: PLE0605 - the stub lists them


def __getattr__(name: str) -> object:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("diffdag")
    if name in _HOME:
        return getattr(importlib.import_module(f"diffdag.{_HOME[name]}"), name)
    raise AttributeError(f"module 'diffdag' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
