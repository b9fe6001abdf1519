"""What a method claims of two tables, and its claims against a graph that is known."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from diffdag._base.arrays import BoolArray
from diffdag._base.errors import InputError
from diffdag._base.journal import Row
from diffdag._base.words import join_names
from diffdag.estimator import DifferenceDAG
from diffdag.reproduce.experiments.runner import AGAIN, TIME
from diffdag.reproduce.methods import find_method
from diffdag.reproduce.methods.attempt import TimeUp, attempt, within
from diffdag.results.difference import Difference
from diffdag.results.records import GainChange
from diffdag.tables.moments import Moments

Pair = tuple[str, str]  # source and target, or ancestor and descendant
ROWS = "order"  # the method that sees rows; the others see moments


class Claim(NamedTuple):
    """One edge that a method says has changed."""

    source: str
    target: str
    directed: bool = True

    def __str__(self) -> str:
        return f"{self.source} {'->' if self.directed else '--'} {self.target}"


@dataclass(frozen=True)
class Claims:
    """What a method made of two tables; no edges, and why, if it gave no result."""

    edges: tuple[Claim, ...] | None
    gains: tuple[GainChange, ...] = ()
    why: str = ""
    seconds: float | None = None
    again: bool = False  # whether a later run should try once more

    def told(self, counts: Mapping[str, object]) -> Row:
        """The row of a table: counts, then what was claimed, or why nothing was."""
        row = {**counts, "why": self.why, "edges": "; ".join(map(str, self.edges or ())), TIME: self.seconds}
        return {**row, AGAIN: True} if self.again else row


def claims_of(result: Difference, seconds: float | None = None) -> Claims:
    """The claims of a result."""
    edges = tuple(Claim(edge.source, edge.target, edge.directed) for edge in result.edge_list)
    return Claims(edges, result.gain_list, seconds=seconds)


def graph_claims(names: Sequence[str], graph: BoolArray) -> tuple[Claim, ...]:
    """The edges of a difference graph: ``[i, j]`` for ``j -> i``, both entries for an undirected edge."""
    both = graph & graph.T
    directed = [Claim(names[j], names[i]) for i, j in np.argwhere(graph & ~both)]
    return (*directed, *(Claim(names[i], names[j], False) for i, j in np.argwhere(np.triu(both, 1))))


def try_tables(name: str, first: pd.DataFrame, second: pd.DataFrame, limit: float) -> Claims:
    """One method on two tables, within so much processor time: the default on rows, others on moments."""
    if name == ROWS:
        return _try_default(first, second, limit)
    method = find_method(name)
    if not method.available:
        return Claims(None, why=f"needs {method.needs}", again=True)
    names = tuple(first.columns)
    moments = tuple(Moments.from_array(table.to_numpy(float), names) for table in (first, second))
    graph, why, seconds = attempt(method, moments, limit)
    return Claims(None if graph is None else graph_claims(names, graph), why=why, seconds=seconds)


def _try_default(first: pd.DataFrame, second: pd.DataFrame, limit: float) -> Claims:
    start = time.perf_counter()
    try:
        result = within(limit, lambda: DifferenceDAG().fit(first, second).result_)
    except TimeUp:
        return Claims(None, why=f"longer than {limit:g} s", seconds=time.perf_counter() - start)
    except InputError as error:
        return Claims(None, why=str(error), seconds=time.perf_counter() - start)
    return claims_of(result, time.perf_counter() - start)


def check_methods(names: Iterable[str]) -> None:
    """Refuse methods that would have to be told the causal order."""
    if told := [name for name in names if find_method(name).knows_order]:
        raise InputError(f"{join_names(told)} has to be told the causal order; leave it out")


def ancestor_pairs(edges: Collection[Pair]) -> frozenset[Pair]:
    """All pairs of an ancestor and a descendant in a graph; a variable on a cycle is its own ancestor.

    >>> sorted(ancestor_pairs({("a", "b"), ("b", "c")}))
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    above = set(edges)
    while longer := {(a, d) for a, b in above for c, d in edges if b == c} - above:
        above |= longer
    return frozenset(above)


@dataclass(frozen=True)
class Counts:
    """Claims against what is known to have changed."""

    true: int  # edges that changed and must be found
    found: int  # claimed, directed right
    undirected: int  # claimed without direction
    reversed: int  # claimed the wrong way round
    extra: int  # claims, directed or not, that are none of these
    backwards: int  # extra ones whose source is a descendant of their target
    ignored: int  # claims of pairs that count neither way


def count_claims(
    claims: Collection[Claim], true: Collection[Pair], neither: Collection[Pair], above: Collection[Pair]
) -> Counts:
    """Count claims, each as one thing.

    Parameters
    ----------
    claims : collection of Claim
    true : collection of (source, target)
        Edges that changed and must be found.
    neither : collection of (source, target)
        Edges that changed too little to be seen: claims of these pairs, either way, do not count.
    above : collection of (ancestor, descendant)
        Of the graph in which all of this happens.
    """
    pairs, ignored = {frozenset(edge) for edge in true}, {frozenset(edge) for edge in neither}
    ignored -= pairs
    extra = [claim for claim in claims if frozenset(claim[:2]) not in pairs | ignored]
    meant = [claim for claim in claims if frozenset(claim[:2]) in pairs]
    found = sum(claim.directed and claim[:2] in true for claim in meant)
    undirected = sum(not claim.directed for claim in meant)
    return Counts(
        true=len(true),
        found=found,
        undirected=undirected,
        reversed=len(meant) - found - undirected,
        extra=len(extra),
        backwards=sum(claim.directed and (claim.target, claim.source) in above for claim in extra),
        ignored=len(claims) - len(meant) - len(extra),
    )
