"""Algorithm 1 as a value: moments in, `PaperFit` out, from which the difference is read off."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array

from diffdag._base.arrays import FloatArray
from diffdag._base.words import join_names, plural
from diffdag.model.regression import Regression, regress
from diffdag.model.sem import LinearSEM
from diffdag.paper.algorithm1 import difference_graph
from diffdag.paper.defaults import EXACT_THRESHOLD, default_penalty, default_threshold
from diffdag.paper.differences import ExactDifferences, SampleDifferences
from diffdag.paper.elimination import refine
from diffdag.paper.graph import DifferenceGraph, layer_ranks
from diffdag.precision.api import Penalty, PrecisionDifference, precision_difference
from diffdag.precision.problem import pooled_scale
from diffdag.results.difference import Difference
from diffdag.results.records import ABSENT_ERRORS, Claims, Edge, estimated_edge, model_edges, with_sizes
from diffdag.tables.moments import Moments


@dataclass(frozen=True)
class PaperSettings:
    """What the user asked for; None is chosen from the data."""

    estimator: str
    penalty: Penalty | None
    threshold: float | None
    equal_noise: bool
    n_jobs: int | None

    def report(self, threshold: float) -> dict[str, object]:
        """The settings that samples and models share."""
        return {
            "noise": "equal" if self.equal_noise else "auto",
            "threshold": threshold,
            "threshold_chosen": "default" if self.threshold is None else "given",
        }


@dataclass(frozen=True, eq=False)
class Equation:
    """Regressions of one variable, separately in each condition."""

    regressors: list[int]
    first: Regression
    second: Regression
    freedom: int  # degrees of freedom of both

    @property
    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Of the regressors, in each condition."""
        return self.first.coefficients, self.second.coefficients

    def edge(self, names: tuple[str, ...], i: int, j: int) -> Edge:
        """The edge from j to i with weights and standard errors."""
        k = self.regressors.index(j)
        weights = float(self.first.coefficients[k]), float(self.second.coefficients[k])
        errors = float(self.first.stderrs[k]), float(self.second.stderrs[k])
        return estimated_edge(names[j], names[i], weights, errors, math.hypot(*errors), self.freedom)


@dataclass(frozen=True, eq=False)
class PaperFit:
    """What Algorithm 1 found on the moments of two conditions."""

    first: Moments
    second: Moments
    precision: PrecisionDifference  # with its certificate
    differences: SampleDifferences  # over the sets of variables that the algorithm looked at
    graph: DifferenceGraph  # layers and edges, refined to an order for the regressions
    threshold: float  # the paper's epsilon
    settings: PaperSettings  # what the user asked for
    penalty: Penalty  # given, or chosen from the data
    raised: str = ""  # a note on a penalty that had to be raised
    method: Literal["paper"] = "paper"

    @property
    def names(self) -> tuple[str, ...]:
        """All variables."""
        return self.first.names

    @property
    def kept(self) -> list[int]:
        """Columns that were looked at: all."""
        return list(range(len(self.names)))

    @property
    def equal_noise(self) -> bool:
        """Whether noise variances were taken for equal in both conditions."""
        return self.settings.equal_noise

    @property
    def search_order(self) -> None:
        """Algorithm 1 gives layers, not a total order."""
        return

    def equation(self, target: int, first: Moments, second: Moments) -> Equation | None:
        """Regressors of a variable and their coefficients in each condition; None with too few rows.

        Regressors are all predecessors in the recovered order or, with few rows, the changed causes only.
        """
        rank = layer_ranks(self.graph.layers, self.graph.rest)
        causes = sorted(j for effect, j in self.graph.edges.directed if effect == target)
        earlier = sorted(k for k in rank if rank[k] > rank[target]) if target in rank else []
        for regressors in (earlier, causes):
            before, after = (regress(moments, target, regressors) for moments in (first, second))
            if before is not None and after is not None:
                freedom = first.n + second.n - 2 * (len(regressors) + 1)
                return Equation(regressors, before, after, freedom)
        return None

    def claims(self, about: Collection[str] | None = None) -> Claims:
        """What changed, without estimates: edges alone, whatever variables are asked about."""
        return Claims(tuple(edge.key for edge in self.difference.edge_list))

    @cached_property
    def difference(self) -> Difference:
        """Edges with their weights, and what a user should know."""
        names, graph, settings = self.names, self.graph, self.settings
        edges, thin = _edges_from_samples(self)
        given = self.penalty if settings.penalty is not None else f"{self.penalty} (default)"
        return Difference(
            edge_list=edges,
            delta_entries=self.precision.entries,
            samples=(self.first.n, self.second.n),
            settings={
                **settings.report(self.threshold),
                "estimator": settings.estimator,
                "penalty": self.precision.penalty,
                "penalty_given": given,
                "violation": self.precision.violation,
                "gap": self.precision.gap,
                "prune_size": graph.prune_size,
            },
            notes=(
                *filter(None, [self.raised, *thin, *_sample_notes(edges, self.differences)]),
                *_notes(graph, names),
            ),
            **_places(graph, names),
        )


