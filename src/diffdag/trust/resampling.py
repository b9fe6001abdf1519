"""Fits to many resamples of both tables: how often each change is found, and in which direction.

Each fit has random numbers of its own, from the seed and its number alone: fits can run anywhere, in any order,
be interrupted, and be continued with more of them. The two tables are resampled independently. Every second
fit to a bootstrap sample may vary the specification, too (see `variation`).

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
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from diffdag._base.checks import check_fits, check_option, check_rng
from diffdag._base.errors import InputError
from diffdag._base.journal import Journal, Row
from diffdag._base.parallel import count_workers, run_all
from diffdag._base.progress import Progress, show_progress
from diffdag._base.words import plural
from diffdag.results.records import Claims, Share, Ways
from diffdag.tables.align import Tables
from diffdag.tables.problems import check_shape
from diffdag.trust.unit_draws import draw_units
from diffdag.trust.variation import Varied, vary

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["bootstrap", "half"]
KINDS = ("bootstrap", "half")
AMPLE = 6
# Fits after which it is asked for the first time whether more would change anything, and then again and again.
LEAST_FITS, STEP = 50, 20
LONG = 5.0  # seconds from which on the time that resamples take is said
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
    varied : tuple of str
        How each fit varied the specification, empty where it did not; no entries if none did.
    out : tuple of tuples of int
        Columns that each fit left out, if some varied the specification.
    asked : int, optional
        Fits that were asked for; fewer were made if the numbers had settled.
    """

    names: tuple[str, ...]
    kind: Kind
    rows: tuple[int, int]
    found: tuple[tuple[Found, ...], ...]
    failed: dict[int, str]
    noise: tuple[tuple[int, ...], ...] = ()
    mean: tuple[tuple[int, ...], ...] = ()
    gain: tuple[tuple[int, ...], ...] = ()
    varied: tuple[str, ...] = ()
    out: tuple[tuple[int, ...], ...] = ()
    asked: int | None = None

    @cached_property
    def plain(self) -> tuple[int, ...]:
        """Numbers of the fits with the specification as it is that did not fail."""
        return tuple(k for k in range(len(self.found)) if k not in self.failed and not self._how(k))

    @cached_property
    def changed(self) -> tuple[int, ...]:
        """Numbers of the fits with a varied specification that did not fail."""
        return tuple(k for k in range(len(self.found)) if k not in self.failed and self._how(k))

    def _how(self, number: int) -> str:
        return self.varied[number] if self.varied else ""

    @property
    def answers(self) -> int:
        """Number of plain fits that did not fail: what shares are shares of, but for those of varied fits."""
        return len(self.plain)

    @cached_property
    def shares(self) -> tuple[Share, ...]:
        """Every pair of variables in any of the fits, most often found first."""
        plain, varied = self._counts(self.plain), self._counts(self.changed)
        out = [set(self.out[k]) for k in self.changed]
        shares = []
        for i, j in sorted({key[:2] for key in (*plain, *varied)}):
            both = plain[i, j, 0] + varied[i, j, 0], plain[i, j, 1] + varied[i, j, 1]
            (one, two), ways = ((i, j), (0, 1, 2)) if both[0] >= both[1] else ((j, i), (1, 0, 2))
            fits = self.answers, sum(not {i, j} & left for left in out)
            own, other = (
                _ways(count, [counts[i, j, way] for way in ways])
                for count, counts in zip(fits, (plain, varied), strict=True)
            )
            ends = self.names[one], self.names[two]
            shares.append(Share(*ends, own.found, own.directed, own.reversed, own.undirected, other))
        return tuple(sorted(shares, key=lambda share: (-share.found, -share.directed, -share.varied.found)))

    def _counts(self, fits: Iterable[int]) -> Counter[tuple[int, int, int]]:
        """How often each pair i < j was found from i to j (0), from j to i (1), and without direction (2)."""
        return Counter(
            (min(source, target), max(source, target), int(source > target) if directed else 2)
            for k in fits
            for source, target, directed in self.found[k]
        )

    @property
    def edges(self) -> pd.DataFrame:
        """One row per pair of variables in any of the fits, most often found first.

        ``found`` is the share of fits with the pair; it is the sum of ``directed``, from source to target,
        ``reversed`` and ``undirected``. The source is the cause in most of the fits that direct the pair.
        Columns that begin with ``varied_`` are the same of the fits that vary the specification, if there are
        any; ``varied_fits`` is how many of them have both variables.
        """
        import pandas as pd  # noqa: PLC0415

        columns = [field.name for field in fields(Share) if field.name != "varied"]
        table = pd.DataFrame(
            [[getattr(share, name) for name in columns] for share in self.shares], columns=columns
        )
        if not self.changed:
            return table
        other = pd.DataFrame([asdict(share.varied) for share in self.shares]).add_prefix("varied_")
        return pd.concat([table, other], axis=1)

    def share_of(self, what: Literal["noise", "mean", "gain"]) -> dict[str, float]:
        """Share of plain fits in which a variable's noise variance, intercept or gain changed, if in any."""
        every = getattr(self, what)
        counts = Counter(k for number in self.plain if every for k in every[number])
        return {self.names[k]: count / self.answers for k, count in counts.most_common()}

    def to_json(self) -> str:
        """Everything but the single fits, for programs."""
        value = {
            "schema": 1,
            "variables": list(self.names),
            "kind": self.kind,
            "fits": len(self.found),
            "varied": dict(Counter(how for how in self.varied if how)),
            "rows": {"first": self.rows[0], "second": self.rows[1]},
            "failed": {str(number): why for number, why in self.failed.items()},
            "edges": [asdict(share) for share in self.shares],
            "changed_gain": self.share_of("gain"),
            "changed_noise": self.share_of("noise"),
            "changed_mean": self.share_of("mean"),
        }
        return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _ways(fits: int, counts: list[int]) -> Ways:
    """Counts of each way as shares of so many fits."""
    return Ways(fits, *(count / max(fits, 1) for count in (sum(counts), *counts)))


