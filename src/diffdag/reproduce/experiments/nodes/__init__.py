"""Which variables' mechanisms changed: every method that ranks variables, on simulations and on a machine."""

from diffdag.reproduce.experiments.nodes.experiment import experiment_for

__all__ = ["experiment_for"]
