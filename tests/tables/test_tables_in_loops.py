"""Filters, nesting, sorted columns, groups and paths against versions in loops, and at their limits."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from diffdag._base.errors import InputError
from diffdag._base.words import NAMES_SHOWN
from diffdag.tables import em, kinds
from diffdag.tables.accumulator import Accumulator
from diffdag.tables.align import Tables, _explained_words, _gap_note, align_tables
from diffdag.tables.coding import TextColumn, check_levels
from diffdag.tables.design import COINCIDES, _cut, check_in_all, judge_number, make_design, read_labels
from diffdag.tables.groups import count_groups, counted, find_group, natural, split_groups
from diffdag.tables.hidden import without_hidden
from diffdag.tables.inputs import what_it_holds
from diffdag.tables.inspect import inspect_columns
from diffdag.tables.nesting import find_nesting
from diffdag.tables.readers.batches import _expand
from diffdag.tables.robust import _positive_definite, _winsorised, mean_ranks
from diffdag.tables.sorting import describe_aside, notes_of, sort_columns
from diffdag.tables.whiten import _Lags, _with_others, make_filter


def frames(seed=0, n=(40, 30), **more):
    rng = np.random.default_rng(seed)
    made = [pd.DataFrame(rng.standard_normal((own, 3)), columns=list("xyz")) for own in n]
    for name, values in more.items():
        for table, own in zip(made, values, strict=True):
            table[name] = own
    return made


def sorted_notes(*tables):
    seen = inspect_columns(*tables)
    found = sort_columns(seen)
    return found, notes_of(found, seen, ("first", "second"))


# Rows with a memory


def autoregression(n, coefficient, seed):
    rng = np.random.default_rng(seed)
    column = np.zeros(n + 100)
    for t in range(1, n + 100):
        column[t] = coefficient * column[t - 1] + rng.standard_normal()
    return column[100:]


def test_filters_of_their_own_are_of_the_best_order_of_each():
    table = np.column_stack([autoregression(400, own, k) for k, own in enumerate((0.95, 0.1, 0.6, -0.5, 0.0))])
    table *= [1.0, 3.0, 0.2, 1.0, 5.0]
    second = table[:300] + np.arange(5.0)
    made = make_filter("ar", table, second, tuple("abcde"))
    assert (made.kind, made.apart) == ("own", ())
    scale = _winsorised(table).std(axis=0)
    clipped, away = _winsorised(table) / scale, (second.mean(axis=0) - table.mean(axis=0)) / scale
    lags = _Lags.of(clipped, 3)
    orders = np.argmin([lags.criterion(lags.fit(order)) for order in range(4)], axis=0)
    assert orders.min() == 0
    for j, order in enumerate(orders):
        own, others, leverage = _with_others(clipped, j, max(int(order), 1), 3, away)
        np.testing.assert_allclose(made.coefficients[:, j], own[: made.order])
        assert not own[made.order :].any()
        assert made.leverage[j] == pytest.approx(leverage)
        if made.others is not None:
            np.testing.assert_allclose(made.others[:, j], others * scale[j] / scale)


def test_one_that_is_unlike_the_others_has_its_own():
    """Variables are weighed by their noise, whatever their units."""
    alike = [autoregression(300, 0.7, 40 + k) * 10.0 ** (k % 3) for k in range(12)]
    table = np.column_stack([*alike, autoregression(300, -0.6, 139)])
    made = make_filter("ar", table, table, tuple("abcdefghijklm"))
    assert (made.kind, made.apart) == ("common", ("m",))
    assert np.ptp(made.coefficients[:, :12], axis=1).max() == 0
    assert made.coefficients[:, 12].sum() < 0
    clipped = _winsorised(table) / _winsorised(table).std(axis=0)
    lags = _Lags.of(clipped, 3)
    weights = np.append(lags.rows / lags.fit(1).rss[:12], 0.0)
    fits = [lags.fit(order, weights) for order in range(4)]
    best = min(fits, key=lambda fit: lags.criterion(fit)[:12].sum())
    expected = best.coefficients(lags.rows)[:, 0]
    np.testing.assert_allclose(made.coefficients[: best.order, 0], expected, rtol=1e-9)


def test_winsorised_columns_keep_their_variance_on_average():
    table = np.column_stack([np.arange(21.0), np.append(np.zeros(15), [1, 2, 3, 4, 5, 900.0])])
    found = _winsorised(table)
    kept = stats.norm.expect(lambda x: np.clip(x, -3, 3) ** 2)
    np.testing.assert_allclose(found[:, 0], 10 + (table[:, 0] - 10) / math.sqrt(kept), rtol=1e-6)
    limit = 3 * 1.4826 * 3.5  # of those that are not zero
    np.testing.assert_allclose(found[:, 1], np.clip(table[:, 1], 0, limit) / math.sqrt(kept), rtol=1e-6)


def test_small_eigenvalues_are_raised_to_the_floor():
    matrix = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]])
    with pytest.warns(UserWarning, match=r"smallest eigenvalue -0\.27 was raised to 0\.05"):
        found = _positive_definite(matrix, 0.05, "what")
    values, vectors = np.linalg.eigh(matrix)
    raised = vectors @ np.diag(np.maximum(values, 0.05)) @ vectors.T
    scale = np.sqrt(np.diag(raised))
    np.testing.assert_allclose(found, raised / scale / scale[:, None])
    assert _positive_definite(np.eye(3), 1.0, "what") is not None
    ranks = mean_ranks(np.array([[4.0, 1.0], [2.0, 1.0], [4.0, 1.0], [4.0, 0.0]]))
    np.testing.assert_array_equal(ranks, [[3, 3], [1, 3], [3, 3], [3, 1]])


# What rows are nested in


@pytest.mark.parametrize("inside", [True, False])
def test_nesting_is_an_analysis_of_variance_within_conditions(inside):
    rng = np.random.default_rng(1)
    levels = [list("abcd"), list("efg") if inside else list("bcd")]
    where = [rng.permutation(own * k) for own, k in zip(levels, (10, 9), strict=True)]
    tables = frames(2, (40, 27), where=where)
    for table in tables:
        table["y"] += 1.5 * table["where"].map({k: i % 2 for i, k in enumerate("abcdefg")})
    tables[0].loc[3, "x"] = np.nan  # so that this row is left out
    (found,) = find_nesting(inspect_columns(*tables), ["where"])
    between, within, free = np.zeros(3), np.zeros(3), [0, 0]
    for table in tables:
        own = table.dropna()
        for k, name in enumerate("xyz"):
            means = own.groupby("where")[name].transform("mean")
            between[k] += ((means - own[name].mean()) ** 2).sum()
            within[k] += ((own[name] - means) ** 2).sum()
        count = own["where"].nunique()
        free = [free[0] + count - 1, free[1] + len(own) - count]
    share = (between - free[0] * within / free[1]) / (between + within)
    pvalues = stats.f.sf(between / free[0] / (within / free[1]), *free)
    assert (found.share, found.most, found.variable) == (
        pytest.approx(share.mean()),
        pytest.approx(share[1]),
        "y",
    )
    assert found.pvalue == pytest.approx(3 * pvalues.min())
    assert (found.levels, found.inside, found.possible) == (7 if inside else 4, inside, True)
    assert found.looks_nested
    assert ("cluster" in found.remedy, "adjust" in found.remedy) == (True, not inside)


def test_columns_that_number_units_are_looked_at():
    codes = np.repeat(np.arange(5.0), 8), np.repeat(np.arange(3.0), 10)
    two = np.arange(40.0) % 2, np.arange(30.0) % 2
    halves = codes[0] + 0.5, codes[1] + 0.5
    tables = frames(3, plate=codes, batch=two, donor=halves, size=codes)
    seen = inspect_columns(*tables)
    assert [own.name for own in find_nesting(seen, [])] == ["plate"]
    tables[0].loc[0, "plate"] = np.nan
    (found,) = find_nesting(inspect_columns(*tables), [])
    assert found.levels == 5
    many = frames(3, (40, 30), plate=(np.arange(40.0), np.arange(30.0)))
    assert find_nesting(inspect_columns(*many), []) == ()  # fewer than three rows each


# Which columns are not compared


def test_reasons_are_told_together():
    n = 40, 30
    tables = frames(4, n, a=(1.0, 1.0), b=(2.0, 3.0), c=(np.nan, np.nan), d=(np.arange(40), np.arange(30)))
    found, notes = sorted_notes(*tables)
    assert found.aside == {"a": "constant", "b": "apart", "c": "empty", "d": "counter"}
    (note,) = [own for own in notes if own.startswith("columns ")]
    assert note.endswith("'b' is 2 in first and 3 in second: left out")
    assert " and 'b' is 2" in note
    assert sorted_notes(*frames(4, n, a=(1.0, 1.0)))[1][0].startswith("column 'a'")
    assert sorted_notes(*frames(4, n, b=(1.0, 2.0)))[1][0].startswith("column 'b' is 1 in first")
    for many in (3, 4):
        apart = dict.fromkeys("abcd"[:many], (1.0, 2.0))
        (note,) = sorted_notes(*frames(4, n, **apart))[1]
        assert ("constant in each table, at different values" in note) == (many == 4)
        assert ("is 1 in first and 2 in second" in note) == (many == 3)


def test_columns_with_faults_are_no_counters():
    infinite = np.arange(40.0)
    infinite[7] = np.inf
    tables = frames(5, row=(np.arange(40.0), np.arange(30.0)), run_id=(infinite, np.arange(30.0)))
    assert sort_columns(inspect_columns(*tables)).aside == {"row": "counter"}
    flat = frames(5, row=(np.full(40, 3.0), np.arange(30.0)))
    found = sort_columns(inspect_columns(*flat))
    assert found.aside == {}
    assert [(own.variable, own.constant) for own in found.switched] == [("row", 0)]


@pytest.mark.parametrize("count", [3, 6, 7, 9])
def test_codes_are_told_for_some(count):
    texts = {f"t{k}": (["a", "b"] * 20, ["b", "a"] * 15) for k in range(count)}
    notes = sorted_notes(*frames(6, **texts))[1]
    assert sum("is coded 0 for 'a' and 1 for 'b'" in note for note in notes) == min(count, NAMES_SHOWN)
    rest = [note for note in notes if note.endswith("texts are coded in the same way")]
    assert len(rest) == (count > NAMES_SHOWN)


def test_text_that_may_be_good_for_something():
    n = 40, 30
    six, many = list("abcdef"), [f"v{k}" for k in range(70)]
    one = frames(7, n, kind=([six[k % 6] for k in range(40)], [six[k % 5] for k in range(30)]))
    (note,) = sorted_notes(*one)[1]
    assert "'kind' holds text (6 different values): left out; " in note
    assert "'levels' gives it" in note
    two = frames(
        7,
        n,
        kind=([six[k % 6] for k in range(40)], [six[k % 5] for k in range(30)]),
        who=(many[:40], many[40:]),
    )
    notes = sorted_notes(*two)[1]
    assert "'who' holds text: left out" in notes
    assert not any("'who'" in own and "adjust" in own for own in notes)
    both = frames(7, n, kind=(six[:4] * 10, six[:3] * 10), sort=(six[2:] * 10, six[:3] * 10))
    assert any(
        own.startswith("'kind' and 'sort' hold text: left out; the option") for own in sorted_notes(*both)[1]
    )


@pytest.mark.parametrize(("odd", "rows", "other"), [(1, 30, 12), (0, 25, 5), (2, 40, 40), (2, 20, 1)])
def test_rarity_is_that_of_fishers_test(odd, rows, other):
    values = np.append(np.zeros(50 - other), np.ones(other))
    table = [[odd, rows - odd], [other, 50 - other]]
    exact = min(1.0, 2 * stats.fisher_exact(table, "less")[1])
    assert kinds.chance_of_rarity(odd, rows, values, 0.0) == pytest.approx(exact)


def test_columns_that_pause_are_in_order():
    pause, drop = np.array([1.0, 2, 2, 3, 4, 5]), np.array([1.0, 3, 2, 4, 5, 6])
    table = np.column_stack([pause, -pause, drop, np.ones(6)])
    none = np.zeros(4, int)
    assert kinds.orderly(table, table, none).tolist() == [0, 1]
    assert kinds.orderly(table[:5], table, none).size == 0
    assert kinds.orderly(table, table[:, [2, 1, 0, 0]], none).tolist() == [1]


def test_rows_that_are_left_are_counted():
    first, second = frames(19, (9, 2))
    with pytest.raises(InputError, match="2 rows of data"):
        align_tables(first, second, missing="drop")


def test_times_at_their_limits():
    first, last = 631_152_000.0, 4_102_444_800.0  # 1990 and 2100
    for unit in (1.0, 1e3, 1e6, 1e9):
        assert kinds._are_times(np.array([first, last]) * unit)
    assert not kinds._are_times(np.array([first - 1, last]))
    assert not kinds._are_times(np.array([first, last + 1]))
    assert not kinds._are_times(np.array([first, last * 1e3]))
    assert kinds._are_times(np.array([19_000_101.0, 21_001_231.0]))
    for wrong in (19_000_100.0, 21_001_301.0, 20_240_131.5, 20_241_301.0, 20_240_100.0, 20_240_132.0):
        assert not kinds._are_times(np.array([20_240_131.0, wrong]))


def test_reasons_are_told_one_by_one():
    rare = np.append(np.zeros(39), 1.0), np.zeros(30)
    few = np.append(np.zeros(27), [1.0, 2.0, 5.0])
    tables = frames(
        11,
        a=(1.0, 1.0),
        b=(2.0, 3.0),
        c=(np.nan, np.nan),
        d=(np.arange(40), np.arange(30)),
        e=(["u", "v", "w", "u"] * 10, ["u", "v", "w"] * 10),
        f=rare,
        g=(np.zeros(40), few),
        h=(np.append(few, np.zeros(10)), np.zeros(30)),
        i=("p", "q"),
    )
    seen = inspect_columns(*tables)
    found = sort_columns(seen)
    said = describe_aside(found, seen, ("before", "after"))
    assert said["b"] == "is 2 in before and 3 in after"
    assert said["i"] == "is 'p' in before and 'q' in after"
    assert said["e"] == "holds text (3 different values)"
    chance = "and not enough in the other condition to tell a change from chance"
    assert said["g"] == f"does not vary in before, {chance}"
    assert said["h"] == f"does not vary in after, {chance}"
    assert found.of("first") == ["g"]
    assert found.of("second") == ["h"]
    assert set(said) == set("abcdefghi")
    assert len(set(said.values())) == 9


# Texts, groups and designs


def test_values_of_both_tables_are_different_ones():
    text = TextColumn("t", (("a", "b"), ("c", "b")), levels=("a", "b", "c"))
    assert text.different == ("a", "b", "c")
    assert text.note == "'t' is coded 0 to 2 for 'a', 'b' and 'c'"
    assert check_levels(None, []) == {}
    assert check_levels({"t": ["lo", 1.0]}, [["t"]]) == {"t": ("lo", "1")}
    for wrong in ({"t": "lo"}, {"t": ["a"]}, {"t": ["a", "a"]}, {"t": 3}, ["t"]):
        with pytest.raises(InputError, match="levels"):
            check_levels(wrong, [["t"]])


def test_groups_are_found_and_counted():
    table = pd.DataFrame({"x": [1, 2, 3, 4], "g": [1.0, 2.0, None, 1.0]})
    assert count_groups(table, "g") == {"1": 2, "2": 1}
    with pytest.raises(InputError, match="names no group in 1 of 4 rows"):
        split_groups(table, "g")
    parts = split_groups(table, "g", [2, "1"])
    assert {name: part["x"].tolist() for name, part in parts.items()} == {"2": [2], "1": [1, 4]}
    assert list(parts["1"].columns) == ["x"]
    for groups, says in (
        ([1, 1.0], "group '1' is chosen twice; choose others of '1' .2 rows., '2' .1 row."),
        ([1, 3], "has no group '3'; it holds '1'"),
        ("12", "the groups are the text '12'"),
    ):
        with pytest.raises(InputError, match=says):
            split_groups(table, "g", groups)
    with pytest.raises(InputError, match=r"'G' does not exist; did you mean 'g'\?"):
        split_groups(table, "G")
    with pytest.raises(InputError, match="'h' does not exist; the columns are 'x' and 'g'"):
        split_groups(table, "h")
    with pytest.raises(InputError, match="appears more than once"):
        split_groups(table[["g", "g"]], "g")
    with pytest.raises(InputError, match="if rows are variables"):
        split_groups(pd.DataFrame({"name": ["dose", "x"], "c1": ["a", "b"]}), "dose")
    mixed = pd.DataFrame({"x": [1, 2], "g": ["1.0", "a"]})
    assert list(split_groups(mixed, "g")) == ["1.0", "a"]
    assert find_group("A", ["a", "A "]) == "a"
    assert find_group("A", ["a", "å", "Å"]) == "a"
    assert find_group("B", ["b", "ß"]) == "b"
    assert find_group("1", ["1.0", "1.00"]) == "1"  # which of them is not said
    assert find_group("", ["a"]) != "a"
    assert sorted(["b2", "b10", "a", "-3", "2e1", "b02"], key=natural) == ["-3", "2e1", "a", "b02", "b2", "b10"]
    assert counted({"a": 1, "b": 2}) == "'a' (1 row), 'b' (2 rows)"


def test_covariates_of_rows_that_are_used():
    ages, units = (np.arange(6) / 2, np.array([1.0, 4.5, 2.0, 0.5, 0.0])), (list("ppqqrr"), list("ppqqr"))
    sources = inspect_columns(*frames(8, n=(6, 5), a=ages, u=units)).sources
    labels = read_labels(sources, ["a"], "u")
    design, notes = make_design(labels, (np.array([0, 2, 3, 5]), np.array([0, 1, 3, 4])), ("one", "two"))
    assert [own[:, 0].tolist() for own in design.covariates] == [[0, 1, 1.5, 2.5], [1, 4.5, 0.5, 0]]
    assert [own.tolist() for own in design.members] == [[0, 1, 1, 2], [0, 0, 1, 2]]
    assert (design.adjust, design.units, design.cluster) == (("a",), ("p", "q", "r"), "u")
    assert (design.compared, notes) == (True, [])
    with pytest.raises(InputError, match="'u' is a covariate and names what rows are nested in"):
        read_labels(sources, ["a", "u"], "u")
    assert read_labels(sources, None, None) is None
    assert read_labels(sources, None, "u").adjust == {}
    plain, _ = make_design(read_labels(sources, None, "u"), (None, np.array([0, 2])), ("one", "two"))
    assert [own.shape for own in plain.covariates] == [(6, 0), (2, 0)]
    other, _ = make_design(read_labels(sources, ["a"], None), (None, None), ("one", "two"))
    assert [own.shape for own in other.covariates] == [(6, 1), (5, 1)]
    assert (other.members, other.columns) == (None, ("a",))
    assert _cut("x" * 38) == repr("x" * 38)
    assert _cut("x" * 39) == "a str"
    assert _cut(np.eye(2)) == "a ndarray"
    assert check_in_all("adjust", ["a"], [["a", "b"], ["b", "a"]], ["one", "two"]) == ["a"]
    with pytest.raises(InputError, match=r"two.* has no column 'a'"):
        check_in_all("adjust", ["a"], [["a"], ["b"]], ["one", "two"])
    with pytest.raises(InputError, match=r"'a' appears more than once in .*two"):
        check_in_all("adjust", ["a"], [["a"], ["a", "a"]], ["one", "two"])


@pytest.mark.parametrize(
    ("share", "apart", "compared"), [(0.99, False, True), (1.01, False, False), (0.1, True, False)]
)
def test_numbers_that_nearly_coincide_with_the_condition(share, apart, compared):
    ratio = share * COINCIDES / (1 - COINCIDES)  # between conditions, over within them
    notes = []
    means, variances = (1.0, 1.0 + 2 * math.sqrt(ratio * 2.5)), (4.0, 1.0)
    assert judge_number("a", means, variances, ("one", "two"), notes, apart=apart) == compared
    assert [("between one and two;" in note) for note in notes] == [True] * (not compared)


def test_what_hidden_causes_need_is_told():
    table = np.random.default_rng(9).standard_normal((40, 30))
    for first, second, wanted, most in ((40, 11, 3, 2), (40, 40, 7, 6), (9, 40, 3, 2)):
        with pytest.raises(InputError, match=f"in {first} and {second} rows; ask for at most {most}"):
            without_hidden(table[:first], table[:second], wanted)
    for rows, columns in ((19, 30), (20, 14)):
        with pytest.raises(InputError, match=f"{columns} variables and {2 * rows} rows; at least 15 and 40"):
            without_hidden(table[:rows, :columns], table[:rows, :columns], None)
    assert without_hidden(table[:20, :15], table[20:, :15], None).count == 0


# Gaps


def test_coefficients_depend_on_covariances_as_differences_say():
    rng = np.random.default_rng(12)
    root = rng.standard_normal((4, 4))
    covariance, causes, target = root @ root.T + np.eye(4), np.array([2, 0]), 3
    left, right, variances = em._influences(covariance, causes, target)

    def beta(matrix):
        return np.linalg.solve(matrix[np.ix_(causes, causes)], matrix[causes, target])

    for i in range(4):
        for j in range(i + 1):
            step = np.zeros((4, 4))
            step[i, j] = step[j, i] = 1e-6
            slopes = (beta(covariance + step) - beta(covariance - step)) / 2e-6
            np.testing.assert_allclose(slopes, left @ (step * 1e6) @ right, rtol=1e-5, atol=1e-8)
    inside = covariance[np.ix_(causes, causes)]
    noise = covariance[target, target] - beta(covariance) @ inside @ beta(covariance)
    np.testing.assert_allclose(variances, np.diag(np.linalg.inv(inside)) * noise)


def test_information_is_that_of_every_row():
    """Variances of coefficients by Fisher's information about the covariances of what each row shows."""
    rng = np.random.default_rng(13)
    root = rng.standard_normal((3, 3))
    covariance = root @ root.T + np.eye(3)
    missing = np.zeros((20, 3), bool)
    missing[:4, 0] = missing[3:9, 1] = missing[12:15, 2] = True
    pairs = [(i, j) for i in range(3) for j in range(i, 3)]
    steps = []
    for i, j in pairs:
        step = np.zeros((3, 3))
        step[i, j] = step[j, i] = 1.0
        steps.append(step)
    total = np.zeros((6, 6))
    for gaps in missing:
        seen = np.ix_(~gaps, ~gaps)
        inverse = np.linalg.inv(covariance[seen])
        turned = [inverse @ step[seen] for step in steps]
        total += [[np.trace(a @ b) / 2 for b in turned] for a in turned]
    expected = []
    order = np.array([1, 2, 0])
    for k in (1, 2):
        left, right, variances = em._influences(covariance, order[:k], int(order[k]))
        for own, variance in zip(left, variances, strict=True):
            slope = np.array([own @ step @ right for step in steps])
            expected.append(20 * slope @ np.linalg.solve(total, slope) / variance)
    found = em.variance_inflation(covariance, missing, [order])
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    share = em.information_left(covariance, missing, np.random.default_rng(0))
    assert 1 / max(expected) < share < 1
    assert em.information_left(covariance, np.zeros((9, 3), bool), rng) == 1.0
    assert em.information_left(np.eye(1), missing[:, :1], rng) == 1.0


