"""Settings from the data: fits along a path of settings, the one to take, and what depends on it.

The setting that matters most, the penalty of the order search or the threshold of the paper's method, is varied
first; then, with the paper's method, its penalty, at the threshold chosen. All are given as multiples of the
default. The choice is the smallest extended BIC (see `criterion`), or by stability: the least severe setting
from which on fits to halves of the rows agree.

References
----------
Liu, Roeder and Wasserman (2010), Stability approach to regularization selection (StARS).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from diffdag._base.checks import check_fits, check_option
from diffdag._base.errors import DiffDagWarning, InputError
from diffdag._base.parallel import run_all
from diffdag._base.progress import Advance, Progress, show_progress
from diffdag._base.words import Option, named
from diffdag.paper.defaults import default_penalty, default_threshold
from diffdag.precision.api import Penalty
from diffdag.tables.moments import Moments
from diffdag.trust.criterion import GAMMA, STABLE, extended_bic, instability
from diffdag.trust.resampling import Resamples
from diffdag.trust.sensitivity import Setting, SettingMultiples, SettingsPath

if TYPE_CHECKING:
    from diffdag.trust.fits import Fit

By = Literal["ebic", "stability"]
WAYS = ("ebic", "stability")
PLURAL = {"penalty": "penalties", "threshold": "thresholds"}
# The setting varied first, and the one varied at its best value.
AXES = {"order": ("penalty",), "paper": ("threshold", "penalty")}
ALONG = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5)
ASIDE = (0.25, 0.5, 1.0, 2.0, 4.0)
# Criteria this close are taken for the same: "not worth more than a bare mention" (Kass and Raftery 1995).
EBIC_TIE = 1.0


@dataclass(frozen=True)
class BaseSettings:
    """The settings that a path takes multiples of."""

    method: str
    penalty: Penalty
    threshold: float | None = None
    half_threshold: float | None = None  # the default with half of the rows

    @classmethod
    def order(cls, penalty: Penalty | None) -> BaseSettings:
        """Return those of the order search."""
        return cls("order", penalty or 1.0)

    @classmethod
    def paper(
        cls,
        first: Moments,
        second: Moments,
        estimator: str,
        penalty: Penalty | None,
        threshold: float | None,
    ) -> BaseSettings:
        """Return those of the paper's method; what the user left open is chosen from the data."""
        p, n = len(first.names), min(first.n, second.n)
        if penalty is None:
            penalty = 0.0 if estimator == "plugin" else default_penalty(first, second)[0]
        both = [default_threshold(p, rows) if threshold is None else threshold for rows in (n, max(n // 2, 2))]
        return cls("paper", penalty, both[0], both[1])

    def at(self, multiples: SettingMultiples, half: bool = False) -> dict[str, Any]:
        """Parameters of `DifferenceDAG` at a setting; of fits to halves of the rows, if `half`."""
        if self.method == "order":
            return {"penalty": float(self.penalty) * multiples.penalty}
        threshold = self.half_threshold if half else self.threshold
        return {
            "penalty": _times(self.penalty, multiples.penalty),
            "threshold": None if threshold is None else threshold * multiples.threshold,
        }


def _times(penalty: Penalty, factor: float) -> Penalty:
    """A multiple of the paper's penalty; the one that gives no change is large enough."""
    if isinstance(penalty, str):
        return f"rate:{float(penalty.partition(':')[2]) * factor:.6g}"
    return min(penalty * factor, max(penalty, 1.0))


def check_path_options(method: str, by: object, given: Mapping[str, Any], fits: object) -> None:
    """Refuse what no path can do; `given` are multiples by axis, None where left out."""
    check_option("by", by, WAYS)
    check_fits("fits", fits, least=2)
    for axis, values in given.items():
        if values is not None and axis not in AXES[method]:
            own, other = Option("method", method), Option("method", "paper" if method == "order" else "order")
            raise InputError(own, " has no ", named(PLURAL[axis]), "; leave them out, or use ", other)
        if values is not None:
            sorted_multiples(axis, values)


def sorted_multiples(axis: str, values: Any) -> tuple[float, ...]:
    """In ascending order, with 1 among them."""
    try:
        given = [float(value) for value in values]
    except (TypeError, ValueError, OverflowError):
        given = []
    numbers = {1.0, *given}
    if not given or not all(0 < number < math.inf for number in numbers):
        raise InputError(
            named(PLURAL[axis]),
            f" must be numbers larger than 0, multiples of the default; they are {values!r}",
        )
    return tuple(sorted(numbers))


def follow_path(
    base: BaseSettings,
    fit: Callable[[dict[str, Any]], Fit],
    *,
    by: By = "ebic",
    multiples: Mapping[str, Any] | None = None,
    halves: Callable[[SettingMultiples, Advance], Resamples] | None = None,
    fits: int = 0,
    n_jobs: int | None = None,
    progress: Progress = None,
) -> SettingsPath:
    """Fit along a path of settings and choose one of them.

    `fit` gives the fit with some parameters replaced, `halves` the fits to halves of the rows at a setting, for
    ``by="stability"``, so many `fits` for each. `multiples` are those to try, by axis.
    """
    steps = {}
    for number, axis in enumerate(AXES[base.method]):
        values = (multiples or {}).get(axis)
        steps[axis] = sorted_multiples(axis, values) if values is not None else (ASIDE if number else ALONG)
    if base.method == "paper" and not base.penalty:
        steps["penalty"] = (1.0,)
    stability = by == "stability"
    walk = _Walk(base, fit, by, halves if stability else None, n_jobs)
    return walk.path(steps, 1 + stability * fits, progress)


@dataclass(eq=False)
class _Walk:
    """From setting to setting; each is fitted once."""

    base: BaseSettings
    fit: Callable[[dict[str, Any]], Fit]
    by: By
    halves: Callable[[SettingMultiples, Advance], Resamples] | None
    n_jobs: int | None
    fitted: dict[SettingMultiples, Fit] = field(default_factory=dict)
    seen: dict[SettingMultiples, Setting] = field(default_factory=dict)

    def path(self, steps: dict[str, tuple[float, ...]], each: int, progress: Progress) -> SettingsPath:
        default = SettingMultiples()
        main, *extra = steps
        total = sum(len(values) for values in steps.values()) - len(extra)
        self.fitted[default] = self.fit(self.base.at(default))  # warnings are shown here, once
        with show_progress(progress, "Trying settings", total * each) as advance:
            advance()
            line = [replace(default, **{main: value}) for value in steps[main]]
            self._look(line, advance)
            best = self._best_of_line(line, main)
            aside: list[SettingMultiples] = []
            for axis in extra:
                aside = [replace(best, **{axis: value}) for value in steps[axis]]
                self._look(aside, advance)
                best = self._best_aside(aside, best, axis)
        order = list(dict.fromkeys([*line, *aside]))
        return SettingsPath(
            method=self.base.method,
            by=self.by,
            axis=main,
            settings=tuple(self.seen[at] for at in order),
            steps=len(line),
            chosen_at=order.index(best),
            default_at=order.index(default),
            chosen=self.base.at(best),
            default=self.base.at(default),
            result=self.fitted[best].difference,
            gamma=GAMMA,
            bound=STABLE,
        )

    def _fit_at(self, at: SettingMultiples) -> Fit:
        return self.fit(self.base.at(at))

    def _look(self, points: Sequence[SettingMultiples], advance: Advance) -> None:
        """Fit and judge settings."""
        todo = [at for at in points if at not in self.fitted]
        # The order search lets other threads work; the rest does not.
        jobs = self.n_jobs if self.base.method == "order" else 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DiffDagWarning)
            for number, fit in run_all(self._fit_at, todo, jobs=jobs, prefer="threads"):
                self.fitted[todo[number]] = fit
                advance()
        for at in [at for at in points if at not in self.seen]:
            fit = self.fitted[at]
            edges = tuple((e.source, e.target, e.directed, e.delta) for e in fit.difference.edge_list)
            self.seen[at] = Setting(at, len(fit.kept), edges, extended_bic(fit))
            if self.halves is not None:
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
