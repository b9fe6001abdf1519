"""One run of the server: its folder, its files, its analyses; nothing stays when it is over."""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diffdag._base.errors import InputError
from diffdag.app.serve.child import Cancellation, Child
from diffdag.app.serve.folder import Folder, remove_abandoned
from diffdag.app.serve.jobs import Job, Jobs, place_tables
from diffdag.app.serve.options import check_options
from diffdag.app.serve.uploads import Upload, Uploads

DOOR = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>diffdag</title>
<meta http-equiv="refresh" content="0; url={address}"></head>
<body><a href="{address}">Open the page of diffdag</a></body></html>
"""
EXAMPLE = ("baseline.csv", "u0126.csv")


class Session:
    """What the routes act on: files of up to `limit` megabytes, and results, which stay only in `out`."""

    def __init__(self, *, limit: int, out: Path | None = None) -> None:
        self.token = secrets.token_urlsafe(24)
        remove_abandoned()
        self._folder = Folder()
        self.folder = self._folder.path
        for name in ("uploads", "tasks", "jobs"):
            (self.folder / name).mkdir()
        self.out = out
        self.uploads = Uploads(self.folder / "uploads", limit)
        self.jobs = Jobs(self.folder / "jobs", out)
        self._lock = threading.Lock()
        self._looking: set[Cancellation] = set()
        self._closed = False
        self._closing = threading.Lock()

    def door(self, address: str) -> Path:
        """A file that leads to an address, for the command line of the browser, which other users can read."""
        path = self.folder / "open.html"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(DOOR.format(address=address))
        return path

    def look(self, files: object, options: object, leash: Cancellation | None = None) -> dict[str, Any]:
        """What tables hold, as `diffdag.app.serve.preview.preview_tables` says it; `leash` ends it early."""
        tables, wanted = self._find(files), check_options(options)
        if isinstance(options, dict) and "drop" not in options:
            wanted["drop"] = None  # nobody has chosen yet
        return self._quickly("look", tables, {"options": wanted}, leash)

    def submit(self, files: object, options: object) -> Job:
        """Put an analysis into the queue."""
        tables, wanted = self._find(files), check_options(options)
        names = [wanted["first"], wanted["second"]] if wanted["group"] else [table.label for table in tables]
        if len(names) < 2 or not all(names):
            raise InputError(
                "the two conditions are not clear; choose two files, or a column that names groups"
            )
        names = wanted["labels"] or names
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

    def _quickly(
        self, kind: str, tables: Sequence[Upload], more: dict[str, Any], leash: Cancellation | None = None
    ) -> dict[str, Any]:
        """Have a child process do something that takes seconds."""
        folder = self.folder / "tasks" / secrets.token_hex(16)
        leash = leash or Cancellation()
        with self._lock:
            if self._closed:
                raise InputError("the program is ending; start diffdag serve again")
            self._looking.add(leash)
        try:
            folder.mkdir()
            task = {"kind": kind, "tables": place_tables(folder, tables), **more}
            return leash.hold(lambda: Child(folder, task)).follow(lambda told: None)
        finally:
            self._looking.discard(leash)
            shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Stop everything and remove everything, but for the results in `out`."""
        with self._lock:
            self._closed = True
            looking = [*self._looking]
        for leash in looking:
            leash.pull()
        with self._closing:
            self.jobs.close()
            self._folder.close()