def test_blocks_hold_every_row_once():
    rng = np.random.default_rng(14)
    missing = rng.random((200, 5)) < 0.25
    rows, patterns = [], 0
    for block in em._blocks(missing):
        assert block.rows.shape[0] == block.gaps.shape[0] == len(block.counts)
        for own, gaps, count in zip(block.rows, block.gaps, block.counts, strict=True):
            assert (own[count:] == 200).all()
            assert 4 * count > len(own)
            rows += own[:count].tolist()
            for row in own[:count]:
                np.testing.assert_array_equal(np.flatnonzero(missing[row]), gaps)
            patterns += 1
    assert sorted(rows) == list(range(200))
    assert patterns == len(np.unique(missing, axis=0))
    assert list(em._blocks(missing[:0])) == []


def test_changes_are_in_units_of_the_old_covariance():
    rng = np.random.default_rng(15)
    root = np.tril(rng.standard_normal((3, 3))) + 2 * np.eye(3)
    old = np.vstack([rng.standard_normal((2, 3)), root @ root.T])
    step = np.zeros((3, 3))
    step[2, 1] = step[1, 2] = 0.5
    moves = np.array([[0.0, 2.0, 0.0], [0.0, 0.0, -3.0]])
    for coefficients, matrix, change in ((0 * moves, step, 0.5), (moves, step, 3.0), (moves, 8 * step, 4.0)):
        new = old + np.vstack([coefficients @ root.T, root @ matrix @ root.T])
        assert em._change(old, new) == pytest.approx(change)


