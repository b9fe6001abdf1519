"""Who may ask the server for something, and what every response forbids the browser.

The server listens on loopback only, but every page that is open in the browser, and every user of the computer,
can reach loopback. So a request needs the secret that the command line printed, which a cookie then carries;
its Host has to be a loopback name, so that no foreign name that was pointed at this computer (DNS rebinding) is
served; and what changes anything has to come from the page itself.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.ASCII)
READING = ("GET", "HEAD")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
# The report brings a policy of its own that names its script; a sandbox keeps it apart from this server.
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads allow-modals allow-popups allow-popups-to-escape-sandbox; "
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; "
    "font-src data:; frame-ancestors 'self'"
)


class Guard:
    """Lets through to `app` what comes with the secret in the address that the command line printed."""

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self.app = app
        self.token = token
        self.cookie = f"diffdag-{port}"  # browsers do not tell cookies of different ports apart

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse to."""
        if scope["type"] != "http":
            return  # there is nothing else here
        request = HTTPConnection(scope)
        entering = self._fits(request.query_params.get("token"))
        refusal = self._refusal(scope["method"], request, entering)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if entering and refusal is None:
                    value = f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"
                    headers.append("Set-Cookie", value)
            await send(message)

        answer = self.app if refusal is None else PlainTextResponse(refusal, status_code=403)
        await answer(scope, receive, send_guarded)

    def _refusal(self, method: str, request: HTTPConnection, entering: bool) -> str | None:
        """Why not to answer; None if there is no reason."""
        host = request.headers.get("host", "")
        if not LOOPBACK.fullmatch(host):
            return "This server answers to 127.0.0.1 and localhost only; use the address that it printed.\n"
        if method not in READING and not _from_here(request.headers, host):
            return "This request comes from another page; use the page that diffdag serve opened.\n"
        if not entering and not self._fits(request.cookies.get(self.cookie)):
            return (
                "Open the whole address that diffdag serve printed, with its ?token=...: "
                "it shows that you are the one who started it.\n"
            )
        return None

    def _fits(self, given: str | None) -> bool:
        return given is not None and secrets.compare_digest(given.encode(), self.token.encode())


def _from_here(headers: Mapping[str, str], host: str) -> bool:
    """Whether no other page sent this; programs other than browsers say nothing about it."""
    here = f"http://{host}"
    site = headers.get("sec-fetch-site", "none")
    return headers.get("origin", here) == here and site in ("same-origin", "none")
