"""Analyses: one at work, one that waits, and those of this session that are over."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diffdag._base.errors import InputError
from diffdag.app.serve.child import FAULT, Child, LostError
from diffdag.app.serve.folder import keep_answer
from diffdag.app.serve.uploads import UnknownError, Upload, link

WAITING = 1  # besides the one at work
KEPT = 100  # analyses that are over
OPEN = ("waiting", "running")


class BusyError(InputError):
    """No room in the queue."""


@dataclass
class Job:
    """One analysis."""

    key: str
    number: int
    title: str
    folder: Path
    task: dict[str, Any]
    state: str = "waiting"  # then running; then done, failed or cancelled
    message: str = ""
    # Steps done and their number, by kind.
    pieces: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    answer: dict[str, Any] = field(default_factory=dict)
    kept: Path | None = None
    logged: bool = False
    started: float | None = None
    ended: float | None = None
    child: Child | None = None

    def seen(self, place: int | None) -> dict[str, Any]:
        """What the page shows of it."""
        until = time.monotonic() if self.ended is None else self.ended
        plain = ("key", "number", "title", "state", "message", "logged")
        return {
            **{name: getattr(self, name) for name in plain},
            "place": place,
            "pieces": [{"what": what, "done": d, "total": t} for what, (d, t) in self.pieces.items()],
            "headline": self.answer.get("headline"),
            "without": self.answer.get("without", []),
            "kept": None if self.kept is None else str(self.kept),
            "seconds": None if self.started is None else round(until - self.started, 1),
        }


class Jobs:
    """Analyses at work in `folder`; complete results are copied to folders of their own in `out`."""

    def __init__(self, folder: Path, out: Path | None) -> None:
        self.folder, self.out = folder, out
        self._jobs: dict[str, Job] = {}
        self._count = 0
        self._lock = threading.RLock()
        self._closed = False
        self._threads: list[threading.Thread] = []

    def submit(self, title: str, tables: Sequence[Upload], task: dict[str, Any]) -> Job:
        """Put an analysis into the queue, and start it if none is at work."""
        with self._lock:
            if self._closed or sum(job.state in OPEN for job in self._jobs.values()) > WAITING:
                raise BusyError(
                    "one analysis is running and one is waiting; cancel one of them, or start this one later"
                )
            key = secrets.token_hex(16)
            self._count += 1
            folder = self.folder / key
            folder.mkdir()
            placed = {**task, "tables": place_tables(folder, tables)}
            job = self._jobs[key] = Job(key, self._count, title, folder, placed)
            self._start_next()
            self._drop_oldest()
        return job

    def _start_next(self) -> None:
        left = [job for job in self._jobs.values() if job.state in OPEN]
        if self._closed or not left or any(job.state == "running" for job in left):
            return
        job = left[0]
        job.state, job.started = "running", time.monotonic()
        thread = threading.Thread(target=self._do, args=(job,), daemon=True)
        self._threads = [old for old in self._threads if old.is_alive()] + [thread]
        thread.start()

    def _drop_oldest(self) -> None:
        over = [job for job in self._jobs.values() if job.state not in OPEN]
        for job in over[:-KEPT]:
            del self._jobs[job.key]
            shutil.rmtree(job.folder, ignore_errors=True)

    def _do(self, job: Job) -> None:
        answer: dict[str, Any] = {}
        failure: Exception | None = None
        try:
            answer = self._follow(job)
            self._keep(job)
        except Exception as error:  # or the queue would wait for it for ever
            failure = error
        with self._lock:
            if job.state == "cancelled":
                job.message = ""  # whoever ended it knows why
            elif failure is not None:
                known = isinstance(failure, InputError)
                job.state, job.message = "failed", str(failure) if known else f"{FAULT} ({failure!r})"
                job.logged = isinstance(failure, LostError)
            else:
                job.state, job.answer = "done", answer
            self._clean(job)
            self._start_next()

    def _follow(self, job: Job) -> dict[str, Any]:
        with self._lock:
            if job.state == "cancelled":
                return {}
            child = job.child = Child(job.folder, job.task)
        return child.follow(lambda told: self._tell(job, told))

    def _tell(self, job: Job, told: dict[str, Any]) -> None:
        with self._lock:
            job.pieces[str(told["what"])] = (told["done"], told["total"])

    def _keep(self, job: Job) -> None:
        """Copy a complete result to where the user wants it."""
        if self.out is None or job.state == "cancelled":
            return
        try:
            job.kept = keep_answer(job.folder / "answer", self.out)
        except OSError as error:
            job.message = f"the answer could not be written to '{self.out}' ({error}); download it from here"

    @staticmethod
    def _clean(job: Job) -> None:
        """Remove the tables and whatever else only the work needed."""
        job.ended = time.monotonic()
        job.child = None
        with contextlib.suppress(OSError):
            for path in job.folder.iterdir():
                if path.is_file() and path.name != "log.txt":
                    path.unlink(missing_ok=True)

    def find(self, key: str) -> Job:
        """Find one of the analyses."""
        with self._lock:
            if key not in self._jobs:
                raise UnknownError("this analysis is not known here; see the list of this session's analyses")
            return self._jobs[key]

    def cancel(self, key: str) -> None:
        """Stop an analysis, or take it out of the queue; nothing happens to one that is over."""
        with self._lock:
            job = self.find(key)
            child, was = job.child, job.state
            if was in OPEN:
                job.state, job.ended = "cancelled", time.monotonic()
            if was == "waiting":
                self._clean(job)
        if child is not None:
            child.end()

    def seen(self) -> list[dict[str, Any]]:
        """All analyses, the newest first."""
        with self._lock:
            queue = [job.key for job in self._jobs.values() if job.state == "waiting"]
            places = {key: place for place, key in enumerate(queue, start=1)}
            return [job.seen(places.get(job.key)) for job in reversed(self._jobs.values())]

    def close(self) -> None:
        """Stop everything."""
        with self._lock:
            self._closed = True
            keys = [*self._jobs]
        for key in keys:
            self.cancel(key)
        for thread in self._threads:
            thread.join(timeout=10)


def place_tables(folder: Path, tables: Sequence[Upload]) -> list[dict[str, str]]:
    """Bring tables into a folder of a task, and say how they are called there and by the user."""
    placed = []
    for number, table in enumerate(tables):
        target = folder / f"{number}-{table.path.name}"
        link(table.path, target)
        placed.append({"file": target.name, "name": table.name, "label": table.label})
    return placed
