"""The routes: what the page can ask the server for, and what it then gets."""

from __future__ import annotations

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

from diffdag.serve.guard import REPORT_POLICY, Guard
from diffdag.serve.jobs import BusyError, Job
from diffdag.serve.session import Session
from diffdag.serve.uploads import ENDINGS, TooLargeError, UnknownError, Upload
from diffdag.validation import InputError

ASSETS = {"page.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
ANSWERS = {
    "report.html": "text/html",
    "edges.csv": "text/csv",
    "result.json": "application/json",
    "graph.graphml": "application/xml",
}
ARCHIVE, LOG = "answer.zip", "log.txt"
LONGEST = 16_000_000  # bytes of what is asked, which may name every column
STATUS: dict[type[Exception], int] = {TooLargeError: 413, UnknownError: 404, BusyError: 409}
Answer = Callable[[Request], Awaitable[Response]]


def make_app(session: Session, port: int) -> Starlette:
    """The application of one session.

    Parameters
    ----------
    session : Session
        Closed when the server ends.
    port : int
        Where it listens.
    """

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(session.close)

    return Starlette(
        routes=[*_pages(), *_data(session), *_analyses(session)],
        middleware=[Middleware(Guard, token=session.token, port=port)],
        exception_handlers={InputError: _refused, OSError: _failed},
        lifespan=lifespan,
    )


async def _refused(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, status_code=STATUS.get(type(error), 422))


async def _failed(_: Request, error: Exception) -> Response:
    reason = str(getattr(error, "strerror", None) or error).lower()
    words = f"the program cannot use its folder for temporary files ({reason}); make room on the disk"
    return JSONResponse({"error": words}, status_code=507)


def _pages() -> list[Route]:
    """The page and its parts."""

    def give(name: str) -> Answer:
        async def answer(_: Request) -> Response:
            return Response((files(__package__) / name).read_bytes(), media_type=ASSETS[name])

        return answer

    return [Route("/", give("page.html")), *(Route(f"/{name}", give(name)) for name in ("page.css", "page.js"))]


def _data(session: Session) -> list[Route]:
    """Files in, and what they hold."""

    async def upload(request: Request) -> Response:
        length = request.headers.get("content-length", "")
        try:
            stored = await session.uploads.receive(
                request.query_params.get("name", ""),
                request.stream(),
                int(length) if length.isdecimal() else None,
            )
        except ClientDisconnect:
            return Response(status_code=400)
        return JSONResponse(_file(stored), status_code=201)

    async def forget(request: Request) -> Response:
        session.uploads.forget(request.path_params["key"])
        return Response(status_code=204)

    async def example(_: Request) -> Response:
        stored = await run_in_threadpool(session.example)
        return JSONResponse([_file(upload) for upload in stored], status_code=201)

    async def look(request: Request) -> Response:
        asked = await _asked(request)
        seen = await run_in_threadpool(session.look, asked.get("files"), asked.get("options", {}))
        return JSONResponse(seen)

    return [
        Route("/files", upload, methods=["POST"]),
        Route("/files/{key}", forget, methods=["DELETE"]),
        Route("/example", example, methods=["POST"]),
        Route("/look", look, methods=["POST"]),
    ]


def _analyses(session: Session) -> list[Route]:
    """Analyses: start, watch, cancel, download."""

    async def state(_: Request) -> Response:
        return JSONResponse(
            {
                "version": version("diffdag"),
                "limit": session.uploads.limit,
                "endings": ENDINGS,
                "out": None if session.out is None else str(session.out),
                "jobs": session.jobs.seen(),
            }
        )

    async def submit(request: Request) -> Response:
        asked = await _asked(request)
        job = await run_in_threadpool(session.submit, asked.get("files"), asked.get("options", {}))
        return JSONResponse({"key": job.key}, status_code=202)

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
    except ValueError:
        asked = None
    if not isinstance(asked, dict):
        raise InputError("this request is not a JSON object; reload the page")
    return asked


def _file(upload: Upload) -> dict[str, Any]:
    return {"key": upload.key, "name": upload.name, "size": upload.size}


def _download(job: Job, name: str, saving: bool) -> Response:
    """One file of an analysis, of those that there are to have."""
    if name == LOG and job.logged:
        return FileResponse(job.folder / LOG, media_type="text/plain")
    if job.state != "done" or name not in (*ANSWERS, ARCHIVE):
        raise UnknownError("this analysis has no such file; see its list of downloads")
    folder = job.folder / "answer"
    if name == ARCHIVE:
        return Response(_zipped(folder), media_type="application/zip", headers=_saved(name))
    headers = {"Content-Security-Policy": REPORT_POLICY} if name == "report.html" else {}
    if saving:
        headers |= _saved(name)
    return FileResponse(folder / name, media_type=ANSWERS[name], headers=headers)


def _saved(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}


def _zipped(folder: Path) -> bytes:
    """All files of an answer in one."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ANSWERS:
            archive.write(folder / name, f"answer/{name}")
    return buffer.getvalue()
