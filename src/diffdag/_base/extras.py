"""Packages that not everybody has: they come with an extra of this one, ``pip install 'diffdag[plots]'``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from diffdag._base.errors import InputError


class MissingExtraError(InputError):
    """A package is not installed that an extra brings."""


@contextlib.contextmanager
def extra(package: str, name: str) -> Iterator[None]:
    """Where an import inside fails: say which package is missing, and which extra brings it.

    >>> with extra("No such thing", "plots"):
    ...     import no_such_thing
    Traceback (most recent call last):
    ...
    diffdag._base.extras.MissingExtraError: No such thing is not installed; pip install 'diffdag[plots]'
    """
    try:
        yield
    except ImportError:
        raise MissingExtraError(f"{package} is not installed; pip install 'diffdag[{name}]'") from None
