"""Every fault that fuzzing has found, each by the smallest input that shows it."""

from __future__ import annotations

import contextlib
import decimal
import io
import warnings
import zipfile

import anndata as ad
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from answers import graph
from hostile_files import npy_bytes, npy_claiming, zipped
from scipy import sparse

import diffdag as dd
from diffdag import __main__ as cli
from diffdag._base.errors import InputError
from diffdag.app.serve.preview import group_columns
from diffdag.refits import settings_path
from diffdag.report.graphs import to_dot
from diffdag.report.html.page import render_page
from diffdag.results.records import Check, Edge, UnitEffect
from diffdag.tables.align import align_tables
from diffdag.tables.columns import Source
from diffdag.tables.moments import Moments
from diffdag.tables.readers.coordinates import read_coordinates
from diffdag.tables.readers.files import read_table
from diffdag.trust.permutation import global_test

TABLE = pd.DataFrame(np.random.default_rng(880_900).standard_normal((20, 3)), columns=list("abc"))


def refused(path, words):
    with pytest.raises(InputError, match=words):
        read_table(path)


# Files.


@pytest.mark.parametrize("shape", [(10**9, 3), (2**62, 4), (2**31, 2**31)])
def test_a_header_that_claims_too_much_takes_no_memory(tmp_path, shape):
    claim = npy_claiming(shape)
    (tmp_path / "t.npy").write_bytes(claim)
    refused(tmp_path / "t.npy", "its header speaks of .* which it does not hold")
    (tmp_path / "t.npz").write_bytes(zipped({"t.npy": claim}, packed=True))
    refused(tmp_path / "t.npz", "its header speaks of")
    parts = {"schema": 1, "names": np.array(["a"]), "n": 9, "mean": np.zeros(1)}
    members = {f"{key}.npy": npy_bytes(np.asarray(value)) for key, value in parts.items()}
    (tmp_path / "m.npz").write_bytes(zipped(members | {"scatter.npy": claim}))
    with pytest.raises(InputError, match="not a file of moments"):
        Moments.load(tmp_path / "m.npz")


def test_texts_of_no_length_take_no_memory_either(tmp_path):
    (tmp_path / "t.npy").write_bytes(npy_claiming((10**9, 3), "|S0"))
    refused(tmp_path / "t.npy", "its header speaks of 1000000000 x 3 values")


