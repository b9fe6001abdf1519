"""How many rows a study needs, as far as the theorems say (Ghoshal, Bello and Honorio, section 3).

The formulas are those of `diffdag.reproduce.theory`, for standardised variables, and the lower bound of
`diffdag.trust.checks.moments_checks`. The theorems' sufficient numbers are worst-case and far from practice;
the text says so, and leaves room for what simulations show.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from importlib import resources

import pandas as pd

from diffdag._base.checks import is_whole
from diffdag._base.errors import InputError
from diffdag._base.words import named, plural
from diffdag.reproduce.theory import (
    PAPER_EPSILON,
    PAPER_EXPONENTS,
    Scale,
    check_delta,
    lower_bound,
    refined_samples,
    theorem3_samples,
)
from diffdag.trust.checks.moments_checks import effect_lower_bound

WIDTH = 100
TRIED = tuple(range(3, 13))  # C of figure 4, which sets its numbers of rows
LARGEST, SMALLEST = 1_000_000, 1e-6  # variables, epsilon


def rows_at(C: float, p: int) -> int:
    """``floor(e^C log p)``, the number of rows in the paper's experiments."""
    return math.floor(math.exp(C) * math.log(p))


def measured_text() -> str:
    """One sentence for those who plan a study: what the full run of figure 4 showed for the default."""
    with resources.files("diffdag.reproduce.experiments").joinpath("figure4-half.csv").open("rb") as file:
        table = pd.read_csv(file)
    part = table[(table["kind"] == "unfiltered") & (table["method"] == "order")].sort_values("p")
    half, ninety = (
        ", ".join(f"{_rows_text(C, int(p))} ({p})" for C, p in zip(part[column], part["p"], strict=True))
        for column in ("C_half", "C_ninety")
    )
    return (
        "In dense models with one pair of variables in 20 changed (diffdag reproduce figure4), half of the "
        f"default method's results are exact with this many rows (variables): {half}; nine in ten with "
        f"{ninety}. Other sizes and models need other numbers: try yours with diffdag simulate."
    )


def _rows_text(C: float, p: int) -> str:
    if math.isinf(C):
        return f"fewer than {rows_at(TRIED[0], p):,}" if C < 0 else f"more than {rows_at(TRIED[-1], p):,}"
    return f"{rows_at(C, p):,}"


@dataclass(frozen=True)
class Plan:
    """What the theorems say about a study in preparation. Numbers of rows are per table.

    With at most as many rows as a lower bound no method succeeds; those above an upper bound are sufficient if
    the incoherence condition holds.
    """

    p: int
    changes: int
    parents: int  # changed causes of one variable at most, d'
    nonzeros: int  # non-zero entries of Delta, d
    entry: float  # their absolute size
    epsilon: float
    delta: float
    samples: int | None  # rows at hand
    lower_theorem4: float
    lower_effect: float  # by the argument of Theorem 4 for changes of partial correlation 2 epsilon
    upper_theorem3: float
    upper_refined: float  # by the proof of Theorem 3 without generous steps
    correlation_limit: float  # what no correlation may exceed under incoherence, 1 / (2 d)
    epsilon_limit: float  # what epsilon of Assumption 3 can then be at most, 2 / (3 d)
    scale: dict[int, int]  # the paper's experiments: floor(e^C log p) for each C
    exponent: float | None  # the C of the rows at hand
    measured: str | None  # what simulations show, one line

    def text(self) -> str:
        """The plan for the terminal."""
        rows = "" if self.samples is None else f", {plural(self.samples, 'row')} in each table"
        head = f"{plural(self.p, 'variable')}, {plural(self.changes, 'change')}{rows}"
        said = self.measured or "No measurement was given; simulate pairs of this size with diffdag simulate."
        simulations = f"What simulations show\n{_wrap(said)}"
        return "\n\n".join([head, self._lower(), self._upper(), self._experiments(), simulations])

    def _lower(self) -> str:
        parents, size = plural(self.parents, "changed cause"), f"{2 * self.epsilon:.3g}"
        few, effect = (_count(math.floor(rows)) for rows in (self.lower_theorem4, self.lower_effect))
        lines = _table(
            "Too few rows for any method (it errs at least half of the time on the worst pair)",
            {
                f"Theorem 4, at most {parents} per variable": few,
                f"its argument for changes of partial correlation {size}": effect,
            },
        )
        if self.samples is None:
            return lines
        if self.samples <= self.lower_theorem4:
            said = "are too few, by Theorem 4"
        elif self.samples <= self.lower_effect:
            said = f"are too few if changes of partial correlation can be as small as {size}"
        else:
            said = "are above both; that does not mean that they are enough"
        return f"{lines}\n" + _wrap(f"{_count(self.samples)} {said}.")

    def _upper(self) -> str:
        lines = _table(
            f"Enough rows for Algorithm 1 (epsilon {self.epsilon:g}, probability of failure {self.delta:g})",
            {
                "Theorem 3, order d^2 / epsilon^2 log(p / delta)": _count(self.upper_theorem3),
                "its proof without generous steps": _count(self.upper_refined),
            },
        )
        text = (
            f"These are worst-case numbers, for standardised variables and d = {self.nonzeros} non-zero "
            f"entries of size {self.entry:.3g} in the difference of the precision matrices; far fewer rows do "
            "in practice. They count only if the incoherence condition holds, and that takes at least that "
            f"no correlation in either table exceeds 1/(2d) = {self.correlation_limit:.2g}."
        )
        if self.epsilon > self.epsilon_limit:
            text += (
                f" Changes of partial correlation {2 * self.epsilon:.3g} and that condition exclude each other "
                f"(epsilon is at most 2/(3d) = {self.epsilon_limit:.2g} under it): the theorem is silent here."
            )
        return f"{lines}\n{_wrap(text)}"

    def _experiments(self) -> str:
        columns = [(f"C = {c}", f"{n:,}") for c, n in self.scale.items()]
        lines = ["Rows in the paper's experiments at this p, floor(e^C log p)"]
        lines += ["  " + "".join(f"{column[line]:>10}" for column in columns) for line in (0, 1)]
        if self.exponent is not None:
            lines.append(_wrap(f"{_count(self.samples or 0)} are C = {self.exponent:.1f}."))
        return "\n".join(lines)


