"""Moments of Dask collections: those of the table in memory, on threads and on a cluster of processes."""

import sys

import numpy as np
import pandas as pd
import pytest

from diffdag import InputError, Moments

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

RNG = np.random.default_rng(840010)
VALUES = RNG.standard_normal((500, 6)) @ RNG.standard_normal((6, 6)) + np.linspace(0, 4, 500)[:, None]
NAMES = [f"v{k}" for k in range(6)]


def assert_same(moments, values, names):
    expected = Moments.from_array(values, names)
    scale = np.sqrt(np.diag(expected.scatter))
    assert (moments.names, moments.n) == (expected.names, expected.n)
    np.testing.assert_allclose(moments.mean, expected.mean, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose((moments.scatter - expected.scatter) / np.outer(scale, scale), 0, atol=1e-12)


def frame(values=VALUES, parts=7):
    return dd.from_pandas(pd.DataFrame(values, columns=NAMES), npartitions=parts)


@pytest.mark.parametrize("chunks", [(500, 6), (50, 6), (7, 6), (40, 2), ((0, 300, 0, 200), (1, 5))])
def test_arrays_chunked_in_any_way(chunks):
    assert_same(Moments.from_dask(da.from_array(VALUES, chunks=chunks), NAMES), VALUES, NAMES)


def test_arrays_of_unknown_length_and_default_names():
    array = da.from_array(VALUES, chunks=(60, 6))
    positive = array[array[:, 0] > 0]
    assert np.isnan(positive.shape[0])
    expected = VALUES[VALUES[:, 0] > 0]
    assert_same(Moments.from_dask(positive), expected, [f"X{k}" for k in range(1, 7)])
    assert_same(
        Moments.from_dask(array.astype("float32")), VALUES.astype("float32"), [f"X{k}" for k in range(1, 7)]
    )


def test_dataframes():
    assert_same(Moments.from_dask(frame()), VALUES, NAMES)
    assert_same(Moments.from_dask(frame(), ["v4", "v1"]), VALUES[:, [4, 1]], ["v4", "v1"])
    empty = frame()
    assert_same(Moments.from_dask(empty[empty["v0"] > 3]), VALUES[VALUES[:, 0] > 3], NAMES)


def test_work_that_chunks_share_is_done_once():
    calls = []

    def note(block):
        calls.append(1)
        return block

    array = da.from_array(VALUES, chunks=(50, 6)).map_blocks(note, dtype=float, meta=np.empty((0, 0)))
    calls.clear()
    assert_same(
        Moments.from_dask(array - array.mean(axis=0)),
        VALUES - VALUES.mean(axis=0),
        [f"X{k}" for k in range(1, 7)],
    )
    assert len(calls) == 10


def test_progress_counts_chunks():
    seen = []
    Moments.from_dask(da.from_array(VALUES, chunks=(20, 6)), progress=lambda *counts: seen.append(counts))
    assert seen == [(k, 25, "Reducing chunks") for k in range(26)]


def test_missing_and_infinite_values():
    values = VALUES.copy()
    values[130, 2], values[260, 3] = np.nan, np.nan
    for collection in (da.from_array(values, chunks=(100, 6)), frame(values, 5)):
        with pytest.raises(InputError, match=r"missing values: 1 in '\w+' of the Dask \(chunk [23]\) table"):
            Moments.from_dask(collection)
        moments = Moments.from_dask(collection, missing="drop")
        assert_same(moments, values[~np.isnan(values).any(axis=1)], moments.names)
    values[70, 5] = -np.inf
    with pytest.raises(InputError, match=r"infinite values: 1 in 'v5' of the Dask \(chunk 1\) table"):
        Moments.from_dask(frame(values, 5), missing="drop")
    with pytest.raises(InputError, match="no rows, or none without missing values"):
        Moments.from_dask(da.full((20, 3), np.nan, chunks=5), missing="drop")


def test_what_is_refused(monkeypatch):
    array = da.from_array(VALUES, chunks=(100, 6))
    text = dd.from_pandas(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}), npartitions=1)
    for collection, names, message in [
        (VALUES, None, "a ndarray is no Dask collection"),
        (array[:, 0], None, "is 1-d float64"),
        (array, ["a"], "1 name for 6 columns"),
        (array, ["a"] * 6, "'a' appears more than once"),
        (frame(), ["v0", "w"], "names= names 'w'"),
        (text, None, r"column 'b' is not numeric \('x' in row 1 of 'b' in the Dask \(chunk 1\) table\)"),
        (array[:0], None, "no rows"),
    ]:
        with pytest.raises(InputError, match=message):
            Moments.from_dask(collection, names)
    monkeypatch.setitem(sys.modules, "dask.array", None)
    with pytest.raises(InputError, match=r"pip install 'diffdag\[dask\]'"):
        Moments.from_dask(array)


