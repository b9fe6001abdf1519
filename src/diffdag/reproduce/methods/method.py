"""What a method is: two conditions in, a difference graph or a ranking of the variables out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Literal

import numpy as np

from diffdag._base.arrays import BoolArray, FloatArray
from diffdag._base.errors import InputError
from diffdag._base.words import plural
from diffdag.tables.degenerate import check_moments
from diffdag.tables.moments import Moments, check_no_categories
from diffdag.tables.problems import check_same_columns


@dataclass(frozen=True)
class Method:
    """One method of estimating a difference graph.

    ``run(first, second)`` with the moments of two conditions over the same variables gives the graph as a
    boolean matrix: ``[i, j]`` is true where the effect of ``j`` on ``i`` changed, and ``[j, i]`` as well where
    the edge is undirected. If `knows_order`, a causal order of the columns comes third.
    """

    name: str  # what the user types and reads
    about: str  # one line: what it does, and whose it is
    run: Callable[..., BoolArray] = field(compare=False)  # a copy from another process is equal
    directs: bool = True  # whether it can direct edges
    knows_order: bool = False  # whether it has to be told the causal order
    needs: str | None = None  # a module that an extra brings; without it the method is not available
    most: int | None = None  # number of variables beyond which it is too slow to be worth the wait

    @property
    def available(self) -> bool:
        """Whether what it needs is installed."""
        return self.needs is None or find_spec(self.needs) is not None


@dataclass(frozen=True, eq=False)
class Ranking:
    """How much speaks for a change of each variable's mechanism, in the order of the columns.

    Attributes
    ----------
    scores : ndarray, shape (p,)
        The larger, the more evidence; what one is worth differs between methods.
    changed : ndarray of bool, shape (p,), optional
        The variables that the method says have changed; None for a method that only ranks.
    """

    scores: FloatArray
    changed: BoolArray | None = None

    @property
    def order(self) -> list[int]:
        """The variables, most evidence first; ties in the order of the columns."""
        return [int(k) for k in np.argsort(-self.scores, kind="stable")]


@dataclass(frozen=True)
class NodeMethod:
    """One method that says which variables' mechanisms changed.

    ``run(first, second)`` gives a `Ranking`. What it is given of the two conditions is told by `sees`: arrays
    with one row per observation, or moments. If `knows_graph`, the parents of each variable in the true graph,
    sets of column numbers as integers with one bit per variable, come third.
    """

    name: str  # what the user types and reads
    about: str  # one line: what it does, and whose it is
    run: Callable[..., Ranking] = field(compare=False)
    sees: Literal["moments", "rows"] = "moments"
    knows_graph: bool = False  # whether it has to be told the true graph
    claims: bool = True  # whether it names a set of changed variables, or ranks them only

    def rank(self, first: FloatArray, second: FloatArray, parents: tuple[int, ...]) -> Ranking:
        """Rank the variables of two tables; the parents are for methods that have to be told."""
        told = (parents,) if self.knows_graph else ()
        if self.sees == "rows":
            return self.run(first, second, *told)
        return self.run(Moments.from_array(first), Moments.from_array(second), *told)


def same_variables(first: Moments, second: Moments, least: int = 0, why: str = "") -> Moments:
    """The second moments with their columns in the order of the first, once both are fit to be compared.

    A condition with fewer than the `least` number of rows is refused; `why` goes on from its number of rows.
    """
    check_no_categories(first, second)
    check_same_columns(first.names, second.names, ("first", "second"))
    second = second if first.names == second.names else second.select(first.names)
    for moments, label in ((first, "first"), (second, "second")):
        check_moments(moments.names, moments.n, moments.scatter, label, mean=moments.mean)
        if moments.n < least:
            raise InputError(f"the {label} table has {plural(moments.n, 'row')}{why}")
    return second
