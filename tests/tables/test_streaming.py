"""Moments of files: the same as those of the table in memory, in little memory, and errors that say where."""

import decimal
import gzip
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffdag import InputError, Moments
from diffdag.tables.accumulator import Accumulator, block_rows
from diffdag.tables.align import align_tables
from diffdag.tables.moments import stream_moments
from diffdag.tables.readers.batches import ahead, find_files

NAMES = ["a", "b", "c", "d"]


def table(n=1000, centre=0.0, seed=840001):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((n, 4)) @ rng.standard_normal((4, 4)) + np.linspace(0, 3, n)[:, None]
    return pd.DataFrame(values + centre, columns=NAMES)


def assert_same(moments, frame, rtol=1e-12):
    """Against long double, each entry on the scale of its two columns."""
    wide = frame.to_numpy(dtype=float).astype(np.longdouble)
    mean = wide.mean(axis=0)
    scatter = (wide - mean).T @ (wide - mean)
    scale = np.sqrt(np.diag(scatter)).astype(float)
    assert moments.names == tuple(map(str, frame.columns))
    assert moments.n == len(frame)
    np.testing.assert_allclose(moments.mean, mean.astype(float), rtol=1e-15, atol=rtol * scale.max())
    np.testing.assert_allclose((moments.scatter - scatter).astype(float) / np.outer(scale, scale), 0, atol=rtol)
    np.testing.assert_array_equal(moments.scatter, moments.scatter.T)


def write(folder, frame, kind, parts=1, **options):
    """The frame as files of about equal size."""
    ending = {"parquet": "parquet", "csv": "csv", "tsv": "tsv", "gz": "csv.gz"}[kind]
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), parts)):
        path = folder / f"part{k:02}.{ending}"
        if kind == "parquet":
            pq.write_table(pa.Table.from_pandas(frame.iloc[rows], preserve_index=False), path, **options)
        else:
            frame.iloc[rows].to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    return folder


def read(folder, kind, **options):
    return (Moments.from_parquet if kind == "parquet" else Moments.from_csv)(folder, **options)


@pytest.mark.parametrize("kind", ["parquet", "csv", "tsv", "gz"])
@pytest.mark.parametrize("parts", [1, 3])
def test_files_give_the_moments_of_the_table(tmp_path, kind, parts):
    frame = table()
    assert_same(read(write(tmp_path, frame, kind, parts), kind), frame)


@pytest.mark.parametrize("centre", [1e8, -1e11])
def test_a_spread_far_smaller_than_the_mean_keeps_its_digits(tmp_path, centre):
    frame = table(3 * block_rows(4) + 17, centre)
    folder = write(tmp_path, frame, "parquet", 5, row_group_size=10_000)
    assert_same(Moments.from_parquet(folder), frame, rtol=1e-11)


def test_sums_of_blocks_know_more_of_the_mean_than_it_can_hold():
    steps = np.random.default_rng(840002).integers(0, 4, (5000, 2))
    sums = Accumulator(2)
    for part in np.array_split(1e12 + steps * np.spacing(1e12), 97):
        sums.add(part)
    expected = np.cov(steps, rowvar=False, bias=True) * len(steps)
    np.testing.assert_allclose(sums.scatter / np.spacing(1e12) ** 2, expected, rtol=1e-10)


@settings(max_examples=25, derandomize=True, deadline=None)
@given(cuts=st.lists(st.integers(1, 199), max_size=8, unique=True), centre=st.sampled_from([0.0, 1e9]))
def test_blocks_of_any_size_add_up(cuts, centre):
    frame = table(200, centre)
    sums = Accumulator(4)
    for part in np.split(frame.to_numpy(), sorted(cuts)):
        before = part.copy()
        sums.add(part)
        np.testing.assert_array_equal(part, before)
    assert_same(Moments(tuple(NAMES), sums.n, sums.mean, sums.scatter), frame, rtol=1e-11)


def test_a_jump_after_the_first_rows_costs_nothing(tmp_path):
    frame = table(2 * block_rows(4))
    frame.iloc[100:] += 1e9
    assert_same(Moments.from_parquet(write(tmp_path, frame, "parquet")), frame, rtol=1e-12)


