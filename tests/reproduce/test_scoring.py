"""Scores of cases worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from diffdag.reproduce.scoring import graph_of, score

NAMES = ["a", "b", "c", "d"]
TRUTH = [("a", "b", True), ("a", "c", True), ("c", "d", True)]


def graph(*edges):
    return graph_of(NAMES, edges)


@pytest.mark.parametrize(
    ("found", "f1", "exact", "skeleton_f1", "skeleton_exact", "undirected"),
    [
        (TRUTH, 1, True, 1, True, 0),
        # two of three right, nothing else: precision 1, recall 2/3
        (TRUTH[:2], 0.8, False, 0.8, False, 0),
        # one reversed: two right of three claimed, of three true
        ([*TRUTH[:2], ("d", "c", True)], 2 / 3, False, 1, True, 0),
        # one undirected: claimed, never right as a directed edge
        ([*TRUTH[:2], ("c", "d", False)], 2 / 3, False, 1, True, 1),
        # all undirected
        ([("a", "b", False), ("c", "a", False), ("c", "d", False)], 0, False, 1, True, 3),
        # one too many: precision 3/4, recall 1
        ([*TRUTH, ("b", "d", True)], 6 / 7, False, 6 / 7, False, 0),
        ([], 0, False, 0, False, 0),
    ],
)
def test_against_three_edges(found, f1, exact, skeleton_f1, skeleton_exact, undirected):
    answer = score(graph(*TRUTH), graph(*found))
    assert answer.f1 == pytest.approx(f1)
    assert answer.exact is exact
    assert answer.skeleton_f1 == pytest.approx(skeleton_f1)
    assert answer.skeleton_exact is skeleton_exact
    assert (answer.true_edges, answer.claimed, answer.undirected) == (3, len(found), undirected)


def test_empty_against_empty_is_perfect():
    answer = score(graph(), graph())
    assert (answer.f1, answer.exact, answer.skeleton_f1, answer.skeleton_exact) == (1.0, True, 1.0, True)


def test_something_where_nothing_changed_is_worth_nothing():
    answer = score(graph(), graph(("a", "b", True)))
    assert (answer.f1, answer.exact, answer.skeleton_f1) == (0.0, False, 0.0)


def test_the_matrix_reads_effect_then_cause():
    matrix = graph(("a", "b", True), ("c", "d", False))
    assert matrix[1, 0]
    assert not matrix[0, 1]
    assert matrix[2, 3]
    assert matrix[3, 2]
    assert matrix.sum() == 3


def test_scores_do_not_depend_on_the_order_of_the_variables():
    rng = np.random.default_rng(0)
    truth = np.tril(rng.random((7, 7)) < 0.4, -1)
    found = rng.random((7, 7)) < 0.3
    np.fill_diagonal(found, False)
    shuffle = rng.permutation(7)
    block = np.ix_(shuffle, shuffle)
    assert score(truth, found) == score(truth[block], found[block])