def plan(
    p: int,
    changes: int,
    *,
    parents: int | None = None,
    epsilon: float = PAPER_EPSILON,
    delta: float = 0.05,
    samples: int | None = None,
    nonzeros: int | None = None,
    entry: float | None = None,
    measured: str | None = None,
) -> Plan:
    """What the theorems say about a study of so many variables and expected changes.

    Parameters
    ----------
    p : int
        Number of variables.
    changes : int
        Number of changed effects expected.
    parents : int, optional
        The largest number of changed causes of one variable. If left out, the smallest with which the family
        of Theorem 4, in which half the variables have that many, has so many changes.
    epsilon : float
        Half the smallest change of a partial correlation that has to be found; 0.1 in the paper.
    delta : float
        Probability of failure, at most 1/2.
    samples : int, optional
        Rows at hand in each table, the smaller number if they differ.
    nonzeros : int, optional
        Non-zero entries of Delta. If left out ``2 changes + 1``, the fewest there can be unless entries cancel:
        two mirrored entries for each change and the diagonal of one common cause.
    entry : float, optional
        Their absolute size for standardised variables. If left out ``2 epsilon``, the smallest that a threshold
        of epsilon tells from zero, which is the most favourable case.
    measured : str, optional
        What simulations show, for the last lines of the text.

    Examples
    --------
    >>> answer = plan(157, 12, samples=100)
    >>> answer.nonzeros, round(answer.lower_theorem4, 1), round(answer.lower_effect)
    (25, 2.2, 184)
    >>> f"{answer.upper_theorem3:.1e} {answer.upper_refined:.1e}"
    '1.8e+13 2.9e+07'
    """
    _check_counts(p, changes, parents, samples, nonzeros)
    if not SMALLEST <= epsilon < 0.5:
        raise InputError(
            named("epsilon"),
            f" is half a change of a partial correlation, {SMALLEST:g} to below 0.5; it is {epsilon}",
        )
    if entry is not None and not 0 < entry < math.inf:
        raise InputError(named("entry"), f" must be a positive number; it is {entry}")
    check_delta(delta)
    parents = min(max(1, -(-changes // (p // 2))), p - 1) if parents is None else parents
    nonzeros = 2 * changes + 1 if nonzeros is None else nonzeros
    entry = 2 * epsilon if entry is None else entry
    scale = Scale(p=p, change=nonzeros * entry)
    return Plan(
        p=int(p),
        changes=int(changes),
        parents=int(parents),
        nonzeros=int(nonzeros),
        entry=entry,
        epsilon=epsilon,
        delta=delta,
        samples=None if samples is None else int(samples),
        lower_theorem4=lower_bound(p, parents),
        lower_effect=effect_lower_bound(p, changes, epsilon),
        upper_theorem3=theorem3_samples(scale, epsilon, delta),
        upper_refined=refined_samples(scale, epsilon, delta),
        correlation_limit=1 / (2 * nonzeros),
        epsilon_limit=2 / (3 * nonzeros),
        scale={c: rows_at(c, p) for c in PAPER_EXPONENTS},
        exponent=None if samples is None else math.log(samples / math.log(p)),
        measured=measured,
    )


def _check_counts(p: int, changes: int, parents: int | None, samples: int | None, nonzeros: int | None) -> None:
    values = {"p": p, "changes": changes, "parents": parents, "samples": samples, "nonzeros": nonzeros}
    for name, value in values.items():
        if value is not None and not is_whole(value):
            raise InputError(named(name), f" must be a whole number; it is {value!r}")
    pairs, causes, fewest = p * (p - 1) // 2, min(p - 1, changes), 2 * changes + 1
    ranges = {
        "p": (2, LARGEST, f"is a number of variables, from 2 to {LARGEST:,}"),
        "changes": (1, pairs, f"must be between 1 and the {pairs} pairs of variables"),
        "parents": (1, causes, f"counts the changed causes of one variable, between 1 and {causes} here"),
        "samples": (2, math.inf, "is a number of rows, at least 2"),
        "nonzeros": (fewest, p * p, f"must be between 2 changes + 1 = {fewest} and p^2 = {p * p}"),
    }
    for name, (least, most, said) in ranges.items():
        if (value := values[name]) is not None and not least <= value <= most:
            raise InputError(named(name), f" {said}; it is {value}")


def _count(rows: float) -> str:
    if rows < 1e7:
        return plural(int(rows), "row") if rows < 1e4 else f"{rows:,.0f} rows"
    exponent = math.floor(math.log10(rows))
    return f"{rows / 10**exponent:.1f} * 10^{exponent} rows"


def _table(title: str, cells: dict[str, str]) -> str:
    width = max(map(len, cells)) + 2
    return "\n".join([title, *(f"  {name:<{width}}{value}" for name, value in cells.items())])


def _wrap(text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="  ")
