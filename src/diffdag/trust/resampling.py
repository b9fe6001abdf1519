"""Fits to many resamples of both tables: how often each change is found, and in which direction.

Each fit has random numbers of its own, from the seed and its number alone: fits can run anywhere, in any order,
be interrupted, and be continued with more of them. The two tables are resampled independently.

References
----------
Shah and Samworth (2013), Variable selection with error control: another look at stability selection. Halves
come in complementary pairs, as there.

A bootstrap sample has as many rows as the table, but only 63 % of them are distinct. Where a table has fewer
than `AMPLE` rows per variable that shows: regressions on many variables seem to leave less than they do. There
each distinct row is taken once.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections import Counter, defaultdict
from contextlib import nullcontext
from dataclasses import asdict, astuple, dataclass, fields
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from diffdag._base.arrays import FloatArray
from diffdag._base.checks import check_option, check_rng, check_whole
from diffdag._base.errors import InputError
from diffdag._base.journal import Journal, Row
from diffdag._base.parallel import run_all
from diffdag._base.progress import Progress, show_progress
from diffdag._base.words import plural
from diffdag.results.difference import Difference
from diffdag.results.records import Share
from diffdag.tables.align import Tables
from diffdag.tables.problems import check_shape

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["bootstrap", "half"]
KINDS = ("bootstrap", "half")
AMPLE = 6
Found = tuple[int, int, bool]  # source and target by column number, and whether directed


@dataclass(frozen=True, eq=False)
class Resamples:
    """What the fits on resamples found.

    Attributes
    ----------
    names : tuple of str
        The variables.
    kind : {"bootstrap", "half"}
    rows : (int, int)
        Rows drawn from each table for each fit.
    found : tuple of tuples of (int, int, bool)
        The edges of each fit: source and target by column number, and whether directed.
    failed : dict of int to str
        Fits that failed, by number, and why; their entry in `found` is empty.
    noise, mean, gain : tuple of tuples of int
        Variables whose noise variance, intercept and gain changed in each fit, by column number.
    """

    names: tuple[str, ...]
    kind: Kind
    rows: tuple[int, int]
    found: tuple[tuple[Found, ...], ...]
    failed: dict[int, str]
    noise: tuple[tuple[int, ...], ...] = ()
    mean: tuple[tuple[int, ...], ...] = ()
    gain: tuple[tuple[int, ...], ...] = ()

    @property
    def answers(self) -> int:
        """Number of fits that did not fail: what all shares are shares of."""
        return len(self.found) - len(self.failed)

    @cached_property
    def shares(self) -> tuple[Share, ...]:
        """Every pair of variables in any of the fits, most often found first."""
        counts: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0])
        for source, target, directed in (edge for edges in self.found for edge in edges):
            way = 2 if not directed else int(source > target)
            counts[min(source, target), max(source, target)][way] += 1
        shares = []
        for (i, j), (forward, backward, undirected) in sorted(counts.items()):
            ends, ways = ((i, j), (forward, backward)) if forward >= backward else ((j, i), (backward, forward))
            total = forward + backward + undirected
            parts = (count / self.answers for count in (total, *ways, undirected))
            shares.append(Share(self.names[ends[0]], self.names[ends[1]], *parts))
        return tuple(sorted(shares, key=lambda share: (-share.found, -share.directed)))

    @property
    def edges(self) -> pd.DataFrame:
        """One row per pair of variables in any of the fits, most often found first.

        ``found`` is the share of fits with the pair; it is the sum of ``directed``, from source to target,
        ``reversed`` and ``undirected``. The source is the cause in most of the fits that direct the pair.
        """
        import pandas as pd  # noqa: PLC0415

        columns = [field.name for field in fields(Share)]
        return pd.DataFrame([astuple(share) for share in self.shares], columns=columns)

    def share_of(self, what: Literal["noise", "mean", "gain"]) -> dict[str, float]:
        """Share of fits in which a variable's noise variance, intercept or gain changed, if in any."""
        counts = Counter(k for fit in getattr(self, what) for k in fit)
        return {self.names[k]: count / self.answers for k, count in counts.most_common()}

    def to_json(self) -> str:
        """Everything but the single fits, for programs."""
        value = {
            "schema": 1,
            "variables": list(self.names),
            "kind": self.kind,
            "fits": len(self.found),
            "rows": {"first": self.rows[0], "second": self.rows[1]},
            "failed": {str(number): why for number, why in self.failed.items()},
            "edges": [asdict(share) for share in self.shares],
            "changed_gain": self.share_of("gain"),
            "changed_noise": self.share_of("noise"),
            "changed_mean": self.share_of("mean"),
        }
        return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


class NoneFitted(InputError):
    """No resample could be fitted."""


class Refit(Protocol):
    """A fit that can be repeated on other rows, in another process: it is pickled."""

    @property
    def about(self) -> dict[str, str]:
        """What the fit depends on, besides rows and random numbers; ``"required"`` may be known later."""

    def __call__(self, tables: Tables, rng: np.random.Generator) -> Difference:
        """Fit two aligned tables."""


