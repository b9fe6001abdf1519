"""GnIES: greedy search over graphs and sets of variables whose noise changed.

Gamella, Taeb, Heinze-Deml and Bühlmann (2022), *Characterization and greedy learning of Gaussian structural
causal models under unknown interventions*. Effects are the same in both conditions; of the variables in a set
of targets, noise has its own mean and variance in each. The score is the likelihood less ``log(n) / 2`` for
each parameter. An outer search adds to the targets the variable that improves the score most, as long as one
does, and then takes variables away; for each set an inner search, GES, finds the graph. ``gnies-rank`` is the
authors' faster outer search: all variables are targets first, which ranks them by what each gains, and then
they are added in that order as long as the score improves.

Two graphs fit alike if they are equivalent and the targets have the same parents in both. That is so if they
are equivalent with a further vertex for each target and an edge from it to the target. So GES runs on graphs
with these vertices, whose edges stay as they are; then all edges at a target are directed.

Where this differs from the authors' package (gnies):

- Means count: of a target the intercept changes too. The package centres both tables by default.
- The turning step of GES (Hauser and Bühlmann 2012) tries the edges of one DAG of the class, not of all.
- Variables are ranked by what the score gains if they are targets, in the graph that was found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np

from diffdag._base.arrays import FloatArray
from diffdag.reproduce.methods.cpdag import PartialGraph, completed, extension
from diffdag.reproduce.methods.gaussian import REMEMBERED, Gaussian, members
from diffdag.reproduce.methods.ges import deletion, insertion
from diffdag.reproduce.methods.method import NodeMethod, Ranking, same_variables
from diffdag.tables.moments import Moments

ROUNDS, TOLERANCE = 100, 1e-9  # of generalised least squares; a few rounds are usual
LEAST = 1e-6  # what a score has to improve by


class NoiseScore:
    """The score of a variable given its parents, the larger the better.

    Variables have the numbers 0 to p - 1; vertex p + k is the change of condition that acts on variable k.
    """

    def __init__(self, first: Moments, second: Moments) -> None:
        second = same_variables(first, second)
        both = first + second
        self.p, self.n = len(first.names), both.n
        self._pooled = Gaussian(both, "pooled")
        scale = np.sqrt(np.diag(both.scatter))
        self._scatters = [moments.scatter / scale[:, None] / scale for moments in (first, second)]
        self._counts = [first.n, second.n]
        self._separate = lru_cache(REMEMBERED)(self._of_target)

    def __call__(self, variable: int, parents: int) -> float:
        """Score of a variable; it is a target if the change of condition is among its parents."""
        if parents >> self.p:
            return self._separate(variable, parents & (1 << self.p) - 1)
        return self._pooled.bic(variable, parents)

    def gain(self, variable: int, parents: int) -> float:
        """What the score gains if the variable is a target."""
        change = 1 << self.p + variable
        return self(variable, parents | change) - self(variable, parents & ~change)

    def _of_target(self, variable: int, parents: int) -> float:
        """Coefficients are shared, intercepts and variances are not.

        With residual sums of squares RSS1 and RSS2 around the means of each condition: ``-sum_c n_c / 2
        log(RSS_c / n_c)`` at its largest, by generalised least squares, up to the constant that
        `Gaussian.bic` leaves out; two more parameters than a variable that is no target.
        """
        index = [*members(parents), variable]
        blocks = [own[np.ix_(index, index)] for own in self._scatters]
        rest, before = shared_regression(blocks, self._counts), math.inf
        for _ in range(ROUNDS):
            value = sum(n / 2 * math.log(n_rss / n) for n, n_rss in zip(self._counts, rest, strict=True))
            if before - value < TOLERANCE * self.n:
                break
            weights = [n / n_rss for n, n_rss in zip(self._counts, rest, strict=True)]
            rest, before = shared_regression(blocks, weights), value
        return -value - self.n / 2 * math.log(self.n) - (len(index) + 2) / 2 * math.log(self.n)


def shared_regression(scatters: Sequence[FloatArray], weights: Sequence[float]) -> list[float]:
    """Residual sums of squares of the last variable on the others, coefficients the same in all conditions.

    Least squares with a weight per condition.
    """
    total = np.tensordot(np.array(weights), np.array(scatters), axes=1)
    contrast = np.append(-np.linalg.solve(total[:-1, :-1], total[:-1, -1]), 1.0)
    tiny = np.finfo(float).tiny
    return [max(float(contrast @ own @ contrast), tiny) for own in scatters]


def inner_search(score: NoiseScore, targets: int) -> tuple[float, list[int]]:
    """GES with a set of targets: the score of the class it ends with, and parents in a DAG of that class."""
    known = [(targets >> y & 1) << score.p + y for y in range(score.p)] + [0] * score.p
    graph, found = PartialGraph(list(known), [0] * len(known)), True
    while found:
        found = False
        for step in (insertion, deletion, turning):
            while (better := step(graph, score, score.p)) is not None:
                graph, found = completed(extension(better), known), True
    dag = extension(graph)[: score.p]
    return sum(score(y, above) for y, above in enumerate(dag)), dag


def turning(graph: PartialGraph, score: NoiseScore, p: int) -> PartialGraph | None:
    """Turn the edge of a DAG of the class that improves the score most; None if none does."""
    dag, best, chosen = extension(graph), LEAST, None
    for y in range(p):
        for x in members(dag[y] & (1 << p) - 1):
            loss = score(y, dag[y]) - score(y, dag[y] & ~(1 << x))
            gain = score(x, dag[x] | 1 << y) - score(x, dag[x]) - loss
            if gain > best and not _leads(dag, x, y):
                best, chosen = gain, (x, y)
    if chosen is None:
        return None
    x, y = chosen
    dag[y] &= ~(1 << x)
    dag[x] |= 1 << y
    return PartialGraph(dag, [0] * len(dag))


def _leads(dag: Sequence[int], x: int, y: int) -> bool:
    """Whether a directed path leads from `x` to `y` besides the edge between them."""
    seen, new = 0, dag[y] & ~(1 << x)
    while new and not new >> x & 1:
        seen |= new
        above = 0
        for z in members(new):
            above |= dag[z]
        new = above & ~seen
    return new != 0


def greedy_targets(score: NoiseScore) -> tuple[int, list[int]]:
    """The best target to add as long as one improves the score, then the best to take away; and the DAG."""
    targets = 0
    best, dag = inner_search(score, targets)
    for adding in (True, False):
        while True:
            others = [k for k in range(score.p) if bool(targets >> k & 1) != adding]
            tried = [(*inner_search(score, targets ^ 1 << k), targets ^ 1 << k) for k in others]
            value, graph, found = max(tried, key=lambda one: one[0], default=(-math.inf, dag, targets))
            if value <= best + LEAST:
                break
            best, dag, targets = value, graph, found
    return targets, dag


def ranked_targets(score: NoiseScore) -> tuple[int, list[int]]:
    """Targets in the order of their gains with all variables as targets, as long as the score improves."""
    _, dag = inner_search(score, (1 << score.p) - 1)
    gains = [score.gain(y, above) for y, above in enumerate(dag)]
    targets = 0
    best, dag = inner_search(score, targets)
    for k in sorted(range(score.p), key=lambda k: -gains[k]):
        value, graph = inner_search(score, targets | 1 << k)
        if value <= best + LEAST:
            break
        best, dag, targets = value, graph, targets | 1 << k
    return targets, dag


def gnies(first: Moments, second: Moments, ranked: bool = False) -> Ranking:
    """The targets, and all variables by what the score gains if they are targets."""
    score = NoiseScore(first, second)
    targets, dag = (ranked_targets if ranked else greedy_targets)(score)
    gains = np.array([score.gain(y, above) for y, above in enumerate(dag)])
    return Ranking(gains, np.array([bool(targets >> k & 1) for k in range(score.p)]))


NODE_METHODS = (
    NodeMethod("gnies", "graph and targets of changed noise by a greedy search, Gamella et al. 2022", gnies),
    NodeMethod("gnies-rank", "GnIES with the authors' faster choice of targets", partial(gnies, ranked=True)),
)
