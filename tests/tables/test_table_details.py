"""Tables, seam by seam: limits that are just reached, columns that are half missing, tables turned round."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from diffdag._base.errors import InputError
from diffdag.tables import em
from diffdag.tables.adjust import _slopes, _Units
from diffdag.tables.align import Tables, align_tables
from diffdag.tables.columns import _first_misfit
from diffdag.tables.covariates import _category
from diffdag.tables.degenerate import dependent_columns
from diffdag.tables.design import FEW_LEVELS, Design, judge_category
from diffdag.tables.groups import counted
from diffdag.tables.hidden import without_hidden
from diffdag.tables.inspect import Measures, inspect_columns
from diffdag.tables.kinds import chance_of_rarity, common_values, kind_of_numbers, orderly
from diffdag.tables.moments import Moments
from diffdag.tables.nesting import Nesting, find_nesting
from diffdag.tables.readers import h5ad
from diffdag.tables.readers.csv_dialect import _looks_like_data
from diffdag.tables.readers.files import read_table
from diffdag.tables.sorting import _counters, _flat_reference, _text_reason
from diffdag.tables.whiten import Filter, make_filter


def frames(seed=0, n=(40, 30), **more):
    rng = np.random.default_rng(seed)
    made = [pd.DataFrame(rng.standard_normal((own, 3)), columns=list("xyz")) for own in n]
    for name, values in more.items():
        for table, own in zip(made, values, strict=True):
            table[name] = own
    return made


# What columns hold


def test_common_values_of_columns_with_gaps():
    nan = np.nan
    table = np.array(
        [
            [nan, 2.0, 1.0, nan, 5.0],
            [nan, 2.0, nan, nan, 5.0],
            [nan, nan, 3.0, 4.0, 5.0],
            *[[nan, 2.0, k, 4.0 + (k == 9), 5.0] for k in range(4, 24)],
        ]
    )
    found = common_values(table, np.isnan(table).sum(axis=0))
    assert found.odd.tolist() == [-1, 0, -1, 1, 0]
    assert found.rows.tolist() == [0, 22, 22, 21, 23]
    np.testing.assert_array_equal(found.value, [nan, 2.0, nan, 4.0, 5.0])
    assert found.flat.tolist() == [False, True, False, True, True]
    short = common_values(table[:10, 3:], np.isnan(table[:10, 3:]).sum(axis=0))
    assert short.odd.tolist() == [1, 0]
    assert short.flat.tolist() == [False, True]  # one of eight rows is not rare


@pytest.mark.parametrize(("odd", "common"), [(0, True), (1, True), (2, True), (3, False)])
@pytest.mark.parametrize("width", [1, 300])
def test_up_to_two_rows_may_hold_another_value(odd, common, width):
    table = np.random.default_rng(1).standard_normal((25, width))
    table[:, -1] = 7.0
    table[[3, 11, 24][:odd], -1] = [1.0, 2.0, 9.0][:odd]
    found = common_values(table, np.zeros(width, int))
    assert found.odd[-1] == (odd if common else -1)
    assert (found.odd[:-1] == -1).all()


def test_kinds_of_numbers_at_their_limits():
    ramp, other = np.arange(6.0), np.arange(10.0, 16.0)
    assert kind_of_numbers("a", ramp, other) == "counter"
    assert kind_of_numbers("a", ramp[:5], other) == ""
    assert kind_of_numbers("a", ramp / 3, other / 7) == "counter"
    uneven = np.array([1.0, 3.0, 4.0, 9.0, 11.0, 30.0])
    assert kind_of_numbers("a", uneven, uneven + 100) == "counter"
    assert kind_of_numbers("a", uneven, uneven) == ""  # values occur twice
    assert kind_of_numbers("a", uneven + 0.5, uneven + 100) == ""
    mixed = uneven[[2, 1, 0, 4, 3, 5]]
    assert kind_of_numbers("cell_id", mixed, mixed + 100) == "ids"
    assert kind_of_numbers("cells", mixed, mixed + 100) == ""
    seconds = 631_152_000 + 1e6 * uneven
    assert kind_of_numbers("a", seconds, seconds) == "time"
    assert kind_of_numbers("a", seconds - 2e6, seconds) == ""
    assert kind_of_numbers("date", seconds[::-1], seconds) == "times"
    assert kind_of_numbers("a", seconds[::-1], seconds) == ""
    days = np.array([20240131, 20240201, 20240331, 20241231, 20250101, 20250102.0])
    assert kind_of_numbers("a", days, days) == "time"
    for wrong in (20241301, 20240001, 20240132, 20240100):
        assert kind_of_numbers("date", np.append(days[:5], wrong), days) == ""
    rising = np.column_stack([ramp, -ramp, ramp * 0, np.array([1, 2, 3, 3, 2, 9.0]), ramp])
    assert orderly(rising, rising, np.array([0, 0, 0, 0, 3])).tolist() == [0, 1, 4]
    assert orderly(rising, rising, np.array([0, 0, 1, 0, 0])).tolist() == [0, 1, 2, 4]
    assert orderly(rising[:5], rising, np.zeros(5, int)).tolist() == []


def test_rarity_where_all_are_the_same_is_no_surprise():
    assert chance_of_rarity(0, 10, np.ones(12), 1.0) == 1.0
    assert chance_of_rarity(0, 10, np.zeros(10), 1.0) == pytest.approx(2 / 184756)


def test_of_several_dependences_the_first_is_told_where_rows_are_few():
    rng = np.random.default_rng(2)
    table = rng.standard_normal((5, 6))
    table[:, 3], table[:, 5] = 2 * table[:, 0], -table[:, 1]
    centred = table - table.mean(axis=0)
    assert dependent_columns(5, centred.T @ centred) == [0, 3]
    assert dependent_columns(6, centred[:, [0, 1, 2, 4]].T @ centred[:, [0, 1, 2, 4]]) == []


def test_columns_of_the_table_that_others_are_compared_with():
    """Of a large table beside a few rows: what does not vary there, counts rows or holds times."""
    n = 30
    rng = np.random.default_rng(3)
    large = np.column_stack(
        [
            *(rng.standard_normal(n), np.full(n, np.nan), np.full(n, 2.0), np.full(n, 2.0), np.full(n, 2.0)),
            *(np.arange(n, dtype=float), np.append(np.full(n - 1, 2.0), np.inf)),
        ]
    )
    few = np.array([[1.0, 5.0, 2.0, 3.0, 1.0, 7.0, 2.0], [2.0, 5.0, 2.0, 3.0, 4.0, 9.0, 2.0]])
    gaps = [np.isnan(own).sum(axis=0) for own in (large, few)]
    infinite = [np.isinf(own).sum(axis=0) for own in (large, few)]
    seen = SimpleNamespace(
        arrays=(large, few),
        measures=tuple(Measures(g, i, np.ones(7)) for g, i in zip(gaps, infinite, strict=True)),
        names=("m", "gone", "same", "apart", "varies", "row", "wild"),
        texts={},
    )
    found = {"gone": "empty", "same": "constant", "apart": "apart", "varies": "first", "row": "counter"}
    assert _flat_reference(seen, 0) == found
    turned = SimpleNamespace(
        arrays=(few, large), measures=seen.measures[::-1], names=seen.names, texts={"row": None}
    )
    del found["row"]  # which is one of text there
    assert _flat_reference(turned, 1) == {**found, "varies": "second"}


@pytest.mark.parametrize("gapped", [0, 1])
def test_counters_are_looked_for_beside_gaps_of_either_table(gapped):
    """A few rows without order among the gaps would hide them."""
    arrays = [np.arange(12.0)[:, None], np.arange(20.0, 32.0)[:, None]]
    arrays[gapped] = np.insert(arrays[gapped], [2, 7], np.nan, axis=0)
    seen = SimpleNamespace(
        arrays=tuple(arrays),
        measures=tuple(Measures(np.isnan(own).sum(axis=0), np.zeros(1, int), np.ones(1)) for own in arrays),
        names=("a",),
        texts={},
    )
    assert _counters(seen, np.array([True])) == {"a": "counter"}
    assert _counters(seen, np.array([False])) == {}


@pytest.mark.parametrize(
    ("one", "two", "dates", "rising", "reason"),
    [
        ((), (), False, False, "empty"),
        (("a",), (), False, False, "text"),
        ((), ("a",), False, False, "text"),
        (("a",), ("a",), False, False, "constant"),
        (("a",), ("b",), False, False, "apart"),
        (("a", "b"), ("b",), False, False, "text"),
        (("a", "b"), ("c", "d"), True, False, "dates"),
        (("a", "b"), ("c", "d"), True, True, "time"),
        (("a", "b"), ("c", "d"), False, True, "text"),
    ],
)
def test_why_a_column_of_text_is_left_out(one, two, dates, rising, reason):
    assert _text_reason(SimpleNamespace(values=(one, two), dates=dates, rising=rising)) == reason


def test_levels_have_to_be_the_same_in_both_types():
    def table(levels):
        return pd.Series(pd.Categorical(["lo", "mid", "hi"] * 8, categories=levels, ordered=True))

    ordered = ["lo", "mid", "hi"]
    both = frames(n=(24, 24), dose=(table(ordered), table(ordered)))
    assert align_tables(*both).names == ("x", "y", "z", "dose")
    other = frames(n=(24, 24), dose=(table(ordered), table(ordered[::-1])))
    assert align_tables(*other).names == ("x", "y", "z")


def test_three_rows_and_two_columns_are_enough():
    first, second = frames(n=(3, 3))
    assert align_tables(first[["x", "y"]], second[["x", "y"]]).names == ("x", "y")
    second["y"] = 1.0
    with pytest.raises(InputError, match="'y'"):
        align_tables(first[["x", "y"]], second[["x", "y"]], columns=["x", "y"])
    with pytest.raises(InputError, match="2 rows"):
        align_tables(first, second[:2])
    with pytest.raises(InputError, match="1 column"):
        align_tables(first[["x"]], first[["x"]])


# Designs


@pytest.mark.parametrize("levels", [2, 3, FEW_LEVELS, FEW_LEVELS + 1])
def test_few_whole_numbers_are_categories(levels):
    rng = np.random.default_rng(4)
    codes = [np.append(np.arange(levels), rng.integers(levels, size=90 - levels)) for _ in range(2)]
    tables = align_tables(*frames(n=(90, 90), batch=codes), adjust=["batch"])
    width = levels - 1 if 2 < levels <= FEW_LEVELS else 1
    assert [own.shape[1] for own in tables.design.covariates] == [width, width]
    said = any("taken for categories" in note for note in tables.notes)
    assert said == (width > 1)


def test_levels_of_one_condition_leave_intercepts_apart():
    first, second = frames(n=(30, 30), batch=(["a", "b", "c"] * 10, ["c", "d"] * 15))
    tables = align_tables(first, second, adjust=["batch"])
    assert not tables.design.compared
    assert tables.design.covariates[0].sum(axis=0).tolist() == [10, 10, 0]  # all but the shared level
    assert sum("occur" in note for note in tables.notes) == 2
    assert any("levels 'a' and 'b' of covariate 'batch' occur in first only" in note for note in tables.notes)
    assert any("level 'd' of covariate 'batch' occurs in second only" in note for note in tables.notes)
    same = align_tables(first, first.copy(), adjust=["batch"])
    assert same.design.compared


def test_pairs_are_units_of_both():
    assert Design.none(3, 4).pairs.tolist() == []
    members = np.array([0, 1, 2]), np.array([2, 2, 1, 3])
    design = Design(covariates=(np.empty((3, 0)), np.empty((4, 0))), members=members)
    assert design.pairs.tolist() == [1, 2]
    taken = design.take(np.array([0, 2]), np.array([3]))
    assert [own.tolist() for own in taken.members] == [[0, 2], [3]]
    half = design.half(1, np.array([0, 3]), np.array([1]))
    assert [own.tolist() for own in half.members] == [[2, 3], [2]]
    assert [len(own) for own in half.covariates] == [2, 1]


def test_slopes_are_those_within_units():
    rng = np.random.default_rng(5)
    own = np.repeat(np.arange(6), 5)
    z = rng.standard_normal((30, 2)) * [1.0, 1e5] + rng.standard_normal(6)[own][:, None]
    table = z @ rng.standard_normal((2, 4)) + 3.0 * own[:, None] + rng.standard_normal((30, 4))
    dummies = np.eye(6)[own]
    beta = np.linalg.lstsq(np.column_stack([z, dummies]), table, rcond=None)[0][:2]
    within = z - dummies @ np.linalg.lstsq(dummies, z, rcond=None)[0]
    inverse = np.linalg.inv(within.T @ within)
    units = _Units(own, np.bincount(own).astype(float))
    for copies, rank in ((1, 2), (2, 2)):
        slopes, found, leverage = _slopes(table, np.tile(z, copies), units)
        assert found == rank
        np.testing.assert_allclose(within @ slopes[:2] * copies, within @ beta, rtol=1e-6, atol=1e-8)
        assert leverage == pytest.approx(z.mean(axis=0) @ inverse @ z.mean(axis=0), rel=1e-6)


def test_rows_without_a_label_are_dropped():
    tables = align_tables(
        *frames(n=(40, 30), site=(["a", "b", "c", None] * 10, ["a", "b", "c"] * 10)),
        adjust=["site"],
        missing="drop",
    )
    assert (len(tables.first), len(tables.second)) == (30, 30)


# Files


def test_tables_are_turned_round(tmp_path):
    plain = tmp_path / "plain.csv"
    plain.write_text("gene,c1,c2,c3\nraf, 1.5,2,3\n mek ,4,,6\n")
    table = read_table(plain, transpose=True)
    assert table.to_pydict() == {"raf": [1.5, 2.0, 3.0], "mek": [4.0, None, 6.0]}
    mixed = tmp_path / "mixed.csv"
    mixed.write_text("what;c1;c2;c3\nraf;1,5;2;3\nkind;007;b;a\nlong;" + "x" * 10 + ";y;z\n")
    table = read_table(mixed, transpose=True)
    assert table.to_pydict() == {
        "raf": [1.5, 2.0, 3.0],
        "kind": ["007", "b", "a"],
        "long": ["x" * 10, "y", "z"],
    }
    binary = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(pa.table({"gene": ["a", "b"], "c1": [1, 2], "c2": [3, 4]}), binary)
    assert read_table(binary, transpose=True).to_pydict() == {"a": [1.0, 3.0], "b": [2.0, 4.0]}
    two = tmp_path / "two.csv"
    two.write_text("gene,c1\na,1\nb,2\n")
    assert read_table(two, transpose=True).num_rows == 1


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("one.csv", "gene\na\nb\n", "has nothing to turn round"),
        ("head.csv", "gene,c1\n", "has nothing to turn round"),
        ("anon.csv", "gene,c1,c2\na,1,2\n,3,4\n", "row 2 of .* has no name in its first column, 'gene'"),
        ("cells.h5ad", "x", "has no column that names its rows, as transpose=True needs"),
        ("array.npy", "x", "has no column that names its rows, as transpose=True needs"),
    ],
)
def test_what_cannot_be_turned_round(tmp_path, name, content, says):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=says):
        read_table(tmp_path / name, transpose=True)


def test_memory_that_cells_need_is_told(monkeypatch):
    monkeypatch.setattr(h5ad, "_free_memory", lambda: 2.5 * 2**30)
    cells = SimpleNamespace(rows=np.zeros(1 << 20))
    check = h5ad.Cells._check_memory
    fits = int(2.5 * 2**30 / 8 / h5ad.COPIES / (1 << 20))
    check(cells, fits, "first")
    with pytest.raises(
        InputError, match=r"1,048,576 cells and .* GiB of memory, of which 2\.5 are free"
    ) as said:
        check(cells, 4 * fits, "first")
    assert f"takes {8 * h5ad.COPIES * 4 * fits / 2**10:.1f} GiB" in str(said.value)


def test_where_the_values_of_a_file_are(tmp_path):
    path = tmp_path / "cells.h5ad"
    whole = {"X": 1, "layers": {"counts": 1, "scaled": 1}, "raw/X": 1}
    for file, layer, place in (
        (whole, None, "X"),
        (whole, "counts", "layers/counts"),
        (whole, "raw", "raw/X"),
        ({"layers": {"raw": 1}, "raw/X": 1}, "raw", "layers/raw"),
        ({"layers": {"counts": 1}}, "counts", "layers/counts"),
    ):
        assert h5ad._place(file, layer, path) == place
    for file, layer, says in (
        (whole, "none", "has no layer 'none'; it has 'counts', 'scaled' and 'raw'"),
        ({"X": 1}, "raw", "it has none, leave the option out"),
        ({"layers": {"counts": 1}}, None, "has no X; choose a layer .*: 'counts'"),
        ({}, None, "there is none"),
    ):
        with pytest.raises(InputError, match=says):
            h5ad._place(file, layer, path)


# Gaps


def test_steps_point_to_where_they_lead():
    """From steps that halve each time to their limit, and never back."""
    limit, start = np.array([[1.0, -2.0]]), np.array([[3.0, 2.0]])
    first, second = (limit + (start - limit) * 0.5**k for k in (1, 2))
    np.testing.assert_allclose(em._extrapolated(start, first, second), limit, atol=1e-12)
    wild = start + np.array([[1.0, 0.0]]), start + np.array([[0.0, 0.0]])
    np.testing.assert_allclose(em._extrapolated(start, *wild), wild[1])


def test_filled_rows_keep_what_is_known(monkeypatch):
    rng = np.random.default_rng(6)
    root = rng.standard_normal((4, 4))
    matrix = root @ root.T + np.eye(4)
    rows = rng.multivariate_normal(np.zeros(4), matrix, size=12)
    missing = np.zeros((12, 4), bool)
    missing[2, [0, 3]] = missing[5, 1] = missing[7, [0, 1, 2]] = True
    expected, drawn = em._filled(np.where(missing, 0.0, rows), missing, matrix, np.random.default_rng(7))
    for own in (expected, drawn):
        np.testing.assert_array_equal(own[~missing], rows[~missing])
    for r in (2, 5, 7):
        m, o = np.flatnonzero(missing[r]), np.flatnonzero(~missing[r])
        pull = matrix[np.ix_(m, o)] @ np.linalg.solve(matrix[np.ix_(o, o)], rows[r, o])
        np.testing.assert_allclose(expected[r, m], pull)
    draws = [
        em._filled(np.where(missing, 0.0, rows), missing, matrix, np.random.default_rng(k))[1][7, :3]
        for k in range(600)
    ]
    m, o = [0, 1, 2], [3]
    left = matrix[np.ix_(m, m)] - matrix[np.ix_(m, o)] @ matrix[np.ix_(o, m)] / matrix[3, 3]
    np.testing.assert_allclose(np.cov(np.array(draws), rowvar=False), left, atol=0.25 * left.max())


def test_parts_that_are_known_count_by_their_rows():
    """I less the projection on the directions in which a pattern's gaps lie, whitened."""
    rng = np.random.default_rng(8)
    root = rng.standard_normal((3, 3))
    white = np.linalg.cholesky(root @ root.T + np.eye(3))
    patterns = np.array([[1, 0, 0], [0, 1, 1], [0, 0, 0]], bool)
    missing = np.repeat(patterns, [4, 9, 5], axis=0)
    upper, lower = np.triu_indices(3)
    expected = []
    for gaps, count in ((patterns[0], 4), (patterns[1], 9)):
        inverse = np.linalg.inv(white)
        part = inverse[:, gaps]
        known = np.eye(3) - part @ np.linalg.solve(part.T @ part, part.T)
        expected.append(known[upper, lower] * np.sqrt(count))
    found = np.vstack(list(em._known_parts(white, missing)))
    np.testing.assert_allclose(found, expected, atol=1e-9)


