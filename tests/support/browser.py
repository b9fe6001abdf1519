"""Reading a page that may still be busy with the last click."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 10  # seconds


def settles(page: Any, read: Callable[[Any], Any], expected: Any) -> None:
    """Wait until `read` finds on the page what is expected; fail with what it found last."""
    last = time.monotonic() + PATIENCE
    while (seen := read(page)) != expected and time.monotonic() < last:
        page.wait_for_timeout(20)
    assert seen == expected


def becomes(page: Any, read: Callable[[Any], Any]) -> None:
    """Wait until `read` finds something true."""
    settles(page, lambda page: bool(read(page)), True)
