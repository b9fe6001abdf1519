"""A process that does one task in a folder of its own, and can be ended with all its helpers.

The task is in ``task.json`` there, the answer in ``answer.json``, what went wrong in ``log.txt``; lines of JSON
on the standard output tell how far it has come. It ends by itself when its standard input does, so nothing
stays behind if the server is killed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from diffdag._base.atomic import write_atomic
from diffdag._base.errors import InputError, describe_resource_error

Tell = Callable[[dict[str, Any]], object]

LOST = (
    "the work was ended from outside, most likely because memory ran out; "
    "compare fewer columns, or close other programs and try again"
)
LONGEST = 20_000  # characters of a log, from its end
NO_ROOM = 74  # how a process ends that cannot even write down what went wrong
FULL = describe_resource_error(OSError(errno.ENOSPC, ""))
FAULT = "the work stopped because of a fault in diffdag; please report it with the log"


class LostError(InputError):
    """A process that died, or could not finish, without saying why; what its `log` says may help."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class Child:
    """A process that works in `folder` on a task of `diffdag.app.serve.worker`."""

    def __init__(self, folder: Path, task: dict[str, Any]) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._gone = False
        command = [sys.executable, "-m", "diffdag.app.serve.worker", str(folder)]
        try:
            write_atomic(folder / "task.json", json.dumps(task))
            with (folder / "log.txt").open("wb") as log:
                self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
                )
        except OSError as error:
            raise InputError(describe_resource_error(error)) from error

    def follow(self, tell: Tell) -> dict[str, Any]:
        """Wait for the answer; `tell` is called with whatever the process says on the way.

        What it found to be wrong is raised as an InputError, its death as a LostError.
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
            if code == NO_ROOM:
                raise InputError(FULL) from None
            log = ""
            with contextlib.suppress(OSError):
                log = (self.folder / "log.txt").read_text(encoding="utf-8", errors="replace")[-LONGEST:]
            raise LostError(LOST if code < 0 else FAULT, log) from None
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


class Cancellation:
    """Ends the process of somebody who no longer waits for its answer, also one that has not begun."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._pulled = False

    def hold(self, begin: Callable[[], Child]) -> Child:
        """Begin a process, unless nobody waits any more."""
        with self._lock:
            if self._pulled:
                raise InputError("nobody waits for this any more")
            self._child = begin()
            return self._child

    def pull(self) -> None:
        """End it."""
        with self._lock:
            self._pulled = True
        if self._child is not None:
            self._child.end()


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a process, and leave its number taken where the system can do that."""
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()
