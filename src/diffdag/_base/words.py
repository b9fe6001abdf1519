"""Words of messages: lists of names, numbers of things, and options as each reader knows them."""

from __future__ import annotations

import csv
import difflib
import io
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Audience: TypeAlias = Literal["python", "shell", "page"]

NAMES_SHOWN = 6  # names shown in one message; wide tables would otherwise fill the screen
# Options whose name on the command line is another than in Python.
_SHELL_NAMES = {"n_jobs": "jobs", "rng": "seed", "journal": "out"}
# What the page, which has controls in place of options, calls them.
_PAGE_NAMES = {
    "columns": "the columns chosen",
    "drop": "the columns left out",
    "adjust": "the list of covariates",
    "cluster": "the choice of what rows are nested in",
    "labels": "what the conditions are called",
    "tiers": "the known order",
}
_UNDER_CHECKS = {"columns", "drop", "missing", "adjust", "cluster"}  # options that it has a control for, there


@dataclass(frozen=True)
class Option:
    """An option that a message speaks of; each reader sees it as it would be typed.

    >>> option = Option("drop", ("Sample ID", "day"))
    >>> option.spell("python"), option.spell("shell"), option.spell("page")
    ("drop=['Sample ID', 'day']", "--drop 'Sample ID,day'", 'the columns left out')
    """

    name: str  # as in Python
    value: object = None  # None: the option itself is meant, whatever its value
    bare: bool = False  # without a value, Python names it without an equals sign: as the subject of a sentence

    def spell(self, audience: Audience) -> str:
        """The option as this reader knows it."""
        if audience == "page":
            return _PAGE_NAMES.get(self.name, self.name.replace("_", " "))
        given = list(self.value) if isinstance(self.value, tuple) else self.value
        if audience == "python":
            return self.name if self.bare else f"{self.name}={'' if given is None else repr(given)}"
        words = [f"--{_SHELL_NAMES.get(self.name, self.name).replace('_', '-')}"]
        if isinstance(given, list):
            line = io.StringIO()
            csv.writer(line, lineterminator="").writerow(given)
            given = line.getvalue()
        return " ".join([*words, *([] if given is None or given is True else [shlex.quote(str(given))])])


def named(name: str) -> Option:
    """An option as the subject of a sentence.

    >>> spell([named("n_jobs"), " must be 1"], "python"), spell([named("n_jobs"), " must be 1"], "shell")
    ('n_jobs must be 1', '--jobs must be 1')
    """
    return Option(name, bare=True)


@dataclass(frozen=True)
class Way:
    """What options do; the page says it in words of its own.

    >>> using(Option("missing", "drop")).spell("shell"), using(Option("missing", "drop")).spell("page")
    ('with --missing drop', '(under Checks)')
    """

    parts: tuple[str | Option, ...]
    page: str
    shell: str | None = None  # where the parts do not say it there

    def spell(self, audience: Audience) -> str:
        """The way as this reader would go it."""
        if audience == "shell" and self.shell is not None:
            return self.shell
        return self.page if audience == "page" else spell(self.parts, audience)


Part: TypeAlias = str | Option | Way


def using(option: Option) -> Way:
    """The end of a sentence about what an option does: ``with drop=['day']``.

    On the page columns and rows are chosen under Checks; what else it has no control for takes a command.
    """
    where = "under Checks" if option.name in _UNDER_CHECKS else "on the command line"
    return Way(("with ", option), f"({where})")


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """What a name that is not known may stand for, in whatever case it is written; else other words.

    >>> did_you_mean("klf4", ["KLF4", "SOX2"], "there is no such gene")
    "did you mean 'KLF4'?"
    """
    cased = {own.casefold(): own for own in known}
    close = difflib.get_close_matches(name.casefold(), cased, n=1)
    return f"did you mean '{cased[close[0]]}'?" if close else otherwise


def spell(parts: Iterable[Part], audience: Audience) -> str:
    """A message as this reader sees it.

    >>> spell(["drop rows ", using(Option("missing", "drop"))], "python")
    "drop rows with missing='drop'"
    """
    return "".join(part.spell(audience) if isinstance(part, Option | Way) else str(part) for part in parts)


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
    """An option for texts that are stored and that anybody may read, in Python, at the shell or on the page.

    >>> option_words("effective_samples", "auto")
    "the option 'effective samples' with 'auto'"
    """
    return f"the option '{name.replace('_', ' ')}' with '{value}'"


def table_words(label: str) -> str:
    """What to call a table: files and groups by their names, others by their place.

    >>> table_words("first"), table_words("'chow.csv'")
    ('the first table', "'chow.csv'")
    """
    return label if label.startswith(("'", "group '")) else f"the {label} table"
