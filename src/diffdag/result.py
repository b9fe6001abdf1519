"""Results as users have them: the facts of `results`, and methods that write, draw and save them.

Pictures and pages are made by parts of `report` that are imported when one of them is asked for.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Self

from diffdag._base.atomic import JOURNAL, write_together
from diffdag._base.errors import DiffDagWarning, InputError
from diffdag._base.extras import MissingExtraError
from diffdag._base.words import plural
from diffdag.report import conditions, graphs, text
from diffdag.results.difference import Difference
from diffdag.results.differences import Differences
from diffdag.results.explanation import UNEXPLAINED, explanation_table
from diffdag.results.json import from_json, nodes_to_csv, to_csv, to_json
from diffdag.trust.sensitivity import SettingsPath

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from diffdag.report.layout.theme import ThemeName
    from diffdag.report.plots.brain import ViewName
    from diffdag.tables.readers.coordinates import Coordinates

FILES = ("result.json", "edges.csv", "nodes.csv", "graph.graphml", "report.html")
CONDITIONS_FILES = ("conditions.json", "changes.csv", "matrix.csv", "picture.svg", "report.html")


class DifferenceResult(Difference):
    """What changed between two conditions: `Difference`, with text, files, graphs and pictures of it.

    See Also
    --------
    DifferenceDAG : makes one of two tables; its attribute ``result_``.
    load : reads one that was saved.

    Examples
    --------
    >>> import diffdag as dd
    >>> result = dd.DifferenceDAG().fit(*dd.load_sachs_pair("u0126")).result_
    >>> print(result.summary().splitlines()[0])
    3 of 110 possible edges changed; strongest: JNK -> P38 added; 2 more are explained by a moved range
    """

    @classmethod
    def of(cls, difference: Difference) -> Self:
        """Return the facts of a `difference` with the renderers."""
        return cls(**{field.name: getattr(difference, field.name) for field in fields(difference)})

    summary = text.summary
    __str__ = summary

    def __repr__(self) -> str:
        return f"<DifferenceResult: {len(self.edge_list)} of {self.possible} possible edges changed>"

    def _repr_html_(self) -> str:
        from diffdag.report.html.page import render_fragment  # noqa: PLC0415

        return render_fragment(self)

    to_json = to_json
    to_networkx = graphs.to_networkx
    to_graphml = graphs.to_graphml
    to_cytoscape = graphs.to_cytoscape
    to_dot = graphs.to_dot
    to_sif = graphs.to_sif
    to_causallearn = graphs.to_causallearn
    to_dowhy = graphs.to_dowhy

    def explain(self, target: str) -> pd.DataFrame:
        """Say why a variable moved: what each changed mechanism accounts for.

        The change of its mean and that of its variance, from the first condition to the second, are attributed
        to the changed effects, gains, noise variances and intercepts by their Shapley values (Shapley 1953) in
        the equations along the fitted causal order. All numbers are second minus first, as a movement is;
        `delta` of the edges is first minus second.

        Parameters
        ----------
        target : str
            The variable.

        Returns
        -------
        DataFrame
            One row per changed mechanism, largest part first, and a last one, ``unexplained``: what the
            mechanisms leave of the difference that was observed. Columns: ``mechanism``, its ``kind``
            (``effect``, ``gain``, ``noise`` or ``intercept``); ``mean`` and ``variance``, its part in the
            change of either, with the ends of 95 % intervals, ``mean_low`` to ``variance_high``. The columns
            ``mean`` and ``variance`` add up to the observed change. For effects ``direct`` is the change of the
            effect on the target itself, and ``total`` what the total effect of its source on the target changes
            by if nothing else does. A mechanism that comes later in the order has zeros. Means are NaN where
            they cannot be compared.

        Raises
        ------
        InputError
            If there is no such variable, or the method was not ``"order"``.

        Examples
        --------
        >>> import numpy as np
        >>> import diffdag as dd
        >>> before, after = np.zeros((3, 3)), np.zeros((3, 3))
        >>> before[1, 0], before[2, 1] = 1.0, 1.0  # X -> M -> Y
        >>> after[1, 0], after[2, 1] = 2.0, 1.0
        >>> about = {"noise_variances": [1, 1, 1], "names": ["X", "M", "Y"], "intercepts": [3, 0, 0]}
        >>> first, second = (dd.LinearSEM(weights, **about) for weights in (before, after))
        >>> result = dd.DifferenceDAG().fit_population(first, second).result_
        >>> result.explain("Y")[["mechanism", "mean", "variance"]].round(3).replace(0.0, 0.0)
                mechanism  mean  variance
        0          X -> M   3.0       3.0
        1  intercept of M   0.0       0.0
        2     unexplained   0.0       0.0
        """
        return explanation_table(self, target)

    def plot_explanation(self, target: str, *, theme: ThemeName = "light") -> Figure:
        """Draw why a variable moved, as waterfalls from the first condition to the second.

        One panel is for the mean and one for the variance. Each bar is what one changed mechanism adds, with
        its 95 % interval; the next one begins where it ends. `explain` has the numbers.

        Parameters
        ----------
        target : str
            The variable.
        theme : {"light", "dark"}, default "light"
            As for `plot`.

        Returns
        -------
        Figure
            That pyplot does not know about; `.savefig` saves it.
        """
        from diffdag.report.plots.waterfall import plot_explanation  # noqa: PLC0415

        return plot_explanation(self, target, theme=theme)

    def save(self, folder: str | os.PathLike[str], *, coordinates: Coordinates | None = None) -> list[Path]:
        """Write result.json, edges.csv, nodes.csv, graph.graphml and report.html.

        Everything is rendered before the first file is written; if one cannot be written, older ones stay. The
        folder never holds files of two results: it is replaced as a whole where it is new or holds nothing but
        a result and its journals, and elsewhere older files are put aside before the first new one comes.

        Parameters
        ----------
        folder : path-like
            Created where missing. Files of an earlier result in it that this one does not have are removed.
        coordinates : mapping of str to (x, y, z), optional
            Places of brain regions in mm, for a view of the brain in the report; see
            `diffdag.read_coordinates`.

        Returns
        -------
        list of Path
            The files written.
        """
        return write_together(folder, self.rendered(coordinates), saved_files(Path(folder)))

    def rendered(self, coordinates: Coordinates | None = None) -> dict[str, bytes]:
        """Return what `save` writes, by the names of the files; `coordinates` are as there."""
        from diffdag.report.html.page import render_page  # noqa: PLC0415

        tables = to_json(self), to_csv(self), nodes_to_csv(self)
        texts = (*tables, self.to_graphml(), render_page(self, coordinates=coordinates))
        return {name: text.encode("utf-8") for name, text in zip(FILES, texts, strict=True)}

    def plot(self, ax: Axes | None = None, *, theme: ThemeName = "light") -> Axes:
        """Draw the difference DAG, causes on top; only variables that take part are shown.

        Colour and dashes say what kind of change an edge is, its width how large the change is, in standardised
        units, compared with the largest. Where confidences are known, edges are the paler the less sure. A
        hollow arrowhead is a direction less than 80 % sure, and edges without one have no known direction. What
        a moved range explains is dotted and thin. Of more than 250 edges, the 250 largest are drawn.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; without it, a new figure of the size that the picture needs, unknown to pyplot.
        theme : {"light", "dark"}, default "light"
            Colours for a light or a dark background. The background itself is painted in a new figure only.

        Returns
        -------
        Axes
            The axes drawn on; `.figure.savefig` saves the picture.
        """
        from diffdag.report.plots.difference import plot_difference  # noqa: PLC0415

        return plot_difference(self, ax, theme=theme)

    def plot_precision(
        self,
        ax: Axes | None = None,
        *,
        most: int = 60,
        scales: Mapping[str, float] | None = None,
        theme: ThemeName = "light",
    ) -> Axes:
        """Draw the difference of the precision matrices, first minus second, as a heat map.

        Variables are in causal order; those without a difference are left out. Each entry is divided by the
        square root of the product of the largest entries of its row and its column: colours go from -1 to 1.

        Parameters
        ----------
        ax : Axes, optional
        theme : {"light", "dark"}, default "light"
            As for `plot`; the axes drawn on are returned.
        most : int, default 60
            Largest number of variables drawn, those with the largest entries; the title says if some are not.
        scales : mapping of str to float, optional
            Standard deviation of each variable, such as ``table.std()``: entries are then those of standardised
            variables before they are divided. Worth giving where units differ much.
        """
        from diffdag.report.plots.heatmap import plot_precision  # noqa: PLC0415

        return plot_precision(self, ax, most=most, scales=scales, theme=theme)

    def plot_edge(
        self, source: str, target: str, ax: Axes | None = None, *, theme: ThemeName = "light"
    ) -> Axes:
        """Draw one changed edge: target against source in both conditions, with both regression lines.

        For a directed edge the target is shown less the effect of its other causes, so that the slopes of the
        lines are the two weights of the edge. For an undirected edge it is the target as it is, with simple
        regression lines. Where no rows were stored, bands of one standard deviation replace the points.

        Parameters
        ----------
        source, target : str
            The ends of the edge; of an undirected edge, in either order.
        ax : Axes, optional
        theme : {"light", "dark"}, default "light"
            As for `plot`; the axes drawn on are returned.
        """
        from diffdag.report.plots.edge import plot_edge  # noqa: PLC0415

        return plot_edge(self, source, target, ax, theme=theme)

    def plot_brain(
        self,
        coordinates: Coordinates,
        ax: Axes | None = None,
        *,
        view: ViewName = "top",
        theme: ThemeName = "light",
    ) -> Axes:
        """Draw the changed edges between brain regions, over an outline made from the regions' places.

        Colours, dashes and opacity are those of the difference DAG. Of more than 20 edges the 20 clearest,
        those most standard errors away from no change, stand out and have names at their ends, the next 40 are
        thin. Regions without a place are not drawn, and the title says how many changes are missing for that.

        Parameters
        ----------
        coordinates : mapping of str to (x, y, z), or DataFrame
            Places in mm by name (x to the right, y to the front, z up, as in MNI space); a table has the
            columns ``region``, ``x``, ``y`` and ``z``, or the names as its index. Regions beyond those of the
            result shape the outline. See `diffdag.tables.readers.coordinates.read_coordinates`.
        ax : Axes, optional
        theme : {"light", "dark"}, default "light"
            As for `plot`; the axes drawn on are returned.
        view : {"top", "left", "right", "front", "back"}, default "top"
            Where to look from.
        """
        from diffdag.report.plots.brain import plot_brain  # noqa: PLC0415

        return plot_brain(self, coordinates, ax, view=view, theme=theme)


class ConditionsResult(Differences):
    """What changed between several conditions: `Differences`, with text, files and pictures of it.

    See Also
    --------
    fit_conditions : makes one of several tables.
    load : reads one that was saved.

    Examples
    --------
    >>> import diffdag as dd
    >>> baseline, drug = dd.load_sachs_pair("u0126")
    >>> dd.fit_conditions({"baseline": baseline, "drug": drug}, reference="baseline")
    <ConditionsResult: 2 conditions, 1 comparison, 5 of 110 possible edges changed in some>
    """

    pairs: Mapping[tuple[str, str], DifferenceResult]

    @classmethod
    def of(cls, differences: Differences) -> Self:
        """Return the facts of `differences` with the renderers."""
        facts = {field.name: getattr(differences, field.name) for field in fields(differences)}
        pairs = {pair: DifferenceResult.of(one) for pair, one in differences.pairs.items()}
        return cls(**{**facts, "pairs": pairs})

    summary = conditions.summary
    __str__ = summary
    to_json = to_json

    def __repr__(self) -> str:
        return (
            f"<ConditionsResult: {len(self.conditions)} conditions, {plural(len(self.pairs), 'comparison')}, "
            f"{len(self.by_edge)} of {self.possible} possible edges changed in some>"
        )

    def _repr_html_(self) -> str:
        from diffdag.report.html.conditions import render_fragment  # noqa: PLC0415

        return render_fragment(self)

    def explain(self, target: str) -> pd.DataFrame:
        """Say why a variable moved in each comparison: what each changed mechanism accounts for.

        Parameters
        ----------
        target : str
            The variable.

        Returns
        -------
        DataFrame
            One row per mechanism that changed in some comparison, and a last one, ``unexplained``. Columns have
            two levels: the comparison, as in `matrix`, and the numbers of `DifferenceResult.explain`, second
            condition minus first. NaN where the mechanism did not change.
        """
        import pandas as pd  # noqa: PLC0415

        tables = {}
        for pair, one in self.pairs.items():
            table = one.explain(target).drop(columns="kind")
            # Names of variables may look like arrows: the same name twice is told apart by a number.
            again = table.groupby("mechanism").cumcount()
            table["mechanism"] += again.map(lambda k: f" ({k + 1})" if k else "")
            tables[self.titles[pair]] = table.set_index("mechanism")
        whole = pd.concat(tables, axis=1, names=["comparison", "part"])
        rows = [name for name in whole.index if name != UNEXPLAINED]
        return whole.loc[[*rows, UNEXPLAINED]]

    def plot(self, *, theme: ThemeName = "light") -> Figure:
        """Draw the difference DAG of each comparison, causes on top, variables at the same places in all.

        Only variables that take part in some comparison are shown, and those that take no part in a comparison
        are pale there. Lines are as thick as changes are large, on one scale for all.

        Parameters
        ----------
        theme : {"light", "dark"}, default "light"
            Colours for a light or a dark background.

        Returns
        -------
        Figure
            Of the size that the picture needs; pyplot does not know about it.
        """
        from diffdag.report.plots.panels import plot_conditions  # noqa: PLC0415

        return plot_conditions(self, theme=theme)

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write conditions.json, changes.csv, matrix.csv, picture.svg, report.html, a folder per comparison.

        `folder` is created, and earlier files in it replaced or removed, as by `DifferenceResult.save`, which
        also says what a comparison's folder holds. Returned are the files written.
        """
        contents = self.rendered()
        for pair, name in self.folders().items():
            contents |= {f"{name}/{file}": content for file, content in self.pairs[pair].rendered().items()}
        return write_together(folder, contents, saved_files(Path(folder), set(self.folders().values())))

    def rendered(self) -> dict[str, bytes]:
        """Return what `save` writes about all comparisons, by the names of the files."""
        from diffdag.report.html.conditions import render_page  # noqa: PLC0415

        contents = {
            "conditions.json": to_json(self),
            "changes.csv": to_csv(self),
            "matrix.csv": to_csv(self, self.matrix),
            **_pictures({"picture.svg": self.plot}),
            "report.html": render_page(self),
        }
        return {name: text.encode("utf-8") for name, text in contents.items()}