# Words and limits


@pytest.mark.parametrize(
    ("share", "most", "pvalue", "possible", "nested"),
    [
        *((0.05, 0.05, 1e-9, True, True), (0.049, 0.049, 1e-9, True, False), (0.049, 0.2, 1e-9, True, True)),
        *((0.049, 0.199, 1e-9, True, False), (0.5, 0.5, 1e-3, True, False), (0.5, 0.5, 1e-9, False, False)),
    ],
)
def test_rows_look_nested_where_much_is_explained(share, most, pvalue, possible, nested):
    assert Nesting("site", 6, share, most, "x", pvalue, True, possible).looks_nested == nested


def test_two_values_of_a_column_are_no_units():
    rng = np.random.default_rng(9)
    for labels, found in ((["u", "v"], 0), (["u", "v", "w"], 1)):
        made = frames(n=(60, 60), where=[rng.choice(labels, 60) for _ in range(2)])
        seen = inspect_columns(*made)
        assert len(find_nesting(seen, ["where"])) == found
        assert len(find_nesting(seen, [])) == 0


def test_groups_are_counted_up_to_a_dozen():
    counts = {f"g{k}": k + 1 for k in range(13)}
    assert counted(dict(list(counts.items())[:12])).endswith("'g11' (12 rows)")
    assert counted(counts).endswith("'g11' (12 rows) and 1 more")
    assert counted({"\0": 1}) == "'' (1 row)"