def test_every_kind_of_number(tmp_path):
    rng = np.random.default_rng(840003)
    whole = rng.integers(0, 100, 300)
    columns = {
        "int8": pa.array(whole.astype(np.int8)),
        "uint64": pa.array(whole.astype(np.uint64)),
        "float16": pa.array(whole.astype(np.float16)),
        "float32": pa.array(rng.standard_normal(300).astype(np.float32)),
        "bool": pa.array(whole > 50),
        "decimal": pa.array([decimal.Decimal(int(value)) / 4 for value in whole], pa.decimal128(12, 2)),
    }
    arrow = pa.table(columns)
    pq.write_table(arrow, tmp_path / "t.parquet")
    expected = align_tables(arrow, arrow).first
    assert_same(
        Moments.from_parquet(tmp_path / "t.parquet"), pd.DataFrame(expected, columns=arrow.column_names)
    )


def test_text_that_starts_with_whole_numbers_or_gaps_and_goes_on_with_others(tmp_path):
    n = 200_000
    frame = pd.DataFrame({"a": np.arange(n, dtype=float), "b": np.arange(n) % 2 == 0, "c": np.arange(n) / 1.0})
    frame.loc[n - 5 :, "a"] = [0.5, 1.5, 2.5, 3.5, 4.5]
    frame["c"] = frame["c"].where(frame["c"] > n / 2)
    path = tmp_path / "t.csv"
    frame.astype({"a": object}).to_csv(path, index=False)
    assert path.stat().st_size > 3 << 20  # several blocks
    assert_same(Moments.from_csv(path, drop=["c"]), frame[["a", "b"]].astype(float))
    assert_same(Moments.from_csv(path, missing="drop"), frame.dropna().astype(float))


def test_wide_tables(tmp_path):
    values = np.random.default_rng(840004).standard_normal((50, 700))
    frame = pd.DataFrame(values, columns=[f"gene{k}" for k in range(700)])
    for kind in ("parquet", "csv"):
        folder = tmp_path / kind
        folder.mkdir()
        moments = read(write(folder, frame, kind), kind)
        np.testing.assert_allclose(moments.scatter, Moments.from_array(values).scatter, atol=1e-12)


# Columns


def test_columns_are_matched_by_name_over_files(tmp_path):
    frame = table(300)
    pq.write_table(pa.Table.from_pandas(frame[:100]), tmp_path / "1.parquet")
    frame[100:][["c", "a", "d", "b"]].to_csv(tmp_path / "2.csv", index=False)
    assert_same(stream_moments(tmp_path).moments, frame)
    chosen = stream_moments(tmp_path, columns=["d", "a"]).moments
    assert_same(chosen, frame[["d", "a"]])
    assert_same(stream_moments(tmp_path, drop=["b"]).moments, frame[["a", "c", "d"]])


def test_a_name_that_begins_like_another(tmp_path):
    frame = table(50).set_axis(["x", "x.1", "x.2", "y"], axis=1)
    assert_same(Moments.from_parquet(write(tmp_path, frame, "parquet"), columns=["y", "x"]), frame[["y", "x"]])


def test_row_labels_are_left_out_with_a_note(tmp_path):
    frame = table(40)
    frame.set_axis([f"cell{k}" for k in range(40)]).to_csv(tmp_path / "1.csv")
    frame.set_axis([f"cell{k}" for k in range(40)]).rename_axis("cell").to_parquet(tmp_path / "2.parquet")
    for name, label in (("1.csv", "''"), ("2.parquet", "'cell'")):
        streamed = stream_moments(tmp_path / name)
        assert_same(streamed.moments, frame)
        assert streamed.notes == (f"column {label} holds row labels and was left out",)


def test_files_without_rows_count_for_nothing(tmp_path):
    frame = table(30)
    write(tmp_path, frame, "parquet")
    frame[:0].to_parquet(tmp_path / "none.parquet")
    (tmp_path / "none.csv").write_text("a,b,c,d\n")
    assert_same(stream_moments(tmp_path).moments, frame)
    with pytest.raises(InputError, match="there are no rows"):
        Moments.from_parquet(tmp_path / "none.parquet")


# Which files


