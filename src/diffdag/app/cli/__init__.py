"""The command line: one file per group of commands."""

from diffdag.app.cli import (  # noqa: F401 - commands register themselves
    explain,
    export,
    fit,
    moments,
    path,
    serve,
    simulate,
)
