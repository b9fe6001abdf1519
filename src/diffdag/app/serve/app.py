"""The routes: what the page can ask the server for, and what it then gets."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from diffdag._base.errors import InputError, describe_resource_error
from diffdag.app.serve.child import Cancellation, LostError
from diffdag.app.serve.guard import REPORT_POLICY, Guard
from diffdag.app.serve.jobs import BusyError, Job
from diffdag.app.serve.session import Session
from diffdag.app.serve.uploads import ENDINGS, TooLargeError, UnknownError, Upload

SCRIPTS = ("tools.js", "page.js", "analyses.js")
ASSETS = {"page.html": "text/html", "page.css": "text/css", **dict.fromkeys(SCRIPTS, "text/javascript")}
ANSWERS = {
    "report.html": "text/html",
    "edges.csv": "text/csv",
    "nodes.csv": "text/csv",
    "result.json": "application/json",
    "graph.graphml": "application/xml",
    "graph.cyjs": "application/json",
    "picture.svg": "image/svg+xml",
}
ARCHIVE, LOG = "answer.zip", "log.txt"
LONGEST = 16_000_000  # bytes of what is asked, which may name every column
Answer = Callable[[Request], Awaitable[Response]]


class UnclearError(InputError):
    """A request that is not one of ours."""


STATUS: dict[type[Exception], int] = {
    TooLargeError: 413,
    UnknownError: 404,
    BusyError: 409,
    UnclearError: 400,
    LostError: 500,
}


class Json(JSONResponse):
    """JSON that holds even what is not valid text, such as half a surrogate pair in a file's column name."""

    def render(self, content: Any) -> bytes:
        """Write everything beyond ASCII as escapes."""
        return json.dumps(content, allow_nan=False).encode("ascii")


def make_app(session: Session, port: int) -> Starlette:
    """The application of one session, which listens at a port."""
    return Starlette(
        routes=[*_pages(), *_data(session), *_analyses(session)],
        middleware=[Middleware(Guard, token=session.token, port=port)],
        exception_handlers={InputError: _refused, OSError: _refused},
    )


async def _refused(_: Request, error: Exception) -> Response:
    if isinstance(error, OSError):
        return Json({"error": describe_resource_error(error)}, status_code=507)
    said = {"error": error.words("page") if isinstance(error, InputError) else str(error)}
    log = {"log": error.log} if isinstance(error, LostError) else {}
    return Json({**said, **log}, status_code=STATUS.get(type(error), 422))


def _pages() -> list[Route]:
    """The page and its parts."""

    def give(name: str) -> Answer:
        async def answer(_: Request) -> Response:
            return Response((files(__package__) / name).read_bytes(), media_type=ASSETS[name])

        return answer

    return [Route("/", give("page.html")), *(Route(f"/{name}", give(name)) for name in ASSETS)]


def _data(session: Session) -> list[Route]:
    """Files in, and what they hold."""
    turn = asyncio.Lock()  # looks take turns, so that memory holds one

    async def upload(request: Request) -> Response:
        length = request.headers.get("content-length", "")
        try:
            name, size = request.query_params.get("name", ""), int(length) if length.isdecimal() else None
            stored = await session.uploads.receive(name, request.stream(), size)
        except ClientDisconnect:
            return Response(status_code=400)
        return Json(_file(stored), status_code=201)

    async def forget(request: Request) -> Response:
        session.uploads.forget(request.path_params["key"])
        return Response(status_code=204)

    async def example(_: Request) -> Response:
        async with turn:
            stored = await run_in_threadpool(session.example)
        return Json([_file(upload) for upload in stored], status_code=201)

    async def look(request: Request) -> Response:
        asked = await _asked(request)
        leash = Cancellation()
        async with _while_waited_for(request, leash), turn:
            seen = await run_in_threadpool(session.look, asked.get("files"), asked.get("options", {}), leash)
        return Json(seen)

    return [
        Route("/files", upload, methods=["POST"]),
        Route("/files/{key}", forget, methods=["DELETE"]),
        Route("/example", example, methods=["POST"]),
        Route("/look", look, methods=["POST"]),
    ]


def _analyses(session: Session) -> list[Route]:
    """Analyses: start, watch, cancel, download."""

    async def state(_: Request) -> Response:
        out = None if session.out is None else str(session.out)
        about = {"version": version("diffdag"), "limit": session.uploads.limit, "endings": ENDINGS, "out": out}
        return Json({**about, "jobs": session.jobs.seen()})

    async def submit(request: Request) -> Response:
        asked = await _asked(request)
        job = await run_in_threadpool(session.submit, asked.get("files"), asked.get("options", {}))
        return Json({"key": job.key}, status_code=202)

    async def cancel(request: Request) -> Response:
        await run_in_threadpool(session.jobs.cancel, request.path_params["key"])
        return Response(status_code=204)

    async def download(request: Request) -> Response:
        job = session.jobs.find(request.path_params["key"])
        saving = request.query_params.get("save") is not None
        return await run_in_threadpool(_download, job, request.path_params["name"], saving)

    return [
        Route("/state", state),
        Route("/jobs", submit, methods=["POST"]),
        Route("/jobs/{key}/cancel", cancel, methods=["POST"]),
        Route("/jobs/{key}/{name}", download),
    ]


async def _asked(request: Request) -> dict[str, Any]:
    """The JSON object that a request brings."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST:
            raise TooLargeError("this request is too long; choose columns on the command line with diffdag fit")
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        raise UnclearError("this request is not a JSON object; reload the page")
    return asked


@contextlib.asynccontextmanager
async def _while_waited_for(request: Request, leash: Cancellation) -> AsyncIterator[None]:
    """Pull the leash when whoever asked is gone; all of the request has been read before."""

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        await run_in_threadpool(leash.pull)

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()


def _file(upload: Upload) -> dict[str, Any]:
    return {"key": upload.key, "name": upload.name, "size": upload.size}


def _download(job: Job, name: str, saving: bool) -> Response:
    """One file of an analysis, of those that there are to have."""
    if name == LOG and job.logged:
        return FileResponse(job.folder / LOG, media_type="text/plain")
    folder = job.folder / "answer"
    if job.state == "done" and name == ARCHIVE:
        return Response(_zipped(folder), media_type="application/zip", headers=_saved(name))
    if job.state != "done" or name not in ANSWERS or not (folder / name).exists():
        raise UnknownError("this analysis has no such file; see its list of downloads")
    headers = {"Content-Security-Policy": REPORT_POLICY} if name == "report.html" else {}
    if saving:
        headers |= _saved(name)
    return FileResponse(folder / name, media_type=ANSWERS[name], headers=headers)


def _saved(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}


def _zipped(folder: Path) -> bytes:
    """All files of a result in one."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ANSWERS:
            if (folder / name).exists():
                archive.write(folder / name, f"answer/{name}")
    return buffer.getvalue()
