"""Which variables take part, where they are too many to order all of them (METHOD 3e)."""

from __future__ import annotations

from dataclasses import dataclass, field

from diffdag.moments import Moments


@dataclass(frozen=True)
class Screened:
    """The columns to search on, and what to tell about the others."""

    members: tuple[int, ...]
    settings: dict[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def screen(first: Moments, second: Moments) -> Screened:
    """All variables."""
    return Screened(tuple(range(len(first.names))))
