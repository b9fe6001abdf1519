"""Words of messages: lists of names, numbers of things, options."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Iterable, Sequence

NAMES_SHOWN = 6  # names shown in one message; wide tables would otherwise fill the screen


# An option as `option_words` and `drop_words` write it, quotes respected.
OPTION = re.compile(
    r"""\b\w+=(?:\[(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^]'"])*\]|'[^']*')? """
    r"""\((?P<shell>--[\w-]+(?: (?:'[^']*'|"[^"]*"|[^\s'"()])+)?)\)"""
)


_BARE = re.compile(r"(?<![\w'\"])(columns|drop|missing|first|second)=(?=[ ,;:]|$)")


def join_names(names: Iterable[object]) -> str:
    """Quote names and join them as a person would, cutting long lists short.

    >>> join_names(["a", "b", "c"])
    "'a', 'b' and 'c'"
    """
    quoted = [f"'{name}'" for name in names]
    if len(quoted) > NAMES_SHOWN + 1:
        return f"{', '.join(quoted[:NAMES_SHOWN])} and {len(quoted) - NAMES_SHOWN} more"
    return " and ".join(filter(None, [", ".join(quoted[:-1]), *quoted[-1:]]))


def plural(count: int, noun: str) -> str:
    """Count things.

    >>> plural(1, "row"), plural(2, "row")
    ('1 row', '2 rows')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def option_words(name: str, value: str) -> str:
    """An option as it is written in Python and on the command line.

    >>> option_words("effective_samples", "auto")
    "effective_samples='auto' (--effective-samples auto)"
    """
    return f"{name}={value!r} (--{name.replace('_', '-')} {value})"


def drop_words(names: Sequence[str]) -> str:
    """How to leave out columns, in Python and on the command line.

    >>> drop_words(["Sample ID", "day"])
    "drop=['Sample ID', 'day'] (--drop 'Sample ID,day')"
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return f"drop={list(names)} (--drop {shlex.quote(line.getvalue())})"


def at_command_line(message: str) -> str:
    """A message whose options are written as on the command line, and only so.

    >>> at_command_line("drop= names 'x'; use missing='drop' (--missing drop)")
    "--drop names 'x'; use --missing drop"
    """
    return _BARE.sub(r"--\1", OPTION.sub(lambda match: match["shell"], message))


def table_words(label: str) -> str:
    """What to call a table: files and groups by their names, others by their place.

    >>> table_words("first"), table_words("'chow.csv'")
    ('the first table', "'chow.csv'")
    """
    return label if label.startswith(("'", "group '")) else f"the {label} table"
