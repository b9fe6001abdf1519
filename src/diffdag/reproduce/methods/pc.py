"""PC (Spirtes, Glymour and Scheines 2000) in each condition; the difference of the two graphs.

The library causal-learn runs the algorithm: the skeleton in the order-independent form of Colombo and
Maathuis (2014), unshielded colliders by separating sets, where two of them conflict the first stands, then
the rules of Meek (1995). The tests of Fisher's z are ours, from moments.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

import numpy as np

from diffdag._base.arrays import BoolArray
from diffdag.reproduce.methods.gaussian import Gaussian, as_mask, subtract_graphs
from diffdag.reproduce.methods.method import Method

ALPHA = 0.01  # chosen in docs/dev/constants.md
_FIRST_STANDS = 2  # causal-learn's number for its default way with colliders in conflict


class _Test:
    """Fisher's z in the form that causal-learn calls."""

    method = "fisherz from moments"

    def __init__(self, table: Gaussian) -> None:
        self._table = table

    def __call__(self, x: int, y: int, given: Iterable[int]) -> float:
        """The p-value of independence of `x` and `y` given a set."""
        return math.erfc(self._table.fisher_z(int(x), int(y), as_mask(given)) / math.sqrt(2))

    def __deepcopy__(self, memo: object) -> _Test:
        """Itself: causal-learn copies its graphs, and the test with them, at every step."""
        return self


def pc_graph(table: Gaussian, alpha: float = ALPHA) -> BoolArray:
    """The graph of PC for one condition: ``[i, j]`` is ``j -> i``, an undirected edge has both entries."""
    from causallearn.utils.PCUtils import Meek, SkeletonDiscovery, UCSepset  # noqa: PLC0415

    no_rows = np.empty((0, table.p))  # asked for its number of columns only
    skeleton = SkeletonDiscovery.skeleton_discovery(no_rows, alpha, _Test(table), show_progress=False)
    marks = Meek.meek(UCSepset.uc_sepset(skeleton, _FIRST_STANDS)).G.graph
    # At [i, j] the mark that the edge of i and j has at i: 1 an arrowhead, -1 a tail, 0 no edge.
    graph: BoolArray = (marks == 1) | ((marks == -1) & (marks.T == -1))
    return graph


ABOUT = "PC in each condition, graphs subtracted (causal-learn)"
METHODS = (Method("pc", ABOUT, partial(subtract_graphs, pc_graph), needs="causallearn", most=30),)
