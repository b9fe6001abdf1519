"""Settings that the user left open: the paper's, or more where the difference would not be sparse."""

from __future__ import annotations

import math

import numpy as np
import pytest

from diffdag import DifferenceDAG, LinearSEM, Moments
from diffdag.paper import defaults
from diffdag.paper.defaults import default_penalty, default_threshold
from diffdag.precision.dtrace import solve_dtrace
from diffdag.precision.problem import standardise

GRID = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
PAPERS = ("rate:0.1", "")


def noise(p, n, seed=0):
    """Two tables in which nothing differs and nothing depends on anything."""
    rng = np.random.default_rng(seed)
    return [Moments.from_array(rng.standard_normal((rows, p))) for rows in (n, n + 3)]


def entries(pair, fraction):
    """Entries of the D-trace estimate at a fraction of the largest penalty."""
    problem = standardise(*pair)
    solved = solve_dtrace(problem.at_penalty(fraction * problem.penalty_max))
    assert solved.converged
    return solved.delta.nnz


def paper_fraction(pair):
    p, n = len(pair[0].names), min(own.n for own in pair)
    return 0.1 * math.sqrt(math.log(p) / n) / standardise(*pair).penalty_max


@pytest.mark.parametrize(
    ("p", "n", "threshold"),
    [
        (10, 100, 1.83 * math.sqrt(math.log(10) / 100)),  # few rows
        (10, 1000, 0.15),
        (10, 2000, 3.5 * math.sqrt(math.log(10) / 2000)),  # many
    ],
)
def test_the_threshold_falls_with_rows_in_three_parts(p, n, threshold):
    assert default_threshold(p, n) == pytest.approx(threshold, rel=1e-12)


def test_few_variables_with_rows_enough_have_the_papers_penalty():
    assert default_penalty(*noise(16, 33)) == PAPERS
    for p, n in ((16, 32), (17, 33), (17, 35)):  # of these the paper's leaves more than four entries each
        pair = noise(p, n)
        assert entries(pair, paper_fraction(pair)) > 4 * p
        assert default_penalty(*pair)[0] in GRID


@pytest.mark.parametrize(("p", "n", "seed"), [(17, 35, 1), (20, 60, 2), (24, 30, 3)])
def test_the_smallest_fraction_that_leaves_four_entries_per_variable(p, n, seed):
    pair = noise(p, n, seed)
    fraction, note = default_penalty(*pair)
    below = GRID[GRID.index(fraction) - 1]
    assert entries(pair, fraction) <= 4 * p < entries(pair, below)
    assert f"raised to {fraction:g} of the one that gives no change" in note


@pytest.mark.parametrize(("n", "fraction"), [(24, 0.6), (24, 0.9), (24, 1.0), (25, 0.5)])
def test_of_no_more_rows_than_variables_the_programme_must_have_a_solution(n, fraction, monkeypatch):
    """One half is sparse enough; with solutions only from another fraction on, that is taken."""
    asked = []

    def solvable(problem, share, start):
        asked.append((share, start is not None))
        return share >= fraction

    monkeypatch.setattr(defaults, "_solvable", solvable)
    assert default_penalty(*noise(24, n, 3))[0] == fraction
    assert asked == [(f, True) for f in GRID if 0.5 <= f <= fraction and n == 24]


def test_many_variables_keep_the_papers_penalty_where_it_is_sparse():
    names, scatter = tuple(map(str, range(17))), 30.0 * np.eye(17)
    one = Moments(names, 30, np.zeros(17), scatter)
    scatter[0, 0] = 90.0
    two = Moments(names, 30, np.zeros(17), scatter)
    assert entries((one, two), paper_fraction((one, two))) == 1
    assert default_penalty(one, two) == PAPERS
    assert default_penalty(one, one) == PAPERS  # without a difference no penalty is too small


def test_of_exact_models_the_weakest_change_counts():
    weights = np.zeros((4, 4))
    weights[1, 0] = weights[2, 1] = weights[3, 1] = 0.8
    other = weights.copy()
    other[3, 1] += 1e-6
    result = DifferenceDAG(method="paper").fit_population(LinearSEM(weights), LinearSEM(other)).result_
    assert [str(edge) for edge in result.edge_list] == ["X2 -> X4"]
