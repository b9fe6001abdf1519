"""What a command is given: files, folders, patterns, moments, or groups of one file."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from diffdag import __main__ as cli
from diffdag.app.cli.inputs import Inputs
from diffdag.tables.inputs import what_it_holds
from diffdag.tables.moments import Moments

RNG = np.random.default_rng(3)
FRAME = pd.DataFrame(RNG.standard_normal((30, 3)), columns=["a", "b", "c"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.assign(g=list("uvw") * 10, h=["u", "v"] * 15).to_csv("t.csv", index=False)
    FRAME.to_csv("plain.csv", index=False)
    (tmp_path / "many").mkdir()
    Moments.from_array(FRAME, FRAME.columns).save("m.npz")
    np.savez("table.npz", FRAME.to_numpy())
    return tmp_path


KINDS = {"t.csv": "table", "table.npz": "table", "m.npz": "moments", "many": "stream", "many/*.csv": "stream"}


@pytest.mark.parametrize("path", KINDS)
def test_a_path_is_one_of_three_things(folder, path):
    assert what_it_holds(folder / path) == KINDS[path]


REFUSED = {
    "three groups": (
        ["t.csv", "--group", "g"],
        "holds 3 groups: 'u' (10 rows), 'v' (10 rows), 'w' (10 rows); choose two with --first and --second, or "
        "compare all with --reference or --pairwise",
    ),
    "one group": (
        ["t.csv", "--group", "g", "--first", "u"],
        "only one group of column 'g', 'u', is given; give --first and --second, two of 'u'",
    ),
    "twice the same": (["t.csv", "--group", "g", "--first", "u", "--second", "u"], "group 'u' is chosen twice"),
    "folder": (["many", "--group", "g"], "--group splits the rows of one table, which 'many' is not"),
    "no second": (["t.csv"], "a table is given; give two tables, or one table and --group"),
    "both": (["t.csv", "t.csv", "--group", "g"], "two tables and --group are given; give two tables, or one"),
    "gone": (["gone.csv", "plain.csv"], "'gone.csv' does not exist"),
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_clear_is_refused(folder, capsys, arguments, message):
    assert cli.run(["fit", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_two_groups_need_no_names(folder):
    one, two, labels = Inputs(folder / "t.csv", None, "h").read_pair("error")
    assert (one.num_rows, two.num_rows, labels) == (15, 15, ("u", "v"))
    assert Inputs(folder / "t.csv", None, "g", "w", "u").read_pair("error")[2] == ("w", "u")
    assert Inputs(folder / "t.csv", folder / "plain.csv").read_pair("error")[2] == ("t", "plain")
    twice = Inputs(Path("t.csv"), Path("t.csv")).read_pair("error")[2]
    assert twice == ("t.csv (first)", "t.csv (second)")
