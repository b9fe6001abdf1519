"""The frozen answer: what changed between two conditions, and the way to its renderers.

`DifferenceResult` holds the facts. Text, JSON, tables, graphs, pictures and pages are made from it by
`diffdag.report`, which is imported only when one of them is asked for.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.sparse import csr_array

from diffdag._base.atomic import write_together
from diffdag._base.errors import InputError
from diffdag.results.records import (
    RARE,
    Check,
    Edge,
    EdgeScatter,
    GlobalTest,
    MeanChange,
    NoiseChange,
    Sensitivity,
    Stability,
)

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from matplotlib.axes import Axes

    from diffdag.report.layout.theme import ThemeName
    from diffdag.tables.readers.coordinates import Coordinates


@dataclass(frozen=True, eq=False)
class DifferenceResult:
    """What changed between two conditions.

    Parameters
    ----------
    method : str
        How it was estimated.
    variables : tuple of str
        All variables, in the order of the columns.
    invariant : tuple of str
        Variables that take no part in any change.
    unresolved : tuple of str
        Variables whose place in the order is not identified.
    order : tuple of tuple of str
        Layers, causes first; a variable is affected only by earlier layers and unresolved variables.
    edge_list : tuple of Edge
        The changed edges.
    delta_entries : csr_array, shape (p, p)
        Difference of the precision matrices, first minus second; see also `delta_precision`.
    samples : tuple of int, optional
        Rows in the first and the second table; None for exact models.
    settings : mapping
        Every setting used, chosen by the user or from the data.
    notes : tuple of str
        What the user should know about this answer.
    labels : tuple of str
        What to call the two conditions.
    noise_list : tuple of NoiseChange
        Variables whose noise variance changed; see also `changed_noise`.
    mean_list : tuple of MeanChange
        Variables whose intercept changed; see also `changed_mean`.
    checks : tuple of Check
        Whether what the method assumes looks right.
    stability : Stability, optional
        What resamples of both tables found.
    global_test : GlobalTest, optional
        The test of no change at all.
    sensitivity : Sensitivity, optional
        How far the answer depends on the penalty, or the threshold.
    scatters : tuple of EdgeScatter
        What the largest changes look like in the rows, as far as that is known; see also `scatter_of`.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> names = ("Raf", "Mek")
    >>> edge = Edge("Raf", "Mek", change="weakened", weight_first=0.9, weight_second=0.4, delta=0.5)
    >>> res = DifferenceResult(
    ...     method="paper", variables=names, invariant=(), unresolved=(), order=(("Raf",), ("Mek",)),
    ...     edge_list=(edge,), delta_entries=csr_array((2, 2)),
    ...     samples=(853, 799), settings={"penalty": 0.3})
    >>> res.edges[["source", "target", "change"]].values.tolist()
    [['Raf', 'Mek', 'weakened']]
    >>> print(res.summary().splitlines()[0])
    1 of 2 possible edges changed: Raf -> Mek weakened
    """

    method: str
    variables: tuple[str, ...]
    invariant: tuple[str, ...]
    unresolved: tuple[str, ...]
    order: tuple[tuple[str, ...], ...]
    edge_list: tuple[Edge, ...]
    delta_entries: csr_array
    samples: tuple[int, int] | None
    settings: Mapping[str, object]
    notes: tuple[str, ...] = ()
    labels: tuple[str, str] = ("first", "second")
    noise_list: tuple[NoiseChange, ...] = ()
    mean_list: tuple[MeanChange, ...] = ()
    checks: tuple[Check, ...] = ()
    stability: Stability | None = None
    global_test: GlobalTest | None = None
    sensitivity: Sensitivity | None = None
    scatters: tuple[EdgeScatter, ...] = ()

    def __post_init__(self) -> None:
        plain: dict[str, object] = {
            **{name: tuple(getattr(self, name)) for name in ("variables", "invariant", "unresolved")},
            **{name: tuple(_text(line) for line in getattr(self, name)) for name in ("notes", "labels")},
            **{name: tuple(getattr(self, name)) for name in ("edge_list", "noise_list", "mean_list")},
            **{name: tuple(getattr(self, name)) for name in ("checks", "scatters")},
            "order": tuple(tuple(layer) for layer in self.order),
            "samples": None if self.samples is None else tuple(int(n) for n in self.samples),
            "settings": _plain(self.settings),
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        self._check_names()
        object.__setattr__(self, "delta_entries", self._checked_matrix())

    def _check_names(self) -> None:
        """The parts must agree with each other: this is where a slip of a method would show."""
        for name in self.variables:
            if not isinstance(name, str):
                raise ValueError(f"variable {name!r} is not text")
            try:
                name.encode("utf-8")
            except UnicodeEncodeError:
                raise ValueError(f"variable {name!r} is not valid text") from None
        known = set(self.variables)
        in_layers = tuple(name for layer in self.order for name in layer)
        for what, names in [
            ("variables", self.variables),
            ("invariant", self.invariant),
            ("order", in_layers),
            ("unresolved", self.unresolved),
        ]:
            if len(set(names)) < len(names):
                raise ValueError(f"{what} names a variable twice")
            if not known.issuperset(names):
                raise ValueError(f"{what} names {min(set(names) - known)!r}, which is not a variable")
        keys = [(e.source, e.target) if e.directed else frozenset((e.source, e.target)) for e in self.edge_list]
        if len(set(keys)) < len(keys):
            raise ValueError("edges names an edge twice")
        for edge in self.edge_list:
            if not known.issuperset((edge.source, edge.target)):
                raise ValueError(f"edge {edge} joins something that is not a variable")
        moved = {change.variable for change in self.noise_list} | {change.variable for change in self.mean_list}
        if not known.issuperset(moved):
            raise ValueError(f"noise or mean of {min(moved - known)!r} changed, which is not a variable")
        pairs = {(edge.source, edge.target) for edge in self.edge_list}
        if any((scatter.source, scatter.target) not in pairs for scatter in self.scatters):
            raise ValueError("scatters shows an edge that is not among the edges")
        if len(self.labels) != 2:
            raise ValueError(f"labels has {len(self.labels)} entries; expected 2")

    def _checked_matrix(self) -> csr_array:
        entries: csr_array = self.delta_entries.astype(np.float64)
        if entries.shape != (len(self.variables),) * 2:
            raise ValueError("delta_entries must have a row and a column for each variable")
        if not np.isfinite(entries.data).all():
            raise ValueError("delta_entries has entries that are not finite")
        entries.eliminate_zeros()
        return entries

    @cached_property
    def delta_precision(self) -> pd.DataFrame:
        """Difference of the precision matrices, first minus second, as a table of p x p."""
        import pandas as pd  # noqa: PLC0415

        axis = pd.Index(list(self.variables), dtype=object)
        return pd.DataFrame(self.delta_entries.toarray(), index=axis, columns=axis)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DifferenceResult):
            return NotImplemented
        same = (
            getattr(self, f.name) == getattr(other, f.name) for f in fields(self) if f.name != "delta_entries"
        )
        return all(same) and same_entries(self.delta_entries, other.delta_entries)

    def __hash__(self) -> int:
        return hash((self.method, self.variables, self.edge_list))

    @classmethod
    def of(cls, difference: DifferenceResult) -> DifferenceResult:
        """Stub."""
        return difference

    @property
    def possible(self) -> int:
        """Number of possible edges, p (p - 1)."""
        return len(self.variables) * (len(self.variables) - 1)

    @property
    def edges(self) -> pd.DataFrame:
        """The changed edges as a table; `confidence`, `low` and `high` only where some edge has them."""
        return _table(self.edge_list, Edge)

    @property
    def changed_noise(self) -> pd.DataFrame:
        """Variables whose noise variance changed: variable, variances, their ratio, p-value[, confidence]."""
        return _table(self.noise_list, NoiseChange)

    @property
    def changed_mean(self) -> pd.DataFrame:
        """Variables whose intercept changed: variable, means, delta, standard error, p-value[, confidence]."""
        return _table(self.mean_list, MeanChange)

    def scatter_of(self, source: str, target: str) -> EdgeScatter | None:
        """What one changed edge looks like in the rows; None where that is not known."""
        ends = (source, target)
        return next((found for found in self.scatters if (found.source, found.target) == ends), None)

    def summary(self) -> str:
        """Return the answer as text of about 100 columns."""
        from diffdag.report.text import summary  # noqa: PLC0415

        return summary(self)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"<DifferenceResult: {len(self.edge_list)} of {self.possible} possible edges changed>"

    def _repr_html_(self) -> str:
        from diffdag.report.html.page import render_fragment  # noqa: PLC0415

        return render_fragment(self)

    def to_json(self) -> str:
        """Return the whole answer as strict JSON; `load_result` reads it back."""
        from diffdag.results.json import to_json  # noqa: PLC0415

        return to_json(self)

    def to_networkx(self) -> nx.DiGraph[str]:
        """Return a graph of all variables; an undirected edge appears in both directions."""
        from diffdag.report.graphs import to_networkx  # noqa: PLC0415

        return to_networkx(self)

    def to_graphml(self) -> str:
        """Return that graph as GraphML."""
        from diffdag.report.graphs import to_graphml  # noqa: PLC0415

        return to_graphml(self)

    def to_cytoscape(self) -> dict[str, Any]:
        """Return the graph as Cytoscape.js takes it; saved as JSON in a ``.cyjs`` file, Cytoscape reads it."""
        from diffdag.report.graphs import to_cytoscape  # noqa: PLC0415

        return to_cytoscape(self)

    def to_dot(self) -> str:
        """Return the changed edges in the language of Graphviz, each kind with its colour and line."""
        from diffdag.report.graphs import to_dot  # noqa: PLC0415

        return to_dot(self)

    def to_sif(self) -> str:
        """Return the changed edges in Cytoscape's simple format: source, kind, target, separated by tabs."""
        from diffdag.report.graphs import to_sif  # noqa: PLC0415

        return to_sif(self)

    def to_causallearn(self) -> Any:
        """Return the changed edges as a ``GeneralGraph`` of causal-learn, directed and undirected."""
        from diffdag.report.graphs import to_causallearn  # noqa: PLC0415

        return to_causallearn(self)

    def to_dowhy(self, undirected: Literal["error", "drop"] = "error") -> nx.DiGraph[str]:
        """Return the directed changed edges alone, as ``CausalModel(graph=...)`` of DoWhy takes graphs.

        This is the graph of the effects that *changed*, not the causal graph of either condition: two
        variables without an edge here may well affect each other, equally in both. It says where to look, and
        is no ground for identifying an effect; add the edges that you know before DoWhy adjusts for anything.

        Parameters
        ----------
        undirected : {"error", "drop"}
            What to do about changes whose direction is unknown: DoWhy has no place for them.
        """
        from diffdag.report.graphs import to_dowhy  # noqa: PLC0415

        return to_dowhy(self, undirected)

    def plot(self, ax: Axes | None = None, *, theme: ThemeName = "light") -> Axes:
        """Draw the difference DAG, causes on top; see `diffdag.plot_difference`."""
        from diffdag.report.plots.difference import plot_difference  # noqa: PLC0415

        return plot_difference(self, ax, theme=theme)

    def plot_precision(self, ax: Axes | None = None, *, theme: ThemeName = "light", **options: Any) -> Axes:
        """Draw the difference of the precision matrices as a heat map; see `diffdag.plot_precision`."""
        from diffdag.report.plots.heatmap import plot_precision  # noqa: PLC0415

        return plot_precision(self, ax, theme=theme, **options)

    def plot_edge(
        self, source: str, target: str, ax: Axes | None = None, *, theme: ThemeName = "light"
    ) -> Axes:
        """Draw rows and regression lines of one changed edge in both conditions; see `diffdag.plot_edge`."""
        from diffdag.report.plots.edge import plot_edge  # noqa: PLC0415

        return plot_edge(self, source, target, ax, theme=theme)

    def plot_brain(
        self, coordinates: Coordinates, ax: Axes | None = None, *, theme: ThemeName = "light", **options: Any
    ) -> Axes:
        """Draw the changed edges between brain regions; see `diffdag.plot_brain`."""
        from diffdag.report.plots.brain import plot_brain  # noqa: PLC0415

        return plot_brain(self, coordinates, ax, theme=theme, **options)

    def save(self, folder: str | os.PathLike[str], *, coordinates: Coordinates | None = None) -> list[Path]:
        """Write result.json, edges.csv, graph.graphml and report.html.

        Everything is rendered before the first file is written, and each file is written completely or
        not at all; if one cannot be written, older ones stay.

        Parameters
        ----------
        folder : path-like
            Created where missing.
        coordinates : mapping of str to (x, y, z), optional
            Places of brain regions in mm, for a view of the brain in the report; see
            `diffdag.read_coordinates`.

        Returns
        -------
        list of Path
            The files written.
        """
        return write_together(folder, self.rendered(coordinates))

    def rendered(self, coordinates: Coordinates | None = None) -> dict[str, bytes]:
        """What `save` writes, by the names of the files."""
        from diffdag.report.graphs import to_graphml  # noqa: PLC0415
        from diffdag.report.html.page import render_page  # noqa: PLC0415
        from diffdag.results.json import to_csv, to_json  # noqa: PLC0415

        return {
            "result.json": to_json(self).encode("utf-8"),
            "edges.csv": to_csv(self).encode("utf-8"),
            "graph.graphml": to_graphml(self).encode("utf-8"),
            "report.html": render_page(self, coordinates=coordinates).encode("utf-8"),
        }


