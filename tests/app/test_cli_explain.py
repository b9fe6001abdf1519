"""`diffdag explain`: words on stdout, JSON, figures, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

import diffdag as dd
from diffdag.__main__ import run

NAMES = ("X", "M", "Y")


def models() -> list[dd.LinearSEM]:
    weights = np.zeros((3, 3))
    weights[1, 0], weights[2, 1] = 1.0, 1.0
    after = weights.copy()
    after[1, 0] = 2.0
    about = {"noise_variances": np.ones(3), "names": NAMES, "intercepts": np.array([3.0, 0.0, 0.0])}
    return [dd.LinearSEM(weights, **about), dd.LinearSEM(after, **about)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explain") / "answer"
    moments = [model.sample_moments(1000, rng=k) for k, model in enumerate(models())]
    dd.DifferenceDAG().fit_moments(*moments).result_.save(folder)
    return folder


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    folder = tmp_path_factory.mktemp("several") / "answer"
    one, two = models()
    tables = {"a": one.sample_moments(1000, rng=1)}
    tables |= {name: two.sample_moments(1000, rng=k) for k, name in enumerate("bc")}
    dd.fit_conditions(tables, reference="a").save(folder)
    return folder


def test_words(saved, capsys):
    assert run(["explain", str(saved / "result.json"), "--target", "Y"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("Why did Y move from first to second?\nmean: from ")
    assert "X -> M" in said.out
    assert "unexplained" in said.out
    assert said.err == ""


def test_json_and_nothing_else(saved, capsys):
    assert run(["explain", str(saved), "--target", "Y", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["target"] == "Y"
    for what in ("mean", "variance"):
        whole = sum(part[what] for part in content["parts"]) + content["unexplained"][what]
        assert whole == pytest.approx(content["observed"][what]["change"], abs=1e-9)
    assert {part["mechanism"] for part in content["parts"]} >= {"X -> M"}


@pytest.mark.parametrize(("ending", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")])
def test_figures(saved, tmp_path, capsys, ending, start):
    path = tmp_path / f"why.{ending}"
    assert run(["explain", str(saved), "--target", "Y", "--out", str(path)]) == 0
    assert path.read_bytes().startswith(start)
    assert str(path) in capsys.readouterr().out


def test_several_comparisons(several, tmp_path, capsys):
    assert run(["explain", str(several), "--target", "Y"]) == 0
    assert capsys.readouterr().out.count("Why did Y move from a to") == 2
    assert run(["explain", str(several), "--target", "Y", "--json"]) == 0
    assert [one["second"] for one in json.loads(capsys.readouterr().out)] == ["b", "c"]
    assert run(["explain", str(several), "--target", "Y", "--out", str(tmp_path / "why.pdf")]) == 2
    assert "a figure shows one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--target", "y"],
            "--target names 'y', which is not a variable here; did you mean 'Y'?",
        ),
        (["--target", "Y", "--out", "why.txt"], "has no ending that is known here"),
        (["--target", "Y", "--out", "nowhere/why.svg"], "in none that exists"),
        ([], "--target"),
    ],
)
def test_what_is_refused(saved, capsys, arguments, words):
    assert run(["explain", str(saved), *arguments]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.out == ""
    assert said.err.count("\n") == 1


def test_a_result_of_the_papers_method(tmp_path, capsys):
    one, two = (model.sample_moments(1000, rng=k) for k, model in enumerate(models()))
    dd.DifferenceDAG(method="paper").fit_moments(one, two).result_.save(tmp_path / "paper")
    assert run(["explain", str(tmp_path / "paper"), "--target", "Y"]) == 2
    assert "only --method order has" in capsys.readouterr().err
