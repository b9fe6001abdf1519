"""The server itself: a port on loopback, listened to until somebody ends it."""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from diffdag._base.errors import InputError
from diffdag.app.serve.app import make_app
from diffdag.app.serve.session import Session

HOST = "127.0.0.1"
PATIENCE = 2  # seconds for responses on their way when the server ends


def open_port(port: int) -> socket.socket:
    """A socket on loopback; port 0 stands for any that is free."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if hasattr(signal, "SIGHUP"):  # elsewhere than on Windows, where it would let two servers share a port
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise InputError(
            f"port {port} cannot be used ({(error.strerror or str(error)).lower()}); "
            "give another one with --port, or --port 0 for any that is free"
        ) from None
    return listener


class Server(uvicorn.Server):
    """A server that ends the work of its session as soon as it is asked to end."""

    def __init__(self, config: uvicorn.Config, session: Session) -> None:
        super().__init__(config)
        self._session = session

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal to end."""
        super().handle_exit(sig, frame)
        # In a thread: whatever the signal interrupted may hold a lock that this needs.
        threading.Thread(target=self._session.close, daemon=True).start()


def serve(
    listener: socket.socket, *, limit: int, out: Path | None = None, ready: Callable[[str, Path], object]
) -> None:
    """Serve the page until an interruption or a signal to end, with a `Session` of this `limit` and `out`.

    `ready` is called with the address of the page, and a file that leads there, as soon as it can be opened.
    """
    port = listener.getsockname()[1]
    session = Session(limit=limit, out=out)
    config = uvicorn.Config(
        make_app(session, port),
        http="h11",  # reads on after an early refusal, so that the browser gets to see it
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=PATIENCE,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # strange requests are no news
    address = f"http://{HOST}:{port}/?token={session.token}"
    with _uninterrupted(session.close), listener, _signals_as_interruptions():
        ready(address, session.door(address))
        Server(config, session).run(sockets=[listener])


@contextlib.contextmanager
def _uninterrupted(last: Callable[[], object]) -> Iterator[None]:
    """Do something in the end, whatever happens, and let no impatient Ctrl-C get in its way."""
    try:
        yield
    finally:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        last()
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _signals_as_interruptions() -> Iterator[None]:
    """Let a request to end, and a terminal that was closed, clean up as Ctrl-C does."""
    handlers: dict[int, Any] = {}
    if (
        signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    ):  # the program's own tells the signal by its exit code
        handlers[signal.SIGTERM] = signal.default_int_handler
    if hasattr(signal, "SIGHUP"):
        # Handed on, because the server waits for the other one and then ends in good order.
        handlers[signal.SIGHUP] = lambda *_: signal.raise_signal(signal.SIGTERM)
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
