"""Why a variable moved, in words, and where the bars of a waterfall stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from diffdag.report import format as fmt
from diffdag.results.explanation import UNEXPLAINED, Part, explanation_of, ranked_parts

if TYPE_CHECKING:
    from diffdag.results.difference import Difference

WHAT = ("mean", "variance")
LEAST_SHOWN = 0.05  # share of the largest part that decimals are made for


@dataclass(frozen=True)
class Step:
    """One bar of a waterfall: from where to where, and its interval around its end."""

    name: str
    kind: str  # of the mechanism; "unexplained" for what is left
    start: float
    end: float
    low: float | None = None  # ends of the interval
    high: float | None = None
    mechanism: int = -1  # which one of the result; -1 for what is left

    @property
    def value(self) -> float:
        """What it adds."""
        return self.end - self.start


def waterfall(result: Difference, target: str, what: str) -> list[Step]:
    """The steps from the first condition to the second, without those of nothing; none without comparison."""
    found = explanation_of(result, target)
    ends, rest = found.moved[what], found.unexplained(what)
    if ends is None or rest is None:
        return []
    steps, place = [], ends[0]
    for mechanism, part in ranked_parts(result, target):
        value, low, high = (getattr(part, f"{what}{end}") for end in ("", "_low", "_high"))
        if value or low or high:
            below, above = (None if end is None else place + end for end in (low, high))
            named = mechanism.name, mechanism.kind
            steps.append(Step(*named, place, place + value, below, above, part.mechanism))
            place += value
    return [*steps, Step(UNEXPLAINED, UNEXPLAINED, place, ends[1])]


def moved_words(result: Difference, target: str) -> list[str]:
    """How far mean and variance moved, from the first condition to the second."""
    labels = [fmt.printable(label) for label in result.labels]
    said = []
    for what, ends in explanation_of(result, target).moved.items():
        if ends is None:
            said.append(f"{what}: cannot be compared between these conditions")
            continue
        show = fmt.NumberFormat([*ends, ends[1] - ends[0]])
        both = f"from {show(ends[0])} in {labels[0]} to {show(ends[1])} in {labels[1]}"
        said.append(f"{what}: {both}, {show(ends[1] - ends[0], '+')}")
    return said


def origin_words(result: Difference) -> str:
    """Where changed effects are taken to tilt an equation; empty where none is tilted at zero."""
    names = () if result.explanations is None else result.explanations.at_zero
    if not names:
        return ""
    return (
        f"A changed effect on {fmt.some(names)} moves the mean by its change times the mean of its source: "
        "the intercept is that at zero"
    )


def part_format(values: Sequence[float | None]) -> fmt.NumberFormat:
    """The format of parts, with decimals for the large ones: next to nothing needs none of its own.

    >>> show = part_format([5.87, 0.754, -1e-9])
    >>> show(0.754, "+"), show(-1e-9, "+")
    ('+0.75', '+0.00')
    """
    sizes = [abs(value) for value in values if value is not None]
    largest = max(sizes, default=0.0)
    return _Rounded([size for size in sizes if size >= LEAST_SHOWN * largest])


class _Rounded(fmt.NumberFormat):
    """What rounds to zero is zero, without a sign of its own."""

    def __call__(self, value: float | None, sign: str = "") -> str:
        if value is not None and self.fixed and abs(value) < 0.5 * 10.0**-self.decimals:
            value = 0.0
        return super().__call__(value, sign)


def explanation_text(result: Difference, target: str) -> str:
    """Return why a variable moved as text of about 100 columns."""
    found, parts = explanation_of(result, target), ranked_parts(result, target)
    first, second = map(fmt.printable, result.labels)
    lines = [f"Why did {fmt.printable(target)} move from {first} to {second}?"]
    lines += [fmt.wrap(words, "  ") for words in moved_words(result, target)]
    shown = [what for what in WHAT if found.moved[what] is not None]
    rest = {what: found.unexplained(what) for what in shown}
    shows = {what: part_format([rest[what], *(getattr(part, what) for _, part in parts)]) for what in shown}
    weights = [value for _, part in parts for value in (part.direct, part.total)]
    effect = part_format(weights)
    sure = any(part.variance_low is not None for _, part in parts)
    heads = [cell for what in shown for cell in ([what, "95 % interval"] if sure else [what])]
    if any(value is not None for value in weights):
        heads += ["direct", "total"]
    rows = [["changed mechanism", *heads]]
    for mechanism, part in parts:
        cells = [_name(mechanism.name)]
        for what in shown:
            cells.append(shows[what](getattr(part, what), "+"))
            if sure:
                cells.append(interval_words(part, what, shows[what]))
        rows.append([*cells, effect(part.direct, "+"), effect(part.total, "+")][: len(rows[0])])
    whole = {what: ends[1] - ends[0] for what, ends in found.moved.items() if ends is not None}
    for name, numbers in ((UNEXPLAINED, rest), ("observed", whole)):
        cells = [cell for what in shown for cell in (shows[what](numbers[what], "+"), *([""] if sure else []))]
        rows.append([name, *cells, *[""] * (len(rows[0]) - 1 - len(cells))])
    lines += ["", fmt.aligned(rows, left=1), ""]
    lines += [fmt.wrap(words, "  ") for words in legend(result, effects=len(heads) > 2 * len(shown))]
    return "\n".join(lines)


def interval_words(part: Part, what: str, show: fmt.NumberFormat) -> str:
    """The interval of a part; empty where it is not known, or a single point."""
    low, high = getattr(part, f"{what}_low"), getattr(part, f"{what}_high")
    return "" if low is None or high is None or low == high else f"{show(low, '+')} to {show(high, '+')}"


def _name(name: str) -> str:
    return fmt.cut(fmt.printable(name), 44)


def legend(result: Difference, *, effects: bool) -> list[str]:
    """What the numbers of an explanation are."""
    first, second = map(fmt.printable, result.labels)
    said = [
        f"Parts are {second} minus {first} (the movement), averaged over all orders in which mechanisms may be "
        "changed one by one (Shapley values); with what is unexplained they add up to what was observed."
    ]
    if effects:
        said.append(
            "direct: change of the effect on the target itself; total: what the total effect of its source on "
            "the target changes by if nothing else does."
        )
    if origin := origin_words(result):
        said.append(f"{origin}.")
    if any(edge.low is not None for edge in result.edge_list):
        said.append("All numbers are from the half of the rows that had no part in finding the changes.")
    if any(own.name == "independent rows" and not own.passed for own in result.checks):
        said.append("Intervals are too narrow: rows resemble those before them, and count as independent here.")
    return said


def explanation_json(result: Difference, target: str) -> dict[str, Any]:
    """Return an explanation as what JSON can say."""
    found = explanation_of(result, target)
    parts: list[dict[str, Any]] = [
        {**vars(part), "mechanism": mechanism.name, "kind": mechanism.kind}
        for mechanism, part in ranked_parts(result, target)
    ]
    return {
        "target": target,
        "first": result.labels[0],
        "second": result.labels[1],
        "observed": {
            what: None if ends is None else {"first": ends[0], "second": ends[1], "change": ends[1] - ends[0]}
            for what, ends in found.moved.items()
        },
        "parts": parts,
        UNEXPLAINED: {what: found.unexplained(what) for what in WHAT},
    }
