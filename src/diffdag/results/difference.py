"""The facts of a result: what changed between two conditions."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from diffdag.results import records
from diffdag.results.explanation import Explanations
from diffdag.results.nodes import LIKELY, list_nodes

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Difference:
    """What changed between two conditions: the facts that `diffdag.DifferenceResult` renders.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from diffdag.results import records
    >>> names = ("Raf", "Mek")
    >>> edge = records.Edge("Raf", "Mek", change="weakened", weight_first=0.9, weight_second=0.4, delta=0.5)
    >>> res = Difference(
    ...     method="paper", variables=names, invariant=(), unresolved=(), order=(("Raf",), ("Mek",)),
    ...     edge_list=(edge,), delta_entries=csr_array((2, 2)),
    ...     samples=(853, 799), settings={"penalty": 0.3})
    >>> res.edges[["source", "target", "change"]].values.tolist()
    [['Raf', 'Mek', 'weakened']]
    """

    method: str  #: how it was estimated
    variables: tuple[str, ...]  #: all variables, in the order of the columns
    #: Variables that take no part in any change; those of `gain_list`, `noise_list` and `mean_list` are left
    #: out of what is given, and so are those of edges that are not sure enough, and those whose own test says
    #: that something changed.
    invariant: tuple[str, ...]
    unresolved: tuple[str, ...]  #: variables whose place in the order is not identified
    #: Layers, causes first; a variable is affected only by earlier layers and unresolved variables.
    order: tuple[tuple[str, ...], ...]
    edge_list: tuple[records.Edge, ...]  #: the changed edges
    delta_entries: csr_array  #: difference of the precision matrices, first minus second; see `delta_precision`
    samples: tuple[int, int] | None  #: rows in the first and the second table; None for exact models
    settings: Mapping[str, object]  #: every setting used, chosen by the user or from the data
    notes: tuple[str, ...] = ()  #: what the user should know about this result
    labels: tuple[str, str] = ("first", "second")  #: what to call the two conditions
    gain_list: tuple[records.GainChange, ...] = ()  #: changed gains; see `changed_gain`
    noise_list: tuple[records.NoiseChange, ...] = ()  #: changed noise variances; see `changed_noise`
    mean_list: tuple[records.MeanChange, ...] = ()  #: changed intercepts; see `changed_mean`
    checks: tuple[records.Check, ...] = ()  #: whether what the method assumes looks right
    stability: records.Stability | None = None  #: what resamples of both tables found
    global_test: records.GlobalTest | None = None  #: the test of no change at all
    sensitivity: records.Sensitivity | None = None  #: how far it depends on the penalty, or the threshold
    scatters: tuple[records.EdgeScatter, ...] = ()  #: the largest changes in the rows; see `scatter_of`
    screened_out: tuple[str, ...] = ()  #: variables that were not looked at, because they were too many
    selection: records.Selection | None = None  #: what a target for the share of false edges left out
    #: Changed effects in each unit that rows are nested in, such as donors; see `by_unit`.
    unit_effects: tuple[records.UnitEffect, ...] = ()
    #: Variables that vary in one condition only, and are not among `variables`; see `nodes`.
    switch_list: tuple[records.SwitchChange, ...] = ()
    node_tests: tuple[records.NodeTest, ...] = ()  #: whether each variable's mechanism changed; see `nodes`
    #: What each changed mechanism accounts for in the movement of each variable; None if that is not known.
    explanations: Explanations | None = None

    def __post_init__(self) -> None:
        moved = {c.variable for own in (self.gain_list, self.noise_list, self.mean_list) for c in own}
        plain: dict[str, object] = {
            **{f.name: tuple(getattr(self, f.name)) for f in fields(self) if str(f.type).endswith("...]")},
            **{name: tuple(map(as_text, getattr(self, name))) for name in ("notes", "labels")},
            "order": tuple(map(tuple, self.order)),
            "samples": None if self.samples is None else tuple(map(int, self.samples)),
            "settings": _plain(self.settings),
            "delta_entries": self.delta_entries.astype(np.float64),
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        doubtful = {end for edge in self.left_out for end in (edge.source, edge.target)}
        doubtful |= {node.variable for node in self.likely_nodes}
        still = tuple(name for name in self.invariant if name not in moved | doubtful)
        object.__setattr__(self, "invariant", still)
        self.delta_entries.eliminate_zeros()
        self._check_names(moved)
        if self.delta_entries.shape != (len(self.variables),) * 2:
            raise ValueError("delta_entries must have a row and a column for each variable")
        if not np.isfinite(self.delta_entries.data).all():
            raise ValueError("delta_entries has entries that are not finite")

    def _check_names(self, moved: set[str]) -> None:
        """The parts must agree with each other: this is where a slip of a method would show."""
        for name in (*self.variables, *(change.variable for change in self.switch_list)):
            if not isinstance(name, str) or as_text(name) != name:
                raise ValueError(f"variable {name!r} is not valid text")
        named: dict[str, Collection[str]] = {
            "variables": self.variables,
            "invariant": self.invariant,
            "order": tuple(name for layer in self.order for name in layer),
            "unresolved": self.unresolved,
            "screened_out": self.screened_out,
        }
        for what, names in named.items():
            if len(set(names)) < len(names):
                raise ValueError(f"{what} names a variable twice")
        ends = [(edge.source, edge.target) for edge in self.edge_list]
        named |= {
            "an edge": {
                end for edge in (*self.edge_list, *self.left_out) for end in (edge.source, edge.target)
            },
            "changed_gain, changed_noise or changed_mean": moved,
            "node_tests": [test.variable for test in self.node_tests],
        }
        for what, names in named.items():
            if unknown := set(names).difference(self.variables):
                raise ValueError(f"{what} names {min(unknown)!r}, which is not a variable")
        keys = [pair if e.directed else frozenset(pair) for e, pair in zip(self.edge_list, ends, strict=True)]
        if len(set(keys)) < len(keys):
            raise ValueError("edges names an edge twice")
        if not {(scatter.source, scatter.target) for scatter in self.scatters}.issubset(ends):
            raise ValueError("scatters shows an edge that is not among the edges")
        switched = [change.variable for change in self.switch_list]
        if len(set(switched)) < len(switched) or set(switched).intersection(self.variables):
            raise ValueError("switched names a variable twice, or one that is compared")
        if self.explanations is not None:
            self.explanations.check_names(self.variables)
        if len(self.labels) != 2:
            raise ValueError(f"labels has {len(self.labels)} entries; expected 2")

    @property
    def delta_precision(self) -> pd.DataFrame:
        """Difference of the precision matrices, first minus second, as a new table of p x p."""
        import pandas as pd  # noqa: PLC0415

        axis = pd.Index(list(self.variables), dtype=object)
        return pd.DataFrame(self.delta_entries.toarray(), index=axis, columns=axis)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Difference):
            return NotImplemented
        names = [field.name for field in fields(self) if field.name != "delta_entries"]
        same = all(getattr(self, name) == getattr(other, name) for name in names)
        return same and same_entries(self.delta_entries, other.delta_entries)

    def __hash__(self) -> int:
        return hash((self.method, self.variables, self.edge_list))

    @property
    def possible(self) -> int:
        """Number of possible edges, p (p - 1)."""
        return len(self.variables) * (len(self.variables) - 1)

    @property
    def edges(self) -> pd.DataFrame:
        """One row per changed edge, with the fields of `Edge` as columns; unknown numbers are NaN."""
        return _table(self.edge_list, records.Edge)

    @cached_property
    def node_list(self) -> tuple[records.Node, ...]:
        """What changed of each variable, those with most evidence first."""
        return list_nodes(self)

    @property
    def left_out(self) -> tuple[records.Edge, ...]:
        """Edges that were found, and that a target for the share of false edges keeps off the list."""
        return () if self.selection is None else self.selection.left_out

    @property
    def likely_nodes(self) -> tuple[records.Node, ...]:
        """Variables of which something changed by their test, and nothing is claimed."""
        if not self.node_tests:
            return ()
        unclaimed = [node for node in self.node_list if not node.changed and not node.note]
        return tuple(node for node in unclaimed if node.qvalue is not None and node.qvalue <= LIKELY)

    @cached_property
    def changed_nodes(self) -> frozenset[str]:
        """Variables whose own mechanism changed; both ends of a change without direction."""
        return frozenset(node.variable for node in self.node_list if node.changed)

    @property
    def nodes(self) -> pd.DataFrame:
        """One row per variable, most evidence first, with the fields of `Node` as columns.

        First come variables that vary in one condition only (`switch_list`), then those of which something
        changed, then the others, all by the evidence that their mechanism changed.
        """
        return _table(self.node_list, records.Node)

    @property
    def changed_gain(self) -> pd.DataFrame:
        """One row per variable whose gain changed, with the fields of `GainChange` as columns."""
        return _table(self.gain_list, records.GainChange)

    @property
    def changed_noise(self) -> pd.DataFrame:
        """One row per variable whose noise variance changed, with the fields of `NoiseChange` as columns."""
        return _table(self.noise_list, records.NoiseChange)

    @property
    def changed_mean(self) -> pd.DataFrame:
        """One row per variable whose intercept changed, with the fields of `MeanChange` as columns."""
        return _table(self.mean_list, records.MeanChange)

    @property
    def by_unit(self) -> pd.DataFrame:
        """One row per changed effect, condition and unit that rows are nested in, such as a donor.

        Columns are the fields of `UnitEffect`; the table is empty where rows are not nested.
        """
        return _table(self.unit_effects, records.UnitEffect)

    def scatter_of(self, source: str, target: str) -> records.EdgeScatter | None:
        """What the changed edge of `source` and `target` looks like in the rows; None where not known."""
        ends = (source, target)
        return next((found for found in self.scatters if (found.source, found.target) == ends), None)


def _table(rows: Sequence[Any], kind: type[Any]) -> pd.DataFrame:
    """One row per record and one column per field; unknown numbers are NaN."""
    import pandas as pd  # noqa: PLC0415

    types = {
        "bool": "bool",
        "int": "int64",
        **dict.fromkeys(("str", "str | None", "tuple[str, ...]"), "object"),
    }
    columns = {}
    for field in fields(kind):
        values = [getattr(row, field.name) for row in rows]
        columns[field.name] = pd.Series(values, dtype=types.get(str(field.type), "float64"))
    return pd.DataFrame(columns)


def same_entries(first: csr_array, second: csr_array) -> bool:
    """Whether two sparse matrices are equal."""
    return bool(first.shape == second.shape and (first - second).count_nonzero() == 0)


def _plain(value: object) -> object:
    """Turn a setting into what JSON can say, so that a saved and loaded result equals the original."""
    match value:
        case np.ndarray() | np.generic():
            return _plain(value.tolist())
        case None | bool() | int():
            return value
        case float():
            return float(value) if math.isfinite(value) else None
        case Mapping():
            return {as_text(str(key)): _plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset() | range():
            return [_plain(item) for item in value]
        case _:
            return as_text(str(value))


def as_text(value: str) -> str:
    """Replace what UTF-8 cannot say; file names may bring such characters in."""
    return value.encode("utf-8", "replace").decode("utf-8")
