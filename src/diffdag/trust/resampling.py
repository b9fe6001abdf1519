"""The same fit on many resamples of both tables: how often each change is found, and in which direction.

Each fit has random numbers of its own, from the seed and its number alone: fits can run anywhere, in any order,
be interrupted, and be continued with more of them. The two tables are resampled independently.

References
----------
Shah and Samworth (2013), Variable selection with error control: another look at stability selection. Halves
come in complementary pairs, as there.

A bootstrap sample has as many rows as the table, but only 63 % of them are distinct. Where a table has fewer
than `AMPLE` rows a variable that shows: regressions on many variables seem to leave less than they do. There
each distinct row is taken once.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from diffdag._base.arrays import FloatArray
from diffdag._base.checks import check_option, check_rng
from diffdag._base.errors import InputError
from diffdag._base.journal import Journal, Row
from diffdag._base.parallel import run_all
from diffdag._base.progress import Progress, show_progress
from diffdag._base.words import plural
from diffdag.estimator import DifferenceDAG
from diffdag.model.prior_knowledge import precedence
from diffdag.results.records import Share
from diffdag.tables.align import Tables, align_tables
from diffdag.tables.effective_rows import independent_rows
from diffdag.tables.moments import Moments
from diffdag.tables.problems import Missing, check_shape
from diffdag.tables.robust import table_scores

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client

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
        Fits without an answer, by number, and why; their entry in `found` is empty.
    noise, mean : tuple of tuples of int
        Variables whose noise variance, and whose intercept, changed in each fit, by column number.
    """

    names: tuple[str, ...]
    kind: Kind
    rows: tuple[int, int]
    found: tuple[tuple[Found, ...], ...]
    failed: dict[int, str]
    noise: tuple[tuple[int, ...], ...] = ()
    mean: tuple[tuple[int, ...], ...] = ()

    @property
    def answers(self) -> int:
        """Number of fits with an answer: what all shares are shares of."""
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
        """One row a pair of variables in any of the fits, most often found first.

        ``found`` is the share of fits with the pair; it is the sum of ``directed``, from source to target,
        ``reversed`` and ``undirected``. The source is the cause in most of the fits that direct the pair.
        """
        import pandas as pd  # noqa: PLC0415

        columns = [field.name for field in fields(Share)]
        return pd.DataFrame([astuple(share) for share in self.shares], columns=columns)

    def share_of(self, what: Literal["noise", "mean"]) -> dict[str, float]:
        """Share of fits in which a variable's noise variance, or intercept, changed; for each found at all."""
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
            "changed_noise": self.share_of("noise"),
            "changed_mean": self.share_of("mean"),
        }
        return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def resample_fits(
    first: Any,
    second: Any,
    *,
    model: DifferenceDAG | None = None,
    fits: int = 200,
    kind: Kind = "bootstrap",
    rng: np.random.Generator | int | None = None,
    n_jobs: int | None = None,
    client: Client | None = None,
    journal: str | Path | None = None,
    progress: Progress = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    missing: Missing = "error",
) -> Resamples:
    """Fit the same model to many resamples of two tables.

    Parameters
    ----------
    first, second : array or table
        As for `DifferenceDAG.fit`.
    model : DifferenceDAG, optional
        What to fit; the default one if left out. Its `rng` and `n_jobs` are not used. With `effective_samples`
        each fit draws as many rows as the tables are worth, and takes them for independent.
    fits : int
        Number of resamples.
    kind : {"bootstrap", "half"}
        As many rows as there are, drawn with replacement; or half of the rows, drawn without, such that every
        second fit takes rows that the fit before it did not.
    rng : numpy.random.Generator or int, optional
        Source of randomness; None gives the same answer every time.
    n_jobs : int, optional
        Processes; one a core if left out.
    client : distributed.Client, optional
        A Dask cluster that does the work instead; see `diffdag._base.parallel.run_all`.
    journal : path, optional
        A file that keeps finished fits: an interrupted run continues, and a finished one can be given more.
    progress : bool or callable, optional
        True for a bar on a terminal; a function is called with the fits done, their number, and what they are.
    columns, drop, missing
        As for `DifferenceDAG.fit`.

    Returns
    -------
    Resamples
        It depends on neither `n_jobs`, `client` nor interruptions.

    Examples
    --------
    >>> import diffdag as dd
    >>> pair = dd.simulate_pair(p=5, neighbours=2, changes=1, weights=(0.8, 1.0), rng=3)
    >>> tables = pair.first.sample(1000, rng=1), pair.second.sample(1000, rng=2)
    >>> resamples = dd.resample_fits(*tables, fits=10, n_jobs=1)
    >>> best = resamples.edges.iloc[0]
    >>> (best["source"], best["target"]) in pair.edges, float(best["found"])
    (True, 1.0)
    """
    if isinstance(first, Moments) or isinstance(second, Moments):
        raise InputError("moments cannot be resampled; give the two tables of rows")
    tables = align_tables(first, second, columns=columns, drop=drop, missing=missing)
    workers: Workers = {"n_jobs": n_jobs, "client": client, "progress": progress}
    return resample_tables(tables, model, fits, kind, rng, journal, **workers)


