import contextlib
import gzip
import io
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import diffdag as dd
from diffdag._base.errors import InputError
from diffdag.tables.align import align_tables
from diffdag.tables.degenerate import check_moments
from diffdag.tables.groups import split_groups
from diffdag.tables.readers.files import read_table

RNG = np.random.default_rng(7)
GOOD = pd.DataFrame(RNG.standard_normal((20, 3)), columns=["a", "b", "c"])


def npy_bytes():
    stream = io.BytesIO()
    np.save(stream, GOOD.to_numpy())
    return stream.getvalue()


FILES = {
    "missing file": ("gone.csv", None, "does not exist"),
    "empty file": ("t.csv", b"", "is empty"),
    "blank lines": ("t.csv", b"\n\n", "is empty"),
    "folder": (".", None, "is a folder"),
    "unknown type": ("t.docx", b"PK", "no known file type"),
    "spreadsheet": ("t.XLSX", b"PK", "is a spreadsheet, which is not read; save the sheet as CSV .UTF-8."),
    "gzip of another type": ("t.npy.gz", b"x", "no known file type"),
    "binary junk": ("t.csv", bytes(range(128, 256)), "not UTF-8 text"),
    "zeros": ("t.csv", bytes(64), "not a text table"),
    "junk parquet": ("t.parquet", b"junk", "cannot be read as .parquet"),
    "junk feather": ("t.feather", b"junk", "cannot be read as .feather"),
    "junk npy": ("t.npy", b"junk", "cannot be read as .npy"),
    "junk npz": ("t.npz", b"junk", "cannot be read as .npz"),
    "junk gzip": ("t.csv.gz", b"junk", "cannot be read as .csv"),
    "cut gzip": ("t.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 999)[:-9], "cannot be read as .csv"),
    "short row of junk": ("t.csv", b"a,b\n1,2\n\xff\xfe\n", "not UTF-8 text"),
    "array as npz": ("t.npz", npy_bytes(), "cannot be read as .npz"),
    "short row": ("t.csv", b"a,b\n1,2\n3\n", "line 3 of .* has 1 field and the header has 2"),
    "long row": ("t.tsv", b"a\tb\n1\t2\t3\n", "line 2 of .* has 3 fields and the header has 2"),
    "no header": ("t.csv", b"1.5,2\n3,4\n", "put a header line"),
    "no header, counting": ("t.csv", b"0,1\n3,4\n", "put a header line"),
}


@pytest.mark.parametrize(("name", "content", "message"), FILES.values(), ids=FILES)
def test_unreadable_files_are_one_clear_line(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_table(tmp_path / name)
    assert "\n" not in str(caught.value)


def frame(**columns):
    return GOOD.assign(**columns)


# Tables, the kinds of what is wrong, and the columns at fault.
TABLES = {
    "text": (frame(b="x"), GOOD, "text", "b"),
    "several texts": (frame(b="x", d=GOOD["a"] ** 2), frame(c=["y"] * 20, d=GOOD["b"]), "text", "bc"),
    "one text": (frame(b=["1", "?"] * 10), GOOD, "text", "b"),
    "dates": (frame(b=pd.Timestamp("2024-01-01")), GOOD, "dates", "b"),
    "complex": (frame(b=1j), GOOD, "text", "b"),
    "NaN": (frame(b=[np.nan] * 2 + [1.0, 2.0] * 9), GOOD, "missing", "b"),
    "null": (GOOD, frame(a=[None, *range(19)]), "missing", "a"),
    "inf": (GOOD, frame(c=[np.inf, -np.inf, *range(18)]), "infinite", "c"),
    "duplicate": (
        GOOD.set_axis(["a", "b", "a"], axis=1),
        GOOD.drop(columns="c"),
        "duplicate-name",
        "a",
    ),
    "unnamed": (GOOD.set_axis(["a", "b", ""], axis=1), GOOD.drop(columns="c"), "no-name", [""]),
    "different": (GOOD, GOOD.rename(columns={"a": "d"}), "unmatched", "da"),
    "empty": (GOOD, frame(b=np.nan), "empty", "b"),
    "one row": (GOOD.iloc[:1], GOOD, "too-few-rows", ""),
    "no row": (GOOD.iloc[:0], GOOD, "too-few-rows", ""),
    "one column": (GOOD[["a"]], GOOD[["a"]], "too-few-columns", ""),
    "no column": (GOOD[[]], GOOD[[]], "too-few-columns", ""),
    "array sizes": (GOOD.to_numpy(), GOOD.to_numpy()[:, :2], "unmatched", ["X3"]),
}


@pytest.mark.parametrize(("first", "second", "kind", "columns"), TABLES.values(), ids=TABLES)
def test_unusable_tables_are_told_by_kind(first, second, kind, columns):
    with pytest.raises(InputError) as caught:
        align_tables(first, second)
    (problem,) = caught.value.problems
    assert (problem.kind, list(problem.columns)) == (kind, list(columns))
    assert "\n" not in str(caught.value)


NO_TABLES = {
    "array and frame": (GOOD.to_numpy(), GOOD, "give two arrays or two tables"),
    "1-d array": (np.arange(3.0), GOOD.to_numpy(), "first table is a 1-d array"),
    "not a table": ({"a": [1]}, GOOD, "first table is a dict"),
}


@pytest.mark.parametrize(("first", "second", "message"), NO_TABLES.values(), ids=NO_TABLES)
def test_what_is_no_pair_of_tables(first, second, message):
    with pytest.raises(InputError, match=message):
        align_tables(first, second)


def scatter(table):
    centred = table - table.mean(axis=0)
    return centred.T @ centred


def moments(table, **more):
    names = [f"X{k + 1}" for k in range(table.shape[1])]
    check_moments(names, len(table), scatter(table), "first", mean=table.mean(axis=0), **more)


def dependent_in(table):
    with pytest.raises(InputError) as caught:
        moments(table)
    (problem,) = caught.value.problems
    assert problem.kind == "dependent"
    return problem.columns


@pytest.mark.parametrize("shift", [0.0, 1e8])
@pytest.mark.parametrize("shape", [(500, 5), (7, 5), (5, 5), (3, 8)])
def test_sound_moments_pass_even_far_from_zero(shape, shift):
    moments(RNG.standard_normal(shape) + shift)


@pytest.mark.parametrize("shift", [0.0, 1e8])
@pytest.mark.parametrize("n", [400, 12])
def test_dependent_columns_are_named_and_no_others(n, shift):
    table = RNG.standard_normal((n, 6)) + shift
    table[:, 4] = table[:, 1] - 3 * table[:, 3]
    assert dependent_in(table) == ("X2", "X4", "X5")


def test_of_two_dependencies_one_is_told():
    table = RNG.standard_normal((100, 7))
    table[:, 6] = 2 * table[:, 0] + 1
    table[:, 3] = table[:, 1] + table[:, 2] + table[:, 4]
    assert dependent_in(table) == ("X1", "X7")


def test_copies_are_seen_with_fewer_rows_than_columns():
    table = RNG.standard_normal((4, 8))
    table[:, 5] = 1 - 2 * table[:, 2]
    assert dependent_in(table) == ("X3", "X6")


@pytest.mark.parametrize("n", [10, 1_000_003])
def test_a_constant_is_seen_through_the_rounding_of_its_mean(n):
    table = np.asfortranarray(np.column_stack([RNG.standard_normal(n), np.full(n, 0.1)]))
    with pytest.raises(InputError) as caught:
        moments(table)
    assert [(problem.kind, problem.columns) for problem in caught.value.problems] == [("constant", ("X2",))]


def test_moments_need_three_rows_and_two_columns():
    for kind, n, p in (("too-few-rows", 2, 2), ("too-few-columns", 9, 1)):
        with pytest.raises(InputError) as caught:
            check_moments(["a", "b"][:p], n, np.eye(p), "first")
        assert [problem.kind for problem in caught.value.problems] == [kind]


def test_an_empty_cell_of_a_group_column_is_a_missing_group():
    frame_with_gap = GROUPED.assign(g=["b", "a", "b", "", "b"])
    with pytest.raises(InputError, match="names no group in 1 of 5 rows; fill it in"):
        split_groups(frame_with_gap, "g")
    with pytest.raises(InputError, match=r"no group 'z'; it holds .*'\(missing\)' \(1 row\)"):
        split_groups(frame_with_gap, "g", ["z"])


def test_decimal_commas_are_recognised():
    with pytest.raises(InputError, match=r"'1,5' in row 2 .* decimal point"):
        align_tables(pd.DataFrame({"a": ["1.0", "1,5", "2"], "b": [1, 2, 3], "c": [4, 0, 2]}), GOOD)


@pytest.mark.parametrize("dtype", [">f8", "longdouble", "float16", ">i4", "bool"])
def test_arrays_of_any_width_and_byte_order_are_read(tmp_path, dtype):
    table = np.array([[1, 0], [0, 1], [1, 1]], dtype=dtype)
    np.save(tmp_path / "t.npy", table)
    assert read_table(tmp_path / "t.npy").to_pandas().to_numpy().tolist() == table.astype(float).tolist()


def test_rows_with_missing_values_go_if_asked_and_are_counted():
    first = frame(b=[np.nan, np.nan, *range(18)], c=[1.0, None, *range(18)])
    tables = align_tables(first, GOOD, missing="drop")
    assert tables.notes == ("2 of 20 rows with missing values were dropped from the first table",)
    assert tables.first.shape == (18, 3)
    assert tables.second.shape == (20, 3)
    with pytest.raises(InputError, match="missing='some'"):
        align_tables(first, GOOD, missing="some")
    with pytest.raises(InputError) as caught:
        align_tables(frame(a=[np.inf, *range(19)]), GOOD, missing="drop")
    assert [problem.kind for problem in caught.value.problems] == ["infinite"]


def test_columns_and_drop_choose():
    first = frame(cell="x", day=1)
    assert align_tables(first, GOOD, columns=["c", "a"]).names == ("c", "a")
    assert align_tables(first, GOOD, drop=["cell", "day", "b"]).names == ("a", "c")
    assert align_tables(first, GOOD, columns=["c", "a", "b"], drop=["a"]).names == ("c", "b")
    assert align_tables(GOOD.to_numpy(), GOOD.to_numpy(), drop=["X1"]).names == ("X2", "X3")
    numbered = pd.DataFrame(GOOD.to_numpy())
    assert align_tables(numbered, numbered, columns=numbered.columns[1:]).names == ("1", "2")
    with pytest.raises(InputError, match="drop= names 'cel', which no table has; did you mean 'cell'"):
        align_tables(first, GOOD, drop=["cel"])
    with pytest.raises(InputError, match="give a list"):
        align_tables(first, GOOD, columns="a")
    with pytest.raises(InputError, match="more than once in columns="):
        align_tables(first, GOOD, columns=["a", "a"])
    with pytest.raises(InputError) as caught:
        align_tables(first, GOOD, columns=["a", "day"])
    assert caught.value.problems[0].kind == "unmatched"
    assert caught.value.problems[0].columns == ("day",)


def test_row_labels_are_left_out_with_a_note(tmp_path):
    GOOD.to_csv(tmp_path / "t.csv")
    GOOD.set_axis([f"cell{k}" for k in range(20)]).to_parquet(tmp_path / "t.parquet")
    labelled = pd.read_csv(tmp_path / "t.csv")
    for table in (read_table(tmp_path / "t.csv"), read_table(tmp_path / "t.parquet"), labelled):
        tables = align_tables(table, GOOD)
        assert tables.names == ("a", "b", "c")
        assert len(tables.notes) == 1
        assert "of the first table holds row labels" in tables.notes[0]


KINDS = {
    "pandas": lambda frame: frame,
    "nullable": lambda frame: frame.convert_dtypes(),
    "objects": lambda frame: frame.astype(object),
    "decimals": lambda frame: frame.map(Decimal),
    "polars": pl.from_pandas,
    "arrow": pa.Table.from_pandas,
    "array": lambda frame: frame.to_numpy(copy=True),
    "masked": lambda frame: np.ma.masked_invalid(frame.to_numpy()),
    "view": lambda frame: frame.to_numpy(copy=True)[::-1][::-1],
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_the_same_numbers_and_keeps_the_callers(kind):
    table = KINDS[kind](GOOD)
    tables = align_tables(table, table)
    np.testing.assert_array_equal(tables.first, GOOD.to_numpy())
    assert not tables.first.flags.writeable
    if isinstance(table, np.ndarray):
        assert table.flags.writeable


def test_integers_and_booleans_are_numbers():
    mixed = pd.DataFrame(
        {
            "i": np.array([0, 1, 2, 3, 5, 4], np.int8),
            "b": [True, False] * 3,
            "f": np.float32([0, 1, 0, 1.5, 2, 1]),
        }
    )
    for table in (mixed, pl.from_pandas(mixed), mixed.convert_dtypes()):
        assert align_tables(table, table).first[3].tolist() == [3.0, 0.0, 1.5]


@settings(max_examples=30)
@given(order=st.permutations(["a", "b", "c"]), backwards=st.booleans())
def test_the_order_of_columns_does_not_matter(order, backwards):
    shuffled = GOOD[order]
    tables = align_tables(*((shuffled, GOOD) if backwards else (GOOD, shuffled)))
    assert tables.names == (tuple(order) if backwards else ("a", "b", "c"))
    np.testing.assert_array_equal(tables.first, tables.second)


def save_npz(frame, path):
    np.savez(path, values=frame.to_numpy(), names=np.array(frame.columns, dtype=str))


WRITERS = {
    "t.csv": lambda frame, path: frame.to_csv(path, index=False),
    "t.csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "t.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "semicolon.csv": lambda frame, path: frame.to_csv(path, index=False, sep=";"),
    "bar.txt": lambda frame, path: frame.to_csv(path, index=False, sep="|"),
    "windows.csv": lambda frame, path: frame.to_csv(
        path, index=False, lineterminator="\r\n", encoding="utf-8-sig"
    ),
    "t.parquet": lambda frame, path: frame.to_parquet(path),
    "t.feather": lambda frame, path: frame.to_feather(path),
    "t.npz": save_npz,
}
NAMES = st.lists(
    st.text("abcäπ_ .-/", min_size=1).map(lambda name: f"v{name}w"), min_size=2, max_size=4, unique=True
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@pytest.mark.parametrize("file", WRITERS)
@given(data=st.data(), names=NAMES)
def test_what_was_written_is_read_back(tmp_path, file, data, names):
    finite = st.floats(allow_nan=False, allow_infinity=False)
    shape = (data.draw(st.integers(1, 5)), len(names))
    written = pd.DataFrame(data.draw(hnp.arrays(float, shape, elements=finite)), columns=names)
    WRITERS[file](written, tmp_path / file)
    table = read_table(tmp_path / file)
    assert table.column_names == names
    for name in names:
        np.testing.assert_array_equal(table[name].to_numpy(), written[name])


@pytest.mark.parametrize("file", WRITERS)
def test_damaged_files_are_read_or_refused(tmp_path, file):
    WRITERS[file](GOOD, tmp_path / file)
    whole = np.frombuffer((tmp_path / file).read_bytes(), np.uint8)
    rng = np.random.default_rng(5)
    for _ in range(60):
        damaged = whole[: rng.integers(1, len(whole) + 1)].copy() if rng.random() < 0.3 else whole.copy()
        places = rng.integers(len(damaged), size=4)
        damaged[places] = rng.integers(256, size=4)
        (tmp_path / file).write_bytes(damaged.tobytes())
        with contextlib.suppress(InputError):
            align_tables(read_table(tmp_path / file), GOOD)


def test_an_array_file_gets_default_names(tmp_path):
    np.save(tmp_path / "t.npy", GOOD.to_numpy())
    assert read_table(tmp_path / "t.npy").column_names == ["X1", "X2", "X3"]
    np.savez(tmp_path / "t.npz", a=GOOD.to_numpy(), names=["x"])
    with pytest.raises(InputError, match="1 name for 3 columns"):
        read_table(tmp_path / "t.npz")
    np.savez(tmp_path / "t.npz", a=GOOD.to_numpy(), b=GOOD.to_numpy())
    with pytest.raises(InputError, match="holds 2 arrays"):
        read_table(tmp_path / "t.npz")
    np.save(tmp_path / "t.npy", np.array([[1, "x"]], dtype=object))
    with pytest.raises(InputError, match=r"cannot be read as \.npy"):
        read_table(tmp_path / "t.npy")


def test_headers_may_count_and_may_be_long(tmp_path):
    GOOD.to_csv(tmp_path / "t.csv", header=["0", "1", "2"], index=False)
    assert read_table(tmp_path / "t.csv").column_names == ["0", "1", "2"]
    names = [f"{k:0200d}x" for k in range(6_000)]  # more than Arrow's block of 1 MiB
    (tmp_path / "t.csv").write_text(",".join(names) + "\n" + ",".join("1" * 6_000) + "\n")
    assert read_table(tmp_path / "t.csv").column_names == names


def test_text_in_a_file_is_shown_where_it_is(tmp_path):
    (tmp_path / "t.csv").write_text("\na,b\n1,NA\n\n2,3\n4,oops\n")
    with pytest.raises(InputError, match=r"'b' is not numeric .'oops' in line 6 of '.*t.csv'."):
        align_tables(read_table(tmp_path / "t.csv"), GOOD, columns=["a", "b"])


GROUPED = pd.DataFrame({"g": ["b", "a", "b", "a", "b"], "x": range(5), "y": [1.0, 4, 9, 16, 25]})


@pytest.mark.parametrize("kind", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas])
def test_groups_split_in_alphabetical_order_whichever_row_comes_first(kind):
    parts = split_groups(kind(pd.concat([GROUPED, GROUPED])), "g")
    assert list(parts) == ["a", "b"]
    tables = align_tables(*parts.values())
    assert tables.names == ("x", "y")
    assert tables.second[:, 0].tolist() == [0, 2, 4, 0, 2, 4]
    assert list(split_groups(kind(GROUPED), "g", ["b", "a"])) == ["b", "a"]
    assert list(split_groups(kind(GROUPED.assign(g=[10, 9, 10, 9, -1])), "g")) == ["-1", "9", "10"]


@pytest.mark.parametrize("kind", [pl.from_pandas, lambda frame: pl.from_pandas(frame).lazy()])
def test_polars_in_all_ways(kind):
    rows = np.random.default_rng(1).standard_normal((60, 2))
    frame = pd.DataFrame({"id": [f"row {k}" for k in range(60)], "g": list("aab") * 20})
    frame[["x", "y"]] = rows
    frame = frame.assign(whole=[k % 7 for k in range(60)], yes=[True, False] * 30)
    plain = align_tables(*split_groups(frame, "g").values(), drop=["id"])
    parts = split_groups(kind(frame), "g")
    assert list(parts) == ["a", "b"]
    tables = align_tables(*parts.values(), drop=["id"])
    assert tables.names == plain.names == ("x", "y", "whole", "yes")
    np.testing.assert_array_equal(tables.first, plain.first)
    direct = align_tables(kind(frame.drop(columns="g")), kind(frame.drop(columns="g")), columns=["x", "y"])
    np.testing.assert_array_equal(direct.second, rows)
    result = dd.fit_conditions(parts, drop=["id", "yes"])
    assert isinstance(result.edges, pd.DataFrame)
    assert result.variables == ("x", "y", "whole")


def test_numbers_are_groups_too():
    numbered = GROUPED.assign(g=[1.0, 2.0, 1.0, 3.0, np.nan])
    assert {name: len(part) for name, part in split_groups(numbered, "g", [1, "3"]).items()} == {"1": 2, "3": 1}
    with pytest.raises(InputError, match="names no group in 1 of 5 rows"):
        split_groups(numbered, "g")


def test_group_text_is_kept_as_written(tmp_path):
    (tmp_path / "t.csv").write_text("g,x,y\n007,1,2\nNA,3,4\n007,5,6\n")
    table = read_table(tmp_path / "t.csv", text=["g"])
    assert list(split_groups(table, "g")) == ["007", "NA"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("h",), "group column 'h' does not exist; the columns are 'g', 'x' and 'y'"),
        (("G",), "group column 'G' does not exist; did you mean 'g'"),
        (("g", "ab"), "the groups are the text 'ab'; give a list"),
        (("g", ["a", "z"]), "has no group 'z'; it holds 'a' .2 rows., 'b' .3 rows."),
        (("g", ["a", "a"]), "group 'a' is chosen twice; choose others of 'a' .2 rows., 'b' .3 rows."),
    ],
)
def test_wrong_groups_are_explained(arguments, message):
    with pytest.raises(InputError, match=message):
        split_groups(GROUPED, *arguments)
    with pytest.raises(InputError, match="no group column"):
        split_groups(GROUPED.to_numpy(), "g")


def test_a_group_may_be_called_missing():
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "g": ["(missing)", "b", "b"]})
    assert list(split_groups(frame, "g")) == ["(missing)", "b"]
    frame.loc[0, "g"] = None
    with pytest.raises(InputError, match="names no group in 1 of 3 rows"):
        split_groups(frame, "g")