def test_an_archive_whose_directory_lies_takes_no_memory(tmp_path):
    """The length that the archive claims is as unlikely as that of the array."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("t.npy", npy_claiming((10**9, 3)))
        archive.getinfo("t.npy").file_size = 24 * 10**9 + 128
    (tmp_path / "t.npz").write_bytes(buffer.getvalue())
    refused(tmp_path / "t.npz", "cannot be read as .npz")


def test_a_feather_file_with_offsets_beyond_its_texts_is_refused(tmp_path):
    buffer = io.BytesIO()
    table = pa.table({"a": ["left", "right", "left", "right"], "b": [1.0, 2.0, 3.0, 4.0]})
    pyarrow.feather.write_feather(table, buffer, compression="uncompressed")
    content = buffer.getvalue()
    offsets = np.array([0, 4, 9, 13, 18], dtype="<i4").tobytes()
    assert content.count(offsets) == 1
    damaged = np.array([0, -400_000_000, 900_000_000, 13, 18], dtype="<i4").tobytes()
    (tmp_path / "t.feather").write_bytes(content.replace(offsets, damaged))
    refused(tmp_path / "t.feather", "cannot be read as .feather")


def test_texts_of_a_parquet_file_that_are_none(tmp_path):
    table = pa.table({"a": [1.0, 2.0], "b": ["marker", "marker"]})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet", compression="none", use_dictionary=False)
    content = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(content.replace(b"marker", b"ma\xaeker"))
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        Moments.from_parquet(tmp_path / "t.parquet")


def test_a_name_that_ends_with_a_nul_is_not_saved_as_another(tmp_path):
    with pytest.raises(InputError, match="ends with a NUL character"):
        Moments.from_array(TABLE, names=["a\0", "b", "c"]).save(tmp_path / "m.npz")
    assert not list(tmp_path.iterdir())


def test_coordinates_whose_metadata_are_damaged(tmp_path):
    table = pa.table({"region": ["a"], "x": [1.0], "y": [2.0], "z": [3.0]})
    damaged = {"pandas": '{"columns": [{"name": "x"}], "index_columns": [], "column_indexes": []}'}
    pyarrow.feather.write_feather(table.replace_schema_metadata(damaged), tmp_path / "t.feather")
    assert read_coordinates(tmp_path / "t.feather") == {"a": (1.0, 2.0, 3.0)}


def test_moments_of_more_rows_than_can_be_counted():
    with pytest.raises(InputError, match=r"need n >= 1 \(at most 9,007,199,254,740,992\)"):
        Moments(("a",), 2**70, np.zeros(1), np.eye(1))


def test_a_page_looks_for_groups_among_numbers_of_half_precision(tmp_path):
    table = pa.table({"a": pa.array(np.arange(6) % 2, pa.float16()), "b": np.arange(6.0)})
    assert group_columns(table) == ["a"]


def test_a_column_of_coordinates_that_is_there_twice(tmp_path):
    (tmp_path / "regions.csv").write_text("region,x,x,y,z\na,1,2,3,4\n")
    with pytest.raises(InputError, match="has the column 'x' more than once; leave one of them"):
        read_coordinates(tmp_path / "regions.csv")


# Tables in memory.


def test_whole_numbers_beyond_all_floats_are_infinite_values():
    wide = TABLE.assign(a=pd.Series([10**400, -(10**400)] * 10, dtype=object))
    with pytest.raises(InputError, match="infinite values: 20 in 'a'"):
        align_tables(wide, TABLE)


def test_a_decimal_that_is_not_a_number_is_missing():
    odd = pd.Series([decimal.Decimal("sNaN"), decimal.Decimal(1)] * 10, dtype=object)
    assert np.isnan(Source.of(TABLE.assign(a=odd), "first").values(["a"])[:, 0]).sum() == 10


def test_a_polars_frame_with_a_nul_in_a_name():
    """Polars ended the program when it handed this over."""
    frame = pytest.importorskip("polars").from_pandas(TABLE.rename(columns={"b": "b\0"}))
    with pytest.raises(InputError, match=r"the name 'b\\x00' in the first table holds a NUL character"):
        dd.DifferenceDAG().fit(frame, frame)


def test_an_array_names_no_group():
    table = TABLE.assign(group=["x", "y"] * 10)
    with pytest.raises(InputError, match="has no group"):
        dd.split_groups(table, "group", [np.zeros(2), "y"])


@pytest.mark.parametrize(
    "options", [{"method": np.zeros(2)}, {"missing": np.zeros(2)}, {"rng": 1.5, "intervals": "split"}]
)
def test_options_of_a_kind_that_nobody_expects(options):
    with pytest.raises(InputError, match=r"must be|is not known"):
        dd.DifferenceDAG(**options).fit(TABLE, TABLE * [1, 1, 2])


@pytest.mark.parametrize("value", [[], {}, np.zeros(2), 3])
def test_a_word_is_asked_for_and_something_else_is_given(value):
    moments = [Moments.from_array(TABLE * [1, 1, k], names=list("abc")) for k in (1, 2)]
    tries = [
        lambda: dd.precision_difference(*moments, method=value),
        lambda: settings_path(*moments, by=value),
        lambda: dd.LinearSEM(np.zeros((2, 2)), noise=value),
        lambda: dd.simulate_pair(4, neighbours=2, variances_drawn=value),
    ]
    for attempt in tries:
        with pytest.raises(InputError, match="must be"):
            attempt()
    with pytest.raises(InputError, match="no method is called"):
        dd.compare_methods(*moments, methods=[value])


@pytest.mark.parametrize("methods", [1.5, "paper"])
def test_methods_are_a_list(methods):
    with pytest.raises(InputError, match="give a list of names"):
        dd.compare_methods(TABLE, TABLE * [1, 1, 2], methods=methods)


def named(names):
    """A table with these names, as plain objects: pandas 3 itself refuses some of them as text."""
    return TABLE.set_axis(pd.Index(names, dtype=object), axis=1)


@pytest.mark.parametrize(
    "make",
    [
        lambda names: dd.DifferenceDAG().fit(*[named(names) * [1, 1, k] for k in (1, 2)]),
        lambda names: Moments.from_array(TABLE, names=names),
        lambda names: dd.LinearSEM(np.zeros((3, 3)), names=names),
    ],
)
def test_names_that_no_file_could_hold(make):
    with pytest.raises(InputError, match=r"the name '\\ud800' is not valid text; call it '\?'"):
        make(["\ud800", "b", "c"])


@pytest.mark.parametrize("option", ["columns", "drop"])
def test_a_number_is_no_list_of_columns(option):
    with pytest.raises(InputError, match=f"{option}= is 3; give a list of column names"):
        align_tables(TABLE, TABLE + 1, **{option: 3})


def test_few_permutations_are_refused_wherever_they_are_given():
    with pytest.raises(InputError, match="19 or larger"):
        global_test(TABLE, TABLE + 1, permutations=3)
    assert global_test(TABLE, TABLE * 2, permutations=19).permutations == 19


@pytest.mark.parametrize("none", [[], 10**400, [10**400]])
def test_a_path_of_no_settings_is_refused(none):
    with pytest.raises(InputError, match="penalties must be numbers larger than 0"):
        settings_path(TABLE, TABLE * 2, penalties=none)


@pytest.mark.parametrize("value", ["10.121,50", "1 234", "1'234.5", "1.234.567"])
def test_thousands_separators_are_called_so(tmp_path, value):
    """The file's decimal commas are read, so there is no need to write decimal points."""
    (tmp_path / "t.csv").write_text(f"a;b\n{value};1,5\n3,5;2,5\n4,1;2,7\n")
    table = read_table(tmp_path / "t.csv")
    with pytest.raises(InputError, match=r"; write numbers without thousands separators$"):
        align_tables(table, table)