def test_columns_of_categories_are_called_by_them():
    names, mean, scatter = ("x", "a=1", "b"), np.zeros(3), np.eye(3)
    with pytest.raises(InputError, match="the column 'b' of a category"):
        Moments(names, 9, mean, scatter, categories={"a": ("a=1", "b")})
    with pytest.raises(InputError, match="the column 'x' of a category"):
        Moments(names, 9, mean, scatter, categories={"a": ("a=1", "x", "b")})


@pytest.mark.parametrize("unit", [1.0, 1e3, 1e6, 1e9])
def test_times_are_counted_in_seconds_and_their_thousandths(unit):
    first, last = 631_152_000 * unit, 4_102_444_800 * unit
    steps = np.array([0.0, 1.0, 3.0, 4.0, 8.0, 9.0])
    inside = first + steps * (last - first) / 9
    inside[-1] = last
    assert kind_of_numbers("a", inside, inside) == "time"
    for wrong in (inside - 1e-3 * first, inside + 1e-3 * last):
        assert kind_of_numbers("a", wrong, wrong) == ""


@pytest.mark.parametrize(
    ("header", "delimiter", "data"),
    [
        *((["", "1.5", "2"], ",", True), (["", "a", "2"], ",", False), (["x", "1.5", "2"], ",", False)),
        *((["1,5", "2"], ";", True), (["1,5", "2"], ",", False), (["0", "1", "2"], ",", False)),
        *((["1", "2", "3"], ",", False), (["0", "1"], ",", True), (["2", "3", "4"], ",", True)),
        *((["", "0", "1", "2"], ",", False), ([""], ",", False)),
    ],
)
def test_a_header_of_numbers_is_data_unless_it_counts(header, delimiter, data):
    assert _looks_like_data(header, delimiter) == data


