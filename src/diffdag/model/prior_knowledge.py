"""What a user knows beforehand about causal order, as one matrix: who has to precede whom.

All that can be said here (a complete order, tiers, single directions) constrains the causal order and
nothing else. It therefore adds up to one partial order on the variables, and a search needs only that.
"""

from __future__ import annotations

import csv
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diffdag._base.arrays import BoolArray
from diffdag._base.errors import InputError
from diffdag._base.words import Option, Part, did_you_mean, join_names

Tiers = Sequence[Iterable[str]] | Mapping[str, float]
Direction = tuple[str, str] | str

_ORDER_WANTED = "give a list of all names, causes first"
_TIERS_WANTED = "give a list of groups of names, causes first"
_PAIR_WANTED = "write 'cause -> effect' or give (cause, effect)"
_FILE_WANTED = "write one tier per line, causes first, names separated by commas"


def precedence(
    names: Sequence[str],
    *,
    order: Sequence[str] | None = None,
    tiers: Tiers | None = None,
    required: Iterable[Direction] | None = None,
    forbidden: Iterable[Direction] | None = None,
) -> BoolArray:
    """Work out which variable has to precede which in every admissible causal order.

    Parameters
    ----------
    names : sequence of str
        The p variables.
    order : sequence of str, optional
        A complete causal order, causes first: every variable exactly once.
    tiers : sequence of groups of str, or mapping of str to number, optional
        Groups of variables, causes first (genes before proteins before symptoms), or a tier number for
        each name, smaller is earlier. Every variable of a tier precedes every variable of all later ones.
        Nothing is said about variables within one tier, nor about variables in no tier.
    required : iterable of pairs, optional
        Pairs (cause, effect): whatever runs between the two runs this way, so the cause precedes the
        effect. That an edge exists is not claimed. A pair may be written as text, ``"A -> B"``, with or
        without spaces around the arrow; a name that contains ``->`` itself, or begins or ends with a
        space, needs the form ``(cause, effect)``.
    forbidden : iterable of pairs, optional
        Pairs (cause, effect), written as above: the cause cannot act on the effect, so whatever runs between
        the two runs the other way, and the effect precedes the cause. Forbidding A -> B is thus requiring
        B -> A. It is a statement about directions: it excludes that A acts on B through others as well, and
        it cannot say that there is no edge, so forbidding both A -> B and B -> A is a contradiction.

    Returns
    -------
    ndarray of bool, shape (p, p)
        ``before[a, b]`` is true if variable ``a`` has to precede variable ``b``. Transitively closed, never
        true on the diagonal. An order of the variables is admissible if and only if it respects all of it.

    Raises
    ------
    InputError
        If something is malformed or unknown, or if the directions contradict each other; the message then
        has a shortest cycle.

    Examples
    --------
    >>> from diffdag.model.prior_knowledge import precedence
    >>> precedence(["dose", "gene", "pain"], tiers=[["dose"], ["gene"]], required=["gene -> pain"]).astype(int)
    array([[0, 1, 1],
           [0, 0, 1],
           [0, 0, 0]])
    >>> precedence(["dose", "gene", "pain"], forbidden=[("pain", "dose")]).astype(int)
    array([[0, 0, 1],
           [0, 0, 0],
           [0, 0, 0]])
    """
    variables = _distinct("names", _listed((Option("names"),), names, "give a list of names"))
    position = {name: k for k, name in enumerate(variables)}
    known: dict[str, BoolArray] = {}
    if order is not None:
        known["order"] = _between_groups("order", _order_groups(order, position), position)
    if tiers is not None:
        known["tiers"] = _between_groups("tiers", _tier_groups(tiers), position)
    if required is not None:
        known["required"] = _between_pairs("required", required, position)
    if forbidden is not None:
        known["forbidden"] = _between_pairs("forbidden", forbidden, position).T
    direct = np.zeros((len(variables), len(variables)), bool)
    for relation in known.values():
        direct |= relation
    before = _closure(direct)
    if before.diagonal().any():
        raise InputError(*_contradiction(variables, _shortest_cycle(direct), known))
    return before