def test_paths_folders_patterns_and_lists(tmp_path):
    frame = table(90)
    write(tmp_path, frame, "parquet", 3)
    deep = tmp_path / "year=2020" / "deeper"
    deep.mkdir(parents=True)
    (tmp_path / "part00.parquet").rename(deep / "x.parquet")
    for junk in ("_SUCCESS", ".hidden.parquet", "_log/x.parquet", "notes.md"):
        (tmp_path / junk).parent.mkdir(exist_ok=True)
        (tmp_path / junk).write_text("junk")
    everything = {deep / "x.parquet", tmp_path / "part01.parquet", tmp_path / "part02.parquet"}
    assert set(find_files(tmp_path)) == everything
    assert set(find_files(str(tmp_path / "**" / "[a-z]*.parquet"))) >= everything
    assert find_files(str(tmp_path / "part*.parquet")) == sorted(everything - {deep / "x.parquet"})
    assert set(find_files([deep, tmp_path / "part01.parquet", str(tmp_path / "*2.parquet")])) == everything
    assert Moments.from_parquet(tmp_path).n == 90


def test_a_file_may_have_the_name_of_a_pattern(tmp_path):
    table(20).to_parquet(tmp_path / "a[1].parquet")
    assert Moments.from_parquet(tmp_path / "a[1].parquet").n == 20


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nothing.parquet", "nothing.parquet' does not exist"),
        ("*.pq", "no file matches"),
        ("folder", "holds no file that ends in .parquet"),
        ([], "no files are given"),
        (["t.parquet", "t.p*"], "given twice"),
        ("t.md", "cannot be read row by row"),
    ],
)
def test_sources_that_stand_for_nothing(tmp_path, monkeypatch, source, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "t.md").write_text("a,b\n1,2\n")
    table(5).to_parquet("t.parquet")
    with pytest.raises(InputError, match=message):
        stream_moments(source)


# What cannot be used


def spoiled(value, row=700, column="c"):
    frame = table(1000).astype(object)
    frame.loc[row, column] = value
    return frame


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize(("value", "what"), [(np.nan, "missing"), (np.inf, "infinite"), (-np.inf, "infinite")])
def test_values_that_are_missing_or_infinite_are_named(tmp_path, kind, value, what):
    write(tmp_path, spoiled(value).astype(float), kind, 4)
    place = "line 202" if kind == "csv" else "row 201"
    with pytest.raises(InputError, match=rf"{what} value of 'c' in {place} of '.*part02\.{kind}'; "):
        read(tmp_path, kind)


def test_nulls_of_any_type_are_missing(tmp_path):
    for name, values in {
        "i": [1, None, 3],
        "f": [0.5, None, 1.0],
        "b": [True, None, False],
        "n": [None] * 3,
    }.items():
        pq.write_table(pa.table({"a": [1.0, 2.0, 4.0], name: pa.array(values)}), tmp_path / f"{name}.parquet")
        with pytest.raises(InputError, match=rf"missing value of '{name}' in row [12] of '.*{name}\.parquet'"):
            Moments.from_parquet(tmp_path / f"{name}.parquet")


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_rows_with_missing_values_can_be_dropped(tmp_path, kind):
    frame = table(3 * block_rows(4) if kind == "parquet" else 5000)
    frame = frame.mask(np.random.default_rng(840005).random(frame.shape) < 0.05)
    write(tmp_path, frame, kind, 2)
    streamed = stream_moments(tmp_path, missing="drop")
    kept = frame.dropna()
    assert_same(streamed.moments, kept)
    dropped = len(frame) - len(kept)
    assert streamed.notes == (f"{dropped} of {len(frame)} rows with missing values were dropped",)
    for row in (
        frame.isna().any(axis=1).argmax(),
        frame.notna().all(axis=1).argmax(),
    ):  # one that goes, one that stays
        broken = frame.copy()
        broken.iloc[row, 0] = np.inf
        write(tmp_path, broken, kind, 2)
        with pytest.raises(InputError, match="infinite value of 'a'"):
            stream_moments(tmp_path, missing="drop")


def test_nothing_left_after_dropping(tmp_path):
    write(tmp_path, table(20).assign(b=np.nan), "parquet")
    with pytest.raises(InputError, match="every row has missing values"):
        Moments.from_parquet(tmp_path, missing="drop")


