"""The paper's statements in rational arithmetic, where zero means zero, and its Figure 1 worked by hand.

Nothing here calls the code under test for its own answer: matrices of fractions are inverted by Gauss and
Jordan, orders and subsets are listed, and the package has to agree.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from diffdag import DifferenceDAG, LinearSEM, Moments
from diffdag.paper.differences import ExactDifferences

Matrix = list[list[Fraction]]
ESTIMATORS = ["dantzig", "dtrace", "kliep", "plugin"]


def inverse(matrix: Matrix) -> Matrix:
    size = len(matrix)
    rows = [[*row, *(Fraction(int(i == j)) for j in range(size))] for i, row in enumerate(matrix)]
    for k in range(size):
        pivot = next(i for i in range(k, size) if rows[i][k] != 0)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for i in range(size):
            if i != k and rows[i][k] != 0:
                factor = rows[i][k]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    return [row[size:] for row in rows]


def product(left: Matrix, right: Matrix) -> Matrix:
    return [
        [sum(a * b for a, b in zip(row, column, strict=True)) for column in zip(*right, strict=True)]
        for row in left
    ]


def block(matrix: Matrix, rows: list[int], columns: list[int]) -> Matrix:
    return [[matrix[i][j] for j in columns] for i in rows]


def precision(weights: Matrix, variances: list[Fraction]) -> Matrix:
    """``(I - B)' D^-1 (I - B)``, entry by entry."""
    size = range(len(weights))
    root = [[Fraction(int(i == j)) - weights[i][j] for j in size] for i in size]
    return [[sum(root[k][i] * root[k][j] / variances[k] for k in size) for j in size] for i in size]


def precision_over(members: list[int], omega: Matrix) -> Matrix:
    """The inverse of a block of the inverse."""
    return inverse(block(inverse(omega), members, members))


def difference(left: Matrix, right: Matrix) -> Matrix:
    return [[a - b for a, b in zip(x, y, strict=True)] for x, y in zip(left, right, strict=True)]


def model(weights: Matrix, variances: list[Fraction]) -> LinearSEM:
    return LinearSEM(np.array(weights, float), noise_variances=np.array(variances, float))


fractions = st.fractions(min_value=Fraction(1, 4), max_value=2, max_denominator=6)
signed = st.builds(lambda size, sign: size * sign, fractions, st.sampled_from([-1, 1]))


@st.composite
def models(draw: st.DrawFn, size: int) -> tuple[Matrix, list[Fraction]]:
    """A model whose causes precede their effects: ``B`` is below its diagonal."""
    weights = [[Fraction(0)] * size for _ in range(size)]
    for i, j in combinations(range(size), 2):
        if draw(st.booleans()):
            weights[j][i] = draw(signed)
    return weights, [draw(fractions) for _ in range(size)]


@st.composite
def changed_models(draw: st.DrawFn, size: int, changes: int) -> tuple[Matrix, Matrix, list[Fraction]]:
    """Two models with the same noise, one to `changes` effects apart."""
    weights, variances = draw(models(size))
    other = [row.copy() for row in weights]
    pairs = list(combinations(range(size), 2))
    for i, j in draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=changes, unique=True)):
        other[j][i] = Fraction(0) if weights[j][i] else draw(signed)
    return weights, other, variances


# Lemma 1 ------------------------------------------------------------------------------------------------


