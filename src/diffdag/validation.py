"""Every check of user input, and its wording.

An error reads: what is wrong, where, what to do.
"""

from __future__ import annotations


class InputError(ValueError):
    """Input that cannot be used; the message says what, where and what to do, in one line."""


class DiffDagWarning(UserWarning):
    """The answer stands, but the user should know something about it."""
