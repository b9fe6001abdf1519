"""The oracle: tests along a known order."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import diffdag as dd
from diffdag.model.sem import causal_order
from diffdag.reproduce.methods import find_method
from diffdag.reproduce.methods.oracle import oracle
from diffdag.reproduce.scoring import score


def easy(seed, n=50_000):
    rng = np.random.default_rng([822_000, seed])
    pair = dd.simulate_pair(6, neighbours=2, changes=2, weights=(0.5, 1.0), rng=rng)
    order = causal_order((pair.first.weights != 0) | (pair.second.weights != 0))
    return pair, [sem.sample_moments(n, rng) for sem in (pair.first, pair.second)], order


@pytest.mark.parametrize("seed", [0, 1, 4, 6])
def test_finds_the_changes_of_an_easy_pair(seed):
    pair, moments, order = easy(seed)
    assert score(pair.changed, find_method("oracle").run(*moments, order)).exact


def test_agrees_with_least_squares_on_rows():
    rng = np.random.default_rng(822_100)
    pair = dd.simulate_pair(5, neighbours=3, changes=3, rng=rng)
    order = causal_order((pair.first.weights != 0) | (pair.second.weights != 0))
    tables = [sem.sample(200, rng) for sem in (pair.first, pair.second)]
    expected = np.zeros((5, 5), bool)
    for k in range(1, 5):
        fits = []
        for table in tables:
            design = np.column_stack([np.ones(200), table[:, list(order[:k])]])
            beta, rss, *_ = np.linalg.lstsq(design, table[:, order[k]])
            variance = rss[0] / (200 - k - 1) * np.diag(np.linalg.inv(design.T @ design))
            fits.append((beta[1:], variance[1:]))
        z = (fits[0][0] - fits[1][0]) / np.sqrt(fits[0][1] + fits[1][1])
        expected[order[k], list(order[:k])] = 2 * stats.norm.sf(np.abs(z)) < 0.05 / 10
    found = oracle(*(dd.Moments.from_array(table) for table in tables), order)
    assert expected.any()
    assert (found == expected).all()


@pytest.mark.slow
def test_false_alarms_keep_the_level():
    alarms = 0
    for k in range(300):
        rng = np.random.default_rng([822_200, k])
        sem = dd.simulate_pair(6, neighbours=3, rng=rng).first
        alarms += oracle(sem.sample_moments(300, rng), sem.sample_moments(300, rng), sem.order).any()
    assert stats.binomtest(int(alarms), 300, 0.05).pvalue > 1e-3


def test_refuses_what_it_cannot_use():
    _, moments, order = easy(0, 1000)
    with pytest.raises(dd.InputError, match="each of the 6 columns once"):
        oracle(*moments, order[:-1])
    rng = np.random.default_rng(0)
    few = dd.Moments.from_array(rng.standard_normal((5, 6)))
    with pytest.raises(dd.InputError, match="use more rows"):
        oracle(few, moments[1], range(6))
    table = rng.standard_normal((100, 6))
    table[:, 3] = table[:, 0] + table[:, 1]
    with pytest.raises(dd.InputError, match="linearly dependent in the second table"):
        oracle(moments[0], dd.Moments.from_array(table), range(6))
