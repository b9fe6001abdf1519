"""What must not matter does not, for every method in the comparators' registry, a new one included.

A method whose published form depends on something stands in `LIMITS` with the reason, and what is promised
instead is tested below. ``METAMORPHIC_TIMES=20`` for a longer run with other problems.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from metamorphic import Study, problems, studies

from diffdag import DiffDagWarning, Moments, precision_difference
from diffdag.reproduce.methods import all_methods
from diffdag.reproduce.methods.gaussian import both_tables
from diffdag.reproduce.methods.mmhc import parents_and_children
from diffdag.reproduce.methods.pc import pc_graph
from diffdag.reproduce.scoring import score

METHODS = all_methods()
methods = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.skipif(not method.available, reason=f"needs {method.needs}"))
        for name, method in METHODS.items()
    ],
)

KNOWN_SECOND = "KLIEP fits the density ratio to the first sample, with a normaliser of the second"
EQUAL_NOISE = "equal noise variances are an assumption about the units given"
LIMITS = {
    ("kliep", "sides"): KNOWN_SECOND,
    ("dci-k", "sides"): KNOWN_SECOND,
    ("listen", "units"): EQUAL_NOISE,
    ("bottom-up", "units"): EQUAL_NOISE,
    ("pc", "columns"): "of colliders in conflict the first stands, and the first separating set found counts",
    ("mmhc", "columns"): "of equivalent DAGs the first one met is kept",
    ("order", "zeros"): "a mean that moves is evidence, so one zero must serve both tables",
}


def run(name: str, study: Study) -> np.ndarray:
    return run_moments(name, *study.moments(), study)


def run_moments(name: str, first: Moments, second: Moments, study: Study) -> np.ndarray:
    method = METHODS[name]
    order = study.pair.order  # of the columns of the models, wherever they stand in the tables
    place = {known: k for k, known in enumerate(first.names)}
    told = ([place[study.pair.first.names[k]] for k in order],) if method.knows_order else ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DiffDagWarning)
        return method.run(first, second, *told)


def test_limits_are_of_methods_that_exist():
    assert {name for name, _ in LIMITS} <= set(METHODS)


@pytest.mark.slow
@methods
@problems(3)
@given(study=studies())
def test_sides_columns_and_units_do_not_matter(name, study):
    graph = run(name, study)
    assert graph.shape == (study.p, study.p)
    assert not graph.diagonal().any()
    if (name, "sides") not in LIMITS:
        np.testing.assert_array_equal(run(name, study.swapped()), graph)
    if (name, "columns") not in LIMITS:
        columns = study.rng.permutation(study.p)
        np.testing.assert_array_equal(run(name, study.select(columns)), graph[np.ix_(columns, columns)])
    zeros = 1 if (name, "zeros") in LIMITS else 2
    if (name, "units") not in LIMITS:
        np.testing.assert_array_equal(run(name, _scaled(study, study.factors(), zeros)), graph)
    # One unit for all columns, each turned round or not, and another zero (in each table its own).
    turned = study.rng.choice([-1.0, 1.0], study.p) * 10 ** study.rng.uniform(-3, 3)
    np.testing.assert_array_equal(run(name, _scaled(study, turned, zeros)), graph)


def _scaled(study: Study, factors: np.ndarray, zeros: int) -> Study:
    shifts = np.resize(np.abs(factors) * study.rng.normal(size=(zeros, study.p)), (2, study.p))
    first, second = study.first * factors + shifts[0], study.second * factors + shifts[1]
    return replace(study, first=first, second=second)


@pytest.mark.slow
@methods
@problems(2)
@given(study=studies())
def test_rows_in_any_order_told_twice_or_in_parts_do_not_matter(name, study):
    graph = run(name, study)
    first, second = study.moments()
    shuffled = study.first[study.rng.permutation(len(study.first))]
    cut = int(study.rng.integers(1, len(shuffled)))
    merged = Moments.from_array(shuffled[cut:], study.names) + Moments.from_array(shuffled[:cut], study.names)
    twice = Moments.from_array(np.repeat(study.second, 2, axis=0), study.names)
    halved = Moments(twice.names, second.n, twice.mean, twice.scatter / 2)
    np.testing.assert_array_equal(run_moments(name, merged, halved, study), graph)
    backwards = second.select(second.names[::-1])
    np.testing.assert_array_equal(run_moments(name, first, backwards, study), graph)
    names = tuple(f"-> {name}" for name in study.names)
    if not METHODS[name].knows_order:
        renamed = [replace(moments, names=names) for moments in (first, second)]
        np.testing.assert_array_equal(run_moments(name, *renamed, study), graph)


@methods
@problems(2)
@given(study=studies())
def test_a_table_compared_with_itself_shows_no_change(name, study):
    assert not run(name, replace(study, second=study.first)).any()


@problems(20)
@given(study=studies())
def test_scores_do_not_depend_on_the_order_of_the_columns(study):
    graph, truth = study.rng.random((study.p, study.p)) < 0.3, study.pair.changed
    columns = study.rng.permutation(study.p)
    block = np.ix_(columns, columns)
    assert score(truth[block], graph[block]) == score(truth, graph)


# What is promised instead


@pytest.mark.skipif(not METHODS["pc"].available, reason="needs causal-learn")
@problems(5)
@given(study=studies())
def test_the_skeleton_of_pc_does_not_depend_on_the_order_of_the_columns(study):
    columns = study.rng.permutation(study.p)
    for table, other in zip(
        both_tables(*study.moments()), both_tables(*study.select(columns).moments()), strict=True
    ):
        graph, permuted = pc_graph(table), pc_graph(other)
        skeleton = (graph | graph.T)[np.ix_(columns, columns)]
        np.testing.assert_array_equal(permuted | permuted.T, skeleton)


@problems(5)
@given(study=studies())
def test_the_candidates_of_mmhc_do_not_depend_on_the_order_of_the_columns(study):
    columns = study.rng.permutation(study.p)
    for table, other in zip(
        both_tables(*study.moments()), both_tables(*study.select(columns).moments()), strict=True
    ):
        for place, column in enumerate(columns):
            near = parents_and_children(other, place)
            found = {int(columns[k]) for k in range(study.p) if near >> k & 1}
            assert found == {k for k in range(study.p) if parents_and_children(table, int(column)) >> k & 1}


@problems(5)
@given(study=studies())
def test_kliep_without_penalty_turns_round_with_the_tables(study):
    """Then it is the difference of the inverses: what breaks the symmetry is the penalty."""
    first, second = study.moments()
    one = precision_difference(first, second, method="kliep", penalty=0.0).matrix
    two = precision_difference(second, first, method="kliep", penalty=0.0).matrix
    plain = precision_difference(first, second, method="plugin").matrix
    np.testing.assert_allclose(one, -two, atol=1e-5 * np.abs(plain).max())
    np.testing.assert_allclose(one, plain, atol=1e-5 * np.abs(plain).max())
