"""Shape as evidence for an order: what it settles, and where it must not count."""

import itertools

import numpy as np
import pytest

import diffdag as dd
from diffdag.ordersearch import shape
from diffdag.pipeline import ModelOptions, Refit, prepare, search
from diffdag.tables.align import align_tables

P = 4


def tables_of(noise: str, n: int = 600, seed: int = 0) -> list[np.ndarray]:
    """Two tables of a chain X1 -> X2 -> X3 -> X4, in which the last effect changes."""
    rng = np.random.default_rng(seed)
    draw = {
        "laplace": lambda: rng.laplace(size=(n, P)) / 2**0.5,
        "gaussian": lambda: rng.standard_normal((n, P)),
    }
    found = []
    for last in (0.8, 0.0):
        weights = np.diag([0.8, 0.8, last], -1)
        found.append(np.linalg.solve(np.eye(P) - weights, draw[noise]().T).T)
    return found


def fit_of(tables, **how):
    options = ModelOptions(**how)
    return search(prepare(align_tables(*tables), options), options)


def test_the_table_says_what_residuals_along_orders_say():
    own = shape.Shape.of(tables_of("laplace"), 1200)
    table = own.tabulate()
    for order in itertools.permutations(range(P)):
        members, total = 0, 0.0
        for i in order:
            total += table[members, i]
            members |= 1 << i
        assert total == pytest.approx(own.along(order), rel=1e-8)


def test_the_causal_order_has_the_most_evidence():
    own = shape.Shape.of(tables_of("laplace", n=3000), 6000)
    best = max(itertools.permutations(range(P)), key=own.along)
    assert list(best) == sorted(best)


def test_laplace_noise_counts_and_is_said():
    fit = fit_of(tables_of("laplace"))
    assert fit.shaped
    assert fit.optimum.margins[3, 2] > 10
    assert any("their shape counted" in note for note in fit.difference.notes)
    assert "shape" in fit.difference.settings


def test_gaussian_rows_are_searched_as_before(monkeypatch):
    tables = tables_of("gaussian")
    fit = fit_of(tables)
    assert not fit.shaped
    monkeypatch.setattr("diffdag.ordersearch.fit.settle_by_shape", lambda *_, **__: None)
    assert fit.difference.settings == fit_of(tables).difference.settings


def test_dependence_of_one_pair_is_seen_among_many():
    rng = np.random.default_rng(2)
    u = rng.laplace(size=(1000, 20)) / 2**0.5
    total, largest = shape.dependence(u)
    assert total < shape.DEPENDENT
    assert largest > shape.LARGEST
    u[:, 1] *= np.where(np.abs(u[:, 0]) > 1, 1.3, 0.8)  # wider where another is far out
    total, largest = shape.dependence(u / u.std(axis=0))
    assert total < shape.DEPENDENT
    assert largest < shape.LARGEST


@pytest.mark.parametrize("bend", ["tanh", "wide rows", "few values"])
def test_what_only_looks_like_shape_does_not_count(bend):
    rng, tables = np.random.default_rng(5), tables_of("gaussian", n=1500)
    if bend == "tanh":
        tables = [np.tanh(2 * table / table.std(axis=0)) for table in tables]
    elif bend == "wide rows":
        tables = [table / np.sqrt(rng.chisquare(4, (len(table), 1)) / 4) for table in tables]
    else:
        tables = [np.round(table) for table in tables_of("laplace")]
    assert not fit_of(tables).shaped


def test_ranks_have_no_shape_of_their_own():
    assert not fit_of(tables_of("laplace"), covariance="winsorised").shaped


def test_resamples_follow_what_all_rows_decided():
    tables, options = tables_of("laplace"), ModelOptions()
    fit = fit_of(tables)
    assert Refit.of(options, fit=fit).shape is True
    assert Refit.of(options, fit=fit_of(tables_of("gaussian"))).shape is False


def test_orders_that_were_met_are_compared_like_all():
    tables = tables_of("laplace")
    fit = fit_of(tables)
    near = shape.settle_by_shape(fit.optimum, tables, decided=True, starts=[(3, 2, 1, 0), (0, 1, 2, 3)])
    assert near is not None
    assert near.margins[3, 2] == pytest.approx(fit.optimum.margins[3, 2], abs=1.0)


def test_moves_find_the_order_with_the_most_evidence():
    own = shape.Shape.of(tables_of("laplace", n=3000), 6000)
    nothing = np.zeros((P, P), bool)
    assert own.improved((3, 1, 0, 2), nothing) == (0, 1, 2, 3)
    known = nothing.copy()
    known[2, 1] = True
    found = own.improved((3, 2, 1, 0), known)
    allowed = [order for order in itertools.permutations(range(P)) if order.index(2) < order.index(1)]
    assert own.along(found) == pytest.approx(max(map(own.along, allowed)))
    assert found in allowed


def test_evidence_is_kept_while_variables_are_swapped():
    own = shape.Shape.of(tables_of("laplace"), 1200)
    path = shape._Path(own, [2, 0, 3, 1])
    for place in (0, 2, 1, 0, 1):
        path.swap(place)
        assert path.gained.sum() == pytest.approx(own.along(path.order), rel=1e-8)


def test_shape_counts_where_variables_are_too_many_to_compare_all_orders():
    found = {False: 0, None: 0}
    for seed in range(3):
        rng = np.random.default_rng([8, seed])
        pair = dd.simulate_pair(16, neighbours=4, changes=5, weights=(0.25, 0.5), noise="laplace", rng=rng)
        tables = align_tables(pair.first.sample(300, rng), pair.second.sample(300, rng))
        prepared = prepare(tables, ModelOptions())
        for own in found:
            fit = search(prepared, ModelOptions(), shape=own)
            assert fit.shaped == (own is None)
            claimed = {edge[:2] for edge in fit.claims().edges if edge[2]}
            assert not any(edge[::-1] in pair.edges for edge in claimed)
            found[own] += len(claimed & pair.edges)
    assert found[None] > found[False]


def test_with_resamples_shape_makes_sure_of_a_direction_that_nothing_else_tells():
    rng = np.random.default_rng(1)

    def result_of(draw):
        # All of X1 -> X2 changes, and all of it would backwards: second moments cannot tell.
        tables = []
        for effect, wide, noise in ((1.0, 1.0, 1.0), (0.3, 1.6, 0.5)):
            own = draw((600, 3)) * [wide, noise, 1.0]
            own[:, 1] += effect * own[:, 0]
            tables.append(own)
        return dd.DifferenceDAG(resamples=20, rng=0).fit(*tables).result_

    (edge,) = result_of(lambda size: rng.laplace(size=size)).edge_list
    assert (edge.source, edge.target, edge.directed) == ("X1", "X2", True)
    assert edge.settled
    assert edge.direction is not None
    assert edge.direction > 0.9
    (other,) = result_of(rng.standard_normal).edge_list
    assert not other.directed
    assert other.direction is None or other.direction < edge.direction