def test_effects_of_a_design_that_depends_on_itself():
    rng = np.random.default_rng(16)
    z = rng.standard_normal((30, 2)) * [1.0, 1e4] + [5.0, -3e5]
    rows = z @ np.array([[1.0, 2.0], [3e-4, 0.0]]) + [7.0, 8.0]
    design = em._Design.of(np.column_stack([z, z[:, 0], np.full(30, 4.0)]))
    effects = design.effects(design.fit(rows))
    np.testing.assert_allclose(em._values(effects, np.column_stack([z, z[:, 0], np.full(30, 4.0)])), rows)
    np.testing.assert_allclose(effects[[1, 3]], [[0.5, 1.0]] * 2, atol=1e-8)
    np.testing.assert_array_equal(effects[4], [0, 0])
    np.testing.assert_allclose(design.basis.T @ design.basis / 30, np.eye(3), atol=1e-12)
    np.testing.assert_array_equal(em._values(effects, z), np.tile(effects[0], (30, 1)))


def test_first_guesses_are_regressions_of_each_column_by_itself():
    rng = np.random.default_rng(17)
    z = rng.standard_normal((80, 2))
    rows = z @ rng.standard_normal((2, 3)) + rng.standard_normal((80, 3)) * [1.0, 5.0, 0.2] + [1.0, 2.0, 3.0]
    missing = rng.random((80, 3)) < 0.02
    design = em._Design.of(z)
    center, scale, coefficients, residuals = em._standardised(np.where(missing, np.nan, rows), missing, design)
    for j in range(3):
        own = ~missing[:, j]
        assert center[j] == pytest.approx(rows[own, j].mean())
        x = design.basis[own]
        beta = np.linalg.lstsq(x, rows[own, j] - center[j], rcond=None)[0]
        left = rows[own, j] - center[j] - x @ beta
        assert scale[j] == pytest.approx(math.sqrt((left**2).mean()), rel=1e-3)
        np.testing.assert_allclose(residuals[own, j], left / scale[j], atol=1e-2)
        assert not residuals[~own, j].any()
        np.testing.assert_allclose(coefficients[:, j] * scale[j], beta, atol=0.02 * scale[j])


