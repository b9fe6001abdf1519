"""What a child process does: look at tables, fit them, or write the example; see `diffdag.app.serve.child`."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from diffdag._base.atomic import write_atomic
from diffdag._base.errors import InputError, describe_resource_error, is_out_of_resources
from diffdag.app.serve.child import NO_ROOM


def main(folder: Path, said: BinaryIO) -> None:
    """Do the task of a folder; `said` takes lines about progress."""
    task = json.loads((folder / "task.json").read_bytes())
    named = partial(_name_files, folder=folder, tables=task.get("tables", []))
    try:
        answer = TASKS[task["kind"]](folder, task, partial(_tell, said))
    except InputError as error:
        answer = {"error": named(error.words("page"))}
    except (MemoryError, OSError) as error:
        if not is_out_of_resources(error):
            raise
        traceback.print_exc()
        answer = {"error": describe_resource_error(error)}
    if answer.get("problem"):
        answer["problem"] = named(answer["problem"])
    for column in answer.get("columns", ()):
        column["why"] = named(column["why"])
    if "notes" in answer:
        answer["notes"] = [*map(named, answer["notes"])]
    try:
        write_atomic(folder / "answer.json", json.dumps(answer))
    except OSError:
        sys.exit(NO_ROOM)


def _name_files(message: str, folder: Path, tables: list[dict[str, str]]) -> str:
    """Name files as the user does, not as they are called in the folder of the task."""
    for table in tables:
        message = message.replace(str(folder / table["file"]), table["name"])
    return message.replace(f"{folder}{os.sep}", "")


def _tell(said: BinaryIO, done: int, total: int | None, what: str) -> None:
    """Write a line about progress; `DifferenceDAG.fit` does not call it too often."""
    said.write(json.dumps({"done": int(done), "total": total, "what": what}).encode() + b"\n")
    said.flush()


def _files(folder: Path, task: dict[str, Any]) -> tuple[list[Path], list[str]]:
    """The tables of a task, and what to call their conditions."""
    tables = task["tables"]
    return [folder / table["file"] for table in tables], [table["label"] for table in tables]


def _look(folder: Path, task: dict[str, Any], _: object) -> dict[str, Any]:
    from diffdag.app.serve.preview import Roles, preview_tables  # noqa: PLC0415 - each kind of task loads its own

    options = task["options"]
    wanted = {name: options[name] for name in ("group", "first", "second", "missing", "labels")}
    chosen = options["drop"] is not None
    roles = Roles(options["drop"], options["adjust"], options["cluster"]) if chosen else None
    return preview_tables(*_files(folder, task), **wanted, roles=roles)


def _fit(folder: Path, task: dict[str, Any], tell: Callable[[int, int | None, str], None]) -> dict[str, Any]:
    from diffdag.app.serve.options import settings_of  # noqa: PLC0415
    from diffdag.app.serve.preview import read_pair  # noqa: PLC0415

    options = task["options"]
    one, two, labels = read_pair(*_files(folder, task), options["group"], options["first"], options["second"])
    labels = tuple(options["labels"]) or labels
    settings, how = settings_of(options, folder)
    from diffdag._base.extras import MissingExtraError  # noqa: PLC0415
    from diffdag.estimator import DifferenceDAG  # noqa: PLC0415 - after what fails at once
    from diffdag.report.html.page import render_svg  # noqa: PLC0415
    from diffdag.report.text import headline  # noqa: PLC0415

    result = DifferenceDAG(**settings).fit(one, two, labels=labels, progress=tell, **how).result_
    tell(0, None, "Writing the report")
    place = folder / "answer"
    result.save(place)
    without = []
    try:
        write_atomic(place / "picture.svg", render_svg(result))
    except MissingExtraError:  # the page then has no button for it
        without = ["picture.svg"]
    write_atomic(place / "graph.cyjs", json.dumps(result.to_cytoscape(), ensure_ascii=False, indent=1) + "\n")
    return {"headline": headline(result, ("→", "—")), "without": without}


def _example(folder: Path, task: dict[str, Any], _: object) -> dict[str, Any]:
    from diffdag.model.datasets import load_sachs_pair  # noqa: PLC0415

    for name, table in zip(task["files"], load_sachs_pair("u0126"), strict=True):
        table.to_csv(folder / name, index=False)
    return {}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {"look": _look, "fit": _fit, "example": _example}


def _end_with_parent() -> None:
    """End this process and its helpers when the server is gone: then its end of our input closes."""
    while os.read(0, 1):  # not through sys.stdin, whose lock would stand in the way of a regular end
        pass
    if hasattr(os, "killpg"):
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    words = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever libraries print goes to the log
    main(Path(sys.argv[1]), words)
