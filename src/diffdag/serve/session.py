"""One run of the server: its folder, its files, its analyses; nothing stays when it is over."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diffdag.serve.child import Child
from diffdag.serve.jobs import Job, Jobs, place_tables
from diffdag.serve.options import check_options
from diffdag.serve.uploads import Upload, Uploads
from diffdag.validation import InputError

EXAMPLE = ("baseline.csv", "u0126.csv")


class Session:
    """What the routes act on.

    Parameters
    ----------
    limit : int
        Megabytes that a file may have.
    out : Path, optional
        Where answers are kept; without it they go when the session does.
    """

    def __init__(self, *, limit: int, out: Path | None = None) -> None:
        self.token = secrets.token_urlsafe(24)
        self.folder = Path(tempfile.mkdtemp(prefix="diffdag-serve-"))  # for this user's eyes only
        for name in ("uploads", "tasks", "jobs"):
            (self.folder / name).mkdir()
        self.out = out
        self.uploads = Uploads(self.folder / "uploads", limit)
        self.jobs = Jobs(self.folder / "jobs", out)
        self._turn = threading.Lock()  # looks take turns, so that memory holds one
        self._lock = threading.Lock()
        self._looking: Child | None = None
        self._closed = False

    def look(self, files: object, options: object) -> dict[str, Any]:
        """What tables hold, as `diffdag.serve.look.look` says it."""
        tables, wanted = self._find(files), check_options(options)
        if isinstance(options, dict) and "drop" not in options:
            wanted["drop"] = None  # nobody has chosen yet
        return self._quickly("look", tables, {"options": wanted})

    def submit(self, files: object, options: object) -> Job:
        """Put an analysis into the queue."""
        tables, wanted = self._find(files), check_options(options)
        names = [wanted["first"], wanted["second"]] if wanted["group"] else [table.stem for table in tables]
        if len(names) < 2:
            raise InputError(
                "the two conditions are not clear; choose two files, or a column that names groups"
            )
        title = f"{names[0][:60]} and {names[1][:60]}"
        return self.jobs.submit(title, tables, {"kind": "fit", "options": wanted})

    def example(self) -> list[Upload]:
        """Take the embedded data in, as if they had been uploaded."""
        places = [self.folder / "uploads" / secrets.token_hex(16) / "table.csv" for _ in EXAMPLE]
        for place in places:
            place.parent.mkdir()
        self._quickly("example", [], {"files": [str(place) for place in places]})
        pairs = zip(EXAMPLE, places, strict=True)
        return [self.uploads.add(name, place, place.stat().st_size) for name, place in pairs]

    def _find(self, files: object) -> list[Upload]:
        if not isinstance(files, list) or len(files) not in (1, 2):
            raise InputError("choose one or two files first")
        return [self.uploads.find(str(key)) for key in files]

    def _quickly(self, kind: str, tables: Sequence[Upload], more: dict[str, Any]) -> dict[str, Any]:
        """Have a child process do something that takes seconds."""
        folder = self.folder / "tasks" / secrets.token_hex(16)
        folder.mkdir()
        try:
            with self._turn:
                task = {"kind": kind, "tables": place_tables(folder, tables), **more}
                return self._child(folder, task).follow(lambda told: None)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _child(self, folder: Path, task: dict[str, Any]) -> Child:
        with self._lock:
            if self._closed:
                raise InputError("the program is ending; start diffdag serve again")
            self._looking = Child(folder, task)
            return self._looking

    def close(self) -> None:
        """Stop everything and remove everything, but for the answers in `out`."""
        self.jobs.close()
        with self._lock:
            self._closed = True
            if self._looking is not None:
                self._looking.end()
        shutil.rmtree(self.folder, ignore_errors=True)
