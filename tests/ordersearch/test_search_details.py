"""Parts of the search and of its fit against regressions written out, and limits that are just reached."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from diffdag.ordersearch.blocks import _Judge
from diffdag.ordersearch.parent_sets import Family
from diffdag.pipeline import ModelOptions, prepare, search
from diffdag.tables.align import align_tables
from diffdag.tables.moments import Moments


def rows(seed, n=(120, 90), p=7):
    """Two tables of a chain with shortcuts; the effect of the first on the third differs."""
    rng = np.random.default_rng(seed)
    found = []
    for k, own in enumerate(n):
        table = rng.standard_normal((own, p))
        for j in range(1, p):
            table[:, j] += 0.7 * table[:, j - 1]
        table[:, 2] += k * table[:, 0]
        found.append(table)
    return found


def centred(tables):
    return np.vstack([table - table.mean(axis=0) for table in tables])


@pytest.mark.parametrize(("target", "source", "others"), [(3, 2, [0, 1]), (5, 0, [4]), (6, 5, [])])
def test_an_effect_gains_what_its_t_test_says(target, source, others):
    tables = rows(1)
    judge = _Judge(*(Moments.from_array(table) for table in tables), multiple=1.0, most=9.0)
    both = centred(tables)
    regressors = [*others, source]
    design = both[:, regressors]
    inverse = np.linalg.inv(design.T @ design)
    beta = inverse @ design.T @ both[:, target]
    left = both[:, target] - design @ beta
    free = 210 - 2 - len(regressors)
    pvalue = 2 * stats.t.sf(abs(beta[-1]) / math.sqrt(left @ left / free * inverse[-1, -1]), free)
    gain = stats.chi2.isf(pvalue, 1) / 2
    assert judge.effect(target, source, regressors) == pytest.approx(gain, rel=1e-6)


@pytest.mark.parametrize(
    ("target", "causes", "earlier"),
    [(6, (0,), range(6)), (4, (), [0, 1, 2, 5]), (3, (1, 2), range(3)), (1, (0,), [0])],
)
def test_what_explains_a_variable_besides_its_causes_joins_one_by_one(target, causes, earlier):
    tables = rows(2)
    judge = _Judge(*(Moments.from_array(table) for table in tables), multiple=1.0, most=9.0)
    both, earlier = centred(tables), list(earlier)
    others = [k for k in earlier if k not in causes]

    def squares(some):
        design = both[:, [*causes, *some]]
        if not design.shape[1]:
            return float(both[:, target] @ both[:, target])
        return float(np.linalg.lstsq(design, both[:, target], rcond=None)[1][0])

    chosen, penalty = [], math.log(max(len(others), 2)) + math.log(210) / 2
    while rest := [k for k in others if k not in chosen]:
        best = min(rest, key=lambda k: squares([*chosen, k]))
        if 210 / 2 * math.log(squares(chosen) / squares([*chosen, best])) <= penalty:
            break
        chosen.append(best)
    assert judge.relevant(target, earlier, causes) == chosen


@pytest.mark.parametrize("mask", [0b111, 0b101, 0b000])
def test_a_predecessor_that_is_no_candidate_adds_what_a_larger_set_weighs(mask):
    table = centred([rows(3)[0]])
    n, p = table.shape
    table /= table.std(axis=0)
    scatter, target, candidates = table.T @ table, 4, [1, 3, 5]

    def weight(some, one=0.0):
        beta = np.linalg.solve(scatter[np.ix_(some, some)], scatter[some, target])
        left = scatter[target, target] - beta @ scatter[some, target]
        fit = (n - 1 - len(some)) / 2 * math.log1p(n) - (n - 1) / 2 * math.log(one + left)
        return fit - math.log(math.comb(p - 1, len(some)))

    family = Family.of(scatter, n, target, np.array(candidates))
    allowed = [k for at, k in enumerate(candidates) if mask >> at & 1]
    sets = [[k for at, k in enumerate(allowed) if bits >> at & 1] for bits in range(2 ** len(allowed))]
    best = max(sets, key=lambda some: weight(some, 1.0))
    earlier = np.array([k in (0, 1, 3, 6) for k in range(p)])
    gains = family.gains(mask, scatter, earlier)
    for k in range(p):
        if k in (0, 6):
            assert gains[k] == pytest.approx(weight([*best, k]) - weight(best), abs=1e-6)
        else:
            assert gains[k] == -math.inf


@pytest.fixture(scope="module")
def fit():
    options = ModelOptions()
    made = search(prepare(align_tables(*rows(4, (400, 300))), options), options)
    assert (2, 0) in made.optimum.margins
    return made


@pytest.mark.parametrize(("share", "observed"), [(0.5, 1.0), (1.0, 0.9)])
def test_what_the_rows_do_not_bear_out_falls(fit, share, observed):
    """Half a penalty is enough where all was observed, and a whole one where not."""
    inflation = fit.settings.inflation.change
    level = stats.chi2.sf(2 * share * fit.problem.unit / inflation, 1)
    known = None if observed == 1 else np.full((7, 7), observed)
    for pvalue, fallen in ((1.001 * level, True), (0.999 * level, False), (math.nan, True)):
        other = replace(fit, known_cells=known)
        for i, _ in fit.optimum.margins:
            other._regressed[i] = SimpleNamespace(
                delta_pvalue=lambda _, value=pvalue: value, gain_pvalue=pvalue
            )
        assert other.fallen == (frozenset(fit.optimum.margins) if fallen else frozenset())
    assert replace(fit, rows=None).fallen == frozenset()
    assert fit.fallen == frozenset()


def test_edges_of_a_result_are_found_where_margins_are_finite(fit):
    names, margins = fit.first.names, fit.optimum.margins
    finite = {edge: round(margin, 3) for edge, margin in margins.items() if math.isfinite(margin)}
    assert fit.margins == {f"{names[j]} -> {names[i]}": margin for (i, j), margin in finite.items()}
