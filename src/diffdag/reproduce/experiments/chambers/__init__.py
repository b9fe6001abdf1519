"""The light tunnel of the Causal Chambers: a machine whose graph, and what was done to it, are known."""

from diffdag.reproduce.experiments.chambers.experiment import experiment_for

__all__ = ["experiment_for"]
