"""docs/attacks.md shows what was measured last."""

from __future__ import annotations

import json

import pytest
from makers import DOCS, loaded

pytestmark = pytest.mark.docs


@pytest.fixture(scope="module")
def maker():
    with loaded("make_attacks") as module:
        yield module


def test_every_table_is_the_newest_run(maker):
    page = (DOCS / "attacks.md").read_text(encoding="utf-8")
    assert maker.filled(page) == page, "run docs/make_attacks.py"
    assert page.count("<!-- begin") >= 3


def test_what_the_page_promises_was_measured(maker):
    kills = maker.newest("kills")
    column = {name: place for place, name in enumerate(kills["columns"])}
    assert sum(row[column["kills"]] for row in kills["rows"]) >= 50
    for row in kills["rows"]:
        same, of, runs = row[column["identical in the end"]].split()
        assert (same, of) == (runs, "of")
        assert row[column["rows lost"]] == row[column["partial outputs"]] == row[column["stray files"]] == 0
    mutants = maker.newest("mutants")
    column = {name: place for place, name in enumerate(mutants["columns"])}
    for row in mutants["rows"]:  # equivalent ones counted as survivors
        caught = row[column["killed"]] + row[column["timed out"]]
        assert caught >= 0.8 * row[column["tried"]], row[0]


def test_a_section_is_not_taken_for_another(maker, tmp_path):
    runs = [{"section": "leaks", "rows": 1}, {"section": "control", "rows": 2}]
    (tmp_path / "leaks.jsonl").write_text("\n".join(map(json.dumps, runs)), encoding="utf-8")
    assert maker.newest("leaks", tmp_path)["rows"] == 1
    assert maker.newest("leaks control", tmp_path)["rows"] == 2
