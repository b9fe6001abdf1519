"""Errors and warnings of the package, and errors of the system in words: memory, room on the disk."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from diffdag._base.words import NAMES_SHOWN, Audience, Option, Part, Way, spell, using

MEMORY = (
    "memory ran out; leave out columns, take fewer rows, or close other programs; tables of any number of rows "
    "can be reduced on the command line (diffdag moments) and then compared (diffdag fit)"
)

CHOOSE = Way(
    ("choose columns with ", Option("columns"), " or leave some out with ", Option("drop")),
    "leave out these columns (under Checks)",
)
TURN = Way(
    ("read the files with ", Option("transpose", True)), "turn the tables round, or use diffdag fit --transpose"
)
FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


@dataclass(frozen=True)
class Problem:
    """Something that is wrong with tables, and what can be done about it."""

    kind: str  # such as "text", "missing", "constant", "dependent", "unmatched" or "too-few-rows"
    what: str  # what is wrong and where, in words
    columns: tuple[str, ...] = ()  # those at fault
    remedies: tuple[Option, ...] = ()  # options that would do: which columns, or rows, to leave out
    advice: str = ""  # what else would do, in words
    them: str = ""  # what to call the columns to be left out

    @property
    def drop(self) -> tuple[str, ...]:
        """The columns to leave out."""
        found = next((option.value for option in self.remedies if option.name == "drop"), ())
        return found if isinstance(found, tuple) else ()


class InputError(ValueError):
    """Input that cannot be used; the message says what, where and what to do, in one line.

    ``str(error)`` speaks of options as they are written in Python. `words` speaks of them as they are typed on
    the command line, or, for the page, not at all.

    Parameters
    ----------
    *parts : str, Option or Way
        The message; options in it are spelled for whoever reads it.
    problems : sequence of Problem, optional
        What is wrong with the tables, as data.

    See Also
    --------
    DiffDagWarning : where a result stands all the same.

    Examples
    --------
    >>> error = InputError("rows have gaps; drop them ", using(Option("missing", "drop")))
    >>> str(error), error.words("shell")
    ("rows have gaps; drop them with missing='drop'", 'rows have gaps; drop them with --missing drop')
    """

    problems: tuple[Problem, ...]

    def __init__(self, *parts: Part, problems: Sequence[Problem] = ()) -> None:
        super().__init__(*parts)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return self.words("python")

    def words(self, audience: Audience) -> str:
        """The message for an `audience`: "python", the "shell", or the "page"."""
        return spell(self.args, audience)


class NotFittedError(ValueError, AttributeError):
    """A result was asked for before `fit`."""


class DiffDagWarning(UserWarning):
    """The result stands, but the user should know something about it.

    See Also
    --------
    InputError : where there can be no result.
    """


class NoSolutionWarning(DiffDagWarning):
    """It was proved that no difference meets the constraints at this penalty: what is given breaks some."""


def raise_problems(problems: Sequence[Problem], dropped: Iterable[str] = ()) -> None:
    """Raise one error that says all that is wrong; `dropped` are columns that are left out already."""
    if problems:
        found = "; ".join(problem.what for problem in problems)
        count = f"{len(problems)} things are in the way: " if len(problems) > 1 else ""
        ways = _ways(problems, tuple(dropped))
        raise InputError(f"{count}{found}{'; ' if ways else ''}", *ways, problems=problems)


def _ways(problems: Sequence[Problem], dropped: tuple[str, ...]) -> list[Part]:
    """What to do about one problem, or about all of them together."""
    new = tuple(dict.fromkeys(name for problem in problems for name in problem.drop))
    gaps = next((problem for problem in problems if problem.kind == "missing"), None)
    about = problems[0].them if len(problems) == 1 and gaps is None else ""
    them = "columns" if len(problems) > 1 else about or ("it" if len(new) == 1 else "them")
    leave: list[Part] = [f"leave {them} out ", using(Option("drop", (*dropped, *new)))] if new else []
    if len(new) > NAMES_SHOWN:
        leave = [CHOOSE]
    rows = [] if gaps is None else _ways_with_gaps(gaps)
    turn = [option for problem in problems for option in problem.remedies if option.name == "transpose"]
    if turn:
        return ["if rows are variables, ", TURN]
    if len(problems) == 1:
        advice: list[Part] = [problems[0].advice] if problems[0].advice else []
        return _joined([way for way in (leave, advice, rows) if way], ", or ")
    other = dict.fromkeys(problem.advice for problem in problems if problem.advice and not problem.remedies)
    out = _joined([way for way in (leave, rows) if way], "; ")
    return _joined([*([text] for text in other), *([out] if out else [])], "; ")


def _ways_with_gaps(problem: Problem) -> list[Part]:
    """What to do about missing values: leave out their rows, if enough are left, or use what was observed."""
    by_value = {option.value: option for option in problem.remedies if option.name == "missing"}
    ways: list[list[Part]] = []
    if "drop" in by_value:
        ways.append([f"leave out {problem.them} ", using(by_value["drop"])])
    if "em" in by_value:
        ways.append(["use what was observed ", using(by_value["em"])])
    return _joined(ways, ", or ")


def _joined(groups: Sequence[Sequence[Part]], mark: str) -> list[Part]:
    """Groups of parts, one after the other, with a mark between them."""
    return [part for k, group in enumerate(groups) for part in ([mark, *group] if k else group)]


def is_out_of_resources(error: BaseException) -> bool:
    """Whether something went wrong for want of memory or room, and not because of a fault."""
    if isinstance(error, OSError):
        return error.errno in {errno.ENOMEM, *FULL}
    return isinstance(error, MemoryError)


def describe_resource_error(error: OSError | MemoryError) -> str:
    """Say what is lacking, and what to do.

    >>> describe_resource_error(OSError(28, "No space left on device"))
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