def read_tiers(path: str | Path) -> list[list[str]]:
    r"""Read tiers of variables from a text file, for ``tiers=`` of `precedence`.

    The file is UTF-8 in one of two forms. Either one tier per line, causes first, names separated by commas;
    or a CSV of two columns with the header ``variable,tier`` and a number as tier, smaller is earlier. Names
    that contain a comma are put in double quotes. Blank lines, empty fields (spreadsheets fill up short lines
    with them) and lines that start with ``#`` are ignored.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from diffdag.model.prior_knowledge import read_tiers
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "tiers.txt"
    ...     _ = path.write_text("# causes first\nage, sex\ndose\n", encoding="utf-8")
    ...     read_tiers(path)
    [['age', 'sex'], ['dose']]
    """
    path = Path(path)
    rows = _read_rows(path)
    if rows and [field.lower() for field in _used(rows[0][1])] == ["variable", "tier"]:
        entries = [_numbered_entry(path, line, _used(fields)) for line, fields in rows[1:]]
    else:
        entries = [(line, name, float(line)) for line, fields in rows for name in fields if name]
    if not entries:
        raise InputError(f"file '{path}' names no variable; {_FILE_WANTED}")
    seen: dict[str, int] = {}
    for line, name, _ in entries:
        if name in seen:
            raise InputError(
                f"'{name}' is in line {seen[name]} and again in line {line} of '{path}'; "
                "name each variable once"
            )
        seen[name] = line
    return _by_number((name, tier) for _, name, tier in entries)


# Statements to matrices of direct precedence.


def _order_groups(order: Sequence[str], position: Mapping[str, int]) -> list[list[str]]:
    if isinstance(order, Mapping):  # its keys have an order, but hardly the one meant
        raise InputError(Option("order"), f" is a mapping; {_ORDER_WANTED}, or use ", Option("tiers"))
    given = _distinct("order", _ordered((Option("order"),), order, _ORDER_WANTED))
    _positions("order", given, position)
    left_out = position.keys() - set(given)
    if left_out:
        shown = join_names(name for name in position if name in left_out)
        raise InputError(
            Option("order"), f" leaves out {shown}; name every variable once, or use ", Option("tiers")
        )
    return [[name] for name in given]


def _tier_groups(tiers: Tiers) -> list[list[str]]:
    if isinstance(tiers, Mapping):
        return _by_number((str(name), _tier_of(name, number)) for name, number in tiers.items())
    wanted = "give a list of names for each tier"
    return [
        [str(name) for name in _listed((f"tier {k} of ", Option("tiers")), group, wanted)]
        for k, group in enumerate(_ordered((Option("tiers"),), tiers, _TIERS_WANTED), start=1)
    ]


def _tier_of(name: str, number: object) -> float:
    tier = _number(number)
    if tier is None:
        raise InputError(
            Option("tiers"), f" gives '{name}' the tier '{number}'; give a number, smaller is earlier"
        )
    return tier


def _by_number(numbered: Iterable[tuple[str, float]]) -> list[list[str]]:
    """Gather names of the same number, small numbers first."""
    groups: dict[float, list[str]] = defaultdict(list)
    for name, number in numbered:
        groups[number].append(name)
    return [groups[number] for number in sorted(groups)]


def _between_groups(option: str, groups: list[list[str]], position: Mapping[str, int]) -> BoolArray:
    named = _distinct(option, [name for group in groups for name in group])
    if not named:
        raise InputError(Option(option), f" names no variable; {_TIERS_WANTED}")
    rank = np.full(len(position), np.nan)  # no comparison with nan holds: variables in no group are free
    rank[_positions(option, named, position)] = [k for k, group in enumerate(groups) for _ in group]
    earlier: BoolArray = rank[:, None] < rank
    return earlier


def _between_pairs(option: str, pairs: Iterable[Direction], position: Mapping[str, int]) -> BoolArray:
    listed = _listed((Option(option),), pairs, "give a list of pairs, such as ['A -> B']")
    ends = [name for pair in listed for name in _pair(option, pair)]
    where = _positions(option, ends, position)
    relation = np.zeros((len(position), len(position)), bool)
    relation[where[::2], where[1::2]] = True
    return relation


def _pair(option: str, pair: Direction) -> tuple[str, str]:
    if isinstance(pair, str):
        ends = [end.strip() for end in pair.split("->")]
    else:
        ends = [str(end) for end in _ordered(("a pair of ", Option(option)), pair, _PAIR_WANTED)]
    if len(ends) != 2 or "" in ends:
        shown = repr(str(pair)) if isinstance(pair, str) else f"({', '.join(map(repr, ends))})"
        raise InputError(Option(option), f" has {shown}, which is not one cause and one effect; {_PAIR_WANTED}")
    cause, effect = ends
    if cause == effect:
        raise InputError(Option(option), f" pairs '{cause}' with itself; give two different variables")
    return cause, effect


# Matrices of direct precedence to their closure.


def _closure(direct: BoolArray) -> BoolArray:
    """Transitive closure by squaring: paths of up to 2, 4, 8, ... steps between what anything is known of."""
    known = np.flatnonzero(direct.any(axis=0) | direct.any(axis=1))
    before, block = direct.copy(), np.ix_(known, known)
    while True:
        steps = before[block].astype(np.float32)  # products of booleans would not go through BLAS
        further = before[block] | (steps @ steps > 0)
        if np.array_equal(further, before[block]):
            return before
        before[block] = further


