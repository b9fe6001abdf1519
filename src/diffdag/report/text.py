"""A result in words, for a terminal of about 100 columns."""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diffdag.results.records import Edge
    from diffdag.results.result import DifferenceResult

WIDTH = 100
NAME_WIDTH = 30
NAMES_SHOWN = 30
LABEL_WIDTH = 14  # of a condition, where it heads a column
# Settings for programs.
INTERNAL = (
    "margins", "tie", "search_order", "starts", "starts_at_optimum", "score", "confidence_fits",
    "edges_before_fdr",
)  # fmt: skip


def printable(text: str) -> str:
    r"""Show control characters, line ends and the like as escapes; they would break a table or a page.

    Examples
    --------
    >>> printable("a\nb")
    'a\\nb'
    """
    joiner = "\u200d"  # holds many emoji together
    return "".join(c if c.isprintable() or c == joiner else ascii(c)[1:-1] for c in text)


def by_size(edges: Sequence[Edge]) -> list[Edge]:
    """Sort by the absolute size of delta, largest first; unknown sizes last, in the order given."""
    return sorted(edges, key=lambda edge: (edge.delta is None, -abs(edge.delta or 0.0)))


def kind_words(kind: str) -> str:
    """A kind of change as people read it; files have it with hyphens.

    >>> kind_words("reversed-sign")
    'reversed sign'
    """
    return kind.replace("-", " ")


def headline(
    result: DifferenceResult,
    arrows: tuple[str, str] = ("->", "--"),
    name: Callable[[str], str] | None = None,
) -> str:
    """Say in one sentence how much changed, and what most.

    `arrows` join directed and undirected pairs; `name` says how a variable is written.
    """
    name = name or short_name
    changed, possible = len(result.edge_list), result.possible
    if not changed:
        noisy, shifted = ([c.variable for c in result.noise_list], [c.variable for c in result.mean_list])
        others = (("noise of", noisy), ("mean of", shifted))
        moved = [f"the {what} {_few([name(one) for one in names])}" for what, names in others if names]
        if moved:
            return f"No effect changed, but {' and '.join(moved)} did: 0 of {possible} possible edges changed"
        return f"No change found: 0 of {possible} possible edges changed"
    strongest = by_size(result.edge_list)[0]
    words = f"{changed} of {possible} possible edges changed"
    if strongest.delta is None:
        return words
    lead = "; strongest: " if changed > 1 else ": "
    arrow = arrows[0] if strongest.directed else arrows[1]
    what = kind_words(strongest.change or "changed")
    return f"{words}{lead}{name(strongest.source)} {arrow} {name(strongest.target)} {what}"


def samples_line(result: DifferenceResult) -> str:
    """Say what was compared with what."""
    first, second = map(printable, result.labels)
    what = f"{len(result.variables)} variables, method {printable(result.method)}"
    if result.samples is None:
        return f"{first} against {second}, exact models, {what}"
    return f"{first} ({result.samples[0]:,} rows) against {second} ({result.samples[1]:,} rows), {what}"


def summary(result: DifferenceResult) -> str:
    """Return the whole answer as text."""
    parts = [headline(result) + "\n" + _wrap(samples_line(result))]
    if result.edge_list:
        parts.append(edge_table(result))
    else:
        first, second = map(printable, result.labels)
        parts.append(_wrap(f"No edge between {first} and {second} stands out at these settings."))
    parts.append("\n".join(_wrap(line, "  ") for line in _beside(result)))
    layers = [_some(layer) for layer in result.order[:NAMES_SHOWN]]
    layers += [f"and {len(result.order) - NAMES_SHOWN} more layers"] * (len(result.order) > NAMES_SHOWN)
    lists = [
        ("Order, causes first: ", " | ".join(layers)),
        ("Unresolved (place in the order not identified): ", _some(result.unresolved)),
        ("Invariant (take no part): ", _some(result.invariant)),
    ]
    parts.append("\n".join(_wrap(title + names, "  ") for title, names in lists if names))
    parts.append("\n".join(_wrap(f"Note: {printable(note)}", "  ") for note in result.notes))
    chosen = [f"{printable(key)} {setting(value)}" for key, value in shown_settings(result).items()]
    parts.append(_wrap("Settings: " + ", ".join(chosen), "  ") if chosen else "")
    return "\n\n".join(part for part in parts if part)