def test_a_level_needs_three_rows_on_average():
    counts = Counter(dict.fromkeys("abcd", 2)), Counter(dict.fromkeys("abcd", 1))
    levels, compared = judge_category("site", counts, ("first", "second"), [])
    assert (len(levels), compared) == (3, True)
    with pytest.raises(InputError, match="4 different values in 11 rows"):
        judge_category("site", (counts[0], Counter("abc")), ("first", "second"), [])
    many = Counter({str(k): 9 for k in range(200)})
    assert len(judge_category("site", (many, many), ("first", "second"), [])[0]) == 199
    with pytest.raises(InputError, match="too many"):
        judge_category("site", (many + Counter(["x"] * 9), many), ("first", "second"), [])


def test_the_share_of_hidden_causes_is_that_of_their_components():
    rng = np.random.default_rng(10)
    score, loads = rng.standard_normal((2, 90, 1)), rng.uniform(0.5, 1.0, (1, 20))
    first = score[0] @ loads + rng.standard_normal((90, 20)) + 3.0
    second = 2 * score[1, :60] @ loads + rng.standard_normal((60, 20))
    found = without_hidden(first, second, 1)
    centred = first - first.mean(axis=0), second - second.mean(axis=0)
    pooled = np.vstack(centred)
    pooled /= np.sqrt((pooled**2).sum(axis=0) / 148)
    values = np.linalg.svd(pooled, compute_uv=False) ** 2 / 148
    assert found.share == pytest.approx(values[0] / 20)
    assert found.count == 1
    for n1, n2, p, wanted in ((30, 9, 20, 1), (30, 30, 14, 1), (40, 40, 20, 5), (100, 11, 20, 3)):
        with pytest.raises(InputError):
            without_hidden(first[:n1, :p], second[:n2, :p], wanted)
    assert without_hidden(first[:30], second[:12], 3).count == 3
    assert without_hidden(first[:, :15], second[:, :15], 3).count == 3