def _shortest_cycle(direct: BoolArray) -> list[int]:
    """A shortest cycle of a graph that has one, without its return to the first variable."""
    from scipy.sparse import csgraph  # noqa: PLC0415 - seldom needed

    distance, previous = csgraph.shortest_path(direct, unweighted=True, return_predecessors=True)
    closing = np.where(direct, distance.T, np.inf)  # an edge a -> b and the way back from b to a
    first, second = (int(k) for k in np.unravel_index(closing.argmin(), closing.shape))
    backwards = [first]
    while backwards[-1] != second:
        backwards.append(int(previous[second, backwards[-1]]))
    return [first, *backwards[:0:-1]]


def _contradiction(variables: list[str], cycle: list[int], known: Mapping[str, BoolArray]) -> list[Part]:
    steps = list(zip(cycle, [*cycle[1:], cycle[0]], strict=True))
    told = " before ".join(variables[k] for k in [*cycle, cycle[0]])
    involved = [option for option, relation in known.items() if any(relation[step] for step in steps)]
    note = " (it says which way effects run, not that there is none)" if "forbidden" in involved else ""
    options = [part for option in involved for part in (" and ", Option(option))][1:]
    return [f"the known directions contradict each other: {told}; correct ", *options, note]


# Checks of what was given.


def _listed(what: tuple[Part, ...], values: Any, wanted: str) -> list[Any]:
    """Take any iterable but a text, whose letters are never what was meant."""
    if isinstance(values, (str, bytes)):
        raise InputError(*what, f" is the text {str(values)!r}; {wanted}")
    try:
        return list(values)
    except TypeError:
        raise InputError(*what, f" is of type {type(values).__name__}; {wanted}") from None


def _ordered(what: tuple[Part, ...], values: Any, wanted: str) -> list[Any]:
    if isinstance(values, (set, frozenset)):
        raise InputError(*what, f" is a set, which has no first and last; {wanted}")
    return _listed(what, values, wanted)


def _distinct(option: str, values: Iterable[object]) -> list[str]:
    texts = [str(value) for value in values]
    repeated = [text for text, count in Counter(texts).items() if count > 1]
    if repeated:
        verb = "appears" if len(repeated) == 1 else "appear"
        raise InputError(
            f"{join_names(repeated)} {verb} more than once in ", Option(option), "; name each variable once"
        )
    return texts


def _positions(option: str, given: Sequence[str], position: Mapping[str, int]) -> list[int]:
    unknown = [name for name in dict.fromkeys(given) if name not in position]
    if unknown:
        hint = did_you_mean(unknown[0], position, f"the variables are {join_names(position)}")
        what = "is not a variable" if len(unknown) == 1 else "are not variables"
        raise InputError(Option(option), f" names {join_names(unknown)}, which {what} here; {hint}")
    return [position[name] for name in given]


def _number(value: object) -> float | None:
    try:
        number = float(value)  # type: ignore[arg-type]  # what is no number is caught
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


# Files.


def _read_rows(path: Path) -> list[tuple[int, list[str]]]:
    """Number and fields of each line that says something."""
    rows = []
    for number, line in enumerate(_read_lines(path), start=1):
        if line.lstrip().startswith("#"):
            continue
        try:
            fields = next(csv.reader([line], strict=True, skipinitialspace=True), [])
        except csv.Error as error:
            said = f"line {number} of '{path}' cannot be read ({error}); check its double quotes"
            raise InputError(said) from error
        if any(fields := [field.strip() for field in fields]):
            rows.append((number, fields))
    return rows


def _read_lines(path: Path) -> list[str]:
    if not path.exists():
        raise InputError(f"file '{path}' does not exist; check the path")
    if path.is_dir():
        raise InputError(f"'{path}' is a folder; give a file")
    content = path.read_bytes()
    if b"\0" in content:
        raise InputError(f"file '{path}' is not a text file; save it as plain text in UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"line {line} of '{path}' is not UTF-8 text; save the file in UTF-8") from error
    # Not splitlines(), which also breaks at characters that may be part of a name.
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _used(fields: list[str]) -> list[str]:
    """Fields up to the last that is not empty."""
    return fields[: max(k for k, field in enumerate(fields, start=1) if field)]


def _numbered_entry(path: Path, line: int, fields: list[str]) -> tuple[int, str, float]:
    """Line, name and tier."""
    tier = _number(fields[1]) if len(fields) == 2 and fields[0] else None
    if tier is None:
        raise InputError(
            f"line {line} of '{path}' is '{','.join(fields)}'; give a variable and its tier, a number, as the "
            "header says, or leave the line out"
        )
    return line, fields[0], tier