@dataclass(frozen=True)
class Drawing:
    """How resamples are drawn from two tables."""

    names: tuple[str, ...]
    kind: Kind
    rows: tuple[int, int]  # drawn from each table
    entropy: Any  # of the seed that all random numbers come from
    spawn_key: tuple[int, ...]

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        kind: Kind,
        effective: tuple[int, int],
        rng: np.random.Generator | int | None,
    ) -> Drawing:
        """Draw as many rows as the tables are worth, or half of them."""
        check_option("kind", kind, KINDS)
        check_rng(rng)
        rows = effective if kind == "bootstrap" else (effective[0] // 2, effective[1] // 2)
        for count, label in zip(rows, ("first", "second"), strict=True):
            check_shape(count, len(names), f"resampled {label}")
        seed = (
            rng.bit_generator.seed_seq.spawn(1)[0]  # type: ignore[attr-defined]  # those of NumPy have it
            if isinstance(rng, np.random.Generator)
            else np.random.SeedSequence(0 if rng is None else int(rng))
        )
        return cls(names, kind, rows, seed.entropy, seed.spawn_key)

    def random(self, number: int) -> list[np.random.Generator]:
        """Random numbers of one fit: for the first table, the second, and the search."""
        seed = np.random.SeedSequence(self.entropy, spawn_key=(*self.spawn_key, number))
        return [np.random.default_rng(child) for child in seed.spawn(3)]


def resample_tables(
    tables: Tables,
    refit: Refit,
    fits: int,
    drawing: Drawing,
    *,
    journal: str | Path | None = None,
    n_jobs: int | None = None,
    progress: Progress = None,
) -> Resamples:
    """Fit resamples of two aligned tables.

    The journal is a file that keeps finished fits: an interrupted run continues, and a finished one can be
    given more.
    """
    check_whole("fits", fits, least=1)
    shared = tables.first, tables.second, refit, drawing
    title = f"Resampling ({'bootstrap' if drawing.kind == 'bootstrap' else 'halves'})"
    with nullcontext() if journal is None else _journal(Path(journal), *shared).open() as kept:
        rows: dict[int, Row] = {row["fit"]: row for row in kept.rows.values()} if kept else {}
        todo = [number for number in range(fits) if number not in rows]
        with show_progress(progress, title, fits, fits - len(todo)) as advance:
            for _, row in run_all(_fit_one, todo, shared=shared, jobs=n_jobs):
                if kept:
                    kept.append(row)
                rows[row["fit"]] = row
                advance()
    return _resamples([rows[number] for number in range(fits)], drawing)


def check_journal(
    tables: Tables, refit: Refit, drawing: Drawing, journal: str | Path | None, *, searched: bool = False
) -> None:
    """Refuse a journal of another run before anything is worked out that would be lost.

    `searched`: an order that resamples will have to keep to is still to be searched for.
    """
    if journal is not None:
        unknown = ("required",) if searched else ()
        _journal(Path(journal), tables.first, tables.second, refit, drawing).check(unknown)


def _journal(path: Path, first: FloatArray, second: FloatArray, refit: Refit, drawing: Drawing) -> Journal:
    """The journal of these fits; other tables, or other settings, are another run."""
    content = hashlib.sha256(json.dumps([drawing.names, first.shape, second.shape]).encode())
    for table in (first, second):
        content.update(table.tobytes())
    about = {
        "run": "resample",
        "rows_hold": ["edges", "noise", "mean"],
        "diffdag": version("diffdag"),
        "tables": content.hexdigest(),
        **refit.about,
        "kind": drawing.kind,
        "rows": drawing.rows,
        "seed": [str(drawing.entropy), drawing.spawn_key],
    }
    return Journal(path, about, ("fit",))


def _fit_one(number: int, first: FloatArray, second: FloatArray, refit: Refit, drawing: Drawing) -> Row:
    """One fit; what it refuses, such as a column that is constant in the resample, is its outcome."""
    parts, search = _drawn(number, (len(first), len(second)), drawing)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit to all rows has warned already
            result = refit(Tables(first[parts[0]], second[parts[1]], drawing.names), search)
    except (ValueError, ArithmeticError) as error:  # also what so few distinct rows make of the arithmetic
        return {"fit": number, "edges": [], "noise": [], "mean": [], "gain": [], "why": str(error)}
    place = {name: k for k, name in enumerate(drawing.names)}
    return {
        "fit": number,
        "edges": [[place[edge.source], place[edge.target], edge.directed] for edge in result.edge_list],
        "noise": [place[change.variable] for change in result.noise_list],
        "mean": [place[change.variable] for change in result.mean_list],
        "gain": [place[change.variable] for change in result.gain_list],
        "why": "",
    }


def _drawn(
    number: int, available: tuple[int, int], drawing: Drawing
) -> tuple[list[NDArray[np.int64]], np.random.Generator]:
    """Which rows of each table a fit gets, and the random numbers of its search."""
    search = drawing.random(number)[2]
    half, turn = drawing.kind == "half", number % 2
    # Both fits of a pair of halves shuffle alike; the second goes on where the first stopped.
    own = drawing.random(number - turn if half else number)[:2]
    parts = [
        random.permutation(n)[turn * drawn : (turn + 1) * drawn] if half else random.integers(n, size=drawn)
        for random, n, drawn in zip(own, available, drawing.rows, strict=True)
    ]
    if not half and min(drawing.rows) < AMPLE * len(drawing.names):
        parts = [np.unique(part) for part in parts]
    return parts, search


def _resamples(rows: list[Row], drawing: Drawing) -> Resamples:
    failed = {row["fit"]: row["why"] for row in rows if row["why"]}
    if len(failed) == len(rows):
        few = f"{min(drawing.rows)} rows are few for {plural(len(drawing.names), 'variable')}; "
        short = min(drawing.rows) < AMPLE * len(drawing.names)
        first = next(iter(failed.values()))
        raise NoneFitted(f"none of the resamples could be fitted; {few if short else ''}the first: {first}")
    found = tuple(tuple((i, j, directed) for i, j, directed in row["edges"]) for row in rows)
    others = (tuple(tuple(row[what]) for row in rows) for what in ("noise", "mean", "gain"))
    return Resamples(drawing.names, drawing.kind, drawing.rows, found, failed, *others)
