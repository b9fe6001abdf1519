"""Checks of options and names."""

from __future__ import annotations

import math
import numbers
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeGuard

import numpy as np

from diffdag._base.errors import InputError, Problem, raise_problems
from diffdag._base.words import Way, join_names, named, table_words

MOST_FITS = 100_000  # resamples, permutations and the like: more would take all memory before they began


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
        must = (named(option), f" must be one of {', '.join(allowed)}; it is {value!r}")
        raise InputError(*((said,) if said else must))


def is_whole(value: object) -> bool:
    """Whether this is a whole number, of Python or NumPy; True and False are none."""
    return not isinstance(value, bool) and isinstance(value, numbers.Integral)


def is_number(value: object) -> bool:
    """Whether this is a real number other than NaN; True and False are none."""
    return not isinstance(value, bool) and isinstance(value, numbers.Real) and not math.isnan(value)


def is_listing(value: object) -> TypeGuard[Iterable[object]]:
    """Whether this is a list, an array or the like: no text, and no array without axes."""
    return isinstance(value, Iterable) and not isinstance(value, str) and getattr(value, "ndim", 1) != 0


def check_labels(labels: Sequence[str] | None) -> tuple[str, str]:
    """What to call the two conditions."""
    if labels is None:
        return "first", "second"
    words = tuple(labels) if isinstance(labels, (list, tuple)) else ()
    if len(words) != 2 or not all(isinstance(word, str) and word.strip() for word in words):
        raise InputError(
            named("labels"), f" must be two names, such as control and treated; they are {labels!r}"
        )
    if words[0] == words[1]:
        raise InputError(f"both conditions are called {words[0]!r}; give them different labels")
    return words[0], words[1]


def check_rng(rng: object) -> None:
    """Check where randomness comes from."""
    if rng is not None and not (is_whole(rng) and rng >= 0) and not isinstance(rng, np.random.Generator):  # type: ignore[operator]
        raise InputError(
            named("rng"), f" must be a whole number, 0 or larger, a Generator or None; it is {rng!r}"
        )


def generator(rng: Any) -> np.random.Generator:
    """The generator of a seed, or of what else numpy makes one from."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise InputError(named("rng"), f" must be a seed, a Generator or None; it is {rng!r}") from None


def check_whole(name: str, value: object, *, least: int, most: float = math.inf, none_ok: bool = False) -> None:
    """Check an option that is a whole number, `least` or larger, and up to `most`."""
    if none_ok and value is None:
        return
    if not (is_whole(value) and value >= least):  # type: ignore[operator]
        none = [Way((", or None",), ", or left out", ", or left out")] * none_ok
        raise InputError(
            named(name), f" must be a whole number, {least} or larger", *none, f"; it is {value!r}"
        )
    if value > most:  # type: ignore[operator]
        raise InputError(named(name), f" must be at most {most:,}; it is {value!r}")


def check_fits(name: str, value: object, *, least: int, none_ok: bool = False) -> None:
    """Check how often something is to be fitted, or counted."""
    check_whole(name, value, least=least, most=MOST_FITS, none_ok=none_ok)


def check_number(
    name: str,
    value: object,
    *,
    above: float = -math.inf,
    below: float = math.inf,
    none_ok: bool = False,
    apposition: str = "",
) -> None:
    """Check an option that is a number strictly between two others; `apposition` says more of what it is."""
    if not (none_ok and value is None) and not (is_number(value) and above < value < below):  # type: ignore[operator]
        limits = f"between {above:g} and {below:g}" if below < math.inf else f"larger than {above:g}"
        raise InputError(named(name), f"{apposition} must be a number {limits}; it is {value!r}")


def check_jobs(n_jobs: object) -> None:
    """Check a number of workers: None for one, -1 for one per core."""
    if n_jobs is not None and (not is_whole(n_jobs) or n_jobs == 0):
        raise InputError(named("n_jobs"), f" must be a whole number other than 0; it is {n_jobs!r}")