def test_one_column_is_no_table():
    series = pl.Series("a", [1.0, 2.0])
    with pytest.raises(InputError, match="is a Series, not a table"):
        align_tables(series, series)


def test_moments_and_models_are_sent_where_they_belong():
    pair = dd.simulate_pair(3, neighbours=1, rng=0)
    with pytest.raises(InputError, match="the first table is a LinearSEM; models go to fit_population"):
        align_tables(pair.first, pair.second)
    moments = dd.Moments.from_array(pair.first.sample(9, 0))
    with pytest.raises(InputError, match="the first table is a Moments; moments go to fit_moments"):
        align_tables(moments, moments)


@pytest.mark.parametrize("word", ["", "NA", "#N/A", "#NV", "-", ".", "#DIV/0!", "k.A."])
def test_what_people_write_for_missing(tmp_path, word):
    path = tmp_path / "a.csv"
    path.write_text(f"x;y\n1,5;2\n{word};3\n2,5;4\n0,5;1\n", encoding="utf-8")
    both = align_tables(read_table(path), read_table(path), missing="drop")
    np.testing.assert_array_equal(both.first[:, 0], [1.5, 2.5, 0.5])
    np.testing.assert_array_equal(both.places[0], [0, 2, 3])


def test_what_was_known_is_in_the_answer():
    table = np.random.default_rng(0).standard_normal((60, 3))
    model = dd.DifferenceDAG(tiers=[["X1"], ["X2", "X3"]], forbidden=["X3->X2"])
    settings = model.fit(table, table[::-1] + 1).result_.settings
    assert settings["tiers"] == [["X1"], ["X2", "X3"]]
    assert settings["forbidden"] == ["X3->X2"]


