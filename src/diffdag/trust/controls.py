"""Negative controls: random halves of each table, in which nothing differs, fitted as the tables are.

Penalties are set by what chance gains along some orders (`ordersearch.null_splits`). Whole searches over halves
of the user's own rows are the proof: what they find is false. Where more than a share `LIMIT` of them find
anything, penalties are raised until no more do.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from diffdag._base.errors import InputError
from diffdag._base.parallel import run_all
from diffdag._base.progress import ProgressCallback, show_progress
from diffdag._base.words import named, plural
from diffdag.results.records import Claims
from diffdag.tables.align import Tables
from diffdag.trust.unit_draws import half_units

# Share of halves that may find a change.
LIMIT = 0.05
# Runs of a time series, half of them in either half: rows of a person, or an hour, are alike in all they do.
RUNS = 20
# Multiples of the penalties that are tried where they do.
MULTIPLES = tuple(round(1.25**k, 4) for k in range(13))

# A fit to two tables, with penalties times a multiple.
ControlFit = Callable[[Tables, np.random.Generator, float], Claims]


class Controls(NamedTuple):
    """What fits to random halves of one table claimed, and what penalties were multiplied by for it."""

    halves: int
    edges: int  # fits with an edge, with the penalties as they were; and so on
    gain: int
    noise: int
    mean: int
    multiple: float  # of the penalties, at which no more than `LIMIT` of them claim anything
    left: int  # fits that claim something at this multiple
    refused: int = 0  # halves that could not be fitted

    @property
    def note(self) -> str:
        """What was found where nothing differs."""
        said = f"in {plural(self.halves, 'fit')} to random halves of one table, where nothing differs, "
        found = [
            f"{times} found {what}"
            for times, what in (
                (self.edges, "an edge"),
                (self.gain, "a gain"),
                (self.noise, "a noise variance"),
                (self.mean, "an intercept"),
            )
            if times
        ]
        said += ", ".join(found) or "none found a change"
        if self.multiple > 1:
            said += f"; with penalties {self.multiple:.2g} times as large {self.left} do"
        return said + (f"; {self.refused} more could not be fitted" if self.refused else "")


def control_tables(
    tables: Tables,
    fit: ControlFit,
    halves: int,
    seed: np.random.Generator | int,
    n_jobs: int | None = None,
    progress: ProgressCallback | None = None,
) -> Controls:
    """Fit random halves of the first and of the second table in turn."""
    seeds = np.random.default_rng(seed).integers(2**63, size=halves).tolist()
    tasks = list(enumerate(seeds))
    found: list[tuple[Claims, float]] = []
    why = ""
    with show_progress(progress, "Fitting halves of one table", halves) as advance:
        for _, one in run_all(_control, tasks, shared=(tables, fit), jobs=n_jobs):
            if isinstance(one, str):
                why = one
            else:
                found.append(one)
            advance()
    if not found:
        raise InputError(f"no half of a table could be fitted: {why}; leave ", named("controls"), " out")
    fitted, quiet = len(found), [multiple for _, multiple in found]
    multiple = next((m for m in MULTIPLES if sum(q > m for q in quiet) <= LIMIT * fitted), MULTIPLES[-1])
    by_kind = zip(*(claims for claims, _ in found), strict=True)
    edges, noise, mean, gain = (sum(map(bool, kind)) for kind in by_kind)
    left = sum(q > multiple for q in quiet)
    return Controls(fitted, edges, gain, noise, mean, multiple, left, halves - fitted)


def _control(task: tuple[int, int], tables: Tables, fit: ControlFit) -> tuple[Claims, float] | str:
    """What is claimed of two halves of one table, and the least quiet multiple; or why they were not fitted."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit to all rows warns
            return _quiet_at(*task, tables, fit)
    except (ValueError, ArithmeticError) as refused:  # such as a column that is constant in a half
        return str(refused)


def _quiet_at(number: int, seed: int, tables: Tables, fit: ControlFit) -> tuple[Claims, float]:
    rng = np.random.default_rng(seed)
    both = half_tables(tables, number % 2, rng)
    streams = rng.spawn(len(MULTIPLES))
    as_they_are = None
    for multiple, stream in zip(MULTIPLES, streams, strict=True):
        claims = fit(both, stream, multiple)
        as_they_are = as_they_are or claims
        if not any(claims):
            return as_they_are, multiple
    return as_they_are or claims, math.inf


def half_tables(tables: Tables, which: int, rng: np.random.Generator) -> Tables:
    """Two random halves of the first or the second table; by units if rows are nested, by runs in a series."""
    if tables.design is not None and tables.design.members is not None:
        return half_units(tables, which, rng)
    count = len((tables.first, tables.second)[which])
    if tables.whitened is not None:
        runs = np.array_split(np.arange(count), RUNS)
        chosen = rng.permutation(RUNS)
        first, second = (np.concatenate([runs[k] for k in np.sort(own)]) for own in np.split(chosen, 2))
        return tables.halves(which, first, second)
    rows = rng.permutation(count)
    middle = len(rows) // 2
    return tables.halves(which, np.sort(rows[:middle]), np.sort(rows[middle : 2 * middle]))
