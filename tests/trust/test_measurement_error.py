"""The check of measurement error: it sees error in the columns, and names the changes that go without it."""

from __future__ import annotations

import numpy as np
import pytest

import diffdag as dd
from diffdag.pipeline import prepare_moments, search
from diffdag.tables.moments import Moments
from diffdag.trust.checks.measurement_error import LIMIT, check_error, likeliest_error, without_error

P, N = 10, 2525


def blurred(seed, size):
    """A pair of models, and moments of rows with error of this many noise standard deviations."""
    rng = np.random.default_rng(seed)
    pair = dd.simulate_pair(P, neighbours=6, changes=3, rng=rng)
    rows = [model.sample(N, rng) for model in (pair.first, pair.second)]
    return pair, [Moments.from_array(table + size * rng.normal(size=table.shape)) for table in rows]


def fitted(moments, **options):
    chosen = dd.DifferenceDAG(rng=0, **options).model_options()
    return search(prepare_moments(*moments, chosen), chosen)


def test_it_fires_on_columns_with_error_and_not_on_those_without():
    gained = {
        size: [likeliest_error(fitted(blurred(seed, size)[1])).gained for seed in range(8)] for size in (0, 0.4)
    }
    assert sum(value > LIMIT for value in gained[0]) == 0
    assert sum(value > LIMIT for value in gained[0.4]) >= 6


def test_changes_that_go_are_mostly_false():
    false = true = 0
    for seed in range(12):
        pair, moments = blurred(seed, 0.6)
        fit = fitted(moments)
        said = check_error(fit).message
        for edge in fit.difference.edge_list:
            if str(edge) in said:
                right = (edge.source, edge.target) in pair.edges
                true, false = true + right, false + (not right)
    assert false >= 4
    assert true <= false / 3


def test_the_share_of_error_is_about_right():
    shares = [likeliest_error(fitted(blurred(seed, 0.4)[1])).share for seed in range(8)]
    assert 0.05 < np.median(shares) < 0.2  # 0.16 / 1.16, of noise variances that are 1 and error


def test_error_taken_off_is_added_back():
    _, moments = blurred(3, 0.4)
    both = without_error(tuple(moments), np.full(P, 0.1))
    for one, other in zip(moments, both, strict=True):
        assert one.scatter - other.scatter == pytest.approx(N * 0.1 * np.eye(P), abs=1e-6 * N)


def test_without_changes_there_is_nothing_to_blur():
    rng = np.random.default_rng(0)
    check = check_error(fitted([Moments.from_array(rng.normal(size=(200, 4))) for _ in range(2)]))
    assert check.passed
    assert "no change" in check.message


def test_the_papers_method_has_no_such_check():
    _, moments = blurred(1, 0.0)
    assert check_error(fitted(moments, method="paper")) is None