class NoneFitted(InputError):
    """No resample could be fitted."""


class Refit(Protocol):
    """A fit that can be repeated on other rows, in another process: it is pickled."""

    @property
    def about(self) -> dict[str, str]:
        """What the fit depends on, besides rows and random numbers; ``"required"`` may be known later."""

    def __call__(
        self, tables: Tables, rng: np.random.Generator, out: Sequence[int] = (), *, equal: bool = False
    ) -> Claims:
        """Fit two aligned tables, with some columns left out, or noise variances taken for equal."""


@dataclass(frozen=True)
class Drawing:
    """How resamples are drawn from two tables."""

    names: tuple[str, ...]
    kind: Kind
    rows: tuple[int, int]  # drawn from each table
    entropy: Any  # of the seed that all random numbers come from
    spawn_key: tuple[int, ...]
    varies: bool = False  # whether every second fit varies the specification

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        kind: Kind,
        effective: tuple[int, int],
        rng: np.random.Generator | int | None,
        varies: bool = False,
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
        return cls(names, kind, rows, seed.entropy, seed.spawn_key, varies)

    def random(self, number: int) -> list[np.random.Generator]:
        """Random numbers of one fit: for the first table, the second, the search, and the specification."""
        seed = np.random.SeedSequence(self.entropy, spawn_key=(*self.spawn_key, number))
        return [np.random.default_rng(child) for child in seed.spawn(4)]


def resample_tables(
    tables: Tables,
    refit: Refit,
    fits: int,
    drawing: Drawing,
    *,
    journal: str | Path | None = None,
    n_jobs: int | None = None,
    progress: Progress = None,
    settled: Callable[[Resamples], bool] | None = None,
) -> Resamples:
    """Fit resamples of two aligned tables.

    The journal is a file that keeps finished fits: an interrupted run continues, and a finished one can be
    given more. Where `settled` says that more fits would change nothing, no more are made; it is asked after
    certain numbers of fits, so that the result depends on neither processes nor interruptions.
    """
    check_fits("fits", fits, least=1)
    shared = tables, refit, drawing
    with nullcontext() if journal is None else _journal(Path(journal), *shared).open() as kept:
        rows: dict[int, Row] = {row["fit"]: row for row in kept.rows.values()} if kept else {}

        def keep(row: Row) -> None:
            if kept:
                kept.append(row)
            rows[row["fit"]] = row

        todo = [number for number in range(fits) if number not in rows]
        began = time.monotonic()
        if todo:  # the first one tells how long all will take
            keep(_fit_one(todo[0], *shared))
        seconds = (time.monotonic() - began) * max(len(todo) - 1, 0) / count_workers(n_jobs)
        what = "bootstrap" if drawing.kind == "bootstrap" else "halves"
        with show_progress(
            progress, f"Resampling ({what}){_at_most(seconds)}", fits, fits - len(todo)
        ) as advance:
            advance(len(todo[:1]))
            for done in _stops(fits, settled is not None):
                ahead = [number for number in range(done) if number not in rows]
                for _, row in run_all(_fit_one, ahead, shared=shared, jobs=n_jobs):
                    keep(row)
                    advance()
                made = [rows[number] for number in range(done)]
                if settled is None or done == fits or _none_fitted(made):
                    continue
                if settled(_resamples(made, drawing, fits)):
                    advance(sum(number not in rows for number in range(fits)))
                    break
    return _resamples(made, drawing, fits)


def _stops(fits: int, early: bool) -> list[int]:
    """After how many fits to look whether they are enough; the last is all of them."""
    return [*range(LEAST_FITS, fits, STEP), fits] if early else [fits]


def _at_most(seconds: float) -> str:
    """How long it will take, where that is long enough to be worth saying."""
    if seconds < LONG:
        return ""
    return (
        f", at most {plural(round(seconds / 60), 'minute')}" if seconds > 90 else f", at most {seconds:.0f} s"
    )


