"""From moments through the search to the answer: edges, weights, and what a user should know."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag._base.errors import InputError
from diffdag._base.progress import ProgressCallback
from diffdag._base.words import plural
from diffdag.model.regression import JointRegression, regress_jointly
from diffdag.model.sem import LinearSEM
from diffdag.ordersearch.core.score import CHANGE
from diffdag.ordersearch.intercepts import changed_mechanisms
from diffdag.ordersearch.screen import Screened, screening_note, silent
from diffdag.ordersearch.search import Optimum, Problem, search_orders
from diffdag.results.difference import Difference
from diffdag.results.records import Edge, NoiseChange, estimated_edge, model_edges
from diffdag.tables.moments import Moments

# An edge is directed if every order found in which effect precedes cause scores worse by more than this.
TIE = 0.5
# Exact models are taken for samples of so many rows, as far as rounding allows.
EXACT_ROWS = 1e10
ROUNDING = 1e-3
LEAST_ROWS = 100  # a variable


@dataclass(frozen=True)
class OrderSettings:
    """What the user asked for."""

    equal_noise: bool
    rng: np.random.Generator
    jobs: int
    known: tuple[str, ...] = ()  # which kinds of prior knowledge were given
    progress: ProgressCallback = silent
    factor: float = 1.0  # of the penalty
    screen: int | None = None  # at most so many variables are ordered
    optimum: Optimum | None = None  # where the search was done already, together with other pairs


@dataclass(frozen=True, eq=False)
class Answer:
    """The optimum in terms of columns."""

    names: tuple[str, ...]
    optimum: Optimum

    @property
    def order(self) -> list[int]:
        """Columns, causes first."""
        return list(self.optimum.best.order)

    @cached_property
    def causes(self) -> dict[int, tuple[int, ...]]:
        """Changed causes of each variable that has any."""
        changed = self.optimum.best.changed
        return {int(i): tuple(np.flatnonzero(changed[i]).tolist()) for i in np.flatnonzero(changed.any(axis=1))}

    def separate(self) -> set[int]:
        """Variables whose noise variances differ."""
        return set(np.flatnonzero(self.optimum.best.separate).tolist())

    def tied(self) -> set[tuple[int, int]]:
        """Edges (effect, cause) whose direction is not settled."""
        return {edge for edge, margin in self.optimum.margins.items() if margin <= TIE}


def problem_of(
    first: Moments, second: Moments, before: BoolArray, total: int, settings: OrderSettings
) -> Problem:
    """What is searched: the moments of what was kept of `total` variables, and the rules of the score."""
    rows, equal = (first.n, second.n), settings.equal_noise
    return Problem.from_scatter(first.scatter, second.scatter, *rows, equal, before, total, settings.factor)


def fit_samples(
    names: tuple[str, ...],
    first: Moments,
    second: Moments,
    before: BoolArray,
    settings: OrderSettings,
    screened: Screened,
) -> Difference:
    """Search over orders of what was kept, and estimate the weights along the best one.

    `names` are all variables, the moments those of the kept ones; `before` says what is known of their order.
    """
    problem = problem_of(first, second, before, len(names), settings)
    optimum = settings.optimum or search_orders(problem, settings.rng, settings.jobs, settings.progress)
    answer = Answer(first.names, optimum)
    fits = _regressions(answer, first, second)
    edges = tuple(_estimated_edges(answer, fits))
    noise, means = changed_mechanisms(first, second, answer.order, answer.causes, answer.separate(), before)
    kept = set(first.names)
    out = [name for name in names if name not in kept]
    return Difference(
        edge_list=edges,
        variables=names,
        delta_entries=_among_all(_precision_difference(answer, fits), screened.members, len(names)),
        samples=(first.n, second.n),
        settings={**_settings(answer, problem, settings), "screened_out": out, **screened.settings},
        notes=(*_screening_notes(names, first, second, settings.screen), *_notes(answer)),
        noise_list=noise,
        mean_list=means,
        **_places(answer, {change.variable for change in noise}),
    )


def _screening_notes(names: tuple[str, ...], first: Moments, second: Moments, asked: int | None) -> list[str]:
    fewer = len(first.names) < len(names)
    return [screening_note(len(names), len(first.names), min(first.n, second.n), asked)] if fewer else []


def _among_all(block: FloatArray, members: Sequence[int], p: int) -> csr_array:
    """A matrix over some of the variables as one over all."""
    entries = csr_array(block).tocoo()
    place = np.array(members, dtype=np.intp)
    return csr_array((entries.data, (place[entries.row], place[entries.col])), shape=(p, p))


def fit_models(first: LinearSEM, second: LinearSEM, before: BoolArray, settings: OrderSettings) -> Difference:
    """The same for exact models: what is found with as many rows as rounding errors allow to tell apart."""
    sigma1, sigma2 = first.covariance(), second.covariance()
    p = len(first.names)
    rows = min(EXACT_ROWS, ROUNDING / np.finfo(float).eps / max(_condition(sigma1), _condition(sigma2)))
    if rows < LEAST_ROWS * p:
        raise InputError(
            "the covariance matrices of these models are too close to singular to compare orders in double "
            "precision; use method='paper', which works with square roots, or smaller weights"
        )
    problem = Problem.from_scatter(
        sigma1 * rows, sigma2 * rows, rows, rows, settings.equal_noise, before, p, settings.factor
    )
    optimum = search_orders(problem, settings.rng, settings.jobs, settings.progress)
    answer = Answer(first.names, optimum)
    tied = answer.tied()
    directed = {(i, j) for i, causes in answer.causes.items() for j in causes} - tied
    # Along a given order that is not the models' own, edges are those of regressions.
    structural = all(first.weights[edge] != second.weights[edge] for edge in directed)
    if structural:
        edges = (*model_edges(directed, first, second), *_undirected(answer))
    else:
        zero = np.zeros(p)
        one, two = (Moments(first.names, int(rows), zero, sigma * int(rows)) for sigma in (sigma1, sigma2))
        edges = tuple(_estimated_edges(answer, _regressions(answer, one, two)))
    noise = tuple(_exact_noise(answer, first, second))
    return Difference(
        edge_list=edges,
        variables=first.names,
        delta_entries=csr_array(first.precision() - second.precision()),
        samples=None,
        settings={**_settings(answer, problem, settings), "rows": rows},
        notes=tuple(_notes(answer)),
        noise_list=noise,
        **_places(answer, {change.variable for change in noise}),
    )


def _exact_noise(answer: Answer, first: LinearSEM, second: LinearSEM) -> Iterator[NoiseChange]:
    """Variables whose noise variance differs, with the models' variances where those differ."""
    for k in sorted(answer.separate()):
        before, after = float(first.noise_variances[k]), float(second.noise_variances[k])
        yield NoiseChange(answer.names[k], before, after, before / after)


