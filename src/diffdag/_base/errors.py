"""Errors and warnings of the package, and errors of the system in words: memory, room on the disk."""

from __future__ import annotations

import errno

MEMORY = (
    "memory ran out; leave out columns, take fewer rows, or close other programs; tables of any number of rows "
    "can be reduced on the command line (diffdag moments) and then compared (diffdag fit)"
)

FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


class InputError(ValueError):
    """Input that cannot be used; the message says what, where and what to do, in one line."""


class NotFittedError(ValueError, AttributeError):
    """A result was asked for before `fit`."""


class DiffDagWarning(UserWarning):
    """The result stands, but the user should know something about it."""


def is_out_of_resources(error: BaseException) -> bool:
    """Whether something went wrong for want of memory or room, and not because of a fault."""
    if isinstance(error, OSError):
        return error.errno in {errno.ENOMEM, *FULL}
    return isinstance(error, MemoryError)


def describe_resource_error(error: OSError | MemoryError) -> str:
    """Say what is lacking, and what to do.

    Examples
    --------
    >>> lack_words(OSError(28, "No space left on device"))
    'the disk is full; make room on the disk and try again'
    """
    if isinstance(error, MemoryError) or error.errno == errno.ENOMEM:
        return MEMORY
    if error.errno in FULL:
        return "the disk is full; make room on the disk and try again"
    reason = (error.strerror or str(error)).lower()
    return (
        f"the program cannot use its folder for temporary files ({reason}); end it, see that this folder can "
        "be written to, and start diffdag serve again"
    )
