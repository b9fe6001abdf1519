"""The page of reproductions says what the tables of the finished runs say."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pandas as pd
import pytest
from studies import DOCS

from diffdag.reproduce.experiments import NAMES, experiment
from diffdag.reproduce.experiments.figure4 import measured_text
from diffdag.reproduce.methods import all_methods

pytestmark = pytest.mark.docs
RUNS = DOCS / "reproduction"
PAGE = (DOCS / "reproduction.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("make_reproduction", DOCS / "make_reproduction.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_of_the_page_come_from_the_runs(maker):
    assert maker.filled(PAGE) == PAGE
    assert set(re.findall(r"<!-- begin ([^>]+) -->", PAGE)) == set(maker.BLOCKS)


def test_pictures_exist_and_are_safe_to_share():
    for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", PAGE):
        assert (DOCS / picture).exists(), picture
    for path in RUNS.iterdir():
        if path.suffix in {".csv", ".json", ".svg"}:
            assert not re.search(r"/(home|root|work|tmp)/", path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize("name", [name for name in NAMES if name != "brain"])
def test_runs_are_of_full_size(name):
    chosen = experiment(name)
    rows = pd.read_csv(RUNS / f"{name}.csv.gz", keep_default_na=False)
    wanted = chosen.cells(chosen.full)
    assert len(rows) == len(wanted)
    keys = rows[list(chosen.key)].astype(str).agg("|".join, axis=1)
    assert keys.is_unique


def test_figure2_has_every_method():
    rows = pd.read_csv(RUNS / "figure2-summary.csv")
    assert set(rows["method"]) == set(all_methods())


def test_table1_is_exact():
    assert (pd.read_csv(RUNS / "table1-summary.csv")["exact"] == 1).all()


def test_the_default_is_on_top_in_figure2_or_one_pair_behind():
    rows = pd.read_csv(RUNS / "figure2-summary.csv")
    rows = rows[rows["method"] != "oracle"]
    best = rows.groupby(["kind", "C"])["f1"].max()
    ours = rows[rows["method"] == "order"].set_index(["kind", "C"])["f1"]
    assert (ours >= best - 0.007).all()


def test_plan_quotes_the_run():
    packaged = Path(experiment.__code__.co_filename).with_name("figure4-half.csv")
    assert packaged.read_bytes() == (RUNS / "figure4-half.csv").read_bytes()
    assert re.search(r"\(5\), [\d,]+ \(10\), [\d,]+ \(15\); nine in ten with", measured_text())
