"""Covariates and units as users bring them: what is taken, what is noted, and what is refused."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import diffdag as dd
from diffdag._base.errors import InputError
from diffdag.pipeline import ModelOptions, moments_of
from diffdag.tables.align import align_tables

N = 60


def table(seed, n=N, **columns):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.standard_normal((n, 3)), columns=["x", "y", "z"]).assign(**columns)


def pair(**columns):
    """Two tables, with columns that are given by functions of the condition and random numbers."""
    return [
        table(
            k,
            **{
                name: make(k, np.random.default_rng([9, k, own]))
                for own, (name, make) in enumerate(columns.items())
            },
        )
        for k in (0, 1)
    ]


def age(_, rng):
    return rng.normal(50, 10, N)


def batch(_, rng):
    return rng.permutation(np.resize(["a", "b", "c"], N))


def donor(k, rng):
    return rng.permutation(np.resize([f"d{4 * k + u}" for u in range(4)], N))


def taken_out(first, second, **options):
    """The rows that are compared, one table below the other."""
    tables = align_tables(first, second, **options).adjusted
    return np.concatenate([tables.first, tables.second])


# What is taken


WAYS = {
    "pandas": lambda frame: frame,
    "pandas categorical": lambda frame: frame.astype({"batch": "category", "donor": "category"}),
    "pandas text": lambda frame: frame.astype({"batch": "string", "donor": "string"}),
    "pandas objects": lambda frame: frame.astype({"batch": object, "donor": object, "sex": object}),
    "pandas decimals": lambda frame: frame.assign(age=[Decimal(repr(value)) for value in frame["age"]]),
    "polars": pl.from_pandas,
    "polars categorical": lambda frame: pl.from_pandas(frame).with_columns(
        pl.col("batch").cast(pl.Categorical)
    ),
    "polars lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "arrow": pa.Table.from_pandas,
    "arrow dictionary": lambda frame: pa.Table.from_pandas(frame.astype({"batch": "category"})),
    "sex as 0 and 1": lambda frame: frame.assign(sex=frame["sex"].astype(int)),
    "sex as text": lambda frame: frame.assign(sex=frame["sex"].map({True: "f", False: "m"})),
}


def sex(_, rng):
    return rng.random(N) < 0.4


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_tables_of_every_kind_have_the_same_covariates_and_units(way):
    both = pair(age=age, batch=batch, sex=sex, donor=donor)
    how = {"adjust": ["age", "batch", "sex"], "cluster": "donor"}
    np.testing.assert_allclose(taken_out(*map(way, both), **how), taken_out(*both, **how), atol=1e-9)


def test_kinds_may_differ_between_the_tables():
    both = pair(batch=lambda _, rng: rng.permutation(np.resize([1, 2, 3], N)), sex=sex)
    other = both[1].assign(
        batch=both[1]["batch"].astype(str).astype("category"), sex=both[1]["sex"].astype(object)
    )
    how = {"adjust": ["batch", "sex"]}
    np.testing.assert_allclose(taken_out(both[0], other, **how), taken_out(*both, **how), atol=1e-9)


def test_columns_of_arrays_are_covariates_by_their_place():
    both = pair(age=age)
    arrays = [frame.to_numpy() for frame in both]
    np.testing.assert_array_equal(taken_out(*arrays, adjust=["X4"]), taken_out(*both, adjust=["age"]))


def test_columns_of_obs_are_covariates_and_units_of_cells():
    ad = pytest.importorskip("anndata")
    both = pair(age=age, batch=batch, donor=donor)
    cells = [
        ad.AnnData(
            frame[["x", "y", "z"]].to_numpy(),
            obs=frame[["age", "batch", "donor"]].set_axis([f"cell {k}" for k in range(N)]),
            var=pd.DataFrame(index=["x", "y", "z"]),
        )
        for frame in both
    ]
    how = {"adjust": ["age", "batch"], "cluster": "donor"}
    np.testing.assert_allclose(taken_out(*cells, **how), taken_out(*both, **how), atol=1e-6)
    with pytest.raises(InputError, match="did you mean 'batch'"):
        align_tables(*cells, adjust=["bacth"])


def test_levels_of_a_categorical_column_are_categories_however_many_numbers_they_are():
    plates = lambda _, rng: rng.permutation(np.resize(np.arange(12), N))  # noqa: E731
    numbers = pair(plate=plates)
    levels = [frame.astype({"plate": "category"}) for frame in numbers]
    assert align_tables(*numbers, adjust=["plate"]).design.columns == ("plate",)
    assert len(align_tables(*levels, adjust=["plate"]).design.columns) == 11


def test_the_design_says_what_it_holds():
    design = align_tables(
        *pair(age=age, batch=batch, donor=donor), adjust=["age", "batch"], cluster="donor"
    ).design
    assert design.columns == ("age", "batch=b", "batch=c")
    assert design.units == tuple(f"d{k}" for k in range(8))
    assert design.said == {"adjust": ["age", "batch"], "cluster": "donor"}
    assert len(design.pairs) == 0
    np.testing.assert_array_equal(np.unique(design.members[1]), [4, 5, 6, 7])


def test_donors_in_both_conditions_are_pairs():
    same = lambda _, rng: rng.permutation(np.resize(["p", "q", "r"], N))  # noqa: E731
    design = align_tables(*pair(donor=same), cluster="donor").design
    np.testing.assert_array_equal(design.pairs, [0, 1, 2])


def test_covariates_and_units_are_not_compared_themselves():
    result = dd.DifferenceDAG(adjust=["age"], cluster="donor").fit(*pair(age=age, donor=donor)).result_
    assert result.variables == ("x", "y", "z")
    assert (result.settings["adjust"], result.settings["cluster"]) == (["age"], "donor")


# Gaps


def with_gaps(frame, name, rows):
    return frame.assign(**{name: frame[name].where(~frame.index.isin(rows))})


def test_missing_covariates_and_units_are_named():
    first, second = pair(age=age, donor=donor)
    first, second = with_gaps(first, "age", [3, 5]), with_gaps(second, "donor", [7])
    with pytest.raises(InputError) as caught:
        align_tables(first, second, adjust=["age"], cluster="donor")
    assert "2 in 'age' of the first table and 1 in 'donor' of the second table" in str(caught.value)


@pytest.mark.parametrize("missing", ["drop", "em"])
def test_rows_without_covariates_or_units_are_left_out_with_a_note(missing):
    both = pair(age=age, donor=donor)
    first, second = with_gaps(both[0], "age", [3, 5]), with_gaps(both[1], "donor", [7])
    how = {"adjust": ["age"], "cluster": "donor"}
    tables = align_tables(first, second, missing=missing, **how)
    of = " of 'age' and 'donor'" if missing == "em" else ""
    assert [note for note in tables.notes if "dropped" in note] == [
        f"2 of 60 rows with missing values{of} were dropped from the first table",
        f"1 of 60 rows with missing values{of} was dropped from the second table",
    ]
    whole = align_tables(both[0].drop(index=[3, 5]), both[1].drop(index=7), **how)
    for own, known in zip(moments_of(tables, ModelOptions()), moments_of(whole, ModelOptions()), strict=True):
        assert own.n == known.n
        np.testing.assert_allclose(own.scatter, known.scatter, rtol=1e-9, atol=1e-9)


def test_gaps_of_variables_are_kept_where_they_are_to_be_filled():
    first, second = pair(age=age)
    first = with_gaps(with_gaps(first, "x", [1, 2]), "age", [2])
    tables = align_tables(first, second, adjust=["age"], missing="em")
    assert tables.gaps
    assert len(tables.first) == N - 1
    assert np.isnan(tables.first).sum() == 1
    assert np.isfinite(tables.adjusted.first).all()
    assert not tables.adjusted.gaps


@pytest.mark.parametrize("missing", ["drop", "em"])
def test_too_few_rows_with_covariates_are_refused(missing):
    first, second = pair(age=age)
    with pytest.raises(InputError, match="the first table has 2 rows"):
        align_tables(with_gaps(first, "age", range(2, N)), second, adjust=["age"], missing=missing)


# What is noted


def condition(levels):
    return lambda k, rng: rng.permutation(np.resize(levels[k], N))


NOTED = {
    "constant": (condition((["s"], ["s"])), "has the same value in every row and was left out", True),
    "few whole numbers": (
        condition(([1, 2, 3], [1, 2, 3])),
        "3 different whole numbers, taken for categories",
        True,
    ),
    "a level alone": (
        condition((["a", "b"], ["a", "b", "c"])),
        "level 'c' of covariate 'w' occurs in second only",
        False,
    ),
    "levels alone": (
        condition((["a"], ["a", "c", "d"])),
        "levels 'c' and 'd' of covariate 'w' occur in second",
        False,
    ),
    "no level shared": (
        condition((["a", "b"], ["c", "d"])),
        "levels 'a' and 'b' of covariate 'w' occur in first",
        False,
    ),
    "no overlap": (
        lambda k, rng: rng.uniform(3 * k, 3 * k + 2, N),
        "nearly coincides with the condition",
        False,
    ),
    "hardly any overlap": (
        lambda k, rng: rng.normal(8 * k, 1, N),
        "nearly coincides with the condition",
        False,
    ),
    "overlap": (lambda k, rng: rng.normal(k, 1, N), None, True),
    "two whole numbers": (condition(([0, 1], [0, 1])), None, True),
}


@pytest.mark.parametrize(("make", "note", "compared"), NOTED.values(), ids=NOTED)
def test_what_a_covariate_cannot_tell_is_noted(make, note, compared):
    tables = align_tables(*pair(w=make), adjust=["w"])
    assert tables.design.compared is compared
    if note is None:
        assert not tables.notes
    else:
        assert note in tables.notes[0]


def moved(frame, by=3.0):
    return frame.assign(x=frame["x"] + by)


@pytest.mark.parametrize("cluster", [None, "donor"])
@pytest.mark.parametrize("alone", [True, False])
def test_no_intercepts_are_claimed_where_conditions_share_not_all_levels(cluster, alone):
    levels = (["a", "b"], ["a", "c"]) if alone else (["a", "b"], ["a", "b"])
    columns = {"w": condition(levels), **({"donor": donor} if cluster else {})}
    first, second = pair(**columns)
    result = dd.DifferenceDAG(adjust=["w"], cluster=cluster).fit(first, moved(second)).result_
    assert ("x" in {change.variable for change in result.mean_list}) is not alone
    assert any("intercepts cannot be compared" in note for note in result.notes) is alone


def test_no_intercepts_are_claimed_where_a_covariate_is_one_of_donors():
    """Within donors it is taken out with them; means of donors keep what it does."""
    first, second = pair(donor=donor)
    ages = dict(zip((f"d{k}" for k in range(8)), [40, 45, 50, 55, 60, 62, 65, 70], strict=True))
    first, second = (
        frame.assign(age=frame["donor"].map(ages), x=frame["x"] + 0.3 * frame["donor"].map(ages))
        for frame in (first, second)
    )
    result = dd.DifferenceDAG(adjust=["age"], cluster="donor").fit(first, second).result_
    assert result.mean_list == ()
    assert any("'age' never varies within a 'donor'" in note for note in result.notes)


# What is refused


def own_donor(k, rng):
    return [f"{k}-{row}" for row in range(N)]


REFUSED = {
    "condition": (
        {"w": lambda k, rng: ["old", "new"][k]},
        {"adjust": ["w"]},
        "'w' coincides with the condition",
    ),
    "condition, a number": ({"w": lambda k, rng: k}, {"adjust": ["w"]}, "'0' in first, '1' in second"),
    "too many levels": ({"w": own_donor}, {"adjust": ["w"]}, "120 different values in 120 rows, too many"),
    "infinite": ({"w": lambda k, rng: [np.inf, *range(N - 1)]}, {"adjust": ["w"]}, "'w' holds infinite values"),
    "one donor": ({"d": lambda k, rng: f"d{k}"}, {"cluster": "d"}, "all rows of first belong to one 'd'"),
    "a donor for each row": (
        {"d": own_donor},
        {"cluster": "d"},
        "nearly every row of first is a 'd' of its own",
    ),
    "adjust and cluster": ({"d": donor}, {"adjust": ["d"], "cluster": "d"}, "leave it out of"),
    "twice": ({"w": age}, {"adjust": ["w", "w"]}, "'w' appears more than once"),
    "unknown covariate": (
        {"batch": batch},
        {"adjust": ["bach"]},
        "names 'bach', which no table has; did you mean 'batch'?",
    ),
    "unknown units": (
        {"donor": donor},
        {"cluster": "doner"},
        "names 'doner', which no table has; did you mean 'donor'?",
    ),
    "one name": ({"age": age}, {"adjust": "age"}, "'age'; give a list of column names"),
    "a number": ({"age": age}, {"adjust": 3.5}, "3.5; give a list of column names"),
    "units as a list": ({"donor": donor}, {"cluster": ["donor"]}, "give the name of one column"),
    "units as a number": ({"donor": donor}, {"cluster": 3}, "give the name of one column"),
}


@pytest.mark.parametrize(("columns", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_designs_that_tell_nothing_are_refused_in_words(columns, options, message):
    with pytest.raises(InputError) as caught:
        align_tables(*pair(**columns), **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_many_levels_are_told_of_clusters():
    with pytest.raises(InputError, match="cluster='donor'"):
        align_tables(*pair(donor=own_donor), adjust=["donor"])


@pytest.mark.parametrize("options", [{"adjust": ["age"]}, {"cluster": "age"}], ids=["adjust", "cluster"])
def test_both_tables_need_the_columns_of_a_design(options):
    first, second = pair(age=age)
    with pytest.raises(InputError, match="the second table has no column 'age', which "):
        align_tables(first, second.drop(columns="age"), **options)


def test_as_many_covariates_as_rows_leave_nothing_to_compare():
    rng = np.random.default_rng(0)
    names = [f"w{k}" for k in range(9)]
    both = [table(k, 10, **{name: rng.standard_normal(10) for name in names}) for k in (0, 1)]
    with pytest.raises(InputError, match="leave 1 of 10 rows of a table to compare"):
        dd.DifferenceDAG(adjust=names).fit(*both)


def test_a_covariate_that_is_there_twice_is_refused():
    first, second = pair(age=age)
    twice = pd.concat([first, 2 * first[["age"]]], axis=1)
    with pytest.raises(InputError, match="'age' appears more than once in the first table"):
        align_tables(twice, second, adjust=["age"])
