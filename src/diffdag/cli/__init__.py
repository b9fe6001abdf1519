"""The command line: one file a group of commands."""

from diffdag.cli import experiments, fit, moments, path, resample, simulate  # noqa: F401 - commands register themselves
from diffdag.cli.app import main, run

__all__ = ["main", "run"]
