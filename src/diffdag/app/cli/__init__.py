"""The command line: one file a group of commands."""

from diffdag.app.cli import experiments, export, fit, moments, path, resample, serve, simulate  # noqa: F401 - commands register themselves
from diffdag.app.cli.app import run

__all__ = ["run"]
