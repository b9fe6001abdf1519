"""The command that serves a local web page: serve."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer

from diffdag.app.cli.app import app, check_folder, say


@app.command()
def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 for any free one.")] = 8765,
    limit: Annotated[int, typer.Option(min=1, help="Largest file to take, in megabytes.")] = 500,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to keep the results in; left out, they are removed when the program ends."),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Compare two tables in a web page on this computer: for everybody who would rather click than type."""
    check_folder(out)
    from diffdag._base.extras import extra  # noqa: PLC0415

    with extra("starlette or uvicorn", "serve"):
        from diffdag.app.serve.server import open_port, serve  # noqa: PLC0415

    def ready(address: str, door: Path) -> None:
        print(address, flush=True)
        say("the page is open to you alone, and nothing leaves this computer; Ctrl-C ends the program")
        if browser:
            import webbrowser  # noqa: PLC0415

            say("if no page opens in the browser, open the address above")  # some may not read our file
            # In a thread: browsers of a terminal keep the caller waiting.
            threading.Thread(target=webbrowser.open, args=(door.as_uri(),), daemon=True).start()

    with open_port(port) as listener:
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
        serve(listener, limit=limit, out=out, ready=ready)
