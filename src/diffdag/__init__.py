"""diffdag: what changed between two conditions, as a difference DAG."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diffdag.comparators.compare import compare_methods
    from diffdag.conditions import fit_conditions
    from diffdag.conditions_result import ConditionsResult, load_conditions
    from diffdag.coordinates import read_coordinates
    from diffdag.datasets import load_sachs, load_sachs_pair
    from diffdag.estimator import DifferenceDAG
    from diffdag.evidence import GlobalTest
    from diffdag.groups import split_all_groups, split_groups
    from diffdag.moments import Moments
    from diffdag.path import settings_path
    from diffdag.permutation import global_test
    from diffdag.precision import precision_difference
    from diffdag.report.brain import plot_brain
    from diffdag.report.heatmap import plot_precision
    from diffdag.report.plot import plot_difference
    from diffdag.report.scatter_plot import plot_edge
    from diffdag.report.stability_plot import plot_stability
    from diffdag.resampling import Resamples, resample_fits
    from diffdag.result import DifferenceResult, load_result
    from diffdag.sem import LinearSEM, SEMPair, simulate_pair
    from diffdag.sensitivity import SettingsPath
    from diffdag.validation import DiffDagWarning, InputError

# Names are imported on first use: `import diffdag` stays quick.
_HOME = {
    "ConditionsResult": "conditions_result",
    "DiffDagWarning": "validation",
    "DifferenceDAG": "estimator",
    "DifferenceResult": "result",
    "GlobalTest": "evidence",
    "InputError": "validation",
    "LinearSEM": "sem",
    "Moments": "moments",
    "Resamples": "resampling",
    "SEMPair": "sem",
    "SettingsPath": "sensitivity",
    "compare_methods": "comparators.compare",
    "fit_conditions": "conditions",
    "global_test": "permutation",
    "load_conditions": "conditions_result",
    "load_result": "result",
    "load_sachs": "datasets",
    "load_sachs_pair": "datasets",
    "plot_brain": "report.brain",
    "plot_difference": "report.plot",
    "plot_edge": "report.scatter_plot",
    "plot_precision": "report.heatmap",
    "plot_stability": "report.stability_plot",
    "precision_difference": "precision",
    "read_coordinates": "coordinates",
    "resample_fits": "resampling",
    "settings_path": "path",
    "simulate_pair": "sem",
    "split_all_groups": "groups",
    "split_groups": "groups",
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
    "Resamples",
    "SEMPair",
    "SettingsPath",
    "compare_methods",
    "fit_conditions",
    "global_test",
    "load_conditions",
    "load_result",
    "load_sachs",
    "load_sachs_pair",
    "plot_brain",
    "plot_difference",
    "plot_edge",
    "plot_precision",
    "plot_stability",
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
