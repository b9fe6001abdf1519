"""Tables as they come, on the command line: transposed, with text and levels, with groups that are numbers."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import diffdag as dd
from diffdag import __main__ as cli
from diffdag._base.errors import InputError
from diffdag.tables.align import align_tables

RNG = np.random.default_rng(12)
GENES = ["TP53", "MYC", "EGFR", "KRAS"]
N = 40


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def samples(letter, n=N):
    return pd.DataFrame(RNG.standard_normal((n, 4)), columns=GENES, index=[f"{letter}{k}" for k in range(n)])


def turned(frame):
    return frame.T.rename_axis("gene").reset_index()


class TestTransposed:
    @pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
    def test_files_are_turned(self, folder, ending, capsys):
        frames = {name: samples(name[0]) for name in ("ctrl", "drug")}
        for name, frame in frames.items():
            rows = turned(frame)
            if ending == "parquet":
                rows.to_parquet(f"{name}.parquet", index=False)
            else:
                rows.to_csv(f"{name}.{ending}", index=False, sep="\t" if ending == "tsv" else ",")
        read = dd.read_table(f"ctrl.{ending}", transpose=True)
        assert read.column_names == GENES
        np.testing.assert_allclose(read.to_pandas().to_numpy(), frames["ctrl"].to_numpy())
        files = [f"ctrl.{ending}", f"drug.{ending}"]
        assert cli.run(["fit", *files, "--transpose", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["variables"] == GENES
        assert cli.run(["fit", *files]) == 2
        said = capsys.readouterr().err
        assert "the tables look transposed: their first column, 'gene', names the rows of both alike" in said
        assert said.rstrip().endswith("if rows are variables, read the files with --transpose")

    def test_python_is_told_so_too(self):
        with pytest.raises(InputError, match="read the files with transpose=True"):
            align_tables(turned(samples("a")), turned(samples("b")))

    def test_a_row_may_name_the_groups(self, folder, capsys):
        frame = pd.concat([samples("a"), samples("b")])
        rows = turned(frame)
        head = pd.DataFrame([["arm", *["x"] * N, *["y"] * N]], columns=rows.columns)
        pd.concat([head, rows]).to_csv("t.csv", index=False)
        assert cli.run(["fit", "t.csv", "--group", "arm", "--transpose", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["variables"], found["labels"]) == (GENES, ["x", "y"])
        assert cli.run(["fit", "t.csv", "--group", "arm"]) == 2
        said = capsys.readouterr().err
        assert "the first column names a row so; if rows are variables, read the files with --transpose" in said

    def test_decimal_commas_and_gaps(self, folder):
        (folder / "t.csv").write_text("gene;s1;s2;s3\nx;1,5;2,5;-\nsex;F;M;F\n")
        table = dd.read_table("t.csv", transpose=True)
        assert table.to_pydict() == {"x": [1.5, 2.5, None], "sex": ["F", "M", "F"]}

    def test_faults_are_shown_where_they_are(self, folder):
        for name in "ab":
            frame = turned(samples(name)).astype(object)
            frame.iloc[1, 3] = "<0.1"
            frame.to_csv(f"{name}.csv", index=False)
        with pytest.raises(InputError, match=r"column 'MYC' is not numeric.*'<0.1' in column 4 of 'a.csv'"):
            align_tables(*(dd.read_table(f"{name}.csv", transpose=True) for name in "ab"))

    def test_what_cannot_be_turned(self, folder, capsys):
        np.save("a.npy", np.eye(4))
        with pytest.raises(InputError, match="has no column that names its rows"):
            dd.read_table("a.npy", transpose=True)
        (folder / "one.csv").write_text("gene\nx\n")
        with pytest.raises(InputError, match="has nothing to turn round"):
            dd.read_table("one.csv", transpose=True)
        (folder / "none.csv").write_text("gene,s1,s2\nx,1,2\n,3,4\n")
        with pytest.raises(InputError, match=r"row 2 of 'none.csv' has no name in its first column"):
            dd.read_table("none.csv", transpose=True)

    def test_paired_rows_are_no_genes(self):
        first, second = (samples("p").rename_axis("patient").reset_index() for _ in range(2))
        assert align_tables(first, second).names == tuple(GENES)


class TestLevels:
    def test_spellings(self, folder, capsys):
        for name in "ab":
            samples(name).assign(pain=RNG.choice(["mild", "bad"], N), pill=RNG.choice(list("xyz"), N)).to_csv(
                f"{name}.csv", index=False
            )
        for levels in (["pain=mild,bad", "pill=z,x,y"], ["pain = mild<bad", "pill=z<x<y"]):
            options = [word for one in levels for word in ("--levels", one)]
            assert cli.run(["fit", "a.csv", "b.csv", *options]) == 0
            said = " ".join(capsys.readouterr().out.split())
            assert "'pain' is coded 0 for 'mild' and 1 for 'bad'" in said
            assert "'pill' is coded 0 to 2 for 'z', 'x' and 'y'" in said
        assert cli.run(["path", "a.csv", "b.csv", "--levels", "pill=z,x,y", "--penalties", "1"]) == 0
        capsys.readouterr()
        for levels, message in {
            "pill": "is not a column and its levels",
            "pill=x,y": "holds 'z', which is none of its --levels 'x' and 'y'",
            "pil=x,y": "--levels names 'pil', which no table has; did you mean 'pill'?",
        }.items():
            assert cli.run(["fit", "a.csv", "b.csv", "--levels", levels]) == 2
            assert message in capsys.readouterr().err

    def test_moments_have_none(self, folder, capsys):
        for name in "ab":
            dd.Moments.from_array(samples(name).to_numpy()).save(f"{name}.npz")
        assert cli.run(["fit", "a.npz", "b.npz", "--levels", "x=1,2"]) == 2
        assert "--transpose and --levels are about tables" in capsys.readouterr().err


FORMS = {
    "floats": [0.0, 1.0, 2.0],
    "written floats": ["0.0", "1.0", "2.0"],
    "halves": [0.0, 1.0, 2.5],
    "integers": [0, 1, 2],
}


class TestGroups:
    @pytest.mark.parametrize("form", FORMS)
    def test_numbers_are_found_however_they_are_written(self, folder, capsys, form):
        groups = FORMS[form]
        pd.concat([samples("s").assign(g=group) for group in groups]).to_csv("t.csv", index=False)
        for zero, one in (("0", "1"), ("0.0", "1.0"), ("0", "1.0")):
            start = ["fit", "t.csv", "--group", "g", "--json"]
            assert cli.run([*start, "--first", zero, "--second", one]) == 0
            assert [float(label) for label in json.loads(capsys.readouterr().out)["labels"]] == [0, 1]
            assert cli.run([*start, "--reference", zero]) == 0
            assert float(json.loads(capsys.readouterr().out)["reference"]) == 0
            assert cli.run([*start, "--reference", zero, "--groups", f"{one},{zero}"]) == 0
            assert [float(name) for name in json.loads(capsys.readouterr().out)["conditions"]] == [0, 1]

    def test_gaps_and_truth(self, folder, capsys):
        frame = pd.concat([samples("s").assign(g=group) for group in (0.0, 1.0)])
        frame.iloc[3, 4] = np.nan
        frame.to_csv("gaps.csv", index=False)
        assert cli.run(["fit", "gaps.csv", "--group", "g", "--first", "0", "--second", "1"]) == 0
        frame.dropna().assign(g=lambda own: own["g"] == 1).to_csv("truth.csv", index=False)
        assert cli.run(["fit", "truth.csv", "--group", "g", "--first", "false", "--second", "TRUE"]) == 0
        said = capsys.readouterr().out
        assert "False (39 rows) against True (40 rows)" in said
