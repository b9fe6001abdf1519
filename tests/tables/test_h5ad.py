"""AnnData objects and .h5ad files as tables."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import diffdag as dd
from diffdag.__main__ import run
from diffdag._base.errors import InputError
from diffdag.tables.align import align_tables
from diffdag.tables.readers import h5ad as module
from diffdag.tables.readers.files import read_table
from diffdag.tables.readers.h5ad import Cells

ad = pytest.importorskip("anndata")

GENES = [f"G{k}" for k in range(8)]
KINDS = {
    "csr": sp.csr_matrix,
    "csc": sp.csc_matrix,
    "array": sp.csr_array,
    "dense": np.asarray,
}


def values() -> np.ndarray:
    """Two conditions of 150 cells: the effect of G0 on G1 is there in the first only; G6 and G7 do not vary."""
    rng = np.random.default_rng(5)
    table = rng.standard_normal((300, 8)).astype(np.float32)
    table[:150, 1] += table[:150, 0]
    table[:, 2] *= table[:, 2] > 0
    table[:, 6] = 0
    table[150:, 7] = 1.5
    return table


def example(kind: str = "csr") -> Any:
    table = values()
    obs = pd.DataFrame(
        {"condition": pd.Categorical(["control"] * 150 + ["drug"] * 150), "batch": ["a", "b", None] * 100},
        index=[f"cell {k}" for k in range(300)],
    )
    var = pd.DataFrame({"highly_variable": [True] * 4 + [False] * 4, "length": range(8)}, index=GENES)
    shuffled = np.random.default_rng(6).permutation(300)
    made = ad.AnnData(
        KINDS[kind](table), obs=obs, var=var, layers={"counts": KINDS[kind](np.rint(abs(3 * table)))}
    )
    made.raw = made
    return made[shuffled].copy()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def expected(condition: str, names: list[str]) -> np.ndarray:
    made = example("dense")
    return np.asarray(made[made.obs["condition"] == condition, names].X, dtype=float)


def test_objects_are_split_and_fitted(kind: str) -> None:
    parts = dd.split_groups(example(kind), "condition", ["control", "drug"])
    (first, second), labels = parts.values(), list(parts)
    assert labels == ["control", "drug"]
    assert isinstance(first, ad.AnnData)
    tables = align_tables(first, second)
    assert tables.names == tuple(GENES[:6])
    assert tables.notes == ("1 of 8 genes was left out: missing or constant in a table",)
    (switched,) = tables.switched
    assert (switched.variable, switched.constant, switched.odd) == ("G7", 1, 0)
    np.testing.assert_array_equal(tables.first, expected("control", GENES[:6]))
    result = dd.DifferenceDAG().fit(first, second).result_
    assert [{edge.source, edge.target} for edge in result.edge_list] == [{"G0", "G1"}]


@pytest.mark.parametrize("block", [1 << 22, 90])
def test_files_give_the_same(kind: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", block)  # also in pieces of a few rows
    example(kind).write_h5ad(tmp_path / "cells.h5ad")
    table = read_table(tmp_path / "cells.h5ad")
    assert isinstance(table, Cells)
    first, second = dd.split_groups(table, "condition", ["control", "drug"]).values()
    tables = align_tables(first, second, drop=["G3"])
    assert tables.names == ("G0", "G1", "G2", "G4", "G5")
    np.testing.assert_array_equal(tables.second, expected("drug", list(tables.names)))
    chosen = align_tables(first, second, columns=["G5", "G0"])
    np.testing.assert_array_equal(chosen.first, expected("control", ["G5", "G0"]))
    assert chosen.notes == ()


def test_backed_objects(tmp_path: Path) -> None:
    example().write_h5ad(tmp_path / "cells.h5ad")
    backed = ad.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    first, second = dd.split_groups(backed, "condition", ["control", "drug"]).values()
    np.testing.assert_array_equal(
        align_tables(first, second, columns=GENES[:2]).first, expected("control", GENES[:2])
    )
    backed.file.close()


def test_layers_raw_and_marked_genes(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "cells.h5ad"
    made = example(kind)
    made[:, GENES[:5]].copy().write_h5ad(path)
    counts = read_table(path, layer="counts")
    assert counts.names == tuple(GENES[:5])
    first, second = dd.split_groups(counts, "condition").values()
    assert any("whole numbers" in note for note in align_tables(first, second).notes)
    assert read_table(path, layer="raw").names == tuple(GENES)
    assert read_table(path, layer="raw", genes="highly_variable").names == tuple(GENES[:4])


def test_several_conditions_share_their_genes() -> None:
    made = example()
    made.obs["third"] = np.where(made.obs["batch"] == "a", "a", made.obs["condition"].astype(str))
    result = dd.fit_conditions(dd.split_groups(made, "third"))
    assert result.variables == tuple(GENES[:6])
    assert result.notes == ("'G7' cannot be compared in all conditions and was left out of all",)
    switched = {pair: [change.variable for change in one.switch_list] for pair, one in result.pairs.items()}
    assert switched["control", "drug"] == ["G7"]


def repeated() -> Any:
    made = example()
    made.var_names = ["G0", *GENES[:7]]
    return made


def complex_values() -> Any:
    made = example("dense")
    return ad.AnnData(np.asarray(made.X) + 1j, obs=made.obs, var=made.var)


@pytest.mark.filterwarnings("ignore:Variable names are not unique")
@pytest.mark.parametrize(
    ("made", "group", "message"),
    [
        (repeated, "condition", "'G0' appears more than once among the columns of the first table"),
        (complex_values, "condition", "X of the first table holds complex64; give numbers"),
        (example, "treatment", "the columns of obs are 'condition' and 'batch'"),
        (example, "batch", "'batch' names no group in 100 of 300 rows"),
        (lambda: ad.AnnData(obs=example().obs), "condition", r"without X; give a layer with adata.to_df"),
    ],
)
def test_objects_that_cannot_be_used(made: Any, group: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        align_tables(*dd.split_groups(made(), group).values())


def test_what_does_not_fit_in_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_free_memory", lambda: 10_000.0)
    first, second = dd.split_groups(example(), "condition").values()
    with pytest.raises(InputError, match=r"150 cells and 7 genes.*GiB.*columns=.*genes='highly_variable'"):
        align_tables(first, second)
    assert align_tables(first, second, columns=["G0", "G1"]).names == ("G0", "G1")
    monkeypatch.setattr(module, "_free_memory", lambda: None)  # a system that does not say
    assert len(align_tables(first, second).names) == 6


def test_free_memory_is_known_on_linux() -> None:
    free = module._free_memory()
    assert free is None or 1e6 < free < 1e15
    assert free is not None or not sys.platform.startswith("linux")


class TestCommand:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        example().write_h5ad(tmp_path / "cells.h5ad")
        return tmp_path / "cells.h5ad"

    def test_group(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        keys = ["--group", "condition", "--first", "control", "--second", "drug"]
        assert run(["fit", str(path), *keys, "--genes", "highly_variable"]) == 0
        said = capsys.readouterr().out
        assert "1 of 12 possible edges changed" in said
        assert "control (150 rows) against drug (150 rows)" in said

    def test_two_files(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        made = example()
        for name in ("control", "drug"):
            made[made.obs["condition"] == name].copy().write_h5ad(path.with_name(f"{name}.h5ad"))
        assert run(["fit", str(path.with_name("control.h5ad")), str(path.with_name("drug.h5ad"))]) == 0
        said = capsys.readouterr().out
        assert "control (150 rows) against drug (150 rows), 6 variables" in said
        assert "1 of 8 genes was left out" in said
        assert said.startswith("G7 does not vary in drug; 1 of 30 possible edges changed")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--layer", "log"], "has no layer 'log'; it has 'counts' and 'raw'"),
            (["--genes", "length"], "no column 'length' in var that is true or false; there are 'highly_var"),
            (["--columns", "G9"], "columns names 'G9'"),
            (["--drop", "G9"], "--drop names 'G9', which no table has"),
        ],
    )
    def test_wrong_choices(
        self, path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
    ) -> None:
        assert run(["fit", str(path), "--group", "condition", *options]) == 2
        error = capsys.readouterr().err
        assert message.replace("columns names", "names") in error
        assert error.count("\n") == 1


def test_files_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import h5py  # noqa: PLC0415

    with h5py.File(tmp_path / "other.h5ad", "w") as file:
        file["data"] = [1.0]
    (tmp_path / "junk.h5ad").write_bytes(b"junk")
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="was not written by AnnData"):
        read_table(tmp_path / "other.h5ad")
    with pytest.raises(InputError, match=r"cannot be read as \.h5ad"):
        read_table(tmp_path / "junk.h5ad")
    with pytest.raises(InputError, match=r"layer= is about \.h5ad files"):
        read_table(tmp_path / "table.csv", layer="counts")
    real = builtins.__import__

    def raise_problems(name: str, *rest: Any) -> Any:
        if name.startswith("anndata"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", raise_problems)
    with pytest.raises(InputError, match=r"pip install 'diffdag\[cells\]'"):
        read_table(tmp_path / "other.h5ad")


def test_marks_may_be_missing(tmp_path: Path) -> None:
    made = example()
    made.var["sure"] = pd.array([True, None, True, False] + [True] * (made.n_vars - 4), dtype="boolean")
    made.write_h5ad(tmp_path / "cells.h5ad")
    found = read_table(tmp_path / "cells.h5ad", genes="sure")
    assert len(found.names) == made.n_vars - 2
    assert set(found.names).isdisjoint(made.var_names[[1, 3]])
