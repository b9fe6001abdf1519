"""The program as the system sees it: its streams, the signals that end it, its exit code.

``python -m diffdag``, and the command ``diffdag``. Nothing is imported here that takes long, so that an
interruption while the commands are being imported is also answered in one line.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

INTERRUPTED = 130
TO_END = ("SIGTERM", "SIGHUP")  # a request to end, a terminal that was closed


def main() -> None:
    """Run the command line and leave with its exit code."""
    received: list[int] = []
    try:
        _end_on_signals(received)
        _open_streams()
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = INTERRUPTED
        with contextlib.suppress(OSError, KeyboardInterrupt):
            print("diffdag: interrupted", file=sys.stderr)
    sys.exit(128 + received[0] if received and code == INTERRUPTED else code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line, the words after the program's name, and return its exit code."""
    commands()
    from diffdag.app.cli.app import run as run_command  # noqa: PLC0415 - see above

    return run_command(arguments)


def commands() -> typer.Typer:
    """Return the program with every command, those of the rooms `app` and `reproduce`."""
    import diffdag.reproduce.commands  # noqa: F401, PLC0415 - they register themselves
    from diffdag.app.cli.app import app  # noqa: PLC0415

    return app


def _end_on_signals(received: list[int]) -> None:
    """Let signals to end clean up as Ctrl-C does, unless somebody has them ignored (nohup)."""

    def end(number: int, frame: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    for name in TO_END:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)


def _open_streams() -> None:
    """Put something in the place of streams that are closed: files opened later would get their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - until the end
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a narrow terminal is no reason to lose the result


if __name__ == "__main__":
    main()
