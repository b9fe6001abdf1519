"""docs/trust.md shows what was measured."""

from __future__ import annotations

import re

import pytest
from makers import DOCS, loaded

pytestmark = pytest.mark.docs
PAGE = (DOCS / "trust.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def maker():
    with loaded("make_trust") as module:
        yield module


def test_every_table_is_the_newest_run(maker):
    runs = maker.newest()
    assert maker.filled(PAGE, runs) == PAGE, "run docs/make_trust.py"
    blocks = re.findall(r"<!-- begin ([^>]+) -->", PAGE)
    assert set(blocks) <= set(runs), "some table was never measured"


def test_the_picture_shows_the_newest_runs(maker):
    assert maker.digest(maker.newest()) in maker.PICTURE.read_text(encoding="utf-8")


def test_runs_on_other_seeds_are_not_shown(maker, tmp_path):
    base = '{"section": "", "title": "t", "date": "d", "commit": "c", "machine": "m", "columns": ["a"], '
    lines = [
        base + '"settings": {"seed": 870000}, "rows": [[1]]}',
        base + '"settings": {"seed": 5}, "rows": [[2]]}',
        base + '"settings": {"arguments": ["--seed", "6"]}, "rows": [[3]]}',
    ]
    (tmp_path / "intervals.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    runs = maker.newest(tmp_path)
    assert runs["intervals"]["rows"] == [[1]]
    page = maker.filled("x <!-- begin intervals -->\nold\n<!-- end --> y", runs)
    assert "| 1 |" in page
    assert "old" not in page