def removed_by_lemma_1(
    weights: Matrix, variances: list[Fraction], gone: list[int]
) -> tuple[Matrix, list[Fraction]]:
    """The model over what is left, by the paper's formulas.

    ``An_j`` are j and all that precede it in the order, as the proof has it ("ancestors of j in the
    topological order").
    """
    left = [j for j in range(len(weights)) if j not in gone]
    omega = precision(weights, variances)
    effects = [[Fraction(0)] * len(left) for _ in left]
    noise = []
    for row, j in enumerate(left):
        members = list(range(j + 1))
        over = precision_over(members, omega)
        inside = [u for u in gone if u < j]
        through = block(weights, [j], inside)
        middle = inverse(block(over, inside, inside))
        detour = product(through, middle)[0]  # B_jU (Omega_UU)^-1
        lost = sum(a * weights[j][u] for a, u in zip(detour, inside, strict=True))
        noise.append(variances[j] ** 2 / (variances[j] - lost))
        for column, k in enumerate(left[:row]):
            around = sum(a * over[u][k] for a, u in zip(detour, inside, strict=True))
            effects[row][column] = noise[row] / variances[j] * (weights[j][k] - around)
    return effects, noise


@settings(max_examples=40, derandomize=True)
@given(models(5), st.sets(st.integers(0, 4), min_size=1, max_size=3))
def test_lemma_1_gives_the_precision_over_what_is_left(sem, gone):
    effects, noise = removed_by_lemma_1(*sem, sorted(gone))
    left = [j for j in range(5) if j not in gone]
    expected = precision_over(left, precision(*sem))
    assert precision(effects, noise) == expected  # as fractions
    root, _ = ExactDifferences(model(*sem), LinearSEM(np.zeros((5, 5)))).root_over(tuple(left))
    np.testing.assert_allclose(root.T @ root, np.array(expected, float), rtol=1e-9, atol=1e-9)


def test_lemma_1_fails_if_only_ancestors_in_the_graph_count():
    # X1 -> X2 and X1 -> X3. Neither X2 nor X3 is an ancestor of the other, but without X1 they depend.
    weights = [
        [Fraction(0)] * 3,
        [Fraction(1), Fraction(0), Fraction(0)],
        [Fraction(2), Fraction(0), Fraction(0)],
    ]
    over = precision_over([1, 2], precision(weights, [Fraction(1)] * 3))
    assert over[0][1] == Fraction(-1, 3)
    effects, noise = removed_by_lemma_1(weights, [Fraction(1)] * 3, [0])
    assert effects[1][0] == 1
    assert precision(effects, noise) == over


@settings(max_examples=40, derandomize=True)
@given(models(5))
def test_leaving_out_the_last_variable_leaves_the_other_equations(sem):
    weights, variances = sem
    rest = list(range(4))
    assert precision_over(rest, precision(weights, variances)) == precision(
        block(weights, rest, rest), variances[:4]
    )


# Proposition 1 ------------------------------------------------------------------------------------------


@settings(max_examples=60, derandomize=True)
@given(changed_models(5, 3))
def test_proposition_1_the_diagonal_of_a_sink_of_the_difference_is_zero(pair):
    first, second, variances = pair
    delta = difference(precision(first, variances), precision(second, variances))
    ours = model(first, variances).precision() - model(second, variances).precision()
    np.testing.assert_allclose(ours, np.array(delta, float), atol=1e-10)
    for i in range(5):
        # The whole sum, and so the converse as far as it holds: nothing else can be on the diagonal.
        squares = [(first[j][i] ** 2 - second[j][i] ** 2) / variances[j] for j in range(5)]
        assert delta[i][i] == sum(squares)
        if all(first[j][i] == second[j][i] for j in range(5)):
            assert delta[i][i] == 0


def test_the_key_identity_holds_exactly():
    first = [[Fraction(0), Fraction(0)], [Fraction(2, 3), Fraction(0)]]
    second = [[Fraction(0), Fraction(0)], [Fraction(-1, 5), Fraction(0)]]
    omegas = [precision(weights, [Fraction(1), Fraction(1, 2)]) for weights in (first, second)]
    sigmas = [inverse(omega) for omega in omegas]
    through = product(product(sigmas[0], difference(*omegas)), sigmas[1])
    assert through == difference(sigmas[1], sigmas[0])


