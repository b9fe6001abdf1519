"""Covariates carried by moments: taken out of them as of the rows, whatever way the moments came about."""

import re

import numpy as np
import pandas as pd
import pytest

from diffdag import DifferenceDAG, InputError, Moments, fit_conditions, simulate_pair
from diffdag.pipeline import ModelOptions, prepare
from diffdag.tables.align import align_tables
from diffdag.tables.covariates import adjust_moments
from diffdag.tables.inputs import what_it_holds
from diffdag.tables.moments import choose

PAIR = simulate_pair(p=4, neighbours=2, changes=1, weights=(0.8, 1.0), rng=840030)
NAMES = list(PAIR.first.names)


def frame(model, n, seed, batches="abc", old=50.0):
    """Rows of a model with effects of age, sex and batch on every variable."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(model.sample(n, rng=rng), columns=NAMES)
    table["age"] = rng.normal(old, 10, n)
    table["sex"] = rng.integers(0, 2, n)
    table["batch"] = rng.choice(list(batches), n)
    shift = dict(zip("abcdef", rng.normal(0, 2, 6), strict=True))
    for k, name in enumerate(NAMES):
        table[name] += 0.1 * k * table["age"] + table["sex"] + table["batch"].map(shift) * (-1) ** k
    return table


FIRST, SECOND = frame(PAIR.first, 700, 1), frame(PAIR.second, 500, 2, old=55.0)
COVARIATES = ["age", "sex", "batch"]


def carried(table):
    """Moments of a table, its text columns as categories."""
    texts = [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]
    levels = {name: [f"{name}={level}" for level in sorted(set(table[name]))] for name in texts}
    wide = pd.get_dummies(table, columns=texts, prefix_sep="=", dtype=float)
    moments = Moments.from_array(wide.to_numpy(float), list(wide.columns))
    return Moments(moments.names, moments.n, moments.mean, moments.scatter, categories=levels)


def by_rows(first, second, adjust):
    """Moments as `fit` makes them of the rows."""
    prepared = prepare(align_tables(first, second, adjust=adjust), ModelOptions())
    return prepared.first, prepared.second, prepared.notes


def assert_same(found, expected, atol=1e-10):
    scale = np.sqrt(np.diag(expected.scatter))
    assert (found.names, found.n) == (expected.names, expected.n)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-9, atol=atol)
    np.testing.assert_allclose((found.scatter - expected.scatter) / np.outer(scale, scale), 0, atol=atol)
    np.testing.assert_array_equal(found.scatter, found.scatter.T)
    assert found.mean_rows == pytest.approx(expected.mean_rows, rel=max(1e-9, atol))
    assert not found.categories


TABLES = {
    "as they are": (FIRST, SECOND),
    "a level in one condition only": (FIRST, frame(PAIR.second, 500, 2, batches="bcde")),
    "no level in both": (FIRST, frame(PAIR.second, 500, 2, batches="def")),
    "far apart": (FIRST, frame(PAIR.second, 500, 2, old=200.0)),
    "a constant covariate": (FIRST.assign(sex=1), SECOND.assign(sex=1)),
    "constant in one condition": (FIRST.assign(age=0.1), SECOND),
    "one level in one condition": (FIRST.assign(batch="b"), SECOND),
    "a copy": (FIRST.assign(sex=2 * FIRST["age"] + 1), SECOND.assign(sex=2 * SECOND["age"] + 1)),
    "a copy in one condition": (FIRST.assign(sex=2 * FIRST["age"] + 1), SECOND),
    "large and small units": (
        FIRST.assign(age=1e5 + 1e-3 * FIRST["age"], sex=1e6 * FIRST["sex"]),
        SECOND.assign(age=1e5 + 1e-3 * SECOND["age"], sex=1e6 * SECOND["sex"]),
    ),
}


@pytest.mark.parametrize("case", TABLES)
@pytest.mark.parametrize("adjust", [["age"], ["batch"], COVARIATES], ids=",".join)
def test_moments_are_adjusted_as_rows_are(case, adjust):
    first, second = (table[[*NAMES, *adjust]] for table in TABLES[case])
    *expected, notes = by_rows(first, second, adjust)
    found = adjust_moments(carried(first), carried(second), adjust)
    exact = 1e-10 if case != "large and small units" else 1e-6
    for own, other in zip(found[:2], expected, strict=True):
        assert_same(own, other, exact)
    assert list(found.notes) == [note for note in notes if "different whole numbers" not in note]


def test_a_fit_of_moments_is_that_of_the_rows():
    rows = DifferenceDAG(adjust=COVARIATES).fit(FIRST, SECOND).result_
    moments = DifferenceDAG(adjust=COVARIATES).fit_moments(carried(FIRST), carried(SECOND)).result_
    assert len(rows.edge_list) >= 1
    assert moments.variables == rows.variables == tuple(NAMES)
    assert moments.samples == rows.samples
    assert moments.settings["adjust"] == rows.settings["adjust"] == COVARIATES
    shared = ["source", "target", "directed", "change", "weight_first", "weight_second", "delta"]
    pd.testing.assert_frame_equal(moments.edges[shared], rows.edges[shared], rtol=1e-8)
    alone = DifferenceDAG().fit(FIRST[NAMES], SECOND[NAMES]).result_
    assert not alone.edges[shared].equals(rows.edges[shared])


def test_conditions_and_choices_of_columns():
    model, tables = (
        DifferenceDAG(adjust=COVARIATES),
        {"a": FIRST, "b": SECOND, "c": TABLES["no level in both"][1]},
    )
    reduced = {name: carried(table) for name, table in tables.items()}
    for choice in ({}, {"drop": [NAMES[1]]}, {"columns": NAMES[::-1]}):
        rows = fit_conditions(tables, reference="a", model=model, **choice)
        moments = fit_conditions(reduced, reference="a", model=model, **choice)
        assert moments.order == rows.order
        for pair, one in rows.pairs.items():
            edges = [(edge.source, edge.target) for edge in one.edge_list]
            assert [(edge.source, edge.target) for edge in moments.pairs[pair].edge_list] == edges
            assert moments.pairs[pair].settings["adjust"] == COVARIATES
            assert set(one.notes) & set(moments.pairs[pair].notes) == {n for n in one.notes if "occur" in n}


def test_alone():
    moments = carried(FIRST)
    found = moments.adjusted(["age", "batch"])
    design = np.column_stack([np.ones(700), FIRST["age"], pd.get_dummies(FIRST["batch"]).to_numpy(float)])
    y = FIRST[[*NAMES, "sex"]].to_numpy(float)
    left = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    assert (found.names, found.n, found.mean_rows) == ((*NAMES, "sex"), 697, 0)
    np.testing.assert_allclose(found.scatter, left.T @ left, atol=1e-8)
    np.testing.assert_allclose(found.mean, y.mean(axis=0))
    assert moments.adjusted([]).n == moments.adjusted(["batch"]).n + 2
    with pytest.raises(InputError, match="adjust= names 'bath', which no table has; did you mean 'batch'"):
        moments.adjusted(["bath"])


@pytest.mark.parametrize(
    ("change", "adjust", "message"),
    [
        ({"sex": (0, 1)}, ["sex"], "'sex' coincides with the condition ('0' in first, '1' in second)"),
        ({"age": (0.1, 0.3)}, ["age"], "'age' coincides with the condition ('0.1' in first, '0.3' in second)"),
        (
            {"batch": ("a", "b")},
            ["batch"],
            "'batch' coincides with the condition ('a' in first, 'b' in second)",
        ),
        ({}, ["dose"], "adjust= names 'dose', which no table has"),
        ({}, ["age", "age"], "'age' appears more than once in adjust="),
        ({}, "age", "adjust= is 'age'; give a list of column names"),
    ],
)
def test_what_is_refused_of_rows_is_refused_of_moments_in_the_same_words(change, adjust, message):
    used = [*NAMES, *(change or COVARIATES)]
    tables = [
        table.assign(**{name: values[k] for name, values in change.items()})[used]
        for k, table in enumerate((FIRST, SECOND))
    ]
    with pytest.raises(InputError, match=re.escape(message)) as rows:
        DifferenceDAG(adjust=adjust).fit(*tables)
    with pytest.raises(InputError) as moments:
        DifferenceDAG(adjust=adjust).fit_moments(*map(carried, tables))
    known = re.compile(r"the columns are .*")
    assert known.sub("", str(moments.value)) == known.sub("", str(rows.value))


def test_levels_that_are_too_many():
    table = FIRST.assign(batch=[f"b{k}" for k in range(700)])
    with pytest.raises(InputError, match="'batch' has 703 different values in 1200 rows, too many") as error:
        adjust_moments(carried(table), carried(SECOND), ["batch"])
    with pytest.raises(InputError, match=re.escape(str(error.value))):
        align_tables(table, SECOND, adjust=["batch"])


def test_what_is_refused_of_moments_alone():
    one, two = carried(FIRST), carried(SECOND)
    for model, message in [
        ({"cluster": "batch"}, "cluster needs rows, and only moments are known"),
        ({"missing": "em"}, "missing='em' needs rows, and only moments are known"),
        ({}, r"'batch' is a category, no variable; leave it out with drop=\['batch'\], or take it out"),
        ({"adjust": ["age"]}, "'batch' is a category"),
    ]:
        with pytest.raises(InputError, match=message):
            DifferenceDAG(**model).fit_moments(one, two)
    for model in ({"cluster": "batch"}, {"missing": "em"}):
        with pytest.raises(InputError, match="needs rows"):
            fit_conditions({"a": one, "b": two}, model=DifferenceDAG(**model))
    number = carried(SECOND.assign(batch=1.5 * SECOND["sex"]))
    with pytest.raises(InputError, match="'batch' is a category in the first table and a number in the second"):
        adjust_moments(one, number, ["batch"])
    with pytest.raises(InputError, match="the second table has no column 'sex', which adjust= names"):
        adjust_moments(one, two.select([*NAMES, "age", "batch"]), ["sex"])
    copied = FIRST.assign(**{NAMES[2]: 3 * FIRST["age"] + 1})
    with pytest.raises(
        InputError, match=f"'{NAMES[2]}' does not vary at equal 'age', 'sex' and 'batch'; leave"
    ):
        DifferenceDAG(adjust=COVARIATES).fit(copied, SECOND)
    with pytest.raises(InputError, match=f"column '{NAMES[2]}' is constant in the first table"):
        DifferenceDAG(adjust=COVARIATES).fit_moments(carried(copied), two)


# Moments that carry categories


def test_parts_with_different_levels_add_up():
    parts = [FIRST[FIRST["batch"] == level] for level in "cab"]
    total = carried(parts[0]) + carried(parts[1]) + carried(parts[2])
    assert total.categories == {"batch": ("batch=c", "batch=a", "batch=b")}
    expected = carried(FIRST)
    found = total.select(expected.names)
    assert found.categories == expected.categories
    np.testing.assert_allclose(found.mean, expected.mean)
    np.testing.assert_allclose(found.scatter, expected.scatter, atol=1e-8)


def test_what_does_not_add_up():
    moments = carried(FIRST)
    plain = Moments(moments.names, moments.n, moments.mean, moments.scatter)
    with pytest.raises(InputError, match="different variables"):
        moments + plain
    with pytest.raises(InputError, match="do not add up once covariates were taken out"):
        moments.adjusted(["batch"]) + moments.adjusted(["batch"])


def test_a_category_is_chosen_by_its_name():
    moments = carried(FIRST)
    found = moments.select(["batch", NAMES[0]])
    assert found.names == ("batch=a", "batch=b", "batch=c", NAMES[0])
    assert found.categories == {"batch": ("batch=a", "batch=b", "batch=c")}
    assert moments.select(["batch=a", NAMES[0]]).categories == {}  # the others have rows
    wider = carried(FIRST) + carried(FIRST.assign(batch="d").iloc[:2])
    assert wider.select(["age", "batch"]).categories == {"batch": tuple(f"batch={level}" for level in "abcd")}
    assert moments.column_names() == [*NAMES, "age", "sex", "batch"]
    one, two = choose(moments, moments, drop=["batch", "age"])
    assert one.names == two.names == (*NAMES, "sex")
    one, _ = choose(moments, moments, NAMES[:2], None, ["batch"])
    assert one.column_names() == [*NAMES[:2], "batch"]


def test_names_with_equals_signs_are_variables_unless_categories_say_otherwise():
    moments = Moments.from_array(FIRST[NAMES].to_numpy(), ["a=b", "a=c", "d", "a=b=c"])
    assert moments.column_names() == ["a=b", "a=c", "d", "a=b=c"]
    assert moments.adjusted(["a=b"]).names == ("a=c", "d", "a=b=c")


@pytest.mark.parametrize(
    "categories",
    [{"batch": ["batch=z"]}, {"batch": ["age"]}, {"age": ["batch=a"]}, {"batch": ["batch=a", "batch=a"]}],
)
def test_categories_that_cannot_be(categories):
    moments = carried(FIRST)
    with pytest.raises(InputError, match="categor"):
        Moments(moments.names, moments.n, moments.mean, moments.scatter, categories=categories)


def test_files(tmp_path):
    moments = carried(FIRST)
    again = Moments.load(moments.save(tmp_path / "m.npz"))
    assert (again.names, again.categories, again.mean_rows) == (moments.names, dict(moments.categories), None)
    assert what_it_holds(tmp_path / "m.npz") == "moments"
    found = adjust_moments(again, carried(SECOND), COVARIATES).first
    loaded = Moments.load(found.save(tmp_path / "adjusted.npz"))
    assert (loaded.mean_rows, loaded.categories) == (found.mean_rows, {})
    assert what_it_holds(tmp_path / "adjusted.npz") == "moments"
    for wrong in (np.array(["", "batch"]), np.array("batch"), np.array(["age"] * len(moments.names))):
        entries = dict(np.load(tmp_path / "m.npz")) | {"categories": wrong}
        np.savez(tmp_path / "wrong.npz", **entries)
        with pytest.raises(InputError):
            Moments.load(tmp_path / "wrong.npz")
    ended = carried(FIRST.rename(columns={"batch": "batch\0"}))
    with pytest.raises(InputError, match="NUL"):
        ended.save(tmp_path / "ended.npz")


def test_what_is_shown():
    assert repr(carried(FIRST)) == "<Moments: 700 rows, 6 variables, 'batch' with 3 levels>"
