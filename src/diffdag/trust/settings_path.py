"""Settings from the data: the fit along a path of settings, the one to take, and what depends on it.

The setting that matters most, the penalty of the order search or the threshold of the paper's method, is varied
first, with all others as they are; then, at the one chosen, the number of variables kept by the screen or the
paper's penalty. All are given as multiples of the default. The choice is the smallest extended BIC (see
`criterion`), or by stability: the least severe setting from which on fits to halves of the rows agree.

References
----------
Liu, Roeder and Wasserman (2010), Stability approach to regularization selection (StARS).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from diffdag._base.checks import check_option
from diffdag._base.errors import DiffDagWarning, InputError
from diffdag._base.parallel import run_all
from diffdag._base.progress import Advance, Progress, Unthrottled, show_progress
from diffdag.estimator import DifferenceDAG
from diffdag.paper.defaults import default_penalty, default_threshold
from diffdag.precision.api import Penalty
from diffdag.results.difference import Difference, kept_columns
from diffdag.tables.align import Tables, align_tables
from diffdag.tables.moments import Moments, choose
from diffdag.tables.problems import Missing, check_same_columns
from diffdag.trust.criterion import GAMMA, STABLE, extended_bic, instability
from diffdag.trust.resampling import Resamples, check_journal, resample_fits
from diffdag.trust.sensitivity import Setting, SettingMultiples, SettingsPath

if TYPE_CHECKING:
    from diffdag.result import PathResult

By = Literal["ebic", "stability"]
WAYS = ("ebic", "stability")
PLURAL = {"penalty": "penalties", "threshold": "thresholds", "size": "sizes"}
# The setting varied first, and the one varied at its best value.
AXES = {"order": ("penalty", "size"), "paper": ("threshold", "penalty")}
MULTIPLES = {
    "order": {
        "penalty": (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5),
        "size": (0.25, 0.5, 1.0),
    },
    "paper": {
        "threshold": (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5),
        "penalty": (0.25, 0.5, 1.0, 2.0, 4.0),
    },
}
# Criteria this close are taken for the same: "not worth more than a bare mention" (Kass and Raftery 1995).
EBIC_TIE = 1.0


def settings_path(
    first: Any,
    second: Any,
    *,
    model: DifferenceDAG | None = None,
    by: By = "ebic",
    penalties: Sequence[float] | None = None,
    thresholds: Sequence[float] | None = None,
    sizes: Sequence[float] | None = None,
    fits: int = 50,
    rng: np.random.Generator | int | None = None,
    n_jobs: int | None = None,
    journal: str | Path | None = None,
    progress: Progress = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    missing: Missing = "error",
) -> PathResult:
    """Fit along a path of settings, choose one from the data, and say what depends on it.

    Parameters
    ----------
    first, second : array, table or Moments
        As for `DifferenceDAG.fit`; moments only with ``by="ebic"``.
    model : DifferenceDAG, optional
        What to fit; the default one if left out. Its own penalty, threshold and screen are the default that
        all others are multiples of. Its `rng` and `n_jobs` are not used.
    by : {"ebic", "stability"}
        Extended BIC; or agreement of fits to halves of the rows, which takes `fits` times as long.
    penalties, thresholds, sizes : sequence of float, optional
        Multiples of the default to try; 1 always is. Thresholds are for ``method="paper"``. Sizes, of the
        number of variables that are ordered, are for ``"order"``: if left out, where some are screened out.
    fits : int
        Halves a setting, with ``by="stability"``.
    rng : numpy.random.Generator or int, optional
        Source of randomness; None gives the same answer every time.
    n_jobs : int, optional
        Settings, or halves, at a time; one a core if left out, in the order search.
    journal : path, optional
        A folder that keeps finished halves: an interrupted run continues.
    progress : bool or callable, optional
        True for a bar on a terminal; a function is called with the fits done and their number.
    columns, drop, missing
        As for `DifferenceDAG.fit`.

    Returns
    -------
    PathResult

    Examples
    --------
    >>> import diffdag as dd
    >>> pair = dd.simulate_pair(p=5, neighbours=2, changes=1, weights=(0.8, 1.0), rng=3)
    >>> tables = pair.first.sample(1000, rng=1), pair.second.sample(1000, rng=2)
    >>> path = dd.settings_path(*tables, penalties=[0.5, 2], n_jobs=1)
    >>> path.chosen, path.agrees
    ({'penalty': 1.0}, True)
    >>> path.edges[["from", "to", "share", "in_default"]].values.tolist()
    [[0.5, 2.0, 1.0, True]]
    """
    given = {"penalty": penalties, "threshold": thresholds, "size": sizes}
    chosen = DifferenceDAG() if model is None else model
    _check_options(chosen, by, given, fits)
    given = {axis: _multiples(axis, values) for axis, values in given.items()}
    own = {"columns": columns, "drop": drop, "missing": missing}
    seed = int(rng.integers(2**63)) if isinstance(rng, np.random.Generator) else rng
    study = _study(first, second, chosen, seed, n_jobs, own)

    def kept_at(at: SettingMultiples) -> Path | None:
        return None if journal is None else Path(journal) / f"{at}.journal"

    if by == "stability" and study.tables is None:
        raise InputError("moments cannot be resampled; give the two tables of rows, or by='ebic'")
    if by == "stability" and study.tables is not None:  # one journal speaks for all of the folder
        check_journal(
            study.tables, study.model(SettingMultiples(), half=True), "half", seed, kept_at(SettingMultiples())
        )

    def halves(at: SettingMultiples, told: Advance) -> Resamples:
        return resample_fits(
            first,
            second,
            model=study.model(at, half=True),
            fits=fits,
            kind="half",
            rng=seed,
            n_jobs=n_jobs,
            journal=kept_at(at),
            progress=_passing_on(told),
            **own,  # type: ignore[arg-type]
        )

    from diffdag.result import PathResult  # noqa: PLC0415

    walk = _Walk(study, by, halves, fits, given)
    return PathResult.of(walk.path(progress))


def _passing_on(advance: Advance) -> Unthrottled:
    """Tell of the steps of a part as steps of the whole, those of an earlier run too."""
    before = 0

    def tell(done: int, total: int | None, what: str) -> None:
        nonlocal before
        if done > before:
            advance(done - before)
        before = done

    return Unthrottled(tell)


def _check_options(model: DifferenceDAG, by: object, given: dict[str, Any], fits: object) -> None:
    model.check_parameters()
    check_option("by", by, WAYS)
    if not isinstance(fits, int | np.integer) or isinstance(fits, bool) or fits < 2:
        raise InputError(f"fits must be a whole number, 2 or larger; it is {fits!r}")
    for axis, values in given.items():
        if values is not None and axis not in AXES[model.method]:
            other = "paper" if model.method == "order" else "order"
            raise InputError(
                f"method='{model.method}' has no {PLURAL[axis]}; leave them out, or use method='{other}'"
            )


def _multiples(axis: str, values: Any) -> tuple[float, ...] | None:
    """In ascending order, with 1 among them."""
    if values is None:
        return None
    try:
        given = [float(value) for value in values]
    except (TypeError, ValueError, OverflowError):
        given = []
    numbers = {1.0, *given}
    if not given or not all(0 < number < math.inf for number in numbers):
        raise InputError(
            f"{PLURAL[axis]} must be numbers larger than 0, multiples of the default; they are {values!r}"
        )
    return tuple(sorted(numbers))


@dataclass(frozen=True, eq=False)
class _Study:
    """The data, the model, and the settings that are multiplied."""

    tables: Tables | None
    moments: tuple[Moments, Moments] | None  # of all variables, unless they are too many
    parameters: dict[str, Any]
    penalty: Penalty
    threshold: float | None
    half_threshold: float | None  # the default with half of the rows
    kept: int = 0  # variables ordered by default

    @property
    def method(self) -> str:
        return str(self.parameters["method"])

    def values(self, at: SettingMultiples, half: bool = False) -> dict[str, Any]:
        """Parameters of DifferenceDAG at a setting."""
        if self.method == "paper":
            threshold = self.half_threshold if half else self.threshold
            return {
                "penalty": _times(self.penalty, at.penalty),
                "threshold": None if threshold is None else threshold * at.threshold,
            }
        size = {} if at.size == 1.0 else {"screen": max(2, round(self.kept * at.size))}
        return {"penalty": float(self.penalty) * at.penalty, **size}

    def model(self, at: SettingMultiples, half: bool = False) -> DifferenceDAG:
        return DifferenceDAG(**{**self.parameters, **self.values(at, half)})

    def fit(self, at: SettingMultiples) -> Difference:
        model = self.model(at)
        if self.tables is None:
            assert self.moments is not None  # noqa: S101 - one of both is there
            return model.fit_moments(*self.moments, checks=False).result_
        return model.fit_tables(self.tables).result_

    def criterion(self, result: Difference) -> float:
        if self.moments is not None:
            moments = self.moments
        else:
            assert self.tables is not None  # noqa: S101
            moments = DifferenceDAG(**self.parameters).moments_of(self.tables, kept_columns(result))
        return extended_bic(result, *moments, equal_noise=self.parameters["noise"] == "equal")


def _times(penalty: Penalty, factor: float) -> Penalty:
    """A multiple of the paper's penalty; the one that gives no change is large enough."""
    if isinstance(penalty, str):
        return f"rate:{float(penalty.partition(':')[2]) * factor:.6g}"
    return min(penalty * factor, max(penalty, 1.0))