def of_donors(seed, *, gaps=False):
    rng = np.random.default_rng(seed)
    donor = rng.integers(0, 6, 200)
    table = pd.DataFrame(rng.standard_normal((200, 2)), columns=["x", "y"])
    table["sex"], table["age"] = (
        np.array([0, 1, 0, 1, 1, 0])[donor],
        np.array([31.3, 40, 55.7, 61, 27, 48])[donor],
    )
    if gaps:
        table.loc[rng.random(200) < 0.2, ["y", "age"]] = np.nan
    return table.assign(donor=[f"d{k}" for k in donor])


@pytest.mark.parametrize("missing", ["drop", "em"])
def test_what_does_not_vary_within_units_is_left_out(missing):
    first, second = of_donors(1, gaps=True), of_donors(2, gaps=True)
    how = {"cluster": "donor", "missing": missing}
    tables = align_tables(first, second, **how)
    assert tables.names == ("x", "y")
    assert "'sex' and 'age' do not vary within 'donor': left out" in tables.notes
    assert not tables.first.flags.writeable
    with pytest.raises(InputError) as caught:
        align_tables(first, second, columns=["x", "y", "sex"], **how)
    assert str(caught.value) == "'sex' does not vary within 'donor'; leave it out with drop=['sex']"
    with pytest.raises(InputError, match="'sex' and 'age' do not vary within 'donor'"):
        align_tables(first, second, drop=["x"], **how)  # nothing to compare is left


def test_what_covariates_explain_is_named():
    first, second = of_donors(1), of_donors(2)
    align_tables(first, second, adjust=["age"]).check_left()
    tables = align_tables(first, second, adjust=["donor"])
    with pytest.raises(InputError) as caught:
        tables.check_left()
    assert caught.value.words("page") == (
        "'sex' and 'age' do not vary at equal 'donor'; leave them out (under Checks)"
    )
    assert [problem.drop for problem in caught.value.problems] == [("sex", "age")]
    align_tables(first, second).check_left()
