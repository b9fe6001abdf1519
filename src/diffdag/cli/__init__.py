"""The command line: one file a group of commands."""

from diffdag.cli import experiments, export, fit, moments, path, serve, simulate  # noqa: F401 - commands register themselves
from diffdag.cli.app import run

__all__ = ["run"]