def _study(
    first: Any, second: Any, model: DifferenceDAG, seed: int | None, n_jobs: int | None, own: dict[str, Any]
) -> _Study:
    parameters = {**model.get_params(), "rng": seed, "n_jobs": n_jobs, "confidence": None, "fdr": None}
    if isinstance(first, Moments) and isinstance(second, Moments):
        first, second = choose(first, second, own["columns"], own["drop"])
        check_same_columns(first.names, second.names, ("first", "second"))
        tables, moments = None, (first, second.select(first.names))
    else:
        tables, moments = align_tables(first, second, **own), None
    study = _Study(tables, moments, parameters, model.penalty or 1.0, None, None)
    wide = tables is not None and len(tables.first) + len(tables.second) < len(tables.names)
    if tables is not None and not (wide and model.method == "order"):
        moments = model.moments_of(tables)
        study = replace(study, moments=moments)
    if model.method == "order" or moments is None:
        return study
    p, n = len(moments[0].names), min(part.n for part in moments)
    penalty = model.penalty
    if penalty is None:
        penalty = 0.0 if model.estimator == "plugin" else default_penalty(*moments)[0]
    ours = model.threshold
    thresholds = [default_threshold(p, rows) if ours is None else ours for rows in (n, max(n // 2, 2))]
    return replace(study, penalty=penalty, threshold=thresholds[0], half_threshold=thresholds[1])


class _Walk:
    """From setting to setting; each is fitted once."""

    def __init__(
        self,
        study: _Study,
        by: By,
        halves: Callable[[SettingMultiples, Advance], Resamples],
        fits: int,
        given: dict[str, Any],
    ) -> None:
        self.study, self.by, self.halves, self.fits = study, by, halves, fits
        self.results: dict[SettingMultiples, Difference] = {}
        self.seen: dict[SettingMultiples, Setting] = {}
        self.axes = AXES[study.method]
        self.multiples = {axis: given[axis] for axis in self.axes}
        if study.method == "paper" and not study.penalty:
            self.multiples["penalty"] = (1.0,)

    def path(self, progress: Progress) -> SettingsPath:
        default = SettingMultiples()
        result = self.study.fit(default)  # warnings are shown here, once
        kept = _ordered(result)
        self.study = replace(self.study, kept=kept)
        main, extra = self.axes
        steps = [self._of(axis, kept < len(result.variables)) for axis in self.axes]
        total = len(steps[0]) + len(steps[1]) - 1
        each = 1 + (self.fits if self.by == "stability" else 0)
        with show_progress(progress, "Trying settings", total * each) as advance:
            self.results[default] = result
            advance()
            line = [replace(default, **{main: value}) for value in steps[0]]
            self._look(line, advance)
            best = self._best_of_line(line, main)
            aside = [replace(best, **{extra: value}) for value in steps[1]]
            self._look(aside, advance)
            best = self._best_aside(aside, best, extra)
        order = list(dict.fromkeys([*line, *aside]))
        return SettingsPath(
            method=self.study.method,
            by=self.by,
            axis=main,
            settings=tuple(self.seen[at] for at in order),
            steps=len(line),
            chosen_at=order.index(best),
            default_at=order.index(default),
            chosen=self.study.values(best),
            default=self.study.values(default),
            result=self.results[best],
            gamma=GAMMA,
            bound=STABLE,
        )

    def _of(self, axis: str, screened: bool) -> tuple[float, ...]:
        """Multiples to try of one setting."""
        values = self.multiples[axis]
        if values is None:
            values = MULTIPLES[self.study.method][axis] if axis != "size" or screened else (1.0,)
        return tuple(values)

    def _look(self, points: Sequence[SettingMultiples], advance: Advance) -> None:
        """Fit and judge settings."""
        todo = [at for at in points if at not in self.results]
        # The order search lets other threads work; the rest does not.
        jobs = self.study.parameters["n_jobs"] if self.study.method == "order" else 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DiffDagWarning)
            for number, result in run_all(self.study.fit, todo, jobs=jobs, prefer="threads"):
                self.results[todo[number]] = result
                advance()
        for at in [at for at in points if at not in self.seen]:
            result = self.results[at]
            edges = tuple((edge.source, edge.target, edge.directed, edge.delta) for edge in result.edge_list)
            self.seen[at] = Setting(at, _ordered(result), edges, self.study.criterion(result))
            if self.by == "stability":
                halves = self.halves(at, advance)
                unstable, found = instability(halves)
                self.seen[at] = replace(self.seen[at], instability=unstable, found=found, shares=halves.shares)

    def _best_of_line(self, line: Sequence[SettingMultiples], axis: str) -> SettingMultiples:
        if self.by == "ebic":
            return self._cheapest(line, axis)
        best = SettingMultiples()  # where not even the most severe setting is stable
        for at in reversed(line):
            if (self.seen[at].instability or 0.0) > STABLE:
                break
            best = at
        return best

    def _best_aside(
        self, aside: Sequence[SettingMultiples], best: SettingMultiples, axis: str
    ) -> SettingMultiples:
        if self.by == "ebic":
            return self._cheapest(aside, axis)
        bound = max(STABLE, self.seen[best].instability or 0.0)
        stable = [at for at in aside if (self.seen[at].instability or 0.0) <= bound]
        most = max(self.seen[at].found or 0.0 for at in stable)
        richest = [at for at in stable if (self.seen[at].found or 0.0) >= most - 1e-9]
        return min(richest, key=lambda at: _off(at, axis))

    def _cheapest(self, points: Sequence[SettingMultiples], axis: str) -> SettingMultiples:
        """Of settings with about the same criterion, the one closest to the default."""
        least = min(self.seen[at].ebic for at in points)
        fine = [at for at in points if self.seen[at].ebic <= least + EBIC_TIE or math.isinf(least)]
        return min(fine, key=lambda at: _off(at, axis))


def _off(at: SettingMultiples, axis: str) -> float:
    return abs(math.log(asdict(at)[axis]))


def _ordered(result: Difference) -> int:
    """Variables that were not screened out."""
    return len(result.variables) - len(result.settings.get("screened_out", ()))  # type: ignore[arg-type]
