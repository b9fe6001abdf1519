"""A process that does one task in a folder of its own, and can be ended with all its helpers.

The task is in ``task.json`` there, the answer in ``answer.json``, what went wrong in ``log.txt``; lines of JSON
on the standard output tell how far it has come. It ends by itself when its standard input does, so nothing
stays behind if the server is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from diffdag.atomic import write_atomic
from diffdag.validation import InputError

Tell = Callable[[dict[str, Any]], object]

LOST = (
    "the work was ended from outside, most likely because memory ran out; "
    "compare fewer columns, or close other programs and try again"
)
FAULT = "the work stopped because of a fault in diffdag; please report it with the log"


class LostError(InputError):
    """A process that died, or could not finish, without saying why."""


class Child:
    """One process at work.

    Parameters
    ----------
    folder : Path
        Where it works.
    task : dict
        What it has to do; see `diffdag.serve.work`.
    """

    def __init__(self, folder: Path, task: dict[str, Any]) -> None:
        write_atomic(folder / "task.json", json.dumps(task))
        self.folder = folder
        self._lock = threading.Lock()
        self._gone = False
        with (folder / "log.txt").open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-m", "diffdag.serve.work", str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    def follow(self, tell: Tell) -> dict[str, Any]:
        """Wait for the answer; `tell` is called with whatever the process says on the way.

        Raises
        ------
        InputError
            With what the process found to be wrong.
        LostError
            If it died.
        """
        reader = threading.Thread(target=self._read, args=(tell,), daemon=True)
        reader.start()
        with self._process:
            _wait(self._process)
            with self._lock:
                self._kill()  # helpers that outlived it
                code = self._process.wait()
                self._gone = True
            reader.join()
        return self._answer(code)

    def _read(self, tell: Tell) -> None:
        assert self._process.stdout is not None  # noqa: S101 - for the type checker
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):
                tell(json.loads(line))

    def _answer(self, code: int) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = json.loads((self.folder / "answer.json").read_bytes())
        except OSError:
            raise LostError(LOST if code < 0 else FAULT) from None
        if "error" in answer:
            raise InputError(answer["error"])
        return answer

    def end(self) -> None:
        """Kill the process and its helpers."""
        with self._lock:
            if not self._gone:
                self._kill()

    def _kill(self) -> None:
        # As long as nobody waited for the process its number belongs to nobody else.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a process, and leave its number taken where the system can do that."""
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()