def _condition(sigma: FloatArray) -> float:
    scale = np.sqrt(np.diag(sigma))
    return float(np.linalg.cond(sigma / np.outer(scale, scale)))


def _regressions(
    answer: Answer, first: Moments, second: Moments
) -> dict[int, tuple[list[int], JointRegression]]:
    """For each variable of which something changed: its predecessors, and the regression on them."""
    causes, separate, order = answer.causes, answer.separate(), answer.order
    fits = {}
    for i in sorted(separate.union(causes)):
        earlier = order[: order.index(i)]
        fit = regress_jointly(first, second, i, earlier, causes.get(i, ()), i in separate)
        fits[i] = (earlier, fit)
    return fits


def _estimated_edges(answer: Answer, fits: dict[int, tuple[list[int], JointRegression]]) -> Iterator[Edge]:
    names, tied = answer.names, answer.tied()
    for i, causes in answer.causes.items():
        earlier, fit = fits[i]
        for u, j in enumerate(causes):
            if (i, j) not in tied:
                k = earlier.index(j)
                weights = float(fit.first[k]), float(fit.second[k])
                errors = float(fit.error_first[u]), float(fit.error_second[u])
                yield estimated_edge(names[j], names[i], weights, errors, float(fit.error_delta[u]))
    yield from _undirected(answer)