def test_filters_are_told_by_their_coefficients():
    names = tuple("abc")
    own = Filter("own", names, np.array([[0.5, 0.8, 0.2], [0.1, 0.1, 0.0]]))
    assert "on up to 2 rows before (own coefficients add up to 0.2 to 0.9)" in own.note
    common = Filter("common", names, np.array([[0.9, 0.5, 0.5]]), ("a",))
    assert "on up to 1 row before (coefficients add up to 0.5), and by one of their own for 'a'" in common.note
    assert common.gains == {"a": pytest.approx(0.1), "b": 0.5, "c": 0.5}


def test_whitened_tables_keep_two_columns_at_least():
    """A column of which nothing is left goes, and of two columns none can."""
    rng = np.random.default_rng(11)
    tables = []
    for n in (60, 50):
        steady = np.cumsum(np.ones(n)) * 3.0 + 1e-12 * rng.standard_normal(n)
        tables.append(np.column_stack([rng.standard_normal((n, 2)), steady]))
    made = Tables(tables[0], tables[1], tuple("abc")).whiten("differences")
    assert made.names == ("a", "b")
    assert any("'c' does not vary once" in note for note in made.notes)
    two = Tables(tables[0][:, 1:], tables[1][:, 1:], tuple("bc"))
    with pytest.raises(InputError, match="fewer than two columns are left"):
        two.whiten("differences")


