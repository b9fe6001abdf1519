"""Every available method on the same two tables: what each found, where they agree, how long they took."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from diffdag._base.arrays import BoolArray
from diffdag._base.checks import check_jobs, check_number, is_number
from diffdag._base.errors import InputError
from diffdag._base.parallel import collect, run_all
from diffdag._base.words import plural
from diffdag.model.prior_knowledge import precedence
from diffdag.pipeline import ModelOptions, moments_of
from diffdag.reproduce.methods import all_methods, find_method
from diffdag.reproduce.methods.attempt import attempt
from diffdag.reproduce.methods.method import Method, same_variables
from diffdag.tables.align import align_tables
from diffdag.tables.coding import Levels
from diffdag.tables.moments import Moments, check_comparable
from diffdag.tables.problems import Missing

DEFAULT, LIMIT = "order", 60.0
MARKS = {(False, False): "", (True, False): "->", (False, True): "<-", (True, True): "--"}


@dataclass(frozen=True, eq=False)
class Comparison:
    """What several methods found on the same data.

    Attributes
    ----------
    names : tuple of str
        The variables.
    samples : (int, int)
        Rows of the two tables.
    graphs : dict of str to ndarray of bool
        ``graphs[method][i, j]`` is true where the effect of ``j`` on ``i`` changed; both ways if undirected.
    seconds : dict of str to float
    skipped : dict of str to str
        Methods without a result, and why.
    """

    names: tuple[str, ...]
    samples: tuple[int, int]
    graphs: dict[str, BoolArray]
    seconds: dict[str, float]
    skipped: dict[str, str]

    @property
    def edges(self) -> pd.DataFrame:
        """One row per pair of variables in any result, most often found first; one column per method.

        ``->`` is from source to target, ``<-`` the other way, ``--`` undirected. The source is the cause in
        most of the results that direct the edge.
        """
        graphs = np.array([*self.graphs.values(), np.zeros((len(self.names),) * 2, bool)])
        rows = []
        for i, j in np.argwhere(np.triu((graphs | graphs.swapaxes(1, 2)).any(axis=0))):
            forward, backward = graphs[:, j, i], graphs[:, i, j]
            if (backward & ~forward).sum() > (forward & ~backward).sum():
                i, j, forward, backward = j, i, backward, forward  # noqa: PLW2901
            marks = [MARKS[bool(there), bool(back)] for there, back in zip(forward, backward, strict=True)]
            rows.append((self.names[i], self.names[j], int((forward | backward).sum()), *marks[:-1]))
        table = pd.DataFrame(rows, columns=["source", "target", "found", *self.graphs])
        return table.sort_values("found", ascending=False, kind="stable", ignore_index=True)

    @property
    def agreement(self) -> pd.DataFrame:
        """Share of pairs of variables found by both among those found by either (Jaccard index), by method.

        Directions do not count. Two empty results agree.
        """
        skeletons = {name: np.triu(graph | graph.T, 1) for name, graph in self.graphs.items()}
        values = [
            [float((a & b).sum() / either) if (either := (a | b).sum()) else 1.0 for b in skeletons.values()]
            for a in skeletons.values()
        ]
        return pd.DataFrame(values, index=list(skeletons), columns=list(skeletons))

    @property
    def methods(self) -> pd.DataFrame:
        """One row per method: edges, how many of them directed, seconds, and why it was skipped if it was."""
        rows = [
            {
                "method": name,
                "edges": int(np.triu(graph | graph.T, 1).sum()),
                "directed": int((graph & ~graph.T).sum()),
                "seconds": round(self.seconds[name], 3),
                "skipped": "",
            }
            for name, graph in self.graphs.items()
        ]
        rows += [{"method": name, "skipped": why} for name, why in self.skipped.items()]
        table = pd.DataFrame(rows, columns=["method", "edges", "directed", "seconds", "skipped"])
        return table.astype({"edges": "Int64", "directed": "Int64"})

    def to_json(self) -> str:
        """Everything, for programs."""
        value = {
            "schema": 1,
            "variables": list(self.names),
            "samples": {"first": self.samples[0], "second": self.samples[1]},
            "methods": self.methods[self.methods["skipped"] == ""].drop(columns="skipped").to_dict("records"),
            "skipped": self.skipped,
            "agreement": self.agreement.round(4).to_dict(),
            "edges": self.edges.to_dict("records"),
        }
        return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def compare_methods(
    first: Any,
    second: Any,
    *,
    methods: Sequence[str] | None = None,
    order: Sequence[str] | None = None,
    limit: float | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    levels: Levels | None = None,
    missing: Missing = "error",
    started: Callable[[str], None] = lambda name: None,
    n_jobs: int = 1,
) -> Comparison:
    """Run every available method on the same two tables.

    Parameters
    ----------
    first, second : array or table, or Moments
        As for `DifferenceDAG.fit`.
    methods : sequence of str, optional
        Some of the methods only; all if left out.
    order : sequence of str, optional
        The causal order, all variables, causes first: methods that have to know it run too.
    limit : float, optional
        Seconds of processor time after which a method is given up; 60, and no limit for the default method, if
        left out.
    columns, drop, levels : optional
    missing : {"error", "drop", "em"}, default "error"
        As for `DifferenceDAG` and its `fit`.
    started : callable, optional
        Called with the name of each method as it starts, or is handed to a worker.
    n_jobs : int, default 1
        Methods that run at a time, in processes of their own if more than 1.

    Returns
    -------
    Comparison
        The graph of each method, `edges` of all of them side by side, and why some gave none.

    See Also
    --------
    DifferenceDAG : the default method, with all that it says about its result.

    Examples
    --------
    >>> import diffdag as dd
    >>> pair = dd.simulate_pair(p=5, neighbours=2, changes=1, weights=(0.8, 1.0), rng=3)
    >>> tables = pair.first.sample(5000, rng=1), pair.second.sample(5000, rng=2)
    >>> found = dd.compare_methods(*tables, methods=["order", "paper"])
    >>> sorted(found.graphs), len(found.edges)
    (['order', 'paper'], 1)
    """
    if not (is_number(limit) and limit == math.inf):
        check_number("limit", limit, above=0, none_ok=True)
    check_jobs(n_jobs)
    if not (isinstance(first, Moments) and isinstance(second, Moments)):
        tables = align_tables(first, second, columns=columns, drop=drop, levels=levels, missing=missing)
        first, second = moments_of(tables, ModelOptions())
    one, two = first, same_variables(first, second)
    check_comparable(one, two)
    before = None if order is None else precedence(one.names, order=order)
    known = None if before is None else tuple(np.argsort(before.sum(axis=0)).tolist())
    if methods is not None and (isinstance(methods, str) or not isinstance(methods, Iterable)):
        raise InputError(f"methods= is {methods!r}; give a list of names")
    chosen = list(all_methods().values()) if methods is None else [find_method(name) for name in methods]
    unfit = {
        method.name: why
        for method in chosen
        if (why := _unfit(method, len(one.names), known is not None, asked=methods is not None))
    }

    def tasks() -> Iterator[tuple[Method, float | None]]:
        for method in chosen:
            if method.name not in unfit:
                started(method.name)
                yield method, limit if limit is not None or method.name == DEFAULT else LIMIT

    ran = collect(run_all(_attempt, tasks(), shared=(one, two, known), jobs=n_jobs))
    graphs = {name: graph for name, graph, _, _ in ran if graph is not None}
    seconds = {name: taken for name, _, _, taken in ran if name in graphs}
    reasons = unfit | {name: why for name, _, why, _ in ran if why}
    skipped = {method.name: reasons[method.name] for method in chosen if method.name in reasons}
    if not graphs:
        listed = "; ".join(f"{name}: {why}" for name, why in skipped.items())
        raise InputError(f"no method gave a result ({listed})")
    return Comparison(one.names, (one.n, two.n), graphs, seconds, skipped)


def _attempt(
    task: tuple[Method, float | None], first: Moments, second: Moments, order: tuple[int, ...] | None
) -> tuple[str, BoolArray | None, str, float]:
    """Name, graph, why there is none, and seconds of one method."""
    method, limit = task
    arguments = (first, second, order) if method.knows_order else (first, second)
    return method.name, *attempt(method, arguments, limit)


def _unfit(method: Method, p: int, ordered: bool, *, asked: bool) -> str:
    """Why a method cannot run, or would take too long unless asked for by name; empty if it can."""
    if not method.available:
        return f"needs {method.needs}: pip install 'diffdag[compare]'"
    if method.knows_order and not ordered:
        return "needs the causal order (order=, --order)"
    if method.most is not None and p > method.most and not asked:
        return f"too slow for {plural(p, 'variable')} (up to {method.most}); ask for it by name to run it"
    return ""