def test_what_is_said_of_gaps_and_of_what_is_explained():
    whole, gapped = np.ones((4, 5)), np.ones((4, 5))
    gapped[0, 0] = np.nan
    assert _gap_note([whole, whole]) == []
    assert _gap_note([whole, gapped])[0].startswith("0.0% and 5.0% of the values are missing")
    assert _explained_words(["a"], "donor") == "'a' does not vary within 'donor'"
    both = _explained_words(["a", "b"], "donor", ["age"])
    assert both == "'a' and 'b' do not vary within 'donor' and at equal 'age'"


def test_some_rows_of_tables_keep_their_places():
    rng = np.random.default_rng(18)
    first, second = rng.standard_normal((9, 3)), rng.standard_normal((8, 3))
    tables = Tables(first, second, tuple("abc"), places=(np.arange(10, 19), None), notes=("n",))
    some = tables.take(np.array([3, 5]), np.array([7, 0, 1]))
    assert [own.tolist() for own in some.places] == [[13, 15], [7, 0, 1]]
    np.testing.assert_array_equal(some.first, first[[3, 5]])
    np.testing.assert_array_equal(some.second, second[[7, 0, 1]])
    half = tables.halves(1, np.array([0, 2]), np.array([4]))
    np.testing.assert_array_equal(half.first, second[[0, 2]])
    np.testing.assert_array_equal(half.second, second[[4]])
    assert (half.places, half.notes) == ((None, None), ())
    assert tables.select("abc") is tables
    np.testing.assert_array_equal(tables.select("ca").second, second[:, [2, 0]])


