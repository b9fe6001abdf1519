"""The Sachs table: the consensus, how claims are held against it, and the experiment from end to end."""

from __future__ import annotations

import pandas as pd
import pytest

from diffdag import __main__ as cli
from diffdag.model.datasets import SACHS_CONDITIONS, SACHS_PROTEINS
from diffdag.reproduce.experiments import sachs
from diffdag.reproduce.experiments.claims import Claim
from diffdag.reproduce.experiments.runner import run


@pytest.fixture(scope="module")
def settings():
    return {**sachs.EXPERIMENT.quick, "conditions": ["baseline", "u0126"], "methods": ["order", "dci-c"]}


@pytest.fixture(scope="module")
def finished(settings, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    _, text = run(sachs.EXPERIMENT, settings, out, jobs=1)
    return out, text


def test_the_consensus_is_a_dag_of_twenty_edges():
    assert len(sachs.EDGES) == 20
    assert {name for edge in sachs.EDGES for name in edge} == set(SACHS_PROTEINS)
    assert not {(a, b) for a, b in sachs.ABOVE if (b, a) in sachs.ABOVE}
    assert len({frozenset(edge) for edge in sachs.EDGES}) == 20
    assert sachs.POSSIBLE == 55
    assert ("PIP3", "JNK") in sachs.ABOVE  # by Plcg and PKC


def test_all_pairs_of_the_nine_conditions():
    cells = sachs.cells(sachs.EXPERIMENT.full)
    assert len(cells) == 36 * 3
    assert {cell["first"] for cell in cells} | {cell["second"] for cell in cells} == set(SACHS_CONDITIONS)


@pytest.mark.parametrize(
    ("claim", "counts"),
    [
        (Claim("Raf", "Mek"), [1, 1, 1, 1, 1]),
        (Claim("Mek", "Raf"), [1, 1, 1, 1, 0]),
        (Claim("Mek", "Raf", False), [1, 1, 0, 0, 0]),
        (Claim("Raf", "Akt"), [1, 0, 1, 1, 1]),  # an ancestor, no neighbour
        (Claim("JNK", "P38"), [1, 0, 1, 0, 0]),  # neither acts on the other
    ],
)
def test_claims_are_held_against_the_consensus(claim, counts):
    assert list(sachs.count_sachs([claim]).values()) == counts


def test_sums_and_shares_by_hand():
    rows = {
        "method": ["a", "a", "b"], "pairs": [3, None, 0], "in_consensus": [2, None, 0], "arrows": [2, None, 0],
        "ordered": [2, None, 0], "agree": [1, None, 0],
    }  # fmt: skip
    summary = sachs.summarise_sachs(pd.DataFrame(rows)).set_index("method")
    assert summary.loc["a", ["comparisons", "gave_up", "pairs", "agree"]].tolist() == [2, 1, 3, 1]
    assert summary.loc["a", "share"] == pytest.approx(2 / 3)
    assert summary.loc["a", "agreeing"] == 0.5
    assert summary.loc["a", "share_by_chance"] == pytest.approx(20 / 55)
    assert pd.isna(summary.loc["b", "share"])


def test_two_conditions_from_end_to_end(finished):
    out, text = finished
    table = pd.read_csv(out / "sachs.csv", keep_default_na=False)
    assert list(table["method"]) == ["order", "dci-c"]
    assert list(table["rows_first"]) == [853, 853]
    assert (table["pairs"] == [len(edges.split("; ")) for edges in table["edges"]]).all()
    assert "joins 20 of 55 pairs: a share of 0.36 by chance" in text
    assert list(pd.read_csv(out / "sachs-times.csv")["method"]) == ["order", "dci-c"]


def test_an_interrupted_run_ends_the_same(settings, finished, tmp_path):
    whole, _ = finished
    lines = (whole / "sachs.journal").read_bytes().splitlines(keepends=True)
    (tmp_path / "sachs.journal").write_bytes(b"".join(lines[:-1]) + lines[-1][:50])
    run(sachs.EXPERIMENT, settings, tmp_path, jobs=1)
    for name in ("sachs.csv", "sachs-summary.csv"):
        assert (whole / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_it_has_its_own_data(tmp_path, capsys):
    assert cli.run(["reproduce", "sachs", "--data", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "'sachs' has its own data; --data is for brain, chambers, nodes" in capsys.readouterr().err


@pytest.mark.slow
def test_the_small_version_by_the_command_line(tmp_path):
    assert cli.run(["reproduce", "sachs", "--quick", "--jobs", "1", "--out", str(tmp_path)]) == 0
    assert len(pd.read_csv(tmp_path / "sachs.csv")) == 6 * 3