def fit_samples(first: Moments, second: Moments, settings: PaperSettings) -> PaperFit:
    """Run Algorithm 1 on moments."""
    p, n = len(first.names), min(first.n, second.n)
    threshold = default_threshold(p, n) if settings.threshold is None else settings.threshold
    penalty, raised = settings.penalty, ""
    if penalty is None:
        penalty, raised = (0.0, "") if settings.estimator == "plugin" else default_penalty(first, second)
    precision = precision_difference(first, second, method=settings.estimator, penalty=penalty)
    differences = SampleDifferences(first, second, precision, settings.n_jobs)
    graph = difference_graph(differences, threshold, settings.equal_noise)
    graph = refine(graph, first, second, threshold)
    return PaperFit(first, second, precision, differences, graph, threshold, settings, penalty, raised)


def fit_models(first: LinearSEM, second: LinearSEM, settings: PaperSettings) -> Difference:
    """Run Algorithm 1 on exact models."""
    threshold = EXACT_THRESHOLD if settings.threshold is None else settings.threshold
    graph = difference_graph(ExactDifferences(first, second), threshold, settings.equal_noise)
    scales = np.sqrt((np.diag(first.covariance()) + np.diag(second.covariance())) / 2)
    directed = with_sizes(model_edges(graph.edges.directed, first, second), first.names, scales)
    return Difference(
        edge_list=(*directed, *_undirected(graph, first.names)),
        delta_entries=csr_array(first.precision() - second.precision()),
        samples=None,
        settings={**settings.report(threshold), "prune_size": graph.prune_size},
        notes=_notes(graph, first.names),
        **_places(graph, first.names),
    )


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


def _edges_from_samples(fit: PaperFit) -> tuple[tuple[Edge, ...], list[str]]:
    """Directed edges with weights from regressions on the predecessors in the recovered order.

    With too few rows for that the regressions are on the changed causes only, or there are no weights; a note
    then says so.
    """
    names, graph = fit.names, fit.graph
    rank = layer_ranks(graph.layers, graph.rest)
    edges: list[Edge] = []
    thin: list[str] = []
    for i in sorted({i for i, _ in graph.edges.directed}):
        causes = sorted(j for effect, j in graph.edges.directed if effect == i)
        equation = fit.equation(i, fit.first, fit.second)
        if equation is None or len(equation.regressors) < sum(rank[k] > rank[i] for k in rank):
            thin.append(names[i])
        for j in causes:
            edges.append(Edge(names[j], names[i]) if equation is None else equation.edge(names, i, j))
    notes = [
        f"too few rows for all predecessors of {join_names(thin)}: "
        "their weights, if any, are given the changed causes only"
    ]
    sized = with_sizes(edges, names, pooled_scale(fit.first, fit.second))
    return (*sized, *_undirected(graph, names)), notes if thin else []


def _sample_notes(edges: tuple[Edge, ...], differences: SampleDifferences) -> Iterator[str]:
    """What a user should know about estimates from few rows or unfinished solvers."""
    weak = [
        str(edge)
        for edge in edges
        if edge.delta is not None and edge.stderr is not None and abs(edge.delta) <= ABSENT_ERRORS * edge.stderr
    ]
    if weak:
        yield f"smaller than {ABSENT_ERRORS} standard errors, so that chance can explain it: {join_names(weak)}"
    if differences.unfinished:
        yield (
            f"{differences.unfinished} of {plural(differences.worked_out, 'subproblem')} did not converge: "
            "do not rely on this result; use a larger penalty or more rows"
        )


def _notes(graph: DifferenceGraph, names: tuple[str, ...]) -> tuple[str, ...]:
    """What a user should know about how far this result goes."""
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
    elif graph.layers and not graph.edges.directed:
        layered = sorted(k for layer in graph.layers for k in layer)
        notes.append(
            f"something changed at {join_names(names[k] for k in layered)}, but no edge is left: an effect "
            "that only changes its sign hides from this algorithm; method='order' sees it"
        )
    if not graph.complete and graph.edges.directed | graph.edges.undirected:
        notes.append(
            f"{plural(len(names) - len(graph.invariant), 'variable')} take part: edges were tested with up to "
            f"{graph.prune_size} of them left out, not with every set left out, so that some may be superfluous"
        )
    return tuple(notes)