def _beside(result: DifferenceResult) -> Iterator[str]:
    """What changed besides effects, how sure it is, and what speaks against the assumptions."""
    from diffdag.report.words import evidence_lines, mean_words, noise_words, warnings_of  # noqa: PLC0415

    if result.noise_list:
        yield "Noise variance changed: " + "; ".join(noise_words(change) for change in result.noise_list)
    if result.mean_list:
        moved = "; ".join(map(mean_words, result.mean_list))
        yield f"Intercept changed, {difference_words(result)}: {moved}"
    for title, words in evidence_lines(result):
        yield f"{title}: {words}"
    for name, says in warnings_of(result):
        yield f"Check of {printable(name)}: {printable(says)}"


def _few(names: Sequence[str]) -> str:
    """Up to three names, and how many more."""
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def edge_table(result: DifferenceResult) -> str:
    """Return the edges as an aligned table, largest change first."""
    edges = by_size(result.edge_list)
    show = edge_format(edges)
    heads = ["edge", "change", *short_labels(result), "delta"]
    with_confidence = any(edge.confidence is not None for edge in edges)
    with_interval = any(edge.low is not None for edge in edges)
    rows = [heads + ["95 % interval"] * with_interval + ["confidence"] * with_confidence]
    for edge in edges:
        arrow = "->" if edge.directed else "--"
        cells = [f"{short_name(edge.source)} {arrow} {short_name(edge.target)}", kind_words(edge.kind)]
        cells += [show(edge.weight_first), show(edge.weight_second), delta_text(edge, show)]
        cells += [interval_text(edge, show)] * with_interval
        rows.append(cells + [percent(edge.confidence)] * with_confidence)
    table = _aligned(rows, left=2)
    if all(edge.delta is None for edge in edges):
        return table
    return f"{table}\ndelta: {difference_words(result)}"


def short_labels(result: DifferenceResult) -> tuple[str, str]:
    """The names of the conditions, short enough for the head of a column."""
    first, second = (_cut(printable(label), LABEL_WIDTH) for label in result.labels)
    return first, second


def difference_words(result: DifferenceResult) -> str:
    """Say what is subtracted from what: an effect that was added has the opposite sign."""
    first, second = (_cut(printable(label), NAME_WIDTH) for label in result.labels)
    return f"{first} minus {second}"


class NumberFormat:
    """Format numbers of one table alike: with decimals that fit the largest, or with three digits.

    Examples
    --------
    >>> show = NumberFormat([0.8312, -0.05])
    >>> show(0.8312), show(-0.05), show(None)
    ('0.831', '-0.050', '')
    """

    def __init__(self, values: Sequence[float | None]) -> None:
        sizes = [abs(value) for value in values if value]
        largest, smallest = (_magnitude(choose(sizes, default=1.0)) for choose in (max, min))
        usual = max(0, 2 - largest)
        self.decimals = min(max(usual, -smallest), usual + 2)
        self.fixed = self.decimals <= 7 and largest <= 6 and -smallest <= self.decimals

    def __call__(self, value: float | None, sign: str = "") -> str:
        """Format one number; None gives nothing."""
        if value is None:
            return ""
        return format(value, f"{sign}.{self.decimals}f" if self.fixed else f"{sign}.3g")


def _magnitude(size: float) -> int:
    return math.floor(math.log10(size))


def edge_format(edges: Sequence[Edge]) -> NumberFormat:
    """The format of all weights and deltas of these edges."""
    return NumberFormat([value for e in edges for value in (e.weight_first, e.weight_second, e.delta)])


def delta_text(edge: Edge, show: NumberFormat) -> str:
    """Format delta with its standard error."""
    return with_error(edge.delta, edge.stderr, show)


def with_error(value: float | None, stderr: float | None, show: NumberFormat) -> str:
    """Format a difference with its standard error.

    >>> with_error(-0.278, 0.03, NumberFormat([-0.278]))
    '-0.278 ± 0.030'
    """
    error = "" if stderr is None else f" ± {_error(stderr, show)}"
    return show(value, "+") + error