def test_effects_that_only_change_sign_hide_from_the_diagonal():
    """The converse of Proposition 1, which claim (ii) of Theorem 1 needs, fails: 1/2 and -1/2 have one square.

    Assumption 1 holds here: the partial correlation changes. Algorithm 1 takes both ends for sinks and finds
    nothing; the order search finds the edge, without a direction, for both directions explain it equally.
    """
    half = Fraction(1, 2)
    first = [[Fraction(0), Fraction(0)], [half, Fraction(0)]]
    second = [[Fraction(0), Fraction(0)], [-half, Fraction(0)]]
    delta = difference(*(precision(weights, [Fraction(1)] * 2) for weights in (first, second)))
    assert delta == [[0, -1], [-1, 0]]
    before, after = (model(weights, [Fraction(1)] * 2) for weights in (first, second))
    silent = DifferenceDAG(method="paper").fit_population(before, after)
    assert edges_of(silent) == {}
    assert "something changed at 'X1' and 'X2', but no edge is left" in silent.result_.notes[0]
    assert edges_of(DifferenceDAG().fit_population(before, after)) == {("X1", "X2"): False}


# Algorithm 1 --------------------------------------------------------------------------------------------


def edges_of(estimator: DifferenceDAG) -> dict[tuple[str, str], bool]:
    return {(edge.source, edge.target): edge.directed for edge in estimator.result_.edge_list}


def algorithm_1(first: Matrix, second: Matrix, variances: list[Fraction]) -> set[tuple[int, int]]:
    """All of it over all subsets, with zero meant literally; (i, j) is i <- j. Noise does not change."""
    omegas = [precision(weights, variances) for weights in (first, second)]

    def delta(members: list[int]) -> dict[tuple[int, int], Fraction]:
        matrix = difference(*(precision_over(members, omega) for omega in omegas))
        return {(a, b): matrix[x][y] for x, a in enumerate(members) for y, b in enumerate(members)}

    everything = list(range(len(first)))
    whole = delta(everything)
    left = variables = [i for i in everything if any(whole[i, j] for j in everything)]
    rank: dict[int, int] = {}
    while left:
        current = delta(left)
        sinks = [i for i in left if current[i, i] == 0] or left
        rank |= dict.fromkeys(sinks, len(rank))
        left = [i for i in left if i not in sinks]
    start = delta(variables)
    edges = {(i, j) for i in variables for j in variables if rank[i] < rank[j] and start[i, j] != 0}
    for i, j in list(edges):
        free = [k for k in variables if k != i and rank[k] < rank[j]]
        sets = chain.from_iterable(combinations(free, size) for size in range(len(free) + 1))
        if any(delta([k for k in variables if k not in removed])[i, j] == 0 for removed in sets):
            edges.discard((i, j))
    return edges


@pytest.mark.slow
@settings(max_examples=40, derandomize=True)
@given(changed_models(5, 2))
def test_algorithm_1_on_fractions_and_ours_on_floats_agree(pair):
    first, second, variances = pair
    expected = {(f"X{j + 1}", f"X{i + 1}"): True for i, j in algorithm_1(first, second, variances)}
    before, after = model(first, variances), model(second, variances)
    assert edges_of(DifferenceDAG(method="paper", noise="equal").fit_population(before, after)) == expected


def cancels(first: Matrix, second: Matrix, variances: list[Fraction]) -> bool:
    """Over a set that holds the causes of its members, a change is hidden (against Assumption 1), or the
    diagonal of a changed cause is zero."""
    omegas = [precision(weights, variances) for weights in (first, second)]
    size = range(len(first))
    changed = {(i, j) for i in size for j in size if first[i][j] != second[i][j]}
    for members in chain.from_iterable(combinations(size, count) for count in range(2, len(size) + 1)):
        if any(i in members and j not in members for i, j in changed):
            continue
        over = difference(*(precision_over(list(members), omega) for omega in omegas))
        place = {node: k for k, node in enumerate(members)}
        inside = [(place[i], place[j]) for i, j in changed if i in place]
        if any(over[i][j] == 0 or over[j][j] == 0 for i, j in inside):
            return True
    return False


