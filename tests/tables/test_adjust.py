"""Covariates and units taken out of rows, against least squares on all of their columns."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffdag.pipeline import ModelOptions, moments_of
from diffdag.tables.adjust import fill_in, take_out
from diffdag.tables.align import align_tables
from diffdag.tables.design import Design

FEW = settings(max_examples=25)


def make(seed, n=(40, 55), q=2, donors=0, pairs=0):
    """Rows of three variables that covariates and donors act on, and their design."""
    rng = np.random.default_rng(seed)
    z = [rng.normal(k, 1 + k, (own, q)) for k, own in enumerate(n)]
    members = None
    units = ()
    if donors:
        numbers = np.arange(donors), np.arange(donors - pairs, 2 * donors - pairs)
        members = tuple(rng.permutation(np.resize(own, rows)) for own, rows in zip(numbers, n, strict=True))
        units = tuple(map(str, range(2 * donors - pairs)))
    tables = []
    for k in (0, 1):
        table = rng.standard_normal((n[k], 3)) + z[k] @ rng.normal(0, 2, (q, 3)) + rng.normal(0, 3, 3)
        if members is not None:
            table += rng.normal(0, 2, (len(units), 3))[members[k]]
        tables.append(table)
    names = tuple(f"z{k}" for k in range(q))
    cluster = "donor" if donors else ""
    return (tables[0], tables[1]), Design(names, names, (z[0], z[1]), cluster, units, members)


def regressors(design, which):
    """A constant, covariates, and all donors but one, as columns."""
    z = design.covariates[which]
    parts = [np.ones((len(z), 1)), z]
    if design.members is not None:
        own = design.members[which]
        parts.append((own[:, None] == np.unique(own)[1:]).astype(float))
    return np.hstack(parts)


def least_squares(design, table, which):
    """Residuals, rank and coefficients."""
    x = regressors(design, which)
    solution, _, rank, _ = np.linalg.lstsq(x, table, rcond=None)
    return table - x @ solution, rank, solution


def close(one, other, tolerance=1e-9):
    np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


SHAPES = {
    "one covariate": {"q": 1},
    "three covariates": {"q": 3},
    "donors": {"q": 0, "donors": 4},
    "donors and covariates": {"q": 2, "donors": 4},
    "pairs": {"q": 1, "donors": 5, "pairs": 5},
    "some pairs": {"q": 1, "donors": 5, "pairs": 2},
    "neither": {"q": 0},
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_what_is_left_is_what_least_squares_leaves(shape):
    tables, design = make(1, **shape)
    left, taken = take_out(tables, design)
    for k in (0, 1):
        residuals, rank, _ = least_squares(design, tables[k], k)
        close(left[k] - left[k].mean(axis=0), residuals)
        assert taken.lost[k] == rank - 1


@FEW
@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from([0, 3, 5]))
def test_covariates_that_depend_on_each_other_count_once(seed, q, donors):
    tables, design = make(seed, q=q, donors=donors)
    z1, z2 = design.covariates
    mixing = np.random.default_rng(seed).normal(size=(q, 2))
    more = np.hstack([z1, z1 @ mixing + 3]), np.hstack([z2, z2 @ mixing + 3])
    doubled = Design(design.adjust, design.columns, more, design.cluster, design.units, design.members)
    (left, taken), (again, other) = take_out(tables, design), take_out(tables, doubled)
    for k in (0, 1):
        close(left[k], again[k], 1e-7)
    assert taken.lost == other.lost
    close(taken.mean_rows, other.mean_rows, 1e-7)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_means_are_predictions_at_the_common_mean_of_the_covariates(q):
    tables, design = make(2, q=q)
    left, taken = take_out(tables, design)
    common = np.concatenate(design.covariates).mean(axis=0)
    for k in (0, 1):
        x = regressors(design, k)
        _, _, solution = least_squares(design, tables[k], k)
        at = np.concatenate([[1.0], common])
        close(left[k].mean(axis=0), at @ solution)
        # The variance of a prediction is sigma^2 times this: so many rows would have a mean as certain.
        close(taken.mean_rows[k], 1 / (at @ np.linalg.inv(x.T @ x) @ at))


def test_levels_of_units_are_their_fitted_means_at_the_common_covariates():
    tables, design = make(3, q=1, donors=4, pairs=1)
    _, taken = take_out(tables, design)
    common = float(np.concatenate(design.covariates).mean())
    for k, table in enumerate(tables):
        own = np.unique(design.members[k])
        x = np.hstack([design.covariates[k] - common, design.members[k][:, None] == own])
        solution = np.linalg.lstsq(x, table, rcond=None)[0]
        close(taken.nested.levels[k][own], solution[1:])
        absent = np.setdiff1d(np.arange(len(design.units)), own)
        assert np.isnan(taken.nested.levels[k][absent]).all()
    assert taken.mean_rows == (0.0, 0.0)  # donors tell of the means, not rows
    assert taken.nested.counts == (4, 4)
    assert len(taken.nested.pairs) == 1


def test_a_mean_that_extrapolates_is_worth_few_rows():
    tables, design = make(4, q=1)
    z1, z2 = design.covariates
    near, far = (
        take_out(tables, Design(("z",), ("z",), (z1, z2 + move)))[1].mean_rows for move in (-1.0, 20.0)
    )
    assert min(near) > 25
    assert max(far) < 3


@FEW
@given(st.integers(0, 10**6), st.floats(1e-6, 1e6), st.floats(-1e3, 1e3), st.sampled_from([0, 4]))
def test_units_of_a_covariate_and_the_order_of_rows_do_not_matter(seed, scale, shift, donors):
    tables, design = make(seed, q=2, donors=donors)
    left, taken = take_out(tables, design)
    rng = np.random.default_rng(seed)
    order = [rng.permutation(len(table)) for table in tables]
    mixed = design.take(order[0], order[1])
    covariates = tuple(own * [-scale, 1.0] + [shift * scale, 0.0] for own in mixed.covariates)
    renamed = rng.permutation(len(design.units))
    members = None if mixed.members is None else tuple(renamed[own] for own in mixed.members)
    other = Design(design.adjust, design.columns, covariates, design.cluster, design.units, members)
    again, known = take_out((tables[0][order[0]], tables[1][order[1]]), other)
    for k in (0, 1):
        close(again[k], left[k][order[k]], 1e-6)
    assert known.lost == taken.lost
    close(known.mean_rows, taken.mean_rows, 1e-6)


def frames(seed=5, n=90):
    """Two conditions; age and batch act on all variables."""
    rng = np.random.default_rng(seed)
    out = []
    for k in (0, 1):
        age, batch = rng.normal(50 + 5 * k, 10, n), rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
        pull = pd.Series(batch).map({"a": 0.0, "b": 2.0, "c": -1.0}).to_numpy()
        rows = rng.standard_normal((n, 3)) + 0.1 * age[:, None] + pull[:, None]
        out.append(pd.DataFrame(rows, columns=list("xyz")).assign(age=age, batch=batch))
    return out


def dummies(table):
    return pd.get_dummies(table["batch"]).to_numpy(float)


def test_categories_are_taken_out_as_dummies_would_be():
    first, second = frames()
    tables = align_tables(first, second, adjust=["batch", "age"]).adjusted
    for rows, table in zip((tables.first, tables.second), (first, second), strict=True):
        x = np.column_stack([dummies(table), table["age"]])
        values = table[list("xyz")].to_numpy()
        residuals = values - x @ np.linalg.lstsq(x, values, rcond=None)[0]
        close(rows - rows.mean(axis=0), residuals)
    assert tables.taken.lost == (3, 3)
    assert tables.names == ("x", "y", "z")


def same_moments(one, other, tolerance=1e-8):
    for own, also in zip(moments_of(one, ModelOptions()), moments_of(other, ModelOptions()), strict=True):
        assert own.n == also.n
        close(own.mean, also.mean, tolerance)
        close(own.scatter, also.scatter, tolerance * own.n)
        close(own.mean_rows or own.n, also.mean_rows or also.n, tolerance)


RECODED = {
    "names of levels": lambda t: t.assign(batch=t["batch"].map({"a": "zz", "b": "m", "c": "1"})),
    "levels as numbers": lambda t: t.assign(batch=t["batch"].map({"a": 3, "b": 1, "c": 2})),
    "levels as numbers as text": lambda t: t.assign(batch=t["batch"].map({"a": "3", "b": "1", "c": "2"})),
    "categorical": lambda t: t.assign(batch=t["batch"].astype("category")),
    "years": lambda t: t.assign(age=2026 - t["age"]),
    "a constant": lambda t: t.assign(batch=t["batch"], site="here"),
    "rows": lambda t: t.sample(frac=1, random_state=3),
    "columns": lambda t: t[["batch", "age", "x", "y", "z"]],
}


@pytest.mark.parametrize("change", RECODED.values(), ids=RECODED)
def test_moments_do_not_depend_on_how_covariates_are_written(change):
    both = frames()
    changed = [change(table) for table in both]
    names = [name for name in changed[0] if name not in "xyz"]
    same_moments(align_tables(*both, adjust=["age", "batch"]), align_tables(*changed, adjust=names))


def test_a_constant_covariate_alone_changes_nothing():
    first, second = (table.drop(columns="batch").assign(age=3.0) for table in frames())
    same_moments(align_tables(first, second, adjust=["age"]), align_tables(first, second, drop=["age"]), 1e-10)


def test_moments_of_some_columns_are_those_of_all():
    both = frames()
    tables = align_tables(*both, adjust=["age", "batch"])
    for whole, part in zip(
        moments_of(tables, ModelOptions()), moments_of(tables, ModelOptions(), [2, 0]), strict=True
    ):
        close(whole.select(["z", "x"]).scatter, part.scatter)
        assert part.mean_rows == whole.mean_rows
    chosen = tables.select(["z", "x"])
    same_moments(
        chosen, align_tables(*(table[["z", "x", "age", "batch"]] for table in both), adjust=["age", "batch"])
    )


def test_some_rows_have_the_design_of_those_rows():
    both = [table.assign(donor=np.arange(90) % 5) for table in frames()]
    tables = align_tables(*both, adjust=["age", "batch"], cluster="donor")
    some = np.arange(0, 90, 2), np.arange(10, 80)
    taken = tables.take(*some)
    fewer = align_tables(
        *(table.iloc[rows] for table, rows in zip(both, some, strict=True)),
        adjust=["age", "batch"],
        cluster="donor",
    )
    same_moments(taken, fewer)
    np.testing.assert_array_equal(taken.take(np.arange(5), np.arange(5)).places[0], [0, 2, 4, 6, 8])
    halves = tables.halves(1, np.arange(40), np.arange(40, 90))
    table = both[1]
    same_moments(halves, align_tables(table[:40], table[40:], adjust=["age", "batch"], cluster="donor"))


def test_tables_without_gaps_are_filled_by_themselves():
    tables, design = make(6, q=2, donors=4)
    (plain, taken), (filled, known) = take_out(tables, design), fill_in(tables, design)
    for k in (0, 1):
        close(plain[k], filled[k])
        close(taken.nested.levels[k], known.nested.levels[k])
    assert (taken.lost, taken.mean_rows) == (known.lost, known.mean_rows)
    assert [own.share for own in known.filled] == [1.0, 1.0]


def test_gaps_are_filled_around_what_covariates_and_donors_say():
    tables, design = make(7, n=(400, 500), q=1, donors=4)
    rng = np.random.default_rng(0)
    gappy = tuple(np.where(rng.random(table.shape) < 0.1, np.nan, table) for table in tables)
    (one, two), taken = fill_in(gappy, design)
    whole, known = take_out(tables, design)
    for own, wanted, was, k in zip((one, two), whole, gappy, (0, 1), strict=True):
        assert np.isfinite(own).all()
        assert own.std(axis=0) == pytest.approx(wanted.std(axis=0), rel=0.1)
        spread = wanted.std(axis=0) / np.sqrt(len(was) / 4)  # of the mean of a donor
        apart = np.abs(taken.nested.levels[k] - known.nested.levels[k]) / spread
        assert np.nanmax(apart) < 2
        assert 0.6 < taken.filled[k].share < 1
    assert taken.lost == known.lost


def test_moments_of_tables_with_gaps_have_the_covariance_of_the_most_likely_model():
    first, second = frames(n=300)
    holes = np.random.default_rng(1).random((300, 3)) < 0.15
    for table in (first, second):
        table[list("xyz")] = table[list("xyz")].mask(holes)
    tables = align_tables(first, second, adjust=["age", "batch"], missing="em")
    one, two = moments_of(tables, ModelOptions())
    for own, known in zip((one, two), tables.adjusted.taken.filled, strict=True):
        n = len(known.rows)  # without those in which nothing is known
        # Free of the bias of maximum likelihood: four parameters for each variable.
        close(own.scatter / (own.n - 1), known.covariance * n / (n - 4))
        assert own.n == round((n - 3) * known.share)
        assert own.mean_rows < own.n * 1.02
    assert tables.adjusted.notes == tables.notes