def test_columns_of_steps_are_filtered_as_they_are():
    """Clipping would take most of their variance for outliers."""
    rng = np.random.default_rng(12)
    steps = np.repeat((rng.random(40) < 0.08) * 9.0, 10) + 0.01 * rng.standard_normal(400)
    table = np.column_stack([steps, rng.standard_normal((400, 2))])
    made = make_filter("ar", table, table, tuple("abc"))
    assert made.kind == "own" or "a" in made.apart
    column = steps - steps.mean()
    rho = column[1:] @ column[:-1] / (column @ column)
    assert made.coefficients[:, 0].sum() == pytest.approx(rho, abs=0.05)


# Tables as they come


def test_tables_that_look_transposed_are_told():
    def table(names, samples):
        rng = np.random.default_rng(14)
        return pd.DataFrame(rng.standard_normal((len(names), 4)), columns=samples).assign(gene=names)[
            ["gene", *samples]
        ]

    genes, one, two = ["raf", "mek", "erk", "akt"], list("abcd"), list("efgh")
    with pytest.raises(InputError, match=r"look transposed: their first column, 'gene'.*'raf' and 'mek'"):
        align_tables(table(genes, one), table(genes[::-1], two))
    for other in (["raf", "mek", "erk", "p38"], ["raf", "mek", "erk", "erk"]):
        with pytest.raises(InputError) as said:
            align_tables(table(other, one), table(genes, two))
        assert "transposed" not in str(said.value)
    with pytest.raises(InputError) as said:
        align_tables(table([*genes, "raf"], one), table([*genes, "raf"], two))
    assert "transposed" not in str(said.value)
    shared = table(genes, ["a", "b", "c", "e"])
    with pytest.raises(InputError) as said:
        align_tables(table(genes, one), shared.rename(columns={"gene": "symbol"}))
    assert "transposed" not in str(said.value)


