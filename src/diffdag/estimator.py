"""`DifferenceDAG`: the parameters, and doors to the pipeline."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import fields, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from diffdag._base.checks import check_labels
from diffdag._base.errors import InputError, NotFittedError
from diffdag._base.progress import Progress, progress_callback
from diffdag._base.words import join_names
from diffdag.tables.align import align_tables
from diffdag.trust.options import Assessment

if TYPE_CHECKING:
    from diffdag.model.prior_knowledge import Direction, Tiers
    from diffdag.model.sem import LinearSEM
    from diffdag.pipeline import ModelOptions
    from diffdag.precision.api import Penalty
    from diffdag.result import DifferenceResult
    from diffdag.tables.coding import Levels
    from diffdag.tables.moments import Moments
    from diffdag.tables.problems import Missing
    from diffdag.tables.robust import Covariance
    from diffdag.tables.whiten import Whitening

ESTIMATING = "Estimating"


class DifferenceDAG:
    """Estimate the difference DAG of two conditions.

    Parameters
    ----------
    method : {"order", "paper"}, default "order"
        ``"order"`` searches over causal orders for the one along which least has to change (docs/order.md).
        ``"paper"`` is Algorithm 1 of Ghoshal, Bello and Honorio.
    estimator : {"dantzig", "dtrace", "kliep", "plugin"}, default "dantzig"
        ``"paper"`` only: how precision differences are estimated; see `diffdag.precision_difference`.
    penalty : float or str, optional
        ``"order"``: the penalty of a change, as a multiple of the default, at which false alarms are rare.
        ``"paper"``: fraction of the penalty that gives no change, or ``"rate:c"`` for ``c sqrt(log p / n)``; it
        is worked out once for all variables, and is then the same for every subset that the algorithm looks at.
    threshold : float, optional
        ``"paper"`` only: its epsilon, in units of partial correlations: entries up to this size count as zero.
    noise : {"auto", "equal"}, default "auto"
        ``"equal"`` if it is known that no noise variance differs between the conditions: more edges get a
        direction.
    order : sequence of str, optional
        ``"order"`` only: all variables, causes first, if the causal order is known.
    tiers : sequence of sequences of str, or mapping, optional
        ``"order"`` only: groups of variables, causes first ("genes before proteins before symptoms"), or the
        number of each variable's group. See `diffdag.model.prior_knowledge.precedence`.
    required, forbidden : sequence of pairs or "cause->effect", optional
        ``"order"`` only: directions that an effect between two variables must, or cannot, have.
    covariance : {"sample", "winsorised", "spearman"}, default "sample"
        How `fit` sums up the tables. ``"winsorised"`` clips outliers; ``"spearman"`` suits variables that went
        through an unknown increasing transformation, the same in both conditions. See
        `diffdag.tables.robust.table_moments`.
    effective_samples : float, pair of float or "auto", optional
        The number of independent rows that each table is worth, where rows are a time series; ``"auto"``
        estimates it from autocorrelations.
    whiten : {"ar", "differences"}, optional
        Take the memory of rows out, where these are a time series in the order of time: ``"ar"`` by an
        autoregression that is fitted to the first table and taken out of both, one for all variables or, where
        their memories differ, one for each; ``"differences"`` by differences from the row before, which see no
        moved levels. What is left counts as independent rows. See `diffdag.tables.whiten`.
    max_variables : int, optional
        ``"order"`` only: at most so many variables are kept, those that most seem to take part in a change;
        200 unless said otherwise, and never more than the rows of the smaller table allow. More than 200 are
        ordered in blocks.
    adjust : sequence of str, "hidden" or int, optional
        Covariates, such as age, sex and batch: columns of numbers or categories that are taken out of every
        variable, with coefficients that may differ between the conditions. They are not compared themselves.
        ``"hidden"``, alone or in the list, takes out hidden causes of many variables, as many as the data show,
        and a whole number so many. See `diffdag.tables.hidden`.
    cluster : str, optional
        The column that names what rows are nested in: donors, sites, litters, subjects. Effects are then those
        within them, and all errors, resamples and permutations go by them.
    missing : {"error", "drop", "em"}, default "error"
        What to do about rows with missing values: refuse them, leave them out, or estimate moments from all
        that was observed (expectation maximisation, if gaps depend on what was observed alone).
    resamples : int, optional
        Resamples of both tables to fit, 200 say: three of four are bootstrap samples, from which each change
        gets the probability that it is right (docs/trust.md), the others halves of the rows in complementary
        pairs, for a bound on false pairs (``result_.stability``). There are fewer where more change nothing.
    fdr : float, optional
        Report only edges of which no more than this share is expected to be false, 0.05 say. Asks for 200
        resamples unless `resamples` says how many.
    permutations : int, optional
        Permutations for the test of no change at all (``result_.global_test``), 0 for none; if left out, 999
        where resamples are asked for.
    intervals : "split", optional
        ``"order"`` only: find the changes on half of the rows and measure them on the others, for standard
        errors and 95 % intervals (``low``, ``high``) that account for the search.
    controls : int, optional
        ``"order"`` only: fits to random halves of each table in turn, in which nothing differs, 100 say. What
        they find is false, and is said in a note; where more than 5 % of them find anything, penalties are
        raised until no more do.
    stored_rows : int, optional
        Rows of each table that the result, and so its report, may hold to show what the changed edges look
        like; 150 if left out, 0 for none.
    rng : numpy.random.Generator or int, optional
        Source of randomness; None gives the same result every time.
    n_jobs : int, optional
        Workers, as in scikit-learn: None for one, -1 for one per core. The result does not depend on it.

    Attributes
    ----------
    result_ : DifferenceResult
        The result of the last fit. Settings that were None are chosen from the data and reported in
        ``result_.settings``.
    feature_names_in_ : ndarray of str
        The variables.
    n_features_in_ : int
        Their number.

    See Also
    --------
    fit_conditions : more than two conditions.
    settings_path : how far the result depends on the penalty.
    compare_methods : what other methods say about the same tables.

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
        whiten: Whitening | None = None,
        max_variables: int | None = None,
        adjust: Sequence[str] | int | None = None,
        cluster: str | None = None,
        missing: Missing = "error",
        resamples: int | None = None,
        fdr: float | None = None,
        permutations: int | None = None,
        intervals: Literal["split"] | None = None,
        controls: int | None = None,
        stored_rows: int | None = None,
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
        self.whiten = whiten
        self.max_variables = max_variables
        self.adjust = adjust
        self.cluster = cluster
        self.missing = missing
        self.resamples = resamples
        self.fdr = fdr
        self.permutations = permutations
        self.intervals = intervals
        self.controls = controls
        self.stored_rows = stored_rows
        self.rng = rng
        self.n_jobs = n_jobs

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, as scikit-learn asks for them; `deep` changes nothing."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **parameters: Any) -> Self:
        """Set `parameters` by name."""
        known = self.get_params()
        for name, value in parameters.items():
            if name not in known:
                raise InputError(f"{type(self).__name__} has no parameter {name!r}; it has {join_names(known)}")
            setattr(self, name, value)
        return self

    def changed_params(self) -> dict[str, Any]:
        """Return the parameters that are not the default."""
        known = {name: one.default for name, one in inspect.signature(type(self)).parameters.items()}
        own = self.get_params().items()  # of another type first: arrays cannot be asked whether they are equal
        return {k: value for k, value in own if type(value) is not type(known[k]) or value != known[k]}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.changed_params().items())})"

    def _repr_html_(self) -> str:
        from diffdag.report.html.notebook import estimator_html  # noqa: PLC0415 - for notebooks only

        return estimator_html(type(self).__name__, self.changed_params(), vars(self).get("result_"))

    def __getattr__(self, name: str) -> Any:
        if name in ("result_", "feature_names_in_", "n_features_in_"):
            raise NotFittedError(
                f"this {type(self).__name__} has no {name} yet; call fit(first, second), fit_moments or "
                "fit_population before"
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags  # noqa: PLC0415 - scikit-learn asks for them

        return Tags(estimator_type=None, target_tags=TargetTags(required=True), input_tags=InputTags())

    def __sklearn_is_fitted__(self) -> bool:
        return "result_" in vars(self)

    def fit(
        self,
        first: Any,
        second: Any,
        *,
        columns: Sequence[str] | None = None,
        drop: Sequence[str] | None = None,
        levels: Levels | None = None,
        labels: tuple[str, str] | None = None,
        journal: str | PathLike[str] | None = None,
        progress: Progress = None,
    ) -> Self:
        """Fit two tables: arrays, or pandas, polars or Arrow tables or AnnData matched by column name.

        Parameters
        ----------
        first, second : array or table
            One row per observation; the numbers of rows may differ. With fewer than 10 rows in one of them and
            20 or more in the other, only means are compared: ``result_.nodes`` ranks the variables whose own
            residual moved, and there are no edges (docs/howto/one_sample.md). Of AnnData ``X`` is used, and
            with ``adata.to_df(layer=...)`` another layer.
        columns, drop : sequence of str, optional
            Which columns to compare, or to leave out. Columns that are constant, count rows, hold times or text
            are left out by themselves, with a note, unless `columns` names them; text with two different values
            is coded 0 and 1.
        levels : mapping of str to sequence, optional
            Values of columns that are ordered categories, lowest first, to be coded 0, 1, ...:
            ``{"severity": ["mild", "moderate", "severe"]}``. Ordered categories of pandas, polars and Arrow
            know theirs.
        labels : pair of str, optional
            What to call the two conditions in messages, summary and report.
        journal : path, optional
            A folder that keeps finished resamples: an interrupted run continues.
        progress : bool or callable, optional
            True for bars on a terminal and in notebooks; a function is called with the number of steps done,
            their total, and what is being done, about 100 times for each: ``progress=print``.

        Returns
        -------
        DifferenceDAG
            Itself, with ``result_``.
        """
        called, wanted = check_labels(labels), self.assessment(journal)
        chosen: dict[str, Any] = {"columns": columns, "drop": drop, "levels": levels}
        few = [str(self.method), str(self.covariance)] == ["order", "sample"]
        tables = align_tables(first, second, **chosen, labels=called, few=few, **self.alignment())
        from diffdag.pipeline import fit_tables  # noqa: PLC0415 - after what fails at once

        options = self.model_options()
        with progress_callback(progress, ESTIMATING) as callback:
            result = fit_tables(tables, options, wanted, callback)
        return self._fitted(replace(result, labels=called))

    def fit_moments(
        self,
        first: Moments,
        second: Moments,
        *,
        labels: tuple[str, str] | None = None,
        progress: Progress = None,
    ) -> Self:
        """Fit the moments of two tables, and return the estimator itself; the rows are not needed.

        Covariates that the moments carry are taken out where `adjust` names them. Options that act on rows are
        refused: `covariance`, `effective_samples`, `cluster`, `missing`, `whiten`, `resamples`, `fdr`,
        `permutations`, `intervals` and `controls`.

        Parameters
        ----------
        first, second : Moments
            Over the same variables; levels of a category may differ.
        labels : pair of str, optional
        progress : bool or callable, optional
            As for `fit`.
        """
        from diffdag.pipeline import fit_moments  # noqa: PLC0415 - SciPy takes a moment to import
        from diffdag.tables.covariates import covariates_of_moments  # noqa: PLC0415

        called, covariates = check_labels(labels), covariates_of_moments(**self.alignment())
        options, wanted = self.model_options(), self.assessment(None)
        with progress_callback(progress, ESTIMATING) as callback:
            result = fit_moments(first, second, options, wanted, callback, called, covariates)
        return self._fitted(replace(result, labels=called))

    def fit_population(self, first: LinearSEM, second: LinearSEM) -> Self:
        """Fit two known models, as if rows were infinitely many, and return the estimator itself.

        Weights are those of the models; entries of the precision difference are zero if they are rounding
        errors. Options that act on rows, and `max_variables`, are refused.

        Parameters
        ----------
        first, second : LinearSEM
            Over the same variables, in the same order.
        """
        from diffdag.pipeline import fit_models, refuse_rows  # noqa: PLC0415 - SciPy takes a moment to import

        options, names = self.model_options(), ("adjust", "cluster", "whiten", "max_variables")
        given = [name for name in names if getattr(self, name) is not None]
        given += ["missing"] * (self.missing != "error")
        refuse_rows(options, self.assessment(None), "models have none", given)
        return self._fitted(fit_models(first, second, options))

    def model_options(self) -> ModelOptions:
        """Return the options of the model, checked."""
        from diffdag.pipeline import ModelOptions  # noqa: PLC0415 - SciPy takes a moment to import

        return ModelOptions(**{field.name: getattr(self, field.name) for field in fields(ModelOptions)})

    def alignment(self) -> dict[str, Any]:
        """Return how tables are read: covariates, units of rows, and what is done about gaps and memory."""
        names = ("adjust", "cluster", "missing", "whiten")
        return {name: getattr(self, name) for name in names}

    def assessment(self, journal: str | PathLike[str] | None) -> Assessment:
        """Return what a result is examined with, checked; `journal` is as for `fit`."""
        own = {field.name: getattr(self, field.name) for field in fields(Assessment) if field.name != "journal"}
        return Assessment(**own, journal=Path(journal) if isinstance(journal, PathLike) else journal)

    def _fitted(self, result: DifferenceResult) -> Self:
        self.result_ = result
        self.feature_names_in_ = np.array(result.variables, dtype=object)
        self.n_features_in_ = len(result.variables)
        return self


def as_model(model: object) -> DifferenceDAG:
    """The model that another function was given, or else the default one."""
    if model is None:
        return DifferenceDAG()
    if not isinstance(model, DifferenceDAG):
        raise InputError(f"model must be a DifferenceDAG; it is {model!r}")
    return model