def _undirected(answer: Answer) -> list[Edge]:
    pairs = sorted({(min(edge), max(edge)) for edge in answer.tied()})
    return [Edge(answer.names[a], answer.names[b], directed=False) for a, b in pairs]


def _precision_difference(answer: Answer, fits: dict[int, tuple[list[int], JointRegression]]) -> FloatArray:
    """Of the fitted models: only rows of the structural equations that changed differ."""
    p = len(answer.names)
    delta: FloatArray = np.zeros((p, p))
    for i, (earlier, fit) in fits.items():
        for sign, weights, variance in (
            (1, fit.first, fit.variance_first),
            (-1, fit.second, fit.variance_second),
        ):
            row = np.zeros(p)
            row[i] = 1.0
            row[earlier] = -weights
            delta += sign * np.outer(row, row) / variance
    return delta


def _settings(answer: Answer, problem: Problem, settings: OrderSettings) -> dict[str, object]:
    optimum = answer.optimum
    return {
        "noise": "equal" if settings.equal_noise else "auto",
        "penalty": float(problem.rules.table[CHANGE, 0]),
        "penalty_factor": settings.factor,
        "score": optimum.best.score,
        "search": _how(optimum, settings),
        "known_beforehand": list(settings.known),
        "starts": optimum.starts,
        "starts_at_optimum": optimum.reached,
        "tie": TIE,
        "search_order": [answer.names[k] for k in answer.order],
        "margins": {
            f"{answer.names[j]} -> {answer.names[i]}": round(margin, 3)
            for (i, j), margin in optimum.margins.items()
            if math.isfinite(margin)
        },
    }


def _how(optimum: Optimum, settings: OrderSettings) -> str:
    """How far the best order can be trusted to be the best."""
    if optimum.starts:
        return f"{optimum.reached} of {optimum.starts} starts found these changes"
    return "order given" if "order" in settings.known else "all admissible orders compared"


def _places(answer: Answer, noisy: set[str]) -> dict[str, Any]:
    """Where each variable stands, by name; changed noise makes one take part, too."""
    names, tied = answer.names, answer.tied()
    active = {k for k, name in enumerate(names) if name in noisy}
    for i, causes in answer.causes.items():
        active |= {i, *causes}
    loose = {node for edge in tied for node in edge}
    layers: dict[int, int] = {}
    for i in answer.order:  # causes come first here, so that their layers are known
        settled = [j for j in answer.causes.get(i, ()) if (i, j) not in tied]
        if i not in loose and (settled or any(i in others for others in answer.causes.values())):
            layers[i] = max((layers.get(j, -1) + 1 for j in settled), default=0)
    return {
        "method": "order",
        "invariant": tuple(name for k, name in enumerate(names) if k not in active),
        "unresolved": tuple(names[k] for k in sorted(loose)),
        "order": tuple(
            tuple(names[k] for k, own in sorted(layers.items()) if own == layer)
            for layer in range(max(layers.values(), default=-1) + 1)
        ),
    }


def _notes(answer: Answer) -> Iterator[str]:
    """What a user should know about how far this answer goes."""
    optimum, names = answer.optimum, answer.names
    if optimum.starts and optimum.reached < 2:
        yield (
            f"{optimum.reached} of {plural(optimum.starts, 'start')} of the search found these changes, so a "
            "better order may exist; drop variables, or give what you know (tiers, directions)"
        )
    for i, j in sorted(answer.tied()):
        yield f"the data do not tell whether {names[j]} acts on {names[i]} or the other way round"