@pytest.mark.parametrize(("rows", "flat"), [(20, True), (19, False)])
def test_one_odd_value_in_twenty_is_rare(rows, flat):
    table = np.full((rows, 1), 3.0)
    table[4] = 8.0
    assert common_values(table, np.zeros(1, int)).flat.tolist() == [flat]


def test_filters_have_three_lags_at_most_and_fewer_with_few_rows():
    rng = np.random.default_rng(15)
    noise = rng.standard_normal((600, 3))
    for t in range(5, 600):
        noise[t] += 0.2 * noise[t - 1] + 0.2 * noise[t - 2] + 0.2 * noise[t - 3] + 0.3 * noise[t - 4]
    assert make_filter("ar", noise, noise, tuple("abc")).order == 3
    assert make_filter("ar", noise[:29], noise, tuple("abc")).order <= 2
    assert make_filter("ar", noise[:20], noise, tuple("abc")).order <= 2
    with pytest.raises(InputError, match="at least 20 rows"):
        make_filter("ar", noise[:19], noise, tuple("abc"))


def test_a_category_of_one_level_never_varies():
    def moments(levels, mean):
        names = ("x", *(f"a={level}" for level in levels))
        return Moments(names, 12, np.array([0.0, *mean]), 3.0 * np.eye(len(names)), categories={"a": names[1:]})

    one, two = moments("1", [1.0]), moments("12", [0.5, 0.5])
    assert _category("a", (one, one), ("first", "second"), []) is None
    columns, compared = _category("a", (two, two), ("first", "second"), [])
    assert (columns, compared) == (["a=2"], True)
    with pytest.raises(InputError):
        _category("a", (one, moments("2", [1.0])), ("first", "second"), [])