def test_finite_values_whose_sum_is_not(tmp_path):
    frame = pd.DataFrame({"a": [1e308] * 4 + [-1e308] * 4, "b": np.arange(8.0)})
    with pytest.raises(InputError, match=r"values of 'a' are .* too large to square"):
        Moments.from_parquet(write(tmp_path, frame, "parquet"))


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_text_in_a_column_is_named(tmp_path, kind):
    frame = table(100).assign(c="12,5")
    write(tmp_path, frame, kind)
    place = "line 2 of" if kind == "csv" else "row 1 of 'c' in"
    message = rf"column 'c' has commas or spaces within numbers \('12,5' in {place} '.*part00\.{kind}'\)"
    with pytest.raises(InputError, match=message):
        read(tmp_path, kind)
    assert_same(read(tmp_path, kind, drop=["c"]), frame.drop(columns="c"))


@pytest.mark.parametrize("columns", [None, ["d", "b"]])
def test_text_far_down_a_column_is_found(tmp_path, columns):
    n = 100_000
    frame = table(n).astype(object)
    frame.loc[n - 10, "b"] = "oops"
    write(tmp_path, frame, "csv")
    message = rf"column 'b' is not numeric \('oops' in line {n - 8} of '.*part00\.csv'\)"
    with pytest.raises(InputError, match=message):
        Moments.from_csv(tmp_path, columns=columns)


def test_a_ragged_row_far_down_is_found(tmp_path):
    n = 50_000
    write(tmp_path, table(n), "csv")
    with (tmp_path / "part00.csv").open("a") as file:
        file.write("1,2\n")
    with pytest.raises(InputError, match=rf"line {n + 2} of '.*' has 2 fields and the header has 4"):
        Moments.from_csv(tmp_path)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (["a", "b", "c"], r"'d' missing in '.*2\.parquet'"),
        (["a", "b", "c", "d", "e"], r"'e' missing in '.*1\.parquet'"),
        (["a", "b", "c", "e"], r"'e' missing in '.*1\.parquet', 'd' missing in '.*2\.parquet'"),
    ],
)
def test_files_with_different_columns(tmp_path, second, message):
    table(9).to_parquet(tmp_path / "1.parquet")
    table(9).assign(e=1.0)[second].to_parquet(tmp_path / "2.parquet")
    with pytest.raises(InputError, match=message):
        Moments.from_parquet(tmp_path)
    assert Moments.from_parquet(tmp_path, columns=["c", "a"]).names == ("c", "a")


def test_repeated_and_unknown_names(tmp_path):
    pq.write_table(pa.table([[1.0, 2.0]] * 3, names=["a", "b", "b"]), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("a, b ,b\n1,2,3\n")
    for path in tmp_path.iterdir():
        with pytest.raises(InputError, match=r"'b' appears more than once among the columns of '.*t\."):
            stream_moments(path)
    write(tmp_path, table(9), "tsv")
    with pytest.raises(InputError, match="names 'q', which no table has"):
        Moments.from_csv(tmp_path / "part00.tsv", columns=["a", "q"])
    with pytest.raises(InputError, match="no column of"):
        Moments.from_csv(tmp_path / "part00.tsv", drop=NAMES)
    with pytest.raises(InputError, match="missing='fill' is not known"):
        Moments.from_csv(tmp_path / "part00.tsv", missing="fill")


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        *(("parquet", damage) for damage in ("empty", "cut", "junk")),
        *(("gz", damage) for damage in ("empty", "cut", "junk", "flipped")),
    ],
)
def test_a_damaged_file_is_named(tmp_path, kind, damage):
    write(tmp_path, table(8000), kind, 2)
    path = sorted(tmp_path.iterdir())[1]
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    flipped = content[:middle] + bytes(255 - byte for byte in content[middle:])
    path.write_bytes({"empty": b"", "cut": content[:middle], "junk": b"junk" * 99, "flipped": flipped}[damage])
    with pytest.raises(InputError, match=path.name.replace(".", r"\.")):
        read(tmp_path, kind)


def test_damaged_compressed_pages_are_an_error_of_that_file(tmp_path):
    frame = table(10_000).round(2)
    write(tmp_path, frame, "parquet", 2, use_dictionary=False, compression="gzip")
    path = sorted(tmp_path.iterdir())[1]
    content = bytearray(path.read_bytes())
    third = len(content) // 3
    content[third : third + 100] = bytes(100)
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"part01\.parquet' cannot be read as Parquet"):
        Moments.from_parquet(tmp_path)


