"""Every table and figure of the paper as an experiment: one file each, run by `runner.run`."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import cast

from diffdag._base.extras import extra
from diffdag.reproduce.experiments.runner import Experiment

NAMES = ("table1", "figure2", "figure3", "figure4", "brain")


def experiment(name: str, data: Path | None = None) -> Experiment:
    """The experiment of that name; `data` is the folder that ``brain`` reads."""
    with extra("matplotlib", "plots"):  # all of them draw
        module = importlib.import_module(f"{__name__}.{name}")
    return cast(Experiment, module.EXPERIMENT if data is None else module.experiment_for(data))