@pytest.mark.parametrize("gapped", [0, 1])
def test_pairs_are_known_as_well_as_in_the_table_that_knows_less(gapped):
    rng = np.random.default_rng(16)
    both = [rng.standard_normal((60, 3)) for _ in range(2)]
    both[gapped][:30, 0] = np.nan
    both[gapped][20:40, 1] = np.nan
    both[1 - gapped][:3, 2] = np.nan
    taken = align_tables(*both, missing="em").adjusted.taken
    shares = []
    for table, filled in zip(both, taken.filled, strict=True):
        seen = ~np.isnan(table)
        known = [[np.mean(seen[:, i] & seen[:, j]) for j in range(3)] for i in range(3)]
        shares.append(np.array(known) / filled.share)
    np.testing.assert_allclose(taken.known, np.minimum(np.minimum(*shares), 1.0))


def test_rows_without_a_label_belong_to_no_unit():
    made = frames(n=(60, 60), where=[["u", "v", "w", "t", None, "u"] * 10, ["u", "v", "w", "t"] * 15])
    made[0].loc[4::6, "x"] += 50.0
    (found,) = find_nesting(inspect_columns(*made), ["where"])
    made[0] = made[0].dropna()
    (without,) = find_nesting(inspect_columns(*made), ["where"])
    assert (found.share, found.most, found.pvalue) == pytest.approx(
        (without.share, without.most, without.pvalue)
    )
    assert found._replace(share=0, most=0, pvalue=0) == without._replace(share=0, most=0, pvalue=0)


def test_text_in_one_table_and_numbers_in_the_other_are_a_fault():
    texts, numbers = ["lo", "mid", "hi", "no"] * 5, ["1", "2", "3", "4"] * 5
    for one, two in ((texts, numbers), (numbers, texts)):
        with pytest.raises(InputError, match="dose"):
            align_tables(*frames(n=(20, 20), dose=[one, two]))
    tables = align_tables(*frames(n=(20, 20), dose=[texts, texts]))
    assert tables.names == ("x", "y", "z")


def test_the_first_entry_that_is_no_number():
    column = pa.chunked_array([["1.5", None, "x"]])
    assert _first_misfit(column, ".") == (3, "x")
    assert _first_misfit(pa.chunked_array([[None, "1.5"]]), ".") == (2, "1.5")
    assert _first_misfit(pa.chunked_array([pa.array([None, None], pa.string())]), ".") == (1, None)
    assert _first_misfit(pa.chunked_array([["1,5", "1.5"]]), ",") == (2, "1.5")
