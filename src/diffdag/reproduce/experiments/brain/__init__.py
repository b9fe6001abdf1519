"""The brain experiment: data, an invented study whose truth is known, fits and pictures."""

from diffdag.reproduce.experiments.brain.experiment import EXPERIMENT, experiment_for

__all__ = ["EXPERIMENT", "experiment_for"]