def interval_text(edge: Edge, show: NumberFormat) -> str:
    """Format the interval of delta."""
    return "" if edge.low is None or edge.high is None else f"{show(edge.low, '+')} to {show(edge.high, '+')}"


def _error(value: float, show: NumberFormat) -> str:
    # An error too small for the column's decimals must not read as exactly zero.
    return show(value) if not value or value >= 0.5 * 10.0**-show.decimals else format(value, ".1g")


def edge_words(edge: Edge, labels: tuple[str, str], show: NumberFormat) -> str:
    """Say in one sentence what happened to an edge.

    >>> from diffdag.results.records import Edge
    >>> edge = Edge("Raf", "Mek", change="weakened", weight_first=0.9, weight_second=0.4, delta=0.5)
    >>> edge_words(edge, ("baseline", "u0126"), NumberFormat([0.9, 0.4, 0.5]))
    'Raf acts less strongly on Mek: 0.900 in baseline, 0.400 in u0126'
    """
    source, target = printable(edge.source), printable(edge.target)
    if not edge.directed:
        return f"Something changed between {source} and {target}; the data do not tell cause from effect"
    first, second = map(printable, labels)
    here, there = (f" ({show(w)})" if w is not None else "" for w in (edge.weight_first, edge.weight_second))
    if edge.change == "added":
        return f"{source} acts on {target} in {second}{there}, but not visibly in {first}{here}"
    if edge.change == "removed":
        return f"{source} acts on {target} in {first}{here}, but not visibly in {second}{there}"
    said = {
        "strengthened": f"{source} acts more strongly on {target}",
        "weakened": f"{source} acts less strongly on {target}",
        "reversed-sign": f"The effect of {source} on {target} changes its sign",
    }.get(edge.change or "", f"The effect of {source} on {target} changed")
    if edge.weight_first is None or edge.weight_second is None:
        return said
    return f"{said}: {show(edge.weight_first)} in {first}, {show(edge.weight_second)} in {second}"


def percent(share: float | None) -> str:
    """Format a share of 1; what is not quite all of it must not read as all.

    >>> percent(0.47), percent(0.9991), percent(1.0)
    ('47%', '>99%', '100%')
    """
    if share is None:
        return ""
    return ">99%" if 0.995 <= share < 1 else f"{share:.0%}"


def shown_settings(result: DifferenceResult) -> dict[str, object]:
    """The settings a person may want to see; result.json has all of them."""
    return {
        key: value
        for key, value in result.settings.items()
        if key not in INTERNAL and not (isinstance(value, list) and not value)
    }


def setting(value: object) -> str:
    """Format the value of a setting."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return format(value, ".4g")
    return _cut(printable(str(value)), 60)


def short_name(name: str) -> str:
    """The name of a variable as a table has room for."""
    return _cut(printable(name), NAME_WIDTH)


def _columns(text: str) -> int:
    """Columns a text takes in a terminal: East Asian characters and emoji take two."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 or c in "\u200d\ufe0f" for c in text)


def _cut(text: str, width: int) -> str:
    """Shorten in the middle: names often differ only at their end."""
    half = (width - 3) // 2
    return text if len(text) <= width else f"{text[:half]}...{text[-half:]}"


def _wrap(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def _some(items: Sequence[str]) -> str:
    """Join names; of many, the first ones and a count of the others."""
    left_out = len(items) - NAMES_SHOWN
    more = f" and {left_out} more" if left_out > 0 else ""
    return ", ".join(short_name(item) for item in items[:NAMES_SHOWN]) + more


def _aligned(rows: Sequence[Sequence[str]], left: int) -> str:
    """Align cells in columns: the first `left` to the left, the others to the right."""
    widths = [max(_columns(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = []
    for row in rows:
        pads = [" " * (width - _columns(cell)) for width, cell in zip(widths, row, strict=True)]
        cells = [row[k] + pads[k] if k < left else pads[k] + row[k] for k in range(len(row))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
