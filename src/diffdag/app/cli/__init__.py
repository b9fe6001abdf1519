"""The command line: one file per group of commands."""

from diffdag.app.cli import export, fit, moments, path, serve, simulate  # noqa: F401 - commands register themselves
