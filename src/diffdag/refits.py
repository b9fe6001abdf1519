"""Many fits of one model: on resamples of the rows, and along a path of settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from diffdag._base.checks import check_fits
from diffdag._base.errors import InputError
from diffdag._base.progress import Advance, Progress, Unthrottled
from diffdag._base.words import Option, named
from diffdag.estimator import DifferenceDAG, as_model
from diffdag.pipeline import (
    ModelOptions,
    Refit,
    base_settings,
    effective_rows,
    inflation_of,
    prepare,
    prepare_moments,
    refuse_rows,
    search,
    suited,
)
from diffdag.result import PathResult
from diffdag.tables.align import Tables, align_tables
from diffdag.tables.coding import Levels
from diffdag.tables.covariates import covariates_of_moments
from diffdag.tables.moments import Moments, choose
from diffdag.trust.resampling import Drawing, Kind, Resamples, check_journal, resample_tables
from diffdag.trust.sensitivity import SettingMultiples
from diffdag.trust.settings_path import By, check_path_options, follow_path


def resample_fits(
    first: Any,
    second: Any,
    *,
    model: DifferenceDAG | None = None,
    fits: int = 200,
    kind: Kind = "bootstrap",
    varied: bool = False,
    journal: str | Path | None = None,
    progress: Progress = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    levels: Levels | None = None,
) -> Resamples:
    """Fit one model to many resamples of two tables.

    Parameters
    ----------
    first, second : array or table
        As for `DifferenceDAG.fit`.
    model : DifferenceDAG, optional
        What to fit; the default one if left out. Its `rng` draws the resamples and its `n_jobs` are processes.
        What a result is examined with (`resamples`, `fdr`, `permutations`, `intervals`, `controls`) is refused.
        With `effective_samples` each fit draws as many rows as the tables are worth, and takes them for
        independent.
    fits : int
        Number of resamples.
    kind : {"bootstrap", "half"}
        As many rows as there are, drawn with replacement; or half of the rows, drawn without, such that every
        second fit takes rows that the fit before it did not.
    varied : bool
        Whether every second fit varies the specification as well: columns left out, values winsorised, or rows
        outside a range left out, by turns.
    journal : path, optional
        A file that keeps finished fits: an interrupted run continues, and a finished one can be given more.
    progress : bool or callable, optional
        True for a bar on a terminal; a function is called with the fits done, their number, and what they are.
    columns, drop, levels
        As for `DifferenceDAG.fit`.

    Returns
    -------
    Resamples
        It depends on neither the number of processes nor interruptions.

    Examples
    --------
    >>> import diffdag as dd
    >>> from diffdag.refits import resample_fits
    >>> pair = dd.simulate_pair(p=5, neighbours=2, changes=1, weights=(0.8, 1.0), rng=3)
    >>> tables = pair.first.sample(1000, rng=1), pair.second.sample(1000, rng=2)
    >>> best = resample_fits(*tables, fits=10).edges.iloc[0]
    >>> (best["source"], best["target"]) in pair.edges, float(best["found"])
    (True, 1.0)
    """
    if isinstance(first, Moments) or isinstance(second, Moments):
        raise InputError("moments cannot be resampled; give the two tables of rows")
    model = as_model(model)
    options = model.model_options()
    tables = align_tables(first, second, columns=columns, drop=drop, levels=levels, **model.alignment())
    _check_options(model, options, tables)
    options.precedence(tables.names)  # refuse at once what every fit would refuse
    check_fits("fits", fits, least=1)
    drawing = Drawing.of(tables.names, kind, effective_rows(tables, options), options.rng, varied)
    check_journal(tables, Refit.of(options), drawing, journal)
    refit = Refit.of(options, fit=search(prepare(tables, options), options))
    jobs = options.n_jobs
    return resample_tables(tables, refit, fits, drawing, journal=journal, n_jobs=jobs, progress=progress)


def settings_path(
    first: Any,
    second: Any,
    *,
    model: DifferenceDAG | None = None,
    by: By = "ebic",
    penalties: Sequence[float] | None = None,
    thresholds: Sequence[float] | None = None,
    fits: int = 50,
    journal: str | Path | None = None,
    progress: Progress = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    levels: Levels | None = None,
) -> PathResult:
    """Fit along a path of settings, choose one from the data, and say what depends on it.

    Parameters
    ----------
    first, second : array, table or Moments
        As for `DifferenceDAG.fit`; moments only with ``by="ebic"``.
    model : DifferenceDAG, optional
        What to fit; the default one if left out. Its own penalty and threshold are the default that all others
        are multiples of. Its `n_jobs` are settings, or halves, at a time. What a result is examined with
        (`resamples`, `fdr`, `permutations`, `intervals`, `controls`) is refused.
    by : {"ebic", "stability"}, default "ebic"
        Extended BIC; or agreement of fits to halves of the rows, which takes `fits` times as long.
    penalties, thresholds : sequence of float, optional
        Multiples of the default to try; 1 always is. Thresholds are for ``method="paper"``.
    fits : int, default 50
        Halves per setting, with ``by="stability"``.
    journal : path, optional
        A folder that keeps finished halves: an interrupted run continues.
    progress : bool or callable, optional
        True for a bar on a terminal; a function is called with the fits done and their number.
    columns, drop, levels : optional
        As for `DifferenceDAG.fit`.

    Returns
    -------
    PathResult
        The settings tried, the one chosen, its result, and where each edge is found.

    See Also
    --------
    DifferenceDAG : its `resamples` say how far the result depends on the rows.

    Examples
    --------
    >>> import diffdag as dd
    >>> pair = dd.simulate_pair(p=5, neighbours=2, changes=1, weights=(0.8, 1.0), rng=3)
    >>> tables = pair.first.sample(1000, rng=1), pair.second.sample(1000, rng=2)
    >>> path = dd.settings_path(*tables, penalties=[0.5, 2])
    >>> path.chosen, path.agrees
    ({'penalty': 1.0}, True)
    >>> path.edges[["from", "to", "share", "in_default"]].values.tolist()
    [[0.5, 2.0, 1.0, True]]
    """
    model = as_model(model)
    options = model.model_options()
    given = {"penalty": penalties, "threshold": thresholds}
    check_path_options(options.method, by, given, fits)
    if isinstance(options.rng, np.random.Generator):
        options = replace(options, rng=int(options.rng.integers(2**63)))
    tables: Tables | None = None
    if isinstance(first, Moments) and isinstance(second, Moments):
        refuse_rows(options, model.assessment(None))
        covariates = covariates_of_moments(**model.alignment())
        prepared = prepare_moments(
            *choose(first, second, columns, drop, covariates), options, adjust=covariates
        )
    else:
        tables = align_tables(first, second, columns=columns, drop=drop, levels=levels, **model.alignment())
        _check_options(model, options, tables)
        prepared = prepare(tables, options)
    base = base_settings(prepared, options)
    if tables is None and by == "stability":
        raise InputError("moments cannot be resampled; give the two tables of rows, or ", Option("by", "ebic"))
    if tables is None or by == "ebic":
        halves = None
    else:
        drawing = Drawing.of(tables.names, "half", effective_rows(tables, options), options.rng)
        rows, inflation = tables, inflation_of(prepared, options)

        def refit(at: SettingMultiples) -> Refit:
            own = Refit.of(replace(options, **base.at(at, half=True)))
            return replace(own, inflation=inflation)

        def kept_at(at: SettingMultiples) -> Path | None:
            return None if journal is None else Path(journal) / f"{at}.journal"

        def halves(at: SettingMultiples, advance: Advance) -> Resamples:
            place, told = kept_at(at), _passing_on(advance)
            return resample_tables(
                rows, refit(at), fits, drawing, journal=place, n_jobs=options.n_jobs, progress=told
            )

        default = SettingMultiples()  # one journal speaks for all of the folder
        check_journal(tables, refit(default), drawing, kept_at(default))
    path = follow_path(
        base,
        lambda values: search(prepared, replace(options, **values)),
        by=by,
        multiples=given,
        halves=halves,
        fits=fits,
        n_jobs=options.n_jobs,
        progress=progress,
    )
    return PathResult.of(path)


def _check_options(model: DifferenceDAG, options: ModelOptions, tables: Tables) -> None:
    """Refuse what `fit` refuses, and what only a result of `fit` is examined with."""
    wanted = model.assessment(None)
    for name in wanted.of_rows:
        raise InputError(named(name), " is for fit, and not used here; leave it out of the model")
    suited(wanted, options, tables)


def _passing_on(advance: Advance) -> Unthrottled:
    """Tell of the steps of a part as steps of the whole, those of an earlier run too."""
    before = 0

    def tell(done: int, total: int | None, what: str) -> None:
        nonlocal before
        if done > before:
            advance(done - before)
        before = done

    return Unthrottled(tell)
