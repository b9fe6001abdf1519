"""From Algorithm 1 to the answer: its settings, the weights of its edges, and what a user should know."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scipy.sparse import csr_array

from diffdag._base.words import join_names, plural
from diffdag.model.regression import Regression, regress
from diffdag.model.sem import LinearSEM
from diffdag.paper.algorithm1 import difference_graph
from diffdag.paper.defaults import EXACT_THRESHOLD, default_penalty, default_threshold
from diffdag.paper.differences import ExactDifferences, SampleDifferences
from diffdag.paper.elimination import refine
from diffdag.paper.graph import DifferenceGraph, layer_ranks
from diffdag.precision.api import Penalty, precision_difference
from diffdag.results.difference import Difference
from diffdag.results.records import ABSENT_ERRORS, Edge, estimated_edge, model_edges
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


def fit_samples(first: Moments, second: Moments, settings: PaperSettings) -> Difference:
    """Algorithm 1 on moments."""
    p, n = len(first.names), min(first.n, second.n)
    threshold = default_threshold(p, n) if settings.threshold is None else settings.threshold
    penalty, raised = _penalty(first, second, settings)
    answer = precision_difference(first, second, method=settings.estimator, penalty=penalty)
    differences = SampleDifferences.from_moments(first, second, answer, settings.n_jobs)
    graph = difference_graph(differences, threshold, settings.equal_noise)
    graph = refine(graph, first, second, threshold)
    edges, thin = _edges_from_samples(graph, first, second)
    return Difference(
        edge_list=edges,
        delta_entries=answer.entries,
        samples=(first.n, second.n),
        settings={
            **settings.report(threshold),
            "estimator": settings.estimator,
            "penalty": answer.penalty,
            "penalty_given": penalty if settings.penalty is not None else f"{penalty} (default)",
            "violation": answer.violation,
            "gap": answer.gap,
            "prune_size": graph.prune_size,
        },
        notes=(
            *filter(None, [raised, *thin, *_sample_notes(edges, differences)]),
            *_notes(graph, first.names),
        ),
        **_places(graph, first.names),
    )


def _penalty(first: Moments, second: Moments, settings: PaperSettings) -> tuple[Penalty, str]:
    if settings.penalty is not None:
        return settings.penalty, ""
    return (0.0, "") if settings.estimator == "plugin" else default_penalty(first, second)


def fit_models(first: LinearSEM, second: LinearSEM, settings: PaperSettings) -> Difference:
    """Algorithm 1 on exact models."""
    threshold = EXACT_THRESHOLD if settings.threshold is None else settings.threshold
    graph = difference_graph(ExactDifferences(first, second), threshold, settings.equal_noise)
    directed = model_edges(graph.edges.directed, first, second)
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
    weights = float(first.coefficients[k]), float(second.coefficients[k])
    errors = float(first.stderrs[k]), float(second.stderrs[k])
    return estimated_edge(source, target, weights, errors, math.hypot(*errors))


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