@pytest.mark.slow
@settings(max_examples=40, derandomize=True)
@given(changed_models(4, 2))
def test_theorem_1_holds_exactly_where_nothing_cancels(pair):
    first, second, variances = pair
    assume(not cancels(first, second, variances))
    truth = {(i, j) for i in range(4) for j in range(4) if first[i][j] != second[i][j]}
    assert algorithm_1(first, second, variances) == truth
    expected = {(f"X{j + 1}", f"X{i + 1}"): True for i, j in truth}
    before, after = model(first, variances), model(second, variances)
    assert edges_of(DifferenceDAG(method="paper").fit_population(before, after)) == expected


# Figure 1 -----------------------------------------------------------------------------------------------

# X1 -> X2 (1/2), X3 -> X2 (-1/4) and, between the causes, X1 -> X3 (1), X1 -> X4 (1), X3 -> X4 (1/2) are in
# both models; X4 -> X2 is 2 in the first and absent in the second.
FIGURE_1 = [
    [Fraction(0), Fraction(0), Fraction(0), Fraction(0)],
    [Fraction(1, 2), Fraction(0), Fraction(-1, 4), Fraction(2)],
    [Fraction(1), Fraction(0), Fraction(0), Fraction(0)],
    [Fraction(1), Fraction(0), Fraction(1, 2), Fraction(0)],
]


def figure_1(second: bool) -> Matrix:
    weights = [row.copy() for row in FIGURE_1]
    if second:
        weights[1][3] = Fraction(0)
    return weights


def test_figure_1_by_hand():
    """Row 2 of I - B is (-1/2, 1, 1/4, -2) and (-1/2, 1, 1/4, 0); it adds its square to the precision."""
    ones = [Fraction(1)] * 4
    delta = difference(*(precision(figure_1(second), ones) for second in (False, True)))
    moral = {(0, 3): Fraction(1), (1, 3): Fraction(-2), (2, 3): Fraction(-1, 2), (3, 3): Fraction(4)}
    expected = [[moral.get((min(i, j), max(i, j)), Fraction(0)) for j in range(4)] for i in range(4)]
    assert delta == expected  # X4 has three neighbours in the difference of the moral graphs, X2 one
    without_the_effect = difference(
        *(precision_over([0, 2, 3], precision(figure_1(second), ones)) for second in (False, True))
    )
    assert without_the_effect == [[0] * 3] * 3  # so X1 - X4 and X3 - X4 are pruned
    assert algorithm_1(figure_1(False), figure_1(True), ones) == {(1, 3)}


@pytest.mark.parametrize("method", ["paper", "order"])
def test_figure_1_from_exact_models(method):
    before, after = (model(figure_1(second), [Fraction(1)] * 4) for second in (False, True))
    estimator = DifferenceDAG(method=method).fit_population(before, after)
    assert edges_of(estimator) == {("X4", "X2"): True}
    (edge,) = estimator.result_.edge_list
    assert (edge.change, edge.weight_first, edge.weight_second) == (
        "removed",
        pytest.approx(2),
        pytest.approx(0, abs=1e-6),
    )


def figure_1_samples() -> tuple[Moments, Moments]:
    pair = [model(figure_1(second), [Fraction(1)] * 4) for second in (False, True)]
    return pair[0].sample_moments(20_000, rng=900_001), pair[1].sample_moments(20_000, rng=900_002)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_figure_1_from_samples_by_algorithm_1(estimator):
    first, second = figure_1_samples()
    assert edges_of(DifferenceDAG(method="paper", estimator=estimator).fit_moments(first, second)) == {
        ("X4", "X2"): True
    }


def test_figure_1_from_samples_by_the_order_search():
    assert edges_of(DifferenceDAG().fit_moments(*figure_1_samples())) == {("X4", "X2"): True}
