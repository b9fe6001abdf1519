"""Solvers of the precision difference step by step: when they stop, what they hand on, what they look at."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import highspy
import numpy as np
import pytest
from differences import (
    covariances,
    dense_hessian,
    every,
    kliep_point,
    problem_of,
    some_matrix,
    symmetric,
    tight,
)
from scipy.linalg import LinAlgError, cho_factor
from scipy.sparse import csr_array

from diffdag.precision import dantzig, descent, dtrace, kliep
from diffdag.precision import problem as problems
from diffdag.precision import rows as wide
from diffdag.precision.problem import DifferenceProblem
from diffdag.precision.scan import Peaks, above
from diffdag.reproduce.methods import clime


def one_change(size=0.5, penalty=0.25):
    """Only the entries (0, 1) and (1, 0) of the target are not zero."""
    two = np.eye(3)
    two[0, 1] = two[1, 0] = size
    return DifferenceProblem(np.eye(3), two, penalty)


def wide_problem(seed, fraction=0.3, p=6):
    rng = np.random.default_rng(seed)
    problem, _ = wide.standardise_rows(rng.standard_normal((30, p)), 1.5 * rng.standard_normal((40, p)))
    return problem.at_penalty(fraction * problem.penalty_max)


# D-trace: looks, rounds and pools


def watched_looks(monkeypatch):
    """How rough each look is that a descent takes."""
    looks, look = [], dtrace._look
    monkeypatch.setattr(
        dtrace,
        "_look",
        lambda problem, delta, *, rough: looks.append(rough) or look(problem, delta, rough=rough),
    )
    return looks


def scripted_rounds(monkeypatch, script):
    """Rounds that change nothing; the script says which working sets count as solved."""
    given, answers = [], iter(script)

    def solve(problem, delta, pool, tolerance, max_sweeps):
        given.append((len(pool[0]), tolerance, max_sweeps))
        return delta, next(answers)

    monkeypatch.setattr(dtrace, "_solve_on_pool", solve)
    return given


@pytest.mark.parametrize(
    ("script", "patience", "rounds"),
    [
        ("FF", 2, 2),
        ("FTFF", 2, 4),
        ("TFTFTFF", 2, 7),
        ("TTFF", 2, 4),
        ("F", 1, 1),
        ("TF", 1, 2),
        ("FFTFFF", 3, 6),
    ],
)
def test_only_unsolved_sets_one_after_another_end_the_search(monkeypatch, script, patience, rounds):
    given = scripted_rounds(monkeypatch, [letter == "T" for letter in script])
    solution = dtrace.solve_dtrace(one_change(), 1e-3, 50, 70, patience)
    assert (solution.iterations, solution.converged) == (rounds, False)
    assert given == [(2, pytest.approx(1e-4), 70)] * rounds  # solved ten times as exactly as is asked for


@pytest.mark.parametrize(
    ("tolerance", "rounds"), [(0.25, 0), (0.2499, 1), (0.5, 0)]
)  # the target exceeds the penalty by 0.25
def test_within_the_tolerance_nothing_is_done(tolerance, rounds):
    solution = dtrace.solve_dtrace(one_change(), tolerance)
    assert (solution.iterations, solution.converged) == (rounds, True)


def test_a_violation_as_large_as_the_tolerance_is_allowed():
    problem, delta = one_change(), csr_array((3, 3))
    seen = dtrace._look(problem, delta, rough=False)
    for tolerance, converged in ((0.25, True), (0.2499, False)):
        found = dtrace._certified(problem, delta, seen, 1, tolerance)
        assert (found.violation, found.gap, found.converged) == (0.25, 0.0, converged)
    # A gap of exactly what is allowed: <Delta, residual> + lambda |Delta|_1 over the objective.
    delta = csr_array((np.array([0.125]), (np.array([0]), np.array([1]))), shape=(3, 3))
    gap = dtrace._certified(problem, delta, seen, 1, 1.0).gap
    assert gap > 1e-3
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(dtrace, "GAP", gap)
        assert dtrace._certified(problem, delta, seen, 1, 1.0).converged


def test_looks_are_rough_until_the_end(monkeypatch):
    looks = watched_looks(monkeypatch)
    solution = dtrace.solve_dtrace(wide_problem(880400))
    assert solution.converged
    exact = looks.index(False)
    assert exact >= 2
    assert looks == [True] * exact + [False] * (len(looks) - exact)
    assert len(looks) in (solution.iterations + 1, solution.iterations + 2)


def test_errors_within_the_tolerance_need_no_exact_look(monkeypatch):
    looks = watched_looks(monkeypatch)
    problem = wide_problem(880401)
    for error, rough in ((1e-3, {True}), (1e-4, {True}), (1.1e-3, {True, False})):
        looks.clear()
        assert dtrace.solve_dtrace(replace(problem, rough_error=error), 1e-3).converged
        assert set(looks) == rough


def test_where_it_gave_up_the_last_look_is_exact(monkeypatch):
    looks = watched_looks(monkeypatch)
    for rounds in (0, 1):
        looks.clear()
        dtrace.solve_dtrace(wide_problem(880402), max_rounds=rounds)
        assert looks == [True] * (rounds + 1) + [False]


def test_a_start_is_not_looked_at_again(monkeypatch):
    problem = problem_of(880403, 6, fraction=0.3)
    _, end = dtrace.descend(problem, None)
    looks = watched_looks(monkeypatch)
    again, same = dtrace.descend(problem, end)
    assert (looks, again.iterations) == ([], 0)
    assert same.seen is end.seen
    lower = problem.at_penalty(0.5 * problem.penalty)
    warm, _ = dtrace.descend(lower, dtrace.Start(end.delta, dtrace._look(lower, end.delta, rough=False)))
    assert warm.objective == pytest.approx(dtrace.solve_dtrace(lower).objective, rel=1e-7)


@pytest.mark.parametrize("kind", [DifferenceProblem, wide.RowsProblem])
def test_rough_errors_are_what_they_are_said_to_be(kind):
    problem = wide_problem(880404) if kind is wide.RowsProblem else problem_of(880404)
    delta = csr_array(some_matrix(880405, problem.p))
    exact, rough = (
        np.vstack([block.copy() for _, block in problem.residual_blocks(delta, rough=rough)])
        for rough in (False, True)
    )
    off = np.abs(exact - rough).max()
    assert off <= problem.rough_error <= 1e-4 * np.abs(exact).max()
    assert (off == 0) == (problem.rough_error == 0) == (kind is DifferenceProblem)


def watched_sets(monkeypatch):
    """Size, number of those with a value to begin with, and tolerance of each working set."""
    sets, minimise = [], dtrace.minimise

    def solve(gram, target, values, penalty, tolerance, max_sweeps):
        sets.append((len(target), int((values != 0).sum()), tolerance, max_sweeps))
        return minimise(gram, target, values, penalty, tolerance, max_sweeps)

    monkeypatch.setattr(dtrace, "minimise", solve)
    return sets


def test_working_sets_grow_by_twenty_or_double(monkeypatch):
    sets = watched_sets(monkeypatch)
    problem = problem_of(880406, 10, fraction=0.03, n=200)
    delta, solved = dtrace._solve_on_pool(problem, csr_array((10, 10)), every(10), 1e-9, 2000)
    assert solved
    assert sets[0][:2] == (20, 0)
    before = 20
    for size, begun, _, sweeps in sets[1:]:
        assert begun <= before
        assert begun <= size <= begun + max(20, begun)
        assert sweeps == 2000
        before = size
    assert len(sets) > 3
    assert delta.nnz > 40
    # The first set is solved to a twentieth of what it leaves out, the last one to the end.
    assert sets[0][2] == pytest.approx(0.05 * (problem.penalty_max - problem.penalty))
    assert sets[-1][2] == 1e-9
    assert all(sets[k][2] >= 1e-9 for k in range(len(sets)))


def test_a_set_that_is_not_solved_ends_the_pool(monkeypatch):
    calls = []

    def give_up(gram, target, values, penalty, tolerance, max_sweeps):
        calls.append(len(target))
        return values + 1.0, False

    monkeypatch.setattr(dtrace, "minimise", give_up)
    delta, solved = dtrace._solve_on_pool(one_change(), csr_array((3, 3)), every(3), 1e-9, 10)
    assert (calls, solved) == ([2], False)
    assert delta.toarray().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]


def test_a_pool_that_is_never_done_ends_too(monkeypatch):
    monkeypatch.setattr(dtrace, "MAX_ROUNDS", 3)
    calls = []
    monkeypatch.setattr(dtrace, "minimise", lambda *given: calls.append(given) or (np.zeros(2), True))
    delta, solved = dtrace._solve_on_pool(one_change(), csr_array((3, 3)), every(3), 1e-9, 10)
    assert (len(calls), delta.nnz, solved) == (3, 0, False)


def test_working_sets_of_just_the_size_allowed(monkeypatch):
    for most, solved in ((2, True), (1, False)):
        monkeypatch.setattr(dtrace, "MOST", most)
        assert dtrace._solve_on_pool(one_change(), csr_array((3, 3)), every(3), 1e-9, 100)[1] == solved


def test_what_is_at_the_tolerance_is_no_violator():
    problem, nothing = one_change(), csr_array((3, 3))
    for tolerance, count in ((0.25, 0), (0.2499, 2)):
        found, excess = dtrace._violators(problem, nothing, every(3), tolerance, 9)
        assert (len(found[0]), excess) == (count, 0.25)
    none = np.zeros(0, np.intp)
    found, excess = dtrace._violators(problem, nothing, (none, none), 0.0, 9)
    assert (len(found[0]), excess) == (0, -0.25)


@pytest.mark.parametrize("most", [1, 4, 20, 60, 199])
def test_of_many_violators_the_largest_are_taken(most):
    p = 60  # numpy sorts what is shorter as a whole
    b = np.random.default_rng(880407).permutation(np.arange(1.0, p * p + 1)).reshape(p, p)
    problem = DifferenceProblem(np.zeros((p, p)), b, 1000.0)
    (rows, columns), excess = dtrace._violators(problem, csr_array((p, p)), every(p), 0.0, most)
    assert sorted(b[rows, columns]) == list(range(3601 - most, 3601))
    assert excess == 2600.0
    found = above(iter([(0, b[:7].copy()), (7, b[7:].copy())]), 1000.0, most)
    assert sorted(found.sizes) == list(range(3601 - most, 3601))
    places = found.entries[0] * p + found.entries[1]
    assert (np.diff(places) > 0).all()
    tops = Peaks(np.arange(p * p), b.ravel())
    worst = dantzig.worst_entries(tops, 1000.0, most)
    assert sorted(b.ravel()[worst[0]]) == list(range(3601 - most, 3601))
    np.testing.assert_array_equal(*worst)


def test_entries_at_the_bound_are_not_above_it():
    matrix = np.array([[1.0, -2.0], [3.0, -3.0]])
    assert above(iter([(0, matrix.copy())]), 2.0, 9).sizes.tolist() == [3.0, 3.0]
    assert above(iter([(0, matrix.copy())]), 2.0, 2).sizes.tolist() == [3.0, 3.0]
    assert above(iter([(0, matrix.copy())]), 0.0, 4).sizes.tolist() == [1.0, 2.0, 3.0, 3.0]
    # Once as many are found as asked for, only larger ones count; the first of equals stay.
    blocks = [(0, np.array([[5.0, 4.0, 3.0]])), (1, np.array([[4.0, 6.0, 1.0]]))]
    found = above(iter(blocks), 0.0, 2)
    assert found.sizes.tolist() == [5.0, 6.0]
    assert [part.tolist() for part in found.entries] == [[0, 1], [0, 1]]
    tops = Peaks(np.arange(4), np.array([2.0, 1.1, 1.2, 1.0]))
    assert dantzig.worst_entries(tops, 1.0, 9)[0].tolist() == [0, 2]  # a tenth of the way is 1.1


# Descent: turns


def scripted_turns(monkeypatch, supports):
    """Sweeps that only set the support, and Newton steps that only count; never within the tolerance."""
    turns, newtons, states = [], [], iter(supports)

    def sweep(gram, gradient, values, penalty, count):
        turns.append(count)
        values[:] = next(states)

    def newton(gram, target, values, penalty):
        newtons.append(len(turns))
        return values

    monkeypatch.setattr(descent, "_descent", SimpleNamespace(sweep=sweep))
    monkeypatch.setattr(descent, "_newton", newton)
    return turns, newtons


@pytest.mark.parametrize(
    ("supports", "steps"),
    [
        ([[1, 0], [0, 1]] * 6, [5, 10]),  # it changes at every turn: a step at every fifth all the same
        ([[0, 0]] * 12, list(range(1, 13))),
        ([[1, 1]] * 12, list(range(2, 13))),
        ([[1, 0], [2, 0], [3, 1], [4, 2], [0, 2], [0, 5], [1, 5]], [2, 4, 5, 6]),
    ],
)
def test_newton_steps_wait_for_the_support(monkeypatch, supports, steps):
    turns, newtons = scripted_turns(monkeypatch, supports)
    gram, target = np.eye(2), np.array([9.0, 9.0])
    values, solved = descent.minimise(gram, target, np.zeros(2), 0.5, 1e-9, 10 * len(supports) + 9)
    assert (newtons, solved) == (steps, False)
    assert turns == [10] * len(supports)
    assert values.tolist() == supports[-1]


def test_descent_within_the_tolerance_takes_no_newton_step(monkeypatch):
    turns, newtons = scripted_turns(monkeypatch, [[0, 0], [0, 0]])
    target = np.array([1.0, -0.75])
    for tolerance, steps in ((0.5, 0), (0.4999, 1)):  # at zero the conditions fail by 1 - 0.5
        turns.clear()
        newtons.clear()
        values, solved = descent.minimise(np.eye(2), target, np.zeros(2), 0.5, tolerance, 10)
        assert (len(turns), len(newtons), solved) == (1, steps, steps == 0)
        assert not values.any()


def test_newton_steps_do_what_sweeps_would_take_long_for():
    angle = np.array([[1.0, 0.9999], [0.9999, 1.0]])  # coordinate descent crawls along the valley
    best = np.array([3.0, -2.0])
    target = angle @ best + 1e-3 * np.sign(best)
    values, solved = descent.minimise(angle, target, np.array([1.0, -1.0]), 1e-3, 1e-10, 20)
    assert solved
    np.testing.assert_allclose(values, best, atol=1e-5)


def test_optimality_conditions_where_all_hold_or_none_are_there():
    nothing = np.zeros(0)
    assert descent._kkt(nothing, nothing, 0.5) == 0.0
    assert descent._kkt(np.array([0.1, -0.2]), np.zeros(2), 0.5) == 0.0
    assert descent._kkt(np.array([-0.5, 0.25]), np.array([1.0, -1.0]), 0.5) == 0.25


def test_a_step_that_never_goes_down_is_not_taken(monkeypatch):
    tried = []

    def value(block, slope, values):
        tried.append(values.copy())
        return float(len(tried))

    monkeypatch.setattr(descent, "_value", value)
    start = np.array([1.0, 1.0])
    assert descent._newton(np.eye(2), np.array([5.5, 3.5]), start, 0.5) is start
    lengths = [after[0] - 1.0 for after in tried[1:]]  # the whole step goes to (5, 3)
    np.testing.assert_allclose(lengths, 4.0 * 0.5 ** np.arange(len(lengths)))
    assert len(lengths) > 5


# KLIEP


def test_newton_by_products_is_preconditioned_by_the_diagonal(monkeypatch):
    point = kliep_point(problem_of(880420, 5, 0.1), np.pad(symmetric(880421), (0, 1)))
    rows, columns = np.triu_indices(5)
    free = kliep._Free(rows, columns, np.ones(15))
    hessian, seen = dense_hessian(point.fitted, free), {}

    def solve(operator, right, *, M, **options):
        seen.update(operator=operator @ np.eye(15), scaling=M @ np.eye(15), right=right)
        return np.linalg.solve(seen["operator"], right), 0

    monkeypatch.setattr("scipy.sparse.linalg.cg", solve)
    right = np.arange(1.0, 16)
    found = kliep._newton_by_products(point.fitted, free, right)
    np.testing.assert_allclose(seen["operator"], hessian, atol=1e-10)
    np.testing.assert_allclose(seen["scaling"], np.diag(1 / np.diag(hessian)), atol=1e-10)
    np.testing.assert_allclose(hessian @ found, right, atol=1e-7)


def test_newton_systems_are_damped_little_by_little(monkeypatch):
    fitted = np.array([[2.0, 0.5], [0.5, 1.0]])
    free = kliep._Free(np.array([0, 0, 1]), np.array([0, 1, 1]), np.ones(3))
    hessian, tried = dense_hessian(fitted, free), []

    def fail(matrix):
        tried.append(matrix.copy())
        raise LinAlgError

    monkeypatch.setattr(kliep, "cho_factor", fail)
    right = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(kliep._newton(fitted, free, right), right / np.diag(hessian))
    added = [np.diag(matrix) / np.diag(hessian) - 1 for matrix in tried]
    assert np.abs(added[0]).max() == 0
    assert all(0 < before.min() < after.min() for before, after in pairwise(added[1:]))
    assert len(added) > 2
    assert np.max(added) < 1e-5
    np.testing.assert_allclose(tried[-1], hessian, rtol=1e-5)
    monkeypatch.setattr(
        kliep, "cho_factor", lambda matrix: fail(matrix) if len(tried) < 6 else cho_factor(matrix)
    )
    np.testing.assert_allclose(kliep._newton(fitted, free, right), np.linalg.solve(hessian, right), rtol=1e-4)


def test_kliep_ends_where_both_measures_are_just_met(monkeypatch):
    problem = problem_of(880422, 5, 0.2)
    last = kliep.solve_kliep(problem).iterations
    assert last > 2
    part = kliep.solve_kliep(problem, max_steps=last - 1)
    point = kliep_point(problem, part.delta.toarray())
    kkt = kliep._kkt(problem, point)
    monkeypatch.setattr(kliep, "GAP", part.gap)
    for tolerance, steps in ((kkt, last - 1), (2 * kkt, last - 1), (kkt * 0.999, last)):
        found = kliep.solve_kliep(problem, tolerance)
        assert (found.iterations, found.converged) == (steps, True)
    monkeypatch.setattr(kliep, "GAP", 0.999 * part.gap)
    assert kliep.solve_kliep(problem, 1.0).iterations == last


def test_a_loose_tolerance_does_not_loosen_the_gap():
    for seed in (880423, 880424):
        problem = problem_of(seed, 5, 0.2)
        solution = kliep.solve_kliep(problem, tolerance=0.9 * (problem.penalty_max - problem.penalty))
        assert solution.converged
        assert solution.gap <= 1e-5
        assert solution.delta.nnz > 0


def test_kliep_is_not_optimal_with_a_broken_constraint(monkeypatch):
    problem = problem_of(880425, 4, 0.3)
    monkeypatch.setattr(kliep, "_step", lambda *given: None)
    found = kliep.solve_kliep(problem)
    assert (found.iterations, found.converged, found.delta.nnz, found.gap) == (1, False, 0, 0.0)
    assert found.violation == pytest.approx(problem.penalty_max - problem.penalty)
    assert kliep.solve_kliep(problem, tolerance=found.violation).iterations == 0
    assert kliep.solve_kliep(problem, tolerance=found.violation).converged


def test_steps_out_of_the_domain_are_shortened(monkeypatch):
    """Where the objective is infinite the next half is tried; without descent at all there is no step."""
    problem = problem_of(880426, 4, 0.1)
    root, start = kliep._root(problem.sigma2), kliep_point(problem, np.zeros((4, 4)))
    free, direction = kliep._direction(problem, start)
    evaluate, tried = kliep._evaluate, []

    def narrow(problem, root, delta):
        tried.append(delta[free.rows, free.columns] / direction)
        if len(tried) <= 3:
            raise LinAlgError
        return evaluate(problem, root, delta)

    monkeypatch.setattr(kliep, "_evaluate", narrow)
    found = kliep._step(problem, root, start)
    np.testing.assert_allclose([share.max() for share in tried], 0.5 ** np.arange(len(tried)))
    assert found.objective < start.objective
    np.testing.assert_allclose(found.delta[free.rows, free.columns], direction * tried[-2])
    tried.clear()
    monkeypatch.setattr(
        kliep,
        "_evaluate",
        lambda *given: tried.append(1) or replace(evaluate(*given), objective=start.objective + 1),
    )
    assert kliep._step(problem, root, start) is None
    assert len(tried) > 30  # down to steps that no longer count


def scripted_step(monkeypatch, start, objectives):
    """The entries that the chosen step moves, over those of the whole one, for objectives made up."""
    problem = problem_of(880427, 4, 0.1)
    begin = replace(kliep_point(problem, np.zeros((4, 4))), objective=start)
    root, evaluate, answers = kliep._root(problem.sigma2), kliep._evaluate, iter(objectives)
    free, direction = kliep._direction(problem, begin)

    def evaluated(*given):
        return replace(evaluate(problem, root, np.zeros((4, 4))), delta=given[2], objective=next(answers, 1e9))

    monkeypatch.setattr(kliep, "_evaluate", evaluated)
    found = kliep._step(problem, root, begin)
    return None if found is None else float((found.delta[free.rows, free.columns] / direction).max())


@pytest.mark.parametrize(
    ("objectives", "share"),
    [
        ([-9, -10, -9.5, -11], 0.5),  # the search ends where it goes up again
        ([-9, -9, -10], 1.0),
        ([5, 5, -9, -10, -11, -10], 0.0625),
        ([5] * 40, None),
    ],
)
def test_of_sufficient_steps_the_last_before_a_rise_is_taken(monkeypatch, objectives, share):
    assert scripted_step(monkeypatch, 0.0, objectives) == share


@pytest.mark.parametrize("start", [0.0, -1e6, 1e6])
@pytest.mark.parametrize(("times", "taken"), [(0.5, True), (2.0, False)])
def test_descent_is_asked_for_up_to_rounding(monkeypatch, start, times, taken):
    problem = problem_of(880427, 4, 0.1)
    free, direction = kliep._direction(problem, kliep_point(problem, np.zeros((4, 4))))
    slopes = free.times * (problem.sigma1 - problem.sigma2)[free.rows, free.columns]
    promised = float((slopes + free.times * problem.penalty * free.signs) @ direction)
    assert promised < 0
    rounding = 1e-14 * (1 + abs(start))
    found = scripted_step(monkeypatch, start, [start + 1e-4 * promised + times * rounding])
    assert found == (1.0 if taken else None)


@pytest.mark.parametrize("seed", range(880440, 880443))
def test_of_many_violators_twenty_or_as_many_as_the_support_are_taken(seed):
    p, rng = 70, np.random.default_rng(seed)
    gradient = rng.permutation(np.arange(1.0, p * p + 1)).reshape(p, p)
    gradient = np.triu(gradient) + np.triu(gradient, 1).T
    problem = DifferenceProblem(np.eye(p), np.eye(p), 0.5)
    for support, most in ((0, 20), (3, 20), (30, 30)):
        delta = np.zeros((p, p))
        upper = np.column_stack(np.triu_indices(p))[rng.choice(p * (p + 1) // 2, support, replace=False)]
        delta[tuple(upper.T)] = delta[tuple(upper[:, ::-1].T)] = 1.0
        free = kliep._free(problem, kliep._Point(delta, 0.0, gradient, np.eye(p)))
        new = delta[free.rows, free.columns] == 0
        left = np.sort(gradient[np.triu(delta == 0) & (np.triu(gradient) > 0)])
        assert (~new).sum() == support
        assert sorted(gradient[free.rows, free.columns][new]) == left[-most:].tolist()


def test_gradients_at_the_penalty_hold_an_entry_at_zero():
    problem = DifferenceProblem(np.eye(2), np.eye(2), 0.5)
    gradient = np.array([[0.5, -0.75], [-0.75, -0.5]])
    free = kliep._free(problem, kliep._Point(np.zeros((2, 2)), 0.0, gradient, np.eye(2)))
    assert (free.rows.tolist(), free.columns.tolist(), free.signs.tolist()) == ([0], [1], [1.0])


# The linear programme


def test_what_comes_within_rounding_of_a_bound_is_at_it():
    master = dantzig._Master(problem_of(880438))
    for bound in (1e3, 2.0):
        master.bound = bound
        for off, there in ((0.0, True), (5e-10, True), (2e-9, False)):
            master.sizes = np.array([0.0, bound * (1 - off)])
            assert master._at_bound() == there


def test_certificates_at_exactly_the_tolerance():
    problem = DifferenceProblem(np.eye(2), np.eye(2) * 2, 0.5)
    delta, dual = (csr_array(np.array([[value, 0.0], [0.0, 0.0]])) for value in (1.0, 1.5))
    # The dual is worth 1.5 - 0.5 * 1.5 = 0.75, so that the gap is 0.25 as is the violation.
    tops = Peaks(np.zeros(2, int), np.array([0.75, 0.0])), Peaks(np.zeros(2, int), np.array([1.0, 0.5]))
    for tolerance, done in ((0.25, True), (0.2499, False)):
        found = dantzig._certify(problem, delta, dual, *tops, 1, tolerance)
        assert (found.violation, found.gap, found.converged) == (0.25, 0.25, done)


@pytest.mark.parametrize(("patience", "rounds"), [(2, 3), (4, 5)])
def test_refuted_problems_are_given_up_after_some_patience(monkeypatch, patience, rounds):
    monkeypatch.setattr(dantzig, "PATIENCE", patience)
    monkeypatch.setattr(dantzig, "SMALL", 0)
    monkeypatch.setattr(dantzig._Master, "grow", lambda *given: True)
    monkeypatch.setattr(dantzig._Master, "unbounded", lambda master: True)
    monkeypatch.setattr(DifferenceProblem, "refute", lambda problem, ray: 0.5)
    problem = problem_of(880430, 6, 0.05)
    found = dantzig.solve_dantzig(problem, -1.0)
    assert (found.iterations, found.converged, found.least_penalty) == (rounds, False, 0.5)
    monkeypatch.setattr(dantzig._Master, "unbounded", lambda master: False)
    monkeypatch.setattr(dantzig, "MAX_ROUNDS", 7)
    assert dantzig.solve_dantzig(problem, -1.0).iterations == 7
    monkeypatch.setattr(dantzig._Master, "grow", lambda *given: False)
    assert dantzig.solve_dantzig(problem, -1.0).iterations == 1


def test_bounds_are_drawn_closer_after_the_first_round_only(monkeypatch):
    monkeypatch.setattr(dantzig, "SMALL", 0)
    calls, rounds = [], []
    solve, tighten = dantzig._Master.solve, dantzig._Master.tighten_bounds
    monkeypatch.setattr(dantzig._Master, "solve", lambda master: rounds.append(1) or solve(master))
    monkeypatch.setattr(
        dantzig._Master, "tighten_bounds", lambda master: calls.append(len(rounds)) or tighten(master)
    )
    assert dantzig.solve_dantzig(problem_of(880431, 8, 0.1)).converged
    assert len(rounds) > 1
    assert calls == [1]


def test_few_variables_keep_their_first_bounds(monkeypatch):
    for small, bound in ((4, 1e3), (3, 0.75)):
        monkeypatch.setattr(dantzig, "SMALL", small)
        master = dantzig._Master(problem_of(880432))
        master.sizes = np.array([0.25, 0.5])
        master.tighten_bounds()
        assert master.bound == bound


def test_the_wider_the_bounds_the_less_exact_prices_are():
    problem = DifferenceProblem(np.eye(2), 2 * np.eye(2), 0.5)
    at, inside = np.array([1, 1]), np.array([0.1, 0.1])
    for bound, excess, grown in (
        *((1.0, 5e-9, False), (1.0, 2e-8, True)),
        *((1e3, 5e-6, True), (1e5, 5e-6, True), (1e6, 5e-6, False)),
    ):
        master = dantzig._Master(problem)
        master.bound, master.sizes = bound, np.zeros(1)
        assert master.grow(Peaks(at, inside), Peaks(at, np.array([0.1, 1 + excess]))) == grown


def test_highs_begins_again_only_where_it_gave_up(monkeypatch):
    afresh = []
    again = dantzig._Master._solve_afresh
    monkeypatch.setattr(dantzig._Master, "_solve_afresh", lambda master: afresh.append(1) or again(master))
    problem = problem_of(880433, 4, 0.2)
    best = dantzig.solve_dantzig(problem)
    assert best.converged
    assert not afresh
    monkeypatch.setattr(dantzig, "STEPS", 0)
    monkeypatch.setattr(dantzig, "LEAST_STEPS", 1)
    dantzig.solve_dantzig(problem)
    assert afresh


def test_steps_allowed_grow_with_rows_and_columns(monkeypatch):
    monkeypatch.setattr(dantzig, "STEPS", 7)
    monkeypatch.setattr(dantzig, "LEAST_STEPS", 100)
    master = dantzig._Master(problem_of(880434, 3, 0.2))
    master.start()
    master.solve()
    assert master.highs.getOptionValue("simplex_iteration_limit")[1] == 100 + 7 * (18 + 9)


def test_simplex_methods_are_those_meant():
    strategies = highspy.simplex_constants.SimplexStrategy
    master = dantzig._Master(problem_of(880435))
    asked = ("simplex_strategy", "simplex_scale_strategy")
    primal, plain = (master.highs.getOptionValue(name)[1] for name in asked)
    assert (primal, plain) == (int(strategies.kSimplexStrategyPrimal), 0)
    master.start()
    master.solve()
    master.bound = float(master.sizes.max())
    assert master._relax_bounds()
    assert master.bound == pytest.approx(10 * master.sizes.max())
    dual, scaled = (master.highs.getOptionValue(name)[1] for name in asked)
    assert dual == int(strategies.kSimplexStrategyDual)
    assert scaled > 0
    model = clime._model(np.eye(2))
    assert model.getOptionValue("simplex_strategy")[1] == dual
    assert model.getOptionValue("solver")[1] == "simplex"


def test_the_rough_start_has_the_units_of_the_penalty(monkeypatch):
    """Tables in which everything is larger begin with the same entries."""
    seen, solve, rounds = [], dantzig.descend, []

    def watched(problem, start, tolerance, *limits):
        seen.append((problem.penalty, tolerance))
        rounds.append((start is not None, limits))
        return solve(problem, start, tolerance, *limits)

    monkeypatch.setattr(dantzig, "descend", watched)
    for fraction in (0.5, 0.25):
        dantzig._Master(tight(17, fraction=fraction)).start()
    assert rounds == 2 * [(False, (1, 10, 8)), (True, (7, 10, 8))]  # one round, and the rest from there
    whole = tight(17, fraction=1.0).penalty
    for (penalty, tolerance), fraction in zip(seen, (0.5, 0.5, 0.25, 0.25), strict=True):
        assert 0.9 < penalty / (fraction * whole) < 1
        assert tolerance / (fraction * whole) == pytest.approx(seen[0][1] / (0.5 * whole))
        assert 0 < tolerance < 0.2 * penalty


def test_both_signs_of_all_entries_are_there():
    master = dantzig._Master(problem_of(880436, 3))
    master.start()
    assert sorted(zip(*master.variables, master.signs, strict=True)) == [
        (i, j, sign) for i in range(3) for j in range(3) for sign in (-1.0, 1.0)
    ]
    assert [part.tolist() for part in master.constraints] == [[0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 2] * 3]


def test_the_model_of_clime_is_the_programme_in_both_parts():
    sigma = covariances(880437, 3)[0]
    programme = clime._model(sigma).getLp()
    assert (programme.num_col_, programme.num_row_) == (6, 3)
    assert list(programme.col_cost_) == [1.0] * 6
    assert list(programme.col_lower_) == [0.0] * 6
    assert list(programme.col_upper_) == [highspy.kHighsInf] * 6
    assert list(programme.a_matrix_.start_) == [0, 3, 6, 9, 12, 15, 18]
    matrix = np.zeros((6, 3))
    matrix[np.repeat(np.arange(6), 3), programme.a_matrix_.index_] = programme.a_matrix_.value_
    np.testing.assert_array_equal(matrix, np.vstack([sigma.T, -sigma.T]))


def test_blocks_as_highs_wants_them():
    starts, indices, values = dantzig._dense(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).T)
    assert (starts.tolist(), indices.tolist()) == ([0, 2, 4], [0, 1] * 3)
    assert values.tolist() == [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]
    old, new = (np.array([1]), np.array([2])), (np.array([3, 4]), np.array([5, 6]))
    assert [part.tolist() for part in dantzig._append(old, new)] == [[1, 3, 4], [2, 5, 6]]


def test_rows_go_into_blocks_without_gaps(monkeypatch):
    monkeypatch.setattr(problems, "BLOCK", 12)
    parts = [(part.start, part.stop) for part in problems.row_blocks(7, 4)]
    assert parts == [(0, 3), (3, 6), (6, 7)]
    assert [(part.start, part.stop) for part in problems.row_blocks(2, 13)] == [(0, 1), (1, 2)]
    assert list(problems.row_blocks(0, 4)) == []
