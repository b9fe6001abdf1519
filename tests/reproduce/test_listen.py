"""CLIME, LiSTEN, and its form with inverses and tests."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog

import diffdag as dd
from diffdag.reproduce.methods import find_method
from diffdag.reproduce.methods.clime import clime_columns
from diffdag.reproduce.methods.listen import _tested_adjacency, bottom_up, listen, terminal_weights
from diffdag.reproduce.scoring import score


def covariance(seed, p=8, n=200):
    rng = np.random.default_rng([822_300, seed])
    return dd.simulate_pair(p, neighbours=4, rng=rng).first.sample_moments(n, rng).covariance()


@pytest.mark.parametrize("penalty", [0.3, 0.05, 0.001])
@pytest.mark.parametrize("seed", range(3))
def test_clime_against_scipy(seed, penalty):
    sigma = covariance(seed)
    p = len(sigma)
    found = clime_columns(sigma, penalty, range(p))
    assert np.abs(sigma @ found - np.eye(p)).max() <= penalty + 1e-8
    for j, unit in enumerate(np.eye(p)):
        both = np.hstack([sigma, -sigma])
        bounds = np.concatenate([unit + penalty, penalty - unit])
        reference = linprog(np.ones(2 * p), A_ub=np.vstack([both, -both]), b_ub=bounds, method="highs")
        assert np.abs(found[:, j]).sum() == pytest.approx(reference.fun, abs=1e-7)


def test_clime_without_penalty_is_the_inverse():
    sigma = covariance(0)
    assert clime_columns(sigma, 0.0, [2, 5]) == pytest.approx(np.linalg.inv(sigma)[:, [2, 5]], abs=1e-6)


def test_clime_has_no_units():
    sigma = covariance(1)
    assert 7 * clime_columns(7 * sigma, 0.1, [0]) == pytest.approx(clime_columns(sigma, 0.1, [0]), abs=1e-6)


def test_clime_says_when_there_is_no_solution():
    with pytest.raises(dd.InputError, match=r"no solution at a penalty of 0\.01"):
        clime_columns(np.ones((3, 3)), 0.01, [0])


def test_exact_covariances_give_the_weights():
    sem = dd.simulate_pair(8, neighbours=4, rng=822_400).first
    assert terminal_weights(sem.covariance(), 0.0) == pytest.approx(sem.weights, abs=1e-6)


@pytest.mark.parametrize("name", ["listen", "bottom-up"])
@pytest.mark.parametrize("seed", range(5))
def test_finds_the_changes_of_an_easy_pair(name, seed):
    rng = np.random.default_rng([822_500, seed])
    pair = dd.simulate_pair(6, neighbours=2, changes=2, rng=rng)
    moments = [sem.sample_moments(50_000, rng) for sem in (pair.first, pair.second)]
    assert score(pair.changed, find_method(name).run(*moments)).exact


@pytest.mark.parametrize("method", [listen, bottom_up])
def test_units_of_all_columns_and_their_names_do_not_matter(method):
    rng = np.random.default_rng(822_600)
    pair = dd.simulate_pair(6, neighbours=2, changes=3, rng=rng)
    tables = [sem.sample(2_000, rng) for sem in (pair.first, pair.second)]
    found = method(*(dd.Moments.from_array(table) for table in tables))
    scaled = [dd.Moments.from_array(1e5 * table) for table in tables]
    assert (found == method(scaled[0], scaled[1].select(scaled[1].names[::-1]))).all()


def test_bottom_up_against_regressions():
    """The smallest residual precision first; partial correlations from residuals of the rows."""
    rng = np.random.default_rng(822_700)
    table = dd.simulate_pair(5, neighbours=3, rng=rng).first.sample(300, rng)
    table -= table.mean(axis=0)
    expected = np.zeros((5, 5), bool)
    rest = list(range(5))
    while len(rest) > 1:
        spare = [residual(table, i, [j for j in rest if j != i]).var() for i in rest]
        sink = rest.pop(int(np.argmax(spare)))
        for j in rest:
            given = [k for k in rest if k != j]
            r = np.corrcoef(residual(table, sink, given), residual(table, j, given))[0, 1]
            z = np.arctanh(r) * np.sqrt(300 - len(given) - 3)
            expected[sink, j] = 2 * stats.norm.sf(abs(z)) < 0.05 / 10
    assert expected.any()
    assert (_tested_adjacency(table.T @ table / 300, 300) == expected).all()


def residual(table, target, given):
    if not given:
        return table[:, target]
    return table[:, target] - table[:, given] @ np.linalg.lstsq(table[:, given], table[:, target])[0]


@pytest.mark.parametrize("method", [listen, bottom_up])
def test_refuses_what_it_cannot_use(method):
    rng = np.random.default_rng(1)
    good, few = (dd.Moments.from_array(rng.standard_normal((n, 8))) for n in (500, 6))
    with pytest.raises(dd.InputError, match="rows"):
        method(good, few)
    table = rng.standard_normal((100, 8))
    table[:, 3] = table[:, 0] + table[:, 1]
    with pytest.raises(dd.InputError, match="linearly dependent in the second table"):
        method(good, dd.Moments.from_array(table))
