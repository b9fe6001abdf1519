"""UT-IGSP: greedy search for the sparsest permutation when the targets of interventions are not known.

Squires, Wang and Uhler (2020), *Permutation-based causal structure learning with unknown intervention targets*.
The first condition is observational, the second has one intervention whose targets are sought. To a permutation
belongs a minimal independence map, the DAG in which a variable's parents are the predecessors on which it
depends given the other predecessors, and a set of targets, the variables whose distribution given their parents
differs between the conditions. The search seeks a permutation with the fewest edges and targets together: from
one DAG to another by turning a covered edge round (Solus, Wang and Uhler 2021), depth first, along DAGs that
are no worse, until one is better.

Here everything is Gaussian: Fisher's z of partial correlations for conditional independence, and the tests of
`mechanism` for invariance. As in the authors' package (causaldag) all covered edges of the DAG may be turned,
the depth is 4, and the best of several random permutations to start from is taken. Of a DAG that a turned edge
gives, only edges into its two ends are tested again, given the other parents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import ndtri

from diffdag.reproduce.methods.gaussian import Gaussian, members
from diffdag.reproduce.methods.mechanism import Invariance
from diffdag.reproduce.methods.method import NodeMethod, Ranking, same_variables
from diffdag.tables.moments import Moments

# Levels of the tests, and permutations to start from: see docs/nodes_compared.md.
ALPHA, ALPHA_INVARIANCE = 1e-2, 1e-3
DEPTH, STARTS, SEED = 4, 50, 820_000

Parents = tuple[int, ...]  # of each variable, as sets


class PermutationSearch:
    """The two conditions, and the search over permutations."""

    def __init__(
        self,
        first: Moments,
        second: Moments,
        alpha: float = ALPHA,
        alpha_invariance: float = ALPHA_INVARIANCE,
    ) -> None:
        second = same_variables(first, second)
        self.observed = Gaussian(first, "first")
        self.invariance = Invariance(first, second)
        self.p = len(first.names)
        self._limit = float(-ndtri(alpha / 2))
        self._alpha = alpha_invariance

    def independence_map(self, permutation: Sequence[int]) -> Parents:
        """The minimal independence map of a permutation, by tests on the first condition."""
        parents, before = [0] * self.p, 0
        for y in permutation:
            parents[y] = self._dependent(y, before, before)
            before |= 1 << y
        return tuple(parents)

    def is_target(self, variable: int, parents: int) -> bool:
        """Whether the distribution of a variable given these parents differs between the conditions."""
        return self.invariance.test(variable, parents).pvalue < self._alpha

    def size(self, dag: Parents) -> int:
        """Edges and targets of a DAG together."""
        return sum(above.bit_count() + self.is_target(y, above) for y, above in enumerate(dag))

    def search(self, start: Parents) -> Parents:
        """Turn covered edges round as long as that leads to a smaller DAG."""
        best: Parents | None = start
        while best is not None:
            start, best = best, self._smaller(best)
        return start

    def _smaller(self, root: Parents) -> Parents | None:
        """A smaller DAG, at most `DEPTH` turned edges away along DAGs that are no larger; None without one."""
        size = self.size(root)
        seen, stack = {root}, [(root, 0)]
        while stack:
            dag, depth = stack.pop()
            for near in self._turned(dag):
                if near in seen:
                    continue
                seen.add(near)
                own = self.size(near)
                if own < size:
                    return near
                if own == size and depth + 1 < DEPTH:
                    stack.append((near, depth + 1))
        return None

    def _turned(self, dag: Parents) -> Iterator[Parents]:
        """Every DAG that comes of turning a covered edge: one whose ends have the same other parents."""
        for y, above in enumerate(dag):
            for x in members(above):
                if above == dag[x] | 1 << x:
                    shared, near = dag[x], list(dag)
                    near[y] = self._dependent(y, shared, shared)
                    near[x] = 1 << y | self._dependent(x, shared, shared | 1 << y)
                    yield tuple(near)

    def _dependent(self, y: int, candidates: int, given: int) -> int:
        """The candidates that `y` depends on given the others of a set."""
        kept = 0
        for x in members(candidates):
            if self.observed.fisher_z(x, y, given & ~(1 << x)) > self._limit:
                kept |= 1 << x
        return kept


def ut_igsp(first: Moments, second: Moments) -> Ranking:
    """The targets, and all variables by the p-values of invariance given their parents in the sparsest DAG."""
    known = PermutationSearch(first, second)
    rng = np.random.default_rng(SEED)
    starts = [known.independence_map(rng.permutation(known.p).tolist()) for _ in range(STARTS)]
    dag = min((known.search(start) for start in starts), key=known.size)
    scores = [known.invariance.test(y, above).evidence for y, above in enumerate(dag)]
    return Ranking(np.array(scores), np.array([known.is_target(y, above) for y, above in enumerate(dag)]))


NODE_METHODS = (
    NodeMethod("ut-igsp", "sparsest permutation with unknown targets, Squires et al. 2020", ut_igsp),
)