class NoneFitted(InputError):
    """No resample gave an answer."""


class Workers(TypedDict, total=False):
    """Who does the work and who is told."""

    n_jobs: int | None
    client: Client | None
    progress: Progress


def resample_tables(
    tables: Tables,
    model: DifferenceDAG | None,
    fits: int,
    kind: Kind,
    rng: np.random.Generator | int | None,
    journal: str | Path | None = None,
    **workers: Unpack[Workers],
) -> Resamples:
    """The same for two tables that are aligned already."""
    _check_options(fits, kind, rng, workers.get("n_jobs"))
    plan = _plan(tables, model, kind, rng)
    shared = tables.first, tables.second, plan
    title = f"Resampling ({'bootstrap' if kind == 'bootstrap' else 'halves'})"
    with _kept(journal, *shared) as (rows, keep):
        todo = [number for number in range(fits) if number not in rows]
        with show_progress(workers.get("progress"), title, fits, fits - len(todo)) as advance:
            jobs, client = workers.get("n_jobs"), workers.get("client")
            for _, row in run_all(_fit_one, todo, shared=shared, jobs=jobs, client=client):
                keep(row)
                advance()
    return _resamples([rows[number] for number in range(fits)], plan)


def check_journal(
    tables: Tables,
    model: DifferenceDAG,
    kind: Kind,
    rng: np.random.Generator | int | None,
    journal: str | Path | None,
    *,
    searched: bool = False,
) -> None:
    """Refuse a journal of another run before anything is worked out that would be lost.

    `searched`: an order that resamples will have to keep to is still to be searched for.
    """
    drawn = isinstance(rng, np.random.Generator)  # which would be another one after this
    if journal is not None and not drawn:
        plan = _plan(tables, model, kind, rng)
        unknown = ("required",) if searched else ()
        _journal(Path(journal), tables.first, tables.second, plan).check(unknown)


@dataclass(frozen=True)
class _Plan:
    """All that a fit depends on besides the rows and its number."""

    names: tuple[str, ...]
    model: DifferenceDAG
    kind: Kind
    rows: tuple[int, int]  # drawn from each table
    entropy: Any
    spawn_key: tuple[int, ...]

    def random(self, number: int) -> list[np.random.Generator]:
        """Random numbers of one fit: for the first table, the second, and the search."""
        seed = np.random.SeedSequence(self.entropy, spawn_key=(*self.spawn_key, number))
        return [np.random.default_rng(child) for child in seed.spawn(3)]


def _check_options(fits: object, kind: object, rng: object, n_jobs: object) -> None:
    if _whole(fits) < 1:
        raise InputError(f"fits must be a whole number, 1 or larger; it is {fits!r}")
    check_option("kind", kind, KINDS)
    check_rng(rng)
    if n_jobs is not None and not abs(_whole(n_jobs)) >= 1:
        raise InputError(f"n_jobs must be a whole number other than 0, or None; it is {n_jobs!r}")


def _whole(value: object) -> float:
    """A whole number, or one that is smaller than all of them."""
    fine = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return int(value) if fine else -math.inf  # type: ignore[call-overload]


def _plan(
    tables: Tables, model: DifferenceDAG | None, kind: Kind, rng: np.random.Generator | int | None
) -> _Plan:
    chosen = DifferenceDAG() if model is None else model
    settings = {**chosen.get_params(), "rng": None, "n_jobs": 1, "confidence": None, "fdr": None}
    _check_model(type(chosen)(**settings), tables)
    rows = _rows_drawn(tables, settings, kind)
    for count, label in zip(rows, ("first", "second"), strict=True):
        check_shape(count, len(tables.names), f"resampled {label}")
    settings["effective_samples"] = None
    seed = (
        rng.bit_generator.seed_seq.spawn(1)[0]  # type: ignore[attr-defined]  # those of NumPy have it
        if isinstance(rng, np.random.Generator)
        else np.random.SeedSequence(0 if rng is None else int(rng))
    )
    return _Plan(tables.names, type(chosen)(**settings), kind, rows, seed.entropy, seed.spawn_key)


def _check_model(model: DifferenceDAG, tables: Tables) -> None:
    """Refuse at once what every fit would refuse."""
    model.check_parameters()
    if model.method == "order":
        known = {name: getattr(model, name) for name in ("order", "tiers", "required", "forbidden")}
        precedence(tables.names, **known)


