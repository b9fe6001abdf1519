"""The frozen answer for several conditions: a `DifferenceResult` a comparison, and all of them side by side."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from diffdag._base.atomic import write_together
from diffdag._base.errors import InputError
from diffdag._base.words import plural
from diffdag.results.records import Edge
from diffdag.results.result import DifferenceResult, load_result, read_saved

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# An edge whatever the comparison: source, target, directed.
Key = tuple[str, str, bool]
NUMBERS = ("weight_first", "weight_second", "delta", "stderr")
FOLDER_CHARACTERS = 60
OWN_FILES = ("result.json", "edges.csv", "graph.graphml", "report.html", "resamples-*.journal")


@dataclass(frozen=True, eq=False)
class ConditionsResult:
    """What changed between several conditions.

    Parameters
    ----------
    conditions : tuple of str
        All conditions.
    reference : str or None
        The condition that all others are compared with; None if each was compared with each.
    pairs : mapping of (str, str) to DifferenceResult
        The comparisons, by their first and second condition. The first one is the reference, if there is one:
        ``delta`` is the effect in the reference minus the effect in the other condition.
    order : tuple of str
        The order of the variables that suits all comparisons best, causes first; empty with ``method="paper"``.
    notes : tuple of str
        What the user should know about all comparisons together; `pairs` have their own.

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

    conditions: tuple[str, ...]
    reference: str | None
    pairs: Mapping[tuple[str, str], DifferenceResult]
    order: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("conditions", "order", "notes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "pairs", MappingProxyType(dict(self.pairs)))
        self._check()

    def _check(self) -> None:
        """The parts must agree with each other."""
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
        if not isinstance(other, ConditionsResult):
            return NotImplemented
        names = ("conditions", "reference", "order", "notes")
        same = all(getattr(self, name) == getattr(other, name) for name in names)
        return same and dict(self.pairs) == dict(other.pairs)

    def __hash__(self) -> int:
        return hash((self.conditions, self.reference, self.order, tuple(self.pairs)))

    @property
    def variables(self) -> tuple[str, ...]:
        """All variables, in the order of the columns."""
        return next(iter(self.pairs.values())).variables

    @property
    def titles(self) -> dict[tuple[str, str], str]:
        """What to call each comparison in a table: the other condition, if all have the same reference."""
        return {
            pair: pair[1] if self.reference is not None else f"{pair[0]} - {pair[1]}" for pair in self.pairs
        }

    @property
    def edges(self) -> pd.DataFrame:
        """All changes, comparison by comparison: first, second, source, target, directed, change, numbers."""
        import pandas as pd  # noqa: PLC0415

        tables = []
        for (first, second), result in self.pairs.items():
            table = result.edges
            table.insert(0, "second", pd.Series([second] * len(table), dtype=object))
            table.insert(0, "first", pd.Series([first] * len(table), dtype=object))
            tables.append(table)
        filled = [table for table in tables if len(table)] or tables[:1]
        shared = [name for name in filled[0].columns if all(name in table for table in filled)]
        return pd.concat([table[shared] for table in filled], ignore_index=True)

    @property
    def by_edge(self) -> dict[Key, dict[tuple[str, str], Edge]]:
        """Each changed edge in the comparisons where it changed; in most of them, then largest, first."""
        found: dict[Key, dict[tuple[str, str], Edge]] = {}
        for pair, result in self.pairs.items():
            for edge in result.edge_list:
                found.setdefault((edge.source, edge.target, edge.directed), {})[pair] = edge

        def rank(item: tuple[Key, dict[tuple[str, str], Edge]]) -> tuple[int, float]:
            return -len(item[1]), -max(abs(edge.delta or 0.0) for edge in item[1].values())

        return dict(sorted(found.items(), key=rank))

    @property
    def matrix(self) -> pd.DataFrame:
        """One row an edge, one column a comparison: delta, first minus second; NaN where it did not change.

        Of undirected edges (``A -- B``) delta is unknown, NaN; `kinds` tells them from what did not change.
        """
        import pandas as pd  # noqa: PLC0415

        rows = [
            [
                float("nan") if (edge := row.get(pair)) is None or edge.delta is None else edge.delta
                for pair in self.pairs
            ]
            for row in self.by_edge.values()
        ]
        return pd.DataFrame(rows, self._labels(), list(self.titles.values()), dtype=float)

    @property
    def kinds(self) -> pd.DataFrame:
        """The same with the kind of change: added, removed, ..., undirected; empty where nothing changed."""
        import pandas as pd  # noqa: PLC0415

        rows = [
            ["" if (edge := row.get(pair)) is None else edge.kind for pair in self.pairs]
            for row in self.by_edge.values()
        ]
        return pd.DataFrame(rows, self._labels(), list(self.titles.values()), dtype=object)

    def _labels(self) -> pd.Index[str]:
        import pandas as pd  # noqa: PLC0415

        return pd.Index([str(next(iter(row.values()))) for row in self.by_edge.values()], dtype=object)

    def summary(self) -> str:
        """Return the answer as text."""
        from diffdag.report.html.conditions import summary  # noqa: PLC0415

        return summary(self)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return (
            f"<ConditionsResult: {len(self.conditions)} conditions, {plural(len(self.pairs), 'comparison')}, "
            f"{len(self.by_edge)} of {next(iter(self.pairs.values())).possible} possible edges changed in some>"
        )

    def _repr_html_(self) -> str:
        from diffdag.report.html.conditions import render_fragment  # noqa: PLC0415

        return render_fragment(self)

    def to_json(self) -> str:
        """Return the whole answer as strict JSON; `load_conditions` reads it back."""
        from diffdag.report.html.conditions import to_json  # noqa: PLC0415

        return to_json(self)

    def plot(self) -> Figure:
        """Draw the difference DAG of each comparison, variables at the same places in all of them."""
        from diffdag.report.plots.panels import plot_conditions  # noqa: PLC0415

        return plot_conditions(self)

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write conditions.json, changes.csv, matrix.csv, picture.svg, report.html, and a folder a comparison.

        Parameters
        ----------
        folder : path-like
            Created where missing.

        Returns
        -------
        list of Path
            The files written; those of comparisons as `DifferenceResult.save` writes them.

        Notes
        -----
        If the folder holds another answer, files of comparisons that this one does not have are removed.
        """
        from diffdag.report.html.conditions import render_files  # noqa: PLC0415

        contents: dict[str, bytes] = {name: text.encode("utf-8") for name, text in render_files(self).items()}
        for pair, name in self.folders().items():
            contents |= {f"{name}/{file}": content for file, content in self.pairs[pair].rendered().items()}
        earlier = _earlier_folders(Path(folder))
        written = write_together(folder, contents)
        _remove(Path(folder), earlier - set(self.folders().values()))
        return written

    def folders(self) -> dict[tuple[str, str], str]:
        """The name of each comparison's folder: a number, and what can be kept of the conditions' names."""
        return folder_names(self.pairs)


def folder_names(pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """A name for the folder of each comparison.

    >>> folder_names([("no drug", "a/b")])
    {('no drug', 'a/b'): '1-no_drug-a_b'}
    """
    names = {}
    for number, pair in enumerate(pairs, start=1):
        plain = (re.sub(r"[^\w-]+", "_", name, flags=re.ASCII).strip("_") for name in pair)
        names[pair] = "-".join(filter(None, [str(number), *plain]))[:FOLDER_CHARACTERS]
    return names


def _earlier_folders(place: Path) -> set[str]:
    """Folders of the comparisons of the answer that is there."""
    try:
        return set(load_conditions(place).folders().values())
    except InputError:
        return set()


def _remove(place: Path, names: set[str]) -> None:
    """Remove what an earlier answer wrote for comparisons that are no longer made."""
    for name in names:
        for pattern in OWN_FILES:
            for path in (place / name).glob(pattern):
                path.unlink()
        with contextlib.suppress(OSError):  # something of somebody else's is in it
            (place / name).rmdir()


def remove_result(place: Path) -> None:
    """Remove what only an answer for two conditions has, if there is one."""
    if _loads(load_result, place / "result.json"):
        for name in ("result.json", "edges.csv", "graph.graphml"):
            (place / name).unlink(missing_ok=True)


def remove_conditions(place: Path) -> None:
    """Remove what only an answer for several conditions has, if there is one."""
    if _loads(load_conditions, place / "conditions.json"):
        _remove(place, _earlier_folders(place))
        for name in ("conditions.json", "changes.csv", "matrix.csv", "picture.svg"):
            (place / name).unlink(missing_ok=True)


def _loads(load: Callable[[Path], object], path: Path) -> bool:
    """Whether a file is an answer of ours."""
    try:
        load(path)
    except InputError:
        return False
    return True


def load_conditions(path: str | os.PathLike[str]) -> ConditionsResult:
    """Read a saved result for several conditions.

    Parameters
    ----------
    path : path-like
        A `conditions.json`, or the folder that holds it.

    Returns
    -------
    ConditionsResult
        Equal to the one that was saved.

    Raises
    ------
    InputError
        If the file is missing, is not JSON or does not follow the schema.
    """
    from diffdag.report.html.conditions import from_json  # noqa: PLC0415

    place = Path(path)
    if place.is_dir():
        folder, place = place, place / "conditions.json"
        if not place.exists() and (folder / "result.json").exists():
            raise InputError(
                f"folder {str(folder)!r} holds a result of two conditions; read it with load_result"
            )
    return from_json(read_saved(place), name=str(place))


def holds_conditions(path: Path) -> bool:
    """Whether a file, or a folder, holds a result for several conditions, and not one for two."""
    if path.is_dir():
        both = [(path / name).exists() for name in ("conditions.json", "result.json")]
        if all(both):
            raise InputError(
                f"folder '{path}' holds conditions.json and result.json; give one of the two files"
            )
        return both[0]
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and "comparisons" in content
