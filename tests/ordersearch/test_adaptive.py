"""Changed effects by estimates that know the shape of the noise: precise, honest, and none where none is."""

import numpy as np
import pytest

from diffdag.ordersearch.adaptive import pseudo_responses
from diffdag.pipeline import ModelOptions, prepare, search
from diffdag.tables.align import align_tables

DRAWN = {
    "exponential": lambda rng, size: rng.exponential(size=size) - 1,
    "uniform": lambda rng, size: rng.uniform(-(3**0.5), 3**0.5, size),
    "laplace": lambda rng, size: rng.laplace(scale=0.5**0.5, size=size),
    "gaussian": lambda rng, size: rng.standard_normal(size),
}


def slopes(before, target):
    """Coefficients, and their standard errors by least squares."""
    found, residuals, _, _ = np.linalg.lstsq(before, target, rcond=None)
    n, k = before.shape
    return found, np.sqrt(residuals[0] / (n - k - 1) * np.diag(np.linalg.inv(before.T @ before)))


def chain(noise, seed, effects, n=300, p=4):
    """Two tables of a chain whose last effect is one of two."""
    rng = np.random.default_rng([77, seed])
    tables = []
    for last in effects:
        weights = np.diag([0.8] * (p - 2) + [last], -1)
        tables.append(np.linalg.solve(np.eye(p) - weights, DRAWN[noise](rng, (n, p)).T).T)
    return tables


def fit_of(tables, shape=None, **how):
    options = ModelOptions(**how)
    return search(prepare(align_tables(*tables), options), options, shape=shape)


@pytest.mark.parametrize(
    ("noise", "precision"), [("exponential", 2.5), ("uniform", 1.8), ("laplace", 1.25), ("gaussian", 0.95)]
)
def test_estimates_are_as_precise_as_they_say(noise, precision):
    rng, n, k = np.random.default_rng(3), 250, 5
    apart, plain, stated = [], [], []
    for _ in range(60):
        x, u = rng.standard_normal((2, n, k)), DRAWN[noise](rng, (2, n))
        x, u = x - x.mean(axis=1, keepdims=True), u - u.mean(axis=1, keepdims=True)
        (one, e1), (two, e2) = map(slopes, x, pseudo_responses(x, u))
        apart.append(one - two)
        stated.append((one - two) / np.hypot(e1, e2))
        plain.append(slopes(x[0], u[0])[0] - slopes(x[1], u[1])[0])
    assert np.var(plain) / np.var(apart) > precision
    assert np.var(stated) == pytest.approx(1, abs=0.25)  # of 300 squares: three standard deviations


def test_a_change_too_small_for_least_squares_is_found():
    found = {True: 0, False: 0}
    for seed in range(8):
        tables = chain("exponential", seed, (0.8, 0.55))
        for shape in found:
            edges = fit_of(tables, shape).claims().edges
            found[shape] += ("X3", "X4", True) in edges
            assert set(edges) <= {("X3", "X4", True)}
    assert found[True] == 8
    assert found[False] <= 4


@pytest.mark.parametrize("noise", ["exponential", "uniform", "laplace"])
def test_nothing_is_found_where_nothing_changed(noise):
    counted = 0
    for seed in range(8):
        tables = chain(noise, seed, (0.8, 0.8))
        assert not fit_of(tables, shape=True).claims().edges
        counted += fit_of(tables).shaped
    assert counted >= 6


def test_weights_are_more_precise_and_variances_stay():
    tables = chain("exponential", 1, (0.8, 0.4))
    plain, sharp = (fit_of(tables, shape, order=["X1", "X2", "X3", "X4"]) for shape in (False, True))
    assert 3 in sharp.optimum.responses
    one, two = (fit.regression(3) for fit in (plain, sharp))
    assert 0 < two.error_delta[2] < 0.7 * one.error_delta[2]
    assert two.first[2] == pytest.approx(0.8, abs=3 * two.error_first[2])
    assert two.second[2] == pytest.approx(0.4, abs=3 * two.error_second[2])
    assert (two.variance_first, two.squares, two.worth) == (one.variance_first, one.squares, one.worth)


def test_who_knows_the_order_learns_no_less():
    tables = chain("exponential", 0, (0.8, 0.55))
    told = fit_of(tables, order=["X1", "X2", "X3", "X4"])
    assert told.shaped
    assert told.claims().edges == fit_of(tables).claims().edges == (("X3", "X4", True),)


def test_noise_that_differs_in_size_is_weighted():
    one, two = chain("exponential", 2, (0.8, 0.4), n=400)
    noise = np.random.default_rng(0).exponential(size=400) - 1
    two[:, 3] = 0.4 * two[:, 2] + 3 * noise
    fit = fit_of([one, two])
    assert 3 in fit.structure.separate
    assert ("X3", "X4", True) in fit.claims().edges
    assert [own.variable for own in fit.difference.noise_list] == ["X4"]


def test_units_do_not_matter():
    tables = chain("laplace", 4, (0.8, 0.3))
    scale = np.array([1e-3, 10.0, 1.0, 1e5])
    plain, scaled = (fit_of([own * by for own in tables]) for by in (np.ones(4), scale))
    assert plain.claims().edges == scaled.claims().edges != ()
    edge, other = (fit.difference.edge_list[0] for fit in (plain, scaled))
    assert other.delta == pytest.approx(edge.delta * 1e5, rel=1e-6)
    assert plain.unsettled == scaled.unsettled
