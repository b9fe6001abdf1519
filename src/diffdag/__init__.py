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
    from diffdag.report.plots.brain import plot_brain
    from diffdag.report.plots.difference import plot_difference
    from diffdag.report.plots.edge import plot_edge
    from diffdag.report.plots.heatmap import plot_precision
    from diffdag.report.plots.stability import plot_stability
    from diffdag.reproduce.methods.compare import compare_methods
    from diffdag.results.conditions_result import ConditionsResult, load_conditions
    from diffdag.results.records import GlobalTest
    from diffdag.results.result import DifferenceResult, load_result
    from diffdag.tables.groups import split_groups
    from diffdag.tables.moments import Moments
    from diffdag.tables.readers.coordinates import read_coordinates
    from diffdag.trust.permutation import global_test
    from diffdag.trust.resampling import Resamples, resample_fits
    from diffdag.trust.sensitivity import SettingsPath
    from diffdag.trust.settings_path import settings_path

# Names are imported on first use: `import diffdag` stays quick.
_HOME = {
    "ConditionsResult": "results.conditions_result",
    "DiffDagWarning": "_base.errors",
    "DifferenceDAG": "estimator",
    "DifferenceResult": "results.result",
    "GlobalTest": "results.evidence",
    "InputError": "_base.errors",
    "LinearSEM": "model.sem",
    "Moments": "tables.moments",
    "Resamples": "trust.resampling",
    "SEMPair": "model.sem",
    "SettingsPath": "trust.sensitivity",
    "compare_methods": "reproduce.methods.compare",
    "fit_conditions": "conditions",
    "global_test": "trust.permutation",
    "load_conditions": "results.conditions_result",
    "load_result": "results.result",
    "load_sachs": "model.datasets",
    "load_sachs_pair": "model.datasets",
    "plot_brain": "report.plots.brain",
    "plot_difference": "report.plots.difference",
    "plot_edge": "report.plots.edge",
    "plot_precision": "report.plots.heatmap",
    "plot_stability": "report.plots.stability",
    "precision_difference": "precision.api",
    "read_coordinates": "tables.readers.coordinates",
    "resample_fits": "trust.resampling",
    "settings_path": "trust.settings_path",
    "simulate_pair": "model.sem",
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
