"""Why variables moved: what each changed mechanism accounts for in the change of means and variances."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from diffdag._base.errors import InputError
from diffdag._base.words import Option, did_you_mean, join_names, named, using
from diffdag.results.records import _Record

if TYPE_CHECKING:
    import pandas as pd

    from diffdag.results.difference import Difference

KINDS = ("effect", "gain", "noise", "intercept")
UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Mechanism:
    """A changed mechanism: an effect, a gain, a noise variance or an intercept."""

    name: str  #: such as ``"Raf -> Mek"``, ``"gain of Mek"``, ``"noise of Mek"`` or ``"intercept of Mek"``
    kind: str  #: one of `KINDS`
    variable: str  #: whose equation it belongs to, along the order that was fitted
    source: str | None = None  #: of an effect, where it starts

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"a mechanism is {self.kind!r}; expected one of {', '.join(KINDS)}")
        if (self.source is not None) != (self.kind == "effect"):
            raise ValueError(f"a mechanism is {self.kind!r}; effects have a source, and others have none")


@dataclass(frozen=True)
class Part(_Record):
    """What one mechanism accounts for in the movement of one variable, from the first condition to the second.

    All differences are second minus first.
    """

    mechanism: int  #: which one, as counted from 0 in `Explanations.mechanisms`
    mean: float | None = None  #: part of the change of the mean; None where means cannot be compared
    mean_low: float | None = None  #: lower end of its 95 % interval
    mean_high: float | None = None  #: and the upper end
    variance: float | None = None  #: part of the change of the variance
    variance_low: float | None = None  #: lower end of its 95 % interval
    variance_high: float | None = None  #: and the upper end
    direct: float | None = None  #: change of the effect on the variable itself; zero if it is on another one
    #: By how much the total effect of the source on the variable changes if only this effect does.
    total: float | None = None


@dataclass(frozen=True)
class Explanation(_Record):
    """How one variable moved, and the parts of it; mechanisms without a part do not reach it."""

    variable: str
    mean_first: float | None = None  #: mean of the rows in the first condition
    mean_second: float | None = None  #: and in the second
    variance_first: float | None = None  #: variance of the rows in the first condition
    variance_second: float | None = None  #: and in the second
    parts: tuple[Part, ...] = ()

    @property
    def moved(self) -> dict[str, tuple[float, float] | None]:
        """Mean and variance in both conditions; None where they cannot be compared."""
        pairs = {
            "mean": (self.mean_first, self.mean_second),
            "variance": (self.variance_first, self.variance_second),
        }
        return {name: None if one is None or two is None else (one, two) for name, (one, two) in pairs.items()}

    @property
    def distance(self) -> float:
        """How far the mean moved, in standard deviations of the first condition; zero if that is not known."""
        mean, variance = self.moved["mean"], self.moved["variance"]
        if mean is None or variance is None or variance[0] <= 0:
            return 0.0
        return abs(mean[1] - mean[0]) / math.sqrt(variance[0])

    def unexplained(self, what: str) -> float | None:
        """What the parts leave of the change of ``"mean"`` or ``"variance"``."""
        ends = self.moved[what]
        return None if ends is None else ends[1] - ends[0] - sum(getattr(own, what) or 0 for own in self.parts)


@dataclass(frozen=True)
class Explanations:
    """Why each variable moved from the first condition to the second."""

    mechanisms: tuple[Mechanism, ...]
    targets: tuple[Explanation, ...]
    #: Variables whose changed effects move their mean by the change times the mean of the source, because their
    #: intercept is that where all causes are zero. On others it is the change times how far the source is from
    #: its common mean in both conditions: at zero, their intercept would clearly have changed by more.
    at_zero: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, tuple(getattr(self, field.name)))
        for target in self.targets:
            if min(target.variance_first or 0.0, target.variance_second or 0.0) < 0:
                raise ValueError(f"a variance of {target.variable!r} is negative")
            for what, ends in target.moved.items():
                if ends is not None and any(getattr(part, what) is None for part in target.parts):
                    raise ValueError(f"a part of {target.variable!r} has no {what}")
            places = [part.mechanism for part in target.parts]
            if len(set(places)) < len(places) or not set(places) <= set(range(len(self.mechanisms))):
                raise ValueError(f"the parts of {target.variable!r} are not those of different mechanisms")

    def check_names(self, variables: Collection[str]) -> None:
        """Refuse names that are not those of variables."""
        named = [own.variable for own in self.mechanisms] + [own.variable for own in self.targets]
        named += [own.source for own in self.mechanisms if own.source is not None]
        if unknown := {*named, *self.at_zero}.difference(variables):
            raise ValueError(f"explanations names {min(unknown)!r}, which is not a variable")
        if len({own.variable for own in self.targets}) < len(self.targets):
            raise ValueError("explanations names a variable twice")


def explanation_of(result: Difference, target: str) -> Explanation:
    """Why a variable moved, or the sentence that says why that is not known."""
    if result.method == "paper":
        raise InputError(
            "to explain what moved a variable takes the regressions along a causal order, which only ",
            Option("method", "order"),
            " has; fit again with it",
        )
    if result.explanations is None:
        raise InputError(
            "the result does not say what moved variables, as none does of filtered rows (",
            named("whiten"),
            ") or where a condition has few rows; look at the variables that changed themselves, in nodes.csv",
        )
    known = {own.variable: own for own in result.explanations.targets}
    if target in known:
        return known[target]
    if target in result.variables:
        raise InputError(
            f"'{target}' was not looked at, because the variables were too many; leave others out ",
            using(Option("drop")),
        )
    if any(own.variable == target for own in result.switch_list):
        raise InputError(f"'{target}' varies in one condition only, and nothing was compared with it")
    hint = did_you_mean(str(target), known, f"the variables are {join_names(known)}")
    raise InputError(Option("target"), f" names '{target}', which is not a variable here; {hint}")


def ranked_parts(result: Difference, target: str) -> list[tuple[Mechanism, Part]]:
    """All mechanisms with their part in the movement of a variable, largest first; zero if it has none."""
    found, mechanisms = explanation_of(result, target), _mechanisms(result)
    own = {part.mechanism: part for part in found.parts}
    zero = dict.fromkeys(("variance", "variance_low", "variance_high"), 0.0)
    if found.moved["mean"] is not None:
        zero |= dict.fromkeys(("mean", "mean_low", "mean_high"), 0.0)
    ranked = []
    for k, mechanism in enumerate(mechanisms):
        effect = dict.fromkeys(("direct", "total"), 0.0) if mechanism.kind == "effect" else {}
        ranked.append((mechanism, own.get(k, Part(k, **zero, **effect))))
    spread = found.variance_first or 1.0

    def size(item: tuple[Mechanism, Part]) -> float:
        part = item[1]
        return -max(abs(part.mean or 0.0) / math.sqrt(spread), abs(part.variance or 0.0) / spread)

    return sorted(ranked, key=size)


def _mechanisms(result: Difference) -> tuple[Mechanism, ...]:
    return () if result.explanations is None else result.explanations.mechanisms


def explanation_table(result: Difference, target: str) -> pd.DataFrame:
    """Return the table of `DifferenceResult.explain`."""
    import pandas as pd  # noqa: PLC0415

    found, ranked = explanation_of(result, target), ranked_parts(result, target)
    columns = [field.name for field in fields(Part) if field.name != "mechanism"]
    rest = {what: found.unexplained(what) for what in ("mean", "variance")}
    names = [*(mechanism.name for mechanism, _ in ranked), UNEXPLAINED]
    kinds = [*(mechanism.kind for mechanism, _ in ranked), ""]
    numbers = {
        name: pd.Series([*(getattr(part, name) for _, part in ranked), rest.get(name)], dtype="float64")
        for name in columns
    }
    labels = {"mechanism": pd.Series(names, dtype=object), "kind": pd.Series(kinds, dtype=object)}
    return pd.DataFrame({**labels, **numbers})