@pytest.mark.parametrize("weight", [1e160, 1e100, 1e-200])
def test_models_whose_variables_vary_too_much_or_too_little(weight):
    """NumPy gave up on their covariances."""
    variances = [1.0, 1.0] if weight > 1 else [weight, 1.0]
    models = [dd.LinearSEM([[0, 0], [k, 0]], noise_variances=variances) for k in (weight, 0.5)]
    with pytest.raises(InputError, match=r"values of 'X[12]' vary by .* too far from 1"):
        dd.DifferenceDAG().fit_population(*models)


@pytest.mark.parametrize("apart", [1e7, 1e9])
def test_means_that_are_too_far_apart(apart):
    """Rounding decided: edges and intercepts at 1e7 standard deviations, and an order of no variable at 1e9."""
    rows = dd.simulate_pair(3, neighbours=2, changes=1, rng=880_903).first.sample(40, rng=1)
    other = pd.DataFrame(rows + np.array([0, apart, 0]), columns=list("abc"))
    with pytest.raises(InputError, match=r"the means of 'b' .* times their spread apart, more than can be"):
        dd.DifferenceDAG().fit(TABLE, other)
    dd.DifferenceDAG(method="paper").fit(TABLE, other)


@pytest.mark.parametrize("option", [{"limit": "long"}, {"limit": -1}, {"n_jobs": "all"}])
def test_limits_that_are_no_numbers(option):
    with pytest.raises(InputError, match=r"must be a (whole )?number"):
        dd.compare_methods(TABLE, TABLE * 2, methods=["order"], **option)


# The command line.


