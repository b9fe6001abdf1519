"""Every method that finds changed effects, in worlds that suit some of them and not others."""

from diffdag.reproduce.experiments.rivals.experiment import EXPERIMENT

__all__ = ["EXPERIMENT"]
