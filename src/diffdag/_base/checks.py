"""Checks of options and names."""

from __future__ import annotations

import math
import numbers
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from diffdag._base.errors import InputError, Problem, raise_problems
from diffdag._base.words import join_names, table_words


def default_names(p: int) -> tuple[str, ...]:
    """Names for variables that came without: X1, ..., Xp."""
    return tuple(f"X{k}" for k in range(1, p + 1))


def check_names(names: Sequence[str], label: str) -> None:
    """Refuse columns that cannot be told apart by name."""
    check_text(names)
    raise_problems(find_names(names, label, names))


def find_names(names: Sequence[str], label: str, wanted: Collection[str]) -> list[Problem]:
    """Columns without a name, or with the name of another one, among those that are wanted."""
    found = []
    if "" in names and "" in wanted:
        what = f"column {names.index('') + 1} of {table_words(label)} has no name"
        found.append(Problem("no-name", what, ("",), advice="name it or remove it"))
    repeated = tuple(name for name, count in Counter(names).items() if count > 1 and name and name in wanted)
    if repeated:
        verb = "appears" if len(repeated) == 1 else "appear"
        what = f"{join_names(repeated)} {verb} more than once among the columns of {table_words(label)}"
        found.append(Problem("duplicate-name", what, repeated, advice="rename or remove the copies"))
    return found


def check_text(names: Sequence[str]) -> None:
    """Refuse names that no file could hold, such as half of a surrogate pair."""
    for name in names:
        if (said := name.encode("utf-8", "replace").decode()) != name:
            raise InputError(f"the name {name!a} is not valid text; call it '{said}' or the like")


def check_option(option: str, value: object, allowed: Sequence[str], said: str = "") -> None:
    """Check an option that is one of a few words, whatever else it is."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(said or f"{option} must be one of {', '.join(allowed)}; it is {value!r}")


def is_whole(value: object) -> bool:
    """Whether this is a whole number, of Python or NumPy; True and False are none."""
    return not isinstance(value, bool) and isinstance(value, numbers.Integral)


def is_number(value: object) -> bool:
    """Whether this is a real number other than NaN; True and False are none."""
    return not isinstance(value, bool) and isinstance(value, numbers.Real) and not math.isnan(value)


def check_whole(
    name: str, value: object, *, least: int | None = None, most: int | None = None, none_ok: bool = False
) -> None:
    """Check an option that is a whole number within bounds.

    Examples
    --------
    >>> check_whole("fits", 200, least=1)
    >>> check_whole("fits", 0.5, least=1, none_ok=True)
    Traceback (most recent call last):
        ...
    diffdag._base.errors.InputError: fits must be a whole number, 1 or larger, or None; it is 0.5
    """
    if not (is_whole(value) and _within(value, least, most)) and not (none_ok and value is None):
        raise InputError(f"{name} must be a whole number{_bounds(least, most, none_ok)}; it is {value!r}")


def check_number(
    name: str,
    value: object,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    none_ok: bool = False,
) -> None:
    """Check an option that is a number within bounds; it has to be larger than `above`.

    Examples
    --------
    >>> check_number("fdr", 0.05, above=0, most=1)
    >>> check_number("fdr", 0, above=0, most=1)
    Traceback (most recent call last):
        ...
    diffdag._base.errors.InputError: fdr must be a number, larger than 0, at most 1; it is 0
    """
    sound = is_number(value) and _within(value, least, most) and (above is None or value > above)  # type: ignore[operator]
    if not sound and not (none_ok and value is None):
        raise InputError(f"{name} must be a number{_bounds(least, most, none_ok, above)}; it is {value!r}")


def _within(value: Any, least: float | None, most: float | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


def _bounds(least: float | None, most: float | None, none_ok: bool, above: float | None = None) -> str:
    """The bounds in words."""
    if least is not None and most is not None:
        words = [f" from {least:,} to {most:,}"]
    else:
        words = [] if least is None else [f", {least:,} or larger"]
        words += [] if above is None else [f", larger than {above:,}"]
        words += [] if most is None else [f", at most {most:,}"]
    return "".join([*words, ", or None" if none_ok else ""])


def check_rng(rng: object) -> None:
    """Check where randomness comes from."""
    if rng is not None and not (is_whole(rng) and rng >= 0) and not isinstance(rng, np.random.Generator):  # type: ignore[operator]
        raise InputError(f"rng must be a whole number, 0 or larger, a Generator or None; it is {rng!r}")
