"""diffdag: what changed between two conditions, as a difference DAG."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diffdag._base.errors import DiffDagWarning, InputError
    from diffdag.conditions import fit_conditions
    from diffdag.estimator import DifferenceDAG
    from diffdag.model.datasets import load_sachs, load_sachs_pair
    from diffdag.model.sem import LinearSEM, SEMPair, simulate_pair
    from diffdag.precision.api import precision_difference
    from diffdag.reproduce.methods.compare import compare_methods
    from diffdag.result import ConditionsResult, DifferenceResult, PathResult, load
    from diffdag.results.records import GlobalTest
    from diffdag.tables.groups import split_all_groups, split_groups
    from diffdag.tables.moments import Moments
    from diffdag.tables.readers.coordinates import read_coordinates
    from diffdag.trust.permutation import global_test
    from diffdag.trust.resampling import Resamples, resample_fits
    from diffdag.trust.settings_path import settings_path

# Names are imported on first use: `import diffdag` stays quick.
_HOME = {
    "ConditionsResult": "result",
    "DiffDagWarning": "_base.errors",
    "DifferenceDAG": "estimator",
    "DifferenceResult": "result",
    "GlobalTest": "results.records",
    "InputError": "_base.errors",
    "LinearSEM": "model.sem",
    "Moments": "tables.moments",
    "PathResult": "result",
    "Resamples": "trust.resampling",
    "SEMPair": "model.sem",
    "compare_methods": "reproduce.methods.compare",
    "fit_conditions": "conditions",
    "global_test": "trust.permutation",
    "load": "result",
    "load_sachs": "model.datasets",
    "load_sachs_pair": "model.datasets",
    "precision_difference": "precision.api",
    "read_coordinates": "tables.readers.coordinates",
    "resample_fits": "trust.resampling",
    "settings_path": "trust.settings_path",
    "simulate_pair": "model.sem",
    "split_all_groups": "tables.groups",
    "split_groups": "tables.groups",
}

__all__ = [
    "ConditionsResult",
    "DiffDagWarning",
    "DifferenceDAG",
    "DifferenceResult",
    "GlobalTest",
    "InputError",
    "LinearSEM",
    "Moments",
    "PathResult",
    "Resamples",
    "SEMPair",
    "compare_methods",
    "fit_conditions",
    "global_test",
    "load",
    "load_sachs",
    "load_sachs_pair",
    "precision_difference",
    "read_coordinates",
    "resample_fits",
    "settings_path",
    "simulate_pair",
    "split_all_groups",
    "split_groups",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("diffdag")
    if name in _HOME:
        return getattr(importlib.import_module(f"diffdag.{_HOME[name]}"), name)
    raise AttributeError(f"module 'diffdag' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