def with_covariates():
    rng = np.random.default_rng(840011)
    rows = pd.DataFrame(VALUES, columns=NAMES).assign(age=rng.normal(50, 10, 500), old=rng.random(500) > 0.5)
    return rows.assign(batch=[*"a" * 200, *rng.choice(list("bcd"), 300)])


def assert_carried(moments, rows):
    wide = pd.get_dummies(rows, columns=["batch"], prefix_sep="=", dtype=float)
    assert_same(moments, wide.to_numpy(float), list(wide.columns))
    assert moments.categories == {"batch": ("batch=a", "batch=b", "batch=c", "batch=d")}


def test_covariates():
    rows = with_covariates()
    adjust = ["age", "batch", "old"]
    assert_carried(Moments.from_dask(dd.from_pandas(rows, npartitions=7), adjust=adjust), rows)
    plain = Moments.from_dask(dd.from_pandas(rows, npartitions=7), ["v1", "v0"], adjust=["age"])
    assert_same(plain, rows[["v1", "v0", "age"]].to_numpy(), ["v1", "v0", "age"])
    gaps = rows.copy()
    gaps.loc[[3, 400], "batch"] = None
    with pytest.raises(InputError, match=r"missing values: 1 in 'batch' of the Dask \(chunk [15]\) table"):
        Moments.from_dask(dd.from_pandas(gaps, npartitions=5), adjust=adjust)
    assert_carried(
        Moments.from_dask(dd.from_pandas(gaps, npartitions=5), adjust=adjust, missing="drop"), gaps.dropna()
    )
    array = Moments.from_dask(da.from_array(VALUES, chunks=(100, 6)), NAMES, adjust=["v3"])
    assert_same(array, VALUES, NAMES)


def test_what_is_refused_of_covariates():
    rows = with_covariates().assign(id=[f"i{k}" for k in range(500)])
    for adjust, message in [
        (["id", "batch", "old"], "covariate 'id' has more than 200 different values"),
        (["dose"], "adjust= names 'dose'"),
    ]:
        with pytest.raises(InputError, match=message):
            Moments.from_dask(dd.from_pandas(rows, npartitions=5), adjust=adjust)
    with pytest.raises(InputError, match="missing='em' needs all rows at once"):
        Moments.from_dask(frame(), missing="em")


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.LocalCluster(host="127.0.0.1", **options) as cluster,
        distributed.Client(cluster) as connected,
    ):
        yield connected


@pytest.mark.filterwarnings("ignore:Running on a single-machine scheduler")  # so say older Dasks
def test_a_scheduler_that_the_caller_set_comes_before_the_cluster(client, monkeypatch):
    monkeypatch.setattr(client, "get", lambda *rest, **more: pytest.fail("computed on the cluster"))
    with dask.config.set(scheduler="synchronous"):
        assert_same(Moments.from_dask(frame()), VALUES, NAMES)


def test_a_cluster_of_processes(client):
    seen = []
    array = da.from_array(VALUES, chunks=(20, 3))
    assert_same(Moments.from_dask(array, NAMES, progress=lambda *counts: seen.append(counts)), VALUES, NAMES)
    assert seen[-1][0] == seen[-1][1]
    assert_same(Moments.from_dask(frame()), VALUES, NAMES)
    rows = with_covariates()
    found = Moments.from_dask(dd.from_pandas(rows, npartitions=5), adjust=["age", "old", "batch"])
    assert_carried(found, rows)
    values = VALUES.copy()
    values[130, 2] = np.nan
    with pytest.raises(InputError, match=r"missing values: 1 in 'v2' of the Dask \(chunk 2\) table"):
        Moments.from_dask(da.from_array(values, chunks=(100, 6)), NAMES)
