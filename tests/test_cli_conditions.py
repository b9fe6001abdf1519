"""fit on several groups of one table."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import diffdag as dd
from diffdag.cli.app import run


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(862_008)
    model = dd.simulate_pair(4, neighbours=2, rng=rng).first
    frames = [
        pd.DataFrame(model.sample(300, rng), columns=model.names).assign(group=group)
        for group in ("g0", "g1", "g2")
    ]
    path = tmp_path / "data.csv"
    pd.concat(frames).to_csv(path, index=False)
    return path


def test_groups_on_the_command_line(table, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(["fit", str(table), "--group", "group", "--reference", "g1", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "g1 against g0, g2; 4 variables" in said
    assert str(out / "picture.svg") in said
    assert set(dd.load_conditions(out).pairs) == {("g1", "g0"), ("g1", "g2")}
    assert run(["fit", str(table), "--group", "group", "--pairwise", "--groups", "g2,g0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["conditions"] == ["g2", "g0"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--reference", "g0"], "give one table and --group"),
        (["--group", "group", "--reference", "g0", "--pairwise"], "give one of the two"),
        (["--group", "group", "--groups", "g0,g1"], "give --reference or --pairwise"),
        (["--group", "group", "--reference", "g0", "--first", "g1"], "--first is for two groups"),
        (["--group", "group", "--reference", "g9"], "'g9' is not a condition"),
        (["--group", "group"], "compare all with --reference or --pairwise"),
    ],
)
def test_options_that_do_not_go_together(table, capsys, words, message):
    assert run(["fit", str(table), *words]) == 2
    assert message in capsys.readouterr().err
