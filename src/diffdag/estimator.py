"""DifferenceDAG: chains the steps from two tables to the answer, nothing else."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd

from diffdag.data import align_tables
from diffdag.moments import Moments
from diffdag.paper.algorithm import DifferenceGraph, difference_graph
from diffdag.paper.differences import ExactDifferences, SampleDifferences
from diffdag.paper.orient import layer_ranks
from diffdag.paper.refine import refine
from diffdag.precision import ESTIMATORS, Penalty, precision_difference
from diffdag.result import DifferenceResult, Edge, classify_change
from diffdag.selection import EXACT_THRESHOLD, default_penalty, default_threshold
from diffdag.sem import LinearSEM
from diffdag.validation import InputError, Missing, check_moments, check_same_columns, join_names, plural
from diffdag.weights import Regression, regress

if TYPE_CHECKING:
    from numpy.typing import NDArray

METHODS = ("paper",)
# A weight within so many standard errors of zero counts as absent (two-sided 1 %).
ABSENT_ERRORS = 2.576


class DifferenceDAG:
    """Estimate the difference DAG of two conditions.

    Parameters
    ----------
    method : {"paper"}
        ``"paper"`` is Algorithm 1 of Ghoshal, Bello and Honorio.
    estimator : {"dantzig", "dtrace", "plugin"}
        How precision differences are estimated; see `diffdag.precision_difference`.
    penalty : float or str, optional
        Fraction of the penalty that gives no change, or ``"rate:c"`` for ``c sqrt(log p / n)``. It is
        worked out once for all variables, and is then the same for every subset that the algorithm looks
        at.
    threshold : float, optional
        The paper's epsilon, in units of partial correlations: entries up to this size count as zero.
    noise : {"auto", "equal"}
        ``"equal"`` if it is known that no noise variance differs between the conditions: then every edge
        gets a direction.
    rng : numpy.random.Generator or int, optional
        Source of randomness for methods that use any; ``"paper"`` uses none.
    n_jobs : int, optional
        Number of processes for the subproblems of samples; None means one.

    Attributes
    ----------
    result_ : DifferenceResult
        The answer of the last fit. Settings that were None are chosen from the data and reported in
        ``result_.settings``.

    Examples
    --------
    >>> import diffdag as dd
    >>> pair = dd.simulate_pair(p=6, neighbours=3, changes=1, weights=(0.8, 1.0), rng=4)
    >>> est = dd.DifferenceDAG().fit(pair.first.sample(5000, rng=1), pair.second.sample(5000, rng=2))
    >>> {(e.source, e.target) for e in est.result_.edge_list} == pair.edges
    True
    """

    def __init__(
        self,
        *,
        method: Literal["paper"] = "paper",
        estimator: Literal["dantzig", "dtrace", "plugin"] = "dantzig",
        penalty: Penalty | None = None,
        threshold: float | None = None,
        noise: Literal["auto", "equal"] = "auto",
        rng: np.random.Generator | int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.method = method
        self.estimator = estimator
        self.penalty = penalty
        self.threshold = threshold
        self.noise = noise
        self.rng = rng
        self.n_jobs = n_jobs

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, as scikit-learn asks for them."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name."""
        for name, value in parameters.items():
            if name not in self._parameter_names():
                known = join_names(self._parameter_names())
                raise InputError(f"{type(self).__name__} has no parameter {name!r}; it has {known}")
            setattr(self, name, value)
        return self

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return list(inspect.signature(cls).parameters)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.get_params().items())})"

    def fit(
        self,
        first: Any,
        second: Any,
        *,
        columns: Sequence[str] | None = None,
        drop: Sequence[str] | None = None,
        missing: Missing = "error",
    ) -> Self:
        """Fit two tables: arrays, or pandas, polars or Arrow tables matched by column name.

        Parameters
        ----------
        first, second : array or table
            One row an observation; the numbers of rows may differ.
        columns, drop : sequence of str, optional
            Which columns to compare, or to leave out.
        missing : {"error", "drop"}
            What to do about rows with missing values.
        """
        tables = align_tables(first, second, columns=columns, drop=drop, missing=missing)
        first_moments = Moments.from_array(tables.first, tables.names)
        return self._fit_moments(first_moments, Moments.from_array(tables.second, tables.names), tables.notes)

    def fit_moments(self, first: Moments, second: Moments) -> Self:
        """Fit the moments of two tables; the data are not needed."""
        check_same_columns(first.names, second.names, ("first", "second"))
        return self._fit_moments(first, second.select(first.names), ())

    def _fit_moments(self, first: Moments, second: Moments, notes: tuple[str, ...]) -> Self:
        self._check_parameters()
        for moments, label in ((first, "first"), (second, "second")):
            check_moments(moments.names, moments.n, moments.scatter, label, mean=moments.mean)
        p, n = len(first.names), min(first.n, second.n)
        threshold = default_threshold(p, n) if self.threshold is None else self.threshold
        penalty, raised = (
            (self.penalty, "") if self.penalty is not None else self._default_penalty(first, second)
        )
        answer = precision_difference(first, second, method=self.estimator, penalty=penalty)
        differences = SampleDifferences.from_moments(first, second, answer, self.n_jobs)
        graph = difference_graph(differences, threshold, self.noise == "equal")
        graph = refine(graph, first, second, threshold)
        edges, thin = _edges_from_samples(graph, first, second)
        self.result_ = DifferenceResult(
            edge_list=edges,
            delta_precision=_frame(answer.matrix, first.names),
            samples=(first.n, second.n),
            settings={
                **self._settings(threshold),
                "estimator": self.estimator,
                "penalty": answer.penalty,
                "penalty_given": penalty if self.penalty is not None else f"{penalty} (default)",
                "violation": answer.violation,
                "gap": answer.gap,
                "prune_size": graph.prune_size,
            },
            notes=(
                *notes,
                *filter(None, [raised, *thin, *_sample_notes(edges, differences)]),
                *_notes(graph, first.names),
            ),
            **_places(graph, first.names),
        )
        return self

    def fit_population(self, first: LinearSEM, second: LinearSEM) -> Self:
        """Fit two known models: what the algorithm finds with infinitely many rows.

        Weights are those of the models; entries of the precision difference are zero if they are rounding
        errors.
        """
        self._check_parameters()
        if first.names != second.names:
            raise InputError("the two models have different variables, or the same in another order")
        threshold = EXACT_THRESHOLD if self.threshold is None else self.threshold
        graph = difference_graph(ExactDifferences(first, second), threshold, self.noise == "equal")
        self.result_ = DifferenceResult(
            edge_list=_edges_from_models(graph, first, second),
            delta_precision=_frame(first.precision() - second.precision(), first.names),
            samples=None,
            settings={**self._settings(threshold), "prune_size": graph.prune_size},
            notes=_notes(graph, first.names),
            **_places(graph, first.names),
        )
        return self

    def _default_penalty(self, first: Moments, second: Moments) -> tuple[Penalty, str]:
        return (0.0, "") if self.estimator == "plugin" else default_penalty(first, second)

    def _check_parameters(self) -> None:
        for name, allowed in {
            "method": METHODS,
            "estimator": tuple(ESTIMATORS),
            "noise": ("auto", "equal"),
        }.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} must be one of {', '.join(allowed)}; it is {getattr(self, name)!r}")
        threshold, jobs = self.threshold, self.n_jobs
        number = threshold is None or isinstance(threshold, (int, float, np.number))
        if not number or (threshold is not None and not 0 <= threshold < math.inf):
            raise InputError(f"threshold must be a number, 0 or larger; it is {threshold!r}")
        if jobs is not None and (not isinstance(jobs, int) or jobs == 0):
            raise InputError(f"n_jobs must be a whole number other than 0, or None; it is {jobs!r}")

    def _settings(self, threshold: float) -> dict[str, object]:
        chosen = "given" if self.threshold is not None else "default"
        return {"noise": self.noise, "threshold": threshold, "threshold_chosen": chosen}


