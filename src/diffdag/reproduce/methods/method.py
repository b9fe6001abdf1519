"""What a method is: two sets of moments in, a difference graph out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec

from diffdag._base.arrays import BoolArray
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
