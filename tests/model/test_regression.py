"""Weights of edges: least squares from moments equals least squares on the rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffdag import Moments
from diffdag.model.regression import regress

UNITS = np.array([1.0, 1e-6, 30.0, 1e6, 0.01])


def raw_table(n: int, seed: int = 0) -> np.ndarray:
    """Correlated columns in different units, far from zero."""
    rng = np.random.default_rng(seed)
    mixing = np.tril(rng.uniform(-1, 1, (5, 5)), -1) + np.eye(5)
    return (rng.standard_normal((n, 5)) @ mixing.T + rng.uniform(-20, 20, 5)) * UNITS


def ordinary_least_squares(table: np.ndarray, target: int, on: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and textbook standard errors of a regression with intercept on the raw rows."""
    scale = np.abs(table[:, on]).max(axis=0)  # lstsq cuts off small singular values
    design = np.column_stack([np.ones(len(table)), table[:, on] / scale])
    solution, _, rank, _ = np.linalg.lstsq(design, table[:, target])
    assert rank == design.shape[1]
    residual = table[:, target] - design @ solution
    variance = residual @ residual / (len(table) - design.shape[1])
    errors = np.sqrt(variance * np.diag(np.linalg.inv(design.T @ design)))
    return solution[1:] / scale, errors[1:] / scale


@settings(max_examples=25, derandomize=True, deadline=None)
@given(n=st.integers(8, 200), columns=st.permutations(range(5)), count=st.integers(1, 4))
def test_coefficients_and_errors_equal_least_squares_on_the_rows(n, columns, count):
    target, *on = columns[: count + 1]
    table = raw_table(n, seed=n)
    fit = regress(Moments.from_array(table), target, on)
    coefficients, errors = ordinary_least_squares(table, target, on)
    # A coefficient near zero is right relative to its standard error.
    np.testing.assert_allclose((fit.coefficients - coefficients) / errors, 0, atol=1e-7)
    np.testing.assert_allclose(fit.stderrs, errors, rtol=1e-7)


def test_one_degree_of_freedom_is_enough():
    table = raw_table(4)
    fit = regress(Moments.from_array(table), 2, [0, 4])
    coefficients, errors = ordinary_least_squares(table, 2, [0, 4])
    np.testing.assert_allclose(fit.coefficients, coefficients, rtol=1e-7)
    np.testing.assert_allclose(fit.stderrs, errors, rtol=1e-6)


def test_answers_come_in_the_order_asked_for():
    moments = Moments.from_array(raw_table(50))
    one, other = regress(moments, 2, [0, 3]), regress(moments, 2, [3, 0])
    np.testing.assert_allclose(one.coefficients, other.coefficients[::-1], rtol=1e-12)
    np.testing.assert_allclose(one.stderrs, other.stderrs[::-1], rtol=1e-12)


def test_answers_are_in_the_users_units():
    table, factors = raw_table(50), np.array([1e-6, 2.0, -5.0, 1e6, 0.1])
    before = regress(Moments.from_array(table), 2, [0, 3])
    after = regress(Moments.from_array(table * factors), 2, [0, 3])
    units = factors[2] / factors[[0, 3]]
    np.testing.assert_allclose(after.coefficients, before.coefficients * units, rtol=1e-9)
    np.testing.assert_allclose(after.stderrs, before.stderrs * np.abs(units), rtol=1e-9)


def test_little_noise_keeps_its_standard_error():
    rng = np.random.default_rng(1)
    causes = rng.standard_normal((200, 2))
    table = np.column_stack([causes, causes @ [2.0, -1.0] + 1e-4 * rng.standard_normal(200)])
    fit = regress(Moments.from_array(table), 2, [0, 1])
    coefficients, errors = ordinary_least_squares(table, 2, [0, 1])
    np.testing.assert_allclose(fit.coefficients, coefficients, rtol=1e-10)
    np.testing.assert_allclose(fit.stderrs, errors, rtol=1e-5)


def test_an_exact_relation_has_no_error():
    cause = np.random.default_rng(2).standard_normal(30)
    fit = regress(Moments.from_array(np.column_stack([cause, 3 * cause + 7])), 1, [0])
    assert fit.coefficients == pytest.approx([3], rel=1e-12)
    assert 0 <= fit.stderrs[0] < 1e-7


@pytest.mark.slow
def test_standard_errors_are_those_of_repeated_samples():
    rng = np.random.default_rng(3)
    found, stated = [], []
    for _ in range(400):
        cause = rng.standard_normal((60, 2))
        effect = cause @ [0.5, -1.0] + 2 * rng.standard_normal(60)
        fit = regress(Moments.from_array(np.column_stack([cause, effect])), 2, [0, 1])
        found.append(fit.coefficients)
        stated.append(fit.stderrs)
    np.testing.assert_allclose(np.mean(found, axis=0), [0.5, -1.0], atol=0.06)
    np.testing.assert_allclose(np.std(found, axis=0), np.mean(stated, axis=0), rtol=0.12)