class PathResult(SettingsPath):
    """The results along a path of settings: `SettingsPath`, with files and pictures of it."""

    @classmethod
    def of(cls, path: SettingsPath) -> Self:
        """Return the facts with the renderers."""
        facts = {field.name: getattr(path, field.name) for field in fields(path)}
        return cls(**{**facts, "result": DifferenceResult.of(path.result)})

    def plot(self, ax: Axes | None = None, *, theme: ThemeName = "light") -> Axes:
        """Draw the change of each edge along the path, and below it what the choice rests on.

        Edges of the default result are coloured. Hollow squares: no direction, or the other one, at that
        setting. Where no change has a size, the number of edges is drawn instead.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; its lower part goes to the panel of the criterion, and names stand to its right.
            Without it, a new figure that pyplot does not know about.
        theme : {"light", "dark"}, default "light"
            Colours for a light or a dark background.

        Returns
        -------
        Axes
            The upper panel; `.figure.savefig` saves the picture.
        """
        from diffdag.report.plots.path import plot_path  # noqa: PLC0415

        return plot_path(self, ax, theme=theme)

    def plot_stability(self, ax: Axes | None = None, *, theme: ThemeName = "light") -> Axes:
        """Draw how often each edge is found in halves of the rows, along the path; with ``by="stability"``.

        Across: the setting, as a multiple of the default, more severe to the right. Up: the share of fits to
        halves of the rows, drawn at random from both conditions, that found a change between the two variables,
        in any direction. Each line is a pair of variables; those of the default result are coloured, others
        grey. Of more than 80 pairs, those found most often are drawn.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; names stand to its right. Without it, a new figure that pyplot does not know about.
        theme
            As for `plot`.
        """
        from diffdag.report.plots.path import plot_stability  # noqa: PLC0415

        return plot_stability(self, ax, theme=theme)

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write path.csv, path.json, path.svg, with ``by="stability"`` stability.svg; return what was written.

        The folder is created, and files are replaced, as by `DifferenceResult.save`.
        """
        drawn: dict[str, Callable[[], Axes]] = {"path.svg": self.plot}
        if self.by == "stability":
            drawn["stability.svg"] = self.plot_stability
        contents = {
            "path.csv": self.table.to_csv(index=False, lineterminator="\n"),
            "path.json": self.to_json(),
            **_pictures(drawn, background=True),
        }
        return write_together(folder, contents)


def _pictures(drawn: Mapping[str, Callable[[], Axes | Figure]], **look: bool) -> dict[str, str]:
    """Pictures as SVG by the names of their files; without matplotlib none, which is said."""
    try:
        from diffdag.report.plots.chart import svg_of  # noqa: PLC0415
    except MissingExtraError as error:
        warnings.warn(f"no {' and '.join(drawn)}: {error}", DiffDagWarning, stacklevel=3)
        return {}
    return {name: svg_of(draw(), **look) for name, draw in drawn.items()}


def load(path: str | os.PathLike[str]) -> DifferenceResult | ConditionsResult:
    """Read a saved result.

    Parameters
    ----------
    path : path-like
        A ``result.json`` or ``conditions.json``, or the folder that holds one of them.

    Returns
    -------
    DifferenceResult or ConditionsResult
        Equal to the one that was saved.

    Raises
    ------
    InputError
        If the file is missing, is not JSON or does not follow the schema.

    See Also
    --------
    DifferenceResult.save, ConditionsResult.save

    Examples
    --------
    >>> import tempfile
    >>> import diffdag as dd
    >>> result = dd.DifferenceDAG().fit(*dd.load_sachs_pair("u0126")).result_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = result.save(folder)
    ...     dd.load(folder) == result
    True
    """
    place = Path(path)
    if place.is_dir():
        found = [place / name for name in ("result.json", "conditions.json") if (place / name).exists()]
        if len(found) > 1:
            raise InputError(
                f"folder {str(place)!r} holds result.json and conditions.json; give one of the two files"
            )
        place = found[0] if found else place / "result.json"
    try:
        content = place.read_bytes()
    except (OSError, ValueError) as error:  # the latter where the name of a file holds a NUL
        reason = getattr(error, "strerror", None) or "cannot be read"
        raise InputError(f"result file {str(place)!r}: {reason.lower()}; check the path") from None
    read = from_json(content, name=str(place))
    return DifferenceResult.of(read) if isinstance(read, Difference) else ConditionsResult.of(read)


def saved_files(folder: Path, kept: Collection[str] = ()) -> set[str]:
    """Names of the files of a result in a folder, with journals of comparisons other than those in `kept`."""
    names: set[str] = set()
    for first, own in (("result.json", FILES), ("conditions.json", CONDITIONS_FILES)):
        try:
            found = load(folder / first)
        except InputError:  # not there, or not ours
            continue
        names.update(own)
        for place in found.folders().values() if isinstance(found, ConditionsResult) else ():
            names.update(f"{place}/{file}" for file in FILES)
            if place not in kept:
                names.update(f"{place}/{path.name}" for path in (folder / place).glob(f"*{JOURNAL}"))
    return names
