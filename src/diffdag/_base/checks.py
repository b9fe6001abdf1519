"""Checks of options and names."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from diffdag._base.errors import InputError
from diffdag._base.words import join_names, table_words


def default_names(p: int) -> tuple[str, ...]:
    """Names for variables that came without: X1, ..., Xp."""
    return tuple(f"X{k}" for k in range(1, p + 1))


def check_names(names: Sequence[str], label: str) -> None:
    """Refuse columns that cannot be told apart by name."""
    if "" in names:
        where = names.index("") + 1
        raise InputError(f"column {where} of {table_words(label)} has no name; name it or remove it")
    check_text(names)
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        verb = "appears" if len(repeated) == 1 else "appear"
        raise InputError(
            f"{join_names(repeated)} {verb} more than once among the columns of {table_words(label)}; "
            "rename or remove the copies"
        )


def check_text(names: Sequence[str]) -> None:
    """Refuse names that no file could hold, such as half of a surrogate pair."""
    for name in names:
        if (said := name.encode("utf-8", "replace").decode()) != name:
            raise InputError(f"the name {name!a} is not valid text; call it '{said}' or the like")


def check_option(option: str, value: object, allowed: Sequence[str], said: str = "") -> None:
    """Check an option that is one of a few words, whatever else it is."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(said or f"{option} must be one of {', '.join(allowed)}; it is {value!r}")


def check_rng(rng: object) -> None:
    """Check where randomness comes from."""
    whole = isinstance(rng, (int, np.integer)) and not isinstance(rng, bool) and rng >= 0
    if rng is not None and not whole and not isinstance(rng, np.random.Generator):
        raise InputError(f"rng must be a whole number, 0 or larger, a Generator or None; it is {rng!r}")


def check_whole(name: str, value: object, *, least: int, none_ok: bool = False) -> None:
    """Check an option that is a whole number, `least` or larger."""
    if none_ok and value is None:
        return
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        tail = " or None" if none_ok else ""
        raise InputError(f"{name} must be a whole number, {least} or larger{tail}; it is {value!r}")


def check_number(
    name: str, value: object, *, above: float = -math.inf, below: float = math.inf, none_ok: bool = False
) -> None:
    """Check an option that is a number strictly between two others."""
    if none_ok and value is None:
        return
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, np.bool_))
    if not number or not above < float(value) < below:  # type: ignore[arg-type]
        limits = f"between {above:g} and {below:g}" if below < math.inf else f"larger than {above:g}"
        raise InputError(f"{name} must be a number {limits}{' or None' if none_ok else ''}; it is {value!r}")


def check_jobs(n_jobs: object) -> None:
    """Check a number of workers: None for one, -1 for one per core."""
    whole = isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool)
    if n_jobs is not None and (not whole or n_jobs == 0):
        raise InputError(f"n_jobs must be a whole number other than 0, or None; it is {n_jobs!r}")