def _frame(matrix: NDArray[np.float64], names: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame(matrix, index=list(names), columns=list(names))


def _places(graph: DifferenceGraph, names: tuple[str, ...]) -> dict[str, Any]:
    """Where each variable stands, by name; layers with causes first."""
    return {
        "method": "paper",
        "variables": names,
        "invariant": tuple(names[k] for k in graph.invariant),
        "unresolved": tuple(names[k] for k in graph.rest),
        "order": tuple(tuple(names[k] for k in layer) for layer in reversed(graph.layers)),
    }


def _undirected(graph: DifferenceGraph, names: tuple[str, ...]) -> list[Edge]:
    return [Edge(names[i], names[j], directed=False) for i, j in sorted(graph.edges.undirected)]


def _edges_from_models(graph: DifferenceGraph, first: LinearSEM, second: LinearSEM) -> tuple[Edge, ...]:
    """Directed edges with the weights of the models."""
    edges = []
    for i, j in sorted(graph.edges.directed):
        before, after = float(first.weights[i, j]), float(second.weights[i, j])
        change = classify_change(before, after, before == 0, after == 0) if before != after else None
        edges.append(
            Edge(first.names[j], first.names[i], True, change, before, after, before - after, stderr=0.0)
        )
    return (*edges, *_undirected(graph, first.names))


def _edges_from_samples(
    graph: DifferenceGraph, first: Moments, second: Moments
) -> tuple[tuple[Edge, ...], list[str]]:
    """Directed edges with weights from regressions on the predecessors in the recovered order.

    With too few rows for that the regressions are on the changed causes only, or there are no weights; a note
    then says so.
    """
    names = first.names
    rank = layer_ranks(graph.layers, graph.rest)
    edges: list[Edge] = []
    thin: list[str] = []
    for i in sorted({i for i, _ in graph.edges.directed}):
        causes = tuple(sorted(j for effect, j in graph.edges.directed if effect == i))
        earlier = tuple(sorted(k for k in rank if rank[k] > rank[i]))
        for regressors in (earlier, causes):
            before, after = (regress(moments, i, regressors) for moments in (first, second))
            if before is not None and after is not None:
                edges += [
                    _estimated_edge(names[j], names[i], regressors.index(j), before, after) for j in causes
                ]
                break
            thin.append(names[i])
        else:
            edges += [Edge(names[j], names[i]) for j in causes]
    notes = [
        f"too few rows for all predecessors of {join_names(dict.fromkeys(thin))}: "
        "their weights, if any, are given the changed causes only"
    ]
    return (*edges, *_undirected(graph, names)), notes if thin else []


def _estimated_edge(source: str, target: str, k: int, first: Regression, second: Regression) -> Edge:
    before, after = float(first.coefficients[k]), float(second.coefficients[k])
    error1, error2 = float(first.stderrs[k]), float(second.stderrs[k])
    change = classify_change(
        before, after, abs(before) <= ABSENT_ERRORS * error1, abs(after) <= ABSENT_ERRORS * error2
    )
    return Edge(source, target, True, change, before, after, before - after, math.hypot(error1, error2))


def _sample_notes(edges: tuple[Edge, ...], differences: SampleDifferences) -> Iterator[str]:
    """What a user should know about estimates from few rows or unfinished solvers."""
    weak = [
        f"{edge}"
        for edge in edges
        if edge.delta is not None and edge.stderr is not None and abs(edge.delta) <= ABSENT_ERRORS * edge.stderr
    ]
    if weak:
        yield f"smaller than {ABSENT_ERRORS} standard errors, so that chance can explain it: {join_names(weak)}"
    if differences.unfinished:
        yield (
            f"{differences.unfinished} of {plural(differences.worked_out, 'subproblem')} did not converge: "
            "do not rely on this answer; use a larger penalty or more rows"
        )


def _notes(graph: DifferenceGraph, names: tuple[str, ...]) -> tuple[str, ...]:
    """What a user should know about how far this answer goes."""
    notes = []
    if graph.rest and not graph.edges.directed | graph.edges.undirected:
        notes.append(
            f"something changed at {join_names(names[k] for k in graph.rest)}, "
            "but it could not be pinned to an edge: noise variances may differ"
        )
    elif graph.rest:
        notes.append(
            f"noise variances seem to differ: the order of {join_names(names[k] for k in graph.rest)} "
            "is not identified, and edges between them may be there only because a noise variance changed"
        )
    if not graph.complete and graph.edges.directed | graph.edges.undirected:
        notes.append(
            f"{plural(len(names) - len(graph.invariant), 'variable')} take part: edges were tested with up to "
            f"{graph.prune_size} of them left out, not with every set left out, so that some may be superfluous"
        )
    return tuple(notes)