# Progress and resources


def test_progress_is_told_rows_and_their_total(tmp_path):
    frame = table(1000)
    seen = []
    Moments.from_parquet(write(tmp_path, frame, "parquet", 3), progress=lambda *counts: seen.append(counts))
    assert [step[0] for step in seen] == sorted({step[0] for step in seen})
    assert seen[-1] == (1000, 1000, "Reading rows")
    write(tmp_path, frame, "csv")
    seen.clear()
    Moments.from_csv(tmp_path, progress=lambda *counts: seen.append(counts))
    assert seen[-1][:2] == (1000, None)


def test_an_error_of_the_callers_function_ends_the_reading(tmp_path):
    def stop(done, total, what):
        raise KeyError(done)

    write(tmp_path, table(1000), "parquet", 3)
    with pytest.raises(KeyError):
        Moments.from_parquet(tmp_path, progress=stop)
    for path in tmp_path.iterdir():
        path.unlink()  # nothing holds them open


def test_batches_come_in_order_and_errors_come_through():
    def source():
        yield from range(5)
        raise KeyError("end")

    seen = []
    with pytest.raises(KeyError, match="end"):
        seen.extend(ahead(source()))
    assert seen == [0, 1, 2, 3, 4]
    assert list(ahead(iter_of(range(5)))) == [0, 1, 2, 3, 4]


def iter_of(values):
    yield from values


