"""The facts of a result for several conditions: one `Difference` per comparison."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from diffdag.results.difference import Difference
from diffdag.results.records import Edge

if TYPE_CHECKING:
    import pandas as pd

Pair = tuple[str, str]
FOLDER_CHARACTERS = 60


@dataclass(frozen=True, eq=False)
class Differences:
    """What changed between several conditions: the facts that `diffdag.ConditionsResult` renders.

    Examples
    --------
    >>> import diffdag as dd
    >>> pair = dd.simulate_pair(5, neighbours=3, changes=1, weights=(0.8, 1.0), rng=4)
    >>> tables = {"before": pair.first.sample(5000, rng=1), "early": pair.first.sample(5000, rng=2)}
    >>> tables["late"] = pair.second.sample(5000, rng=3)
    >>> result = dd.fit_conditions(tables, reference="before")
    >>> result.edges[["second", "source", "target", "change"]].values.tolist()
    [['late', 'X5', 'X1', 'removed']]
    >>> result.matrix.round(1)
              early  late
    X5 -> X1    NaN  -1.0
    """

    conditions: tuple[str, ...]  #: all conditions
    reference: str | None  #: what all others are compared with; None if each was compared with each
    #: The comparisons, by their first and second condition. The first one is the reference, if there is one:
    #: ``delta`` is the effect in the reference minus the effect in the other condition.
    pairs: Mapping[Pair, Difference]
    order: tuple[str, ...] = ()  #: that suits all comparisons best, causes first; empty with ``method="paper"``
    notes: tuple[str, ...] = ()  #: what the user should know about all comparisons; `pairs` have their own

    def __post_init__(self) -> None:
        for name in ("conditions", "order", "notes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "pairs", MappingProxyType(dict(self.pairs)))
        if len(self.conditions) < 2 or len(set(self.conditions)) < len(self.conditions):
            raise ValueError("conditions must be two or more different names")
        if self.reference is not None and self.reference not in self.conditions:
            raise ValueError(f"reference {self.reference!r} is not a condition")
        if not self.pairs:
            raise ValueError("nothing is compared")
        for first, second in self.pairs:
            if first == second or not {first, second} <= set(self.conditions):
                raise ValueError(f"{first!r} and {second!r} are not two of the conditions")
            if self.reference not in (None, first):
                raise ValueError(f"{first!r} is compared with {second!r} and is not the reference")
        if len({result.variables for result in self.pairs.values()}) > 1:
            raise ValueError("comparisons are over different variables")
        if self.order and not set(self.order) <= set(self.variables):
            raise ValueError("order names something that is not a variable")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Differences):
            return NotImplemented
        names = ("conditions", "reference", "order", "notes")
        same = all(getattr(self, name) == getattr(other, name) for name in names)
        return same and dict(self.pairs) == dict(other.pairs)

    def __hash__(self) -> int:
        return hash((self.conditions, self.reference, self.order, tuple(self.pairs)))

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        """How it is copied, and sent to other processes, which take no read-only mapping."""
        return type(self), (self.conditions, self.reference, dict(self.pairs), self.order, self.notes)

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables, in the order of the columns."""
        return next(iter(self.pairs.values())).variables

    @property
    def possible(self) -> int:
        """Number of possible edges in each comparison."""
        return next(iter(self.pairs.values())).possible

    @property
    def titles(self) -> dict[Pair, str]:
        """What to call each comparison in a table: the other condition, if all have the same reference."""
        return {pair: " - ".join(pair) if self.reference is None else pair[1] for pair in self.pairs}

    @property
    def edges(self) -> pd.DataFrame:
        """All changes, comparison by comparison: first, second, and the columns of `Difference.edges`."""
        import pandas as pd  # noqa: PLC0415

        tables = [result.edges for result in self.pairs.values()]
        for pair, table in zip(self.pairs, tables, strict=True):
            for place, name in enumerate(("first", "second")):
                table.insert(place, name, pd.Series([pair[place]] * len(table), dtype=object))
        return pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)

    @property
    def by_edge(self) -> list[dict[Pair, Edge]]:
        """Each changed edge in the comparisons where it changed; in most of them, then largest, first.

        Those that moved ranges explain in every comparison come last.
        """
        found: dict[tuple[str, str, bool], dict[Pair, Edge]] = {}
        for pair, result in self.pairs.items():
            for edge in result.edge_list:
                found.setdefault(edge.key, {})[pair] = edge
        return sorted(found.values(), key=_rank)

    @property
    def matrix(self) -> pd.DataFrame:
        """One row per edge, one column per comparison: delta, first minus second; NaN where it did not change.

        Of undirected edges (``A -- B``) delta is unknown, NaN; `kinds` tells them from what did not change.
        """
        return self._each(lambda edge: edge.delta, missing=None).astype(float)

    @property
    def kinds(self) -> pd.DataFrame:
        """One row per edge, one column per comparison: the kind of change; empty where nothing changed."""
        return self._each(lambda edge: edge.kind, missing="")

    def _each(self, value: Callable[[Edge], object], missing: object) -> pd.DataFrame:
        import pandas as pd  # noqa: PLC0415

        edges = self.by_edge
        rows = [[value(row[pair]) if pair in row else missing for pair in self.pairs] for row in edges]
        labels = pd.Index([str(next(iter(row.values()))) for row in edges], dtype=object)
        return pd.DataFrame(rows, labels, list(self.titles.values()), dtype=object)

    def folders(self) -> dict[Pair, str]:
        """Name of the folder of each comparison: a number, and what can be kept of the conditions' names."""
        return folder_names(self.pairs)


def _rank(row: Mapping[Pair, Edge]) -> tuple[bool, int, float]:
    """Where a changed edge stands among others."""
    edges = row.values()
    return all(edge.by_range for edge in edges), -len(row), -max(edge.magnitude or 0.0 for edge in edges)


def folder_names(pairs: Iterable[Pair]) -> dict[Pair, str]:
    """A name for the folder of each comparison.

    >>> folder_names([("no drug", "a/b")])
    {('no drug', 'a/b'): '1-no_drug-a_b'}
    """
    names = {}
    for number, pair in enumerate(pairs, start=1):
        plain = (re.sub(r"[^\w-]+", "_", name, flags=re.ASCII).strip("_") for name in pair)
        names[pair] = "-".join(filter(None, [str(number), *plain]))[:FOLDER_CHARACTERS]
    return names