def check_journal(
    tables: Tables, refit: Refit, drawing: Drawing, journal: str | Path | None, *, searched: bool = False
) -> None:
    """Refuse a journal of another run before anything is worked out that would be lost.

    `searched`: an order that resamples will have to keep to is still to be searched for.
    """
    if journal is not None:
        unknown = ("required",) if searched else ()
        _journal(Path(journal), tables, refit, drawing).check(unknown)


def _journal(path: Path, tables: Tables, refit: Refit, drawing: Drawing) -> Journal:
    """The journal of these fits; other tables, or other settings, are another run."""
    design, rows = tables.design, (tables.first, tables.second)
    content = hashlib.sha256(json.dumps([drawing.names, rows[0].shape, rows[1].shape]).encode())
    for table in (*rows, *(() if design is None else (*design.covariates, *(design.members or ())))):
        content.update(table.tobytes())
    about = {
        "run": "resample",
        "rows_hold": ["edges", "noise", "mean", "gain", "varied", "out"],
        "diffdag": version("diffdag"),
        "tables": content.hexdigest(),
        **refit.about,
        "kind": drawing.kind,
        "rows": drawing.rows,
        "varies": drawing.varies,
        "seed": [str(drawing.entropy), drawing.spawn_key],
    }
    return Journal(path, about, ("fit",))


def _fit_one(number: int, tables: Tables, refit: Refit, drawing: Drawing) -> Row:
    """One fit; what it refuses, such as a column that is constant in the resample, is its outcome."""
    drawn, search = draw(number, tables, drawing)
    varied = Varied(drawn)
    if drawing.varies and number % 2:
        varied = vary(varied.tables, number // 2, drawing.random(number)[3])
    row: Row = {"fit": number, "varied": varied.how, "out": list(varied.out)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit to all rows has warned already
            claims = refit(varied.tables, search, varied.out, equal=varied.equal)
    except (ValueError, ArithmeticError) as error:  # also what so few distinct rows make of the arithmetic
        return {**row, "edges": [], "noise": [], "mean": [], "gain": [], "why": str(error)}
    place = {name: k for k, name in enumerate(drawing.names)}
    edges = [[place[source], place[target], directed] for source, target, directed in claims.edges]
    others = {what: [place[name] for name in getattr(claims, what)] for what in ("noise", "mean", "gain")}
    return {**row, "edges": edges, **others, "why": ""}


def draw(number: int, tables: Tables, drawing: Drawing) -> tuple[Tables, np.random.Generator]:
    """The rows that a fit gets, by units where they are nested, and the random numbers of its search."""
    search = drawing.random(number)[2]
    if tables.design is not None and tables.design.members is not None:
        turn = number % 2 if drawing.kind == "half" else 0
        own = drawing.random(number - turn)[0]
        return draw_units(tables, drawing.kind == "half", bool(turn), own), search
    parts = _drawn(number, (len(tables.first), len(tables.second)), drawing)
    return tables.take(parts[0], parts[1]), search


def _drawn(number: int, available: tuple[int, int], drawing: Drawing) -> list[NDArray[np.int64]]:
    """Which rows of each table a fit gets."""
    half, turn = drawing.kind == "half", number % 2
    # Both fits of a pair of halves shuffle alike; the second goes on where the first stopped.
    own = drawing.random(number - turn if half else number)[:2]
    parts = [
        random.permutation(n)[turn * drawn : (turn + 1) * drawn] if half else random.integers(n, size=drawn)
        for random, n, drawn in zip(own, available, drawing.rows, strict=True)
    ]
    if not half and min(drawing.rows) < AMPLE * len(drawing.names):
        parts = [np.unique(part) for part in parts]
    return parts


def _none_fitted(rows: list[Row]) -> bool:
    return all(row["why"] for row in rows if not row["varied"])


def _resamples(rows: list[Row], drawing: Drawing, asked: int) -> Resamples:
    failed = {row["fit"]: row["why"] for row in rows if row["why"]}
    if _none_fitted(rows):
        few = f"{min(drawing.rows)} rows are few for {plural(len(drawing.names), 'variable')}; "
        short = min(drawing.rows) < AMPLE * len(drawing.names)
        first = next(iter(failed.values()))
        raise NoneFitted(f"none of the resamples could be fitted; {few if short else ''}the first: {first}")
    found = tuple(tuple((i, j, directed) for i, j, directed in row["edges"]) for row in rows)
    noise, mean, gain = (tuple(tuple(row[what]) for row in rows) for what in ("noise", "mean", "gain"))
    how = drawing.names, drawing.kind, drawing.rows
    drawn = Resamples(*how, found, failed, noise, mean, gain, asked=asked)
    if not drawing.varies:
        return drawn
    varied, out = tuple(row["varied"] for row in rows), tuple(tuple(row["out"]) for row in rows)
    return replace(drawn, varied=varied, out=out)
