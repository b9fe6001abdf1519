"""How far an answer can be trusted: confidence of each change, the global test, a list with few false edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np

from diffdag.changes import Edge
from diffdag.confidence import DIRECTED, MEAN, NOISE, PAIR
from diffdag.data import Tables
from diffdag.diagnostics import check_tables
from diffdag.estimator import KNOWLEDGE
from diffdag.evidence import Sensitivity, Share, Stability
from diffdag.parallel import one_blas_thread
from diffdag.path import settings_path
from diffdag.permutation import permute_tables
from diffdag.progress import Progress, Told, follow, show_progress
from diffdag.resampling import Kind, NoneFitted, Resamples, Workers, check_journal, resample_tables
from diffdag.result import DifferenceResult, kept_columns
from diffdag.robust import RANKED, Covariance, table_scores
from diffdag.scatter import POINTS, FloatArray, choose_rows, edge_scatters
from diffdag.sensitivity import sensitivity_note
from diffdag.splitting import measure, split_rows
from diffdag.stability import expected_false_bound
from diffdag.validation import InputError, join_names, option_words, plural

if TYPE_CHECKING:
    from diffdag.estimator import DifferenceDAG

FITS = 200
PERMUTATIONS = 999
CUTOFF = 0.75
LEAST_FITS = 20
UNCALIBRATED = "confidence is calibrated for the order search; for the paper's method take it as a rank"
NEARBY = (0.6, 0.8, 1.25, 1.6)  # multiples of the penalty at which the answer is looked at again


class Wishes(TypedDict, total=False):
    """What `DifferenceDAG.fit` can be asked for besides the answer."""

    confidence: int | None
    fdr: float | None
    cutoff: float | None
    test: int | bool | None
    journal: str | Path | None
    points: int | None


@dataclass(frozen=True)
class Plan:
    """What was asked for, checked."""

    fits: int  # 0 for none
    fdr: float | None
    cutoff: float
    permutations: int  # 0 for none
    journal: Path | None
    points: int  # rows of each table that the answer may show

    @classmethod
    def of(cls, **wishes: Unpack[Wishes]) -> Plan:
        """Check the wishes; a false-discovery target asks for resamples, and resamples for the global test."""
        unknown = [name for name in wishes if name not in Wishes.__annotations__]
        if unknown:
            raise InputError(f"fit has no option {unknown[0]!r}; it has {', '.join(Wishes.__annotations__)}")
        fits, fdr, test = wishes.get("confidence"), wishes.get("fdr"), wishes.get("test")
        cutoff = CUTOFF if wishes.get("cutoff") is None else wishes["cutoff"]
        if fits is not None and (not _is_number(fits, whole=True) or fits < LEAST_FITS):
            raise InputError(f"confidence must be a whole number of fits, {LEAST_FITS} or more; it is {fits!r}")
        if fdr is not None and (not _is_number(fdr) or not 0 < fdr < 1):
            raise InputError(f"fdr must be a number between 0 and 1, such as 0.05; it is {fdr!r}")
        if wishes.get("cutoff") is not None and fits is None and fdr is None:
            raise InputError("cutoff is about resamples; ask for some with confidence, or leave it out")
        if not _is_number(cutoff) or not 0.5 < cutoff <= 1:  # type: ignore[operator]
            raise InputError(f"cutoff must be larger than 0.5, and 1 at most; it is {cutoff!r}")
        if test is not None and test is not True and test is not False and not _is_number(test, whole=True):
            raise InputError(f"test must be a number of permutations, or True or False; it is {test!r}")
        fits = fits if fits is not None else FITS if fdr is not None else 0
        wanted = bool(fits) if test is None else test
        permutations = PERMUTATIONS if wanted is True else int(wanted)
        if permutations and permutations < LEAST_FITS - 1:
            raise InputError(f"test must be {LEAST_FITS - 1} permutations or more; it is {test!r}")
        journal = wishes.get("journal")
        if journal is not None and not isinstance(journal, (str, Path)):
            raise InputError(f"journal must be the path of a folder; it is {journal!r}")
        if journal is not None and Path(journal).is_file():
            raise InputError(f"journal '{journal}' is a file; give a folder")
        points = POINTS if wishes.get("points") is None else wishes["points"]
        if not _is_number(points, whole=True) or points < 0:  # type: ignore[operator]
            raise InputError(f"points must be a whole number of rows, 0 for none; it is {points!r}")
        place = None if journal is None else Path(journal)
        return cls(int(fits), fdr, float(cutoff), permutations, place, int(points))  # type: ignore[arg-type]

    @property
    def fits_of(self) -> dict[Kind, int]:
        """How many resamples of each kind."""
        halves = self.fits // 4 * 2
        return {"bootstrap": self.fits - halves, "half": halves} if self.fits else {}

    def journal_of(self, kind: Kind) -> Path | None:
        """Where finished fits of one kind are kept."""
        return None if self.journal is None else self.journal / f"resamples-{kind}.journal"


def _is_number(value: object, whole: bool = False) -> bool:
    kinds = (int, np.integer) if whole else (int, float, np.number)
    return isinstance(value, kinds) and not isinstance(value, bool)


def examine(
    model: DifferenceDAG, tables: Tables, intervals: str | None, wishes: Wishes, workers: Workers
) -> DifferenceResult:
    """Fit two tables, and add all that was asked for, and the checks."""
    plan = Plan.of(**wishes)
    if model.effective_samples is not None and plan.permutations:
        plan = _without_test(plan, asked=wishes.get("test"))
    if intervals is not None:
        _check_split(model, intervals)
    with one_blas_thread(), follow(workers.get("progress"), "Estimating the difference") as told:
        return _examine(model, tables, plan, intervals is not None, told, {**workers, "progress": told})


def _examine(
    model: DifferenceDAG, tables: Tables, plan: Plan, split: bool, told: Told | None, workers: Workers
) -> DifferenceResult:
    held_out = None
    if split:
        tables, held_out = split_rows(tables, model.rng)
    check_journals(model, tables, plan)
    result = model.fit_tables(tables, progress=told).result_
    said = {name: getattr(model, name) for name in KNOWLEDGE if getattr(model, name) is not None}
    if model.covariance != "sample":
        said["covariance"] = model.covariance
    result = replace(result, settings={**result.settings, **said})
    result = weigh(result, tables, model, plan, **workers)
    kept = kept_columns(result)
    moments = model.moments_of(tables, kept)
    measured_on, measured = tables, moments
    if held_out is not None:
        known = model.known_order(tables.names, kept)
        measured_on, measured = held_out, model.moments_of(held_out, kept)
        result = measure(result, moments, *measured, known)
    with show_progress(told, "Checking assumptions", 1) as advance:
        fitted = replace(result, checks=check_tables(tables, *moments, result, given=model.get_params()))
        advance()
    result = fitted if plan.fdr is None else control_false_edges(fitted, plan.fdr)
    if not result.edge_list:
        return result
    rows = _rows_to_show(measured_on, kept, model.covariance, plan.points)
    ranked = model.covariance in RANKED
    return replace(result, scatters=edge_scatters(result, *measured, rows, scores=ranked, fitted=fitted))


def check_journals(model: DifferenceDAG, tables: Tables, plan: Plan, *, searched: bool = False) -> None:
    """Refuse journals of other runs, as far as that can be told before a search for a common order."""
    for kind in plan.fits_of:
        check_journal(tables, model, kind, _seed(model), plan.journal_of(kind), searched=searched)


def _rows_to_show(
    tables: Tables, columns: Sequence[int] | None, covariance: Covariance, points: int
) -> tuple[FloatArray, FloatArray]:
    """Some rows of both tables, on the scale they were compared on."""
    both = (tables.first, tables.second)
    if covariance == "sample":  # the other scales take all rows to find
        both = (choose_rows(both[0], points), choose_rows(both[1], points))
    if columns is not None:
        both = (both[0][:, columns], both[1][:, columns])
    one, two = table_scores(*both, covariance) if points else both
    return choose_rows(one, points), choose_rows(two, points)


def _without_test(plan: Plan, asked: object) -> Plan:
    if asked is not None:
        raise InputError(
            "rows of a time series cannot be permuted; leave test out where effective_samples is given"
        )
    return replace(plan, permutations=0)


def _check_split(model: DifferenceDAG, intervals: str) -> None:
    if intervals != "split":
        raise InputError(f"intervals must be 'split' or None; it is {intervals!r}")
    if model.method != "order":
        raise InputError(f"split intervals need {option_words('method', 'order')}; leave them out")
    if model.effective_samples is not None:
        raise InputError("the rows of a time series cannot be split at random; leave split intervals out")


def weigh(
    result: DifferenceResult,
    tables: Tables,
    model: DifferenceDAG,
    plan: Plan,
    **workers: Unpack[Workers],
) -> DifferenceResult:
    """Add the global test, confidence and sensitivity to an answer, as far as they were asked for."""
    rng = _seed(model)
    if plan.permutations:
        tested = permute_tables(tables, plan.permutations, rng, progress=workers.get("progress"))
        result = replace(result, global_test=tested)
    if not plan.fits:
        return result
    try:
        drawn, split = (
            resample_tables(tables, model, fits, kind, rng, plan.journal_of(kind), **workers)
            for kind, fits in plan.fits_of.items()
        )
    except NoneFitted as error:
        return replace(result, notes=(*result.notes, f"there is no confidence: {error}"))
    result = with_confidence(result, drawn, split, plan.cutoff)
    if model.method == "paper":
        result = replace(result, notes=(*result.notes, UNCALIBRATED))
    return replace(result, sensitivity=_sensitivity(tables, model, workers.get("progress")))


def _seed(model: DifferenceDAG) -> np.random.Generator | int:
    return 0 if model.rng is None else model.rng


def _sensitivity(tables: Tables, model: DifferenceDAG, progress: Progress) -> Sensitivity:
    """How far the answer depends on the penalty or the threshold."""
    import pandas as pd  # noqa: PLC0415

    first, second = (pd.DataFrame(table, columns=list(tables.names)) for table in (tables.first, tables.second))
    along, aside = ("thresholds", "penalties") if model.method == "paper" else ("penalties", "sizes")
    tried: dict[str, Any] = {along: NEARBY, aside: (1.0,), "progress": progress}
    path = settings_path(first, second, model=model, rng=model.rng, n_jobs=model.n_jobs, **tried)
    multiple = path.multiple(path.settings[path.chosen_at])
    return Sensitivity(path.axis, sensitivity_note(path), multiple, path.agrees)


def with_confidence(
    result: DifferenceResult, bootstrap: Resamples, halves: Resamples, cutoff: float
) -> DifferenceResult:
    """The answer with a probability for each change, and a bound on false pairs among the stable ones."""
    fits = bootstrap.answers
    shares = {frozenset((share.source, share.target)): share for share in bootstrap.shares}
    noise, mean = bootstrap.share_of("noise"), bootstrap.share_of("mean")
    return replace(
        result,
        edge_list=tuple(replace(edge, confidence=_confidence(edge, shares, fits)) for edge in result.edge_list),
        noise_list=tuple(
            replace(change, confidence=NOISE(noise.get(change.variable, 0.0), fits))
            for change in result.noise_list
        ),
        mean_list=tuple(
            replace(change, confidence=MEAN(mean.get(change.variable, 0.0), fits))
            for change in result.mean_list
        ),
        stability=_stability(bootstrap, halves, cutoff),
        settings={**result.settings, "confidence_fits": fits},
    )


def _confidence(edge: Edge, shares: dict[frozenset[str], Share], fits: int) -> float:
    share = shares.get(frozenset((edge.source, edge.target)))
    if share is None:
        return PAIR(0.0, fits)
    if not edge.directed:
        return PAIR(share.found, fits)
    return DIRECTED(share.directed if edge.source == share.source else share.reversed, fits)


def _stability(bootstrap: Resamples, halves: Resamples, cutoff: float) -> Stability:
    p, pairs = len(bootstrap.names), halves.answers // 2
    found = sum(len(edges) for edges in halves.found) / halves.answers
    stable = [share for share in halves.shares if share.found >= cutoff]
    return Stability(
        fits=bootstrap.answers,
        shares=bootstrap.shares,
        pairs=pairs,
        stable=tuple(f"{share.source} -> {share.target}" for share in stable),
        cutoff=cutoff,
        expected_false=expected_false_bound(found, p * (p - 1) // 2, cutoff, pairs),
        failed=len(bootstrap.failed) + len(halves.failed),
    )


def control_false_edges(result: DifferenceResult, fdr: float) -> DifferenceResult:
    """Keep edges of which no more than a share `fdr` is expected to be false.

    The surest come first, as long as the expected share of false ones, the mean of one minus the confidence,
    stays within the target. One whose direction is not sure enough stays as an undirected one if its pair is.
    Without confidence nothing is kept.
    """
    directed = sorted(result.edge_list, key=lambda edge: -(edge.confidence or 0.0))
    kept: list[Edge] = []
    doubt = 0.0
    for edge in directed:
        for claim in _claims(edge, result.stability):
            if doubt + 1 - (claim.confidence or 0.0) <= fdr * (len(kept) + 1):
                kept.append(claim)
                doubt += 1 - (claim.confidence or 0.0)
                break
    place = {(edge.source, edge.target): k for k, edge in enumerate(result.edge_list)}
    kept.sort(key=lambda edge: place.get((edge.source, edge.target), place.get((edge.target, edge.source), 0)))
    return _with_edges(result, kept, fdr)


def _claims(edge: Edge, stability: Stability | None) -> Iterator[Edge]:
    """The edge, and what remains of it if its direction is not claimed."""
    yield edge
    if edge.directed and stability is not None:
        for share in stability.shares:
            if {share.source, share.target} == {edge.source, edge.target}:
                confidence = PAIR(share.found, stability.fits)
                yield Edge(edge.source, edge.target, directed=False, confidence=confidence)


def _with_edges(result: DifferenceResult, edges: Sequence[Edge], fdr: float) -> DifferenceResult:
    """The answer with fewer edges, and everything else in accord with that."""
    position = {name: k for k, name in enumerate(result.variables)}
    edges = [
        edge
        if edge.directed or position[edge.source] < position[edge.target]
        else replace(edge, source=edge.target, target=edge.source)
        for edge in edges
    ]
    ends = {name for edge in edges for name in (edge.source, edge.target)}
    loose = {name for edge in edges if not edge.directed for name in (edge.source, edge.target)}
    shown = {(edge.source, edge.target, edge.directed) for edge in edges}
    idle = (
        set(result.unresolved).union(*result.order) - ends - {change.variable for change in result.noise_list}
    )
    return replace(
        result,
        edge_list=tuple(edges),
        invariant=tuple(name for name in result.variables if name in idle.union(result.invariant)),
        unresolved=tuple(name for name in result.variables if name in loose),
        order=_layers([edge for edge in edges if edge.directed], ends - loose, result.variables),
        settings={**result.settings, "fdr": fdr, "edges_before_fdr": len(result.edge_list)},
        notes=(*result.notes, *_left_out(result.edge_list, edges, fdr)),
        scatters=tuple(s for s in result.scatters if (s.source, s.target, s.adjusted) in shown),
    )


def _layers(
    edges: Sequence[Edge], members: set[str], variables: tuple[str, ...]
) -> tuple[tuple[str, ...], ...]:
    """Variables by the longest way from a cause to them."""
    layer = dict.fromkeys(members, 0)
    for _ in layer:
        for edge in edges:
            if edge.source in layer and edge.target in layer:
                layer[edge.target] = max(layer[edge.target], layer[edge.source] + 1)
    depth = range(max(layer.values(), default=-1) + 1)
    return tuple(tuple(name for name in variables if layer.get(name) == level) for level in depth)


def _left_out(before: Sequence[Edge], after: Sequence[Edge], fdr: float) -> Iterator[str]:
    """What a target for false edges took away."""
    left = {frozenset((edge.source, edge.target)): edge for edge in after}
    gone = [str(e) for e in before if frozenset((e.source, e.target)) not in left]
    turned = [
        str(e)
        for e in before
        if e.directed and str(e) not in gone and not left[frozenset((e.source, e.target))].directed
    ]
    if gone:
        yield (
            f"{plural(len(gone), 'edge')} left out to keep the expected share of false ones at {fdr:g}: "
            f"{join_names(gone)}; notes and checks are about the list before that"
        )
    if turned:
        yield f"not sure enough of their direction for a share of false edges of {fdr:g}: {join_names(turned)}"