def _rows_drawn(tables: Tables, settings: dict[str, Any], kind: Kind) -> tuple[int, int]:
    """Rows of each resample: as many as the table is worth, or half of them."""
    worth = len(tables.first), len(tables.second)
    if settings["effective_samples"] is not None:
        covariance: Any = "sample" if settings["covariance"] == "sample" else "winsorised"
        scores = table_scores(tables.first, tables.second, covariance)
        first, second = independent_rows(settings["effective_samples"], scores)
        worth = round(first), round(second)
    return worth if kind == "bootstrap" else (worth[0] // 2, worth[1] // 2)


@contextmanager
def _kept(
    path: str | Path | None, first: FloatArray, second: FloatArray, plan: _Plan
) -> Iterator[tuple[dict[int, Row], Callable[[Row], None]]]:
    """The fits there are, by number, and a function that keeps one more."""
    rows: dict[int, Row] = {}
    if path is None:
        yield rows, lambda row: rows.update({row["fit"]: row})
        return
    with _journal(Path(path), first, second, plan).open() as journal:
        rows.update({row["fit"]: row for row in journal.rows.values()})

        def keep(row: Row) -> None:
            journal.append(row)
            rows[row["fit"]] = row

        yield rows, keep


def _journal(path: Path, first: FloatArray, second: FloatArray, plan: _Plan) -> Journal:
    return Journal(path, _about(first, second, plan), ("fit",))


def _about(first: FloatArray, second: FloatArray, plan: _Plan) -> dict[str, Any]:
    """What the fits of a journal have in common; other tables, or other settings, are another run."""
    from diffdag import __version__  # noqa: PLC0415

    settings = plan.model.get_params()
    required = settings.pop("required")
    content = hashlib.sha256(json.dumps([plan.names, first.shape, second.shape]).encode())
    for table in (first, second):
        content.update(table.tobytes())
    return {
        "run": "resample",
        "rows_hold": ["edges", "noise", "mean"],
        "diffdag": __version__,
        "tables": content.hexdigest(),
        "model": repr(type(plan.model)(**settings)),
        "required": repr(required),
        "kind": plan.kind,
        "rows": plan.rows,
        "seed": [str(plan.entropy), plan.spawn_key],
    }


def _fit_one(number: int, first: FloatArray, second: FloatArray, plan: _Plan) -> Row:
    """One fit; what it refuses, such as a column that is constant in the resample, is its answer."""
    parts, search = _drawn(number, (len(first), len(second)), plan)
    model = type(plan.model)(**{**plan.model.get_params(), "rng": search})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the answer to all rows has warned already
            tables = Tables(first[parts[0]], second[parts[1]], plan.names)
            result = model.fit_tables(tables).result_
    except (ValueError, ArithmeticError) as error:  # also what so few distinct rows make of the arithmetic
        return {"fit": number, "edges": [], "noise": [], "mean": [], "why": str(error)}
    place = {name: k for k, name in enumerate(plan.names)}
    return {
        "fit": number,
        "edges": [[place[edge.source], place[edge.target], edge.directed] for edge in result.edge_list],
        "noise": [place[change.variable] for change in result.noise_list],
        "mean": [place[change.variable] for change in result.mean_list],
        "why": "",
    }


def _drawn(
    number: int, available: tuple[int, int], plan: _Plan
) -> tuple[list[NDArray[np.int64]], np.random.Generator]:
    """Which rows of each table a fit gets, and the random numbers of its search."""
    search = plan.random(number)[2]
    half, turn = plan.kind == "half", number % 2
    # Both fits of a pair of halves shuffle alike; the second goes on where the first stopped.
    own = plan.random(number - turn if half else number)[:2]
    parts = [
        random.permutation(n)[turn * drawn : (turn + 1) * drawn] if half else random.integers(n, size=drawn)
        for random, n, drawn in zip(own, available, plan.rows, strict=True)
    ]
    if not half and min(plan.rows) < AMPLE * len(plan.names):
        parts = [np.unique(part) for part in parts]
    return parts, search


def _resamples(rows: list[Row], plan: _Plan) -> Resamples:
    failed = {row["fit"]: row["why"] for row in rows if row["why"]}
    if len(failed) == len(rows):
        few = f"{min(plan.rows)} rows are few for {plural(len(plan.names), 'variable')}; "
        short = min(plan.rows) < AMPLE * len(plan.names)
        first = next(iter(failed.values()))
        raise NoneFitted(f"none of the resamples could be fitted; {few if short else ''}the first: {first}")
    found = tuple(tuple((i, j, directed) for i, j, directed in row["edges"]) for row in rows)
    noise, mean = (tuple(tuple(row[what]) for row in rows) for what in ("noise", "mean"))
    return Resamples(plan.names, plan.kind, plan.rows, found, failed, noise, mean)