def test_memory_that_runs_out_is_said_in_one_line(monkeypatch, capsys):
    def fail(*_args, **_options):
        raise MemoryError

    monkeypatch.setattr("diffdag.model.simulate.simulate_pair", fail)
    assert cli.run(["simulate", "--p", "3", "--neighbours", "1", "--samples", "9", "--out", "x"]) == 2
    assert capsys.readouterr().err.startswith("diffdag: error: memory ran out; ")


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("part", ["indices", "indptr"])
def test_sparse_cells_with_places_outside_the_table(tmp_path, kind, part):
    """SciPy's compiled code follows such places, and ended the program."""
    anndata, h5py = pytest.importorskip("anndata"), pytest.importorskip("h5py")
    path = tmp_path / "cells.h5ad"
    cells = np.random.default_rng(1).poisson(2.0, (8, 3)).astype(float)
    anndata.AnnData(X=sparse.coo_array(cells).asformat(kind)).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        file["X"][part][1] = 2**30
    with pytest.raises(InputError, match=r"cannot be read|is damaged"):
        align_tables(*[read_table(path)] * 2)


@pytest.mark.parametrize("levels", [None, {"b": ["1", "2"]}])
def test_a_gene_that_is_text_in_the_other_table(levels):
    """Only columns of frames could be looked at one by one."""
    anndata = pytest.importorskip("anndata")
    cells = anndata.AnnData(X=TABLE.to_numpy(), var=pd.DataFrame(index=TABLE.columns))
    with pytest.raises(InputError, match=r"'b' is not numeric|column 'b' .* is none of its levels"):
        align_tables(cells, TABLE.assign(b="text"), levels=levels)


# Answers.


def test_a_result_with_half_a_character_is_refused(tmp_path):
    """It was read, and could not be saved."""
    check = Check("rows", passed=True, message="said")
    text = graph(["a", "b"], [], checks=(check,), notes=("\\ud800 is an escape",)).to_json()
    (tmp_path / "result.json").write_text(text.replace("said", "\\ud83d\\ude00"))
    assert dd.load(tmp_path).checks[0].message == "\U0001f600"
    (tmp_path / "result.json").write_text(text.replace("said", "\\ud800"))
    with pytest.raises(InputError, match="holds text that is not valid"):
        dd.load(tmp_path)


def test_settings_nested_too_deep_are_refused(tmp_path):
    """How deep was too deep depended on how deep the program was itself."""
    text = graph(["a", "b"], [], settings={"x": "deep"}).to_json()
    for depth, refused in ((20, False), (60, True), (400, True)):
        (tmp_path / "result.json").write_text(text.replace('"deep"', "[" * depth + "]" * depth))
        if refused:
            with pytest.raises(InputError, match="'settings' has parts in parts, more than 50 levels"):
                dd.load(tmp_path)
        else:
            dd.load(tmp_path).save(tmp_path / "again")


def test_an_answer_leaves_nothing_of_an_earlier_one_of_another_kind(tmp_path, capsys):
    groups = pd.concat([(TABLE * k).assign(group=f"g{k}") for k in (1, 2, 3)])
    groups.to_csv(tmp_path / "t.csv", index=False)
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("stays")
    line = ["fit", str(tmp_path / "t.csv"), "--group", "group", "--out", str(out)]
    two, several = ["--first", "g1", "--second", "g2"], ["--reference", "g1"]
    kept = {}
    for name, words in (("two", two), ("several", several), ("two again", two), ("several again", several)):
        assert cli.run([*line, *words]) == 0
        kept[name] = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert kept["two"] == {"result.json", "edges.csv", "nodes.csv", "graph.graphml", "report.html", "mine.txt"}
    assert "conditions.json" in kept["several"]
    assert kept["two again"] == kept["two"]
    assert kept["several again"] == kept["several"]
    assert not kept["several"] & {"result.json", "edges.csv", "graph.graphml"}


def test_files_that_are_not_ours_stay(tmp_path):
    (tmp_path / "conditions.json").write_text('{"comparisons": "mine"}')
    (tmp_path / "matrix.csv").write_text("mine")
    written = graph(["a", "b"], [Edge("a", "b", delta=1.0)]).save(tmp_path)
    ours = {path.name for path in written}
    assert {path.name for path in tmp_path.iterdir()} == {"conditions.json", "matrix.csv"} | ours
    assert (tmp_path / "matrix.csv").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "written"),
    [("a\\b", '"a\\b"'), ('a\\\\"b', '"a\\\\\\"b"'), ("a\\", '"a\\\\"'), ('a\\"b', '"a\\\\\\"b"')],
)
def test_graphviz_keeps_backslashes_as_they_are(name, written):
    assert f'  {written} -> "b" [' in to_dot(graph([name, "b"], [Edge(name, "b", delta=1.0)]))