# VmHWM, because ru_maxrss of a process starts at the size of the one that started it.
SCRIPT = """
import json, pathlib, re, sys
from diffdag import Moments
import diffdag.tables.readers.streaming, pyarrow.parquet
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) / 1024
before = peak()
m = Moments.from_parquet(sys.argv[1])
print(json.dumps([m.n, peak() - before]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.slow
def test_memory_does_not_grow_with_rows_or_row_groups(tmp_path):
    rng = np.random.default_rng(840006)
    n = 1_500_000
    path = tmp_path / "t.parquet"
    columns = {f"x{k}": rng.standard_normal(n) for k in range(16)}
    pq.write_table(pa.table(columns), path, row_group_size=n, compression="none", use_dictionary=False)
    done = subprocess.run([sys.executable, "-c", SCRIPT, path], capture_output=True, text=True, check=True)
    rows, grown = json.loads(done.stdout)
    assert rows == n
    assert grown < 140  # of 183 MiB: about 100 whatever the size


def test_gzip_is_seen_through(tmp_path):
    frame = table(20)
    with gzip.open(tmp_path / "t.txt.gz", "wt") as file:
        file.write(frame.to_csv(index=False, sep="|"))
    assert_same(Moments.from_csv(tmp_path), frame)


# Covariates that are carried along


def with_covariates(n=1000, levels="abc"):
    rng = np.random.default_rng(840005)
    return table(n).assign(
        age=rng.normal(50, 10, n), batch=rng.choice(list(levels), n), old=rng.random(n) > 0.5
    )


def dummies(frame):
    """The frame with a column of 0 and 1 for each level, as moments carry it."""
    return pd.get_dummies(frame, columns=["batch"], prefix_sep="=", dtype=float)


@pytest.mark.parametrize("kind", ["parquet", "csv", "gz"])
@pytest.mark.parametrize("parts", [1, 4])
def test_covariates_are_carried(tmp_path, kind, parts):
    frame = with_covariates()
    moments = read(write(tmp_path, frame, kind, parts), kind, adjust=["old", "age", "batch"])
    columns = [*NAMES, "old", "age", "batch=a", "batch=b", "batch=c"]
    assert_same(moments, dummies(frame)[columns])
    assert moments.categories == {"batch": tuple(columns[6:])}


def test_levels_that_come_up_late_and_long_streams(tmp_path):
    frame = with_covariates(3 * block_rows(6) + 17).sort_values("batch", ascending=False).drop(columns="old")
    folder = write(tmp_path, frame, "parquet", 5)
    moments = Moments.from_parquet(folder, adjust=["batch"])
    assert_same(moments, dummies(frame))
    many = frame.assign(batch=[f"b{k % 150}" for k in range(len(frame))])
    moments = Moments.from_parquet(write(tmp_path, many, "parquet", 5), adjust=["batch"])
    assert_same(moments, dummies(many)[[*NAMES, "age", *(f"batch=b{k}" for k in range(150))]])


def test_chosen_columns_and_covariates(tmp_path):
    frame = with_covariates()
    folder = write(tmp_path, frame, "csv", 2)
    moments = Moments.from_csv(folder, columns=["c", "a"], adjust=["batch"])
    assert moments.column_names() == ["c", "a", "batch"]
    assert Moments.from_csv(folder, columns=["c", "age", "a"], adjust=["age"]).names == ("c", "a", "age")
    moments = Moments.from_csv(folder, drop=["c", "old", "batch"], adjust=["batch"])
    assert moments.column_names() == ["a", "b", "d", "age", "batch"]


def test_kinds_of_categories(tmp_path):
    frame = with_covariates(6).drop(columns="old")
    texts = ["x", "2", " y", "x", "2", "x"]
    for k, values in enumerate(
        [pd.Categorical(texts, categories=["x", " y", *map(str, range(500))]), texts, [2, 2, 2, 2, 2, 2.5]]
    ):
        frame.assign(batch=values).to_parquet(tmp_path / f"{k}.parquet", index=False)
    frame.assign(batch=None).iloc[:1].to_parquet(tmp_path / "none.parquet", index=False)
    streamed = stream_moments(tmp_path, adjust=["batch"], missing="drop")
    counts = np.rint(streamed.moments.mean[5:] * streamed.moments.n).astype(int).tolist()
    assert dict(zip(streamed.moments.names[5:], counts, strict=True)) == {
        "batch=2": 9, "batch=2.5": 1, "batch= y": 2, "batch=x": 6,
    }  # fmt: skip
    assert streamed.notes == ("1 of 19 rows with missing values was dropped",)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_gaps_in_covariates(tmp_path, kind):
    frame = with_covariates(levels="abcdefgh")
    frame.loc[frame["batch"] == "c", "a"] = np.nan  # a level of which no row is kept
    frame.loc[7, "batch"], frame.loc[9, "age"] = None, np.nan
    write(tmp_path, frame, kind)
    first = int(frame.isna().any(axis=1).idxmax())
    with pytest.raises(InputError, match=rf"missing value of '\w+' in (row {first + 1}|line {first + 2}) of"):
        read(tmp_path, kind, adjust=["batch", "age"])
    moments = read(tmp_path, kind, drop=["old"], adjust=["batch", "age"], missing="drop")
    assert_same(moments, dummies(frame.dropna().drop(columns="old")))
    frame.loc[11, "age"] = np.inf
    write(tmp_path, frame, kind)
    with pytest.raises(InputError, match="infinite value of 'age'"):
        read(tmp_path, kind, adjust=["batch", "age"], missing="drop")


def test_what_is_refused_of_covariates(tmp_path):
    frame = with_covariates()
    folder = write(tmp_path, frame.assign(id=[f"i{k}" for k in range(1000)]), "parquet", 2)
    for adjust, message in [
        (
            ["id"],
            "covariate 'id' has more than 200 different values, too many for a category; leave it out of adj",
        ),
        (["bach"], "adjust= names 'bach', which no table has; did you mean 'batch'?"),
        ("batch", "adjust= is the text 'batch'"),
    ]:
        with pytest.raises(InputError, match=message):
            Moments.from_parquet(folder, columns=["a", "b"], adjust=adjust)
    with pytest.raises(InputError, match="missing='em' needs all rows at once"):
        Moments.from_parquet(folder, missing="em")
    frame.drop(columns="batch").to_parquet(tmp_path / "zz.parquet", index=False)
    with pytest.raises(
        InputError, match=r"'.*zz\.parquet' has no column 'batch', which adjust= names; every file"
    ):
        Moments.from_parquet(folder, columns=["a", "b"], adjust=["batch"])
    clash = frame.rename(columns={"b": "batch=b"})[["a", "batch=b", "batch"]]
    clash.to_parquet(tmp_path / "clash.parq")
    with pytest.raises(InputError, match="the name 'batch=b' twice"):
        Moments.from_parquet(tmp_path / "clash.parq", adjust=["batch"])
