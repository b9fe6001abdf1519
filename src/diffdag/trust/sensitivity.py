"""What a path of settings found, and how far the result depends on the setting."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from diffdag._base.words import plural
from diffdag.results.difference import Difference
from diffdag.results.records import Share

if TYPE_CHECKING:
    import pandas as pd

Found = tuple[str, str, bool, float | None]  # source, target, whether directed, delta
Claim = tuple[str, str, bool]
NAMED = 2  # edges that a sentence names


@dataclass(frozen=True)
class SettingMultiples:
    """A setting: multiples of the default penalty and threshold."""

    penalty: float = 1.0
    threshold: float = 1.0

    def __str__(self) -> str:
        return f"penalty-{self.penalty:g}-threshold-{self.threshold:g}"


@dataclass(frozen=True)
class Setting:
    """What was found at one setting."""

    at: SettingMultiples
    kept: int  # variables that were not screened out
    edges: tuple[Found, ...]
    ebic: float  # relative to no change: less is better
    instability: float | None = None  # how far halves of the rows disagree
    found: float | None = None  # how many changes they found on average
    shares: tuple[Share, ...] = ()  # how often they found each pair, most often found first

    @property
    def pairs(self) -> frozenset[frozenset[str]]:
        """The edges whatever their direction."""
        return frozenset(frozenset(edge[:2]) for edge in self.edges)

    @property
    def claims(self) -> frozenset[Claim]:
        """The edges without their deltas."""
        return frozenset(edge[:3] for edge in self.edges)


@dataclass(frozen=True)
class EdgeTrajectory:
    """One pair of variables along the path; the source is the cause at most settings that direct the edge."""

    source: str
    target: str
    ways: tuple[str, ...]  # step by step: "directed" from source to target, "reversed", "undirected", or ""
    deltas: tuple[float | None, ...]  # where directed


def _course(edges: dict[int, Found], steps: int) -> EdgeTrajectory:
    votes = Counter((source, target) for source, target, directed, _ in edges.values() if directed)
    source, target = max(votes, key=lambda way: votes[way]) if votes else next(iter(edges.values()))[:2]
    ways = [""] * steps
    deltas: list[float | None] = [None] * steps
    for k, (one, _, directed, delta) in edges.items():
        ways[k] = "undirected" if not directed else "directed" if one == source else "reversed"
        deltas[k] = delta if ways[k] == "directed" else None
    return EdgeTrajectory(source, target, tuple(ways), tuple(deltas))


@dataclass(frozen=True, eq=False)
class SettingsPath:
    """The results along a path of settings, and the setting chosen."""

    method: str  # "order" or "paper"
    by: str  # how the setting was chosen: "ebic" or "stability"
    axis: str  # the setting that varies along the path: "penalty" or "threshold"
    settings: tuple[Setting, ...]  # every setting tried, the path first, in ascending order
    steps: int  # how many of them are the path
    chosen_at: int  # its number in `settings`, as is the next
    default_at: int
    chosen: dict[str, Any]  # parameters of `DifferenceDAG`, as are the next
    default: dict[str, Any]
    result: Difference  # what changed at the chosen setting
    gamma: float  # weight of the extended BIC
    bound: float  # largest instability that counts as stable

    @property
    def line(self) -> tuple[Setting, ...]:
        """The settings on the path: all others but `axis` are the default."""
        return self.settings[: self.steps]

    @property
    def agrees(self) -> bool:
        """Whether the chosen and the default setting give the same edges."""
        return self.settings[self.chosen_at].claims == self.settings[self.default_at].claims

    @property
    def table(self) -> pd.DataFrame:
        """One row per setting; penalty and threshold are multiples of the default."""
        import pandas as pd  # noqa: PLC0415

        rows = self.settings
        table: dict[str, Any] = {"penalty": [row.at.penalty for row in rows]}
        if self.method == "paper":
            table["threshold"] = [row.at.threshold for row in rows]
        if any(row.kept < len(self.result.variables) for row in rows):
            table["kept"] = [row.kept for row in rows]
        table["edges"] = [len(row.edges) for row in rows]
        table["ebic"] = [row.ebic for row in rows]
        if self.by == "stability":
            table["instability"] = [row.instability for row in rows]
        table["chosen"] = [k == self.chosen_at for k in range(len(rows))]
        return pd.DataFrame(table)

    @property
    def edges(self) -> pd.DataFrame:
        """One row per pair of variables whose edge is found anywhere on the path, the most persistent first.

        ``from`` and ``to`` are the least and the largest multiple at which it is found, ``share`` the share of
        the path, ``directed`` the share with an edge from source to target.
        """
        import pandas as pd  # noqa: PLC0415

        default, chosen = (self.settings[k].pairs for k in (self.default_at, self.chosen_at))
        rows = []
        for course in self.courses:
            at = [self.multiple(step) for step, way in zip(self.line, course.ways, strict=True) if way]
            pair = frozenset((course.source, course.target))
            shares = len(at) / self.steps, course.ways.count("directed") / self.steps
            marks = pair in default, pair in chosen
            rows.append((course.source, course.target, min(at), max(at), *shares, *marks))
        columns = ["source", "target", "from", "to", "share", "directed", "in_default", "in_chosen"]
        return pd.DataFrame(rows, columns=columns)

    @property
    def courses(self) -> list[EdgeTrajectory]:
        """What becomes of each pair along the path, the most persistent pairs first."""
        found: dict[frozenset[str], dict[int, Found]] = {}
        for k, step in enumerate(self.line):
            for edge in step.edges:
                found.setdefault(frozenset(edge[:2]), {})[k] = edge
        courses = [_course(edges, self.steps) for edges in found.values()]
        place = {name: k for k, name in enumerate(self.result.variables)}
        # Of two that are as persistent, the one that is still there at severe settings comes first.
        return sorted(
            courses,
            key=lambda c: (-len(list(filter(None, c.ways))), [not w for w in c.ways[::-1]], place[c.source]),
        )

    @property
    def rows(self) -> tuple[tuple[float, tuple[Claim, ...]], ...]:
        """The path in short: multiple of the default and edges (source, target, directed), step by step."""
        return tuple((self.multiple(step), tuple(edge[:3] for edge in step.edges)) for step in self.line)

    def multiple(self, step: Setting) -> float:
        """Where on the path a setting is."""
        return step.at.penalty if self.axis == "penalty" else step.at.threshold

    def summary(self) -> str:
        """The choice and the sensitivity, in two sentences."""
        way = "extended BIC" if self.by == "ebic" else "stability"
        chosen, note = self.settings[self.chosen_at], sensitivity_note(self)
        tail = f"{note[:1].upper()}{note[1:]}."
        if (chosen.instability or 0.0) > self.bound:
            return f"Even the most severe setting tried is not stable, so the default stays. {tail}"
        times = f"{self.multiple(chosen):g} times the default {self.axis}"
        same = "the same edges as" if self.agrees else f"{plural(len(chosen.edges), 'edge')}, not the same as"
        return f"Chosen by {way}: {times}, with {same} the default. {tail}"

    def to_json(self) -> str:
        """Everything but the full result at the chosen setting, for programs."""
        value = {
            "schema": 1,
            "method": self.method,
            "by": self.by,
            "axis": self.axis,
            "variables": list(self.result.variables),
            "chosen": self.chosen,
            "default": self.default,
            "agrees": self.agrees,
            "gamma": self.gamma,
            "bound": self.bound if self.by == "stability" else None,
            "sensitivity": sensitivity_note(self),
            "steps": self.steps,
            "settings": [self._record(k) for k in range(len(self.settings))],
            "edges": [_known(row) for row in self.edges.to_dict("records")],
        }
        return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def _record(self, number: int) -> dict[str, Any]:
        row = self.settings[number]
        marks = {"chosen": number == self.chosen_at, "default": number == self.default_at}
        values = {"ebic": row.ebic, "instability": row.instability, "found": row.found}
        at = {"penalty": row.at.penalty, "threshold": row.at.threshold, "kept": row.kept}
        edges = [dict(zip(("source", "target", "directed", "delta"), edge, strict=True)) for edge in row.edges]
        shares = {"shares": [asdict(share) for share in row.shares]} if self.by == "stability" else {}
        return {**at, **_known(values), **marks, "edges": edges, **shares}


def _known(record: dict[Any, Any]) -> dict[str, Any]:
    """Numbers that are not finite are None."""
    return {
        str(key): None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in record.items()
    }


def lost_above(path: SettingsPath) -> tuple[str, ...]:
    """Edges of the default setting whose pair is not found at the next more severe one."""
    steps = path.line[path.default_at : path.default_at + 2]
    return tuple(
        f"{edge[0]} {'->' if edge[2] else '--'} {edge[1]}"
        for edge in steps[0].edges
        if frozenset(edge[:2]) not in steps[-1].pairs
    )


def sensitivity_note(path: SettingsPath) -> str:
    """Say in one sentence over which settings the default result stays the same, and what is next.

    >>> import diffdag as dd
    >>> pair = dd.simulate_pair(p=5, neighbours=2, changes=1, weights=(0.8, 1.0), rng=3)
    >>> tables = pair.first.sample(1000, rng=1), pair.second.sample(1000, rng=2)
    >>> sensitivity_note(dd.settings_path(*tables, penalties=[0.5, 2]))
    'the same edge is found from 0.5 to 2 times the default penalty, at every one tried'
    """
    line, middle = path.line, path.default_at
    same = line[middle].pairs
    low = high = middle
    while low > 0 and line[low - 1].pairs == same:
        low -= 1
    while high < len(line) - 1 and line[high + 1].pairs == same:
        high += 1
    many = "edge is" if len(same) == 1 else f"{len(same)} edges are"
    what = f"the same {many} found" if same else "no change is found"
    ends = [f"{path.multiple(line[k]):g}" for k in (low, high)]
    where = f"from {ends[0]} to {ends[1]} times" if low < high else "only at"
    turned = _turned(line[low : high + 1])
    aside = f" ({turned} in another direction at some)" if turned else ""
    beyond = [_turn(path, same, k) for k in (low - 1, high + 1) if 0 <= k < len(line)]
    tail = "; " + ", ".join(beyond) if beyond else ", at every one tried"
    return f"{what} {where} the default {path.axis}{aside}{tail}"


def _turned(steps: Sequence[Setting]) -> int:
    """Pairs that have not the same direction at all settings."""
    claims = frozenset[Claim]().union(*(step.claims for step in steps))
    ways = Counter(frozenset(claim[:2]) for claim in claims)
    return sum(count > 1 for count in ways.values())


def _turn(path: SettingsPath, before: frozenset[frozenset[str]], number: int) -> str:
    """What is different at a setting just outside the range."""
    step, inside = path.line[number], path.line[path.default_at]
    more = [edge for edge in step.edges if frozenset(edge[:2]) not in before]
    less = [edge for edge in inside.edges if frozenset(edge[:2]) not in step.pairs]
    words = [_named(more, "appears", "appear"), _named(less, "goes", "go")]
    return f"at {path.multiple(step):g} times {' and '.join(filter(None, words))}"


def _named(edges: Sequence[Found], one: str, many: str) -> str:
    if not edges:
        return ""
    if len(edges) > NAMED:
        return f"{len(edges)} edges {many}"
    names = " and ".join(f"{edge[0]} {'->' if edge[2] else '--'} {edge[1]}" for edge in edges)
    return f"{names} {one if len(edges) == 1 else many}"
