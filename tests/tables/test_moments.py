"""Moments of a table: accurate, mergeable, and stored without pickle."""

import io
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from diffdag import InputError, Moments
from diffdag.tables.accumulator import block_rows


def reference(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and scatter in long double."""
    wide = table.astype(np.longdouble)
    return wide.mean(axis=0), np.cov(wide, rowvar=False, bias=True) * len(wide)


def trending_table(n: int = 60, p: int = 4, shift: float = 0.0) -> np.ndarray:
    """Correlated columns of different sizes whose mean moves from row to row, so that parts differ."""
    rng = np.random.default_rng(n + p)
    values = rng.standard_normal((n, p)) @ rng.standard_normal((p, p)) * np.logspace(-3, 3, p)
    return values + np.linspace(0, 5, n)[:, None] + shift


def assert_moments(moments: Moments, table: np.ndarray, rtol: float = 1e-12) -> None:
    """Each entry of the scatter is right relative to the scales of its two columns."""
    mean, scatter = reference(table)
    scale = np.sqrt(np.diag(scatter)).astype(float)
    assert moments.n == len(table)
    np.testing.assert_allclose(moments.mean, mean.astype(float), rtol=1e-14, atol=rtol * scale.max())
    np.testing.assert_allclose((moments.scatter - scatter) / np.outer(scale, scale), 0, atol=rtol)
    np.testing.assert_array_equal(moments.scatter, moments.scatter.T)


@pytest.mark.parametrize(("n", "p"), [(2, 2), (3, 5), (1000, 4)])
def test_moments_equal_long_double(n, p):
    table = trending_table(n, p)
    moments = Moments.from_array(table)
    assert_moments(moments, table)
    np.testing.assert_allclose(moments.covariance(), np.cov(table, rowvar=False, bias=True), rtol=1e-9)


def test_values_around_1e8_with_spread_1_keep_their_digits():
    table = np.random.default_rng(0).standard_normal((5000, 3)) @ np.diag([1, 1, 2]) + 1e8
    table[:, 2] -= 1e8 - table[:, 0]  # correlated with the first column
    assert_moments(Moments.from_array(table), table, rtol=1e-12)
    parts = [Moments.from_array(table[k::7]) for k in range(7)]
    assert_moments(sum(parts[1:], start=parts[0]), table, rtol=1e-8)  # means are rounded to 1e-8


def test_a_spread_smaller_than_the_rounding_of_the_mean():
    steps = np.random.default_rng(5).integers(0, 4, (999, 2))
    moments = Moments.from_array(1e12 + steps * np.spacing(1e12))
    _, scatter = reference(steps)
    np.testing.assert_allclose(moments.scatter / np.spacing(1e12) ** 2, scatter.astype(float), rtol=1e-10)


def test_tables_longer_than_a_block():
    n = 2 * block_rows(2) + 1234
    table = np.random.default_rng(1).standard_normal((n, 2)) + np.linspace(1e6, 1e6 + 3, n)[:, None]
    assert_moments(Moments.from_array(table), table, rtol=1e-11)


def test_one_row_has_no_scatter():
    moments = Moments.from_array([[0.1, 1e9]])
    assert moments.n == 1
    np.testing.assert_array_equal(moments.mean, [0.1, 1e9])
    np.testing.assert_array_equal(moments.scatter, np.zeros((2, 2)))


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int64, np.uint64, np.float16, np.float32, np.longdouble]
)
def test_any_kind_of_number(dtype):
    table = np.random.default_rng(2).integers(90, 120, (400, 3)).astype(dtype)
    moments = Moments.from_array(table)
    assert_moments(moments, table.astype(float))
    assert moments.scatter.dtype == moments.mean.dtype == np.float64


def test_float32_is_summed_in_double_precision():
    table = (np.random.default_rng(3).standard_normal((5000, 2)) + 1e4).astype(np.float32)
    assert_moments(Moments.from_array(table), table)


def test_booleans_count_as_zero_and_one():
    table = np.random.default_rng(4).random((50, 3)) < 0.3
    assert_moments(Moments.from_array(table), table.astype(float))


def test_any_memory_layout():
    table = trending_table(90, 6)
    for view in (np.asfortranarray(table), table[::-3], table[:, ::2], table[:, ::-1]):
        assert_moments(Moments.from_array(view), np.array(view))


def test_the_callers_arrays_stay_as_they_are():
    table = trending_table()
    before = table.copy()
    moments = Moments.from_array(table)
    np.testing.assert_array_equal(table, before)
    table[0, 0] = 1e6  # still the caller's to change
    assert_moments(moments, before)
    mean, scatter = np.zeros(2), np.eye(2)
    given = Moments(("a", "b"), 5, mean, scatter)
    mean[0], scatter[0, 0] = 7.0, 9.0
    np.testing.assert_array_equal(given.mean, [0, 0])
    np.testing.assert_array_equal(given.scatter, np.eye(2))


def test_moments_are_read_only():
    moments = Moments.from_array(trending_table())
    for array in (moments.mean, moments.scatter):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_what_nobody_can_change_is_not_copied():
    moments = Moments.from_array(trending_table())
    again = Moments(moments.names, moments.n, moments.mean, moments.scatter)
    assert again.scatter is moments.scatter
    assert moments.select(moments.names) is moments
    locked = np.eye(2)
    view = locked[:]
    view.flags.writeable = False  # its owner still can
    given = Moments(("a", "b"), 5, np.zeros(2), view)
    locked[0, 0] = 7.0
    np.testing.assert_array_equal(given.scatter, np.eye(2))


@pytest.mark.parametrize(("i", "j"), [(0, 1), (1, 0), (0, 1499), (700, 701), (1499, 1498)])
def test_one_entry_in_a_large_scatter_that_is_not_mirrored(i, j):
    scatter = np.eye(1500)
    scatter[i, j] = 1e-6
    names = tuple(map(str, range(1500)))
    with pytest.raises(InputError, match="not a symmetric matrix"):
        Moments(names, 9, np.zeros(1500), scatter)
    scatter[j, i] = 1e-6
    assert Moments(names, 9, np.zeros(1500), scatter).scatter[j, i] == 1e-6


@pytest.mark.slow
def test_constant_columns_have_no_negative_spread():
    for value in np.random.default_rng(840040).standard_normal(200) * 1e3:
        moments = Moments.from_array(np.column_stack([np.full(37, value), np.arange(37.0)]))
        assert 0 <= moments.scatter[0, 0] <= 1e-20 * value**2
        assert (moments + moments).scatter[0, 0] >= 0
        moments.select(["X1"])


# Merging


@pytest.mark.slow
@settings(max_examples=30, derandomize=True, deadline=None)
@given(cuts=st.lists(st.integers(1, 59), min_size=1, max_size=6, unique=True), shift=st.sampled_from([0, 1e7]))
def test_parts_add_up_to_the_whole(cuts, shift):
    table = trending_table(60, 4, shift)
    first, *others = (Moments.from_array(part) for part in np.split(table, sorted(cuts)))
    assert_moments(sum(others, start=first), table, rtol=1e-12 if shift == 0 else 1e-8)


@pytest.mark.slow
@settings(max_examples=20, derandomize=True, deadline=None)
@given(cuts=st.lists(st.integers(1, 59), min_size=2, max_size=2, unique=True))
def test_addition_is_associative_and_commutative(cuts):
    a, b, c = (Moments.from_array(part) for part in np.split(trending_table(), sorted(cuts)))
    for one, other in [((a + b) + c, a + (b + c)), (a + b, b + a)]:
        assert one.n == other.n
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12)
        np.testing.assert_allclose(one.scatter, other.scatter, rtol=1e-9)


def test_columns_are_added_by_name():
    table = trending_table(p=3)
    upper = Moments.from_array(table[:25], ["a", "b", "c"])
    lower = Moments.from_array(table[25:, [2, 0, 1]], ["c", "a", "b"])
    whole = upper + lower
    assert whole.names == ("a", "b", "c")
    assert_moments(whole, table)


def test_what_cannot_be_added():
    moments = Moments.from_array(trending_table(p=2), ["a", "b"])
    for names in (["a", "c"], ["a", "b", "c"]):
        with pytest.raises(InputError, match="different variables"):
            moments + Moments.from_array(trending_table(p=len(names)), names)
    with pytest.raises(TypeError):
        moments + 1


def test_selection_keeps_the_order_asked_for():
    table = trending_table(p=4)
    chosen = Moments.from_array(table, ["a", "b", "c", "d"]).select(["d", "b"])
    assert chosen.names == ("d", "b")
    assert_moments(chosen, table[:, [3, 1]])


def test_selection_names_what_is_unknown():
    with pytest.raises(InputError, match="'e'"):
        Moments.from_array(trending_table(p=2), ["a", "b"]).select(["a", "e"])


# Refusals


NO_TABLES = {
    "1-d": np.zeros(3),
    "3-d": np.zeros((2, 2, 2)),
    "no row": np.zeros((0, 2)),
    "no column": np.zeros((2, 0)),
    "text": [["a", "b"]],
    "complex": [[1 + 2j, 1]],
    "objects": [[None, 1]],
}


@pytest.mark.parametrize("table", NO_TABLES.values(), ids=NO_TABLES)
def test_tables_that_are_refused(table):
    with pytest.raises(InputError, match="two-dimensional array of numbers"):
        Moments.from_array(table)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200, 1e308])
def test_values_that_cannot_be_squared_are_refused(value):
    with pytest.raises(InputError, match="too large to square"):
        Moments.from_array([[value, 1.0], [-value, 2.0], [1.0, 3.0]])


def test_masked_values_are_not_used():
    table = np.ma.array([[1.0, 2.0], [3.0, 5.0], [1e9, 4.0]], mask=[[0, 0], [0, 0], [1, 0]])
    with pytest.raises(InputError):
        Moments.from_array(table)


@pytest.mark.parametrize(
    ("names", "n", "mean", "scatter"),
    [
        (("a", "b"), 0, np.zeros(2), np.eye(2)),
        (("a",), 5, np.zeros(2), np.eye(2)),
        (("a", "b"), 5, np.zeros(3), np.eye(2)),
        (("a", "b"), 5, np.zeros(2), np.eye(3)),
        (("a", "b"), 5, np.array([0, np.nan]), np.eye(2)),
        (("a", "b"), 5, np.zeros(2), np.array([[1, np.inf], [np.inf, 1]])),
        (("a", "b"), 5, np.zeros(2), np.array([[1, 0.5], [0.4, 1]])),
        (("a", "b"), 5, np.zeros(2), np.diag([1.0, -1.0])),
        (("a", "a"), 5, np.zeros(2), np.eye(2)),
    ],
    ids=["no row", "names", "mean", "scatter", "nan", "inf", "not symmetric", "negative", "repeated name"],
)
def test_moments_that_cannot_be(names, n, mean, scatter):
    with pytest.raises(InputError):
        Moments(names, n, mean, scatter)


def test_one_name_for_each_column():
    with pytest.raises(InputError):
        Moments.from_array(trending_table(p=3), ["a", "b"])


# Files


def test_what_is_saved_is_loaded(tmp_path):
    moments = Moments.from_array(trending_table(p=3, shift=1e8), ["Raf", "Δ μ", "x,y"])
    path = moments.save(tmp_path / "moments.npz")
    again = Moments.load(path)
    assert (again.names, again.n) == (moments.names, moments.n)
    np.testing.assert_array_equal(again.mean, moments.mean)
    np.testing.assert_array_equal(again.scatter, moments.scatter)
    assert_moments(again + again, np.tile(trending_table(p=3, shift=1e8), (2, 1)), rtol=1e-8)


def test_a_saved_file_holds_no_pickled_object(tmp_path):
    path = Moments.from_array(trending_table()).save(tmp_path / "moments.npz")
    with np.load(path, allow_pickle=False) as file:
        assert all(file[name].dtype != object for name in file.files)
        assert set(file.files) == {"schema", "names", "n", "mean", "scatter"}


def file_with(**changes) -> bytes:
    """The bytes of a file of moments with some entries replaced, or left out where None."""
    entries = {"schema": 1, "names": np.array(["a", "b"]), "n": 5, "mean": np.zeros(2), "scatter": np.eye(2)}
    stream = io.BytesIO()
    np.savez(stream, **{key: value for key, value in (entries | changes).items() if value is not None})
    return stream.getvalue()


def npy_bytes() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.eye(2))
    return stream.getvalue()


JUNK = {
    "empty": b"",
    "text": b"a,b\n1,2\n",
    "binary": bytes(range(256)) * 4,
    "a zip's first bytes": b"PK\x03\x04" + bytes(60),
    "one array": npy_bytes(),
    "a pickle": pickle.dumps({"names": ["a", "b"]}),
    "entry missing": file_with(scatter=None),
    "other schema": file_with(schema=2),
    "infinite schema": file_with(schema=np.inf),
    "several schemas": file_with(schema=np.array([1, 1])),
    "n not a number": file_with(n=np.nan),
    "n infinite": file_with(n=np.inf),
    "no rows": file_with(n=0),
    "mean too long": file_with(mean=np.zeros(3)),
    "mean of text": file_with(mean=np.array(["x", "y"])),
    "repeated name": file_with(names=np.array(["a", "a"])),
    "names no list": file_with(names=np.array("ab")),
    "scatter not symmetric": file_with(scatter=np.array([[1, 0.5], [0.4, 1]])),
}


@pytest.mark.parametrize("content", JUNK.values(), ids=JUNK)
def test_junk_is_refused(tmp_path, content):
    path = tmp_path / "moments.npz"
    path.write_bytes(content)
    with pytest.raises(InputError):
        Moments.load(path)


def test_a_sound_file_is_not_junk(tmp_path):
    path = tmp_path / "moments.npz"
    path.write_bytes(file_with())
    assert Moments.load(path).names == ("a", "b")


@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.9, 0.999])
def test_a_truncated_file_is_refused(tmp_path, share):
    content = file_with()
    path = tmp_path / "moments.npz"
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match=r"moments\.npz: not a file of moments"):
        Moments.load(path)


def test_a_damaged_file_is_refused_or_read_as_it_was(tmp_path):
    content = file_with(mean=np.array([1.5, 2.5]))
    path = tmp_path / "moments.npz"
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= rng.integers(1, 256)
        path.write_bytes(damaged)
        try:
            moments = Moments.load(path)
        except InputError:
            refused += 1
        else:
            np.testing.assert_array_equal(moments.mean, [1.5, 2.5])
            np.testing.assert_array_equal(moments.scatter, np.eye(2))
    assert refused > 100


class Bomb:
    """Unpickling it would create a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("entry", ["names", "n", "mean", "scatter", "schema"])
def test_pickled_objects_are_not_loaded(tmp_path, entry):
    path, trace = tmp_path / "moments.npz", tmp_path / "trace"
    path.write_bytes(file_with(**{entry: np.array([Bomb(trace)], dtype=object)}))
    assert zipfile.is_zipfile(path)
    with pytest.raises(InputError, match=r"moments\.npz"):
        Moments.load(path)
    assert not trace.exists()


@pytest.mark.parametrize("p", [3, 150, 1100])
def test_the_number_of_threads_does_not_show(p):
    """Also beyond one tile: 1,100 columns make three, of which the last is narrow."""
    table = np.random.default_rng(900_410).standard_normal((400, p))
    seen = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads, "blas"):
            seen.append(Moments.from_array(table).scatter)
    assert len({scatter.tobytes() for scatter in seen}) == 1
    centred = table - table.mean(axis=0)
    np.testing.assert_allclose(seen[0], centred.T @ centred, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(seen[0], seen[0].T)