# Paths and sums


def test_columns_that_come_later_were_zero_before():
    rng = np.random.default_rng(10)
    one, two, three = rng.standard_normal((5, 3)), rng.standard_normal((4, 5)), rng.standard_normal((6, 5))
    sums = Accumulator(3)
    sums.add(one[:2])
    sums.add(one[2:])
    sums.widen(3)
    sums.widen(5)
    sums.add(two)
    sums.add(three)
    whole = np.vstack([np.pad(one, ((0, 0), (0, 2))), two, three])
    np.testing.assert_allclose(sums.mean, whole.mean(axis=0), atol=1e-14)
    np.testing.assert_allclose(sums.scatter, 14 * np.cov(whole, rowvar=False), atol=1e-12)
    assert sums.n == 15


def test_what_paths_hold(tmp_path):
    (tmp_path / "part[1].csv").write_text("x,y\n1,2\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.csv").write_text("x,y\n1,2\n")
    assert what_it_holds(tmp_path) == "stream"
    assert what_it_holds(tmp_path / "*.csv") == "stream"
    assert what_it_holds(tmp_path / "part[1].csv") == "table"
    with pytest.raises(InputError):
        what_it_holds(tmp_path / "none.csv")
    found = _expand(str(tmp_path / "*"), None)
    assert [path.name for path in found] == ["a.csv", "part[1].csv"]
    assert _expand(str(tmp_path / "part[1].csv"), None) == [tmp_path / "part[1].csv"]
    with pytest.raises(InputError, match="no file matches"):
        _expand(str(tmp_path / "*.npz"), None)
