"""fit on several groups of one table."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import diffdag as dd
from diffdag import pipeline
from diffdag.__main__ import run


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
    assert set(dd.load(out).pairs) == {("g1", "g0"), ("g1", "g2")}
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


def test_an_interrupted_run_continues(table, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    words = ["fit", str(table), "--group", "group", "--reference", "g0", "--jobs", "1", "--out", str(out)]
    words += ["--resamples", "20"]
    whole, fits = pipeline.resample_tables, []

    def at_once(*given, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "resample_tables", at_once)
        assert run(words) == 130
    assert capsys.readouterr().err == "diffdag: interrupted\n"
    assert not out.exists()

    def interrupted(*given, **options):
        fits.append(given[3])
        if len(fits) == 3:
            raise KeyboardInterrupt
        return whole(*given, **options)

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "resample_tables", interrupted)
        assert run(words) == 130
    assert "what is finished is kept; the same command continues" in capsys.readouterr().err
    kept = {path: path.read_bytes() for path in out.glob("1-g0-g1/*.journal")}
    assert len(kept) == 2
    assert run(words) == 0
    assert {path: path.read_bytes() for path in out.glob("1-g0-g1/*.journal")} == kept
    assert len(list(out.glob("2-g0-g2/*.journal"))) == 2


def test_report_of_several_conditions(table, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(["fit", str(table), "--group", "group", "--pairwise", "--out", str(out)]) == 0
    page = (out / "report.html").read_bytes()
    for place in (out, out / "conditions.json"):
        (out / "report.html").unlink()
        assert run(["report", str(place)]) == 0
        assert (out / "report.html").read_bytes() == page
    (out / "result.json").write_text(dd.load(out).pairs["g0", "g1"].to_json(), encoding="utf-8")
    capsys.readouterr()
    assert run(["report", str(out)]) == 2
    assert "give one of the two files" in capsys.readouterr().err
    assert run(["report", str(out / "result.json")]) == 0


def test_numbers_as_groups_with_empty_cells(table, tmp_path, capsys):
    frame = pd.read_csv(table)
    frame["group"] = frame["group"].str[1:].astype(float)
    path = tmp_path / "gaps.csv"
    frame.to_csv(path, index=False)
    assert run(["fit", str(path), "--group", "group", "--reference", "1"]) == 0
    assert "1 against 0, 2;" in capsys.readouterr().out
    frame.loc[[3, 7], "group"] = np.nan
    frame.to_csv(path, index=False)
    assert run(["fit", str(path), "--group", "group", "--reference", "1"]) == 2
    assert "column 'group' names no group in 2 of 900 rows" in capsys.readouterr().err
    assert run(["fit", str(path), "--group", "group", "--reference", "1", "--groups", "0,2"]) == 0