ODD_THINGS = [
    *(np.array([1.0, 2.0]), np.array(["a", "b"]), np.array(3), np.array([]), pd.DataFrame({"a": [1, 2]})),
    *(pd.Series([1, 2]), object(), b"x", float("nan"), 1j, [[]], {}, set(), pd.NA, pd.NaT, 10**40),
]


@pytest.mark.parametrize("name", [*dd.DifferenceDAG().get_params(), "columns", "drop", "labels", "journal"])
def test_options_of_any_kind_are_taken_or_refused(name):
    first, second = np.random.default_rng(0).normal(size=(2, 30, 3))
    for value in ODD_THINGS:
        of_fit = name in ("columns", "drop", "labels", "journal")
        model, data = ({}, {name: value}) if of_fit else ({name: value}, {})
        with contextlib.suppress(InputError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dd.DifferenceDAG(**model).fit(first, second, **data)


def test_other_ways_in_refuse_what_they_cannot_take():
    first, second = np.random.default_rng(0).normal(size=(2, 30, 3))
    arrays, moments = np.array([1.0, 2.0]), dd.Moments.from_array(first)
    for call in (
        lambda: dd.compare_methods(first, second, methods=["order"], limit=arrays),
        lambda: global_test(first, second, permutations=10**40),
        lambda: dd.fit_conditions({"a": first, "b": second}, reference=arrays),
        lambda: dd.Moments.from_csv("table.csv", missing=arrays),
        lambda: dd.DifferenceDAG().fit_moments(first, moments),
        lambda: dd.DifferenceDAG().fit_population(first, second),
    ):
        with pytest.raises(InputError):
            call()


def test_a_penalty_that_vanishes_divides_nothing():
    first, second = np.random.default_rng(0).normal(size=(2, 30, 3))
    assert dd.DifferenceDAG(penalty=5e-324).fit(first, second).result_.edge_list


def test_a_number_of_hidden_causes_beside_groups(tmp_path, capsys):
    rows = np.random.default_rng(1).standard_normal((120, 16))
    table = pd.DataFrame(rows, columns=list("abcdefghijklmnop")).assign(dose=np.repeat(["low", "high"], 60))
    table.to_csv(tmp_path / "rows.csv", index=False)
    assert cli.run(["fit", str(tmp_path / "rows.csv"), "--group", "dose", "--adjust", "1"]) == 0
    assert cli.run(["fit", str(tmp_path / "rows.csv"), "--group", "dose", "--adjust", "a,dose"]) == 2
    assert "--adjust names 'dose', by which --group splits the rows" in capsys.readouterr().err


@pytest.mark.parametrize("size", [1e308, 5e-324])
def test_effects_of_units_of_any_size_are_drawn(size):
    edge = Edge("a", "b", change="added", weight_first=-size, weight_second=size, delta=-2e-324, stderr=1.0)
    units = tuple(
        UnitEffect("a", "b", k, "donor", f"u{k}", 9, way * size, size) for k, way in ((1, -1), (2, 1))
    )
    assert "<svg" in render_page(graph(["a", "b"], [edge], unit_effects=units))


def test_a_name_that_claims_to_be_longer_than_its_file(tmp_path):
    """HDF5 takes as much memory as a text claims to need."""
    cells = ad.AnnData(np.ones((4, 3), np.float32), var=pd.DataFrame(index=["a", "b", "c"]))
    path = tmp_path / "cells.h5ad"
    cells.write_h5ad(path)
    read_table(path)
    with h5py.File(path) as file:
        start = file["var/_index"].id.get_offset()
    data = bytearray(path.read_bytes())
    data[start : start + 4] = (1 << 30).to_bytes(4, "little")
    path.write_bytes(data)
    refused(path, "'/var/_index' of .* claims more text than the file holds")
