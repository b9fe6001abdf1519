"""DifferenceDAG: chains the steps from two tables to the answer, nothing else."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import numpy as np

from diffdag.data import Tables, align_tables
from diffdag.diagnostics import check_moments_only
from diffdag.knowledge import BoolArray, Direction, Tiers, precedence
from diffdag.moments import Moments, check_comparable
from diffdag.paper import answer as paper
from diffdag.parallel import count_workers, one_blas_thread
from diffdag.precision import ESTIMATORS, Penalty
from diffdag.precision.problem import standardise
from diffdag.precision.rows import standardise_rows
from diffdag.progress import Progress, Told
from diffdag.result import DifferenceResult, kept_columns
from diffdag.robust import COVARIANCES, Covariance, independent_rows, table_moments, table_scores
from diffdag.scatter import edge_scatters
from diffdag.sem import LinearSEM
from diffdag.validation import (
    InputError,
    Missing,
    check_moments,
    check_rng,
    check_same_columns,
    check_word,
    join_names,
)

if TYPE_CHECKING:
    from distributed import Client

    from diffdag.ordersearch.answer import OrderSettings
    from diffdag.ordersearch.screen import Screened
    from diffdag.resampling import Workers
    from diffdag.trust import Wishes

METHODS = ("order", "paper")
KNOWLEDGE = ("order", "tiers", "required", "forbidden")


class DifferenceDAG:
    """Estimate the difference DAG of two conditions.

    Parameters
    ----------
    method : {"order", "paper"}
        ``"order"`` searches over causal orders for the one along which least has to change (docs/order.md).
        ``"paper"`` is Algorithm 1 of Ghoshal, Bello and Honorio.
    estimator : {"dantzig", "dtrace", "kliep", "plugin"}
        ``"paper"`` only: how precision differences are estimated; see `diffdag.precision_difference`.
    penalty : float or str, optional
        ``"order"``: what a change has to pay, as a multiple of the default, at which 1 to 2 % of data sets
        without any change give a false alarm. ``"paper"``: fraction of the penalty that gives no change, or
        ``"rate:c"`` for ``c sqrt(log p / n)``; it is worked out once for all variables, and is then the same
        for every subset that the algorithm looks at.
    threshold : float, optional
        ``"paper"`` only: its epsilon, in units of partial correlations: entries up to this size count as zero.
    noise : {"auto", "equal"}
        ``"equal"`` if it is known that no noise variance differs between the conditions: more edges get a
        direction.
    order : sequence of str, optional
        ``"order"`` only: all variables, causes first, if the causal order is known.
    tiers : sequence of sequences of str, or mapping, optional
        ``"order"`` only: groups of variables, causes first ("genes before proteins before symptoms"), or the
        number of each variable's group. See `diffdag.knowledge.precedence`.
    required, forbidden : sequence of pairs or "cause->effect", optional
        ``"order"`` only: directions that an effect between two variables must, or cannot, have.
    covariance : {"sample", "winsorised", "spearman", "kendall"}
        How `fit` sums up the tables. ``"winsorised"`` clips outliers; the rank-based ones suit variables that
        went through an unknown increasing transformation, the same in both tables. See
        `diffdag.robust.table_moments`.
    effective_samples : float, pair of float or "auto", optional
        The number of independent rows that each table is worth, where rows are a time series; ``"auto"``
        estimates it from autocorrelations.
    screen : int, optional
        ``"order"`` only: at most so many variables are ordered, those that most seem to take part in a change.
        Never more than 200, nor than the rows of the smaller table allow.
    confidence : int, optional
        Number of resamples of both tables from which `fit` works out how sure each change is; see `fit`.
    fdr : float, optional
        Largest expected share of false edges in the list that `fit` reports; see there.
    rng : numpy.random.Generator or int, optional
        Source of randomness of the search; None gives the same answer every time.
    n_jobs : int, optional
        ``"order"``: threads of the search, None for one a core; the answer does not depend on it. ``"paper"``:
        processes for the subproblems, None for one.

    Attributes
    ----------
    result_ : DifferenceResult
        The answer of the last fit. Settings that were None are chosen from the data and reported in
        ``result_.settings``.

    Examples
    --------
    >>> import diffdag as dd
    >>> pair = dd.simulate_pair(p=6, neighbours=3, changes=1, weights=(0.8, 1.0), rng=4)
    >>> est = dd.DifferenceDAG().fit(pair.first.sample(5000, rng=1), pair.second.sample(5000, rng=2))
    >>> {(e.source, e.target) for e in est.result_.edge_list} == pair.edges
    True
    """

    def __init__(
        self,
        *,
        method: Literal["order", "paper"] = "order",
        estimator: Literal["dantzig", "dtrace", "kliep", "plugin"] = "dantzig",
        penalty: Penalty | None = None,
        threshold: float | None = None,
        noise: Literal["auto", "equal"] = "auto",
        order: Sequence[str] | None = None,
        tiers: Tiers | None = None,
        required: Sequence[Direction] | None = None,
        forbidden: Sequence[Direction] | None = None,
        covariance: Covariance = "sample",
        effective_samples: float | tuple[float, float] | Literal["auto"] | None = None,
        screen: int | None = None,
        confidence: int | None = None,
        fdr: float | None = None,
        rng: np.random.Generator | int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.method = method
        self.estimator = estimator
        self.penalty = penalty
        self.threshold = threshold
        self.noise = noise
        self.order = order
        self.tiers = tiers
        self.required = required
        self.forbidden = forbidden
        self.covariance = covariance
        self.effective_samples = effective_samples
        self.screen = screen
        self.confidence = confidence
        self.fdr = fdr
        self.rng = rng
        self.n_jobs = n_jobs

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, as scikit-learn asks for them."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name."""
        for name, value in parameters.items():
            if name not in self._parameter_names():
                known = join_names(self._parameter_names())
                raise InputError(f"{type(self).__name__} has no parameter {name!r}; it has {known}")
            setattr(self, name, value)
        return self

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return list(inspect.signature(cls).parameters)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.get_params().items())})"

    def _repr_html_(self) -> str:
        from diffdag.report.notebook import estimator_html  # noqa: PLC0415

        return estimator_html(self)

    def fit(
        self,
        first: Any,
        second: Any,
        *,
        columns: Sequence[str] | None = None,
        drop: Sequence[str] | None = None,
        missing: Missing = "error",
        intervals: Literal["split"] | None = None,
        progress: Progress = None,
        client: Client | None = None,
        **wishes: Unpack[Wishes],
    ) -> Self:
        """Fit two tables: arrays, or pandas, polars or Arrow tables or AnnData matched by column name.

        Parameters
        ----------
        first, second : array or table
            One row an observation; the numbers of rows may differ. Of AnnData ``X`` is used, and with
            ``adata.to_df(layer=...)`` another layer.
        columns, drop : sequence of str, optional
            Which columns to compare, or to leave out.
        missing : {"error", "drop"}
            What to do about rows with missing values.
        intervals : "split", optional
            ``"order"`` only: find the changes on half of the rows and measure them on the others, for
            standard errors and 95 % intervals (``low``, ``high``) that know of no search.
        progress : bool or callable, optional
            True for bars on a terminal and in notebooks; a function is called with the number of steps done,
            their total, and what is being done, about 100 times for each: ``progress=print``.
        client : distributed.Client, optional
            A Dask cluster that fits the resamples.
        confidence : int, optional
            How many resamples of both tables to fit, 200 say: half of them bootstrap samples, from which each
            change gets the probability that it is right (docs/trust.md), half of them halves of the rows in
            complementary pairs, for a bound on false pairs (``result_.stability``). The estimator's own if
            left out.
        fdr : float, optional
            Report only edges of which no more than this share is expected to be false, 0.05 say. Asks for 200
            resamples unless `confidence` says how many. The estimator's own if left out.
        cutoff : float, optional
            Share of halves in which a pair has to be found to count as stable; 0.75 if left out.
        test : int or bool, optional
            Permutations for the test of no change at all (``result_.global_test``); 999 where resamples are
            asked for, else none.
        journal : path, optional
            A folder that keeps finished resamples: an interrupted run continues.
        points : int, optional
            Rows of each table that the answer, and so its report, may hold to show what the changed edges look
            like; 150 if left out, 0 for none.
        """
        own: Wishes = {"confidence": self.confidence, "fdr": self.fdr}
        asked: Wishes = {**own, **{key: value for key, value in wishes.items() if value is not None}}  # type: ignore[typeddict-item]
        from diffdag.trust import examine  # noqa: PLC0415 - resamples are fitted by this class

        self.check_parameters()
        tables = align_tables(first, second, columns=columns, drop=drop, missing=missing)
        workers: Workers = {"n_jobs": self.n_jobs, "client": client, "progress": progress}
        self.result_ = examine(self, tables, intervals, asked, workers)
        return self

    def fit_tables(self, tables: Tables, *, progress: Told | None = None) -> Self:
        """Fit two tables that are aligned already; the answer alone, without what `fit` adds to it."""
        self.check_parameters()
        knowledge = self._knowledge(tables.names)
        kept = self._screen_rows(tables, progress)
        before, after = self._moments(tables, kept)
        if kept is not None and len(kept.ranked) > (most := self._most(before.n, after.n)):
            kept = kept.at_most(most)  # ranks are worth fewer rows than there are
            before, after = self._moments(tables, kept)
        rows = (len(tables.first), len(tables.second))
        fewer = (before.n, after.n) != rows
        notes = (*tables.notes, *([_fewer_rows(rows, (before.n, after.n))] if fewer else []))
        return self._fit_moments(tables.names, before, after, knowledge, kept, notes, progress)

    def _moments(self, tables: Tables, kept: Screened | None) -> tuple[Moments, Moments]:
        """Moments of all variables, or of those that were kept."""
        return self.moments_of(tables, None if kept is None else kept.members)

    def moments_of(self, tables: Tables, columns: Sequence[int] | None = None) -> tuple[Moments, Moments]:
        """Moments of two tables, or of some of their columns, as the settings say."""
        chosen = slice(None) if columns is None else columns
        return table_moments(
            tables.first[:, chosen],
            tables.second[:, chosen],
            tables.names if columns is None else [tables.names[k] for k in columns],
            covariance=self.covariance,
            effective_samples=self.effective_samples,
        )

    @one_blas_thread()
    def fit_moments(
        self, first: Moments, second: Moments, *, checks: bool = True, progress: Told | None = None
    ) -> Self:
        """Fit the moments of two tables; the data are not needed.

        Options that act on rows, `covariance` and `effective_samples`, are not used; `confidence` and `fdr`
        are refused. `checks` is whether to look at the assumptions, as far as that needs no rows, and at the
        lines that changed.
        """
        self.check_parameters()
        for name in ("confidence", "fdr"):
            if getattr(self, name) is not None:
                raise InputError(f"{name} needs rows to resample, and only moments are known; leave it out")
        check_same_columns(first.names, second.names, ("first", "second"))
        knowledge = self._knowledge(first.names)
        second = second.select(first.names)
        self._fit_moments(first.names, first, second, knowledge, None, (), progress)
        if checks:
            one, two = _kept(first, self.result_), _kept(second, self.result_)
            self.result_ = replace(
                self.result_,
                checks=check_moments_only(one, two, self.result_),
                scatters=edge_scatters(self.result_, one, two),
            )
        return self

    def _screen_rows(self, tables: Tables, progress: Told | None) -> Screened | None:
        """Which variables to keep of tables with too many of them and fewer rows, straight from the rows.

        Nothing of the size of a covariance matrix is formed.
        """
        if self.method != "order" or len(tables.first) + len(tables.second) >= len(tables.names):
            return None
        from diffdag.ordersearch.screen import screen, silent  # noqa: PLC0415

        scores = table_scores(tables.first, tables.second, self.covariance)
        n1, n2 = (int(rows) for rows in independent_rows(self.effective_samples, scores))
        if len(tables.names) <= (most := self._most(n1, n2)):
            return None
        return screen(standardise_rows(*scores)[0], n1, n2, progress or silent).at_most(most)

    def _most(self, n1: int, n2: int) -> int:
        """So many variables are ordered."""
        from diffdag.ordersearch.screen import most_variables  # noqa: PLC0415

        most = most_variables(min(n1, n2))
        return most if self.screen is None else min(most, self.screen)

    def _fit_moments(
        self,
        names: tuple[str, ...],
        first: Moments,
        second: Moments,
        knowledge: BoolArray | None,
        kept: Screened | None,
        notes: tuple[str, ...],
        progress: Told | None,
    ) -> Self:
        """Fit the moments of all variables, or of those that were kept of them."""
        for moments, label in ((first, "first"), (second, "second")):
            check_moments(moments.names, moments.n, moments.scatter, label, mean=moments.mean)
        check_comparable(first, second)
        if self.method == "paper":
            result = paper.fit_samples(first, second, self._paper_settings())
        else:
            from diffdag.ordersearch import answer as ordersearch  # noqa: PLC0415 - numba takes a second to import
            from diffdag.ordersearch.screen import Screened, screen  # noqa: PLC0415

            settings = self._order_settings(progress)
            if kept is None and len(names) > (most := self._most(first.n, second.n)):
                kept = screen(standardise(first, second), first.n, second.n, settings.progress).at_most(most)
                chosen = [names[k] for k in kept.members]
                first, second = first.select(chosen), second.select(chosen)
            kept = kept or Screened(range(len(names)))
            before = _among(knowledge, kept.members)
            result = ordersearch.fit_samples(names, first, second, before, settings, kept)
        self.result_ = replace(result, notes=(*notes, *result.notes))
        return self

    def fit_population(self, first: LinearSEM, second: LinearSEM) -> Self:
        """Fit two known models: what the method finds with infinitely many rows.

        Weights are those of the models; entries of the precision difference are zero if they are rounding
        errors.
        """
        self.check_parameters()
        if first.names != second.names:
            raise InputError("the two models have different variables, or the same in another order")
        if self.method == "paper":
            self.result_ = paper.fit_models(first, second, self._paper_settings())
        else:
            from diffdag.ordersearch import answer as ordersearch  # noqa: PLC0415

            before = _among(self._knowledge(first.names), range(len(first.names)))
            self.result_ = ordersearch.fit_models(first, second, before, self._order_settings(None))
        return self

    def _paper_settings(self) -> paper.PaperSettings:
        equal = self.noise == "equal"
        return paper.PaperSettings(self.estimator, self.penalty, self.threshold, equal, self.n_jobs)

    def _knowledge(self, names: tuple[str, ...]) -> BoolArray | None:
        """Who has to precede whom; None if nothing is known."""
        known = {name: getattr(self, name) for name in KNOWLEDGE if getattr(self, name) is not None}
        return precedence(names, **known) if known and self.method == "order" else None

    def known_order(self, names: tuple[str, ...], columns: Sequence[int] | None) -> BoolArray:
        """Who has to precede whom among some columns, as far as that is known."""
        return _among(self._knowledge(names), range(len(names)) if columns is None else columns)

    def _order_settings(self, progress: Told | None) -> OrderSettings:
        from diffdag.ordersearch.answer import OrderSettings  # noqa: PLC0415
        from diffdag.ordersearch.screen import silent  # noqa: PLC0415

        known = tuple(name for name in KNOWLEDGE if getattr(self, name) is not None)
        rng = np.random.default_rng(0 if self.rng is None else self.rng)
        jobs = count_workers(self.n_jobs)
        factor = 1.0 if self.penalty is None else float(self.penalty)
        return OrderSettings(self.noise == "equal", rng, jobs, known, progress or silent, factor, self.screen)

    def check_parameters(self) -> None:
        """Refuse settings that no fit would accept."""
        for name, allowed in {
            "method": METHODS,
            "estimator": tuple(ESTIMATORS),
            "noise": ("auto", "equal"),
            "covariance": COVARIANCES,
        }.items():
            check_word(name, getattr(self, name), allowed)
        self._check_method_options()
        factor = self.penalty
        if self.method == "order" and factor is not None:
            number = isinstance(factor, (int, float, np.number)) and not isinstance(factor, bool)
            if not number or not 0 < factor < math.inf:  # type: ignore[operator]
                raise InputError(
                    f"penalty must be a number larger than 0, a multiple of the default; it is {factor!r}"
                )
        if self.confidence is not None or self.fdr is not None:
            from diffdag.trust import Plan  # noqa: PLC0415

            Plan.of(confidence=self.confidence, fdr=self.fdr)
        threshold, jobs = self.threshold, self.n_jobs
        number = threshold is None or isinstance(threshold, (int, float, np.number))
        if not number or (threshold is not None and not 0 <= threshold < math.inf):
            raise InputError(f"threshold must be a number, 0 or larger; it is {threshold!r}")
        check_rng(self.rng)
        most = self.screen
        if most is not None and (not isinstance(most, (int, np.integer)) or isinstance(most, bool) or most < 2):
            raise InputError(f"screen must be a whole number, 2 or larger, or None; it is {most!r}")
        if jobs is not None and (not isinstance(jobs, (int, np.integer)) or jobs == 0):
            raise InputError(f"n_jobs must be a whole number other than 0, or None; it is {jobs!r}")

    def _check_method_options(self) -> None:
        """Refuse options that the chosen method would not look at."""
        other = {"order": ("threshold",), "paper": (*KNOWLEDGE, "screen")}
        for name in other[self.method]:
            if getattr(self, name) is not None:
                known = "paper" if self.method == "order" else "order"
                raise InputError(f"method='{self.method}' has no {name}; leave it out, or use method='{known}'")


def _kept(moments: Moments, result: DifferenceResult) -> Moments:
    """Moments of the variables that were not screened out."""
    columns = kept_columns(result)
    return moments if columns is None else moments.select([moments.names[k] for k in columns])


def _among(knowledge: BoolArray | None, members: Sequence[int]) -> BoolArray:
    """What is known about the order of some of the variables."""
    if knowledge is None:
        return np.zeros((len(members), len(members)), bool)
    return np.ascontiguousarray(knowledge[np.ix_(members, members)])


def _fewer_rows(rows: tuple[int, int], worth: tuple[int, int]) -> str:
    return (
        f"the {rows[0]} and {rows[1]} rows are worth {worth[0]} and {worth[1]} independent ones with a sample "
        "covariance (options covariance and effective_samples)"
    )