def _table(records: Sequence[object], kind: type[Any]) -> pd.DataFrame:
    """Records as rows; numbers that are unknown are NaN."""
    import pandas as pd  # noqa: PLC0415

    table: dict[str, pd.Series[Any]] = {}
    for field in fields(kind):
        values = [getattr(record, field.name) for record in records]
        if field.name in RARE and all(value is None for value in values):
            continue
        types = {"bool": "bool", "str": "object", "str | None": "object"}
        table[field.name] = pd.Series(values, dtype=types.get(str(field.type), "float64"))
    return pd.DataFrame(table)


def kept_columns(result: DifferenceResult) -> list[int] | None:
    """Columns of the variables that were not screened out; None for all."""
    found = result.settings.get("screened_out")
    out = set(found) if isinstance(found, list) else set()
    return [k for k, name in enumerate(result.variables) if name not in out] if out else None


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
            return {_text(str(key)): _plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset() | range():
            return [_plain(item) for item in value]
        case _:
            return _text(str(value))


def _text(value: str) -> str:
    """Replace what UTF-8 cannot say; file names may bring such characters in."""
    return value.encode("utf-8", "replace").decode("utf-8")


def load_result(path: str | os.PathLike[str]) -> DifferenceResult:
    """Read a saved result.

    Parameters
    ----------
    path : path-like
        A `result.json`, or the folder that holds it.

    Returns
    -------
    DifferenceResult
        Equal to the one that was saved.

    Raises
    ------
    InputError
        If the file is missing, is not JSON or does not follow the schema.
    """
    from diffdag.results.conditions_result import holds_conditions  # noqa: PLC0415
    from diffdag.results.json import from_json  # noqa: PLC0415

    place = Path(path)
    if place.is_dir():
        place = place / "result.json"
    other = place if place.exists() else place.with_name("conditions.json")
    try:
        return from_json(read_saved(place), name=str(place))
    except InputError:
        if (Path(path).is_dir() or other == place) and holds_conditions(other):
            raise InputError(
                f"result file {str(other)!r} holds several comparisons; read it with load_conditions"
            ) from None
        raise


def read_saved(place: Path) -> bytes:
    """The content of a saved result."""
    try:
        return place.read_bytes()
    except (OSError, ValueError) as error:  # the latter where the name of a file holds a NUL
        reason = getattr(error, "strerror", None) or "cannot be read"
        raise InputError(f"result file {str(place)!r}: {reason.lower()}; check the path") from None
