"""Every table and figure of the paper, and tables on real data, as experiments run by `runner.run`."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import cast

from diffdag._base.extras import extra
from diffdag.reproduce.experiments.runner import Experiment

NAMES = ("table1", "figure2", "figure3", "figure4", "brain", "chambers", "sachs", "nodes", "rivals", "wide")
WITH_DATA = ("brain", "chambers", "nodes")  # experiments that read a folder
NEED_DATA = ("chambers",)  # and have no data of their own


def experiment(name: str, data: Path | None = None) -> Experiment:
    """The experiment of that name; `data` is the folder that it reads, if it is one of ``WITH_DATA``."""
    with extra("matplotlib", "plots"):  # most of them draw
        module = importlib.import_module(f"{__name__}.{name}")
    return cast(Experiment, module.experiment_for(data) if name in WITH_DATA else module.EXPERIMENT)
